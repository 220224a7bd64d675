/* SPDX-License-Identifier: MIT
 *
 * redis_job: reads the texts of jobs, dead letters and ends. The scripts write them; so far their
 * version is 1 everywhere.
 */
#include <stdio.h>
#include <string.h>

#include "jobs/redis_store.h"

#define VERSION 1
enum { HAS_NAME = 4, HAS_KEY = 8, HAS_KEEP = 16, HAS_META = 32 }; /* flags of a record */
enum { END_HAS_KEY = 128 };                                       /* is added to an end's state */
enum { IS_CLAIMED = 1, IS_HELD = 2, IS_CANCELLED = 4 };           /* flags of a run */

/* ----------------------------------------------------------------- numbers --- */

struct uvs__reader uvs__reader_of(struct uvs__bytes bytes) {
  const unsigned char *at = bytes.data;
  struct uvs__reader r = {at, at + bytes.size, false};

  return r;
}

struct uvs__bytes uvs__read_bytes(struct uvs__reader *r, size_t size) {
  struct uvs__bytes bytes = {r->at, size};

  if ((size_t)(r->end - r->at) < size) {
    r->bad = true;
    bytes.size = 0;
    return bytes;
  }
  r->at += size;
  return bytes;
}

struct uvs__bytes uvs__read_rest(struct uvs__reader *r) {
  return uvs__read_bytes(r, (size_t)(r->end - r->at));
}

uint64_t uvs__read_number(struct uvs__reader *r, size_t size) {
  struct uvs__bytes bytes = uvs__read_bytes(r, size);
  const unsigned char *at = bytes.data;
  uint64_t number = 0;

  for (size_t i = 0; i < bytes.size; i++)
    number = number << 8 | at[i];
  return number;
}

static struct uvs__bytes read_counted(struct uvs__reader *r, size_t size) {
  return uvs__read_bytes(r, (size_t)uvs__read_number(r, size));
}

/* A time that no script writes is 0. */
static int64_t ns_of(int64_t us) {
  return us > -UVS__NEVER_US && us <= UVS__NEVER_US ? us * 1000 : 0;
}

static int64_t read_ns(struct uvs__reader *r, size_t size) {
  return ns_of((int64_t)uvs__read_number(r, size));
}

/* ----------------------------------------------------------------- records --- */

bool uvs__redis_read_record(struct uvs__reader *r, bool whole, struct uvs__redis_record *ret) {
  uint64_t version = uvs__read_number(r, 1), flags = uvs__read_number(r, 1);

  memset(ret, 0, sizeof *ret);
  ret->priority = 1 - (int)(flags & 3);
  ret->number = (int64_t)uvs__read_number(r, 7);
  ret->put_us = (int64_t)uvs__read_number(r, 7);
  if (flags & HAS_KEEP)
    uvs__read_number(r, 7);
  if (flags & HAS_NAME)
    ret->name = read_counted(r, 1);
  if (flags & HAS_KEY)
    ret->key = read_counted(r, 1);
  if (whole) {
    if (flags & HAS_META)
      ret->meta = read_counted(r, 2);
    ret->payload = uvs__read_rest(r);
  }
  return !r->bad && version == VERSION;
}

bool uvs__redis_read_run(struct uvs__bytes bytes, struct uvs__redis_run *ret) {
  struct uvs__reader r = uvs__reader_of(bytes);
  uint64_t version = uvs__read_number(&r, 1), flags = uvs__read_number(&r, 1);

  uvs__read_bytes(&r, 13); /* fence and owner */
  ret->claimed = flags & IS_CLAIMED;
  ret->held = flags & IS_HELD;
  ret->cancelled = flags & IS_CANCELLED;
  ret->failures = (uint32_t)uvs__read_number(&r, 4);
  ret->crashes = (uint32_t)uvs__read_number(&r, 4);
  ret->due_us = (int64_t)uvs__read_number(&r, 8);
  ret->error = read_counted(&r, 2);
  ret->progress = read_counted(&r, 2);
  return !r.bad && version == VERSION;
}

/* ------------------------------------------------------------------- infos --- */

const char *uvs__redis_string(struct uvs__arena *a, struct uvs__bytes bytes) {
  return uvs__arena_copy(a, bytes.data, bytes.size);
}

/* False: no memory. */
static bool copy_text(struct uvs__arena *a, struct uvs__bytes bytes, const char **ret) {
  *ret = uvs__redis_string(a, bytes);
  return *ret != NULL;
}

static bool copy_blob(struct uvs__arena *a, struct uvs__bytes bytes, const void **ret,
                      size_t *ret_size) {
  if (bytes.size == 0)
    return true;
  *ret = uvs__arena_copy(a, bytes.data, bytes.size);
  *ret_size = bytes.size;
  return *ret != NULL;
}

/* name: size 0 means that it is the queue's. */
static bool copy_names(struct uvs__arena *a, struct uvs__bytes id, struct uvs__bytes name,
                       uvs_job_info_t *ret) {
  const char *slash = memchr(id.data, '/', id.size);
  struct uvs__bytes queue = {id.data, slash == NULL ? 0 : (size_t)(slash - (const char *)id.data)};

  ret->size = sizeof *ret;
  ret->error = "";
  return copy_text(a, id, &ret->id) && copy_text(a, queue, &ret->queue) &&
         copy_text(a, name.size == 0 ? queue : name, &ret->name);
}

static bool copy_record(struct uvs__arena *a, const struct uvs__redis_record *record,
                        uvs_job_info_t *ret) {
  ret->put_ns = ns_of(record->put_us);
  ret->priority = record->priority;
  return (record->key.size == 0 || copy_text(a, record->key, &ret->key)) &&
         copy_blob(a, record->payload, &ret->payload, &ret->payload_size) &&
         copy_blob(a, record->meta, &ret->meta, &ret->meta_size);
}

/* "QUEUE/REST"; size 0: no memory. */
static struct uvs__bytes make_id(struct uvs__arena *a, const char *queue, struct uvs__bytes rest) {
  size_t size = strlen(queue) + 1 + rest.size;
  char *text = uvs__arena_alloc(a, size + 1);
  struct uvs__bytes id = {text, text == NULL ? 0 : size};

  if (text != NULL)
    snprintf(text, size + 1, "%s/%.*s", queue, (int)rest.size, (const char *)rest.data);
  return id;
}

int uvs__redis_read_job(struct uvs__arena *a, const char *queue, struct uvs__bytes rest,
                        int64_t visible_us, struct uvs__bytes run, struct uvs__bytes record,
                        bool whole, uvs_job_info_t *ret, int64_t *ret_number) {
  struct uvs__reader reader = uvs__reader_of(record);
  struct uvs__bytes id = make_id(a, queue, rest);
  struct uvs__redis_record r;
  struct uvs__redis_run state = {.due_us = visible_us};

  if (id.size == 0)
    return UV_ENOMEM;
  if (!uvs__redis_read_record(&reader, whole, &r) ||
      (run.size > 0 && !uvs__redis_read_run(run, &state)))
    return UV_EIO;
  *ret_number = r.number;
  if (!copy_names(a, id, r.name, ret) || !copy_record(a, &r, ret) ||
      !copy_text(a, state.error, &ret->error) ||
      (whole && !copy_blob(a, state.progress, &ret->progress, &ret->progress_size)))
    return UV_ENOMEM;
  ret->state = state.claimed ? UVS_JOB_RUNNING : state.held ? UVS_JOB_HELD : UVS_JOB_PENDING;
  ret->due_ns = ns_of(state.claimed ? visible_us : state.due_us);
  ret->attempts = state.failures;
  ret->crashes = state.crashes;
  ret->cancelling = state.cancelled;
  return 0;
}

int uvs__redis_read_dead(struct uvs__arena *a, struct uvs__bytes id, struct uvs__bytes text,
                         uvs_job_info_t *ret, int64_t *ret_number) {
  struct uvs__reader reader = uvs__reader_of(text);
  struct uvs__redis_record r;
  struct uvs__bytes error;

  uvs__read_number(&reader, 1);
  ret->state = UVS_JOB_DEAD;
  ret->ended_ns = read_ns(&reader, 7);
  ret->attempts = (uint32_t)uvs__read_number(&reader, 4);
  ret->crashes = (uint32_t)uvs__read_number(&reader, 4);
  ret->due_ns = read_ns(&reader, 8);
  error = read_counted(&reader, 2);
  if (!uvs__redis_read_record(&reader, true, &r))
    return UV_EIO;
  *ret_number = r.number;
  return copy_names(a, id, r.name, ret) && copy_record(a, &r, ret) &&
                 copy_text(a, error, &ret->error)
             ? 0
             : UV_ENOMEM;
}

int uvs__redis_read_end(struct uvs__arena *a, struct uvs__bytes id, struct uvs__bytes text,
                        bool whole, uvs_job_info_t *ret, int64_t *ret_number,
                        const char **ret_key) {
  struct uvs__reader reader = uvs__reader_of(text);
  struct uvs__bytes name, key = {"", 0}, none = {"", 0};
  int state;

  uvs__read_number(&reader, 1);
  state = (int)uvs__read_number(&reader, 1);
  ret->state = state & ~END_HAS_KEY;
  *ret_number = (int64_t)uvs__read_number(&reader, 7);
  ret->put_ns = read_ns(&reader, 7);
  ret->ended_ns = read_ns(&reader, 7);
  uvs__read_number(&reader, 7);
  ret->attempts = (uint32_t)uvs__read_number(&reader, 4);
  ret->crashes = (uint32_t)uvs__read_number(&reader, 4);
  name = read_counted(&reader, 1);
  if (state & END_HAS_KEY)
    key = read_counted(&reader, 1);
  if (reader.bad)
    return UV_EIO;
  if (ret_key != NULL && key.size > 0 && !copy_text(a, key, ret_key))
    return UV_ENOMEM;
  return copy_names(a, id, name, ret) && copy_blob(a, whole ? uvs__read_rest(&reader) : none,
                                                   &ret->result, &ret->result_size)
             ? 0
             : UV_ENOMEM;
}
