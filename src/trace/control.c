/* SPDX-License-Identifier: MIT
 *
 * control: opens and closes the flight recorder, and calls its trigger.
 */
#include "core/trace.h"
#include "core/wake.h"
#include "util/sizes.h"

#define TRACE_OPTIONS_MIN sizeof(uvs_trace_options_t)
#define BYTES_MIN ((size_t)64 << 10)
#define BYTES_MAX ((size_t)1 << 30)

static int read_trace_options(const uvs_trace_options_t *given, uvs_trace_options_t *o) {
  int rc;

  uvs_trace_options_init(o);
  if (given == NULL)
    return 0;
  rc = uvs__read_sized(o, sizeof *o, given, given->size, TRACE_OPTIONS_MIN);
  if (rc < 0)
    return rc;
  if (o->bytes < BYTES_MIN || o->bytes > BYTES_MAX)
    return UV_EINVAL;
  if (o->late_ns < 0 || o->held_ns < 0 || o->quiet_ns < 0)
    return UV_EINVAL;
  if ((o->on_trigger != NULL) != (o->late_ns != 0 || o->held_ns != 0))
    return UV_EINVAL;
  return 0;
}

/* Loop thread, without the lock. The recorder may have been closed since the trigger was tripped.
 */
static void call_trigger(uvs_t *s, struct uvs__call *c) {
  struct uvs__trace *tr;
  uvs_trace_cb on_trigger = NULL;
  void *arg = NULL;
  uvs_id_t id = 0;
  int64_t ns = 0;
  int reason = 0;

  (void)c;
  uvs__lock(s);
  tr = s->trace;
  if (tr != NULL && tr->trip != 0) {
    on_trigger = tr->on_trigger;
    arg = tr->arg;
    reason = tr->trip;
    ns = tr->trip_ns;
    id = tr->trip_id;
  }
  uvs__unlock(s);
  if (on_trigger != NULL)
    on_trigger(s, reason, ns, id, arg);
}

int uvs_trace_open(uvs_t *s, const uvs_trace_options_t *given) {
  uvs_trace_options_t o;
  struct uvs__trace *tr;
  uint32_t runners;
  bool open;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  rc = read_trace_options(given, &o);
  if (rc < 0)
    return rc;
  uvs__lock(s);
  open = s->trace != NULL;
  runners = (uint32_t)s->runners.made;
  uvs__unlock(s);
  if (open)
    return UV_EALREADY;
  tr = uvs__trace_make(&s->mem, o.bytes, runners);
  if (tr == NULL)
    return UV_ENOMEM;
  tr->late_ns = o.late_ns == 0 ? UVS__NEVER : (uint64_t)o.late_ns;
  tr->held_ns = o.held_ns == 0 ? UVS__NEVER : (uint64_t)o.held_ns;
  tr->quiet_ns = (uint64_t)o.quiet_ns;
  tr->on_trigger = o.on_trigger;
  tr->arg = o.arg;
  tr->opened_ns = uvs__now(s);
  tr->passed_ns = tr->opened_ns; /* what was before is not known */
  uvs__lock(s);
  open = s->trace != NULL; /* another thread may have been faster */
  if (!open) {
    tr->number = ++s->traces;
    tr->opened = s->counts;
    s->trace_call.call = call_trigger;
    s->trace = tr;
  }
  uvs__unlock(s);
  if (open)
    uvs__mem_free(&s->mem, tr);
  return open ? UV_EALREADY : 0;
}

int uvs_trace_close(uvs_t *s) {
  struct uvs__trace *tr;
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  uvs__lock(s);
  tr = s->trace;
  s->trace = NULL;
  uvs__unlock(s);
  uvs__mem_free(&s->mem, tr);
  return tr == NULL ? UV_ENOENT : 0;
}
