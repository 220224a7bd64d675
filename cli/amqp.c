/* SPDX-License-Identifier: MIT
 *
 * amqp: `uvsched amqp`, the bridge between a RabbitMQ broker and a store of jobs. The library does
 * the work; this file reads the options, prints what happens, and stops in the right order: first
 * the intake, then the jobs, then the connection for publishing.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <uvsched/jobs_amqp.h>

#include "jobs.h"

#define MAPS_MAX 1000

static const char help[] =
    "usage: uvsched amqp --store STORE --broker URL --map INTAKE=TARGET [OPTIONS]\n"
    "\n"
    "Delayed delivery for RabbitMQ without a plugin. Publish a message to the exchange INTAKE, "
    "with\n"
    "the header x-delay (milliseconds). The bridge keeps the message in the store, and publishes\n"
    "it to the exchange TARGET when the delay has passed. docs/rabbitmq.md is the guide.\n"
    "\n"
    "options:\n"
    "  --store STORE           sqlite:FILE, for one bridge (a missing file is made); or\n"
    "                          redis://HOST, which any number of bridges may share\n"
    "  --broker URL            amqp://USER:PASSWORD@HOST:PORT/VHOST, or amqps://... for TLS.\n"
    "                          Default: the environment variable UVSCHED_BROKER, which other\n"
    "                          users of the machine cannot read\n"
    "  --ca FILE               for amqps: the certificates (PEM) to trust\n"
    "  --map INTAKE=TARGET     an exchange that the bridge declares, and the exchange that it\n"
    "                          delivers to; an empty TARGET is the default exchange. May be given\n"
    "                          many times\n"
    "  --name NAME             the name of the jobs in the store; default amqp\n"
    "  --parking QUEUE         the queue for messages that cannot be taken, such as those with a\n"
    "                          body of more than 1 MiB; default uvsched.parked\n"
    "  --max-attempts N        after N refused attempts a message becomes a dead letter; default "
    "0:\n"
    "                          no bound\n"
    "  --grace DURATION        after SIGTERM: how long to wait for the broker; default 30s\n"
    "  --quiet                 print only what goes wrong\n"
    "  --help                  this text\n"
    "\n"
    "headers of a message:\n"
    "  x-delay                 milliseconds from the arrival; if absent, negative or unreadable:\n"
    "                          at once\n"
    "  x-deliver-at            instead of x-delay, an instant: a timestamp, milliseconds since\n"
    "                          1970, or text such as 2026-11-18T20:00:00Z\n"
    "  x-uvsched-id            on delivery: the id of the job. Two copies of a message have the\n"
    "                          same id if the publisher has set a message-id.\n"
    "\n"
    "example:\n"
    "  uvsched amqp --store sqlite:/var/lib/uvsched/amqp.db --broker amqp://localhost \\\n"
    "    --map delay.orders=orders --map delay.mail=mail\n"
    "\n"
    "On SIGTERM or SIGINT, the bridge takes no more messages, finishes those that it has, and\n"
    "exits with 0.\n"
    "\n"
    "exit status: 0 it was told to stop; 1 the store cannot be used; 2 the command line is "
    "wrong.\n";

static const struct jobs_command command = {"amqp", NULL, NULL, help};

struct bridge {
  struct jobs_store store;
  uvs_jobs_amqp_t *amqp;
  uv_signal_t signals[2];
  int64_t grace_ns;
  const char *name;
  bool quiet, stopping, closed;
  bool refused; /* the options are wrong: nothing more is printed */
};

/* ------------------------------------------------------------------ events --- */

static void on_amqp_event(uvs_jobs_amqp_t *amqp, int what, const char *text, void *arg) {
  static const struct {
    int what;
    bool good;
    const char *line;
  } lines[] = {
      {UVS_AMQP_UP, true, "publishing: connected to "},
      {UVS_AMQP_DOWN, false, "publishing: not connected: "},
      {UVS_AMQP_BLOCKED, false, "publishing: the broker is blocked: "},
      {UVS_AMQP_UNBLOCKED, false, "publishing: the broker is no longer blocked"},
      {UVS_AMQP_INTAKE_UP, true, "intake: taking messages of "},
      {UVS_AMQP_INTAKE_DOWN, false, "intake: not taking messages: "},
      {UVS_AMQP_PARKED, false, "parked: "},
  };
  const struct bridge *b = arg;

  (void)amqp;
  for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
    if (lines[i].what == what && !b->refused && !(b->quiet && lines[i].good))
      cli_complain("%s%s", lines[i].line, text);
}

static void on_job_event(uvs_jobs_t *jobs, const uvs_jobs_event_t *e, void *arg) {
  static const struct {
    int what;
    const char *line;
  } of_stores[] = {
      {UVS_EVENT_STORE_DOWN, "the store does not work"},
      {UVS_EVENT_STORE_UP, "the store works again"},
      {UVS_EVENT_STORE_RESET, "the store has lost its data"},
      {UVS_EVENT_STORE_UNSAFE, "the store can lose jobs"},
      {UVS_EVENT_CLOCK_SET, "the clock was set"},
  };
  const struct bridge *b = arg;
  const char *text = e->text == NULL ? "" : e->text;
  size_t n = strlen(b->name);

  (void)jobs;
  for (size_t i = 0; i < sizeof of_stores / sizeof of_stores[0]; i++)
    if (e->what == of_stores[i].what)
      cli_complain("%s%s%s", of_stores[i].line, *text == '\0' ? "" : ": ", text);
  if (e->what == UVS_EVENT_DEAD && e->id != NULL && strncmp(e->id, b->name, n) == 0 &&
      e->id[n] == '/')
    cli_complain("%s is a dead letter now: %s", e->id, text);
}

/* -------------------------------------------------------------------- stop --- */

static void on_amqp_closed(uvs_jobs_amqp_t *amqp, void *arg) {
  struct bridge *b = arg;
  uvs_jobs_amqp_stats_t stats;

  uvs_jobs_amqp_stats_init(&stats);
  if (!b->quiet && !b->refused && uvs_jobs_amqp_stats(amqp, &stats) == 0)
    cli_complain("stopped: %" PRIu64 " messages taken, %" PRIu64 " delivered, %" PRIu64 " parked",
                 stats.put + stats.known, stats.confirmed, stats.parked);
  b->amqp = NULL;
  b->closed = true;
}

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  struct bridge *b = arg;

  (void)jobs;
  b->store.jobs = NULL;
  if (b->amqp == NULL || uvs_jobs_amqp_close(b->amqp, on_amqp_closed, b) != 0)
    b->closed = true;
}

static void on_stopped(uvs_jobs_amqp_t *amqp, void *arg) {
  struct bridge *b = arg;

  (void)amqp;
  if (uvs_jobs_close(b->store.jobs, b->grace_ns, on_jobs_closed, b) != 0)
    b->closed = true;
}

static void on_signal(uv_signal_t *handle, int number) {
  struct bridge *b = handle->data;

  (void)number;
  if (b->stopping) {
    uv_signal_stop(handle); /* the next signal ends the process at once */
    return;
  }
  b->stopping = true;
  if (!b->quiet)
    cli_complain("stopping: waiting for the store and the broker");
  if (uvs_jobs_amqp_stop(b->amqp, on_stopped, b) != 0)
    on_stopped(b->amqp, b);
}

/* --------------------------------------------------------------------- run --- */

static int open_signals(struct bridge *b) {
  static const int numbers[] = {SIGINT, SIGTERM};
  int rc = 0;

  for (size_t i = 0; i < 2 && rc == 0; i++) {
    rc = uv_signal_init(&b->store.loop, &b->signals[i]);
    b->signals[i].data = b;
    if (rc == 0)
      rc = uv_signal_start(&b->signals[i], on_signal, numbers[i]);
  }
  return rc;
}

static int run_bridge(struct bridge *b, uvs_jobs_amqp_options_t *o,
                      const uvs_jobs_amqp_intake_t *intake, const char *store) {
  char text[300] = "";
  int rc = jobs_open(&b->store, command.name, store, true, on_job_event, b), status = 0;

  if (rc != 0)
    return rc;
  rc = open_signals(b);
  if (rc != 0) /* the process ends, so open handles do no harm */
    return jobs_close(&b->store, jobs_failed(&b->store, "the bridge cannot be started", rc));
  rc = uvs_jobs_amqp_open(b->store.jobs, o, &b->amqp, text, sizeof text);
  if (rc == 0)
    rc = uvs_jobs_amqp_intake(b->amqp, intake, text, sizeof text);
  if (rc != 0) {
    status = rc == UV_EINVAL ? cli_usage_error(command.name, "%s", text) : CLI_FAILED;
    if (status == CLI_FAILED)
      cli_complain("the bridge cannot be started: %s", *text == '\0' ? uv_strerror(rc) : text);
    b->refused = true;
    on_stopped(b->amqp, b);
  }
  while (!b->closed)
    uv_run(&b->store.loop, UV_RUN_ONCE);
  for (size_t i = 0; i < 2; i++)
    uv_close((uv_handle_t *)&b->signals[i], NULL);
  return jobs_close(&b->store, status);
}

/* Takes all --map out of argv, because an option of args.h has one value. Returns how many maps
 * there are, or -1 if cli_usage_error has reported a mistake. */
static int take_maps(int *argc, char **argv, char **ret_maps) {
  int n = 0, kept = 1;

  for (int i = 1; i < *argc; i++) {
    char *value = NULL;

    if (strcmp(argv[i], "--map") == 0) {
      value = i + 1 < *argc ? argv[++i] : NULL;
    } else if (strncmp(argv[i], "--map=", 6) == 0) {
      value = argv[i] + 6;
    } else {
      argv[kept++] = argv[i];
      continue;
    }
    if (value == NULL || strchr(value, '=') == NULL || *value == '=') {
      cli_usage_error(argv[0], "--map is '%.60s': write INTAKE=TARGET, two names of exchanges",
                      value == NULL ? "" : value);
      return -1;
    }
    if (n == MAPS_MAX) {
      cli_usage_error(argv[0], "there are more than %d maps", MAPS_MAX);
      return -1;
    }
    ret_maps[n++] = value;
  }
  *argc = kept;
  return n;
}

static int read_names(struct bridge *b, const uvs_jobs_amqp_options_t *o, int n_maps) {
  uvs_job_spec_t spec; /* checks the name: its rules are the same */
  char text[200];

  uvs_job_spec_init(&spec);
  spec.name = b->name = o->name;
  if (uvs_job_check(&spec, text, sizeof text) != 0)
    return cli_usage_error(command.name, "--%s", text);
  if (o->url == NULL || *o->url == '\0')
    return cli_usage_error(command.name, "the broker is missing: write --broker amqp://HOST, or "
                                         "set UVSCHED_BROKER");
  if (n_maps == 0)
    return cli_usage_error(command.name, "no map is given: write --map INTAKE=TARGET");
  return 0;
}

int cli_amqp(int argc, char **argv) {
  static char *given[MAPS_MAX];
  static uvs_jobs_amqp_map_t maps[MAPS_MAX];
  const char *store = NULL, *grace = NULL, *attempts = NULL;
  struct bridge b = {.grace_ns = UVS_SEC(30)};
  uvs_jobs_amqp_options_t o;
  uvs_jobs_amqp_intake_t intake;
  uvs_job_handler_t h;
  const struct cli_option options[] = {
      {"--store", &store, NULL},
      {"--broker", &o.url, NULL},
      {"--ca", &o.ca_file, NULL},
      {"--name", &o.name, NULL},
      {"--parking", &intake.parking, NULL},
      {"--max-attempts", &attempts, NULL},
      {"--grace", &grace, NULL},
      {"--quiet", NULL, &b.quiet},
  };
  int n_maps, rc, max_attempts = 0;

  jobs_open_descriptors();
  uvs_jobs_amqp_options_init(&o);
  uvs_jobs_amqp_intake_init(&intake);
  n_maps = take_maps(&argc, argv, given);
  if (n_maps < 0)
    return CLI_USAGE;
  if (!jobs_read_args(&command, argc, argv, options, sizeof options / sizeof options[0], NULL, 0, 0,
                      NULL, &rc))
    return rc;
  if (o.url == NULL)
    o.url = getenv("UVSCHED_BROKER");
  if (!jobs_read_duration(argv[0], "--grace", grace, &b.grace_ns) ||
      !jobs_read_number(argv[0], "--max-attempts", attempts, &max_attempts))
    return CLI_USAGE;
  rc = read_names(&b, &o, n_maps);
  if (rc == 0)
    rc = jobs_check_store(argv[0], store, true);
  if (rc != 0)
    return rc;
  for (int i = 0; i < n_maps; i++) {
    char *equals = strchr(given[i], '=');

    *equals = '\0';
    maps[i].intake = given[i];
    maps[i].target = equals + 1;
  }
  intake.maps = maps;
  intake.n_maps = (size_t)n_maps;
  uvs_job_handler_init(&h);
  h.concurrency = 1000;
  h.max_attempts = (uint32_t)max_attempts;
  h.retry.max_wait_ns = UVS_MIN(1);
  o.handler = &h;
  o.on_event = on_amqp_event;
  o.arg = &b;
  return run_bridge(&b, &o, &intake, store);
}
