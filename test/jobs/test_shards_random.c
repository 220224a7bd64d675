/* SPDX-License-Identifier: MIT
 *
 * Random programs on the store in memory and on several Redis servers (fault test F12). Each id has
 * one key, or none, because a put is repeated with the key that it had. Claims take all that is
 * visible, so the order across servers does not matter.
 */
#include <stdlib.h>
#include <string.h>

#include "store_fixture.h"

#define RESTS 40
#define STEPS 6000

struct pair {
  struct store_fixture sides[2];
  struct uvs__claimed *held[2][RESTS]; /* the last claim of each job */
  uint64_t random;
  char what[300]; /* the last step */
};

static size_t below(struct pair *p, size_t n) {
  return (size_t)test_random_below(&p->random, n);
}

static const char *rest_of(size_t i) {
  static char rests[RESTS][8];

  snprintf(rests[i], sizeof rests[i], "r%02zu", i);
  return rests[i];
}

/* Two of three jobs have a key; four jobs share one. */
static const char *key_of(size_t i) {
  static char keys[RESTS][8];

  snprintf(keys[i], sizeof keys[i], "k%zu", i % 10);
  return i % 3 == 0 ? NULL : keys[i];
}

static struct uvs__record any_job(struct pair *p, size_t i) {
  struct uvs__record job = store_job("q", rest_of(i));

  job.key = key_of(i);
  job.key_policy = (int)below(p, 3);
  job.priority = (int)below(p, 3) - 1;
  job.due = after_us((int64_t)below(p, 3) * SEC);
  job.keep_us = below(p, 2) == 0 ? 0 : 60 * SEC;
  return job;
}

/* ------------------------------------------------------------------- steps --- */

static int compare_words(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static size_t index_of(const char *rest) {
  return (size_t)atoi(rest + 1);
}

/* The claimed jobs as sorted words. */
static void claim(struct pair *p, int side, char *to, size_t size) {
  struct store_fixture *f = &p->sides[side];
  const char *words[RESTS];
  size_t used = 0;

  store_claim(f, "q", 1000);
  for (size_t i = 0; i < f->n_claimed; i++) {
    words[i] = f->claimed[i]->rest;
    p->held[side][index_of(words[i])] = f->claimed[i];
  }
  qsort(words, f->n_claimed, sizeof *words, compare_words);
  *to = '\0';
  for (size_t i = 0; i < f->n_claimed; i++)
    used += (size_t)snprintf(to + used, size - used, "%s ", words[i]);
}

static int settle(struct pair *p, int side, size_t i, struct uvs__settle *s) {
  const struct uvs__claimed *c = p->held[side][i];

  s->queue = c->queue;
  s->rest = c->rest;
  s->part = c->part;
  s->row = c->row;
  s->fence = c->fence;
  return store_settle(&p->sides[side], s);
}

static bool is_running(struct pair *p, size_t i) {
  struct store_fixture *f = &p->sides[0];

  return store_state(f, "q", rest_of(i)) == UVS_JOB_RUNNING &&
         f->infos[0].due_ns / 1000 > store_now(f);
}

/* Only runs that are not lost put jobs: the jobs of a lost run may exist or not. */
static enum greatest_test_res do_settle(struct pair *p, size_t i) {
  enum uvs__settle_op op = (enum uvs__settle_op)(UVS__ACK + below(p, 5));
  int64_t us = (int64_t)below(p, 9) * SEC;
  struct uvs__put puts[2][2] = {{{.status = 0}}};
  size_t n = op == UVS__ACK && is_running(p, i) ? below(p, 3) : 0;
  int status[2];

  if (p->held[0][i] == NULL)
    PASS();
  for (size_t j = 0; j < n; j++)
    puts[0][j].job = puts[1][j].job = any_job(p, below(p, RESTS));
  for (int side = 0; side < 2; side++) {
    struct uvs__settle s = {.op = op, .when = after_us(us), .error = "failed", .puts = puts[side]};

    s.n_puts = n;
    status[side] = settle(p, side, i, &s);
  }
  snprintf(p->what, sizeof p->what, "settle %s op %d puts %zu", rest_of(i), op, n);
  EQ(status[0], status[1]);
  for (size_t j = 0; j < n && status[0] == 0; j++)
    EQ(puts[0][j].status, puts[1][j].status);
  PASS();
}

static enum greatest_test_res do_put(struct pair *p, size_t i) {
  struct uvs__record job = any_job(p, i);

  snprintf(p->what, sizeof p->what, "put %s policy %d", rest_of(i), job.key_policy);
  EQ(store_put(&p->sides[0], &job), store_put(&p->sides[1], &job));
  SAYS(p->sides[0].there, p->sides[1].there);
  EQ(p->sides[0].due_us, p->sides[1].due_us);
  PASS();
}

static enum greatest_test_res do_bulk(struct pair *p) {
  enum uvs__op op = below(p, 4) == 0 ? UVS__PURGE : UVS__REDRIVE;
  uint64_t count[2] = {0};
  uvs_job_filter_t filter;

  uvs_job_filter_init(&filter);
  filter.state = UVS_JOB_DEAD;
  for (int side = 0; side < 2; side++) {
    struct store_fixture *f = &p->sides[side];

    f->cursor = 0;
    do {
      EQ(0, store_bulk(f, op, &filter, f->cursor, 7));
      count[side] += f->count;
    } while (f->cursor != 0);
  }
  snprintf(p->what, sizeof p->what, "bulk %d", op);
  EQ(count[0], count[1]);
  PASS();
}

static enum greatest_test_res do_step(struct pair *p) {
  size_t i = below(p, RESTS);
  int64_t us = (int64_t)below(p, 4) * SEC / 2;
  char claimed[2][RESTS * 4 + 1];

  switch (below(p, 12)) {
  case 0:
  case 1:
  case 2:
  case 3:
    return do_put(p, i);
  case 4:
  case 5:
    for (int side = 0; side < 2; side++)
      claim(p, side, claimed[side], sizeof claimed[side]);
    snprintf(p->what, sizeof p->what, "claim");
    SAYS(claimed[0], claimed[1]);
    ASSERT(p->sides[1].next_us <= p->sides[0].next_us); /* earlier costs an empty claim */
    PASS();
  case 6:
  case 7:
  case 8:
    return do_settle(p, i);
  case 9:
    snprintf(p->what, sizeof p->what, "cancel %s", rest_of(i));
    EQ(store_cancel(&p->sides[0], "q", rest_of(i)), store_cancel(&p->sides[1], "q", rest_of(i)));
    PASS();
  case 10:
    snprintf(p->what, sizeof p->what, "move %s", rest_of(i));
    EQ(store_move(&p->sides[0], "q", rest_of(i), after_us(us)),
       store_move(&p->sides[1], "q", rest_of(i), after_us(us)));
    PASS();
  default:
    return below(p, 5) == 0 ? do_bulk(p) : do_put(p, i);
  }
}

/* ----------------------------------------------------------------- compare --- */

static enum greatest_test_res compare_all(struct pair *p) {
  const uvs_queue_stats_t *a, *b;

  for (size_t i = 0; i < RESTS; i++) {
    int state = store_state(&p->sides[0], "q", rest_of(i));
    const uvs_job_info_t *x = p->sides[0].infos, *y;

    EQ(state, store_state(&p->sides[1], "q", rest_of(i)));
    if (state <= 0)
      continue;
    y = p->sides[1].infos;
    EQ(x->due_ns, y->due_ns);
    EQ(x->put_ns, y->put_ns);
    EQ(x->ended_ns, y->ended_ns);
    EQ(x->attempts, y->attempts);
    EQ(x->crashes, y->crashes);
    EQ(x->cancelling, y->cancelling);
    SAYS(x->error, y->error);
  }
  a = store_count(&p->sides[0], "q");
  b = store_count(&p->sides[1], "q");
  EQ(a == NULL ? 0 : a->pending, b == NULL ? 0 : b->pending);
  EQ(a == NULL ? 0 : a->running, b == NULL ? 0 : b->running);
  EQ(a == NULL ? 0 : a->dead, b == NULL ? 0 : b->dead);
  EQ(p->sides[0].stats.kept, p->sides[1].stats.kept);
  PASS();
}

static enum greatest_test_res play(struct pair *p) {
  for (int step = 0; step < STEPS; step++) {
    int64_t us = below(p, 40) == 0 ? 40 * SEC : (int64_t)below(p, 3) * SEC / 2;

    store_advance(&p->sides[0], us);
    store_advance(&p->sides[1], us);
    CHECK_CALL(do_step(p));
    if (step % 50 == 49)
      CHECK_CALL(compare_all(p));
  }
  return compare_all(p);
}

static enum greatest_test_res compare_with(const char *name) {
  static struct pair p;
  enum greatest_test_res rc;

  memset(&p, 0, sizeof p);
  p.random = test_seed;
  store_kind = store_kind_named("memory");
  store_init(&p.sides[0]);
  store_kind = store_kind_named(name);
  store_init(&p.sides[1]);
  rc = play(&p);
  if (rc != GREATEST_TEST_RES_PASS)
    printf("\nthe last step: %s\n", p.what);
  store_close(&p.sides[0]);
  store_close(&p.sides[1]);
  return rc;
}

/* Q67 */
TEST two_servers_answer_as_memory_does(void) {
  return compare_with("redis2");
}

TEST three_servers_answer_as_memory_does(void) {
  return compare_with("redis3");
}

SUITE(programs) {
  RUN_TEST(two_servers_answer_as_memory_does);
  RUN_TEST(three_servers_answer_as_memory_does);
}

TEST_MAIN(RUN_SUITE(programs));
