/* SPDX-License-Identifier: MIT
 *
 * weave: threads of a test that run one at a time, in a chosen order.
 *
 * A strand is such a thread: a stack of its own, all on one system thread. Before each atomic
 * operation and each call of a lock (a step), and after each unlock, a strand may be stopped so
 * that another one runs. While it holds a lock, it is stopped only before it writes to an atomic:
 * no other strand can see the rest. A schedule is the list of these choices. The same choices give
 * the same run, to the last instruction. So a program of a few strands (a scene) can be run under
 * every schedule with few preemptions, or under many random ones, and each can be repeated.
 *
 * A preemption: a runnable strand is stopped. Running because another strand sleeps is not a
 * preemption.
 */
#ifndef WEAVE_H
#define WEAVE_H

#include "port/atomic.h"

#include <stdbool.h>
#include <stdint.h>

#define WEAVE_STRANDS 8
#define WEAVE_NEVER UINT64_MAX

/* ---- for scenes, and for the model of libuv ---- */

/* Starts another strand and returns its number. A servant may sleep for ever. */
int weave_spawn(const char *name, void (*fn)(void *arg), void *arg, bool servant);
/* Turns preemptions off (at the start and the end of a scene), or on. */
void weave_calm(bool calm);
/* A step without an operation. */
void weave_here(void);
/* Lets other strands run; returns immediately if there is none. */
void weave_yield(void);

/* Sleeps until `ready` returns true, or until until_ns. Returns false if the time came first. */
bool weave_sleep(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns);
/* The same for strand 0, which also returns false when all others sleep for ever. */
bool weave_rest(bool (*ready)(const void *arg), const void *arg, uint64_t until_ns);

/* Time passes when all strands sleep. */
extern uint64_t weave_now_ns;
int weave_self(void); /* which strand; -1: none */
/* This strand takes `more` locks (negative: releases). weave_locks: how many it holds. */
void weave_locked(int more);
int weave_locks(void);
bool weave_is_calm(void);
bool weave_is_over(int strand);
/* The name of a strand, other than strand 0 and the servants, that has not ended, or NULL. */
const char *weave_unfinished(void);

/* Reports an error and how to repeat it. Does not return. */
#define WEAVE_CHECK(cond) ((cond) ? (void)0 : weave_fail("%s:%d: %s", __FILE__, __LINE__, #cond))
#define WEAVE_SAME(exp, got) \
  weave_same((long long)(exp), (long long)(got), #got, __FILE__, __LINE__)
void weave_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void weave_same(long long expected, long long got, const char *what, const char *file, int line);

/* ---- scenes ---- */

struct weave_scene {
  const char *room, *name;
  void (*play)(void); /* runs as strand 0; starts calm */
};

/* ---- for main ---- */

enum weave_mode { WEAVE_ALL, WEAVE_RANDOM, WEAVE_REPLAY };

struct weave_order {
  enum weave_mode mode;
  unsigned preemptions; /* ALL: maximum number */
  uint64_t most;        /* maximum number of schedules */
  uint64_t seed;        /* RANDOM */
  uint64_t first;       /* RANDOM: number of the first schedule */
  bool buffers;         /* RANDOM: half of the schedules with store buffers */
  const char *schedule; /* REPLAY: "12:1,40:2", as a failure has printed it */
  bool trace;           /* print each step */
};

struct weave_report {
  uint64_t schedules;
  uint64_t of_all;  /* ALL: since the last site was found to be shared */
  uint64_t steps;   /* of the longest */
  bool complete;    /* ALL: all schedules were run */
  unsigned strands; /* most at once */
};

struct weave_report weave_explore(const struct weave_scene *scene, const struct weave_order *order);

#endif
