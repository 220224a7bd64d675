// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { AsyncLocalStorage, createHook, executionAsyncId } = require('node:async_hooks');
const { open, sleep, turn, until } = require('./lib/helper.js');

const nothing = () => {};
const store = new AsyncLocalStorage();
const CALLS = [
  ['plain', (s, fn) => s.schedule(1, fn)],
  ['with options', (s, fn) => s.schedule(1, fn, { name: 'x' })],
  ['periodic', (s, fn) => s.every(1, fn, { maxRuns: 2 })],
  ['at', (s, fn) => s.at(Date.now() + 1, fn)],
  ['lane', (s, fn) => s.lane().execute(fn)],
];

test('a run and its async continuations see the AsyncLocalStorage store of the submission', async (t) => {
  const s = open(t);
  for (const [name, call] of CALLS) {
    const seen = [];
    const task = store.run(name, () => call(s, async () => {
      seen.push(store.getStore());
      await sleep(1);
      seen.push(store.getStore());
      process.nextTick(() => seen.push(store.getStore()));
      await null;
      seen.push(store.getStore());
    }));
    await store.run('the one who waits', () => task.promise);
    await turn();
    assert.ok(seen.length >= 4);
    assert.deepEqual(seen, seen.map(() => name));
  }
});

test('tasks of one loop pass each see their own store', async (t) => {
  const s = open(t);
  let right = 0;
  for (let i = 0; i < 500; i++) {
    store.run(i, () => s.execute(async () => {
      const before = store.getStore();
      await null;
      if (before === i && store.getStore() === i) right++;
    }, i % 2 === 0 ? undefined : { name: 'x' }));
  }
  await until(() => s.tasks().length === 0);
  assert.equal(right, 500);
});

test('enterWith in a run does not change the store of the next task', async (t) => {
  const s = open(t);
  const seen = [];
  s.execute(() => { seen.push(store.getStore()); store.enterWith('leak'); seen.push(store.getStore()); });
  s.execute(() => seen.push(store.getStore()));
  await s.every(3, () => seen.push(store.getStore()), { maxRuns: 1 }).promise;
  assert.deepEqual(seen, [undefined, 'leak', undefined, undefined]);
  assert.equal(store.getStore(), undefined);
});

test('retries and abort listeners of a limit run in the async context of the task', async (t) => {
  const s = open(t);
  const seen = [];
  s.on('error', nothing);
  const task = store.run('mine', () => s.schedule(1, async (run) => {
    seen.push(store.getStore());
    run.signal.addEventListener('abort', () => seen.push(store.getStore()));
    await sleep(8);
  }, { limit: 3, failure: 'retry', maxFailures: 2, retry: { wait: 1 } }));
  await task.promise.catch(nothing);
  assert.deepEqual(seen, ['mine', 'mine', 'mine', 'mine']);
});

test('abort listeners run in the async context of the caller of cancel', async (t) => {
  const s = open(t);
  const seen = [];
  const task = store.run('task', () => s.execute((run) => new Promise((resolve) => {
    run.signal.addEventListener('abort', () => { seen.push(store.getStore()); resolve(); });
  })));
  await until(() => task.state === 'running');
  store.run('canceller', () => task.cancel());
  assert.deepEqual(seen, ['canceller']);
});

test('async_hooks sees one init and one destroy per task, and before and after per run', async (t) => {
  const s = open(t);
  const log = new Map();
  const note = (what) => (id) => log.get(id)?.push(what);
  const hook = createHook({
    init(id, type, trigger) { if (type === 'uvsched.Task') log.set(id, [`init by ${trigger}`]); },
    before: note('before'),
    after: note('after'),
    destroy: note('destroy'),
  }).enable();
  t.after(() => hook.disable());
  const ids = [];
  const remember = () => { ids.push(executionAsyncId()); };
  const trigger = executionAsyncId();
  const plain = s.schedule(1, remember);
  const periodic = s.every(1, remember, { maxRuns: 2 });
  const cancelled = s.schedule('1h', remember);
  const failed = s.schedule(1, () => { throw new Error('x'); }, { name: 'x' });
  cancelled.cancel();
  failed.promise.catch(nothing);
  await periodic.promise;
  await sleep(5);
  hook.disable();
  const lives = [plain, periodic, cancelled, failed].map((task) => log.get(task.asyncId()));
  assert.deepEqual(lives, [
    [`init by ${trigger}`, 'before', 'after', 'destroy'],
    [`init by ${trigger}`, 'before', 'after', 'before', 'after', 'destroy'],
    [`init by ${trigger}`, 'destroy'],
    [`init by ${trigger}`, 'before', 'after', 'destroy'],
  ]);
  assert.deepEqual(new Set(ids), new Set([plain.asyncId(), periodic.asyncId()]));
});

test('async_hooks sees the destroy of a refused task', async (t) => {
  const s = open(t);
  let live = 0;
  const ids = new Set();
  const hook = createHook({
    init(id, type) { if (type === 'uvsched.Task') { ids.add(id); live++; } },
    destroy(id) { if (ids.has(id)) live--; },
  }).enable();
  t.after(() => hook.disable());
  await s.shutdown();
  assert.throws(() => s.schedule(1, nothing), { code: 'ESHUTDOWN' });
  assert.throws(() => s.every(1, nothing), { code: 'ESHUTDOWN' });
  await turn();
  await turn();
  assert.equal(ids.size, 2);
  assert.equal(live, 0);
});

test('an async hook may submit tasks in init', async (t) => {
  const s = open(t);
  let nested = 0;
  let ran = 0;
  const hook = createHook({
    init(id, type) {
      if (type === 'uvsched.Task' && nested < 20) {
        nested++;
        s.execute(() => { ran++; }, nested % 2 === 0 ? undefined : { name: 'nested' });
      }
    },
  }).enable();
  t.after(() => hook.disable());
  const outer = s.execute(() => { ran++; });
  await outer.promise;
  await until(() => s.tasks().length === 0);
  assert.equal(ran, 21);
});
