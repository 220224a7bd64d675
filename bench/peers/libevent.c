/* SPDX-License-Identifier: MIT
 *
 * Peer: libevent 2.1 (one event per task, its locked base for W4). */
#include "bench.h"
#include <event2/event.h>
#include <event2/event_struct.h>
#include <event2/thread.h>

typedef struct task {
  struct event ev;
  uint32_t i;
} task;
static struct event_base *B;
static int flags;
static void cb(evutil_socket_t fd, short what, void *a);

#define P_NAME "libevent"
#define P_ARM_NS 500
static task *p_new(uint32_t i) {
  task *t = (task *)malloc(sizeof *t);
  evtimer_assign(&t->ev, B, cb, t);
  t->i = i;
  return t;
}
static void p_arm(task *t, uint32_t ms) {
  struct timeval tv = {ms / 1000, (long)(ms % 1000) * 1000};
  evtimer_add(&t->ev, &tv);
}
static void p_arm_abs(task *t, uint64_t ns) {
  uint64_t n = now_ns(), d = ns > n ? (ns - n + 999) / 1000 : 0;
  struct timeval tv = {(long)(d / 1000000), (long)(d % 1000000)};
  evtimer_add(&t->ev, &tv);
}
static void p_cancel(task *t) {
  evtimer_del(&t->ev);
}
static void p_free(task *t) {
  evtimer_del(&t->ev);
  free(t);
}
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
  (void)i;
  evtimer_del(&t->ev);
  p_arm(t, ms);
  return t;
}
static void p_open(void) {
  struct event_config *c = event_config_new();
  event_config_set_flag(c, flags);
  B = event_base_new_with_config(c);
  event_config_free(c);
}
static void p_pump(void) {
  event_base_loop(B, EVLOOP_NONBLOCK);
}
static void p_run(void) {
  event_base_loop(B, EVLOOP_NO_EXIT_ON_EMPTY);
}
static void p_break(void) {
  event_base_loopbreak(B);
}
static void p_keep(void) {}
#define P_NATIVE_SUBMIT 1
static void p_submit(uint32_t i, uint32_t ms);
#include "loopbench.h"

static volatile uint64_t w4_added;
static int in_w4;
static void p_submit(uint32_t i, uint32_t ms) {
  task *t = p_new(i);
  if (ms) {
    p_arm(t, ms);
    /* accepted once event_add has returned: the base's own lock did it */
    if (__atomic_add_fetch(&w4_added, 1, __ATOMIC_RELAXED) == w4_total) {
      w4_end = now_ns();
      w4_accepted = w4_total;
      event_base_loopbreak(B);
    }
  } else {
    event_active(&t->ev, EV_TIMEOUT, 0);
  }
}
static void cb(evutil_socket_t fd, short what, void *a) {
  task *t = (task *)a;
  (void)fd;
  (void)what;
  if (in_w4) {
    free(t);
    if (!w4_rand)
      w4_done_one();
    return;
  }
  fired(t->i);
}
int main(int argc, char **argv) {
  const char *w = argc > 1 ? argv[1] : "";
  if (!strcmp(w, "w4")) {
    evthread_use_pthreads();
    in_w4 = 1;
  }
  /* its exact-clock mode where lateness is measured, else the default */
  if (!strcmp(w, "w5") || !strcmp(w, "w6") || !strcmp(w, "w3"))
    flags = EVENT_BASE_FLAG_PRECISE_TIMER | EVENT_BASE_FLAG_NO_CACHE_TIME;
  return loop_main(argc, argv);
}
