/* SPDX-License-Identifier: MIT
 *
 * Delay queues for programs with the fixture: values that are characters, and threads that take
 * values.
 */
#ifndef TEST_VALUES_H
#define TEST_VALUES_H

#include "uvsched/queue.h"

#include "fixture.h"

/* value_of: a value that stands for a tag, a character. tag_of: the tag of a value, or '?'. */
void *value_of(int tag);
int tag_of_value(const void *value);

/* Opens a fixture whose loop has run once, and a queue whose `left` logs EV_NEVER_RAN. `f` must be
 * initialised; its options may have been changed. */
enum greatest_test_res queue_open(struct fixture *f, uvs_queue_t **ret);
/* Closes queue and fixture. The queue must be empty. */
enum greatest_test_res queue_close(struct fixture *f, uvs_queue_t *q);

/* Callbacks: log the value's tag. The arg is the fixture. */
void logs_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg);      /* EV_USER */
void logs_left_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg); /* EV_NEVER_RAN */
int logs_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg);       /* EV_USER; for each */

/* Puts value_of(tag), on this thread or on another thread that has ended on return. */
int put_ms(uvs_queue_t *q, int tag, int64_t delay_ms);
int put_ms_elsewhere(uvs_queue_t *q, int tag, int64_t delay_ms);
/* The tag of the value that poll returns, or poll's error code. */
int poll_tag(uvs_queue_t *q);
/* The tags of all values, in due order, from a snapshot. Valid until the next call. */
const char *tags_in(uvs_queue_t *q);

/* A thread in uvs_queue_take (timeout_ns 0), or in uvs_queue_poll_within. */
struct taker {
  uvs_queue_t *q;
  uvs_waiter_t *w; /* may be NULL */
  int64_t timeout_ns;
  uv_thread_t thread;
  int rc;
  uvs_entry_t e;
  int64_t at_ns;     /* uvs_now when it got the value */
  int64_t waited_ns; /* by uv_hrtime */
};

int taker_start(struct taker *t, uvs_queue_t *q, uvs_waiter_t *w, int64_t timeout_ns);
/* Joins the thread. Returns the tag, or the error code. */
int taker_join(struct taker *t);

#endif
