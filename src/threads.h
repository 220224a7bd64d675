/* SPDX-License-Identifier: MIT
 *
 * threads: who wants to hear that a pool of own threads was resized. All else about such pools is
 * in uvsched/executor.h.
 */
#ifndef UVS__THREADS_H
#define UVS__THREADS_H

struct uvs_executor_s;

struct uvs__resize_watch {
  struct uvs__resize_watch *next;
  struct uvs__resize_watch **link; /* what points at it; NULL: it does not watch */
  void (*resized)(void *arg); /* any thread; a lock of the pool is held, so it must not call it */
  void *arg;
};

/* Any thread. No effect if the executor is not one of our pools, or if nobody watches. */
void uvs__threads_watch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);
void uvs__threads_unwatch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);

#endif
