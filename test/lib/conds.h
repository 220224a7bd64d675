/* SPDX-License-Identifier: MIT
 *
 * Observes condition variables: which threads sleep, how many wake-ups are sent, and time-outs that
 * take no real time. For one file of a program that wraps uv_cond_wait, uv_cond_timedwait,
 * uv_cond_signal and uv_hrtime (CONDS in test/meson.build).
 *
 * A wait with a time-out does not sleep (unless conds.real is set): for its thread alone, uv_hrtime
 * jumps to the end of the time-out. Before the wait returns, conds.meanwhile is called on that
 * thread without the lock, as if another thread had come in just then.
 */
#ifndef TEST_CONDS_H
#define TEST_CONDS_H

#include "fixture.h"

static struct {
  _Atomic bool real;        /* waits with a time-out really sleep */
  _Atomic int asleep;       /* threads in a wait without a time-out */
  _Atomic int timed;        /* number of waits with a time-out so far */
  _Atomic int64_t patience; /* sum of their time-outs */
  _Atomic int signals;      /* number of signals sent */
  void (*falls_asleep)(
      void);               /* may be NULL; called with the lock, before a wait without time-out */
  void (*wakes)(void);     /* may be NULL; called without the lock, after such a wait */
  void (*meanwhile)(void); /* may be NULL; called once */
  _Atomic int early;       /* this many waits with a time-out wake up spuriously, half-way */
} conds;

static _Thread_local uint64_t believed_ns; /* added to uv_hrtime on this thread */

uint64_t __real_uv_hrtime(void);
uint64_t __wrap_uv_hrtime(void);
void __real_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex);
int __real_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *mutex, uint64_t timeout_ns);
int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *mutex, uint64_t timeout_ns);
void __real_uv_cond_signal(uv_cond_t *cond);
void __wrap_uv_cond_signal(uv_cond_t *cond);

uint64_t __wrap_uv_hrtime(void) {
  return __real_uv_hrtime() + believed_ns;
}

void __wrap_uv_cond_wait(uv_cond_t *cond, uv_mutex_t *mutex) {
  atomic_fetch_add(&conds.asleep,
                   1); /* under the lock: the next thread that locks it sees this one asleep */
  if (conds.falls_asleep != NULL)
    conds.falls_asleep();
  __real_uv_cond_wait(cond, mutex);
  atomic_fetch_sub(&conds.asleep, 1);
  if (conds.wakes != NULL) {
    uv_mutex_unlock(mutex);
    conds.wakes();
    uv_mutex_lock(mutex);
  }
}

int __wrap_uv_cond_timedwait(uv_cond_t *cond, uv_mutex_t *mutex, uint64_t timeout_ns) {
  void (*meanwhile)(void) = conds.meanwhile;

  atomic_fetch_add(&conds.timed, 1);
  if (atomic_load(&conds.real)) {
    int rc;

    atomic_fetch_add(&conds.asleep, 1);
    rc = __real_uv_cond_timedwait(cond, mutex, timeout_ns);
    atomic_fetch_sub(&conds.asleep, 1);
    return rc;
  }
  if (atomic_load(&conds.early) > 0) {
    atomic_fetch_sub(&conds.early, 1);
    atomic_fetch_add(&conds.patience, (int64_t)timeout_ns / 2);
    believed_ns += timeout_ns / 2;
    return 0;
  }
  if (meanwhile != NULL) {
    conds.meanwhile = NULL;
    uv_mutex_unlock(mutex);
    meanwhile();
    uv_mutex_lock(mutex);
  }
  atomic_fetch_add(&conds.patience, (int64_t)timeout_ns);
  believed_ns += timeout_ns;
  return UV_ETIMEDOUT;
}

void __wrap_uv_cond_signal(uv_cond_t *cond) {
  atomic_fetch_add(&conds.signals, 1);
  __real_uv_cond_signal(cond);
}

/* Resets everything except the number of sleeping threads. */
static inline void conds_forget(void) {
  atomic_store(&conds.real, false);
  atomic_store(&conds.timed, 0);
  atomic_store(&conds.patience, 0);
  atomic_store(&conds.signals, 0);
  atomic_store(&conds.early, 0);
  conds.falls_asleep = NULL;
  conds.wakes = NULL;
  conds.meanwhile = NULL;
}

/* Waits until exactly `asleep` threads sleep. Returns false after PATIENCE_NS. */
static inline bool conds_await(int asleep) {
  uint64_t end_ns = __real_uv_hrtime() + (uint64_t)PATIENCE_NS;

  while (atomic_load(&conds.asleep) != asleep && __real_uv_hrtime() < end_ns)
    uv_sleep(1);
  return atomic_load(&conds.asleep) == asleep;
}

#endif
