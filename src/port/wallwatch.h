/* SPDX-License-Identifier: MIT
 *
 * wallwatch: tells when the wall clock was set. Opened with the first wall-clock task; without it
 * (other systems, or no descriptor to be had) the scheduler looks at the wall clock every
 * UVS__WALL_CAP_NS.
 */
#ifndef UVS__WALLWATCH_H
#define UVS__WALLWATCH_H

#include <uv.h>

#include "port/base.h"

#define UVS__WALL_CAP_NS (UINT64_C(30) * 1000000000)

struct uvs__wallwatch;
typedef void (*uvs__wallwatch_cb)(struct uvs__wallwatch *w);

struct uvs__wallwatch {
  uv_poll_t poll;
  int fd;       /* -1: not open */
  bool tried;   /* once is enough */
  bool closing; /* our uv_poll_t is in libuv's hands until its callback */
  uvs__wallwatch_cb changed;
  uvs__wallwatch_cb closed;
};

void uvs__wallwatch_init(struct uvs__wallwatch *w, uvs__wallwatch_cb changed);
/* Loop thread, all. Failing to watch is not an error. */
void uvs__wallwatch_open(struct uvs__wallwatch *w, uv_loop_t *loop);
/* Has somebody else closed its handle? */
bool uvs__wallwatch_lost(const struct uvs__wallwatch *w);
/* Calls `closed` later, or returns false if there was nothing to close. */
bool uvs__wallwatch_close(struct uvs__wallwatch *w, uvs__wallwatch_cb closed);

#endif
