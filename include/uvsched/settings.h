/* SPDX-License-Identifier: MIT
 *
 * Settings: change options of a scheduler while it runs, recognize its handles, and drive a
 * replaced clock.
 */
#ifndef UVSCHED_SETTINGS_H
#define UVSCHED_SETTINGS_H

#include <uvsched/hooks.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The greatest number of bodies that run at once. A change takes effect at once for tasks that are
 * not running. UV_EINVAL (below 0 or above 1024); UV_ENOMEM (the old value stays). */
UVS_API int uvs_concurrency(uvs_t *s);
UVS_API int uvs_set_concurrency(uvs_t *s, int concurrency);

/* Do tasks of this kind still run after uvs_shutdown? 1, 0 or UV_EINVAL. A change after shutdown
 * takes effect at once. */
enum { UVS_DELAYED_TASKS = 0, UVS_PERIODIC_TASKS };
UVS_API int uvs_after_shutdown(uvs_t *s, int which);
UVS_API int uvs_set_after_shutdown(uvs_t *s, int which, int on);

/* The policy for submissions above max_pending: UVS_REJECT_... UV_EINVAL (an unknown policy, or ASK
 * without the hook on_rejected). The hook is set at open; uvs_rejection_handler returns the hook,
 * or NULL.
 *
 * After shutdown a submission is refused with UV_ESHUTDOWN, whatever the policy.
 *
 * DISCARD: a discarded task takes no room.
 *
 * DISCARD_OLDEST also drops periodic tasks between two runs. It never drops a running task, a task
 * that waits for its lane or for a hook, or a task that is due at UVS_NEVER. With no candidate, the
 * new task is dropped. Tasks are dropped inside the call, on any thread.
 *
 * CALLER_RUNS accepts only one-shots that have `work` and are due now. They must not have a lane,
 * retries, a limit, jitter or a wall-clock time, and the scheduler must not have a decorate hook.
 * In uvs_submit_many this applies to every task. Tasks of uvs_all and uvs_any never run this way.
 * Other submissions are refused with UV_EAGAIN, because no task may start early. `after`, `done`
 * and counters work as for any other task. On the loop thread the body blocks the loop. A body that
 * submits may run another body inside that call. */
UVS_API int uvs_rejection_policy(uvs_t *s);
UVS_API int uvs_set_rejection_policy(uvs_t *s, int policy);
UVS_API uvs_rejected_cb uvs_rejection_handler(uvs_t *s);

/* -------------------------------------------------------- foreign handles --- */

/* 1 if h is a handle of s, for programs that walk their loop and close the handles they find.
 * Closing such a handle terminates the scheduler: submits on the loop get UV_ESHUTDOWN, and no task
 * runs any more. (Before the loop has run for the first time, submits are accepted; their tasks end
 * cancelled.) The program must still call uvs_close before uv_loop_close. Thread: loop thread.
 */
UVS_API int uvs_owns_handle(const uvs_t *s, const uv_handle_t *h);

/* ------------------------------------------------------- a replaced clock --- */

/* With uvs_options_t.clock the scheduler arms no uv_timer: the program moves the clock. Set the
 * clock to the next due instant, call uvs_clock_changed, run the loop, and repeat.
 *
 * uvs_next_due sets *ret_ns to the instant (of uvs_now) at which the scheduler next has something
 * to do. If that is now or earlier, only the loop has to run. UVS_NEVER: nothing waits. A
 * wall-clock task counts with its remaining time. Bodies that still run on the pool may change the
 * answer. Thread: loop thread. UV_EPERM; UV_EINVAL.
 *
 * uvs_clock_changed makes the scheduler read the clocks again. Thread: any. */
UVS_API int uvs_next_due(uvs_t *s, int64_t *ret_ns);
UVS_API int uvs_clock_changed(uvs_t *s);

#ifdef __cplusplus
}
#endif

#endif
