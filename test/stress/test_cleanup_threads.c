/* SPDX-License-Identifier: MIT
 *
 * Clean-up actions on many threads, with libuv's pool and the real clock. Producers submit tasks of
 * all kinds, with and without lanes. At random (from a seed) they attach actions to their own and
 * others' tasks, cancel, finish, forget and dispose, while bodies attach to their own tasks and the
 * scheduler is closed. At the end every accepted action was called once, on the loop, before the
 * close callback; none too early, and none that a body attached to its own task after `done`.
 *
 * Takes a second; with UVS_STRESS=long half a minute.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/lane.h"

#include "lib/unit.h"

enum { PRODUCERS = 3, JOBS = 400, LANES = 4, ACTIONS = 6000 };

#define PATIENCE_NS UVS_SEC(100)

/* Errors that were seen. */
enum {
  CALLED_TWICE = 1,
  WRONG_THREAD = 2,
  TOO_EARLY = 4,  /* the body was still inside */
  AFTER_DONE = 8, /* attached in the body, and called after `done` */
  AFTER_CLOSE = 16,
  BAD_ANSWER = 32
};

struct job {
  _Atomic uvs_id_t id;
  _Atomic int inside; /* its body is */
  _Atomic int dones;
  bool pends, attaches;
  struct producer *p;
};

struct action {
  struct job *job; /* NULL: of a lane */
  bool when_settled, by_body;
  bool accepted;
  _Atomic int calls;
};

struct producer {
  uv_thread_t thread;
  uint64_t random;
  struct job jobs[JOBS];
  int used;
  struct action actions[ACTIONS];
  _Atomic int attached; /* number of actions; bodies attach as well */
};

static struct world {
  uv_loop_t loop;
  uvs_t *s;
  uv_thread_t loop_thread;
  uvs_lane_t lanes[LANES];
  struct fault fault;
  struct producer producers[PRODUCERS];
  _Atomic int finished, closed, wrong;
} world;

static void blame(int what) {
  atomic_fetch_or(&world.wrong, what);
}

/* ---- actions ---- */

static void on_cleanup(uvs_t *s, void *arg) {
  struct action *a = arg;
  uv_thread_t self = uv_thread_self();

  if (atomic_fetch_add(&a->calls, 1) > 0)
    blame(CALLED_TWICE);
  if (!uv_thread_equal(&self, &world.loop_thread) || s != world.s)
    blame(WRONG_THREAD);
  if (a->job != NULL && !a->when_settled && atomic_load(&a->job->inside) > 0)
    blame(TOO_EARLY);
  if (a->by_body && atomic_load(&a->job->dones) > 0)
    blame(AFTER_DONE);
  if (atomic_load(&world.closed))
    blame(AFTER_CLOSE);
}

/* job NULL: attach to the lane. */
static void attach(struct producer *p, struct job *job, uvs_id_t id, uvs_lane_t lane, bool settled,
                   bool by_body) {
  int n = atomic_fetch_add(&p->attached, 1);
  unsigned flags = settled ? UVS_CLEANUP_WHEN_SETTLED : 0;
  struct action *a;
  int rc;

  if (n >= ACTIONS) {
    atomic_fetch_sub(&p->attached, 1);
    return;
  }
  a = &p->actions[n];
  a->job = job;
  a->when_settled = settled;
  a->by_body = by_body;
  rc = job == NULL ? uvs_lane_add_cleanup(world.s, lane, on_cleanup, a, flags)
                   : uvs_add_cleanup(world.s, id, on_cleanup, a, flags);
  a->accepted = rc == 0;
  if (rc != 0 && (rc != UV_ESHUTDOWN || by_body))
    blame(BAD_ANSWER);
}

/* ---- tasks ---- */

static int on_work(uvs_run_t *run) {
  struct job *j = run->arg;

  atomic_fetch_add(&j->inside, 1);
  if (j->attaches)
    attach(j->p, j, run->id, 0, run->id % 2 == 0, true);
  atomic_fetch_sub(&j->inside, 1);
  return j->pends && run->number == 1 ? UVS_PENDING : 0;
}

static int on_after(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct job *j = arg;

  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add(&j->dones, 1);
}

static void submit(struct producer *p) {
  struct job *j = &p->jobs[p->used];
  uint64_t r = test_random(&p->random) >> 16;
  uvs_id_t id;
  uvs_task_t t;

  uvs_task_init(&t);
  t.work = on_work;
  t.arg = j;
  t.done = (r & 1) != 0 ? on_done : NULL;
  t.after = (r & 6) == 6 ? on_after : NULL;
  t.lane = (r & 24) == 0 ? world.lanes[(r >> 5) % LANES] : 0;
  t.keep_outcome = (r >> 7 & 3) == 0;
  t.first_ns = (r >> 9 & 3) == 0 ? UVS_DAY(1) : (int64_t)(r >> 11 & 0xffff);
  if ((r >> 27 & 7) == 0) {
    t.kind = UVS_FIXED_DELAY;
    t.period_ns = UVS_US(50);
    t.max_runs = 5;
  }
  if ((r >> 30 & 7) == 0)
    t.limit.total_ns = UVS_US(300);
  j->pends = (r >> 33 & 3) == 0;
  j->attaches = (r >> 35 & 1) != 0 && t.kind == UVS_ONE_SHOT;
  j->p = p;
  if (uvs_submit(world.s, &t, &id) != 0)
    return;
  atomic_store(&j->id, id);
  p->used++;
}

static struct job *any_job(struct producer *p) {
  struct producer *of = &world.producers[test_random_below(&p->random, PRODUCERS)];

  return &of->jobs[test_random_below(&p->random, JOBS)];
}

static void act(struct producer *p) {
  struct job *j = any_job(p);
  uvs_id_t id = atomic_load(&j->id);
  uint64_t r = test_random_below(&p->random, 40);
  uvs_lane_t lane = world.lanes[test_random_below(&p->random, LANES)];

  if (r == 0) {
    attach(p, NULL, 0, lane, test_random_below(&p->random, 2) != 0, false);
  } else if (r == 1 && test_random_below(&p->random, 20) == 0) {
    uvs_lane_dispose(lane, 0);
  } else if (r < 10 && p->used < JOBS) {
    submit(p);
  } else if (id == 0) {
    return;
  } else if (r < 25) {
    attach(p, j, id, 0, r % 2 == 0, false);
  } else if (r < 30) {
    uvs_finish(world.s, id, 0);
  } else if (r < 36) {
    uvs_cancel(world.s, id, r % 2 == 0 ? UVS_CANCEL_TOKEN : 0);
  } else {
    uvs_forget(world.s, id);
  }
}

static void producer_main(void *arg) {
  struct producer *p = arg;
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (atomic_load(&p->attached) < ACTIONS - JOBS && !atomic_load(&world.closed) &&
         uv_hrtime() < end_ns)
    act(p);
  for (int i = 0; i < 100; i++) /* and some that are too late */
    act(p);
  atomic_fetch_add(&world.finished, 1);
}

/* Pending runs must end, or the close waits for them. */
static void finish_all(void) {
  for (int i = 0; i < PRODUCERS; i++) {
    for (int k = 0; k < JOBS; k++) {
      uvs_id_t id = atomic_load(&world.producers[i].jobs[k].id);

      if (id != 0)
        uvs_finish(world.s, id, 0);
    }
  }
}

static void on_closed(uvs_t *s) {
  (void)s;
  atomic_store(&world.closed, 1);
}

static enum greatest_test_res open_world(uint64_t *random) {
  uvs_options_t o;

  memset(&world, 0, sizeof world);
  fault_init(&world.fault);
  world.loop_thread = uv_thread_self();
  ASSERT_RC(0, uv_loop_init(&world.loop));
  uvs_options_init(&o);
  o.concurrency = (int)test_random_below(random, 4);
  o.allocator = fault_option(&world.fault);
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  o.budget_ns = UVS_US(1) << test_random_below(random, 11);
  ASSERT_RC(0, uvs_open(&world.loop, &o, &world.s));
  uv_run(&world.loop, UV_RUN_NOWAIT);
  for (int i = 0; i < LANES; i++)
    ASSERT_RC(0, uvs_lane_open(world.s, NULL, &world.lanes[i]));
  PASS();
}

static uint64_t accepted_so_far;

static int attached_now(void) {
  int n = 0;

  for (int i = 0; i < PRODUCERS; i++)
    n += atomic_load(&world.producers[i].attached);
  return n;
}

static enum greatest_test_res check_actions(void) {
  uint64_t accepted = 0;

  for (int i = 0; i < PRODUCERS; i++) {
    struct producer *p = &world.producers[i];

    for (int k = 0; k < atomic_load(&p->attached); k++) {
      ASSERT_RC(p->actions[k].accepted, atomic_load(&p->actions[k].calls));
      accepted += p->actions[k].accepted;
    }
  }
  ASSERT_RC(0, atomic_load(&world.wrong));
  accepted_so_far += accepted;
  PASS();
}

static enum greatest_test_res play(uint64_t seed) {
  uint64_t random = seed;
  uint64_t end_ns;
  int close_at;

  CHECK_CALL(open_world(&random));
  close_at =
      (int)test_random_below(&random, PRODUCERS * ACTIONS); /* after this many actions, or all */
  uvs_retain(world.s);
  for (int i = 0; i < PRODUCERS; i++) {
    world.producers[i].random = test_random(&random) | 1;
    ASSERT_RC(0, uv_thread_create(&world.producers[i].thread, producer_main, &world.producers[i]));
  }
  end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  while (attached_now() < close_at && atomic_load(&world.finished) < PRODUCERS &&
         uv_hrtime() < end_ns)
    uv_run(&world.loop, UV_RUN_NOWAIT);
  ASSERT_RC(0, uvs_close(world.s, on_closed));
  end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  while (!atomic_load(&world.closed) && uv_hrtime() < end_ns) {
    finish_all();
    uv_run(&world.loop, UV_RUN_NOWAIT);
  }
  ASSERT(atomic_load(&world.closed));
  for (int i = 0; i < PRODUCERS; i++)
    ASSERT_RC(0, uv_thread_join(&world.producers[i].thread));
  CHECK_CALL(check_actions());
  uvs_release(world.s);
  uv_run(&world.loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, uv_loop_close(&world.loop));
  ASSERT_EQ_FMT(0L, atomic_load(&world.fault.live), "%ld");
  PASS();
}

/* R23 R24 R32 R33 F12b L17 */
TEST every_accepted_clean_up_is_called_exactly_once_under_load(void) {
  const char *how = getenv("UVS_STRESS");
  bool is_long = how != NULL && strcmp(how, "long") == 0;
  uint64_t end_ns = uv_hrtime() + (uint64_t)(is_long ? UVS_SEC(30) : UVS_SEC(1));
  uint64_t random = test_seed;
  int rounds = 0;

  do {
    uint64_t seed = test_random(&random) | 1;
    enum greatest_test_res res = play(seed);

    if (res != GREATEST_TEST_RES_PASS) {
      fprintf(stderr, "round %d, wrong 0x%x\n", rounds, (unsigned)atomic_load(&world.wrong));
      return res;
    }
    rounds++;
  } while (uv_hrtime() < end_ns);
  ASSERT(accepted_so_far > 1000);
  PASS();
}

SUITE(cleanup_threads) {
  RUN_TEST(every_accepted_clean_up_is_called_exactly_once_under_load);
}

TEST_MAIN(RUN_SUITE(cleanup_threads));
