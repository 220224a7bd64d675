/* SPDX-License-Identifier: MIT
 *
 * inbox: the lock-free road from any thread to the loop, and when to wake it.
 *
 * A stack of slots: push is one CAS, the loop takes all at once and turns them round. Bit 63 of the
 * head is the shutdown tag: the CAS on the head is the instant of acceptance, so no submission is
 * lost between a check and a push.
 *
 * What costs is waking a sleeping loop, so the loop publishes when it will look by itself
 * (next_wake), and a producer sends only if its task is due earlier. The rule that is easy to
 * break: a raise of next_wake is followed by a look at the head.
 */
#ifndef UVS__INBOX_H
#define UVS__INBOX_H

#include "agenda.h"

#define UVS__SHUTDOWN_TAG UVS__BIT(63)
#define UVS__AWAKE 0 /* next_wake: the loop is inside tick(), or about to be: nobody sends */
#define UVS__ASLEEP UINT64_MAX /* next_wake: nothing is armed: everybody sends */

struct uvs__inbox {
  const struct uvs__agenda *agenda; /* whose slots; borrowed */
  _Atomic uint64_t next_wake;       /* AWAKE, ASLEEP, or the deadline that the timer is armed for */
  _Atomic uint32_t dead;            /* cancelled tasks that have not yet come in; see submit.c */
  _Atomic bool shutting;            /* the tag is set, or about to be */
  char apart[64];                   /* all read what is above; all write: */
  _Atomic uint64_t head;            /* tag, slot + 1 */
};

void uvs__inbox_init(struct uvs__inbox *b, const struct uvs__agenda *agenda);

/* Push the chain first .. last (linked by `next` from newest to oldest). `fresh`: a submission,
 * refused once the tag is set. Returns false if refused. *ret_wake: the caller must wake the loop;
 * due_ns 0 means: if it is asleep at all. Any thread. */
bool uvs__inbox_push(struct uvs__inbox *b, uint32_t first, uint32_t last, bool fresh,
                     uint64_t due_ns, bool *ret_wake);

/* The same of a submission under the pool's lock, so that it is accepted and counted at one
 * instant. Then, without the lock: must the caller wake the loop? */
bool uvs__inbox_push_locked(struct uvs__inbox *b, uint32_t first, uint32_t last);
bool uvs__inbox_must_wake(struct uvs__inbox *b, uint64_t due_ns);

/* One more cancelled task is about to be on its way, and only the loop can free it. Now and then it
 * has to be woken for that: true. Any thread. */
bool uvs__inbox_add_dead(struct uvs__inbox *b);

/* Take all. Returns the oldest, linked by `next` to the newest; UVS__NONE if empty. *ret_last is
 * the newest. Loop thread. */
uint32_t uvs__inbox_take(struct uvs__inbox *b, uint32_t *ret_last, bool *ret_shutdown);

/* Loop thread: the end of a turn. False if something has come meanwhile: look again. */
bool uvs__inbox_sleep(struct uvs__inbox *b, uint64_t next_wake);
/* Loop thread: the start of one, or an earlier wake-up than published. Lowering only costs a
 * needless send. */
void uvs__inbox_lower(struct uvs__inbox *b, uint64_t next_wake);
uint64_t uvs__inbox_next_wake(struct uvs__inbox *b);

bool uvs__inbox_empty(struct uvs__inbox *b);
void uvs__inbox_shut(struct uvs__inbox *b);
bool uvs__inbox_is_shut(struct uvs__inbox *b);
/* The same, but perhaps a moment too early, and without touching what producers write: for those
 * who then take the longer way. */
static inline bool uvs__inbox_is_shutting(const struct uvs__inbox *b) {
  return uvs__load(&b->shutting, acquire); /* who has seen the tag sees it */
}

#endif
