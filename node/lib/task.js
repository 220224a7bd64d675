// SPDX-License-Identifier: MIT
'use strict';

// The public class Task, and what happens to a task in a run, at its end and when it is cancelled. The
// core decides when a task runs; engine.js connects the two.
//
// A task is an AsyncResource: its runs see the AsyncLocalStorage stores of the call that made it, and
// async_hooks sees the task. What most tasks never need (a promise, a signal, options) is in a second
// object, More, which is made on demand. So a million waiting tasks need only a million small objects.

const { AsyncResource, executionAsyncId } = require('node:async_hooks');
const { inspect } = require('node:util');
const binding = require('./binding.js');
const { duration } = require('./duration.js');
const { AbortError, TimeoutError, UV_EBUSY, UV_ETIMEDOUT, UV_UNKNOWN } = require('./errors.js');
const { RC, NOW, PLAIN_DUE, SLOT, DELAY, FLAGS, KIND, small } = require('./io.js');
const { unfollow } = require('./signal.js');

// kState: the lowest two bits are the state ...
const WAITING = 0; // or due, but not yet started
const RUNNING = 1;
const ENDED = 2;
const STATE = 3;
// ... and the others are flags.
const PLAIN = 4; // one run, no options; the core forgets the task as soon as it is due
const UNREF = 8;
const CANCELLED = 16; // the outcome is decided
const FAILED = 32; // ended, and kFn is the error
const WALL = 64; // its times are those of the wall clock
const BEGUN = 128; // its function was called

const kEngine = Symbol('engine');
const kFn = Symbol('fn'); // the function; when the task has ended, its value or error
const kSlot = Symbol('slot');
const kState = Symbol('state');
const kMore = Symbol('more');
const kCall = Symbol('call');
const kEndRun = Symbol('end run');
const kReason = Symbol('reason');
const kController = Symbol('controller');
const kTimedOut = Symbol('timed out');

// The trigger id is executionAsyncId(), as documented, but as a small integer; see io.js.
const scope = { requireManualDestroy: true, triggerAsyncId: 0 };

function scopeHere() {
  scope.triggerAsyncId = small(executionAsyncId());
  return scope;
}

const THROWN_UNDEFINED = Symbol('undefined was thrown'); // see wrap

const STREAM_MOST = 1024; // how many runs a stream keeps for a slow reader

// The part of a task that only some tasks need.
class More {
  name = '';
  periodic = false;
  lane = undefined;
  // Options.
  absorbs = false; // the task goes on after a failed run: failure is 'continue' or 'retry'
  maxFailures = 0;
  limitNs = 0;
  // The run in progress, or the last one.
  current = undefined;
  limiter = undefined;
  limitAt = 0; // in ns of the engine's clock
  pending = false; // the function of a one-shot has returned a promise
  ran = 0; // runs that have started
  failures = 0; // consecutive failures
  // The outcome.
  settled = false;
  reported = false; // the last failure was reported when it seemed that the task would go on
  value = undefined;
  error = undefined;
  rejection = false; // the failure was a rejected promise
  deferred = undefined;
  streams = undefined;
  // The user's AbortSignal, while it can cancel the task.
  signal = undefined;
}

// One run, the argument of the user's function. Times are in ms.
class Run {
  constructor(task, ideal, late, run, missed) {
    this.task = task;
    this.ideal = ideal;
    this.late = late;
    this.run = run;
    this.missed = missed;
  }

  // Aborted when the task is cancelled, when the run exceeds its limit, and by shutdownNow and close.
  get signal() {
    if (this[kController] === undefined) {
      this[kController] = new AbortController();
      const more = (this.task[kMore] ??= new More());
      if (more.current === undefined && (this.task[kState] & STATE) === RUNNING) more.current = this;
      if ((this.task[kState] & STATE) === RUNNING) {
        this[kReason] ??= this.task[kState] & CANCELLED ? more.error : this.task[kEngine].raised;
      }
      if (this[kReason] !== undefined) this[kController].abort(this[kReason]);
    }
    return this[kController].signal;
  }
}

function raise(run, reason) {
  if (run === undefined || run[kReason] !== undefined) return;
  run[kReason] = reason;
  run[kController]?.abort(reason);
}

// Iterates over the runs of a task that have succeeded, for `for await`.
class Stream {
  queue = [];
  waiting = [];
  ended = false;
  error = undefined;

  constructor(task) {
    this.task = task;
  }

  push(run) {
    if (this.waiting.length > 0) {
      this.waiting.shift().resolve({ value: run, done: false });
      return;
    }
    this.queue.push(run);
    if (this.queue.length > STREAM_MOST) this.queue.shift();
  }

  end(error) {
    this.ended = true;
    for (const reader of this.waiting.splice(0)) {
      if (error === undefined) reader.resolve({ value: undefined, done: true });
      else reader.reject(unwrap(error));
      error = undefined; // only the first reader gets the error
    }
    this.error = error;
  }

  next() {
    if (this.queue.length > 0) {
      return Promise.resolve({ value: this.queue.shift(), done: false });
    }
    if (this.ended) {
      const error = this.error;
      this.error = undefined;
      if (error !== undefined) return Promise.reject(unwrap(error));
      return Promise.resolve({ value: undefined, done: true });
    }
    return new Promise((resolve, reject) => this.waiting.push({ resolve, reject }));
  }

  // Called when the loop is left. The task goes on.
  return(value) {
    this.task[kMore].streams?.delete(this);
    this.queue = [];
    this.end();
    return Promise.resolve({ value, done: true });
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

// ---- the outcome ----

// The user's AbortSignal can no longer cancel the task.
function dropSignal(task, more) {
  if (more.signal === undefined) return;
  unfollow(more.signal, task);
  more.signal = undefined;
}

// Settles the promise and ends the streams. Returns whether there was one of them.
function settle(task, error, value) {
  const more = task[kMore];
  if (more === undefined || more.settled) return more !== undefined;
  more.settled = true;
  more.error = error;
  more.value = value;
  dropSignal(task, more);
  const asked = more.deferred !== undefined || more.streams?.size > 0;
  if (error === undefined) more.deferred?.resolve(value);
  else more.deferred?.reject(unwrap(error));
  if (more.streams !== undefined) {
    for (const stream of more.streams) stream.end(task[kState] & CANCELLED ? undefined : error);
  }
  return asked;
}

// Reports a failure that ends the task: to the promise or a stream, or else as an unhandled error.
function settleFailed(task, error, rejection) {
  if (!settle(task, error) && !task[kMore]?.reported) complain(task, error, rejection);
}

// Reports an unhandled error in the async context of the task, in which its functions run, too.
function complain(task, error, rejection) {
  task.runInAsyncScope(complainInScope, undefined, task, error, rejection);
}

function complainInScope(task, error, rejection) {
  if (tellListeners(task, error)) return;
  if (rejection) Promise.reject(unwrap(error)); // 'unhandledRejection'
  else binding.raise(unwrap(error)); // 'uncaughtException'
}

// Emits 'error'. Returns false if there are no listeners.
function tellListeners(task, error) {
  const { front } = task[kEngine];
  if (front.listenerCount('error') === 0) return false;
  try {
    front.emit('error', unwrap(error), task);
  } catch (another) {
    binding.raise(another);
  }
  return true;
}

// Reports a failure after which the task goes on.
function tellFailed(task, error) {
  task[kMore].reported = true;
  if (task[kEngine].front.listenerCount('error') > 0) task.runInAsyncScope(tellListeners, undefined, task, error);
}

// Reports what a function throws after it has cancelled its own task. A rejected promise of a
// cancelled task is ignored: it is usually the consequence of the cancel.
function tellLate(task, error, rejection) {
  if (error !== undefined && !rejection && error !== task[kMore].error) complain(task, error, false);
}

// The task has ended. Its slot is free afterwards, and no event names the task again.
function endTask(task, flags, outcome) {
  const s = task[kEngine];
  const more = task[kMore];
  task[kState] = (task[kState] & ~STATE) | ENDED | flags;
  task[kFn] = outcome;
  if (more !== undefined) {
    dropSignal(task, more);
    more.lane?.forget(task);
  }
  if (task[kState] & PLAIN) s.countPlain(task[kState], flags);
  s.giveBack(task[kSlot]);
  task.emitDestroy();
}

// No run is left, and the native part has given the slot back. An AbortError is made only if somebody
// waits for it. If the promise is read later, answer() makes the error.
function endCancelled(task, reason) {
  const error = task[kMore]?.deferred === undefined ? undefined : new AbortError(reason);
  settle(task, error);
  endTask(task, 0, error ?? reason);
  if (task[kEngine].ending) task[kEngine].lookForEnd();
}

// Makes a task that only keeps the shape of its class alive; see the engine. No async hook may see
// it: node refuses a resource with an empty type if any hook is enabled, and then this returns null.
// Without a hook nobody hears of the resource, now or later, because emitDestroy is never called.
function keepShape(TaskType) {
  try {
    const task = new TaskType(undefined, undefined, PLAIN, '');
    task[kState] |= UNREF | ENDED;
    return task;
  } catch {
    return null;
  }
}

// ---- a run ----

const { then } = Promise.prototype;

function isThenable(value) {
  return value !== null && (typeof value === 'object' || typeof value === 'function') &&
    typeof value.then === 'function';
}

function holdLoop(task, held) {
  const { io, native } = task[kEngine];
  io[SLOT] = task[kSlot];
  io[FLAGS] = held ? 1 : 0;
  native.setRef();
}

// While the promise of a one-shot is pending, the task does not keep the process alive, as with node's
// timers. Nothing to do for plain tasks: the core has already forgotten them.
function setPending(task, pending) {
  if (task[kState] & PLAIN || task[kMore].periodic) return;
  task[kMore].pending = pending;
  holdLoop(task, !pending && !(task[kState] & UNREF));
}

// The run ends when the promise settles.
function endLater(task, run, value) {
  const promise = Promise.resolve(value);
  setPending(task, true);
  then.call(promise, // not promise.then, which users can override, and which might call twice
    (v) => task[kEndRun](run, undefined, v, true),
    (e) => task[kEndRun](run, wrap(e), undefined, true));
}

function limitRun(task, run, more) {
  more.limitAt = task[kEngine].io[NOW] + more.limitNs;
  more.limiter = task[kEngine].limit(more.limitNs, () => expire(task, run), !(task[kState] & UNREF));
}

// Starts a run. Closures are made in other functions, because most runs need none.
function begin(task, run) {
  const more = task[kMore];
  task[kState] = (task[kState] & ~STATE) | RUNNING | BEGUN;
  if (more !== undefined) {
    more.current = run;
    more.ran = run.run;
    if (more.limitNs > 0) limitRun(task, run, more);
  }
  let value;
  try {
    value = task[kCall](run);
    if (isThenable(value)) {
      endLater(task, run, value);
      return;
    }
  } catch (error) {
    task[kEndRun](run, wrap(error), undefined, false);
    return;
  }
  task[kEndRun](run, undefined, value, false);
}

// Internally, undefined means that there is no error. So a symbol stands for a thrown undefined.
function wrap(error) {
  return error === undefined ? THROWN_UNDEFINED : error;
}

function unwrap(error) {
  return error === THROWN_UNDEFINED ? undefined : error;
}

// The time limit of a run has passed. Listeners are called in the async context of the task.
function expire(task, run) {
  task.runInAsyncScope(expireInScope, undefined, task, run);
}

function expireInScope(task, run) {
  const more = task[kMore];
  if (more.current !== run || (task[kState] & STATE) !== RUNNING || task[kState] & CANCELLED) return;
  const error = new TimeoutError(`a run took longer than ${more.limitNs / 1e6} ms`);
  more.limiter = undefined;
  run[kTimedOut] = true;
  more.error = error;
  more.failures++;
  const goesOn = lasts(more);
  const told = !goesOn && settle(task, error);
  raise(run, error); // after the task is consistent: this calls user code
  if (goesOn) tellFailed(task, error);
  else if (!told) complain(task, error, false);
}

// At the end of a run: a function that blocked the loop may have exceeded its limit unnoticed.
function checkLimit(task, run) {
  const more = task[kMore];
  if (more.limiter === undefined) return;
  const engine = task[kEngine];
  more.limiter.cancel();
  engine.native.clock();
  if (engine.io[NOW] >= more.limitAt) expire(task, run);
  more.limiter = undefined;
}

// Whether the task goes on after a failure.
function lasts(more) {
  return more.absorbs && (more.maxFailures === 0 || more.failures < more.maxFailures);
}

// Evaluates a run that has ended, for a task with options. Returns the status for the core.
function judge(task, run, error, value, rejection) {
  const more = task[kMore];
  if (task[kState] & CANCELLED) tellLate(task, error, rejection);
  if (run[kTimedOut] || task[kState] & CANCELLED) return 0;
  if (error !== undefined) {
    more.error = error;
    more.rejection = rejection;
    more.reported = false;
    more.failures++;
    if (lasts(more)) tellFailed(task, error);
    return UV_UNKNOWN;
  }
  more.failures = 0;
  more.error = undefined;
  more.value = value;
  if (more.streams !== undefined) for (const stream of more.streams) stream.push(run);
  return 0;
}

// The end of the only run of a plain task.
function endPlain(task, run, error, value, rejection) {
  const more = task[kMore];
  if (task[kState] & CANCELLED) {
    endTask(task, 0, more.error);
    tellLate(task, error, rejection);
  } else if (error === undefined) {
    if (more !== undefined) {
      for (const stream of more.streams ?? []) stream.push(run);
      settle(task, undefined, value);
    }
    endTask(task, 0, value);
  } else {
    endTask(task, FAILED, error);
    settleFailed(task, error, rejection);
  }
}

// ---- tasks ----

class Task extends AsyncResource {
  constructor(engine, fn, state, type = 'uvsched.Task') {
    super(type, scopeHere());
    this[kEngine] = engine;
    this[kFn] = fn;
    this[kSlot] = -1;
    this[kState] = state;
    this[kMore] = undefined;
  }

  [kCall](run) {
    return this.runInAsyncScope(this[kFn], undefined, run);
  }

  [kEndRun](run, error, value, later) {
    const s = this[kEngine];
    if (this[kState] & PLAIN) {
      try {
        endPlain(this, run, error, value, later);
      } finally {
        if (s.ending) s.lookForEnd();
      }
      return;
    }
    let status = UV_UNKNOWN;
    if (later) setPending(this, false);
    try {
      checkLimit(this, run);
      status = judge(this, run, error, value, later);
    } finally { // reporting an error may have thrown
      this[kState] = (this[kState] & ~STATE) | WAITING;
      s.finish(this[kSlot], run[kTimedOut] ? UV_ETIMEDOUT : status);
    }
  }

  /**
   * Cancels the task. The answers are those of uvs_cancel. 'cancelled': no run is in progress, and none
   * will start. 'running': the current run goes on with its signal aborted, and no other run follows.
   * 'already': an earlier call cancelled the task, and its run still goes on. 'ended': the task had ended,
   * or was cancelled before without a run in progress.
   */
  cancel(reason) {
    const state = this[kState];
    const running = (state & STATE) === RUNNING;
    if ((state & STATE) === ENDED) return 'ended';
    if (state & CANCELLED) return running ? 'already' : 'ended';
    if (this[kMore]?.settled) return 'ended'; // by its time limit
    const s = this[kEngine];
    if (running && state & PLAIN) {
      s.plainCancelling++;
    } else {
      const rc = s.cancel(this[kSlot]);
      if (rc === UV_EBUSY) { // plain and due: Engine.run will see that it is cancelled
        s.io[PLAIN_DUE]--;
        s.plainCancelling++;
      } else if (rc < 0) {
        return 'ended';
      } else if (s.io[FLAGS] === 1) {
        this[kState] |= CANCELLED;
        if (state & PLAIN) s.plainCancelling++;
        endCancelled(this, reason);
        return 'cancelled';
      }
    }
    this[kState] |= CANCELLED;
    const more = (this[kMore] ??= new More());
    const error = new AbortError(reason);
    settle(this, error);
    if (!running) return 'cancelled';
    more.limiter?.cancel();
    more.limiter = undefined;
    raise(more.current, error); // last, because this calls user code
    return 'running';
  }

  /**
   * Moves the next run to `delay` from now and returns true. Returns false if the task is due, running
   * or has ended, or if it has no options and the scheduler is shut down.
   */
  reschedule(delay) {
    const ns = duration(delay, 'delay');
    if ((this[kState] & STATE) !== WAITING || this[kState] & CANCELLED) return false;
    const { io, native } = this[kEngine];
    io[SLOT] = this[kSlot];
    io[DELAY] = ns;
    native.reschedule();
    return io[RC] === 0;
  }

  ref() {
    return setRef(this, true);
  }

  unref() {
    return setRef(this, false);
  }

  hasRef() {
    return (this[kState] & UNREF) === 0 && (this[kState] & STATE) !== ENDED;
  }

  /** Settles when the task ends: with the value of the last successful run, or with the error. */
  get promise() {
    const more = (this[kMore] ??= new More());
    if (more.deferred === undefined) {
      const deferred = {};
      deferred.promise = new Promise((resolve, reject) => Object.assign(deferred, { resolve, reject }));
      more.deferred = deferred;
      if ((this[kState] & STATE) === ENDED || more.settled || this[kState] & CANCELLED) answer(this, deferred);
    }
    return more.deferred.promise;
  }

  get name() {
    return this[kMore]?.name ?? '';
  }

  /** 'waiting', 'ready' (due, but not yet started), 'running' or 'ended'. */
  get state() {
    return inquire(this).state;
  }

  /** How many runs have started. */
  get runs() {
    return inquire(this).runs;
  }

  /** ms until the next run: negative if overdue, Infinity for never, undefined if none follows. */
  get remaining() {
    return inquire(this).remaining;
  }

  /** The number of consecutive failures. */
  get failures() {
    return this[kMore]?.failures ?? 0;
  }

  [Symbol.asyncIterator]() {
    const more = (this[kMore] ??= new More());
    const stream = new Stream(this);
    const state = this[kState];
    if ((state & STATE) === ENDED || more.settled || state & CANCELLED) {
      stream.end(state & CANCELLED ? undefined : state & FAILED ? this[kFn] : more.error);
    } else {
      (more.streams ??= new Set()).add(stream);
    }
    return stream;
  }

  [inspect.custom](depth, options) {
    const { state } = inquire(this);
    const name = this.name === '' ? '' : `name: ${inspect(this.name)}, `;
    return `${options.stylize(this.constructor.name, 'special')} { ${name}state: ${inspect(state)} }`;
  }
}

if (Symbol.dispose !== undefined) {
  Object.defineProperty(Task.prototype, Symbol.dispose, {
    value() { this.cancel(); }, writable: true, configurable: true,
  });
}

// The time limit of a run, on an engine that has only time limits. That engine handles it as a plain
// task. async_hooks does not see it, because it is not a task of the user.
class Limiter {
  constructor(engine, fn, state) {
    this[kEngine] = engine;
    this[kFn] = fn;
    this[kSlot] = -1;
    this[kState] = state;
    this[kMore] = undefined;
  }

  runInAsyncScope(fn, self, ...args) {
    return Reflect.apply(fn, self, args);
  }

  emitDestroy() {}
}

for (const name of ['cancel', kCall, kEndRun]) Limiter.prototype[name] = Task.prototype[name];

// Settles a promise that is first read after the end. A cancelled task has its AbortError in more.error,
// or only the reason, in kFn.
function answer(task, deferred) {
  const state = task[kState];
  const more = task[kMore];
  const hasEnded = (state & STATE) === ENDED;
  if (state & CANCELLED) {
    deferred.reject(more.error ?? new AbortError(task[kFn]));
  } else if (hasEnded && !(state & FAILED)) {
    deferred.resolve(task[kFn]);
  } else {
    deferred.reject(unwrap(hasEnded ? task[kFn] : more.error));
  }
}

function setRef(task, ref) {
  const state = task[kState];
  if ((state & STATE) === ENDED) return task;
  task[kState] = ref ? state & ~UNREF : state | UNREF;
  const limiter = task[kMore]?.limiter;
  if (limiter !== undefined) setRef(limiter, ref);
  if (!task[kMore]?.pending) holdLoop(task, ref);
  return task;
}

const STATES = ['waiting', 'waiting', 'ready', 'ready', 'ended']; // by the core's UVS_WAITING ...

// The values of a task's getters. The core knows the state of a task that waits.
function inquire(task) {
  const state = task[kState];
  const runs = task[kMore]?.ran || (state & BEGUN ? 1 : 0);
  const answer = { state: 'ended', runs, remaining: undefined };
  if ((state & STATE) === RUNNING) answer.state = 'running';
  if ((state & STATE) !== WAITING || state & CANCELLED) return answer;
  if (task[kEngine] === undefined) return answer; // an async hook looks at the task in its constructor
  const { io, native } = task[kEngine];
  io[SLOT] = task[kSlot];
  native.info();
  if (io[RC] === 0) {
    answer.state = STATES[io[KIND]];
    if (answer.state !== 'ended') answer.remaining = io[KIND + 1] / 1e6;
  } else if (state & PLAIN) {
    answer.state = 'ready';
  }
  return answer;
}

module.exports = {
  Task, Limiter, Run, More, begin, endTask, keepShape, settle, settleFailed, raise,
  WAITING, RUNNING, ENDED, STATE, PLAIN, UNREF, CANCELLED, FAILED, WALL,
  kEngine, kFn, kSlot, kState, kMore, kCall, kEndRun,
};
