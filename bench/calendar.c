/* SPDX-License-Identifier: MIT
 *
 * What uvs_calendar_next and uvs_calendar_parse cost. Each row is a chain of occurrences: each call
 * starts from the result of the call before it. Prints "KIND<tab>ZONE<tab>EXPRESSION<tab>ns" for
 * each row, with the best time of many short rounds.
 * bench/calendar.mjs reads it, and measures the same rows with croner.
 *
 *   bench-calendar [--max N]      leave out all rounds after N
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "uvsched/calendar.h"

static const struct row {
  const char *kind, *zone, *text;
  int days;
} rows[] = {
    {"typical", "UTC", "*/5 * * * *", 0},
    {"typical", "Europe/Berlin", "0 9 * * 1-5", 0},
    {"typical", "America/New_York", "30 2 * * *", 0},
    {"typical", "America/New_York", "0 0 1 * *", 0},
    {"typical", "Europe/Berlin", "0 12 L * *", 0},
    {"typical", "Asia/Kolkata", "0 8 * * MON#2", 0},
    {"worst", "UTC", "0 0 29 2 1", UVS_DAYS_BOTH},
    {"worst", "Europe/Berlin", "0 0 29 2 1", UVS_DAYS_BOTH},
    {"worst", "America/New_York", "30 2 29 2 1", UVS_DAYS_BOTH},
};

#define CHAIN 200
#define ROUNDS 400

static volatile int64_t sink;

static uint64_t time_next(const uvs_calendar_t *c) {
  int64_t at = UVS_DAY(20500); /* 2026 */
  uint64_t from = uv_hrtime();
  int made = 0;

  for (; made < CHAIN; made++) {
    int64_t next = uvs_calendar_next(c, at);

    at = next == UVS_NEVER ? UVS_DAY(20500) : next;
  }
  sink = at;
  return (uv_hrtime() - from) / CHAIN;
}

/* The longest wait of all: from one day after a 29 February that was a Monday, over 2100. */
static uint64_t time_gap(const uvs_calendar_t *c) {
  uint64_t from = uv_hrtime();

  for (int i = 0; i < CHAIN; i++)
    sink = uvs_calendar_next(c, UVS_DAY(37315)); /* 2072-03-01; the next is 2112-02-29 */
  return (uv_hrtime() - from) / CHAIN;
}

static uint64_t time_parse(const struct row *r, const uvs_calendar_options_t *o) {
  uint64_t from = uv_hrtime();

  for (int i = 0; i < CHAIN; i++) {
    uvs_calendar_t *c;

    if (uvs_calendar_parse(r->text, r->zone, o, &c, NULL) < 0)
      abort();
    uvs_calendar_release(c);
  }
  return (uv_hrtime() - from) / CHAIN;
}

int main(int argc, char **argv) {
  int rounds = argc == 3 && strcmp(argv[1], "--max") == 0 ? atoi(argv[2]) : ROUNDS;

  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *r = &rows[i];
    uint64_t best = UINT64_MAX, best_parse = UINT64_MAX;
    uvs_calendar_options_t o;
    uvs_calendar_error_t error;
    uvs_calendar_t *c;
    int worst = strcmp(r->kind, "worst") == 0;

    uvs_calendar_options_init(&o);
    o.days = r->days;
    if (uvs_calendar_parse(r->text, r->zone, &o, &c, &error) < 0) {
      fprintf(stderr, "bench-calendar: %s in %s: %s\n", r->text, r->zone, error.text);
      return 1;
    }
    for (int k = 0; k < rounds; k++) {
      uint64_t ns = worst ? time_gap(c) : time_next(c);
      uint64_t parse_ns = time_parse(r, &o); /* the zone is in use, and so in the cache */

      best = ns < best ? ns : best;
      best_parse = parse_ns < best_parse ? parse_ns : best_parse;
    }
    printf("%s\t%s\t%s\t%llu\t%llu\n", r->kind, r->zone, r->text, (unsigned long long)best,
           (unsigned long long)best_parse);
    uvs_calendar_release(c);
  }
  return 0;
}
