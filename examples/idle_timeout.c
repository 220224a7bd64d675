/* SPDX-License-Identifier: MIT
 *
 * A server closes connections that are silent for 10 seconds. Each connection has one loop task,
 * which every read pushes back. The end of the task, whatever the reason, is the end of the
 * connection.
 *
 * The check has a client in the same program, and uses a virtual clock. */
#include <uvsched.h>

#include "expect.h"
#include "virtual_time.h"

#define IDLE_NS UVS_SEC(10)
#define HELD_UP_NS UVS_SEC(1)

static struct {
  uv_loop_t *loop;
  uvs_t *scheduler;
  uv_tcp_t listener;
  int open, reads, too_late, timed_out;
} server;

struct conn {
  uv_tcp_t tcp;
  uvs_id_t idle;
  int64_t last_read_ns;
};

static void on_closed(uv_handle_t *h) {
  server.open--;
  free(h->data);
}

/* The last use of the task, so the connection may be closed here: after a time-out (0), after
 * uvs_cancel, and when the scheduler is closed. */
static void on_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct conn *c = arg;
  (void)s, (void)id;
  server.timed_out += status == 0;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* The time is over. But there may have been a read when it was too late to push the task back. And
 * if the loop was held up, there may be bytes that it could not read yet. */
static int on_idle(uvs_run_t *run) {
  struct conn *c = run->arg;
  if (run->start_ns - c->last_read_ns < IDLE_NS || run->late_ns >= HELD_UP_NS)
    return 0; /* look again in IDLE_NS */
  return UVS_STOP;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf) {
  static char bytes[4096];
  (void)h, (void)suggested;
  *buf = uv_buf_init(bytes, sizeof bytes);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  struct conn *c = stream->data;
  (void)buf;
  if (n > 0) {
    server.reads++;
    c->last_read_ns = uvs_now(server.scheduler);
    if (uvs_reschedule(server.scheduler, c->idle, IDLE_NS) == UV_EBUSY)
      server.too_late++; /* only counted: on_idle is about to run, and sees last_read_ns */
  } else if (n < 0) {
    uv_read_stop(stream);
    uvs_cancel(server.scheduler, c->idle, 0); /* on_over follows */
  }
}

static void on_connection(uv_stream_t *listener, int status) {
  struct conn *c = calloc(1, sizeof *c);
  uvs_task_t t;

  EXPECT(status == 0 && c != NULL);
  EXPECT(uv_tcp_init(server.loop, &c->tcp) == 0);
  EXPECT(uv_accept(listener, (uv_stream_t *)&c->tcp) == 0);
  server.open++;
  c->tcp.data = c;
  c->last_read_ns = uvs_now(server.scheduler);
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY; /* when on_idle returns 0, once more */
  t.first_ns = IDLE_NS;
  t.period_ns = IDLE_NS;
  t.after = on_idle; /* and no `work`: on the loop, like on_read */
  t.done = on_over;
  t.arg = c;
  if (uvs_submit(server.scheduler, &t, &c->idle) != 0)
    uv_close((uv_handle_t *)&c->tcp, on_closed); /* refused: no `done` will come */
  else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
    uvs_cancel(server.scheduler, c->idle, 0);
}

/* ------------------------------------------------------------------- check --- */

static struct {
  uv_tcp_t tcp;
  uv_connect_t connect;
  struct sockaddr_in server;
  int closed;
} client;

static void client_send(void) {
  static char byte[] = "x";
  uv_buf_t buf = uv_buf_init(byte, 1);
  EXPECT(uv_try_write((uv_stream_t *)&client.tcp, &buf, 1) == 1);
}

static void client_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  (void)buf;
  if (n < 0) {
    uv_close((uv_handle_t *)stream, NULL);
    client.closed = 1;
  }
}

static void client_connected(uv_connect_t *req, int status) {
  EXPECT(status == 0);
  EXPECT(uv_read_start(req->handle, on_alloc, client_read) == 0);
}

static void client_connect(void) {
  client.closed = 0;
  EXPECT(uv_tcp_init(server.loop, &client.tcp) == 0);
  EXPECT(uv_tcp_connect(&client.connect, &client.tcp, (const struct sockaddr *)&client.server,
                        client_connected) == 0);
  while (server.open == 0 || !uv_is_writable((uv_stream_t *)&client.tcp))
    uv_run(server.loop, UV_RUN_ONCE);
}

static void run_until_read(int reads) {
  while (server.reads < reads && server.open == 1)
    uv_run(server.loop, UV_RUN_ONCE);
  EXPECT(server.reads == reads && server.open == 1);
}

/* A callback that uses up the budget of a loop pass, so that the scheduler gives the loop back
 * after it, whatever else is due. In the first call the client sends; the later calls wait for the
 * server to read it. */
static int keep_the_loop_busy(uvs_run_t *run) {
  int *calls = run->arg;
  if ((*calls)++ == 0)
    client_send();
  if (server.too_late == 0) {
    pass_ns(run->scheduler, UVS_MS(2));
    uv_sleep(1);
  }
  return 0;
}

static void start_server(void) {
  struct sockaddr_in any;
  int size = sizeof client.server;
  uvs_options_t o;

  server.loop = uv_default_loop();
  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(server.loop, &o, &server.scheduler) == 0);
  EXPECT(uv_tcp_init(server.loop, &server.listener) == 0);
  EXPECT(uv_ip4_addr("127.0.0.1", 0, &any) == 0);
  EXPECT(uv_tcp_bind(&server.listener, (const struct sockaddr *)&any, 0) == 0);
  EXPECT(uv_listen((uv_stream_t *)&server.listener, 16, on_connection) == 0);
  EXPECT(uv_tcp_getsockname(&server.listener, (struct sockaddr *)&client.server, &size) == 0);
}

int main(void) {
  int calls = 0;
  uvs_task_t t;
  uvs_t *s;

  start_server();
  s = server.scheduler;
  client_connect();

  printf("a read pushes the time-out back\n");
  run_for(s, UVS_SEC(6));
  client_send();
  run_until_read(1);
  run_for(s, IDLE_NS - 1);
  EXPECT(server.open == 1);

  printf("a read when the time-out is due, but other callbacks come first\n");
  uvs_task_init(&t);
  t.after = keep_the_loop_busy;
  t.arg = &calls;
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = uvs_now(s); /* so these tasks are due before the time-out, if only by a nanosecond */
  for (int i = 0; i < 200; i++)
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  pass_ns(s, 1);
  run_until_read(2);
  EXPECT(server.too_late == 1); /* uvs_reschedule said UV_EBUSY */
  run_for(s, IDLE_NS / 2);
  EXPECT(server.open == 1);

  printf("bytes lie in the socket while the loop is held up for longer than the time-out\n");
  pass_ns(s, IDLE_NS * 2);
  client_send();
  run_until_read(3);
  run_for(s, IDLE_NS / 2);
  EXPECT(server.open == 1 && server.timed_out == 0);

  printf("silence\n");
  run_for(s, IDLE_NS / 2);
  EXPECT(server.timed_out == 1 && server.open == 0);
  while (!client.closed)
    uv_run(server.loop, UV_RUN_ONCE);

  printf("the end of the server is the end of its connections\n");
  client_connect();
  uv_close((uv_handle_t *)&server.listener, NULL);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(server.loop, UV_RUN_DEFAULT);
  EXPECT(client.closed && server.timed_out == 1 && server.open == 0);
  EXPECT(uv_loop_close(server.loop) == 0);
  return 0;
}
