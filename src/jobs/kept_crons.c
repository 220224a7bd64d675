/* SPDX-License-Identifier: MIT
 *
 * kept_crons: remembers the crons that this process has defined, to define them again if the store
 * loses its data.
 */
#include "jobs/engine.h"

#include <string.h>

#include "jobs/alloc.h"

/* A cron that this process has defined. */
struct uvs__kept_cron {
  struct uvs__kept_cron *next;
  struct uvs__ask ask;
  struct uvs__cron_request r;
  struct uvs__arena strings;
  bool asking, again, removed;
};

static void free_kept(struct uvs__kept_cron *kept) {
  uvs__arena_free(&kept->strings);
  uvs__arena_free(&kept->r.arena);
  uvs__jobs_free(kept);
}

static void define(uvs_jobs_t *jobs, struct uvs__kept_cron *kept);

static void defined_again(uvs_jobs_t *jobs, struct uvs__ask *ask, int status) {
  struct uvs__kept_cron *kept = UVS__OWNER(ask, struct uvs__kept_cron, ask);

  (void)status; /* an error only if the store is down until the close */
  kept->asking = false;
  if (kept->removed)
    free_kept(kept);
  else if (kept->again && !jobs->keeper.closing)
    define(jobs, kept);
  uvs__worker_due(jobs, UVS__CRON_QUEUE, INT64_MIN); /* its tick is due now */
}

static void define(uvs_jobs_t *jobs, struct uvs__kept_cron *kept) {
  kept->again = kept->asking;
  if (kept->asking)
    return;
  kept->asking = true;
  kept->ask.request = &kept->r.r;
  kept->ask.repeat = UVS__UNTIL_CLOSE;
  kept->ask.answered = defined_again;
  uvs__keeper_ask(jobs, &kept->ask);
}

void uvs__crons_define_again(uvs_jobs_t *jobs) {
  for (struct uvs__kept_cron *kept = jobs->keeper.crons; kept != NULL; kept = kept->next)
    define(jobs, kept);
}

void uvs__cron_forget(uvs_jobs_t *jobs, const char *name) {
  struct uvs__kept_cron **at = &jobs->keeper.crons, *kept;

  while (*at != NULL && strcmp((*at)->r.cron.name, name) != 0)
    at = &(*at)->next;
  kept = *at;
  if (kept == NULL)
    return;
  *at = kept->next;
  kept->removed = true;
  if (!kept->asking)
    free_kept(kept);
}

void uvs__cron_keep(struct uvs__call *c) {
  struct uvs__kept_cron *kept = uvs__jobs_alloc(sizeof *kept);

  if (kept == NULL)
    return;
  uvs__cron_forget(c->jobs, c->cron.cron.name);
  kept->r.r.op = UVS__SET_CRON;
  kept->r.cron = c->cron.cron;
  kept->strings = c->arena;
  memset(&c->arena, 0, sizeof c->arena);
  kept->next = c->jobs->keeper.crons;
  c->jobs->keeper.crons = kept;
}

void uvs__crons_free(uvs_jobs_t *jobs) {
  while (jobs->keeper.crons != NULL) {
    struct uvs__kept_cron *kept = jobs->keeper.crons;

    jobs->keeper.crons = kept->next;
    free_kept(kept);
  }
}
