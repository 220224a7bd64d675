/* SPDX-License-Identifier: MIT
 *
 * keeper: the thread that calls the store. A pass receives messages, fires timers, collects
 * requests and lets the store carry them out as one batch: settles first, claims last. Requests
 * that arrive while a batch is being written form the next batch, and share its transaction.
 *
 * A store that is a server answers between passes. Each answer causes another pass. At most
 * IN_FLIGHT_MAX jobs are on their way to such a store; other requests wait in their lists.
 *
 * A store that fails is asked again after 50 ms, then 100, then each 250 ms. Meanwhile requests
 * wait in their lists. Requests whose time-out has passed are answered with an error.
 */
#include "jobs/engine.h"

#include <stdlib.h>
#include <string.h>

#include "jobs/alloc.h"
#include "jobs/run.h"

#define HOUSEKEEPING_NS UVS_MS(250)
#define TRIM_NS UVS_SEC(60)
#define TRIM_BATCH 1000
#define RETRY_FIRST_NS UVS_MS(50)
#define RETRY_LONGEST_NS UVS_MS(250)
#define CLAIMS 2               /* index of the list of claims in `asked` */
#define UNKNOWN_NS UVS_SEC(20) /* well below UVS__REPEAT_US */
#define BATCH_PUTS 4000        /* most jobs in one transaction: heartbeats must not wait for long */
#define IN_FLIGHT_MAX 20000    /* most jobs on their way to a store that answers later */
#define JOB_BYTES 256          /* so much payload counts as one more job: 4000 of them are 1 MB */
#define CLOCK_STEP_NS UVS_MS(500)
#define MESSAGES_A_PASS 10000

/* ------------------------------------------------------------------ lists --- */

static void append(struct uvs__list *list, struct uvs__request *r) {
  r->next = NULL;
  *list->end = r;
  list->end = &r->next;
}

static struct uvs__list *list_of(struct uvs__keeper *k, enum uvs__op op) {
  return &k->asked[op == UVS__SETTLE ? 0 : op == UVS__CLAIM ? CLAIMS : 1];
}

/* May a request be tried again? A put that may have been written must not be repeated after
 * UNKNOWN_NS: by then its job may have run, and its record may be gone. */
static bool may_repeat(const struct uvs__ask *ask, int64_t now_ns) {
  return !ask->unknown || ask->repeat == UVS__UNTIL_CLOSE ||
         now_ns - ask->failing_since_ns < UNKNOWN_NS;
}

/* A large payload counts as several jobs. So BATCH_PUTS and IN_FLIGHT_MAX also bound the bytes. */
static size_t jobs_of(const struct uvs__request *r) {
  const struct uvs__put_request *put = (const struct uvs__put_request *)(const void *)r;
  size_t n = 0;

  if (r->op != UVS__PUT)
    return 1;
  for (size_t i = 0; i < put->n; i++)
    n += 1 + put->puts[i].job.payload.size / JOB_BYTES;
  return n;
}

/* Takes the requests for one batch, as a list. All waiting claims are in each batch: a worker has
 * at most one, and a flood of puts must not keep jobs from starting. */
static struct uvs__request *take_batch(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;
  struct uvs__request *first = NULL, **end = &first;
  size_t taken = 0;

  for (int i = 0; i < 3; i++) {
    struct uvs__list *list = &k->asked[i];

    while (list->first != NULL &&
           (i == CLAIMS || (taken < BATCH_PUTS && k->in_flight < IN_FLIGHT_MAX))) {
      struct uvs__request *r = list->first;

      list->first = r->next;
      if (list->first == NULL)
        list->end = &list->first;
      if (!may_repeat(r->owner, now_ns)) { /* this process was stopped since the last try */
        ((struct uvs__ask *)r->owner)->answered(jobs, r->owner, UVS_EUNKNOWN);
        continue;
      }
      taken += jobs_of(r);
      k->in_flight += jobs_of(r);
      r->next = NULL;
      *end = r;
      end = &r->next;
    }
  }
  return first;
}

/* Something has changed: if this is outside a pass, the next iteration of the loop makes a pass. */
static void pass_soon(struct uvs__keeper *k) {
  if (!k->in_pass)
    uv_async_send(&k->mail.async);
}

/* --------------------------------------------------------- a store that fails --- */

static void store_failed(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;
  bool again = k->retry_ns != 0;

  if (k->retry_ns > now_ns)
    return; /* another request of the same batch */
  k->stats.store_failures++;
  k->retry_wait_ns = !again ? RETRY_FIRST_NS : 2 * k->retry_wait_ns;
  if (k->retry_wait_ns > RETRY_LONGEST_NS)
    k->retry_wait_ns = RETRY_LONGEST_NS;
  k->retry_ns = now_ns + k->retry_wait_ns;
  if (again && !k->told_down) {
    k->told_down = true;
    uvs__tell(jobs, UVS_EVENT_STORE_DOWN, NULL, k->store->trouble);
  }
}

/* Leaves expired leases alone for a third of the lease, so that processes which are alive can
 * extend theirs first. */
static void spare_expired_leases(uvs_jobs_t *jobs, int64_t now_ns) {
  for (struct uvs__worker *w = jobs->keeper.workers; w != NULL; w = w->next)
    w->expired_allowed_ns = uvs__later_ns(now_ns, w->lease_us * 1000 / 3);
}

static void store_works(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;

  if (k->retry_ns == 0 || k->retry_ns > now_ns)
    return;
  k->retry_ns = 0;
  if (k->told_down) {
    k->told_down = false;
    spare_expired_leases(jobs, now_ns);
    uvs__tell(jobs, UVS_EVENT_STORE_UP, NULL, "");
  }
  uvs__workers_due(jobs);
}

/* May a request that failed wait for the next try? */
static bool may_wait(uvs_jobs_t *jobs, const struct uvs__ask *ask, int64_t now_ns) {
  if (ask->repeat == UVS__ONCE)
    return false;
  if (ask->repeat == UVS__UNTIL_CLOSE && !jobs->keeper.closing)
    return true;
  return may_repeat(ask, now_ns) && now_ns - ask->failing_since_ns < jobs->options.put_timeout_ns;
}

static void on_done(struct uvs__request *r) {
  struct uvs__ask *ask = r->owner;
  uvs_jobs_t *jobs = ask->jobs;
  int64_t now_ns = uvs__mono_ns(jobs);

  jobs->keeper.in_flight -= jobs_of(r);
  pass_soon(&jobs->keeper);
  if (r->status != UV_EAGAIN && r->status != UVS_EUNKNOWN) {
    store_works(jobs, now_ns);
    ask->answered(jobs, ask, r->status);
    return;
  }
  store_failed(jobs, now_ns);
  ask->unknown |= r->status == UVS_EUNKNOWN;
  if (ask->failing_since_ns == 0)
    ask->failing_since_ns = now_ns;
  if (may_wait(jobs, ask, now_ns))
    append(list_of(&jobs->keeper, r->op), r);
  else
    ask->answered(jobs, ask, ask->unknown ? UVS_EUNKNOWN : UVS_EDOWN);
}

void uvs__keeper_ask(uvs_jobs_t *jobs, struct uvs__ask *ask) {
  struct uvs__keeper *k = &jobs->keeper;
  struct uvs__request *r = ask->request;

  r->owner = ask;
  ask->jobs = jobs;
  r->done = on_done;
  r->status = 0;
  ask->unknown = false;
  ask->failing_since_ns = k->retry_ns == 0 ? 0 : uvs__mono_ns(jobs);
  append(list_of(k, r->op), r);
}

/* ------------------------------------------------------------ housekeeping --- */

struct trim {
  struct uvs__ask ask;
  struct uvs__trim_request r;
};

static void trim_answered(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct trim *t = UVS__OWNER(ask, struct trim, ask);

  if (status == 0 && t->r.count == TRIM_BATCH && !jobs->keeper.closing)
    uvs__keeper_ask(jobs, ask);
  else
    uvs__jobs_free(t);
}

static void trim(uvs_jobs_t *jobs) {
  const uvs_jobs_options_t *o = &jobs->options;
  struct trim *t = uvs__jobs_alloc(sizeof *t);

  if (t == NULL)
    return; /* the next trim comes in a minute */
  t->r.r.op = UVS__TRIM;
  t->r.max_done = o->max_done;
  t->r.max_dead = o->max_dead;
  t->r.dead_age_us = o->dead_age_ns / 1000;
  t->r.limit = TRIM_BATCH;
  t->ask.request = &t->r.r;
  t->ask.repeat = UVS__ONCE;
  t->ask.answered = trim_answered;
  uvs__keeper_ask(jobs, &t->ask);
}

/* The store's clock minus the monotonic one. */
static int64_t store_offset_ns(const uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__store *store = jobs->keeper.store;

  return store->ops->now_us(store) * 1000 - now_ns;
}

static void look_at_store_clock(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;
  int64_t offset_ns = store_offset_ns(jobs, now_ns);
  int64_t step_ns = offset_ns - k->store_offset_ns;

  k->store_offset_ns = offset_ns;
  if (step_ns > -CLOCK_STEP_NS && step_ns < CLOCK_STEP_NS)
    return;
  spare_expired_leases(jobs, now_ns);
  k->rooms->clock_set(jobs);
  uvs__tell(jobs, UVS_EVENT_CLOCK_SET, NULL, step_ns > 0 ? "forward" : "back");
  uvs__workers_due(jobs);
}

/* Something may have changed outside this open store. */
static void look_outside(uvs_jobs_t *jobs) {
  if (!jobs->keeper.store->ops->poll(jobs->keeper.store))
    return;
  uvs__workers_due(jobs);
  jobs->keeper.rooms->changed(jobs);
}

static void keep_house(uvs_jobs_t *jobs, int64_t now_ns) {
  struct uvs__keeper *k = &jobs->keeper;

  k->housekeeping_ns = uvs__clock_is_replaced(jobs) ? UVS_NEVER : now_ns + HOUSEKEEPING_NS;
  look_at_store_clock(jobs, now_ns);
  look_outside(jobs);
  if (now_ns >= k->trim_ns && !k->closing) {
    k->trim_ns = now_ns + TRIM_NS;
    trim(jobs);
  }
  if (k->idle == UVS__QUIET) {
    int what = k->store->ops->idle(k->store);

    if (what != 0)
      uvs__tell(jobs, what, NULL, "");
  }
  if (k->idle <= UVS__QUIET)
    k->idle++;
}

/* ------------------------------------------------------------------ batch --- */

static int64_t next_ns(const struct uvs__keeper *k) {
  int64_t next_ns = uvs__timers_next(&k->timers);

  if (k->retry_awaited && k->retry_ns < next_ns)
    next_ns = k->retry_ns;
  return k->housekeeping_ns < next_ns ? k->housekeeping_ns : next_ns;
}

static void on_timer(uv_timer_t *timer);

static void arm(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;
  int64_t due_ns = next_ns(k), wait_ms;

  if (uvs__clock_is_replaced(jobs))
    return; /* the program moves the clock, and calls uvs_jobs_clock_changed */
  uv_update_time(&k->loop);
  wait_ms = (due_ns - uvs__mono_ns(jobs) + 999999) / 1000000; /* housekeeping is always due */
  uv_timer_start(&k->timer, on_timer, wait_ms < 1 ? 1 : (uint64_t)wait_ms, 0);
}

/* Waits for the answers that are on their way, because they may cause more work. */
static void answer_next_due(struct uvs__keeper *k) {
  int64_t due_ns = next_ns(k);

  if (k->in_flight > 0)
    return;
  while (k->next_due != NULL) {
    struct uvs__next_due *n = k->next_due;

    k->next_due = n->next;
    n->due_ns = due_ns;
    uv_sem_post(&n->done);
  }
}

/* True: a batch was carried out. */
static bool run_batch(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;
  struct uvs__request *batch;

  k->retry_awaited = k->retry_ns > uvs__mono_ns(jobs);
  if (k->retry_awaited)
    return false;
  look_at_store_clock(jobs, uvs__mono_ns(jobs)); /* before a new time makes leases seem expired */
  k->rooms->collect(jobs);
  batch = take_batch(jobs, uvs__mono_ns(jobs));
  if (batch == NULL)
    return false;
  k->idle = UVS__BUSY;
  k->stats.transactions++;
  k->store->ops->run(k->store, batch);
  return true;
}

/* ----------------------------------------------------- what the store reports --- */

static void on_wake(void *arg, const char *queue, int64_t due_us) {
  uvs_jobs_t *jobs = arg;

  if (queue == NULL)
    uvs__workers_due(jobs);
  else
    uvs__worker_woken(jobs, queue, due_us);
  pass_soon(&jobs->keeper);
}

static void on_store_event(void *arg, int what, const char *text) {
  uvs_jobs_t *jobs = arg;
  struct uvs__keeper *k = &jobs->keeper;

  uvs__tell(jobs, what, NULL, text);
  if (what == UVS_EVENT_STORE_RESET) {
    k->events_last = 0;
    k->rooms->reset(jobs);
    k->rooms->changed(jobs);
    uvs__workers_due(jobs);
  }
  pass_soon(k);
}

static void start_store(uvs_jobs_t *jobs) {
  static const struct uvs__store_hooks hooks = {on_wake, on_store_event};
  struct uvs__keeper *k = &jobs->keeper;

  if (k->store->ops->start != NULL)
    k->store->ops->start(k->store, &k->loop, &hooks, jobs);
}

/* ------------------------------------------------------------------- pass --- */

static bool has_ended(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;

  return k->closing && !k->quitting && k->running == 0 && k->in_flight == 0 &&
         k->asked[0].first == NULL && k->asked[1].first == NULL && k->asked[2].first == NULL;
}

static void quit(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;

  k->quitting = true;
  if (k->store->ops->stop != NULL)
    k->store->ops->stop(k->store);
  uvs__timer_clear(&k->timers, &k->grace);
  uvs__workers_stop(jobs);
  uv_close((uv_handle_t *)&k->timer, NULL);
  uv_close((uv_handle_t *)&k->mail.async, NULL);
}

/* True: there may be more to do. */
static bool step(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;
  bool more = uvs__mailbox_receive(&k->mail, jobs, MESSAGES_A_PASS);
  int64_t now_ns = uvs__mono_ns(jobs);

  if (now_ns >= k->housekeeping_ns)
    keep_house(jobs, now_ns);
  more |= uvs__timers_fire(&k->timers, now_ns);
  more |= run_batch(jobs);
  if (more || !has_ended(jobs))
    return more;
  uvs__mailbox_shut(&k->mail);
  more = uvs__mailbox_receive(&k->mail, jobs, 1); /* the last messages */
  if (!more)
    quit(jobs);
  return more;
}

static void pass(uvs_jobs_t *jobs) {
  struct uvs__keeper *k = &jobs->keeper;

  if (k->quitting)
    return;
  k->in_pass = true;
  while (step(jobs))
    ;
  k->in_pass = false;
  answer_next_due(k);
  if (!k->quitting)
    arm(jobs);
}

static void on_timer(uv_timer_t *timer) {
  pass(timer->data);
}

static void on_mail(uv_async_t *async) {
  pass(async->data);
}

/* -------------------------------------------------------------- the thread --- */

static void run_keeper(void *arg) {
  uvs_jobs_t *jobs = arg;
  struct uvs__keeper *k = &jobs->keeper;

  start_store(jobs);
  k->rooms->begin(jobs);
  uv_run(&k->loop, UV_RUN_DEFAULT); /* until `quit` */
  uvs__workers_free(jobs);
  k->store->ops->close(k->store);
  UVS__MUST(uv_loop_close(&k->loop) == 0);
  uvs__mailbox_send(&jobs->user, &jobs->keeper_ended_message);
}

int uvs__keeper_open(uvs_jobs_t *jobs, struct uvs__store *store,
                     const struct uvs__keeper_rooms *rooms) {
  struct uvs__keeper *k = &jobs->keeper;
  int rc = uv_loop_init(&k->loop);

  if (rc != 0)
    return rc;
  rc = uvs__mailbox_open(&k->mail, &k->loop, on_mail);
  if (rc != 0)
    goto close_loop;
  k->mail.async.data = jobs;
  UVS__MUST(uv_timer_init(&k->loop, &k->timer) == 0); /* cannot fail */
  k->timer.data = jobs;
  k->store = store;
  k->rooms = rooms;
  for (int i = 0; i < 3; i++)
    k->asked[i].end = &k->asked[i].first;
  k->to_settle_end = &k->to_settle;
  k->events_seen = UINT64_MAX;
  k->events_last = INT64_MAX;
  k->store_offset_ns = store_offset_ns(jobs, uvs__mono_ns(jobs));
  rc = uv_thread_create(&k->thread, run_keeper, jobs);
  if (rc == 0) {
    uvs__keeper_send(jobs, NULL); /* the first pass */
    return 0;
  }
  uv_close((uv_handle_t *)&k->timer, NULL);
  uv_close((uv_handle_t *)&k->mail.async, NULL);
  uv_run(&k->loop, UV_RUN_DEFAULT);
  uvs__mailbox_destroy(&k->mail);
close_loop:
  UVS__MUST(uv_loop_close(&k->loop) == 0);
  return rc;
}

bool uvs__keeper_send(uvs_jobs_t *jobs, struct uvs__message *m) {
  return uvs__mailbox_send(&jobs->keeper.mail, m);
}
