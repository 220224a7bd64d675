/* SPDX-License-Identifier: MIT
 *
 * A store on several Redis servers, on the real clock: if a server is killed or stopped, the other
 * servers go on.
 */
#include <stdlib.h>
#include <string.h>

#include "engine_fixture.h"
#include "jobs/redis_slot.h"
#include "redis/redis_server.h"
#include "redis_ns.h"

#define JOBS 40

struct shards_test {
  struct engine *f;
  int runs[2 * JOBS];     /* of each job, by number */
  int ran, wanted;        /* runs altogether; until how many */
  int puts, put_ok, down; /* answers of puts */
  int wanted_puts;
  bool enough;
  char id[100];
};

static void look(struct shards_test *t) {
  t->enough = t->ran >= t->wanted && t->puts >= t->wanted_puts;
}

static int run_job(uvs_job_t *job) {
  struct shards_test *t = job->arg;
  int number;

  memcpy(&number, job->payload, sizeof number);
  t->runs[number]++;
  t->ran++;
  look(t);
  return 0;
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct shards_test *t = arg;

  (void)jobs;
  for (size_t i = 0; i < n; i++) {
    t->puts++;
    t->put_ok += results[i].status == 0;
    t->down += results[i].status == UVS_EDOWN || results[i].status == UVS_EUNKNOWN;
  }
  look(t);
}

/* Puts jobs `from` to `from + JOBS` as one call. */
static void put_jobs(struct shards_test *t, int from) {
  static char ids[2 * JOBS][20];
  static int numbers[2 * JOBS];
  uvs_job_spec_t specs[JOBS];

  for (int i = 0; i < JOBS; i++) {
    int n = from + i;

    numbers[n] = n;
    snprintf(ids[n], sizeof ids[n], "job-%d", n);
    uvs_job_spec_init(&specs[i]);
    specs[i].name = "n";
    specs[i].id = ids[n];
    specs[i].payload = &numbers[n];
    specs[i].payload_size = sizeof numbers[n];
  }
  if (uvs_jobs_put_many(t->f->nodes[0].jobs, specs, JOBS, on_put, t) != 0)
    abort();
}

/* How many of these jobs are on the second server? The first map sorts the sockets by name. */
static int count_second(int from) {
  bool swapped = strcmp(redis_ns_server(0)->socket, redis_ns_server(1)->socket) > 0;
  int n = 0;

  for (int i = from; i < from + JOBS; i++) {
    char rest[20];
    unsigned slot;

    snprintf(rest, sizeof rest, "job-%d", i);
    slot = uvs__redis_slot("n", rest, NULL);
    n += swapped ? slot < UVS__SLOTS / 2 : slot >= UVS__SLOTS / 2;
  }
  return n;
}

static void run_until(struct shards_test *t, int ran, int puts) {
  t->wanted = ran;
  t->wanted_puts = puts;
  look(t);
  engine_run_until(t->f, &t->enough);
}

static void begin(struct shards_test *t) {
  uvs_job_handler_t h = engine_handler();

  memset(t, 0, sizeof *t);
  t->f = engine_new();
  t->f->real_clock = true;
  t->f->options.put_timeout_ns = UVS_MS(600);
  strcpy(strstr(t->f->store, "timeout=20s"), "timeout=300ms");
  engine_open(t->f);
  h.lease_ns = UVS_SEC(3);
  if (uvs_jobs_handle(t->f->nodes[0].jobs, "n", run_job, t, &h) != 0)
    abort();
}

static bool event_has(const struct shards_test *t, const char *what, int server) {
  const char *at = strstr(t->f->events, what);

  return at != NULL && strstr(at, redis_ns_server(server)->socket) != NULL;
}

/* Does each event of this kind name a server? An event without a name is about the whole store. */
static bool all_name_a_server(const struct shards_test *t, const char *what) {
  for (const char *at = t->f->events; (at = strstr(at, what)) != NULL; at++)
    if (strncmp(at + strlen(what), " redis+unix://", 14) != 0)
      return false;
  return true;
}

/* The jobs of the other server run, puts to the dead one end with UVS_EDOWN, and all works again
 * after the restart. */
static enum greatest_test_res with_one_server_gone(struct shards_test *t, bool killed) {
  int second;

  begin(t);
  second = count_second(0);
  ASSERT(second > 0 && second < JOBS);
  put_jobs(t, 0);
  run_until(t, JOBS, JOBS);
  EQ(JOBS, t->put_ok);
  if (killed)
    redis_server_kill(redis_ns_server(1));
  else
    redis_server_pause(redis_ns_server(1));
  put_jobs(t, JOBS);
  second = count_second(JOBS);
  run_until(t, 2 * JOBS - second, 2 * JOBS);
  EQ(2 * JOBS - second, t->put_ok);
  EQ(second, t->down);
  ASSERT(event_has(t, "store down", 1));
  ASSERT(all_name_a_server(t, "store down"));
  ASSERT_FALSE(event_has(t, "store down", 0));
  if (killed)
    redis_ns_start_again(1);
  else
    redis_server_resume(redis_ns_server(1));
  do { /* the same ids again: those that are there stay as they are */
    t->puts = t->put_ok = t->down = 0;
    put_jobs(t, JOBS);
    run_until(t, 0, JOBS);
  } while (t->down > 0);
  run_until(t, 2 * JOBS, 0);
  for (int i = 0; i < 2 * JOBS; i++)
    EQ(1, t->runs[i]);
  ASSERT(event_has(t, "store up", 1));
  PASS();
}

/* Q66 */
TEST a_server_that_is_killed_does_not_stop_the_others(void) {
  static struct shards_test t;

  CHECK_CALL(with_one_server_gone(&t, true));
  engine_close(t.f);
  PASS();
}

/* Q66 */
TEST a_server_that_is_stopped_does_not_stop_the_others(void) {
  static struct shards_test t;

  CHECK_CALL(with_one_server_gone(&t, false));
  engine_close(t.f);
  PASS();
}

SUITE(shards) {
  RUN_TEST(a_server_that_is_killed_does_not_stop_the_others);
  RUN_TEST(a_server_that_is_stopped_does_not_stop_the_others);
}

TEST_MAIN(setenv("STORE", "redis2", 1); ON_EVERY_STORE(RUN_SUITE(shards)));
