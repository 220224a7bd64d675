/* SPDX-License-Identifier: MIT
 *
 * A scheduler that has reached its cap, and submissions to it from the loop thread or from another
 * thread. For programs with the fixture that can include headers of src/.
 */
#ifndef TEST_FULL_H
#define TEST_FULL_H

#include "fixture.h"
#include "inspect.h"
#include "threads.h"

struct submission {
  uvs_t *s;
  const uvs_task_t *t;
  size_t n;
  uvs_id_t *ids;
};

static inline int do_submit_many(void *arg) {
  struct submission *c = arg;

  return uvs_submit_many(c->s, c->t, c->n, c->ids);
}

/* Submits from this thread, the loop's, or from another thread that is joined. */
static inline int submit_from(bool off_loop, uvs_t *s, const uvs_task_t *t, size_t n,
                              uvs_id_t *ids) {
  struct submission c = {s, t, n, ids};

  return off_loop ? elsewhere(do_submit_many, &c) : do_submit_many(&c);
}

static inline void prepare(struct fixture *f, uint32_t cap, int rejection) {
  fixture_init(f);
  f->options.max_pending = cap;
  f->options.rejection_policy = rejection;
  f->options.concurrency = 1;
}

/* After prepare: opens the fixture, runs the loop, and fills the scheduler up to its cap with tasks
 * 'x', due in an hour. */
static inline enum greatest_test_res fill(struct fixture *f) {
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t x = fixture_once(f, 'x', UVS_HOUR(1));
  for (uint32_t i = 0; i < f->options.max_pending; i++)
    ASSERT_RC(0, uvs_submit(f->s, &x, NULL));
  PASS();
}

static inline enum greatest_test_res open_full(struct fixture *f, uint32_t cap, int rejection) {
  prepare(f, cap, rejection);
  CHECK_CALL(fill(f));
  PASS();
}

/* The counts add up, inspect_check passes, and nothing is in progress. */
static inline enum greatest_test_res nothing_is_left(struct fixture *f) {
  uvs_counts_t c = counts_of(f->s);

  ASSERT(adds_up(&c));
  ASSERT(inspect_idle(f->s));
  PASS();
}

static inline enum greatest_test_res close_checked(struct fixture *f) {
  fixture_turn(f);
  CHECK_CALL(nothing_is_left(f));
  CHECK_CALL(fixture_close(f));
  PASS();
}

/* Submits t in every form that the API has, one task each, with t's arg and mostly probe_work. */
enum { FORMS = 7 };

static inline int submit_form(uvs_t *s, int form, const uvs_task_t *t, uvs_id_t *ret_id) {
  switch (form) {
  case 0:
    return uvs_submit(s, t, ret_id);
  case 1:
    return uvs_submit_many(s, t, 1, ret_id);
  case 2:
    return uvs_execute(s, probe_work, t->arg);
  case 3:
    return uvs_schedule(s, UVS_MS(1), probe_work, t->arg, ret_id);
  case 4:
    return uvs_schedule_at_fixed_rate(s, 0, UVS_MS(1), probe_work, t->arg, ret_id);
  case 5:
    return uvs_schedule_with_fixed_delay(s, 0, UVS_MS(1), probe_work, t->arg, ret_id);
  default:
    return uvs_schedule_at(s, 0, probe_work, t->arg, ret_id);
  }
}

/* A group of two tasks, for `elsewhere`. */
struct gathering {
  struct fixture *f;
  uvs_task_t t[2];
  uvs_outcome_t o[2];
  size_t winner;
};

static inline int do_all(void *arg) {
  struct gathering *g = arg;

  uvs_outcome_init(&g->o[0]);
  uvs_outcome_init(&g->o[1]);
  return uvs_all(g->f->s, g->t, 2, UVS_NEVER, g->o);
}

static inline int do_any(void *arg) {
  struct gathering *g = arg;

  uvs_outcome_init(&g->o[0]);
  return uvs_any(g->f->s, g->t, 2, UVS_NEVER, &g->winner, g->o);
}

#endif
