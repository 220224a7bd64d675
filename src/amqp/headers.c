/* SPDX-License-Identifier: MIT */
#include "amqp/headers.h"

#include <string.h>

amqp_bytes_t uvs__amqp_text(const char *text) {
  amqp_bytes_t b = {strlen(text), (void *)(uintptr_t)text};

  return b;
}

bool uvs__amqp_is(amqp_bytes_t bytes, const char *text) {
  return bytes.len == strlen(text) && memcmp(bytes.bytes, text, bytes.len) == 0;
}

amqp_field_value_t uvs__amqp_string(const char *text) {
  amqp_field_value_t v;

  memset(&v, 0, sizeof v);
  v.kind = AMQP_FIELD_KIND_UTF8;
  v.value.bytes = uvs__amqp_text(text);
  return v;
}

/* ----------------------------------------------------------------- entries --- */

static int position(const amqp_table_t *t, const char *name) {
  for (int i = 0; i < t->num_entries; i++)
    if (uvs__amqp_is(t->entries[i].key, name))
      return i;
  return -1;
}

const amqp_field_value_t *uvs__header_find(const amqp_table_t *headers, const char *name) {
  int i = position(headers, name);

  return i < 0 ? NULL : &headers->entries[i].value;
}

bool uvs__headers_own(amqp_basic_properties_t *p, int more, amqp_pool_t *pool) {
  int n = p->_flags & AMQP_BASIC_HEADERS_FLAG ? p->headers.num_entries : 0;
  amqp_table_entry_t *copy =
      amqp_pool_alloc(pool, (size_t)(n + more + 1) * sizeof(amqp_table_entry_t));

  if (copy == NULL)
    return false;
  if (n > 0)
    memcpy(copy, p->headers.entries, (size_t)n * sizeof *copy);
  p->headers.entries = copy;
  p->headers.num_entries = n;
  return true;
}

void uvs__header_set(amqp_basic_properties_t *p, const char *name, amqp_field_value_t value) {
  int i = position(&p->headers, name);

  if (i < 0) {
    i = p->headers.num_entries++;
    p->headers.entries[i].key = uvs__amqp_text(name);
    p->_flags |= AMQP_BASIC_HEADERS_FLAG;
  }
  p->headers.entries[i].value = value;
}

void uvs__header_remove(amqp_basic_properties_t *p, const char *name) {
  int i = position(&p->headers, name);

  if (i < 0)
    return;
  p->headers.num_entries--;
  memmove(&p->headers.entries[i], &p->headers.entries[i + 1],
          (size_t)(p->headers.num_entries - i) * sizeof p->headers.entries[0]);
  if (p->headers.num_entries == 0)
    p->_flags &= ~(amqp_flags_t)AMQP_BASIC_HEADERS_FLAG;
}

/* ----------------------------------------------------------------- restore --- */

static bool is_text(const amqp_field_value_t *v, const char *text) {
  return v != NULL && v->kind == AMQP_FIELD_KIND_UTF8 && uvs__amqp_is(v->value.bytes, text);
}

/* Removes the headers PREFIX-exchange, PREFIX-queue and PREFIX-reason if they are about this queue.
 */
static void remove_record(amqp_basic_properties_t *p, const char *prefix, const char *queue) {
  static const char *const ends[] = {"-queue", "-exchange", "-reason"};
  char name[40];

  for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
    strcpy(name, prefix);
    strcat(name, ends[i]);
    if (i == 0 && !is_text(uvs__header_find(&p->headers, name), queue))
      return;
    uvs__header_remove(p, name);
  }
}

bool uvs__headers_restore(amqp_basic_properties_t *p, const char *queue, amqp_pool_t *pool) {
  const amqp_field_value_t *death = uvs__header_find(&p->headers, "x-death");
  amqp_field_value_t kept;
  int n = 0;

  remove_record(p, "x-first-death", queue);
  remove_record(p, "x-last-death", queue);
  if (death == NULL || death->kind != AMQP_FIELD_KIND_ARRAY)
    return true;
  kept = *death;
  kept.value.array.entries = amqp_pool_alloc(pool, (size_t)(death->value.array.num_entries + 1) *
                                                       sizeof(amqp_field_value_t));
  if (kept.value.array.entries == NULL)
    return false;
  for (int i = 0; i < death->value.array.num_entries; i++) {
    const amqp_field_value_t *one = &death->value.array.entries[i];
    const amqp_field_value_t *original;

    if (one->kind != AMQP_FIELD_KIND_TABLE ||
        !is_text(uvs__header_find(&one->value.table, "queue"), queue)) {
      kept.value.array.entries[n++] = *one;
      continue;
    }
    original = uvs__header_find(&one->value.table, "original-expiration");
    if (original != NULL && original->kind == AMQP_FIELD_KIND_UTF8) {
      p->expiration = original->value.bytes;
      p->_flags |= AMQP_BASIC_EXPIRATION_FLAG;
    }
  }
  kept.value.array.num_entries = n;
  if (n == 0)
    uvs__header_remove(p, "x-death");
  else
    uvs__header_set(p, "x-death", kept);
  return true;
}
