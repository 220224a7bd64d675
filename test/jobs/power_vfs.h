/* SPDX-License-Identifier: MIT
 *
 * power_vfs: lets SQLite use the disk of power_disk.h, also with WAL and several connections. All
 * connections are on one thread, so a lock that is taken answers SQLITE_BUSY at once.
 */
#ifndef TEST_JOBS_POWER_VFS_H
#define TEST_JOBS_POWER_VFS_H

#include <sqlite3.h>

#include "power_disk.h"

/* From now on, SQLite uses this VFS if no other one is asked for. */
void power_vfs_register(void);

/* Starts a test case: an empty disk, and SQLite's own random numbers follow from the seed, too. */
void power_vfs_reset(uint64_t seed);

#endif
