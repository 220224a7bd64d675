/* SPDX-License-Identifier: MIT
 *
 * Tasks with a time limit, and the outcome of a run that exceeds it. For programs with the fixture.
 */
#ifndef TEST_LIMITED_H
#define TEST_LIMITED_H

#include "fixture.h"

enum { LIMIT_MS = 10 };
#define LIMIT_NS UVS_MS(LIMIT_MS)

/* The outcome on time-out: the default, a substitute that is a success, a substitute that is a
 * failure. */
enum { LATE_DEFAULT, LATE_VALUE, LATE_FAILURE, LATE_HOWS };

extern char limit_value[4]; /* results are addresses in here */
#define PRESET (&limit_value[0])

int late_status(int how);
void *late_result(int how);

/* Sets the time limit to LIMIT_NS and keeps the outcome. A success has the result PRESET. */
void limit_to(uvs_task_t *t, int how);
/* fixture_once, due now, with limit_to. */
uvs_task_t limited(struct fixture *f, int tag, int how);

/* uvs_wait without waiting. */
int peek(uvs_t *s, uvs_id_t id, unsigned flags, uvs_outcome_t *o);

#endif
