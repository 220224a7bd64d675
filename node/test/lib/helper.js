// SPDX-License-Identifier: MIT
'use strict';

// Functions that several test files use.

const assert = require('node:assert/strict');
const { spawn } = require('node:child_process');
const path = require('node:path');
const { Scheduler } = require('../..');

const root = path.join(__dirname, '..', '..');

// Opens a scheduler, which is closed when the test ends.
function open(t, options) {
  const s = new Scheduler(options);
  t.after(() => s.close());
  return s;
}

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const turn = () => new Promise((resolve) => setImmediate(resolve));

// Blocks the loop.
function hold(ms) {
  const until = performance.now() + ms;
  while (performance.now() < until);
}

// A promise and the function that resolves it.
function gate() {
  let open;
  const promise = new Promise((resolve) => { open = resolve; });
  return { promise, open };
}

async function until(condition, what = 'the condition') {
  const deadline = performance.now() + 20e3;
  while (!condition()) {
    if (performance.now() > deadline) throw new Error(`${what} did not come true`);
    await sleep(1);
  }
}

const ENDS = ['completed', 'failed', 'cancelled', 'timedOut', 'dropped'];
const PLACES = ['waiting', 'ready', 'running'];

// Asserts that stats() is consistent: the sum is right, and no count is negative.
function balanced(s) {
  const stats = s.stats();
  let sum = 0;
  for (const name of [...ENDS, ...PLACES]) {
    assert.ok(stats[name] >= 0, `${name} is ${stats[name]}`);
    sum += stats[name];
  }
  assert.equal(stats.submitted, sum, `submitted = ${stats.submitted}, but ${JSON.stringify(stats)}`);
  return stats;
}

// Asserts some counts of stats(). All others must be zero.
function counts(s, expected) {
  const stats = balanced(s);
  const all = Object.fromEntries([...ENDS, ...PLACES].map((name) => [name, 0]));
  const seen = Object.fromEntries(Object.keys(all).map((name) => [name, stats[name]]));
  assert.deepEqual(seen, { ...all, ...expected });
  return stats;
}

// Collects uncaught exceptions and unhandled rejections until the test ends.
function uncaught(t) {
  const seen = { exceptions: [], rejections: [] };
  const onException = (e) => seen.exceptions.push(e);
  const onRejection = (e) => seen.rejections.push(e);
  const others = process.listeners('uncaughtException');
  const otherRejections = process.listeners('unhandledRejection');
  process.removeAllListeners('uncaughtException');
  process.removeAllListeners('unhandledRejection');
  process.on('uncaughtException', onException);
  process.on('unhandledRejection', onRejection);
  t.after(() => {
    process.off('uncaughtException', onException);
    process.off('unhandledRejection', onRejection);
    others.forEach((listener) => process.on('uncaughtException', listener));
    otherRejections.forEach((listener) => process.on('unhandledRejection', listener));
  });
  return seen;
}

// Runs a program in a process of its own; `uvsched` is the package there.
function program(source, { args = [], esm = false } = {}) {
  const head = esm ? '' : `const uvsched = require(${JSON.stringify(root)});`;
  const mode = esm ? ['--input-type=module'] : [];
  return new Promise((resolve, reject) => {
    const child = spawn(process.execPath, [...mode, ...args, '-e', head + source],
      { cwd: root, stdio: ['ignore', 'pipe', 'pipe'], timeout: 120e3 }); // a program that takes so long hangs
    const out = { stdout: '', stderr: '' };
    child.stdout.on('data', (data) => { out.stdout += data; });
    child.stderr.on('data', (data) => { out.stderr += data; });
    child.on('error', reject);
    child.on('close', (code, signal) => resolve({ code, signal, ...out }));
  });
}

// Runs a program, which must exit with 0 and print `expected`.
async function says(source, expected, options) {
  const end = await program(source, options);
  assert.deepEqual({ ...end, stdout: end.stdout.trim() },
    { code: 0, signal: null, stdout: expected, stderr: '' });
}

// A generator of pseudo-random numbers.
function random(seed) {
  let a = seed >>> 0;
  return () => {
    a = (a + 0x6d2b79f5) >>> 0;
    let x = Math.imul(a ^ (a >>> 15), 1 | a);
    x = (x + Math.imul(x ^ (x >>> 7), 61 | x)) ^ x;
    return ((x ^ (x >>> 14)) >>> 0) / 2 ** 32;
  };
}

module.exports = {
  root, open, sleep, turn, hold, gate, until, balanced, counts, uncaught, program, says, random,
};
