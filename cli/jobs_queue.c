/* SPDX-License-Identifier: MIT
 *
 * jobs_queue: pause, resume and limit a queue. The settings are in the store, for all programs.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

#define STORE_HELP "  --store STORE        sqlite:FILE or redis://HOST\n"
#define HELP_HELP "  --help               this text\n"
#define STATUS_HELP \
  "exit status: 0; 1 the store cannot be used; 2 the name or the command line is wrong.\n"

/* Returns 0 or an exit status. */
static int set(const char *command, const char *store_name, const uvs_job_queue_t *q) {
  struct jobs_store store;
  int rc = jobs_open(&store, command, store_name, false, NULL, NULL);

  if (rc != 0)
    return rc;
  rc = uvs_jobs_set_queue(store.jobs, q, jobs_answered, &store);
  if (rc == UV_EINVAL)
    return jobs_close(&store,
                      cli_usage_error(command,
                                      "'%.80s' is not the name of a queue: write 1 to %d "
                                      "characters of A-Z a-z 0-9 _ . : -, not beginning with uvs.",
                                      q->name, UVS_JOB_NAME_MAX));
  rc = jobs_wait(&store, rc, NULL);
  if (rc != 0)
    rc = jobs_failed(&store, "the queue was not changed", rc);
  return jobs_close(&store, rc);
}

static int set_paused(const struct jobs_command *command, int argc, char **argv, int paused) {
  const char *store_name = NULL;
  const struct cli_option options[] = {{"--store", &store_name, NULL}};
  uvs_job_queue_t q;
  int rc;

  uvs_job_queue_init(&q);
  if (!jobs_read_args(command, argc, argv, options, 1, &q.name, 1, 1, "the name of a queue", &rc))
    return rc;
  q.paused = paused;
  rc = set(argv[0], store_name, &q);
  if (rc == 0)
    printf("%s is %s\n", q.name, paused ? "paused" : "not paused");
  return rc;
}

static int run_pause(int argc, char **argv) {
  return set_paused(&jobs_pause, argc, argv, 1);
}

static int run_resume(int argc, char **argv) {
  return set_paused(&jobs_resume, argc, argv, 0);
}

/* 100/1m; 0 for no bound. */
static bool read_rate(const char *command, const char *value, uvs_job_queue_t *q) {
  const char *slash = value == NULL ? NULL : strchr(value, '/');
  char number[20] = "";
  int rate;

  if (value == NULL)
    return true;
  if (slash != NULL && (size_t)(slash - value) < sizeof number)
    memcpy(number, value, (size_t)(slash - value));
  if (strcmp(value, "0") == 0) {
    q->rate = 0;
    return true;
  }
  if (slash == NULL || uvs_parse_duration(slash + 1, &q->rate_ns) != 0 || q->rate_ns <= 0) {
    cli_usage_error(command,
                    "--rate is '%.60s': write a number and a duration, such as 100/1m or "
                    "5/1s, or 0 for no bound",
                    value);
    return false;
  }
  if (!cli_read_number(command, "the number in --rate", number, 1000000000, &rate))
    return false;
  q->rate = rate;
  return true;
}

static int run_queue(int argc, char **argv) {
  const char *store_name = NULL, *concurrency = NULL, *rate = NULL, *catch_up = NULL;
  const struct cli_option options[] = {{"--store", &store_name, NULL},
                                       {"--concurrency", &concurrency, NULL},
                                       {"--rate", &rate, NULL},
                                       {"--catch-up", &catch_up, NULL}};
  int n = -1, m = -1, rc;
  uvs_job_queue_t q;

  uvs_job_queue_init(&q);
  if (!jobs_read_args(&jobs_queue, argc, argv, options, 4, &q.name, 1, 1, "the name of a queue",
                      &rc))
    return rc;
  if (concurrency == NULL && rate == NULL && catch_up == NULL)
    return cli_usage_error(argv[0], "there is nothing to change: write --concurrency, --rate or "
                                    "--catch-up; `uvsched jobs stats` shows the limits");
  if (!jobs_read_number(argv[0], "--concurrency", concurrency, &n) ||
      !jobs_read_number(argv[0], "--catch-up", catch_up, &m) || !read_rate(argv[0], rate, &q))
    return CLI_USAGE;
  q.concurrency = n;
  q.catch_up_rate = m;
  rc = set(argv[0], store_name, &q);
  if (rc == 0)
    printf("%s is changed\n", q.name);
  return rc;
}

const struct jobs_command jobs_pause = {
    "pause", run_pause, "stop starting jobs of a queue",
    "usage: uvsched jobs pause QUEUE --store STORE\n"
    "\n"
    "No program starts a job of this queue until `uvsched jobs resume`. Running jobs go on. New\n"
    "jobs can be put.\n"
    "\n"
    "options:\n" STORE_HELP HELP_HELP "\n" STATUS_HELP};

const struct jobs_command jobs_resume = {
    "resume", run_resume, "start jobs of a paused queue again",
    "usage: uvsched jobs resume QUEUE --store STORE\n"
    "\n"
    "Ends `uvsched jobs pause`. Jobs that came due meanwhile start at once, unless the queue has\n"
    "limits.\n"
    "\n"
    "options:\n" STORE_HELP HELP_HELP "\n" STATUS_HELP};

const struct jobs_command jobs_queue = {
    "queue", run_queue, "limit how many jobs of a queue run",
    "usage: uvsched jobs queue QUEUE --store STORE [--concurrency N] [--rate N/DURATION]\n"
    "                          [--catch-up N]\n"
    "\n"
    "Limits a queue, for all programs together. A limit that is not given stays as it is.\n"
    "`uvsched jobs stats` shows the limits. If the store has several Redis servers, each of them\n"
    "has an equal share of a limit, rounded up: with --concurrency 1 and two servers, two jobs\n"
    "may run at once.\n"
    "\n"
    "options:\n" STORE_HELP "  --concurrency N      at most N jobs run at once; 0: no bound\n"
    "  --rate N/DURATION    at most N jobs start in each DURATION, such as 100/1m; 0: no bound\n"
    "  --catch-up N         of the jobs that are overdue by more than a minute, at most N start "
    "in\n"
    "                       each second, so that a backlog does not overload the systems that\n"
    "                       they call; 0: no bound\n" HELP_HELP "\n" STATUS_HELP};
