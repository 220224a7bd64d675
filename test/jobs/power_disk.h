/* SPDX-License-Identifier: MIT
 *
 * power_disk: a disk in memory that can lose its power. Each file has two images: what a reader
 * sees, and what is surely on the disk. A write goes into the first image and into a list of
 * changes; a sync carries the changes into the second one.
 *
 * When the power is cut, each change since the last sync is kept, dropped, or torn at sectors,
 * independently of the others. Sectors reach the disk in any order; one sector never goes back to
 * what it was before. A name that was created or deleted since the last sync of the directory may
 * then exist or not.
 *
 * A sync that fails is as bad as on Linux: some changes reached the disk; some are not on the disk
 * and never will be, although readers still see them; some wait for the next sync.
 *
 * All random numbers come from one seed. Only one thread may use the disk.
 */
#ifndef TEST_JOBS_POWER_DISK_H
#define TEST_JOBS_POWER_DISK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define POWER_SECTOR 512

/* ------------------------------------------------------------- for tests --- */

/* An empty disk with power, without faults. No file may be open. */
void power_reset(uint64_t seed);

/* Cut the power: now, or in the middle of the n-th write or sync from now. Then all open files are
 * dead, and nothing can be opened until power_on, which also forgets cuts that were asked for. */
void power_cut(void);
void power_cut_at(uint64_t n);
bool power_is_off(void);
void power_on(void);

/* Truncations count as writes. */
enum power_op { POWER_WRITE, POWER_SYNC, POWER_OPS };

/* The n-th operation of this kind from now fails with this code of SQLite; if `lasting`, all later
 * ones, too. A write that fails writes a part. */
void power_fail(enum power_op op, uint64_t n, bool lasting, int code);
/* Cuts the power in the middle of the n-th write or sync after an operation that fails. */
void power_cut_after_failure(uint64_t n);
void power_heal(void);                  /* no faults any more */
uint64_t power_count(enum power_op op); /* since power_reset; also those that failed */
uint64_t power_failures(void);          /* operations that failed since power_reset, but by a cut */

/* ------------------------------------------------------------ for the VFS --- */

struct power_sharing; /* of power_vfs.c: locks and shared memory */
struct power_file {
  struct power_file *next;
  struct power_image {
    uint8_t *data;
    size_t size, room;
  } live, stable;
  struct power_change {
    uint8_t *data; /* NULL: a truncation to `offset` */
    size_t size, offset;
  } * changes;
  size_t n_changes, room;
  struct power_sharing *sharing; /* NULL after a cut */
};

unsigned power_life(void); /* raised by each cut; files that were opened before are dead */

struct power_file *power_find(const char *name);   /* NULL: there is none */
struct power_file *power_create(const char *name); /* NULL: without a name */
void power_delete(const char *name);

/* 0, or a code of SQLite. */
int power_write(struct power_file *f, const void *data, size_t size, size_t offset);
int power_truncate(struct power_file *f, size_t size);
int power_sync(struct power_file *f);
void power_sync_directory(void);

uint64_t power_below(uint64_t n); /* a random number below n */

/* Memory; ends the program if there is none. */
void *power_memory(void *old, size_t size);

#endif
