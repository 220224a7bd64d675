/* SPDX-License-Identifier: MIT
 *
 * Wrong arguments: each gets its code, and a text that names what is wrong; nothing changes.
 */
#include <string.h>

#include "engine_fixture.h"

#define LONG_65 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

static void no_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  (void)jobs;
  (void)results;
  (void)n;
  (void)arg;
  abort(); /* a call that is refused has no callback */
}

/* ------------------------------------------------------------------- specs --- */

static void wrong_spec(int i, uvs_job_spec_t *s) {
  static const char bytes[65537];

  *s = engine_spec("n", NULL);
  switch (i) {
  case 0:
    s->name = NULL;
    break;
  case 1:
    s->name = "";
    break;
  case 2:
    s->name = LONG_65;
    break;
  case 3:
    s->name = "a b";
    break;
  case 4:
    s->name = "uvs.cron";
    break;
  case 5:
    s->queue = "a/b";
    break;
  case 6:
    s->id = "";
    break;
  case 7:
    s->id = "a b";
    break;
  case 8:
    s->id = "\xc3\xa4";
    break;
  case 9:
    s->delay_ns = s->at_ns = 1;
    break;
  case 10:
    s->at_ns = -1;
    break;
  case 11:
    s->at_ns = UVS_JOBS_END_NS;
    break;
  case 12:
    s->delay_ns = UVS_NEVER;
    break;
  case 13:
    s->payload = NULL;
    s->payload_size = 1;
    break;
  case 14:
    s->meta_size = 1;
    break;
  case 15:
    s->key = "";
    break;
  case 16:
    s->key_policy = UVS_KEY_REPLACE;
    break;
  case 17:
    s->key = "k";
    s->key_policy = 3;
    break;
  case 18:
    s->priority = 2;
    break;
  case 19:
    s->keep_done_ns = -1;
    break;
  case 20:
    s->size = 8;
    break;
  case 21:
    s->payload = bytes;
    s->payload_size = sizeof bytes;
    break;
  default:
    s->meta = bytes;
    s->meta_size = UVS_JOB_META_MAX + 1;
  }
}

/* Q6 Q7 Q8 */
TEST each_wrong_field_of_a_spec_is_refused_and_named(void) {
  static const char *const texts[] = {
      "name is missing",
      "name is missing",
      "name is longer than 64 bytes",
      "name has a character that is not one of A-Z a-z 0-9 _ . : -",
      "name begins with uvs., which is reserved",
      "queue has a character that is not one of A-Z a-z 0-9 _ . : -",
      "id must have 1 to 96 printable ASCII characters without blanks",
      "id must have 1 to 96 printable ASCII characters without blanks",
      "id must have 1 to 96 printable ASCII characters without blanks",
      "delay_ns and at_ns are both set: set one of them",
      "at_ns is before 1970",
      "at_ns is after 2255-06-05T23:47:34Z",
      "delay_ns is longer than 142 years",
      "payload is NULL, but its size is 1",
      "meta is NULL, but its size is 1",
      "key must have 1 to 96 printable ASCII characters without blanks",
      "key_policy is set, but key is not",
      "key_policy is 3, which is not a UVS_KEY_...",
      "priority is 2, which is not a UVS_PRIORITY_...",
      "keep_done_ns is negative",
      "the spec is NULL, or was not made by uvs_job_spec_init",
      "payload has 65537 bytes, more than 65536",
      "meta has 4097 bytes, more than 4096",
  };
  struct engine *f = engine_start();

  for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
    int code = i < 21 ? UV_EINVAL : UV_E2BIG;
    uvs_job_spec_t specs[2];
    char text[200];

    specs[0] = engine_spec("n", NULL);
    wrong_spec(i, &specs[1]);
    EQ(code, uvs_jobs_check(f->nodes[0].jobs, &specs[1], text, sizeof text));
    SAYS(texts[i], text);
    EQ(code, uvs_jobs_check(f->nodes[0].jobs, &specs[1], NULL, 0));
    EQ(i == 21 ? 0 : code, uvs_job_check(&specs[1], NULL, 0)); /* no store: the largest limit */
    EQ(code, uvs_jobs_put(f->nodes[0].jobs, &specs[1], no_put, NULL));
    if (i != 20) /* the size of the first one says where the second is */
      EQ(code, uvs_jobs_put_many(f->nodes[0].jobs, specs, 2, no_put, NULL));
  }
  EQ(UV_EINVAL, uvs_job_check(NULL, NULL, 0));
  EQ(UV_EINVAL, uvs_jobs_check(NULL, NULL, NULL, 0));
  EQ(UV_EINVAL, uvs_jobs_put(f->nodes[0].jobs, NULL, no_put, NULL));
  EQ(0, engine_stats(f));
  EQ(0, f->last.stats.pending);
  engine_close(f);
  PASS();
}

static int check_payload(struct probe *p, uvs_job_t *job) {
  const char *bytes = p->data;
  uvs_job_spec_t spec = engine_spec("n", NULL);

  if (job->payload_size != (size_t)p->number ||
      (p->number > 0 && memcmp(bytes, job->payload, job->payload_size) != 0))
    return UV_EIO;
  spec.payload = bytes;
  spec.payload_size = UVS_JOB_PAYLOAD_MAX + 1;
  if (uvs_job_put(job, &spec) != UV_E2BIG)
    return UV_EIO;
  spec.payload_size = UVS_JOB_PAYLOAD_MAX;
  for (int i = 0; i < 61; i++) /* 61 of them are more than UVS_JOBS_PUT_BYTES_MAX */
    if (p->number == UVS_JOB_PAYLOAD_MAX && uvs_job_put(job, &spec) != (i < 60 ? 0 : UV_E2BIG))
      return UV_EIO;
  return 0;
}

/* Q7 */
TEST payloads_up_to_max_payload_bytes_are_put_and_run(void) {
  static char bytes[UVS_JOB_PAYLOAD_MAX + 1];
  static const size_t sizes[] = {0, 65536, 65537, UVS_JOB_PAYLOAD_MAX};
  static const char *const names[] = {"a", "b", "c", "d"};
  struct engine *f = engine_new();
  uvs_job_spec_t many[61];
  char text[200];

  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (char)(i * 7 + i / 256);
  f->options.max_payload_bytes = UVS_JOB_PAYLOAD_MAX;
  engine_open(f);
  for (size_t i = 0; i < 61; i++) {
    many[i] = engine_spec("n", NULL);
    many[i].payload = bytes;
    many[i].payload_size = UVS_JOB_PAYLOAD_MAX;
  }
  many[0].payload_size = UVS_JOB_PAYLOAD_MAX + 1;
  EQ(UV_E2BIG, uvs_jobs_check(f->nodes[0].jobs, &many[0], text, sizeof text));
  SAYS("payload has 1114113 bytes, more than 1114112", text);
  EQ(UV_E2BIG, uvs_job_check(&many[0], NULL, 0));
  EQ(UV_E2BIG, uvs_jobs_put(f->nodes[0].jobs, &many[0], no_put, NULL));
  many[0].payload_size = UVS_JOB_PAYLOAD_MAX;
  EQ(UV_E2BIG, uvs_jobs_put_many(f->nodes[0].jobs, many, 61, no_put, NULL));
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    struct probe *p = engine_handle(f, names[i], NULL);
    char id[] = "a/1";

    p->act = check_payload;
    p->data = bytes;
    p->number = (int)sizes[i];
    id[0] = *names[i];
    many[0].name = names[i];
    many[0].id = "1";
    many[0].payload_size = sizes[i];
    EQ(0, engine_put(f, &many[0]));
    EQ(UVS_JOB_DONE, engine_state(f, id));
  }
  EQ(0, engine_stats(f));
  EQ(60, f->last.stats.pending); /* put by the last job */
  engine_close(f);
  PASS();
}

/* Q7 */
TEST the_longest_values_are_accepted(void) {
  static const char bytes[65536];
  struct engine *f = engine_start();
  char name[65], rest[97], text[200];
  uvs_job_spec_t spec;

  memset(name, 'n', 64);
  memset(rest, '~', 96);
  name[64] = rest[96] = '\0';
  spec = engine_spec(name, rest);
  spec.key = rest;
  spec.payload = bytes;
  spec.payload_size = sizeof bytes;
  spec.meta = bytes;
  spec.meta_size = UVS_JOB_META_MAX;
  spec.at_ns = UVS_JOBS_END_NS - 1;
  EQ(0, uvs_job_check(&spec, text, sizeof text));
  SAYS("", text);
  EQ(0, engine_put(f, &spec));
  EQ(UVS_JOB_ID_MAX, strlen(f->last.id));
  spec.id = NULL;
  spec.key = NULL;
  spec.at_ns = 0;
  spec.delay_ns = UVS_JOBS_END_NS / 2 - 1;
  EQ(0, engine_put(f, &spec));
  engine_close(f);
  PASS();
}

/* -------------------------------------------------------------------- calls --- */

/* Q8 */
TEST wrong_arguments_of_calls_are_refused(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;
  static const char *const ids[] = {NULL, "", "n", "/a", "n/", LONG_65 "/a"};
  uvs_job_spec_t spec = engine_spec("n", NULL);
  uvs_job_queue_t q = engine_queue("n");
  uvs_job_filter_t filter;
  int64_t due_ns;

  for (size_t i = 0; i < sizeof ids / sizeof *ids; i++) {
    EQ(UV_EINVAL, uvs_jobs_cancel(jobs, ids[i], NULL, NULL));
    EQ(UV_EINVAL, uvs_jobs_move(jobs, ids[i], 0, 0, NULL, NULL));
    EQ(UV_EINVAL, uvs_jobs_get(jobs, ids[i], NULL, NULL));
    EQ(UV_EINVAL, uvs_jobs_wait(jobs, ids[i], 0, NULL, NULL));
  }
  EQ(UV_EINVAL, uvs_jobs_move(jobs, "n/a", 1, 1, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_move(jobs, "n/a", 0, UVS_JOBS_END_NS, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_put_many(jobs, &spec, 0, no_put, NULL));
  EQ(UV_EINVAL, uvs_jobs_put_many(jobs, &spec, UVS_JOBS_PUT_MAX + 1, no_put, NULL));
  EQ(UV_EINVAL, uvs_jobs_put_many(jobs, NULL, 1, no_put, NULL));
  EQ(UV_EINVAL, uvs_jobs_put(NULL, &spec, no_put, NULL));
  EQ(UV_EINVAL, uvs_jobs_list(jobs, NULL, 0, 0, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_list(jobs, NULL, 0, 1001, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_list(jobs, NULL, -1, 1, NULL, NULL));
  uvs_job_filter_init(&filter);
  filter.state = UVS_JOB_CANCELLED;
  EQ(UV_EINVAL, uvs_jobs_list(jobs, &filter, 0, 1, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_purge(jobs, &filter, NULL, NULL));
  filter.state = UVS_JOB_DONE;
  EQ(UV_EINVAL, uvs_jobs_redrive(jobs, &filter, NULL, NULL));
  filter.state = 0;
  filter.id = "n";
  EQ(UV_EINVAL, uvs_jobs_redrive(jobs, &filter, NULL, NULL));
  filter.size = 0;
  EQ(UV_EINVAL, uvs_jobs_list(jobs, &filter, 0, 1, NULL, NULL));
  q.name = "uvs.cron";
  EQ(UV_EINVAL, uvs_jobs_set_queue(jobs, &q, NULL, NULL));
  q = engine_queue("n");
  q.rate = -2;
  EQ(UV_EINVAL, uvs_jobs_set_queue(jobs, &q, NULL, NULL));
  q = engine_queue("n");
  q.rate_ns = 0;
  EQ(UV_EINVAL, uvs_jobs_set_queue(jobs, &q, NULL, NULL));
  q = engine_queue("n");
  q.paused = 2;
  EQ(UV_EINVAL, uvs_jobs_set_queue(jobs, &q, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_set_queue(jobs, NULL, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_remove_cron(jobs, "a b", NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_stats(NULL, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_next_due(NULL, &due_ns));
  EQ(UV_EINVAL, uvs_jobs_next_due(jobs, NULL));
  EQ(UV_EINVAL, uvs_jobs_wake(NULL));
  engine_close(f);
  PASS();
}

TEST wrong_options_of_a_handler_are_refused(void) {
  struct engine *f = engine_start();
  uvs_jobs_t *jobs = f->nodes[0].jobs;

  for (int i = 0; i < 10; i++) {
    uvs_job_handler_t h = engine_handler();

    h.size = i == 0 ? 8 : h.size;
    h.lease_ns = i == 1 ? UVS_MS(100) - 1 : h.lease_ns;
    h.concurrency = i == 2 ? -1 : h.concurrency;
    h.retry.wait_ns = i == 3 ? -1 : h.retry.wait_ns;
    h.retry.max_wait_ns = i == 4 ? -1 : h.retry.max_wait_ns;
    h.retry.jitter_percent = i == 5 ? 101 : i == 6 ? -1 : 0;
    h.limit_ns = i == 7 ? -1 : 0;
    h.queue = i == 8 ? "a b" : NULL;
    EQ(i == 9 ? 0 : UV_EINVAL, uvs_jobs_handle(jobs, "n", engine_probe_run, NULL, &h));
  }
  EQ(UV_EINVAL, uvs_jobs_handle(jobs, "a b", engine_probe_run, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_handle(jobs, NULL, engine_probe_run, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_handle(jobs, "m", NULL, NULL, NULL));
  EQ(UV_EINVAL, uvs_jobs_handle(NULL, "m", engine_probe_run, NULL, NULL));
  engine_close(f);
  PASS();
}

static int make_wrong_calls(struct probe *p, uvs_job_t *job) {
  static const char bytes[UVS_JOB_RESULT_MAX + 1];
  uvs_job_spec_t spec = engine_spec("a b", NULL), good = engine_spec("n", NULL);

  p->number =
      uvs_job_progress(job, bytes, UVS_JOB_PROGRESS_MAX + 1) == UV_E2BIG &&
      uvs_job_result(job, bytes, UVS_JOB_RESULT_MAX + 1) == UV_E2BIG &&
      uvs_job_error(job, NULL) == UV_EINVAL && uvs_job_put(job, &spec) == UV_EINVAL &&
      uvs_job_put(job, NULL) == UV_EINVAL && uvs_job_extend(job, 0) == UV_EINVAL &&
      uvs_job_extend(job, UVS_NEVER) == UV_EINVAL && uvs_job_retry_at(job, 0) == UV_EINVAL &&
      uvs_job_finish(job, UVS_PENDING) == UV_EINVAL &&
      uvs_job_progress(job, NULL, 1) == UV_EINVAL && uvs_job_result(job, NULL, 1) == UV_EINVAL &&
      uvs_job_cancelled(NULL) == 0 && uvs_job_lost(NULL) == 0 &&
      uvs_job_progress(NULL, bytes, 1) == UV_EINVAL &&
      uvs_job_result(NULL, bytes, 1) == UV_EINVAL && uvs_job_error(NULL, "no") == UV_EINVAL &&
      uvs_job_put(NULL, &good) == UV_EINVAL && uvs_job_extend(NULL, 1) == UV_EINVAL &&
      uvs_job_retry_at(NULL, 1) == UV_EINVAL && uvs_job_finish(NULL, 0) == UV_EINVAL;
  return 0;
}

TEST wrong_calls_of_a_handler_are_refused_and_its_job_is_done_all_the_same(void) {
  struct engine *f = engine_start();
  struct probe *p = engine_handle(f, "n", NULL);

  p->act = make_wrong_calls;
  EQ(0, engine_put_simple(f, "n", "a", 0));
  EQ(1, p->number);
  EQ(UVS_JOB_DONE, engine_state(f, "n/a"));
  engine_close(f);
  PASS();
}

/* -------------------------------------------------------------------- crons --- */

static void wrong_cron(int i, uvs_job_cron_t *c) {
  *c = engine_cron_spec("c", "0 9 * * *");
  switch (i) {
  case 0:
    c->name = NULL;
    break;
  case 1:
    c->revision = 0;
    break;
  case 2:
    c->expression = NULL;
    break;
  case 3:
    c->misfire = 3;
    break;
  case 4:
    c->misfire = UVS_MISFIRE_ALL;
    break;
  case 5:
    c->max_missed = 1;
    break;
  case 6:
    c->overlap = 2;
    break;
  case 7:
    c->spec.name = "a b";
    break;
  case 8:
    c->spec.id = "a";
    break;
  case 9:
    c->spec.delay_ns = 1;
    break;
  case 10:
    c->expression = "@every 500ms";
    break;
  case 11:
    c->expression = "61 * * * *";
    break;
  default:
    c->zone = "Nowhere/Nothing";
  }
}

/* Q7 */
TEST each_wrong_field_of_a_cron_is_refused_and_named(void) {
  static const char *const beginnings[] = {
      "name is missing",
      "revision is 0",
      "expression is missing",
      "misfire is not a UVS_MISFIRE_...",
      "max_missed is not in the range 1 to 1000",
      "max_missed is only for UVS_MISFIRE_ALL",
      "overlap is not a UVS_CRON_...",
      "name has a character",
      "spec has an id, a key or a time: the cron sets them",
      "spec has an id, a key or a time: the cron sets them",
      "the interval of @every is shorter than 1s",
      "minute: ",
      "zone: ",
  };
  struct engine *f = engine_start();

  for (int i = 0; i < (int)(sizeof beginnings / sizeof *beginnings); i++) {
    uvs_job_cron_t c;
    char text[300] = "";
    int rc;

    wrong_cron(i, &c);
    rc = uvs_jobs_cron(f->nodes[0].jobs, &c, NULL, NULL, text, sizeof text);
    ASSERT(rc == UV_EINVAL || (i == 12 && rc == UV_ENOENT));
    if (strncmp(text, beginnings[i], strlen(beginnings[i])) != 0)
      FAILm(text);
    EQ(rc, uvs_jobs_cron(f->nodes[0].jobs, &c, NULL, NULL, NULL, 0));
  }
  EQ(UV_EINVAL, uvs_jobs_cron(f->nodes[0].jobs, NULL, NULL, NULL, NULL, 0));
  EQ(0, engine_crons(f));
  EQ(0, f->last.count);
  engine_close(f);
  PASS();
}

/* --------------------------------------------------------------------- open --- */

/* Q7 */
TEST each_wrong_option_of_an_open_is_refused_and_named(void) {
  static const char *const texts[] = {
      "store is missing: write \"sqlite:FILE\", \"redis://HOST\" or \"memory:\"",
      "store begins with none of \"sqlite:\", \"redis:\" and \"memory:\"",
      "put_timeout_ns is negative",
      "max_queued is 0",
      "dead_age_ns is not positive",
      "max_payload_bytes is not in the range 1 to 1114112",
      "max_payload_bytes is not in the range 1 to 1114112",
      "clock has only one of monotonic_ns and wall_ns",
      "an argument is NULL, or the options were not initialized",
  };
  struct engine *f = engine_start();
  uvs_jobs_t *jobs;
  char text[200];

  for (int i = 0; i < (int)(sizeof texts / sizeof *texts); i++) {
    uvs_jobs_options_t o = f->options;

    o.store = i == 0 ? NULL : i == 1 ? "mysql:x" : f->store;
    o.put_timeout_ns = i == 2 ? -1 : o.put_timeout_ns;
    o.max_queued = i == 3 ? 0 : o.max_queued;
    o.dead_age_ns = i == 4 ? 0 : o.dead_age_ns;
    o.max_payload_bytes = i == 5 ? 0 : i == 6 ? UVS_JOB_PAYLOAD_MAX + 1 : o.max_payload_bytes;
    o.clock.wall_ns = i == 7 ? NULL : o.clock.wall_ns;
    o.size = i == 8 ? 8 : o.size;
    EQ(UV_EINVAL, uvs_jobs_open(f->s, &o, &jobs, text, sizeof text));
    SAYS(texts[i], text);
    EQ(UV_EINVAL, uvs_jobs_open(f->s, &o, &jobs, NULL, 0));
  }
  EQ(UV_EINVAL, uvs_jobs_open(f->s, NULL, &jobs, NULL, 0));
  EQ(UV_EINVAL, uvs_jobs_open(NULL, &f->options, &jobs, NULL, 0));
  EQ(UV_EINVAL, uvs_jobs_open(f->s, &f->options, NULL, NULL, 0));
  engine_close(f);
  PASS();
}

/* --------------------------------------------------------------- max_queued --- */

/* Q9 */
TEST above_max_queued_calls_are_refused_until_callbacks_have_come(void) {
  struct engine *f = engine_new();
  uvs_job_spec_t spec = engine_spec("n", NULL);
  struct answer a;

  f->options.max_queued = 10;
  engine_open(f);
  answer_init(&a, f);
  for (int i = 0; i < 10; i++)
    EQ(0, uvs_jobs_put(f->nodes[0].jobs, &spec, answer_put, &a));
  EQ(UV_EAGAIN, uvs_jobs_put(f->nodes[0].jobs, &spec, no_put, NULL));
  EQ(UV_EAGAIN, uvs_jobs_cancel(f->nodes[0].jobs, "n/a", NULL, NULL));
  EQ(0, uvs_jobs_wait(f->nodes[0].jobs, "n/none", UVS_NEVER, NULL, NULL)); /* does not count */
  engine_quiesce(f);
  EQ(10, a.calls);
  for (int i = 0; i < 50; i++)
    EQ(0, engine_put_simple(f, "n", NULL, 0));
  EQ(0, engine_stats(f));
  EQ(60, f->last.stats.pending);
  engine_close(f);
  PASS();
}

/* -------------------------------------------------------------------- texts --- */

TEST codes_states_and_events_have_texts(void) {
  static const int codes[] = {UVS_EUNKNOWN, UVS_EDOWN, UVS_ELOST, UVS_JOB_EXISTS, UV_ENOENT};

  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
    for (size_t k = 0; k < i; k++)
      ASSERT(strcmp(uvs_jobs_strerror(codes[i]), uvs_jobs_strerror(codes[k])) != 0);
  SAYS(uvs_strerror(UV_EIO), uvs_jobs_strerror(UV_EIO));
  for (int i = UVS_JOB_PENDING; i <= UVS_JOB_REPLACED; i++)
    ASSERT(strcmp(uvs_job_state_name(i), "?") != 0);
  for (int i = UVS_EVENT_DEAD; i <= UVS_EVENT_STORE_UNSAFE; i++)
    ASSERT(strcmp(uvs_jobs_event_name(i), "?") != 0);
  SAYS("?", uvs_job_state_name(-1));
  SAYS("?", uvs_job_state_name(UVS_JOB_REPLACED + 1));
  SAYS("?", uvs_jobs_event_name(UVS_EVENT_STORE_UNSAFE + 1));
  PASS();
}

SUITE(errors) {
  RUN_TEST(each_wrong_field_of_a_spec_is_refused_and_named);
  RUN_TEST(payloads_up_to_max_payload_bytes_are_put_and_run);
  RUN_TEST(the_longest_values_are_accepted);
  RUN_TEST(wrong_arguments_of_calls_are_refused);
  RUN_TEST(wrong_options_of_a_handler_are_refused);
  RUN_TEST(wrong_calls_of_a_handler_are_refused_and_its_job_is_done_all_the_same);
  RUN_TEST(each_wrong_field_of_a_cron_is_refused_and_named);
  RUN_TEST(each_wrong_option_of_an_open_is_refused_and_named);
  RUN_TEST(above_max_queued_calls_are_refused_until_callbacks_have_come);
  RUN_TEST(codes_states_and_events_have_texts);
}

TEST_MAIN(ON_EVERY_STORE(RUN_SUITE(errors)));
