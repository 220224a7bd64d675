/* SPDX-License-Identifier: MIT
 *
 * cron: prints the next occurrences of an expression, as a table or as JSON. All rows are collected
 * before the first is printed, because the widths of the columns depend on them.
 */
#include <stdlib.h>
#include <string.h>

#include <uvsched/calendar.h>

#include "args.h"
#include "commands.h"
#include "instant.h"
#include "text.h"

#define ROWS_MAX 100000 /* 11 MB of rows */
#define BATCH 64

struct request {
  const char *text, *zone; /* the zone is NULL for Local */
  uvs_calendar_options_t rules;
  int64_t from_ns;
  size_t n;
  bool with_dropped, json;
};

struct rows {
  uvs_occurrence_t *row;
  size_t n, room;
  int digits; /* of fractions of a second; only an @every has them */
};

static const char help[] =
    "usage: uvsched cron \"EXPRESSION\" [ZONE] [OPTIONS]\n"
    "\n"
    "Prints the next occurrences of a cron expression: local time, offset, UTC, and a note if the\n"
    "occurrence is affected because the clock of the zone is set forward or back.\n"
    "\n"
    "EXPRESSION is one argument, so put it in quotes. It has five fields (minute, hour, day of\n"
    "month, month, day of week). A sixth field, for seconds, may stand in front of them. It may\n"
    "also be @hourly, @daily, @weekly, @monthly, @yearly, or an interval such as @every 90s.\n"
    "ZONE is a name from tzdata, such as Europe/Berlin, or UTC, or Local. The default is Local:\n"
    "the zone in TZ, or /etc/localtime if TZ is not set.\n"
    "\n"
    "options:\n"
    "  -n NUMBER         how many rows to print: at most 100000, default 10\n"
    "  --from TIME       print only occurrences later than TIME: 2025-03-09T07:00:00Z,\n"
    "                    2025-03-09T08:00:00+01:00, @SECONDS since 1970, or now (default)\n"
    "  --json            print one array of objects\n"
    "  --all             also print the times that a rule drops; they do not occur\n"
    "  --days RULE       which days match the fields day of month and day of week:\n"
    "                      auto    if one field begins with * or ?: both; else: either (default)\n"
    "                      either  days that match at least one field that is not only * or ?\n"
    "                      both    days that match both fields\n"
    "  --gap RULE        if the clock skips a fixed time, that time occurs:\n"
    "                      after   right after the gap (default)\n"
    "                      skip    not at all\n"
    "  --overlap RULE    if the clock shows a fixed time twice, that time occurs:\n"
    "                      first   the first time (default)\n"
    "                      both    both times\n"
    "  --help            print this text\n"
    "\n"
    "Times are fixed if neither the minute nor the hour begins with * or ?.\n"
    "\n"
    "exit status: 0; 1 if the expression or the zone is wrong, there is no memory, or the output\n"
    "cannot be written; 2 if the command line is wrong.\n";

/* ------------------------------------------------------------- arguments --- */

/* Sets *rule if the option was given. The enums of the rules begin with 0, in the order of words.
 */
static bool read_rule(const char *option, const char *value, const char *words, int *rule) {
  int choice = value == NULL ? *rule : cli_read_choice("cron", option, value, words);

  if (choice >= 0)
    *rule = choice;
  return choice >= 0;
}

/* Returns 0; after an error, the exit status; -1 if the help was printed. */
static int read_request(int argc, char **argv, struct request *ret) {
  const char *words[2] = {NULL, NULL};
  const char *n = "10", *from = "now", *days = NULL, *gap = NULL, *overlap = NULL, *why;
  bool wants_help = false;
  const struct cli_option options[] = {
      {"-n", &n, NULL},
      {"--from", &from, NULL},
      {"--json", NULL, &ret->json},
      {"--all", NULL, &ret->with_dropped},
      {"--days", &days, NULL},
      {"--gap", &gap, NULL},
      {"--overlap", &overlap, NULL},
      {"--help", NULL, &wants_help},
      {"-h", NULL, &wants_help},
  };
  int n_words = cli_read_args(argc, argv, options, sizeof options / sizeof options[0], words, 2);
  int rows;

  if (n_words < 0)
    return CLI_USAGE;
  if (wants_help) {
    fputs(help, stdout);
    return -1;
  }
  if (n_words == 0)
    return cli_usage_error("cron", "an expression is missing, such as \"0 9 * * 1-5\"");
  if (n_words > 2)
    return cli_usage_error("cron",
                           "%d arguments are too many: put the expression into quotes, as "
                           "in uvsched cron \"0 9 * * 1-5\" Europe/Berlin",
                           n_words);
  ret->text = words[0];
  ret->zone = words[1];
  if (!cli_read_number("cron", "-n", n, ROWS_MAX, &rows))
    return CLI_USAGE;
  ret->n = (size_t)rows;
  why = cli_read_instant(from, &ret->from_ns);
  if (why != NULL)
    return cli_usage_error("cron", "--from is '%.60s': %s", from, why);
  uvs_calendar_options_init(&ret->rules);
  if (!read_rule("--days", days, "auto either both", &ret->rules.days) ||
      !read_rule("--gap", gap, "after skip", &ret->rules.gap) ||
      !read_rule("--overlap", overlap, "first both", &ret->rules.overlap))
    return CLI_USAGE;
  return 0;
}

/* Prints the error of the parser, the expression, and a caret below the wrong column. */
static void explain(const char *text, const uvs_calendar_error_t *e) {
  cli_complain("%s", e->text);
  if (e->column == 0)
    return;
  fputs("  ", stderr);
  cli_write_plain(stderr, text);
  fprintf(stderr, "\n  %*s\n", e->column, "^");
}

/* ------------------------------------------------------------------ rows --- */

static bool is_dropped(const uvs_occurrence_t *o) {
  return o->flag == UVS_OCCURRENCE_DROPPED || o->flag == UVS_OCCURRENCE_SECOND_DROPPED;
}

static bool add_row(struct rows *r, const uvs_occurrence_t *o) {
  if (r->n == r->room) {
    size_t room = r->room == 0 ? BATCH : r->room * 2;
    uvs_occurrence_t *row = realloc(r->row, room * sizeof *row);

    if (row == NULL)
      return false;
    r->row = row;
    r->room = room;
  }
  r->row[r->n++] = *o;
  return true;
}

static int collect_occurrences(const uvs_calendar_t *c, const struct request *q, struct rows *r) {
  int64_t from_ns = q->from_ns + 1;
  uvs_occurrence_t o[BATCH];
  int got;

  do {
    got = uvs_calendar_list(c, from_ns, UVS_NEVER, o, BATCH);
    for (int i = 0; i < got && r->n < q->n; i++) {
      from_ns = o[i].utc_ns + 1;
      if ((q->with_dropped || !is_dropped(&o[i])) && !add_row(r, &o[i]))
        return UV_ENOMEM;
    }
  } while (got == BATCH && r->n < q->n);
  return 0;
}

/* uvs_calendar_list does not list an @every. A calendar that occurs every second gives the local
 * times. */
static int collect_intervals(const uvs_calendar_t *every, const struct request *q, struct rows *r) {
  int64_t at_ns = q->from_ns;
  uvs_calendar_t *seconds;
  int digits[2] = {cli_fraction_digits(at_ns), cli_fraction_digits(uvs_calendar_interval(every))};
  int rc = uvs_calendar_parse("* * * * * *", q->zone, NULL, &seconds, NULL);

  if (rc != 0)
    return rc;
  r->digits = digits[0] > digits[1] ? digits[0] : digits[1];
  while (rc == 0 && r->n < q->n) {
    uvs_occurrence_t o;
    int64_t second_ns;

    at_ns = uvs_calendar_next(every, at_ns);
    if (at_ns == UVS_NEVER)
      break;
    second_ns = uvs_calendar_previous(seconds, at_ns + 1); /* at_ns is in this second */
    if (at_ns - second_ns >= UVS_SEC(1) ||                 /* 2262: there are no seconds */
        uvs_calendar_list(seconds, second_ns, at_ns + 1, &o, 1) != 1)
      break;
    o.utc_ns = at_ns;
    rc = add_row(r, &o) ? 0 : UV_ENOMEM;
  }
  uvs_calendar_release(seconds);
  return rc;
}

/* ----------------------------------------------------------------- table --- */

/* Prints the planned time: 02:30, or 2011-12-30 12:00 if its date differs from that of the row. */
static void print_planned(const uvs_occurrence_t *o) {
  const uvs_local_time_t *p = &o->planned, *l = &o->local;

  if (p->year != l->year || p->month != l->month || p->day != l->day)
    printf("%04d-%02d-%02d ", p->year, p->month, p->day);
  printf("%02d:%02d", p->hour, p->minute);
  if (p->second != 0)
    printf(":%02d", p->second);
}

static void print_note(const uvs_occurrence_t *o, bool colours) {
  static const int colour[] = {CLI_PLAIN, CLI_YELLOW, CLI_RED, CLI_CYAN, CLI_CYAN, CLI_RED};
  static const char *const words[] = {"",           "moved from ", "dropped: the clock skips ",
                                      "first pass", "second pass", "dropped: second pass"};
  bool in_gap = o->flag == UVS_OCCURRENCE_MOVED || o->flag == UVS_OCCURRENCE_DROPPED;
  uint32_t more = o->skipped - (in_gap ? 1 : 0);

  if (o->flag == UVS_OCCURRENCE_PLAIN && more == 0)
    return;
  fputs("  ", stdout);
  cli_set_colour(colours, colour[o->flag]);
  fputs(words[o->flag], stdout);
  if (in_gap)
    print_planned(o);
  if (more > 0)
    printf("%s%u %s in the gap", o->flag == UVS_OCCURRENCE_PLAIN ? "" : ", ", (unsigned)more,
           in_gap      ? "more"
           : more == 1 ? "time"
                       : "times");
  if (more > 0 && !in_gap && o->rule == UVS_RULE_REAL_TIME) /* this row occurs, but they do not */
    fputs(more == 1 ? " does not occur" : " do not occur", stdout);
  cli_set_colour(colours, CLI_PLAIN);
}

static void print_title(const struct request *q, const uvs_calendar_t *c, bool colours) {
  const char *tz = getenv("TZ"), *zone = uvs_calendar_zone(c);
  char from[CLI_INSTANT_BYTES];

  cli_set_colour(colours, CLI_BOLD);
  cli_write_plain(stdout, q->text);
  cli_set_colour(colours, CLI_PLAIN);
  fputs(" in ", stdout);
  cli_write_plain(stdout, zone);
  if (strcmp(zone, "Local") == 0) {
    fputs(tz == NULL ? " (/etc/localtime" : " (TZ=", stdout);
    cli_write_plain(stdout, tz == NULL ? "" : tz);
    putchar(')');
  }
  cli_write_instant(q->from_ns, cli_fraction_digits(q->from_ns), from);
  printf(", after %s\n", from);
}

static void print_table(const struct request *q, const uvs_calendar_t *c, const struct rows *r) {
  static const char *const weekdays[] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
  bool colours = cli_has_colours();
  int local_width = (int)strlen("Sun 2025-03-09 03:00:00") + (r->digits > 0 ? 1 + r->digits : 0);
  char local[CLI_INSTANT_BYTES], utc[CLI_INSTANT_BYTES], offset[CLI_INSTANT_BYTES];
  int offset_width = (int)strlen("offset");

  print_title(q, c, colours);
  for (size_t i = 0; i < r->n; i++) {
    cli_write_offset(r->row[i].offset_s, offset);
    if ((int)strlen(offset) > offset_width)
      offset_width = (int)strlen(offset);
  }
  cli_set_colour(colours, CLI_BOLD);
  printf("%-*s  %-*s  UTC", local_width, "local", offset_width, "offset");
  cli_set_colour(colours, CLI_PLAIN);
  putchar('\n');
  for (size_t i = 0; i < r->n; i++) {
    const uvs_occurrence_t *o = &r->row[i];

    cli_write_local(&o->local, ' ', o->utc_ns, r->digits, local);
    cli_write_offset(o->offset_s, offset);
    cli_write_instant(o->utc_ns, r->digits, utc);
    printf("%s %s  %-*s  %s", weekdays[o->local.weekday], local, offset_width, offset, utc);
    print_note(o, colours);
    putchar('\n');
  }
  if (r->n < q->n)
    printf("%s before 2262\n", r->n == 0 ? "none" : "no more");
}

/* ------------------------------------------------------------------ JSON --- */

static void print_member(const char *name, const char *value) {
  printf("\"%s\": ", name);
  cli_write_json(stdout, value);
  fputs(", ", stdout);
}

static void print_json(const uvs_calendar_t *c, const struct rows *r) {
  static const char *const flags[] = {"plain", "moved", "dropped", "first", "second", "dropped"};
  static const char *const rules[] = {"fixed-time", "real-time", "gap-skip", "overlap-both"};
  char text[CLI_INSTANT_BYTES];

  putchar('[');
  for (size_t i = 0; i < r->n; i++) {
    const uvs_occurrence_t *o = &r->row[i];

    fputs(i == 0 ? "\n  {" : ",\n  {", stdout);
    cli_write_instant(o->utc_ns, r->digits, text);
    print_member("utc", text);
    cli_write_local(&o->local, 'T', o->utc_ns, r->digits, text);
    print_member("local", text);
    cli_write_offset(o->offset_s, text);
    print_member("offset", text);
    print_member("flag", flags[o->flag]);
    printf("\"occurs\": %s, ", is_dropped(o) ? "false" : "true");
    cli_write_local(&o->planned, 'T', o->utc_ns, r->digits, text);
    print_member("planned", text);
    printf("\"skipped\": %u, ", (unsigned)o->skipped);
    print_member("rule", uvs_calendar_interval(c) != 0 ? "interval" : rules[o->rule]);
    fputs("\"zone\": ", stdout);
    cli_write_json(stdout, uvs_calendar_zone(c));
    putchar('}');
  }
  fputs(r->n == 0 ? "]\n" : "\n]\n", stdout);
}

/* --------------------------------------------------------------- command --- */

int cli_cron(int argc, char **argv) {
  struct request q = {0};
  struct rows r = {0};
  uvs_calendar_error_t error;
  uvs_calendar_t *c;
  int rc = read_request(argc, argv, &q);

  if (rc != 0)
    return rc < 0 ? 0 : rc;
  if (uvs_calendar_parse(q.text, q.zone, &q.rules, &c, &error) != 0) {
    explain(q.text, &error);
    return CLI_FAILED;
  }
  rc =
      uvs_calendar_interval(c) != 0 ? collect_intervals(c, &q, &r) : collect_occurrences(c, &q, &r);
  if (rc != 0)
    cli_complain("the occurrences could not be listed: %s", uv_strerror(rc));
  else if (q.json)
    print_json(c, &r);
  else
    print_table(&q, c, &r);
  free(r.row);
  uvs_calendar_release(c);
  return rc == 0 ? 0 : CLI_FAILED;
}
