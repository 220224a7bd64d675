/* SPDX-License-Identifier: MIT
 *
 * skip: the loop moves a fixed-rate task along its grid while others reschedule it. docs/models.md
 * says what this is.
 *
 * still_due in src/tick.c, against move_held in src/control.c: the one place where two may write a
 * deadline without one of them holding MOVING. MOVER1=t, MOVER2=t: they move it to t.
 */
#define WAITING 1
#define READY 2
#define INBOX 8
#define MOVING 16

/* Times: was due more than a period ago; is due; later; and where the grid goes on. */
#define MISSED 1
#define NOW 2
#define LATER 3
#define GRID 4
#define NONE 0

byte word = WAITING;
byte deadline = MISSED;
bool jitter = true; /* jitter_now_ns is not 0: part of `deadline` */
bool inbox;
byte queued = MISSED;

byte moved = NONE; /* who had MOVING last wanted this */
byte ran = NONE;   /* and it ran for that time */
byte busy;

/* uvs_reschedule, move_held. */
proctype Mover(byte to) {
  byte w;
  w = word;
  do
  :: (w & 7) != WAITING || (w & MOVING) -> goto out
  :: else ->
    atomic {
      if
      :: word == w -> word = w | MOVING; moved = to; break
      :: else -> w = word
      fi
    }
  od;
  jitter = false; /* set_deadline: first this */
  deadline = to;
  w = word;
  do
  :: atomic {
      if
      :: word == w -> word = (w & ~MOVING) | INBOX; break
      :: else -> w = word
      fi
    }
  od;
  if
  :: !(w & INBOX) -> inbox = true
  :: else
  fi;
out:
  atomic { busy--; w = 0; to = 0 }
}

active proctype Loop() {
  byte w, due, now_due;
  bool jit;

  atomic {
    busy++; run Mover(MOVER1);
#ifdef MOVER2
    busy++; run Mover(MOVER2);
#endif
  };
end:
  do
  :: atomic { inbox -> inbox = false }; /* take_in_one */
    w = word;
    do
    :: atomic {
        if
        :: word == w -> word = w & ~INBOX; break
        :: else -> w = word
        fi
      }
    od;
    if
    :: !(w & MOVING) -> queued = deadline
    :: else
    fi

  :: atomic { queued == MISSED || queued == NOW -> queued = NONE }; /* collect_due */
    w = word; /* can_start */
    if
    :: w & (INBOX | MOVING) -> goto next
    :: else
    fi;
#ifdef BROKEN_JITTER_FIRST
    jit = jitter;
    due = deadline;
#else
    due = deadline; /* still_due */
    jit = jitter;
#endif
    if
    :: due >= LATER -> goto ready /* just moved: the inbox brings it */
    /* uvs__recur_due. A time that is due, less a jitter that is not its own, may be a period ago. */
    :: due == MISSED || (due == NOW && jit)
    :: else -> goto ready
    fi;
#ifdef BROKEN_STORE_FOR_CAS
    deadline = GRID;
#else
again:
    atomic {
      if
      :: deadline == due -> deadline = GRID
      :: else -> now_due = deadline; goto changed
      fi
    };
#endif
    queued = deadline; /* wait_again: uvs__agenda_insert */
    goto next;
changed:
#ifdef BROKEN_AGAIN_IF_DUE
    if
    :: now_due <= NOW -> due = now_due; goto again
    :: else
    fi;
#endif
ready:
    w = word; /* make_ready */
    do
    :: w & (INBOX | MOVING) -> break
    :: else ->
      atomic {
        if
        :: word == w -> word = READY; ran = deadline; break
        :: else -> w = word
        fi
      }
    od;
next:
    atomic { w = 0; due = 0; now_due = 0; jit = 0 }
  od
}

/* Nobody can do anything any more: was it as the last who moved it wanted? */
active proctype Watch() {
  timeout ->
  assert(busy == 0 && !inbox && !(word & (INBOX | MOVING)));
  assert(ran == NONE || ran == NOW);
  assert(moved == NONE || ran == moved || (ran == NONE && queued == moved && deadline == moved));
  assert(moved != NONE || queued == GRID)
}
