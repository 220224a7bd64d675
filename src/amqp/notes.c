/* SPDX-License-Identifier: MIT
 *
 * notes: what the threads tell the loop thread, for on_event.
 */
#include <stdio.h>

#include "amqp/alloc.h"
#include "amqp/handler.h"

void uvs__amqp_tell(void *arg, int what, const char *text) {
  uvs_jobs_amqp_t *amqp = arg;
  struct uvs__note *note;

  if (amqp->on_event == NULL)
    return;
  note = uvs__amqp_alloc(sizeof *note);
  if (note == NULL)
    return; /* no memory: events are hints, so one may be lost */
  note->what = what;
  snprintf(note->text, sizeof note->text, "%s", text);
  uv_mutex_lock(&amqp->lock);
  *amqp->notes_end = note;
  amqp->notes_end = &note->next;
  uv_mutex_unlock(&amqp->lock);
  uv_async_send(&amqp->async);
}

void uvs__amqp_deliver(uvs_jobs_amqp_t *amqp) {
  struct uvs__note *list;

  uv_mutex_lock(&amqp->lock);
  list = amqp->notes;
  amqp->notes = NULL;
  amqp->notes_end = &amqp->notes;
  uv_mutex_unlock(&amqp->lock);
  while (list != NULL) {
    struct uvs__note *note = list;

    list = note->next;
    amqp->on_event(amqp, note->what, note->text, amqp->arg);
    uvs__amqp_free(note);
  }
}
