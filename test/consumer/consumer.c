/* SPDX-License-Identifier: MIT
 *
 * The smallest real use: one task on the pool, one `done` on the loop, an orderly end. .ci/run
 * builds it against the installed library and as a subproject. It uses only the public header.
 */
#include <stdio.h>

#include <uvsched.h>

static int work(uvs_run_t *run) {
  *(int *)run->arg += 1;
  return 0;
}

static void done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)id;
  (void)arg;
  if (status != 0)
    fprintf(stderr, "consumer: %s\n", uvs_strerror(status));
  uvs_close(s, NULL);
}

int main(void) {
  uv_loop_t loop;
  uvs_t *s;
  uvs_task_t task;
  int runs = 0;

  /* A header and a library of different versions would be the installer's mistake. */
  if (uvs_version() != UVS_VERSION_HEX)
    return 1;
  if (uv_loop_init(&loop) != 0 || uvs_open(&loop, NULL, &s) != 0)
    return 1;
  uvs_task_init(&task);
  task.first_ns = UVS_MS(5);
  task.work = work;
  task.done = done;
  task.arg = &runs;
  if (uvs_submit(s, &task, NULL) != 0)
    return 1;
  uv_run(&loop, UV_RUN_DEFAULT);
  if (uv_loop_close(&loop) != 0 || runs != 1)
    return 1;
  printf("consumer: uvsched %s ran a task\n", uvs_version_string());
  return 0;
}
