/* SPDX-License-Identifier: MIT
 *
 * occur: a calendar, and what a gap or an overlap does to its occurrences. calendar.c, count.c and
 * audit.c use it.
 *
 * Instants whose names end in _s are seconds in UTC. Local times have "local" in their names.
 */
#ifndef UVS__OCCUR_H
#define UVS__OCCUR_H

#include "calendar/search.h"
#include "calendar/zone.h"
#include "port/atomic.h"

#define UVS__OCCUR_FIRST_S INT64_C(-9214560000) /* 1678-01-01: no occurrence is before this */
#define UVS__OCCUR_END_S INT64_C(9214646400)    /* 2262-01-01: every occurrence is before this */
#define UVS__NS_PER_S INT64_C(1000000000)

struct uvs_calendar_s {
  _Atomic uint32_t refs;
  struct uvs__expression e;
  int gap, overlap; /* UVS_GAP_..., UVS_OVERLAP_... */
  struct uvs__zone *zone;
  char text[];
};

static inline bool uvs__begins_after_gap(const struct uvs__zone_span *z) {
  return z->before_s < z->offset_s;
}

/* The first local time of the expression in the gap before this span; UVS__LOCAL_MAX if there is no
 * such time, or no gap. */
static inline int64_t uvs__first_skipped(const struct uvs__expression *e,
                                         const struct uvs__zone_span *z) {
  int64_t local;

  if (!uvs__begins_after_gap(z))
    return UVS__LOCAL_MAX;
  local = uvs__local_next(e, z->start_s + z->before_s);
  return local < z->start_s + z->offset_s ? local : UVS__LOCAL_MAX;
}

/* Are there fixed times in the gap before this span that occur at the span's first second? */
static inline bool uvs__runs_after_gap(const uvs_calendar_t *c, const struct uvs__zone_span *z) {
  return !c->e.real_time && c->gap == UVS_GAP_RUN_AFTER &&
         uvs__first_skipped(&c->e, z) != UVS__LOCAL_MAX;
}

/* Where the second pass of the overlap before this span ends; start_s if there is no overlap. It
 * may be after the end of the span. */
static inline int64_t uvs__second_pass_end(const struct uvs__zone_span *z) {
  return z->before_s > z->offset_s ? z->start_s + (z->before_s - z->offset_s) : z->start_s;
}

static inline bool uvs__skips_second_pass(const uvs_calendar_t *c) {
  return !c->e.real_time && c->overlap == UVS_OVERLAP_FIRST;
}

/* From this second of the span on, each local time of the expression is an occurrence. */
static inline int64_t uvs__counts_from(const uvs_calendar_t *c, const struct uvs__zone_span *z) {
  return uvs__skips_second_pass(c) ? uvs__second_pass_end(z) : z->start_s;
}

/* Whole seconds: the last one <= ns, and the first one >= ns. */
static inline int64_t uvs__floor_s(int64_t ns) {
  return ns / UVS__NS_PER_S - (ns % UVS__NS_PER_S < 0);
}

static inline int64_t uvs__ceil_s(int64_t ns) {
  return ns / UVS__NS_PER_S + (ns % UVS__NS_PER_S > 0);
}

#endif
