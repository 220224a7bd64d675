/* SPDX-License-Identifier: MIT */
#include "power_disk.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include <sqlite3.h>

struct entry {
  struct entry *next;
  struct power_file *live, *stable; /* NULL: the name is not there */
  char name[];
};

enum fate { WORKS, FAILS, LOSES_POWER };

static struct {
  uint64_t random;
  unsigned life;
  bool off;
  struct power_file *files;
  struct entry *entries;
  uint64_t counts[POWER_OPS], failures, cut_in, cut_in_then;
  struct {
    uint64_t in; /* operations until it fails; 0: none will */
    bool lasting;
    int code;
  } faults[POWER_OPS];
} disk = {.random = 1};

void *power_memory(void *old, size_t size) {
  void *p = realloc(old, size);

  if (p == NULL)
    abort();
  return p;
}

/* xorshift64* */
uint64_t power_below(uint64_t n) {
  disk.random ^= disk.random >> 12;
  disk.random ^= disk.random << 25;
  disk.random ^= disk.random >> 27;
  return (disk.random * UINT64_C(2685821657736338717) >> 11) % n;
}

/* -------------------------------------------------------------- images --- */

static void image_resize(struct power_image *image, size_t size) {
  if (size > image->room) {
    image->room = size + size / 2;
    image->data = power_memory(image->data, image->room);
  }
  if (size > image->size)
    memset(image->data + image->size, 0, size - image->size);
  image->size = size;
}

static void image_write(struct power_image *image, const uint8_t *data, size_t size,
                        size_t offset) {
  if (size == 0)
    return;
  if (offset + size > image->size)
    image_resize(image, offset + size);
  memcpy(image->data + offset, data, size);
}

static void image_apply(struct power_image *image, const struct power_change *change) {
  if (change->data == NULL)
    image_resize(image, change->offset);
  else
    image_write(image, change->data, change->size, change->offset);
}

/* Each sector of the change is written or not. */
static void image_tear(struct power_image *image, const struct power_change *change) {
  size_t end = change->offset + change->size, sector_end;

  for (size_t at = change->offset; at < end; at = sector_end) {
    sector_end = (at / POWER_SECTOR + 1) * POWER_SECTOR;
    if (sector_end > end)
      sector_end = end;
    if (power_below(2) == 0)
      image_write(image, change->data + (at - change->offset), sector_end - at, at);
  }
}

/* ------------------------------------------------------------- changes --- */

static void add_change(struct power_file *f, const void *data, size_t size, size_t offset) {
  struct power_change *change;

  if (f->n_changes == f->room) {
    f->room = f->room * 2 + 16;
    f->changes = power_memory(f->changes, f->room * sizeof *f->changes);
  }
  change = &f->changes[f->n_changes++];
  *change = (struct power_change){.size = size, .offset = offset};
  if (data != NULL) {
    change->data = power_memory(NULL, size + 1);
    memcpy(change->data, data, size);
  }
  image_apply(&f->live, change);
}

static void forget_changes(struct power_file *f) {
  for (size_t i = 0; i < f->n_changes; i++)
    free(f->changes[i].data);
  f->n_changes = 0;
}

static void flush(struct power_file *f) {
  for (size_t i = 0; i < f->n_changes; i++)
    image_apply(&f->stable, &f->changes[i]);
  forget_changes(f);
}

/* A failed sync: the newest changes wait for the next one. Each of the others is on the disk now,
 * or never will be. */
static void flush_badly(struct power_file *f) {
  size_t handled = power_below(f->n_changes + 1);

  for (size_t i = 0; i < handled; i++) {
    if (f->changes[i].data == NULL || power_below(2) == 0)
      image_apply(&f->stable, &f->changes[i]);
    free(f->changes[i].data);
  }
  f->n_changes -= handled;
  if (handled > 0 && f->n_changes > 0)
    memmove(f->changes, f->changes + handled, f->n_changes * sizeof *f->changes);
}

/* Of each 256 changes, so many are kept whole, and half of the others are torn. */
static void lose_changes(struct power_file *f, uint64_t kept) {
  for (size_t i = 0; i < f->n_changes; i++) {
    if (power_below(256) < kept)
      image_apply(&f->stable, &f->changes[i]);
    else if (kept > 0 && f->changes[i].data != NULL && power_below(2) == 0)
      image_tear(&f->stable, &f->changes[i]);
  }
  forget_changes(f);
  image_resize(&f->live, 0);
  image_write(&f->live, f->stable.data, f->stable.size, 0);
}

/* --------------------------------------------------------- power, faults --- */

void power_cut(void) {
  static const uint64_t kept[] = {0, 32, 128, 224, 256};

  if (disk.off)
    return;
  disk.off = true;
  disk.life++;
  disk.cut_in = 0;
  for (struct power_file *f = disk.files; f != NULL; f = f->next) {
    lose_changes(f, kept[power_below(sizeof kept / sizeof *kept)]);
    f->sharing = NULL;
  }
  for (struct entry *e = disk.entries; e != NULL; e = e->next)
    if (power_below(2) == 0)
      e->live = e->stable;
    else
      e->stable = e->live;
}

void power_cut_at(uint64_t n) {
  disk.cut_in = n;
}

bool power_is_off(void) {
  return disk.off;
}

void power_on(void) {
  disk.off = false;
}

unsigned power_life(void) {
  return disk.life;
}

void power_fail(enum power_op op, uint64_t n, bool lasting, int code) {
  disk.faults[op].in = n;
  disk.faults[op].lasting = lasting;
  disk.faults[op].code = code;
}

void power_cut_after_failure(uint64_t n) {
  disk.cut_in_then = n;
}

void power_heal(void) {
  memset(disk.faults, 0, sizeof disk.faults);
}

uint64_t power_count(enum power_op op) {
  return disk.counts[op];
}

uint64_t power_failures(void) {
  return disk.failures;
}

void power_reset(uint64_t seed) {
  struct power_file *f;
  struct entry *e;

  while ((e = disk.entries) != NULL) {
    disk.entries = e->next;
    free(e);
  }
  while ((f = disk.files) != NULL) {
    assert(f->sharing == NULL);
    disk.files = f->next;
    forget_changes(f);
    free(f->changes);
    free(f->live.data);
    free(f->stable.data);
    free(f);
  }
  power_heal();
  memset(disk.counts, 0, sizeof disk.counts);
  disk.failures = 0;
  disk.cut_in = disk.cut_in_then = 0;
  disk.off = false;
  disk.random = seed == 0 ? 1 : seed;
}

static enum fate next_fate(enum power_op op) {
  disk.counts[op]++;
  if (disk.cut_in > 0 && --disk.cut_in == 0)
    return LOSES_POWER;
  if (disk.faults[op].in == 0)
    return WORKS;
  if (disk.faults[op].in > 1) {
    disk.faults[op].in--;
    return WORKS;
  }
  if (!disk.faults[op].lasting)
    disk.faults[op].in = 0;
  disk.failures++;
  if (disk.cut_in_then > 0)
    disk.cut_in = disk.cut_in_then;
  disk.cut_in_then = 0;
  return FAILS;
}

/* --------------------------------------------------------------- files --- */

static struct entry *find_entry(const char *name) {
  for (struct entry *e = disk.entries; e != NULL; e = e->next)
    if (strcmp(e->name, name) == 0)
      return e;
  return NULL;
}

struct power_file *power_find(const char *name) {
  struct entry *e = find_entry(name);

  return e == NULL ? NULL : e->live;
}

struct power_file *power_create(const char *name) {
  struct power_file *f = power_memory(NULL, sizeof *f);
  struct entry *e;

  memset(f, 0, sizeof *f);
  f->next = disk.files;
  disk.files = f;
  if (name == NULL)
    return f;
  e = find_entry(name);
  if (e == NULL) {
    e = power_memory(NULL, sizeof *e + strlen(name) + 1);
    *e = (struct entry){.next = disk.entries};
    memcpy(e->name, name, strlen(name) + 1);
    disk.entries = e;
  }
  e->live = f;
  return f;
}

void power_delete(const char *name) {
  struct entry *e = find_entry(name);

  if (e != NULL)
    e->live = NULL;
}

int power_write(struct power_file *f, const void *data, size_t size, size_t offset) {
  enum fate fate = next_fate(POWER_WRITE);

  add_change(f, data, fate == FAILS ? power_below(size + 1) : size, offset);
  if (fate == LOSES_POWER)
    power_cut();
  return fate == WORKS   ? SQLITE_OK
         : fate == FAILS ? disk.faults[POWER_WRITE].code
                         : SQLITE_IOERR_WRITE;
}

int power_truncate(struct power_file *f, size_t size) {
  enum fate fate = next_fate(POWER_WRITE);

  if (fate == FAILS)
    return SQLITE_IOERR_TRUNCATE;
  add_change(f, NULL, 0, size);
  if (fate == LOSES_POWER)
    power_cut();
  return fate == WORKS ? SQLITE_OK : SQLITE_IOERR_TRUNCATE;
}

int power_sync(struct power_file *f) {
  enum fate fate = next_fate(POWER_SYNC);

  if (fate == WORKS) {
    flush(f);
    return SQLITE_OK;
  }
  if (fate == FAILS) {
    flush_badly(f);
    return disk.faults[POWER_SYNC].code;
  }
  power_cut();
  return SQLITE_IOERR_FSYNC;
}

void power_sync_directory(void) {
  for (struct entry *e = disk.entries; e != NULL; e = e->next)
    e->stable = e->live;
}
