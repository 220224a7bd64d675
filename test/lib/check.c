/* SPDX-License-Identifier: MIT
 *
 * check: the invariant of a scheduler, asserted at every unlock of a test build (UVS__CHECKS).
 *
 * One look at every task counts how many there are of each kind. Then every list, queue and counter
 * is compared with these numbers. If all members of a list say that they are in it, and the list
 * has as many members as there are such tasks, then no such task is missing in it.
 *
 * A small scheduler is checked at every unlock. A check looks at everything, so a large scheduler
 * is checked at every 1024th unlock, and a very large one less often: on average the checks look at
 * about four slots per unlock. UVS__CHECKS is 1, or a factor by which all checks become
 * rarer.
 */
#ifdef UVS__CHECKS

#include "lib/check.h"
#include "core/moves.h"

#define SMALL 256 /* slots and lanes together */
#define NOW_AND_THEN 1024
#define SLOTS_PER_UNLOCK 4

#define PLACES (UVS__WITH_CALLER + 1)

/* Totals over all tasks. */
struct tally {
  uint64_t state[UVS__STATES];
  uint64_t place[PLACES];
  uint64_t used_up;   /* FREE, but its generations are used up: never used again */
  uint64_t unsettled; /* RUNNING, and the outcome is open */
  uint64_t live;      /* not ended */
  uint64_t live_refs; /* not ended, and keeping the loop alive */
  uint64_t with_extra;
  uint64_t in_lanes[UVS__STATES]; /* tasks of lanes that have not ended */
  uint64_t ready_loop;            /* IN_READY: of the loop, of the scheduler's crew, ... */
  uint64_t ready_home;
  uint64_t ready_home_no_lane;
  uint64_t ready_lane_crews;
};

/* ---- one task ---- */

static bool place_is_legal(const uvs_t *s, const struct uvs__task *t) {
  const struct uvs__extra *x = uvs__extra(s, t);

  switch (t->state) {
  case UVS__WAITING:
    if (x != NULL && uvs__is_held_back(x))
      return t->place == UVS__NOWHERE || t->place == UVS__IN_OWED;
    return t->place == UVS__IN_DELAY || t->place == UVS__IN_WALL || t->place == UVS__IN_OWED ||
           t->place == UVS__IN_ARRIVALS || t->place == UVS__WITH_CALLER ||
           (t->place == UVS__NOWHERE &&
            (t->due_ns == UVS__NEVER || (x != NULL && (x->paused || x->held))));
  case UVS__READY:
    return t->place == UVS__IN_READY || t->place == UVS__IN_GATE;
  case UVS__RUNNING:
  case UVS__ENDED:
    return t->place == UVS__IN_OWED || t->place == UVS__NOWHERE;
  default:
    return t->place == UVS__NOWHERE;
  }
}

static void check_task(const uvs_t *s, uint32_t slot, const struct uvs__task *t) {
  bool used_up = t->generation >= UVS__GENERATION_MAX;
  bool free = t->state == UVS__FREE;

  UVS_ASSERT(t->state < UVS__STATES);
  UVS_ASSERT(place_is_legal(s, t));
  UVS_ASSERT(uvs__slots_is_free(&s->table.tasks, slot) == (free && !used_up));
  UVS_ASSERT(free || !used_up);
  if (free) {
    UVS_ASSERT(t->extra == 0);
    return; /* a FREE slot keeps the flags of its last task */
  }
  UVS_ASSERT(uvs__class_of(t) < UVS__CLASSES);
  UVS_ASSERT(!uvs__has(t, UVS__KEPT) || t->extra != 0);
  UVS_ASSERT(t->kind == UVS_ONE_SHOT || t->extra != 0);
  if (t->extra != 0) {
    UVS_ASSERT((uint32_t)t->extra <= s->table.extras.made);
    UVS_ASSERT(!uvs__slots_is_free(&s->table.extras, (uint32_t)t->extra - 1));
    UVS_ASSERT(uvs__extra(s, t)->slot == slot);
  }
  if (t->extra != 0 && uvs__extra(s, t)->dropped[0] != NULL)
    UVS_ASSERT(t->place == UVS__IN_OWED);
  if (uvs__has(t, UVS__TOLD)) {
    UVS_ASSERT(t->state == UVS__ENDED);
    UVS_ASSERT(t->place == UVS__NOWHERE);
    UVS_ASSERT(uvs__has(t, UVS__KEPT)); /* else it would be FREE */
    UVS_ASSERT(uvs__extra(s, t)->gate == NULL);
  }
  if (t->state == UVS__WAITING || t->state == UVS__READY)
    UVS_ASSERT(!uvs__is_settled(t));
  if (t->place == UVS__IN_DELAY || t->place == UVS__IN_WALL) {
    UVS_ASSERT(uvs__has(t, UVS__WALL) == (t->place == UVS__IN_WALL));
    UVS_ASSERT(t->due_ns < UVS__NEVER);
  }
}

static void count_ready(uvs_t *s, const struct uvs__task *t, const struct uvs__gate *g,
                        struct tally *n) {
  const struct uvs__ready *r = uvs__ready_of(s, t);

  if (r == &s->loop_ready) {
    n->ready_loop++;
  } else if (r == &s->home.ready) {
    n->ready_home++;
    n->ready_home_no_lane += g == NULL;
  } else {
    n->ready_lane_crews++;
  }
}

static void count_task(uvs_t *s, const struct uvs__task *t, struct tally *n) {
  bool over = t->state == UVS__FREE || uvs__has(t, UVS__TOLD);
  const struct uvs__gate *g = over || t->extra == 0 ? NULL : uvs__extra(s, t)->gate;

  n->state[t->state]++;
  n->place[t->place]++;
  n->used_up += t->generation >= UVS__GENERATION_MAX;
  n->unsettled += t->state == UVS__RUNNING && !uvs__is_settled(t);
  n->live += !over;
  n->live_refs += !over && uvs__has(t, UVS__REF);
  n->with_extra += t->extra != 0;
  n->in_lanes[t->state] += g != NULL;
  if (t->place == UVS__IN_READY)
    count_ready(s, t, g, n);
}

static void check_tasks(uvs_t *s, struct tally *ret) {
  *ret = (struct tally){0};
  for (uint32_t slot = 0; slot < s->table.tasks.made; slot++) {
    check_task(s, slot, uvs__task(s, slot));
    count_task(s, uvs__task(s, slot), ret);
  }
}

/* ---- tables ---- */

static uint64_t taken(const struct uvs__slots *t) {
  uint64_t all = ((uint64_t)UVS__CHUNK_FIRST << t->chunks) - UVS__CHUNK_FIRST;

  return all - t->free;
}

static void check_tables(const uvs_t *s, const struct tally *n) {
  UVS_ASSERT(uvs__slots_check(&s->table.tasks));
  UVS_ASSERT(uvs__slots_check(&s->table.extras));
  UVS_ASSERT(taken(&s->table.tasks) == s->table.tasks.made - n->state[UVS__FREE] + n->used_up);
  UVS_ASSERT(taken(&s->table.extras) == n->with_extra);
  UVS_ASSERT(s->unfiled <= s->table.tasks.reserved);
}

/* ---- counts ---- */

static void check_counts(const uvs_t *s, const struct tally *n) {
  const struct uvs__counts *c = &s->counts;
  uint64_t ended = 0;

  for (int i = 0; i < UVS__OUTCOMES; i++)
    ended += c->ended[i];
  UVS_ASSERT(c->submitted == ended + c->waiting + c->ready + c->running); /* V9 */
  UVS_ASSERT(c->waiting == n->state[UVS__WAITING] + s->unfiled);
  UVS_ASSERT(c->ready == n->state[UVS__READY]);
  UVS_ASSERT(c->running == n->unsettled);
  UVS_ASSERT(c->runners <= c->peak_runners);
  UVS_ASSERT(s->live == n->live + s->unfiled);
  /* Nothing says which unfiled tasks keep the loop alive. */
  UVS_ASSERT(s->live_refs >= n->live_refs);
  UVS_ASSERT(s->live_refs <= n->live_refs + s->unfiled);
  UVS_ASSERT(!s->terminated || (s->shut && s->live == 0));
}

/* ---- delay queues and limits ---- */

/* The task of an entry in a heap that is indexed by extra record. */
static const struct uvs__task *task_of_entry(const uvs_t *s, const struct uvs__heap_entry *e) {
  uint32_t index = uvs__heap_slot(e);
  const struct uvs__extra *x;
  const struct uvs__task *t;

  UVS_ASSERT(index < s->table.extras.made);
  x = uvs__slots_at(&s->table.extras, index);
  UVS_ASSERT(x->slot < s->table.tasks.made);
  t = uvs__task(s, x->slot);
  UVS_ASSERT(t->extra == (uint64_t)index + 1);
  return t;
}

static void check_wall(const uvs_t *s, const struct tally *n) {
  const struct uvs__heap *h = &s->table.wall;

  UVS_ASSERT(uvs__heap_check(h));
  for (uint32_t i = 0; i < h->count; i++) {
    const struct uvs__heap_entry *e = uvs__heap_nth(h, i);
    const struct uvs__task *t = task_of_entry(s, e);

    UVS_ASSERT(t->place == UVS__IN_WALL);
    UVS_ASSERT(e->deadline_ns == (uvs__is_asked_for(uvs__extra(s, t)) ? 0 : t->due_ns));
  }
  UVS_ASSERT(h->count == n->place[UVS__IN_WALL]);
}

/* A limit that has passed leaves the heap before its run ends. So not every run with a limit is in
 * the heap. */
static void check_limits(const uvs_t *s) {
  const struct uvs__heap *h = &s->table.limits;

  UVS_ASSERT(uvs__heap_check(h));
  for (uint32_t i = 0; i < h->count; i++) {
    const struct uvs__heap_entry *e = uvs__heap_nth(h, i);
    const struct uvs__task *t = task_of_entry(s, e);

    UVS_ASSERT(t->state == UVS__READY || t->state == UVS__RUNNING);
    UVS_ASSERT(uvs__extra(s, t)->limit_due_ns == e->deadline_ns);
  }
}

static void check_delay(const uvs_t *s, const struct tally *n) {
  UVS_ASSERT(uvs__delay_check(&s->delay));
  UVS_ASSERT(s->delay.count == n->place[UVS__IN_DELAY]);
}

/* ---- lists ---- */

/* Checks that the tasks from `first` to `last` are linked both ways and are all at this place.
 * Returns their number. The walk ends: in a cycle, one task would have two predecessors. */
static uint64_t check_task_list(const uvs_t *s, uint32_t first, uint32_t last,
                                enum uvs__place place) {
  uint32_t previous = UVS__NONE;
  uint64_t count = 0;

  for (uint32_t slot = first; slot != UVS__NONE; slot = uvs__link_at(&s->table, slot)->b) {
    UVS_ASSERT(slot < s->table.tasks.made);
    UVS_ASSERT(uvs__task(s, slot)->place == place);
    UVS_ASSERT(uvs__link_at(&s->table, slot)->a == previous);
    previous = slot;
    count++;
  }
  UVS_ASSERT(last == previous);
  return count;
}

static void check_lists(const uvs_t *s, const struct tally *n) {
  const struct uvs__list *owed = &s->at.owed;
  const struct uvs__list *arrivals = &s->at.arrivals;

  UVS_ASSERT(check_task_list(s, owed->first, owed->last, UVS__IN_OWED) == n->place[UVS__IN_OWED]);
  UVS_ASSERT(check_task_list(s, arrivals->first, arrivals->last, UVS__IN_ARRIVALS) ==
             n->place[UVS__IN_ARRIVALS]);
}

/* ---- lanes ---- */

/* Totals over all gates. */
struct gate_sums {
  uint64_t waiting; /* tasks that are WAITING; these are in no gate, but in a delay queue */
  uint64_t ready, running, live;
  uint64_t in_gate;
  uint64_t promised_home;    /* by gates whose crew is the scheduler's */
  uint64_t ready_lane_crews; /* in the ready lists of the lanes' own crews */
};

/* Checks the list of a lane's tasks that have not ended, and counts them by state. A sweep
 * (loop/close.c) takes tasks off this list before they end. */
static void check_gate_tasks(const uvs_t *s, const struct uvs__gate *g,
                             uint64_t ret_count[UVS__STATES]) {
  uint32_t previous = UVS__NONE;
  uint32_t slot = g->first_task;

  for (int i = 0; i < UVS__STATES; i++)
    ret_count[i] = 0;
  while (slot != UVS__NONE) {
    const struct uvs__task *t;
    const struct uvs__extra *x;

    UVS_ASSERT(slot < s->table.tasks.made);
    t = uvs__task(s, slot);
    x = uvs__extra(s, t);
    UVS_ASSERT(x != NULL);
    UVS_ASSERT(x->gate == g);
    UVS_ASSERT(x->lane_previous == previous);
    UVS_ASSERT(t->state != UVS__FREE && t->state != UVS__ENDED);
    ret_count[t->state]++;
    previous = slot;
    slot = x->lane_next;
  }
  UVS_ASSERT(g->last_task == previous);
}

/* Returns the number of tasks that wait in the gate. */
static uint64_t check_gate_waiting(const uvs_t *s, const struct uvs__gate *g) {
  uint64_t count = check_task_list(s, g->first_waiting, g->last_waiting, UVS__IN_GATE);

  for (uint32_t slot = g->first_waiting; slot != UVS__NONE;
       slot = uvs__link_at(&s->table, slot)->b) {
    const struct uvs__extra *x = uvs__extra(s, uvs__task(s, slot));

    UVS_ASSERT(x != NULL);
    UVS_ASSERT(x->gate == g);
  }
  return count;
}

/* The first task of the lane is among the crew's ready tasks if the lane has room for its run. */
static void check_gate_next(const uvs_t *s, const struct uvs__gate *g) {
  uint32_t room = g->running >= g->width ? 0 : g->width - g->running;
  uint32_t promised = g->ready < room ? g->ready : room;

  if (g->next == UVS__NONE) {
    UVS_ASSERT(g->shut || room == 0 || g->first_waiting == UVS__NONE);
    UVS_ASSERT(g->promised == 0);
  } else {
    const struct uvs__task *t;

    UVS_ASSERT(g->next < s->table.tasks.made);
    t = uvs__task(s, g->next);
    UVS_ASSERT(t->place == UVS__IN_READY);
    UVS_ASSERT(uvs__extra(s, t) != NULL);
    UVS_ASSERT(uvs__extra(s, t)->gate == g);
    UVS_ASSERT(!g->shut);
    UVS_ASSERT(room > 0);
    UVS_ASSERT(g->promised == (uvs__has(t, UVS__ON_LOOP) ? 0 : promised));
  }
}

/* A lane that has a crew of its own. Returns how many tasks are in the crew's ready list. */
static uint32_t check_lane_crew(const uvs_t *s, const struct uvs__gate *g) {
  const struct uvs__crew *c = g->crew;

  UVS_ASSERT(c->gate == g);
  UVS_ASSERT(uvs__ready_check(&s->table, &c->ready));
  UVS_ASSERT(c->startable == g->promised);
  UVS_ASSERT(c->listed == (c->startable > 0));
  return c->ready.count;
}

static void check_gate(const uvs_t *s, const struct uvs__gate *g, struct gate_sums *sums) {
  uint64_t count[UVS__STATES];
  uint64_t in_gate = check_gate_waiting(s, g);

  UVS_ASSERT(g->scheduler == s);
  check_gate_tasks(s, g, count);
  check_gate_next(s, g);
  UVS_ASSERT(g->ready == count[UVS__READY]);
  UVS_ASSERT(g->ready == in_gate + (g->next != UVS__NONE));
  /* A sweep takes running tasks off the list. check_gates compares their number with the totals. */
  UVS_ASSERT(g->running == count[UVS__RUNNING] || (g->shut && g->running > count[UVS__RUNNING]));
  UVS_ASSERT(g->live >= count[UVS__WAITING] + g->ready + g->running);
  sums->waiting += count[UVS__WAITING];
  sums->ready += g->ready;
  sums->running += g->running;
  sums->live += g->live;
  sums->in_gate += in_gate;
  if (g->crew == &s->home)
    sums->promised_home += g->promised;
  else
    sums->ready_lane_crews += check_lane_crew(s, g);
}

static void check_gates(const uvs_t *s, const struct tally *n, struct gate_sums *ret) {
  const struct uvs__gate *previous = NULL;

  *ret = (struct gate_sums){0};
  for (const struct uvs__gate *g = s->gates; g != NULL; g = g->next_gate) {
    UVS_ASSERT(g->prev == previous);
    previous = g;
    check_gate(s, g, ret);
  }
  UVS_ASSERT(ret->waiting == n->in_lanes[UVS__WAITING]);
  UVS_ASSERT(ret->ready == n->in_lanes[UVS__READY]);
  UVS_ASSERT(ret->running == n->in_lanes[UVS__RUNNING]);
  UVS_ASSERT(ret->in_gate == n->place[UVS__IN_GATE]);
  /* `live` also counts calls that are about to add tasks. */
  UVS_ASSERT(ret->live >= ret->waiting + ret->ready + ret->running + n->in_lanes[UVS__ENDED]);
}

/* ---- ready tasks ---- */

static void check_ready(const uvs_t *s, const struct tally *n, const struct gate_sums *gates) {
  UVS_ASSERT(uvs__ready_check(&s->table, &s->loop_ready));
  UVS_ASSERT(uvs__ready_check(&s->table, &s->home.ready));
  UVS_ASSERT(s->loop_ready.count == n->ready_loop);
  UVS_ASSERT(s->home.ready.count == n->ready_home);
  UVS_ASSERT(gates->ready_lane_crews == n->ready_lane_crews);
  UVS_ASSERT(s->home.startable == n->ready_home_no_lane + gates->promised_home);
}

/* The list of lanes' own crews that have something to start. */
static void check_wanting(const uvs_t *s) {
  const struct uvs__crew *previous = NULL;
  uint32_t count = 0;

  for (const struct uvs__crew *c = s->wanting; c != NULL; c = c->next) {
    UVS_ASSERT(c->listed);
    UVS_ASSERT(c->gate != NULL);
    UVS_ASSERT(c->prev == previous);
    previous = c;
    count++;
  }
  UVS_ASSERT(s->wanting_last == previous);
  UVS_ASSERT(s->wanting_count == count);
}

/* ---- the whole check ---- */

/* The number of unlocks from one check to the next. */
static uint64_t interval(const uvs_t *s) {
  uint64_t size = s->table.tasks.made;

  for (const struct uvs__gate *g = s->gates; g != NULL && size <= SMALL; g = g->next_gate)
    size++;
  if (size <= SMALL)
    return 1;
  size /= SLOTS_PER_UNLOCK;
  return size < NOW_AND_THEN ? NOW_AND_THEN : size;
}

/* Counts the calls of all schedulers together. The count only makes the checks rarer. */
static bool is_time(const uvs_t *s) {
  static _Atomic uint32_t calls;
  uint32_t n = uvs__locked_add(&calls, 1, relaxed); /* a count */

  return n % UVS__CHECKS == 0 && n % (UVS__CHECKS * interval(s)) == 0;
}

void uvs__check_now(uvs_t *s) {
  struct tally n;
  struct gate_sums gates;

  check_tasks(s, &n);
  check_tables(s, &n);
  check_counts(s, &n);
  check_delay(s, &n);
  check_wall(s, &n);
  check_limits(s);
  check_lists(s, &n);
  check_gates(s, &n, &gates);
  check_ready(s, &n, &gates);
  check_wanting(s);
}

void uvs__check(uvs_t *s) {
  if (is_time(s))
    uvs__check_now(s);
}

#else
typedef int uvs__check_is_empty; /* ISO C wants a declaration in every file */
#endif
