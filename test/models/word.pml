/* SPDX-License-Identifier: MIT
 *
 * word: one periodic task from WAITING to FREE, and all who may be at its word. docs/models.md says
 * what this is; docs/state-word.md numbers the moves.
 *
 * Threads, by -D, each once or (=2) twice: CANCELLERS, MOVERS, FINISHERS; STOPPER is
 * uvs_shutdown_now. The loop and one runner are always there. RUNS: so many runs, then the task is
 * over. PENDS: a body may return UVS_PENDING. AFTER: the task has `after`. LIMIT: it has a time
 * limit, which may pass at any moment; LIMIT=1: and then it would be over.
 *
 * What is done under the pool's lock is one step here: there is never more than one CAS of a word in
 * there. Whether the loop is woken is wakeup.pml's question: this loop looks at all times.
 */
#ifndef RUNS
#define RUNS 2
#endif
#ifndef CANCELLERS
#define CANCELLERS 0
#endif
#ifndef MOVERS
#define MOVERS 0
#endif
#ifndef FINISHERS
#define FINISHERS 0
#endif

/* src/task.h. The generation is one bit: 0 is the task, 1 the next that the slot may hold. */
#define STATE 7
#define FREE 0
#define WAITING 1
#define READY 2
#define RUNNING 3
#define ENDED 4
#define OVER 5
#define INBOX 8
#define MOVING 16
#define TOKEN 32
#define CANCELLED 64
#define PENDING 128
#define FINISHED 256
#define LATE 512
#define NEXT 1024
#define STATUS 2048 /* of the run: 0 its body's, 1 what uvs_finish brought */
#define RUN_BITS (TOKEN | PENDING | FINISHED | STATUS)

#define state(w) ((w) & STATE)
#define has(w, bits) (((w) & (bits)) != 0)
#define settled(w) (state(w) >= ENDED || has(w, CANCELLED | LATE))

short word = WAITING;

/* Where the slot is. Each is one list, or one hand. */
bool queued = true; /* in the agenda */
bool ready;         /* on the ready list */
bool limited;       /* in the heap of limits */
bool inbox;         /* pushed */
bool todo;          /* on the loop's to-do list */
byte carried;       /* who turned INBOX 0 -> 1 has not yet linked it, or the loop has it in hand */

bool stop, stop_seen; /* uvs_t.stop */

/* Only to ask. */
byte running;     /* bodies, pending ones too */
byte runs;        /* started */
byte ended_runs;  /* move 5 */
byte settles;     /* became settled; counted once (F1) */
byte dones;
byte holders;     /* movers between their two CAS */
bool never_runs;  /* somebody was told UVS_NEVER_RUNS */
bool run_finishes; /* or UVS_RUN_FINISHES */
bool in_time;     /* this run's body was over before its limit */
bool said;        /* this run's body has returned, and not as pending */

#define linked() (inbox + todo + carried)

/* The word may change from w to `to`: uvs__word_legal. */
inline check(old, to) {
  assert(!has(old & ~(to), CANCELLED | LATE) || state(to) == FREE);
  assert(state(to) != READY || !has(to, INBOX | MOVING));
  assert(!has(to, CANCELLED) || !has(to, LATE));
  if
  :: !settled(old) && settled(to) -> settles++; assert(settles == 1)
  :: else
  fi;
  if
  :: !has(old, INBOX) && has(to, INBOX) -> assert(linked() == 0); carried++
  :: else
  fi;
  if
  :: state(to) == FREE -> /* what must hold, see docs/state-word.md */
    assert(!queued && !ready && !limited && !inbox && !todo && holders == 0 && running == 0);
    carried = 0
  :: state(to) != FREE && has(old, INBOX) && !has(to, INBOX) -> assert(carried == 1); carried = 0
  :: else
  fi
}

/* uvs__word_try: one step. */
inline try(w, to, made) {
  atomic {
    if
    :: word == w -> check(w, to); word = to; made = true
    :: else -> w = word; made = false
    fi
  }
}

#define same(w) (!has(w, NEXT) && state(w) != FREE)

/* uvs__inbox_push, of what the caller carries. */
inline push() {
  atomic {
    assert(carried == 1 && !inbox && !todo);
    carried = 0;
    inbox = true
  }
}

/* ---- threads ---- */

/* uvs_cancel in src/control.c, off the loop, with a token; uvs__pool_cancel. */
proctype Canceller() {
  short w;
  bool ok;
  w = word; /* identify */
  do
  :: !same(w) -> break
  :: same(w) && (state(w) == WAITING || state(w) == READY) ->
    atomic {
#ifdef BROKEN_CANCEL_WITHOUT_INBOX
      if
      :: word == w ->
        check(w, (w & ~STATE) | ENDED | CANCELLED);
        word = (w & ~STATE) | ENDED | CANCELLED;
        ok = true;
        if
        :: !has(w, INBOX) -> carried++ /* in our hand, though nobody can see that */
        :: else
        fi
      :: else -> w = word; ok = false
      fi;
#else
      try(w, (w & ~STATE) | ENDED | CANCELLED | INBOX, ok); /* move 6 */
#endif
      if
      :: ok && state(w) == READY -> ready = false /* unlist, under the same lock */
      :: else
      fi;
      if
      :: ok -> never_runs = true; break
      :: else
      fi
    }
  :: same(w) && state(w) == RUNNING ->
#ifndef BROKEN_CANCEL_WHAT_IS_LATE
    if
    :: has(w, LATE) -> goto out
    :: else
    fi;
#endif
    atomic {
      try(w, w | CANCELLED | TOKEN, ok);
      if
      :: ok -> run_finishes = true; goto out
      :: else
      fi
    }
  :: same(w) && state(w) >= ENDED -> goto out
  od;
  if /* cancel_unstarted */
  :: same(w) && !has(w, INBOX) -> push()
  :: else /* whoever linked it brings it */
  fi;
out:
  w = 0
}

/* uvs_reschedule and move_held, off the loop. */
proctype Mover() {
  short w;
  bool ok;
  w = word;
  do
  :: !same(w) || state(w) != WAITING -> goto out
  :: same(w) && state(w) == WAITING && has(w, MOVING) -> goto out
  :: same(w) && state(w) == WAITING && !has(w, MOVING) ->
    atomic {
      try(w, w | MOVING, ok);
      if
      :: ok -> holders++; assert(holders == 1); break
      :: else
      fi
    }
  od;
  /* set_deadline. The slot is still this task's: else we write into another's. */
  assert(same(word));
  w = word;
  do
  :: atomic {
      holders--; /* for check(); it is put back if the CAS fails */
      try(w, (w & ~MOVING) | INBOX, ok);
      if
      :: ok -> break
      :: else -> holders++
      fi
    }
  od;
#ifdef BROKEN_MOVER_DROPS_THE_CANCELLED
  if
  :: state(w) != WAITING && !has(w, INBOX) -> goto out
  :: else
  fi;
#endif
  if
  :: !has(w, INBOX) -> push()
  :: else
  fi;
out:
  w = 0
}

/* What uvs__plan_next says. */
#define goes_on() (runs < RUNS)

/* end_locked in src/run.c, move 5: one step under the lock, after what it leaves to the CAS. `list`
 * is INBOX off the loop. */
inline end_run(w, list) {
  do
  :: atomic {
      w = word;
      assert(state(w) == RUNNING && !has(w, MOVING));
      assert(ended_runs < runs);
      ended_runs++;
      running--;
      if
#ifdef BROKEN_GOES_ON_THOUGH_CANCELLED
      :: goes_on() -> to = (w & ~(STATE | RUN_BITS | INBOX | CANCELLED)) | WAITING | list
      :: !goes_on() -> to = (w & ~(STATE | RUN_BITS | INBOX)) | ENDED | INBOX
#else
      :: goes_on() && !has(w, CANCELLED | LATE) ->
        to = (w & ~(STATE | RUN_BITS | INBOX)) | WAITING | list
      :: else -> to = (w & ~(STATE | RUN_BITS | INBOX)) | ENDED | INBOX
#endif
      fi;
      if
      :: has(w, INBOX) -> carried = 0 /* it was on its way to `after`, and the loop has it in hand */
      :: else
      fi;
      check(w & ~INBOX, to);
      word = to;
      break
    }
  od
}

/* uvs_finish in src/control.c, and uvs__run_finished. */
proctype Finisher() {
  short w, to;
  bool ok;
  w = word;
  do
  :: !same(w) || state(w) != RUNNING -> goto out
#ifndef BROKEN_TWO_FINISHERS
  :: same(w) && state(w) == RUNNING && has(w, FINISHED) -> goto out
#endif
#ifndef BROKEN_FINISH_ON_THE_WAY_TO_AFTER
  :: same(w) && state(w) == RUNNING && has(w, INBOX) -> goto out
#endif
  :: else ->
    atomic {
      to = w | FINISHED | STATUS;
      if
      :: has(w, LATE) -> to = w | FINISHED /* the limit's status stays */
      :: else
      fi;
#ifdef AFTER
      if
      :: has(w, PENDING) -> to = to | INBOX
      :: else
      fi;
#endif
      try(w, to, ok);
      if
      :: ok -> break
      :: else
      fi
    }
  od;
#ifdef BROKEN_FINISH_ENDS_ANY_RUN
  if
  :: true ->
#else
  if
  :: !has(w, PENDING) -> goto out /* the body's thread ends the run */
  :: else ->
#endif
#ifndef AFTER
    end_run(w, INBOX);
#endif
    push()
  fi;
out:
  w = 0;
  to = 0
}

/* uvs__stop_now in src/shutdown.c: the tag is close.pml's. */
proctype Stopper() {
  stop = true
}

/* uvs__run_tasks: run_one in src/run.c. */
active proctype Runner() {
  short w, to;
  bool ok;
end:
  do
  :: atomic { /* start_locked, move 4 */
      ready && !stop ->
      w = word;
      assert(state(w) == READY);
      ready = false;
      check(w, (w & ~STATE) | RUNNING);
      word = (w & ~STATE) | RUNNING;
      assert(!never_runs && !run_finishes);
      assert(running == 0);
      running++;
      runs++;
      in_time = false;
      said = false
    };
    if /* call_body */
    :: said = true;
#ifdef LIMIT
      w = word; /* mark_body_over */
      do
      :: atomic {
          try(w, w | PENDING | FINISHED, ok);
          if
          :: ok -> in_time = !has(w, LATE); break
          :: else
          fi
        }
      od
#endif
#ifdef PENDS
    :: w = word; /* pend */
      do
      :: atomic {
          try(w, w | PENDING, ok);
          if
          :: ok -> break
          :: else
          fi
        }
      od;
#ifdef BROKEN_PEND_DOES_NOT_LOOK
      goto next;
#endif
      if
      :: !has(w, FINISHED) -> goto next /* not even a look at the task any more */
      :: else
      fi
#endif
    fi;
#ifdef AFTER
    w = word; /* mark_for_after */
    do
    :: atomic {
        if
        :: said && !has(w, LATE) -> to = (w & ~STATUS) | INBOX
        :: else -> to = w | INBOX
        fi;
        try(w, to, ok);
        if
        :: ok -> break
        :: else
        fi
      }
    od;
#else
    end_run(w, INBOX);
#endif
    push(); /* bring */
next:
    w = 0;
    to = 0
  od
}

/* ---- the loop ---- */

/* uvs__retire, moves 9 and 10; the slot is on no list, and in our hand. */
inline retire() {
  w = word;
  do
  :: atomic {
      assert(state(w) >= ENDED);
      if
#ifdef BROKEN_FREE_WHILE_MOVING
      :: true -> to = NEXT
#else
      :: has(w, MOVING) -> to = (w & ~(INBOX | STATE)) | OVER
      :: else -> to = NEXT
#endif
      fi;
      try(w, to, ok);
      if
      :: ok -> break
      :: else
      fi
    }
  od
}

/* uvs__conclude: onto the to-do list, since there is a `done` to call. */
inline conclude() {
  atomic {
#ifndef BROKEN_LIMIT_STAYS
    limited = false; /* uvs__limit_end */
#endif
    assert(!todo && !inbox && carried == 1);
    carried = 0;
    todo = true
  }
}

/* uvs__wait_for_due, when INBOX is clear. It may be ended in the meantime by somebody else. */
inline wait_for_due() {
  atomic {
    limited = false;
    refused = false;
    if
#ifndef BROKEN_STOP_NOT_ASKED_LATER
    :: stop -> refused = true /* uvs__may_run */
#endif
    :: else -> queued = true
    fi
  };
  if
  :: refused -> end_on_loop()
  :: else
  fi
}

/* uvs__end_on_loop, move 6 by the loop; leave_queue. */
inline end_on_loop() {
  w = word;
  do
  :: has(w, NEXT) || (state(w) != WAITING && state(w) != READY) -> break
  :: else ->
    atomic {
      try(w, (w & ~STATE) | ENDED | CANCELLED | INBOX, ok);
      if
      :: ok && state(w) == READY -> ready = false
      :: else
      fi;
      if
      :: ok ->
        if
#ifndef BROKEN_CONCLUDE_WHAT_IS_ON_ITS_WAY
        :: has(w, INBOX) /* whoever linked it brings it */
#endif
        :: else -> queued = false; conclude()
        fi;
        break
      :: else
      fi
    }
  od
}

active proctype Loop() {
  short w, to;
  bool ok, refused;
  byte i;

  atomic {
    i = 0;
    do :: i < CANCELLERS -> run Canceller(); i++ :: else -> break od;
    i = 0;
    do :: i < MOVERS -> run Mover(); i++ :: else -> break od;
    i = 0;
    do :: i < FINISHERS -> run Finisher(); i++ :: else -> break od;
#ifdef STOPPER
    run Stopper();
#endif
    i = 0
  };

end:
  do
  :: atomic { inbox -> inbox = false; carried = 1 }; /* uvs__inbox_take */
    w = word; /* take_in_one, move 2 */
    do
    :: state(w) == WAITING ->
      atomic {
        try(w, w & ~INBOX, ok);
        if
        :: ok -> break
        :: else
        fi
      }
    :: else -> break
    od;
    if
    :: state(w) == WAITING && has(w, MOVING) /* the mover sends it again */
    :: state(w) == WAITING && !has(w, MOVING) -> wait_for_due()
    :: state(w) == RUNNING -> atomic { carried = 0; todo = true }
#ifdef BROKEN_INBOX_CLEARED_OF_THE_ENDED
    :: state(w) == ENDED -> /* as the plan had it: x|INBOX -> x, then the ended list */
      w = word;
      do
      :: atomic {
          try(w, w & ~INBOX, ok);
          if
          :: ok -> limited = false; todo = true; queued = false; break
          :: else
          fi
        }
      od
#else
    :: state(w) == ENDED -> queued = false; /* uvs__unlink_ended */
      conclude()
#endif
    :: state(w) == OVER -> retire()
    :: else -> assert(false)
    fi;
    w = 0

  :: atomic { queued -> queued = false }; /* collect_due, and make_ready, move 3 */
    w = word;
    atomic {
      if
#ifdef BROKEN_READY_WITH_INBOX
      :: word == w && state(w) == WAITING && !has(w, MOVING) ->
#else
#ifdef BROKEN_READY_WITH_MOVING
      :: word == w && state(w) == WAITING && !has(w, INBOX) ->
#else
      :: word == w && state(w) == WAITING && !has(w, INBOX | MOVING) ->
#endif
#endif
        check(w, (w & ~STATE) | READY);
        word = (w & ~STATE) | READY;
        ready = true;
#ifdef LIMIT
        limited = true; /* uvs__limit_begin_locked */
#endif
      :: word != w && state(word) == WAITING && !has(word, INBOX | MOVING) ->
        queued = true /* as it is again: nothing has happened */
      :: else /* the inbox brings it */
      fi
    };
    w = 0

  :: atomic { todo -> todo = false; carried = 1 }; /* make_callbacks */
    w = word;
    if
    :: state(w) == RUNNING -> /* uvs__run_after, end_on_loop of src/run.c */
      assert(!said || !has(w, STATUS));
      end_run(w, 0);
      if
      :: state(to) == WAITING -> wait_for_due()
      :: else -> conclude()
      fi
    :: else ->
      atomic { /* uvs__call_back_end */
        assert(state(w) == ENDED && running == 0 && !queued && !ready);
        dones++;
        assert(dones == 1)
      };
      retire()
    fi;
    w = 0;
    to = 0

  :: atomic { stop && !stop_seen -> stop_seen = true }; /* uvs__apply_policies, stop_everything */
    end_on_loop();
    w = 0

#ifdef LIMIT
  :: atomic { limited -> limited = false }; /* pass in src/limit.c, move 10 */
    w = word;
    do
    :: state(w) == READY ->
      atomic { /* uvs__pool_withdraw */
        if
        :: word == w ->
          ready = false;
          check(w, (w & ~STATE) | RUNNING);
          word = (w & ~STATE) | RUNNING;
          running++;
          runs++;
          ok = true
        :: else -> w = word; ok = false
        fi
      };
      if
      :: ok -> /* uvs__run_unstarted */
        end_run(w, 0);
        if
        :: state(to) == WAITING -> wait_for_due()
        :: else -> conclude()
        fi;
        break
      :: else
      fi
    :: state(w) != READY && state(w) != RUNNING -> break
#ifndef BROKEN_LATE_THOUGH_OVER
    :: state(w) == RUNNING && (has(w, INBOX) || (w & (PENDING | FINISHED)) == (PENDING | FINISHED)) ->
      break /* body_over */
#endif
    :: else ->
      atomic {
        if
#if LIMIT == 1
#ifdef BROKEN_LATE_THOUGH_CANCELLED
        :: true -> try(w, (w & ~STATUS) | LATE | TOKEN, ok)
#else
        :: !has(w, CANCELLED) -> try(w, (w & ~STATUS) | LATE | TOKEN, ok)
        :: else -> try(w, w | TOKEN, ok)
#endif
#else
        :: true -> try(w, w | TOKEN, ok)
#endif
        fi;
        if
        :: ok -> assert(!in_time || !has(word, LATE)); break
        :: else
        fi
      }
    od;
    w = 0;
    to = 0
#endif
  od
}

/* Nobody can do anything any more. */
active proctype Watch() {
  timeout ->
  assert(!inbox && !todo && carried == 0 && holders == 0);
  assert((word == NEXT && dones == 1 && settles == 1) ||
         (state(word) == RUNNING && has(word, PENDING) && !has(word, FINISHED) && running == 1));
  assert(!(state(word) == FREE) || ended_runs == runs)
}
