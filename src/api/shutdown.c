/* SPDX-License-Identifier: MIT
 *
 * shutdown: the calls that shut a scheduler down. loop/policy.c carries them out.
 */
#include "api/api.h"

#include "loop/loop.h"

int uvs_shutdown(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc == 0)
    uvs__shut(s, UVS__NEVER);
  return rc;
}

int uvs_shutdown_within(uvs_t *s, int64_t grace_ns) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__shut(s, uvs__later(uvs__now(s), grace_ns));
  if (grace_ns <= 0)
    uvs__stop_now(s, NULL, NULL);
  return 0;
}

int uvs_shutdown_now(uvs_t *s, uvs_never_ran_cb each, void *arg) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  return uvs__stop_now(s, each, arg) ? 0 : UV_EALREADY;
}

/* ---- ask ---- */

int uvs_is_shutdown(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc == UV_ESHUTDOWN ? 1 : rc;
  uvs__lock(s);
  rc = s->shut;
  uvs__unlock(s);
  return rc;
}

int uvs_is_terminated(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc == UV_ESHUTDOWN ? 1 : rc;
  uvs__lock(s);
  rc = s->terminated;
  uvs__unlock(s);
  return rc;
}

int uvs_is_terminating(uvs_t *s) {
  int rc = uvs_is_shutdown(s);

  return rc != 1 ? rc : !uvs_is_terminated(s);
}

/* ---- what survives ---- */

static bool is_policy(int which) {
  return which == UVS_DELAYED_TASKS || which == UVS_PERIODIC_TASKS;
}

int uvs_after_shutdown(uvs_t *s, int which) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (!is_policy(which))
    return UV_EINVAL;
  uvs__lock(s);
  rc = s->survive[which];
  uvs__unlock(s);
  return rc;
}

int uvs_set_after_shutdown(uvs_t *s, int which, int on) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (!is_policy(which) || (on != 0 && on != 1))
    return UV_EINVAL;
  uvs__lock(s);
  s->survive[which] = on;
  s->at.policy_changed |= s->shut;
  uvs__unlock_and_wake(s, 0);
  return 0;
}
