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

SUITE(basics) {
  RUN_TEST(a_script_is_called_by_its_hash);
  RUN_TEST(messages_come_after_the_subscription_is_confirmed);
}

static void start(void) {
  redis_server_need();
  server = redis_server_start(NULL);
}

TEST_MAIN(start(); RUN_SUITE(basics));
