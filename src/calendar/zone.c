/* SPDX-License-Identifier: MIT */
#include "calendar/zone.h"

#include <string.h>

#include <uv.h>

#include "calendar/memory.h"
#include "calendar/tzif.h"
#include "calendar/zone_file.h"
#include "port/process_lock.h"

struct uvs__zone {
  struct uvs__zone *next;        /* lock; zones.first */
  uint32_t opens;                /* lock */
  struct uvs__zone_table *table; /* lock */
  struct uvs__zone_stamp stamp;  /* lock; of the file when `table` was read */
  struct uvs__zone_source source;
  char name[]; /* constant, like `source` */
};

static struct {
  struct uvs__zone *first;
  uint64_t generation; /* how many times a zone got a different table */
} zones;

static struct uvs__zone *find_zone_locked(const char *name, const struct uvs__zone_source *source) {
  struct uvs__zone *z = zones.first;

  /* If TZ or TZDIR was changed, the same name may stand for another file. */
  while (z != NULL && (strcmp(z->name, name) != 0 || z->source.is_file != source->is_file ||
                       strcmp(z->source.text, source->text) != 0))
    z = z->next;
  return z;
}

/* Opens the zone once more if it is open already. NULL: it is not open. */
static struct uvs__zone *open_again(const char *name, const struct uvs__zone_source *source) {
  struct uvs__zone *z;

  uvs__process_lock();
  z = find_zone_locked(name, source);
  if (z != NULL)
    z->opens++;
  uvs__process_unlock();
  return z;
}

static void free_zone(struct uvs__zone *z) {
  uvs__zone_table_release(z->table);
  uvs__calendar_free(z);
}

static int make_zone(const char *name, const struct uvs__zone_source *source,
                     struct uvs__zone **ret, char *why, size_t size) {
  struct uvs__zone *z = uvs__calendar_alloc(1, sizeof *z, strlen(name) + 1);
  int rc;

  if (z == NULL) {
    snprintf(why, size, "%s", uv_strerror(UV_ENOMEM));
    return UV_ENOMEM;
  }
  z->next = NULL;
  z->opens = 1;
  z->source = *source;
  memcpy(z->name, name, strlen(name) + 1);
  rc = uvs__zone_read(source, &z->table, &z->stamp, why, size);
  if (rc == UV_ENOENT && source->may_be_missing) {
    memset(&z->stamp, 0, sizeof z->stamp);
    rc = uvs__zone_table_of_rule("UTC0", 4, &z->table);
  }
  if (rc < 0)
    uvs__calendar_free(z);
  else
    *ret = z;
  return rc;
}

/* Adds z. If another thread has added the same zone meanwhile, frees z and uses that zone. */
static int add_zone(struct uvs__zone *z, struct uvs__zone **ret) {
  struct uvs__zone *there;
  int rc;

  uvs__process_lock();
  rc = uvs__process_lock_at_fork();
  there = find_zone_locked(z->name, &z->source);
  if (rc == 0 && there != NULL) {
    there->opens++;
  } else if (rc == 0) {
    z->next = zones.first;
    zones.first = z;
  }
  uvs__process_unlock();
  if (rc < 0 || there != NULL)
    free_zone(z);
  if (rc == 0)
    *ret = there != NULL ? there : z;
  return rc;
}

int uvs__zone_open(const char *name, struct uvs__zone **ret, char *why, size_t size) {
  struct uvs__zone_source source;
  struct uvs__zone *z;
  int rc;

  if (name == NULL)
    name = "Local";
  rc = uvs__zone_locate(name, &source, why, size);
  if (rc < 0)
    return rc;
  z = open_again(name, &source);
  if (z != NULL) {
    *ret = z;
    return 0;
  }
  rc = make_zone(name, &source, &z, why, size);
  if (rc < 0)
    return rc;
  rc = add_zone(z, ret);
  if (rc < 0)
    snprintf(why, size, "%s", uv_strerror(rc));
  return rc;
}

/* Closes z once. True: that was the last close, and the caller must free z. */
static bool drop_zone_locked(struct uvs__zone *z) {
  struct uvs__zone **link = &zones.first;

  if (--z->opens > 0)
    return false;
  while (*link != z)
    link = &(*link)->next;
  *link = z->next;
  return true;
}

void uvs__zone_close(struct uvs__zone *z) {
  bool last;

  if (z == NULL)
    return;
  uvs__process_lock();
  last = drop_zone_locked(z);
  uvs__process_unlock();
  if (last)
    free_zone(z);
}

const char *uvs__zone_name(const struct uvs__zone *z) {
  return z->name;
}

const struct uvs__zone_table *uvs__zone_table(struct uvs__zone *z) {
  struct uvs__zone_table *t;

  uvs__process_lock();
  t = z->table;
  uvs__zone_table_hold(t);
  uvs__process_unlock();
  return t;
}

int uvs__zone_parse(const void *bytes, size_t n, struct uvs__zone_table **ret) {
  const char *why;

  return uvs__tzif_parse(bytes, n, ret, &why);
}

/* ---- refresh ---- */

/* Gives z a table that was read after z had the stamp `seen`. If another thread has replaced the
 * table of z since then, that table stays: it is not known which of the two is newer, and the next
 * refresh checks the file again. Returns the table that is no longer used. */
static struct uvs__zone_table *replace_table(struct uvs__zone *z, struct uvs__zone_table *table,
                                             const struct uvs__zone_stamp *seen,
                                             const struct uvs__zone_stamp *stamp) {
  struct uvs__zone_table *unused = table;

  uvs__process_lock();
  if (uvs__zone_stamp_equal(&z->stamp, seen)) {
    z->stamp = *stamp;
    if (!uvs__zone_table_equal(z->table, table)) {
      unused = z->table;
      z->table = table;
      zones.generation++;
    }
  }
  uvs__process_unlock();
  return unused;
}

/* A file that is damaged or missing changes nothing: an update may be in progress. Its stamp is not
 * stored, so the next refresh reads the file again. */
static void look_again(struct uvs__zone *z, const struct uvs__zone_stamp *seen) {
  struct uvs__zone_stamp stamp;
  struct uvs__zone_table *table;
  char why[1];

  if (!z->source.is_file || uvs__zone_stamp_of(z->source.text, &stamp) < 0 ||
      uvs__zone_stamp_equal(&stamp, seen) ||
      uvs__zone_read(&z->source, &table, &stamp, why, sizeof why) < 0)
    return;
  uvs__zone_table_release(replace_table(z, table, seen, &stamp));
}

uint64_t uvs__zones_refresh(void) {
  struct uvs__zone *z, *next;
  struct uvs__zone_stamp seen;
  uint64_t generation;
  bool last;

  uvs__process_lock();
  for (z = zones.first; z != NULL; z = next) {
    z->opens++; /* keeps z in the list while the lock is not held */
    seen = z->stamp;
    uvs__process_unlock();
    look_again(z, &seen);
    uvs__process_lock();
    next = z->next;
    last = drop_zone_locked(z);
    if (last)
      free_zone(z);
  }
  generation = zones.generation;
  uvs__process_unlock();
  return generation;
}
