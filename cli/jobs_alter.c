/* SPDX-License-Identifier: MIT
 *
 * jobs_alter: cancel and move one job; redrive and purge dead letters.
 */
#include <string.h>

#include "jobs.h"

#define STORE_HELP "  --store STORE        sqlite:FILE or redis://HOST\n"
#define HELP_HELP "  --help               this text\n"

/* ---------------------------------------------------------- cancel, move --- */

static int no_such_job(const char *id) {
  cli_complain("there is no job %s that has not ended", id);
  return CLI_FAILED;
}

static int run_cancel(int argc, char **argv) {
  const char *store_name = NULL, *id;
  const struct cli_option options[] = {{"--store", &store_name, NULL}};
  struct jobs_store store;
  int rc;

  if (!jobs_read_args(&jobs_cancel, argc, argv, options, 1, &id, 1, 1, "an ID", &rc))
    return rc;
  if (!jobs_check_id(argv[0], id))
    return CLI_USAGE;
  rc = jobs_open(&store, argv[0], store_name, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&store, uvs_jobs_cancel(store.jobs, id, jobs_answered, &store), NULL);
  if (rc == 0) {
    printf("%s is cancelled\n", id);
  } else if (rc == UVS_JOB_RUNNING) {
    printf("%s is running: it is asked to stop\n", id);
    rc = 0;
  } else {
    rc = rc == UV_ENOENT ? no_such_job(id) : jobs_failed(&store, "the job was not cancelled", rc);
  }
  return jobs_close(&store, rc);
}

static int run_move(int argc, char **argv) {
  const char *store_name = NULL, *in = NULL, *at = NULL, *id;
  const struct cli_option options[] = {
      {"--store", &store_name, NULL}, {"--in", &in, NULL}, {"--at", &at, NULL}};
  struct jobs_store store;
  int64_t delay_ns, at_ns;
  int rc;

  if (!jobs_read_args(&jobs_move, argc, argv, options, 3, &id, 1, 1, "an ID", &rc))
    return rc;
  if (!jobs_check_id(argv[0], id))
    return CLI_USAGE;
  if (in == NULL && at == NULL)
    return cli_usage_error(argv[0], "the new time is missing: write --in DURATION or --at TIME");
  if (!jobs_read_when(argv[0], in, at, &delay_ns, &at_ns))
    return CLI_USAGE;
  rc = jobs_open(&store, argv[0], store_name, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&store, uvs_jobs_move(store.jobs, id, delay_ns, at_ns, jobs_answered, &store),
                 NULL);
  if (rc == 0) {
    printf("%s is due %s%s\n", id, in != NULL ? "in " : "at ", in != NULL ? in : at);
  } else if (rc == UVS_JOB_RUNNING) {
    cli_complain("%s is running, so it was not moved", id);
    rc = CLI_FAILED;
  } else {
    rc = rc == UV_ENOENT ? no_such_job(id) : jobs_failed(&store, "the job was not moved", rc);
  }
  return jobs_close(&store, rc);
}

const struct jobs_command jobs_cancel = {
    "cancel", run_cancel, "cancel a job",
    "usage: uvsched jobs cancel ID --store STORE\n"
    "\n"
    "Cancels a job. If it is running, its command or handler is asked to stop, within a third of\n"
    "its lease, and the job does not run again.\n"
    "\n"
    "options:\n" STORE_HELP HELP_HELP "\n"
    "exit status: 0 the job is cancelled, or asked to stop; 1 there is no such job, or it has\n"
    "ended, or the store cannot be used; 2 the command line is wrong.\n"};

const struct jobs_command jobs_move = {
    "move", run_move, "change when a job is due",
    "usage: uvsched jobs move ID --store STORE (--in DURATION | --at TIME)\n"
    "\n"
    "Changes when a job is due. A job that is running cannot be moved.\n"
    "\n"
    "options:\n" STORE_HELP "  --in DURATION        due this long from now, such as 48h; 0s: now\n"
    "  --at TIME            due at this time, such as 2026-11-18T20:00:00Z\n" HELP_HELP "\n"
    "exit status: 0 the job is moved; 1 there is no such job, or it has ended, or it is running,\n"
    "or the store cannot be used; 2 the command line is wrong.\n"};

/* -------------------------------------------------------- redrive, purge --- */

struct bulk {
  struct jobs_store store;
  uint64_t count;
};

static void on_count(uvs_jobs_t *jobs, int status, uint64_t count, void *arg) {
  struct bulk *b = arg;

  b->count = count;
  jobs_answered(jobs, status, &b->store);
}

/* Checks that the letters are selected in one way: by an ID, by --all, or by a queue, a name or
 * both. Returns 0 or an exit status. */
static int check_selection(const char *command, const uvs_job_filter_t *f, bool all) {
  bool some = f->queue != NULL || f->name != NULL;

  if (f->id != NULL && !jobs_check_id(command, f->id))
    return CLI_USAGE;
  if ((f->id != NULL) + all + some == 1)
    return 0;
  if (f->id == NULL && !all && !some)
    return cli_usage_error(command, "nothing is selected: write an ID, or --queue QUEUE, or "
                                    "--name NAME, or --all");
  return cli_usage_error(
      command,
      "more than one selection: write only an ID, or only --all, or only --queue and --name");
}

static int act(struct bulk *b, const uvs_job_filter_t *f, bool redrive) {
  int rc;

  if (redrive)
    rc = jobs_wait(&b->store, uvs_jobs_redrive(b->store.jobs, f, on_count, b), "putting back");
  else
    rc = jobs_wait(&b->store, uvs_jobs_purge(b->store.jobs, f, on_count, b), "removing");
  if (rc == UV_ENOENT) {
    cli_complain("there is no %s %s", f->state == UVS_JOB_DONE ? "ended job" : "dead letter",
                 f->id);
    return CLI_FAILED;
  }
  if (rc == UV_EEXIST) {
    cli_complain(
        "the key of %s is in use by another job, so it stays a dead letter: try again when "
        "that job has ended, or cancel it",
        f->id);
    return CLI_FAILED;
  }
  if (rc != 0)
    return jobs_failed(&b->store, redrive ? "not all were put back" : "not all were removed", rc);
  printf("%llu %s %s\n", (unsigned long long)b->count,
         f->state == UVS_JOB_DONE ? b->count == 1 ? "ended job" : "ended jobs"
         : b->count == 1          ? "dead letter"
                                  : "dead letters",
         redrive ? "put back" : "removed");
  return 0;
}

static int bulk(const struct jobs_command *command, int argc, char **argv, bool redrive) {
  const char *store_name = NULL, *words[1] = {NULL};
  bool all = false, ended = false;
  struct bulk b = {.count = 0};
  uvs_job_filter_t f;
  const struct cli_option options[] = {
      {"--store", &store_name, NULL}, {"--queue", &f.queue, NULL}, {"--name", &f.name, NULL},
      {"--all", NULL, &all},          {"--ended", NULL, &ended}, /* the last: only purge */
  };
  size_t n = sizeof options / sizeof options[0] - (redrive ? 1 : 0);
  int rc;

  uvs_job_filter_init(&f);
  if (!jobs_read_args(command, argc, argv, options, n, words, 0, 1, "one ID", &rc))
    return rc;
  f.id = words[0];
  f.state = ended ? UVS_JOB_DONE : UVS_JOB_DEAD;
  rc = check_selection(argv[0], &f, all);
  if (rc != 0)
    return rc;
  rc = jobs_open(&b.store, argv[0], store_name, false, NULL, NULL);
  return rc != 0 ? rc : jobs_close(&b.store, act(&b, &f, redrive));
}

static int run_redrive(int argc, char **argv) {
  return bulk(&jobs_redrive, argc, argv, true);
}

static int run_purge(int argc, char **argv) {
  return bulk(&jobs_purge, argc, argv, false);
}

#define SELECTION \
  "  --queue QUEUE        those of this queue\n" \
  "  --name NAME          those of this name\n" \
  "  --all                all of them\n"

const struct jobs_command jobs_redrive = {
    "redrive", run_redrive, "put dead letters back, so that they run again",
    "usage: uvsched jobs redrive (ID | --queue QUEUE | --name NAME | --all) --store STORE\n"
    "\n"
    "Turns dead letters into pending jobs that are due now, with no attempts and no crashes. A\n"
    "letter whose key is in use by another job stays a dead letter. Prints how many were put\n"
    "back.\n"
    "\n"
    "options:\n" STORE_HELP SELECTION HELP_HELP "\n"
    "exit status: 0; 1 there is no such dead letter, or the store cannot be used; 2 the command "
    "line\n"
    "is wrong.\n"};

const struct jobs_command jobs_purge = {
    "purge", run_purge, "remove dead letters for good",
    "usage: uvsched jobs purge (ID | --queue QUEUE | --name NAME | --all) --store STORE\n"
    "                          [--ended]\n"
    "\n"
    "Removes dead letters from the store. They cannot be brought back. Prints how many were\n"
    "removed. Jobs that have not ended are never removed: see `uvsched jobs cancel`.\n"
    "\n"
    "options:\n" STORE_HELP SELECTION
    "  --ended              instead of dead letters, remove the records of jobs that are done,\n"
    "                       cancelled or replaced, if they were put more than 30 s ago\n" HELP_HELP
    "\n"
    "exit status: 0; 1 there is no such dead letter, or the store cannot be used; 2 the command "
    "line\n"
    "is wrong.\n"};
