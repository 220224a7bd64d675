/* SPDX-License-Identifier: MIT
 *
 * The HTTP server of the console: open, close, options. test/console/check_security.py sends
 * requests.
 */
#include "lib/unit.h"

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uvsched/console.h>
#include <uvsched/control.h>

#include "wraps.h"

static struct {
  uv_loop_t loop;
  uvs_t *s;
  int closed;
} f;

static void start(void) {
  memset(&f, 0, sizeof f);
  uv_loop_init(&f.loop);
  uvs_open(&f.loop, NULL, &f.s);
}

static int end(void) {
  uvs_close(f.s, NULL);
  uv_run(&f.loop, UV_RUN_DEFAULT);
  return uv_loop_close(&f.loop);
}

static uvs_console_options_t any_port(void) {
  uvs_console_options_t o;

  uvs_console_options_init(&o);
  o.port = 0;
  return o;
}

/* C1 */
TEST one_call_opens_the_console_and_the_scheduler_closes_it(void) {
  uvs_console_t *c = NULL;
  uvs_console_options_t o = any_port();

  start();
  ASSERT_RC(0, uvs_console_listen(f.s, &o, &c));
  ASSERT_EQ(0, strncmp(uvs_console_url(c), "http://127.0.0.1:", 17));
  uv_run(&f.loop, UV_RUN_DEFAULT); /* returns: the console does not keep the loop alive */
  ASSERT_RC(0, end());
  PASS();
}

static void on_closed(void *arg) {
  (void)arg;
  f.closed++;
}

/* C2 */
TEST the_console_can_be_closed_first_and_opened_again_on_the_same_port(void) {
  uvs_console_options_t o = any_port();
  uvs_console_t *c = NULL, *other = NULL;

  start();
  for (int i = 0; i < 3; i++) {
    ASSERT_RC(0, uvs_console_listen(f.s, &o, &c));
    o.port = atoi(strrchr(uvs_console_url(c), ':') + 1);
    ASSERT_RC(UV_EADDRINUSE, uvs_console_listen(f.s, &o, &other));
    ASSERT_RC(0, uvs_console_close(c, i == 0 ? NULL : on_closed, NULL));
    uv_run(&f.loop, UV_RUN_DEFAULT);
    ASSERT_EQ(i, f.closed);
  }
  ASSERT(other == NULL);
  ASSERT_RC(UV_EINVAL, uvs_console_close(NULL, NULL, NULL));
  ASSERT(uvs_console_url(NULL) == NULL);
  ASSERT_RC(0, end());
  PASS();
}

/* C2 */
TEST a_scheduler_may_have_two_consoles_and_close_with_both(void) {
  uvs_console_options_t o = any_port();
  uvs_console_t *c;

  start();
  ASSERT_RC(0, uvs_console_listen(f.s, &o, &c));
  o.address = "::1";
  if (uvs_console_listen(f.s, &o, &c) == 0) /* where there is IPv6 */
    ASSERT_EQ(0, strncmp(uvs_console_url(c), "http://[::1]:", 13));
  ASSERT_RC(0, uvs_console_close(c, on_closed, NULL)); /* both in the same pass */
  ASSERT_RC(0, end());
  ASSERT_EQ(1, f.closed);
  PASS();
}

/* C3 */
TEST wrong_options_are_refused(void) {
  uvs_console_options_t o[12];
  uvs_console_t *c = NULL;
  int n = 0;

  start();
  for (size_t i = 0; i < sizeof o / sizeof o[0]; i++)
    o[i] = any_port();
  o[n++].size = 8;
  o[n++].port = -1;
  o[n++].port = 65536;
  o[n++].address = "localhost"; /* a name, not an address */
  o[n++].address = "1.2.3";
  o[n++].address = "0.0.0.0"; /* without a token */
  o[n++].address = "::";
  o[n++].token = "fifteen letters";
  o[n++].token = "sixteen with blank";
  o[n++].token_to_read = 1;
  o[n++].max_connections = 0;
  o[n++].max_connections = 1025;
  for (int i = 0; i < n; i++)
    ASSERT_RC(UV_EINVAL, uvs_console_listen(f.s, &o[i], &c));
  ASSERT(c == NULL);
  ASSERT_RC(UV_EINVAL, uvs_console_listen(NULL, NULL, &c));
  ASSERT_RC(0, uvs_shutdown(f.s));
  o[0] = any_port();
  ASSERT_RC(UV_ESHUTDOWN, uvs_console_listen(f.s, &o[0], &c));
  ASSERT_RC(0, end());
  PASS();
}

static void listen_elsewhere(void *arg) {
  uvs_console_options_t o = any_port();

  *(int *)arg = uvs_console_listen(f.s, &o, NULL);
}

TEST other_threads_are_refused(void) {
  uv_thread_t thread;
  int rc = 0;

  start();
  uv_thread_create(&thread, listen_elsewhere, &rc);
  uv_thread_join(&thread);
  ASSERT_RC(UV_EPERM, rc);
  ASSERT_RC(0, end());
  PASS();
}

TEST without_memory_nothing_is_left(void) {
#ifdef TEST_WRAPS
  uvs_console_options_t o = any_port();
  int rc = UV_ENOMEM;

  o.token = "0123456789abcdef";
  o.hosts = "a.example";
  for (int n = 0; rc != 0; n++) {
    ASSERT(n < 10);
    start();
    fail_alloc = n;
    rc = uvs_console_listen(f.s, &o, NULL);
    fail_alloc = -1;
    ASSERT(rc == 0 || rc == UV_ENOMEM);
    ASSERT_RC(0, end());
  }
#endif
  PASS();
}

/* ---- requests, while allocations fail ---- */

#ifdef TEST_WRAPS
static const char *const requests[] = {
    "GET / HTTP/1.1",
    "GET /stats.json HTTP/1.1",
    "GET /tasks.json?limit=3 HTTP/1.1",
    "GET /timeline.json HTTP/1.1",
    "GET /trace.json HTTP/1.1",
    "GET /metrics HTTP/1.1",
    "GET /events HTTP/1.1",
    "GET /nothing HTTP/1.1",
    "POST /pause HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef",
    "POST /resume HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef",
    "POST /tasks/cancel?id=1 HTTP/1.1\r\nAuthorization: Bearer 0123456789abcdef",
};
#define REQUESTS (sizeof requests / sizeof requests[0])

static struct {
  int port, statuses[REQUESTS]; /* 0: the connection was closed without an answer */
  uv_async_t done;
} client;

/* Another thread: sends a request, and reads the first bytes of the answer. */
static int status_of(const char *request) {
  struct sockaddr_in a;
  char text[400], answer[64] = "";
  size_t used = 0;
  int fd = socket(AF_INET, SOCK_STREAM, 0), status = 0;

  uv_ip4_addr("127.0.0.1", client.port, &a);
  snprintf(text, sizeof text, "%s\r\nHost: localhost\r\nConnection: close\r\n\r\n", request);
  if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
      send(fd, text, strlen(text), MSG_NOSIGNAL) > 0) {
    while (used < 16) {
      ssize_t n = recv(fd, answer + used, sizeof answer - 1 - used, 0);

      if (n <= 0)
        break;
      used += (size_t)n;
    }
  }
  close(fd);
  return sscanf(answer, "HTTP/1.1 %d", &status) == 1 ? status : 0;
}

static void send_requests(void *arg) {
  (void)arg;
  for (size_t i = 0; i < REQUESTS; i++)
    client.statuses[i] = status_of(requests[i]);
  uv_async_send(&client.done);
}

static void on_done(uv_async_t *handle) {
  uv_close((uv_handle_t *)handle, NULL);
}

/* Serves all requests once, in one loop; the n-th allocation fails. */
static void serve_requests(uvs_console_t *c, int n) {
  uv_thread_t thread;

  client.port = atoi(strrchr(uvs_console_url(c), ':') + 1);
  uv_async_init(&f.loop, &client.done, on_done);
  fail_alloc = n;
  uv_thread_create(&thread, send_requests, NULL);
  uv_run(&f.loop, UV_RUN_DEFAULT);
  fail_alloc = -1;
  uv_thread_join(&thread);
}
#endif

/* C11 */
TEST without_memory_a_request_is_refused_and_the_next_one_is_served(void) {
#ifdef TEST_WRAPS
  static const int expected[REQUESTS] = {200, 200, 200, 200, 200, 200, 200, 404, 200, 200, 404};
  uvs_console_options_t o = any_port();
  uvs_console_t *c;
  bool failed = true;

  start();
  o.token = "0123456789abcdef";
  ASSERT_RC(0, uvs_console_listen(f.s, &o, &c));
  for (int n = 0; failed; n++) {
    failed = false;
    ASSERT(n < 1000);
    serve_requests(c, n);
    for (size_t i = 0; i < REQUESTS; i++) {
      int status = client.statuses[i];

      /* After a failed /pause there is nothing to resume. */
      ASSERTm(requests[i], status == 0 || status == 503 || status == 409 || status == expected[i]);
      failed |= status != expected[i];
    }
    uvs_resume_all(f.s);   /* if the failure came after /pause, and before /resume */
    serve_requests(c, -1); /* also lets what was cached become old */
    for (size_t i = 0; i < REQUESTS; i++)
      ASSERT_RC(expected[i], client.statuses[i]);
    uv_sleep(350);
  }
  ASSERT_RC(0, end());
#endif
  PASS();
}

SUITE(console_listen) {
  RUN_TEST(without_memory_a_request_is_refused_and_the_next_one_is_served);
  RUN_TEST(one_call_opens_the_console_and_the_scheduler_closes_it);
  RUN_TEST(the_console_can_be_closed_first_and_opened_again_on_the_same_port);
  RUN_TEST(a_scheduler_may_have_two_consoles_and_close_with_both);
  RUN_TEST(wrong_options_are_refused);
  RUN_TEST(other_threads_are_refused);
  RUN_TEST(without_memory_nothing_is_left);
}

TEST_MAIN(RUN_SUITE(console_listen));
