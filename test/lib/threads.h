/* SPDX-License-Identifier: MIT
 *
 * Calls that another thread makes while the test waits for it. For programs with the fixture.
 */
#ifndef TEST_THREADS_H
#define TEST_THREADS_H

#include "fixture.h"

/* Calls run(arg) on a thread of its own and joins it. Returns its answer, or UV_EAGAIN if there is
 * no thread. */
int elsewhere(int (*run)(void *arg), void *arg);
/* The same without waiting: pass errand_main and a struct errand to uv_thread_create, then join. */
struct errand {
  int (*run)(void *arg);
  void *arg;
  int rc;
};

void errand_main(void *arg);

int submit_elsewhere(uvs_t *s, uvs_task_t t, uvs_id_t *ret_id); /* ret_id may be NULL */
int cancel_elsewhere(uvs_t *s, uvs_id_t id);

/* For `elsewhere`, with the scheduler as arg. */
int do_shutdown(void *s);
int do_shutdown_now(void *s); /* with probe_never_ran */
int do_shutdown_now_quietly(void *s);
int do_look(void *s); /* uvs_wait_terminated without waiting */

#endif
