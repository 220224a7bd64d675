/* SPDX-License-Identifier: MIT
 *
 * info: what can be asked of a scheduler and its tasks.
 *
 * Every answer is a copy that is made under the lock. Clocks and callbacks are user code, so they
 * are called after unlocking. A task that is over (FREE, or TOLD with only its outcome left) is
 * not shown.
 */
#include "api/api.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>

/* Copies as much of our struct as the caller's has room for. */
static void copy_out(void *ret, size_t size, const void *ours, size_t our_size) {
  memset(ret, 0, size);
  memcpy(ret, ours, size < our_size ? size : our_size);
  memcpy(ret, &size, sizeof size);
}

/* ---- a task ---- */

_Static_assert((int)UVS__WAITING == UVS_WAITING && (int)UVS__READY == UVS_READY &&
                   (int)UVS__RUNNING == UVS_RUNNING && (int)UVS__ENDED == UVS_ENDED,
               "states are shown as they are");

static bool is_over(const struct uvs__task *t) {
  return t->state == UVS__FREE || uvs__has(t, UVS__TOLD);
}

/* Lock held: what only the extra record knows. */
static void copy_extra(const struct uvs__extra *x, uvs_info_t *ret) {
  ret->period_ns = ret->kind == UVS_CALENDAR ? 0 : (int64_t)x->period_ns;
  ret->runs = x->runs;
  ret->missed = x->missed_total;
  ret->failures = x->failures;
  memcpy(ret->name, x->name, sizeof ret->name);
  ret->lane = x->gate == NULL ? 0 : x->gate->number;
  ret->paused = x->paused;
  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    ret->late_by_ns[i] = x->late_by_ns[i];
    ret->late_ns += x->late_by_ns[i];
  }
}

/* Lock held: everything but `remaining_ns`. */
static void copy_task(const uvs_t *s, uint32_t slot, uvs_info_t *ret) {
  const struct uvs__task *t = uvs__task(s, slot);
  const struct uvs__extra *x = uvs__extra(s, t);

  uvs_info_init(ret);
  ret->id = uvs__id_of(s, t, slot);
  ret->state = (int)t->state;
  ret->kind = (int)t->kind;
  ret->from = uvs__has(t, UVS__WALL) ? UVS_FROM_WALL : UVS_FROM_MONOTONIC;
  ret->cancelled = uvs__has(t, UVS__CANCELLED);
  ret->timed_out = uvs__has(t, UVS__TIMED_OUT);
  ret->due_ns = (int64_t)t->due_ns;
  ret->work = t->fn;
  ret->arg = t->arg;
  ret->priority = UVS__NORMAL - (int)uvs__class_of(t);
  if (x != NULL) {
    copy_extra(x, ret);
  } else { /* a plain task has one run; if it was cancelled, how its run ended does not count */
    ret->runs = uvs__has(t, UVS__RAN);
    ret->failures = t->state == UVS__ENDED && !ret->cancelled && t->status < 0;
  }
  ret->culprit = uvs__culprit(ret->late_by_ns);
}

/* Without the lock: reads the clock that due_ns belongs to, which the copy names. */
static void add_remaining(const uvs_t *s, uvs_info_t *info) {
  uint64_t now_ns = info->from == UVS_FROM_WALL ? uvs__clock_wall(&s->clock) : uvs__now(s);

  info->remaining_ns = info->due_ns == UVS_NEVER ? UVS_NEVER : info->due_ns - (int64_t)now_ns;
}

int uvs_info(uvs_t *s, uvs_id_t id, uvs_info_t *ret) {
  const struct uvs__task *t;
  uvs_info_t info;
  uint32_t slot;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof info, offsetof(uvs_info_t, period_ns)) < 0)
    return UV_EINVAL;
  uvs__lock(s);
  t = uvs__table_find(&s->table, id, &slot);
  if (t == NULL || is_over(t))
    rc = UV_ENOENT;
  else
    copy_task(s, slot, &info);
  uvs__unlock(s);
  if (rc < 0)
    return rc;
  add_remaining(s, &info);
  copy_out(ret, ret->size, &info, sizeof info);
  return 0;
}

static uint32_t slots_made(uvs_t *s) {
  uint32_t made;

  uvs__lock(s);
  made = s->table.tasks.made;
  uvs__unlock(s);
  return made;
}

/* False: no task is there. */
static bool look_at_slot(uvs_t *s, uint32_t slot, uvs_info_t *ret) {
  bool found;

  uvs__lock(s);
  found = !is_over(uvs__task(s, slot));
  if (found)
    copy_task(s, slot, ret);
  uvs__unlock(s);
  if (found)
    add_remaining(s, ret);
  return found;
}

/* Visits the slots from *slot to `end`. *slot is past the last one that was visited. */
static int visit_tasks(uvs_t *s, uint32_t *slot, uint32_t end, uvs_each_cb each, void *arg) {
  int rc = 0;

  s->in_each = true;
  while (*slot < end && rc == 0) {
    uvs_info_t info;

    if (look_at_slot(s, (*slot)++, &info))
      rc = each(s, &info, arg);
    if (rc == 0)
      rc = uvs__enter(s); /* `each` may have forked: a child never locks */
  }
  s->in_each = false;
  return rc;
}

int uvs_each(uvs_t *s, uvs_each_cb each, void *arg) {
  uint32_t slot = 0;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (each == NULL)
    return UV_EINVAL;
  if (s->in_each)
    return UV_EBUSY;
  return visit_tasks(s, &slot, slots_made(s), each, arg); /* it ends, whatever `each` submits */
}

int uvs_each_step(uvs_t *s, uint64_t *cursor, uint32_t places, uvs_each_cb each, void *arg) {
  uint32_t slot, end, made;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (each == NULL || cursor == NULL || places == 0)
    return UV_EINVAL;
  if (s->in_each)
    return UV_EBUSY;
  made = slots_made(s);
  slot = *cursor < made ? (uint32_t)*cursor : made;
  end = places < made - slot ? slot + places : made;
  rc = visit_tasks(s, &slot, end, each, arg);
  *cursor = rc == 0 && slot == made ? 0 : slot;
  return rc;
}

/* ---- counts ---- */

/* Lock held. */
static void copy_counts(const uvs_t *s, uvs_counts_t *ret) {
  const struct uvs__counts *c = &s->counts;

  uvs_counts_init(ret);
  ret->submitted = c->submitted;
  ret->completed = c->ended[UVS__COMPLETED];
  ret->failed = c->ended[UVS__FAILED];
  ret->cancelled = c->ended[UVS__WAS_CANCELLED];
  ret->timed_out = c->ended[UVS__PASSED_LIMIT];
  ret->dropped = c->ended[UVS__DROPPED];
  ret->waiting = c->waiting;
  ret->ready = c->ready;
  ret->running = c->running;
  ret->rejected = c->rejected;
  ret->runs = c->runs;
  ret->failed_runs = c->failed_runs;
  ret->missed = c->missed;
  ret->runners = c->runners;
  ret->peak_runners = c->peak_runners;
  ret->slots = (s->table.tasks.made + UINT64_C(63)) / 64 * 64; /* slots come in words of 64 */
  ret->heap_ops = s->delay.ops + s->table.wall.ops + s->table.limits.ops;
  ret->wakeups = c->wakeups;
  ret->concurrency = (uint64_t)s->home.concurrency;
  ret->loop_held_ns = c->held_ns;
  ret->loop_held_max_ns = c->held_max_ns;
}

/* Lock held: the time at which the oldest task in *r that may start next became ready; until_ns if
 * there is none, or if that is earlier. */
static uint64_t oldest_of(const uvs_t *s, const struct uvs__ready *r, uint64_t until_ns) {
  for (int i = 0; i < UVS__CLASSES; i++) {
    uint32_t next[] = {r->of[i].first, r->of[i].root};

    for (int k = 0; k < 2; k++) {
      if (next[k] != UVS__NONE && uvs__task(s, next[k])->ready_ns < until_ns)
        until_ns = uvs__task(s, next[k])->ready_ns;
    }
  }
  return until_ns;
}

/* Lock held: the time at which the oldest ready task became ready; UVS__NEVER: no task is ready. */
static uint64_t oldest_ready(const uvs_t *s) {
  uint64_t ready_ns = oldest_of(s, &s->loop_ready, UVS__NEVER);

  ready_ns = oldest_of(s, &s->home.ready, ready_ns);
  for (const struct uvs__crew *c = s->wanting; c != NULL; c = c->next)
    ready_ns = oldest_of(s, &c->ready, ready_ns); /* lanes with an executor of their own: few */
  return ready_ns;
}

/* Not uvs__enter: the final numbers can be read after close, by a thread that holds a reference. */
int uvs_counts(uvs_t *s, uvs_counts_t *ret) {
  uint64_t ready_ns, now_ns;
  uvs_counts_t c;

  if (s == NULL)
    return UV_EINVAL;
  if (uvs__forked(&s->fork))
    return UV_ENOTSUP;
  if (ret == NULL ||
      uvs__check_size(ret, ret->size, sizeof c, offsetof(uvs_counts_t, rejected)) < 0)
    return UV_EINVAL;
  uvs__lock(s);
  copy_counts(s, &c);
  ready_ns = oldest_ready(s);
  uvs__unlock(s);
  if (ready_ns != UVS__NEVER) {
    now_ns = uvs__now(s);
    c.oldest_ready_ns = now_ns > ready_ns ? now_ns - ready_ns : 0;
  }
  copy_out(ret, ret->size, &c, sizeof c);
  return 0;
}

/* ---- names ---- */

const char *uvs_state_name(int state) {
  static const char *const names[] = {"?", "waiting", "ready", "running", "ended"};

  return state >= UVS_WAITING && state <= UVS_ENDED ? names[state] : names[0];
}

const char *uvs_outcome_name(int status) {
  if (status >= 0)
    return "completed";
  return status == UV_ECANCELED ? "cancelled" : status == UV_ETIMEDOUT ? "timed out" : "failed";
}

/* uv_strerror has texts about files and sockets. These are about tasks. */
const char *uvs_strerror(int code) {
  switch (code) {
  case 0:
    return "success";
  case UVS_EDEADLK:
    return "this wait would never end: it was called on the loop thread, or inside a body";
  case UV_EAGAIN:
    return "no room: max_pending tasks are pending, or nothing is due";
  case UV_EALREADY:
    return "the call was already made";
  case UV_EBUSY:
    return "busy: the task is ready or running, or the object is in use";
  case UV_ECANCELED:
    return "cancelled";
  case UV_EINTR:
    return "the wait was abandoned";
  case UV_EINVAL:
    return "invalid argument (uvs_check explains a refused spec)";
  case UV_ENOMEM:
    return "out of memory";
  case UV_ENOENT:
    return "no such task, lane or value: it has ended, or never existed";
  case UV_ENOTSUP:
    return "not supported here: on this platform, or in a forked child";
  case UV_EPERM:
    return "only the loop thread may make this call";
  case UV_ESHUTDOWN:
    return "the scheduler is shut down or closed";
  case UV_ETIMEDOUT:
    return "timed out";
  case UV_E2BIG:
    return "the queue is full";
  default:
    return uv_strerror(code);
  }
}

const char *uvs_name(const uvs_t *s) {
  return s == NULL ? "" : s->name;
}

/* ---- dump ---- */

/* Copies of tasks, which are sorted before they are printed. */
struct pile {
  uvs_info_t *infos;
  size_t count, room;
};

/* The number of tasks is not known in advance: other threads submit meanwhile. */
static int enlarge(uvs_t *s, struct pile *p) {
  size_t room = p->room == 0 ? 64 : p->room * 2;
  uvs_info_t *infos = uvs__mem_alloc(&s->mem, room, sizeof *infos, 0);

  if (infos == NULL)
    return UV_ENOMEM;
  if (p->count > 0)
    memcpy(infos, p->infos, p->count * sizeof *infos);
  uvs__mem_free(&s->mem, p->infos);
  p->infos = infos;
  p->room = room;
  return 0;
}

static int collect(uvs_t *s, const uvs_info_t *i, void *arg) {
  struct pile *p = arg;
  int rc = p->count < p->room ? 0 : enlarge(s, p);

  if (rc == 0)
    p->infos[p->count++] = *i;
  return rc;
}

static int by_remaining(const void *x, const void *y) {
  const uvs_info_t *a = x;
  const uvs_info_t *b = y;

  if (a->remaining_ns != b->remaining_ns)
    return a->remaining_ns < b->remaining_ns ? -1 : 1;
  return a->id < b->id ? -1 : a->id > b->id;
}

static void dump_scheduler(uvs_t *s, const uvs_counts_t *c, FILE *out) {
  fprintf(out, "uvsched %p: %s, concurrency %d\n", (void *)s,
          uvs_is_terminated(s)    ? "terminated"
          : uvs_is_terminating(s) ? "terminating"
                                  : "open",
          uvs_concurrency(s));
  fprintf(out,
          "  submitted %" PRIu64 " = completed %" PRIu64 " + failed %" PRIu64
          " + cancelled %" PRIu64 " + timed out %" PRIu64 " + dropped %" PRIu64
          " + waiting %" PRIu64 " + ready %" PRIu64 " + running %" PRIu64 "\n",
          c->submitted, c->completed, c->failed, c->cancelled, c->timed_out, c->dropped, c->waiting,
          c->ready, c->running);
  fprintf(out,
          "  runs %" PRIu64 ", missed %" PRIu64 ", rejected %" PRIu64 ", runners %" PRIu64
          " (peak %" PRIu64 ")\n",
          c->runs, c->missed, c->rejected, c->runners, c->peak_runners);
}

static void dump_task(const uvs_info_t *i, FILE *out) {
  static const char *const kinds[] = {[UVS_ONE_SHOT] = "once",
                                      [UVS_FIXED_RATE] = "rate",
                                      [UVS_FIXED_DELAY] = "delay",
                                      [UVS_CALENDAR] = "cron"};

  fprintf(out, "  %16" PRIu64 "  %-7s  %-5s  ", i->id, uvs_state_name(i->state), kinds[i->kind]);
  if (i->remaining_ns == UVS_NEVER)
    fprintf(out, "%12s", "never");
  else
    fprintf(out, "%+10.3f s", (double)i->remaining_ns / 1e9);
  fprintf(out, "  runs %" PRIu64 "  missed %" PRIu64 "%s%s%s\n", i->runs, i->missed,
          i->cancelled   ? "  cancelled"
          : i->timed_out ? "  timed out"
                         : "",
          i->name[0] != 0 ? "  " : "", i->name);
}

int uvs_dump(uvs_t *s, FILE *out) {
  struct pile p = {NULL, 0, 0};
  uvs_counts_t c;
  int rc = uvs__enter_loop(s);

  if (rc < 0)
    return rc;
  if (out == NULL)
    return UV_EINVAL;
  uvs_counts_init(&c);
  rc = uvs_each(s, collect, &p);
  if (rc == 0)
    rc = uvs_counts(s, &c);
  if (rc == 0) {
    dump_scheduler(s, &c, out);
    if (p.count > 0)
      qsort(p.infos, p.count, sizeof *p.infos, by_remaining);
    for (size_t i = 0; i < p.count; i++)
      dump_task(&p.infos[i], out);
  }
  uvs__mem_free(&s->mem, p.infos);
  return rc;
}

/* ---- what never changes, and the clock ---- */

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
  return uvs__ticker_owns(&s->ticker, h);
}

unsigned uvs_version(void) {
  return UVS_VERSION_HEX;
}

const char *uvs_version_string(void) {
  return UVS_VERSION_STRING;
}
