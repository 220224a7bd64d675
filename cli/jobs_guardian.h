/* SPDX-License-Identifier: MIT
 *
 * jobs_guardian: a small process beside a runner of commands. It waits until the runner ends, in
 * whatever way, and then kills the process groups of the commands that still run. So a runner that
 * dies by SIGKILL leaves no commands behind, and another runner can run their jobs again.
 *
 * The guardian reads from a pipe. Only the runner keeps the write end of the pipe open, so an end
 * of file means that the runner has ended. The pipe carries lines: "PID" adds a process group, and
 * "-PID" removes one. A command adds its own group before it begins (CLI_GUARDED), and closes its
 * write end after that. So at the end of file the guardian knows the group of every command.
 *
 * (PR_SET_PDEATHSIG would reach only the shell itself, not what the shell has started.)
 *
 * Not covered: a command that leaves its process group (setsid, setpgid, or a daemon that does so),
 * and a guardian that is killed together with the runner.
 */
#ifndef UVSCHED_CLI_JOBS_GUARDIAN_H
#define UVSCHED_CLI_JOBS_GUARDIAN_H

#include <stdbool.h>
#include <sys/types.h>

/* A script for `sh -c`, with the command as $1. It must be the leader of a process group, and have
 * the guardian's pipe as descriptor 3. */
#define CLI_GUARDED "echo $$ >&3 || exit 126; exec 3>&-; exec /bin/sh -c \"$1\" sh"

struct cli_guardian {
  pid_t pid;
  int pipe; /* the write end */
};

/* Before the process has any thread. Returns 0 or an error of libuv. */
int cli_guardian_start(struct cli_guardian *ret);

/* The process group has ended. */
void cli_guardian_forget(const struct cli_guardian *g, pid_t group);

/* False if the guardian was killed. */
bool cli_guardian_is_alive(const struct cli_guardian *g);

/* Ends the guardian, and waits for its end. */
void cli_guardian_stop(struct cli_guardian *g);

#endif
