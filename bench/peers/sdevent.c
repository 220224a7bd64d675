/* SPDX-License-Identifier: MIT
 *
 * Peer: sd-event of systemd 252 (one time source per task; W4: mutex queue +
 * eventfd). */
#include "bench.h"
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <systemd/sd-event.h>

typedef struct task {
  sd_event_source *s;
  uint32_t i;
  uint32_t w_ms;
  struct task *w_next;
} task;
static sd_event *E;
static int efd = -1;
static volatile int stop;
static int cb(sd_event_source *s, uint64_t us, void *a);

#define P_NAME "sd-event"
#define P_ARM_NS 2500
static void p_init(task *t, uint32_t i) {
  t->s = NULL;
  t->i = i;
}
static task *p_new(uint32_t i) {
  task *t = (task *)malloc(sizeof *t);
  p_init(t, i);
  return t;
}
static void arm_us(task *t, uint64_t us) {
  if (!t->s) {
    if (sd_event_add_time(E, &t->s, CLOCK_MONOTONIC, us, 1, cb, t) < 0)
      abort();
  } else {
    sd_event_source_set_time(t->s, us);
    sd_event_source_set_enabled(t->s, SD_EVENT_ONESHOT);
  }
}
static uint64_t now_us(void) {
  uint64_t us = 0;
  if (sd_event_now(E, CLOCK_MONOTONIC, &us) < 0)
    us = 0;
  return us;
}
static void p_arm(task *t, uint32_t ms) {
  arm_us(t, now_us() + ms * 1000ull);
}
static void p_arm_abs(task *t, uint64_t ns) {
  arm_us(t, (ns + 999) / 1000);
}
static void p_cancel(task *t) {
  sd_event_source_set_enabled(t->s, SD_EVENT_OFF);
}
static void p_free(task *t) {
  sd_event_source_disable_unref(t->s);
  free(t);
}
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
  (void)i;
  p_cancel(t);
  p_arm(t, ms);
  return t;
}
static void p_open(void) {
  if (sd_event_new(&E) < 0)
    abort();
}
/* sd_event_run dispatches at most one source per turn */
static void p_pump(void) {
  while (sd_event_run(E, 0) > 0) {
  }
}
static void p_run(void) {
  stop = 0;
  while (!stop)
    sd_event_run(E, UINT64_MAX);
}
static void p_break(void) {
  stop = 1;
}
static void p_wake(void) {
  uint64_t one = 1;
  if (write(efd, &one, 8) != 8)
    abort();
}
static int on_wake(sd_event_source *s, int fd, uint32_t ev, void *a);
static void p_keep(void) {
  efd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  sd_event_add_io(E, NULL, efd, EPOLLIN, on_wake, NULL);
}
#include "loopbench.h"
static int on_wake(sd_event_source *s, int fd, uint32_t ev, void *a) {
  uint64_t v;
  (void)s;
  (void)ev;
  (void)a;
  if (read(fd, &v, 8) != 8)
    return 0;
  drain_submitted();
  return 0;
}
static int cb(sd_event_source *s, uint64_t us, void *a) {
  (void)s;
  (void)us;
  fired(((task *)a)->i);
  return 0;
}
int main(int argc, char **argv) {
  return loop_main(argc, argv);
}
