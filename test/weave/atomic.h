/* SPDX-License-Identifier: MIT
 *
 * Takes the place of src/port/atomic.h in the weave build (it is included before everything else,
 * and has that header's guard): each operation first asks who goes on. Not one line of src/ knows.
 *
 * A store that is not seq_cst may stay in its thread's buffer for a while, as on most processors
 * (weave_buffer_stores): others see it later, the thread itself at once. An operation that reads
 * and writes, a seq_cst store, and every lock empty the buffer.
 */
#ifndef UVS__ATOMIC_H
#define UVS__ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* One place in the source where an operation stands. */
struct weave_site {
  const char *what, *file;
  int line;
  bool writes;
  bool shared; /* what it touches was seen in the hands of two threads: here they may change */
};

void weave_step(struct weave_site *site, const volatile void *at);
void weave_store(volatile void *at, const void *value, size_t size, bool seq_cst);
bool weave_buffered(const volatile void *at, void *ret, size_t size);
void weave_flush(void);
void weave_after(void); /* what follows, of plain fields, is not yet read */
bool weave_fails(void); /* a CAS may, for no reason */

#define WEAVE_STEP(what, p, writes) \
  __extension__({ \
    static struct weave_site weave_site = {what, __FILE__, __LINE__, writes, false}; \
    weave_step(&weave_site, (const volatile void *)(p)); \
  })

/* Of what type is it when it is read? */
#define WEAVE_TYPE(p) __typeof__(atomic_load_explicit((p), memory_order_relaxed))

/* The place is looked for once, since that may take steps of its own. */
#define uvs__load(p, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value; \
    WEAVE_STEP("load " #p, weave_p, false); \
    if (!weave_buffered(weave_p, &weave_value, sizeof weave_value)) \
      weave_value = atomic_load_explicit(weave_p, memory_order_##order); \
    weave_value; \
  })
#define uvs__store(p, v, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value = (v); \
    WEAVE_STEP("store " #p, weave_p, true); \
    weave_store(weave_p, &weave_value, sizeof weave_value, \
                memory_order_##order == memory_order_seq_cst); \
  })
#define WEAVE_CHANGE(name, p, operation, ...) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_STEP(name " " #p, weave_p, true); \
    weave_flush(); \
    __auto_type weave_old = operation(weave_p, __VA_ARGS__); \
    weave_after(); \
    weave_old; \
  })
#define uvs__add(p, v, order) \
  WEAVE_CHANGE("add", p, atomic_fetch_add_explicit, (v), memory_order_##order)
#define uvs__sub(p, v, order) \
  WEAVE_CHANGE("sub", p, atomic_fetch_sub_explicit, (v), memory_order_##order)
#define uvs__and(p, v, order) \
  WEAVE_CHANGE("and", p, atomic_fetch_and_explicit, (v), memory_order_##order)
#define uvs__swap(p, v, order) \
  WEAVE_CHANGE("swap", p, atomic_exchange_explicit, (v), memory_order_##order)
#define uvs__cas(p, expected, v, order) \
  WEAVE_CHANGE("cas", p, WEAVE_CAS, (expected), (v), memory_order_##order)
#define WEAVE_CAS(p, expected, v, order) \
  (weave_fails() ? (*(expected) = atomic_load_explicit((p), memory_order_relaxed), false) \
                 : atomic_compare_exchange_strong_explicit((p), (expected), (v), order, \
                                                           memory_order_relaxed))

/* Inside a lock, and for statistics: no steps. */
#define uvs__locked_load(p, order) \
  __extension__({ \
    __auto_type weave_p = (p); \
    WEAVE_TYPE(weave_p) weave_value; \
    if (!weave_buffered(weave_p, &weave_value, sizeof weave_value)) \
      weave_value = atomic_load_explicit(weave_p, memory_order_##order); \
    weave_value; \
  })
#define WEAVE_LOCKED(p, operation, ...) (weave_flush(), operation((p), __VA_ARGS__))
#define uvs__locked_store(p, v, order) \
  WEAVE_LOCKED(p, atomic_store_explicit, (v), memory_order_##order)
#define uvs__locked_add(p, v, order) \
  WEAVE_LOCKED(p, atomic_fetch_add_explicit, (v), memory_order_##order)

#endif
