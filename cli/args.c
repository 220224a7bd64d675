/* SPDX-License-Identifier: MIT */
#include "args.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "text.h"

int cli_usage_error(const char *command, const char *format, ...) {
  char line[400];
  va_list args;

  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  cli_complain("%s", line);
  fprintf(stderr, "Try: uvsched %s%s--help\n", command, *command == '\0' ? "" : " ");
  return CLI_USAGE;
}

/* Finds the option in `arg`, and the value in `arg` after it (NULL: there is none). */
static const struct cli_option *find_option(const char *arg, const struct cli_option *options,
                                            size_t n, const char **ret_value) {
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(options[i].name);
    bool is_long = options[i].name[1] == '-';
    const char *rest = arg + length;

    if (strncmp(arg, options[i].name, length) != 0 || (is_long && *rest != '\0' && *rest != '='))
      continue;
    *ret_value = *rest == '\0' ? NULL : rest + is_long;
    return &options[i];
  }
  return NULL;
}

static bool looks_like_option(const char *arg) {
  return arg[0] == '-' && arg[1] != '\0' && (arg[1] < '0' || arg[1] > '9');
}

int cli_read_args(int argc, char **argv, const struct cli_option *options, size_t n,
                  const char **ret_words, int max_words) {
  bool options_ended = false;
  int words = 0;

  for (int i = 1; i < argc; i++) {
    const struct cli_option *o;
    const char *value = NULL;

    if (options_ended || !looks_like_option(argv[i])) {
      if (words < max_words)
        ret_words[words] = argv[i];
      words++;
      continue;
    }
    if (strcmp(argv[i], "--") == 0) {
      options_ended = true;
      continue;
    }
    o = find_option(argv[i], options, n, &value);
    if (o == NULL) {
      cli_usage_error(argv[0],
                      "there is no option '%.60s'; if it is not an option, write -- before it",
                      argv[i]);
      return -1;
    }
    if (o->value == NULL && value != NULL) {
      cli_usage_error(argv[0], "%s takes no value: write only %s", o->name, o->name);
      return -1;
    }
    if (o->value != NULL && value == NULL) {
      if (++i == argc) {
        cli_usage_error(argv[0], "%s needs a value after it", o->name);
        return -1;
      }
      value = argv[i];
    }
    if (o->value != NULL)
      *o->value = value;
    if (o->given != NULL)
      *o->given = true;
  }
  return words;
}

int cli_read_choice(const char *command, const char *option, const char *value, const char *words) {
  size_t length = strlen(value);
  const char *p = words;

  for (int i = 0; *p != '\0'; i++) {
    size_t n = strcspn(p, " ");

    if (n == length && memcmp(p, value, n) == 0)
      return i;
    p += n + strspn(p + n, " ");
  }
  cli_usage_error(command, "%s is '%.60s': write one of these: %s", option, value, words);
  return -1;
}

bool cli_read_number(const char *command, const char *option, const char *value, int max,
                     int *ret) {
  int64_t number = 0;
  const char *p = value;

  for (; *p >= '0' && *p <= '9' && number <= max; p++)
    number = number * 10 + (*p - '0');
  if (p == value || *p != '\0' || number > max) {
    cli_usage_error(command, "%s is '%.60s': write a number from 0 to %d", option, value, max);
    return false;
  }
  *ret = (int)number;
  return true;
}
