/* SPDX-License-Identifier: MIT
 *
 * loop: what the loop thread does.
 */
#ifndef UVS__LOOP_LOOP_H
#define UVS__LOOP_LOOP_H

#include "core/moves.h"
#include "core/wake.h"

/* ---- loop thread, without the lock ---- */

/* One full pass: does everything there is to do. Only the async handle calls it, so that one
 * iteration of the loop has one such pass (L9). */
void uvs__pass(uvs_t *s);
/* Makes due tasks ready and sends runners. It makes no callbacks, so it may be called anywhere in
 * the loop's iteration. If there is more to do, a full pass follows. timer: the timer has fired;
 * else a runner has come back. */
void uvs__dispatch(uvs_t *s, bool timer);
/* Calls all actions of a list, in order. Each is taken off the list before it is called. */
void uvs__call_cleanups(uvs_t *s, struct uvs__cleanup **first);
/* If everything is over, closes the handles. */
void uvs__finish_close(uvs_t *s);

/* ---- parts of a pass. Lock held, except during user code and between two batches ---- */

/* After a shutdown, or after a survive policy has changed: ends the tasks that may not run. */
void uvs__apply_policies(uvs_t *s);
/* Makes the callbacks that are owed to tasks: at least one, and more until until_ns. Callbacks that
 * these cause wait for the next pass. */
void uvs__make_callbacks(uvs_t *s, uint64_t until_ns);
/* For a calendar task on the owed list with point_owed: computes its next run. */
void uvs__find_occurrence(uvs_t *s, uint32_t slot);
/* About once a minute: if the rules of a time zone have changed, calendar tasks follow them. */
void uvs__look_at_zones(uvs_t *s, uint64_t now_ns);
/* The same for clean-up actions, and for callbacks that belong to no task. */
void uvs__make_calls(uvs_t *s, uint64_t until_ns);
/* Closes the queues and disposes the lanes of a scheduler that is being closed. */
void uvs__close_parts(uvs_t *s);

/* ---- any thread, without the lock ---- */

/* The calling thread becomes the loop thread. */
void uvs__own_loop(uvs_t *s);
/* Lock held: when the first wall-clock task is due, by the monotonic clock; UVS__NEVER: none. */
uint64_t uvs__wall_due(const uvs_t *s, uint64_t wall_ns, uint64_t now_ns);
/* Does what uvs_shutdown does; at kill_ns, what uvs_shutdown_now does (UVS__NEVER: never). */
void uvs__shut(uvs_t *s, uint64_t kill_ns);
/* Does what uvs_shutdown_now does. False: it was called before. */
bool uvs__stop_now(uvs_t *s, uvs_never_ran_cb each, void *arg);
/* Disposes a lane, whose gate the caller holds. token: running bodies are asked to stop. */
void uvs__dispose(uvs_t *s, struct uvs__gate *g, bool token);

#endif
