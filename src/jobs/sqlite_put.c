/* SPDX-License-Identifier: MIT
 *
 * sqlite_put: PUT of the SQLite store. A job without a key is one statement: the index of the ids
 * tells whether the job is there.
 */
#include <string.h>

#include "jobs/sqlite.h"

/* Writes a row. False: the id is there. */
static bool insert(struct uvs__db *c, const struct uvs__record *job, int class, int64_t due_us) {
  struct uvs__bytes none = {NULL, 0};
  bool big = job->payload.size > UVS__PAYLOAD_HERE;
  bool same_name = strcmp(job->name, job->queue) == 0;
  int64_t queue = uvs__make_queue(c, job->queue);

  if (uvs__do(c, UVS__SQL_PUT,
              UVS__ARGS(uvs__int(queue), uvs__int(class),
                        uvs__int(class == UVS__CLASS_HELD ? UVS__NEVER_US : due_us),
                        uvs__int(due_us), uvs__int(c->now_us), uvs__int(job->keep_us),
                        uvs__int(job->priority), uvs__int(big), uvs__text(job->rest),
                        uvs__text(same_name ? NULL : job->name), uvs__text(job->key),
                        uvs__blob(job->meta), uvs__blob(big ? none : job->payload))) == 0)
    return false;
  if (big)
    uvs__do(c, UVS__SQL_PUT_PAYLOAD,
            UVS__ARGS(uvs__int(sqlite3_last_insert_rowid(c->db)), uvs__blob(job->payload)));
  return true;
}

static void refuse(struct uvs__db *c, struct uvs__put *put, int status, const char *there,
                   struct uvs__arena *a) {
  put->status = status;
  if (!uvs__arena_string(a, there, &put->there))
    uvs__db_failed(c, SQLITE_NOMEM);
}

/* The id is free. Looks at the key. */
static void put_keyed(struct uvs__db *c, struct uvs__put *put, int64_t due_us,
                      struct uvs__arena *a) {
  const struct uvs__record *job = &put->job;
  struct uvs__bytes none = {NULL, 0};
  struct uvs__row holder, successor;
  int class = uvs__class_of(job->priority);

  if (uvs__find_holder(c, job->queue, job->key, &holder)) {
    if (job->key_policy != UVS_KEY_REPLACE) {
      refuse(c, put, job->key_policy == UVS_KEY_KEEP ? UVS_JOB_EXISTS : UV_EEXIST, holder.rest, a);
      return;
    }
    if (holder.fence == 0) {
      uvs__end_job(c, &holder, UVS_JOB_REPLACED, none);
    } else {
      if (uvs__find_successor(c, &holder, &successor))
        uvs__end_job(c, &successor, UVS_JOB_REPLACED, none);
      class = UVS__CLASS_HELD;
    }
  }
  insert(c, job, class, due_us);
}

static void put_one(struct uvs__db *c, struct uvs__put *put, struct uvs__arena *a) {
  const struct uvs__record *job = &put->job;
  int64_t due_us = uvs__due_us(job->due, c->wall_ns);
  struct uvs__row old;

  put->status = 0;
  put->there = NULL;
  put->due_us = 0;
  if (job->key != NULL || !insert(c, job, uvs__class_of(job->priority), due_us)) {
    bool there = uvs__find_any(c, job->queue, job->rest, &old);

    if (there && !uvs__is_past(c, &old)) {
      refuse(c, put, UVS_JOB_EXISTS, job->rest, a);
      return;
    }
    if (job->key == NULL) {
      uvs__drop_row(c, old.seq, false);
      insert(c, job, uvs__class_of(job->priority), due_us);
    } else {
      if (there)
        uvs__drop_row(c, old.seq, false);
      put_keyed(c, put, due_us, a);
    }
  }
  if (put->status == 0)
    put->due_us = due_us;
}

void uvs__put_jobs(struct uvs__db *c, struct uvs__put *puts, size_t n, struct uvs__arena *a) {
  size_t i;

  for (i = 0; i < n && c->rc == SQLITE_OK; i++)
    put_one(c, &puts[i], a);
}

void uvs__do_put(struct uvs__db *c, struct uvs__put_request *r) {
  uvs__put_jobs(c, r->puts, r->n, &r->arena);
}
