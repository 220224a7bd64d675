/* SPDX-License-Identifier: MIT
 *
 * jobs: a queue of functions to call, first in, first out. Its owner serializes all calls.
 */
#ifndef UVS__POOL_JOBS_H
#define UVS__POOL_JOBS_H

#include "port/mem.h"

struct uvs__job {
  void (*fn)(void *arg);
  void *arg;
};

struct uvs__job_chunk;

/* From `first` of the first chunk up to `end` of the last one; there is always a chunk. A few empty
 * chunks are kept, so that nothing is allocated while the length stays much the same. */
struct uvs__jobs {
  struct uvs__job_chunk *head, *tail;
  struct uvs__job_chunk *spare;
  unsigned first, end;
  int spares;
};

/* 0, UV_ENOMEM. */
int uvs__jobs_init(struct uvs__jobs *q, const uvs_allocator_t *mem);
void uvs__jobs_free_memory(struct uvs__jobs *q, const uvs_allocator_t *mem);
bool uvs__jobs_empty(const struct uvs__jobs *q);
/* 0, UV_ENOMEM. */
int uvs__jobs_push(struct uvs__jobs *q, const uvs_allocator_t *mem, struct uvs__job job);
/* Needs a job. */
struct uvs__job uvs__jobs_pop(struct uvs__jobs *q, const uvs_allocator_t *mem);

#endif
