/* SPDX-License-Identifier: MIT
 *
 * render: the resources of the console, by path.
 */
#ifndef UVSCHED_CONSOLE_RENDER_H
#define UVSCHED_CONSOLE_RENDER_H

#include "console/stats.h"

/* The page and its policy: made from page.html by embed. */
extern const char uvs__page[];
extern const size_t uvs__page_size;
extern const char uvs__page_policy[];

/* Collects what is written. */
struct uvs__text {
  char *data;
  size_t size, room;
};

/* A uvs_write_cb; arg is a struct uvs__text. UV_ENOMEM; UV_E2BIG: above 16 MB. */
int uvs__text_write(const char *data, size_t size, void *arg);
void uvs__text_free(struct uvs__text *t);

/* As uvs_console_render. */
int uvs__render(uvs_t *s, const char *target, const struct uvs__stats_about *about,
                uvs_write_cb write, void *arg);

#endif
