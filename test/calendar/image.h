/* SPDX-License-Identifier: MIT
 *
 * TZif images made by hand. Header only, also for the fuzz target.
 */
#ifndef TEST_IMAGE_H
#define TEST_IMAGE_H

#include <stdint.h>
#include <string.h>

#define IMAGE_ROOM 4096

/* Bytes, and where the counts stand: they can be damaged afterwards. */
struct tzif_image {
  unsigned char bytes[IMAGE_ROOM];
  size_t size;
  size_t header; /* of the block that counts */
};

/* What is in the block. From at_s[i] on, the offset is offset_s[type[i]]. */
struct tzif_plan {
  unsigned char version; /* 0, '2', ... */
  int types, times;
  int32_t offset_s[8];
  int64_t at_s[16];
  unsigned char type[16];
  const char *footer; /* without its line ends */
};

/* Where the six counts stand in a header. */
enum {
  COUNT_UT = 20,
  COUNT_STD = 24,
  COUNT_LEAP = 28,
  COUNT_TIME = 32,
  COUNT_TYPE = 36,
  COUNT_CHAR = 40
};

static inline void image_put(struct tzif_image *m, uint64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; i--)
    m->bytes[m->size++] = (unsigned char)(value >> (8 * i));
}

static inline void image_set_count(struct tzif_image *m, int count, uint32_t value) {
  size_t size = m->size;

  m->size = m->header + (size_t)count;
  image_put(m, value, 4);
  m->size = size;
}

static inline void image_block(struct tzif_image *m, const struct tzif_plan *p, int time_size) {
  m->header = m->size;
  memset(m->bytes + m->size, 0, 44);
  memcpy(m->bytes + m->size, "TZif", 4);
  m->bytes[m->size + 4] = p->version;
  m->size += 44;
  image_set_count(m, COUNT_TIME, (uint32_t)p->times);
  image_set_count(m, COUNT_TYPE, (uint32_t)p->types);
  image_set_count(m, COUNT_CHAR, 4);
  for (int i = 0; i < p->times; i++)
    image_put(m, (uint64_t)p->at_s[i], time_size);
  for (int i = 0; i < p->times; i++)
    image_put(m, p->type[i], 1);
  for (int i = 0; i < p->types; i++) {
    image_put(m, (uint32_t)p->offset_s[i], 4);
    image_put(m, 0, 2);
  }
  memcpy(m->bytes + m->size, "ABC", 4);
  m->size += 4;
}

static inline struct tzif_image image_of(const struct tzif_plan *p) {
  struct tzif_plan first = {.version = p->version, .types = 1};
  struct tzif_image m;

  m.size = 0;
  if (p->version == 0) {
    image_block(&m, p, 4);
    return m;
  }
  image_block(&m, &first, 4);
  image_block(&m, p, 8);
  m.bytes[m.size++] = '\n';
  if (p->footer != NULL) {
    memcpy(m.bytes + m.size, p->footer, strlen(p->footer));
    m.size += strlen(p->footer);
  }
  m.bytes[m.size++] = '\n';
  return m;
}

#endif
