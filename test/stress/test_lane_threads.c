/* SPDX-License-Identifier: MIT
 *
 * Lanes on libuv's pool with many threads, on the real clock: threads open, submit, cancel,
 * reschedule, finish and dispose at random (from a seed), and close in the middle.
 *
 * A lane's data is plain memory that its bodies share without a lock and that `quiet` frees, so
 * ThreadSanitizer and AddressSanitizer detect errors. Takes a second or two; with UVS_STRESS=long a
 * minute, and the million hops.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/lane.h"

#include "lib/unit.h"

#define PATIENCE_NS UVS_SEC(100)

enum { RUNNERS = 3 };

static bool is_long(void) {
  const char *stress = getenv("UVS_STRESS");

  return stress != NULL && strcmp(stress, "long") == 0;
}

/* Errors that were seen. */
enum {
  OVERLAP = 1,
  TWICE = 4,      /* a `done` or a `quiet` */
  BAD_ANSWER = 8, /* a code that cannot be */
  BAD_SUM = 16,   /* V9 */
  SEEN = 32,      /* the scheduler, where there should be none */
};

struct world {
  uv_loop_t loop;
  uv_thread_t thread;
  uv_sem_t ready;
  uv_async_t end_async;
  struct fault fault;
  uvs_t *s;
  int rc;
  _Atomic int wrong;
  _Atomic int opened, quiet; /* lanes */
  _Atomic int accepted, dones;
  _Atomic int ended;
};

static void blame(struct world *w, int what) {
  atomic_fetch_or(&w->wrong, what);
}

static void on_end(uv_async_t *h) {
  struct world *w = h->data;

  uv_close((uv_handle_t *)h, NULL);
  w->rc |= uvs_close(w->s, NULL);
}

static void loop_main(void *arg) {
  struct world *w = arg;

  uv_run(&w->loop, UV_RUN_NOWAIT); /* now this thread is the loop's */
  uv_sem_post(&w->ready);
  uv_run(&w->loop, UV_RUN_DEFAULT);
}

static enum greatest_test_res world_open(struct world *w) {
  uvs_options_t o;

  memset(w, 0, sizeof *w);
  fault_init(&w->fault);
  ASSERT_RC(0, uv_loop_init(&w->loop));
  ASSERT_RC(0, uv_sem_init(&w->ready, 0));
  ASSERT_RC(0, uv_async_init(&w->loop, &w->end_async, on_end));
  w->end_async.data = w;
  uvs_options_init(&o);
  o.concurrency = RUNNERS;
  o.allocator = fault_option(&w->fault);
  ASSERT_RC(0, uvs_open(&w->loop, &o, &w->s));
  uvs_retain(w->s); /* threads go on while it is closed */
  ASSERT_RC(0, uv_thread_create(&w->thread, loop_main, w));
  uv_sem_wait(&w->ready);
  PASS();
}

static enum greatest_test_res world_close(struct world *w) {
  uv_async_send(&w->end_async);
  uv_thread_join(&w->thread);
  ASSERT_RC(0, w->rc);
  uvs_release(w->s);
  ASSERT_RC(0, uv_loop_close(&w->loop));
  uv_sem_destroy(&w->ready);
  ASSERT_RC(0, atomic_load(&w->wrong));
  ASSERT_RC(atomic_load(&w->opened), atomic_load(&w->quiet));
  ASSERT_RC(atomic_load(&w->accepted), atomic_load(&w->dones));
  ASSERT_EQ_FMT(0L, atomic_load(&w->fault.live), "%ld");
  PASS();
}

static bool await_int(const _Atomic int *n, int at_least) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (atomic_load(n) < at_least && uv_hrtime() < end_ns)
    uv_sleep(1);
  return atomic_load(n) >= at_least;
}

static void check_sum(struct world *w) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  if (uvs_counts(w->s, &c) == 0 && c.submitted != c.completed + c.failed + c.cancelled +
                                                      c.timed_out + c.dropped + c.waiting +
                                                      c.ready + c.running)
    blame(w, BAD_SUM);
}

/* ----------------------------------------------------------------------- hops --- */

enum { LANES = 3, CHAINS = 4 };

/* Plain memory: written by one body, read by the next, whatever thread that runs on. */
struct hops {
  struct world *w;
  uvs_lane_t lane;
  long count, most;
  int inside;
  char text[64];
};

static int hop(uvs_run_t *run) {
  struct hops *h = run->arg;
  uvs_task_t t;
  int rc;

  if (h->inside++ != 0)
    blame(h->w, OVERLAP);
  if (run->scheduler != NULL)
    blame(h->w, SEEN);
  h->count++;
  memset(h->text, (int)(h->count & 0x7f), sizeof h->text);
  uvs_task_init(&t);
  t.work = hop;
  t.arg = h;
  rc = h->count + CHAINS <= h->most ? uvs_lane_submit(h->lane, &t, NULL) : 0;
  if (rc < 0)
    blame(h->w, BAD_ANSWER);
  if (h->text[0] != h->text[63])
    blame(h->w, OVERLAP);
  h->inside--;
  if (h->count == h->most)
    atomic_fetch_add(&h->w->ended, 1);
  return 0;
}

/* R6 R7 */
TEST bodies_of_one_lane_share_plain_memory_over_a_million_hops(void) {
  static struct world w;
  static struct hops h[LANES];
  long most = (is_long() ? 1000000 : 60000) / LANES + 1;
  uvs_counts_t c;

  CHECK_CALL(world_open(&w));
  memset(h, 0, sizeof h);
  for (int i = 0; i < LANES; i++) {
    h[i].w = &w;
    h[i].most = most;
    ASSERT_RC(0, uvs_lane_open(w.s, NULL, &h[i].lane));
  }
  for (int i = 0; i < LANES * CHAINS; i++) {
    uvs_task_t t;

    uvs_task_init(&t);
    t.work = hop;
    t.arg = &h[i / CHAINS];
    ASSERT_RC(0, uvs_lane_submit(h[i / CHAINS].lane, &t, NULL));
  }
  ASSERT(await_int(&w.ended, LANES));
  uvs_counts_init(&c);
  ASSERT_RC(0, uvs_counts(w.s, &c));
  ASSERT(c.slots <= 4096); /* R6: memory is that of a few */
  CHECK_CALL(world_close(&w));
  for (int i = 0; i < LANES; i++)
    ASSERT_EQ_FMT(most, h[i].count, "%ld");
  PASS();
}

/* ------------------------------------------------------------ lanes with an end --- */

/* What a lane owns; freed in `quiet`. */
struct owned {
  struct world *w;
  uint32_t width;
  _Atomic int inside;
  int plain; /* of width 1 only */
};

struct job {
  struct owned *o;
  uvs_lane_t lane;
  uint64_t random;
  int dones;
};

static int job_work(uvs_run_t *run) {
  struct job *j = run->arg;
  struct owned *o = j->o;
  int inside = atomic_fetch_add(&o->inside, 1) + 1;
  int rc = 0;

  if (o->width != 0 && inside > (int)o->width)
    blame(o->w, OVERLAP);
  if (o->width == 1)
    o->plain++;
  switch (test_random_below(&j->random, 8)) {
  case 0:
    rc = UV_EIO;
    break;
  case 1:
    uv_sleep(0);
    break;
  case 2:
    if (test_random_below(&j->random, 20) == 0)
      uvs_lane_dispose(j->lane, UVS_DISPOSE_TOKEN); /* its own */
    if (uvs_cancelled(run))
      rc = UV_EIO;
    break;
  case 3:
    uvs_lane_finish(j->lane, run->id, 0); /* before it returns; or another did */
    rc = UVS_PENDING;
    break;
  default:
    break;
  }
  atomic_fetch_sub(&o->inside, 1);
  return rc;
}

static int job_after(uvs_run_t *run) {
  struct job *j = run->arg;

  if (j->o->width == 1)
    j->o->plain++;
  return 0;
}

static void job_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;

  (void)s;
  (void)id;
  (void)status;
  if (j->dones++ != 0)
    blame(j->o->w, TWICE);
  atomic_fetch_add(&j->o->w->dones, 1);
  free(j);
}

static void lane_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct owned *o = arg;

  if (s != o->w->s || uvs_lane_is_disposed(lane) != 1 || atomic_load(&o->inside) != 0)
    blame(o->w, TWICE);
  atomic_fetch_add(&o->w->quiet, 1);
  memset(o, 0xaa, sizeof *o);
  free(o);
}

/* -------------------------------------------------------------------- the actors --- */

enum { PLACES = 6, ACTORS = 5 };

struct actor {
  struct world *w;
  uv_thread_t thread;
  uint64_t random;
  int rounds;
  bool over; /* the scheduler is shut down */
};

/* Only numbers: a thread that uses one does not know whether the lane still exists. */
static struct {
  _Atomic uvs_lane_t lane;
  _Atomic(struct owned *) owned; /* for a submit that its owner makes */
  _Atomic uint64_t id;
} places[PLACES];

static uint64_t below(struct actor *a, uint64_t n) {
  return test_random_below(&a->random, n);
}

static void judge(struct actor *a, int rc) {
  if (rc == UV_ESHUTDOWN)
    a->over = true;
  else if (rc < 0 && rc != UV_ENOENT && rc != UV_ECANCELED && rc != UV_EBUSY)
    blame(a->w, BAD_ANSWER);
}

static void open_one(struct actor *a, size_t place) {
  struct owned *o = calloc(1, sizeof *o);
  uvs_lane_options_t options;
  uvs_lane_t lane;
  int rc;

  o->w = a->w;
  o->width = (uint32_t)below(a, 4);
  uvs_lane_options_init(&options);
  options.width = o->width;
  options.on_quiet = lane_quiet;
  options.arg = o;
  atomic_fetch_add(&a->w->opened, 1);
  rc = uvs_lane_open(a->w->s, &options, &lane); /* close may have it quiet before this returns */
  if (rc < 0) {
    atomic_fetch_sub(&a->w->opened, 1);
    judge(a, rc);
    free(o);
    return;
  }
  atomic_store(&places[place].owned, o);
  atomic_store(&places[place].lane, lane);
}

/* A job belongs to its lane: only a thread that keeps the lane from being quiet may create one. So
 * a thread takes the lane's number out of the table while it submits. */
static void submit_some(struct actor *a, size_t place) {
  uvs_lane_t lane = atomic_exchange(&places[place].lane, 0);
  struct owned *o = atomic_load(&places[place].owned);

  if (lane == 0)
    return;
  for (uint64_t n = 1 + below(a, 6); n > 0 && !a->over; n--) {
    struct job *j = calloc(1, sizeof *j);
    uvs_id_t id = 0;
    uvs_task_t t;
    int rc;

    j->lane = lane;
    j->o = o; /* only the library knows whether the lane exists; read only in a run */
    j->random = test_random(&a->random) | 1;
    uvs_task_init(&t);
    t.work = job_work;
    t.after = below(a, 4) == 0 ? job_after : NULL;
    t.done = job_done;
    t.arg = j;
    t.first_ns = below(a, 2) == 0 ? 0 : (int64_t)below(a, (uint64_t)UVS_MS(2));
    if (below(a, 8) == 0) {
      t.kind = UVS_FIXED_RATE;
      t.period_ns = UVS_US(200);
      t.max_runs = 3;
      t.failure_policy = UVS_FAIL_CONTINUE;
    }
    t.lane = below(a, 2) == 0 ? lane : 0;
    atomic_fetch_add(&a->w->accepted, 1);
    rc = t.lane != 0 ? uvs_submit(a->w->s, &t, &id) : uvs_lane_submit(lane, &t, &id);
    if (rc < 0) {
      atomic_fetch_sub(&a->w->accepted, 1);
      free(j);
    }
    judge(a, rc);
    if (rc == 0)
      atomic_store(&places[place].id, id);
  }
  atomic_store(&places[place].lane, lane);
}

static void act_main(void *arg) {
  struct actor *a = arg;

  for (int i = 0; i < a->rounds && !a->over; i++) {
    size_t place = (size_t)below(a, PLACES);
    uvs_lane_t lane = atomic_load(&places[place].lane);
    uvs_id_t id = atomic_load(&places[below(a, PLACES)].id); /* perhaps another lane's */

    switch (below(a, 12)) {
    case 0:
      judge(a, uvs_lane_cancel(lane, id, below(a, 2) == 0 ? 0 : UVS_CANCEL_TOKEN));
      break;
    case 1:
      judge(a, uvs_lane_reschedule(lane, id, (int64_t)below(a, (uint64_t)UVS_MS(1))));
      break;
    case 2:
      judge(a, uvs_lane_finish(lane, id, 0));
      break;
    case 3:
      check_sum(a->w);
      judge(a, uvs_lane_is_disposed(lane));
      break;
    case 4:
      if (lane != 0 && below(a, 4) == 0) {
        judge(a, uvs_lane_dispose(lane, below(a, 2) == 0 ? 0 : UVS_DISPOSE_TOKEN));
        if (uvs_lane_is_disposed(lane) != 1)
          blame(a->w, BAD_ANSWER);
        if (atomic_compare_exchange_strong(&places[place].lane, &lane, 0))
          open_one(a, place);
      }
      break;
    case 5:
      uv_sleep(0);
      break;
    default:
      submit_some(a, place);
      break;
    }
  }
}

static enum greatest_test_res let_them_act(struct world *w, int rounds, uint64_t *random,
                                           bool close_early) {
  static struct actor actors[ACTORS + 1];

  memset(actors, 0, sizeof actors);
  for (int i = 0; i <= ACTORS; i++) {
    actors[i].w = w;
    actors[i].random = test_random(random) | 1;
    actors[i].rounds = rounds;
  }
  for (size_t i = 0; i < PLACES; i++) {
    atomic_store(&places[i].lane, 0);
    atomic_store(&places[i].id, 0);
    open_one(&actors[ACTORS], i);
  }
  for (int i = 0; i < ACTORS; i++)
    ASSERT_RC(0, uv_thread_create(&actors[i].thread, act_main, &actors[i]));
  if (close_early) {
    uv_sleep((unsigned)test_random_below(random, 8));
    uv_async_send(&w->end_async);
  }
  for (int i = 0; i < ACTORS; i++)
    uv_thread_join(&actors[i].thread);
  PASS();
}

/* R7 R15 R17 R18 R19 R22 R23 R34 R35 */
TEST under_mixed_load_every_lane_becomes_quiet(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < (is_long() ? 200 : 16); round++) {
    uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

    CHECK_CALL(world_open(&w));
    CHECK_CALL(let_them_act(&w, 1500, &random, false));
    for (size_t i = 0; i < PLACES; i++)
      ASSERT_RC(0, uvs_lane_dispose(atomic_load(&places[i].lane), 0));
    /* Nothing more is called: the loop ends all lanes, whoever cancelled what. */
    while (atomic_load(&w.quiet) < atomic_load(&w.opened) && uv_hrtime() < end_ns)
      uv_sleep(1);
    ASSERT_RC(atomic_load(&w.opened), atomic_load(&w.quiet));
    ASSERT_RC(atomic_load(&w.accepted), atomic_load(&w.dones));
    check_sum(&w);
    CHECK_CALL(world_close(&w));
  }
  PASS();
}

/* L17 R18: many threads hold lane ids while everything ends. */
TEST closing_under_load_ends_every_lane(void) {
  static struct world w;
  uint64_t random = test_seed;

  for (int round = 0; round < (is_long() ? 300 : 30); round++) {
    CHECK_CALL(world_open(&w));
    CHECK_CALL(let_them_act(&w, 100000, &random, true));
    CHECK_CALL(world_close(&w));
    for (size_t i = 0; i < PLACES; i++) {
      uvs_lane_t lane = atomic_load(&places[i].lane);

      if (lane != 0)
        ASSERT_RC(1, uvs_lane_is_disposed(lane));
    }
  }
  PASS();
}

/* ------------------------------------------------------------- two at the same time --- */

struct duel {
  uvs_lane_t lane;
  unsigned flags;
  uv_barrier_t *barrier;
  int rc, shown;
};

static void duel_main(void *arg) {
  struct duel *d = arg;

  uv_barrier_wait(d->barrier);
  d->rc = uvs_lane_dispose(d->lane, d->flags);
  d->shown = uvs_lane_is_disposed(d->lane);
}

static void count_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  atomic_fetch_add(&((struct world *)arg)->quiet, 1);
}

static void count_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add(&((struct world *)arg)->dones, 1);
}

static int short_work(uvs_run_t *run) {
  return uvs_cancelled(run) ? UV_EIO : 0;
}

/* R19 R23 */
TEST two_threads_may_dispose_one_lane_at_the_same_time(void) {
  static struct world w;
  uv_barrier_t barrier;

  CHECK_CALL(world_open(&w));
  ASSERT_RC(0, uv_barrier_init(&barrier, 3));
  for (int round = 0; round < (is_long() ? 3000 : 300); round++) {
    struct duel d[2];
    uv_thread_t thread[2];
    uvs_lane_options_t o;
    uvs_lane_t lane;
    uvs_task_t t;

    uvs_lane_options_init(&o);
    o.on_quiet = count_quiet;
    o.arg = &w;
    ASSERT_RC(0, uvs_lane_open(w.s, &o, &lane));
    atomic_fetch_add(&w.opened, 1);
    for (int i = 0; i < 2; i++) {
      d[i] = (struct duel){lane, i == 0 ? 0 : UVS_DISPOSE_TOKEN, &barrier, 1, 1};
      ASSERT_RC(0, uv_thread_create(&thread[i], duel_main, &d[i]));
    }
    uvs_task_init(&t);
    t.work = short_work;
    t.done = count_done;
    t.arg = &w;
    for (int i = 0; i < 5; i++) {
      t.first_ns = i < 3 ? 0 : UVS_HOUR(1);
      ASSERT_RC(0, uvs_lane_submit(lane, &t, NULL));
      atomic_fetch_add(&w.accepted, 1);
    }
    uv_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++) {
      uv_thread_join(&thread[i]);
      ASSERT_RC(0, d[i].rc);
      ASSERT_RC(1, d[i].shown);
    }
    ASSERT(await_int(&w.quiet, round + 1));
    ASSERT_RC(atomic_load(&w.accepted), atomic_load(&w.dones)); /* before it was quiet */
  }
  uv_barrier_destroy(&barrier);
  CHECK_CALL(world_close(&w));
  PASS();
}

/* -------------------------------------------------------------------- the first --- */

/* Another thread submits as soon as it sees the number of the process's first lane. */
struct first {
  struct world w;
  _Atomic uvs_lane_t number; /* relaxed: it orders nothing */
  int next, inside;          /* plain: the lane's */
};

struct nth {
  struct first *f;
  int n;
};

enum { FIRSTS = 60 };
static struct nth nths[FIRSTS];

static int run_nth(uvs_run_t *run) {
  struct nth *t = run->arg;

  if (t->f->inside++ != 0 || t->n < t->f->next)
    blame(&t->f->w, OVERLAP); /* or out of order */
  t->f->next = t->n + 1;
  t->f->inside--;
  return 0;
}

static void count_nth(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct nth *t = arg;

  (void)s;
  (void)id;
  if (status != 0 && status != UV_ECANCELED)
    blame(&t->f->w, BAD_ANSWER);
  atomic_fetch_add(&t->f->w.dones, 1);
}

static void submitter_main(void *arg) {
  struct first *f = arg;
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = run_nth;
  t.done = count_nth;
  while ((t.lane = atomic_load_explicit(&f->number, memory_order_relaxed)) == 0) {
  }
  for (int i = 0; i < FIRSTS; i++) {
    int rc;

    nths[i] = (struct nth){f, i};
    t.arg = &nths[i];
    rc = uvs_submit(f->w.s, &t, NULL);
    if (rc == 0)
      atomic_fetch_add(&f->w.accepted, 1);
    else if (rc != UV_ECANCELED) /* it is disposed */
      blame(&f->w, BAD_ANSWER);
  }
}

/* R2 R7 */
TEST tasks_of_the_first_lane_keep_order_from_the_start(void) {
  for (int round = 0; round < 40; round++) {
    static struct first f;
    uv_thread_t submitter;
    uvs_lane_t lane;

    f.next = f.inside = 0;
    atomic_store(&f.number, 0);
    CHECK_CALL(world_open(&f.w));
    ASSERT_RC(0, uv_thread_create(&submitter, submitter_main, &f));
    ASSERT_RC(0, uvs_lane_open(f.w.s, NULL, &lane));
    atomic_store_explicit(&f.number, lane, memory_order_relaxed);
    if (round % 2 == 0)
      ASSERT_RC(0, uvs_lane_dispose(lane, 0));
    uv_thread_join(&submitter);
    ASSERT(await_int(&f.w.dones, atomic_load(&f.w.accepted)));
    if (round % 2 == 1)
      ASSERT_RC(FIRSTS, atomic_load(&f.w.accepted));
    check_sum(&f.w);
    CHECK_CALL(world_close(&f.w));
  }
  PASS();
}

SUITE(lane_threads) {
  RUN_TEST(bodies_of_one_lane_share_plain_memory_over_a_million_hops);
  RUN_TEST(under_mixed_load_every_lane_becomes_quiet);
  RUN_TEST(closing_under_load_ends_every_lane);
  RUN_TEST(two_threads_may_dispose_one_lane_at_the_same_time);
  RUN_TEST(tasks_of_the_first_lane_keep_order_from_the_start);
}

TEST_MAIN(RUN_SUITE(lane_threads));
