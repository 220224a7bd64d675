/* SPDX-License-Identifier: MIT
 *
 * name_stats: the histograms of named tasks, by name.
 *
 * Each name has a record, which stays until the scheduler is freed. A task with a name knows the
 * number of its record, so a run finds it without a look-up. The records are written under the
 * lock, because several runs of one name may start at the same time. Any thread may read them
 * without the lock.
 */
#ifndef UVS__CORE_NAME_STATS_H
#define UVS__CORE_NAME_STATS_H

#include "util/stats.h"

struct uvs__name_stat {
  char name[UVS_NAME_MAX + 1]; /* constant */
  uint16_t child[2];           /* records of the index by name; 0: none */
  struct uvs__stat late, run;
};

/* Numbers of records. 0: no record. UVS__OTHER: the record of all names without their own. */
enum { UVS__OTHER = 1, UVS__NAME_STATS = UVS_NAMES_MAX + 2 };

struct uvs__name_stats {
  uint16_t most; /* constant: the most names with a record of their own */
  uint16_t made; /* numbers below this have a record, except 0 and perhaps UVS__OTHER */
  uint16_t root; /* of the index by name; 0: it is empty */
  struct uvs__name_stat *of[UVS__NAME_STATS];
};

/* Lock held, but released to allocate: the number of the record for the tasks of this name, which
 * is made if the name is new. 0: the tasks are not counted. name may be NULL. */
uint16_t uvs__name_stat(uvs_t *s, const char *name);
/* Lock held: the record of this name, which may be "other". NULL: there is none. */
const struct uvs__name_stat *uvs__name_stat_find(const uvs_t *s, const char *name);
/* Frees all records, when the scheduler is freed. */
void uvs__name_stats_free(uvs_t *s);

/* Is the text valid UTF-8? */
bool uvs__is_utf8(const char *text);

#endif
