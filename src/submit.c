/* SPDX-License-Identifier: MIT
 *
 * submit: from a spec to an accepted task.
 *
 * First everything that can fail: the spec, the cap, memory for the slot and its place in the
 * queue. Then one CAS on the inbox, the instant of acceptance. The loop's own submissions skip the
 * inbox when it is empty, and keep their order with it when it is not.
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
  if ((t->keep & ~1) != 0 || (t->result != NULL && t->keep == 0))
    return UV_EINVAL;
  return check_periodic(t);
}

static bool needs_cold(const uvs_t *s, const uvs_task_t *t) {
  return s->decorate_cb != NULL || (t->work != NULL && t->after != NULL) ||
         t->missed != UVS_MISSED_CATCH_UP || t->max_burst != 0 || t->max_runs != 0 ||
         t->until_ns != 0 || t->jitter_ns != 0 || t->name != NULL || t->keep != 0;
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
  c->policy = t->missed;
  c->max_burst = t->max_burst;
  c->max_runs = t->max_runs;
  c->until_ns = t->until_ns == 0 ? UVS__NEVER : instant_of(t, t->until_ns, now_ns);
  c->jitter_ns = (uint64_t)t->jitter_ns;
  c->missed_next = 0;
  c->decoration = (uvs_decoration_t){t->work != NULL ? t->work : t->after, t->arg, NULL};
  c->result = t->result;
  c->pins = t->keep == UVS__KEEP_PINNED;
  memset(&c->run, 0, sizeof c->run);
  if (t->name != NULL)
    memcpy(words, t->name, strlen(t->name));
  /* relaxed, all: the slot is private, the word's release publishes them */
  uvs__store(&c->jitter_now_ns,
             jitter_ns > UVS__NEVER - first_ns ? UVS__NEVER - first_ns : jitter_ns, relaxed);
  uvs__store(&c->missed_total, 0, relaxed);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
    uvs__store(&c->name[i], words[i], relaxed);
}

static uint64_t constants_of(const uvs_task_t *t, bool cold) {
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
  if (t->kind == UVS_ONCE && t->work != NULL && t->done == NULL && !cold)
    w |= UVS__LIGHT;
  return w;
}

/* Move 1 up to the push: a slot with all that the spec says. Its word makes it WAITING|INBOX. */
static int make_task(uvs_t *s, const uvs_task_t *t, uint64_t now_ns, uint32_t *ret_slot,
                     uvs_id_t *ret_id) {
  bool cold = needs_cold(s, t);
  uint64_t deadline_ns = instant_of(t, t->delay_ns, now_ns);
  struct uvs__slot *slot;
  struct uvs__cold *c;
  uint64_t w;
  int rc;

  rc = uvs__agenda_take_slot(&s->agenda, uvs__stripe(), cold, t->from == UVS_FROM_WALL, ret_slot);
  if (rc < 0)
    return rc == UV_E2BIG ? UV_ENOMEM : rc;
  slot = uvs__slot(s, *ret_slot);
  /* relaxed, all: the slot is private until the word's release */
  w = uvs__load(&slot->word, relaxed);
  UVS_ASSERT(uvs__word_state(w) == UVS__FREE);
  *ret_id = uvs__id(w, *ret_slot);
  c = uvs__agenda_cold(&s->agenda, slot);
  if (c != NULL) {
    fill_cold(s, c, t, *ret_id, now_ns);
    deadline_ns += uvs__load(&c->jitter_now_ns, relaxed);
  }
  slot->fn = t->work != NULL ? t->work : t->after;
  slot->done = t->done;
  uvs__store(&slot->arg, t->arg, relaxed);
  uvs__store(&slot->period_ns, (uint64_t)t->period_ns, relaxed);
  uvs__store(&slot->deadline_ns, deadline_ns, relaxed);
  uvs__store(&slot->runs, 0, relaxed);
  w = (w & ~(UVS__BIT(UVS__GENERATION_SHIFT) - 1)) | constants_of(t, cold) | UVS__INBOX |
      (uint64_t)UVS__WAITING;
  uvs__store(&slot->word, w, release); /* pairs with the acquire of whoever finds the id */
  return 0;
}

/* The task was not accepted after all. Somebody who guessed its id may have been at it. */
static void unmake_task(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */
  uint64_t one;

  do {
    w &= ~UVS__MOVING; /* a mover holds it for two steps: the CAS fails until it is through */
  } while (!uvs__cas(&t->word, &w,
                     (uint64_t)UVS__FREE | (uvs__word_generation(w) + 1) << UVS__GENERATION_SHIFT,
                     acq_rel));
  one = UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0);
  if (uvs__word_state(w) == UVS__WAITING)
    uvs__sub(&s->pool.load, one, relaxed); /* a count; else the canceller took it back */
  uvs__agenda_give_slot(&s->agenda, uvs__stripe(), slot);
}

static int reject(uvs_t *s, int code) {
  uv_mutex_lock(&s->pool.lock);
  s->pool.rejected++;
  uv_mutex_unlock(&s->pool.lock);
  return code;
}

bool uvs__send_in(uvs_t *s, uint32_t first, uint32_t last, bool fresh, uint64_t due_ns) {
  bool wake;

  if (!uvs__inbox_push(&s->inbox, first, last, fresh, due_ns, &wake))
    return false;
  if (wake)
    uvs__ticker_wake(&s->ticker);
  return true;
}

/* By the loop itself, oldest first. */
static void accept_on_loop(uvs_t *s, uint32_t oldest, uint64_t now_ns) {
  for (uint32_t slot = oldest; slot != UVS__NONE;) {
    struct uvs__slot *t = uvs__slot(s, slot);
    /* relaxed, all: ours */
    uint32_t next = uvs__load(&t->next, relaxed);
    uint64_t w = uvs__load(&t->word, relaxed);
    uint64_t deadline_ns = uvs__load(&t->deadline_ns, relaxed);

    uvs__take_in_new(s, slot);
    uvs__expect(s, w, deadline_ns, now_ns);
    slot = next;
  }
  if (!s->in_tick)
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

/* The chain newest .. oldest is made: in with it. */
static bool accept_chain(uvs_t *s, uint32_t newest, uint32_t oldest, uint64_t due_ns,
                         uint64_t now_ns) {
  if (uvs__on_loop(s)) {
    uvs__take_in(s); /* what was submitted earlier comes first, else equal deadlines swap */
    if (uvs__inbox_is_shut(&s->inbox))
      return false;
    accept_on_loop(s, reversed(s, newest), now_ns);
    return true;
  }
  return uvs__send_in(s, newest, oldest, true, due_ns);
}

/* Only as far as the oldest: its `next` may name what is in the inbox, after a push that was
 * refused at its second try. */
static void unmake_chain(uvs_t *s, uint32_t newest, uint32_t oldest) {
  while (newest != UVS__NONE) {
    uint32_t next = uvs__load(&uvs__slot(s, newest)->next, relaxed); /* ours */

    unmake_task(s, newest);
    newest = newest == oldest ? UVS__NONE : next;
  }
}

/* Room under the cap for n tasks, `refs` of them ref'd. */
static bool add_load(uvs_t *s, uint64_t n, uint64_t refs) {
  uint64_t many = n * UVS__LOAD_ONE + refs * UVS__LOAD_REF;
  uint64_t load = uvs__load(&s->pool.load, relaxed); /* the CAS decides */

  do {
    if (s->max_pending != 0 && (uint32_t)load + n > s->max_pending)
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

/* n checked specs, `stride` apart. */
static int submit_checked(uvs_t *s, const char *specs, size_t stride, size_t n, uint64_t refs,
                          uvs_id_t *ret_ids) {
  uint64_t now_ns = uvs__now(s);
  uint64_t due_ns = UVS__NEVER;
  uint32_t newest = UVS__NONE;
  uint32_t oldest = UVS__NONE;
  size_t made;
  int rc = 0;

  if (uvs__inbox_is_shut(&s->inbox))
    return reject(s, UV_ESHUTDOWN);
  if (n >= UVS__INDEX_MAX)
    return UV_ENOMEM;
  let_the_loop_bury(s);
  if (!add_load(s, n, refs))
    return reject(s, UV_EAGAIN);
  for (made = 0; made < n; made++) {
    uvs_task_t t;
    uvs_id_t id;
    uint32_t slot;

    uvs__read_spec(specs + made * stride, stride, &t);
    rc = make_task(s, &t, now_ns, &slot, &id);
    if (rc < 0)
      break;
    uvs__store(&uvs__slot(s, slot)->next, newest, relaxed); /* the push releases it */
    newest = slot;
    if (oldest == UVS__NONE)
      oldest = slot;
    if (ret_ids != NULL)
      ret_ids[made] = id; /* before the body can start */
    if (t.from == UVS_FROM_WALL)
      due_ns = 0; /* other clock: let the loop look */
    else if (due_ns != 0)
      due_ns =
          instant_of(&t, t.delay_ns, now_ns) < due_ns ? instant_of(&t, t.delay_ns, now_ns) : due_ns;
  }
  if (rc == 0 && accept_chain(s, newest, oldest, due_ns, now_ns))
    return 0;

  /* What was made takes its share of the load back itself. */
  for (size_t i = made; i < n; i++) {
    uvs_task_t t;

    uvs__read_spec(specs + i * stride, stride, &t);
    uvs__sub(&s->pool.load, UVS__LOAD_ONE + ((t.flags & UVS_UNREF) == 0 ? UVS__LOAD_REF : 0),
             relaxed); /* a count */
  }
  unmake_chain(s, newest, oldest);
  return rc < 0 ? rc : reject(s, UV_ESHUTDOWN);
}

/* Ids are written before we know that the tasks are accepted; on refusal the caller gets back what
 * was there. */
static int submit_or_restore(uvs_t *s, const char *specs, size_t stride, size_t n, uint64_t refs,
                             uvs_id_t *ret_ids) {
  uvs_id_t one;
  uvs_id_t *old = NULL;
  int rc;

  if (ret_ids != NULL && n == 1)
    old = &one;
  else if (ret_ids != NULL)
    old = uvs__mem_alloc(&s->mem, n, sizeof *old, 0);
  if (ret_ids != NULL) {
    if (old == NULL)
      return UV_ENOMEM;
    memcpy(old, ret_ids, n * sizeof *old);
  }
  rc = submit_checked(s, specs, stride, n, refs, ret_ids);
  if (rc < 0 && ret_ids != NULL)
    memcpy(ret_ids, old, n * sizeof *old);
  if (old != &one)
    uvs__mem_free(&s->mem, old);
  return rc;
}

int uvs__submit_specs(uvs_t *s, const uvs_task_t *specs, size_t n, uint64_t refs,
                      uvs_id_t *ret_ids) {
  return submit_or_restore(s, (const char *)specs, sizeof *specs, n, refs, ret_ids);
}

int uvs_submit_many(uvs_t *s, const uvs_task_t *t, size_t n, uvs_id_t *ret_ids) {
  const char *specs = (const char *)t;
  uint64_t refs = 0;
  int rc;

  rc = uvs__enter(s);
  if (rc < 0)
    return rc;
  if (t == NULL || n == 0)
    return UV_EINVAL;
  for (size_t i = 0; i < n; i++) {
    uvs_task_t known;

    rc = uvs__read_spec(specs + i * t->size, t->size, &known);
    if (rc == 0)
      rc = uvs__check_spec(&known);
    if (rc < 0)
      return rc;
    refs += (known.flags & UVS_UNREF) == 0;
  }
  if (uvs__on_loop(s))
    uvs__notice_loss(s);
  return submit_or_restore(s, specs, t->size, n, refs, ret_ids);
}

int uvs_submit(uvs_t *s, const uvs_task_t *t, uvs_id_t *ret_id) {
  return uvs_submit_many(s, t, 1, ret_id);
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
