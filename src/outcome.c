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

int uvs__may_wait(uvs_t *s) {
  return uvs__owns_loop(s) || uvs__thread.running == s ? UVS_EDEADLK : 0;
}

int uvs__wait_locked(uvs_t *s, uv_cond_t *cond, uint64_t until_ns) {
  uint64_t now_ns;

  if (until_ns == UVS__NEVER) {
    uv_cond_wait(cond, &s->pool.lock);
    return 0;
  }
  now_ns = uv_hrtime();
  if (now_ns >= until_ns)
    return UV_ETIMEDOUT;
  uv_cond_timedwait(cond, &s->pool.lock, until_ns - now_ns);
  return 0;
}

int uvs_set_result(uvs_run_t *run, void *result) {
  struct uvs__cold *c;
  struct uvs__slot *t;

  if (run == NULL || run->state == NULL)
    return UV_EINVAL;
  t = uvs__slot(run->scheduler, (uint32_t)run->id & UVS__SLOT_MASK);
  c = uvs__agenda_cold(&run->scheduler->agenda, t);
  if ((uvs__load(&t->word, relaxed) & UVS__KEEP) == 0) /* a constant of the task */
    return UV_EINVAL;
  c->run_result = result; /* RUNNING: ours */
  return 0;
}

/* ---- one ---- */

/* With the lock: the word and the fields belong together. */
static void read_locked(uvs_t *s, struct uvs__slot *t, uint64_t w, uvs_outcome_t *o) {
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);

  uvs_outcome_init(o);
  o->state = uvs__quiet(w) ? UVS_ENDED : UVS_RUNNING;
  o->status = uvs__outcome_status(w);
  o->result = o->status == 0 ? c->result : NULL;
  o->runs = uvs__locked_load(&t->runs, relaxed); /* a count */
  if (!uvs__quiet(w))
    return; /* the rest is the runner's */
  o->ideal_ns = c->run.ideal_ns;
  o->start_ns = c->run.start_ns;
  o->end_ns = c->run.end_ns;
}

static bool reached(uint64_t w, unsigned flags) {
  return (flags & UVS_WAIT_SETTLED) != 0 ? uvs__settled(w) : uvs__quiet(w);
}

/* Pinned, with the lock. */
static int sleep_locked(uvs_t *s, struct uvs__slot *t, uint64_t until_ns, unsigned flags,
                        uint64_t *ret_w) {
  int rc = 0;

  for (;;) {
    *ret_w = uvs__locked_load(&t->word, acquire); /* pairs with the release that ended it */
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
      uvs__send_in(s, slot, slot, false, UVS__ASLEEP);
      return;
    }
  }
}

static int wait_pinned(uvs_t *s, uvs_id_t id, uint64_t until_ns, unsigned flags, uvs_outcome_t *o) {
  uint32_t slot = (uint32_t)id & UVS__SLOT_MASK;
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c;
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
  c = uvs__agenda_cold(&s->agenda, t);
  c->pins++;
  rc = sleep_locked(s, t, until_ns, flags, &w);
  if (rc == 0)
    read_locked(s, t, w, o);
  last = --c->pins == 0;
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
  if ((flags & ~(unsigned)UVS_WAIT_SETTLED) != 0 || (ret != NULL && ret->size < sizeof *ret))
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
  if (rc == 0 && ret != NULL) {
    o.size = ret->size;
    memcpy(ret, &o, sizeof o);
  }
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
    uvs__send_in(s, (uint32_t)id & UVS__SLOT_MASK, (uint32_t)id & UVS__SLOT_MASK, false,
                 UVS__ASLEEP);
  return 0;
}

/* ---- many ---- */

/* Tasks that one call submits and waits for. They are pinned from the start: whatever a body does
 * with its own id, their slots stay until the group has read them. */
struct group {
  uvs_t *s;
  uvs_task_t *specs;
  uvs_id_t *ids;
  size_t n;
};

static uint32_t member(const struct group *g, size_t i) {
  return (uint32_t)g->ids[i] & UVS__SLOT_MASK;
}

static void free_group(struct group *g) {
  uvs__mem_free(&g->s->mem, g->specs);
  uvs__mem_free(&g->s->mem, g->ids);
}

/* A copy of the caller's specs. */
static int copy_specs(struct group *g, const uvs_task_t *t, uint64_t *ret_refs) {
  *ret_refs = 0;
  for (size_t i = 0; i < g->n; i++) {
    int rc = uvs__read_spec((const char *)t + i * t->size, t->size, &g->specs[i]);

    if (rc == 0)
      rc = uvs__check_spec(&g->specs[i]);
    if (rc < 0)
      return rc;
    if (g->specs[i].kind != UVS_ONCE)
      return UV_EINVAL; /* a periodic one may never end */
    g->specs[i].size = sizeof g->specs[i];
    g->specs[i].keep = UVS__KEEP_PINNED;
    *ret_refs += (g->specs[i].flags & UVS_UNREF) == 0;
  }
  return 0;
}

static int start(struct group *g, uvs_t *s, const uvs_task_t *t, size_t n,
                 const uvs_outcome_t *ret) {
  uint64_t refs;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (t == NULL || (ret != NULL && ret->size != sizeof *ret))
    return UV_EINVAL;
  rc = uvs__may_wait(s);
  if (rc < 0)
    return rc;
  g->s = s;
  g->n = n;
  g->specs = uvs__mem_alloc(&s->mem, n, sizeof *g->specs, 0);
  g->ids = uvs__mem_alloc(&s->mem, n, sizeof *g->ids, 0);
  rc = g->specs == NULL || g->ids == NULL ? UV_ENOMEM : copy_specs(g, t, &refs);
  if (rc == 0)
    rc = uvs__submit_specs(s, g->specs, n, refs, g->ids);
  if (rc < 0)
    free_group(g);
  else
    uvs_retain(s); /* close may come while we sleep */
  return rc;
}

/* With the lock: how many are quiet, has one succeeded, how did one fail? */
struct standing {
  size_t quiet, settled, winner;
  bool won;
  int failure;
};

static struct standing stand_locked(const struct group *g) {
  struct standing x = {0};

  for (size_t i = 0; i < g->n; i++) {
    /* acquire: pairs with the release that ended it */
    uint64_t w = uvs__locked_load(&uvs__slot(g->s, member(g, i))->word, acquire);

    x.quiet += uvs__quiet(w);
    x.settled += uvs__settled(w);
    if (!uvs__settled(w))
      continue;
    if (uvs__outcome_status(w) != 0) {
      x.failure = uvs__outcome_status(w);
    } else if (!x.won) {
      x.won = true;
      x.winner = i;
    }
  }
  return x;
}

/* Cancel what is not over, wait until all is quiet, read the outcomes (ret may be NULL), let go. */
static void end_group(struct group *g, uvs_outcome_t *ret) {
  uvs_t *s = g->s;

  for (size_t i = 0; i < g->n; i++)
    uvs_cancel(s, g->ids[i], UVS_CANCEL_TOKEN);
  uv_mutex_lock(&s->pool.lock);
  while (stand_locked(g).quiet < g->n)
    uvs__wait_locked(s, &s->pool.settled, UVS__NEVER);
  for (size_t i = 0; i < g->n; i++) {
    struct uvs__slot *t = uvs__slot(s, member(g, i));

    if (ret != NULL)
      read_locked(s, t, uvs__locked_load(&t->word, acquire), &ret[i]); /* as in stand_locked */
    uvs__agenda_cold(&s->agenda, t)->pins--;
  }
  uv_mutex_unlock(&s->pool.lock);
  for (size_t i = 0; i < g->n; i++) {
    uvs_forget(s, g->ids[i]); /* unless its body did */
    let_go(s, member(g, i));
  }
  free_group(g);
  uvs_release(s);
}

int uvs_all(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct group g;
  int rc;

  if (n == 0) {
    rc = uvs__enter(s);
    return rc < 0 ? rc : uvs__may_wait(s);
  }
  rc = start(&g, s, t, n, ret);
  if (rc < 0)
    return rc;
  uv_mutex_lock(&s->pool.lock);
  while (stand_locked(&g).quiet < n && rc == 0)
    rc = uvs__wait_locked(s, &s->pool.settled, until_ns);
  uv_mutex_unlock(&s->pool.lock);
  end_group(&g, ret);
  return rc;
}

int uvs_any(uvs_t *s, const uvs_task_t *t, size_t n, int64_t timeout_ns, size_t *ret_index,
            uvs_outcome_t *ret) {
  uint64_t until_ns = uvs__later(uv_hrtime(), timeout_ns);
  struct standing x;
  uvs_outcome_t *outcomes;
  struct group g;
  int rc;

  rc = uvs__enter(s);
  if (rc < 0)
    return rc;
  if (n == 0)
    return UV_EINVAL;
  outcomes = uvs__mem_alloc(&s->mem, n, sizeof *outcomes, 0);
  if (outcomes == NULL)
    return UV_ENOMEM;
  uvs_retain(s); /* for `outcomes` */
  rc = start(&g, s, t, n, ret);
  if (rc == 0) {
    uv_mutex_lock(&s->pool.lock);
    for (x = stand_locked(&g); !x.won && x.settled < n && rc == 0; x = stand_locked(&g))
      rc = uvs__wait_locked(s, &s->pool.settled, until_ns);
    uv_mutex_unlock(&s->pool.lock);
    if (x.won)
      rc = 0;
    else if (x.settled == n)
      rc = x.failure;
    end_group(&g, outcomes);
    if (rc == 0 && ret_index != NULL)
      *ret_index = x.winner;
    if (rc == 0 && ret != NULL)
      *ret = outcomes[x.winner];
  }
  uvs__mem_free(&s->mem, outcomes);
  uvs_release(s);
  return rc;
}
