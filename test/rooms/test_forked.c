/* SPDX-License-Identifier: MIT
 *
 * A child of the process that opened a scheduler is recognized, whatever the system answers to the
 * advice that wipes a page in the child. The answers to madvise are ours to give.
 */
#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "port/platform.h"

#include "lib/unit.h"

int __real_madvise(void *addr, size_t length, int advice);
int __wrap_madvise(void *addr, size_t length, int advice);

static enum answer {
  AS_IT_IS,
  KNOWS_IT,     /* as Linux 4.14 and newer; only says so */
  ACCEPTS_ALL,  /* as qemu-user, which ignores it */
  DOES_NOT_KNOW /* as older kernels and valgrind */
} madvise_answers;

int __wrap_madvise(void *addr, size_t length, int advice) {
  bool known = madvise_answers == KNOWS_IT && advice == MADV_WIPEONFORK;

  if (madvise_answers == AS_IT_IS)
    return __real_madvise(addr, length, advice);
  if (madvise_answers == ACCEPTS_ALL || known)
    return 0;
  errno = EINVAL;
  return -1;
}

static bool child_says_forked(const struct uvs__fork *f) {
  int status;
  pid_t pid;

  fflush(NULL);
  pid = fork();
  if (pid == 0)
    _exit(uvs__forked(f) ? 7 : 8);
  return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
         WEXITSTATUS(status) == 7;
}

/* L8 */
TEST a_child_is_recognized_whatever_madvise_answers(void) {
  for (int i = 0; i < 3; i++) {
    struct uvs__fork f;

    madvise_answers = (enum answer[]){AS_IT_IS, ACCEPTS_ALL, DOES_NOT_KNOW}[i];
    ASSERT_RC(0, uvs__fork_init(&f));
    ASSERT(!uvs__forked(&f));
    ASSERT(child_says_forked(&f));
    ASSERT(!uvs__forked(&f));
    uvs__fork_destroy(&f);
  }
  PASS();
}

TEST process_ids_are_compared_only_if_the_page_is_not_surely_wiped(void) {
  struct uvs__fork f;

  madvise_answers = KNOWS_IT;
  ASSERT_RC(0, uvs__fork_init(&f));
  ASSERT_RC(0, f.pid);
  uvs__fork_destroy(&f);
  madvise_answers = ACCEPTS_ALL;
  ASSERT_RC(0, uvs__fork_init(&f));
  ASSERT_RC(getpid(), f.pid);
  uvs__fork_destroy(&f);
  PASS();
}

SUITE(forked) {
  RUN_TEST(a_child_is_recognized_whatever_madvise_answers);
  RUN_TEST(process_ids_are_compared_only_if_the_page_is_not_surely_wiped);
}

TEST_MAIN(RUN_SUITE(forked));
