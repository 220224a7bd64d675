/* SPDX-License-Identifier: MIT
 *
 * Every public function with a failing allocation: the first, the second ... until none fails. A
 * call that cannot do its work returns UV_ENOMEM, changes nothing and does not write its results.
 * However often it fails, it holds no more memory than after one failure. The same call, repeated
 * with memory, does its work. Calls that never allocate are proved not to. calls.inc is the table;
 * an exported function that is missing there is a failure.
 *
 * This file covers all calls. test_fault.c covers submissions in depth: every table grows there.
 */
#include <stdlib.h>

#include "uvsched/calendar.h"
#include "uvsched/executor.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"
#include "uvsched/trace.h"

#include "../lib/fixture.h"
#include "../lib/threads.h"

#define ENOUGH 1000 /* no call makes this many allocations */
#define MANY 70     /* more than the first chunk of anything */
#define DUE 2       /* values that can be taken out of the queue */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_uvs__mem_system(size_t size);
void *__wrap_uvs__mem_system(size_t size);

/* Results of calls: a call that fails must not change them. */
struct out {
  int64_t ns;
  uvs_id_t ids[MANY];
  uvs_entry_t entries[MANY];
  uvs_t *s;
  uvs_lane_t lane;
  uvs_threads_t *pool;
  uvs_queue_t *queue;
  uvs_item_t item;
  uvs_calendar_t *calendar;
};

struct world {
  struct fixture f;
  struct out out, unfilled;
  uvs_id_t far, wall_far, kept_over, kept_far, pending, lane_far, lane_pending;
  uvs_lane_t lane;
  uvs_queue_t *q;    /* DUE values that are due, and one that never is (`item`) */
  uvs_queue_t *full; /* the next value needs more memory */
  uvs_item_t item;
  uvs_threads_t *pool;
  uvs_task_t plain, cold, wall, kept, in_lane, many[MANY];
  FILE *sink;
  uvs_run_t *run; /* of the body that makes the call */
  uvs_outcome_t outcome;
  uvs_info_t info;
  uvs_counts_t counts;
  uvs_histogram_t histogram;
  uvs_name_stats_t name_stats;
  uvs_trace_run_t run_of_trace;
  size_t count;
  uint64_t cursor;
  uvs_entry_t entry;
  uvs_waiter_t waiter;
  uvs_calendar_t *calendar;
  uvs_occurrence_t occurrence;
  int64_t ns;
  bool closing;
  _Atomic int cleaned, seen, quiet;
  /* of the call */
  const struct entry *e;
  long n;
  bool all;
  int rc;
  bool hit;
  _Atomic bool over;
};

enum where { ANY, LOOP, OFF, BODY };
enum memory { NONE, WANTS };

struct entry {
  const char *name;
  enum where where;
  enum memory memory;
  int expected;
  int (*call)(struct world *w);
};

/* ------------------------------------------------------------- callbacks --- */

static int nothing(uvs_run_t *run) {
  (void)run;
  return UVS_STOP; /* so that periodic ones end as well */
}

static int each_task(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  (void)info;
  (void)arg;
  return 0;
}

static int each_lane(uvs_t *s, const uvs_lane_info_t *info, void *arg) {
  (void)s;
  (void)info;
  (void)arg;
  return 0;
}

static int each_name(uvs_t *s, const uvs_name_stats_t *stats, void *arg) {
  (void)s;
  (void)stats;
  (void)arg;
  return 0;
}

static int each_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
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

static void posted(uvs_t *s, void *arg) {
  (void)s;
  (void)arg;
}

static void cleanup(uvs_t *s, void *arg) {
  (void)s;
  atomic_fetch_add(&((struct world *)arg)->cleaned, 1);
}

static void see_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  (void)e;
  atomic_fetch_add(&((struct world *)arg)->seen, 1);
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  (void)lane;
  atomic_fetch_add(&((struct world *)arg)->quiet, 1);
}

/* ----------------------------------------- calls that need more than a line --- */

#define S (w->f.s)

static int release(uvs_t *s) {
  uvs_release(s);
  return 0;
}

static int release_queue(uvs_queue_t *q) {
  uvs_queue_release(q);
  return 0;
}

/* On the same loop, with the same allocator. */
static int open_second(struct world *w, int threads, int64_t precise_ns) {
  uvs_options_t o;

  uvs_options_init(&o);
  o.allocator = fault_option(&w->f.fault);
  o.threads = threads;
  o.precise_ns = precise_ns;
  return uvs_open(&w->f.loop, &o, &w->out.s);
}

static int open_trace(uvs_t *s) {
  uvs_trace_options_t o;

  uvs_trace_options_init(&o);
  o.bytes = 64 << 10;
  return uvs_trace_open(s, &o);
}

static int open_trace_again(struct world *w) {
  int rc = uvs_trace_close(S);

  return rc == 0 || rc == UV_ENOENT ? open_trace(S) : rc;
}

static int open_lane_with_threads(struct world *w) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.width = 2;
  o.threads = 2;
  return uvs_lane_open(S, &o, &w->out.lane);
}

static int open_threads(struct world *w, int threads, uvs_threads_t **ret) {
  uvs_threads_options_t o;

  uvs_threads_options_init(&o);
  o.threads = threads;
  o.allocator = fault_option(&w->f.fault);
  return uvs_threads_open(&o, ret);
}

static int close_threads(struct world *w) {
  int rc = uvs_threads_close(w->pool);

  if (rc == 0)
    w->pool = NULL;
  return rc;
}

static int close_queue(struct world *w) {
  int rc = uvs_queue_close(w->q);

  if (rc == 0)
    w->q = NULL;
  return rc;
}

static int close_scheduler(struct world *w) {
  int rc = uvs_close(S, note_closed);

  w->closing = rc == 0;
  return rc;
}

static int parse_calendar(struct world *w, const char *text, const char *zone) {
  return uvs_calendar_parse(text, zone, NULL, &w->out.calendar, NULL);
}

static int release_calendar(uvs_calendar_t *c) {
  uvs_calendar_release(c);
  return 0;
}

#define NAME_OF(line) call_##line
#define AT(line, expression) \
  static int NAME_OF(line)(struct world * w) { \
    (void)w; \
    return (int)(expression); \
  }
#define CALL(name, where, memory, expected, expression) AT(__LINE__, expression)
#include "calls.inc"
#undef CALL

#define POINT_TO(line) NAME_OF(line)
#define CALL(name, where, memory, expected, expression) \
  {#name, where, memory, expected, POINT_TO(__LINE__)},
static const struct entry entries[] = {
#include "calls.inc"
};
#undef CALL
#define ENTRIES (sizeof entries / sizeof entries[0])

/* ---------------------------------------------------------------- the world --- */

static bool refused(void) {
  static struct fault others;
  uvs_allocator_t a = fault_option(&others);
  void *probe = a.alloc(1, a.arg);

  if (probe != NULL)
    a.free(probe, a.arg);
  return probe == NULL;
}

/* The directory of lanes lives as long as the process, so its memory comes from calloc. Calendars
 * belong to no scheduler, so theirs comes from the system. Both fail on the same order. */
void *__wrap_calloc(size_t n, size_t size) {
  return refused() ? NULL : __real_calloc(n, size);
}

void *__wrap_uvs__mem_system(size_t size) {
  return refused() ? NULL : __real_uvs__mem_system(size);
}

static enum greatest_test_res make_specs(struct world *w) {
  uvs_task_t t = fixture_once(&w->f, 'n', UVS_MS(1));

  w->plain = t;
  w->cold = t;
  w->cold.name = "cold";
  w->cold.after = probe_after;
  w->cold.failure_policy = UVS_FAIL_RETRY;
  w->cold.retry.wait_ns = UVS_MS(1);
  w->cold.limit.total_ns = UVS_SEC(1);
  w->wall = t;
  w->wall.from = UVS_FROM_WALL;
  w->wall.first_ns = vclock_wall(&w->f.clock) + UVS_MS(1);
  w->kept = t;
  w->kept.keep_outcome = 1;
  w->in_lane = t;
  w->in_lane.lane = w->lane;
  for (int i = 0; i < MANY; i++) {
    w->many[i] = i % 3 == 0 ? w->cold : w->plain;
    w->many[i].first_ns = 0;
  }
  PASS();
}

static enum greatest_test_res submit_all(struct world *w) {
  uvs_task_t far = fixture_once(&w->f, 'f', UVS_HOUR(1));
  uvs_task_t wall = far, kept = far, pending = fixture_once(&w->f, 'p', 0), lane = far;

  wall.from = UVS_FROM_WALL;
  wall.first_ns = vclock_wall(&w->f.clock) + UVS_HOUR(1);
  kept.keep_outcome = 1;
  lane.lane = w->lane;
  probe_of(&pending)->ret = UVS_PENDING;
  ASSERT_RC(0, uvs_submit(S, &far, &w->far));
  ASSERT_RC(0, uvs_submit(S, &wall, &w->wall_far));
  ASSERT_RC(0, uvs_submit(S, &kept, &w->kept_far));
  ASSERT_RC(0, uvs_submit(S, &lane, &w->lane_far));
  ASSERT_RC(0, uvs_submit(S, &pending, &w->pending));
  pending.lane = w->lane;
  ASSERT_RC(0, uvs_submit(S, &pending, &w->lane_pending));
  kept.first_ns = 0;
  ASSERT_RC(0, uvs_submit(S, &kept, &w->kept_over));
  PASS();
}

static enum greatest_test_res fill_queues(struct world *w) {
  long total;

  ASSERT_RC(0, uvs_queue_open(S, NULL, &w->q));
  ASSERT_RC(0, uvs_queue_open(S, NULL, &w->full));
  for (int i = 0; i < DUE; i++)
    ASSERT_RC(0, uvs_queue_put(w->q, w, 0, NULL));
  ASSERT_RC(0, uvs_queue_put(w->q, &w->item, UVS_NEVER, &w->item));
  /* The capacity is found by filling another queue until a put allocates. This queue gets one value
   * less. */
  for (int fill = 0; fill < ENOUGH; fill++) {
    total = atomic_load(&w->f.fault.total);
    ASSERT_RC(0, uvs_queue_put(w->full, w, UVS_NEVER, NULL));
    if (fill > 0 && atomic_load(&w->f.fault.total) != total) {
      ASSERT_RC(fill + 1, uvs_queue_clear(w->full, NULL, NULL));
      ASSERT_RC(0, uvs_queue_close(w->full));
      ASSERT_RC(0, uvs_queue_open(S, NULL, &w->full));
      for (int i = 0; i < fill; i++)
        ASSERT_RC(0, uvs_queue_put(w->full, w, UVS_NEVER, NULL));
      PASS();
    }
  }
  FAILm("a queue that never wants more room");
}

/* Submits so many tasks that the next one needs more memory. */
static enum greatest_test_res fill_tasks(struct world *w) {
  uvs_counts_t c = counts_of(S);
  uint64_t room = c.slots;

  for (uint64_t n = c.waiting + c.running + 1; n < room; n++) { /* kept_over has a slot as well */
    uvs_task_t t = fixture_once(&w->f, 'f', UVS_HOUR(2));

    w->f.probe_count--; /* they share one, which is never used */
    t.name = "cold";
    ASSERT_RC(0, uvs_submit(S, &t, NULL));
  }
  ASSERT_U64(room, counts_of(S).slots);
  PASS();
}

static enum greatest_test_res world_open(struct world *w) {
  uvs_lane_options_t o;

  memset(w, 0, sizeof *w);
  fixture_init(&w->f);
  w->f.options.concurrency = 2;
  CHECK_CALL(fixture_open_turned(&w->f));
  w->sink = tmpfile();
  ASSERT(w->sink != NULL);
  uvs_lane_options_init(&o);
  o.width = 0;
  o.on_quiet = on_quiet;
  o.arg = w;
  ASSERT_RC(0, uvs_lane_open(S, &o, &w->lane));
  ASSERT_RC(0, open_threads(w, 1, &w->pool));
  ASSERT_RC(0, open_trace(S));
  CHECK_CALL(submit_all(w));
  CHECK_CALL(fill_queues(w));
  fixture_turn(&w->f);
  ASSERT_RC(UVS_RUNNING, state_of(S, w->pending));
  ASSERT_RC(UVS_RUNNING, state_of(S, w->lane_pending));
  CHECK_CALL(fill_tasks(w));
  CHECK_CALL(make_specs(w));
  ASSERT_RC(0, uvs_calendar_parse("0 9 * * *", "UTC", NULL, &w->calendar, NULL));
  uvs_outcome_init(&w->outcome);
  uvs_info_init(&w->info);
  uvs_counts_init(&w->counts);
  uvs_histogram_init(&w->histogram);
  uvs_name_stats_init(&w->name_stats);
  uvs_trace_run_init(&w->run_of_trace);
  uvs_waiter_init(&w->waiter);
  memset(&w->unfilled, 0, sizeof w->unfilled);
  for (int i = 0; i < MANY; i++)
    w->unfilled.entries[i].value = w;
  w->out = w->unfilled;
  PASS();
}

static enum greatest_test_res world_close(struct world *w) {
  bool second_closed = w->out.s == NULL;

  if (w->out.s != NULL)
    ASSERT_RC(0, uvs_close(w->out.s, NULL));
  if (w->out.lane != 0)
    ASSERT_RC(0, uvs_lane_dispose(w->out.lane, 0));
  if (w->out.queue != NULL)
    ASSERT_RC(0, uvs_queue_close(w->out.queue));
  if (w->out.pool != NULL)
    ASSERT_RC(0, uvs_threads_close(w->out.pool));
  if (w->pool != NULL)
    ASSERT_RC(0, uvs_threads_close(w->pool));
  uvs_calendar_release(w->out.calendar);
  uvs_calendar_release(w->calendar);
  fixture_advance_ms(&w->f, 5);
  uvs_finish(S, w->pending, 0);
  uvs_finish(S, w->lane_pending, 0);
  uvs_retain(S);
  if (!w->closing)
    ASSERT_RC(0, uvs_close(S, note_closed));
  for (int i = 0; i < 100000 && !w->f.closed; i++) /* a lane's own threads end later */
    fixture_turn(&w->f);
  ASSERTm("it never closed", w->f.closed);
  ASSERT_RC(1, uvs_lane_is_disposed(w->lane));
  ASSERT_RC(1, atomic_load(&w->quiet));
  if (w->q != NULL)
    ASSERT_RC(0, uvs_queue_close(w->q));
  ASSERT_RC(0, uvs_queue_close(w->full));
  uvs_release(S);
  for (int i = 0; i < 100 && !second_closed; i++)
    fixture_turn(&w->f);
  fclose(w->sink);
  S = NULL;
  CHECK_CALL(fixture_close(&w->f)); /* nothing leaked, no handle left */
  PASS();
}

/* ----------------------------------------------------------------- the call --- */

static void perform(struct world *w) {
  if (w->all)
    fault_from(w->n);
  else
    fault_after(w->n);
  w->rc = w->e->call(w);
  w->hit = fault_hit();
  atomic_store(&w->over, true);
}

static int act_perform(struct probe *p, uvs_run_t *run) {
  struct world *w = p->data;

  w->run = run;
  perform(w);
  return 0;
}

static void perform_main(void *arg) {
  perform(arg);
}

/* The loop runs meanwhile: some calls wait for it. */
static enum greatest_test_res perform_elsewhere(struct world *w) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  uv_thread_t thread;

  ASSERT_RC(0, uv_thread_create(&thread, perform_main, w));
  while (!atomic_load(&w->over) && uv_hrtime() < end_ns)
    fixture_turn(&w->f);
  ASSERTm("the call never came back", atomic_load(&w->over));
  ASSERT_RC(0, uv_thread_join(&thread));
  PASS();
}

static enum greatest_test_res perform_in_body(struct world *w) {
  uvs_task_t t = w->kept;
  uvs_id_t id;

  t.arg = fixture_probe(&w->f, 'b');
  t.first_ns = 0;
  probe_of(&t)->act = act_perform;
  probe_of(&t)->data = w;
  ASSERT_RC(0, uvs_submit(S, &t, &id));
  fixture_turn(&w->f);
  ASSERT(atomic_load(&w->over));
  ASSERT_RC(0, uvs_forget(S, id));
  PASS();
}

static enum greatest_test_res perform_at(struct world *w, bool on_loop, long n, bool all) {
  w->n = n;
  w->all = all;
  atomic_store(&w->over, false);
  if (w->e->where == BODY)
    CHECK_CALL(perform_in_body(w));
  else if (on_loop)
    perform(w);
  else
    CHECK_CALL(perform_elsewhere(w));
  PASS();
}

/* The state that a failed call must not change. */
struct snapshot {
  uvs_counts_t counts;
  int sizes[3], concurrency, rejection, threads, survive;
  unsigned logged;
  int callbacks;
};

static struct snapshot look(struct world *w) {
  struct snapshot now;

  memset(&now, 0, sizeof now);
  now.counts = counts_of(S);
  now.counts.slots = 0;   /* new slots may stay for the next call */
  now.counts.wakeups = 0; /* a loop pass is not a change */
  now.sizes[0] = uvs_queue_size(w->q);
  now.sizes[1] = uvs_queue_size(w->full);
  now.concurrency = uvs_concurrency(S);
  now.rejection = uvs_rejection_policy(S);
  now.threads = uvs_threads_size(w->pool);
  now.survive = uvs_after_shutdown(S, UVS_PERIODIC_TASKS);
  now.logged = log_total(&w->f);
  now.callbacks = atomic_load(&w->cleaned) + atomic_load(&w->seen) + atomic_load(&w->quiet);
  return now;
}

static enum greatest_test_res check_failed(struct world *w, const struct snapshot *before) {
  struct snapshot after = look(w);

  ASSERTm("it allocates", w->e->memory == WANTS);
  ASSERT_RC(UV_ENOMEM, w->rc);
  ASSERTm("a call that failed filled something in",
          memcmp(&w->unfilled, &w->out, sizeof w->out) == 0);
  ASSERTm("a call that failed changed something", memcmp(before, &after, sizeof after) == 0);
  fflush(w->sink);
  ASSERT_I64(0, ftell(w->sink));
  PASS();
}

static long failures; /* so far, of this line of the table */

/* One world, one failure. *ret_hit: an allocation failed. */
static enum greatest_test_res fail_once(const struct entry *e, bool on_loop, long n, bool all,
                                        bool *ret_hit) {
  static struct world w;
  struct snapshot before;
  long live = 0;

  CHECK_CALL(world_open(&w));
  w.e = e;
  before = look(&w);
  CHECK_CALL(perform_at(&w, on_loop, n, all));
  *ret_hit = w.hit;
  if (w.hit) {
    failures++;
    CHECK_CALL(check_failed(&w, &before));
    for (int again = 0; again < 5 && w.hit; again++) {
      CHECK_CALL(perform_at(&w, on_loop, 0, true));
      if (!w.hit)
        break; /* enough memory was allocated by now: the call works */
      CHECK_CALL(check_failed(&w, &before));
      /* Many failures hold no more memory than two. The alarm handle of a scheduler that could not
       * be opened is freed in the next loop pass. */
      fixture_turn(&w.f);
      if (again > 0)
        ASSERT_I64(live, atomic_load(&w.f.fault.live));
      live = atomic_load(&w.f.fault.live);
    }
    if (w.hit)
      CHECK_CALL(perform_at(&w, on_loop, -1, false));
  }
  ASSERT_RC(e->expected, w.rc);
  CHECK_CALL(world_close(&w));
  PASS();
}

static enum greatest_test_res sweep(const struct entry *e, bool on_loop) {
  for (int all = 0; all < 2; all++) {
    bool hit = true;

    for (long n = 0; hit; n++) {
      ASSERT(n < ENOUGH);
      CHECK_CALL(fail_once(e, on_loop, n, all != 0, &hit));
    }
  }
  PASS();
}

/* A call on the wrong thread returns its error code, with memory or without. */
static enum greatest_test_res misplaced(const struct entry *e, bool on_loop, int code) {
  static struct world w;

  CHECK_CALL(world_open(&w));
  w.e = e;
  CHECK_CALL(perform_at(&w, on_loop, 0, true));
  ASSERT_RC(code, w.rc);
  ASSERT_FALSE(w.hit);
  CHECK_CALL(world_close(&w));
  PASS();
}

static enum greatest_test_res prove(const struct entry *e) {
  failures = 0;
  if (e->where != OFF)
    CHECK_CALL(sweep(e, true));
  if (e->where == ANY || e->where == OFF)
    CHECK_CALL(sweep(e, false));
  if (e->where == LOOP)
    CHECK_CALL(misplaced(e, false, UV_EPERM));
  if (e->where == OFF)
    CHECK_CALL(misplaced(e, true, UVS_EDEADLK));
  ASSERTm("the table says that it allocates", (failures > 0) == (e->memory == WANTS));
  PASS();
}

/* ------------------------------------------------------------------- tests --- */

/* Must be the first test with a lane: afterwards the directory exists. */
/* L10 */
TEST the_first_lane_of_a_process_survives_every_allocation_failure(void) {
  static struct world w;
  uvs_lane_t lane = 7;
  long n;
  int rc = UV_ENOMEM;

  fixture_init(&w.f);
  CHECK_CALL(fixture_open_turned(&w.f));
  for (n = 0; rc != 0; n++) {
    long live = atomic_load(&w.f.fault.live);

    fault_after(n);
    rc = uvs_lane_open(w.f.s, NULL, &lane);
    ASSERT_RC(fault_hit() ? UV_ENOMEM : 0, rc);
    if (rc != 0) {
      ASSERT_U64(7, lane);
      ASSERT_I64(live, atomic_load(&w.f.fault.live));
    }
  }
  ASSERT_I64(3, n); /* the lane's own, the directory's, and then it works */
  CHECK_CALL(fixture_close(&w.f));
  PASS();
}

/* L10 */
TEST every_call_survives_every_allocation_failure(void) {
  unsigned lines = 0;
  long all = 0;

  for (size_t i = 0; i < ENTRIES; i++) {
    enum greatest_test_res res = prove(&entries[i]);

    if (res != GREATEST_TEST_RES_PASS) {
      printf("line %zu of the table: %s\n", i + 1, entries[i].name);
      return res;
    }
    lines++;
    all += failures;
  }
  printf("%u ways through the API, %ld failed allocations\n", lines, all);
  PASS();
}

static bool has_entry(const char *name) {
  for (size_t i = 0; i < ENTRIES; i++)
    if (strcmp(entries[i].name, name) == 0)
      return true;
  return false;
}

/* EXPORTS is the output of nm -D for the shared library. */
TEST every_exported_function_is_in_the_table_of_calls(void) {
  FILE *in = fopen(EXPORTS, "r");
  char line[512], name[256], kind;
  unsigned exported = 0, missing = 0, unknown = 0;

  ASSERTm("no list of what the library exports", in != NULL);
  while (fgets(line, sizeof line, in) != NULL) {
    if (sscanf(line, "%*s %c %255s", &kind, name) != 2)
      continue;
    exported++;
    if (!has_entry(name)) {
      printf("no line in calls.inc: %s\n", name);
      missing++;
    }
  }
  /* And the table has no function that the library does not export: otherwise the count below would
   * prove nothing. */
  for (size_t i = 0; i < ENTRIES; i++) {
    bool found = false;

    rewind(in);
    while (!found && fgets(line, sizeof line, in) != NULL)
      found = sscanf(line, "%*s %c %255s", &kind, name) == 2 && strcmp(name, entries[i].name) == 0;
    unknown += !found;
  }
  fclose(in);
  printf("%u exported functions\n", exported);
  ASSERT_U64(0, missing);
  ASSERT_U64(0, unknown);
  ASSERT(exported >= 97);
  PASS();
}

SUITE(calls) {
  RUN_TEST(the_first_lane_of_a_process_survives_every_allocation_failure);
  RUN_TEST(every_exported_function_is_in_the_table_of_calls);
  RUN_TEST(every_call_survives_every_allocation_failure);
}

TEST_MAIN(RUN_SUITE(calls));
