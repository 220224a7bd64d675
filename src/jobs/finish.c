/* SPDX-License-Identifier: MIT
 *
 * finish: the last steps of a close, on the loop thread. The keeper has ended, and each task of a
 * handler has had its `done`.
 */
#include "jobs/run.h"

#include "jobs/alloc.h"

void uvs__jobs_destroy(uvs_jobs_t *jobs) {
  uv_mutex_destroy(&jobs->lock);
  uvs__jobs_free(jobs);
}

static void on_closed(uv_handle_t *async) {
  uvs_jobs_t *jobs = async->data;

  if (jobs->close_cb != NULL)
    jobs->close_cb(jobs, jobs->close_arg);
  /* The mailboxes must not be destroyed earlier: until the callback returns, any thread may make
   * calls, which get UV_ESHUTDOWN. */
  uvs__mailbox_destroy(&jobs->keeper.mail);
  uvs__mailbox_destroy(&jobs->user);
  while (jobs->handlers != NULL) {
    struct uvs__handler *h = jobs->handlers;

    jobs->handlers = h->next;
    uvs__jobs_free(h);
  }
  uvs__crons_free(jobs);
  uvs__jobs_destroy(jobs);
}

void uvs__close_if_ended(uvs_jobs_t *jobs) {
  if (!jobs->keeper_ended || atomic_load(&jobs->tasks) > 0)
    return;
  jobs->keeper_ended = false; /* close only once */
  uvs__mailbox_shut(&jobs->user);
  /* The keeper's last message came after all others. */
  UVS__MUST(!uvs__mailbox_receive(&jobs->user, jobs, 1));
  uv_close((uv_handle_t *)&jobs->user.async, on_closed);
}

void uvs__on_keeper_ended(struct uvs__message *m, void *to) {
  uvs_jobs_t *jobs = to;

  (void)m;
  UVS__MUST(uv_thread_join(&jobs->keeper.thread) == 0);
  jobs->keeper_ended = true;
  uvs__close_if_ended(jobs);
}
