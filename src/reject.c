/* SPDX-License-Identifier: MIT
 *
 * reject: what becomes of a submission that the cap has no room for.
 *
 * The policy says on which terms submit.c takes it in: not at all, as a task that is dropped, as
 * one for which the oldest has to go, or as one that its submitter runs. An own handler is asked at
 * most once per submission, with no lock held, and may call anything.
 *
 * Who has to go is the loop's business, since the queues are: it decides when it takes the newcomer
 * in. Until then the cap may be exceeded, up to twice.
 *
 * A submitter that runs its own tasks is no runner: the loop does not know of it. Two things see to
 * it that nobody terminates or closes under such a body. `callers` is raised before the shutdown
 * tag is looked at once more, and the loop looks at both the other way round. And each task that
 * was started is counted in `here`, which the loop adds to those that it knows.
 */
#include "scheduler.h"

/* ---- the policy ---- */

bool uvs__rejection_known(int rejection, uvs_rejected_cb handler) {
  if (rejection == UVS_REJECT_ASK)
    return handler != NULL;
  return rejection >= UVS_REJECT_ABORT && rejection < UVS_REJECT_ASK;
}

int uvs_rejection(uvs_t *s) {
  int rc = uvs__enter(s);

  return rc < 0 ? rc : uvs__load(&s->rejection, relaxed); /* a setting */
}

int uvs_set_rejection(uvs_t *s, int rejection) {
  int rc = uvs__enter(s);

  if (rc < 0)
    return rc;
  if (!uvs__rejection_known(rejection, s->rejected_cb))
    return UV_EINVAL;
  uvs__store(&s->rejection, rejection, relaxed); /* a setting: nothing else goes with it */
  return 0;
}

uvs_rejected_cb uvs_rejection_handler(uvs_t *s) {
  return s == NULL ? NULL : s->rejected_cb;
}

static int policy_of_answer(int answer) {
  return answer == UVS_DROP       ? UVS_REJECT_DISCARD
         : answer == UVS_RUN_HERE ? UVS_REJECT_CALLER_RUNS
                                  : UVS_REJECT_ABORT;
}

enum uvs__terms uvs__terms_without_room(uvs_t *s, const uvs_task_t *given, size_t n, int code) {
  static const enum uvs__terms terms[] = {
      [UVS_REJECT_ABORT] = UVS__TERMS_REFUSED,
      [UVS_REJECT_DISCARD] = UVS__TERMS_DROP,
      [UVS_REJECT_DISCARD_OLDEST] = UVS__TERMS_PUSH,
      [UVS_REJECT_CALLER_RUNS] = UVS__TERMS_HERE,
  };
  int rejection = uvs__load(&s->rejection, relaxed); /* a setting */

  if (rejection == UVS_REJECT_ASK)
    rejection = policy_of_answer(s->rejected_cb(s, given, n, code));
  return code == UV_ESHUTDOWN ? UVS__TERMS_REFUSED : terms[rejection];
}

/* ---- somebody has to go (loop thread) ---- */

/* Drop the task that would start next, of those that are not running. "Never" tasks are in no
 * queue. False: there is none. */
static bool drop_oldest(uvs_t *s) {
  uint64_t now_ns = uvs__now(s);
  uint64_t wall_ns = s->agenda.wall.count == 0 ? 0 : uvs__clock_wall(&s->clock);
  uint32_t slot;

  while ((slot = uvs__pool_first(&s->pool)) != UVS__NONE) {
    uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* a hint; the drop decides */

    if (uvs__drop_on_loop(s, uvs__id(w, slot)))
      return true; /* else it has started or was cancelled: it is ready no more */
  }
  while ((slot = uvs__agenda_first(&s->agenda, now_ns, wall_ns)) != UVS__NONE) {
    uint64_t w = uvs__load(&uvs__slot(s, slot)->word, relaxed); /* for its constants */

    if (uvs__drop_on_loop(s, uvs__id(w, slot)))
      return true;
    uvs__agenda_remove(&s->agenda, slot, w); /* cancelled meanwhile: the inbox brings it */
  }
  return false;
}

bool uvs__make_room(uvs_t *s, uint32_t newcomer, uint64_t w) {
  if ((uint32_t)uvs__load(&s->pool.load, relaxed) <= s->max_pending) /* a count */
    return true;
  if (!uvs__may_run(s, uvs__slot(s, newcomer), w))
    return true; /* its own end makes the room */
  if (drop_oldest(s))
    return true;
  uvs__drop_on_loop(s, uvs__id(w, newcomer)); /* unless it was cancelled meanwhile */
  return false;
}

/* ---- the submitter runs it ---- */

bool uvs__fits_here(const uvs_t *s, const uvs_task_t *t, uint64_t due_ns, uint64_t now_ns) {
  return s->decorate_cb == NULL && t->work != NULL && t->kind == UVS_ONCE &&
         t->from != UVS_FROM_WALL && due_ns <= now_ns && t->jitter_ns == 0 &&
         t->failure == UVS_FAIL_STOP && t->limit_ns == 0 && t->lane == 0 &&
         t->keep != UVS__KEEP_PINNED; /* of a group, which could not keep its own time limit */
}

bool uvs__caller_enters(uvs_t *s) {
  uv_mutex_lock(&s->pool.lock);
  s->pool.callers++;
  uv_mutex_unlock(&s->pool.lock);
  /* seq_cst: after the count. Either we see the tag, or the loop, which sees the tag before it
   * looks at the count, sees us. */
  if ((uvs__load(&s->inbox.head, seq_cst) & UVS__SHUTDOWN_TAG) == 0)
    return true;
  uv_mutex_lock(&s->pool.lock);
  s->pool.callers--;
  uv_mutex_unlock(&s->pool.lock);
  uvs__ticker_wake(&s->ticker); /* it may have waited for us */
  return false;
}

/* Move 4. False if it must not start here: it was cancelled, or moved to a later time, or
 * everything is stopped. */
static bool start_here(uvs_t *s, uint32_t slot) {
  struct uvs__slot *t = uvs__slot(s, slot);
  uint64_t now_ns = uvs__now(s);
  bool started = false;
  uint64_t ready;
  uint64_t w;

  uv_mutex_lock(&s->pool.lock);
  w = uvs__locked_load(&t->word, relaxed); /* the CAS acquires */
  /* relaxed: whoever sets it lets the loop end what has not started, under the same lock */
  while (uvs__word_state(w) == UVS__WAITING && (w & UVS__MOVING) == 0 &&
         !uvs__locked_load(&s->stop, relaxed)) {
    ready = uvs__word_in(w & ~UVS__INBOX, UVS__READY);
    if (!uvs__word_try_locked(t, &w, ready))
      continue;
    /* Nobody can move it any more, so this is its time. */
    started = uvs__locked_load(&t->deadline_ns, relaxed) <= now_ns; /* the CAS acquired it */
    w = ready;
    while (!uvs__word_try_locked(t, &w,
                                 started ? uvs__word_in(w, UVS__RUNNING) | UVS__TAKEN
                                         : uvs__word_in(w, UVS__WAITING) | UVS__INBOX)) {
    }
    break;
  }
  if (started) {
    s->pool.running_count++;
    s->pool.runs++;
    uvs__locked_add(&s->pool.here, UVS__LOAD_ONE + ((w & UVS__REF) != 0 ? UVS__LOAD_REF : 0),
                    relaxed); /* a count; what brings the task to the loop orders it */
  }
  uv_mutex_unlock(&s->pool.lock);
  return started;
}

/* The loop must look: for the count of callers, or for a task that it does not hear of otherwise.
 */
static void call_the_loop(uvs_t *s) {
  if (!uvs__on_loop(s))
    uvs__ticker_wake(&s->ticker);
  else if (!s->in_tick)
    uvs__owe_turn(s);
}

void uvs__caller_runs(uvs_t *s, uint32_t oldest) {
  bool sent = false;
  bool unheard = false;
  bool call;

  while (oldest != UVS__NONE) {
    uint32_t slot = oldest;

    oldest = uvs__load(&uvs__slot(s, slot)->next, relaxed); /* ours while INBOX is set */
    if (!start_here(s, slot)) {
      uvs__send_in(s, slot, slot, 0); /* accepted it is, as any other */
      sent = true;
    } else if (uvs__run_here(s, slot)) {
      sent = true;
    } else {
      unheard = true;
    }
  }

  uv_mutex_lock(&s->pool.lock);
  s->pool.callers--;
  uv_mutex_unlock(&s->pool.lock);
  /* Who sent has woken the loop as well; but on the loop it must also stay for it. */
  call = uvs__inbox_is_shut(&s->inbox) || (sent && uvs__on_loop(s)) ||
         (unheard && uvs__load(&s->pool.here, relaxed) != 0); /* a count */
  if (call)
    call_the_loop(s);
}

bool uvs__callers_inside(uvs_t *s) {
  bool inside;

  uv_mutex_lock(&s->pool.lock);
  inside = s->pool.callers > 0;
  uv_mutex_unlock(&s->pool.lock);
  uvs__learn_of_here(s); /* of those that just left */
  return inside;
}

void uvs__learn_of_here(uvs_t *s) {
  uint64_t here;
  int64_t tasks;

  if (uvs__load(&s->pool.here, relaxed) == 0) /* a count; what brings the tasks orders it */
    return;
  here = uvs__and(&s->pool.here, 0, relaxed); /* the same */
  tasks = (int32_t)(uint32_t)here;
  s->taken += (uint64_t)tasks;
  s->taken_ref += (uint64_t)((int64_t)(here - (uint64_t)tasks) >> 32);
}
