/* SPDX-License-Identifier: MIT */
#include "shelf.h"

#include "threads.h"

static int submit(void *self, void (*fn)(void *arg), void *arg) {
  struct shelf *e = self;
  int rc = 0;

  e->asked++;
  if (e->on_submit != NULL)
    rc = e->on_submit(e->arg);
  if (rc == 0 && e->refuses < 0) {
    rc = e->refuses;
    if (e->refuse_first > 0 && --e->refuse_first == 0)
      e->refuses = 0;
  }
  if (rc < 0)
    return rc;
  if (e->n == SHELF_MAX) {
    fprintf(stderr, "shelf: more than %d jobs\n", SHELF_MAX);
    abort();
  }
  e->jobs[e->n++] = (struct shelf_job){fn, arg};
  e->submitted++;
  return rc;
}

static int concurrency(void *self) {
  return ((struct shelf *)self)->at_once;
}

static void note_close(void *self) {
  ((struct shelf *)self)->closed++;
}

void shelf_init(struct shelf *e) {
  memset(e, 0, sizeof *e);
  uvs_executor_init(&e->table);
  e->table.submit = submit;
  e->table.concurrency = concurrency;
  e->table.close = note_close;
  e->table.self = e;
  e->at_once = 1;
}

struct shelf_job shelf_take(struct shelf *e) {
  struct shelf_job job = e->jobs[0];

  e->n--;
  memmove(e->jobs, e->jobs + 1, e->n * sizeof *e->jobs);
  return job;
}

static int run_job(void *arg) {
  struct shelf_job *job = arg;

  job->fn(job->arg);
  return 0;
}

bool shelf_run_job(struct shelf_job job) {
  return elsewhere(run_job, &job) == 0;
}

bool shelf_run(struct shelf *e) {
  return shelf_run_job(shelf_take(e));
}

void shelf_empty(struct fixture *f, struct shelf *e) {
  fixture_turn(f);
  while (e->n > 0) {
    if (!shelf_run(e))
      return;
    fixture_turn(f);
  }
}

enum greatest_test_res shelf_open(struct fixture *f, struct shelf *e) {
  f->options.executor = &e->table;
  CHECK_CALL(fixture_open_turned(f));
  PASS();
}

enum greatest_test_res shelf_close(struct fixture *f, struct shelf *e) {
  shelf_empty(f, e);
  CHECK_CALL(fixture_close(f));
  ASSERT_U64(0, e->n);
  ASSERT_U64(0, e->closed);
  PASS();
}

void log_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s;
  log_add(arg, EV_USER, 'q', lane, 0);
}

enum greatest_test_res lane_on(struct fixture *f, const uvs_executor_t *e, uvs_lane_t *ret) {
  uvs_lane_options_t o;

  uvs_lane_options_init(&o);
  o.executor = e;
  o.on_quiet = log_quiet;
  o.arg = f;
  ASSERT_RC(0, uvs_lane_open(f->s, &o, ret));
  PASS();
}

enum greatest_test_res open_place(struct fixture *f, struct shelf *e, enum place place,
                                  uvs_lane_t *ret) {
  fixture_init(f);
  shelf_init(e);
  *ret = 0;
  if (place == LANE_WITH_ITS_OWN)
    CHECK_CALL(fixture_open_turned(f));
  else
    CHECK_CALL(shelf_open(f, e));
  if (place != SCHEDULER)
    CHECK_CALL(lane_on(f, place == LANE ? NULL : &e->table, ret));
  PASS();
}
