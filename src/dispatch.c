/* SPDX-License-Identifier: MIT
 *
 * dispatch: runners are sent out to their executor, and come home.
 *
 * The scheduler's own go to libuv's pool, by uv_queue_work, which also brings them home. Any other
 * executor only calls a function on a thread of its own: from there a runner comes home over a
 * list, and wakes the loop. It holds the ticker until it has done so, since the loop may close
 * everything as soon as it sees the runner there.
 *
 * An executor may refuse. If one of its runners is out, that one does the work. If none is, nobody
 * will: then the task whose turn it is ends with the refusal, as a run that failed. That is the
 * loop's work, and calls back: so after the budget the rest waits for the next turn, and when a
 * hook has shut us down, that decides first.
 */
#include "scheduler.h"

#include "uvsched/executor.h"

/* ---- home ---- */

static void come_home(uvs_t *s, struct uvs__runner *r) {
  struct uvs__lane *lane = r->crew->lane;

  s->taken -= r->retired;
  s->taken_ref -= r->retired_ref;
  r->retired = 0;
  r->retired_ref = 0;
  if (uvs__crew_home(&s->pool, r) && lane != NULL)
    uvs__lane_crew_home(s, lane);
}

static void on_work_done(uv_work_t *req, int status) {
  struct uvs__runner *r = req->data;
  uvs_t *s = r->arg;

  (void)status; /* nobody else has the request, so nobody cancels it */
  come_home(s, r);
  uvs__notice_loss(s); /* or nobody would hear of it */
  uvs__tick_light(s, false);
}

void uvs__take_home(uvs_t *s) {
  struct uvs__runner *r = uvs__swap(&s->homing, NULL, acquire); /* pairs with run_and_come_home */

  while (r != NULL) {
    struct uvs__runner *next = r->next;

    come_home(s, r);
    r = next;
  }
}

/* On a thread of the executor's. */
static void run_and_come_home(void *arg) {
  struct uvs__runner *r = arg;
  uvs_t *s = r->arg;
  struct uvs__runner *others;

  uvs__run_tasks(r);
  uvs__ticker_hold(&s->ticker);
  others = uvs__load(&s->homing, relaxed); /* the CAS decides */
  do {
    r->next = others;
  } while (!uvs__cas(&s->homing, &others, r, release)); /* pairs with uvs__take_home */
  uvs__ticker_send(&s->ticker);
}

static void run_in_libuv(uv_work_t *req) {
  uvs__run_tasks(req->data);
}

/* ---- out ---- */

/* 0, or why not. */
static int send_out(uvs_t *s, struct uvs__runner *r) {
  const uvs_executor_t *e = r->crew->executor;
  int rc;

  if (e == NULL) {
    r->req.data = r;
    return uv_queue_work(s->loop, &r->req, run_in_libuv, on_work_done);
  }
  rc = e->submit(e->self, run_and_come_home, r);
  return rc < 0 ? rc : 0;
}

/* It could not be sent out. True if now none is out. */
static bool stay_home(uvs_t *s, struct uvs__runner *r) {
  struct uvs__lane *lane = r->crew->lane;
  bool none = uvs__crew_not_out(&s->pool, r);

  if (none && lane != NULL)
    uvs__lane_crew_home(s, lane); /* its executor may have disposed it, too */
  return none;
}

/* All of them, or up to the first that is refused. *ret_none: then none is out. */
static int send_all(uvs_t *s, struct uvs__runner *r, bool *ret_none) {
  int rc = 0;

  while (r != NULL) {
    struct uvs__runner *next = r->next;

    if (rc == 0)
      rc = send_out(s, r);
    if (rc < 0)
      *ret_none = stay_home(s, r);
    r = next;
  }
  return rc;
}

/* Nobody will run it. */
static void refuse_first(uvs_t *s, struct uvs__crew *crew, int rc) {
  uint32_t slot;

  uv_mutex_lock(&s->pool.lock);
  slot = uvs__pool_start_locked(&s->pool, &crew->ready);
  s->pool.runs -= slot != UVS__NONE; /* it is no run */
  uv_mutex_unlock(&s->pool.lock);
  if (slot != UVS__NONE)
    uvs__run_refused(s, slot, uvs__status_of(rc), uvs__now(s));
}

/* True if there is more to do, but not now. */
static bool call_out(uvs_t *s, struct uvs__crew *crew, uint64_t until_ns) {
  struct uvs__runner *r;
  bool none = false;
  int rc;

  if (crew->executor == NULL) {
    /* What libuv refuses stays ready, for the next turn. That comes when a runner comes home; if
     * none is out, nothing else may bring it. */
    send_all(s, uvs__crew_call_out(&s->pool, crew, s->turn_ns), &none);
    return none;
  }
  uvs__crew_follow(&s->pool, crew);
  while ((r = uvs__crew_call_out(&s->pool, crew, s->turn_ns)) != NULL) {
    none = false;
    rc = send_all(s, r, &none);
    if (rc == 0 || !none)
      return false;
    if (uvs__load(&s->policy, acquire) != s->policy_seen) /* pairs with the release of a change */
      return true;
    refuse_first(s, crew, rc);
    if (uvs__now(s) >= until_ns)
      return true;
  }
  return false;
}

bool uvs__call_out_own(uvs_t *s) {
  struct uvs__crew *crew;
  uint32_t left = UVS__NONE;
  bool none = false;

  crew = uvs__crew_that_wants(&s->pool, s->turn_ns, &left);
  if (crew == &s->pool.home) {
    send_all(s, uvs__crew_call_out(&s->pool, crew, s->turn_ns), &none);
    crew = uvs__crew_that_wants(&s->pool, s->turn_ns, &left);
  }
  return crew != NULL || none;
}

bool uvs__call_out_runners(uvs_t *s, uint64_t until_ns) {
  struct uvs__crew *crew;
  uint32_t left = UVS__NONE;
  bool more = false;

  /* What is called back here may open lanes, but only the loop's turn ends them. */
  while ((crew = uvs__crew_that_wants(&s->pool, s->turn_ns, &left)) != NULL)
    more |= call_out(s, crew, until_ns);
  return more;
}
