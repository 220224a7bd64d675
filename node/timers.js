// SPDX-License-Identifier: MIT
'use strict';

// A drop-in for node:timers. setImmediate and clearImmediate are node's own.
//
// What differs from node, on purpose:
// - A delay above 2^31-1 ms is waited for; node makes it 1 ms and warns. Infinity is never.
// - An interval keeps its grid: run n is due n periods after the start (or the last refresh), however
//   long the runs take. Points that passed meanwhile are made up for by one run. Node counts from the
//   start of the last run, and drifts.
// - A delay counts from the call, node's from the time that the loop's turn began: where node can be
//   early, by what the turn has taken up to then, these are not. What is due first goes first.
// - When the functions of one turn have taken a ms, the others that are due wait for the next turn, so
//   that I/O and immediates get their share. Node calls all of them first. A timer whose time has come
//   before the loop heard of it is a turn or two later than node's.
// - An interval that is cleared keeps the loop for one more turn.
// - A Timeout also has what a task of this package has (promise, reschedule, ...).
// - refresh() of an interval in its function counts from that call, not from the start of the run.
// - The number of a Timeout (its primitive) stays the same when it is refreshed after it fired.
// - What async_hooks calls the trigger is executionAsyncId(), also where node has set another one for
//   work of its own (the `lookup` function of net.connect).
// - process.getActiveResourcesInfo() does not list these timers, mock.timers of node:test does not
//   move them, and newer node's warnings for a delay below 0 or NaN are missing.
// - Of node's undocumented fields there are only _onTimeout, _idleTimeout and _destroyed. The deprecated
//   enroll, active and _unrefActive are node's own, where it has them, and do not know these timers.
// Of node 20's own tests these fail for it: test-timers (2^31), -max-duration-warning,
// -timeout-to-interval (_repeat), -immediate-queue, and test-process-getactiveresources-*.

const { AsyncResource } = require('node:async_hooks');
const node = require('node:timers');
const { promisify } = require('node:util');
const binding = require('./lib/binding.js');
const { Engine, NO_FRONT } = require('./lib/engine.js');
const IO = require('./lib/io.js');
const { schedulerOptions, taskOptions } = require('./lib/options.js');
const {
  Task, keepShape, OVER, STATE, PLAIN, UNREF, kFn, kState, kMore, kCall, kEndRun,
} = require('./lib/task.js');

// Not properties of node's modules at the time of a call: somebody may have put ours there.
const { setTimeout: nodeSetTimeout, clearTimeout: nodeClearTimeout, setImmediate, clearImmediate } = node;

const kCallback = Symbol('callback'); // null: cleared
const NONE = [];
const kArgs = Symbol('args');
const kMs = Symbol('ms');
const kAgain = Symbol('again'); // refreshed when due or running: the new deadline
const kScope = Symbol('scope'); // refreshed after it fired: an async resource for its second life
const kAsked = Symbol('asked'); // for its number

// Not the default scheduler's: who shuts that down, or listens to its 'error', means tasks and not
// every timer of the process.
// Opened by the first timer, and not when this file is loaded: a new scheduler keeps the loop alive
// for one turn.
let engine;

function openEngine() {
  const io = new Float64Array(IO.SIZE);
  return new Engine(NO_FRONT, io, schedulerOptions(undefined, io));
}

function nowNs() {
  engine.native.clock();
  return engine.io[IO.NOW];
}

const byNumber = new Map(); // the live ones that were asked for their number; the key is its text

// An error is told of inside its timer's async context, as node does: the handler of
// 'uncaughtException' sees the AsyncLocalStorage stores, and a domain its own errors.
function call() {
  try {
    Reflect.apply(this[kCallback], this, this[kArgs]);
  } catch (error) {
    binding.raise(error);
  }
}

class Timeout extends Task {
  static #kept = undefined; // for its shape, as the engine has one of a Task

  constructor(of, callback, state, type = 'Timeout') {
    super(of, undefined, state, type);
    this[kCallback] = callback;
    this[kArgs] = NONE;
    this[kMs] = 0;
  }

  // What the function returns is not waited for: the rejection of an async one is node's business.
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
    if ((this[kState] & STATE) === OVER) rearm(this, ns);
    else this.reschedule(ns / 1e6);
  }

  // The end, but for a later refresh.
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

  /** Starts anew, also after it fired; not after it was cleared. */
  refresh() {
    if (this[kCallback] === null) return this;
    const ns = this[kMs] * 1e6;
    if ((this[kState] & STATE) === OVER) {
      this[kScope] = new AsyncResource('Timeout', { requireManualDestroy: true });
      rearm(this, ns);
    } else if (!this.reschedule(this[kMs])) {
      this[kAgain] = nowNs() + ns;
    }
    return this;
  }

  // As in node, it stays when the timer is over, for a refresh.
  ref() {
    if (this instanceof Timeout) { // node takes anything
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

  // node's clearTimeout looks at this, sets it to null, and leaves alone what is destroyed then: so
  // it clears ours as well.
  get _onTimeout() {
    return this[kCallback];
  }

  set _onTimeout(callback) {
    if (callback === null) this.cancel();
    else this[kCallback] = callback;
  }

  get _destroyed() {
    return this[kCallback] === null || (this[kState] & STATE) === OVER;
  }

  get _idleTimeout() {
    return this[kCallback] === null ? -1 : this[kMs];
  }

  set _idleTimeout(ms) {
    if (ms < 0) this.cancel();
    else this[kMs] = msOf(ms);
  }
}

// What few have is no room in all.
Object.assign(Timeout.prototype, { [kAgain]: undefined, [kScope]: undefined, [kAsked]: false });

function rearm(timeout, ns) {
  timeout[kState] &= PLAIN | UNREF;
  timeout[kMore] = timeout[kFn] = undefined;
  engine.arm(timeout, ns);
  if (timeout[kAsked]) byNumber.set(`${timeout.asyncId()}`, timeout);
}

// Whole ms, at least 1. Multiplied, not made a Number: a BigInt is a TypeError, as in node.
function msOf(delay) {
  const ms = Math.trunc(delay * 1);
  return ms >= 1 ? ms : 1;
}

function setTimeout(callback, delay, ...args) {
  if (typeof callback !== 'function') return nodeSetTimeout(callback); // throws in node's own words
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

// One for both, as the Web has it. What is not ours may be node's.
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
