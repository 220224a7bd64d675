/* SPDX-License-Identifier: MIT
 *
 * field: reads one field of a cron expression, a list of items.
 *
 * Easy to break: every refusal must name a column, and say what to write instead. Only printable
 * bytes of the expression may get into the text of an error.
 */
#include "calendar/expression.h"

#include <stdarg.h>
#include <string.h>

#define NUMBER_MAX 9999 /* larger numbers are read as this number */
#define SHOWN 24        /* bytes of an item that an error text shows */

static const char weekday_names[][4] = {"SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"};
static const char month_names[][4] = {"JAN", "FEB", "MAR", "APR", "MAY", "JUN",
                                      "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"};

static const struct field_kind {
  const char *name;
  int min, max, last; /* * and 5/15 end at `last`, which for weekdays is 6: 7 is Sunday again */
  const char (*names)[4];
  int names_n;
} kinds[] = {
    [UVS__SECOND] = {"second", 0, 59, 59, NULL, 0},
    [UVS__MINUTE] = {"minute", 0, 59, 59, NULL, 0},
    [UVS__HOUR] = {"hour", 0, 23, 23, NULL, 0},
    [UVS__MONTH_DAY] = {"day of month", 1, 31, 31, NULL, 0},
    [UVS__MONTH] = {"month", 1, 12, 12, month_names, 12},
    [UVS__WEEKDAY] = {"day of week", 0, 7, 6, weekday_names, 7},
};

/* One item of a list. `at`: what is left to read. */
struct item {
  const char *text; /* the whole expression */
  const char *begin, *at, *end;
  int field;
  const struct field_kind *kind;
  uvs_calendar_error_t *error;
  char shown[SHOWN + 4]; /* the item, printable and shortened */
};

struct value {
  int n;
  bool named;
};

int uvs__refuse(uvs_calendar_error_t *error, size_t column, const char *field, const char *format,
                ...) {
  va_list args;

  memset(error, 0, sizeof *error);
  error->column = (int)column;
  snprintf(error->field, sizeof error->field, "%s", field);
  va_start(args, format);
  vsnprintf(error->text, sizeof error->text, format, args);
  va_end(args);
  return UV_EINVAL;
}

/* Not isalpha and toupper, because these depend on the locale. */
static char field_upper(char c) {
  return (char)(c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
}

static bool field_digit(char c) {
  return c >= '0' && c <= '9';
}

static bool field_letter(char c) {
  return field_upper(c) >= 'A' && field_upper(c) <= 'Z';
}

static void show_item(struct item *i) {
  size_t n = (size_t)(i->end - i->begin), kept = n > SHOWN ? SHOWN : n;

  for (size_t k = 0; k < kept; k++)
    i->shown[k] = (char)(i->begin[k] >= ' ' && i->begin[k] <= '~' ? i->begin[k] : '?');
  memcpy(i->shown + kept, n > SHOWN ? "..." : "", n > SHOWN ? 4 : 1);
}

static char peek_char(const struct item *i) {
  return (char)(i->at < i->end ? *i->at : '\0');
}

static bool take_char(struct item *i, char c) {
  if (field_upper(peek_char(i)) != c)
    return false;
  i->at++;
  return true;
}

/* Takes the rest of the item if it is `word`, which is written in capitals. */
static bool take_rest(struct item *i, const char *word) {
  size_t n = strlen(word);

  if ((size_t)(i->end - i->at) != n)
    return false;
  for (size_t k = 0; k < n; k++) {
    if (field_upper(i->at[k]) != word[k])
      return false;
  }
  i->at = i->end;
  return true;
}

#define REFUSE(i, where, ...) \
  uvs__refuse((i)->error, (size_t)((where) - (i)->text) + 1, (i)->kind->name, __VA_ARGS__)

static int not_a_value(const struct item *i) {
  const struct field_kind *k = i->kind;

  if (k->names != NULL)
    return REFUSE(i, i->begin, "'%s' is not a %s: write a number from %d to %d, or %s to %s",
                  i->shown, k->name, k->min, k->max, k->names[0], k->names[k->names_n - 1]);
  return REFUSE(i, i->begin, "'%s' is not a %s: write a number from %d to %d", i->shown, k->name,
                k->min, k->max);
}

static int read_number(struct item *i) {
  int n = 0;

  while (field_digit(peek_char(i))) {
    n = n * 10 + (*i->at++ - '0');
    if (n > NUMBER_MAX)
      n = NUMBER_MAX;
  }
  return n;
}

/* A name of three letters. One more letter is allowed if it is an L at the end of a weekday
 * (FRIL). */
static int read_name(struct item *i, struct value *ret) {
  const struct field_kind *k = i->kind;
  const char *after = i->at;

  while (after < i->end && field_letter(*after))
    after++;
  for (int n = 0; n < k->names_n; n++) {
    const char *name = k->names[n];
    bool last;

    if (after - i->at < 3 || field_upper(i->at[0]) != name[0] || field_upper(i->at[1]) != name[1] ||
        field_upper(i->at[2]) != name[2])
      continue;
    last = i->field == UVS__WEEKDAY && after - i->at == 4 && field_upper(i->at[3]) == 'L';
    if (after - i->at > 3 && !last)
      return REFUSE(i, i->at, "'%.*s' is not a name: write %s",
                    after - i->at > SHOWN ? SHOWN : (int)(after - i->at), i->at, name);
    i->at += 3;
    *ret = (struct value){n + k->min, true};
    return 0;
  }
  return not_a_value(i);
}

static int read_value(struct item *i, struct value *ret) {
  const char *from = i->at;

  if (field_letter(peek_char(i)) && i->kind->names != NULL)
    return read_name(i, ret);
  if (!field_digit(peek_char(i)))
    return not_a_value(i);
  *ret = (struct value){read_number(i), false};
  if (ret->n < i->kind->min || ret->n > i->kind->max) {
    int digits = (int)(i->at - from);

    return REFUSE(i, from, "%s %.*s%s is out of range %d-%d", i->kind->name,
                  digits > SHOWN ? SHOWN : digits, from, digits > SHOWN ? "..." : "", i->kind->min,
                  i->kind->max);
  }
  return 0;
}

static int read_step(struct item *i, int *ret) {
  const char *from;

  *ret = 1;
  if (!take_char(i, '/'))
    return 0;
  from = i->at;
  if (!field_digit(peek_char(i)))
    return REFUSE(i, from, "'%s' has no step after '/': write a number from 1", i->shown);
  *ret = read_number(i);
  if (*ret == 0)
    return REFUSE(i, from, "a step of 0 is not allowed: write a step of 1 or more");
  return 0;
}

static void append_text(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;

  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

/* Refuses FRI-MON, and says what to write instead: names, or one or two ranges of numbers. */
static int refuse_wrap(const struct item *i, struct value a, struct value b, int step) {
  const struct field_kind *k = i->kind;
  int count = k->last - k->min + 1, length = b.n - a.n + count; /* b is `length` after a */
  char instead[100] = "";

  if (a.named && b.named) {
    for (int n = 0; n <= length; n += step)
      append_text(instead, sizeof instead, "%s%s", n > 0 ? "," : "",
                  k->names[(a.n - k->min + n) % count]);
  } else {
    char by[16] = "";
    int top = k->max, before = top - a.n; /* for weekdays the first range ends with 7 */
    int rest = k->min + (k->max - k->last) + step - 1 - before % step;

    if (step > 1)
      snprintf(by, sizeof by, "/%d", step);
    append_text(instead, sizeof instead, a.n < top ? "%d-%d%s" : "%d", a.n, top, by);
    if (rest <= b.n)
      append_text(instead, sizeof instead, rest < b.n ? ",%d-%d%s" : ",%d", rest, b.n, by);
  }
  return REFUSE(i, i->begin, "%s wraps round: write %s", i->shown, instead);
}

static uint64_t steps_of(int from, int to, int step) {
  uint64_t set = 0;

  for (int n = from; n <= to; n += step)
    set |= UINT64_C(1) << n;
  return set;
}

static int refuse_day_range(const struct item *i) {
  return REFUSE(i, i->begin, "'%s': W takes one day: write a single day, such as 15W", i->shown);
}

/* Reads the rest of 5L or FRI#2, whose value is `a`. */
static int read_weekday_rule(struct item *i, struct value a, struct uvs__day_fields *days) {
  const char *from;
  int k;

  if (take_char(i, 'L')) {
    days->last_of |= UINT32_C(1) << a.n % 7;
    return i->at == i->end ? 0 : not_a_value(i);
  }
  i->at++; /* # */
  from = i->at;
  k = field_digit(peek_char(i)) ? read_number(i) : 0;
  if (i->at != i->end)
    return not_a_value(i);
  if (k < 1 || k > 5)
    return REFUSE(i, from, "'%s': write a number from 1 to 5 after '#'", i->shown);
  days->nth[k] |= UINT32_C(1) << a.n % 7;
  return 0;
}

/* Refuses 1-5#1. */
static int refuse_nth_range(const struct item *i, struct value a, struct value b) {
  char instead[64] = "";
  int k = i->at + 1 < i->end && i->at[1] >= '1' && i->at[1] <= '5' ? i->at[1] - '0' : 1;

  for (int n = a.n; n <= b.n; n++)
    append_text(instead, sizeof instead, "%s%d#%d", n > a.n ? "," : "", n, k);
  return REFUSE(i, i->begin, "'%s': # takes one weekday: write %s", i->shown, instead);
}

/* Reads L and LW as a day of the month, and refuses wrong uses of L. Sets *ret_done if the item
 * begins with L. */
static int read_last(struct item *i, struct uvs__day_fields *days, bool *ret_done) {
  *ret_done = field_upper(peek_char(i)) == 'L';
  if (!*ret_done)
    return 0;
  if (i->field == UVS__WEEKDAY)
    return REFUSE(i, i->begin,
                  "'%s' is not a day of week: write 6L for the last Saturday, 6 for every Saturday",
                  i->shown);
  if (i->field != UVS__MONTH_DAY)
    return not_a_value(i);
  if (take_rest(i, "L")) {
    days->last_day = true;
    return 0;
  }
  if (take_rest(i, "LW")) {
    days->last_weekday = true;
    return 0;
  }
  return REFUSE(i, i->begin,
                "'%s' is not allowed: write L for the last day, LW for the last weekday, or a day",
                i->shown);
}

static int read_range(struct item *i, struct uvs__day_fields *days, uint64_t *set) {
  struct value a = {0}, b;
  bool ranged;
  int step, rc = read_value(i, &a);

  if (rc < 0)
    return rc;
  if (i->field == UVS__MONTH_DAY && take_rest(i, "W")) {
    days->nearest |= UINT32_C(1) << a.n;
    return 0;
  }
  if (i->field == UVS__WEEKDAY && (field_upper(peek_char(i)) == 'L' || peek_char(i) == '#'))
    return read_weekday_rule(i, a, days);
  b = a;
  ranged = take_char(i, '-');
  if (ranged) {
    rc = read_value(i, &b);
    if (rc < 0)
      return rc;
    if (i->field == UVS__WEEKDAY && b.named && b.n == 0 && a.n > 0)
      b.n = 7; /* FRI-SUN */
    if (i->field == UVS__WEEKDAY && peek_char(i) == '#' && a.n <= b.n)
      return refuse_nth_range(i, a, b);
    if (i->field == UVS__MONTH_DAY && field_upper(peek_char(i)) == 'W')
      return refuse_day_range(i);
  }
  if (peek_char(i) == '/' && !ranged) { /* 5/15 */
    a.n = i->field == UVS__WEEKDAY ? a.n % 7 : a.n;
    b.n = i->kind->last;
  }
  rc = read_step(i, &step);
  if (rc < 0)
    return rc;
  if (i->at != i->end)
    return not_a_value(i);
  if (a.n > b.n)
    return refuse_wrap(i, a, b, step);
  *set |= steps_of(a.n, b.n, step);
  return 0;
}

static int read_item(struct item *i, struct uvs__day_fields *days, uint64_t *set) {
  bool done;
  int step, rc;

  if (i->begin == i->end)
    return REFUSE(i, i->begin, "the %s field has an empty item: write a value, or remove the comma",
                  i->kind->name);
  show_item(i);
  rc = read_last(i, days, &done);
  if (done || rc < 0)
    return rc;
  if (!take_char(i, '*') && !take_char(i, '?'))
    return read_range(i, days, set);
  rc = read_step(i, &step);
  if (rc < 0)
    return rc;
  if (i->at != i->end)
    return not_a_value(i);
  *set |= steps_of(i->kind->min, i->kind->last, step);
  return 0;
}

int uvs__field_read(const char *text, int field, struct uvs__span span, uint64_t *ret_set,
                    struct uvs__day_fields *days, uvs_calendar_error_t *error) {
  bool star = *span.begin == '*' || *span.begin == '?', bare = star && span.end == span.begin + 1;
  const char *begin = span.begin;

  *ret_set = 0;
  for (;;) {
    const char *end = memchr(begin, ',', (size_t)(span.end - begin));
    struct item i = {.text = text, .begin = begin, .at = begin, .field = field};
    int rc;

    i.end = end == NULL ? span.end : end;
    i.kind = &kinds[field];
    i.error = error;
    rc = read_item(&i, days, ret_set);
    if (rc < 0)
      return rc;
    if (end == NULL)
      break;
    begin = end + 1;
  }
  if (field == UVS__MONTH_DAY) {
    days->days = (uint32_t)*ret_set;
    days->day_star = star;
    days->day_bare = bare;
  } else if (field == UVS__WEEKDAY) {
    days->weekdays = (uint32_t)((*ret_set | *ret_set >> 7) & 0x7f);
    days->week_star = star;
    days->week_bare = bare;
  }
  return 0;
}
