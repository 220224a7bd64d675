// SPDX-License-Identifier: MIT
'use strict';

// Between the tasks and the core: gives out slots, hands tasks over, hears what the core has to
// tell, and counts what the core does not see.
//
// The core tells in events (src/host.c): all that its turn brought, in one call of drain. Between
// two functions the microtasks and the nextTick queue are emptied, as node does between two timers;
// with `batch` only after the last. When the budget is used up the rest waits for the loop's next
// turn, so that I/O gets its share.

const binding = require('./binding.js');
const IO = require('./io.js');
const { AbortError, UV_ECANCELED, UV_ETIMEDOUT, refused } = require('./errors.js');
const { follow } = require('./signal.js');
const {
  Task, Limiter, Run, More, begin, over, keepShape, settle, settleFailed, raise,
  STATE, RUNNING, PLAIN, UNREF, CANCELLED, FAILED, WALL, kSlot, kState, kMore,
} = require('./task.js');

const { RC, NOW, NEXT, OVER, PLAIN_DUE, SLOT, DELAY, FLAGS, KIND, LANE, EVENTS, EVENT_WIDTH, small } = IO;

// Empties the nextTick queue and the microtasks. Where node has no such thing any more, drain
// returns after each function, and node does it on the way out.
const tick = process._tickCallback;

function drainQueues() {
  try {
    tick?.();
  } catch (error) { // of a nextTick callback; the others that are due still run
    binding.raise(error);
  }
}

const LATE = ['timer', 'loop', 'budget', 'runners', 'overlap', 'clock', 'submit', 'retry'];

const COUNTS = [
  'submitted', 'completed', 'failed', 'cancelled', 'timedOut', 'dropped', 'waiting', 'ready',
  'running', 'rejected', 'runs', 'missed', 'runners', 'peakRunners', 'slots', 'failedRuns', 'wakeups',
];
const LATE_BUCKETS = 32;

const NO_FRONT = { listenerCount: () => 0, emit() {} }; // of an engine that is nobody's scheduler

const BATCH_LOOK = 7; // with `batch`, the clock is looked at once in eight functions

class Engine {
  // V8 forgets the shape of objects of which none is left, and with it all code that was compiled
  // for it: so that a program whose last task has ended does not begin anew, there is one of each.
  // Made by the first drain, which is in nobody's async context: they would keep that, too.
  static #kept = undefined;

  tasks = []; // by slot
  free = []; // slots
  live = 0; // tasks that are not over
  lanes = new Map(); // by key
  nextLane = 1;
  limits = undefined; // an engine of its own, for the time limits
  // Plain tasks, of which the core knows nothing but when they are due.
  plainRuns = 0;
  plainCompleted = 0;
  plainFailed = 0;
  plainCancelled = 0;
  plainCancelling = 0; // decided, and not yet over
  // Tasks that their time limit has ended, which the core takes for failed, or for cancelled.
  timedOut = 0;
  timedOutCancelled = 0;
  late = new Float64Array(LATE_BUCKETS + 1); // runs by how late they began; the last is the most
  untilNs = 0; // the present turn's budget; 0: none is known
  // The end.
  ending = false; // somebody waits for it
  terminated = undefined; // a promise with its resolve
  closed = undefined;
  coreTerminated = false;
  coreClosed = false;
  neverRan = undefined;
  raised = undefined; // by shutdownNow or close: the error for the signals of the runs

  constructor(front, io, { batch, budgetNs, bounded }) {
    this.front = front;
    this.io = io;
    this.batch = batch;
    this.budgetNs = budgetNs;
    this.bounded = bounded;
    this.owner = binding.open(io, (n) => this.drain(n)); // of the native part
    if (typeof this.owner === 'number') throw refused(this.owner);
    this.number = small(io[SLOT]);
    this.originMs = originOf(this);
  }

  // The native functions, which are the same for all engines. Who takes them calls one before he does
  // anything else: they are for the engine that was asked last.
  get native() {
    binding.at[0] = this.number;
    return binding;
  }

  // ---- in ----

  takeSlot() {
    return this.free.length > 0 ? this.free.pop() : this.tasks.length;
  }

  // Enters a task that the native part has taken, or throws why it has not.
  enter(task, slot) {
    const rc = this.io[RC];
    if (rc < 0) {
      if (slot < this.tasks.length) this.free.push(slot);
      task.emitDestroy();
      throw refused(rc);
    }
    this.tasks[slot] = task;
    task[kSlot] = slot;
    this.live++;
    return task;
  }

  // A plain task.
  arm(task, delayNs) {
    const io = this.io;
    const slot = this.takeSlot();
    io[SLOT] = slot;
    io[DELAY] = delayNs;
    io[FLAGS] = task[kState] & UNREF ? 1 : 0;
    this.native.arm();
    return this.enter(task, slot);
  }

  // A task with options, as options.js has read them.
  submit(fn, delayNs, options, lane, wall, TaskType = Task) {
    const io = this.io;
    const task = new TaskType(this, fn, (options.ref ? 0 : UNREF) | (wall === undefined ? 0 : WALL));
    const more = (task[kMore] = new More());
    more.name = options.name;
    more.periodic = options.core[0] !== 0;
    more.lane = lane;
    more.absorbs = options.absorbs;
    more.maxFailures = options.maxFailures;
    more.limitNs = options.limitNs;
    const slot = this.takeSlot();
    io.set(options.core, KIND);
    io[SLOT] = slot;
    io[DELAY] = wall === undefined ? delayNs : wall[0];
    io[IO.WALL_NS] = wall === undefined ? 0 : wall[1];
    io[FLAGS] = options.ref ? 0 : 1;
    io[LANE] = lane === undefined ? 0 : lane.number;
    this.native.submit(options.name);
    this.enter(task, slot);
    lane?.tasks.add(task);
    if (options.signal !== undefined) obey(task, options.signal);
    return task;
  }

  // fn, when so much time has passed. It holds the loop if the task does whose run it ends.
  limit(ns, fn, held) {
    if (this.limits === undefined) {
      const io = new Float64Array(IO.SIZE);
      io[KIND] = 0;
      io[IO.PERIOD] = 1e6;
      this.limits = new Engine(NO_FRONT, io, { batch: false, budgetNs: 1e6, bounded: false });
    }
    return this.limits.arm(new Limiter(this.limits, fn, held ? PLAIN : PLAIN | UNREF), ns);
  }

  cancel(slot) {
    this.io[SLOT] = slot;
    this.native.cancel();
    return this.io[RC];
  }

  finish(slot, status) {
    this.io[SLOT] = slot;
    this.io[FLAGS] = status;
    this.native.finish();
  }

  giveBack(slot) {
    this.tasks[slot] = undefined;
    this.free.push(slot);
    this.live--;
  }

  // How a plain task ended.
  countPlain(state, flags) {
    if (state & CANCELLED) {
      this.plainCancelled++;
      this.plainCancelling--;
    } else if (flags & FAILED) {
      this.plainFailed++;
    } else {
      this.plainCompleted++;
    }
  }

  // ---- out ----

  drain(n) {
    const io = this.io;
    if (Engine.#kept === undefined) Engine.#kept = new Run(keepShape(Task), 0.5, 0.5, 1, 0);
    this.native.clock();
    // One budget for all calls of a turn: it may have more events than fit into io, and after a
    // function that throws there is another call.
    const untilNs = (this.untilNs ||= io[NOW] + this.budgetNs);
    for (let i = 0, at = EVENTS; ; at += EVENT_WIDTH) {
      io[NEXT] = ++i; // before: it counts as heard even if a function throws
      this.hear(io, at);
      if (i === n && n < IO.EVENT_ROOM) break;
      if (i < n) {
        if (!this.batch) drainQueues();
        else if ((i & BATCH_LOOK) !== 0) continue;
      }
      this.native.clock();
      if (io[NOW] > untilNs) {
        io[OVER] = 1;
        break;
      }
      if (i === n || (!this.batch && tick === undefined)) return;
    }
    this.untilNs = 0;
  }

  hear(io, at) {
    const key = io[at + 1];
    switch (io[at]) {
      case IO.RUN: return this.run(this.tasks[key], io, at);
      case IO.DONE: return this.done(this.tasks[key], io[at + 2]);
      case IO.MISSED_POINTS: {
        const task = this.tasks[key];
        if (this.front.listenerCount('missed') === 0) return undefined;
        task.runInAsyncScope(this.front.emit, this.front, 'missed', task, io[at + 2], LATE[io[at + 3]]);
        return undefined;
      }
      case IO.NEVER_RAN:
        this.neverRan?.push(this.tasks[key]);
        return undefined;
      case IO.QUIET: {
        const lane = this.lanes.get(key);
        this.lanes.delete(key);
        lane.quiet.resolve();
        return undefined;
      }
      case IO.TERMINATED:
        this.coreTerminated = true;
        return this.lookForEnd();
      case IO.CLOSED:
        this.coreTerminated = this.coreClosed = true;
        return this.lookForEnd();
    }
  }

  run(task, io, at) {
    if (this.raised !== undefined && !(task[kState] & CANCELLED)) { // due, but it shall not begin
      task.cancel();
      if (task.runs === 0) this.neverRan?.push(task);
    }
    const state = task[kState];
    if (state & CANCELLED) { // after it was due
      if (state & PLAIN) {
        over(task, 0, task[kMore]?.error);
        if (this.ending) this.lookForEnd();
      } else {
        this.finish(task[kSlot], 0);
      }
      return;
    }
    if (state & PLAIN) {
      io[PLAIN_DUE]--;
      this.plainRuns++;
    }
    // Of a number of ns since 1970 the last 8 bits are lost.
    const idealMs = state & WALL ? Math.round(io[at + 2] / 1e3) / 1e3 : io[at + 2] / 1e6 - this.originMs;
    const lateNs = io[NOW] - io[at + 3];
    this.countLate(lateNs);
    begin(task, new Run(task, idealMs, lateNs > 0 ? lateNs / 1e6 : 0, small(io[at + 4]), small(io[at + 5])));
  }

  // Bucket b has what was below 2^b us, and not in the one before.
  countLate(lateNs) {
    const us = lateNs / 1e3;
    const bucket = us < 0x7fffffff ? 32 - Math.clz32(us) : LATE_BUCKETS - 1;
    this.late[bucket]++;
    if (lateNs > this.late[LATE_BUCKETS]) this.late[LATE_BUCKETS] = lateNs;
  }

  // The core says that a task is over.
  done(task, status) {
    const more = task[kMore];
    const cancelled = (task[kState] & CANCELLED) !== 0;
    try {
      if (status === UV_ETIMEDOUT || (more?.settled && !cancelled)) { // its limit has decided
        this.timedOut++;
        if (status === UV_ECANCELED) this.timedOutCancelled++;
        over(task, FAILED, more.error);
        settleFailed(task, more.error, false);
      } else if (status === UV_ECANCELED || cancelled) {
        if (task[kState] & PLAIN) this.plainCancelling++;
        task[kState] |= CANCELLED;
        if (more !== undefined) settle(task, more.settled ? more.error : new AbortError());
        over(task, 0, more?.error);
      } else if (status === 0) {
        settle(task, undefined, more.value);
        over(task, 0, more.value);
      } else {
        const error = more.error === undefined ? refused(status) : more.error;
        over(task, FAILED, error);
        settleFailed(task, error, more.rejection);
      }
    } finally { // perhaps nobody wanted to hear of the failure
      if (this.ending) this.lookForEnd();
    }
  }

  // ---- the end ----

  lookForEnd() {
    if (this.live > 0) return;
    if (this.coreTerminated && this.terminated !== undefined) {
      this.terminated.resolve(this.neverRan);
    }
    if (this.coreClosed && this.closed !== undefined) this.closed.resolve();
  }

  // The runs in progress are asked to stop, and keep their outcome; none begins any more.
  raiseAll() {
    const reason = (this.raised ??= new AbortError());
    for (const task of this.tasks) {
      if (task !== undefined && (task[kState] & STATE) === RUNNING) raise(task[kMore]?.current, reason);
    }
  }

  whenTerminated() {
    this.ending = true;
    this.terminated ??= deferred();
    this.lookForEnd();
    return this.terminated.promise;
  }

  shutdown(delayed, periodic) {
    this.io[KIND] = delayed;
    this.io[IO.FROM] = periodic;
    this.native.shutdown();
    return this.whenTerminated().then(() => {});
  }

  shutdownNow() {
    this.native.shutdownNow();
    if (this.io[RC] === 0) this.neverRan = [];
    this.raiseAll();
    return this.whenTerminated().then(() => this.neverRan ?? []);
  }

  close() {
    if (this.closed === undefined) {
      this.closed = deferred();
      this.ending = true;
      this.native.close();
      this.raiseAll();
      this.closed.promise = Promise.all([this.closed.promise, this.limits?.close()]).then(() => {});
    }
    return this.closed.promise;
  }

  // ---- asked ----

  stats() {
    const to = new Float64Array(COUNTS.length + 2);
    this.native.stats(to);
    const stats = {};
    COUNTS.forEach((name, i) => { stats[name] = to[i]; });
    const [armed, waiting] = to.subarray(COUNTS.length);
    const due = this.io[PLAIN_DUE];
    const cancelled = this.plainCancelled + this.plainCancelling;
    stats.runs += this.plainRuns;
    stats.completed += this.plainCompleted;
    stats.failed += this.plainFailed;
    stats.failedRuns += this.plainFailed;
    stats.cancelled += cancelled;
    stats.timedOut += this.timedOut;
    stats.failed -= this.timedOut - this.timedOutCancelled;
    stats.cancelled -= this.timedOutCancelled;
    stats.ready += due;
    stats.running += armed - waiting - due - cancelled - this.plainFailed - this.plainCompleted;
    stats.late = this.lateness();
    return stats;
  }

  // ms; p50 and p99 are the ends of buckets, so up to twice too much.
  lateness() {
    const buckets = this.late.subarray(0, LATE_BUCKETS);
    const max = this.late[LATE_BUCKETS] / 1e6;
    const count = buckets.reduce((sum, n) => sum + n, 0);
    const below = (share) => {
      let left = Math.ceil(count * share);
      const b = buckets.findIndex((n) => (left -= n) <= 0);
      return count === 0 ? 0 : Math.min(max, 2 ** b / 1e3);
    };
    return { count, p50: below(0.5), p99: below(0.99), max };
  }

  list() {
    return this.tasks.filter((task) => task !== undefined && task.state !== 'over');
  }
}

// How far the core's clock is ahead of performance.now(), in ms: the narrowest of a few looks.
function originOf({ io, native }) {
  let width = Infinity;
  let origin = 0;
  for (let i = 0; i < 8; i++) {
    const before = performance.now();
    native.clock();
    const after = performance.now();
    if (after - before < width) {
      width = after - before;
      origin = io[NOW] / 1e6 - (before + after) / 2;
    }
  }
  return origin;
}

function deferred() {
  const d = {};
  d.promise = new Promise((resolve, reject) => Object.assign(d, { resolve, reject }));
  return d;
}

// From now on the user's AbortSignal cancels the task.
function obey(task, signal) {
  if (signal.aborted) {
    task.cancel(signal.reason);
    return;
  }
  task[kMore].signal = signal;
  follow(signal, task);
}

module.exports = { Engine, NO_FRONT, deferred };
