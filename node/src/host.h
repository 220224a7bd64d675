/* SPDX-License-Identifier: MIT
 *
 * host: one scheduler of the core on node's loop, and the JavaScript that it calls.
 *
 *   host   one uvs_t with the JavaScript side of it; a Scheduler has one
 *   addon  what one environment (the main thread, a worker) has of this: its hosts
 *   slot   the number of a task of JavaScript's, given out there
 *   io     the numbers that both sides read and write, a Float64Array: to pass one this way costs
 *          next to nothing, and an argument of a call tens of nanoseconds
 *
 * No static mutable state: an environment finds its addon as napi instance data.
 */
#ifndef UVS_NODE_HOST_H
#define UVS_NODE_HOST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <node_api.h>
#include <uvsched.h>
#include <uvsched/settings.h>
#include <uvsched/stats.h>
#include <uvsched/lane.h>

#include "uvsched_node.h"

struct addon {
  struct host *hosts;
  struct host **numbered; /* every host that JavaScript may still call, by its number */
  uint32_t numbered_room;
  uint32_t *at;         /* which of them the next call is for: `at` of the exports */
  unsigned users;       /* the environment, and these */
  struct guest *guests; /* other addons, see table.c */
  struct gate *gates;   /* what they have of our hosts */
  napi_async_cleanup_hook_handle hook;
  bool dying;
};

/* The places of io; lib/io.js has the same. */
enum {
  IO_RC = 0,    /* out: how the call ended */
  IO_NOW,       /* out: the clock */
  IO_NEXT,      /* drain: how many events it has taken */
  IO_OVER,      /* drain: 1 = its time is over, the rest in the next turn */
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
  IO_WALL_NS, /* what an instant of the wall clock has below the ms that are in IO_DELAY */
  IO_EVENTS = 32,
  IO_EVENT_WIDTH = 6,
  IO_EVENT_ROOM = 256,
  IO_SIZE = IO_EVENTS + IO_EVENT_WIDTH * IO_EVENT_ROOM
};

/* What happened, for JavaScript to hear of when the core has done its turn. */
enum event_kind {
  EVENT_RUN = 1,    /* a task is due: a = ideal, b = due, c = run number, d = missed */
  EVENT_DONE,       /* a task is over: a = status */
  EVENT_MISSED,     /* points of a grid passed: a = how many, b = UVS_LATE_... */
  EVENT_NEVER_RAN,  /* shutdownNow took it back */
  EVENT_QUIET,      /* a lane is quiet; the slot is the lane's key */
  EVENT_TERMINATED, /* shut down, and every task is over */
  EVENT_CLOSED      /* closed; the last event */
};

struct event {
  enum event_kind kind;
  uint32_t slot;
  double a, b, c, d;
};

enum slot_state {
  SLOT_FREE = 0,
  SLOT_IN,    /* the core has it as a task of its own */
  SLOT_WAITS, /* plain, and in a bundle */
  SLOT_DUE    /* plain: its run is on the way to JavaScript, or has begun */
};

struct slot {
  union {
    uvs_id_t id;    /* SLOT_IN: the core's */
    int64_t due_ns; /* SLOT_WAITS */
  };
  uint32_t bundle, next, prev; /* SLOT_WAITS: where, and its neighbours there */
  uint8_t state;               /* enum slot_state */
  bool unref;                  /* SLOT_WAITS */
  bool overtakes;              /* SLOT_IN: it has a high priority */
  bool noted;                  /* SLOT_IN: an event other than a run or the end names this slot */
};

/* Plain tasks that are due in the same grain of time; see plain.c. */
struct bundle {
  int64_t key;         /* their deadlines in grains, rounded up */
  int64_t due_ns;      /* the latest of them */
  uvs_id_t id;         /* the core's; 0: it has not been handed over */
  uint32_t head, tail; /* its members, in the order of arming */
  uint32_t live;       /* members */
  uint32_t refs;       /* those that keep the loop alive */
  uint32_t chain;      /* the next one with the same hash, or the next free one */
  uint32_t fresh;      /* the next one that has not been handed over */
  bool sorted;         /* the order of arming is that of their deadlines */
};

struct plain {
  int64_t grain_ns;
  struct bundle *bundles; /* 0 is none */
  uint32_t bundle_count, bundle_room, free;
  uint32_t *hash; /* the first bundle of each chain; a power of two of them */
  uint32_t hash_size;
  uint32_t last;   /* the bundle of the task armed last, which most often is the next one's, too */
  uint32_t fresh;  /* not yet handed over */
  uint32_t sealed; /* take no more members */
  uint32_t fresh_refs;                /* members of these that hold the loop */
  uint64_t armed, waiting;            /* tasks */
  uint64_t submitted, fired, dropped; /* bundles, which the core counts as tasks */
};

struct host {
  struct addon *addon;
  uint32_t number;
  struct host *next, **link; /* among the addon's */
  napi_env env;
  uvs_t *s;       /* NULL: closed */
  uv_idle_t idle; /* active while something is to be handed over, in either direction */
  double *io;
  napi_ref self;  /* strong while open: the object that owns us */
  napi_ref drain; /* what is called with events */
  struct slot *slots;
  uint32_t slot_room;
  struct plain plain;
  struct event *events; /* first .. first + count */
  uint32_t event_first, event_count, event_room;
  bool shut;         /* nothing new is accepted */
  bool stopped;      /* and nothing more begins */
  int64_t shut_ns;   /* since when */
  bool closing;      /* uvs_close was called */
  uvs_counts_t last; /* when it was terminated */
  bool idle_open;
  struct gate *gate;       /* for other addons; NULL: nobody has asked */
  _Atomic unsigned ending; /* the environment's end has come; the bodies' threads ask */
};

/* What JavaScript calls. There is one function of each for all hosts, because V8 calls faster what
 * is always the same; whose turn it is stands in `at`. */
bool uvs_node_export(napi_env env, struct addon *a, napi_value exports);
/* The environment, or a host, needs it no more. */
void uvs_node_release(struct addon *a);

/* The environment ends: close everything, then let go of the hooks. Called by each of them. */
void uvs_node_teardown(struct addon *a);

/* ---- of the host's, for the others ---- */

struct host *uvs_node_host(napi_env env, napi_callback_info info);
void uvs_node_wake(struct host *h); /* call the idle callback */
void uvs_node_note(struct host *h, struct event e);
void uvs_node_out_of_memory(void);
bool uvs_node_grow(void **array, uint32_t *room, uint32_t want, size_t size);
bool uvs_node_slot_room(struct host *h, uint32_t slot);

/* Whole nanoseconds of a double; what no int64_t holds is never. */
static inline int64_t uvs_node_ns(double ns) {
  if (!(ns < 9.2e18))
    return UVS_NEVER;
  return ns < 0 ? 0 : (int64_t)ns;
}

static inline int64_t uvs_node_later(int64_t now_ns, int64_t delay_ns) {
  return delay_ns > UVS_NEVER - now_ns ? UVS_NEVER : now_ns + delay_ns;
}

/* Slots and bundles travel through the core as a task's arg. */
static inline void *uvs_node_arg(uint32_t number) {
  return (void *)(uintptr_t)number;
}

static inline uint32_t uvs_node_number(const void *arg) {
  return (uint32_t)(uintptr_t)arg;
}

/* ---- plain.c: tasks with one run and no options ---- */

/* arm(): SLOT, DELAY, FLAGS 1 = unref. */
napi_value uvs_node_arm(napi_env env, napi_callback_info info);
void uvs_node_plain_flush(struct host *h);
/* Those with a deadline up to until_ns become due, before an event of that time is noted. */
void uvs_node_plain_until(struct host *h, int64_t until_ns);
void uvs_node_plain_cancel(struct host *h, uint32_t slot);
int uvs_node_plain_move(struct host *h, uint32_t slot, int64_t delay_ns);
void uvs_node_plain_ref(struct host *h, uint32_t slot, bool ref);
/* Is a task of the core's a bundle? Then its members never ran. */
bool uvs_node_plain_never_ran(struct host *h, uvs_work_cb body, void *arg);
void uvs_node_plain_free(struct host *h);

/* ---- table.c ---- */

/* table(): a scheduler for other addons. */
napi_value uvs_node_table(napi_env env, napi_callback_info info);
/* No host is left: the environment may go on with its end. */
void uvs_node_let_go(struct addon *a);
void uvs_node_free_tables(struct addon *a);

#endif
