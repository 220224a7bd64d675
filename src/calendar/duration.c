/* SPDX-License-Identifier: MIT
 *
 * duration: "1h30m" as nanoseconds.
 */
#include "uvsched/calendar.h"

#include "port/base.h"

static const struct unit {
  char name[3];
  int64_t ns;
} units[] = {{"w", UVS_DAY(7)}, {"d", UVS_DAY(1)}, {"h", UVS_HOUR(1)}, {"m", UVS_MIN(1)},
             {"s", UVS_SEC(1)}, {"ms", UVS_MS(1)}, {"us", UVS_US(1)},  {"ns", 1}};
#define UNITS (sizeof units / sizeof units[0])

/* Finds the unit that the letters at `at` spell, among those from `least` on. UNITS: none. */
static size_t find_unit(const char *at, size_t letters, size_t least) {
  for (size_t i = least; i < UNITS; i++) {
    if (strlen(units[i].name) == letters && memcmp(units[i].name, at, letters) == 0)
      return i;
  }
  return UNITS;
}

int uvs_parse_duration(const char *text, int64_t *ret_ns) {
  size_t least = 0; /* the largest unit that may follow */
  int64_t total = 0;

  if (text == NULL || ret_ns == NULL || *text == '\0')
    return UV_EINVAL;
  while (*text != '\0') {
    size_t digits = strspn(text, "0123456789");
    size_t letters = strcspn(text + digits, "0123456789");
    size_t unit = find_unit(text + digits, letters, least);
    int64_t n = 0;

    if (digits == 0 || unit == UNITS)
      return UV_EINVAL;
    for (size_t i = 0; i < digits; i++) {
      int digit = text[i] - '0';

      if (n > (INT64_MAX / units[unit].ns - digit) / 10)
        return UV_EINVAL;
      n = n * 10 + digit;
    }
    n *= units[unit].ns;
    if (n >= UVS_NEVER - total)
      return UV_EINVAL;
    total += n;
    text += digits + letters;
    least = unit + 1;
  }
  *ret_ns = total;
  return 0;
}
