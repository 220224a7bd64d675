/* SPDX-License-Identifier: MIT
 *
 * At SIGTERM the program accepts no new clients, answers those that it has accepted, and ends when
 * the grace is over at the latest. The exit code says whether every client got an answer. The
 * program sends the signal to itself. */
#include <signal.h>
#include <unistd.h>
#include <uvsched.h>

#include "expect.h"

#define CLIENTS 3

static struct {
  uv_tcp_t listener;
  uv_signal_t sigterm;
  uvs_t *scheduler;
  int64_t grace_ns;
  int endless; /* for the check: an answer is never ready */
  int accepted, answered, lost, cancelled;
} server;

/* ---------------------------------------------------------------- requests --- */

/* On the pool. This takes a while, so it checks now and then whether the grace is over. */
static int find_answer(uvs_run_t *run) {
  for (int ms = 0; ms < 5 || server.endless; ms++) {
    if (uvs_cancelled(run))
      return UV_ECANCELED;
    uv_sleep(1);
  }
  return 0;
}

static void on_closed(uv_handle_t *h) {
  free(h);
}

/* Called exactly once per accepted request, even if its body never ran. */
static void send_answer(uvs_t *s, uvs_id_t id, int status, void *arg) {
  uv_buf_t buf = uv_buf_init((char[]){'!'}, 1);
  (void)s, (void)id;
  if (status == 0 && uv_try_write(arg, &buf, 1) == 1)
    server.answered++;
  else
    server.lost++;
  uv_close(arg, on_closed);
}

static void on_connection(uv_stream_t *listener, int status) {
  uv_tcp_t *conn = malloc(sizeof *conn);
  uvs_task_t t;

  EXPECT(status == 0 && conn != NULL);
  EXPECT(uv_tcp_init(listener->loop, conn) == 0);
  EXPECT(uv_accept(listener, (uv_stream_t *)conn) == 0);
  uvs_task_init(&t);
  t.work = find_answer;
  t.done = send_answer;
  t.arg = conn;
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
  if (++server.accepted == CLIENTS)
    EXPECT(uv_kill(uv_os_getpid(), SIGTERM) == 0);
}

/* ------------------------------------------------------------------- drain --- */

static void on_sigterm(uv_signal_t *handle, int signum) {
  (void)signum;
  uv_close((uv_handle_t *)&server.listener, NULL);
  uv_close((uv_handle_t *)handle, NULL); /* a second SIGTERM kills, as it always did */
  EXPECT(uvs_shutdown_within(server.scheduler, server.grace_ns) == 0);
}

/* The last task is over, its `done` included. */
static void on_terminated(uvs_t *s) {
  EXPECT(uvs_close(s, NULL) == 0);
}

/* Returns the exit code of the program. */
static int serve(uv_loop_t *loop) {
  uv_run(loop, UV_RUN_DEFAULT); /* returns when all handles are closed */
  EXPECT(uv_loop_close(loop) == 0);
  return server.lost == 0 ? 0 : 1;
}

static void open_server(uv_loop_t *loop, struct sockaddr_in *ret_addr) {
  int size = sizeof *ret_addr;
  uvs_options_t o;

  uvs_options_init(&o);
  o.delayed_after_shutdown = 0; /* at shutdown, tasks that are not due are dropped; due tasks run */
  o.periodic_after_shutdown =
      0; /* periodic tasks finish the run they are in; this is the default */
  o.on_terminated = on_terminated;
  o.concurrency = 1; /* for the check: two of three requests have to wait */
  EXPECT(uvs_open(loop, &o, &server.scheduler) == 0);
  EXPECT(uv_signal_init(loop, &server.sigterm) == 0);
  EXPECT(uv_signal_start(&server.sigterm, on_sigterm, SIGTERM) == 0);
  EXPECT(uv_tcp_init(loop, &server.listener) == 0);
  EXPECT(uv_ip4_addr("127.0.0.1", 0, ret_addr) == 0);
  EXPECT(uv_tcp_bind(&server.listener, (const struct sockaddr *)ret_addr, 0) == 0);
  EXPECT(uv_listen((uv_stream_t *)&server.listener, 16, on_connection) == 0);
  EXPECT(uv_tcp_getsockname(&server.listener, (struct sockaddr *)ret_addr, &size) == 0);
}

/* ------------------------------------------------------------------- check --- */

static int tidy_up(uvs_run_t *run) {
  (void)run;
  return 0;
}

static void count_cancelled(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)arg;
  server.cancelled += status == UV_ECANCELED;
}

/* Work that no client waits for: in an hour, and every hour. */
static void start_chores(void) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = UVS_HOUR(1);
  t.work = tidy_up;
  t.done = count_cancelled;
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_HOUR(1);
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
}

static int run_server(int64_t grace_ns, int endless) {
  struct sockaddr_in addr;
  int clients[CLIENTS];
  uv_loop_t loop;
  int code;
  char c;

  memset(&server, 0, sizeof server);
  server.grace_ns = grace_ns;
  server.endless = endless;
  EXPECT(uv_loop_init(&loop) == 0);
  open_server(&loop, &addr);
  start_chores();
  for (int i = 0; i < CLIENTS; i++) {
    clients[i] = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT(clients[i] >= 0);
    EXPECT(connect(clients[i], (const struct sockaddr *)&addr, sizeof addr) == 0);
  }
  code = serve(&loop);
  printf("grace of %d ms: %d answered, %d lost, %d chores cancelled; exit code %d\n",
         (int)(grace_ns / 1000000), server.answered, server.lost, server.cancelled, code);
  for (int i = 0; i < CLIENTS; i++) {
    EXPECT(read(clients[i], &c, 1) == !endless); /* an answer, or just the end */
    close(clients[i]);
  }
  EXPECT(server.answered + server.lost == CLIENTS && server.cancelled == 2);
  return code;
}

int main(void) {
  uint64_t begin_ns;

  setvbuf(stdout, NULL, _IOLBF, 0);
  EXPECT(run_server(UVS_MIN(1), 0) == 0);
  begin_ns = uv_hrtime();
  EXPECT(run_server(UVS_MS(30), 1) == 1);
  EXPECT(uv_hrtime() - begin_ns >= UVS_MS(30)); /* the grace was given */
  return 0;
}
