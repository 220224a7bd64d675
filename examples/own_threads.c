/* SPDX-License-Identifier: MIT
 *
 * Bodies that block for long must not share threads with files and DNS: libuv has four threads for
 * the whole process. How long does a uv_fs_stat take beside such bodies? First the bodies run on
 * libuv's pool, as many as it has threads. Then they run on a pool of own threads, which grows from
 * 2 to 8 threads half-way, while it works.
 *
 *   own_threads [--fast]     --fast: 40 bodies of 10 ms instead of 200 */
#include <stdatomic.h>
#include <uvsched.h>
#include <uvsched/executor.h>

#include "expect.h"

#define BODY_MS 10

static struct {
  int bodies, done;
  atomic_int inside, most; /* bodies at once: now, and the most so far */
  uvs_threads_t *pool;     /* NULL: libuv's */
  uv_fs_t stat;
  int64_t stat_ns;            /* when the present stat started */
  int64_t slowest_ns, sum_ns; /* of the stats before */
  int stats;
} lab;

static int block(uvs_run_t *run) {
  int inside = atomic_fetch_add(&lab.inside, 1) + 1;
  int most = atomic_load(&lab.most);

  (void)run;
  while (inside > most && !atomic_compare_exchange_weak(&lab.most, &most, inside))
    ;
  uv_sleep(BODY_MS);
  atomic_fetch_sub(&lab.inside, 1);
  return 0;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s, (void)id, (void)arg;
  EXPECT(status == 0);
  if (++lab.done == lab.bodies / 2 && lab.pool != NULL) {
    EXPECT(atomic_load(&lab.most) <= 2);
    EXPECT(uvs_threads_resize(lab.pool, 8) == 0); /* this is enough: the scheduler notices */
  }
}

/* One after the other, until all bodies are done. */
static void on_stat(uv_fs_t *req) {
  int64_t now_ns = (int64_t)uv_hrtime();
  int64_t took_ns = now_ns - lab.stat_ns;

  EXPECT(req->result == 0);
  uv_fs_req_cleanup(req);
  lab.stats++;
  lab.sum_ns += took_ns;
  lab.slowest_ns = took_ns > lab.slowest_ns ? took_ns : lab.slowest_ns;
  lab.stat_ns = now_ns;
  if (lab.done < lab.bodies)
    EXPECT(uv_fs_stat(req->loop, req, ".", on_stat) == 0);
}

static void measure(const char *where, int bodies, uvs_threads_t *pool) {
  uv_loop_t loop;
  uvs_options_t o;
  uvs_task_t t;
  uvs_t *s;

  memset(&lab, 0, sizeof lab);
  lab.bodies = bodies;
  lab.pool = pool;
  EXPECT(uv_loop_init(&loop) == 0);
  uvs_options_init(&o);
  o.executor = uvs_threads_executor(pool); /* NULL if the pool is NULL */
  o.concurrency = pool == NULL ? 4 : -1;   /* -1: as many as the pool has threads */
  EXPECT(uvs_open(&loop, &o, &s) == 0);

  uvs_task_init(&t);
  t.work = block;
  t.done = on_done;
  for (int i = 0; i < bodies; i++)
    EXPECT(uvs_submit(s, &t, NULL) == 0);
  lab.stat_ns = (int64_t)uv_hrtime();
  EXPECT(uv_fs_stat(&loop, &lab.stat, ".", on_stat) == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(lab.done == bodies);

  EXPECT(uvs_close(s, NULL) == 0); /* the pool stays open: uvsched only borrowed it */
  uv_run(&loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(&loop) == 0);
  printf("%-24s uv_fs_stat mean %8.3f ms, slowest %8.3f ms (%d of them); %d bodies at once\n",
         where, (double)lab.sum_ns / lab.stats / 1e6, (double)lab.slowest_ns / 1e6, lab.stats,
         atomic_load(&lab.most));
}

int main(int argc, char **argv) {
  int bodies = argc > 1 && strcmp(argv[1], "--fast") == 0 ? 40 : 200;
  uvs_threads_options_t o;
  uvs_threads_t *pool;

  setenv("UV_THREADPOOL_SIZE", "4", 1); /* libuv reads it once, at the pool's first use */
  measure("all on libuv's pool:", bodies, NULL);
  EXPECT(atomic_load(&lab.most) <= 4);

  uvs_threads_options_init(&o);
  o.threads = 2;
  o.name = "blocking"; /* in top: blocking-0, blocking-1 ... */
  EXPECT(uvs_threads_open(&o, &pool) == 0);
  measure("bodies on own threads:", bodies, pool);
  EXPECT(atomic_load(&lab.most) > 2 && atomic_load(&lab.most) <= 8);
  EXPECT(uvs_threads_close(pool) == 0);
  return 0;
}
