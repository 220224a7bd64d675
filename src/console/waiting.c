/* SPDX-License-Identifier: MIT
 *
 * waiting: requests that wait for their answer, and work that ends later. Below all files that have
 * such work; what they need of listen.c comes through two pointers, `kick` and `let_go`.
 */
#include "console/server.h"

#include "console/alloc.h"
#include "console/json.h"

#include <time.h>

uint64_t uvs__console_cpu_ns(void) {
  struct timespec t;

  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

uint64_t uvs__console_rest(uint64_t took_ns) {
  return took_ns > UVS__REST_MAX_NS / UVS__SHARE ? UVS__REST_MAX_NS : took_ns * UVS__SHARE;
}

void uvs__console_about(const struct uvs_console_s *c, struct uvs__stats_about *ret) {
  *ret = (struct uvs__stats_about){.own_lane = c->lane,
                                   .may_act = c->guard.token != NULL,
                                   .has_jobs = c->jobs.jobs != NULL,
                                   .has_events = true};
}

struct uvs__connection *uvs__connection_of(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info =
      MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

  return info == NULL ? NULL : info->socket_context;
}

void uvs__request_lives(struct uvs__request *r, uint64_t ns) {
  struct uvs__connection *x = uvs__connection_of(r->connection);

  if (x != NULL)
    x->until_ns = uv_hrtime() + ns;
}

/* ---- suspend and answer ---- */

void uvs__request_suspend(struct uvs__request *r) {
  r->suspended = true;
  MHD_suspend_connection(r->connection);
}

void uvs__request_resume(struct uvs__request *r) {
  if (r->suspended) {
    r->suspended = false;
    MHD_resume_connection(r->connection);
  }
  r->console->kick(r->console);
}

void uvs__request_answer(struct uvs__request *r, unsigned status, struct MHD_Response *answer) {
  r->answer = answer;
  r->status = status;
  r->answered = true;
  uvs__request_resume(r);
}

void uvs__request_say(struct uvs__request *r, int code, uint64_t count) {
  struct uvs__text text = {NULL, 0, 0};
  struct uvs__json j;

  if (code < 0) {
    uvs__request_answer(r,
                        code == UV_ENOENT   ? MHD_HTTP_NOT_FOUND
                        : code == UV_EINVAL ? MHD_HTTP_BAD_REQUEST
                                            : MHD_HTTP_CONFLICT,
                        uvs__answer_error(code == UV_EALREADY ? "it is so already"
                                          : code == UV_ENOENT ? "there is no such task or job now"
                                                              : uvs_strerror(code)));
    return;
  }
  uvs__json_init(&j, uvs__text_write, &text);
  uvs__json_open(&j, NULL, '{');
  uvs__json_bool(&j, "ok", true);
  uvs__json_uint(&j, "count", count);
  uvs__json_close(&j, '}');
  if (uvs__json_end(&j) != 0)
    uvs__text_free(&text);
  uvs__request_answer(r, MHD_HTTP_OK, uvs__answer_text("application/json", &text));
}

/* ---- what ends later ---- */

struct uvs__later *uvs__later_begin(struct uvs__request *r) {
  struct uvs_console_s *c = r->console;
  struct uvs__later *later = uvs__console_alloc(sizeof *later);

  if (later == NULL)
    return NULL;
  *later =
      (struct uvs__later){.console = c, .request = r, .began_ns = uv_hrtime(), .next = c->laters};
  if (c->laters != NULL)
    c->laters->prev = later;
  c->laters = later;
  r->later = later;
  return later;
}

struct uvs__request *uvs__later_end(struct uvs__later *later) {
  struct uvs_console_s *c = later->console;
  struct uvs__request *r = later->request;

  *(later->prev == NULL ? &c->laters : &later->prev->next) = later->next;
  if (later->next != NULL)
    later->next->prev = later->prev;
  uvs__console_free(later);
  if (r != NULL)
    r->later = NULL;
  else
    c->let_go(c);
  return r;
}

void uvs__later_leave(struct uvs__request *r) {
  if (r->later != NULL)
    r->later->request = NULL;
  r->later = NULL;
}

void uvs__later_close(struct uvs_console_s *c) {
  for (struct uvs__later *later = c->laters; later != NULL; later = later->next) {
    struct uvs__request *r = later->request;

    if (r != NULL) {
      uvs__later_leave(r);
      uvs__request_resume(r);
    }
  }
}
