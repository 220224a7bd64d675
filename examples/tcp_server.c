/* SPDX-License-Identifier: MIT
 *
 * A TCP echo server on the loopback interface.
 *
 *   idle time-outs    one loop task per connection, moved with uvs_reschedule at every read: no
 *                     uv_timer_t per connection, and moving it allocates nothing
 *   background work   a report, written on the pool while the loop goes on serving
 *   Ctrl-C            closes everything and leaves through uv_loop_close
 *
 *   tcp_server [port]         7000 unless told; try: nc 127.0.0.1 7000
 *   tcp_server --self-test    talks to itself on a free port, then interrupts itself */
#include <signal.h>
#include <uvsched.h>

#include "expect.h"

static struct {
  uv_loop_t *loop;
  uvs_t *scheduler;
  uv_tcp_t listener;
  uv_signal_t sigint;
  int64_t idle_ns;
  struct numbers {
    int open, accepted, timed_out;
    size_t bytes;
  } now; /* the loop's own; the pool sees copies */
  int reports_open;
} server;

/* ------------------------------------------------------------ a connection --- */

struct conn {
  uv_tcp_t tcp;
  uvs_id_t idle;
  int64_t last_read_ns;
  int users; /* the handle and the idle task; the last one to leave frees it */
};

static void conn_leave(struct conn *c) {
  if (--c->users > 0)
    return;
  server.now.open--;
  free(c);
}

static void on_conn_closed(uv_handle_t *h) {
  conn_leave(h->data);
}

static void on_idle_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)status;
  conn_leave(arg);
}

static void conn_close(struct conn *c) {
  if (uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  uv_close((uv_handle_t *)&c->tcp, on_conn_closed);
  uvs_cancel(server.scheduler, c->idle, 0); /* whatever the receipt, `done` comes once */
}

static int on_idle(uvs_run_t *run) {
  struct conn *c = run->arg;
  EXPECT(run->start_ns - c->last_read_ns >= server.idle_ns); /* never early */
  printf("server: a connection was idle for %d ms\n", (int)(server.idle_ns / 1000000));
  server.now.timed_out++;
  conn_close(c);
  return 0;
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf) {
  (void)h, (void)suggested;
  *buf = uv_buf_init(malloc(4096), 4096);
}

static void on_written(uv_write_t *req, int status) {
  if (status != 0)
    conn_close(req->handle->data);
  free(req->data);
  free(req);
}

/* Send the bytes back. The buffer is the one that on_alloc gave, and goes when it is written. */
static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  struct conn *c = stream->data;
  uv_buf_t reply = uv_buf_init(buf->base, n > 0 ? (unsigned)n : 0);
  uv_write_t *req = n > 0 ? malloc(sizeof *req) : NULL;

  if (req != NULL) {
    req->data = buf->base;
    if (uv_write(req, stream, &reply, 1, on_written) == 0) {
      int64_t now_ns = uvs_now(server.scheduler);
      server.now.bytes += (size_t)n;
      /* UV_EBUSY: its time is up already, and on_idle is about to run. */
      if (uvs_reschedule(server.scheduler, c->idle, server.idle_ns) == 0)
        c->last_read_ns = now_ns;
      return;
    }
    free(req);
  }
  free(buf->base);
  if (n != 0) /* 0 means "nothing yet"; the rest is the end of the stream or an error */
    conn_close(c);
}

static void on_connection(uv_stream_t *listener, int status) {
  struct conn *c = calloc(1, sizeof *c);
  uvs_task_t t;

  if (c == NULL || status != 0 || uv_tcp_init(server.loop, &c->tcp) != 0) {
    free(c);
    return;
  }
  c->tcp.data = c;
  c->users = 2;
  c->last_read_ns = uvs_now(server.scheduler);
  server.now.open++;
  server.now.accepted++;
  uvs_task_init(&t);
  t.delay_ns = server.idle_ns;
  t.after = on_idle; /* no `work`: a loop task, which may touch the connection */
  t.done = on_idle_done;
  t.arg = c;
  t.name = "idle";
  if (uvs_submit(server.scheduler, &t, &c->idle) != 0)
    c->users = 1; /* refused: no `done` will come */
  if (c->users == 1 || uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 ||
      uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
    conn_close(c);
}

/* --------------------------------------------------------- background work --- */

/* On the pool, so it may take its time. */
static int write_report(uvs_run_t *run) {
  const struct numbers *n = run->arg;
  printf("report: runner %d: %d open, %d accepted, %d timed out, %zu bytes\n", run->runner, n->open,
         n->accepted, n->timed_out, n->bytes);
  return 0;
}

/* Written or cancelled, this comes exactly once and is the last touch of the copy. */
static void on_report_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)status;
  server.reports_open--;
  free(arg);
}

/* On the loop, now and then: give the pool a copy of the numbers. */
static int start_report(uvs_run_t *run) {
  struct numbers *copy = malloc(sizeof *copy);
  uvs_task_t t;

  if (copy == NULL)
    return 0; /* perhaps the next time */
  *copy = server.now;
  uvs_task_init(&t);
  t.work = write_report;
  t.done = on_report_done;
  t.arg = copy;
  t.name = "report";
  if (uvs_submit(run->scheduler, &t, NULL) == 0)
    server.reports_open++;
  else
    free(copy); /* refused: no callback will come */
  return 0;
}

/* -------------------------------------------------------------- life cycle --- */

static void close_mine(uv_handle_t *h, void *arg) {
  (void)arg;
  if (uvs_owns_handle(server.scheduler, h) || uv_is_closing(h))
    return;
  if (h->data != NULL)
    conn_close(h->data);
  else
    uv_close(h, NULL);
}

/* One shot: a second Ctrl-C ends the process in the usual way. */
static void on_sigint(uv_signal_t *handle, int signum) {
  (void)handle, (void)signum;
  printf("server: interrupted, closing\n");
  uv_walk(server.loop, close_mine, NULL);
  EXPECT(uvs_close(server.scheduler, NULL) == 0);
}

static int start_server(int port, int64_t idle_ns, int64_t report_ns) {
  struct sockaddr_in addr;
  int size = sizeof addr;
  uvs_task_t t;
  int rc;

  server.loop = uv_default_loop();
  server.idle_ns = idle_ns;
  EXPECT(uvs_open(server.loop, NULL, &server.scheduler) == 0);
  EXPECT(uv_signal_init(server.loop, &server.sigint) == 0);
  EXPECT(uv_signal_start_oneshot(&server.sigint, on_sigint, SIGINT) == 0);
  EXPECT(uv_tcp_init(server.loop, &server.listener) == 0);
  EXPECT(uv_ip4_addr("127.0.0.1", port, &addr) == 0);
  EXPECT(uv_tcp_bind(&server.listener, (const struct sockaddr *)&addr, 0) == 0);
  rc = uv_listen((uv_stream_t *)&server.listener, 128, on_connection);
  if (rc != 0)
    fprintf(stderr, "port %d: %s\n", port, uvs_strerror(rc));
  EXPECT(rc == 0);
  EXPECT(uv_tcp_getsockname(&server.listener, (struct sockaddr *)&addr, &size) == 0);

  uvs_task_init(&t);
  t.kind = UVS_RATE;
  t.missed = UVS_MISSED_ONCE;
  t.delay_ns = t.period_ns = report_ns;
  t.after = start_report;
  t.name = "reports";
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
  return ntohs(addr.sin_port);
}

/* --------------------------------------------------------------- self-test --- */

static struct {
  uv_tcp_t tcp;
  uv_connect_t connect;
  uv_write_t write;
  struct sockaddr_in server;
  int echoed, closed;
  char in[64];
  size_t in_len;
} client;

static int client_send(uvs_run_t *run) {
  static char ping[] = "ping";
  uv_buf_t buf = uv_buf_init(ping, 4);
  (void)run;
  if (client.closed)
    return 0;
  return uv_write(&client.write, (uv_stream_t *)&client.tcp, &buf, 1, NULL);
}

static void client_send_soon(int64_t delay_ns) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.delay_ns = delay_ns;
  t.after = client_send;
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
}

static void client_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf) {
  (void)h, (void)suggested;
  *buf = uv_buf_init(client.in + client.in_len, (unsigned)(sizeof client.in - client.in_len));
}

static void client_connect(uv_handle_t *h);

/* Three pings, each well within the idle time, then silence until the server hangs up. */
static void client_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  (void)buf;
  if (n > 0) {
    client.in_len += (size_t)n;
    EXPECT(client.in_len <= 4 && memcmp(client.in, "ping", client.in_len) == 0);
    if (client.in_len == 4) {
      printf("client: echo %d\n", ++client.echoed);
      client.in_len = 0;
      if (client.echoed < 3)
        client_send_soon(server.idle_ns / 4);
    }
  } else if (n < 0) {
    printf("client: the server hung up\n");
    client.closed = 1;
    /* On a very slow machine that may come before the first echo: then try again. */
    uv_close((uv_handle_t *)stream, client.echoed > 0 ? NULL : client_connect);
    if (client.echoed > 0)
      EXPECT(uv_kill(uv_os_getpid(), SIGINT) == 0);
  }
}

static void client_connected(uv_connect_t *req, int status) {
  EXPECT(status == 0);
  EXPECT(uv_read_start(req->handle, client_alloc, client_read) == 0);
  client_send_soon(0);
}

static void client_connect(uv_handle_t *h) {
  (void)h;
  client.closed = 0;
  client.in_len = 0;
  EXPECT(uv_tcp_init(server.loop, &client.tcp) == 0);
  EXPECT(uv_tcp_connect(&client.connect, &client.tcp, (const struct sockaddr *)&client.server,
                        client_connected) == 0);
}

int main(int argc, char **argv) {
  int self_test = argc > 1 && strcmp(argv[1], "--self-test") == 0;
  int port = self_test ? 0 : argc > 1 ? atoi(argv[1]) : 7000;

  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGPIPE, SIG_IGN);
  port = start_server(port, self_test ? UVS_MS(200) : UVS_SEC(10),
                      self_test ? UVS_MS(100) : UVS_SEC(5));
  printf("server: 127.0.0.1:%d, idle connections are closed after %d ms\n", port,
         (int)(server.idle_ns / 1000000));
  if (self_test) {
    EXPECT(uv_ip4_addr("127.0.0.1", port, &client.server) == 0);
    client_connect(NULL);
  }

  uv_run(server.loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(server.loop) == 0);
  EXPECT(server.now.open == 0 && server.reports_open == 0);
  if (self_test)
    EXPECT(client.echoed >= 1 && client.closed && server.now.timed_out >= 1);
  printf("server: closed cleanly\n");
  return 0;
}
