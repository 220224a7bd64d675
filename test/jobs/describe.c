/* SPDX-License-Identifier: MIT */
#include "describe.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "store_fixture.h"

static const char *safe(const char *text) {
  return text == NULL ? "-" : text;
}

static void print_bytes(FILE *to, const char *what, const void *data, size_t size) {
  const unsigned char *bytes = data;
  uint64_t hash = 14695981039346656037u;
  size_t i;

  if (size == 0)
    return;
  for (i = 0; i < size; i++)
    hash = (hash ^ bytes[i]) * 1099511628211u;
  fprintf(to, " %s=%zu:%llx", what, size, (unsigned long long)hash);
}

static void print_when(FILE *to, struct uvs__when when) {
  if (when.delay_us >= 0)
    fprintf(to, " after %lld", (long long)when.delay_us);
  else
    fprintf(to, " at %lld", (long long)when.at_us);
}

static void print_record(FILE *to, const struct uvs__record *job) {
  fprintf(to, " %s/%s name=%s", job->queue, safe(job->rest), job->name);
  if (job->key != NULL)
    fprintf(to, " key=%s policy=%d", job->key, job->key_policy);
  fprintf(to, " priority=%d keep=%lld", job->priority, (long long)job->keep_us);
  print_when(to, job->due);
  print_bytes(to, "payload", job->payload.data, job->payload.size);
  print_bytes(to, "meta", job->meta.data, job->meta.size);
}

static void print_cron(FILE *to, const struct uvs__cron *c) {
  fprintf(to, "cron %s '%s' zone=%s revision=%llu misfire=%d overlap=%d max=%u", c->name,
          c->expression, safe(c->zone), (unsigned long long)c->revision, c->misfire, c->overlap,
          c->max_missed);
  fprintf(to, " job %s %s priority=%d keep=%lld", c->job.queue, c->job.name, c->job.priority,
          (long long)c->job.keep_us);
  print_bytes(to, "payload", c->job.payload.data, c->job.payload.size);
  print_bytes(to, "meta", c->job.meta.data, c->job.meta.size);
}

static void print_filter(FILE *to, const uvs_job_filter_t *f) {
  fprintf(to, " state=%d overdue=%d id=%s queue=%s name=%s", f->state, f->overdue, safe(f->id),
          safe(f->queue), safe(f->name));
}

/* --------------------------------------------------------------- questions --- */

static void ask_put(FILE *to, const struct uvs__put *puts, size_t n) {
  size_t i;

  for (i = 0; i < n; i++) {
    fprintf(to, "\n    put");
    print_record(to, &puts[i].job);
  }
}

static void ask_settle(FILE *to, const struct uvs__settle_request *r) {
  static const char *const names[] = {"?", "ack", "retry", "extend", "release", "dead"};
  size_t i;

  for (i = 0; i < r->n; i++) {
    const struct uvs__settle *s = &r->items[i];

    fprintf(to, "\n    %s %s/%s fence=%llu", names[s->op], s->queue, s->rest,
            (unsigned long long)s->fence);
    print_when(to, s->when);
    fprintf(to, " error=%s tick=%lld", safe(s->error), (long long)s->tick_last_us);
    print_bytes(to, "result", s->result.data, s->result.size);
    print_bytes(to, "progress", s->progress.data, s->progress.size);
    ask_put(to, s->puts, s->n_puts);
  }
}

static void ask_queue(FILE *to, const uvs_job_queue_t *q) {
  fprintf(to, " %s paused=%d concurrency=%lld rate=%lld/%lld catch_up=%lld", q->name, q->paused,
          (long long)q->concurrency, (long long)q->rate, (long long)q->rate_ns,
          (long long)q->catch_up_rate);
}

void describe_question(FILE *to, const struct uvs__request *r) {
  static const char *const names[] = {
      "?",     "PUT",       "CLAIM",    "SETTLE",      "ALTER", "GET",   "LIST",   "REDRIVE",
      "PURGE", "SET_QUEUE", "SET_CRON", "REMOVE_CRON", "CRONS", "COUNT", "EVENTS", "TRIM"};
  const void *request = r;
  const struct uvs__put_request *put = request;
  const struct uvs__claim_request *claim = request;
  const struct uvs__alter_request *alter = request;
  const struct uvs__list_request *list = request;
  const struct uvs__bulk_request *bulk = request;
  const struct uvs__trim_request *trim = request;

  fprintf(to, "%s", names[r->op]);
  switch (r->op) {
  case UVS__PUT:
    ask_put(to, put->puts, put->n);
    break;
  case UVS__CLAIM:
    fprintf(to, " %s max=%u max_crashed=%u pending_only=%d lease=%lld", claim->queue, claim->max,
            claim->max_crashed, claim->pending_only, (long long)claim->lease_us);
    break;
  case UVS__SETTLE:
    ask_settle(to, request);
    break;
  case UVS__ALTER:
    fprintf(to, " %s %s/%s", alter->op == UVS__CANCEL ? "cancel" : "move", alter->queue,
            alter->rest);
    print_when(to, alter->when);
    break;
  case UVS__GET:
    fprintf(to, " %s/%s", list->queue, list->rest);
    break;
  case UVS__LIST:
    print_filter(to, &list->filter);
    fprintf(to, " limit=%u", list->limit);
    break;
  case UVS__REDRIVE:
  case UVS__PURGE:
    print_filter(to, &bulk->filter);
    fprintf(to, " limit=%u", bulk->limit);
    break;
  case UVS__SET_QUEUE:
    ask_queue(to, &((const struct uvs__queue_request *)request)->set);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    fprintf(to, " %s revision %llu", ((const struct uvs__cron_request *)request)->cron.name,
            (unsigned long long)((const struct uvs__cron_request *)request)->cron.revision);
    break;
  case UVS__TRIM:
    fprintf(to, " done=%u dead=%u age=%lld limit=%u", trim->max_done, trim->max_dead,
            (long long)trim->dead_age_us, trim->limit);
    break;
  case UVS__CRONS:
  case UVS__COUNT:
  case UVS__EVENTS:
    break;
  }
}

/* ----------------------------------------------------------------- answers --- */

static void answer_puts(FILE *to, const struct uvs__put *puts, size_t n) {
  size_t i;

  for (i = 0; i < n; i++) {
    if (puts[i].status == 0)
      fprintf(to, " put=0 due=%lld", (long long)puts[i].due_us);
    else
      fprintf(to, " put=%d there=%s", puts[i].status, puts[i].there);
  }
}

static void answer_claim(FILE *to, const struct uvs__claim_request *r) {
  const struct uvs__claimed *c;

  fprintf(to, " now=%lld next=%lld", (long long)r->now_us, (long long)r->next_us);
  for (c = r->claimed; c != NULL; c = c->next) {
    fprintf(to, "\n    %s/%s name=%s key=%s priority=%d fence=%llu failures=%u crashes=%u now=%d",
            c->queue, c->rest, c->name, safe(c->key), c->priority, (unsigned long long)c->fence,
            c->failures, c->crashes, c->crashed_now);
    fprintf(to, " due=%lld put=%lld", (long long)c->due_us, (long long)c->put_us);
    print_bytes(to, "payload", c->payload.data, c->payload.size);
    print_bytes(to, "meta", c->meta.data, c->meta.size);
    if (c->cron != NULL) {
      fprintf(to, " last=%lld ", (long long)c->cron->last_us);
      print_cron(to, c->cron);
    }
  }
}

static void answer_settle(FILE *to, const struct uvs__settle_request *r) {
  size_t i;

  for (i = 0; i < r->n; i++) {
    fprintf(to, " %d", r->items[i].status);
    if (r->items[i].status == 0)
      answer_puts(to, r->items[i].puts, r->items[i].n_puts);
  }
}

static void print_info(FILE *to, const uvs_job_info_t *i) {
  fprintf(to, "\n  %s state=%d name=%s queue=%s key=%s priority=%d", i->id, i->state, i->name,
          i->queue, safe(i->key), i->priority);
  fprintf(to, " due=%lld put=%lld ended=%lld attempts=%u crashes=%u cancelling=%d error=%s",
          (long long)i->due_ns, (long long)i->put_ns, (long long)i->ended_ns, i->attempts,
          i->crashes, i->cancelling, i->error);
  print_bytes(to, "payload", i->payload, i->payload_size);
  print_bytes(to, "meta", i->meta, i->meta_size);
  print_bytes(to, "progress", i->progress, i->progress_size);
  print_bytes(to, "result", i->result, i->result_size);
}

static void answer_list(FILE *to, const struct uvs__list_request *r) {
  size_t i;

  for (i = 0; i < r->n; i++)
    print_info(to, &r->infos[i]);
}

static void answer_crons(FILE *to, const struct uvs__cron_request *r) {
  size_t i;

  for (i = 0; i < r->n; i++) {
    fprintf(to, "\n  ");
    print_cron(to, &r->crons[i]);
    fprintf(to, " last=%lld tick=%lld", (long long)r->crons[i].last_us,
            (long long)r->crons[i].tick_us);
  }
}

static void answer_count(FILE *to, const uvs_jobs_stats_t *s) {
  size_t i;

  fprintf(to, " pending=%llu overdue=%llu running=%llu dead=%llu kept=%llu oldest=%lld",
          (unsigned long long)s->pending, (unsigned long long)s->overdue,
          (unsigned long long)s->running, (unsigned long long)s->dead, (unsigned long long)s->kept,
          (long long)s->oldest_overdue_ns);
  for (i = 0; i < s->n_queues; i++) {
    const uvs_queue_stats_t *q = &s->queues[i];

    fprintf(to, "\n  queue %s paused=%d concurrency=%lld rate=%lld/%lld catch_up=%lld", q->queue,
            q->paused, (long long)q->concurrency, (long long)q->rate, (long long)q->rate_ns,
            (long long)q->catch_up_rate);
    fprintf(to, " pending=%llu overdue=%llu running=%llu dead=%llu oldest=%lld",
            (unsigned long long)q->pending, (unsigned long long)q->overdue,
            (unsigned long long)q->running, (unsigned long long)q->dead,
            (long long)q->oldest_overdue_ns);
  }
}

static void answer_events(FILE *to, const struct uvs__events_request *r) {
  size_t i;

  fprintf(to, " last=%llu", (unsigned long long)r->last);
  for (i = 0; i < r->n; i++)
    fprintf(to, "\n  event %llu: %d %s '%s'", (unsigned long long)r->events[i].number,
            r->events[i].what, safe(r->events[i].id), r->events[i].text);
}

void describe_answer(FILE *to, const struct uvs__request *r) {
  const void *request = r;

  fprintf(to, "  status=%d", r->status);
  switch (r->op) {
  case UVS__PUT:
    answer_puts(to, ((const struct uvs__put_request *)request)->puts,
                ((const struct uvs__put_request *)request)->n);
    break;
  case UVS__CLAIM:
    answer_claim(to, request);
    break;
  case UVS__SETTLE:
    answer_settle(to, request);
    break;
  case UVS__ALTER:
    fprintf(to, " %d", ((const struct uvs__alter_request *)request)->status);
    break;
  case UVS__GET:
  case UVS__LIST:
    answer_list(to, request);
    break;
  case UVS__REDRIVE:
  case UVS__PURGE:
    fprintf(to, " count=%llu",
            (unsigned long long)((const struct uvs__bulk_request *)request)->count);
    break;
  case UVS__CRONS:
    answer_crons(to, request);
    break;
  case UVS__COUNT:
    answer_count(to, &((const struct uvs__count_request *)request)->stats);
    break;
  case UVS__EVENTS:
    answer_events(to, request);
    break;
  case UVS__TRIM:
    fprintf(to, " count=%llu",
            (unsigned long long)((const struct uvs__trim_request *)request)->count);
    break;
  case UVS__SET_QUEUE:
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    break;
  }
  fprintf(to, "\n");
}

static void free_claimed(struct uvs__claimed *c) {
  while (c != NULL) {
    struct uvs__claimed *next = c->next;

    uvs__arena_free(&c->arena);
    uvs__jobs_free(c);
    c = next;
  }
}

void free_answer(struct uvs__request *r) {
  void *request = r;

  switch (r->op) {
  case UVS__PUT:
    uvs__arena_free(&((struct uvs__put_request *)request)->arena);
    break;
  case UVS__CLAIM:
    free_claimed(((struct uvs__claim_request *)request)->claimed);
    ((struct uvs__claim_request *)request)->claimed = NULL;
    break;
  case UVS__SETTLE:
    uvs__arena_free(&((struct uvs__settle_request *)request)->arena);
    break;
  case UVS__GET:
  case UVS__LIST:
    uvs__arena_free(&((struct uvs__list_request *)request)->arena);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
  case UVS__CRONS:
    uvs__arena_free(&((struct uvs__cron_request *)request)->arena);
    break;
  case UVS__COUNT:
    uvs__arena_free(&((struct uvs__count_request *)request)->arena);
    break;
  case UVS__EVENTS:
    uvs__arena_free(&((struct uvs__events_request *)request)->arena);
    break;
  case UVS__ALTER:
  case UVS__REDRIVE:
  case UVS__PURGE:
  case UVS__SET_QUEUE:
  case UVS__TRIM:
    break;
  }
}

/* -------------------------------------------------------------- everything --- */

static void count_done(struct uvs__request *r) {
  --*(unsigned *)r->owner;
}

static void run(struct uvs__store *store, struct uvs__request *r) {
  unsigned left = 1;

  r->next = NULL;
  r->done = count_done;
  r->owner = &left;
  store->ops->run(store, r);
  store_drive(store, &left);
}

static int compare_lines(const void *a, const void *b) {
  return strcmp(*(char *const *)a, *(char *const *)b);
}

void describe_sorted(FILE *to, char *text) {
  size_t n = 0, room = 0;
  char **lines = NULL, *line, *rest = text;

  while ((line = strsep(&rest, "\n")) != NULL) {
    if (n == room) {
      room = room == 0 ? 100 : 2 * room;
      lines = realloc(lines, room * sizeof *lines);
      if (lines == NULL)
        abort();
    }
    lines[n++] = line;
  }
  qsort(lines, n, sizeof *lines, compare_lines);
  for (size_t i = 0; i < n; i++) {
    if (*lines[i] != '\0' && (i == 0 || strcmp(lines[i], lines[i - 1]) != 0))
      fprintf(to, "%s\n", lines[i]);
  }
  free(lines);
}

static void get_one(FILE *to, struct uvs__store *store, const uvs_job_info_t *info) {
  struct uvs__list_request r = {.r = {.op = UVS__GET}, .rest = strchr(info->id, '/') + 1};

  r.queue = info->queue;
  run(store, &r.r);
  describe_answer(to, &r.r);
  free_answer(&r.r);
}

static void list_state(FILE *to, struct uvs__store *store, int state) {
  struct uvs__list_request r = {.r = {.op = UVS__LIST}, .limit = 100};
  size_t i;

  uvs_job_filter_init(&r.filter);
  r.filter.state = state;
  do {
    r.cursor = r.next;
    run(store, &r.r);
    for (i = 0; i < r.n; i++)
      get_one(to, store, &r.infos[i]);
    free_answer(&r.r);
  } while (r.r.status == 0 && r.next != 0);
}

/* In order, or sorted by lines: then all lines of the jobs of a state are together. */
static void list_states(FILE *to, struct uvs__store *store, bool sorted) {
  static const int states[] = {0, UVS_JOB_DEAD, UVS_JOB_DONE};

  for (size_t i = 0; i < sizeof states / sizeof *states; i++) {
    char *text;
    size_t size;
    FILE *lines = open_memstream(&text, &size);

    list_state(lines, store, states[i]);
    fclose(lines);
    if (sorted)
      describe_sorted(to, text);
    else
      fputs(text, to);
    free(text);
  }
}

void describe_store(FILE *to, struct uvs__store *store, bool sorted) {
  struct uvs__cron_request crons = {.r = {.op = UVS__CRONS}};
  struct uvs__count_request count = {.r = {.op = UVS__COUNT}};
  struct uvs__events_request events = {.r = {.op = UVS__EVENTS}};

  list_states(to, store, sorted);
  run(store, &crons.r);
  describe_answer(to, &crons.r);
  free_answer(&crons.r);
  run(store, &count.r);
  describe_answer(to, &count.r);
  free_answer(&count.r);
  do {
    run(store, &events.r);
    describe_answer(to, &events.r);
    events.after = events.n == 0 ? events.last : events.events[events.n - 1].number;
    free_answer(&events.r);
  } while (events.r.status == 0 && events.after < events.last);
}
