// SPDX-License-Identifier: MIT
'use strict';

// What reviews have found; each of these was red once.

const test = require('node:test');
const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { Scheduler } = require('..');
const { root, open, sleep, turn, hold, until, says, uncaught } = require('./lib/helper.js');

const nothing = () => {};

test('who hears of an error sees the store of the task, and the first store is not kept', async () => {
  await says(`
    const { AsyncLocalStorage } = require('node:async_hooks');
    const als = new AsyncLocalStorage();
    const { schedule, defaultScheduler } = uvsched;
    const seen = [];
    process.on('uncaughtException', () => seen.push(als.getStore()?.id));
    let first = { id: 1 };
    const ref = new WeakRef(first);
    als.run(first, () => schedule(1, () => {}));
    first = undefined;
    als.run({ id: 2 }, () => schedule(2, () => { throw new Error('x'); }));
    als.run({ id: 3 }, () => schedule(3, () => { throw new Error('x'); }, { name: 'x' }));
    setTimeout(() => {
      defaultScheduler().on('error', () => seen.push(als.getStore()?.id));
      als.run({ id: 4 }, () => schedule(1, () => { throw new Error('x'); }));
      setTimeout(() => { gc(); console.log(seen.sort().join(), ref.deref()); }, 20);
    }, 20);`, '2,3,4 undefined', { args: ['--expose-gc'] });
});

test('what a function throws after it cancelled its task is an error all the same', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.schedule(1, () => { task.cancel(); throw new Error('mine'); }, options);
    await until(() => task.state === 'over');
    await turn(); // it is told after that
  }
  assert.deepEqual(seen.exceptions.map((e) => e.message), ['mine', 'mine']);
});

test('all runs are counted', async (t) => {
  const s = open(t);
  s.on('error', nothing);
  for (let i = 0; i < 20; i++) s.execute(() => { if (i % 2) throw new Error('x'); }, i % 4 ? undefined : { name: 'x' });
  await until(() => s.stats().waiting + s.stats().ready === 0 && s.tasks().length === 0);
  const { runs, failedRuns, late } = s.stats();
  assert.deepEqual({ runs, failedRuns, late: late.count }, { runs: 20, failedRuns: 10, late: 20 });
});

test('one of high priority overtakes, and leaves the others in their order', async (t) => {
  for (let round = 0; round < 5; round++) {
    const s = open(t, { budget: '1s' });
    await new Promise((resolve) => s.execute(resolve));
    const seen = [];
    for (let i = 0; i < 30; i++) s.schedule(2 + i / 10, () => seen.push(i));
    s.schedule(4.95, () => seen.push('high'), { priority: 'high' });
    hold(8);
    await until(() => seen.length === 31);
    assert.deepEqual(seen.filter((each) => each !== 'high'), Array.from({ length: 30 }, (_, i) => i));
  }
});

test('before the first turn of the core the order is that of the deadlines, too', async () => {
  for (let round = 0; round < 20; round++) {
    const s = new Scheduler();
    const seen = [];
    const note = ({ ideal }) => seen.push(ideal);
    s.schedule(4, note);
    s.schedule(2, note, { name: 'x' });
    s.execute(note); // between the calls may be any time, so the names would not tell
    hold(round / 4);
    await until(() => seen.length === 3);
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
    await s.close(); // resolved in the idle phase of the loop, so the next one begins there
  }
});

test('a signal forgets a task that was cancelled at once', async (t) => {
  const s = open(t);
  const { signal } = new AbortController();
  for (let i = 0; i < 5; i++) s.schedule(1000, nothing, { signal }).cancel();
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('an error listener that throws hears of a limit once', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const heard = [];
  s.on('error', (e) => { heard.push(e.name); throw new Error('of the listener'); });
  const task = s.execute(() => sleep(20), { limit: 2 });
  await until(() => task.state === 'over' && heard.length > 0); // it is told after that
  await turn();
  assert.deepEqual(heard, ['TimeoutError']);
  assert.deepEqual(seen.exceptions.map((e) => e.message), ['of the listener']);
});

test('a promise that never settles keeps no process, but its limit and its period do', async () => {
  const never = '() => new Promise(() => {})';
  await says(`uvsched.schedule(1, ${never})`, '');
  await says(`uvsched.schedule(1, ${never}, { name: 'x' })`, '');
  await says(`uvsched.schedule(1, ${never}, { limit: 5 }).promise.catch((e) => console.log(e.name))`, 'TimeoutError');
  await says(`const t = uvsched.every(1, ${never}); setTimeout(() => { console.log('still'); process.exit(); }, 50).unref();`,
    'still');
});

test('unref and ref in a run with a limit reach the limit, too', async () => {
  const never = 'await new Promise(() => {});';
  await says(`const t = uvsched.execute(async () => { t.unref(); ${never} }, { limit: '1h' })`, '');
  await says(`const t = uvsched.every(1, async () => { setTimeout(() => t.unref(), 5); ${never} }, { limit: '1h' })`, '');
  await says(`const t = uvsched.execute(async () => { t.ref(); ${never} }, { limit: 20, ref: false });
    setTimeout(() => {}, 10); t.promise.catch((e) => console.log(e.name))`, 'TimeoutError');
});

test('ref of a one-shot whose promise is pending counts for what comes after', async () => {
  await says(`const t = uvsched.execute(async () => { await 1; t.ref(); await new Promise(() => {}); }, { name: 'x' })`, '');
  await says(`let n = 0; const t = uvsched.execute(async () => {
      await 1; t.unref(); t.ref();
      if (++n < 3) throw new Error('again');
      console.log(n);
    }, { failure: 'retry', retry: { wait: 5 }, maxFailures: 5 })`, '3');
});

test('a promise that cannot be looked at is a failure, after which a retry holds the loop', async () => {
  await says(`let n = 0; uvsched.execute(() => {
      if (++n > 1) return console.log('again');
      return Object.defineProperty(Promise.resolve(), 'constructor', { get() { throw new Error('a trap'); } });
    }, { failure: 'retry', retry: { wait: 5 } })`, 'again');
});

test('an async hook may look at a task while it is made; each has its end', async () => {
  await says(`const { inspect } = require('node:util');
    const live = new Map();
    require('node:async_hooks').createHook({
      init(id, type, trigger, resource) {
        if (type !== 'uvsched.Task' && type !== 'Timeout') return;
        inspect(resource);
        live.set(id, resource);
      },
      destroy(id) { live.delete(id); },
    }).enable();
    const timers = require(${JSON.stringify(`${root}/timers`)});
    const over = [uvsched.schedule(1, () => {}).promise, new Promise((resolve) => timers.setTimeout(resolve, 1))];
    Promise.all(over).then(() => setImmediate(() => setImmediate(() => console.log(live.size))))`, '0');
});

test('nothing keeps the store of who loads the package, or schedules first', async () => {
  await says(`require('node:timers'); // node 18 keeps the store in which it loads a module of its own
    const { AsyncLocalStorage } = require('node:async_hooks');
    const storage = new AsyncLocalStorage();
    let gone = 0;
    const registry = new FinalizationRegistry(() => { gone++; });
    for (const what of [() => uvsched.schedule(1, () => {}),
      () => require(${JSON.stringify(`${root}/timers`)}).setTimeout(() => {}, 1)]) {
      const store = {};
      registry.register(store);
      storage.run(store, what);
    }
    let looks = 0;
    const look = setInterval(() => {
      gc();
      if (gone < 2 && ++looks < 500) return;
      console.log(gone);
      clearInterval(look);
    }, 5)`, '2', { args: ['--expose-gc'] });
});
