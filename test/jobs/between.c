/* SPDX-License-Identifier: MIT */
#include "between.h"

#include <string.h>

struct between *between_opened[NODES_MAX];
bool between_later;
static int n_opened;

typedef int (*open_fn)(const struct uvs__store_config *, struct uvs__store **, char *, size_t);
int __real_uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size);
int __real_uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size);
int __wrap_uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size);
int __wrap_uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size);

static bool writes(enum uvs__op op) {
  return op == UVS__PUT || op == UVS__SETTLE || op == UVS__ALTER || op == UVS__SET_CRON;
}

static void swallow(struct uvs__request *r) {
  (void)r;
}

/* Carries out one request, and answers with this status if it is not 0. */
static void run_one(struct between *b, struct uvs__request *r, bool carry_out, int status) {
  void (*done)(struct uvs__request *) = r->done;

  r->next = NULL;
  if (carry_out) {
    r->done = status == 0 ? done : swallow;
    b->real->ops->run(b->real, r);
  }
  if (status != 0) {
    r->done = done;
    r->status = status;
    done(r);
  }
}

static void run_now(struct uvs__store *store, struct uvs__request *first) {
  struct between *b = (struct between *)(void *)store;
  int mode = atomic_load(&b->mode);
  struct uvs__request *next;
  int puts = 0;

  for (const struct uvs__request *r = first; r != NULL; r = r->next)
    puts += r->op == UVS__PUT;
  if (puts > atomic_load(&b->puts))
    atomic_store(&b->puts, puts);
  for (; first != NULL; first = next) {
    next = first->next;
    if (mode == DOWN || (mode == NO_RESULTS && first->op == UVS__SETTLE) ||
        (mode == NO_PUTS && first->op == UVS__PUT) ||
        (mode == REPLY_LOST && first->op == UVS__CLAIM))
      run_one(b, first, false, UV_EAGAIN);
    else if (mode == REPLY_LOST && writes(first->op))
      run_one(b, first, true, UVS_EUNKNOWN);
    else if (mode == FULL && writes(first->op))
      run_one(b, first, false, UV_ENOSPC);
    else
      run_one(b, first, true, 0);
  }
  if (mode == DOWN)
    strcpy(store->trouble, "no disk");
  store->events = b->real->events;
}

static void on_async(uv_async_t *async) {
  struct between *b = async->data;
  struct uvs__request *first = b->waiting;
  int what = atomic_exchange(&b->to_report, 0);

  b->waiting = NULL;
  b->waiting_end = &b->waiting;
  if (what != 0)
    b->hooks->event(b->arg, what, "");
  run_now(&b->base, first);
}

static void run(struct uvs__store *store, struct uvs__request *first) {
  struct between *b = (struct between *)(void *)store;

  if (!b->later) {
    run_now(store, first);
    return;
  }
  *b->waiting_end = first;
  while (*b->waiting_end != NULL)
    b->waiting_end = &(*b->waiting_end)->next;
  uv_async_send(&b->async);
}

static void start(struct uvs__store *store, uv_loop_t *loop, const struct uvs__store_hooks *hooks,
                  void *arg) {
  struct between *b = (struct between *)(void *)store;

  b->hooks = hooks;
  b->arg = arg;
  b->waiting_end = &b->waiting;
  if (b->later && uv_async_init(loop, &b->async, on_async) != 0)
    abort();
  b->async.data = b;
}

static void stop(struct uvs__store *store) {
  struct between *b = (struct between *)(void *)store;

  if (b->later)
    uv_close((uv_handle_t *)&b->async, NULL);
}

static bool poll_store(struct uvs__store *store) {
  struct between *b = (struct between *)(void *)store;
  bool changed = b->real->ops->poll(b->real);

  store->events = b->real->events;
  return changed;
}

static int idle(struct uvs__store *store) {
  struct between *b = (struct between *)(void *)store;

  return b->real->ops->idle(b->real);
}

static int64_t now_us(struct uvs__store *store) {
  struct between *b = (struct between *)(void *)store;

  return b->real->ops->now_us(b->real);
}

static void close_store(struct uvs__store *store) {
  struct between *b = (struct between *)(void *)store;

  b->real->ops->close(b->real);
  free(b);
}

static int open_between(open_fn open_real, const struct uvs__store_config *config,
                        struct uvs__store **ret, char *text, size_t size) {
  static const struct uvs__store_ops ops = {.start = start,
                                            .stop = stop,
                                            .run = run,
                                            .poll = poll_store,
                                            .idle = idle,
                                            .now_us = now_us,
                                            .close = close_store};
  struct between *b = calloc(1, sizeof *b);
  int rc = open_real(config, &b->real, text, size);

  if (rc != 0) {
    free(b);
    return rc;
  }
  b->base = *b->real;
  b->base.ops = &ops;
  b->later = between_later;
  between_opened[n_opened++] = b;
  *ret = &b->base;
  return 0;
}

int __wrap_uvs__memory_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  return open_between(__real_uvs__memory_open, config, ret, text, size);
}

int __wrap_uvs__sqlite_open(const struct uvs__store_config *config, struct uvs__store **ret,
                            char *text, size_t size) {
  return open_between(__real_uvs__sqlite_open, config, ret, text, size);
}

struct engine *between_new(void) {
  n_opened = 0;
  return engine_new();
}

struct engine *between_start(void) {
  struct engine *f = between_new();

  engine_open(f);
  return f;
}

void between_set_mode(struct engine *f, int node, enum between_mode mode) {
  engine_quiesce(f);
  atomic_store(&between_opened[node]->mode, mode);
}

void between_report(struct engine *f, int node, int what) {
  engine_quiesce(f);
  atomic_store(&between_opened[node]->to_report, what);
  uv_async_send(&between_opened[node]->async);
  while (atomic_load(&between_opened[node]->to_report) != 0)
    uv_sleep(0);
  engine_sync(f);
}
