/* SPDX-License-Identifier: MIT
 *
 * json: writes a view as JSON, in Chrome's trace event format.
 *
 * All events are in the order of their times. Slices are complete events ("X"): on each row they
 * lie inside each other or beside each other. The time for which a run was late may overlap others,
 * so it is an async slice ("b", "e").
 */
#include "trace/view.h"

#include "util/utf8.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define JSON_SIZE 8192
#define JSON_EVENT_MAX 1024                   /* no event is longer */
#define JSON_NAME_SIZE (UVS_NAME_MAX * 6 + 1) /* each byte as \uXXXX */
#define JSON_PID 1
#define JSON_PID_LANES 2
#define LANE_ROWS 256
#define TRACKS 0x10000u

/* A row of runs in a lane. A lane that runs several tasks at once has several. */
struct lane_row {
  uint32_t lane;
  uint64_t end_ns; /* of its last run */
};

struct json {
  const struct uvs__view *v;
  uvs_write_cb write;
  void *arg;
  int rc; /* not 0: `write` has returned this, and is not called again */
  bool begun;
  size_t used;
  uint32_t rows;
  struct lane_row row[LANE_ROWS];
  uint8_t tracks[TRACKS / 8]; /* rows that have been named */
  char text[JSON_SIZE];
};

/* ---- pieces ---- */

static void json_flush(struct json *o) {
  if (o->used > 0 && o->rc == 0)
    o->rc = o->write(o->text, o->used, o->arg);
  o->used = 0;
}

__attribute__((format(printf, 2, 3))) static void json_print(struct json *o, const char *format,
                                                             ...) {
  va_list args;
  int n;

  va_start(args, format);
  n = vsnprintf(o->text + o->used, sizeof o->text - o->used, format, args);
  va_end(args);
  UVS_ASSERT(n >= 0 && (size_t)n < sizeof o->text - o->used);
  o->used += (size_t)n;
}

/* Escapes quotes, control characters, what HTML could take for markup, and broken UTF-8. */
static const char *json_escape(const char *name, char ret[JSON_NAME_SIZE]) {
  const unsigned char *p = (const unsigned char *)name;
  char *to = ret;

  while (*p != '\0') {
    size_t n = uvs__utf8_length(p);
    bool plain = n == 1 && *p >= 0x20 && *p != 0x7f && strchr("\"\\<>&", *p) == NULL;

    if (plain || n > 1) {
      memcpy(to, p, n);
      to += n;
    } else {
      to += snprintf(to, 7, "\\u%04x", n == 0 ? 0xfffdu : *p);
    }
    p += n == 0 ? 1 : n;
  }
  *to = '\0';
  return ret;
}

/* ---- events ---- */

/* Begins an event, which json_close ends. */
static void json_open(struct json *o, const char *phase, int pid, unsigned tid, uint64_t at_ns) {
  if (o->used > sizeof o->text - JSON_EVENT_MAX)
    json_flush(o);
  json_print(o, "%s{\"ph\":\"%s\",\"pid\":%d,\"tid\":%u,\"ts\":%" PRIu64 ".%03u",
             o->begun ? "," : "", phase, pid, tid + 1, at_ns / 1000, (unsigned)(at_ns % 1000));
  o->begun = true;
}

static void json_close(struct json *o) {
  json_print(o, "}\n");
}

static void json_say(struct json *o, const char *category, const char *name, const char *more) {
  char text[JSON_NAME_SIZE], after[JSON_NAME_SIZE];

  json_print(o, ",\"cat\":\"%s\",\"name\":\"%s%s\"", category, json_escape(name, text),
             json_escape(more, after));
}

static void json_duration(struct json *o, const struct uvs__trace_span *x) {
  uint64_t ns = x->end_ns - x->at_ns;

  json_print(o, ",\"dur\":%" PRIu64 ".%03u", ns / 1000, (unsigned)(ns % 1000));
}

/* Names a process, or a row. */
static void json_name(struct json *o, const char *what, int pid, unsigned tid, const char *name) {
  json_open(o, "M", pid, tid, 0);
  json_print(o, ",\"name\":\"%s\",\"args\":{\"name\":\"%s\"}", what, name);
  json_close(o);
}

static void name_track(struct json *o, unsigned track) {
  char name[32];

  if ((o->tracks[track / 8] >> track % 8 & 1) != 0)
    return;
  o->tracks[track / 8] |= (uint8_t)(1u << track % 8);
  if (track == UVS__TRACK_LOOP)
    snprintf(name, sizeof name, "loop");
  else if (track < UVS__TRACK_THREADS)
    snprintf(name, sizeof name, "runner %u", track - 1);
  else
    snprintf(name, sizeof name, "thread %u", track - UVS__TRACK_THREADS);
  json_name(o, "thread_name", JSON_PID, track, name);
  json_open(o, "M", JSON_PID, track, 0);
  json_print(o, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":%u}", track);
  json_close(o);
}

/* The task that an event is about. */
static void json_task(struct json *o, uvs_id_t id) {
  json_print(o, ",\"args\":{\"id\":\"%" PRIu64 "\"", id);
}

/* An arrow begins ("s") or ends ("f"). */
static void json_arrow(struct json *o, const char *phase, unsigned track, uint64_t at_ns,
                       uvs_id_t id) {
  json_open(o, phase, JSON_PID, track, at_ns);
  json_say(o, "submit", "submit", "");
  json_print(o, ",\"bp\":\"e\",\"id\":\"%" PRIu64 "\"", id);
  json_close(o);
}

static const char *outcome_word(int outcome) {
  static const char *const words[UVS__OUTCOMES] = {
      [UVS__COMPLETED] = "completed",     [UVS__FAILED] = "failed",
      [UVS__WAS_CANCELLED] = "cancelled", [UVS__PASSED_LIMIT] = "timed out",
      [UVS__DROPPED] = "dropped",
  };

  return outcome >= 0 && outcome < UVS__OUTCOMES ? words[outcome] : "?";
}

static const char *culprit_word(const struct uvs__trace_record *r) {
  return r->detail < 0 ? "none" : uvs_late_name(r->detail);
}

/* The beginning ("b") or the end ("e") of a lead-in. */
static void json_late(struct json *o, const char *phase, const struct uvs__trace_span *x,
                      uint64_t at_ns) {
  const struct uvs__trace_record *r = &o->v->records[x->record];

  json_open(o, phase, JSON_PID, r->track, at_ns);
  json_say(o, "late", "late: ", culprit_word(r));
  json_print(o, ",\"id\":\"%" PRIu32 "\"", x->record);
  json_task(o, r->id);
  json_print(o, "}");
  json_close(o);
}

static void json_run_on(struct json *o, int pid, unsigned tid, const char *category,
                        const struct uvs__trace_span *x) {
  const struct uvs__trace_record *r = &o->v->records[x->record];
  const char *name = uvs__view_name(o->v, x->record);

  json_open(o, "X", pid, tid, x->at_ns);
  json_duration(o, x);
  json_say(o, category, name[0] == '\0' ? "task" : name, "");
  json_task(o, r->id);
  json_print(o, ",\"culprit\":\"%s\",\"late_us\":%" PRIu64 ".%03u", culprit_word(r), r->ns / 1000,
             (unsigned)(r->ns % 1000));
  if (x->ended != 0)
    json_print(o, ",\"outcome\":\"%s\"", outcome_word(x->ended - 1));
  if (x->open)
    json_print(o, ",\"running\":true");
  json_print(o, "}");
  json_close(o);
}

/* The row of the lane that is free since the start of this run, or a new one. */
static void json_lane(struct json *o, const struct uvs__trace_span *x) {
  uint32_t lane = o->v->records[x->record].lane;
  char name[32];
  uint32_t i = 0;

  if (lane == 0)
    return;
  while (i < o->rows && (o->row[i].lane != lane || o->row[i].end_ns > x->at_ns))
    i++;
  if (i == LANE_ROWS)
    return;
  if (i == o->rows) {
    o->rows++;
    o->row[i].lane = lane;
    snprintf(name, sizeof name, "lane %" PRIu32, lane);
    json_name(o, "thread_name", JSON_PID_LANES, i, name);
  }
  o->row[i].end_ns = x->end_ns;
  json_run_on(o, JSON_PID_LANES, i, "lane", x);
}

static void json_run(struct json *o, const struct uvs__trace_span *x, bool lanes) {
  const struct uvs__trace_record *r = &o->v->records[x->record];

  if (r->ns > 0)
    json_late(o, "e", x, x->at_ns);
  json_run_on(o, JSON_PID, r->track, "run", x);
  if (x->linked)
    json_arrow(o, "f", r->track, x->at_ns, r->id);
  if (lanes)
    json_lane(o, x);
}

/* A slice of the loop. */
static void json_slice(struct json *o, const struct uvs__trace_span *x, const char *category,
                       const char *name, const char *more) {
  json_open(o, "X", JSON_PID, UVS__TRACK_LOOP, x->at_ns);
  json_duration(o, x);
  json_say(o, category, name, more);
  if (x->open)
    json_print(o, ",\"args\":{\"running\":true}");
  json_close(o);
}

static void json_call(struct json *o, const struct uvs__trace_span *x) {
  bool after = o->v->records[x->record].detail == UVS__TRACE_AFTER;

  json_slice(o, x, "call", after ? "after " : "done ", uvs__view_name(o->v, x->record));
}

static void json_submission(struct json *o, const struct uvs__trace_span *x) {
  const struct uvs__trace_record *r = &o->v->records[x->record];

  json_open(o, "X", JSON_PID, r->track, x->at_ns);
  json_duration(o, x);
  json_say(o, "submit", "submit", "");
  json_task(o, r->id);
  json_print(o, "}");
  json_close(o);
  if (x->linked)
    json_arrow(o, "s", r->track, x->at_ns, r->id);
}

static void json_end(struct json *o, const struct uvs__trace_span *x) {
  const struct uvs__trace_record *r = &o->v->records[x->record];

  json_open(o, "i", JSON_PID, r->track, x->at_ns);
  json_print(o, ",\"s\":\"t\"");
  json_say(o, "end", outcome_word(r->detail), "");
  json_task(o, r->id);
  json_print(o, "}");
  json_close(o);
}

static void json_gauge(struct json *o, uint64_t at_ns, const char *name, uint64_t tasks) {
  json_open(o, "C", JSON_PID, UVS__TRACK_LOOP, at_ns);
  json_print(o, ",\"name\":\"%s\",\"args\":{\"tasks\":%" PRIu64 "}", name, tasks);
  json_close(o);
}

static void json_gauges(struct json *o, uint64_t at_ns, uint64_t waiting, uint64_t ready) {
  json_gauge(o, at_ns, "waiting", waiting);
  json_gauge(o, at_ns, "ready", ready);
}

static void json_span(struct json *o, const struct uvs__trace_span *x, bool lanes) {
  if (x->record == UVS__NONE) { /* the loop is held up now */
    name_track(o, UVS__TRACK_LOOP);
    json_slice(o, x, "held", "loop held up", "");
    return;
  }
  name_track(o, o->v->records[x->record].track);
  switch ((enum uvs__trace_span_kind)x->kind) {
  case UVS__SPAN_RUN:
    json_run(o, x, lanes);
    break;
  case UVS__SPAN_LATE:
    json_late(o, "b", x, x->at_ns);
    break;
  case UVS__SPAN_HELD:
    json_slice(o, x, "held", "loop held up", "");
    break;
  case UVS__SPAN_PASS:
    json_slice(o, x, "loop", "pass", "");
    break;
  case UVS__SPAN_CALL:
    json_call(o, x);
    break;
  case UVS__SPAN_SUBMIT:
    json_submission(o, x);
    break;
  case UVS__SPAN_ENDED:
    json_end(o, x);
    break;
  case UVS__SPAN_COUNTS:
    json_gauges(o, x->at_ns, o->v->records[x->record].id, o->v->records[x->record].ns);
    break;
  case UVS__SPAN_NONE:
    break;
  }
}

/* ---- the document ---- */

static void json_counts(struct json *o, const char *name, const struct uvs__counts *c) {
  json_print(o,
             "\"%s\":{\"submitted\":%" PRIu64 ",\"runs\":%" PRIu64 ",\"waiting\":%" PRIu64
             ",\"ready\":%" PRIu64 ",\"running\":%" PRIu64,
             name, c->submitted, c->runs, c->waiting, c->ready, c->running);
  for (int i = 0; i < UVS__OUTCOMES; i++)
    json_print(o, ",\"%s\":%" PRIu64, outcome_word(i), c->ended[i]);
  json_print(o, "}");
}

static void json_head(struct json *o) {
  json_print(o, "{\"displayTimeUnit\":\"ns\",\"otherData\":{\"overwritten\":%" PRIu64 ",",
             o->v->overwritten);
  json_counts(o, "opened", &o->v->opened);
  json_print(o, ",");
  json_counts(o, "counts", &o->v->counts);
  json_print(o, "},\n\"traceEvents\":[\n");
}

int uvs_trace_write(uvs_t *s, int64_t last_ns, unsigned flags, uvs_write_cb write, void *arg) {
  struct uvs__view v;
  struct json *o;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (write == NULL || last_ns < 0 || (flags & ~(unsigned)UVS_TRACE_LANES) != 0)
    return UV_EINVAL;
  o = uvs__mem_alloc(&s->mem, 1, sizeof *o, 0);
  if (o == NULL)
    return UV_ENOMEM;
  rc = uvs__view_open(s, last_ns, false, &v);
  if (rc < 0) {
    uvs__mem_free(&s->mem, o);
    return rc;
  }
  memset(o, 0, sizeof *o);
  o->v = &v;
  o->write = write;
  o->arg = arg;
  json_head(o);
  json_name(o, "process_name", JSON_PID, UVS__TRACK_LOOP, "uvsched");
  if ((flags & UVS_TRACE_LANES) != 0)
    json_name(o, "process_name", JSON_PID_LANES, 0, "uvsched lanes");
  for (size_t i = 0; i < v.span_count && o->rc == 0; i++)
    json_span(o, &v.spans[i], (flags & UVS_TRACE_LANES) != 0);
  json_gauges(o, v.until_ns, v.counts.waiting, v.counts.ready);
  json_print(o, "]}\n");
  json_flush(o);
  rc = o->rc;
  uvs__view_close(s, &v);
  uvs__mem_free(&s->mem, o);
  return rc;
}
