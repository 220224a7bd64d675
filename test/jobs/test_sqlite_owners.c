/* SPDX-License-Identifier: MIT
 *
 * Several openers of one SQLite file: the leases of an opener that died end at once, and those of
 * living openers do not.
 */
#include "sqlite_fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A child opens the same file, claims all jobs of the queue "q", and waits to be killed. */
static pid_t start_claimer(struct store_fixture *f) {
  int ready[2];
  pid_t child;
  char byte = 0;

  if (pipe(ready) != 0)
    return -1;
  fflush(stdout);
  child = fork();
  if (child == 0) {
    if (store_open_second(f) != 0)
      _exit(1);
    store_claim(f, "q", 100);
    if (write(ready[1], f->n_claimed > 0 ? "y" : "n", 1) != 1)
      _exit(1);
    for (;;)
      pause();
  }
  close(ready[1]);
  if (read(ready[0], &byte, 1) != 1)
    byte = 0;
  close(ready[0]);
  return byte == 'y' ? child : -1;
}

static void kill_and_wait(pid_t child) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}

/* Q1 Q14 */
TEST the_leases_of_a_killed_process_end_at_once(void) {
  struct store_fixture f;
  pid_t child;

  sqlite_only();
  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  child = start_claimer(&f);
  ASSERT(child > 0);
  f.first->ops->poll(f.first);
  SAYS("", store_claim(&f, "q", 9));
  ASSERT_FALSE(f.first->ops->poll(f.first));
  kill_and_wait(child);
  ASSERT(f.first->ops->poll(f.first));
  SAYS("a b", store_claim(&f, "q", 9));
  ASSERT(f.claimed[0]->crashed_now);
  EQ(1, f.claimed[0]->crashes);
  ASSERT_FALSE(f.first->ops->poll(f.first));
  store_close(&f);
  PASS();
}

/* Q1 Q14 */
TEST a_process_that_opens_the_file_ends_the_leases_of_the_dead(void) {
  struct store_fixture f;
  pid_t child;

  sqlite_only();
  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  child = start_claimer(&f);
  ASSERT(child > 0);
  kill_and_wait(child);
  EQ(0, store_reopen(&f));
  SAYS("a", store_claim(&f, "q", 9));
  ASSERT(f.claimed[0]->crashed_now);
  store_close(&f);
  PASS();
}

/* Q14 */
TEST the_leases_of_another_opener_of_this_process_stay(void) {
  struct store_fixture f;

  sqlite_only();
  store_init(&f);
  EQ(0, store_open_second(&f));
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9)); /* by the second */
  f.at = f.first;
  f.first->ops->poll(f.first);
  SAYS("", store_claim(&f, "q", 9));
  f.second->ops->close(f.second);
  f.second = NULL;
  ASSERT(f.first->ops->poll(f.first));
  SAYS("a", store_claim(&f, "q", 9));
  store_close(&f);
  PASS();
}

/* Q53 */
TEST what_a_dead_process_had_finished_stays_finished(void) {
  struct store_fixture f;
  int status = -1;
  pid_t child;

  sqlite_only();
  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  fflush(stdout);
  child = fork();
  if (child == 0) {
    if (store_open_second(&f) != 0 || strcmp(store_claim(&f, "q", 2), "a b") != 0 ||
        store_ack(&f, 0) != 0 || store_release(&f, 1, 60 * SEC) != 0)
      _exit(1);
    raise(SIGKILL);
  }
  waitpid(child, &status, 0);
  ASSERT(WIFSIGNALED(status));
  ASSERT(f.first->ops->poll(f.first));
  SAYS("", store_claim(&f, "q", 9));
  EQ(UVS_JOB_DONE, store_state(&f, "q", "a"));
  EQ(UVS_JOB_PENDING, store_state(&f, "q", "b"));
  store_close(&f);
  PASS();
}

TEST numbers_of_owners_are_not_used_again(void) {
  struct sqlite_folder f;
  int64_t first, second;

  folder_init(&f);
  EQ(0, folder_open(&f));
  first = sql_number(f.file, "SELECT owner FROM uvs_owners");
  folder_close(&f);
  EQ(0, sql_number(f.file, "SELECT count(*) FROM uvs_owners"));
  EQ(0, folder_open(&f));
  second = sql_number(f.file, "SELECT owner FROM uvs_owners");
  ASSERT(second > first);
  folder_close(&f);
  folder_remove(&f);
  PASS();
}

/* A file that was restored from an older copy has a lower number than its openers. */
TEST a_number_whose_lock_is_taken_is_passed_over(void) {
  struct sqlite_folder f, other;
  int64_t number;

  folder_init(&f);
  EQ(0, folder_open(&f));
  number = sql_number(f.file, "SELECT owner FROM uvs_owners");
  sql_run(f.file, "DELETE FROM uvs_owners; UPDATE uvs_meta SET value = 0 WHERE name = 'owner'");
  other = f;
  EQ(0, folder_open(&other));
  EQ(number + 1, sql_number(f.file, "SELECT owner FROM uvs_owners"));
  folder_close(&other);
  folder_close(&f);
  folder_remove(&f);
  PASS();
}

TEST openers_through_a_symbolic_link_share_the_owners(void) {
  struct sqlite_folder f, link;
  char path[400];

  folder_init(&f);
  link = f;
  snprintf(link.file, sizeof link.file, "%.250s/link.db", f.path);
  EQ(0, folder_open(&f));
  EQ(0, symlink(f.file, link.file));
  EQ(0, folder_open(&link));
  EQ(2, sql_number(f.file, "SELECT count(*) FROM uvs_owners"));
  EQ(-1, file_size(folder_file(&f, "link.db-owners", path)));
  f.store->ops->poll(f.store);
  EQ(2, sql_number(f.file, "SELECT count(*) FROM uvs_owners"));
  folder_close(&link);
  folder_close(&f);
  folder_remove(&f);
  PASS();
}

/* Q15. A power failure may undo the last claims. The file is replaced by an older copy from an
 * earlier start of the system, as if there had been one. */
TEST fences_that_a_power_failure_has_undone_are_not_drawn_again(void) {
  struct store_fixture f;
  struct file_copy copy;
  uint64_t last;
  int i;

  sqlite_only();
  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 1));
  EQ(0, store_release(&f, 0, 0));
  sql_run(f.name, "UPDATE uvs_meta SET value = value + 1 WHERE name = 'boot'");
  EQ(0, f.first->ops->idle(f.first)); /* everything is in the file */
  copy = file_read(f.name);
  for (i = 0; i < 100; i++) {
    SAYS("a", store_claim(&f, "q", 1));
    EQ(0, store_release(&f, 0, 0));
  }
  last = f.claimed[0]->fence;
  f.first->ops->close(f.first);
  file_write(f.name, copy.data, copy.size);
  free(copy.data);
  EQ(0, store_open_second(&f));
  f.first = f.second;
  f.second = NULL;
  SAYS("a", store_claim(&f, "q", 1));
  ASSERT(f.claimed[0]->fence > last);
  last = f.claimed[0]->fence;
  EQ(0, store_release(&f, 0, 0));
  EQ(0, store_reopen(&f)); /* only once */
  SAYS("a", store_claim(&f, "q", 1));
  EQ(last + 1, f.claimed[0]->fence);
  store_close(&f);
  PASS();
}

SUITE(owners) {
  RUN_TEST(the_leases_of_a_killed_process_end_at_once);
  RUN_TEST(a_process_that_opens_the_file_ends_the_leases_of_the_dead);
  RUN_TEST(the_leases_of_another_opener_of_this_process_stay);
  RUN_TEST(what_a_dead_process_had_finished_stays_finished);
  RUN_TEST(numbers_of_owners_are_not_used_again);
  RUN_TEST(a_number_whose_lock_is_taken_is_passed_over);
  RUN_TEST(fences_that_a_power_failure_has_undone_are_not_drawn_again);
  RUN_TEST(openers_through_a_symbolic_link_share_the_owners);
}

TEST_MAIN(RUN_SUITE(owners));
