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

// Prints how many async resources of each type were made and destroyed.
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

test('async_hooks: each task is one resource, also the first of a process', async () => {
  await says(`${WATCH} uvsched.schedule(1, () => {}).promise.then(() => setImmediate(() => {}))`,
    '{"uvsched.Task":{"init":1,"destroy":1}}');
});

test("async_hooks: a hook enabled before the package is loaded sees only the user's timers", async () => {
  await says(`${WATCH} const t = require(${timers}); t.setTimeout(() => { setImmediate(() => {}); }, 1)`,
    '{"Timeout":{"init":1,"destroy":1}}');
});

test('async_hooks: the time limit of a run is not a resource', async () => {
  await says(`${WATCH} uvsched.execute(async () => {}, { limit: '1h' }).promise.then(() => setImmediate(() => {}))`,
    '{"uvsched.Task":{"init":1,"destroy":1}}');
});

// ---- one AbortSignal for many tasks ----

// Counts the calls that add or remove a listener. In node, each such call visits all listeners.
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

test('tasks that share an AbortSignal share one listener', async (t) => {
  const s = open(t);
  const aborted = counted();
  const tasks = Array.from({ length: 500 }, () => s.schedule('1h', nothing, { signal: aborted.signal }));
  aborted.controller.abort('enough');
  assert.ok(tasks.every((task) => task.state === 'ended'));
  for (const task of tasks) await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'enough');
  assert.ok(aborted.calls.add <= 1 && aborted.calls.remove <= 1, JSON.stringify(aborted.calls));

  const ended = counted();
  await Promise.all(Array.from({ length: 500 }, () => s.schedule(1, nothing, { signal: ended.signal }).promise));
  assert.deepEqual(ended.calls, { add: 1, remove: 1 });
});

test('waits of timers/promises that share an AbortSignal share one listener', async () => {
  const aborted = counted();
  const waits = Array.from({ length: 500 }, () => wait(1e6, 1, { signal: aborted.signal }));
  const reads = Array.from({ length: 20 }, () => ticks(1e6, 1, { signal: aborted.signal }).next());
  aborted.controller.abort('enough');
  for (const each of [...waits, ...reads]) {
    await assert.rejects(each, (e) => e.name === 'AbortError' && e.cause === 'enough');
  }
  // At most one more call: node's own function, which makes the AbortError, may add and remove a listener.
  assert.ok(aborted.calls.add <= 1 && aborted.calls.remove <= 1, JSON.stringify(aborted.calls));

  const ended = counted();
  await Promise.all(Array.from({ length: 500 }, () => wait(1, 1, { signal: ended.signal })));
  assert.deepEqual(ended.calls, { add: 1, remove: 1 });
});

test('a task may end or create others while their shared signal aborts', async (t) => {
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
  assert.deepEqual(seen, ['cancelled', 'ended']);
  await assert.rejects(second.promise, (e) => e.cause === 'by the first');
});

// ---- memory of cancelled tasks ----

// Makes five bursts of 10^5 tasks, and measures after each burst, before the loop continues, by how much the
// heap and the process have grown.
async function leaves(make) {
  await says(`
    const s = new uvsched.Scheduler(), lane = s.lane();
    const { setInterval, clearInterval } = require(${timers});
    const { signal } = new AbortController();
    const f = () => {};
    const make = () => { ${make} };
    for (let i = 0; i < 1000; i++) make();
    gc();
    const before = process.memoryUsage();
    let heap = 0;
    let all = 0;
    (async () => {
      for (let burst = 0; burst < 5; burst++) {
        for (let i = 0; i < 1e5; i++) make();
        gc();
        const { heapUsed, rss } = process.memoryUsage();
        heap = Math.max(heap, (heapUsed - before.heapUsed) / 2 ** 20);
        all = Math.max(all, (rss - before.rss) / 2 ** 20);
        await new Promise((resolve) => setImmediate(resolve));
      }
      const keepsFreed = /asan/.test(process.env.LD_PRELOAD); // AddressSanitizer does not reuse memory
      console.log(heap < 4 && (all < 64 || keepsFreed) ? 'little' : { heap, all });
      process.exit();
    })();`, 'little', { args: ['--expose-gc', '--max-semi-space-size=2'] });
}

for (const make of [
  'clearInterval(setInterval(f, 100))', 's.every(100, f).cancel()', 's.schedule(100, f, { name: "x" }).cancel()',
  's.at(Date.now() + 1e6, f).cancel()', 'lane.schedule(100, f, { signal }).cancel()',
  's.every(100, f, { ref: false }).cancel("reason")', 's.every(100, f, { maxRuns: 3, failure: "retry" }).cancel()',
]) {
  test(`a cancelled task frees its memory at once: ${make}`, () => leaves(make));
}

test("a 'missed' event of a task that was cancelled meanwhile names that task", async (t) => {
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
  while (performance.now() < end); // so that the task misses periods
  await until(() => later.length === 50);
  await turn();
  await turn();
  assert.ok(seen.every((task) => task === victim));
  assert.equal(victim.state, 'ended');
});

// ---- errors ----

test('a thrown or rejected undefined is reported as undefined', async (t) => {
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
    await until(() => late.state === 'ended');
    await assert.rejects(late.promise.then(nothing, (e) => { throw [e]; }), (e) => e[0] === undefined);
    const read = s.execute(bad, options)[Symbol.asyncIterator]();
    await assert.rejects(read.next().then(nothing, (e) => { throw [e]; }), (e) => e[0] === undefined);
    const lateRead = s.execute(bad, options);
    s.once('error', nothing);
    await until(() => lateRead.state === 'ended');
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

// Runs in a shell that disables core files. Returns whether the process aborted.
function aborts(source) {
  const { status, signal } = spawnSync('sh', ['-c', 'ulimit -c 0; exec "$0" "$@"', process.execPath,
    '--abort-on-uncaught-exception', '-e', source], { cwd: root, timeout: 30e3, encoding: 'utf8' });
  return ['SIGABRT', 'SIGILL', 'SIGTRAP'].includes(signal) || [132, 133, 134].includes(status);
}

test('--abort-on-uncaught-exception aborts, unless the error is handled', () => {
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

test('loading uvsched and uvsched/timers does not keep the loop alive', async () => {
  await says(`require(${timers}); require(${timers} + '/promises.js');
    setImmediate(() => console.log('one more iteration')).unref();`, '');
});

// Before libuv 1.45, immediates run in the same iteration as the timer that made them, in any case.
const oldLibuv = process.versions.uv.split('.')[1] < 45 && 'immediates follow timers in this libuv';

test('a cleared interval does not cause another loop iteration', { skip: oldLibuv }, async () => {
  await says(`const t = require(${timers});
    t.setTimeout(() => setTimeout(() => { // the scheduler has had its first loop pass by now
      t.clearInterval(t.setInterval(() => {}, 1e5));
      setImmediate(() => console.log('one more iteration')).unref();
    }, 20), 1);`, '');
});
