// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { getEventListeners, setMaxListeners } = require('node:events');
const { AbortError } = require('..');
const { open, sleep, turn, until, counts } = require('./lib/helper.js');

const nothing = () => {};
const listeners = (signal) => getEventListeners(signal, 'abort').length;

test('a signal given in cancels the task, with its reason as the cause', async (t) => {
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
    assert.equal(task.state, 'over');
    assert.equal(task.cancel(), 'over');
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === reason);
    await turn();
    await turn();
    assert.equal(listeners(controller.signal), 0);
  }
  counts(s, { cancelled: 4 });
});

test('a signal that was raised before: the task never runs', async (t) => {
  const s = open(t);
  let ran = false;
  const task = s.execute(() => { ran = true; }, { signal: AbortSignal.abort('before') });
  assert.equal(task.state, 'over');
  await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'before');
  await sleep(3);
  assert.equal(ran, false);
  counts(s, { cancelled: 1 });
});

test('a signal given in reaches the one of the run', async (t) => {
  const s = open(t);
  const controller = new AbortController();
  const seen = [];
  const task = s.every(1, (run) => new Promise((resolve) => {
    run.signal.addEventListener('abort', () => { seen.push(run.signal.reason.cause); resolve(); });
  }), { signal: controller.signal });
  await until(() => task.state === 'running');
  controller.abort('outside');
  assert.deepEqual(seen, ['outside']);
  await until(() => task.state === 'over');
  assert.equal(task.runs, 1);
});

test('no listener is left behind, however the task ends', async (t) => {
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
  assert.equal(listeners(signal), 1); // for all of them
  tasks[7].cancel();
  lane.dispose();
  await until(() => tasks.every((task) => task.state === 'over'));
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

test('a thousand tasks on one signal end together', async (t) => {
  const s = open(t);
  const controller = new AbortController();
  setMaxListeners(0, controller.signal);
  const tasks = Array.from({ length: 1000 }, () => s.schedule('1h', nothing, { signal: controller.signal }));
  controller.abort();
  assert.ok(tasks.every((task) => task.state === 'over'));
  await turn();
  await turn();
  assert.equal(listeners(controller.signal), 0);
  counts(s, { cancelled: 1000 });
});

test('the signal of a run is raised by cancel, before or after it was asked for', async (t) => {
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
      await until(() => task.state === 'over');
    }
  }
});

test('shutdownNow and close raise it, too, before or after it was asked for', async (t) => {
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

test('a run that has ended is not disturbed any more', async (t) => {
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

test('an abort listener may do what it likes: cancel, submit, throw, end the scheduler', async (t) => {
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
  assert.deepEqual(seen, ['running', false]);
  await until(() => task.state === 'over' && seen.length === 3);
  assert.deepEqual(seen, ['running', false, 'submitted']);
});
