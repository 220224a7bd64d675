/* SPDX-License-Identifier: MIT
 *
 * mailbox: messages from any thread to the thread of one loop. The sender embeds the message in
 * what it sends, so sending cannot fail for lack of memory. Messages arrive in the order of
 * sending.
 */
#ifndef UVSCHED_JOBS_MAILBOX_H
#define UVSCHED_JOBS_MAILBOX_H

#include <stdbool.h>

#include <uv.h>

struct uvs__message {
  struct uvs__message *next;
  void (*receive)(struct uvs__message *m, void *to); /* on the loop's thread; may free m */
};

struct uvs__mailbox {
  uv_mutex_t lock;
  struct uvs__message *first, **end; /* under the lock */
  bool closed;                       /* under the lock */
  struct uvs__message *taken;        /* loop's thread: the rest of what was taken out */
  uv_async_t async;                  /* async.data is the receiver's */
};

/* `wake` is called on the loop's thread after messages were sent; it calls uvs__mailbox_receive.
 * The async handle keeps the loop alive. */
int uvs__mailbox_open(struct uvs__mailbox *box, uv_loop_t *loop, uv_async_cb wake);

/* False: the mailbox is closed, and the message was not taken. m may be NULL: only wake. */
bool uvs__mailbox_send(struct uvs__mailbox *box, struct uvs__message *m);

/* Calls `receive` of up to `most` messages. If there are more, it wakes the loop again, so that the
 * loop can do other work before them. Returns true if there was a message. */
bool uvs__mailbox_receive(struct uvs__mailbox *box, void *to, int most);

/* Loop's thread. No message is taken any more; those that are there can still be received. The
 * caller then closes the async handle, and destroys the mailbox when the handle is closed. */
void uvs__mailbox_shut(struct uvs__mailbox *box);
void uvs__mailbox_destroy(struct uvs__mailbox *box);

#endif
