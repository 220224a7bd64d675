/* SPDX-License-Identifier: MIT
 *
 * submit: from a spec to an accepted task.
 *
 * Everything that can fail comes first: the spec, the cap, memory. Then one critical section
 * accepts the tasks: from there on they count, and each ends in one `done`. After that they are
 * made and filed, 64 at a time: between two batches the lock is released. If there is no room,
 * reject.c names other terms, and the submission is tried once more.
 */
#include "api/submit.h"

#include "uvsched/calendar.h"

#include "core/trace.h"
#include "util/directory.h"

#include <string.h>

/* Tasks that are submitted together, all or none. */
struct batch {
  const char *specs; /* n checked specs, `stride` bytes apart */
  size_t stride;
  size_t n;
  const uvs_task_t *given;     /* the caller's specs, for the rejected handler */
  uvs_id_t *ret_ids;           /* or NULL */
  uvs_lane_t narrow;           /* they are submitted through this lane's id; 0: none */
  struct uvs__waiter *waiters; /* one for each task, or NULL */
  uint64_t now_ns;
  uint64_t wall_ns; /* 0: there is no wall-clock task */
  /* What they need, see check_batch. */
  size_t refs, extras;
  bool lanes;
  bool plain;         /* all tasks are plain, and none needs an extra record */
  bool *ret_replaced; /* set to true if a task was replaced */
};

/* ---- specs ---- */

/* The i-th spec: the caller's own if it has the size of this version, else a copy in *room. NULL:
 * it cannot be read. */
static const uvs_task_t *nth(const struct batch *b, size_t i, uvs_task_t *room) {
  const char *given = b->specs + i * b->stride;

  if (b->stride == sizeof *room && b->narrow == 0) {
    const uvs_task_t *t = (const void *)given;

    return t->size == sizeof *t ? t : NULL;
  }
  if (uvs__read_spec(given, b->stride, room) < 0)
    return NULL;
  if (b->narrow != 0) { /* names belong to the scheduler, not to the lane */
    if ((room->lane != 0 && room->lane != b->narrow) || (room->flags & UVS_REPLACE) != 0)
      return NULL;
    room->lane = b->narrow;
  }
  return room;
}

/* ---- room ---- */

static inline uint64_t pending(const uvs_t *s) {
  return s->counts.waiting + s->counts.ready + s->counts.running;
}

/* Lock held, but released to allocate: accepts the tasks, on these terms. Then they count. */
static int accept_batch(uvs_t *s, const struct batch *b, enum uvs__terms terms) {
  int rc = s->shut ? UV_ESHUTDOWN : uvs__reserve(s, b->n, b->extras);

  if (rc < 0)
    return rc;
  if (s->shut) /* the lock may have been released meanwhile */
    return UV_ESHUTDOWN;
  if (terms == UVS__TERMS_ROOM && s->max_pending != 0 && pending(s) + b->n > s->max_pending)
    return UV_EAGAIN;
  s->table.tasks.reserved += (uint32_t)b->n;
  s->table.extras.reserved += (uint32_t)b->extras;
  s->unfiled += b->n;
  s->counts.submitted += b->n;
  s->counts.waiting += b->n;
  s->live += b->n;
  s->live_refs += b->refs;
  return 0;
}

/* Lock held, but released for a moment after each batch. */
static void pause_after_batch(uvs_t *s, const struct batch *b, size_t i) {
  if (i == 0 || i % UVS__BATCH != 0)
    return;
  uvs__unlock_and_wake(s, b->now_ns);
  uvs__lock(s);
}

/* ---- lanes ---- */

/* Lock held, but released to free the lane if this was its last hold. */
static void end_hold(uvs_t *s, struct uvs__gate *g) {
  if (!uvs__directory_drop(g->number))
    return;
  uvs__unlock(s);
  g->free_lane(g);
  uvs__lock(s);
}

/* Lock held, but see end_hold: one more task counts in this lane. 0; UV_ENOENT, UV_EINVAL (another
 * scheduler's), UV_ECANCELED (disposed). */
static int join_lane(uvs_t *s, uvs_lane_t lane) {
  bool was;
  struct uvs__gate *g = uvs__directory_hold(lane, &was);
  int rc;

  if (g == NULL)
    return was ? UV_ECANCELED : UV_ENOENT;
  if (g->scheduler != s)
    rc = UV_EINVAL; /* never lock that scheduler: in a forked child this might wait for ever */
  else
    rc = g->shut ? UV_ECANCELED : 0;
  if (rc == 0)
    g->live++;
  end_hold(s, g);
  return rc;
}

/* Lock held, but released after each batch: the first n tasks no longer count in their lanes. */
static void leave_lanes(uvs_t *s, const struct batch *b, size_t n) {
  for (size_t i = 0; b->lanes && i < n; i++) {
    uvs_task_t room;
    uvs_lane_t lane = nth(b, i, &room)->lane;
    struct uvs__gate *g;
    bool was;

    pause_after_batch(s, b, i);
    if (lane == 0)
      continue;
    g = uvs__directory_hold(lane, &was); /* the lane exists: a task counts in it */
    uvs__gate_left(g, 1);
    end_hold(s, g);
  }
}

/* Lock held, but released after each batch. Each task counts in its lane before it is accepted: a
 * lane is not quiet while a task counts in it. Returns 0, or the error of join_lane. */
static int join_lanes(uvs_t *s, const struct batch *b) {
  for (size_t i = 0; b->lanes && i < b->n; i++) {
    uvs_task_t room;
    uvs_lane_t lane = nth(b, i, &room)->lane;
    int rc;

    pause_after_batch(s, b, i);
    rc = lane == 0 ? 0 : join_lane(s, lane);
    if (rc < 0) {
      leave_lanes(s, b, i);
      return rc;
    }
  }
  return 0;
}

/* ---- accepted tasks ---- */

/* Lock held, but released to make the record of a new name: gives an accepted task its slot. */
static uint32_t make_accepted(uvs_t *s, const struct batch *b, size_t i, const uvs_task_t *t) {
  bool extra = b->extras > 0 && uvs__needs_extra(s, t, b->now_ns);
  uint16_t name_stat = extra ? uvs__name_stat(s, t->name) : 0;
  uint32_t slot;

  s->table.tasks.reserved--;
  s->table.extras.reserved -= extra;
  s->unfiled--;
  slot = uvs__make_task(s, t, extra, b->now_ns);
  if (uvs__is_traced(s))
    uvs__trace_put_submit(s, slot, b->now_ns);
  if (b->ret_ids != NULL)
    b->ret_ids[i] = uvs__id_of(s, uvs__task(s, slot), slot); /* before the body can start */
  if (extra) {
    struct uvs__extra *x = uvs__extra(s, uvs__task(s, slot));

    x->narrow = b->narrow != 0;
    x->name_stat = name_stat;
    if (t->kind == UVS_CALENDAR)
      uvs__begin_calendar(s, slot, t, b->wall_ns);
    if (b->waiters != NULL)
      uvs__waiter_link(x, &b->waiters[i]);
  }
  if (t->lane != 0) {
    bool was;
    struct uvs__gate *g = uvs__directory_hold(t->lane, &was); /* the task counts in it */

    uvs__gate_join(s, g, slot);
    uvs__directory_drop(t->lane); /* not the last holder: the lane is not quiet */
  }
  return slot;
}

/* Lock held: the new task takes its name. *ret_calendar is set as in uvs__replace. */
static uint32_t replace(uvs_t *s, const struct batch *b, size_t i, uint32_t slot,
                        struct uvs_calendar_s **ret_calendar) {
  bool replaced;

  slot = uvs__replace(s, slot, &replaced, ret_calendar);
  if (b->ret_ids != NULL)
    b->ret_ids[i] = uvs__id_of(s, uvs__task(s, slot), slot);
  if (b->ret_replaced != NULL)
    *b->ret_replaced |= replaced;
  return slot;
}

/* Lock held, but released in reject.c and to release a calendar. Makes and files an accepted task,
 * on these terms. If its lane was disposed meanwhile, the task ends. */
static void take_in(uvs_t *s, const struct batch *b, size_t i, enum uvs__terms terms) {
  struct uvs_calendar_s *calendar = NULL;
  uvs_task_t room;
  const uvs_task_t *t = nth(b, i, &room);
  bool pushed = terms != UVS__TERMS_PUSH || pending(s) <= s->max_pending ||
                uvs__drop_oldest(s, b->now_ns, b->wall_ns);
  uint32_t slot = make_accepted(s, b, i, t);

  if (terms == UVS__TERMS_DROP || !pushed) {
    uvs__end_unstarted(s, slot, UVS__DROPPED, 0);
    return;
  }
  if ((t->flags & UVS_REPLACE) != 0)
    slot = replace(s, b, i, slot, &calendar);
  if (t->from == UVS_FROM_WALL)
    uvs__note_wall(s, uvs__task(s, slot), b->now_ns, b->wall_ns);
  uvs__file(s, slot, b->now_ns);
  if (calendar == NULL)
    return;
  uvs__unlock(s);
  uvs_calendar_release(calendar);
  uvs__lock(s);
}

/* Lock held, but released after each batch. */
static void take_all_in(uvs_t *s, const struct batch *b, enum uvs__terms terms) {
  for (size_t i = 0; i < b->n; i++) {
    pause_after_batch(s, b, i);
    take_in(s, b, i, terms);
  }
}

/* The same for plain tasks, on the usual terms. */
static void take_in_plain(uvs_t *s, const struct batch *b) {
  const uvs_task_t *t = (const void *)b->specs;

  for (size_t i = 0; i < b->n; i++) {
    uint32_t slot;

    pause_after_batch(s, b, i);
    s->table.tasks.reserved--;
    s->unfiled--;
    slot = uvs__make_plain(s, &t[i], b->now_ns);
    if (uvs__is_traced(s))
      uvs__trace_put_submit(s, slot, b->now_ns);
    if (b->ret_ids != NULL)
      b->ret_ids[i] = uvs__id_of(s, uvs__task(s, slot), slot); /* before the body can start */
    uvs__file(s, slot, b->now_ns);
  }
}

/* Lock held, but released after each batch and during bodies. First all tasks are made, so that
 * their ids are known. Until this thread runs a task, its place is WITH_CALLER. */
static void run_all_here(uvs_t *s, const struct batch *b, uvs_id_t *ids) {
  for (size_t i = 0; i < b->n; i++) {
    uvs_task_t room;
    uint32_t slot;

    pause_after_batch(s, b, i);
    slot = make_accepted(s, b, i, nth(b, i, &room));
    ids[i] = uvs__id_of(s, uvs__task(s, slot), slot);
    uvs__task(s, slot)->place = UVS__WITH_CALLER;
  }
  for (size_t i = 0; i < b->n; i++) {
    struct uvs__task *t;
    uint64_t now_ns;
    uint32_t slot;

    uvs__unlock_and_wake(s, b->now_ns);
    now_ns = uvs__now(s);
    uvs__lock(s);
    t = uvs__table_find(&s->table, ids[i], &slot);
    if (t == NULL || t->state != UVS__WAITING || t->place != UVS__WITH_CALLER)
      continue; /* cancelled or moved meanwhile */
    t->place = UVS__NOWHERE;
    uvs__run_here(s, slot, now_ns);
  }
}

/* 0; UV_EAGAIN and UV_ESHUTDOWN, which are not yet counted as refusals; an error of join_lane;
 * UV_ENOMEM. `ids`: for UVS__TERMS_HERE. */
static int submit_on(uvs_t *s, const struct batch *b, enum uvs__terms terms, uvs_id_t *ids) {
  int rc;

  if (b->n >= UVS__INDEX_MAX)
    return UV_ENOMEM;
  uvs__lock(s);
  /* Make room first: a lane may be disposed while the lock is not held (R18). */
  rc = s->shut || !b->lanes ? 0 : uvs__reserve(s, b->n, b->extras);
  if (rc == 0)
    rc = join_lanes(s, b);
  if (rc == 0) {
    rc = accept_batch(s, b, terms);
    if (rc < 0)
      leave_lanes(s, b, b->n);
  }
  if (rc == 0 && terms == UVS__TERMS_HERE)
    run_all_here(s, b, ids);
  else if (rc == 0 && terms == UVS__TERMS_ROOM && b->plain)
    take_in_plain(s, b);
  else if (rc == 0)
    take_all_in(s, b, terms);
  uvs__unlock_and_wake(s, b->now_ns);
  return rc;
}

/* ---- all or none ---- */

static bool all_fit_here(const uvs_t *s, const struct batch *b) {
  for (size_t i = 0; i < b->n; i++) {
    uvs_task_t room;
    const uvs_task_t *t = nth(b, i, &room);

    if (!uvs__fits_here(s, t, uvs__instant_of(t, t->first_ns, b->now_ns), b->now_ns,
                        b->waiters != NULL))
      return false;
  }
  return true;
}

/* Checks the specs, and adds up what they need. */
static int check_batch(uvs_t *s, struct batch *b) {
  b->refs = b->extras = 0;
  b->lanes = false;
  b->plain = b->waiters == NULL;
  for (size_t i = 0; i < b->n; i++) {
    uvs_task_t room;
    const uvs_task_t *t = nth(b, i, &room);
    bool plain = t != NULL && uvs__is_plain(t);
    int rc = t == NULL ? UV_EINVAL : plain ? 0 : uvs__check_spec(t);

    if (rc < 0)
      return rc;
    plain = plain && s->decorate_cb == NULL && !uvs__is_past(t, b->now_ns);
    b->plain &= plain;
    b->refs += (t->flags & UVS_UNREF) == 0;
    b->extras += !plain && uvs__needs_extra(s, t, b->now_ns);
    b->lanes |= t->lane != 0;
    if ((t->from == UVS_FROM_WALL || t->kind == UVS_CALENDAR) && b->wall_ns == 0)
      b->wall_ns = uvs__clock_wall(&s->clock);
  }
  return 0;
}

static bool is_refusal(int rc) {
  return rc == UV_EAGAIN || rc == UV_ESHUTDOWN;
}

/* The submitter runs the tasks. */
static int submit_here(uvs_t *s, const struct batch *b) {
  uvs_id_t one;
  uvs_id_t *ids = &one;
  int rc;

  uvs__lock(s);
  rc = join_lanes(s, b); /* the handler may have disposed one */
  if (rc == 0) {
    leave_lanes(s, b, b->n);
    rc = s->shut ? UV_ESHUTDOWN : 0;
  }
  uvs__unlock_and_wake(s, b->now_ns);
  if (rc < 0)
    return rc;
  if (!all_fit_here(s, b))
    return UV_EAGAIN;
  if (b->n > 1)
    ids = uvs__mem_alloc(&s->mem, b->n, sizeof *ids, 0);
  if (ids == NULL)
    return UV_ENOMEM;
  rc = submit_on(s, b, UVS__TERMS_HERE, ids);
  if (ids != &one)
    uvs__mem_free(&s->mem, ids);
  return rc;
}

/* rc: UV_EAGAIN (no room) or UV_ESHUTDOWN. The rejection policy decides. */
static int submit_without_room(uvs_t *s, struct batch *b, int rc) {
  enum uvs__terms terms = uvs__terms_without_room(s, b->given, b->n, rc);

  if (terms != UVS__TERMS_REFUSED) {
    /* The handler may have changed the caller's specs. */
    rc = b->specs == (const char *)b->given ? check_batch(s, b) : 0;
    if (terms == UVS__TERMS_PUSH && b->wall_ns == 0)
      b->wall_ns = uvs__clock_wall(&s->clock);
    if (rc == 0)
      rc = terms == UVS__TERMS_HERE ? submit_here(s, b) : submit_on(s, b, terms, NULL);
  }
  if (is_refusal(rc)) {
    uvs__lock(s);
    s->counts.rejected++;
    uvs__unlock(s);
  }
  return rc;
}

static int submit(uvs_t *s, struct batch *b) {
  int rc = check_batch(s, b);

  if (rc < 0)
    return rc;
  rc = submit_on(s, b, UVS__TERMS_ROOM, NULL);
  if (!is_refusal(rc))
    return rc;
  uvs_retain(s); /* uvs_close may be called while the handler or a body runs */
  rc = submit_without_room(s, b, rc);
  uvs_release(s);
  return rc;
}

static int submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_lane_t narrow,
                       uvs_id_t *ret_ids) {
  bool replaced = false;
  struct batch b;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL || n == 0)
    return UV_EINVAL;
  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  b = (struct batch){.specs = (const char *)t,
                     .stride = t->size,
                     .n = n,
                     .given = t,
                     .ret_ids = ret_ids,
                     .narrow = narrow,
                     .now_ns = uvs__now(s),
                     .ret_replaced = &replaced};
  rc = submit(s, &b);
  return rc == 0 && replaced ? UVS_REPLACED : rc;
}

int uvs__submit_watched(uvs_t *s, const uvs_task_t *given, const uvs_task_t *specs, size_t n,
                        uvs_id_t *ret_ids, struct uvs__waiter *waiters) {
  struct batch b = {.specs = (const char *)specs,
                    .stride = sizeof *specs,
                    .n = n,
                    .given = given,
                    .ret_ids = ret_ids,
                    .waiters = waiters,
                    .now_ns = uvs__now(s)};

  return submit(s, &b);
}

int uvs__submit_to_lane(uvs_t *s, uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id) {
  return submit_many(s, t, 1, lane, ret_id);
}

int uvs_submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids) {
  return submit_many(s, t, n, 0, ret_ids);
}

/* ---- one ---- */

/* Lock held, not on the loop thread: may a runner start this plain task now? If so, it need not go
 * through the delay queue. With a replaced clock the loop hands over all due tasks, so that each
 * step is exact. */
static bool is_ready_at_once(const uvs_t *s, const uvs_task_t *t, uint64_t now_ns) {
  return t->from == UVS_FROM_NOW && t->first_ns <= 0 && t->work != NULL &&
         s->home.concurrency > 0 && !s->home.follows && !s->paused && !s->at.first_pass &&
         !uvs__clock_replaced(&s->clock) && uvs__delay_bound(&s->delay) > now_ns;
}

/* The common case: a plain task that can be accepted at once. False: nothing was done. */
static bool submit_plain(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id) {
  bool on_loop = uvs__on_loop(s);
  uint64_t now_ns;
  uint32_t slot;

  if (!uvs__is_plain(t) || s->decorate_cb != NULL || (on_loop && uvs__ticker_lost(&s->ticker)))
    return false;
  now_ns = uvs__now(s);
  if (uvs__is_past(t, now_ns))
    return false;
  uvs__lock(s);
  if (s->shut || uvs__slots_room(&s->table.tasks) == 0 ||
      (s->max_pending != 0 && pending(s) >= s->max_pending)) {
    uvs__unlock(s);
    return false;
  }
  slot = uvs__make_plain(s, t, now_ns);
  s->counts.submitted++;
  s->counts.waiting++;
  s->live++;
  s->live_refs += (t->flags & UVS_UNREF) == 0;
  if (ret_id != NULL)
    *ret_id = uvs__id_of(s, uvs__task(s, slot), slot); /* before the body can start */
  if (uvs__is_traced(s))
    uvs__trace_put_submit(s, slot, now_ns);
  /* Until the next pass, the loop thread can reschedule a task that it has submitted. So the task
   * must be WAITING. */
  if (!on_loop && is_ready_at_once(s, t, now_ns))
    uvs__make_ready(s, slot, &(struct uvs__handing){now_ns, now_ns, 0, 0});
  else
    uvs__file(s, slot, now_ns);
  uvs__unlock_and_wake(s, now_ns);
  return true;
}

int uvs_submit(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL)
    return UV_EINVAL;
  return submit_plain(s, t, ret_id) ? 0 : submit_many(s, t, 1, 0, ret_id);
}
