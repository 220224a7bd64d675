/* SPDX-License-Identifier: MIT */
#include "inbox.h"

#define DEAD_PILE 1024

static _Atomic uint32_t *next_of(const struct uvs__inbox *b, uint32_t slot) {
  return &uvs__agenda_slot(b->agenda, slot)->next;
}

/* In the head, 0 is nothing. On a list, UVS__NONE is. */
static uint32_t slot_of(uint64_t head) {
  return (uint32_t)(head & ~UVS__SHUTDOWN_TAG) - 1;
}

void uvs__inbox_init(struct uvs__inbox *b, const struct uvs__agenda *agenda) {
  b->agenda = agenda;
  atomic_init(&b->head, 0);
  atomic_init(&b->next_wake, UVS__AWAKE); /* uvs_open sends once by itself */
  atomic_init(&b->dead, 0);
  atomic_init(&b->shutting, false);
}

bool uvs__inbox_push(struct uvs__inbox *b, uint32_t first, uint32_t last, bool fresh,
                     uint64_t due_ns, bool *ret_wake) {
  uint64_t old = uvs__load(&b->head, relaxed); /* the CAS decides */

  do {
    if (fresh && (old & UVS__SHUTDOWN_TAG) != 0)
      return false;
    /* The old head is only a number here: it may be taken and freed at any time. relaxed: the CAS
     * releases it. */
    uvs__store(next_of(b, last), slot_of(old), relaxed);
  } while (!uvs__cas(&b->head, &old, (old & UVS__SHUTDOWN_TAG) | ((uint64_t)first + 1), seq_cst));
  *ret_wake = uvs__inbox_must_wake(b, due_ns);
  return true;
}

bool uvs__inbox_push_locked(struct uvs__inbox *b, uint32_t first, uint32_t last) {
  uint64_t old = uvs__locked_load(&b->head, relaxed); /* the CAS decides */

  do {
    if ((old & UVS__SHUTDOWN_TAG) != 0)
      return false;
    uvs__locked_store(next_of(b, last), slot_of(old), relaxed); /* as in uvs__inbox_push */
  } while (!uvs__locked_cas(&b->head, &old, (uint64_t)first + 1, seq_cst));
  return true;
}

bool uvs__inbox_must_wake(struct uvs__inbox *b, uint64_t due_ns) {
  /* seq_cst, both the push and this load: pairs with store and load in uvs__inbox_sleep. Either we
   * see what the loop published, or it sees our push. */
  return due_ns < uvs__load(&b->next_wake, seq_cst);
}

bool uvs__inbox_add_dead(struct uvs__inbox *b) {
  return (uvs__add(&b->dead, 1, relaxed) + 1) % DEAD_PILE == 0; /* a count */
}

uint32_t uvs__inbox_take(struct uvs__inbox *b, uint32_t *ret_last, bool *ret_shutdown) {
  /* Always a read-modify-write, never load-and-skip: that orders a push against uv_async_send's
   * relaxed first load. seq_cst: acquires what the pushers wrote. */
  uint64_t head = uvs__and(&b->head, UVS__SHUTDOWN_TAG, seq_cst);
  uint32_t slot = slot_of(head);
  uint32_t turned = UVS__NONE;

  *ret_shutdown = (head & UVS__SHUTDOWN_TAG) != 0;
  *ret_last = slot;
  while (slot != UVS__NONE) {
    uint32_t next = uvs__load(next_of(b, slot), relaxed); /* ours since the take */

    uvs__store(next_of(b, slot), turned, relaxed);
    turned = slot;
    slot = next;
  }
  return turned;
}

bool uvs__inbox_sleep(struct uvs__inbox *b, uint64_t next_wake) {
  uvs__store(&b->next_wake, next_wake, seq_cst); /* pairs with uvs__inbox_push */
  if ((uvs__load(&b->head, seq_cst) & ~UVS__SHUTDOWN_TAG) == 0)
    return true;
  uvs__inbox_lower(b, UVS__AWAKE);
  return false;
}

void uvs__inbox_lower(struct uvs__inbox *b, uint64_t next_wake) {
  uvs__store(&b->next_wake, next_wake,
             relaxed); /* a producer that sees the old value sends for nothing */
}

uint64_t uvs__inbox_next_wake(struct uvs__inbox *b) {
  return uvs__load(&b->next_wake, relaxed); /* written by the loop thread only, which asks */
}

bool uvs__inbox_empty(struct uvs__inbox *b) {
  return (uvs__load(&b->head, relaxed) & ~UVS__SHUTDOWN_TAG) == 0; /* a look; taking decides */
}

void uvs__inbox_shut(struct uvs__inbox *b) {
  uvs__store(&b->shutting, true, relaxed);       /* the tag releases it */
  uvs__or(&b->head, UVS__SHUTDOWN_TAG, seq_cst); /* every push after this instant sees it */
}

bool uvs__inbox_is_shut(struct uvs__inbox *b) {
  return (uvs__load(&b->head, acquire) & UVS__SHUTDOWN_TAG) != 0; /* pairs with uvs__inbox_shut */
}
