/* SPDX-License-Identifier: MIT
 *
 * A lane per session: what one client sends is handled in its order, one at a time and without a
 * lock, while the clients share libuv's pool. A client that hangs up takes everything of his along:
 * what waits, what is due later, and then his memory, when nobody can touch it any more.
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
  int next;    /* no lock: one request at a time, and each sees what the one before wrote */
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

/* Handed in by other code that has only the lane, not the scheduler. */
static int ping(uvs_run_t *run) {
  struct session *c = run->arg;

  EXPECT(run->scheduler == NULL);
  c->pings++;
  return 0;
}

static void handled(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct request *r = arg;

  (void)s, (void)id;
  /* Who hangs up while a request is being handled has it cancelled, and still finished. */
  EXPECT(status == 0 || status == UV_ECANCELED);
  r->session->dropped += !r->handled;
  free(r);
}

/* The last callback of a session: nothing of it runs, waits or will be called. */
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

/* This part knows the lane and nothing else: it can do no harm outside. */
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
  for (int n = 0; n < REQUESTS; n++) { /* all at once, mixed */
    for (int i = 0; i < CLIENTS; i++)
      receive(s, clients[i], n);
  }
  uv_run(loop, UV_RUN_ONCE);
  EXPECT(uvs_lane_dispose(first, 0) == 0); /* he hangs up, with requests still waiting */
  EXPECT(uvs_lane_submit(first, NULL, NULL) < 0);

  uvs_task_init(&t); /* later the others do */
  t.first_ns = UVS_MS(300);
  t.after = hang_up_all;
  t.arg = clients;
  clients[0] = clients[1]; /* his memory may be gone by then; to dispose twice does no harm */
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(sessions_open == 0);
  EXPECT(uvs_lane_is_disposed(first) == 1);

  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_lane_is_disposed(first) == 1); /* a number never dangles */
  return uv_loop_close(loop) == 0 ? 0 : 1;
}
