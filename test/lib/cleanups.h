/* SPDX-License-Identifier: MIT
 *
 * Clean-up actions that write to the fixture's log, and a check that no action is left. For
 * programs with the fixture that can include headers of src/.
 */
#ifndef TEST_CLEANUPS_H
#define TEST_CLEANUPS_H

#include "bodies.h"
#include "fixture.h"
#include "inspect.h"
#include "threads.h"

/* An action whose arg is a probe. Logs EV_USER with the probe's tag, then calls the probe's `act`
 * with NULL for the run. */
static inline void note(uvs_t *s, void *arg) {
  struct probe *p = arg;

  (void)s;
  log_add(p->f, EV_USER, p->tag, p->id, 0);
  if (p->act != NULL)
    p->act(p, NULL);
}

static inline int attach_acting(struct fixture *f, uvs_id_t id, int tag, unsigned flags,
                                int (*act)(struct probe *p, uvs_run_t *run)) {
  struct probe *p = fixture_probe(f, tag);

  p->id = id;
  p->act = act;
  return uvs_add_cleanup(f->s, id, note, p, flags);
}

static inline int attach(struct fixture *f, uvs_id_t id, int tag, unsigned flags) {
  return attach_acting(f, id, tag, flags, NULL);
}

struct attaching {
  struct fixture *f;
  uvs_id_t id;
  int tag;
  unsigned flags;
};

static inline int do_attach(void *arg) {
  struct attaching *a = arg;

  return attach(a->f, a->id, a->tag, a->flags);
}

static inline int attach_elsewhere(struct fixture *f, uvs_id_t id, int tag, unsigned flags) {
  struct attaching a = {f, id, tag, flags};

  return elsewhere(do_attach, &a);
}

/* An action that counts its calls and records its position among all actions called since the last
 * restart. */
struct numbered {
  int number;
  int calls;
  int place;
};

static int numbered_called;

static inline void numbered_restart(void) {
  numbered_called = 0;
}

static inline void count_up(uvs_t *s, void *arg) {
  struct numbered *n = arg;

  (void)s;
  n->calls++;
  n->place = numbered_called++;
}

/* R23: no clean-up action is left. Call on the loop thread while no other thread is in the
 * scheduler. */
static inline enum greatest_test_res nothing_attached(struct fixture *f) {
  ASSERT_U64(0, inspect_cleanups(f->s));
  PASS();
}

/* ---- the log ---- */

static inline bool all_on_loop(struct fixture *f, enum event_kind what) {
  for (unsigned i = 0; i < log_count(f, what, 0); i++) {
    if (!log_nth(f, what, 0, i)->on_loop)
      return false;
  }
  return true;
}

/* The tags of all events except those of kind `what`. Valid until the next call. */
static inline const char *without(struct fixture *f, enum event_kind what) {
  static char text[LOG_MAX + 1];
  unsigned n = 0;

  for (unsigned i = 0; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);

    if (e->what != what)
      text[n++] = (char)e->tag;
  }
  text[n] = '\0';
  return text;
}

/* The index of the first such event in the log, or the log's length if there is none. */
static inline unsigned place_of(struct fixture *f, enum event_kind what, int tag) {
  unsigned i = 0;

  for (; i < log_total(f); i++) {
    const struct event *e = log_nth(f, (enum event_kind)0, 0, i);

    if (e->what == what && e->tag == tag)
      break;
  }
  return i;
}

static inline int last_tag(struct fixture *f) {
  return log_nth(f, (enum event_kind)0, 0, log_total(f) - 1)->tag;
}

/* For a decorate hook: `over` logs EV_USER 'o'. */
static inline void log_over(void *arg) {
  struct probe *p = arg;

  log_add(p->f, EV_USER, 'o', 0, 0);
}

static inline void logs_over(uvs_t *s, uvs_id_t id, uvs_decoration_t *d) {
  (void)s;
  (void)id;
  d->release = log_over;
}

#endif
