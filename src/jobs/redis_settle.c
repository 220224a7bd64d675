/* SPDX-License-Identifier: MIT
 *
 * redis_settle: SETTLE and ALTER. A large SETTLE is divided into several commands.
 */
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/redis_store.h"

#define ITEM_WORDS 60 /* bytes of the words of an item, besides its texts */

struct settle_call {
  struct uvs__redis_call call;
  struct uvs__settle *items;
  size_t n;
};

/* ------------------------------------------------------------------ answer --- */

/* The ids of existing jobs are read in the order of the puts. */
static int read_item(struct uvs__settle *item, char digit, redisReply *const *body, size_t n,
                     size_t *at, int64_t wall_ns, struct uvs__arena *a) {
  struct uvs__bytes digits;

  item->status = digit == '1' ? UVS_ELOST : digit == '2' ? UVS__SETTLE_CANCELLED : 0;
  if (digit != '3') {
    uvs__redis_refuse_puts(item->puts, item->n_puts);
    return 0;
  }
  if (*at >= n)
    return UV_EIO;
  digits = uvs__redis_bytes(body[(*at)++]);
  if (digits.size != item->n_puts)
    return UV_EIO;
  return uvs__redis_read_puts(item->puts, item->n_puts, digits.data, body, n, at, wall_ns, a);
}

static void settled(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct settle_call *c = (struct settle_call *)(void *)call;
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)call->op->r;
  struct uvs__bytes digits = {"", 0};
  size_t at = 1;

  if (status == 0) {
    if (n > 0)
      digits = uvs__redis_bytes(body[0]);
    status = digits.size == c->n ? 0 : UV_EIO;
    call->op->done_any = true;
  }
  for (size_t i = 0; i < c->n && status == 0; i++)
    status = read_item(&c->items[i], ((const char *)digits.data)[i], body, n, &at, call->wall_ns,
                       &r->arena);
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(c);
}

/* ------------------------------------------------------------------ SETTLE --- */

static struct uvs__bytes text_of(const struct uvs__settle *s) {
  struct uvs__bytes none = {NULL, 0}, error = {s->error, s->error == NULL ? 0 : strlen(s->error)};

  switch (s->op) {
  case UVS__ACK:
    return s->result;
  case UVS__EXTEND:
    return s->progress;
  case UVS__RETRY:
  case UVS__DEAD:
    return error;
  default:
    return none;
  }
}

static size_t size_of(const struct uvs__settle *s) {
  size_t size = ITEM_WORDS + text_of(s).size;

  for (size_t i = 0; i < s->n_puts; i++)
    size += uvs__redis_put_size(&s->puts[i]);
  return size;
}

static void add_item(struct uvs__words *w, const struct uvs__settle *s,
                     struct uvs__queue_names *queues) {
  struct uvs__bytes text = text_of(s);

  uvs__words_int(w, (int64_t)uvs__queue_index(queues, s->queue));
  uvs__words_text(w, s->rest);
  uvs__words_int(w, (int64_t)s->fence);
  uvs__words_int(w, s->op);
  if (s->op == UVS__EXTEND)
    uvs__words_int(w, s->when.delay_us);
  else
    uvs__words_when(w, s->when);
  uvs__words_add(w, text.data, text.size);
  uvs__words_int(w, s->tick_last_us);
  uvs__words_int(w, (int64_t)s->n_puts);
  for (size_t i = 0; i < s->n_puts; i++)
    uvs__redis_put_words(w, &s->puts[i], uvs__queue_index(queues, s->puts[i].job.queue));
}

/* Adds the queues of an item. False: there is no room, and some may have been added. */
static bool add_queues(struct uvs__queue_names *queues, const struct uvs__settle *s) {
  bool room = uvs__queue_index(queues, s->queue) > 0;

  for (size_t i = 0; i < s->n_puts && room; i++)
    room = uvs__queue_index(queues, s->puts[i].job.queue) > 0;
  return room;
}

/* How many items, at least one, fit into a command. Their queues are added. */
static size_t count_fitting(const struct uvs__settle *items, size_t n,
                            struct uvs__queue_names *queues) {
  size_t i = 0, bytes = 0, puts = 0;

  for (; i < n && i < UVS__REDIS_PUTS; i++) {
    struct uvs__queue_names before = *queues;

    bytes += size_of(&items[i]);
    puts += items[i].n_puts;
    if (i > 0 && (bytes > UVS__REDIS_BYTES || puts > UVS__REDIS_PUTS))
      return i;
    if (!add_queues(queues, &items[i])) {
      *queues = before;
      return i;
    }
  }
  return i;
}

static void send_items(struct uvs__redis_op *op, struct uvs__settle *items, size_t n,
                       struct uvs__queue_names *queues) {
  struct settle_call *c;
  struct uvs__words w = {0};
  bool puts = false;

  op->left++;
  c = uvs__redis_call_new(op, sizeof *c, settled);
  if (c == NULL)
    return;
  c->items = items;
  c->n = n;
  uvs__redis_begin(op->store, &w, queues);
  for (size_t i = 0; i < n; i++) {
    add_item(&w, &items[i], queues);
    puts |= items[i].n_puts > 0;
  }
  uvs__redis_send(&c->call, UVS__REDIS_SETTLE, &w, puts);
}

void uvs__redis_settle(struct uvs__redis_op *op) {
  struct uvs__settle_request *r = (struct uvs__settle_request *)(void *)op->r;
  int status = 0;

  for (size_t i = 0, n; i < r->n && status == 0; i += n) {
    struct uvs__queue_names queues = {.n = 0};

    n = count_fitting(r->items + i, r->n - i, &queues);
    if (n > 0)
      send_items(op, r->items + i, n, &queues);
    else
      status = UV_E2BIG; /* puts into more queues than one command can name */
  }
  uvs__redis_op_done(op, status);
}

/* ------------------------------------------------------------------- ALTER --- */

static void altered(struct uvs__redis_call *call, int status, redisReply *const *body, size_t n) {
  struct uvs__alter_request *r = (struct uvs__alter_request *)(void *)call->op->r;
  int64_t answer;

  if (status == 0 && n == 0)
    status = UV_EIO;
  if (status == 0) {
    answer = uvs__redis_int(body[0]);
    r->status = answer == 0 ? 0 : answer == 1 ? UVS_JOB_RUNNING : UV_ENOENT;
    status = answer == 3 ? UVS__IN_TRANSIT : 0;
  }
  uvs__redis_op_done(call->op, status);
  uvs__jobs_free(call);
}

void uvs__redis_alter(struct uvs__redis_op *op) {
  struct uvs__alter_request *r = (struct uvs__alter_request *)(void *)op->r;
  struct uvs__queue_names queues = {{r->queue}, 1};
  struct uvs__redis_call *call = uvs__redis_call_new(op, sizeof *call, altered);
  struct uvs__words w = {0};

  if (call == NULL)
    return;
  uvs__redis_begin(op->store, &w, &queues);
  uvs__words_text(&w, r->op == UVS__CANCEL ? "cancel" : "move");
  uvs__words_text(&w, r->rest);
  uvs__words_when(&w, r->when);
  uvs__redis_send(call, UVS__REDIS_ALTER, &w, true);
}
