/* SPDX-License-Identifier: MIT
 *
 * tick: makes jobs of the occurrences of a cron. The tick of a cron is a job of the queue
 * UVS__CRON_QUEUE that never ends: it is claimed when the next occurrence is due, and released
 * until the one after that. In the same step the jobs are put, and the newest occurrence becomes
 * the `last` of the cron. So each occurrence is handled once, whichever process claims the tick.
 */
#include "jobs/run.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "jobs/alloc.h"

#define MISFIRED_US INT64_C(60000000) /* an occurrence that is later than this is a misfire */
#define FRESH_MAX 61                  /* most occurrences of the last minute */
#define COUNTED_MAX 1000
#define AGAIN_US INT64_C(60000000) /* after a failure, such as a zone that cannot be read */
#define KEY_PREFIX "uvs.cron:"

/* -------------------------------------------------------------- occurrences --- */

/* The grid of @every begins at the cron's `last`. */
static int64_t newest_until(const uvs_calendar_t *c, int64_t last_us, int64_t until_us) {
  int64_t interval_us = uvs_calendar_interval(c) / 1000, ns;

  if (interval_us > 0)
    return until_us < last_us ? last_us
                              : last_us + (until_us - last_us) / interval_us * interval_us;
  ns = uvs_calendar_previous(c, until_us * 1000 + 1);
  return ns == -UVS_NEVER ? last_us : ns / 1000;
}

int64_t uvs__cron_next_us(const uvs_calendar_t *c, int64_t last_us, int64_t now_us) {
  int64_t interval_us = uvs_calendar_interval(c) / 1000, ns;

  if (now_us < last_us)
    now_us = last_us;
  if (interval_us > 0)
    return newest_until(c, last_us, now_us) + interval_us;
  ns = uvs_calendar_next(c, now_us * 1000);
  return ns == UVS_NEVER || ns / 1000 >= UVS__NEVER_US ? UVS__NEVER_US - 1 : ns / 1000;
}

struct occurrences {
  int64_t us[FRESH_MAX + UVS__MISSED_MAX]; /* newest first */
  size_t n;
  size_t dropped;
};

/* How many misfires get a job. */
static size_t misfires_allowed(const struct uvs__cron *cron) {
  return cron->misfire == UVS_MISFIRE_SKIP   ? 0
         : cron->misfire == UVS_MISFIRE_ONCE ? 1
                                             : cron->max_missed;
}

static void collect(const struct uvs__cron *cron, const uvs_calendar_t *c, int64_t now_us,
                    struct occurrences *ret) {
  size_t allowed = misfires_allowed(cron);
  int64_t us = newest_until(c, cron->last_us, now_us);

  while (us > cron->last_us && ret->dropped < COUNTED_MAX) {
    bool is_misfire = now_us - us > MISFIRED_US;

    if (is_misfire && allowed == 0)
      ret->dropped++;
    else
      ret->us[ret->n++] = us;
    if (is_misfire && allowed > 0)
      allowed--;
    us = newest_until(c, cron->last_us, us - 1);
  }
}

/* -------------------------------------------------------------------- put --- */

/* "NAME@2026-11-18T09:00:00Z", with a fraction if there is one. */
static void write_rest(const char *name, int64_t us, char ret[UVS__REST_MAX + 1]) {
  time_t seconds = (time_t)(us / 1000000);
  char when[40], fraction[16] = "";
  struct tm t;

  gmtime_r(&seconds, &t);
  strftime(when, sizeof when, "%Y-%m-%dT%H:%M:%S", &t);
  if (us % 1000000 != 0)
    snprintf(fraction, sizeof fraction, ".%06d", (int)(us % 1000000));
  snprintf(ret, UVS__REST_MAX + 1, "%s@%s%sZ", name, when, fraction);
}

/* Oldest first, so that jobs that are due now start in order. */
static bool make_puts(struct uvs__run *run, const struct uvs__cron *cron,
                      const struct occurrences *o) {
  struct uvs__put *puts = uvs__arena_alloc(&run->notes, (o->n + 1) * sizeof *puts);
  char key[sizeof KEY_PREFIX + UVS_JOB_NAME_MAX];
  const char *kept_key = NULL;

  snprintf(key, sizeof key, KEY_PREFIX "%s", cron->name);
  if (puts == NULL || !uvs__arena_string(&run->notes, key, &kept_key))
    return false;
  for (size_t i = 0; i < o->n; i++) {
    struct uvs__record *job = &puts[i].job;
    char rest[UVS__REST_MAX + 1];
    int64_t us = o->us[o->n - 1 - i];

    *job = cron->job;
    write_rest(cron->name, us, rest);
    if (!uvs__arena_string(&run->notes, rest, &job->rest))
      return false;
    job->key = cron->overlap == UVS_CRON_SKIP ? kept_key : NULL;
    job->key_policy = UVS_KEY_KEEP;
    job->made = true;
    job->due = (struct uvs__when){-1, us};
  }
  run->end.puts = puts;
  run->end.n_puts = o->n;
  return true;
}

static void tell_misfired(uvs_jobs_t *jobs, const char *name, size_t n) {
  char text[80];

  snprintf(text, sizeof text, "%zu%s occurrences have passed without a job", n,
           n == COUNTED_MAX ? " or more" : "");
  if (n > 0)
    uvs__tell(jobs, UVS_EVENT_MISFIRED, name, text);
}

static bool tick(struct uvs__run *run, const struct uvs__cron *cron, int64_t now_us) {
  struct occurrences *o = uvs__jobs_alloc(sizeof *o);
  uvs_calendar_t *c;
  bool made = false;

  if (o == NULL)
    return false;
  if (uvs_calendar_parse(cron->expression, cron->zone, NULL, &c, NULL) == 0) {
    collect(cron, c, now_us, o);
    made = make_puts(run, cron, o);
    if (made) {
      int64_t newest_us = newest_until(c, cron->last_us, now_us);

      run->end.tick_last_us = newest_us > cron->last_us ? newest_us : 0;
      run->end.when = (struct uvs__when){
          -1, uvs__cron_next_us(c, newest_us > cron->last_us ? newest_us : cron->last_us, now_us)};
      tell_misfired(run->jobs, cron->name, o->dropped);
    }
    uvs_calendar_release(c);
  }
  uvs__jobs_free(o);
  return made;
}

void uvs__cron_tick(uvs_jobs_t *jobs, struct uvs__run *run, int64_t now_us) {
  const struct uvs__cron *cron = run->claimed->cron;

  (void)jobs;
  memset(&run->end, 0, sizeof run->end);
  run->end.op = UVS__RELEASE;
  if (cron == NULL || !tick(run, cron, now_us)) {
    memset(&run->end, 0, sizeof run->end);
    run->end.op = UVS__RELEASE;
    run->end.when.delay_us = AGAIN_US;
  }
  uvs__settle_end(run);
}
