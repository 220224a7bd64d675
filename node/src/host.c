/* SPDX-License-Identifier: MIT
 *
 * host: a scheduler of the core, driven from JavaScript, on node's loop.
 *
 * Everything here runs on the environment's own thread. JavaScript tasks are loop tasks of the
 * core. The core calls their callbacks in the middle of a loop pass, which must not be held up, so
 * a callback only notes an event. After the pass, the idle handle's callback gives all events to
 * one JavaScript function (drain), which calls the users' functions. From its event until
 * JavaScript says how its run ended, a task is pending (UVS_PENDING). Plain tasks, which have one
 * run and no options, are in plain.c.
 *
 * If memory runs out in the middle of a pass, no caller could be told. V8 ends the process in this
 * case, and so does this file. Calls from JavaScript get UV_ENOMEM.
 */
#include "host.h"

#include <math.h>
#include <stdlib.h>

/* ---- small things ---- */

static struct host *host_at(const void *addon) {
  const struct addon *a = addon;

  return a->numbered[*a->at];
}

struct host *uvs_node_host(napi_env env, napi_callback_info info) {
  void *a = NULL;

  napi_get_cb_info(env, info, NULL, NULL, NULL, &a);
  return host_at(a);
}

void uvs_node_release(struct addon *a) {
  if (--a->users > 0)
    return;
  free(a->numbered);
  free(a);
}

void uvs_node_out_of_memory(void) {
  napi_fatal_error("uvsched", NAPI_AUTO_LENGTH, "out of memory", NAPI_AUTO_LENGTH);
}

/* Makes room for `want` elements in an array that grows by doubling. */
bool uvs_node_grow(void **array, uint32_t *room, uint32_t want, size_t size) {
  uint32_t to = *room;
  void *p;

  if (want <= to)
    return true;
  while (to < want)
    to = to < 64 ? 64 : to * 2;
  p = realloc(*array, to * size);
  if (p == NULL)
    return false;
  *array = p;
  *room = to;
  return true;
}

bool uvs_node_slot_room(struct host *h, uint32_t slot) {
  uint32_t was = h->slot_room;

  if (!uvs_node_grow((void **)&h->slots, &h->slot_room, slot + 1, sizeof *h->slots))
    return false;
  if (h->slot_room > was)
    memset(h->slots + was, 0, (h->slot_room - was) * sizeof *h->slots);
  return true;
}

/* ---- events ---- */

static void on_idle(uv_idle_t *idle);

void uvs_node_wake(struct host *h) {
  if (!h->idle_open || uv_is_active((uv_handle_t *)&h->idle))
    return;
  uv_unref((uv_handle_t *)&h->idle); /* uvs_node_note and count_fresh ref it where needed */
  uv_idle_start(&h->idle, on_idle);
}

void uvs_node_note(struct host *h, struct event e) {
  uint32_t end = h->event_first + h->event_count;

  if (h->addon->dying)
    return; /* JavaScript will not run again */
  if (end == h->event_room && h->event_first > h->event_room / 2) {
    memmove(h->events, h->events + h->event_first, h->event_count * sizeof e);
    h->event_first = 0;
    end = h->event_count;
  }
  if (!uvs_node_grow((void **)&h->events, &h->event_room, end + 1, sizeof e))
    uvs_node_out_of_memory();
  h->events[end] = e;
  h->event_count++;
  uvs_node_wake(h);
  uv_ref((uv_handle_t *)&h->idle);
}

/* ---- the core calls ---- */

static int on_run(uvs_run_t *run) {
  struct host *h = uvs_data(run->scheduler);
  int64_t due_ns = run->start_ns - run->late_ns;

  if (h->addon->dying)
    return UV_ECANCELED;
  if (!h->slots[uvs_node_number(run->arg)].overtakes)
    uvs_node_plain_until(h, due_ns);
  uvs_node_note(h, (struct event){EVENT_RUN, uvs_node_number(run->arg), (double)run->ideal_ns,
                                  (double)due_ns, (double)run->number, (double)run->missed});
  return UVS_PENDING;
}

static void on_done(uvs_t *s, uvs_id_t id, int status, void *arg) {
  struct host *h = uvs_data(s);

  (void)id;
  h->slots[uvs_node_number(arg)].state = SLOT_FREE;
  uvs_node_note(h, (struct event){EVENT_DONE, uvs_node_number(arg), status, 0, 0, 0});
}

static void on_missed(uvs_t *s, uvs_id_t id, uint64_t count, int reason, void *arg) {
  struct host *h = uvs_data(s);
  uint32_t slot = uvs_node_number(arg);

  /* A task of another addon has another arg, and JavaScript does not hear of it. */
  if (slot >= h->slot_room || h->slots[slot].state != SLOT_IN || h->slots[slot].id != id)
    return;
  h->slots[slot].noted = true;
  uvs_node_note(h, (struct event){EVENT_MISSED, slot, (double)count, reason, 0, 0});
}

static void on_never_ran(uvs_t *s, uvs_id_t id, void *task_arg, void *arg) {
  struct host *h = uvs_data(s);
  uvs_info_t info;

  uvs_info_init(&info);
  (void)arg; /* NULL */
  /* The body tells whether this is a JavaScript task, a bundle, or a task of another addon. The
   * last call, with id 0, is not needed: EVENT_TERMINATED follows. */
  if (id == 0 || uvs_info(s, id, &info) < 0 || uvs_node_plain_never_ran(h, info.work, task_arg))
    return;
  if (info.work != on_run)
    return;
  h->slots[uvs_node_number(task_arg)].noted = true;
  uvs_node_note(h, (struct event){EVENT_NEVER_RAN, uvs_node_number(task_arg), 0, 0, 0, 0});
}

static void on_terminated(uvs_t *s) {
  struct host *h = uvs_data(s);

  uvs_counts_init(&h->last);
  uvs_counts(s, &h->last); /* for stats() after close */
  uvs_node_note(h, (struct event){EVENT_TERMINATED, 0, 0, 0, 0, 0});
}

static void on_quiet(uvs_t *s, uvs_lane_t lane, void *arg) {
  (void)lane;
  uvs_node_note(uvs_data(s), (struct event){EVENT_QUIET, uvs_node_number(arg), 0, 0, 0, 0});
}

/* ---- to JavaScript ---- */

static void put_events(struct host *h, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    const struct event *e = &h->events[h->event_first + i];
    double *to = h->io + IO_EVENTS + i * IO_EVENT_WIDTH;

    to[0] = e->kind;
    to[1] = e->slot;
    to[2] = e->a;
    to[3] = e->b;
    to[4] = e->c;
    to[5] = e->d;
  }
}

/* Calls drain once. False: do not call it again in this pass. The call has no async context: each
 * task has its own, and a context here would be that of an arbitrary task. */
static bool drain_some(struct host *h) {
  napi_env env = h->env;
  uint32_t n = h->event_count < IO_EVENT_ROOM ? h->event_count : IO_EVENT_ROOM;
  napi_value drain, self, count, error = NULL;
  napi_status status;
  uint32_t taken;

  put_events(h, n);
  h->io[IO_NEXT] = 0;
  h->io[IO_OVER] = 0;
  if (napi_get_reference_value(env, h->drain, &drain) != napi_ok ||
      napi_get_reference_value(env, h->self, &self) != napi_ok ||
      napi_create_uint32(env, n, &count) != napi_ok)
    return false;
  status = napi_make_callback(env, NULL, self, drain, 1, &count, NULL);
  taken = (uint32_t)h->io[IO_NEXT];
  h->event_first += taken;
  h->event_count -= taken;
  if (h->event_count == 0)
    h->event_first = 0;
  /* An error of drain itself. Drain handles the errors that users' functions throw. */
  if (status == napi_pending_exception && napi_get_and_clear_last_exception(env, &error) == napi_ok)
    napi_fatal_exception(env, error);
  return (status == napi_ok || error != NULL) && taken > 0 && h->io[IO_OVER] == 0;
}

static void drain(struct host *h) {
  while (h->event_count > 0 && !h->addon->dying) {
    napi_handle_scope scope;
    bool more;

    if (napi_open_handle_scope(h->env, &scope) != napi_ok)
      return;
    more = drain_some(h);
    napi_close_handle_scope(h->env, scope);
    if (!more)
      return;
  }
}

/* ---- the end ---- */

static void drop_ref(napi_env env, napi_ref *ref) {
  if (*ref != NULL)
    napi_delete_reference(env, *ref);
  *ref = NULL;
}

static void on_idle_closed(uv_handle_t *handle) {
  struct host *h = handle->data;
  struct addon *a = h->addon;
  napi_env env = h->env;

  *h->link = h->next;
  if (h->next != NULL)
    h->next->link = h->link;
  if (a->dying) {
    if (a->hosts == NULL)
      uvs_node_let_go(a); /* after this call the memory may be freed */
    return;
  }
  drop_ref(env, &h->drain);
  drop_ref(env, &h->self);
}

static void close_idle(struct host *h) {
  if (!h->idle_open)
    return;
  h->idle_open = false;
  uv_close((uv_handle_t *)&h->idle, on_idle_closed);
}

static void on_closed(uvs_t *s) {
  struct host *h = uvs_data(s);

  h->s = NULL;
  if (h->addon->dying)
    close_idle(h);
  else
    uvs_node_note(h, (struct event){EVENT_CLOSED, 0, 0, 0, 0, 0});
}

/* Ends a pending run: neither JavaScript nor another addon will do it any more. */
static int finish_pending(uvs_t *s, const uvs_info_t *info, void *arg) {
  (void)arg;
  if (info->state == UVS_RUNNING)
    uvs_finish(s, info->id, UV_ECANCELED);
  return 0;
}

/* Ends runs that become pending after finish_pending, until the core has noticed that it is closed.
 * This function and the teardown each access `ending` with one atomic read-modify-write, so one of
 * them comes first. If this one comes first, uvs_each in the teardown sees that the run is in
 * progress. */
static void on_body_returned(uvs_run_t *run, int status) {
  struct host *h;

  if (status != UVS_PENDING || run->runner == UVS_ON_LOOP)
    return;
  h = uvs_data(run->scheduler);
  if (atomic_fetch_or_explicit(&h->ending, 0, memory_order_acq_rel)) /* pairs with teardown */
    uvs_finish(run->scheduler, run->id, UV_ECANCELED);
}

void uvs_node_teardown(struct addon *a) {
  struct host *h, *next;

  if (a->dying)
    return;
  a->dying = true;
  if (a->hosts == NULL)
    uvs_node_let_go(a);
  for (h = a->hosts; h != NULL; h = next) {
    next = h->next;
    h->shut = true;
    if (h->s == NULL) {
      close_idle(h);
      continue;
    }
    atomic_exchange_explicit(&h->ending, 1, memory_order_acq_rel); /* see on_body_returned */
    uvs_each(h->s, finish_pending, NULL);
    if (!h->closing)
      uvs_close(h->s, on_closed);
    h->closing = true;
  }
}

static void on_idle(uv_idle_t *idle) {
  struct host *h = idle->data;

  uvs_node_plain_flush(h);
  drain(h);
  if (h->addon->dying)
    return;
  uvs_node_plain_flush(h); /* newly armed tasks need not wait for the next iteration */
  if (h->event_count > 0)
    return;
  uv_idle_stop(idle);
  if (h->s == NULL)
    close_idle(h); /* JavaScript has received EVENT_CLOSED */
}

static void finalize(napi_env env, void *data, void *hint) {
  struct host *h = data;

  (void)env;
  (void)hint;
  h->addon->numbered[h->number] = NULL;
  uvs_node_release(h->addon);
  free(h->slots);
  free(h->events);
  uvs_node_plain_free(h);
  free(h);
}

/* ---- functions that JavaScript calls: they answer in io ---- */

static napi_value read_clock(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);

  h->io[IO_NOW] = h->s != NULL ? (double)uvs_now(h->s) : 0;
  return NULL;
}

static void read_spec(const struct host *h, uvs_task_t *t) {
  const double *io = h->io;

  uvs_task_init(t);
  t->kind = (int)io[IO_KIND];
  t->from = (int)io[IO_FROM];
  t->first_ns = uvs_node_ns(io[IO_DELAY]);
  if (t->from == UVS_FROM_WALL && t->first_ns != UVS_NEVER)
    t->first_ns = io[IO_DELAY] >= 9.2e12
                      ? UVS_NEVER
                      : (int64_t)io[IO_DELAY] * 1000000 + (int64_t)io[IO_WALL_NS];
  t->period_ns = uvs_node_ns(io[IO_PERIOD]);
  t->after = on_run;
  t->done = on_done;
  t->arg = uvs_node_arg((uint32_t)io[IO_SLOT]);
  t->flags = (unsigned)io[IO_FLAGS];
  t->missed_policy = (int)io[IO_MISSED];
  t->max_burst = (uint32_t)io[IO_MAX_BURST];
  t->max_runs = (uint32_t)io[IO_MAX_RUNS];
  t->until_ns = uvs_node_ns(io[IO_UNTIL]);
  t->jitter_ns = uvs_node_ns(io[IO_JITTER]);
  t->failure_policy = (int)io[IO_FAILURE];
  t->max_failures = (uint32_t)io[IO_MAX_FAILURES];
  t->retry.wait_ns = uvs_node_ns(io[IO_RETRY]);
  t->retry.max_wait_ns = uvs_node_ns(io[IO_RETRY_MAX]);
  t->retry.jitter_percent = (int)io[IO_RETRY_JITTER];
  t->lane = (uvs_lane_t)io[IO_LANE];
  t->priority = (int)io[IO_PRIORITY];
}

/* undefined: uvs_check finds nothing wrong, so the refusal has another cause. */
static napi_value text_of_check(napi_env env, const uvs_task_t *spec) {
  char text[256];
  napi_value ret = NULL;

  if (uvs_check(spec, text, sizeof text) < 0)
    napi_create_string_utf8(env, text, NAPI_AUTO_LENGTH, &ret);
  return ret;
}

/* submit(name): submits a task with options. The options are in io. If the core refuses the spec
 * (UV_EINVAL), returns the text of uvs_check. */
static napi_value submit(napi_env env, napi_callback_info info) {
  void *data;
  napi_value argv[1];
  size_t argc = 1;
  char name[UVS_NAME_MAX + 1];
  size_t length = 0;
  struct host *h;
  struct slot *t;
  uvs_task_t spec;
  int rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, &data);
  h = host_at(data);
  h->io[IO_RC] = UV_ESHUTDOWN;
  if (h->shut)
    return NULL;
  h->io[IO_RC] = UV_ENOMEM;
  if (!uvs_node_slot_room(h, (uint32_t)h->io[IO_SLOT]))
    return NULL;
  read_spec(h, &spec);
  /* A name that is too long is cut after a whole character. */
  if (argc == 1 &&
      napi_get_value_string_utf8(env, argv[0], name, sizeof name, &length) == napi_ok && length > 0)
    spec.name = name;
  t = &h->slots[(uint32_t)h->io[IO_SLOT]];
  uvs_node_plain_flush(h); /* so that the core knows the tasks that are due before this one */
  t->overtakes = spec.priority > UVS_PRIORITY_NORMAL;
  t->noted = false;
  rc = uvs_submit(h->s, &spec, &t->id);
  t->state = rc < 0 ? SLOT_FREE : SLOT_IN;
  h->io[IO_RC] = rc;
  return rc == UV_EINVAL ? text_of_check(env, &spec) : NULL;
}

/* In: SLOT. Out: RC, the result of uvs_cancel, or UV_EBUSY: the task is plain and due, and
 * JavaScript must end it. FLAGS: 1 = the slot is free, and no event will name the task again. If
 * the task will never run again, the core frees it in this call, and `done` is not called:
 * otherwise a burst of cancelled tasks would keep its memory until the next loop passes. If an
 * event that is not yet drained names the slot, the slot stays in use until `done`. */
static napi_value cancel(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  uint32_t slot = (uint32_t)h->io[IO_SLOT];
  struct slot *t = &h->slots[slot];
  int rc = UV_ENOENT;

  h->io[IO_FLAGS] = 0;
  if (t->state == SLOT_WAITS) {
    uvs_node_plain_cancel(h, slot);
    h->io[IO_FLAGS] = 1;
    rc = UVS_CANCELLED;
  } else if (t->state == SLOT_DUE) {
    rc = UV_EBUSY;
  } else if (t->state == SLOT_IN && h->s != NULL) {
    rc = uvs_cancel(h->s, t->id, t->noted ? 0 : UVS_CANCEL_NO_DONE);
    if (rc == UVS_CANCELLED && !t->noted) {
      t->state = SLOT_FREE;
      h->io[IO_FLAGS] = 1;
    }
  }
  h->io[IO_RC] = rc;
  return NULL;
}

/* In: SLOT, DELAY. */
static napi_value reschedule(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  uint32_t slot = (uint32_t)h->io[IO_SLOT];
  struct slot *t = &h->slots[slot];
  int64_t delay_ns = uvs_node_ns(h->io[IO_DELAY]);
  int rc = UV_ENOENT;

  if (t->state == SLOT_WAITS)
    rc = uvs_node_plain_move(h, slot, delay_ns);
  else if (t->state == SLOT_DUE)
    rc = UV_EBUSY;
  else if (t->state == SLOT_IN && h->s != NULL)
    rc = uvs_reschedule(h->s, t->id, delay_ns);
  h->io[IO_RC] = rc;
  return NULL;
}

/* In: SLOT, FLAGS = the status. */
static napi_value finish(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  struct slot *t = &h->slots[(uint32_t)h->io[IO_SLOT]];

  h->io[IO_RC] = h->s != NULL && t->state == SLOT_IN ? uvs_finish(h->s, t->id, (int)h->io[IO_FLAGS])
                                                     : UV_ENOENT;
  return NULL;
}

/* In: SLOT, FLAGS: 1 = ref, 0 = unref. */
static napi_value set_ref(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  uint32_t slot = (uint32_t)h->io[IO_SLOT];
  bool ref = h->io[IO_FLAGS] != 0;

  if (h->slots[slot].state == SLOT_WAITS)
    uvs_node_plain_ref(h, slot, ref);
  else if (h->slots[slot].state == SLOT_IN && h->s != NULL)
    (ref ? uvs_ref : uvs_unref)(h->s, h->slots[slot].id);
  return NULL;
}

/* In: SLOT. Out, from IO_KIND on: the state (UVS_WAITING ...), and the ns until the next run. */
static napi_value get_info(napi_env env, napi_callback_info cb) {
  struct host *h = uvs_node_host(env, cb);
  struct slot *t = &h->slots[(uint32_t)h->io[IO_SLOT]];
  uvs_info_t info;

  uvs_info_init(&info);
  h->io[IO_RC] = UV_ENOENT;
  if (h->s == NULL)
    return NULL;
  if (t->state == SLOT_WAITS) {
    info.state = UVS_WAITING;
    info.remaining_ns = t->due_ns == UVS_NEVER ? UVS_NEVER : t->due_ns - uvs_now(h->s);
    h->io[IO_RC] = 0;
  } else if (t->state == SLOT_IN) {
    h->io[IO_RC] = uvs_info(h->s, t->id, &info);
  }
  h->io[IO_KIND] = info.state;
  h->io[IO_KIND + 1] = info.remaining_ns == UVS_NEVER ? INFINITY : (double)info.remaining_ns;
  return NULL;
}

/* In: SLOT = the lane's key, FLAGS = its width. Out: LANE. */
static napi_value open_lane(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);
  uvs_lane_options_t o;
  uvs_lane_t lane = 0;

  h->io[IO_RC] = UV_ESHUTDOWN;
  if (h->shut)
    return NULL;
  uvs_lane_options_init(&o);
  o.width = (uint32_t)h->io[IO_FLAGS];
  o.on_quiet = on_quiet;
  o.arg = uvs_node_arg((uint32_t)h->io[IO_SLOT]);
  h->io[IO_RC] = uvs_lane_open(h->s, &o, &lane);
  h->io[IO_LANE] = (double)lane;
  return NULL;
}

/* In: LANE. */
static napi_value dispose_lane(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);

  h->io[IO_RC] =
      h->s != NULL ? uvs_lane_dispose((uvs_lane_t)h->io[IO_LANE], UVS_DISPOSE_TOKEN) : UV_ESHUTDOWN;
  return NULL;
}

static void shut(struct host *h) {
  uvs_node_plain_flush(h);
  if (!h->shut)
    h->shut_ns = uvs_now(h->s);
  h->shut = true;
}

/* In: KIND: 1 = delayed tasks still run after the shutdown, 0 = they are cancelled, below 0 = as
 * before. FROM: the same for periodic tasks. */
static napi_value shut_down(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);

  if (h->s == NULL)
    return NULL;
  shut(h);
  if (h->io[IO_KIND] >= 0)
    uvs_set_after_shutdown(h->s, UVS_DELAYED_TASKS, (int)h->io[IO_KIND]);
  if (h->io[IO_FROM] >= 0)
    uvs_set_after_shutdown(h->s, UVS_PERIODIC_TASKS, (int)h->io[IO_FROM]);
  uvs_shutdown(h->s);
  return NULL;
}

static napi_value shut_down_now(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);

  h->io[IO_RC] = UV_EALREADY;
  if (h->s == NULL)
    return NULL;
  shut(h);
  h->stopped = true;
  h->io[IO_RC] = uvs_shutdown_now(h->s, on_never_ran, NULL);
  return NULL;
}

static napi_value close_host(napi_env env, napi_callback_info info) {
  struct host *h = uvs_node_host(env, info);

  if (h->s == NULL || h->closing)
    return NULL;
  shut(h);
  h->stopped = true;
  h->closing = true;
  uvs_close(h->s, on_closed);
  return NULL;
}

/* stats(to): writes the counts. COUNTS in lib/engine.js has their names. */
static napi_value get_stats(napi_env env, napi_callback_info info) {
  void *data;
  napi_value argv[1];
  size_t argc = 1;
  double *to = NULL;
  size_t length = 0;
  const struct plain *p;
  struct host *h;
  uvs_counts_t c;

  napi_get_cb_info(env, info, &argc, argv, NULL, &data);
  h = host_at(data);
  p = &h->plain;
  h->io[IO_RC] = UV_ESHUTDOWN;
  if (argc < 1 ||
      napi_get_typedarray_info(env, argv[0], NULL, &length, (void **)&to, NULL, NULL) != napi_ok ||
      length < 19)
    return NULL;
  uvs_counts_init(&c);
  if (h->s != NULL)
    uvs_counts(h->s, &c);
  else
    c = h->last;
  h->io[IO_RC] = 0;
  /* The core counts each bundle as one task; this counts its members instead. JavaScript counts how
   * the members ended. */
  c.submitted += p->armed - p->submitted;
  c.completed -= p->fired;
  c.runs -= p->fired;
  c.cancelled -= p->dropped;
  c.waiting += p->waiting - (p->submitted - p->fired - p->dropped);
  {
    const uint64_t counts[] = {c.submitted,   c.completed, c.failed,  c.cancelled,    c.timed_out,
                               c.dropped,     c.waiting,   c.ready,   c.running,      c.rejected,
                               c.runs,        c.missed,    c.runners, c.peak_runners, c.slots,
                               c.failed_runs, c.wakeups};

    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++)
      to[i] = (double)counts[i];
    to[17] = (double)p->armed;
    to[18] = (double)p->waiting;
  }
  return NULL;
}

/* ---- open ---- */

/* Nothing is undone if one of these calls fails: then the environment is about to end. */
static bool make_refs(napi_env env, struct host *h, napi_value object, napi_value buffer,
                      napi_value drain) {
  return napi_create_reference(env, drain, 1, &h->drain) == napi_ok &&
         napi_set_named_property(env, object, "io", buffer) == napi_ok &&
         napi_create_reference(env, object, 1, &h->self) == napi_ok;
}

/* Gives the host the lowest free number. */
static bool give_number(struct addon *a, struct host *h) {
  uint32_t was = a->numbered_room;
  uint32_t n = 0;

  while (n < was && a->numbered[n] != NULL)
    n++;
  if (!uvs_node_grow((void **)&a->numbered, &a->numbered_room, n + 1, sizeof *a->numbered))
    return false;
  if (a->numbered_room > was)
    memset(a->numbered + was, 0, (a->numbered_room - was) * sizeof *a->numbered);
  a->numbered[n] = h;
  a->users++;
  h->number = n;
  h->io[IO_SLOT] = n;
  return true;
}

/* open(io, drain). In: KIND = concurrency, FROM = threads, PERIOD = budget, MISSED = precise,
 * MAX_BURST = max_pending, MAX_RUNS = keep_alive. Returns an object that owns the host, whose
 * number is in SLOT; or an error code. */
static napi_value open_host(napi_env env, napi_callback_info info) {
  void *data;
  napi_value argv[2], object = NULL, code = NULL;
  size_t argc = 2, length = 0;
  struct addon *a;
  struct host *h;
  uv_loop_t *loop;
  uvs_options_t o;
  uvs_hooks_t hooks;
  int rc;

  napi_get_cb_info(env, info, &argc, argv, NULL, &data);
  a = data;
  h = calloc(1, sizeof *h);
  rc = UV_ENOMEM;
  if (h == NULL)
    goto free_host;
  h->addon = a;
  h->env = env;
  rc = UV_EINVAL;
  if (argc < 2 || napi_get_uv_event_loop(env, &loop) != napi_ok ||
      napi_get_typedarray_info(env, argv[0], NULL, &length, (void **)&h->io, NULL, NULL) !=
          napi_ok ||
      length < IO_SIZE)
    goto free_host;
  rc = UV_ENOMEM;
  if (!give_number(a, h))
    goto free_host;
  uvs_hooks_init(&hooks);
  uvs_options_init(&o);
  o.concurrency = (int)h->io[IO_KIND];
  o.threads = (int)h->io[IO_FROM];
  o.budget_ns = uvs_node_ns(h->io[IO_PERIOD]);
  o.precise_ns = uvs_node_ns(h->io[IO_MISSED]);
  o.max_pending = (uint32_t)h->io[IO_MAX_BURST];
  o.keep_alive = (int)h->io[IO_MAX_RUNS];
  hooks.on_missed = on_missed;
  o.on_terminated = on_terminated;
  o.on_error = uvs_ignore_errors; /* JavaScript reports failures itself */
  hooks.after_body = on_body_returned;
  o.hooks = &hooks;
  o.data = h;
  h->plain.grain_ns = o.precise_ns > 0 ? o.precise_ns : UVS_MS(1);
  rc = uvs_open(loop, &o, &h->s);
  if (rc < 0)
    goto take_number;
  /* From here on the end of the environment closes the host. */
  uv_idle_init(loop, &h->idle);
  h->idle.data = h;
  h->idle_open = true;
  h->next = a->hosts;
  h->link = &a->hosts;
  if (h->next != NULL)
    h->next->link = &h->next;
  a->hosts = h;
  if (napi_create_object(env, &object) != napi_ok ||
      napi_wrap(env, object, h, finalize, NULL, NULL) != napi_ok ||
      !make_refs(env, h, object, argv[0], argv[1]))
    napi_throw_error(env, "ENOMEM", "uvsched: no scheduler could be made");
  return object;

take_number:
  a->numbered[h->number] = NULL;
  uvs_node_release(a);
free_host:
  free(h);
  napi_create_int32(env, rc, &code);
  return code;
}

static const struct {
  const char *name;
  napi_callback call;
} functions[] = {
    {"open", open_host},
    {"clock", read_clock},
    {"arm", uvs_node_arm},
    {"submit", submit},
    {"cancel", cancel},
    {"reschedule", reschedule},
    {"finish", finish},
    {"setRef", set_ref},
    {"info", get_info},
    {"openLane", open_lane},
    {"disposeLane", dispose_lane},
    {"shutdown", shut_down},
    {"shutdownNow", shut_down_now},
    {"close", close_host},
    {"stats", get_stats},
    {"table", uvs_node_table},
};

/* lateNames: the names of the causes (UVS_LATE_...), for the event 'missed'. */
static bool export_late_names(napi_env env, napi_value exports) {
  napi_value names, name;

  if (napi_create_array(env, &names) != napi_ok ||
      napi_set_named_property(env, exports, "lateNames", names) != napi_ok)
    return false;
  for (int cause = 0; cause <= UVS_LATE_RETRY; cause++)
    if (napi_create_string_utf8(env, uvs_late_name(cause), NAPI_AUTO_LENGTH, &name) != napi_ok ||
        napi_set_element(env, names, (uint32_t)cause, name) != napi_ok)
      return false;
  return true;
}

bool uvs_node_export(napi_env env, struct addon *a, napi_value exports) {
  napi_value buffer, at;

  if (napi_create_arraybuffer(env, sizeof *a->at, (void **)&a->at, &buffer) != napi_ok ||
      napi_create_typedarray(env, napi_uint32_array, 1, buffer, 0, &at) != napi_ok ||
      napi_set_named_property(env, exports, "at", at) != napi_ok ||
      !export_late_names(env, exports))
    return false;
  for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
    napi_value f;

    if (napi_create_function(env, functions[i].name, NAPI_AUTO_LENGTH, functions[i].call, a, &f) !=
            napi_ok ||
        napi_set_named_property(env, exports, functions[i].name, f) != napi_ok)
      return false;
  }
  return true;
}
