/* SPDX-License-Identifier: MIT
 *
 * shutdown: the ways to an end, and what each leaves to run.
 *
 * The tag on the inbox refuses what is new, from any thread at once. What was accepted is the
 * loop's business: it looks at every task when a policy has changed, and at each one that comes in
 * later.
 */
#include "scheduler.h"

static void notice(uvs_t *s) {
  uvs__add(&s->policy, 1, release); /* pairs with the acquire of the turn that follows */
  if (uvs__on_loop(s))
    uvs__owe_turn(s);
  else
    uvs__ticker_wake(&s->ticker);
}

/* The first shutdown fixes what "already due" means (S38). */
static void shut(uvs_t *s) {
  uint64_t never = UVS__NEVER;
  uint64_t wall_never = UVS__NEVER;

  /* relaxed, both: the tag publishes them. A weak CAS may fail for nothing: then once more. */
  while (never == UVS__NEVER && !uvs__cas(&s->shutdown_ns, &never, uvs__now(s), relaxed)) {
  }
  while (wall_never == UVS__NEVER &&
         !uvs__cas(&s->shutdown_wall_ns, &wall_never, uvs__clock_wall(&s->clock), relaxed)) {
  }
  uvs__inbox_shut(&s->inbox);
}

bool uvs__stop_now(uvs_t *s, uvs_never_ran_cb each, void *arg) {
  bool no = false;

  while (!uvs__cas(&s->now_called, &no, true, relaxed)) { /* only decides who is first */
    if (no)
      return false;
  }
  s->never_ran_cb = each;
  s->never_ran_arg = arg;
  shut(s);
  uvs__store(&s->stop, true,
             release); /* pairs with the acquire in uvs_cancelled, and by the loop */
  notice(s);
  return true;
}

bool uvs__may_run(uvs_t *s, struct uvs__slot *t, uint64_t w) {
  uint64_t shutdown_ns;

  if (uvs__load(&s->pool.with_lanes, relaxed)) { /* see there */
    struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
    struct uvs__lane *lane = c == NULL ? NULL : uvs__load(&c->lane, relaxed); /* constant */

    if (lane != NULL && uvs__lane_disposed(lane))
      return false;
  }
  if (!uvs__inbox_is_shut(&s->inbox))
    return true;
  if (uvs__load(&s->stop, acquire)) /* pairs with the release in uvs__stop_now */
    return false;
  if (uvs__word_kind(w) != UVS_ONCE)
    return uvs__load(&s->survive[UVS_SURVIVE_PERIODIC], relaxed) !=
           0; /* a setting; `policy` orders it */
  if (uvs__word_state(w) == UVS__READY || uvs__load(&s->survive[UVS_SURVIVE_DELAYED], relaxed) != 0)
    return true;
  /* relaxed, both: the tag published them */
  shutdown_ns = uvs__load(uvs__is_wall(w) ? &s->shutdown_wall_ns : &s->shutdown_ns, relaxed);
  return uvs__load(&t->deadline_ns, relaxed) <= shutdown_ns;
}

/* A stop hands it back if it never ran. */
void uvs__end_refused(uvs_t *s, uint32_t slot) {
  /* acquire: pairs with uvs__stop_now. relaxed: not running, so nobody writes it */
  bool never_ran =
      uvs__load(&s->stop, acquire) && uvs__load(&uvs__slot(s, slot)->runs, relaxed) == 0;

  uvs__end_on_loop(s, slot, 0, never_ran ? UVS__NEVER_RAN : 0);
}

/* In the order in which they would have run. */
static void stop_everything(uvs_t *s) {
  uint32_t made = uvs__slab_made(&s->agenda.slots);
  uint32_t slot;

  while ((slot = uvs__pool_first(&s->pool)) != UVS__NONE)
    uvs__end_refused(s, slot);
  while ((slot = uvs__agenda_take_any(&s->agenda)) != UVS__NONE)
    uvs__end_refused(s, slot);
  for (slot = 0; slot < made; slot++) { /* the "never" ones are in no queue */
    if ((uvs__load(&uvs__slot(s, slot)->word, acquire) & UVS__TAKEN) !=
        0) /* pairs with the release of its last move */
      uvs__end_refused(s, slot);
  }
}

void uvs__apply_policies(uvs_t *s) {
  uint32_t made = uvs__slab_made(&s->agenda.slots);

  if (uvs__load(&s->stop, acquire)) { /* pairs with uvs__stop_now */
    if (!s->stop_seen)
      stop_everything(s);
    s->stop_seen = true;
    return;
  }
  for (uint32_t slot = 0; slot < made; slot++) {
    struct uvs__slot *t = uvs__slot(s, slot);
    uint64_t w = uvs__load(&t->word, acquire); /* pairs with the release of its last move */

    if ((w & UVS__TAKEN) == 0 ||
        (uvs__word_state(w) != UVS__WAITING && uvs__word_state(w) != UVS__READY))
      continue;
    if (!uvs__may_run(s, t, w))
      uvs__end_refused(s, slot);
  }
}

int uvs_shutdown(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  shut(s);
  notice(s);
  return 0;
}

int uvs_shutdown_within(uvs_t *s, int64_t grace_ns) {
  uint64_t kill_ns;
  uint64_t old;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  kill_ns = uvs__later(uvs__now(s), grace_ns);
  old = uvs__load(&s->kill_ns, relaxed); /* the CAS decides */
  while (kill_ns < old &&
         !uvs__cas(&s->kill_ns, &old, kill_ns, relaxed)) { /* `policy` publishes it */
  }
  shut(s);
  if (grace_ns <= 0)
    uvs__stop_now(s, NULL, NULL);
  else
    notice(s);
  return 0;
}

int uvs_shutdown_now(uvs_t *s, uvs_never_ran_cb each, void *arg) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  return uvs__stop_now(s, each, arg) ? 0 : UV_EALREADY;
}

int uvs_is_shutdown(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc == UV_ESHUTDOWN)
    return 1;
  return rc < 0 ? rc : uvs__inbox_is_shut(&s->inbox);
}

int uvs_is_terminated(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc == UV_ESHUTDOWN)
    return 1;
  return rc < 0 ? rc : uvs__load(&s->terminated, acquire); /* pairs with the loop's release */
}

int uvs_is_terminating(uvs_t *s) {
  int rc = uvs_is_shutdown(s);

  return rc != 1 ? rc : !uvs_is_terminated(s);
}

int uvs_survive(uvs_t *s, int which) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (which != UVS_SURVIVE_DELAYED && which != UVS_SURVIVE_PERIODIC)
    return UV_EINVAL;
  return uvs__load(&s->survive[which], relaxed); /* a setting */
}

int uvs_set_survive(uvs_t *s, int which, int on) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((which != UVS_SURVIVE_DELAYED && which != UVS_SURVIVE_PERIODIC) || (on != 0 && on != 1))
    return UV_EINVAL;
  uvs__store(&s->survive[which], on, relaxed); /* `policy` publishes it */
  notice(s);
  return 0;
}

int uvs_await(uvs_t *s, int64_t timeout_ns) {
  uint64_t until_ns;
  int rc = uvs__enter(s);

  if (rc == UV_ESHUTDOWN)
    return 0; /* closed: terminated long since */
  if (rc < 0)
    return rc;
  if (uvs__load(&s->terminated, acquire)) /* pairs with the loop's release */
    return 0;
  rc = uvs__may_wait(s);
  if (rc < 0)
    return rc;
  until_ns = uvs__later(uv_hrtime(), timeout_ns); /* the caller's patience is real time */
  uvs_retain(s);                                  /* close may come while we sleep */
  uv_mutex_lock(&s->pool.lock);
  while (!uvs__locked_load(&s->terminated, relaxed) && rc == 0) /* written under the lock */
    rc = uvs__wait_locked(s, &s->terminated_cond, until_ns);
  uv_mutex_unlock(&s->pool.lock);
  uvs_release(s);
  return rc;
}
