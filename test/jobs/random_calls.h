/* SPDX-License-Identifier: MIT
 *
 * Random requests to a store. They use few names, so several requests often concern the same job,
 * key or queue. The same random numbers make the same request for each of two stores.
 */
#ifndef TEST_RANDOM_CALLS_H
#define TEST_RANDOM_CALLS_H

#include "store_fixture.h"

#define QUEUES 3 /* and that of the crons */
#define RESTS 12
#define CRONS 2

/* The last claim of an id, on both stores. Later claims replace it, so older ones are stale. */
struct held {
  uint64_t fence[2];
  int64_t row[2];
};

struct maker {
  uint64_t random;
  struct held held[QUEUES + 1][RESTS + CRONS];
};

/* One request with all that it points to. It is made twice, with the same random numbers. */
struct call {
  union {
    struct uvs__request head;
    struct uvs__put_request put;
    struct uvs__claim_request claim;
    struct uvs__settle_request settle;
    struct uvs__alter_request alter;
    struct uvs__list_request list;
    struct uvs__bulk_request bulk;
    struct uvs__queue_request queue;
    struct uvs__cron_request cron;
    struct uvs__count_request count;
    struct uvs__events_request events;
    struct uvs__trim_request trim;
  };
  struct uvs__put puts[16];
  struct uvs__settle items[4];
  char queue_text[100];
};

static inline uint64_t below(struct maker *m, uint64_t n) {
  return test_random_below(&m->random, n);
}

static inline bool one_in(struct maker *m, uint64_t n) {
  return below(m, n) == 0;
}

/* side: of whose claims are rows and fences? */
void make_call(struct maker *m, int side, int64_t now_us, struct call *c);
void remember_claims(struct maker *m, int side, const struct uvs__claim_request *r);

#endif
