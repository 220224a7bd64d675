/* SPDX-License-Identifier: MIT */
#include "console/tasks.h"

#include "console/alloc.h"
#include "console/json.h"
#include "console/query.h"

#include <string.h>

enum { BY_LATE = 0, BY_NAME, BY_STATE, BY_DUE, BY_RUNS, BY_MISSED, BY_FAILURES, BY_CULPRIT, BY_ID };
static const char *const sorts[] = {"late",   "name",     "state",   "due", "runs",
                                    "missed", "failures", "culprit", "id",  NULL};

/* The first names are those of UVS_WAITING ... */
enum { ANY_STATE = 0, PAUSED = UVS_ENDED + 1, FAILING, LATE };
static const char *const states[] = {"any",    "waiting", "ready", "running", "ended",
                                     "paused", "failing", "late",  NULL};

static const char *const orders[] = {"desc", "asc", NULL};

int uvs__survey_open(struct uvs__survey *v, const char *target) {
  uint64_t offset = 0, limit = 100;
  int order, rc;

  *v = (struct uvs__survey){.sort = BY_LATE};
  rc = uvs__query_text(target, "name", v->name, sizeof v->name);
  if (rc < 0 && rc != UV_ENOENT)
    return UV_EINVAL;
  if (rc == UV_ENOENT)
    v->name[0] = 0;
  if (uvs__query_word(target, "sort", sorts, &v->sort) < 0 ||
      uvs__query_word(target, "state", states, &v->state) < 0 ||
      uvs__query_uint(target, "offset", 0, UVS__SURVEY_ROWS - 1, &offset) < 0 ||
      uvs__query_uint(target, "limit", 1, UVS__SURVEY_ROWS, &limit) < 0 ||
      offset + limit > UVS__SURVEY_ROWS)
    return UV_EINVAL;
  order = v->sort == BY_NAME || v->sort == BY_DUE || v->sort == BY_ID || v->sort == BY_STATE;
  if (uvs__query_word(target, "order", orders, &order) < 0)
    return UV_EINVAL;
  v->descending = order == 0;
  v->offset = (uint32_t)offset;
  v->limit = (uint32_t)limit;
  v->room = v->offset + v->limit;
  v->rows = uvs__console_alloc(v->room * sizeof *v->rows);
  v->heap = uvs__console_alloc(v->room * sizeof *v->heap);
  if (v->rows == NULL || v->heap == NULL) {
    uvs__survey_close(v);
    return UV_ENOMEM;
  }
  return 0;
}

void uvs__survey_close(struct uvs__survey *v) {
  uvs__console_free(v->rows);
  uvs__console_free(v->heap);
  v->rows = NULL;
  v->heap = NULL;
}

/* ---- order ---- */

/* How late the last run was, or the next one is already. */
static int64_t lateness(const uvs_info_t *i) {
  int64_t overdue = i->remaining_ns < 0 && i->state != UVS_ENDED ? -i->remaining_ns : 0;

  /* Of a run in progress the deadline has passed, too. */
  return i->state == UVS_RUNNING || overdue < i->late_ns ? i->late_ns : overdue;
}

static int compare_i64(int64_t a, int64_t b) {
  return (a > b) - (a < b);
}

static int compare_u64(uint64_t a, uint64_t b) {
  return (a > b) - (a < b);
}

static int compare_key(const struct uvs__survey *v, const uvs_info_t *a, const uvs_info_t *b) {
  switch (v->sort) {
  case BY_NAME:
    return strcmp(a->name, b->name);
  case BY_STATE:
    return compare_i64(a->state, b->state);
  case BY_DUE:
    return compare_i64(a->due_ns, b->due_ns);
  case BY_RUNS:
    return compare_u64(a->runs, b->runs);
  case BY_MISSED:
    return compare_u64(a->missed, b->missed);
  case BY_FAILURES:
    return compare_u64(a->failures, b->failures);
  case BY_CULPRIT:
    return compare_i64(a->culprit, b->culprit);
  case BY_LATE:
    return compare_i64(lateness(a), lateness(b));
  default:
    return compare_u64(a->id, b->id);
  }
}

/* Does row a come before row b? Equal keys go by id. */
static bool is_before(const struct uvs__survey *v, const uvs_info_t *a, const uvs_info_t *b) {
  int c = compare_key(v, a, b);

  if (c == 0)
    return a->id < b->id;
  return v->descending ? c > 0 : c < 0;
}

static bool heap_is_before(const struct uvs__survey *v, uint32_t a, uint32_t b) {
  return is_before(v, &v->rows[v->heap[a]], &v->rows[v->heap[b]]);
}

static void heap_swap(struct uvs__survey *v, uint32_t a, uint32_t b) {
  uint16_t row = v->heap[a];

  v->heap[a] = v->heap[b];
  v->heap[b] = row;
}

static void sift_up(struct uvs__survey *v, uint32_t at) {
  while (at > 0 && heap_is_before(v, (at - 1) / 2, at)) {
    heap_swap(v, at, (at - 1) / 2);
    at = (at - 1) / 2;
  }
}

/* Among the first n. */
static void sift_down(struct uvs__survey *v, uint32_t at, uint32_t n) {
  for (;;) {
    uint32_t worst = at;

    for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < n; child++) {
      if (heap_is_before(v, worst, child))
        worst = child;
    }
    if (worst == at)
      return;
    heap_swap(v, at, worst);
    at = worst;
  }
}

/* ---- the visit ---- */

static int lower(char c) {
  return c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c;
}

static bool has_part(const char *name, const char *part) {
  for (; *name != 0 || *part == 0; name++) {
    size_t i = 0;

    while (part[i] != 0 && lower(name[i]) == lower(part[i]))
      i++;
    if (part[i] == 0)
      return true;
  }
  return false;
}

static bool has_state(const uvs_info_t *i, int state) {
  switch (state) {
  case ANY_STATE:
    return true;
  case PAUSED:
    return i->paused;
  case FAILING:
    return i->failures > 0;
  case LATE:
    return lateness(i) > 0;
  default:
    return i->state == state;
  }
}

static int see(uvs_t *s, const uvs_info_t *info, void *arg) {
  struct uvs__survey *v = arg;
  uvs_info_t row;

  v->total++;
  if (!has_state(info, v->state) || !has_part(info->name, v->name))
    return 0;
  v->matched++;
  row = *info;
  if (row.from == UVS_FROM_WALL && row.due_ns != UVS_NEVER)
    row.due_ns = uvs_now(s) + row.remaining_ns; /* by one clock, so that they can be compared */
  if (v->used < v->room) {
    v->rows[v->used] = row;
    v->heap[v->used] = (uint16_t)v->used;
    sift_up(v, v->used++);
  } else if (is_before(v, &row, &v->rows[v->heap[0]])) {
    v->rows[v->heap[0]] = row;
    sift_down(v, 0, v->used);
  }
  return 0;
}

int uvs__survey_step(struct uvs__survey *v, uvs_t *s, uint32_t places) {
  int rc = uvs_each_step(s, &v->cursor, places, see, v);

  if (rc == 0)
    v->over = v->cursor == 0;
  return rc;
}

/* ---- the page ---- */

/* How late 99 % of all runs of tasks with this name started; 0: not known. */
static int64_t p99_late(uvs_t *s, const char *name) {
  uvs_name_stats_t n;

  uvs_name_stats_init(&n);
  return name[0] == 0 || uvs_name_stats(s, name, &n) < 0 ? 0 : uvs_quantile_ns(&n.late, 0.99);
}

static void write_row(struct uvs__json *j, uvs_t *s, const uvs_info_t *i, int64_t now_ns) {
  static const char *const kinds[] = {[UVS_ONE_SHOT] = "once",
                                      [UVS_FIXED_RATE] = "rate",
                                      [UVS_FIXED_DELAY] = "delay",
                                      [UVS_CALENDAR] = "cron"};
  static const char *const priorities[] = {"low", "normal", "high"};

  uvs__json_open(j, NULL, '{');
  uvs__json_id(j, "id", i->id);
  uvs__json_string(j, "name", i->name);
  uvs__json_string(j, "state", uvs_state_name(i->state));
  uvs__json_string(j, "kind", kinds[i->kind]);
  uvs__json_ns(j, "due_in_ns", i->due_ns == UVS_NEVER ? UVS_NEVER : i->due_ns - now_ns);
  uvs__json_int(j, "period_ns", i->period_ns);
  uvs__json_uint(j, "runs", i->runs);
  uvs__json_uint(j, "missed", i->missed);
  uvs__json_uint(j, "failures", i->failures);
  uvs__json_int(j, "late_ns", lateness(i));
  if (i->culprit < 0)
    uvs__json_null(j, "culprit");
  else
    uvs__json_string(j, "culprit", uvs_late_name(i->culprit));
  uvs__json_int(j, "p99_late_ns", p99_late(s, i->name));
  uvs__json_id(j, "lane", i->lane);
  uvs__json_string(j, "priority", priorities[i->priority - UVS_PRIORITY_LOW]);
  uvs__json_bool(j, "paused", i->paused);
  uvs__json_bool(j, "cancelled", i->cancelled);
  uvs__json_bool(j, "timed_out", i->timed_out);
  uvs__json_close(j, '}');
}

int uvs__survey_write(struct uvs__survey *v, uvs_t *s, uvs_write_cb write, void *arg) {
  int64_t now_ns = uvs_now(s);
  struct uvs__json j;

  for (uint32_t n = v->used; n > 1; n--) { /* the worst goes to the end */
    heap_swap(v, 0, n - 1);
    sift_down(v, 0, n - 1);
  }
  uvs__json_init(&j, write, arg);
  uvs__json_open(&j, NULL, '{');
  uvs__json_int(&j, "now_ns", now_ns);
  uvs__json_uint(&j, "total", v->total);
  uvs__json_uint(&j, "matched", v->matched);
  uvs__json_uint(&j, "offset", v->offset);
  uvs__json_open(&j, "tasks", '[');
  for (uint32_t i = v->offset; i < v->used; i++)
    write_row(&j, s, &v->rows[v->heap[i]], now_ns);
  uvs__json_close(&j, ']');
  uvs__json_close(&j, '}');
  return uvs__json_end(&j);
}
