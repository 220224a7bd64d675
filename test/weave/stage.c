/* SPDX-License-Identifier: MIT */
#include "stage.h"

#include <string.h>

#include "arena.h"
#include "model.h"
#include "lib/inspect.h"

#include "core/moves.h"

#define UNKNOWN 1 /* the submission has not yet returned */

struct stage stage;

/* ---- what is called back ---- */

static struct part *part_of(uvs_run_t *run) {
  struct part *p = run->arg;

  if (p < stage.parts || p >= stage.parts + stage.part_count)
    weave_fail("a body with an arg that was never given");
  return p;
}

static int body(uvs_run_t *run) {
  struct part *p = part_of(run);
  int64_t wall_ns = p->spec.kind == UVS_CALENDAR ? UVS_SEC(MODEL_WALL_S) : 0;

  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(p->id, run->id);
  WEAVE_CHECK(!p->inside && !p->must_not_run);
  WEAVE_CHECK(!stage.terminated);
  WEAVE_SAME(0, p->dones);
  if (run->late_ns > p->late_ns)
    weave_fail("%c started %lld ns late: nobody woke the loop in time", p->name,
               (long long)run->late_ns);
  WEAVE_CHECK((int64_t)weave_now_ns >= p->not_before_ns);
  WEAVE_CHECK(run->start_ns + wall_ns >= run->ideal_ns && run->start_ns <= (int64_t)weave_now_ns);
  p->inside = true;
  p->runs++;
  WEAVE_SAME(p->runs, run->number);
  p->order = ++stage.starts;
  weave_here();
  if (p->takes_ms > 0)
    model_pass_ms(p->takes_ms);
  if (p->act != NULL)
    p->act(run, p);
  p->inside = false;
  p->ended_ns = (int64_t)weave_now_ns;
  return p->stops_at != 0 && run->number >= p->stops_at ? UVS_STOP : p->ret;
}

static int after(uvs_run_t *run) {
  struct part *p = part_of(run);

  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(p->id, run->id);
  WEAVE_CHECK(!p->inside && p->dones == 0);
  p->afters++;
  WEAVE_SAME(p->runs, p->afters);
  weave_here();
  return p->after_ret;
}

/* Time passes only when all strands sleep. So if time has passed, the loop slept although there was
 * a `done` to call. The end of a run may be noticed 1 ms later. */
static void check_prompt(const struct part *p) {
  int64_t since_ns = p->settled_ns;
  int64_t most_ns = p->late_ns;

  if (p->ended_ns > since_ns) {
    since_ns = p->ended_ns;
    most_ns += UVS_MS(1);
  }
  if (since_ns > 0 && p->ret != UVS_PENDING && (int64_t)weave_now_ns - since_ns > most_ns)
    weave_fail("%c: done came %lld ns late", p->name, (long long)weave_now_ns - since_ns);
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct part *p = arg;

  (void)s;
  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(0, weave_locks());
  WEAVE_SAME(p->id, id);
  WEAVE_CHECK(!p->inside);
  if (p->dones++ > 0)
    weave_fail("%c: done twice", p->name);
  WEAVE_CHECK(!stage.terminated);
  check_prompt(p);
  p->status = status;
  p->done_ns = (int64_t)weave_now_ns;
}

static void on_error(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  (void)arg;
  WEAVE_SAME(0, weave_self());
  WEAVE_SAME(0, weave_locks());
}

static void on_terminated(uvs_t *s) {
  (void)s;
  WEAVE_CHECK(!stage.terminated);
  WEAVE_SAME(0, weave_locks());
  stage.terminated = true;
  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];

    WEAVE_CHECK(!p->inside);
    if (p->sent && p->rc == 0 && p->spec.done != NULL)
      WEAVE_SAME(1, p->dones);
  }
}

/* ---- checks ---- */

/* The check looks at all lists of a delay queue at each unlock, which takes most of the time. Here
 * it is skipped unless something was put, moved or removed. */
bool __real_uvs__delay_check(const struct uvs__delay *d);
bool __wrap_uvs__delay_check(const struct uvs__delay *d);

static uint64_t checked; /* d->ops, + 1 */

bool __wrap_uvs__delay_check(const struct uvs__delay *d) {
  if (checked == d->ops + 1)
    return true;
  checked = d->ops + 1;
  return __real_uvs__delay_check(d);
}

/* ---- open ---- */

void stage_init(void) {
  memset(&stage, 0, sizeof stage);
  checked = 0;
  arena_reset();
  uvs_hooks_init(&stage.hooks);
  uvs_options_init(&stage.options);
  stage.options.hooks = &stage.hooks;
  stage.options.allocator = arena_option();
  stage.options.keep_alive = UVS_KEEP_ALIVE_ALWAYS;
  stage.options.seed = 1;
  stage.options.on_error = on_error;
  stage.options.on_terminated = on_terminated;
}

void stage_open_again(void) {
  WEAVE_SAME(0, uvs_open(model_loop(), &stage.options, &stage.s));
  model_guard(&stage.s->lock);
  while (model_turn()) { /* the loop knows its thread from here on */
  }
}

void stage_open_with(int pool_threads) {
  model_reset(pool_threads);
  stage_open_again();
}

void stage_open(int pool_threads) {
  stage_init();
  stage.options.concurrency = pool_threads;
  stage_open_with(pool_threads);
}

struct part *stage_part(char name) {
  struct part *p = &stage.parts[stage.part_count++];

  WEAVE_CHECK(stage.part_count <= PARTS);
  p->name = name;
  uvs_task_init(&p->spec);
  p->spec.work = body;
  p->spec.done = on_done;
  p->spec.arg = p;
  return p;
}

struct part *stage_loop_part(char name) {
  struct part *p = stage_part(name);

  p->spec.work = NULL;
  p->spec.after = body;
  return p;
}

void stage_add_after(struct part *p) {
  p->spec.after = after;
}

/* ---- any strand ---- */

void stage_submit(struct part *p) {
  WEAVE_CHECK(!p->sent);
  p->sent = true;
  p->rc = UNKNOWN;
  if (p->not_before_ns == 0 && p->spec.first_ns != UVS_NEVER)
    p->not_before_ns = (int64_t)weave_now_ns + p->spec.first_ns;
  p->rc = uvs_submit(stage.s, &p->spec, &p->id);
  if (p->rc < 0)
    WEAVE_SAME(0, p->runs + p->dones);
}

int stage_cancel(struct part *p, unsigned flags) {
  int rc = uvs_cancel(stage.s, p->id, flags);

  WEAVE_CHECK(p->receipts < RECEIPTS);
  p->receipt[p->receipts].rc = rc;
  p->receipt[p->receipts].flags = flags;
  p->receipt[p->receipts++].runs = p->runs;
  if (rc == UVS_CANCELLED) {
    WEAVE_CHECK(!p->inside);
    p->must_not_run = true;
    p->settled_ns = (int64_t)weave_now_ns;
    if ((flags & UVS_CANCEL_NO_DONE) != 0)
      p->spec.done = NULL; /* stage_check does not expect it */
  }
  return rc;
}

int stage_reschedule(struct part *p, int64_t delay_ns) {
  p->not_before_ns = 0; /* as soon as it is inside */
  return uvs_reschedule(stage.s, p->id, delay_ns);
}

static bool not_yet(const void *arg) {
  (void)arg;
  return false;
}

void stage_sleep_ms(uint64_t ms) {
  weave_sleep(not_yet, NULL, weave_now_ns + ms * UINT64_C(1000000));
}

static bool has_begun(const void *arg) {
  return ((const struct part *)arg)->runs > 0;
}

void stage_await_run(struct part *p) {
  weave_sleep(has_begun, p, WEAVE_NEVER);
}

static bool has_id(const void *arg) {
  return ((const struct part *)arg)->id != 0;
}

void stage_await_id(struct part *p) {
  weave_sleep(has_id, p, WEAVE_NEVER);
}

unsigned stage_waiters(const struct part *p) {
  uint32_t slot;
  const struct uvs__task *t = uvs__table_find(&stage.s->table, p->id, &slot);
  unsigned n = 0;

  if (t == NULL || t->extra == 0)
    return 0;
  for (const struct uvs__waiter *w = uvs__extra(stage.s, t)->waiters; w != NULL; w = w->next)
    n++;
  return n;
}

bool stage_is_awaited(void) {
  return stage.s->terminated_waiters != NULL;
}

void stage_runs_are_brief(void) {
  stage.s->home.brief = UVS__BRIEF_MANY;
  stage.s->home.body_ns = UVS__BRIEF_NS;
}

void stage_check_counts(void) {
  uvs_counts_t c;
  int rc;

  uvs_counts_init(&c);
  rc = uvs_counts(stage.s, &c);
  if (rc < 0)
    WEAVE_SAME(UV_ESHUTDOWN, rc);
  WEAVE_SAME(c.submitted, c.completed + c.failed + c.cancelled + c.timed_out + c.dropped +
                              c.waiting + c.ready + c.running);
}

void stage_submit_arg(void *part) {
  stage_submit(part);
}

void stage_cancel_arg(void *part) {
  stage_cancel(part, 0);
}

void stage_count_arg(void *nothing) {
  (void)nothing;
  stage_check_counts();
}

void stage_shut_down_arg(void *nothing) {
  (void)nothing;
  WEAVE_SAME(0, uvs_shutdown(stage.s));
}

static void never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  (void)s;
  (void)task_arg;
  (void)arg;
  WEAVE_SAME(0, stage.all_came);
  if (id == 0) {
    stage.all_came++;
    return;
  }
  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];

    if (p->id == id) {
      WEAVE_SAME(0, p->runs + p->dones);
      WEAVE_SAME(0, p->never_ran++);
    }
  }
}

void stage_shut_down_now_arg(void *nothing) {
  (void)nothing;
  WEAVE_SAME(0, uvs_shutdown_now(stage.s, never_ran, NULL));
}

/* ---- the loop ---- */

void stage_go(void) {
  weave_calm(false);
}

void stage_play(void) {
  const char *sleeper;

  weave_calm(false);
  while (model_turn()) {
  }
  weave_calm(true);
  sleeper = weave_unfinished();
  if (sleeper != NULL)
    weave_fail("%s sleeps for ever", sleeper);
  stage_check();
}

/* ---- the end ---- */

static void check_receipts(const struct part *p) {
  bool cancelled = p->others_cancel;

  for (unsigned i = 0; i < p->receipts; i++) {
    switch (p->receipt[i].rc) {
    case UVS_CANCELLED:
      WEAVE_SAME(p->receipt[i].runs, p->runs);
      WEAVE_CHECK(p->dones == 0 || p->status == UV_ECANCELED);
      WEAVE_CHECK(p->dones == 0 || (p->receipt[i].flags & UVS_CANCEL_NO_DONE) == 0);
      WEAVE_CHECK(!cancelled || p->others_cancel);
      cancelled = true;
      break;
    case UVS_CANCELLED_WHILE_RUNNING:
    case UVS_CANCELLED_BEFORE:
      /* A run whose limit passes before its body could begin is ended as a run, too. */
      WEAVE_CHECK(p->runs > 0 || p->spec.limit.total_ns != 0 || p->spec.limit.run_ns != 0);
      WEAVE_CHECK(p->runs - p->receipt[i].runs <= 1);
      WEAVE_CHECK(p->dones == 0 || p->status == UV_ECANCELED);
      cancelled = true;
      break;
    case UV_EBUSY:
      WEAVE_CHECK((p->receipt[i].flags & UVS_CANCEL_IF_WAITING) != 0);
      break;
    default:
      WEAVE_CHECK(p->receipt[i].rc == UV_ENOENT ||
                  (p->receipt[i].rc == UV_ESHUTDOWN && stage.closed));
    }
  }
  if (p->dones > 0 && p->status == UV_ECANCELED)
    WEAVE_CHECK(cancelled);
}

void stage_check(void) {
  for (unsigned i = 0; i < stage.part_count; i++) {
    const struct part *p = &stage.parts[i];

    if (!p->sent)
      continue;
    if (p->rc < 0) {
      WEAVE_SAME(0, p->runs + p->dones);
      continue;
    }
    check_receipts(p);
    if (!p->stays && p->spec.done != NULL && p->dones != 1)
      weave_fail("%c: %d times done, and all sleep", p->name, p->dones);
    if (!p->stays && p->dones == 1 && p->status == 0)
      WEAVE_CHECK(p->runs > 0 || p->spec.kind != UVS_ONE_SHOT);
  }
}

static void check_counts(void) {
  uvs_counts_t c;

  stage_check_counts();
  uvs_counts_init(&c);
  uvs_counts(stage.s, &c);
  WEAVE_SAME(0, c.runners);
  WEAVE_SAME(0, c.ready);
}

/* All tasks have ended: only kept outcomes have a slot. */
static void check_slots(uvs_t *s) {
  uint32_t kept = 0;

  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];

    kept += p->spec.keep_outcome != 0 && p->rc == 0 && p->sent && !p->forgotten;
  }
  WEAVE_SAME(kept, inspect_records(s));
}

void stage_on_closed(uvs_t *s) {
  WEAVE_CHECK(s == stage.s && !stage.closed);
  stage.closed = true;
  if (weave_unfinished() == NULL &&
      !stage.on_their_way) /* else a strand inside a call may hold a record */
    check_slots(s);
  for (unsigned i = 0; i < stage.part_count; i++) {
    struct part *p = &stage.parts[i];

    p->stays = false;
    WEAVE_CHECK(!p->inside);
  }
}

static void await_close(void) {
  while (model_turn()) {
  }
  weave_calm(true);
  if (weave_unfinished() != NULL)
    weave_fail("%s sleeps for ever", weave_unfinished());
  if (!stage.closed)
    weave_fail("closing, and all sleep");
  WEAVE_CHECK(stage.terminated);
  stage_check();
  model_check_closed();
}

void stage_await_close(void) {
  await_close();
  stage_check_memory();
}

void stage_close_but_memory(void) {
  check_counts();
  for (unsigned i = 0; i < stage.part_count; i++)
    stage.parts[i].others_cancel |= stage.parts[i].stays;
  WEAVE_SAME(0, uvs_close(stage.s, stage_on_closed));
  await_close();
}

void stage_check_memory(void) {
  model_check_locks();
  arena_check();
}

void stage_close(void) {
  stage_close_but_memory();
  stage_check_memory();
}
