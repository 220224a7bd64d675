/* SPDX-License-Identifier: MIT */
#include "port/ticker.h"

#include <sched.h>

#define MS UINT64_C(1000000)
#define HANDLES 6 /* two pairs and two alarms */

/* The kernel may delay the time-out of an epoll by 0.1 %. From this length on that is 1 ms or more,
 * so such waits are made in two stages. */
#define LONG_WAIT_NS (1000 * MS)

static void on_alarm(void *data) {
  struct uvs__ticker *k = data;

  k->armed_ns = UVS__NEVER;
  k->due(k);
}

static void on_uv_timer(uv_timer_t *h) {
  on_alarm(h->data);
}

static void on_uv_async(uv_async_t *h) {
  struct uvs__ticker *k = h->data;

  k->tick(k);
}

static int open_pair(struct uvs__ticker *k, int which) {
  int rc = uv_async_init(k->loop, &k->pair[which].async, on_uv_async);

  if (rc < 0)
    return rc;
  rc = uv_timer_init(k->loop, &k->pair[which].timer);
  UVS_ASSERT(rc == 0); /* it cannot fail */
  k->pair[which].async.data = k;
  k->pair[which].timer.data = k;
  uv_unref((uv_handle_t *)&k->pair[which].timer);
  k->in_use = which;
  k->kept = true;
  k->armed_ns = UVS__NEVER;
  uvs__store(&k->sendable, which, seq_cst); /* pairs with uvs__ticker_send */
  return 0;
}

static void free_orphan(uv_handle_t *h) {
  uvs__alarm_free((void *)((char *)h - offsetof(struct uvs__alarm, poll)));
}

int uvs__ticker_init(struct uvs__ticker *k, uv_loop_t *loop, const uvs_allocator_t *mem,
                     uint64_t slack_ns, uvs__tick_cb tick, uvs__tick_cb due) {
  int rc = 0;

  k->loop = loop;
  k->mem = mem;
  k->tick = tick;
  k->due = due;
  atomic_init(&k->sendable, -1);
  k->slack_ns = slack_ns;
  if (slack_ns > 0)
    rc = uvs__alarm_open(mem, loop, false, on_alarm, k, &k->alarm);
  if (rc < 0)
    return rc;
  rc = open_pair(k, 0);
  if (rc < 0 && k->alarm != NULL)
    uv_close((uv_handle_t *)&k->alarm->poll, free_orphan);
  return rc;
}

void uvs__ticker_forget(struct uvs__ticker *k) {
  uvs__mem_free(k->mem, k->alarm);
  uvs__mem_free(k->mem, k->wall);
}

/* Does the pair in use have the alarm? */
static bool has_alarm(const struct uvs__ticker *k) {
  return k->alarm != NULL && k->in_use == 0;
}

/* seq_cst, as the load in uvs__ticker_send: pairs with uvs__ticker_mute. Either the sender sees -1
 * and does not send, or uvs__ticker_mute sees the sender and waits for it. */
void uvs__ticker_hold(struct uvs__ticker *k) {
  uvs__add(&k->senders, 1, seq_cst);
}

void uvs__ticker_send(struct uvs__ticker *k) {
  int which = uvs__load(&k->sendable, seq_cst);

  if (which >= 0)
    uv_async_send(&k->pair[which].async);
  uvs__sub(&k->senders, 1, release); /* pairs with the load in uvs__ticker_mute */
}

static void wake(void *data) {
  uvs__ticker_hold(data);
  uvs__ticker_send(data);
}

void uvs__ticker_watch_wall(struct uvs__ticker *k) {
  if (!k->wall_tried)
    uvs__alarm_open(k->mem, k->loop, true, wake, k, &k->wall);
  k->wall_tried = true;
}

void uvs__ticker_arm(struct uvs__ticker *k, uint64_t due_ns, uint64_t now_ns) {
  uint64_t wait_ns = due_ns <= now_ns ? 0 : due_ns - now_ns;
  uint64_t wait_ms;

  if (k->armed_ns <= due_ns)
    return; /* it may fire once too early: cheaper than moving it at each cancel */
  if (has_alarm(k) && uvs__alarm_set(k->alarm, uvs__steps_later(due_ns, 1, k->slack_ns))) {
    k->armed_ns = due_ns;
    return;
  }
  if (wait_ns >= LONG_WAIT_NS)
    wait_ns -= wait_ns / 512 + MS;
  wait_ms = wait_ns / MS + (wait_ns % MS != 0);
  /* Never 0: up to libuv 1.47, 0 starves I/O if it is set in the timer's own callback. */
  uv_update_time(k->loop);
  if (uv_timer_start(&k->pair[k->in_use].timer, on_uv_timer, wait_ms == 0 ? 1 : wait_ms, 0) == 0)
    k->armed_ns = due_ns;
  else if (!uvs__ticker_lost(k)) /* without its handles the scheduler runs nothing */
    wake(k);                     /* the next pass arms the timer again */
}

void uvs__ticker_disarm(struct uvs__ticker *k) {
  if (k->armed_ns == UVS__NEVER)
    return;
  if (has_alarm(k))
    uvs__alarm_set(k->alarm, UVS__NEVER);
  uv_timer_stop(&k->pair[k->in_use].timer);
  k->armed_ns = UVS__NEVER;
}

void uvs__ticker_keep(struct uvs__ticker *k, bool keep) {
  uv_handle_t *h = (uv_handle_t *)&k->pair[k->in_use].async;

  if (keep == k->kept)
    return;
  k->kept = keep;
  if (keep)
    uv_ref(h);
  else
    uv_unref(h);
}

/* Lists all handles that were opened, except the spare one. Returns their number. */
static int list_handles(const struct uvs__ticker *k, uv_handle_t *ret[HANDLES]) {
  int n = 0;

  for (int i = 0; i <= k->in_use; i++) {
    ret[n++] = (uv_handle_t *)&k->pair[i].timer;
    ret[n++] = (uv_handle_t *)&k->pair[i].async;
  }
  if (k->alarm != NULL)
    ret[n++] = (uv_handle_t *)&k->alarm->poll;
  if (k->wall != NULL)
    ret[n++] = (uv_handle_t *)&k->wall->poll;
  return n;
}

bool uvs__ticker_owns(const struct uvs__ticker *k, const uv_handle_t *h) {
  uv_handle_t *handles[HANDLES];
  int n = list_handles(k, handles);
  bool found = h == (const uv_handle_t *)&k->spare;

  while (n-- > 0)
    found |= h == handles[n];
  return found;
}

bool uvs__ticker_lost(const struct uvs__ticker *k) {
  return uv_is_closing((const uv_handle_t *)&k->pair[k->in_use].timer) ||
         uv_is_closing((const uv_handle_t *)&k->pair[k->in_use].async) ||
         (has_alarm(k) && uv_is_closing((const uv_handle_t *)&k->alarm->poll));
}

void uvs__ticker_mute(struct uvs__ticker *k) {
  uvs__store(&k->sendable, -1, seq_cst);
  while (uvs__load(&k->senders, seq_cst) != 0) /* see uvs__ticker_hold */
    sched_yield();
}

int uvs__ticker_replace(struct uvs__ticker *k) {
  return uvs__ticker_lost(k) && k->in_use == 0 ? open_pair(k, 1) : 0;
}

/* Opens the spare handle and closes it at once: the loop calls cb later. */
static void close_spare(struct uvs__ticker *k, uv_close_cb cb) {
  uv_timer_init(k->loop, &k->spare);
  k->spare.data = k;
  uv_close((uv_handle_t *)&k->spare, cb);
}

static void on_nudge(uv_handle_t *h) {
  struct uvs__ticker *k = h->data;

  k->nudged = false;
  k->tick(k);
}

void uvs__ticker_nudge(struct uvs__ticker *k) {
  k->nudged = true;
  close_spare(k, on_nudge);
}

static void on_closed(uv_handle_t *h) {
  struct uvs__ticker *k = h->data;

  if (--k->open_handles > 0)
    return;
  if (k->alarm != NULL)
    uvs__alarm_free(k->alarm);
  if (k->wall != NULL)
    uvs__alarm_free(k->wall);
  k->alarm = k->wall = NULL;
  k->closed(k);
}

/* libuv finishes the handles that were closed in one loop iteration in reverse order. So closing
 * our own handles in this iteration does not prove that a handle that somebody else closed is
 * finished. When a handle that is closed in the next iteration is finished, all of them are. */
static void on_ours_closed(uv_handle_t *h) {
  struct uvs__ticker *k = h->data;

  if (--k->open_handles > 0)
    return;
  k->open_handles = 1;
  close_spare(k, on_closed);
}

void uvs__ticker_close(struct uvs__ticker *k, uvs__tick_cb closed) {
  uv_handle_t *handles[HANDLES];
  int all = list_handles(k, handles);
  int n = all;

  k->closed = closed;
  uvs__ticker_mute(k);
  for (int i = all; i-- > 0;) {
    if (uv_is_closing(handles[i])) /* somebody else has closed it */
      handles[i] = handles[--n];
  }
  k->open_handles = n;
  for (int i = 0; i < n; i++)
    uv_close(handles[i], n < all ? on_ours_closed : on_closed);
  if (n == 0) { /* close the spare handle twice, in two iterations: see above */
    k->open_handles = 1;
    close_spare(k, on_ours_closed);
  }
}
