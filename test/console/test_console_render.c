/* SPDX-License-Identifier: MIT
 *
 * The resources of the console, rendered without a server. test/console/check_security.py parses
 * what a server sends.
 */
#include "lib/unit.h"

#include <string.h>
#include <uvsched/console.h>
#include <uvsched/control.h>
#include <uvsched/trace.h>

#include "console/tasks.h"
#include "wraps.h"

static struct {
  uv_loop_t loop;
  uvs_t *s;
  char *text;
  size_t size;
} f;

static int nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

static int keep(const char *data, size_t size, void *arg) {
  (void)arg;
  f.text = realloc(f.text, f.size + size + 1);
  memcpy(f.text + f.size, data, size);
  f.size += size;
  f.text[f.size] = 0;
  return 0;
}

static int render(const char *target) {
  free(f.text);
  f.text = NULL;
  f.size = 0;
  return uvs_console_render(f.s, target, keep, NULL);
}

static void start(void) {
  uvs_options_t o;

  memset(&f, 0, sizeof f);
  uvs_options_init(&o);
  o.concurrency = 0;
  o.name = "it's <mine>";
  uv_loop_init(&f.loop);
  uvs_open(&f.loop, &o, &f.s);
}

static int end(void) {
  free(f.text);
  f.text = NULL;
  uvs_close(f.s, NULL);
  uv_run(&f.loop, UV_RUN_DEFAULT);
  return uv_loop_close(&f.loop);
}

static uvs_id_t submit(const char *name, int64_t delay_ns) {
  uvs_task_t t;
  uvs_id_t id = 0;

  uvs_task_init(&t);
  t.name = name;
  t.first_ns = delay_ns;
  t.work = nothing;
  uvs_submit(f.s, &t, &id);
  return id;
}

/* Is `a` in the text, and `b` behind it? */
static int in_order(const char *a, const char *b) {
  const char *at = strstr(f.text, a);

  return at != NULL && strstr(at, b) != NULL;
}

static int times(const char *what) {
  int n = 0;

  for (const char *at = f.text; (at = strstr(at, what)) != NULL; at++)
    n++;
  return n;
}

/* ---- resources ---- */

/* C8 */
TEST every_resource_renders_and_has_a_type(void) {
  start();
  submit("a", UVS_SEC(1));
  ASSERT_RC(0, render("/"));
  ASSERT(f.size < 60 * 1024);
  ASSERT_STR_EQ("text/html; charset=utf-8", uvs_console_type("/"));
  ASSERT(strstr(uvs_console_policy(), "script-src 'sha256-") != NULL);
  ASSERT(strstr(f.text, "http:") == NULL); /* it loads nothing from elsewhere */
  ASSERT(strstr(f.text, "https:") == NULL);
  ASSERT(strstr(f.text, "innerHTML") == NULL);
  ASSERT_RC(0, render("/stats.json"));
  ASSERT_STR_EQ("application/json", uvs_console_type("/stats.json?x=y"));
  ASSERT(strstr(f.text, "\"waiting\":1") != NULL);
  ASSERT(strstr(f.text, "\"name\":\"it\\u0027s \\u003cmine\\u003e\"") != NULL);
  ASSERT_RC(0, render("/tasks.json"));
  ASSERT_EQ(1, times("\"name\":\"a\""));
  ASSERT_RC(0, render("/metrics"));
  ASSERT(strstr(f.text, "# TYPE uvsched_tasks gauge") != NULL);
  ASSERT_RC(0, render("/timeline.json"));
  ASSERT(strstr(f.text, "\"recording\":false") != NULL);
  ASSERT_RC(UV_ENOENT, render("/trace.json"));
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  ASSERT_RC(0, render("/trace.json"));
  ASSERT_RC(0, render("/trace.json?last_ms=10"));
  ASSERT_RC(UV_EINVAL, render("/trace.json?last_ms=x"));
  ASSERT_RC(0, render("/timeline.json?last_ms=1000"));
  ASSERT(strstr(f.text, "\"recording\":true") != NULL);
  ASSERT_RC(0, end());
  PASS();
}

/* X11 */
TEST a_timeline_with_too_many_runs_has_the_late_ones(void) {
  enum { RUNS = 2100, SHOWN = 2000 };
  uvs_counts_t counts;
  uvs_task_t t;

  start();
  ASSERT_RC(0, uvs_trace_open(f.s, NULL));
  uvs_task_init(&t);
  t.name = "late";
  t.work = nothing;
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = 1; /* since the clock began */
  ASSERT_RC(0, uvs_submit(f.s, &t, NULL));
  uvs_counts_init(&counts);
  while (counts.runs < 1) {
    uv_run(&f.loop, UV_RUN_ONCE);
    ASSERT_RC(0, uvs_counts(f.s, &counts));
  }
  ASSERT_RC(0, render("/timeline.json"));
  ASSERT(strstr(f.text, "\"left_out\":0,") != NULL);
  for (int i = 0; i < RUNS; i++)
    submit("n", 0);
  while (counts.runs < 1 + RUNS) {
    uv_run(&f.loop, UV_RUN_ONCE);
    ASSERT_RC(0, uvs_counts(f.s, &counts));
  }
  ASSERT_RC(0, render("/timeline.json"));
  ASSERT(strstr(f.text, "\"left_out\":") != NULL);
  ASSERT(strtol(strstr(f.text, "\"left_out\":") + 11, NULL, 10) >= 1 + RUNS - SHOWN);
  ASSERT_EQ(SHOWN, times("\"runner\":"));
  ASSERT_EQ(1, times("\"name\":\"late\""));
  ASSERT_RC(0, end());
  PASS();
}

static int refuse(const char *data, size_t size, void *arg) {
  (void)data, (void)size, (void)arg;
  return -77;
}

/* C10 */
TEST wrong_targets_are_refused(void) {
  static const char *const none[] = {"",        "stats.json",   "//",
                                     "/x",      "/stats.json/", "/../etc/passwd",
                                     "/events", "/tasks",       "/Stats.json"};
  static const char *const wrong[] = {"/tasks.json?sort=x",       "/tasks.json?state=x",
                                      "/tasks.json?limit=0",      "/tasks.json?limit=2001",
                                      "/tasks.json?offset=-1",    "/tasks.json?offset=1999&limit=2",
                                      "/tasks.json?order=x",      "/tasks.json?name=%",
                                      "/timeline.json?last_ms=0", "/timeline.json?last_ms=x"};

  start();
  for (size_t i = 0; i < sizeof none / sizeof none[0]; i++) {
    ASSERT_RC(UV_ENOENT, render(none[i]));
    ASSERT(uvs_console_type(none[i]) == NULL);
  }
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    ASSERT_EQm(wrong[i], UV_EINVAL, render(wrong[i]));
    ASSERT(f.size == 0);
  }
  ASSERT_RC(UV_EINVAL, uvs_console_render(NULL, "/", keep, NULL));
  ASSERT_RC(UV_EINVAL, uvs_console_render(f.s, NULL, keep, NULL));
  ASSERT_RC(UV_EINVAL, uvs_console_render(f.s, "/", NULL, NULL));
  ASSERT_RC(-77, uvs_console_render(f.s, "/", refuse, NULL));
  ASSERT_RC(-77, uvs_console_render(f.s, "/tasks.json", refuse, NULL));
  ASSERT_RC(-77, uvs_console_render(f.s, "/stats.json", refuse, NULL));
  ASSERT_RC(-77, uvs_console_render(f.s, "/timeline.json", refuse, NULL));
  ASSERT(uvs_console_type(NULL) == NULL);
  ASSERT_RC(0, end());
  PASS();
}

/* ---- tasks ---- */

/* C9 */
TEST tasks_are_filtered_sorted_and_cut_into_pages(void) {
  start();
  submit("beta", UVS_SEC(2));
  submit("Alpha", UVS_SEC(3));
  uvs_id_t paused = submit("alphabet", UVS_SEC(1));
  ASSERT_RC(UVS_PAUSED, uvs_pause(f.s, paused));
  ASSERT_RC(0, render("/tasks.json?sort=name"));
  ASSERT(in_order("Alpha", "alphabet") && in_order("alphabet", "beta"));
  ASSERT_RC(0, render("/tasks.json?sort=name&order=desc"));
  ASSERT(in_order("beta", "alphabet") && in_order("alphabet", "\"Alpha\""));
  ASSERT_RC(0, render("/tasks.json?sort=due"));
  ASSERT(in_order("alphabet", "beta") && in_order("beta", "\"Alpha\""));
  ASSERT_RC(0, render("/tasks.json?name=ALPHA"));
  ASSERT(strstr(f.text, "\"total\":3,\"matched\":2") != NULL);
  ASSERT_EQ(2, times("\"id\""));
  ASSERT_RC(0, render("/tasks.json?state=paused"));
  ASSERT_EQ(1, times("\"id\""));
  ASSERT(strstr(f.text, "\"paused\":true") != NULL);
  ASSERT_RC(0, render("/tasks.json?state=running"));
  ASSERT_EQ(0, times("\"id\""));
  ASSERT_RC(0, render("/tasks.json?sort=name&offset=1&limit=1"));
  ASSERT_EQ(1, times("\"id\""));
  ASSERT(strstr(f.text, "alphabet") != NULL && strstr(f.text, "\"offset\":1") != NULL);
  ASSERT_RC(0, render("/tasks.json?offset=5"));
  ASSERT_EQ(0, times("\"id\""));
  ASSERT_RC(0, end());
  PASS();
}

static int pieces(const char *data, size_t size, void *arg) {
  return keep(data, size, arg);
}

/* C9 */
TEST a_survey_in_steps_finds_the_same_as_one_in_one_go(void) {
  static const char *const sorts[] = {"late",   "name",     "state",   "due", "runs",
                                      "missed", "failures", "culprit", "id"};

  start();
  for (int i = 0; i < 3000; i++) {
    char name[24];

    snprintf(name, sizeof name, "n%d", (i * 7919) % 1000); /* names come three times */
    submit(name, UVS_SEC(1 + (i * 104729) % 500));
  }
  for (size_t i = 0; i < sizeof sorts / sizeof sorts[0]; i++) {
    char target[100], *whole;
    struct uvs__survey v;
    int steps = 0;

    snprintf(target, sizeof target, "/tasks.json?sort=%s&limit=50&offset=20", sorts[i]);
    ASSERT_RC(0, render(target));
    whole = strdup(strstr(f.text, "\"total\""));
    ASSERT_EQ(50, times("\"id\""));
    ASSERT_RC(0, uvs__survey_open(&v, target));
    for (; !v.over; steps++)
      ASSERT_RC(0, uvs__survey_step(&v, f.s, 64));
    ASSERT(steps >= 3000 / 64);
    f.size = 0;
    ASSERT_RC(0, uvs__survey_write(&v, f.s, pieces, NULL));
    ASSERT(v.room == 70);
    for (char *at = whole, *b = strstr(f.text, "\"total\""); *at != 0; at++, b++) {
      if (strncmp(at, "due_in_ns", 9) == 0) { /* time has passed */
        at += strcspn(at, ",");
        b += strcspn(b, ",");
      }
      ASSERT_EQ(*at, *b);
    }
    free(whole);
    uvs__survey_close(&v);
  }
  ASSERT_RC(0, end());
  PASS();
}

static int order_of_ids(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s, (void)info;
  return uvs_console_render(f.s, "/tasks.json", keep, arg);
}

TEST tasks_cannot_be_rendered_inside_each(void) {
  start();
  submit("a", UVS_SEC(1));
  ASSERT_RC(UV_EBUSY, uvs_each(f.s, order_of_ids, NULL));
  ASSERT_RC(0, end());
  PASS();
}

/* C11 */
TEST without_memory_nothing_is_written_or_lost(void) {
#ifdef TEST_WRAPS
  static const char *const targets[] = {"/tasks.json", "/timeline.json", "/stats.json"};

  start();
  submit("a", UVS_SEC(1));
  for (size_t i = 0; i < sizeof targets / sizeof targets[0]; i++) {
    int rc = UV_ENOMEM;

    for (int n = 0; rc != 0; n++) {
      ASSERT(n < 20);
      fail_alloc = n;
      rc = render(targets[i]);
      fail_alloc = -1;
      ASSERT(rc == 0 || (rc == UV_ENOMEM && f.size == 0));
    }
  }
  ASSERT_RC(0, end());
#endif
  PASS();
}

SUITE(console_render) {
  RUN_TEST(every_resource_renders_and_has_a_type);
  RUN_TEST(a_timeline_with_too_many_runs_has_the_late_ones);
  RUN_TEST(wrong_targets_are_refused);
  RUN_TEST(tasks_are_filtered_sorted_and_cut_into_pages);
  RUN_TEST(a_survey_in_steps_finds_the_same_as_one_in_one_go);
  RUN_TEST(tasks_cannot_be_rendered_inside_each);
  RUN_TEST(without_memory_nothing_is_written_or_lost);
}

TEST_MAIN(RUN_SUITE(console_render));
