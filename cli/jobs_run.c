/* SPDX-License-Identifier: MIT
 *
 * jobs_run: claims the jobs of a queue and starts their commands, until the runner is told to stop,
 * or until the queue is empty.
 */
#include <signal.h>
#include <string.h>

#include "jobs_runner.h"

#define LOOK_MIN_MS 50
#define LOOK_MAX_MS 1000

static const char help[] =
    "usage: uvsched jobs run --store STORE --name NAME --exec 'COMMAND' [OPTIONS]\n"
    "\n"
    "Runs COMMAND with `sh -c` for each job of this name that is due, until it is told to stop.\n"
    "The payload is on the standard input of COMMAND. Exit status 0 means that the job is done.\n"
    "Any other exit status, or a signal, is a failure: the job runs again after 1 s, 2 s, 4 s and\n"
    "so on up to 1 h (each shortened by up to 20 % at random). After --max-attempts failures the\n"
    "job becomes a dead letter: `uvsched jobs dead`. A job may run more than once: let COMMAND "
    "use\n"
    "UVS_JOB_ID to recognize what is done already.\n"
    "\n"
    "options:\n"
    "  --store STORE           sqlite:FILE or redis://HOST; a missing file is made\n"
    "  --name NAME             the name of the jobs\n"
    "  --exec 'COMMAND'        what to run\n"
    "  --queue QUEUE           the queue of the jobs; default: the name\n"
    "  --concurrency N         at most N commands at once; default 1\n"
    "  --until-empty           exit when the queue is empty: no job of it is due, and none is\n"
    "                          running, here or in another process. Jobs that are due later do\n"
    "                          not count; a failed job that waits for its retry is due later.\n"
    "                          While the queue is paused, its due jobs count.\n"
    "  --lease DURATION        how long a job is claimed for. The lease is extended while the\n"
    "                          command runs. If the runner is stopped for longer (SIGSTOP),\n"
    "                          another runner may run the job. The first command goes on until\n"
    "                          its runner goes on. Default 30s, at least 100ms\n"
    "  --limit DURATION        a command that takes longer is ended, and its job has failed\n"
    "  --max-attempts N        failures that make a job a dead letter; 0: no bound; default 20\n"
    "  --max-crashes N         crashes that make a job a dead letter; 0: no bound; default 5. A\n"
    "                          crash is a run that ended without a result, because the runner or\n"
    "                          the machine died. Jobs with crashes run one at a time.\n"
    "  --grace DURATION        how long commands may go on when the runner is told to stop;\n"
    "                          default 30s\n"
    "  --quiet                 print only what goes wrong\n"
    "  --help                  this text\n"
    "\n"
    "environment of the command: UVS_JOB_ID, UVS_JOB_NAME, UVS_JOB_KEY (may be empty),\n"
    "UVS_JOB_DUE (2026-11-18T20:00:00Z), UVS_JOB_ATTEMPT (1, 2, ...) and UVS_JOB_FENCE, a number\n"
    "that grows with each run of the job: a system that remembers it can refuse an older run.\n"
    "\n"
    "The command has a process group of its own. The runner ends the group, with SIGTERM and 5 s\n"
    "later with SIGKILL, if the job is cancelled, if the lease is lost, if --limit or --grace has\n"
    "passed, or if the shell has exited and has left processes behind. If the runner itself is\n"
    "killed, a guardian process kills the group at once. The guardian does not reach a process\n"
    "that has left the group (setsid).\n"
    "\n"
    "SIGINT (Ctrl-C) and SIGTERM: the runner takes no more jobs, and waits up to --grace for the\n"
    "commands. Then it ends them, and gives their jobs back; this does not count as an attempt. A\n"
    "second signal kills the commands at once.\n"
    "\n"
    "Messages go to stderr, one line for each run. Several runners may share a store.\n"
    "\n"
    "examples:\n"
    "  uvsched jobs run --store sqlite:jobs.db --name mail --exec 'sendmail -t' --concurrency 4\n"
    "  uvsched jobs run --store sqlite:jobs.db --name rate-ride --until-empty \\\n"
    "      --exec 'echo \"job $UVS_JOB_ID was due at $UVS_JOB_DUE\"; cat'\n"
    "\n"
    "exit status: 0 the queue is empty, or the runner was told to stop; 1 the store cannot be "
    "used;\n"
    "2 the command line is wrong.\n";

/* -------------------------------------------------------------------- stop --- */

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  struct runner *r = arg;

  (void)jobs;
  r->store.jobs = NULL;
  r->closed = true;
}

void runner_stop(struct runner *r) {
  if (r->stopping)
    return;
  r->stopping = true;
  uv_timer_stop(&r->look);
  uvs_jobs_close(r->store.jobs, r->grace_ns, on_jobs_closed, r);
}

static void on_signal(uv_signal_t *handle, int signal) {
  struct runner *r = handle->data;

  if (!r->stopping) {
    if (r->commands != NULL)
      cli_complain("stopping: waiting for the running commands; a second signal kills them");
    runner_stop(r);
    return;
  }
  r->hurry = true;
  runner_kill_commands(r);
  uv_signal_stop(handle); /* a third signal ends this process */
  (void)signal;
}

/* ------------------------------------------------------------- until empty --- */

static void look(uv_timer_t *timer);

/* Is the queue empty? If not, look again later; the wait grows while nothing happens here. */
static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  struct runner *r = arg;
  bool empty = status == 0;

  (void)jobs;
  r->looking = false;
  for (size_t i = 0; status == 0 && i < stats->n_queues; i++) {
    const uvs_queue_stats_t *q = &stats->queues[i];

    if (strcmp(q->queue, r->queue) != 0)
      continue;
    empty = q->overdue == 0 && q->running == 0;
    if (q->paused && q->overdue > 0 && !r->told_paused) {
      r->told_paused = true;
      cli_complain("the queue %s is paused: waiting for `uvsched jobs resume`", r->queue);
    }
  }
  if (empty && r->commands == NULL && uvs_now(r->store.scheduler) >= r->again_ns) {
    runner_stop(r);
  } else if (!r->stopping) {
    r->look_ms = r->look_ms * 2 < LOOK_MAX_MS ? r->look_ms * 2 : LOOK_MAX_MS;
    uv_timer_start(&r->look, look, r->look_ms, 0);
  }
}

static void look(uv_timer_t *timer) {
  struct runner *r = timer->data;

  if (r->commands != NULL || r->looking || r->stopping)
    return; /* the end of the last command looks again */
  if (uvs_jobs_stats(r->store.jobs, on_stats, r) == 0)
    r->looking = true;
  else
    uv_timer_start(&r->look, look, LOOK_MAX_MS, 0);
}

void runner_look_soon(struct runner *r) {
  if (!r->until_empty || r->stopping)
    return;
  r->look_ms = LOOK_MIN_MS;
  uv_timer_start(&r->look, look, LOOK_MIN_MS, 0);
}

/* -------------------------------------------------------------------- jobs --- */

static void on_post(uvs_t *s, void *arg) {
  uvs_job_t *job = arg;

  (void)s;
  runner_start_command(job->arg, job);
}

/* On a pool thread. */
static int on_job(uvs_job_t *job) {
  int rc = uvs_post(uvs_jobs_scheduler(job->jobs), on_post, job);

  return rc == 0 ? UVS_PENDING : rc;
}

static bool is_of_queue(const struct runner *r, const char *id) {
  size_t length = strlen(r->queue);

  return id != NULL && strncmp(id, r->queue, length) == 0 && id[length] == '/';
}

static void on_event(uvs_jobs_t *jobs, const uvs_jobs_event_t *e, void *arg) {
  const struct runner *r = arg;
  static const struct {
    int what;
    const char *text;
  } of_jobs[] = {{UVS_EVENT_DEAD, "is a dead letter now"},
                 {UVS_EVENT_LOST, "has lost its lease"},
                 {UVS_EVENT_CRASHED, "was claimed again"},
                 {UVS_EVENT_UNKNOWN_NAME, "has another name, and was given back"}},
    of_stores[] = {{UVS_EVENT_STORE_DOWN, "the store does not work"},
                   {UVS_EVENT_STORE_UP, "the store works again"},
                   {UVS_EVENT_STORE_RESET, "the store has lost its data"},
                   {UVS_EVENT_STORE_UNSAFE, "the store can lose jobs"},
                   {UVS_EVENT_CLOCK_SET, "the clock was set"},
                   {UVS_EVENT_CANNOT_SHRINK, "another program keeps the log of the store from "
                                             "shrinking"}};
  const char *text = e->text == NULL ? "" : e->text;

  (void)jobs;
  for (size_t i = 0; i < sizeof of_jobs / sizeof of_jobs[0]; i++) {
    if (e->what == of_jobs[i].what && is_of_queue(r, e->id))
      cli_complain("%s %s%s%s", e->id, of_jobs[i].text, *text == '\0' ? "" : ": ", text);
  }
  for (size_t i = 0; i < sizeof of_stores / sizeof of_stores[0]; i++) {
    if (e->what == of_stores[i].what)
      cli_complain("%s%s%s", of_stores[i].text, *text == '\0' ? "" : ": ", text);
  }
}

/* --------------------------------------------------------------------- run --- */

static void close_handles(struct runner *r) {
  uv_close((uv_handle_t *)&r->watch, NULL);
  uv_close((uv_handle_t *)&r->look, NULL);
  for (size_t i = 0; i < 2; i++)
    uv_close((uv_handle_t *)&r->signals[i], NULL);
}

static int open_handles(struct runner *r) {
  static const int numbers[] = {SIGINT, SIGTERM};
  int rc = uv_timer_init(&r->store.loop, &r->watch);

  r->watch.data = r->look.data = r;
  rc = rc != 0 ? rc : uv_timer_init(&r->store.loop, &r->look);
  for (size_t i = 0; i < 2 && rc == 0; i++) {
    rc = uv_signal_init(&r->store.loop, &r->signals[i]);
    r->signals[i].data = r;
    if (rc == 0)
      rc = uv_signal_start(&r->signals[i], on_signal, numbers[i]);
    uv_unref((uv_handle_t *)&r->signals[i]);
  }
  return rc;
}

static int run_jobs(struct runner *r, const char *command, const char *store,
                    const uvs_job_handler_t *h) {
  int rc = jobs_open(&r->store, command, store, true, on_event, r);

  if (rc != 0)
    return rc;
  rc = open_handles(r);
  if (rc != 0) /* the process ends, so open handles do no harm */
    return jobs_close(&r->store, jobs_failed(&r->store, "jobs cannot be run", rc));
  rc = uvs_jobs_handle(r->store.jobs, r->name, on_job, r, h);
  if (rc != 0) {
    close_handles(r);
    return jobs_close(&r->store, jobs_failed(&r->store, "jobs cannot be run", rc));
  }
  if (!r->quiet)
    cli_complain("running jobs of %s from %.200s", r->queue, r->store.name);
  runner_look_soon(r);
  while (!r->closed || r->commands != NULL)
    uv_run(&r->store.loop, UV_RUN_ONCE);
  close_handles(r);
  return jobs_close(&r->store, r->broken ? CLI_FAILED : 0);
}

static int check_run(const char *command, const struct runner *r, const uvs_job_handler_t *h) {
  uvs_job_spec_t spec; /* checks the names: its rules are the same */
  char text[200];

  uvs_job_spec_init(&spec);
  spec.name = r->name;
  spec.queue = r->queue;
  if (uvs_job_check(&spec, text, sizeof text) != 0)
    return cli_usage_error(command, "--%s", text);
  if (r->shell_command == NULL || *r->shell_command == '\0')
    return cli_usage_error(command, "the command is missing: write --exec 'COMMAND'");
  if (h->concurrency == 0)
    return cli_usage_error(command, "--concurrency is 0: write 1 or more");
  if (h->lease_ns < UVS_MS(100))
    return cli_usage_error(command, "--lease is shorter than 100ms: write 100ms or more");
  return 0;
}

static int run(int argc, char **argv) {
  const char *store = NULL, *lease = NULL, *concurrency = NULL, *attempts = NULL, *limit = NULL;
  const char *grace = NULL, *crashes = NULL;
  struct runner r = {.grace_ns = UVS_SEC(30)};
  const struct cli_option options[] = {
      {"--store", &store, NULL},           {"--name", &r.name, NULL},
      {"--queue", &r.queue, NULL},         {"--exec", &r.shell_command, NULL},
      {"--lease", &lease, NULL},           {"--concurrency", &concurrency, NULL},
      {"--max-attempts", &attempts, NULL}, {"--limit", &limit, NULL},
      {"--grace", &grace, NULL},           {"--until-empty", NULL, &r.until_empty},
      {"--quiet", NULL, &r.quiet},         {"--max-crashes", &crashes, NULL},
  };
  uvs_job_handler_t h;
  int max_attempts = 20, max_crashes = 5, rc;

  uvs_job_handler_init(&h);
  h.concurrency = 1;
  if (!jobs_read_args(&jobs_run, argc, argv, options, sizeof options / sizeof options[0], NULL, 0,
                      0, NULL, &rc))
    return rc;
  if (!jobs_read_duration(argv[0], "--lease", lease, &h.lease_ns) ||
      !jobs_read_duration(argv[0], "--limit", limit, &r.limit_ns) ||
      !jobs_read_duration(argv[0], "--grace", grace, &r.grace_ns) ||
      !jobs_read_number(argv[0], "--concurrency", concurrency, &h.concurrency) ||
      !jobs_read_number(argv[0], "--max-attempts", attempts, &max_attempts) ||
      !jobs_read_number(argv[0], "--max-crashes", crashes, &max_crashes))
    return CLI_USAGE;
  h.max_attempts = (uint32_t)max_attempts;
  h.max_crashes = (uint32_t)max_crashes;
  h.queue = r.queue;
  rc = check_run(argv[0], &r, &h);
  if (rc == 0)
    rc = jobs_check_store(argv[0], store, true);
  if (rc != 0)
    return rc;
  if (r.queue == NULL)
    r.queue = r.name;
  rc = cli_guardian_start(&r.guardian); /* forks, so before any thread is started */
  if (rc != 0) {
    cli_complain("the guardian process cannot be started: %s", uv_strerror(rc));
    return CLI_FAILED;
  }
  rc = run_jobs(&r, argv[0], store, &h);
  cli_guardian_stop(&r.guardian);
  return rc;
}

const struct jobs_command jobs_run = {"run", run, "run a command for each job that is due", help};
