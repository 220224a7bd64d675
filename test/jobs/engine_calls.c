/* SPDX-License-Identifier: MIT
 *
 * engine_calls: makes calls of an open store, and returns the answers of their callbacks.
 */
#include <stdarg.h>
#include <string.h>

#include "engine_fixture.h"

static void must(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "engine_calls: %s\n", what);
  abort();
}

/* ---------------------------------------------------------------- answers --- */

void answer_init(struct answer *a, struct engine *f) {
  memset(a, 0, sizeof *a);
  a->f = f;
  a->status = NO_ANSWER;
}

static struct answer *begin(void *arg, int status) {
  struct answer *a = arg;

  must(engine_is_on_loop(a->f), "a callback on another thread");
  a->f->activity++;
  a->calls++;
  a->status = status;
  return a;
}

__attribute__((format(printf, 2, 3))) static void add(struct answer *a, const char *format, ...) {
  size_t length = strlen(a->text);
  va_list args;

  va_start(args, format);
  must(vsnprintf(a->text + length, sizeof a->text - length, format, args) <
           (int)(sizeof a->text - length),
       "an answer is too long");
  va_end(args);
}

void answer_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct answer *a = begin(arg, results[0].status);

  (void)jobs;
  a->count = n;
  snprintf(a->id, sizeof a->id, "%s", results[0].id);
  for (size_t i = 0; i < n && i < 100; i++)
    add(a, "%s%s:%d", i == 0 ? "" : " ", results[i].id, results[i].status);
}

void answer_status(uvs_jobs_t *jobs, int status, void *arg) {
  (void)jobs;
  begin(arg, status);
}

static void copy_bytes(char *to, size_t size, const void *from, size_t n) {
  must(n < size, "bytes are too many");
  if (n > 0)
    memcpy(to, from, n);
  to[n] = '\0';
}

static void copy_string(char *to, size_t size, const char *from) {
  snprintf(to, size, "%s", from == NULL ? "(null)" : from);
}

void answer_info(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  struct answer *a = begin(arg, status);

  (void)jobs;
  must((info == NULL) == (status != 0), "info comes with status 0 only");
  if (info == NULL)
    return;
  a->info = *info;
  a->text[0] = '\0';
  copy_string(a->id, sizeof a->id, info->id);
  copy_string(a->name, sizeof a->name, info->name);
  copy_string(a->queue, sizeof a->queue, info->queue);
  copy_string(a->key, sizeof a->key, info->key);
  copy_string(a->error, sizeof a->error, info->error);
  copy_bytes(a->payload, sizeof a->payload, info->payload, info->payload_size);
  copy_bytes(a->meta, sizeof a->meta, info->meta, info->meta_size);
  copy_bytes(a->progress, sizeof a->progress, info->progress, info->progress_size);
  copy_bytes(a->text, sizeof a->text, info->result, info->result_size);
}

static void answer_list(uvs_jobs_t *jobs, int status, const uvs_job_info_t *list, size_t n,
                        int64_t next, void *arg) {
  struct answer *a = begin(arg, status);

  (void)jobs;
  a->count = n;
  a->next = next;
  for (size_t i = 0; i < n; i++)
    add(a, "%s%s", i == 0 ? "" : " ", list[i].id);
}

static void answer_count(uvs_jobs_t *jobs, int status, uint64_t count, void *arg) {
  struct answer *a = begin(arg, status);

  (void)jobs;
  a->count = count;
}

static void answer_crons(uvs_jobs_t *jobs, int status, const uvs_cron_info_t *list, size_t n,
                         void *arg) {
  struct answer *a = begin(arg, status);

  (void)jobs;
  a->count = n;
  for (size_t i = 0; i < n; i++) {
    add(a, "%s%s r%llu %s %s %s %s", i == 0 ? "" : "; ", list[i].name,
        (unsigned long long)list[i].revision, list[i].expression, list[i].zone, list[i].job_name,
        list[i].queue);
    a->next = list[i].next_ns;
    a->info.due_ns = list[i].last_ns;
  }
}

static void answer_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  struct answer *a = begin(arg, status);

  (void)jobs;
  must((stats == NULL) == (status != 0), "stats come with status 0 only");
  if (stats == NULL)
    return;
  a->stats = *stats;
  must(stats->n_queues <= sizeof a->queues / sizeof *a->queues, "too many queues");
  for (size_t i = 0; i < stats->n_queues; i++) {
    a->queues[i] = stats->queues[i];
    add(a, "%s%s", i == 0 ? "" : " ", stats->queues[i].queue);
  }
}

/* ------------------------------------------------------------------ calls --- */

static uvs_jobs_t *at(struct engine *f) {
  return f->nodes[f->to].jobs;
}

/* Runs until the callback has come. */
static int settle(struct engine *f, int rc) {
  engine_quiesce(f);
  must(f->last.calls == (rc == 0), "a callback did not come exactly once");
  return rc != 0 ? rc : f->last.status;
}

uvs_job_spec_t engine_spec(const char *name, const char *id) {
  uvs_job_spec_t spec;

  uvs_job_spec_init(&spec);
  spec.name = name;
  spec.id = id;
  spec.keep_done_ns = UVS_DAY(1);
  return spec;
}

int engine_put(struct engine *f, const uvs_job_spec_t *spec) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_put(at(f), spec, answer_put, &f->last));
}

int engine_put_simple(struct engine *f, const char *name, const char *id, int64_t delay_ns) {
  uvs_job_spec_t spec = engine_spec(name, id);

  spec.delay_ns = delay_ns;
  return engine_put(f, &spec);
}

int engine_cancel(struct engine *f, const char *id) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_cancel(at(f), id, answer_status, &f->last));
}

int engine_move(struct engine *f, const char *id, int64_t delay_ns, int64_t at_ns) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_move(at(f), id, delay_ns, at_ns, answer_status, &f->last));
}

int engine_get(struct engine *f, const char *id) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_get(at(f), id, answer_info, &f->last));
}

int engine_state(struct engine *f, const char *id) {
  int rc = engine_get(f, id);

  return rc != 0 ? rc : f->last.info.state;
}

int engine_list(struct engine *f, const uvs_job_filter_t *filter, int64_t cursor, uint32_t limit) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_list(at(f), filter, cursor, limit, answer_list, &f->last));
}

int engine_redrive(struct engine *f, const uvs_job_filter_t *filter) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_redrive(at(f), filter, answer_count, &f->last));
}

int engine_purge(struct engine *f, const uvs_job_filter_t *filter) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_purge(at(f), filter, answer_count, &f->last));
}

uvs_job_queue_t engine_queue(const char *name) {
  uvs_job_queue_t q;

  uvs_job_queue_init(&q);
  q.name = name;
  return q;
}

int engine_set_queue(struct engine *f, const uvs_job_queue_t *q) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_set_queue(at(f), q, answer_status, &f->last));
}

uvs_job_cron_t engine_cron_spec(const char *name, const char *expression) {
  uvs_job_cron_t c;

  uvs_job_cron_init(&c);
  c.name = name;
  c.expression = expression;
  c.spec.name = "n";
  return c;
}

int engine_cron(struct engine *f, const uvs_job_cron_t *c) {
  char text[300];

  answer_init(&f->last, f);
  return settle(f, uvs_jobs_cron(at(f), c, answer_status, &f->last, text, sizeof text));
}

int engine_remove_cron(struct engine *f, const char *name) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_remove_cron(at(f), name, answer_status, &f->last));
}

int engine_crons(struct engine *f) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_crons(at(f), answer_crons, &f->last));
}

int engine_stats(struct engine *f) {
  answer_init(&f->last, f);
  return settle(f, uvs_jobs_stats(at(f), answer_stats, &f->last));
}

int engine_wait(struct engine *f, struct answer *a, const char *id, int64_t timeout_ns) {
  int rc;

  answer_init(a, f);
  rc = uvs_jobs_wait(at(f), id, timeout_ns, answer_info, a);
  engine_quiesce(f);
  return rc;
}
