/* SPDX-License-Identifier: MIT
 *
 * group: tasks that one call submits and waits for: uvs_all and uvs_any.
 *
 * Each member has a waiter. The waiter is linked in the critical section that makes the task of the
 * member, so no end is missed, whatever a body does with its own id. The outcomes come in through
 * the waiters; the slots of the members may be gone by then. The thread is woken when its wait is
 * satisfied, not at the end of each member.
 *
 * A group never returns before every member is over: the ends of the members write into its memory,
 * and the bodies may use the caller's memory.
 */
#include "api/api.h"

struct group {
  uvs_t *s;
  size_t n;
  struct uvs__sleeper sleeper;
  struct uvs__waiter *waiters; /* n of them, and then the ids, in one piece of memory */
  uvs_id_t *ids;
};

/* ---- begin and end ---- */

/* Checked copies of the caller's specs. */
static int copy_specs(uvs_task_t *specs, const uvs_task_t *t, size_t n) {
  for (size_t i = 0; i < n; i++) {
    int rc = uvs__read_spec((const char *)t + i * t->size, t->size, &specs[i]);

    if (rc == 0 && specs[i].keep_outcome == 0)
      specs[i].keep_outcome = 1; /* set before the check, which then allows a preset result */
    if (rc == 0)
      rc = uvs__check_spec(&specs[i]);
    if (rc < 0)
      return rc;
    if (specs[i].kind != UVS_ONE_SHOT)
      return UV_EINVAL; /* a periodic task may never end */
    specs[i].size = sizeof specs[i];
  }
  return 0;
}

static int submit_group(struct group *g, const uvs_task_t *t) {
  uvs_task_t *specs = uvs__mem_alloc(&g->s->mem, g->n, sizeof *specs, 0);
  int rc;

  if (specs == NULL)
    return UV_ENOMEM;
  rc = copy_specs(specs, t, g->n);
  if (rc == 0)
    rc = uvs__submit_watched(g->s, t, specs, g->n, g->ids, g->waiters);
  uvs__mem_free(&g->s->mem, specs);
  return rc;
}

static int claim_handle(struct group *g, uvs_waiter_t *w) {
  int rc;

  uvs__lock(g->s);
  rc = uvs__handle_claim(g->s, &g->sleeper, w);
  uvs__unlock(g->s);
  return rc;
}

/* The group was refused with rc. Returns what its call answers. */
static int release_handle(struct group *g, int rc) {
  uvs__lock(g->s);
  uvs__handle_release(&g->sleeper);
  if (g->sleeper.abandoned)
    rc = UV_EINTR; /* uvs_abandon has promised it */
  uvs__unlock(g->s);
  return rc;
}

/* The caller has set n, and what the sleeper waits for. */
static int begin_group(struct group *g, uvs_t *s, const uvs_task_t *t, uvs_waiter_t *w) {
  int rc = uvs__may_wait(s);

  if (rc < 0)
    return rc;
  g->s = uvs_retain(s);
  g->sleeper.unsettled = g->n; /* before anything is linked: the first ends may come at once */
  g->sleeper.not_over = g->n;
  g->waiters = uvs__mem_alloc(&s->mem, g->n, sizeof *g->waiters + sizeof *g->ids, 0);
  rc = UV_ENOMEM;
  if (g->waiters == NULL)
    goto release_scheduler;
  g->ids = (uvs_id_t *)(void *)(g->waiters + g->n);
  for (size_t i = 0; i < g->n; i++)
    g->waiters[i] = (struct uvs__waiter){.sleeper = &g->sleeper};
  rc = uv_cond_init(&g->sleeper.cond);
  if (rc < 0)
    goto free_waiters;
  rc = claim_handle(g, w);
  if (rc < 0)
    goto destroy_cond;
  rc = submit_group(g, t);
  if (rc == 0)
    return 0;
  rc = release_handle(g, rc);
destroy_cond:
  uv_cond_destroy(&g->sleeper.cond);
free_waiters:
  uvs__mem_free(&s->mem, g->waiters);
release_scheduler:
  uvs_release(s);
  return rc;
}

/* Every member is over. */
static void end_group(struct group *g) {
  for (size_t i = 0; i < g->n; i++)
    uvs_forget(g->s, g->ids[i]); /* UV_ENOENT: the body has called it already */
  uv_cond_destroy(&g->sleeper.cond);
  uvs__mem_free(&g->s->mem, g->waiters);
  uvs_release(g->s);
}

/* ---- waiting ---- */

/* Waits until the sleeper is satisfied. 0, UV_ETIMEDOUT, UV_EINTR. From then on the sleeper only
 * waits for the end of all members, and cannot be abandoned. */
static int await_group(struct group *g, uint64_t until_ns) {
  struct uvs__sleeper *z = &g->sleeper;
  int rc;

  uvs__lock(g->s);
  rc = uvs__sleep(g->s, z, until_ns);
  uvs__handle_release(z);
  z->drains = true;
  z->abandoned = false;
  z->woken = z->not_over == 0;
  uvs__unlock(g->s);
  return rc;
}

/* Every member is over: the outcome of the i-th. */
static const uvs_outcome_t *outcome_of(struct group *g, size_t i) {
  g->waiters[i].outcome.id = g->ids[i];
  return &g->waiters[i].outcome;
}

/* Cancels the members that are not over, with token, and waits until every member is over. */
static void cancel_and_drain(struct group *g) {
  for (size_t i = 0; i < g->n; i++)
    uvs_cancel(g->s, g->ids[i], UVS_CANCEL_TOKEN);
  uvs__lock(g->s);
  uvs__sleep(g->s, &g->sleeper, UVS__NEVER);
  uvs__unlock(g->s);
}

/* ---- all ---- */

int uvs_all_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, uvs_waiter_t *w,
                 uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct group g = {.n = n, .sleeper = {.wants_result = ret != NULL}};
  size_t size;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (n == 0)
    return uvs__may_wait(s);
  if (t == NULL || uvs__check_outcome(ret) < 0)
    return UV_EINVAL;
  rc = begin_group(&g, s, t, w);
  if (rc < 0)
    return rc;
  rc = await_group(&g, until_ns);
  if (rc < 0)
    cancel_and_drain(&g);
  size = ret == NULL ? 0 : ret->size;
  for (size_t i = 0; i < n && ret != NULL; i++)
    uvs__give_outcome((char *)ret + i * size, size, outcome_of(&g, i));
  end_group(&g);
  return rc;
}

int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, uvs_outcome_t *ret) {
  return uvs_all_with(s, t, n, timeout_ns, NULL, ret);
}

/* ---- any ---- */

/* All members are settled, and none succeeded. A failure says more than a cancelled member. */
static int find_failure(const struct group *g) {
  for (size_t i = 0; i < g->n; i++) {
    if (g->waiters[i].status != UV_ECANCELED)
      return g->waiters[i].status;
  }
  return UV_ECANCELED;
}

int uvs_any_with(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, uvs_waiter_t *w,
                 size_t *ret_index, uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct group g = {.n = n, .sleeper = {.race = true, .wants_result = ret != NULL}};
  const struct uvs__waiter *winner;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (n == 0 || t == NULL || uvs__check_outcome(ret) < 0)
    return UV_EINVAL;
  rc = begin_group(&g, s, t, w);
  if (rc < 0)
    return rc;
  rc = await_group(&g, until_ns);
  winner = g.sleeper.winner; /* final: `drains` is set */
  cancel_and_drain(&g);
  if (rc == 0 && winner == NULL)
    rc = find_failure(&g);
  if (rc == 0 && ret_index != NULL)
    *ret_index = (size_t)(winner - g.waiters);
  if (rc == 0 && ret != NULL)
    uvs__give_outcome(ret, ret->size, outcome_of(&g, (size_t)(winner - g.waiters)));
  end_group(&g);
  return rc;
}

int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
            uvs_outcome_t *ret) {
  return uvs_any_with(s, t, n, timeout_ns, NULL, ret_index, ret);
}
