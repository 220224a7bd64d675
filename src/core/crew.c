/* SPDX-License-Identifier: MIT */
#include "core/scheduler.h"

static void link_last(uvs_t *s, struct uvs__crew *c) {
  c->prev = s->wanting_last;
  c->next = NULL;
  if (c->prev == NULL)
    s->wanting = c;
  else
    c->prev->next = c;
  s->wanting_last = c;
  s->wanting_count++;
}

static void unlink_crew(uvs_t *s, struct uvs__crew *c) {
  if (c->prev == NULL)
    s->wanting = c->next;
  else
    c->prev->next = c->next;
  if (c->next == NULL)
    s->wanting_last = c->prev;
  else
    c->next->prev = c->prev;
  s->wanting_count--;
}

void uvs__crew_list(uvs_t *s, struct uvs__crew *c) {
  bool wants = c->startable > 0;

  s->at.crews_want |= c->startable > c->seeking && ((int)c->out < c->concurrency || c->follows);
  if (wants == c->listed)
    return;
  c->listed = wants;
  if (wants)
    link_last(s, c);
  else
    unlink_crew(s, c);
}

void uvs__crew_requeue(uvs_t *s, struct uvs__crew *c) {
  unlink_crew(s, c);
  link_last(s, c);
}
