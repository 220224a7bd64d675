/* SPDX-License-Identifier: MIT
 *
 * submit: from a spec to an accepted task.
 *
 * First everything that can fail: the spec, the cap, memory for the slot and its place in the
 * queue. Then one CAS on the inbox, the instant of acceptance. The loop's own submissions skip the
 * inbox when it is empty, and keep their order with it when it is not. If there is no room,
 * reject.c names other terms, and all of this is done once more.
 */
#include "scheduler.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#define DEAD_MANY 4096 /* cancelled tasks on their way to the loop */
#define PATIENCE 32    /* turns that a producer gives to others, at most */
#define TASK_SIZE_MIN offsetof(uvs_task_t, flags) /* up to the callbacks and their arg */

/* The caller's struct as ours. */
int uvs__read_spec(const void *given, size_t size, uvs_task_t *ret) {
  int rc = uvs__check_size(given, size, sizeof *ret, TASK_SIZE_MIN);

  if (rc < 0)
    return rc;
  uvs_task_init(ret);
  memcpy(ret, given, size < sizeof *ret ? size : sizeof *ret);
  return ret->size == size ? 0 : UV_EINVAL;
}

static int check_periodic(const uvs_task_t *t) {
  if (t->kind == UVS_ONCE)
    return t->period_ns == 0 && t->max_runs == 0 && t->until_ns == 0 ? 0 : UV_EINVAL;
  if (t->period_ns <= 0 || t->from == UVS_FROM_WALL || t->until_ns < 0)
    return UV_EINVAL;
  if (t->until_ns != 0 && t->until_ns < t->delay_ns)
    return UV_EINVAL; /* not one run */
  if (t->kind == UVS_RATE && t->jitter_ns >= t->period_ns)
    return UV_EINVAL;
  return 0;
}

static int check_failure(const uvs_task_t *t) {
  if (t->failure < UVS_FAIL_STOP || t->failure > UVS_FAIL_RETRY)
    return UV_EINVAL;
  if (t->failure == UVS_FAIL_STOP && t->max_failures != 0)
    return UV_EINVAL;
  if (t->failure == UVS_FAIL_GO_ON && t->kind == UVS_ONCE)
    return UV_EINVAL;
  if (t->failure != UVS_FAIL_RETRY)
    return t->retry_ns == 0 && t->retry_max_ns == 0 && t->retry_jitter == 0 ? 0 : UV_EINVAL;
  if (t->retry_ns <= 0 || (t->retry_max_ns != 0 && t->retry_max_ns < t->retry_ns))
    return UV_EINVAL;
  return t->retry_jitter < 0 || t->retry_jitter > 100 ? UV_EINVAL : 0;
}

static int check_limit(const uvs_task_t *t) {
  if (t->limit_ns < 0 || (t->substitute & ~1) != 0 || (t->limit_ns > 0 && t->work == NULL))
    return UV_EINVAL;
  if (t->substitute != 0)
    return t->limit_ns > 0 && t->limit_status <= 0 &&
                   uvs__status_of(t->limit_status) == t->limit_status &&
                   (t->limit_result == NULL || (t->keep != 0 && t->limit_status == 0))
               ? 0
               : UV_EINVAL;
  return t->limit_status == 0 && t->limit_result == NULL ? 0 : UV_EINVAL;
}

int uvs__check_spec(const uvs_task_t *t) {
  if (t->work == NULL && t->after == NULL)
    return UV_EINVAL;
  if (t->kind < UVS_ONCE || t->kind > UVS_DELAY || t->from < UVS_FROM_NOW ||
      t->from > UVS_FROM_WALL)
    return UV_EINVAL;
  if (t->missed < UVS_MISSED_CATCH_UP || t->missed > UVS_MISSED_SKIP ||
      (t->flags & ~(unsigned)UVS_UNREF) != 0)
    return UV_EINVAL;
  if (t->kind != UVS_RATE && (t->missed != UVS_MISSED_CATCH_UP || t->max_burst != 0))
    return UV_EINVAL;
  if (t->missed != UVS_MISSED_CATCH_UP && t->max_burst != 0)
    return UV_EINVAL;
  if (t->jitter_ns < 0 || (t->name != NULL && strnlen(t->name, UVS_NAME_MAX + 1) > UVS_NAME_MAX))
    return UV_EINVAL;
  if (t->priority < UVS_PRIORITY_LOW || t->priority > UVS_PRIORITY_HIGH)
    return UV_EINVAL;
  if ((t->keep & ~1) != 0 || (t->result != NULL && t->keep == 0))
    return UV_EINVAL;
  if (check_failure(t) < 0 || check_limit(t) < 0)
    return UV_EINVAL;
  return check_periodic(t);
}

/* A plain one-shot needs none. (One that was due before it was submitted has to remember when that
 * was.) */
static bool needs_cold(const uvs_t *s, const uvs_task_t *t, uint64_t now_ns) {
  return s->decorate_cb != NULL || t->kind != UVS_ONCE || t->from == UVS_FROM_WALL ||
         (t->from == UVS_FROM_MONOTONIC && uvs__instant(t->delay_ns) < now_ns) ||
         (t->work != NULL && t->after != NULL) || t->jitter_ns != 0 || t->name != NULL ||
         t->keep != 0 || t->lane != 0 || t->priority != UVS_PRIORITY_NORMAL ||
         t->failure != UVS_FAIL_STOP || t->limit_ns != 0;
}

static uint64_t instant_of(const uvs_task_t *t, int64_t ns, uint64_t now_ns) {
  return t->from == UVS_FROM_NOW ? uvs__later(now_ns, ns) : uvs__instant(ns);
}

static void fill_cold(uvs_t *s, struct uvs__cold *c, const uvs_task_t *t, uvs_id_t id,
                      uint64_t now_ns) {
  uint64_t words[(UVS_NAME_MAX + 1) / 8] = {0};
  uint64_t first_ns = instant_of(t, t->delay_ns, now_ns);
  uint64_t jitter_ns = uvs__jitter(s, id, 0, (uint64_t)t->jitter_ns);

  c->after = t->work != NULL ? t->after : NULL;
  c->policy = (uint8_t)t->missed;
  c->max_burst = t->max_burst;
  c->max_runs = t->max_runs;
  c->until_ns = t->until_ns == 0 ? UVS__NEVER : instant_of(t, t->until_ns, now_ns);
  c->jitter_ns = (uint64_t)t->jitter_ns;
  c->missed_next = 0;
  c->failure = (uint8_t)t->failure;
  c->max_failures = t->max_failures;
  c->retry_ns = (uint64_t)t->retry_ns;
  c->retry_max_ns = t->retry_max_ns == 0 ? UVS__NEVER : (uint64_t)t->retry_max_ns;
  c->retry_jitter = (uint8_t)t->retry_jitter;
  c->limit_ns = t->limit_ns == 0 ? UVS__NEVER : (uint64_t)t->limit_ns;
  c->limit_due_ns = UVS__NEVER;
  c->limit_status = t->substitute != 0 ? t->limit_status : UV_ETIMEDOUT;
  c->limit_result = t->limit_result;
  c->since_ns = now_ns;
  c->after_ns = 0;
  c->failed_news = 0;
  c->news_listed = false;
  c->missed_count = 0;
  c->decoration = (uvs_decoration_t){t->work != NULL ? t->work : t->after, t->arg, NULL};
  c->result = t->result;
  c->run_result = t->result; /* also if its first run is left out */
  c->pins = t->keep == UVS__KEEP_PINNED;
  memset(&c->run, 0, sizeof c->run);
  if (t->name != NULL)
    memcpy(words, t->name, strlen(t->name));
  /* relaxed, all: the slot is private, the word's release publishes them */
  uvs__store(&c->jitter_now_ns,
             jitter_ns > UVS__NEVER - first_ns ? UVS__NEVER - first_ns : jitter_ns, relaxed);
  uvs__store(&c->missed_total, 0, relaxed);
  uvs__store(&c->failures, 0, relaxed);
  uvs__store(&c->spared, false, relaxed);
  uvs__store(&c->class, (uint8_t)(UVS__NORMAL - t->priority), relaxed);
  for (size_t i = 0; i < UVS_LATE_CAUSES; i++)
    uvs__store(&c->late_by_ns[i], 0, relaxed);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    uvs__store(&c->name[i], words[i], relaxed);
}

static uint64_t constants_of(const uvs_task_t *t) {
  uint64_t w = (uint64_t)t->kind << UVS__KIND_SHIFT;

  if (t->work == NULL)
    w |= UVS__LOOP;
  else if (t->after != NULL)
    w |= UVS__HAS_AFTER;
  if (t->done != NULL)
    w |= UVS__HAS_DONE;
  if (t->keep != 0)
    w |= UVS__KEEP;
  if (t->from == UVS_FROM_WALL)
    w |= UVS__WALL;
  if ((t->flags & UVS_UNREF) == 0)
    w |= UVS__REF;
  return w;
}

/* Counted in inbox.dead. */
static bool is_dead(uint64_t w) {
  return uvs__word_state(w) == UVS__ENDED && (w & UVS__DEAD) != 0;
}

/* State and flags of a task that comes in on these terms. One that is dropped is like one that was
 * cancelled on its way. */
static uint64_t state_for(uvs_t *s, enum uvs__terms terms) {
  if (terms == UVS__TERMS_DROP)
    return (uint64_t)UVS__ENDED | UVS__CANCELLED | UVS__INBOX | (uvs__on_loop(s) ? 0 : UVS__DEAD);
  return (uint64_t)UVS__WAITING | UVS__INBOX | (terms == UVS__TERMS_PUSH ? UVS__PUSHES : 0);
}

/* Everything that may be missing. */
static int take_room(uvs_t *s, const uvs_task_t *t, uint64_t now_ns, uint32_t *ret_slot,
                     struct uvs__lane **ret_lane) {
  bool cold = needs_cold(s, t, now_ns);
  int rc =
      uvs__agenda_take_slot(&s->agenda, uvs__stripe(s), cold, t->from == UVS_FROM_WALL, ret_slot);

  if (rc < 0)
    return rc == UV_E2BIG ? UV_ENOMEM : rc;
  *ret_lane = NULL;
  if (t->limit_ns != 0)
    rc = uvs__agenda_reserve_limit(&s->agenda, *ret_slot);
  if (rc == 0 && t->lane != 0)
    rc = uvs__agenda_reserve_lane(&s->agenda, *ret_slot);
  if (rc == 0 && t->lane != 0)
    rc = uvs__lane_join(s, t->lane, ret_lane);
  if (rc < 0)
    uvs__agenda_give_slot(&s->agenda, uvs__stripe(s), *ret_slot);
  return rc;
}

/* Move 1 up to the push: a slot with all that the spec says. */
static int make_task(uvs_t *s, const uvs_task_t *t, enum uvs__terms terms, bool narrow,
                     uint64_t now_ns, uint32_t *ret_slot, uvs_id_t *ret_id) {
  uint64_t deadline_ns = instant_of(t, t->delay_ns, now_ns);
  struct uvs__lane *lane;
  struct uvs__slot *slot;
  struct uvs__cold *c;
  uint64_t w;
  int rc = take_room(s, t, now_ns, ret_slot, &lane);

  if (rc < 0)
    return rc;
  slot = uvs__slot(s, *ret_slot);
  /* relaxed, all: the slot is private until the word's release */
  w = uvs__load(&slot->word, relaxed);
  UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
  *ret_id = uvs__id(w, *ret_slot);
  c = uvs__agenda_cold(&s->agenda, slot);
  if (c != NULL) {
    fill_cold(s, c, t, *ret_id, now_ns);
    c->narrow = narrow;
    uvs__store(&c->lane, lane, relaxed);
    deadline_ns += uvs__load(&c->jitter_now_ns, relaxed);
  }
  uvs__store(&slot->fn, t->work != NULL ? t->work : t->after, relaxed);
  slot->done = t->done;
  uvs__store(&slot->arg, t->arg, relaxed);
  uvs__store(&slot->period_ns, t->kind == UVS_ONCE ? now_ns : (uint64_t)t->period_ns, relaxed);
  uvs__store(&slot->deadline_ns, deadline_ns, relaxed);
  uvs__store(&slot->runs, 0, relaxed);
  w = (w & ~(UVS__BIT(UVS__GENERATION_SHIFT) - 1)) | constants_of(t) | state_for(s, terms);
  uvs__store(&slot->word, w, release); /* pairs with the acquire of whoever finds the id */
  return 0;
}

/* The task was not accepted after all. Somebody who guessed its id may have been at it. */
static void unmake_task(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  struct uvs__lane *lane = c == NULL ? NULL : uvs__load(&c->lane, relaxed); /* ours */
  uint64_t w = uvs__load(&t->word, relaxed);                                /* the CAS acquires */
  uint64_t one;

  do {
    w &= ~UVS__MOVING; /* a mover holds it for two steps: the CAS fails until it is through */
  } while (!uvs__cas(&t->word, &w,
                     (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1) << UVS__GENERATION_SHIFT,
                     acq_rel));
  if ((w & UVS__KEEP) != 0) { /* he may even wait for it: let him see that it is gone */
    uv_mutex_lock(&s->pool.lock);
    uv_cond_broadcast(&s->pool.settled);
    uv_mutex_unlock(&s->pool.lock);
  }
  one = UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0);
  if (uvs__word_state(w) == UVS__WAITING)
    uvs__sub(&s->pool.load, one, relaxed); /* a count; else the canceller took it back */
  if (is_dead(w))
    uvs__sub(&s->inbox.dead, 1, relaxed); /* a count */
  if ((w & UVS__CLEANUP) != 0)
    uvs__cleanup_unmade(s, slot);
  uvs__agenda_give_slot(&s->agenda, uvs__stripe(s), slot);
  if (lane != NULL)
    uvs__lane_unjoin(lane);
}

void uvs__send_in(uvs_t *s, uint32_t first, uint32_t last, uint64_t due_ns) {
  bool wake;

  uvs__inbox_push(&s->inbox, first, last, false, due_ns, &wake);
  if (wake)
    uvs__ticker_wake(&s->ticker);
}

/* The same of a submission; false: refused. `ref`: one of them is to keep the loop alive. */
static bool send_fresh(uvs_t *s, uint32_t first, uint32_t last, uint64_t due_ns, bool ref) {
  bool wake;

  if (!uvs__inbox_push(&s->inbox, first, last, true, due_ns, &wake))
    return false;
  /* seq_cst, as the push: either we see that nobody keeps the loop, or it sees our push. */
  if (wake || (ref && uvs__load(&s->unkept, seq_cst)))
    uvs__ticker_wake(&s->ticker);
  return true;
}

/* ---- many at once, all or none ---- */

struct batch {
  const char *specs; /* n checked ones, `stride` apart */
  size_t stride;
  size_t n;
  uint64_t refs;           /* so many of them are ref'd */
  const uvs_task_t *given; /* as the caller has them, for the handler */
  uvs_id_t *ret_ids;       /* or NULL */
  uvs_lane_t narrow;       /* they come in by this lane; 0: they do not */
  uint64_t now_ns;         /* or NOT_READ, and then read as late as can be */
};

#define NOT_READ UINT64_MAX

/* Tasks that are made, linked by `next` from newest to oldest. */
struct made {
  uint32_t newest, oldest;
  size_t count;
  uint64_t due_ns; /* the loop must know by then */
  bool urgent;     /* dropped, and the loop should hear of it at once */
  bool ref;        /* one of them keeps the loop alive */
};

/* The i-th spec: the caller's own if it is as ours, else as ours in *room. NULL: it cannot be read.
 */
static const uvs_task_t *nth(const struct batch *b, size_t i, uvs_task_t *room) {
  const char *given = b->specs + i * b->stride;

  if (b->stride == sizeof *room && b->narrow == 0) {
    const uvs_task_t *t = (const void *)given;

    return t->size == sizeof *t ? t : NULL;
  }
  if (uvs__read_spec(given, b->stride, room) < 0)
    return NULL;
  if (b->narrow != 0) {
    if (room->lane != 0 && room->lane != b->narrow)
      return NULL;
    room->lane = b->narrow;
  }
  return room;
}

/* By the loop itself, oldest first. */
static void accept_on_loop(uvs_t *s, uint32_t oldest, enum uvs__terms terms, uint64_t now_ns) {
  for (uint32_t slot = oldest; slot != UVS__NONE;) {
    struct uvs__slot *t = uvs__slot(s, slot);
    /* relaxed, all: ours */
    uint32_t next = uvs__load(&t->next, relaxed);
    uint64_t w = uvs__load(&t->word, relaxed);
    uint64_t deadline_ns = uvs__load(&t->deadline_ns, relaxed);

    uvs__take_in_new(s, slot);
    if (terms != UVS__TERMS_DROP)
      uvs__expect(s, w, deadline_ns, now_ns);
    slot = next;
  }
  if (terms != UVS__TERMS_ROOM)
    uvs__relax(s); /* somebody may have left a queue, or have a `done` to hear */
  else if (!s->in_tick)
    uvs__update_keep(s);
}

static uint32_t reversed(uvs_t *s, uint32_t newest) {
  uint32_t oldest = UVS__NONE;

  while (newest != UVS__NONE) {
    _Atomic uint32_t *link = &uvs__slot(s, newest)->next;
    uint32_t next = uvs__load(link, relaxed); /* ours */

    uvs__store(link, oldest, relaxed);
    oldest = newest;
    newest = next;
  }
  return oldest;
}

/* Push and count in one, so that nobody sees the one without the other. */
static bool send_in_dropped(uvs_t *s, const struct made *m) {
  bool accepted;

  uv_mutex_lock(&s->pool.lock);
  accepted = uvs__inbox_push_locked(&s->inbox, m->newest, m->oldest);
  if (accepted)
    s->pool.ended[UVS__DROPPED] += m->count;
  uv_mutex_unlock(&s->pool.lock);
  if (accepted && uvs__inbox_must_wake(&s->inbox, m->urgent ? 0 : UVS__ASLEEP))
    uvs__ticker_wake(&s->ticker);
  return accepted;
}

/* They are made: in with them. */
static bool accept_made(uvs_t *s, const struct made *m, enum uvs__terms terms, uint64_t now_ns) {
  if (terms == UVS__TERMS_HERE) {
    if (!uvs__caller_enters(s))
      return false;
    uvs__caller_runs(s, reversed(s, m->newest));
    return true;
  }
  if (uvs__on_loop(s)) {
    uvs__take_in(s); /* what was submitted earlier comes first, else equal deadlines swap */
    if (uvs__inbox_is_shut(&s->inbox))
      return false;
    if (terms == UVS__TERMS_DROP) {
      uv_mutex_lock(&s->pool.lock);
      s->pool.ended[UVS__DROPPED] += m->count;
      uv_mutex_unlock(&s->pool.lock);
    }
    accept_on_loop(s, reversed(s, m->newest), terms, now_ns);
    return true;
  }
  if (terms == UVS__TERMS_DROP)
    return send_in_dropped(s, m);
  return send_fresh(s, m->newest, m->oldest, terms == UVS__TERMS_PUSH ? 0 : m->due_ns, m->ref);
}

/* Only as far as the oldest: its `next` may name what is in the inbox, after a push that was
 * refused at its second try. */
static void unmake(uvs_t *s, const struct made *m) {
  uint32_t newest = m->newest;

  while (newest != UVS__NONE) {
    uint32_t next = uvs__load(&uvs__slot(s, newest)->next, relaxed); /* ours */

    unmake_task(s, newest);
    newest = newest == m->oldest ? UVS__NONE : next;
  }
}

static uint64_t most(const uvs_t *s, enum uvs__terms terms) {
  if (terms == UVS__TERMS_HERE)
    return UINT64_MAX;
  /* Who has to go goes when the loop comes to it. One that does not come must not cost all memory.
   */
  return terms == UVS__TERMS_PUSH ? UINT64_C(2) * s->max_pending : s->max_pending;
}

/* Room under the cap, as these terms have it. */
static bool add_load(uvs_t *s, const struct batch *b, enum uvs__terms terms) {
  uint64_t many = b->n * UVS__LOAD_ONE + b->refs * UVS__LOAD_REF;
  uint64_t load;

  if (s->max_pending == 0) {
    uvs__add(&s->pool.load, many, relaxed); /* a count */
    return true;
  }
  load = uvs__load(&s->pool.load, relaxed); /* the CAS decides */
  do {
    if ((uint32_t)load + b->n > most(s, terms))
      return false;
  } while (!uvs__cas(&s->pool.load, &load, load + many, relaxed)); /* a count, in its own order */
  return true;
}

/* Only the loop frees what was cancelled. A producer that submits and cancels without end would be
 * ahead of it by ever more memory (S55): while so many dead are on their way, one that wants a new
 * slot gives the loop a little time. */
static void let_the_loop_bury(uvs_t *s) {
  if (uvs__load(&s->inbox.dead, relaxed) < DEAD_MANY || uvs__on_loop(s)) /* a count */
    return;
  uvs__ticker_wake(&s->ticker);
  for (int i = 0; i < PATIENCE && uvs__load(&s->inbox.dead, relaxed) >= DEAD_MANY; i++)
    sched_yield(); /* relaxed: a count */
}

/* 0, or an error: then *m has what was made before it. */
static int make(uvs_t *s, const struct batch *b, enum uvs__terms terms, struct made *m) {
  *m = (struct made){UVS__NONE, UVS__NONE, 0, UVS__NEVER, false, false};
  while (m->count < b->n) {
    uvs_task_t room;
    const uvs_task_t *t = nth(b, m->count, &room);
    uvs_id_t id;
    uint32_t slot;
    uint64_t due_ns;
    int rc;

    rc = make_task(s, t, terms, b->narrow != 0, b->now_ns, &slot, &id);
    if (rc < 0)
      return rc;
    uvs__store(&uvs__slot(s, slot)->next, m->newest, relaxed); /* the push releases it */
    m->newest = slot;
    if (m->oldest == UVS__NONE)
      m->oldest = slot;
    if (b->ret_ids != NULL)
      b->ret_ids[m->count] = id; /* before the body can start */
    /* On the other clock: let the loop look. */
    due_ns = t->from == UVS_FROM_WALL ? 0 : instant_of(t, t->delay_ns, b->now_ns);
    if (due_ns < m->due_ns)
      m->due_ns = due_ns;
    m->urgent |= t->done != NULL;
    m->ref |= (t->flags & UVS_UNREF) == 0;
    if (terms == UVS__TERMS_DROP && !uvs__on_loop(s))
      m->urgent |= uvs__inbox_add_dead(&s->inbox); /* as state_for says */
    m->count++;
  }
  return 0;
}

static bool all_fit_here(const uvs_t *s, const struct batch *b) {
  for (size_t i = 0; i < b->n; i++) {
    uvs_task_t room;
    const uvs_task_t *t = nth(b, i, &room);

    if (!uvs__fits_here(s, t, instant_of(t, t->delay_ns, b->now_ns), b->now_ns))
      return false;
  }
  return true;
}

/* 0; UV_EAGAIN and UV_ESHUTDOWN, which are not yet counted as refusals; UV_ENOMEM. */
static int submit_on(uvs_t *s, const struct batch *b, enum uvs__terms terms) {
  struct made m;
  int rc;

  if (uvs__inbox_is_shut(&s->inbox))
    return UV_ESHUTDOWN;
  if (b->n >= UVS__INDEX_MAX)
    return UV_ENOMEM;
  if (terms == UVS__TERMS_HERE && !all_fit_here(s, b))
    return UV_EAGAIN;
  let_the_loop_bury(s);
  if (terms != UVS__TERMS_DROP && !add_load(s, b, terms))
    return UV_EAGAIN;
  rc = make(s, b, terms, &m);
  if (rc == 0 && accept_made(s, &m, terms, b->now_ns))
    return 0;

  /* What was made takes its share of the load back itself. */
  for (size_t i = m.count; i < b->n && terms != UVS__TERMS_DROP; i++) {
    uvs_task_t room;

    uvs__sub(&s->pool.load,
             UVS__LOAD_ONE + ((nth(b, i, &room)->flags & UVS_UNREF) == 0 ? UVS__LOAD_REF : 0),
             relaxed); /* a count */
  }
  unmake(s, &m);
  return rc < 0 ? rc : UV_ESHUTDOWN;
}

/* Are they as they should be, and how many are ref'd? */
static int check_batch(uvs_t *s, struct batch *b) {
  b->refs = 0;
  for (size_t i = 0; i < b->n; i++) {
    uvs_task_t room;
    const uvs_task_t *t = nth(b, i, &room);
    int rc = t == NULL ? UV_EINVAL : uvs__check_spec(t);

    if (rc == 0 && t->lane != 0)
      rc = uvs__lane_check(s, t->lane);
    if (rc < 0)
      return rc;
    b->refs += (t->flags & UVS_UNREF) == 0;
  }
  return 0;
}

static bool is_refusal(int rc) {
  return rc == UV_EAGAIN || rc == UV_ESHUTDOWN;
}

/* There was no room, or it is too late: rc says which. The policy decides. */
static int submit_without_room(uvs_t *s, struct batch *b, int rc) {
  enum uvs__terms terms = uvs__terms_without_room(s, b->given, b->n, rc);

  if (terms != UVS__TERMS_REFUSED) {
    /* The handler may have had its hands on the caller's specs. */
    rc = b->specs == (const char *)b->given ? check_batch(s, b) : 0;
    if (rc == 0)
      rc = submit_on(s, b, terms);
  }
  if (is_refusal(rc)) {
    uv_mutex_lock(&s->pool.lock);
    s->pool.rejected++;
    uv_mutex_unlock(&s->pool.lock);
  }
  return rc;
}

static void restore(const struct batch *b, const uvs_id_t *old) {
  if (b->ret_ids != NULL)
    memcpy(b->ret_ids, old, b->n * sizeof *old);
}

/* Ids are written before we know that the tasks are accepted; on refusal the caller gets back what
 * was there. */
static int submit_or_restore(uvs_t *s, struct batch *b) {
  bool refused;
  uvs_id_t one;
  uvs_id_t *old = &one;
  int rc;

  if (b->ret_ids != NULL && b->n > 1)
    old = uvs__mem_alloc(&s->mem, b->n, sizeof *old, 0);
  if (old == NULL)
    return UV_ENOMEM;
  if (b->ret_ids != NULL)
    memcpy(old, b->ret_ids, b->n * sizeof *old);
  if (b->now_ns == NOT_READ)
    b->now_ns = uvs__now(s);
  rc = submit_on(s, b, UVS__TERMS_ROOM);
  refused = is_refusal(rc);
  if (refused) {
    restore(b, old);
    uvs_retain(s); /* close may come while the handler thinks, or while a body runs */
    rc = submit_without_room(s, b, rc);
  }
  if (rc < 0)
    restore(b, old);
  if (old != &one)
    uvs__mem_free(&s->mem, old);
  if (refused)
    uvs_release(s);
  return rc;
}

/* ---- the common case ---- */

/* From here on a spec has only what plain one-shots do without: so many words. */
#define RARE offsetof(uvs_task_t, max_burst)
_Static_assert(sizeof(uvs_task_t) - RARE == 14 * sizeof(uint64_t), "all of them are looked at");

static inline uint64_t any_of_2(const uvs_task_t *t, size_t offset) {
  uint64_t words[2];

  memcpy(words, (const char *)t + offset, sizeof words);
  return words[0] | words[1];
}

/* Once, after a delay, on the loop or on the pool, and nothing else. */
static inline bool is_plain(const uvs_task_t *t) {
  uint64_t rare;

  if (t->size != sizeof *t) /* behind a smaller one is nothing that we may read */
    return false;
  rare = any_of_2(t, RARE) | any_of_2(t, RARE + 16) | any_of_2(t, RARE + 32) |
         any_of_2(t, RARE + 48) | any_of_2(t, RARE + 64) | any_of_2(t, RARE + 80) |
         any_of_2(t, RARE + 96);
  return rare == 0 && t->kind == UVS_ONCE && t->from == UVS_FROM_NOW && t->period_ns == 0 &&
         (t->work == NULL) != (t->after == NULL) && (t->flags & ~(unsigned)UVS_UNREF) == 0 &&
         t->missed == UVS_MISSED_CATCH_UP;
}

/* Is there nobody to be asked, no cap, and no end in sight? */
static bool is_open(uvs_t *s) {
  return s->decorate_cb == NULL && s->max_pending == 0 && !uvs__inbox_is_shutting(&s->inbox) &&
         uvs__load(&s->inbox.dead, relaxed) < DEAD_MANY; /* a count */
}

/* On the loop: has it to look at nothing first? */
static bool goes_straight_in(uvs_t *s) {
  return !s->taking_in && s->intake.head == UVS__NONE &&
         uvs__load(&s->inbox.head, acquire) == 0 && /* empty, and not shut */
         !uvs__ticker_lost(&s->ticker);
}

/* The slot is ours, and FREE: all that the spec says, but for the word, which is returned. */
static inline uint64_t fill_plain(uvs_t *s, const uvs_task_t *t, uint32_t slot, uint64_t now_ns,
                                  uint64_t deadline_ns) {
  struct uvs__slot *k = uvs__slot(s, slot);
  /* relaxed, all: the slot is private until the word's release */
  uint64_t w = uvs__load(&k->word, relaxed);

  UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
  uvs__store(&k->fn, t->work != NULL ? t->work : t->after, relaxed);
  k->done = t->done;
  uvs__store(&k->arg, t->arg, relaxed);
  uvs__store(&k->period_ns, now_ns, relaxed);
  uvs__store(&k->deadline_ns, deadline_ns, relaxed);
  uvs__store(&k->runs, 0, relaxed);
  return (w & ~(UVS__BIT(UVS__GENERATION_SHIFT) - 1)) | (t->work == NULL ? UVS__LOOP : 0) |
         (t->done != NULL ? UVS__HAS_DONE : 0) | ((t->flags & UVS_UNREF) == 0 ? UVS__REF : 0);
}

/* By the loop, straight into the queue: moves 1 and 2 in one. Nobody else knows its id yet, so the
 * word need not be taken over. Returns the word. */
static inline uint64_t arm_one(uvs_t *s, const uvs_task_t *t, uint32_t slot, uint64_t now_ns,
                               uint64_t deadline_ns, uvs_id_t *ret_id) {
  uint64_t w = fill_plain(s, t, slot, now_ns, deadline_ns) | (uint64_t)UVS__WAITING | UVS__TAKEN;
  struct uvs__slot *k = uvs__slot(s, slot);

  uvs__agenda_number_plain(&s->agenda, k);
  uvs__store(&k->word, w, release); /* pairs with the acquire of whoever finds the id */
  if (ret_id != NULL)
    *ret_id = uvs__id(w, slot);
  if (deadline_ns < UVS__NEVER)
    uvs__wheel_put(&s->agenda.wheel, slot, deadline_ns,
                   s->agenda.last_seq << UVS__SLOT_BITS | slot);
  return w;
}

/* Count n tasks as accepted by the loop itself, before anybody can know one of them. */
static inline void count_own(uvs_t *s, uint64_t n, uint64_t refs) {
  uint64_t load = uvs__load(&s->own.load, relaxed); /* the loop's */

  uvs__store(&s->own.load, load + n * UVS__LOAD_ONE + refs * UVS__LOAD_REF,
             release); /* as uvs__own says */
  s->taken += n;
  s->taken_ref += refs;
}

/* They are in the queue: the loop is to wake for the first of them, and to stay for all. */
static inline void expect_plain(uvs_t *s, uint64_t w, uint64_t first_ns, uint64_t now_ns) {
  if (first_ns < uvs__load(&s->inbox.next_wake, relaxed)) /* only this thread writes it */
    uvs__expect(s, w, first_ns, now_ns);
  if (!s->in_tick && !s->ticker.kept)
    uvs__update_keep(s);
}

/* On the loop: 0, or UV_ENOMEM. */
static int arm_plain(uvs_t *s, const uvs_task_t *t, uint64_t now_ns, uvs_id_t *ret_id) {
  uint64_t deadline_ns = uvs__later(now_ns, t->delay_ns);
  uint32_t slot;
  uint64_t w;
  int rc = uvs__agenda_take_plain(&s->agenda, &slot);

  if (rc < 0)
    return UV_ENOMEM;
  count_own(s, 1, (t->flags & UVS_UNREF) == 0);
  s->agenda.wheel.now_ns = now_ns;
  w = arm_one(s, t, slot, now_ns, deadline_ns, ret_id);
  expect_plain(s, w, deadline_ns, now_ns);
  return 0;
}

/* The same of many, all or none: first all that may be missing, then one look at the clock. */
static int arm_plain_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids) {
  uint64_t first_ns = UVS__NEVER;
  uint64_t refs = 0;
  uint64_t now_ns;
  uint64_t w = 0;

  if (uvs__slab_reserve(&s->agenda.slots, n) < 0)
    return UV_ENOMEM;
  for (size_t i = 0; i < n; i++)
    refs += (t[i].flags & UVS_UNREF) == 0;
  count_own(s, n, refs);
  now_ns = uvs__now(s);
  s->agenda.wheel.now_ns = now_ns;
  for (size_t i = 0; i < n; i++) {
    uint64_t deadline_ns = uvs__later(now_ns, t[i].delay_ns);
    uint32_t slot;
    int rc = uvs__agenda_take_plain(&s->agenda, &slot);

    UVS_ASSERT(rc == 0); /* reserved */
    w = arm_one(s, &t[i], slot, now_ns, deadline_ns, ret_ids == NULL ? NULL : &ret_ids[i]);
    if (deadline_ns < first_ns)
      first_ns = deadline_ns;
  }
  expect_plain(s, w, first_ns, now_ns); /* `w` only says that they are not of the wall clock */
  return 0;
}

/* By anybody else, to the loop. False if that takes no more. */
static bool send_plain(uvs_t *s, const uvs_task_t *t, uint32_t slot, uvs_id_t *ret_id) {
  uint64_t now_ns = uvs__now(s);
  uint64_t deadline_ns = uvs__later(now_ns, t->delay_ns);
  uint64_t w = fill_plain(s, t, slot, now_ns, deadline_ns) | (uint64_t)UVS__WAITING | UVS__INBOX;
  struct uvs__slot *k = uvs__slot(s, slot);
  uvs_id_t old = ret_id == NULL ? 0 : *ret_id;

  uvs__store(&k->seq_cold, 0, release); /* as uvs__agenda_cold says */
  uvs__store(&k->word, w, release);     /* pairs with the acquire of whoever finds the id */
  if (ret_id != NULL)
    *ret_id = uvs__id(w, slot); /* before the body can start */
  if (send_fresh(s, slot, slot, deadline_ns, (w & UVS__REF) != 0))
    return true;
  if (ret_id != NULL)
    *ret_id = old;
  unmake_task(s, slot);
  return false;
}

/* As uvs_submit, if there is nothing else to do; false: nothing has happened, but that the clock
 * may have been read. The processor waits for all before it reads the clock, and while it reads can
 * do what follows: so first the clock, then the rest. */
static bool submit_plain(uvs_t *s, const uvs_task_t *t, uint64_t *ret_now_ns, uvs_id_t *ret_id,
                         int *ret_rc) {
  uint32_t slot;

  *ret_now_ns = NOT_READ;
  if (uvs__on_loop(s)) {
    uint64_t now_ns = uvs__now(s);

    *ret_now_ns = now_ns;
    if (!is_plain(t) || !is_open(s) || !goes_straight_in(s))
      return false;
    *ret_rc = arm_plain(s, t, now_ns, ret_id);
    return true;
  }
  if (!is_plain(t) || !is_open(s))
    return false;
  *ret_rc = uvs__slab_take(&s->agenda.slots, uvs__stripe(s), &slot);
  if (*ret_rc == UV_E2BIG)
    *ret_rc = UV_ENOMEM;
  if (*ret_rc < 0)
    return true;
  uvs__add(&s->pool.share[uvs__self() % UVS__SHARES].load,
           UVS__LOAD_ONE + ((t->flags & UVS_UNREF) == 0 ? UVS__LOAD_REF : 0),
           relaxed); /* a count */
  return send_plain(s, t, slot, ret_id);
}

/* The same of uvs_submit_many; on the loop only. */
static bool submit_plain_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids,
                              int *ret_rc) {
  if (!uvs__on_loop(s) || !is_open(s) || t->size != sizeof *t || !goes_straight_in(s))
    return false;
  for (size_t i = 0; i < n; i++) {
    if (!is_plain(&t[i]))
      return false;
  }
  *ret_rc = arm_plain_many(s, t, n, ret_ids);
  return true;
}

int uvs__submit_specs(uvs_t *s, const uvs_task_t *given, const uvs_task_t *specs, size_t n,
                      uint64_t refs, uvs_id_t *ret_ids) {
  struct batch b = {(const char *)specs, sizeof *specs, n, refs, given, ret_ids, 0, NOT_READ};

  return submit_or_restore(s, &b);
}

static int submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_lane_t narrow, uint64_t now_ns,
                       uvs_id_t *ret_ids) {
  struct batch b;
  int rc;

  rc = uvs__enter(s);
  if (rc < 0)
    return rc;
  if (t == NULL || n == 0)
    return UV_EINVAL;
  b = (struct batch){(const char *)t, t->size, n, 0, t, ret_ids, narrow, now_ns};
  rc = check_batch(s, &b);
  if (rc < 0)
    return rc;
  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  return submit_or_restore(s, &b);
}

int uvs_submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL || n == 0)
    return UV_EINVAL;
  return submit_plain_many(s, t, n, ret_ids, &rc) ? rc : submit_many(s, t, n, 0, NOT_READ, ret_ids);
}

int uvs__submit_to_lane(uvs_t *s, uvs_lane_t lane, const uvs_task_t *t, uvs_id_t *ret_id) {
  return submit_many(s, t, 1, lane, NOT_READ, ret_id);
}

int uvs_submit(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id) {
  uint64_t now_ns;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL)
    return UV_EINVAL;
  return submit_plain(s, t, &now_ns, ret_id, &rc) ? rc : submit_many(s, t, 1, 0, now_ns, ret_id);
}

static int submit_short(uvs_t *s, int kind, int from, int64_t delay_ns, int64_t period_ns,
                        uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = kind;
  t.from = from;
  t.delay_ns = delay_ns;
  t.period_ns = period_ns;
  t.work = work;
  t.arg = arg;
  return uvs_submit(s, &t, ret_id);
}

int uvs_execute(uvs_t *s, uvs_work_cb work, void *arg) {
  return submit_short(s, UVS_ONCE, UVS_FROM_NOW, 0, 0, work, arg, NULL);
}

int uvs_schedule(uvs_t *s, int64_t delay_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_ONCE, UVS_FROM_NOW, delay_ns, 0, work, arg, ret_id);
}

int uvs_schedule_at_fixed_rate(uvs_t *s, int64_t initial_ns, int64_t period_ns, uvs_work_cb work,
                               void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_RATE, UVS_FROM_NOW, initial_ns, period_ns, work, arg, ret_id);
}

int uvs_schedule_with_fixed_delay(uvs_t *s, int64_t initial_ns, int64_t delay_ns, uvs_work_cb work,
                                  void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_DELAY, UVS_FROM_NOW, initial_ns, delay_ns, work, arg, ret_id);
}

int uvs_schedule_at(uvs_t *s, int64_t unix_ns, uvs_work_cb work, void *arg, uvs_id_t *ret_id) {
  return submit_short(s, UVS_ONCE, UVS_FROM_WALL, unix_ns, 0, work, arg, ret_id);
}
