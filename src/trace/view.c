/* SPDX-License-Identifier: MIT
 *
 * view: copies the records while recording goes on, and pairs their beginnings with their ends.
 *
 * How far each ring goes is noted in one critical section, so the copy is what the recorder had at
 * one instant. The records themselves are copied in batches. What was replaced meanwhile counts as
 * overwritten.
 */
#include "trace/view.h"

#include <stdlib.h>
#include <string.h>

#define COPY_BATCH 256u
#define OPEN_MAX 256

/* Runs alone are read often, also on the loop. So they come from no more records than a recorder of
 * the default size has. */
#define RUNS_RECORDS (((uint32_t)4 << 20) / (uint32_t)sizeof(struct uvs__trace_record))
#define RUNS_RECORDS_MIN 64u /* of each ring */

/* ---- the copy ---- */

/* Lock held. NULL: the recorder was closed, and perhaps another one was opened. */
static struct uvs__trace *same_recorder(const uvs_t *s, uint64_t number) {
  return s->trace != NULL && s->trace->number == number ? s->trace : NULL;
}

static inline uint64_t kept_of(const struct uvs__trace *tr, uint64_t written) {
  return written < tr->room ? written : tr->room;
}

/* How many of the ring's newest records are copied. */
static uint64_t copied_of(const struct uvs__trace *tr, uint64_t written, bool runs_only) {
  uint64_t most = RUNS_RECORDS / tr->rings + RUNS_RECORDS_MIN;
  uint64_t kept = kept_of(tr, written);

  return runs_only && kept > most ? most : kept;
}

/* Lock held: copies up to a batch of records from *at on, which moves on. If records were replaced
 * since *at, the ring's copy begins again behind them, at *first. */
static void copy_batch(const struct uvs__trace *tr, const struct uvs__trace_ring *r, uint64_t end,
                       uint64_t *at, size_t *first, struct uvs__view *v) {
  uint64_t oldest = r->written - kept_of(tr, r->written);
  uint64_t n;
  uint32_t from;

  if (*at < oldest) {
    v->overwritten += (oldest < end ? oldest : end) - *at + (v->count - *first);
    v->count = *first;
    *at = oldest;
  }
  if (*at >= end)
    return;
  n = end - *at < COPY_BATCH ? end - *at : COPY_BATCH;
  from = (uint32_t)(*at % tr->room);
  if (n > tr->room - from)
    n = tr->room - from;
  memcpy(v->records + v->count, r->first + from, (size_t)n * sizeof *v->records);
  v->count += (size_t)n;
  *at += n;
}

/* Copies all rings up to ends[]. first[i]: where ring i begins in the copy. */
static int copy_rings(uvs_t *s, uint64_t number, uint32_t rings, const uint64_t *ends,
                      size_t *first, bool runs_only, struct uvs__view *v) {
  for (uint32_t i = 0; i < rings; i++) {
    uint64_t at = 0;

    first[i] = v->count;
    for (bool begun = false; !begun || at < ends[i]; begun = true) {
      const struct uvs__trace *tr;

      uvs__lock(s);
      tr = same_recorder(s, number);
      if (tr == NULL) {
        uvs__unlock(s);
        return UV_ENOENT;
      }
      if (!begun) {
        at = ends[i] - copied_of(tr, ends[i], runs_only);
        v->overwritten += at;
      }
      copy_batch(tr, &tr->ring[i], ends[i], &at, &first[i], v);
      uvs__unlock(s);
    }
  }
  first[rings] = v->count;
  return 0;
}

/* ---- the spans ---- */

/* What has begun and not ended, while the records of a ring are read. */
struct span_stack {
  uint32_t span[OPEN_MAX];
  int count;
};

struct span_reader {
  struct uvs__view *v;
  struct span_stack open;
};

static size_t spans_of(const struct uvs__trace_record *r, bool runs_only) {
  switch ((enum uvs__trace_kind)r->kind) {
  case UVS__TRACE_FIRST:
  case UVS__TRACE_START:
    return r->ns > 0 && !runs_only ? 2 : 1;
  case UVS__TRACE_PASS:
    return (size_t)!runs_only + (r->ns != 0 && r->at_ns - r->ns >= UVS__HELD_MIN_NS ? 1 : 0);
  case UVS__TRACE_SUBMIT:
  case UVS__TRACE_ENDED:
  case UVS__TRACE_CALL:
  case UVS__TRACE_COUNTS:
    return !runs_only;
  case UVS__TRACE_NAME:
  case UVS__TRACE_END:
  case UVS__TRACE_UNBEGUN:
  case UVS__TRACE_PASS_END:
  case UVS__TRACE_CALL_END:
    break;
  }
  return 0;
}

static struct uvs__trace_span *add_span(struct uvs__view *v, enum uvs__trace_span_kind kind,
                                        uint32_t record, uint64_t at_ns, uint64_t end_ns) {
  struct uvs__trace_span *x = &v->spans[v->span_count++];

  *x = (struct uvs__trace_span){
      .at_ns = at_ns, .end_ns = end_ns, .record = record, .kind = (uint8_t)kind};
  return x;
}

/* A span begins here; until its end is read, it is in progress. */
static void open_span(struct span_reader *p, enum uvs__trace_span_kind kind, uint32_t record) {
  struct uvs__view *v = p->v;
  struct span_stack *open = &p->open;

  if (open->count == OPEN_MAX) /* the oldest stays in progress */
    memmove(open->span, open->span + 1, (size_t)--open->count * sizeof *open->span);
  open->span[open->count++] = (uint32_t)v->span_count;
  add_span(v, kind, record, v->records[record].at_ns, v->until_ns)->open = true;
}

/* The newest open span of this kind, and of the same task, ends with this record. NULL: there is
 * none, because its beginning was overwritten. */
static struct uvs__trace_span *close_span(struct span_reader *p, enum uvs__trace_span_kind kind,
                                          uint32_t record) {
  const struct uvs__trace_record *r = &p->v->records[record];
  struct span_stack *open = &p->open;

  for (int i = open->count - 1; i >= 0; i--) {
    struct uvs__trace_span *x = &p->v->spans[open->span[i]];
    const struct uvs__trace_record *begin = &p->v->records[x->record];

    if (x->kind != kind || (r->id != 0 && begin->id != r->id))
      continue;
    memmove(open->span + i, open->span + i + 1, (size_t)(--open->count - i) * sizeof *open->span);
    x->open = false;
    x->end_ns = r->at_ns < x->at_ns ? x->at_ns : r->at_ns;
    return x;
  }
  return NULL;
}

static uint64_t earlier_by(uint64_t at_ns, uint64_t ns) {
  return at_ns < ns ? 0 : at_ns - ns;
}

/* Adds what the record says. */
static void read_record(struct span_reader *p, uint32_t i, bool runs_only) {
  struct uvs__view *v = p->v;
  const struct uvs__trace_record *r = &v->records[i];
  struct uvs__trace_span *x;

  switch ((enum uvs__trace_kind)r->kind) {
  case UVS__TRACE_FIRST:
  case UVS__TRACE_START:
    open_span(p, UVS__SPAN_RUN, i);
    if (r->ns > 0 && !runs_only)
      add_span(v, UVS__SPAN_LATE, i, earlier_by(r->at_ns, r->ns), r->at_ns);
    break;
  case UVS__TRACE_END:
    x = close_span(p, UVS__SPAN_RUN, i);
    if (x != NULL)
      x->ended = r->detail;
    break;
  case UVS__TRACE_UNBEGUN:
    x = close_span(p, UVS__SPAN_RUN, i);
    if (x != NULL)
      x->kind = UVS__SPAN_NONE;
    break;
  case UVS__TRACE_PASS:
    if (r->ns != 0 && r->at_ns - r->ns >= UVS__HELD_MIN_NS)
      add_span(v, UVS__SPAN_HELD, i, r->ns, r->at_ns);
    if (!runs_only)
      open_span(p, UVS__SPAN_PASS, i);
    break;
  case UVS__TRACE_PASS_END:
    close_span(p, UVS__SPAN_PASS, i);
    break;
  case UVS__TRACE_CALL:
    if (!runs_only)
      open_span(p, UVS__SPAN_CALL, i);
    break;
  case UVS__TRACE_CALL_END:
    close_span(p, UVS__SPAN_CALL, i);
    break;
  case UVS__TRACE_SUBMIT:
  case UVS__TRACE_ENDED:
  case UVS__TRACE_COUNTS:
    if (!runs_only)
      add_span(v,
               r->kind == UVS__TRACE_SUBMIT  ? UVS__SPAN_SUBMIT
               : r->kind == UVS__TRACE_ENDED ? UVS__SPAN_ENDED
                                             : UVS__SPAN_COUNTS,
               i, r->at_ns, r->at_ns);
    break;
  case UVS__TRACE_NAME:
    break;
  }
}

/* At the same time, submissions come first: an arrow must begin before it ends. */
static int by_span_time(const void *a, const void *b) {
  const struct uvs__trace_span *x = a;
  const struct uvs__trace_span *y = b;

  if (x->at_ns != y->at_ns)
    return x->at_ns < y->at_ns ? -1 : 1;
  if ((x->kind == UVS__SPAN_SUBMIT) != (y->kind == UVS__SPAN_SUBMIT))
    return x->kind == UVS__SPAN_SUBMIT ? -1 : 1;
  return x->record < y->record ? -1 : x->record > y->record;
}

/* Before they are sorted: removes the spans that ended before from_ns, and those whose body was not
 * called. A lead-in follows its run, and stays if the run does. */
static void cut_spans(struct uvs__view *v, uint64_t from_ns) {
  bool stays = false;
  size_t n = 0;

  for (size_t i = 0; i < v->span_count; i++) {
    if (v->spans[i].kind != UVS__SPAN_LATE)
      stays = v->spans[i].kind != UVS__SPAN_NONE && v->spans[i].end_ns >= from_ns;
    if (stays)
      v->spans[n++] = v->spans[i];
  }
  v->span_count = n;
}

static int find_spans(uvs_t *s, const size_t *first, uint32_t rings, bool runs_only,
                      uint64_t from_ns, struct uvs__view *v) {
  struct span_reader p = {.v = v};
  size_t most = 1;

  for (size_t i = 0; i < v->count; i++)
    most += spans_of(&v->records[i], runs_only);
  v->spans = uvs__mem_alloc(&s->mem, most, sizeof *v->spans, 0);
  if (v->spans == NULL)
    return UV_ENOMEM;
  for (uint32_t ring = 0; ring < rings; ring++) {
    p.open.count = 0;
    for (size_t i = first[ring]; i < first[ring + 1]; i++)
      read_record(&p, (uint32_t)i, runs_only);
  }
  if (v->held_ns != 0 && v->until_ns - v->held_ns >= UVS__HELD_MIN_NS)
    add_span(v, UVS__SPAN_HELD, UVS__NONE, v->held_ns, v->until_ns)->open = true;
  cut_spans(v, from_ns);
  qsort(v->spans, v->span_count, sizeof *v->spans, by_span_time);
  return 0;
}

/* ---- which first run belongs to which submission ---- */

struct submission {
  uvs_id_t id;
  struct uvs__trace_span *span;
};

static int by_submission_id(const void *a, const void *b) {
  const struct submission *x = a;
  const struct submission *y = b;

  return x->id < y->id ? -1 : x->id > y->id;
}

static int link_spans(uvs_t *s, struct uvs__view *v) {
  struct submission *list;
  size_t n = 0;

  for (size_t i = 0; i < v->span_count; i++)
    n += v->spans[i].kind == UVS__SPAN_SUBMIT;
  if (n == 0)
    return 0;
  list = uvs__mem_alloc(&s->mem, n, sizeof *list, 0);
  if (list == NULL)
    return UV_ENOMEM;
  n = 0;
  for (size_t i = 0; i < v->span_count; i++) {
    struct uvs__trace_span *x = &v->spans[i];

    if (x->kind == UVS__SPAN_SUBMIT)
      list[n++] = (struct submission){v->records[x->record].id, x};
  }
  qsort(list, n, sizeof *list, by_submission_id);
  for (size_t i = 0; i < v->span_count; i++) {
    struct uvs__trace_span *x = &v->spans[i];
    struct submission key = {0, NULL};
    const struct submission *found;

    if (x->kind != UVS__SPAN_RUN || v->records[x->record].kind != UVS__TRACE_FIRST)
      continue;
    key.id = v->records[x->record].id;
    found = bsearch(&key, list, n, sizeof *list, by_submission_id);
    if (found != NULL && !found->span->linked && found->span->at_ns <= x->at_ns)
      x->linked = found->span->linked = true;
  }
  uvs__mem_free(&s->mem, list);
  return 0;
}

/* ---- both ---- */

/* One critical section: how far the rings go, and what the scheduler counts then. */
static int look_at_rings(uvs_t *s, uint64_t number, uint32_t rings, uint64_t *ends, bool runs_only,
                         size_t *ret_most, struct uvs__view *v) {
  uint64_t now_ns = uvs__now(s);
  const struct uvs__trace *tr;

  *ret_most = 0;
  uvs__lock(s);
  tr = same_recorder(s, number);
  for (uint32_t i = 0; tr != NULL && i < rings; i++) {
    ends[i] = tr->ring[i].written;
    *ret_most += (size_t)copied_of(tr, ends[i], runs_only);
  }
  if (tr != NULL) {
    v->opened = tr->opened;
    v->counts = s->counts;
    v->held_ns = s->at.in_pass ? 0 : uvs__trace_held_since(s, now_ns);
  }
  uvs__unlock(s);
  v->until_ns = uvs__now(s);
  return tr == NULL ? UV_ENOENT : 0;
}

/* The memory: ends[], one for each ring, and first[], one more. */
static int open_view(uvs_t *s, uint64_t number, uint32_t rings, uint64_t *ends, size_t *first,
                     bool runs_only, uint64_t last_ns, struct uvs__view *v) {
  size_t most;
  int rc = look_at_rings(s, number, rings, ends, runs_only, &most, v);

  if (rc < 0)
    return rc;
  v->records = uvs__mem_alloc(&s->mem, most, sizeof *v->records, 1);
  if (v->records == NULL)
    return UV_ENOMEM;
  rc = copy_rings(s, number, rings, ends, first, runs_only, v);
  if (rc == 0)
    rc = find_spans(s, first, rings, runs_only, earlier_by(v->until_ns, last_ns), v);
  if (rc == 0 && !runs_only)
    rc = link_spans(s, v);
  return rc;
}

int uvs__view_open(uvs_t *s, int64_t last_ns, bool runs_only, struct uvs__view *v) {
  uint64_t number = 0;
  uint32_t rings = 0;
  uint64_t *ends;
  size_t *first;
  int rc;

  memset(v, 0, sizeof *v);
  uvs__lock(s);
  if (s->trace != NULL) {
    number = s->trace->number;
    rings = s->trace->rings;
  }
  uvs__unlock(s);
  if (number == 0)
    return UV_ENOENT;
  ends = uvs__mem_alloc(&s->mem, rings, sizeof *ends, 0);
  first = uvs__mem_alloc(&s->mem, rings + 1, sizeof *first, 0);
  rc = ends == NULL || first == NULL
           ? UV_ENOMEM
           : open_view(s, number, rings, ends, first, runs_only, (uint64_t)last_ns, v);
  uvs__mem_free(&s->mem, ends);
  uvs__mem_free(&s->mem, first);
  if (rc < 0)
    uvs__view_close(s, v);
  return rc;
}

void uvs__view_close(uvs_t *s, struct uvs__view *v) {
  uvs__mem_free(&s->mem, v->records);
  uvs__mem_free(&s->mem, v->spans);
}
