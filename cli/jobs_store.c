/* SPDX-License-Identifier: MIT
 *
 * jobs_store: opens and closes the store of a command, and waits for the answer to a call. The loop
 * runs only while a command waits.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "jobs.h"

#define SHOW_AFTER_MS 700 /* after this time of waiting, a terminal shows what is going on */

static bool begins(const char *name, const char *prefix) {
  return strncmp(name, prefix, strlen(prefix)) == 0;
}

static bool is_redis(const char *name) {
  return begins(name, "redis://") || begins(name, "rediss://") || begins(name, "redis+");
}

/* The name of a store without the password in it. */
static void show_name(const char *name, char *shown, size_t size) {
  const char *at = begins(name, "sqlite:") ? NULL : strrchr(name, '@');
  const char *form = strstr(name, "://");

  if (at == NULL)
    snprintf(shown, size, "%s", name);
  else
    snprintf(shown, size, "%.*s***%s", form != NULL && form < at ? (int)(form + 3 - name) : 0, name,
             at);
}

int jobs_check_store(const char *command, const char *name, bool make) {
  const char *file;
  char shown[200];

  if (name == NULL)
    return cli_usage_error(command, "the store is missing: write --store sqlite:FILE, or --store "
                                    "redis://HOST");
  if (is_redis(name))
    return 0; /* the library looks at the rest */
  if (!begins(name, "sqlite:")) {
    show_name(name, shown, sizeof shown); /* it may be a mistyped redis:// with a password */
    return cli_usage_error(command,
                           "--store is '%s': write sqlite: and the name of a file, such "
                           "as sqlite:jobs.db, or redis:// and the name of a host",
                           shown);
  }
  file = name + strlen("sqlite:");
  if (*file == '\0')
    return cli_usage_error(command, "--store has no file: write it after sqlite:, such as "
                                    "sqlite:jobs.db");
  if (!make && access(file, F_OK) != 0) {
    cli_complain("there is no store %.400s: `uvsched jobs put` makes one", name);
    return CLI_FAILED;
  }
  return 0;
}

static void on_scheduler_closed(uvs_t *s) {
  struct jobs_store *store = uvs_data(s);

  store->scheduler = NULL;
}

static void on_jobs_closed(uvs_jobs_t *jobs, void *arg) {
  struct jobs_store *store = arg;

  (void)jobs;
  store->jobs = NULL;
}

int jobs_close(struct jobs_store *store, int status) {
  if (store->jobs != NULL && uvs_jobs_close(store->jobs, 0, on_jobs_closed, store) == 0) {
    while (store->jobs != NULL)
      uv_run(&store->loop, UV_RUN_ONCE);
  }
  if (store->scheduler != NULL && uvs_close(store->scheduler, on_scheduler_closed) == 0) {
    while (store->scheduler != NULL)
      uv_run(&store->loop, UV_RUN_ONCE);
  }
  uv_loop_close(&store->loop);
  return status;
}

int jobs_open(struct jobs_store *store, const char *command, const char *name, bool make,
              uvs_jobs_event_cb on_event, void *arg) {
  uvs_jobs_options_t options;
  uvs_options_t scheduler;
  char text[300] = "";
  uint64_t end_ns;
  int rc = jobs_check_store(command, name, make);

  if (rc != 0)
    return rc;
  memset(store, 0, sizeof *store);
  show_name(name, store->name, sizeof store->name);
  rc = uv_loop_init(&store->loop);
  if (rc != 0)
    return jobs_failed(store, "the store cannot be opened", rc);
  uvs_options_init(&scheduler);
  scheduler.data = store;
  rc = uvs_open(&store->loop, &scheduler, &store->scheduler);
  if (rc != 0) {
    store->scheduler = NULL;
    return jobs_close(store, jobs_failed(store, "the store cannot be opened", rc));
  }
  uvs_jobs_options_init(&options);
  options.store = name;
  options.on_event = on_event;
  options.arg = arg;
  options.existing = !make;
  options.max_payload_bytes = UVS_JOB_PAYLOAD_MAX;
  end_ns = uv_hrtime() + UVS_SEC(2);
  do /* another process may be writing */
    rc = uvs_jobs_open(store->scheduler, &options, &store->jobs, text, sizeof text);
  while (rc == UV_EBUSY && uv_hrtime() < end_ns);
  if (rc == 0)
    return 0;
  store->jobs = NULL;
  if (rc == UV_ENOENT && !make && is_redis(name))
    cli_complain("there is no store in %.400s: if the server and the namespace are right, `uvsched "
                 "jobs put` makes one",
                 store->name);
  else if (rc == UV_ENOENT && !make && access(name + strlen("sqlite:"), F_OK) == 0)
    cli_complain("there is no store in %.400s: if this is the right file, `uvsched jobs put` adds "
                 "one",
                 name);
  else
    cli_complain("the store cannot be opened: %s", *text == '\0' ? uvs_jobs_strerror(rc) : text);
  return jobs_close(store, CLI_FAILED);
}

void jobs_answered(uvs_jobs_t *jobs, int status, void *arg) {
  struct jobs_store *store = arg;

  (void)jobs;
  store->status = status;
  store->answered = true;
}

/* ------------------------------------------------------------------- wait --- */

struct patience {
  uv_timer_t timer;
  const char *doing;
  uint64_t began_ms;
  bool shown, closed;
};

static void show_waiting(uv_timer_t *timer) {
  struct patience *p = timer->data;

  fprintf(stderr, "\r%s: %d s ", p->doing, (int)((uv_now(timer->loop) - p->began_ms) / 1000));
  fflush(stderr);
  p->shown = true;
}

static void on_timer_closed(uv_handle_t *timer) {
  struct patience *p = timer->data;

  p->closed = true;
}

int jobs_wait(struct jobs_store *store, int rc, const char *doing) {
  struct patience p = {.doing = doing};

  if (rc != 0)
    return rc;
  uv_update_time(&store->loop);
  p.began_ms = uv_now(&store->loop);
  p.closed = doing == NULL || !isatty(STDERR_FILENO) || uv_timer_init(&store->loop, &p.timer) != 0;
  if (!p.closed) {
    p.timer.data = &p;
    uv_timer_start(&p.timer, show_waiting, SHOW_AFTER_MS, 1000);
  }
  while (!store->answered)
    uv_run(&store->loop, UV_RUN_ONCE);
  store->answered = false;
  if (!p.closed)
    uv_close((uv_handle_t *)&p.timer, on_timer_closed);
  while (!p.closed)
    uv_run(&store->loop, UV_RUN_ONCE);
  if (p.shown)
    fputs("\r\033[K", stderr);
  return store->status;
}

int jobs_failed(const struct jobs_store *store, const char *what, int status) {
  switch (status) {
  case UVS_EUNKNOWN:
    cli_complain("%.150s did not answer, so the command may have taken effect or not: look with "
                 "`uvsched jobs ls`, or repeat the command",
                 store->name);
    break;
  case UVS_EDOWN:
    cli_complain("%s: %.150s did not work in time: %s", what, store->name,
                 is_redis(store->name) ? "does the server run, and is the network up?"
                                       : "is the disk full, or does another program keep the file "
                                         "locked?");
    break;
  default:
    cli_complain("%s: %s", what, uvs_jobs_strerror(status));
  }
  return CLI_FAILED;
}
