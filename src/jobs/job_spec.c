/* SPDX-License-Identifier: MIT */
#include "jobs/job_spec.h"

#include <stdio.h>
#include <string.h>

/* -------------------------------------------------------------------- ids --- */

int uvs__make_id(struct uvs__id_maker *m, int64_t wall_ns, char ret[27]) {
  static const char digits[] = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"; /* Crockford's: sorts as bytes */
  int64_t ms = wall_ns / 1000000;
  int i;

  if (ms > m->last_ms) {
    int rc = uv_random(NULL, NULL, m->random, sizeof m->random, 0, NULL);

    if (rc != 0)
      return rc;
    m->random[0] &= 0x7f; /* room to count up */
    m->last_ms = ms;
  } else { /* the same millisecond, or the clock was set back: take the next number */
    for (i = (int)sizeof m->random - 1; i >= 0 && ++m->random[i] == 0; i--)
      ;
    ms = m->last_ms;
  }
  for (i = 9; i >= 0; i--, ms >>= 5)
    ret[i] = digits[ms & 31];
  for (i = 0; i < 16; i++) { /* 80 bits in groups of 5 */
    unsigned bit = (unsigned)i * 5, byte = bit / 8, shift = bit % 8;
    unsigned two = (unsigned)m->random[byte] << 8 | (byte + 1 < 10 ? m->random[byte + 1] : 0u);

    ret[10 + i] = digits[two >> (11 - shift) & 31];
  }
  ret[26] = '\0';
  return 0;
}

bool uvs__is_reserved(const char *name) {
  return strncmp(name, "uvs.", 4) == 0;
}

int uvs__split_id(const char *id, char ret_queue[UVS_JOB_NAME_MAX + 1], const char **ret_rest) {
  const char *slash = id == NULL ? NULL : strchr(id, '/');
  size_t length = slash == NULL ? 0 : (size_t)(slash - id);

  if (length == 0 || length > UVS_JOB_NAME_MAX || slash[1] == '\0' ||
      strlen(slash + 1) > UVS__REST_MAX || uvs__is_reserved(id))
    return UV_EINVAL;
  memcpy(ret_queue, id, length);
  ret_queue[length] = '\0';
  *ret_rest = slash + 1;
  return 0;
}

/* ----------------------------------------------------------------- checks --- */

int uvs__check_name(const char *what, const char *name, char *text, size_t size) {
  static const char allowed[] =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";

  if (name == NULL || *name == '\0')
    snprintf(text, size, "%s is missing", what);
  else if (strlen(name) > UVS_JOB_NAME_MAX)
    snprintf(text, size, "%s is longer than %d bytes", what, UVS_JOB_NAME_MAX);
  else if (name[strspn(name, allowed)] != '\0')
    snprintf(text, size, "%s has a character that is not one of A-Z a-z 0-9 _ . : -", what);
  else if (uvs__is_reserved(name))
    snprintf(text, size, "%s begins with uvs., which is reserved", what);
  else
    return 0;
  return UV_EINVAL;
}

static int check_rest(const char *what, const char *rest, char *text, size_t size) {
  size_t length = strlen(rest), i;

  for (i = 0; i < length && rest[i] > ' ' && rest[i] <= '~'; i++)
    ;
  if (length >= 1 && length <= UVS__REST_MAX && i == length)
    return 0;
  snprintf(text, size, "%s must have 1 to %d printable ASCII characters without blanks", what,
           UVS__REST_MAX);
  return UV_EINVAL;
}

int uvs__check_when(int64_t delay_ns, int64_t at_ns, char *text, size_t size) {
  if (at_ns != 0 && delay_ns != 0)
    snprintf(text, size, "delay_ns and at_ns are both set: set one of them");
  else if (at_ns < 0)
    snprintf(text, size, "at_ns is before 1970");
  else if (at_ns >= UVS_JOBS_END_NS)
    snprintf(text, size, "at_ns is after 2255-06-05T23:47:34Z");
  else if (delay_ns >= UVS_JOBS_END_NS / 2) /* so that now + delay_ns is below UVS_JOBS_END_NS */
    snprintf(text, size, "delay_ns is longer than 142 years");
  else
    return 0;
  return UV_EINVAL;
}

static int check_key(const uvs_job_spec_t *s, char *text, size_t size) {
  if (s->key_policy < UVS_KEY_KEEP || s->key_policy > UVS_KEY_ERROR)
    snprintf(text, size, "key_policy is %d, which is not a UVS_KEY_...", s->key_policy);
  else if (s->key == NULL && s->key_policy != UVS_KEY_KEEP)
    snprintf(text, size, "key_policy is set, but key is not");
  else
    return s->key == NULL ? 0 : check_rest("key", s->key, text, size);
  return UV_EINVAL;
}

static int check_bytes(const char *what, const void *data, size_t n, size_t max, char *text,
                       size_t size) {
  if (n > max) {
    snprintf(text, size, "%s has %zu bytes, more than %zu", what, n, max);
    return UV_E2BIG;
  }
  if (data == NULL && n > 0) {
    snprintf(text, size, "%s is NULL, but its size is %zu", what, n);
    return UV_EINVAL;
  }
  return 0;
}

int uvs__read_job_spec(const uvs_job_spec_t *from, uvs_job_spec_t *ret) {
  size_t known;

  if (from == NULL || from->size < offsetof(uvs_job_spec_t, keep_done_ns))
    return UV_EINVAL;
  known = from->size < sizeof *ret ? from->size : sizeof *ret;
  memset(ret, 0, sizeof *ret);
  memcpy(ret, from, known);
  ret->size = sizeof *ret;
  return 0;
}

int uvs__check_job_spec(const uvs_job_spec_t *spec, size_t max_payload, char *text, size_t size) {
  char unused[1];
  uvs_job_spec_t s;
  int rc;

  if (text == NULL || size == 0) {
    text = unused;
    size = sizeof unused;
  }
  text[0] = '\0';
  if (uvs__read_job_spec(spec, &s) != 0) {
    snprintf(text, size, "the spec is NULL, or was not made by uvs_job_spec_init");
    return UV_EINVAL;
  }
  rc = uvs__check_name("name", s.name, text, size);
  if (rc == 0 && s.queue != NULL)
    rc = uvs__check_name("queue", s.queue, text, size);
  if (rc == 0 && s.id != NULL)
    rc = check_rest("id", s.id, text, size);
  if (rc == 0)
    rc = uvs__check_when(s.delay_ns, s.at_ns, text, size);
  if (rc == 0)
    rc = check_bytes("payload", s.payload, s.payload_size, max_payload, text, size);
  if (rc == 0)
    rc = check_bytes("meta", s.meta, s.meta_size, UVS_JOB_META_MAX, text, size);
  if (rc == 0)
    rc = check_key(&s, text, size);
  if (rc == 0 && (s.priority < UVS_PRIORITY_LOW || s.priority > UVS_PRIORITY_HIGH)) {
    snprintf(text, size, "priority is %d, which is not a UVS_PRIORITY_...", s.priority);
    rc = UV_EINVAL;
  }
  if (rc == 0 && s.keep_done_ns < 0) {
    snprintf(text, size, "keep_done_ns is negative");
    rc = UV_EINVAL;
  }
  return rc;
}

int uvs_job_check(const uvs_job_spec_t *spec, char *text, size_t size) {
  return uvs__check_job_spec(spec, UVS_JOB_PAYLOAD_MAX, text, size);
}

/* ----------------------------------------------------------------- copies --- */

struct uvs__when uvs__to_when(int64_t delay_ns, int64_t at_ns) {
  struct uvs__when w = {-1, 0};

  if (at_ns != 0)
    w.at_us = at_ns / 1000 + (at_ns % 1000 > 0);
  else
    w.delay_us = delay_ns <= 0 ? 0 : delay_ns / 1000 + (delay_ns % 1000 > 0);
  return w;
}

static bool copy_bytes(struct uvs__arena *a, const void *data, size_t size,
                       struct uvs__bytes *ret) {
  ret->size = size;
  ret->data = uvs__arena_copy(a, data, size);
  return ret->data != NULL;
}

bool uvs__copy_spec(const uvs_job_spec_t *s, const char *rest, struct uvs__arena *a,
                    struct uvs__record *ret) {
  ret->key_policy = s->key_policy;
  ret->priority = s->priority;
  ret->due = uvs__to_when(s->delay_ns, s->at_ns);
  ret->keep_us = s->keep_done_ns / 1000;
  return uvs__arena_string(a, s->name, &ret->name) &&
         uvs__arena_string(a, s->queue == NULL ? s->name : s->queue, &ret->queue) &&
         uvs__arena_string(a, s->id == NULL ? rest : s->id, &ret->rest) &&
         uvs__arena_string(a, s->key, &ret->key) &&
         copy_bytes(a, s->payload, s->payload_size, &ret->payload) &&
         copy_bytes(a, s->meta, s->meta_size, &ret->meta);
}
