/* SPDX-License-Identifier: MIT
 *
 * args: reads the arguments of a command: options and words, in any order. "--" ends the options.
 * No option begins with a digit: "-5 * * * *" is a word.
 * A value is the next argument, or the rest of the same one: --from X, --from=X, -n 5, -n5. If an
 * option comes twice, the last one counts.
 */
#ifndef UVSCHED_CLI_ARGS_H
#define UVSCHED_CLI_ARGS_H

#include <stdbool.h>
#include <stddef.h>

struct cli_option {
  const char *name;   /* "--from" or "-n" */
  const char **value; /* set to the value; NULL: the option takes no value */
  bool *given;        /* set to true; may be NULL if there is a value */
};

/**
 * Read the arguments from argv[1] on. Writes the first max_words words.
 *
 * Returns: how many words there are, which may be more than max_words; -1 if an option is wrong
 *          (cli_usage_error has printed the error).
 */
int cli_read_args(int argc, char **argv, const struct cli_option *options, size_t n,
                  const char **ret_words, int max_words);

/* Returns the position of `value` in `words`, a list separated by blanks, counted from 0; -1 if it
 * is not in the list (cli_usage_error has printed the error). */
int cli_read_choice(const char *command, const char *option, const char *value, const char *words);

/* Reads a number that has only digits. False: cli_usage_error has printed the error. */
bool cli_read_number(const char *command, const char *option, const char *value, int max, int *ret);

/* Prints what is wrong with the command line, and how to get help. Returns CLI_USAGE. */
__attribute__((format(printf, 2, 3))) int cli_usage_error(const char *command, const char *format,
                                                          ...);

#endif
