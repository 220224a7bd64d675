/* SPDX-License-Identifier: MIT */
#include "life.h"

#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PATIENCE_NS UVS_SEC(100) /* for waits that take a few ms unless something is lost */
#define GROUP 12

static void note(struct life *l, const char *what, int line, int code) {
  if (l->wrong != NULL)
    return;
  l->wrong = what;
  l->wrong_line = line;
  l->wrong_code = code;
}

void life_say(const struct life *l) {
  printf("life.c:%d: %s: %d\n", l->wrong_line, l->wrong, l->wrong_code);
}

#define MUST(l, condition) \
  do { \
    if (!(condition)) \
      note(l, #condition, __LINE__, 0); \
  } while (0)

/* A call may fail only if something was refused during it, and then with that code. */
static int judge(struct life *l, long before, int rc, const char *call, int line) {
  bool excused = refuse_count() != before && (rc == UV_ENOMEM || rc == l->code);

  if (rc < 0 && !excused && !(l->lost && rc == UV_ESHUTDOWN))
    note(l, call, line, rc);
  return rc;
}

static long before_call;
#define TRY(l, call) (before_call = refuse_count(), judge(l, before_call, call, #call, __LINE__))

/* ---------------------------------------------------------------- callbacks --- */

static int body(uvs_run_t *run) {
  struct account *a = run->arg;

  return atomic_fetch_add(&a->runs, 1) < a->fails ? UV_EIO : 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add(&((struct account *)arg)->dones, 1);
}

static void on_cleanup(uvs_t *s, void *arg) {
  (void)s;
  atomic_fetch_add(&((struct life *)arg)->cleaned, 1);
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  atomic_fetch_add(&((struct life *)arg)->quiet, 1);
}

static void on_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  atomic_fetch_add(&((struct life *)arg)->out, 1);
}

static void on_closed(uvs_t *s) {
  atomic_fetch_add(&((struct life *)uvs_data(s))->closed, 1);
}

static int group_body(uvs_run_t *run) {
  atomic_fetch_add(&((struct life *)run->arg)->group_runs, 1);
  return 0;
}

static int each_task(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  (void)arg;
  return 0;
}

static int each_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  (void)arg;
  return 0;
}

static int write_text(const char *data, size_t size, void *arg) {
  (void)data;
  (void)size;
  (void)arg;
  return 0;
}

/* -------------------------------------------------------------------- time --- */

static int dones(const struct life *l) {
  int n = 0;

  for (unsigned i = 0; i < l->tasks; i++)
    n += atomic_load(&l->account[i].dones);
  return n;
}

static int accepted(const struct life *l) {
  int n = 0;

  for (unsigned i = 0; i < l->tasks; i++)
    n += l->account[i].accepted;
  return n;
}

/* The clock must not run ahead of the bodies, or they would time out before they start. */
static bool is_idle(struct life *l) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  return uvs_counts(l->s, &c) == 0 && c.ready == 0 && c.running == 0;
}

/* One loop pass. If the library forgets to wake the loop, nothing else does. */
static void turn(struct life *l) {
  struct pollfd p = {uv_backend_fd(&l->loop), POLLIN, 0};
  int timeout_ms;
  int64_t due_ns;

  uv_run(&l->loop, UV_RUN_NOWAIT);
  if (!l->real_clock && l->closed == 0 && is_idle(l) && uvs_next_due(l->s, &due_ns) == 0 &&
      due_ns != UVS_NEVER && due_ns > vclock_now(&l->clock)) {
    vclock_advance_to(&l->clock, due_ns);
    uvs_clock_changed(l->s);
    return;
  }
  timeout_ms = uv_backend_timeout(&l->loop);
  poll(&p, 1, timeout_ms < 0 || timeout_ms > 2 ? 2 : timeout_ms);
}

static bool turn_until(struct life *l, bool (*over)(struct life *l)) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (!over(l)) {
    if (uv_hrtime() > end_ns)
      return false;
    turn(l);
  }
  return true;
}

static bool all_done(struct life *l) {
  return dones(l) == accepted(l);
}

static bool values_out(struct life *l) {
  return l->out == l->values;
}

static bool is_closed(struct life *l) {
  return l->closed != 0;
}

static bool back_from_elsewhere(struct life *l) {
  return l->elsewhere != 0;
}

/* --------------------------------------------------------------------- open --- */

static int open_life(struct life *l) {
  uvs_options_t o;

  uvs_options_init(&o);
  o.concurrency = l->alone ? 0 : 2;
  o.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  o.allocator = refuse_allocator(&l->under);
  o.data = l;
  o.seed = 7;
  if (l->own_threads) {
    o.concurrency = -1;
    o.threads = 2;
    o.thread_name = "life";
  }
  if (l->precise)
    o.precise_ns = UVS_US(50);
  if (!l->real_clock)
    o.clock = vclock_option(&l->clock);
  return TRY(l, uvs_open(&l->loop, &o, &l->s));
}

/* -------------------------------------------------------------------- steps --- */

static uvs_task_t spec(int kind, int64_t delay_ns) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = kind;
  t.first_ns = delay_ns;
  t.work = body;
  t.done = on_done;
  if (kind != UVS_ONE_SHOT) {
    t.period_ns = UVS_MS(1);
    t.max_runs = 3;
  }
  return t;
}

static struct account *account(struct life *l) {
  if (l->tasks == LIFE_TASKS) {
    fprintf(stderr, "life: more than %d tasks\n", LIFE_TASKS);
    abort();
  }
  return &l->account[l->tasks++];
}

static uvs_id_t submit(struct life *l, uvs_task_t t) {
  struct account *a = account(l);

  t.arg = a;
  a->accepted = TRY(l, uvs_submit(l->s, &t, &a->id)) == 0;
  return a->id;
}

static void open_lane(struct life *l, int which, const uvs_executor_t *e, int threads) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.on_quiet = on_quiet;
  o.arg = l;
  o.executor = e;
  o.threads = threads;
  o.thread_name = threads > 0 ? "life" : NULL;
  if (TRY(l, uvs_lane_open(l->s, &o, &l->lane[which])) == 0)
    l->lanes++;
}

static void step_lanes(struct life *l) {
  uvs_threads_options_t o;

  uvs_threads_options_init(&o);
  o.threads = 1;
  o.allocator = refuse_allocator(&l->under);
  open_lane(l, 0, NULL, 0);
  open_lane(l, 1, uvs_inline_executor(), 0);
  if (l->alone)
    return;
  open_lane(l, 2, NULL, 1);
  if (TRY(l, uvs_threads_open(&o, &l->pool)) < 0)
    return;
  open_lane(l, 3, uvs_threads_executor(l->pool), 0);
}

static void step_plain(struct life *l) {
  for (int i = 0; i < 70; i++)
    submit(l, spec(UVS_ONE_SHOT, UVS_US(50 * (i % 40))));
}

static void step_kinds(struct life *l) {
  uvs_task_t t = spec(UVS_FIXED_RATE, 0);

  t.jitter_ns = UVS_US(100);
  submit(l, t);
  submit(l, spec(UVS_FIXED_DELAY, UVS_US(300)));
  t = spec(UVS_ONE_SHOT, 0);
  t.from = UVS_FROM_WALL;
  t.first_ns = 1; /* long past: now */
  submit(l, t);
  t = spec(UVS_ONE_SHOT, UVS_MS(1));
  t.after = t.work;
  t.work = NULL;
  submit(l, t);
  t = spec(UVS_ONE_SHOT, UVS_MS(1));
  t.name = "named";
  t.limit.total_ns = UVS_SEC(60);
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = UVS_US(10);
  l->account[l->tasks].fails = 2;
  submit(l, t);
  t = spec(UVS_ONE_SHOT, UVS_US(10));
  t.flags = UVS_UNREF;
  t.priority = UVS_PRIORITY_HIGH;
  submit(l, t);
  t.priority = UVS_PRIORITY_LOW;
  t.keep_outcome = 1;
  uvs_id_t kept = submit(l, t);
  if (kept != 0)
    TRY(l, uvs_forget(l->s, kept));
}

static void step_in_lanes(struct life *l) {
  for (int i = 0; i < 5 * LIFE_LANES; i++) {
    uvs_task_t t = spec(i % 5 == 0 ? UVS_FIXED_DELAY : UVS_ONE_SHOT, UVS_US(100 * (i % 7)));

    if (l->lane[i % LIFE_LANES] == 0)
      continue;
    t.lane = l->lane[i % LIFE_LANES];
    submit(l, t);
  }
}

static void submit_many(struct life *l, int n) {
  static uvs_task_t t[100];
  static uvs_id_t ids[100];
  struct account *first = &l->account[l->tasks];
  int rc;

  for (int i = 0; i < n; i++) {
    t[i] = spec(UVS_ONE_SHOT, UVS_US(i % 9));
    if (i % 3 == 0)
      t[i].name = "many";
    t[i].arg = account(l);
  }
  rc = TRY(l, uvs_submit_many(l->s, t, (size_t)n, ids));
  for (int i = 0; i < n; i++) {
    first[i].accepted = rc == 0;
    first[i].id = rc == 0 ? ids[i] : 0;
  }
}

static void step_many(struct life *l) {
  submit_many(l, 100);
}

static void producer(void *arg) {
  struct life *l = arg;

  for (int i = 0; i < 40; i++)
    submit(l, spec(i % 8 == 0 ? UVS_FIXED_RATE : UVS_ONE_SHOT, UVS_US(20 * i)));
  submit_many(l, 70);
  atomic_store(&l->elsewhere, 1);
}

/* The loop does not run meanwhile, so only one thread uses the accounts. */
static void step_elsewhere(struct life *l) {
  uv_thread_t thread;

  if (l->alone)
    return;
  l->elsewhere = 0;
  MUST(l, uv_thread_create(&thread, producer, l) == 0);
  uv_thread_join(&thread);
}

static void step_cleanups(struct life *l) {
  for (unsigned i = 0; i < l->tasks; i += 4)
    if (l->account[i].accepted &&
        TRY(l, uvs_add_cleanup(l->s, l->account[i].id, on_cleanup, l,
                               i % 8 == 0 ? UVS_CLEANUP_WHEN_SETTLED : 0)) == 0)
      atomic_fetch_add(&l->cleanups, 1);
  for (int i = 0; i < LIFE_LANES; i++)
    if (l->lane[i] != 0 && TRY(l, uvs_lane_add_cleanup(l->s, l->lane[i], on_cleanup, l, 0)) == 0)
      atomic_fetch_add(&l->cleanups, 1);
}

static void step_queue(struct life *l) {
  uvs_queue_options_t o;
  static uvs_entry_t e[70];

  uvs_queue_options_init(&o);
  o.on_left = on_value;
  o.arg = l;
  if (TRY(l, uvs_queue_open(l->s, &o, &l->q)) < 0)
    return;
  for (int i = 0; i < 70; i++)
    if (TRY(l, uvs_queue_put(l->q, l, UVS_US(30 * (i % 30)), NULL)) == 0)
      l->values++;
  for (int i = 0; i < 70; i++)
    e[i] = (uvs_entry_t){.value = l, .due_ns = uvs_now(l->s) + UVS_US(20 * i)};
  if (TRY(l, uvs_queue_put_many(l->q, e, 70)) == 0)
    l->values += 70;
  TRY(l, uvs_queue_consume(l->q, on_value, l));
}

static void step_config(struct life *l) {
  if (l->alone)
    return;
  TRY(l, uvs_set_concurrency(l->s, 5));
  if (l->pool != NULL)
    TRY(l, uvs_threads_resize(l->pool, 3));
}

static void step_turns(struct life *l) {
  for (int i = 0; i < 5; i++)
    turn(l);
}

static void step_act(struct life *l) {
  for (unsigned i = 0; i < l->tasks; i++) {
    int rc;

    if (!l->account[i].accepted || i % 5 > 1)
      continue;
    rc = i % 5 == 0 ? uvs_cancel(l->s, l->account[i].id, 0)
                    : uvs_reschedule(l->s, l->account[i].id, UVS_US(10 * i));
    MUST(l, rc >= 0 || rc == UV_ENOENT || rc == UV_EBUSY || l->lost);
  }
}

static void step_report(struct life *l) {
  FILE *out = fopen("/dev/null", "w");

  MUST(l, out != NULL);
  if (out == NULL)
    return;
  TRY(l, uvs_dump(l->s, out));
  TRY(l, uvs_each(l->s, each_task, NULL));
  TRY(l, uvs_stats_write(l->s, UVS_FORMAT_PROMETHEUS, write_text, NULL));
  if (l->q != NULL) {
    TRY(l, uvs_queue_dump(l->q, out));
    TRY(l, uvs_queue_each(l->q, each_value, NULL));
  }
  fclose(out);
}

static void group(void *arg) {
  struct life *l = arg;
  uvs_task_t t[GROUP];
  uvs_outcome_t ret[GROUP];

  for (int i = 0; i < GROUP; i++) {
    uvs_task_init(&t[i]);
    t[i].work = group_body;
    t[i].arg = l;
  }
  uvs_outcome_init(&ret[0]);
  if (TRY(l, uvs_all(l->s, t, GROUP, UVS_NEVER, ret)) == 0)
    l->in_groups += GROUP;
  TRY(l, uvs_any(l->s, t, GROUP, UVS_NEVER, NULL, NULL));
  atomic_store(&l->elsewhere, 1);
}

static void step_group(struct life *l) {
  uv_thread_t thread;

  if (l->alone || l->lost || l->stuck) /* nothing would end them */
    return;
  l->elsewhere = 0;
  MUST(l, uv_thread_create(&thread, group, l) == 0);
  if (!turn_until(l, back_from_elsewhere)) {
    printf("life: a group never came back\n");
    abort(); /* its thread still uses this memory */
  }
  uv_thread_join(&thread);
  MUST(l, l->group_runs >= l->in_groups);
}

static void step_dispose(struct life *l) {
  for (int i = 0; i < 2; i++)
    if (l->lane[i] != 0) {
      TRY(l, uvs_lane_dispose(l->lane[i], UVS_DISPOSE_TOKEN));
      l->lane[i] = 0;
    }
}

static void settle(struct life *l) {
  if (l->lost)
    return;
  if (!turn_until(l, all_done))
    note(l, "accepted, and never done", __LINE__, accepted(l) - dones(l));
  if (l->q != NULL && l->values > 0 && uvs_queue_size(l->q) > 0 && !turn_until(l, values_out))
    note(l, "put in, and never out", __LINE__, l->values - l->out);
}

static void step_settle(struct life *l) {
  if (!l->stuck)
    settle(l);
}

/* Whatever was refused before: when nothing is refused any more, everything works. */
static void step_calm(struct life *l) {
  refuse_nothing();
  if (l->lost)
    return;
  step_plain(l);
  step_kinds(l);
  open_lane(l, 0, NULL, 0);
  if (!l->alone)
    open_lane(l, 2, NULL, 2);
  step_in_lanes(l);
  submit_many(l, 30);
  for (unsigned i = l->tasks - 30; i < l->tasks; i++)
    MUST(l, l->account[i].accepted);
  settle(l);
}

static const struct {
  void (*run)(struct life *l);
} steps[] = {{step_lanes},  {step_plain},     {step_kinds},    {step_in_lanes},
             {step_many},   {step_elsewhere}, {step_cleanups}, {step_queue},
             {step_config}, {step_turns},     {step_act},      {step_report},
             {step_group},  {step_dispose},   {step_settle},   {step_calm}};
const int life_steps = (int)(sizeof steps / sizeof steps[0]);

/* -------------------------------------------------------------------- close --- */

static void check_accounts(struct life *l) {
  for (unsigned i = 0; i < l->tasks; i++) {
    int expected = l->account[i].accepted;

    if (atomic_load(&l->account[i].dones) != expected)
      note(l, "dones of one task", __LINE__, atomic_load(&l->account[i].dones));
    if (!expected && atomic_load(&l->account[i].runs) != 0)
      note(l, "a task that was refused ran", __LINE__, (int)i);
  }
  MUST(l, l->cleaned == l->cleanups);
  MUST(l, l->quiet == l->lanes);
  MUST(l, l->out == l->values);
}

static void close_life(struct life *l) {
  int rc = TRY(l, uvs_close(l->s, on_closed));

  if (rc < 0) { /* it could not create the handles that it needs: nothing changed */
    refuse_nothing();
    MUST(l, uvs_close(l->s, on_closed) == 0);
  }
  if (!turn_until(l, is_closed)) {
    note(l, "never closed", __LINE__, 0);
    return;
  }
  MUST(l, l->q == NULL || uvs_queue_close(l->q) == 0);
  refuse_nothing();
  MUST(l, l->pool == NULL || uvs_threads_close(l->pool) == 0);
  check_accounts(l);
}

bool life_run(struct life *l) {
  fault_init(&l->fault);
  l->under = fault_option(&l->fault);
  vclock_init(&l->clock);
  MUST(l, uv_loop_init(&l->loop) == 0);
  l->opened = open_life(l) == 0;
  if (l->opened) {
    for (int i = 0; i < life_steps; i++) {
      if (l->before != NULL)
        l->before(l, i);
      steps[i].run(l);
    }
    close_life(l);
  }
  refuse_nothing();
  for (int i = 0; i < 100 && uv_loop_alive(&l->loop); i++)
    uv_run(&l->loop, UV_RUN_NOWAIT);
  if (l->wrong != NULL)
    return false;                  /* memory may still be in use */
  uv_run(&l->loop, UV_RUN_NOWAIT); /* frees the alarm of a scheduler that was not opened */
  MUST(l, uv_loop_close(&l->loop) == 0);
  if (atomic_load(&l->fault.live) != 0)
    note(l, "memory was not given back", __LINE__, (int)atomic_load(&l->fault.live));
  return l->wrong == NULL;
}
