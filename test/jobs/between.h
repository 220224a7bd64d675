/* SPDX-License-Identifier: MIT
 *
 * between: a layer between the engine and each store. A test can set it to carry out nothing, or to
 * carry out everything and then report that the result is unknown. The test is linked with --wrap
 * of the functions that open stores.
 */
#ifndef TEST_BETWEEN_H
#define TEST_BETWEEN_H

#include <stdatomic.h>

#include "engine_fixture.h"

#include "jobs/store.h"

enum between_mode {
  WORKS,
  DOWN,       /* nothing is done: UV_EAGAIN */
  REPLY_LOST, /* writes are done, and answer UVS_EUNKNOWN; claims are not done */
  NO_RESULTS, /* settlements are not done: UV_EAGAIN */
  NO_PUTS,    /* puts are not done: UV_EAGAIN */
  FULL        /* writes are not done: UV_ENOSPC */
};

struct between {
  struct uvs__store base;
  struct uvs__store *real;
  _Atomic int mode;
  _Atomic int puts; /* requests of the largest batch */
  bool later;
  uv_async_t async; /* later: between_later */
  const struct uvs__store_hooks *hooks;
  void *arg;
  struct uvs__request *waiting, **waiting_end; /* have no answer yet */
  _Atomic int to_report;                       /* an event; 0: none */
};
extern struct between *between_opened[NODES_MAX]; /* of the last fixture, in order */

/* Stores that are opened from now on answer later, from the loop, as a server does. */
extern bool between_later;

/* As engine_new and engine_start. */
struct engine *between_new(void);
struct engine *between_start(void);
void between_set_mode(struct engine *f, int node, enum between_mode mode);
/* The store of this node, which answers later, reports an event. */
void between_report(struct engine *f, int node, int what);

#endif
