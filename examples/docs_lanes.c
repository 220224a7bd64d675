/* SPDX-License-Identifier: MIT
 *
 * The code of docs/lanes.md: a session with a lane of its own. Its tasks keep their order, never
 * overlap, and end together. On a virtual clock; bodies run on libuv's pool. */
#include <stdlib.h>
#include <string.h>
#include <uvsched/lane.h>

#include "expect.h"
#include "virtual_time.h"

struct session {
  uvs_lane_t lane;
  char log[16]; /* no lock: one body at a time writes it, and each sees what the one before wrote */
  size_t length;
};

struct message {
  struct session *session;
  char letter;
};

static int on_quiet_calls, cleanups, cancelled;

/* --------------------------------------------------------- open and submit --- */

/* Pool thread, any of them. */
static int handle(uvs_run_t *run) {
  struct message *m = run->arg;
  struct session *c = m->session;
  c->log[c->length] = m->letter;
  uv_sleep(1); /* a body that ran at the same time would overwrite the letter */
  c->length++;
  return 0;
}

/* Loop thread. No code touches what the session owned after this. */
static void on_session_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)s, (void)lane;
  on_quiet_calls++;
  free(arg);
}

static int open_session(uvs_t *s, struct session *c) {
  uvs_lane_options_t o;
  uvs_lane_options_init(&o); /* width 1: one body at a time */
  o.on_quiet = on_session_quiet;
  o.arg = c;
  return uvs_lane_open(s, &o, &c->lane);
}

static void on_message_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id;
  cancelled += status == UV_ECANCELED;
  free(arg);
}

static int receive(uvs_t *s, struct message *m, int64_t delay_ns) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.lane = m->session->lane; /* any kind of task */
  t.first_ns = delay_ns;
  t.work = handle;
  t.done = on_message_done;
  t.arg = m;
  return uvs_submit(s, &t, NULL);
}

static struct message *message(struct session *c, char letter) {
  struct message *m = malloc(sizeof *m);

  EXPECT(m != NULL);
  *m = (struct message){c, letter};
  return m;
}

/* -------------------------------------------------------------------- order --- */

static void show_order(uvs_t *s, struct session *c) {
  EXPECT(receive(s, message(c, 'a'), 0) == 0);
  EXPECT(receive(s, message(c, 'e'), UVS_MS(20)) == 0);
  EXPECT(receive(s, message(c, 'd'), UVS_MS(10)) == 0);
  EXPECT(receive(s, message(c, 'b'), 0) == 0);
  EXPECT(receive(s, message(c, 'c'), 0) == 0);
  run_for(s, UVS_SEC(1));
  uv_run(uvs_loop(s), UV_RUN_DEFAULT); /* until the last body has returned */
  EXPECT(strcmp(c->log, "abcde") == 0);
}

/* -------------------------------------------------------- restricted handle --- */

static int ping(uvs_run_t *run) {
  EXPECT(run->scheduler == NULL); /* only the lane is known here */
  return 0;
}

static int start_pings(uvs_lane_t lane, uvs_id_t *ret_id) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = UVS_SEC(30);
  t.work = ping;
  return uvs_lane_submit(lane, &t, ret_id);
}

/* ------------------------------------------------------------------ dispose --- */

static void close_log(uvs_t *s, void *arg) {
  (void)s, (void)arg;
  EXPECT(on_quiet_calls == 0);
  cleanups++;
}

static void show_dispose(uvs_t *s, struct session *c) {
  uvs_lane_t lane = c->lane;
  struct message *late;
  uvs_id_t pings;

  EXPECT(start_pings(lane, &pings) == 0);
  EXPECT(receive(s, message(c, 'f'), UVS_DAY(365)) == 0);
  EXPECT(uvs_lane_add_cleanup(s, lane, close_log, c, 0) == 0);
  uv_run(uvs_loop(s), UV_RUN_NOWAIT);
  EXPECT(uvs_lane_dispose(lane, UVS_DISPOSE_TOKEN) == 0);
  late = message(c, 'g');
  EXPECT(receive(s, late, 0) == UV_ECANCELED);
  free(late); /* refused: no `done` */

  uv_run(uvs_loop(s), UV_RUN_DEFAULT);
  EXPECT(cancelled == 1 && cleanups == 1 && on_quiet_calls == 1);
  EXPECT(uvs_lane_is_disposed(lane) == 1);
  EXPECT(uvs_lane_cancel(lane, pings, 0) == UV_ENOENT); /* stale numbers are harmless */
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  struct session *c = calloc(1, sizeof *c);
  uvs_options_t o;
  uvs_t *s;

  EXPECT(c != NULL);
  uvs_options_init(&o);
  o.clock = virtual_clock;
  o.concurrency = 2;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  EXPECT(open_session(s, c) == 0);
  show_order(s, c);
  show_dispose(s, c);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
