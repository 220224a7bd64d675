/* SPDX-License-Identifier: MIT
 *
 * close: shutdown and close against submit. docs/models.md says what this is.
 *
 * The tag on the inbox (src/inbox.c, src/submit.c, src/shutdown.c), who is terminated and when
 * (check_terminated in src/tick.c), the senders that close waits for (src/ticker.c), and the
 * references that memory goes with (src/scheduler.c). A task here only comes in and ends: what
 * else may happen to one is word.pml's.
 *
 * SUBMITTERS=n threads submit one task each, slot n, with a reference of their own (UNREF: without;
 * then the program must have joined them before it closes). CALLER: the last of them runs its task
 * itself (UVS_REJECT_CALLER_RUNS). The loop's thread closes at any moment; SHUTTER: another thread shuts down, too.
 */
#ifndef SUBMITTERS
#define SUBMITTERS 2
#endif

#define TAG 8 /* UVS__SHUTDOWN_TAG; below it the slots on the inbox, as bits */

byte head;
bool asleep;           /* next_wake is not UVS__AWAKE, so who pushes sends */
byte senders;          /* ticker.senders */
bool sendable = true;  /* ticker.sendable */
bool pending = true;   /* the uv_async was sent: by uvs_open */
byte callers;          /* pool.callers */
byte here;             /* pool.here: tasks that their submitters started, and the loop has not counted */
byte refs = 1;         /* uvs_t.refs */
byte taken;            /* tasks that the loop knows */
bool closing, terminated, closed, freed, handles_closed;

/* Only to ask. */
byte accepted, done; /* slots, as bits */
byte left = SUBMITTERS;

/* Anybody touches the scheduler's memory. */
#define touch() assert(!freed)

/* uvs__ticker_wake. */
inline wake() {
#ifdef BROKEN_SENDER_NOT_COUNTED
  touch();
#else
  atomic { touch(); senders++ }; /* uvs__ticker_hold */
#endif
  atomic { touch(); may = sendable };
#ifdef BROKEN_SEND_UNASKED
  may = true;
#endif
  if
  :: may -> /* uv_async_send: not to a handle that is closed, its file may be another's */
    atomic { touch(); assert(!handles_closed); pending = true }
  :: else
  fi;
#ifndef BROKEN_SENDER_NOT_COUNTED
  atomic { touch(); senders-- }
#endif
}

/* uvs_release. */
inline release() {
  atomic {
    touch();
    refs--;
    if
    :: refs == 0 -> assert(senders == 0 && callers == 0); freed = true /* destroy */
    :: else
    fi
  }
}

/* uvs__inbox_push of a submission; and what must follow. */
inline push_fresh(slot) {
#ifdef BROKEN_CHECK_THEN_PUSH
  atomic { touch(); ok = (head & TAG) == 0 };
  if
  :: ok -> atomic { touch(); head = head | slot; accepted = accepted | slot }
  :: else
  fi;
#else
  atomic { /* the CAS; a failed one looks again */
    touch();
    ok = (head & TAG) == 0;
    if
    :: ok -> head = head | slot; accepted = accepted | slot
    :: else
    fi
  };
#endif
  if
  :: ok ->
    atomic { touch(); may = asleep };
    if
    :: may -> wake()
    :: else
    fi
  :: else
  fi
}

/* uvs_submit in src/submit.c. */
proctype Submitter(byte slot) {
  bool ok, may;
  atomic { touch(); ok = !closed }; /* uvs__enter */
  if
  :: ok -> push_fresh(slot)
  :: else
  fi;
#ifdef UNREF
  left--
#else
  atomic { release(); left-- }
#endif
}

/* accept_made, UVS__TERMS_HERE: uvs__caller_enters and uvs__caller_runs in src/reject.c. */
proctype Caller(byte slot) {
  bool ok, may;
  atomic { touch(); ok = !closed };
  if
  :: !ok -> goto out
  :: else
  fi;
#ifdef BROKEN_CALLER_LOOKS_FIRST
  atomic { touch(); ok = (head & TAG) == 0 };
  atomic { touch(); callers++ };
#else
  atomic { touch(); callers++ };
  atomic { touch(); ok = (head & TAG) == 0 };
#endif
  if
  :: !ok ->
    atomic { touch(); callers-- };
    wake(); /* it may have waited for us */
    goto out
  :: else
  fi;
  atomic { touch(); accepted = accepted | slot; here++ }; /* start_here */
  /* uvs__run_here: the end of the run is pushed, tag or not */
  atomic { touch(); head = head | slot };
  atomic { touch(); may = asleep };
  if
  :: may -> wake()
  :: else
  fi;
#ifndef BROKEN_CALLER_STAYS
  atomic { touch(); callers-- };
#endif
#ifndef BROKEN_CALLER_LEAVES_SILENTLY
  atomic { touch(); may = (head & TAG) != 0 };
  if
  :: may -> wake() /* call_the_loop */
  :: else
  fi;
#endif
out:
#ifdef UNREF
  left--
#else
  atomic { release(); left-- }
#endif
}

/* uvs_shutdown, off the loop, by somebody with a reference. */
proctype Shutter() {
  bool ok, may;
  atomic { touch(); ok = !closed };
  if
  :: ok ->
    atomic { touch(); head = head | TAG }; /* uvs__inbox_shut */
    wake() /* notice */
  :: else
  fi;
  release()
}

/* Of what was taken, one task ends after the other: `done`, and it is over. */
inline end_tasks() {
  do
  :: got != 0 ->
    atomic {
      if
      :: got & 1 -> slot = 1
      :: (got & 1) == 0 && (got & 2) -> slot = 2
      :: else -> slot = 4
      fi;
      assert(!(done & slot));
      assert(!terminated);
      done = done | slot;
      got = got & ~slot;
      assert(taken > 0);
      taken--;
      slot = 0
    }
  :: else -> break
  od
}

/* take_in_until. What its submitter started is TAKEN already, and counted by uvs__learn_of_here. */
inline take_in() {
#ifdef BROKEN_HERE_LEARNT_FIRST
  atomic { taken = taken + here; here = 0 };
#endif
  atomic {
    got = head & ~TAG;
    head = head & TAG; /* uvs__inbox_take */
    fresh = got;
#ifdef CALLER
    fresh = got & ~(1 << (SUBMITTERS - 1))
#endif
  };
#ifndef BROKEN_HERE_LEARNT_FIRST
  atomic { taken = taken + here; here = 0 };
#endif
  atomic { taken = taken + (fresh & 1) + ((fresh >> 1) & 1) + ((fresh >> 2) & 1); fresh = 0 };
  end_tasks()
}

active proctype Loop() {
  byte got, fresh, slot, i;
  bool may, ok, close_called;

  atomic {
    i = 0;
    do
    :: i < SUBMITTERS ->
#ifndef UNREF
      refs++; /* uvs_retain, by who hands the scheduler over */
#endif
      if
#ifdef CALLER
      :: i == SUBMITTERS - 1 -> run Caller(1 << i)
#endif
      :: else -> run Submitter(1 << i)
      fi;
      i++
    :: else -> break
    od;
#ifdef SHUTTER
    refs++;
    run Shutter();
#endif
    i = 0
  };

poll:
  if
  :: atomic { pending -> pending = false }
#ifdef UNREF
  :: atomic { left == 0 && !close_called -> close_called = true }; /* the program has joined them */
#else
  :: atomic { !close_called -> close_called = true };
#endif
    /* uvs_close: uvs__stop_now, uvs__owe_turn */
    closing = true;
    head = head | TAG;
    asleep = false;
    wake();
    goto poll
  fi;

  asleep = false; /* uvs__tick */
  take_in();
again:
  take_in();
  /* check_terminated, in this order */
  atomic { ok = (head & TAG) != 0 && !terminated };
#ifndef BROKEN_CALLERS_NOT_ASKED
  if
  :: ok ->
#ifdef CALLER
    atomic { ok = callers == 0 };
    atomic { taken = taken + here; here = 0 } /* uvs__callers_inside */
#endif
  :: else
  fi;
#endif
#ifdef BROKEN_DRAINED_NOT_ASKED
  atomic { ok = ok && taken == 0 };
#else
  atomic { ok = ok && head == TAG && taken == 0 };
#endif
  if
  :: ok -> terminated = true
  :: else
  fi;
  asleep = true; /* uvs__inbox_sleep */
  if
  :: (head & ~TAG) != 0 -> asleep = false; goto again
  :: (head & ~TAG) == 0
  fi;
  if
  :: !(closing && terminated) -> goto poll
  :: else
  fi;

  /* uvs__close_handles, uvs__ticker_close: uvs__ticker_mute */
#ifdef BROKEN_MUTE_AFTER_WAIT
  senders == 0;
  sendable = false;
#else
  sendable = false;
#ifndef BROKEN_SENDERS_NOT_AWAITED
  senders == 0;
#endif
#endif
  handles_closed = true; /* uv_close */
  /* on_closed, finish_close: in a later turn */
  closed = true;
#ifdef BROKEN_FREE_WITH_CLOSE
  atomic { freed = true }
#else
  release()
#endif
}

/* Nobody can do anything any more. */
active proctype Watch() {
  timeout ->
  assert(terminated && closed && freed && left == 0);
  assert(accepted == done) /* one `done` for each that was accepted, and for no other */
}
