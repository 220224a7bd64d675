/* SPDX-License-Identifier: MIT
 *
 * weave: threads of a test that take turns, one at a time, in an order that is chosen.
 *
 * A strand is such a thread: a stack of its own on the one thread that there is. Before each atomic
 * operation and each call of a lock (a step), and after each unlock, it may have to stop for
 * another. With a lock in its hands it stops only before it writes to an atomic: the rest is nobody
 * else's. A schedule is the list of those choices: the same choices make the same run, to the last
 * instruction. So a program of a few strands (a scene) can be run under every schedule with few
 * preemptions, or under many that chance has chosen, and each can be run again.
 *
 * A preemption: a strand that could go on has to stop. To go on when another sleeps is none.
 */
#ifndef WEAVE_H
#define WEAVE_H

#include "port/atomic.h"

#include <stdbool.h>
#include <stdint.h>

#define WEAVE_STRANDS 8
#define WEAVE_NEVER UINT64_MAX

/* ---- for scenes, and for the model of libuv ---- */

/* Another strand; returns its number. A servant may sleep for ever. */
int weave_spawn(const char *name, void (*fn)(void *arg), void *arg, bool servant);
/* Nobody stops anybody (at first, and at the end of a scene), or they do. */
void weave_calm(bool calm);
/* A step that no operation stands behind. */
void weave_here(void);
/* Let others go on; the strand itself only if there is none. */
void weave_yield(void);

/* Sleep until it is ready, or until_ns. False if the time was over first. */
bool weave_sleep(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns);
/* The same, of strand 0, until all others sleep for ever: then false. */
bool weave_rest(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns);

/* Time passes only when all sleep, or so. */
extern uint64_t weave_now_ns;
int weave_self(void); /* which strand; -1: none */
/* This strand has so many locks more, or fewer; how many it has. */
void weave_locked(int more);
int weave_locks(void);
bool weave_is_calm(void);
bool weave_is_over(int strand);
/* Which strand, of all but strand 0 and the servants, has not ended? NULL: all have. */
const char *weave_unfinished(void);

/* Something is wrong: says so, and how to see it again; does not return. */
#define WEAVE_CHECK(cond) ((cond) ? (void)0 : weave_fail("%s:%d: %s", __FILE__, __LINE__, #cond))
#define WEAVE_SAME(exp, got) \
  weave_same((long long)(exp), (long long)(got), #got, __FILE__, __LINE__)
void weave_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void weave_same(long long expected, long long got, const char *what, const char *file, int line);

/* ---- scenes ---- */

struct weave_scene {
  const char *room, *name;
  void (*play)(void); /* as strand 0; begins calm */
};

/* ---- for main ---- */

enum weave_mode { WEAVE_ALL, WEAVE_RANDOM, WEAVE_REPLAY };

struct weave_order {
  enum weave_mode mode;
  unsigned preemptions; /* ALL: at most so many */
  uint64_t most;        /* so many schedules at most */
  uint64_t seed;        /* RANDOM */
  uint64_t first;       /* RANDOM: begin with the schedule of this number */
  bool buffers;         /* RANDOM: half of the schedules with store buffers */
  const char *schedule; /* REPLAY: "12:1,40:2", as a failure has printed it */
  bool trace;           /* print each step */
};

struct weave_report {
  uint64_t schedules;
  uint64_t of_all;  /* ALL: without those before the last site was found to be shared */
  uint64_t steps;   /* of the longest */
  bool complete;    /* ALL: that was all of them */
  unsigned strands; /* most at once */
};

struct weave_report weave_explore(const struct weave_scene *scene, const struct weave_order *order);

#endif
