/* SPDX-License-Identifier: MIT
 *
 * host: one scheduler of the core on node's loop, and the JavaScript that it calls.
 *
 *   host   one uvs_t and the data of its JavaScript side; each Scheduler has one
 *   addon  the hosts of one environment (the main thread, or a worker)
 *   slot   the number of a JavaScript task; JavaScript assigns it
 *   io     a Float64Array through which JavaScript and C exchange numbers. This costs next to
 *          nothing, while an argument of a call costs tens of nanoseconds
 *
 * There is no static mutable state: each environment has its own addon, as napi instance data.
 */
#ifndef UVS_NODE_HOST_H
#define UVS_NODE_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <node_api.h>
#include <uvsched.h>
#include <uvsched/control.h>
#include <uvsched/settings.h>
#include <uvsched/stats.h>
#include <uvsched/lane.h>

#include "uvsched_node.h"

struct addon {
  struct host *hosts;
  struct host **numbered; /* every host that JavaScript may still call, by its number */
  uint32_t numbered_room;
  uint32_t *at;         /* the number of the host that the next call is for: exports.at */
  unsigned users;       /* the environment, and each numbered host */
  struct guest *guests; /* other addons, see table.c */
  struct gate *gates;   /* the tables that other addons have */
  napi_async_cleanup_hook_handle hook;
  bool dying;
};

/* The indices of io; lib/io.js has the same. */
enum {
  IO_RC = 0,    /* out: the result of the call */
  IO_NOW,       /* out: the clock */
  IO_NEXT,      /* drain: how many events it has taken */
  IO_OVER,      /* drain: 1 = its time is used up, the other events wait */
  IO_PLAIN_DUE, /* plain tasks that are due, and not yet taken by drain */
  IO_SLOT,
  IO_DELAY,
  IO_FLAGS,
  IO_KIND,
  IO_FROM,
  IO_PERIOD,
  IO_MISSED,
  IO_MAX_BURST,
  IO_MAX_RUNS,
  IO_UNTIL,
  IO_JITTER,
  IO_FAILURE,
  IO_MAX_FAILURES,
  IO_RETRY,
  IO_RETRY_MAX,
  IO_RETRY_JITTER,
  IO_LANE,
  IO_PRIORITY,
  IO_WALL_NS, /* an instant of the wall clock: the ns beyond the ms in IO_DELAY */
  IO_EVENTS = 32,
  IO_EVENT_WIDTH = 6,
  IO_EVENT_ROOM = 256,
  IO_SIZE = IO_EVENTS + IO_EVENT_WIDTH * IO_EVENT_ROOM
};

/* Events, which JavaScript receives after the core's loop pass. */
enum event_kind {
  EVENT_RUN = 1,    /* a task is due: a = ideal, b = due, c = run number, d = missed */
  EVENT_DONE,       /* a task has ended: a = status */
  EVENT_MISSED,     /* points of a grid passed: a = how many, b = UVS_LATE_... */
  EVENT_NEVER_RAN,  /* shutdownNow took it back */
  EVENT_QUIET,      /* a lane is quiet; the slot is the lane's key */
  EVENT_TERMINATED, /* shut down, and every task has ended */
  EVENT_CLOSED      /* closed; the last event */
};

struct event {
  enum event_kind kind;
  uint32_t slot;
  double a, b, c, d;
};

enum slot_state {
  SLOT_FREE = 0,
  SLOT_IN,    /* a task of the core */
  SLOT_WAITS, /* plain, and in a bundle */
  SLOT_DUE    /* plain: its run is on the way to JavaScript, or has begun */
};

struct slot {
  union {
    uvs_id_t id;    /* SLOT_IN: of the core's task */
    int64_t due_ns; /* SLOT_WAITS */
  };
  uint32_t bundle, next, prev; /* SLOT_WAITS: its bundle, and its neighbours there */
  uint8_t state;               /* enum slot_state */
  bool unref;                  /* SLOT_WAITS */
  bool overtakes;              /* SLOT_IN: it has a high priority */
  bool noted;                  /* SLOT_IN: an event other than a run or the end names this slot */
};

/* Plain tasks that are due in the same grain of time; see plain.c. */
struct bundle {
  int64_t key;         /* their deadlines in grains, rounded up */
  int64_t due_ns;      /* the latest of them */
  uvs_id_t id;         /* of the core's task; 0: not handed over yet */
  uint32_t head, tail; /* its members, in the order of arming */
  uint32_t live;       /* members */
  uint32_t refs;       /* those that keep the loop alive */
  uint32_t chain;      /* the next bundle with the same hash, or the next free one */
  uint32_t fresh;      /* the next bundle that is not handed over yet */
  bool sorted;         /* the members are in the order of their deadlines */
};

struct plain {
  int64_t grain_ns;
  struct bundle *bundles; /* 0 is none */
  uint32_t bundle_count, bundle_room, free;
  uint32_t *hash; /* the first bundle of each chain; a power of two of them */
  uint32_t hash_size;
  uint32_t last;   /* the bundle of the last armed task; most often the next task joins it, too */
  uint32_t fresh;  /* the first bundle that is not handed over yet */
  uint32_t sealed; /* the first bundle that takes no more members */
  uint32_t fresh_refs;                /* members of fresh bundles that keep the loop alive */
  uint64_t armed, waiting;            /* tasks */
  uint64_t submitted, fired, dropped; /* bundles, which the core counts as tasks */
};

struct host {
  struct addon *addon;
  uint32_t number;
  struct host *next, **link; /* in the list of the addon */
  napi_env env;
  uvs_t *s;       /* NULL: closed */
  uv_idle_t idle; /* active while events wait for JavaScript, or bundles for the core */
  double *io;
  napi_ref self;  /* the object that owns the host; a strong reference while it is open */
  napi_ref drain; /* the function that receives the events */
  struct slot *slots;
  uint32_t slot_room;
  struct plain plain;
  struct event *events; /* first .. first + count */
  uint32_t event_first, event_count, event_room;
  bool shut;         /* nothing new is accepted */
  bool stopped;      /* no run starts any more */
  int64_t shut_ns;   /* when `shut` was set */
  bool closing;      /* uvs_close was called */
  uvs_counts_t last; /* the counts at termination */
  bool idle_open;
  struct gate *gate;       /* the table for other addons; NULL: none was asked for */
  _Atomic unsigned ending; /* 1: the environment ends. Read on pool threads */
};

/* Exports the functions that JavaScript calls. All hosts share them, because V8 calls a function
 * faster if it is always the same one. `at` says which host a call is for. */
bool uvs_node_export(napi_env env, struct addon *a, napi_value exports);
/* The environment, or a host, no longer needs the addon. */
void uvs_node_release(struct addon *a);

/* The environment ends: closes everything, then removes the clean-up hooks. Each of these hooks
 * calls this. */
void uvs_node_teardown(struct addon *a);

/* ---- host.c, for the other files ---- */

struct host *uvs_node_host(napi_env env, napi_callback_info info);
void uvs_node_wake(struct host *h); /* makes the loop call the idle callback */
void uvs_node_note(struct host *h, struct event e);
void uvs_node_out_of_memory(void);
bool uvs_node_grow(void **array, uint32_t *room, uint32_t want, size_t size);
bool uvs_node_slot_room(struct host *h, uint32_t slot);

/* Converts a double to whole nanoseconds. A value that int64_t cannot hold becomes UVS_NEVER. */
static inline int64_t uvs_node_ns(double ns) {
  if (!(ns < 9.2e18))
    return UVS_NEVER;
  return ns < 0 ? 0 : (int64_t)ns;
}

static inline int64_t uvs_node_later(int64_t now_ns, int64_t delay_ns) {
  return delay_ns > UVS_NEVER - now_ns ? UVS_NEVER : now_ns + delay_ns;
}

/* The core gets the number of a slot or a bundle as the task's `arg`. */
static inline void *uvs_node_arg(uint32_t number) {
  return (void *)(uintptr_t)number;
}

static inline uint32_t uvs_node_number(const void *arg) {
  return (uint32_t)(uintptr_t)arg;
}

/* ---- plain.c: tasks with one run and no options ---- */

/* arm(). In: SLOT, DELAY, FLAGS: 1 = unref. */
napi_value uvs_node_arm(napi_env env, napi_callback_info info);
void uvs_node_plain_flush(struct host *h);
/* Plain tasks with a deadline up to until_ns become due. Called before an event of that time is
 * noted. */
void uvs_node_plain_until(struct host *h, int64_t until_ns);
void uvs_node_plain_cancel(struct host *h, uint32_t slot);
int uvs_node_plain_move(struct host *h, uint32_t slot, int64_t delay_ns);
void uvs_node_plain_ref(struct host *h, uint32_t slot, bool ref);
/* Is this task of the core a bundle? If so, notes that its members never ran. */
bool uvs_node_plain_never_ran(struct host *h, uvs_work_cb body, void *arg);
void uvs_node_plain_free(struct host *h);

/* ---- table.c ---- */

/* table(): the table of functions through which other addons use the scheduler. */
napi_value uvs_node_table(napi_env env, napi_callback_info info);
/* No host is left: removes the clean-up hooks, so that the environment can end. */
void uvs_node_let_go(struct addon *a);
void uvs_node_free_tables(struct addon *a);

#endif
