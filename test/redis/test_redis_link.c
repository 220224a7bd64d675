/* SPDX-License-Identifier: MIT
 *
 * The link against a real server.
 */
#include "link_fixture.h"

#include <string.h>

static struct redis_server *server;

TEST a_script_is_called_by_its_hash(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  EQ(1, f.ups);
  EQ(40, strlen(f.run_id));
  EQ(0, link_ask(&f, &a, SCRIPT_ECHO, "1", "key", "argument", NULL));
  ASSERT_STR_EQ("key", a.text);
  EQ(0, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "SET", "{t}:a", "7", NULL));
  ASSERT_STR_EQ("OK", a.text);
  EQ(0, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:a", NULL));
  EQ(8, a.number);
  EQ(1, a.times);
  ASSERT(a.sent_ns <= a.received_ns);
  link_close(&f);
  EQ(0, f.downs);
  PASS();
}

TEST messages_come_after_the_subscription_is_confirmed(void) {
  struct link_fixture f;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  EQ(1, redis_ask_number(server, "PUBLISH {t}:wake:1 hello"));
  RUN_UNTIL(&f, f.messages == 1);
  ASSERT_STR_EQ("{t}:wake:1", f.channel);
  ASSERT_STR_EQ("hello", f.message);
  EQ(1, redis_ask_number(server, "PUBLISH {t}:events x"));
  RUN_UNTIL(&f, f.messages == 2);
  ASSERT_STR_EQ("{t}:events", f.channel);
  link_close(&f);
  PASS();
}

TEST the_user_the_password_and_the_database_are_given(void) {
  struct link_fixture f;
  struct answer a;

  redis_ask(server, "ACL SETUSER ann on >p@ss:w/ord ~* &* +@all");
  link_init(&f, "redis://ann:p%%40ss:w%%2Ford@127.0.0.1:%d/3?ns=t", server->port);
  LINK_UP(&f);
  EQ(0, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "ACL", "WHOAMI", NULL));
  ASSERT_STR_EQ("ann", a.text);
  EQ(0, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:in3", "x", NULL));
  EQ(0, redis_ask_number(server, "EXISTS {t}:in3"));
  redis_ask(server, "SELECT 3");
  EQ(1, redis_ask_number(server, "EXISTS {t}:in3"));
  redis_ask(server, "SELECT 0");
  ASSERT(strstr(redis_ask(server, "CLIENT LIST")->str, " name=uvsched ") != NULL);
  link_close(&f);
  redis_ask(server, "ACL DELUSER ann");
  PASS();
}

TEST a_wrong_password_is_said_and_nothing_is_sent(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://ann:wrong@127.0.0.1:%d?ns=t", server->port);
  RUN_UNTIL(&f, strncmp(f.link->trouble, "WRONGPASS", 9) == 0);
  EQ(UV_EAGAIN, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:never", NULL));
  ASSERT_STRN_EQ("WRONGPASS", a.trouble, 9);
  EQ(0, redis_ask_number(server, "EXISTS {t}:never"));
  redis_ask(server, "ACL SETUSER ann on >wrong ~* &* +@all"); /* now it is right */
  LINK_UP(&f);
  link_close(&f);
  redis_ask(server, "ACL DELUSER ann");
  PASS();
}

/* The commands that a user of a store needs, and no other one. */
static const char acl[] = "ACL SETUSER job on >pw ~{t}:* &{t}:* -@all +eval +evalsha +script|load "
                          "+info +select +client|setname +subscribe +publish +ping +time "
                          "+config|get +wait +set +get +incr";

TEST a_user_with_few_rights_is_enough(void) {
  struct link_fixture f;
  struct answer a;
  struct uvs__redis_found found;
  char warning[300], text[200];

  redis_ask(server, acl);
  link_init(&f, "redis://job:pw@127.0.0.1:%d?ns=t", server->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  EQ(0, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:few", "x", NULL));
  EQ(0, uvs__redis_check(f.options, warning, sizeof warning, text, sizeof text, &found));
  ASSERT_STR_EQ("", warning);
  EQ(UV_EACCES, link_ask(&f, &a, SCRIPT_STORE, "1", "other", "x", NULL));
  ASSERT_STRN_EQ("NOPERM", a.trouble, 6);
  EQ(UV_EACCES, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "FLUSHALL", NULL));
  EQ(0, f.downs);
  link_close(&f);
  redis_ask(server, "ACL DELUSER job");
  PASS();
}

TEST a_unix_socket_works_too(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis+unix://%s?ns=t&db=1", server->socket);
  RUN_UNTIL(&f, f.subscribed == 1);
  EQ(0, link_ask(&f, &a, SCRIPT_ECHO, "1", "k", "v", NULL));
  link_close(&f);
  PASS();
}

TEST a_name_is_resolved(void) {
  struct link_fixture f;

  link_init(&f, "redis://localhost:%d?ns=t", server->port);
  LINK_UP(&f);
  link_close(&f);
  link_init(&f, "redis://no.such.host.invalid:%d?ns=t&timeout=500ms", server->port);
  RUN_UNTIL(&f, strstr(f.link->trouble, "name was not resolved") != NULL);
  link_close(&f);
  PASS();
}

TEST words_of_any_bytes_and_of_a_megabyte_arrive(void) {
  struct link_fixture f;
  struct answer a = {.f = &f};
  static char big[1000000];
  const char *words[] = {"SET", "{t}:big", big};
  const size_t sizes[] = {3, 7, sizeof big};

  memset(big, '\r', sizeof big);
  big[7] = '\0';
  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  EQ(0, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "PING", NULL));
  EQ(0, link_set(&f, &a, 3, words, sizes));
  EQ((long long)sizeof big, redis_ask_number(server, "STRLEN {t}:big"));
  EQ(0, link_ask(&f, &a, SCRIPT_READ, "1", "{t}:big", NULL));
  link_close(&f);
  PASS();
}

/* --------------------------------------------------------------- error replies --- */

TEST lost_scripts_are_loaded_again_at_once(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  redis_ask(server, "SCRIPT FLUSH");
  EQ(UV_EAGAIN, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:lost", NULL));
  ASSERT_STRN_EQ("NOSCRIPT", a.trouble, 8);
  EQ(0, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:lost", NULL));
  EQ(1, a.number); /* the first one was not done */
  EQ(0, f.downs);
  link_close(&f);
  PASS();
}

TEST a_full_server_answers_enospc_and_can_still_be_read(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  EQ(0, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "v", NULL));
  redis_ask(server, "CONFIG SET maxmemory 1000");
  EQ(UV_ENOSPC, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "w", NULL));
  ASSERT_STRN_EQ("OOM", a.trouble, 3);
  EQ(UV_ENOSPC, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "SET", "{t}:k", "w", NULL));
  EQ(0, link_ask(&f, &a, SCRIPT_READ, "1", "{t}:k", NULL));
  ASSERT_STR_EQ("v", a.text);
  redis_ask(server, "CONFIG SET maxmemory 0");
  EQ(0, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "w", NULL));
  EQ(0, f.downs);
  link_close(&f);
  PASS();
}

TEST too_few_replicas_for_the_server_is_eagain(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  redis_ask(server, "CONFIG SET min-replicas-to-write 1");
  EQ(UV_EAGAIN, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "v", NULL));
  ASSERT_STRN_EQ("NOREPLICAS", a.trouble, 10);
  redis_ask(server, "CONFIG SET min-replicas-to-write 0");
  EQ(0, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "v", NULL));
  EQ(0, f.downs);
  link_close(&f);
  PASS();
}

TEST a_busy_server_is_eagain(void) {
  struct redis_server *other = redis_server_start("--busy-reply-threshold 50");
  struct link_fixture f;
  struct answer a;
  int done;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", other->port);
  LINK_UP(&f);
  redisAppendCommand(other->c, "EVAL %s 0", "while true do end");
  while (redisBufferWrite(other->c, &done) == REDIS_OK && !done)
    ;
  /* Until the script has run for 50 ms, a command waits; then it gets BUSY. */
  RUN_UNTIL(&f, link_ask(&f, &a, SCRIPT_READ, "1", "{t}:k", NULL) == UV_EAGAIN);
  ASSERT_STRN_EQ("BUSY", a.trouble, 4);
  EQ(0, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "SCRIPT", "KILL", NULL));
  RUN_UNTIL(&f, link_ask(&f, &a, SCRIPT_STORE, "1", "{t}:k", "v", NULL) == 0); /* it ends */
  EQ(0, f.downs);
  link_close(&f);
  redis_server_stop(other);
  PASS();
}

TEST any_other_error_is_eio(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  EQ(UV_EIO, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "NONSENSE", NULL));
  redis_ask(server, "SET {t}:text text");
  EQ(UV_EIO, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:text", NULL));
  ASSERT(strchr(a.trouble, '\n') == NULL);
  EQ(0, f.downs);
  link_close(&f);
  PASS();
}

TEST a_server_that_becomes_a_replica_is_left(void) {
  struct redis_server *other = redis_server_start(NULL);
  struct link_fixture f;
  struct answer a[10];

  link_init(&f, "redis://127.0.0.1:%d?ns=t", other->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  redis_ask(other, "REPLICAOF 127.0.0.1 %d", server->port);
  for (int i = 0; i < 10; i++)
    link_send(&f, &a[i], SCRIPT_COUNT, "1", "{t}:k", NULL);
  RUN_UNTIL(&f, f.answers == 10);
  for (int i = 0; i < 10; i++)
    EQ(UV_EAGAIN, a[i].status); /* all are answered, not only the first one */
  EQ(1, f.downs);
  RUN_UNTIL(&f, strstr(f.link->trouble, "replica") != NULL);
  ASSERT_FALSE(f.link->is_up);
  redis_ask(other, "REPLICAOF NO ONE");
  LINK_UP(&f);
  EQ(0, link_ask(&f, &a[0], SCRIPT_COUNT, "1", "{t}:k", NULL));
  RUN_UNTIL(&f, f.subscribed == 2);
  link_close(&f);
  redis_server_stop(other);
  PASS();
}

TEST a_loading_server_is_waited_for(void) {
  struct redis_server *other = redis_server_start("--key-load-delay 0");
  struct link_fixture f;
  struct answer a;
  bool loading = false;

  redis_ask(other, "EVAL %s 0", "for i = 1, 300 do redis.call('SET', 'k' .. i, i) end");
  redis_ask(other, "CONFIG SET aof-use-rdb-preamble yes");
  redis_ask(other, "BGREWRITEAOF");
  while (strstr(redis_ask(other, "INFO persistence")->str, "aof_rewrite_in_progress:0") == NULL ||
         strstr(redis_ask(other, "INFO persistence")->str, "aof_rewrite_scheduled:0") == NULL)
    ;
  redis_server_kill(other);
  snprintf(other->options[1], sizeof other->options[1], "3000"); /* µs a key */
  redis_server_restart_loading(other);
  link_init(&f, "redis://127.0.0.1:%d?ns=t", other->port);
  while (!f.link->is_up) {
    loading |= strstr(f.link->trouble, "loading") != NULL;
    link_turn(&f);
  }
  ASSERT(loading);
  EQ(0, link_ask(&f, &a, UVS__REDIS_NO_SCRIPT, "GET", "k300", NULL));
  ASSERT_STR_EQ("300", a.text);
  link_close(&f);
  redis_server_stop(other);
  PASS();
}

/* ------------------------------------------------------------- lost connections --- */

TEST nothing_listens_is_answered_from_a_later_pass(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", free_port());
  EQ(UV_EAGAIN, link_ask(&f, &a, SCRIPT_COUNT, "1", "{t}:k", NULL));
  RUN_UNTIL(&f, strstr(f.link->trouble, "refused") != NULL);
  EQ(0, f.ups);
  link_close(&f);
  EQ(0, f.downs);
  PASS();
}

TEST killed_clients_come_back_and_subscribe_again(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  redis_ask(server, "CLIENT KILL TYPE pubsub");
  RUN_UNTIL(&f, f.subscribed == 2);
  EQ(0, f.downs); /* commands go on */
  redis_ask(server, "CLIENT KILL TYPE normal SKIPME yes");
  RUN_UNTIL(&f, f.downs == 1);
  RUN_UNTIL(&f, f.ups == 2 && f.subscribed == 3);
  EQ(0, link_ask(&f, &a, SCRIPT_ECHO, "1", "k", "v", NULL));
  link_close(&f);
  PASS();
}

TEST commands_at_close_are_answered_once(void) {
  struct link_fixture f;
  struct answer a[3];

  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  link_send(&f, &a[0], SCRIPT_COUNT, "1", "{t}:close", NULL); /* not up yet */
  link_close(&f);
  EQ(1, a[0].times);
  EQ(UV_EAGAIN, a[0].status);
  link_init(&f, "redis://127.0.0.1:%d?ns=t", server->port);
  LINK_UP(&f);
  redis_server_pause(server);
  link_send(&f, &a[1], SCRIPT_COUNT, "1", "{t}:close", NULL);
  link_turn(&f);
  link_send(&f, &a[2], SCRIPT_COUNT, "1", "{t}:close", NULL); /* not written */
  link_close(&f);
  redis_server_resume(server);
  EQ(1, a[1].times);
  EQ(UVS_EUNKNOWN, a[1].status);
  EQ(1, a[2].times);
  EQ(UV_EAGAIN, a[2].status);
  EQ(0, f.downs); /* no hook */
  PASS();
}

TEST what_was_not_written_is_eagain_and_was_not_done(void) {
  enum { N = 300 };
  struct link_fixture f;
  static struct answer a[N];
  static char text[65536];
  long long unknown = 0, again = 0;

  memset(text, 'x', sizeof text - 1);
  redis_ask(server, "DEL {t}:list");
  link_init(&f, "redis://127.0.0.1:%d?ns=t&timeout=500ms", server->port);
  LINK_UP(&f);
  redis_server_pause(server);
  for (int i = 0; i < N; i++)
    link_send(&f, &a[i], UVS__REDIS_NO_SCRIPT, "RPUSH", "{t}:list", text, NULL);
  RUN_UNTIL(&f, f.answers == N);
  redis_server_resume(server);
  for (int i = 0; i < N; i++) {
    EQ(1, a[i].times);
    unknown += a[i].status == UVS_EUNKNOWN;
    again += a[i].status == UV_EAGAIN;
    ASSERT(a[i].status == UV_EAGAIN || again == 0); /* the first ones are unknown */
  }
  ASSERT(a[0].received_ns - a[0].sent_ns >= 500000000); /* its deadline ended all */
  EQ(N, unknown + again);
  ASSERT(unknown > 0 && again > 0);
  LINK_UP(&f);
  ASSERT(redis_ask_number(server, "LLEN {t}:list") <= unknown);
  link_close(&f);
  PASS();
}

TEST a_reply_that_came_while_the_loop_was_held_counts(void) {
  struct link_fixture f;
  struct answer a;

  link_init(&f, "redis://127.0.0.1:%d?ns=t&timeout=50ms", server->port);
  LINK_UP(&f);
  link_send(&f, &a, SCRIPT_ECHO, "1", "k", "v", NULL);
  uv_run(&f.loop, UV_RUN_NOWAIT); /* writes */
  uv_sleep(200);
  RUN_UNTIL(&f, a.times == 1);
  EQ(0, a.status);
  EQ(0, f.downs);
  link_close(&f);
  PASS();
}

TEST no_acknowledged_write_is_lost_when_the_server_is_killed(void) {
  struct redis_server *other = redis_server_start(NULL);
  long long done = 0, maybe = 0, value;
  struct link_fixture f;
  static struct answer a[50];
  char run_id[64] = "";

  link_init(&f, "redis://127.0.0.1:%d?ns=t", other->port);
  for (int cycle = 0; cycle < 10; cycle++) {
    uint64_t random = test_seed + (uint64_t)cycle * 7919 + 1;
    int sent = 0, rounds = (int)test_random_below(&random, 40);

    LINK_UP(&f);
    ASSERT(strcmp(run_id, f.run_id) != 0);
    strcpy(run_id, f.run_id);
    for (int round = 0; round <= rounds || f.answers < sent; round++) {
      if (f.answers == sent && round <= rounds) {
        f.answers = 0;
        for (sent = 0; sent < 50; sent++)
          link_send(&f, &a[sent], SCRIPT_COUNT, "1", "{t}:n", NULL);
      }
      if (round == rounds)
        redis_server_kill(other);
      link_turn(&f);
      for (int i = 0; i < sent && f.answers == sent; i++) {
        done += a[i].status == 0;
        maybe += a[i].status == UVS_EUNKNOWN;
        ASSERT(a[i].status == 0 || a[i].status == UVS_EUNKNOWN || a[i].status == UV_EAGAIN);
      }
      if (f.answers == sent)
        f.answers = sent = 0;
    }
    RUN_UNTIL(&f, !f.link->is_up);
    redis_server_restart(other);
    value = atoll(redis_ask(other, "GET {t}:n")->type == REDIS_REPLY_STRING
                      ? redis_ask(other, "GET {t}:n")->str
                      : "0");
    ASSERT(done <= value);
    ASSERT(value <= done + maybe);
    done = value;
    maybe = 0;
  }
  ASSERT(done > 0);
  link_close(&f);
  redis_server_stop(other);
  PASS();
}

TEST an_idle_link_sends_nothing(void) {
  struct redis_server *other = redis_server_start(NULL);
  struct link_fixture f;
  const char *before, *after;
  long long n;

  link_init(&f, "redis://127.0.0.1:%d?ns=t", other->port);
  RUN_UNTIL(&f, f.subscribed == 1);
  before = strstr(redis_ask(other, "INFO stats")->str, "total_commands_processed:");
  n = atoll(strchr(before, ':') + 1);
  link_run_ms(&f, 2000);
  after = strstr(redis_ask(other, "INFO stats")->str, "total_commands_processed:");
  EQ(n + 1, atoll(strchr(after, ':') + 1)); /* the INFO before */
  link_close(&f);
  redis_server_stop(other);
  PASS();
}

SUITE(basics) {
  RUN_TEST(a_script_is_called_by_its_hash);
  RUN_TEST(messages_come_after_the_subscription_is_confirmed);
  RUN_TEST(the_user_the_password_and_the_database_are_given);
  RUN_TEST(a_wrong_password_is_said_and_nothing_is_sent);
  RUN_TEST(a_user_with_few_rights_is_enough);
  RUN_TEST(a_unix_socket_works_too);
  RUN_TEST(a_name_is_resolved);
  RUN_TEST(words_of_any_bytes_and_of_a_megabyte_arrive);
  RUN_TEST(an_idle_link_sends_nothing);
}

SUITE(errors) {
  RUN_TEST(lost_scripts_are_loaded_again_at_once);
  RUN_TEST(a_full_server_answers_enospc_and_can_still_be_read);
  RUN_TEST(too_few_replicas_for_the_server_is_eagain);
  RUN_TEST(a_busy_server_is_eagain);
  RUN_TEST(any_other_error_is_eio);
  RUN_TEST(a_server_that_becomes_a_replica_is_left);
  RUN_TEST(a_loading_server_is_waited_for);
}

SUITE(lost) {
  RUN_TEST(nothing_listens_is_answered_from_a_later_pass);
  RUN_TEST(killed_clients_come_back_and_subscribe_again);
  RUN_TEST(commands_at_close_are_answered_once);
  RUN_TEST(what_was_not_written_is_eagain_and_was_not_done);
  RUN_TEST(a_reply_that_came_while_the_loop_was_held_counts);
  RUN_TEST(no_acknowledged_write_is_lost_when_the_server_is_killed);
}

static void start(void) {
  redis_server_need();
  server = redis_server_start(NULL);
}

TEST_MAIN(start(); RUN_SUITE(basics); RUN_SUITE(errors); RUN_SUITE(lost));
