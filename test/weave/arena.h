/* SPDX-License-Identifier: MIT
 *
 * An allocator for one schedule at a time. Freed memory is not reused before the next schedule and
 * is filled with a pattern: a later read gets garbage, and a later write is detected at the end.
 */
#ifndef WEAVE_ARENA_H
#define WEAVE_ARENA_H

#include <stdbool.h>

#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"

void arena_reset(void);
uvs_allocator_t arena_option(void);
/* Was this freed? */
bool arena_is_gone(const volatile void *at);
/* Everything was freed once, and not written to since. */
void arena_check(void);

#endif
