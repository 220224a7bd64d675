// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { EventEmitter, once } = require('node:events');
const { open, sleep, hold, gate, until, balanced, counts, uncaught } = require('./lib/helper.js');

const nothing = () => {};

test('a scheduler is an EventEmitter, with no listeners of its own', async (t) => {
  const s = open(t);
  assert.ok(s instanceof EventEmitter);
  assert.deepEqual(s.eventNames(), []);
  const heard = once(s, 'missed');
  s.every(2, (run) => { if (run.run === 1) hold(10); }, { maxRuns: 2 });
  const [task, count, reason] = await heard;
  assert.equal(typeof count, 'number');
  assert.ok(count >= 1);
  assert.ok(['overlap', 'loop', 'timer', 'budget'].includes(reason), reason); // whatever held it up first
  assert.equal(task.constructor.name, 'Task');
});

test("'error' of each failure that nobody asked for: the error, then the task", async (t) => {
  const s = open(t);
  const error = new Error('x');
  const heard = [];
  s.on('error', (...args) => heard.push(args));
  const task = s.execute(() => { throw error; });
  await until(() => heard.length === 1);
  assert.deepEqual(heard[0], [error, task]);
  assert.equal(task.state, 'over');
});

test("an 'error' listener that came in time hears of it, one that left does not", async (t) => {
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

test('a listener may cancel, submit, move and ask, in any state of the task', async (t) => {
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
  await until(() => submitted === 4 && goesOn.state === 'over' && slow.state === 'over');
  assert.deepEqual(receipts.sort(), ['over', 'over', 'over', 'running']);
  assert.equal(goesOn.runs, 1);
  await until(() => s.tasks().length === 0);
  counts(s, { completed: 4, failed: 3, cancelled: 2 });
});

test("a 'missed' listener that throws breaks nothing", async (t) => {
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

test('events of one scheduler are not heard at another', async (t) => {
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
