/* SPDX-License-Identifier: MIT
 *
 * runs: the recorded runs, as an array.
 */
#include "trace/view.h"

#include "util/sizes.h"

#include <stdlib.h>

/* A span that tells of lateness. */
struct telling_span {
  uint64_t weight; /* what the loop was held up for is above all lateness of runs */
  size_t span;
};

#define HELD_WEIGHT (UINT64_C(1) << 63)

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

static uint64_t weight_of(const struct uvs__view *v, const struct uvs__trace_span *x) {
  uint64_t late_ns;

  if (x->kind == UVS__SPAN_HELD)
    return HELD_WEIGHT + (x->end_ns - x->at_ns);
  late_ns = v->records[x->record].ns;
  return late_ns >= UVS__HELD_MIN_NS ? late_ns : 0;
}

/* The heaviest first; of the same weight, the newest. */
static int by_weight(const void *a, const void *b) {
  const struct telling_span *x = a;
  const struct telling_span *y = b;

  if (x->weight != y->weight)
    return x->weight > y->weight ? -1 : 1;
  return x->span > y->span ? -1 : x->span < y->span;
}

/* There are more spans than room: keeps those that tell of lateness, then the newest of the others.
 */
static int leave_runs_out(uvs_t *s, struct uvs__view *v, size_t room) {
  struct telling_span *list = uvs__mem_alloc(&s->mem, v->span_count, sizeof *list, 0);
  size_t telling = 0, others, kept = 0;

  if (list == NULL)
    return UV_ENOMEM;
  for (size_t i = 0; i < v->span_count; i++) {
    uint64_t weight = weight_of(v, &v->spans[i]);

    if (weight > 0)
      list[telling++] = (struct telling_span){weight, i};
  }
  /* As many of the others as there is no room for are older than those that are kept. */
  others = v->span_count - telling;
  others -= telling >= room ? 0 : room - telling;
  for (size_t i = 0; i < v->span_count && others > 0; i++) {
    if (weight_of(v, &v->spans[i]) == 0) {
      v->spans[i].kind = UVS__SPAN_NONE;
      others--;
    }
  }
  if (telling > room)
    qsort(list, telling, sizeof *list, by_weight);
  for (size_t i = room; i < telling; i++)
    v->spans[list[i].span].kind = UVS__SPAN_NONE;
  for (size_t i = 0; i < v->span_count; i++) {
    if (v->spans[i].kind != UVS__SPAN_NONE)
      v->spans[kept++] = v->spans[i];
  }
  v->span_count = kept;
  uvs__mem_free(&s->mem, list);
  return 0;
}

int uvs_trace_runs(uvs_t *s, int64_t last_ns, uvs_trace_run_t *ret, size_t room, size_t *ret_count,
                   size_t *ret_left_out) {
  struct uvs__view v;
  size_t stride, found;
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
  found = v.span_count;
  if (found > room)
    rc = leave_runs_out(s, &v, room);
  for (size_t i = 0; rc == 0 && i < v.span_count; i++) {
    char *to = (char *)ret + i * stride;
    uvs_trace_run_t run;

    fill_run(&v, &v.spans[i], &run);
    run.size = stride;
    memset(to, 0, stride);
    memcpy(to, &run, sizeof run);
  }
  if (rc == 0) {
    *ret_count = v.span_count;
    if (ret_left_out != NULL)
      *ret_left_out = found - v.span_count;
  }
  uvs__view_close(s, &v);
  return rc;
}
