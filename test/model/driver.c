/* SPDX-License-Identifier: MIT */
#include "driver.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <uv.h>

#include "uvsched/calendar.h"

#include "model.h"

#define TAGS 64 /* tasks that a program can name, including ended ones */
#define KEPT_MOST 12
#define LANES 6
#define LANES_MOST 100
#define QUEUES 2
#define VALUES_MOST 60
#define ITEMS 16
#define EVENTS 8192
#define WORDS 4096
#define SETTLE_MOST 8   /* loop passes per step: a task may be late for ever */
#define SLOTS 0x3ffffff /* the lower bits of an id say which slot the task has */
#define SHUT_STEPS 60
#define START_NS UVS_SEC(1)
#define START_WALL_NS UVS_SEC(1700000000)

/* ---- bytes ---- */

static uint64_t mix(uint64_t x) {
  x += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

struct bytes driver_program(uint64_t seed, uint64_t n) {
  return (struct bytes){NULL, 0, 0, mix(mix(seed) + n)};
}

uint8_t driver_byte(struct bytes *b) {
  if (b->data != NULL)
    return b->pos < b->size ? b->data[b->pos++] : 0;
  b->pos++;
  b->state += UINT64_C(0x9e3779b97f4a7c15);
  return (uint8_t)(mix(b->state) >> 24);
}

static bool ended(const struct bytes *b) {
  return b->data != NULL && b->pos >= b->size;
}

/* One of n. */
static unsigned pick(struct bytes *b, unsigned n) {
  return driver_byte(b) % n;
}

/* ---- the two sides ---- */

enum what {
  EV_CALL = 1, /* the answer of a call */
  EV_WORK,
  EV_AFTER,
  EV_DONE,
  EV_ERROR,
  EV_MISSED,
  EV_BEFORE_BODY,
  EV_AFTER_BODY,
  EV_NEVER_RAN,
  EV_TERMINATED,
  EV_REJECTED,
  EV_CLEANUP,
  EV_QUIET,
  EV_EACH,
  EV_VALUE,
  EV_LEFT,
  EV_CLOSED,
  EV_DECORATE,
  EV_OVER,
  EV_DROP,
  EV_INTERRUPT,
};

static const char *const what_names[] = {
    "?",        "answer",      "work",       "after",     "done",       "error",
    "missed",   "before body", "after body", "never ran", "terminated", "rejected",
    "clean-up", "quiet",       "each",       "value",     "left",       "closed",
    "decorate", "over",        "drop",       "interrupt"};

struct event {
  int what;
  int tag;
  int64_t v[6];
};

/* A query and its answer. */
struct word {
  const char *of;
  int tag;
  int64_t v;
};

struct record {
  struct side *side;
  int tag;
  uvs_id_t id;
  uint32_t script; /* what its callbacks do */
  bool reserved, live, kept;
  bool drops; /* drops its result unless a wait receives it */
  bool paused;
  bool by_calendar;
  int cleanups;
};

struct side {
  const char *name;
  uvs_t *s;        /* the library; or */
  struct model *m; /* the model */
  int64_t mono_ns, wall_ns;
  struct record record[TAGS];
  unsigned head;
  int kept;
  uvs_lane_t lane[LANES];
  int lane_cleanups[LANES];
  unsigned lanes;
  void *queue[QUEUES];
  unsigned queues;
  uvs_item_t item[QUEUES][ITEMS]; /* an item belongs to one queue */
  unsigned items;
  int64_t cleanups;
  bool moved;      /* a clock was moved since the last pass */
  bool sent;       /* the inbox may not be empty */
  bool ran_here;   /* a caller-run task ran since the last pass */
  bool in_turn;    /* inside a loop pass, which makes callbacks */
  int64_t next_ns; /* uvs_next_due */
  bool far;        /* calls come from another thread */
  int depth, acts;
  bool closed;
  unsigned events, words;
  struct event event[EVENTS];
  struct word word[WORDS];
};

static struct side sides[2];
static struct side *at; /* the side whose callbacks are being called */
static uv_loop_t loop;
static uv_idle_t pin;
static long allocated;
static uint64_t calls;
static bool tracing;
/* What a program has more of than usual. */
enum { PLAIN = 0, LANED = 1, LIMITED = 2, PENDING = 4, FAILING = 8, CONTROLLED = 16 };
static unsigned flavour;
static bool has_far;         /* other threads make calls */
static unsigned live_most;   /* below 64, the batch size of a loop pass */
static unsigned turns_taken; /* in this step, by the library */
static bool slept;

static void note(enum what what, int tag, int64_t a, int64_t b, int64_t c, int64_t d, int64_t e,
                 int64_t f) {
  if (at->events < EVENTS)
    at->event[at->events++] = (struct event){(int)what, tag, {a, b, c, d, e, f}};
  if (tracing && at->s != NULL)
    fprintf(stderr,
            "      %-11s #%-2d  %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
            " %" PRId64 "\n",
            what_names[what], tag, a, b, c, d, e, f);
}

static void say(const char *format, ...) {
  va_list args;

  if (!tracing || at->s == NULL)
    return;
  va_start(args, format);
  fprintf(stderr, at->depth > 0 ? "      ( " : "   ");
  vfprintf(stderr, format, args);
  fprintf(stderr, "\n");
  va_end(args);
}

static int answered(int rc) {
  calls++;
  note(EV_CALL, -1, rc, 0, 0, 0, 0, 0);
  return rc;
}

#define BOTH(real, model) (at->s != NULL ? (real) : (model))

static int64_t monotonic_ns(void *arg) {
  return ((struct side *)arg)->mono_ns;
}

static int64_t wall_ns(void *arg) {
  return ((struct side *)arg)->wall_ns;
}

static int64_t duration(struct bytes *b) {
  static const int64_t of[] = {
      0,          0,           -1,          1,           UVS_US(1),  UVS_US(300),   UVS_MS(1),
      UVS_MS(1),  UVS_MS(2),   UVS_MS(3),   UVS_MS(5),   UVS_MS(5),  UVS_MS(8),     UVS_MS(10),
      UVS_MS(10), UVS_MS(20),  UVS_MS(20),  UVS_MS(33),  UVS_MS(50), UVS_MS(100),   UVS_MS(200),
      UVS_SEC(1), UVS_SEC(30), UVS_HOUR(1), UVS_DAY(15), UVS_NEVER,  UVS_NEVER - 1, INT64_MIN,
  };

  return of[pick(b, sizeof of / sizeof of[0])];
}

static int64_t period(struct bytes *b) {
  static const int64_t of[] = {UVS_US(700), UVS_MS(1),  UVS_MS(2),  UVS_MS(3),  UVS_MS(5),
                               UVS_MS(7),   UVS_MS(10), UVS_MS(10), UVS_MS(20), UVS_MS(50),
                               UVS_MS(100), UVS_SEC(1), UVS_NEVER};

  return of[pick(b, sizeof of / sizeof of[0])];
}

static int64_t later_of(int64_t from, int64_t by) {
  return by <= 0 ? from : by > UVS_NEVER - from ? UVS_NEVER : from + by;
}

static void act(uint64_t chance);

/* A callback makes another call in one of n cases. */
static void maybe_act(uint64_t chance, unsigned n) {
  uint64_t h = mix(chance);

  if (h % n == 0)
    act(h >> 8);
}

/* ---- callbacks ---- */

/* Why a calendar task is late is not compared: the model does not always know in which pass the
 * loop first looks at the wall clock, and so which of its steps it sees. */
static int known_cause(const struct record *r, int cause) {
  return r->by_calendar ? 0 : cause;
}

static int64_t packed_late(const uvs_run_t *run) {
  uint64_t h = 0;

  if (((const struct record *)run->arg)->by_calendar)
    return 0;

  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    h = mix(h + (uint64_t)run->late_by_ns[i]);
  return (int64_t)h;
}

static void note_run(enum what what, uvs_run_t *run) {
  const struct record *r = run->arg;

  note(what, r->tag, (int64_t)run->number, run->ideal_ns, run->start_ns, (int64_t)run->missed,
       run->late_ns, known_cause(r, run->culprit) * 100 + run->runner);
  note(what, r->tag, run->status, run->end_ns, packed_late(run), run->id == r->id,
       run->scheduler != NULL, BOTH(uvs_cancelled(run), model_cancelled(run)));
}

/* A body may finish its own run before it returns UVS_PENDING. */
static void finish_early(const struct record *r, uint64_t h) {
  for (; (h & 3) == 0 && h != 0; h >>= 2) {
    int status = (h & 4) != 0 ? 0 : UV_EIO;

    answered(BOTH(uvs_finish(at->s, r->id, status), model_finish(at->m, r->id, status)));
  }
}

static int perform(uvs_run_t *run, uint64_t salt) {
  static const int returns[16] = {0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0,
                                  UV_EIO,
                                  UV_EIO,
                                  UVS_PENDING,
                                  UVS_STOP,
                                  7,
                                  UV_ECONNRESET,
                                  UV_ECANCELED,
                                  -5000};
  static const int64_t takes[8] = {0, 0, 0, 0, UVS_US(10), UVS_MS(1), UVS_MS(3), UVS_MS(9)};
  const struct record *r = run->arg;
  uint64_t h = mix(r->script + run->number * 1000003 + salt);
  int returned = (r->script & 3) == 0 ? 0 : returns[h & 15];

  if ((r->script & 12) == 0)
    returned = returns[(r->script >> 4) & 15]; /* the same each time */
  if ((flavour & PENDING) != 0 && (h >> 52 & 1) != 0)
    returned = UVS_PENDING;
  if ((flavour & FAILING) != 0 && (h >> 53 & 1) != 0)
    returned = UV_EIO;
  if ((h >> 4 & 3) == 0)
    answered(BOTH(uvs_set_result(run, (void *)(uintptr_t)(h & 0xff)),
                  model_set_result(run, (void *)(uintptr_t)(h & 0xff))));
  at->mono_ns += takes[h >> 6 & 7];
  at->wall_ns += takes[h >> 6 & 7];
  at->moved |= !at->in_turn; /* the loop pass looks again by itself */
  maybe_act(h >> 10, 6);
  maybe_act(h >> 11, 24);
  if (returned == UVS_PENDING && at->in_turn)
    finish_early(r, h >> 54);
  if ((h >> 40 & 1) != 0 && BOTH(uvs_cancelled(run), model_cancelled(run)))
    returned = UV_ECANCELED; /* the body stops, as it was asked to */
  note(EV_CALL, r->tag, BOTH(uvs_cancelled(run), model_cancelled(run)), returned, 0, 0, 0, 0);
  return returned;
}

static int on_work(uvs_run_t *run) {
  note_run(EV_WORK, run);
  if (run->runner == UVS_ON_CALLER)
    at->sent = at->ran_here = true;
  return perform(run, 1);
}

static int on_loop_body(uvs_run_t *run) {
  note_run(EV_AFTER, run);
  return perform(run, 2);
}

static int on_after(uvs_run_t *run) {
  int returned;

  note_run(EV_AFTER, run);
  returned = perform(run, 3);
  return returned == UVS_PENDING ? 0 : returned;
}

/* The body of a decorated task. */
static int on_wrapper(uvs_run_t *run) {
  const struct record *r = run->arg;

  note(EV_DECORATE, r->tag, 1, run->status, 0, 0, 0, 0);
  return (r->script & 0x40000) != 0 ? on_work(run) : 0;
}

static void on_over(void *arg) {
  note(EV_OVER, ((struct record *)arg)->tag, 0, 0, 0, 0, 0, 0);
}

static void on_decorate(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  struct record *r = d->arg;

  note(EV_DECORATE, r->tag, 0, s != NULL, id == r->id, d->work != NULL, 0, 0);
  if ((r->script & 0x10000) != 0)
    d->work = (r->script & 0x20000) != 0 ? on_wrapper : NULL;
  if ((r->script & 0x80000) != 0)
    d->release = on_over;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct record *r = arg;

  note(EV_DONE, r->tag, status, id == r->id, s != NULL, 0, 0, 0);
  maybe_act(r->script + 77, 6);
}

static void on_interrupt(uvs_t *s, uvs_id_t id, void *arg) {
  struct record *r = arg;

  note(EV_INTERRUPT, r->tag, id == r->id, s != NULL, 0, 0, 0, 0);
  if ((r->script & 0x600000) != 0) /* a pending run would be finished, a body would be woken */
    answered(BOTH(uvs_finish(at->s, id, UV_ECANCELED), model_finish(at->m, id, UV_ECANCELED)));
  maybe_act(r->script + at->events, 6);
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct record *r = arg;

  note(EV_ERROR, r->tag, status, id == r->id, s != NULL, 0, 0, 0);
  maybe_act(r->script + at->events, 12);
}

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct record *r = arg;

  note(EV_MISSED, r->tag, (int64_t)count, known_cause(r, reason), id == r->id, s != NULL, 0, 0);
  maybe_act(r->script + at->events, 12);
}

static void on_before_body(uvs_run_t *run) {
  note(EV_BEFORE_BODY, ((struct record *)run->arg)->tag, run->scheduler != NULL, 0, 0, 0, 0, 0);
}

static void on_after_body(uvs_run_t *run, int status) {
  note(EV_AFTER_BODY, ((struct record *)run->arg)->tag, status, run->scheduler != NULL, 0, 0, 0, 0);
}

static void on_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  const struct record *r = task_arg; /* NULL: the last call */

  (void)s;
  note(EV_NEVER_RAN, r == NULL ? -1 : r->tag, (int64_t)(intptr_t)arg, id == (r == NULL ? 0 : r->id),
       0, 0, 0, 0);
}

static void on_drop(void *result) {
  note(EV_DROP, -1, (int64_t)(intptr_t)result, 0, 0, 0, 0, 0);
}

static void on_terminated(uvs_t *s) {
  (void)s;
  note(EV_TERMINATED, -1, 0, 0, 0, 0, 0, 0);
}

static int on_rejected(uvs_t *s, const uvs_task_t *t, size_t n, int code) {
  static const int answers[] = {UVS_REJECT_ABORT, UVS_REJECT_DISCARD, UVS_REJECT_DISCARD_OLDEST,
                                UVS_REJECT_CALLER_RUNS, 99};
  const struct record *r = t->arg;

  note(EV_REJECTED, r->tag, (int64_t)n, code, s != NULL, 0, 0, 0);
  maybe_act(r->script + 5, 8);
  return answers[(r->script >> 8) % 5];
}

static void on_cleanup(uvs_t *s, void *arg) {
  note(EV_CLEANUP, -1, (int64_t)(intptr_t)arg, s != NULL, 0, 0, 0, 0);
  maybe_act((uint64_t)(uintptr_t)arg * 31, 8);
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)lane;
  note(EV_QUIET, -1, (int64_t)(intptr_t)arg, s != NULL, 0, 0, 0, 0);
  maybe_act((uint64_t)(uintptr_t)arg * 37, 6);
}

static void note_value(enum what what, const uvs_entry_t *e, int64_t which) {
  note(what, -1, which, (int64_t)(intptr_t)e->value, e->due_ns, 0, 0, 0);
}

static void on_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  note_value(EV_VALUE, e, (int64_t)(intptr_t)arg);
  maybe_act((uint64_t)e->due_ns + at->events, 10);
}

static void on_left(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  note_value(EV_LEFT, e, (int64_t)(intptr_t)arg);
}

static int on_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  note_value(EV_EACH, e, (int64_t)(intptr_t)arg);
  return 0;
}

static void on_closed(uvs_t *s) {
  (void)s;
  at->closed = true;
}

/* ---- tasks ---- */

static int info_of(const struct record *r, uvs_info_t *info) {
  uvs_info_init(info);
  return BOTH(uvs_info(at->s, r->id, info), model_info(at->m, r->id, info));
}

/* Is nothing left of the task of this record? */
static bool is_free(const struct record *r) {
  uvs_info_t info;

  return !r->reserved && !r->kept && (!r->live || info_of(r, &info) == UV_ENOENT);
}

static struct record *new_record(void) {
  for (int i = 0; i < TAGS; i++) {
    struct record *r = &at->record[at->head++ % TAGS];

    if (is_free(r)) {
      r->reserved = true;
      r->cleanups = 0;
      r->paused = false;
      return r;
    }
  }
  fprintf(stderr, "driver: no free record\n");
  abort();
}

static struct record *some_record(struct bytes *b) {
  unsigned n = driver_byte(b);

  return &at->record[n < 208 ? (at->head - 1 - n % 14) % TAGS : n % TAGS];
}

/* A task in this state, or with 0 any unfinished task. If there is none, any task. */
static struct record *record_in(struct bytes *b, int state) {
  unsigned first = driver_byte(b);
  uvs_info_t info;

  for (unsigned i = 0; i < TAGS; i++) {
    struct record *r = &at->record[(first + i) % TAGS];

    if (r->live && info_of(r, &info) == 0 && (state == 0 || info.state == state))
      return r;
  }
  return &at->record[first % TAGS];
}

static uint64_t live_tasks(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  BOTH(uvs_counts(at->s, &c), model_counts(at->m, &c));
  return c.waiting + c.ready + c.running;
}

static unsigned taken_records(void) {
  unsigned n = 0;

  for (int i = 0; i < TAGS; i++)
    n += at->record[i].reserved || at->record[i].kept || at->record[i].live;
  return n;
}

static void fill_rare(struct bytes *b, uvs_task_t *t) {
  uint8_t rare = driver_byte(b) & driver_byte(b);

  rare |= ((flavour & LANED) != 0 ? 8 : 0) | ((flavour & LIMITED) != 0 ? 4 : 0) |
          ((flavour & FAILING) != 0 ? 34 : 0);
  if ((rare & 1) != 0 && at->kept < KEPT_MOST) {
    t->keep_outcome = 1;
    t->result = (void *)(uintptr_t)pick(b, 3);
    if (t->result != (void *)(uintptr_t)1)
      t->drop_result = on_drop;
  }
  if ((rare & 2) != 0) {
    t->failure_policy = (int)pick(b, 3);
    if (t->failure_policy == UVS_FAIL_CONTINUE && t->kind == UVS_ONE_SHOT)
      t->failure_policy = UVS_FAIL_RETRY;
    if (t->failure_policy != UVS_FAIL_STOP)
      t->max_failures = pick(b, 4);
    if (t->failure_policy == UVS_FAIL_RETRY) {
      t->retry.wait_ns = period(b);
      t->retry.max_wait_ns = pick(b, 2) == 0 ? 0 : later_of(t->retry.wait_ns, duration(b));
    }
  }
  if ((rare & 4) != 0 && t->work != NULL) {
    uint32_t which = pick(b, 3); /* the one, the other, or both */

    t->limit.run_ns = which == 0 ? 0 : period(b);
    t->limit.total_ns = which == 1 ? 0 : period(b);
    t->limit.substitute = (int)pick(b, 2);
    if (t->limit.substitute) {
      t->limit.status = pick(b, 2) == 0 ? 0 : UV_EPIPE;
      if (t->keep_outcome && t->limit.status == 0)
        t->limit.result = (void *)(uintptr_t)9;
    }
  }
  if ((rare & 8) != 0)
    t->lane = at->lane[pick(b, LANES)];
  if ((rare & 16) != 0)
    t->priority = (int)pick(b, 3) - 1;
  if ((rare & 32) != 0 && t->kind != UVS_ONE_SHOT) {
    t->max_runs = pick(b, 5);
    if (pick(b, 2) == 0 && t->first_ns < UVS_DAY(1))
      t->until_ns = later_of(t->first_ns < 0 ? 0 : t->first_ns,
                             t->period_ns > UVS_DAY(1) ? 1 : t->period_ns * (1 + pick(b, 6)));
  }
  if ((rare & 64) != 0)
    t->flags = UVS_UNREF;
  if ((rare & 128) != 0) {
    t->from = t->kind == UVS_ONE_SHOT && pick(b, 2) == 0 ? UVS_FROM_WALL : UVS_FROM_MONOTONIC;
    if (t->first_ns < UVS_DAY(1) && t->first_ns >= 0 && pick(b, 4) != 0) {
      int64_t now = t->from == UVS_FROM_WALL ? at->wall_ns : at->mono_ns;

      t->first_ns += now - UVS_MS(4);
      if (t->until_ns != 0)
        t->until_ns += now;
    }
  }
}

/* Mistakes that a program may make. */
static void spoil(struct bytes *b, uvs_task_t *t) {
  switch (pick(b, 20)) {
  case 0:
    t->kind = (int)pick(b, 5) - 1;
    break;
  case 1:
    t->from = (int)pick(b, 5) - 1;
    break;
  case 2:
    t->period_ns = -(int64_t)pick(b, 3);
    break;
  case 3:
    t->work = NULL;
    break;
  case 4:
    t->after = NULL;
    t->work = pick(b, 2) ? NULL : t->work;
    break;
  case 5:
    t->flags = pick(b, 4);
    t->flags += t->flags & UVS_REPLACE; /* an unknown flag instead */
    break;
  case 6:
    t->missed_policy = (int)pick(b, 5) - 1;
    break;
  case 7:
    t->max_burst = pick(b, 3);
    break;
  case 8:
    t->max_runs = pick(b, 3);
    break;
  case 9:
    t->until_ns = (int64_t)pick(b, 3) - 1;
    break;
  case 10:
    t->name = "a name of 24 characters!";
    break;
  case 11:
    t->keep_outcome = (int)pick(b, 4) - 1;
    break;
  case 12:
    t->failure_policy = (int)pick(b, 5) - 1;
    break;
  case 13:
    t->max_failures = pick(b, 2);
    break;
  case 14:
    t->retry.wait_ns = (int64_t)pick(b, 3) - 1;
    break;
  case 15:
    *(pick(b, 2) == 0 ? &t->limit.total_ns : &t->limit.run_ns) = (int64_t)pick(b, 3) - 1;
    break;
  case 16:
    t->limit.substitute = (int)pick(b, 4) - 1;
    break;
  case 17:
    t->limit.status = (int)pick(b, 3) - 1;
    break;
  case 18:
    t->priority = (int)pick(b, 5) - 2;
    break;
  default:
    t->result = (void *)(uintptr_t)1;
    break;
  }
}

#define NAMES 3
static const char *const names[NAMES] = {"a name of 23 characters", "b", "c"};

struct model_calendar model_calendars[MODEL_CALENDARS] = {
    {NULL, 0, 59, 7}, {NULL, 3, 59, 20}, {NULL, 30, 30, 1}};

static void parse_calendars(void) {
  static const char *const texts[MODEL_CALENDARS] = {"*/7 * * * * *", "3-59/20 * * * * *",
                                                     "30 * * * * *"};

  for (int i = 0; i < MODEL_CALENDARS; i++)
    if (uvs_calendar_parse(texts[i], "UTC", NULL, &model_calendars[i].calendar, NULL) != 0)
      abort();
}

static void fill_calendar(struct bytes *b, uvs_task_t *t) {
  int64_t base = 0;

  t->kind = UVS_CALENDAR;
  t->calendar = model_calendars[pick(b, MODEL_CALENDARS)].calendar;
  t->period_ns = 0;
  t->from = pick(b, 2) == 0 ? UVS_FROM_NOW : UVS_FROM_WALL;
  if (t->from == UVS_FROM_WALL)
    base = at->wall_ns - UVS_SEC(20);
  t->first_ns = base + UVS_MS(500 * (int64_t)pick(b, 120));
  t->until_ns = pick(b, 4) != 0 ? 0 : t->first_ns + UVS_SEC(1 + (int64_t)pick(b, 120));
  t->missed_policy = (int)pick(b, 3);
  t->max_burst = t->missed_policy == UVS_MISSED_CATCH_UP ? pick(b, 4) : 0;
}

static void fill(struct bytes *b, uvs_task_t *t, struct record *r) {
  uint8_t shape = driver_byte(b);
  uint8_t more = driver_byte(b);

  uvs_task_init(t);
  t->kind = (shape & 3) == 2 ? UVS_FIXED_RATE : (shape & 3) == 3 ? UVS_FIXED_DELAY : UVS_ONE_SHOT;
  t->first_ns = duration(b);
  if (t->kind != UVS_ONE_SHOT)
    t->period_ns = period(b);
  if (t->kind == UVS_FIXED_RATE) {
    t->missed_policy = (shape >> 2) % 3;
    if (t->missed_policy == UVS_MISSED_CATCH_UP)
      t->max_burst = shape >> 6;
  }
  if ((more & 3) != 3)
    t->work = on_work;
  if ((more & 2) != 0)
    t->after = t->work != NULL ? on_after : on_loop_body;
  if ((more & 12) != 0)
    t->done = on_done;
  t->arg = r;
  if ((more & 0x70) == 0)
    t->name = "named";
  if ((more & 0x80) != 0)
    fill_rare(b, t);
  if ((flavour & CONTROLLED) != 0 && pick(b, 4) == 0)
    fill_calendar(b, t);
  r->by_calendar = t->kind == UVS_CALENDAR;
  if ((flavour & CONTROLLED) != 0 && pick(b, 2) == 0) {
    t->flags |= UVS_REPLACE;
    t->name = names[pick(b, NAMES)];
  }
  r->script =
      (uint32_t)mix(driver_byte(b) | (uint64_t)driver_byte(b) << 8 | (uint64_t)t->kind << 16);
  if (t->work != NULL && (r->script & 0x100000) != 0)
    t->interrupt = on_interrupt;
  if (pick(b, 48) == 0)
    spoil(b, t);
}

static void op_cancel(struct bytes *b, bool any);

static void submit(struct bytes *b, size_t n, bool narrow) {
  struct record *r[3];
  uvs_task_t t[3];
  uvs_id_t ids[3] = {0, 0, 0};
  uvs_lane_t lane = narrow ? at->lane[pick(b, LANES)] : 0;
  int rc;

  if (live_tasks() + n > live_most || taken_records() + n > TAGS - 4) {
    op_cancel(b, false); /* there are enough tasks */
    return;
  }
  for (size_t i = 0; i < n; i++) {
    r[i] = new_record();
    fill(b, &t[i], r[i]);
    say("submit%s #%d kind %d from %d delay %" PRId64 " period %" PRId64
        " missed %d burst %u runs %u until %" PRId64 "%s%s%s lane %" PRIu64
        " priority %d keep %d failure %d/%u retry %" PRId64 "..%" PRId64 " limit %" PRId64
        " flags %u",
        narrow ? " to lane" : "", r[i]->tag, t[i].kind, t[i].from, t[i].first_ns, t[i].period_ns,
        t[i].missed_policy, t[i].max_burst, t[i].max_runs, t[i].until_ns, t[i].work ? " work" : "",
        t[i].after ? " after" : "", t[i].done ? " done" : "", (uint64_t)(narrow ? lane : t[i].lane),
        t[i].priority, t[i].keep_outcome, t[i].failure_policy, t[i].max_failures,
        t[i].retry.wait_ns, t[i].retry.max_wait_ns, t[i].limit.total_ns, t[i].flags);
    r[i]->id = 0;
    r[i]->live = true;
    r[i]->kept = t[i].keep_outcome == 1;
    r[i]->drops = t[i].drop_result != NULL;
    at->kept += r[i]->kept;
  }
  /* Bodies may run before this returns, and may use the ids of their own tasks. */
  if (narrow)
    rc = BOTH(uvs_lane_submit(lane, t, &r[0]->id),
              lane == 0 ? UV_ENOENT : model_submit(at->m, t, 1, lane, &r[0]->id));
  else if (n == 1)
    rc = BOTH(uvs_submit(at->s, t, &r[0]->id), model_submit(at->m, t, 1, 0, &r[0]->id));
  else
    rc = BOTH(uvs_submit_many(at->s, t, n, ids), model_submit(at->m, t, n, 0, ids));
  answered(rc);
  for (size_t i = 0; i < n; i++) {
    if (n > 1)
      r[i]->id = ids[i];
    r[i]->reserved = false;
    if (rc < 0) {
      at->kept -= r[i]->kept;
      r[i]->kept = r[i]->live = false;
      continue;
    }
    for (int k = 0; k < TAGS; k++) /* the task may have taken the id of the one it replaced */
      at->record[k].live &= at->record[k].id != r[i]->id;
    r[i]->live = true;
    /* The lowest free slot, or that of the task that was replaced. */
    note(EV_CALL, r[i]->tag, BOTH(r[i]->id & SLOTS, r[i]->id % MODEL_TASKS), 0, 0, 0, 0, 0);
  }
}

/* ---- other operations of a program ---- */

static void op_cancel(struct bytes *b, bool any) {
  static const unsigned flags[] = {
      0, 0, UVS_CANCEL_TOKEN | UVS_CANCEL_NO_DONE, UVS_CANCEL_IF_WAITING, 7, 8};
  struct record *r = any ? some_record(b) : record_in(b, 0);
  unsigned f = flags[pick(b, 6)];
  uvs_lane_t lane;

  if (pick(b, 8) == 0) {
    lane = at->lane[pick(b, LANES)];
    say("cancel #%d in lane %" PRIu64 " flags %u", r->tag, (uint64_t)lane, f);
    answered(BOTH(uvs_lane_cancel(lane, r->id, f),
                  model_lane_has(at->m, lane, r->id) ? model_cancel(at->m, r->id, f) : UV_ENOENT));
    return;
  }
  say("cancel #%d flags %u", r->tag, f);
  answered(BOTH(uvs_cancel(at->s, r->id, f), model_cancel(at->m, r->id, f)));
}

static void op_complete(struct bytes *b) {
  static const int statuses[] = {0, 0, 0, UV_EIO, UV_ECANCELED, 7, -5000};
  struct record *r = some_record(b);
  int status = statuses[pick(b, 7)];
  void *result = (void *)(uintptr_t)(pick(b, 2) == 0 ? 0 : 20 + pick(b, 3));

  say("complete #%d with %d", r->tag, status);
  answered(BOTH(uvs_complete(at->s, r->id, status, result),
                model_complete(at->m, r->id, status, result)));
}

static void op_reschedule(struct bytes *b) {
  struct record *r = some_record(b);
  int64_t delay = duration(b);
  uvs_lane_t lane;

  if (pick(b, 8) == 0) {
    lane = at->lane[pick(b, LANES)];
    say("reschedule #%d in lane %" PRIu64 " by %" PRId64, r->tag, (uint64_t)lane, delay);
    answered(BOTH(uvs_lane_reschedule(lane, r->id, delay),
                  model_lane_has(at->m, lane, r->id) ? model_reschedule(at->m, r->id, delay)
                                                     : UV_ENOENT));
    return;
  }
  say("reschedule #%d by %" PRId64, r->tag, delay);
  answered(BOTH(uvs_reschedule(at->s, r->id, delay), model_reschedule(at->m, r->id, delay)));
}

/* A task that is paused. If there is none, any task. */
static struct record *paused_record(struct bytes *b) {
  unsigned first = driver_byte(b);

  for (unsigned i = 0; i < TAGS; i++) {
    struct record *r = &at->record[(first + i) % TAGS];

    if (r->live && r->paused)
      return r;
  }
  return &at->record[first % TAGS];
}

static void op_pause(struct bytes *b) {
  struct record *r = pick(b, 4) == 0 ? some_record(b) : record_in(b, (int)pick(b, 4));

  say("pause #%d", r->tag);
  if (answered(BOTH(uvs_pause(at->s, r->id), model_pause(at->m, r->id))) >= 0)
    r->paused = true;
}

static void op_resume(struct bytes *b) {
  static const unsigned flags[] = {0, 0, 0, 0, UVS_RESUME_FORGET, UVS_RESUME_FORGET, 3, 2};
  struct record *r = pick(b, 8) == 0 ? some_record(b) : paused_record(b);
  unsigned f = flags[pick(b, 8)];

  say("resume #%d flags %u", r->tag, f);
  if (answered(BOTH(uvs_resume(at->s, r->id, f), model_resume(at->m, r->id, f))) == 0)
    r->paused = false;
}

static void op_run_now(struct bytes *b) {
  struct record *r = pick(b, 4) == 0 ? some_record(b) : record_in(b, UVS_WAITING);

  say("run #%d now", r->tag);
  answered(BOTH(uvs_run_now(at->s, r->id), model_run_now(at->m, r->id)));
}

static void op_all(bool pause) {
  say("%s all", pause ? "pause" : "resume");
  if (pause)
    answered(BOTH(uvs_pause_all(at->s), model_pause_all(at->m)));
  else
    answered(BOTH(uvs_resume_all(at->s), model_resume_all(at->m)));
}

static void op_control(struct bytes *b) {
  unsigned what = pick(b, 16);

  if (what < 5)
    op_pause(b);
  else if (what < 9)
    op_run_now(b);
  else if (what < 12)
    op_all(what == 9);
  else
    op_resume(b);
}

static void op_finish(struct bytes *b) {
  static const int statuses[] = {0, 0, UV_ECANCELED, UVS_STOP, UV_EIO, 7, UVS_PENDING, -5000};
  struct record *r = pick(b, 4) == 0 ? some_record(b) : record_in(b, UVS_RUNNING);
  int status = statuses[pick(b, 8)];
  uvs_lane_t lane = at->lane[pick(b, LANES)];
  bool narrow = pick(b, 8) == 0;

  if (at->depth > 0 && !at->in_turn)
    return;
  say("finish #%d with %d", r->tag, status);
  if (narrow)
    answered(BOTH(uvs_lane_finish(lane, r->id, status), model_lane_has(at->m, lane, r->id)
                                                            ? model_finish(at->m, r->id, status)
                                                            : UV_ENOENT));
  else
    answered(BOTH(uvs_finish(at->s, r->id, status), model_finish(at->m, r->id, status)));
  at->sent = true;
}

static void op_ref(struct bytes *b) {
  struct record *r = some_record(b);
  bool ref = pick(b, 2) != 0;

  say("%s #%d", ref ? "ref" : "unref", r->tag);
  answered(BOTH((ref ? uvs_ref : uvs_unref)(at->s, r->id), model_set_ref(at->m, r->id, ref)));
}

static void note_outcome(int rc, const uvs_outcome_t *o) {
  note(EV_CALL, -1, rc, o->state, o->status, (int64_t)(intptr_t)o->result, o->ideal_ns,
       o->start_ns);
  note(EV_CALL, -1, o->end_ns, (int64_t)o->runs, 0, 0, 0, 0);
}

static void op_keep(struct bytes *b) {
  struct record *r = some_record(b);
  uvs_outcome_t o;
  unsigned flags;
  int64_t timeout;
  int rc;

  if (pick(b, 2) == 0) {
    say("forget #%d", r->tag);
    rc = answered(BOTH(uvs_forget(at->s, r->id), model_forget(at->m, r->id)));
    if (rc == 0) {
      at->kept -= r->kept;
      r->kept = false;
    }
    return;
  }
  flags = pick(b, 3);
  timeout = (int64_t)pick(b, 3) - 1;
  say("wait #%d %" PRId64 " flags %u", r->tag, timeout, flags);
  uvs_outcome_init(&o);
  rc = BOTH(uvs_wait(at->s, r->id, timeout, flags, &o),
            model_wait(at->m, r->id, timeout, flags, &o));
  calls++;
  note_outcome(rc, &o);
}

static void op_lane(struct bytes *b) {
  unsigned i = pick(b, LANES);
  unsigned what = pick(b, 8);
  unsigned flags = pick(b, 24) == 0 ? 2 : what & 1 ? UVS_DISPOSE_TOKEN : 0;
  bool disposed = at->lane[i] == 0 || BOTH(uvs_lane_is_disposed(at->lane[i]),
                                           model_lane_is_disposed(at->m, at->lane[i])) != 0;

  if (what < 4 && disposed && at->lanes < LANES_MOST) {
    uvs_lane_options_t o;
    int rc;

    uvs_lane_options_init(&o);
    o.width = pick(b, 4);
    o.on_quiet = pick(b, 4) == 0 ? NULL : on_quiet;
    o.arg = (void *)(uintptr_t)(1000 + at->lanes);
    say("open lane at %u, width %u", i, o.width);
    rc = answered(
        BOTH(uvs_lane_open(at->s, &o, &at->lane[i]), model_lane_open(at->m, &o, &at->lane[i])));
    at->lanes += rc == 0;
    at->lane_cleanups[i] = 0;
  } else if (what < 6) {
    say("dispose lane at %u flags %u", i, flags);
    answered(
        BOTH(uvs_lane_dispose(at->lane[i], flags), model_lane_dispose(at->m, at->lane[i], flags)));
  } else {
    submit(b, 1, true);
  }
}

static void op_cleanup(struct bytes *b) {
  unsigned flags = pick(b, 3) == 0 ? UVS_CLEANUP_WHEN_SETTLED : 0;
  void *arg = (void *)(uintptr_t)(++at->cleanups);
  unsigned i = pick(b, LANES);

  if (pick(b, 16) == 0)
    flags |= 2;
  if (pick(b, 4) == 0 && at->lane_cleanups[i] < 6) {
    say("clean-up to lane at %u flags %u", i, flags);
    at->lane_cleanups[i]++;
    answered(BOTH(uvs_lane_add_cleanup(at->s, at->lane[i], on_cleanup, arg, flags),
                  model_lane_add_cleanup(at->m, at->lane[i], on_cleanup, arg, flags)));
  } else {
    struct record *r = some_record(b);

    if (r->cleanups++ >= 6)
      return;
    say("clean-up to #%d flags %u", r->tag, flags);
    answered(BOTH(uvs_add_cleanup(at->s, r->id, on_cleanup, arg, flags),
                  model_add_cleanup(at->m, r->id, on_cleanup, arg, flags)));
  }
}

static void note_entry(int rc, const uvs_entry_t *e) {
  calls++;
  note(EV_CALL, -1, rc, (int64_t)(intptr_t)e->value, e->due_ns, 0, 0, 0);
}

static void queue_open(unsigned i) {
  uvs_queue_options_t o;

  if (at->queues == MODEL_QUEUES || at->depth > 0)
    return;
  at->queues++;
  memset(at->item[i], 0, sizeof at->item[i]);
  uvs_queue_options_init(&o);
  o.on_left = on_left;
  o.arg = (void *)(uintptr_t)i;
  say("open queue %u", i);
  answered(BOTH(uvs_queue_open(at->s, &o, (uvs_queue_t **)&at->queue[i]),
                model_queue_open(at->m, &o, (struct model_queue **)&at->queue[i])));
  at->sent = true; /* makes the loop look: the order of service depends on it */
}

static void queue_put(struct bytes *b, unsigned i) {
  void *q = at->queue[i];
  uvs_entry_t e[3];
  uvs_item_t item = 0;
  size_t n = 1 + pick(b, 8) / 6;
  bool at_instant = pick(b, 2) == 0;
  int64_t delay = duration(b);
  int rc;

  if (BOTH(uvs_queue_size(q), model_queue_size(q)) > VALUES_MOST)
    return;
  for (size_t k = 0; k < n; k++) {
    e[k].value = (void *)(uintptr_t)(pick(b, 32) == 0 ? 0 : 1 + pick(b, 9));
    e[k].due_ns = delay == INT64_MIN ? delay : later_of(at->mono_ns, delay);
    delay = duration(b);
  }
  if (n == 1 && at_instant)
    rc = BOTH(uvs_queue_put_at(q, e[0].value, e[0].due_ns, &item), model_queue_put_many(q, e, 1));
  else if (n == 1) {
    delay = e[0].due_ns == UVS_NEVER ? UVS_NEVER : e[0].due_ns - at->mono_ns;
    if (e[0].due_ns < at->mono_ns) {
      e[0].due_ns = at->mono_ns;
      delay = -1;
    }
    rc = BOTH(uvs_queue_put(q, e[0].value, delay, &item), model_queue_put_many(q, e, 1));
  } else
    rc = BOTH(uvs_queue_put_many(q, e, n), model_queue_put_many(q, e, n));
  say("put %zu", n);
  answered(rc);
  if (rc == 0)
    at->item[i][at->items++ % ITEMS] = at->s != NULL && n == 1 ? item : e[0].item;
}

static void op_queue(struct bytes *b) {
  unsigned i = pick(b, QUEUES);
  void *q = at->queue[i];
  const void *value = (void *)(uintptr_t)(pick(b, 10));
  uvs_entry_t e = {NULL, 0, 0};
  unsigned what = pick(b, 24);
  bool ref = pick(b, 2) != 0;
  uvs_item_t item;
  int rc;

  if (q == NULL) {
    queue_open(i);
    return;
  }
  switch (what) {
  case 0:
    if (pick(b, 4) != 0)
      break;
    say("close queue %u", i);
    at->queue[i] = NULL;
    answered(BOTH(uvs_queue_close(q), model_queue_close(q)));
    break;
  case 1:
    say("queue %u %s", i, ref ? "ref" : "unref");
    answered(BOTH((ref ? uvs_queue_ref : uvs_queue_unref)(q), model_queue_set_ref(q, ref)));
    break;
  case 2:
  case 3:
    if (at->far)
      break; /* only the loop consumes */
    say("queue %u %s", i, ref ? "consume" : "does not consume");
    answered(BOTH(uvs_queue_consume(q, ref ? on_value : NULL, (void *)(uintptr_t)i),
                  model_queue_consume(q, ref ? on_value : NULL, (void *)(uintptr_t)i)));
    break;
  case 4:
    say("drain queue %u", i);
    answered(
        BOTH(uvs_queue_drain(q, ref ? UVS_QUEUE_ALL : 2, on_value, (void *)(uintptr_t)(10 + i)),
             model_queue_drain(q, ref ? UVS_QUEUE_ALL : 2, on_value, (void *)(uintptr_t)(10 + i))));
    break;
  case 5:
    say("clear queue %u", i);
    answered(BOTH(uvs_queue_clear(q, ref ? on_value : NULL, (void *)(uintptr_t)(20 + i)),
                  model_queue_clear(q, ref ? on_value : NULL, (void *)(uintptr_t)(20 + i))));
    break;
  case 6:
  case 7:
    say("remove an item from queue %u", i);
    item = at->item[i][pick(b, ITEMS)];
    rc = BOTH(uvs_queue_remove(q, item, &e), model_queue_remove(q, item, &e));
    note_entry(rc, &e);
    break;
  case 8:
    say("remove a value from queue %u", i);
    rc = BOTH(uvs_queue_remove_value(q, value, &e), model_queue_remove_value(q, value, &e));
    note_entry(rc, &e);
    break;
  case 9:
    say("look at all of queue %u", i);
    answered(BOTH(uvs_queue_each(q, on_entry, NULL), model_queue_each(q, on_entry, NULL)));
    break;
  case 10:
  case 11:
  case 12:
    say("poll queue %u", i);
    rc = BOTH(uvs_queue_poll(q, &e), model_queue_poll(q, &e));
    note_entry(rc, &e);
    break;
  case 13:
    answered(BOTH(uvs_queue_contains(q, value), model_queue_contains(q, value)));
    break;
  default:
    queue_put(b, i);
  }
}

/* Operations that change everything, so they are rare. */
static void op_lifecycle(struct bytes *b) {
  unsigned what = pick(b, 64);
  int which = (int)pick(b, 2);
  int on = (int)pick(b, 2);
  int64_t grace = duration(b);

  if (what < 24) {
    say("survive %d := %d", which, on);
    answered(BOTH(uvs_set_after_shutdown(at->s, which, on), model_set_survive(at->m, which, on)));
  } else if (what < 48) {
    say("rejection := %d", (int)what % 6);
    answered(BOTH(uvs_set_rejection_policy(at->s, (int)what % 6),
                  model_set_rejection(at->m, (int)what % 6)));
  } else if (what < 57 && pick(b, 3) != 0) {
    return;
  } else if (what < 52) {
    say("shutdown");
    answered(BOTH(uvs_shutdown(at->s), model_shutdown(at->m)));
  } else if (what < 55) {
    say("shutdown within %" PRId64, grace);
    answered(BOTH(uvs_shutdown_within(at->s, grace), model_shutdown_within(at->m, grace)));
  } else if (what < 57) {
    void *arg = (void *)(uintptr_t)7;

    say("shutdown now");
    answered(BOTH(uvs_shutdown_now(at->s, on ? on_never_ran : NULL, arg),
                  model_shutdown_now(at->m, on ? on_never_ran : NULL, arg)));
  } else {
    say("survive of nothing");
    answered(BOTH(uvs_set_after_shutdown(at->s, 2, on), model_set_survive(at->m, 2, on)));
  }
}

/* A call that is allowed on any thread. */
static void op_anywhere(struct bytes *b) {
  unsigned what = pick(b, 64);

  if ((flavour & PENDING) != 0 && what % 8 == 7)
    what = 38; /* pending runs would fill it up */
  if ((flavour & CONTROLLED) != 0 && what % 4 == 1)
    op_control(b);
  else if (what < 20)
    submit(b, 1, false);
  else if (what < 22)
    submit(b, 2 + what % 2, false);
  else if (what < 31)
    op_cancel(b, what != 30);
  else if (what < 37)
    op_reschedule(b);
  else if (what < 38)
    op_complete(b);
  else if (what < 42)
    op_finish(b);
  else if (what < 44)
    op_ref(b);
  else if (what < 48)
    op_keep(b);
  else if (what < 53)
    op_lane(b);
  else if (what < 57)
    op_cleanup(b);
  else if (what < 63)
    op_queue(b);
  else if (pick(b, 4) == 0)
    op_lifecycle(b);
  else
    op_control(b);
}

static void act(uint64_t chance) {
  struct bytes b = {NULL, 0, 0, chance};

  if (at->far || at->depth >= 3 || at->acts >= 40 || at->closed)
    return;
  at->acts++;
  at->depth++;
  op_anywhere(&b);
  at->depth--;
}

/* ---- turns ---- */

static uint64_t wakeups(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  uvs_counts(at->s, &c);
  return c.wakeups;
}

static bool turn_real(void) {
  uint64_t before = wakeups();

  uv_run(&loop, UV_RUN_NOWAIT);
  return wakeups() != before;
}

/* Runs n loop passes, each requested; 0: as many as the library itself wants. */
static void turn(unsigned n) {
  at->in_turn = true;
  if (at->m != NULL) {
    for (unsigned i = 0; i < turns_taken; i++)
      model_turn(at->m);
  } else {
    turns_taken = 0;
    slept = false;
    if (n == 0) {
      if (at->moved)
        uvs_clock_changed(at->s);
      while (turns_taken < SETTLE_MOST && turn_real())
        turns_taken++;
      slept = turns_taken < SETTLE_MOST;
    }
    for (unsigned i = 0; i < n; i++) {
      uvs_clock_changed(at->s);
      turns_taken += turn_real();
    }
  }
  at->moved = at->ran_here = false;
  at->in_turn = false;
}

static void let_pass(int64_t ns) {
  if (ns <= 0)
    return;
  at->mono_ns = later_of(at->mono_ns, ns);
  at->wall_ns = later_of(at->wall_ns, ns);
  at->moved = true;
}

/* ---- from another thread, while the loop's waits for it ---- */

static struct {
  uv_thread_t thread;
  uv_sem_t go, done;
  struct bytes *b;
} errand;

static void run_errands(void *arg) {
  (void)arg;
  for (;;) {
    uv_sem_wait(&errand.go);
    op_anywhere(errand.b);
    uv_sem_post(&errand.done);
  }
}

static void op_from_afar(struct bytes *b) {
  static bool started;

  if (!started && (uv_sem_init(&errand.go, 0) != 0 || uv_sem_init(&errand.done, 0) != 0 ||
                   uv_thread_create(&errand.thread, run_errands, NULL) != 0))
    abort();
  started = true;
  say("from another thread:");
  at->far = true;
  if (at->s != NULL) {
    errand.b = b;
    uv_sem_post(&errand.go);
    uv_sem_wait(&errand.done);
  } else {
    model_set_far(at->m, true);
    op_anywhere(b);
    model_set_far(at->m, false);
  }
  at->far = false;
  if (pick(b, 2) == 0)
    turn(0); /* does the loop wake up? */
  at->sent = true;
}

/* ---- queries ---- */

static void put(const char *of, int tag, int64_t v) {
  if (at->words < WORDS)
    at->word[at->words++] = (struct word){of, tag, v};
}

static void put_task(struct record *r) {
  uvs_info_t i;
  int rc = info_of(r, &i);

  put("info", r->tag, rc);
  if (rc < 0) {
    r->live = false;
  } else {
    put("state", r->tag, i.state);
    put("kind", r->tag, i.kind);
    put("from", r->tag, i.from);
    put("cancelled", r->tag, i.cancelled);
    put("timed_out", r->tag, i.timed_out);
    put("due_ns", r->tag, i.due_ns);
    put("remaining_ns", r->tag, i.remaining_ns);
    put("period_ns", r->tag, i.period_ns);
    put("runs", r->tag, (int64_t)i.runs);
    put("missed", r->tag, (int64_t)i.missed);
    put("arg", r->tag, i.arg == r);
    put("work", r->tag, i.work != NULL);
    put("name", r->tag, (unsigned char)i.name[0]);
    put("failures", r->tag, (int64_t)i.failures);
    put("late_ns", r->tag, i.late_ns);
    put("culprit", r->tag, known_cause(r, i.culprit));
    for (int k = 0; k < UVS_LATE_CAUSES && !r->by_calendar; k++)
      put("late_by_ns", r->tag, i.late_by_ns[k]);
    put("priority", r->tag, i.priority);
    put("has_ref", r->tag, BOTH(uvs_has_ref(at->s, r->id), model_has_ref(at->m, r->id)));
  }
  if (rc == 0) {
    int64_t runs[4];

    rc = BOTH(uvs_next_runs(at->s, r->id, runs, 4), model_next_runs(at->m, r->id, runs, 4));
    put("next runs", r->tag, rc);
    for (int k = 0; k < rc; k++)
      put("next run", r->tag, runs[k]);
  }
  if (r->kept && r->drops) {
    put("wait", r->tag,
        BOTH(uvs_wait(at->s, r->id, 0, 0, NULL), model_wait(at->m, r->id, 0, 0, NULL)));
  } else if (r->kept) {
    uvs_outcome_t o;

    uvs_outcome_init(&o);
    put("wait", r->tag, BOTH(uvs_wait(at->s, r->id, 0, 0, &o), model_wait(at->m, r->id, 0, 0, &o)));
    put("outcome", r->tag, o.status);
    put("result", r->tag, (int64_t)(intptr_t)o.result);
    put("outcome's runs", r->tag, (int64_t)o.runs);
    put("outcome's end_ns", r->tag, o.end_ns);
  }
}

static void put_counts(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  BOTH(uvs_counts(at->s, &c), model_counts(at->m, &c));
  put("submitted", -1, (int64_t)c.submitted);
  put("completed", -1, (int64_t)c.completed);
  put("failed", -1, (int64_t)c.failed);
  put("cancelled", -1, (int64_t)c.cancelled);
  put("timed out", -1, (int64_t)c.timed_out);
  put("dropped", -1, (int64_t)c.dropped);
  put("waiting", -1, (int64_t)c.waiting);
  put("ready", -1, (int64_t)c.ready);
  put("running", -1, (int64_t)c.running);
  put("rejected", -1, (int64_t)c.rejected);
  put("runs", -1, (int64_t)c.runs);
  put("failed_runs", -1, (int64_t)c.failed_runs);
  put("missed", -1, (int64_t)c.missed);
  put("runners", -1, (int64_t)c.runners);
}

static void ask(bool due) {
  int64_t next_ns = 0;

  at->words = 0;
  put_counts();
  put("is_shutdown", -1, BOTH(uvs_is_shutdown(at->s), model_is_shutdown(at->m)));
  put("is_terminated", -1, BOTH(uvs_is_terminated(at->s), model_is_terminated(at->m)));
  put("rejection", -1, BOTH(uvs_rejection_policy(at->s), model_rejection(at->m)));
  put("survive 0", -1, BOTH(uvs_after_shutdown(at->s, 0), model_survive(at->m, 0)));
  put("survive 1", -1, BOTH(uvs_after_shutdown(at->s, 1), model_survive(at->m, 1)));
  put("now", -1, at->mono_ns);
  for (int i = 0; i < TAGS; i++)
    if (at->record[i].live || at->record[i].kept)
      put_task(&at->record[i]);
  for (int i = 0; i < NAMES; i++) {
    uvs_id_t id = 0;

    put("find", i, BOTH(uvs_find(at->s, names[i], &id), model_find(at->m, names[i], &id)));
    put("found", i, (int64_t)BOTH(id & SLOTS, id % MODEL_TASKS));
  }
  for (int i = 0; i < QUEUES; i++) {
    void *q = at->queue[i];
    uvs_entry_t e = {NULL, 0, 0};

    if (q == NULL)
      continue;
    put("queue's size", i, BOTH(uvs_queue_size(q), model_queue_size(q)));
    put("queue's peek", i, BOTH(uvs_queue_peek(q, &e), model_queue_peek(q, &e)));
    put("queue's due_ns", i, e.due_ns);
    put("queue's ref", i, BOTH(uvs_queue_has_ref(q), model_queue_has_ref(q)));
  }
  if (slept) {
    uv_unref((uv_handle_t *)&pin);
    put("keeps the loop", -1, BOTH(uv_loop_alive(&loop) != 0, model_keeps_loop(at->m)));
    uv_ref((uv_handle_t *)&pin);
  }
  if (due || at->sent) {
    put("next due", -1, BOTH(uvs_next_due(at->s, &next_ns), model_next_due(at->m, &next_ns)));
    at->next_ns = next_ns;
    /* After a caller-run task the library may request one loop pass too many. Nothing promises that
     * it does not. */
    if (at->m != NULL && at->ran_here && sides[0].next_ns <= at->mono_ns)
      next_ns = at->mono_ns;
    put("next due_ns", -1, next_ns < at->mono_ns ? at->mono_ns : next_ns);
    put("slept over it", -1, slept && at->m != NULL && at->next_ns <= at->mono_ns);
  }
  at->sent = false;
}

/* ---- one step ---- */

static void step(struct bytes *b) {
  unsigned what = driver_byte(b);
  int64_t ns;

  at->acts = 0;
  at->events = 0;
  if (what < 150 && has_far && what % 4 == 0) {
    op_from_afar(b);
    return;
  }
  if (what < 150) {
    op_anywhere(b);
    return;
  }
  if (what < 154) {
    op_lifecycle(b);
    return;
  }
  if (what < 160) {
    ns = duration(b);
    if (ns > UVS_DAY(20) || ns < 0)
      ns = -UVS_MS(15);
    say("wall clock set by %" PRId64, ns);
    at->wall_ns += ns;
    at->moved = true;
    return;
  }
  if (what < 190) {
    say("turn");
    turn(what < 180 ? 0 : 1 + what % 3);
    return;
  }
  ns = what < 210 ? UVS_MS(pick(b, 12)) : duration(b);
  ns = ns > UVS_DAY(40) ? UVS_US(1) : ns;
  if (what < 230 && what >= 210) { /* to the next deadline */
    model_next_due(sides[1].m, &ns);
    ns = ns == UVS_NEVER || ns > UVS_DAY(100) ? 1 : ns - at->mono_ns;
  }
  if (ns > model_calm_ns(sides[1].m, 40))
    ns = model_calm_ns(sides[1].m, 40);
  say("%" PRId64 " ns pass", ns);
  let_pass(ns);
  turn(what % 4 == 0 ? 1 + what / 4 % 2 : 0);
}

/* ---- compare ---- */

static void print_event(const char *of, const struct event *e) {
  fprintf(stderr,
          "  %-7s %-11s #%-2d  %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64
          "\n",
          of, what_names[e->what], e->tag, e->v[0], e->v[1], e->v[2], e->v[3], e->v[4], e->v[5]);
}

static bool same_events(void) {
  const struct side *a = &sides[0], *b = &sides[1];
  unsigned most = a->events > b->events ? a->events : b->events;

  if (a->events == b->events && memcmp(a->event, b->event, a->events * sizeof a->event[0]) == 0)
    return true;
  for (unsigned i = 0; i < most; i++) {
    bool same = i < a->events && i < b->events &&
                memcmp(&a->event[i], &b->event[i], sizeof a->event[i]) == 0;

    if (same)
      continue;
    fprintf(stderr, "callback or answer %u of this step is not the same:\n", i);
    for (unsigned k = i < 4 ? 0 : i - 4; k < i + 4 && k < a->events; k++)
      print_event(a->name, &a->event[k]);
    for (unsigned k = i < 4 ? 0 : i - 4; k < i + 4 && k < b->events; k++)
      print_event(b->name, &b->event[k]);
    break;
  }
  return false;
}

static bool same_words(void) {
  const struct side *a = &sides[0], *b = &sides[1];
  unsigned n = a->words < b->words ? a->words : b->words;
  unsigned i = 0;

  while (i < n && a->word[i].v == b->word[i].v && a->word[i].of == b->word[i].of &&
         a->word[i].tag == b->word[i].tag)
    i++;
  if (i == n && a->words == b->words)
    return true;
  fprintf(stderr, "what can be asked is not the same:\n");
  for (unsigned k = i < 3 ? 0 : i - 3; k < i + 3 && k < n; k++)
    fprintf(stderr, "  %s%-16s #%-2d  %s %" PRId64 "   %s (%s #%d) %" PRId64 "\n",
            k == i ? "> " : "  ", a->word[k].of, a->word[k].tag, a->name, a->word[k].v, b->name,
            b->word[k].of, b->word[k].tag, b->word[k].v);
  return false;
}

static bool same(void) {
  return same_events() && same_words();
}

/* ---- a program ---- */

static void *count_alloc(size_t size, void *arg) {
  void *p = malloc(size);

  (void)arg;
  allocated += p != NULL;
  return p;
}

static void count_free(void *p, void *arg) {
  (void)arg;
  allocated -= p != NULL;
  free(p);
}

static void open_both(struct bytes *b) {
  static const unsigned most[] = {6, 10, 10, 15, 15, 20, 30, 44};
  static const unsigned flavours[] = {PLAIN,
                                      PLAIN,
                                      PLAIN,
                                      LANED,
                                      LANED | LIMITED | PENDING,
                                      LIMITED | PENDING,
                                      FAILING | LIMITED,
                                      FAILING | LANED | PENDING};
  uvs_options_t o;
  uvs_hooks_t told;
  uint8_t hooks = driver_byte(b), policy = driver_byte(b), more;

  uvs_hooks_init(&told);
  uvs_options_init(&o);
  o.hooks = &told;
  o.concurrency = 0;
  o.budget_ns = UVS_SEC(1);
  o.seed = 1;
  live_most = most[pick(b, 8)];
  more = driver_byte(b);
  flavour = flavours[more % 8];
  if (more >= 0xc0 && more < 0xf8) /* a value that no program of the corpus has */
    flavour |= CONTROLLED;
  o.delayed_after_shutdown = policy & 1;
  o.periodic_after_shutdown = policy >> 1 & 1;
  o.keep_alive = (hooks & 0xc0) == 0xc0 ? (int)pick(b, 3) : UVS_KEEP_ALIVE_AUTO;
  if ((policy & 0x60) == 0)
    o.max_pending = 1 + pick(b, 12);
  o.rejection_policy = (policy >> 2 & 7) % 4;
  if ((policy & 0x80) != 0)
    told.on_rejected = on_rejected;
  o.on_error = (hooks & 1) != 0 ? on_error : uvs_ignore_errors;
  if ((hooks & 2) != 0)
    told.on_missed = on_missed;
  if ((hooks & 4) != 0)
    o.on_terminated = on_terminated;
  if ((policy & 0x61) == 0x61)
    told.decorate = on_decorate;
  if ((hooks & 24) == 24) {
    told.before_body = on_before_body;
    told.after_body = on_after_body;
  }
  if (tracing)
    fprintf(stderr, "open: hooks %d%d%d%d max_pending %u rejection %d survive %d %d keep %d\n",
            hooks & 1, hooks >> 1 & 1, hooks >> 2 & 1, (hooks & 24) == 24, o.max_pending,
            o.rejection_policy, o.delayed_after_shutdown, o.periodic_after_shutdown, o.keep_alive);
  has_far = pick(b, 5) == 0;
  for (int i = 0; i < 2; i++) {
    struct side *a = &sides[i];

    memset(a, 0, offsetof(struct side, event));
    a->name = i == 0 ? "library" : "model";
    a->mono_ns = START_NS;
    a->wall_ns = START_WALL_NS;
    for (int k = 0; k < TAGS; k++) {
      a->record[k].side = a;
      a->record[k].tag = k;
    }
    o.clock = (uvs_clock_t){monotonic_ns, wall_ns, a};
    if (i == 0) {
      o.allocator = (uvs_allocator_t){count_alloc, count_free, NULL};
      if (uvs_open(&loop, &o, &a->s) != 0)
        abort();
    } else {
      a->m = model_open(&o);
    }
  }
}

/* As uvs_close documents: everything is cancelled, and the close waits for pending runs. */
static void close_side(void) {
  at->events = at->words = 0;
  at->acts = 1000; /* no new calls from here on */
  if (at->s != NULL) {
    if (uvs_close(uvs_retain(at->s), on_closed) != 0)
      abort();
  } else {
    model_close(at->m);
  }
  for (int i = 0; i < TAGS; i++) {
    uvs_id_t id = at->record[i].id;

    answered(BOTH(uvs_finish(at->s, id, 0), model_finish(at->m, id, 0)));
  }
  for (int i = 0; i < 1000 && !at->closed; i++) {
    if (at->s != NULL) {
      uv_run(&loop, UV_RUN_NOWAIT);
    } else {
      model_turn(at->m);
      at->closed = model_is_closed(at->m);
    }
  }
  note(EV_CLOSED, -1, at->closed, 0, 0, 0, 0, 0);
  put_counts(); /* the counts can still be read */
  if (at->s != NULL)
    uvs_release(at->s);
  for (int i = 0; i < QUEUES && at->s != NULL; i++)
    if (at->queue[i] != NULL)
      uvs_queue_close(at->queue[i]);
}

static void start_loop(void) {
  static bool started;

  if (started)
    return;
  started = true;
  parse_calendars();
  if (uv_loop_init(&loop) != 0 || uv_idle_init(&loop, &pin) != 0)
    abort();
}

static void on_idle(uv_idle_t *h) {
  (void)h;
}

struct driver_result driver_run(struct bytes program, uint64_t steps, bool trace) {
  struct driver_result result = {0, 0, 0, false};
  unsigned shut_for = 0;
  bool due;

  tracing = trace;
  calls = 0;
  start_loop();
  uv_idle_start(&pin, on_idle);
  open_both(&program);
  for (int i = 0; i < 2; i++) { /* in the first pass the library learns the loop's thread */
    at = &sides[i];
    turn(0);
    ask(true);
  }
  result.differs = !same();
  while (!result.differs && result.steps < steps && !ended(&program)) {
    struct bytes again = program;

    due = (driver_byte(&program) & 1) != 0;
    again = program;
    slept = false;
    if (tracing)
      fprintf(stderr, "%" PRIu64 ":\n", result.steps);
    at = &sides[0];
    step(&program);
    ask(due);
    at = &sides[1];
    step(&again);
    ask(due);
    result.differs = !same();
    result.steps++;
    if (model_is_shutdown(sides[1].m) && ++shut_for == SHUT_STEPS)
      steps = result.steps; /* little happens after that */
    result.events += sides[0].events;
  }
  if (!result.differs) {
    for (int i = 0; i < 2; i++) {
      at = &sides[i];
      close_side();
    }
    result.differs = !same();
  }
  if (!result.differs && allocated != 0) {
    fprintf(stderr, "%ld allocations are left\n", allocated);
    result.differs = true;
  }
  model_free(sides[1].m);
  uv_idle_stop(&pin);
  result.calls = calls / 2;
  return result;
}
