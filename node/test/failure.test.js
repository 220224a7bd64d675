// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { AbortError, TimeoutError } = require('..');
const {
  open, sleep, turn, hold, gate, until, balanced, counts, uncaught, program, says,
} = require('./lib/helper.js');

const KINDS = [undefined, { name: 'with options' }];
const nothing = () => {};

// The three ways to fail.
const failing = (error) => [
  () => { throw error; },
  async () => { throw error; },
  async () => { await sleep(2); throw error; },
];

test('a failure goes only to task.promise if it was read', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const errors = [];
  s.on('error', (e) => errors.push(e));
  const error = new Error('mine');
  for (const options of KINDS) {
    for (const fn of failing(error)) await assert.rejects(s.execute(fn, options).promise, (e) => e === error);
  }
  for (const fn of failing(error)) await assert.rejects(s.every(1, fn).promise, (e) => e === error);
  await turn();
  assert.deepEqual(errors, []);
  assert.deepEqual(seen, { exceptions: [], rejections: [] });
  counts(s, { failed: 9 });
  assert.equal(s.stats().failedRuns, 9);
});

test("a failure goes to 'error' listeners if task.promise was not read", async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const errors = [];
  s.on('error', (e, task) => errors.push([e, task]));
  const error = new Error('yours');
  const tasks = [];
  for (const options of KINDS) for (const fn of failing(error)) tasks.push(s.execute(fn, options));
  for (const fn of failing(error)) tasks.push(s.every(1, fn));
  await until(() => errors.length >= 9);
  await turn();
  assert.equal(errors.length, 9);
  assert.deepEqual(new Set(errors.map(([, task]) => task)), new Set(tasks));
  assert.ok(errors.every(([e]) => e === error));
  assert.deepEqual(seen, { exceptions: [], rejections: [] });
  await until(() => s.tasks().length === 0);
  counts(s, { failed: 9 });
});

test("without promise and listeners, a throw is an 'uncaughtException', a rejection an 'unhandledRejection'", async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const error = new Error('nobody\'s');
  for (const options of KINDS) for (const fn of failing(error)) s.execute(fn, options);
  for (const fn of failing(error)) s.every(1, fn);
  await until(() => seen.exceptions.length === 3 && seen.rejections.length === 6);
  await sleep(2);
  assert.deepEqual(seen.exceptions, Array(3).fill(error));
  assert.deepEqual(seen.rejections, Array(6).fill(error));
  counts(s, { failed: 9 });
});

test('an unhandled failure ends the process with code 1 and prints the error', async () => {
  for (const [fn, text] of [
    ['() => { throw new Error("sync one") }', 'sync one'],
    ['async () => { throw new Error("async one") }', 'async one'],
  ]) {
    for (const call of [`schedule(1, ${fn})`, `every(1, ${fn})`, `schedule(1, ${fn}, { name: "n" })`]) {
      const end = await program(`uvsched.${call}; uvsched.schedule(200, () => console.log("still here"))`);
      assert.equal(end.code, 1, `${call}: ${JSON.stringify(end)}`);
      assert.match(end.stderr, new RegExp(text));
      assert.equal(end.stdout, '');
    }
  }
});

test('after a function throws, the other due tasks still run', async (t) => {
  const seen = uncaught(t);
  for (const budget of ['1us', '1ms', '1s']) {
    for (const batch of [false, true]) {
      const s = open(t, { budget, batch });
      let ran = 0;
      seen.exceptions.length = 0;
      const N = 300;
      for (let i = 0; i < N; i++) {
        const fn = () => { ran++; if (i % 3 === 0) throw new Error(`number ${i}`); };
        s.execute(fn, i % 2 === 0 ? undefined : { name: 'x' });
      }
      await until(() => ran === N && seen.exceptions.length === N / 3);
      await until(() => s.tasks().length === 0);
      counts(s, { completed: N * 2 / 3, failed: N / 3 });
    }
  }
  assert.deepEqual(seen.rejections, []);
});

test('after a nextTick callback or a microtask throws, the other due tasks still run', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  let ran = 0;
  for (let i = 0; i < 30; i++) {
    s.execute(() => {
      ran++;
      if (i % 3 === 0) process.nextTick(() => { throw new Error('tick'); });
      if (i % 3 === 1) queueMicrotask(() => { throw new Error('micro'); });
    });
  }
  await until(() => ran === 30 && seen.exceptions.length === 20);
  counts(s, { completed: 30 });
});

test('thrown values of any type are reported unchanged', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const errors = [];
  const things = [null, 0, '', false, NaN, 'text', Symbol.iterator, { plain: 'object' }];
  for (const thing of things) {
    for (const call of [
      (fn) => s.execute(fn), (fn) => s.execute(fn, { name: 'x' }), (fn) => s.every(1, fn),
      (fn) => s.execute(fn, { failure: 'retry', maxFailures: 1 }),
    ]) {
      for (const fn of failing(thing)) {
        const end = await call(fn).promise.then(() => assert.fail('it failed'), (e) => e);
        assert.ok(Object.is(end, thing), `${String(thing)} became ${String(end)}`);
      }
      s.once('error', (e) => errors.push(e));
      const before = errors.length;
      call(() => { throw thing; });
      await until(() => errors.length > before);
      assert.ok(Object.is(errors.at(-1), thing));
    }
  }
  s.execute(() => { throw null; });
  await until(() => seen.exceptions.length === 1);
  assert.equal(seen.exceptions[0], null);
});

test("failure 'stop' ends a periodic task at its first failure", async (t) => {
  const s = open(t);
  s.on('error', nothing);
  for (const fn of failing(new Error('stop'))) {
    let runs = 0;
    const task = s.every(1, () => { runs++; return fn(); });
    await until(() => task.state === 'ended');
    await sleep(4);
    assert.equal(runs, 1);
  }
});

test("failure 'continue' reports each failure, and ends the task after maxFailures in a row", async (t) => {
  const s = open(t);
  const errors = [];
  s.on('error', (e) => errors.push(e.message));
  let n = 0;
  const task = s.every(1, async () => {
    n++;
    if (n !== 3) throw new Error(`run ${n}`);
  }, { failure: 'continue', maxFailures: 3 });
  const error = await task.promise.catch((e) => e);
  assert.equal(error.message, 'run 6');
  assert.equal(task.runs, 6);
  assert.deepEqual(errors, ['run 1', 'run 2', 'run 4', 'run 5']);
  await turn();
  counts(s, { failed: 1 });
  assert.equal(s.stats().failedRuns, 5);
  assert.equal(task.failures, 3);
});

test('without listeners, only the failure that ends the task is reported', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const same = new Error('always the same one');
  const task = s.every(1, () => { throw same; }, { failure: 'continue', maxFailures: 3 });
  await until(() => seen.exceptions.length > 0);
  await sleep(3);
  assert.equal(task.runs, 3);
  assert.deepEqual(seen.exceptions, [same]);
  const other = s.schedule(1, () => { throw same; },
    { failure: 'retry', maxFailures: 2, retry: { wait: 1 } });
  s.on('error', (e, who) => { assert.equal(who, other); heard.push(e); });
  const heard = [];
  await until(() => other.state === 'ended' && heard.length > 1); // 'error' is emitted after the end
  await turn();
  assert.deepEqual(heard, [same, same]);
  counts(s, { failed: 2 });
});

test('with maxRuns, a failure of the last run is the outcome, and is reported once', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const errors = [];
  s.on('error', (e) => errors.push(e));
  const options = { failure: 'continue', maxRuns: 3 };
  const task = s.every(1, (run) => { throw new Error(`run ${run.run}`); }, options);
  await until(() => task.state === 'ended');
  await sleep(2);
  assert.deepEqual(errors.map((e) => e.message), ['run 1', 'run 2', 'run 3']);
  await assert.rejects(task.promise, /run 3/);
  await assert.rejects(s.every(1, (run) => { throw new Error(`run ${run.run}`); }, options).promise, /run 3/);
  const recovers = s.every(1, (run) => { if (run.run < 3) throw new Error('x'); return 'fine'; }, options);
  assert.equal(await recovers.promise, 'fine');
  assert.deepEqual(seen, { exceptions: [], rejections: [] });
  counts(s, { failed: 2, completed: 1 });
});

test("failure 'retry' doubles its wait, and gives up after maxFailures", async (t) => {
  const s = open(t);
  const starts = [];
  const task = s.schedule(1, async () => {
    starts.push(performance.now());
    throw new Error(`attempt ${starts.length}`);
  }, { failure: 'retry', maxFailures: 4, retry: { wait: 4, max: 9 } });
  await assert.rejects(task.promise, /attempt 4/);
  const gaps = starts.slice(1).map((at, i) => at - starts[i]);
  assert.equal(gaps.length, 3);
  [4, 8, 9].forEach((least, i) => assert.ok(gaps[i] >= least - 0.1, `${gaps}`));
  let n = 0;
  const recovers = s.schedule(1, () => { if (++n < 3) throw new Error('not yet'); return n; },
    { failure: 'retry', retry: { wait: '1ms' } });
  assert.equal(await recovers.promise, 3);
  assert.equal(recovers.runs, 3);
  assert.equal(recovers.failures, 0);
  counts(s, { failed: 1, completed: 1 });
});

test("at its limit, a run's signal is aborted and task.promise rejects, while the function goes on", async (t) => {
  const s = open(t);
  for (const call of [
    (fn) => s.schedule(1, fn, { limit: 10 }), (fn) => s.every(1, fn, { limit: 10 }),
    (fn) => s.lane().schedule(1, fn, { limit: 10 }),
  ]) {
    let reason;
    let finish;
    let begun;
    const task = call(async (run) => {
      begun = performance.now();
      run.signal.addEventListener('abort', () => { reason = run.signal.reason; });
      await new Promise((resolve) => { finish = resolve; });
      return 'too late';
    });
    const error = await task.promise.catch((e) => e);
    assert.ok(error instanceof TimeoutError);
    assert.equal(error.name, 'TimeoutError');
    assert.equal(error.code, 'ETIMEDOUT');
    assert.match(error.message, /10 ms/);
    assert.equal(error, reason);
    assert.ok(performance.now() - begun >= 10 - 0.1);
    assert.equal(task.state, 'running');
    assert.equal(task.cancel(), 'ended');
    balanced(s);
    finish();
    await until(() => task.state === 'ended');
    await assert.rejects(task.promise, (e) => e === error);
  }
  await until(() => s.stats().timedOut === 3);
  counts(s, { timedOut: 3 });
});

test('a function that blocks the loop past its limit has timed out', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const task = s.execute(() => { hold(8); return 'value'; }, { limit: 3 });
  await assert.rejects(task.promise, TimeoutError);
  const alone = s.execute(() => hold(8), { limit: 3 });
  await until(() => seen.exceptions.length === 1);
  assert.ok(seen.exceptions[0] instanceof TimeoutError);
  await until(() => alone.state === 'ended');
  await until(() => s.stats().timedOut === 2);
  counts(s, { timedOut: 2 });
  assert.equal(await s.execute(() => 'quick', { limit: '1h' }).promise, 'quick');
  assert.equal(await s.execute(() => sleep(1).then(() => 'quick'), { limit: '1h' }).promise, 'quick');
  assert.equal(await s.execute(async () => 'quick', { limit: Infinity }).promise, 'quick');
});

test("with 'continue', a run past its limit fails, and the next run waits for its function", async (t) => {
  const s = open(t);
  const errors = [];
  s.on('error', (e, task) => errors.push([e, task.state]));
  let inside = 0;
  let most = 0;
  const reasons = [];
  const LIMIT = 300; // so long that run 3 ends in time on a busy machine
  const slow = async (run) => {
    most = Math.max(most, ++inside);
    run.signal.addEventListener('abort', () => reasons.push(run.signal.reason.name));
    await sleep(LIMIT + 40);
    inside--;
  };
  const task = s.every(4, (run) => (run.run === 3 ? 3 : slow(run)),
    { limit: LIMIT, failure: 'continue', maxRuns: 3 });
  assert.equal(await task.promise, 3);
  assert.equal(most, 1);
  assert.equal(errors.length, 2);
  assert.ok(errors.every(([e, state]) => e instanceof TimeoutError && state === 'running'));
  assert.deepEqual(reasons, ['TimeoutError', 'TimeoutError']);
  counts(s, { completed: 1 });
  assert.equal(s.stats().failedRuns, 2);
});

test("with 'retry', a run past its limit is retried until maxFailures", async (t) => {
  const s = open(t);
  const starts = [];
  const task = s.schedule(1, async () => { starts.push(performance.now()); await sleep(12); },
    { limit: 4, failure: 'retry', maxFailures: 3, retry: { wait: 2 } });
  await assert.rejects(task.promise, TimeoutError);
  assert.equal(starts.length, 3);
  starts.slice(1).forEach((at, i) => assert.ok(at - starts[i] >= 14 - 1, 'after the function has settled'));
  await until(() => task.state === 'ended');
  await until(() => s.stats().timedOut === 1); // counted in a later loop pass
  counts(s, { timedOut: 1 });
});

test('the limit counts from the start of each run, not from when the run was due', async (t) => {
  const s = open(t);
  const LIMIT = 20;
  const took = [];
  const waitsForAbort = (run) => new Promise((resolve) => {
    const begun = performance.now();
    run.signal.addEventListener('abort', () => {
      took.push(performance.now() - begun);
      resolve();
    });
  });
  const lane = s.lane(); // its second task is due at once, but has to wait for the first
  const tasks = [
    s.every(2, waitsForAbort, { limit: LIMIT, failure: 'continue', maxRuns: 3 }),
    lane.execute(waitsForAbort, { limit: LIMIT }), lane.execute(waitsForAbort, { limit: LIMIT }),
  ];
  await Promise.all(tasks.map((task) => assert.rejects(task.promise, TimeoutError)));
  assert.equal(took.length, 5);
  // The limit begins a little before the function measures. From due, nothing would be left of it.
  for (const ms of took) assert.ok(ms >= LIMIT / 2, `${took}`);
});

test('a limit does not outlive its run', async () => {
  await says("uvsched.every(1, () => {}, { limit: '1h', maxRuns: 4 }).promise.then(() => console.log('exit'))", 'exit');
});

test('cancel inside an abort or error listener of a time-out ends the task once', async (t) => {
  const s = open(t);
  const errors = [];
  s.on('error', (e, task) => { errors.push(e.name); task.cancel('listener'); });
  const a = s.every(1, async (run) => {
    run.signal.addEventListener('abort', () => run.task.cancel('abort listener'));
    await sleep(10);
  }, { limit: 3, failure: 'continue' });
  await assert.rejects(a.promise, (e) => e instanceof AbortError && e.cause === 'abort listener');
  const b = s.every(1, () => { throw new Error('b'); }, { failure: 'continue' });
  await assert.rejects(b.promise, (e) => e instanceof AbortError && e.cause === 'listener');
  await until(() => s.tasks().length === 0);
  assert.equal(a.runs, 1);
  assert.equal(b.runs, 1);
  counts(s, { cancelled: 2 });
});

test("an error thrown by an 'error' listener is an 'uncaughtException', and other tasks still run", async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  s.on('error', (e) => { throw new Error(`listener: ${e.message}`); });
  let others = 0;
  s.execute(() => { throw new Error('plain'); });
  s.execute(() => { throw new Error('options'); }, { name: 'x' });
  const goesOn = s.every(1, (run) => { if (run.run < 3) throw new Error('periodic'); },
    { failure: 'continue', maxRuns: 4 });
  for (let i = 0; i < 10; i++) s.execute(() => { others++; });
  await goesOn.promise;
  await until(() => seen.exceptions.length === 4);
  assert.deepEqual(seen.exceptions.map((e) => e.message).sort(),
    ['listener: options', 'listener: periodic', 'listener: periodic', 'listener: plain']);
  assert.equal(others, 10);
  assert.equal(goesOn.runs, 4);
  counts(s, { failed: 2, completed: 11 });
});

test('shutdown resolves although the last task fails', async (t) => {
  const seen = uncaught(t);
  for (const options of KINDS) {
    for (const fn of failing(new Error('last'))) {
      const s = open(t);
      s.schedule(2, fn, options);
      await s.shutdown();
      counts(s, { failed: 1 });
    }
  }
  await until(() => seen.exceptions.length + seen.rejections.length === 6);
  for (const options of KINDS) { // a listener that throws when its task is the last one
    const s = open(t);
    s.on('error', () => { throw new Error('listener'); });
    const { promise, open: proceed } = gate();
    const task = s.execute(async () => { await promise; throw new Error('last'); }, options);
    await until(() => task.state === 'running');
    const over = s.shutdown();
    await sleep(2);
    proceed();
    await over;
  }
});
