/* SPDX-License-Identifier: MIT
 *
 * uvsched: the command-line program, and the table of its commands. Exit status: 0; 1 if a command
 * failed or the output could not be written; 2 if the command line is wrong.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <uv.h>
#include <uvsched.h>

#include "args.h"
#include "commands.h"
#include "text.h"

static const struct command {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
    {"amqp", cli_amqp, "delayed delivery for RabbitMQ: a bridge between a broker and a store"},
    {"cron", cli_cron, "the next occurrences of a cron expression in a time zone"},
    {"jobs", cli_jobs, "durable jobs in a SQLite file or in Redis: put, run, list, cancel"},
    {"top", cli_top, "the tasks of a running program, and why they are late"},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static int print_help(FILE *to) {
  fputs("usage: uvsched COMMAND [ARGUMENTS]\n"
        "       uvsched COMMAND --help\n"
        "       uvsched --help | --version\n"
        "\n"
        "commands:\n",
        to);
  for (size_t i = 0; i < COMMANDS; i++)
    fprintf(to, "  %-8s  %s\n", commands[i].name, commands[i].summary);
  return 0;
}

static int run_command(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : NULL;

  if (name == NULL) {
    print_help(stderr);
    return CLI_USAGE;
  }
  if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
    return print_help(stdout);
  if (strcmp(name, "--version") == 0) {
    printf("uvsched %s\n", uvs_version_string());
    return 0;
  }
  for (size_t i = 0; i < COMMANDS; i++) {
    if (strcmp(name, commands[i].name) == 0)
      return commands[i].run(argc - 1, argv + 1);
  }
  return cli_usage_error("", "there is no %s '%.60s'", *name == '-' ? "option" : "command", name);
}

int main(int argc, char **argv) {
  int rc;

  argv = uv_setup_args(argc, argv); /* so that a process can have another title */
  signal(SIGPIPE, SIG_IGN);         /* a closed pipe is a write error, like a full disk */
  rc = run_command(argc, argv);
  errno = 0;
  if (fflush(stdout) != 0 || ferror(stdout)) {
    if (errno != EPIPE) /* EPIPE, as in `| head -1`, needs no message: the reader has stopped */
      cli_complain("the output could not be written%s%s", errno == 0 ? "" : ": ",
                   errno == 0 ? "" : uv_strerror(uv_translate_sys_error(errno)));
    return rc == 0 ? CLI_FAILED : rc;
  }
  return rc;
}
