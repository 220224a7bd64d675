/* SPDX-License-Identifier: MIT
 *
 * Queries: a task's state, the list of tasks, the dump, names, versions.
 */
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "uvsched/lane.h"

/* ----------------------------------------------------------------- uvs_info --- */

/* S10 S27 */
TEST info_shows_every_field_of_a_waiting_task(void) {
  struct fixture f;
  struct look l;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_rate(&f, 'a', UVS_MS(30), UVS_MS(10));
  t.name = "twenty-three characters";
  ASSERT_RC(UVS_NAME_MAX, (int)strlen(t.name));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  for (int turned = 0; turned < 2; turned++) { /* also before the loop has seen it */
    l = look_at(f.s, id);
    ASSERT_RC(0, l.rc);
    ASSERT_U64(sizeof(uvs_info_t), l.info.size);
    ASSERT_U64(id, l.info.id);
    ASSERT_RC(UVS_WAITING, l.info.state);
    ASSERT_RC(UVS_FIXED_RATE, l.info.kind);
    ASSERT_RC(UVS_FROM_MONOTONIC, l.info.from);
    ASSERT_RC(0, l.info.cancelled);
    ASSERT_I64(VCLOCK_START_NS + UVS_MS(30), l.info.due_ns);
    ASSERT_I64(UVS_MS(30), l.info.remaining_ns);
    ASSERT_I64(UVS_MS(10), l.info.period_ns);
    ASSERT_U64(0, l.info.runs);
    ASSERT_U64(0, l.info.missed);
    ASSERT(l.info.arg == t.arg);
    ASSERT_STR_EQ(t.name, l.info.name);
    fixture_turn(&f);
  }
  vclock_advance_ns(&f.clock, UVS_MS(31)); /* overdue, and the loop has not looked */
  l = look_at(f.s, id);
  ASSERT_I64(-UVS_MS(1), l.info.remaining_ns);
  ASSERT_I64(VCLOCK_START_NS + UVS_MS(30), l.info.due_ns);
  fixture_jump_ms(&f, 0);
  l = look_at(f.s, id);
  ASSERT_U64(1, l.info.runs);
  ASSERT_I64(UVS_MS(9), l.info.remaining_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int look_from_inside(struct probe *p, uvs_run_t *run) {
  struct look l = look_at(run->scheduler, run->id);

  log_add(p->f, EV_USER, 's', run->id, l.info.state);
  log_add(p->f, EV_USER, 'n', run->id, (int)l.info.runs);
  log_add(p->f, EV_USER, 'c', run->id, l.info.cancelled);
  log_add(p->f, EV_USER, 'd', run->id, l.info.due_ns == run->ideal_ns);
  uvs_cancel(run->scheduler, run->id, 0);
  log_add(p->f, EV_USER, 'C', run->id, look_at(run->scheduler, run->id).info.cancelled);
  return 0;
}

static void look_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;
  struct look l = look_at(s, id);

  log_add(p->f, EV_DONE, p->tag, id, status);
  log_add(p->f, EV_USER, 'e', id, l.rc < 0 ? l.rc : l.info.state);
}

/* S27 F17 */
TEST info_follows_a_task_through_its_states(void) {
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  t.done = look_in_done;
  probe_of(&t)->act = look_from_inside;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  fixture_turn(&f);
  fakepool_hold();
  fixture_jump_ms(&f, 7);
  ASSERT_RC(UVS_READY, look_at(f.s, id).info.state);
  ASSERT_I64(-UVS_MS(2), look_at(f.s, id).info.remaining_ns);
  ASSERT_RC(UVS_ONE_SHOT, look_at(f.s, id).info.kind);
  fakepool_release();
  fixture_turn(&f);
  ASSERT_RC(UVS_RUNNING, log_nth(&f, EV_USER, 's', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'n', 0)->status);
  ASSERT_RC(0, log_nth(&f, EV_USER, 'c', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'd', 0)->status);
  ASSERT_RC(1, log_nth(&f, EV_USER, 'C', 0)->status);
  ASSERT_RC(UVS_ENDED, log_nth(&f, EV_USER, 'e', 0)->status);
  ASSERT_RC(UV_ENOENT, look_at(f.s, id).rc); /* over */
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static void failures_in_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)status;
  log_add(p->f, EV_USER, p->tag, id, (int)look_at(s, id).info.failures);
}

/* S27. Found by the model: only a task with a name, which has a cold record, showed its failure. */
TEST info_shows_the_failure_of_every_kind_of_one_shot(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  for (int i = 0; i < 4; i++) {
    uvs_task_t t = fixture_once(&f, 'a' + i, 0);

    t.done = failures_in_done;
    t.name = i % 2 == 0 ? NULL : "named";
    probe_of(&t)->ret = i < 2 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  fixture_turn(&f);
  for (int i = 0; i < 4; i++) {
    ASSERT_U64(1, log_count(&f, EV_USER, 'a' + i));
    ASSERT_RC(i < 2, log_nth(&f, EV_USER, 'a' + i, 0)->status);
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S10 */
TEST info_of_wall_clock_and_never_tasks_uses_their_own_clock(void) {
  struct fixture f;
  struct look l;
  uvs_id_t wall, never;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t w = fixture_once(&f, 'w', VCLOCK_WALL_NS + UVS_SEC(9));
  uvs_task_t n = fixture_delay(&f, 'n', UVS_NEVER, UVS_MS(1));
  w.from = UVS_FROM_WALL;
  ASSERT_RC(0, uvs_submit(f.s, &w, &wall));
  ASSERT_RC(0, uvs_submit(f.s, &n, &never));
  fixture_turn(&f);
  l = look_at(f.s, wall);
  ASSERT_RC(UVS_FROM_WALL, l.info.from);
  ASSERT_I64(VCLOCK_WALL_NS + UVS_SEC(9), l.info.due_ns);
  ASSERT_I64(UVS_SEC(9), l.info.remaining_ns);
  vclock_step_wall(&f.clock, -UVS_SEC(1));
  ASSERT_I64(UVS_SEC(10), look_at(f.s, wall).info.remaining_ns);
  l = look_at(f.s, never);
  ASSERT_RC(UVS_FIXED_DELAY, l.info.kind);
  ASSERT_I64(UVS_NEVER, l.info.due_ns);
  ASSERT_I64(UVS_NEVER, l.info.remaining_ns);
  ASSERT_STR_EQ("", l.info.name);
  ASSERT_RC(0, uvs_reschedule(f.s, never, UVS_MS(4)));
  ASSERT_I64(UVS_MS(4), look_at(f.s, never).info.remaining_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S28 L18 L19 */
TEST info_of_a_stale_or_zero_id_fails_and_writes_nothing(void) {
  struct fixture f;
  uvs_info_t info, before;
  uvs_id_t old, id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  ASSERT_RC(0, uvs_submit(f.s, &t, &old));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, old, 0));
  fixture_turn(&f);
  ASSERT_RC(0, uvs_submit(f.s, &t, &id)); /* most likely in the same slot */
  memset(&info, 0x5a, sizeof info);
  info.size = sizeof info;
  before = info;
  uint64_t random = test_seed;
  ASSERT_RC(UV_ENOENT, uvs_info(f.s, old, &info));
  ASSERT_RC(UV_ENOENT, uvs_info(f.s, 0, &info));
  ASSERT_RC(UV_ENOENT, uvs_info(f.s, UINT64_MAX, &info));
  for (int i = 0; i < 1000; i++) {
    uvs_id_t any = test_random(&random);
    if (any != id)
      ASSERT_EQ(UV_ENOENT, uvs_info(f.s, any, &info));
  }
  ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, NULL));
  ASSERT_EQ(0, memcmp(&info, &before, sizeof info));
  info.size = 0;
  ASSERT_RC(UV_EINVAL, uvs_info(f.s, id, &info));
  ASSERT_RC(UV_EINVAL, uvs_info(NULL, id, &before));
  uvs_counts_t c;
  memset(&c, 0, sizeof c);
  ASSERT_RC(UV_EINVAL, uvs_counts(f.s, &c));
  ASSERT_RC(UV_EINVAL, uvs_counts(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_counts(NULL, &c));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* --------------------------------------------------------------- each and dump --- */

static int stop_at_second(uvs_t *s, const uvs_info_t *info, void *arg) {
  int *n = arg;

  (void)s;
  (void)info;
  return ++*n == 2 ? -77 : 0;
}

static int act_in_each(uvs_t *s, const uvs_info_t *info, void *arg) {
  struct fixture *f = arg;
  struct probe *p = info->arg;
  uvs_task_t t = fixture_once(f, 'n', UVS_MS(1));

  log_add(f, EV_USER, p->tag, info->id, uvs_each(s, act_in_each, arg));
  uvs_submit(s, &t, NULL);
  log_add(f, EV_USER, 'c', info->id, uvs_cancel(s, info->id, 0));
  return 0;
}

/* S27 D16 */
TEST each_stops_when_told_and_its_callback_may_call_anything_but_each(void) {
  struct fixture f;
  int n = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_each(f.s, stop_at_second, &n)); /* of none */
  ASSERT_RC(0, n);
  for (int i = 0; i < 3; i++) {
    uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
    ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  }
  ASSERT_RC(-77, uvs_each(f.s, stop_at_second, &n)); /* also what is still on its way */
  ASSERT_RC(2, n);
  ASSERT_RC(UV_EINVAL, uvs_each(f.s, NULL, NULL));
  ASSERT_RC(0, uvs_each(f.s, act_in_each, &f));
  ASSERT_U64(0, log_count(&f, EV_DONE, 0)); /* never from inside a call */
  ASSERT(log_count(&f, EV_USER, 'a') == 3);
  for (unsigned i = 0; i < 3; i++) {
    ASSERT_RC(UV_EBUSY, log_nth(&f, EV_USER, 'a', i)->status);
    ASSERT_RC(UVS_CANCELLED, log_nth(&f, EV_USER, 'c', i)->status);
  }
  fixture_advance_ms(&f, 10);
  ASSERT_U64(3, log_count(&f, EV_DONE, 'a'));
  ASSERT_U64(0, log_count(&f, EV_WORK, 'a'));
  ASSERT_U64(log_count(&f, EV_WORK, 'n'), counts_of(f.s).completed);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int ask_off_loop(struct probe *p, uvs_run_t *run) {
  log_add(p->f, EV_USER, 'e', run->id, uvs_each(run->scheduler, each_logs_state, p->f));
  log_add(p->f, EV_USER, 'd', run->id, uvs_dump(run->scheduler, stderr));
  log_add(p->f, EV_USER, 'n', run->id, uvs_next_due(run->scheduler, &(int64_t){0}));
  return 0;
}

/* L3 */
TEST each_and_dump_are_refused_on_other_threads(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t t = fixture_once(&f, 'a', 0);
  probe_of(&t)->act = ask_off_loop;
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  fixture_turn(&f);
  ASSERT_STR_EQ("edn", log_string(&f, EV_USER));
  for (unsigned i = 0; i < 3; i++)
    ASSERT_RC(UV_EPERM, log_nth(&f, EV_USER, 0, i)->status);
  ASSERT_RC(UV_EINVAL, uvs_dump(f.s, NULL));
  ASSERT_RC(UV_EINVAL, uvs_dump(NULL, stderr));
  ASSERT_RC(UV_EINVAL, uvs_each(NULL, each_logs_state, &f));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* `text` follows this line in the dump. */
static bool in_order(const char *dump, const char *const *texts, int n) {
  for (int i = 0; i < n; i++) {
    dump = strstr(dump, texts[i]);
    if (dump == NULL) {
      fprintf(stderr, "not found in its place: %s\n", texts[i]);
      return false;
    }
  }
  return true;
}

/* D17 S22 */
TEST the_dump_shows_state_counters_and_tasks_by_due_time(void) {
  static const char *const expected[4] = {
      ": open, concurrency 2\n",
      ("submitted 6 = completed 1 + failed 0 + cancelled 1 + timed out 0 + dropped 0 + waiting 3 + "
       "ready 0 + running 1\n"),
      "runs 2, missed 0, rejected 1, runners 0 (peak 1)\n",
      "running  once  ",
  };
  static const char *const lines[] = {"pending one", "nearest", "farther", "never"};
  struct fixture f;
  char *text = NULL;
  size_t size = 0;
  uvs_id_t gone;
  FILE *out;

  fixture_init(&f);
  f.options.concurrency = 2;
  f.options.max_pending = 5;
  CHECK_CALL(fixture_open(&f));
  uvs_task_t specs[] = {
      fixture_once(&f, 'n', UVS_NEVER),       fixture_rate(&f, 'f', UVS_SEC(20), UVS_MS(10)),
      fixture_delay(&f, 'd', UVS_SEC(10), 5), fixture_once(&f, 'p', 0),
      fixture_once(&f, 'x', UVS_SEC(15)),     fixture_once(&f, 'o', 0),
  };
  specs[0].name = "never";
  specs[1].name = "farther";
  specs[2].name = "nearest";
  specs[3].name = "pending one";
  specs[4].name = "gone";
  probe_of(&specs[3])->ret = UVS_PENDING;
  for (int i = 0; i < 4; i++)
    ASSERT_RC(0, uvs_submit(f.s, &specs[i], NULL));
  ASSERT_RC(0, uvs_submit(f.s, &specs[4], &gone));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f.s, &specs[5], NULL));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f.s, gone, 0));
  ASSERT_RC(0, uvs_submit(f.s, &specs[5], NULL));
  fixture_turn(&f);

  out = open_memstream(&text, &size);
  ASSERT(out != NULL);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(in_order(text, expected, 4));
  ASSERT(in_order(text, lines, 4));
  ASSERT(strstr(text, "gone") == NULL);
  ASSERT(strstr(text, "waiting  rate   ") != NULL);
  ASSERT(strstr(text, "waiting  delay     +10.000 s  runs 0") != NULL);
  ASSERT(strstr(text, "waiting  once          never  runs 0") != NULL);
  free(text);

  ASSERT_RC(0, uvs_shutdown(f.s));
  fixture_turn(&f);
  out = open_memstream(&text, &size);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(strstr(text, ": terminating, concurrency 2\n") != NULL);
  ASSERT(strstr(text, "farther") == NULL); /* periodic */
  free(text);

  ASSERT_RC(0, uvs_finish(f.s, log_nth(&f, EV_WORK, 'p', 0)->id, 0));
  ASSERT_RC(0, uvs_set_after_shutdown(f.s, UVS_DELAYED_TASKS, 0));
  fixture_turn(&f);
  out = open_memstream(&text, &size);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(strstr(text, ": terminated, concurrency 2\n") != NULL);
  int newlines = 0;
  for (const char *c = text; *c != 0; c++)
    newlines += *c == '\n';
  ASSERT_RC(3, newlines); /* no task is left */
  free(text);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* D17 */
TEST the_dump_is_sorted_by_due_time_and_not_by_id(void) {
  for (int way = 0; way < 2; way++) { /* submitted in the order of due time, and against it */
    static const char *const lines[] = {"first", "second", "third"};
    struct fixture f;
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    fixture_init(&f);
    CHECK_CALL(fixture_open(&f));
    for (int i = 0; i < 3; i++) {
      int k = way == 0 ? i : 2 - i;
      uvs_task_t t = fixture_once(&f, 'a' + k, UVS_SEC(k + 1));
      t.name = lines[k];
      ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
    }
    fixture_turn(&f);
    out = open_memstream(&text, &size);
    ASSERT(out != NULL);
    ASSERT_RC(0, uvs_dump(f.s, out));
    fclose(out);
    ASSERT(in_order(text, lines, 3));
    free(text);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* D17 */
TEST the_dump_marks_a_run_that_was_cancelled_and_an_overdue_task(void) {
  struct fixture f;
  char *text = NULL;
  size_t size = 0;
  uvs_id_t id;
  FILE *out;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_task_t p = fixture_once(&f, 'p', 0);
  uvs_task_t late = fixture_once(&f, 'l', UVS_SEC(1));
  probe_of(&p)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(f.s, &p, &id));
  ASSERT_RC(0, uvs_submit(f.s, &late, NULL));
  fixture_turn(&f);
  ASSERT_RC(UVS_CANCELLED_WHILE_RUNNING, uvs_cancel(f.s, id, 0));
  vclock_advance_ns(&f.clock, UVS_SEC(3));
  out = open_memstream(&text, &size);
  ASSERT_RC(0, uvs_dump(f.s, out));
  fclose(out);
  ASSERT(strstr(text, "running  once       -3.000 s  runs 1  missed 0  cancelled\n") != NULL);
  ASSERT(strstr(text, "waiting  once       -2.000 s  runs 0  missed 0\n") != NULL);
  free(text);
  ASSERT_RC(0, uvs_finish(f.s, id, 0));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------------------------- the rest --- */

/* F18 */
TEST states_and_errors_have_names(void) {
  static const int ours[] = {UVS_EDEADLK,  UV_E2BIG, UV_EAGAIN,    UV_EALREADY, UV_EBUSY,
                             UV_ECANCELED, UV_EINTR, UV_EINVAL,    UV_ENOENT,   UV_ENOMEM,
                             UV_ENOTSUP,   UV_EPERM, UV_ESHUTDOWN, UV_ETIMEDOUT};

  ASSERT_STR_EQ("waiting", uvs_state_name(UVS_WAITING));
  ASSERT_STR_EQ("ready", uvs_state_name(UVS_READY));
  ASSERT_STR_EQ("running", uvs_state_name(UVS_RUNNING));
  ASSERT_STR_EQ("ended", uvs_state_name(UVS_ENDED));
  ASSERT_STR_EQ("?", uvs_state_name(0));
  ASSERT_STR_EQ("?", uvs_state_name(-1));
  ASSERT_STR_EQ("?", uvs_state_name(UVS_ENDED + 1));
  ASSERT_STR_EQ("completed", uvs_outcome_name(0));
  ASSERT_STR_EQ("failed", uvs_outcome_name(UV_EIO));
  ASSERT_STR_EQ("cancelled", uvs_outcome_name(UV_ECANCELED));
  ASSERT_STR_EQ("timed out", uvs_outcome_name(UV_ETIMEDOUT));
  ASSERT_STR_EQ("success", uvs_strerror(0));
  /* Every code that a header names has a text of ours; all others have libuv's. */
  for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++) {
    if (ours[i] != UVS_EDEADLK) /* libuv does not know it, and allocates a text */
      ASSERT(strcmp(uv_strerror(ours[i]), uvs_strerror(ours[i])) != 0);
    for (size_t j = 0; j < i; j++)
      ASSERT(strcmp(uvs_strerror(ours[j]), uvs_strerror(ours[i])) != 0);
  }
  ASSERT_STR_EQ(uv_strerror(UV_EPIPE), uvs_strerror(UV_EPIPE));
  ASSERT(strstr(uvs_strerror(UV_ESHUTDOWN), "shut down") != NULL);
  ASSERT(strstr(uvs_strerror(UV_ENOENT), "no such task") != NULL);
  PASS();
}

/* L19 */
TEST the_library_reports_its_version(void) {
  char text[32];

  ASSERT_U64(UVS_VERSION_HEX, uvs_version());
  ASSERT_STR_EQ(UVS_VERSION_STRING, uvs_version_string());
  snprintf(text, sizeof text, "%d.%d.%d", UVS_VERSION_MAJOR, UVS_VERSION_MINOR, UVS_VERSION_PATCH);
  ASSERT_STR_EQ(text, uvs_version_string());
  PASS();
}

/* S36 */
TEST loop_data_and_clock_can_be_read_back(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT(uvs_loop(f.s) == &f.loop);
  ASSERT(uvs_data(f.s) == &f);
  ASSERT_I64(VCLOCK_START_NS, uvs_now(f.s));
  vclock_advance_ns(&f.clock, 7);
  ASSERT_I64(VCLOCK_START_NS + 7, uvs_now(f.s));
  ASSERT(uvs_loop(NULL) == NULL);
  ASSERT(uvs_data(NULL) == NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

static int count_ids(uvs_t *s, const uvs_info_t *info, void *arg) {
  uint64_t *seen = arg;

  (void)s;
  seen[0]++;
  seen[1] += info->id;
  return 0;
}

/* S27 */
TEST each_in_steps_visits_what_each_visits(void) {
  uint64_t all[2] = {0}, steps[2] = {0}, cursor = 0;
  struct fixture f;
  int n = 0;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (int i = 0; i < 150; i++)
    ASSERT_RC(0, uvs_schedule(f.s, UVS_SEC(i), work_nothing, NULL, NULL));
  ASSERT_RC(0, uvs_each(f.s, count_ids, all));
  ASSERT_U64(150, all[0]);
  do {
    uint64_t before = steps[0];

    ASSERT_RC(0, uvs_each_step(f.s, &cursor, 7, count_ids, steps));
    ASSERT(steps[0] - before <= 7);
    n++;
  } while (cursor != 0);
  ASSERT(n >= 150 / 7);
  ASSERT_U64(all[0], steps[0]);
  ASSERT_U64(all[1], steps[1]);
  n = 0;
  ASSERT_RC(-77, uvs_each_step(f.s, &cursor, UINT32_MAX, stop_at_second, &n)); /* goes on behind */
  ASSERT(cursor != 0);
  steps[0] = 0;
  ASSERT_RC(0, uvs_each_step(f.s, &cursor, UINT32_MAX, count_ids, steps));
  ASSERT(steps[0] < 150 && steps[0] > 0);
  ASSERT_U64(0, cursor);
  cursor = UINT64_MAX; /* past the last: nothing, and the next step begins anew */
  steps[0] = 0;
  ASSERT_RC(0, uvs_each_step(f.s, &cursor, 1, count_ids, steps));
  ASSERT_U64(0, steps[0]);
  ASSERT_U64(0, cursor);
  ASSERT_RC(UV_EINVAL, uvs_each_step(f.s, NULL, 1, count_ids, steps));
  ASSERT_RC(UV_EINVAL, uvs_each_step(f.s, &cursor, 0, count_ids, steps));
  ASSERT_RC(UV_EINVAL, uvs_each_step(f.s, &cursor, 1, NULL, steps));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S27 */
TEST info_shows_the_lane_and_whether_the_task_is_paused(void) {
  uvs_lane_options_t o;
  uvs_lane_t lane;
  struct fixture f;
  uvs_id_t id;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  uvs_lane_options_init(&o);
  ASSERT_RC(0, uvs_lane_open(f.s, &o, &lane));
  uvs_task_t t = fixture_once(&f, 'a', UVS_MS(5));
  t.lane = lane;
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  ASSERT_U64(lane, look_at(f.s, id).info.lane);
  ASSERT_RC(0, look_at(f.s, id).info.paused);
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, id));
  ASSERT_RC(1, look_at(f.s, id).info.paused);
  ASSERT_RC(0, uvs_resume(f.s, id, 0));
  ASSERT_RC(0, look_at(f.s, id).info.paused);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(asking) {
  RUN_TEST(info_shows_every_field_of_a_waiting_task);
  RUN_TEST(info_follows_a_task_through_its_states);
  RUN_TEST(info_shows_the_failure_of_every_kind_of_one_shot);
  RUN_TEST(info_of_wall_clock_and_never_tasks_uses_their_own_clock);
  RUN_TEST(info_of_a_stale_or_zero_id_fails_and_writes_nothing);
  RUN_TEST(each_stops_when_told_and_its_callback_may_call_anything_but_each);
  RUN_TEST(each_in_steps_visits_what_each_visits);
  RUN_TEST(info_shows_the_lane_and_whether_the_task_is_paused);
  RUN_TEST(each_and_dump_are_refused_on_other_threads);
  RUN_TEST(the_dump_shows_state_counters_and_tasks_by_due_time);
  RUN_TEST(the_dump_is_sorted_by_due_time_and_not_by_id);
  RUN_TEST(the_dump_marks_a_run_that_was_cancelled_and_an_overdue_task);
  RUN_TEST(states_and_errors_have_names);
  RUN_TEST(the_library_reports_its_version);
  RUN_TEST(loop_data_and_clock_can_be_read_back);
}

/* Blocking bodies need enough threads in libuv's pool, whatever the environment says. */
TEST_MAIN(uv_os_setenv("UV_THREADPOOL_SIZE", "5"); RUN_SUITE(asking));
