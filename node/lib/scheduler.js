// SPDX-License-Identifier: MIT
'use strict';

// The public classes Scheduler and Lane.

const { EventEmitter } = require('node:events');
const { inspect } = require('node:util');
const { duration, period, instant } = require('./duration.js');
const { Engine, deferred } = require('./engine.js');
const { refused } = require('./errors.js');
const IO = require('./io.js');
const { taskOptions, schedulerOptions, object, whole, bool } = require('./options.js');
const { Task, PLAIN } = require('./task.js');

const LANE = new Set(['width']);
const SHUTDOWN = new Set(['delayed', 'periodic']);

function callable(fn) {
  if (typeof fn !== 'function') throw new TypeError(`fn must be a function, not ${inspect(fn)}`);
}

function once(engine, delay, fn, options, lane) {
  const ns = duration(delay, 'delay');
  callable(fn);
  if (options === undefined && lane === undefined && !engine.bounded) {
    return engine.arm(new Task(engine, fn, PLAIN), ns);
  }
  return engine.submit(fn, ns, taskOptions(options, { periodic: false }), lane);
}

function every(engine, given, fn, options, lane) {
  const periodNs = period(given, 'period');
  callable(fn);
  const read = taskOptions(options, { periodic: true, periodNs });
  return engine.submit(fn, read.firstNs, read, lane);
}

function at(engine, date, fn, options, lane) {
  const when = instant(date, 'date');
  callable(fn);
  return engine.submit(fn, 0, taskOptions(options, { periodic: false, wall: true }), lane, when);
}

/** A group of tasks that run in order, at most `width` at once, and can be cancelled together. */
class Lane {
  #engine;
  #key;
  #disposed = false;

  constructor(engine, options) {
    if (!(engine instanceof Engine)) throw new TypeError('lanes are made by scheduler.lane()');
    const width = whole(object(options, 'options', LANE).width, 'width', 0, 0x7fffffff, 1);
    const { io, native } = engine;
    this.#engine = engine;
    this.#key = engine.nextLane++;
    io[IO.SLOT] = this.#key;
    io[IO.FLAGS] = width;
    native.openLane();
    if (io[IO.RC] < 0) throw refused(io[IO.RC]);
    // For the engine, not for users.
    Object.defineProperties(this, {
      number: { value: io[IO.LANE] },
      tasks: { value: new Set() },
      quiet: { value: deferred() },
      forget: { value: (task) => this.tasks.delete(task) },
    });
    engine.lanes.set(this.#key, this);
  }

  schedule(delay, fn, options) {
    return once(this.#engine, delay, fn, options, this);
  }

  every(periodGiven, fn, options) {
    return every(this.#engine, periodGiven, fn, options, this);
  }

  at(date, fn, options) {
    return at(this.#engine, date, fn, options, this);
  }

  execute(fn, options) {
    return once(this.#engine, 0, fn, options, this);
  }

  get disposed() {
    return this.#disposed;
  }

  /** Cancels all tasks of the lane and accepts no more. Resolves when the last of them has ended. */
  dispose(reason) {
    if (!this.#disposed) {
      this.#disposed = true;
      for (const task of [...this.tasks]) task.cancel(reason);
      this.#engine.io[IO.LANE] = this.number;
      this.#engine.native.disposeLane();
    }
    return this.quiet.promise;
  }
}

class Scheduler extends EventEmitter {
  #engine;
  #native;

  constructor(options) {
    super();
    const io = new Float64Array(IO.SIZE);
    this.#engine = new Engine(this, io, schedulerOptions(options, io));
  }

  /** Runs fn once, after `delay`. */
  schedule(delay, fn, options) {
    return once(this.#engine, delay, fn, options);
  }

  /** Runs fn again and again: at a fixed rate, or (mode 'delay') one period after the end of each run. */
  every(periodGiven, fn, options) {
    return every(this.#engine, periodGiven, fn, options);
  }

  /** Runs fn once, at an instant of the wall clock, even if that clock is set. The past means now. */
  at(date, fn, options) {
    return at(this.#engine, date, fn, options);
  }

  /** Runs fn once, as soon as possible. */
  execute(fn, options) {
    return once(this.#engine, 0, fn, options);
  }

  lane(options) {
    return new Lane(this.#engine, options);
  }

  /** Accepts no new tasks. Resolves when the last task has ended. */
  shutdown(options) {
    const o = object(options, 'options', SHUTDOWN);
    const survive = (value, name) => (value === undefined ? -1 : Number(bool(value, name)));
    return this.#engine.shutdown(survive(o.delayed, 'delayed'), survive(o.periodic, 'periodic'));
  }

  /** Starts no more runs, and aborts the signals of the current ones. Resolves to the tasks that never ran. */
  shutdownNow() {
    return this.#engine.shutdownNow();
  }

  /** Like shutdownNow, and frees everything. Resolves when no function is running any more. */
  close() {
    return this.#engine.close();
  }

  stats() {
    return this.#engine.stats();
  }

  /** The tasks that have not ended. */
  tasks() {
    return this.#engine.list();
  }

  /** A table of functions for native addons; see include/uvsched_node.h. */
  get native() {
    return (this.#native ??= this.#engine.native.table());
  }
}

if (Symbol.asyncDispose !== undefined) {
  const dispose = (name) => ({ value() { return this[name](); }, writable: true, configurable: true });
  Object.defineProperty(Lane.prototype, Symbol.asyncDispose, dispose('dispose'));
  Object.defineProperty(Scheduler.prototype, Symbol.asyncDispose, dispose('close'));
}

// The default scheduler of this thread. It is closed when the thread's environment ends.
let common;
function defaultScheduler() {
  return (common ??= new Scheduler());
}

module.exports = { Scheduler, Lane, defaultScheduler };
