/* SPDX-License-Identifier: MIT
 *
 * The console: a web page that shows what a scheduler does, and why its runs are late. Library
 * uvsched-console.
 *
 *   uvs_console_listen(s, NULL, NULL);      then open http://127.0.0.1:7788/
 *
 * The console runs on the scheduler's loop and has no thread of its own. Without a token it only
 * shows. With a token, the page can also cancel, run now, pause and redrive. A program that has an
 * HTTP server of its own uses uvs_console_render instead of uvs_console_listen.
 *
 * SECURITY. The console listens on the loopback unless told otherwise, and then asks for the token
 * before it shows anything. Requests are bounded in size, number and time. Requests that a foreign
 * web page makes the operator's browser send are refused (Host, Origin, Sec-Fetch-Site). Every
 * local user can read what the console shows; token_to_read changes that. The console speaks plain
 * HTTP: across a network, put it behind a proxy with TLS, or use `ssh -L`.
 */
#ifndef UVSCHED_CONSOLE_H
#define UVSCHED_CONSOLE_H

#include <uvsched/stats.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ----------------------------------------------------------------- render --- */

/**
 * Write one resource of the console. target: its path, and a query if there is one.
 *
 *   /               the page (HTML); it reads the others
 *   /stats.json     counters, lateness by culprit, lanes
 *   /tasks.json     tasks; ?sort=late&order=desc&name=part&state=ready&offset=0&limit=100
 *   /timeline.json  recent runs, and times for which the loop was held up; ?last_ms=60000
 *   /metrics        for Prometheus, as uvs_stats_write
 *   /trace.json     the trace, for Perfetto and chrome://tracing: uvs_trace_write
 *
 * docs/console.md describes the fields. /tasks.json visits all tasks in one go, about 20 ms for
 * 100,000 of them; uvs_console_listen does that in steps.
 *
 * Thread:  loop thread. `write` is called on it before this call returns, and gets pieces of any
 *          size.
 * Returns: 0; what `write` answered, if not 0; UV_ENOENT (no such path; /trace.json: no recorder is
 *          open); UV_EINVAL (NULL, or a wrong query); UV_ENOMEM; UV_EPERM (thread); UV_EBUSY
 * (inside `each` of uvs_each).
 */
UVS_API int uvs_console_render(uvs_t *s, const char *target, uvs_write_cb write, void *arg);

/* The media type of a resource, such as "application/json"; NULL: there is no such path. */
UVS_API const char *uvs_console_type(const char *target);

/* The value of the header Content-Security-Policy for "/". Send it: then a browser runs no script
 * but the page's own, even if a task has a hostile name. */
UVS_API const char *uvs_console_policy(void);

/* ----------------------------------------------------------------- listen --- */

typedef struct uvs_console_s uvs_console_t;
struct uvs_console_jobs_s; /* uvsched/console_jobs.h */

#define UVS_CONSOLE_PORT 7788
#define UVS_CONSOLE_TOKEN_MIN 16 /* bytes */

typedef struct {
  size_t size;         /* set by the initializer; new fields go at the end */
  const char *address; /* a numeric IPv4 or IPv6 address; NULL: 127.0.0.1 */
  int port;            /* default UVS_CONSOLE_PORT; 0: any free one */

  /* NULL: the console only shows. Otherwise requests that have this token, in the header
   * "Authorization: Bearer TOKEN", may act. UVS_CONSOLE_TOKEN_MIN or more printable ASCII
   * characters without blanks. Required if the address is not a loopback address. */
  const char *token;
  int token_to_read; /* 1: everything but the empty page needs the token. Always so if the address
                        is not a loopback address. */

  /* More names of the host that browsers may use, with commas between them, such as the name of a
   * proxy. Without it: localhost, and the address itself. NULL: none. */
  const char *hosts;

  int max_connections; /* 1 to 1024; default 64 */

  /* The durable jobs to show; NULL: none. Copied. See uvsched/console_jobs.h. */
  const struct uvs_console_jobs_s *jobs;
} uvs_console_options_t;

static inline void uvs_console_options_init(uvs_console_options_t *o) {
  memset(o, 0, sizeof *o);
  o->size = sizeof *o;
  o->port = UVS_CONSOLE_PORT;
  o->max_connections = 64;
}

/**
 * Serve the console on the scheduler's loop. The console does not keep the loop alive. While no
 * page is open it never wakes the loop. It ends with the scheduler: uvs_close closes it. If no
 * recorder is open (uvsched/trace.h), the console opens one of 4 MB for its timeline. That one
 * stays open until uvs_trace_close or uvs_close. Open one of your own before this call.
 *
 * Thread:  loop thread.
 * Owns:    copies *o (NULL: defaults) and its strings; borrows s until uvs_close.
 * Returns: 0 with *ret set (ret may be NULL); UV_EINVAL (an option is wrong); UV_EADDRINUSE,
 *          UV_EACCES, UV_EADDRNOTAVAIL and other errors of bind; UV_EMFILE; UV_ENOMEM; UV_EPERM
 *          (thread); UV_ESHUTDOWN (the scheduler is shut down); UV_ENOTSUP (a forked child).
 */
UVS_API int uvs_console_listen(uvs_t *s, const uvs_console_options_t *o, uvs_console_t **ret);

/* "http://127.0.0.1:7788/"; valid until the console is closed. */
UVS_API const char *uvs_console_url(const uvs_console_t *console);

/**
 * Close the console before its scheduler: no more requests are accepted, and open connections are
 * closed at once. *console must not be used any more. cb (may be NULL) is called on the loop when
 * nothing of the console is left. Do not call it after uvs_close: that closes the console.
 *
 * Thread:  loop thread.
 * Returns: 0; UV_EINVAL (NULL); UV_EPERM (thread).
 */
typedef void (*uvs_console_close_cb)(void *arg);
UVS_API int uvs_console_close(uvs_console_t *console, uvs_console_close_cb cb, void *arg);

#ifdef __cplusplus
}
#endif

#endif
