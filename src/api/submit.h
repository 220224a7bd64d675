/* SPDX-License-Identifier: MIT
 *
 * submit: what submit.c and reject.c share.
 */
#ifndef UVS__API_SUBMIT_H
#define UVS__API_SUBMIT_H

#include "api/api.h"

#include "uvsched/control.h"

#include <string.h>

/* ---- plain tasks ---- */

/* From this offset on, a spec has only fields that a plain one-shot does not use. */
#define UVS__RARE offsetof(uvs_task_t, max_burst)
_Static_assert(sizeof(uvs_task_t) - UVS__RARE <= 9 * 16, "all of them are looked at");

/* The i-th 16 bytes of these fields; past the end, the last 16. How many there are depends on the
 * size of a pointer. */
static inline uint64_t uvs__any_rare(const uvs_task_t *t, size_t i) {
  size_t offset = UVS__RARE + i * 16;
  size_t last = sizeof *t - 16;
  uint64_t words[2];

  memcpy(words, (const char *)t + (offset < last ? offset : last), sizeof words);
  return words[0] | words[1];
}

/* Does the task run once, on the loop or on the pool, without any other option? */
static inline bool uvs__is_plain(const uvs_task_t *t) {
  uint64_t rare;

  if (t->size != sizeof *t) /* a smaller struct must not be read beyond its end */
    return false;
  rare = uvs__any_rare(t, 0) | uvs__any_rare(t, 1) | uvs__any_rare(t, 2) | uvs__any_rare(t, 3) |
         uvs__any_rare(t, 4) | uvs__any_rare(t, 5) | uvs__any_rare(t, 6) | uvs__any_rare(t, 7) |
         uvs__any_rare(t, 8);
  return rare == 0 && t->kind == UVS_ONE_SHOT && t->period_ns == 0 &&
         (t->from == UVS_FROM_NOW || t->from == UVS_FROM_MONOTONIC) &&
         (t->work == NULL) != (t->after == NULL) &&
         (t->flags & ~(unsigned)UVS_UNREF) == 0 && /* UVS_REPLACE is not plain */
         t->missed_policy == UVS_MISSED_CATCH_UP;
}

/* ---- reject.c ---- */

/* The terms on which a submission is accepted. */
enum uvs__terms {
  UVS__TERMS_ROOM = 0, /* if max_pending has room for it */
  UVS__TERMS_REFUSED,
  UVS__TERMS_DROP, /* accepted and dropped */
  UVS__TERMS_PUSH, /* for each new task, the task that would start next is dropped */
  UVS__TERMS_HERE  /* above max_pending, and run by the submitter */
};

/* The policy, or the handler, decides about a submission that was refused with `code`. Calls the
 * handler. */
enum uvs__terms uvs__terms_without_room(uvs_t *s, const uvs_task_t *given, size_t n, int code);
/* May the submitter run this task itself? */
bool uvs__fits_here(const uvs_t *s, const uvs_task_t *t, uint64_t due_ns, uint64_t now_ns,
                    bool watched);
/* Lock held, but released after each batch: drops the task that would start next. False: there is
 * none. wall_ns: the time of the wall clock. */
bool uvs__drop_oldest(uvs_t *s, uint64_t now_ns, uint64_t wall_ns);
/* This thread runs an accepted task, which is WAITING and in no list. Lock held, except during the
 * body. */
void uvs__run_here(uvs_t *s, uint32_t slot, uint64_t now_ns);

#endif
