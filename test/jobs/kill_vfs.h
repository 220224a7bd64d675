/* SPDX-License-Identifier: MIT
 *
 * kill_vfs: ends the process with SIGKILL in the middle of its n-th write, sync or truncation of a
 * SQLite file. A write has then written its first half.
 */
#ifndef TEST_JOBS_KILL_VFS_H
#define TEST_JOBS_KILL_VFS_H

/* From now on, SQLite counts the operations of all files. n is 1 or more. */
void kill_vfs_at(long n);

#endif
