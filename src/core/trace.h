/* SPDX-License-Identifier: MIT
 *
 * trace: the flight recorder: what has happened lately, in records of 32 bytes.
 *
 * The loop, each runner, and all other threads together have a ring. Everything is recorded inside
 * critical sections that exist anyway: recording takes no lock of its own, allocates nothing, and
 * usually reads no clock. So the rings need no atomics, and closing the recorder is one store.
 *
 * While no recorder is open, each event costs one branch.
 */
#ifndef UVS__CORE_TRACE_H
#define UVS__CORE_TRACE_H

#include "uvsched/trace.h"

#include "core/moves.h"

enum uvs__trace_kind {
  UVS__TRACE_SUBMIT = 1,
  UVS__TRACE_FIRST,   /* the first run of a task starts. ns: how late; detail: culprit; lane */
  UVS__TRACE_START,   /* another run starts; the same */
  UVS__TRACE_NAME,    /* the name of the task in the record before */
  UVS__TRACE_END,     /* the body has returned. detail: 0, or 1 + enum uvs__outcome of its task */
  UVS__TRACE_UNBEGUN, /* the limit has passed: the body of the run that has started is not called */
  UVS__TRACE_ENDED,   /* the outcome of a task is decided elsewhere. detail: enum uvs__outcome */
  UVS__TRACE_PASS,    /* a loop pass begins. ns: when it should have begun; 0: it is on time */
  UVS__TRACE_PASS_END,
  UVS__TRACE_CALL, /* `after` or `done` is called. detail: enum uvs__trace_call */
  UVS__TRACE_CALL_END,
  UVS__TRACE_COUNTS /* id: tasks that wait; ns: ready tasks */
};

enum uvs__trace_call { UVS__TRACE_AFTER = 0, UVS__TRACE_DONE };

struct uvs__trace_record {
  union {
    struct {
      uint64_t at_ns;
      uvs_id_t id; /* of the task */
      uint64_t ns;
    };
    char name[UVS_NAME_MAX + 1];
  };
  uint32_t lane;  /* the lower half of the lane's number; 0: none */
  uint16_t track; /* where: see uvs__trace_track */
  uint8_t kind;   /* enum uvs__trace_kind */
  int8_t detail;
};

_Static_assert(sizeof(struct uvs__trace_record) == 32, "a record has 32 bytes");

/* A track is a row of the trace: the loop, runner n as n + 1, or another thread. */
#define UVS__TRACK_LOOP 0u
#define UVS__TRACK_THREADS 0x8000u /* plus the lower bits of the thread's number */

struct uvs__trace_ring {
  struct uvs__trace_record *first; /* of uvs__trace.room records */
  uint64_t written;                /* records so far; the newest is at (written - 1) % room */
  uint32_t next;                   /* written % room */
};

/* Lock held, all of it, except the constants. */
struct uvs__trace {
  uint32_t room;             /* constant: records in a ring */
  uint32_t rings;            /* constant */
  uint64_t number;           /* constant: which recorder of this scheduler it is, from 1 */
  uint64_t opened_ns;        /* constant */
  uint64_t late_ns, held_ns; /* constant: what trips the trigger; UVS__NEVER: nothing does */
  uint64_t quiet_ns;         /* constant: the time from one call of the trigger to the next */
  uvs_trace_cb on_trigger;   /* constant; NULL: none */
  void *arg;                 /* constant: of on_trigger */
  struct uvs__counts opened; /* as they were when the recorder was opened */
  struct uvs__trace_record *ending; /* the end of a run whose task may end with it; NULL */
  uint64_t waiting, ready;          /* the counts that were recorded last, ... */
  uint64_t counts_ns;               /* when to record the counts again */
  uint64_t passed_ns;               /* when the last pass ended */
  uint64_t began_ns;                /* when the present pass began */
  bool in_call;                     /* a CALL was recorded, and its CALL_END is missing */
  uint64_t trip_after_ns;           /* the trigger is not tripped before this time */
  int trip;                         /* why it was tripped last: UVS_TRACE_...; 0: it was not */
  int64_t trip_ns;                  /* how late the run was, or how long the loop was held up */
  uvs_id_t trip_id;                 /* of the task; 0 */
  struct uvs__trace_ring ring[];    /* the loop's, that of all other threads, the runners' */
};

/* Without the lock: allocates a recorder with about `bytes` bytes of records, for this many
 * runners. Runners that are made later share the rings. NULL: no memory. */
struct uvs__trace *uvs__trace_make(const uvs_allocator_t *m, size_t bytes, uint32_t runners);

/* The records themselves. Lock held, and a recorder is open. */
void uvs__trace_put_submit(uvs_t *s, uint32_t slot, uint64_t now_ns);
void uvs__trace_put_start(uvs_t *s, const struct uvs__task *t, const uvs_run_t *run);
/* The body has returned UVS_PENDING, or it was not called: kind is END or UNBEGUN. */
struct uvs__trace_record *uvs__trace_put_end(uvs_t *s, const uvs_run_t *run,
                                             enum uvs__trace_kind kind, uint64_t end_ns);
/* The body has returned, and uvs__body_returned follows. */
void uvs__trace_put_last(uvs_t *s, const struct uvs__task *t, const uvs_run_t *run,
                         const struct uvs__run_end *e);
/* The outcome of a task is decided. For silent tasks that have ended with their run, this is not
 * called. */
void uvs__trace_put_ended(uvs_t *s, uint32_t slot, enum uvs__outcome outcome);
void uvs__trace_put_pass(uvs_t *s, uint64_t began_ns);
void uvs__trace_put_pass_end(uvs_t *s, uint64_t now_ns);
void uvs__trace_put_call(uvs_t *s, uint32_t slot, enum uvs__trace_call call, uint64_t now_ns);
void uvs__trace_put_call_end(uvs_t *s, uint64_t now_ns);

/* Lock held, and a recorder is open: when the next loop pass should have begun, if it has not begun
 * by now_ns. 0: it is not late. */
uint64_t uvs__trace_held_since(const uvs_t *s, uint64_t now_ns);

/* Lock held: is a recorder open? bench/trace.c compares with a library that has none. */
static inline bool uvs__is_traced(const uvs_t *s) {
#ifdef UVS__NO_TRACE
  (void)s;
  return false;
#else
  return __builtin_expect(s->trace != NULL, 0);
#endif
}

#endif
