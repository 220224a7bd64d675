/* SPDX-License-Identifier: MIT
 *
 * crew: the runners of an executor: opened, resized, sent, and returned. See core/crew.h.
 */
#ifndef UVS__POOL_CREW_H
#define UVS__POOL_CREW_H

#include "pool/runner.h"

#define UVS__CONCURRENCY_MAX 1024

/* Where bodies run, from the options of a scheduler or a lane. */
struct uvs__crew_options {
  const struct uvs_executor_s *executor; /* NULL: libuv's pool, or own threads */
  int threads;                           /* number of own threads; 0: none */
  const char *thread_name;
  int concurrency; /* -1: as many as the executor says ... */
  int most;        /* ... up to this */
};

/* ---- without the lock ---- */

/* Opens the crew. From now on, resizing its pool of threads wakes the loop. 0; UV_EINVAL,
 * UV_ENOMEM, or an error of uvs_threads_open. */
int uvs__crew_open(uvs_t *s, struct uvs__crew *c, const struct uvs__crew_options *o);
/* All runners of the crew are back: closes the threads that were made for it. */
void uvs__crew_close(uvs_t *s, struct uvs__crew *c);
/* asked: the number is the executor's answer, which is ignored if a caller has set another number
 * meanwhile. 0; UV_ENOMEM, and nothing has changed. */
int uvs__crew_set_concurrency(uvs_t *s, struct uvs__crew *c, int concurrency, bool asked);
void uvs__free_runners(uvs_t *s);

/* In threadpool.c. No effect if the executor is not a uvs_threads_t, or if `w` to remove is not
 * linked. */
void uvs__threads_watch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);
void uvs__threads_unwatch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);

/* ---- loop thread. Lock held, except during user code ---- */

/* If the crew follows its executor, asks how many runners make sense now. */
void uvs__crew_follow(uvs_t *s, struct uvs__crew *c);
/* Sends as many runners as there is work for. May call the error hook, and run bodies (an executor
 * may do that inside `submit`). lanes: also for the crews of lanes. Without lanes, and if the
 * scheduler's own crew uses libuv's pool, no user code is called. */
void uvs__send_runners(uvs_t *s, uint64_t now_ns, uint64_t until_ns, bool lanes);
/* Runners that have returned from an executor become idle. */
void uvs__take_back(uvs_t *s);

#endif
