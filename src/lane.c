/* SPDX-License-Identifier: MIT */
#include "scheduler.h"

#include "uvsched/executor.h"

#include "directory.h"

#include <stddef.h>
#include <string.h>

#define OPTIONS_SIZE_MIN offsetof(uvs_lane_options_t, quiet)
#define BATCH 64

void uvs__lanes_init(struct uvs__lanes *all) {
  memset(all, 0, sizeof *all);
  all->ending_last = &all->ending;
}

/* ---- hold and let go ---- */

/* Who held it last frees it. */
static void let_go(struct uvs__lane *lane) {
  uvs_t *s = lane->scheduler;

  if (!uvs__directory_drop(lane->number))
    return;
  uvs__mem_free(&s->mem, lane);
  uvs_release(s);
}

/* A lane to be let go, or NULL: *ret_rc is UV_ECANCELED (it is gone) or UV_ENOENT. */
static struct uvs__lane *hold(uvs_lane_t number, int *ret_rc) {
  bool was;
  struct uvs__lane *lane = uvs__directory_hold(number, &was);

  *ret_rc = was ? UV_ECANCELED : UV_ENOENT;
  return lane;
}

/* The same for calls that go on to the scheduler; also UV_ENOTSUP. One that is closed has no lanes.
 */
static struct uvs__lane *hold_to_call(uvs_lane_t number, int *ret_rc) {
  struct uvs__lane *lane = hold(number, ret_rc);

  if (lane == NULL || !uvs__forked(&lane->scheduler->fork))
    return lane;
  *ret_rc = UV_ENOTSUP;
  let_go(lane);
  return NULL;
}

/* ---- the loop should look ---- */

/* The caller holds it. `unjoined`: UVS__NEWS_UNJOINED, or 0. */
static void tell(struct uvs__lane *lane, uint64_t unjoined) {
  struct uvs__lanes *all = &lane->scheduler->lanes;
  uint64_t news = uvs__load(&lane->news, relaxed); /* the CAS decides */
  struct uvs__lane *first;

  /* acq_rel: orders what we changed before its next look */
  while (!uvs__cas(&lane->news, &news, (news | UVS__NEWS_LISTED) + unjoined, acq_rel)) {
  }
  if ((news & UVS__NEWS_LISTED) != 0)
    return;
  uvs__directory_hold_again(lane->number); /* until it is looked at */
  first = uvs__load(&all->look, relaxed);  /* the CAS decides */
  do {
    lane->look_next = first;
  } while (!uvs__cas(&all->look, &first, lane, release)); /* pairs with uvs__lanes_look */
  uvs__ticker_wake(&lane->scheduler->ticker);
}

/* ---- join and leave ---- */

static int check(uvs_t *s, struct uvs__lane *lane) {
  if (lane->scheduler != s)
    return UV_EINVAL;
  return uvs__lane_disposed(lane) ? UV_ECANCELED : 0;
}

int uvs__lane_check(uvs_t *s, uvs_lane_t number) {
  int rc;
  struct uvs__lane *lane = hold(number, &rc);

  if (lane == NULL)
    return rc;
  rc = check(s, lane);
  let_go(lane);
  return rc;
}

int uvs__lane_join(uvs_t *s, uvs_lane_t number, struct uvs__lane **ret) {
  int rc;
  struct uvs__lane *lane = hold(number, &rc);
  uint64_t life;

  if (lane == NULL)
    return rc;
  rc = check(s, lane);
  life = uvs__load(&lane->life, relaxed); /* the CAS decides */
  do {
    if (rc == 0 && (life & UVS__DISPOSED) != 0) /* since we asked */
      rc = UV_ECANCELED;
  } while (rc == 0 && !uvs__cas(&lane->life, &life, life + 1, relaxed)); /* a count */
  *ret = lane;
  let_go(lane); /* a task keeps it as well */
  return rc;
}

void uvs__lane_unjoin(struct uvs__lane *lane) {
  if (uvs__on_loop(lane->scheduler)) {
    uvs__lane_left(lane->scheduler, lane);
    return;
  }
  /* It exists as long as we count, and then because of this. */
  uvs__directory_hold_again(lane->number);
  tell(lane, UVS__NEWS_UNJOINED);
  let_go(lane);
}

bool uvs__lane_token(struct uvs__cold *c) {
  /* relaxed, both: constant while it runs; a note of the body to itself */
  struct uvs__lane *lane = uvs__load(&c->lane, relaxed);

  return lane != NULL && !uvs__load(&c->spared, relaxed) &&
         (uvs__load(&lane->life, acquire) & UVS__DISPOSED_TOKEN) != 0; /* pairs with dispose */
}

/* ---- its tasks, on the loop ---- */

/* NULL if it has none. */
static struct uvs__lane *lane_of(uvs_t *s, uint32_t slot) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, uvs__slot(s, slot));

  return c == NULL ? NULL : uvs__load(&c->lane, relaxed); /* constant while it is not over */
}

/* On its list `a` is the one before and `b` the one behind. */
void uvs__lane_enter(uvs_t *s, uint32_t slot) {
  struct uvs__lane *lane = lane_of(s, slot);

  if (lane == NULL)
    return;
  *uvs__agenda_lane_link(&s->agenda, slot) = (struct uvs__link){lane->last, UVS__NONE};
  if (lane->last == UVS__NONE)
    lane->first = slot;
  else
    uvs__agenda_lane_link(&s->agenda, lane->last)->b = slot;
  lane->last = slot;
}

static void unlist(uvs_t *s, struct uvs__lane *lane, uint32_t slot) {
  struct uvs__link *k = uvs__agenda_lane_link(&s->agenda, slot);

  if (k->a == UVS__NONE && lane->first != slot)
    return; /* off the list already */
  if (k->a == UVS__NONE)
    lane->first = k->b;
  else
    uvs__agenda_lane_link(&s->agenda, k->a)->b = k->b;
  if (k->b == UVS__NONE)
    lane->last = k->a;
  else
    uvs__agenda_lane_link(&s->agenda, k->b)->a = k->a;
  *k = (struct uvs__link){UVS__NONE, UVS__NONE};
}

void uvs__lane_ended(uvs_t *s, uint32_t slot) {
  struct uvs__lane *lane = lane_of(s, slot);

  if (lane != NULL)
    unlist(s, lane, slot);
}

/* Its last callbacks are to be made, unless that is known already, or a runner is still out: then
 * that one brings us here. */
static void begin_end(uvs_t *s, struct uvs__lane *lane) {
  if (lane->ending || uvs__crew_is_out(&s->pool, &lane->own_crew))
    return;
  UVS_ASSERT(lane->first == UVS__NONE);
  lane->ending = true;
  lane->ending_next = NULL;
  *s->lanes.ending_last = lane;
  s->lanes.ending_last = &lane->ending_next;
  if (!s->in_tick)
    uvs__owe_turn(s);
}

/* So many tasks less. */
static void leave(uvs_t *s, struct uvs__lane *lane, uint64_t tasks) {
  uint64_t life =
      uvs__sub(&lane->life, tasks, relaxed) - tasks; /* a count, which the loop lowers */

  if ((life & UVS__DISPOSED) != 0 && (life & UVS__LIVE_MASK) == 0)
    begin_end(s, lane);
}

void uvs__lane_left(uvs_t *s, struct uvs__lane *lane) {
  leave(s, lane, 1);
}

void uvs__lane_crew_home(uvs_t *s, struct uvs__lane *lane) {
  leave(s, lane, 0); /* if it has ended, it waited for that */
}

/* ---- its end ---- */

/* It runs, and its lane is disposed: its outcome is decided, as by uvs_cancel. */
static void cancel_running(uvs_t *s, uint32_t slot) {
  uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* the CAS acquires */

  while (uvs__word_state(w) == UVS__RUNNING && !uvs__settled(w)) {
    if (uvs__pool_cancel(&s->pool, slot, &w, 0)) {
      uvs__cleanup_settled(s, slot, w);
      return;
    }
  }
}

/* The first tasks of the list. They may lie far apart, in memory that was long not looked at: ask
 * for all of it at once, instead of waiting for it piece by piece. */
static unsigned next_batch(uvs_t *s, const struct uvs__lane *lane, uint32_t batch[BATCH]) {
  uint32_t slot = lane->first;
  unsigned n = 0;

  for (; slot != UVS__NONE && n < BATCH; slot = uvs__agenda_lane_link(&s->agenda, slot)->b) {
    __builtin_prefetch(uvs__slot(s, slot), 1);
    __builtin_prefetch(uvs__agenda_link(&s->agenda, slot), 1);
    batch[n++] = slot;
  }
  for (unsigned i = 0; i < n; i++) {
    __builtin_prefetch(uvs__agenda_cold(&s->agenda, uvs__slot(s, batch[i])), 1);
    uvs__agenda_prefetch(&s->agenda, batch[i]);
  }
  return n;
}

/* End what is on the list, until the time is over. True if something is left. */
static bool sweep(uvs_t *s, struct uvs__lane *lane, uint64_t until_ns) {
  uint32_t batch[BATCH];

  while (lane->first != UVS__NONE) {
    unsigned n = next_batch(s, lane, batch);

    for (unsigned i = 0; i < n; i++) {
      unlist(s, lane, batch[i]);
      if (!uvs__end_on_loop(s, batch[i], 0, 0))
        cancel_running(s, batch[i]);
    }
    if (until_ns != UVS__NEVER && uvs__now(s) >= until_ns)
      return lane->first != UVS__NONE;
  }
  return false;
}

bool uvs__lanes_look(uvs_t *s, uint64_t until_ns) {
  struct uvs__lane *lane;
  bool more = false;

  if (uvs__load(&s->lanes.look, relaxed) == NULL) /* a look: who tells wakes us, too */
    return false;
  lane = uvs__swap(&s->lanes.look, NULL, acquire); /* pairs with `tell` */
  while (lane != NULL) {
    struct uvs__lane *next = lane->look_next;

    /* acq_rel: from here on it is on no list; who changes it after this tells us again */
    leave(s, lane, uvs__swap(&lane->news, 0, acq_rel) / UVS__NEWS_UNJOINED);
    if (uvs__lane_disposed(lane) && sweep(s, lane, until_ns)) {
      more = true;
      tell(lane, 0);
    }
    let_go(lane);
    lane = next;
  }
  return more;
}

/* Off the list of all, unless there are clean-ups to be called. */
static bool unlink_lane(uvs_t *s, struct uvs__lane *lane) {
  uv_mutex_lock(&s->pool.lock);
  lane->over = lane->cleanups.first == NULL;
  if (lane->over) {
    if (lane->prev == NULL)
      s->lanes.all = lane->next;
    else
      lane->prev->next = lane->next;
    if (lane->next != NULL)
      lane->next->prev = lane->prev;
  }
  uv_mutex_unlock(&s->pool.lock);
  return lane->over;
}

/* Its last callbacks, and gone. */
static void end(uvs_t *s, struct uvs__lane *lane) {
  uv_mutex_lock(&s->pool.lock);
  lane->called = true; /* or others could keep it from its end */
  uv_mutex_unlock(&s->pool.lock);
  if (lane->turns.crew == &lane->own_crew) /* first: its executor is theirs when they hear of it */
    uvs__crew_close(&s->pool, &lane->own_crew);
  uvs__cleanup_list(s, &lane->cleanups);
  if (lane->quiet != NULL)
    lane->quiet(s, lane->number, lane->arg);
  while (!unlink_lane(s, lane)) /* some were added since */
    uvs__cleanup_list(s, &lane->cleanups);
  uvs__directory_close(lane->number);
  let_go(lane);
}

bool uvs__lanes_end(uvs_t *s, uint64_t until_ns) {
  struct uvs__lane **last = s->lanes.ending_last; /* what these add waits for the next turn */

  while (s->lanes.ending != NULL) {
    struct uvs__lane *lane = s->lanes.ending;
    bool was_last = last == &lane->ending_next;

    s->lanes.ending = lane->ending_next;
    if (s->lanes.ending == NULL)
      s->lanes.ending_last = &s->lanes.ending;
    end(s, lane);
    if (was_last || uvs__now(s) >= until_ns)
      break;
  }
  return s->lanes.ending != NULL;
}

/* The body that disposes its own lane is not asked to stop. */
static void spare_own_bodies(struct uvs__lane *lane) {
  uvs_t *s = lane->scheduler;

  for (const struct uvs__frame *f = uvs__thread.frame; f != NULL; f = f->outer) {
    struct uvs__cold *c;

    if (f->scheduler != s)
      continue;
    c = uvs__agenda_cold(&s->agenda, uvs__slot(s, f->slot));
    if (c != NULL && uvs__load(&c->lane, relaxed) == lane) /* constant while it runs */
      uvs__store(&c->spared, true, relaxed);               /* read by the body itself */
  }
}

static void dispose(struct uvs__lane *lane, uint64_t flags) {
  uvs_t *s = lane->scheduler;
  bool off_loop = !uvs__on_loop(s);
  uint64_t life, to;

  uv_mutex_lock(&s->pool.lock);
  life = uvs__locked_load(&lane->life, relaxed); /* the CAS decides */
  do {
    to = life | UVS__DISPOSED | flags;
    /* Off the loop we count as one of its tasks until the loop has looked: else its last task could
     * end it, and the scheduler be closed, before we have told. */
    if ((life & UVS__DISPOSED) == 0 && off_loop)
      to++;
    /* acq_rel: bodies that learn of it see what was written before; no task joins after it */
  } while (!uvs__locked_cas(&lane->life, &life, to, acq_rel));
  if ((life & UVS__DISPOSED) == 0) {
    uvs__pool_shut_lane_locked(&s->pool, &lane->turns);
    uvs__cleanup_settled_locked(s, &lane->cleanups);
  }
  uv_mutex_unlock(&s->pool.lock);
  if ((life & UVS__DISPOSED) != 0)
    return;
  if (off_loop) {
    uvs__lane_unjoin(lane);
    return;
  }
  sweep(s, lane, UVS__NEVER);
  leave(s, lane, 0); /* if it had none */
  uvs__relax(s);
  uvs__cleanup_call_loop(s); /* some may be for now */
}

int uvs_lane_dispose(uvs_lane_t number, unsigned flags) {
  struct uvs__lane *lane;
  int rc;

  if ((flags & ~(unsigned)UVS_DISPOSE_TOKEN) != 0)
    return UV_EINVAL;
  lane = hold_to_call(number, &rc);
  if (lane == NULL)
    return rc == UV_ECANCELED ? 0 : rc;
  spare_own_bodies(lane);
  dispose(lane, (flags & UVS_DISPOSE_TOKEN) != 0 ? UVS__DISPOSED_TOKEN : 0);
  let_go(lane);
  return 0;
}

int uvs_lane_is_disposed(uvs_lane_t number) {
  int rc;
  struct uvs__lane *lane = hold(number, &rc);

  if (lane == NULL)
    return rc == UV_ECANCELED ? 1 : rc;
  rc = uvs__lane_disposed(lane);
  let_go(lane);
  return rc;
}

/* ---- open and close ---- */

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

static bool add(uvs_t *s, struct uvs__lane *lane) {
  bool added;

  uv_mutex_lock(&s->pool.lock);
  added = !s->lanes.shut;
  if (added) {
    lane->next = s->lanes.all;
    if (lane->next != NULL)
      lane->next->prev = lane;
    s->lanes.all = lane;
  }
  uv_mutex_unlock(&s->pool.lock);
  return added;
}

static void set_up(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  memset(lane, 0, sizeof *lane);
  lane->turns.crew = &s->pool.home;
  lane->turns.width = o->width == 0 ? UINT32_MAX : o->width;
  lane->turns.next = UVS__NONE;
  uvs__list_init(&lane->turns.waiting);
  uvs__ready_init(&lane->own_crew.ready);
  lane->own_crew.lane = lane;
  lane->first = UVS__NONE;
  lane->last = UVS__NONE;
  lane->scheduler = s;
  lane->quiet = o->quiet;
  lane->arg = o->arg;
}

static int open_crew(uvs_t *s, struct uvs__lane *lane, const uvs_lane_options_t *o) {
  struct uvs__crew_options c = {o->executor, o->threads, o->thread_name, -1, UVS__CONCURRENCY_MAX};
  int rc;

  if (lane->turns.width < UVS__CONCURRENCY_MAX)
    c.most = (int)lane->turns.width; /* runners are large, and lanes may be many */

  if (o->executor == NULL && o->threads == 0)
    return o->thread_name == NULL ? 0 : UV_EINVAL;
  lane->turns.crew = &lane->own_crew;
  rc = uvs__crew_open(&s->pool, &lane->own_crew, &c);
  if (rc == 0)
    uvs__crew_watch(&lane->own_crew, uvs__wake, s);
  return rc;
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
  if (uvs__inbox_is_shut(&s->inbox))
    return UV_ESHUTDOWN;
  lane = uvs__mem_alloc(&s->mem, 1, sizeof *lane, 0);
  if (lane == NULL)
    return UV_ENOMEM;
  set_up(s, lane, &o);
  rc = open_crew(s, lane, &o);
  if (rc < 0)
    goto free_lane;
  uvs__store(&s->pool.with_lanes, true, relaxed); /* whoever has the number got it after this */
  rc = uvs__directory_add(lane, &lane->number);
  if (rc < 0)
    goto close_crew;
  uvs_retain(s);
  number = lane->number;
  if (add(s, lane)) {
    *ret = number; /* the lane may be gone by now, if the loop closes everything */
    return 0;
  }
  rc = UV_ESHUTDOWN; /* it is being closed, and looks at its lanes no more */
  uvs__directory_close(lane->number);
  uvs__directory_drop(lane->number);
  uvs_release(s);

close_crew:
  if (lane->turns.crew == &lane->own_crew)
    uvs__crew_close(&s->pool, &lane->own_crew);
free_lane:
  uvs__mem_free(&s->mem, lane);
  return rc;
}

void uvs__lanes_close(uvs_t *s) {
  struct uvs__lane *lane;

  uv_mutex_lock(&s->pool.lock);
  s->lanes.shut = true;
  lane = s->lanes.all;
  uv_mutex_unlock(&s->pool.lock);
  while (lane != NULL) { /* only the loop takes one off the list, and none is added any more */
    struct uvs__lane *next = lane->next;

    dispose(lane, 0);
    lane = next;
  }
}

bool uvs__lanes_gone(uvs_t *s) {
  bool gone;

  uv_mutex_lock(&s->pool.lock);
  gone = s->lanes.all == NULL;
  uv_mutex_unlock(&s->pool.lock);
  return gone;
}

void uvs__lanes_forget(uvs_t *s) {
  while (s->lanes.all != NULL) {
    struct uvs__lane *lane = s->lanes.all;

    s->lanes.all = lane->next;
    uvs__directory_close(lane->number); /* who held it in the parent does not exist here */
    uvs__cleanup_forget_list(s, &lane->cleanups);
    if (lane->own_crew.own != NULL)
      uvs_threads_close(lane->own_crew.own);
    uvs__mem_free(&s->mem, lane);
    uvs_release(s);
  }
}

/* ---- clean-ups ---- */

/* With the lock: onto its list, or (it may be NULL: gone) to be called now, or both. *ret_call: the
 * loop must look. False if there is no turn to come. */
static bool attach_locked(uvs_t *s, struct uvs__lane *lane, struct uvs__cleanup *a, bool on_loop,
                          bool *ret_call) {
  bool lives = lane != NULL && !lane->over && (!lane->called || on_loop);

  *ret_call = !lives || (a->when_settled && uvs__lane_disposed_locked(lane));
  if (!lives && uvs__cleanup_refused_locked(s, on_loop))
    return false;
  if (lives)
    uvs__cleanup_append_locked(&lane->cleanups, a);
  if (*ret_call)
    uvs__cleanup_now_locked(s, a);
  return true;
}

int uvs_lane_add_cleanup(uvs_t *s, uvs_lane_t number, uvs_cleanup_cb cb, void *arg,
                         unsigned flags) {
  struct uvs__lane *lane;
  struct uvs__cleanup *a;
  bool call_loop = false;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = uvs__cleanup_make(s, cb, arg, flags, &a);
  if (rc < 0)
    return rc;
  lane = hold(number, &rc);
  if (lane != NULL)
    rc = lane->scheduler == s ? 0 : UV_EINVAL;
  if (rc == UV_ECANCELED)
    rc = 0; /* it is gone */
  if (rc == 0) {
    bool on_loop = uvs__on_loop(s);

    uv_mutex_lock(&s->pool.lock);
    rc = attach_locked(s, lane, a, on_loop, &call_loop) ? 0 : UV_ESHUTDOWN;
    uv_mutex_unlock(&s->pool.lock);
  }
  if (rc < 0)
    uvs__mem_free(&s->mem, a);
  else if (call_loop)
    uvs__cleanup_call_loop(s);
  if (lane != NULL)
    let_go(lane);
  return rc;
}

/* ---- the narrow view ---- */

int uvs_lane_submit(uvs_lane_t number, const uvs_task_t *t, uvs_id_t *ret_id) {
  int rc;
  struct uvs__lane *lane = hold_to_call(number, &rc);

  if (lane == NULL)
    return rc;
  rc = uvs__submit_to_lane(lane->scheduler, number, t, ret_id);
  let_go(lane);
  return rc;
}

/* Is id one of this lane's? A stale one may meet another task's record: the generation tells. */
static bool has(struct uvs__lane *lane, uvs_id_t id) {
  uvs_t *s = lane->scheduler;
  struct uvs__slot *t;
  struct uvs__cold *c;
  uint64_t w;

  t = uvs__find(s, id, &w);
  if (t == NULL)
    return false;
  c = uvs__agenda_cold(&s->agenda, t);
  if (c == NULL || uvs__load(&c->lane, relaxed) != lane) /* the second look tells whose it is */
    return false;
  /* A read-modify-write: the load above cannot move behind it. */
  return uvs__word_generation(uvs__or(&t->word, 0, acq_rel)) == id >> UVS__SLOT_BITS;
}

/* The lane, if id is one of its tasks; NULL with *ret_rc. */
static struct uvs__lane *hold_with(uvs_lane_t number, uvs_id_t id, int *ret_rc) {
  struct uvs__lane *lane = hold_to_call(number, ret_rc);

  if (*ret_rc == UV_ECANCELED)
    *ret_rc = UV_ENOENT;
  if (lane == NULL || has(lane, id))
    return lane;
  *ret_rc = UV_ENOENT;
  let_go(lane);
  return NULL;
}

int uvs_lane_cancel(uvs_lane_t number, uvs_id_t id, unsigned flags) {
  int rc;
  struct uvs__lane *lane = hold_with(number, id, &rc);

  if (lane == NULL)
    return rc;
  rc = uvs_cancel(lane->scheduler, id, flags);
  let_go(lane);
  return rc;
}

int uvs_lane_reschedule(uvs_lane_t number, uvs_id_t id, int64_t delay_ns) {
  int rc;
  struct uvs__lane *lane = hold_with(number, id, &rc);

  if (lane == NULL)
    return rc;
  rc = uvs_reschedule(lane->scheduler, id, delay_ns);
  let_go(lane);
  return rc;
}

int uvs_lane_finish(uvs_lane_t number, uvs_id_t id, int status) {
  int rc;
  struct uvs__lane *lane = hold_with(number, id, &rc);

  if (lane == NULL)
    return rc;
  rc = uvs_finish(lane->scheduler, id, status);
  let_go(lane);
  return rc;
}
