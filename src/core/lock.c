/* SPDX-License-Identifier: MIT
 *
 * lock: waits for the scheduler's lock when another thread holds it.
 */
#include "core/scheduler.h"

void uvs__lock_wait(uvs_t *s) {
  for (int looks = 0; looks < UVS__LOOKS; looks++) {
    for (int i = 0; i < UVS__PAUSES; i++)
      uvs__cpu_pause();
    if (uv_mutex_trylock(&s->lock) == 0)
      return;
  }
  uv_mutex_lock(&s->lock);
}
