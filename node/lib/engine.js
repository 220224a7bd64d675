// SPDX-License-Identifier: MIT
'use strict';

// An Engine connects Task objects with the native scheduler (the core). It assigns slots, submits tasks,
// handles events, and counts what the core does not see.
//
// After each loop pass of the core, src/host.c calls drain once with all events of that pass. Between
// two user functions, drain empties the nextTick queue and the microtask queue, as node does between two
// timers; with `batch` it does so only after the last function. When the budget is used up, the other
// events wait for the next loop pass, so that I/O is served.

const binding = require('./binding.js');
const IO = require('./io.js');
const { AbortError, UV_ECANCELED, UV_ETIMEDOUT, refused } = require('./errors.js');
const { follow } = require('./signal.js');
const {
  Task, Limiter, Run, More, begin, endTask, keepShape, settle, settleFailed, raise,
  STATE, RUNNING, PLAIN, UNREF, CANCELLED, FAILED, WALL, kSlot, kState, kMore,
} = require('./task.js');

const { RC, NOW, NEXT, OVER, PLAIN_DUE, SLOT, DELAY, FLAGS, KIND, LANE, EVENTS, EVENT_WIDTH, small } = IO;

// Empties the nextTick queue and the microtask queue. If node no longer has this function, drain
// returns after each user function, and node empties the queues then.
const tick = process._tickCallback;

function drainQueues() {
  try {
    tick?.();
  } catch (error) { // a nextTick callback threw; the other due tasks still run
    binding.raise(error);
  }
}

const COUNTS = [
  'submitted', 'completed', 'failed', 'cancelled', 'timedOut', 'dropped', 'waiting', 'ready',
  'running', 'rejected', 'runs', 'missed', 'runners', 'peakRunners', 'slots', 'failedRuns', 'wakeups',
];
const LATE_BUCKETS = 122; // as the core's UVS_BUCKETS

const NO_FRONT = { listenerCount: () => 0, emit() {} }; // for an engine without a Scheduler

const BATCH_LOOK = 7; // with `batch`, the clock is read after every eighth function

class Engine {
  // One Task and one Run that stay alive. When the last object of a shape is collected, V8 discards the
  // shape and all code that was optimized for it. A program whose last task has ended would be slow
  // again. The first drain makes them, because it runs in no async context that they would keep alive.
  static #kept = undefined;

  tasks = []; // by slot
  free = []; // free slots
  live = 0; // tasks that have not ended
  lanes = new Map(); // by key
  nextLane = 1;
  limits = undefined; // a second engine, for the time limits of runs
  // Counts of plain tasks. The core knows only when these are due.
  plainRuns = 0;
  plainCompleted = 0;
  plainFailed = 0;
  plainCancelled = 0;
  plainCancelling = 0; // cancelled, but not yet ended
  // Tasks that were ended by their time limit. The core counts them as failed or as cancelled.
  timedOut = 0;
  timedOutCancelled = 0;
  late = new Float64Array(LATE_BUCKETS + 1); // runs by lateness; the last element is the maximum
  untilNs = 0; // when the budget of this loop pass ends; 0: not yet known
  // Shutdown.
  ending = false; // somebody waits for the end
  terminated = undefined; // a promise with its resolve
  closed = undefined;
  coreTerminated = false;
  coreClosed = false;
  neverRan = undefined;
  raised = undefined; // set by shutdownNow and close: the reason for the signals of the runs

  constructor(front, io, { batch, budgetNs, bounded }) {
    this.front = front;
    this.io = io;
    this.batch = batch;
    this.budgetNs = budgetNs;
    this.bounded = bounded;
    this.owner = binding.open(io, (n) => this.drain(n)); // the native object
    if (typeof this.owner === 'number') throw refused(this.owner);
    this.number = small(io[SLOT]);
    this.originMs = originOf(this);
  }

  // The native functions, which all engines share. They act on the engine whose `native` was read last,
  // so read it again before each call.
  get native() {
    binding.at[0] = this.number;
    return binding;
  }

  // ---- submission ----

  takeSlot() {
    return this.free.length > 0 ? this.free.pop() : this.tasks.length;
  }

  // Records a task that the native part has accepted, or throws the error if it was refused. `text`:
  // what the core says about a spec that it refuses.
  enter(task, slot, text) {
    const rc = this.io[RC];
    if (rc < 0) {
      if (slot < this.tasks.length) this.free.push(slot);
      task.emitDestroy();
      throw refused(rc, text);
    }
    this.tasks[slot] = task;
    task[kSlot] = slot;
    this.live++;
    return task;
  }

  // Submits a plain task.
  arm(task, delayNs) {
    const io = this.io;
    const slot = this.takeSlot();
    io[SLOT] = slot;
    io[DELAY] = delayNs;
    io[FLAGS] = task[kState] & UNREF ? 1 : 0;
    this.native.arm();
    return this.enter(task, slot);
  }

  // Submits a task with options; `options` comes from options.js.
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
    this.enter(task, slot, this.native.submit(options.name));
    lane?.tasks.add(task);
    if (options.signal !== undefined) obey(task, options.signal);
    return task;
  }

  // Calls fn after `ns` nanoseconds, to end a run. held: until then it keeps the loop alive, as its task does.
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

  // Counts the end of a plain task.
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

  // ---- events ----

  drain(n) {
    const io = this.io;
    if (Engine.#kept === undefined) Engine.#kept = new Run(keepShape(Task), 0.5, 0.5, 1, 0);
    this.native.clock();
    // One budget for all calls of one loop pass: there may be more events than fit into io, and another
    // call follows after a function that throws.
    const untilNs = (this.untilNs ||= io[NOW] + this.budgetNs);
    for (let i = 0, at = EVENTS; ; at += EVENT_WIDTH) {
      io[NEXT] = ++i; // first: the event counts as handled even if a function throws
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
        const cause = binding.lateNames[io[at + 3]] ?? 'unknown';
        task.runInAsyncScope(this.front.emit, this.front, 'missed', task, io[at + 2], cause);
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
    if (this.raised !== undefined && !(task[kState] & CANCELLED)) { // due, but no run may start any more
      task.cancel();
      if (task.runs === 0) this.neverRan?.push(task);
    }
    const state = task[kState];
    if (state & CANCELLED) { // cancelled after it was due
      if (state & PLAIN) {
        endTask(task, 0, task[kMore]?.error);
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
    // A double cannot hold the last 8 bits of ns since 1970.
    const idealMs = state & WALL ? Math.round(io[at + 2] / 1e3) / 1e3 : io[at + 2] / 1e6 - this.originMs;
    const lateNs = io[NOW] - io[at + 3];
    this.countLate(lateNs);
    begin(task, new Run(task, idealMs, lateNs > 0 ? lateNs / 1e6 : 0, small(io[at + 4]), small(io[at + 5])));
  }

  countLate(lateNs) {
    this.late[lateBucket(lateNs)]++;
    if (lateNs > this.late[LATE_BUCKETS]) this.late[LATE_BUCKETS] = lateNs;
  }

  // The core reports that a task has ended.
  done(task, status) {
    const more = task[kMore];
    const cancelled = (task[kState] & CANCELLED) !== 0;
    try {
      if (status === UV_ETIMEDOUT || (more?.settled && !cancelled)) { // ended by its time limit
        this.timedOut++;
        if (status === UV_ECANCELED) this.timedOutCancelled++;
        endTask(task, FAILED, more.error);
        settleFailed(task, more.error, false);
      } else if (status === UV_ECANCELED || cancelled) {
        if (task[kState] & PLAIN) this.plainCancelling++;
        task[kState] |= CANCELLED;
        if (more !== undefined) settle(task, more.settled ? more.error : new AbortError());
        endTask(task, 0, more?.error);
      } else if (status === 0) {
        settle(task, undefined, more.value);
        endTask(task, 0, more.value);
      } else {
        const error = more.error === undefined ? refused(status) : more.error;
        endTask(task, FAILED, error);
        settleFailed(task, error, more.rejection);
      }
    } finally { // an unhandled failure may have thrown
      if (this.ending) this.lookForEnd();
    }
  }

  // ---- shutdown ----

  lookForEnd() {
    if (this.live > 0) return;
    if (this.coreTerminated && this.terminated !== undefined) {
      this.terminated.resolve(this.neverRan);
    }
    if (this.coreClosed && this.closed !== undefined) this.closed.resolve();
  }

  // Aborts the signals of the current runs, which keep their outcome. No other run starts.
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

  // ---- inspection ----

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

  // In ms. p50 and p99 are upper ends of buckets. From 1 us on, they are at most a quarter too high.
  lateness() {
    const buckets = this.late.subarray(0, LATE_BUCKETS);
    const max = this.late[LATE_BUCKETS] / 1e6;
    const count = buckets.reduce((sum, n) => sum + n, 0);
    const below = (share) => {
      let left = Math.ceil(count * share);
      const b = buckets.findIndex((n) => (left -= n) <= 0);
      return count === 0 ? 0 : Math.min(max, bucketEndNs(b) / 1e6);
    };
    return { count, p50: below(0.5), p99: below(0.99), max };
  }

  list() {
    return this.tasks.filter((task) => task !== undefined && task.state !== 'ended');
  }
}

// The buckets of lateness are those of the core's histograms. Bucket 0 is for values below 1024 ns. Above,
// each power of two is divided into four buckets. Values from 2^40 ns on are in the last bucket.
function lateBucket(ns) {
  const units = ns / 256; // below 2^32 in all buckets but the last
  if (!(units >= 4)) return 0;
  if (units >= 2 ** 32) return LATE_BUCKETS - 1;
  const power = 31 - Math.clz32(units);
  return 4 * (power - 2) + 1 + ((units >>> (power - 2)) & 3);
}

function bucketEndNs(bucket) {
  if (bucket === LATE_BUCKETS - 1) return Infinity;
  return 256 * 2 ** (bucket >> 2) * (4 + (bucket & 3));
}

// How far the core's clock is ahead of performance.now(), in ms: the most exact of eight readings.
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
