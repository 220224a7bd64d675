/* SPDX-License-Identifier: MIT
 *
 * wait: uvs_jobs_wait. A wait asks the store for its job when it begins, and again when the job may
 * have ended: a run here was settled, an event of the store names the job, or another process has
 * changed something.
 */
#include "jobs/engine.h"

#include <string.h>

#include "jobs/alloc.h"

struct uvs__wait {
  struct uvs__message message;
  struct uvs__ask ask;
  struct uvs__list_request r;
  struct uvs__timer timer;
  struct uvs__wait *next;
  uvs_jobs_t *jobs;
  uvs_job_info_cb cb;
  void *arg;
  int64_t timeout_ns;
  bool asking;
  bool again;   /* ask once more after the answer */
  bool decided; /* status is the answer */
  int status;
  int ended_state; /* the end that an event has reported; 0: none */
  uvs_job_info_t info;
  struct uvs__arena arena; /* of the id and of info */
};

static void free_wait(struct uvs__wait *w) {
  uvs__arena_free(&w->r.arena);
  uvs__arena_free(&w->arena);
  uvs__jobs_free(w);
}

static void deliver(struct uvs__message *m, void *to) {
  struct uvs__wait *w = UVS__OWNER(m, struct uvs__wait, message);

  if (w->cb != NULL)
    w->cb(to, w->status, w->status == 0 ? &w->info : NULL, w->arg);
  free_wait(w);
}

static struct uvs__wait **bucket(uvs_jobs_t *jobs, const char *queue, const char *rest) {
  return &jobs->keeper.waits[uvs__bucket_of_id(queue, rest)];
}

/* Removes the wait and calls its callback. If the store still works on the request of the wait,
 * both happen when the store has answered. */
static void decide(struct uvs__wait *w, int status) {
  struct uvs__wait **at = bucket(w->jobs, w->r.queue, w->r.rest);

  if (!w->decided)
    w->status = status;
  w->decided = true;
  if (w->asking)
    return;
  uvs__timer_clear(&w->jobs->keeper.timers, &w->timer);
  while (*at != w)
    at = &(*at)->next;
  *at = w->next;
  w->message.receive = deliver;
  uvs__mailbox_send(&w->jobs->user, &w->message);
}

/* --------------------------------------------------------------------- ask --- */

static void answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status);

static void ask_store(struct uvs__wait *w) {
  if (w->asking || w->decided) {
    w->again = true;
    return;
  }
  uvs__arena_free(&w->r.arena);
  w->asking = true;
  w->again = false;
  w->r.r.op = UVS__GET;
  w->ask.request = &w->r.r;
  w->ask.repeat = UVS__UNTIL_TIMEOUT;
  w->ask.answered = answered;
  uvs__keeper_ask(w->jobs, &w->ask);
}

static bool has_ended(int state) {
  return state != UVS_JOB_PENDING && state != UVS_JOB_RUNNING && state != UVS_JOB_HELD;
}

/* The job is gone without a record, and only the state in which it ended is known. */
static void fill_minimal(struct uvs__wait *w) {
  memset(&w->info, 0, sizeof w->info);
  w->info.size = sizeof w->info;
  w->info.state = w->ended_state;
  w->info.id = w->r.filter.id;
  w->info.queue = w->r.queue;
  w->info.name = "";
  w->info.error = "";
}

static void answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct uvs__wait *w = UVS__OWNER(ask, struct uvs__wait, ask);

  (void)jobs;
  w->asking = false;
  if (w->status == UV_ETIMEDOUT)
    w->decided = false; /* the request was on its way at the time-out: its answer counts */
  if (w->decided) {
    decide(w, w->status);
  } else if (status == 0 && has_ended(w->r.infos->state)) {
    w->info = *w->r.infos; /* its strings are in r.arena, which lives as long as the wait */
    decide(w, 0);
  } else if (status == UV_ENOENT && w->ended_state != 0) {
    fill_minimal(w);
    decide(w, 0);
  } else if (status != 0) {
    decide(w, status);
  } else if (w->status == UV_ETIMEDOUT) {
    decide(w, UV_ETIMEDOUT);
  } else if (w->again) {
    ask_store(w);
  }
}

/* ----------------------------------------------------------- what happened --- */

static bool copy_bytes(struct uvs__arena *a, const void **data, size_t size) {
  if (*data == NULL)
    return true;
  *data = uvs__arena_copy(a, *data, size);
  return *data != NULL;
}

static bool copy_info(struct uvs__wait *w, const uvs_job_info_t *from) {
  w->info = *from;
  return uvs__arena_string(&w->arena, from->id, &w->info.id) &&
         uvs__arena_string(&w->arena, from->name, &w->info.name) &&
         uvs__arena_string(&w->arena, from->queue, &w->info.queue) &&
         uvs__arena_string(&w->arena, from->key, &w->info.key) &&
         uvs__arena_string(&w->arena, from->error, &w->info.error) &&
         copy_bytes(&w->arena, &w->info.result, from->result_size);
}

void uvs__waits_ended(uvs_jobs_t *jobs, const char *queue, const char *rest,
                      const uvs_job_info_t *info) {
  struct uvs__wait *w = *bucket(jobs, queue, rest), *next;

  for (; w != NULL; w = next) {
    next = w->next;
    if (w->decided || strcmp(w->r.queue, queue) != 0 || strcmp(w->r.rest, rest) != 0)
      continue;
    decide(w, copy_info(w, info) ? 0 : UV_ENOMEM);
  }
}

void uvs__waits_event(uvs_jobs_t *jobs, const char *id, int state) {
  char queue[UVS_JOB_NAME_MAX + 1];
  const char *rest;

  if (uvs__split_id(id, queue, &rest) != 0)
    return;
  for (struct uvs__wait *w = *bucket(jobs, queue, rest); w != NULL; w = w->next) {
    if (strcmp(w->r.queue, queue) == 0 && strcmp(w->r.rest, rest) == 0) {
      w->ended_state = state;
      ask_store(w);
    }
  }
}

static void for_all(uvs_jobs_t *jobs, void (*act)(struct uvs__wait *)) {
  for (size_t i = 0; i < UVS__BUCKETS_OF_IDS; i++) {
    struct uvs__wait *w = jobs->keeper.waits[i], *next;

    for (; w != NULL; w = next) {
      next = w->next;
      act(w);
    }
  }
}

void uvs__waits_look(uvs_jobs_t *jobs) {
  for_all(jobs, ask_store);
}

static void cancel(struct uvs__wait *w) {
  decide(w, UV_ECANCELED);
}

void uvs__waits_cancel(uvs_jobs_t *jobs) {
  for_all(jobs, cancel);
}

/* -------------------------------------------------------------------- begin --- */

static void on_timeout(struct uvs__timer *t, int64_t now_ns) {
  (void)now_ns;
  decide(UVS__OWNER(t, struct uvs__wait, timer), UV_ETIMEDOUT);
}

static void begin(struct uvs__message *m, void *to) {
  struct uvs__wait *w = UVS__OWNER(m, struct uvs__wait, message);
  struct uvs__wait **first = bucket(to, w->r.queue, w->r.rest);
  uvs_jobs_t *jobs = to;

  w->next = *first;
  *first = w;
  if (w->timeout_ns != UVS_NEVER)
    uvs__timer_set(&jobs->keeper.timers, &w->timer,
                   uvs__later_ns(uvs__mono_ns(jobs), w->timeout_ns), on_timeout);
  if (jobs->keeper.closing)
    decide(w, UV_ECANCELED);
  else
    ask_store(w);
}

int uvs_jobs_wait(uvs_jobs_t *jobs, const char *id, int64_t timeout_ns, uvs_job_info_cb cb,
                  void *arg) {
  char queue[UVS_JOB_NAME_MAX + 1];
  struct uvs__wait *w;
  const char *rest;

  if (jobs == NULL || uvs__split_id(id, queue, &rest) != 0)
    return UV_EINVAL;
  if (atomic_load(&jobs->closing))
    return UV_ESHUTDOWN;
  w = uvs__jobs_alloc(sizeof *w);
  if (w == NULL)
    return UV_ENOMEM;
  w->jobs = jobs;
  w->cb = cb;
  w->arg = arg;
  w->timeout_ns = timeout_ns < 0 ? 0 : timeout_ns;
  w->message.receive = begin;
  if (!uvs__arena_string(&w->arena, queue, &w->r.queue) ||
      !uvs__arena_string(&w->arena, rest, &w->r.rest) ||
      !uvs__arena_string(&w->arena, id, &w->r.filter.id)) {
    free_wait(w);
    return UV_ENOMEM;
  }
  if (uvs__keeper_send(jobs, &w->message))
    return 0;
  free_wait(w);
  return UV_ESHUTDOWN;
}
