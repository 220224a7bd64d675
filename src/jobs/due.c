/* SPDX-License-Identifier: MIT
 *
 * due: when a worker asks for jobs. A worker sleeps until the first job of its queue is due, but
 * for at most 30 s: then it asks the store again, in case a wake-up was missed. Waking a worker too
 * early, or twice, costs only one empty claim.
 */
#include "jobs/run.h"

#include <string.h>

#include "jobs/alloc.h"

#define LONGEST_SLEEP_NS UVS_SEC(30)

static void on_due(struct uvs__timer *t, int64_t now_ns) {
  (void)now_ns;
  UVS__OWNER(t, struct uvs__worker, due)->wanted = true;
}

void uvs__worker_sleep_for(struct uvs__worker *w, int64_t ns) {
  uvs_jobs_t *jobs = w->jobs;

  if (!uvs__clock_is_replaced(jobs) && ns > LONGEST_SLEEP_NS)
    ns = LONGEST_SLEEP_NS;
  uvs__timer_set(&jobs->keeper.timers, &w->due, uvs__later_ns(uvs__mono_ns(jobs), ns), on_due);
}

void uvs__worker_sleep_until(struct uvs__worker *w, int64_t now_us, int64_t due_us) {
  if (due_us <= now_us)
    w->wanted = true;
  else if (due_us < UVS__NEVER_US)
    uvs__worker_sleep_for(w, (due_us - now_us) * 1000);
  else if (!uvs__clock_is_replaced(w->jobs))
    uvs__worker_sleep_for(w, LONGEST_SLEEP_NS);
}

void uvs__worker_wake_at(struct uvs__worker *w, int64_t due_ns) {
  if (w->due.fire == NULL || due_ns < w->due.due_ns)
    uvs__timer_set(&w->jobs->keeper.timers, &w->due, due_ns, on_due);
}

struct uvs__worker *uvs__worker_find(uvs_jobs_t *jobs, const char *queue) {
  struct uvs__worker *w = jobs->keeper.workers;

  while (w != NULL && strcmp(w->queue, queue) != 0)
    w = w->next;
  return w;
}

void uvs__worker_due(uvs_jobs_t *jobs, const char *queue, int64_t due_us) {
  struct uvs__store *store = jobs->keeper.store;
  struct uvs__worker *w = uvs__worker_find(jobs, queue);
  int64_t now_us, due_ns;

  if (w == NULL || w->wanted)
    return;
  now_us = store->ops->now_us(store);
  due_ns = uvs__later_ns(uvs__mono_ns(jobs), due_us <= now_us ? 0 : (due_us - now_us) * 1000);
  if (w->due.fire == NULL || due_ns < w->due.due_ns)
    uvs__worker_sleep_until(w, now_us, due_us);
}

/* A claim that is on its way may have been carried out before the job was put. Its answer would set
 * the timer again. */
void uvs__worker_woken(uvs_jobs_t *jobs, const char *queue, int64_t due_us) {
  struct uvs__worker *w = uvs__worker_find(jobs, queue);

  if (w != NULL && w->asking)
    w->wanted = true;
  else
    uvs__worker_due(jobs, queue, due_us);
}

void uvs__workers_due(uvs_jobs_t *jobs) {
  for (struct uvs__worker *w = jobs->keeper.workers; w != NULL; w = w->next)
    w->wanted = true;
}

void uvs__worker_place_free(struct uvs__worker *w) {
  w->running--;
  w->wanted = true;
}

/* A claim that is on its way will find the job: a batch carries out settles before claims. */
void uvs__worker_settled(struct uvs__worker *w) {
  if (!w->asking)
    w->wanted = true;
}

void uvs__workers_stop(uvs_jobs_t *jobs) {
  for (struct uvs__worker *w = jobs->keeper.workers; w != NULL; w = w->next)
    uvs__timer_clear(&jobs->keeper.timers, &w->due);
}

void uvs__workers_free(uvs_jobs_t *jobs) {
  while (jobs->keeper.workers != NULL) {
    struct uvs__worker *w = jobs->keeper.workers;

    jobs->keeper.workers = w->next;
    while (w->spare != NULL) {
      struct uvs__run *run = w->spare;

      w->spare = run->spare;
      uvs__jobs_free(run);
    }
    uvs__jobs_free(w);
  }
}
