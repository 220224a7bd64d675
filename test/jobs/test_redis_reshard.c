/* SPDX-License-Identifier: MIT
 *
 * uvs_jobs_reshard: what it refuses, what it reports, a callback that stops it, and allocations
 * that fail. test/redis/reshard.py tests moves while other processes use the store and are killed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvsched/jobs_admin.h>

#include "lib/main.h"
#include "redis/redis_server.h"
#include "redis_ns.h"

#define EQ(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")
#define JOBS 250 /* more than one batch */

void *__real_uvs__jobs_alloc(size_t size);
void *__real_uvs__jobs_realloc(void *old, size_t size);
void __real_uvs__jobs_free(void *p);
void *__wrap_uvs__jobs_alloc(size_t size);
void *__wrap_uvs__jobs_realloc(void *old, size_t size);
void __wrap_uvs__jobs_free(void *p);

static long live;           /* blocks that were not freed */
static long countdown = -1; /* allocations until one fails; below 0: none fails */
static bool failed;

static bool must_fail(void) {
  bool fail = countdown == 0;

  countdown -= countdown >= 0;
  failed = failed || fail;
  return fail;
}

void *__wrap_uvs__jobs_alloc(size_t size) {
  void *p = must_fail() ? NULL : __real_uvs__jobs_alloc(size);

  live += p != NULL;
  return p;
}

void *__wrap_uvs__jobs_realloc(void *old, size_t size) {
  void *p = must_fail() ? NULL : __real_uvs__jobs_realloc(old, size);

  live += p != NULL && old == NULL;
  return p;
}

void __wrap_uvs__jobs_free(void *p) {
  live -= p != NULL;
  __real_uvs__jobs_free(p);
}

/* --------------------------------------------------------------------- helpers --- */

static char one[400], two[800], three[1200]; /* names of the store, with a user of few rights */

static void name_stores(void) {
  static int number;
  char unused[1500];
  const char *s[3];

  redis_ns_name(unused, sizeof unused, 3); /* starts the servers */
  for (int i = 0; i < 3; i++)
    s[i] = redis_ns_server(i)->socket;
  number++;
  snprintf(one, sizeof one, "redis+unix://jobs:secret@%s?ns=tmove%d", s[0], number);
  snprintf(two, sizeof two, "redis+unix://jobs:secret@%s,redis+unix://jobs:secret@%s?ns=tmove%d",
           s[0], s[1], number);
  snprintf(three, sizeof three,
           "redis+unix://jobs:secret@%s,redis+unix://jobs:secret@%s,redis+unix://"
           "jobs:secret@%s?ns=tmove%d",
           s[0], s[1], s[2], number);
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  int *good = arg;

  (void)jobs;
  for (size_t i = 0; i < n; i++)
    *good += results[i].status == 0;
}

static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  (void)jobs;
  *(int *)arg = status == 0 ? (int)stats->pending : status;
}

/* Opens the store, puts n jobs, and counts the jobs. */
static int put_and_count(const char *store, int n) {
  uvs_job_spec_t specs[JOBS];
  uvs_jobs_options_t options;
  int good = 0, count = -1;
  uvs_jobs_t *jobs;
  uv_loop_t loop;
  char text[300];
  uvs_t *s;

  if (uv_loop_init(&loop) != 0 || uvs_open(&loop, NULL, &s) != 0)
    abort();
  uvs_jobs_options_init(&options);
  options.store = store;
  if (uvs_jobs_open(s, &options, &jobs, text, sizeof text) != 0) {
    fprintf(stderr, "%s\n", text);
    abort();
  }
  for (int i = 0; i < n; i++) {
    uvs_job_spec_init(&specs[i]);
    specs[i].name = "n";
    specs[i].delay_ns = UVS_SEC(3600);
  }
  if (n > 0 && uvs_jobs_put_many(jobs, specs, (size_t)n, on_put, &good) != 0)
    abort();
  while (good < n)
    uv_run(&loop, UV_RUN_ONCE);
  if (uvs_jobs_stats(jobs, on_stats, &count) != 0)
    abort();
  while (count == -1)
    uv_run(&loop, UV_RUN_ONCE);
  uvs_jobs_close(jobs, 0, NULL, NULL);
  uvs_close(s, NULL);
  uv_run(&loop, UV_RUN_DEFAULT);
  uv_loop_close(&loop);
  return count;
}

struct seen {
  int steps[UVS_RESHARD_DONE + 1];
  int stop_at; /* this step; 0: never */
  uint64_t jobs, slots, generation;
};

static int on_progress(const uvs_reshard_progress_t *p, void *arg) {
  struct seen *seen = arg;

  seen->steps[p->step]++;
  seen->jobs = p->jobs;
  seen->slots = p->slots;
  seen->generation = p->generation;
  return p->step == seen->stop_at;
}

static char text[300];

static int move(const char *store, const char *to, struct seen *seen) {
  uvs_reshard_options_t options;

  uvs_reshard_options_init(&options);
  options.store = store;
  options.to = to;
  options.on_progress = seen == NULL ? NULL : on_progress;
  options.arg = seen;
  return uvs_jobs_reshard(&options, text, sizeof text);
}

/* ----------------------------------------------------------------------- tests --- */

TEST wrong_arguments_are_refused_with_a_reason(void) {
  static const char *const names[][3] = {
      {"sqlite:x", "redis://h", "store: the store is none of"},
      {"redis://h", "redis://", "to: the host is missing"},
      {"redis://h?ns=a", "redis://h?ns=b", "the namespaces of `store` and `to` differ: a and b"},
      {"redis://h", "redis://h,redis://h:6379", "are the same"}};
  uvs_reshard_options_t options;

  EQ(UV_EINVAL, uvs_jobs_reshard(NULL, text, sizeof text));
  ASSERT(strstr(text, "NULL") != NULL);
  uvs_reshard_options_init(&options);
  EQ(UV_EINVAL, uvs_jobs_reshard(&options, text, sizeof text));
  options.store = options.to = "redis://h";
  options.size--;
  EQ(UV_EINVAL, uvs_jobs_reshard(&options, NULL, 0));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    EQ(UV_EINVAL, move(names[i][0], names[i][1], NULL));
    ASSERT_STR_EQ(names[i][2], strstr(text, names[i][2]) == NULL ? text : names[i][2]);
  }
  PASS();
}

TEST progress_says_each_step(void) {
  struct seen seen = {.stop_at = 0};

  name_stores();
  EQ(JOBS, put_and_count(one, JOBS));
  EQ(0, move(one, two, &seen));
  EQ(1, seen.steps[UVS_RESHARD_CHECK]);
  EQ(4, seen.steps[UVS_RESHARD_SWITCHED]);
  ASSERT(seen.steps[UVS_RESHARD_MOVED] > 0);
  EQ(seen.steps[UVS_RESHARD_MOVED], seen.steps[UVS_RESHARD_EXPORTED]);
  EQ(seen.steps[UVS_RESHARD_MOVED], seen.steps[UVS_RESHARD_IMPORTED]);
  EQ(1, seen.steps[UVS_RESHARD_DONE]);
  EQ(512, seen.slots);
  EQ(2, seen.generation);
  ASSERT(seen.jobs > 0 && seen.jobs < JOBS);
  EQ(JOBS, put_and_count(one, 0)); /* the old name still works */
  EQ(JOBS, put_and_count(two, 0));
  PASS();
}

TEST a_move_that_the_callback_stops_is_continued_by_the_next_call(void) {
  name_stores();
  EQ(JOBS, put_and_count(one, JOBS));
  for (int step = UVS_RESHARD_CHECK; step <= UVS_RESHARD_DONE; step++) {
    struct seen seen = {.stop_at = step};
    int rc = move(one, two, &seen);

    EQ(seen.steps[step] > 0 ? UV_ECANCELED : 0, rc);
    if (step == UVS_RESHARD_EXPORTED) /* a job of the batch waits */
      ASSERT(put_and_count(one, 0) < JOBS);
  }
  EQ(JOBS, put_and_count(two, 0));
  PASS();
}

/* Each call comes further than the one before, because more allocations succeed. */
TEST memory_may_run_out_anywhere(void) {
  const char *to[] = {two, three, one};
  long before, failures = 0;

  name_stores();
  EQ(JOBS, put_and_count(one, JOBS));
  for (size_t i = 0; i < 3; i++) {
    int rc = -1;

    before = live;
    for (long n = 0; rc != 0; n += 1 + n / 40) {
      countdown = n;
      failed = false;
      rc = move(i == 2 ? three : one, to[i], NULL);
      countdown = -1;
      EQ(before, live);
      ASSERT(rc == 0 || (failed && *text != '\0'));
      failures += rc != 0;
    }
    EQ(JOBS, put_and_count(to[i], 0));
  }
  printf("%ld calls failed\n", failures);
  PASS();
}

SUITE(reshard) {
  RUN_TEST(wrong_arguments_are_refused_with_a_reason);
  RUN_TEST(progress_says_each_step);
  RUN_TEST(a_move_that_the_callback_stops_is_continued_by_the_next_call);
  RUN_TEST(memory_may_run_out_anywhere);
}

TEST_MAIN(RUN_SUITE(reshard));
