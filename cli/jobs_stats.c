/* SPDX-License-Identifier: MIT
 *
 * jobs_stats: what is in the store now: as a table, as JSON, or in the format of Prometheus.
 */
#include <string.h>

#include "jobs.h"

enum { TABLE, JSON, PROMETHEUS };

struct stats {
  struct jobs_store store;
  int form;
};

static int write_out(const char *data, size_t size, void *arg) {
  (void)arg;
  return fwrite(data, 1, size, stdout) == size ? 0 : UV_EIO;
}

/* ------------------------------------------------------------------- JSON --- */

static void print_age(int64_t age_ns) {
  printf(", \"oldest_overdue_s\": %.3f", (double)age_ns / 1e9);
}

static void print_json(const uvs_jobs_stats_t *s) {
  printf("{\"pending\": %llu", (unsigned long long)s->pending);
  jobs_json_number("overdue", (int64_t)s->overdue);
  jobs_json_number("running", (int64_t)s->running);
  jobs_json_number("dead", (int64_t)s->dead);
  jobs_json_number("kept", (int64_t)s->kept);
  print_age(s->oldest_overdue_ns);
  fputs(", \"queues\": [", stdout);
  for (size_t i = 0; i < s->n_queues; i++) {
    const uvs_queue_stats_t *q = &s->queues[i];

    fputs(i == 0 ? "\n  {\"queue\": " : ",\n  {\"queue\": ", stdout);
    cli_write_json(stdout, q->queue);
    printf(", \"paused\": %s", q->paused ? "true" : "false");
    jobs_json_number("pending", (int64_t)q->pending);
    jobs_json_number("overdue", (int64_t)q->overdue);
    jobs_json_number("running", (int64_t)q->running);
    jobs_json_number("dead", (int64_t)q->dead);
    print_age(q->oldest_overdue_ns);
    jobs_json_number("concurrency", q->concurrency);
    jobs_json_number("rate", q->rate);
    printf(", \"rate_s\": %g", (double)q->rate_ns / 1e9);
    jobs_json_number("catch_up", q->catch_up_rate);
    putchar('}');
  }
  fputs(s->n_queues == 0 ? "]}\n" : "\n]}\n", stdout);
}

/* ------------------------------------------------------------------ table --- */

/* The overdue jobs, with the age of the oldest: 12 (3m). */
static void write_overdue(uint64_t overdue, int64_t oldest_ns, char ret[CLI_INSTANT_BYTES]) {
  char age[CLI_INSTANT_BYTES] = "";

  if (overdue > 0)
    jobs_write_distance(0, oldest_ns, age); /* "in 3m", "now" */
  if (strncmp(age, "in ", 3) == 0)
    snprintf(ret, CLI_INSTANT_BYTES, "%llu (%.20s)", (unsigned long long)overdue, age + 3);
  else
    snprintf(ret, CLI_INSTANT_BYTES, "%llu", (unsigned long long)overdue);
}

static void print_settings(const uvs_queue_stats_t *q) {
  if (q->paused)
    fputs("  paused", stdout);
  if (q->concurrency > 0)
    printf("  concurrency %lld", (long long)q->concurrency);
  if (q->rate > 0)
    printf("  rate %lld/%gs", (long long)q->rate, (double)q->rate_ns / 1e9);
  if (q->catch_up_rate > 0)
    printf("  catch-up %lld/1s", (long long)q->catch_up_rate);
}

static void print_table(const uvs_jobs_stats_t *s) {
  bool colours = cli_has_colours();
  char overdue[CLI_INSTANT_BYTES];
  int width = (int)strlen("all queues");

  for (size_t i = 0; i < s->n_queues; i++) {
    if ((int)strlen(s->queues[i].queue) > width)
      width = (int)strlen(s->queues[i].queue);
  }
  cli_set_colour(colours, CLI_BOLD);
  printf("%-*s  %10s  %14s  %8s  %8s  settings", width, "queue", "pending", "overdue (for)",
         "running", "dead");
  cli_set_colour(colours, CLI_PLAIN);
  putchar('\n');
  for (size_t i = 0; i < s->n_queues; i++) {
    const uvs_queue_stats_t *q = &s->queues[i];

    write_overdue(q->overdue, q->oldest_overdue_ns, overdue);
    printf("%-*s  %10llu  %14s  %8llu  ", width, q->queue, (unsigned long long)q->pending, overdue,
           (unsigned long long)q->running);
    cli_set_colour(colours, q->dead > 0 ? CLI_RED : CLI_PLAIN);
    printf("%8llu", (unsigned long long)q->dead);
    cli_set_colour(colours, CLI_PLAIN);
    print_settings(q);
    putchar('\n');
  }
  write_overdue(s->overdue, s->oldest_overdue_ns, overdue);
  printf("%-*s  %10llu  %14s  %8llu  %8llu\n", width, "all queues", (unsigned long long)s->pending,
         overdue, (unsigned long long)s->running, (unsigned long long)s->dead);
}

/* ---------------------------------------------------------------- command --- */

static void on_stats(uvs_jobs_t *jobs, int status, const uvs_jobs_stats_t *stats, void *arg) {
  struct stats *s = arg;

  if (status == 0 && s->form == JSON)
    print_json(stats);
  else if (status == 0 && s->form == PROMETHEUS)
    uvs_jobs_stats_write(stats, UVS_FORMAT_PROMETHEUS, write_out, NULL); /* main sees an error */
  else if (status == 0)
    print_table(stats);
  jobs_answered(jobs, status, &s->store);
}

static int run(int argc, char **argv) {
  const char *store = NULL;
  bool json = false, prometheus = false;
  const struct cli_option options[] = {
      {"--store", &store, NULL}, {"--json", NULL, &json}, {"--prometheus", NULL, &prometheus}};
  struct stats s;
  int rc;

  if (!jobs_read_args(&jobs_stats, argc, argv, options, 3, NULL, 0, 0, NULL, &rc))
    return rc;
  if (json && prometheus)
    return cli_usage_error(argv[0], "--json and --prometheus are both given: write only one");
  s.form = json ? JSON : prometheus ? PROMETHEUS : TABLE;
  rc = jobs_open(&s.store, argv[0], store, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&s.store, uvs_jobs_stats(s.store.jobs, on_stats, &s), "counting");
  if (rc != 0)
    rc = jobs_failed(&s.store, "the jobs cannot be counted", rc);
  return jobs_close(&s.store, rc);
}

const struct jobs_command jobs_stats = {
    "stats", run, "count jobs by queue, and show the settings of queues",
    "usage: uvsched jobs stats --store STORE [--json | --prometheus]\n"
    "\n"
    "Counts by queue what is in the store: pending jobs, how many of them are overdue (and for "
    "how\n"
    "long the oldest is), running jobs and dead letters. Shows the settings of each queue.\n"
    "\n"
    "options:\n"
    "  --store STORE        sqlite:FILE or redis://HOST\n"
    "  --json               one object, with an array of queues; a limit of 0 is no limit\n"
    "  --prometheus         the text format of Prometheus\n"
    "  --help               this text\n"
    "\n"
    "exit status: 0; 1 the store cannot be used; 2 the command line is wrong.\n"};
