/* SPDX-License-Identifier: MIT
 *
 * A message as the payload of a job and back; hostile payloads; no memory, also in rabbitmq-c.
 */
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/headers.h"
#include "amqp/message.h"
#include "amqp/wire.h"
#include "lib/main.h"

#define ROOM 65536

static amqp_bytes_t text_of(const char *s) {
  return uvs__amqp_text(s);
}

/* ------------------------------------------------------------ no memory --- */

/* The n-th allocation from now on fails; -1: none does. These are the library's own, and those of
 * rabbitmq-c where libc lets a program replace malloc (and valgrind does not replace it again). */
static long fail_at = -1;

static bool fails_now(void) {
  return fail_at >= 0 && fail_at-- == 0;
}

extern void *__real_uvs__amqp_alloc(size_t size);
extern void *__wrap_uvs__amqp_alloc(size_t size);

void *__wrap_uvs__amqp_alloc(size_t size) {
  return fails_now() ? NULL : __real_uvs__amqp_alloc(size);
}

#ifdef TEST_REPLACES_MALLOC
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size) {
  return fails_now() ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
  return fails_now() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
  return fails_now() ? NULL : __libc_realloc(old, size);
}
#endif

static bool malloc_is_ours(void) {
  void *(*volatile allocate)(size_t) = malloc; /* not inlined: valgrind replaces what is called */
  void *p;

  fail_at = 0;
  p = allocate(1);
  fail_at = -1;
  free(p);
  return p == NULL;
}

/* ------------------------------------------------------------- messages --- */

/* One of everything. */
static amqp_table_entry_t inner[2], headers[20];
static amqp_field_value_t items[3];
static struct uvs__amqp_message full;

static amqp_field_value_t value_of(uint8_t kind) {
  amqp_field_value_t v;

  memset(&v, 0, sizeof v);
  v.kind = kind;
  return v;
}

static void add_header(const char *name, amqp_field_value_t value) {
  headers[full.properties.headers.num_entries].key = text_of(name);
  headers[full.properties.headers.num_entries++].value = value;
}

static void make_full(void) {
  amqp_basic_properties_t *p = &full.properties;
  amqp_field_value_t v;

  memset(&full, 0, sizeof full);
  full.exchange = text_of("orders");
  full.routing_key = text_of("a.b.c");
  full.body = text_of("the body");
  p->_flags = UVS__AMQP_KNOWN;
  p->content_type = text_of("text/plain");
  p->content_encoding = text_of("gzip");
  p->delivery_mode = 2;
  p->priority = 9;
  p->correlation_id = text_of("corr");
  p->reply_to = text_of("reply");
  p->expiration = text_of("60000");
  p->message_id = text_of("id-1");
  p->timestamp = 0x0102030405060708;
  p->type = text_of("type");
  p->user_id = text_of("guest");
  p->app_id = text_of("app");
  p->cluster_id = text_of("");
  p->headers.entries = headers;
  v = value_of(AMQP_FIELD_KIND_BOOLEAN), v.value.boolean = 1, add_header("t", v);
  v = value_of(AMQP_FIELD_KIND_I8), v.value.i8 = -1, add_header("b", v);
  v = value_of(AMQP_FIELD_KIND_U8), v.value.u8 = 200, add_header("B", v);
  v = value_of(AMQP_FIELD_KIND_I16), v.value.i16 = -300, add_header("s", v);
  v = value_of(AMQP_FIELD_KIND_U16), v.value.u16 = 60000, add_header("u", v);
  v = value_of(AMQP_FIELD_KIND_I32), v.value.i32 = -70000, add_header("I", v);
  v = value_of(AMQP_FIELD_KIND_U32), v.value.u32 = 4000000000u, add_header("i", v);
  v = value_of(AMQP_FIELD_KIND_I64), v.value.i64 = -5000000000, add_header("l", v);
  v = value_of(AMQP_FIELD_KIND_U64), v.value.u64 = UINT64_MAX, add_header("L", v);
  v = value_of(AMQP_FIELD_KIND_F32), v.value.f32 = 0.5f, add_header("f", v);
  v = value_of(AMQP_FIELD_KIND_F64), v.value.f64 = -0.25, add_header("d", v);
  v = value_of(AMQP_FIELD_KIND_DECIMAL), v.value.decimal.decimals = 2, add_header("D", v);
  v = value_of(AMQP_FIELD_KIND_TIMESTAMP), v.value.u64 = 1800000000, add_header("T", v);
  add_header("V", value_of(AMQP_FIELD_KIND_VOID));
  add_header("S", uvs__amqp_string("text"));
  v = uvs__amqp_string("bytes"), v.kind = AMQP_FIELD_KIND_BYTES, add_header("x", v);
  items[0] = uvs__amqp_string("one");
  items[1] = value_of(AMQP_FIELD_KIND_VOID);
  items[2] = value_of(AMQP_FIELD_KIND_ARRAY);
  v = value_of(AMQP_FIELD_KIND_ARRAY), v.value.array.num_entries = 3, v.value.array.entries = items;
  add_header("A", v);
  inner[0].key = text_of("in");
  inner[0].value = uvs__amqp_string("side");
  inner[1].key = text_of("");
  inner[1].value = v;
  v = value_of(AMQP_FIELD_KIND_TABLE), v.value.table.num_entries = 2, v.value.table.entries = inner;
  add_header("F", v);
}

static bool same(amqp_bytes_t a, amqp_bytes_t b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.bytes, b.bytes, a.len) == 0);
}

TEST every_property_and_every_type_of_header_comes_back(void) {
  struct uvs__amqp_message back;
  uint8_t *data, *again;
  size_t size, size_again;
  amqp_pool_t pool;

  make_full();
  ASSERT_EQ(0, uvs__message_encode(&full, ROOM, &data, &size));
  init_amqp_pool(&pool, 4096);
  ASSERT_EQ(0, uvs__message_decode(data, size, &pool, &back));
  ASSERT(same(full.exchange, back.exchange) && same(full.routing_key, back.routing_key) &&
         same(full.body, back.body));
  ASSERT_EQ(full.properties._flags, back.properties._flags);
  ASSERT(same(full.properties.content_type, back.properties.content_type));
  ASSERT(same(full.properties.app_id, back.properties.app_id));
  ASSERT_EQ(9, back.properties.priority);
  ASSERT(full.properties.timestamp == back.properties.timestamp);
  ASSERT_EQ(full.properties.headers.num_entries, back.properties.headers.num_entries);
  ASSERT(uvs__header_find(&back.properties.headers, "L")->value.u64 == UINT64_MAX);
  ASSERT(same(
      inner[0].value.value.bytes,
      uvs__header_find(&back.properties.headers, "F")->value.table.entries[0].value.value.bytes));
  /* All the rest: encoded again, it is the same. */
  ASSERT_EQ(0, uvs__message_encode(&back, ROOM, &again, &size_again));
  ASSERT_EQ(size, size_again);
  ASSERT_MEM_EQ(data, again, size);
  uvs__amqp_free(again);
  uvs__amqp_free(data);
  empty_amqp_pool(&pool);
  PASS();
}

TEST an_empty_message_comes_back(void) {
  struct uvs__amqp_message none, back;
  uint8_t *data;
  amqp_pool_t pool;
  size_t size;

  memset(&none, 0, sizeof none);
  ASSERT_EQ(0, uvs__message_encode(&none, ROOM, &data, &size));
  init_amqp_pool(&pool, 4096);
  ASSERT_EQ(0, uvs__message_decode(data, size, &pool, &back));
  ASSERT(back.body.len == 0 && back.exchange.len == 0 && back.properties._flags == 0);
  uvs__amqp_free(data);
  empty_amqp_pool(&pool);
  PASS();
}

TEST a_message_that_is_exactly_as_large_as_the_store_allows_fits(void) {
  static char body[ROOM];
  struct uvs__amqp_message m;
  uint8_t *data;
  size_t size;

  memset(&m, 0, sizeof m);
  m.body.bytes = body;
  m.body.len = ROOM - 9; /* version, two empty names, a length, the flags of the properties */
  ASSERT_EQ(0, uvs__message_encode(&m, ROOM, &data, &size));
  ASSERT_EQ(ROOM, size);
  uvs__amqp_free(data);
  m.body.len++;
  ASSERT_EQ(UV_E2BIG, uvs__message_encode(&m, ROOM, &data, &size));
  m.body.len = SIZE_MAX;
  ASSERT_EQ(UV_E2BIG, uvs__message_encode(&m, ROOM, &data, &size));
  PASS();
}

TEST a_job_takes_a_body_of_1_mib_and_64_kib_of_everything_else(void) {
  static char body[UVS__BODY_MAX + 1], text[UVS__ENVELOPE_MAX];
  amqp_table_entry_t header = {text_of("t"), uvs__amqp_string("")};
  struct uvs__amqp_message m;
  uint8_t *data;
  size_t size;

  memset(&m, 0, sizeof m);
  m.body.bytes = body;
  m.body.len = UVS__BODY_MAX;
  m.properties._flags = AMQP_BASIC_HEADERS_FLAG;
  m.properties.headers.entries = &header;
  m.properties.headers.num_entries = 1;
  header.value.value.bytes.bytes = text;
  header.value.value.bytes.len = sizeof text - 20; /* 20: as above, and the table with one name */
  ASSERT_EQ(0, uvs__message_encode_job(&m, &data, &size));
  ASSERT_EQ(UVS__BODY_MAX + UVS__ENVELOPE_MAX, size);
  uvs__amqp_free(data);
  header.value.value.bytes.len++;
  ASSERT_EQ(UV_E2BIG, uvs__message_encode_job(&m, &data, &size));
  header.value.value.bytes.len = 0;
  m.body.len++;
  ASSERT_EQ(UV_E2BIG, uvs__message_encode_job(&m, &data, &size));
  m.body.len = SIZE_MAX;
  ASSERT_EQ(UV_E2BIG, uvs__message_encode_job(&m, &data, &size));
  PASS();
}

TEST what_amqp_cannot_encode_is_refused(void) {
  static char text[400];
  struct uvs__amqp_message m;
  amqp_table_entry_t entry;
  uint8_t *data;
  size_t size;

  memset(text, 'a', sizeof text - 1);
  memset(&m, 0, sizeof m);
  m.routing_key = text_of(text);
  ASSERT_EQ(UV_EINVAL, uvs__message_encode(&m, ROOM, &data, &size));
  memset(&m, 0, sizeof m);
  m.properties._flags = AMQP_BASIC_MESSAGE_ID_FLAG;
  m.properties.message_id = text_of(text);
  ASSERT_EQ(UV_EINVAL, uvs__message_encode(&m, ROOM, &data, &size));
  m.properties._flags = 1; /* more flags follow: there are none */
  ASSERT_EQ(UV_EINVAL, uvs__message_encode(&m, ROOM, &data, &size));
  entry.key = text_of("k");
  entry.value = value_of('?');
  m.properties._flags = AMQP_BASIC_HEADERS_FLAG;
  m.properties.headers.num_entries = 1;
  m.properties.headers.entries = &entry;
  ASSERT_EQ(UV_EINVAL, uvs__message_encode(&m, ROOM, &data, &size));
  entry.key = text_of(text);
  entry.value = value_of(AMQP_FIELD_KIND_VOID);
  ASSERT_EQ(UV_EINVAL, uvs__message_encode(&m, ROOM, &data, &size));
  PASS();
}

static int encode_nested(uint8_t kind, int depth) {
  static amqp_table_entry_t entries[60];
  static amqp_field_value_t values[60];
  struct uvs__amqp_message m;
  uint8_t *data = NULL;
  size_t size;
  int rc;

  for (int i = 0; i < depth; i++) {
    amqp_field_value_t v = value_of(i == 0 ? AMQP_FIELD_KIND_VOID : kind);

    if (i > 0 && kind == AMQP_FIELD_KIND_TABLE)
      v.value.table.num_entries = 1, v.value.table.entries = &entries[i - 1];
    else if (i > 0)
      v.value.array.num_entries = 1, v.value.array.entries = &values[i - 1];
    values[i] = v;
    entries[i].key = text_of("k");
    entries[i].value = v;
  }
  memset(&m, 0, sizeof m);
  m.properties._flags = AMQP_BASIC_HEADERS_FLAG;
  m.properties.headers.num_entries = 1;
  m.properties.headers.entries = &entries[depth - 1];
  rc = uvs__message_encode(&m, ROOM, &data, &size);
  if (rc == 0) { /* what is encoded can be decoded */
    struct uvs__amqp_message back;
    amqp_pool_t pool;

    init_amqp_pool(&pool, 4096);
    rc = uvs__message_decode(data, size, &pool, &back);
    empty_amqp_pool(&pool);
    uvs__amqp_free(data);
  }
  return rc;
}

TEST nesting_has_a_limit(void) {
  ASSERT_EQ(0, encode_nested(AMQP_FIELD_KIND_TABLE, 33));
  ASSERT_EQ(UV_EINVAL, encode_nested(AMQP_FIELD_KIND_TABLE, 34));
  ASSERT_EQ(0, encode_nested(AMQP_FIELD_KIND_ARRAY, 33));
  ASSERT_EQ(UV_EINVAL, encode_nested(AMQP_FIELD_KIND_ARRAY, 34));
  PASS();
}

/* --------------------------------------------------------------- hostile --- */

/* Decodes a copy that ends where its memory ends, so that a sanitizer or valgrind sees each read
 * past the end. What can be decoded can be encoded and is then the same. */
static enum greatest_test_res decode_hostile(const uint8_t *data, size_t size) {
  struct uvs__amqp_message m;
  uint8_t *copy = malloc(size == 0 ? 1 : size), *again;
  amqp_bytes_t exchange;
  amqp_pool_t pool;
  size_t size_again;
  int rc;

  ASSERT(copy != NULL);
  memcpy(copy, data, size);
  init_amqp_pool(&pool, 4096);
  rc = uvs__message_decode(copy, size, &pool, &m);
  ASSERT(rc == 0 || rc == UV_EINVAL);
  if (rc == 0) {
    ASSERT_EQ(0, uvs__message_exchange(copy, size, &exchange));
    ASSERT(same(exchange, m.exchange));
    ASSERT_EQ(0, uvs__message_encode(&m, size + 1024, &again, &size_again));
    uvs__amqp_free(again);
  }
  empty_amqp_pool(&pool);
  free(copy);
  return GREATEST_TEST_RES_PASS;
}

TEST every_prefix_of_a_message_is_refused_or_whole(void) {
  uint8_t *data;
  size_t size;

  make_full();
  ASSERT_EQ(0, uvs__message_encode(&full, ROOM, &data, &size));
  for (size_t n = 0; n < size; n++)
    CHECK_CALL(decode_hostile(data, n));
  uvs__amqp_free(data);
  PASS();
}

TEST changed_bytes_never_lead_past_the_end(void) {
  uint64_t random = test_seed;
  uint8_t *data, *copy;
  size_t size;

  make_full();
  ASSERT_EQ(0, uvs__message_encode(&full, ROOM, &data, &size));
  copy = malloc(size);
  ASSERT(copy != NULL);
  for (int i = 0; i < 20000; i++) {
    memcpy(copy, data, size);
    for (uint64_t k = 1 + test_random_below(&random, 4); k > 0; k--)
      copy[test_random_below(&random, size)] = (uint8_t)test_random(&random);
    CHECK_CALL(decode_hostile(copy, size));
  }
  free(copy);
  uvs__amqp_free(data);
  PASS();
}

TEST random_bytes_are_refused_or_a_message(void) {
  static const char kinds[] = "tbBsuIilLfdDTVSxAF";
  uint64_t random = test_seed;
  uint8_t data[200];

  for (int i = 0; i < 50000; i++) {
    size_t size = (size_t)test_random_below(&random, sizeof data);

    for (size_t k = 0; k < size; k++) /* half of the bytes are such that the decoder goes on */
      data[k] = test_random_below(&random, 2) ? (uint8_t)kinds[test_random_below(&random, 18)]
                                              : (uint8_t)test_random_below(&random, 4);
    if (size > 0)
      data[0] = 1;
    CHECK_CALL(decode_hostile(data, size));
  }
  PASS();
}

TEST ten_thousand_tables_inside_each_other_are_refused(void) {
  static uint8_t data[65536];
  size_t at = 0, end = sizeof data;

  data[at++] = 1, data[at++] = 0, data[at++] = 0; /* version, names */
  data[at++] = 0, data[at++] = 0, data[at++] = 0xff, data[at++] = 0xf9;
  data[at++] = AMQP_BASIC_HEADERS_FLAG >> 8, data[at++] = 0;
  while (end - at > 6) {
    uint32_t n = (uint32_t)(end - at - 4);

    data[at++] = (uint8_t)(n >> 24), data[at++] = (uint8_t)(n >> 16);
    data[at++] = (uint8_t)(n >> 8), data[at++] = (uint8_t)n;
    data[at++] = 0; /* the name */
    data[at++] = 'F';
  }
  CHECK_CALL(decode_hostile(data, sizeof data));
  PASS();
}

/* ------------------------------------------------------------- no memory --- */

TEST without_memory_it_says_so_and_leaks_nothing(void) {
  struct uvs__amqp_message back;
  uint8_t *data;
  size_t size;
  amqp_pool_t pool;
  long n;
  int rc;

  make_full();
  for (n = 0;; n++) {
    data = NULL;
    fail_at = n;
    rc = uvs__message_encode(&full, ROOM, &data, &size);
    if (fail_at >= 0)
      break; /* it needed no more */
    fail_at = -1;
    ASSERT_EQ(UV_ENOMEM, rc);
  }
  fail_at = -1;
  ASSERT(n >= 2);
  ASSERT_EQ(0, rc);
  for (n = 0;; n++) {
    fail_at = n;
    init_amqp_pool(&pool, 64); /* small: every table needs a page of its own */
    rc = uvs__message_decode(data, size, &pool, &back);
    if (rc == 0 && !uvs__headers_own(&back.properties, 2, &pool))
      rc = UV_ENOMEM;
    empty_amqp_pool(&pool);
    if (fail_at >= 0)
      break;
    fail_at = -1;
    ASSERT_EQ(UV_ENOMEM, rc);
  }
  fail_at = -1;
  ASSERT_EQ(0, rc);
  if (malloc_is_ours())
    ASSERT(n >= 4);
  else
    printf("\nrabbitmq-c's own allocations did not fail here\n");
  uvs__amqp_free(data);
  PASS();
}

/* -------------------------------------------------------------- restore --- */

static amqp_table_entry_t text_entry(const char *name, const char *value) {
  amqp_table_entry_t e = {text_of(name), uvs__amqp_string(value)};

  return e;
}

TEST an_expiration_that_the_broker_took_away_comes_back(void) {
  amqp_table_entry_t ours[2] = {text_entry("queue", "uvsched.in"),
                                text_entry("original-expiration", "5000")};
  amqp_table_entry_t other[1] = {text_entry("queue", "elsewhere")};
  amqp_field_value_t deaths[2] = {value_of(AMQP_FIELD_KIND_TABLE), value_of(AMQP_FIELD_KIND_TABLE)};
  amqp_table_entry_t entries[5] = {
      text_entry("mine", "kept"), text_entry("x-first-death-queue", "uvsched.in"),
      text_entry("x-first-death-exchange", "in"), text_entry("x-first-death-reason", "expired"),
      text_entry("x-death", "")};
  amqp_basic_properties_t p;
  amqp_pool_t pool;

  deaths[0].value.table.num_entries = 2, deaths[0].value.table.entries = ours;
  deaths[1].value.table.num_entries = 1, deaths[1].value.table.entries = other;
  entries[4].value = value_of(AMQP_FIELD_KIND_ARRAY);
  entries[4].value.value.array.entries = deaths;
  init_amqp_pool(&pool, 4096);
  for (int n = 1; n <= 2; n++) {
    memset(&p, 0, sizeof p);
    p._flags = AMQP_BASIC_HEADERS_FLAG;
    p.headers.num_entries = 5;
    p.headers.entries = entries;
    entries[4].value.value.array.num_entries = n;
    ASSERT(uvs__headers_own(&p, 0, &pool));
    ASSERT(uvs__headers_restore(&p, "uvsched.in", &pool));
    ASSERT(p._flags & AMQP_BASIC_EXPIRATION_FLAG && uvs__amqp_is(p.expiration, "5000"));
    ASSERT(uvs__header_find(&p.headers, "mine") != NULL);
    ASSERT_EQ(NULL, uvs__header_find(&p.headers, "x-first-death-queue"));
    ASSERT_EQ(NULL, uvs__header_find(&p.headers, "x-first-death-reason"));
    /* A death elsewhere is the user's, and stays. */
    ASSERT_EQ(n == 2, uvs__header_find(&p.headers, "x-death") != NULL);
    ASSERT_EQ(n, p.headers.num_entries);
  }
  ASSERT_EQ(5, (int)(sizeof entries / sizeof entries[0]));
  ASSERT(uvs__amqp_is(entries[0].key, "mine") && uvs__amqp_is(entries[4].key, "x-death"));
  empty_amqp_pool(&pool);
  PASS();
}

SUITE(messages) {
  RUN_TEST(every_property_and_every_type_of_header_comes_back);
  RUN_TEST(an_empty_message_comes_back);
  RUN_TEST(a_message_that_is_exactly_as_large_as_the_store_allows_fits);
  RUN_TEST(a_job_takes_a_body_of_1_mib_and_64_kib_of_everything_else);
  RUN_TEST(what_amqp_cannot_encode_is_refused);
  RUN_TEST(nesting_has_a_limit);
  RUN_TEST(an_expiration_that_the_broker_took_away_comes_back);
}

SUITE(hostile) {
  RUN_TEST(every_prefix_of_a_message_is_refused_or_whole);
  RUN_TEST(changed_bytes_never_lead_past_the_end);
  RUN_TEST(random_bytes_are_refused_or_a_message);
  RUN_TEST(ten_thousand_tables_inside_each_other_are_refused);
  RUN_TEST(without_memory_it_says_so_and_leaks_nothing);
}

TEST_MAIN(RUN_SUITE(messages); RUN_SUITE(hostile));
