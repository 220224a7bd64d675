/* SPDX-License-Identifier: MIT
 *
 * What the two halves of `uvsched jobs run` share: jobs_run.c claims jobs and knows when to stop,
 * jobs_exec.c runs their commands. All of it happens on the loop thread.
 */
#ifndef UVSCHED_CLI_JOBS_RUNNER_H
#define UVSCHED_CLI_JOBS_RUNNER_H

#include "jobs.h"
#include "jobs_guardian.h"

struct command;

struct runner {
  struct jobs_store store;
  struct cli_guardian guardian;
  const char *name, *queue, *shell_command;
  int64_t limit_ns, grace_ns;
  bool quiet, until_empty;

  struct command *commands; /* whose process group has not ended */
  uv_timer_t watch;         /* runs while there are commands */
  uv_timer_t look;          /* is the queue empty? */
  uv_signal_t signals[2];
  uint64_t look_ms;
  int64_t again_ns; /* until then, jobs may wait whose command could not be started */
  bool looking, told_paused;
  bool stopping; /* claims nothing new */
  bool hurry;    /* a second signal: commands are killed */
  bool closed;   /* the store is closed */
  bool broken;   /* the guardian is dead */
};

/* Runs the command of a job. The job is finished when the shell has exited, or at once if the
 * command cannot be started. */
void runner_start_command(struct runner *r, uvs_job_t *job);

/* Kills all process groups. */
void runner_kill_commands(struct runner *r);

/* Called when no command is left: looks whether the queue is empty. */
void runner_look_soon(struct runner *r);

/* Claims nothing more; commands that run get grace_ns. */
void runner_stop(struct runner *r);

#endif
