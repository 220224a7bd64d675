/* SPDX-License-Identifier: MIT
 *
 * An allocator that fails when told to, for the public `allocator` option, and that knows what is
 * still out. The order to fail is one per process (fault_after); the count of what is out is one
 * per `struct fault`. Thread-safe.
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

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

struct fault {
  _Atomic long live;       /* allocations not yet given back */
  _Atomic long live_bytes; /* and what they hold */
  _Atomic long peak_bytes; /* the most they ever held */
  _Atomic long total;      /* allocations granted so far */
};

void fault_init(struct fault *f);
uvs_allocator_t fault_option(struct fault *f);

void fault_after(long n); /* let n allocations pass, fail the next one, and then none */
void fault_from(long n);  /* let n allocations pass, fail all that follow */
bool fault_hit(void);     /* did one fail since? Ends the order. */

#endif
