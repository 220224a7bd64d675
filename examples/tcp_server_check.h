/* SPDX-License-Identifier: MIT
 *
 * The clients of tcp_server.c with `--self-test`. First one client after the other, on plain
 * sockets, while this file runs the loop step by step. Then one client that uses the loop; when it
 * ends, the server ends. */
#include <errno.h>
#include <unistd.h>

#define SMALL 4096           /* bytes; a page is several times as long */
#define LONG_NS UVS_MIN(1)   /* no time-out fires, however slow the machine is */
#define SHORT_NS UVS_MS(200) /* a time-out fires */

/* ------------------------------------------------------ clients by the hand --- */

#define TURN_UNTIL(what) \
  do { \
    while (!(what)) \
      EXPECT(uv_run(server.loop, UV_RUN_ONCE) != 0); \
  } while (0)

static struct sockaddr_in server_addr;

static int dial(int64_t idle_ns) {
  int fd = socket(AF_INET, SOCK_STREAM, 0);
  int size = SMALL;

  EXPECT(fd >= 0 && server.now.open == 0);
  server.idle_ns = idle_ns;
  EXPECT(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof size) == 0);
  EXPECT(connect(fd, (const struct sockaddr *)&server_addr, sizeof server_addr) == 0);
  TURN_UNTIL(server.now.open == 1);
  return fd;
}

/* Sends the text in one piece. The server reads it before anything else comes. */
static void tell(int fd, const char *text) {
  size_t bytes = server.now.bytes + strlen(text);

  EXPECT(send(fd, text, strlen(text), 0) == (ssize_t)strlen(text));
  TURN_UNTIL(server.now.bytes == bytes || server.now.open == 0);
  EXPECT(server.now.bytes == bytes);
}

/* Reads until the server ends the connection. */
static const char *hear(int fd) {
  static char text[1 << 17];
  size_t size = 0;
  ssize_t n;

  while ((n = recv(fd, text + size, sizeof text - 1 - size, MSG_DONTWAIT)) != 0) {
    if (n > 0)
      size += (size_t)n;
    else
      EXPECT(errno == EAGAIN && uv_run(server.loop, UV_RUN_ONCE) != 0);
  }
  text[size] = 0;
  return text;
}

static void leave(int fd) {
  close(fd);
  TURN_UNTIL(server.now.open == 0);
}

static int begins(const char *text, const char *with) {
  return strncmp(text, with, strlen(with)) == 0;
}

static void check_page(const char *text) {
  const char *length = strstr(text, "\r\nContent-Length: ");
  const char *body = strstr(text, "\r\n\r\n");

  EXPECT(begins(text, "HTTP/1.1 200 OK\r\n") && length != NULL && body != NULL);
  EXPECT(strtoul(length + 18, NULL, 10) == strlen(body + 4));
  EXPECT(begins(body + 4, "# HELP uvsched_") && strstr(body, "\nuvsched_runs_total ") != NULL);
  EXPECT(strlen(body) > 2 * SMALL);
}

static void requests(void) {
  static const char *const pieces[] = {"G", "ET /metr", "ics HTTP/1.0\r", "\nHost: x\r\n", "\r"};
  static char more[1 << 18];
  int fd = dial(LONG_NS);

  printf("client: a request in pieces\n");
  for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
    tell(fd, pieces[i]);
  EXPECT(server.now.answers == 0);
  tell(fd, "\n");
  EXPECT(send(fd, more, sizeof more, MSG_DONTWAIT) > 0); /* the client must still get its page */
  check_page(hear(fd));
  EXPECT(server.now.answers == 1);
  leave(fd);

  printf("client: a request, and then the end\n");
  fd = dial(LONG_NS);
  EXPECT(send(fd, "GET /metrics HTTP/1.1\n\n", 23, 0) == 23 && shutdown(fd, SHUT_WR) == 0);
  check_page(hear(fd));
  TURN_UNTIL(server.now.open == 0); /* the server closes first */
  close(fd);

  printf("client: a request that is too long\n");
  fd = dial(LONG_NS);
  tell(fd, "GET /");
  for (int i = 0; i < REQUEST_MAX / 8; i++)
    tell(fd, "x: xxxxx\r\n");
  EXPECT(begins(hear(fd), "HTTP/1.1 431 "));
  leave(fd);

  printf("client: no request after all\n");
  fd = dial(LONG_NS);
  tell(fd, "GE");
  tell(fd, "ORGE ");
  tell(fd, "GET "); /* counts only at the beginning */
  EXPECT(shutdown(fd, SHUT_WR) == 0);
  EXPECT(strcmp(hear(fd), "GEORGE GET ") == 0);
  leave(fd);
  fd = dial(LONG_NS);
  tell(fd, "GET");
  EXPECT(shutdown(fd, SHUT_WR) == 0);
  EXPECT(strcmp(hear(fd), "GET") == 0);
  leave(fd);
  EXPECT(server.now.answers == 3 && server.now.timed_out == 0);
}

/* ------------------------------------------------------------ bad customers --- */

static int find_idle(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s;
  if (strcmp(info->name, "idle") == 0)
    *(uvs_info_t *)arg = *info;
  return 0;
}

/* The idle task of the only connection. */
static uvs_info_t idle_task(void) {
  uvs_info_t info;
  uvs_info_init(&info);
  EXPECT(uvs_each(server.scheduler, find_idle, &info) == 0 && info.id != 0);
  return info;
}

/* Does the connection have an answer of which a part cannot be sent? */
static int is_stuck(void) {
  struct conn *c = idle_task().arg;
  return c->use == ANSWERED && uv_stream_get_write_queue_size((uv_stream_t *)&c->tcp) > 0;
}

static void bad_customers(void) {
  int fd = dial(SHORT_NS);

  printf("client: a request that does not end\n");
  tell(fd, "GET /");
  for (int i = 0; server.now.open == 1 && send(fd, "x", 1, 0) == 1; i++) {
    EXPECT(i < REQUEST_MAX / 2); /* a byte now and then does not keep the connection open */
    uv_sleep(1);
    uv_run(server.loop, UV_RUN_NOWAIT);
  }
  leave(fd);
  EXPECT(server.now.answers == 3 && server.now.timed_out == 1);

  printf("client: asks, and does not listen\n");
  fd = dial(SHORT_NS);
  tell(fd, "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT(is_stuck());
  TURN_UNTIL(server.now.open == 0);
  close(fd);
  EXPECT(server.now.answers == 4 && server.now.timed_out == 2);

  printf("client: asks, and goes away\n");
  fd = dial(LONG_NS);
  tell(fd, "GET /metrics HTTP/1.1\r\n\r\n");
  EXPECT(is_stuck());
  leave(fd);
  EXPECT(server.now.answers == 5 && server.now.timed_out == 2);
}

/* ----------------------------------------------- a read that is almost late --- */

struct rush {
  int fd;
  size_t bytes; /* bytes that the server had read before */
  int begun, over;
};

/* Uses up the budget of a loop pass, so that the scheduler gives the loop back after it, whatever
 * else is due. In the first call the client sends; when the server has read that, the later calls
 * return at once. */
static int keep_the_loop_busy(uvs_run_t *run) {
  struct rush *r = run->arg;
  if (!r->begun)
    EXPECT(send(r->fd, "x", 1, 0) == 1);
  r->begun = 1;
  if (server.now.bytes == r->bytes)
    uv_sleep(2);
  return 0;
}

static int end_the_rush(uvs_run_t *run) {
  struct rush *r = run->arg;
  r->over = 1;
  return 0;
}

static void read_when_it_is_due(void) {
  struct rush r = {.fd = dial(SHORT_NS), .bytes = server.now.bytes};
  uvs_task_t t;
  char c;

  printf("client: sends when the time-out is due, but other callbacks come first\n");
  uvs_task_init(&t);
  t.arg = &r;
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = idle_task().due_ns - 1;
  t.after = keep_the_loop_busy;
  for (int i = 0; i < 10; i++)
    EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
  t.first_ns += 2; /* this one is due after on_idle */
  t.after = end_the_rush;
  EXPECT(uvs_submit(server.scheduler, &t, NULL) == 0);
  TURN_UNTIL(r.over);
  server.idle_ns = LONG_NS;
  EXPECT(server.now.bytes == r.bytes + 1);
  tell(r.fd, "y");
  EXPECT(server.now.timed_out == 2);
  EXPECT(recv(r.fd, &c, 1, MSG_DONTWAIT) == 1 && c == 'x');
  leave(r.fd);
}

/* ---------------------------------------------------- a client on the loop --- */

static struct {
  uv_tcp_t tcp;
  uv_connect_t connect;
  uv_write_t write;
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
  t.first_ns = delay_ns;
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
    /* On a very slow machine the time-out may come before the first echo: then the client tries
     * again. */
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
  EXPECT(uv_tcp_connect(&client.connect, &client.tcp, (const struct sockaddr *)&server_addr,
                        client_connected) == 0);
}

static void start_self_test(int port) {
  int64_t idle_ns = server.idle_ns;
  int size = SMALL;

  EXPECT(uv_ip4_addr("127.0.0.1", port, &server_addr) == 0);
  /* A small buffer, so that an answer does not fit. Connections inherit it. */
  EXPECT(uv_send_buffer_size((uv_handle_t *)&server.listener, &size) == 0);
  requests();
  bad_customers();
  read_when_it_is_due();
  server.idle_ns = idle_ns;
  client_connect(NULL);
}
