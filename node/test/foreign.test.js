// SPDX-License-Identifier: MIT
'use strict';

// Bugs that the test suites of other projects have found. Each test failed before its fix.

const test = require('node:test');
const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const { setMaxListeners } = require('node:events');
const { schedule, AbortError } = require('..');
const { root, open, says, sleep, turn, uncaught, until } = require('./lib/helper.js');
const { setTimeout: wait, setInterval: ticks } = require('../timers/promises.js');

const nothing = () => {};
const timers = JSON.stringify(`${root}/timers`);

// ---- async_hooks ----

// Prints each type of async resource with how many of it were made and destroyed.
const WATCH = `
  const made = {}, types = new Map();
  const count = (type, what) => { made[type] ??= { init: 0, destroy: 0 }; made[type][what]++; };
  require('node:async_hooks').createHook({
    init(id, type) {
      if (type !== 'uvsched.Task' && type !== 'Timeout') return;
      types.set(id, type);
      count(type, 'init');
    },
    destroy(id) { if (types.has(id)) count(types.get(id), 'destroy'); },
  }).enable();
  process.on('exit', () => console.log(JSON.stringify(made)));`;

test('async_hooks: one task is one resource, also the first one of a process', async () => {
  await says(`${WATCH} uvsched.schedule(1, () => {}).promise.then(() => setImmediate(() => {}))`,
    '{"uvsched.Task":{"init":1,"destroy":1}}');
});

test('async_hooks: a hook that is enabled before the package is loaded sees only timers of the user', async () => {
  await says(`${WATCH} const t = require(${timers}); t.setTimeout(() => { setImmediate(() => {}); }, 1)`,
    '{"Timeout":{"init":1,"destroy":1}}');
});

test('async_hooks: the time limit of a run is no resource of its own', async () => {
  await says(`${WATCH} uvsched.execute(async () => {}, { limit: '1h' }).promise.then(() => setImmediate(() => {}))`,
    '{"uvsched.Task":{"init":1,"destroy":1}}');
});

// ---- one AbortSignal for many tasks ----

// Counts the calls that add or remove a listener. Each of them walks through all listeners in node.
function counted() {
  const controller = new AbortController();
  const { signal } = controller;
  const calls = { add: 0, remove: 0 };
  setMaxListeners(0, signal);
  for (const [name, method] of [['add', 'addEventListener'], ['remove', 'removeEventListener']]) {
    signal[method] = function (...args) {
      calls[name]++;
      return AbortSignal.prototype[method].apply(this, args);
    };
  }
  return { controller, signal, calls };
}

test('one signal for many tasks: one listener for all, whether it is raised or the tasks end', async (t) => {
  const s = open(t);
  const aborted = counted();
  const tasks = Array.from({ length: 500 }, () => s.schedule('1h', nothing, { signal: aborted.signal }));
  aborted.controller.abort('enough');
  assert.ok(tasks.every((task) => task.state === 'over'));
  for (const task of tasks) await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'enough');
  assert.ok(aborted.calls.add <= 1 && aborted.calls.remove <= 1, JSON.stringify(aborted.calls));

  const ended = counted();
  await Promise.all(Array.from({ length: 500 }, () => s.schedule(1, nothing, { signal: ended.signal }).promise));
  assert.deepEqual(ended.calls, { add: 1, remove: 1 });
});

test('one signal for many waits of timers/promises: one listener for all', async () => {
  const aborted = counted();
  const waits = Array.from({ length: 500 }, () => wait(1e6, 1, { signal: aborted.signal }));
  const reads = Array.from({ length: 20 }, () => ticks(1e6, 1, { signal: aborted.signal }).next());
  aborted.controller.abort('enough');
  for (const each of [...waits, ...reads]) {
    await assert.rejects(each, (e) => e.name === 'AbortError' && e.cause === 'enough');
  }
  // The rest are those of node's own function, which makes the AbortError.
  assert.ok(aborted.calls.add <= 1 && aborted.calls.remove <= 1, JSON.stringify(aborted.calls));

  const ended = counted();
  await Promise.all(Array.from({ length: 500 }, () => wait(1, 1, { signal: ended.signal })));
  assert.deepEqual(ended.calls, { add: 1, remove: 1 });
});

test('a signal: a task that is ended or made by another one of it, while it is raised', async (t) => {
  const s = open(t);
  const { signal, controller } = counted();
  const seen = [];
  const first = s.execute((run) => new Promise((resolve) => {
    run.signal.addEventListener('abort', () => {
      seen.push(second.cancel('by the first'), s.schedule('1h', nothing, { signal }).state);
      resolve();
    });
  }), { signal });
  const second = s.schedule('1h', nothing, { signal });
  await until(() => first.state === 'running');
  controller.abort();
  assert.deepEqual(seen, ['never-ran', 'over']);
  await assert.rejects(second.promise, (e) => e.cause === 'by the first');
});

// ---- memory of cancelled tasks ----

// What 10^5 of them leave on the heap before the loop has gone on.
async function leaves(make) {
  await says(`
    const s = new uvsched.Scheduler(), lane = s.lane();
    const { setInterval, clearInterval } = require(${timers});
    const { signal } = new AbortController();
    const f = () => {};
    const make = () => { ${make} };
    for (let i = 0; i < 1000; i++) make();
    gc();
    const before = process.memoryUsage().heapUsed;
    for (let i = 0; i < 1e5; i++) make();
    gc();
    const grown = process.memoryUsage().heapUsed - before;
    console.log(grown < 4 * 2 ** 20 ? 'little' : grown);
    process.exit();`, 'little', { args: ['--expose-gc'] });
}

for (const make of [
  'clearInterval(setInterval(f, 100))', 's.every(100, f).cancel()', 's.schedule(100, f, { name: "x" }).cancel()',
  's.at(Date.now() + 1e6, f).cancel()', 'lane.schedule(100, f, { signal }).cancel()',
  's.every(100, f, { ref: false }).cancel("reason")',
]) {
  test(`a cancelled task is let go at once: ${make}`, () => leaves(make));
}

test('a task that was cancelled after it missed points is told of them, and its slot is not given away', async (t) => {
  const s = open(t);
  const seen = [];
  const nobody = () => assert.fail('cancelled');
  s.on('missed', (task) => seen.push(task));
  const victim = s.every(2, nothing, { missed: 'skip', delay: 0 });
  await until(() => victim.runs > 0);
  const later = [];
  for (let i = 0; i < 50; i++) {
    s.execute(() => { victim.cancel(); later.push(s.every('1h', nobody)); });
  }
  const end = performance.now() + 20;
  while (performance.now() < end); // points pass
  await until(() => later.length === 50);
  await turn();
  await turn();
  assert.ok(seen.every((task) => task === victim));
  assert.equal(victim.state, 'over');
});

// ---- errors ----

test('undefined that is thrown or rejected arrives as undefined', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const bad = () => { throw undefined; };
  for (const options of [undefined, { name: 'x' }]) {
    s.execute(bad, options);
    await until(() => seen.exceptions.length === 1);
    assert.equal(seen.exceptions.pop(), undefined);
    s.execute(() => Promise.reject(), options);
    await until(() => seen.rejections.length === 1);
    assert.equal(seen.rejections.pop(), undefined);
    const task = s.execute(bad, options);
    await assert.rejects(task.promise.then(nothing, (e) => { throw [e]; }), (e) => e[0] === undefined);
    const late = s.execute(async () => { throw undefined; }, options);
    s.once('error', nothing);
    await until(() => late.state === 'over');
    await assert.rejects(late.promise.then(nothing, (e) => { throw [e]; }), (e) => e[0] === undefined);
    const read = s.execute(bad, options)[Symbol.asyncIterator]();
    await assert.rejects(read.next().then(nothing, (e) => { throw [e]; }), (e) => e[0] === undefined);
    const lateRead = s.execute(bad, options);
    s.once('error', nothing);
    await until(() => lateRead.state === 'over');
    await assert.rejects(lateRead[Symbol.asyncIterator]().next().then(nothing, (e) => { throw [e]; }),
      (e) => e[0] === undefined);
  }
  const told = [];
  s.on('error', (e) => told.push(e));
  s.every(1, bad, { failure: 'continue', maxFailures: 2 });
  s.execute(bad);
  await until(() => told.length === 3);
  assert.deepEqual(told, [undefined, undefined, undefined]);
  assert.equal(s.stats().failed, 14);
});

// sh: no core file is left.
function aborts(source) {
  const { status, signal } = spawnSync('sh', ['-c', 'ulimit -c 0; exec "$0" "$@"', process.execPath,
    '--abort-on-uncaught-exception', '-e', source], { cwd: root, timeout: 30e3, encoding: 'utf8' });
  return ['SIGABRT', 'SIGILL', 'SIGTRAP'].includes(signal) || [132, 133, 134].includes(status);
}

test('--abort-on-uncaught-exception aborts, unless somebody handles the error', () => {
  const head = `const uvsched = require(${JSON.stringify(root)}); const t = require(${timers}); const bad = () => { throw new Error('x'); };`;
  for (const bad of [
    't.setTimeout(bad, 1)', 't.setInterval(bad, 1)', 'uvsched.schedule(1, bad)', 'uvsched.every(1, bad)',
    'uvsched.execute(() => process.nextTick(bad)); uvsched.execute(() => {})',
  ]) {
    assert.ok(aborts(head + bad), bad);
  }
  for (const fine of [
    'uvsched.schedule(1, bad).promise.catch(() => {})',
    'uvsched.defaultScheduler().on("error", () => {}); uvsched.schedule(1, bad)',
    'process.setUncaughtExceptionCaptureCallback(() => {}); t.setTimeout(bad, 1); uvsched.schedule(1, bad)',
  ]) {
    assert.ok(!aborts(head + fine), fine);
  }
});

// ---- the loop ----

test('to load uvsched and uvsched/timers does not keep the loop', async () => {
  await says(`require(${timers}); require(${timers} + '/promises.js');
    setImmediate(() => console.log('one more turn')).unref();`, '');
});
