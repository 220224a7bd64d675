// SPDX-License-Identifier: MIT
'use strict';

// Checks the options that users give, and writes them to where the native scheduler reads them. Errors
// name the option and its value, and are thrown before anything has happened.

const { inspect, types: { isDate } } = require('node:util');
const { duration, period } = require('./duration.js');
const IO = require('./io.js');

const MISSED = { 'catch-up': 0, once: 1, skip: 2 };
const FAILURE = { stop: 0, continue: 1, retry: 2 };
const PRIORITY = { low: -1, normal: 0, high: 1 };
const KEEP_ALIVE = { auto: 0, always: 1, never: 2 };
const MODE = { rate: 1, delay: 2 };

const NEVER_NS = 9.2e18; // the native part treats a longer duration as "never"; see uvs_node_ns

const ANY = ['name', 'ref', 'signal', 'limit', 'failure', 'retry', 'maxFailures', 'priority'];
const ONCE = new Set([...ANY, 'jitter']);
const EVERY = new Set([...ANY, 'jitter', 'mode', 'delay', 'missed', 'maxBurst', 'maxRuns', 'until']);
const RETRY = new Set(['wait', 'max', 'jitter']);
const OPEN = new Set(['batch', 'budget', 'concurrency', 'keepAlive', 'maxPending', 'precise', 'threads']);

function object(value, name, known) {
  if (value === undefined) return {};
  if (value === null || typeof value !== 'object') {
    throw new TypeError(`${name} must be an object, not ${inspect(value)}`);
  }
  for (const key of Object.keys(value)) {
    if (known.has(key)) continue;
    const option = name === 'options' ? key : `${name}.${key}`;
    throw new TypeError(`unknown option ${inspect(option)}; known are ${[...known].join(', ')}`);
  }
  return value;
}

function choice(value, table, name, fallback) {
  if (value === undefined) return table[fallback];
  if (typeof value !== 'string') throw new TypeError(`${name} must be a string, not ${inspect(value)}`);
  if (!Object.hasOwn(table, value)) {
    throw new RangeError(`${name} must be one of ${Object.keys(table).join(', ')}, not ${inspect(value)}`);
  }
  return table[value];
}

function whole(value, name, least, most, fallback) {
  if (value === undefined) return fallback;
  if (typeof value !== 'number') throw new TypeError(`${name} must be a number, not ${inspect(value)}`);
  if (!Number.isInteger(value) || value < least || value > most) {
    throw new RangeError(`${name} must be a whole number from ${least} to ${most}, not ${inspect(value)}`);
  }
  return value;
}

function bool(value, name, fallback) {
  if (value === undefined) return fallback;
  if (typeof value !== 'boolean') throw new TypeError(`${name} must be true or false, not ${inspect(value)}`);
  return value;
}

function signalOf(value) {
  if (value !== undefined && (value === null || typeof value !== 'object' || !('aborted' in value) ||
      typeof value.addEventListener !== 'function')) {
    throw new TypeError(`signal must be an AbortSignal, not ${inspect(value)}`);
  }
  return value;
}

// Converts a Date, or a duration from now, to ns from now; 0 means no end.
function untilOf(value) {
  if (value === undefined) return 0;
  const ns = isDate(value) ? (value - Date.now()) * 1e6 : duration(value, 'until');
  if (Number.isNaN(ns)) throw new RangeError(`until must not be ${inspect(value)}`);
  return Math.max(1, ns);
}

// Reads the options of a task. `core` is for the native scheduler: numbers that go to io from KIND on.
// The rest is for the Task object.
function taskOptions(given, { periodic, periodNs = 0, wall = false }) {
  const o = object(given, 'options', periodic ? EVERY : ONCE);
  const retry = object(o.retry, 'retry', RETRY);
  const failure = choice(o.failure, FAILURE, 'failure', 'stop');
  if (failure === FAILURE.continue && !periodic) {
    throw new RangeError("failure 'continue' is for periodic tasks; 'retry' is for all");
  }
  if (o.retry !== undefined && failure !== FAILURE.retry) {
    throw new RangeError("retry needs failure: 'retry'");
  }
  const maxFailures = whole(o.maxFailures, 'maxFailures', 1, 0xffffffff, 0);
  if (maxFailures > 0 && failure === FAILURE.stop) {
    throw new RangeError("maxFailures needs failure: 'continue' or 'retry'");
  }
  const mode = periodic ? choice(o.mode, MODE, 'mode', 'rate') : 0;
  if (mode !== MODE.rate && (o.missed !== undefined || o.maxBurst !== undefined)) {
    throw new RangeError("missed and maxBurst are for mode 'rate'");
  }
  const missed = mode === MODE.rate ? choice(o.missed, MISSED, 'missed', 'once') : 0;
  if (o.maxBurst !== undefined && missed !== MISSED['catch-up']) {
    throw new RangeError("maxBurst needs missed: 'catch-up'");
  }
  const jitterNs = o.jitter === undefined ? 0 : duration(o.jitter, 'jitter');
  if (mode === MODE.rate && jitterNs >= Math.min(periodNs, NEVER_NS)) {
    throw new RangeError(`jitter must be less than the period, not ${inspect(o.jitter)}`);
  }
  if (o.name !== undefined && typeof o.name !== 'string') {
    throw new TypeError(`name must be a string, not ${inspect(o.name)}`);
  }
  const waitNs = failure === FAILURE.retry ? period(retry.wait ?? '1s', 'retry.wait') : 0;
  const maxWaitNs = retry.max === undefined ? 0 : period(retry.max, 'retry.max');
  if (maxWaitNs > 0 && maxWaitNs < waitNs) {
    throw new RangeError(`retry.max must not be less than retry.wait, not ${inspect(retry.max)}`);
  }
  const firstNs = o.delay === undefined ? periodNs : duration(o.delay, 'delay');
  const untilNs = untilOf(o.until);
  if (untilNs > 0 && untilNs < firstNs) {
    throw new RangeError(`until must not be before the first run, not ${inspect(o.until)}`);
  }
  return {
    name: o.name ?? '',
    ref: bool(o.ref, 'ref', true),
    signal: signalOf(o.signal),
    limitNs: o.limit === undefined ? 0 : period(o.limit, 'limit'),
    absorbs: failure !== FAILURE.stop,
    maxFailures,
    firstNs,
    core: [
      mode, wall ? 2 : 0, periodNs, missed, whole(o.maxBurst, 'maxBurst', 1, 0xffffffff, 0),
      whole(o.maxRuns, 'maxRuns', 1, 0xffffffff, 0), untilNs, jitterNs, failure,
      maxFailures,
      waitNs, maxWaitNs, whole(retry.jitter, 'retry.jitter', 0, 100, 0), 0,
      choice(o.priority, PRIORITY, 'priority', 'normal'), 0,
    ],
  };
}

// Reads the options of a scheduler. Those of the native scheduler go to io.
function schedulerOptions(given, io) {
  const o = object(given, 'options', OPEN);
  const precise = o.precise === undefined || o.precise === false ? 0
    : o.precise === true ? 50e3 : period(o.precise, 'precise');
  if (precise > 1e6) throw new RangeError(`precise must be at most 1 ms, not ${inspect(o.precise)}`);
  const budgetNs = o.budget === undefined ? 1e6 : period(o.budget, 'budget');
  if (budgetNs < 1e3 || budgetNs > 1e9) {
    throw new RangeError(`budget must be from 1 us to 1 s, not ${inspect(o.budget)}`);
  }
  io[IO.KIND] = whole(o.concurrency, 'concurrency', 0, 1024, -1);
  io[IO.FROM] = whole(o.threads, 'threads', 1, 1024, 0);
  if (io[IO.KIND] === 0 && io[IO.FROM] > 0) {
    throw new RangeError('threads needs a concurrency above 0: with concurrency 0 native tasks run on the loop');
  }
  io[IO.PERIOD] = budgetNs;
  io[IO.MISSED] = precise;
  io[IO.MAX_BURST] = whole(o.maxPending, 'maxPending', 1, 0xffffffff, 0);
  io[IO.MAX_RUNS] = choice(o.keepAlive, KEEP_ALIVE, 'keepAlive', 'auto');
  return { batch: bool(o.batch, 'batch', false), budgetNs, bounded: io[IO.MAX_BURST] > 0 };
}

module.exports = { taskOptions, schedulerOptions, object, whole, bool };
