/* SPDX-License-Identifier: MIT */
#include "calendar/tzif.h"

#include <string.h>

#include <uv.h>

/* RFC 9636, 3.2: offsets lie between -25 and 26 hours, both exclusive. */
#define OFFSET_MIN (-89999)
#define OFFSET_MAX 93599
/* Later instants, and earlier ones than -2^59, are refused: zic never writes them. */
#define INSTANT_MAX (INT64_C(1) << 59)
#define TYPES_MAX 256
#define TYPE_SIZE 6

/* The part of the image that was not read yet. */
struct image {
  const unsigned char *next;
  size_t left;
};

struct tzif_header {
  unsigned char version; /* 0, or '2' and later */
  uint32_t ut_count, std_count, leap_count, time_count, type_count, char_count;
};

struct tzif_block {
  const unsigned char *times, *types_of_times, *types;
  uint32_t time_count, type_count;
  size_t time_size; /* bytes of an instant */
};

/* The next n bytes; NULL: there are fewer. */
static const unsigned char *image_take(struct image *m, uint64_t n) {
  const unsigned char *p = m->next;

  if (n > m->left)
    return NULL;
  m->next += n;
  m->left -= (size_t)n;
  return p;
}

static uint32_t big_endian_32(const unsigned char *p) {
  return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* A cast of a large value would be implementation-defined. */
static int64_t signed_of(uint64_t value) {
  return value <= INT64_MAX ? (int64_t)value : -(int64_t)(UINT64_MAX - value) - 1;
}

static int64_t time_at(const struct tzif_block *b, uint32_t i) {
  const unsigned char *p = b->times + i * b->time_size;
  uint64_t high = big_endian_32(p);

  if (b->time_size == 8)
    return signed_of(high << 32 | big_endian_32(p + 4));
  return signed_of(high > INT32_MAX ? high | UINT64_C(0xffffffff) << 32 : high);
}

static int32_t offset_of_type(const struct tzif_block *b, uint32_t type) {
  uint64_t value = big_endian_32(b->types + type * TYPE_SIZE);

  return (int32_t)signed_of(value > INT32_MAX ? value | UINT64_C(0xffffffff) << 32 : value);
}

static const char *take_header(struct image *m, struct tzif_header *h) {
  const unsigned char *p = image_take(m, 44);
  uint32_t *counts[] = {&h->ut_count,   &h->std_count,  &h->leap_count,
                        &h->time_count, &h->type_count, &h->char_count};

  if (p == NULL || memcmp(p, "TZif", 4) != 0)
    return "it is not a time zone file";
  h->version = p[4];
  if (h->version != 0 && h->version < '2')
    return "its version is unknown";
  for (int i = 0; i < 6; i++)
    *counts[i] = big_endian_32(p + 20 + 4 * i);
  return NULL;
}

/* Less than 2^38 bytes: the sum does not overflow. */
static uint64_t block_size(const struct tzif_header *h, size_t time_size) {
  return (uint64_t)h->time_count * (time_size + 1) + (uint64_t)h->type_count * TYPE_SIZE +
         h->char_count + (uint64_t)h->leap_count * (time_size + 4) + h->std_count + h->ut_count;
}

static const char *check_types(const struct tzif_block *b, const unsigned char *chars,
                               uint32_t char_count) {
  for (uint32_t i = 0; i < b->type_count; i++) {
    const unsigned char *type = b->types + i * TYPE_SIZE;
    int32_t offset = offset_of_type(b, i);

    if (offset < OFFSET_MIN || offset > OFFSET_MAX)
      return "an offset is out of range";
    if (type[4] > 1 || type[5] >= char_count ||
        memchr(chars + type[5], 0, char_count - type[5]) == NULL)
      return "a local time type is damaged";
  }
  return NULL;
}

static const char *check_times(const struct tzif_block *b) {
  int64_t before = -INSTANT_MAX - 1;

  for (uint32_t i = 0; i < b->time_count; i++) {
    int64_t at = time_at(b, i);

    if (at <= before || at > INSTANT_MAX)
      return "its transitions are out of order";
    if (b->types_of_times[i] >= b->type_count)
      return "a transition has no local time type";
    before = at;
  }
  return NULL;
}

static const char *take_block(struct image *m, const struct tzif_header *h, struct tzif_block *b) {
  const unsigned char *p = image_take(m, block_size(h, b->time_size)), *chars;
  const char *wrong;

  if (p == NULL)
    return "it ends too early";
  if (h->leap_count != 0)
    return "it counts leap seconds, which the system's clock does not; use the zone without right/";
  if (h->type_count == 0 || h->type_count > TYPES_MAX || h->char_count == 0 ||
      (h->std_count != 0 && h->std_count != h->type_count) ||
      (h->ut_count != 0 && h->ut_count != h->type_count))
    return "its counts are invalid";
  b->time_count = h->time_count;
  b->type_count = h->type_count;
  b->times = p;
  b->types_of_times = b->times + h->time_count * b->time_size;
  b->types = b->types_of_times + h->time_count;
  chars = b->types + (size_t)h->type_count * TYPE_SIZE;
  wrong = check_types(b, chars, h->char_count);
  return wrong != NULL ? wrong : check_times(b);
}

/* The footer is a rule between two line ends, and the end of the image. */
static const char *take_footer(struct image *m, struct uvs__posix_rule *rule, bool *ret_has) {
  const char *text = (const char *)m->next + 1;

  if (m->left < 2 || m->next[0] != '\n' || m->next[m->left - 1] != '\n')
    return "its footer is missing";
  *ret_has = m->left > 2;
  if (*ret_has && uvs__posix_rule_parse(text, m->left - 2, rule) < 0)
    return "the rule in its footer is damaged";
  return NULL;
}

/* Finds the block to use: the block with 64-bit times if the image has one. */
static const char *read_image(struct image *m, struct tzif_block *b, struct uvs__posix_rule *rule,
                              bool *ret_has_rule) {
  struct tzif_header h;
  const char *wrong = take_header(m, &h);

  *ret_has_rule = false;
  if (wrong != NULL)
    return wrong;
  b->time_size = 4;
  if (h.version == 0) {
    wrong = take_block(m, &h, b);
    return wrong != NULL || m->left == 0 ? wrong : "there are bytes after its end";
  }
  if (image_take(m, block_size(&h, 4)) == NULL)
    return "it ends too early";
  b->time_size = 8;
  if ((wrong = take_header(m, &h)) != NULL || (wrong = take_block(m, &h, b)) != NULL)
    return wrong;
  return take_footer(m, rule, ret_has_rule);
}

/* Leaves out transitions that do not change the offset. */
static void fill_table(struct uvs__zone_table *t, const struct tzif_block *b) {
  t->offset_s[0] = offset_of_type(b, 0);
  for (uint32_t i = 0; i < b->time_count; i++) {
    int32_t offset = offset_of_type(b, b->types_of_times[i]);

    t->tail_s = time_at(b, i);
    if (offset == t->offset_s[t->count])
      continue;
    t->at_s[t->count++] = t->tail_s;
    t->offset_s[t->count] = offset;
  }
}

int uvs__tzif_parse(const void *bytes, size_t n, struct uvs__zone_table **ret,
                    const char **ret_why) {
  struct image m = {bytes, n};
  struct uvs__zone_span span;
  struct uvs__posix_rule rule;
  struct uvs__zone_table *t;
  struct tzif_block b;
  bool has_rule;

  *ret_why = read_image(&m, &b, &rule, &has_rule);
  if (*ret_why != NULL)
    return UV_EINVAL;
  t = uvs__zone_table_make(b.time_count);
  if (t == NULL)
    return UV_ENOMEM;
  fill_table(t, &b);
  if (has_rule) {
    t->has_rule = true;
    t->rule = rule;
    uvs__posix_rule_find(&rule, t->tail_s, &span);
    if (b.time_count > 0 && span.offset_s != t->offset_s[t->count]) {
      *ret_why = "the rule in its footer contradicts its last transition";
      uvs__zone_table_release(t);
      return UV_EINVAL;
    }
  }
  *ret = t;
  return 0;
}
