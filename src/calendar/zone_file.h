/* SPDX-License-Identifier: MIT
 *
 * zone_file: finds and reads the description of a zone.
 *
 * A name from tzdata is searched in the folder TZDIR, or in the usual folders if TZDIR is not set.
 * A name must not lead out of the folder: it must not be absolute, and no part of it may be empty
 * or begin with a dot. UTC needs no file.
 */
#ifndef UVS__ZONE_FILE_H
#define UVS__ZONE_FILE_H

#include "calendar/zone_table.h"

#define UVS__ZONE_TEXT_MAX 1024

/* Where a zone comes from. */
struct uvs__zone_source {
  bool is_file;
  bool may_be_missing;           /* /etc/localtime: without the file, the zone is UTC */
  char text[UVS__ZONE_TEXT_MAX]; /* the path of the file, or else a POSIX rule */
};

/* Identifies a version of a file: changes if the file is replaced or written. All 0: no file. */
struct uvs__zone_stamp {
  uint64_t device, inode, size;
  int64_t modified_s, modified_ns, changed_s, changed_ns;
};

/* 0, UV_ENOENT, UV_EINVAL. On an error, why (size bytes) gets a text for the user. */
int uvs__zone_locate(const char *name, struct uvs__zone_source *ret, char *why, size_t size);
/* 0, or the error of the system. */
int uvs__zone_stamp_of(const char *path, struct uvs__zone_stamp *ret);
bool uvs__zone_stamp_equal(const struct uvs__zone_stamp *a, const struct uvs__zone_stamp *b);
/* Reads a table, with a reference for the caller, and the stamp of the file. 0, UV_ENOENT,
 * UV_EINVAL, UV_ENOMEM, or another error of the system. On an error, why gets a text as above. */
int uvs__zone_read(const struct uvs__zone_source *source, struct uvs__zone_table **ret,
                   struct uvs__zone_stamp *ret_stamp, char *why, size_t size);

#endif
