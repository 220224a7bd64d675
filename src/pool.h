/* SPDX-License-Identifier: MIT
 *
 * pool: what is ready, who runs it, and the counts.
 *
 * Runners are jobs of ours in somebody's threads: libuv's pool, unless there is an executor. A crew
 * is those of one executor, never more than its `concurrency`. One lock guards everything that is
 * ready and every count, so that a snapshot adds up at every instant (V9): a runner ends one task
 * and takes the next in one critical section. No user code runs under it.
 *
 * Tasks of a lane wait in the lane for their turn. Only the first of them waits among all others,
 * and only if the lane has room for one more that runs; the next takes its place, behind all
 * others, when it starts. So lanes share the runners task by task, however much each has ready.
 */
#ifndef UVS__POOL_H
#define UVS__POOL_H

#include "agenda.h"
#include "stats.h"
#include "threads.h"
#include "turns.h"

#define UVS__CONCURRENCY_MAX 1024
#define UVS__BRIEF_NS 10000 /* a run that is over at once */
#define UVS__BRIEF_MANY 64
#define UVS__ALONE_NS 150 /* a body that is shorter than what is around it */

struct uvs__runner;

/* Who runs what an executor is for. Under the pool's lock. */
struct uvs__crew {
  const struct uvs_executor_s *executor; /* NULL: libuv's pool */
  struct uvs_threads_s *own;             /* made for this crew, and closed with it; or NULL */
  struct uvs__lane *lane;                /* whose it is; NULL: the scheduler's */
  bool follows;                          /* `concurrency` is what the executor says ... */
  int most;                              /* ... but not more, since no more can be used */
  bool listed;                           /* among those with something to start, by these: */
  struct uvs__crew *prev, *next;
  struct uvs__ready ready;      /* what may start */
  uint32_t startable;           /* so many could start at once, if there were runners */
  _Atomic int concurrency;      /* written under the lock */
  int reserved;                 /* runners that exist for it */
  uint32_t seeking;             /* runners on their way that have not yet looked for work */
  uint32_t active;              /* runners with a body */
  uint32_t out;                 /* runners in the executor's hands */
  uint32_t brief;               /* so many runs in a row were over at once; see wants_more */
  uint32_t usual_ns;            /* so long a body takes, about; see uvs__crew_alone */
  uint64_t starts, starts_seen; /* runs started, and at the last look that held runners back */
  uint64_t seen_ns;
  uint64_t home_ns;               /* the last runner went home and left tasks ready, */
  uint64_t called_ns;             /* and the loop called some out again */
  struct uvs__resize_watch watch; /* wakes the loop, if `executor` is a pool that can be resized */
};

/* Where bodies run, as the options of a scheduler or a lane say it. */
struct uvs__crew_options {
  const struct uvs_executor_s *executor; /* NULL: libuv's pool, or own threads */
  int threads;                           /* so many own ones; 0: none */
  const char *thread_name;
  int concurrency; /* -1: as the executor says ... */
  int most;        /* ... up to this */
};

/* A lane, as the pool sees it. Under the pool's lock. */
struct uvs__lane_turns {
  struct uvs__crew *crew;
  uint32_t width; /* most that run at once */
  uint32_t running;
  uint32_t ready;           /* waiting for their turn, with the one that is `next` */
  uint32_t next;            /* waits among all others; UVS__NONE */
  struct uvs__list waiting; /* the rest */
  uint32_t promised;        /* its part of the crew's `startable` */
  bool shut;                /* nothing starts any more */
};

struct uvs__runner {
  uv_work_t req;
  struct uvs__runner *next; /* idle, or about to be queued */
  struct uvs__runner *all;  /* made before this one */
  struct uvs__crew *crew;   /* while it is out */
  void *arg;
  int index;
  uint64_t home_ns, called_ns, starts; /* as the crew's, when it took its task */
  uint32_t ahead;                      /* and who was next then; a hint */
  uint32_t in_a_row;                   /* so many were its own, while others had a body */
  bool heavy, busy; /* its last body took long; and kept the core: see give_way in run.c */
  uint64_t shy_ns;  /* until then it does not give way */
  /* Light tasks that it retired, for the loop to learn of when it comes home. */
  uint64_t retired, retired_ref;
  struct uvs__cell cell; /* of its runs; who has the runner writes */
};

#define UVS__SHARES 8

/* What one producer in eight has submitted, in all; a line for itself. */
struct uvs__share {
  _Atomic uint64_t load; /* packed as the pool's, to be added to it */
  char apart[64 - sizeof(uint64_t)];
};

enum uvs__outcome {
  UVS__COMPLETED,
  UVS__FAILED,
  UVS__CANCELED,
  UVS__TIMED_OUT,
  UVS__DROPPED,
  UVS__OUTCOMES
};

struct uvs__pool {
  struct uvs__agenda *agenda; /* borrowed */
  const uvs_allocator_t *mem;
  void *runner_arg;
  /* Something has become the loop's to start, because of what somebody did to another task of its
   * lane. Set under the lock; who finds it so, after what he did, wakes the loop. */
  _Atomic bool due_news;
  /* There was a lane once. If not, no task has one, and its cold record need not be asked. Who
   * comes upon a task of a lane sees it: it was set before the lane had a number. */
  _Atomic bool with_lanes;

  char apart[64]; /* producers write what follows all the time, and share no line with others */
  /* Tasks accepted and not settled, ref'd ones in the upper half. Submit adds before its push; who
   * settles subtracts. What producers of plain tasks add stands in their shares. */
  _Atomic uint64_t load;
  /* Tasks started (and light ones retired) on their submitters' threads, for the loop to learn of;
   * packed as load is, and below zero now and then. */
  _Atomic uint64_t here;
  char apart_too[64]; /* and so do runners */

  uv_cond_t settled; /* with the lock: a task whose outcome is kept has settled or become quiet */
  uv_cond_t more;    /* with the lock: somebody who lingers is wanted */
  uv_mutex_t lock;   /* what follows */
  struct uvs__crew home;                    /* the scheduler's own */
  struct uvs__crew *wanting, *wanting_last; /* others, if they have something to start */
  uint32_t wanting_count;
  uint32_t lingering; /* runners of `home` that wait for more, see run.c, and are not yet wanted */
  uint32_t summoned;  /* so many are: they count as seeking */
  struct uvs__ready due;   /* what may start on the loop */
  uint64_t ready_count[2]; /* for a crew, for the loop: uvs__on_which() */
  uint64_t running_count;  /* settled ones not counted */
  uint64_t ended[UVS__OUTCOMES];
  uint64_t runs, failed_runs, missed, rejected;
  uint32_t callers; /* submissions that run their tasks on their own thread */
  uint32_t active;  /* of all crews */
  uint32_t peak;
  uint32_t out;
  int reserved;
  bool held_back; /* at the last look a crew was given fewer runners than tasks: look again soon */
  struct uvs__runner *idle;
  struct uvs__runner *all;
  int made;

  char apart_again[64];
  struct uvs__share share[UVS__SHARES]; /* any thread, without the lock */
};

/* Which of the two ready counts a READY word is in. */
static inline unsigned uvs__on_which(uint64_t w) {
  return (w & UVS__ONLOOP) != 0;
}

#define UVS__LOAD_ONE UINT64_C(1)
#define UVS__LOAD_REF (UINT64_C(1) << 32)

/* The shares of all. Who has read `load` before misses none that had settled by then: each was
 * added to its share before. */
static inline uint64_t uvs__pool_shares(const struct uvs__pool *p) {
  uint64_t sum = 0;

  for (int i = 0; i < UVS__SHARES; i++)
    sum += uvs__locked_load(&p->share[i].load, seq_cst); /* as uvs__any_ref says */
  return sum;
}

/* With the lock: is one runner as fast as several? Where runs take less time than it takes to end
 * one and to start the next, they would only wait for each other, and for memory that the other has
 * just written. */
static inline bool uvs__crew_alone(const struct uvs__crew *c) {
  return c->brief >= UVS__BRIEF_MANY && c->usual_ns < UVS__ALONE_NS;
}

/* For those who take the lock task after task: it is held for less time than it takes to fall
 * asleep and be woken. */
static inline void uvs__pool_lock(struct uvs__pool *p) {
  for (int i = 0; i < 64; i++) {
    if (uv_mutex_trylock(&p->lock) == 0)
      return;
    for (int j = 0; j < 8; j++)
      UVS__RELAX();
  }
  uv_mutex_lock(&p->lock);
}

int uvs__pool_init(struct uvs__pool *p, struct uvs__agenda *a, const uvs_allocator_t *mem,
                   void *runner_arg);
void uvs__pool_destroy(struct uvs__pool *p);

/* A task that was in the state of w is settled: count it. Locked: the caller has the lock. */
void uvs__pool_settle_locked(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome);

/* The outcome is decided: CAS of the slot's word from *w to `to`, and counted, in one. On failure
 * *w is what is there now. */
bool uvs__pool_decide(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t to,
                      enum uvs__outcome outcome);

/* Move 6: CAS of the slot's word from *w to cancelled, and counted, in one. Waiting or ready: it is
 * ENDED|INBOX as well; running: it stays so. `flags` are added. On failure *w is what is there now.
 */
bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags);

/* The same of a task that the rejection policy drops. */
bool uvs__pool_drop(struct uvs__pool *p, uint32_t slot, uint64_t *w);

/* With the lock: does it run on the loop, because there are no runners for it? */
bool uvs__pool_is_loops_locked(struct uvs__pool *p, uint32_t slot);
/* With the lock: it has just become READY, as w says. */
void uvs__pool_list_locked(struct uvs__pool *p, uint32_t slot, uint64_t w);
/* With the lock: take the task whose turn it is and make it RUNNING; UVS__NONE if there is none. */
uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__ready *ready);
/* READY to RUNNING and off its list, not to run but for its end. On failure *w is what is there
 * now. */
bool uvs__pool_withdraw(struct uvs__pool *p, uint32_t slot, uint64_t *w);
/* With the lock: it runs, and if its lane was disposed meanwhile it is cancelled, as by
 * uvs__pool_cancel, though the loop may not have come to it. *w is what is there now. */
void uvs__pool_heed_lane_locked(struct uvs__pool *p, uint32_t slot, uint64_t *w);
/* With the lock: its run has ended. */
void uvs__pool_ended_locked(struct uvs__pool *p, uint32_t slot);
/* Any thread, without the lock: see due_news. */
bool uvs__pool_take_news(struct uvs__pool *p);
/* What may start next on the pool, then on the loop; UVS__NONE. A look. */
uint32_t uvs__pool_first(struct uvs__pool *p);
/* Is something ready to start on the loop? Then there is no need of news. */
bool uvs__pool_is_due(struct uvs__pool *p);
/* Loop thread: with concurrency 0, what was ready for the pool is the loop's to run. */
void uvs__pool_take_over(struct uvs__pool *p);
/* With the lock: nothing of this lane starts any more. */
void uvs__pool_shut_lane_locked(struct uvs__pool *p, struct uvs__lane_turns *l);

/* ---- crew.c: the runners ---- */

/* Loop thread or before: who runs is `executor`, or so many own threads, or libuv's pool. For
 * concurrency -1 the executor is asked. 0; UV_EINVAL, UV_ENOMEM, or what uvs_threads_open answers.
 */
int uvs__crew_open(struct uvs__pool *p, struct uvs__crew *c, const struct uvs__crew_options *o);
/* From now on `resized` is called, on any thread, when its pool of threads is; until it is closed.
 */
void uvs__crew_watch(struct uvs__crew *c, void (*resized)(void *arg), void *arg);
/* Its runners are home: off the list, and what was made for it is closed. */
void uvs__crew_close(struct uvs__pool *p, struct uvs__crew *c);
/* Any thread. 0, UV_ENOMEM: nothing has changed. */
int uvs__crew_set_concurrency(struct uvs__pool *p, struct uvs__crew *c, int concurrency);
/* Loop thread: ask the executor, if it is to be asked. */
void uvs__crew_follow(struct uvs__pool *p, struct uvs__crew *c);
/* Any thread: every runner made so far, linked by `all`; they stay until the pool is destroyed. */
struct uvs__runner *uvs__pool_runners(struct uvs__pool *p);
/* With the lock, when the `startable` of a lane's own crew has changed: on the list, or off it. */
void uvs__crew_list_locked(struct uvs__pool *p, struct uvs__crew *c);
/* Loop thread: the next of all crews that has something to start and nobody on the way for it; the
 * scheduler's first. *left: how many to look at, UVS__NONE at first. Lanes may come and go between
 * two calls. */
struct uvs__crew *uvs__crew_that_wants(struct uvs__pool *p, uint64_t now_ns, uint32_t *left);
/* Loop thread: runners to be sent out now, linked by `next`. */
struct uvs__runner *uvs__crew_call_out(struct uvs__pool *p, struct uvs__crew *c, uint64_t now_ns);
/* Loop thread: one came home; one could not be sent out. True if that was the last that was out. */
bool uvs__crew_home(struct uvs__pool *p, struct uvs__runner *r);
bool uvs__crew_not_out(struct uvs__pool *p, struct uvs__runner *r);
bool uvs__crew_is_out(struct uvs__pool *p, const struct uvs__crew *c);
void uvs__crew_free_runners(struct uvs__pool *p);

#endif
