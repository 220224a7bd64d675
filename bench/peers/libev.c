/* SPDX-License-Identifier: MIT
 *
 * Peer: libev 4.33 (one ev_timer per task; W4: mutex queue + ev_async). */
#include "bench.h"
#include <ev.h>

typedef struct task {
  ev_timer h;
  uint32_t i;
  uint32_t w_ms;
  struct task *w_next;
} task;
static struct ev_loop *L;
static ev_async wake_h;
static double rt_minus_mono;
static void cb(struct ev_loop *l, ev_timer *h, int r);

#define P_NAME "libev"
#define P_ARM_NS 300
static void p_init(task *t, uint32_t i) {
  ev_init(&t->h, cb);
  t->i = i;
}
static task *p_new(uint32_t i) {
  task *t = (task *)malloc(sizeof *t);
  p_init(t, i);
  return t;
}
static void p_arm(task *t, uint32_t ms) {
  ev_timer_set(&t->h, ms / 1e3, 0.);
  ev_timer_start(L, &t->h);
}
static void p_arm_abs(task *t, uint64_t ns) {
  double d = (double)ns / 1e9 + rt_minus_mono - ev_now(L);
  ev_timer_set(&t->h, d > 0 ? d : 0., 0.);
  ev_timer_start(L, &t->h);
}
static void p_cancel(task *t) {
  ev_timer_stop(L, &t->h);
}
static void p_free(task *t) {
  ev_timer_stop(L, &t->h);
  free(t);
}
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
  (void)i;
  ev_timer_stop(L, &t->h);
  p_arm(t, ms);
  return t;
}
static void p_open(void) {
  L = ev_loop_new(EVBACKEND_EPOLL);
  ev_now_update(L);
  rt_minus_mono = ev_time() - (double)now_ns() / 1e9;
}
static void p_pump(void) {
  ev_run(L, EVRUN_NOWAIT);
}
static void p_run(void) {
  ev_run(L, 0);
}
static void p_break(void) {
  ev_break(L, EVBREAK_ALL);
}
static void p_wake(void) {
  ev_async_send(L, &wake_h);
}
static void on_wake(struct ev_loop *l, ev_async *h, int r);
static void p_keep(void) {
  ev_async_init(&wake_h, on_wake);
  ev_async_start(L, &wake_h);
}
#include "loopbench.h"
static void on_wake(struct ev_loop *l, ev_async *h, int r) {
  (void)l;
  (void)h;
  (void)r;
  drain_submitted();
}
static void cb(struct ev_loop *l, ev_timer *h, int r) {
  (void)l;
  (void)r;
  fired(((task *)h)->i);
}
int main(int argc, char **argv) {
  return loop_main(argc, argv);
}
