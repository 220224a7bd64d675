/* SPDX-License-Identifier: MIT
 *
 * redis_claim: CLAIM. A command claims up to 500 jobs; a request for more sends the next command
 * when the last one has found as many as it wanted.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define DELAY_US 80000

struct claim_call {
  struct uvs__redis_call call;
  struct uvs__claimed **end; /* of the list of the request */
  uint32_t asked, claimed;   /* of this command; of the request */
};

static struct uvs__claim_request *request_of(const struct claim_call *c) {
  return (struct uvs__claim_request *)(void *)c->call.op->r;
}

static bool is_of_crons(const struct uvs__claim_request *r) {
  return strcmp(r->queue, UVS__CRON_QUEUE) == 0;
}

/* ------------------------------------------------------------------- a job --- */

static bool copy_bytes(struct uvs__arena *a, struct uvs__bytes from, struct uvs__bytes *ret) {
  if (from.size == 0)
    return true;
  ret->data = uvs__arena_copy(a, from.data, from.size);
  ret->size = from.size;
  return ret->data != NULL;
}

/* Three or four elements of the answer. 0, UV_ENOMEM or UV_EIO. */
static int read_job(const char *queue, redisReply *const *body, bool of_crons,
                    struct uvs__claimed *c) {
  struct uvs__reader state = uvs__reader_of(uvs__redis_bytes(body[1])),
                     record = uvs__reader_of(uvs__redis_bytes(body[2]));
  struct uvs__arena *a = &c->arena;
  struct uvs__redis_record r;

  c->crashed_now = uvs__read_number(&state, 1) != 0;
  c->failures = (uint32_t)uvs__read_number(&state, 4);
  c->crashes = (uint32_t)uvs__read_number(&state, 4);
  c->due_us = (int64_t)uvs__read_number(&state, 8);
  if (state.bad || !uvs__redis_read_record(&record, true, &r))
    return UV_EIO;
  c->row = r.number;
  c->put_us = r.put_us;
  c->priority = r.priority;
  c->queue = uvs__arena_copy(a, queue, strlen(queue));
  c->rest = uvs__redis_string(a, uvs__redis_bytes(body[0]));
  c->name = r.name.size == 0 ? c->queue : uvs__redis_string(a, r.name);
  c->key = r.key.size == 0 ? NULL : uvs__redis_string(a, r.key);
  if (c->queue == NULL || c->rest == NULL || c->name == NULL ||
      (r.key.size > 0 && c->key == NULL) || !copy_bytes(a, r.payload, &c->payload) ||
      !copy_bytes(a, r.meta, &c->meta))
    return UV_ENOMEM;
  if (of_crons && uvs__redis_bytes(body[3]).size > 0)
    return uvs__redis_read_cron(a, c->rest, uvs__redis_bytes(body[3]), &c->cron);
  return 0;
}

/* Jobs that cannot be copied because there is no memory stay claimed until their leases end. */
static int read_jobs(struct claim_call *c, redisReply *const *body, size_t n) {
  struct uvs__claim_request *r = request_of(c);
  bool of_crons = is_of_crons(r);
  size_t each = of_crons ? 4 : 3;

  for (size_t i = 0; i + each <= n; i += each) {
    struct uvs__claimed *claimed = uvs__jobs_alloc(sizeof *claimed);
    int rc = claimed == NULL ? UV_ENOMEM : read_job(r->queue, body + i, of_crons, claimed);

    if (rc != 0) {
      if (claimed != NULL)
        uvs__arena_free(&claimed->arena);
      uvs__jobs_free(claimed);
      return rc;
    }
    *c->end = claimed;
    c->end = &claimed->next;
    c->claimed++;
  }
  return 0;
}

/* ----------------------------------------------------------------- command --- */

static void send_claim(struct claim_call *c);

static void answered(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct claim_call *c = (struct claim_call *)(void *)call;
  struct uvs__claim_request *r = request_of(c);
  struct uvs__redis_op *op = call->op;
  uint32_t before = c->claimed;
  struct uvs__claimed *first;

  if (status == 0 && n < 2)
    status = UV_EIO;
  if (status == 0) {
    struct uvs__claimed **from = c->end;

    r->now_us = call->wall_ns / 1000;
    r->next_us = uvs__redis_int(body[0]);
    status = read_jobs(c, body + 2, n - 2);
    for (first = *from; first != NULL; first = first->next)
      first->fence = (uint64_t)uvs__redis_int(body[1]);
  }
  if (status == 0 && c->claimed < r->max && c->claimed - before == c->asked &&
      r->next_us <= r->now_us) {
    send_claim(c);
    return;
  }
  if (status != 0 && r->claimed != NULL) { /* keep what was claimed before */
    r->next_us = r->now_us;
    status = 0;
  }
  uvs__jobs_free(c);
  uvs__redis_op_done(op, status);
}

/* How long this node, as a deputy, waits for a leader that is late. */
static int64_t random_delay(struct uvs__redis *s) {
  s->random = s->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (int64_t)((s->random >> 33) % DELAY_US);
}

/* If there is no memory for the name, the leases of this queue end by themselves after a close. */
static void note_queue(struct uvs__redis *s, const char *name) {
  struct uvs__redis_queue *q = s->queues;

  while (q != NULL && strcmp(q->name, name) != 0)
    q = q->next;
  if (q != NULL)
    return;
  q = uvs__jobs_alloc(sizeof *q);
  if (q == NULL)
    return;
  snprintf(q->name, sizeof q->name, "%s", name);
  q->next = s->queues;
  s->queues = q;
}

static void send_claim(struct claim_call *c) {
  struct uvs__claim_request *r = request_of(c);
  struct uvs__words w = {0};
  struct uvs__queue_names queues = {{r->queue}, 1};

  c->asked = r->max - c->claimed;
  if (c->asked > UVS__REDIS_CLAIMS)
    c->asked = UVS__REDIS_CLAIMS;
  uvs__redis_begin(c->call.store, &w, &queues);
  uvs__words_int(&w, c->asked);
  uvs__words_int(&w, r->max_crashed);
  uvs__words_int(&w, r->pending_only);
  uvs__words_int(&w, r->lease_us < UVS__NEVER_US ? r->lease_us : UVS__NEVER_US);
  if (c->call.store->leads)
    uvs__words_int(&w, random_delay(c->call.store));
  else
    uvs__words_text(&w, "");
  uvs__redis_send(&c->call, UVS__REDIS_CLAIM, &w, false);
}

void uvs__redis_claim(struct uvs__redis_op *op) {
  struct uvs__claim_request *r = (struct uvs__claim_request *)(void *)op->r;
  struct claim_call *c;

  r->claimed = NULL;
  r->now_us = uvs__redis_now_us(op->store);
  r->next_us = UVS__NEVER_US;
  c = uvs__redis_call_new(op, sizeof *c, answered);
  if (c == NULL)
    return;
  c->end = &r->claimed;
  note_queue(op->store, r->queue);
  send_claim(c);
}
