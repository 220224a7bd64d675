/* SPDX-License-Identifier: MIT
 *
 *   reshard_kill STORE TO STEP N   moves the jobs, and kills itself at the N-th report of STEP
 *
 * STEP: a number, UVS_RESHARD_...; 0: any step. Prints what uvs_jobs_reshard says. Exit status 0:
 * the move is done. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <uvsched/jobs_admin.h>

static int step, left;

static int on_progress(const uvs_reshard_progress_t *p, void *arg) {
  (void)arg;
  if ((step == 0 || p->step == step) && --left == 0)
    raise(SIGKILL);
  return 0;
}

int main(int argc, char **argv) {
  uvs_reshard_options_t options;
  char text[300];
  int rc;

  if (argc != 5) {
    fprintf(stderr, "reshard_kill STORE TO STEP N\n");
    return 2;
  }
  step = atoi(argv[3]);
  left = atoi(argv[4]);
  uvs_reshard_options_init(&options);
  options.store = argv[1];
  options.to = argv[2];
  options.on_progress = on_progress;
  rc = uvs_jobs_reshard(&options, text, sizeof text);
  printf("%d %s\n", rc, text);
  return rc == 0 ? 0 : 1;
}
