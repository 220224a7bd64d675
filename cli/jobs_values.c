/* SPDX-License-Identifier: MIT
 *
 * jobs_values: reads the values of options, and writes times and JSON members.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs.h"

/* -------------------------------------------------------------- arguments --- */

bool jobs_read_args(const struct jobs_command *command, int argc, char **argv,
                    const struct cli_option *options, size_t n, const char **ret_words,
                    int min_words, int max_words, const char *what, int *ret_status) {
  bool wants_help = false;
  struct cli_option all[24];
  const char *words[8] = {NULL};
  int n_words;

  memcpy(all, options, n * sizeof *options);
  all[n] = (struct cli_option){"--help", NULL, &wants_help};
  all[n + 1] = (struct cli_option){"-h", NULL, &wants_help};
  n_words = cli_read_args(argc, argv, all, n + 2, words, 8);
  if (n_words < 0) {
    *ret_status = CLI_USAGE;
    return false;
  }
  if (wants_help) {
    fputs(command->help, stdout);
    *ret_status = 0;
    return false;
  }
  if (n_words > max_words && max_words == 0)
    *ret_status = cli_usage_error(
        argv[0], "'%.60s' is not an option: this command takes only options", words[0]);
  else if (n_words > max_words)
    *ret_status =
        cli_usage_error(argv[0],
                        "'%.60s' is one argument too many: this command takes only %s, and "
                        "options",
                        words[max_words], what);
  else if (n_words < min_words)
    *ret_status = cli_usage_error(argv[0], "this command needs %s", what);
  else
    *ret_status = -1;
  if (*ret_status >= 0)
    return false;
  for (int i = 0; i < n_words; i++)
    ret_words[i] = words[i];
  return true;
}

bool jobs_read_duration(const char *command, const char *option, const char *value,
                        int64_t *ret_ns) {
  if (value == NULL || uvs_parse_duration(value, ret_ns) == 0)
    return true;
  cli_usage_error(command,
                  "%s is '%.60s': write numbers with units, larger units first, such as "
                  "48h, 15d or 1h30m, up to 142 years",
                  option, value);
  return false;
}

bool jobs_read_number(const char *command, const char *option, const char *value, int *ret) {
  return value == NULL || cli_read_number(command, option, value, 1000000000, ret);
}

bool jobs_read_when(const char *command, const char *in, const char *at, int64_t *ret_delay_ns,
                    int64_t *ret_at_ns) {
  const char *why;

  *ret_delay_ns = *ret_at_ns = 0;
  if (in != NULL && at != NULL) {
    cli_usage_error(command, "--in and --at are both given: write only one of them");
    return false;
  }
  if (!jobs_read_duration(command, "--in", in, ret_delay_ns))
    return false;
  if (*ret_delay_ns >= UVS_JOBS_END_NS / 2) {
    cli_usage_error(command, "--in is '%.60s': the longest is 142 years", in);
    return false;
  }
  if (at == NULL)
    return true;
  why = cli_read_instant(at, ret_at_ns);
  if (why == cli_instant_range)
    why = "write a time in the years 1678 to 2255; the last possible time is 2255-06-05T23:47:34Z";
  if (why == NULL && *ret_at_ns >= UVS_JOBS_END_NS)
    why = "the last possible time is 2255-06-05T23:47:34Z";
  if (why != NULL) {
    cli_usage_error(command, "--at is '%.60s': %s", at, why);
    return false;
  }
  if (*ret_at_ns <= 0)
    *ret_at_ns = 1; /* long past: now */
  return true;
}

bool jobs_check_id(const char *command, const char *id) {
  const char *slash = strchr(id, '/');

  if (slash != NULL && slash > id && slash[1] != '\0' && strlen(id) <= UVS_JOB_ID_MAX &&
      strncmp(id, "uvs.", 4) != 0) /* reserved */
    return true;
  cli_usage_error(command,
                  "'%.60s' is not an id: an id has the form QUEUE/REST, as `uvsched jobs put` "
                  "and `uvsched jobs ls` print it",
                  id);
  return false;
}

/* --------------------------------------------------------------- payload --- */

static int payload_too_long(void) {
  cli_complain(
      "the payload is longer than %d bytes: store the data elsewhere, and put its location into "
      "the payload",
      UVS_JOB_PAYLOAD_MAX);
  return CLI_FAILED;
}

static int read_file(const char *file, char *data, size_t room, size_t *ret_size) {
  bool is_stdin = strcmp(file, "-") == 0;
  int fd = is_stdin ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
  ssize_t got = fd < 0 ? -1 : 0;

  *ret_size = 0;
  while (fd >= 0 && *ret_size < room) {
    got = read(fd, data + *ret_size, room - *ret_size);
    if (got < 0 && errno == EINTR)
      continue;
    if (got <= 0)
      break;
    *ret_size += (size_t)got;
  }
  if (got < 0)
    cli_complain("--payload-file %.200s cannot be read: %s", file,
                 uv_strerror(uv_translate_sys_error(errno)));
  if (fd >= 0 && !is_stdin)
    close(fd);
  return got < 0 ? CLI_FAILED : 0;
}

int jobs_read_payload(const char *command, const char *text, const char *file, void **ret_data,
                      size_t *ret_size) {
  size_t room = UVS_JOB_PAYLOAD_MAX + 1; /* one more, to see that a file is too long */
  char *data;
  int rc = 0;

  if (text != NULL && file != NULL)
    return cli_usage_error(command,
                           "--payload and --payload-file are both given: write only one of them");
  if (text != NULL && strlen(text) > UVS_JOB_PAYLOAD_MAX)
    return payload_too_long();
  data = malloc(room);
  if (data == NULL) {
    cli_complain("the payload cannot be read: not enough memory");
    return CLI_FAILED;
  }
  *ret_size = text == NULL ? 0 : strlen(text);
  if (text != NULL)
    memcpy(data, text, *ret_size);
  if (file != NULL)
    rc = read_file(file, data, room, ret_size);
  if (rc == 0 && *ret_size > UVS_JOB_PAYLOAD_MAX)
    rc = payload_too_long();
  if (rc != 0)
    free(data);
  else
    *ret_data = data;
  return rc;
}

/* --------------------------------------------------------------- printing --- */

int64_t jobs_now(void) {
  uv_timeval64_t now = {0};

  uv_gettimeofday(&now);
  return UVS_SEC(now.tv_sec) + UVS_US(now.tv_usec);
}

void jobs_write_distance(int64_t from_ns, int64_t to_ns, char ret[CLI_INSTANT_BYTES]) {
  bool past = to_ns < from_ns;
  int64_t s = (past ? from_ns - to_ns : to_ns - from_ns) / UVS_SEC(1);
  const char *before = past ? "" : "in ", *after = past ? " ago" : "";

  if (s > 1000 * 86400)
    ret[0] = '\0'; /* the date is enough */
  else if (s == 0)
    snprintf(ret, CLI_INSTANT_BYTES, "now");
  else if (s < 120)
    snprintf(ret, CLI_INSTANT_BYTES, "%s%ds%s", before, (int)s, after);
  else if (s < 7200)
    snprintf(ret, CLI_INSTANT_BYTES, "%s%dm%s", before, (int)(s / 60), after);
  else if (s < 72 * 3600)
    snprintf(ret, CLI_INSTANT_BYTES, "%s%dh%s", before, (int)(s / 3600), after);
  else
    snprintf(ret, CLI_INSTANT_BYTES, "%s%dd%s", before, (int)(s / 86400), after);
}

void jobs_print_time(int64_t at_ns, int64_t now_ns) {
  char text[CLI_INSTANT_BYTES], distance[CLI_INSTANT_BYTES];

  cli_write_instant(at_ns, 0, text);
  jobs_write_distance(now_ns, at_ns, distance);
  printf("%s", text);
  if (distance[0] != '\0')
    printf(" (%s)", distance);
}

void jobs_json_text(const char *name, const char *text) {
  printf(", \"%s\": ", name);
  if (text == NULL)
    fputs("null", stdout);
  else
    cli_write_json(stdout, text);
}

void jobs_json_time(const char *name, int64_t at_ns) {
  char text[CLI_INSTANT_BYTES];

  if (at_ns == 0 || at_ns == UVS_NEVER) {
    jobs_json_text(name, NULL);
    return;
  }
  cli_write_instant(at_ns, cli_fraction_digits(at_ns), text);
  jobs_json_text(name, text);
}

void jobs_json_number(const char *name, int64_t number) {
  printf(", \"%s\": %lld", name, (long long)number);
}

void jobs_json_bytes(const char *name, const void *data, size_t size) {
  if (cli_is_utf8(data, size)) {
    printf(", \"%s\": ", name);
    cli_write_json_bytes(stdout, data, size);
    return;
  }
  printf(", \"%s_base64\": \"", name);
  cli_write_base64(stdout, data, size);
  putchar('"');
}
