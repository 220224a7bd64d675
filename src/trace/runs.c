/* SPDX-License-Identifier: MIT
 *
 * runs: the recorded runs, as an array.
 */
#include "trace/view.h"

#include "util/sizes.h"

static void fill_run(const struct uvs__view *v, const struct uvs__trace_span *x,
                     uvs_trace_run_t *ret) {
  uvs_trace_run_init(ret);
  ret->what = x->kind == UVS__SPAN_RUN ? UVS_TRACE_RUN : UVS_TRACE_HELD;
  ret->runner = UVS_ON_LOOP;
  ret->start_ns = (int64_t)x->at_ns;
  ret->end_ns = (int64_t)x->end_ns;
  ret->running = x->open;
  ret->culprit = -1;
  if (x->kind == UVS__SPAN_RUN) {
    const struct uvs__trace_record *r = &v->records[x->record];

    if (r->track != UVS__TRACK_LOOP)
      ret->runner = r->track >= UVS__TRACK_THREADS ? UVS_ON_CALLER : (int)r->track - 1;
    ret->id = r->id;
    ret->culprit = r->detail < 0 ? -1 : (uint8_t)r->detail;
    ret->late_ns = (int64_t)r->ns;
    memcpy(ret->name, uvs__view_name(v, x->record), strlen(uvs__view_name(v, x->record)));
  }
}

int uvs_trace_runs(uvs_t *s, int64_t last_ns, uvs_trace_run_t *ret, size_t room,
                   size_t *ret_count) {
  struct uvs__view v;
  size_t stride, skip;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (ret == NULL || ret_count == NULL || last_ns < 0 ||
      uvs__check_size(ret, ret->size, sizeof *ret, sizeof *ret) < 0)
    return UV_EINVAL;
  stride = ret->size;
  rc = uvs__view_open(s, last_ns, true, &v);
  if (rc < 0)
    return rc;
  skip = v.span_count > room ? v.span_count - room : 0;
  for (size_t i = skip; i < v.span_count; i++) {
    char *to = (char *)ret + (i - skip) * stride;
    uvs_trace_run_t run;

    fill_run(&v, &v.spans[i], &run);
    run.size = stride;
    memset(to, 0, stride);
    memcpy(to, &run, sizeof run);
  }
  *ret_count = v.span_count - skip;
  uvs__view_close(s, &v);
  return 0;
}
