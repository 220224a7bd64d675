/* SPDX-License-Identifier: MIT
 *
 * jobs_list: ls, dead and show. A list is printed page by page, as the pages come.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "jobs.h"

#define PAGE 1000

struct list {
  struct jobs_store store;
  bool json, letters, colours;
  int state; /* print only these; 0: all */
  uint64_t printed;
  int64_t next; /* the cursor of the next page; 0: there is none */
};

static const char *priority_name(int priority) {
  return priority == UVS_PRIORITY_NORMAL  ? "normal"
         : priority > UVS_PRIORITY_NORMAL ? "high"
                                          : "low";
}

/* ------------------------------------------------------------------- JSON --- */

static void print_json(const uvs_job_info_t *info, bool with_bytes) {
  bool running = info->state == UVS_JOB_RUNNING, ended = info->ended_ns != 0;

  fputs("{\"id\": ", stdout);
  cli_write_json(stdout, info->id);
  jobs_json_text("name", info->name);
  jobs_json_text("queue", info->queue);
  jobs_json_text("state", uvs_job_state_name(info->state));
  jobs_json_text("key", info->key);
  jobs_json_text("priority", priority_name(info->priority));
  jobs_json_time("due", running || ended ? 0 : info->due_ns);
  jobs_json_time("lease_ends", running ? info->due_ns : 0);
  jobs_json_time("put", info->put_ns);
  jobs_json_time("ended", info->ended_ns);
  jobs_json_number("attempts", info->attempts);
  jobs_json_number("crashes", info->crashes);
  printf(", \"cancelling\": %s", info->cancelling ? "true" : "false");
  jobs_json_text("error", info->error == NULL || *info->error == '\0' ? NULL : info->error);
  if (with_bytes) {
    jobs_json_bytes("payload", info->payload, info->payload_size);
    jobs_json_bytes("meta", info->meta, info->meta_size);
    jobs_json_bytes("progress", info->progress, info->progress_size);
    jobs_json_bytes("result", info->result, info->result_size);
  }
  putchar('}');
}

/* ------------------------------------------------------------------ table --- */

static int id_width(const uvs_job_info_t *list, size_t n) {
  size_t width = 16;

  for (size_t i = 0; i < n; i++) {
    if (strlen(list[i].id) > width)
      width = strlen(list[i].id);
  }
  return (int)width;
}

static void print_head(const struct list *l, int width) {
  cli_set_colour(l->colours, CLI_BOLD);
  if (l->letters)
    printf("%-*s  attempts  crashes  died, and why", width, "id");
  else
    printf("%-*s  state      attempts  when", width, "id");
  cli_set_colour(l->colours, CLI_PLAIN);
  putchar('\n');
}

static void print_when(const uvs_job_info_t *info, int64_t now_ns) {
  int64_t at_ns = info->ended_ns != 0 ? info->ended_ns : info->due_ns;

  printf("%s ", info->ended_ns != 0              ? "ended"
                : info->state == UVS_JOB_RUNNING ? "lease ends"
                                                 : "due");
  jobs_print_time(at_ns, now_ns);
}

static int state_colour(const uvs_job_info_t *info, int64_t now_ns) {
  if (info->state == UVS_JOB_DEAD)
    return CLI_RED;
  if (info->state == UVS_JOB_RUNNING)
    return CLI_CYAN;
  return info->state == UVS_JOB_PENDING && info->due_ns < now_ns ? CLI_YELLOW : CLI_PLAIN;
}

static void print_text_note(const char *name, const char *text) {
  printf(", %s ", name);
  cli_write_plain(stdout, text);
}

/* Prints after the row the fields that most jobs do not have. */
static void print_notes(const uvs_job_info_t *info) {
  if (strcmp(info->name, info->queue) != 0)
    print_text_note("name", info->name);
  if (info->key != NULL)
    print_text_note("key", info->key);
  if (info->priority != UVS_PRIORITY_NORMAL)
    printf(", %s priority", priority_name(info->priority));
  if (info->crashes > 0)
    printf(", crashes %u", (unsigned)info->crashes);
  if (info->cancelling)
    fputs(", cancelled while it runs", stdout);
  if (info->error != NULL && *info->error != '\0')
    print_text_note("error:", info->error);
}

static void print_row(const struct list *l, const uvs_job_info_t *info, int width, int64_t now_ns) {
  printf("%-*s  ", width, info->id);
  if (l->letters) {
    printf("%8u  %7u  ", (unsigned)info->attempts, (unsigned)info->crashes);
    jobs_print_time(info->ended_ns, now_ns);
    fputs(": ", stdout);
    cli_write_plain(stdout, info->error);
  } else {
    cli_set_colour(l->colours, state_colour(info, now_ns));
    printf("%-9s", uvs_job_state_name(info->state));
    cli_set_colour(l->colours, CLI_PLAIN);
    printf("  %8u  ", (unsigned)info->attempts);
    print_when(info, now_ns);
    print_notes(info);
  }
  putchar('\n');
}

static void on_page(uvs_jobs_t *jobs, int status, const uvs_job_info_t *page, size_t n,
                    int64_t next, void *arg) {
  struct list *l = arg;
  int64_t now_ns = jobs_now();
  int width = status == 0 ? id_width(page, n) : 0;

  if (status == 0) {
    l->next = next;
    if (!l->json && l->printed == 0 && n > 0)
      print_head(l, width);
    for (size_t i = 0; i < n; i++) {
      if (l->state != 0 && page[i].state != l->state)
        continue;
      if (l->json) {
        fputs(l->printed == 0 ? "\n  " : ",\n  ", stdout);
        print_json(&page[i], l->letters);
      } else {
        print_row(l, &page[i], width, now_ns);
      }
      l->printed++;
    }
  }
  jobs_answered(jobs, status, &l->store);
}

/* --------------------------------------------------------------- commands --- */

static int print_pages(struct list *l, const uvs_job_filter_t *f, int64_t cursor, uint64_t limit) {
  bool progress = isatty(STDERR_FILENO) && !isatty(STDOUT_FILENO);
  bool shown = false;
  int rc;

  if (l->json)
    putchar('[');
  do {
    uint64_t left = limit - l->printed;

    rc = uvs_jobs_list(l->store.jobs, f, cursor, left < PAGE ? (uint32_t)left : PAGE, on_page, l);
    rc = jobs_wait(&l->store, rc, NULL);
    cursor = l->next;
    if (rc == 0 && cursor != 0 && progress && l->printed < limit) {
      fprintf(stderr, "\r%llu jobs ", (unsigned long long)l->printed);
      shown = true;
    }
  } while (rc == 0 && cursor != 0 && l->printed < limit && !ferror(stdout));
  if (shown)
    fputs("\r\033[K", stderr);
  if (l->json)
    fputs(l->printed == 0 ? "]\n" : "\n]\n", stdout);
  if (rc != 0)
    return jobs_failed(&l->store, "the jobs cannot be listed", rc);
  if (!l->json && l->printed == 0)
    cli_complain("there are no such %s", l->letters ? "dead letters" : "jobs");
  if (cursor != 0 && !ferror(stdout)) {
    fflush(stdout);
    cli_complain("there may be more: add --cursor %lld, or --all", (long long)cursor);
  }
  return 0;
}

/* In a filter, UVS_JOB_DONE means all jobs that have ended and are not dead letters. */
static bool read_state(const char *command, const char *value, int *ret_listed, int *ret_shown) {
  static const int states[] = {UVS_JOB_PENDING,   UVS_JOB_RUNNING,  UVS_JOB_HELD, UVS_JOB_DONE,
                               UVS_JOB_CANCELLED, UVS_JOB_REPLACED, UVS_JOB_DEAD};
  int choice = value == NULL ? 0
                             : cli_read_choice(command, "--state", value,
                                               "pending running held done cancelled replaced dead");

  if (value == NULL || choice < 0)
    return choice >= 0;
  *ret_shown = *ret_listed = states[choice];
  if (*ret_shown == UVS_JOB_CANCELLED || *ret_shown == UVS_JOB_REPLACED)
    *ret_listed = UVS_JOB_DONE;
  return true;
}

static bool read_cursor(const char *command, const char *value, int64_t *ret) {
  char *end;

  if (value == NULL)
    return true;
  *ret = strtoll(value, &end, 10);
  if (*value >= '1' && *value <= '9' && *end == '\0')
    return true;
  cli_usage_error(
      command, "--cursor is '%.60s': write the number that the previous list has printed", value);
  return false;
}

static int list(const struct jobs_command *command, int argc, char **argv, bool letters) {
  const char *store = NULL, *state = NULL, *limit_text = NULL, *cursor_text = NULL;
  bool all = false, overdue = false;
  struct list l = {.letters = letters};
  uvs_job_filter_t f;
  int limit = 100, rc;
  int64_t cursor = 0;
  const struct cli_option options[] = {
      {"--store", &store, NULL},      {"--queue", &f.queue, NULL}, {"--name", &f.name, NULL},
      {"--limit", &limit_text, NULL}, {"--all", NULL, &all},       {"--cursor", &cursor_text, NULL},
      {"--json", NULL, &l.json},      {"--state", &state, NULL}, /* the last two: only ls */
      {"--overdue", NULL, &overdue},
  };
  size_t n = sizeof options / sizeof options[0] - (letters ? 2 : 0);

  uvs_job_filter_init(&f);
  if (!jobs_read_args(command, argc, argv, options, n, NULL, 0, 0, NULL, &rc))
    return rc;
  if (!jobs_read_number(argv[0], "--limit", limit_text, &limit) ||
      !read_cursor(argv[0], cursor_text, &cursor) ||
      !read_state(argv[0], state, &f.state, &l.state))
    return CLI_USAGE;
  if (limit == 0)
    return cli_usage_error(argv[0], "--limit is 0: write 1 or more, or --all instead");
  if (all && limit_text != NULL)
    return cli_usage_error(argv[0], "--limit and --all are both given: write only one of them");
  if (letters)
    f.state = UVS_JOB_DEAD;
  if (overdue && f.state != 0 && f.state != UVS_JOB_PENDING)
    return cli_usage_error(argv[0], "--overdue is about pending jobs: leave --state out");
  f.overdue = overdue;
  l.colours = cli_has_colours();
  rc = jobs_open(&l.store, argv[0], store, false, NULL, NULL);
  if (rc != 0)
    return rc;
  return jobs_close(&l.store, print_pages(&l, &f, cursor, all ? UINT64_MAX : (uint64_t)limit));
}

static int run_ls(int argc, char **argv) {
  return list(&jobs_ls, argc, argv, false);
}

static int run_dead(int argc, char **argv) {
  return list(&jobs_dead, argc, argv, true);
}

/* ------------------------------------------------------------------- show --- */

struct show {
  struct jobs_store store;
  bool json;
};

static void print_field(const char *name, const char *text) {
  printf("%-9s ", name);
  cli_write_plain(stdout, text);
  putchar('\n');
}

static void print_time_field(const char *name, int64_t at_ns, int64_t now_ns) {
  if (at_ns == 0)
    return;
  printf("%-9s ", name);
  jobs_print_time(at_ns, now_ns);
  putchar('\n');
}

/* Prints UTF-8 line by line, indented, with ? for control characters. Those from U+0080 to U+009F
 * have two bytes, and terminals obey them too. */
static void print_lines(const unsigned char *p, size_t size) {
  for (size_t i = 0; i < size; i++) {
    bool is_c1 = p[i] == 0xc2 && p[i + 1] < 0xa0;

    if (i == 0 || p[i - 1] == '\n')
      fputs("\n  ", stdout);
    if (p[i] != '\n')
      putchar(p[i] >= 0x20 && p[i] != 0x7f && !is_c1 ? p[i] : '?');
    i += is_c1;
  }
}

static void print_bytes_field(const char *name, const void *data, size_t size) {
  bool text = cli_is_utf8(data, size);

  if (size == 0)
    return;
  printf("%-9s %zu bytes%s", name, size, text ? "" : ", not text: --json shows them in base64");
  if (text)
    print_lines(data, size);
  putchar('\n');
}

static void print_job(const uvs_job_info_t *info) {
  int64_t now_ns = jobs_now();
  bool running = info->state == UVS_JOB_RUNNING;

  print_field("id", info->id);
  print_field("name", info->name);
  print_field("state", uvs_job_state_name(info->state));
  if (info->cancelling)
    print_field("", "cancelled, but it still runs");
  if (info->ended_ns == 0)
    print_time_field(running ? "lease end" : "due", info->due_ns, now_ns);
  print_time_field("ended", info->ended_ns, now_ns);
  print_time_field("put", info->put_ns, now_ns);
  print_field("priority", priority_name(info->priority));
  if (info->key != NULL)
    print_field("key", info->key);
  printf("%-9s %u\n", "attempts", (unsigned)info->attempts);
  printf("%-9s %u\n", "crashes", (unsigned)info->crashes);
  if (info->error != NULL && *info->error != '\0')
    print_field("error", info->error);
  print_bytes_field("payload", info->payload, info->payload_size);
  print_bytes_field("meta", info->meta, info->meta_size);
  print_bytes_field("progress", info->progress, info->progress_size);
  print_bytes_field("result", info->result, info->result_size);
}

static void on_job(uvs_jobs_t *jobs, int status, const uvs_job_info_t *info, void *arg) {
  struct show *show = arg;

  if (status == 0 && show->json) {
    print_json(info, true);
    putchar('\n');
  } else if (status == 0) {
    print_job(info);
  }
  jobs_answered(jobs, status, &show->store);
}

static int run_show(int argc, char **argv) {
  const char *store = NULL, *id;
  struct show show = {.json = false};
  const struct cli_option options[] = {{"--store", &store, NULL}, {"--json", NULL, &show.json}};
  int rc;

  if (!jobs_read_args(&jobs_show, argc, argv, options, 2, &id, 1, 1, "an ID", &rc))
    return rc;
  if (!jobs_check_id(argv[0], id))
    return CLI_USAGE;
  rc = jobs_open(&show.store, argv[0], store, false, NULL, NULL);
  if (rc != 0)
    return rc;
  rc = jobs_wait(&show.store, uvs_jobs_get(show.store.jobs, id, on_job, &show), NULL);
  if (rc == UV_ENOENT) {
    cli_complain("there is no job %s, or it has ended and is not kept any more", id);
    rc = CLI_FAILED;
  } else if (rc != 0) {
    rc = jobs_failed(&show.store, "the job cannot be read", rc);
  }
  return jobs_close(&show.store, rc);
}

/* -------------------------------------------------------------------- help --- */

#define PAGING \
  "  --limit NUMBER       list at most this many; default 100\n" \
  "  --all                list all of them\n" \
  "  --cursor CURSOR      continue an earlier list: the number that it printed to stderr\n" \
  "  --json               one array of objects\n" \
  "  --help               this text\n"

const struct jobs_command jobs_ls = {
    "ls", run_ls, "list jobs",
    "usage: uvsched jobs ls --store STORE [OPTIONS]\n"
    "\n"
    "Lists the jobs that have not ended, in the order in which they were put.\n"
    "\n"
    "options:\n"
    "  --store STORE        sqlite:FILE or redis://HOST\n"
    "  --queue QUEUE        only jobs of this queue\n"
    "  --name NAME          only jobs of this name\n"
    "  --state STATE        only jobs in this state:\n"
    "                         pending    not due yet, or due and not started\n"
    "                         running    some program runs it\n"
    "                         held       waits for the run of the job that it replaces\n"
    "                         done       succeeded; as long as it is kept (put --keep)\n"
    "                         cancelled  by `uvsched jobs cancel`; as long as it is kept\n"
    "                         replaced   by a later job with its key; as long as it is kept\n"
    "                         dead       given up; `uvsched jobs dead` shows the reasons\n"
    "  --overdue            only pending jobs that are due already\n" PAGING "\n"
    "examples:\n"
    "  uvsched jobs ls --store sqlite:jobs.db --queue rate-ride --overdue\n"
    "  uvsched jobs ls --store sqlite:jobs.db --all --json | jq -r '.[].id'\n"
    "\n"
    "exit status: 0, also if there is no such job; 1 the store cannot be used; 2 the command line\n"
    "is wrong.\n"};

const struct jobs_command jobs_dead = {
    "dead", run_dead, "list dead letters: jobs that were given up, with the reason",
    "usage: uvsched jobs dead --store STORE [OPTIONS]\n"
    "\n"
    "Lists the dead letters: jobs that failed or crashed too often and were given up. They stay "
    "in\n"
    "the store until `uvsched jobs redrive` makes them jobs again, or `uvsched jobs purge` "
    "removes\n"
    "them. The store removes dead letters that are older than 90 days.\n"
    "\n"
    "options:\n"
    "  --store STORE        sqlite:FILE or redis://HOST\n"
    "  --queue QUEUE        only jobs of this queue\n"
    "  --name NAME          only jobs of this name\n" PAGING "\n"
    "exit status: 0, also if there are none; 1 the store cannot be used; 2 the command line is "
    "wrong.\n"};

const struct jobs_command jobs_show = {
    "show", run_show, "show one job with its payload",
    "usage: uvsched jobs show ID --store STORE [--json]\n"
    "\n"
    "Shows one job: its state, when it is due, how often it failed, its payload. A job that has\n"
    "ended is shown until 30 s after it was put, and for as long after its end as `put --keep`\n"
    "says.\n"
    "\n"
    "options:\n"
    "  --store STORE        sqlite:FILE or redis://HOST\n"
    "  --json               one object. Payload, meta, progress and result are text if they are\n"
    "                       UTF-8; otherwise the member is payload_base64 and so on.\n"
    "  --help               this text\n"
    "\n"
    "exit status: 0; 1 there is no such job, or the store cannot be used; 2 the command line is\n"
    "wrong.\n"};
