/* SPDX-License-Identifier: MIT
 *
 * libuv has one thread pool per process, and uv_fs_stat needs it too. How long does a stat take
 * while thousands of bodies that block for 0.5 ms each want the same pool? First by hand, with one
 * uv_queue_work per body, then with uvsched and its default options: it keeps one pool thread free
 * and never has more than a few items in libuv's queue.
 *
 *   neighbour [--fast]     --fast: 800 bodies instead of 4000 */
#include <time.h>
#include <uvsched.h>

#include "expect.h"

#define MAX_STATS 10000

struct stat_req {
  uv_fs_t fs;
  int64_t start_ns;
};

static struct {
  size_t bodies_left;
  uv_timer_t timer; /* starts a stat every millisecond while bodies are left */
  struct stat_req reqs[MAX_STATS];
  int64_t took_ns[MAX_STATS];
  size_t started, finished;
} lab;

static void block(void) {
  nanosleep(&(struct timespec){.tv_nsec = 500000}, NULL);
}

static void on_stat(uv_fs_t *fs) {
  struct stat_req *req = fs->data;
  EXPECT(fs->result == 0);
  lab.took_ns[lab.finished++] = (int64_t)uv_hrtime() - req->start_ns;
  uv_fs_req_cleanup(fs);
}

static void on_timer(uv_timer_t *timer) {
  if (lab.bodies_left == 0) {
    uv_close((uv_handle_t *)timer, NULL);
  } else if (lab.started < MAX_STATS) {
    struct stat_req *req = &lab.reqs[lab.started++];
    req->fs.data = req;
    req->start_ns = (int64_t)uv_hrtime();
    EXPECT(uv_fs_stat(timer->loop, &req->fs, ".", on_stat) == 0);
  }
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static void measure_begins(uv_loop_t *loop, size_t bodies) {
  lab.bodies_left = bodies;
  lab.started = lab.finished = 0;
  EXPECT(uv_timer_init(loop, &lab.timer) == 0);
  EXPECT(uv_timer_start(&lab.timer, on_timer, 1, 1) == 0);
}

/* Prints, and returns the median. */
static int64_t measure_ends(const char *how) {
  size_t n = lab.finished;
  EXPECT(n > 0 && n == lab.started && lab.bodies_left == 0);
  qsort(lab.took_ns, n, sizeof lab.took_ns[0], by_value);
  printf("%-34s uv_fs_stat p50 %9.3f ms   p99 %9.3f ms   (%zu of them)\n", how,
         (double)lab.took_ns[n / 2] / 1e6, (double)lab.took_ns[n - 1 - n / 100] / 1e6, n);
  return lab.took_ns[n / 2];
}

static void hand_work(uv_work_t *req) {
  (void)req;
  block();
}

static void hand_after(uv_work_t *req, int status) {
  (void)req, (void)status;
  lab.bodies_left--;
}

static int64_t by_hand(uv_loop_t *loop, size_t bodies) {
  uv_work_t *reqs = calloc(bodies, sizeof *reqs);
  EXPECT(reqs != NULL);
  measure_begins(loop, bodies);
  for (size_t i = 0; i < bodies; i++)
    EXPECT(uv_queue_work(loop, &reqs[i], hand_work, hand_after) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  free(reqs);
  return measure_ends("by hand, uv_queue_work per body:");
}

static int work(uvs_run_t *run) {
  (void)run;
  block();
  return 0;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)arg;
  EXPECT(status == 0);
  lab.bodies_left--;
}

static int64_t with_uvsched(uv_loop_t *loop, size_t bodies) {
  uvs_task_t t;
  uvs_t *s;
  EXPECT(uvs_open(loop, NULL, &s) == 0);
  uvs_task_init(&t);
  t.work = work;
  t.done = done;
  measure_begins(loop, bodies);
  for (size_t i = 0; i < bodies; i++)
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  return measure_ends("with uvsched, default options:");
}

int main(int argc, char **argv) {
  size_t bodies = argc > 1 && strcmp(argv[1], "--fast") == 0 ? 800 : 4000;
  uv_loop_t *loop = uv_default_loop();
  int64_t hand_ns, uvsched_ns;

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  printf("%zu bodies of 0.5 ms, submitted at once, on a pool of 4 threads; a stat every ms\n",
         bodies);
  hand_ns = by_hand(loop, bodies);
  uvsched_ns = with_uvsched(loop, bodies);
  EXPECT(uv_loop_close(loop) == 0);
  /* How many times better depends on the machine; that it is better does not. */
  EXPECT(uvsched_ns < hand_ns);
  return 0;
}
