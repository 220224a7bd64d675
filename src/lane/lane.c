/* SPDX-License-Identifier: MIT
 *
 * lane: tasks that keep their order, do not overlap, and end together.
 *
 * core/gate.c decides which task of a lane may start, and loop/close.c disposes a lane. This file
 * has the rest: opening a lane, its last callbacks, its clean-up actions, and the calls that know a
 * lane by its number only.
 *
 * The directory maps the number to the lane's gate. A call holds the lane while it uses it. The
 * loop closes the directory's entry after the last callback, and the last holder frees the lane. A
 * lane has a reference on its scheduler, so the scheduler's lock exists as long as a thread holds
 * the lane. A closed scheduler has no lanes in the directory.
 *
 * A forked child never locks: each call checks for a fork before it locks.
 */
#include "uvsched/lane.h"

#include "uvsched/executor.h"

#include "api/api.h"
#include "loop/loop.h"
#include "pool/crew.h"
#include "util/directory.h"

#include <stddef.h>
#include <string.h>

#define OPTIONS_SIZE_MIN offsetof(uvs_lane_options_t, on_quiet)

struct uvs__lane {
  struct uvs__gate gate;     /* first: the directory and core/ know the lane by its gate */
  struct uvs__call call;     /* its last callbacks */
  struct uvs__crew own_crew; /* if the lane has an executor of its own */
  uvs_quiet_cb quiet;        /* constant */
  void *arg;                 /* constant; of quiet */
  bool called;               /* its last callbacks are being made */
  bool over;                 /* not on the scheduler's list: not yet, or not any more */
};

static struct uvs__lane *lane_of(struct uvs__gate *g) {
  return (struct uvs__lane *)(void *)g;
}

/* ---- hold ---- */

static void free_lane(struct uvs__gate *g) {
  uvs_t *s = g->scheduler;

  uvs__mem_free(&s->mem, lane_of(g));
  uvs_release(s);
}

/* Ends one hold of the lane, and returns rc. */
static int end_gate_hold(struct uvs__gate *g, int rc) {
  if (uvs__directory_drop(g->number))
    free_lane(g);
  return rc;
}

/* Holds a lane, for calls that lock. The caller ends the hold. NULL: *ret_rc is UV_ECANCELED (the
 * lane is gone), UV_ENOENT or UV_ENOTSUP. */
static struct uvs__gate *hold(uvs_lane_t number, int *ret_rc) {
  bool was;
  struct uvs__gate *g = uvs__directory_hold(number, &was);

  *ret_rc = was ? UV_ECANCELED : UV_ENOENT;
  if (g == NULL || !uvs__forked(&g->scheduler->fork))
    return g;
  *ret_rc = end_gate_hold(g, UV_ENOTSUP);
  return NULL;
}

/* ---- the end of a lane ---- */

/* Takes the lane off the scheduler's list, unless clean-up actions are still to be called. */
static bool leave_list(uvs_t *s, struct uvs__lane *lane) {
  struct uvs__gate *g = &lane->gate;
  bool over;

  uvs__lock(s);
  over = g->first_cleanup == NULL;
  if (over) {
    lane->over = true;
    *(g->prev == NULL ? &s->gates : &g->prev->next_gate) = g->next_gate;
    if (g->next_gate != NULL)
      g->next_gate->prev = g->prev;
  }
  uvs__unlock(s);
  return over;
}

/* Loop thread, without the lock: the last callbacks. */
static void make_last_calls(uvs_t *s, struct uvs__call *c) {
  struct uvs__lane *lane = (void *)((char *)c - offsetof(struct uvs__lane, call));
  struct uvs__gate *g = &lane->gate;

  uvs__lock(s);
  lane->called = true; /* otherwise other threads could add actions for ever */
  uvs__unlock(s);
  /* Before the callbacks: they may close the executor, which the crew borrows. */
  uvs__crew_close(s, &lane->own_crew); /* no effect if the lane has none */
  uvs__call_cleanups(s, &g->first_cleanup);
  if (lane->quiet != NULL)
    lane->quiet(s, g->number, lane->arg);
  while (!leave_list(s, lane)) /* actions were added since */
    uvs__call_cleanups(s, &g->first_cleanup);
  uvs__directory_close(g->number);
  end_gate_hold(g, 0);
}

/* Lock held: the lane is disposed, and its tasks and its own runners are gone. */
static void on_quiet(struct uvs__gate *g) {
  UVS_ASSERT(!lane_of(g)->called);
  uvs__owe_call(g->scheduler, &lane_of(g)->call);
}

/* In a forked child. The caller is the only thread, and has taken the lane off the list. Threads
 * that held the lane do not exist here, so this does not wait for them. Actions are not called. */
static void forget_lane(struct uvs__gate *g) {
  uvs_t *s = g->scheduler;

  uvs__directory_close(g->number);
  while (g->first_cleanup != NULL) {
    struct uvs__cleanup *a = g->first_cleanup;

    g->first_cleanup = a->next;
    if (--a->lists == 0) /* else it is also on the list of the next pass, which is freed, too */
      uvs__mem_free(&s->mem, a);
  }
  if (lane_of(g)->own_crew.own != NULL)
    uvs_threads_close(lane_of(g)->own_crew.own);
  free_lane(g);
}

/* ---- open ---- */

static int read_lane_options(const uvs_lane_options_t *given, uvs_lane_options_t *o) {
  uvs_lane_options_init(o);
  if (given == NULL)
    return 0;
  if (uvs__read_sized(o, sizeof *o, given, given->size, OPTIONS_SIZE_MIN) < 0)
    return UV_EINVAL;
  return o->width > UVS_LANE_WIDTH_MAX ? UV_EINVAL : 0;
}

/* Until a lane is on the scheduler's list, it looks disposed. So a thread that guesses its number
 * can do nothing with it. */
static void set_up_lane(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  *lane = (struct uvs__lane){
      .gate = {.scheduler = s,
               .crew = &s->home,
               .width = o->width == 0 ? UINT32_MAX : o->width,
               .next = UVS__NONE,
               .first_waiting = UVS__NONE,
               .last_waiting = UVS__NONE,
               .first_task = UVS__NONE,
               .last_task = UVS__NONE,
               .shut = true,
               .quiet = on_quiet,
               .free_lane = free_lane,
               .forget_lane = forget_lane},
      .own_crew = {.gate = &lane->gate},
      .quiet = o->on_quiet,
      .arg = o->arg,
      .over = true,
  };
  lane->call.call = make_last_calls;
  uvs__ready_init(&lane->own_crew.ready);
}

static int open_lane_crew(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  struct uvs__crew_options c = {o->executor, o->threads, o->thread_name, -1, UVS__CONCURRENCY_MAX};

  if (o->executor == NULL && o->threads == 0)
    return o->thread_name == NULL ? 0 : UV_EINVAL;
  if (lane->gate.width < UVS__CONCURRENCY_MAX)
    c.most = (int)lane->gate.width; /* runners are large, and lanes may be many */
  lane->gate.crew = &lane->own_crew;
  return uvs__crew_open(s, &lane->own_crew, &c);
}

/* 0, UV_ESHUTDOWN. After success the lane may be gone already, if the scheduler is being closed.
 * *ret is set under the lock, so the caller has the number before `quiet` can be called. */
static int enter_list(uvs_t *s, struct uvs__lane *lane, uvs_lane_t *ret) {
  struct uvs__gate *g = &lane->gate;
  bool refused;

  uvs__lock(s);
  refused = s->shut;
  if (!refused) {
    g->next_gate = s->gates;
    if (s->gates != NULL)
      s->gates->prev = g;
    s->gates = g;
    g->shut = false;
    lane->over = false;
    *ret = g->number;
  }
  uvs__unlock(s);
  return refused ? UV_ESHUTDOWN : 0;
}

int uvs_lane_open(uvs_t *s, const uvs_lane_options_t *given, uvs_lane_t *ret) {
  uvs_lane_options_t o;
  struct uvs__lane *lane;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL || read_lane_options(given, &o) < 0)
    return UV_EINVAL;
  lane = uvs__mem_alloc(&s->mem, 1, sizeof *lane, 0);
  if (lane == NULL)
    return UV_ENOMEM;
  set_up_lane(s, lane, &o);
  uvs_retain(s);
  rc = open_lane_crew(s, lane, &o);
  if (rc < 0)
    goto free_lane;
  rc = uvs__directory_add(&lane->gate, &lane->gate.number);
  if (rc < 0)
    goto close_crew;
  rc = enter_list(s, lane, ret);
  if (rc == 0)
    return 0;
  uvs__crew_close(s, &lane->own_crew);
  uvs__directory_close(lane->gate.number);
  return end_gate_hold(&lane->gate, rc); /* a thread that guessed the number may hold the lane */

close_crew:
  uvs__crew_close(s, &lane->own_crew);
free_lane:
  free_lane(&lane->gate);
  return rc;
}

/* ---- dispose ---- */

/* A body that disposes its own lane is not asked to stop. Such a body runs on this thread. */
static void spare_own_bodies(uvs_t *s, const struct uvs__gate *g) {
  uvs__lock(s);
  for (const struct uvs__frame *f = uvs__thread.frame; f != NULL; f = f->outer) {
    struct uvs__extra *x;

    if (f->scheduler != s)
      continue;
    x = uvs__extra(s, uvs__task(s, f->slot));
    if (x != NULL && x->gate == g)
      uvs__locked_store(&x->spared, true, relaxed); /* the body itself reads it */
  }
  uvs__unlock(s);
}

int uvs_lane_dispose(uvs_lane_t number, unsigned flags) {
  struct uvs__gate *g;
  int rc;

  if ((flags & ~(unsigned)UVS_DISPOSE_TOKEN) != 0)
    return UV_EINVAL;
  g = hold(number, &rc);
  if (g == NULL)
    return rc == UV_ECANCELED ? 0 : rc;
  spare_own_bodies(g->scheduler, g);
  uvs__dispose(g->scheduler, g, (flags & UVS_DISPOSE_TOKEN) != 0);
  return end_gate_hold(g, 0);
}

int uvs_lane_is_disposed(uvs_lane_t number) {
  bool gone;
  struct uvs__gate *g = uvs__directory_hold(number, &gone);
  bool shut, alone;

  if (g == NULL)
    return gone ? 1 : UV_ENOENT;
  alone = uvs__forked(&g->scheduler->fork); /* in a child, where no other thread exists */
  if (!alone)
    uvs__lock(g->scheduler);
  shut = g->shut;
  if (!alone)
    uvs__unlock(g->scheduler);
  return end_gate_hold(g, shut);
}

/* ---- clean-up actions ---- */

/* Lock held. Puts the action on the lane's list, the list of the next pass, or both. g is NULL if
 * the lane is gone. 0, UV_ESHUTDOWN: no pass will follow. */
static int attach_cleanup(uvs_t *s, struct uvs__gate *g, struct uvs__cleanup *a, bool on_loop) {
  bool lives = g != NULL && !lane_of(g)->over && (!lane_of(g)->called || on_loop);

  if (!lives && uvs__cleanup_refused(s, on_loop))
    return UV_ESHUTDOWN;
  if (lives) {
    *(g->first_cleanup == NULL ? &g->first_cleanup : &g->last_cleanup->next) = a;
    g->last_cleanup = a;
    a->lists++;
  }
  if (!lives || (a->when_settled && g->shut))
    uvs__owe_cleanup(s, a);
  return 0;
}

int uvs_lane_add_cleanup(uvs_t *s, uvs_lane_t number, uvs_cleanup_cb cb, void *arg,
                         unsigned flags) {
  struct uvs__gate *g;
  struct uvs__cleanup *a;
  bool gone;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, flags, &a);
  if (rc < 0)
    return rc;
  g = uvs__directory_hold(number, &gone);
  if (g != NULL && g->scheduler != s) {
    rc = UV_EINVAL;
  } else if (g == NULL && !gone) {
    rc = UV_ENOENT;
  } else { /* gone: the action is called at the next pass */
    uvs__lock(s);
    rc = attach_cleanup(s, g, a, uvs__on_loop(s));
    uvs__unlock_and_wake(s, 0);
  }
  if (rc < 0)
    uvs__mem_free(&s->mem, a);
  return g == NULL ? rc : end_gate_hold(g, rc);
}

/* ---- calls that know the lane only by its number ---- */

int uvs_lane_submit(uvs_lane_t number, const uvs_task_t *t, uvs_id_t *ret_id) {
  int rc;
  struct uvs__gate *g = hold(number, &rc);

  if (g == NULL)
    return rc;
  return end_gate_hold(g, uvs__submit_to_lane(g->scheduler, number, t, ret_id));
}

/* Holds the lane, if id is one of its tasks; else NULL, with *ret_rc. The task may end before the
 * caller asks the scheduler, which then answers UV_ENOENT. A task never changes its lane. */
static struct uvs__gate *hold_with(uvs_lane_t number, uvs_id_t id, int *ret_rc) {
  struct uvs__gate *g = hold(number, ret_rc);
  const struct uvs__task *t;
  uint32_t slot;
  bool has;

  if (*ret_rc == UV_ECANCELED)
    *ret_rc = UV_ENOENT;
  if (g == NULL)
    return NULL;
  uvs__lock(g->scheduler);
  t = uvs__table_find(&g->scheduler->table, id, &slot);
  has = t != NULL && t->extra != 0 && uvs__extra(g->scheduler, t)->gate == g;
  uvs__unlock(g->scheduler);
  if (has)
    return g;
  end_gate_hold(g, 0); /* *ret_rc is UV_ENOENT */
  return NULL;
}

int uvs_lane_cancel(uvs_lane_t number, uvs_id_t id, unsigned flags) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  return g == NULL ? rc : end_gate_hold(g, uvs_cancel(g->scheduler, id, flags));
}

int uvs_lane_reschedule(uvs_lane_t number, uvs_id_t id, int64_t delay_ns) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  return g == NULL ? rc : end_gate_hold(g, uvs_reschedule(g->scheduler, id, delay_ns));
}

int uvs_lane_finish(uvs_lane_t number, uvs_id_t id, int status) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  return g == NULL ? rc : end_gate_hold(g, uvs_finish(g->scheduler, id, status));
}

/* ---- visit ---- */

/* Lock held. */
static void copy_gate(const uvs_t *s, const struct uvs__gate *g, uvs_lane_info_t *ret) {
  *ret = (uvs_lane_info_t){
      .size = sizeof *ret,
      .lane = g->number,
      .width = g->width == UINT32_MAX ? 0 : g->width,
      .tasks = g->live,
      .ready = g->ready,
      .running = g->running,
      .own_executor = g->crew != &s->home,
      .disposed = g->shut,
  };
}

/* A lane leaves the list only on this thread, in a pass of the loop, and new lanes are added in
 * front. So the list can be followed from lane to lane, with the lock held for one at a time. */
int uvs_each_lane(uvs_t *s, uvs_each_lane_cb each, void *arg) {
  const struct uvs__gate *g;
  uvs_lane_info_t info;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  uvs__lock(s);
  g = s->gates;
  uvs__unlock(s);
  while (g != NULL && rc == 0) {
    uvs__lock(s);
    copy_gate(s, g, &info);
    g = g->next_gate;
    uvs__unlock(s);
    rc = each(s, &info, arg);
    if (rc == 0)
      rc = uvs__enter(s); /* `each` may have forked: a child never locks */
  }
  return rc;
}
