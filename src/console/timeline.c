/* SPDX-License-Identifier: MIT */
#include "console/timeline.h"

#include <uvsched/trace.h>

#include "console/alloc.h"

static void write_run(struct uvs__json *j, const uvs_trace_run_t *r) {
  uvs__json_open(j, NULL, '{');
  uvs__json_id(j, "id", r->id);
  uvs__json_string(j, "name", r->name);
  uvs__json_int(j, "runner", r->runner);
  uvs__json_int(j, "start_ns", r->start_ns);
  uvs__json_int(j, "end_ns", r->end_ns);
  uvs__json_bool(j, "running", r->running);
  uvs__json_bool(j, "held", r->what == UVS_TRACE_HELD);
  uvs__json_int(j, "late_ns", r->late_ns);
  if (r->culprit < 0)
    uvs__json_null(j, "culprit");
  else
    uvs__json_string(j, "culprit", uvs_late_name(r->culprit));
  uvs__json_close(j, '}');
}

int uvs__timeline_write(struct uvs__json *j, uvs_t *s, int64_t last_ns, size_t max) {
  uvs_trace_run_t *runs = uvs__console_alloc(max * sizeof *runs);
  size_t n = 0, left_out = 0;
  int rc;

  if (runs == NULL)
    return UV_ENOMEM;
  uvs_trace_run_init(&runs[0]);
  rc = uvs_trace_runs(s, last_ns, runs, max, &n, &left_out);
  if (rc == 0 || rc == UV_ENOENT) {
    uvs__json_open(j, NULL, '{');
    uvs__json_int(j, "now_ns", uvs_now(s));
    uvs__json_bool(j, "recording", rc == 0);
    uvs__json_int(j, "left_out", (int64_t)left_out);
    uvs__json_open(j, "runs", '[');
    for (size_t i = 0; i < n; i++)
      write_run(j, &runs[i]);
    uvs__json_close(j, ']');
    uvs__json_close(j, '}');
    rc = 0;
  }
  uvs__console_free(runs);
  return rc;
}
