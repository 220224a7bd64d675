/* SPDX-License-Identifier: MIT
 *
 * The index by name is a digital search tree, as in core/names.c, but of records instead of tasks.
 */
#include "core/moves.h"
#include "util/utf8.h"

#include <string.h>

/* The link to the record of this name. If there is none: the empty link where it would be added. */
static uint16_t *link_of(struct uvs__name_stats *n, const char *name) {
  uint64_t h = uvs__name_hash(name);
  uint16_t *link = &n->root;

  for (; *link != 0; h >>= 1) {
    struct uvs__name_stat *r = n->of[*link];

    if (strcmp(r->name, name) == 0)
      break;
    link = &r->child[h & 1];
  }
  return link;
}

/* Lock held, but released to allocate: a record that is not in the index; or NULL. */
static struct uvs__name_stat *make_record(uvs_t *s, const char *name) {
  struct uvs__name_stat *r;

  uvs__unlock(s);
  r = uvs__mem_alloc(&s->mem, 1, sizeof *r, 0);
  if (r != NULL) {
    memset(r, 0, sizeof *r);
    memcpy(r->name, name, strlen(name));
  }
  uvs__lock(s);
  return r;
}

/* Lock held, but released to free a record that is not needed: another thread has added one for the
 * same name, or the last one. */
static void free_spare(uvs_t *s, struct uvs__name_stat *r) {
  uvs__unlock(s);
  uvs__mem_free(&s->mem, r);
  uvs__lock(s);
}

/* Lock held, but released to allocate. */
static uint16_t other_record(uvs_t *s) {
  struct uvs__name_stat **of = &s->name_stats.of[UVS__OTHER];
  struct uvs__name_stat *r;

  if (*of != NULL)
    return UVS__OTHER;
  r = make_record(s, UVS_NAME_OTHER);
  if (r == NULL)
    return 0;
  if (*of == NULL)
    *of = r;
  else
    free_spare(s, r);
  return UVS__OTHER;
}

static bool has_room_for_name(const struct uvs__name_stats *n) {
  return n->made < n->most + UVS__OTHER + 1;
}

uint16_t uvs__name_stat(uvs_t *s, const char *name) {
  struct uvs__name_stats *n = &s->name_stats;
  struct uvs__name_stat *r;
  uint16_t *link;

  if (n->most == 0 || name == NULL || name[0] == '\0')
    return 0;
  link = link_of(n, name);
  if (*link != 0)
    return *link;
  if (!has_room_for_name(n) || strcmp(name, UVS_NAME_OTHER) == 0 || !uvs__is_utf8(name))
    return other_record(s);
  r = make_record(s, name);
  if (r == NULL)
    return other_record(s);
  link = link_of(n, name); /* the lock was released */
  if (*link == 0 && has_room_for_name(n)) {
    n->of[n->made] = r;
    return *link = n->made++;
  }
  free_spare(s, r);
  return *link_of(n, name) != 0 ? *link_of(n, name) : other_record(s);
}

const struct uvs__name_stat *uvs__name_stat_find(const uvs_t *s, const char *name) {
  const struct uvs__name_stats *n = &s->name_stats;
  uint64_t h = uvs__name_hash(name);
  uint16_t i = n->root;

  if (strcmp(name, UVS_NAME_OTHER) == 0)
    return n->of[UVS__OTHER];
  for (; i != 0 && strcmp(n->of[i]->name, name) != 0; h >>= 1)
    i = n->of[i]->child[h & 1];
  return n->of[i]; /* of[0] is NULL */
}

void uvs__name_stats_free(uvs_t *s) {
  for (int i = 0; i < UVS__NAME_STATS; i++)
    uvs__mem_free(&s->mem, s->name_stats.of[i]);
}

bool uvs__is_utf8(const char *text) {
  const unsigned char *p = (const void *)text;

  while (*p != '\0') {
    size_t n = uvs__utf8_length(p);

    if (n == 0)
      return false;
    p += n;
  }
  return true;
}
