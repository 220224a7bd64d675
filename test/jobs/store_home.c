/* SPDX-License-Identifier: MIT */
#include "store_home.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOMES 4 /* openers at the same time */

static struct home {
  struct uvs__store *store; /* NULL: free */
  uv_loop_t loop;
  char woken[100], told[100];
  int64_t woken_us; /* of the last message */
  int event;
} homes[HOMES];

static void must(bool good, const char *what) {
  if (good)
    return;
  fprintf(stderr, "store_home: %s\n", what);
  abort();
}

static struct home *home_of(const struct uvs__store *store) {
  size_t i = 0;

  while (i < HOMES && homes[i].store != store)
    i++;
  must(i < HOMES, "no such opener");
  return &homes[i];
}

static void on_wake(void *arg, const char *queue, int64_t due_us) {
  struct home *home = arg;
  size_t used = strlen(home->woken);

  home->woken_us = due_us;
  if (queue == NULL || *queue != '\0')
    snprintf(home->woken + used, sizeof home->woken - used, "%s ", queue == NULL ? "*" : queue);
}

static void on_event(void *arg, int what, const char *text) {
  struct home *home = arg;

  must(*text != '\0', "an event without a text");
  home->event = what;
}

void store_start(struct uvs__store *store) {
  static const struct uvs__store_hooks hooks = {on_wake, on_event};
  struct home *home;

  if (store->ops->start == NULL)
    return;
  home = home_of(NULL);
  home->store = store;
  home->woken[0] = '\0';
  home->event = 0;
  must(uv_loop_init(&home->loop) == 0, "uv_loop_init");
  store->ops->start(store, &home->loop, &hooks, home);
}

void store_drive(struct uvs__store *store, const unsigned *left) {
  while (*left > 0 && store->ops->start != NULL)
    uv_run(&home_of(store)->loop, UV_RUN_ONCE);
}

const char *store_woken(struct uvs__store *store) {
  struct home *home = home_of(store);

  while (home->woken[0] == '\0') /* the test has a time-out */
    uv_run(&home->loop, UV_RUN_ONCE);
  memcpy(home->told, home->woken, sizeof home->told);
  home->woken[0] = '\0';
  return home->told;
}

int64_t store_woken_us(const struct uvs__store *store) {
  return home_of(store)->woken_us;
}

int store_last_event(const struct uvs__store *store) {
  return home_of(store)->event;
}

void store_end(struct uvs__store *store) {
  if (store->ops->stop != NULL) {
    struct home *home = home_of(store);

    store->ops->stop(store);
    uv_run(&home->loop, UV_RUN_DEFAULT);
    must(uv_loop_close(&home->loop) == 0, "a handle is still alive");
    home->store = NULL;
  }
  store->ops->close(store);
}
