/* SPDX-License-Identifier: MIT
 *
 * The code of docs/trace.md: a flight recorder whose trigger keeps the last ten seconds in a file
 * when the loop was held up, and a list of the last runs. On a virtual clock. */
#include <string.h>
#include <uvsched.h>
#include <uvsched/trace.h>

#include "expect.h"
#include "virtual_time.h"

static int kept; /* files that the trigger has written */
static size_t kept_bytes;

/* ------------------------------------------------------------------- write --- */

static int write_to_file(const char *data, size_t size, void *file) {
  kept_bytes += size;
  return fwrite(data, 1, size, file) == size ? 0 : UV_EIO;
}

/* The trigger, on the loop thread: writes the last 10 s to a file. */
static void keep_trace(uvs_t *s, int reason, int64_t ns, uvs_id_t id, void *arg) {
  FILE *file = tmpfile(); /* a real program gives each file a name */
  (void)id, (void)arg;
  printf("%s for %d ms: the last 10 s are kept\n",
         reason == UVS_TRACE_HELD ? "the loop was held up" : "a run was late", (int)(ns / 1000000));
  if (file == NULL)
    return;
  if (uvs_trace_write(s, UVS_SEC(10), 0, write_to_file, file) == 0)
    kept++;
  fclose(file);
}

static int record(uvs_t *s) {
  uvs_trace_options_t o;
  uvs_trace_options_init(&o); /* 4 MB, at most one trigger in 10 s */
  o.on_trigger = keep_trace;
  o.late_ns = UVS_MS(500); /* a run starts half a second late, or later */
  o.held_ns = UVS_MS(200); /* the loop was held up for 200 ms, or longer */
  return uvs_trace_open(s, &o);
}

/* ---------------------------------------------------------------- timeline --- */

static int print_last_runs(uvs_t *s) {
  uvs_trace_run_t run[20];
  size_t count;
  int rc;
  uvs_trace_run_init(&run[0]); /* its size says how large each element is */
  rc = uvs_trace_runs(s, UVS_SEC(60), run, 20, &count, NULL);
  for (size_t i = 0; rc == 0 && i < count; i++) {
    if (run[i].what == UVS_TRACE_HELD)
      printf("the loop was held up for %d ms\n",
             (int)((run[i].end_ns - run[i].start_ns) / 1000000));
    else
      printf("%s ran, %d ms late (%s)\n", run[i].name, (int)(run[i].late_ns / 1000000),
             uvs_late_name(run[i].culprit));
  }
  return rc < 0 ? rc : (int)count;
}

/* ------------------------------------------------------------------- check --- */

static int beat(uvs_run_t *run) {
  (void)run;
  return 0;
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_options_t o;
  uvs_task_t t;
  uvs_t *s;

  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  EXPECT(record(s) == 0);
  uvs_task_init(&t);
  t.kind = UVS_FIXED_RATE;
  t.period_ns = UVS_MS(100);
  t.missed_policy = UVS_MISSED_ONCE;
  t.after = beat;
  t.name = "beat";
  EXPECT(uvs_submit(s, &t, NULL) == 0);
  EXPECT(run_for(s, UVS_MS(1000)) == 1);
  EXPECT(kept == 0);
  pass_ns(s, UVS_MS(350)); /* as if a callback had taken so long */
  EXPECT(run_for(s, UVS_MS(100)) == 1);
  EXPECT(kept == 1 && kept_bytes > 0);
  EXPECT(print_last_runs(s) == 14); /* 13 runs, and the loop was held up once */
  EXPECT(uvs_trace_close(s) == 0);
  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop);
}
