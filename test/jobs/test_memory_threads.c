/* SPDX-License-Identifier: MIT
 *
 * One store in memory with several openers, each on a thread of its own.
 */
#include "store_fixture.h"

#include <string.h>

#define THREADS 4
#define JOBS 2000 /* of each thread */

struct worker {
  uv_thread_t thread;
  int number;
  int done, lost;
  bool failed;
};

static void finish(struct uvs__request *r) {
  (void)r;
}

static void run(struct worker *w, struct uvs__store *store, struct uvs__request *r) {
  r->done = finish;
  store->ops->run(store, r);
  w->failed |= r->status != 0;
}

static void put(struct worker *w, struct uvs__store *store, int i) {
  struct uvs__put p = {.job = {.queue = "q", .name = "n"}};
  struct uvs__put_request r = {.r = {.op = UVS__PUT}, .puts = &p, .n = 1};
  char rest[40];

  snprintf(rest, sizeof rest, "%d-%d", w->number, i);
  p.job.rest = rest;
  run(w, store, &r.r);
  w->failed |= p.status != 0;
  uvs__arena_free(&r.arena);
}

static void ack(struct worker *w, struct uvs__store *store, struct uvs__claimed *c) {
  struct uvs__settle s = {
      .queue = c->queue, .rest = c->rest, .row = c->row, .fence = c->fence, .op = UVS__ACK};
  struct uvs__settle_request r = {.r = {.op = UVS__SETTLE}, .items = &s, .n = 1};

  run(w, store, &r.r);
  w->done += s.status == 0;
  w->lost += s.status != 0;
  uvs__arena_free(&r.arena);
}

static void claim(struct worker *w, struct uvs__store *store) {
  struct uvs__claim_request r = {
      .r = {.op = UVS__CLAIM}, .queue = "q", .max = 3, .max_crashed = 3, .lease_us = 3600 * SEC};

  run(w, store, &r.r);
  while (r.claimed != NULL) {
    struct uvs__claimed *c = r.claimed;

    r.claimed = c->next;
    ack(w, store, c);
    uvs__arena_free(&c->arena);
    uvs__jobs_free(c);
  }
}

static void work(void *arg) {
  struct uvs__store_config config = {.name = "threads"};
  struct worker *w = arg;
  struct uvs__store *store;
  char text[200];
  int i;

  w->failed = uvs__memory_open(&config, &store, text, sizeof text) != 0;
  for (i = 0; i < JOBS && !w->failed; i++) {
    put(w, store, i);
    claim(w, store);
    if (i % 100 == 0)
      store->ops->poll(store);
  }
  if (!w->failed)
    store->ops->close(store);
}

/* Q53 */
TEST openers_on_several_threads_run_each_job_once(void) {
  struct worker workers[THREADS];
  struct uvs__store_config config = {.name = "threads"};
  struct uvs__store *keep;
  struct worker rest = {.number = THREADS};
  char text[200];
  int i, done = 0;

  memset(workers, 0, sizeof workers);
  EQ(0, uvs__memory_open(&config, &keep, text, sizeof text));
  for (i = 0; i < THREADS; i++) {
    workers[i].number = i;
    EQ(0, uv_thread_create(&workers[i].thread, work, &workers[i]));
  }
  for (i = 0; i < THREADS; i++) {
    EQ(0, uv_thread_join(&workers[i].thread));
    EQ(false, workers[i].failed);
    EQ(0, workers[i].lost);
    done += workers[i].done;
  }
  for (i = 0; i < JOBS; i++)
    claim(&rest, keep);
  EQ(THREADS * JOBS, done + rest.done);
  keep->ops->close(keep);
  PASS();
}

SUITE(memory_threads) {
  RUN_TEST(openers_on_several_threads_run_each_job_once);
}

TEST_MAIN(RUN_SUITE(memory_threads));
