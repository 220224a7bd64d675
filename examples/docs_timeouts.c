/* SPDX-License-Identifier: MIT
 *
 * The code of docs/timeouts.md: a limit for a run, a body that blocks, and idle time-outs by the
 * hundred thousand. On a virtual clock. */
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"
#include "virtual_time.h"

/* ------------------------------------------------------------ limit of a run --- */

struct request {
  uv_sem_t started;
  int pieces; /* of work */
  int returned;
  int status;
};

/* Pool thread. */
static int answer(uvs_run_t *run) {
  struct request *r = run->arg;
  uv_sem_post(&r->started);
  while (!uvs_cancelled(run)) { /* becomes 1 at the limit */
    uv_sleep(1);                /* one piece of work */
    r->pieces++;
  }
  r->returned = 1;
  return 0; /* ignored: the run has passed its limit */
}

/* Loop thread. */
static void on_answered(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct request *r = arg;
  (void)s, (void)id;
  EXPECT(r->returned); /* `done` waits for the body, because the body may be using arg */
  r->status = status;
}

static uvs_task_t request_task(struct request *r) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.work = answer;
  t.done = on_answered;
  t.arg = r;
  t.limit.total_ns = UVS_SEC(3); /* from when the run is ready: the client waits that long */
  return t;
}

static void run_to_the_limit(uvs_t *s, struct request *r, const uvs_task_t *t) {
  EXPECT(uv_sem_init(&r->started, 0) == 0);
  EXPECT(uvs_submit(s, t, NULL) == 0);
  while (uv_sem_trywait(&r->started) != 0)
    uv_run(uvs_loop(s), UV_RUN_NOWAIT);
  pass_ns(s, UVS_SEC(3));
  uv_run(uvs_loop(s), UV_RUN_DEFAULT);
  uv_sem_destroy(&r->started);
}

static void show_limit(uvs_t *s) {
  struct request r = {.status = 0};
  uvs_task_t t = request_task(&r);

  run_to_the_limit(s, &r, &t);
  EXPECT(r.status == UV_ETIMEDOUT);
}

static void show_substitute(uvs_t *s) {
  struct request r = {.status = 1};
  uvs_task_t t = request_task(&r);

  t.limit.substitute = 1; /* the run ends with limit.status, here 0: a success */
  run_to_the_limit(s, &r, &t);
  EXPECT(r.status == 0);
}

/* --------------------------------------------------------- a body that blocks --- */

struct feed {
  uv_sem_t started;
  int socket;
  ssize_t length;
  int status;
};

/* Pool thread. */
static int read_feed(uvs_run_t *run) {
  struct feed *f = run->arg;
  char text[256];
  uv_sem_post(&f->started);
  f->length = read(f->socket, text, sizeof text); /* the other side may be silent for ever */
  return uvs_cancelled(run) ? UV_ECANCELED : 0;
}

/* Loop thread. */
static void stop_reading(uvs_t *s, uvs_id_t id, void *arg) {
  struct feed *f = arg;
  (void)s, (void)id;
  shutdown(f->socket, SHUT_RDWR); /* each read from now on returns 0 at once */
}

static void on_read_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct feed *f = arg;
  (void)s, (void)id;
  f->status = status;
}

static void show_interrupt(uvs_t *s) {
  struct feed f = {.length = -1};
  int pair[2];
  uvs_task_t t;

  EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
  EXPECT(uv_sem_init(&f.started, 0) == 0);
  f.socket = pair[0]; /* nothing is ever written to the other end */
  uvs_task_init(&t);
  t.work = read_feed;
  t.interrupt = stop_reading;
  t.limit.run_ns = UVS_SEC(3);
  t.done = on_read_over;
  t.arg = &f;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  while (uv_sem_trywait(&f.started) != 0)
    uv_run(uvs_loop(s), UV_RUN_NOWAIT);
  pass_ns(s, UVS_SEC(3));
  uv_run(uvs_loop(s), UV_RUN_DEFAULT);
  EXPECT(f.status == UV_ETIMEDOUT);
  EXPECT(f.length == 0);
  uv_sem_destroy(&f.started);
  close(pair[0]);
  close(pair[1]);
}

/* ------------------------------------------------------------- idle time-outs --- */

enum { CONNECTIONS = 100000 };
#define IDLE_NS UVS_SEC(10)

struct connection {
  uvs_id_t idle;
  int64_t last_read_ns;
  int closed;
};

/* Loop thread. */
static int on_idle(uvs_run_t *run) {
  struct connection *c = run->arg;
  EXPECT(run->start_ns - c->last_read_ns >= IDLE_NS);
  c->closed = 1;
  return 0;
}

static int arm(uvs_t *s, struct connection *c) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = IDLE_NS;
  t.after = on_idle; /* and no `work`: on the loop */
  t.arg = c;
  c->last_read_ns = uvs_now(s);
  return uvs_submit(s, &t, &c->idle);
}

static int on_read(uvs_t *s, struct connection *c) {
  c->last_read_ns = uvs_now(s);
  return uvs_reschedule(s, c->idle, IDLE_NS);
}

static uint64_t heap_ops(uvs_t *s) {
  uvs_counts_t c;
  uvs_counts_init(&c);
  EXPECT(uvs_counts(s, &c) == 0);
  return c.heap_ops;
}

static void show_idle(uvs_t *s) {
  struct connection *all = calloc(CONNECTIONS, sizeof *all);
  uint64_t armed, push_backs = 0;

  EXPECT(all != NULL);
  for (int i = 0; i < CONNECTIONS; i++)
    EXPECT(arm(s, &all[i]) == 0);
  armed = heap_ops(s);
  for (int second = 0; second < 20; second++) {
    uint64_t before;
    EXPECT(run_for(s, UVS_SEC(1)) == 1); /* the old deadlines pass, and no time-out fires */
    before = heap_ops(s);
    for (int i = 0; i < CONNECTIONS; i++, push_backs++)
      EXPECT(on_read(s, &all[i]) == 0);
    EXPECT(heap_ops(s) == before); /* a push-back does not touch the queue */
  }
  printf("%d push-backs: the loop moved %d tasks in the queue\n", (int)push_backs,
         (int)(heap_ops(s) - armed));
  EXPECT(heap_ops(s) - armed <= push_backs / 2);
  EXPECT(run_for(s, UVS_SEC(10)) == 0); /* all connections are silent */
  for (int i = 0; i < CONNECTIONS; i++)
    EXPECT(all[i].closed);
  free(all);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t o;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  show_limit(s);
  show_substitute(s);
  show_interrupt(s);
  show_idle(s);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
