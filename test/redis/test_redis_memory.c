/* SPDX-License-Identifier: MIT
 *
 * Allocation failure at every allocation of the link and of hiredis: no crash, no leak, each
 * accepted command is answered exactly once, and afterwards the link works.
 */
#include <string.h>

#include "link_fixture.h"

/* ------------------------------------------------------------- allocations --- */

/* Replaced at link time, also inside hiredis, which this program has in it. libuv's own
 * allocations are not counted. */
void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
void __real_free(void *p);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
void __wrap_free(void *p);

static long live;           /* blocks that were not freed */
static long countdown = -1; /* allocations that still succeed; below zero: all */
static long then_fail, has_failed;

static bool must_fail(void) {
  if (countdown < 0)
    return false;
  if (countdown > 0) {
    countdown--;
    return false;
  }
  if (then_fail == 0)
    return false;
  then_fail--;
  has_failed++;
  return true;
}

void *__wrap_malloc(size_t size) {
  void *p = must_fail() ? NULL : __real_malloc(size);

  live += p != NULL;
  return p;
}

void *__wrap_calloc(size_t n, size_t size) {
  void *p = must_fail() ? NULL : __real_calloc(n, size);

  live += p != NULL;
  return p;
}

void *__wrap_realloc(void *old, size_t size) {
  void *p = must_fail() ? NULL : __real_realloc(old, size);

  live += p != NULL && old == NULL;
  return p;
}

void __wrap_free(void *p) {
  live -= p != NULL;
  __real_free(p);
}

static void fail_after(long n, long failures) {
  has_failed = 0;
  then_fail = failures;
  countdown = n;
}

static long fail_no_more(void) {
  countdown = -1;
  return has_failed;
}

/* ------------------------------------------------------------------- link --- */

static struct redis_server *server, *replica;

enum { CALLS = 10 };

struct scene {
  struct link_fixture f;
  int accepted, times[CALLS];
  bool wrong;
};
static struct scene scene;

static void on_answer(void *arg, int status, const redisReply *reply, int64_t sent_ns,
                      int64_t received_ns) {
  int *times = arg;

  (void)sent_ns;
  (void)received_ns;
  ++*times;
  scene.f.answers++;
  scene.wrong |= status != 0 && status != UV_EAGAIN && status != UVS_EUNKNOWN;
  scene.wrong |= (status == 0) != (reply != NULL);
}

static void on_nothing(void *arg) {
  (void)arg;
}

static void on_up(void *arg, const char *run_id) {
  (void)arg;
  (void)run_id;
  scene.f.ups++;
}

static void on_message(void *arg, const char *channel, const char *text, size_t size) {
  (void)arg;
  (void)channel;
  (void)text;
  (void)size;
}

static void send_some(struct scene *s) {
  for (int i = 0; i < CALLS; i++) {
    const char *words[] = {"1", "{t}:key", "value"};
    const size_t sizes[] = {1, 7, 5};
    int rc = uvs__redis_link_send(s->f.link, i % 2 == 0 ? UVS__REDIS_INIT : UVS__REDIS_SETTLE, 3,
                                  words, sizes, i % 3 == 0, on_answer, &s->times[i]);

    s->accepted += rc == 0;
    s->wrong |= rc != 0 && rc != UV_ENOMEM;
    s->times[i] += rc != 0; /* no answer comes */
  }
}

/* Everything, with `failures` allocations failing after n. Returns what is wrong, or NULL. */
static const char *play(long n, long failures, bool *ret_failed) {
  static const struct uvs__redis_link_hooks hooks = {on_up, on_nothing, on_nothing, on_message};
  static const char *const channels[] = {"{t}:c"};
  struct scene *s = &scene;
  static char text[200];
  char name[200];
  uint64_t until = uv_hrtime() + UINT64_C(30000000000);
  long before = live;
  int rc;

  memset(s, 0, sizeof *s);
  snprintf(name, sizeof name, "redis://127.0.0.1:%d?ns=t&replicas=1", server->port);
  uv_loop_init(&s->f.loop);
  fail_after(n, failures);
  rc = uvs__redis_read_url(name, &s->f.options, text, sizeof text);
  while (rc == UV_ENOMEM)
    rc = uvs__redis_read_url(name, &s->f.options, text, sizeof text);
  if (rc != 0)
    return text;
  do {
    s->f.link = uvs__redis_link_open(&s->f.loop, s->f.options, channels, 1, &hooks, s);
  } while (s->f.link == NULL && uv_hrtime() < until);
  send_some(s);
  while (s->f.answers < s->accepted && uv_hrtime() < until)
    link_turn(&s->f);
  while (!s->f.link->is_up && uv_hrtime() < until)
    link_turn(&s->f);
  s->accepted = s->f.answers = 0;
  for (int i = 0; i < CALLS; i++) {
    s->wrong |= s->times[i] != 1;
    s->times[i] = 0;
  }
  send_some(s);
  while (s->f.answers < s->accepted && uv_hrtime() < until)
    link_turn(&s->f);
  link_run_ms(&s->f, 5);
  *ret_failed = fail_no_more() > 0;
  while (!s->f.link->is_up && uv_hrtime() < until)
    link_turn(&s->f);
  for (int i = 0; i < CALLS; i++)
    s->wrong |= s->times[i] != 1;
  if (!s->f.link->is_up)
    return s->f.link->trouble;
  link_close(&s->f);
  return s->wrong ? "a wrong answer" : live != before ? "a leak" : NULL;
}

static enum greatest_test_res play_all(long failures) {
  const char *wrong = NULL;
  bool failed = true;
  long n = 0;

  while (failed && wrong == NULL && n < 10000)
    wrong = play(n++, failures, &failed);
  if (wrong != NULL) {
    printf("\nallocation %ld fails: %s\n", n - 1, wrong);
    FAILm(wrong);
  }
  printf("  %ld allocations\n", n - 1);
  ASSERT(n > 50 && n < 10000);
  PASS();
}

TEST with_any_one_allocation_failing_every_command_is_answered(void) {
  return play_all(1);
}

TEST with_any_three_allocations_failing_every_command_is_answered(void) {
  return play_all(3);
}

TEST a_check_without_memory_answers_enomem(void) {
  struct uvs__redis_found found;
  struct uvs__redis_options *o;
  char name[200], warning[200], text[200];
  long n, before = live;

  snprintf(name, sizeof name, "redis://127.0.0.1:%d", server->port);
  EQ(0, uvs__redis_read_url(name, &o, text, sizeof text));
  for (n = 0; n < 1000; n++) {
    int rc;

    fail_after(n, 1);
    rc = uvs__redis_check(o, warning, sizeof warning, text, sizeof text, &found);
    if (fail_no_more() == 0)
      break;
    if (rc != UV_ENOMEM) {
      printf("allocation %ld: %d %s\n", n, rc, text);
      FAIL();
    }
    ASSERT(text[0] != '\0');
  }
  ASSERT(n > 10 && n < 1000);
  uvs__redis_free_options(o);
  EQ(before, live);
  PASS();
}

SUITE(memory) {
  RUN_TEST(with_any_one_allocation_failing_every_command_is_answered);
  RUN_TEST(with_any_three_allocations_failing_every_command_is_answered);
  RUN_TEST(a_check_without_memory_answers_enomem);
}

static void start(void) {
  redis_server_need();
  server = redis_server_start("--repl-diskless-sync-delay 0");
  replica = redis_server_start(NULL);
  redis_ask(replica, "REPLICAOF 127.0.0.1 %d", server->port);
  while (strstr(redis_ask(server, "INFO replication")->str, "state=online") == NULL)
    uv_sleep(10);
}

TEST_MAIN(start(); RUN_SUITE(memory));
