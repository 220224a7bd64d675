/* SPDX-License-Identifier: MIT
 *
 * sqlite_cron: the definitions of crons in the SQLite store. The tick of a cron is a job.
 */
#include "jobs/sqlite.h"

/* The row stays open. False: no memory. */
bool uvs__read_cron(struct uvs__db *c, enum uvs__sql row, struct uvs__arena *a,
                    struct uvs__cron *ret) {
  ret->revision = (uint64_t)uvs__col(c, row, 1);
  ret->misfire = (int)uvs__col(c, row, 4);
  ret->overlap = (int)uvs__col(c, row, 5);
  ret->max_missed = (uint32_t)uvs__col(c, row, 6);
  ret->last_us = uvs__col(c, row, 7);
  ret->job.priority = (int)uvs__col(c, row, 10);
  ret->job.keep_us = uvs__col(c, row, 11);
  return uvs__col_text(c, row, 0, a, &ret->name) && uvs__col_text(c, row, 2, a, &ret->expression) &&
         uvs__col_text(c, row, 3, a, &ret->zone) && uvs__col_text(c, row, 8, a, &ret->job.queue) &&
         uvs__col_text(c, row, 9, a, &ret->job.name) &&
         uvs__col_bytes(c, row, 12, a, &ret->job.payload) &&
         uvs__col_bytes(c, row, 13, a, &ret->job.meta);
}

/* Removes the tick. It leaves no record. */
static void remove_tick(struct uvs__db *c, const char *name) {
  struct uvs__row tick;

  if (uvs__find_any(c, UVS__CRON_QUEUE, name, &tick))
    uvs__drop_row(c, tick.seq, tick.big);
}

static void put_tick(struct uvs__db *c, const char *name, struct uvs__arena *a) {
  struct uvs__put tick = {.job = {.queue = UVS__CRON_QUEUE,
                                  .rest = name,
                                  .name = name,
                                  .due = {.delay_us = -1, .at_us = c->now_us}}};

  uvs__put_jobs(c, &tick, 1, a);
}

void uvs__do_set_cron(struct uvs__db *c, struct uvs__cron_request *r) {
  const struct uvs__cron *cron = &r->cron;
  int64_t last_us = uvs__cron_last_us(NULL, cron, c->now_us);

  if (uvs__row(c, UVS__SQL_FIND_CRON, UVS__ARGS(uvs__text(cron->name)))) {
    struct uvs__cron old = {0};
    bool read = uvs__read_cron(c, UVS__SQL_FIND_CRON, &r->arena, &old);

    uvs__end_rows(c, UVS__SQL_FIND_CRON);
    if (!read) {
      uvs__db_failed(c, SQLITE_NOMEM);
      return;
    }
    if (old.revision >= cron->revision) {
      r->r.status = UVS_JOB_EXISTS;
      return;
    }
    last_us = uvs__cron_last_us(&old, cron, c->now_us);
  }
  uvs__do(c, UVS__SQL_SET_CRON,
          UVS__ARGS(uvs__text(cron->name), uvs__int((int64_t)cron->revision),
                    uvs__text(cron->expression), uvs__text(cron->zone), uvs__int(cron->misfire),
                    uvs__int(cron->overlap), uvs__int(cron->max_missed), uvs__int(last_us),
                    uvs__text(cron->job.queue), uvs__text(cron->job.name),
                    uvs__int(cron->job.priority), uvs__int(cron->job.keep_us),
                    uvs__blob(cron->job.payload), uvs__blob(cron->job.meta)));
  remove_tick(c, cron->name);
  put_tick(c, cron->name, &r->arena);
}

void uvs__do_remove_cron(struct uvs__db *c, struct uvs__cron_request *r) {
  if (uvs__do(c, UVS__SQL_REMOVE_CRON, UVS__ARGS(uvs__text(r->cron.name))) == 0)
    r->r.status = UV_ENOENT;
  else
    remove_tick(c, r->cron.name);
}

void uvs__do_crons(struct uvs__db *c, struct uvs__cron_request *r) {
  const enum uvs__sql row = UVS__SQL_CRONS;
  size_t room = (size_t)uvs__number(c, UVS__SQL_COUNT_CRONS, NULL, 0);
  bool more;

  r->n = 0;
  r->now_us = c->now_us;
  r->crons = uvs__arena_alloc(&r->arena, room * sizeof *r->crons);
  if (r->crons == NULL) {
    uvs__db_failed(c, SQLITE_NOMEM);
    return;
  }
  for (more = uvs__row(c, row, NULL); more && r->n < room; more = uvs__next_row(c, row)) {
    struct uvs__cron *cron = &r->crons[r->n++];

    if (!uvs__read_cron(c, row, &r->arena, cron))
      uvs__db_failed(c, SQLITE_NOMEM);
    cron->tick_us = sqlite3_column_type(c->statements[row], 14) == SQLITE_NULL
                        ? UVS__NEVER_US
                        : uvs__col(c, row, 14);
  }
  uvs__end_rows(c, row);
}
