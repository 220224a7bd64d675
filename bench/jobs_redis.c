/* SPDX-License-Identifier: MIT
 *
 * bench-jobs-redis WORKLOAD STORE ...: one node of bench/jobs-beside, which starts the Redis server
 * and measures BullMQ in the same way. bench/bullmq.mjs has the same workloads for BullMQ.
 *
 * put STORE N AT_ONCE WAITING DUE: puts N jobs of 128 bytes, AT_ONCE in a call. WAITING calls wait
 * for their answers at a time. DUE is now, or later: in 1 to 15 days. Prints jobs a second, and CPU
 * seconds.
 *
 * space STORE N GAP_MS: puts N jobs, one due each GAP_MS or a little later.
 *
 * work STORE PLACES: prints "ready". After the line "go" it runs jobs that do nothing, until the
 * input ends.
 *
 * late STORE PLACES: the same; at the end it prints how late each job was, in us.
 *
 * batches STORE N SIZE: claims and acknowledges N jobs that are due, SIZE at a time, by requests of
 * the store. Prints jobs a second, and CPU seconds.
 *
 * scripts: prints the texts of the scripts: name, size, text.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <uvsched/jobs.h>

#include "jobs/redis.h"
#include "jobs/store.h"

#define MUST(condition) must(condition, #condition, __LINE__)
#define PAYLOAD 128
#define QUEUE "order"
#define LATE_MAX 100000

static void must(int ok, const char *what, int line) {
  if (ok)
    return;
  fprintf(stderr, "bench-jobs-redis: line %d: %s\n", line, what);
  exit(1);
}

static double seconds(void) {
  return (double)uv_hrtime() / 1e9;
}

/* CPU time of this process. */
static double cpu_seconds(void) {
  struct rusage u;

  MUST(getrusage(RUSAGE_SELF, &u) == 0);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* ----------------------------------------------------------- an open store --- */

static uvs_t *scheduler;
static uvs_jobs_t *jobs;

/* A figure is worth nothing if the store was down, or a lease was lost. */
static void on_event(uvs_jobs_t *j, const uvs_jobs_event_t *event, void *arg) {
  (void)j;
  (void)arg;
  if (event->what == UVS_EVENT_STORE_UNSAFE) /* of the server that is measured */
    return;
  fprintf(stderr, "bench-jobs-redis: event %d: %s\n", event->what, event->text);
  exit(1);
}

static void open_jobs(const char *store) {
  uvs_jobs_options_t o;
  char text[200];

  MUST(uvs_open(uv_default_loop(), NULL, &scheduler) == 0);
  uvs_jobs_options_init(&o);
  o.store = store;
  o.on_event = on_event;
  if (uvs_jobs_open(scheduler, &o, &jobs, text, sizeof text) != 0) {
    fprintf(stderr, "bench-jobs-redis: %s\n", text);
    exit(1);
  }
}

static void on_closed(uvs_jobs_t *j, void *arg) {
  (void)j;
  (void)arg;
  uvs_close(scheduler, NULL);
}

static void close_jobs(void) {
  MUST(uvs_jobs_close(jobs, UVS_SEC(10), on_closed, NULL) == 0);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

/* --------------------------------------------------------------------- put --- */

static struct {
  long answered, waiting, left;
  size_t at_once;
  int is_due;
  uint64_t random;
} load;

static void put_next(void);

static void on_put(uvs_jobs_t *j, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)j;
  (void)arg;
  for (size_t i = 0; i < n; i++)
    MUST(results[i].status == 0);
  load.answered += (long)n;
  load.waiting--;
  if (load.left > 0)
    put_next();
  else if (load.waiting == 0)
    uv_stop(uv_default_loop());
}

static int64_t next_delay_ns(void) {
  load.random = load.random * UINT64_C(6364136223846793005) + 1442695040888963407u;
  return load.is_due ? 0 : UVS_DAY(1) + (int64_t)((load.random >> 8) % (uint64_t)UVS_DAY(14));
}

static void put_next(void) {
  static const char payload[PAYLOAD];
  static uvs_job_spec_t specs[UVS_JOBS_PUT_MAX];
  size_t n = load.left < (long)load.at_once ? (size_t)load.left : load.at_once;

  for (size_t i = 0; i < n; i++) {
    uvs_job_spec_init(&specs[i]);
    specs[i].name = QUEUE;
    specs[i].payload = payload;
    specs[i].payload_size = sizeof payload;
    specs[i].delay_ns = next_delay_ns();
  }
  load.waiting++;
  load.left -= (long)n;
  MUST(uvs_jobs_put_many(jobs, specs, n, on_put, NULL) == 0);
}

/* Jobs a second. */
static double put_all(long n, size_t at_once, int waiting, int is_due) {
  double start = seconds();

  load.answered = load.waiting = 0;
  load.left = n;
  load.at_once = at_once;
  load.is_due = is_due;
  for (int i = 0; i < waiting && load.left > 0; i++)
    put_next();
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  MUST(load.answered == n);
  return (double)n / (seconds() - start);
}

static void put(const char *store, long n, size_t at_once, int waiting, int is_due) {
  double cpu_s;

  open_jobs(store);
  put_all(1, 1, 1, is_due); /* connects */
  cpu_s = cpu_seconds();
  printf("%.1f\n", n > 1 ? put_all(n - 1, at_once, waiting, is_due) : 0);
  printf("%.6f\n", cpu_seconds() - cpu_s);
  close_jobs();
}

static void space(const char *store, long n, long gap_ms) {
  uvs_job_spec_t spec;

  open_jobs(store);
  uvs_job_spec_init(&spec);
  spec.name = QUEUE;
  load.waiting = n;
  for (long i = 0; i < n; i++) {
    spec.delay_ns = UVS_SEC(1) + UVS_MS(gap_ms) * i + UVS_US(1370) * (i % 7);
    MUST(uvs_jobs_put(jobs, &spec, on_put, NULL) == 0);
  }
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  close_jobs();
}

/* -------------------------------------------------------------------- work --- */

static int64_t late_us[LATE_MAX];
static _Atomic size_t n_late;

static int do_nothing(uvs_job_t *job) {
  (void)job;
  return 0;
}

static int note_lateness(uvs_job_t *job) {
  struct timespec t;
  size_t i = n_late++;

  clock_gettime(CLOCK_REALTIME, &t);
  MUST(i < LATE_MAX);
  late_us[i] = ((int64_t)t.tv_sec * 1000000000 + t.tv_nsec - job->due_ns) / 1000;
  return 0;
}

static void on_input(uv_poll_t *poll, int status, int events) {
  (void)status;
  (void)events;
  uv_close((uv_handle_t *)poll, NULL);
  uv_stop(uv_default_loop());
}

static void work(const char *store, int places, uvs_job_cb handler) {
  uvs_job_handler_t h;
  uv_poll_t input;
  char line[10];

  open_jobs(store);
  puts("ready");
  MUST(fgets(line, sizeof line, stdin) != NULL);
  uvs_job_handler_init(&h);
  h.concurrency = places;
  MUST(uvs_jobs_handle(jobs, QUEUE, handler, NULL, &h) == 0);
  MUST(uv_poll_init(uv_default_loop(), &input, 0) == 0);
  MUST(uv_poll_start(&input, UV_READABLE | UV_DISCONNECT, on_input) == 0);
  uv_run(uv_default_loop(), UV_RUN_DEFAULT);
  close_jobs();
  for (size_t i = 0; i < n_late; i++)
    printf("%" PRId64 "\n", late_us[i]);
}

/* ----------------------------------------------------------------- batches --- */

/* A claim, and the settle of what the claim before it has got, in one batch, as the keeper of the
 * library asks for them. */
static struct {
  uv_loop_t loop;
  struct uvs__store *store;
  struct uvs__claim_request claim;
  struct uvs__settle_request settle;
  struct uvs__settle items[1000];
  struct uvs__claimed *held; /* what is being settled */
  int left;                  /* requests that are not answered */
  long acked;
} batch;

static void on_request(struct uvs__request *r) {
  MUST(r->status == 0);
  batch.left--;
}

static void on_wake(void *arg, const char *queue, int64_t due_us) {
  (void)arg;
  (void)queue;
  (void)due_us;
}

static void on_store_event(void *arg, int what, const char *text) {
  (void)arg;
  if (what == UVS_EVENT_STORE_UNSAFE)
    return;
  fprintf(stderr, "bench-jobs-redis: event %d: %s\n", what, text);
  exit(1);
}

static void free_claimed(struct uvs__claimed *c) {
  while (c != NULL) {
    struct uvs__claimed *next = c->next;

    uvs__arena_free(&c->arena);
    free(c);
    c = next;
  }
}

/* False: there is nothing more to do. */
static bool next_batch(uint32_t size) {
  struct uvs__request *first = &batch.claim.r;

  batch.settle = (struct uvs__settle_request){.r = {.op = UVS__SETTLE, .done = on_request},
                                              .items = batch.items};
  memset(batch.items, 0, sizeof batch.items);
  for (struct uvs__claimed *c = batch.held; c != NULL; c = c->next)
    batch.items[batch.settle.n++] = (struct uvs__settle){
        .queue = c->queue, .rest = c->rest, .row = c->row, .fence = c->fence, .op = UVS__ACK};
  batch.claim = (struct uvs__claim_request){.r = {.op = UVS__CLAIM, .done = on_request},
                                            .queue = QUEUE,
                                            .max = size,
                                            .max_crashed = size,
                                            .lease_us = 30000000};
  batch.left = 1;
  if (batch.settle.n > 0) {
    batch.settle.r.next = first;
    first = &batch.settle.r;
    batch.left = 2;
  }
  batch.store->ops->run(batch.store, first);
  while (batch.left > 0)
    uv_run(&batch.loop, UV_RUN_ONCE);
  for (size_t i = 0; i < batch.settle.n; i++)
    MUST(batch.items[i].status == 0);
  batch.acked += (long)batch.settle.n;
  free_claimed(batch.held);
  batch.held = batch.claim.claimed;
  return batch.settle.n > 0 || batch.held != NULL;
}

static void batches(const char *name, long n, uint32_t size) {
  static const struct uvs__store_hooks hooks = {on_wake, on_store_event};
  struct uvs__store_config config = {.name = name};
  char text[200];
  double start, cpu_s;

  MUST(size <= 1000);
  MUST(uv_loop_init(&batch.loop) == 0);
  MUST(uvs__redis_open(&config, &batch.store, text, sizeof text) == 0);
  batch.store->ops->start(batch.store, &batch.loop, &hooks, NULL);
  next_batch(1); /* connects */
  start = seconds();
  cpu_s = cpu_seconds();
  while (next_batch(size))
    ;
  printf("%.1f\n%.6f\n", (double)(n - 1) / (seconds() - start), cpu_seconds() - cpu_s);
  MUST(batch.acked == n);
  batch.store->ops->stop(batch.store);
  uv_run(&batch.loop, UV_RUN_DEFAULT);
  batch.store->ops->close(batch.store);
  MUST(uv_loop_close(&batch.loop) == 0);
}

static void print_scripts(void) {
  for (int i = 0; i < UVS__REDIS_SCRIPTS; i++) {
    const struct uvs__redis_script_text *s = &uvs__redis_scripts[i];

    printf("%s %zu\n", s->name, s->size);
    fwrite(s->text, 1, s->size, stdout);
  }
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "", *store = argc > 2 ? argv[2] : "";
  long n = argc > 3 ? atol(argv[3]) : 0, m = argc > 4 ? atol(argv[4]) : 0;

  setvbuf(stdout, NULL, _IOLBF, 0);
  if (strcmp(what, "put") == 0 && argc == 7)
    put(store, n, (size_t)m, atoi(argv[5]), strcmp(argv[6], "now") == 0);
  else if (strcmp(what, "space") == 0 && argc == 5)
    space(store, n, m);
  else if (strcmp(what, "work") == 0 && argc == 4)
    work(store, (int)n, do_nothing);
  else if (strcmp(what, "late") == 0 && argc == 4)
    work(store, (int)n, note_lateness);
  else if (strcmp(what, "batches") == 0 && argc == 5)
    batches(store, n, (uint32_t)m);
  else if (strcmp(what, "scripts") == 0)
    print_scripts();
  else
    return 2;
  return 0;
}
