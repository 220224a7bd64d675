/* SPDX-License-Identifier: MIT
 *
 * lane: tasks that keep their order, do not overlap, and end together.
 *
 * core/gate.c decides which task of a lane may start, and loop/close.c disposes a lane. This file
 * has the rest: opening a lane, its last callbacks, its clean-up actions, and the calls that know a
 * lane by its number only.
 *
 * The directory maps the number to the lane's gate. A call holds the lane while it uses it. The
 * loop closes the directory's entry after the last callback, and whoever lets go last frees the
 * lane. A lane has a reference on its scheduler, so the scheduler's lock exists as long as somebody
 * holds the lane. A closed scheduler has no lanes in the directory.
 *
 * A forked child never locks: calls find out about the fork before they lock.
 */
#include "uvsched/lane.h"

#include "uvsched/executor.h"

#include "api/api.h"
#include "loop/loop.h"
#include "pool/crew.h"
#include "util/directory.h"

#include <stddef.h>
#include <string.h>

#define OPTIONS_SIZE_MIN offsetof(uvs_lane_options_t, quiet)

struct uvs__lane {
  struct uvs__gate gate;     /* first: the directory and the core know the lane by it */
  struct uvs__call call;     /* its last callbacks */
  struct uvs__crew own_crew; /* if it has an executor of its own */
  uvs_quiet_cb quiet;        /* constant */
  void *arg;                 /* constant; of quiet */
  bool called;               /* its last callbacks are being made */
  bool over;                 /* it is not on the scheduler's list: not yet, or not any more */
};

static struct uvs__lane *lane_of(struct uvs__gate *g) {
  return (struct uvs__lane *)(void *)g;
}

static bool has_own_crew(const struct uvs__lane *lane) {
  return lane->gate.crew == &lane->own_crew;
}

/* ---- hold and let go ---- */

static void free_lane(struct uvs__gate *g) {
  uvs_t *s = g->scheduler;

  uvs__mem_free(&s->mem, lane_of(g));
  uvs_release(s);
}

static void let_go(struct uvs__gate *g) {
  if (uvs__directory_drop(g->number))
    g->free_lane(g);
}

/* The caller lets go. NULL: *ret_rc is UV_ECANCELED (the lane is gone) or UV_ENOENT. */
static struct uvs__gate *hold(uvs_lane_t number, int *ret_rc) {
  bool was;
  struct uvs__gate *g = uvs__directory_hold(number, &was);

  *ret_rc = was ? UV_ECANCELED : UV_ENOENT;
  return g;
}

/* The same for calls that lock. *ret_rc may also be UV_ENOTSUP. */
static struct uvs__gate *hold_to_call(uvs_lane_t number, int *ret_rc) {
  struct uvs__gate *g = hold(number, ret_rc);

  if (g == NULL || !uvs__forked(&g->scheduler->fork))
    return g;
  *ret_rc = UV_ENOTSUP;
  let_go(g);
  return NULL;
}

/* ---- the scheduler's list ---- */

/* Lock held. */
static void link_gate(uvs_t *s, struct uvs__gate *g) {
  g->prev = NULL;
  g->next_gate = s->gates;
  if (s->gates != NULL)
    s->gates->prev = g;
  s->gates = g;
}

/* Lock held, or in a forked child. */
static void unlink_gate(uvs_t *s, struct uvs__gate *g) {
  if (g->prev == NULL)
    s->gates = g->next_gate;
  else
    g->prev->next_gate = g->next_gate;
  if (g->next_gate != NULL)
    g->next_gate->prev = g->prev;
}

/* ---- the end of a lane ---- */

/* Off the scheduler's list, unless there are clean-up actions to be called. */
static bool leave_list(uvs_t *s, struct uvs__lane *lane) {
  bool over;

  uvs__lock(s);
  over = lane->gate.first_cleanup == NULL;
  if (over) {
    lane->over = true;
    unlink_gate(s, &lane->gate);
  }
  uvs__unlock(s);
  return over;
}

/* Loop thread, without the lock: the last callbacks. */
static void make_last_calls(uvs_t *s, struct uvs__call *c) {
  struct uvs__lane *lane = (void *)((char *)c - offsetof(struct uvs__lane, call));
  struct uvs__gate *g = &lane->gate;

  uvs__lock(s);
  lane->called = true; /* or other threads could keep the lane from its end, by adding actions */
  uvs__unlock(s);
  if (has_own_crew(lane)) /* first: callbacks may close the executor, which the lane borrowed */
    uvs__crew_close(s, &lane->own_crew);
  uvs__call_cleanups(s, &g->first_cleanup);
  if (lane->quiet != NULL)
    lane->quiet(s, g->number, lane->arg);
  while (!leave_list(s, lane)) /* actions were added since */
    uvs__call_cleanups(s, &g->first_cleanup);
  uvs__directory_close(g->number);
  let_go(g);
}

/* Lock held: the core says that the lane is disposed and has nothing left. */
static void on_quiet(struct uvs__gate *g) {
  UVS_ASSERT(!lane_of(g)->called);
  uvs__owe_call(g->scheduler, &lane_of(g)->call);
}

/* In a forked child, where the caller is the only thread. Threads of the parent that held the lane
 * do not exist here, so nobody is waited for. Actions are not called. */
static void forget_lane(struct uvs__gate *g) {
  uvs_t *s = g->scheduler;

  unlink_gate(s, g);
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

static int read_options(const uvs_lane_options_t *given, uvs_lane_options_t *o) {
  int rc;

  uvs_lane_options_init(o);
  if (given == NULL)
    return 0;
  rc = uvs__check_size(given, given->size, sizeof *o, OPTIONS_SIZE_MIN);
  if (rc < 0)
    return rc;
  memcpy(o, given, given->size < sizeof *o ? given->size : sizeof *o);
  return o->width > UVS_LANE_WIDTH_MAX ? UV_EINVAL : 0;
}

/* Until it is on the scheduler's list a lane looks disposed. So a thread that guesses its number
 * can do nothing with it. */
static void set_up(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  struct uvs__gate *g = &lane->gate;

  memset(lane, 0, sizeof *lane);
  g->scheduler = s;
  g->crew = &s->home;
  g->width = o->width == 0 ? UINT32_MAX : o->width;
  g->next = UVS__NONE;
  g->first_waiting = g->last_waiting = UVS__NONE;
  g->first_task = g->last_task = UVS__NONE;
  g->shut = true;
  g->quiet = on_quiet;
  g->free_lane = free_lane;
  g->forget_lane = forget_lane;
  lane->call.call = make_last_calls;
  uvs__ready_init(&lane->own_crew.ready);
  lane->own_crew.gate = g;
  lane->quiet = o->quiet;
  lane->arg = o->arg;
  lane->over = true;
}

static int open_crew(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  struct uvs__crew_options c = {o->executor, o->threads, o->thread_name, -1, UVS__CONCURRENCY_MAX};
  int rc;

  if (o->executor == NULL && o->threads == 0)
    return o->thread_name == NULL ? 0 : UV_EINVAL;
  if (lane->gate.width < UVS__CONCURRENCY_MAX)
    c.most = (int)lane->gate.width; /* runners are large, and lanes may be many */
  lane->gate.crew = &lane->own_crew;
  rc = uvs__crew_open(s, &lane->own_crew, &c);
  if (rc == 0)
    uvs__crew_watch(s, &lane->own_crew);
  return rc;
}

/* 0, UV_ESHUTDOWN. After 0 the lane may be gone, if the loop closes everything. */
static int enter_list(uvs_t *s, struct uvs__lane *lane) {
  bool refused;

  uvs__lock(s);
  refused = s->shut;
  if (!refused) {
    link_gate(s, &lane->gate);
    lane->gate.shut = false;
    lane->over = false;
  }
  uvs__unlock(s);
  return refused ? UV_ESHUTDOWN : 0;
}

int uvs_lane_open(uvs_t *s, const uvs_lane_options_t *given, uvs_lane_t *ret) {
  uvs_lane_options_t o;
  struct uvs__lane *lane;
  uvs_lane_t number;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL || read_options(given, &o) < 0)
    return UV_EINVAL;
  lane = uvs__mem_alloc(&s->mem, 1, sizeof *lane, 0);
  if (lane == NULL)
    return UV_ENOMEM;
  set_up(s, lane, &o);
  uvs_retain(s);
  rc = open_crew(s, lane, &o);
  if (rc < 0)
    goto free_lane;
  rc = uvs__directory_add(&lane->gate, &lane->gate.number);
  if (rc < 0)
    goto close_crew;
  number = lane->gate.number;
  rc = enter_list(s, lane);
  if (rc == 0) {
    *ret = number;
    return 0;
  }
  if (has_own_crew(lane))
    uvs__crew_close(s, &lane->own_crew);
  uvs__directory_close(number);
  let_go(&lane->gate); /* a thread that guessed the number may hold it */
  return rc;

close_crew:
  if (has_own_crew(lane))
    uvs__crew_close(s, &lane->own_crew);
free_lane:
  free_lane(&lane->gate);
  return rc;
}

/* ---- dispose ---- */

/* A body that disposes its own lane is not asked to stop. Such a body is on this thread. */
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
  g = hold_to_call(number, &rc);
  if (g == NULL)
    return rc == UV_ECANCELED ? 0 : rc;
  if (uvs__thread.frame != NULL)
    spare_own_bodies(g->scheduler, g);
  uvs__dispose(g->scheduler, g, (flags & UVS_DISPOSE_TOKEN) != 0);
  let_go(g);
  return 0;
}

int uvs_lane_is_disposed(uvs_lane_t number) {
  int rc;
  struct uvs__gate *g = hold(number, &rc);

  if (g == NULL)
    return rc == UV_ECANCELED ? 1 : rc;
  if (uvs__forked(&g->scheduler->fork)) { /* the only thread that is left */
    rc = g->shut;
  } else {
    uvs__lock(g->scheduler);
    rc = g->shut;
    uvs__unlock(g->scheduler);
  }
  let_go(g);
  return rc;
}

/* ---- clean-up actions ---- */

static void append(struct uvs__gate *g, struct uvs__cleanup *a) {
  a->lists++;
  a->next = NULL;
  if (g->first_cleanup == NULL)
    g->first_cleanup = a;
  else
    g->last_cleanup->next = a;
  g->last_cleanup = a;
}

/* Lock held. The action goes on the lane's list, or on that of the next pass, or on both. g is NULL
 * if the lane is gone. 0, UV_ESHUTDOWN: there is no pass to come. */
static int attach(uvs_t *s, struct uvs__gate *g, struct uvs__cleanup *a, bool on_loop) {
  bool lives = g != NULL && !lane_of(g)->over && (!lane_of(g)->called || on_loop);

  if (!lives && uvs__cleanup_refused(s, on_loop))
    return UV_ESHUTDOWN;
  if (lives)
    append(g, a);
  if (!lives || (a->when_settled && g->shut))
    uvs__owe_cleanup(s, a);
  return 0;
}

int uvs_lane_add_cleanup(uvs_t *s, uvs_lane_t number, uvs_cleanup_cb cb, void *arg,
                         unsigned flags) {
  struct uvs__gate *g;
  struct uvs__cleanup *a;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, flags, &a);
  if (rc < 0)
    return rc;
  g = hold(number, &rc);
  if (g != NULL)
    rc = g->scheduler == s ? 0 : UV_EINVAL;
  if (rc == 0 || rc == UV_ECANCELED) { /* gone: the action is called at the next pass */
    uvs__lock(s);
    rc = attach(s, g, a, uvs__on_loop(s));
    uvs__unlock_and_wake(s, 0);
  }
  if (rc < 0)
    uvs__mem_free(&s->mem, a);
  if (g != NULL)
    let_go(g);
  return rc;
}

/* ---- calls that know the lane only by its number ---- */

int uvs_lane_submit(uvs_lane_t number, const uvs_task_t *t, uvs_id_t *ret_id) {
  int rc;
  struct uvs__gate *g = hold_to_call(number, &rc);

  if (g == NULL)
    return rc;
  rc = uvs__submit_to_lane(g->scheduler, number, t, ret_id);
  let_go(g);
  return rc;
}

static bool has_task(struct uvs__gate *g, uvs_id_t id) {
  uvs_t *s = g->scheduler;
  const struct uvs__task *t;
  const struct uvs__extra *x;
  uint32_t slot;
  bool has;

  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  x = t == NULL ? NULL : uvs__extra(s, t);
  has = x != NULL && x->gate == g;
  uvs__unlock(s);
  return has;
}

/* The lane, if id is one of its tasks; NULL with *ret_rc. The task may be over when the caller goes
 * on to the scheduler: then that answers UV_ENOENT. A task never changes its lane. */
static struct uvs__gate *hold_with(uvs_lane_t number, uvs_id_t id, int *ret_rc) {
  struct uvs__gate *g = hold_to_call(number, ret_rc);

  if (*ret_rc == UV_ECANCELED)
    *ret_rc = UV_ENOENT;
  if (g == NULL || has_task(g, id))
    return g;
  let_go(g); /* *ret_rc is UV_ENOENT */
  return NULL;
}

int uvs_lane_cancel(uvs_lane_t number, uvs_id_t id, unsigned flags) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  if (g == NULL)
    return rc;
  rc = uvs_cancel(g->scheduler, id, flags);
  let_go(g);
  return rc;
}

int uvs_lane_reschedule(uvs_lane_t number, uvs_id_t id, int64_t delay_ns) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  if (g == NULL)
    return rc;
  rc = uvs_reschedule(g->scheduler, id, delay_ns);
  let_go(g);
  return rc;
}

int uvs_lane_finish(uvs_lane_t number, uvs_id_t id, int status) {
  int rc;
  struct uvs__gate *g = hold_with(number, id, &rc);

  if (g == NULL)
    return rc;
  rc = uvs_finish(g->scheduler, id, status);
  let_go(g);
  return rc;
}
