/* SPDX-License-Identifier: MIT
 *
 * A model of libuv and of the system for strands: locks, one loop, its pool, time. The weave
 * programs are not linked with libuv. model.c defines every function that src/ calls, under the
 * same name.
 */
#ifndef WEAVE_MODEL_H
#define WEAVE_MODEL_H

#include <uv.h>

#include <stdbool.h>

/* The wall clock is the other clock plus this. It is never set. */
#define MODEL_WALL_S 1700000000

/* At the start of a schedule: no handles, no jobs, and `pool_threads` strands as libuv's pool. */
void model_reset(int pool_threads);
uv_loop_t *model_loop(void);
/* One pass of the loop, which sleeps if there is nothing to do. Returns false if all strands sleep
 * for ever and the loop would too. Strand 0 only. */
bool model_turn(void);
/* The loop's own next wake-up by timer or alarm; 0: none. */
uint64_t model_sleeps_until(void);
/* Another handle keeps the loop alive until then. */
void model_guest_until(uint64_t ns);
/* Would uv_run continue? */
bool model_alive(void);
/* Fails if a handle or a request of the loop is left. */
void model_check_closed(void);
/* Fails if a lock or a condition is left. */
void model_check_locks(void);
/* Sets the lock under which no user code and no system call may run. */
void model_guard(uv_mutex_t *m);
bool model_is_guarded(void);
/* Time passes, whatever the strands do. */
void model_pass_ms(uint64_t ms);

#endif
