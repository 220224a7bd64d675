// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { getEventListeners, setMaxListeners } = require('node:events');
const { AbortError } = require('..');
const { open, sleep, turn, until, counts } = require('./lib/helper.js');

const nothing = () => {};
const listeners = (signal) => getEventListeners(signal, 'abort').length;

test('aborting the option signal cancels the task, with its reason as the cause', async (t) => {
  const s = open(t);
  for (const call of [
    (signal) => s.schedule('1h', nothing, { signal }), (signal) => s.every('1h', nothing, { signal }),
    (signal) => s.at(Date.now() + 1e6, nothing, { signal }),
    (signal) => s.lane().schedule('1h', nothing, { signal }),
  ]) {
    const controller = new AbortController();
    const task = call(controller.signal);
    assert.equal(listeners(controller.signal), 1);
    const reason = new Error('aborted');
    controller.abort(reason);
    assert.equal(task.state, 'ended');
    assert.equal(task.cancel(), 'ended');
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === reason);
    await turn();
    await turn();
    assert.equal(listeners(controller.signal), 0);
  }
  counts(s, { cancelled: 4 });
});

test('a task whose signal is already aborted never runs', async (t) => {
  const s = open(t);
  let ran = false;
  const task = s.execute(() => { ran = true; }, { signal: AbortSignal.abort('before') });
  assert.equal(task.state, 'ended');
  await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'before');
  await sleep(3);
  assert.equal(ran, false);
  counts(s, { cancelled: 1 });
});

test('aborting the option signal aborts run.signal', async (t) => {
  const s = open(t);
  const controller = new AbortController();
  const seen = [];
  const task = s.every(1, (run) => new Promise((resolve) => {
    run.signal.addEventListener('abort', () => { seen.push(run.signal.reason.cause); resolve(); });
  }), { signal: controller.signal });
  await until(() => task.state === 'running');
  controller.abort('outside');
  assert.deepEqual(seen, ['outside']);
  await until(() => task.state === 'ended');
  assert.equal(task.runs, 1);
});

test('no abort listener is left, however the task ends', async (t) => {
  const s = open(t);
  s.on('error', nothing);
  const controller = new AbortController();
  const { signal } = controller;
  const lane = s.lane();
  const tasks = [
    s.execute(nothing, { signal }),
    s.execute(async () => sleep(2), { signal }),
    s.execute(() => { throw new Error('x'); }, { signal }),
    s.execute(async () => { throw new Error('x'); }, { signal }),
    s.execute(() => sleep(8), { signal, limit: 2 }),
    s.every(1, nothing, { signal, maxRuns: 3 }),
    s.every(1, () => { throw new Error('x'); }, { signal, failure: 'continue', maxFailures: 2 }),
    s.schedule('1h', nothing, { signal }),
    s.every(1, (run) => run.task.cancel(), { signal }),
    lane.schedule('1h', nothing, { signal }),
  ];
  assert.equal(listeners(signal), 1); // one listener for all tasks
  tasks[7].cancel();
  lane.dispose();
  await until(() => tasks.every((task) => task.state === 'ended'));
  await turn();
  await turn();
  assert.equal(listeners(signal), 0);
  assert.throws(() => s.execute(nothing, { signal, name: 7 }));
  assert.throws(() => s.every(5, nothing, { signal, jitter: 6 }));
  assert.equal(listeners(signal), 0);
  const last = [s.schedule('1h', nothing, { signal }), s.every('1h', nothing, { signal })];
  assert.equal(listeners(signal), 1);
  for (const task of last) task.promise.catch(nothing);
  await s.close();
  assert.equal(listeners(signal), 0);
  assert.throws(() => s.execute(nothing, { signal }), { code: 'ESHUTDOWN' });
  assert.equal(listeners(signal), 0);
});

test('aborting one signal ends its thousand tasks at once', async (t) => {
  const s = open(t);
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  const tasks = Array.from({ length: 1000 }, () => s.schedule('1h', nothing, { signal: controller.signal }));
  controller.abort();
  assert.ok(tasks.every((task) => task.state === 'ended'));
  await turn();
  await turn();
  assert.equal(listeners(controller.signal), 0);
  counts(s, { cancelled: 1000 });
});

test('cancel aborts run.signal, whether it was read before or is read later', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    for (const early of [true, false]) {
      let proceed;
      let run;
      const task = s.execute(async (r) => {
        run = r;
        if (early) assert.equal(r.signal.aborted, false);
        await new Promise((resolve) => { proceed = resolve; });
      }, options);
      await until(() => proceed !== undefined);
      assert.equal(task.cancel('why'), 'running');
      assert.equal(run.signal.aborted, true);
      assert.ok(run.signal.reason instanceof AbortError);
      assert.equal(run.signal.reason.cause, 'why');
      await assert.rejects(task.promise, (e) => e === run.signal.reason);
      proceed();
      await until(() => task.state === 'ended');
    }
  }
});

test('shutdownNow and close abort run.signal, whether it was read before or is read later', async (t) => {
  for (const end of ['shutdownNow', 'close']) {
    for (const options of [undefined, { name: 'x' }]) {
      for (const early of [true, false]) {
        const s = open(t);
        let proceed;
        let run;
        const task = s.execute(async (r) => {
          run = r;
          if (early) assert.equal(r.signal.aborted, false);
          await new Promise((resolve) => { proceed = resolve; });
          return 'its own';
        }, options);
        await until(() => proceed !== undefined);
        const over = s[end]();
        assert.equal(run.signal.aborted, true);
        assert.ok(run.signal.reason instanceof AbortError);
        proceed();
        await over;
        assert.equal(await task.promise, 'its own');
      }
    }
  }
});

test('cancel after the end does not abort run.signal', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    let run;
    let early;
    const task = s.execute((r) => { run = r; early = options && r.signal; }, options);
    await task.promise;
    await turn();
    task.cancel();
    assert.equal(run.signal.aborted, false);
    assert.equal(early?.aborted ?? false, false);
  }
});

test('an abort listener may cancel, reschedule, submit and close the scheduler', async (t) => {
  const s = open(t);
  const controller = new AbortController();
  const seen = [];
  const task = s.every(1, (run) => new Promise((resolve) => {
    run.signal.addEventListener('abort', () => {
      seen.push(run.task.cancel(), run.task.reschedule(1));
      s.execute(() => seen.push('submitted')).promise.then(() => s.close());
      resolve();
    });
  }), { signal: controller.signal });
  await until(() => task.state === 'running');
  controller.abort();
  assert.deepEqual(seen, ['already', false]);
  await until(() => task.state === 'ended' && seen.length === 3);
  assert.deepEqual(seen, ['already', false, 'submitted']);
});
