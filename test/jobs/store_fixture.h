/* SPDX-License-Identifier: MIT
 *
 * A store of jobs for tests, on a virtual clock. ON_EVERY_STORE runs a suite against each store in
 * the table of store_fixture.c. The functions carry out one request each, and leave the answer in
 * the fixture until the next request of its kind.
 */
#ifndef TEST_STORE_FIXTURE_H
#define TEST_STORE_FIXTURE_H

#include "lib/main.h"

#include "jobs/alloc.h"
#include "jobs/store.h"
#include "store_home.h"

#define CLAIMS_MAX 1100
#define SEC INT64_C(1000000) /* all times of stores are in microseconds */

/* Evaluates both sides once. */
#define EQ(expected, got) \
  do { \
    long long expected_ = (long long)(expected), got_ = (long long)(got); \
    ASSERT_EQ_FMT(expected_, got_, "%lld"); \
  } while (0)
#define SAYS(expected, got) ASSERT_STR_EQ((expected), (got))

struct store_kind {
  const char *name;
  int (*open)(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
              size_t size);
  bool keeps;  /* what was put is there after the store was closed */
  bool server; /* it answers later; its lists have no order; only if STORE asks for it */
  int servers; /* how many; with more than 1, jobs have no order across servers */
};

/* Chooses the store of all fixtures that are opened from now on. False: there are not so many.
 * STORE=name in the environment chooses only that one. */
bool store_choose(size_t i);
extern const struct store_kind *store_kind;
const struct store_kind *store_kind_named(const char *name); /* NULL: there is none */
#define ON_EVERY_STORE(...) \
  for (size_t store_i_ = 0; store_choose(store_i_); store_i_++) { \
    if (store_kind != NULL) { \
      __VA_ARGS__; \
    } \
  }

struct store_fixture {
  const struct store_kind *kind;
  int64_t wall_ns; /* the clock of all openers */
  char folder[200], name[400];
  struct uvs__store *first, *second; /* two openers of one store; second is NULL at first */
  struct uvs__store *at;             /* where requests go */

  int64_t lease_us; /* of claims; 10 s */
  uint32_t max_crashed;
  bool pending_only;

  struct uvs__claimed *claimed[CLAIMS_MAX]; /* of the last claim */
  size_t n_claimed;
  int64_t next_us;
  struct uvs__claimed *history; /* all claimed jobs, to be freed */

  char there[200]; /* of the last put */
  int64_t due_us;

  struct uvs__arena arena; /* what was read last */
  uvs_job_info_t *infos;
  size_t n_infos;
  int64_t cursor; /* of the next page */
  uint64_t count;
  uvs_jobs_stats_t stats;
  struct uvs__cron *crons;
  size_t n_crons;
  uint64_t events_seen;
  char text[8000];
};

void store_init(struct store_fixture *f);       /* of store_kind */
int store_open_second(struct store_fixture *f); /* and makes it the one that requests go to */
/* Closes the first opener, and opens the store again. A store in memory is opened again before it
 * is closed. */
int store_reopen(struct store_fixture *f);
void store_close(struct store_fixture *f);
int64_t store_now(const struct store_fixture *f);
void store_advance(struct store_fixture *f, int64_t us);
void store_run(struct store_fixture *f, struct uvs__request *first); /* a batch */
void store_done(struct uvs__request *r);                             /* for requests of a batch */

/* Jobs. The record has name "n" and is due now. */
struct uvs__record store_job(const char *queue, const char *rest);
struct uvs__when after_us(int64_t delay_us);
struct uvs__when at_us(int64_t us);
int store_put(struct store_fixture *f, const struct uvs__record *job);
int store_put_simple(struct store_fixture *f, const char *queue, const char *rest);
int store_put_key(struct store_fixture *f, const char *rest, const char *key, int policy);
int store_cancel(struct store_fixture *f, const char *queue, const char *rest);
int store_move(struct store_fixture *f, const char *queue, const char *rest, struct uvs__when when);

/* The rests of the claimed jobs, with blanks between. */
const char *store_claim(struct store_fixture *f, const char *queue, uint32_t max);

/* Settle the i-th job of the last claim. */
struct uvs__settle store_settlement(struct store_fixture *f, size_t i, enum uvs__settle_op op);
int store_settle(struct store_fixture *f, struct uvs__settle *s);
int store_ack(struct store_fixture *f, size_t i);
int store_retry(struct store_fixture *f, size_t i, int64_t delay_us);
int store_release(struct store_fixture *f, size_t i, int64_t delay_us);
int store_extend(struct store_fixture *f, size_t i, int64_t lease_us);
int store_bury(struct store_fixture *f, size_t i, const char *why);

/* infos[0] of one job; the status. */
int store_get(struct store_fixture *f, const char *queue, const char *rest);
int store_state(struct store_fixture *f, const char *queue, const char *rest); /* 0: no such job */
/* The rests of a page. */
const char *store_list(struct store_fixture *f, const uvs_job_filter_t *filter, int64_t cursor,
                       uint32_t limit);
const char *store_list_state(struct store_fixture *f, int state);
/* Returns the status; count and cursor are written. */
int store_bulk(struct store_fixture *f, enum uvs__op op, const uvs_job_filter_t *filter,
               int64_t cursor, uint32_t limit);
int store_set_queue(struct store_fixture *f, const uvs_job_queue_t *q);
uvs_job_queue_t store_queue(const char *name);
const uvs_queue_stats_t *store_count(struct store_fixture *f, const char *queue); /* NULL: none */
uint64_t store_trim(struct store_fixture *f, uint32_t max_done, uint32_t max_dead,
                    int64_t dead_age_us, uint32_t limit);
struct uvs__cron store_cron(const char *name, uint64_t revision);
int store_set_cron(struct store_fixture *f, const struct uvs__cron *c);
int store_remove_cron(struct store_fixture *f, const char *name);
int store_crons(struct store_fixture *f);
/* New events since the last call: "cancelled q/a; dead q/b why". */
const char *store_events(struct store_fixture *f);

#endif
