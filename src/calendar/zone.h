/* SPDX-License-Identifier: MIT
 *
 * zone: the time zones of the process, by name.
 *
 * Zones that are opened with the same name, TZ and TZDIR are the same zone. The contents of a
 * zone's file are in a table that never changes. When tzdata is updated, uvs__zones_refresh gives
 * the zone another table. A computation takes the table once, at its beginning, so it never sees
 * half of an update. Zones and tables are reference-counted.
 *
 * Any thread may call any function here. One lock protects the list of zones, and the pointer from
 * a zone to its table. No file is read under the lock. A fork waits for the lock, so a forked child
 * can use zones.
 */
#ifndef UVS__ZONE_H
#define UVS__ZONE_H

#include "port/base.h"

struct uvs__zone;
struct uvs__zone_table;

/* The span of constant offset that contains a given second. Neighbouring spans have different
 * offsets: a transition that changes only the abbreviation or the daylight saving flag is ignored.
 */
struct uvs__zone_span {
  int64_t start_s;  /* its first second, UTC; INT64_MIN: there is no earlier transition */
  int64_t end_s;    /* the first second after it; INT64_MAX: there is no later transition */
  int32_t offset_s; /* local time minus UTC */
  int32_t before_s; /* offset of the span before start_s; offset_s if there is none */
};

/* name: as in uvs_calendar_parse. Only this function reads the environment variables TZ and TZDIR.
 * 0; UV_ENOENT: no such zone; UV_EINVAL: the name is not allowed, the file is damaged, or it counts
 * leap seconds; UV_ENOMEM; or another error of the system. On an error a text for the user is
 * written to `why`, which has room for `size` bytes. */
int uvs__zone_open(const char *name, struct uvs__zone **ret, char *why, size_t size);
/* Accepts NULL. The last close frees the zone. A table stays until its last release. */
void uvs__zone_close(struct uvs__zone *z);
/* As given to uvs__zone_open; "Local" for NULL. Valid until the zone is closed. */
const char *uvs__zone_name(const struct uvs__zone *z);

/* The current table of the zone, with a reference for the caller. _release accepts NULL. */
const struct uvs__zone_table *uvs__zone_table(struct uvs__zone *z);
void uvs__zone_table_release(const struct uvs__zone_table *t);
void uvs__zone_find(const struct uvs__zone_table *t, int64_t at_s, struct uvs__zone_span *ret);

/* Makes a table of one TZif image, with a reference for the caller. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__zone_parse(const void *bytes, size_t n, struct uvs__zone_table **ret);

/* Checks the files of all open zones, and reads changed files again. If a new file is damaged or
 * missing, the zone keeps its table, and the next call tries again. Returns a number that grows
 * whenever an open zone gets a different table. */
uint64_t uvs__zones_refresh(void);

#endif
