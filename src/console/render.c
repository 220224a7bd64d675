/* SPDX-License-Identifier: MIT */
#include "console/render.h"

#include <uvsched/console.h>
#include <uvsched/trace.h>

#include "console/alloc.h"
#include "console/query.h"
#include "console/tasks.h"
#include "console/timeline.h"

#include <string.h>

#define TEXT_MAX ((size_t)16 << 20)

/* ---- text ---- */

int uvs__text_write(const char *data, size_t size, void *arg) {
  struct uvs__text *t = arg;

  if (size > TEXT_MAX - t->size)
    return UV_E2BIG;
  if (size > t->room - t->size) {
    size_t room = t->room < 4096 ? 4096 : t->room * 2;
    char *bigger;

    while (room - t->size < size)
      room *= 2;
    bigger = uvs__console_realloc(t->data, room);
    if (bigger == NULL)
      return UV_ENOMEM;
    t->data = bigger;
    t->room = room;
  }
  memcpy(t->data + t->size, data, size);
  t->size += size;
  return 0;
}

void uvs__text_free(struct uvs__text *t) {
  uvs__console_free(t->data);
  *t = (struct uvs__text){NULL, 0, 0};
}

/* ---- the resources ---- */

struct output {
  uvs_write_cb write;
  void *arg;
};

typedef int render_cb(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                      const struct output *o);

static int render_page(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                       const struct output *o) {
  (void)s, (void)target, (void)about;
  return o->write(uvs__page, uvs__page_size, o->arg);
}

static int render_stats(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                        const struct output *o) {
  struct uvs__json j;
  int rc, written;

  (void)target;
  uvs__json_init(&j, o->write, o->arg);
  rc = uvs__stats_write(&j, s, about);
  written = uvs__json_end(&j);
  return rc < 0 ? rc : written;
}

static int render_tasks(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                        const struct output *o) {
  struct uvs__survey v;
  int rc = uvs__survey_open(&v, target);

  (void)about;
  while (rc == 0 && !v.over)
    rc = uvs__survey_step(&v, s, UINT32_MAX);
  if (rc == 0)
    rc = uvs__survey_write(&v, s, o->write, o->arg);
  uvs__survey_close(&v);
  return rc;
}

static int render_metrics(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                          const struct output *o) {
  (void)target, (void)about;
  return uvs_stats_write(s, UVS_FORMAT_PROMETHEUS, o->write, o->arg);
}

static int render_timeline(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                           const struct output *o) {
  uint64_t last_ms = 60000;
  struct uvs__json j;
  int rc, written;

  (void)about;
  if (uvs__query_uint(target, "last_ms", 1, 3600000, &last_ms) < 0)
    return UV_EINVAL;
  uvs__json_init(&j, o->write, o->arg);
  rc = uvs__timeline_write(&j, s, UVS_MS((int64_t)last_ms), UVS__TIMELINE_MAX);
  written = uvs__json_end(&j);
  return rc < 0 ? rc : written;
}

static int render_trace(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                        const struct output *o) {
  uint64_t last_ms = 0;

  (void)about;
  if (uvs__query_uint(target, "last_ms", 1, UINT32_MAX, &last_ms) < 0)
    return UV_EINVAL;
  return uvs_trace_write(s, last_ms == 0 ? UVS_NEVER : UVS_MS((int64_t)last_ms), 0, o->write,
                         o->arg);
}

static const struct resource {
  const char *path, *type;
  render_cb *render;
} resources[] = {
    {"/", "text/html; charset=utf-8", render_page},
    {"/stats.json", "application/json", render_stats},
    {"/tasks.json", "application/json", render_tasks},
    {"/timeline.json", "application/json", render_timeline},
    {"/trace.json", "application/json", render_trace},
    {"/metrics", "text/plain; version=0.0.4; charset=utf-8", render_metrics},
};

static const struct resource *find_resource(const char *target) {
  for (size_t i = 0; i < sizeof resources / sizeof resources[0]; i++) {
    if (uvs__query_path_is(target, resources[i].path))
      return &resources[i];
  }
  return NULL;
}

int uvs__render(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                uvs_write_cb write, void *arg) {
  const struct resource *r = find_resource(target);
  struct output o = {write, arg};

  return r == NULL ? UV_ENOENT : r->render(s, target, about, &o);
}

/* ---- public ---- */

int uvs_console_render(uvs_t *s, const char *target, uvs_write_cb write, void *arg) {
  struct uvs__stats_about about = {0};

  if (s == NULL || target == NULL || write == NULL)
    return UV_EINVAL;
  return uvs__render(s, target, &about, write, arg);
}

const char *uvs_console_type(const char *target) {
  const struct resource *r = target == NULL ? NULL : find_resource(target);

  return r == NULL ? NULL : r->type;
}

const char *uvs_console_policy(void) {
  return uvs__page_policy;
}
