/* SPDX-License-Identifier: MIT */
#include "amqp/when.h"

#include <string.h>

#include <uvsched/jobs.h>

#include "amqp/headers.h"

/* -------------------------------------------------------------------- text --- */

static bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

/* Decimal text: an optional sign, digits, an optional fraction. Independent of the locale. */
static bool read_decimal(const char *text, size_t length, double *ret) {
  const char *end = text + length;
  bool negative = length > 0 && *text == '-';
  double value = 0, unit = 1;
  const char *digits;

  while (text < end && *text == ' ')
    text++;
  while (end > text && end[-1] == ' ')
    end--;
  negative = text < end && *text == '-';
  if (text < end && (*text == '-' || *text == '+'))
    text++;
  digits = text;
  for (; text < end && is_digit(*text); text++)
    value = value * 10 + (*text - '0');
  if (text == digits)
    return false;
  if (text < end && *text == '.') {
    for (text++; text < end && is_digit(*text); text++)
      value += (unit /= 10) * (*text - '0');
  }
  *ret = negative ? -value : value;
  return text == end;
}

/* Takes n digits. */
static bool take_digits(const char **at, const char *end, int n, int64_t *ret) {
  *ret = 0;
  for (int i = 0; i < n; i++, (*at)++) {
    if (*at == end || !is_digit(**at))
      return false;
    *ret = *ret * 10 + (**at - '0');
  }
  return true;
}

static bool take_char(const char **at, const char *end, const char *wanted) {
  if (*at == end || strchr(wanted, **at) == NULL)
    return false;
  (*at)++;
  return true;
}

static int64_t days_of_year(int64_t year) { /* days from 1970 to the first of January */
  int64_t y = year - 1;

  return 365 * (year - 1970) + (y / 4 - 492) - (y / 100 - 19) + (y / 400 - 4);
}

static bool days_of_date(int64_t year, int64_t month, int64_t day, int64_t *ret) {
  static const int before[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};
  bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

  if (year < 1 || month < 1 || month > 12 || day < 1 ||
      day > before[month] - before[month - 1] + (leap && month == 2))
    return false;
  *ret = days_of_year(year) + before[month - 1] + (leap && month > 2) + day - 1;
  return true;
}

bool uvs__amqp_read_instant(const char *text, size_t length, int64_t *ret_ns) {
  const char *at = text, *end = text + length;
  int64_t year, month, day, hour, minute, second, ns = 0, unit = 100000000, days, seconds;
  int64_t zone_h = 0, zone_m = 0, sign = 1;

  if (!take_digits(&at, end, 4, &year) || !take_char(&at, end, "-") ||
      !take_digits(&at, end, 2, &month) || !take_char(&at, end, "-") ||
      !take_digits(&at, end, 2, &day) || !take_char(&at, end, "Tt ") ||
      !take_digits(&at, end, 2, &hour) || !take_char(&at, end, ":") ||
      !take_digits(&at, end, 2, &minute) || !take_char(&at, end, ":") ||
      !take_digits(&at, end, 2, &second) || hour > 23 || minute > 59 || second > 60 ||
      !days_of_date(year, month, day, &days))
    return false;
  if (at < end && *at == '.') {
    if (++at == end || !is_digit(*at))
      return false;
    for (; at < end && is_digit(*at); at++, unit /= 10)
      ns += unit * (*at - '0');
  }
  if (!take_char(&at, end, "Zz")) {
    sign = at < end && *at == '-' ? -1 : 1;
    if (!take_char(&at, end, "+-") || !take_digits(&at, end, 2, &zone_h) ||
        !take_char(&at, end, ":") || !take_digits(&at, end, 2, &zone_m) || zone_h > 23 ||
        zone_m > 59)
      return false;
  }
  if (at != end)
    return false;
  seconds = days * 86400 + hour * 3600 + minute * 60 + second - sign * (zone_h * 60 + zone_m) * 60;
  if (seconds >= INT64_MAX / 1000000000)
    *ret_ns = INT64_MAX;
  else if (seconds <= INT64_MIN / 1000000000)
    *ret_ns = INT64_MIN;
  else
    *ret_ns = seconds * 1000000000 + ns;
  return true;
}

/* ----------------------------------------------------------------- numbers --- */

enum kind { NONE, INTEGER, REAL };

struct number {
  enum kind kind;
  int64_t integer; /* saturated */
  double real;
};

static struct number real(double value) {
  struct number n = {REAL, 0, value};

  if (value != value) /* not a number */
    n.kind = NONE;
  return n;
}

static struct number integer(int64_t value) {
  struct number n = {INTEGER, value, 0};

  return n;
}

static struct number unsigned_integer(uint64_t value) {
  return integer(value > INT64_MAX ? INT64_MAX : (int64_t)value);
}

static struct number of_text(amqp_bytes_t text) {
  struct number none = {NONE, 0, 0};
  double value;

  if (!read_decimal(text.bytes, text.len, &value))
    return none;
  if (value > -9e18 && value < 9e18 && value == (double)(int64_t)value)
    return integer((int64_t)value);
  return real(value);
}

static struct number of_decimal(const amqp_decimal_t *d) {
  double value = (double)(int32_t)d->value;

  for (unsigned i = 0; i < d->decimals; i++)
    value /= 10;
  return real(value);
}

static struct number of_value(const amqp_field_value_t *v) {
  struct number none = {NONE, 0, 0};

  switch (v->kind) {
  case AMQP_FIELD_KIND_I8:
    return integer(v->value.i8);
  case AMQP_FIELD_KIND_U8:
    return integer(v->value.u8);
  case AMQP_FIELD_KIND_I16:
    return integer(v->value.i16);
  case AMQP_FIELD_KIND_U16:
    return integer(v->value.u16);
  case AMQP_FIELD_KIND_I32:
    return integer(v->value.i32);
  case AMQP_FIELD_KIND_U32:
    return integer(v->value.u32);
  case AMQP_FIELD_KIND_I64:
    return integer(v->value.i64);
  case AMQP_FIELD_KIND_U64:
    return unsigned_integer(v->value.u64);
  case AMQP_FIELD_KIND_F32:
    return real((double)v->value.f32);
  case AMQP_FIELD_KIND_F64:
    return real(v->value.f64);
  case AMQP_FIELD_KIND_DECIMAL:
    return of_decimal(&v->value.decimal);
  case AMQP_FIELD_KIND_UTF8:
  case AMQP_FIELD_KIND_BYTES:
    return of_text(v->value.bytes);
  default:
    return none;
  }
}

/* Milliseconds to nanoseconds, rounded up, saturated. */
static int64_t ms_to_ns(const struct number *n) {
  double ns;

  if (n->kind == INTEGER)
    return n->integer > INT64_MAX / 1000000   ? INT64_MAX
           : n->integer < INT64_MIN / 1000000 ? INT64_MIN
                                              : n->integer * 1000000;
  ns = n->real * 1e6;
  if (ns >= 9.2e18)
    return INT64_MAX;
  if (ns <= -9.2e18)
    return INT64_MIN;
  return (int64_t)ns + ((double)(int64_t)ns < ns);
}

/* -------------------------------------------------------------------- when --- */

static void negate(const struct number *n, amqp_field_value_t *ret) {
  memset(ret, 0, sizeof *ret);
  if (n->kind == REAL) {
    ret->kind = AMQP_FIELD_KIND_F64;
    ret->value.f64 = -n->real;
  } else if (n->integer <= INT32_MAX) {
    ret->kind = AMQP_FIELD_KIND_I32;
    ret->value.i32 = (int32_t)-n->integer;
  } else {
    ret->kind = AMQP_FIELD_KIND_I64;
    ret->value.i64 = -n->integer;
  }
}

static void read_delay(const amqp_field_value_t *v, struct uvs__amqp_when *ret) {
  struct number n = of_value(v);
  int64_t ns = n.kind == NONE ? 0 : ms_to_ns(&n);

  if (ns <= 0)
    return;
  ret->has_delay = true;
  negate(&n, &ret->negated);
  if (ns >= UVS_JOBS_END_NS / 2)
    ret->refused = "x-delay is 142 years or more";
  else
    ret->delay_ns = ns;
}

/* Returns false if the value is not readable as an instant. */
static bool read_at(const amqp_field_value_t *v, int64_t *ret_ns) {
  struct number n = of_value(v);

  if (v->kind == AMQP_FIELD_KIND_TIMESTAMP) {
    *ret_ns =
        v->value.u64 > INT64_MAX / 1000000000 ? INT64_MAX : (int64_t)v->value.u64 * 1000000000;
    return true;
  }
  if (n.kind != NONE) {
    *ret_ns = ms_to_ns(&n);
    return true;
  }
  return (v->kind == AMQP_FIELD_KIND_UTF8 || v->kind == AMQP_FIELD_KIND_BYTES) &&
         uvs__amqp_read_instant(v->value.bytes.bytes, v->value.bytes.len, ret_ns);
}

void uvs__amqp_read_when(const amqp_table_t *headers, struct uvs__amqp_when *ret) {
  const amqp_field_value_t *delay = uvs__header_find(headers, "x-delay");
  const amqp_field_value_t *at = uvs__header_find(headers, "x-deliver-at");
  int64_t at_ns;

  memset(ret, 0, sizeof *ret);
  if (delay != NULL)
    read_delay(delay, ret);
  if (at == NULL || !read_at(at, &at_ns))
    return;
  ret->delay_ns = 0;
  ret->refused = NULL;
  if (at_ns >= UVS_JOBS_END_NS)
    ret->refused = "x-deliver-at is after 2255-06-05T23:47:34Z";
  else
    ret->at_ns = at_ns > 0 ? at_ns : 1; /* 1: long past */
}
