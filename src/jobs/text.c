/* SPDX-License-Identifier: MIT
 *
 * text: the texts of codes, states and events.
 */
#include <uvsched/jobs_admin.h>

const char *uvs_jobs_strerror(int code) {
  switch (code) {
  case 0:
    return "success";
  case UVS_JOB_EXISTS:
    return "a job with this id or this key exists";
  case UVS_JOB_RUNNING:
    return "the job is running";
  case UVS_EUNKNOWN:
    return "the store failed, and may or may not have done it: repeat with the same id";
  case UVS_EDOWN:
    return "the store did not work in time; nothing was done";
  case UVS_ELOST:
    return "the lease is lost: the job was claimed again";
  case UV_ENOENT:
    return "no such job, or it has ended";
  case UV_EEXIST:
    return "the key is in use";
  case UV_EAGAIN:
    return "too many calls wait for the store";
  case UV_E2BIG:
    return "too many bytes";
  case UV_ESHUTDOWN:
    return "the store is being closed";
  default:
    return uvs_strerror(code);
  }
}

const char *uvs_job_state_name(int state) {
  static const char *const names[] = {"?",    "pending", "running",   "held",
                                      "done", "dead",    "cancelled", "replaced"};

  return state < 0 || state > UVS_JOB_REPLACED ? "?" : names[state];
}

const char *uvs_jobs_event_name(int what) {
  static const char *const names[] = {
      "?",           "dead",         "lost",          "crashed",       "cancelled",
      "replaced",    "unknown name", "misfired",      "dead dropped",  "store down",
      "store up",    "clock set",    "cannot shrink", "queue changed", "store reset",
      "store unsafe"};

  return what < 0 || what > UVS_EVENT_STORE_UNSAFE ? "?" : names[what];
}
