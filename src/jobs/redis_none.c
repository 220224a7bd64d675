/* SPDX-License-Identifier: MIT
 *
 * redis_none: stands for the store in Redis in a library that was built without it.
 */
#include <stdio.h>

#include <uv.h>

#include "jobs/store.h"

int uvs__redis_open(const struct uvs__store_config *config, struct uvs__store **ret, char *text,
                    size_t size) {
  (void)config;
  (void)ret;
  snprintf(text, size, "this library was built without Redis (hiredis was not found)");
  return UV_ENOTSUP;
}

int uvs_jobs_reshard(const uvs_reshard_options_t *o, char *text, size_t size) {
  (void)o;
  if (text != NULL && size > 0)
    snprintf(text, size, "this library was built without Redis (hiredis was not found)");
  return UV_ENOTSUP;
}
