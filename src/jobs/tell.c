/* SPDX-License-Identifier: MIT
 *
 * tell: hands an event to the user's loop.
 */
#include "jobs/engine.h"

#include <string.h>

#include "jobs/alloc.h"

static void deliver(struct uvs__message *m, void *to) {
  struct uvs__news *n = UVS__OWNER(m, struct uvs__news, message);
  uvs_jobs_t *jobs = to;
  uvs_jobs_event_t event = {n->what, n->id, n->text};

  jobs->options.on_event(jobs, &event, jobs->options.arg);
  uvs__jobs_free(n);
}

void uvs__tell(uvs_jobs_t *jobs, int what, const char *id, const char *text) {
  size_t id_size = id == NULL ? 0 : strlen(id) + 1, text_size = strlen(text) + 1;
  struct uvs__news *n;
  char *strings;

  if (jobs->options.on_event == NULL)
    return;
  n = uvs__jobs_alloc(sizeof *n + id_size + text_size);
  if (n == NULL)
    return;
  strings = (char *)(n + 1);
  n->what = what;
  n->text = memcpy(strings + id_size, text, text_size);
  if (id != NULL)
    n->id = memcpy(strings, id, id_size);
  n->message.receive = deliver;
  if (!uvs__mailbox_send(&jobs->user, &n->message))
    uvs__jobs_free(n);
}
