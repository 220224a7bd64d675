/* SPDX-License-Identifier: MIT */
#include "jobs_guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <uv.h>

struct groups {
  pid_t *pid;
  size_t n, room;
};

/* ----------------------------------------------------------- the guardian --- */

static void add_group(struct groups *g, pid_t pid) {
  if (g->n == g->room) {
    size_t room = g->room == 0 ? 64 : g->room * 2;
    pid_t *more = realloc(g->pid, room * sizeof *more);

    if (more == NULL) { /* no memory: the command is killed, and its job is retried */
      kill(-pid, SIGKILL);
      return;
    }
    g->pid = more;
    g->room = room;
  }
  g->pid[g->n++] = pid;
}

static void remove_group(struct groups *g, pid_t pid) {
  for (size_t i = 0; i < g->n; i++) {
    if (g->pid[i] == pid) {
      g->pid[i] = g->pid[--g->n];
      return;
    }
  }
}

/* Reads lines until the end of file. */
static void follow(int fd, struct groups *g) {
  bool minus = false;
  long number = 0;
  char bytes[512];
  ssize_t got;

  while ((got = read(fd, bytes, sizeof bytes)) != 0) {
    if (got < 0 && errno != EINTR)
      return;
    for (ssize_t i = 0; i < got; i++) {
      if (bytes[i] == '-') {
        minus = true;
      } else if (bytes[i] != '\n') {
        number = number * 10 + (bytes[i] - '0');
      } else {
        if (minus)
          remove_group(g, (pid_t)number);
        else
          add_group(g, (pid_t)number);
        minus = false;
        number = 0;
      }
    }
  }
}

/* The guardian has a session of its own, so that signals to the runner's process group, such as
 * those of a Ctrl-C, do not reach it. Its title does not have the name of the program, so that a
 * `pkill uvsched` that kills the runner leaves it alive. It keeps no output of the runner open. */
static void guard(int fd) {
  struct groups g = {0};
  char title[60];
  int null = open("/dev/null", O_RDWR);

  snprintf(title, sizeof title, "jobs-guardian of process %ld", (long)getppid());
  uv_set_process_title(title);
  setsid();
  signal(SIGINT, SIG_IGN);
  signal(SIGTERM, SIG_IGN);
  signal(SIGHUP, SIG_IGN);
  for (int i = 0; i < 3 && null >= 0; i++)
    dup2(null, i);
  if (null > 2)
    close(null);
  follow(fd, &g);
  for (size_t i = 0; i < g.n; i++)
    kill(-g.pid[i], SIGKILL);
}

/* ------------------------------------------------------------- the runner --- */

int cli_guardian_start(struct cli_guardian *ret) {
  uv_file ends[2];
  int rc = uv_pipe(ends, 0, 0);

  if (rc != 0)
    return rc;
  ret->pid = fork();
  if (ret->pid == 0) {
    close(ends[1]);
    guard(ends[0]);
    _exit(0);
  }
  if (ret->pid < 0)
    rc = uv_translate_sys_error(errno);
  close(ends[0]);
  if (rc != 0)
    close(ends[1]);
  else
    ret->pipe = ends[1];
  return rc;
}

void cli_guardian_forget(const struct cli_guardian *g, pid_t group) {
  char line[24];
  int n = snprintf(line, sizeof line, "-%ld\n", (long)group);

  while (write(g->pipe, line, (size_t)n) < 0 && errno == EINTR)
    ; /* a short write is impossible; if the guardian is dead, there is nothing to tell */
}

bool cli_guardian_is_alive(const struct cli_guardian *g) {
  struct pollfd p = {.fd = g->pipe};

  return poll(&p, 1, 0) <= 0 || (p.revents & POLLERR) == 0;
}

void cli_guardian_stop(struct cli_guardian *g) {
  close(g->pipe);
  while (waitpid(g->pid, NULL, 0) < 0 && errno == EINTR)
    ;
}
