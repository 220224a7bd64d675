/* SPDX-License-Identifier: MIT
 *
 * TZif images: what a table says, and images that are damaged or hostile. Every image stands in a
 * piece of memory of exactly its size, so that AddressSanitizer and valgrind see a read past its
 * end.
 */
#include "calendar/tzif.h"

#include <string.h>

#include "calendar/image.h"
#include "lib/unit.h"

#define HOUR 3600
#define I64(EXP, GOT) ASSERT_EQ_FMT((long long)(EXP), (long long)(GOT), "%lld")

static const char *why;

/* NULL: it is refused, and `why` says why. */
static struct uvs__zone_table *parse(const unsigned char *bytes, size_t n) {
  struct uvs__zone_table *t = NULL;
  unsigned char *copy = malloc(n + !n);
  int rc;

  memcpy(copy, bytes, n);
  why = "nothing";
  rc = uvs__tzif_parse(copy, n, &t, &why);
  free(copy);
  if ((rc == 0) != (t != NULL) || (rc != 0 && (rc != UV_EINVAL || why == NULL)))
    abort();
  return t;
}

static struct uvs__zone_table *parse_image(const struct tzif_image *m) {
  return parse(m->bytes, m->size);
}

/* Walks all spans, and fails if they do not fit together. */
static bool spans_fit(const struct uvs__zone_table *t) {
  struct uvs__zone_span s, next;

  uvs__zone_find(t, INT64_MIN, &s);
  if (s.start_s != INT64_MIN)
    return false;
  for (int i = 0; i < 100 && s.end_s != INT64_MAX; i++, s = next) {
    uvs__zone_find(t, s.end_s, &next);
    if (next.start_s != s.end_s || next.before_s != s.offset_s || next.offset_s == s.offset_s ||
        next.end_s <= next.start_s)
      return false;
  }
  return true;
}

static const struct tzif_plan usual = {
    .version = '2',
    .types = 3,
    .times = 4,
    .offset_s = {100, HOUR, 2 * HOUR},
    .at_s = {-5000000000, 1000, 2000, 3000},
    .type = {1, 2, 1, 2},
};

TEST a_table_is_searched_by_instant(void) {
  static const int64_t edges[] = {INT64_MIN, -5000000000, 1000, 2000, 3000, INT64_MAX};
  static const int32_t offsets[] = {100, HOUR, 2 * HOUR, HOUR, 2 * HOUR};
  struct tzif_image m = image_of(&usual);
  struct uvs__zone_table *t = parse_image(&m);
  struct uvs__zone_span s;

  ASSERT(t != NULL);
  for (int i = 0; i < 5; i++) {
    int64_t points[] = {edges[i], edges[i] / 2 + edges[i + 1] / 2, edges[i + 1] - 1};

    for (int k = 0; k < 3; k++) {
      uvs__zone_find(t, points[k], &s);
      I64(edges[i], s.start_s);
      I64(edges[i + 1], s.end_s);
      I64(offsets[i], s.offset_s);
      I64(offsets[i > 0 ? i - 1 : 0], s.before_s);
    }
  }
  uvs__zone_find(t, INT64_MAX, &s);
  I64(2 * HOUR, s.offset_s);
  uvs__zone_table_release(t);
  PASS();
}

TEST version_1_has_32_bits_and_no_footer(void) {
  struct tzif_plan p = usual;
  struct uvs__zone_table *t;
  struct uvs__zone_span s;
  struct tzif_image m;

  p.version = 0;
  p.at_s[0] = -2000000000;
  m = image_of(&p);
  t = parse_image(&m);
  ASSERT(t != NULL);
  uvs__zone_find(t, 0, &s);
  I64(-2000000000, s.start_s);
  I64(1000, s.end_s);
  uvs__zone_table_release(t);
  m.bytes[m.size++] = 0;
  ASSERT_EQ(NULL, parse_image(&m)); /* there is more */
  PASS();
}

TEST versions_2_to_4_and_later_ones_are_read(void) {
  for (unsigned char v = 1; v != 0; v++) {
    struct tzif_plan p = usual;
    struct uvs__zone_table *t;
    struct tzif_image m;

    p.version = v;
    m = image_of(&p);
    t = parse_image(&m);
    ASSERT_EQ_FMT(v >= '2', t != NULL, "%d");
    uvs__zone_table_release(t);
  }
  PASS();
}

TEST transitions_without_a_change_of_the_offset_are_none(void) {
  struct tzif_plan p = {.version = '2',
                        .types = 3,
                        .times = 5,
                        .offset_s = {HOUR, HOUR, 0},
                        .at_s = {10, 20, 30, 40, 50},
                        .type = {1, 2, 2, 0, 1}};
  struct tzif_image m = image_of(&p);
  struct uvs__zone_table *t = parse_image(&m);
  struct uvs__zone_span s;

  ASSERT(t != NULL);
  uvs__zone_find(t, 15, &s);
  I64(INT64_MIN, s.start_s);
  I64(20, s.end_s);
  uvs__zone_find(t, 30, &s);
  I64(20, s.start_s);
  I64(40, s.end_s);
  uvs__zone_find(t, 50, &s);
  I64(40, s.start_s);
  I64(INT64_MAX, s.end_s);
  uvs__zone_table_release(t);
  PASS();
}

/* 2024-10-27 01:00:00 is the last transition in the table. */
TEST the_footer_goes_on_where_the_table_ends(void) {
  struct tzif_plan p = {.version = '2',
                        .types = 3,
                        .times = 2,
                        .offset_s = {0, HOUR, 2 * HOUR},
                        .at_s = {1711846800, 1729990800},
                        .type = {2, 1},
                        .footer = "CET-1CEST,M3.5.0,M10.5.0/3"};
  struct tzif_image m = image_of(&p);
  struct uvs__zone_table *t = parse_image(&m);
  struct uvs__zone_span s;

  ASSERT(t != NULL);
  uvs__zone_find(t, 1729990800, &s);
  I64(1729990800, s.start_s);
  I64(1743296400, s.end_s); /* 2025-03-30 01:00 */
  I64(2 * HOUR, s.before_s);
  uvs__zone_find(t, 1743296400, &s);
  I64(1761440400, s.end_s); /* 2025-10-26 01:00 */
  I64(2 * HOUR, s.offset_s);
  I64(HOUR, s.before_s);
  ASSERT(spans_fit(t));
  uvs__zone_table_release(t);
  p.at_s[1]++; /* the rule has changed a second earlier, to the same offset: the table's counts */
  m = image_of(&p);
  t = parse_image(&m);
  ASSERT(t != NULL);
  uvs__zone_find(t, 1729990801, &s);
  I64(1729990801, s.start_s);
  ASSERT(spans_fit(t));
  uvs__zone_table_release(t);
  PASS();
}

TEST a_last_transition_without_a_change_still_starts_the_footer(void) {
  struct tzif_plan p = {.version = '2',
                        .types = 2,
                        .times = 2,
                        .offset_s = {0, HOUR},
                        .at_s = {1000, 1729990800},
                        .type = {1, 1},
                        .footer = "CET-1CEST,M3.5.0,M10.5.0/3"};
  struct tzif_image m = image_of(&p);
  struct uvs__zone_table *t = parse_image(&m);
  struct uvs__zone_span s;

  ASSERT(t != NULL);
  uvs__zone_find(t, 1711846800, &s); /* March 2024: not by the rule */
  I64(1000, s.start_s);
  I64(1743296400, s.end_s);
  uvs__zone_find(t, 1735689600, &s);
  I64(1000, s.start_s);
  I64(1743296400, s.end_s);
  ASSERT(spans_fit(t));
  uvs__zone_table_release(t);
  PASS();
}

TEST without_transitions_the_footer_is_all(void) {
  struct tzif_plan p = {.version = '3', .types = 1, .offset_s = {77}, .footer = "<-05>5"};
  struct tzif_image m = image_of(&p);
  struct uvs__zone_table *t = parse_image(&m);
  struct uvs__zone_span s;

  ASSERT(t != NULL);
  uvs__zone_find(t, 0, &s);
  I64(-5 * HOUR, s.offset_s);
  I64(INT64_MIN, s.start_s);
  uvs__zone_table_release(t);
  p.footer = NULL;
  m = image_of(&p);
  t = parse_image(&m);
  ASSERT(t != NULL);
  uvs__zone_find(t, 0, &s);
  I64(77, s.offset_s);
  uvs__zone_table_release(t);
  PASS();
}

#define REFUSED(WHY) \
  do { \
    m = image_of(&p); \
    ASSERT_EQ(NULL, parse_image(&m)); \
    ASSERT_STR_EQ(WHY, why); \
    p = usual; \
  } while (0)

/* K9 */
TEST images_that_contradict_themselves_are_refused(void) {
  struct tzif_plan p = usual;
  struct tzif_image m;

  p.at_s[2] = p.at_s[1];
  REFUSED("its transitions are out of order");
  p.at_s[0] = -(INT64_C(1) << 59) - 1;
  REFUSED("its transitions are out of order");
  p.at_s[3] = (INT64_C(1) << 59) + 1;
  REFUSED("its transitions are out of order");
  p.type[1] = 3;
  REFUSED("a transition has no local time type");
  p.offset_s[2] = 93600;
  REFUSED("an offset is out of range");
  p.offset_s[2] = -90000;
  REFUSED("an offset is out of range");
  p.offset_s[2] = INT32_MIN;
  REFUSED("an offset is out of range");
  p.footer = "ABC";
  REFUSED("the rule in its footer is damaged");
  p.footer = "ABC0\n";
  REFUSED("the rule in its footer is damaged");
  p.footer = "ABC0"; /* the last transition is to +2 */
  REFUSED("the rule in its footer contradicts its last transition");
  p.types = 0;
  p.times = 0;
  REFUSED("its counts are invalid");
  PASS();
}

TEST bytes_that_are_not_possible_are_refused(void) {
  struct tzif_image whole = image_of(&usual), m = whole;
  size_t types = whole.header + 44 + 4 * 9;

  m.bytes[types + 4] = 2; /* the daylight saving flag */
  ASSERT_EQ(NULL, parse_image(&m));
  ASSERT_STR_EQ("a local time type is damaged", why);
  m = whole;
  m.bytes[types + 5] = 4; /* the abbreviation begins after all of them */
  ASSERT_EQ(NULL, parse_image(&m));
  m = whole;
  m.bytes[types + 18 + 3] = 'D'; /* the abbreviation has no end */
  ASSERT_EQ(NULL, parse_image(&m));
  ASSERT_STR_EQ("a local time type is damaged", why);
  m = whole;
  m.bytes[m.header] = 'U';
  ASSERT_EQ(NULL, parse_image(&m));
  ASSERT_STR_EQ("it is not a time zone file", why);
  m = whole;
  m.bytes[m.size - 2] = ' ';
  ASSERT_EQ(NULL, parse_image(&m));
  ASSERT_STR_EQ("its footer is missing", why);
  m = whole;
  m.bytes[m.size++] = 'x';
  ASSERT_EQ(NULL, parse_image(&m));
  PASS();
}

TEST leap_seconds_are_refused_with_a_reason(void) {
  struct tzif_image m = image_of(&usual);

  image_set_count(&m, COUNT_LEAP, 1);
  memmove(m.bytes + m.size - 2 + 12, m.bytes + m.size - 2, 2);
  memset(m.bytes + m.size - 2, 0, 12);
  m.size += 12;
  ASSERT_EQ(NULL, parse_image(&m));
  ASSERT(strstr(why, "leap seconds") != NULL);
  PASS();
}

/* K9. In both headers, every count, with values around the limits of 32 bits. */
TEST counts_that_overflow_are_refused(void) {
  static const uint32_t values[] = {5,          257,        0x1000000,  0x15555556, 0x1c71c71d,
                                    0x20000000, 0x40000000, 0x7fffffff, 0x80000000, 0xaaaaaaab,
                                    0xe38e38e4, 0xfffffff8, 0xffffffff};

  for (int second = 0; second < 2; second++) {
    for (int count = COUNT_UT; count <= COUNT_CHAR; count += 4) {
      for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        struct tzif_image m = image_of(&usual);

        if (!second)
          m.header = 0;
        image_set_count(&m, count, values[i]);
        ASSERT_EQ(NULL, parse_image(&m));
      }
    }
  }
  for (int version = 0; version <= '2'; version += '2') { /* all counts at once */
    struct tzif_plan p = usual;
    struct tzif_image m;

    p.version = (unsigned char)version;
    m = image_of(&p);
    for (int count = COUNT_UT; count <= COUNT_CHAR; count += 4)
      image_set_count(&m, count, UINT32_MAX);
    ASSERT_EQ(NULL, parse_image(&m));
    ASSERT_STR_EQ("it ends too early", why);
  }
  PASS();
}

/* ---- real zones ---- */

#define REAL_ROOM 8192

static size_t read_real(const char *name, unsigned char *bytes) {
  char path[256];
  FILE *file;
  size_t n;

  snprintf(path, sizeof path, "/usr/share/zoneinfo/%s", name);
  file = fopen(path, "rb");
  if (file == NULL)
    return 0;
  n = fread(bytes, 1, REAL_ROOM, file);
  fclose(file);
  return n < REAL_ROOM ? n : 0;
}

/* K9 */
TEST every_truncation_of_a_real_zone_is_refused(void) {
  static const char *const names[] = {"Europe/Berlin", "America/New_York", "Australia/Lord_Howe"};
  unsigned char bytes[REAL_ROOM];

  for (int i = 0; i < 3; i++) {
    size_t n = read_real(names[i], bytes);
    struct uvs__zone_table *t;

    if (n == 0)
      SKIPm("tzdata is not installed");
    for (size_t less = 0; less < n; less++)
      ASSERT_EQ(NULL, parse(bytes, less));
    t = parse(bytes, n);
    ASSERT(t != NULL);
    ASSERT(spans_fit(t));
    uvs__zone_table_release(t);
  }
  PASS();
}

/* K9. Every bit of every byte. What is accepted is a table without holes. */
TEST a_real_zone_with_a_flipped_bit_is_refused_or_consistent(void) {
  unsigned char bytes[REAL_ROOM];
  size_t n = read_real("Europe/Berlin", bytes);
  unsigned refused = 0;

  if (n == 0)
    SKIPm("tzdata is not installed");
  for (size_t i = 0; i < n; i++) {
    for (int bit = 0; bit < 8; bit++) {
      struct uvs__zone_table *t;

      bytes[i] ^= (unsigned char)(1 << bit);
      t = parse(bytes, n);
      bytes[i] ^= (unsigned char)(1 << bit);
      refused += t == NULL;
      ASSERT(t == NULL || spans_fit(t));
      uvs__zone_table_release(t);
    }
  }
  ASSERT(refused > 100);
  PASS();
}

SUITE(tzif) {
  RUN_TEST(a_table_is_searched_by_instant);
  RUN_TEST(version_1_has_32_bits_and_no_footer);
  RUN_TEST(versions_2_to_4_and_later_ones_are_read);
  RUN_TEST(transitions_without_a_change_of_the_offset_are_none);
  RUN_TEST(the_footer_goes_on_where_the_table_ends);
  RUN_TEST(a_last_transition_without_a_change_still_starts_the_footer);
  RUN_TEST(without_transitions_the_footer_is_all);
  RUN_TEST(images_that_contradict_themselves_are_refused);
  RUN_TEST(bytes_that_are_not_possible_are_refused);
  RUN_TEST(leap_seconds_are_refused_with_a_reason);
  RUN_TEST(counts_that_overflow_are_refused);
  RUN_TEST(every_truncation_of_a_real_zone_is_refused);
  RUN_TEST(a_real_zone_with_a_flipped_bit_is_refused_or_consistent);
}

TEST_MAIN(RUN_SUITE(tzif));
