/* SPDX-License-Identifier: MIT
 *
 * uvs_post: a call on the loop thread, from any thread, also after shutdown.
 */
#include "lib/fixture.h"
#include "lib/threads.h"

static void note_call(uvs_t *s, void *arg) {
  log_add(uvs_data(s), EV_USER, *(const char *)arg, 0, 0);
}

static void post_again(uvs_t *s, void *arg) {
  note_call(s, arg);
  log_add(uvs_data(s), EV_USER, 'r', 0, uvs_post(s, note_call, arg));
}

static int post_elsewhere(void *s) {
  return uvs_post(s, note_call, "e");
}

/* L22 */
TEST posted_calls_come_on_the_loop_in_order_and_never_inside_the_post(void) {
  struct fixture f;

  fixture_init(&f);
  CHECK_CALL(fixture_open(&f));
  ASSERT_RC(0, uvs_post(f.s, note_call, "a")); /* before the loop has run */
  ASSERT_RC(0, uvs_post(f.s, note_call, "b"));
  ASSERT_RC(0, elsewhere(post_elsewhere, f.s));
  ASSERT_U64(0, log_count(&f, EV_USER, 0));
  fixture_turn(&f);
  ASSERT_STR_EQ("abe", log_string(&f, EV_USER));
  for (unsigned i = 0; i < 3; i++)
    ASSERT(log_nth(&f, EV_USER, 0, i)->on_loop);
  ASSERT_RC(0, uvs_post(f.s, post_again, "c"));
  fixture_turn(&f);
  ASSERT_STR_EQ("abecrc", log_string(&f, EV_USER));
  ASSERT_RC(UV_EINVAL, uvs_post(f.s, NULL, NULL));
  ASSERT_RC(UV_EINVAL, uvs_post(NULL, note_call, NULL));
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L22 */
TEST a_post_works_after_shutdown_and_is_refused_once_the_scheduler_closes(void) {
  struct fixture f;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  ASSERT_RC(0, uvs_shutdown_now(f.s, NULL, NULL));
  fixture_turn(&f);
  ASSERT_RC(1, uvs_is_terminated(f.s));
  ASSERT_RC(0, uvs_post(f.s, note_call, "t"));
  ASSERT_RC(0, elsewhere(post_elsewhere, f.s));
  fixture_turn(&f);
  ASSERT_STR_EQ("te", log_string(&f, EV_USER));
  ASSERT_RC(0, uvs_post(f.s, note_call, "l")); /* accepted, so it comes, before the end of close */
  s = uvs_retain(f.s);
  ASSERT_RC(0, uvs_close(f.s, note_closed));
  ASSERT_RC(UV_ESHUTDOWN, elsewhere(post_elsewhere, s));
  fixture_turn_until_closed(&f);
  f.s = NULL;
  ASSERT_STR_EQ("telc", log_string(&f, EV_USER));
  ASSERT_RC(UV_ESHUTDOWN, uvs_post(s, note_call, "x"));
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L22. The loop has nothing else to stay for. */
TEST a_posted_call_keeps_the_loop_alive_until_it_was_made(void) {
  for (int shut = 0; shut < 2; shut++) {
    for (int keep = UVS_KEEP_ALIVE_AUTO; keep <= UVS_KEEP_ALIVE_ALWAYS; keep++) {
      struct fixture f;

      if (!shut && keep == UVS_KEEP_ALIVE_ALWAYS)
        continue; /* the loop would stay for the scheduler */
      fixture_init(&f);
      f.options.keep_alive = keep;
      CHECK_CALL(fixture_open_turned(&f));
      if (shut) {
        ASSERT_RC(0, uvs_shutdown(f.s));
        fixture_turn(&f);
        ASSERT_RC(1, uvs_is_terminated(f.s));
      }
      ASSERT_RC(0, uvs_post(f.s, note_call, "a"));
      ASSERT(fixture_run(&f, UV_RUN_DEFAULT, NULL));
      ASSERT_STR_EQ("a", log_string(&f, EV_USER));
      CHECK_CALL(fixture_close(&f));
    }
  }
  PASS();
}

SUITE(post) {
  RUN_TEST(posted_calls_come_on_the_loop_in_order_and_never_inside_the_post);
  RUN_TEST(a_post_works_after_shutdown_and_is_refused_once_the_scheduler_closes);
  RUN_TEST(a_posted_call_keeps_the_loop_alive_until_it_was_made);
}

TEST_MAIN(RUN_SUITE(post));
