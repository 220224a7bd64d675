/* SPDX-License-Identifier: MIT
 *
 * The code of docs/console.md: a program with a console.
 *
 *   docs_console [--self-test]     --self-test: on any free port, and it ends after a second */
#include <stdbool.h>
#include <uvsched.h>
#include <uvsched/console.h>

#include "expect.h"

static int clean_up(uvs_run_t *run) {
  (void)run;
  uv_sleep(30);
  return 0;
}

static int stop(uvs_run_t *run) {
  EXPECT(uvs_close(run->scheduler, NULL) == 0);
  return 0;
}

/* ---- one call ---- */

static void serve(uvs_t *s) {
  EXPECT(uvs_console_listen(s, NULL, NULL) == 0); /* http://127.0.0.1:7788/ */
}

/* ---- with a token ---- */

static void serve_with_token(uvs_t *s, const char *token) {
  uvs_console_options_t o;
  uvs_console_t *console;

  uvs_console_options_init(&o);
  o.port = 0;
  o.token = token; /* 16 characters or more: now the page can cancel, run, pause and redrive */
  EXPECT(uvs_console_listen(s, &o, &console) == 0);
  printf("The console is at %s\n", uvs_console_url(console));
}

/* ---- an HTTP server of your own ---- */

struct answer {
  const char *type;
  char data[65536];
  size_t size;
};

static int append(const char *data, size_t size, void *arg) {
  struct answer *a = arg;

  if (size > sizeof a->data - a->size)
    return UV_ENOBUFS;
  memcpy(a->data + a->size, data, size);
  a->size += size;
  return 0;
}

/* target is what the request line has: "/", or "/tasks.json?sort=late". The page needs the header
 * Content-Security-Policy; the data needs whatever access control the rest of your server has. */
static int answer_request(uvs_t *s, const char *target, struct answer *ret) {
  ret->type = uvs_console_type(target); /* NULL: 404 */
  ret->size = 0;
  return ret->type == NULL ? UV_ENOENT : uvs_console_render(s, target, append, ret);
}

int main(int argc, char **argv) {
  bool self_test = argc > 1 && strcmp(argv[1], "--self-test") == 0;
  static struct answer a;
  uvs_task_t t;
  uvs_t *s;

  EXPECT(uvs_open(uv_default_loop(), NULL, &s) == 0);
  if (self_test)
    serve_with_token(s, "correct-horse-battery");
  else
    serve(s);
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(100);
  t.work = clean_up;
  t.name = "clean-up";
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(answer_request(s, "/tasks.json?name=clean", &a) == 0);
  EXPECT(a.size < sizeof a.data && memmem(a.data, a.size, "\"matched\":1", 11) != NULL);
  EXPECT(answer_request(s, "/", &a) == 0 && strlen(uvs_console_policy()) > 0);
  EXPECT(answer_request(s, "/nothing", &a) == UV_ENOENT);
  if (self_test) {
    uvs_task_init(&t);
    t.first_ns = UVS_SEC(1);
    t.after = stop;
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  }
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  return uv_loop_close(uv_default_loop()) != 0;
}
