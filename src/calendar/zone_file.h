/* SPDX-License-Identifier: MIT
 *
 * zone_file: finds and reads the description of a zone.
 *
 * A name from tzdata is searched in the folder TZDIR, or in the usual folders if TZDIR is not set.
 * A name must not lead out of them: it must not be absolute, and no part of it may be empty or
 * begin with a dot. UTC needs no file.
 */
#ifndef UVS__ZONE_FILE_H
#define UVS__ZONE_FILE_H

#include "calendar/zone_table.h"

#define UVS__ZONE_TEXT_MAX 1024

/* Where a zone comes from. */
struct uvs__zone_source {
  bool is_file;
  bool may_be_missing;           /* then the zone is UTC: /etc/localtime */
  char text[UVS__ZONE_TEXT_MAX]; /* the path of the file, or else a POSIX rule */
};

/* Changes when the file is replaced or written. All 0: there is no file. */
struct uvs__zone_stamp {
  uint64_t device, inode, size;
  int64_t modified_s, modified_ns, changed_s, changed_ns;
};

/* 0, UV_ENOENT, UV_EINVAL; on error *why, size bytes, is a text for the user. */
int uvs__zone_locate(const char *name, struct uvs__zone_source *ret, char *why, size_t size);
/* 0, or what the system answers. */
int uvs__zone_stamp_of(const char *path, struct uvs__zone_stamp *ret);
bool uvs__zone_stamp_equal(const struct uvs__zone_stamp *a, const struct uvs__zone_stamp *b);
/* The table, with one hold, and the stamp of what was read. 0, UV_ENOENT, UV_EINVAL, UV_ENOMEM, or
 * what the system answers; then *why as above. */
int uvs__zone_read(const struct uvs__zone_source *source, struct uvs__zone_table **ret,
                   struct uvs__zone_stamp *ret_stamp, char *why, size_t size);

#endif
