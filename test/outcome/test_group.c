/* SPDX-License-Identifier: MIT
 *
 * Groups: uvs_all and uvs_any. The caller blocks, so the loop or the caller runs on a thread of
 * its own (lib/stage.h). Groups under load are in test_group_load.c.
 */
#include <stddef.h>
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/stage.h"

static char value[8]; /* results are addresses in here */

/* ---------------------------------------------------------- uvs_all, uvs_any --- */

/* S49 S50 */
TEST uvs_all_returns_every_outcome(void) {
  enum { N = 100 };
  static struct fixture f;
  uv_thread_t thread;
  uvs_outcome_t o[N];
  uvs_task_t t[N];

  CHECK_CALL(stage_open(&f, &thread, 3, true));
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < N; i++) {
      t[i] = plain(i % 3 == 0 ? give_arg : i % 3 == 1 ? fail_work : work_nothing, &value[i % 8]);
      t[i].first_ns = i % 7 == 0 ? UVS_MS(2) : 0;
      uvs_outcome_init(&o[i]);
    }
    ASSERT_RC(0, uvs_all(f.s, t, N, round == 1 ? PATIENCE_NS : UVS_NEVER, round == 2 ? NULL : o));
    for (int i = 0; i < N && round < 2; i++) {
      ASSERT_RC(UVS_ENDED, o[i].state);
      ASSERT_RC(i % 3 == 1 ? UV_EIO : 0, o[i].status);
      ASSERT_EQ(i % 3 == 0 ? &value[i % 8] : NULL, (char *)o[i].result);
      ASSERT_U64(1, o[i].runs);
      ASSERT_U64(sizeof o[i], o[i].size);
    }
    ASSERT_U64((uint64_t)(round + 1) * N, counts_of(f.s).submitted);
    ASSERT_U64(0, counts_of(f.s).waiting + counts_of(f.s).ready + counts_of(f.s).running);
  }
  ASSERT_RC(0, uvs_all(f.s, NULL, 0, UVS_NEVER, NULL));
  ASSERT_RC(0, uvs_all(f.s, t, 0, 0, o));
  ASSERT_U64(3 * N, counts_of(f.s).submitted);
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S51 */
TEST uvs_all_with_a_time_out_cancels_the_rest_and_returns_after_all_bodies(void) {
  static const int64_t limits[] = {UVS_MS(30), 1, 0, -1, INT64_MIN};

  for (size_t k = 0; k < sizeof limits / sizeof *limits; k++) {
    enum { N = 5 };
    static struct fixture f;
    uv_thread_t thread;
    static struct hold h[2];
    uvs_outcome_t o[N];
    uvs_task_t t[N];
    int64_t start_ns;

    CHECK_CALL(stage_open(&f, &thread, 3, true));
    memset(h, 0, sizeof h);
    h[0].token_ends = h[1].token_ends = true;
    h[0].give = &value[1];
    h[1].ret = UV_EIO;
    t[0] = plain(give_arg, &value[2]);
    t[1] = plain(hold_work, &h[0]);
    t[2] = plain(hold_work, &h[1]);
    t[3] = plain(work_nothing, NULL);
    t[3].first_ns = UVS_DAY(1);
    t[4] = plain(fail_work, NULL);
    for (int i = 0; i < N; i++)
      uvs_outcome_init(&o[i]);
    start_ns = (int64_t)uv_hrtime();
    ASSERT_RC(UV_ETIMEDOUT, uvs_all(f.s, t, N, limits[k], o));
    ASSERT((int64_t)uv_hrtime() - start_ns >= limits[k]);
    for (int i = 0; i < 2; i++) { /* h is on our stack: who is inside must have left */
      ASSERT_RC(atomic_load(&h[i].inside), atomic_load(&h[i].left));
      if (atomic_load(&h[i].inside))
        ASSERT_RC(1, atomic_load(&h[i].saw_token));
    }
    for (int i = 0; i < N; i++)
      ASSERT_RC(UVS_ENDED, o[i].state);
    for (int i = 1; i < 4; i++) {
      ASSERT_RC(UV_ECANCELED, o[i].status);
      ASSERT_EQ(NULL, o[i].result);
    }
    if (o[0].status == 0) /* finished in time: it keeps its value */
      ASSERT_EQ(&value[2], (char *)o[0].result);
    else
      ASSERT_RC(UV_ECANCELED, o[0].status);
    ASSERT(o[4].status == UV_EIO || o[4].status == UV_ECANCELED);
    ASSERT_U64(0, counts_of(f.s).waiting + counts_of(f.s).ready + counts_of(f.s).running);
    CHECK_CALL(stage_close(&f, &thread));
  }
  PASS();
}

/* S51: a task that ended before the time limit keeps its outcome. */
TEST uvs_all_with_a_time_out_keeps_outcomes_that_finished_in_time(void) {
  enum { N = 4 };
  static struct fixture f;
  static struct hold h;
  uv_thread_t thread;
  uvs_outcome_t o[N];
  uvs_task_t t[N];
  int64_t limit_ns = UVS_MS(2);

  CHECK_CALL(stage_open(&f, &thread, 3, true));
  for (;; limit_ns *= 2) { /* a slow machine ends nothing in so short a time */
    ASSERT(limit_ns <= PATIENCE_NS);
    memset(&h, 0, sizeof h);
    h.token_ends = true;
    t[0] = plain(give_arg, &value[2]);
    t[1] = plain(fail_work, NULL);
    t[2] = plain(work_nothing, NULL);
    t[2].result = &value[3]; /* preset; a member is kept without being told so */
    t[3] = plain(hold_work, &h);
    for (int i = 0; i < N; i++)
      uvs_outcome_init(&o[i]);
    ASSERT_RC(UV_ETIMEDOUT, uvs_all(f.s, t, N, limit_ns, o));
    ASSERT_RC(UV_ECANCELED, o[3].status);
    if (o[0].status == 0 && o[1].status == UV_EIO && o[2].status == 0)
      break;
  }
  ASSERT_EQ(&value[2], (char *)o[0].result);
  ASSERT_EQ(NULL, o[1].result);
  ASSERT_EQ(&value[3], (char *)o[2].result);
  for (int i = 0; i < 3; i++) {
    ASSERT_U64(1, o[i].runs);
    ASSERT(o[i].ideal_ns > 0 && o[i].start_ns >= o[i].ideal_ns && o[i].end_ns >= o[i].start_ns);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S51: the caller waits for a body that ignores its token. */
TEST uvs_all_waits_for_a_body_that_ignores_its_token(void) {
  static struct fixture f;
  static struct hold h;
  static struct gather g;
  static uvs_outcome_t o;
  uv_thread_t thread, caller;
  uvs_task_t t = plain(hold_work, &h);

  CHECK_CALL(stage_open(&f, &thread, 1, true));
  g.limit_ns = UVS_MS(5);
  for (int i = 0;; i++) {
    ASSERT(i < 12);
    uvs_outcome_init(&o);
    h.give = &value[1];
    g.s = f.s;
    g.t = &t;
    g.o = &o;
    g.n = 1;
    ASSERT_RC(0, uv_thread_create(&caller, gather_main, &g));
    while (!atomic_load(&h.inside) && !atomic_load(&g.returned))
      uv_sleep(1);
    if (atomic_load(&h.inside))
      break;
    uv_thread_join(&caller); /* a slow machine: it was cancelled before it could start */
    ASSERT_RC(UV_ETIMEDOUT, g.rc);
    atomic_store(&g.returned, 0);
    g.limit_ns *= 2;
  }
  ASSERT(await_asleep(1)); /* past its limit, asleep without end */
  ASSERT_RC(0, atomic_load(&g.returned));
  ASSERT_U64(0, counts_of(f.s).running); /* settled */
  ASSERT_RC(0, atomic_load(&h.left));
  atomic_store(&h.open, 1);
  uv_thread_join(&caller);
  ASSERT_RC(1, atomic_load(&h.saw_token));
  ASSERT_RC(UV_ETIMEDOUT, g.rc);
  ASSERT_RC(UV_ECANCELED, o.status);
  ASSERT_EQ(NULL, o.result);
  ASSERT_RC(1, atomic_load(&h.left));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S46 S47 S48 */
TEST uvs_any_returns_a_winner_or_a_failure(void) {
  static struct fixture f;
  uv_thread_t thread;
  int64_t start_ns;

  CHECK_CALL(stage_open(&f, &thread, 3, true));
  for (int round = 0; round < 20; round++) {
    int64_t limit_ns = round % 2 == 0 ? UVS_NEVER : PATIENCE_NS;
    uvs_task_t t[4];
    static struct hold h[2];
    size_t winner = 99;
    uvs_outcome_t o;

    memset(h, 0, sizeof h);
    h[0].token_ends = h[1].token_ends = true;
    h[0].give = &value[1];
    t[0] = plain(hold_work, &h[0]);
    t[1] = plain(fail_work, NULL);
    t[2] = plain(give_arg, &value[2]);
    t[2].first_ns = UVS_US(100) * round;
    t[3] = plain(work_nothing, NULL);
    t[3].first_ns = UVS_DAY(1);
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_any(f.s, t, 4, limit_ns, &winner, &o));
    ASSERT_U64(2, winner);
    ASSERT_RC(0, o.status);
    ASSERT_RC(UVS_ENDED, o.state);
    ASSERT_EQ(&value[2], (char *)o.result);
    ASSERT_RC(atomic_load(&h[0].inside), atomic_load(&h[0].left));
    ASSERT_U64(0, counts_of(f.s).waiting + counts_of(f.s).ready + counts_of(f.s).running);
    ASSERT_RC(0, uvs_any(f.s, &t[1], 2, limit_ns, NULL, NULL));

    /* no member succeeds */
    t[0] = plain(fail_work, NULL);
    winner = 99;
    ASSERT_RC(UV_EIO, uvs_any(f.s, t, 2, limit_ns, &winner, &o));
    ASSERT_U64(99, winner);

    /* no member ends in time */
    t[0] = plain(hold_work, &h[1]);
    t[1] = plain(work_nothing, NULL);
    t[1].first_ns = UVS_DAY(1);
    start_ns = (int64_t)uv_hrtime();
    ASSERT_RC(UV_ETIMEDOUT, uvs_any(f.s, t, 2, UVS_MS(2), &winner, &o));
    ASSERT((int64_t)uv_hrtime() - start_ns >= UVS_MS(2));
    ASSERT_RC(UV_ETIMEDOUT, uvs_any(f.s, &t[1], 1, round % 2 == 0 ? 0 : INT64_MIN, &winner, &o));
    ASSERT_RC(atomic_load(&h[1].inside), atomic_load(&h[1].left));
    ASSERT_U64(99, winner);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S46 S48: the result may be preset or come from `after`; the call does not wait for the time
 * limit. */
TEST uvs_any_returns_every_kind_of_result_without_waiting_for_the_time_out(void) {
  static struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  for (int way = 0; way < 4; way++) { /* none, preset, set by the body, set by the loop's `after` */
    static struct hold h;
    int64_t start_ns = (int64_t)uv_hrtime();
    size_t winner = 99;
    uvs_outcome_t o;
    uvs_task_t t[2];

    memset(&h, 0, sizeof h);
    h.token_ends = true;
    t[0] = plain(hold_work, &h);
    t[1] = plain(way == 2 ? give_arg : work_nothing, &value[2]);
    if (way == 1)
      t[1].result = &value[2];
    if (way == 3)
      t[1].after = give_arg;
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_any(f.s, t, 2, PATIENCE_NS, &winner, &o));
    ASSERT((int64_t)uv_hrtime() - start_ns < PATIENCE_NS);
    ASSERT_U64(1, winner);
    ASSERT_EQ(way == 0 ? NULL : &value[2], (char *)o.result);
    ASSERT_U64(1, o.runs);
    ASSERT(o.ideal_ns > 0 && o.start_ns >= o.ideal_ns && o.end_ns >= o.start_ns);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

static int cancel_self(uvs_run_t *run) {
  uvs_cancel(run->scheduler, run->id, 0);
  return 0;
}

/* S47: a failed member is reported rather than a cancelled one. */
TEST uvs_any_without_a_winner_reports_a_member_that_failed(void) {
  static struct fixture f;
  uv_thread_t thread;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  for (int who = 0; who < 4; who++) { /* the one that fails; 3: none does */
    uvs_outcome_t o, before;
    size_t winner = 99;
    uvs_task_t t[3];

    for (int i = 0; i < 3; i++)
      t[i] = plain(i == who ? fail_work : cancel_self, NULL);
    uvs_outcome_init(&o);
    before = o;
    ASSERT_RC(who < 3 ? UV_EIO : UV_ECANCELED, uvs_any(f.s, t, 3, UVS_NEVER, &winner, &o));
    ASSERT_U64(99, winner);
    ASSERT_MEM_EQ(&before, &o, sizeof o);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* The members end one by one, not in the order of the list, and other tasks end in between. */
TEST uvs_any_finds_its_winner_among_many_members_and_other_tasks(void) {
  enum { N = 64 };
  static struct fixture f;
  static uvs_task_t t[N];
  uv_thread_t thread;

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  for (int round = 0; round < N; round++) {
    uvs_task_t other = plain(round % 2 == 0 ? work_nothing : fail_work, NULL);
    uvs_id_t ids[8];
    size_t winner = N;
    uvs_outcome_t o;

    other.keep_outcome = 1;
    for (int i = 0; i < 8; i++) {
      other.first_ns = UVS_US(20) * i;
      ASSERT_RC(0, uvs_submit(f.s, &other, &ids[i]));
    }
    for (int i = 0; i < N; i++) {
      t[i] = plain(i == round ? give_arg : fail_work, &value[i % 8]);
      t[i].first_ns = i == round ? UVS_US(300) : UVS_US(i * 7 % N * 4);
    }
    uvs_outcome_init(&o);
    ASSERT_RC(0, uvs_any(f.s, t, N, UVS_NEVER, &winner, &o));
    ASSERT_U64((unsigned)round, winner);
    ASSERT_EQ(&value[round % 8], (char *)o.result);
    for (int i = 0; i < 8; i++) {
      ASSERT_RC(0, uvs_wait(f.s, ids[i], UVS_NEVER, 0, NULL));
      ASSERT_RC(0, uvs_forget(f.s, ids[i]));
    }
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* S45 S49 S8 */
TEST invalid_lists_of_tasks_start_nothing(void) {
  static struct fixture f;
  uv_thread_t thread;
  uvs_task_t good[3], t[3];
  uvs_outcome_t o[3];
  size_t winner = 99;

  CHECK_CALL(stage_open(&f, &thread, 1, true));
  for (int i = 0; i < 3; i++) {
    good[i] = plain(work_nothing, NULL);
    uvs_outcome_init(&o[i]);
  }
  ASSERT_RC(UV_EINVAL, uvs_all(NULL, good, 3, 0, o));
  ASSERT_RC(UV_EINVAL, uvs_any(NULL, good, 3, 0, &winner, o));
  ASSERT_RC(UV_EINVAL, uvs_all(NULL, NULL, 0, 0, NULL));
  ASSERT_RC(UV_EINVAL, uvs_all(f.s, NULL, 1, 0, o));
  ASSERT_RC(UV_EINVAL, uvs_any(f.s, NULL, 1, 0, &winner, o));
  ASSERT_RC(UV_EINVAL, uvs_any(f.s, good, 0, 0, &winner, o));
  ASSERT_RC(UV_EINVAL, uvs_any(f.s, NULL, 0, 0, &winner, o));
  ASSERT(uvs_all(f.s, good, SIZE_MAX, 0, NULL) < 0);
  ASSERT(uvs_all(f.s, good, SIZE_MAX / 2 + 2, 0, NULL) < 0);
  ASSERT(uvs_any(f.s, good, SIZE_MAX, 0, NULL, NULL) < 0);
  for (int which = 0; which < 3; which++) {
    for (int way = 0; way < 9; way++) {
      memcpy(t, good, sizeof t);
      switch (way) {
      case 0:
        t[which].work = NULL;
        break;
      case 1:
        t[which].kind = UVS_FIXED_RATE;
        t[which].period_ns = UVS_MS(1);
        break;
      case 2:
        t[which].kind = UVS_FIXED_DELAY;
        t[which].period_ns = UVS_MS(1);
        break;
      case 3:
        t[which].kind = 99;
        break;
      case 4:
        t[which].flags = 0x80;
        break;
      case 5:
        t[which].size = 0;
        break;
      case 6:
        t[which].size -= 8;
        break; /* not all of one size */
      case 7:
        t[which].keep_outcome = 2;
        break;
      default:
        t[which].period_ns = 1;
        break;
      }
      if (which == 0 && way == 6)
        continue; /* then it is the others that differ */
      ASSERT_RC(UV_EINVAL, uvs_all(f.s, t, 3, UVS_NEVER, o));
      ASSERT_RC(UV_EINVAL, uvs_any(f.s, t, 3, UVS_NEVER, &winner, o));
    }
  }
  winner = 99;
  o[0].size = 0;
  ASSERT_RC(UV_EINVAL, uvs_all(f.s, good, 3, 0, o));
  ASSERT_RC(UV_EINVAL, uvs_any(f.s, good, 3, 0, &winner, o));
  o[0].size = sizeof o[0] - 1;
  ASSERT_RC(UV_EINVAL, uvs_all(f.s, good, 3, 0, o));
  ASSERT_U64(99, winner);
  ASSERT_U64(0, counts_of(f.s).submitted);
  uvs_outcome_init(&o[0]);
  ASSERT_RC(0, uvs_shutdown(f.s));
  ASSERT_RC(UV_ESHUTDOWN, uvs_all(f.s, good, 3, 0, o));
  ASSERT_RC(UV_ESHUTDOWN, uvs_any(f.s, good, 3, 0, &winner, o));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* L10 S45 S49 */
TEST without_memory_uvs_all_and_uvs_any_start_nothing_and_lose_nothing(void) {
  for (int race = 0; race < 2; race++) {
    for (long n = 0;; n++) {
      enum { N = 20 };
      static struct fixture f;
      uv_thread_t thread;
      uvs_task_t t[N];
      uvs_outcome_t o[N];
      bool failed;
      long live;
      int rc;

      ASSERT(n < 100);
      CHECK_CALL(stage_open(&f, &thread, 1, true)); /* fresh: slabs must grow too */
      for (int i = 0; i < N; i++) {
        t[i] = plain(work_nothing, NULL);
        uvs_outcome_init(&o[i]);
      }
      live = atomic_load(&f.fault.live);
      fault_after(n);
      rc = race ? uvs_any(f.s, t, N, UVS_NEVER, NULL, o) : uvs_all(f.s, t, N, UVS_NEVER, o);
      failed = fault_hit();
      if (rc < 0) {
        ASSERT_RC(UV_ENOMEM, rc);
        ASSERT(failed);
        ASSERT_U64(0, counts_of(f.s).submitted + counts_of(f.s).runs);
        ASSERT(atomic_load(&f.fault.live) <= live + 4); /* slabs may have grown */
        ASSERT_RC(0,
                  race ? uvs_any(f.s, t, N, UVS_NEVER, NULL, o) : uvs_all(f.s, t, N, UVS_NEVER, o));
      }
      ASSERT_U64(N, counts_of(f.s).submitted);
      CHECK_CALL(stage_close(&f, &thread));
      if (!failed)
        break;
    }
  }
  PASS();
}

/* S50 S55 */
TEST uvs_all_and_uvs_any_use_constant_memory(void) {
  static struct fixture f;
  uint64_t slots = 0;
  uv_thread_t thread;
  uvs_task_t t[2];

  CHECK_CALL(stage_open(&f, &thread, 2, true));
  t[0] = plain(work_nothing, NULL);
  t[1] = plain(fail_work, NULL);
  for (int i = 0; i < 2000; i++) {
    if (i == 100)
      slots = counts_of(f.s).slots;
    if (uvs_all(f.s, t, 2, UVS_NEVER, NULL) != 0 || uvs_any(f.s, t, 2, UVS_NEVER, NULL, NULL) != 0)
      FAILm("gather or race");
  }
  ASSERT(counts_of(f.s).slots <= slots + 1024);
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* The cap has no room for the whole list: all members are accepted, or none. */
TEST uvs_all_and_uvs_any_obey_the_cap(void) {
  static struct fixture f;
  uv_thread_t thread;
  uvs_task_t t[3];

  fixture_init(&f);
  f.real_clock = true;
  f.options.max_pending = 2;
  CHECK_CALL(stage_start(&f, &thread));
  for (int i = 0; i < 3; i++)
    t[i] = plain(work_nothing, NULL);
  ASSERT_RC(UV_EAGAIN, uvs_all(f.s, t, 3, UVS_NEVER, NULL));
  ASSERT_RC(UV_EAGAIN, uvs_any(f.s, t, 3, UVS_NEVER, NULL, NULL));
  ASSERT_U64(0, counts_of(f.s).submitted);
  for (int i = 0; i < 100; i++)
    ASSERT_RC(0, uvs_all(f.s, t, 2, UVS_NEVER, NULL));
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

/* ------------------------------------------------------------------- sizes --- */

/* A later version of the struct. */
struct newer {
  uvs_outcome_t o;
  int64_t more[2];
};

enum { ROOM = 3 * sizeof(struct newer) };

enum { ALL, ANY, ONE };

/* Calls uvs_all, uvs_any, or uvs_wait for `id`, with structs of this size. */
static int call_sized(uvs_t *s, int way, uvs_id_t id, char *room, size_t size) {
  uvs_task_t t[3] = {plain(give_arg, &value[1]), plain(give_arg, &value[2]),
                     plain(give_arg, &value[3])};
  uvs_outcome_t *ret = (uvs_outcome_t *)(void *)room;

  memcpy(room, &size, sizeof size);
  return way == ALL   ? uvs_all(s, t, 3, UVS_NEVER, ret)
         : way == ANY ? uvs_any(s, &t[1], 1, UVS_NEVER, NULL, ret)
                      : uvs_wait(s, id, UVS_NEVER, 0, ret);
}

/* L19 */
TEST outcome_structs_of_older_and_newer_sizes_are_filled_up_to_their_size(void) {
  static const size_t good[] = {
      offsetof(uvs_outcome_t, ideal_ns), offsetof(uvs_outcome_t, start_ns),
      offsetof(uvs_outcome_t, runs),     sizeof(uvs_outcome_t),
      sizeof(uvs_outcome_t) + 8,         sizeof(struct newer)};
  static const size_t bad[] = {0,
                               sizeof(size_t),
                               offsetof(uvs_outcome_t, result),
                               offsetof(uvs_outcome_t, ideal_ns) - 1,
                               sizeof(uvs_outcome_t) - 1,
                               sizeof(uvs_outcome_t) + 1,
                               4104,
                               SIZE_MAX,
                               SIZE_MAX - 7};
  static struct fixture f;
  _Alignas(struct newer) char room[ROOM];
  uvs_task_t t = plain(give_arg, &value[2]);
  uv_thread_t thread;
  uint64_t submitted = 1;
  uvs_id_t id;

  CHECK_CALL(stage_open(&f, &thread, 1, true));
  t.keep_outcome = 1;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  for (int way = ALL; way <= ONE; way++) {
    for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
      size_t size = good[k];
      size_t n = way == ALL ? 3 : 1;

      memset(room, 0x5a, sizeof room);
      memset(room, 0, size); /* the first one is initialized; the others need not be */
      ASSERT_RC(0, call_sized(f.s, way, id, room, size));
      submitted += way == ONE ? 0 : n;
      for (size_t i = 0; i < n; i++) {
        struct newer one = {0};

        memcpy(&one, room + i * size, size);
        ASSERT_U64(size, one.o.size);
        ASSERT_RC(UVS_ENDED, one.o.state);
        ASSERT_RC(0, one.o.status);
        ASSERT_EQ(&value[way == ALL ? i + 1 : 2], (char *)one.o.result);
        ASSERT_EQ(size > offsetof(uvs_outcome_t, ideal_ns), one.o.ideal_ns != 0);
        ASSERT_U64(size > offsetof(uvs_outcome_t, runs), one.o.runs);
        ASSERT_I64(0, one.more[0]);
        ASSERT_I64(0, one.more[1]);
      }
      for (size_t i = n * size; i < sizeof room; i++)
        ASSERT_RC(0x5a, room[i]);
    }
    for (size_t k = 0; k < sizeof bad / sizeof *bad; k++) {
      memset(room, 0, sizeof room);
      ASSERT_RC(UV_EINVAL, call_sized(f.s, way, id, room, bad[k]));
    }
    memset(room, 0, sizeof room);
    room[sizeof(struct newer) - 1] = 1; /* it asks for something that we do not know */
    ASSERT_RC(UV_EINVAL, call_sized(f.s, way, id, room, sizeof(struct newer)));
    ASSERT_U64(submitted, counts_of(f.s).submitted);
  }
  CHECK_CALL(stage_close(&f, &thread));
  PASS();
}

static int forget_myself(struct probe *p, uvs_run_t *run) {
  (void)p;
  return uvs_forget(run->scheduler, run->id);
}

/* S59. Bodies may forget their own outcome: the memory is freed nevertheless. */
TEST group_members_that_forget_their_outcome_leave_no_memory(void) {
  static struct fixture f;
  static uv_thread_t loop;
  uint64_t slots = 0;

  CHECK_CALL(stage_open(&f, &loop, 2, false));
  for (int i = 0; i < 400; i++) {
    uvs_task_t t[2] = {fixture_once(&f, 'a', 0), fixture_once(&f, 'b', 0)};

    if (i > 0)
      t[0].arg = f.probes, t[1].arg = f.probes + 1; /* the fixture does not have that many probes */
    f.probe_count = 2;
    probe_of(&t[0])->act = probe_of(&t[1])->act = forget_myself;
    ASSERT_RC(0, uvs_all(f.s, t, 2, UVS_NEVER, NULL));
    log_clear(&f);
    if (i == 100)
      slots = counts_of(f.s).slots;
  }
  ASSERT_U64(slots, counts_of(f.s).slots);
  CHECK_CALL(stage_close(&f, &loop));
  PASS();
}

SUITE(groups) {
  RUN_TEST(group_members_that_forget_their_outcome_leave_no_memory);
  RUN_TEST(uvs_all_returns_every_outcome);
  RUN_TEST(uvs_all_with_a_time_out_cancels_the_rest_and_returns_after_all_bodies);
  RUN_TEST(uvs_all_with_a_time_out_keeps_outcomes_that_finished_in_time);
  RUN_TEST(uvs_all_waits_for_a_body_that_ignores_its_token);
  RUN_TEST(uvs_any_returns_a_winner_or_a_failure);
  RUN_TEST(uvs_any_returns_every_kind_of_result_without_waiting_for_the_time_out);
  RUN_TEST(uvs_any_without_a_winner_reports_a_member_that_failed);
  RUN_TEST(uvs_any_finds_its_winner_among_many_members_and_other_tasks);
  RUN_TEST(invalid_lists_of_tasks_start_nothing);
  RUN_TEST(without_memory_uvs_all_and_uvs_any_start_nothing_and_lose_nothing);
  RUN_TEST(uvs_all_and_uvs_any_use_constant_memory);
  RUN_TEST(uvs_all_and_uvs_any_obey_the_cap);
  RUN_TEST(outcome_structs_of_older_and_newer_sizes_are_filled_up_to_their_size);
}

TEST_MAIN(RUN_SUITE(groups));
