/* SPDX-License-Identifier: MIT
 *
 * put URL STORE EXCHANGE: a C program that uses uvsched/jobs_amqp.h as check_amqp.py asks: it puts
 * 20 messages that are due in 300 ms, and among them one that no queue wants, one that the broker
 * does not accept, and one job that is no message. It prints how each job has ended, and exits with
 * 0 if everything was closed in order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <uvsched/jobs_amqp.h>

#define GOOD 20
#define ALL (GOOD + 3)
#define MUST(condition) must(condition, #condition, __LINE__)

static uvs_t *scheduler;
static uvs_jobs_t *jobs;
static uvs_jobs_amqp_t *amqp;
static int ended;

static void must(int ok, const char *what, int line) {
  if (ok)
    return;
  fprintf(stderr, "put.c:%d: %s\n", line, what);
  exit(1);
}

static void on_amqp_closed(uvs_jobs_amqp_t *a, void *arg) {
  uvs_jobs_amqp_stats_t stats;

  (void)arg;
  uvs_jobs_amqp_stats_init(&stats);
  MUST(uvs_jobs_amqp_stats(a, &stats) == 0);
  printf("stats confirmed %d returned %d\n", (int)stats.confirmed, (int)stats.returned);
  uvs_close(scheduler, NULL);
}

static void on_jobs_closed(uvs_jobs_t *j, void *arg) {
  (void)j;
  (void)arg;
  MUST(uvs_jobs_amqp_close(amqp, on_amqp_closed, NULL) == 0);
  MUST(uvs_jobs_amqp_close(amqp, NULL, NULL) == UV_EALREADY);
}

static void on_end(uvs_jobs_t *j, int status, const uvs_job_info_t *info, void *arg) {
  (void)arg;
  if (status == 0)
    printf("%s %s %d %s\n", info->id, info->state == UVS_JOB_DONE ? "done" : "dead",
           (int)info->attempts, info->error);
  else
    printf("? %s\n", uvs_jobs_strerror(status));
  if (++ended == ALL)
    MUST(uvs_jobs_close(j, UVS_SEC(5), on_jobs_closed, NULL) == 0);
}

static void on_put(uvs_jobs_t *j, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)arg;
  MUST(n == 1 && results[0].status == 0);
  MUST(uvs_jobs_wait(j, results[0].id, UVS_MIN(1), on_end, NULL) == 0);
}

static void put(const char *id, const char *exchange, const char *key, const char *expiration) {
  amqp_basic_properties_t properties;
  uvs_jobs_amqp_message_t m;
  uvs_job_spec_t spec;

  memset(&properties, 0, sizeof properties);
  properties._flags = AMQP_BASIC_CONTENT_TYPE_FLAG;
  properties.content_type = amqp_cstring_bytes("text/plain");
  if (expiration != NULL) {
    properties._flags |= AMQP_BASIC_EXPIRATION_FLAG;
    properties.expiration = amqp_cstring_bytes(expiration);
  }
  uvs_jobs_amqp_message_init(&m);
  m.exchange = exchange;
  m.routing_key = key;
  m.properties = &properties;
  m.body = id;
  m.body_size = strlen(id);
  uvs_job_spec_init(&spec);
  spec.id = id;
  spec.delay_ns = UVS_MS(300);
  spec.keep_done_ns = UVS_MIN(10);
  MUST(uvs_jobs_amqp_put(amqp, &m, &spec, on_put, NULL) == 0);
}

static void refused_arguments(const uvs_jobs_amqp_options_t *good) {
  static char large[UVS_JOB_PAYLOAD_MAX];
  uvs_jobs_amqp_options_t o = *good;
  uvs_jobs_amqp_message_t m;
  uvs_jobs_amqp_intake_t intake;
  uvs_jobs_amqp_map_t round = {"a", "a"}, twice[2] = {{"a", "b"}, {"a", "c"}};
  uvs_jobs_amqp_t *none = NULL;
  uvs_job_spec_t spec;
  char text[200];

  o.url = "http://localhost";
  MUST(uvs_jobs_amqp_open(jobs, &o, &none, text, sizeof text) == UV_EINVAL && *text != '\0');
  o.url = "amqps://localhost";
  MUST(uvs_jobs_amqp_open(jobs, &o, &none, text, sizeof text) == UV_EINVAL && *text != '\0');
  o = *good;
  o.name = "not a name";
  MUST(uvs_jobs_amqp_open(jobs, &o, &none, text, sizeof text) == UV_EINVAL && *text != '\0');
  MUST(uvs_jobs_amqp_open(jobs, good, &none, text, sizeof text) == UV_EEXIST && *text != '\0');
  MUST(none == NULL);
  uvs_jobs_amqp_message_init(&m);
  m.body = large;
  m.body_size = sizeof large;
  MUST(uvs_jobs_amqp_put(amqp, &m, NULL, NULL, NULL) == UV_E2BIG);
  m.body_size = 65536; /* max_payload_bytes of this store, and the envelope */
  MUST(uvs_jobs_amqp_put(amqp, &m, NULL, NULL, NULL) == UV_E2BIG);
  m.body_size = 1;
  uvs_job_spec_init(&spec);
  spec.name = "mine";
  MUST(uvs_jobs_amqp_put(amqp, &m, &spec, NULL, NULL) == UV_EINVAL);
  uvs_jobs_amqp_intake_init(&intake);
  MUST(uvs_jobs_amqp_intake(amqp, &intake, text, sizeof text) == UV_EINVAL && *text != '\0');
  intake.maps = &round;
  intake.n_maps = 1;
  MUST(uvs_jobs_amqp_intake(amqp, &intake, text, sizeof text) == UV_EINVAL && *text != '\0');
  intake.maps = twice;
  intake.n_maps = 2;
  MUST(uvs_jobs_amqp_intake(amqp, &intake, text, sizeof text) == UV_EINVAL && *text != '\0');
  MUST(uvs_jobs_amqp_stop(amqp, NULL, NULL) == UV_EINVAL);
}

int main(int argc, char **argv) {
  uvs_jobs_amqp_options_t o;
  uvs_jobs_options_t jo;
  uvs_job_spec_t spec;
  char id[20], text[300];

  MUST(argc == 4);
  setvbuf(stdout, NULL, _IOLBF, BUFSIZ);
  MUST(uvs_open(uv_default_loop(), NULL, &scheduler) == 0);
  uvs_jobs_options_init(&jo);
  jo.store = argv[2];
  MUST(uvs_jobs_open(scheduler, &jo, &jobs, text, sizeof text) == 0);
  uvs_jobs_amqp_options_init(&o);
  o.url = argv[1];
  o.name = "api";
  MUST(uvs_jobs_amqp_open(jobs, &o, &amqp, text, sizeof text) == 0);
  refused_arguments(&o);
  for (int i = 0; i < GOOD; i++) {
    snprintf(id, sizeof id, "good-%d", i);
    put(id, argv[3], "api.key", NULL);
    if (i == 7)
      put("poison", argv[3], "api.key", "not a number");
    if (i == 12)
      put("nobody", "", "no.such.queue", NULL);
  }
  uvs_job_spec_init(&spec);
  spec.name = "api";
  spec.id = "garbage";
  spec.payload = "garbage";
  spec.payload_size = 7;
  spec.keep_done_ns = UVS_MIN(10);
  MUST(uvs_jobs_put(jobs, &spec, on_put, NULL) == 0);
  MUST(uv_run(uv_default_loop(), UV_RUN_DEFAULT) == 0);
  MUST(ended == ALL);
  return uv_loop_close(uv_default_loop()) == 0 ? 0 : 1;
}
