/* SPDX-License-Identifier: MIT
 *
 * alarm: the timer of the option `precise_ns`, which keeps to the nanosecond: a descriptor of the
 * system's, watched through a uv_poll handle. It never holds the loop.
 *
 * It has memory of its own, since libuv may have its handle longer than a scheduler that could not
 * be opened after all.
 */
#ifndef UVS__ALARM_H
#define UVS__ALARM_H

#include <uv.h>

#include "port/mem.h"

struct uvs__alarm;
typedef void (*uvs__alarm_cb)(void *data);

/* Loop thread, all. 0; UV_ENOTSUP: not on this system; UV_ENOMEM; or what the system or libuv
 * answers. `data` is also that of the handle. */
int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, uvs__alarm_cb rings, void *data,
                    struct uvs__alarm **ret);
/* Call `rings` once, at due_ns of uv_hrtime or later, also if that is over; instead of what was set
 * before. UVS__NEVER: not at all. False if the system refuses. */
bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns);
uv_handle_t *uvs__alarm_handle(struct uvs__alarm *a);
/* Its handle is closed, by whomever. */
void uvs__alarm_free(struct uvs__alarm *a);
/* The same, and its handle is not even closed: it goes with the loop's next turn. */
void uvs__alarm_close(struct uvs__alarm *a);
/* In a forked child: the memory, and nothing else. */
void uvs__alarm_forget(struct uvs__alarm *a);

#endif
