// SPDX-License-Identifier: MIT
'use strict';

// A drop-in replacement for node:timers/promises, built on ../timers.js, which lists the differences.
// setImmediate and scheduler.yield are node's own.
//
// Invalid arguments and aborted signals are passed to node's function of the same name. It rejects
// immediately, with node's own error.

const node = require('node:timers/promises');
const { follow, unfollow } = require('../lib/signal.js');
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
    const waiter = signal && {
      cancel() {
        timers.clearTimeout(timeout);
        resolve(nodeSetTimeout(delay, value, options));
      },
    };
    const timeout = timers.setTimeout(() => {
      if (signal) unfollow(signal, waiter);
      resolve(value);
    }, delay);
    if (ref === false) timeout.unref();
    if (signal) follow(signal, waiter);
  });
}

// The interval runs from the first next() to the end of the iteration. A slow reader gets every tick,
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
  const reader = signal && {
    cancel() {
      timers.clearInterval(interval);
      wake?.();
    },
  };
  if (signal) follow(signal, reader);
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
    if (signal) unfollow(signal, reader);
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
