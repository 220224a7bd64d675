/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>

/* One more state than in the header: ended, but the outcome is kept. */
enum { FREE = 0, OVER = UVS_ENDED + 1 };

struct cleanup {
  uvs_cleanup_cb cb; /* NULL: called already */
  void *arg;
  bool when_settled;
  int lists; /* 0: this entry is free */
};

/* First in, first out. */
struct list {
  int of[MODEL_CLEANUPS];
  int count;
};

struct cleanups {
  int of[16];
  int count;
};

struct lane {
  uvs_lane_t number;
  uint32_t width; /* UINT32_MAX: no bound */
  uint32_t running;
  int next;  /* its task among all ready tasks, or -1 */
  int tasks; /* not ended */
  bool disposed, token, ending, gone, called;
  uvs_quiet_cb quiet;
  void *arg;
  struct cleanups cleanups;
};

struct task {
  int state;
  uvs_id_t id;
  uint64_t seq;
  uvs_task_t t; /* as submitted */
  char name[UVS_NAME_MAX + 1];
  uvs_decoration_t decoration;
  struct lane *lane;
  bool in_lane; /* dispose has not reached it yet */
  bool narrow;
  bool plain;     /* a kind that does not record its lateness, */
  bool remembers; /* but it was another kind when its last run began */

  int64_t due, since, until;
  bool resumed;       /* `since` is when uvs_resume was called */
  bool queued;        /* it is in the delay queue */
  bool calendar_held; /* the loop has to give the calendar back */
  bool owed;          /* a calendar's next occurrence is to be worked out ... */
  bool passed;        /* ... because others have passed since the one that is due */
  int owed_reason;
  int64_t last;  /* the last occurrence that the next run stands for */
  bool moved;    /* by uvs_reschedule: its next run is not on the calendar */
  bool in_todo;  /* the loop has to call one of its callbacks */
  bool decorate; /* the decorate hook is still to be called */
  bool here;     /* its submitter will run it (CALLER_RUNS) */
  bool paused;
  bool extra;    /* its next run is an extra run, or the retry of one; the run after it: */
  int64_t saved; /* is due then */
  bool at_once;  /* its next run starts even if it is paused */
  bool named;    /* submitted with UVS_REPLACE, and not replaced */
  bool held;     /* it waits for the run of the task that it has replaced: */
  uvs_id_t held_by;
  bool replaced; /* a run is in progress, and another task has the name */
  bool ref, cancelled, timed_out, token, spared, never_ran, forgotten;
  int status;

  /* ready */
  bool listed; /* it is among all ready tasks, ordered by this key: */
  int64_t key_ns;
  uint64_t key_seq;
  uint64_t rank; /* otherwise: its position in its lane */
  int64_t ready, turn, wall_late, step;
  int64_t limit_due;
  bool limited, limit_final;

  /* running */
  bool pending, finished, to_after;
  bool inside;       /* its body or its `after` is being called */
  bool interrupted;  /* `interrupt` was called for this run, or is owed */
  bool interrupting; /* it is being called: the run ends afterwards, as these say */
  bool end_later;
  int later_status;

  /* its last run */
  int64_t ideal, start, end, after_at;
  uint64_t runs, missed, merged;
  int failure, seen, runner;
  bool run_timed_out;
  int64_t late_by[UVS_LATE_CAUSES];
  void *result, *run_result;
  void *dropped[2]; /* results that the loop is to drop */
  int drops;
  bool taken; /* a wait received the result */

  /* Over its whole life. */
  uint64_t missed_total, missed_next, failures;
  int64_t grid;

  /* What the hooks still have to be told. */
  int failed_news;
  uint64_t missed_news;
  int missed_reason;

  struct cleanups cleanups;
};

struct value {
  uvs_entry_t e;
  uint64_t seq;
};

struct model_queue {
  struct model *m;
  bool closed, seen_closed, opener_gone, ref;
  struct value v[MODEL_VALUES]; /* sorted */
  int count;
  uint64_t last_seq;
  uvs_value_cb left, consume;
  void *left_arg, *consume_arg;
};

struct model {
  uvs_options_t o;
  uvs_hooks_t hooks;
  struct task task[MODEL_TASKS];
  int top; /* number of entries ever used */
  struct lane lane[MODEL_LANES];
  int lanes;
  struct model_queue *queue[MODEL_QUEUES];
  int queues;
  struct cleanup cleanup[MODEL_CLEANUPS];

  uint64_t last_seq, last_serial, last_rank, last_item;
  unsigned wheel; /* the position in the cycle of priorities */
  struct list todo, now, ending;

  bool far; /* the caller is another thread */
  bool had_turn, shut, stop, terminated, closing;
  bool paused;                /* uvs_pause_all */
  int64_t resumed_ns;         /* and uvs_resume_all */
  bool policy_changed;        /* the next pass looks at all tasks */
  bool any_interrupts;        /* a task with `interrupt` was accepted */
  bool wall_wanted, wall_was; /* the first wall-clock task has come: the next pass looks */
  int64_t recent;             /* when a task last became ready or a run last ended */
  int survive[2], rejection;
  int64_t turn_ns, shutdown_ns, shutdown_wall, kill_ns;
  bool wall_known;
  int64_t wall_offset;
  uvs_never_ran_cb never_ran;
  void *never_ran_arg;

  uvs_counts_t counts; /* past events; current states are counted on request */
  uint64_t live;       /* waiting, ready or running */
};

/* ---- helpers ---- */

static uvs_t *seen_as(struct model *m) {
  return (uvs_t *)(void *)m;
}

static int64_t now_of(const struct model *m) {
  return m->o.clock.monotonic_ns(m->o.clock.arg);
}

static int64_t wall_of(const struct model *m) {
  return m->o.clock.wall_ns(m->o.clock.arg);
}

static int64_t later(int64_t from, int64_t by) {
  if (by <= 0)
    return from;
  return by >= UVS_NEVER - from ? UVS_NEVER : from + by;
}

static int64_t times_later(int64_t from, uint64_t n, int64_t step) {
  int64_t most = n == 0 ? UVS_NEVER : (int64_t)((uint64_t)(UVS_NEVER - from) / n);

  return step > most ? UVS_NEVER : from + (int64_t)n * step;
}

static int64_t min64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static void push(struct list *l, int x) {
  if (l->count == MODEL_CLEANUPS)
    abort();
  l->of[l->count++] = x;
}

static int pop(struct list *l) {
  int first = l->of[0];

  l->count--;
  memmove(l->of, l->of + 1, (size_t)l->count * sizeof l->of[0]);
  return first;
}

static int index_of(const struct model *m, const struct task *k) {
  return (int)(k - m->task);
}

static struct task *find(struct model *m, uvs_id_t id) {
  struct task *k = &m->task[id % MODEL_TASKS];

  return id != 0 && k->state != FREE && k->id == id ? k : NULL;
}

static bool is_wall(const struct task *k) {
  return k->t.from == UVS_FROM_WALL || k->t.kind == UVS_CALENDAR;
}

static bool retrying(const struct task *k) {
  return k->t.failure_policy == UVS_FAIL_RETRY && k->failures > 0;
}

/* Does the next run not stand for a point of the grid? */
static bool off_grid(const struct task *k) {
  return k->extra || retrying(k);
}

/* Was the next run asked for by run now? Then it is due however the wall clock is set. */
static bool asked_for(const struct task *k) {
  return k->at_once || (k->extra && !retrying(k));
}

static bool settled(const struct task *k) {
  return k->state >= UVS_ENDED || k->cancelled || k->timed_out;
}

static int outcome_of(const struct task *k) {
  return k->cancelled ? UV_ECANCELED : k->status == UVS_STOP ? 0 : k->status;
}

/* The status that a body's answer means. */
static int status_of(int returned) {
  if (returned == 0 || returned == UVS_STOP)
    return returned;
  return returned > 0 ? UV_EINVAL : returned < -4095 ? UV_UNKNOWN : returned;
}

static void settle(struct model *m, uint64_t *outcome) {
  ++*outcome;
  m->live--;
}

static bool has_limit(const uvs_task_t *t) {
  return t->limit.run_ns != 0 || t->limit.total_ns != 0;
}

static int limit_status(const struct task *k) {
  return k->t.limit.substitute ? k->t.limit.status : UV_ETIMEDOUT;
}

/* ---- causes of lateness ---- */

struct blame {
  int cause;
  int64_t until;
};

static int split(int64_t due, int64_t start, const struct blame *b, int n,
                 int64_t by[UVS_LATE_CAUSES]) {
  int64_t at = due;
  int culprit = -1;

  memset(by, 0, UVS_LATE_CAUSES * sizeof by[0]);
  for (int i = 0; i < n; i++) {
    int64_t until = min64(b[i].until, start);

    if (until > at) {
      by[b[i].cause] += until - at;
      at = until;
    }
  }
  for (int i = 0; i < UVS_LATE_CAUSES; i++)
    if (by[i] > 0 && (culprit < 0 || by[i] > by[culprit]))
      culprit = i;
  return culprit;
}

/* A run that could start at `start` was due at `due`. With `started`, on the loop, in this pass. */
static int why_late(const struct model *m, const struct task *k, int64_t due, int64_t start,
                    bool started, int64_t by[UVS_LATE_CAUSES]) {
  int64_t turn = started ? k->turn : m->turn_ns;
  int64_t ready = started ? k->ready : m->turn_ns;
  struct blame b[] = {
      {UVS_LATE_CLOCK, started && is_wall(k) ? due + k->step : due},
      {UVS_LATE_OVERLAP, k->after_at != 0 ? k->end : due},
      {UVS_LATE_LOOP, k->after_at != 0 ? k->after_at : due},
      {k->resumed     ? UVS_LATE_PAUSED
       : k->runs == 0 ? UVS_LATE_SUBMIT
                      : UVS_LATE_OVERLAP,
       k->since},
      {UVS_LATE_PAUSED, m->resumed_ns},
      {UVS_LATE_LOOP, turn},
      {UVS_LATE_BUDGET, ready},
      {UVS_LATE_BUDGET,
       started && k->runner != UVS_ON_CALLER && m->turn_ns > ready ? m->turn_ns : due},
      {UVS_LATE_RUNNERS, start},
  };

  return split(due, start, b, (int)(sizeof b / sizeof b[0]), by);
}

static void miss(struct model *m, struct task *k, uint64_t n, int reason) {
  if (n == 0)
    return;
  k->missed_total += n;
  m->counts.missed += n;
  if (m->hooks.on_missed != NULL) {
    k->missed_news += n;
    k->missed_reason = reason;
  }
}

static bool owes_hook(const struct task *k) {
  return k->owed || k->decorate || k->failed_news != 0 || k->missed_news != 0 || k->drops > 0;
}

static void decorate(struct model *m, struct task *k) {
  if (!k->decorate)
    return;
  k->decorate = false;
  m->hooks.decorate(seen_as(m), k->id, &k->decoration);
  if (k->decoration.work == NULL) /* no body: the decoration is ignored */
    k->decoration.work = k->t.work != NULL ? k->t.work : k->t.after;
}

/* Was this result set by a run? NULL and results preset in the spec are never dropped. */
static bool is_droppable(const struct task *k, const void *result) {
  return k->t.drop_result != NULL && result != NULL && result != k->t.result &&
         result != k->t.limit.result;
}

/* Drops the result in the next pass, if the task no longer has it. */
static void discard(struct task *k, void *result) {
  if (is_droppable(k, result) && result != k->result && (k->drops == 0 || k->dropped[0] != result))
    k->dropped[k->drops++] = result;
}

/* The outcome is forgotten, and the task has ended. */
static void drop_unclaimed(struct task *k) {
  void *result = k->result;

  if (k->taken || !is_droppable(k, result))
    return;
  k->result = NULL;
  k->t.drop_result(result);
}

static void tell(struct model *m, struct task *k) {
  void *dropped[2] = {k->dropped[0], k->dropped[1]};
  int status = k->failed_news, drops = k->drops;
  uint64_t n = k->missed_news;

  k->failed_news = 0;
  k->missed_news = 0;
  k->drops = 0;
  if (status != 0) {
    k->seen = status;
    m->o.on_error(seen_as(m), k->id, status, k->t.arg);
  }
  if (n != 0)
    m->hooks.on_missed(seen_as(m), k->id, n, k->missed_reason, k->t.arg);
  for (int i = 0; i < drops; i++)
    k->t.drop_result(dropped[i]);
}

/* ---- clean-ups ---- */

static int make_cleanup(struct model *m, uvs_cleanup_cb cb, void *arg, unsigned flags) {
  for (int i = 0; i < MODEL_CLEANUPS; i++) {
    if (m->cleanup[i].lists == 0) {
      m->cleanup[i] = (struct cleanup){cb, arg, (flags & UVS_CLEANUP_WHEN_SETTLED) != 0, 0};
      return i;
    }
  }
  abort();
}

static void own_cleanup(struct model *m, struct cleanups *l, int c) {
  if (l->count == (int)(sizeof l->of / sizeof l->of[0]))
    abort();
  l->of[l->count++] = c;
  m->cleanup[c].lists++;
}

static void cleanup_now(struct model *m, int c) {
  m->cleanup[c].lists++;
  push(&m->now, c);
}

static void call_cleanup(struct model *m, int c) {
  struct cleanup *k = &m->cleanup[c];
  uvs_cleanup_cb cb = k->cb;
  void *arg = k->arg;

  k->cb = NULL;
  k->lists--;
  if (cb != NULL)
    cb(seen_as(m), arg);
}

static void call_cleanups(struct model *m, struct cleanups *l) {
  while (l->count > 0) {
    int c = l->of[0];

    l->count--;
    memmove(l->of, l->of + 1, (size_t)l->count * sizeof l->of[0]);
    call_cleanup(m, c);
  }
}

/* The outcome is decided: actions with WHEN_SETTLED are called in the next pass. */
static void cleanups_settled(struct model *m, const struct cleanups *l) {
  for (int i = 0; i < l->count; i++) {
    struct cleanup *c = &m->cleanup[l->of[i]];

    if (c->when_settled && c->cb != NULL && c->lists == 1)
      cleanup_now(m, l->of[i]);
  }
}

/* ---- lanes and priorities ---- */

static int class_of(const struct task *k) {
  return UVS_PRIORITY_HIGH - k->t.priority;
}

/* 8 : 4 : 1; 0 is high. */
static const int turns[13] = {0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 2};

static bool is_before(const struct task *a, const struct task *b) {
  return a->key_ns != b->key_ns ? a->key_ns < b->key_ns : a->key_seq < b->key_seq;
}

/* The ready task that starts next. */
static struct task *first_ready(struct model *m) {
  struct task *best[3] = {NULL, NULL, NULL};

  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];
    struct task **b = &best[class_of(k)];

    if (k->state == UVS_READY && k->listed && (*b == NULL || is_before(k, *b)))
      *b = k;
  }
  if (best[turns[m->wheel]] != NULL)
    return best[turns[m->wheel]];
  return best[0] != NULL ? best[0] : best[1] != NULL ? best[1] : best[2];
}

/* The first task that waits in a lane. */
static struct task *first_in_lane(struct model *m, const struct lane *l) {
  struct task *first = NULL;

  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];

    if (k->state == UVS_READY && k->lane == l && !k->listed &&
        (first == NULL || k->rank < first->rank))
      first = k;
  }
  return first;
}

static bool has_room(const struct lane *l) {
  return l->next < 0 && !l->disposed && l->running < l->width;
}

/* If the lane may start another task, its first waiting task becomes one of the ready tasks: after
 * those that are ready already, so that lanes alternate. */
static void admit(struct model *m, struct lane *l) {
  struct task *first = has_room(l) ? first_in_lane(m, l) : NULL;

  if (first == NULL)
    return;
  l->next = index_of(m, first);
  first->listed = true;
  if (first->key_ns < m->recent)
    first->key_ns = m->recent;
  first->key_seq = ++m->last_seq;
}

/* The task has become ready. */
static void list_ready(struct model *m, struct task *k) {
  struct lane *l = k->lane;

  k->rank = ++m->last_rank;
  k->listed = l == NULL || (has_room(l) && first_in_lane(m, l) == k);
  if (l != NULL && k->listed)
    l->next = index_of(m, k);
}

/* The task is no longer ready. */
static void unlist(struct model *m, struct task *k) {
  k->listed = false;
  if (k->lane == NULL)
    return;
  if (k->lane->next == index_of(m, k))
    k->lane->next = -1;
  admit(m, k->lane);
}

static void start(struct model *m, struct task *k) {
  k->state = UVS_RUNNING;
  if (k->lane != NULL)
    k->lane->running++;
  unlist(m, k);
}

static void maybe_end_lane(struct model *m, struct lane *l) {
  if (!l->disposed || l->tasks > 0 || l->ending || l->gone)
    return;
  l->ending = true;
  push(&m->ending, (int)(l - m->lane));
}

/* ---- the end of a task ---- */

static void retire(struct model *m, struct task *k) {
  struct lane *l = k->lane;

  k->state = k->t.keep_outcome && !k->forgotten ? OVER : FREE;
  k->lane = NULL;
  if (l != NULL) {
    l->tasks--;
    maybe_end_lane(m, l);
  }
}

static bool unseen_failure(const struct task *k) {
  return !k->cancelled && !k->timed_out && k->t.done == NULL && k->status < 0 && k->seen == 0;
}

static void owe(struct model *m, struct task *k) {
  if (k->in_todo)
    return; /* its `interrupt` is still owed */
  k->in_todo = true;
  push(&m->todo, index_of(m, k));
}

static bool body_is_over(const struct task *k) {
  return k->to_after || (k->pending && k->finished) || k->end_later;
}

/* The body was asked to stop. */
static void owe_interrupt(struct model *m, struct task *k) {
  if (k->t.interrupt == NULL || k->interrupted || body_is_over(k))
    return;
  k->interrupted = true;
  owe(m, k);
}

static bool is_heard(const struct model *m, const struct task *k) {
  return k->t.done != NULL || k->calendar_held || (k->never_ran && m->never_ran != NULL) ||
         k->cleanups.count > 0 || (m->o.on_error != NULL && unseen_failure(k)) ||
         k->failed_news != 0 || k->missed_news != 0 || k->drops > 0 ||
         k->decoration.release != NULL;
}

static struct task *find_named(struct model *m, const char *name) {
  for (int i = 0; i < m->top; i++)
    if (m->task[i].state != FREE && m->task[i].named && strcmp(m->task[i].name, name) == 0)
      return &m->task[i];
  return NULL;
}

static void wait_for_due(struct model *m, struct task *k);

/* The run of a task that was replaced has ended: the task that has the name now may run. */
static void release_successor(struct model *m, const struct task *over) {
  struct task *k = find_named(m, over->name);

  if (k == NULL || !k->held || k->held_by != over->id)
    return;
  k->held = false;
  if (k->state == UVS_WAITING && !k->in_todo)
    wait_for_due(m, k);
}

/* No run is in progress and none will start. Callbacks follow in the next pass. */
static void conclude(struct model *m, struct task *k) {
  k->state = UVS_ENDED;
  k->named = false;
  if (k->replaced)
    release_successor(m, k);
  k->replaced = false;
  k->limited = false;
  k->queued = false;
  k->in_lane = false;
  if (outcome_of(k) != 0 || k->timed_out || (k->forgotten && !k->taken)) {
    void *result = k->result; /* no wait can receive it */

    k->result = NULL;
    discard(k, result);
  }
  if (k->in_todo)
    return; /* the loop frees it later */
  if (is_heard(m, k))
    owe(m, k);
  else
    retire(m, k);
}

static void call_back_end(struct model *m, struct task *k) {
  bool error = m->o.on_error != NULL && unseen_failure(k);

  if (k->never_ran && m->never_ran != NULL)
    m->never_ran(seen_as(m), k->id, k->t.arg, m->never_ran_arg);
  tell(m, k);
  if (error)
    m->o.on_error(seen_as(m), k->id, outcome_of(k), k->t.arg);
  call_cleanups(m, &k->cleanups);
  if (k->t.done != NULL)
    k->t.done(k->narrow ? NULL : seen_as(m), k->id, outcome_of(k), k->t.arg);
  if (k->decoration.release != NULL)
    k->decoration.release(k->decoration.arg);
  call_cleanups(m, &k->cleanups); /* some were added since */
  retire(m, k);
  if (k->forgotten)
    drop_unclaimed(k);
}

/* The task was cancelled or dropped before a run. */
static void end_unstarted(struct model *m, struct task *k, uint64_t *outcome) {
  bool was_ready = k->state == UVS_READY;

  k->state = UVS_ENDED;
  k->cancelled = true;
  if (was_ready)
    unlist(m, k);
  settle(m, outcome);
  conclude(m, k);
}

static void complete_unstarted(struct model *m, struct task *k, int status, void *result) {
  void *before = k->result;
  bool was_ready = k->state == UVS_READY;

  k->here = false;
  k->state = UVS_ENDED;
  if (was_ready)
    unlist(m, k);
  if (result != NULL)
    k->result = result;
  k->status = status;
  k->seen = 0;
  k->failures = status < 0 ? k->failures + 1 : 0;
  settle(m, status < 0 ? &m->counts.failed : &m->counts.completed);
  conclude(m, k);
  if (result != NULL && before != result && is_droppable(k, before))
    k->t.drop_result(before);
}

/* ---- may it run? ---- */

static bool may_run(const struct model *m, const struct task *k) {
  if (k->lane != NULL && k->lane->disposed)
    return false;
  if (!m->shut)
    return true;
  if (m->stop || k->paused)
    return false;
  if (k->t.kind != UVS_ONE_SHOT)
    return m->survive[UVS_PERIODIC_TASKS] != 0;
  if (k->state == UVS_READY || m->survive[UVS_DELAYED_TASKS] != 0)
    return true;
  return k->due <= (is_wall(k) ? m->shutdown_wall : m->shutdown_ns);
}

static void end_refused(struct model *m, struct task *k) {
  k->never_ran = m->stop && k->runs == 0;
  end_unstarted(m, k, &m->counts.cancelled);
}

/* ---- wait for the next run ---- */

static int64_t step_of_wall(struct model *m) {
  int64_t offset = wall_of(m) - now_of(m);
  int64_t step = m->wall_known ? offset - m->wall_offset : 0;

  m->wall_known = true;
  m->wall_offset = offset;
  return step < 0 ? 0 : step;
}

static void wait_for_due(struct model *m, struct task *k) {
  k->limited = false;
  if (!may_run(m, k)) {
    end_refused(m, k);
  } else if (owes_hook(k)) {
    owe(m, k);
  } else if (k->due != UVS_NEVER && !k->held && (!k->paused || k->at_once)) {
    k->queued = true;
    m->wall_wanted |= is_wall(k) && !m->wall_was;
    m->wall_was |= is_wall(k);
  }
}

/* ---- after a run: does another one follow, and when? ---- */

/* Whole periods from a point of the grid to an instant. */
static uint64_t periods_between(const struct task *k, int64_t point, int64_t at) {
  return at <= point ? 0 : (uint64_t)((at - point) / k->t.period_ns);
}

/* The number of grid points from this one on that are before an instant. */
static uint64_t points_before(const struct task *k, int64_t point, int64_t at) {
  uint64_t n = periods_between(k, point, at);

  return at <= point ? 0 : n + ((at - point) % k->t.period_ns != 0);
}

/* ---- calendars ---- */

#define LAST_SECOND INT64_C(9214646399) /* of the year 2261 */

static bool occurs(const struct task *k, int64_t second) {
  for (int i = 0; i < MODEL_CALENDARS; i++) {
    const struct model_calendar *c = &model_calendars[i];
    int in_minute = (int)(second % 60);

    if (c->calendar == k->t.calendar)
      return in_minute >= c->first && in_minute <= c->last && (in_minute - c->first) % c->step == 0;
  }
  abort();
}

static int64_t occurrence_after(const struct task *k, int64_t ns) {
  for (int64_t second = ns / UVS_SEC(1) + 1; second <= LAST_SECOND; second++)
    if (occurs(k, second))
      return UVS_SEC(second);
  return UVS_NEVER;
}

/* From `from`, which is one, to `to`, included. */
static uint64_t occurrences(const struct task *k, int64_t from, int64_t to) {
  uint64_t n = 0;

  for (; from <= to; from = occurrence_after(k, from))
    n++;
  return n;
}

static void owe_point(struct task *k, bool passed, int reason) {
  k->owed = true;
  k->passed = passed;
  k->owed_reason = reason;
}

/* Occurrences until this instant have passed. Those after the end time are not missed, but SKIP
 * leaves the last run out even so. */
static int64_t passed_until(const struct task *k, int64_t wall) {
  return k->t.missed_policy != UVS_MISSED_SKIP && k->until < wall ? k->until : wall;
}

/* The task is due. Have so many occurrences passed since that the policy has to decide? */
static bool has_to_decide(const struct task *k, int64_t wall) {
  int64_t until = passed_until(k, wall);

  if (k->t.kind != UVS_CALENDAR || off_grid(k) || k->moved)
    return false;
  if (k->t.missed_policy == UVS_MISSED_CATCH_UP)
    return k->t.max_burst != 0 && occurrences(k, k->due, until) > k->t.max_burst;
  return occurrence_after(k, k->last) <= until;
}

static void complete_waiting(struct model *m, struct task *k);

/* Leaves out the occurrences from `next` on that are before now. */
static uint64_t skip_occurrences(struct task *k, int64_t *next, int64_t wall) {
  uint64_t missed = *next < wall ? occurrences(k, *next, wall - 1) : 0;

  if (*next < wall)
    *next = occurrence_after(k, wall - 1);
  k->last = *next;
  return missed;
}

static void find_occurrence(struct model *m, struct task *k) {
  int64_t wall = wall_of(m);
  int64_t next = k->passed ? k->due : occurrence_after(k, k->grid);
  bool decides = k->passed && has_to_decide(k, wall);
  uint64_t missed = 0;

  if (!k->passed)
    k->last = next;
  if ((decides && k->t.missed_policy == UVS_MISSED_SKIP) ||
      (!k->passed && (k->t.missed_policy == UVS_MISSED_SKIP || k->owed_reason == UVS_LATE_RETRY))) {
    missed = skip_occurrences(k, &next, wall);
  } else if (decides && k->t.missed_policy == UVS_MISSED_ONCE) {
    missed = occurrences(k, occurrence_after(k, k->last), passed_until(k, wall));
    for (uint64_t i = 0; i < missed; i++)
      k->last = occurrence_after(k, k->last);
  } else if (decides) {
    missed = occurrences(k, next, passed_until(k, wall)) - k->t.max_burst;
    for (uint64_t i = 0; i < missed; i++)
      k->last = next = occurrence_after(k, next);
  }
  k->owed = k->passed = k->moved = false;
  if (next > k->until || next == UVS_NEVER) {
    complete_waiting(m, k);
    return;
  }
  miss(m, k, missed, k->owed_reason);
  k->missed_next += missed;
  k->due = next;
  if (next > wall)
    k->step = 0; /* the run is not late */
}

static bool plan_point(struct model *m, struct task *k, bool retried, int64_t end) {
  uint64_t left_out = 0;
  int64_t next;

  if (k->extra) { /* the run after it comes as if nothing had happened */
    k->extra = false;
    if (k->saved > k->until && k->saved != UVS_NEVER)
      return false;
    k->due = k->saved;
    if (k->t.kind == UVS_CALENDAR && k->due == UVS_NEVER && k->grid != UVS_NEVER)
      owe_point(k, false, UVS_LATE_OVERLAP);
    return true;
  }
  if (k->t.kind == UVS_CALENDAR) {
    owe_point(k, false, retried ? UVS_LATE_RETRY : UVS_LATE_OVERLAP);
    k->due = UVS_NEVER;
    return true;
  }
  if (k->t.kind == UVS_FIXED_DELAY) {
    next = later(end, k->t.period_ns);
  } else if (retried || k->t.missed_policy == UVS_MISSED_SKIP) {
    next = later(retried ? k->grid : k->ideal, k->t.period_ns);
    left_out = points_before(k, next, end);
    next = times_later(next, left_out, k->t.period_ns);
  } else {
    next = times_later(k->ideal, k->merged + 1, k->t.period_ns);
  }
  if (next > k->until)
    return false;
  miss(m, k, left_out, retried ? UVS_LATE_RETRY : UVS_LATE_OVERLAP);
  k->missed_next += left_out;
  k->due = next;
  return true;
}

static bool plan_retry(struct model *m, struct task *k, int64_t end) {
  int64_t most = k->t.retry.max_wait_ns == 0 ? UVS_NEVER : k->t.retry.max_wait_ns;
  int64_t wait = k->t.retry.wait_ns;
  int64_t from = end;
  int64_t again;

  for (uint64_t i = 1; i < k->failures && wait < most; i++)
    wait = wait > most / 2 ? most : wait * 2;
  if (is_wall(k)) {
    /* For a run that did not start: the time of that clock when the task became ready. */
    from =
        k->start == 0 ? k->due + k->wall_late + (end - k->ready) : wall_of(m) - (now_of(m) - end);
    if (from < 0)
      from = 0;
  }
  again = later(from, wait);
  if (again > k->until)
    return false;
  if (k->failures == 1 && k->t.kind == UVS_FIXED_RATE)
    k->grid = times_later(k->ideal, k->merged, k->t.period_ns);
  k->due = again;
  return k->t.kind != UVS_ONE_SHOT || may_run(m, k);
}

static bool plan_next(struct model *m, struct task *k, int status, int64_t end) {
  bool had_failed = k->failures > 0;
  bool goes_on;

  if (status == UVS_STOP)
    return false;
  if (k->t.kind == UVS_CALENDAR && !off_grid(k))
    k->grid = k->last;
  k->since = now_of(m);
  k->resumed = k->at_once = false;
  k->failure = status < 0 ? status : 0;
  k->failures = status < 0 ? k->failures + 1 : 0;
  if (k->t.max_runs != 0 && k->runs >= k->t.max_runs)
    return false;
  if (status >= 0)
    return (k->t.kind != UVS_ONE_SHOT || k->extra) &&
           plan_point(m, k, had_failed && k->t.failure_policy == UVS_FAIL_RETRY, end);
  if (k->t.failure_policy == UVS_FAIL_STOP ||
      (k->t.max_failures != 0 && k->failures >= k->t.max_failures))
    return false;
  goes_on =
      k->t.failure_policy == UVS_FAIL_RETRY ? plan_retry(m, k, end) : plan_point(m, k, false, end);
  if (goes_on && m->o.on_error != NULL && k->seen == 0)
    k->failed_news = status;
  return goes_on;
}

static void settle_running(struct model *m, struct task *k, uint64_t *outcome) {
  settle(m, outcome);
  cleanups_settled(m, &k->cleanups);
}

/* The run has ended. Then the task waits, or has ended. */
static void end_run(struct model *m, struct task *k, int status, int64_t end) {
  void *before = k->result;
  bool goes_on;

  if (k->interrupting) {
    k->end_later = true;
    k->later_status = status;
    return;
  }
  goes_on = !settled(k) && plan_next(m, k, status, end);
  k->step = 0;
  m->recent = now_of(m);
  m->counts.failed_runs +=
      k->timed_out ? k->status < 0 : status < 0 && !(status == UV_ECANCELED && k->cancelled);
  if (!settled(k) && status >= 0) {
    if (!k->run_timed_out)
      k->result = k->run_result;
    else if (!goes_on)
      k->result = k->t.limit.result;
  }
  discard(k, before);
  discard(k, k->run_result);
  k->run_result = k->result;
  k->pending = k->finished = k->to_after = false;
  if (k->lane != NULL) {
    k->lane->running--;
    admit(m, k->lane);
  }
  if (goes_on) {
    k->state = UVS_WAITING;
    if (!k->in_todo) /* else the pass that serves it does so */
      wait_for_due(m, k);
    return;
  }
  if (!settled(k)) {
    k->status = status;
    settle(m, k->run_timed_out ? &m->counts.timed_out
              : status < 0     ? &m->counts.failed
                               : &m->counts.completed);
  }
  conclude(m, k);
}

/* ---- a run ---- */

static bool limit_passed(const struct task *k, int64_t at) {
  return has_limit(&k->t) && k->limit_due != UVS_NEVER && at >= k->limit_due;
}

/* The limit has passed before the start: the run ends without having started. */
static void time_out_unstarted(struct model *m, struct task *k, int64_t now) {
  start(m, k);
  k->ideal = k->due;
  k->start = k->end = 0;
  k->missed = k->merged = 0;
  k->failure = k->seen = k->runner = 0;
  k->run_timed_out = true;
  end_run(m, k, limit_status(k), now);
}

static int heed_limit(struct task *k, int status, int64_t end) {
  if (!limit_passed(k, end))
    return status;
  k->run_timed_out = true;
  return limit_status(k);
}

static uvs_run_t run_of(struct model *m, struct task *k, int runner) {
  uvs_run_t run;

  memset(&run, 0, sizeof run);
  run.scheduler = k->narrow ? NULL : seen_as(m);
  run.id = k->id;
  run.arg = k->t.arg;
  run.runner = runner;
  run.ideal_ns = k->ideal;
  run.start_ns = k->start;
  run.number = k->runs;
  run.missed = k->missed;
  run.state = k;
  run.culprit = -1;
  for (int i = 0; i < UVS_LATE_CAUSES; i++) {
    run.late_by_ns[i] = k->late_by[i];
    run.late_ns += k->late_by[i];
    if (k->late_by[i] > 0 && (run.culprit < 0 || k->late_by[i] > k->late_by[run.culprit]))
      run.culprit = i;
  }
  return run;
}

/* The current point of the grid, if some were skipped or merged until `start`. */
static void choose_point(struct model *m, struct task *k, int64_t due) {
  int64_t until = min64(k->start, k->until);
  int64_t by[UVS_LATE_CAUSES];
  uint64_t passed, left_out;

  k->ideal = k->due;
  k->merged = 0;
  if (k->t.kind != UVS_FIXED_RATE || off_grid(k))
    return;
  passed = periods_between(k, k->due, until);
  if (k->t.missed_policy == UVS_MISSED_ONCE) {
    miss(m, k, passed, why_late(m, k, due, k->start, true, by));
    k->missed_next += passed;
    k->merged = passed;
  } else if (k->t.missed_policy == UVS_MISSED_CATCH_UP && k->t.max_burst != 0 &&
             passed + 1 > k->t.max_burst) {
    left_out = passed + 1 - k->t.max_burst;
    miss(m, k, left_out, why_late(m, k, due, k->start, true, by));
    k->missed_next += left_out;
    k->ideal = times_later(k->due, left_out, k->t.period_ns);
  }
}

static void begin(struct model *m, struct task *k, int runner) {
  int64_t due;

  k->start = now_of(m);
  due = is_wall(k) ? k->ready - k->wall_late : k->due;
  k->runner = runner;
  choose_point(m, k, due);
  due += k->ideal - k->due;
  why_late(m, k, due, k->start, true, k->late_by);
  k->runs++;
  k->missed = k->missed_next;
  k->missed_next = 0;
  k->end = 0;
  k->failure = k->seen = 0;
  k->run_timed_out = false;
  k->token = k->spared = k->interrupted = false;
  k->remembers = !k->plain;
  if (k->t.limit.run_ns != 0) {
    k->limit_due = min64(k->limit_due, later(k->start, k->t.limit.run_ns));
    k->limited = k->limit_due != UVS_NEVER;
  }
}

static bool was_asked_to_stop(const struct model *m, const struct task *k, int64_t end) {
  return k->token || m->stop || end >= m->kill_ns ||
         (k->lane != NULL && k->lane->disposed && k->lane->token && !k->spared);
}

/* A body or `after` that was asked to stop and returns UV_ECANCELED is cancelled. */
static void answer_cancelled(struct model *m, struct task *k, int64_t at) {
  if (settled(k) || !was_asked_to_stop(m, k, at))
    return;
  k->cancelled = true;
  settle_running(m, k, &m->counts.cancelled);
}

static void run_after(struct model *m, struct task *k) {
  int worked = k->run_timed_out ? limit_status(k) : k->status;
  uvs_run_t run = run_of(m, k, k->runner);
  int status;

  run.status = worked == UVS_STOP ? 0 : worked;
  run.end_ns = k->end;
  k->seen = run.status;
  k->after_at = now_of(m);
  k->to_after = true;
  k->inside = true;
  status = status_of(k->t.after(&run));
  k->inside = false;
  if (worked < 0 || status == 0 || k->run_timed_out)
    status = worked;
  else if (status == UV_ECANCELED)
    answer_cancelled(m, k, now_of(m));
  end_run(m, k, status, k->end);
}

/* The next run would be after the end time: a success, unless the last one failed. */
static void complete_waiting(struct model *m, struct task *k) {
  k->status = k->failure;
  settle(m, k->run_timed_out ? &m->counts.timed_out
            : k->failure < 0 ? &m->counts.failed
                             : &m->counts.completed);
  conclude(m, k);
}

/* SKIP, and a later occurrence has passed while the task was ready. */
static bool leave_out_occurrence(struct model *m, struct task *k) {
  int64_t by[UVS_LATE_CAUSES];
  int64_t now = now_of(m);

  if (!has_to_decide(k, k->due + k->wall_late + (now - k->ready)))
    return false;
  k->runner = UVS_ON_LOOP;
  owe_point(k, true, why_late(m, k, k->ready - k->wall_late, now, true, by));
  k->state = UVS_WAITING;
  k->limited = false;
  unlist(m, k);
  wait_for_due(m, k);
  return true;
}

/* SKIP, and a whole period has passed while the task was ready. */
static bool leave_out(struct model *m, struct task *k) {
  int64_t by[UVS_LATE_CAUSES];
  int64_t now = now_of(m);
  uint64_t n;

  if (k->t.missed_policy != UVS_MISSED_SKIP)
    return false;
  if (k->t.kind == UVS_CALENDAR)
    return leave_out_occurrence(m, k);
  if (k->t.kind != UVS_FIXED_RATE || off_grid(k) || periods_between(k, k->due, now) == 0)
    return false;
  n = points_before(k, k->due, now);
  k->runner = UVS_ON_LOOP;
  miss(m, k, n, why_late(m, k, k->due, now, true, by));
  k->missed_next += n;
  k->due = times_later(k->due, n, k->t.period_ns);
  k->state = UVS_WAITING;
  k->limited = false;
  unlist(m, k);
  if (k->due > k->until)
    complete_waiting(m, k);
  else
    wait_for_due(m, k);
  return true;
}

/* The body has returned or was finished, and is not pending. */
static void end_body(struct model *m, struct task *k, int status) {
  status = heed_limit(k, status, k->end);
  if (status == UV_ECANCELED && !k->run_timed_out)
    answer_cancelled(m, k, k->end);
  if (k->t.work != NULL && k->t.after != NULL) {
    if (!k->timed_out)
      k->status = status;
    k->to_after = true;
    owe(m, k);
  } else {
    end_run(m, k, status, k->end);
  }
}

/* One run, from start to end unless it becomes pending. The state is RUNNING already. */
static void run(struct model *m, struct task *k, int runner) {
  uvs_run_t r;
  int status;

  m->counts.runs++;
  begin(m, k, runner);
  r = run_of(m, k, runner);
  r.arg = k->decoration.arg;
  r.scheduler = seen_as(m);
  k->inside = true;
  if (m->hooks.before_body != NULL)
    m->hooks.before_body(&r);
  r.scheduler = k->narrow ? NULL : seen_as(m);
  status = k->decoration.work(&r);
  k->end = now_of(m);
  r.scheduler = seen_as(m);
  if (m->hooks.after_body != NULL)
    m->hooks.after_body(&r, status);
  k->inside = false;
  if (status == UVS_PENDING) {
    k->pending = true;
    if (!k->finished) {
      k->end = 0;
      return;
    }
    status = k->status;
  }
  end_body(m, k, status_of(status));
}

int model_finish(struct model *m, uvs_id_t id, int status) {
  struct task *k = find(m, id);

  if (status == UVS_PENDING)
    return UV_EINVAL;
  if (k == NULL || k->state != UVS_RUNNING || k->finished || k->to_after)
    return UV_ENOENT;
  k->finished = true;
  if (!k->pending) {
    if (!k->timed_out)
      k->status = status_of(status);
    return 0; /* its body is about to return */
  }
  k->end = now_of(m);
  end_body(m, k, status_of(status));
  return 0;
}

/* ---- submit ---- */

static bool spec_is_right(const uvs_task_t *t) {
  bool once = t->kind == UVS_ONE_SHOT, rate = t->kind == UVS_FIXED_RATE,
       delay = t->kind == UVS_FIXED_DELAY, calendar = t->kind == UVS_CALENDAR;
  bool retry = t->failure_policy == UVS_FAIL_RETRY;

  if (t->size != sizeof *t || (t->work == NULL && t->after == NULL))
    return false;
  if (calendar != (t->calendar != NULL) || (!once && !rate && !delay && !calendar))
    return false;
  if (t->from != UVS_FROM_NOW && t->from != UVS_FROM_MONOTONIC && t->from != UVS_FROM_WALL)
    return false;
  if ((t->flags & ~(unsigned)(UVS_UNREF | UVS_REPLACE)) != 0)
    return false;
  if ((t->flags & UVS_REPLACE) != 0 && (t->name == NULL || t->name[0] == '\0'))
    return false;
  if (once ? t->period_ns != 0 || t->max_runs != 0 || t->until_ns != 0 : t->until_ns < 0)
    return false;
  if ((rate || delay) && (t->period_ns <= 0 || t->from == UVS_FROM_WALL))
    return false;
  if (calendar && (t->period_ns != 0 || t->from == UVS_FROM_MONOTONIC))
    return false;
  if (t->until_ns != 0 && t->until_ns < t->first_ns)
    return false; /* not a single run */
  if (t->missed_policy != UVS_MISSED_CATCH_UP && t->missed_policy != UVS_MISSED_ONCE &&
      t->missed_policy != UVS_MISSED_SKIP)
    return false;
  if (!rate && !calendar && (t->missed_policy != 0 || t->max_burst != 0))
    return false;
  if (t->max_burst != 0 && t->missed_policy != UVS_MISSED_CATCH_UP)
    return false;
  if (t->jitter_ns < 0 || (rate && t->jitter_ns >= t->period_ns))
    return false;
  if (t->name != NULL && strlen(t->name) > UVS_NAME_MAX)
    return false;
  if (t->priority < UVS_PRIORITY_LOW || t->priority > UVS_PRIORITY_HIGH)
    return false;
  if ((t->keep_outcome != 0 && t->keep_outcome != 1) ||
      ((t->result != NULL || t->drop_result != NULL) && !t->keep_outcome))
    return false;
  if (t->failure_policy != UVS_FAIL_STOP && t->failure_policy != UVS_FAIL_CONTINUE && !retry)
    return false;
  if (t->failure_policy == UVS_FAIL_STOP && t->max_failures != 0)
    return false;
  if (t->failure_policy == UVS_FAIL_CONTINUE && once)
    return false;
  if (!retry &&
      (t->retry.wait_ns != 0 || t->retry.max_wait_ns != 0 || t->retry.jitter_percent != 0))
    return false;
  if (retry && (t->retry.wait_ns <= 0 ||
                (t->retry.max_wait_ns != 0 && t->retry.max_wait_ns < t->retry.wait_ns) ||
                t->retry.jitter_percent < 0 || t->retry.jitter_percent > 100))
    return false;
  if (t->interrupt != NULL && t->work == NULL)
    return false;
  if (t->limit.total_ns < 0 || t->limit.run_ns < 0 || (has_limit(t) && t->work == NULL))
    return false;
  if (t->limit.substitute != 0 && t->limit.substitute != 1)
    return false;
  if (!t->limit.substitute && (t->limit.status != 0 || t->limit.result != NULL))
    return false;
  if (t->limit.substitute && (!has_limit(t) || t->limit.status > 0 || t->limit.status < -4095))
    return false;
  if (t->limit.result != NULL && (!t->keep_outcome || t->limit.status != 0))
    return false;
  return true;
}

static struct lane *find_lane(struct model *m, uvs_lane_t number) {
  return number == 0 || number > (uvs_lane_t)m->lanes ? NULL : &m->lane[number - 1];
}

/* All specs are checked before the first lane. */
static int check_specs(struct model *m, const uvs_task_t *t, size_t n, uvs_lane_t narrow) {
  for (size_t i = 0; i < n; i++) {
    if (narrow != 0 && ((t[i].lane != 0 && t[i].lane != narrow) || (t[i].flags & UVS_REPLACE) != 0))
      return UV_EINVAL;
    if (!spec_is_right(&t[i]))
      return UV_EINVAL;
  }
  for (size_t i = 0; i < n; i++) {
    uvs_lane_t number = narrow != 0 ? narrow : t[i].lane;
    struct lane *l = find_lane(m, number);

    if (number != 0 && l == NULL)
      return UV_ENOENT;
    if (number != 0 && l->disposed)
      return UV_ECANCELED;
  }
  return 0;
}

static int64_t instant(const uvs_task_t *t, int64_t ns, int64_t now) {
  if (t->from == UVS_FROM_NOW)
    return later(now, ns);
  return ns < 0 ? 0 : ns;
}

static struct task *make(struct model *m, const uvs_task_t *t, uvs_lane_t narrow, int64_t now) {
  struct task *k = m->task;

  while (k->state != FREE)
    if (++k == m->task + MODEL_TASKS)
      abort();
  if (index_of(m, k) >= m->top)
    m->top = index_of(m, k) + 1;
  memset(k, 0, sizeof *k);
  k->state = UVS_WAITING;
  k->id = ++m->last_serial * MODEL_TASKS + (uvs_id_t)index_of(m, k);
  k->seq = ++m->last_seq;
  k->t = *t;
  m->any_interrupts |= t->interrupt != NULL;
  if (t->name != NULL)
    memcpy(k->name, t->name, strlen(t->name));
  k->narrow = narrow != 0;
  k->decoration = (uvs_decoration_t){t->work != NULL ? t->work : t->after, t->arg, NULL};
  k->plain = m->hooks.decorate == NULL && t->kind == UVS_ONE_SHOT && t->from != UVS_FROM_WALL &&
             (t->from == UVS_FROM_NOW || instant(t, t->first_ns, now) >= now) &&
             (t->work == NULL || t->after == NULL) && t->interrupt == NULL && t->jitter_ns == 0 &&
             t->name == NULL && !t->keep_outcome && t->lane == 0 && narrow == 0 &&
             t->failure_policy == UVS_FAIL_STOP && !has_limit(t);
  k->lane = find_lane(m, narrow != 0 ? narrow : t->lane);
  if (k->lane != NULL)
    k->lane->tasks++;
  k->in_lane = k->lane != NULL;
  k->decorate = m->hooks.decorate != NULL;
  k->ref = (t->flags & UVS_UNREF) == 0;
  k->due = instant(t, t->first_ns, now);
  k->until = t->until_ns == 0 ? UVS_NEVER : instant(t, t->until_ns, now);
  if (t->kind == UVS_CALENDAR) {
    int64_t first = instant(t, t->first_ns, wall_of(m));

    k->until = t->until_ns == 0 ? UVS_NEVER : instant(t, t->until_ns, wall_of(m));
    k->grid = first > wall_of(m) ? first - 1 : wall_of(m);
    k->due = UVS_NEVER;
    k->calendar_held = true;
    owe_point(k, false, UVS_LATE_SUBMIT);
  }
  k->since = now;
  k->limit_due = UVS_NEVER;
  k->result = k->run_result = t->result;
  return k;
}

/* A wall-clock instant converted to the monotonic clock, or UVS_NEVER. */
static int64_t remaining_of(const struct model *m, const struct task *k) {
  return k->due - (is_wall(k) ? wall_of(m) : now_of(m));
}

/* Its place in the queues. Wall-clock tasks whose run was asked for come first. */
static int64_t place_of(const struct model *m, const struct task *k) {
  return is_wall(k) && asked_for(k) ? -wall_of(m) : remaining_of(m, k);
}

/* The first of the waiting tasks. */
static struct task *first_waiting(struct model *m) {
  struct task *best = NULL;

  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];
    int64_t mine, its;

    if (k->state != UVS_WAITING || !k->queued || k->due == UVS_NEVER)
      continue;
    if (best == NULL) {
      best = k;
      continue;
    }
    mine = place_of(m, k);
    its = place_of(m, best);
    if (mine != its ? mine < its : is_wall(k) != is_wall(best) ? is_wall(best) : k->seq < best->seq)
      best = k;
  }
  return best;
}

/* DISCARD_OLDEST. Returns false if the new task itself must be dropped. */
static bool make_room(struct model *m) {
  struct task *oldest;

  if (m->live <= m->o.max_pending)
    return true;
  oldest = first_ready(m);
  if (oldest == NULL)
    oldest = first_waiting(m);
  if (oldest != NULL)
    end_unstarted(m, oldest, &m->counts.dropped);
  return oldest != NULL;
}

static bool fits_here(const struct model *m, const uvs_task_t *t, int64_t now) {
  return m->hooks.decorate == NULL && t->work != NULL && t->kind == UVS_ONE_SHOT &&
         t->from != UVS_FROM_WALL && instant(t, t->first_ns, now) <= now && t->jitter_ns == 0 &&
         t->failure_policy == UVS_FAIL_STOP && !has_limit(t) && t->lane == 0 &&
         (t->flags & UVS_REPLACE) == 0;
}

static void run_here(struct model *m, struct task *k) {
  if (!k->here)
    return; /* cancelled or moved meanwhile */
  k->here = false;
  if (!may_run(m, k)) {
    end_refused(m, k);
    return;
  }
  k->state = UVS_RUNNING;
  k->turn = k->ready = m->recent = now_of(m);
  run(m, k, UVS_ON_CALLER);
}

/* Does nobody have to be told of the end of the task? */
static bool gives_id(const struct task *k) {
  return (k->state == UVS_WAITING || k->state == UVS_READY) && !k->in_todo && k->lane == NULL &&
         k->t.done == NULL && k->cleanups.count == 0 && !k->t.keep_outcome &&
         k->decoration.release == NULL;
}

static void exchange(struct task *a, struct task *b) {
  struct task other = *a;

  *a = *b;
  *b = other;
  b->id = a->id; /* the ids stay */
  a->id = other.id;
}

/* The new task takes its name. Returns the new task, which may have the place of the old one. */
static struct task *replace(struct model *m, struct task *k, bool *replaced) {
  struct task *old = find_named(m, k->name);
  struct task *ends = old;

  if (old == NULL) {
    k->named = true;
    return k;
  }
  *replaced |= !settled(old); /* else only its run is still in progress */
  old->replaced = old->state == UVS_RUNNING;
  old->named = false;
  k->held = old->replaced || old->held;
  k->held_by = old->replaced ? old->id : old->held_by;
  k->named = true;
  if (old->state == UVS_RUNNING) {
    if (!settled(old)) {
      old->cancelled = true;
      settle_running(m, old, &m->counts.cancelled);
    }
    return k;
  }
  if (gives_id(old) && k->lane == NULL) {
    if (old->state == UVS_READY)
      unlist(m, old);
    old->state = UVS_WAITING;
    exchange(old, k);
    ends = k;
    ends->calendar_held = false; /* uvs_submit gives it back */
    k = old;
  }
  ends->here = false;
  end_unstarted(m, ends, &m->counts.cancelled);
  return k;
}

enum terms { ROOM, DROP, PUSH, HERE };

/* UV_EAGAIN and UV_ESHUTDOWN: refused. */
static int take(struct model *m, const uvs_task_t *t, size_t n, uvs_lane_t narrow, enum terms terms,
                int64_t now, uvs_id_t *ids) {
  struct task *k[16];
  bool replaced = false;

  if (m->shut)
    return UV_ESHUTDOWN;
  if (n > 16)
    abort();
  for (size_t i = 0; i < n && terms == HERE; i++)
    if (!fits_here(m, &t[i], now) || narrow != 0)
      return UV_EAGAIN;
  if (terms == ROOM && m->o.max_pending != 0 && m->live + n > m->o.max_pending)
    return UV_EAGAIN;
  m->live += n;
  m->counts.submitted += n;
  if (terms == HERE) {
    for (size_t i = 0; i < n; i++) {
      k[i] = make(m, &t[i], narrow, now);
      k[i]->here = true;
      ids[i] = k[i]->id;
    }
    for (size_t i = 0; i < n; i++)
      if (find(m, ids[i]) == k[i])
        run_here(m, k[i]);
    return 0;
  }
  for (size_t i = 0; i < n; i++) {
    bool dropped = terms == DROP || (terms == PUSH && !make_room(m));

    k[i] = make(m, &t[i], narrow, now);
    if (!dropped && (t[i].flags & UVS_REPLACE) != 0)
      k[i] = replace(m, k[i], &replaced);
    ids[i] = k[i]->id;
    if (dropped)
      end_unstarted(m, k[i], &m->counts.dropped);
    else
      wait_for_due(m, k[i]);
  }
  return replaced ? UVS_REPLACED : 0;
}

int model_submit(struct model *m, const uvs_task_t *t, size_t n, uvs_lane_t narrow, uvs_id_t *ids) {
  static const enum terms terms[] = {
      [UVS_REJECT_DISCARD] = DROP,
      [UVS_REJECT_DISCARD_OLDEST] = PUSH,
      [UVS_REJECT_CALLER_RUNS] = HERE,
  };
  int64_t now = now_of(m);
  int rejection;
  int rc;

  if (n == 0)
    return UV_EINVAL;
  if (find_lane(m, narrow) != NULL && find_lane(m, narrow)->gone)
    return UV_ECANCELED; /* before a look at the spec */
  rc = check_specs(m, t, n, narrow);
  if (rc < 0)
    return rc;
  rc = take(m, t, n, narrow, ROOM, now, ids);
  if (rc >= 0)
    return rc;
  rejection = m->rejection;
  if (rejection == UVS_REJECT_ASK) {
    int answer = m->hooks.on_rejected(seen_as(m), t, n, rc);

    rejection = answer > UVS_REJECT_ABORT && answer < UVS_REJECT_ASK ? answer : UVS_REJECT_ABORT;
  }
  if (rc == UV_EAGAIN && rejection != UVS_REJECT_ABORT) {
    rc = check_specs(m, t, n, narrow); /* the handler may have disposed the lane */
    if (rc == 0)
      rc = take(m, t, n, narrow, terms[rejection], now, ids);
  }
  m->counts.rejected += rc == UV_EAGAIN || rc == UV_ESHUTDOWN;
  return rc;
}

void model_set_far(struct model *m, bool far) {
  m->far = far;
}

/* ---- act on a task ---- */

int model_cancel(struct model *m, uvs_id_t id, unsigned flags) {
  const unsigned known = UVS_CANCEL_TOKEN | UVS_CANCEL_IF_WAITING | UVS_CANCEL_NO_DONE;
  struct task *k = find(m, id);

  if ((flags & ~known) != 0)
    return UV_EINVAL;
  if (k == NULL)
    return UV_ENOENT;
  if (k->state == UVS_WAITING || k->state == UVS_READY) {
    k->here = false;
    if ((flags & UVS_CANCEL_NO_DONE) != 0)
      k->t.done = NULL;
    end_unstarted(m, k, &m->counts.cancelled);
    return UVS_CANCELLED;
  }
  if (k->state != UVS_RUNNING || k->timed_out)
    return UV_ENOENT;
  if ((flags & UVS_CANCEL_IF_WAITING) != 0)
    return UV_EBUSY;
  k->token |= (flags & UVS_CANCEL_TOKEN) != 0;
  if ((flags & UVS_CANCEL_TOKEN) != 0)
    owe_interrupt(m, k);
  if (k->cancelled)
    return UVS_CANCELLED_BEFORE;
  k->cancelled = true;
  settle_running(m, k, &m->counts.cancelled);
  return UVS_CANCELLED_WHILE_RUNNING;
}

int model_complete(struct model *m, uvs_id_t id, int status, void *result) {
  struct task *k = find(m, id);

  if (status > 0 || status < -0xfff || (status < 0 && result != NULL))
    return UV_EINVAL;
  if (k == NULL || k->state > UVS_RUNNING || (k->state == UVS_RUNNING && settled(k)))
    return UV_ENOENT;
  if (k->state == UVS_RUNNING)
    return UV_EBUSY;
  if (result != NULL && !k->t.keep_outcome)
    return UV_EINVAL;
  complete_unstarted(m, k, status, result);
  return 0;
}

static struct model *model_of_run; /* one at a time: a run does not say whose it is */

int model_cancelled(const uvs_run_t *run) {
  const struct task *k = run->state;
  const struct model *m = model_of_run;
  int64_t now = now_of(m);

  return k->token || m->stop || now >= m->kill_ns ||
         (k->lane != NULL && k->lane->disposed && k->lane->token && !k->spared) ||
         (!k->to_after && limit_passed(k, now));
}

int model_reschedule(struct model *m, uvs_id_t id, int64_t delay_ns) {
  struct task *k = find(m, id);

  if (k == NULL || k->state > UVS_RUNNING)
    return UV_ENOENT;
  if (k->state != UVS_WAITING)
    return UV_EBUSY;
  k->due = later(is_wall(k) ? wall_of(m) : now_of(m), delay_ns);
  k->grid = k->last = k->due;
  k->moved = true;
  k->step = 0;
  k->extra = k->owed = k->at_once = false;
  if (k->in_todo)
    return 0; /* after its hooks */
  if (!k->queued || is_wall(k) || k->due == UVS_NEVER || k->paused) {
    k->queued = k->here = false;
    wait_for_due(m, k);
  }
  return 0;
}

int model_pause(struct model *m, uvs_id_t id) {
  struct task *k = find(m, id);

  if (k == NULL || k->state > UVS_RUNNING || settled(k))
    return UV_ENOENT;
  k->plain = false;
  if (m->shut)
    return UV_ESHUTDOWN;
  if (k->paused)
    return UV_EALREADY;
  k->paused = true;
  k->at_once = false;
  if (k->state == UVS_RUNNING)
    return UVS_PAUSED_WHILE_RUNNING;
  if (k->state == UVS_READY) {
    k->state = UVS_WAITING;
    k->step = 0;
    unlist(m, k);
  }
  k->queued = k->here = k->limited = false;
  return UVS_PAUSED;
}

/* The points that passed are not missed: the next one is the first that has not passed. */
static void forget_points(struct model *m, struct task *k) {
  int64_t *next = k->extra ? &k->saved : &k->due;

  if (k->t.kind == UVS_CALENDAR && (k->extra || !retrying(k)) && k->grid != UVS_NEVER &&
      (k->owed || *next < wall_of(m) || *next == UVS_NEVER)) {
    if (k->grid < wall_of(m) - 1)
      k->grid = wall_of(m) - 1; /* an occurrence at this instant has not passed */
    *next = UVS_NEVER;
    if (!k->extra)
      owe_point(k, false, UVS_LATE_PAUSED);
  }
  if (k->t.kind == UVS_FIXED_RATE && (k->extra || !retrying(k)))
    *next = times_later(*next, points_before(k, *next, now_of(m)), k->t.period_ns);
}

int model_resume(struct model *m, uvs_id_t id, unsigned flags) {
  struct task *k = find(m, id);
  int64_t due = k == NULL ? 0 : k->due;

  if ((flags & ~(unsigned)UVS_RESUME_FORGET) != 0)
    return UV_EINVAL;
  if (k == NULL || k->state > UVS_RUNNING || settled(k))
    return UV_ENOENT;
  if (!k->paused)
    return UV_EALREADY;
  k->paused = false;
  if ((flags & UVS_RESUME_FORGET) != 0 && (k->state != UVS_RUNNING || k->extra))
    forget_points(m, k);
  if (k->state != UVS_WAITING)
    return 0;
  k->since = now_of(m); /* nothing else is blamed for the time before */
  k->resumed = true;
  if (k->t.kind == UVS_FIXED_RATE && k->due != due && k->due > k->until) {
    complete_waiting(m, k); /* its last points are forgotten */
    return 0;
  }
  if (k->in_todo || k->queued) /* after its hooks; or an extra run is due */
    return 0;
  wait_for_due(m, k);
  return 0;
}

int model_pause_all(struct model *m) {
  if (m->shut)
    return UV_ESHUTDOWN;
  if (m->paused)
    return UV_EALREADY;
  m->paused = true;
  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];

    if (k->state != UVS_READY)
      continue;
    k->state = UVS_WAITING;
    k->step = 0;
    unlist(m, k);
    wait_for_due(m, k);
  }
  return 0;
}

int model_resume_all(struct model *m) {
  if (!m->paused)
    return UV_EALREADY;
  m->paused = false;
  m->resumed_ns = now_of(m);
  return 0;
}

int model_find(struct model *m, const char *name, uvs_id_t *ret_id) {
  struct task *k = find_named(m, name);

  if (k == NULL || settled(k))
    return UV_ENOENT;
  *ret_id = k->id;
  return 0;
}

int model_run_now(struct model *m, uvs_id_t id) {
  struct task *k = find(m, id);

  if (k == NULL || k->state > UVS_RUNNING || settled(k))
    return UV_ENOENT;
  k->plain = false;
  if (m->shut)
    return UV_ESHUTDOWN;
  if (k->state != UVS_WAITING || k->held || (asked_for(k) && (k->at_once || !k->paused)))
    return UV_EBUSY;
  if (!off_grid(k)) {
    k->extra = true;
    k->saved = k->due; /* a calendar: UVS_NEVER if it is not worked out yet */
  }
  k->owed = false;
  k->at_once = true;
  k->due = is_wall(k) ? wall_of(m) : now_of(m);
  k->since = now_of(m);
  k->step = 0;
  k->resumed = k->here = k->queued = false;
  if (!k->in_todo) /* else after its hooks */
    wait_for_due(m, k);
  return 0;
}

int model_set_ref(struct model *m, uvs_id_t id, bool ref) {
  struct task *k;

  if (m->far)
    return UV_EPERM;
  k = find(m, id);
  if (k == NULL || k->state > UVS_RUNNING)
    return UV_ENOENT;
  k->ref = ref;
  return 0;
}

int model_has_ref(struct model *m, uvs_id_t id) {
  struct task *k = find(m, id);

  return k == NULL || k->state > UVS_RUNNING ? UV_ENOENT : k->ref;
}

int model_add_cleanup(struct model *m, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags) {
  struct task *k = find(m, id);
  int c;

  if (cb == NULL || (flags & ~(unsigned)UVS_CLEANUP_WHEN_SETTLED) != 0)
    return UV_EINVAL;
  if (id == 0 || id / MODEL_TASKS > m->last_serial)
    return UV_ENOENT;
  if ((k == NULL || k->state == OVER) && m->far && m->closing)
    return UV_ESHUTDOWN;
  c = make_cleanup(m, cb, arg, flags);
  if (k == NULL || k->state == OVER) {
    cleanup_now(m, c);
    return 0;
  }
  k->plain = false;
  own_cleanup(m, &k->cleanups, c);
  if (k->state != UVS_ENDED && (flags & UVS_CLEANUP_WHEN_SETTLED) != 0 && settled(k))
    cleanup_now(m, c);
  return 0;
}

int model_set_result(uvs_run_t *run, void *result) {
  struct task *k = (struct task *)(uintptr_t)run->state;
  void *before = k->run_result;

  if (!k->t.keep_outcome)
    return UV_EINVAL;
  k->run_result = result;
  if (before != result && before != k->result && is_droppable(k, before))
    k->t.drop_result(before);
  return 0;
}

int model_wait(struct model *m, uvs_id_t id, int64_t timeout_ns, unsigned flags,
               uvs_outcome_t *ret) {
  struct task *k = find(m, id);
  bool quiet;

  if ((flags & ~(unsigned)UVS_WAIT_SETTLED) != 0)
    return UV_EINVAL;
  if (k == NULL)
    return UV_ENOENT;
  if (!k->t.keep_outcome)
    return UV_EINVAL;
  if (k->forgotten)
    return UV_ENOENT;
  quiet = k->state >= UVS_ENDED;
  if ((flags & UVS_WAIT_SETTLED) != 0 ? !settled(k) : !quiet)
    return timeout_ns > 0 && !m->far ? UVS_EDEADLK : UV_ETIMEDOUT;
  if (ret == NULL)
    return 0;
  k->taken |= outcome_of(k) == 0;
  uvs_outcome_init(ret);
  ret->state = quiet ? UVS_ENDED : UVS_RUNNING;
  ret->status = outcome_of(k);
  if (ret->status == 0)
    ret->result = k->timed_out ? k->t.limit.result : k->result;
  ret->runs = k->runs;
  if (quiet) {
    ret->ideal_ns = k->ideal;
    ret->start_ns = k->start;
    ret->end_ns = k->end;
  }
  return 0;
}

int model_forget(struct model *m, uvs_id_t id) {
  struct task *k = find(m, id);

  if (k == NULL)
    return UV_ENOENT;
  if (!k->t.keep_outcome)
    return UV_EINVAL;
  if (k->forgotten)
    return UV_ENOENT;
  k->forgotten = true;
  if (k->state == OVER) {
    k->state = FREE;
    drop_unclaimed(k);
  }
  return 0;
}

/* ---- ask ---- */

static void look(const struct model *m, const struct task *k, uvs_info_t *ret) {
  uvs_info_init(ret);
  ret->id = k->id;
  ret->state = k->state;
  ret->kind = k->t.kind;
  ret->from = is_wall(k) ? UVS_FROM_WALL : UVS_FROM_MONOTONIC;
  ret->cancelled = k->cancelled;
  ret->due_ns = k->due;
  ret->remaining_ns = k->due == UVS_NEVER ? UVS_NEVER : remaining_of(m, k);
  ret->period_ns = k->t.period_ns;
  ret->runs = k->runs;
  ret->missed = k->missed_total;
  ret->arg = k->t.arg;
  memcpy(ret->name, k->name, sizeof ret->name);
  ret->work = k->t.work != NULL ? k->t.work : k->t.after;
  ret->failures = k->failures;
  ret->timed_out = k->timed_out;
  ret->priority = k->t.priority;
  ret->culprit = -1;
  for (int i = 0; i < UVS_LATE_CAUSES && k->remembers; i++) {
    ret->late_by_ns[i] = k->late_by[i];
    ret->late_ns += k->late_by[i];
    if (k->late_by[i] > 0 && (ret->culprit < 0 || k->late_by[i] > k->late_by[ret->culprit]))
      ret->culprit = i;
  }
}

int model_info(struct model *m, uvs_id_t id, uvs_info_t *ret) {
  struct task *k = find(m, id);

  if (k == NULL || k->state == OVER)
    return UV_ENOENT;
  look(m, k, ret);
  return 0;
}

/* After the next run, or after the run in progress, if nothing is late: the next one; UVS_NEVER. */
static int64_t run_after_next(const struct task *k, bool running) {
  int64_t point = running ? k->ideal : k->due;

  if (k->extra && (k->t.kind != UVS_CALENDAR || k->saved != UVS_NEVER))
    return k->saved;
  if (k->t.kind == UVS_CALENDAR && (k->extra || retrying(k)))
    return occurrence_after(k, k->extra || k->grid >= point ? k->grid : point - 1);
  if (k->t.kind == UVS_CALENDAR)
    return occurrence_after(k, running ? k->last : point);
  if (k->t.kind != UVS_FIXED_RATE)
    return UVS_NEVER;
  if (retrying(k)) { /* the first point that has not passed when the retry is due */
    int64_t next = later(k->grid, k->t.period_ns);

    return times_later(next, points_before(k, next, point), k->t.period_ns);
  }
  return times_later(point, running ? k->merged + 1 : 1, k->t.period_ns);
}

int model_next_runs(struct model *m, uvs_id_t id, int64_t *ret_ns, size_t n) {
  struct task *k = find(m, id);
  bool running = k != NULL && k->state == UVS_RUNNING;
  int64_t next;
  size_t told = 0;

  if (k == NULL || k->state > UVS_RUNNING || settled(k))
    return UV_ENOENT;
  if (k->held || (k->paused && (running || !k->at_once)))
    return 0;
  if (k->paused && n > 1)
    n = 1; /* the extra run */
  if (k->t.max_runs != 0 && n > k->t.max_runs - k->runs)
    n = k->t.max_runs - k->runs;
  if (!running && told < n && k->owed && !k->passed && k->t.kind == UVS_CALENDAR) {
    next = occurrence_after(k, k->grid);
    while (told < n && next != UVS_NEVER && next <= k->until) {
      ret_ns[told++] = next;
      next = occurrence_after(k, next);
    }
    return (int)told;
  }
  if (!running && told < n && k->due != UVS_NEVER && k->due <= k->until)
    ret_ns[told++] = k->due;
  next = run_after_next(k, running);
  while ((running || told > 0) && told < n && next != UVS_NEVER && next <= k->until) {
    ret_ns[told++] = next;
    next = k->t.kind == UVS_FIXED_RATE ? later(next, k->t.period_ns)
           : k->t.kind == UVS_CALENDAR ? occurrence_after(k, next)
                                       : UVS_NEVER;
  }
  return (int)told;
}

int model_each(struct model *m, uvs_each_cb each, void *arg) {
  int rc = 0;

  for (int i = 0; i < m->top && rc == 0; i++) {
    struct task *k = &m->task[i];
    uvs_info_t info;

    if (k->state == FREE || k->state == OVER)
      continue;
    look(m, k, &info);
    rc = each(seen_as(m), &info, arg);
  }
  return rc;
}

int model_counts(struct model *m, uvs_counts_t *ret) {
  *ret = m->counts;
  for (int i = 0; i < m->top; i++) {
    const struct task *k = &m->task[i];

    ret->waiting += k->state == UVS_WAITING;
    ret->ready += k->state == UVS_READY;
    ret->running += k->state == UVS_RUNNING && !settled(k);
  }
  return 0;
}

static bool has_callbacks(const struct model *m) {
  return m->todo.count > 0 || m->ending.count > 0 || m->now.count > 0;
}

/* Have all tasks ended? */
static bool can_terminate(const struct model *m) {
  for (int i = 0; i < m->top; i++)
    if (m->task[i].state != FREE && m->task[i].state != OVER)
      return false;
  return m->shut && !m->terminated && !m->policy_changed;
}

static int64_t queue_wants(const struct model_queue *q) {
  if (q->closed)
    return q->seen_closed ? UVS_NEVER : 0;
  return q->consume == NULL || q->count == 0 ? UVS_NEVER : q->v[0].e.due_ns;
}

int model_next_due(struct model *m, int64_t *ret_ns) {
  int64_t now = now_of(m);
  int64_t next = UVS_NEVER;

  for (int i = 0; i < m->top; i++) {
    const struct task *k = &m->task[i];

    if (k->state == UVS_WAITING && k->queued && k->due != UVS_NEVER && !m->paused)
      next = min64(next, is_wall(k) ? later(now, place_of(m, k)) : k->due);
    if (k->state != FREE && k->limited)
      next = min64(next, k->limit_due);
  }
  for (int i = 0; i < m->queues; i++)
    next = min64(next, queue_wants(m->queue[i]));
  if (!m->stop)
    next = min64(next, m->kill_ns);
  if (!m->had_turn || has_callbacks(m) || first_ready(m) != NULL || m->policy_changed ||
      m->wall_wanted || can_terminate(m))
    next = now;
  *ret_ns = next;
  return 0;
}

bool model_keeps_loop(struct model *m) {
  bool keep = m->closing;

  if (m->o.keep_alive == UVS_KEEP_ALIVE_ALWAYS)
    keep |= !m->terminated;
  if (m->o.keep_alive != UVS_KEEP_ALIVE_NEVER)
    keep |= has_callbacks(m) || m->policy_changed;
  if (m->o.keep_alive == UVS_KEEP_ALIVE_AUTO) {
    keep |= !m->had_turn;
    for (int i = 0; i < m->top; i++) {
      const struct task *k = &m->task[i];

      keep |= k->state != FREE && k->state != OVER && k->ref;
    }
  }
  for (int i = 0; i < m->queues && m->o.keep_alive != UVS_KEEP_ALIVE_NEVER; i++)
    keep |= m->queue[i]->ref && !m->queue[i]->closed;
  return keep;
}

int64_t model_calm_ns(struct model *m, int64_t n) {
  int64_t most = UVS_NEVER;

  for (int i = 0; i < m->top; i++) {
    const struct task *k = &m->task[i];

    if (k->state != FREE && k->state != OVER && k->t.kind == UVS_FIXED_RATE &&
        k->t.missed_policy == UVS_MISSED_CATCH_UP)
      most = min64(most, times_later(0, (uint64_t)n, k->t.period_ns));
    if (k->state != FREE && k->state != OVER && k->t.kind == UVS_CALENDAR)
      most = min64(most, UVS_SEC(10 * n));
  }
  return most;
}

/* ---- lifecycle ---- */

static void shut(struct model *m) {
  if (!m->shut) {
    m->shutdown_ns = now_of(m);
    m->shutdown_wall = wall_of(m);
  }
  model_resume_all(m);
  m->shut = true;
  m->policy_changed = true;
}

static bool stop_now(struct model *m, uvs_never_ran_cb each, void *arg) {
  if (m->stop)
    return false;
  m->never_ran = each;
  m->never_ran_arg = arg;
  shut(m);
  m->stop = true;
  return true;
}

int model_shutdown(struct model *m) {
  shut(m);
  return 0;
}

int model_shutdown_within(struct model *m, int64_t grace_ns) {
  m->kill_ns = min64(m->kill_ns, later(now_of(m), grace_ns));
  shut(m);
  if (grace_ns <= 0)
    stop_now(m, NULL, NULL);
  return 0;
}

int model_shutdown_now(struct model *m, uvs_never_ran_cb each, void *arg) {
  return stop_now(m, each, arg) ? 0 : UV_EALREADY;
}

int model_is_shutdown(struct model *m) {
  return m->shut;
}

int model_is_terminated(struct model *m) {
  return m->terminated;
}

int model_survive(struct model *m, int which) {
  return which != UVS_DELAYED_TASKS && which != UVS_PERIODIC_TASKS ? UV_EINVAL : m->survive[which];
}

int model_set_survive(struct model *m, int which, int on) {
  if ((which != UVS_DELAYED_TASKS && which != UVS_PERIODIC_TASKS) || (on != 0 && on != 1))
    return UV_EINVAL;
  m->survive[which] = on;
  m->policy_changed |= m->shut;
  return 0;
}

int model_rejection(struct model *m) {
  return m->rejection;
}

int model_set_rejection(struct model *m, int rejection) {
  if (rejection < UVS_REJECT_ABORT || rejection > UVS_REJECT_ASK ||
      (rejection == UVS_REJECT_ASK && m->hooks.on_rejected == NULL))
    return UV_EINVAL;
  m->rejection = rejection;
  return 0;
}

/* ---- lanes ---- */

int model_lane_open(struct model *m, const uvs_lane_options_t *o, uvs_lane_t *ret) {
  struct lane *l = &m->lane[m->lanes];

  if (o->width > UVS_LANE_WIDTH_MAX)
    return UV_EINVAL;
  if (m->shut)
    return UV_ESHUTDOWN;
  if (m->lanes == MODEL_LANES)
    abort();
  memset(l, 0, sizeof *l);
  l->number = (uvs_lane_t)++m->lanes;
  l->width = o->width == 0 ? UINT32_MAX : o->width;
  l->next = -1;
  l->quiet = o->on_quiet;
  l->arg = o->arg;
  *ret = l->number;
  return 0;
}

static struct task *first_of_lane(struct model *m, const struct lane *l) {
  struct task *first = NULL;

  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];

    if (k->state != FREE && k->lane == l && k->in_lane && (first == NULL || k->seq < first->seq))
      first = k;
  }
  return first;
}

/* Cancels all tasks of a disposed lane. */
static void sweep(struct model *m, struct lane *l) {
  struct task *k;

  while ((k = first_of_lane(m, l)) != NULL) {
    k->in_lane = false;
    if (k->state == UVS_WAITING || k->state == UVS_READY) {
      end_refused(m, k);
    } else if (k->state == UVS_RUNNING && !settled(k)) {
      k->cancelled = true;
      settle_running(m, k, &m->counts.cancelled);
    }
  }
  maybe_end_lane(m, l);
}

static void dispose(struct model *m, struct lane *l, bool token) {
  l->token |= token;
  m->policy_changed |= token && m->any_interrupts;
  if (l->disposed)
    return;
  l->disposed = true;
  if (l->next >= 0)
    m->task[l->next].listed = false; /* no task of it starts any more */
  l->next = -1;
  cleanups_settled(m, &l->cleanups);
  sweep(m, l);
}

/* A body that disposes its own lane is not asked to stop. */
static void spare(struct model *m, const struct lane *l) {
  for (int i = 0; i < m->top; i++) {
    struct task *k = &m->task[i];

    if (k->state == UVS_RUNNING && k->lane == l && k->inside)
      k->spared = true;
  }
}

int model_lane_dispose(struct model *m, uvs_lane_t number, unsigned flags) {
  struct lane *l = find_lane(m, number);

  if ((flags & ~(unsigned)UVS_DISPOSE_TOKEN) != 0)
    return UV_EINVAL;
  if (l == NULL)
    return UV_ENOENT;
  if (l->gone)
    return 0;
  spare(m, l);
  dispose(m, l, (flags & UVS_DISPOSE_TOKEN) != 0);
  return 0;
}

int model_lane_is_disposed(struct model *m, uvs_lane_t number) {
  struct lane *l = find_lane(m, number);

  return l == NULL ? UV_ENOENT : l->disposed;
}

int model_lane_add_cleanup(struct model *m, uvs_lane_t number, uvs_cleanup_cb cb, void *arg,
                           unsigned flags) {
  struct lane *l = find_lane(m, number);
  bool now;
  int c;

  if (cb == NULL || (flags & ~(unsigned)UVS_CLEANUP_WHEN_SETTLED) != 0)
    return UV_EINVAL;
  if (l == NULL)
    return UV_ENOENT;
  if (l->gone && m->far && m->closing)
    return UV_ESHUTDOWN;
  now = l->gone || ((flags & UVS_CLEANUP_WHEN_SETTLED) != 0 && l->disposed);
  c = make_cleanup(m, cb, arg, flags);
  if (!l->gone)
    own_cleanup(m, &l->cleanups, c);
  if (now)
    cleanup_now(m, c);
  return 0;
}

bool model_lane_has(struct model *m, uvs_lane_t number, uvs_id_t id) {
  struct lane *l = find_lane(m, number);
  struct task *k = find(m, id);

  return l != NULL && !l->gone && k != NULL && k->lane == l;
}

static void end_lane(struct model *m, struct lane *l) {
  call_cleanups(m, &l->cleanups);
  if (l->quiet != NULL)
    l->quiet(seen_as(m), l->number, l->arg);
  call_cleanups(m, &l->cleanups); /* some were added since */
  l->gone = true;
}

/* ---- the loop pass ---- */

static void follow_policies(struct model *m) {
  if (m->turn_ns >= m->kill_ns)
    stop_now(m, NULL, NULL);
  for (int i = 0; i < m->top && m->policy_changed; i++) {
    struct task *k = &m->task[i];

    if (m->shut && (k->state == UVS_WAITING || k->state == UVS_READY) && !may_run(m, k))
      end_refused(m, k);
    else if (k->state == UVS_RUNNING && was_asked_to_stop(m, k, m->turn_ns))
      owe_interrupt(m, k);
  }
  m->policy_changed = false;
}

/* The limit of a ready or pending run has passed. */
static void pass_limit(struct model *m, struct task *k) {
  k->limited = false;
  if (k->state == UVS_READY) {
    time_out_unstarted(m, k, m->turn_ns);
    return;
  }
  if (k->state != UVS_RUNNING || k->finished || k->to_after)
    return;
  k->token = true;
  owe_interrupt(m, k);
  if (!k->limit_final || k->cancelled)
    return;
  k->timed_out = true;
  k->status = limit_status(k);
  settle_running(m, k, &m->counts.timed_out);
  if (m->o.on_error != NULL && k->status < 0 && k->t.done == NULL && k->t.after == NULL)
    m->o.on_error(seen_as(m), k->id, k->status, k->t.arg);
}

static void expire_limits(struct model *m) {
  for (;;) {
    struct task *first = NULL;

    for (int i = 0; i < m->top; i++) {
      struct task *k = &m->task[i];

      if (k->state != FREE && k->limited && k->limit_due <= m->turn_ns &&
          (first == NULL || k->limit_due < first->limit_due ||
           (k->limit_due == first->limit_due && k->seq < first->seq)))
        first = k;
    }
    if (first == NULL)
      return;
    pass_limit(m, first);
  }
}

/* Would the task end if this run timed out? */
static bool run_is_final(const struct task *k) {
  if (k->t.max_runs != 0 && k->runs + 1 >= k->t.max_runs)
    return true;
  if (limit_status(k) == 0)
    return k->t.kind == UVS_ONE_SHOT && !k->extra;
  return k->t.failure_policy == UVS_FAIL_STOP ||
         (k->t.max_failures != 0 && k->failures + 1 >= k->t.max_failures);
}

static void make_ready(struct model *m, struct task *k, int64_t wall, int64_t step) {
  int64_t least = k->runs == 0 ? 0 : k->since - UVS_SEC(1);

  k->state = UVS_READY;
  k->turn = k->ready = m->recent = m->turn_ns;
  k->key_ns = k->due;
  k->key_seq = k->seq;
  if (is_wall(k)) {
    k->wall_late = wall - k->due;
    k->step += step; /* more to what was noted when its occurrence was looked at */
    k->key_ns = m->turn_ns - k->wall_late;
  }
  if (k->key_ns < least) /* a task that catches up does not delay all others for ever */
    k->key_ns = least;
  if (k->key_ns < 0)
    k->key_ns = 0;
  if (has_limit(&k->t)) {
    k->limit_due = k->t.limit.total_ns == 0 ? UVS_NEVER : later(k->ready, k->t.limit.total_ns);
    k->limit_final = run_is_final(k);
    k->limited = k->limit_due != UVS_NEVER;
  }
  list_ready(m, k);
}

static int why_late_by_wall(const struct model *m, const struct task *k, int64_t wall,
                            int64_t step) {
  struct task late = *k;
  int64_t by[UVS_LATE_CAUSES];

  late.step = step;
  late.turn = late.ready = m->turn_ns;
  return why_late(m, &late, m->turn_ns - (wall - k->due), m->turn_ns, true, by);
}

/* The task is due: it becomes ready, unless its point of the grid is skipped or is after the end
 * time. */
static void come_due(struct model *m, struct task *k, int64_t wall, int64_t step) {
  int64_t by[UVS_LATE_CAUSES];
  int64_t due = k->due;
  uint64_t n = 0;

  if (has_to_decide(k, wall)) {
    owe_point(k, true, why_late_by_wall(m, k, wall, step));
    k->step = step;
    wait_for_due(m, k);
    return;
  }
  if (k->t.kind == UVS_FIXED_RATE && k->t.missed_policy == UVS_MISSED_SKIP && !off_grid(k) &&
      periods_between(k, due, m->turn_ns) > 0) {
    n = points_before(k, due, m->turn_ns);
    due = times_later(due, n, k->t.period_ns);
  }
  if (due > k->until) {
    complete_waiting(m, k);
  } else if (n == 0) {
    make_ready(m, k, wall, step);
  } else {
    miss(m, k, n, why_late(m, k, k->due, m->turn_ns, false, by));
    k->missed_next += n;
    k->due = due;
    wait_for_due(m, k);
  }
}

static void hand_over(struct model *m) {
  int64_t wall = 0, step = 0;
  bool any_wall = false;

  for (int i = 0; i < m->top; i++) {
    const struct task *k = &m->task[i];

    any_wall |= k->state == UVS_WAITING && k->queued && is_wall(k) && k->due != UVS_NEVER;
  }
  if (any_wall) {
    wall = wall_of(m);
    step = step_of_wall(m);
  } else {
    m->wall_known = false;
  }
  /* All due tasks, those due longest first. */
  for (struct task *k; !m->paused && (k = first_waiting(m)) != NULL && place_of(m, k) <= 0;) {
    k->queued = false;
    if (is_wall(k) && k->due > wall) /* the clock was set back after the run was asked for */
      k->due = wall;
    come_due(m, k, wall, step);
  }
}

/* The task that starts next. A body may have shut the scheduler down: then the next pass decides
 * which tasks may still run. */
static struct task *start_next(struct model *m) {
  struct task *k = NULL;

  while (!m->policy_changed && (k = first_ready(m)) != NULL) {
    if (limit_passed(k, now_of(m))) {
      time_out_unstarted(m, k, now_of(m));
    } else if (!leave_out(m, k)) {
      start(m, k);
      m->wheel = (m->wheel + 1) % 13;
      return k;
    }
  }
  return NULL;
}

/* Runs all ready tasks, and those that their lanes admit meanwhile. */
static void run_ready(struct model *m) {
  struct task *k;

  while ((k = start_next(m)) != NULL)
    run(m, k, UVS_ON_LOOP);
}

/* A run that is finished meanwhile ends afterwards. */
static void interrupt(struct model *m, struct task *k) {
  k->interrupting = true;
  k->t.interrupt(k->narrow ? NULL : seen_as(m), k->id, k->t.arg);
  k->interrupting = false;
  if (!k->end_later)
    return;
  k->end_later = false;
  end_run(m, k, k->later_status, k->end);
}

static void make_callbacks(struct model *m) {
  for (int n = m->todo.count; n > 0; n--) { /* callbacks added meanwhile wait for the next pass */
    struct task *k = &m->task[pop(&m->todo)];

    if (k->state == UVS_WAITING && k->owed)
      find_occurrence(m, k);
    if (k->state == UVS_WAITING) {
      decorate(m, k);
      tell(m, k);
    } else if (k->state == UVS_RUNNING && !body_is_over(k)) {
      interrupt(m, k);
    }
    k->in_todo = false;
    if (k->state == UVS_WAITING)
      wait_for_due(m, k);
    else if (k->state == UVS_RUNNING && k->to_after)
      run_after(m, k);
    else if (k->state != UVS_RUNNING)
      call_back_end(m, k);
  }
}

static void serve_queues(struct model *m);
static void close_queues(struct model *m);

void model_turn(struct model *m) {
  model_of_run = m;
  m->had_turn = true;
  m->wall_wanted = false;
  m->turn_ns = now_of(m);
  follow_policies(m);
  if (m->closing) {
    close_queues(m);
    for (int i = m->lanes; i-- > 0;) /* the newest first */
      if (!m->lane[i].gone)
        dispose(m, &m->lane[i], false);
  }
  expire_limits(m);
  hand_over(m);
  serve_queues(m);
  run_ready(m);
  make_callbacks(m);
  for (int n = m->now.count; n > 0; n--)
    call_cleanup(m, pop(&m->now));
  for (int n = m->ending.count; n > 0; n--)
    end_lane(m, &m->lane[pop(&m->ending)]);
  if (m->never_ran != NULL && !m->policy_changed && m->todo.count == 0) {
    uvs_never_ran_cb each = m->never_ran;

    m->never_ran = NULL;
    each(seen_as(m), 0, NULL, m->never_ran_arg); /* the last call */
  }
  if (can_terminate(m)) {
    m->terminated = true;
    if (m->o.on_terminated != NULL)
      m->o.on_terminated(seen_as(m));
  }
  for (int i = 0; i < m->top && model_is_closed(m); i++)
    if (m->task[i].state == OVER)
      drop_unclaimed(&m->task[i]);
}

/* ---- open and close ---- */

struct model *model_open(const uvs_options_t *o) {
  struct model *m = calloc(1, sizeof *m);

  if (m == NULL)
    abort();
  m->o = *o;
  if (o->on_error == uvs_ignore_errors)
    m->o.on_error = NULL;
  m->hooks = *o->hooks;
  m->kill_ns = UVS_NEVER;
  m->survive[UVS_DELAYED_TASKS] = o->delayed_after_shutdown;
  m->survive[UVS_PERIODIC_TASKS] = o->periodic_after_shutdown;
  m->rejection = m->hooks.on_rejected != NULL && o->rejection_policy == 0 ? UVS_REJECT_ASK
                                                                          : o->rejection_policy;
  model_of_run = m;
  return m;
}

void model_free(struct model *m) {
  for (int i = 0; i < m->queues; i++)
    free(m->queue[i]);
  free(m);
}

void model_close(struct model *m) {
  m->closing = true;
  stop_now(m, NULL, NULL);
}

bool model_is_closed(struct model *m) {
  bool open = !m->terminated || m->now.count > 0;

  for (int i = 0; i < m->lanes; i++)
    open |= !m->lane[i].gone;
  return m->closing && !open;
}

/* ---- queues ---- */

int model_queue_open(struct model *m, const uvs_queue_options_t *o, struct model_queue **ret) {
  struct model_queue *q = calloc(1, sizeof *q);

  if (q == NULL || m->queues == MODEL_QUEUES)
    abort();
  q->m = m;
  q->left = o->on_left;
  q->left_arg = o->arg;
  q->ref = true;
  m->queue[m->queues++] = q;
  *ret = q;
  return 0;
}

static uvs_queue_t *queue_seen_as(struct model_queue *q) {
  return (uvs_queue_t *)(void *)q;
}

static uvs_entry_t take_out(struct model_queue *q, int i) {
  uvs_entry_t e = q->v[i].e;

  q->count--;
  memmove(&q->v[i], &q->v[i + 1], (size_t)(q->count - i) * sizeof q->v[0]);
  return e;
}

static bool head_is_due(const struct model_queue *q) {
  return q->count > 0 && q->v[0].e.due_ns != UVS_NEVER && q->v[0].e.due_ns <= now_of(q->m);
}

static bool shut_queue(struct model_queue *q) {
  if (q->closed)
    return false;
  q->closed = true;
  q->consume = NULL;
  while (q->count > 0) {
    uvs_entry_t e = take_out(q, 0);

    if (q->left != NULL)
      q->left(queue_seen_as(q), &e, q->left_arg);
  }
  return true;
}

int model_queue_close(struct model_queue *q) {
  if (q->opener_gone)
    return UV_EALREADY;
  q->opener_gone = true;
  shut_queue(q);
  return 0;
}

int model_queue_set_ref(struct model_queue *q, bool ref) {
  if (q->closed)
    return UV_ESHUTDOWN;
  q->ref = ref;
  return 0;
}

int model_queue_has_ref(struct model_queue *q) {
  return q->closed ? UV_ESHUTDOWN : q->ref;
}

int model_queue_put_many(struct model_queue *q, uvs_entry_t *e, size_t n) {
  if (n == 0)
    return UV_EINVAL;
  for (size_t i = 0; i < n; i++)
    if (e[i].value == NULL)
      return UV_EINVAL;
  if (q->closed)
    return UV_ESHUTDOWN;
  for (size_t i = 0; i < n; i++) {
    int at = q->count;

    if (q->count == MODEL_VALUES)
      abort();
    e[i].item = ++q->m->last_item;
    if (e[i].due_ns < 0)
      e[i].due_ns = 0;
    while (at > 0 && q->v[at - 1].e.due_ns > e[i].due_ns) {
      q->v[at] = q->v[at - 1];
      at--;
    }
    q->v[at] = (struct value){e[i], ++q->last_seq};
    q->count++;
  }
  return 0;
}

int model_queue_poll(struct model_queue *q, uvs_entry_t *ret) {
  if (q->closed)
    return UV_ESHUTDOWN;
  if (!head_is_due(q))
    return UV_EAGAIN;
  *ret = take_out(q, 0);
  return 0;
}

int model_queue_consume(struct model_queue *q, uvs_value_cb cb, void *arg) {
  if (q->closed)
    return UV_ESHUTDOWN;
  q->consume = cb;
  q->consume_arg = arg;
  return 0;
}

static int deliver(struct model_queue *q, int n, uvs_value_cb each, void *arg) {
  uvs_entry_t out[MODEL_VALUES];

  for (int i = 0; i < n; i++)
    out[i] = take_out(q, 0);
  for (int i = 0; i < n && each != NULL; i++)
    each(queue_seen_as(q), &out[i], arg);
  return n;
}

int model_queue_drain(struct model_queue *q, int64_t n, uvs_value_cb each, void *arg) {
  int due = 0;

  if (each == NULL)
    return UV_EINVAL;
  if (q->closed)
    return UV_ESHUTDOWN;
  while (due < q->count && due < n && q->v[due].e.due_ns != UVS_NEVER &&
         q->v[due].e.due_ns <= now_of(q->m))
    due++;
  return deliver(q, due, each, arg);
}

int model_queue_clear(struct model_queue *q, uvs_value_cb each, void *arg) {
  return q->closed ? UV_ESHUTDOWN : deliver(q, q->count, each, arg);
}

static int remove_at(struct model_queue *q, int i, uvs_entry_t *ret) {
  if (i == q->count)
    return UV_ENOENT;
  *ret = take_out(q, i);
  return 0;
}

int model_queue_remove(struct model_queue *q, uvs_item_t item, uvs_entry_t *ret) {
  int i = 0;

  if (q->closed)
    return UV_ESHUTDOWN;
  while (i < q->count && q->v[i].e.item != item)
    i++;
  return remove_at(q, i, ret);
}

/* Of several equal pointers, the one that is due first. */
static int find_value(const struct model_queue *q, const void *value) {
  int i = 0;

  while (i < q->count && q->v[i].e.value != value)
    i++;
  return i;
}

int model_queue_remove_value(struct model_queue *q, const void *value, uvs_entry_t *ret) {
  return q->closed ? UV_ESHUTDOWN : remove_at(q, find_value(q, value), ret);
}

int model_queue_peek(struct model_queue *q, uvs_entry_t *ret) {
  if (q->closed)
    return UV_ESHUTDOWN;
  if (q->count == 0)
    return UV_ENOENT;
  *ret = q->v[0].e;
  return 0;
}

int model_queue_size(struct model_queue *q) {
  return q->closed ? UV_ESHUTDOWN : q->count;
}

int model_queue_contains(struct model_queue *q, const void *value) {
  return q->closed ? UV_ESHUTDOWN : find_value(q, value) < q->count;
}

int model_queue_each(struct model_queue *q, uvs_entry_cb each, void *arg) {
  struct value shot[MODEL_VALUES];
  int count = q->count;
  int rc = 0;

  if (each == NULL)
    return UV_EINVAL;
  if (q->closed)
    return UV_ESHUTDOWN;
  memcpy(shot, q->v, sizeof shot);
  for (int i = 0; i < count && rc == 0; i++)
    rc = each(queue_seen_as(q), &shot[i].e, arg);
  return rc;
}

/* Each consumer gets the due values that were in the queue before its first call. */
static void serve_queues(struct model *m) {
  for (int i = m->queues; i-- > 0;) { /* the newest first */
    struct model_queue *q = m->queue[i];
    uint64_t bound = q->last_seq;

    while (q->consume != NULL && head_is_due(q) && q->v[0].seq <= bound) {
      uvs_entry_t e = take_out(q, 0);

      q->consume(queue_seen_as(q), &e, q->consume_arg);
    }
  }
  for (int i = 0; i < m->queues; i++)
    m->queue[i]->seen_closed = m->queue[i]->closed;
}

static void close_queues(struct model *m) {
  for (int i = m->queues; i-- > 0;)
    shut_queue(m->queue[i]);
}
