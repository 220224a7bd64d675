/* SPDX-License-Identifier: MIT
 *
 * Systems without a timer that a loop can watch: nothing is ever opened, so the rest is not called.
 */
#include "port/alarm.h"

int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, uvs__alarm_cb rings, void *data,
                    struct uvs__alarm **ret) {
  (void)mem;
  (void)loop;
  (void)rings;
  (void)data;
  (void)ret;
  return UV_ENOTSUP;
}

bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns) {
  (void)a;
  (void)due_ns;
  return false;
}

uv_handle_t *uvs__alarm_handle(struct uvs__alarm *a) {
  (void)a;
  return NULL;
}

void uvs__alarm_free(struct uvs__alarm *a) {
  (void)a;
}

void uvs__alarm_close(struct uvs__alarm *a) {
  (void)a;
}

void uvs__alarm_forget(struct uvs__alarm *a) {
  (void)a;
}
