/* SPDX-License-Identifier: MIT
 *
 * What only the store in memory has: private stores, its size, its memory running out, its tree.
 */
#include "store_fixture.h"

#include <string.h>

#include "describe.h"

#include "jobs/tree.h"

/* These replace src/jobs/alloc.c. fails_in: the allocation with this number fails; 0: none. */
static long fails_in, live;
static bool failed;

static bool must_fail(void) {
  if (fails_in == 0 || --fails_in > 0)
    return false;
  failed = true;
  return true;
}

void *uvs__jobs_alloc(size_t size) {
  void *p = must_fail() ? NULL : calloc(1, size == 0 ? 1 : size);

  live += p != NULL;
  return p;
}

void *uvs__jobs_realloc(void *old, size_t size) {
  void *p = must_fail() ? NULL : realloc(old, size == 0 ? 1 : size);

  live += p != NULL && old == NULL;
  return p;
}

void uvs__jobs_free(void *p) {
  live -= p != NULL;
  free(p);
}

static void fail_in(long n) {
  fails_in = n;
  failed = false;
}

/* -------------------------------------------------------------------- open --- */

static int open_named(const char *name, struct uvs__store **ret) {
  struct uvs__store_config config = {.name = name};
  char text[200] = "";

  return uvs__memory_open(&config, ret, text, sizeof text);
}

TEST stores_without_a_name_share_no_jobs(void) {
  struct store_fixture f;
  struct uvs__store *other;

  store_init(&f);
  EQ(0, open_named("", &other));
  EQ(0, other->poll_ms);
  f.at = other;
  EQ(0, store_put_simple(&f, "q", "a"));
  f.at = f.first;
  EQ(UV_ENOENT, store_get(&f, "q", "a"));
  other->ops->close(other);
  EQ(0, open_named("", &other));
  f.at = other;
  EQ(UV_ENOENT, store_get(&f, "q", "a"));
  other->ops->close(other);
  store_close(&f);
  EQ(0, live);
  PASS();
}

TEST a_shared_store_ends_with_its_last_opener(void) {
  struct store_fixture f;
  struct uvs__store *a, *b;

  store_init(&f);
  EQ(0, open_named("one", &a));
  EQ(0, open_named("one", &b));
  f.at = a;
  EQ(0, store_put_simple(&f, "q", "x"));
  a->ops->close(a);
  f.at = b;
  EQ(0, store_get(&f, "q", "x"));
  EQ(0, open_named("one", &a));
  b->ops->close(b);
  f.at = a;
  EQ(0, store_get(&f, "q", "x"));
  a->ops->close(a);
  EQ(0, open_named("one", &a));
  f.at = a;
  EQ(UV_ENOENT, store_get(&f, "q", "x"));
  a->ops->close(a);
  store_close(&f);
  EQ(0, live);
  PASS();
}

TEST without_a_clock_the_time_is_that_of_the_system(void) {
  struct uvs__store *s;
  uv_timeval64_t t;
  int64_t now_us;

  EQ(0, open_named("", &s));
  EQ(0, uv_gettimeofday(&t));
  now_us = s->ops->now_us(s);
  ASSERT(now_us / SEC >= t.tv_sec);
  ASSERT(now_us / SEC - t.tv_sec < 3600);
  s->ops->close(s);
  PASS();
}

TEST an_open_without_memory_answers_enomem(void) {
  struct uvs__store_config config = {.name = "named"};
  struct uvs__store *s;
  char text[200] = "";
  long n;

  for (n = 1;; n++) {
    int rc;

    fail_in(n);
    rc = uvs__memory_open(&config, &s, text, sizeof text);
    fails_in = 0;
    if (!failed)
      break;
    EQ(UV_ENOMEM, rc);
    ASSERT(strstr(text, "not enough memory") != NULL);
    EQ(0, live);
  }
  ASSERT(n > 3);
  s->ops->close(s);
  EQ(0, live);
  PASS();
}

/* ------------------------------------------------------------ without memory --- */

/* Each scene has these: q/run is claimed and has key "k", q/pend has key "p", q/dead is a dead
 * letter, p/x is paused, and there is a cron. */
static void prepare(struct store_fixture *f) {
  uvs_job_queue_t q = store_queue("p");
  struct uvs__cron cron = store_cron("c", 1);

  store_init(f);
  store_put_simple(f, "q", "dead");
  store_claim(f, "q", 1);
  store_bury(f, 0, "why");
  store_put_key(f, "run", "k", 0);
  store_put_key(f, "pend", "p", 0);
  q.paused = 1;
  store_set_queue(f, &q);
  store_put_simple(f, "p", "x");
  store_set_cron(f, &cron);
  store_claim(f, "q", 1);
}

static int do_put(struct store_fixture *f) {
  struct uvs__put puts[3] = {{.job = store_job("q", "new")},
                             {.job = store_job("q", "held")},
                             {.job = store_job("q", "run")}};
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = puts, .n = 3};

  puts[0].job.key = "p";
  puts[1].job.key = "k";
  puts[0].job.key_policy = puts[1].job.key_policy = UVS_KEY_REPLACE;
  puts[0].job.payload.data = puts[1].job.meta.data = "bytes";
  puts[0].job.payload.size = puts[1].job.meta.size = 5;
  store_run(f, &r.r);
  uvs__arena_free(&r.arena);
  return r.r.status;
}

static int do_settle(struct store_fixture *f) {
  struct uvs__put puts[2] = {{.job = store_job("q", "new")}, {.job = store_job("q", "pend")}};
  struct uvs__settle items[2] = {store_settlement(f, 0, UVS__EXTEND),
                                 store_settlement(f, 0, UVS__ACK)};
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = items, .n = 2};

  items[0].when = after_us(SEC);
  items[0].progress.data = items[1].result.data = "bytes";
  items[0].progress.size = items[1].result.size = 5;
  items[1].puts = puts;
  items[1].n_puts = 2;
  store_run(f, &r.r);
  uvs__arena_free(&r.arena);
  return r.r.status;
}

static int do_retry(struct store_fixture *f) {
  return store_retry(f, 0, 0);
}

static int do_bury(struct store_fixture *f) {
  return store_bury(f, 0, "a reason");
}

static int do_set_queue(struct store_fixture *f) {
  uvs_job_queue_t q = store_queue("new");

  q.rate = 7;
  return store_set_queue(f, &q);
}

static int do_set_cron(struct store_fixture *f) {
  struct uvs__cron c = store_cron("c", 2);

  return store_set_cron(f, &c);
}

static int do_get(struct store_fixture *f) {
  return store_get(f, "q", "run");
}

static int do_list(struct store_fixture *f) {
  return strcmp(store_list_state(f, 0), "error") == 0 ? UV_ENOMEM : 0;
}

static int do_crons(struct store_fixture *f) {
  return store_crons(f);
}

static int do_count(struct store_fixture *f) {
  return store_count(f, "q") == NULL ? UV_ENOMEM : 0;
}

static int do_events(struct store_fixture *f) {
  f->events_seen = 0;
  return strcmp(store_events(f), "error") == 0 ? UV_ENOMEM : 0;
}

static char *content(struct store_fixture *f) {
  char *text;
  size_t size;
  FILE *to = open_memstream(&text, &size);

  describe_store(to, f->at, false);
  fclose(to);
  return text;
}

/* Q54 */
TEST a_request_without_memory_does_nothing(void) {
  static int (*const requests[])(struct store_fixture * f) = {
      do_put, do_settle, do_retry, do_bury,  do_set_queue, do_set_cron,
      do_get, do_list,   do_crons, do_count, do_events};
  size_t i;

  for (i = 0; i < sizeof requests / sizeof *requests; i++) {
    struct store_fixture f;
    char *before, *after;
    long n;

    prepare(&f);
    before = content(&f);
    for (n = 1;; n++) {
      int rc;

      fail_in(n);
      rc = requests[i](&f);
      fails_in = 0;
      if (!failed) {
        EQ(0, rc);
        break;
      }
      EQ(UV_ENOMEM, rc);
      ASSERT(strstr(f.at->trouble, "memory") != NULL);
      after = content(&f);
      SAYS(before, after);
      free(after);
    }
    ASSERT(n > 1);
    free(before);
    store_close(&f);
    EQ(0, live);
  }
  PASS();
}

/* Q54 */
TEST a_claim_without_memory_gives_fewer_jobs_and_says_that_there_are_more(void) {
  static const char *const jobs[] = {"a", "b", "c"};
  long n;

  for (n = 1;; n++) {
    struct store_fixture f;
    const char *got;
    size_t i;

    store_init(&f);
    for (i = 0; i < 3; i++)
      EQ(0, store_put_key(&f, jobs[i], jobs[i], 0));
    fail_in(n);
    got = store_claim(&f, "q", 9);
    fails_in = 0;
    if (strcmp(got, "error") == 0)
      EQ(0, f.n_claimed);
    else if (failed)
      EQ(store_now(&f), f.next_us);
    for (i = 0; i < 3; i++)
      EQ(i < f.n_claimed ? UVS_JOB_RUNNING : UVS_JOB_PENDING, store_state(&f, "q", jobs[i]));
    EQ(failed, f.n_claimed < 3);
    store_close(&f);
    EQ(0, live);
    if (!failed)
      break;
  }
  ASSERT(n > 3);
  PASS();
}

TEST a_claim_of_a_tick_without_memory_leaves_the_tick(void) {
  long n;

  for (n = 1;; n++) {
    struct store_fixture f;
    struct uvs__cron c = store_cron("c", 1);
    const char *got;

    store_init(&f);
    EQ(0, store_set_cron(&f, &c));
    fail_in(n);
    got = store_claim(&f, UVS__CRON_QUEUE, 9);
    fails_in = 0;
    SAYS(failed ? "error" : "c", got);
    EQ(failed ? UVS_JOB_PENDING : UVS_JOB_RUNNING, store_state(&f, UVS__CRON_QUEUE, "c"));
    store_close(&f);
    EQ(0, live);
    if (!failed)
      break;
  }
  ASSERT(n > 1);
  PASS();
}

/* -------------------------------------------------------------------- size --- */

TEST a_hundred_thousand_jobs_are_put_claimed_and_done(void) {
  struct store_fixture f;
  uint64_t random = test_seed;
  char rest[20];
  int i, done = 0;
  size_t k;

  store_init(&f);
  for (i = 0; i < 100000; i++) {
    struct uvs__record job = store_job("q", rest);

    snprintf(rest, sizeof rest, "%d", i);
    job.due = after_us((int64_t)test_random_below(&random, 1000));
    EQ(0, store_put(&f, &job));
  }
  store_advance(&f, 1000);
  while (store_claim(&f, "q", 1000)[0] != '\0') {
    for (k = 0; k < f.n_claimed; k++) {
      ASSERT(k == 0 || f.claimed[k - 1]->due_us <= f.claimed[k]->due_us);
      EQ(0, store_ack(&f, k));
      done++;
    }
  }
  EQ(100000, done);
  EQ(UVS__NEVER_US, f.next_us);
  store_advance(&f, UVS__REPEAT_US);
  EQ(100000, store_trim(&f, 0, 0, 0, 1000000));
  store_close(&f);
  EQ(0, live);
  PASS();
}

/* -------------------------------------------------------------------- tree --- */

#define NUMBERS 300

struct number {
  struct uvs__node node;
  int value;
  bool in;
};

static int compare_values(const struct uvs__node *a, const struct uvs__node *b) {
  return UVS__AROUND(a, struct number, node)->value - UVS__AROUND(b, struct number, node)->value;
}

/* What the tree must answer for a value between and at the numbers. -1: nothing. */
static int first_in(const struct number *numbers, int from) {
  while (from < NUMBERS && !numbers[from].in)
    from++;
  return from < NUMBERS ? from : -1;
}

static int value_of(const struct uvs__node *node) {
  return node == NULL ? -1 : UVS__AROUND(node, struct number, node)->value;
}

TEST a_tree_answers_as_a_sorted_array_does(void) {
  static struct number numbers[NUMBERS];
  struct uvs__tree t;
  uint64_t random = test_seed;
  int i, step;

  memset(numbers, 0, sizeof numbers);
  for (i = 0; i < NUMBERS; i++)
    numbers[i].value = i;
  uvs__tree_init(&t, compare_values);
  for (step = 0; step < 20000; step++) {
    struct number *n = &numbers[test_random_below(&random, NUMBERS)];
    struct number like = {.value = (int)test_random_below(&random, NUMBERS)};

    n->in = !n->in;
    if (n->in)
      uvs__tree_insert(&t, &n->node);
    else
      uvs__tree_remove(&t, &n->node);
    EQ(first_in(numbers, 0), value_of(uvs__tree_first(&t)));
    EQ(first_in(numbers, like.value), value_of(uvs__tree_from(&t, &like.node)));
    EQ(first_in(numbers, like.value + 1), value_of(uvs__tree_after(&t, &like.node)));
    EQ(numbers[like.value].in ? like.value : -1, value_of(uvs__tree_find(&t, &like.node)));
  }
  PASS();
}

static int depth(const struct uvs__node *node) {
  int left = node == NULL ? 0 : depth(node->left), right = node == NULL ? 0 : depth(node->right);

  return node == NULL ? 0 : 1 + (left > right ? left : right);
}

TEST a_tree_stays_flat_when_numbers_are_added_in_order(void) {
  static struct number numbers[100000];
  struct uvs__tree t;
  int i;

  uvs__tree_init(&t, compare_values);
  for (i = 0; i < 100000; i++) {
    numbers[i].value = i;
    uvs__tree_insert(&t, &numbers[i].node);
  }
  ASSERT(depth(t.root) < 80);
  PASS();
}

SUITE(memory) {
  RUN_TEST(stores_without_a_name_share_no_jobs);
  RUN_TEST(a_shared_store_ends_with_its_last_opener);
  RUN_TEST(without_a_clock_the_time_is_that_of_the_system);
  RUN_TEST(an_open_without_memory_answers_enomem);
  RUN_TEST(a_request_without_memory_does_nothing);
  RUN_TEST(a_claim_without_memory_gives_fewer_jobs_and_says_that_there_are_more);
  RUN_TEST(a_claim_of_a_tick_without_memory_leaves_the_tick);
  RUN_TEST(a_hundred_thousand_jobs_are_put_claimed_and_done);
  RUN_TEST(a_tree_answers_as_a_sorted_array_does);
  RUN_TEST(a_tree_stays_flat_when_numbers_are_added_in_order);
}

TEST_MAIN(store_choose(0); RUN_SUITE(memory));
