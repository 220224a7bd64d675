/* SPDX-License-Identifier: MIT
 *
 * call: one call of the user that the store answers. The caller's thread copies the arguments, the
 * keeper carries out the call, and the user's loop calls the callback.
 */
#include "jobs/engine.h"

#include "jobs/alloc.h"

void uvs__call_free(struct uvs__call *c) {
  atomic_fetch_sub(&c->jobs->queued, 1);
  uvs__arena_free(&c->arena);
  switch (c->r.op) {
  case UVS__PUT:
    uvs__arena_free(&c->put.arena);
    break;
  case UVS__GET:
  case UVS__LIST:
    uvs__arena_free(&c->list.arena);
    break;
  case UVS__SET_CRON:
  case UVS__CRONS:
    uvs__arena_free(&c->cron.arena);
    break;
  case UVS__COUNT:
    uvs__arena_free(&c->count.arena);
    break;
  default:
    break;
  }
  uvs__jobs_free(c);
}

static void on_user_loop(struct uvs__message *m, void *to) {
  struct uvs__call *c = UVS__OWNER(m, struct uvs__call, message);

  (void)to;
  if (c->callback != NULL)
    c->deliver(c);
  uvs__call_free(c);
}

static void answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct uvs__call *c = UVS__OWNER(ask, struct uvs__call, ask);

  c->status = status;
  if (c->answered != NULL && !c->answered(c))
    return; /* `answered` has asked the store again */
  c->message.receive = on_user_loop;
  uvs__mailbox_send(&jobs->user,
                    &c->message); /* cannot fail: the mailbox is open until the keeper has ended */
}

static void on_keeper(struct uvs__message *m, void *to) {
  struct uvs__call *c = UVS__OWNER(m, struct uvs__call, message);

  uvs__keeper_ask(to, &c->ask);
}

int uvs__call_new(uvs_jobs_t *jobs, enum uvs__op op, struct uvs__call **ret) {
  struct uvs__call *c;

  if (jobs == NULL)
    return UV_EINVAL;
  if (atomic_load(&jobs->closing))
    return UV_ESHUTDOWN;
  c = uvs__jobs_alloc(sizeof *c);
  if (c == NULL)
    return UV_ENOMEM;
  c->jobs = jobs;
  c->r.op = op;
  c->ask.request = &c->r;
  c->ask.answered = answered;
  c->message.receive = on_keeper;
  *ret = c;
  if (atomic_fetch_add(&jobs->queued, 1) < jobs->options.max_queued)
    return 0;
  uvs__call_free(c);
  return UV_EAGAIN;
}

int uvs__call_send(struct uvs__call *c) {
  if (uvs__keeper_send(c->jobs, &c->message))
    return 0;
  uvs__call_free(c);
  return UV_ESHUTDOWN;
}

int uvs__call_id(struct uvs__call *c, const char *id, const char **ret_queue,
                 const char **ret_rest) {
  char queue[UVS_JOB_NAME_MAX + 1];
  const char *rest;
  int rc = uvs__split_id(id, queue, &rest);

  if (rc != 0)
    return rc;
  return uvs__arena_string(&c->arena, queue, ret_queue) &&
                 uvs__arena_string(&c->arena, rest, ret_rest)
             ? 0
             : UV_ENOMEM;
}

void uvs__call_deliver_status(struct uvs__call *c) {
  ((uvs_jobs_cb)c->callback)(c->jobs, c->status, c->arg);
}
