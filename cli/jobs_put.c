/* SPDX-License-Identifier: MIT
 *
 * jobs_put: puts one job, and prints its id when the job is durable.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "jobs.h"

static const char help[] =
    "usage: uvsched jobs put --store STORE --name NAME [--in DURATION | --at TIME] [OPTIONS]\n"
    "\n"
    "Puts a job into the store, and prints its id. When the id is printed, the job is durable.\n"
    "In a SQLite file the job survives crashes and power failures. In Redis it does so only if\n"
    "appendfsync is always. A missing SQLite file is made.\n"
    "\n"
    "options:\n"
    "  --store STORE           sqlite:FILE or redis://HOST\n"
    "  --name NAME             the name of the job: programs that run jobs of this name run it\n"
    "  --in DURATION           due this long from now, such as 48h or 15d\n"
    "  --at TIME               due at this time, such as 2026-11-18T20:00:00Z; a past time means\n"
    "                          now. Without --in and --at the job is due now.\n"
    "  --payload TEXT          what the job gets, up to 1114112 bytes (1 MiB + 64 KiB)\n"
    "  --payload-file FILE     the same from a file; - reads the standard input\n"
    "  --id REST               the second part of the id, QUEUE/REST. A put with an id that the\n"
    "                          store knows changes nothing, so it can be repeated. The store\n"
    "                          forgets the id after the job has ended: see --keep. Without --id\n"
    "                          each put makes a new job.\n"
    "  --key KEY               of the jobs of the queue that have not ended, only one can have\n"
    "                          this key\n"
    "  --on-clash keep         if another job has the key: put nothing, and print the id of that\n"
    "                          job (default)\n"
    "             replace      the new job replaces that job\n"
    "             error        put nothing, and exit with 1\n"
    "  --queue QUEUE           the queue; default: the name\n"
    "  --priority high|normal|low  jobs of a higher priority start first; default normal\n"
    "  --keep DURATION         how long the store knows the job after its end: `show` tells how "
    "it\n"
    "                          ended, and a put with its id does not run it again. Default 0s. In\n"
    "                          any case the store knows it until 30 s after the put.\n"
    "  --help                  this text\n"
    "\n"
    "examples:\n"
    "  uvsched jobs put --store sqlite:jobs.db --name rate-ride --in 48h --payload '{\"ride\": "
    "4711}'\n"
    "  uvsched jobs put --store sqlite:jobs.db --name confirm --id order-17 --in 15d\n"
    "  tar c report | uvsched jobs put --store sqlite:jobs.db --name mail --payload-file -\n"
    "\n"
    "exit status: 0 the job is in the store; 1 it is not, or its id could not be printed; 2 the\n"
    "command line is wrong.\n";

struct put {
  struct jobs_store store;
  uvs_job_spec_t spec;
  int status;
};

/* If that fails, main says so; but a user must know that the job is there. */
static void print_id(const char *id) {
  printf("%s\n", id);
  if (fflush(stdout) != 0)
    cli_complain("%s is in the store, but its id could not be printed: %s", id,
                 uv_strerror(uv_translate_sys_error(errno)));
}

static void on_put(uvs_jobs_t *jobs, const uvs_put_result_t *results, size_t n, void *arg) {
  struct put *p = arg;

  (void)n;
  p->status = results->status;
  jobs_answered(jobs, 0, &p->store);
  switch (results->status) {
  case 0:
    print_id(results->id);
    break;
  case UVS_JOB_EXISTS:
    cli_complain("%s exists already, so nothing was put", results->id);
    print_id(results->id);
    break;
  case UV_EEXIST:
    cli_complain("the key %s is in use by %s, so nothing was put", p->spec.key, results->id);
    break;
  case UVS_EUNKNOWN:
    cli_complain(
        "%s did not answer, and the job may or may not have been put. Repeat the command with "
        "--id %s",
        p->store.name, strchr(results->id, '/') + 1);
    break;
  default:
    jobs_failed(&p->store, "the job was not put", results->status);
  }
}

/* Returns 0 or an exit status. */
static int check_spec(const char *command, const uvs_job_spec_t *spec) {
  char text[200];

  /* The text begins with the name of the field. The option has the same name. */
  return uvs_job_check(spec, text, sizeof text) == 0 ? 0 : cli_usage_error(command, "--%s", text);
}

static int put(const char *command, const char *store, struct put *p) {
  int rc = jobs_open(&p->store, command, store, true, NULL, NULL);

  if (rc != 0)
    return rc;
  rc = uvs_jobs_put(p->store.jobs, &p->spec, on_put, p);
  if (rc != 0)
    return jobs_close(&p->store, jobs_failed(&p->store, "the job was not put", rc));
  jobs_wait(&p->store, 0, NULL);
  return jobs_close(&p->store, p->status == 0 || p->status == UVS_JOB_EXISTS ? 0 : CLI_FAILED);
}

static int run(int argc, char **argv) {
  const char *store = NULL, *in = NULL, *at = NULL, *text = NULL, *file = NULL,
             *priority = "normal";
  const char *clash = NULL, *keep = NULL;
  struct put p = {0};
  const struct cli_option options[] = {
      {"--store", &store, NULL},
      {"--name", &p.spec.name, NULL},
      {"--in", &in, NULL},
      {"--at", &at, NULL},
      {"--payload", &text, NULL},
      {"--payload-file", &file, NULL},
      {"--id", &p.spec.id, NULL},
      {"--key", &p.spec.key, NULL},
      {"--on-clash", &clash, NULL},
      {"--queue", &p.spec.queue, NULL},
      {"--priority", &priority, NULL},
      {"--keep", &keep, NULL},
  };
  void *payload = NULL;
  int rc, choice;

  uvs_job_spec_init(&p.spec);
  if (!jobs_read_args(&jobs_put, argc, argv, options, sizeof options / sizeof options[0], NULL, 0,
                      0, NULL, &rc))
    return rc;
  if (!jobs_read_when(argv[0], in, at, &p.spec.delay_ns, &p.spec.at_ns) ||
      !jobs_read_duration(argv[0], "--keep", keep, &p.spec.keep_done_ns))
    return CLI_USAGE;
  choice = cli_read_choice(argv[0], "--priority", priority, "low normal high");
  if (choice < 0)
    return CLI_USAGE;
  p.spec.priority = choice + UVS_PRIORITY_LOW;
  if (clash != NULL && p.spec.key == NULL)
    return cli_usage_error(argv[0], "--on-clash is about a key: write --key KEY too");
  p.spec.key_policy =
      clash == NULL ? 0 : cli_read_choice(argv[0], "--on-clash", clash, "keep replace error");
  if (p.spec.key_policy < 0)
    return CLI_USAGE;
  rc = check_spec(argv[0], &p.spec);
  if (rc == 0)
    rc = jobs_check_store(argv[0], store, true); /* before reading the payload, which may wait */
  if (rc == 0)
    rc = jobs_read_payload(argv[0], text, file, &payload, &p.spec.payload_size);
  if (rc != 0)
    return rc;
  p.spec.payload = payload;
  rc = put(argv[0], store, &p);
  free(payload);
  return rc;
}

const struct jobs_command jobs_put = {"put", run, "put a job that is due later, or now", help};
