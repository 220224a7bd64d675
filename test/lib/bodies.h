/* SPDX-License-Identifier: MIT
 *
 * Bodies that do nothing, go on until they are asked to stop, are held one by one, or wait at a
 * gate. For programs with the fixture.
 */
#ifndef TEST_BODIES_H
#define TEST_BODIES_H

#include "fixture.h"

int work_nothing(uvs_run_t *run);

/* Goes on until it is asked to stop; and not for ever, should nobody ask. */
int work_endless(uvs_run_t *run);
int act_endless(struct probe *p, uvs_run_t *run); /* the same for a probe's `act` */

/* Makes each run of the task answer as a text says, run n as its n-th letter, the last one for
 * ever:
 * '.' success, 'x' UV_EIO, 's' UVS_STOP, 'p' UVS_PENDING. The second is its probe's `act`. */
void follow_script(uvs_task_t *t, const char *script);
int act_script(struct probe *p, uvs_run_t *run);

/* With UVS_FAIL_RETRY, and such a script. */
uvs_task_t retried(uvs_task_t t, int64_t retry_ns, const char *script);

/* A `done` whose arg is an _Atomic int that counts. */
void done_counts(uvs_t *s, uvs_id_t id, int status, void *arg);

/* A body that stays inside until it is let go, or until it is asked to stop if token_ends. */
struct hold {
  _Atomic int inside, open, saw_token;
  _Atomic int left; /* set as its last deed */
  bool token_ends;
  void *give;
  int ret;
};

int hold_act(struct probe *p, uvs_run_t *run); /* p->data: a hold */
int hold_work(uvs_run_t *run);                 /* its arg: a hold */
/* One that is kept, with a probe; clears *h. */
uvs_task_t held_task(struct fixture *f, int tag, struct hold *h);

/* The gate: bodies stay inside until they are let go, or until they are asked to stop. On a real
 * pool. There is one, for one test at a time. */
void gate_init(bool stop_ends); /* the token opens it too */
void gate_let(int n);           /* so many more may leave */
int gate_inside(void);
int gate_peak(void); /* most that were inside since the last call */
/* For a probe's `act`. The answer is the probe's `ret`. */
int gate_pass(struct probe *p, uvs_run_t *run);
/* Until so many are inside, or PATIENCE_NS are over: false. The first turns the loop meanwhile. */
bool gate_wait(struct fixture *f, int n);
bool gate_await(int n);

#endif
