/* SPDX-License-Identifier: MIT
 *
 * tasks: the list of tasks: filtered, sorted, and one page of it.
 *
 * A survey visits all tasks, in steps, and keeps the best `offset + limit` of them. So its memory
 * does not grow with the number of tasks, and a step takes a bounded time.
 */
#ifndef UVSCHED_CONSOLE_TASKS_H
#define UVSCHED_CONSOLE_TASKS_H

#include <uvsched/stats.h>

#include <stdbool.h>

#define UVS__SURVEY_ROWS 2000 /* offset + limit at most; a row takes 300 bytes */
#define UVS__SURVEY_NAME 64

struct uvs__survey {
  int sort, state; /* places in the lists of words in tasks.c */
  bool descending;
  char name[UVS__SURVEY_NAME]; /* part of the task's name, without regard to case; "": any */
  uint32_t offset, limit;

  uint64_t cursor; /* of uvs_each_step */
  bool over;       /* all tasks were visited */
  uint64_t total, matched;
  uvs_info_t *rows;
  uint16_t *heap; /* rows; the worst is the first */
  uint32_t used, room;
};

/* Reads the query. 0; UV_EINVAL; UV_ENOMEM. */
int uvs__survey_open(struct uvs__survey *v, const char *target);
/* Visits up to `places` places. 0; what uvs_each_step answers. */
int uvs__survey_step(struct uvs__survey *v, uvs_t *s, uint32_t places);
/* After the last step: writes the page as JSON. 0; what `write` answers. */
int uvs__survey_write(struct uvs__survey *v, uvs_t *s, uvs_write_cb write, void *arg);
void uvs__survey_close(struct uvs__survey *v);

#endif
