/* SPDX-License-Identifier: MIT
 *
 * zone: time zones by name, for all of the process.
 *
 * A zone is opened by its name: the same name gives the same zone. The contents of its file are a
 * table, which never changes. Zones and tables are reference-counted. When tzdata is updated,
 * uvs__zones_refresh gives the zone another table. So a reader takes the table once for each
 * computation, and does not see half of an update.
 *
 * Any thread may call any function here. One lock protects the list of zones and which table each
 * zone has. No file is read under the lock. A fork waits for the lock, so a forked child can use
 * zones.
 */
#ifndef UVS__ZONE_H
#define UVS__ZONE_H

#include "port/base.h"

struct uvs__zone;
struct uvs__zone_table;

/* The span of constant offset that contains a given second. Neighbouring spans have different
 * offsets: transitions that change only the abbreviation or the daylight saving flag are ignored.
 */
struct uvs__zone_span {
  int64_t start_s;  /* its first second, UTC; INT64_MIN: there is no earlier transition */
  int64_t end_s;    /* the first second after it; INT64_MAX: there is no later transition */
  int32_t offset_s; /* local time minus UTC */
  int32_t before_s; /* offset of the span before start_s; offset_s if there is none */
};

/* name: "UTC"; a name from tzdata; or NULL or "Local", which means the zone in TZ, or
 * /etc/localtime if TZ is not set, or UTC if that file does not exist. The environment variables TZ
 * and TZDIR are read only here. 0; UV_ENOENT: no such zone; UV_EINVAL: the name is not allowed, the
 * file is damaged, or it counts leap seconds; UV_ENOMEM; or another error of the system. On error
 * why, which has room for size bytes, gets a text for the user. */
int uvs__zone_open(const char *name, struct uvs__zone **ret, char *why, size_t size);
/* Accepts NULL. The last close frees the zone; tables that are held stay. */
void uvs__zone_close(struct uvs__zone *z);
/* As given to uvs__zone_open; "Local" for NULL. Valid until the zone is closed. */
const char *uvs__zone_name(const struct uvs__zone *z);

/* The present table of the zone, held until uvs__zone_table_release, which accepts NULL. */
const struct uvs__zone_table *uvs__zone_table(struct uvs__zone *z);
void uvs__zone_table_release(const struct uvs__zone_table *t);
void uvs__zone_find(const struct uvs__zone_table *t, int64_t at_s, struct uvs__zone_span *ret);

/* The table of one TZif image, with one hold. 0, UV_EINVAL, UV_ENOMEM. */
int uvs__zone_parse(const void *bytes, size_t n, struct uvs__zone_table **ret);

/* Checks the files of all open zones, and reads changed files again. If a new file is damaged or
 * missing, the zone keeps its table, and the next call tries again. Returns a number that is
 * greater than before if an offset of an open zone changed at some instant. */
uint64_t uvs__zones_refresh(void);

#endif
