/* SPDX-License-Identifier: MIT
 *
 * Peer: GLib 2.74 main loop (one GSource with a ready time per task). */
#include "bench.h"
#include <glib.h>

typedef struct task {
  GSource s;
  uint32_t i;
} task;
static GMainContext *C;
static volatile int stop;
static gboolean dispatch(GSource *s, GSourceFunc f, gpointer d);
static GSourceFuncs funcs = {NULL, NULL, dispatch, NULL, NULL, NULL};

#define P_NAME "glib"
#define P_ARM_NS 1500
static task *p_new(uint32_t i) {
  task *t = (task *)g_source_new(&funcs, sizeof *t);
  t->i = i;
  return t;
}
static void arm_us(task *t, gint64 us) {
  g_source_set_ready_time(&t->s, us);
  if (!g_source_get_context(&t->s))
    g_source_attach(&t->s, C);
}
static void p_arm(task *t, uint32_t ms) {
  arm_us(t, g_get_monotonic_time() + (gint64)ms * 1000);
}
static void p_arm_abs(task *t, uint64_t ns) {
  arm_us(t, (gint64)((ns + 999) / 1000));
}
static void p_cancel(task *t) {
  g_source_set_ready_time(&t->s, -1);
}
static void p_free(task *t) {
  g_source_destroy(&t->s);
  g_source_unref(&t->s);
}
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
  p_free(t);
  t = p_new(i);
  p_arm(t, ms);
  return t;
}
static void p_open(void) {
  C = g_main_context_new();
}
static void p_pump(void) {
  g_main_context_iteration(C, FALSE);
}
static void p_run(void) {
  stop = 0;
  while (!stop)
    g_main_context_iteration(C, TRUE);
}
static void p_break(void) {
  stop = 1;
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
    if (__atomic_add_fetch(&w4_added, 1, __ATOMIC_RELAXED) == w4_total) {
      w4_end = now_ns();
      w4_accepted = w4_total;
      p_break();
      g_main_context_wakeup(C);
    }
  } else {
    arm_us(t, 0);
  }
}
static gboolean dispatch(GSource *s, GSourceFunc f, gpointer d) {
  (void)f;
  (void)d;
  if (in_w4) {
    if (!w4_rand)
      w4_done_one();
    g_source_unref(s);
    return G_SOURCE_REMOVE;
  }
  g_source_set_ready_time(s, -1); /* one-shot; a periodic callback re-arms */
  fired(((task *)s)->i);
  return G_SOURCE_CONTINUE;
}
int main(int argc, char **argv) {
  in_w4 = argc > 1 && !strcmp(argv[1], "w4");
  return loop_main(argc, argv);
}
