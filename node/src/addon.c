/* SPDX-License-Identifier: MIT
 *
 * addon: what a node environment (the main thread or a worker) loads, and what happens when it
 * ends.
 */
#include <stdlib.h>

#include "host.h"

static void teardown(napi_async_cleanup_hook_handle hook, void *arg) {
  (void)hook; /* the handle that napi_add_async_cleanup_hook returned */
  uvs_node_teardown(arg);
}

static void free_addon(napi_env env, void *data, void *hint) {
  (void)env;
  (void)hint;
  uvs_node_free_tables(data);
  uvs_node_release(data);
}

/* raise(error): emits 'uncaughtException' now, in the async context of the caller. The error was
 * caught in JavaScript, so it is thrown once more here, where no JavaScript catches it: V8 obeys
 * --abort-on-uncaught-exception only when something is thrown, and napi_fatal_exception does not
 * obey it. */
static napi_value raise_error(napi_env env, napi_callback_info info) {
  napi_value error;
  size_t argc = 1;

  if (napi_get_cb_info(env, info, &argc, &error, NULL, NULL) == napi_ok &&
      napi_throw(env, error) == napi_ok &&
      napi_get_and_clear_last_exception(env, &error) == napi_ok)
    napi_fatal_exception(env, error);
  return NULL;
}

NAPI_MODULE_INIT() {
  struct addon *a = calloc(1, sizeof *a);
  napi_value raise, version;

  if (a != NULL)
    a->users = 1;
  if (a == NULL || napi_set_instance_data(env, a, free_addon, NULL) != napi_ok ||
      napi_add_async_cleanup_hook(env, teardown, a, &a->hook) != napi_ok ||
      !uvs_node_export(env, a, exports) ||
      napi_create_function(env, "raise", NAPI_AUTO_LENGTH, raise_error, NULL, &raise) != napi_ok ||
      napi_set_named_property(env, exports, "raise", raise) != napi_ok ||
      napi_create_string_utf8(env, uvs_version_string(), NAPI_AUTO_LENGTH, &version) != napi_ok ||
      napi_set_named_property(env, exports, "version", version) != napi_ok)
    napi_throw_error(env, NULL, "uvsched: could not be initialized");
  return exports;
}
