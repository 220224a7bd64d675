/* SPDX-License-Identifier: MIT
 *
 * The commands of the program, each in a file or files of its own. argv[0] is the name of the
 * command. A command returns the exit status of the program; main checks that the output was
 * written.
 */
#ifndef UVSCHED_CLI_COMMANDS_H
#define UVSCHED_CLI_COMMANDS_H

#define CLI_FAILED 1 /* the command failed: a bad expression, no such zone, no memory */
#define CLI_USAGE 2  /* the command line is wrong */

int cli_cron(int argc, char **argv);
int cli_jobs(int argc, char **argv);
int cli_amqp(int argc, char **argv);
int cli_top(int argc, char **argv);

#endif
