/* SPDX-License-Identifier: MIT
 *
 * pool: what is ready, who runs it, and the counts.
 *
 * Runners are uv_work_t of ours in libuv's pool, never more than `concurrency`. One lock guards the
 * ready list and every count, so that a snapshot adds up at every instant (V9): a runner ends one
 * task and takes the next in one critical section. No user code runs under it.
 */
#ifndef UVS__POOL_H
#define UVS__POOL_H

#include "agenda.h"
#include "stats.h"

#define UVS__CONCURRENCY_MAX 1024

/* First in, first out, through the slots' links. */
struct uvs__list {
  uint32_t head, tail;
};

struct uvs__runner {
  uv_work_t req;
  struct uvs__runner *next; /* idle, or about to be queued */
  struct uvs__runner *all;  /* made before this one */
  void *arg;
  int index;
  uint64_t home_ns, called_ns; /* as the pool's, when it took its task */
  /* Light tasks that it retired, for the loop to learn of when it comes home. */
  uint64_t retired, retired_ref;
  struct uvs__cell cell; /* of its runs; who has the runner writes */
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
  _Atomic int concurrency; /* written under the lock */
  /* Tasks accepted and not settled, ref'd ones in the upper half. Submit adds before its push; who
   * settles subtracts. */
  _Atomic uint64_t load;
  /* Tasks started (and light ones retired) on their submitters' threads, for the loop to learn of;
   * packed as load is, and below zero now and then. */
  _Atomic uint64_t here;

  uv_cond_t settled; /* with the lock: a task whose outcome is kept has settled or become quiet */
  uv_mutex_t lock;   /* what follows */
  struct uvs__list ready;
  uint64_t ready_count[2]; /* for the pool, for the loop: uvs__on_which() */
  uint64_t running_count;  /* settled ones not counted */
  uint64_t ended[UVS__OUTCOMES];
  uint64_t runs, failed_runs, missed, rejected;
  uint32_t callers;   /* submissions that run their tasks on their own thread */
  uint64_t home_ns;   /* the last runner went home and left tasks ready, */
  uint64_t called_ns; /* and the loop called some out again */
  uint32_t seeking;   /* runners queued that have not yet looked for work */
  uint32_t active;    /* runners with a body */
  uint32_t peak;
  uint32_t out; /* runners in libuv's hands */
  struct uvs__runner *idle;
  struct uvs__runner *all;
  int made;
};

/* Which of the two ready counts a READY word is in. */
static inline unsigned uvs__on_which(uint64_t w) {
  return (w & UVS__ONLOOP) != 0;
}

#define UVS__LOAD_ONE UINT64_C(1)
#define UVS__LOAD_REF (UINT64_C(1) << 32)

int uvs__pool_init(struct uvs__pool *p, struct uvs__agenda *a, const uvs_allocator_t *mem,
                   void *runner_arg);
void uvs__pool_destroy(struct uvs__pool *p);
/* In a forked child, where the lock may be held by a thread that does not exist. */
void uvs__pool_free_memory(struct uvs__pool *p);

/* Any thread. 0, UV_ENOMEM: nothing has changed. */
int uvs__pool_set_concurrency(struct uvs__pool *p, int concurrency);
/* Any thread: every runner made so far, linked by `all`; they stay until the pool is destroyed. */
struct uvs__runner *uvs__pool_runners(struct uvs__pool *p);

/* A task that was in the state of w is settled: count it. Returns what load is now. Locked: the
 * caller has the lock. */
uint64_t uvs__pool_settle_locked(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome);

/* The outcome is decided: CAS of the slot's word from *w to `to`, and counted, in one. On failure
 * *w is what is there now. *ret_load (may be NULL): what load is then. */
bool uvs__pool_decide(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t to,
                      enum uvs__outcome outcome, uint64_t *ret_load);

/* Move 6: CAS of the slot's word from *w to cancelled, and counted, in one. Waiting or ready: it is
 * ENDED|INBOX as well; running: it stays so. `flags` are added. On failure *w is what is there now.
 * *ret_load (may be NULL): what load is then. */
bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags,
                      uint64_t *ret_load);

/* The same of a task that the rejection policy drops. */
bool uvs__pool_drop(struct uvs__pool *p, uint32_t slot, uint64_t *w);

/* With the lock: take the first ready task and make it RUNNING; UVS__NONE if there is none. */
uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__list *list);
/* READY to RUNNING and off its list, not to run but for its end. On failure *w is what is there
 * now. */
bool uvs__pool_withdraw(struct uvs__pool *p, struct uvs__list *list, uint32_t slot, uint64_t *w);

/* Loop thread: runners to be queued now, linked by `next`; and one that came home or could not be
 * queued. */
struct uvs__runner *uvs__pool_call_out(struct uvs__pool *p, uint64_t now_ns);
void uvs__pool_home(struct uvs__pool *p, struct uvs__runner *r);

void uvs__list_init(struct uvs__list *l);
void uvs__list_append(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot);
/* Harmless if it is not linked any more. */
void uvs__list_unlink(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot);

#endif
