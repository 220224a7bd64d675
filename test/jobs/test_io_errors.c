/* SPDX-License-Identifier: MIT
 *
 * F3: the disk fails under the SQLite store. One random program is run again and again; in the n-th
 * run its n-th write or sync fails, once or from then on. What must hold:
 *   - No request that failed answers 0. An answer says whether it is of use to ask again. If an
 *     answer says that nothing was done, then nothing was done.
 *   - When the disk works again, the same request answers 0, without any help.
 *   - Nothing that was acknowledged is lost, also if the power is cut soon after the failure.
 */
#include <stdio.h>
#include <string.h>

#include "lib/main.h"
#include "power_vfs.h"
#include "promise.h"

#define BATCHES 12
#define REPEATS 3 /* on a disk that works; the first may find that the file must be opened anew */

struct fault {
  enum power_op op;
  bool lasting;
  int code;
};

static bool is_long; /* every operation, in three programs */
static uint64_t seed;

/* ------------------------------------------------------------ one program --- */

static bool is_answered(const struct script_step *step) {
  return step->answers[SCRIPT_TESTED].status == 0;
}

/* A failure of the disk passes, so each answer must be one of these. */
static bool may_be_repeated(const struct script_step *step) {
  int status = step->answers[SCRIPT_TESTED].status;

  return status == UV_EAGAIN || status == UVS_EUNKNOWN || status == UV_ENOSPC;
}

/* After "nothing was done", a job that was put for the first time is not there. */
static bool is_not_done(struct promise *p, const struct script_step *step) {
  if (step->op != SCRIPT_PUT || step->answers[SCRIPT_TESTED].status == UVS_EUNKNOWN)
    return true;
  for (unsigned i = 0; i < step->n; i++) {
    bool intact, is_new = true;

    for (const struct script_step *before = p->script->steps; before < step; before++)
      for (unsigned k = 0; k < before->n; k++)
        is_new &= before->items[k].job != step->items[i].job &&
                  !(before->items[k].puts && before->items[k].put == step->items[i].job);
    if (is_new && script_state(p->script, p->store, step->items[i].job, &intact) > 0) {
      snprintf(p->why, sizeof p->why, "job %u is there, although its put answered %d",
               step->items[i].job, step->answers[SCRIPT_TESTED].status);
      return false;
    }
  }
  return true;
}

/* Repeats a step that was not answered, on a disk that works. */
static bool repeat(struct promise *p, unsigned step) {
  const struct script *s = p->script;

  for (unsigned i = 0; i < REPEATS && !is_answered(&s->steps[step]); i++)
    promise_run(p, step, 1);
  if (is_answered(&s->steps[step]))
    return true;
  snprintf(p->why, sizeof p->why, "step %u answers %d on a disk that works: %s", step,
           s->steps[step].answers[SCRIPT_TESTED].status, p->store->trouble);
  return false;
}

/* All steps from `first` on are answered, or may be repeated. */
static bool answers_are_allowed(struct promise *p, unsigned first) {
  for (unsigned i = first; i < p->script->n_steps; i++) {
    const struct script_step *step = &p->script->steps[i];

    if (!is_answered(step) && !may_be_repeated(step)) {
      snprintf(p->why, sizeof p->why, "step %u answers %d: %s", i,
               step->answers[SCRIPT_TESTED].status, p->store->trouble);
      return false;
    }
  }
  return true;
}

/* Runs the next batch; then heals the disk, and repeats what failed. */
static bool run_batch(struct promise *p) {
  struct script *s = p->script;
  unsigned first = s->n_steps;

  script_add_batch(s);
  promise_run(p, first, s->n_steps - first);
  if (script_below(s, 3) == 0)
    p->store->ops->idle(p->store);
  if (power_is_off())
    return true;
  for (unsigned i = first; i < s->n_steps; i++)
    if (!is_answered(&s->steps[i]) && !is_not_done(p, &s->steps[i]))
      return false;
  for (unsigned i = first; i < s->n_steps; i++)
    if (!is_answered(&s->steps[i]) && may_be_repeated(&s->steps[i]))
      promise_run(p, i, 1); /* The disk may still fail. */
  if (power_failures() > 0)
    power_heal();
  if (power_is_off())
    return true;
  if (!answers_are_allowed(p, first))
    return false;
  for (unsigned i = first; i < s->n_steps && !power_is_off(); i++)
    if (!is_answered(&s->steps[i]) && !repeat(p, i))
      return power_is_off();
  return true;
}

static bool open_again(struct promise *p) {
  promise_close(p);
  power_on();
  power_heal();
  return promise_is_sound(p) && promise_open(p) == 0;
}

/* A store that was closed in order. */
static bool make_file(struct promise *p) {
  bool good = promise_open(p) == 0 && run_batch(p);

  promise_close(p);
  return good;
}

/* The n-th operation fails. cut_after: then the power is cut within so many operations; 0: it is
 * not. Returns false and a text if the store is wrong. *ret_reached: there was an n-th. */
static bool play(const struct fault *fault, uint64_t n, uint64_t cut_after, bool *ret_reached,
                 char *why, size_t size) {
  struct promise p;
  bool good;

  promise_make(&p, seed);
  good = cut_after % 2 == 0 || make_file(&p); /* a new file, or one that is there */
  power_fail(fault->op, n, fault->lasting, fault->code);
  power_cut_after_failure(cut_after);
  good = good && (promise_open(&p) == 0 || power_failures() > 0);
  if (p.store == NULL && !power_is_off()) {
    power_heal();
    good = good && (promise_open(&p) == 0 || power_is_off());
  }
  for (unsigned i = 0; good && i < BATCHES && !power_is_off(); i++)
    good = run_batch(&p);
  *ret_reached = power_failures() > 0;
  if (good && cut_after > 0)
    power_cut();
  if (good)
    good = (power_is_off() || promise_is_kept(&p)) && open_again(&p) && promise_is_kept(&p);
  snprintf(why, size, "%s", p.why);
  promise_free(&p);
  return good;
}

/* ----------------------------------------------------------------- tests --- */

static enum greatest_test_res play_all(const struct fault *fault, uint64_t cut_after) {
  uint64_t stride = is_long ? 1 : fault->op == POWER_WRITE ? 61 : 2;
  bool reached = true;
  char why[300];
  uint64_t n;

  for (n = 1 + (seed + cut_after) % stride; reached; n += stride) {
    if (!play(fault, n, cut_after, &reached, why, sizeof why)) {
      printf("SEED=%llu: operation %llu, cut after %llu: %s\n", (unsigned long long)seed,
             (unsigned long long)n, (unsigned long long)cut_after, why);
      FAIL();
    }
  }
  ASSERT(n > 8); /* The program wrote something. */
  PASS();
}

static enum greatest_test_res play_with_cuts(const struct fault *fault) {
  static const uint64_t after[] = {0, 1, 2, 3, 5, 8, 13, 21, 40, 81};

  seed = test_seed;
  for (unsigned program = 0; program < (is_long ? 3U : 1U); program++, seed++)
    for (size_t i = 0; i < sizeof after / sizeof *after; i++)
      CHECK_CALL(play_all(fault, after[i]));
  PASS();
}

/* Q1 Q43 */
TEST a_write_that_fails_once_is_reported_and_loses_nothing(void) {
  return play_with_cuts(&(struct fault){POWER_WRITE, false, SQLITE_IOERR_WRITE});
}

/* Q43 */
TEST writes_that_fail_for_a_while_are_reported_and_lose_nothing(void) {
  return play_with_cuts(&(struct fault){POWER_WRITE, true, SQLITE_IOERR_WRITE});
}

/* Q44 */
TEST a_full_disk_is_reported_and_loses_nothing(void) {
  return play_with_cuts(&(struct fault){POWER_WRITE, true, SQLITE_FULL});
}

/* Q43 */
TEST a_sync_that_fails_once_is_reported_and_loses_nothing(void) {
  return play_with_cuts(&(struct fault){POWER_SYNC, false, SQLITE_IOERR_FSYNC});
}

/* Q43 */
TEST syncs_that_fail_for_a_while_are_reported_and_lose_nothing(void) {
  return play_with_cuts(&(struct fault){POWER_SYNC, true, SQLITE_IOERR_FSYNC});
}

SUITE(io_errors) {
  const char *stress = getenv("UVS_STRESS");

  is_long = stress != NULL && strcmp(stress, "long") == 0;
  power_vfs_register();
  scratch_make();
  RUN_TEST(a_write_that_fails_once_is_reported_and_loses_nothing);
  RUN_TEST(writes_that_fail_for_a_while_are_reported_and_lose_nothing);
  RUN_TEST(a_full_disk_is_reported_and_loses_nothing);
  RUN_TEST(a_sync_that_fails_once_is_reported_and_loses_nothing);
  RUN_TEST(syncs_that_fail_for_a_while_are_reported_and_lose_nothing);
  power_reset(1);
  scratch_remove();
}

TEST_MAIN(RUN_SUITE(io_errors));
