/* SPDX-License-Identifier: MIT
 *
 * listen: opens and closes the HTTP server, and runs libmicrohttpd on the loop.
 *
 * libmicrohttpd has an epoll descriptor for all its sockets. One uv_poll watches that descriptor,
 * and one uv_timer does all that has a time: libmicrohttpd's own time-outs, the tick (live updates,
 * connections that take too long), the next step of a rendering. The timer runs only while there
 * are connections. Both handles are unref'd.
 *
 * After each run of libmicrohttpd the console rests for three times as long as the run took, if
 * that was more than UVS__STEP_NS: however many requests arrive, the loop has time for others.
 *
 * The console has a lane of its own, without tasks. uvs_close disposes it, and so the console
 * learns that its scheduler ends.
 */
#include "console/server.h"

#include "console/alloc.h"

#include <uvsched/trace.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OPTIONS_SIZE_MIN sizeof(uvs_console_options_t)
#define CONNECTIONS_MAX 1024

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer);
static void on_poll(uv_poll_t *poll, int status, int events);

/* libmicrohttpd's descriptors are also the parent's. The child closes its copies of the sockets, so
 * that they end with the parent. It does not touch libmicrohttpd: that would change the epoll that
 * both have. */
static void leave_to_parent(struct uvs_console_s *c) {
  if (c->listen_fd < 0)
    return;
  close(c->listen_fd);
  c->listen_fd = -1;
  for (struct uvs__connection *x = c->connections; x != NULL; x = x->next) {
    if (x->fd >= 0)
      close(x->fd);
  }
  uv_poll_stop(&c->poll);
  uv_timer_stop(&c->timer);
}

static bool is_forked(struct uvs_console_s *c) {
  if (getpid() == c->pid)
    return false;
  leave_to_parent(c);
  return true;
}

static uint64_t earlier(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

/* Starts the timer for whatever comes next. */
static void arm(struct uvs_console_s *c) {
  uint64_t now_ns = uv_hrtime(), at_ns = UINT64_MAX;
  MHD_UNSIGNED_LONG_LONG wait_ms;

  if (c->closing)
    return;
  if (c->connections != NULL)
    at_ns = c->tick_ns;
  if (c->kicked)
    at_ns = now_ns;
  else if (MHD_get_timeout(c->daemon, &wait_ms) == MHD_YES)
    at_ns = earlier(at_ns, now_ns + wait_ms * 1000000);
  if (c->rest_ns > now_ns) /* then the poll is stopped, too */
    at_ns = c->rest_ns;
  if (uvs__cache_is_busy(c))
    at_ns = earlier(at_ns, c->step_ns);
  if (at_ns == UINT64_MAX) {
    uv_timer_stop(&c->timer);
    return;
  }
  uv_update_time(c->timer.loop);
  uv_timer_start(&c->timer, on_timer, at_ns <= now_ns ? 0 : (at_ns - now_ns + 999999) / 1000000, 0);
}

static void run(struct uvs_console_s *c) {
  uint64_t began_ns = uv_hrtime(), took_ns;
  bool alone = c->connections == NULL;

  if (began_ns < c->rest_ns)
    return;
  c->kicked = false;
  MHD_run(c->daemon);
  took_ns = uv_hrtime() - began_ns;
  if (took_ns > UVS__STEP_NS) {
    c->rest_ns = began_ns + 4 * took_ns;
    uv_poll_stop(&c->poll);
  } else if (c->rest_ns != 0) {
    c->rest_ns = 0;
    uv_poll_start(&c->poll, UV_READABLE, on_poll);
  }
  if (alone)
    c->tick_ns = uv_hrtime() + UVS__TICK_NS;
}

/* Shuts down connections that take too long: libmicrohttpd then finds them closed. */
static void end_slow_connections(struct uvs_console_s *c) {
  uint64_t now_ns = uv_hrtime();

  for (struct uvs__connection *x = c->connections; x != NULL; x = x->next) {
    if (x->until_ns <= now_ns && x->fd >= 0)
      shutdown(x->fd, SHUT_RDWR);
  }
}

static void on_timer(uv_timer_t *timer) {
  struct uvs_console_s *c = timer->data;
  uint64_t now_ns = uv_hrtime();

  if (is_forked(c))
    return;
  if (uvs__cache_is_busy(c) && c->step_ns <= now_ns)
    uvs__cache_step(c);
  if (c->connections != NULL && c->tick_ns <= now_ns) {
    end_slow_connections(c);
    uvs__events_tick(c);
    c->tick_ns = now_ns + UVS__TICK_NS;
  }
  run(c);
  arm(c);
}

static void on_poll(uv_poll_t *poll, int status, int events) {
  struct uvs_console_s *c = poll->data;
  uint64_t accepted = c->accepted;
  bool alone = c->connections == NULL;

  (void)status, (void)events;
  if (is_forked(c))
    return;
  run(c);
  /* Nothing was accepted: there is no descriptor for it, and the poll would report that again. */
  if (alone && c->accepted == accepted) {
    c->rest_ns = uv_hrtime() + UVS__NO_FD_NS;
    uv_poll_stop(&c->poll);
  }
  arm(c);
}

static void kick(struct uvs_console_s *c) {
  if (c->kicked || is_forked(c))
    return;
  c->kicked = true;
  arm(c);
}

/* ---- close ---- */

static void let_go(struct uvs_console_s *c) {
  uvs_console_close_cb cb = c->on_close;
  void *arg = c->arg;

  if (!c->ended || c->handles > 0 || c->laters != NULL)
    return;
  uvs__console_free_jobs(c);
  uvs__console_free(c->guard.hosts);
  uvs__console_free(c->guard.token);
  uvs__console_free(c);
  if (cb != NULL)
    cb(arg);
}

static void on_handle_closed(uv_handle_t *handle) {
  struct uvs_console_s *c = handle->data;

  c->handles--;
  let_go(c);
}

static void stop(struct uvs_console_s *c) {
  if (c->closing)
    return;
  c->closing = true;
  /* libmicrohttpd must not be stopped while a connection is suspended. */
  uvs__cache_close(c);
  uvs__events_close(c);
  uvs__later_close(c);
  MHD_run(c->daemon);
  uv_poll_stop(&c->poll); /* before its descriptor is closed */
  MHD_stop_daemon(c->daemon);
  uvs__events_free(c);
  uv_close((uv_handle_t *)&c->poll, on_handle_closed);
  uv_close((uv_handle_t *)&c->timer, on_handle_closed);
}

/* The lane is disposed: by uvs_console_close, or by uvs_close. */
static void on_lane_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  struct uvs_console_s *c = arg;

  (void)s, (void)lane;
  stop(c);
  c->ended = true;
  let_go(c);
}

static int ignore_task(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)s, (void)info, (void)arg;
  return 1;
}

/* Is this the scheduler's loop thread? 0, or why not. */
static int check_thread(uvs_t *s) {
  uint64_t cursor = 0;
  int rc = uvs_each_step(s, &cursor, 1, ignore_task, NULL);

  return rc == UV_EBUSY || rc > 0 ? 0 : rc;
}

int uvs_console_close(uvs_console_t *c, uvs_console_close_cb cb, void *arg) {
  int rc;

  if (c == NULL || c->closing)
    return UV_EINVAL;
  rc = check_thread(c->s);
  if (rc < 0)
    return rc;
  c->on_close = cb;
  c->arg = arg;
  stop(c);
  uvs_lane_dispose(c->lane, 0);
  return 0;
}

/* ---- open ---- */

static bool is_loopback(const struct sockaddr *a) {
  const struct sockaddr_in6 *v6 = (const void *)a;
  const struct sockaddr_in *v4 = (const void *)a;

  if (a->sa_family == AF_INET)
    return (ntohl(v4->sin_addr.s_addr) >> 24) == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr);
}

static bool is_any(const struct sockaddr *a) {
  const struct sockaddr_in6 *v6 = (const void *)a;
  const struct sockaddr_in *v4 = (const void *)a;

  if (a->sa_family == AF_INET)
    return v4->sin_addr.s_addr == htonl(INADDR_ANY);
  return IN6_IS_ADDR_UNSPECIFIED(&v6->sin6_addr);
}

static int read_address(const uvs_console_options_t *o, struct sockaddr_storage *ret) {
  const char *address = o->address == NULL ? "127.0.0.1" : o->address;

  memset(ret, 0, sizeof *ret);
  if (uv_ip4_addr(address, o->port, (struct sockaddr_in *)ret) == 0)
    return 0;
  return uv_ip6_addr(address, o->port, (struct sockaddr_in6 *)ret) == 0 ? 0 : UV_EINVAL;
}

static int check_options(const uvs_console_options_t *o) {
  struct sockaddr_storage a;

  if (o->port < 0 || o->port > 65535 || o->max_connections < 1 ||
      o->max_connections > CONNECTIONS_MAX || read_address(o, &a) < 0)
    return UV_EINVAL;
  if (o->token != NULL && !uvs__guard_is_token(o->token))
    return UV_EINVAL;
  if (o->token == NULL && (o->token_to_read || !is_loopback((struct sockaddr *)&a)))
    return UV_EINVAL;
  if (o->jobs != NULL && (o->jobs->size < sizeof *o->jobs || o->jobs->jobs == NULL))
    return UV_EINVAL;
  return 0;
}

static int read_options(const uvs_console_options_t *given, uvs_console_options_t *o) {
  uvs_console_options_init(o);
  if (given == NULL)
    return 0;
  if (given->size < OPTIONS_SIZE_MIN)
    return UV_EINVAL;
  memcpy(o, given, sizeof *o);
  return check_options(o);
}

static int set_up_guard(struct uvs_console_s *c, const uvs_console_options_t *o) {
  struct sockaddr_storage a;
  char text[UVS__ADDRESS_SIZE - 2];
  bool v6;

  read_address(o, &a);
  v6 = a.ss_family == AF_INET6;
  if (v6)
    uv_ip6_name((struct sockaddr_in6 *)&a, text, sizeof text);
  else
    uv_ip4_name((struct sockaddr_in *)&a, text, sizeof text);
  snprintf(c->guard.address, sizeof c->guard.address, v6 ? "[%s]" : "%s", text);
  c->guard.loopback = is_loopback((struct sockaddr *)&a);
  c->guard.any_address = is_any((struct sockaddr *)&a);
  c->guard.token_to_read = o->token_to_read || !c->guard.loopback;
  if (o->hosts != NULL && (c->guard.hosts = uvs__console_copy(o->hosts)) == NULL)
    return UV_ENOMEM;
  if (o->token != NULL && (c->guard.token = uvs__console_copy(o->token)) == NULL)
    return UV_ENOMEM;
  return 0;
}

/* A listening socket, and the port that it got. */
static int open_socket(struct uvs_console_s *c, const uvs_console_options_t *o) {
  struct sockaddr_storage a;
  socklen_t size = sizeof a;
  int fd, rc, on = 1;
  uint16_t port;

  read_address(o, &a);
  fd = socket(a.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0)
    return uv_translate_sys_error(errno);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(fd, (struct sockaddr *)&a,
           a.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)) < 0 ||
      listen(fd, 128) < 0 || getsockname(fd, (struct sockaddr *)&a, &size) < 0) {
    rc = uv_translate_sys_error(errno);
    close(fd);
    return rc;
  }
  port = a.ss_family == AF_INET ? ((struct sockaddr_in *)&a)->sin_port
                                : ((struct sockaddr_in6 *)&a)->sin6_port;
  snprintf(c->url, sizeof c->url, "http://%s:%d/", c->guard.address, ntohs(port));
  return fd;
}

static int start_daemon(struct uvs_console_s *c, const uvs_console_options_t *o) {
  int fd = open_socket(c, o);

  if (fd < 0)
    return fd;
  c->daemon = MHD_start_daemon(
      MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, uvs__request_handle, c,
      MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, (unsigned)o->max_connections,
      MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(UVS__REQUEST_NS / UVS_SEC(1)),
      MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)UVS__HEADERS_MAX, MHD_OPTION_URI_LOG_CALLBACK,
      uvs__request_begin, c, MHD_OPTION_NOTIFY_COMPLETED, uvs__request_end, c,
      MHD_OPTION_NOTIFY_CONNECTION, uvs__connection_notify, c, MHD_OPTION_STRICT_FOR_CLIENT, 1,
      MHD_OPTION_END);
  if (c->daemon == NULL) {
    close(fd);
    return UV_ENOMEM;
  }
  c->clients_left = (o->max_connections + 1) / 2;
  c->pid = getpid();
  c->listen_fd = fd;
  return 0;
}

static void close_loop_handle(uv_handle_t *handle) {
  uvs_console_t *c = handle->data;

  if (--c->handles == 0)
    uvs__console_free(c);
}

/* On an error no handle is left that the loop knows, apart from those that are being closed. */
static int start_handles(struct uvs_console_s *c) {
  const union MHD_DaemonInfo *info = MHD_get_daemon_info(c->daemon, MHD_DAEMON_INFO_EPOLL_FD);
  uv_loop_t *loop = uvs_loop(c->s);
  int rc;

  if (info == NULL)
    return UV_ENOTSUP;
  rc = uv_poll_init(loop, &c->poll, info->epoll_fd);
  if (rc < 0)
    return rc;
  c->handles++;
  uv_timer_init(loop, &c->timer); /* always answers 0 */
  c->handles++;
  c->poll.data = c->timer.data = c;
  uv_unref((uv_handle_t *)&c->poll);
  uv_unref((uv_handle_t *)&c->timer);
  return uv_poll_start(&c->poll, UV_READABLE, on_poll);
}

/* Frees a console that was never used; its handles are closed first. */
static void undo(struct uvs_console_s *c) {
  if (c->handles > 0)
    uv_poll_stop(&c->poll);
  if (c->daemon != NULL)
    MHD_stop_daemon(c->daemon);
  uvs__console_free(c->guard.hosts);
  uvs__console_free(c->guard.token);
  if (c->handles == 0) {
    uvs__console_free(c);
    return;
  }
  uv_close((uv_handle_t *)&c->poll, close_loop_handle);
  uv_close((uv_handle_t *)&c->timer, close_loop_handle);
}

int uvs_console_listen(uvs_t *s, const uvs_console_options_t *given, uvs_console_t **ret) {
  uvs_console_options_t o;
  uvs_lane_options_t lane;
  struct uvs_console_s *c;
  int rc = check_thread(s);

  if (rc < 0)
    return rc;
  rc = read_options(given, &o);
  if (rc < 0)
    return rc;
  c = uvs__console_alloc(sizeof *c);
  if (c == NULL)
    return UV_ENOMEM;
  c->s = s;
  c->kick = kick;
  c->let_go = let_go;
  if (o.jobs != NULL)
    c->jobs = *o.jobs;
  rc = set_up_guard(c, &o);
  if (rc == 0)
    rc = start_daemon(c, &o);
  if (rc == 0)
    rc = start_handles(c);
  if (rc == 0) { /* last, because a lane cannot be undone at once */
    uvs_lane_options_init(&lane);
    lane.on_quiet = on_lane_quiet;
    lane.arg = c;
    rc = uvs_lane_open(s, &lane, &c->lane);
  }
  if (rc < 0) {
    undo(c);
    return rc;
  }
  uvs_trace_open(s, NULL); /* without memory for it the timeline is empty */
  if (ret != NULL)
    *ret = c;
  return 0;
}

const char *uvs_console_url(const uvs_console_t *c) {
  return c == NULL ? NULL : c->url;
}
