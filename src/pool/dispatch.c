/* SPDX-License-Identifier: MIT
 *
 * dispatch: runners are sent to their executor, and come back.
 *
 * uv_queue_work sends runners to libuv's pool, and also brings them back. Any other executor calls
 * run_and_return on a thread of its own. When the runner is done, that function puts it on a list
 * and wakes the loop.
 *
 * An executor may refuse a runner. If another runner of the crew is out, that one does the work. If
 * none is out, the run of the next ready task fails with the executor's error.
 */
#include "pool/crew.h"

#include "core/wake.h"
#include "uvsched/executor.h"

/* Lock held: a runner is back, or was refused. */
static void is_back(uvs_t *s, struct uvs__runner *r) {
  struct uvs__crew *c = r->crew;

  s->runners.out--;
  r->next = s->runners.idle;
  s->runners.idle = r;
  if (--c->out == 0 && c->gate != NULL)
    uvs__gate_left(c->gate, 0); /* the lane may have waited for this */
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

/* On a thread of the executor. The loop may close everything as soon as the runner is on the list
 * `returned`. So the section that puts it there also raises `senders` for the wake-up. */
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

  (void)status; /* nobody else has the request, so nobody can cancel it */
  uvs__lock(s);
  is_back(s, r);
  uvs__unlock(s);
  s->runner_is_back(s);
}

/* Lock held, except while the executor is called. 0, or the error with which it refuses. */
static int send_one(uvs_t *s, struct uvs__crew *c) {
  struct uvs__runner *r = s->runners.idle;
  const uvs_executor_t *e = c->executor;
  int rc;

  UVS_ASSERT(r != NULL);
  s->runners.idle = r->next;
  s->runners.out++;
  r->crew = c;
  c->seeking++;
  c->out++;
  uvs__unlock(s);
  r->req.data = r;
  if (e == NULL)
    rc = uv_queue_work(s->loop, &r->req, run_in_libuv, on_work_done);
  else
    rc = e->submit(e->self, run_and_return, r);
  uvs__lock(s);
  if (rc >= 0)
    return 0;
  c->seeking--;
  is_back(s, r);
  return rc;
}

/* Lock held, except during the hook. The executor has refused a runner, and none is out: the run of
 * the next ready task fails with rc. */
static void refuse_first(uvs_t *s, struct uvs__crew *c, int rc) {
  struct uvs__run_end e = {.status = uvs__status_of(rc)};
  uint32_t slot = uvs__ready_first(&s->table, &c->ready);
  struct uvs__task *t;
  struct uvs__extra *x;
  uvs_id_t id;
  void *arg;
  bool call_hook;

  if (slot == UVS__NONE)
    return;
  uvs__begin_refused(s, slot);
  uvs__ready_turn(&c->ready);
  t = uvs__task(s, slot);
  x = uvs__extra(s, t);
  id = uvs__id_of(s, t, slot);
  arg = t->arg;
  call_hook = s->error_cb != NULL && t->done != NULL; /* else the end of the task calls the hook */
  if (call_hook && x != NULL)
    x->seen = e.status;
  uvs__unlock(s);
  e.end_ns = e.over_ns = uvs__now(s);
  if (call_hook)
    s->error_cb(s, id, e.status, arg);
  e.wall_ns = uvs__clock_wall(&s->clock);
  uvs__lock(s);
  uvs__end_run(s, slot, &e);
}

/* Lock held, except while executors and hooks are called: sends the runners that a crew wants. If
 * the next pass must send more, sets `runner_wanted`. */
static void send_crew(uvs_t *s, struct uvs__crew *c, uint64_t now_ns, uint64_t until_ns) {
  bool was_idle;

  uvs__crew_follow(s, c);
  was_idle = c->active == 0 && c->seeking == 0;
  while (c == &s->home && s->lingerers > 0 && c->startable > c->seeking) {
    s->lingerers--;
    s->summoned++;
    c->seeking++;
    uvs__unlock(s);
    uv_cond_signal(&s->lingering);
    uvs__lock(s);
    if (was_idle)
      c->recalled_ns = now_ns;
  }
  while (uvs__wants_runner(s, c, now_ns)) {
    int rc;

    if (was_idle)
      c->recalled_ns = now_ns;
    rc = send_one(s, c);
    if (rc == 0)
      continue;
    if (c->out > 0)
      return; /* a runner that is out does the work */
    /* A refusal by libuv is temporary: the tasks stay ready, and the next pass tries again. If a
     * hook has shut the scheduler down, the policies come first. */
    if (c->executor != NULL && !s->at.policy_changed) {
      refuse_first(s, c, rc);
      if (uvs__let_others_in(s) < until_ns)
        continue;
    }
    s->at.runner_wanted = true;
    return;
  }
}

void uvs__send_runners(uvs_t *s, uint64_t now_ns, uint64_t until_ns, bool lanes) {
  s->at.held_back = false;
  s->at.runner_wanted = false;
  if (lanes)
    s->at.crews_want = false;
  send_crew(s, &s->home, now_ns, until_ns);
  /* Each crew is served once, and moves to the end of the list. Lanes may be opened and disposed
   * while the lock is not held. */
  for (uint32_t left = lanes ? s->wanting_count : 0; left > 0 && s->wanting != NULL; left--) {
    struct uvs__crew *c = s->wanting;

    uvs__crew_requeue(s, c);
    if (c->startable > c->seeking)
      send_crew(s, c, now_ns, until_ns);
  }
}
