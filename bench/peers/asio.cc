// SPDX-License-Identifier: MIT
//
// Peer: Boost.Asio 1.74 (one steady_timer per task). Loop rows: one io_context
// run by one thread. Pool rows: thread_pool of 2 threads, timers on the pool.
#include "bench.h"
#include <boost/asio.hpp>
#include <chrono>
#include <new>
#include <vector>
namespace asio = boost::asio;
using boost::system::error_code;
using clk = std::chrono::steady_clock; // CLOCK_MONOTONIC

struct task {
  asio::steady_timer tm;
  uint32_t i;
  task(asio::io_context &c, uint32_t n) : tm(c), i(n) {}
};
static asio::io_context *C;
static void cb(task *t);
static clk::time_point tp(uint64_t ns) {
  return clk::time_point(std::chrono::nanoseconds(ns));
}

#define P_NAME "asio"
#define P_ARM_NS 500
static task *p_new(uint32_t i) {
  return new task(*C, i);
}
static void wait_on(task *t) {
  t->tm.async_wait([t](const error_code &e) {
    if (!e)
      cb(t);
  });
}
static void p_arm(task *t, uint32_t ms) {
  t->tm.expires_after(std::chrono::milliseconds(ms));
  wait_on(t);
}
static void p_arm_abs(task *t, uint64_t ns) {
  t->tm.expires_at(tp(ns));
  wait_on(t);
}
static void p_cancel(task *t) {
  t->tm.cancel();
}
static void p_free(task *t) {
  delete t;
} // cancels
static task *p_churn(task *t, uint32_t i, uint32_t ms) {
  (void)i;
  p_arm(t, ms); // expires_after cancels the wait under way
  return t;
}
static void p_open(void) {
  C = new asio::io_context(1);
}
static void p_pump(void) {
  C->restart();
  C->poll();
}
static asio::executor_work_guard<asio::io_context::executor_type> *guard;
static void p_run(void) {
  C->restart();
  C->run();
}
static void p_break(void) {
  C->stop();
}
static void p_keep(void) {
  guard = new asio::executor_work_guard<asio::io_context::executor_type>(C->get_executor());
}
#define P_NATIVE_SUBMIT 1
static void p_submit(uint32_t i, uint32_t ms);
#include "loopbench.h"
static void cb(task *t) {
  fired(t->i);
}
static uint64_t w4_added;
static void p_submit(uint32_t i, uint32_t ms) {
  if (ms) {
    task *t = p_new(i);
    p_arm(t, ms);
    if (__atomic_add_fetch(&w4_added, 1, __ATOMIC_RELAXED) == w4_total) {
      w4_end = now_ns();
      w4_accepted = w4_total;
      C->stop();
    }
  } else {
    asio::post(*C, [] { w4_done_one(); });
  }
}

// ---- pool --------------------------------------------------------------------
struct ptimer {
  asio::steady_timer tm;
  uint32_t i;
  ptimer(asio::thread_pool &p, uint32_t n) : tm(p, clk::time_point()), i(n) {}
};
static asio::thread_pool *TP;
static ptimer **PTM;
static void wait_total(uint64_t n) {
  while (cell_sum() < n)
    nap_us(200);
}
static void w3_pool(uint32_t n) {
  TP = new asio::thread_pool(2);
  PTM = (ptimer **)malloc((size_t)n * sizeof *PTM);
  uint64_t due = now_ns() + (uint64_t)n * P_ARM_NS + 20000000u;
  for (uint32_t i = 0; i < n; i++) {
    PTM[i] = new ptimer(*TP, i);
    PTM[i]->tm.expires_at(tp(due));
    PTM[i]->tm.async_wait([](const error_code &) { cell_hit(); });
  }
  uint64_t armed = now_ns();
  wait_total(n);
  uint64_t end = now_ns();
  nap_us(5000);
  if (cell_sum() != n)
    die("w3 pool count");
  emit("fire_ns", (double)(end - (armed > due ? armed : due)) / n);
  emit("armed_late", armed > due);
}
static int w4p_rand;
static void *w4p_producer(void *a) {
  producer *p = (producer *)a;
  uint64_t s = 1000 + p->base;
  while (!__atomic_load_n(&w4_go, __ATOMIC_ACQUIRE))
    sched_yield();
  uint64_t t0 = now_ns();
  for (uint32_t k = 0; k < w4_each; k++) {
    if (w4p_rand) {
      ptimer *t = new ptimer(*TP, k);
      t->tm.expires_after(std::chrono::milliseconds(rand_delay_ms(&s)));
      t->tm.async_wait([](const error_code &) {});
    } else {
      asio::post(*TP, [] { cell_hit(); });
    }
  }
  p->ns = now_ns() - t0;
  return NULL;
}
static void w4_pool(int p, int rnd, uint32_t total) {
  keep_heap();
  TP = new asio::thread_pool(2);
  producer *pr = (producer *)calloc((size_t)p, sizeof *pr);
  w4_each = total / (uint32_t)p;
  w4_total = (uint64_t)w4_each * (uint64_t)p;
  w4p_rand = rnd;
  for (int i = 0; i < p; i++) {
    pr[i].base = (uint32_t)i * w4_each;
    pthread_create(&pr[i].th, NULL, w4p_producer, &pr[i]);
  }
  nap_us(5000);
  w4_t0 = now_ns();
  __atomic_store_n(&w4_go, 1, __ATOMIC_RELEASE);
  double sum = 0;
  if (!rnd) {
    wait_total(w4_total);
    w4_end = now_ns();
  }
  for (int i = 0; i < p; i++) {
    pthread_join(pr[i].th, NULL);
    sum += (double)pr[i].ns;
  }
  if (rnd)
    w4_end = now_ns();
  emit("submit_ns", sum / (double)w4_total);
  emit("total_ns", (double)(w4_end - w4_t0) / (double)w4_total);
}
static void pp_arm(ptimer *t);
static void pp_run(ptimer *t) {
  ptask *p = &PT[t->i];
  uint64_t now = now_ns();
  p->last = (int64_t)(now - p->ideal);
  if (samples)
    sample_add(p->last, (uint32_t)((now - w_t0) / win_ns));
  cell_hit();
  p->ideal += p->period;
  pp_arm(t);
}
static void pp_arm(ptimer *t) {
  t->tm.expires_at(tp(PT[t->i].ideal));
  t->tm.async_wait([t](const error_code &e) {
    if (!e)
      pp_run(t);
  });
}
static uint64_t wc0, wc1, we0, we1, wt0, wt1;
static void periodic_pool(uint32_t k, uint32_t period_ms, double secs) {
  TP = new asio::thread_pool(2);
  w_t0 = now_ns() + 20000000u + (uint64_t)k * P_ARM_NS;
  win_ns = (uint64_t)(secs * 1e9 / 5);
  PT = periodic_set(k, period_ms, w_t0);
  for (uint32_t i = 0; i < k; i++)
    pp_arm(new ptimer(*TP, i));
  while (now_ns() < w_t0)
    nap_us(500);
  wt0 = now_ns();
  wc0 = cpu_ns();
  we0 = cell_sum();
  while ((double)(now_ns() - w_t0) < secs * 1e9)
    nap_us(2000);
  wt1 = now_ns();
  wc1 = cpu_ns();
  we1 = cell_sum();
  TP->stop();
  TP->join();
}
static void w5_pool(double secs) {
  samples_cap = (uint64_t)(secs * 40000 + 10000);
  samples = (sample *)calloc(samples_cap, sizeof *samples);
  periodic_pool(1000, 0, secs);
  emit("cpu_ms", (double)(wc1 - wc0) / 1e6);
  emit("execs", (double)(we1 - we0));
  samples_report(5);
  drift_report(PT, 1000);
}
static void w6_pool(uint32_t k, uint32_t period_ms, double secs) {
  periodic_pool(k, period_ms, secs);
  emit("keepup", (double)(we1 - we0) / ((double)(wt1 - wt0) / 1e6 / period_ms * k));
  emit("cpu_s_per_M", (double)(wc1 - wc0) / 1e9 / (double)(we1 - we0) * 1e6);
}
// ---- W10: strands over the pool ----------------------------------------------
static void w10(uint32_t n, uint32_t total) {
  using strand = asio::strand<asio::thread_pool::executor_type>;
  keep_heap();
  TP = new asio::thread_pool(2);
  std::vector<strand> lanes;
  for (uint32_t i = 0; i < n; i++)
    lanes.push_back(asio::make_strand(*TP));
  nap_us(5000);
  uint64_t t0 = now_ns();
  for (uint32_t i = 0; i < total; i++)
    asio::post(lanes[i % n], [] { cell_hit(); });
  wait_total(total);
  uint64_t end = now_ns();
  nap_us(5000);
  if (cell_sum() != total)
    die("w10 count");
  emit("lane_ns", (double)(end - t0) / total);
}
int main(int argc, char **argv) {
  const char *w = argc > 3 ? argv[1] : "", *v = argc > 3 ? argv[2] : "";
  if (!strcmp(w, "w10") && argc > 4) {
    if (strcmp(v, "thread"))
      return 2;
    w10((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)strtoul(argv[4], NULL, 10));
    fflush(stdout);
    _exit(0);
  }
  if (!strcmp(v, "pool")) {
    if (!strcmp(w, "w3"))
      w3_pool((uint32_t)strtoul(argv[3], NULL, 10));
    else if (!strcmp(w, "w4") && argc > 5)
      w4_pool(atoi(argv[3]), !strcmp(argv[4], "rand"), (uint32_t)strtoul(argv[5], NULL, 10));
    else if (!strcmp(w, "w5"))
      w5_pool(atof(argv[3]));
    else if (!strcmp(w, "w6") && argc > 5)
      w6_pool((uint32_t)strtoul(argv[3], NULL, 10), (uint32_t)atoi(argv[4]), atof(argv[5]));
    fflush(stdout);
    _exit(0);
  }
  return loop_main(argc, argv);
}
