/* SPDX-License-Identifier: MIT
 *
 * The pool of own threads, and the inline executor: real threads, no loop.
 *
 * The calls with which the library creates and joins threads are wrapped: they are counted and can
 * be made to fail. The tests' own threads are not counted.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uvsched/executor.h"

#include "lib/named.h"
#include "lib/patience.h"
#include "lib/unit.h"

#define CHILD_SECONDS 15

/* ------------------------------------------------ between the library and libuv --- */

static _Atomic int created, joined;
static _Atomic int creations_left = -1; /* 0: the next one fails; below 0: none fails */
static _Atomic int inits;               /* of locks and conditions, not yet destroyed */
static _Atomic int inits_left = -1;     /* 0: the next one fails; below 0: none fails */
static void (*before_creation)(void);   /* called before a thread is created */

int __real_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg);
int __wrap_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg);
int __real_uv_thread_join(uv_thread_t *t);
int __wrap_uv_thread_join(uv_thread_t *t);
int __real_uv_mutex_init(uv_mutex_t *m);
int __wrap_uv_mutex_init(uv_mutex_t *m);
void __real_uv_mutex_destroy(uv_mutex_t *m);
void __wrap_uv_mutex_destroy(uv_mutex_t *m);
int __real_uv_cond_init(uv_cond_t *c);
int __wrap_uv_cond_init(uv_cond_t *c);
void __real_uv_cond_destroy(uv_cond_t *c);
void __wrap_uv_cond_destroy(uv_cond_t *c);
void *__real_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *addr, size_t size);
int __wrap_munmap(void *addr, size_t size);

static bool out_of(_Atomic int *left) {
  int n = atomic_load(left);

  while (n > 0 && !atomic_compare_exchange_weak(left, &n, n - 1))
    ;
  return n == 0;
}

int __wrap_uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb entry,
                               void *arg) {
  int rc;

  if (before_creation != NULL)
    before_creation();
  rc = out_of(&creations_left) ? UV_EAGAIN : __real_uv_thread_create_ex(t, o, entry, arg);
  atomic_fetch_add(&created, rc == 0);
  return rc;
}

int __wrap_uv_thread_join(uv_thread_t *t) {
  atomic_fetch_add(&joined, 1);
  return __real_uv_thread_join(t);
}

/* Counts a successful init, which must be undone later. */
static int count_init(int rc) {
  atomic_fetch_add(&inits, rc == 0);
  return rc;
}

int __wrap_uv_mutex_init(uv_mutex_t *m) {
  return count_init(out_of(&inits_left) ? UV_EAGAIN : __real_uv_mutex_init(m));
}

void __wrap_uv_mutex_destroy(uv_mutex_t *m) {
  atomic_fetch_sub(&inits, 1);
  __real_uv_mutex_destroy(m);
}

int __wrap_uv_cond_init(uv_cond_t *c) {
  return count_init(out_of(&inits_left) ? UV_EAGAIN : __real_uv_cond_init(c));
}

void __wrap_uv_cond_destroy(uv_cond_t *c) {
  atomic_fetch_sub(&inits, 1);
  __real_uv_cond_destroy(c);
}

/* The page by which a forked child notices that it is one, where the system supports it. */
void *__wrap_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
  void *page = MAP_FAILED;

  errno = EAGAIN;
  if (!out_of(&inits_left))
    page = __real_mmap(addr, size, prot, flags, fd, offset);
  count_init(page == MAP_FAILED ? UV_EAGAIN : 0);
  return page;
}

/* The same by the name that it has with _FILE_OFFSET_BITS=64. */
void *__wrap_mmap64(void *addr, size_t size, int prot, int flags, int fd, off_t offset) {
  return __wrap_mmap(addr, size, prot, flags, fd, offset);
}

int __wrap_munmap(void *addr, size_t size) {
  atomic_fetch_sub(&inits, 1);
  return __real_munmap(addr, size);
}

static void end_thread(uv_thread_t *t) {
  __real_uv_thread_join(t);
}

/* -------------------------------------------------------------------- the pool --- */

static struct fault fault;
static uvs_threads_t *p;
static const uvs_executor_t *e;

static uvs_threads_options_t options(int threads) {
  uvs_threads_options_t o;

  uvs_threads_options_init(&o);
  o.threads = threads;
  o.allocator = fault_option(&fault);
  return o;
}

static enum greatest_test_res open_with(const uvs_threads_options_t *o) {
  created = joined = 0;
  fault_init(&fault);
  p = NULL;
  ASSERT_RC(0, uvs_threads_open(o, &p));
  e = uvs_threads_executor(p);
  ASSERT_EQ(sizeof *e, e->size);
  ASSERT_RC(o->threads, atomic_load(&created));
  PASS();
}

static enum greatest_test_res open_pool(int threads) {
  uvs_threads_options_t o = options(threads);

  CHECK_CALL(open_with(&o));
  PASS();
}

static enum greatest_test_res all_is_given_back(void) {
  ASSERT_RC(atomic_load(&created), atomic_load(&joined));
  ASSERT_RC(0, atomic_load(&inits));
  ASSERT_EQ_FMT(0L, atomic_load(&fault.live), "%ld");
  PASS();
}

static enum greatest_test_res close_pool(void) {
  ASSERT_RC(0, uvs_threads_close(p));
  CHECK_CALL(all_is_given_back());
  PASS();
}

static int submit(void (*fn)(void *arg), void *arg) {
  return e->submit(e->self, fn, arg);
}

/* ------------------------------------------------------------------------ jobs --- */

static _Atomic int runs;             /* of all these jobs */
static _Atomic int started, go;      /* of `waits` */
static _Atomic int at_once, at_most; /* of `counts_itself` */

static void forget_runs(void) {
  runs = started = go = at_once = at_most = 0;
}

static void runs_once(void *arg) {
  (void)arg;
  atomic_fetch_add(&runs, 1);
}

static void waits(void *arg) {
  (void)arg;
  atomic_fetch_add(&started, 1);
  await_at_least(&go, 1);
  atomic_fetch_add(&runs, 1);
}

static void counts_itself(void *arg) {
  int n = atomic_fetch_add(&at_once, 1) + 1;
  int most = atomic_load(&at_most);

  (void)arg;
  while (most < n && !atomic_compare_exchange_weak(&at_most, &most, n))
    ;
  uv_sleep(1); /* let others in, if they can */
  atomic_fetch_sub(&at_once, 1);
  atomic_fetch_add(&runs, 1);
}

/* Keeps n threads of the pool busy until `go`. */
static enum greatest_test_res occupy(int n) {
  for (int i = 0; i < n; i++)
    ASSERT_RC(0, submit(waits, NULL));
  ASSERT(await_at_least(&started, n));
  PASS();
}

static enum greatest_test_res submit_n(void (*fn)(void *arg), int n) {
  for (int i = 0; i < n; i++)
    ASSERT_RC(0, submit(fn, NULL));
  PASS();
}

/* ------------------------------------------------------------ what a pool is for --- */

static int order[1000];
static _Atomic int orders;

static void notes_its_number(void *arg) {
  orders++;
  order[orders - 1] = (int)(intptr_t)arg;
}

/* The thread is busy with one job meanwhile. So the ring of jobs is used from its second place on,
 * and it grows when the first place is used again. */
TEST one_thread_runs_jobs_in_the_order_of_submission(void) {
  orders = 0;
  forget_runs();
  CHECK_CALL(open_pool(1));
  CHECK_CALL(occupy(1));
  for (int i = 0; i < 1000; i++)
    ASSERT_RC(0, submit(notes_its_number, (void *)(intptr_t)i));
  atomic_store(&go, 1);
  CHECK_CALL(close_pool());
  ASSERT_RC(1000, orders);
  for (int i = 0; i < 1000; i++)
    ASSERT_RC(i, order[i]);
  PASS();
}

/* The jobs wait for each other: with fewer threads they would never end. */
TEST as_many_jobs_run_at_once_as_there_are_threads(void) {
  forget_runs();
  CHECK_CALL(open_pool(5));
  ASSERT_RC(5, uvs_threads_size(p));
  ASSERT_RC(5, e->concurrency(e->self));
  CHECK_CALL(occupy(5));
  ASSERT_RC(0, submit(waits, NULL));
  ASSERT_RC(5, atomic_load(&started));
  go = 1;
  CHECK_CALL(close_pool());
  ASSERT_RC(6, runs);
  PASS();
}

static void submits_another(void *arg) {
  int left = (int)(intptr_t)arg;

  if (left > 0 && submit(submits_another, (void *)(intptr_t)(left - 1)) == 0)
    atomic_fetch_add(&runs, 1);
  else
    atomic_store(&go, 1);
}

TEST a_job_may_submit_to_its_own_pool(void) {
  forget_runs();
  CHECK_CALL(open_pool(2));
  ASSERT_RC(0, submit(submits_another, (void *)(intptr_t)500));
  ASSERT(await_at_least(&go, 1));
  CHECK_CALL(close_pool());
  ASSERT_RC(500, runs);
  PASS();
}

/* -------------------------------------------------------------------- the names --- */

enum { NAMES = 4 };
static char names[NAMES][32];

static void reads_its_name(void *arg) {
  (void)arg;
  read_own_name(names[atomic_load(&started)], sizeof names[0]);
  waits(NULL);
}

/* Starts one job at a time, up to its wait, so that each thread gets one. */
static enum greatest_test_res read_names(int n) {
  forget_runs();
  memset(names, 0, sizeof names);
  for (int i = 0; i < n; i++) {
    ASSERT_RC(0, submit(reads_its_name, NULL));
    ASSERT(await_at_least(&started, i + 1));
  }
  go = 1;
  ASSERT(await_at_least(&runs, n));
  PASS();
}

static bool has_name(const char *name) {
  for (int i = 0; i < NAMES; i++) {
    if (strcmp(names[i], name) == 0)
      return true;
  }
  return false;
}

TEST pool_threads_are_named_after_the_pool_and_numbered(void) {
  uvs_threads_options_t o = options(3);
  char name[] = "ten_bytes!";

  if (count_named("") < 0)
    SKIPm("this system has no /proc/self/task");
  o.name = name;
  CHECK_CALL(open_with(&o));
  memset(name, 'x', sizeof name - 1); /* it was copied */
  CHECK_CALL(read_names(3));
  ASSERT(has_name("ten_bytes!-0") && has_name("ten_bytes!-1") && has_name("ten_bytes!-2"));
  /* A number that is free again is used again. */
  ASSERT_RC(0, uvs_threads_resize(p, 1));
  ASSERT(await_named("ten_bytes!-", 1));
  ASSERT_RC(0, uvs_threads_resize(p, 4));
  CHECK_CALL(read_names(4));
  ASSERT(has_name("ten_bytes!-0") && has_name("ten_bytes!-1") && has_name("ten_bytes!-2"));
  ASSERT(has_name("ten_bytes!-3"));
  CHECK_CALL(close_pool());

  CHECK_CALL(open_pool(1));
  CHECK_CALL(read_names(1));
  ASSERT_STR_EQ("uvs-0", names[0]);
  CHECK_CALL(close_pool());
  PASS();
}

static _Atomic size_t stack_seen;

static void looks_at_its_stack(void *arg) {
  pthread_attr_t a;
  size_t size = 0;

  (void)arg;
  if (pthread_getattr_np(pthread_self(), &a) == 0) {
    pthread_attr_getstacksize(&a, &size);
    pthread_attr_destroy(&a);
  }
  atomic_store(&stack_seen, size);
}

TEST pool_threads_have_the_requested_stack_size(void) {
  uvs_threads_options_t o = options(1);

  o.stack_size = (size_t)1 << 20;
  CHECK_CALL(open_with(&o));
  ASSERT_RC(0, submit(looks_at_its_stack, NULL));
  CHECK_CALL(close_pool());
  ASSERT(atomic_load(&stack_seen) >= (size_t)1 << 20);
  ASSERT(atomic_load(&stack_seen) < (size_t)2 << 20);
  PASS();
}

/* ----------------------------------------------------------------------- resize --- */

TEST growing_a_pool_starts_the_threads_immediately(void) {
  forget_runs();
  CHECK_CALL(open_pool(1));
  CHECK_CALL(occupy(1));
  ASSERT_RC(0, uvs_threads_resize(p, 6));
  ASSERT_RC(6, uvs_threads_size(p));
  ASSERT_RC(6, e->concurrency(e->self));
  ASSERT_RC(6, atomic_load(&created));
  CHECK_CALL(occupy(5));
  ASSERT(await_at_least(&started, 6));
  go = 1;
  CHECK_CALL(close_pool());
  ASSERT_RC(6, runs);
  PASS();
}

TEST shrinking_a_pool_ends_idle_threads_and_the_next_resize_joins_them(void) {
  if (count_named("") < 0)
    SKIPm("this system has no /proc/self/task");
  forget_runs();
  CHECK_CALL(open_pool(8));
  ASSERT(await_named("uvs-", 8));
  ASSERT_RC(0, uvs_threads_resize(p, 2));
  ASSERT(await_named("uvs-", 2));
  ASSERT_RC(0, uvs_threads_resize(p, 2));
  ASSERT_RC(6, atomic_load(&joined));
  CHECK_CALL(occupy(2));
  go = 1;
  CHECK_CALL(close_pool());
  PASS();
}

TEST shrinking_a_pool_ends_busy_threads_after_their_current_job(void) {
  forget_runs();
  CHECK_CALL(open_pool(4));
  CHECK_CALL(occupy(4));
  ASSERT_RC(0, uvs_threads_resize(p, 1));
  ASSERT_RC(1, uvs_threads_size(p));
  CHECK_CALL(submit_n(counts_itself, 20));
  ASSERT_RC(0, atomic_load(&runs)); /* no thread was idle */
  go = 1;
  ASSERT(await_at_least(&runs, 24));
  ASSERT_RC(1, at_most);
  CHECK_CALL(close_pool());
  PASS();
}

TEST a_thread_that_was_to_end_stays_if_the_pool_grows_again(void) {
  forget_runs();
  CHECK_CALL(open_pool(4));
  CHECK_CALL(occupy(4));
  ASSERT_RC(0, uvs_threads_resize(p, 1));
  ASSERT_RC(0, uvs_threads_resize(p, 3));
  ASSERT_RC(4, atomic_load(&created));
  ASSERT_RC(0, uvs_threads_resize(p, 5));
  ASSERT_RC(5, atomic_load(&created));
  go = 1;
  ASSERT(await_at_least(&runs, 4));
  go = 0;
  started = 0;
  CHECK_CALL(occupy(5));
  go = 1;
  CHECK_CALL(close_pool());
  PASS();
}

static void let_the_busy_go(void) {
  go = 1;
  await_at_least(&runs, 4);
  uv_sleep(20); /* if they mean to leave, they do it now */
}

/* The threads become idle while the resize that needs them creates others. */
TEST a_thread_that_becomes_idle_during_a_growing_resize_stays(void) {
  forget_runs();
  CHECK_CALL(open_pool(4));
  CHECK_CALL(occupy(4));
  ASSERT_RC(0, uvs_threads_resize(p, 1));
  before_creation = let_the_busy_go;
  ASSERT_RC(0, uvs_threads_resize(p, 5));
  before_creation = NULL;
  ASSERT_RC(5, atomic_load(&created));
  go = started = 0;
  CHECK_CALL(occupy(5));
  go = 1;
  CHECK_CALL(close_pool());
  PASS();
}

static _Atomic int answer;

static void resizes(void *arg) {
  atomic_store(&answer, uvs_threads_resize(p, (int)(intptr_t)arg));
  atomic_fetch_add(&runs, 1);
}

TEST a_job_may_resize_its_own_pool(void) {
  static const int sizes[] = {4, 1, 7, 7, 2, 1};

  forget_runs();
  CHECK_CALL(open_pool(1));
  for (int i = 0; i < 6; i++) {
    answer = 1;
    ASSERT_RC(0, submit(resizes, (void *)(intptr_t)sizes[i]));
    ASSERT(await_at_least(&runs, i + 1));
    ASSERT_RC(0, answer);
    ASSERT_RC(sizes[i], uvs_threads_size(p));
  }
  CHECK_CALL(close_pool());
  PASS();
}

/* ------------------------------------------------------------------------ close --- */

static int seen_answers[3];

static void tries_everything_of_a_closing_pool(void *arg) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  (void)arg;
  atomic_fetch_add(&started, 1);
  do { /* until it is being closed */
    seen_answers[0] = submit(runs_once, NULL);
    atomic_fetch_add(&answer, seen_answers[0] == 0);
    uv_sleep(1);
  } while (seen_answers[0] == 0 && uv_hrtime() < end_ns);
  seen_answers[1] = uvs_threads_resize(p, 3);
  seen_answers[2] = uvs_threads_close(p);
  await_at_least(&go, 1);
}

static void closes(void *arg) {
  *(int *)arg = uvs_threads_close(p);
}

TEST closing_a_pool_refuses_new_jobs_and_runs_queued_ones(void) {
  uv_thread_t closer;
  uint64_t end_ns;
  int refused, rc = 1;

  forget_runs();
  answer = 0;
  CHECK_CALL(open_pool(1));
  ASSERT_RC(0, submit(tries_everything_of_a_closing_pool, NULL));
  CHECK_CALL(submit_n(runs_once, 300));
  ASSERT(await_at_least(&started, 1));
  ASSERT_RC(0, uv_thread_create(&closer, closes, &rc));
  end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;
  while ((refused = submit(runs_once, NULL)) == 0 && uv_hrtime() < end_ns)
    atomic_fetch_add(&answer, 1);
  ASSERT_RC(UV_ESHUTDOWN, refused);
  ASSERT_RC(UV_ESHUTDOWN, uvs_threads_resize(p, 2));
  ASSERT_RC(UV_EALREADY, uvs_threads_close(p));
  ASSERT_RC(UV_EINVAL, submit(NULL, NULL));
  ASSERT_RC(0, runs);
  go = 1;
  end_thread(&closer);
  ASSERT_RC(0, rc);
  ASSERT_RC(300 + answer, runs);
  ASSERT_RC(UV_ESHUTDOWN, seen_answers[0]);
  ASSERT_RC(UV_ESHUTDOWN, seen_answers[1]);
  ASSERT_RC(UVS_EDEADLK, seen_answers[2]);
  CHECK_CALL(all_is_given_back());
  PASS();
}

static void closes_its_own_pool(void *arg) {
  (void)arg;
  atomic_store(&answer, uvs_threads_close(p));
}

TEST a_job_may_close_another_pool_but_not_its_own(void) {
  uvs_threads_t *own, *other;
  uvs_threads_options_t o;

  forget_runs();
  answer = 0;
  CHECK_CALL(open_pool(1));
  ASSERT_RC(0, submit(closes_its_own_pool, NULL));
  ASSERT_RC(0, submit(runs_once, NULL));
  ASSERT(await_at_least(&runs, 1));
  ASSERT_RC(UVS_EDEADLK, answer);
  own = p;
  o = options(2);
  ASSERT_RC(0, uvs_threads_open(&o, &other));
  p = other;
  ASSERT_RC(0, submit(closes_its_own_pool, NULL)); /* e is still the first one's */
  ASSERT_RC(0, submit(runs_once, NULL));
  ASSERT(await_at_least(&runs, 2));
  ASSERT_RC(0, answer);
  p = own;
  e->close(e->self);
  CHECK_CALL(all_is_given_back());
  PASS();
}

/* --------------------------------------------------------------- all of it at once --- */

enum { PRODUCERS = 4, ITEMS = 2000, SIZE_MOST = 8 };

struct item {
  int plain; /* only the pool orders the producer's write before the job's */
  bool accepted;
  _Atomic int ran;
};

struct producer {
  struct item items[ITEMS];
  uint64_t random;
  uv_thread_t thread;
};

static struct producer producers[PRODUCERS];
static _Atomic int wrong, producing;

static void is_run(void *arg) {
  struct item *i = arg;

  if (i->plain++ != 42 || atomic_fetch_add_explicit(&i->ran, 1, memory_order_relaxed) != 0)
    atomic_fetch_add(&wrong, 1);
}

static void is_passed_on(void *arg) {
  if (submit(is_run, arg) != 0)
    atomic_fetch_add(&wrong, 1);
}

static void resizes_and_is_run(void *arg) {
  struct item *i = arg;
  int n = 1 + (int)((uintptr_t)arg / sizeof *i % SIZE_MOST);

  if (uvs_threads_resize(p, n) != 0)
    atomic_fetch_add(&wrong, 1);
  is_run(arg); /* after it: when all have run, the pool is closed, and refuses */
}

static void produce(void *arg) {
  struct producer *me = arg;

  for (int i = 0; i < ITEMS; i++) {
    uint64_t what = test_random_below(&me->random, 40);

    me->items[i].plain = 42;
    me->items[i].accepted = submit(what == 0  ? resizes_and_is_run
                                   : what < 8 ? is_passed_on
                                              : is_run,
                                   &me->items[i]) == 0;
    if (test_random_below(&me->random, 100) == 0)
      uv_sleep(1);
  }
  atomic_fetch_sub(&producing, 1);
}

static void keep_resizing(void *arg) {
  uint64_t random = *(uint64_t *)arg;

  while (atomic_load(&producing) > 0) {
    int n = 1 + (int)test_random_below(&random, SIZE_MOST);

    if (uvs_threads_resize(p, n) != 0)
      atomic_fetch_add(&wrong, 1);
    if (test_random_below(&random, 4) == 0)
      uv_sleep(1);
  }
}

/* Jobs that resubmit must have done so before close refuses them. */
static bool all_ran(void) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)PATIENCE_NS;

  for (int k = 0; k < PRODUCERS; k++) {
    for (int i = 0; i < ITEMS; i++) {
      while (atomic_load(&producers[k].items[i].ran) == 0) {
        if (uv_hrtime() >= end_ns)
          return false;
        uv_sleep(1);
      }
    }
  }
  return true;
}

static enum greatest_test_res produce_and_resize(uint64_t *random) {
  uint64_t seeds[2];
  uv_thread_t resizers[2];

  memset(producers, 0, sizeof producers);
  wrong = 0;
  producing = PRODUCERS;
  CHECK_CALL(open_pool(2));
  for (int k = 0; k < PRODUCERS; k++) {
    producers[k].random = test_random(random) | 1;
    ASSERT_RC(0, uv_thread_create(&producers[k].thread, produce, &producers[k]));
  }
  for (int k = 0; k < 2; k++) {
    seeds[k] = test_random(random) | 1;
    ASSERT_RC(0, uv_thread_create(&resizers[k], keep_resizing, &seeds[k]));
  }
  for (int k = 0; k < PRODUCERS; k++)
    end_thread(&producers[k].thread);
  for (int k = 0; k < 2; k++)
    end_thread(&resizers[k]);
  ASSERT(all_ran());
  CHECK_CALL(close_pool());
  ASSERT_RC(0, wrong);
  for (int k = 0; k < PRODUCERS; k++) {
    for (int i = 0; i < ITEMS; i++) {
      ASSERT(producers[k].items[i].accepted);
      ASSERT_RC(1, producers[k].items[i].ran);
      ASSERT_RC(43, producers[k].items[i].plain);
    }
  }
  PASS();
}

static int rounds(int n) {
  const char *stress = getenv("UVS_STRESS");

  return stress != NULL && strcmp(stress, "long") == 0 ? n * 10 : n;
}

TEST every_job_runs_exactly_once_while_the_pool_is_resized(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(3); round++)
    CHECK_CALL(produce_and_resize(&random));
  PASS();
}

/* The close comes while jobs are queued and threads are about to end. */
TEST closing_a_pool_right_after_a_resize_loses_no_job(void) {
  uint64_t random = test_seed;

  for (int round = 0; round < rounds(50); round++) {
    int n = 1 + (int)test_random_below(&random, 100);

    forget_runs();
    CHECK_CALL(open_pool(1 + (int)test_random_below(&random, SIZE_MOST)));
    CHECK_CALL(submit_n(runs_once, n));
    ASSERT_RC(0, uvs_threads_resize(p, 1 + (int)test_random_below(&random, SIZE_MOST)));
    CHECK_CALL(submit_n(runs_once, n));
    CHECK_CALL(close_pool());
    ASSERT_RC(2 * n, runs);
  }
  PASS();
}

/* ----------------------------------------------------------------------- inline --- */

static void notes_its_thread(void *arg) {
  *(uv_thread_t *)arg = uv_thread_self();
  runs_once(NULL);
}

static void nests(void *arg) {
  const uvs_executor_t *x = uvs_inline_executor();

  if (*(int *)arg > 0) {
    --*(int *)arg;
    x->submit(x->self, nests, arg);
    runs_once(NULL);
  }
}

TEST the_inline_executor_runs_a_job_before_submit_returns(void) {
  const uvs_executor_t *x = uvs_inline_executor();
  uv_thread_t self = uv_thread_self(), other;
  int depth = 3;

  forget_runs();
  memset(&other, 0, sizeof other);
  ASSERT_EQ(sizeof *x, x->size);
  ASSERT_EQ(x, uvs_inline_executor());
  ASSERT(x->concurrency == NULL && x->close == NULL);
  ASSERT_RC(0, x->submit(x->self, notes_its_thread, &other));
  ASSERT_RC(1, runs);
  ASSERT(uv_thread_equal(&self, &other));
  ASSERT_RC(0, x->submit(x->self, nests, &depth));
  ASSERT_RC(4, runs);
  ASSERT_RC(UV_EINVAL, x->submit(x->self, NULL, NULL));
  PASS();
}

/* -------------------------------------------------------------------- bad input --- */

static enum greatest_test_res refuses(const uvs_threads_options_t *o) {
  uvs_threads_t *got = p;

  ASSERT_RC(UV_EINVAL, uvs_threads_open(o, &got));
  ASSERT_EQ(p, got);
  ASSERT_EQ_FMT(0L, atomic_load(&fault.total), "%ld");
  PASS();
}

TEST opening_a_pool_refuses_invalid_options(void) {
  struct {
    uvs_threads_options_t o;
    uint64_t more;
  } larger = {options(1), 0};
  uvs_threads_options_t o = options(1);

  fault_init(&fault);
  CHECK_CALL(refuses(NULL));
  ASSERT_RC(UV_EINVAL, uvs_threads_open(&o, NULL));
  for (int k = 0; k < 4; k++) {
    static const int sizes[] = {0, -1, UVS_THREADS_MAX + 1, INT32_MIN};

    o = options(sizes[k]);
    CHECK_CALL(refuses(&o));
  }
  o = options(1);
  o.name = "elevenbytes";
  CHECK_CALL(refuses(&o));
  o = options(1);
  o.allocator.free = NULL;
  CHECK_CALL(refuses(&o));
  o = options(1);
  o.allocator.alloc = NULL;
  CHECK_CALL(refuses(&o));
  for (size_t size = 0; size < sizeof o; size++) {
    o = options(1);
    o.size = size;
    CHECK_CALL(refuses(&o));
  }
  o.size = 1 << 20;
  CHECK_CALL(refuses(&o));
  larger.o.size = sizeof larger;
  larger.more = 1;
  CHECK_CALL(refuses(&larger.o));
  larger.more = 0;
  CHECK_CALL(open_with(&larger.o));
  CHECK_CALL(close_pool());
  PASS();
}

TEST invalid_calls_to_a_pool_are_refused_and_change_nothing(void) {
  ASSERT_RC(UV_EINVAL, uvs_threads_size(NULL));
  ASSERT_RC(UV_EINVAL, uvs_threads_resize(NULL, 1));
  ASSERT_RC(UV_EINVAL, uvs_threads_close(NULL));
  ASSERT_EQ(NULL, uvs_threads_executor(NULL));
  CHECK_CALL(open_pool(2));
  ASSERT_RC(UV_EINVAL, uvs_threads_resize(p, 0));
  ASSERT_RC(UV_EINVAL, uvs_threads_resize(p, -1));
  ASSERT_RC(UV_EINVAL, uvs_threads_resize(p, UVS_THREADS_MAX + 1));
  ASSERT_RC(UV_EINVAL, submit(NULL, NULL));
  ASSERT_RC(2, uvs_threads_size(p));
  ASSERT_RC(2, created);
  CHECK_CALL(close_pool());
  PASS();
}

/* No allocator given; the other options are the defaults. */
TEST a_pool_without_an_allocator_uses_malloc(void) {
  uvs_threads_options_t o;

  forget_runs();
  created = joined = 0;
  uvs_threads_options_init(&o);
  o.threads = 1;
  ASSERT_RC(0, uvs_threads_open(&o, &p));
  e = uvs_threads_executor(p);
  CHECK_CALL(submit_n(runs_once, 1000));
  CHECK_CALL(close_pool());
  ASSERT_RC(1000, runs);
  PASS();
}

/* -------------------------------------------------------------- what can go wrong --- */

TEST opening_a_pool_without_memory_leaves_nothing(void) {
  uvs_threads_options_t o = options(3);
  long n;

  created = joined = 0;
  fault_init(&fault);
  for (n = 0;; n++) {
    uvs_threads_t *got = NULL;
    int rc;

    fault_after(n);
    rc = uvs_threads_open(&o, &got);
    if (!fault_hit()) {
      ASSERT_RC(0, rc);
      ASSERT_RC(0, uvs_threads_close(got));
      break;
    }
    ASSERT_RC(UV_ENOMEM, rc);
    ASSERT_EQ(NULL, got);
    CHECK_CALL(all_is_given_back());
  }
  ASSERT(n >= 5); /* the pool, jobs, three threads */
  CHECK_CALL(all_is_given_back());
  PASS();
}

TEST opening_a_pool_without_a_lock_leaves_nothing(void) {
  uvs_threads_options_t o = options(3);

  created = joined = 0;
  fault_init(&fault);
  for (int n = 0; n < 3; n++) { /* fork's page, the lock, the condition */
    uvs_threads_t *got = NULL;

    inits_left = n;
    ASSERT_RC(UV_EAGAIN, uvs_threads_open(&o, &got));
    ASSERT_EQ(NULL, got);
    ASSERT_RC(0, created);
    CHECK_CALL(all_is_given_back());
  }
  inits_left = -1;
  PASS();
}

TEST opening_a_pool_without_threads_leaves_nothing(void) {
  uvs_threads_options_t o = options(4);
  uvs_threads_t *got = NULL;

  created = joined = 0;
  fault_init(&fault);
  for (int n = 0; n < 4; n++) {
    creations_left = n;
    ASSERT_RC(UV_EAGAIN, uvs_threads_open(&o, &got));
    ASSERT_EQ(NULL, got);
    CHECK_CALL(all_is_given_back());
  }
  ASSERT_RC(0 + 1 + 2 + 3, created);
  o = options(UVS_THREADS_MAX); /* in range */
  creations_left = 0;
  ASSERT_RC(UV_EAGAIN, uvs_threads_open(&o, &got));
  creations_left = -1;
  PASS();
}

/* The pool has one thread, which is busy, and queued jobs: no other thread may run one. */
static enum greatest_test_res unchanged_by_failed_resize(long live) {
  ASSERT_RC(1, uvs_threads_size(p));
  ASSERT_RC(1, e->concurrency(e->self));
  ASSERT_RC(created, joined + 1);
  ASSERT_EQ_FMT(live, atomic_load(&fault.live), "%ld");
  ASSERT_RC(0, runs);
  PASS();
}

TEST a_failed_resize_of_a_pool_changes_nothing(void) {
  long live;
  long n;

  forget_runs();
  CHECK_CALL(open_pool(1));
  CHECK_CALL(occupy(1));
  CHECK_CALL(submit_n(counts_itself, 10));
  live = atomic_load(&fault.live);
  for (int left = 0; left < 5; left++) {
    creations_left = left;
    ASSERT_RC(UV_EAGAIN, uvs_threads_resize(p, 6));
    CHECK_CALL(unchanged_by_failed_resize(live));
  }
  creations_left = -1;
  for (n = 0;; n++) {
    int rc;

    fault_after(n);
    rc = uvs_threads_resize(p, 6);
    if (!fault_hit()) {
      ASSERT_RC(0, rc);
      break;
    }
    ASSERT_RC(UV_ENOMEM, rc);
    CHECK_CALL(unchanged_by_failed_resize(live));
  }
  ASSERT_EQ_FMT(5L, n, "%ld");
  ASSERT_RC(6, uvs_threads_size(p));
  ASSERT(await_at_least(&runs, 10));
  go = 1;
  CHECK_CALL(close_pool());
  PASS();
}

/* Two of four busy threads are about to end. A failed growth must not keep them. */
TEST a_failed_resize_keeps_no_thread_that_was_to_end(void) {
  forget_runs();
  CHECK_CALL(open_pool(4));
  CHECK_CALL(occupy(4));
  ASSERT_RC(0, uvs_threads_resize(p, 2));
  creations_left = 0;
  ASSERT_RC(UV_EAGAIN, uvs_threads_resize(p, 5));
  creations_left = -1;
  ASSERT_RC(2, uvs_threads_size(p));
  CHECK_CALL(submit_n(counts_itself, 20));
  go = 1;
  ASSERT(await_at_least(&runs, 24));
  ASSERT(at_most <= 2);
  ASSERT_RC(0, uvs_threads_resize(p, 2));
  ASSERT_RC(4, created);
  CHECK_CALL(close_pool());
  PASS();
}

TEST a_pool_without_memory_refuses_jobs_and_runs_accepted_ones(void) {
  int accepted = 0;
  int rc;

  forget_runs();
  CHECK_CALL(open_pool(1));
  CHECK_CALL(occupy(1));
  for (int round = 0; round < 3; round++) {
    fault_from(round);
    while ((rc = submit(runs_once, NULL)) == 0 && accepted < 100000)
      accepted++;
    ASSERT_RC(UV_ENOMEM, rc);
    ASSERT_RC(UV_ENOMEM, submit(runs_once, NULL));
    ASSERT(fault_hit());
  }
  ASSERT(accepted > 0);
  ASSERT_RC(0, submit(runs_once, NULL)); /* now it works */
  go = 1;
  CHECK_CALL(close_pool());
  ASSERT_RC(1 + accepted + 1, runs);
  PASS();
}

TEST a_steady_load_on_a_pool_allocates_nothing(void) {
  long total = 0;

  for (int depth = 1; depth <= 300; depth += 299) {
    CHECK_CALL(open_pool(1));
    for (int round = 0; round < 50; round++) {
      forget_runs();
      CHECK_CALL(occupy(1));
      CHECK_CALL(submit_n(runs_once, depth));
      go = 1;
      ASSERT(await_at_least(&runs, depth + 1));
      if (round == 0)
        total = atomic_load(&fault.total);
    }
    ASSERT_EQ_FMT(total, atomic_load(&fault.total), "%ld");
    CHECK_CALL(close_pool());
  }
  PASS();
}

TEST a_pool_frees_its_memory_after_a_burst(void) {
  long quiet_bytes;

  forget_runs();
  CHECK_CALL(open_pool(1));
  quiet_bytes = atomic_load(&fault.live_bytes);
  CHECK_CALL(occupy(1));
  CHECK_CALL(submit_n(runs_once, 50000));
  ASSERT(atomic_load(&fault.live_bytes) > 50000 * 16);
  go = 1;
  ASSERT(await_at_least(&runs, 50001));
  ASSERT(atomic_load(&fault.live_bytes) < quiet_bytes + 8192);
  CHECK_CALL(close_pool());
  PASS();
}

/* ------------------------------------------------------------------------- fork --- */

enum { NOT_REFUSED = 1, NOT_CLOSED, MEMORY_LEFT, RAN_IN_CHILD, THREAD_ENDED };

static int in_child(int (*child)(void)) {
  pid_t pid = fork();
  int status;

  if (pid == 0) {
    alarm(CHILD_SECONDS);
    _exit(child());
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid)
    return -1000;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int refuses_everything(void) {
  if (submit(runs_once, NULL) != UV_ENOTSUP || e->concurrency(e->self) != UV_ENOTSUP)
    return NOT_REFUSED;
  if (uvs_threads_resize(p, 1) != UV_ENOTSUP || uvs_threads_resize(p, 8) != UV_ENOTSUP)
    return NOT_REFUSED;
  return uvs_threads_size(p) == UV_ENOTSUP ? 0 : NOT_REFUSED;
}

static int refuses_and_closes(void) {
  int rc = refuses_everything();

  if (rc == 0 && uvs_threads_close(p) != 0)
    rc = NOT_CLOSED;
  return rc;
}

static int closes_and_leaves_nothing(void) {
  int rc = refuses_and_closes();

  if (rc == 0 && atomic_load(&runs) != 0)
    rc = RAN_IN_CHILD;
  return rc == 0 && atomic_load(&fault.live) != 0 ? MEMORY_LEFT : rc;
}

static int opens_its_own(void) {
  int rc = refuses_and_closes();
  uvs_threads_options_t o = options(2);

  if (rc != 0 || uvs_threads_open(&o, &p) != 0)
    return NOT_CLOSED;
  e = uvs_threads_executor(p);
  forget_runs();
  for (int i = 0; i < 100; i++)
    rc |= submit(runs_once, NULL);
  if (rc != 0 || uvs_threads_close(p) != 0 || atomic_load(&runs) != 100)
    return NOT_CLOSED;
  return atomic_load(&fault.live) == 0 ? 0 : MEMORY_LEFT;
}

/* The only thread is in a job, so nothing changes during the fork. */
TEST a_forked_child_has_no_pool_and_can_free_its_copy(void) {
  forget_runs();
  CHECK_CALL(open_pool(1));
  CHECK_CALL(occupy(1));
  CHECK_CALL(submit_n(runs_once, 200));
  ASSERT_RC(0, in_child(closes_and_leaves_nothing));
  if (!UNDER_TSAN) /* it lets no such child make threads */
    ASSERT_RC(0, in_child(opens_its_own));
  go = 1;
  CHECK_CALL(close_pool());
  ASSERT_RC(201, runs);
  PASS();
}

static void hammer(void *arg) {
  (void)arg;
  while (atomic_load(&go) == 0) {
    if (submit(runs_once, NULL) != 0)
      atomic_fetch_add(&wrong, 1);
    uvs_threads_resize(p, 1 + atomic_load(&runs) % 3);
  }
}

TEST a_child_forked_from_a_busy_pool_neither_hangs_nor_crashes(void) {
  uv_thread_t thread;

  if (UNDER_TSAN)
    SKIPm("a child may hang in ThreadSanitizer's free()");
  forget_runs();
  wrong = 0;
  CHECK_CALL(open_pool(3));
  ASSERT_RC(0, uv_thread_create(&thread, hammer, NULL));
  for (int i = 0; i < 30; i++)
    ASSERT_RC(0, in_child(refuses_and_closes));
  go = 1;
  end_thread(&thread);
  CHECK_CALL(close_pool());
  ASSERT_RC(0, wrong);
  PASS();
}

static uvs_allocator_t in_peace;
static bool fork_now;
static int seen_in_child;

/* The child must not touch what the lock protects: the jobs, and the thread's record. */
static int closes_what_is_not_locked(void) {
  int rc = refuses_and_closes();

  return rc == 0 && atomic_load(&fault.live) != 2 ? MEMORY_LEFT : rc;
}

static void *forks_and_allocates(size_t size, void *arg) {
  if (fork_now) {
    fork_now = false;
    seen_in_child = in_child(closes_what_is_not_locked);
  }
  return in_peace.alloc(size, arg);
}

/* submit and resize call the allocator with the lock held. */
TEST a_forked_child_does_not_free_what_was_locked_at_the_fork(void) {
  uvs_threads_options_t o = options(1);

  for (int by_resize = 0; by_resize < 2; by_resize++) {
    forget_runs();
    in_peace = o.allocator = options(1).allocator;
    o.allocator.alloc = forks_and_allocates;
    CHECK_CALL(open_with(&o));
    CHECK_CALL(occupy(1));
    seen_in_child = -1;
    fork_now = true;
    if (by_resize)
      ASSERT_RC(0, uvs_threads_resize(p, 2));
    for (int i = 0; i < 1000 && fork_now; i++)
      ASSERT_RC(0, submit(runs_once, NULL));
    ASSERT(!fork_now);
    ASSERT_RC(0, seen_in_child);
    go = 1;
    CHECK_CALL(close_pool());
  }
  PASS();
}

static pid_t parent;
static _Atomic int child_pid;
static pthread_key_t ending;

/* Destructor of a thread-specific value: the thread ends. */
static void end_child(void *value) {
  (void)value;
  _exit(THREAD_ENDED);
}

/* Returns in the parent and in the child. */
static void forks(void *arg) {
  pid_t pid = fork();

  (void)arg;
  if (pid != 0) {
    atomic_store(&child_pid, (int)pid);
    waits(NULL);
    return;
  }
  alarm(CHILD_SECONDS);
  if (refuses_everything() != 0)
    _exit(NOT_REFUSED);
  if (uvs_threads_close(p) != UVS_EDEADLK)
    _exit(NOT_CLOSED);
  pthread_setspecific(ending, p);
}

static void runs_in_the_parent(void *arg) {
  (void)arg;
  if (getpid() != parent)
    _exit(RAN_IN_CHILD);
  runs_once(NULL);
}

TEST a_job_that_forks_ends_in_the_child_and_no_other_runs_there(void) {
  int status = -1;

  forget_runs();
  parent = getpid();
  child_pid = 0;
  ASSERT_RC(0, pthread_key_create(&ending, end_child));
  CHECK_CALL(open_pool(1));
  ASSERT_RC(0, submit(forks, NULL));
  CHECK_CALL(submit_n(runs_in_the_parent, 10));
  ASSERT(await_at_least(&started, 1));
  ASSERT(child_pid > 0);
  ASSERT_RC(child_pid, waitpid(child_pid, &status, 0));
  ASSERT(WIFEXITED(status));
  ASSERT_RC(THREAD_ENDED, WEXITSTATUS(status));
  go = 1;
  CHECK_CALL(close_pool());
  pthread_key_delete(ending);
  ASSERT_RC(11, runs);
  PASS();
}

SUITE(own_threads) {
  RUN_TEST(one_thread_runs_jobs_in_the_order_of_submission);
  RUN_TEST(as_many_jobs_run_at_once_as_there_are_threads);
  RUN_TEST(a_job_may_submit_to_its_own_pool);
  RUN_TEST(pool_threads_are_named_after_the_pool_and_numbered);
  RUN_TEST(pool_threads_have_the_requested_stack_size);
  RUN_TEST(growing_a_pool_starts_the_threads_immediately);
  RUN_TEST(shrinking_a_pool_ends_idle_threads_and_the_next_resize_joins_them);
  RUN_TEST(shrinking_a_pool_ends_busy_threads_after_their_current_job);
  RUN_TEST(a_thread_that_was_to_end_stays_if_the_pool_grows_again);
  RUN_TEST(a_thread_that_becomes_idle_during_a_growing_resize_stays);
  RUN_TEST(a_job_may_resize_its_own_pool);
  RUN_TEST(closing_a_pool_refuses_new_jobs_and_runs_queued_ones);
  RUN_TEST(a_job_may_close_another_pool_but_not_its_own);
  RUN_TEST(every_job_runs_exactly_once_while_the_pool_is_resized);
  RUN_TEST(closing_a_pool_right_after_a_resize_loses_no_job);
  RUN_TEST(the_inline_executor_runs_a_job_before_submit_returns);
  RUN_TEST(opening_a_pool_refuses_invalid_options);
  RUN_TEST(invalid_calls_to_a_pool_are_refused_and_change_nothing);
  RUN_TEST(a_pool_without_an_allocator_uses_malloc);
}

SUITE(own_threads_in_need) {
  RUN_TEST(opening_a_pool_without_memory_leaves_nothing);
  RUN_TEST(opening_a_pool_without_a_lock_leaves_nothing);
  RUN_TEST(opening_a_pool_without_threads_leaves_nothing);
  RUN_TEST(a_failed_resize_of_a_pool_changes_nothing);
  RUN_TEST(a_failed_resize_keeps_no_thread_that_was_to_end);
  RUN_TEST(a_pool_without_memory_refuses_jobs_and_runs_accepted_ones);
  RUN_TEST(a_steady_load_on_a_pool_allocates_nothing);
  RUN_TEST(a_pool_frees_its_memory_after_a_burst);
}

SUITE(own_threads_forked) {
  RUN_TEST(a_forked_child_has_no_pool_and_can_free_its_copy);
  RUN_TEST(a_forked_child_does_not_free_what_was_locked_at_the_fork);
  RUN_TEST(a_child_forked_from_a_busy_pool_neither_hangs_nor_crashes);
  RUN_TEST(a_job_that_forks_ends_in_the_child_and_no_other_runs_there);
}

TEST_MAIN(RUN_SUITE(own_threads); RUN_SUITE(own_threads_in_need); RUN_SUITE(own_threads_forked));
