/* SPDX-License-Identifier: MIT
 *
 * A second implementation of the scheduler, as naive as possible: a table of tasks that is searched
 * linearly for every question, without threads, allocation or optimisation. It states the header's
 * promises a second time, so that driver.c can run one program on both and compare.
 *
 * It takes the same specs, calls the same callbacks and gives the same answers. A scheduler is a
 * `struct model *` here, and the `uvs_t *` that callbacks see is that pointer. Everything happens
 * on one thread, bodies run on the loop (concurrency 0), and model_turn is a loop pass.
 *
 * Where the header leaves an order open, the model does as the library does: see
 * docs/testing-model.md.
 */
#ifndef TEST_MODEL_H
#define TEST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "uvsched/control.h"
#include "uvsched/outcome.h"
#include "uvsched/settings.h"
#include "uvsched/stats.h"
#include "uvsched/lane.h"
#include "uvsched/queue.h"

#define MODEL_TASKS 128  /* at a time, including kept outcomes */
#define MODEL_LANES 128  /* in the life of a scheduler */
#define MODEL_QUEUES 4   /* the same */
#define MODEL_VALUES 128 /* at once in a queue */
#define MODEL_CLEANUPS 512

/* A calendar that the model understands: in each minute the seconds first, first + step, ... up to
 * last. */
struct model_calendar {
  struct uvs_calendar_s *calendar;
  int first, last, step;
};
#define MODEL_CALENDARS 3
extern struct model_calendar model_calendars[MODEL_CALENDARS];

struct model;

struct model *model_open(const uvs_options_t *o);
void model_free(struct model *m);

/* One pass of the loop. */
void model_turn(struct model *m);
/* uvs_close, and as many loop passes as it takes. */
void model_close(struct model *m);
bool model_is_closed(struct model *m);

/* Later calls come from another thread: the loop sees them later. */
void model_set_far(struct model *m, bool far);

/* n specs, as uvs_submit_many: 0, UVS_REPLACED or an error; through this lane, as uvs_lane_submit,
 * if narrow is not 0. */
int model_submit(struct model *m, const uvs_task_t *t, size_t n, uvs_lane_t narrow, uvs_id_t *ids);
int model_cancel(struct model *m, uvs_id_t id, unsigned flags);
int model_complete(struct model *m, uvs_id_t id, int status, void *result);
int model_cancelled(const uvs_run_t *run);
int model_reschedule(struct model *m, uvs_id_t id, int64_t delay_ns);
int model_pause(struct model *m, uvs_id_t id);
int model_resume(struct model *m, uvs_id_t id, unsigned flags);
int model_run_now(struct model *m, uvs_id_t id);
int model_pause_all(struct model *m);
int model_resume_all(struct model *m);
int model_next_runs(struct model *m, uvs_id_t id, int64_t *ret_ns, size_t n);
int model_find(struct model *m, const char *name, uvs_id_t *ret_id);
int model_finish(struct model *m, uvs_id_t id, int status);
int model_set_ref(struct model *m, uvs_id_t id, bool ref);
int model_has_ref(struct model *m, uvs_id_t id);
int model_add_cleanup(struct model *m, uvs_id_t id, uvs_cleanup_cb cb, void *arg, unsigned flags);
int model_set_result(uvs_run_t *run, void *result);
int model_wait(struct model *m, uvs_id_t id, int64_t timeout_ns, unsigned flags,
               uvs_outcome_t *ret);
int model_forget(struct model *m, uvs_id_t id);

int model_info(struct model *m, uvs_id_t id, uvs_info_t *ret);
int model_each(struct model *m, uvs_each_cb each, void *arg);
int model_counts(struct model *m,
                 uvs_counts_t *ret); /* not peak_runners, slots, heap_ops, wakeups */
int model_next_due(struct model *m, int64_t *ret_ns);
bool model_keeps_loop(struct model *m);

int model_rejection(struct model *m);
int model_set_rejection(struct model *m, int rejection);
int model_survive(struct model *m, int which);
int model_set_survive(struct model *m, int which, int on);
int model_shutdown(struct model *m);
int model_shutdown_within(struct model *m, int64_t grace_ns);
int model_shutdown_now(struct model *m, uvs_never_ran_cb each, void *arg);
int model_is_shutdown(struct model *m);
int model_is_terminated(struct model *m);

int model_lane_open(struct model *m, const uvs_lane_options_t *o, uvs_lane_t *ret);
int model_lane_dispose(struct model *m, uvs_lane_t lane, unsigned flags);
int model_lane_is_disposed(struct model *m, uvs_lane_t lane);
int model_lane_add_cleanup(struct model *m, uvs_lane_t lane, uvs_cleanup_cb cb, void *arg,
                           unsigned flags);
/* Is id a task of this lane? If so, uvs_lane_cancel and similar calls do the same as uvs_cancel
 * etc. */
bool model_lane_has(struct model *m, uvs_lane_t lane, uvs_id_t id);

struct model_queue;
int model_queue_open(struct model *m, const uvs_queue_options_t *o, struct model_queue **ret);
int model_queue_close(struct model_queue *q);
int model_queue_set_ref(struct model_queue *q, bool ref);
int model_queue_has_ref(struct model_queue *q);
int model_queue_put_many(struct model_queue *q, uvs_entry_t *e, size_t n);
int model_queue_poll(struct model_queue *q, uvs_entry_t *ret);
int model_queue_consume(struct model_queue *q, uvs_value_cb cb, void *arg);
int model_queue_drain(struct model_queue *q, int64_t n, uvs_value_cb each, void *arg);
int model_queue_clear(struct model_queue *q, uvs_value_cb each, void *arg);
int model_queue_remove(struct model_queue *q, uvs_item_t item, uvs_entry_t *ret);
int model_queue_remove_value(struct model_queue *q, const void *value, uvs_entry_t *ret);
int model_queue_peek(struct model_queue *q, uvs_entry_t *ret);
int model_queue_size(struct model_queue *q);
int model_queue_contains(struct model_queue *q, const void *value);
int model_queue_each(struct model_queue *q, uvs_entry_cb each, void *arg);

/* How far the clock may jump so that no fixed-rate task has to catch up with more than n runs. */
int64_t model_calm_ns(struct model *m, int64_t n);

#endif
