/* SPDX-License-Identifier: MIT */
#include "jobs/mailbox.h"

int uvs__mailbox_open(struct uvs__mailbox *box, uv_loop_t *loop, uv_async_cb wake) {
  int rc = uv_mutex_init(&box->lock);

  if (rc != 0)
    return rc;
  box->first = NULL;
  box->end = &box->first;
  box->closed = false;
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
  /* Under the lock, so that the handle is not closed before the signal was sent. */
  if (open)
    uv_async_send(&box->async);
  uv_mutex_unlock(&box->lock);
  return open;
}

bool uvs__mailbox_receive(struct uvs__mailbox *box, void *to) {
  bool any = false;

  for (;;) {
    struct uvs__message *m;

    uv_mutex_lock(&box->lock);
    m = box->first;
    box->first = NULL;
    box->end = &box->first;
    uv_mutex_unlock(&box->lock);
    if (m == NULL)
      return any;
    any = true;
    while (m != NULL) {
      struct uvs__message *next = m->next;

      m->receive(m, to);
      m = next;
    }
  }
}

void uvs__mailbox_shut(struct uvs__mailbox *box) {
  uv_mutex_lock(&box->lock);
  box->closed = true;
  uv_mutex_unlock(&box->lock);
}

void uvs__mailbox_destroy(struct uvs__mailbox *box) {
  uv_mutex_destroy(&box->lock);
}
