/* SPDX-License-Identifier: MIT
 *
 * against-memory [--steps N] [--store NAME]: random programs of requests on two stores at once, the
 * store in memory and another one (fault test F12). Every answer is compared, and every few hundred
 * steps the whole content. The clock moves at random, also back. Openers are closed with jobs
 * running, and opened again.
 *
 * Prints SEED; SEED=n repeats a run. Without NAME, all stores of the fixture are compared, the one
 * in memory with itself.
 */
#include "store_fixture.h"

#include <string.h>

#include "describe.h"

uint64_t test_seed;

#define QUEUES 3
#define RESTS 12
#define CRONS 2
#define RING 30 /* the last steps, printed if something differs */

static const char *const queue_names[QUEUES + 1] = {"q", "mail", "mail.b", UVS__CRON_QUEUE};
static const char *const rests[RESTS] = {"a", "b", "c", "d", "e",  "f",
                                         "g", "h", "i", "j", "k1", "k2"};
static const char *const cron_names[CRONS] = {"nightly", "hourly"};
static const char *const ids[] = {"q/a", "q/b", "mail/c", "mail.b/d", "mail/a", "q/none"};
static const char *const keys[] = {"x", "y", "z"};
static const char *const errors[] = {NULL, "no route", "it failed because of a long reason"};
static char bytes[20000];

/* The last claim of an id, on both stores. Later claims replace it, so older ones are stale. */
struct held {
  uint64_t fence[2];
  int64_t row[2];
};

struct world {
  uint64_t random;
  struct store_fixture sides[2];
  struct held held[QUEUES + 1][RESTS + CRONS];
  int64_t next_us; /* of the last claim */
  long step;
  char *ring[RING];
};

/* One request with all that it points to. It is made twice, with the same random numbers. */
struct call {
  union {
    struct uvs__request head;
    struct uvs__put_request put;
    struct uvs__claim_request claim;
    struct uvs__settle_request settle;
    struct uvs__alter_request alter;
    struct uvs__list_request list;
    struct uvs__bulk_request bulk;
    struct uvs__queue_request queue;
    struct uvs__cron_request cron;
    struct uvs__count_request count;
    struct uvs__events_request events;
    struct uvs__trim_request trim;
  };
  struct uvs__put puts[16];
  struct uvs__settle items[4];
  char queue_text[100];
};

static uint64_t below(struct world *w, uint64_t n) {
  return test_random_below(&w->random, n);
}

static bool one_in(struct world *w, uint64_t n) {
  return below(w, n) == 0;
}

#define ANY(w, array) ((array)[below((w), sizeof(array) / sizeof *(array))])

/* ---------------------------------------------------------- make a request --- */

static struct uvs__bytes any_bytes(struct world *w) {
  static const size_t sizes[] = {0, 0, 1, 3, 20, 20, 100, 3000, 9000};
  size_t size = one_in(w, 3) ? ANY(w, sizes) : 5;
  struct uvs__bytes b = {bytes + below(w, 100), size};

  return b;
}

static struct uvs__when any_when(struct world *w, int64_t now_us) {
  switch (below(w, 8)) {
  case 0:
    return at_us(now_us - (int64_t)below(w, 200) * SEC);
  case 1:
    return at_us(now_us + (int64_t)below(w, 30) * SEC);
  case 2:
    return after_us((int64_t)below(w, 1000) * SEC);
  case 3:
    return after_us((int64_t)below(w, 3));
  case 4:
    return one_in(w, 20) ? after_us(UVS__NEVER_US) : after_us(SEC);
  default:
    return after_us(0);
  }
}

static struct uvs__record any_record(struct world *w, int64_t now_us) {
  static const int64_t keeps[] = {0, 0, 0, 5 * SEC, 60 * SEC, 3600 * SEC, 86400 * SEC};
  struct uvs__record job = {.queue = queue_names[below(w, QUEUES)], .rest = ANY(w, rests)};

  job.name = one_in(w, 2) ? job.queue : one_in(w, 2) ? "n" : "m";
  if (one_in(w, 2)) {
    job.key = ANY(w, keys);
    job.key_policy = (int)below(w, 3);
  }
  job.priority = (int)below(w, 3) - 1;
  job.due = any_when(w, now_us);
  job.keep_us = ANY(w, keeps);
  job.payload = any_bytes(w);
  if (one_in(w, 3))
    job.meta = any_bytes(w);
  return job;
}

static size_t make_puts(struct world *w, int64_t now_us, struct uvs__put *puts, size_t n) {
  size_t i;

  for (i = 0; i < n; i++)
    puts[i].job = any_record(w, now_us);
  return n;
}

static const char *any_queue(struct world *w) {
  return queue_names[below(w, one_in(w, 4) ? QUEUES + 1 : QUEUES)];
}

static void make_claim(struct world *w, struct uvs__claim_request *r) {
  static const int64_t leases[] = {1, SEC, 5 * SEC, 10 * SEC, 10 * SEC, 40 * SEC, 300 * SEC};

  r->queue = any_queue(w);
  r->max = 1 + (uint32_t)below(w, one_in(w, 4) ? 20 : 4);
  r->max_crashed = one_in(w, 2) ? 1000 : (uint32_t)below(w, 3);
  r->pending_only = one_in(w, 6);
  r->lease_us = ANY(w, leases);
}

static void make_item(struct world *w, int side, int64_t now_us, struct uvs__settle *s,
                      struct uvs__put *puts) {
  size_t q = below(w, QUEUES + 1), r;
  const struct held *held;

  r = q == QUEUES ? RESTS + below(w, CRONS) : below(w, RESTS);
  held = &w->held[q][r];
  s->queue = queue_names[q];
  s->rest = q == QUEUES ? cron_names[r - RESTS] : rests[r];
  s->row = one_in(w, 4) ? 0 : held->row[side];
  s->fence = held->fence[side];
  if (one_in(w, 20))
    s->fence -= below(w, 3);
  s->op = (enum uvs__settle_op)(UVS__ACK + below(w, 5));
  if (q == QUEUES && (s->op == UVS__ACK || s->op == UVS__DEAD || one_in(w, 2)))
    s->op = UVS__RELEASE; /* ticks do not end */
  s->when = s->op == UVS__EXTEND ? after_us((int64_t)below(w, 30) * SEC) : any_when(w, now_us);
  s->error = ANY(w, errors);
  s->result = any_bytes(w);
  if (one_in(w, 2))
    s->progress = any_bytes(w);
  if (q == QUEUES && s->op == UVS__RELEASE && one_in(w, 2))
    s->tick_last_us = now_us - 50 * SEC + (int64_t)below(w, 100) * SEC;
  if ((s->op == UVS__ACK && one_in(w, 3)) || s->tick_last_us != 0) {
    s->puts = puts;
    s->n_puts = make_puts(w, now_us, puts, below(w, 4));
  }
}

static void make_filter(struct world *w, struct call *c, uvs_job_filter_t *f, const char **queue,
                        const char **rest) {
  static const int states[] = {0,
                               0,
                               UVS_JOB_PENDING,
                               UVS_JOB_RUNNING,
                               UVS_JOB_HELD,
                               UVS_JOB_DEAD,
                               UVS_JOB_DEAD,
                               UVS_JOB_DONE,
                               UVS_JOB_DONE,
                               UVS_JOB_CANCELLED};

  uvs_job_filter_init(f);
  f->state = ANY(w, states);
  f->overdue = one_in(w, 8);
  if (one_in(w, 3))
    f->queue = queue_names[below(w, QUEUES)];
  if (one_in(w, 5))
    f->name = one_in(w, 2) ? "n" : "mail";
  if (one_in(w, 4)) {
    f->id = ANY(w, ids);
    *rest = strchr(f->id, '/') + 1;
    snprintf(c->queue_text, sizeof c->queue_text, "%.*s", (int)(*rest - 1 - f->id), f->id);
    *queue = c->queue_text;
  }
}

static void make_queue(struct world *w, uvs_job_queue_t *q) {
  static const int64_t bounds[] = {-1, -1, 0, 0, 0, 1, 2, 5};
  static const int64_t lengths[] = {-1, 1, 1000000, UVS_SEC(1), UVS_SEC(7), UVS_MIN(1)};

  uvs_job_queue_init(q);
  q->name = queue_names[below(w, QUEUES)];
  q->paused = one_in(w, 6) ? 1 : one_in(w, 4) ? -1 : 0;
  q->concurrency = ANY(w, bounds);
  q->rate = ANY(w, bounds);
  q->rate_ns = ANY(w, lengths);
  q->catch_up_rate = ANY(w, bounds);
}

static void make_cron(struct world *w, struct uvs__cron *c) {
  *c = store_cron(ANY(w, cron_names), 1 + below(w, 50));
  c->zone = one_in(w, 2) ? NULL : "UTC";
  c->expression = one_in(w, 2) ? "@hourly" : "0 0 * * *";
  c->misfire = (int)below(w, 3);
  c->overlap = (int)below(w, 2);
  c->job.queue = queue_names[below(w, QUEUES)];
  c->job.payload = any_bytes(w);
  c->job.meta = any_bytes(w);
}

static enum uvs__op any_op(struct world *w) {
  /* how often of 100; the rest are SETTLEs */
  static const struct {
    enum uvs__op op;
    unsigned percent;
  } often[] = {{UVS__PUT, 24},     {UVS__CLAIM, 26},      {UVS__ALTER, 8}, {UVS__GET, 4},
               {UVS__LIST, 3},     {UVS__REDRIVE, 2},     {UVS__PURGE, 1}, {UVS__SET_QUEUE, 2},
               {UVS__SET_CRON, 1}, {UVS__REMOVE_CRON, 1}, {UVS__CRONS, 1}, {UVS__COUNT, 2},
               {UVS__EVENTS, 1},   {UVS__TRIM, 1}};
  unsigned left = (unsigned)below(w, 100);
  size_t i;

  for (i = 0; i < sizeof often / sizeof *often; i++) {
    if (left < often[i].percent)
      return often[i].op;
    left -= often[i].percent;
  }
  return UVS__SETTLE;
}

static void make_settle(struct world *w, int side, int64_t now_us, struct call *c) {
  size_t i;

  c->settle.items = c->items;
  c->settle.n = 1 + below(w, 4);
  for (i = 0; i < c->settle.n; i++)
    make_item(w, side, now_us, &c->items[i], c->puts + 4 * i);
}

static void make_trim(struct world *w, struct uvs__trim_request *r) {
  r->max_done = one_in(w, 2) ? 100000 : (uint32_t)below(w, 6);
  r->max_dead = one_in(w, 2) ? 100000 : (uint32_t)below(w, 4);
  r->dead_age_us = one_in(w, 2) ? 90 * 86400 * SEC : (int64_t)below(w, 7200) * SEC;
  r->limit = one_in(w, 2) ? 1000 : 1 + (uint32_t)below(w, 5);
}

static void make_call(struct world *w, int side, struct call *c) {
  int64_t now_us = store_now(&w->sides[side]);

  memset(c, 0, sizeof *c);
  c->head.op = any_op(w);
  switch (c->head.op) {
  case UVS__PUT:
    c->put.puts = c->puts;
    c->put.n = make_puts(w, now_us, c->puts, 1 + below(w, 4));
    break;
  case UVS__CLAIM:
    make_claim(w, &c->claim);
    break;
  case UVS__SETTLE:
    make_settle(w, side, now_us, c);
    break;
  case UVS__ALTER:
    c->alter.op = one_in(w, 2) ? UVS__CANCEL : UVS__MOVE;
    c->alter.queue = queue_names[below(w, QUEUES)];
    c->alter.rest = ANY(w, rests);
    c->alter.when = any_when(w, now_us);
    break;
  case UVS__GET:
    c->list.queue = queue_names[below(w, QUEUES)];
    c->list.rest = ANY(w, rests);
    break;
  case UVS__LIST:
    make_filter(w, c, &c->list.filter, &c->list.queue, &c->list.rest);
    c->list.limit = 1 + (uint32_t)below(w, 9);
    break;
  case UVS__REDRIVE:
  case UVS__PURGE:
    make_filter(w, c, &c->bulk.filter, &c->bulk.queue, &c->bulk.rest);
    c->bulk.limit = 1 + (uint32_t)below(w, 9);
    break;
  case UVS__SET_QUEUE:
    make_queue(w, &c->queue.set);
    break;
  case UVS__SET_CRON:
  case UVS__REMOVE_CRON:
    make_cron(w, &c->cron.cron);
    break;
  case UVS__TRIM:
    make_trim(w, &c->trim);
    break;
  case UVS__CRONS:
  case UVS__COUNT:
  case UVS__EVENTS:
    break;
  }
}

/* ----------------------------------------------------------------- compare --- */

static void give_up(struct world *w, const char *what, const char *a, const char *b) {
  long i;

  printf("\nThe last steps:\n");
  for (i = w->step < RING ? 0 : w->step - RING + 1; i <= w->step; i++) {
    if (w->ring[i % RING] != NULL)
      printf("%s", w->ring[i % RING]);
  }
  printf("\nstep %ld: %s differs\n--- memory:\n%s--- %s:\n%sSEED=%llu\n", w->step, what, a,
         w->sides[1].kind->name, b, (unsigned long long)test_seed);
  exit(1);
}

/* The lines that differ are easier to read than two whole contents. */
static void compare_contents(struct world *w) {
  char *text[2];
  size_t size[2];
  int side;

  for (side = 0; side < 2; side++) {
    FILE *to = open_memstream(&text[side], &size[side]);

    describe_store(to, w->sides[side].at);
    fclose(to);
  }
  if (strcmp(text[0], text[1]) != 0) {
    size_t i = 0;

    while (text[0][i] == text[1][i])
      i++;
    while (i > 0 && text[0][i - 1] != '\n')
      i--;
    give_up(w, "the content, from this line on,", text[0] + i, text[1] + i);
  }
  free(text[0]);
  free(text[1]);
}

/* A page may be short, so requests with cursors are repeated until all has been looked at. Returns
 * true if there is more to do. */
static bool go_on(struct call *c) {
  switch (c->head.op) {
  case UVS__LIST:
    c->list.cursor = c->list.next;
    return c->head.status == 0 && c->list.next != 0;
  case UVS__REDRIVE:
  case UVS__PURGE:
    c->bulk.cursor = c->bulk.next;
    return c->head.status == 0 && c->bulk.next != 0;
  case UVS__EVENTS:
    c->events.after = c->events.n == 0 ? c->events.last : c->events.events[c->events.n - 1].number;
    return c->head.status == 0 && c->events.after < c->events.last;
  case UVS__TRIM: /* which records go first is open, but a clock that is set back would show it */
    return c->head.status == 0 && c->trim.count > 0;
  default:
    return false;
  }
}

static bool has_pages(enum uvs__op op) {
  return op == UVS__LIST || op == UVS__REDRIVE || op == UVS__PURGE || op == UVS__EVENTS ||
         op == UVS__TRIM;
}

static void run_pages(struct store_fixture *f, struct call *c, FILE *to) {
  uint64_t count = 0;
  bool more;

  do {
    c->head.next = NULL;
    store_run(f, &c->head);
    if (c->head.op == UVS__REDRIVE || c->head.op == UVS__PURGE)
      count += c->bulk.count;
    else
      describe_answer(to, &c->head);
    more = go_on(c);
    free_answer(&c->head);
  } while (more);
  fprintf(to, "  status=%d total=%llu\n", c->head.status, (unsigned long long)count);
}

static void remember_claims(struct world *w, int side, const struct uvs__claim_request *r) {
  const struct uvs__claimed *c;
  size_t q, i;

  w->next_us = r->next_us;
  for (c = r->claimed; c != NULL; c = c->next) {
    for (q = 0; strcmp(queue_names[q], c->queue) != 0; q++)
      ;
    for (i = q == QUEUES ? RESTS : 0;
         strcmp(i < RESTS ? rests[i] : cron_names[i - RESTS], c->rest) != 0; i++)
      ;
    w->held[q][i].fence[side] = c->fence;
    w->held[q][i].row[side] = c->row;
  }
}

/* Runs n requests as a batch; the questions and answers are written to `to`. */
static void run_batch(struct world *w, int side, struct call *calls, size_t n, FILE *to) {
  struct store_fixture *f = &w->sides[side];
  size_t i;

  for (i = 0; i + 1 < n; i++)
    calls[i].head.next = &calls[i + 1].head;
  calls[n - 1].head.next = NULL;
  store_run(f, &calls[0].head);
  for (i = 0; i < n; i++) {
    describe_answer(to, &calls[i].head);
    if (calls[i].head.op == UVS__CLAIM)
      remember_claims(w, side, &calls[i].claim);
    free_answer(&calls[i].head);
  }
}

static void run_calls(struct world *w, int side, struct call *calls, size_t n, FILE *to) {
  size_t i, from = 0;

  for (i = 0; i < n; i++) {
    if (!has_pages(calls[i].head.op))
      continue;
    if (i > from)
      run_batch(w, side, calls + from, i - from, to);
    run_pages(&w->sides[side], &calls[i], to);
    from = i + 1;
  }
  if (n > from)
    run_batch(w, side, calls + from, n - from, to);
}

/* -------------------------------------------------------------------- steps --- */

static void remember_step(struct world *w, const struct call *calls, size_t n) {
  size_t size, i;
  FILE *to;

  free(w->ring[w->step % RING]);
  to = open_memstream(&w->ring[w->step % RING], &size);
  fprintf(to, "step %ld at %lld ns\n", w->step, (long long)w->sides[0].wall_ns);
  for (i = 0; i < n; i++) {
    fprintf(to, "  ");
    describe_question(to, &calls[i].head);
    fprintf(to, "\n");
  }
  fclose(to);
}

static void do_requests(struct world *w) {
  static struct call calls[2][3];
  size_t n = one_in(w, 4) ? 1 + below(w, 3) : 1, size, i;
  uint64_t before = w->random;
  char *text[2];
  int side;

  for (side = 0; side < 2; side++) {
    w->random = before;
    for (i = 0; i < n; i++)
      make_call(w, side, &calls[side][i]);
  }
  remember_step(w, calls[0], n);
  for (side = 0; side < 2; side++) {
    FILE *to = open_memstream(&text[side], &size);

    run_calls(w, side, calls[side], n, to);
    fclose(to);
  }
  if (strcmp(text[0], text[1]) != 0)
    give_up(w, "an answer", text[0], text[1]);
  free(text[0]);
  free(text[1]);
}

static void move_clock(struct world *w) {
  int64_t ns = 0;

  switch (below(w, 64)) {
  case 0:
    ns = UVS_SEC(31);
    break;
  case 1:
    ns = one_in(w, 4) ? UVS_HOUR(1) : UVS_MIN(2);
    break;
  case 2:
    ns = one_in(w, 8) ? UVS_DAY(1) : 0;
    break;
  case 3:
    ns = one_in(w, 6) ? -UVS_HOUR(1) : -UVS_SEC(10);
    break;
  default:
    if (one_in(w, 8) && w->next_us > store_now(&w->sides[0]) && w->next_us < UVS__NEVER_US / 2)
      ns = w->next_us * 1000 - w->sides[0].wall_ns;
    else if (one_in(w, 4))
      ns = (int64_t)below(w, 3000000) * 1000 + (int64_t)below(w, 1000);
    else if (one_in(w, 4))
      ns = (int64_t)below(w, 3000);
  }
  w->sides[0].wall_ns += ns;
  w->sides[1].wall_ns += ns;
}

/* Another opener; or it is closed; or the first one is closed, and opened again. */
static void change_openers(struct world *w) {
  uint64_t what = below(w, 3);
  int side;

  for (side = 0; side < 2; side++) {
    struct store_fixture *f = &w->sides[side];

    if (what == 0 && f->second == NULL) {
      if (store_open_second(f) != 0)
        exit(1);
    } else if (what == 1 && f->second != NULL) {
      f->second->ops->close(f->second);
      f->second = NULL;
      f->at = f->first;
    } else if (store_reopen(f) != 0) {
      exit(1);
    }
  }
}

static void do_step(struct world *w) {
  bool second = one_in(w, 3);
  int side;

  move_clock(w);
  if (one_in(w, 200))
    change_openers(w);
  for (side = 0; side < 2; side++) {
    struct store_fixture *f = &w->sides[side];

    f->at = second && f->second != NULL ? f->second : f->first;
  }
  do_requests(w);
  for (side = 0; side < 2 && one_in(w, 20); side++)
    w->sides[side].at->ops->poll(w->sides[side].at);
  if (w->step % 300 == 299)
    compare_contents(w);
}

static void compare_with(const struct store_kind *memory, const struct store_kind *other,
                         long steps) {
  struct world *w = calloc(1, sizeof *w);
  int i;

  w->random = test_seed;
  store_kind = memory;
  store_init(&w->sides[0]);
  store_kind = other;
  store_init(&w->sides[1]);
  for (w->step = 0; w->step < steps; w->step++)
    do_step(w);
  compare_contents(w);
  store_close(&w->sides[0]);
  store_close(&w->sides[1]);
  for (i = 0; i < RING; i++)
    free(w->ring[i]);
  printf("%ld steps: %s answers as memory does\n", steps, other->name);
  free(w);
}

int main(int argc, char **argv) {
  const struct store_kind *memory;
  const char *only = NULL;
  long steps = 100000;
  size_t i;

  for (i = 1; i + 1 < (size_t)argc; i += 2) {
    if (strcmp(argv[i], "--steps") == 0)
      steps = (long)strtod(argv[i + 1], NULL);
    else if (strcmp(argv[i], "--store") == 0)
      only = argv[i + 1];
    else
      break;
  }
  if (i != (size_t)argc || steps < 1) {
    fprintf(stderr, "usage: against-memory [--steps N] [--store NAME]\n");
    return 2;
  }
  test_seed_init();
  for (i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(i * 31 + i / 251);
  store_choose(0);
  memory = store_kind;
  for (i = 0; store_choose(i); i++) {
    const struct store_kind *kind = store_kind;

    if (only == NULL || strcmp(only, kind->name) == 0)
      compare_with(memory, kind, steps);
  }
  return 0;
}
