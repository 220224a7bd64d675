/* SPDX-License-Identifier: MIT
 *
 * sqlite_alter: ALTER of the SQLite store.
 */
#include "jobs/sqlite.h"

void uvs__do_alter(struct uvs__db *c, struct uvs__alter_request *r) {
  struct uvs__bytes none = {NULL, 0};
  struct uvs__row job;

  r->status = 0;
  if (!uvs__find(c, r->queue, r->rest, &job) || job.class >= UVS__CLASS_DEAD) {
    r->status = UV_ENOENT;
  } else if (job.fence != 0) {
    r->status = UVS_JOB_RUNNING;
    if (r->op == UVS__CANCEL)
      uvs__do(c, UVS__SQL_FLAG_CANCEL, UVS__ARGS(uvs__int(job.seq)));
  } else if (r->op == UVS__CANCEL) {
    uvs__end_job(c, &job, UVS_JOB_CANCELLED, none);
  } else {
    int64_t due_us = uvs__due_us(r->when, c->wall_ns);

    uvs__do(c, UVS__SQL_MOVE,
            UVS__ARGS(uvs__int(job.seq),
                      uvs__int(job.class == UVS__CLASS_HELD ? UVS__NEVER_US : due_us),
                      uvs__int(due_us)));
  }
}
