/* SPDX-License-Identifier: MIT */
#include "jobs/mailbox.h"

int uvs__mailbox_open(struct uvs__mailbox *box, uv_loop_t *loop, uv_async_cb wake) {
  int rc = uv_mutex_init(&box->lock);

  if (rc != 0)
    return rc;
  box->first = NULL;
  box->end = &box->first;
  box->closed = false;
  box->taken = NULL;
  rc = uv_async_init(loop, &box->async, wake);
  if (rc != 0)
    uv_mutex_destroy(&box->lock);
  return rc;
}

bool uvs__mailbox_send(struct uvs__mailbox *box, struct uvs__message *m) {
  bool open;

  uv_mutex_lock(&box->lock);
  open = !box->closed;
  if (open && m != NULL) {
    m->next = NULL;
    *box->end = m;
    box->end = &m->next;
  }
  /* Under the lock, so that nobody closes the handle before the signal was sent. */
  if (open)
    uv_async_send(&box->async);
  uv_mutex_unlock(&box->lock);
  return open;
}

static void take(struct uvs__mailbox *box) {
  uv_mutex_lock(&box->lock);
  box->taken = box->first;
  box->first = NULL;
  box->end = &box->first;
  uv_mutex_unlock(&box->lock);
}

bool uvs__mailbox_receive(struct uvs__mailbox *box, void *to, int most) {
  bool any = false;

  for (; most > 0; most--) {
    struct uvs__message *m;

    if (box->taken == NULL)
      take(box);
    m = box->taken;
    if (m == NULL)
      return any;
    box->taken = m->next;
    any = true;
    m->receive(m, to);
  }
  uv_async_send(&box->async);
  return any;
}

void uvs__mailbox_shut(struct uvs__mailbox *box) {
  uv_mutex_lock(&box->lock);
  box->closed = true;
  uv_mutex_unlock(&box->lock);
}

void uvs__mailbox_destroy(struct uvs__mailbox *box) {
  uv_mutex_destroy(&box->lock);
}
