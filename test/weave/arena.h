/* SPDX-License-Identifier: MIT
 *
 * An allocator for one schedule at a time. What is freed is not used again before the next one, and
 * is filled with a pattern: who reads it finds nonsense, and who writes to it is found out at the
 * end.
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
/* Everything was given back, once, and left alone since. */
void arena_check(void);

#endif
