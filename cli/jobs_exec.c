/* SPDX-License-Identifier: MIT
 *
 * jobs_exec: runs the command of one job, in a process group of its own. The command reads the
 * payload from a pipe, its standard input. It writes to the stdout and stderr of the runner.
 *
 * A command ends in two steps. When its shell exits, the job is finished: from then on *job is not
 * used. When the process group is empty, or was killed, the command is freed. Processes that the
 * shell has left behind in its group are ended too: they would run without a lease.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs_runner.h"

#define WATCH_MS 50
#define TERM_NS UVS_SEC(5)  /* from SIGTERM to SIGKILL */
#define AGAIN_NS UVS_SEC(1) /* until a command that could not be started is tried again */

struct command {
  struct runner *runner;
  struct command *next;
  uvs_job_t *job; /* NULL: finished */
  uv_process_t process;
  uv_pipe_t input;
  uv_write_t write;
  int handles; /* how many are not closed yet */
  pid_t group;
  int64_t began_ns;
  int64_t kill_ns;    /* when to send SIGKILL; 0: SIGTERM was not sent */
  const char *reason; /* why the runner ended the command; NULL: it did not */
  bool killed, forgotten;
};

extern char **environ;

static const char over_limit[] = "it took longer than --limit";

/* ----------------------------------------------------------- environment --- */

#define VARIABLES 6

struct environment {
  char **all; /* to be freed */
  char own[VARIABLES][UVS_JOB_ID_MAX + 32];
};

static bool make_environment(const uvs_job_t *job, struct environment *ret) {
  size_t n = 0, kept = 0;
  char due[CLI_INSTANT_BYTES];

  while (environ[n] != NULL)
    n++;
  ret->all = malloc((n + VARIABLES + 1) * sizeof *ret->all);
  if (ret->all == NULL)
    return false;
  for (size_t i = 0; i < n; i++) {
    if (strncmp(environ[i], "UVS_JOB_", 8) != 0)
      ret->all[kept++] = environ[i];
  }
  cli_write_instant(job->due_ns, cli_fraction_digits(job->due_ns), due);
  snprintf(ret->own[0], sizeof ret->own[0], "UVS_JOB_ID=%s", job->id);
  snprintf(ret->own[1], sizeof ret->own[1], "UVS_JOB_NAME=%s", job->name);
  snprintf(ret->own[2], sizeof ret->own[2], "UVS_JOB_ATTEMPT=%u", (unsigned)job->attempt);
  snprintf(ret->own[3], sizeof ret->own[3], "UVS_JOB_FENCE=%llu", (unsigned long long)job->fence);
  snprintf(ret->own[4], sizeof ret->own[4], "UVS_JOB_KEY=%s", job->key == NULL ? "" : job->key);
  snprintf(ret->own[5], sizeof ret->own[5], "UVS_JOB_DUE=%s", due);
  for (int i = 0; i < VARIABLES; i++)
    ret->all[kept++] = ret->own[i];
  ret->all[kept] = NULL;
  return true;
}

/* ----------------------------------------------------------------- the end --- */

static void on_handle_closed(uv_handle_t *handle) {
  struct command *c = handle->data;

  if (--c->handles == 0 && c->forgotten)
    free(c);
}

static void close_handle(uv_handle_t *handle) {
  if (!uv_is_closing(handle))
    uv_close(handle, on_handle_closed);
}

/* The process group is empty or killed. */
static void forget(struct command *c) {
  struct command **at = &c->runner->commands;

  while (*at != c)
    at = &(*at)->next;
  *at = c->next;
  cli_guardian_forget(&c->runner->guardian, c->group);
  if (c->runner->commands == NULL) {
    uv_timer_stop(&c->runner->watch);
    runner_look_soon(c->runner);
  }
  c->forgotten = true;
  if (c->handles == 0)
    free(c);
}

static bool group_is_empty(const struct command *c) {
  return kill(-c->group, 0) != 0 && errno == ESRCH;
}

static void end_group(struct command *c) {
  if (c->kill_ns == 0) {
    c->kill_ns = uvs_now(c->runner->store.scheduler) + TERM_NS;
    kill(-c->group, SIGTERM);
  }
}

static void kill_group(struct command *c) {
  c->killed = true;
  kill(-c->group, SIGKILL);
}

static void report(const struct command *c, const char *what, const char *why) {
  double seconds = (double)(uvs_now(c->runner->store.scheduler) - c->began_ns) / 1e9;

  cli_complain("%s: %s%s%s, attempt %u, %.1f s", c->job->id, what, *why == '\0' ? "" : ": ", why,
               (unsigned)c->job->attempt, seconds);
}

/* The shell has exited: tell the store how the job has ended. */
static void finish(struct command *c, int64_t exit_status, int signal) {
  char why[120] = "";
  int status = UV_UNKNOWN;

  if (exit_status == 0 && signal == 0 && c->reason != over_limit) {
    status = 0;
    if (!c->runner->quiet)
      report(c, "done", "");
  } else if (c->reason != NULL && c->reason != over_limit && c->runner->stopping &&
             !uvs_job_lost(c->job)) {
    report(c, "given back", "the runner stops");
    status = uvs_job_retry_at(c->job, jobs_now());
  } else {
    if (c->reason != NULL)
      snprintf(why, sizeof why, "%s", c->reason);
    else if (signal != 0)
      snprintf(why, sizeof why, "killed by signal %d", signal);
    else
      snprintf(why, sizeof why, "exit status %d", (int)exit_status);
    report(c, c->reason == NULL ? "failed" : "ended", why);
    uvs_job_error(c->job, why); /* without memory, the store gets the code only */
  }
  uvs_job_finish(c->job, status);
  c->job = NULL;
}

static void on_exit_of_shell(uv_process_t *process, int64_t exit_status, int signal) {
  struct command *c = process->data;

  finish(c, exit_status, signal);
  close_handle((uv_handle_t *)&c->process);
  close_handle((uv_handle_t *)&c->input);
  if (group_is_empty(c) || c->killed)
    forget(c);
  else
    end_group(c);
}

/* ------------------------------------------------------------------- watch --- */

/* Returns why the command must end; NULL: it may go on. (The handler's limit_ns is not used. With
 * it, uvs_job_cancelled would not tell a passed limit from a cancel.) */
static const char *reason_to_end(const struct command *c) {
  const struct runner *r = c->runner;

  if (uvs_job_lost(c->job))
    return "the lease is lost";
  if (r->limit_ns > 0 && uvs_now(r->store.scheduler) - c->began_ns >= r->limit_ns)
    return over_limit;
  if (!uvs_job_cancelled(c->job))
    return NULL;
  return r->stopping ? "the runner stops" : "the job was cancelled";
}

static void watch_command(struct command *c) {
  if (c->job != NULL && c->reason == NULL) {
    c->reason = reason_to_end(c);
    if (c->reason != NULL)
      end_group(c);
  }
  if (c->kill_ns != 0 && !c->killed && uvs_now(c->runner->store.scheduler) >= c->kill_ns)
    kill_group(c);
  if (c->job == NULL && (c->killed || group_is_empty(c)))
    forget(c);
}

static void on_watch(uv_timer_t *timer) {
  struct runner *r = timer->data;
  struct command *next;

  for (struct command *c = r->commands; c != NULL; c = next) {
    next = c->next;
    watch_command(c);
  }
}

void runner_kill_commands(struct runner *r) {
  for (struct command *c = r->commands; c != NULL; c = c->next) {
    if (c->reason == NULL)
      c->reason = "the runner stops";
    kill_group(c);
  }
}

/* ------------------------------------------------------------------- start --- */

static void on_written(uv_write_t *write, int status) {
  (void)status; /* a command that does not read its payload is no error */
  close_handle((uv_handle_t *)write->handle);
}

/* Returns the read end of a pipe into which the payload is written. It is a pipe because a command
 * cannot open /dev/stdin if its standard input is a socket. */
static int open_input(struct command *c, uv_file *ret_read_end) {
  uv_file ends[2];
  int rc = uv_pipe(ends, 0, UV_NONBLOCK_PIPE);

  if (rc != 0)
    return rc;
  rc = uv_pipe_init(&c->runner->store.loop, &c->input, 0);
  if (rc == 0) {
    c->input.data = c;
    c->handles++;
    rc = uv_pipe_open(&c->input, ends[1]);
    if (rc != 0)
      close_handle((uv_handle_t *)&c->input);
  }
  if (rc != 0) {
    close(ends[0]);
    close(ends[1]);
    return rc;
  }
  *ret_read_end = ends[0];
  return 0;
}

static int spawn(struct command *c, uv_file input) {
  struct runner *r = c->runner;
  char *args[] = {"/bin/sh", "-c", CLI_GUARDED, "sh", (char *)r->shell_command, NULL};
  uv_stdio_container_t stdio[4] = {{.flags = UV_INHERIT_FD, .data.fd = input},
                                   {.flags = UV_INHERIT_FD, .data.fd = STDOUT_FILENO},
                                   {.flags = UV_INHERIT_FD, .data.fd = STDERR_FILENO},
                                   {.flags = UV_INHERIT_FD, .data.fd = r->guardian.pipe}};
  struct environment environment;
  uv_process_options_t options = {.file = args[0],
                                  .args = args,
                                  .exit_cb = on_exit_of_shell,
                                  .flags = UV_PROCESS_DETACHED,
                                  .stdio = stdio,
                                  .stdio_count = 4};
  int rc;

  if (!make_environment(c->job, &environment))
    return UV_ENOMEM;
  options.env = environment.all;
  c->process.data = c;
  c->handles++;
  rc = uv_spawn(&r->store.loop, &c->process, &options);
  free(environment.all);
  if (rc != 0)
    close_handle((uv_handle_t *)&c->process);
  return rc;
}

static void write_payload(struct command *c) {
  uv_buf_t payload = {.base = (char *)c->job->payload, .len = c->job->payload_size};

  if (payload.len == 0 ||
      uv_write(&c->write, (uv_stream_t *)&c->input, &payload, 1, on_written) != 0)
    close_handle((uv_handle_t *)&c->input);
}

static int start(struct command *c) {
  uv_file input;
  int rc = open_input(c, &input);

  if (rc != 0)
    return rc;
  rc = spawn(c, input);
  close(input);
  if (rc != 0) {
    close_handle((uv_handle_t *)&c->input);
    return rc;
  }
  c->group = c->process.pid;
  write_payload(c);
  return 0;
}

/* If the runner or the machine is short of something, that is no failure of the job. */
static void cannot_start(struct runner *r, uvs_job_t *job, int rc) {
  bool is_short = rc == UV_EMFILE || rc == UV_ENFILE || rc == UV_EAGAIN || rc == UV_ENOMEM;

  cli_complain("%s: the command cannot be started%s: %s", job->id,
               is_short ? ", and is tried again in 1 s" : "", uv_strerror(rc));
  if (is_short) {
    r->again_ns = uvs_now(r->store.scheduler) + AGAIN_NS;
    rc = uvs_job_retry_at(job, jobs_now() + AGAIN_NS);
  }
  uvs_job_finish(job, rc);
}

void runner_start_command(struct runner *r, uvs_job_t *job) {
  struct command *c = r->stopping ? NULL : calloc(1, sizeof *c);
  int rc;

  if (!r->stopping && !cli_guardian_is_alive(&r->guardian)) {
    cli_complain("the guardian (process %ld) was killed, so commands cannot be run safely: start "
                 "the runner again",
                 (long)r->guardian.pid);
    r->broken = true;
    runner_stop(r);
  }
  if (r->stopping) {
    free(c);
    uvs_job_finish(job, uvs_job_retry_at(job, jobs_now()));
    return;
  }
  if (c == NULL) {
    cannot_start(r, job, UV_ENOMEM);
    return;
  }
  c->runner = r;
  c->job = job;
  c->began_ns = uvs_now(r->store.scheduler);
  rc = start(c);
  if (rc == 0) {
    c->next = r->commands;
    r->commands = c;
    uv_timer_start(&r->watch, on_watch, WATCH_MS, WATCH_MS);
    return;
  }
  cannot_start(r, job, rc);
  c->forgotten = true;
  if (c->handles == 0)
    free(c);
}
