/* SPDX-License-Identifier: MIT
 *
 * A line is written to a file every 100 ms, with uv_fs_write: no thread of the program waits for
 * the disk. A run ends when its write ends, so a slow disk never gets two writes at once, and a
 * shutdown waits for the write in progress. (examples/resolve.c does the same with
 * uv_getaddrinfo.) */
#include <uvsched.h>
#include <uvsched/settings.h>

#include "expect.h"
#include "virtual_time.h"

#define PAUSE_NS UVS_MS(100)

struct journal {
  uv_file file;
  uv_fs_t req; /* one is enough: runs never overlap */
  char line[32];
  uvs_t *scheduler;
  uvs_id_t id; /* what on_written finishes */
  int under_way, written, failed;
  int status; /* the status that `done` got */
};

static void on_written(uv_fs_t *req) {
  struct journal *j = req->data;
  if (req->result < 0)
    j->failed++; /* counted, not returned: a failure would end the periodic task */
  else
    j->written++;
  j->under_way = 0;
  uv_fs_req_cleanup(req);
  EXPECT(uvs_finish(j->scheduler, j->id, 0) == 0);
}

/* A task with only `after` never leaves the loop thread, so it may call libuv. */
static int write_line(uvs_run_t *run) {
  struct journal *j = run->arg;
  int n = snprintf(j->line, sizeof j->line, "line %d\n", (int)run->number);
  uv_buf_t buf = uv_buf_init(j->line, (unsigned)n);
  int rc;

  EXPECT(!j->under_way);
  j->id = run->id;
  j->req.data = j;
  rc = uv_fs_write(uvs_loop(run->scheduler), &j->req, j->file, &buf, 1, -1, on_written);
  j->under_way = rc == 0;
  return rc == 0 ? UVS_PENDING : rc; /* if libuv refuses, on_written is not called */
}

static void journal_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct journal *j = arg;
  (void)s, (void)id;
  EXPECT(!j->under_way); /* so the file may be closed */
  j->status = status;
}

static void start_journal(uvs_t *s, struct journal *j) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.kind = UVS_FIXED_DELAY; /* from the end of a write to the start of the next */
  t.period_ns = PAUSE_NS;
  t.after = write_line;
  t.done = journal_done;
  t.arg = j;
  j->scheduler = s;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
}

/* ------------------------------------------------------------------- check --- */

/* Loop tasks run one after the other, and libuv reports a finished request only after them. So a
 * write is in progress when these two run. */
static int slow_disk(uvs_run_t *run) {
  EXPECT(((struct journal *)run->arg)->under_way);
  pass_ns(run->scheduler, UVS_MS(250));
  return 0;
}

static int shut_down(uvs_run_t *run) {
  EXPECT(((struct journal *)run->arg)->under_way);
  EXPECT(uvs_shutdown(run->scheduler) == 0);
  return 0;
}

static void do_at(uvs_t *s, int64_t at_ns, uvs_after_cb what, struct journal *j) {
  uvs_task_t t;
  uvs_task_init(&t);
  t.from = UVS_FROM_MONOTONIC;
  t.first_ns = at_ns;
  t.after = what;
  t.arg = j;
  EXPECT(uvs_submit(s, &t, NULL) == 0);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  FILE *file = tmpfile();
  struct journal j = {0};
  char text[64] = "";
  int64_t begin_ns, due_ns;
  uvs_options_t o;
  uvs_t *s;

  EXPECT(file != NULL);
  j.file = fileno(file);
  uvs_options_init(&o);
  o.clock = virtual_clock;
  EXPECT(uvs_open(loop, &o, &s) == 0);
  begin_ns = uvs_now(s);

  /* The first write takes 250 ms. With a plain timer, two more would have begun meanwhile. */
  start_journal(s, &j);
  do_at(s, begin_ns, slow_disk, &j);
  while (j.written < 1)
    uv_run(loop, UV_RUN_ONCE);
  run_for(s, 0);
  EXPECT(uvs_next_due(s, &due_ns) == 0);
  EXPECT(due_ns == begin_ns + UVS_MS(250) + PAUSE_NS);

  /* The shutdown comes during the second write, and lets it finish. */
  do_at(s, due_ns, shut_down, &j);
  pass_ns(s, due_ns - uvs_now(s));
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uvs_is_terminated(s) == 1);
  EXPECT(j.written == 2 && j.failed == 0 && j.status == UV_ECANCELED);

  EXPECT(uvs_close(s, NULL) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  EXPECT(uv_loop_close(loop) == 0);
  rewind(file);
  EXPECT(fread(text, 1, sizeof text - 1, file) > 0);
  printf("%s", text);
  EXPECT(strcmp(text, "line 1\nline 2\n") == 0);
  EXPECT(fclose(file) == 0);
  return 0;
}
