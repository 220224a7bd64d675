/* SPDX-License-Identifier: MIT
 *
 * Groups under load: the cost of a large group, and many groups at once, racing their members,
 * their time limits and close.
 */
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"

/* -------------------------------------------------------------------- many --- */

static void race_main(void *arg) {
  struct gather *g = arg;

  g->rc = uvs_any(g->s, g->t, g->n, g->limit_ns, NULL, NULL);
}

/* S50 S46: the end of a member wakes the thread that waits for all of them, or for the first
 * success, only if that is what the thread waits for. Else the work of a group would grow with its
 * size. */
TEST a_group_member_that_does_not_decide_the_wait_wakes_nobody(void) {
  enum { N = 2000, ENDS = 200 };
  static uvs_task_t t[N];

  for (int race = 0; race < 2; race++) {
    static struct fixture f;
    static struct gather g;
    uv_thread_t thread, caller;
    unsigned long wakes;

    fixture_init(&f);
    f.options.concurrency = 1;
    f.options.on_error = NULL; /* its log has no room for so many */
    CHECK_CALL(stage_start(&f, &thread));
    for (int i = 0; i < N; i++) {
      t[i] = plain(fail_work, NULL);
      t[i].first_ns = i < ENDS ? UVS_MS(1) * (i + 1) : UVS_DAY(1);
    }
    memset(&g, 0, sizeof g);
    g.s = f.s;
    g.t = t;
    g.n = N;
    g.limit_ns = UVS_NEVER;
    ASSERT_RC(0, uv_thread_create(&caller, race ? race_main : gather_main, &g));
    ASSERT(await_asleep(1));
    wakes = wakes_so_far();
    for (unsigned i = 1; i <= ENDS; i++) {
      stage_advance(&f, UVS_MS(1));
      for (int k = 0; k < 20000 && counts_of(f.s).failed < i; k++)
        uv_sleep(1);
      ASSERT_U64(i, counts_of(f.s).failed);
    }
    ASSERT_U64(wakes, wakes_so_far());
    ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
    uv_thread_join(&caller);
    ASSERT_RC(race ? UV_EIO : 0, g.rc);
    CHECK_CALL(stage_close(&f, &thread));
  }
  PASS();
}

/* ------------------------------------------------------------------- races --- */

/* What a member does. It is freed as soon as the call has returned: a body that runs later would
 * touch freed memory. */
struct deed {
  int kind;
  int64_t end_ns; /* when the body ends */
};

static _Atomic uint64_t pending[64]; /* ids that wait for uvs_finish; 0: free */

static void leave_pending(uvs_id_t id) {
  for (unsigned i = 0;; i = (i + 1) % 64) {
    uint64_t none = 0;

    if (atomic_compare_exchange_strong(&pending[i], &none, id))
      return;
  }
}

static void finish_pending(uvs_t *s) {
  for (unsigned i = 0; i < 64; i++) {
    uint64_t id = atomic_load(&pending[i]);

    if (id != 0 && uvs_finish(s, id, 0) == 0)
      atomic_store(&pending[i], 0);
  }
}

static int do_deed(uvs_run_t *run) {
  struct deed *d = run->arg;

  switch (d->kind) {
  case 0:
    return uvs_set_result(run, d);
  case 1:
    return UV_EIO;
  case 2:
    uvs_forget(run->scheduler, run->id);
    return 0;
  case 3:
    uvs_cancel(run->scheduler, run->id, UVS_CANCEL_TOKEN);
    return UV_EIO;
  case 4: /* until it is asked to stop, or not so long */
    while (!uvs_cancelled(run) && (int64_t)uv_hrtime() < d->end_ns) {
    }
    return uvs_set_result(run, d);
  default: /* another thread finishes it */
    leave_pending(run->id);
    return UVS_PENDING;
  }
}

struct party {
  uvs_t *s;
  uint64_t random;
  unsigned long wrong;
  _Atomic int calls;
};

static bool legal(const uvs_task_t *t, const uvs_outcome_t *o) {
  const struct deed *d = t->arg;

  if (o->state != UVS_ENDED)
    return false;
  if (o->status == 0)
    return o->runs == 1 && o->end_ns >= o->start_ns &&
           o->result == ((d->kind == 0 || d->kind == 4) ? (const void *)d : NULL);
  return o->result == NULL && (o->status == UV_ECANCELED || (o->status == UV_EIO && d->kind == 1));
}

static void party_main(void *arg) {
  enum { MOST = 12 };
  struct party *p = arg;

  for (;;) {
    size_t n = 1 + (size_t)test_random_below(&p->random, MOST);
    struct deed *deeds = calloc(n, sizeof *deeds);
    uvs_outcome_t o[MOST];
    uvs_task_t t[MOST];
    int64_t limit_ns = (int64_t)test_random_below(&p->random, 4) * UVS_US(200);
    size_t winner = MOST;
    int rc;

    if (test_random_below(&p->random, 3) == 0)
      limit_ns = PATIENCE_NS;
    for (size_t i = 0; i < n; i++) {
      deeds[i].kind = (int)test_random_below(&p->random, 6);
      deeds[i].end_ns = (int64_t)uv_hrtime() + UVS_MS(1);
      t[i] = plain(do_deed, &deeds[i]);
      t[i].first_ns = (int64_t)test_random_below(&p->random, 3) * UVS_US(100);
      if (test_random_below(&p->random, 4) == 0 && deeds[i].kind != 5)
        t[i].after = work_nothing;
      uvs_outcome_init(&o[i]);
    }
    if (test_random_below(&p->random, 2) == 0) {
      rc = uvs_all(p->s, t, n, limit_ns, o);
      p->wrong += rc != 0 && rc != UV_ETIMEDOUT && rc != UV_ESHUTDOWN;
      for (size_t i = 0; i < n && rc != UV_ESHUTDOWN; i++)
        p->wrong += !legal(&t[i], &o[i]);
    } else {
      rc = uvs_any(p->s, t, n, limit_ns, &winner, o);
      p->wrong +=
          rc == 0 ? winner >= n || o[0].status != 0 || !legal(&t[winner], &o[0])
                  : rc != UV_EIO && rc != UV_ECANCELED && rc != UV_ETIMEDOUT && rc != UV_ESHUTDOWN;
    }
    free(deeds);
    atomic_fetch_add(&p->calls, 1);
    if (rc == UV_ESHUTDOWN)
      break;
  }
  uvs_release(p->s);
}

/* L12 S50 S51: whatever the members do, whenever the time limit passes, and during close. */
TEST groups_survive_races_with_their_members_each_other_and_close(void) {
  enum { PARTIES = 4 };
  static struct party p[PARTIES];
  static struct fixture f;
  uint64_t random = test_seed;

  for (int round = 0; round < 12; round++) {
    uv_thread_t threads[PARTIES];
    uvs_t *s;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    f.options.concurrency = round % 4;
    f.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS; /* it is fed by other threads only */
    f.options.on_error = NULL;
    CHECK_CALL(fixture_open_turned(&f));
    s = uvs_retain(f.s);
    for (int i = 0; i < PARTIES; i++) {
      p[i] = (struct party){uvs_retain(s), test_random(&random) | 1, 0, 0};
      ASSERT_RC(0, uv_thread_create(&threads[i], party_main, &p[i]));
    }
    for (int i = 0; i < PARTIES; i++) {
      while (atomic_load(&p[i].calls) < 30) {
        finish_pending(s);
        uv_run(&f.loop, UV_RUN_NOWAIT);
      }
    }
    f.s = NULL;
    ASSERT_RC(0, uvs_close(s, note_closed));
    while (!f.closed) {
      finish_pending(s);
      uv_run(&f.loop, UV_RUN_NOWAIT);
    }
    uv_run(&f.loop, UV_RUN_DEFAULT);
    for (int i = 0; i < PARTIES; i++) {
      uv_thread_join(&threads[i]);
      ASSERT_U64(0, p[i].wrong);
    }
    uvs_release(s);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* L12 S50: uvs_all during close returns the true outcome of every task. */
TEST uvs_all_during_close_reports_every_task_correctly(void) {
  enum { N = 300 };
  static uvs_task_t t[N];
  static uvs_outcome_t o[N];
  int untold = 0, lies = 0, refused = 0;

  for (int round = 0; round < 100; round++) {
    static struct fixture f;
    struct gather g = {0};
    uv_thread_t caller;
    uvs_t *s;

    fixture_init(&f);
    f.pool = FAKEPOOL_REAL;
    f.real_clock = true;
    f.options.concurrency = 2;
    CHECK_CALL(fixture_open_turned(&f));
    for (int i = 0; i < N; i++) {
      t[i] = plain(work_nothing, NULL);
      t[i].first_ns = UVS_DAY(1);
      uvs_outcome_init(&o[i]);
    }
    s = f.s;
    g.s = uvs_retain(s);
    g.t = t;
    g.o = o;
    g.n = N;
    g.limit_ns = UVS_NEVER;
    ASSERT_RC(0, uv_thread_create(&caller, gather_main, &g));
    ASSERT(await_asleep(1));
    f.s = NULL;
    ASSERT_RC(0, uvs_close(s, NULL));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    uv_thread_join(&caller);
    uvs_release(s);
    for (int i = 0; i < N; i++) {
      untold += o[i].state == 0;
      lies += o[i].status != UV_ECANCELED;
    }
    refused += g.rc != 0;
    CHECK_CALL(fixture_close(&f));
  }
  ASSERT_RC(0, lies); /* a task that never ran is not a success */
  ASSERT_RC(0, untold);
  ASSERT_RC(0, refused);
  PASS();
}

SUITE(load) {
  RUN_TEST(a_group_member_that_does_not_decide_the_wait_wakes_nobody);
  RUN_TEST(groups_survive_races_with_their_members_each_other_and_close);
  RUN_TEST(uvs_all_during_close_reports_every_task_correctly);
}

/* Bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "4"); RUN_SUITE(load));
