/* SPDX-License-Identifier: MIT
 *
 * cleanup: actions that were attached to a task or a lane, for the loop to call at its end.
 *
 * Each waits on the list of its task until the loop calls it, in order. CLEANUP in a task's word
 * says that its list is not empty: so the task visits the loop, and is not freed before. What comes
 * too late for that goes on the list of those that are called at the next turn.
 *
 * What is wanted as soon as the outcome is decided is then on both lists, since the end of the task
 * may be faster than that turn, and must not come before it. Whichever list has its turn first
 * calls it; the other one frees it.
 *
 * The lists are under the pool's lock. Only the loop takes something off them (and whoever
 * unmakes a task).
 */
#ifndef UVS__CLEANUP_H
#define UVS__CLEANUP_H

#include "task.h"

/* Which list: of its task or lane; to be called at the next turn. */
enum { UVS__CLEANUP_OWN, UVS__CLEANUP_NOW, UVS__CLEANUP_LISTS };

struct uvs__cleanup {
  uvs_cleanup_cb cb; /* NULL: it was called */
  void *arg;
  bool when_settled;
  uint8_t lists; /* it is on so many */
  struct uvs__cleanup *next[UVS__CLEANUP_LISTS];
};

struct uvs__cleanup_list {
  struct uvs__cleanup *first, *last;
};

/* A scheduler's. */
struct uvs__cleanups {
  /* The task whose actions were called last. What other threads attach to it is too late, or they
   * could keep it from its end. */
  uvs_id_t ending;
  _Atomic(struct uvs__cleanup_list *) of[UVS__CHUNKS]; /* by slot; made when needed */
  struct uvs__cleanup_list now;                        /* to be called at the next turn */
  bool closing; /* the scheduler closes: from others none to what is over, or they could go on, and
                   fill the memory, for as long as they like */
  bool shut;    /* and everything is over: no more of them */
};

/* With the lock: is one that would be for now refused? */
bool uvs__cleanup_refused_locked(const uvs_t *s, bool on_loop);
/* With the lock: onto its own list; to be called at the next turn. The caller sees to it that there
 * is one. */
void uvs__cleanup_append_locked(struct uvs__cleanup_list *l, struct uvs__cleanup *a);
void uvs__cleanup_now_locked(uvs_t *s, struct uvs__cleanup *a);
/* With the lock: those of the list that are wanted when it is settled. True if there were any. */
bool uvs__cleanup_settled_locked(uvs_t *s, struct uvs__cleanup_list *l);
/* Any thread: the task that had the word w, while it ran, is settled since. */
void uvs__cleanup_settled(uvs_t *s, uint32_t slot, uint64_t w);
/* Any thread: the task was not accepted after all. */
void uvs__cleanup_unmade(uvs_t *s, uint32_t slot);
/* Any thread: a turn, soon. */
void uvs__cleanup_call_loop(uvs_t *s);

/* Loop thread; these call back. Of a task that has ended: all. */
void uvs__cleanup_task(uvs_t *s, uint32_t slot);
/* Of a list: all. */
void uvs__cleanup_list(uvs_t *s, struct uvs__cleanup_list *l);
/* Those for this turn, until the time is over. True if some are left. */
bool uvs__cleanup_turn(uvs_t *s, uint64_t until_ns);
/* Are some to be called at the next turn? */
bool uvs__cleanup_any(uvs_t *s);
/* The scheduler closes. */
void uvs__cleanup_close(uvs_t *s);
/* And everything is over: no more of them. False if there are some to be called,
 * at a turn that is on its way. */
bool uvs__cleanup_shut(uvs_t *s);

/* An allocated one. UV_EINVAL, UV_ENOMEM. */
int uvs__cleanup_make(uvs_t *s, uvs_cleanup_cb cb, void *arg, unsigned flags,
                      struct uvs__cleanup **ret);
/* No thread is left that could call one: free them. */
void uvs__cleanup_forget_list(uvs_t *s, struct uvs__cleanup_list *l);
void uvs__cleanup_forget(uvs_t *s);

#endif
