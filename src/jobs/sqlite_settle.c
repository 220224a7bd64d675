/* SPDX-License-Identifier: MIT
 *
 * sqlite_settle: SETTLE of the SQLite store, also in a transaction of the user.
 */
#include <string.h>

#include "jobs/sqlite.h"

static const struct uvs__bytes none = {NULL, 0};

static int64_t lease_end(const struct uvs__db *c, int64_t lease_us) {
  return lease_us < UVS__NEVER_US - c->now_us ? c->now_us + lease_us : UVS__NEVER_US - 1;
}

/* RETRY or RELEASE: the job is pending again, unless it was cancelled or has a successor. */
static int go_back(struct uvs__db *c, const struct uvs__row *job, const struct uvs__settle *s) {
  struct uvs__row successor;

  if (job->cancelled) {
    uvs__end_job(c, job, UVS_JOB_CANCELLED, none);
    return UVS__SETTLE_CANCELLED;
  }
  if (uvs__find_successor(c, job, &successor))
    uvs__end_job(c, job, UVS_JOB_REPLACED, none);
  else
    uvs__do(c, UVS__SQL_PENDING_AGAIN,
            UVS__ARGS(uvs__int(job->seq),
                      uvs__int(job->crashes > 0 ? UVS__CLASS_LEASED : uvs__class_of(job->priority)),
                      uvs__int(uvs__due_us(s->when, c->wall_ns)), uvs__int(job->failures),
                      uvs__int(s->op == UVS__RETRY), uvs__text(s->error)));
  return 0;
}

static int settle_run(struct uvs__db *c, struct uvs__row *job, const struct uvs__settle *s) {
  switch (s->op) {
  case UVS__EXTEND:
    uvs__do(c, UVS__SQL_EXTEND,
            UVS__ARGS(uvs__int(job->seq), uvs__int(lease_end(c, s->when.delay_us)),
                      uvs__blob(s->progress)));
    return job->cancelled ? UVS__SETTLE_CANCELLED : 0;
  case UVS__ACK:
    job->failures++;
    uvs__end_job(c, job, UVS_JOB_DONE, s->result);
    return 0;
  case UVS__DEAD:
    job->failures++;
    if (job->cancelled)
      return go_back(c, job, s);
    uvs__die(c, job, s->error);
    return 0;
  case UVS__RETRY:
    job->failures++;
    return go_back(c, job, s);
  case UVS__RELEASE:
  default:
    return go_back(c, job, s);
  }
}

/* The user has ended the job as done, in a transaction of the user. It stays done, whatever the
 * handler returns. The record lasts as long as the lease would. */
static void settle_again(struct uvs__db *c, const struct uvs__row *job,
                         const struct uvs__settle *s) {
  if (s->op == UVS__EXTEND)
    uvs__do(
        c, UVS__SQL_SETTLED_EXTEND,
        UVS__ARGS(uvs__int(job->seq), uvs__int(lease_end(c, s->when.delay_us) + UVS__REPEAT_US)));
  else if (s->op == UVS__ACK)
    uvs__do(c, UVS__SQL_SETTLED_RESULT, UVS__ARGS(uvs__int(job->seq), uvs__blob(s->result)));
}

static bool find_item(struct uvs__db *c, const char *queue, const char *rest, int64_t row,
                      struct uvs__row *ret) {
  if (row != 0 && uvs__find_row(c, queue, row, ret) && strcmp(ret->rest, rest) == 0 &&
      ret->queue == uvs__find_queue(c, queue))
    return true;
  return uvs__find(c, queue, rest, ret);
}

/* May `puts` be put? With ACK they may. With RELEASE only if the cron has a new occurrence. */
static bool puts_are_new(struct uvs__db *c, const struct uvs__settle *s) {
  if (s->op == UVS__ACK)
    return true;
  return strcmp(s->queue, UVS__CRON_QUEUE) == 0 && s->tick_last_us != 0 &&
         uvs__do(c, UVS__SQL_CRON_LAST, UVS__ARGS(uvs__text(s->rest), uvs__int(s->tick_last_us))) >
             0;
}

static void refuse_puts(struct uvs__db *c, struct uvs__settle *s, struct uvs__arena *a) {
  size_t i;

  for (i = 0; i < s->n_puts; i++) {
    s->puts[i].status = UVS_JOB_EXISTS;
    s->puts[i].due_us = 0;
    if (!uvs__arena_string(a, s->puts[i].job.rest, &s->puts[i].there))
      uvs__db_failed(c, SQLITE_NOMEM);
  }
}

/* ACK of a plain job, in one statement. keep: it was put less than UVS__REPEAT_US ago, so it leaves
 * a record. False: the job is not plain, or `keep` does not fit it, or it is not claimed. */
static bool ack_plain(struct uvs__db *c, const struct uvs__settle *s, bool keep) {
  int64_t queue = uvs__find_queue(c, s->queue), since_us = c->now_us - UVS__REPEAT_US, n;

  if (keep)
    n = uvs__do(c, UVS__SQL_ACK_AND_KEEP,
                UVS__ARGS(uvs__int(s->row), uvs__int((int64_t)s->fence), uvs__text(s->rest),
                          uvs__int(queue), uvs__int(since_us), uvs__int(UVS__REPEAT_US),
                          uvs__int(UVS_JOB_DONE), uvs__int(c->now_us), uvs__blob(s->result)));
  else
    n = uvs__do(c, UVS__SQL_ACK,
                UVS__ARGS(uvs__int(s->row), uvs__int((int64_t)s->fence), uvs__text(s->rest),
                          uvs__int(queue), uvs__int(since_us)));
  if (n > 0)
    c->acks_keep = keep;
  return n > 0;
}

void uvs__settle_item(struct uvs__db *c, struct uvs__settle *s, struct uvs__arena *a) {
  struct uvs__row job;

  s->status = UVS_ELOST;
  if (s->op == UVS__ACK && s->row != 0 && s->fence != 0 &&
      (ack_plain(c, s, c->acks_keep) || ack_plain(c, s, !c->acks_keep))) {
    s->status = 0;
  } else if (find_item(c, s->queue, s->rest, s->row, &job) && job.fence == s->fence &&
             job.fence != 0) {
    if (job.class == UVS__CLASS_LEASED) {
      s->status = settle_run(c, &job, s);
    } else {
      settle_again(c, &job, s);
      s->status = 0;
    }
  }
  if (s->n_puts == 0 && s->tick_last_us == 0)
    return;
  if (s->status == 0 && puts_are_new(c, s))
    uvs__put_jobs(c, s->puts, s->n_puts, a);
  else
    refuse_puts(c, s, a);
}

void uvs__do_settle(struct uvs__db *c, struct uvs__settle_request *r) {
  size_t i;

  for (i = 0; i < r->n && c->rc == SQLITE_OK; i++)
    uvs__settle_item(c, &r->items[i], &r->arena);
}

int uvs__settle_for_user(struct uvs__db *c, const char *queue, const char *rest, uint64_t fence,
                         struct uvs__bytes result) {
  struct uvs__end end = {
      .state = UVS_JOB_DONE, .ended_us = c->now_us, .fence = fence, .result = result};
  struct uvs__row job;

  if (fence == 0 || !uvs__find(c, queue, rest, &job) || job.fence != fence)
    return UVS_ELOST;
  if (job.class != UVS__CLASS_LEASED) /* settled already */
    return 0;
  job.failures++;
  end.keep_us = job.keep_us;
  end.least_us = (job.visible_us > c->now_us ? job.visible_us : c->now_us) + UVS__REPEAT_US;
  uvs__leave_record(c, &job, &end);
  uvs__promote(c, &job);
  return 0;
}
