/* SPDX-License-Identifier: MIT
 *
 * ready: the tasks that may start, and which of them is next.
 *
 * There are three classes: high, normal and low. They share the starts 8 : 4 : 1. A wheel of 13
 * positions says which class is next. If that class has no task, the highest class that has one is
 * next. So of 13 starts in a row high gets eight, normal four and low one, if each has enough
 * tasks.
 *
 * In a class, the task with the earliest key (instant, sequence) is next. Almost all tasks come in
 * that order and are in a list. Tasks that come out of order (runs that catch up, deadlines in the
 * past, two threads that submit at the same time) are in a leftist heap. The heap uses the same
 * links and needs no memory of its own: `a` and `b` of the link are the children, `up` of the task
 * is the parent, and `rank` of the task is not 0. Adding is O(1) or O(log n), and so is removing.
 */
#ifndef UVS__CORE_READY_H
#define UVS__CORE_READY_H

#include "task/table.h"

struct uvs__ready_class {
  uint32_t first, last;       /* the list; UVS__NONE */
  uint32_t root;              /* the heap; UVS__NONE */
  uint64_t last_ns, last_seq; /* the greatest key that was appended since the list was empty */
};

struct uvs__ready {
  uint32_t count;
  unsigned turn;
  struct uvs__ready_class of[UVS__CLASSES];
};

void uvs__ready_init(struct uvs__ready *r);
/* The key is in the extra record. A task without extra record has the key (due_ns, seq). */
void uvs__ready_add(struct uvs__table *t, struct uvs__ready *r, uint32_t slot);
void uvs__ready_remove(struct uvs__table *t, struct uvs__ready *r, uint32_t slot);
/* The task that starts next; UVS__NONE. It stays where it is. */
uint32_t uvs__ready_first(const struct uvs__table *t, const struct uvs__ready *r);
/* The place of a ready task: its instant and its sequence number. */
void uvs__ready_key(const struct uvs__table *t, uint32_t slot, uint64_t *ret_ns, uint64_t *ret_seq);
/* The first task has started: the wheel moves to its next position. */
static inline void uvs__ready_turn(struct uvs__ready *r) {
  r->turn = r->turn == 12 ? 0 : r->turn + 1;
}
bool uvs__ready_check(const struct uvs__table *t, const struct uvs__ready *r);

#endif
