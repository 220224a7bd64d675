/* SPDX-License-Identifier: MIT
 *
 * open: opens a store, and closes it.
 *
 * A close has four steps, each on its own thread: uvs_jobs_close tells the keeper; the keeper
 * ends when nothing runs and nothing waits for an answer; the loop thread joins it and waits for
 * the last `done` of a handler's task; then the mailbox is closed, and the callback is called.
 */
#include "jobs/engine.h"

#include <stdio.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/run.h"

#define MESSAGES_A_TURN 256 /* callbacks in one pass of the user's loop */

/* ------------------------------------------------------------------- open --- */

static int refuse(char *text, size_t size, const char *reason) {
  snprintf(text, size, "%s", reason);
  return UV_EINVAL;
}

static int check_options(const uvs_jobs_options_t *o, char *text, size_t size) {
  if (o->store == NULL)
    return refuse(text, size,
                  "store is missing: write \"sqlite:FILE\", \"redis://HOST\" or \"memory:\"");
  if (o->put_timeout_ns < 0)
    return refuse(text, size, "put_timeout_ns is negative");
  if (o->max_queued == 0)
    return refuse(text, size, "max_queued is 0");
  if (o->dead_age_ns <= 0)
    return refuse(text, size, "dead_age_ns is not positive");
  if (o->max_payload_bytes == 0 || o->max_payload_bytes > UVS_JOB_PAYLOAD_MAX)
    return refuse(text, size, "max_payload_bytes is not in the range 1 to 1114112");
  if ((o->clock.monotonic_ns == NULL) != (o->clock.wall_ns == NULL))
    return refuse(text, size, "clock has only one of monotonic_ns and wall_ns");
  return 0;
}

static int open_store(const uvs_jobs_options_t *o, struct uvs__store **ret, char *text,
                      size_t size) {
  static const struct {
    const char *scheme;
    int (*open)(const struct uvs__store_config *, struct uvs__store **, char *, size_t);
    bool whole; /* the store reads the scheme, too */
  } stores[] = {{"sqlite:", uvs__sqlite_open, false},   {"memory:", uvs__memory_open, false},
                {"redis:", uvs__redis_open, true},      {"rediss:", uvs__redis_open, true},
                {"redis+unix:", uvs__redis_open, true}, {"redis+sentinel:", uvs__redis_open, true}};

  for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
    size_t length = strlen(stores[i].scheme);
    struct uvs__store_config config = {stores[i].whole ? o->store : o->store + length, o->clock,
                                       o->existing != 0};

    if (strncmp(o->store, stores[i].scheme, length) == 0)
      return stores[i].open(&config, ret, text, size);
  }
  return refuse(text, size, "store begins with none of \"sqlite:\", \"redis:\" and \"memory:\"");
}

static int read_options(const uvs_jobs_options_t *from, uvs_jobs_options_t *ret) {
  if (from == NULL || from->size < sizeof *ret)
    return UV_EINVAL;
  memcpy(ret, from, sizeof *ret);
  ret->size = sizeof *ret;
  return 0;
}

static void on_user_mail(uv_async_t *async) {
  uvs_jobs_t *jobs = async->data;

  uvs__mailbox_receive(&jobs->user, jobs, MESSAGES_A_TURN);
}

/* Makes a struct that has no mailbox and no keeper yet. */
static int make(uvs_t *s, const uvs_jobs_options_t *o, uvs_jobs_t **ret) {
  uvs_jobs_t *jobs = uvs__jobs_alloc(sizeof *jobs);
  int rc = UV_ENOMEM;

  if (jobs == NULL)
    return rc;
  rc = uv_mutex_init(&jobs->lock);
  if (rc != 0)
    goto free_jobs;
  rc = uv_random(NULL, NULL, &jobs->random, sizeof jobs->random, 0, NULL);
  if (rc != 0)
    goto destroy_lock;
  jobs->random |= 1;
  jobs->s = s;
  jobs->options = *o;
  jobs->options.store = NULL;
  jobs->keeper_ended_message.receive = uvs__on_keeper_ended;
  *ret = jobs;
  return 0;

destroy_lock:
  uv_mutex_destroy(&jobs->lock);
free_jobs:
  uvs__jobs_free(jobs);
  return rc;
}

static void on_failed_open(uv_handle_t *async) {
  uvs_jobs_t *jobs = async->data;

  uvs__mailbox_destroy(&jobs->user);
  uvs__jobs_destroy(jobs);
}

/* Claims come last, because settles free places that the claims can use at once. */
static void collect(uvs_jobs_t *jobs) {
  uvs__settle_collect(jobs);
  uvs__events_look(jobs);
  uvs__workers_claim(jobs);
}

static const struct uvs__keeper_rooms rooms = {uvs__events_look, collect, uvs__waits_look,
                                               uvs__settle_extend_all, uvs__crons_define_again};

int uvs_jobs_open(uvs_t *s, const uvs_jobs_options_t *o, uvs_jobs_t **ret, char *text,
                  size_t size) {
  char unused[200];
  uvs_jobs_options_t options;
  struct uvs__store *store;
  uvs_jobs_t *jobs;
  int rc;

  if (text == NULL || size == 0) {
    text = unused;
    size = sizeof unused;
  }
  text[0] = '\0';
  if (s == NULL || ret == NULL || read_options(o, &options) != 0)
    return refuse(text, size, "an argument is NULL, or the options were not initialized");
  rc = check_options(&options, text, size);
  if (rc == 0)
    rc = make(s, &options, &jobs);
  if (rc != 0)
    goto explain;
  rc = open_store(&options, &store, text, size);
  if (rc != 0)
    goto free_jobs;
  rc = uvs__mailbox_open(&jobs->user, uvs_loop(s), on_user_mail);
  if (rc != 0)
    goto close_store;
  jobs->user.async.data = jobs;
  rc = uvs__keeper_open(jobs, store, &rooms);
  if (rc == 0) {
    *ret = jobs;
    return 0;
  }
  store->ops->close(store);
  uv_close((uv_handle_t *)&jobs->user.async, on_failed_open);
  goto explain;

close_store:
  store->ops->close(store);
free_jobs:
  uvs__jobs_destroy(jobs);
explain:
  if (text[0] == '\0')
    snprintf(text, size, "%s", uvs_jobs_strerror(rc));
  return rc;
}

uvs_t *uvs_jobs_scheduler(const uvs_jobs_t *jobs) {
  return jobs == NULL ? NULL : jobs->s;
}

void *uvs_jobs_data(const uvs_jobs_t *jobs) {
  return jobs == NULL ? NULL : jobs->options.arg;
}

/* ------------------------------------------------------------------ close --- */

static void on_grace_over(struct uvs__timer *t, int64_t now_ns) {
  struct uvs__keeper *k = UVS__OWNER(t, struct uvs__keeper, grace);

  (void)now_ns;
  uvs__runs_stop(UVS__OWNER(k, uvs_jobs_t, keeper), UVS__STOP_CLOSE);
}

static void on_close(struct uvs__message *m, void *to) {
  uvs_jobs_t *jobs = to;
  struct uvs__keeper *k = &jobs->keeper;

  (void)m;
  k->closing = true;
  uvs__workers_stop(jobs);
  uvs__waits_cancel(jobs);
  uvs__timer_set(&k->timers, &k->grace, uvs__later_ns(uvs__mono_ns(jobs), k->grace_ns),
                 on_grace_over);
}

int uvs_jobs_close(uvs_jobs_t *jobs, int64_t grace_ns, uvs_jobs_close_cb cb, void *arg) {
  if (jobs == NULL)
    return UV_EINVAL;
  if (atomic_exchange(&jobs->closing, true))
    return UV_EALREADY;
  jobs->close_cb = cb;
  jobs->close_arg = arg;
  jobs->keeper.grace_ns = grace_ns < 0 ? 0 : grace_ns;
  jobs->keeper.close_message.receive = on_close;
  uvs__keeper_send(jobs, &jobs->keeper.close_message);
  return 0;
}
