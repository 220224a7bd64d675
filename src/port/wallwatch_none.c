/* SPDX-License-Identifier: MIT
 *
 * Systems that cannot tell of a step of the wall clock.
 */
#include "port/wallwatch.h"

void uvs__wallwatch_init(struct uvs__wallwatch *w, uvs__wallwatch_cb changed) {
  w->fd = -1;
  w->changed = changed;
}

void uvs__wallwatch_open(struct uvs__wallwatch *w, uv_loop_t *loop) {
  (void)w;
  (void)loop;
}

bool uvs__wallwatch_lost(const struct uvs__wallwatch *w) {
  (void)w;
  return false;
}

bool uvs__wallwatch_close(struct uvs__wallwatch *w, uvs__wallwatch_cb closed) {
  (void)w;
  (void)closed;
  return false;
}
