/* SPDX-License-Identifier: MIT
 *
 * A lane per session: the requests of one client are handled in order, one at a time and without a
 * lock, while all clients share libuv's pool. When a client hangs up, all its tasks end: those that
 * are ready and those that are due later. Its memory is freed when no code uses it any more.
 *
 *   sessions   three clients, one of which hangs up in the middle */
#include <stdlib.h>
#include <string.h>
#include <uvsched/lane.h>

#include "expect.h"

enum { CLIENTS = 3, REQUESTS = 40 };

struct session {
  uvs_lane_t lane;
  const char *name;
  int next;    /* no lock: requests run one at a time, and each sees what the previous one wrote */
  int dropped; /* on the loop */
  int pings;
};

struct request {
  struct session *session;
  int number;
  int handled;
};

static int sessions_open;
static int served[CLIENTS];

/* On a pool thread, any of them. */
static int handle(uvs_run_t *run) {
  struct request *r = run->arg;

  EXPECT(r->number == r->session->next); /* in order, and never two at once */
  uv_sleep(1);                           /* work */
  r->session->next++;
  r->handled = 1;
  return 0;
}

/* Submitted by code that has only the lane, not the scheduler. */
static int ping(uvs_run_t *run) {
  struct session *c = run->arg;

  EXPECT(run->scheduler == NULL);
  c->pings++;
  return 0;
}

static void handled(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct request *r = arg;

  (void)s, (void)id;
  /* If a client hangs up during a request, the request is cancelled, but its body still finishes.
   */
  EXPECT(status == 0 || status == UV_ECANCELED);
  r->session->dropped += !r->handled;
  free(r);
}

/* The last callback of a session: none of its tasks runs or waits, and no other callback follows.
 */
static void gone(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct session *c = arg;

  (void)s, (void)lane;
  printf("%-5s gone: %3d handled, %3d dropped, %d pings\n", c->name, c->next, c->dropped, c->pings);
  EXPECT(c->next + c->dropped == REQUESTS);
  served[--sessions_open] = c->next;
  free(c);
}

static struct session *open_session(uvs_t *s, const char *name) {
  struct session *c = calloc(1, sizeof *c);
  uvs_lane_options_t o;

  EXPECT(c != NULL);
  c->name = name;
  uvs_lane_options_init(&o);
  o.on_quiet = gone;
  o.arg = c;
  EXPECT(uvs_lane_open(s, &o, &c->lane) == 0);
  sessions_open++;
  return c;
}

static void receive(uvs_t *s, struct session *c, int number) {
  struct request *r = malloc(sizeof *r);
  uvs_task_t t;

  EXPECT(r != NULL);
  *r = (struct request){c, number, 0};
  uvs_task_init(&t);
  t.work = handle;
  t.done = handled;
  t.arg = r;
  t.lane = c->lane;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
}

/* This function has only the lane: it can affect no other task. */
static void watch(uvs_lane_t lane, struct session *c) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.first_ns = t.period_ns = UVS_MS(1);
  t.work = ping;
  t.arg = c;
  EXPECT(uvs_lane_submit(lane, &t, NULL) == 0);
}

static int hang_up_all(uvs_run_t *run) {
  struct session **clients = run->arg;

  for (int i = 0; i < CLIENTS; i++)
    EXPECT(uvs_lane_dispose(clients[i]->lane, 0) == 0);
  return 0;
}

int main(void) {
  static const char *const names[CLIENTS] = {"anna", "boris", "clara"};
  struct session *clients[CLIENTS];
  uvs_lane_t first;
  uvs_task_t t;
  uvs_t *s;
  uv_loop_t *loop = uv_default_loop();

  EXPECT(uvs_open(loop, NULL, &s) == 0);
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = open_session(s, names[i]);
    watch(clients[i]->lane, clients[i]);
  }
  first = clients[0]->lane;
  for (int n = 0; n < REQUESTS; n++) { /* all submitted at once, in mixed order */
    for (int i = 0; i < CLIENTS; i++)
      receive(s, clients[i], n);
  }
  uv_run(loop, UV_RUN_ONCE);
  EXPECT(uvs_lane_dispose(first, 0) == 0); /* the client hangs up, with requests still waiting */
  EXPECT(uvs_lane_submit(first, NULL, NULL) < 0);

  uvs_task_init(&t); /* later the other clients hang up, too */
  t.first_ns = UVS_MS(300);
  t.after = hang_up_all;
  t.arg = clients;
  clients[0] = clients[1]; /* the first client may be freed by then; disposing twice is harmless */
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(sessions_open == 0);
  EXPECT(uvs_lane_is_disposed(first) == 1);

  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_lane_is_disposed(first) == 1); /* a number never dangles */
  return uv_loop_close(loop) == 0 ? 0 : 1;
}
