// SPDX-License-Identifier: MIT
'use strict';

// Bugs that reviews have found. Each test failed before its fix.

const test = require('node:test');
const assert = require('node:assert/strict');
const { getEventListeners } = require('node:events');
const { Scheduler } = require('..');
const { root, open, sleep, turn, hold, until, says, uncaught } = require('./lib/helper.js');

const nothing = () => {};

test("error listeners see the task's AsyncLocalStorage store", async () => {
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
      let looks = 0;
      const look = setInterval(() => {
        gc();
        if ((seen.length < 3 || ref.deref() !== undefined) && ++looks < 500) return;
        console.log(seen.sort().join(), ref.deref());
        clearInterval(look);
      }, 5);
    }, 20);`, '2,3,4 undefined', { args: ['--expose-gc'] });
});

test('an error thrown after a function cancelled its own task is reported', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.schedule(1, () => { task.cancel(); throw new Error('mine'); }, options);
    await until(() => task.state === 'ended');
    await turn(); // the error is reported after the end
  }
  assert.deepEqual(seen.exceptions.map((e) => e.message), ['mine', 'mine']);
});

test('stats() counts all runs, plain or with options', async (t) => {
  const s = open(t);
  s.on('error', nothing);
  for (let i = 0; i < 20; i++) s.execute(() => { if (i % 2) throw new Error('x'); }, i % 4 ? undefined : { name: 'x' });
  await until(() => s.stats().waiting + s.stats().ready === 0 && s.tasks().length === 0);
  const { runs, failedRuns, late } = s.stats();
  assert.deepEqual({ runs, failedRuns, late: late.count }, { runs: 20, failedRuns: 10, late: 20 });
});

test('a task of high priority does not change the order of the others', async (t) => {
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

test("tasks run in the order of their deadlines before the scheduler's first loop pass, too", async () => {
  for (let round = 0; round < 20; round++) {
    const s = new Scheduler();
    const seen = [];
    const note = ({ ideal }) => seen.push(ideal);
    s.schedule(4, note);
    s.schedule(2, note, { name: 'x' });
    s.execute(note); // compare run.ideal: the calls may be any time apart
    hold(round / 4);
    await until(() => seen.length === 3);
    assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
    await s.close(); // resolves in the loop's idle phase, so the next round starts there
  }
});

test("cancel removes the task's listener from its signal at once", async (t) => {
  const s = open(t);
  const { signal } = new AbortController();
  for (let i = 0; i < 5; i++) s.schedule(1000, nothing, { signal }).cancel();
  assert.equal(getEventListeners(signal, 'abort').length, 0);
});

test('an error listener that throws is called once per time-out', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const heard = [];
  s.on('error', (e) => { heard.push(e.name); throw new Error('of the listener'); });
  const task = s.execute(() => sleep(20), { limit: 2 });
  await until(() => task.state === 'ended' && heard.length > 0); // 'error' is emitted after the end
  await turn();
  assert.deepEqual(heard, ['TimeoutError']);
  assert.deepEqual(seen.exceptions.map((e) => e.message), ['of the listener']);
});

test('a pending promise does not keep the process alive, but its limit and its period do', async () => {
  const never = '() => new Promise(() => {})';
  await says(`uvsched.schedule(1, ${never})`, '');
  await says(`uvsched.schedule(1, ${never}, { name: 'x' })`, '');
  await says(`uvsched.schedule(1, ${never}, { limit: 5 }).promise.catch((e) => console.log(e.name))`, 'TimeoutError');
  await says(`const t = uvsched.every(1, ${never}); setTimeout(() => { console.log('still'); process.exit(); }, 50).unref();`,
    'still');
});

test('unref and ref in a run apply to its time limit', async () => {
  const never = 'await new Promise(() => {});';
  await says(`const t = uvsched.execute(async () => { t.unref(); ${never} }, { limit: '1h' })`, '');
  await says(`const t = uvsched.every(1, async () => { setTimeout(() => t.unref(), 5); ${never} }, { limit: '1h' })`, '');
  await says(`const t = uvsched.execute(async () => { t.ref(); ${never} }, { limit: 20, ref: false });
    setTimeout(() => {}, 10); t.promise.catch((e) => console.log(e.name))`, 'TimeoutError');
});

test('ref of a one-shot with a pending promise applies to its next attempt', async () => {
  await says(`const t = uvsched.execute(async () => { await 1; t.ref(); await new Promise(() => {}); }, { name: 'x' })`, '');
  await says(`let n = 0; const t = uvsched.execute(async () => {
      await 1; t.unref(); t.ref();
      if (++n < 3) throw new Error('again');
      console.log(n);
    }, { failure: 'retry', retry: { wait: 5 }, maxFailures: 5 })`, '3');
});

test('a promise whose constructor throws fails the run, and the retry keeps the process alive', async () => {
  await says(`let n = 0; uvsched.execute(() => {
      if (++n > 1) return console.log('again');
      return Object.defineProperty(Promise.resolve(), 'constructor', { get() { throw new Error('a trap'); } });
    }, { failure: 'retry', retry: { wait: 5 } })`, 'again');
});

test('an async hook may inspect a task in init, and each task is destroyed once', async () => {
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
    const ended = [uvsched.schedule(1, () => {}).promise, new Promise((resolve) => timers.setTimeout(resolve, 1))];
    Promise.all(ended).then(() => setImmediate(() => setImmediate(() => console.log(live.size))))`, '0');
});

test("loading the package does not retain the caller's store", async () => {
  await says(`require('node:timers'); // node 18 retains the store in which it loads one of its own modules
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
