/* SPDX-License-Identifier: MIT
 *
 * The code of docs/delay-queue.md: values go into a delay queue and come out when they are due, on
 * the loop and in a thread. On a virtual clock. */
#include <uvsched/queue.h>

#include "expect.h"
#include "virtual_time.h"

struct order {
  int number;
  int64_t shipped_ns;
};

static int left; /* values that close gave back */

/* ------------------------------------------------------------- on the loop --- */

/* Loop thread. */
static void ship(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct order *o = e->value;
  (void)arg;
  o->shipped_ns = uvs_now(uvs_queue_scheduler(q));
  EXPECT(o->shipped_ns >= e->due_ns); /* never early */
}

static void on_left(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q, (void)e, (void)arg;
  left++;
}

static int open_queue(uvs_t *s, uvs_queue_t **ret) {
  uvs_queue_options_t o;
  uvs_queue_options_init(&o);
  o.on_left = on_left; /* close gives back what nobody took */
  return uvs_queue_open(s, &o, ret);
}

static void show_consume(uvs_t *s) {
  struct order a = {1, 0}, b = {2, 0}, c = {3, 0}, d = {4, 0};
  int64_t begin_ns = uvs_now(s);
  uvs_queue_t *q;
  uvs_item_t item;

  EXPECT(open_queue(s, &q) == 0);
  EXPECT(uvs_queue_consume(q, ship, NULL) == 0);
  EXPECT(uvs_queue_put(q, &a, UVS_SEC(30), NULL) == 0);
  EXPECT(uvs_queue_put(q, &b, UVS_SEC(10), NULL) == 0);
  EXPECT(uvs_queue_put(q, &c, UVS_SEC(20), &item) == 0);
  EXPECT(uvs_queue_put(q, &d, UVS_HOUR(1), NULL) == 0);
  EXPECT(uvs_queue_remove(q, item, NULL) == 0); /* c is cancelled */
  EXPECT(uvs_queue_remove(q, item, NULL) == UV_ENOENT);
  EXPECT(run_for(s, UVS_MIN(1)) == 1); /* the open queue keeps the loop alive */
  EXPECT(b.shipped_ns - begin_ns == UVS_SEC(10));
  EXPECT(a.shipped_ns - begin_ns == UVS_SEC(30));
  EXPECT(c.shipped_ns == 0 && uvs_queue_size(q) == 1);
  EXPECT(uvs_queue_close(q) == 0);
  EXPECT(left == 1 && d.shipped_ns == 0);
}

/* ---------------------------------------------------------------- by polling --- */

static void show_poll(uvs_t *s) {
  struct order a = {1, 0};
  uvs_entry_t e;
  uvs_queue_t *q;

  EXPECT(open_queue(s, &q) == 0);
  EXPECT(uvs_queue_put(q, &a, UVS_SEC(1), NULL) == 0);
  EXPECT(uvs_queue_peek(q, &e) == 0 && e.value == &a); /* the first value, due or not */
  EXPECT(uvs_queue_poll(q, &e) == UV_EAGAIN);          /* nothing is due */
  pass_ns(s, UVS_SEC(1));
  EXPECT(uvs_queue_poll(q, &e) == 0 && e.value == &a);
  EXPECT(uvs_queue_close(q) == 0);
}

/* ---------------------------------------------------------------- in a thread --- */

struct shipper {
  uvs_queue_t *queue; /* with a reference of its own */
  uvs_waiter_t waiter;
  uv_sem_t taken;
  int rc;
};

/* Not the loop thread. */
static void ship_in_thread(void *arg) {
  struct shipper *c = arg;
  uvs_entry_t e;
  while ((c->rc = uvs_queue_take(c->queue, &c->waiter, &e)) == 0) {
    struct order *o = e.value;
    o->shipped_ns = e.due_ns;
    uv_sem_post(&c->taken);
  }
  uvs_queue_release(c->queue); /* UV_EINTR: abandoned; UV_ECANCELED, UV_ESHUTDOWN: closed */
}

static void show_thread(uvs_t *s) {
  struct order a = {1, 0};
  struct shipper c;
  uv_thread_t thread;
  uvs_queue_t *q;

  EXPECT(open_queue(s, &q) == 0);
  c.queue = uvs_queue_retain(q);
  uvs_waiter_init(&c.waiter);
  EXPECT(uv_sem_init(&c.taken, 0) == 0);
  EXPECT(uv_thread_create(&thread, ship_in_thread, &c) == 0);
  EXPECT(uvs_queue_put(q, &a, UVS_SEC(30), NULL) == 0);
  EXPECT(run_for(s, UVS_SEC(30)) == 1); /* a value reaches a sleeping thread while the loop runs */
  uv_sem_wait(&c.taken);
  EXPECT(a.shipped_ns != 0 && uvs_queue_size(q) == 0);

  EXPECT(uvs_queue_abandon(q, &c.waiter) >= 0);
  EXPECT(uv_thread_join(&thread) == 0);
  EXPECT(c.rc == UV_EINTR);
  EXPECT(uvs_queue_close(q) == 0);
  uv_sem_destroy(&c.taken);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t o;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  show_consume(s);
  show_poll(s);
  show_thread(s);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
