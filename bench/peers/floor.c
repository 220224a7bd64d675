/* SPDX-License-Identifier: MIT
 *
 * Physical and algorithmic floors of this machine, for judging the peers and
 * for setting targets. Prints "name<TAB>value<TAB>unit<TAB>meaning". */
#include "bench.h"
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <uv.h>

static int quick, huge_n;
static void out(const char *name, double v, const char *unit, const char *what) {
  printf("%s\t%.2f\t%s\t%s\n", name, v, unit, what);
  fflush(stdout);
}
static double mid_of(double (*f)(void), int n) { /* where luck lowers it: not truly parallel */
  int64_t v[9];
  for (int i = 0; i < n; i++)
    v[i] = (int64_t)(f() * 1000);
  qsort(v, (size_t)n, sizeof *v, cmp_i64);
  return (double)v[n / 2] / 1000;
}
static double best_of(double (*f)(void), int n) { /* a floor is a minimum */
  double b = f();
  while (--n > 0) {
    double v = f();
    if (v < b)
      b = v;
  }
  return b;
}

/* ---- memory ------------------------------------------------------------------ */
static double chase(size_t bytes, int huge) {
  size_t n = bytes / 64;
  char *m = (char *)mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  uint32_t *p = (uint32_t *)malloc(n * 4);
  uint64_t s = 3;
  if (huge)
    madvise(m, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < n; i++)
    p[i] = (uint32_t)i;
  for (size_t i = n - 1; i > 0; i--) { /* Sattolo: one cycle */
    size_t j = below(mix64(&s), (uint32_t)i);
    uint32_t t = p[i];
    p[i] = p[j];
    p[j] = t;
  }
  for (size_t i = 0; i < n; i++)
    *(void **)(m + i * 64) = m + (size_t)p[i] * 64;
  free(p);
  void **q = (void **)m;
  size_t steps = 2000000;
  for (size_t i = 0; i < (n < steps ? n : steps); i++)
    q = (void **)*q;
  double b = 1e9;
  for (int r = 0; r < 3; r++) {
    uint64_t t0 = now_ns();
    for (size_t i = 0; i < steps; i++)
      q = (void **)*q;
    double v = (double)(now_ns() - t0) / (double)steps;
    if (v < b)
      b = v;
  }
  if (q == NULL)
    puts("");
  munmap(m, bytes);
  return b;
}

/* ---- single-thread primitives -------------------------------------------------- */
#define REP 2000000
static double f_clock(void) {
  uint64_t t0 = now_ns(), x = 0;
  for (int i = 0; i < REP; i++)
    x += now_ns();
  __asm__ volatile("" ::"r"(x));
  return (double)(now_ns() - t0) / REP;
}
static uint64_t word;
static double f_rmw(void) {
  uint64_t t0 = now_ns();
  for (int i = 0; i < REP; i++)
    __atomic_fetch_add(&word, 1, __ATOMIC_SEQ_CST);
  return (double)(now_ns() - t0) / REP;
}
static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static double f_mutex(void) {
  uint64_t t0 = now_ns();
  for (int i = 0; i < REP; i++) {
    pthread_mutex_lock(&mu);
    word++;
    pthread_mutex_unlock(&mu);
  }
  return (double)(now_ns() - t0) / REP;
}
static double f_malloc(void) {
  uint64_t t0 = now_ns();
  for (int i = 0; i < REP; i++) {
    void *p = malloc(64);
    __asm__ volatile("" ::"r"(p) : "memory");
    free(p);
  }
  return (double)(now_ns() - t0) / REP;
}
static double f_eventfd_write(void) {
  int fd = eventfd(0, EFD_NONBLOCK);
  uint64_t one = 1, t0 = now_ns();
  int n = 200000;
  for (int i = 0; i < n; i++)
    if (write(fd, &one, 8) != 8)
      abort();
  double v = (double)(now_ns() - t0) / n;
  close(fd);
  return v;
}
static double f_epoll0(void) {
  int ep = epoll_create1(0);
  struct epoll_event ev;
  uint64_t t0 = now_ns();
  int n = 200000;
  for (int i = 0; i < n; i++)
    epoll_wait(ep, &ev, 1, 0);
  double v = (double)(now_ns() - t0) / n;
  close(ep);
  return v;
}

/* ---- two-thread primitives ------------------------------------------------------ */
static uint64_t cont __attribute__((aligned(128)));
static volatile int go;
static void pin(int cpu) {
  cpu_set_t c;
  CPU_ZERO(&c);
  CPU_SET(cpu, &c);
  pthread_setaffinity_np(pthread_self(), sizeof c, &c);
}
static void *contender(void *a) {
  pin((int)(intptr_t)a);
  while (!go) {
  }
  for (int i = 0; i < REP; i++)
    __atomic_fetch_add(&cont, 1, __ATOMIC_SEQ_CST);
  return NULL;
}
static double f_rmw2(void) {
  pthread_t a, b;
  go = 0;
  pthread_create(&a, NULL, contender, (void *)0);
  pthread_create(&b, NULL, contender, (void *)1);
  nap_us(20000);
  uint64_t t0 = now_ns();
  go = 1;
  pthread_join(a, NULL);
  pthread_join(b, NULL);
  return (double)(now_ns() - t0) / REP / 2;
}
static int pa, pb, pingn;
static void *ping_efd(void *x) {
  (void)x;
  int ep = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {0}};
  epoll_ctl(ep, EPOLL_CTL_ADD, pa, &ev);
  uint64_t v;
  for (int i = 0; i < pingn; i++) {
    epoll_wait(ep, &ev, 1, -1);
    if (read(pa, &v, 8) != 8)
      abort();
    v = 1;
    if (write(pb, &v, 8) != 8)
      abort();
  }
  close(ep);
  return NULL;
}
static double f_efd_wake(void) {
  pthread_t t;
  pa = eventfd(0, 0);
  pb = eventfd(0, 0);
  pingn = quick ? 1500 : 5000;
  int ep = epoll_create1(0);
  struct epoll_event ev = {EPOLLIN, {0}};
  epoll_ctl(ep, EPOLL_CTL_ADD, pb, &ev);
  pthread_create(&t, NULL, ping_efd, NULL);
  uint64_t t0 = now_ns(), v;
  for (int i = 0; i < pingn; i++) {
    v = 1;
    if (write(pa, &v, 8) != 8)
      abort();
    epoll_wait(ep, &ev, 1, -1);
    if (read(pb, &v, 8) != 8)
      abort();
  }
  double r = (double)(now_ns() - t0) / pingn / 2;
  pthread_join(t, NULL);
  close(pa);
  close(pb);
  close(ep);
  return r;
}
static int fa __attribute__((aligned(128))), fb __attribute__((aligned(128)));
static void fwait(int *f, int v) {
  while (__atomic_load_n(f, __ATOMIC_ACQUIRE) != v)
    syscall(SYS_futex, f, FUTEX_WAIT_PRIVATE, v - 1, NULL, NULL, 0);
}
static void fwake(int *f, int v) {
  __atomic_store_n(f, v, __ATOMIC_RELEASE);
  syscall(SYS_futex, f, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void *ping_futex(void *x) {
  (void)x;
  for (int i = 1; i <= pingn; i++) {
    fwait(&fa, i);
    fwake(&fb, i);
  }
  return NULL;
}
static double f_futex_wake(void) {
  pthread_t t;
  pingn = quick ? 1500 : 5000;
  fa = fb = 0;
  pthread_create(&t, NULL, ping_futex, NULL);
  uint64_t t0 = now_ns();
  for (int i = 1; i <= pingn; i++) {
    fwake(&fa, i);
    fwait(&fb, i);
  }
  double r = (double)(now_ns() - t0) / pingn / 2;
  pthread_join(t, NULL);
  return r;
}
static double f_futex_nobody(void) {
  int n = 200000, f = 0;
  uint64_t t0 = now_ns();
  for (int i = 0; i < n; i++)
    syscall(SYS_futex, &f, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
  return (double)(now_ns() - t0) / n;
}

/* ---- libuv's own machinery -------------------------------------------------------- */
static uv_loop_t *L;
static int left;
static uv_work_t wr, *many;
static void w_nop(uv_work_t *r) {
  (void)r;
}
static void w_again(uv_work_t *r, int st) {
  (void)st;
  if (--left > 0)
    uv_queue_work(L, r, w_nop, w_again);
}
static double f_work_rtt(void) {
  int n = left = quick ? 1500 : 5000;
  uint64_t t0 = now_ns();
  uv_queue_work(L, &wr, w_nop, w_again);
  uv_run(L, UV_RUN_DEFAULT);
  return (double)(now_ns() - t0) / n;
}
static void w_done(uv_work_t *r, int st) {
  (void)r;
  (void)st;
  left--;
}
static double f_work_bulk(void) {
  int n = left = 100000;
  uint64_t t0 = now_ns();
  for (int i = 0; i < n; i++)
    uv_queue_work(L, &many[i], w_nop, w_done);
  uv_run(L, UV_RUN_DEFAULT);
  if (left)
    abort();
  return (double)(now_ns() - t0) / n;
}
static uv_async_t as;
static volatile int as_seen;
static void as_cb(uv_async_t *a) {
  (void)a;
  as_seen = 1;
}
static double f_async_pending(void) { /* already pending: one load + branch */
  uint64_t t0 = now_ns();
  for (int i = 0; i < REP; i++)
    uv_async_send(&as);
  return (double)(now_ns() - t0) / REP;
}

/* ---- wake-up lateness --------------------------------------------------------------- */
static double late_p50(int how) { /* 0 epoll ms, 1 timerfd, 2 timerfd slack 1 ns, 3 uv_timer */
  int n = quick ? 60 : 200;
  int64_t v[200];
  int ep = epoll_create1(0), fd = timerfd_create(CLOCK_MONOTONIC, 0);
  struct epoll_event ev = {EPOLLIN, {0}};
  epoll_ctl(ep, EPOLL_CTL_ADD, fd, &ev);
  if (how == 2)
    prctl(PR_SET_TIMERSLACK, 1);
  uint64_t s = 4;
  for (int i = 0; i < n; i++) {
    uint64_t t = now_ns() + 500000 + below(mix64(&s), 1500000);
    if (how == 0) {
      while (now_ns() < t)
        epoll_wait(ep, &ev, 1, (int)((t - now_ns() + 999999) / 1000000));
    } else {
      struct itimerspec it = {{0, 0}, {(time_t)(t / 1000000000), (long)(t % 1000000000)}};
      uint64_t x;
      timerfd_settime(fd, TFD_TIMER_ABSTIME, &it, NULL);
      epoll_wait(ep, &ev, 1, -1);
      if (read(fd, &x, 8) != 8)
        abort();
    }
    v[i] = (int64_t)(now_ns() - t);
  }
  prctl(PR_SET_TIMERSLACK, 0);
  qsort(v, (size_t)n, sizeof *v, cmp_i64);
  close(ep);
  close(fd);
  return (double)v[n / 2] / 1e3;
}
static double f_timerfd_set(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, 0), n = 200000;
  uint64_t t = now_ns() + 10000000000ull, t0 = now_ns();
  for (int i = 0; i < n; i++) {
    uint64_t u = t - (uint64_t)i;
    struct itimerspec it = {{0, 0}, {(time_t)(u / 1000000000), (long)(u % 1000000000)}};
    timerfd_settime(fd, TFD_TIMER_ABSTIME, &it, NULL);
  }
  double r = (double)(now_ns() - t0) / n;
  close(fd);
  return r;
}

/* ---- algorithmic floor: implicit 4-ary heap, 16-byte entries, dense positions -------- */
typedef struct {
  uint64_t key; /* deadline, then sequence: FIFO among equals */
  uint32_t id, pad;
} hent;
static hent *H;
static uint32_t *pos, hn;
static void h_up(uint32_t i, hent e) {
  while (i > 0) {
    uint32_t p = (i - 1) >> 2;
    if (H[p].key <= e.key)
      break;
    H[i] = H[p];
    pos[H[i].id] = i;
    i = p;
  }
  H[i] = e;
  pos[e.id] = i;
}
static void h_down(uint32_t i, hent e) {
  for (;;) {
    uint32_t c = 4 * i + 1, m, end;
    if (c >= hn)
      break;
    end = c + 4 < hn ? c + 4 : hn;
    m = c;
    for (uint32_t k = c + 1; k < end; k++)
      if (H[k].key < H[m].key)
        m = k;
    if (H[m].key >= e.key)
      break;
    H[i] = H[m];
    pos[H[i].id] = i;
    i = m;
  }
  H[i] = e;
  pos[e.id] = i;
}
static void h_add(uint64_t key, uint32_t id) {
  hent e = {key, id, 0};
  h_up(hn++, e);
}
static void h_del(uint32_t id) {
  uint32_t i = pos[id];
  hent e = H[--hn];
  if (i == hn)
    return;
  if (i > 0 && H[(i - 1) >> 2].key > e.key)
    h_up(i, e);
  else
    h_down(i, e);
}
static uint64_t hkey(uint64_t *s) { /* ms-quantised deadline, 1..60 s, plus noise as sequence */
  return ((uint64_t)rand_delay_ms(s) << 32) | (uint32_t)*s;
}
static void heap_floor(uint32_t n) {
  char name[64];
  char *raw = (char *)malloc((size_t)n * sizeof *H + 128);
  H = (hent *)(((uintptr_t)raw + 63) / 64 * 64 + 48); /* 4 children = one line */
  pos = (uint32_t *)malloc((size_t)n * 4);
  memset((void *)H, 1, (size_t)n * sizeof *H);
  memset(pos, 1, (size_t)n * 4);
  double arm = 1e9, churn = 1e9, pop = 1e9;
  for (int r = 0; r < 3; r++) {
    uint64_t s = 1 + (uint64_t)r;
    hn = 0;
    uint64_t t0 = now_ns();
    for (uint32_t i = 0; i < n; i++)
      h_add(hkey(&s), i);
    double v = (double)(now_ns() - t0) / n;
    if (v < arm)
      arm = v;
    int m = 300000;
    for (int w = 0; w < 2; w++) {
      t0 = now_ns();
      for (int k = 0; k < m; k++) {
        uint32_t id = below(mix64(&s), n);
        h_del(id);
        h_add(hkey(&s), id);
      }
    }
    v = (double)(now_ns() - t0) / m;
    if (v < churn)
      churn = v;
    hn = 0; /* all due at once: equal deadlines, then FIFO */
    for (uint32_t i = 0; i < n; i++)
      h_add(((uint64_t)1000 << 32) | i, i);
    t0 = now_ns();
    while (hn)
      h_del(H[0].id);
    v = (double)(now_ns() - t0) / n;
    if (v < pop)
      pop = v;
  }
  snprintf(name, sizeof name, "heap4 arm N=%u", n);
  out(name, arm, "ns", "implicit 4-ary heap, 16-byte entries: insert (no allocation)");
  snprintf(name, sizeof name, "heap4 churn N=%u", n);
  out(name, churn, "ns", "remove a random one + insert");
  snprintf(name, sizeof name, "heap4 pop-equal N=%u", n);
  out(name, pop, "ns", "pop all, equal deadlines in FIFO order");
  free(raw);
  free(pos);
}

/* ---- algorithmic floor: hierarchical wheel, intrusive lists --------------------------- */
typedef struct wnode {
  struct wnode *next, **pprev;
  uint64_t due;
  void (*fn)(void *);
  void *arg;
  char pad[24]; /* a 64-byte task */
} wnode;
static wnode *wheel[4][256];
static uint64_t wnow;
static void wh_add(wnode *t) {
  uint64_t d = t->due - wnow;
  int lv = d < 256 ? 0 : d < 65536 ? 1 : d < (1u << 24) ? 2 : 3;
  wnode **h = &wheel[lv][(t->due >> (8 * lv)) & 255];
  t->next = *h;
  if (*h)
    (*h)->pprev = &t->next;
  t->pprev = h;
  *h = t;
}
static void wh_del(wnode *t) {
  *t->pprev = t->next;
  if (t->next)
    t->next->pprev = t->pprev;
}
static void wheel_floor(uint32_t n) {
  char name[64];
  wnode *W = (wnode *)malloc((size_t)n * sizeof *W);
  memset((void *)W, 0, (size_t)n * sizeof *W);
  double arm = 1e9, churn = 1e9;
  for (int r = 0; r < 3; r++) {
    uint64_t s = 1 + (uint64_t)r;
    memset(wheel, 0, sizeof wheel);
    uint64_t t0 = now_ns();
    for (uint32_t i = 0; i < n; i++) {
      W[i].due = rand_delay_ms(&s);
      wh_add(&W[i]);
    }
    double v = (double)(now_ns() - t0) / n;
    if (v < arm)
      arm = v;
    int m = 300000;
    for (int w = 0; w < 2; w++) {
      t0 = now_ns();
      for (int k = 0; k < m; k++) {
        wnode *t = &W[below(mix64(&s), n)];
        wh_del(t);
        t->due = rand_delay_ms(&s);
        wh_add(t);
      }
    }
    v = (double)(now_ns() - t0) / m;
    if (v < churn)
      churn = v;
  }
  snprintf(name, sizeof name, "wheel arm N=%u", n);
  out(name, arm, "ns", "4x256 wheel, 1 ms tick, intrusive lists: insert");
  snprintf(name, sizeof name, "wheel churn N=%u", n);
  out(name, churn, "ns", "unlink a random one + insert");
  free(W);
}

/* ---- floor of W3 pool: two threads take batches from a ready array --------------------- */
typedef struct {
  void (*fn)(void *);
  void *arg;
} ready;
static ready *R;
static uint32_t Rn, Rbatch;
static uint64_t Rnext __attribute__((aligned(128)));
static void hit(void *a) {
  (void)a;
  cell_hit();
}
static void *taker(void *a) {
  (void)a;
  while (!go)
    sched_yield();
  for (;;) {
    uint64_t i = __atomic_fetch_add(&Rnext, Rbatch, __ATOMIC_RELAXED), e = i + Rbatch;
    if (i >= Rn)
      return NULL;
    if (e > Rn)
      e = Rn;
    for (; i < e; i++)
      R[i].fn(R[i].arg);
  }
}
static double batch_exec(uint32_t n, uint32_t b) {
  pthread_t t[2];
  double best = 1e9;
  R = (ready *)malloc(n * sizeof *R);
  for (uint32_t i = 0; i < n; i++)
    R[i].fn = hit;
  Rn = n;
  Rbatch = b;
  for (int r = 0; r < 3; r++) {
    Rnext = 0;
    go = 0;
    for (int i = 0; i < 2; i++)
      pthread_create(&t[i], NULL, taker, NULL);
    nap_us(2000);
    uint64_t t0 = now_ns();
    go = 1;
    for (int i = 0; i < 2; i++)
      pthread_join(t[i], NULL);
    double v = (double)(now_ns() - t0) / n;
    if (v < best)
      best = v;
  }
  free(R);
  return best;
}

/* ---- floor of W4: lock-free stack, wake-up only when the consumer sleeps ---------------- */
typedef struct snode {
  struct snode *next;
  uint64_t due;
  char pad[48];
} snode;
static snode *stack_head __attribute__((aligned(128)));
static int sleeping __attribute__((aligned(128)));
static int sub_each, sub_efd;
typedef struct {
  pthread_t th;
  uint64_t ns;
} sub;
static void *submitter(void *a) {
  sub *p = (sub *)a;
  while (!go)
    sched_yield();
  uint64_t t0 = now_ns();
  for (int k = 0; k < sub_each; k++) {
    snode *n = (snode *)malloc(sizeof *n);
    n->due = (uint64_t)k;
    snode *h = __atomic_load_n(&stack_head, __ATOMIC_RELAXED);
    do
      n->next = h;
    while (!__atomic_compare_exchange_n(&stack_head, &h, n, 1, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
    if (__atomic_load_n(&sleeping, __ATOMIC_SEQ_CST) &&
        __atomic_exchange_n(&sleeping, 0, __ATOMIC_SEQ_CST)) {
      uint64_t one = 1;
      if (write(sub_efd, &one, 8) != 8)
        abort();
    }
  }
  p->ns = now_ns() - t0;
  return NULL;
}
static void submit_floor(int p) {
  sub s[4];
  char name[64];
  double bs = 1e9, bt = 1e9;
  for (int r = 0; r < 5; r++) {
    int total = 200000, got = 0;
    sub_each = total / p;
    total = sub_each * p;
    sub_efd = eventfd(0, EFD_NONBLOCK);
    int ep = epoll_create1(0);
    struct epoll_event ev = {EPOLLIN, {0}};
    epoll_ctl(ep, EPOLL_CTL_ADD, sub_efd, &ev);
    go = 0;
    for (int i = 0; i < p; i++)
      pthread_create(&s[i].th, NULL, submitter, &s[i]);
    nap_us(2000);
    uint64_t t0 = now_ns(), x;
    go = 1;
    while (got < total) {
      snode *h = __atomic_exchange_n(&stack_head, NULL, __ATOMIC_ACQUIRE);
      if (!h) {
        __atomic_store_n(&sleeping, 1, __ATOMIC_SEQ_CST);
        if (!__atomic_load_n(&stack_head, __ATOMIC_SEQ_CST))
          epoll_wait(ep, &ev, 1, -1);
        __atomic_store_n(&sleeping, 0, __ATOMIC_SEQ_CST);
        if (read(sub_efd, &x, 8) < 0) {
        }
        continue;
      }
      while (h) {
        snode *n = h->next;
        free(h);
        got++;
        h = n;
      }
    }
    double v = (double)(now_ns() - t0) / total, sum = 0;
    if (v < bt)
      bt = v;
    for (int i = 0; i < p; i++) {
      pthread_join(s[i].th, NULL);
      sum += (double)s[i].ns;
    }
    if (sum / total < bs)
      bs = sum / total;
    close(ep);
    close(sub_efd);
  }
  snprintf(name, sizeof name, "submit P=%d", p);
  out(name, bs, "ns",
      "malloc + CAS push, eventfd only if the consumer sleeps; per submit, as the producer sees "
      "it");
  snprintf(name, sizeof name, "submit total P=%d", p);
  out(name, bt, "ns", "same, wall per task until all are taken and freed");
}

int main(int argc, char **argv) {
  quick = argc > 1 && !strcmp(argv[1], "quick");
  huge_n = argc > 1 && !strcmp(argv[1], "huge");
  setenv("UV_THREADPOOL_SIZE", "2", 0);
  out("L1 hit", chase(16 << 10, 0), "ns", "dependent load, 16 KiB");
  out("L2 hit", chase(256 << 10, 0), "ns", "dependent load, 256 KiB");
  out("L3 hit", chase(4 << 20, 1), "ns", "dependent load, 4 MiB, huge pages");
  out("L3/DRAM 16M", chase(16 << 20, 1), "ns", "dependent load, 16 MiB, huge pages");
  size_t big = (size_t)(quick ? 128 : 512) << 20;
  out("DRAM huge pages", chase(big, 1), "ns", "dependent load, 512 MiB (quick: 128), huge pages");
  out("DRAM 4K pages", chase(big, 0), "ns", "dependent load, same, 4 KiB pages (TLB miss too)");
  out("clock_gettime", best_of(f_clock, 3), "ns", "CLOCK_MONOTONIC through the vDSO");
  out("atomic RMW", best_of(f_rmw, 3), "ns", "fetch_add, uncontended");
  out("atomic RMW x2", mid_of(f_rmw2, 9), "ns",
      "fetch_add, 2 pinned threads on one word, wall per operation (median)");
  out("mutex pair", best_of(f_mutex, 3), "ns", "lock+unlock, uncontended, multi-threaded process");
  out("malloc+free 64", best_of(f_malloc, 3), "ns", "glibc, thread cache hit");
  out("eventfd write", best_of(f_eventfd_write, 3), "ns", "nobody waiting (a bare syscall)");
  out("epoll_wait(0)", best_of(f_epoll0, 3), "ns", "empty poll: the least cost of a loop turn");
  out("timerfd_settime", best_of(f_timerfd_set, 3), "ns", "re-arm the one kernel timer");
  out("futex wake, nobody", best_of(f_futex_nobody, 3), "ns", "syscall only");
  out("futex wake-up", best_of(f_futex_wake, 5), "ns",
      "wake a sleeping thread until it runs (half a ping-pong)");
  out("eventfd+epoll wake-up", best_of(f_efd_wake, 5), "ns",
      "write until epoll_wait returned and read (half a ping-pong)");
  L = (uv_loop_t *)malloc(sizeof *L);
  uv_loop_init(L);
  many = (uv_work_t *)calloc(100000, sizeof *many);
  out("uv_queue_work RTT", best_of(f_work_rtt, 3), "ns",
      "one at a time: queue, run, after_work, next");
  out("uv_queue_work bulk", best_of(f_work_bulk, 5), "ns", "10^5 queued at once, per request");
  uv_async_init(L, &as, as_cb);
  uv_async_send(&as);
  out("uv_async_send pending", best_of(f_async_pending, 3), "ns", "already pending");
  out("late epoll ms", late_p50(0), "us",
      "p50 wake-up lateness: epoll_wait with ms time-out, rounded up");
  out("late timerfd", late_p50(1), "us", "p50 wake-up lateness: timerfd, absolute");
  out("late timerfd slack1", late_p50(2), "us", "p50, PR_SET_TIMERSLACK 1 ns");
  for (uint32_t n = 1000; n <= (quick ? 100000u : huge_n ? 10000000u : 1000000u); n *= 10)
    heap_floor(n);
  for (uint32_t n = 1000; n <= (quick ? 100000u : huge_n ? 10000000u : 1000000u); n *= 10)
    wheel_floor(n);
  out("exec batch=1", batch_exec(1000000, 1), "ns", "2 threads, one fetch_add per empty task");
  out("exec batch=64", batch_exec(1000000, 64), "ns",
      "2 threads, one fetch_add per 64 empty tasks");
  submit_floor(1);
  submit_floor(2);
  submit_floor(4);
  return 0;
}
