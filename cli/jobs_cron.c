/* SPDX-License-Identifier: MIT
 *
 * jobs_cron: crons in the store: ls, add and rm.
 */
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

static const char *const misfires[] = {"once", "skip", "all"}; /* UVS_MISFIRE_... */
static const char *const overlaps[] = {"queue", "skip"};       /* UVS_CRON_... */

/* --------------------------------------------------------------------- ls --- */

struct list {
  struct jobs_store store;
  bool json;
};

static void print_json(const uvs_cron_info_t *list, size_t n) {
  putchar('[');
  for (size_t i = 0; i < n; i++) {
    const uvs_cron_info_t *c = &list[i];

    fputs(i == 0 ? "\n  {\"cron\": " : ",\n  {\"cron\": ", stdout);
    cli_write_json(stdout, c->name);
    jobs_json_text("expression", c->expression);
    jobs_json_text("zone", c->zone == NULL ? "UTC" : c->zone);
    jobs_json_text("name", c->job_name);
    jobs_json_text("queue", c->queue);
    jobs_json_number("revision", (int64_t)c->revision);
    jobs_json_time("last", c->last_ns);
    jobs_json_time("next", c->next_ns);
    jobs_json_text("misfire", misfires[c->misfire]);
    jobs_json_number("max_missed", c->max_missed);
    jobs_json_text("overlap", overlaps[c->overlap]);
    putchar('}');
  }
  fputs(n == 0 ? "]\n" : "\n]\n", stdout);
}

static void print_table(const uvs_cron_info_t *list, size_t n) {
  int64_t now_ns = jobs_now();
  int width = (int)strlen("cron");

  for (size_t i = 0; i < n; i++) {
    if ((int)strlen(list[i].name) > width)
      width = (int)strlen(list[i].name);
  }
  cli_set_colour(cli_has_colours(), CLI_BOLD);
  printf("%-*s  revision  puts jobs", width, "cron");
  cli_set_colour(cli_has_colours(), CLI_PLAIN);
  putchar('\n');
  for (size_t i = 0; i < n; i++) {
    printf("%-*s  %8llu  %s at \"", width, list[i].name, (unsigned long long)list[i].revision,
           list[i].job_name);
    cli_write_plain(stdout, list[i].expression);
    printf("\" %s, next ", list[i].zone == NULL ? "UTC" : list[i].zone);
    if (list[i].next_ns == UVS_NEVER)
      fputs("never", stdout);
    else
      jobs_print_time(list[i].next_ns, now_ns);
    putchar('\n');
  }
}

static void on_crons(uvs_jobs_t *jobs, int status, const uvs_cron_info_t *list, size_t n,
                     void *arg) {
  struct list *l = arg;

  if (status == 0 && l->json)
    print_json(list, n);
  else if (status == 0 && n > 0)
    print_table(list, n);
  else if (status == 0)
    cli_complain("there are no crons");
  jobs_answered(jobs, status, &l->store);
}

static int run_ls(int argc, char **argv) {
  const char *store = NULL;
  struct list l = {.json = false};
  const struct cli_option options[] = {{"--store", &store, NULL}, {"--json", NULL, &l.json}};
  int rc;

  if (!jobs_read_args(&jobs_cron, argc, argv, options, 2, NULL, 0, 0, NULL, &rc))
    return rc;
  rc = jobs_open(&l.store, argv[0], store, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&l.store, uvs_jobs_crons(l.store.jobs, on_crons, &l), NULL);
  if (rc != 0)
    rc = jobs_failed(&l.store, "the crons cannot be listed", rc);
  return jobs_close(&l.store, rc);
}

/* ---------------------------------------------------------------- add, rm --- */

/* Returns 0 or an exit status. */
static int add(const char *command, const char *store_name, const uvs_job_cron_t *c) {
  struct jobs_store store;
  char text[300] = "";
  int rc = jobs_open(&store, command, store_name, true, NULL, NULL);

  if (rc != 0)
    return rc;
  rc = uvs_jobs_cron(store.jobs, c, jobs_answered, &store, text, sizeof text);
  if (rc == UV_EINVAL || rc == UV_ENOENT) /* what text says is wrong; UV_ENOENT: the zone */
    return jobs_close(&store, cli_usage_error(command, "%s", text));
  rc = jobs_wait(&store, rc, NULL);
  if (rc == UVS_JOB_EXISTS) {
    cli_complain("the store has %s with this revision or a higher one, so nothing was changed: to "
                 "change the cron, write a higher --revision than `uvsched jobs cron ls` shows",
                 c->name);
    rc = 0;
  } else if (rc == 0) {
    printf("%s is defined\n", c->name);
  } else {
    rc = jobs_failed(&store, "the cron was not defined", rc);
  }
  return jobs_close(&store, rc);
}

static bool read_rules(const char *command, const char *misfire, const char *max_missed,
                       const char *overlap, const char *revision, uvs_job_cron_t *c) {
  int number = 1;

  c->misfire = cli_read_choice(command, "--misfire", misfire, "once skip all");
  if (c->misfire < 0)
    return false;
  c->overlap = cli_read_choice(command, "--overlap", overlap, "queue skip");
  if (c->overlap < 0 || !jobs_read_number(command, "--revision", revision, &number))
    return false;
  c->revision = (uint64_t)number;
  number = 1000;
  if (!jobs_read_number(command, "--max-missed", max_missed, &number))
    return false;
  if (max_missed != NULL && c->misfire != UVS_MISFIRE_ALL) {
    cli_usage_error(command, "--max-missed needs --misfire all: write both");
    return false;
  }
  c->max_missed = c->misfire == UVS_MISFIRE_ALL ? (uint32_t)number : 0;
  return true;
}

static int run_add(int argc, char **argv) {
  const char *store = NULL, *text = NULL, *file = NULL, *misfire = "once", *overlap = "queue";
  const char *revision = NULL, *max_missed = NULL, *words[2];
  void *payload = NULL;
  uvs_job_cron_t c;
  const struct cli_option options[] = {
      {"--store", &store, NULL},           {"--name", &c.spec.name, NULL},
      {"--queue", &c.spec.queue, NULL},    {"--zone", &c.zone, NULL},
      {"--payload", &text, NULL},          {"--payload-file", &file, NULL},
      {"--revision", &revision, NULL},     {"--misfire", &misfire, NULL},
      {"--max-missed", &max_missed, NULL}, {"--overlap", &overlap, NULL},
  };
  int rc;

  uvs_job_cron_init(&c);
  if (!jobs_read_args(&jobs_cron, argc, argv, options, sizeof options / sizeof options[0], words, 2,
                      2, "a name and an expression in quotes", &rc))
    return rc;
  c.name = words[0];
  c.expression = words[1];
  if (c.spec.name == NULL)
    c.spec.name = c.name;
  if (!read_rules(argv[0], misfire, max_missed, overlap, revision, &c))
    return CLI_USAGE;
  rc = jobs_read_payload(argv[0], text, file, &payload, &c.spec.payload_size);
  if (rc != 0)
    return rc;
  c.spec.payload = payload;
  rc = add(argv[0], store, &c);
  free(payload);
  return rc;
}

static int run_rm(int argc, char **argv) {
  const char *store_name = NULL, *name;
  const struct cli_option options[] = {{"--store", &store_name, NULL}};
  struct jobs_store store;
  int rc;

  if (!jobs_read_args(&jobs_cron, argc, argv, options, 1, &name, 1, 1, "the name of a cron", &rc))
    return rc;
  rc = jobs_open(&store, argv[0], store_name, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&store, uvs_jobs_remove_cron(store.jobs, name, jobs_answered, &store), NULL);
  if (rc == 0) {
    printf("%s is removed\n", name);
  } else if (rc == UV_ENOENT || rc == UV_EINVAL) {
    cli_complain("there is no cron '%.80s'", name);
    rc = CLI_FAILED;
  } else {
    rc = jobs_failed(&store, "the cron was not removed", rc);
  }
  return jobs_close(&store, rc);
}

/* ---------------------------------------------------------------- command --- */

static const char help[] =
    "usage: uvsched jobs cron ls --store STORE [--json]\n"
    "       uvsched jobs cron add CRON \"EXPRESSION\" --store STORE [OPTIONS]\n"
    "       uvsched jobs cron rm CRON --store STORE\n"
    "\n"
    "A cron is in the store. At each of its times it puts one job, however many programs use the\n"
    "store. At least one program that runs jobs must have the store open, such as `uvsched jobs\n"
    "run`; --misfire says what happens to times that pass while there is none. `uvsched cron\n"
    "\"EXPRESSION\" ZONE` shows the times of an expression. The ids of the jobs are\n"
    "QUEUE/CRON@INSTANT.\n"
    "\n"
    "options:\n"
    "  --store STORE           sqlite:FILE or redis://HOST\n"
    "  --json                  ls: one array of objects\n"
    "  --help                  this text\n"
    "options of add:\n"
    "  --name NAME             the name of the jobs; default: CRON\n"
    "  --queue QUEUE           their queue; default: their name\n"
    "  --payload TEXT, --payload-file FILE   their payload\n"
    "  --zone ZONE             such as Europe/Berlin; default UTC\n"
    "  --revision NUMBER       of this definition; default 1. To change a cron, add it again with\n"
    "                          a higher number.\n"
    "  --misfire once|skip|all for times that passed more than a minute ago and got no job:\n"
    "                          once  put one job, for the newest of them (default)\n"
    "                          skip  put no job\n"
    "                          all   put one job for each\n"
    "  --max-missed NUMBER     with --misfire all: at most this many, 1 to 1000; default 1000\n"
    "  --overlap queue|skip    if an earlier job of the cron has not ended:\n"
    "                          queue  put the next job all the same (default)\n"
    "                          skip   do not put the next job\n"
    "\n"
    "example:\n"
    "  uvsched jobs cron add nightly \"0 3 * * *\" --zone Europe/Berlin --store sqlite:jobs.db\n"
    "\n"
    "exit status: 0; 1 there is no such cron, or the store cannot be used; 2 the command line is\n"
    "wrong.\n";

static int run(int argc, char **argv) {
  static const struct {
    char name[4], whole[16];
    int (*run)(int argc, char **argv);
  } commands[] = {{"ls", "jobs cron ls", run_ls},
                  {"add", "jobs cron add", run_add},
                  {"rm", "jobs cron rm", run_rm}};
  static char name[16];

  if (argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
    fputs(help, stdout);
    return 0;
  }
  for (size_t i = 0; argc > 1 && i < sizeof commands / sizeof commands[0]; i++) {
    if (strcmp(argv[1], commands[i].name) == 0) {
      strcpy(name, commands[i].whole);
      argv[1] = name;
      return commands[i].run(argc - 1, argv + 1);
    }
  }
  return cli_usage_error(argv[0], "write ls, add or rm after cron");
}

const struct jobs_command jobs_cron = {"cron", run, "list, add and remove crons: cron ls", help};
