/* SPDX-License-Identifier: MIT
 *
 * hand: hands messages to the store and to the parking queue, and acknowledges them to the broker
 * when they are safe there.
 */
#include <stdio.h>
#include <string.h>

#include "amqp/alloc.h"
#include "amqp/intake.h"

#define AGAIN_NS UINT64_C(1000000000)
#define KEEP_DONE_NS UVS_HOUR(24)

/* ---------------------------------------------------------------- messages --- */

static void release(struct uvs__taken *t) {
  t->intake->held_bytes -= t->size + sizeof *t;
  uvs__amqp_free(t->payload);
  uvs__amqp_free(t);
}

/* The message is safe: its delivery may be acknowledged, if the channel is still the same. */
static void finish(struct uvs__taken *t) {
  if (t->epoch == t->map->epoch)
    uvs__tags_finish(&t->map->tags, t->tag);
  release(t);
}

static void try_again(struct uvs__intake *in, struct uvs__taken *t) {
  if (t->epoch != t->map->epoch) { /* the broker delivers it again */
    release(t);
    return;
  }
  t->again_ns = uv_hrtime() + AGAIN_NS;
  t->next = in->again;
  in->again = t;
}

/* Any thread: notes the answer of the store or of the publisher. */
static void push_answered(struct uvs__intake *in, struct uvs__taken *first,
                          struct uvs__taken *last) {
  uv_mutex_lock(&in->lock);
  last->next = in->answered;
  in->answered = first;
  /* Under the lock, because the intake's thread may end and free *in as soon as it has the answer.
   */
  uvs__link_wake(&in->link);
  uv_mutex_unlock(&in->lock);
}

/* -------------------------------------------------------------------- store --- */

struct put {
  struct uvs__intake *intake;
  size_t n;
  struct uvs__taken *messages[UVS__PUT_MESSAGES];
};

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct put *put = arg;

  (void)jobs;
  for (size_t i = 0; i < n; i++) {
    struct uvs__taken *t = put->messages[i];
    const char *rest = results[i].id == NULL ? NULL : strchr(results[i].id, '/');

    t->status = results[i].status;
    t->next = i + 1 < n ? put->messages[i + 1] : NULL;
    if (t->status < 0 && *t->rest == '\0' && rest != NULL) /* repeat the put with this id */
      snprintf(t->rest, sizeof t->rest, "%s", rest + 1);
  }
  push_answered(put->intake, put->messages[0], put->messages[n - 1]);
  uvs__amqp_free(put);
}

static void fill_spec(const struct uvs__intake *in, const struct uvs__taken *t, uint64_t now_ns,
                      uvs_job_spec_t *ret) {
  int64_t passed_ns = (int64_t)(now_ns - t->arrived_ns);

  uvs_job_spec_init(ret);
  ret->name = in->amqp->name;
  ret->id = *t->rest == '\0' ? NULL : t->rest;
  ret->at_ns = t->at_ns;
  ret->delay_ns =
      t->delay_ns > passed_ns ? t->delay_ns - passed_ns : 0; /* counts from the arrival */
  ret->payload = t->payload;
  ret->payload_size = t->size;
  ret->keep_done_ns = t->is_named ? KEEP_DONE_NS : 0;
}

void uvs__hand_put(struct uvs__intake *in) {
  uvs_job_spec_t *specs = NULL;
  struct put *put = NULL;
  uint64_t now_ns = uv_hrtime();
  int rc = UV_ENOMEM;

  if (in->batch_n == 0)
    return;
  specs = uvs__amqp_alloc(in->batch_n * sizeof *specs);
  put = uvs__amqp_alloc(sizeof *put);
  if (specs != NULL && put != NULL) {
    put->intake = in;
    for (struct uvs__taken *t = in->batch; t != NULL; t = t->next) {
      fill_spec(in, t, now_ns, &specs[put->n]);
      put->messages[put->n++] = t;
    }
    in->out += put->n; /* before the call, because its callback comes on another thread */
    rc = uvs_jobs_put_many(in->amqp->jobs, specs, put->n, on_put, put);
    if (rc != 0)
      in->out -= put->n;
  }
  if (rc != 0) {
    struct uvs__taken *t = in->batch, *next;

    uvs__amqp_free(put);
    for (; t != NULL; t = next) {
      next = t->next;
      try_again(in, t);
    }
  }
  uvs__amqp_free(specs);
  in->batch = NULL;
  in->batch_end = &in->batch;
  in->batch_n = in->batch_bytes = 0;
}

void uvs__hand_add(struct uvs__intake *in, struct uvs__taken *t) {
  if (in->batch_n == UVS__PUT_MESSAGES || in->batch_bytes + t->size > UVS__PUT_BYTES)
    uvs__hand_put(in);
  t->next = NULL;
  *in->batch_end = t;
  in->batch_end = &t->next;
  in->batch_n++;
  in->batch_bytes += t->size;
}

/* ------------------------------------------------------------------- parking --- */

/* Runs on the publisher's thread. While the intake stops, nobody waits for a message to be parked:
 * the message stays in the intake queue. */
static bool is_dropped(const struct uvs__send *send) {
  return atomic_load(&((const struct uvs__taken *)send)->intake->stopping);
}

static void on_parked(struct uvs__send *send, enum uvs__sent how, const char *text) {
  struct uvs__taken *t = (struct uvs__taken *)send;

  (void)text;
  t->status = how == UVS__SENT_CONFIRMED ? 0 : how == UVS__SENT_RETURNED ? UV_ENOENT : UV_EAGAIN;
  push_answered(t->intake, t, t);
}

void uvs__hand_park(struct uvs__intake *in, struct uvs__taken *t) {
  uvs__tags_slow(&t->map->tags, t->tag);
  if (*t->id == '\0')
    snprintf(t->id, sizeof t->id, "parked/%016llx%llu", (unsigned long long)in->random,
             (unsigned long long)in->parked++);
  t->send.payload = t->payload;
  t->send.size = t->size;
  t->send.id = t->id;
  t->send.is_dropped = is_dropped;
  t->send.ended = on_parked;
  in->out++;
  uvs__publisher_send(&in->amqp->publisher, &t->send);
}

static void parked(struct uvs__intake *in, struct uvs__taken *t) {
  char text[500];

  atomic_fetch_add_explicit(&in->amqp->stats.parked, 1, memory_order_relaxed);
  snprintf(text, sizeof text, "a message of %.100s is in %.100s now: %s", t->map->intake,
           in->parking, t->reason);
  uvs__amqp_tell(in->amqp, UVS_AMQP_PARKED, text);
  finish(t);
}

/* ------------------------------------------------------------------- answers --- */

static void take_answer(struct uvs__intake *in, struct uvs__taken *t) {
  struct uvs__amqp_stats *stats = &in->amqp->stats;

  if (t->is_parked && t->status == 0) {
    parked(in, t);
  } else if (t->is_parked) {
    if (t->status == UV_ENOENT)
      in->has_parking = false;
    try_again(in, t);
  } else if (t->status == 0 || t->status == UVS_JOB_EXISTS) {
    atomic_fetch_add_explicit(t->status == 0 ? &stats->put : &stats->known, 1,
                              memory_order_relaxed);
    finish(t);
  } else {
    try_again(in, t);
  }
}

void uvs__hand_answers(struct uvs__intake *in) {
  struct uvs__taken *list;

  uv_mutex_lock(&in->lock);
  list = in->answered;
  in->answered = NULL;
  uv_mutex_unlock(&in->lock);
  while (list != NULL) {
    struct uvs__taken *t = list;

    list = t->next;
    in->out--;
    take_answer(in, t);
  }
}

void uvs__hand_again(struct uvs__intake *in) {
  struct uvs__taken *list = in->again;
  uint64_t now_ns = uv_hrtime();

  in->again = NULL;
  while (list != NULL) {
    struct uvs__taken *t = list;

    list = t->next;
    if (t->epoch != t->map->epoch) {
      release(t);
    } else if (now_ns < t->again_ns) {
      t->next = in->again;
      in->again = t;
    } else if (t->is_parked) {
      uvs__hand_park(in, t);
    } else {
      uvs__hand_add(in, t);
    }
  }
  uvs__hand_put(in);
}

void uvs__hand_drop(struct uvs__intake *in) {
  struct uvs__taken *t, *next;

  for (t = in->batch; t != NULL; t = next) {
    next = t->next;
    release(t);
  }
  in->batch = NULL;
  in->batch_end = &in->batch;
  in->batch_n = in->batch_bytes = 0;
  for (t = in->again; t != NULL; t = next) {
    next = t->next;
    release(t);
  }
  in->again = NULL;
}
