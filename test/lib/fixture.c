/* SPDX-License-Identifier: MIT */
#include "fixture.h"

#include <limits.h>
#include <poll.h>
#include <stdlib.h>

#define TURNS 200000 /* no test needs this many loop passes at one instant */

/* ------------------------------------------------------------------- log --- */

static void put(struct fixture *f, struct event e) {
  e.thread = uv_thread_self();
  e.on_loop = uv_thread_equal(&e.thread, &f->loop_thread) != 0;
  e.in_work = fakepool_in_work();
  e.place = fakepool_place();
  e.wall_ns = f->real_clock ? 0 : vclock_wall(&f->clock);
  uv_mutex_lock(&f->lock);
  if (f->log_count < LOG_MAX)
    f->log[f->log_count++] = e;
  else
    f->overrun = true;
  f->misplaced |= e.place == IN_TIMER || e.place == IN_HOME;
  uv_mutex_unlock(&f->lock);
}

void log_add(struct fixture *f, enum event_kind what, int tag, uvs_id_t id, int status) {
  struct event e = {0};

  e.what = what;
  e.tag = tag;
  e.id = id;
  e.status = status;
  e.time_ns = f->real_clock ? (int64_t)uv_hrtime() : vclock_now(&f->clock);
  put(f, e);
}

void log_run(struct fixture *f, enum event_kind what, int tag, const uvs_run_t *run) {
  struct event e = {0};

  e.what = what;
  e.tag = tag;
  e.id = run->id;
  e.status = run->status;
  e.time_ns = f->real_clock ? (int64_t)uv_hrtime() : vclock_now(&f->clock);
  e.runner = run->runner;
  e.number = run->number;
  e.missed = run->missed;
  e.ideal_ns = run->ideal_ns;
  e.start_ns = run->start_ns;
  e.end_ns = run->end_ns;
  e.late_ns = run->late_ns;
  put(f, e);
}

static bool matches(const struct event *e, enum event_kind what, int tag) {
  return (what == 0 || e->what == what) && (tag == 0 || e->tag == tag);
}

unsigned log_total(struct fixture *f) {
  unsigned n;

  uv_mutex_lock(&f->lock);
  n = f->log_count;
  uv_mutex_unlock(&f->lock);
  return n;
}

unsigned log_count(struct fixture *f, enum event_kind what, int tag) {
  unsigned n = 0;

  uv_mutex_lock(&f->lock);
  for (unsigned i = 0; i < f->log_count; i++)
    n += matches(&f->log[i], what, tag);
  uv_mutex_unlock(&f->lock);
  return n;
}

const struct event *log_nth(struct fixture *f, enum event_kind what, int tag, unsigned n) {
  static const struct event none;
  const struct event *found = &none;

  uv_mutex_lock(&f->lock);
  for (unsigned i = 0; i < f->log_count && found == &none; i++)
    if (matches(&f->log[i], what, tag) && n-- == 0)
      found = &f->log[i];
  uv_mutex_unlock(&f->lock);
  return found;
}

const char *log_string(struct fixture *f, enum event_kind what) {
  static char text[LOG_MAX + 1];
  unsigned n = 0;

  uv_mutex_lock(&f->lock);
  for (unsigned i = 0; i < f->log_count; i++)
    if (matches(&f->log[i], what, 0))
      text[n++] = (char)f->log[i].tag;
  uv_mutex_unlock(&f->lock);
  text[n] = '\0';
  return text;
}

static int put_ms(char *to, size_t room, const char *before, int64_t ns) {
  if (ns % UVS_MS(1) == 0)
    return snprintf(to, room, "%s%lld", before, (long long)(ns / UVS_MS(1)));
  return snprintf(to, room, "%s%.6f", before, (double)ns / 1e6);
}

const char *log_runs(struct fixture *f, enum event_kind what, int tag) {
  static char text[65536];
  uint64_t number = 0;
  size_t n = 0;

  text[0] = '\0';
  for (unsigned i = 0; i < log_total(f) && n < sizeof text - 200; i++) {
    const struct event *e = &f->log[i];
    if (!matches(e, what, tag))
      continue;
    n += (size_t)put_ms(text + n, 100, n == 0 ? "" : " ", e->start_ns - VCLOCK_START_NS);
    if (e->ideal_ns != e->start_ns || e->missed != 0) {
      n += (size_t)put_ms(text + n, 100, "(", e->ideal_ns - VCLOCK_START_NS);
      if (e->missed != 0)
        n += (size_t)snprintf(text + n, 100, "+%llu", (unsigned long long)e->missed);
      n += (size_t)snprintf(text + n, 100, ")");
    }
    if (e->late_ns != e->start_ns - e->ideal_ns)
      n += (size_t)put_ms(text + n, 100, "!", e->late_ns);
    if (e->number != number + 1)
      n += (size_t)snprintf(text + n, 100, "#%llu", (unsigned long long)e->number);
    number = e->number;
  }
  return text;
}

int done_status(struct fixture *f, int tag) {
  return log_count(f, EV_DONE, tag) == 1 ? log_nth(f, EV_DONE, tag, 0)->status : INT_MAX;
}

void log_clear(struct fixture *f) {
  uv_mutex_lock(&f->lock);
  f->log_count = 0;
  uv_mutex_unlock(&f->lock);
}

void log_print(struct fixture *f) {
  static const char *const names[] = {"?",     "work",      "after",      "done",
                                      "error", "never ran", "terminated", "user"};

  for (unsigned i = 0; i < log_total(f); i++) {
    const struct event *e = &f->log[i];
    fprintf(
        stderr,
        "%3u %-10s %c %12.3f ms  id %llx status %d run %llu missed %llu ideal %.3f late %.3f%s\n",
        i, names[e->what], e->tag, (double)(e->time_ns - VCLOCK_START_NS) / 1e6,
        (unsigned long long)e->id, e->status, (unsigned long long)e->number,
        (unsigned long long)e->missed, (double)(e->ideal_ns - VCLOCK_START_NS) / 1e6,
        (double)e->late_ns / 1e6, e->on_loop ? " (loop)" : "");
  }
}

/* ---------------------------------------------------------------- probes --- */

static int answer(int ret, uint64_t from, uint64_t number) {
  return number >= from ? ret : 0;
}

static int probe_run(uvs_run_t *run, enum event_kind what) {
  struct probe *p = run->arg;

  log_run(p->f, what, p->tag, run);
  if (p->takes_ns > 0)
    vclock_advance_ns(&p->f->clock, p->takes_ns);
  if (p->act != NULL)
    return p->act(p, run);
  return answer(p->ret, p->ret_from, run->number);
}

int probe_work(uvs_run_t *run) {
  return probe_run(run, EV_WORK);
}

int probe_loop_body(uvs_run_t *run) {
  return probe_run(run, EV_AFTER);
}

int probe_after(uvs_run_t *run) {
  struct probe *p = run->arg;

  log_run(p->f, EV_AFTER, p->tag, run);
  return answer(p->after_ret, p->after_from, run->number);
}

void probe_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct probe *p = arg;

  (void)s;
  log_add(p->f, EV_DONE, p->tag, id, status);
}

static int tag_of(struct fixture *f, const void *arg) {
  const struct probe *p = arg;

  return p >= f->probes && p < f->probes + PROBES ? p->tag : '?';
}

void probe_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct fixture *f = uvs_data(s);
  uvs_info_t info;
  int rc;

  (void)arg;
  if (id == 0) {
    log_add(f, EV_ALL_CAME, task_arg == NULL ? '.' : '?', 0, 0);
    return;
  }
  uvs_info_init(&info);
  rc = uvs_info(s, id, &info); /* the task has not ended yet */
  log_add(f, EV_NEVER_RAN, rc < 0 || info.arg != task_arg ? '?' : tag_of(f, task_arg), id, rc);
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct fixture *f = uvs_data(s);

  log_add(f, EV_ERROR, tag_of(f, arg), id, status);
}

static void on_terminated(uvs_t *s) {
  log_add(uvs_data(s), EV_TERMINATED, 't', 0, 0);
}

struct probe *fixture_probe(struct fixture *f, int tag) {
  struct probe *p;

  uv_mutex_lock(&f->lock);
  p = f->probe_count < PROBES ? &f->probes[f->probe_count++] : NULL;
  uv_mutex_unlock(&f->lock);
  if (p == NULL) {
    fprintf(stderr, "fixture: more than %d probes\n", PROBES);
    abort();
  }
  memset(p, 0, sizeof *p);
  p->f = f;
  p->tag = tag;
  p->ret_from = 1;
  p->after_from = 1;
  return p;
}

struct probe *probe_of(const uvs_task_t *t) {
  return t->arg;
}

static uvs_task_t spec(struct fixture *f, int tag, int kind, int64_t delay_ns, int64_t period_ns) {
  uvs_task_t t;

  uvs_task_init(&t);
  t.kind = kind;
  t.first_ns = delay_ns;
  t.period_ns = period_ns;
  t.work = probe_work;
  t.done = probe_done;
  t.arg = fixture_probe(f, tag);
  return t;
}

uvs_task_t fixture_once(struct fixture *f, int tag, int64_t delay_ns) {
  return spec(f, tag, UVS_ONE_SHOT, delay_ns, 0);
}

uvs_task_t fixture_rate(struct fixture *f, int tag, int64_t initial_ns, int64_t period_ns) {
  return spec(f, tag, UVS_FIXED_RATE, initial_ns, period_ns);
}

uvs_task_t fixture_delay(struct fixture *f, int tag, int64_t initial_ns, int64_t delay_ns) {
  return spec(f, tag, UVS_FIXED_DELAY, initial_ns, delay_ns);
}

uvs_task_t fixture_loop_task(struct fixture *f, int tag, int64_t delay_ns) {
  uvs_task_t t = spec(f, tag, UVS_ONE_SHOT, delay_ns, 0);

  t.work = NULL;
  t.after = probe_loop_body;
  return t;
}

/* ------------------------------------------------------------------ time --- */

void fixture_turn(struct fixture *f) {
  uint64_t sends;
  unsigned pending;

  fakepool_pin(); /* uv_run polls no asyncs on a loop without a ref'd handle */
  for (int i = 0;; i++) {
    if (i == TURNS) {
      f->overrun = true;
      break;
    }
    sends = fakepool_seen().async_sends;
    pending = fakepool_pending();
    uv_run(&f->loop, UV_RUN_NOWAIT);
    if (sends != fakepool_seen().async_sends)
      continue;
    if (f->pool == FAKEPOOL_REAL ? pending == fakepool_pending() : fakepool_pending() == 0)
      break;
    if (f->pool != FAKEPOOL_REAL && fakepool_held() && pending == fakepool_pending())
      break;
  }
  fakepool_unpin();
}

/* Makes the scheduler read the clock, as its timer would have. */
static void look(struct fixture *f) {
  if (f->s != NULL)
    uvs_clock_changed(f->s);
  fixture_turn(f);
}

void fixture_advance_to(struct fixture *f, int64_t target_ns) {
  int64_t due_ns, now_ns;

  fixture_turn(f);
  for (int i = 0; f->s != NULL && uvs_next_due(f->s, &due_ns) == 0; i++) {
    now_ns = vclock_now(&f->clock);
    if (due_ns > target_ns || due_ns == UVS_NEVER)
      break;
    if (due_ns > now_ns)
      i = 0;
    else if (i == 1000) { /* overdue, and looking again does not help */
      f->overrun = true;
      break;
    }
    vclock_advance_to(&f->clock, due_ns);
    look(f);
  }
  vclock_advance_to(&f->clock, target_ns);
  look(f);
}

void fixture_advance_ns(struct fixture *f, int64_t ns) {
  int64_t now_ns = vclock_now(&f->clock);

  fixture_advance_to(f, ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + ns);
}

void fixture_advance_ms(struct fixture *f, int64_t ms) {
  fixture_advance_ns(f, UVS_MS(ms));
}

void fixture_jump_ns(struct fixture *f, int64_t ns) {
  fixture_turn(f);
  vclock_advance_ns(&f->clock, ns);
  look(f);
}

void fixture_jump_ms(struct fixture *f, int64_t ms) {
  fixture_jump_ns(f, UVS_MS(ms));
}

static bool wait_until(struct fixture *f, bool (*over)(struct fixture *, const void *),
                       const void *arg) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  struct pollfd p = {uv_backend_fd(&f->loop), POLLIN, 0};

  while (!over(f, arg)) {
    if ((int64_t)uv_hrtime() > end_ns)
      return false;
    fakepool_pin();
    uv_run(&f->loop, UV_RUN_NOWAIT);
    fakepool_unpin();
    if (!over(f, arg)) {
      int timeout_ms = uv_backend_timeout(&f->loop);
      poll(&p, 1, timeout_ms < 0 || timeout_ms > 100 ? 100 : timeout_ms);
    }
  }
  return true;
}

struct wanted {
  enum event_kind what;
  int tag;
  unsigned n;
};

static bool has_logged(struct fixture *f, const void *arg) {
  const struct wanted *w = arg;

  return log_count(f, w->what, w->tag) >= w->n;
}

bool fixture_wait_log(struct fixture *f, enum event_kind what, int tag, unsigned n) {
  struct wanted w = {what, tag, n};

  return wait_until(f, has_logged, &w);
}

static bool is_set(struct fixture *f, const void *arg) {
  const _Atomic int *flag = arg;

  (void)f;
  return atomic_load(flag) != 0;
}

bool fixture_wait_flag(struct fixture *f, const _Atomic int *flag) {
  return wait_until(f, is_set, flag);
}

int64_t fixture_ms(const struct fixture *f, int64_t monotonic_ns) {
  (void)f;
  return monotonic_ns == UVS_NEVER ? -1 : (monotonic_ns - VCLOCK_START_NS) / UVS_MS(1);
}

int64_t fixture_now_ms(struct fixture *f) {
  return fixture_ms(f, vclock_now(&f->clock));
}

int64_t fixture_next_ms(struct fixture *f) {
  int64_t due_ns;

  return uvs_next_due(f->s, &due_ns) < 0 ? -2 : fixture_ms(f, due_ns);
}

void stop_loop(uv_timer_t *h) {
  if (h->data != NULL)
    *(bool *)h->data = true;
  uv_stop(h->loop);
}

void count_turn(uv_prepare_t *h) {
  ++*(unsigned *)h->data;
}

bool fixture_run(struct fixture *f, uv_run_mode mode, unsigned *ret_dones) {
  uv_timer_t guard;
  bool expired = false;

  uv_timer_init(&f->loop, &guard);
  guard.data = &expired;
  uv_unref((uv_handle_t *)&guard);
  uv_timer_start(&guard, stop_loop, (uint64_t)(PATIENCE_NS / UVS_MS(1)), 0);
  uv_run(&f->loop, mode);
  if (ret_dones != NULL)
    *ret_dones = log_count(f, EV_DONE, 0);
  uv_close((uv_handle_t *)&guard, NULL);
  uv_run(&f->loop, UV_RUN_NOWAIT);
  return !expired;
}

bool fixture_alive(struct fixture *f) {
  return uv_loop_alive(&f->loop) != 0;
}

/* ----------------------------------------------------------------- counts and states --- */

uvs_histogram_t histogram_of(uvs_t *s, int which) {
  uvs_histogram_t h;

  uvs_histogram_init(&h);
  if (uvs_histogram(s, which, &h) < 0)
    memset(&h, 0xff, sizeof h);
  return h;
}

uvs_counts_t counts_of(uvs_t *s) {
  uvs_counts_t c;

  uvs_counts_init(&c);
  if (uvs_counts(s, &c) < 0)
    memset(&c, 0xff, sizeof c);
  return c;
}

bool adds_up(const uvs_counts_t *c) {
  return c->submitted == c->completed + c->failed + c->cancelled + c->timed_out + c->dropped +
                             c->waiting + c->ready + c->running;
}

int state_of(uvs_t *s, uvs_id_t id) {
  uvs_info_t info;
  int rc;

  uvs_info_init(&info);
  rc = uvs_info(s, id, &info);
  return rc < 0 ? rc : info.state;
}

uint64_t live_tasks(uvs_t *s) {
  uvs_counts_t c = counts_of(s);

  return c.waiting + c.ready + c.running;
}

struct look look_at(uvs_t *s, uvs_id_t id) {
  struct look l;

  uvs_info_init(&l.info);
  l.rc = uvs_info(s, id, &l.info);
  return l;
}

int each_logs_state(uvs_t *s, const uvs_info_t *info, void *arg) {
  struct fixture *f = arg;

  (void)s;
  log_add(f, EV_USER, ((struct probe *)info->arg)->tag, info->id, info->state);
  return 0;
}

static void on_found(uv_handle_t *h, void *arg) {
  struct found *w = arg;

  if (fakepool_owns_handle(h)) {
    w->pool++;
  } else if (!uvs_owns_handle(w->s, h)) {
    w->others++;
    w->other = h;
  } else if (h->type == UV_TIMER) {
    w->timers++;
    w->timer = h;
  } else if (h->type == UV_ASYNC) {
    w->asyncs++;
    w->async = h;
  } else {
    w->others++;
    w->other = h;
  }
}

struct found find_handles(uv_loop_t *loop, const uvs_t *s) {
  struct found w;

  memset(&w, 0, sizeof w);
  w.s = s;
  uv_walk(loop, on_found, &w);
  return w;
}

/* ---------------------------------------------------------- open and close --- */

void fixture_init(struct fixture *f) {
  memset(f, 0, sizeof *f);
  vclock_init(&f->clock);
  fault_init(&f->fault);
  uvs_options_init(&f->options);
  f->options.clock = vclock_option(&f->clock);
  f->options.allocator = fault_option(&f->fault);
  f->options.on_error = on_error;
  f->options.on_terminated = on_terminated;
  f->options.data = f;
  uvs_hooks_init(&f->hooks);
  f->options.hooks = &f->hooks;
  f->pool = FAKEPOOL_STEPPED;
  f->seed = test_seed;
}

enum greatest_test_res fixture_open(struct fixture *f) {
  f->log = calloc(LOG_MAX, sizeof *f->log);
  ASSERT(f->log != NULL);
  ASSERT_RC(0, uv_mutex_init(&f->lock));
  ASSERT_RC(0, uv_loop_init(&f->loop));
  f->loop_thread = uv_thread_self();
  if (f->real_clock)
    memset(&f->options.clock, 0, sizeof f->options.clock);
  ASSERT_RC(0, fakepool_open(&f->loop, f->pool, f->seed));
  ASSERT_RC(0, uvs_open(&f->loop, &f->options, &f->s));
  fakepool_watch(false);
  PASS();
}

enum greatest_test_res fixture_open_turned(struct fixture *f) {
  CHECK_CALL(fixture_open(f));
  look(f);
  fakepool_forget();
  PASS();
}

static void on_closed(uvs_t *s) {
  ((struct fixture *)uvs_data(s))->closed = true;
}

void note_closed(uvs_t *s) {
  struct fixture *f = uvs_data(s);

  f->closed = true;
  log_add(f, EV_USER, 'c', 0, 0);
}

void fixture_turn_until_closed(struct fixture *f) {
  for (int i = 0; i < 100 && !f->closed; i++)
    fixture_turn(f);
}

static bool is_closed(struct fixture *f, const void *arg) {
  (void)arg;
  return f->closed;
}

bool fixture_wait_closed(struct fixture *f) {
  return wait_until(f, is_closed, NULL);
}

enum greatest_test_res fixture_close(struct fixture *f) {
  uvs_t *s = f->s;

  f->s = NULL;
  if (s != NULL) {
    ASSERT_RC(0, uvs_close(s, on_closed));
    if (f->pool == FAKEPOOL_REAL)
      fixture_wait_closed(f);
    else
      fixture_turn_until_closed(f);
    ASSERTm("uvs_close never called back", f->closed);
  }
  ASSERTm("work was left in the pool", fakepool_close());
  ASSERT_EQm("the loop still has handles or requests", 0, uv_loop_close(&f->loop));
  ASSERT_EQ_FMTm("memory was not given back", 0L, atomic_load(&f->fault.live), "%ld");
  ASSERT_FALSEm("a turn of the loop never came to rest, or the log is full", f->overrun);
  ASSERT_FALSEm("called back from the timer, or when a runner came home", f->misplaced);
  uv_mutex_destroy(&f->lock);
  free(f->log);
  PASS();
}
