/* SPDX-License-Identifier: MIT
 *
 * view: a copy of the recorder's records, and what they say: runs, passes, submissions, in order.
 */
#ifndef UVS__TRACE_VIEW_H
#define UVS__TRACE_VIEW_H

#include "core/trace.h"

/* The loop was held up if a pass began this much later than it should have. A uv_timer alone may be
 * late by 1 ms. */
#define UVS__HELD_MIN_NS UVS_MS(2)

enum uvs__trace_span_kind {
  UVS__SPAN_NONE = 0, /* the body was not called after all */
  UVS__SPAN_RUN,
  UVS__SPAN_LATE, /* the time from the deadline to the start of a run */
  UVS__SPAN_HELD,
  UVS__SPAN_PASS,
  UVS__SPAN_CALL,
  UVS__SPAN_SUBMIT,
  UVS__SPAN_ENDED,
  UVS__SPAN_COUNTS
};

struct uvs__trace_span {
  uint64_t at_ns, end_ns;
  uint32_t record; /* its record; UVS__NONE: the loop is held up now */
  uint8_t kind;    /* enum uvs__trace_span_kind */
  bool open;       /* in progress: end_ns is the time of the copy */
  int8_t ended;    /* RUN: as `detail` of UVS__TRACE_END */
  bool linked;     /* RUN, SUBMIT: both the submission and the first run are in the view */
};

struct uvs__view {
  struct uvs__trace_record *records;
  size_t count;
  struct uvs__trace_span *spans; /* by at_ns */
  size_t span_count;
  uint64_t until_ns;                 /* the time of the copy */
  uint64_t overwritten;              /* records that are not in the copy */
  uint64_t held_ns;                  /* since when the loop is held up; 0: it is not */
  struct uvs__counts opened, counts; /* when the recorder was opened; at the time of the copy */
};

/* Without the lock. Copies the records, and finds the spans of the last last_ns. runs_only: only
 * runs, and times for which the loop was held up, from the newest 4 MB of records. 0; UV_ENOENT (no
 * recorder is open, or it was closed meanwhile); UV_ENOMEM. */
int uvs__view_open(uvs_t *s, int64_t last_ns, bool runs_only, struct uvs__view *v);
void uvs__view_close(uvs_t *s, struct uvs__view *v);

/* The task's name that follows this record; "": none. */
static inline const char *uvs__view_name(const struct uvs__view *v, uint32_t record) {
  size_t next = (size_t)record + 1;

  return record < v->count && next < v->count && v->records[next].kind == UVS__TRACE_NAME
             ? v->records[next].name
             : "";
}

#endif
