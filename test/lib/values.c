/* SPDX-License-Identifier: MIT */
#include "values.h"

static char things[128];

void *value_of(int tag) {
  return &things[tag];
}

int tag_of_value(const void *value) {
  const char *thing = value;

  return thing >= things && thing < things + sizeof things ? (int)(thing - things) : '?';
}

void logs_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  log_add(arg, EV_USER, tag_of_value(e->value), e->item, 0);
}

void logs_left_value(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  (void)q;
  log_add(arg, EV_NEVER_RAN, tag_of_value(e->value), e->item, 0);
}

int logs_entry(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  logs_value(q, e, arg);
  return 0;
}

enum greatest_test_res queue_open(struct fixture *f, uvs_queue_t **ret) {
  uvs_queue_options_t o;

  CHECK_CALL(fixture_open_turned(f));
  uvs_queue_options_init(&o);
  o.on_left = logs_left_value;
  o.arg = f;
  ASSERT_RC(0, uvs_queue_open(f->s, &o, ret));
  fixture_turn(f);
  fakepool_forget();
  PASS();
}

enum greatest_test_res queue_close(struct fixture *f, uvs_queue_t *q) {
  ASSERT_RC(0, uvs_queue_size(q));
  ASSERT_RC(0, uvs_queue_close(q));
  CHECK_CALL(fixture_close(f));
  PASS();
}

int put_ms(uvs_queue_t *q, int tag, int64_t delay_ms) {
  return uvs_queue_put(q, value_of(tag), UVS_MS(delay_ms), NULL);
}

struct putter {
  uvs_queue_t *q;
  int tag;
  int64_t delay_ms;
  int rc;
};

static void putter_main(void *arg) {
  struct putter *p = arg;

  p->rc = put_ms(p->q, p->tag, p->delay_ms);
}

int put_ms_elsewhere(uvs_queue_t *q, int tag, int64_t delay_ms) {
  struct putter p = {q, tag, delay_ms, UV_EAGAIN};
  uv_thread_t thread;

  if (uv_thread_create(&thread, putter_main, &p) < 0 || uv_thread_join(&thread) < 0)
    return UV_EAGAIN;
  return p.rc;
}

int poll_tag(uvs_queue_t *q) {
  uvs_entry_t e;
  int rc = uvs_queue_poll(q, &e);

  return rc < 0 ? rc : tag_of_value(e.value);
}

struct text {
  char tags[LOG_MAX + 1];
  size_t n;
};

static int add_tag(uvs_queue_t *q, const uvs_entry_t *e, void *arg) {
  struct text *t = arg;

  (void)q;
  if (t->n < LOG_MAX)
    t->tags[t->n++] = (char)tag_of_value(e->value);
  return 0;
}

const char *tags_in(uvs_queue_t *q) {
  static struct text t;

  t.n = 0;
  if (uvs_queue_each(q, add_tag, &t) != 0)
    return "error";
  t.tags[t.n] = '\0';
  return t.tags;
}

static void taker_main(void *arg) {
  struct taker *t = arg;
  int64_t began_ns = (int64_t)uv_hrtime();

  t->rc = t->timeout_ns == 0 ? uvs_queue_take(t->q, t->w, &t->e)
                             : uvs_queue_poll_within(t->q, t->timeout_ns, t->w, &t->e);
  t->waited_ns = (int64_t)uv_hrtime() - began_ns;
  t->at_ns = uvs_now(uvs_queue_scheduler(t->q));
  uvs_queue_release(t->q);
}

int taker_start(struct taker *t, uvs_queue_t *q, uvs_waiter_t *w, int64_t timeout_ns) {
  t->q = uvs_queue_retain(q); /* a test may close the queue meanwhile */
  t->w = w;
  t->timeout_ns = timeout_ns;
  t->rc = UV_EAGAIN;
  return uv_thread_create(&t->thread, taker_main, t);
}

int taker_join(struct taker *t) {
  uv_thread_join(&t->thread);
  return t->rc < 0 ? t->rc : tag_of_value(t->e.value);
}
