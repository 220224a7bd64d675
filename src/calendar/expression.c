/* SPDX-License-Identifier: MIT */
#include "calendar/expression.h"

#include <string.h>

#define FIELDS_MAX 7 /* one more than allowed: the error names the column of the seventh field */

static bool is_blank(char c) {
  return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p) {
  while (is_blank(*p))
    p++;
  return p;
}

/* Splits the text into fields. Returns how many there are. At most FIELDS_MAX are written. */
static size_t split(const char *p, struct uvs__span *ret) {
  size_t n = 0;

  for (p = skip_blanks(p); *p != '\0'; p = skip_blanks(p)) {
    const char *begin = p;

    while (*p != '\0' && !is_blank(*p))
      p++;
    if (n < FIELDS_MAX)
      ret[n] = (struct uvs__span){begin, p};
    n++;
  }
  return n;
}

/* `word` has small letters. Not tolower, because tolower depends on the locale. */
static bool is_word(struct uvs__span s, const char *word) {
  for (; s.begin < s.end && *word != '\0'; s.begin++, word++) {
    int c = *s.begin >= 'A' && *s.begin <= 'Z' ? *s.begin - 'A' + 'a' : *s.begin;

    if (c != *word)
      return false;
  }
  return s.begin == s.end && *word == '\0';
}

static int read_every(const char *text, struct uvs__span length, struct uvs__expression *ret,
                      uvs_calendar_error_t *error) {
  char copy[64] = "";
  size_t n = (size_t)(length.end - length.begin);

  if (n < sizeof copy)
    memcpy(copy, length.begin, n);
  if (uvs_parse_duration(copy, &ret->interval_ns) < 0 || ret->interval_ns <= 0) {
    ret->interval_ns = 0;
    return uvs__refuse(error, (size_t)(length.begin - text) + 1, "interval",
                       "this is not an interval: write numbers with units, such as 90s or 1h30m");
  }
  return 0;
}

/* Sets *ret_text to the fields that a shorthand stands for; NULL: @every, which was read. */
static int read_shorthand(const char *text, const struct uvs__span *words, size_t n,
                          const char **ret_text, struct uvs__expression *ret,
                          uvs_calendar_error_t *error) {
  static const char *const shorthands[][2] = {{"@yearly", "0 0 1 1 *"},  {"@annually", "0 0 1 1 *"},
                                              {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
                                              {"@daily", "0 0 * * *"},   {"@midnight", "0 0 * * *"},
                                              {"@hourly", "0 * * * *"}};
  size_t column = (size_t)(words[0].begin - text) + 1;

  *ret_text = NULL;
  if (is_word(words[0], "@every")) {
    if (n == 2)
      return read_every(text, words[1], ret, error);
    column = (size_t)((n < 2 ? words[0].end : words[2].begin) - text) + 1;
    return uvs__refuse(error, column, "interval",
                       "@every needs one interval: write numbers with units, such as @every 1h30m");
  }
  if (is_word(words[0], "@reboot"))
    return uvs__refuse(error, column, "expression",
                       "@reboot is not a time: submit a task without a calendar when the program "
                       "starts");
  for (size_t i = 0; i < sizeof shorthands / sizeof shorthands[0]; i++) {
    if (!is_word(words[0], shorthands[i][0]))
      continue;
    if (n > 1)
      return uvs__refuse(error, (size_t)(words[1].begin - text) + 1, "expression",
                         "%s stands alone: write nothing after it", shorthands[i][0]);
    *ret_text = shorthands[i][1];
    return 0;
  }
  return uvs__refuse(error, column, "expression",
                     "this is not a shorthand: write @yearly, @monthly, @weekly, @daily, "
                     "@midnight, @hourly, or @every 90s");
}

static int refuse_count(const char *text, const struct uvs__span *words, size_t n,
                        uvs_calendar_error_t *error) {
  size_t column = n > 6 ? (size_t)(words[6].begin - text) : strlen(text);

  if (n == 0)
    return uvs__refuse(error, 1, "expression",
                       "the expression is empty: write 5 fields, such as 0 9 * * 1-5");
  if (n > 6)
    return uvs__refuse(error, column + 1, "expression",
                       "%zu fields are too many: write 5, or 6 with the seconds first; there is no "
                       "year field",
                       n);
  return uvs__refuse(error, column + 1, "expression",
                     "%zu field%s too few: write minute, hour, day of month, month, day of week", n,
                     n == 1 ? " is" : "s are");
}

/* Refuses 31 February. The words are the day of month, the month and the day of week. */
static int refuse_never(const char *text, const struct uvs__span *words,
                        const struct uvs__day_fields *days, uvs_calendar_error_t *error) {
  int n[3];

  for (int i = 0; i < 3; i++) {
    n[i] = (int)(words[i].end - words[i].begin);
    n[i] = n[i] > 16 ? 16 : n[i];
  }
  if (days->week_bare)
    return uvs__refuse(error, (size_t)(words[0].begin - text) + 1, "day of month",
                       "day %.*s of month %.*s never comes: write a day that the month has", n[0],
                       words[0].begin, n[1], words[1].begin);
  return uvs__refuse(error, (size_t)(words[0].begin - text) + 1, "day of month",
                     "day %.*s of month %.*s is never a day of week %.*s: write other days, or * "
                     "in one field",
                     n[0], words[0].begin, n[1], words[1].begin, n[2], words[2].begin);
}

static bool begins_with_star(struct uvs__span s) {
  return *s.begin == '*' || *s.begin == '?';
}

/* Reads five words, or six, where the first word is the seconds. */
static int read_fields(const char *text, const struct uvs__span *words, size_t n, int days_rule,
                       struct uvs__expression *ret, uvs_calendar_error_t *error) {
  struct uvs__day_fields days = {0};
  uint64_t sets[6];
  int shift = n == 5; /* without a field for seconds, words[0] is the minute */

  sets[UVS__SECOND] = 1;
  for (int field = shift; field < 6; field++) {
    int rc = uvs__field_read(text, field, words[field - shift], &sets[field], &days, error);

    if (rc < 0)
      return rc;
  }
  ret->seconds = sets[UVS__SECOND];
  ret->minutes = sets[UVS__MINUTE];
  ret->hours = (uint32_t)sets[UVS__HOUR];
  ret->months = (uint32_t)sets[UVS__MONTH];
  ret->real_time =
      begins_with_star(words[UVS__MINUTE - shift]) || begins_with_star(words[UVS__HOUR - shift]);
  uvs__days_select(&days, days_rule, ret->days);
  if (!uvs__days_exist(ret))
    return refuse_never(text, &words[UVS__MONTH_DAY - shift], &days, error);
  return 0;
}

int uvs__expression_read(const char *text, int days_rule, struct uvs__expression *ret,
                         uvs_calendar_error_t *error) {
  struct uvs__span words[FIELDS_MAX];
  size_t n;

  memset(ret, 0, sizeof *ret);
  if (strnlen(text, UVS__EXPRESSION_MAX + 1) > UVS__EXPRESSION_MAX)
    return uvs__refuse(error, UVS__EXPRESSION_MAX + 1, "expression",
                       "the expression is longer than %d bytes: write a shorter one",
                       UVS__EXPRESSION_MAX);
  n = split(text, words);
  if (n > 0 && *words[0].begin == '@') {
    int rc = read_shorthand(text, words, n, &text, ret, error);

    if (rc < 0 || text == NULL)
      return rc;
    n = split(text, words);
  }
  if (n < 5 || n > 6)
    return refuse_count(text, words, n, error);
  return read_fields(text, words, n, days_rule, ret, error);
}
