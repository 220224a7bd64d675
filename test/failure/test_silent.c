/* SPDX-License-Identifier: MIT
 *
 * Nothing fails silently: a failure that no callback sees is printed to stderr, once per scheduler.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/fixture.h"

static char text[1024];

/* What fn writes to stderr. */
static const char *stderr_of(void (*fn)(struct fixture *f), struct fixture *f) {
  FILE *file = tmpfile();
  int before = dup(STDERR_FILENO);
  size_t n;

  fflush(stderr);
  if (file == NULL || before < 0 || dup2(fileno(file), STDERR_FILENO) < 0)
    return "no file";
  fn(f);
  fflush(stderr);
  dup2(before, STDERR_FILENO);
  close(before);
  rewind(file);
  n = fread(text, 1, sizeof text - 1, file);
  text[n] = '\0';
  fclose(file);
  return text;
}

static unsigned lines_of(const char *s) {
  unsigned n = 0;

  for (; *s != '\0'; s++)
    n += *s == '\n';
  return n;
}

static void fail_twice(struct fixture *f) {
  for (int i = 0; i < 2; i++) {
    uvs_task_t t = fixture_rate(f, 'a' + i, 0, UVS_MS(10));

    t.done = NULL;
    t.name = "the nightly report";
    t.failure_policy = UVS_FAIL_CONTINUE;
    t.max_runs = 3;
    probe_of(&t)->ret = UV_EIO;
    uvs_submit(f->s, &t, NULL);
  }
  fixture_advance_ms(f, 100);
}

static void fail_with_done(struct fixture *f) {
  uvs_task_t t = fixture_once(f, 'a', 0);

  probe_of(&t)->ret = UV_EIO;
  uvs_submit(f->s, &t, NULL);
  fixture_turn(f);
}

/* V4 */
TEST the_first_failure_that_nobody_sees_is_printed(void) {
  struct fixture f;
  const char *seen;

  fixture_init(&f);
  f.options.on_error = NULL;
  CHECK_CALL(fixture_open_turned(&f));
  seen = stderr_of(fail_twice, &f);
  ASSERT_U64(1, lines_of(seen));
  ASSERT(strstr(seen, "uvsched: task ") == seen);
  ASSERT(strstr(seen, "the nightly report") != NULL);
  ASSERT(strstr(seen, uv_strerror(UV_EIO)) != NULL);
  ASSERT_STR_EQ("", stderr_of(fail_twice, &f));
  ASSERT_U64(12, counts_of(f.s).failed_runs);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* V4 */
TEST nothing_is_printed_if_a_callback_sees_the_failure_or_nobody_wants_it(void) {
  static const uvs_error_cb hooks[] = {NULL, uvs_ignore_errors};

  for (int i = 0; i < 2; i++) {
    struct fixture f;

    fixture_init(&f);
    f.options.on_error = hooks[i];
    CHECK_CALL(fixture_open_turned(&f));
    ASSERT_STR_EQ("", stderr_of(i == 0 ? fail_with_done : fail_twice, &f));
    CHECK_CALL(fixture_close(&f));
  }
  PASS();
}

SUITE(silent) {
  RUN_TEST(the_first_failure_that_nobody_sees_is_printed);
  RUN_TEST(nothing_is_printed_if_a_callback_sees_the_failure_or_nobody_wants_it);
}

TEST_MAIN(RUN_SUITE(silent));
