/* SPDX-License-Identifier: MIT
 *
 * A program that ends while a body runs, and a body that ends its thread. uvsched.h says what
 * happens then; each test has a child process of its own, which has no thread yet when it begins.
 * An alarm ends a child that hangs where it should not.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "uvsched.h"
#include "uvsched/stats.h"

#include "lib/unit.h"

#define CHILD_SECONDS 60

static _Atomic int body_runs, exiting, thread_ended;
static int answers[2]; /* a pipe: the child's body tells the parent what it saw */
static pthread_key_t key;

/* Runs `child` in a process of its own. Returns its exit code, or -1. */
static int in_a_child(void (*child)(void)) {
  int status;
  pid_t pid = fork();

  if (pid == 0) {
    alarm(CHILD_SECONDS);
    child();
    _exit(99);
  }
  if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
    return -1;
  return WEXITSTATUS(status);
}

static void open_or_die(uv_loop_t *loop, uvs_t **s, uvs_work_cb work) {
  if (uv_loop_init(loop) != 0 || uvs_open(loop, NULL, s) != 0 || uvs_execute(*s, work, NULL) != 0)
    _exit(98);
  while (atomic_load(&body_runs) == 0)
    uv_run(loop, UV_RUN_NOWAIT);
}

/* ---- exit ---- */

static int sees_no_token(uvs_run_t *run) {
  char token = 'n';

  atomic_store(&body_runs, 1);
  while (atomic_load(&exiting) == 0)
    uv_sleep(1);
  for (int i = 0; i < 20; i++) { /* exit waits meanwhile */
    uv_sleep(1);
    if (uvs_cancelled(run))
      token = 'y';
  }
  return write(answers[1], &token, 1) == 1 ? 0 : UV_EIO;
}

static void exit_while_a_body_runs(void) {
  static uv_loop_t loop;
  uvs_t *s;

  open_or_die(&loop, &s, sees_no_token);
  atomic_store(&exiting, 1);
  exit(7);
}

TEST exit_waits_for_a_body_on_the_pool_and_does_not_ask_it_to_stop(void) {
  char token = '?';

  ASSERT_EQ(0, pipe(answers));
  ASSERT_EQ_FMT(7, in_a_child(exit_while_a_body_runs), "%d");
  close(answers[1]);
  ASSERT_EQ(1, read(answers[0], &token, 1)); /* the body has come to its end */
  close(answers[0]);
  ASSERT_EQ_FMT('n', token, "%c");
  PASS();
}

/* ---- pthread_exit ---- */

static void note_end(void *value) {
  (void)value;
  atomic_store(&thread_ended, 1);
}

static int ends_its_thread(uvs_run_t *run) {
  (void)run;
  pthread_setspecific(key, &key);
  atomic_store(&body_runs, 1);
  pthread_exit(NULL);
}

/* The tools that look for leaks at exit would find the thread. */
static void answer_and_die(char answer) {
  if (write(answers[1], &answer, 1) == 1)
    raise(SIGKILL);
  _exit(96);
}

static void close_after_a_body_ended_its_thread(void) {
  static uv_loop_t loop;
  uvs_counts_t counts;
  uvs_t *s;

  if (pthread_key_create(&key, note_end) != 0)
    _exit(97);
  open_or_die(&loop, &s, ends_its_thread);
  while (atomic_load(&thread_ended) == 0)
    uv_sleep(1);
  uvs_counts_init(&counts);
  if (uvs_counts(s, &counts) != 0 || counts.running != 1)
    answer_and_die('1');
  if (uvs_close(s, NULL) != 0)
    answer_and_die('2');
  for (int i = 0; i < 100; i++) {
    if (uv_run(&loop, UV_RUN_NOWAIT) == 0)
      answer_and_die('3'); /* closed, although the run has not ended */
  }
  answer_and_die('k');
}

TEST the_run_of_a_body_that_ends_its_thread_never_ends(void) {
  char answer = '?';

  ASSERT_EQ(0, pipe(answers));
  ASSERT_EQ_FMT(-1, in_a_child(close_after_a_body_ended_its_thread), "%d");
  close(answers[1]);
  ASSERT_EQ(1, read(answers[0], &answer, 1));
  close(answers[0]);
  ASSERT_EQ_FMT('k', answer, "%c");
  PASS();
}

SUITE(exits) {
  RUN_TEST(exit_waits_for_a_body_on_the_pool_and_does_not_ask_it_to_stop);
  RUN_TEST(the_run_of_a_body_that_ends_its_thread_never_ends);
}

TEST_MAIN(RUN_SUITE(exits));
