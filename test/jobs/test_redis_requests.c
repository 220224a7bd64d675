/* SPDX-License-Identifier: MIT
 *
 * Random requests to the store in Redis while allocations fail: each is answered once, with 0 or
 * with a code that says that it may be repeated, and nothing leaks.
 */
#include <string.h>

#include "jobs/redis_store.h"

#include "describe.h"
#include "random_calls.h"

#define CALLS 5000

void *__real_uvs__jobs_alloc(size_t size);
void *__real_uvs__jobs_realloc(void *old, size_t size);
void __real_uvs__jobs_free(void *p);
void *__wrap_uvs__jobs_alloc(size_t size);
void *__wrap_uvs__jobs_realloc(void *old, size_t size);
void __wrap_uvs__jobs_free(void *p);

static long live;           /* blocks that were not freed */
static long countdown = -1; /* allocations until one fails; below 0: none fails */
static long failed;

static bool must_fail(void) {
  bool fail = countdown == 0;

  countdown -= countdown >= 0;
  failed += fail;
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

/* Codes that a request may answer in the random programs. */
static bool is_good(int status) {
  return status == 0 || status == UV_ENOMEM || status == UV_EAGAIN || status == UVS_EUNKNOWN ||
         status == UV_ENOENT || status == UV_EEXIST || status == UVS_JOB_EXISTS;
}

TEST each_request_is_answered_although_memory_runs_out(void) {
  static struct maker maker;
  static struct call calls[3];
  static struct store_fixture f;
  struct uvs__redis *s;
  long before, good = 0;

  maker.random = test_seed;
  store_init(&f);
  s = uvs__redis_server_of(f.first, 0);
  before = live;
  for (int i = 0; i < CALLS; i++) {
    size_t n = 1 + below(&maker, 3);

    for (size_t j = 0; j < n; j++) {
      make_call(&maker, 0, store_now(&f), &calls[j]);
      calls[j].head.next = j + 1 < n ? &calls[j + 1].head : NULL;
    }
    s->leads = i % 100 < 50; /* what scripts do besides may not fail either */
    s->housekeeping = s->leads ? 3 : 0;
    countdown = one_in(&maker, 4) ? (long)below(&maker, 60) : -1;
    store_run(&f, &calls[0].head);
    countdown = -1;
    for (size_t j = 0; j < n; j++) {
      ASSERT(is_good(calls[j].head.status));
      good += calls[j].head.status == 0;
      if (calls[j].head.op == UVS__CLAIM)
        remember_claims(&maker, 0, &calls[j].claim);
      free_answer(&calls[j].head);
    }
    store_advance(&f, (int64_t)below(&maker, SEC));
  }
  ASSERT(failed > CALLS / 20);
  ASSERT(good > CALLS / 2);
  ASSERT(live <= before + 30); /* of the connections, and the names and tables of queues */
  store_close(&f);
  EQ(0, live);
  PASS();
}

TEST an_open_without_memory_answers_enomem_and_leaves_nothing(void) {
  struct store_fixture f;
  long n = 0;

  store_init(&f);
  do {
    struct uvs__store_config config = {.name = f.name};
    struct uvs__store *store = NULL;
    char text[300] = "";
    long before = live;
    int rc;

    failed = 0;
    countdown = n;
    rc = uvs__redis_open(&config, &store, text, sizeof text);
    countdown = -1;
    if (rc == 0) {
      store->ops->close(store);
    } else {
      ASSERT(*text != '\0');
      ASSERT(store == NULL);
    }
    EQ(before, live);
  } while (failed > 0 && ++n < 1000);
  ASSERT(n > 3 && n < 1000);
  store_close(&f);
  EQ(0, live);
  PASS();
}

SUITE(requests) {
  RUN_TEST(an_open_without_memory_answers_enomem_and_leaves_nothing);
  RUN_TEST(each_request_is_answered_although_memory_runs_out);
}

TEST_MAIN(store_kind = store_kind_named("redis"); RUN_SUITE(requests);
          store_kind = store_kind_named("redis2"); RUN_SUITE(requests));
