/* SPDX-License-Identifier: MIT
 *
 * The code of docs/jobs.md: the store in memory, and time that passes only when the program says
 * so. All handlers run on the loop (concurrency 0), so that nothing depends on threads. */
#include <uvsched/jobs_admin.h>

#include "virtual_time.h"

static uvs_jobs_t *jobs;
static char said[1000]; /* a log of the handlers and callbacks, in order */

static void say(const char *what) {
  EXPECT(strlen(said) + strlen(what) + 2 <= sizeof said);
  strcat(strcat(said, what), " ");
}

/* ------------------------------------------------------------------- time --- */

/* Runs the store's thread and the loop until neither has anything left to do. */
static void work_off(uvs_t *s) {
  int64_t due_ns;

  for (int i = 0; i < 20; i++) {
    EXPECT(uvs_jobs_next_due(jobs, &due_ns) == 0); /* waits until the store's thread is idle */
    uv_run(uvs_loop(s), UV_RUN_NOWAIT);
  }
}

/* Moves the clock by ns, and stops at each due instant on the way. */
static void pass(uvs_t *s, int64_t ns) {
  int64_t end_ns = uvs_now(s) + ns, due_ns, task_ns;

  work_off(s);
  while (uvs_now(s) < end_ns) {
    EXPECT(uvs_jobs_next_due(jobs, &due_ns) == 0 && uvs_next_due(s, &task_ns) == 0);
    due_ns = task_ns < due_ns ? task_ns : due_ns;
    due_ns = due_ns < end_ns ? due_ns : end_ns;
    if (due_ns > uvs_now(s))
      pass_ns(s, due_ns - uvs_now(s)); /* moves the clock, and notifies the scheduler */
    EXPECT(uvs_jobs_clock_changed(jobs) == 0);
    work_off(s);
  }
}

static void on_status(uvs_jobs_t *j, int status, void *arg) {
  (void)j, (void)arg;
  EXPECT(status == 0);
}

/* -------------------------------------------------------------------- put --- */

static void on_put(uvs_jobs_t *j, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)j, (void)n, (void)arg;
  say(results->status == 0 ? "put" : uvs_jobs_strerror(results->status));
}

/* Two hours after the last change of a cart. */
static int remind_of_cart(const char *cart) {
  uvs_job_spec_t spec;

  uvs_job_spec_init(&spec);
  spec.name = "remind-of-cart";
  spec.key = cart;
  spec.key_policy = UVS_KEY_REPLACE; /* a later change of this cart replaces the job */
  spec.delay_ns = UVS_HOUR(2);
  spec.payload = cart;
  spec.payload_size = strlen(cart);
  return uvs_jobs_put(jobs, &spec, on_put, NULL);
}

static int remind(uvs_job_t *job) {
  (void)job;
  say("reminded");
  return 0;
}

static void show_put(uvs_t *s) {
  EXPECT(uvs_jobs_handle(jobs, "remind-of-cart", remind, NULL, NULL) == 0);
  EXPECT(remind_of_cart("cart-7") == 0);
  pass(s, UVS_HOUR(1));
  EXPECT(remind_of_cart("cart-7") == 0);
  pass(s, UVS_HOUR(1) + UVS_MIN(30));
  EXPECT(strcmp(said, "put put ") == 0);
  pass(s, UVS_MIN(30));
  EXPECT(strcmp(said, "put put reminded ") == 0);
}

/* --------------------------------------------------------------- handlers --- */

static struct {
  int calls;
  int64_t opens_ns;
} bank;

static int ask_bank(const char *id, const void *payment, size_t size) {
  (void)id, (void)payment, (void)size;
  static const int answers[] = {UV_ETIMEDOUT, UV_EBUSY, 0};
  return answers[bank.calls++];
}

static int charge(uvs_job_t *job) {
  /* The id lets the bank recognize a payment that it has made already. */
  int rc = ask_bank(job->id, job->payload, job->payload_size);

  if (rc == UV_EBUSY) /* the bank is closed: this is no failure */
    return uvs_job_retry_at(job, bank.opens_ns);
  if (rc == UV_EINVAL) { /* another try would fail too */
    uvs_job_error(job, "the card has expired");
    return UVS_JOB_GIVE_UP;
  }
  return rc; /* 0: done; a negative code: try again later */
}

static void handle_charges(void) {
  uvs_job_handler_t h;

  uvs_job_handler_init(&h);
  h.concurrency = 4;             /* at most 4 at once in this process */
  h.max_attempts = 10;           /* then it becomes a dead letter */
  h.retry.wait_ns = UVS_SEC(10); /* then 20 s, 40 s ... up to max_wait_ns */
  h.limit_ns = UVS_MIN(1);       /* a longer run is asked to stop, and fails */
  EXPECT(uvs_jobs_handle(jobs, "charge", charge, NULL, &h) == 0);
}

static void show_retries(uvs_t *s) {
  uvs_job_spec_t spec;

  handle_charges();
  uvs_job_spec_init(&spec);
  spec.name = "charge";
  bank.opens_ns = read_virtual(NULL) + UVS_HOUR(8);
  EXPECT(uvs_jobs_put(jobs, &spec, on_put, NULL) == 0);
  pass(s, UVS_SEC(7)); /* jitter shortens the wait of 10 s by up to 20 percent */
  EXPECT(bank.calls == 1);
  pass(s, UVS_SEC(3));
  EXPECT(bank.calls == 2);
  pass(s, UVS_HOUR(8) - UVS_SEC(11));
  EXPECT(bank.calls == 2);
  pass(s, UVS_SEC(1));
  EXPECT(bank.calls == 3);
}

/* A handler that does not block: a request is sent, and the answer comes later. */
static int on_answer(uvs_run_t *run) {
  uvs_job_t *job = run->arg;

  uvs_job_result(job, "4711", 4);
  return uvs_job_finish(job, 0); /* the last use of job */
}

static int send_request(uvs_job_t *job) {
  int rc = uvs_schedule(uvs_jobs_scheduler(job->jobs), UVS_SEC(3), on_answer, job, NULL);

  return rc == 0 ? UVS_PENDING : rc;
}

/* A handler that takes long, and can stop. */
static int import_rows(uvs_job_t *job) {
  uvs_job_spec_t next;
  char note[40];

  for (int row = 1; row <= 3; row++) {
    if (uvs_job_cancelled(job)) /* cancelled, lease lost, time limit, or the program ends */
      return UV_ECANCELED;
    snprintf(note, sizeof note, "row %d of 3", row);
    uvs_job_progress(job, note, strlen(note));
  }
  uvs_job_spec_init(&next);
  next.name = "send-report";
  return uvs_job_put(job, &next); /* put in the step that ends this job: both happen, or neither */
}

static int send_report(uvs_job_t *job) {
  (void)job;
  say("report");
  return 0;
}

static void show_follow_up(uvs_t *s) {
  uvs_job_spec_t spec;

  EXPECT(uvs_jobs_handle(jobs, "import", import_rows, NULL, NULL) == 0);
  EXPECT(uvs_jobs_handle(jobs, "send-report", send_report, NULL, NULL) == 0);
  uvs_job_spec_init(&spec);
  spec.name = "import";
  EXPECT(uvs_jobs_put(jobs, &spec, NULL, NULL) == 0);
  said[0] = '\0';
  pass(s, UVS_SEC(1));
  EXPECT(strcmp(said, "report ") == 0);
}

/* ----------------------------------------------------------------- results --- */

static void on_end(uvs_jobs_t *j, int status, const uvs_job_info_t *info, void *arg) {
  (void)j, (void)arg;
  EXPECT(status == 0 && info->state == UVS_JOB_DONE);
  EXPECT(info->result_size == 4 && memcmp(info->result, "4711", 4) == 0);
  say("waited");
}

static int ask_and_wait(void) {
  uvs_job_spec_t spec;
  int rc;

  uvs_job_spec_init(&spec);
  spec.name = "ask";
  spec.id = "42";                  /* the whole id is ask/42 */
  spec.keep_done_ns = UVS_HOUR(1); /* every process can read the result for an hour */
  rc = uvs_jobs_put(jobs, &spec, NULL, NULL);
  return rc != 0 ? rc : uvs_jobs_wait(jobs, "ask/42", UVS_MIN(5), on_end, NULL);
}

static void show_results(uvs_t *s) {
  EXPECT(uvs_jobs_handle(jobs, "ask", send_request, NULL, NULL) == 0);
  said[0] = '\0';
  EXPECT(ask_and_wait() == 0);
  pass(s, UVS_SEC(5));
  EXPECT(strcmp(said, "waited ") == 0);
}

/* --------------------------------------------------------- crons and queues --- */

static int define_cron(void) {
  uvs_job_cron_t cron;
  char why[200];

  uvs_job_cron_init(&cron);
  cron.name = "nightly";
  cron.revision = 3; /* raise it with each change of this definition */
  cron.expression = "30 2 * * *";
  cron.zone = "UTC";
  cron.spec.name = "clean-up";
  cron.misfire = UVS_MISFIRE_ONCE; /* after an outage: one job, for the newest occurrence */
  cron.overlap = UVS_CRON_SKIP;    /* no second job while the last one has not ended */
  return uvs_jobs_cron(jobs, &cron, on_status, NULL, why, sizeof why);
}

static int clean_up(uvs_job_t *job) {
  say(job->id);
  return 0;
}

static int limit_queue(void) {
  uvs_job_queue_t q;

  uvs_job_queue_init(&q);
  q.name = "clean-up";
  q.concurrency = 2;     /* of all processes together */
  q.rate = 10;           /* at most 10 starts a second */
  q.catch_up_rate = 100; /* after an outage: at most 100 old jobs a second */
  return uvs_jobs_set_queue(jobs, &q, on_status, NULL);
}

static void show_cron(uvs_t *s) {
  EXPECT(uvs_jobs_handle(jobs, "clean-up", clean_up, NULL, NULL) == 0);
  EXPECT(define_cron() == 0 && limit_queue() == 0);
  work_off(s);
  said[0] = '\0';
  pass(s, UVS_DAY(2));
  EXPECT(strcmp(said, "clean-up/nightly@1970-01-02T02:30:00Z "
                      "clean-up/nightly@1970-01-03T02:30:00Z ") == 0);
}

/* ------------------------------------------------------------- dead letters --- */

static void on_event(uvs_jobs_t *j, const uvs_jobs_event_t *event, void *arg) {
  (void)j, (void)arg;
  if (event->what == UVS_EVENT_DEAD)
    fprintf(stderr, "job %s was given up: %s\n", event->id, event->text);
  else if (event->what == UVS_EVENT_STORE_DOWN)
    fprintf(stderr, "the store does not work: %s\n", event->text);
}

static void on_count(uvs_jobs_t *j, int status, uint64_t count, void *arg) {
  (void)j;
  EXPECT(status == 0);
  *(uint64_t *)arg = count;
}

static int is_repaired;

static int fragile(uvs_job_t *job) {
  (void)job;
  return is_repaired ? 0 : UVS_JOB_GIVE_UP;
}

static void show_dead(uvs_t *s) {
  uvs_job_filter_t f;
  uvs_job_spec_t spec;
  uint64_t count = 0;

  EXPECT(uvs_jobs_handle(jobs, "fragile", fragile, NULL, NULL) == 0);
  uvs_job_spec_init(&spec);
  spec.name = "fragile";
  EXPECT(uvs_jobs_put(jobs, &spec, NULL, NULL) == 0);
  pass(s, UVS_SEC(1));
  is_repaired = 1;
  uvs_job_filter_init(&f);
  f.name = "fragile";
  EXPECT(uvs_jobs_redrive(jobs, &f, on_count, &count) == 0);
  pass(s, UVS_SEC(1));
  EXPECT(count == 1);
}

/* ------------------------------------------------------------------ metrics --- */

static int write_out(const char *text, size_t n, void *arg) {
  return fwrite(text, 1, n, arg) == n ? 0 : UV_EIO;
}

static void on_stats(uvs_jobs_t *j, int status, const uvs_jobs_stats_t *stats, void *arg) {
  (void)j;
  if (status == 0)
    uvs_jobs_stats_write(stats, UVS_FORMAT_PROMETHEUS, write_out, arg);
}

static void show_metrics(uvs_t *s) {
  FILE *out = tmpfile();

  EXPECT(out != NULL && uvs_jobs_stats(jobs, on_stats, out) == 0);
  work_off(s);
  EXPECT(ftell(out) > 0);
  fclose(out);
}

/* --------------------------------------------------------------------- test --- */

static int confirmed;

static int confirm(uvs_job_t *job) {
  (void)job;
  confirmed++;
  return 0;
}

/* Fifteen days take no time. */
static void show_test(uvs_t *s) {
  uvs_job_spec_t spec;

  EXPECT(uvs_jobs_handle(jobs, "confirm", confirm, NULL, NULL) == 0);
  uvs_job_spec_init(&spec);
  spec.name = "confirm";
  spec.delay_ns = UVS_DAY(15);
  EXPECT(uvs_jobs_put(jobs, &spec, NULL, NULL) == 0);
  pass(s, UVS_DAY(15) - UVS_SEC(1));
  EXPECT(confirmed == 0);
  pass(s, UVS_SEC(1));
  EXPECT(confirmed == 1);
}

static void on_closed(uvs_jobs_t *j, void *arg) {
  (void)j;
  EXPECT(uvs_close(arg, NULL) == 0);
}

int main(void) {
  uv_loop_t *loop = uv_default_loop();
  uvs_jobs_options_t o;
  uvs_options_t so;
  char why[200];
  uvs_t *s;

  uvs_options_init(&so);
  so.concurrency = 0;       /* handlers run on the loop */
  so.clock = virtual_clock; /* of examples/virtual_time.h */
  uvs_jobs_options_init(&o);
  o.store = "memory:";
  o.clock = virtual_clock;
  o.on_event = on_event;
  EXPECT(uvs_open(loop, &so, &s) == 0);
  EXPECT(uvs_jobs_open(s, &o, &jobs, why, sizeof why) == 0);

  show_put(s);
  show_retries(s);
  show_follow_up(s);
  show_results(s);
  show_cron(s);
  show_dead(s);
  show_metrics(s);
  show_test(s);

  EXPECT(uvs_jobs_close(jobs, UVS_SEC(10), on_closed, s) == 0);
  uv_run(loop, UV_RUN_DEFAULT);
  return uv_loop_close(loop) != 0;
}
