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
/* The loop's own next time, by timer or alarm; 0: none. */
uint64_t model_sleeps_until(void);
/* Somebody else keeps the loop until then. */
void model_guest_until(uint64_t ns);
/* Would uv_run stay? */
bool model_alive(void);
/* Nothing of the loop's is left: handles, requests. */
void model_check_closed(void);
/* Nor a lock or a condition. */
void model_check_locks(void);
/* Under this lock there is no user code and no system call; does this strand have it? */
void model_guard(uv_mutex_t *m);
bool model_is_guarded(void);
/* Time passes, whatever is going on. */
void model_pass_ms(uint64_t ms);

#endif
