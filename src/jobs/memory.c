/* SPDX-License-Identifier: MIT
 *
 * memory: opens stores in memory, shares those with a name, and carries out batches.
 */
#include "jobs/memory.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jobs/alloc.h"

#define POLL_MS 250 /* of a shared store */

/* One opener. */
struct memory_store {
  struct uvs__store base;
  struct uvs__memory *m;
  uvs_clock_t clock;
  uint64_t owner; /* its number */
  uint64_t seen;  /* changes that this opener has made, or has been told of */
};

/* The shared stores of this process. */
static uv_once_t once = UV_ONCE_INIT;
static uv_mutex_t list_lock;
static struct uvs__memory *shared_stores;
static int list_error;

static void init_list(void) {
  list_error = uv_mutex_init(&list_lock);
}

/* ------------------------------------------------------------ the content --- */

static void free_memory(struct uvs__memory *m) {
  struct uvs__node *node;

  while ((node = uvs__tree_first(&m->ids)) != NULL)
    uvs__memory_forget(m, UVS__AROUND(node, struct uvs__memory_job, by_id));
  uvs__memory_free_admin(m);
  uv_mutex_destroy(&m->lock);
  uvs__jobs_free(m->events);
  uvs__jobs_free(m->name);
  uvs__jobs_free(m);
}

static int make_memory(const char *name, struct uvs__memory **ret) {
  struct uvs__memory *m = uvs__jobs_alloc(sizeof *m);
  int rc = UV_ENOMEM;

  if (m == NULL)
    return UV_ENOMEM;
  m->name = uvs__jobs_alloc(strlen(name) + 1);
  if (m->name == NULL)
    goto free_m;
  memcpy(m->name, name, strlen(name) + 1);
  m->events = uvs__jobs_alloc(UVS__EVENTS_KEPT * sizeof *m->events);
  if (m->events == NULL)
    goto free_name;
  rc = uv_mutex_init(&m->lock);
  if (rc != 0)
    goto free_events;
  uvs__memory_init_indexes(m);
  uvs__memory_init_admin(m);
  *ret = m;
  return 0;

free_events:
  uvs__jobs_free(m->events);
free_name:
  uvs__jobs_free(m->name);
free_m:
  uvs__jobs_free(m);
  return rc;
}

/* The list lock is held. */
static int find_or_make(const char *name, struct uvs__memory **ret) {
  struct uvs__memory *m = shared_stores;
  int rc;

  while (m != NULL && strcmp(m->name, name) != 0)
    m = m->next;
  if (m == NULL) {
    rc = make_memory(name, &m);
    if (rc != 0)
      return rc;
    m->next = shared_stores;
    shared_stores = m;
  }
  m->refs++;
  *ret = m;
  return 0;
}

static int get_memory(const char *name, struct uvs__memory **ret) {
  int rc;

  if (*name == '\0')
    return make_memory(name, ret);
  uv_once(&once, init_list);
  if (list_error != 0)
    return list_error;
  uv_mutex_lock(&list_lock);
  rc = find_or_make(name, ret);
  uv_mutex_unlock(&list_lock);
  return rc;
}

static void release_memory(struct uvs__memory *m) {
  struct uvs__memory **at = &shared_stores;
  bool last = true;

  if (*m->name != '\0') {
    uv_mutex_lock(&list_lock);
    last = --m->refs == 0;
    if (last) {
      while (*at != m)
        at = &(*at)->next;
      *at = m->next;
    }
    uv_mutex_unlock(&list_lock);
  }
  if (last)
    free_memory(m);
}

/* ------------------------------------------------------------- the store --- */

static int64_t wall_ns(const struct memory_store *s) {
  struct timespec t;

  if (s->clock.wall_ns != NULL)
    return s->clock.wall_ns(s->clock.arg);
  clock_gettime(CLOCK_REALTIME, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int carry_out(struct uvs__memory *m, struct uvs__request *r) {
  void *request = r; /* the head is the first member of each */

  switch (r->op) {
  case UVS__PUT:
    return uvs__memory_put(m, request);
  case UVS__CLAIM:
    return uvs__memory_claim(m, request);
  case UVS__SETTLE:
    return uvs__memory_settle(m, request);
  case UVS__ALTER:
    return uvs__memory_alter(m, request);
  case UVS__GET:
    return uvs__memory_get(m, request);
  case UVS__LIST:
    return uvs__memory_list(m, request);
  case UVS__REDRIVE:
    return uvs__memory_redrive(m, request);
  case UVS__PURGE:
    return uvs__memory_purge(m, request);
  case UVS__SET_QUEUE:
    return uvs__memory_set_queue(m, request);
  case UVS__SET_CRON:
    return uvs__memory_set_cron(m, request);
  case UVS__REMOVE_CRON:
    return uvs__memory_remove_cron(m, request);
  case UVS__CRONS:
    return uvs__memory_crons(m, request);
  case UVS__COUNT:
    return uvs__memory_count(m, request);
  case UVS__EVENTS:
    return uvs__memory_events(m, request);
  case UVS__TRIM:
    return uvs__memory_trim(m, request);
  }
  return UV_ENOTSUP;
}

/* The lock is held. */
static void begin(struct memory_store *s) {
  s->m->wall_ns = wall_ns(s);
  s->m->now_us = s->m->wall_ns / 1000;
  s->m->owner = s->owner;
}

static void run(struct uvs__store *store, struct uvs__request *first) {
  struct memory_store *s = (struct memory_store *)store;
  struct uvs__memory *m = s->m;
  struct uvs__request *r, *next;
  bool up_to_date;

  store->trouble[0] = '\0';
  uv_mutex_lock(&m->lock);
  up_to_date = s->seen == m->changes;
  begin(s);
  for (r = first; r != NULL; r = r->next) {
    r->status = carry_out(m, r);
    if (r->status == UV_ENOMEM)
      snprintf(store->trouble, sizeof store->trouble, "there is not enough memory");
  }
  if (up_to_date)
    s->seen = m->changes;
  store->events = m->last_event;
  uv_mutex_unlock(&m->lock);
  for (r = first; r != NULL; r = next) {
    next = r->next;
    r->done(r);
  }
}

static bool poll_changes(struct uvs__store *store) {
  struct memory_store *s = (struct memory_store *)store;
  bool changed;

  uv_mutex_lock(&s->m->lock);
  changed = s->seen != s->m->changes;
  s->seen = s->m->changes;
  store->events = s->m->last_event;
  uv_mutex_unlock(&s->m->lock);
  return changed;
}

static int idle(struct uvs__store *store) {
  (void)store;
  return 0;
}

static int64_t now_us(struct uvs__store *store) {
  return wall_ns((struct memory_store *)store) / 1000;
}

static void close_store(struct uvs__store *store) {
  struct memory_store *s = (struct memory_store *)store;

  uv_mutex_lock(&s->m->lock);
  begin(s);
  uvs__memory_end_leases(s->m, s->owner);
  uv_mutex_unlock(&s->m->lock);
  release_memory(s->m);
  uvs__jobs_free(s);
}

int uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                     size_t size) {
  static const struct uvs__store_ops ops = {
      .run = run, .poll = poll_changes, .idle = idle, .now_us = now_us, .close = close_store};
  struct memory_store *s = uvs__jobs_alloc(sizeof *s);
  int rc = s == NULL ? UV_ENOMEM : get_memory(config->name, &s->m);

  if (rc != 0) {
    uvs__jobs_free(s);
    snprintf(text, size, "the memory store cannot be opened: %s", uv_strerror(rc));
    return rc;
  }
  s->base.ops = &ops;
  s->base.poll_ms = *config->name == '\0' ? 0 : POLL_MS;
  s->clock = config->clock;
  uv_mutex_lock(&s->m->lock);
  s->owner = ++s->m->last_owner;
  s->seen = s->m->changes;
  s->base.events = s->m->last_event;
  uv_mutex_unlock(&s->m->lock);
  *ret = &s->base;
  return 0;
}
