/* SPDX-License-Identifier: MIT
 *
 * crew: the runners of one executor, and how many of them are needed. This is the part of a crew
 * that the lock protects; pool/crew.h has the rest.
 */
#ifndef UVS__CORE_CREW_H
#define UVS__CORE_CREW_H

#include "core/ready.h"
#include "core/tuning.h"

struct uvs__runner;

/* A listener that is called when a pool of own threads is resized: pool/threadpool.c. */
struct uvs__resize_watch {
  struct uvs__resize_watch *next;
  struct uvs__resize_watch **link; /* the pointer to this watch; NULL: it is not linked */
  void (*resized)(void *arg);      /* any thread, under the pool's lock: must not call the pool */
  void *arg;
};

struct uvs__crew {
  uint32_t startable; /* tasks that could start now, if there were enough runners */
  uint32_t seeking;   /* runners that were sent and have not yet looked for work */
  uint32_t active;    /* runners that run a body */
  uint32_t out;       /* runners that were sent and are not yet back */
  uint32_t brief;     /* rises with brief runs, falls with long ones: pool/runner.c */
  uint32_t body_ns;   /* average length of a body with its hooks */
  uint32_t rest_ns;   /* average rest of a run: the previous run's end, this run's start */
  int concurrency;
  uint64_t starts;         /* runs started */
  uint64_t idle_since_ns;  /* when the last active runner became idle */
  uint64_t recalled_ns;    /* when the loop sent the next runner after that */
  struct uvs__ready ready; /* tasks that may start */
  /* The fields below are seldom used. */
  uint64_t starts_seen, seen_ns;         /* `starts` at the last review, and when: pool/runner.c */
  const struct uvs_executor_s *executor; /* NULL: libuv's pool */
  struct uvs_threads_s *own; /* the pool made for this crew, and closed with it; NULL: none */
  struct uvs__gate *gate;    /* of the lane that owns this crew; NULL: the scheduler owns it */
  bool follows;              /* `concurrency` is the executor's own number ... */
  int most;                  /* ... but at most this: more cannot be used */
  int reserved;              /* runners that are reserved for this crew */
  bool listed;               /* the crew is on the list of crews that have something to start: */
  struct uvs__crew *prev, *next;
  struct uvs__resize_watch watch; /* wakes the loop, if `executor` is a pool that can be resized */
};

/* All runners of a scheduler. All crews share them, and each crew has some reserved. They are freed
 * with the scheduler, since each runner holds the statistics of its runs. */
struct uvs__runners {
  struct uvs__runner *idle; /* by `next` */
  struct uvs__runner *all;  /* by `all` */
  int made;
  int reserved;
  uint32_t out;
};

/* All of these need the lock. */

/* `startable` of a lane's own crew has changed: puts the crew on the list of crews that have
 * something to start, or takes it off. */
void uvs__crew_list(uvs_t *s, struct uvs__crew *c);
/* Moves a crew that is on that list to its end. */
void uvs__crew_requeue(uvs_t *s, struct uvs__crew *c);
/* Is one runner as fast as several? If a body takes less time than ending one run and starting the
 * next, several runners would only wait for each other. */
static inline bool uvs__crew_is_alone(const struct uvs__crew *c) {
  return c->brief >= UVS__BRIEF_MANY && c->body_ns < c->rest_ns;
}
/* Should one more runner be sent now? Waking a thread takes longer than a brief run. So after many
 * brief runs the loop sends one runner for every 32 tasks, or one runner for all of them
 * (uvs__crew_is_alone). This ends when runs are long, or when no run starts for 1 ms.
 * *ret_held_back: no runner is sent, although there are more tasks than runners. */
static inline bool uvs__crew_wants(const struct uvs__crew *c, bool *ret_held_back) {
  uint32_t wanted;

  *ret_held_back = false;
  if (c->startable <= c->seeking || (int)c->out >= c->concurrency)
    return false;
  if (c->brief < UVS__BRIEF_MANY)
    return true;
  wanted = uvs__crew_is_alone(c) ? 1 : (c->startable + UVS__PER_RUNNER - 1) / UVS__PER_RUNNER;
  *ret_held_back = wanted <= c->seeking + c->active;
  return !*ret_held_back;
}
/* Is a runner on its way back? Its return wakes the loop. */
static inline bool uvs__crew_returns(const struct uvs__crew *c, uint32_t lingering) {
  return c->out > c->active + c->seeking + lingering;
}

#endif
