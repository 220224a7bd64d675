/* SPDX-License-Identifier: MIT
 *
 * The smallest program: one task, 100 ms from now, on a pool thread. */
#include <stdio.h>
#include <uvsched.h>

static int hello(uvs_run_t *run) {
  *(int *)run->arg = printf("hello from runner %d\n", run->runner);
  return 0;
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  int printed = 0;
  uvs_t *s;
  if (uvs_open(loop, NULL, &s) || uvs_schedule(s, UVS_MS(100), hello, &printed, NULL))
    return 1;
  uv_run(loop, UV_RUN_DEFAULT); /* returns when the last task is over */
  return uvs_close(s, NULL) || uv_run(loop, UV_RUN_DEFAULT) || uv_loop_close(loop) || !printed;
}
