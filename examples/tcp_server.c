/* SPDX-License-Identifier: MIT
 *
 * A TCP echo server on the loopback interface, with statistics for Prometheus.
 *
 *   idle time-outs    one loop task per connection, moved with uvs_reschedule at every read: no
 *                     uv_timer_t per connection, and moving it allocates nothing
 *   GET /metrics      a connection that begins like this gets the statistics instead of an echo
 *   background work   a report, written on the pool while the loop goes on serving
 *   Ctrl-C, SIGTERM   close everything and leave through uv_loop_close; SIGUSR1: a report now
 *
 *   tcp_server [port [seconds]]    default 7000; 0: any free port; seconds between reports
 *   tcp_server --self-test         talks to itself on a free port, then interrupts itself
 *
 * Try: nc 127.0.0.1 7000 */
#include <signal.h>
#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"

#define HELD_UP_NS UVS_SEC(1)
#define REQUEST_MAX 8192 /* bytes, up to the empty line */

static struct {
  uv_loop_t *loop;
  uvs_t *scheduler;
  uv_tcp_t listener;
  uv_signal_t sigint, sigterm, sigusr1;
  int64_t idle_ns;
  uvs_id_t reports;
  struct numbers {
    int open, accepted, timed_out, answers;
    size_t bytes;
  } now; /* used by the loop thread; the pool gets copies */
  int reports_open;
} server;

/* ------------------------------------------------------------ a connection --- */

/* What a connection is for. Its first bytes decide. */
enum use {
  UNKNOWN, /* nothing has come yet, or only a part of "GET " */
  ECHOES,
  ASKS,    /* a request has begun to arrive */
  ANSWERED /* the rest of the input is ignored */
};

static char get[] = "GET ";

struct conn {
  uv_tcp_t tcp;
  uvs_id_t idle;
  int64_t since_ns; /* the time-out counts from this instant */
  int writes;       /* in progress */
  int ended;        /* the client will send nothing more */
  enum use use;
  size_t asked;   /* bytes of the request so far */
  char line[32];  /* its first bytes: as many as the server needs to know */
  int empty_line; /* the current line of the request is empty so far */
  uv_shutdown_t shutdown;
};

static void on_closed(uv_handle_t *h) {
  server.now.open--;
  free(h->data);
}

/* The last use of the task, so the connection may be closed here: after a time-out (0), after
 * hang_up, and when the scheduler is closed. */
static void on_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct conn *c = arg;
  (void)s, (void)id;
  server.now.timed_out += status == 0;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* Ends a connection for any reason but the time-out. on_over follows soon. */
static void hang_up(struct conn *c) {
  if (uv_is_closing((uv_handle_t *)&c->tcp))
    return;
  uv_read_stop((uv_stream_t *)&c->tcp);
  uvs_cancel(server.scheduler, c->idle, 0);
}

/* The time is over. But there may have been a read when it was too late to push the time-out back.
 * And if the loop was held up, there may be bytes that it could not read yet. */
static int on_idle(uvs_run_t *run) {
  struct conn *c = run->arg;
  if (run->start_ns - c->since_ns < server.idle_ns || run->late_ns >= HELD_UP_NS)
    return 0; /* look again in idle_ns */
  printf("server: a connection was idle for %d ms\n", (int)(server.idle_ns / 1000000));
  return UVS_STOP;
}

/* UV_EBUSY: on_idle is about to run, and sees since_ns. */
static void push_back(struct conn *c) {
  c->since_ns = uvs_now(server.scheduler);
  uvs_reschedule(server.scheduler, c->idle, server.idle_ns);
}

static void on_written(uv_write_t *req, int status) {
  struct conn *c = req->handle->data;
  free(req->data);
  free(req);
  c->writes--;
  if (status != 0 || (c->ended && c->writes == 0))
    hang_up(c); /* the client is gone, or has received everything */
}

/* Never waits: bytes that the client cannot take now are sent later. Frees `owned` when they are
 * sent. */
static void put(struct conn *c, const uv_buf_t bufs[], unsigned n, void *owned) {
  uv_write_t *req = malloc(sizeof *req);

  if (req != NULL) {
    req->data = owned;
    if (uv_write(req, (uv_stream_t *)&c->tcp, bufs, n, on_written) == 0) {
      c->writes++;
      return;
    }
  }
  free(req);
  free(owned);
  hang_up(c);
}

/* ----------------------------------------------------------------- metrics --- */

struct page {
  char head[160];
  size_t size, room; /* of the body */
  char body[];
};

/* For uvs_stats_write: appends some lines. */
static int append(const char *data, size_t size, void *arg) {
  struct page **page = arg, *p = *page;

  if (size > p->room - p->size) {
    size_t room = 2 * p->room + size;
    p = realloc(p, sizeof *p + room);
    if (p == NULL)
      return UV_ENOMEM;
    p->room = room;
    *page = p;
  }
  memcpy(p->body + p->size, data, size);
  p->size += size;
  return 0;
}

/* The statistics in the format of Prometheus. NULL: no memory. Thread: any. */
static struct page *metrics_page(uvs_t *s) {
  struct page *p = calloc(1, sizeof *p);
  if (p != NULL && uvs_stats_write(s, UVS_FORMAT_PROMETHEUS, append, &p) == 0)
    return p;
  free(p);
  return NULL;
}

static struct page *page_of(const char *text) {
  struct page *p = calloc(1, sizeof *p);
  if (p != NULL && append(text, strlen(text), &p) == 0)
    return p;
  free(p);
  return NULL;
}

static void on_shutdown(uv_shutdown_t *req, int status) {
  (void)req, (void)status; /* on_written gets the same status */
}

/* Sends the page and nothing after it. Later bytes of the client are read and ignored: if the
 * server closed with unread bytes, the client might lose the page. The server closes when the
 * client does, or at the time-out.
 */
static void answer(struct conn *c, const char *status, struct page *p) {
  uv_buf_t bufs[2];
  int size;

  c->use = ANSWERED;
  server.now.answers++;
  push_back(c); /* one idle time for all of this */
  if (p == NULL) {
    hang_up(c);
    return;
  }
  size = snprintf(p->head, sizeof p->head,
                  "HTTP/1.1 %s\r\n"
                  "Content-Type: text/plain; version=0.0.4\r\n"
                  "Content-Length: %zu\r\n"
                  "Connection: close\r\n\r\n",
                  status, p->size);
  bufs[0] = uv_buf_init(p->head, (unsigned)size);
  bufs[1] = uv_buf_init(p->body, (unsigned)p->size);
  put(c, bufs, 2, p);
  if (uv_shutdown(&c->shutdown, (uv_stream_t *)&c->tcp, on_shutdown) != 0)
    hang_up(c);
}

static int asks_for_metrics(const struct conn *c) {
  const char *version = c->line + 20;
  return memcmp(c->line, "GET /metrics HTTP/1.", 20) == 0 &&
         (version[0] == '0' || version[0] == '1') && (version[1] == '\r' || version[1] == '\n');
}

/* Only the first line of a request matters, but the request ends with an empty line. */
static void read_request(struct conn *c, const char *data, size_t n) {
  for (size_t i = 0; i < n && c->use != ANSWERED; i++) {
    if (c->asked < sizeof c->line)
      c->line[c->asked] = data[i];
    c->asked++;
    if (data[i] == '\n' && c->empty_line && asks_for_metrics(c))
      answer(c, "200 OK", metrics_page(server.scheduler));
    else if (data[i] == '\n' && c->empty_line)
      answer(c, "404 Not Found", page_of("only /metrics is here\n"));
    else if (c->asked == REQUEST_MAX)
      answer(c, "431 Request Header Fields Too Large", page_of("that is too long\n"));
    else if (data[i] != '\r')
      c->empty_line = data[i] == '\n';
  }
}

/* ----------------------------------------------------------------- reading --- */

static enum use use_of(const struct conn *c, const char *data, size_t n) {
  size_t rest = strlen(get) - c->asked;
  if (memcmp(data, get + c->asked, n < rest ? n : rest) != 0)
    return ECHOES;
  return n < rest ? UNKNOWN : ASKS;
}

/* The first bytes looked like a request, but were not: echoes them, too. */
static void echo_held(struct conn *c) {
  uv_buf_t buf = uv_buf_init(get, (unsigned)c->asked);
  if (c->asked > 0)
    put(c, &buf, 1, NULL);
  c->asked = 0;
}

/* Frees `data` when it is written, or now. */
static void on_bytes(struct conn *c, char *data, size_t n) {
  uv_buf_t buf = uv_buf_init(data, (unsigned)n);

  server.now.bytes += n;
  if (c->use == UNKNOWN || c->use == ECHOES)
    push_back(c); /* not for a request: it must be complete within one idle time */
  if (c->use == UNKNOWN)
    c->use = use_of(c, data, n);
  if (c->use == ECHOES) {
    echo_held(c);
    put(c, &buf, 1, data);
  } else {
    read_request(c, data, n);
    free(data);
  }
}

/* The client sends nothing more, but may still be reading. */
static void on_end(struct conn *c) {
  c->ended = 1;
  if (c->use == UNKNOWN)
    echo_held(c);
  if (c->writes == 0)
    hang_up(c);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf) {
  (void)h, (void)suggested;
  *buf = uv_buf_init(malloc(4096), 4096);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf) {
  if (n > 0) {
    on_bytes(stream->data, buf->base, (size_t)n);
    return;
  }
  free(buf->base);
  if (n == UV_EOF)
    on_end(stream->data);
  else if (n != 0) /* 0 means "nothing yet" */
    hang_up(stream->data);
}

static void on_connection(uv_stream_t *listener, int status) {
  struct conn *c = calloc(1, sizeof *c);
  uvs_task_t t;

  if (c == NULL || status != 0 || uv_tcp_init(server.loop, &c->tcp) != 0) {
    free(c);
    return;
  }
  c->tcp.data = c;
  c->since_ns = uvs_now(server.scheduler);
  server.now.open++;
  server.now.accepted++;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY; /* when on_idle returns 0, it runs again */
  t.first_ns = server.idle_ns;
  t.period_ns = server.idle_ns;
  t.after = on_idle; /* no `work`: a loop task, which may touch the connection */
  t.done = on_over;
  t.arg = c;
  t.name = "idle";
  if (uv_accept(listener, (uv_stream_t *)&c->tcp) != 0 ||
      uvs_submit(server.scheduler, &t, &c->idle) != 0)
    uv_close((uv_handle_t *)&c->tcp, on_closed); /* refused: no `done` will come */
  else if (uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) != 0)
    hang_up(c);
}

/* --------------------------------------------------------- background work --- */

/* On the pool, so it may take long. */
static int write_report(uvs_run_t *run) {
  const struct numbers *n = run->arg;
  printf("report: runner %d: %d open, %d accepted, %d timed out, %d answers, %zu bytes\n",
         run->runner, n->open, n->accepted, n->timed_out, n->answers, n->bytes);
  return 0;
}

/* Written or cancelled, this is called exactly once, and is the last use of the copy. */
static void on_report_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)status;
  server.reports_open--;
  free(arg);
}

/* On the loop, periodically: gives the pool a copy of the numbers. */
static int start_report(uvs_run_t *run) {
  struct numbers *copy = malloc(sizeof *copy);
  uvs_task_t t;

  if (copy == NULL)
    return 0; /* perhaps the next report succeeds */
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

/* The connections are closed next: see on_over. A second Ctrl-C kills the process, as usual. */
static void on_stop(uv_signal_t *handle, int signum) {
  (void)handle;
  printf("server: %s, closing\n", signum == SIGINT ? "interrupted" : "told to stop");
  uv_close((uv_handle_t *)&server.listener, NULL);
  uv_close((uv_handle_t *)&server.sigint, NULL);
  uv_close((uv_handle_t *)&server.sigterm, NULL);
  uv_close((uv_handle_t *)&server.sigusr1, NULL);
  EXPECT(uvs_close(server.scheduler, NULL) == 0);
}

static void on_sigusr1(uv_signal_t *handle, int signum) {
  (void)handle, (void)signum;
  uvs_reschedule(server.scheduler, server.reports, 0); /* UV_EBUSY: a report comes anyway */
}

static void start_signal(uv_signal_t *handle, uv_signal_cb cb, int signum) {
  EXPECT(uv_signal_init(server.loop, handle) == 0);
  EXPECT(uv_signal_start(handle, cb, signum) == 0);
}

static int start_server(int port, int64_t idle_ns, int64_t report_ns) {
  struct sockaddr_in addr;
  int size = sizeof addr;
  uvs_task_t t;
  int rc;

  server.loop = uv_default_loop();
  server.idle_ns = idle_ns;
  EXPECT(uvs_open(server.loop, NULL, &server.scheduler) == 0);
  start_signal(&server.sigint, on_stop, SIGINT);
  start_signal(&server.sigterm, on_stop, SIGTERM);
  start_signal(&server.sigusr1, on_sigusr1, SIGUSR1);
  EXPECT(uv_tcp_init(server.loop, &server.listener) == 0);
  EXPECT(uv_ip4_addr("127.0.0.1", port, &addr) == 0);
  EXPECT(uv_tcp_bind(&server.listener, (const struct sockaddr *)&addr, 0) == 0);
  rc = uv_listen((uv_stream_t *)&server.listener, 128, on_connection);
  if (rc != 0)
    fprintf(stderr, "port %d: %s\n", port, uvs_strerror(rc));
  EXPECT(rc == 0);
  EXPECT(uv_tcp_getsockname(&server.listener, (struct sockaddr *)&addr, &size) == 0);

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.missed_policy = UVS_MISSED_ONCE;
  t.first_ns = t.period_ns = report_ns;
  t.after = start_report;
  t.name = "reports";
  EXPECT(uvs_submit(server.scheduler, &t, &server.reports) == 0);
  return ntohs(addr.sin_port);
}

/* --------------------------------------------------------------- self-test --- */

#include "tcp_server_check.h"

int main(int argc, char **argv) {
  int self_test = argc > 1 && strcmp(argv[1], "--self-test") == 0;
  int port = self_test ? 0 : argc > 1 ? atoi(argv[1]) : 7000;
  int64_t report_ns = self_test ? UVS_MS(100) : UVS_SEC(argc > 2 ? atoi(argv[2]) : 5);

  setvbuf(stdout, NULL, _IOLBF, 0);
  signal(SIGPIPE, SIG_IGN);
  port = start_server(port, self_test ? UVS_MS(200) : UVS_SEC(10), report_ns);
  printf("server: 127.0.0.1:%d, idle connections are closed after %d ms\n", port,
         (int)(server.idle_ns / 1000000));
  if (self_test)
    start_self_test(port);

  uv_run(server.loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(server.loop) == 0);
  EXPECT(server.now.open == 0 && server.reports_open == 0);
  if (self_test)
    EXPECT(client.echoed >= 1 && client.closed && server.now.timed_out >= 1);
  printf("server: closed cleanly\n");
  return 0;
}
