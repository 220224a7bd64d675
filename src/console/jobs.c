/* SPDX-License-Identifier: MIT
 *
 * jobs: durable jobs, through the table of functions of uvsched/console_jobs.h.
 *
 * Each call on the store answers later, on the loop. Counting the jobs of a store takes time (0.3 s
 * for a million) and keeps the store from other work. So the statistics are asked for again only
 * after a pause of 2 s and of twenty times what they took; in between, the last ones are shown.
 */
#include "console/server.h"

#include "console/alloc.h"
#include "console/json.h"
#include "console/query.h"

#include <string.h>

#define STATS_GAP_NS UVS_SEC(2)
#define STATS_SHARE 20
#define LIST_MAX 100
#define TEXT_MAX 200 /* bytes of a text that are shown */

/* ---- statistics ---- */

static void write_stats(struct uvs__json *j, const uvs_jobs_stats_t *stats) {
  uvs__json_uint(j, "pending", stats->pending);
  uvs__json_uint(j, "overdue", stats->overdue);
  uvs__json_uint(j, "running", stats->running);
  uvs__json_uint(j, "dead", stats->dead);
  uvs__json_int(j, "oldest_overdue_ns", stats->oldest_overdue_ns);
  uvs__json_uint(j, "done_here", stats->done);
  uvs__json_uint(j, "failed_here", stats->failed);
  uvs__json_open(j, "queues", '[');
  for (size_t i = 0; i < stats->n_queues && i < LIST_MAX; i++) {
    const uvs_queue_stats_t *q = &stats->queues[i];

    uvs__json_open(j, NULL, '{');
    uvs__json_string(j, "queue", q->queue);
    uvs__json_bool(j, "paused", q->paused);
    uvs__json_uint(j, "pending", q->pending);
    uvs__json_uint(j, "overdue", q->overdue);
    uvs__json_uint(j, "running", q->running);
    uvs__json_uint(j, "dead", q->dead);
    uvs__json_int(j, "oldest_overdue_ns", q->oldest_overdue_ns);
    uvs__json_close(j, '}');
  }
  uvs__json_close(j, ']');
}

/* ---- the list ---- */

static int64_t wall_now(void) {
  uv_timeval64_t t;

  return uv_gettimeofday(&t) < 0 ? 0 : UVS_SEC(t.tv_sec) + UVS_US(t.tv_usec);
}

static void write_job(struct uvs__json *j, const uvs_console_jobs_t *table,
                      const uvs_job_info_t *job, int64_t now_ns) {
  size_t n = strlen(job->error);

  uvs__json_open(j, NULL, '{');
  uvs__json_string(j, "id", job->id);
  uvs__json_string(j, "name", job->name);
  uvs__json_string(j, "queue", job->queue);
  uvs__json_string(j, "state", table->state_name(job->state));
  uvs__json_int(j, "due_in_ns", job->due_ns - now_ns);
  uvs__json_uint(j, "attempts", job->attempts);
  uvs__json_uint(j, "crashes", job->crashes);
  uvs__json_bytes(j, "error", job->error, n > TEXT_MAX ? TEXT_MAX : n);
  uvs__json_close(j, '}');
}

static void on_list(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                    int64_t next, void *arg) {
  struct uvs__request *r = uvs__later_end(arg);
  struct uvs__text text = {NULL, 0, 0};
  struct uvs__json j;

  (void)jobs;
  if (r == NULL)
    return;
  if (status < 0) {
    uvs__request_answer(r, MHD_HTTP_SERVICE_UNAVAILABLE,
                        uvs__answer_error("the store does not work"));
    return;
  }
  uvs__json_init(&j, uvs__text_write, &text);
  uvs__json_open(&j, NULL, '{');
  if (r->console->jobs_text.size > 0) {
    uvs__json_open(&j, "stats", '{');
    uvs__json_raw(&j, r->console->jobs_text.data, r->console->jobs_text.size);
    uvs__json_close(&j, '}');
  }
  uvs__json_open(&j, "jobs", '[');
  for (size_t i = 0; i < n && i < LIST_MAX; i++)
    write_job(&j, &r->console->jobs, &list[i], wall_now());
  uvs__json_close(&j, ']');
  uvs__json_id(&j, "next", (uint64_t)next);
  uvs__json_close(&j, '}');
  if (uvs__json_end(&j) != 0)
    uvs__text_free(&text);
  uvs__request_answer(r, MHD_HTTP_OK, uvs__answer_text("application/json", &text));
}

/* Reads the filter of the query. `texts` keeps its strings. */
static int read_filter(const char *target, uvs_job_filter_t *f, char texts[2][UVS_JOB_ID_MAX + 1]) {
  static const char *const states[] = {"open", "pending", "running", "held", "done", "dead", NULL};
  int state = 0, id, queue;

  uvs_job_filter_init(f);
  id = uvs__query_text(target, "id", texts[0], UVS_JOB_ID_MAX + 1);
  queue = uvs__query_text(target, "queue", texts[1], UVS_JOB_ID_MAX + 1);
  if (uvs__query_word(target, "state", states, &state) < 0 || id == UV_EINVAL || queue == UV_EINVAL)
    return UV_EINVAL;
  if (id > 0)
    f->id = texts[0];
  if (queue > 0)
    f->queue = texts[1];
  f->state = state; /* the words are in the order of UVS_JOB_PENDING ... UVS_JOB_DEAD */
  return 0;
}

static int ask_list(struct uvs__request *r) {
  char texts[2][UVS_JOB_ID_MAX + 1];
  struct uvs__later *call;
  uvs_job_filter_t f;
  uint64_t cursor = 0;
  int rc = read_filter(r->target, &f, texts);

  if (rc < 0 || uvs__query_uint(r->target, "cursor", 0, INT64_MAX, &cursor) < 0)
    return UV_EINVAL;
  call = uvs__later_begin(r);
  if (call == NULL)
    return UV_ENOMEM;
  rc = r->console->jobs.list(r->console->jobs.jobs, &f, (int64_t)cursor, LIST_MAX, on_list, call);
  if (rc < 0)
    uvs__later_end(call);
  return rc;
}

static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  struct uvs__later *call = arg;
  struct uvs_console_s *c = call->console;
  uint64_t now_ns = uv_hrtime(), took_ns = now_ns - call->began_ns;
  struct uvs__request *r;
  struct uvs__json j;
  int rc;

  (void)jobs;
  c->jobs_next_ns = now_ns + STATS_GAP_NS;
  if (took_ns * STATS_SHARE > STATS_GAP_NS)
    c->jobs_next_ns = now_ns + took_ns * STATS_SHARE;
  c->jobs_text.size = 0;
  if (status == 0) {
    uvs__json_init(&j, uvs__text_write, &c->jobs_text);
    write_stats(&j, stats);
    if (uvs__json_end(&j) != 0)
      c->jobs_text.size = 0;
  }
  r = uvs__later_end(call);
  if (r == NULL)
    return;
  rc = ask_list(r);
  if (rc < 0)
    uvs__request_say(r, rc, 0);
}

enum MHD_Result uvs__console_get_jobs(struct uvs__request *r) {
  struct uvs_console_s *c = r->console;
  uint64_t now_ns = uv_hrtime();
  int rc;

  if (c->jobs.jobs == NULL)
    return uvs__answer_queue(r->connection, MHD_HTTP_NOT_FOUND,
                             uvs__answer_error("this program shows no durable jobs"));
  if (now_ns < c->jobs_next_ns) {
    rc = ask_list(r);
  } else {
    struct uvs__later *call = uvs__later_begin(r);

    c->jobs_next_ns = UINT64_MAX; /* one at a time */
    rc = call == NULL ? UV_ENOMEM : c->jobs.stats(c->jobs.jobs, on_stats, call);
    if (rc < 0) {
      c->jobs_next_ns = now_ns + STATS_GAP_NS;
      if (call != NULL)
        uvs__later_end(call);
    }
  }
  if (rc < 0)
    return uvs__answer_queue(
        r->connection, rc == UV_EINVAL ? MHD_HTTP_BAD_REQUEST : MHD_HTTP_SERVICE_UNAVAILABLE,
        uvs__answer_error(rc == UV_EINVAL ? "a parameter is wrong" : "the store does not work"));
  uvs__request_suspend(r);
  return MHD_YES;
}

void uvs__console_free_jobs(struct uvs_console_s *c) {
  uvs__text_free(&c->jobs_text);
}

/* ---- actions ---- */

static void on_count(uvs_jobs_t *jobs, int status, uint64_t count, void *arg) {
  struct uvs__request *r = uvs__later_end(arg);

  (void)jobs;
  if (r != NULL)
    uvs__request_say(r, status, count);
}

static void on_cancelled(uvs_jobs_t *jobs, int status, void *arg) {
  on_count(jobs, status < 0 ? status : 0, 1, arg);
}

/* Begins a call for an action on the jobs that the query selects. */
static int begin_action(struct uvs__request *r, uvs_job_filter_t *f,
                        char texts[2][UVS_JOB_ID_MAX + 1]) {
  if (r->console->jobs.jobs == NULL)
    return UV_ENOENT;
  if (read_filter(r->target, f, texts) < 0 || (f->id == NULL && f->queue == NULL))
    return UV_EINVAL;
  return uvs__later_begin(r) == NULL ? UV_ENOMEM : 0;
}

int uvs__console_redrive(struct uvs__request *r) {
  char texts[2][UVS_JOB_ID_MAX + 1];
  uvs_job_filter_t f;
  int rc = begin_action(r, &f, texts);

  if (rc < 0)
    return rc;
  f.state = 0;
  rc = r->console->jobs.redrive(r->console->jobs.jobs, &f, on_count, r->later);
  if (rc < 0)
    uvs__later_end(r->later);
  return rc < 0 ? rc : UVS_PENDING;
}

int uvs__console_cancel_job(struct uvs__request *r) {
  char texts[2][UVS_JOB_ID_MAX + 1];
  uvs_job_filter_t f;
  int rc = begin_action(r, &f, texts);

  if (rc < 0)
    return rc;
  rc = f.id == NULL ? UV_EINVAL
                    : r->console->jobs.cancel(r->console->jobs.jobs, f.id, on_cancelled, r->later);
  if (rc < 0)
    uvs__later_end(r->later);
  return rc < 0 ? rc : UVS_PENDING;
}
