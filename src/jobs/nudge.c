/* SPDX-License-Identifier: MIT
 *
 * nudge: calls that make the keeper look at the store and the clock, or say when it would look.
 */
#include "jobs/engine.h"

#include "jobs/alloc.h"

static void on_nudge(struct uvs__message *m, void *to) {
  uvs_jobs_t *jobs = to;

  uvs__jobs_free(m);
  jobs->keeper.housekeeping_ns = 0; /* this pass looks at the clock, and outside */
  uvs__workers_due(jobs);
}

static int nudge(uvs_jobs_t *jobs) {
  struct uvs__message *m;

  if (jobs == NULL)
    return UV_EINVAL;
  m = uvs__jobs_alloc(sizeof *m);
  if (m == NULL)
    return UV_ENOMEM;
  m->receive = on_nudge;
  if (uvs__keeper_send(jobs, m))
    return 0;
  uvs__jobs_free(m);
  return UV_ESHUTDOWN;
}

int uvs_jobs_wake(uvs_jobs_t *jobs) {
  /* While the store is being closed, a thread that calls this again and again must not delay the
   * end of the keeper. */
  return jobs != NULL && atomic_load(&jobs->closing) ? UV_ESHUTDOWN : nudge(jobs);
}

int uvs_jobs_clock_changed(uvs_jobs_t *jobs) {
  return nudge(jobs);
}

static void on_next_due(struct uvs__message *m, void *to) {
  struct uvs__next_due *n = UVS__OWNER(m, struct uvs__next_due, message);
  uvs_jobs_t *jobs = to;

  n->next = jobs->keeper.next_due;
  jobs->keeper.next_due = n;
}

int uvs_jobs_next_due(uvs_jobs_t *jobs, int64_t *ret_ns) {
  struct uvs__next_due n = {0};
  int rc;

  if (jobs == NULL || ret_ns == NULL)
    return UV_EINVAL;
  rc = uv_sem_init(&n.done, 0);
  if (rc != 0)
    return rc;
  n.message.receive = on_next_due;
  if (uvs__keeper_send(jobs, &n.message)) {
    uv_sem_wait(&n.done);
    *ret_ns = n.due_ns;
  } else {
    rc = UV_ESHUTDOWN;
  }
  uv_sem_destroy(&n.done);
  return rc;
}
