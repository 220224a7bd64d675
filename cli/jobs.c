/* SPDX-License-Identifier: MIT
 *
 * jobs: the table of the sub-commands of `uvsched jobs`.
 */
#include "jobs.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct jobs_command *const commands[] = {
    &jobs_put,    &jobs_run,   &jobs_ls,      &jobs_show,  &jobs_cancel,
    &jobs_move,   &jobs_dead,  &jobs_redrive, &jobs_purge, &jobs_pause,
    &jobs_resume, &jobs_queue, &jobs_stats,   &jobs_cron,  &jobs_reshard,
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static const char examples[] =
    "\n"
    "A job is a name, a payload and a due time. A job stays in a store until it has run, so it\n"
    "survives crashes. The store is a SQLite file, or a Redis server. `put` makes the file. `run`\n"
    "runs a command for each job that is due. Any number of runners, and of programs that use\n"
    "libuvsched-jobs, may use the store at the same time.\n"
    "\n"
    "stores: sqlite:FILE\n"
    "        redis://[USER[:PASSWORD]@]HOST[:PORT][/DB][?ns=NAMESPACE]\n"
    "        redis+unix://SOCKET[?db=DB]\n"
    "        redis+sentinel://HOST:PORT,HOST:PORT/SERVICE[/DB]\n"
    "\n"
    "examples:\n"
    "  uvsched jobs put --store sqlite:jobs.db --name rate-ride --in 48h --payload '{\"ride\": "
    "4711}'\n"
    "  uvsched jobs run --store sqlite:jobs.db --name rate-ride --exec './ask-for-rating'\n"
    "  uvsched jobs ls --store sqlite:jobs.db --overdue\n"
    "  uvsched jobs cancel --store sqlite:jobs.db rate-ride/01JD2Y4Q8N5M0V6T7R3S9W1XKE\n"
    "\n"
    "The id of a job is QUEUE/REST. `put` prints it; `--id REST` sets the second part. QUEUE is\n"
    "the name of the job, unless --queue names another queue.\n"
    "\n"
    "durations: numbers with units, larger units first: 48h, 15d, 1h30m, 250ms.\n"
    "           Units: w d h m s ms us ns\n"
    "times:     2026-11-18T20:00:00Z, 2026-11-18T21:00+01:00, @SECONDS since 1970, now\n"
    "\n"
    "exit status: 0 done; 1 the store cannot be used, or it refused the command; 2 the command\n"
    "line is wrong.\n";

static int print_help(FILE *to) {
  fputs("usage: uvsched jobs COMMAND --store STORE [OPTIONS]\n"
        "       uvsched jobs COMMAND --help\n"
        "\n"
        "commands:\n",
        to);
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-8s  %s\n", commands[i]->name, commands[i]->summary);
  fputs(examples, to);
  return 0;
}

void jobs_open_descriptors(void) {
  int fd;

  do
    fd = open("/dev/null", O_RDONLY);
  while (fd >= 0 && fd <= STDERR_FILENO);
  if (fd >= 0)
    close(fd);
}

int cli_jobs(int argc, char **argv) {
  static char name[40];
  const char *word = argc > 1 ? argv[1] : NULL;

  if (word == NULL) {
    print_help(stderr);
    return CLI_USAGE;
  }
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
    return print_help(stdout);
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(word, commands[i]->name) == 0) {
      snprintf(name, sizeof name, "jobs %s", commands[i]->name);
      argv[1] = name;
      jobs_open_descriptors();
      return commands[i]->run(argc - 1, argv + 1);
    }
  }
  if (*word == '-')
    return cli_usage_error("jobs",
                           "the command comes first, then its options: uvsched jobs put "
                           "%.60s ...",
                           word);
  return cli_usage_error("jobs", "there is no command 'jobs %.60s'", word);
}
