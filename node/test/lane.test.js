// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { Lane, AbortError } = require('..');
const { open, sleep, turn, gate, until, counts, balanced } = require('./lib/helper.js');

const nothing = () => {};

test('a lane runs its tasks in order and one at a time, also async functions', async (t) => {
  const s = open(t);
  const lane = s.lane();
  assert.ok(lane instanceof Lane);
  const seen = [];
  let inside = 0;
  const tasks = Array.from({ length: 20 }, (_, i) => lane.execute(async () => {
    assert.equal(++inside, 1);
    if (i % 3 === 0) await sleep(1);
    seen.push(i);
    inside--;
  }));
  await Promise.all(tasks.map((task) => task.promise));
  assert.deepEqual(seen, Array.from({ length: 20 }, (_, i) => i));
});

test('width is the number of tasks that run at once, and 0 means no limit', async (t) => {
  const s = open(t);
  for (const [width, most] of [[1, 1], [3, 3], [0, 10]]) {
    const lane = s.lane({ width });
    const { promise, open: proceed } = gate();
    let inside = 0;
    const tasks = Array.from({ length: 10 }, () => lane.execute(() => { inside++; return promise; }));
    await until(() => inside === most);
    await sleep(4);
    assert.equal(inside, most);
    proceed();
    await Promise.all(tasks.map((task) => task.promise));
    assert.equal(inside, 10);
  }
});

test('a task that never ends does not delay other lanes', async (t) => {
  const s = open(t);
  const lane = s.lane();
  let finish;
  const stuck = lane.execute(() => new Promise((resolve) => { finish = resolve; }));
  const next = lane.execute(() => 'next');
  await s.execute(nothing).promise;
  await s.lane().execute(nothing).promise;
  await until(() => finish !== undefined);
  assert.equal(next.state, 'ready');
  finish();
  assert.equal(await next.promise, 'next');
  await stuck.promise;
});

test('a lane has schedule, every, at and execute', async (t) => {
  const s = open(t);
  const lane = s.lane({ width: 2 });
  const seen = [];
  await Promise.all([
    lane.schedule(2, () => seen.push('schedule')).promise,
    lane.every(2, () => seen.push('every'), { maxRuns: 2 }).promise,
    lane.at(Date.now() + 2, () => seen.push('at')).promise,
    lane.execute(() => seen.push('execute'), { name: 'n' }).promise,
  ]);
  assert.deepEqual(seen.sort(), ['at', 'every', 'every', 'execute', 'schedule']);
});

test('a failed task does not block its lane', async (t) => {
  const s = open(t);
  s.on('error', nothing);
  const lane = s.lane();
  lane.execute(() => { throw new Error('x'); });
  lane.execute(async () => { throw new Error('x'); });
  const limited = lane.execute(() => sleep(8), { limit: 2 });
  assert.equal(await lane.execute(() => 'still here').promise, 'still here');
  await assert.rejects(limited.promise, { name: 'TimeoutError' });
});

test('dispose cancels all tasks, aborts the signal of the current run, and waits for it', async (t) => {
  const s = open(t);
  const lane = s.lane();
  let aborted;
  let ended = false;
  const { promise, open: proceed } = gate();
  const running = lane.execute(async (run) => {
    run.signal.addEventListener('abort', () => { aborted = run.signal.reason.cause; });
    await promise;
    ended = true;
  });
  const waiting = [lane.execute(nothing), lane.schedule('1h', nothing), lane.every(1, nothing)];
  const other = s.schedule('1h', nothing);
  await until(() => running.state === 'running');
  assert.equal(lane.disposed, false);
  const quiet = lane.dispose('gone');
  assert.equal(lane.disposed, true);
  assert.equal(lane.dispose(), quiet);
  assert.equal(aborted, 'gone');
  for (const task of [running, ...waiting]) {
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'gone');
  }
  assert.equal(ended, false);
  proceed();
  await quiet;
  assert.equal(ended, true);
  assert.ok([running, ...waiting].every((task) => task.state === 'ended'));
  assert.equal(other.state, 'waiting');
  assert.throws(() => lane.schedule(1, nothing), { code: 'ECANCELED' });
  assert.throws(() => lane.every(1, nothing), { code: 'ECANCELED' });
  other.cancel();
  counts(s, { cancelled: 5 });
});

test('dispose of an empty lane resolves', async (t) => {
  const s = open(t);
  await s.lane().dispose();
  const lane = s.lane();
  await lane.execute(nothing).promise;
  await lane.dispose();
  await lane.dispose();
});

test('dispose works inside a task of the lane, and in its promise callback', async (t) => {
  const s = open(t);
  const lane = s.lane();
  let quiet;
  let second = false;
  const first = lane.execute(() => { quiet = lane.dispose(); return 'x'; });
  const promise = first.promise.catch((e) => e);
  lane.execute(() => { second = true; });
  await until(() => quiet !== undefined);
  await quiet;
  assert.ok(await promise instanceof AbortError);
  assert.equal(second, false);
  const other = s.lane();
  await other.execute(nothing).promise.then(() => other.dispose());
  balanced(s);
});

test('dispose resolves before, during and after close of the scheduler', async (t) => {
  const s = open(t);
  const [a, b, c] = [s.lane(), s.lane(), s.lane()];
  a.schedule('1h', nothing);
  const early = b.dispose();
  const late = c.execute(() => sleep(3));
  late.promise.catch(nothing);
  await turn();
  const closed = s.close();
  const during = c.dispose();
  await closed;
  await early;
  await during;
  await a.dispose();
  assert.throws(() => s.lane(), { code: 'ESHUTDOWN' });
  assert.throws(() => a.execute(nothing), (e) => ['ESHUTDOWN', 'ECANCELED'].includes(e.code));
});

test('new Lane() throws', () => {
  assert.throws(() => new Lane(), TypeError);
  assert.throws(() => new Lane({}), TypeError);
});

test('Symbol.asyncDispose disposes lanes and closes schedulers', { skip: Symbol.asyncDispose === undefined }, async (t) => {
  const s = open(t);
  const lane = s.lane();
  const task = lane.schedule('1h', nothing);
  await lane[Symbol.asyncDispose]();
  assert.equal(task.state, 'ended');
  await s[Symbol.asyncDispose]();
  assert.throws(() => s.execute(nothing), { code: 'ESHUTDOWN' });
});
