/* SPDX-License-Identifier: MIT
 *
 * The program of README.md: something is saved every 200 ms, on a pool thread. */
#include <stdio.h>
#include <uvsched.h>
#include <uvsched/stats.h>

static int save(uvs_run_t *run) { /* pool thread: it may block */
  int *attempts = run->arg;
  return ++*attempts == 2 ? UV_EIO : 0; /* the second attempt fails, and is tried again */
}

static int saved(uvs_run_t *run) { /* loop thread, after each run */
  printf("run %d: %s, %.1f ms late (%s)\n", (int)run->number,
         run->status == 0 ? "saved" : uvs_strerror(run->status), (double)run->late_ns / 1e6,
         uvs_late_name(run->culprit));
  return 0;
}

static void ended(uvs_t *s, uvs_id_t id, int status, void *arg) { /* loop thread, exactly once */
  (void)s, (void)id, (void)arg; /* from here on nothing uses arg: free it, if it is yours to free */
  printf("the task has %s\n", uvs_outcome_name(status));
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  int attempts = 0;
  uvs_task_t t;
  uvs_t *s;

  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(200);         /* the first run is due now, the next in 200 ms */
  t.missed_policy = UVS_MISSED_ONCE; /* after a pause: one run, not a storm of them */
  t.failure_policy = UVS_FAIL_RETRY; /* a failed run is tried again */
  t.retry.wait_ns = UVS_MS(50);      /* after 50 ms, then 100 ms, then 200 ms ... */
  t.max_runs = 4;
  t.work = save;
  t.after = saved;
  t.done = ended;
  t.arg = &attempts;
  if (uvs_open(loop, NULL, &s) || uvs_submit(s, &t, NULL))
    return 1;

  uv_run(loop, UV_RUN_DEFAULT); /* returns when the last task has ended */
  uvs_close(s, NULL);
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop) || attempts != 4;
}
