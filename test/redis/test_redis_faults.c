/* SPDX-License-Identifier: MIT
 *
 * The link behind a proxy that makes the faults of a network (F7). Under each fault every command
 * is answered once, nothing acknowledged is lost, nothing is done twice, and nothing that was
 * answered UV_EAGAIN was done.
 */
#include <string.h>

#include "link_fixture.h"
#include "redis_proxy.h"

static struct redis_server *server;
static struct redis_proxy *proxy;

/* Replaced at link time: the PING that comes every two minutes comes after 100 ms, if a test says
 * so. */
static bool ping_soon;
int __real_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat);

int __wrap_uv_timer_start(uv_timer_t *timer, uv_timer_cb cb, uint64_t timeout, uint64_t repeat) {
  if (ping_soon && repeat == 120000)
    timeout = repeat = 100;
  return __real_uv_timer_start(timer, cb, timeout, repeat);
}

/* ------------------------------------------------------------------------ load --- */

/* Keeps some commands in flight. Each one is sent once and adds its own member to a set, so that
 * what was done can be compared with what was answered. */
enum { LOAD_MAX = 200000, IN_FLIGHT = 20 };

struct load {
  struct link_fixture *f;
  int sent, answered, done, unknown, again;
  char state[LOAD_MAX]; /* 0: in flight; 'd', 'u', 'a' */
  bool twice, wrong;
};

struct load_call {
  struct load *load;
  int number;
};
static struct load load;
static struct load_call calls[LOAD_MAX];

static void on_answer(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                      int64_t received_ns) {
  struct load_call *call = arg;
  struct load *l = call->load;

  l->answered++;
  l->twice |= l->state[call->number] != 0;
  l->wrong |= received_ns < sent_ns;
  if (status == 0) {
    l->wrong |= reply->integer != 1;
    l->state[call->number] = 'd';
    l->done++;
  } else if (status == UVS_EUNKNOWN) {
    l->state[call->number] = 'u';
    l->unknown++;
  } else {
    l->wrong |= status != UV_EAGAIN;
    l->state[call->number] = 'a';
    l->again++;
  }
}

static void load_send(struct load *l) {
  char number[16];
  const char *words[] = {"SADD", "{t}:set", number};
  size_t sizes[] = {4, 7, 0};

  snprintf(number, sizeof number, "%d", l->sent);
  sizes[2] = strlen(number);
  calls[l->sent] = (struct load_call){l, l->sent};
  if (uvs__redis_link_send(l->f->link, UVS__REDIS_NO_SCRIPT, 3, words, sizes, false, on_answer,
                           &calls[l->sent]) != 0)
    abort();
  l->sent++;
}

/* Fills the window, and writes it; the replies have hardly come. */
static void load_fill(struct load *l) {
  while (l->sent - l->answered < IN_FLIGHT && l->sent < LOAD_MAX)
    load_send(l);
  uv_run(&l->f->loop, UV_RUN_NOWAIT);
}

/* Load for some time. While the link is down, a little is sent too. */
static void load_run_ms(struct load *l, unsigned ms) {
  uint64_t until = uv_hrtime() + ms * UINT64_C(1000000);

  while (uv_hrtime() < until) {
    int window = l->f->link->is_up ? IN_FLIGHT : 1;

    while (l->sent - l->answered < window && l->sent < LOAD_MAX)
      load_send(l);
    link_turn(l->f);
  }
}

static void load_start(struct link_fixture *f, unsigned timeout_ms) {
  memset(&load, 0, sizeof load);
  load.f = f;
  redis_ask(server, "DEL {t}:set");
  proxy = redis_proxy_start(server->port);
  link_init(f, "redis://127.0.0.1:%d?ns=t&timeout=%ums", redis_proxy_port(proxy), timeout_ms);
}

/* What was answered is compared with the server. */
static enum greatest_test_res load_check(struct load *l) {
  RUN_UNTIL(l->f, l->answered == l->sent);
  ASSERT_FALSE(l->twice);
  ASSERT_FALSE(l->wrong);
  for (int i = 0; i < l->sent; i++) {
    long long there = redis_ask_number(server, "SISMEMBER {t}:set %d", i);

    if (l->state[i] == 'd')
      EQ(1, there);
    if (l->state[i] == 'a')
      EQ(0, there);
  }
  printf("  %d sent: %d done, %d unknown, %d not done\n", l->sent, l->done, l->unknown, l->again);
  PASS();
}

static void load_end(struct link_fixture *f) {
  link_close(f);
  redis_proxy_stop(proxy);
}

/* A fault in the middle of load, then it heals. */
static enum greatest_test_res play(enum redis_fault fault, bool goes_down) {
  struct link_fixture f;
  uint64_t random = test_seed;
  int done;

  load_start(&f, 500);
  LINK_UP(&f);
  RUN_UNTIL(&f, (load_run_ms(&load, 100), load.done > 0));
  for (int i = 0; i < 3; i++) {
    load_fill(&load);
    redis_proxy_set(proxy, fault);
    load_run_ms(&load, 100 + (unsigned)test_random_below(&random, 1500));
    redis_proxy_set(proxy, PROXY_GOOD);
    done = load.done;
    RUN_UNTIL(&f, (load_run_ms(&load, 10), f.link->is_up && load.done > done + 20));
  }
  if (goes_down)
    ASSERT(f.downs > 0);
  RUN_UNTIL(&f, f.subscribed > 0);
  CHECK_CALL(load_check(&load));
  load_end(&f);
  PASS();
}

TEST refused_connections(void) {
  return play(PROXY_REFUSE, true);
}

TEST reset_connections(void) {
  return play(PROXY_RESET, true);
}

TEST a_black_hole(void) {
  return play(PROXY_BLACK_HOLE, true);
}

TEST half_open_connections(void) {
  return play(PROXY_HALF_OPEN, true);
}

TEST a_delay_of_200_ms(void) {
  return play(PROXY_DELAY, false);
}

TEST one_byte_at_a_time(void) {
  return play(PROXY_BYTES, false);
}

TEST cut_between_request_and_reply(void) {
  struct link_fixture f;

  load_start(&f, 2000);
  for (int i = 0; i < 8; i++) {
    int downs;

    LINK_UP(&f);
    load_run_ms(&load, 20);
    downs = f.downs;
    /* The first reply may be one of the connection for messages. */
    RUN_UNTIL(&f, (redis_proxy_set(proxy, PROXY_CUT), load_run_ms(&load, 10), f.downs > downs));
    redis_proxy_set(proxy, PROXY_GOOD);
  }
  ASSERT(load.unknown > 0);
  /* The replies of these commands were dropped, so the server has done some of them. */
  LINK_UP(&f);
  CHECK_CALL(load_check(&load));
  ASSERT(redis_ask_number(server, "SCARD {t}:set") > load.done);
  load_end(&f);
  PASS();
}

TEST random_faults(void) {
  struct link_fixture f;
  uint64_t random = test_seed;
  int rounds = getenv("UVS_STRESS") != NULL ? 300 : 20;

  load_start(&f, 300);
  for (int i = 0; i < rounds && load.sent < LOAD_MAX / 2; i++) {
    load_fill(&load);
    redis_proxy_set(proxy, (enum redis_fault)test_random_below(&random, PROXY_CUT + 1));
    load_run_ms(&load, (unsigned)test_random_below(&random, 600));
    if (test_random_below(&random, 2) == 0) {
      redis_proxy_set(proxy, PROXY_GOOD);
      load_run_ms(&load, (unsigned)test_random_below(&random, 600));
    }
    if (test_random_below(&random, 10) == 0) {
      redis_server_kill(server);
      load_run_ms(&load, (unsigned)test_random_below(&random, 200));
      redis_server_restart(server);
    }
  }
  redis_proxy_set(proxy, PROXY_GOOD);
  LINK_UP(&f);
  CHECK_CALL(load_check(&load));
  load_end(&f);
  PASS();
}

/* ------------------------------------------------------------------- deadlines --- */

TEST no_deadline_is_early(void) {
  struct link_fixture f;
  struct answer a;

  load_start(&f, 400);
  LINK_UP(&f);
  redis_proxy_set(proxy, PROXY_BLACK_HOLE);
  EQ(UVS_EUNKNOWN, link_ask(&f, &a, SCRIPT_ECHO, "1", "k", "v", NULL));
  ASSERT(a.received_ns - a.sent_ns >= 400000000);
  EQ(1, f.downs);
  ASSERT(strstr(a.trouble, "in time") != NULL);
  load_end(&f);
  PASS();
}

TEST a_reply_that_comes_byte_by_byte_does_not_move_the_deadline(void) {
  struct link_fixture f;
  struct answer a;

  load_start(&f, 400);
  LINK_UP(&f);
  redis_proxy_set(proxy, PROXY_SLOW_BYTES); /* 20 bytes a second */
  EQ(UVS_EUNKNOWN,
     link_ask(&f, &a, SCRIPT_ECHO, "1", "a key of thirty characters or so", "", NULL));
  ASSERT(a.received_ns - a.sent_ns >= 400000000);
  load_end(&f);
  PASS();
}

TEST a_ping_notices_that_the_subscription_is_dead(void) {
  struct link_fixture f;
  int downs;

  load_start(&f, 400);
  RUN_UNTIL(&f, f.subscribed == 1);
  ping_soon = true;
  redis_ask(server, "CLIENT KILL TYPE pubsub"); /* the next one has the short timer */
  RUN_UNTIL(&f, f.subscribed == 2);
  link_run_ms(&f, 500); /* some are answered */
  EQ(2, f.subscribed);
  downs = f.downs;
  redis_proxy_set(proxy, PROXY_HALF_OPEN);
  /* The connection of the commands is dead, too, and is asked then. */
  RUN_UNTIL(&f, f.downs == downs + 1);
  redis_proxy_set(proxy, PROXY_GOOD);
  RUN_UNTIL(&f, f.link->is_up && f.subscribed >= 3);
  ping_soon = false;
  load_end(&f);
  PASS();
}

TEST attempts_come_at_growing_distances(void) {
  struct link_fixture f;
  int n;

  load_start(&f, 400);
  redis_proxy_set(proxy, PROXY_RESET);
  n = redis_proxy_connections(proxy);
  link_run_ms(&f, 3000);
  n = redis_proxy_connections(proxy) - n;
  ASSERT(n >= 2 && n <= 8); /* 50, 100, 200, 400, 800, 1600 ms */
  load_end(&f);
  PASS();
}

TEST another_server_behind_the_same_address_is_a_new_run_id(void) {
  struct redis_server *other = redis_server_start(NULL);
  struct link_fixture f;
  char run_id[64];

  load_start(&f, 500);
  RUN_UNTIL(&f, f.subscribed == 1);
  strcpy(run_id, f.run_id);
  redis_proxy_lead(proxy, other->port);
  RUN_UNTIL(&f, f.subscribed == 2 && f.link->is_up);
  ASSERT(strcmp(run_id, f.run_id) != 0);
  load_end(&f);
  redis_server_stop(other);
  PASS();
}

SUITE(faults) {
  RUN_TEST(refused_connections);
  RUN_TEST(reset_connections);
  RUN_TEST(a_black_hole);
  RUN_TEST(half_open_connections);
  RUN_TEST(a_delay_of_200_ms);
  RUN_TEST(one_byte_at_a_time);
  RUN_TEST(cut_between_request_and_reply);
  RUN_TEST(random_faults);
}

SUITE(deadlines) {
  RUN_TEST(no_deadline_is_early);
  RUN_TEST(a_reply_that_comes_byte_by_byte_does_not_move_the_deadline);
  RUN_TEST(a_ping_notices_that_the_subscription_is_dead);
  RUN_TEST(attempts_come_at_growing_distances);
  RUN_TEST(another_server_behind_the_same_address_is_a_new_run_id);
}

static void start(void) {
  redis_server_need();
  server = redis_server_start(NULL);
}

TEST_MAIN(start(); RUN_SUITE(faults); RUN_SUITE(deadlines));
