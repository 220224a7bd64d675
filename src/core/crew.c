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

/* Waking a thread takes longer than a brief run. So after many consecutive brief runs one runner is
 * sent for 32 tasks. This ends when a run is long, or when no run starts for 1 ms. */
bool uvs__crew_wants(const struct uvs__crew *c, bool *ret_held_back) {
  uint32_t wanted;

  *ret_held_back = false;
  if (c->startable <= c->seeking || (int)c->out >= c->concurrency)
    return false;
  if (c->brief < UVS__BRIEF_MANY)
    return true;
  wanted = uvs__crew_is_alone(c) ? 1 : (c->startable + UVS__PER_RUNNER - 1) / UVS__PER_RUNNER;
  *ret_held_back = wanted <= c->seeking + c->active;
  return !*ret_held_back;
}
