/* SPDX-License-Identifier: MIT */
#include "threads.h"

void errand_main(void *arg) {
  struct errand *e = arg;

  e->rc = e->run(e->arg);
}

int elsewhere(int (*run)(void *arg), void *arg) {
  struct errand e = {run, arg, UV_EAGAIN};
  uv_thread_t thread;

  if (uv_thread_create(&thread, errand_main, &e) < 0 || uv_thread_join(&thread) < 0)
    return UV_EAGAIN;
  return e.rc;
}

struct call {
  uvs_t *s;
  const uvs_task_t *t;
  uvs_id_t id;
};

static int do_submit(void *arg) {
  struct call *c = arg;

  return uvs_submit(c->s, c->t, &c->id);
}

static int do_cancel(void *arg) {
  struct call *c = arg;

  return uvs_cancel(c->s, c->id, 0);
}

int submit_elsewhere(uvs_t *s, uvs_task_t t, uvs_id_t *ret_id) {
  struct call c = {s, &t, 0};
  int rc = elsewhere(do_submit, &c);

  if (ret_id != NULL)
    *ret_id = c.id;
  return rc;
}

int cancel_elsewhere(uvs_t *s, uvs_id_t id) {
  struct call c = {s, NULL, id};

  return elsewhere(do_cancel, &c);
}

int do_shutdown(void *s) {
  return uvs_shutdown(s);
}

int do_shutdown_now(void *s) {
  return uvs_shutdown_now(s, probe_never_ran, NULL);
}

int do_shutdown_now_quietly(void *s) {
  return uvs_shutdown_now(s, NULL, NULL);
}

int do_look(void *s) {
  return uvs_wait_terminated(s, 0);
}
