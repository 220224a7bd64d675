/* SPDX-License-Identifier: MIT */
#include "pool/jobs.h"

#include <string.h>

#define CHUNK_JOBS 63 /* so that a chunk is just below 1 KiB */
#define SPARE_MAX 4

struct uvs__job_chunk {
  struct uvs__job_chunk *next;
  struct uvs__job jobs[CHUNK_JOBS];
};

int uvs__jobs_init(struct uvs__jobs *q, const uvs_allocator_t *mem) {
  memset(q, 0, sizeof *q);
  q->head = uvs__mem_alloc(mem, 1, sizeof *q->head, 0);
  if (q->head == NULL)
    return UV_ENOMEM;
  q->head->next = NULL;
  q->tail = q->head;
  return 0;
}

static void free_chunks(const uvs_allocator_t *mem, struct uvs__job_chunk *c) {
  while (c != NULL) {
    struct uvs__job_chunk *next = c->next;

    uvs__mem_free(mem, c);
    c = next;
  }
}

void uvs__jobs_free_memory(struct uvs__jobs *q, const uvs_allocator_t *mem) {
  free_chunks(mem, q->head);
  free_chunks(mem, q->spare);
}

bool uvs__jobs_empty(const struct uvs__jobs *q) {
  return q->head == q->tail && q->first == q->end;
}

static struct uvs__job_chunk *take_chunk(struct uvs__jobs *q, const uvs_allocator_t *mem) {
  struct uvs__job_chunk *c = q->spare;

  if (c == NULL)
    return uvs__mem_alloc(mem, 1, sizeof *c, 0);
  q->spare = c->next;
  q->spares--;
  return c;
}

static void give_chunk(struct uvs__jobs *q, const uvs_allocator_t *mem, struct uvs__job_chunk *c) {
  if (q->spares == SPARE_MAX) {
    uvs__mem_free(mem, c);
    return;
  }
  c->next = q->spare;
  q->spare = c;
  q->spares++;
}

int uvs__jobs_push(struct uvs__jobs *q, const uvs_allocator_t *mem, struct uvs__job job) {
  if (q->end == CHUNK_JOBS) {
    struct uvs__job_chunk *c = take_chunk(q, mem);

    if (c == NULL)
      return UV_ENOMEM;
    c->next = NULL;
    q->tail->next = c;
    q->tail = c;
    q->end = 0;
  }
  q->tail->jobs[q->end++] = job;
  return 0;
}

struct uvs__job uvs__jobs_pop(struct uvs__jobs *q, const uvs_allocator_t *mem) {
  struct uvs__job job = q->head->jobs[q->first++];

  if (uvs__jobs_empty(q)) {
    q->first = q->end = 0;
  } else if (q->first == CHUNK_JOBS) {
    struct uvs__job_chunk *c = q->head;

    q->head = c->next;
    q->first = 0;
    give_chunk(q, mem, c);
  }
  return job;
}
