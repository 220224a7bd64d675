/* SPDX-License-Identifier: MIT
 *
 * outcome: what is kept of a task when it is over, and those who wait for it.
 *
 * Waiters sleep on one condition per scheduler, with the pool's lock, under which every outcome is
 * counted. A waiter pins the slot; the last one who needs it sends it to the loop to be freed.
 */
#include "scheduler.h"

#include <stddef.h>
#include <string.h>

#define OUTCOME_SIZE_MIN offsetof(uvs_outcome_t, ideal_ns) /* up to status and result */

int uvs__may_wait(uvs_t *s) {
  return uvs__owns_loop(s) || uvs__thread_inside(s) ? UVS_EDEADLK : 0;
}

int uvs__wait_on(uv_cond_t *cond, uv_mutex_t *lock, uint64_t until_ns) {
  uint64_t now_ns;

  if (until_ns == UVS__NEVER) {
    uv_cond_wait(cond, lock);
    return 0;
  }
  now_ns = uv_hrtime();
  if (now_ns >= until_ns)
    return UV_ETIMEDOUT;
  uv_cond_timedwait(cond, lock, until_ns - now_ns);
  return 0;
}

int uvs__wait_locked(uvs_t *s, uv_cond_t *cond, uint64_t until_ns) {
  return uvs__wait_on(cond, &s->pool.lock, until_ns);
}

int uvs_set_result(uvs_run_t *run, void *result) {
  struct uvs__cold *c;
  struct uvs__slot *t;
  const uvs_t *s;

  if (run == NULL || run->state == NULL)
    return UV_EINVAL;
  s = run->state; /* `scheduler` is not for everybody to see */
  t = uvs__slot(s, (uint32_t)run->id & UVS__SLOT_MASK);
  c = uvs__agenda_cold(&s->agenda, t);
  if ((uvs__load(&t->word, relaxed) & UVS__KEEP) == 0) /* a constant of the task */
    return UV_EINVAL;
  c->run_result = result; /* RUNNING: ours */
  return 0;
}

/* ---- what the caller gets ---- */

/* Can we write to the caller's struct? It may be NULL. */
static int check_ret(const uvs_outcome_t *ret) {
  return ret == NULL ? 0 : uvs__check_size(ret, ret->size, sizeof *ret, OUTCOME_SIZE_MIN);
}

/* As much of it as the caller's struct of `size` bytes has room for. */
static void give(void *ret, size_t size, uvs_outcome_t o) {
  o.size = size;
  memset(ret, 0, size);
  memcpy(ret, &o, size < sizeof o ? size : sizeof o);
}

/* With the lock: the word and the fields belong together. */
static void read_locked(struct uvs__slot *t, const struct uvs__cold *c, uint64_t w,
                        uvs_outcome_t *o) {
  uvs_outcome_init(o);
  o->state = uvs__quiet(w) ? UVS_ENDED : UVS_RUNNING;
  o->status = uvs__outcome_status(w);
  if (o->status == 0)
    o->result = (w & UVS__LATE) != 0 ? c->limit_result : c->result;
  o->runs = uvs__locked_load(&t->runs, relaxed); /* a count */
  if (!uvs__quiet(w))
    return; /* the rest is the runner's */
  o->ideal_ns = c->run.ideal_ns;
  o->start_ns = c->run.start_ns;
  o->end_ns = c->run.end_ns;
}

/* ---- one ---- */

static bool reached(uint64_t w, unsigned flags) {
  return (flags & UVS_WAIT_SETTLED) != 0 ? uvs__settled(w) : uvs__quiet(w);
}

/* Pinned, with the lock. UV_ENOENT: the id was a guess, and its submission has been refused; then
 * the slot is another's, and so is the pin. */
static int sleep_locked(uvs_t *s, struct uvs__slot *t, uint64_t generation, uint64_t until_ns,
                        unsigned flags, uint64_t *ret_w) {
  int rc = 0;

  for (;;) {
    *ret_w = uvs__locked_load(&t->word, acquire); /* pairs with the release that ended it */
    if (uvs__word_generation(*ret_w) != generation)
      return UV_ENOENT;
    if (reached(*ret_w, flags))
      return 0;
    if (rc < 0)
      return rc;
    rc = uvs__wait_locked(s, &s->pool.settled, until_ns);
  }
}

/* After the last pin: nobody needs what is over and forgotten. */
static void let_go(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t w = uvs__load(&t->word, relaxed); /* the CAS acquires */

  while (uvs__word_state(w) == UVS__OVER && (w & UVS__FORGOTTEN) != 0 && (w & UVS__INBOX) == 0) {
    if (uvs__word_try(t, &w, w | UVS__INBOX)) {
      uvs__send_in(s, slot, slot, UVS__ASLEEP);
      return;
    }
  }
}

static int wait_pinned(uvs_t *s, uvs_id_t id, uint64_t until_ns, unsigned flags, uvs_outcome_t *o) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t); /* this task's, if the id still is */
  bool last;
  uint64_t w;
  int rc;

  uv_mutex_lock(&s->pool.lock); /* the loop frees a kept slot only under it */
  w = uvs__locked_load(&t->word, acquire);
  if (uvs__word_generation(w) != id >> UVS__SLOT_BITS || uvs__word_state(w) == UVS__FREE ||
      (w & UVS__FORGOTTEN) != 0) {
    uv_mutex_unlock(&s->pool.lock);
    return UV_ENOENT;
  }
  c->pins++;
  rc = sleep_locked(s, t, id >> UVS__SLOT_BITS, until_ns, flags, &w);
  if (rc == 0)
    read_locked(t, c, w, o);
  last = rc != UV_ENOENT && --c->pins == 0;
  uv_mutex_unlock(&s->pool.lock);
  if (last)
    let_go(s, slot);
  return rc;
}

int uvs_wait(uvs_t *s, uvs_id_t id, int64_t timeout_ns, unsigned flags, uvs_outcome_t *ret) {
  uvs_outcome_t o;
  uint64_t w;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if ((flags & ~(unsigned)UVS_WAIT_SETTLED) != 0 || check_ret(ret) < 0)
    return UV_EINVAL;
  if (uvs__find(s, id, &w) == NULL)
    return UV_ENOENT;
  if ((w & UVS__KEEP) == 0)
    return UV_EINVAL;
  uvs_retain(s); /* close may come while we sleep */
  rc = wait_pinned(s, id, 0, flags, &o);
  if (rc == UV_ETIMEDOUT && timeout_ns > 0) {
    rc = uvs__may_wait(s);
    if (rc == 0)
      rc = wait_pinned(s, id, uvs__later(uv_hrtime(), timeout_ns), flags, &o);
  }
  uvs_release(s);
  if (rc == 0 && ret != NULL)
    give(ret, ret->size, o);
  return rc;
}

int uvs_forget(uvs_t *s, uvs_id_t id) {
  struct uvs__slot *t;
  uint64_t w;
  uint64_t to;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  t = uvs__find(s, id, &w);
  if (t == NULL)
    return UV_ENOENT;
  if ((w & UVS__KEEP) == 0)
    return UV_EINVAL;
  do {
    if (uvs__word_generation(w) != id >> UVS__SLOT_BITS || uvs__word_state(w) == UVS__FREE ||
        (w & UVS__FORGOTTEN) != 0)
      return UV_ENOENT;
    to = w | UVS__FORGOTTEN | (uvs__word_state(w) == UVS__OVER ? UVS__INBOX : 0);
  } while (!uvs__word_try(t, &w, to));
  if (uvs__word_state(w) == UVS__OVER && (w & UVS__INBOX) == 0)
    uvs__send_in(s, (uint32_t)id & UVS__SLOT_MASK, (uint32_t)id & UVS__SLOT_MASK, UVS__ASLEEP);
  return 0;
}

/* ---- many ---- */

/* Tasks that one call submits and waits for. They are pinned from the start: whatever a body does
 * with its own id, their slots stay until the group has read them.
 *
 * Every end of a kept task wakes all who sleep. So a wake-up must not cost a look at every member:
 * n of them would cost n * n. */
struct group {
  uvs_t *s;
  uvs_id_t *ids;
  uint32_t *open; /* a race: members that it has not seen settled, in order */
  size_t n;
  size_t quiet; /* so many of the first have been seen quiet */
};

static uint32_t member(const struct group *g, size_t i) {
  return (uint32_t)g->ids[i] & UVS__SLOT_MASK;
}

static struct uvs__slot *member_slot(const struct group *g, size_t i) {
  return uvs__slot(g->s, member(g, i));
}

/* A copy of the caller's specs. */
static int copy_specs(uvs_task_t *specs, const uvs_task_t *t, size_t n, uint64_t *ret_refs) {
  *ret_refs = 0;
  for (size_t i = 0; i < n; i++) {
    int rc = uvs__read_spec((const char *)t + i * t->size, t->size, &specs[i]);

    if (rc == 0 && specs[i].keep == 0)
      specs[i].keep = 1; /* they are kept in any case, so a preset result is welcome */
    if (rc == 0)
      rc = uvs__check_spec(&specs[i]);
    if (rc < 0)
      return rc;
    if (specs[i].kind != UVS_ONCE)
      return UV_EINVAL; /* a periodic one may never end */
    specs[i].size = sizeof specs[i];
    specs[i].keep = UVS__KEEP_PINNED;
    *ret_refs += (specs[i].flags & UVS_UNREF) == 0;
  }
  return 0;
}

static void free_group(struct group *g) {
  uvs__mem_free(&g->s->mem, g->ids);
  uvs_release(g->s);
}

static int submit_group(struct group *g, const uvs_task_t *t) {
  uvs_task_t *specs = uvs__mem_alloc(&g->s->mem, g->n, sizeof *specs, 0);
  uint64_t refs;
  int rc;

  if (specs == NULL || g->ids == NULL)
    rc = UV_ENOMEM;
  else
    rc = copy_specs(specs, t, g->n, &refs);
  if (rc == 0)
    rc = uvs__submit_specs(g->s, t, specs, g->n, refs, g->ids);
  uvs__mem_free(&g->s->mem, specs);
  return rc;
}

static int start(struct group *g, uvs_t *s, const uvs_task_t *t, size_t n,
                 const uvs_outcome_t *ret) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL || check_ret(ret) < 0)
    return UV_EINVAL;
  rc = uvs__may_wait(s);
  if (rc < 0)
    return rc;
  g->s = uvs_retain(s); /* close may come at any time from here on */
  g->n = n;
  g->quiet = 0;
  g->ids = uvs__mem_alloc(&s->mem, n, sizeof *g->ids + sizeof *g->open, 0);
  rc = submit_group(g, t);
  if (rc < 0) {
    free_group(g);
    return rc;
  }
  g->open = (uint32_t *)(void *)(g->ids + n);
  for (size_t i = 0; i < n; i++)
    g->open[i] = (uint32_t)i;
  return 0;
}

/* Until all are quiet, one after the other. No lock but to sleep: what is quiet stays so. */
static int await_quiet(struct group *g, uint64_t until_ns) {
  int rc = 0;

  for (;;) {
    /* acquire, both: pairs with the release that ended it */
    while (g->quiet < g->n && uvs__quiet(uvs__load(&member_slot(g, g->quiet)->word, acquire)))
      g->quiet++;
    if (g->quiet == g->n)
      return 0;
    if (rc < 0)
      return rc;
    uv_mutex_lock(&g->s->pool.lock); /* under which it becomes quiet */
    if (!uvs__quiet(uvs__locked_load(&member_slot(g, g->quiet)->word, acquire)))
      rc = uvs__wait_locked(g->s, &g->s->pool.settled, until_ns);
    uv_mutex_unlock(&g->s->pool.lock);
  }
}

/* Cancel what is not over, with token, and wait until all is quiet. */
static void hush(struct group *g) {
  for (size_t i = 0; i < g->n; i++)
    uvs_cancel(g->s, g->ids[i], UVS_CANCEL_TOKEN);
  await_quiet(g, UVS__NEVER);
}

/* It is quiet: read its outcome and let it go. */
static uvs_outcome_t leave(struct group *g, size_t i) {
  struct uvs__slot *t = member_slot(g, i);
  struct uvs__cold *c = uvs__agenda_cold(&g->s->agenda, t);
  uvs_outcome_t o;

  uv_mutex_lock(&g->s->pool.lock);
  read_locked(t, c, uvs__locked_load(&t->word, acquire), &o); /* as in await_quiet */
  c->pins--;
  uv_mutex_unlock(&g->s->pool.lock);
  uvs_forget(g->s, g->ids[i]); /* unless its body did */
  let_go(g->s, member(g, i));
  return o;
}

int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct group g;
  size_t size;
  int rc;

  if (n == 0) {
    rc = uvs__enter(s);
    return rc < 0 ? rc : uvs__may_wait(s);
  }
  rc = start(&g, s, t, n, ret);
  if (rc < 0)
    return rc;
  size = ret == NULL ? 0 : ret->size;
  rc = await_quiet(&g, until_ns);
  if (rc < 0)
    hush(&g);
  for (size_t i = 0; i < n; i++) {
    uvs_outcome_t o = leave(&g, i);

    if (ret != NULL)
      give((char *)ret + i * size, size, o);
  }
  free_group(&g);
  return rc;
}

/* ---- the first of many ---- */

struct race {
  size_t left;          /* members in `open` */
  uint64_t ended, good; /* of all tasks of the scheduler, when it last looked */
  bool won;
  size_t winner;
  int failure;
};

static uint64_t ended_locked(const struct uvs__pool *p) {
  uint64_t n = 0;

  for (int i = 0; i < UVS__OUTCOMES; i++)
    n += p->ended[i];
  return n;
}

/* Neither failed nor cancelled. */
static uint64_t good_locked(const struct uvs__pool *p) {
  return ended_locked(p) - p->ended[UVS__FAILED] - p->ended[UVS__CANCELED];
}

/* Somebody may have won, or so many have ended that the others may all be among them. An end is
 * counted under the lock under which it happens, so none is missed. */
static bool news_locked(const struct race *r, const struct uvs__pool *p) {
  return good_locked(p) != r->good || ended_locked(p) - r->ended >= r->left;
}

/* No lock: what is settled stays so. */
static void look(struct race *r, struct group *g) {
  size_t left = 0;

  for (size_t k = 0; k < r->left; k++) {
    /* acquire: pairs with the release that settled it */
    uint64_t w = uvs__load(&member_slot(g, g->open[k])->word, acquire);

    if (!uvs__settled(w)) {
      g->open[left++] = g->open[k];
    } else if (uvs__outcome_status(w) == 0) {
      r->won = true;
      r->winner = g->open[k];
      return;
    } else if (r->failure == 0 || r->failure == UV_ECANCELED) {
      r->failure = uvs__outcome_status(w); /* one that failed says more than one that never ran */
    }
  }
  r->left = left;
}

/* 0: somebody won; the failure of one of them; UV_ETIMEDOUT. */
static int await_winner(struct group *g, uint64_t until_ns, size_t *ret_winner) {
  struct race r = {.left = g->n, .good = UINT64_MAX}; /* so that there is news at first */
  struct uvs__pool *p = &g->s->pool;
  int rc = 0;

  for (;;) {
    uv_mutex_lock(&p->lock);
    while (!news_locked(&r, p) && rc == 0)
      rc = uvs__wait_locked(g->s, &p->settled, until_ns);
    r.ended = ended_locked(p);
    r.good = good_locked(p);
    uv_mutex_unlock(&p->lock);
    if (uv_hrtime() >= until_ns) /* there may always be news */
      rc = UV_ETIMEDOUT;
    look(&r, g);
    *ret_winner = r.winner;
    if (r.won || r.left == 0)
      return r.won ? 0 : r.failure;
    if (rc < 0)
      return rc;
  }
}

int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
            uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct group g;
  size_t winner;
  int rc;

  if (n == 0) {
    rc = uvs__enter(s);
    return rc < 0 ? rc : UV_EINVAL;
  }
  rc = start(&g, s, t, n, ret);
  if (rc < 0)
    return rc;
  rc = await_winner(&g, until_ns, &winner);
  hush(&g);
  for (size_t i = 0; i < n; i++) {
    uvs_outcome_t o = leave(&g, i);

    if (rc == 0 && i == winner && ret != NULL)
      give(ret, ret->size, o);
  }
  free_group(&g);
  if (rc == 0 && ret_index != NULL)
    *ret_index = winner;
  return rc;
}
