/* SPDX-License-Identifier: MIT */
#include "store_fixture.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

#include "lib/tmp.h"
#include "redis_ns.h"

/* To add a store, add a line. */
static const struct store_kind kinds[] = {
    {"memory", uvs__memory_open, false, false},
    {"sqlite", uvs__sqlite_open, true, false},
    {"redis", uvs__redis_open, true, true},
};

const struct store_kind *store_kind;

static void must(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "store_fixture: %s\n", what);
  abort();
}

const struct store_kind *store_kind_named(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    if (strcmp(kinds[i].name, name) == 0 && (!kinds[i].server || redis_ns_is_built()))
      return &kinds[i];
  }
  return NULL;
}

bool store_choose(size_t i) {
  const char *only = getenv("STORE");

  if (i >= sizeof kinds / sizeof *kinds)
    return false;
  if (only == NULL)
    store_kind = kinds[i].server ? NULL : &kinds[i];
  else
    store_kind = strcmp(only, kinds[i].name) == 0 ? store_kind_named(only) : NULL;
  if (store_kind != NULL)
    printf("\nstore: %s\n", store_kind->name);
  return true;
}

/* ---------------------------------------------------------- open and close --- */

static int64_t read_clock(void *arg) {
  return *(int64_t *)arg;
}

static int open_one(struct store_fixture *f, struct uvs__store **ret) {
  struct uvs__store_config config = {f->name, {NULL, read_clock, &f->wall_ns}, false};
  char text[300] = "";
  int rc = f->kind->open(&config, ret, text, sizeof text);

  if (rc != 0)
    fprintf(stderr, "store_fixture: %s\n", text);
  else
    store_start(*ret);
  f->at = *ret;
  return rc;
}

void store_init(struct store_fixture *f) {
  static unsigned stores;

  memset(f, 0, sizeof *f);
  f->kind = store_kind;
  f->wall_ns = INT64_C(1700000000000000000);
  f->lease_us = 10 * SEC;
  f->max_crashed = 1000;
  if (f->kind->server) {
    redis_ns_name(f->name, sizeof f->name);
  } else if (f->kind->keeps) {
    snprintf(f->folder, sizeof f->folder, "%s/uvsched-store-XXXXXX", tmp_root());
    must(mkdtemp(f->folder) != NULL, "mkdtemp");
    snprintf(f->name, sizeof f->name, "%s/jobs.db", f->folder);
  } else {
    snprintf(f->name, sizeof f->name, "test-%u", stores++);
  }
  must(open_one(f, &f->first) == 0, "open");
}

int store_open_second(struct store_fixture *f) {
  return open_one(f, &f->second);
}

int store_reopen(struct store_fixture *f) {
  struct uvs__store *old = f->first;
  int rc = 0;

  if (!f->kind->keeps)
    rc = open_one(f, &f->first);
  if (rc == 0)
    store_end(old);
  return f->kind->keeps ? open_one(f, &f->first) : rc;
}

static void remove_folder(const char *path) {
  DIR *dir = opendir(path);
  struct dirent *entry;
  char file[600];

  must(dir != NULL, "opendir");
  while ((entry = readdir(dir)) != NULL) {
    snprintf(file, sizeof file, "%s/%s", path, entry->d_name);
    unlink(file); /* not "." and ".." */
  }
  closedir(dir);
  must(rmdir(path) == 0, "rmdir");
}

void store_close(struct store_fixture *f) {
  while (f->history != NULL) {
    struct uvs__claimed *next = f->history->next;

    uvs__arena_free(&f->history->arena);
    uvs__jobs_free(f->history);
    f->history = next;
  }
  uvs__arena_free(&f->arena);
  if (f->second != NULL)
    store_end(f->second);
  store_end(f->first);
  if (f->kind->server)
    redis_ns_flush();
  else if (f->kind->keeps)
    remove_folder(f->folder);
}

int64_t store_now(const struct store_fixture *f) {
  return f->wall_ns / 1000;
}

void store_advance(struct store_fixture *f, int64_t us) {
  f->wall_ns += us * 1000;
}

/* ---------------------------------------------------------------- requests --- */

static unsigned not_answered; /* requests of the batch */

/* Counts calls in `owner`. */
void store_done(struct uvs__request *r) {
  r->owner = (void *)((uintptr_t)r->owner + 1);
  not_answered--;
}

/* A store that is a server may use `next`. */
void store_run(struct store_fixture *f, struct uvs__request *first) {
  struct uvs__request *r, *all[100];
  size_t n = 0;

  for (r = first; r != NULL; r = r->next) {
    must(n < sizeof all / sizeof *all, "a batch is too large");
    all[n++] = r;
  }
  not_answered = (unsigned)n;

  for (r = first; r != NULL; r = r->next) {
    r->done = store_done;
    r->owner = NULL;
    r->status = -1;
  }
  f->at->ops->run(f->at, first);
  store_drive(f->at, &not_answered);
  for (size_t i = 0; i < n; i++)
    must((uintptr_t)all[i]->owner == 1, "done was not called exactly once");
}

static int run_one(struct store_fixture *f, struct uvs__request *r) {
  r->next = NULL;
  store_run(f, r);
  return r->status;
}

/* ------------------------------------------------------------------- jobs --- */

struct uvs__record store_job(const char *queue, const char *rest) {
  struct uvs__record job = {.queue = queue, .rest = rest, .name = "n"};

  return job;
}

struct uvs__when after_us(int64_t delay_us) {
  struct uvs__when when = {delay_us, 0};

  return when;
}

struct uvs__when at_us(int64_t us) {
  struct uvs__when when = {-1, us};

  return when;
}

int store_put(struct store_fixture *f, const struct uvs__record *job) {
  struct uvs__put put = {.job = *job};
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = &put, .n = 1};
  int rc = run_one(f, &r.r);

  snprintf(f->there, sizeof f->there, "%s",
           rc == 0 && put.status != 0 && put.there != NULL ? put.there : "");
  f->due_us = put.due_us;
  uvs__arena_free(&r.arena);
  return rc == 0 ? put.status : rc;
}

int store_put_simple(struct store_fixture *f, const char *queue, const char *rest) {
  struct uvs__record job = store_job(queue, rest);

  return store_put(f, &job);
}

int store_put_key(struct store_fixture *f, const char *rest, const char *key, int policy) {
  struct uvs__record job = store_job("q", rest);

  job.key = key;
  job.key_policy = policy;
  return store_put(f, &job);
}

static int alter(struct store_fixture *f, struct uvs__alter_request *r, const char *queue,
                 const char *rest) {
  int rc;

  r->r.op = UVS__ALTER;
  r->queue = queue;
  r->rest = rest;
  rc = run_one(f, &r->r);
  return rc == 0 ? r->status : rc;
}

int store_cancel(struct store_fixture *f, const char *queue, const char *rest) {
  struct uvs__alter_request r = {.op = UVS__CANCEL};

  return alter(f, &r, queue, rest);
}

int store_move(struct store_fixture *f, const char *queue, const char *rest,
               struct uvs__when when) {
  struct uvs__alter_request r = {.op = UVS__MOVE, .when = when};

  return alter(f, &r, queue, rest);
}

/* Adds a word to f->text. */
static void write_word(struct store_fixture *f, const char *between, const char *word) {
  size_t used = strlen(f->text);

  snprintf(f->text + used, sizeof f->text - used, "%s%s", used == 0 ? "" : between, word);
}

const char *store_claim(struct store_fixture *f, const char *queue, uint32_t max) {
  struct uvs__claim_request r = {.r = {.op = UVS__CLAIM}, .queue = queue, .max = max};
  struct uvs__claimed *c;

  r.max_crashed = f->max_crashed;
  r.pending_only = f->pending_only;
  r.lease_us = f->lease_us;
  f->text[0] = '\0';
  f->n_claimed = 0;
  if (run_one(f, &r.r) != 0)
    return "error";
  must(r.now_us == store_now(f), "now_us of a claim");
  f->next_us = r.next_us;
  while ((c = r.claimed) != NULL) {
    must(f->n_claimed < CLAIMS_MAX, "too many claimed jobs");
    r.claimed = c->next;
    c->next = f->history;
    f->history = c;
    f->claimed[f->n_claimed++] = c;
    write_word(f, " ", c->rest);
  }
  return f->text;
}

/* ------------------------------------------------------------------ settle --- */

struct uvs__settle store_settlement(struct store_fixture *f, size_t i, enum uvs__settle_op op) {
  const struct uvs__claimed *c = f->claimed[i];
  struct uvs__settle s = {
      .queue = c->queue, .rest = c->rest, .row = c->row, .fence = c->fence, .op = op};

  must(i < f->n_claimed, "no such claimed job");
  return s;
}

int store_settle(struct store_fixture *f, struct uvs__settle *s) {
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = s, .n = 1};
  int rc = run_one(f, &r.r);

  uvs__arena_free(&r.arena);
  return rc == 0 ? s->status : rc;
}

int store_ack(struct store_fixture *f, size_t i) {
  struct uvs__settle s = store_settlement(f, i, UVS__ACK);

  return store_settle(f, &s);
}

int store_retry(struct store_fixture *f, size_t i, int64_t delay_us) {
  struct uvs__settle s = store_settlement(f, i, UVS__RETRY);

  s.when = after_us(delay_us);
  s.error = "failed";
  return store_settle(f, &s);
}

int store_release(struct store_fixture *f, size_t i, int64_t delay_us) {
  struct uvs__settle s = store_settlement(f, i, UVS__RELEASE);

  s.when = after_us(delay_us);
  return store_settle(f, &s);
}

int store_extend(struct store_fixture *f, size_t i, int64_t lease_us) {
  struct uvs__settle s = store_settlement(f, i, UVS__EXTEND);

  s.when = after_us(lease_us);
  return store_settle(f, &s);
}

int store_bury(struct store_fixture *f, size_t i, const char *why) {
  struct uvs__settle s = store_settlement(f, i, UVS__DEAD);

  s.error = why;
  return store_settle(f, &s);
}

/* -------------------------------------------------------------------- read --- */

int store_get(struct store_fixture *f, const char *queue, const char *rest) {
  struct uvs__list_request r = {.r = {.op = UVS__GET}, .queue = queue, .rest = rest};
  int rc;

  uvs__arena_free(&f->arena);
  rc = run_one(f, &r.r);
  f->arena = r.arena;
  f->infos = r.infos;
  f->n_infos = r.n;
  return rc;
}

int store_state(struct store_fixture *f, const char *queue, const char *rest) {
  return store_get(f, queue, rest) == 0 ? f->infos[0].state : 0;
}

/* The two parts of a filter's id. */
static void split(const char *id, char queue[100], const char **ret_rest) {
  const char *slash = id == NULL ? NULL : strchr(id, '/');

  *ret_rest = slash == NULL ? NULL : slash + 1;
  snprintf(queue, 100, "%.*s", slash == NULL ? 0 : (int)(slash - id), slash == NULL ? "" : id);
}

const char *store_list(struct store_fixture *f, const uvs_job_filter_t *filter, int64_t cursor,
                       uint32_t limit) {
  struct uvs__list_request r = {
      .r = {.op = UVS__LIST}, .filter = *filter, .cursor = cursor, .limit = limit};
  char queue[100];
  size_t i;
  int rc;

  split(filter->id, queue, &r.rest);
  r.queue = filter->id == NULL ? NULL : queue;
  uvs__arena_free(&f->arena);
  rc = run_one(f, &r.r);
  f->arena = r.arena;
  f->infos = r.infos;
  f->n_infos = r.n;
  f->cursor = r.next;
  if (rc != 0)
    return "error";
  f->text[0] = '\0';
  for (i = 0; i < r.n; i++)
    write_word(f, " ", strchr(r.infos[i].id, '/') + 1);
  return f->text;
}

const char *store_list_state(struct store_fixture *f, int state) {
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  filter.state = state;
  return store_list(f, &filter, 0, 1000);
}

int store_bulk(struct store_fixture *f, enum uvs__op op, const uvs_job_filter_t *filter,
               int64_t cursor, uint32_t limit) {
  struct uvs__bulk_request r = {
      .r = {.op = op}, .filter = *filter, .cursor = cursor, .limit = limit};
  char queue[100];
  int rc;

  split(filter->id, queue, &r.rest);
  r.queue = filter->id == NULL ? NULL : queue;
  rc = run_one(f, &r.r);
  f->count = r.count;
  f->cursor = r.next;
  return rc;
}

uint64_t store_trim(struct store_fixture *f, uint32_t max_done, uint32_t max_dead,
                    int64_t dead_age_us, uint32_t limit) {
  struct uvs__trim_request r = {.r = {.op = UVS__TRIM},
                                .max_done = max_done,
                                .max_dead = max_dead,
                                .dead_age_us = dead_age_us,
                                .limit = limit};

  return run_one(f, &r.r) == 0 ? r.count : UINT64_MAX;
}

const uvs_queue_stats_t *store_count(struct store_fixture *f, const char *queue) {
  struct uvs__count_request r = {.r = {.op = UVS__COUNT}};
  size_t i;
  int rc;

  uvs__arena_free(&f->arena);
  rc = run_one(f, &r.r);
  f->arena = r.arena;
  f->stats = r.stats;
  if (rc != 0)
    return NULL;
  for (i = 0; i < r.stats.n_queues; i++) {
    if (strcmp(r.stats.queues[i].queue, queue) == 0)
      return &r.stats.queues[i];
  }
  return NULL;
}

const char *store_events(struct store_fixture *f) {
  static const char *const names[] = {[UVS_EVENT_DEAD] = "dead",
                                      [UVS_EVENT_CANCELLED] = "cancelled",
                                      [UVS_EVENT_REPLACED] = "replaced",
                                      [UVS_EVENT_DEAD_DROPPED] = "dropped",
                                      [UVS_EVENT_QUEUE_CHANGED] = "queue"};
  struct uvs__events_request r = {.r = {.op = UVS__EVENTS}, .after = f->events_seen};
  char line[800];
  size_t i;

  f->text[0] = '\0';
  if (run_one(f, &r.r) != 0) {
    uvs__arena_free(&r.arena);
    return "error";
  }
  for (i = 0; i < r.n; i++) {
    const struct uvs__event *e = &r.events[i];

    must(e->number > f->events_seen, "the number of an event");
    must(e->what > 0 && e->what <= UVS_EVENT_QUEUE_CHANGED && names[e->what] != NULL,
         "an event that stores do not make");
    f->events_seen = e->number;
    snprintf(line, sizeof line, "%s%s%s%s%s", names[e->what], e->id == NULL ? "" : " ",
             e->id == NULL ? "" : e->id, *e->text == '\0' ? "" : " ", e->text);
    write_word(f, "; ", line);
  }
  uvs__arena_free(&r.arena);
  return f->text;
}

/* --------------------------------------------------------- queues and crons --- */

uvs_job_queue_t store_queue(const char *name) {
  uvs_job_queue_t q;

  uvs_job_queue_init(&q);
  q.name = name;
  return q;
}

int store_set_queue(struct store_fixture *f, const uvs_job_queue_t *q) {
  struct uvs__queue_request r = {.r = {.op = UVS__SET_QUEUE}, .set = *q};

  return run_one(f, &r.r);
}

struct uvs__cron store_cron(const char *name, uint64_t revision) {
  struct uvs__cron c = {.name = name,
                        .expression = "0 3 * * *",
                        .zone = "Europe/Berlin",
                        .revision = revision,
                        .misfire = UVS_MISFIRE_ALL,
                        .overlap = UVS_CRON_SKIP,
                        .max_missed = 7};

  c.job.queue = "reports";
  c.job.name = "report";
  c.job.priority = UVS_PRIORITY_HIGH;
  c.job.keep_us = 5 * SEC;
  c.job.payload.data = "pay";
  c.job.payload.size = 3;
  c.job.meta.data = "me";
  c.job.meta.size = 2;
  return c;
}

int store_set_cron(struct store_fixture *f, const struct uvs__cron *c) {
  struct uvs__cron_request r = {.r = {.op = UVS__SET_CRON}, .cron = *c};
  int rc = run_one(f, &r.r);

  uvs__arena_free(&r.arena);
  return rc;
}

int store_remove_cron(struct store_fixture *f, const char *name) {
  struct uvs__cron_request r = {.r = {.op = UVS__REMOVE_CRON}, .cron.name = name};
  int rc = run_one(f, &r.r);

  uvs__arena_free(&r.arena);
  return rc;
}

int store_crons(struct store_fixture *f) {
  struct uvs__cron_request r = {.r = {.op = UVS__CRONS}};
  int rc;

  uvs__arena_free(&f->arena);
  rc = run_one(f, &r.r);
  must(rc != 0 || r.now_us == store_now(f), "now_us of CRONS");
  f->arena = r.arena;
  f->crons = r.crons;
  f->n_crons = r.n;
  return rc;
}
