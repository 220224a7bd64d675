/* SPDX-License-Identifier: MIT
 *
 * api: functions that the files of api/, lane/ and queue/ share. The caller does not hold the lock,
 * unless the comment says so.
 */
#ifndef UVS__API_API_H
#define UVS__API_API_H

#include "core/moves.h"
#include "core/wake.h"
#include "util/sizes.h"

/* ---- open.c ---- */

/* Is this the loop's thread, or, before the first pass, the one that opened the scheduler? */
bool uvs__owns_loop(const uvs_t *s);
/* As uvs__enter, for calls of the loop thread; also UV_EPERM. If that thread has ended, the
 * calling thread takes its place. */
int uvs__enter_loop(uvs_t *s);

/* ---- spec.c ---- */

/* A copy of the caller's spec of `size` bytes, with defaults for missing fields. */
int uvs__read_spec(const void *given, size_t size, uvs_task_t *ret);
/* 0, UV_EINVAL. */
int uvs__check_spec(const uvs_task_t *t);

/* ---- outcome.c ---- */

/* UVS_EDEADLK on the loop's thread and in a body of this scheduler; else 0. */
int uvs__may_wait(uvs_t *s);
/* `lock` is held. Waits until cond is signalled, or wakes spuriously. 0, UV_ETIMEDOUT. */
int uvs__wait_on(uv_cond_t *cond, uv_mutex_t *lock, uint64_t until_ns);
/* Lock held. Sleep until z is woken: 0; UV_EINTR (abandoned), UV_ETIMEDOUT. */
int uvs__sleep(uvs_t *s, struct uvs__sleeper *z, uint64_t until_ns);
/* Is the size of the caller's struct valid? NULL is valid, too. 0, UV_EINVAL. */
int uvs__check_outcome(const uvs_outcome_t *ret);
/* Write as much of *o as the caller's struct of `size` bytes has room for. */
void uvs__give_outcome(void *ret, size_t size, const uvs_outcome_t *o);

/* ---- submit.c ---- */

/* As uvs_submit_many, for specs that were checked and that keep their outcome. Links waiters[i],
 * whose sleeper is set, to task i in the critical section that makes the task. `given` is what the
 * rejected handler sees. */
int uvs__submit_watched(uvs_t *s, const uvs_task_t *given, const uvs_task_t *specs, size_t n,
                        uvs_id_t *ret_ids, struct uvs__waiter *waiters);

/* As uvs_submit, to this lane; the callbacks do not see the scheduler. */
int uvs__submit_to_lane(uvs_t *s, uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id);

/* ---- reject.c ---- */

bool uvs__rejection_known(int rejection, uvs_rejected_cb handler);

/* ---- histograms.c ---- */

struct uvs__runner;

const struct uvs__runner *uvs__all_runners(uvs_t *s);
/* The sum of the statistics `from` to `to` over all cells. */
void uvs__read_stats(const uvs_t *s, const struct uvs__runner *runners, int from, int to,
                     uvs_histogram_t *ret);

/* The records of all names. No lock is needed to read them: they stay as long as the scheduler. */
struct uvs__name_list {
  struct uvs__name_stat *const *of;
  int from, to; /* the records from `from` to `to` - 1 */
};
struct uvs__name_list uvs__all_names(uvs_t *s);

/* ---- cleanup.c ---- */

/* Allocates an action. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__cleanup_make(uvs_t *s, uvs_cleanup_cb cb, void *arg, unsigned flags,
                      struct uvs__cleanup **ret);
/* Lock held: is it too late to attach an action to a task or lane that is over? */
bool uvs__cleanup_refused(const uvs_t *s, bool on_loop);

#endif
