/* SPDX-License-Identifier: MIT
 *
 * cache: open pages ask for the same resources at about the same time. What was rendered less than
 * UVS__FRESH_NS ago is sent again, so that many clients cost little more than one. Nothing is
 * rendered while libmicrohttpd runs: an entry is rendered by a step, one at a time, with a pause
 * after each step. A survey of all tasks takes several steps. Other requests for the same resource
 * wait for the end of the survey.
 */
#include "console/server.h"

#include "console/alloc.h"
#include "console/query.h"

#include <stdio.h>
#include <string.h>

static bool is_free(const struct uvs__entry *e) {
  return e->target == NULL;
}

static void clear(struct uvs__entry *e) {
  if (e->answer != NULL)
    MHD_destroy_response(e->answer);
  if (e->surveying)
    uvs__survey_close(&e->survey);
  uvs__console_free(e->target);
  memset(e, 0, sizeof *e);
}

/* ---- an entry ---- */

static unsigned status_of(int code) {
  return code == UV_ENOENT   ? MHD_HTTP_NOT_FOUND
         : code == UV_EINVAL ? MHD_HTTP_BAD_REQUEST
                             : MHD_HTTP_SERVICE_UNAVAILABLE;
}

/* The entry is rendered, and the last step took so much CPU time: tells all that wait. code: 0, or
 * an error. */
static void finish(struct uvs__entry *e, int code, struct uvs__text *text, uint64_t took_ns) {
  uint64_t rest_ns = uvs__console_rest(took_ns);

  e->until_ns = uv_hrtime() + (rest_ns > UVS__FRESH_NS ? rest_ns : UVS__FRESH_NS);
  e->status = code < 0 ? status_of(code) : MHD_HTTP_OK;
  if (code < 0) {
    uvs__text_free(text);
    e->answer = uvs__answer_error(code == UV_EINVAL ? "a parameter is wrong" : uvs_strerror(code));
  } else {
    e->answer = uvs__answer_text(uvs_console_type(e->target), text);
  }
  if (e->surveying)
    uvs__survey_close(&e->survey);
  e->surveying = false;
  while (e->first != NULL) {
    struct uvs__request *r = e->first;

    e->first = r->next_in_entry;
    r->entry = NULL;
    uvs__request_resume(r); /* finds the entry again, and its answer */
  }
}

/* 0, or an error. */
static int begin(struct uvs_console_s *c, struct uvs__entry *e) {
  if (uvs__query_path_is(e->target, "/tasks.json")) {
    int rc = uvs__survey_open(&e->survey, e->target);

    if (rc < 0)
      return rc;
  }
  e->surveying = true;
  c->kick(c);
  return 0;
}

/* What of the target changes the answer: of unknown parameters there is no second rendering. */
static void read_key(const char *target, char *ret, size_t size) {
  int n = (int)strcspn(target, "?");
  uint64_t last_ms = 60000;

  if (uvs__query_path_is(target, "/tasks.json"))
    snprintf(ret, size, "%s", target);
  else if (!uvs__query_path_is(target, "/timeline.json"))
    snprintf(ret, size, "%.*s", n, target);
  else if (uvs__query_uint(target, "last_ms", 1, 3600000, &last_ms) < 0)
    snprintf(ret, size, "%.*s?last_ms=0", n, target); /* wrong, too */
  else
    snprintf(ret, size, "%.*s?last_ms=%llu", n, target, (unsigned long long)last_ms);
}

/* An entry for this target: the same that is fresh, or one that is begun; NULL: no room. */
static struct uvs__entry *find(struct uvs_console_s *c, const char *target) {
  uint64_t now_ns = uv_hrtime();
  struct uvs__text none = {NULL, 0, 0};
  struct uvs__entry *room = NULL;
  char key[UVS__TARGET_MAX + 1];
  int rc;

  read_key(target, key, sizeof key);
  for (int i = 0; i < UVS__CACHED; i++) {
    struct uvs__entry *e = &c->cache[i];

    if (!is_free(e) && e->answer == NULL && !e->surveying)
      clear(e); /* there was no memory for the answer */
    if (!is_free(e) && !e->surveying && now_ns >= e->until_ns)
      clear(e);
    if (!is_free(e) && strcmp(e->target, key) == 0)
      return e;
    if (is_free(e) ||
        (!e->surveying && (room == NULL || (!is_free(room) && e->until_ns < room->until_ns))))
      room = room != NULL && is_free(room) ? room : e;
  }
  if (room == NULL)
    return NULL;
  clear(room);
  room->target = uvs__console_copy(key);
  if (room->target == NULL)
    return NULL;
  rc = begin(c, room);
  if (rc < 0)
    finish(room, rc, &none, 0);
  return room;
}

enum MHD_Result uvs__cache_get(struct uvs__request *r) {
  struct uvs__entry *e = find(r->console, r->target);

  if (e == NULL)
    return uvs__answer_queue(r->connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                             uvs__answer_error("too many different requests at once"));
  if (!e->surveying)
    return e->answer == NULL ? MHD_NO : MHD_queue_response(r->connection, e->status, e->answer);
  r->entry = e;
  r->next_in_entry = e->first;
  e->first = r;
  uvs__request_suspend(r);
  return MHD_YES;
}

void uvs__cache_leave(struct uvs__request *r) {
  struct uvs__request **at;

  if (r->entry == NULL)
    return;
  at = &r->entry->first;
  while (*at != r)
    at = &(*at)->next_in_entry;
  *at = r->next_in_entry;
  r->entry = NULL;
}

void uvs__cache_forget(struct uvs_console_s *c) {
  for (int i = 0; i < UVS__CACHED; i++) {
    if (!c->cache[i].surveying)
      clear(&c->cache[i]);
  }
}

/* ---- steps ---- */

bool uvs__cache_is_busy(const struct uvs_console_s *c) {
  for (int i = 0; i < UVS__CACHED; i++) {
    if (c->cache[i].surveying)
      return true;
  }
  return false;
}

static struct uvs__entry *next_entry(struct uvs_console_s *c) {
  for (unsigned i = 0; i < UVS__CACHED; i++) {
    struct uvs__entry *e = &c->cache[(c->turn + i) % UVS__CACHED];

    if (e->surveying) {
      c->turn = (c->turn + i + 1) % UVS__CACHED;
      return e;
    }
  }
  return NULL;
}

/* Returns whether the entry is rendered. */
static bool step(struct uvs_console_s *c, struct uvs__entry *e, struct uvs__text *text, int *rc) {
  uint64_t end_ns = uv_hrtime() + UVS__STEP_NS;
  struct uvs__stats_about about;

  if (!uvs__query_path_is(e->target, "/tasks.json")) {
    uvs__console_about(c, &about);
    *rc = uvs__render(c->s, e->target, &about, uvs__text_write, text);
    return true;
  }
  while (*rc == 0 && !e->survey.over && uv_hrtime() < end_ns)
    *rc = uvs__survey_step(&e->survey, c->s, 64);
  if (*rc == 0 && e->survey.over)
    *rc = uvs__survey_write(&e->survey, c->s, uvs__text_write, text);
  return *rc != 0 || e->survey.over;
}

void uvs__cache_step(struct uvs_console_s *c) {
  uint64_t began_ns = uvs__console_cpu_ns(), took_ns, pause_ns;
  struct uvs__entry *e = next_entry(c);
  struct uvs__text text = {NULL, 0, 0};
  bool over;
  int rc = 0;

  if (e == NULL)
    return;
  over = step(c, e, &text, &rc);
  took_ns = uvs__console_cpu_ns() - began_ns;
  pause_ns = 3 * took_ns;
  c->step_ns = uv_hrtime() + (pause_ns > UVS__STEP_GAP_NS ? pause_ns : UVS__STEP_GAP_NS);
  if (over)
    finish(e, rc, &text, took_ns);
}

void uvs__cache_close(struct uvs_console_s *c) {
  for (int i = 0; i < UVS__CACHED; i++) {
    struct uvs__entry *e = &c->cache[i];
    struct uvs__text text = {NULL, 0, 0};

    if (e->surveying)
      finish(e, UV_ECANCELED, &text, 0);
    clear(e);
  }
}
