/* SPDX-License-Identifier: MIT
 *
 * asked: the requests that wait for the store, and which of them form the next batch. If a part of
 * the store does not work, requests about this part wait in a list of their own for 100 ms, so that
 * requests about other parts do not wait for them.
 */
#include "jobs/engine.h"

#define PART_RETRY_NS UVS_MS(100)
#define CLAIMS 2               /* index of the list of claims in `asked` */
#define UNKNOWN_NS UVS_SEC(20) /* well below UVS__REPEAT_US */
#define BATCH_PUTS 4000        /* most jobs in one transaction: heartbeats must not wait for long */
#define IN_FLIGHT_MAX 20000    /* most jobs on their way to a store that answers later */
#define JOB_BYTES 256          /* so much payload counts as one more job: 4000 of them are 1 MB */

static void append(struct uvs__list *list, struct uvs__request *r) {
  r->next = NULL;
  *list->end = r;
  list->end = &r->next;
}

void uvs__asked_init(struct uvs__keeper *k) {
  for (int i = 0; i < 3; i++)
    k->asked[i].end = &k->asked[i].first;
  k->failed.end = &k->failed.first;
}

void uvs__asked_add(struct uvs__keeper *k, struct uvs__request *r) {
  append(&k->asked[r->op == UVS__SETTLE ? 0 : r->op == UVS__CLAIM ? CLAIMS : 1], r);
}

bool uvs__asked_is_empty(const struct uvs__keeper *k) {
  return k->failed.first == NULL && k->asked[0].first == NULL && k->asked[1].first == NULL &&
         k->asked[2].first == NULL;
}

bool uvs__asked_may_repeat(const struct uvs__ask *ask, int64_t now_ns) {
  return !ask->unknown || ask->repeat == UVS__UNTIL_CLOSE ||
         now_ns - ask->failing_since_ns < UNKNOWN_NS;
}

/* A large payload counts as several jobs. So BATCH_PUTS and IN_FLIGHT_MAX also bound the bytes. */
size_t uvs__asked_jobs_of(const struct uvs__request *r) {
  const struct uvs__put_request *put = (const struct uvs__put_request *)(const void *)r;
  size_t n = 0;

  if (r->op != UVS__PUT)
    return 1;
  for (size_t i = 0; i < put->n; i++)
    n += 1 + put->puts[i].job.payload.size / JOB_BYTES;
  return n;
}

/* All waiting claims are in each batch: a worker has at most one, and a flood of puts must not keep
 * jobs from starting. */
struct uvs__request *uvs__asked_take(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;
  struct uvs__request *first = NULL, **end = &first;
  size_t taken = 0;

  for (int i = 0; i < 3; i++) {
    struct uvs__list *list = &k->asked[i];

    while (list->first != NULL &&
           (i == CLAIMS || (taken < BATCH_PUTS && k->in_flight < IN_FLIGHT_MAX))) {
      struct uvs__request *r = list->first;

      list->first = r->next;
      if (list->first == NULL)
        list->end = &list->first;
      if (!uvs__asked_may_repeat(r->owner, now_ns)) { /* this process was stopped meanwhile */
        ((struct uvs__ask *)r->owner)->answered(jobs, r->owner, UVS_EUNKNOWN);
        continue;
      }
      taken += uvs__asked_jobs_of(r);
      k->in_flight += uvs__asked_jobs_of(r);
      r->part_only = false;
      r->next = NULL;
      *end = r;
      end = &r->next;
    }
  }
  return first;
}

/* ------------------------------------------------ a part of the store that fails --- */

static void on_again(struct uvs__timer *t, int64_t now_ns) {
  struct uvs__keeper *k = UVS__OWNER(t, struct uvs__keeper, again);
  struct uvs__request *r = k->failed.first;

  (void)now_ns;
  k->failed.first = NULL;
  k->failed.end = &k->failed.first;
  while (r != NULL) {
    struct uvs__request *next = r->next;

    uvs__asked_add(k, r);
    r = next;
  }
}

void uvs__asked_add_later(uvs_jobs_t *jobs, struct uvs__request *r, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;

  if (k->failed.first == NULL)
    uvs__timer_set(&k->timers, &k->again, uvs__later_ns(now_ns, PART_RETRY_NS), on_again);
  append(&k->failed, r);
}
