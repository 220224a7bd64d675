/* SPDX-License-Identifier: MIT
 *
 * actions: what a POST does. request.c has checked the token.
 */
#include "console/server.h"

#include "console/query.h"

#include <uvsched/control.h>

/* ---- the actions ---- */

/* The parameter `id`; 0: there is none, or it is wrong. */
static uvs_id_t id_of(const struct uvs__request *r) {
  uint64_t id = 0;

  return uvs__query_uint(r->target, "id", 1, UINT64_MAX, &id) < 0 ? 0 : id;
}

static int cancel_task(struct uvs__request *r) {
  int rc = uvs_cancel(r->console->s, id_of(r), UVS_CANCEL_TOKEN);

  return rc < 0 ? rc : 0;
}

static int run_task_now(struct uvs__request *r) {
  return uvs_run_now(r->console->s, id_of(r));
}

static int pause_task(struct uvs__request *r) {
  int rc = uvs_pause(r->console->s, id_of(r));

  return rc < 0 ? rc : 0;
}

static int resume_task(struct uvs__request *r) {
  return uvs_resume(r->console->s, id_of(r), 0);
}

static int pause_all(struct uvs__request *r) {
  return uvs_pause_all(r->console->s);
}

static int resume_all(struct uvs__request *r) {
  return uvs_resume_all(r->console->s);
}

static const struct action {
  const char *path;
  int (*act)(
      struct uvs__request *r); /* 0 and below: says how it went; UVS_PENDING: says it later */
} actions[] = {
    {"/tasks/cancel", cancel_task},
    {"/tasks/run", run_task_now},
    {"/tasks/pause", pause_task},
    {"/tasks/resume", resume_task},
    {"/pause", pause_all},
    {"/resume", resume_all},
    {"/jobs/redrive", uvs__console_redrive},
    {"/jobs/cancel", uvs__console_cancel_job},
};

static const struct action *find_action(const char *target) {
  for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
    if (uvs__query_path_is(target, actions[i].path))
      return &actions[i];
  }
  return NULL;
}

bool uvs__action_exists(const char *target) {
  return find_action(target) != NULL;
}

enum MHD_Result uvs__action_do(struct uvs__request *r) {
  int rc = find_action(r->target)->act(r);
  struct MHD_Response *answer;

  uvs__cache_forget(r->console);
  if (rc == UVS_PENDING) {
    uvs__request_suspend(r);
    return MHD_YES;
  }
  uvs__request_say(r, rc, 1);
  answer = r->answer;
  r->answer = NULL;
  return uvs__answer_queue(r->connection, r->status, answer);
}
