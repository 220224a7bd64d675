/* SPDX-License-Identifier: MIT
 *
 * Task bodies for programs with the fixture: bodies that do nothing, bodies that run until they are
 * asked to stop, bodies that are held one by one, and bodies that wait at a gate.
 */
#ifndef TEST_BODIES_H
#define TEST_BODIES_H

#include "fixture.h"

int work_nothing(uvs_run_t *run);

/* Runs until it is asked to stop, but not for ever, in case nobody asks. */
int work_endless(uvs_run_t *run);
int act_endless(struct probe *p, uvs_run_t *run); /* the same for a probe's `act` */

/* Makes each run of the task answer as the script says: run n as its n-th letter, later runs as the
 * last letter. '.' is success, 'x' UV_EIO, 's' UVS_STOP, 'p' UVS_PENDING. The second function is
 * for a probe's `act`. */
void follow_script(uvs_task_t *t, const char *script);
int act_script(struct probe *p, uvs_run_t *run);

/* A copy of t with UVS_FAIL_RETRY and such a script. */
uvs_task_t retried(uvs_task_t t, int64_t retry_ns, const char *script);

/* A `done` that increments its arg, an _Atomic int. */
void done_counts(uvs_t *s, uvs_id_t id, int status, void *arg);

/* A body that blocks until it is released, or, with token_ends, until it is asked to stop. */
struct hold {
  _Atomic int inside, open, saw_token;
  _Atomic int left; /* set as the last thing before the body returns */
  bool token_ends;
  void *give;
  int ret;
};

int hold_act(struct probe *p, uvs_run_t *run); /* p->data: a hold */
int hold_work(uvs_run_t *run);                 /* its arg: a hold */
/* A task with a kept outcome, a probe and hold_act as its body. Clears *h. */
uvs_task_t held_task(struct fixture *f, int tag, struct hold *h);

/* The gate: bodies block in it until they are released or asked to stop. It needs a real pool.
 * There is one gate, for one test at a time. */
void gate_init(bool stop_ends); /* a body whose token is raised may leave too */
void gate_let(int n);           /* n more bodies may leave */
int gate_inside(void);
int gate_peak(void); /* the most bodies inside at once since the last call */
/* For a probe's `act`. Returns the probe's `ret`. */
int gate_pass(struct probe *p, uvs_run_t *run);
/* Waits until n bodies are inside the gate. Returns false after PATIENCE_NS. gate_wait runs the
 * loop while it waits. */
bool gate_wait(struct fixture *f, int n);
bool gate_await(int n);

#endif
