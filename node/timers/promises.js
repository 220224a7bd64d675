// SPDX-License-Identifier: MIT
'use strict';

// A drop-in for node:timers/promises, on the timers of ../timers.js; what differs is told there.
// setImmediate and scheduler.yield are node's own.
//
// What is wrong or aborted is handed to node's function of the same name: it rejects at once, in its
// own words and with its own AbortError.

const node = require('node:timers/promises');
const timers = require('../timers.js');

const {
  setTimeout: nodeSetTimeout, setInterval: nodeSetInterval, setImmediate, scheduler: nodeScheduler,
} = node;

function isObject(value) {
  return value !== null && typeof value === 'object' && !Array.isArray(value);
}

function isRefused(delay, options) {
  if ((delay !== undefined && typeof delay !== 'number') || !isObject(options)) return true;
  const { signal, ref } = options;
  if (ref !== undefined && typeof ref !== 'boolean') return true;
  return signal !== undefined && (!isObject(signal) || !('aborted' in signal) || signal.aborted);
}

function setTimeout(delay, value, options = {}) {
  if (isRefused(delay, options)) return nodeSetTimeout(delay, value, options);
  const { signal, ref } = options;
  return new Promise((resolve) => {
    const abort = () => {
      timers.clearTimeout(timeout);
      resolve(nodeSetTimeout(delay, value, options));
    };
    const timeout = timers.setTimeout(() => {
      signal?.removeEventListener('abort', abort);
      resolve(value);
    }, delay);
    if (ref === false) timeout.unref();
    signal?.addEventListener('abort', abort, { once: true });
  });
}

// The interval runs from the first next() to the end of the iteration. Who is slow gets every tick,
// one after the other.
async function* setInterval(delay, value, options = {}) {
  if (isRefused(delay, options)) return yield* nodeSetInterval(delay, value, options);
  const { signal, ref } = options;
  let ticks = 0;
  let wake;
  const interval = timers.setInterval(() => {
    ticks++;
    wake?.();
  }, delay);
  if (ref === false) interval.unref();
  const abort = () => {
    timers.clearInterval(interval);
    wake?.();
  };
  signal?.addEventListener('abort', abort, { once: true });
  try {
    for (;;) {
      if (ticks === 0 && !signal?.aborted) {
        await new Promise((resolve) => { wake = resolve; });
        wake = undefined;
      }
      if (ticks === 0) return yield* nodeSetInterval(delay, value, options);
      ticks--;
      yield value;
    }
  } finally {
    timers.clearInterval(interval);
    signal?.removeEventListener('abort', abort);
  }
}

// Its constructor and its yield() are those of node's scheduler.
const scheduler = Object.create(nodeScheduler, {
  wait: {
    configurable: true,
    writable: true,
    value: function wait(delay, options) {
      if (this !== scheduler) return nodeScheduler.wait.call(this, delay, options);
      return setTimeout(delay, undefined, options);
    },
  },
});

module.exports = { setTimeout, setImmediate, setInterval, scheduler };
