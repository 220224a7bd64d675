/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port/platform.h"
#include "weave.h"

#define MS UINT64_C(1000000)
#define HANDLES 16
#define JOBS 64
#define PLACE(what, p) WEAVE_STEP(what, p, true)

/* ---- locks ---- */

struct mutex {
  int owner; /* strand + 1; 0: free */
  int alive;
};

struct cond {
  int alive;
  uint64_t waits; /* number of waits so far */
};

/* These structs replace the system's. */
_Static_assert(sizeof(struct mutex) <= sizeof(uv_mutex_t), "it has room");
_Static_assert(sizeof(struct cond) <= sizeof(uv_cond_t), "it has room");

#define ALIVE 0x10c4

static int locks; /* number of locks and conditions that exist */
static const struct mutex *guard;

static struct {
  struct cond *cond; /* the strand waits for it; NULL: it does not */
  uint64_t turn;
} waiting[WEAVE_STRANDS];

static struct mutex *mutex_of(uv_mutex_t *m) {
  struct mutex *k = (void *)m;

  if (k->alive != ALIVE)
    weave_fail("a lock that does not exist");
  return k;
}

static struct cond *cond_of(uv_cond_t *c) {
  struct cond *k = (void *)c;

  if (k->alive != ALIVE)
    weave_fail("a condition that does not exist");
  return k;
}

int uv_mutex_init(uv_mutex_t *m) {
  *(struct mutex *)(void *)m = (struct mutex){0, ALIVE};
  locks++;
  return 0;
}

void uv_mutex_destroy(uv_mutex_t *m) {
  WEAVE_SAME(0, mutex_of(m)->owner);
  if (mutex_of(m) == guard)
    guard = NULL;
  mutex_of(m)->alive = 0;
  locks--;
}

static bool is_free(const void *arg) {
  return ((const struct mutex *)arg)->owner == 0;
}

static void take(struct mutex *m) {
  if (m->owner == weave_self() + 1)
    weave_fail("a lock that this strand has already");
  weave_sleep(is_free, m, WEAVE_NEVER);
  m->owner = weave_self() + 1;
  weave_locked(1);
}

/* If the lock is taken, other strands run anyway, so locking is then not a step of its own. */
void uv_mutex_lock(uv_mutex_t *m) {
  if (is_free(mutex_of(m)))
    PLACE("lock", m);
  weave_flush();
  take(mutex_of(m));
}

int uv_mutex_trylock(uv_mutex_t *m) {
  PLACE("trylock", m);
  weave_flush();
  if (!is_free(mutex_of(m)))
    return UV_EBUSY;
  take(mutex_of(m));
  return 0;
}

/* Other strands may run before this strand reads anything else. */
static void release(struct mutex *m) {
  WEAVE_SAME(weave_self() + 1, m->owner);
  weave_flush();
  m->owner = 0;
  weave_locked(-1);
}

void uv_mutex_unlock(uv_mutex_t *m) {
  release(mutex_of(m));
  weave_after();
}

void model_guard(uv_mutex_t *m) {
  guard = m == NULL ? NULL : mutex_of(m);
}

bool model_is_guarded(void) {
  return guard != NULL && weave_self() >= 0 && guard->owner == weave_self() + 1;
}

int uv_cond_init(uv_cond_t *c) {
  *(struct cond *)(void *)c = (struct cond){ALIVE, 0};
  locks++;
  return 0;
}

void uv_cond_destroy(uv_cond_t *c) {
  for (int i = 0; i < WEAVE_STRANDS; i++)
    WEAVE_CHECK(waiting[i].cond != cond_of(c));
  cond_of(c)->alive = 0;
  locks--;
}

static bool is_called(const void *arg) {
  return waiting[*(const int *)arg].cond == NULL;
}

static bool wait_for(uv_cond_t *c, uv_mutex_t *m, uint64_t until_ns) {
  int self = weave_self();
  bool called;

  waiting[self].cond = cond_of(c);
  waiting[self].turn = cond_of(c)->waits++;
  release(mutex_of(m));
  called = weave_sleep(is_called, &self, until_ns);
  waiting[self].cond = NULL;
  take(mutex_of(m));
  return called;
}

void uv_cond_wait(uv_cond_t *c, uv_mutex_t *m) {
  wait_for(c, m, WEAVE_NEVER);
}

int uv_cond_timedwait(uv_cond_t *c, uv_mutex_t *m, uint64_t timeout_ns) {
  uint64_t until_ns =
      timeout_ns >= WEAVE_NEVER - weave_now_ns ? WEAVE_NEVER : weave_now_ns + timeout_ns;

  return wait_for(c, m, until_ns) ? 0 : UV_ETIMEDOUT;
}

/* Wakes the strand that has waited longest. */
void uv_cond_signal(uv_cond_t *c) {
  int first = -1;

  PLACE("signal", c);
  for (int i = 0; i < WEAVE_STRANDS; i++) {
    if (waiting[i].cond == cond_of(c) && (first < 0 || waiting[i].turn < waiting[first].turn))
      first = i;
  }
  if (first >= 0)
    waiting[first].cond = NULL;
}

void uv_cond_broadcast(uv_cond_t *c) {
  PLACE("broadcast", c);
  for (int i = 0; i < WEAVE_STRANDS; i++) {
    if (waiting[i].cond == cond_of(c))
      waiting[i].cond = NULL;
  }
}

int sched_yield(void) {
  if (weave_self() >= 0)
    weave_yield();
  return 0;
}

/* ---- time ---- */

uint64_t uv_hrtime(void) {
  return weave_now_ns;
}

uint64_t uvs__clock_hrtime(void) {
  return weave_now_ns;
}

/* The wall clock (port/clock.h). */
int timespec_get(struct timespec *t, int base) {
  t->tv_sec = (time_t)(MODEL_WALL_S + weave_now_ns / UINT64_C(1000000000));
  t->tv_nsec = (long)(weave_now_ns % UINT64_C(1000000000));
  return base;
}

void uv_sleep(unsigned ms) {
  (void)ms;
  weave_yield();
}

/* ---- the loop ---- */

enum kind { TIMER, ASYNC, ALARM };

struct handle {
  uv_handle_t *h;
  enum kind kind;
  bool active, ref, closing;
  bool pending;    /* ASYNC */
  uint64_t due_ms; /* TIMER */
  uint64_t due_ns; /* ALARM; WEAVE_NEVER */
  void (*rings)(void *data);
  uv_timer_cb timer_cb;
  uv_async_cb async_cb;
  uv_close_cb close_cb;
};

struct job {
  uv_work_t *req;
  uv_work_cb work;
  uv_after_work_cb after;
};

struct jobs {
  struct job job[JOBS];
  unsigned first, end;
};

static uv_loop_t loop;
static struct handle handles[HANDLES];
static unsigned handle_count;
static struct jobs queued, done;
static unsigned requests;
static uint64_t loop_ms;
static uint64_t guest_ns;

static struct handle *find(const uv_handle_t *h) {
  for (unsigned i = 0; i < handle_count; i++) {
    if (handles[i].h == h)
      return &handles[i];
  }
  return NULL;
}

static struct handle *found(const uv_handle_t *h) {
  struct handle *k = find(h);

  if (k == NULL)
    weave_fail("a handle that is closed, or never was");
  return k;
}

static struct handle *add(uv_handle_t *h, enum kind kind) {
  if (find(h) != NULL || handle_count == HANDLES)
    weave_fail("a handle too many");
  handles[handle_count] = (struct handle){.h = h, .kind = kind, .ref = true};
  return &handles[handle_count++];
}

int uv_timer_init(uv_loop_t *l, uv_timer_t *h) {
  (void)l;
  h->type = UV_TIMER;
  add((uv_handle_t *)h, TIMER);
  return 0;
}

int uv_timer_start(uv_timer_t *h, uv_timer_cb cb, uint64_t timeout_ms, uint64_t repeat_ms) {
  struct handle *k = found((uv_handle_t *)h);

  WEAVE_SAME(0, repeat_ms);
  WEAVE_SAME(0, weave_self());
  WEAVE_CHECK(!model_is_guarded());
  if (k->closing)
    return UV_EINVAL;
  k->active = true;
  k->timer_cb = cb;
  k->due_ms = loop_ms + timeout_ms;
  return 0;
}

int uv_timer_stop(uv_timer_t *h) {
  WEAVE_SAME(0, weave_self());
  found((uv_handle_t *)h)->active = false;
  return 0;
}

int uv_async_init(uv_loop_t *l, uv_async_t *h, uv_async_cb cb) {
  struct handle *k = add((uv_handle_t *)h, ASYNC);

  (void)l;
  h->type = UV_ASYNC;
  k->async_cb = cb;
  k->active = true;
  return 0;
}

/* A relaxed load first, as in libuv. libuv aborts on a closed handle. */
int uv_async_send(uv_async_t *h) {
  struct handle *k = found((uv_handle_t *)h);

  WEAVE_CHECK(!model_is_guarded());
  PLACE("look whether it was sent", &k->pending);
  if (k->pending)
    return 0;
  PLACE("send", &k->pending);
  weave_flush();
  k = found((uv_handle_t *)h);
  WEAVE_CHECK(!k->closing);
  k->pending = true;
  return 0;
}

void uv_ref(uv_handle_t *h) {
  found(h)->ref = true;
}

void uv_unref(uv_handle_t *h) {
  found(h)->ref = false;
}

int uv_is_closing(const uv_handle_t *h) {
  struct handle *k = find(h);

  return k == NULL || k->closing;
}

void uv_close(uv_handle_t *h, uv_close_cb cb) {
  struct handle *k = found(h);

  WEAVE_SAME(0, weave_self());
  WEAVE_CHECK(!k->closing);
  k->closing = true;
  k->active = false;
  k->close_cb = cb;
}

void uv_update_time(uv_loop_t *l) {
  (void)l;
  loop_ms = weave_now_ns / MS;
}

static bool any_closing(void) {
  for (unsigned i = 0; i < handle_count; i++) {
    if (handles[i].closing)
      return true;
  }
  return false;
}

void model_guest_until(uint64_t ns) {
  guest_ns = ns;
}

bool model_alive(void) {
  if (guest_ns > weave_now_ns)
    return true;
  for (unsigned i = 0; i < handle_count; i++) {
    if (handles[i].active && handles[i].ref)
      return true;
  }
  return requests > 0 || any_closing();
}

static struct handle *next_timer(void) {
  struct handle *first = NULL;

  for (unsigned i = 0; i < handle_count; i++) {
    struct handle *k = &handles[i];

    if (k->kind == TIMER && k->active && (first == NULL || k->due_ms < first->due_ms))
      first = k;
  }
  return first;
}

static void run_timers(void) {
  struct handle *k;

  uv_update_time(&loop);
  while ((k = next_timer()) != NULL && k->due_ms <= loop_ms) {
    k->active = false;
    k->timer_cb((uv_timer_t *)k->h);
  }
}

static struct handle *next_alarm(void) {
  struct handle *first = NULL;

  for (unsigned i = 0; i < handle_count; i++) {
    struct handle *k = &handles[i];

    if (k->kind == ALARM && !k->closing && (first == NULL || k->due_ns < first->due_ns))
      first = k;
  }
  return first;
}

static void ring(void) {
  struct handle *k;

  while ((k = next_alarm()) != NULL && k->due_ns <= weave_now_ns) {
    k->due_ns = WEAVE_NEVER;
    k->rings(k->h->data);
  }
}

/* When the loop next has something to do by itself, or WEAVE_NEVER. */
static uint64_t next_ns(void) {
  struct handle *timer = next_timer();
  struct handle *alarm = next_alarm();
  uint64_t ns = timer == NULL ? WEAVE_NEVER : timer->due_ms * MS;

  if (guest_ns > weave_now_ns && guest_ns < ns)
    ns = guest_ns;
  return alarm != NULL && alarm->due_ns < ns ? alarm->due_ns : ns;
}

uint64_t model_sleeps_until(void) {
  return next_ns() == WEAVE_NEVER ? 0 : next_ns();
}

static bool has_come(const void *arg) {
  (void)arg;
  if (done.first != done.end || any_closing())
    return true;
  for (unsigned i = 0; i < handle_count; i++) {
    if (handles[i].pending && !handles[i].closing)
      return true;
  }
  return false;
}

static void call_asyncs(void) {
  for (unsigned i = 0; i < handle_count; i++) {
    struct handle *k = &handles[i];

    PLACE("was it sent?", &k->pending);
    if (!k->pending || k->closing)
      continue;
    weave_flush();
    k->pending = false;
    k->async_cb((uv_async_t *)k->h);
  }
}

static struct job pop(struct jobs *q) {
  return q->job[q->first++ % JOBS];
}

static void push(struct jobs *q, struct job j) {
  if (q->end - q->first == JOBS)
    weave_fail("too many jobs");
  q->job[q->end++ % JOBS] = j;
}

static void call_done(void) {
  unsigned end = done.end;

  while (done.first != end) {
    struct job j = pop(&done);

    requests--;
    j.after(j.req, 0);
  }
}

static void call_closed(void) {
  unsigned n = handle_count; /* handles that these callbacks close wait for the next pass */

  for (unsigned i = n; i > 0; i--) { /* libuv's order: last first */
    struct handle k = handles[i - 1];

    if (!k.closing)
      continue;
    memmove(&handles[i - 1], &handles[i], (handle_count - i) * sizeof handles[0]);
    handle_count--;
    if (k.close_cb != NULL)
      k.close_cb(k.h);
  }
}

bool model_turn(void) {
  uint64_t until_ns;

  WEAVE_SAME(0, weave_self());
  run_timers();
  until_ns = next_ns();
  if (!weave_rest(has_come, NULL, until_ns) && until_ns == WEAVE_NEVER)
    return false;
  uv_update_time(&loop);
  ring();
  PLACE("look for completions", &done);
  call_done();
  call_asyncs();
  call_closed();
  return true;
}

void model_check_closed(void) {
  WEAVE_SAME(0, handle_count);
  WEAVE_SAME(0, requests);
}

void model_check_locks(void) {
  WEAVE_SAME(0, locks);
}

void model_pass_ms(uint64_t ms) {
  weave_here();
  weave_now_ns += ms * MS;
}

/* ---- the precise timer, see src/port/platform.h; the wall clock is never set ---- */

int uvs__alarm_open(const uvs_allocator_t *mem, uv_loop_t *l, bool wall, void (*rings)(void *data),
                    void *data, struct uvs__alarm **ret) {
  struct uvs__alarm *a;
  struct handle *k;

  (void)l;
  if (wall)
    return UV_ENOTSUP;
  a = mem->alloc(sizeof *a, mem->arg);
  k = add((uv_handle_t *)&a->poll, ALARM);
  a->mem = *mem;
  a->poll.data = data;
  k->ref = false;
  k->active = true;
  k->rings = rings;
  k->due_ns = WEAVE_NEVER;
  *ret = a;
  return 0;
}

bool uvs__alarm_set(struct uvs__alarm *a, uint64_t due_ns) {
  found((uv_handle_t *)&a->poll)->due_ns = due_ns == UVS__NEVER ? WEAVE_NEVER : due_ns;
  return true;
}

void uvs__alarm_free(struct uvs__alarm *a) {
  uvs_allocator_t mem = a->mem;

  mem.free(a, mem.arg);
}

/* ---- the pool ---- */

static bool has_jobs(const void *arg) {
  (void)arg;
  return queued.first != queued.end;
}

static void serve(void *arg) {
  (void)arg;
  for (;;) {
    struct job j;

    weave_sleep(has_jobs, NULL, WEAVE_NEVER);
    j = pop(&queued);
    j.work(j.req);
    PLACE("done", &done);
    weave_flush();
    push(&done, j);
  }
}

int uv_queue_work(uv_loop_t *l, uv_work_t *req, uv_work_cb work, uv_after_work_cb after) {
  (void)l;
  WEAVE_SAME(0, weave_self());
  WEAVE_CHECK(!model_is_guarded());
  PLACE("queue work", &queued);
  weave_flush();
  push(&queued, (struct job){req, work, after});
  requests++;
  return 0;
}

/* ---- threads ---- */

static bool thread_is_over(const void *arg) {
  return weave_is_over(*(const int *)arg);
}

int uv_thread_create_ex(uv_thread_t *t, const uv_thread_options_t *o, uv_thread_cb fn, void *arg) {
  (void)o;
  *t = (uv_thread_t)weave_spawn("thread", fn, arg, true);
  return 0;
}

int uv_thread_join(uv_thread_t *t) {
  int strand = (int)*t;

  weave_sleep(thread_is_over, &strand, WEAVE_NEVER);
  return 0;
}

int uvs__thread_tid(void) {
  return weave_self() + 1;
}

bool uvs__thread_gone(int tid) {
  return weave_is_over(tid - 1);
}

/* Bodies that take long are taken to use the CPU. */
uint64_t uvs__thread_cpu_ns(void) {
  return weave_now_ns + 1;
}

void uvs__thread_name(const char *name) {
  (void)name;
}

/* ---- other functions ---- */

int uvs__fork_init(struct uvs__fork *f) {
  static int mark = 1;

  *f = (struct uvs__fork){&mark, 0};
  return 0;
}

void uvs__fork_destroy(struct uvs__fork *f) {
  (void)f;
}

void *uvs__mem_system(size_t size) {
  return malloc(size);
}

int uv_os_getenv(const char *name, char *buffer, size_t *size) {
  (void)name;
  (void)buffer;
  (void)size;
  return UV_ENOENT;
}

/* The only time zone of the scenes is UTC, which has no file. */
int uv_fs_open(uv_loop_t *l, uv_fs_t *req, const char *path, int flags, int mode, uv_fs_cb cb) {
  (void)l;
  (void)req;
  (void)path;
  (void)flags;
  (void)mode;
  (void)cb;
  return UV_ENOENT;
}

int uv_fs_fstat(uv_loop_t *l, uv_fs_t *req, uv_file file, uv_fs_cb cb) {
  (void)l;
  (void)req;
  (void)file;
  (void)cb;
  return UV_ENOSYS;
}

int uv_fs_stat(uv_loop_t *l, uv_fs_t *req, const char *path, uv_fs_cb cb) {
  (void)l;
  (void)req;
  (void)path;
  (void)cb;
  return UV_ENOENT;
}

int uv_fs_read(uv_loop_t *l, uv_fs_t *req, uv_file file, const uv_buf_t bufs[], unsigned n,
               int64_t offset, uv_fs_cb cb) {
  (void)l;
  (void)req;
  (void)file;
  (void)bufs;
  (void)n;
  (void)offset;
  (void)cb;
  return UV_ENOSYS;
}

int uv_fs_close(uv_loop_t *l, uv_fs_t *req, uv_file file, uv_fs_cb cb) {
  (void)l;
  (void)req;
  (void)file;
  (void)cb;
  return UV_ENOSYS;
}

void uv_fs_req_cleanup(uv_fs_t *req) {
  (void)req;
}

uv_buf_t uv_buf_init(char *base, unsigned len) {
  return (uv_buf_t){base, len};
}

const char *uv_strerror(int err) {
  (void)err;
  return "?";
}

char *uv_strerror_r(int err, char *buf, size_t size) {
  snprintf(buf, size, "%d", err);
  return buf;
}

int uv_translate_sys_error(int err) {
  return -err;
}

/* Nothing watches the wall clock, which is never set. */
int uv_poll_init(uv_loop_t *l, uv_poll_t *h, int fd) {
  (void)l;
  (void)h;
  (void)fd;
  return UV_ENOSYS;
}

int uv_poll_start(uv_poll_t *h, int events, uv_poll_cb cb) {
  (void)h;
  (void)events;
  (void)cb;
  return UV_ENOSYS;
}

uv_loop_t *model_loop(void) {
  return &loop;
}

void model_reset(int pool_threads) {
  memset(waiting, 0, sizeof waiting);
  memset(&queued, 0, sizeof queued);
  memset(&done, 0, sizeof done);
  handle_count = requests = 0;
  guest_ns = 0;
  locks = 0;
  guard = NULL;
  loop_ms = weave_now_ns / MS;
  for (int i = 0; i < pool_threads; i++)
    weave_spawn(i == 0 ? "pool" : i == 1 ? "pool2" : "pool3", serve, NULL, true);
}
