/* SPDX-License-Identifier: MIT
 *
 * report: what can be asked of a scheduler and its tasks.
 */
#include "scheduler.h"

#include <sched.h>

#include "late.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Copies as much of our struct as the caller's has room for. */
static void give(void *ret, size_t size, const void *ours, size_t our_size) {
  memset(ret, 0, size);
  memcpy(ret, ours, size < our_size ? size : our_size);
  memcpy(ret, &size, sizeof size);
}

/* ---- a task ---- */

/* Word, fields, word again: if the generation is still the same, they belong together. */
static int look(uvs_t *s, uint32_t slot, uint64_t w, uvs_info_t *ret) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t words[(UVS_NAME_MAX + 1) / 8] = {0};
  uint64_t now_ns = uvs__now(s);
  uint64_t due_ns;

  uvs_info_init(ret);
  ret->id = uvs__id(w, slot);
  ret->state = (int)uvs__word_state(w);
  ret->kind = uvs__word_kind(w);
  ret->from = uvs__is_wall(w) ? UVS_FROM_WALL : UVS_FROM_MONOTONIC;
  ret->cancelled = (w & UVS__CANCELLED) != 0;
  ret->timed_out = (w & UVS__LATE) != 0;
  /* relaxed, all: the second look at the word tells whether they are this task's */
  due_ns = uvs__load(&t->deadline_ns, relaxed);
  ret->due_ns = (int64_t)due_ns;
  ret->period_ns = ret->kind == UVS_ONCE ? 0 : (int64_t)uvs__load(&t->period_ns, relaxed);
  ret->work = uvs__load(&t->fn, relaxed);
  ret->runs = uvs__load(&t->runs, relaxed);
  ret->arg = uvs__load(&t->arg, relaxed);
  if (c != NULL) {
    ret->missed = uvs__load(&c->missed_total, relaxed);
    ret->failures = uvs__load(&c->failures, relaxed);
    ret->priority = UVS__NORMAL - uvs__load(&c->class, relaxed);
    for (int i = 0; i < UVS_LATE_CAUSES; i++) {
      ret->late_by_ns[i] = uvs__load(&c->late_by_ns[i], relaxed);
      ret->late_ns += ret->late_by_ns[i];
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
      words[i] = uvs__load(&c->name[i], relaxed);
  } else { /* it keeps no count; its one run has failed, or has not */
    ret->failures = ret->state == UVS_ENDED && uvs__word_status(w) < 0;
  }
  ret->culprit = uvs__culprit(ret->late_by_ns);
  memcpy(ret->name, words, sizeof words);
  if (uvs__is_wall(w))
    now_ns = uvs__clock_wall(&s->clock);
  ret->remaining_ns = due_ns == UVS__NEVER ? UVS_NEVER : (int64_t)due_ns - (int64_t)now_ns;
  /* A read-modify-write: the loads above cannot move behind it. */
  return uvs__word_generation(uvs__or(&t->word, 0, acq_rel)) == uvs__word_generation(w) ? 0
                                                                                        : UV_ENOENT;
}

int uvs_info(uvs_t *s, uvs_id_t id, uvs_info_t *ret) {
  uvs_info_t info;
  uint64_t w;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof info, offsetof(uvs_info_t, period_ns)) < 0)
    return UV_EINVAL;
  if (uvs__find(s, id, &w) == NULL || uvs__word_state(w) > UVS__ENDED)
    return UV_ENOENT;
  rc = look(s, (uint32_t)id & UVS__SLOT_MASK, w, &info);
  if (rc == 0)
    give(ret, ret->size, &info, sizeof info);
  return rc;
}

int uvs_each(uvs_t *s, uvs_each_cb each, void *arg) {
  uint32_t made;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  if (s->in_each)
    return UV_EBUSY;
  uvs__take_in(s);
  made = uvs__slab_made(&s->agenda.slots); /* what `each` adds beyond is not visited */
  s->in_each = true;
  for (uint32_t slot = 0; slot < made && rc == 0; slot++) {
    uint64_t w =
        uvs__load(&uvs__slot(s, slot)->word, acquire); /* pairs with the release of its last move */
    uvs_info_t info;

    if ((w & UVS__TAKEN) == 0 || uvs__word_state(w) == UVS__FREE || uvs__word_state(w) > UVS__ENDED)
      continue;
    if (look(s, slot, w, &info) == 0)
      rc = each(s, &info, arg);
  }
  s->in_each = false;
  uvs__relax(s);
  return rc;
}

/* ---- counts ---- */

/* What the loop counts by itself, at one instant; returns its load. */
static uint64_t snapshot_own(const struct uvs__own *own, uint64_t *ret_cancelled) {
  uint64_t load;

  for (;;) { /* acquire: as uvs__own says; the last load may come no earlier than those before it */
    uint64_t turn = uvs__locked_load(&own->turn, acquire);

    load = uvs__locked_load(&own->load, acquire);
    *ret_cancelled = uvs__locked_load(&own->cancelled, acquire);
    if (turn % 2 == 0 && uvs__locked_load(&own->turn, relaxed) == turn)
      return load;
    sched_yield(); /* the loop may have been stopped just there */
  }
}

static void snapshot(uvs_t *s, uvs_counts_t *c) {
  struct uvs__pool *p = &s->pool;
  uint64_t cancelled;
  uint64_t live;

  uvs_counts_init(c);
  uv_mutex_lock(&p->lock);
  live = snapshot_own(&s->own, &cancelled);
  /* The pool's is subtracted from only under the lock, but for submissions that are just being
   * refused; and the shares only grow. */
  live = (uint32_t)(live + uvs__locked_load(&p->load, relaxed) + uvs__pool_shares(p));
  /* Then only submissions that are just being refused are left in it. Written under the lock. */
  if (uvs__locked_load(&s->terminated, relaxed))
    live = 0;
  c->completed = p->ended[UVS__COMPLETED];
  c->failed = p->ended[UVS__FAILED];
  c->cancelled = p->ended[UVS__CANCELED] + cancelled;
  c->timed_out = p->ended[UVS__TIMED_OUT];
  c->dropped = p->ended[UVS__DROPPED];
  c->ready = p->ready_count[0] + p->ready_count[1];
  c->running = p->running_count;
  c->rejected = p->rejected;
  c->runs = p->runs;
  c->failed_runs = p->failed_runs;
  c->missed = p->missed;
  c->runners = p->active;
  c->peak_runners = p->peak;
  uv_mutex_unlock(&p->lock);
  c->waiting = live - c->ready - c->running;
  c->submitted = live + c->completed + c->failed + c->cancelled + c->timed_out + c->dropped;
  c->slots = uvs__slab_made(&s->agenda.slots);
  c->heap_ops = uvs__agenda_ops(&s->agenda);
  c->wakeups = uvs__load(&s->wakeups, relaxed); /* a count */
}

int uvs_counts(uvs_t *s, uvs_counts_t *ret) {
  uvs_counts_t c;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof c, offsetof(uvs_counts_t, rejected)) < 0)
    return UV_EINVAL;
  snapshot(s, &c);
  give(ret, ret->size, &c, sizeof c);
  return 0;
}

/* ---- text ---- */

const char *uvs_state_name(int state) {
  static const char *const names[] = {"?", "waiting", "ready", "running", "ended"};

  return state >= UVS_WAITING && state <= UVS_ENDED ? names[state] : names[0];
}

const char *uvs_outcome_name(int status) {
  if (status >= 0)
    return "completed";
  return status == UV_ECANCELED ? "cancelled" : status == UV_ETIMEDOUT ? "timed out" : "failed";
}

const char *uvs_strerror(int code) {
  if (code == 0)
    return "success";
  return code == UVS_EDEADLK ? "resource deadlock would occur" : uv_strerror(code);
}

static const char *kind_name(int kind) {
  return kind == UVS_RATE ? "rate" : kind == UVS_DELAY ? "delay" : "once";
}

static int dump_one(uvs_t *s, const uvs_info_t *i, void *arg) {
  FILE *out = arg;

  (void)s;
  fprintf(out, "  %16" PRIu64 "  %-7s  %-5s  ", i->id, uvs_state_name(i->state),
          kind_name(i->kind));
  if (i->remaining_ns == UVS_NEVER)
    fprintf(out, "%12s", "never");
  else
    fprintf(out, "%+10.3f s", (double)i->remaining_ns / 1e9);
  fprintf(out, "  runs %" PRIu64 "  missed %" PRIu64 "%s%s%s\n", i->runs, i->missed,
          i->cancelled   ? "  cancelled"
          : i->timed_out ? "  timed out"
                         : "",
          i->name[0] != 0 ? "  " : "", i->name);
  return 0;
}

struct sorted {
  uvs_info_t *infos;
  size_t count, room;
};

static int collect(uvs_t *s, const uvs_info_t *i, void *arg) {
  struct sorted *v = arg;

  (void)s;
  if (v->count < v->room)
    v->infos[v->count++] = *i;
  return 0;
}

static int by_remaining(const void *x, const void *y) {
  const uvs_info_t *a = x;
  const uvs_info_t *b = y;

  if (a->remaining_ns != b->remaining_ns)
    return a->remaining_ns < b->remaining_ns ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

int uvs_dump(uvs_t *s, FILE *out) {
  struct sorted v = {NULL, 0, 0};
  uvs_counts_t c;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (out == NULL)
    return UV_EINVAL;
  uvs__take_in(s);
  v.room = (size_t)s->taken;
  v.infos = uvs__mem_alloc(&s->mem, v.room + 1, sizeof *v.infos, 0);
  if (v.infos == NULL)
    return UV_ENOMEM;
  rc = uvs_each(s, collect, &v);
  if (rc == 0) {
    snapshot(s, &c);
    qsort(v.infos, v.count, sizeof *v.infos, by_remaining);
    fprintf(out, "uvsched %p: %s, concurrency %d\n", (void *)s,
            uvs_is_terminated(s)    ? "terminated"
            : uvs_is_terminating(s) ? "terminating"
                                    : "open",
            uvs_concurrency(s));
    fprintf(out,
            "  submitted %" PRIu64 " = completed %" PRIu64 " + failed %" PRIu64
            " + cancelled %" PRIu64 " + timed out %" PRIu64 " + dropped %" PRIu64
            " + waiting %" PRIu64 " + ready %" PRIu64 " + running %" PRIu64 "\n",
            c.submitted, c.completed, c.failed, c.cancelled, c.timed_out, c.dropped, c.waiting,
            c.ready, c.running);
    fprintf(out,
            "  runs %" PRIu64 ", missed %" PRIu64 ", rejected %" PRIu64 ", runners %" PRIu64
            " (peak %" PRIu64 ")\n",
            c.runs, c.missed, c.rejected, c.runners, c.peak_runners);
    for (size_t i = 0; i < v.count; i++)
      dump_one(s, &v.infos[i], out);
  }
  uvs__mem_free(&s->mem, v.infos);
  return rc;
}

/* ---- the rest ---- */

uv_loop_t *uvs_loop(const uvs_t *s) {
  return s == NULL ? NULL : s->loop;
}

void *uvs_data(const uvs_t *s) {
  return s == NULL ? NULL : s->data;
}

int64_t uvs_now(const uvs_t *s) {
  return s == NULL ? 0 : (int64_t)uvs__now(s);
}

int uvs_owns_handle(const uvs_t *s, const uv_handle_t *h) {
  if (s == NULL || h == NULL)
    return 0;
  return uvs__ticker_owns(&s->ticker, h) || h == (const uv_handle_t *)&s->watch.poll;
}

unsigned uvs_version(void) {
  return UVS_VERSION_HEX;
}

const char *uvs_version_string(void) {
  return UVS_VERSION_STRING;
}

int uvs_concurrency(uvs_t *s) {
  int rc = uvs__enter(s);

  return rc < 0 ? rc : uvs__load(&s->pool.home.concurrency, relaxed); /* a setting */
}

static void call_the_loop(uvs_t *s) {
  if (uvs__on_loop(s))
    uvs__notice_loss(s); /* somebody may have closed our handles, and even the loop */
  uvs__ticker_wake(&s->ticker);
}

int uvs_set_concurrency(uvs_t *s, int concurrency) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (concurrency < 0 || concurrency > UVS__CONCURRENCY_MAX)
    return UV_EINVAL;
  rc = uvs__crew_set_concurrency(&s->pool, &s->pool.home, concurrency);
  if (rc == 0)
    call_the_loop(s);
  return rc;
}

int uvs_next_due(uvs_t *s, int64_t *ret_ns) {
  uint64_t now_ns;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (ret_ns == NULL)
    return UV_EINVAL;
  uvs__take_in(s);
  now_ns = uvs__now(s);
  *ret_ns = (int64_t)uvs__next_due(s, now_ns, true);
  if (s->owed || s->todo.head != UVS__NONE || s->lanes.ending != NULL ||
      uvs__pool_is_due(&s->pool) || uvs__cleanup_any(s) ||
      uvs__load(&s->lanes.look, relaxed) != NULL ||     /* a look, and the turn takes it */
      uvs__load(&s->policy, acquire) != s->policy_seen) /* pairs with the release of a change */
    *ret_ns = (int64_t)now_ns;                          /* the loop need only turn */
  uvs__relax(s);
  return 0;
}

int uvs_clock_changed(uvs_t *s) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  call_the_loop(s);
  return 0;
}
