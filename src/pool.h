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
  /* Light tasks that it retired, for the loop to learn of when it comes home. */
  uint64_t retired, retired_ref;
};

enum uvs__outcome { UVS__COMPLETED, UVS__FAILED, UVS__CANCELED, UVS__OUTCOMES };

struct uvs__pool {
  struct uvs__agenda *agenda; /* borrowed */
  const uvs_allocator_t *mem;
  void *runner_arg;
  _Atomic int concurrency; /* written under the lock */
  /* Tasks accepted and not settled, ref'd ones in the upper half. Submit adds before its push; who
   * settles subtracts. */
  _Atomic uint64_t load;

  uv_cond_t settled; /* with the lock: a task whose outcome is kept has settled or become quiet */
  uv_mutex_t lock;   /* what follows */
  struct uvs__list ready;
  uint64_t ready_count[2]; /* for the pool, for the loop: uvs__on_which() */
  uint64_t running_count;  /* settled ones not counted */
  uint64_t ended[UVS__OUTCOMES];
  uint64_t runs, missed, rejected;
  uint32_t seeking; /* runners queued that have not yet looked for work */
  uint32_t active;  /* runners with a body */
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

/* A task that was in the state of w is settled: count it. Returns what load is now. Locked: the
 * caller has the lock. */
uint64_t uvs__pool_settle_locked(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome);
uint64_t uvs__pool_settle(struct uvs__pool *p, uint64_t w, enum uvs__outcome outcome);

/* Move 6: CAS of the slot's word from *w to cancelled, and counted, in one. Waiting or ready: it is
 * ENDED|INBOX as well; running: it stays so. `flags` are added. On failure *w is what is there now.
 * *ret_load (may be NULL): what load is then. */
bool uvs__pool_cancel(struct uvs__pool *p, uint32_t slot, uint64_t *w, uint64_t flags,
                      uint64_t *ret_load);

/* With the lock: take the first ready task and make it RUNNING; UVS__NONE if there is none. */
uint32_t uvs__pool_start_locked(struct uvs__pool *p, struct uvs__list *list);

/* Loop thread: runners to be queued now, linked by `next`; and one that came home or could not be
 * queued. */
struct uvs__runner *uvs__pool_call_out(struct uvs__pool *p);
void uvs__pool_home(struct uvs__pool *p, struct uvs__runner *r);

void uvs__list_init(struct uvs__list *l);
void uvs__list_append(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot);
/* Harmless if it is not linked any more. */
void uvs__list_unlink(const struct uvs__agenda *a, struct uvs__list *l, uint32_t slot);

#endif
