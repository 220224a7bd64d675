/* SPDX-License-Identifier: MIT
 *
 * What the library needs of libuv and of the system, for strands: locks, one loop, its pool, time.
 * The weave programs are not linked with libuv; model.c has all that src/ calls, by the same names.
 */
#ifndef WEAVE_MODEL_H
#define WEAVE_MODEL_H

#include <uv.h>

#include <stdbool.h>

/* At the start of a schedule: no handles, no jobs; and so many strands are libuv's pool. */
void model_reset(int pool_threads);
uv_loop_t *model_loop(void);
/* One pass of the loop, which sleeps if there is nothing to do. False: all others sleep for ever,
 * and so would it. Strand 0. */
bool model_turn(void);
/* Somebody else keeps the loop until then. */
void model_guest_until(uint64_t ns);
/* Would uv_run stay? */
bool model_alive(void);
/* Nothing of the loop's is left: handles, requests. */
void model_check_closed(void);
/* Nor a lock or a condition. */
void model_check_locks(void);
/* So many sleep there. */
unsigned model_sleepers(uv_cond_t *c);
/* Time passes, whatever is going on. */
void model_pass_ms(uint64_t ms);

#endif
