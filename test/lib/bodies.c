/* SPDX-License-Identifier: MIT */
#include "bodies.h"

int work_nothing(uvs_run_t *run) {
  (void)run;
  return 0;
}

int work_endless(uvs_run_t *run) {
  uint64_t end_ns = uv_hrtime() + (uint64_t)(PATIENCE_NS + UVS_SEC(5));

  while (!uvs_cancelled(run) && uv_hrtime() < end_ns)
    uv_sleep(1);
  return 0;
}

int act_endless(struct probe *p, uvs_run_t *run) {
  (void)p;
  return work_endless(run);
}

int act_script(struct probe *p, uvs_run_t *run) {
  const char *script = p->data;
  size_t last = strlen(script) - 1;

  switch (script[run->number - 1 < last ? run->number - 1 : last]) {
  case 'x':
    return UV_EIO;
  case 's':
    return UVS_STOP;
  case 'p':
    return UVS_PENDING;
  default:
    return 0;
  }
}

void follow_script(uvs_task_t *t, const char *script) {
  probe_of(t)->act = act_script;
  probe_of(t)->data = (void *)(uintptr_t)script;
}

uvs_task_t retried(uvs_task_t t, int64_t retry_ns, const char *script) {
  t.failure_policy = UVS_FAIL_RETRY;
  t.retry.wait_ns = retry_ns;
  follow_script(&t, script);
  return t;
}

void done_counts(uvs_t *s, uvs_id_t id, int status, void *arg) {
  (void)s;
  (void)id;
  (void)status;
  atomic_fetch_add((_Atomic int *)arg, 1);
}

/* ------------------------------------------------------------------ gate --- */

static int hold_body(uvs_run_t *run, struct hold *h) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS + UVS_SEC(5); /* longer than a test waits */
  int ret;

  atomic_store(&h->inside, 1);
  while (!atomic_load(&h->open) && (int64_t)uv_hrtime() < end_ns &&
         !(h->token_ends && uvs_cancelled(run))) {
    atomic_store(&h->saw_token, uvs_cancelled(run));
    uv_sleep(1);
  }
  atomic_store(&h->saw_token, uvs_cancelled(run));
  if (h->give != NULL)
    uvs_set_result(run, h->give);
  ret = h->ret;
  atomic_store(&h->left, 1);
  return ret;
}

int hold_act(struct probe *p, uvs_run_t *run) {
  return hold_body(run, p->data);
}

int hold_work(uvs_run_t *run) {
  return hold_body(run, run->arg);
}

uvs_task_t held_task(struct fixture *f, int tag, struct hold *h) {
  uvs_task_t t = fixture_once(f, tag, 0);

  memset(h, 0, sizeof *h);
  probe_of(&t)->act = hold_act;
  probe_of(&t)->data = h;
  t.keep_outcome = 1;
  return t;
}

static struct {
  uv_mutex_t lock;
  uv_cond_t cond;
  int let_go; /* this many bodies may still leave */
  int inside, peak;
  bool stop_ends; /* a body whose token is raised may leave too */
  bool made;
} gate;

void gate_init(bool stop_ends) {
  if (!gate.made) {
    uv_mutex_init(&gate.lock);
    uv_cond_init(&gate.cond);
    gate.made = true;
  }
  gate.let_go = gate.inside = gate.peak = 0;
  gate.stop_ends = stop_ends;
}

void gate_let(int n) {
  uv_mutex_lock(&gate.lock);
  gate.let_go += n;
  uv_cond_broadcast(&gate.cond);
  uv_mutex_unlock(&gate.lock);
}

int gate_inside(void) {
  int n;

  uv_mutex_lock(&gate.lock);
  n = gate.inside;
  uv_mutex_unlock(&gate.lock);
  return n;
}

int gate_peak(void) {
  int n;

  uv_mutex_lock(&gate.lock);
  n = gate.peak;
  gate.peak = gate.inside;
  uv_mutex_unlock(&gate.lock);
  return n;
}

int gate_pass(struct probe *p, uvs_run_t *run) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  int rc = p->ret;

  uvs_clock_changed(run->scheduler); /* wakes up the test if it waits in its loop */
  uv_mutex_lock(&gate.lock);
  if (++gate.inside > gate.peak)
    gate.peak = gate.inside;
  uv_cond_broadcast(&gate.cond);
  while (gate.let_go == 0 && !(gate.stop_ends && uvs_cancelled(run))) {
    if ((int64_t)uv_hrtime() > end_ns) {
      rc = UV_ETIMEDOUT;
      gate.let_go++;
      break;
    }
    /* Nobody signals a raised token, so poll it. */
    uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(1));
  }
  if (gate.let_go > 0)
    gate.let_go--;
  gate.inside--;
  uv_mutex_unlock(&gate.lock);
  return rc;
}

bool gate_wait(struct fixture *f, int n) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;

  while (gate_inside() != n) {
    if ((int64_t)uv_hrtime() > end_ns)
      return false;
    fixture_turn(f);
    uv_mutex_lock(&gate.lock);
    if (gate.inside != n)
      uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(1));
    uv_mutex_unlock(&gate.lock);
  }
  return true;
}

bool gate_await(int n) {
  int64_t end_ns = (int64_t)uv_hrtime() + PATIENCE_NS;
  bool reached;

  uv_mutex_lock(&gate.lock);
  while (gate.inside != n && (int64_t)uv_hrtime() < end_ns)
    uv_cond_timedwait(&gate.cond, &gate.lock, (uint64_t)UVS_MS(100));
  reached = gate.inside == n;
  uv_mutex_unlock(&gate.lock);
  return reached;
}
