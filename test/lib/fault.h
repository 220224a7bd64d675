/* SPDX-License-Identifier: MIT
 *
 * An allocator for the public `allocator` option. It fails when told to and counts the blocks that
 * were not freed. The order to fail (fault_after) exists once per process; the count is per `struct
 * fault`. Thread-safe.
 *
 *   for (long n = 0;; n++) {
 *     fault_after(n);
 *     int rc = ...;
 *     bool failed = fault_hit();
 *     ASSERT_EQ_FMT(failed ? UV_ENOMEM : 0, rc, "%d");
 *     if (!failed)
 *       break;
 *   }
 */
#ifndef TEST_FAULT_H
#define TEST_FAULT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

struct fault {
  _Atomic long live;       /* blocks not yet freed */
  _Atomic long live_bytes; /* and their bytes */
  _Atomic long peak_bytes; /* the maximum of live_bytes */
  _Atomic long total;      /* allocations granted so far */
};

void fault_init(struct fault *f);
uvs_allocator_t fault_option(struct fault *f);

void fault_after(long n); /* n allocations succeed, the next one fails, later ones succeed */
void fault_from(long n);  /* n allocations succeed, all later ones fail */
bool fault_hit(void);     /* has an allocation failed since? Then none fails any more. */

#endif
