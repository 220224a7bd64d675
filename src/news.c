/* SPDX-License-Identifier: MIT
 *
 * news: what the error and missed hooks are told about a task that goes on.
 *
 * Whoever ends a run, or leaves one out, only notes it. When the task comes to the loop to wait for
 * its next run, it first goes on the to-do list, still INBOX and so in nobody's queue: there the
 * hooks may do with it what they like. If it is ended before they are called, they are told at its
 * end.
 */
#include "scheduler.h"

bool uvs__has_news(const uvs_t *s, const struct uvs__cold *c) {
  if (c == NULL || (s->error_cb == NULL && s->missed_cb == NULL))
    return false; /* without a look at the record: nobody would be told */
  return c->failed_news != 0 || c->missed_count != 0;
}

void uvs__list_news(uvs_t *s, uint32_t slot) {
  uvs__agenda_cold(&s->agenda, uvs__slot(s, slot))->news_listed = true;
  uvs__chain_append(s, &s->todo, slot);
}

bool uvs__unlist_news(struct uvs__cold *c) {
  bool listed = c != NULL && c->news_listed;

  if (listed)
    c->news_listed = false;
  return listed;
}

void uvs__tell(uvs_t *s, uint32_t slot, uint64_t w) {
  struct uvs__slot *t = uvs__slot(s, slot);
  struct uvs__cold *c = uvs__agenda_cold(&s->agenda, t);
  uint64_t count;
  int status;

  if (c == NULL)
    return;
  status = c->failed_news;
  if (status != 0) {
    c->failed_news = 0;
    c->run.seen = status;
    s->error_cb(s, uvs__id(w, slot), status, uvs__load(&t->arg, relaxed)); /* constant */
  }
  count = c->missed_count;
  if (count != 0) {
    c->missed_count = 0;
    s->missed_cb(s, uvs__id(w, slot), count, c->missed_reason,
                 uvs__load(&t->arg, relaxed)); /* constant */
  }
}
