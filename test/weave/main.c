/* SPDX-License-Identifier: MIT
 *
 * weave [--short | --long] [--scene ROOM[/NAME]] ...: runs the scenes. Each scene runs under every
 * schedule with up to two preemptions, if these are not too many, and under many random schedules.
 *
 *   --list                   list the scenes
 *   --scene ROOM[/NAME]      only these; up to 8 times
 *   --short, --long          time and number of schedules per scene (short: about a minute in all)
 *   --preemptions N          default 2
 *   --all N                  run all schedules only if there are at most N; 0: do not
 *   --random N               number of random schedules
 *   --seed N, --first N      the seed (default: SEED=N in the environment), and the number of the
 *                            first random schedule
 *   --no-buffers             every store is visible immediately
 *   --replay 'STEP:N,...'    one schedule, as a failure prints it
 *   --trace                  print each step
 *   --jobs N                 number of processes, at most 8; each takes the next scene
 *   --expect-failure         fail if no schedule fails: for mutants
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "scenes.h"

static const struct weave_scene *const rooms[] = {
    scenes_wake,      scenes_submit, scenes_control,  scenes_pause,  scenes_limit,
    scenes_interrupt, scenes_recur,  scenes_calendar, scenes_runner, scenes_lane,
    scenes_queue,     scenes_wait,   scenes_close};

#define WANTED 8
#define JOBS 8

struct wish {
  const char *scene[WANTED]; /* none: all */
  int scenes;
  struct weave_order all, random;
  const char *schedule;
  int jobs;
  bool expect_failure;
};

struct sum {
  unsigned scenes, complete;
  unsigned long long schedules;
};

/* Shared by the processes. */
struct work {
  atomic_uint next; /* the next scene that no process has taken */
  struct sum sum[JOBS];
};

static double seconds(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool matches(const struct weave_scene *s, const char *which) {
  size_t n = strlen(s->room);

  if (strcmp(which, s->room) == 0)
    return true;
  return strncmp(which, s->room, n) == 0 && which[n] == '/' && strcmp(which + n + 1, s->name) == 0;
}

static bool wanted(const struct weave_scene *s, const struct wish *w) {
  bool found = w->scenes == 0;

  for (int i = 0; i < w->scenes; i++)
    found |= matches(s, w->scene[i]);
  return found;
}

static void play(const struct weave_scene *s, const struct wish *w, struct sum *sum) {
  struct weave_report all = {0}, chance = {0};
  double began = seconds();

  if (w->schedule != NULL) {
    struct weave_order o = w->all;

    o.mode = WEAVE_REPLAY;
    o.schedule = w->schedule;
    weave_explore(s, &o);
    printf("%s/%s: that schedule is fine\n", s->room, s->name);
    return;
  }
  if (w->all.most > 0)
    all = weave_explore(s, &w->all);
  if (w->random.most > 0)
    chance = weave_explore(s, &w->random);
  sum->scenes++;
  sum->complete += all.complete;
  sum->schedules += all.schedules + chance.schedules;
  printf("%-7s %-36s %u threads, up to %5u steps; %8llu %s, %7llu by chance; %5.1f s\n", s->room,
         s->name, all.strands > chance.strands ? all.strands : chance.strands,
         (unsigned)(all.steps > chance.steps ? all.steps : chance.steps),
         (unsigned long long)all.of_all, all.complete ? "= all" : "of all",
         (unsigned long long)chance.schedules, seconds() - began);
  fflush(stdout);
}

/* The n-th of the wanted scenes, or NULL. */
static const struct weave_scene *nth(const struct wish *w, unsigned n) {
  for (size_t r = 0; r < sizeof rooms / sizeof rooms[0]; r++) {
    for (const struct weave_scene *s = rooms[r]; s->name != NULL; s++) {
      if (wanted(s, w) && n-- == 0)
        return s;
    }
  }
  return NULL;
}

static void play_some(const struct wish *w, struct work *work, struct sum *sum) {
  const struct weave_scene *s;

  while ((s = nth(w, atomic_fetch_add(&work->next, 1))) != NULL)
    play(s, w, sum);
}

/* The first failure ends the other processes. */
static int play_in_processes(const struct wish *w, struct work *work) {
  pid_t child[JOBS];
  int rc = 0;

  for (int i = 0; i < w->jobs; i++) {
    child[i] = fork();
    if (child[i] == 0) {
      play_some(w, work, &work->sum[i]);
      exit(0);
    }
  }
  for (int i = 0; i < w->jobs; i++) {
    int status;

    if (wait(&status) < 0 || status == 0 || rc != 0)
      continue;
    rc = 1;
    for (int k = 0; k < w->jobs; k++)
      kill(child[k], SIGKILL);
  }
  return rc;
}

static int play_all(const struct wish *w) {
  static const struct weave_order once = {.mode = WEAVE_REPLAY, .schedule = ""};
  struct work *work =
      mmap(NULL, sizeof *work, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  struct sum sum = {0, 0, 0};
  double began = seconds();

  if (w->schedule == NULL)
    printf("seed %llu\n", (unsigned long long)w->random.seed);
  fflush(stdout);
  weave_explore(&scene_to_begin_with, &once);
  if (w->jobs > 1 && play_in_processes(w, work) != 0)
    return 1;
  play_some(w, work, &work->sum[0]); /* does nothing if other processes took all scenes */
  for (int i = 0; i < JOBS; i++) {
    sum.scenes += work->sum[i].scenes;
    sum.complete += work->sum[i].complete;
    sum.schedules += work->sum[i].schedules;
  }
  if (w->schedule == NULL)
    printf("%u scenes, %llu schedules; of %u scenes all with up to %u preemptions; %.0f s\n",
           sum.scenes, sum.schedules, sum.complete, w->all.preemptions, seconds() - began);
  return sum.scenes > 0 || w->schedule != NULL ? 0 : 2;
}

static void list(void) {
  for (size_t r = 0; r < sizeof rooms / sizeof rooms[0]; r++) {
    for (const struct weave_scene *s = rooms[r]; s->name != NULL; s++)
      printf("%s/%s\n", s->room, s->name);
  }
}

/* In a child process, since a failure ends the process. */
static int expect_failure(const struct wish *w) {
  int status;
  pid_t child;

  fflush(stdout);
  child = fork();
  if (child == 0)
    exit(play_all(w));
  waitpid(child, &status, 0);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 1) {
    printf("caught\n");
    return 0;
  }
  printf("NOT CAUGHT\n");
  return 1;
}

static void set_length(struct wish *w, bool is_long) {
  w->all.most = is_long ? 300000 : 5000;
  w->random.most = is_long ? 100000 : 3000;
}

int main(int argc, char **argv) {
  struct wish w = {
      .all = {.mode = WEAVE_ALL, .preemptions = 2},
      .random = {.mode = WEAVE_RANDOM, .buffers = true},
  };
  const char *seed = getenv("SEED");

  set_length(&w, false);
  w.random.seed =
      seed == NULL ? (uint64_t)time(NULL) ^ (uint64_t)getpid() << 32 : strtoull(seed, NULL, 10);
  for (int i = 1; i < argc; i++) {
    const char *a = argv[i];
    const char *value = i + 1 < argc ? argv[i + 1] : "";
    bool used = true;

    if (strcmp(a, "--scene") == 0 && w.scenes < WANTED)
      w.scene[w.scenes++] = value;
    else if (strcmp(a, "--preemptions") == 0)
      w.all.preemptions = (unsigned)atoi(value);
    else if (strcmp(a, "--all") == 0)
      w.all.most = strtoull(value, NULL, 10);
    else if (strcmp(a, "--random") == 0)
      w.random.most = strtoull(value, NULL, 10);
    else if (strcmp(a, "--seed") == 0)
      w.random.seed = strtoull(value, NULL, 10);
    else if (strcmp(a, "--first") == 0)
      w.random.first = strtoull(value, NULL, 10), w.all.most = 0;
    else if (strcmp(a, "--replay") == 0)
      w.schedule = value;
    else if (strcmp(a, "--jobs") == 0 && atoi(value) <= JOBS)
      w.jobs = atoi(value);
    else
      used = false;
    if (used) {
      i++;
      continue;
    }
    if (strcmp(a, "--list") == 0) {
      list();
      return 0;
    } else if (strcmp(a, "--short") == 0) {
      set_length(&w, false);
    } else if (strcmp(a, "--long") == 0) {
      set_length(&w, true);
    } else if (strcmp(a, "--trace") == 0) {
      w.all.trace = w.random.trace = true;
    } else if (strcmp(a, "--no-buffers") == 0) {
      w.random.buffers = false;
    } else if (strcmp(a, "--expect-failure") == 0) {
      w.expect_failure = true;
    } else {
      fprintf(stderr, "weave: what is %s?\n", a);
      return 2;
    }
  }
  return w.expect_failure ? expect_failure(&w) : play_all(&w);
}
