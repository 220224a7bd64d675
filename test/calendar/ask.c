/* SPDX-License-Identifier: MIT
 *
 * ask-calendar: answers questions about calendars, for the programs that compare them with others.
 *
 * Each line of the input has fields with tabs between them:
 *   EXPRESSION  ZONE  DAYS  GAP  OVERLAP  START  N
 * The options are numbers, START is in seconds. Each line of the output is either the next N
 * occurrences after START in seconds, and then those before it; or "error COLUMN TEXT".
 *
 *   printf '0 9 * * 1-5\tEurope/Berlin\t0\t0\t0\t1700000000\t3\n' | ask-calendar
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/calendar.h"

#define FIELDS 7

static int split_line(char *line, char **ret) {
  int n = 0;

  line[strcspn(line, "\n")] = '\0';
  for (char *p = line; n < FIELDS; p++) {
    ret[n++] = p;
    p = strchr(p, '\t');
    if (p == NULL)
      break;
    *p = '\0';
  }
  return n;
}

static void answer(const uvs_calendar_t *c, int64_t start_s, long n) {
  int64_t at = UVS_SEC(start_s);

  for (long i = 0; i < n && at != UVS_NEVER; i++) {
    at = uvs_calendar_next(c, at);
    printf("%" PRId64 " ", at == UVS_NEVER ? at : at / UVS_SEC(1));
  }
  at = UVS_SEC(start_s);
  for (long i = 0; i < n && at != -UVS_NEVER; i++) {
    at = uvs_calendar_previous(c, at);
    printf("%" PRId64 " ", at == -UVS_NEVER ? at : at / UVS_SEC(1));
  }
  putchar('\n');
}

int main(void) {
  char line[2000], *field[FIELDS];

  while (fgets(line, sizeof line, stdin) != NULL) {
    uvs_calendar_options_t o;
    uvs_calendar_error_t error;
    uvs_calendar_t *c;

    if (split_line(line, field) != FIELDS) {
      fprintf(stderr, "ask-calendar: not %d fields\n", FIELDS);
      return 1;
    }
    uvs_calendar_options_init(&o);
    o.days = atoi(field[2]);
    o.gap = atoi(field[3]);
    o.overlap = atoi(field[4]);
    if (uvs_calendar_parse(field[0], field[1], &o, &c, &error) < 0) {
      printf("error %d %s\n", error.column, error.text);
      continue;
    }
    answer(c, strtoll(field[5], NULL, 10), strtol(field[6], NULL, 10));
    uvs_calendar_release(c);
  }
  return 0;
}
