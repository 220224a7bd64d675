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
};
extern struct between *between_opened[NODES_MAX]; /* of the last fixture, in order */

/* As engine_new and engine_start. */
struct engine *between_new(void);
struct engine *between_start(void);
void between_set_mode(struct engine *f, int node, enum between_mode mode);

#endif
