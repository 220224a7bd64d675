// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { EventEmitter, once } = require('node:events');
const { inspect } = require('node:util');
const { open, sleep, hold, gate, until, balanced, counts, uncaught } = require('./lib/helper.js');

const nothing = () => {};

test('a scheduler is an EventEmitter without listeners of its own', async (t) => {
  const s = open(t);
  assert.ok(s instanceof EventEmitter);
  assert.deepEqual(s.eventNames(), []);
  const heard = once(s, 'missed');
  s.every(2, (run) => { if (run.run === 1) hold(10); }, { maxRuns: 2 });
  const [task, count, cause] = await heard;
  assert.equal(typeof count, 'number');
  assert.ok(count >= 1);
  assert.ok(['overlap', 'loop', 'timer', 'budget'].includes(cause), cause); // depends on the load
  assert.equal(task.constructor.name, 'Task');
});

test("a failure whose promise was not read emits 'error' with the error and the task", async (t) => {
  const s = open(t);
  const error = new Error('x');
  const heard = [];
  s.on('error', (...args) => heard.push(args));
  const task = s.execute(() => { throw error; });
  await until(() => heard.length === 1);
  assert.deepEqual(heard[0], [error, task]);
  assert.equal(task.state, 'ended');
});

test("'error' goes to the listeners at the time of the failure", async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const heard = [];
  const listener = (e) => heard.push(e.message);
  const { promise, open: proceed } = gate();
  s.execute(async () => { await promise; throw new Error('a'); });
  await sleep(1);
  s.once('error', listener);
  proceed();
  await until(() => heard.length === 1);
  s.execute(async () => { throw new Error('b'); });
  await until(() => seen.rejections.length === 1);
  s.execute(() => { throw new Error('c'); });
  await until(() => seen.exceptions.length === 1);
  assert.deepEqual(heard, ['a']);
});

test('listeners may cancel, submit, reschedule and read stats, in any state of the task', async (t) => {
  const s = open(t);
  const receipts = [];
  let submitted = 0;
  s.on('error', (e, task) => {
    receipts.push(task.cancel());
    task.reschedule(1);
    task.unref().ref();
    balanced(s);
    s.tasks();
    s.execute(() => { submitted++; });
  });
  s.on('missed', (task) => {
    balanced(s);
    task.cancel();
  });
  s.execute(() => { throw new Error('x'); });
  s.execute(() => { throw new Error('x'); }, { name: 'x' });
  s.execute(async () => { throw new Error('x'); });
  const goesOn = s.every(1, () => { throw new Error('x'); }, { failure: 'continue' });
  const slow = s.every(1, () => hold(6));
  await until(() => submitted === 4 && goesOn.state === 'ended' && slow.state === 'ended');
  assert.deepEqual(receipts.sort(), ['ended', 'ended', 'ended', 'running']);
  assert.equal(goesOn.runs, 1);
  await until(() => s.tasks().length === 0);
  counts(s, { completed: 4, failed: 3, cancelled: 2 });
});

test("a 'missed' event names its cause: 'overlap' or 'retry'", async (t) => {
  const s = open(t);
  const causes = new Map([['overlap', new Set()], ['retry', new Set()]]);
  s.on('missed', (task, count, cause) => causes.get(task.name).add(cause));
  const tasks = [
    s.every('5ms', () => sleep(20), { name: 'overlap' }),
    s.every('20ms', (run) => { if (run.run % 2 === 1) throw new Error('x'); },
      { name: 'retry', failure: 'retry', retry: { wait: '70ms' }, missed: 'skip' }),
  ];
  s.on('error', nothing);
  // On a loaded machine other causes may come first.
  await until(() => [...causes].every(([cause, seen]) => seen.has(cause)), inspect(causes));
  tasks.forEach((task) => task.cancel());
});

test("after a 'missed' listener throws, the task and other tasks still run", async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  s.on('missed', () => { throw new Error('listener'); });
  const task = s.every(2, (run) => { if (run.run === 1) hold(9); }, { maxRuns: 4 });
  let others = 0;
  for (let i = 0; i < 10; i++) s.schedule(i, () => { others++; });
  await task.promise;
  await until(() => others === 10);
  assert.equal(task.runs, 4);
  assert.ok(seen.exceptions.length >= 1);
  assert.ok(seen.exceptions.every((e) => e.message === 'listener'));
});

test('events go only to the listeners of their own scheduler', async (t) => {
  const [a, b] = [open(t), open(t)];
  const heard = [];
  a.on('error', () => heard.push('a'));
  b.on('error', () => heard.push('b'));
  b.execute(() => { throw new Error('x'); }, { limit: '1h' });
  b.execute(() => sleep(8), { limit: 2 });
  await until(() => heard.length === 2);
  assert.deepEqual(heard, ['b', 'b']);
  a.execute(nothing);
});
