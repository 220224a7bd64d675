/* SPDX-License-Identifier: MIT
 *
 * uvs_counts after close: a thread that holds a reference can read the final numbers.
 */
#include <stddef.h>
#include <stdlib.h>

#include "lib/bodies.h"
#include "lib/threads.h"

struct reader {
  uvs_t *s;
  uvs_counts_t c;
};

static int do_counts(void *arg) {
  struct reader *r = arg;

  uvs_counts_init(&r->c);
  return uvs_counts(r->s, &r->c);
}

/* Two tasks complete, one fails twice, one times out, one is dropped, one is refused. Then there is
 * one task of each state: waiting, ready, running. */
static enum greatest_test_res live_a_little(struct fixture *f, struct hold *h) {
  uvs_task_t t = fixture_once(f, 'c', 0);

  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  t = retried(fixture_once(f, 'x', 0), UVS_MS(1), "x");
  t.max_failures = 2;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT(fixture_wait_log(f, EV_ERROR, 'x', 1));
  fixture_advance_ms(f, 10);
  ASSERT(fixture_wait_log(f, EV_DONE, 'x', 1));
  t = held_task(f, 'h', h);
  t.keep_outcome = 0;
  h->token_ends = true;
  h->ret = UV_ECANCELED;
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT(fixture_wait_flag(f, &h->inside));
  t = fixture_once(f, 'l', 0);
  t.limit.total_ns = UVS_MS(5);
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  fixture_advance_ms(f, 5); /* before a runner is free */
  ASSERT(fixture_wait_log(f, EV_DONE, 'l', 1));
  t = fixture_once(f, 'r', 0);
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  t = fixture_once(f, 'w', UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT_RC(0, uvs_set_rejection_policy(f->s, UVS_REJECT_DISCARD));
  t = fixture_once(f, 'd', 0);
  ASSERT_RC(0, uvs_submit(f->s, &t, NULL));
  ASSERT_RC(0, uvs_set_rejection_policy(f->s, UVS_REJECT_ABORT));
  ASSERT_RC(UV_EAGAIN, uvs_submit(f->s, &t, NULL));
  PASS();
}

/* L17 V9 S56 F9: the counts include the running body that close asked to stop. */
TEST after_close_a_reference_holder_can_read_the_final_counts(void) {
  static struct hold h;
  static struct fixture f;
  struct reader r, again;

  fixture_init(&f);
  f.pool = FAKEPOOL_REAL;
  f.options.concurrency = 1;
  f.options.max_pending = 3;
  CHECK_CALL(fixture_open_turned(&f));
  CHECK_CALL(live_a_little(&f, &h));
  r.s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(r.s, note_closed));
  ASSERT_RC(0, elsewhere(do_counts, &r)); /* during close, too */
  ASSERT(adds_up(&r.c));
  ASSERT(fixture_wait_closed(&f));
  for (int off_loop = 0; off_loop < 2; off_loop++) {
    ASSERT_RC(0, off_loop ? elsewhere(do_counts, &r) : do_counts(&r));
    ASSERT(adds_up(&r.c));
    ASSERT_U64(8, r.c.submitted);
    ASSERT_U64(2, r.c.completed);
    ASSERT_U64(1, r.c.failed);
    ASSERT_U64(1, r.c.timed_out);
    ASSERT_U64(1, r.c.dropped);
    ASSERT_U64(3, r.c.cancelled);
    ASSERT_U64(0, r.c.waiting + r.c.ready + r.c.running + r.c.runners);
    ASSERT_U64(1, r.c.rejected);
    ASSERT_U64(5, r.c.runs);
    ASSERT_U64(3, r.c.failed_runs); /* the limit's too */
    ASSERT_U64(1, r.c.peak_runners);
    ASSERT_U64(log_count(&f, EV_DONE, 0), r.c.submitted);
  }
  again.s = r.s;
  ASSERT_RC(0, do_counts(&again));
  ASSERT_RC(0, memcmp(&again.c, &r.c, sizeof r.c)); /* final: they stay */
  uvs_release(r.s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L17 L19: every other call is refused. An invalid argument is still reported as such. An older
 * struct works. */
TEST after_close_every_call_but_uvs_counts_is_refused(void) {
  static struct fixture f;
  uvs_counts_t c;
  uvs_info_t info;
  uvs_id_t id;
  uvs_t *s;

  fixture_init(&f);
  CHECK_CALL(fixture_open_turned(&f));
  uvs_task_t t = fixture_once(&f, 'a', UVS_DAY(1));
  ASSERT_RC(0, uvs_submit(f.s, &t, &id));
  s = uvs_retain(f.s);
  f.s = NULL;
  ASSERT_RC(0, uvs_close(s, note_closed));
  fixture_turn_until_closed(&f);
  uvs_info_init(&info);
  ASSERT_RC(UV_ESHUTDOWN, uvs_submit(s, &t, NULL));
  ASSERT_RC(UV_ESHUTDOWN, uvs_cancel(s, id, 0));
  ASSERT_RC(UV_ESHUTDOWN, uvs_info(s, id, &info));
  ASSERT_RC(1, uvs_is_terminated(s));
  ASSERT_RC(0, uvs_wait_terminated(s, UVS_NEVER));
  ASSERT_RC(UV_EINVAL, uvs_counts(s, NULL));
  memset(&c, 0, sizeof c);
  ASSERT_RC(UV_EINVAL, uvs_counts(s, &c));
  uvs_counts_init(&c);
  c.size = offsetof(uvs_counts_t, rejected);
  c.rejected = 77;
  ASSERT_RC(0, uvs_counts(s, &c));
  ASSERT_U64(1, c.submitted);
  ASSERT_U64(1, c.cancelled);
  ASSERT_U64(77, c.rejected);
  uvs_release(s);
  CHECK_CALL(fixture_close(&f));
  PASS();
}

/* L17: the loop is closed and its memory may be freed when the last reference is released. */
TEST the_final_counts_outlive_the_loop(void) {
  uv_loop_t *loop = malloc(sizeof *loop);
  struct reader r;

  ASSERT(loop != NULL);
  ASSERT_RC(0, uv_loop_init(loop));
  ASSERT_RC(0, uvs_open(loop, NULL, &r.s));
  for (int i = 0; i < 10; i++)
    ASSERT_RC(0, uvs_execute(r.s, work_nothing, NULL));
  uv_run(loop, UV_RUN_DEFAULT);
  uvs_retain(r.s);
  ASSERT_RC(0, uvs_close(r.s, NULL));
  uv_run(loop, UV_RUN_DEFAULT);
  ASSERT_RC(0, uv_loop_close(loop));
  free(loop);
  ASSERT_RC(0, elsewhere(do_counts, &r));
  ASSERT(adds_up(&r.c));
  ASSERT_U64(10, r.c.completed);
  uvs_release(r.s);
  PASS();
}

SUITE(final_counts) {
  RUN_TEST(after_close_a_reference_holder_can_read_the_final_counts);
  RUN_TEST(after_close_every_call_but_uvs_counts_is_refused);
  RUN_TEST(the_final_counts_outlive_the_loop);
}

TEST_MAIN(RUN_SUITE(final_counts));
