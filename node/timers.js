// SPDX-License-Identifier: MIT
'use strict';

// A drop-in replacement for node:timers. setImmediate and clearImmediate are node's own.
//
// Deliberate differences from node:
// - A delay above 2^31-1 ms is waited in full. Node turns it into 1 ms and warns. Infinity means never.
// - An interval does not drift: run n is due n periods after the start or the last refresh(), however
//   long the runs take. Node counts from the start of the previous run, and drifts. If several periods
//   pass while the loop is blocked, one run makes up for all of them.
// - After such a stall, and after any late run, the next run follows sooner than one period later. That
//   cannot be avoided: an interval that keeps its rate must make up for lateness. Use
//   every(period, fn, { mode: 'delay' }) of the package if the distance matters more than the rate.
// - A delay counts from the call. Node counts from the start of the loop iteration, so a node timer can
//   fire early by the time that the iteration has already taken. These timers never fire early. Timers
//   run in the order of their deadlines.
// - When the callbacks of one loop iteration have taken 1 ms, the other due timers wait for the next
//   iteration, so that I/O and immediates are served. Node calls all due timers first. A timer that was
//   already due when the loop learned of it fires one or two iterations later than node's.
// - The first timer keeps the loop alive for one iteration, even if it is unref'd: a native scheduler
//   learns in its first iteration which thread the loop runs on. Loading this file opens no scheduler.
// - A Timeout also has the members of a Task of this package (promise, reschedule, ...).
// - refresh() of an interval inside its callback counts from that call, not from the start of the run.
// - The number of a Timeout (its primitive) stays the same when it is refreshed after it fired.
// - The trigger id that async_hooks reports is executionAsyncId(), also where node sets another one for
//   internal work (the `lookup` function of net.connect).
// - process.getActiveResourcesInfo() does not list these timers, mock.timers of node:test does not
//   control them, and newer node's warnings for a negative delay or NaN are missing.
// - Of node's undocumented fields only _onTimeout, _idleTimeout and _destroyed exist. The deprecated
//   enroll, active and _unrefActive are node's own, where node has them, and do not know these timers.
// Of node 20's own tests these fail for the reasons above: test-timers (2^31), -max-duration-warning,
// -timeout-to-interval (_repeat), -immediate-queue, and test-process-getactiveresources-*.

const { AsyncResource } = require('node:async_hooks');
const node = require('node:timers');
const { promisify } = require('node:util');
const binding = require('./lib/binding.js');
const { Engine, NO_FRONT } = require('./lib/engine.js');
const IO = require('./lib/io.js');
const { schedulerOptions, taskOptions } = require('./lib/options.js');
const {
  Task, keepShape, ENDED, STATE, PLAIN, UNREF, kFn, kState, kMore, kCall, kEndRun,
} = require('./lib/task.js');

// Taken once, when this file is loaded. Later somebody may replace node's functions with those of this file.
const { setTimeout: nodeSetTimeout, clearTimeout: nodeClearTimeout, setImmediate, clearImmediate } = node;

const kCallback = Symbol('callback'); // null: cleared
const NONE = [];
const kArgs = Symbol('args');
const kMs = Symbol('ms');
const kAgain = Symbol('again'); // the new deadline, if it was refreshed while due or running
const kScope = Symbol('scope'); // a new async resource, if it was refreshed after it fired
const kAsked = Symbol('asked'); // whether somebody has read its number

// The timers have an engine of their own. A program that shuts the default scheduler down, or listens
// to its 'error' event, means the tasks of that scheduler, not every timer of the process.
// The first timer opens the engine. Loading this file does not, because a new scheduler keeps the loop
// alive for one iteration.
let engine;

function openEngine() {
  const io = new Float64Array(IO.SIZE);
  return new Engine(NO_FRONT, io, schedulerOptions(undefined, io));
}

function nowNs() {
  engine.native.clock();
  return engine.io[IO.NOW];
}

const byNumber = new Map(); // live timers whose number was read, by the number as text

// An error is reported in the async context of its timer, as in node: the handler of
// 'uncaughtException' sees the AsyncLocalStorage stores, and a domain sees its own errors.
function call() {
  try {
    Reflect.apply(this[kCallback], this, this[kArgs]);
  } catch (error) {
    binding.raise(error);
  }
}

class Timeout extends Task {
  static #kept = undefined; // keeps the shape of the class alive; see Engine.#kept

  constructor(of, callback, state, type = 'Timeout') {
    super(of, undefined, state, type);
    this[kCallback] = callback;
    this[kArgs] = NONE;
    this[kMs] = 0;
  }

  // The return value is ignored, as in node: a rejected promise is an unhandled rejection.
  [kCall]() {
    if (Timeout.#kept === undefined) Timeout.#kept = keepShape(Timeout);
    if (this[kAgain] !== undefined) return; // refreshed after it was due
    (this[kScope] ?? this).runInAsyncScope(call, this);
  }

  [kEndRun](run) {
    super[kEndRun](run, undefined, undefined, false);
    if (this[kAgain] === undefined) return;
    const ns = Math.max(0, this[kAgain] - nowNs());
    this[kAgain] = undefined;
    if ((this[kState] & STATE) === ENDED) rearm(this, ns);
    else this.reschedule(ns / 1e6);
  }

  // The timer has ended, unless it was refreshed meanwhile.
  emitDestroy() {
    if (this[kAgain] !== undefined) return this;
    if (this[kAsked]) byNumber.delete(`${this.asyncId()}`);
    if (this[kScope] === undefined) super.emitDestroy();
    else this[kScope].emitDestroy();
    return this;
  }

  cancel(reason) {
    this[kCallback] = null;
    this[kArgs] = NONE;
    this[kAgain] = undefined;
    return super.cancel(reason);
  }

  close() {
    this.cancel();
    return this;
  }

  /** Starts the delay again, also after the timer fired, but not after it was cleared. */
  refresh() {
    if (this[kCallback] === null) return this;
    const ns = this[kMs] * 1e6;
    if ((this[kState] & STATE) === ENDED) {
      this[kScope] = new AsyncResource('Timeout', { requireManualDestroy: true });
      rearm(this, ns);
    } else if (!this.reschedule(this[kMs])) {
      this[kAgain] = nowNs() + ns;
    }
    return this;
  }

  // As in node, the flag outlives the timer, for a later refresh.
  ref() {
    if (this instanceof Timeout) { // node accepts any receiver
      super.ref();
      this[kState] &= ~UNREF;
    }
    return this;
  }

  unref() {
    if (this instanceof Timeout) {
      super.unref();
      this[kState] |= UNREF;
    }
    return this;
  }

  hasRef() {
    return (this[kState] & UNREF) === 0;
  }

  [Symbol.toPrimitive]() {
    const id = this.asyncId();
    this[kAsked] = true;
    if (!this._destroyed) byNumber.set(`${id}`, this);
    return id;
  }

  // node's own clearTimeout sets this to null if it is set, and does nothing more if _destroyed is then
  // true. So node's clearTimeout also clears these timers.
  get _onTimeout() {
    return this[kCallback];
  }

  set _onTimeout(callback) {
    if (callback === null) this.cancel();
    else this[kCallback] = callback;
  }

  get _destroyed() {
    return this[kCallback] === null || (this[kState] & STATE) === ENDED;
  }

  get _idleTimeout() {
    return this[kCallback] === null ? -1 : this[kMs];
  }

  set _idleTimeout(ms) {
    if (ms < 0) this.cancel();
    else this[kMs] = msOf(ms);
  }
}

// Few timers need these. On the prototype they take no memory in the others.
Object.assign(Timeout.prototype, { [kAgain]: undefined, [kScope]: undefined, [kAsked]: false });

function rearm(timeout, ns) {
  timeout[kState] &= PLAIN | UNREF;
  timeout[kMore] = timeout[kFn] = undefined;
  engine.arm(timeout, ns);
  if (timeout[kAsked]) byNumber.set(`${timeout.asyncId()}`, timeout);
}

// Whole ms, at least 1. `delay * 1` and not Number(delay): a BigInt is a TypeError, as in node.
function msOf(delay) {
  const ms = Math.trunc(delay * 1);
  return ms >= 1 ? ms : 1;
}

function setTimeout(callback, delay, ...args) {
  if (typeof callback !== 'function') return nodeSetTimeout(callback); // throws node's own error
  const ms = msOf(delay);
  engine ??= openEngine();
  const timeout = new Timeout(engine, callback, PLAIN);
  timeout[kMs] = ms;
  if (args.length > 0) timeout[kArgs] = args;
  return engine.arm(timeout, ms * 1e6);
}

function setInterval(callback, delay, ...args) {
  if (typeof callback !== 'function') return nodeSetTimeout(callback);
  const ms = msOf(delay);
  engine ??= openEngine();
  const options = taskOptions({ missed: 'once' }, { periodic: true, periodNs: ms * 1e6 });
  const timeout = engine.submit(callback, ms * 1e6, options, undefined, undefined, Timeout);
  timeout[kMs] = ms;
  if (args.length > 0) timeout[kArgs] = args;
  return timeout;
}

// Clears timeouts and intervals, as on the Web. Anything unknown is passed to node's clearTimeout.
function clearTimeout(timeout) {
  if (timeout instanceof Timeout) {
    timeout.cancel();
    return;
  }
  const known = typeof timeout === 'number' || typeof timeout === 'string'
    ? byNumber.get(`${timeout}`) : undefined;
  if (known !== undefined) known.cancel();
  else nodeClearTimeout(timeout);
}

function clearInterval(timeout) {
  clearTimeout(timeout);
}

Object.defineProperty(setTimeout, promisify.custom, {
  enumerable: true,
  get: () => require('./timers/promises.js').setTimeout,
});

module.exports = { setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate };

for (const name of ['_unrefActive', 'active', 'enroll', 'unenroll']) {
  if (name in node) module.exports[name] = node[name];
}
if ('unenroll' in node) {
  module.exports.unenroll = (item) => (item instanceof Timeout ? clearTimeout : node.unenroll)(item);
}

Object.defineProperty(module.exports, 'promises', {
  configurable: true,
  enumerable: true,
  get: () => require('./timers/promises.js'),
});
