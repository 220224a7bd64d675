/* SPDX-License-Identifier: MIT
 *
 * A TCP server that closes connections which are silent for a while. It measures what the time-outs
 * of many connections on the loopback interface cost.
 *
 * Each connection has one time-out, a loop task, and each read pushes it back. A push-back only
 * stores the new deadline. The delay queue moves the task when the old deadline comes, once,
 * however many push-backs there were.
 *
 *   idle_server [connections [ms]]     default 10000 and 2000
 *
 * The clients are a process of their own, so that each side needs one file descriptor for a
 * connection. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uvsched.h>
#include <uvsched/stats.h>

#include "expect.h"

#define HELD_UP_NS UVS_SEC(1)
#define ROUNDS 5 /* rounds of push-backs */
#define BATCH \
  1000 /* connections that are being opened at a time; the listener's queue is longer \
        */
#define SILENT_OF 10    /* one connection in this many falls silent */
#define OTHER_FILES 64u /* besides the connections */

/* ------------------------------------------------------------------ server --- */

static struct {
  uv_loop_t *loop;
  uvs_t *scheduler;
  uv_tcp_t listener;
  int64_t idle_ns;
  int64_t first_due_ns, last_due_ns; /* of the time-outs when they were submitted */
  uint64_t accepted, open, reads, push_backs, timed_out;
} server;

struct conn {
  uv_tcp_t tcp;
  uvs_id_t idle;        /* the time-out ... */
  int64_t due_ns;       /* ... does not come before this */
  int64_t last_read_ns; /* at first: accepted */
};

static int arm(struct conn *c, int64_t delay_ns);

static void on_closed(uv_handle_t *h) {
  free(h->data);
}

/* The end of a time-out is the end of its connection: the time-out has expired (0), was cancelled,
 * or the scheduler is closed. The exception: on_idle has submitted another time-out. */
static void on_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct conn *c = arg;
  (void)s;
  if (id != c->idle)
    return;
  server.timed_out += status == 0;
  server.open--;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* The time is over. But there may have been a read when it was too late to push the time-out back.
 * And if the loop was held up, there may be bytes that it could not read yet. */
static int on_idle(uvs_run_t *run) {
  struct conn *c = run->arg;
  int64_t left_ns = c->last_read_ns + server.idle_ns - run->start_ns;
  EXPECT(run->start_ns >= c->due_ns);
  if (run->late_ns >= HELD_UP_NS)
    left_ns = server.idle_ns;
  return left_ns > 0 ? arm(c, left_ns) : 0;
}

static int arm(struct conn *c, int64_t delay_ns) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.first_ns = delay_ns;
  t.after = on_idle; /* and no `work`: on the loop, like on_read */
  t.done = on_over;
  t.arg = c;
  c->due_ns = uvs_now(server.scheduler) + delay_ns;
  return uvs_submit(server.scheduler, &t, &c->idle);
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
    if (uvs_reschedule(server.scheduler, c->idle, server.idle_ns) == 0) {
      server.push_backs++;
      c->due_ns = c->last_read_ns + server.idle_ns;
    } /* else UV_EBUSY: on_idle is about to run, and sees last_read_ns */
  } else if (n < 0) {
    uv_read_stop(stream);
    uvs_cancel(server.scheduler, c->idle, 0); /* on_over follows */
  }
}

static void on_connection(uv_stream_t *listener, int status) {
  struct conn *c = calloc(1, sizeof *c);

  EXPECT(status == 0 && c != NULL);
  EXPECT(uv_tcp_init(server.loop, &c->tcp) == 0);
  EXPECT(uv_accept(listener, (uv_stream_t *)&c->tcp) == 0);
  c->tcp.data = c;
  c->last_read_ns = uvs_now(server.scheduler);
  EXPECT(arm(c, server.idle_ns) == 0);
  EXPECT(uv_read_start((uv_stream_t *)&c->tcp, on_alloc, on_read) == 0);
  server.open++;
  server.last_due_ns = c->last_read_ns + server.idle_ns;
  if (server.accepted++ == 0)
    server.first_due_ns = server.last_due_ns;
}

static uint16_t start_server(int64_t idle_ns) {
  struct sockaddr_in address;
  int size = sizeof address;

  server.loop = uv_default_loop();
  server.idle_ns = idle_ns;
  EXPECT(uvs_open(server.loop, NULL, &server.scheduler) == 0);
  EXPECT(uv_tcp_init(server.loop, &server.listener) == 0);
  EXPECT(uv_ip4_addr("127.0.0.1", 0, &address) == 0);
  EXPECT(uv_tcp_bind(&server.listener, (const struct sockaddr *)&address, 0) == 0);
  EXPECT(uv_listen((uv_stream_t *)&server.listener, 4 * BATCH, on_connection) == 0);
  EXPECT(uv_tcp_getsockname(&server.listener, (struct sockaddr *)&address, &size) == 0);
  return address.sin_port;
}

/* ----------------------------------------------------------------- clients --- */

/* What the server tells the clients to do, through a pipe. They do it immediately, without a loop.
 */
struct order {
  enum { CONNECT, TALK, WAIT_FOR_END } what;
  int first, last, step; /* which clients */
  uint16_t port;
};

static int connect_to(uint16_t port) {
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = port};
  int fd = socket(AF_INET, SOCK_STREAM, 0);

  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
  return fd;
}

static void follow(const struct order *o, int *fd) {
  char byte = 'x';

  if (o->what == CONNECT)
    *fd = connect_to(o->port);
  else if (o->what == TALK)
    send(*fd, &byte, 1,
         MSG_NOSIGNAL); /* may be too late: then the server has closed the connection */
  else
    EXPECT(recv(*fd, &byte, 1, 0) <= 0); /* the server closes the connection */
}

/* Returns when the pipe is closed. */
static int be_clients(int orders, int n) {
  int *fds = calloc((size_t)n, sizeof *fds);
  struct order o;

  EXPECT(fds != NULL);
  while (read(orders, &o, sizeof o) == sizeof o)
    for (int i = o.first; i < o.last; i += o.step)
      follow(&o, &fds[i]);
  free(fds);
  return 0;
}

/* ------------------------------------------------------------------ phases --- */

static struct {
  pid_t pid;
  int orders; /* the write end of the pipe; -1: it was closed */
  uv_signal_t ended;
} clients;

static void on_clients_ended(uv_signal_t *h, int signum) {
  int status;
  (void)signum;
  EXPECT(waitpid(clients.pid, &status, 0) == clients.pid);
  EXPECT(status == 0 &&
         clients.orders < 0); /* their checks succeeded, and they did not end too early */
  uv_close((uv_handle_t *)h, NULL);
}

static void order(struct order o) {
  EXPECT(write(clients.orders, &o, sizeof o) == sizeof o);
}

static void connect_all(int n, uint16_t port) {
  for (int first = 0; first < n; first += BATCH) {
    int last = first + BATCH < n ? first + BATCH : n;

    order((struct order){CONNECT, first, last, 1, port});
    while (server.accepted < (uint64_t)last)
      uv_run(server.loop, UV_RUN_ONCE);
  }
}

/* Each client sends a byte, and the server reads it. The server does not read from connections that
 * it has closed. */
static void all_talk(int n) {
  uint64_t reads = server.reads;

  order((struct order){TALK, 0, n, 1, 0});
  while (server.reads - reads < server.open)
    uv_run(server.loop, UV_RUN_ONCE);
}

struct cost {
  uint64_t push_backs, heap_ops, wakeups;
};

static struct cost cost_now(void) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  EXPECT(uvs_counts(server.scheduler, &c) == 0);
  return (struct cost){server.push_backs, c.heap_ops, c.wakeups};
}

static void on_past(uv_timer_t *h) {
  uv_stop(h->loop);
}

/* Runs the loop until the last of the old deadlines in the queue has passed. The scheduler need not
 * wake up for each: when the first old deadlines come, it moves many tasks at once. So this
 * function uses a timer of its own.
 */
static void run_past_the_old_deadlines(void) {
  uv_timer_t past;
  int64_t left_ns = server.last_due_ns - uvs_now(server.scheduler);

  EXPECT(uv_timer_init(server.loop, &past) == 0);
  EXPECT(uv_timer_start(&past, on_past, left_ns <= 0 ? 0 : (uint64_t)(left_ns / UVS_MS(1)) + 2,
                        0) == 0);
  uv_run(server.loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&past, NULL);
  uv_run(server.loop, UV_RUN_NOWAIT); /* the timer is on the stack */
}

/* Prints a line of the table: the cost since the line before. */
static struct cost report(const char *phase) {
  static struct cost before;
  struct cost now = cost_now();
  struct cost spent = {now.push_backs - before.push_backs, now.heap_ops - before.heap_ops,
                       now.wakeups - before.wakeups};

  if (phase != NULL)
    printf("%-28s %11llu %16llu %9llu %7llu\n", phase, (unsigned long long)spent.push_backs,
           (unsigned long long)spent.heap_ops, (unsigned long long)spent.wakeups,
           (unsigned long long)server.open);
  before = now;
  return spent;
}

/* Was the machine fast enough, so that this deadline has not come yet? */
static int is_before(int64_t due_ns) {
  static int in_time = 1;

  in_time &= uvs_now(server.scheduler) < due_ns - server.idle_ns / 20;
  if (!in_time)
    printf("  (too slow: the next deadlines came up meanwhile)\n");
  return in_time;
}

static void serve(int n, uint16_t port) {
  uint64_t many = (uint64_t)n;
  struct cost spent;
  int64_t next_due_ns = 0; /* of the time-outs that were pushed back */
  int round;

  EXPECT(uv_signal_init(server.loop, &clients.ended) == 0);
  EXPECT(uv_signal_start(&clients.ended, on_clients_ended, SIGCHLD) == 0);
  uv_run(server.loop, UV_RUN_NOWAIT); /* the scheduler's first pass */
  printf("%-28s %11s %16s %9s %7s\n", "", "push-backs", "heap operations", "wake-ups", "open");
  report(NULL);
  connect_all(n, port);
  spent = report("arm");
  if (is_before(server.first_due_ns))
    EXPECT(spent.heap_ops == many && spent.wakeups == 0 && server.open == many);

  /* Again and again, while there is plenty of time. */
  for (round = 0; round < ROUNDS; round++) {
    if (round > 0 && uvs_now(server.scheduler) > server.first_due_ns - server.idle_ns / 4)
      break;
    next_due_ns = uvs_now(server.scheduler) + server.idle_ns;
    all_talk(n);
  }
  spent = report("push back, again and again");
  if (is_before(server.first_due_ns))
    EXPECT(spent.push_backs == many * (uint64_t)round && spent.heap_ops == 0 && spent.wakeups == 0);

  run_past_the_old_deadlines();
  spent = report("the old deadlines come up");
  if (is_before(next_due_ns)) /* none is moved more than once, and nothing fires */
    EXPECT(spent.heap_ops <= many && spent.wakeups <= many && server.timed_out == 0);

  /* One in ten falls silent. */
  for (int i = 1; i < SILENT_OF; i++)
    order((struct order){TALK, i, n, SILENT_OF, 0});
  while (server.timed_out < (many + SILENT_OF - 1) / SILENT_OF)
    uv_run(server.loop, UV_RUN_ONCE);
  report("the silent ones expire");
  EXPECT(server.open + server.timed_out == many);
  EXPECT(cost_now().heap_ops >= many + server.timed_out); /* each in, some out */
  order((struct order){WAIT_FOR_END, 0, n, SILENT_OF, 0});
}

static void stop_server(void) {
  close(clients.orders);
  clients.orders = -1;
  while (!uv_is_closing((uv_handle_t *)&clients.ended)) /* until the last time-outs have come */
    uv_run(server.loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&server.listener, NULL);
  EXPECT(uvs_close(server.scheduler, NULL) == 0); /* each on_over closes a connection */
  uv_run(server.loop, UV_RUN_DEFAULT);
  EXPECT(server.open == 0 && uv_loop_close(server.loop) == 0);
}

/* As many connections as the limit for open files allows. */
static int allowed(int wanted) {
  struct rlimit files;

  EXPECT(getrlimit(RLIMIT_NOFILE, &files) == 0);
  files.rlim_cur = files.rlim_max;
  EXPECT(setrlimit(RLIMIT_NOFILE, &files) == 0);
  return files.rlim_cur < (rlim_t)wanted + OTHER_FILES ? (int)(files.rlim_cur - OTHER_FILES)
                                                       : wanted;
}

int main(int argc, char **argv) {
  int wanted = argc > 1 ? atoi(argv[1]) : 10000;
  int64_t idle_ms = argc > 2 ? atoi(argv[2]) : 2000;
  int n = allowed(wanted), ends[2];

  EXPECT(n > 0 && idle_ms > 0);
  printf("%d connections%s, each with a time-out of %d ms\n", n,
         n < wanted ? " (more files are not allowed)" : "", (int)idle_ms);
  fflush(stdout);
  EXPECT(pipe(ends) == 0);
  clients.pid = fork(); /* before there is a loop or a thread */
  EXPECT(clients.pid >= 0);
  if (clients.pid == 0) {
    close(ends[1]);
    return be_clients(ends[0], n);
  }
  close(ends[0]);
  clients.orders = ends[1];
  serve(n, start_server(UVS_MS(idle_ms)));
  stop_server();
  return 0;
}
