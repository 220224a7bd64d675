/* SPDX-License-Identifier: MIT
 *
 * F2: the SQLite store loses power. A random program runs on the store until the power is cut; then
 * the file is opened again. What must hold:
 *   - The file is sound, and opens.
 *   - Each job whose put was answered is there with its payload, unless something that may end it
 *     was asked for. No job is there whose cancel was answered.
 *   - The state of the store is the state after one of the steps of the program, and no later step
 *     had an answer that means durable. The memory store computes the states.
 * Then the program goes on, up to the next cut.
 */
#include <stdio.h>
#include <string.h>

#include "lib/main.h"
#include "power_vfs.h"
#include "promise.h"

#define LIVES 4

static unsigned cuts;

static void run_batches(struct promise *p, unsigned n) {
  struct script *s = p->script;

  for (unsigned i = 0; i < n && !power_is_off() && s->n_steps + 20 < SCRIPT_STEPS; i++) {
    unsigned first = s->n_steps;

    script_add_batch(s);
    promise_run(p, first, s->n_steps - first);
    if (script_below(s, 4) == 0)
      p->store->ops->idle(p->store);
    if (script_below(s, 4) == 0)
      p->store->ops->poll(p->store);
  }
}

/* Forgets the steps that were lost, and adds their number to *lost. */
static bool is_the_state_after_a_step(struct promise *p, unsigned *lost) {
  struct uvs__store_config config = {.name = "", .clock = script_clock(p->script)};
  struct script *s = p->script;
  struct uvs__store *model;
  char why[200] = "";
  int64_t now_ns = s->now_ns;
  bool same = false;

  if (uvs__memory_open(&config, &model, p->why, sizeof p->why) != 0)
    return false;
  for (unsigned n = 0; !same && n <= s->n_steps; n++) {
    if (n > 0)
      script_run(s, model, SCRIPT_MODEL, n - 1, 1);
    s->now_ns = now_ns;
    same = n >= p->durable && script_same(s, p->store, model, why, sizeof why);
    if (n == p->durable)
      snprintf(p->why, sizeof p->why, "after step %u of %u: %s", n, s->n_steps, why);
    if (same) {
      *lost += s->n_steps - n;
      s->n_steps = p->durable = n;
    }
  }
  model->ops->close(model);
  return same;
}

/* Makes the leases of the tested store and of the model alike: those that were claimed before the
 * cut end at another time in each. */
static void settle_all(struct promise *p) {
  struct script *s = p->script;
  unsigned first = s->n_steps, claims_end;

  script_add_claim_all(s);
  claims_end = s->n_steps;
  promise_run(p, first, claims_end - first);
  script_add_release_all(s);
  promise_run(p, claims_end, 1);
}

/* One life of the machine. */
static bool live(struct promise *p, unsigned *lost) {
  bool opened;

  power_cut_at(1 + script_below(p->script, script_below(p->script, 2) == 0 ? 30 : 300));
  opened = promise_open(p) == 0;
  if (!opened && !power_is_off())
    return false;
  if (opened)
    run_batches(p, 15);
  if (script_below(p->script, 8) == 0)
    promise_close(p); /* in order, if the power is on */
  power_cut();
  promise_close(p);
  power_on();
  if (!promise_is_sound(p) || promise_open(p) != 0 || !promise_is_kept(p) ||
      !is_the_state_after_a_step(p, lost))
    return false;
  settle_all(p);
  promise_close(p);
  return true;
}

static bool play(uint64_t seed, unsigned *lost, char *why, size_t size) {
  struct promise p;
  bool good = true;

  promise_make(&p, seed);
  for (unsigned i = 0; i < LIVES && good; i++)
    good = live(&p, lost);
  snprintf(why, size, "%s", p.why);
  promise_free(&p);
  return good;
}

/* Q1 Q24 Q51 */
TEST no_power_loss_loses_an_acknowledged_job_or_damages_the_file(void) {
  uint64_t random = test_seed;
  unsigned lost = 0;
  char why[300];

  for (unsigned i = 0; i < cuts / LIVES; i++) {
    uint64_t seed = i == 0 ? test_seed : test_random(&random);

    if (!play(seed, &lost, why, sizeof why)) {
      printf("SEED=%llu: %s\n", (unsigned long long)seed, why);
      FAIL();
    }
  }
  printf("%u cuts, %u steps lost\n", cuts, lost);
  ASSERT(lost > cuts / 10); /* The cuts do lose the last work that was written without a sync. */
  PASS();
}

SUITE(power_loss) {
  const char *stress = getenv("UVS_STRESS");

  cuts = stress != NULL && strcmp(stress, "long") == 0 ? 10000 : 200;
  power_vfs_register();
  scratch_make();
  RUN_TEST(no_power_loss_loses_an_acknowledged_job_or_damages_the_file);
  power_reset(1);
  scratch_remove();
}

TEST_MAIN(RUN_SUITE(power_loss));
