/* SPDX-License-Identifier: MIT
 *
 * x-delay and x-deliver-at, in every type that AMQP has.
 */
#include <string.h>

#include <uvsched/jobs.h>

#include "amqp/headers.h"
#include "amqp/when.h"
#include "lib/main.h"

static struct uvs__amqp_when when;

static void read_one(const char *name, amqp_field_value_t value) {
  amqp_table_entry_t entry = {uvs__amqp_text(name), value};
  amqp_table_t table = {1, &entry};

  uvs__amqp_read_when(&table, &when);
}

static amqp_field_value_t value_of(uint8_t kind) {
  amqp_field_value_t v;

  memset(&v, 0, sizeof v);
  v.kind = kind;
  return v;
}

#define VALUE(kind, member, number) \
  amqp_field_value_t v = value_of(kind); \
  v.value.member = number

/* The delay is `ns`, and the header becomes -number of the type `negated`. */
#define ASSERT_DELAY(ns, type, member, number) \
  do { \
    ASSERT_EQ(NULL, when.refused); \
    ASSERT_EQ(0, when.at_ns); \
    ASSERT_EQ_FMT((long long)(ns), (long long)when.delay_ns, "%lld"); \
    ASSERT(when.has_delay); \
    ASSERT_EQ_FMT((int)type, (int)when.negated.kind, "%c"); \
    ASSERT(when.negated.value.member == (number)); \
  } while (0)

#define INTEGER_TEST(name, kind, member, n) \
  TEST name(void) { \
    VALUE(kind, member, n); \
    read_one("x-delay", v); \
    ASSERT_DELAY(UVS_MS(n), AMQP_FIELD_KIND_I32, i32, -(n)); \
    PASS(); \
  } \
  _Static_assert(1, "a semicolon may follow")

INTEGER_TEST(an_int8_is_a_delay, AMQP_FIELD_KIND_I8, i8, 100);
INTEGER_TEST(a_uint8_is_a_delay, AMQP_FIELD_KIND_U8, u8, 200);
INTEGER_TEST(an_int16_is_a_delay, AMQP_FIELD_KIND_I16, i16, 30000);
INTEGER_TEST(a_uint16_is_a_delay, AMQP_FIELD_KIND_U16, u16, 60000);
INTEGER_TEST(an_int32_is_a_delay, AMQP_FIELD_KIND_I32, i32, 2000000000);
INTEGER_TEST(an_int64_is_a_delay, AMQP_FIELD_KIND_I64, i64, 5);
INTEGER_TEST(a_uint64_is_a_delay, AMQP_FIELD_KIND_U64, u64, 6);

TEST a_uint32_beyond_int32_is_negated_in_64_bits(void) {
  VALUE(AMQP_FIELD_KIND_U32, u32, 4000000000u);
  read_one("x-delay", v);
  ASSERT_DELAY(UVS_MS(4000000000), AMQP_FIELD_KIND_I64, i64, -4000000000LL);
  PASS();
}

TEST a_float_may_have_a_fraction(void) {
  VALUE(AMQP_FIELD_KIND_F32, f32, 1.5f);
  read_one("x-delay", v);
  ASSERT_DELAY(1500000, AMQP_FIELD_KIND_F64, f64, -1.5);
  PASS();
}

TEST a_double_rounds_up_to_a_nanosecond(void) {
  VALUE(AMQP_FIELD_KIND_F64, f64, 0.0000011);
  read_one("x-delay", v);
  ASSERT_EQ(2, when.delay_ns);
  PASS();
}

TEST a_decimal_is_a_delay(void) {
  amqp_field_value_t v = value_of(AMQP_FIELD_KIND_DECIMAL);

  v.value.decimal.decimals = 2;
  v.value.decimal.value = 150;
  read_one("x-delay", v);
  ASSERT_DELAY(1500000, AMQP_FIELD_KIND_F64, f64, -1.5);
  v.value.decimal.decimals = 255;
  read_one("x-delay", v);
  ASSERT(when.delay_ns <= 1);
  PASS();
}

TEST decimal_text_is_a_delay(void) {
  read_one("x-delay", uvs__amqp_string("5000"));
  ASSERT_DELAY(UVS_SEC(5), AMQP_FIELD_KIND_I32, i32, -5000);
  read_one("x-delay", uvs__amqp_string(" +250.5 "));
  ASSERT_DELAY(250500000, AMQP_FIELD_KIND_F64, f64, -250.5);
  PASS();
}

TEST what_is_not_readable_means_now(void) {
  static const char *const texts[] = {"soon", "",    "5s",  "1e3", "0x10",
                                      "-",    "--5", "1 2", "nan", "."};

  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    read_one("x-delay", uvs__amqp_string(texts[i]));
    ASSERT_EQm(texts[i], 0, when.delay_ns);
    ASSERTm(texts[i], !when.has_delay && when.refused == NULL);
  }
  for (const char *kind = "tTFAV"; *kind != '\0'; kind++) {
    read_one("x-delay", value_of((uint8_t)*kind));
    ASSERT(when.delay_ns == 0 && !when.has_delay && when.refused == NULL);
  }
  uvs__amqp_read_when(&amqp_empty_table, &when);
  ASSERT(when.delay_ns == 0 && when.at_ns == 0 && !when.has_delay);
  PASS();
}

TEST zero_negative_and_nan_mean_now(void) {
  const double numbers[] = {0, -1, -1e300, 0.0 / (double)(test_seed == 0)};

  for (size_t i = 0; i < 4; i++) {
    VALUE(AMQP_FIELD_KIND_F64, f64, numbers[i]);
    read_one("x-delay", v);
    ASSERT(when.delay_ns == 0 && !when.has_delay && when.refused == NULL);
  }
  {
    VALUE(AMQP_FIELD_KIND_I64, i64, INT64_MIN);
    read_one("x-delay", v);
    ASSERT(when.delay_ns == 0 && !when.has_delay && when.refused == NULL);
  }
  read_one("x-delay", uvs__amqp_string("-5000"));
  ASSERT(when.delay_ns == 0 && !when.has_delay);
  PASS();
}

TEST a_hundred_years_are_kept_and_two_hundred_are_refused(void) {
  const int64_t year_ms = INT64_C(365) * 86400 * 1000;
  {
    VALUE(AMQP_FIELD_KIND_I64, i64, 100 * year_ms);
    read_one("x-delay", v);
    ASSERT_DELAY(100 * year_ms * 1000000, AMQP_FIELD_KIND_I64, i64, -100 * year_ms);
  }
  {
    VALUE(AMQP_FIELD_KIND_I64, i64, 200 * year_ms);
    read_one("x-delay", v);
    ASSERT(when.refused != NULL);
  }
  {
    VALUE(AMQP_FIELD_KIND_U64, u64, UINT64_MAX);
    read_one("x-delay", v);
    ASSERT(when.refused != NULL);
  }
  {
    VALUE(AMQP_FIELD_KIND_F64, f64, 1e300 * 1e300); /* infinite */
    read_one("x-delay", v);
    ASSERT(when.refused != NULL);
  }
  read_one("x-delay", uvs__amqp_string("99999999999999999999999999"));
  ASSERT(when.refused != NULL);
  PASS();
}

TEST the_longest_delay_is_one_that_the_store_takes(void) {
  uvs_job_spec_t spec;

  uvs_job_spec_init(&spec);
  spec.name = "a";
  for (int64_t ms = UVS_JOBS_END_NS / 2 / 1000000 - 2; ms < UVS_JOBS_END_NS / 2 / 1000000 + 2;
       ms++) {
    VALUE(AMQP_FIELD_KIND_I64, i64, ms);
    read_one("x-delay", v);
    spec.delay_ns = ms * 1000000;
    ASSERT_EQ(uvs_job_check(&spec, NULL, 0) == 0, when.refused == NULL);
  }
  PASS();
}

/* ------------------------------------------------------------- x-deliver-at --- */

#define ASSERT_AT(ns) \
  do { \
    ASSERT_EQ(NULL, when.refused); \
    ASSERT_EQ_FMT((long long)(ns), (long long)when.at_ns, "%lld"); \
    ASSERT_EQ(0, when.delay_ns); \
  } while (0)

TEST an_instant_is_a_timestamp_or_milliseconds_or_text(void) {
  {
    VALUE(AMQP_FIELD_KIND_TIMESTAMP, u64, 1800000000);
    read_one("x-deliver-at", v);
    ASSERT_AT(UVS_SEC(1800000000));
  }
  {
    VALUE(AMQP_FIELD_KIND_I64, i64, 1800000000123);
    read_one("x-deliver-at", v);
    ASSERT_AT(UVS_MS(1800000000123));
  }
  read_one("x-deliver-at", uvs__amqp_string("1800000000123"));
  ASSERT_AT(UVS_MS(1800000000123));
  read_one("x-deliver-at", uvs__amqp_string("2027-01-15T08:00:00Z"));
  ASSERT_AT(UVS_SEC(1800000000));
  read_one("x-deliver-at", uvs__amqp_string("2027-01-15t09:30:00.25+01:30"));
  ASSERT_AT(UVS_MS(1800000000250));
  PASS();
}

TEST a_past_instant_means_now_and_a_far_one_is_refused(void) {
  read_one("x-deliver-at", uvs__amqp_string("1969-01-01T00:00:00Z"));
  ASSERT_AT(1);
  read_one("x-deliver-at", uvs__amqp_string("2255-06-05T23:47:34Z"));
  ASSERT_EQ(NULL, when.refused);
  read_one("x-deliver-at", uvs__amqp_string("2255-06-05T23:47:35Z"));
  ASSERT(when.refused != NULL);
  read_one("x-deliver-at", uvs__amqp_string("9999-12-31T23:59:59Z"));
  ASSERT(when.refused != NULL);
  {
    VALUE(AMQP_FIELD_KIND_TIMESTAMP, u64, UINT64_MAX);
    read_one("x-deliver-at", v);
    ASSERT(when.refused != NULL);
  }
  PASS();
}

TEST an_unreadable_instant_leaves_the_delay(void) {
  static const char *const texts[] = {"tomorrow",
                                      "2027-01-15",
                                      "2027-01-15T08:00:00",
                                      "2027-02-29T00:00:00Z",
                                      "2027-13-01T00:00:00Z",
                                      "2027-01-15T24:00:00Z",
                                      "2027-01-15T08:00:00.Z",
                                      "2027-01-15T08:00:00+1:00",
                                      "2027-01-15T08:00:00ZZ",
                                      "0000-01-01T00:00:00Z",
                                      "2027-01-00T00:00:00Z"};

  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    amqp_table_entry_t entries[2] = {{uvs__amqp_text("x-deliver-at"), uvs__amqp_string(texts[i])},
                                     {uvs__amqp_text("x-delay"), uvs__amqp_string("7")}};
    amqp_table_t table = {2, entries};

    uvs__amqp_read_when(&table, &when);
    ASSERTm(texts[i], when.at_ns == 0 && when.delay_ns == UVS_MS(7));
  }
  PASS();
}

TEST a_readable_instant_counts_more_than_a_delay(void) {
  amqp_table_entry_t entries[2] = {
      {uvs__amqp_text("x-delay"), uvs__amqp_string("99999999999999999999")},
      {uvs__amqp_text("x-deliver-at"), uvs__amqp_string("1800000000000")}};
  amqp_table_t table = {2, entries};

  uvs__amqp_read_when(&table, &when);
  ASSERT_AT(UVS_SEC(1800000000));
  PASS();
}

/* Against libc: every first and last day of a month from year 1 to 9999 would be slow; a random
 * choice of instants is not. */
TEST instants_are_those_of_libc(void) {
  uint64_t random = test_seed;
  char text[40];
  int64_t ns;

  for (int i = 0; i < 20000; i++) {
    time_t t = (time_t)test_random_below(&random, 9000000000u) - 2000000000;
    struct tm tm;

    gmtime_r(&t, &tm);
    strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &tm);
    ASSERTm(text, uvs__amqp_read_instant(text, strlen(text), &ns));
    ASSERT_EQm(text, (int64_t)t * 1000000000, ns);
  }
  PASS();
}

SUITE(delays) {
  RUN_TEST(an_int8_is_a_delay);
  RUN_TEST(a_uint8_is_a_delay);
  RUN_TEST(an_int16_is_a_delay);
  RUN_TEST(a_uint16_is_a_delay);
  RUN_TEST(an_int32_is_a_delay);
  RUN_TEST(a_uint32_beyond_int32_is_negated_in_64_bits);
  RUN_TEST(an_int64_is_a_delay);
  RUN_TEST(a_uint64_is_a_delay);
  RUN_TEST(a_float_may_have_a_fraction);
  RUN_TEST(a_double_rounds_up_to_a_nanosecond);
  RUN_TEST(a_decimal_is_a_delay);
  RUN_TEST(decimal_text_is_a_delay);
  RUN_TEST(what_is_not_readable_means_now);
  RUN_TEST(zero_negative_and_nan_mean_now);
  RUN_TEST(a_hundred_years_are_kept_and_two_hundred_are_refused);
  RUN_TEST(the_longest_delay_is_one_that_the_store_takes);
}

SUITE(instants) {
  RUN_TEST(an_instant_is_a_timestamp_or_milliseconds_or_text);
  RUN_TEST(a_past_instant_means_now_and_a_far_one_is_refused);
  RUN_TEST(an_unreadable_instant_leaves_the_delay);
  RUN_TEST(a_readable_instant_counts_more_than_a_delay);
  RUN_TEST(instants_are_those_of_libc);
}

TEST_MAIN(RUN_SUITE(delays); RUN_SUITE(instants));
