/* SPDX-License-Identifier: MIT
 *
 * wake: is the loop ever asleep although it has something to do? docs/testing.md says what this is.
 *
 * The rule is in src/core/wake.c. The other half of it is the end of a pass in src/loop/pass.c. Here
 * both meet a runner (src/pool/runner.c), threads that submit, cancel, move and finish, the uv_async
 * with its merging, and the uv_timer. A critical section is one step, since there is one lock.
 * Everything outside the lock is a step of its own.
 *
 * `now` moves only when everybody sleeps, or when CLOCK=n lets it move n times at any moment; it is
 * read before the lock is taken. When
 * everybody sleeps, the rule is asserted (see `quiet`). Then a long body may return, or the time of
 * the timer comes.
 *
 * Three tasks. A0, A1, A2 say what they are: LOOPS (runs on the loop), TELLS (has a `done`), UNREF,
 * LONG (its body returns only when everybody else sleeps), AGAIN (it runs a second time). At first:
 *   FIRST=d, SECOND=d   task 0, task 1 is in the delay queue, due at d
 *   LANE                task 0 is pending, and task 1 waits in the same lane of width 1
 * Threads:
 *   SUBMIT=d            submits task 1, due at d
 *   WALL=d              submits task 2 by the wall clock, due at d
 *   MOVE=d              reschedules task 0
 *   CANCEL              cancels task 0
 *   FINISH              finishes task 0, so that its lane lets task 1 in
 *   CHANGE              moves a replaced clock and calls uvs_clock_changed; needs REPLACED
 * On the loop, once:
 *   OWN=d, OWN_CANCEL   outside a pass: submits task 2; cancels task 0
 *   LATER=d             a body or `done` that the loop calls submits task 2
 *   NESTED              that callback runs the loop
 * Others: RUNNERS=k (1), HOME (a runner may leave though tasks are ready: its time is over).
 * ECONOMY: asserts that nothing was sent to the uv_async.
 */
#define LOOPS 1
#define TELLS 2
#define UNREF 4
#define LONG 8
#define AGAIN 16
#ifndef A0
#define A0 0
#endif
#ifndef A1
#define A1 0
#endif
#ifndef A2
#define A2 0
#endif
#ifndef RUNNERS
#define RUNNERS 1
#endif
#ifndef CLOCK
#define CLOCK 0
#endif
#define NEVER 9

/* Where a task is. */
#define FREE 0
#define DELAY 1   /* WAITING, IN_DELAY */
#define WALLQ 2   /* WAITING, IN_WALL */
#define ARRIVED 3 /* WAITING, IN_ARRIVALS: a runner found it due, and only the loop can run it */
#define GATE 4    /* READY, IN_GATE */
#define POOL 5    /* READY, IN_READY of the crew */
#define ONLOOP 6  /* READY, IN_READY of the loop */
#define RUN 7     /* RUNNING, also pending */
#define OWED 8    /* ENDED, IN_OWED */

/* What the lock protects. */
byte place[3], due[3] = NEVER, is[3];
byte armed = NEVER, soonest = NEVER; /* at.armed_ns, delay.soonest_ns */
bool in_pass, sent, kept;            /* of `at`: in_pass, wake_sent, kept */
byte startable, seeking, bodies, out, live_refs; /* bodies: the crew's `active` */

/* What it does not: the loop's, libuv's, and the clock. */
byte timer_at = NEVER;
bool handle_ref, pending, event; /* the uv_async: ref, `pending`, and its eventfd */
byte queued, returned;           /* uv_queue_work: not yet begun; over, and the loop has not heard */
byte now;
byte busy, working, blocked; /* threads that have not returned; runners; those in a LONG body */
bool go;                     /* LONG bodies may return */
byte sends;
bool nothing_is_owed, each_ready_task_has_a_runner, the_ref_is_right, no_deadline_is_slept_over;
bool no_timer_for_nothing = true;
bool each_task_is_over;

#define any(p) (place[0] == p || place[1] == p || place[2] == p)
#define waits(i) (place[i] == DELAY || place[i] == WALLQ)
#define min(a, b) ((a) < (b) -> (a) : (b))
#define due_of(i) (waits(i) -> due[i] : NEVER)
#define next_look min(due_of(0), min(due_of(1), due_of(2)))
#define loop_work (any(OWED) || any(ARRIVED) || any(ONLOOP))
#define wants_keep (live_refs > 0 || any(OWED))
#ifdef BROKEN_HOMECOMING_NOT_COUNTED
#define returns false
#else
#define returns (out > bodies + seeking) /* uvs__crew_returns */
#endif
#define lacks_runner (startable > seeking && out < RUNNERS)
#define wants_runner (lacks_runner && !returns)

/* ---- libuv ---- */

/* uv_async_send: signals merge. */
inline async_send() {
  if
  :: pending /* somebody has sent, and the loop has not looked */
  :: else ->
    if
    :: atomic { !pending -> pending = true; sends++ };
      event = true
    :: pending
    fi
  fi
}

inline arm_timer(t) { /* uvs__ticker_arm */
  if
  :: t < timer_at -> timer_at = t
  :: else
  fi
}

/* ---- moves, lock held ---- */

inline put(i, where, t) {
  place[i] = where;
  due[i] = t;
  soonest = min(soonest, t)
}

inline accept(i, where, t) {
  live_refs = live_refs + ((is[i] & UNREF) -> 0 : 1);
  put(i, where, t)
}

inline end_task(i) {
  if
  :: is[i] & TELLS -> place[i] = OWED
  :: else -> place[i] = FREE; live_refs = live_refs - ((is[i] & UNREF) -> 0 : 1)
  fi
}

inline end_run(i) {
  if
  :: is[i] & AGAIN -> is[i] = is[i] - AGAIN; put(i, DELAY, now + 1)
  :: else -> end_task(i)
  fi
}

inline cancel(i) {
  if
  :: place[i] == POOL -> startable--; end_task(i)
  :: place[i] == DELAY || place[i] == ARRIVED || place[i] == ONLOOP -> end_task(i)
  :: else
  fi
}

inline collect_one(i, by_loop) {
  if
  :: (place[i] == DELAY || (by_loop && place[i] == WALLQ)) && due[i] <= t ||
     by_loop && place[i] == ARRIVED ->
    if
    :: !(is[i] & LOOPS) -> place[i] = POOL; startable++
    :: (is[i] & LOOPS) && by_loop -> place[i] = ONLOOP
    :: else -> place[i] = ARRIVED
    fi
  :: else
  fi
}

inline collect(by_loop) {
  collect_one(0, by_loop);
  collect_one(1, by_loop);
  collect_one(2, by_loop)
}

inline take_first(from) { /* task = 3: there is none */
  task = (place[0] == from -> 0 : (place[1] == from -> 1 : (place[2] == from -> 2 : 3)));
  if
  :: task < 3 -> place[task] = RUN
  :: else
  fi
}

/* ---- the rule: uvs__wake_decide, lock held ---- */

inline decide(on_loop) {
  arm = 0;
  send = false;
  if
  :: in_pass /* a pass looks at everything before the loop sleeps */
  :: else ->
    send = loop_work || wants_runner;
    if
    :: wants_keep != kept && on_loop -> kept = wants_keep; handle_ref = kept
#ifndef BROKEN_KEEP_NOT_ASKED
    :: wants_keep != kept && !on_loop -> send = send || !returns
#endif
    :: else
    fi;
    if
    :: soonest < armed && on_loop && soonest > t ->
#ifndef REPLACED
      arm = soonest;
#ifndef BROKEN_ARMED_NOT_LOWERED
      armed = soonest
#endif
#else
      skip
#endif
    :: soonest < armed && !(on_loop && soonest > t) -> send = true
    :: soonest >= armed && on_loop && armed != NEVER && next_look == NEVER ->
      armed = NEVER;
      timer_at = NEVER
    :: else
    fi;
    send = send && !sent;
    sent = sent || send
  fi
}

/* After unlocking. */
inline wake() {
  if
  :: send -> async_send()
  :: else
  fi
}

inline wake_loop() { /* uvs__wake_loop */
  d_step { send = !sent; sent = true };
  wake()
}

/* ---- threads ---- */

#ifdef BROKEN_DECIDED_BEFORE_THE_CHANGE
#define section(change) d_step { decide(false) }; d_step { change }; wake()
#else
#define section(change) d_step { change; decide(false) }; wake()
#endif

#ifdef SUBMIT
proctype Submitter() {
  bool send;
  byte arm, t;
  section(accept(1, DELAY, SUBMIT));
  busy--
}
#endif

#ifdef WALL
proctype Wall() {
  bool send;
  byte arm, t;
  section(accept(2, WALLQ, WALL));
  busy--
}
#endif

#ifdef MOVE
inline move() {
  if
  :: place[0] == DELAY -> put(0, DELAY, MOVE)
  :: else
  fi
}
proctype Mover() {
  bool send;
  byte arm, t;
  section(move());
  busy--
}
#endif

#ifdef CANCEL
proctype Canceller() {
  bool send;
  byte arm, t;
  section(cancel(0));
  busy--
}
#endif

#ifdef FINISH
inline finish() {
  end_run(0);
  place[1] = POOL;
  startable++
}
proctype Finisher() {
  bool send;
  byte arm, t;
  section(finish());
  busy--
}
#endif

#ifdef CHANGE
proctype Changer() {
  bool send;
  now++;
  wake_loop();
  busy--
}
#endif

#if CLOCK > 0
proctype Clock() {
  byte ticks;
  do
  :: ticks < CLOCK -> atomic { ticks++; now++ }
  :: ticks == CLOCK -> break
  od
}
#endif

/* ---- a runner: uvs__run_tasks on a thread of libuv's pool ---- */

inline look_and_take() {
  collect(false);
  take_first(POOL);
  if
  :: task < 3 -> startable--
  :: else -> bodies--
  fi
}

proctype Runner() {
  byte task, arm, t;
  bool send, leave;
end:
  do
  :: atomic { queued > 0 -> queued--; working++ };
    t = now;
    d_step { seeking--; bodies++; look_and_take(); decide(false) };
    wake();
    do
    :: task == 3 -> break
    :: task < 3 && (is[task] & LONG) && !go -> blocked++; atomic { go -> blocked-- }
    :: task < 3 && (!(is[task] & LONG) || go) ->
#ifdef HOME
      if
      :: leave = true
      :: leave = false
      fi;
#endif
      t = now;
      d_step { /* one run ends and the next begins */
        end_run(task);
        if
        :: leave -> task = 3; bodies--
        :: else -> look_and_take()
        fi;
        decide(false)
      };
      wake()
    od;
    atomic { working--; returned++; task = 0; t = 0; leave = false }
  od
}

/* ---- the loop ---- */

/* Runners to send. */
inline send_runners() {
  d_step {
    do
    :: lacks_runner -> seeking++; out++; more_runners++
    :: else -> break
    od
  };
  atomic { queued = queued + more_runners; more_runners = 0 }
}

inline begin(whole) {
  t = now;
  d_step {
    in_pass = true;
    soonest = NEVER;
#if !defined BROKEN_SENT_CLEARED_AT_THE_END && !defined BROKEN_SENT_CLEARED_LAST
    sent = sent && !whole
#endif
  }
}

inline end_pass() {
  t = now;
#ifdef BROKEN_WALL_LOOKED_AT_BEFORE
  wall_due = (place[2] == WALLQ -> due[2] : NEVER);
#endif
  d_step {
#ifndef BROKEN_ARMED_BEFORE_THE_CALLBACKS
    next = next_look;
#endif
#ifdef BROKEN_WALL_LOOKED_AT_BEFORE
    next = min(wall_due, min(place[0] == DELAY -> due[0] : NEVER, place[1] == DELAY -> due[1] : NEVER));
#endif
    more = loop_work || next <= t;
#ifndef BROKEN_RUNNERS_NOT_ASKED
    more = more || wants_runner;
#endif
    kept = wants_keep;
#ifndef BROKEN_IN_PASS_UNTIL_LATER
    in_pass = false;
#endif
    soonest = NEVER;
#ifdef BROKEN_SENT_CLEARED_AT_THE_END
    sent = false;
#endif
    send = more && !sent;
    sent = sent || send;
#ifdef BROKEN_SENT_CLEARED_LAST
    sent = false;
#endif
#ifdef BROKEN_ARMED_NOT_RAISED
    armed = min(armed, next)
#else
    armed = next
#endif
#ifdef REPLACED
    ;
    armed = NEVER
#endif
  };
  handle_ref = kept; /* only this thread writes both */
  if
  :: send -> async_send()
#ifndef REPLACED
  :: !send && next == NEVER -> timer_at = NEVER
  :: !send && next != NEVER -> arm_timer(next)
#else
  :: else
#endif
  fi;
#ifdef BROKEN_IN_PASS_UNTIL_LATER
  in_pass = false;
#endif
  atomic { next = 0; t = 0 }
}

/* The user's code on the loop, inside a pass. */
inline callback() {
#ifdef NESTED
  if
  :: timer_at <= now ->
    timer_at = NEVER; /* uvs__dispatch: begin says no */
    if
    :: sent || loop_work -> wake_loop()
    :: else
    fi
  :: else
  fi;
  if
  :: event ->
    event = false;
    pending = false; /* uvs__pass: begin says no */
#ifndef BROKEN_NESTED_PASS_TAKES_THE_SIGNAL
    sent = false
#endif
  :: else
  fi;
#endif
#ifdef LATER
  if
  :: !later -> later = true; t = now; d_step { accept(2, DELAY, LATER); decide(true) }; wake()
  :: else
  fi
#else
  skip
#endif
}

inline pass() { /* uvs__pass */
  begin(true);
  d_step { collect(true) };
  send_runners();
#ifdef BROKEN_ARMED_BEFORE_THE_CALLBACKS
  next = next_look;
#endif
  d_step { take_first(ONLOOP) }; /* run_on_loop: at least one */
  if
  :: task < 3 -> callback(); d_step { end_run(task); task = 0 }
  :: else
  fi;
  d_step { take_first(OWED) }; /* uvs__make_callbacks: at least one */
  if
  :: task < 3 ->
    callback();
    d_step { place[task] = FREE; live_refs = live_refs - ((is[task] & UNREF) -> 0 : 1); task = 0 }
  :: else
  fi;
  send_runners();
  end_pass()
}

inline dispatch() { /* uvs__dispatch */
  d_step { send = sent || loop_work };
  if
  :: send -> wake_loop()
  :: else ->
    begin(false);
    d_step { collect(true) };
    send_runners();
    end_pass()
  fi
}

/* Everybody sleeps. */
#define quiet (busy == 0 && queued == 0 && returned == 0 && !event && timer_at > now && working == blocked)

inline check_sleep() {
  d_step {
    nothing_is_owed = !loop_work; /* no callback, no task of the loop's */
    each_ready_task_has_a_runner = !lacks_runner; /* or all runners are out */
    the_ref_is_right = handle_ref == wants_keep;
#ifdef REPLACED
    no_deadline_is_slept_over = next_look > now;
#else
    no_deadline_is_slept_over = timer_at <= next_look;
#endif
#ifdef OWN_CANCEL
    no_timer_for_nothing = timer_at == NEVER || next_look != NEVER; /* L11 */
#endif
    assert(nothing_is_owed);
    assert(each_ready_task_has_a_runner);
    assert(the_ref_is_right);
    assert(no_deadline_is_slept_over);
    assert(no_timer_for_nothing)
  }
}

init { /* the loop sleeps, after a pass */
  byte task = 0, arm = 0, next = 0, more_runners = 0, t = 0;
  bool send = false, more = false, later = false, own = false;
#ifdef BROKEN_WALL_LOOKED_AT_BEFORE
  byte wall_due = NEVER;
#endif
  d_step {
    is[0] = A0;
    is[1] = A1;
    is[2] = A2;
#ifdef FIRST
    accept(0, DELAY, FIRST);
#endif
#ifdef SECOND
    accept(1, DELAY, SECOND);
#endif
#ifdef LANE
    place[0] = RUN;
    place[1] = GATE;
    live_refs = live_refs + 2;
#endif
    soonest = NEVER;
#ifndef REPLACED
    armed = next_look;
    timer_at = armed;
#endif
    kept = wants_keep;
    handle_ref = kept
  };
  atomic {
    do
    :: task < RUNNERS -> run Runner(); task++
    :: else -> task = 0; break
    od;
#ifdef SUBMIT
    busy++;
    run Submitter();
#endif
#ifdef WALL
    busy++;
    run Wall();
#endif
#ifdef MOVE
    busy++;
    run Mover();
#endif
#ifdef CANCEL
    busy++;
    run Canceller();
#endif
#ifdef FINISH
    busy++;
    run Finisher();
#endif
#ifdef CHANGE
    busy++;
    run Changer();
#endif
#if CLOCK > 0
    run Clock();
#endif
    skip
  };
  do
  :: atomic { timer_at <= now -> timer_at = NEVER };
    dispatch()
  :: atomic { returned > 0 -> returned-- };
    d_step { out-- };
#ifndef BROKEN_HOMECOMING_IS_NOT_LOOKED_AT
    dispatch()
#endif
  :: event ->
    event = false;
    if
    :: atomic { pending -> pending = false };
      pass()
    :: !pending
    fi
#ifdef OWN
  :: !own && OWN > now -> own = true;
    t = now;
    d_step { accept(2, DELAY, OWN); decide(true) };
    if
    :: arm != 0 -> arm_timer(arm)
    :: else
    fi;
    wake()
#endif
#ifdef OWN_CANCEL
#ifdef OWN
  :: own && place[2] == DELAY ->
    d_step { place[2] = FREE; live_refs--; t = 0; decide(true) };
    wake()
#endif
#endif
  :: quiet ->
    check_sleep();
    if
    :: blocked > 0 -> go = true; blocked == 0
    :: blocked == 0 && timer_at != NEVER -> atomic { now = (now < timer_at -> timer_at : now) }
    :: blocked == 0 && timer_at == NEVER -> break
    fi
  od;
#ifndef REPLACED
  each_task_is_over = place[0] + place[1] + place[2] + live_refs == 0;
  assert(each_task_is_over);
#endif
#ifdef ECONOMY
  assert(sends == 0);
#endif
end:
  false
}
