/* SPDX-License-Identifier: MIT
 *
 * fuzz-calendar: a libFuzzer target for expressions and searches.
 *
 * An input is a byte of options, 8 bytes of an instant, and the text of an expression. Whatever it
 * is: nothing crashes; a refusal points into the text; and next, previous, matches and list agree.
 *
 *   fuzz-calendar -max_total_time=600 CORPUS
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/calendar.h"

#define HEAD 9
#define LISTED 8

#define MUST(condition) \
  do { \
    if (!(condition)) { \
      fprintf(stderr, "fuzz-calendar: line %d: %s\n", __LINE__, #condition); \
      abort(); \
    } \
  } while (0)

static void check_error(const uvs_calendar_error_t *e, size_t length) {
  MUST(e->column >= 1 && (size_t)e->column <= length + 1);
  MUST(memchr(e->field, '\0', sizeof e->field) != NULL && e->field[0] != '\0');
  MUST(memchr(e->text, '\0', sizeof e->text) != NULL && strlen(e->text) < sizeof e->text - 1);
  for (const char *p = e->text; *p != '\0'; p++)
    MUST(*p >= ' ' && *p <= '~');
}

static void check_list(const uvs_calendar_t *c, int64_t next) {
  uvs_occurrence_t list[LISTED];
  int n = uvs_calendar_list(c, next, UVS_NEVER, list, LISTED);

  MUST(n >= 1);
  MUST(list[0].utc_ns == next);
  for (int i = 0; i < n; i++) {
    int drops =
        list[i].flag == UVS_OCCURRENCE_DROPPED || list[i].flag == UVS_OCCURRENCE_SECOND_DROPPED;

    MUST(uvs_calendar_matches(c, list[i].utc_ns) == !drops);
    if (drops)
      continue;
    MUST(list[i].utc_ns == next);
    next = uvs_calendar_next(c, next);
  }
}

static void check_search(const uvs_calendar_t *c, int64_t at) {
  int64_t next = uvs_calendar_next(c, at), previous = uvs_calendar_previous(c, at);

  MUST(next > at || next == UVS_NEVER);
  MUST(previous < at || previous == -UVS_NEVER);
  if (uvs_calendar_interval(c) != 0)
    return;
  if (previous != -UVS_NEVER) {
    MUST(uvs_calendar_matches(c, previous) == 1);
    MUST(uvs_calendar_next(c, previous - 1) == previous);
    MUST(uvs_calendar_next(c, previous) >= at); /* nothing lies between */
  }
  if (next == UVS_NEVER)
    return;
  MUST(uvs_calendar_matches(c, next) == 1);
  MUST(uvs_calendar_previous(c, next + 1) == next);
  previous = uvs_calendar_previous(c, next);
  MUST(previous <= at || previous == -UVS_NEVER);
  check_list(c, next);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char *const zones[] = {"UTC", "America/New_York", "Pacific/Apia",
                                      "Australia/Lord_Howe"};
  uvs_calendar_options_t o;
  uvs_calendar_error_t error;
  uvs_calendar_t *c;
  const char *zone;
  char *text;
  int64_t at;
  int rc;

  if (size < HEAD)
    return 0;
  text = malloc(size - HEAD + 1); /* so that AddressSanitizer sees its end */
  MUST(text != NULL);
  memcpy(text, data + HEAD, size - HEAD);
  text[size - HEAD] = '\0';
  memcpy(&at, data + 1, sizeof at);
  uvs_calendar_options_init(&o);
  o.days = data[0] % 3;
  o.gap = data[0] / 3 % 2;
  o.overlap = data[0] / 6 % 2;
  zone = zones[data[0] / 12 % 4];
  memset(&error, 0xff, sizeof error);
  rc = uvs_calendar_parse(text, zone, &o, &c, &error);
  if (rc == UV_ENOENT) /* no tzdata here */
    rc = uvs_calendar_parse(text, "UTC", &o, &c, &error);
  if (rc == 0) {
    check_search(c, at);
    uvs_calendar_release(c);
  } else {
    MUST(rc == UV_EINVAL);
    check_error(&error, strlen(text));
  }
  free(text);
  return 0;
}
