/* SPDX-License-Identifier: MIT
 *
 * Four programs that wait for the same five jobs, side by side on a virtual clock: one that looks
 * every second, one that sleeps until its first job is due and does not notice new jobs meanwhile,
 * a delay queue, and a timer wheel with 8 slots that moves once a second. The table shows how late
 * each job is, how often each program wakes up, and what it costs to add a job.
 *
 *   four_ways [--fast]     --fast: without the cost in ns, so that the output is always the same
 *                          (four_ways.expected) */
#include <stdbool.h>
#include <uvsched/queue.h>
#include <uvsched/settings.h>

#include "expect.h"

#define IDLE 0
#define MANY 4000 /* jobs in the queue when the cost of one more is measured */

struct job {
  int64_t delay_ns;
  int64_t due_ns;
  int64_t done_ns;
  int turns;        /* turns of the wheel that are still to come */
  struct job *next; /* in a list of one of the programs */
};

/* Put in one after the other at the start, in this order. */
static const int64_t delays_ns[] = {UVS_SEC(100), UVS_SEC(10), UVS_SEC(4), UVS_SEC(20),
                                    UVS_MS(2700)};
enum { JOBS = sizeof delays_ns / sizeof delays_ns[0] };

static int64_t now_ns; /* the virtual clock */
static int done;       /* jobs */

static void run(struct job *j) {
  j->done_ns = now_ns;
  done++;
}

/* ------------------------------------------------------------- 1: polling --- */

static struct {
  struct job *jobs; /* in no order */
  int64_t next_look_ns;
} poller;

static void poller_put(struct job *j) {
  j->next = poller.jobs;
  poller.jobs = j;
}

static int64_t poller_wakes(void) {
  return poller.next_look_ns;
}

static void poller_wake(void) {
  for (struct job **link = &poller.jobs; *link != NULL;) {
    struct job *j = *link;
    if (j->due_ns > now_ns) {
      link = &j->next;
      continue;
    }
    *link = j->next;
    run(j);
  }
  poller.next_look_ns = now_ns + UVS_SEC(1);
}

/* ---------------------------------------------------- 2: sleep until head --- */

static struct {
  struct job *jobs; /* the first one is due first */
  int64_t sleeps_until_ns;
} sleeper;

static void sleeper_put(struct job *j) {
  struct job **link = &sleeper.jobs;
  while (*link != NULL && (*link)->due_ns <= j->due_ns)
    link = &(*link)->next;
  j->next = *link;
  *link = j;
  if (sleeper.sleeps_until_ns == IDLE) /* while it sleeps, it does not notice new jobs */
    sleeper.sleeps_until_ns = j->due_ns;
}

static int64_t sleeper_wakes(void) {
  return sleeper.sleeps_until_ns;
}

static void sleeper_wake(void) {
  while (sleeper.jobs != NULL && sleeper.jobs->due_ns <= now_ns) {
    run(sleeper.jobs);
    sleeper.jobs = sleeper.jobs->next;
  }
  sleeper.sleeps_until_ns = sleeper.jobs == NULL ? IDLE : sleeper.jobs->due_ns;
}

/* --------------------------------------------------------- 3: delay queue --- */

static struct {
  uv_loop_t loop;
  uvs_t *s;
  uvs_queue_t *queue;
} delayer;

static int64_t read_clock(void *arg) {
  (void)arg;
  return now_ns;
}

static void on_due(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q, (void)arg;
  run(e->value);
}

static void delayer_open(void) {
  uvs_options_t o;
  uvs_options_init(&o);
  o.clock.monotonic_ns = read_clock;
  o.clock.wall_ns = read_clock;
  EXPECT(uv_loop_init(&delayer.loop) == 0 && uvs_open(&delayer.loop, &o, &delayer.s) == 0);
  EXPECT(uvs_queue_open(delayer.s, NULL, &delayer.queue) == 0);
  EXPECT(uvs_queue_consume(delayer.queue, on_due, NULL) == 0);
}

static void delayer_close(void) {
  EXPECT(uvs_queue_close(delayer.queue) == 0 && uvs_close(delayer.s, NULL) == 0);
  uv_run(&delayer.loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&delayer.loop) == 0);
}

static void delayer_put(struct job *j) {
  EXPECT(uvs_queue_put_at(delayer.queue, j, j->due_ns, NULL) == 0);
}

static int64_t delayer_wakes(void) {
  int64_t due_ns;
  EXPECT(uvs_next_due(delayer.s, &due_ns) == 0);
  return due_ns;
}

static void delayer_wake(void) {
  EXPECT(uvs_clock_changed(delayer.s) == 0);
  uv_run(&delayer.loop, UV_RUN_NOWAIT);
}

/* --------------------------------------------------------------- 4: wheel --- */

enum { SLOTS = 8 };

static struct {
  struct job *slots[SLOTS];
  int64_t ticks;
  bool tells;
} wheel;

static void wheel_put(struct job *j) {
  int64_t tick = (j->due_ns + UVS_SEC(1) - 1) / UVS_SEC(1); /* never early */
  int slot = (int)(tick % SLOTS);
  j->turns = (int)((tick - wheel.ticks - 1) / SLOTS);
  j->next = wheel.slots[slot];
  wheel.slots[slot] = j;
  if (wheel.tells)
    printf("  %5.1f s -> slot %d%s", (double)j->delay_ns / 1e9, slot, j->turns == 0 ? "\n" : "");
  if (wheel.tells && j->turns > 0)
    printf(" after %d turn%s\n", j->turns, j->turns == 1 ? "" : "s");
}

static int64_t wheel_wakes(void) {
  return UVS_SEC(wheel.ticks + 1);
}

static void wheel_wake(void) {
  struct job **link = &wheel.slots[++wheel.ticks % SLOTS];
  while (*link != NULL) {
    struct job *j = *link;
    if (j->turns-- > 0) {
      link = &j->next;
      continue;
    }
    *link = j->next;
    run(j);
  }
}

/* ------------------------------------------------------------ side by side --- */

static const struct way {
  const char *name, *cost;
  void (*put)(struct job *j);
  int64_t (*wakes)(void); /* when it wakes up by itself */
  void (*wake)(void);
} ways[] = {
    {"polling, every second", "O(1)", poller_put, poller_wakes, poller_wake},
    {"sleep until the head", "O(n)", sleeper_put, sleeper_wakes, sleeper_wake},
    {"delay queue", "O(log n)", delayer_put, delayer_wakes, delayer_wake},
    {"wheel, 8 slots of 1 s", "O(1)", wheel_put, wheel_wakes, wheel_wake},
};
enum { WAYS = sizeof ways / sizeof ways[0] };

struct result {
  int wake_ups;
  int64_t worst_ns, sum_ns;
  double cost_ns;
};

static void empty_all(void) {
  memset(&poller, 0, sizeof poller);
  memset(&sleeper, 0, sizeof sleeper);
  memset(&wheel, 0, sizeof wheel);
  now_ns = 0;
  done = 0;
}

static struct result wait_for_five(const struct way *w) {
  struct job jobs[JOBS] = {{0}};
  struct result r = {0};

  empty_all();
  delayer_open();
  wheel.tells = true;
  printf("%s\n", w->name);
  for (int i = 0; i < JOBS; i++) {
    jobs[i].delay_ns = jobs[i].due_ns = delays_ns[i];
    w->put(&jobs[i]);
  }
  uv_run(&delayer.loop, UV_RUN_NOWAIT);
  while (done < JOBS) {
    int64_t next_ns = w->wakes();
    if (next_ns > now_ns)
      now_ns = next_ns;
    r.wake_ups++;
    w->wake();
  }
  for (int i = 0; i < JOBS; i++) {
    int64_t late_ns = jobs[i].done_ns - jobs[i].due_ns;
    EXPECT(late_ns >= 0);
    if (late_ns > 0)
      printf("  the %.1f s job comes %.1f s late\n", (double)jobs[i].delay_ns / 1e9,
             (double)late_ns / 1e9);
    if (late_ns > r.worst_ns)
      r.worst_ns = late_ns;
    r.sum_ns += late_ns;
  }
  if (r.sum_ns == 0)
    printf("  all in time\n");
  delayer_close();
  return r;
}

/* The cost of adding one more job while MANY wait, by the real clock. */
static double measure(const struct way *w) {
  struct job *jobs = calloc(2 * MANY, sizeof *jobs);
  uint32_t random = 1;
  uint64_t start_ns = 0;
  double cost_ns;

  EXPECT(jobs != NULL);
  empty_all();
  delayer_open();
  for (int i = 0; i < 2 * MANY; i++) {
    random = random * 1664525 + 1013904223;
    jobs[i].due_ns = UVS_MS(1 + (random >> 8));
    if (i == MANY)
      start_ns = uv_hrtime();
    w->put(&jobs[i]);
  }
  cost_ns = (double)(uv_hrtime() - start_ns) / MANY;
  delayer_close();
  free(jobs);
  return cost_ns;
}

int main(int argc, char **argv) {
  bool fast = argc > 1 && strcmp(argv[1], "--fast") == 0;
  struct result results[WAYS];

  for (int i = 0; i < WAYS; i++) {
    results[i] = wait_for_five(&ways[i]);
    if (!fast)
      results[i].cost_ns = measure(&ways[i]);
    printf("\n");
  }
  printf("%-22s %14s %14s %9s  %s\n", "", "worst lateness", "sum of all", "wake-ups",
         "cost per insert");
  for (int i = 0; i < WAYS; i++) {
    const struct result *r = &results[i];
    printf("%-22s %12.1f s %12.1f s %9d  %s", ways[i].name, (double)r->worst_ns / 1e9,
           (double)r->sum_ns / 1e9, r->wake_ups, ways[i].cost);
    if (!fast)
      printf(", %.0f ns among %d others", r->cost_ns, MANY);
    printf("\n");
  }
  EXPECT(results[1].worst_ns >= UVS_SEC(90) && results[2].worst_ns == 0);
  EXPECT(results[2].wake_ups == JOBS);
  return 0;
}
