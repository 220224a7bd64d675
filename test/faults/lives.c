/* SPDX-License-Identifier: MIT
 *
 * Whole lives of a scheduler in which something fails. Systematically: the n-th call of one
 * function, n = 0, 1, 2 ..., and all calls from the n-th on, until none fails. At random: one in so
 * many calls of all functions. And everything that the embedder may do to a scheduler at any point.
 * life.c checks what must hold.
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "life.h"

#include "../lib/unit.h"

#define ENOUGH 4000

static bool is_long(void) {
  const char *text = getenv("UVS_STRESS");

  return text != NULL && strcmp(text, "long") == 0;
}

/* ------------------------------------------------------------- systematically --- */

struct scene {
  const char *name;
  bool real_clock, precise, alone, own_threads;
};

static const struct scene scenes[] = {
    {"virtual clock", false, false, false, false},
    {"real clock", true, false, false, false},
    {"precise", true, true, false, false},
    {"on the loop alone", false, false, true, false},
    {"precise, own threads", true, true, false, true},
};
#define SCENES (sizeof scenes / sizeof scenes[0])

static struct life *new_life(const struct scene *scene, int code) {
  static struct life l;

  memset(&l, 0, sizeof l);
  l.real_clock = scene->real_clock;
  l.precise = scene->precise;
  l.alone = scene->alone;
  l.own_threads = scene->own_threads;
  l.code = code;
  return &l;
}

/* Later calls are much alike, so n grows faster, unless the run is to be long. */
static long next(long n) {
  return n < 40 || is_long() ? n + 1 : n + n / 8;
}

static enum greatest_test_res sweep(enum refusable which, const struct scene *scene, bool all,
                                    int code, long *ret_refused) {
  long hit = 1;

  for (long n = 0; hit > 0; n = next(n)) {
    struct life *l = new_life(scene, code);
    bool well;

    ASSERT(n < ENOUGH);
    l->stuck = which == REFUSE_QUEUE_WORK && all;
    refuse_after(which, n, all, code);
    well = life_run(l);
    hit = refuse_count();
    *ret_refused += hit;
    if (!well) {
      printf("%s, %s, %s %ld: ", scene->name, refuse_names[which], all ? "all from" : "number", n);
      life_say(l);
      FAIL();
    }
    /* Open needs most of these calls. A call that only affects speed or a thread's name is not
     * essential. */
    ASSERT(l->opened || hit > 0);
  }
  PASS();
}

static enum greatest_test_res sweep_all(enum refusable which, int code, unsigned in) {
  long refused = 0;

  for (unsigned i = 0; i < SCENES; i++)
    for (int all = 0; all < 2; all++)
      if ((in & 1u << i) != 0)
        CHECK_CALL(sweep(which, &scenes[i], all != 0, code, &refused));
  printf("%s: %ld refused\n", refuse_names[which], refused);
  ASSERTm("nothing was ever refused", refused > 0);
  PASS();
}

#define VIRTUAL 1u
#define REAL 2u
#define PRECISE 4u
#define ALONE 8u
#define OWN 16u

/* The directory of lanes is created once per process, so this must be the first test. */
TEST a_scheduler_survives_failures_of_the_lane_directory(void) {
  CHECK_CALL(sweep_all(REFUSE_CALLOC, UV_ENOMEM, VIRTUAL));
  PASS();
}

/* Without faults all steps pass; otherwise the other tests would prove nothing. */
TEST a_scheduler_without_faults_passes_all_steps(void) {
  refuse_nothing();
  for (unsigned i = 0; i < 8 * SCENES; i++) {
    struct life *l = new_life(&scenes[i % SCENES], 0);

    if (!life_run(l)) {
      printf("%s: ", scenes[i % SCENES].name);
      life_say(l);
      FAIL();
    }
    ASSERT(l->opened);
  }
  PASS();
}

/* L10 */
TEST a_scheduler_survives_failures_of_its_allocator(void) {
  CHECK_CALL(sweep_all(REFUSE_MEMORY, UV_ENOMEM, VIRTUAL | PRECISE | ALONE | OWN));
  PASS();
}

TEST a_scheduler_survives_failures_of_uv_queue_work(void) {
  CHECK_CALL(sweep_all(REFUSE_QUEUE_WORK, UV_EAGAIN, VIRTUAL | REAL | PRECISE));
  PASS();
}

TEST a_scheduler_survives_failures_of_uv_async_init(void) {
  CHECK_CALL(sweep_all(REFUSE_ASYNC_INIT, UV_EMFILE, VIRTUAL | PRECISE | OWN));
  PASS();
}

TEST a_scheduler_survives_failures_of_uv_timer_start(void) {
  CHECK_CALL(sweep_all(REFUSE_TIMER_START, UV_EINVAL, REAL));
  PASS();
}

TEST a_scheduler_survives_failures_of_timerfd_calls(void) {
  CHECK_CALL(sweep_all(REFUSE_TIMERFD_CREATE, UV_EMFILE, REAL | PRECISE | OWN));
  CHECK_CALL(sweep_all(REFUSE_TIMERFD_SETTIME, UV_EINVAL, REAL | PRECISE));
  CHECK_CALL(sweep_all(REFUSE_POLL_INIT, UV_ENOMEM, REAL | PRECISE | OWN));
  PASS();
}

TEST a_scheduler_survives_failures_of_lock_and_thread_creation(void) {
  CHECK_CALL(sweep_all(REFUSE_MUTEX_INIT, UV_ENOMEM, VIRTUAL | OWN));
  CHECK_CALL(sweep_all(REFUSE_COND_INIT, UV_EAGAIN, VIRTUAL | OWN));
  CHECK_CALL(sweep_all(REFUSE_THREAD_CREATE, UV_EAGAIN, VIRTUAL | OWN));
  CHECK_CALL(sweep_all(REFUSE_SETNAME, UV_ERANGE, VIRTUAL));
  PASS();
}

TEST a_scheduler_survives_failures_of_mmap_and_madvise(void) {
  CHECK_CALL(sweep_all(REFUSE_MMAP, UV_ENOMEM, VIRTUAL));
  CHECK_CALL(sweep_all(REFUSE_MADVISE, UV_EINVAL, VIRTUAL));
  PASS();
}

/* ------------------------------------------------------------------ by chance --- */

/* SEED=n repeats the sequence from there. Which call fails also depends on the timing of
 * threads. */
TEST a_scheduler_survives_random_failures_of_all_calls(void) {
  unsigned lives = is_long() ? 5000 : 200, opened = 0;
  long refused = 0;

  for (unsigned i = 0; i < lives; i++) {
    uint64_t seed = test_seed + i;
    struct life *l = new_life(&scenes[seed % SCENES], UV_EAGAIN);
    bool well;

    refuse_randomly(seed * UINT64_C(0x2545f4914f6cdd1d), 8u << seed / SCENES % 6, UV_EAGAIN);
    well = life_run(l);
    refused += refuse_count();
    opened += l->opened;
    if (!well) {
      printf("SEED=%llu: ", (unsigned long long)seed);
      life_say(l);
      FAIL();
    }
  }
  printf("%u lives, %u of them opened, %ld calls refused\n", lives, opened, refused);
  ASSERT(opened > lives / 4);
  ASSERT(refused > lives);
  PASS();
}

/* --------------------------------------------------------------- the embedder --- */

static unsigned closed_by_others;

static void close_ours(uv_handle_t *h, void *arg) {
  struct life *l = arg;

  if (!uvs_owns_handle(l->s, h) || uv_is_closing(h))
    return;
  /* Which handles: all, or any subset. */
  if (l->code != 0 && (l->code >> closed_by_others & 1) == 0) {
    closed_by_others++;
    return;
  }
  closed_by_others++;
  uv_close(h, NULL);
  l->lost = true;
}

static void close_handles(struct life *l, int step) {
  if (step != l->at)
    return;
  closed_by_others = 0;
  uv_walk(&l->loop, close_ours, l);
}

TEST a_scheduler_survives_handles_closed_by_the_embedder_before_any_step(void) {
  unsigned lost = 0;

  refuse_nothing();
  for (unsigned i = 0; i < SCENES; i++)
    for (int mask = 0; mask < 16; mask++)
      for (int at = 0; at < life_steps; at++) {
        struct life *l = new_life(&scenes[i], mask);

        if (mask >= 4 && !scenes[i].real_clock)
          continue; /* there are only two */
        l->before = close_handles;
        l->at = at;
        if (!life_run(l)) {
          printf("%s, handles %x closed before step %d: ", scenes[i].name, (unsigned)mask, at);
          life_say(l);
          FAIL();
        }
        lost += l->lost;
      }
  printf("%u lives lost handles\n", lost);
  ASSERT(lost > (unsigned)life_steps);
  PASS();
}

enum { WELL, NOT_REFUSED, NOT_CLOSED, CALLED_BACK, LEFT, NOT_FREED };

/* In the child: every call is refused, closing frees the memory, and no callback is called. */
static int child_life(struct life *l) {
  int called = l->cleaned + l->quiet + l->out;
  int over = 0;
  uvs_task_t t;

  for (unsigned i = 0; i < l->tasks; i++)
    over += atomic_load(&l->account[i].dones);
  uvs_task_init(&t);
  t.after = (uvs_after_cb)abort;
  if (uvs_submit(l->s, &t, NULL) != UV_ENOTSUP || uvs_shutdown(l->s) != UV_ENOTSUP)
    return NOT_REFUSED;
  if (l->lane[0] != 0 && uvs_lane_submit(l->lane[0], &t, NULL) != UV_ENOTSUP &&
      uvs_lane_is_disposed(l->lane[0]) != 1)
    return NOT_REFUSED;
  if (l->q != NULL && uvs_queue_put(l->q, l, 0, NULL) != UV_ENOTSUP)
    return NOT_REFUSED;
  if (uvs_close(l->s, NULL) != 0)
    return NOT_CLOSED;
  if (l->q != NULL && uvs_queue_close(l->q) != 0)
    return NOT_CLOSED;
  if (l->pool != NULL && uvs_threads_close(l->pool) != 0)
    return NOT_CLOSED;
  for (unsigned i = 0; i < l->tasks; i++)
    over -= atomic_load(&l->account[i].dones);
  if (over != 0 || called != l->cleaned + l->quiet + l->out)
    return CALLED_BACK;
  return atomic_load(&l->fault.live) == 0 ? WELL : LEFT;
}

static int forked[NOT_FREED + 1];

static void fork_here(struct life *l, int step) {
  int status = 0;
  pid_t pid;

  if (step != l->at)
    return;
  fflush(NULL);
  pid = fork();
  if (pid == 0) {
    alarm(20);
    _exit(child_life(l));
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) ||
      WEXITSTATUS(status) >= NOT_FREED) {
    l->wrong = "the child ended badly";
    l->wrong_code = status;
    return;
  }
  forked[WEXITSTATUS(status)]++;
  /* The child does not free what a thread of the parent was about to change at the fork. So memory
   * may be left in the child, but not if there was no other thread. */
  if (WEXITSTATUS(status) != WELL && (l->alone || WEXITSTATUS(status) != LEFT)) {
    l->wrong = "the child";
    l->wrong_code = WEXITSTATUS(status);
  }
}

TEST a_scheduler_survives_a_fork_before_any_step(void) {
  if (UNDER_TSAN)
    SKIP();
  refuse_nothing();
  memset(forked, 0, sizeof forked);
  for (unsigned i = 0; i < SCENES; i++)
    for (int at = 0; at < life_steps; at++) {
      struct life *l = new_life(&scenes[i], 0);

      l->before = fork_here;
      l->at = at;
      if (!life_run(l)) {
        printf("%s, forked before step %d: ", scenes[i].name, at);
        life_say(l);
        FAIL();
      }
    }
  printf("%d children freed all, %d left what a thread had in hand\n", forked[WELL], forked[LEFT]);
  ASSERT(forked[WELL] >= life_steps);
  PASS();
}

/* On kernels without pages that are wiped in a child, the process id shows the fork. */
TEST a_scheduler_survives_a_fork_without_kernel_support_for_detecting_it(void) {
  if (UNDER_TSAN)
    SKIP();
  for (int at = 0; at < life_steps - 1; at++) { /* the last step grants everything */
    struct life *l = new_life(&scenes[3], 0);

    l->before = fork_here;
    l->at = at;
    refuse_after(REFUSE_MADVISE, 0, true, UV_EINVAL);
    if (!life_run(l)) {
      printf("forked before step %d: ", at);
      life_say(l);
      FAIL();
    }
    ASSERT(refuse_count() > 0);
  }
  PASS();
}

SUITE(systematically) {
  RUN_TEST(a_scheduler_survives_failures_of_the_lane_directory);
  RUN_TEST(a_scheduler_without_faults_passes_all_steps);
  RUN_TEST(a_scheduler_survives_failures_of_its_allocator);
  RUN_TEST(a_scheduler_survives_failures_of_uv_queue_work);
  RUN_TEST(a_scheduler_survives_failures_of_uv_async_init);
  RUN_TEST(a_scheduler_survives_failures_of_uv_timer_start);
  RUN_TEST(a_scheduler_survives_failures_of_timerfd_calls);
  RUN_TEST(a_scheduler_survives_failures_of_lock_and_thread_creation);
  RUN_TEST(a_scheduler_survives_failures_of_mmap_and_madvise);
}

SUITE(by_chance) {
  RUN_TEST(a_scheduler_survives_random_failures_of_all_calls);
}

SUITE(embedder) {
  RUN_TEST(a_scheduler_survives_handles_closed_by_the_embedder_before_any_step);
  RUN_TEST(a_scheduler_survives_a_fork_before_any_step);
  RUN_TEST(a_scheduler_survives_a_fork_without_kernel_support_for_detecting_it);
}

TEST_MAIN(RUN_SUITE(systematically); RUN_SUITE(by_chance); RUN_SUITE(embedder));
