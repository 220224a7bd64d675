/* SPDX-License-Identifier: MIT
 *
 * jobs_reshard: adds Redis servers to a store and removes them, and prints the progress of the
 * move.
 */
#include <string.h>

#include "jobs.h"

#define SHOW_NS UVS_SEC(1) /* least time between two lines about batches */

struct reshard {
  bool json;
  uint64_t shown_ns; /* when the last line was printed; 0: no line yet */
  uint64_t running;  /* in the last line that was printed */
  uvs_reshard_progress_t last;
};

static const char *step_of(const uvs_reshard_progress_t *p) {
  switch (p->step) {
  case UVS_RESHARD_CHECK:
    return "check";
  case UVS_RESHARD_SWITCHED:
    return "switched";
  case UVS_RESHARD_WAITING:
    return "waiting";
  case UVS_RESHARD_DONE:
    return "done";
  default:
    return "moving";
  }
}

static void print_json(const uvs_reshard_progress_t *p) {
  printf("{\"step\": \"%s\"", step_of(p));
  jobs_json_text("server", p->server);
  jobs_json_number("generation", (int64_t)p->generation);
  jobs_json_number("slots", (int64_t)p->slots);
  jobs_json_number("jobs", (int64_t)p->jobs);
  jobs_json_number("dead", (int64_t)p->dead);
  jobs_json_number("ends", (int64_t)p->ends);
  jobs_json_number("running", (int64_t)p->running);
  puts("}");
}

static void print_moved(const uvs_reshard_progress_t *p) {
  printf("%llu jobs, %llu dead letters, %llu records of ends", (unsigned long long)p->jobs,
         (unsigned long long)p->dead, (unsigned long long)p->ends);
}

static void print_line(const uvs_reshard_progress_t *p) {
  switch (p->step) {
  case UVS_RESHARD_CHECK:
    puts("looking at the servers");
    break;
  case UVS_RESHARD_SWITCHED:
    printf("map %llu: %s\n", (unsigned long long)p->generation, p->server);
    break;
  case UVS_RESHARD_WAITING:
    if (p->running > 0)
      printf("waiting for %llu running jobs, at least one of them on %s\n",
             (unsigned long long)p->running, p->server);
    else
      puts("looking at the servers once more");
    break;
  case UVS_RESHARD_DONE:
    fputs("done: moved ", stdout);
    print_moved(p);
    printf("; the map has generation %llu\n", (unsigned long long)p->generation);
    break;
  default:
    fputs("moved ", stdout);
    print_moved(p);
    putchar('\n');
  }
}

/* Prints batches at most once a second, waiting if the number of jobs has changed, and all other
 * steps. */
static bool is_shown(const struct reshard *r, const uvs_reshard_progress_t *p, uint64_t now_ns) {
  switch (p->step) {
  case UVS_RESHARD_EXPORTED:
  case UVS_RESHARD_IMPORTED:
    return false;
  case UVS_RESHARD_MOVED:
    return now_ns - r->shown_ns >= (uint64_t)SHOW_NS;
  case UVS_RESHARD_WAITING:
    return r->last.step != UVS_RESHARD_WAITING || r->running != p->running;
  default:
    return true;
  }
}

static int on_progress(const uvs_reshard_progress_t *p, void *arg) {
  struct reshard *r = arg;
  uint64_t now_ns = uv_hrtime();

  if (is_shown(r, p, now_ns)) {
    if (r->json)
      print_json(p);
    else
      print_line(p);
    fflush(stdout);
    r->shown_ns = now_ns;
    r->running = p->running;
    r->last = *p;
  }
  return 0;
}

static int run(int argc, char **argv) {
  const char *store = NULL, *to = NULL;
  struct reshard r = {.json = false};
  const struct cli_option options[] = {
      {"--store", &store, NULL}, {"--to", &to, NULL}, {"--json", NULL, &r.json}};
  uvs_reshard_options_t reshard;
  char text[300];
  int rc;

  if (!jobs_read_args(&jobs_reshard, argc, argv, options, 3, NULL, 0, 0, NULL, &rc))
    return rc;
  if (store == NULL)
    return jobs_check_store(argv[0], store, false);
  if (!jobs_is_redis(store))
    return cli_usage_error(argv[0], "--store does not begin with redis://: only jobs in Redis can "
                                    "move to other servers");
  if (to == NULL)
    return cli_usage_error(argv[0], "--to is missing: write all servers that the store is to have, "
                                    "such as --to redis://HOST1,redis://HOST2");
  if (!jobs_is_redis(to))
    return cli_usage_error(argv[0], "--to does not begin with redis://");
  uvs_reshard_options_init(&reshard);
  reshard.store = store;
  reshard.to = to;
  reshard.on_progress = on_progress;
  reshard.arg = &r;
  rc = uvs_jobs_reshard(&reshard, text, sizeof text);
  if (rc == 0)
    return 0;
  cli_complain("%s", text);
  if (r.last.step > UVS_RESHARD_CHECK)
    cli_complain("the move is not finished: run the same command again to continue it");
  return CLI_FAILED;
}

const struct jobs_command jobs_reshard = {
    "reshard", run, "add or remove Redis servers, and move the jobs",
    "usage: uvsched jobs reshard --store STORE --to SERVERS [--json]\n"
    "\n"
    "Moves the jobs of a store in Redis, so that each server in SERVERS has an equal share. As "
    "few\n"
    "jobs as possible move. Programs may use the store during the move; they find the new servers\n"
    "without a restart. A running job that must move has to end first: the command waits for it.\n"
    "If the command is stopped or fails, run the same command again to continue the move. Until\n"
    "then the store works, but up to 200 jobs of each server wait.\n"
    "\n"
    "A new server must have no jobs in the namespace. A server of STORE that is not in SERVERS\n"
    "has no jobs after the move. Keep it running until all programs use the new name.\n"
    "\n"
    "  uvsched jobs reshard --store redis://h1 --to redis://h1,redis://h2\n"
    "\n"
    "options:\n"
    "  --store STORE        the store as it is: one of its servers is enough\n"
    "  --to SERVERS         all servers after the move, with commas between them\n"
    "  --json               print each step as a JSON object on its own line; the last step is\n"
    "                       \"done\"\n"
    "  --help               this text\n"
    "\n"
    "exit status: 0; 1 the move is not finished; 2 the command line is wrong.\n"};
