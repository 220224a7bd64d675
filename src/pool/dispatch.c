/* SPDX-License-Identifier: MIT
 *
 * dispatch: runners are sent to their executor, and come back.
 *
 * The scheduler's own runners go to libuv's pool, by uv_queue_work, which also brings them back.
 * Any other executor calls a function on a thread of its own: from there a runner comes back over a
 * list, and wakes the loop.
 *
 * An executor may refuse a runner. If another runner of the crew is out, that one does the work. If
 * none is out, nobody will: then the run of the task whose turn it is fails with the refusal.
 */
#include "pool/crew.h"

#include "core/wake.h"
#include "uvsched/executor.h"

/* Lock held: the crew has fewer runners than tasks. If no run has started for UVS__HELD_BACK_NS,
 * its runs no longer count as brief. */
static void review(struct uvs__crew *c, uint64_t now_ns) {
  if (c->starts != c->starts_seen) {
    c->starts_seen = c->starts;
    c->seen_ns = now_ns;
  } else if (now_ns - c->seen_ns >= UVS__HELD_BACK_NS) {
    c->brief = 0;
  }
}

static bool wants(uvs_t *s, struct uvs__crew *c, uint64_t now_ns) {
  bool held_back;

  if (uvs__crew_wants(c, &held_back))
    return true;
  if (!held_back)
    return false;
  review(c, now_ns);
  if (uvs__crew_wants(c, &held_back))
    return true;
  s->at.held_back = true;
  return false;
}

/* Returns the runners to be sent now, linked by `next`. Wakes lingering runners first. */
static struct uvs__runner *call_out(uvs_t *s, struct uvs__crew *c, uint64_t now_ns) {
  struct uvs__runner *called = NULL;
  struct uvs__runner **last = &called;
  unsigned summoned = 0;
  bool was_idle;

  uvs__lock(s);
  was_idle = c->active == 0 && c->seeking == 0;
  while (c == &s->home && s->lingerers > 0 && c->startable > c->seeking) {
    s->lingerers--;
    s->summoned++;
    c->seeking++;
    summoned++;
  }
  while (wants(s, c, now_ns)) {
    struct uvs__runner *r = s->runners.idle;

    UVS_ASSERT(r != NULL);
    s->runners.idle = r->next;
    r->crew = c;
    c->seeking++;
    c->out++;
    s->runners.out++;
    *last = r;
    last = &r->next;
  }
  *last = NULL;
  if ((called != NULL || summoned > 0) && was_idle)
    c->recalled_ns = now_ns;
  uvs__unlock(s);
  for (; summoned > 0; summoned--)
    uv_cond_signal(&s->lingering);
  return called;
}

/* Lock held: a runner is back. True: no other runner of its crew is out. */
static bool is_back(uvs_t *s, struct uvs__runner *r) {
  struct uvs__crew *c = r->crew;

  s->runners.out--;
  r->next = s->runners.idle;
  s->runners.idle = r;
  if (--c->out > 0)
    return false;
  if (c->gate != NULL)
    uvs__gate_left(s, c->gate, 0); /* its lane may have waited for that */
  return true;
}

void uvs__take_back(uvs_t *s) {
  struct uvs__runner *r = s->at.returned;

  s->at.returned = NULL;
  while (r != NULL) {
    struct uvs__runner *next = r->next;

    is_back(s, r);
    r = next;
  }
}

/* On a thread of the executor. The loop may close everything as soon as the runner is in
 * `returned`, so the section that puts it there also raises `senders` for the wake-up. */
static void run_and_return(void *arg) {
  struct uvs__runner *r = arg;
  uvs_t *s = r->scheduler;

  uvs__run_tasks(r);
  uvs__lock(s);
  r->next = s->at.returned;
  s->at.returned = r;
  uvs__unlock_and_wake(s, 0);
}

static void run_in_libuv(uv_work_t *req) {
  uvs__run_tasks(req->data);
}

static void on_work_done(uv_work_t *req, int status) {
  struct uvs__runner *r = req->data;
  uvs_t *s = r->scheduler;

  (void)status; /* nobody else has the request, so nobody cancels it */
  uvs__lock(s);
  is_back(s, r);
  uvs__unlock(s);
  s->runner_is_back(s);
}

/* 0, or the error with which the runner was refused. */
static int send_one(uvs_t *s, struct uvs__runner *r) {
  const uvs_executor_t *e = r->crew->executor;
  int rc;

  if (e == NULL) {
    r->req.data = r;
    return uv_queue_work(s->loop, &r->req, run_in_libuv, on_work_done);
  }
  rc = e->submit(e->self, run_and_return, r);
  return rc < 0 ? rc : 0;
}

/* Sends all runners, up to the first that is refused. *ret_none: one was refused, and no runner of
 * the crew is out. */
static int send_all(uvs_t *s, struct uvs__runner *r, bool *ret_none) {
  int rc = 0;

  while (r != NULL) {
    struct uvs__runner *next = r->next;

    if (rc == 0)
      rc = send_one(s, r);
    if (rc < 0) {
      uvs__lock(s);
      r->crew->seeking--;
      *ret_none = is_back(s, r);
      uvs__unlock(s);
    }
    r = next;
  }
  return rc;
}

/* The executor refuses runners, and none is out: the run of the next ready task fails with rc. */
static void refuse_first(uvs_t *s, struct uvs__crew *c, int rc, uint64_t now_ns) {
  struct uvs__run_end e = {uvs__status_of(rc), now_ns, now_ns, 0};
  uint32_t slot;
  struct uvs__task *t;
  struct uvs__extra *x;
  uvs_id_t id;
  void *arg;
  bool tell, wall;

  uvs__lock(s);
  slot = uvs__ready_first(&s->table, &c->ready);
  if (slot == UVS__NONE) {
    uvs__unlock(s);
    return;
  }
  uvs__begin_refused(s, slot);
  uvs__ready_turn(&c->ready);
  t = uvs__task(s, slot);
  x = uvs__extra(s, t);
  id = uvs__id_of(t, slot);
  arg = t->arg;
  wall = uvs__has(t, UVS__WALL);
  tell = s->error_cb != NULL && t->done != NULL; /* else the hook is told as usual */
  if (tell && x != NULL)
    x->run.seen = e.status;
  uvs__unlock(s);
  if (tell)
    s->error_cb(s, id, e.status, arg);
  if (wall)
    e.wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  uvs__end_run(s, slot, &e);
  uvs__unlock(s);
}

/* Sends runners to libuv's pool. If libuv refuses one, its task stays ready, and a pass tries again
 * when a runner comes back. True: none is out, so the caller must ask for another pass. */
static bool send_to_libuv(uvs_t *s, struct uvs__crew *c, uint64_t now_ns) {
  bool none = false;

  send_all(s, call_out(s, c, now_ns), &none);
  return none;
}

/* Sends runners to another executor. True: there is more to do, but not now. */
static bool send_to_executor(uvs_t *s, struct uvs__crew *c, uint64_t now_ns, uint64_t until_ns) {
  struct uvs__runner *r;

  uvs__crew_follow(s, c);
  while ((r = call_out(s, c, now_ns)) != NULL) {
    bool none = false;
    int rc = send_all(s, r, &none);
    bool changed;

    if (rc == 0 || !none)
      return false;
    uvs__lock(s);
    changed = s->at.policy_changed;
    uvs__unlock(s);
    if (changed)
      return true; /* a hook has shut the scheduler down: the policies come first */
    refuse_first(s, c, rc, uvs__now(s));
    if (uvs__now(s) >= until_ns)
      return true;
  }
  return false;
}

bool uvs__send_home_runners(uvs_t *s, uint64_t now_ns) {
  bool none = false;
  bool others;

  uvs__lock(s);
  s->at.held_back = false;
  s->at.runner_wanted = false;
  uvs__unlock(s);
  if (s->home.executor == NULL)
    none = send_to_libuv(s, &s->home, now_ns);
  uvs__lock(s);
  others = s->at.crews_want || (s->home.executor != NULL && s->home.startable > s->home.seeking &&
                                (int)s->home.out < s->home.concurrency);
  uvs__unlock(s);
  return none || others;
}

/* The next lane's own crew that may want runners. Each crew comes once, and moves to the end of the
 * list. Lanes may be opened and disposed between two calls. */
static struct uvs__crew *next_crew(uvs_t *s, uint32_t *left) {
  struct uvs__crew *c = NULL;

  uvs__lock(s);
  for (; c == NULL && *left > 0 && s->wanting != NULL; --*left) {
    struct uvs__crew *first = s->wanting;

    uvs__crew_requeue(s, first);
    if (first->startable > first->seeking)
      c = first;
  }
  uvs__unlock(s);
  return c;
}

bool uvs__send_runners(uvs_t *s, uint64_t now_ns, uint64_t until_ns) {
  struct uvs__crew *c;
  uint32_t left;
  bool more = false;

  uvs__lock(s);
  s->at.held_back = false;
  s->at.runner_wanted = false;
  s->at.crews_want = false;
  left = s->wanting_count;
  uvs__unlock(s);
  if (s->home.executor == NULL)
    more = send_to_libuv(s, &s->home, now_ns);
  else
    more = send_to_executor(s, &s->home, now_ns, until_ns);
  while ((c = next_crew(s, &left)) != NULL)
    more |= send_to_executor(s, c, now_ns, until_ns);
  return more;
}
