/* SPDX-License-Identifier: MIT
 *
 *   soak [seconds]    maximum load for this long (600): every task is accounted for, nothing
 *                     drifts, memory stays constant
 *   soak pending [n]  n tasks at once (10^7): at most 120 bytes of the process each
 *
 * Two producers submit tasks of every kind as fast as they can. Above a bound they are refused. A
 * million tasks are pending all the time, half of all tasks are cancelled, lanes are opened and
 * disposed, and schedulers are opened and closed on another loop. A thread takes values out of a
 * queue.
 *
 * THE ACCOUNT. Each task has a number. Its submitter adds the number, scrambled, to the sum of
 * accepted tasks. Its `done` adds it to a second sum, its body to a third, and a cancel that
 * reports "never runs" to a fourth. At the end the first two sums must be equal, and the accepted
 * tasks that were not cancelled must have run. A task that is lost, ends twice, or is mistaken for
 * another changes a sum.
 *
 * SEED=n repeats the choices of the producers, but not the timing of the threads. The exit status
 * is 0 if everything is right. BREAK=lose, twice, leak, drift, early or room breaks the account on
 * purpose; then the exit status is 0 if exactly that error was noticed. */
#include <inttypes.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "uvsched.h"
#include "uvsched/outcome.h"
#include "uvsched/stats.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#define PRODUCERS 2
#define RICH_MAX 4000 /* tasks with a record of their own at a time, per producer */
#define QUEUED_MAX 10000
#define LONG_LIVED 20
#define CELLS 64
#define PATIENCE_NS UVS_SEC(60)

static uint64_t seed;
static double seconds = 600;
static size_t standing = 1000000; /* pending all the time */
static enum way { NOTHING, LOSE, TWICE, LEAK, DRIFT, EARLY, ROOM } broken;
static _Atomic int failures, noticed; /* noticed: errors made on purpose */

/* By `enum way`: its name, and its message. */
static const struct {
  const char *name, *says;
} ways[] = {{"", ""},
            {"lose", "sums"},
            {"twice", "sums"},
            {"leak", "memory grows"},
            {"drift", "beside its grid"},
            {"early", "early"},
            {"room", "more than"}};
static const char *wanted; /* the error to be noticed */

__attribute__((format(printf, 1, 2))) static void wrong(const char *format, ...) {
  char text[256];
  va_list args;

  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  if (wanted != NULL && strstr(text, wanted) != NULL)
    atomic_fetch_add(&noticed, 1);
  if (atomic_fetch_add(&failures, 1) < 20)
    printf("WRONG: %s\n", text);
}

static void die(const char *what, int rc) {
  fprintf(stderr, "soak: %s: %s\n", what, uvs_strerror(rc));
  exit(2);
}

/* ------------------------------------------------------------------ account --- */

struct tally {
  uint64_t count, sum, mixed;
};

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

static void add(struct tally *t, uint64_t number) {
  t->count++;
  t->sum += mix(number);
  t->mixed ^= mix(number * 3);
}

static void add_all(struct tally *t, const struct tally *other) {
  t->count += other->count;
  t->sum += other->sum;
  t->mixed ^= other->mixed;
}

static void take(struct tally *t, const struct tally *other) {
  t->count -= other->count;
  t->sum -= other->sum;
  t->mixed ^= other->mixed;
}

static void same(const char *what, const struct tally *a, const struct tally *b) {
  if (a->count != b->count || a->sum != b->sum || a->mixed != b->mixed)
    wrong("%s: %" PRIu64 " and %" PRIu64 ", sums %" PRIx64 " and %" PRIx64, what, a->count,
          b->count, a->sum, b->sum);
}

/* Sums of runs, one per runner to avoid contention. */
static struct {
  _Atomic uint64_t count, sum, mixed;
  char apart[40];
} cells[CELLS];

static void add_run(const uvs_run_t *run, uint64_t number) {
  unsigned i = (unsigned)(run->runner + 2) % CELLS;

  atomic_fetch_add_explicit(&cells[i].count, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&cells[i].sum, mix(number), memory_order_relaxed);
  atomic_fetch_xor_explicit(&cells[i].mixed, mix(number * 3), memory_order_relaxed);
}

static struct tally runs_of_all(void) {
  struct tally t = {0, 0, 0};

  for (int i = 0; i < CELLS; i++) {
    struct tally c = {cells[i].count, cells[i].sum, cells[i].mixed};

    add_all(&t, &c);
  }
  return t;
}

/* ---------------------------------------------------------------- the world --- */

/* One of the tasks that are pending all the time. */
struct standing {
  uvs_id_t id;
  uint64_t number;
};

struct producer {
  uv_thread_t thread;
  uint64_t random, number;
  struct standing *far;
  size_t far_count, far_room;
  uvs_lane_t lane;
  unsigned lane_left;
  _Atomic int rich; /* with a record, not over */
  /* what it knows when it is through */
  struct tally accepted, never, rich_accepted, put;
  uint64_t refused, cancels, finishes, lanes, waits, moved;
};

static uv_loop_t loop;
static uvs_t *S;
static uvs_queue_t *Q;
static struct producer producers[PRODUCERS];
static _Atomic bool stop;
static _Atomic int producing;

/* Used by the loop only. */
static struct tally done, rich_done;
static uint64_t completed, cancelled, sides;
static uv_timer_t sampler;
static uint64_t began_ns, drain_ns;
static bool closing;

/* Used by the consumer, and by the loop after the consumer has ended. */
static struct tally taken;
static _Atomic bool consuming;

/* Points of periodic tasks. */
static _Atomic uint64_t points;
static _Atomic int64_t drift_ns;

static uint64_t draw(struct producer *p, uint64_t below) {
  p->random ^= p->random >> 12;
  p->random ^= p->random << 25;
  p->random ^= p->random >> 27;
  return (p->random * UINT64_C(2685821657736338717) >> 11) % below;
}

/* --------------------------------------------------------------- plain tasks --- */

static int work_plain(uvs_run_t *run) {
  add_run(run, (uint64_t)(uintptr_t)run->arg);
  return 0;
}

static void done_plain(uvs_t *s, uvs_id_t id, int status, void *arg) {
  uint64_t number = (uint64_t)(uintptr_t)arg;

  (void)s;
  (void)id;
  if (status == 0)
    completed++;
  else if (status == UV_ECANCELED)
    cancelled++;
  else
    wrong("a plain task ended with %s", uvs_strerror(status));
  if (broken == LOSE && done.count == 1000) {
    broken = NOTHING;
    return;
  }
  if (broken == TWICE && done.count == 1000) {
    broken = NOTHING;
    add(&done, number);
  }
  if (broken == LEAK && done.count % 4 == 0) {
    char *volatile lost = malloc(64);
    if (lost != NULL)
      memset(lost, 1, 64);
  }
  add(&done, number);
}

static uvs_task_t plain(struct producer *p, int64_t delay_ns) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.first_ns = delay_ns;
  t.done = done_plain;
  t.arg = (void *)(uintptr_t)++p->number;
  if (p->number % 2 == 0)
    t.work = work_plain;
  else
    t.after = work_plain;
  return t;
}

/* Returns 0 if the task was refused. */
static uvs_id_t submit(struct producer *p, const uvs_task_t *t) {
  uvs_id_t id = 0;
  int rc = uvs_submit(S, t, &id);

  if (rc == UV_EAGAIN) {
    p->refused++;
    sched_yield();
    return 0;
  }
  if (rc < 0)
    die("uvs_submit", rc);
  return id;
}

/* Cancels a plain task, once. */
static void cancel(struct producer *p, uvs_id_t id, uint64_t number) {
  int rc = uvs_cancel(S, id, 0);

  if (rc == UVS_CANCELLED) {
    add(&p->never, number);
    p->cancels++;
  } else if (rc == UVS_CANCELLED_WHILE_RUNNING) {
    p->finishes++;
    p->cancels++;
  } else if (rc != UV_ENOENT) {
    die("uvs_cancel", rc);
  }
}

static void submit_near(struct producer *p) {
  uvs_task_t t = plain(p, (int64_t)draw(p, (uint64_t)UVS_MS(2)));
  uvs_id_t id = submit(p, &t);

  if (id == 0)
    return;
  add(&p->accepted, p->number);
  if (p->number % 4 < 2)
    cancel(p, id, p->number);
}

/* Replaces a pending task once there are enough. Half of the replaced ones are cancelled, the
 * others rescheduled to be due soon. */
static void submit_far(struct producer *p) {
  struct standing *far = p->far;
  size_t i = p->far_count < p->far_room ? p->far_count : draw(p, p->far_room);
  uvs_task_t t;
  uvs_id_t id;

  if (p->far_count == p->far_room) {
    if (draw(p, 2) == 0) {
      cancel(p, far[i].id, far[i].number);
    } else {
      int rc = uvs_reschedule(S, far[i].id, (int64_t)draw(p, (uint64_t)UVS_MS(10)));

      if (rc < 0 && rc != UV_ENOENT && rc != UV_EBUSY)
        die("uvs_reschedule", rc);
      p->moved++;
    }
  }
  t = plain(p, UVS_SEC(20) + (int64_t)draw(p, (uint64_t)UVS_SEC(3600)));
  id = submit(p, &t);
  if (id == 0) { /* nothing stands there now: a stale id, which cancel does not mind */
    far[i].id = 0;
    return;
  }
  add(&p->accepted, p->number);
  far[i] = (struct standing){id, p->number};
  if (p->far_count < p->far_room)
    p->far_count++;
}

static void submit_batch(struct producer *p) {
  enum { BATCH = 64 };
  static _Thread_local uvs_task_t t[BATCH];
  uvs_id_t ids[BATCH];
  uint64_t first = p->number + 1;
  int rc;

  for (int i = 0; i < BATCH; i++)
    t[i] = plain(p, UVS_US(i));
  rc = uvs_submit_many(S, t, BATCH, ids);
  if (rc == UV_EAGAIN) {
    p->refused++;
    return;
  }
  if (rc < 0)
    die("uvs_submit_many", rc);
  for (int i = 0; i < BATCH; i++)
    add(&p->accepted, first + (uint64_t)i);
  for (int i = 0; i < BATCH; i += 2)
    cancel(p, ids[i], first + (uint64_t)i);
}

/* --------------------------------------------------- tasks with a record each --- */

struct rich {
  uint64_t number;
  _Atomic uint64_t runs;
  uint64_t expected; /* runs, if it is not cancelled; 0: any */
  struct producer *p;
  int64_t base_ns, period_ns, end_ns;
  int kind;
};

static void look_at_grid(int64_t ideal_ns, int64_t base_ns, int64_t period_ns) {
  int64_t off_ns = (ideal_ns - base_ns) % period_ns;

  atomic_fetch_add_explicit(&points, 1, memory_order_relaxed);
  if (broken == DRIFT)
    off_ns++;
  if (off_ns != 0) {
    atomic_store(&drift_ns, off_ns);
    wrong("a run stood for %" PRId64 " ns beside its grid", off_ns);
  }
}

static int work_rich(uvs_run_t *run) {
  struct rich *r = run->arg;

  if (run->start_ns < run->ideal_ns || broken == EARLY)
    wrong("a run started %" PRId64 " ns early", run->ideal_ns - run->start_ns);
  if (r->kind == UVS_FIXED_RATE)
    look_at_grid(run->ideal_ns, r->base_ns, r->period_ns);
  if (r->kind == UVS_FIXED_DELAY && r->end_ns != 0 && run->ideal_ns != r->end_ns + r->period_ns)
    wrong("a fixed delay was off by %" PRId64 " ns", run->ideal_ns - r->end_ns - r->period_ns);
  atomic_fetch_add_explicit(&r->runs, 1, memory_order_relaxed);
  return 0;
}

static int after_rich(uvs_run_t *run) {
  ((struct rich *)run->arg)->end_ns = run->end_ns;
  return 0;
}

static void done_rich(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct rich *r = arg;

  (void)s;
  (void)id;
  if (status != 0 && status != UV_ECANCELED)
    wrong("a task ended with %s", uvs_strerror(status));
  if (status == 0 && r->expected != 0 && r->runs != r->expected)
    wrong("a task ran %" PRIu64 " times", r->runs);
  add(&rich_done, r->number);
  atomic_fetch_sub_explicit(&r->p->rich, 1, memory_order_relaxed);
  free(r);
}

/* The task's record is freed in `done`, which may run before this returns. Returns 0 if refused. */
static uvs_id_t submit_rich(struct producer *p, uvs_task_t *t, uint64_t expected) {
  struct rich *r = calloc(1, sizeof *r);
  uint64_t number = ++p->number;
  uvs_id_t id;

  if (r == NULL)
    die("calloc", UV_ENOMEM);
  *r = (struct rich){.number = number, .expected = expected, .p = p, .kind = t->kind};
  r->period_ns = t->period_ns;
  if (t->kind == UVS_FIXED_RATE) {
    t->from = UVS_FROM_MONOTONIC;
    t->first_ns += uvs_now(S);
    r->base_ns = t->first_ns;
  }
  t->work = work_rich;
  t->after = t->kind == UVS_FIXED_DELAY ? after_rich : NULL;
  t->done = done_rich;
  t->arg = r;
  atomic_fetch_add(&p->rich, 1);
  id = submit(p, t);
  if (id == 0) {
    atomic_fetch_sub(&p->rich, 1);
    free(r);
    return 0;
  }
  add(&p->rich_accepted, number);
  return id;
}

static void submit_periodic(struct producer *p) {
  static const int missed[] = {UVS_MISSED_CATCH_UP, UVS_MISSED_ONCE, UVS_MISSED_SKIP};
  uvs_task_t t;
  uvs_id_t id;

  uvs_task_init(&t);
  t.kind = draw(p, 2) == 0 ? UVS_FIXED_RATE : UVS_FIXED_DELAY;
  t.first_ns = (int64_t)draw(p, (uint64_t)UVS_MS(1));
  t.period_ns = UVS_US(100) + (int64_t)draw(p, (uint64_t)UVS_MS(1));
  t.max_runs = 5;
  if (t.kind == UVS_FIXED_RATE)
    t.missed_policy = missed[draw(p, 3)];
  id = submit_rich(p, &t, 5);
  if (id != 0 && draw(p, 2) == 0)
    p->cancels += uvs_cancel(S, id, UVS_CANCEL_TOKEN) >= 0;
}

static void submit_to_lane(struct producer *p) {
  uvs_task_t t;

  if (p->lane_left-- == 0) {
    uvs_lane_options_t o;
    int rc;

    if (p->lane != 0)
      uvs_lane_dispose(p->lane, 0);
    uvs_lane_options_init(&o);
    o.width = (uint32_t)draw(p, 3);
    rc = uvs_lane_open(S, &o, &p->lane);
    if (rc < 0)
      die("uvs_lane_open", rc);
    p->lanes++;
    p->lane_left = (unsigned)draw(p, 400);
  }
  uvs_task_init(&t);
  t.lane = p->lane;
  t.first_ns = (int64_t)draw(p, (uint64_t)UVS_MS(1));
  t.priority = (int)draw(p, 3) - 1;
  submit_rich(p, &t, 1);
}

/* A task whose outcome is waited for and forgotten. */
static void submit_kept(struct producer *p) {
  uvs_task_t t;
  uvs_id_t id;
  int rc;

  uvs_task_init(&t);
  t.keep_outcome = 1;
  t.name = "kept";
  t.limit.total_ns = UVS_SEC(600);
  id = submit_rich(p, &t, 1);
  if (id == 0)
    return;
  rc = uvs_wait(S, id, draw(p, 2) == 0 ? 0 : UVS_MS(1), 0, NULL);
  if (rc != 0 && rc != UV_ETIMEDOUT)
    wrong("uvs_wait: %s", uvs_strerror(rc));
  rc = uvs_forget(S, id);
  if (rc != 0)
    wrong("uvs_forget: %s", uvs_strerror(rc));
  p->waits++;
}

static void put(struct producer *p) {
  int rc;

  if (uvs_queue_size(Q) >= QUEUED_MAX)
    return;
  rc =
      uvs_queue_put(Q, (void *)(uintptr_t)++p->number, (int64_t)draw(p, (uint64_t)UVS_MS(1)), NULL);
  if (rc < 0)
    die("uvs_queue_put", rc);
  add(&p->put, p->number);
}

/* ------------------------------------------------------------------ threads --- */

static void produce(void *arg) {
  struct producer *p = arg;
  struct standing *far = p->far;

  while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
    uint64_t what = draw(p, 100);
    bool may_be_rich = atomic_load_explicit(&p->rich, memory_order_relaxed) < RICH_MAX;

    if (what < 45)
      submit_near(p);
    else if (what < 80)
      submit_far(p);
    else if (what < 82)
      submit_batch(p);
    else if (what < 92)
      put(p);
    else if (!may_be_rich)
      submit_near(p);
    else if (what < 97)
      submit_to_lane(p);
    else if (what < 99)
      submit_periodic(p);
    else
      submit_kept(p);
  }
  for (size_t i = 0; i < p->far_count; i++)
    if (far[i].id != 0)
      cancel(p, far[i].id, far[i].number);
  if (p->lane != 0)
    uvs_lane_dispose(p->lane, 0);
  atomic_fetch_sub(&producing, 1);
}

static void consume(void *arg) {
  uvs_entry_t e;
  int rc;

  (void)arg;
  while (atomic_load(&consuming)) {
    rc = uvs_queue_poll_within(Q, UVS_MS(20), NULL, &e);
    if (rc == 0)
      add(&taken, (uint64_t)(uintptr_t)e.value);
    else if (rc != UV_ETIMEDOUT)
      wrong("uvs_queue_poll_within: %s", uvs_strerror(rc));
  }
}

static void give_back(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)arg;
  add(&taken, (uint64_t)(uintptr_t)e->value);
}

/* ---- schedulers that come and go, on a loop of their own ---- */

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void count_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  ++*(unsigned *)arg;
}

static void one_side(uv_loop_t *on, unsigned round) {
  uvs_options_t o;
  unsigned dones = 0;
  uvs_t *s;
  int rc;

  uvs_options_init(&o);
  o.concurrency = (int)(round % 3);
  if (round % 8 == 7)
    o.threads = 1, o.concurrency = -1;
  rc = uvs_open(on, &o, &s);
  if (rc < 0)
    die("uvs_open", rc);
  for (unsigned i = 0; i < 100; i++) {
    uvs_task_t t;
    uvs_id_t id;

    uvs_task_init(&t);
    t.first_ns = UVS_US(10 * i);
    t.work = nothing;
    t.done = count_done;
    t.arg = &dones;
    rc = uvs_submit(s, &t, &id);
    if (rc < 0)
      die("uvs_submit", rc);
    if (i % 2 == 0)
      uvs_cancel(s, id, 0);
  }
  if (round % 2 == 0)
    uv_run(on, UV_RUN_DEFAULT); /* else it is closed with all of them */
  rc = uvs_close(s, NULL);
  if (rc < 0)
    die("uvs_close", rc);
  uv_run(on, UV_RUN_DEFAULT);
  if (dones != 100)
    wrong("a scheduler that came and went: %u dones", dones);
}

static void come_and_go(void *arg) {
  uv_loop_t on;
  unsigned round = 0;

  (void)arg;
  if (uv_loop_init(&on) < 0)
    die("uv_loop_init", UV_ENOMEM);
  for (; !atomic_load(&stop); round++)
    one_side(&on, round);
  if (uv_loop_close(&on) != 0)
    wrong("the other loop has handles left");
  sides = round;
  atomic_fetch_sub(&producing, 1);
}

/* ------------------------------------------------------------------- memory --- */

#define SAMPLES 4096
static struct { double at, bytes; } samples[SAMPLES];
static unsigned sampled;

static double number_after(const char *file, const char *word) {
  FILE *in = fopen(file, "r");
  char line[256];
  double n = -1;

  if (in == NULL)
    return -1;
  while (n < 0 && fgets(line, sizeof line, in) != NULL)
    if (strncmp(line, word, strlen(word)) == 0)
      n = strtod(line + strlen(word), NULL);
  fclose(in);
  return n;
}

static double resident_bytes(void) {
  return number_after("/proc/self/status", "VmRSS:") * 1024;
}

static double most_resident_bytes(void) {
  return number_after("/proc/self/status", "VmHWM:") * 1024;
}

/* Bytes per second over the second half: the slope of the best-fitting line. */
static double slope(double *ret_mean) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;

  for (unsigned i = sampled / 2; i < sampled; i++) {
    n++;
    x += samples[i].at;
    y += samples[i].bytes;
    xx += samples[i].at * samples[i].at;
    xy += samples[i].at * samples[i].bytes;
  }
  *ret_mean = n == 0 ? 0 : y / n;
  return n * xx - x * x <= 0 ? 0 : (n * xy - x * y) / (n * xx - x * x);
}

/* ------------------------------------------------------------- the long-lived --- */

static struct life {
  int64_t base_ns, period_ns;
  uint64_t counted; /* points: runs and missed */
  uvs_id_t id;
} lives[LONG_LIVED];
static int lives_over;

/* Each point of the grid is a run or is missed, never both. So the position of this run is right
 * after what was counted before it, plus the points that it reports as missed. (More points may
 * have passed since, while it was ready.) */
static int work_life(uvs_run_t *run) {
  struct life *l = run->arg;
  uint64_t place = (uint64_t)((run->ideal_ns - l->base_ns) / l->period_ns);

  look_at_grid(run->ideal_ns, l->base_ns, l->period_ns);
  if (place < l->counted || place > l->counted + run->missed)
    wrong("point %" PRIu64 " after %" PRIu64 " were counted, %" PRIu64 " of them missed", place,
          l->counted, run->missed);
  l->counted += 1 + run->missed;
  return 0;
}

static void done_life(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct life *l = arg;

  (void)s;
  (void)id;
  if (status != UV_ECANCELED)
    wrong("a long life ended with %s", uvs_strerror(status));
  if (l->counted < (uint64_t)(seconds * 1e9 / (double)l->period_ns / 2))
    wrong("only %" PRIu64 " points of a grid", l->counted);
  lives_over++;
}

static void begin_lives(void) {
  for (unsigned i = 0; i < LONG_LIVED; i++) {
    uvs_task_t t;
    int rc;

    uvs_task_init(&t);
    lives[i].period_ns = UVS_MS(7) + UVS_US(333) * i;
    lives[i].base_ns = uvs_now(S) + lives[i].period_ns;
    t.kind = UVS_FIXED_RATE;
    t.from = UVS_FROM_MONOTONIC;
    t.first_ns = lives[i].base_ns;
    t.period_ns = lives[i].period_ns;
    t.missed_policy = i % 2 == 0 ? UVS_MISSED_ONCE : UVS_MISSED_CATCH_UP;
    t.priority = UVS_PRIORITY_HIGH;
    t.work = work_life;
    t.done = done_life;
    t.arg = &lives[i];
    rc = uvs_submit(S, &t, &lives[i].id);
    if (rc < 0)
      die("uvs_submit", rc);
  }
}

/* ---------------------------------------------------------------- the course --- */

static void on_closed(uvs_t *s) {
  (void)s;
  uv_close((uv_handle_t *)&sampler, NULL);
}

static void sample(void) {
  uvs_counts_t c;
  int rc;

  uvs_counts_init(&c);
  rc = uvs_counts(S, &c);
  if (rc < 0)
    die("uvs_counts", rc);
  if (c.submitted != c.completed + c.failed + c.cancelled + c.timed_out + c.dropped + c.waiting +
                         c.ready + c.running)
    wrong("the counts do not add up");
  if (sampled < SAMPLES) {
    samples[sampled].at = (double)(uv_hrtime() - began_ns) / 1e9;
    samples[sampled++].bytes = resident_bytes();
  }
}

static void on_sampler(uv_timer_t *h) {
  uint64_t now_ns = uv_hrtime();
  uvs_counts_t c;

  if (closing)
    return;
  if (drain_ns == 0) {
    sample();
    if ((double)(now_ns - began_ns) / 1e9 < seconds)
      return;
    atomic_store(&stop, true);
    for (int i = 0; i < LONG_LIVED; i++)
      uvs_cancel(S, lives[i].id, 0);
    drain_ns = now_ns;
    uv_timer_set_repeat(h, 10);
    uv_timer_again(h);
    return;
  }
  uvs_counts_init(&c);
  uvs_counts(S, &c);
  if (now_ns - drain_ns > (uint64_t)PATIENCE_NS)
    wrong("after %d s %" PRIu64 " tasks are not over", (int)(PATIENCE_NS / UVS_SEC(1)),
          c.waiting + c.ready + c.running);
  else if (atomic_load(&producing) > 0 || c.waiting + c.ready + c.running > 0)
    return;
  closing = true;
  if (uvs_close(S, on_closed) < 0)
    die("uvs_close", UV_EINVAL);
}

static void open_world(void) {
  size_t cap = standing + standing / 5;
  uvs_queue_options_t qo;
  uvs_options_t o;
  int rc;

  uvs_options_init(&o);
  o.concurrency = 2;
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  o.max_pending = (uint32_t)cap;
  if (uv_loop_init(&loop) < 0)
    die("uv_loop_init", UV_ENOMEM);
  rc = uvs_open(&loop, &o, &S);
  if (rc < 0)
    die("uvs_open", rc);
  uvs_queue_options_init(&qo);
  qo.on_left = give_back;
  rc = uvs_queue_open(S, &qo, &Q);
  if (rc < 0)
    die("uvs_queue_open", rc);
}

/* Takes all memory before the first sample: fills up to the bound, and drains again. */
static void fill(void) {
  size_t cap = standing + standing / 5;

  for (size_t i = 0; i < standing; i++)
    submit_far(&producers[i % PRODUCERS]);
  for (size_t i = standing; i < cap - 2 * RICH_MAX; i++) {
    struct producer *p = &producers[i % PRODUCERS];
    uvs_task_t t = plain(p, UVS_MS(1));

    if (submit(p, &t) != 0)
      add(&p->accepted, p->number);
  }
}

static void percentiles(void) {
  uvs_histogram_t h;
  int rc;

  uvs_histogram_init(&h);
  rc = uvs_histogram(S, UVS_STAT_LATE, &h);
  if (rc < 0)
    wrong("uvs_histogram: %s", uvs_strerror(rc));
  printf("lateness: p50 %.3f ms, p90 %.3f ms, p99 %.3f ms, p99.9 %.3f ms, most %.3f ms, of %" PRIu64
         " runs\n",
         (double)uvs_quantile_ns(&h, 0.5) / 1e6, (double)uvs_quantile_ns(&h, 0.9) / 1e6,
         (double)uvs_quantile_ns(&h, 0.99) / 1e6, (double)uvs_quantile_ns(&h, 0.999) / 1e6,
         (double)h.max_ns / 1e6, h.count);
}

static void close_queue(void) {
  if (uvs_queue_close(Q) < 0)
    wrong("uvs_queue_close");
}

static void judge(double took) {
  struct tally accepted = {0, 0, 0}, never = accepted, rich = accepted, puts = accepted, runs;
  uint64_t refused = 0, cancels = 0, finishes = 0, lanes = 0, waits = 0, moved = 0;
  double mean, per_second = slope(&mean), grown;

  for (int i = 0; i < PRODUCERS; i++) {
    add_all(&accepted, &producers[i].accepted);
    add_all(&never, &producers[i].never);
    add_all(&rich, &producers[i].rich_accepted);
    add_all(&puts, &producers[i].put);
    refused += producers[i].refused;
    cancels += producers[i].cancels;
    finishes += producers[i].finishes;
    lanes += producers[i].lanes;
    waits += producers[i].waits;
    moved += producers[i].moved;
  }
  runs = runs_of_all();
  printf("%" PRIu64 " tasks in %.1f s (%.0f /s): %" PRIu64 " plain, %" PRIu64 " others; %" PRIu64
         " submissions refused\n",
         accepted.count + rich.count, took, (double)(accepted.count + rich.count) / took,
         accepted.count, rich.count, refused);
  printf("%.1f %% cancelled, %" PRIu64 " moved, %" PRIu64 " lanes, %" PRIu64 " outcomes, %" PRIu64
         " values, %" PRIu64 " schedulers came and went\n",
         100.0 * (double)cancels / (double)(accepted.count + rich.count), moved, lanes, waits,
         puts.count, sides);
  same("plain tasks accepted and done", &accepted, &done);
  same("other tasks accepted and done", &rich, &rich_done);
  same("values in and out", &puts, &taken);
  take(&accepted, &never);
  same("plain tasks not taken back, and runs", &accepted, &runs);
  if (cancelled != never.count + finishes || completed != accepted.count - finishes)
    wrong("%" PRIu64 " ended cancelled, %" PRIu64 " completed", cancelled, completed);
  if (lives_over != LONG_LIVED)
    wrong("%d of the long-lived are over", lives_over);
  printf("account: %016" PRIx64 " accepted and not taken back, %016" PRIx64 " run\n", accepted.sum,
         runs.sum);
  printf("periodic: %" PRIu64 " runs, drift %" PRId64 " ns\n", points, drift_ns);
  /* Growth by more than 1 % in the second half (and by more than 4 MB, since the heap's size
   * varies). */
  grown = per_second * (sampled == 0 ? 0 : samples[sampled - 1].at - samples[sampled / 2].at);
  printf("memory: %.1f MB, slope of the second half %+.3f MB/min, which is %+.2f MB in it (%u "
         "samples)\n",
         mean / 1e6, per_second * 60 / 1e6, grown / 1e6, sampled - sampled / 2);
  if (sampled < 20)
    wrong("too few samples");
  if (grown > 4e6 && grown > mean / 100)
    wrong("memory grows");
}

static int soak(void) {
  uv_thread_t consumer, side;
  uint64_t interval_ms = (uint64_t)(seconds * 1000 / 1000);

  open_world();
  for (int i = 0; i < PRODUCERS; i++) {
    struct producer *p = &producers[i];

    p->random = mix(seed + (uint64_t)i) | 1;
    p->number = (uint64_t)(i + 1) << 40;
    p->far_room = standing / PRODUCERS;
    p->far = calloc(p->far_room, sizeof *p->far);
    if (p->far == NULL)
      die("calloc", UV_ENOMEM);
  }
  fill();
  uv_run(&loop, UV_RUN_NOWAIT);
  printf("%zu tasks stand, %.0f MB\n", standing, resident_bytes() / 1e6);
  began_ns = uv_hrtime();
  begin_lives();
  atomic_store(&producing, PRODUCERS + 1);
  atomic_store(&consuming, true);
  for (int i = 0; i < PRODUCERS; i++)
    if (uv_thread_create(&producers[i].thread, produce, &producers[i]) < 0)
      die("uv_thread_create", UV_EAGAIN);
  if (uv_thread_create(&consumer, consume, NULL) < 0 ||
      uv_thread_create(&side, come_and_go, NULL) < 0)
    die("uv_thread_create", UV_EAGAIN);
  uv_timer_init(&loop, &sampler);
  uv_timer_start(&sampler, on_sampler, 1, interval_ms < 10 ? 10 : interval_ms);
  uvs_retain(S); /* for the percentiles */
  while (!closing)
    uv_run(&loop, UV_RUN_ONCE);
  percentiles();
  atomic_store(&consuming, false);
  uv_thread_join(&consumer);
  uv_run(&loop, UV_RUN_DEFAULT);
  close_queue();
  uv_thread_join(&side);
  for (int i = 0; i < PRODUCERS; i++)
    uv_thread_join(&producers[i].thread);
  uvs_release(S);
  judge((double)(drain_ns - began_ns) / 1e9);
  if (uv_loop_close(&loop) != 0)
    wrong("the loop has handles left");
  for (int i = 0; i < PRODUCERS; i++)
    free(producers[i].far);
  return atomic_load(&failures) == 0 ? 0 : 1;
}

/* ------------------------------------------------------------------ pending --- */

static int pending(size_t n) {
  enum { BATCH = 1000 };
  static uvs_task_t t[BATCH];
  struct producer *p = &producers[0];
  double before = resident_bytes(), most, bound = (broken == ROOM ? 60.0 : 120.0) * (double)n;
  uint64_t start_ns = uv_hrtime(), armed_ns;
  int rc;

  p->random = mix(seed) | 1;
  if (uv_loop_init(&loop) < 0 || (rc = uvs_open(&loop, NULL, &S)) < 0)
    die("uvs_open", UV_ENOMEM);
  uv_run(&loop, UV_RUN_NOWAIT);
  for (size_t i = 0; i < n; i += BATCH) {
    size_t m = n - i < BATCH ? n - i : BATCH;

    for (size_t k = 0; k < m; k++) {
      t[k] = plain(p, UVS_SEC(600) + (int64_t)draw(p, (uint64_t)UVS_HOUR(10)));
      add(&p->accepted, p->number);
    }
    rc = uvs_submit_many(S, t, m, NULL);
    if (rc < 0)
      die("uvs_submit_many", rc);
  }
  armed_ns = uv_hrtime();
  uv_run(&loop, UV_RUN_NOWAIT);
  most = most_resident_bytes();
  printf("%zu tasks pending: %.1f MB resident at most, %.1f MB before; %.1f bytes each; armed in "
         "%.2f s\n",
         n, most / 1e6, before / 1e6, (most - before) / (double)n,
         (double)(armed_ns - start_ns) / 1e9);
  if (most > bound || most <= 0)
    wrong("more than %.0f MB", bound / 1e6);
  rc = uvs_close(S, NULL);
  if (rc < 0)
    die("uvs_close", rc);
  uv_run(&loop, UV_RUN_DEFAULT);
  same("tasks accepted and done", &p->accepted, &done);
  if (cancelled != n)
    wrong("%" PRIu64 " ended cancelled", cancelled);
  printf("all of them ended in %.2f s; account %016" PRIx64 " and %016" PRIx64 "\n",
         (double)(uv_hrtime() - armed_ns) / 1e9, p->accepted.sum, done.sum);
  most = most_resident_bytes();
  if (most > bound)
    wrong("more than %.0f MB in the end", bound / 1e6);
  if (uv_loop_close(&loop) != 0)
    wrong("the loop has handles left");
  return atomic_load(&failures) == 0 ? 0 : 1;
}

static int run(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "pending") == 0)
    return pending(argc > 2 ? strtoull(argv[2], NULL, 0) : 10000000);
  if (argc > 1)
    seconds = strtod(argv[1], NULL);
  if (seconds <= 0) {
    fprintf(stderr, "usage: soak [seconds] | soak pending [n]\n");
    return 2;
  }
  return soak();
}

int main(int argc, char **argv) {
  const char *text = getenv("SEED"), *how = getenv("BREAK");
  int rc;

  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  seed = text == NULL ? uv_hrtime() : strtoull(text, NULL, 0);
  for (int i = 1; how != NULL && i < 7; i++) {
    if (strcmp(how, ways[i].name) == 0) {
      broken = (enum way)i;
      wanted = ways[i].says;
    }
  }
  if (how != NULL && broken == NOTHING) {
    fprintf(stderr, "soak: BREAK is one of lose, twice, leak, drift, early, room\n");
    return 2;
  }
  printf("SEED=%" PRIu64 "\n", seed);
  rc = run(argc, argv);
  if (how == NULL || rc > 1)
    return rc;
  printf("%s: %s\n", how, atomic_load(&noticed) > 0 ? "noticed" : "NOT noticed");
  return atomic_load(&noticed) > 0 ? 0 : 1;
}
