// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { inspect } = require('node:util');
const uvsched = require('..');
const { Scheduler, Task, AbortError, defaultScheduler } = uvsched;
const { open, sleep, turn, hold, until, balanced, counts } = require('./lib/helper.js');

const nothing = () => {};
// In ms. performance.now() and the core read the same clock, but some us apart.
const EARLY = 0.1;

test('no run starts before run.ideal', async (t) => {
  const s = open(t);
  const runs = [];
  for (const delay of [30, 0, 1, 2.5, '7ms', 12_345_678n, '1ms 500us']) {
    for (const options of [undefined, { name: 'with options' }]) {
      const from = performance.now();
      s.schedule(delay, (run) => runs.push({ delay, from, now: performance.now(), ...run }), options);
    }
  }
  await until(() => runs.length === 14, 'all runs');
  const ms = (delay) => (typeof delay === 'bigint' ? Number(delay) / 1e6
    : { '7ms': 7, '1ms 500us': 1.5 }[delay] ?? delay);
  for (const r of runs) {
    assert.ok(r.ideal >= r.from + ms(r.delay) - EARLY, `ideal ${r.ideal}, from ${r.from} + ${r.delay}`);
    assert.ok(r.now >= r.ideal - EARLY, `ran at ${r.now}, ideal ${r.ideal}`);
    assert.ok(r.late >= 0);
    assert.ok(r.now + EARLY >= r.ideal + r.late, `late by ${r.late}, at most ${r.now - r.ideal}`);
    assert.equal(r.run, 1);
    assert.equal(r.missed, 0);
  }
  const order = runs.map((r) => r.ideal);
  assert.deepEqual(order, [...order].sort((a, b) => a - b));
});

test('tasks with equal delays run in the order of submission', async (t) => {
  const s = open(t);
  const seen = [];
  for (let i = 0; i < 200; i++) {
    s.execute(() => seen.push(i), i % 3 === 0 ? { name: 'x' } : undefined);
    if (i % 20 === 0) hold(0.3); // so that the submissions span several ms
  }
  await until(() => seen.length === 200);
  assert.deepEqual(seen, Array.from({ length: 200 }, (_, i) => i));
});

test('a later submission that is due earlier runs earlier', async (t) => {
  const s = open(t);
  const seen = [];
  for (const delay of [200, 50, 150, 100, 0]) s.schedule(delay / 4, (run) => seen.push(run.ideal));
  await until(() => seen.length === 5);
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b)); // the calls may be any time apart
});

test('after a stall, tasks run in the order of their deadlines, not of submission', async (t) => {
  const s = open(t, { budget: '1us' });
  const seen = [];
  for (let i = 0; i < 50; i++) {
    s.schedule((i * 7 % 11) / 3, (run) => seen.push(run.ideal), i % 4 === 0 ? { name: 'x' } : undefined);
  }
  hold(15);
  await until(() => seen.length === 50);
  assert.deepEqual(seen, [...seen].sort((a, b) => a - b));
});

test('the function gets the run as its only argument, and `this` is undefined', async (t) => {
  const s = open(t);
  let self = 'unset';
  const task = s.schedule(1, function (run, ...rest) {
    self = this;
    assert.equal(run.task, task);
    assert.ok(run.signal instanceof AbortSignal);
    assert.equal(run.signal, run.signal);
    assert.equal(run.signal.aborted, false);
    assert.deepEqual(rest, []);
    return 'value';
  });
  assert.equal(await task.promise, 'value');
  assert.equal(self, undefined);
});

test('at() never runs before its instant, and a past instant means now', async (t) => {
  const s = open(t);
  const when = new Date(Date.now() + 25);
  const ideals = [];
  await s.at(new Date(0), (run) => ideals.push(run.ideal)).promise;
  await s.at(when, (run) => {
    ideals.push(run.ideal);
    assert.ok(Date.now() >= when.getTime());
  }).promise;
  await s.at(Date.now() + 3.5, nothing).promise;
  await s.at(BigInt(Date.now()) * 1000000n + 1n, nothing).promise;
  assert.equal(ideals[1], when.getTime());
  assert.ok(ideals[0] < when.getTime());
});

test('the functions of the module use the one default scheduler', async () => {
  assert.equal(defaultScheduler(), defaultScheduler());
  assert.ok(defaultScheduler() instanceof Scheduler);
  const seen = [];
  await Promise.all([
    uvsched.schedule(2, () => seen.push('schedule')).promise,
    uvsched.every(2, () => seen.push('every'), { maxRuns: 1 }).promise,
    uvsched.at(Date.now() + 2, () => seen.push('at')).promise,
    uvsched.execute(() => seen.push('execute')).promise,
  ]);
  assert.deepEqual(seen.sort(), ['at', 'every', 'execute', 'schedule']);
  counts(defaultScheduler(), { completed: 4 });
});

test('state, runs and remaining describe the task', async (t) => {
  const s = open(t);
  const inside = [];
  const task = s.schedule('1h', (run) => { inside.push(run.task.state, run.task.remaining, run.task.runs); });
  assert.ok(task instanceof Task);
  assert.equal(task.state, 'waiting');
  assert.equal(task.runs, 0);
  assert.ok(task.remaining > 0 && task.remaining <= 3600e3);
  assert.equal(task.reschedule(1), true);
  await task.promise;
  assert.deepEqual(inside, ['running', undefined, 1]);
  assert.equal(task.state, 'ended');
  assert.equal(task.runs, 1);
  assert.equal(task.remaining, undefined);
  assert.equal(task.name, '');
  assert.match(inspect(task), /Task \{ state: 'ended' \}/);
  assert.match(inspect(s.schedule(1, nothing, { name: 'n' })), /Task \{ name: 'n', state: 'waiting' \}/);
});

test("a due task that has not started is 'ready': it can be cancelled, but not moved", async (t) => {
  for (const options of [undefined, { name: 'x' }]) {
    const s = open(t);
    const seen = [];
    const first = s.execute(() => {
      const stats = balanced(s);
      assert.equal(stats.running, options === undefined ? 1 : stats.running);
      seen.push(second.state, second.reschedule(5), second.cancel('why'), second.cancel(), second.state);
      assert.equal(balanced(s).cancelled, 1);
    });
    const second = s.execute(() => seen.push('ran'), options);
    const error = await second.promise.catch((e) => e);
    await first.promise;
    await sleep(5);
    assert.deepEqual(seen, ['ready', false, 'cancelled', 'ended', 'ended']);
    assert.ok(error instanceof AbortError);
    assert.equal(error.cause, 'why');
    assert.equal(error.name, 'AbortError');
    assert.equal(error.code, 'ABORT_ERR');
    counts(s, { completed: 1, cancelled: 1 });
  }
});

test("cancel before the run answers 'cancelled', then 'ended', and rejects task.promise at once", async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    let ran = false;
    const task = s.schedule(1, () => { ran = true; }, options);
    const promise = task.promise;
    const reason = new Error('enough');
    assert.equal(task.cancel(reason), 'cancelled');
    assert.equal(task.cancel(), 'ended');
    assert.equal(task.state, 'ended');
    assert.equal(task.remaining, undefined);
    assert.equal(task.reschedule(1), false);
    let settled = false;
    promise.catch(() => { settled = true; });
    await null;
    await null;
    assert.ok(settled);
    await assert.rejects(promise, (e) => e instanceof AbortError && e.cause === reason);
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === reason);
    await sleep(3);
    assert.equal(ran, false);
    assert.equal(task.runs, 0);
  }
  counts(s, { cancelled: 2 });
});

test('task.promise read after cancel rejects with the reason', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    for (const reason of [undefined, 'text', new AbortError('inner')]) {
      const task = s.schedule('1h', nothing, options);
      task.cancel(reason);
      await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === reason);
      await turn();
      await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === reason);
    }
  }
});

test("cancel inside its own run answers 'running', then 'already', and the value is ignored", async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const receipts = [];
    let aborted;
    const task = s.execute((run) => {
      const { signal } = run;
      receipts.push(task.cancel('me'), task.cancel(), task.state);
      aborted = signal.reason;
      balanced(s);
      return 'value';
    }, options);
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'me' && e === aborted);
    assert.deepEqual(receipts, ['running', 'already', 'running']);
    await until(() => task.state === 'ended');
    assert.equal(task.cancel(), 'ended');
    assert.equal(task.runs, 1);
  }
  await sleep(2);
  counts(s, { cancelled: 2 });
});

test("cancel after the end answers 'ended', and the outcome stays", async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.execute(() => 5, options);
    assert.equal(await task.promise, 5);
    await turn();
    assert.equal(task.cancel(), 'ended');
    assert.equal(await task.promise, 5);
    assert.equal(task.reschedule(1), false);
  }
  counts(s, { completed: 2 });
});

test('task.promise may be read at any time, and is always the same object', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.execute(() => 'v', options);
    await until(() => task.state === 'ended');
    assert.equal(task.promise, task.promise);
    assert.equal(await task.promise, 'v');
    let inside;
    const asked = s.execute((run) => { inside = run.task.promise; return 'w'; }, options);
    await until(() => asked.state === 'ended');
    assert.equal(asked.promise, inside);
    assert.equal(await inside, 'w');
  }
});

test('reschedule moves the run earlier or later, any number of times', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    let at = 0;
    const task = s.schedule('1h', () => { at = performance.now(); }, options);
    assert.equal(task.reschedule('2h'), true);
    assert.ok(task.remaining > 3600e3);
    assert.equal(task.reschedule(1), true);
    const from = performance.now();
    assert.equal(task.reschedule(12), true);
    await task.promise;
    assert.ok(at >= from + 12 - EARLY, `${at - from}`);
    assert.equal(task.runs, 1);
    assert.throws(() => task.reschedule('whenever'), /'whenever'/);
  }
  // The same after a loop pass, when the core knows the task.
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.schedule('1h', nothing, options);
    await turn();
    await sleep(2);
    const from = performance.now();
    for (let i = 0; i < 20; i++) assert.equal(task.reschedule(25), true);
    await task.promise;
    assert.ok(performance.now() >= from + 25 - EARLY);
  }
  counts(s, { completed: 4 });
});

test('reschedule(Infinity) stops a task until the next reschedule', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.schedule(1, nothing, options);
    assert.equal(task.reschedule(Infinity), true);
    assert.equal(task.remaining, Infinity);
    await sleep(5);
    assert.equal(task.state, 'waiting');
    assert.equal(task.reschedule(0), true);
    await task.promise;
  }
});

test('after reschedule of an at() task, run.ideal is still a wall-clock time', async (t) => {
  const s = open(t);
  let ideal;
  const task = s.at(Date.now() + 3600e3, (run) => { ideal = run.ideal; });
  const from = Date.now();
  assert.equal(task.reschedule(5), true);
  await task.promise;
  assert.ok(ideal >= from + 4 && ideal <= Date.now() + 1, `${ideal}, from ${from}`);
});

test('a task submitted inside a run starts in a later loop pass, and does not starve the loop', async (t) => {
  const s = open(t);
  let depth = 0;
  let immediates = 0;
  let going = true;
  const onImmediate = () => { immediates++; if (going) setImmediate(onImmediate); };
  setImmediate(onImmediate);
  await new Promise((resolve) => {
    const again = () => { if (++depth === 300) resolve(); else s.execute(again); };
    s.execute(again);
  });
  going = false;
  assert.equal(depth, 300);
  assert.ok(immediates >= 100, `${immediates} immediates`);
});

test('Symbol.dispose cancels the task', { skip: Symbol.dispose === undefined }, (t) => {
  const s = open(t);
  const task = s.schedule('1h', nothing);
  task[Symbol.dispose]();
  assert.equal(task.state, 'ended');
  task[Symbol.dispose]();
  counts(s, { cancelled: 1 });
});

test('generator functions and subclasses of Promise are accepted', async (t) => {
  const s = open(t);
  class Sub extends Promise {}
  const generator = s.execute(function* () { yield 1; });
  assert.equal((await generator.promise).next().value, 1);
  assert.equal(await s.execute(() => Sub.resolve('sub')).promise, 'sub');
  const asyncGenerator = await s.execute(async function* () { yield 2; }).promise;
  assert.equal((await asyncGenerator.next()).value, 2);
});

test('a task beyond maxPending is refused with EAGAIN', async (t) => {
  const s = open(t, { maxPending: 3 });
  const tasks = [1, 2, 3].map(() => s.schedule('1h', nothing));
  assert.throws(() => s.schedule(1, nothing), { code: 'EAGAIN' });
  assert.throws(() => s.every(1, nothing), { code: 'EAGAIN' });
  assert.equal(s.stats().rejected, 2);
  assert.equal(s.tasks().length, 3);
  tasks[0].cancel();
  await turn();
  await s.schedule(1, nothing).promise;
  balanced(s);
});

test('of due tasks, 8 of high priority start for 4 of normal and 1 of low priority', async (t) => {
  const s = open(t);
  const seen = [];
  for (const priority of ['low', 'normal', 'high']) {
    for (let i = 0; i < 20; i++) s.execute(() => seen.push(priority), { priority });
  }
  await until(() => seen.length === 60);
  const count = (priority) => seen.slice(0, 13).filter((each) => each === priority).length;
  assert.deepEqual(['high', 'normal', 'low'].map(count), [8, 4, 1]);
});

test('ref and unref return the task, and hasRef is false after its end', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.schedule(5, nothing, options);
    assert.equal(task.hasRef(), true);
    assert.equal(task.unref(), task);
    assert.equal(task.hasRef(), false);
    assert.equal(task.unref().ref().hasRef(), true);
    await turn();
    assert.equal(task.unref().hasRef(), false);
    assert.equal(task.ref().hasRef(), true);
    await task.promise;
    await turn();
    assert.equal(task.hasRef(), false);
    assert.equal(task.ref(), task);
    assert.equal(task.hasRef(), false);
  }
  assert.equal(s.schedule(1, nothing, { ref: false }).hasRef(), false);
});
