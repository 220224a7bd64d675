/* SPDX-License-Identifier: MIT
 *
 * trace: writes the records of the flight recorder. See core/trace.h.
 */
#include "core/trace.h"

#include <string.h>

#define RINGS_BESIDE_RUNNERS 2u /* the loop's, and that of all other threads */
#define ROOM_MIN 64u

/* Between two passes, the counts are recorded at most this often. They are recorded at least once a
 * second, even if they do not change. */
#define COUNTS_EVERY_NS UVS_MS(1)
#define COUNTS_AT_LEAST_NS UVS_SEC(1)

struct uvs__trace *uvs__trace_make(const uvs_allocator_t *m, size_t bytes, uint32_t runners) {
  uint32_t rings = RINGS_BESIDE_RUNNERS + (runners > 0 ? runners : 1);
  size_t room = bytes / sizeof(struct uvs__trace_record) / rings;
  size_t head = sizeof(struct uvs__trace) + rings * sizeof(struct uvs__trace_ring);
  struct uvs__trace_record *records;
  struct uvs__trace *tr;

  if (room < ROOM_MIN)
    room = ROOM_MIN;
  head = (head + sizeof *records - 1) / sizeof *records * sizeof *records;
  tr = uvs__mem_alloc(m, rings * room, sizeof *records, head);
  if (tr == NULL)
    return NULL;
  memset(tr, 0, head);
  records = (void *)((char *)tr + head);
  tr->room = (uint32_t)room;
  tr->rings = rings;
  for (uint32_t i = 0; i < rings; i++)
    tr->ring[i].first = records + i * room;
  return tr;
}

/* ---- where ---- */

static inline uint16_t runner_track(int runner) {
  return (uint16_t)((unsigned)runner + 1);
}

/* The track of this thread. A body that the submitter runs belongs to the submitter's track. */
static uint16_t track_here(const uvs_t *s) {
  uintptr_t owner = uvs__load(&s->loop_thread, relaxed); /* see uvs__own_loop */
  uintptr_t self = uvs__self();

  if (self == (owner == 0 ? s->opener : owner))
    return UVS__TRACK_LOOP;
  for (const struct uvs__frame *f = uvs__thread.frame; f != NULL; f = f->outer) {
    if (f->scheduler == s && f->runner >= 0)
      return runner_track(f->runner);
  }
  return (uint16_t)(UVS__TRACK_THREADS | (self & (UVS__TRACK_THREADS - 1)));
}

static inline uint16_t track_of(const uvs_t *s, const uvs_run_t *run) {
  return run->runner >= 0 ? runner_track(run->runner) : track_here(s);
}

static struct uvs__trace_ring *ring_of(struct uvs__trace *tr, unsigned track) {
  uint32_t runners = tr->rings - RINGS_BESIDE_RUNNERS;
  uint32_t i = track - 1;

  if (track == UVS__TRACK_LOOP)
    return &tr->ring[0];
  if (track >= UVS__TRACK_THREADS)
    return &tr->ring[1];
  return &tr->ring[RINGS_BESIDE_RUNNERS + (i < runners ? i : i % runners)];
}

/* ---- records ---- */

/* The record to fill in. It replaces the oldest one. */
static inline struct uvs__trace_record *next_record(const struct uvs__trace *tr,
                                                    struct uvs__trace_ring *r) {
  struct uvs__trace_record *x = &r->first[r->next];

  r->written++;
  r->next = r->next + 1 == tr->room ? 0 : r->next + 1;
  return x;
}

static inline struct uvs__trace_record *put_record(struct uvs__trace *tr, enum uvs__trace_kind kind,
                                                   uint16_t track, uint64_t at_ns, uvs_id_t id) {
  struct uvs__trace_record *x = next_record(tr, ring_of(tr, track));

  *x = (struct uvs__trace_record){
      .at_ns = at_ns, .id = id, .track = track, .kind = (uint8_t)kind, .detail = 0};
  return x;
}

static inline void put_name(struct uvs__trace *tr, uint16_t track, const struct uvs__extra *x) {
  struct uvs__trace_record *n;

  if (x == NULL || x->name[0] == '\0')
    return;
  n = next_record(tr, ring_of(tr, track));
  memcpy(n->name, x->name, sizeof n->name);
  n->lane = 0;
  n->track = track;
  n->kind = UVS__TRACE_NAME;
  n->detail = 0;
}

/* Records the counts if they have changed, or if they were not recorded for long. */
static void put_counts(uvs_t *s, uint16_t track, uint64_t at_ns) {
  struct uvs__trace *tr = s->trace;

  if (s->counts.waiting == tr->waiting && s->counts.ready == tr->ready &&
      at_ns < tr->counts_ns + COUNTS_AT_LEAST_NS)
    return;
  tr->waiting = s->counts.waiting;
  tr->ready = s->counts.ready;
  tr->counts_ns = at_ns + COUNTS_EVERY_NS;
  put_record(tr, UVS__TRACE_COUNTS, track, at_ns, tr->waiting)->ns = tr->ready;
}

static inline void sample_counts(uvs_t *s, uint16_t track, uint64_t at_ns) {
  if (at_ns >= s->trace->counts_ns)
    put_counts(s, track, at_ns);
}

/* ---- the trigger ---- */

/* The loop will call the user's callback. */
static void trip_trigger(uvs_t *s, int reason, uint64_t ns, uvs_id_t id, uint64_t at_ns) {
  struct uvs__trace *tr = s->trace;

  if (at_ns < tr->trip_after_ns)
    return;
  tr->trip_after_ns = uvs__steps_later(at_ns, 1, tr->quiet_ns);
  tr->trip = reason;
  tr->trip_ns = (int64_t)ns;
  tr->trip_id = id;
  uvs__owe_call(s, &s->trace_call);
}

/* ---- tasks and runs ---- */

void uvs__trace_put_submit(uvs_t *s, uint32_t slot, uint64_t now_ns) {
  uint16_t track = track_here(s);

  put_record(s->trace, UVS__TRACE_SUBMIT, track, now_ns, uvs__id_of(s, uvs__task(s, slot), slot));
  sample_counts(s, track, now_ns);
}

void uvs__trace_put_start(uvs_t *s, const struct uvs__task *t, const uvs_run_t *run) {
  const struct uvs__extra *x = uvs__extra(s, t);
  uint64_t at_ns = (uint64_t)run->start_ns;
  uint16_t track = track_of(s, run);
  struct uvs__trace_record *r = put_record(
      s->trace, run->number == 1 ? UVS__TRACE_FIRST : UVS__TRACE_START, track, at_ns, run->id);

  r->ns = (uint64_t)run->late_ns;
  r->detail = (int8_t)run->culprit;
  if (x != NULL && x->gate != NULL)
    r->lane = (uint32_t)x->gate->number;
  put_name(s->trace, track, x);
  sample_counts(s, track, at_ns);
  if ((uint64_t)run->late_ns >= s->trace->late_ns)
    trip_trigger(s, UVS_TRACE_LATE, (uint64_t)run->late_ns, run->id, at_ns);
}

struct uvs__trace_record *uvs__trace_put_end(uvs_t *s, const uvs_run_t *run,
                                             enum uvs__trace_kind kind, uint64_t end_ns) {
  uint16_t track = track_of(s, run);

  s->trace->ending = NULL;
  if (track == UVS__TRACK_LOOP) /* perhaps outside a pass: the loop was not held up until now */
    s->trace->passed_ns = end_ns;
  return put_record(s->trace, kind, track, end_ns, run->id);
}

void uvs__trace_put_last(uvs_t *s, const struct uvs__task *t, const uvs_run_t *run,
                         const struct uvs__run_end *e) {
  struct uvs__trace_record *r = uvs__trace_put_end(s, run, UVS__TRACE_END, e->end_ns);

  if (uvs__ends_silently(t, e->status))
    r->detail = 1 + (int)UVS__COMPLETED;
  else
    s->trace->ending = r;
}

/* If the task ends with a run, the outcome is noted in the record of that run's end. */
void uvs__trace_put_ended(uvs_t *s, uint32_t slot, enum uvs__outcome outcome) {
  const struct uvs__task *t = uvs__task(s, slot);
  struct uvs__trace_record *last = s->trace->ending;
  uvs_id_t id = uvs__id_of(s, t, slot);
  uint64_t at_ns;

  if (last != NULL && last->kind == UVS__TRACE_END && last->id == id && t->state == UVS__RUNNING &&
      uvs__body_is_over(t)) {
    last->detail = (int8_t)(1 + (int)outcome);
    s->trace->ending = NULL;
    return;
  }
  /* A replaced clock is user code, which must not be called here. */
  at_ns = uvs__clock_replaced(&s->clock) ? s->recent_ns : uvs__clock_hrtime();
  if (at_ns < s->trace->opened_ns)
    at_ns = s->trace->opened_ns;
  put_record(s->trace, UVS__TRACE_ENDED, track_here(s), at_ns, id)->detail = (int8_t)outcome;
}

/* ---- the loop ---- */

uint64_t uvs__trace_held_since(const uvs_t *s, uint64_t now_ns) {
  const struct uvs__loop_state *at = &s->at;
  uint64_t since_ns = at->armed_ns;

  if (uvs__clock_replaced(&s->clock) && !s->paused)
    since_ns = uvs__delay_bound(&s->delay);
  if (at->wake_sent && at->sent_ns < since_ns)
    since_ns = at->sent_ns;
  if (since_ns < s->trace->passed_ns)
    since_ns = s->trace->passed_ns;
  return since_ns < now_ns ? since_ns : 0;
}

void uvs__trace_put_pass(uvs_t *s, uint64_t began_ns) {
  uint64_t since_ns = uvs__trace_held_since(s, began_ns);

  put_record(s->trace, UVS__TRACE_PASS, UVS__TRACK_LOOP, began_ns, 0)->ns = since_ns;
  s->trace->began_ns = began_ns;
  if (since_ns != 0 && began_ns - since_ns >= s->trace->held_ns)
    trip_trigger(s, UVS_TRACE_HELD, began_ns - since_ns, 0, began_ns);
}

void uvs__trace_put_pass_end(uvs_t *s, uint64_t now_ns) {
  struct uvs__trace *tr = s->trace;

  put_counts(s, UVS__TRACK_LOOP, now_ns);
  put_record(tr, UVS__TRACE_PASS_END, UVS__TRACK_LOOP, now_ns, 0);
  tr->passed_ns = now_ns;
  if (tr->began_ns != 0 && now_ns - tr->began_ns >= tr->held_ns) /* 0: opened during the pass */
    trip_trigger(s, UVS_TRACE_HELD, now_ns - tr->began_ns, 0, now_ns);
}

void uvs__trace_put_call(uvs_t *s, uint32_t slot, enum uvs__trace_call call, uint64_t now_ns) {
  const struct uvs__task *t = uvs__task(s, slot);
  struct uvs__trace_record *r =
      put_record(s->trace, UVS__TRACE_CALL, UVS__TRACK_LOOP, now_ns, uvs__id_of(s, t, slot));

  r->detail = (int8_t)call;
  put_name(s->trace, UVS__TRACK_LOOP, uvs__extra(s, t));
  s->trace->in_call = true;
}

void uvs__trace_put_call_end(uvs_t *s, uint64_t now_ns) {
  if (!s->trace->in_call)
    return;
  s->trace->in_call = false;
  put_record(s->trace, UVS__TRACE_CALL_END, UVS__TRACK_LOOP, now_ns, 0);
}
