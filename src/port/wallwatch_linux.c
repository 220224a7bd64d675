/* SPDX-License-Identifier: MIT
 *
 * Linux: a timerfd that is never due, but cancelled by each step of the real-time clock and by a
 * resume from suspend.
 */
#include "port/wallwatch.h"

#include <string.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* Arm anew: a timerfd tells of a step once per setting. */
static int watch(int fd) {
  struct itimerspec far;

  memset(&far, 0, sizeof far);
  far.it_value.tv_sec =
      sizeof far.it_value.tv_sec == 8 ? (time_t)INT64_C(0x1ffffffff) : (time_t)INT32_MAX;
  return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &far, NULL);
}

static void on_poll(uv_poll_t *h, int status, int events) {
  struct uvs__wallwatch *w = h->data;
  uint64_t expirations;

  (void)status;
  (void)events;
  if (read(w->fd, &expirations, sizeof expirations) < 0) {
    /* ECANCELED: the clock was set. */
  }
  watch(w->fd);
  w->changed(w);
}

void uvs__wallwatch_init(struct uvs__wallwatch *w, uvs__wallwatch_cb changed) {
  w->fd = -1;
  w->tried = false;
  w->closing = false;
  w->changed = changed;
}

void uvs__wallwatch_open(struct uvs__wallwatch *w, uv_loop_t *loop) {
  int fd;

  if (w->tried)
    return;
  w->tried = true;
  fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
  if (fd < 0)
    return;
  if (watch(fd) != 0 || uv_poll_init(loop, &w->poll, fd) != 0) {
    close(fd);
    return;
  }
  w->fd = fd;
  w->poll.data = w;
  uv_unref((uv_handle_t *)&w->poll);
  uv_poll_start(&w->poll, UV_READABLE, on_poll);
}

static void on_closed(uv_handle_t *h) {
  struct uvs__wallwatch *w = h->data;

  close(w->fd);
  w->fd = -1;
  w->closed(w);
}

bool uvs__wallwatch_lost(const struct uvs__wallwatch *w) {
  return w->fd >= 0 && !w->closing && uv_is_closing((const uv_handle_t *)&w->poll);
}

bool uvs__wallwatch_close(struct uvs__wallwatch *w, uvs__wallwatch_cb closed) {
  if (w->fd < 0 || w->closing)
    return false;
  if (uvs__wallwatch_lost(w)) {
    close(w->fd);
    w->fd = -1;
    return false;
  }
  w->closing = true;
  w->closed = closed;
  uv_close((uv_handle_t *)&w->poll, on_closed);
  return true;
}
