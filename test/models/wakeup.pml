/* SPDX-License-Identifier: MIT
 *
 * wakeup: does the loop hear of everything in time? docs/models.md says what this is.
 *
 * The inbox, next_wake, the uv_async and the timer (src/inbox.c, src/ticker.c, the end of a turn in
 * src/tick.c), against threads that submit, reschedule and cancel (src/submit.c, src/control.c).
 *
 * A time is a small number, and never passes by itself; the timer may come at any moment at which
 * it is armed. Asked is this: when everybody has returned and the loop sleeps, does it wake early
 * enough for all that is known or on its way?
 *
 * Threads, by -D: MOVER1=t, MOVER2=t reschedule task 0 to t; CANCELLER cancels it;
 * SUBMITTER=t submits task 1 for t; OWN: the loop takes the inbox in outside a turn, too.
 * Task 0 is in the queue at first, for FIRST. OTHER: so is another task of the loop's, for that
 * time. TIMER: so often the timer may come. DONE: task 0 has a `done` to call. FINE: smaller steps
 * of libuv's and of the processor's.
 */
#ifndef FIRST
#define FIRST 3
#endif
#ifndef OTHER
#define OTHER 5
#endif
#ifndef TIMER
#define TIMER 1
#endif

#define AWAKE 0  /* UVS__AWAKE */
#define NEVER 6  /* UVS__NEVER */
#define ASLEEP 7 /* UVS__ASLEEP */
#define NONE 6   /* in no queue */
#define UNSEEN 3

/* A task's word: src/task.h. */
#define STATE 7
#define FREE 0
#define WAITING 1
#define READY 2
#define ENDED 4
#define OVER 5
#define INBOX 8
#define MOVING 16

byte word[2], deadline[2];
byte queued[2] = NONE; /* its entry in the agenda, by this time; the loop's */
byte head;             /* inbox.head: the slots that are on it, as bits */
byte held;             /* processors that hold the head reserved, see push() */
byte next_wake = AWAKE;
byte armed = NEVER; /* ticker.armed_ns, and the timer */
byte pending;       /* of the uv_async: 0, 1 a sender is at it, 2 sent */
bool event;         /* the loop's eventfd can be read */
byte timer_left = TIMER;
byte busy; /* threads that have not returned */
bool resting;

#define state(w) ((w) & STATE)
#define min(a, b) ((a) < (b) -> (a) : (b))

/* One CAS; ok tells. On failure `w` is what is there now, as uvs__cas has it. */
inline cas(at, old, to, made) {
  atomic {
    if
    :: word[at] == old -> word[at] = to; made = true
    :: else -> old = word[at]; made = false
    fi
  }
}

/* uv_async_send, libuv's src/unix/async.c. FINE: its steps one by one. Else all in one: only the
 * loop looks at `pending` besides, and waits while it is 1. */
inline async_send() {
#ifdef FINE
  if
  :: seen == UNSEEN -> seen = pending
  :: else
  fi;
  if
  :: seen != 0 /* somebody has sent, and the loop has not looked */
  :: else ->
    if
    :: atomic { pending == 0 -> pending = 1 };
      event = true;
      pending = 2
    :: atomic { pending != 0 }
    fi
  fi;
  seen = UNSEEN
#else
  atomic {
    if
    :: pending == 0 -> pending = 2; event = true
    :: else
    fi
  }
#endif
}

/* uvs__inbox_push and, if it says so, uvs__ticker_wake.
 *
 * uv_async_send looks at `pending` with a relaxed load. A processor may make that load as early as
 * the acquire half of the push lets it: between the two halves of the CAS. So with FINE the push is
 * a load that reserves the head, and a store that fails once somebody has written there; and the
 * look may be in between. */
inline push(me, slot, due) {
#ifdef BROKEN_WAKE_BEFORE_PUSH
  wake = due < next_wake;
#endif
#ifdef FINE
  do
  :: held = held | (1 << me);
    if
    :: seen = pending
    :: skip
    fi;
    if
    :: atomic { (held >> me) & 1 -> head = head | (1 << slot); held = 0; break }
    :: atomic { !((held >> me) & 1) -> seen = UNSEEN }
    fi
  od;
#else
  head = head | (1 << slot);
#endif
#ifndef BROKEN_WAKE_BEFORE_PUSH
  wake = due < next_wake; /* uvs__inbox_must_wake */
#endif
  if
  :: wake -> async_send()
  :: else -> seen = UNSEEN
  fi
}

/* ---- threads ---- */

/* send_plain in src/submit.c: fill_plain, the word, send_fresh. */
proctype Submitter(byte me; byte due) {
  byte seen = UNSEEN;
  bool wake;
  atomic { deadline[1] = due; word[1] = WAITING | INBOX };
  push(me, 1, due);
  atomic { busy--; wake = 0 }
}

/* uvs_reschedule and move_held in src/control.c, off the loop, of task 0. */
proctype Mover(byte me; byte due) {
  byte w, seen = UNSEEN;
  bool ok, wake;
  w = word[0]; /* identify */
  do
  :: state(w) != WAITING -> break /* UV_EBUSY, UV_ENOENT */
  :: state(w) == WAITING && (w & MOVING) != 0 -> break /* ours came first, and was overwritten */
  :: else ->
    atomic {
      cas(0, w, w | MOVING, ok);
      if
      :: ok -> goto held_it
      :: else
      fi
    }
  od;
  goto out;
held_it:
  deadline[0] = due; /* set_deadline */
  w = word[0];
  do
  :: atomic {
    cas(0, w, (w & ~MOVING) | INBOX, ok);
    if
    :: ok -> break
    :: else
    fi
  }
  od;
  if
  :: state(w) != WAITING -> due = 0 /* cancelled meanwhile; its end waits for us */
  :: else
  fi;
  if
  :: w & INBOX -> /* on its way already */
    wake = due < next_wake;
    if
    :: wake -> async_send()
    :: else
    fi
  :: else ->
    push(me, 0, due); /* uvs__send_in */
#ifndef BROKEN_NO_LOOK_AFTER_PUSH
    w = word[0]; /* cancelled between our CAS and our push? */
    if
    :: state(w) == ENDED -> async_send()
    :: else ->
#ifndef BROKEN_EARLIER_MOVE
      /* moved again between the two, and to an earlier time? */
      atomic { /* one load */
        wake = deadline[0] < due;
        due = deadline[0]
      };
      if
      :: wake ->
        wake = due < next_wake;
        if
        :: wake -> async_send()
        :: else
        fi
      :: else
      fi
#endif
    fi
#endif
  fi;
out:
  atomic { busy--; w = 0; wake = 0; ok = 0; due = 0 }
}

/* uvs_cancel off the loop, and cancel_unstarted. */
proctype Canceller(byte me) {
  byte w, seen = UNSEEN, hear_by;
  bool ok, wake;
#ifndef DONE
  hear_by = ASLEEP; /* hear_of_cancel: nobody is to be told */
#endif
  w = word[0];
  do
  :: state(w) == WAITING || state(w) == READY ->
    atomic {
      cas(0, w, (w & ~STATE) | ENDED | INBOX, ok); /* uvs__pool_cancel */
      if
      :: ok -> break
      :: else
      fi
    }
  :: else -> goto out
  od;
  if
  :: !(w & INBOX) ->
    push(me, 0, hear_by)
#ifndef BROKEN_CANCEL_ON_ITS_WAY
  :: (w & INBOX) && hear_by == 0 -> async_send()
#endif
  :: else
  fi;
out:
  atomic { busy--; w = 0; wake = 0; ok = 0; hear_by = 0 }
}

/* ---- the loop ---- */

/* take_in_one in src/tick.c, of what is in `got`. */
inline take_in_one(slot) {
  w = word[slot];
  do
  :: state(w) == WAITING ->
    cas(slot, w, w & ~INBOX, ok);
    if
    :: ok ->
      if
      :: w & MOVING -> skip /* the mover sends it again */
      :: else ->
        /* uvs__agenda_insert; the deadline is read after the CAS */
        queued[slot] = deadline[slot]
      fi;
      break
    :: else
    fi
  :: state(w) == ENDED ->
    queued[slot] = NONE; /* uvs__unlink_ended */
    do /* uvs__retire */
    :: if
      :: w & MOVING -> cas(slot, w, OVER | MOVING, ok)
      :: else -> cas(slot, w, FREE, ok)
      fi;
      if
      :: ok -> break
      :: else
      fi
    od;
    break
  :: state(w) == OVER ->
    atomic {
      cas(slot, w, FREE, ok);
      if
      :: ok -> break
      :: else
      fi
    }
  :: else -> assert(false)
  od;
  atomic { w = 0; ok = 0 }
}

/* take_in_until; the order in which it looks at them is of no matter here. */
inline take_in() {
#ifdef BROKEN_LOAD_AND_SKIP
  if
  :: atomic { head == 0 -> got = 0 }
  :: atomic { head != 0 -> got = head; head = 0; held = 0 }
  fi;
#else
  /* uvs__inbox_take: always a write, so who has the head reserved has to look again */
  atomic { got = head; head = 0; held = 0 };
#endif
  if
  :: got & 1 -> take_in_one(0)
  :: else
  fi;
  if
  :: got & 2 -> take_in_one(1)
  :: else
  fi;
  got = 0
}

inline next_look() {
  atomic {
    first = min(queued[0], queued[1]);
    first = min(first, other)
  }
}

active proctype Loop() {
  byte w, got, first, other = OTHER, seen = UNSEEN;
  bool ok;

  /* Where the story begins: task 0 is in the queue, and uvs_open has sent. */
  atomic {
    word[0] = WAITING;
    deadline[0] = FIRST;
    queued[0] = FIRST;
    pending = 2;
    event = true
  };
  atomic {
#ifdef MOVER1
    busy++; run Mover(0, MOVER1);
#endif
#ifdef MOVER2
    busy++; run Mover(1, MOVER2);
#endif
#ifdef CANCELLER
    busy++; run Canceller(3);
#endif
#ifdef SUBMITTER
    busy++; run Submitter(4, SUBMITTER);
#endif
  };

poll:
  resting = true;
end_poll:
  if
  :: atomic { event -> event = false; resting = false }; /* uv__async_io */
    if /* uv__async_spin */
    :: atomic { pending == 2 -> pending = 0 };
      goto tick
    :: atomic { pending == 0 -> skip };
      goto poll
    fi
  :: atomic { armed != NEVER && timer_left > 0 -> /* on_timer */
      timer_left--;
      first = armed;
      armed = NEVER;
      resting = false
    };
    if
    :: next_wake == AWAKE -> goto owe /* uvs__tick_light: a full turn is on its way, or is to be */
    :: else
    fi;
    next_wake = AWAKE;
    take_in();
    /* hand_over: what is due by then; READY, and gone in the end */
    if
    :: queued[0] <= first ->
      queued[0] = NONE;
      w = word[0];
      do
      :: state(w) == WAITING && !(w & (INBOX | MOVING)) ->
        atomic {
          cas(0, w, READY, ok); /* make_ready */
          if
          :: ok -> goto ran
          :: else
          fi
        }
      :: else -> break /* the inbox brings it */
      od;
      goto handed;
ran: /* move 4, and the end of a one-shot; or it was cancelled, and the inbox brings it */
      atomic {
        if
        :: word[0] == READY -> word[0] = FREE
        :: else
        fi
      }
    :: else
    fi;
handed:
    atomic {
      if
      :: queued[1] <= first -> queued[1] = NONE; word[1] = FREE
      :: else
      fi;
      if
      :: other <= first -> other = NONE
      :: else
      fi;
      w = 0; ok = 0
    };
    goto rest
#ifdef OWN
  :: atomic { !event -> resting = false }; /* uvs__take_in of uvs_submit, uvs_cancel ... */
    take_in();
    goto poll
#endif
  fi;

tick: /* uvs__tick */
  next_wake = AWAKE; /* awake */
  take_in();
rest:
  next_look();
  atomic { /* uvs__ticker_arm, uvs__ticker_disarm */
    if
    :: first == NEVER -> armed = NEVER; first = ASLEEP
    :: else -> armed = min(armed, first); first = armed
    fi
  };
fall_asleep: /* and uvs__inbox_sleep; `first` is what is published */
  next_wake = first;
#ifndef BROKEN_NO_RECHECK
  if
  :: head != 0 ->
    next_wake = AWAKE; /* uvs__inbox_lower */
    take_in(); /* only_waits */
    got = first;
    next_look();
    if
    :: first >= got || (first == NEVER && got == ASLEEP) -> atomic { first = got; got = 0 }; goto fall_asleep
    :: else -> got = 0; goto owe
    fi
  :: head == 0 -> skip
  fi;
#endif
  first = 0;
  goto poll;
owe: /* doze: carried over, we send to ourselves */
  atomic { first = 0; ok = 0 };
  async_send();
  goto poll
}

/* Nobody is at it any more: what is to wake the loop? */
active proctype Watch() {
end:
  do
  :: atomic {
    busy == 0 && resting && !event ->
    assert(pending != 1);
    assert(next_wake != AWAKE);
    /* What waits in the queue: the timer. */
    assert(state(word[0]) != WAITING || queued[0] == NONE || armed <= queued[0]);
    assert(state(word[1]) != WAITING || queued[1] == NONE || armed <= queued[1]);
    /* What is on its way: no later than the timer. */
    assert(!(head & 1) || state(word[0]) != WAITING || deadline[0] >= next_wake);
    assert(!(head & 2) || state(word[1]) != WAITING || deadline[1] >= next_wake);
    /* In the queue by its own time, if nothing is on its way. */
    assert((head & 1) || state(word[0]) != WAITING || queued[0] == deadline[0]);
    /* Nobody is left without a hand. */
    assert(!(word[0] & MOVING));
    assert(((head & 1) != 0) == ((word[0] & INBOX) != 0));
    assert(((head & 2) != 0) == ((word[1] & INBOX) != 0));
    assert(state(word[0]) != OVER || (head & 1));
#ifdef DONE
    assert(state(word[0]) != ENDED);
#endif
  }
  od
}
