/* SPDX-License-Identifier: MIT
 *
 * Delay queues: each value comes out once, when it is due, and no thread sleeps while a value is
 * due.
 */
#include "scenes.h"

#include <string.h>

#include "uvsched/queue.h"

#include "model.h"
#include "stage.h"

#define VALUES 4

static struct {
  uvs_queue_t *q;
  struct {
    bool in;
    int outs;
    int64_t due_ns;
  } value[VALUES];
  int taken, left;
  uvs_waiter_t waiter;
  int abandoned; /* sleepers that left for it */
} q;

/* Value i was removed. */
static void came_out(const uvs_entry_t *e) {
  int i = (int)((char *)e->value - (char *)q.value) / (int)sizeof q.value[0];

  WEAVE_CHECK(i >= 0 && i < VALUES && q.value[i].in);
  WEAVE_SAME(0, q.value[i].outs++);
}

static void on_left(uvs_queue_t *from, const uvs_entry_t *e, void *arg) {
  (void)from;
  (void)arg;
  came_out(e);
  q.left++;
}

static void took(const uvs_entry_t *e) {
  came_out(e);
  WEAVE_CHECK((int64_t)weave_now_ns >= e->due_ns);
  q.taken++;
}

static void open_queue(void) {
  uvs_queue_options_t o;

  stage_open(0);
  memset(&q, 0, sizeof q);
  uvs_waiter_init(&q.waiter);
  uvs_queue_options_init(&o);
  o.on_left = on_left;
  WEAVE_SAME(0, uvs_queue_open(stage.s, &o, &q.q));
  while (model_turn()) {
  }
}

static int put(int i, int64_t delay_ns) {
  int rc;

  q.value[i].in = true;
  q.value[i].due_ns = (int64_t)weave_now_ns + delay_ns;
  rc = uvs_queue_put(q.q, &q.value[i], delay_ns, NULL);
  if (rc < 0)
    q.value[i].in = false;
  return rc;
}

static void put_now(void *arg) {
  int rc = put(*(int *)arg, 0);

  WEAVE_CHECK(rc == 0 || rc == UV_ESHUTDOWN);
}

static void put_2ms(void *arg) {
  WEAVE_SAME(0, put(*(int *)arg, UVS_MS(2)));
}

/* Just when it is due. */
static void take(void *arg) {
  uvs_entry_t e;
  int rc = uvs_queue_take(q.q, NULL, &e);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_ECANCELED || rc == UV_ESHUTDOWN);
  if (rc == 0) {
    took(&e);
    if ((int64_t)weave_now_ns > e.due_ns)
      weave_fail("a value was taken %lld ns late: nobody woke the loop in time",
                 (long long)weave_now_ns - e.due_ns);
  }
  uvs_queue_release(q.q);
}

static void take_or_leave(void *arg) {
  uvs_entry_t e;
  int rc = uvs_queue_take(q.q, &q.waiter, &e);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_EINTR || rc == UV_ECANCELED);
  if (rc == 0)
    took(&e);
  q.abandoned += rc == UV_EINTR;
  uvs_queue_release(q.q);
}

static void take_within_2ms(void *arg) {
  uint64_t until_ns = weave_now_ns + UINT64_C(2000000);
  uvs_entry_t e;
  int rc = uvs_queue_poll_within(q.q, UVS_MS(2), NULL, &e);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_ETIMEDOUT);
  if (rc == 0)
    took(&e);
  else
    WEAVE_CHECK(weave_now_ns >= until_ns);
  uvs_queue_release(q.q);
}

static void poll(void *arg) {
  uvs_entry_t e;
  int rc = uvs_queue_poll(q.q, &e);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == UV_EAGAIN);
  if (rc == 0)
    took(&e);
  uvs_queue_release(q.q);
}

static void consume(uvs_queue_t *from, const uvs_entry_t *e, void *arg) {
  (void)from;
  (void)arg;
  WEAVE_SAME(0, weave_self());
  took(e);
  if ((int64_t)weave_now_ns > e->due_ns)
    weave_fail("a value came late: nobody woke the loop in time");
}

static void taker(const char *name, void (*fn)(void *arg)) {
  uvs_queue_retain(q.q);
  weave_spawn(name, fn, NULL, false);
}

static int number[VALUES] = {0, 1, 2, 3};

/* This many values were taken, and no thread sleeps. */
static void end(int taken) {
  stage_play();
  WEAVE_SAME(taken, q.taken);
  WEAVE_SAME(0, uvs_queue_close(q.q));
  for (int i = 0; i < VALUES; i++)
    WEAVE_SAME(q.value[i].in, q.value[i].outs);
  stage_close();
}

static void put_meets_take(void) {
  open_queue();
  taker("take", take);
  weave_spawn("put", put_now, &number[0], false);
  end(1);
}

static void two_put_two_take(void) {
  open_queue();
  taker("take1", take);
  taker("take2", take);
  weave_spawn("put", put_now, &number[0], false);
  stage_go();
  put_now(&number[1]);
  end(2);
}

static void delayed_meets_take(void) {
  open_queue();
  taker("take", take);
  weave_spawn("put", put_2ms, &number[0], false);
  end(1);
}

/* The loop sleeps until the first value is due. An earlier value must wake it. */
static void put_of_an_earlier_value(void) {
  open_queue();
  WEAVE_SAME(0, put(0, UVS_MS(50)));
  taker("take1", take);
  taker("take2", take);
  weave_spawn("put", put_2ms, &number[1], false);
  end(2);
}

static void value_meets_time_out(void) {
  open_queue();
  taker("take", take_within_2ms);
  weave_spawn("put", put_2ms, &number[0], false);
  stage_play();
  WEAVE_CHECK(q.taken <= 1);
  end(q.taken);
}

static void abandon(void *arg) {
  int rc = uvs_queue_abandon(q.q, &q.waiter);

  (void)arg;
  WEAVE_CHECK(rc == 0 || rc == 1);
}

/* The waiting thread gets the value, or leaves. The value is not lost. */
static void abandon_meets_put(void) {
  open_queue();
  taker("take", take_or_leave);
  weave_spawn("put", put_now, &number[0], false);
  weave_spawn("abandon", abandon, NULL, false);
  stage_play();
  WEAVE_SAME(1, q.taken + q.abandoned);
  end(q.taken);
}

static void poll_meets_take(void) {
  open_queue();
  taker("take", take);
  taker("poll", poll);
  weave_spawn("put", put_now, &number[0], false);
  stage_go();
  put_now(&number[1]);
  stage_play();
  WEAVE_CHECK(q.taken >= 1);
  end(q.taken);
}

static void consume_meets_put(void) {
  open_queue();
  WEAVE_SAME(0, uvs_queue_consume(q.q, consume, NULL));
  weave_spawn("now", put_now, &number[0], false);
  weave_spawn("2ms", put_2ms, &number[1], false);
  end(2);
}

static void consume_meets_take(void) {
  open_queue();
  WEAVE_SAME(0, uvs_queue_consume(q.q, consume, NULL));
  taker("take", take_within_2ms); /* the loop may have had both */
  weave_spawn("put", put_now, &number[0], false);
  weave_spawn("put2", put_now, &number[1], false);
  end(2);
}

static void close_queue(void *arg) {
  (void)arg;
  WEAVE_SAME(0, uvs_queue_close(q.q));
  uvs_queue_release(q.q);
}

static void put_held(void *arg) {
  put_now(arg);
  uvs_queue_release(q.q);
}

static void close_of_a_queue(void) {
  open_queue();
  taker("take", take);
  taker("close", close_queue);
  uvs_queue_retain(q.q);
  weave_spawn("put", put_held, &number[0], false);
  stage_play();
  for (int i = 0; i < VALUES; i++)
    WEAVE_SAME(q.value[i].in, q.value[i].outs);
  stage_close();
}

static void close_of_all_queues(void) {
  open_queue();
  taker("take", take);
  uvs_queue_retain(q.q);
  weave_spawn("put", put_held, &number[0], false);
  uvs_retain(stage.s);
  stage_go();
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  while (!stage.closed)
    WEAVE_CHECK(model_turn());
  while (model_turn()) {
  }
  weave_calm(true);
  WEAVE_SAME(0, uvs_queue_close(q.q));
  uvs_release(stage.s);
  for (int i = 0; i < VALUES; i++)
    WEAVE_SAME(q.value[i].in, q.value[i].outs);
  stage_await_close();
}

/* The loop must not end before it has seen the queue's end, nor stay alive after it. */
static void queue_keeps_the_loop_alive(void) {
  stage_init();
  stage.options.concurrency = 0;
  stage.options.keep_alive = UVS_KEEP_ALIVE_AUTO;
  stage_open_with(0);
  memset(&q, 0, sizeof q);
  WEAVE_SAME(0, uvs_queue_open(stage.s, NULL, &q.q));
  WEAVE_CHECK(model_alive());
  taker("close", close_queue);
  stage_go();
  while (model_alive()) {
    if (!model_turn())
      weave_fail("the loop stays, and nothing is left that keeps it");
  }
  stage_play();
  stage_close();
}

const struct weave_scene scenes_queue[] = {
    {"queue", "put-meets-take", put_meets_take},
    {"queue", "two-put-two-take", two_put_two_take},
    {"queue", "delayed-meets-take", delayed_meets_take},
    {"queue", "put-of-an-earlier-value", put_of_an_earlier_value},
    {"queue", "value-meets-time-out", value_meets_time_out},
    {"queue", "abandon-meets-put", abandon_meets_put},
    {"queue", "poll-meets-take", poll_meets_take},
    {"queue", "consume-meets-put", consume_meets_put},
    {"queue", "consume-meets-take", consume_meets_take},
    {"queue", "close-of-a-queue", close_of_a_queue},
    {"queue", "close-of-all-queues", close_of_all_queues},
    {"queue", "queue-keeps-the-loop-alive", queue_keeps_the_loop_alive},
    {NULL, NULL, NULL},
};
