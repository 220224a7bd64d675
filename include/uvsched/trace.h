/* SPDX-License-Identifier: MIT
 *
 * Trace: a flight recorder of the last seconds, written as a trace that Perfetto and
 * chrome://tracing open.
 *
 *   uvs_trace_open(s, NULL);                            from now on, every run is recorded
 *   uvs_trace_write(s, UVS_SEC(10), 0, to_file, file);  the last 10 s, from any thread
 *
 * While no recorder is open, an event costs one branch. While one is open, recording takes no lock
 * of its own and allocates nothing. The newest records replace the oldest. docs/trace.md shows what
 * is in a trace.
 */
#ifndef UVSCHED_TRACE_H
#define UVSCHED_TRACE_H

#include <uvsched.h>
#include <uvsched/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  UVS_TRACE_RUN = 0, /* a run of a task */
  UVS_TRACE_LATE,    /* a run that started late */
  UVS_TRACE_HELD     /* the loop was held up: a pass began late (trigger: or took long) */
};

/* The trigger: a run started at least late_ns late (reason UVS_TRACE_LATE; ns: how late; id: the
 * task), or the loop was held up for at least held_ns (UVS_TRACE_HELD; ns: how long; id 0). Called
 * on the loop thread, soon after the event. The trigger may call anything; usually it calls
 * uvs_trace_write. The next call is not made before quiet_ns has passed. arg: that of the
 * options. */
typedef void (*uvs_trace_cb)(uvs_t *s, int reason, int64_t ns, uvs_id_t id, void *arg);

typedef struct {
  size_t size;  /* set by the initializer; new fields go at the end */
  size_t bytes; /* for the records, of 32 bytes each: 64 KB to 1 GB; default 4 MB */

  uvs_trace_cb on_trigger; /* optional */
  int64_t late_ns;         /* see uvs_trace_cb; 0: late runs do not trigger */
  int64_t held_ns;         /* 0: a loop that is held up does not trigger */
  int64_t quiet_ns;        /* from one call of on_trigger to the next; default 10 s */
  void *arg;
} uvs_trace_options_t;

static inline void uvs_trace_options_init(uvs_trace_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->bytes = (size_t)4 << 20;
  o->quiet_ns = UVS_SEC(10);
}

/**
 * Open a recorder. A scheduler has at most one.
 *
 * Thread:  any.
 * Owns:    copies *o (NULL: defaults); borrows o->arg until uvs_trace_close has returned and no
 *          call of on_trigger is in progress any more.
 * Returns: 0; UV_EINVAL (an option out of range; on_trigger without late_ns and
 *          held_ns, or one of these without on_trigger);
 *          UV_EALREADY (a recorder is open); UV_ENOMEM.
 */
UVS_API int uvs_trace_open(uvs_t *s, const uvs_trace_options_t *o);

/* Close the recorder, and free its records. uvs_close does so, too. Thread: any, also while another
 * thread writes a trace. UV_ENOENT: none is open. */
UVS_API int uvs_trace_close(uvs_t *s);

/* uvs_trace_write's flags. */
enum {
  UVS_TRACE_LANES = 1 /* the runs of lanes are shown a second time, one row for each lane */
};

/**
 * Write the last last_ns (UVS_NEVER: everything) as JSON, in Chrome's trace event format. `write`
 * gets whole lines. Recording goes on meanwhile; events that come later are not in the trace.
 * The call works also while the loop is stuck, and while bodies do not return: a run in progress is
 * shown up to the time of the call.
 *
 * Thread:  any. `write` is called on the same thread, without a lock. It may call anything.
 * Memory:  up to three times what the recorder has, until the call returns.
 * Returns: 0; what `write` answered, if not 0; UV_ENOENT (no recorder is open, or it was closed
 *          meanwhile); UV_EINVAL (NULL write, last_ns below 0, unknown flags); UV_ENOMEM.
 */
UVS_API int uvs_trace_write(uvs_t *s, int64_t last_ns, unsigned flags, uvs_write_cb write,
                            void *arg);

/* One run, or one time for which the loop was held up. Times are those of uvs_now. */
typedef struct {
  size_t size; /* set by the initializer; new fields go at the end */
  int what;    /* UVS_TRACE_RUN, UVS_TRACE_HELD */
  int runner;  /* as in uvs_run_t; UVS_TRACE_HELD: UVS_ON_LOOP */
  uvs_id_t id; /* of the task; UVS_TRACE_HELD: 0 */
  int64_t start_ns;
  int64_t end_ns;              /* of a run in progress: the time of the call */
  int running;                 /* 1: the run is in progress */
  int culprit;                 /* as in uvs_run_t; -1: the run was on time */
  int64_t late_ns;             /* of the run */
  char name[UVS_NAME_MAX + 1]; /* of the task; "" */
} uvs_trace_run_t;

static inline void uvs_trace_run_init(uvs_trace_run_t *r) {
  memset(r, 0, sizeof *r);
  r->size = sizeof *r;
}

/**
 * Read the recorded runs of the last last_ns, and the times of at least 2 ms for which the loop was
 * held up, in the order of their starts. If there are more than `room`, these times and the runs
 * that were at least 2 ms late come first (the latest of them), then the newest of the others;
 * *ret_left_out (may be NULL) says how many were left out. The array stride is ret->size; the first
 * element must be initialized.
 *
 * Thread:  any. A call reads at most the newest 4 MB of records, however large the recorder is.
 * Returns: 0, with *ret_count set; UV_ENOENT, UV_EINVAL, UV_ENOMEM as uvs_trace_write.
 */
UVS_API int uvs_trace_runs(uvs_t *s, int64_t last_ns, uvs_trace_run_t *ret, size_t room,
                           size_t *ret_count, size_t *ret_left_out);

#ifdef __cplusplus
}
#endif

#endif
