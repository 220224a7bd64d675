/* SPDX-License-Identifier: MIT
 *
 * The link with a server that has replicas: answers that wait for them, and Sentinel.
 */
#include <string.h>

#include "link_fixture.h"

static struct redis_server *master, *replica;

static void wait_for_replica(struct redis_server *s) {
  while (strstr(redis_ask(s, "INFO replication")->str, "state=online") == NULL)
    uv_sleep(10);
}

static void start_pair(void) {
  master = redis_server_start("--repl-diskless-sync-delay 0");
  replica = redis_server_start(NULL);
  redis_ask(replica, "REPLICAOF 127.0.0.1 %d", master->port);
  wait_for_replica(master);
}

static void stop_pair(void) {
  redis_server_stop(replica);
  redis_server_stop(master);
}

/* How often the server has carried out a command. */
static long long calls_of(struct redis_server *s, const char *command) {
  char line[60];
  const char *at;

  snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
  at = strstr(redis_ask(s, "INFO commandstats")->str, line);
  return at == NULL ? 0 : atoll(at + strlen(line));
}

/* Q63 */
TEST durable_answers_wait_for_the_replica(void) {
  struct link_fixture f;
  struct answer durable, plain;

  start_pair();
  link_init(&f, "redis://127.0.0.1:%d?ns=t&replicas=1&timeout=1s", master->port);
  LINK_UP(&f);
  link_send_durable(&f, &durable, SCRIPT_COUNT, "1", "{t}:d", NULL);
  RUN_UNTIL(&f, durable.times == 1);
  EQ(0, durable.status);
  EQ(1, durable.number);
  ASSERT_STR_EQ("1", redis_ask(replica, "GET {t}:d")->str);
  redis_server_pause(replica);
  link_send_durable(&f, &durable, SCRIPT_COUNT, "1", "{t}:d", NULL);
  EQ(0, link_ask(&f, &plain, SCRIPT_COUNT, "1", "{t}:p", NULL)); /* does not wait */
  EQ(0, durable.times);
  RUN_UNTIL(&f, durable.times == 1);
  EQ(UVS_EUNKNOWN, durable.status);
  ASSERT(strstr(durable.trouble, "0 of 1 replicas") != NULL);
  ASSERT_STR_EQ("2", redis_ask(master, "GET {t}:d")->str); /* it was done */
  EQ(0, f.downs);
  redis_server_resume(replica);
  link_send_durable(&f, &durable, SCRIPT_COUNT, "1", "{t}:d", NULL);
  RUN_UNTIL(&f, durable.times == 1);
  EQ(0, durable.status);
  ASSERT_STR_EQ("3", redis_ask(replica, "GET {t}:d")->str);
  link_close(&f);
  stop_pair();
  PASS();
}

TEST a_replica_that_answers_late_is_waited_for(void) {
  struct link_fixture f;
  struct answer a;

  start_pair();
  link_init(&f, "redis://127.0.0.1:%d?ns=t&replicas=1&timeout=5s", master->port);
  LINK_UP(&f);
  redis_server_pause(replica);
  link_send_durable(&f, &a, SCRIPT_COUNT, "1", "{t}:late", NULL);
  link_run_ms(&f, 300);
  EQ(0, a.times);
  redis_server_resume(replica);
  RUN_UNTIL(&f, a.times == 1);
  EQ(0, a.status);
  link_close(&f);
  stop_pair();
  PASS();
}

TEST one_wait_covers_all_answers_of_a_batch(void) {
  enum { N = 1000 };
  struct link_fixture f;
  static struct answer a[N];
  long long waits;

  start_pair();
  link_init(&f, "redis://127.0.0.1:%d?ns=t&replicas=1&timeout=30s", master->port);
  LINK_UP(&f);
  waits = calls_of(master, "wait");
  redis_server_pause(replica);
  for (int i = 0; i < N; i++)
    link_send_durable(&f, &a[i], SCRIPT_COUNT, "1", "{t}:b", NULL);
  /* All but the first batch wait for the second WAIT, which is not sent while the first one runs.
   */
  RUN_UNTIL(&f, atoll(redis_ask(master, "GET {t}:b")->type == REDIS_REPLY_STRING
                          ? redis_ask(master, "GET {t}:b")->str
                          : "0") == N);
  redis_server_resume(replica);
  RUN_UNTIL(&f, f.answers == N);
  for (int i = 0; i < N; i++) {
    EQ(1, a[i].times);
    EQ(0, a[i].status);
    EQ(i + 1, a[i].number);
  }
  waits = calls_of(master, "wait") - waits;
  ASSERT(waits >= 1 && waits < 50);
  link_close(&f);
  stop_pair();
  PASS();
}

TEST a_full_server_still_answers_durable_commands(void) {
  struct link_fixture f;
  struct answer a;

  start_pair();
  link_init(&f, "redis://127.0.0.1:%d?ns=t&replicas=1&timeout=2s", master->port);
  LINK_UP(&f);
  redis_ask(master, "CONFIG SET maxmemory 1000");
  link_send_durable(&f, &a, SCRIPT_ECHO, "1", "k", "v", NULL);
  RUN_UNTIL(&f, a.times == 1);
  EQ(0, a.status);
  link_close(&f);
  stop_pair();
  PASS();
}

TEST without_the_connection_for_wait_the_link_is_down(void) {
  struct link_fixture f;
  struct answer a;
  const char *list, *at;
  long long id;

  start_pair();
  link_init(&f, "redis://127.0.0.1:%d?ns=t&replicas=1&timeout=5s", master->port);
  LINK_UP(&f);
  redis_server_pause(replica);
  link_send_durable(&f, &a, SCRIPT_COUNT, "1", "{t}:w", NULL);
  link_run_ms(&f, 100);
  list = redis_ask(master, "CLIENT LIST")->str;
  at = strstr(list, "name=uvsched-replicas");
  ASSERT(at != NULL);
  while (at > list && at[-1] != '\n')
    at--;
  id = atoll(at + strlen("id="));
  EQ(1, redis_ask_number(master, "CLIENT KILL ID %lld", id));
  RUN_UNTIL(&f, a.times == 1);
  EQ(UVS_EUNKNOWN, a.status);
  EQ(1, f.downs);
  redis_server_resume(replica);
  LINK_UP(&f);
  link_close(&f);
  stop_pair();
  PASS();
}

/* ------------------------------------------------------------------- sentinels --- */

TEST after_a_fail_over_the_link_goes_to_the_new_master(void) {
  struct redis_server *sentinel;
  struct link_fixture f;
  struct answer a;

  start_pair();
  sentinel = redis_sentinel_start(master);
  while (strstr(redis_ask(sentinel, "INFO sentinel")->str, "slaves=1") == NULL)
    uv_sleep(10);
  /* The first sentinel is dead. */
  link_init(&f, "redis+sentinel://127.0.0.1:%d,127.0.0.1:%d/jobs?ns=t&replicas=1", free_port(),
            sentinel->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  link_send_durable(&f, &a, SCRIPT_COUNT, "1", "{t}:s", NULL);
  RUN_UNTIL(&f, a.times == 1);
  EQ(0, a.status);
  redis_server_kill(master);
  RUN_UNTIL(&f, f.downs == 1);
  RUN_UNTIL(&f, f.subscribed == 2); /* which takes the sentinel some seconds */
  ASSERT(f.link->is_up);
  EQ(0, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:s", NULL));
  EQ(2, a.number); /* what was durable is there */
  ASSERT_STR_EQ("2", redis_ask(replica, "GET {t}:s")->str);
  link_close(&f);
  redis_server_stop(sentinel);
  stop_pair();
  PASS();
}

TEST a_service_that_no_sentinel_knows_is_said(void) {
  struct redis_server *sentinel;
  struct link_fixture f;

  start_pair();
  sentinel = redis_sentinel_start(master);
  link_init(&f, "redis+sentinel://127.0.0.1:%d/other?ns=t", sentinel->port);
  RUN_UNTIL(&f, strstr(f.link->trouble, "no service of this name") != NULL);
  link_close(&f);
  redis_server_stop(sentinel);
  stop_pair();
  PASS();
}

TEST a_sentinel_with_a_password_gets_that_of_the_server(void) {
  struct redis_server *sentinel;
  struct link_fixture f;

  start_pair();
  redis_ask(master, "CONFIG SET requirepass pw");
  sentinel = redis_sentinel_start(master);
  redis_ask(sentinel, "SENTINEL SET jobs auth-pass pw");
  redis_ask(sentinel, "ACL SETUSER default >pw -nopass");
  redis_ask(sentinel, "ACL SETUSER default resetpass >pw");
  link_init(&f, "redis+sentinel://:pw@127.0.0.1:%d/jobs?ns=t", sentinel->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  link_close(&f);
  redis_server_stop(sentinel);
  stop_pair();
  PASS();
}

SUITE(replicas) {
  RUN_TEST(durable_answers_wait_for_the_replica);
  RUN_TEST(a_replica_that_answers_late_is_waited_for);
  RUN_TEST(one_wait_covers_all_answers_of_a_batch);
  RUN_TEST(a_full_server_still_answers_durable_commands);
  RUN_TEST(without_the_connection_for_wait_the_link_is_down);
}

SUITE(sentinels) {
  RUN_TEST(after_a_fail_over_the_link_goes_to_the_new_master);
  RUN_TEST(a_service_that_no_sentinel_knows_is_said);
  RUN_TEST(a_sentinel_with_a_password_gets_that_of_the_server);
}

TEST_MAIN(redis_server_need(); RUN_SUITE(replicas); RUN_SUITE(sentinels));
