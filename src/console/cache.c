/* SPDX-License-Identifier: MIT
 *
 * Several pages that are open ask for the same at about the same time. What was rendered less than
 * UVS__FRESH_NS ago is sent again, so that many clients cost little more than one. A survey of all
 * tasks goes in steps with pauses, so that it never holds up the loop; whoever asks for the same
 * meanwhile waits for it, too.
 */
#include "console/server.h"

#include "console/alloc.h"
#include "console/query.h"

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

/* The entry is rendered, which took so long at a stretch: tells all that wait. code: 0, or an
 * error. */
static void finish(struct uvs__entry *e, int code, struct uvs__text *text, uint64_t took_ns) {
  uint64_t rest_ns = took_ns * UVS__SHARE;

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

static void begin(struct uvs_console_s *c, struct uvs__entry *e) {
  struct uvs__text text = {NULL, 0, 0};
  uint64_t began_ns = uv_hrtime();
  struct uvs__stats_about about;
  int rc;

  if (uvs__query_path_is(e->target, "/tasks.json")) {
    rc = uvs__survey_open(&e->survey, e->target);
    e->surveying = rc == 0;
    if (rc == 0) {
      c->kick(c);
      return;
    }
  } else {
    uvs__console_about(c, &about);
    rc = uvs__render(c->s, e->target, &about, uvs__text_write, &text);
  }
  finish(e, rc, &text, uv_hrtime() - began_ns);
}

/* An entry for this target: the same that is fresh, or one that is begun; NULL: no room. */
static struct uvs__entry *find(struct uvs_console_s *c, const char *target) {
  uint64_t now_ns = uv_hrtime();
  struct uvs__entry *room = NULL;

  for (int i = 0; i < UVS__CACHED; i++) {
    struct uvs__entry *e = &c->cache[i];

    if (!is_free(e) && e->answer == NULL && !e->surveying)
      clear(e); /* there was no memory for the answer */
    if (!is_free(e) && !e->surveying && now_ns >= e->until_ns)
      clear(e);
    if (!is_free(e) && strcmp(e->target, target) == 0)
      return e;
    if (is_free(e) ||
        (!e->surveying && (room == NULL || (!is_free(room) && e->until_ns < room->until_ns))))
      room = room != NULL && is_free(room) ? room : e;
  }
  if (room == NULL)
    return NULL;
  clear(room);
  room->target = uvs__console_copy(target);
  if (room->target == NULL)
    return NULL;
  begin(c, room);
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

/* ---- surveys ---- */

bool uvs__cache_is_busy(const struct uvs_console_s *c) {
  for (int i = 0; i < UVS__CACHED; i++) {
    if (c->cache[i].surveying)
      return true;
  }
  return false;
}

static struct uvs__entry *next_survey(struct uvs_console_s *c) {
  for (unsigned i = 0; i < UVS__CACHED; i++) {
    struct uvs__entry *e = &c->cache[(c->turn + i) % UVS__CACHED];

    if (e->surveying) {
      c->turn = (c->turn + i + 1) % UVS__CACHED;
      return e;
    }
  }
  return NULL;
}

void uvs__cache_step(struct uvs_console_s *c) {
  uint64_t end_ns = uv_hrtime() + UVS__STEP_NS;
  struct uvs__entry *e = next_survey(c);
  struct uvs__text text = {NULL, 0, 0};
  int rc = 0;

  if (e == NULL)
    return;
  while (rc == 0 && !e->survey.over && uv_hrtime() < end_ns)
    rc = uvs__survey_step(&e->survey, c->s, 64);
  if (rc == 0 && e->survey.over)
    rc = uvs__survey_write(&e->survey, c->s, uvs__text_write, &text);
  if (rc != 0 || e->survey.over)
    finish(e, rc, &text, 0);
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
