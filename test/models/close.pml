/* SPDX-License-Identifier: MIT
 *
 * close: uvs_close against threads that submit and against a runner of an executor that comes back.
 * docs/testing.md says what this is.
 *
 * Asked: an accepted task has its `done` before `terminated`, a refused one has none. Nothing is sent
 * to a handle that is closed. Nobody touches the scheduler's memory when it is gone. Close comes to
 * its end. The code: src/api/open.c (uvs_close), src/core/wake.c, src/loop/pass.c (check_terminated),
 * src/loop/close.c, src/port/ticker.c (hold, send, mute), src/pool/crew.c (run_and_return).
 *
 * A critical section is one step. SUBMITTERS=n threads, each with a reference, submit one task each;
 * GROWS: they release the lock to allocate. CHANGER calls uvs_clock_changed, with a reference. RUNNER:
 * a runner is out at first; it has no reference.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 1
#endif

/* What the lock protects. */
bool shut, policy_changed, terminated, mute, in_pass, sent;
byte waiting, owed, returned, out;
#define live (waiting + owed)
#define can_terminate \
  (shut && !terminated && live == 0 && (out == 0 || TERMINATES_WITH_RUNNERS) && !policy_changed)
#define loop_work (owed > 0 || policy_changed || returned > 0 || waiting > 0 || can_terminate)
#ifdef BROKEN_RUNNERS_NOT_AWAITED
#define TERMINATES_WITH_RUNNERS true
#else
#define TERMINATES_WITH_RUNNERS false
#endif

/* What it does not. */
bool sendable = true; /* of the ticker */
byte senders;
byte refs; /* the owner's, and one for each submitter */
bool gone; /* the memory */
bool pending, event, handle_closed, closed;
byte accepted, dones;

inline async_send() {
  atomic {
    assert(!handle_closed);
    event = event || !pending;
    pending = true
  }
}

/* uvs__wake_decide, at the end of a section; uvs__ticker_hold in it. */
inline decide() {
  send = !in_pass && !mute && !sent && loop_work;
  sent = sent || send;
#ifndef BROKEN_HELD_AFTER_UNLOCKING
  senders = senders + send
#endif
}

/* uvs__ticker_send, after unlocking. */
inline wake() {
  if
  :: send ->
#ifdef BROKEN_HELD_AFTER_UNLOCKING
    senders++;
#endif
    assert(!gone);
    send = sendable;
    if
    :: send -> async_send()
    :: else
    fi;
    atomic { assert(!gone); senders-- }
  :: else
  fi
}

inline release() {
  atomic {
    refs--;
    gone = gone || refs == 0
  }
}

proctype Submitter() {
  bool send, taken;
  if
  :: closed -> goto leave /* uvs__enter */
  :: else
  fi;
  assert(!gone);
#ifdef GROWS
  if
  :: shut -> goto leave
  :: else
  fi; /* the lock is released: memory is allocated */
#endif
  d_step {
    assert(!gone);
#ifndef BROKEN_SHUT_NOT_ASKED_AGAIN
    taken = !shut;
#else
    taken = true;
#endif
    if
    :: taken -> accepted++; waiting++
    :: else
    fi;
    decide()
  };
  wake();
leave:
  release()
}

#ifdef CHANGER
proctype Changer() { /* uvs__wake_loop */
  bool send;
  if
  :: closed -> goto leave
  :: else
  fi;
  d_step {
    send = !mute && !sent;
    sent = sent || send;
    senders = senders + send
  };
  wake();
leave:
  release()
}
#endif

#ifdef RUNNER
proctype Runner() { /* run_and_return */
  bool send;
  d_step {
    assert(!gone);
    returned++;
    decide()
  };
  wake()
}
#endif

inline check_terminated() {
  d_step {
    if
    :: can_terminate ->
      terminated = true;
      assert(accepted == dones)
    :: else
    fi
  }
}

inline pass() {
  d_step { in_pass = true; sent = false; out = out - returned; returned = 0 };
  if
  :: shut -> d_step { owed = owed + waiting; waiting = 0; policy_changed = false }
  :: else -> d_step { owed = owed + waiting; waiting = 0 } /* they are due, and run on the loop */
  fi;
  if
  :: owed > 0 -> d_step { owed--; dones++ }
  :: else
  fi;
  check_terminated();
  d_step {
    in_pass = false;
    send = !mute && !sent && loop_work;
    sent = sent || send;
    senders = senders + send
  };
  if
  :: send ->
    async_send();
    senders--
  :: else
  fi
}

/* uvs__ticker_mute */
inline await_senders() {
#ifndef BROKEN_SENDERS_NOT_AWAITED
  senders == 0
#else
  skip
#endif
}

init { /* the loop */
  bool send, closing;
  byte n;
  atomic {
    refs = 1;
    do
    :: n < SUBMITTERS -> refs++; run Submitter(); n++
    :: else -> break
    od;
#ifdef CHANGER
    refs++;
    run Changer();
#endif
#ifdef RUNNER
    out = 1;
    run Runner();
#endif
    n = 0
  };
  do
  :: event && !terminated -> event = false; pending = false; pass()
  :: !closing -> /* uvs_close, and the pass that its nudge brings */
    closing = true;
    d_step { shut = true; policy_changed = true };
    pass()
  :: closing && terminated -> break
  od;
  skip; /* close_handles */
#ifdef BROKEN_MUTE_AFTER_THE_WAIT
  await_senders();
  d_step { mute = true };
  sendable = false;
#else
  d_step { mute = true };
#ifndef BROKEN_SENDABLE_STAYS
  sendable = false;
#endif
  await_senders();
#endif
  handle_closed = true;
  closed = true;
  release();
  assert(accepted == dones)
}
