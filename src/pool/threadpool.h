/* SPDX-License-Identifier: MIT
 *
 * threadpool: listeners for the resizing of a pool of own threads. All else about such pools is in
 * uvsched/executor.h.
 */
#ifndef UVS__THREADPOOL_H
#define UVS__THREADPOOL_H

#include "core/crew.h"

/* Any thread. No effect if the executor is not one of our pools, or if nobody watches. */
void uvs__threads_watch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);
void uvs__threads_unwatch(const struct uvs_executor_s *e, struct uvs__resize_watch *w);

#endif
