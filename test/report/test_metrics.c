/* SPDX-License-Identifier: MIT
 *
 * The statistics of a whole scheduler: the sum of all cells, and both output formats. A small
 * strict parser in this file reads the Prometheus format.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/bodies.h"
#include "lib/fixture.h"
#include "lib/inspect.h"
#include "lib/threads.h"

/* -------------------------------------------------------------- what is written --- */

#define PAGE_MAX 262144

struct page {
  char text[PAGE_MAX];
  size_t size;
  int calls;
  int stop_at, answer; /* the answer of that call (from 1 on); 0: of none */
  bool broken;         /* a piece was empty, not made of whole lines, or came after the end */
};

static int keep(const char *data, size_t size, void *arg) {
  struct page *p = arg;

  p->broken |= size == 0 || data[size - 1] != '\n' || memchr(data, 0, size) != NULL ||
               size >= PAGE_MAX - p->size || (p->stop_at != 0 && p->calls >= p->stop_at);
  p->calls++;
  if (!p->broken) {
    memcpy(p->text + p->size, data, size);
    p->size += size;
    p->text[p->size] = '\0';
  }
  return p->calls == p->stop_at ? p->answer : 0;
}

static int write_page(uvs_t *s, int format, struct page *p) {
  memset(p, 0, sizeof *p);
  return uvs_stats_write(s, format, keep, p);
}

/* ------------------------------------------------------------------- the parser --- */

#define SAMPLES_MAX 2048

struct sample {
  char series[200]; /* name and labels */
  char value[40];
};

struct parsed {
  struct sample samples[SAMPLES_MAX];
  unsigned count;
  char families[32][64];
  unsigned family_count;
  char type[16]; /* of the last family */
  /* of the histogram series that is being read; empty: none is */
  char open[150];
  double le;
  unsigned long long below;
  bool infinite, summed;
  const char *line; /* the last one that was read */
};

static size_t name_length(const char *s) {
  size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz_");

  return n == 0 ? 0 : n + strspn(s + n, "abcdefghijklmnopqrstuvwxyz_0123456789");
}

/* The length of {a="b",c="d"}; 0 if it is not valid, also if it has an escape that the format does
 * not have. */
static size_t labels_length(const char *s) {
  const char *p = s;

  if (*p != '{')
    return 0;
  do {
    size_t n = name_length(++p);

    if (n == 0 || strncmp(p + n, "=\"", 2) != 0)
      return 0;
    p += n + 2;
    for (p += strcspn(p, "\"\\\n"); *p == '\\'; p += strcspn(p, "\"\\\n")) {
      if (strchr("\\\"n", p[1]) == NULL || p[1] == '\0')
        return 0;
      p += 2;
    }
    if (*p++ != '"')
      return 0;
  } while (*p == ',');
  return *p == '}' ? (size_t)(p + 1 - s) : 0;
}

/* Digits, optionally with a decimal point and more digits. No comma, sign or exponent. */
static bool is_number(const char *s) {
  size_t n = strspn(s, "0123456789");
  size_t m;

  if (n == 0 || s[n] != '.')
    return n > 0 && s[n] == '\0';
  m = strspn(s + n + 1, "0123456789");
  return m > 0 && s[n + 1 + m] == '\0';
}

static const char *parse_family(struct parsed *p, const char *help, const char *type) {
  size_t n = name_length(help);
  bool counter;

  if (p->open[0] != '\0')
    return "a histogram is not complete";
  if (n == 0 || n >= sizeof p->families[0] || help[n] != ' ' || help[n + 1] == '\0')
    return "HELP is not well-formed";
  if (strncmp(type, "# TYPE ", 7) != 0 || strncmp(type + 7, help, n) != 0 || type[7 + n] != ' ')
    return "no TYPE of the same name after HELP";
  if (strncmp(help, "uvsched_", 8) != 0)
    return "not our prefix";
  type += 7 + n + 1;
  if (strcmp(type, "counter") != 0 && strcmp(type, "gauge") != 0 && strcmp(type, "histogram") != 0)
    return "unknown TYPE";
  counter = n > 6 && strncmp(help + n - 6, "_total", 6) == 0;
  if (counter != (strcmp(type, "counter") == 0))
    return "only counters end in _total";
  for (unsigned i = 0; i < p->family_count; i++) {
    if (strlen(p->families[i]) == n && strncmp(p->families[i], help, n) == 0)
      return "a name comes twice";
  }
  if (p->family_count == 32)
    return "too many";
  memcpy(p->families[p->family_count], help, n);
  p->families[p->family_count++][n] = '\0';
  snprintf(p->type, sizeof p->type, "%s", type);
  return NULL;
}

/* Buckets, _sum and _count of one histogram, in this order. rest: "_bucket{...}" and so on. */
static const char *parse_histogram(struct parsed *p, const char *rest, const char *value) {
  char labels[150];
  const char *le = strstr(rest, "le=\"");
  double bound;

  if (strncmp(rest, "_bucket{", 8) == 0 && le != NULL) {
    snprintf(labels, sizeof labels, "%.*s", (int)(le - rest - 7), rest + 7);
    if (p->open[0] == '\0') {
      snprintf(p->open, sizeof p->open, "%s", labels);
      p->le = 0;
      p->below = 0;
      p->infinite = p->summed = false;
    }
    if (strcmp(labels, p->open) != 0 || p->infinite)
      return "another series begins before this one is complete";
    p->infinite = strcmp(le, "le=\"+Inf\"}") == 0;
    bound = p->infinite ? 1e300 : strtod(le + 4, NULL);
    if (bound <= p->le)
      return "the bounds do not rise";
    if (strchr(value, '.') != NULL || strtoull(value, NULL, 10) < p->below)
      return "the buckets are not cumulative";
    p->le = bound;
    p->below = strtoull(value, NULL, 10);
    return NULL;
  }
  /* The label beside le ends in a comma, the one alone in a brace. */
  if (strlen(p->open) > 1)
    snprintf(labels, sizeof labels, "%.*s}", (int)strlen(p->open) - 1, p->open);
  else
    labels[0] = '\0';
  if (p->open[0] == '\0' || !p->infinite)
    return "no +Inf before it";
  if (strncmp(rest, "_sum", 4) == 0 && strcmp(rest + 4, labels) == 0 && !p->summed) {
    p->summed = true;
    return NULL;
  }
  if (strncmp(rest, "_count", 6) == 0 && strcmp(rest + 6, labels) == 0 && p->summed) {
    p->open[0] = '\0';
    return strtoull(value, NULL, 10) == p->below ? NULL : "_count is not the last bucket";
  }
  return "no such sample in a histogram";
}

static const char *parse_sample(struct parsed *p, const char *line) {
  size_t n = name_length(line);
  size_t labels = labels_length(line + n);
  struct sample *s = &p->samples[p->count];
  size_t family;

  if (n == 0 || (line[n] == '{' && labels == 0) || line[n + labels] != ' ' ||
      !is_number(line + n + labels + 1))
    return "a sample is not well-formed";
  if (p->family_count == 0)
    return "a sample without HELP and TYPE";
  if (p->count == SAMPLES_MAX || n + labels >= sizeof s->series)
    return "too much";
  snprintf(s->series, sizeof s->series, "%.*s", (int)(n + labels), line);
  snprintf(s->value, sizeof s->value, "%s", line + n + labels + 1);
  for (unsigned i = 0; i < p->count; i++) {
    if (strcmp(p->samples[i].series, s->series) == 0)
      return "a series comes twice";
  }
  p->count++;
  family = strlen(p->families[p->family_count - 1]);
  if (strncmp(s->series, p->families[p->family_count - 1], family) != 0)
    return "a sample of another family";
  if (strcmp(p->type, "histogram") == 0)
    return parse_histogram(p, s->series + family, s->value);
  if (n != family)
    return "a sample of another family";
  if (strchr(s->value, '.') != NULL && strstr(p->families[p->family_count - 1], "_seconds") == NULL)
    return "a count that is none";
  return NULL;
}

/* Returns NULL, or what is wrong. Changes the text. */
static const char *parse(char *text, struct parsed *p) {
  const char *wrong = NULL;

  memset(p, 0, sizeof *p);
  while (*text != '\0' && wrong == NULL) {
    char *end = strchr(text, '\n');
    char *next = end == NULL ? NULL : strchr(end + 1, '\n');

    if (end == NULL)
      return "the last line has no end";
    *end = '\0';
    if (strncmp(text, "# HELP ", 7) == 0) {
      if (next == NULL)
        return "nothing follows HELP";
      *next = '\0';
      wrong = parse_family(p, text + 7, end + 1);
      end = next;
    } else {
      wrong = parse_sample(p, text);
    }
    p->line = text;
    text = end + 1;
  }
  return wrong != NULL ? wrong : p->open[0] != '\0' ? "a histogram is not complete" : NULL;
}

static const char *value_of(const struct parsed *p, const char *series) {
  for (unsigned i = 0; i < p->count; i++) {
    if (strcmp(p->samples[i].series, series) == 0)
      return p->samples[i].value;
  }
  return "none";
}

static struct page page;
static struct parsed parsed;

static enum greatest_test_res is_well_formed(void) {
  const char *wrong = parse(page.text, &parsed);

  ASSERT_FALSE(page.broken);
  if (wrong != NULL)
    printf("%s: %s\n", wrong, parsed.line);
  ASSERTm(wrong, wrong == NULL);
  PASS();
}

/* Each kind of mistake once: a parser that accepts everything proves nothing. */
TEST the_tests_prometheus_parser_is_strict(void) {
  static const char head[] = "# HELP uvsched_a_total x\n# TYPE uvsched_a_total counter\n";
  static const char hist[] = "# HELP uvsched_h x\n# TYPE uvsched_h histogram\n";
  static const struct {
    const char *head, *rest;
    bool good;
  } cases[] = {
      {head, "uvsched_a_total 1\n", true},
      {head, "uvsched_a_total{x=\"y\"} 1\nuvsched_a_total{x=\"z\"} 1\n", true},
      {head, "uvsched_a_total 1\nuvsched_a_total 1\n", false},
      {head, "uvsched_a_total 1", false},
      {head, "uvsched_a_total 1,5\n", false},
      {head, "uvsched_a_total 1.5\n", false},
      {head, "uvsched_a_total  1\n", false},
      {head, "uvsched_a_total{x=\"y\",} 1\n", false},
      {head, "uvsched_a_total{x=y} 1\n", false},
      {head, "uvsched_a_total{x=\"a\\\\b\\\"c\\nd\"} 1\n", true},
      {head, "uvsched_a_total{x=\"\\x\"} 1\n", false},
      {head, "uvsched_a_total{x=\"\"\"} 1\n", false},
      {head, "uvsched_b_total 1\n", false},
      {head, "\n", false},
      {"", "uvsched_a_total 1\n", false},
      {"# HELP uvsched_a_total x\n", "uvsched_a_total 1\n", false},
      {head, head, false},
      {"# HELP uvsched_a x\n# TYPE uvsched_a counter\n", "uvsched_a 1\n", false},
      {hist,
       "uvsched_h_bucket{le=\"0.5\"} 1\nuvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_sum 0.1\n"
       "uvsched_h_count 1\n",
       true},
      {hist,
       "uvsched_h_bucket{le=\"0.5\"} 2\nuvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_sum 0.1\n"
       "uvsched_h_count 1\n",
       false},
      {hist,
       "uvsched_h_bucket{le=\"0.5\"} 1\nuvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_sum 0.1\n"
       "uvsched_h_count 2\n",
       false},
      {hist,
       "uvsched_h_bucket{le=\"0.5\"} 0\nuvsched_h_bucket{le=\"0.4\"} 1\n"
       "uvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_sum 0.1\nuvsched_h_count 1\n",
       false},
      {hist, "uvsched_h_bucket{le=\"0.5\"} 1\nuvsched_h_sum 0.1\nuvsched_h_count 1\n", false},
      {hist, "uvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_count 1\n", false},
      {hist, "uvsched_h_bucket{le=\"+Inf\"} 1\nuvsched_h_sum 0.1\n", false},
  };

  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const char *wrong;

    snprintf(page.text, sizeof page.text, "%s%s", cases[i].head, cases[i].rest);
    wrong = parse(page.text, &parsed);
    if ((wrong == NULL) != cases[i].good)
      printf("%s%s: %s\n", cases[i].head, cases[i].rest, wrong == NULL ? "taken" : wrong);
    ASSERT_EQ(cases[i].good, wrong == NULL);
  }
  PASS();
}

/* ---------------------------------------------------------------- all the cells --- */

TEST the_statistics_of_loop_runners_and_other_threads_are_added_up(void) {
  struct fixture f;
  uvs_histogram_t h;

  fixture_init(&f);
  f.options.concurrency = 3;
  CHECK_CALL(fixture_open(&f));
  for (int which = 0; which < UVS_STAT_CAUSE + UVS_LATE_CAUSES; which++)
    ASSERT_U64(0, histogram_of(f.s, which).count);
  inspect_stat_end(f.s, INSPECT_LOOP, 2000);
  inspect_stat_end(f.s, INSPECT_OTHERS, 30000);
  for (int i = 0; i < 3; i++)
    inspect_stat_end(f.s, i, 500000);
  ASSERT_RC(0, uvs_set_concurrency(f.s, 1)); /* what the other two have done stays */
  ASSERT_RC(0, uvs_set_concurrency(f.s, 4));
  inspect_stat_end(f.s, 3, 7000000);
  h = histogram_of(f.s, UVS_STAT_RUN);
  ASSERT_U64(6, h.count);
  ASSERT_U64(2000 + 30000 + 3 * 500000 + 7000000, h.sum_ns);
  ASSERT_U64(7000000, h.max_ns);
  ASSERT_I64(524288, uvs_quantile_ns(&h, 0.5));
  ASSERT_U64(0, histogram_of(f.s, UVS_STAT_LATE).count);
  for (int cause = 0; cause < UVS_LATE_CAUSES; cause++) {
    inspect_stat_start(f.s, INSPECT_LOOP, cause, 1000 * ((uint64_t)cause + 1));
    ASSERT_U64(1, histogram_of(f.s, UVS_STAT_CAUSE + cause).count);
    ASSERT_U64(1000 * (cause + 1), histogram_of(f.s, UVS_STAT_CAUSE + cause).max_ns);
  }
  inspect_stat_start(f.s, 1, -1, 0);
  h = histogram_of(f.s, UVS_STAT_LATE); /* all of them, and those on time */
  ASSERT_U64(UVS_LATE_CAUSES + 1, h.count);
  ASSERT_U64(1000 * UVS_LATE_CAUSES * (UVS_LATE_CAUSES + 1) / 2, h.sum_ns);
  ASSERT_U64(1000 * UVS_LATE_CAUSES, h.max_ns);
  ASSERT_U64(UVS_LATE_CAUSES + 1, histogram_of(f.s, UVS_STAT_QUEUE).count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST an_unknown_histogram_is_refused(void) {
  struct {
    uvs_histogram_t h;
    uint64_t tail[4];
  } big;
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  inspect_stat_end(f.s, INSPECT_LOOP, 2000);
  uvs_histogram_init(&big.h);
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, -1, &big.h));
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_CAUSE + UVS_LATE_CAUSES, &big.h));
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_RUN, NULL));
  ASSERT_RC(UV_EINVAL, uvs_histogram(NULL, UVS_STAT_RUN, &big.h));
  big.h.size = 0;
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_RUN, &big.h));
  big.h.size = sizeof big.h - 8;
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_RUN, &big.h));
  big.h.size = SIZE_MAX;
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_RUN, &big.h));
  ASSERT_U64(0, big.h.count); /* nothing was written */

  /* L19: of a newer program */
  memset(big.tail, 0, sizeof big.tail);
  big.h.size = sizeof big;
  ASSERT_RC(0, uvs_histogram(f.s, UVS_STAT_RUN, &big.h));
  ASSERT_U64(sizeof big, big.h.size);
  ASSERT_U64(1, big.h.count);
  big.tail[3] = 1;
  ASSERT_RC(UV_EINVAL, uvs_histogram(f.s, UVS_STAT_RUN, &big.h));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST many_runners_take_a_reasonable_amount_of_memory(void) {
  struct fixture f;
  long before;

  fixture_init(&f);
  f.options.concurrency = 0;
  CHECK_CALL(fixture_open(&f));
  before = atomic_load(&f.fault.live_bytes);
  ASSERT_RC(0, uvs_set_concurrency(f.s, 1024));
  ASSERT(atomic_load(&f.fault.live_bytes) - before < 1024 * 13000L);
  for (int i = 0; i < 1024; i++)
    inspect_stat_end(f.s, i, (uint64_t)i);
  ASSERT_U64(1024, histogram_of(f.s, UVS_STAT_RUN).count);
  ASSERT_U64(1023 * 512, histogram_of(f.s, UVS_STAT_RUN).sum_ns);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* -------------------------------------------------------------------- prometheus --- */

/* One task of each outcome, and some values in the cells. */
static enum greatest_test_res open_filled(struct fixture *f) {
  static const uint64_t run_ns[] = {1023, 1024, (UINT64_C(1) << 40) - 1, UVS_HOUR(1)};
  uvs_id_t id;

  fixture_init(f);
  f->options.concurrency = 2;
  f->options.max_pending = 4;
  CHECK_CALL(fixture_open_turned(f));
  for (int i = 0; i < 4; i++) {
    uvs_task_t t = fixture_once(f, "abcd"[i], i < 3 ? 0 : UVS_HOUR(1));

    probe_of(&t)->ret = i == 2 ? UV_EIO : 0;
    ASSERT_RC(0, uvs_submit(f->s, &t, &id));
  }
  uvs_task_t e = fixture_once(f, 'e', 0);
  ASSERT_RC(UV_EAGAIN, uvs_submit(f->s, &e, NULL));
  fixture_turn(f);
  e = fixture_once(f, 'e', UVS_HOUR(2));
  ASSERT_RC(0, uvs_submit(f->s, &e, &id));
  ASSERT_RC(UVS_CANCELLED, uvs_cancel(f->s, id, 0));
  fixture_turn(f);

  /* Removes what the runs themselves have recorded. */
  inspect_stat_clear(f->s, INSPECT_LOOP);
  inspect_stat_clear(f->s, INSPECT_OTHERS);
  for (int i = 0; i < 2; i++)
    inspect_stat_clear(f->s, i);
  for (int i = 0; i < 98; i++)
    inspect_stat_start(f->s, i % 2, UVS_LATE_TIMER, 500000);
  inspect_stat_start(f->s, INSPECT_LOOP, UVS_LATE_RUNNERS, UVS_SEC(2));
  inspect_stat_start(f->s, INSPECT_OTHERS, UVS_LATE_LOOP, 123);
  inspect_stat_start(f->s, INSPECT_OTHERS, -1, 0);
  for (size_t i = 0; i < sizeof run_ns / sizeof run_ns[0]; i++)
    inspect_stat_end(f->s, INSPECT_LOOP, run_ns[i]);
  PASS();
}

TEST the_prometheus_output_is_valid_and_complete(void) {
  static const struct sample expected[] = {
      {"uvsched_tasks_submitted_total", "5"},
      {"uvsched_tasks_ended_total{outcome=\"completed\"}", "2"},
      {"uvsched_tasks_ended_total{outcome=\"failed\"}", "1"},
      {"uvsched_tasks_ended_total{outcome=\"cancelled\"}", "1"},
      {"uvsched_tasks{state=\"waiting\"}", "1"},
      {"uvsched_tasks{state=\"ready\"}", "0"},
      {"uvsched_tasks{state=\"running\"}", "0"},
      {"uvsched_submissions_rejected_total", "1"},
      {"uvsched_runs_total", "3"},
      {"uvsched_runs_missed_total", "0"},
      {"uvsched_runs_failed_total", "1"},
      {"uvsched_tasks_ended_total{outcome=\"timed_out\"}", "0"},
      {"uvsched_tasks_ended_total{outcome=\"dropped\"}", "0"},
      {"uvsched_runners", "0"},
      {"uvsched_concurrency", "2"},
      {"uvsched_oldest_ready_seconds", "0.000000000"},
      {"uvsched_loop_held_seconds_total", "0.000000000"},
      {"uvsched_loop_held_max_seconds", "0.000000000"},
      {"uvsched_task_slots", "64"},
      {"uvsched_heap_operations_total", "9"}, /* five in, four out */
      {"uvsched_wakeups_total", "4"},
      {"uvsched_run_late_seconds_bucket{culprit=\"none\",le=\"0.000001024\"}", "1"},
      {"uvsched_run_late_seconds_sum{culprit=\"none\"}", "0.000000000"},
      {"uvsched_run_late_seconds_bucket{culprit=\"timer\",le=\"0.000262144\"}", "0"},
      {"uvsched_run_late_seconds_bucket{culprit=\"runners\",le=\"1.073741824\"}", "0"},
      {"uvsched_run_late_seconds_bucket{culprit=\"runners\",le=\"2.147483648\"}", "1"},
      {"uvsched_run_late_seconds_bucket{culprit=\"runners\",le=\"+Inf\"}", "1"},
      {"uvsched_run_queue_seconds_sum", "1.024500061"},
      {"uvsched_run_duration_seconds_bucket{le=\"0.000001024\"}", "1"},
      {"uvsched_run_duration_seconds_bucket{le=\"0.000002048\"}", "2"},
      {"uvsched_run_duration_seconds_bucket{le=\"549.755813888\"}", "2"},
      {"uvsched_run_duration_seconds_bucket{le=\"1099.511627776\"}", "3"},
      {"uvsched_run_duration_seconds_bucket{le=\"+Inf\"}", "4"},
      {"uvsched_run_duration_seconds_sum", "4699.511629822"},
      {"uvsched_run_late_seconds_bucket{culprit=\"timer\",le=\"0.000524288\"}", "98"},
      {"uvsched_run_late_seconds_sum{culprit=\"timer\"}", "0.049000000"},
      {"uvsched_run_late_seconds_count{culprit=\"timer\"}", "98"},
      {"uvsched_run_late_seconds_count{culprit=\"loop\"}", "1"},
      {"uvsched_run_late_seconds_sum{culprit=\"loop\"}", "0.000000123"},
      {"uvsched_run_late_seconds_count{culprit=\"budget\"}", "0"},
      {"uvsched_run_late_seconds_count{culprit=\"runners\"}", "1"},
      {"uvsched_run_late_seconds_count{culprit=\"overlap\"}", "0"},
      {"uvsched_run_late_seconds_count{culprit=\"clock\"}", "0"},
      {"uvsched_run_late_seconds_bucket{culprit=\"submit\",le=\"+Inf\"}", "0"},
  };
  struct fixture f;
  long allocations;

  CHECK_CALL(open_filled(&f));
  allocations = atomic_load(&f.fault.total);
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_PROMETHEUS, &page));
  ASSERT_I64(allocations, atomic_load(&f.fault.total));
  CHECK_CALL(is_well_formed());
  for (size_t i = 0; i < sizeof expected / sizeof expected[0]; i++)
    ASSERT_STR_EQm(expected[i].series, expected[i].value, value_of(&parsed, expected[i].series));
  /* 31 bounds, +Inf, sum and count, of two histograms, and of seven culprits and none */
  ASSERT_U64(22 + (3 + UVS_LATE_CAUSES) * (31 + 3), parsed.count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ------------------------------------------------- several schedulers, and names --- */

#define HOSTILE "a\"b\\c\nd{e}=\xc3\xa4,#\t'<>"
#define HOSTILE_LABEL "a\\\"b\\\\c\\nd{e}=\xc3\xa4,#\t'<>"

/* A scheduler of this name, after one run of a task of this name. */
static enum greatest_test_res open_named(struct fixture *f, const char *name, const char *task) {
  fixture_init(f);
  f->options.name = name;
  CHECK_CALL(fixture_open_turned(f));
  uvs_task_t t = fixture_once(f, 'a', UVS_MS(1));
  t.name = task;
  probe_of(&t)->takes_ns = UVS_MS(2);
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  fixture_advance_ms(f, 1);
  PASS();
}

/* S76 */
TEST hostile_names_are_escaped_in_labels(void) {
  struct fixture f;

  CHECK_CALL(open_named(&f, HOSTILE, HOSTILE));
  uvs_task_t broken = fixture_once(&f, 'b', 0);
  broken.name = "\xff\xfe\n\xc3";
  ASSERT_RC(0, uvs_submit(f.s, &broken, NULL));
  fixture_turn(&f);
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_PROMETHEUS, &page));
  CHECK_CALL(is_well_formed());
  ASSERT_STR_EQ("2", value_of(&parsed, "uvsched_runs_total{scheduler=\"" HOSTILE_LABEL "\"}"));
  ASSERT_STR_EQ("1",
                value_of(&parsed, "uvsched_named_run_late_seconds_count{scheduler=\"" HOSTILE_LABEL
                                  "\",name=\"" HOSTILE_LABEL "\"}"));
  ASSERT_STR_EQ("0.002000000",
                value_of(&parsed,
                         "uvsched_named_run_duration_seconds_sum{scheduler=\"" HOSTILE_LABEL
                         "\",name=\"" HOSTILE_LABEL "\"}"));
  ASSERT_STR_EQ("1",
                value_of(&parsed, "uvsched_named_run_late_seconds_count{scheduler=\"" HOSTILE_LABEL
                                  "\",name=\"other\"}"));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Every backslash and line end makes a label longer. S76 */
TEST the_longest_labels_fit(void) {
  char name[UVS_NAME_MAX + 1];
  struct fixture f;

  memset(name, '\n', UVS_NAME_MAX);
  name[UVS_NAME_MAX] = '\0';
  CHECK_CALL(open_named(&f, name, name));
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_PROMETHEUS, &page));
  CHECK_CALL(is_well_formed());
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The buckets of a name go from 66 us to 69 s, and no value is lost. S76 */
TEST the_buckets_of_a_name_are_cumulative(void) {
  struct fixture f;

  CHECK_CALL(open_named(&f, NULL, "a"));
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_PROMETHEUS, &page));
  CHECK_CALL(is_well_formed());
#define BUCKET(le) \
  value_of(&parsed, "uvsched_named_run_duration_seconds_bucket{name=\"a\",le=\"" le "\"}")
  ASSERT_STR_EQ("none", BUCKET("0.000032768"));
  ASSERT_STR_EQ("0", BUCKET("0.000065536"));
  ASSERT_STR_EQ("0", BUCKET("0.001048576"));
  ASSERT_STR_EQ("1", BUCKET("0.002097152"));
  ASSERT_STR_EQ("1", BUCKET("68.719476736"));
  ASSERT_STR_EQ("none", BUCKET("137.438953472"));
  ASSERT_STR_EQ("1", BUCKET("+Inf"));
#undef BUCKET
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* Another scheduler on the fixture's loop, after one run of a task of this name. */
static enum greatest_test_res open_beside(struct fixture *f, const char *name, const char *task,
                                          uvs_t **ret) {
  uvs_task_t t = {.size = sizeof t, .work = work_nothing, .name = task};
  uvs_options_t o;

  uvs_options_init(&o);
  o.clock = f->options.clock;
  o.allocator = f->options.allocator;
  o.name = name;
  ASSERT_RC(0, uvs_open(&f->loop, &o, ret));
  ASSERT_RC(0, uvs_submit(*ret, &t, NULL));
  fixture_turn(f);
  PASS();
}

/* S77 */
TEST several_schedulers_share_one_page(void) {
  struct fixture f;
  uvs_t *list[3];

  CHECK_CALL(open_named(&f, "web", "a"));
  list[0] = f.s;
  CHECK_CALL(open_beside(&f, NULL, "a", &list[1]));
  CHECK_CALL(open_beside(&f, "batch", NULL, &list[2]));
  memset(&page, 0, sizeof page);
  ASSERT_RC(0, uvs_stats_write_all(list, 3, keep, &page));
  CHECK_CALL(is_well_formed()); /* HELP and TYPE once, no series twice */
  ASSERT_STR_EQ("1", value_of(&parsed, "uvsched_runs_total{scheduler=\"web\"}"));
  ASSERT_STR_EQ("1", value_of(&parsed, "uvsched_runs_total"));
  ASSERT_STR_EQ("1", value_of(&parsed, "uvsched_runs_total{scheduler=\"batch\"}"));
  ASSERT_STR_EQ("1", value_of(&parsed, "uvsched_named_run_late_seconds_count"
                                       "{scheduler=\"web\",name=\"a\"}"));
  ASSERT_STR_EQ("1", value_of(&parsed, "uvsched_named_run_late_seconds_count{name=\"a\"}"));
  ASSERT_STR_EQ("none", value_of(&parsed, "uvsched_named_run_late_seconds_count"
                                          "{scheduler=\"batch\",name=\"a\"}"));
  for (int i = 1; i < 3; i++)
    ASSERT_RC(0, uvs_close(list[i], NULL));
  fixture_turn(&f);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* S77 */
TEST a_page_that_would_not_be_valid_is_refused(void) {
  for (int same = 0; same < 2; same++) {
    const char *name = same ? "web" : NULL;
    uvs_t *list[2], *none = NULL;
    struct fixture f;

    CHECK_CALL(open_named(&f, name, NULL));
    list[0] = f.s;
    CHECK_CALL(open_beside(&f, name, NULL, &list[1]));
    memset(&page, 0, sizeof page);
    ASSERT_RC(UV_EINVAL, uvs_stats_write_all(list, 2, keep, &page));
    ASSERT_RC(UV_EINVAL, uvs_stats_write_all(list, 0, keep, &page));
    ASSERT_RC(UV_EINVAL, uvs_stats_write_all(NULL, 1, keep, &page));
    ASSERT_RC(UV_EINVAL, uvs_stats_write_all(&none, 1, keep, &page));
    ASSERT_RC(UV_EINVAL, uvs_stats_write_all(list, 1, NULL, &page));
    fault_from(0);
    ASSERT_RC(UV_ENOMEM, uvs_stats_write_all(list, 1, keep, &page));
    ASSERT(fault_hit());
    ASSERT_RC(0, page.calls);
    page.stop_at = 3;
    page.answer = UV_EPIPE;
    ASSERT_RC(UV_EPIPE, uvs_stats_write_all(list, 1, keep, &page));
    ASSERT_RC(3, page.calls);
    ASSERT_RC(0, uvs_close(list[1], NULL));
    fixture_turn(&f);
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

/* -------------------------------------------------------------------------- text --- */

TEST the_text_report_fits_a_screen(void) {
  struct fixture f;

  CHECK_CALL(open_filled(&f));
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_TEXT, &page));
  ASSERT_FALSE(page.broken);
  ASSERT_STR_EQ("tasks\n"
                "  submitted                5\n"
                "  completed                2\n"
                "  failed                   1\n"
                "  cancelled                1\n"
                "  timed out                0\n"
                "  dropped                  0\n"
                "  waiting                  1\n"
                "  ready                    0\n"
                "  running                  0\n"
                "  oldest ready          0 ns\n"
                "  rejected                 1\n"
                "  runs                     3\n"
                "  failed runs              1\n"
                "  missed                   0\n"
                "  concurrency              2\n"
                "  runners                  0\n"
                "  runners, peak            1\n"
                "  slots                   64\n"
                "  heap ops                 9\n"
                "  wake-ups                 4\n"
                "  loop held up          0 ns\n"
                "  held, longest         0 ns\n"
                "\n"
                "runs                   count       p50       p90       p99       max\n"
                "  late                   101    524 us    524 us    524 us    2.00 s\n"
                "  queue                  101    262 us    262 us    262 us    1.00 s\n"
                "  run                      4   1.28 us    3600 s    3600 s    3600 s\n"
                "\n"
                "late because of        count       p50       p90       p99       max    share\n"
                "  runners                  1    2.00 s    2.00 s    2.00 s    2.00 s   97.6 %\n"
                "  timer                   98    500 us    500 us    500 us    500 us    2.4 %\n"
                "  loop                     1    123 ns    123 ns    123 ns    123 ns    0.0 %\n",
                page.text);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST without_a_run_the_text_report_has_no_causes_of_lateness(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, write_page(f.s, UVS_FORMAT_TEXT, &page));
  ASSERT(
      strstr(page.text, "  late                     0      0 ns      0 ns      0 ns      0 ns\n"));
  ASSERT(strstr(page.text, "because") == NULL);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST durations_are_written_with_three_digits_and_a_unit(void) {
  static const struct {
    uint64_t ns;
    const char *text;
  } cases[] = {
      {0, "     0 ns\n"},
      {999, "   999 ns\n"},
      {1000, "  1.00 us\n"},
      {9999, "  9.99 us\n"},
      {12345, "  12.3 us\n"},
      {123456, "   123 us\n"},
      {999999, "   999 us\n"},
      {1000000, "  1.00 ms\n"},
      {50 * 1000000ull, "  50.0 ms\n"},
      {1050000000, "  1.05 s\n"},
      {99900000000, "  99.9 s\n"},
      {86400000000000, "  86400 s\n"},
      {UINT64_MAX, "18446744073 s\n"},
  };
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char *row;

    inspect_stat_clear(f.s, INSPECT_LOOP);
    inspect_stat_end(f.s, INSPECT_LOOP, cases[i].ns);
    ASSERT_RC(0, write_page(f.s, UVS_FORMAT_TEXT, &page));
    row = strstr(page.text, "\n  run  ");
    ASSERT(row != NULL);
    row[1 + strcspn(row + 1, "\n") + 1] = '\0';
    ASSERT_STR_EQ(cases[i].text, row + strlen(row) - strlen(cases[i].text));
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* ----------------------------------------------------------------- how it is written --- */

TEST a_nonzero_answer_of_the_writer_ends_the_report(void) {
  struct fixture f;

  CHECK_CALL(open_filled(&f));
  for (int format = UVS_FORMAT_TEXT; format <= UVS_FORMAT_PROMETHEUS; format++) {
    int all;

    ASSERT_RC(0, write_page(f.s, format, &page));
    all = page.calls;
    ASSERT(all > 1);
    for (int n = 1; n <= all; n++) {
      memset(&page, 0, sizeof page);
      page.stop_at = n;
      page.answer = n % 2 == 0 ? UV_EPIPE : 1;
      ASSERT_RC(page.answer, uvs_stats_write(f.s, format, keep, &page));
      ASSERT_RC(n, page.calls);
      ASSERT_FALSE(page.broken);
    }
  }
  CHECK_CALL(fixture_close(&f));
  PASS();
}

TEST an_unknown_format_or_a_missing_writer_is_refused(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(UV_EINVAL, write_page(f.s, -1, &page));
  ASSERT_RC(UV_EINVAL, write_page(f.s, UVS_FORMAT_PROMETHEUS + 1, &page));
  ASSERT_RC(UV_EINVAL, write_page(NULL, UVS_FORMAT_TEXT, &page));
  ASSERT_RC(0, page.calls);
  ASSERT_RC(UV_EINVAL, uvs_stats_write(f.s, UVS_FORMAT_TEXT, NULL, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* The writer may call everything: no lock is held. */
struct caller {
  uvs_t *s;
  uvs_task_t t;
  int calls;
  int rc; /* the first that was not as it should be */
  bool shut;
};

static void must(struct caller *c, int rc, int expected) {
  if (rc != expected && c->rc == 0)
    c->rc = rc == 0 ? -1 : rc;
}

static int call_back(const char *data, size_t size, void *arg) {
  struct caller *c = arg;
  uvs_counts_t counts;
  uvs_histogram_t h;
  uvs_id_t id;

  (void)data;
  (void)size;
  uvs_counts_init(&counts);
  uvs_histogram_init(&h);
  must(c, uvs_counts(c->s, &counts), 0);
  must(c, uvs_histogram(c->s, UVS_STAT_LATE, &h), 0);
  must(c, uvs_set_concurrency(c->s, 1 + c->calls % 4), 0);
  if (!c->shut) {
    must(c, uvs_submit(c->s, &c->t, &id), 0);
    must(c, uvs_cancel(c->s, id, 0), UVS_CANCELLED);
  }
  if (c->calls == 2)
    must(c, write_page(c->s, UVS_FORMAT_PROMETHEUS, &page), 0);
  if (c->calls++ == 3) {
    c->shut = true;
    must(c, uvs_shutdown(c->s), 0);
    must(c, uvs_submit(c->s, &c->t, &id), UV_ESHUTDOWN);
  }
  return 0;
}

static int write_and_call_back(void *arg) {
  struct caller *c = arg;

  return uvs_stats_write(c->s, UVS_FORMAT_PROMETHEUS, call_back, c);
}

TEST the_writer_may_call_back_into_the_scheduler(void) {
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    struct caller c = {0};
    struct fixture f;

    fixture_init(&f);
    CHECK_CALL(fixture_open_turned(&f));
    c.s = f.s;
    c.t = (uvs_task_t){.size = sizeof c.t, .work = work_nothing, .first_ns = UVS_HOUR(1)};
    ASSERT_RC(0, off_loop ? elsewhere(write_and_call_back, &c) : write_and_call_back(&c));
    ASSERT_RC(0, c.rc);
    ASSERT(c.calls > 4);
    ASSERT_RC(1, uvs_is_shutdown(f.s));
    CHECK_CALL(is_well_formed());
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

#define WRITERS 4
#define VALUES 30000

static _Atomic int writing;

struct writer {
  uvs_t *s;
  int runner; /* as whom it writes */
};

static void write_values(void *arg) {
  struct writer *w = arg;
  uint64_t seed = test_seed + (uint64_t)w->runner;

  for (int i = 0; i < VALUES; i++) {
    int culprit = (int)test_random_below(&seed, UVS_LATE_CAUSES);

    inspect_stat_start(w->s, w->runner, culprit,
                       test_random(&seed) >> (24 + test_random_below(&seed, 32)));
    inspect_stat_end(w->s, w->runner, test_random(&seed) >> (22 + test_random_below(&seed, 40)));
  }
  atomic_fetch_sub(&writing, 1);
}

TEST a_scrape_is_consistent_while_four_threads_write(void) {
  static struct writer writers[WRITERS];
  uv_thread_t threads[WRITERS];
  unsigned long long count = 0;
  struct fixture f;
  bool last;

  fixture_init(&f);
  f.options.concurrency = WRITERS;
  CHECK_CALL(fixture_open(&f));
  atomic_store(&writing, WRITERS);
  for (int i = 0; i < WRITERS; i++) {
    writers[i] = (struct writer){f.s, i};
    ASSERT_RC(0, uv_thread_create(&threads[i], write_values, &writers[i]));
  }
  do {
    unsigned long long now = 0;

    last = atomic_load(&writing) == 0;
    ASSERT_RC(0, write_page(f.s, UVS_FORMAT_PROMETHEUS, &page));
    CHECK_CALL(is_well_formed());
    for (int cause = 0; cause < UVS_LATE_CAUSES; cause++) {
      char series[80];

      snprintf(series, sizeof series, "uvsched_run_late_seconds_count{culprit=\"%s\"}",
               uvs_late_name(cause));
      now += strtoull(value_of(&parsed, series), NULL, 10);
    }
    ASSERT(now >= count);
    count = now;
  } while (!last);
  for (int i = 0; i < WRITERS; i++)
    uv_thread_join(&threads[i]);
  ASSERT_U64(WRITERS * VALUES, count);
  ASSERT_U64(WRITERS * VALUES, histogram_of(f.s, UVS_STAT_RUN).count);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

SUITE(cells) {
  RUN_TEST(the_statistics_of_loop_runners_and_other_threads_are_added_up);
  RUN_TEST(an_unknown_histogram_is_refused);
  RUN_TEST(many_runners_take_a_reasonable_amount_of_memory);
}

SUITE(prometheus) {
  RUN_TEST(the_tests_prometheus_parser_is_strict);
  RUN_TEST(the_prometheus_output_is_valid_and_complete);
  RUN_TEST(a_scrape_is_consistent_while_four_threads_write);
}

SUITE(labels) {
  RUN_TEST(hostile_names_are_escaped_in_labels);
  RUN_TEST(the_longest_labels_fit);
  RUN_TEST(the_buckets_of_a_name_are_cumulative);
  RUN_TEST(several_schedulers_share_one_page);
  RUN_TEST(a_page_that_would_not_be_valid_is_refused);
}

SUITE(text) {
  RUN_TEST(the_text_report_fits_a_screen);
  RUN_TEST(without_a_run_the_text_report_has_no_causes_of_lateness);
  RUN_TEST(durations_are_written_with_three_digits_and_a_unit);
}

SUITE(writing_out) {
  RUN_TEST(a_nonzero_answer_of_the_writer_ends_the_report);
  RUN_TEST(an_unknown_format_or_a_missing_writer_is_refused);
  RUN_TEST(the_writer_may_call_back_into_the_scheduler);
}

TEST_MAIN(RUN_SUITE(cells); RUN_SUITE(prometheus); RUN_SUITE(labels); RUN_SUITE(text);
          RUN_SUITE(writing_out));
