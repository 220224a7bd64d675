/* SPDX-License-Identifier: MIT
 *
 * A TCP server that hangs up on connections which say nothing for a while, with many of them on the
 * loopback interface, and what their time-outs cost.
 *
 * Each connection has one time-out, a task on the loop, and each read pushes it back. That is one
 * store: the heap hears of it when the old deadline comes up, and then once, however many
 * push-backs there were.
 *
 *   idle_server [connections [ms]]     10000 and 2000 unless told
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
#define ROUNDS 5        /* of push-backs */
#define BATCH 1000      /* connections under way at a time; the listener's queue is longer */
#define SILENT_OF 10    /* one of so many falls silent */
#define OTHER_FILES 64u /* besides the connections */

/* ------------------------------------------------------------------ server --- */

static struct {
  uv_loop_t *loop;
  uvs_t *scheduler;
  uv_tcp_t listener;
  int64_t idle_ns;
  int64_t first_due_ns, last_due_ns; /* of the time-outs as they were armed */
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

/* The end of a time-out is the end of its connection: it has expired (0), was cancelled, or the
 * scheduler is closed. Unless on_idle has armed another. */
static void on_over(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct conn *c = arg;
  (void)s;
  if (id != c->idle)
    return;
  server.timed_out += status == 0;
  server.open--;
  uv_close((uv_handle_t *)&c->tcp, on_closed);
}

/* The time is up. But was there a read when it was too late to push it back? And if the loop was
 * held up, there may be bytes that it had no chance to read. */
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

/* What the server tells them to do, through a pipe. They do it at once, without a loop. */
struct order {
  enum { CONNECT, TALK, WAIT_FOR_END } what;
  int first, last, step; /* which of them */
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
    send(*fd, &byte, 1, MSG_NOSIGNAL); /* perhaps too late: then the server has hung up */
  else
    EXPECT(recv(*fd, &byte, 1, 0) <= 0); /* it does */
}

/* Until the pipe is closed. */
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
  int orders; /* the pipe's other end; -1: it was closed */
  uv_signal_t ended;
} clients;

static void on_clients_ended(uv_signal_t *h, int signum) {
  int status;
  (void)signum;
  EXPECT(waitpid(clients.pid, &status, 0) == clients.pid);
  EXPECT(status == 0 && clients.orders < 0); /* they are content, and not before their time */
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

/* Each sends a byte, and the server has read it. Who is not open any more is not heard. */
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

/* Until the last of the deadlines has passed that the queue was told of. It need not wake for each:
 * as the first ones come up it hears of many new ones at once. So the program brings its own timer.
 */
static void run_past_the_old_deadlines(void) {
  uv_timer_t past;
  int64_t left_ns = server.last_due_ns - uvs_now(server.scheduler);

  EXPECT(uv_timer_init(server.loop, &past) == 0);
  EXPECT(uv_timer_start(&past, on_past, left_ns <= 0 ? 0 : (uint64_t)(left_ns / UVS_MS(1)) + 2,
                        0) == 0);
  uv_run(server.loop, UV_RUN_DEFAULT);
  uv_close((uv_handle_t *)&past, NULL);
  uv_run(server.loop, UV_RUN_NOWAIT); /* it lies on our stack */
}

/* A line of the table, and what was spent since the one before. */
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

/* Was the machine quick enough up to now, so that nothing else has come up meanwhile? */
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
  int64_t next_due_ns = 0; /* of those that were pushed back */
  int round;

  EXPECT(uv_signal_init(server.loop, &clients.ended) == 0);
  EXPECT(uv_signal_start(&clients.ended, on_clients_ended, SIGCHLD) == 0);
  uv_run(server.loop, UV_RUN_NOWAIT); /* the scheduler's first turn */
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

  /* One of ten says nothing more. */
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
  while (!uv_is_closing((uv_handle_t *)&clients.ended)) /* the last time-outs are still to come */
    uv_run(server.loop, UV_RUN_ONCE);
  uv_close((uv_handle_t *)&server.listener, NULL);
  EXPECT(uvs_close(server.scheduler, NULL) == 0); /* each on_over closes a connection */
  uv_run(server.loop, UV_RUN_DEFAULT);
  EXPECT(server.open == 0 && uv_loop_close(server.loop) == 0);
}

/* As many connections as there may be files. */
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
