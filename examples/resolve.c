/* SPDX-License-Identifier: MIT
 *
 * A periodic task whose body is asynchronous: each run starts uv_getaddrinfo and returns
 * UVS_PENDING; the run ends when the answer arrives and uvs_finish is called. No thread waits
 * meanwhile, runs never overlap, and the fixed delay counts from the answer.
 *
 *   resolve [host]     default localhost */
#include <netdb.h>
#include <uvsched.h>

#include "expect.h"

#define PAUSE_NS UVS_MS(200)

struct lookup {
  const char *host;
  uv_getaddrinfo_t req; /* one is enough: runs never overlap */
  uvs_t *scheduler;
  uvs_id_t id; /* the task that uvs_finish ends */
  int64_t answered_ns;
  uint64_t runs;
  int over;
};

static void on_answer(uv_getaddrinfo_t *req, int status, struct addrinfo *res) {
  struct lookup *l = req->data;
  char ip[INET6_ADDRSTRLEN] = "";

  for (struct addrinfo *a = res; a != NULL && ip[0] == '\0'; a = a->ai_next)
    if (a->ai_family == AF_INET)
      uv_ip4_name((const struct sockaddr_in *)(const void *)a->ai_addr, ip, sizeof ip);
    else if (a->ai_family == AF_INET6)
      uv_ip6_name((const struct sockaddr_in6 *)(const void *)a->ai_addr, ip, sizeof ip);
  uv_freeaddrinfo(res);
  printf("  answer: %s\n", status == 0 ? ip : uvs_strerror(status));
  l->answered_ns = uvs_now(l->scheduler);
  EXPECT(uvs_finish(l->scheduler, l->id, status) == 0); /* a failed lookup ends the task */
}

/* A spec with only `after` never leaves the loop thread, so it may call libuv. */
static int start_lookup(uvs_run_t *run) {
  struct lookup *l = run->arg;
  int rc;

  if (run->number > 1) {
    int64_t pause_ns = run->start_ns - l->answered_ns;
    printf("  %.1f ms later\n", (double)pause_ns / 1e6);
    EXPECT(pause_ns >= PAUSE_NS);
  }
  printf("run %d: %s?\n", (int)run->number, l->host);
  l->runs = run->number;
  l->id = run->id;
  l->req.data = l;
  rc = uv_getaddrinfo(uvs_loop(run->scheduler), &l->req, on_answer, l->host, NULL, NULL);
  return rc == 0 ? UVS_PENDING : rc;
}

static void lookup_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct lookup *l = arg;
  (void)s, (void)id;
  l->over++;
  printf("done: %s\n", status == 0 ? "three runs, as asked" : uvs_strerror(status));
  EXPECT(status == 0);
}

int main(int argc, char **argv) {
  struct lookup l = {.host = argc > 1 ? argv[1] : "localhost"};
  uv_loop_t *loop = uv_default_loop();
  uvs_task_t t;

  EXPECT(uvs_open(loop, NULL, &l.scheduler) == 0);
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY;
  t.period_ns = PAUSE_NS;
  t.max_runs = 3;
  t.after = start_lookup;
  t.done = lookup_done;
  t.arg = &l;
  t.name = "lookup";
  EXPECT(uvs_submit(l.scheduler, &t, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(l.runs == 3 && l.over == 1);
  EXPECT(uvs_close(l.scheduler, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  return 0;
}
