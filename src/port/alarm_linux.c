/* SPDX-License-Identifier: MIT
 *
 * Linux: a timerfd. Its clock is uv_hrtime's and its time is absolute, so nothing is added up; and
 * the kernel gives it no slack, as it does to the time-out of an epoll.
 */
#include "port/alarm.h"

#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define SECOND UINT64_C(1000000000)

struct uvs__alarm {
  uv_poll_t poll;
  int fd;
  uvs__alarm_cb rings;
  uvs_allocator_t mem;
};

static struct uvs__alarm *alarm_of(uv_handle_t *h) {
  return (struct uvs__alarm *)(void *)((char *)h - offsetof(struct uvs__alarm, poll));
}

static void on_poll(uv_poll_t *h, int status, int events) {
  struct uvs__alarm *a = alarm_of((uv_handle_t *)h);
  uint64_t expirations;

  (void)status;
  (void)events;
  /* Read, or it would ring in every pass. Nothing there: it was set anew in this pass. */
  if (read(a->fd, &expirations, sizeof expirations) > 0)
    a->rings(h->data);
}

int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *loop, uvs__alarm_cb rings, void *data,
                    struct uvs__alarm **ret) {
  struct uvs__alarm *a = uvs__mem_alloc(mem, 1, sizeof *a, 0);
  int rc;

  if (a == NULL)
    return UV_ENOMEM;
  a->mem = *mem;
  a->rings = rings;
  a->fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  if (a->fd < 0) {
    rc = uv_translate_sys_error(errno);
    goto free_memory;
  }
  rc = uv_poll_init(loop, &a->poll, a->fd);
  if (rc < 0)
    goto close_fd;
  a->poll.data = data;
  rc = uv_poll_start(&a->poll, UV_READABLE, on_poll);
  UVS_ASSERT(rc == 0); /* it cannot fail: the handle is not closing */
  uv_unref((uv_handle_t *)&a->poll);
  *ret = a;
  return 0;

close_fd:
  close(a->fd);
free_memory:
  uvs__mem_free(mem, a);
  return rc;
}

bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns) {
  struct itimerspec t;

  memset(&t, 0, sizeof t);
  if (due_ns != UVS__NEVER) { /* all zero would mean the same: there is no instant 0 */
    t.it_value.tv_sec = (time_t)(due_ns / SECOND);
    t.it_value.tv_nsec = (long)(due_ns % SECOND);
  }
  return timerfd_settime(a->fd, TFD_TIMER_ABSTIME, &t, NULL) == 0;
}

uv_handle_t *uvs__alarm_handle(struct uvs__alarm *a) {
  return (uv_handle_t *)&a->poll;
}

void uvs__alarm_free(struct uvs__alarm *a) {
  close(a->fd);
  uvs__alarm_forget(a);
}

static void on_closed(uv_handle_t *h) {
  uvs__alarm_free(alarm_of(h));
}

void uvs__alarm_close(struct uvs__alarm *a) {
  uv_close((uv_handle_t *)&a->poll, on_closed);
}

void uvs__alarm_forget(struct uvs__alarm *a) {
  uvs_allocator_t mem = a->mem;

  uvs__mem_free(&mem, a);
}
