/* SPDX-License-Identifier: MIT
 *
 * What only the store in Redis does: a server that loses its data, is started again, or is full;
 * requests that are too large for one command.
 */
#include "store_fixture.h"

#include <string.h>

#include "jobs/redis_store.h"
#include "redis_ns.h"

#define DAY (86400 * SEC)

/* --------------------------------------------------------------- lost, full --- */

/* Q62 */
TEST a_server_that_was_flushed_is_noticed_and_used_again(void) {
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_last_event(f.first));
  redis_ns_flush();
  EQ(UV_EAGAIN, store_put_simple(&f, "q", "b"));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(UVS_EVENT_STORE_RESET, store_last_event(f.first));
  SAYS("b", store_claim(&f, "q", 9));
  EQ(0, store_ack(&f, 0));
  store_close(&f);
  PASS();
}

TEST other_data_is_noticed_as_well(void) {
  struct store_fixture f;

  store_init(&f);
  ((struct uvs__redis *)(void *)f.first)->leads = true;
  store_woken(f.first); /* it has subscribed */
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  redis_ns_flush();
  EQ(0, store_open_second(&f)); /* makes a new epoch */
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("* ", store_woken(f.first));
  SAYS("a", store_claim(&f, "q", 9));
  f.at = f.first;
  EQ(UV_EAGAIN, store_ack(&f, 0));
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(UVS_EVENT_STORE_RESET, store_last_event(f.first));
  EQ(0, store_last_event(f.second));
  store_close(&f);
  PASS();
}

TEST fences_jump_when_the_server_was_started_again(void) {
  struct store_fixture f;
  uint64_t fence;
  int rc;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  SAYS("a", store_claim(&f, "q", 9));
  fence = f.claimed[0]->fence;
  redis_ns_restart();
  do
    rc = store_put_simple(&f, "q", "b");
  while (rc == UV_EAGAIN || rc == UVS_EUNKNOWN);
  ASSERT(rc == 0 || rc == UVS_JOB_EXISTS);
  EQ(0, store_ack(&f, 0)); /* the claim before is good */
  SAYS("b", store_claim(&f, "q", 9));
  EQ(fence + (UINT64_C(1) << 32) + 1, f.claimed[0]->fence);
  EQ(0, store_last_event(f.first));
  store_close(&f);
  PASS();
}

/* Q61 */
TEST a_full_server_refuses_puts_and_can_be_drained(void) {
  uvs_job_queue_t queue = store_queue("q");
  struct store_fixture f;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(0, store_put_simple(&f, "q", "b"));
  redis_ns_ask("CONFIG SET maxmemory 1mb");
  EQ(UV_ENOSPC, store_put_simple(&f, "q", "c"));
  ASSERT(f.first->trouble[0] != '\0');
  SAYS("a b", store_claim(&f, "q", 9));
  EQ(0, store_retry(&f, 0, 0));
  EQ(0, store_ack(&f, 1));
  SAYS("a", store_claim(&f, "q", 9));
  EQ(0, store_bury(&f, 0, "why"));
  EQ(UVS_JOB_DEAD, store_state(&f, "q", "a"));
  queue.paused = 0;
  EQ(0, store_set_queue(&f, &queue)); /* a paused queue can be let go on */
  redis_ns_ask("CONFIG SET maxmemory 0");
  EQ(0, store_put_simple(&f, "q", "c"));
  store_close(&f);
  PASS();
}

TEST data_of_another_format_is_refused(void) {
  struct store_fixture f;
  char command[200];
  const char *ns;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "a"));
  ns = strstr(f.name, "ns=") + 3;
  snprintf(command, sizeof command, "HSET {%.*s}:meta version 999", (int)strcspn(ns, "&"), ns);
  redis_ns_ask(command);
  EQ(0, store_open_second(&f));
  EQ(UV_EIO, store_put_simple(&f, "q", "b"));
  ASSERT(strstr(f.second->trouble, "999") != NULL);
  store_close(&f);
  PASS();
}

/* ------------------------------------------------------------ large requests --- */

TEST a_request_may_be_larger_than_a_command(void) {
  static struct uvs__put puts[3000];
  static char rests[3000][16], payload[3000];
  struct store_fixture f;
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = puts, .n = 3000};
  char rest[20];
  size_t n;

  store_init(&f);
  for (int i = 0; i < 3000; i++) {
    snprintf(rests[i], sizeof rests[i], "%04d", i);
    puts[i].job = store_job("q", rests[i]);
    puts[i].job.payload.data = payload;
    puts[i].job.payload.size = sizeof payload;
  }
  store_run(&f, &r.r);
  EQ(0, r.r.status);
  for (int i = 0; i < 3000; i++)
    EQ(0, puts[i].status);
  for (n = 0; n < 3000; n += f.n_claimed) {
    store_claim(&f, "q", 1000);
    ASSERT(f.n_claimed >= 200 && f.n_claimed < 500); /* about a megabyte */
    snprintf(rest, sizeof rest, "%04zu", n);
    SAYS(rest, f.claimed[0]->rest);
    EQ(3000, f.claimed[0]->payload.size);
    EQ(n + f.n_claimed < 3000 ? store_now(&f) : store_now(&f) + f.lease_us, f.next_us);
  }
  EQ(3000, n);
  store_close(&f);
  PASS();
}

TEST a_request_may_name_more_queues_than_a_command(void) {
  static struct uvs__put puts[120];
  static char queues[120][16];
  struct store_fixture f;
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = puts, .n = 120};

  store_init(&f);
  for (int i = 0; i < 120; i++) {
    snprintf(queues[i], sizeof queues[i], "q%03d", 119 - i);
    puts[i].job = store_job(queues[i], "a");
  }
  store_run(&f, &r.r);
  EQ(0, r.r.status);
  ASSERT(store_count(&f, "q119") != NULL);
  EQ(120, f.stats.n_queues);
  EQ(120, f.stats.pending);
  SAYS("q000", f.stats.queues[0].queue);
  SAYS("q119", f.stats.queues[119].queue);
  store_close(&f);
  PASS();
}

TEST puts_that_follow_each_other_share_a_command(void) {
  struct store_fixture f;
  struct uvs__put puts[30] = {0};
  struct uvs__put_request r[30] = {0};
  char rests[30][8];
  long long commands;

  store_init(&f);
  EQ(0, store_put_simple(&f, "q", "first"));
  for (int i = 0; i < 30; i++) {
    snprintf(rests[i], sizeof rests[i], "%02d", i);
    puts[i].job = store_job("q", i == 7 ? "first" : rests[i]);
    r[i] = (struct uvs__put_request){.r = {.op = UVS__PUT}, .puts = &puts[i], .n = 1};
    r[i].r.next = i < 29 ? &r[i + 1].r : NULL;
  }
  redis_ns_ask("CONFIG RESETSTAT");
  store_run(&f, &r[0].r);
  commands = redis_ns_commands("evalsha");
  for (int i = 0; i < 30; i++) {
    EQ(0, r[i].r.status);
    EQ(i == 7 ? UVS_JOB_EXISTS : 0, puts[i].status);
    uvs__arena_free(&r[i].arena);
  }
  EQ(1, commands);
  store_close(&f);
  PASS();
}

/* Otherwise they are removed only by TRIM where the clock is replaced. */
TEST old_records_are_removed_by_any_request(void) {
  struct store_fixture f;
  struct uvs__record job = store_job("q", "kept");
  char rest[20], command[200];
  const char *ns;

  store_init(&f);
  ns = strstr(f.name, "ns=") + 3;
  snprintf(command, sizeof command, "HLEN {%.*s}:end", (int)strcspn(ns, "&"), ns);
  for (int i = 0; i < 30; i++) {
    snprintf(rest, sizeof rest, "%d", i);
    EQ(0, store_put_simple(&f, "q", rest));
    EQ(0, store_cancel(&f, "q", rest));
  }
  job.keep_us = 60 * SEC;
  EQ(0, store_put(&f, &job));
  EQ(0, store_cancel(&f, "q", "kept"));
  EQ(31, redis_ns_ask(command));
  store_advance(&f, UVS__REPEAT_US);
  EQ(0, store_put_simple(&f, "q", "a"));
  EQ(31, redis_ns_ask(command));
  ((struct uvs__redis *)(void *)f.first)->housekeeping = 20;
  SAYS("a", store_claim(&f, "q", 1));
  EQ(11, redis_ns_ask(command));
  EQ(0, store_retry(&f, 0, 0));
  EQ(1, redis_ns_ask(command));
  store_advance(&f, UVS__REPEAT_US - 1);
  EQ(0, store_put_simple(&f, "q", "b"));
  EQ(1, redis_ns_ask(command));
  store_advance(&f, 1);
  EQ(0, store_put_simple(&f, "q", "c"));
  EQ(0, redis_ns_ask(command));
  EQ(0, store_trim(&f, 9, 9, DAY, 9));
  store_close(&f);
  PASS();
}

/* Q64 */
TEST the_clock_is_known_when_the_store_is_open(void) {
  struct store_fixture f;
  struct uvs__store_config config = {0};
  struct uvs__store *store;
  char text[300];
  uv_timeval64_t t;
  int64_t now_us;

  store_init(&f);
  config.name = f.name;
  EQ(0, uvs__redis_open(&config, &store, text, sizeof text));
  ASSERT(((struct uvs__redis *)(void *)store)->knows_offset);
  uv_gettimeofday(&t); /* the server is on this machine */
  now_us = store->ops->now_us(store);
  ASSERT(now_us > (t.tv_sec - 60) * 1000000 && now_us < (t.tv_sec + 60) * 1000000);
  store->ops->close(store);
  store_close(&f);
  PASS();
}

TEST the_offset_of_the_clock_moves_only_if_an_answer_proves_it_wrong(void) {
  struct uvs__redis s = {.knows_offset = false};

  uvs__redis_note_clock(&s, (struct uvs__redis_reading){0, 0, 0});
  ASSERT_FALSE(s.knows_offset);
  uvs__redis_note_clock(&s, (struct uvs__redis_reading){5000000, 1000000000, 1002000000});
  EQ(3999000, s.offset_us); /* in the middle */
  uvs__redis_note_clock(&s, (struct uvs__redis_reading){6000500, 2000000000, 2003000000});
  EQ(3999000, s.offset_us);
  uvs__redis_note_clock(&s, (struct uvs__redis_reading){9000000, 3000000000, 3000100000});
  EQ(9000000 - 3000100 - 1, s.offset_us); /* it was set forward */
  uvs__redis_note_clock(&s, (struct uvs__redis_reading){1000000, 4000000000, 4000100000});
  EQ(1000000 - 4000000 + 1, s.offset_us);
  PASS();
}

SUITE(lost) {
  RUN_TEST(a_server_that_was_flushed_is_noticed_and_used_again);
  RUN_TEST(other_data_is_noticed_as_well);
  RUN_TEST(fences_jump_when_the_server_was_started_again);
  RUN_TEST(a_full_server_refuses_puts_and_can_be_drained);
  RUN_TEST(data_of_another_format_is_refused);
}

SUITE(house) {
  RUN_TEST(old_records_are_removed_by_any_request);
  RUN_TEST(the_clock_is_known_when_the_store_is_open);
  RUN_TEST(the_offset_of_the_clock_moves_only_if_an_answer_proves_it_wrong);
}

SUITE(large) {
  RUN_TEST(a_request_may_be_larger_than_a_command);
  RUN_TEST(a_request_may_name_more_queues_than_a_command);
  RUN_TEST(puts_that_follow_each_other_share_a_command);
}

TEST_MAIN(store_kind = store_kind_named("redis"); RUN_SUITE(lost); RUN_SUITE(house);
          RUN_SUITE(large));
