// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { AbortError } = require('..');
const { open, sleep, turn, hold, gate, until, balanced, counts, uncaught, says } = require('./lib/helper.js');

const EARLY = 0.1;
const KINDS = [undefined, { name: 'with options' }];

test('a run ends when its promise settles, and task.promise has its value', async (t) => {
  const s = open(t);
  for (const options of KINDS) {
    const task = s.execute(async () => {
      balanced(s);
      await sleep(5);
      assert.equal(task.state, 'running');
      assert.equal(balanced(s).running, 1);
      return 'later';
    }, options);
    await sleep(1);
    assert.equal(await task.promise, 'later');
    await turn();
    assert.equal(task.state, 'ended');
  }
  counts(s, { completed: 2 });
});

test('a fixed delay counts from when the promise settles, and runs never overlap', async (t) => {
  const s = open(t);
  for (const mode of ['delay', 'rate']) {
    let inside = 0;
    let ended;
    const gaps = [];
    const task = s.every(3, async () => {
      assert.equal(++inside, 1);
      if (ended !== undefined) gaps.push(performance.now() - ended);
      await sleep(8);
      inside--;
      ended = performance.now();
    }, { mode, maxRuns: 4 });
    await task.promise;
    assert.equal(gaps.length, 3);
    if (mode === 'delay') for (const gap of gaps) assert.ok(gap >= 3 - EARLY, `${gap}`);
  }
});

test('other tasks run while an async function is pending', async (t) => {
  const s = open(t);
  const seen = [];
  const { promise, open: proceed } = gate();
  const slow = s.execute(async () => { await promise; seen.push('slow'); });
  s.schedule(5, () => { seen.push('quick'); proceed(); });
  await slow.promise;
  assert.deepEqual(seen, ['quick', 'slow']);
});

test('cancel of an async run rejects task.promise at once, and the task ends when the function settles', async (t) => {
  const s = open(t);
  for (const options of KINDS) {
    let finish;
    let ended = false;
    const task = s.execute(async (run) => {
      await new Promise((resolve) => { finish = resolve; });
      assert.equal(run.signal.aborted, true);
      assert.equal(run.signal.reason.cause, 'stop');
      ended = true;
    }, options);
    await until(() => finish !== undefined);
    assert.equal(task.cancel('stop'), 'running');
    assert.equal(task.cancel(), 'already');
    assert.equal(task.state, 'running');
    assert.equal(balanced(s).running, 0); // a task that is cancelled during its run counts as cancelled
    await assert.rejects(task.promise, (e) => e instanceof AbortError && e.cause === 'stop');
    assert.equal(ended, false);
    finish();
    await until(() => task.state === 'ended');
    assert.ok(ended);
    assert.equal(task.cancel(), 'ended');
  }
  await turn();
  counts(s, { cancelled: 2 });
});

test('after cancel, the current run of a periodic task finishes and no other follows', async (t) => {
  const s = open(t);
  let runs = 0;
  const { promise, open: proceed } = gate();
  const task = s.every(1, async () => { runs++; await promise; });
  await until(() => runs === 1);
  assert.equal(task.cancel(), 'running');
  await assert.rejects(task.promise, AbortError);
  proceed();
  await until(() => task.state === 'ended');
  await sleep(10);
  assert.equal(runs, 1);
  assert.equal(task.state, 'ended');
});

test('an error thrown after cancel is ignored', async (t) => {
  const seen = uncaught(t);
  const s = open(t);
  const errors = [];
  s.on('error', (e) => errors.push(e));
  for (const options of KINDS) {
    const { promise, open: proceed } = gate();
    const task = s.execute(async () => { await promise; throw new Error('too late'); }, options);
    await until(() => task.state === 'running');
    task.cancel();
    proceed();
    await until(() => task.state === 'ended');
  }
  await sleep(5);
  assert.deepEqual(seen, { exceptions: [], rejections: [] });
  assert.deepEqual(errors, []);
  counts(s, { cancelled: 2 });
});

test('a thenable that settles twice ends its run once', async (t) => {
  const s = open(t);
  const twice = Object.assign(Promise.resolve('native'), { then(ok) { ok('one'); ok('two'); } });
  const odd = [
    [{ then(ok) { ok(1); ok(2); } }, 1],
    [{ then(ok, bad) { ok(1); bad(new Error('no')); } }, 1],
    [{ then(ok) { ok(1); throw new Error('after'); } }, 1],
    [{ then(ok) { setTimeout(() => { ok('late'); setTimeout(ok, 1, 'later'); }, 2); } }, 'late'],
    [{ then(ok) { ok({ then(ok2) { ok2('nested'); } }); } }, 'nested'],
    [Object.assign(() => {}, { then(ok) { ok('function'); } }), 'function'],
    [{ then: 'no function' }, { then: 'no function' }],
    [twice, 'native'],
  ];
  for (const options of [...KINDS, 'periodic']) {
    for (const [value, expected] of odd) {
      const task = options === 'periodic' ? s.every(1, () => value, { maxRuns: 2 })
        : s.execute(() => value, options);
      const end = await task.promise;
      assert.deepEqual(end, expected);
    }
  }
  counts(s, { completed: 3 * odd.length });
});

test('a run fails if its thenable throws or rejects, or if reading `then` throws', async (t) => {
  const s = open(t);
  const trap = new Error('trap');
  const trapped = Promise.resolve();
  Object.defineProperty(trapped, 'constructor', { get() { throw trap; } });
  const odd = [
    { then() { throw trap; } },
    { then(ok, bad) { bad(trap); ok(1); } },
    { get then() { throw trap; } },
    { then(ok, bad) { setTimeout(bad, 1, trap); } },
    trapped,
  ];
  for (const options of [...KINDS, 'periodic']) {
    for (const value of odd) {
      const task = options === 'periodic' ? s.every(1, () => value) : s.execute(() => value, options);
      await assert.rejects(task.promise, (e) => e === trap);
    }
  }
  await turn();
  counts(s, { failed: 3 * odd.length });
});

test('a promise that never settles keeps the task running, and cancel still rejects task.promise', async (t) => {
  const s = open(t);
  let settle;
  const task = s.every(1, () => new Promise((resolve) => { settle = resolve; }));
  await until(() => task.state === 'running');
  await sleep(10);
  assert.equal(task.runs, 1);
  assert.equal(task.state, 'running');
  task.cancel();
  await assert.rejects(task.promise, AbortError);
  settle();
});

test('nextTick callbacks and microtasks run between two tasks of one loop pass', async (t) => {
  const s = open(t);
  const seen = [];
  for (let i = 0; i < 4; i++) {
    s.execute(() => {
      seen.push(`fn ${i}`);
      process.nextTick(() => seen.push(`tick ${i}`));
      Promise.resolve().then(() => seen.push(`micro ${i}`));
      queueMicrotask(() => process.nextTick(() => seen.push(`tick of micro ${i}`)));
    }, i % 2 === 0 ? undefined : { name: 'x' });
  }
  await until(() => seen.length === 16);
  const order = (i) => [`fn ${i}`, `tick ${i}`, `micro ${i}`, `tick of micro ${i}`];
  assert.deepEqual(seen, [0, 1, 2, 3].flatMap(order));
});

test('with batch, nextTick callbacks and microtasks run after all tasks that are due together', async (t) => {
  const s = open(t, { batch: true, budget: '1s' });
  const seen = [];
  for (let i = 0; i < 4; i++) {
    s.schedule(1, () => {
      seen.push('fn');
      process.nextTick(() => seen.push('tick'));
      Promise.resolve().then(() => seen.push('micro'));
    });
  }
  hold(3);
  await until(() => seen.length === 12);
  assert.deepEqual(seen, ['fn', 'fn', 'fn', 'fn', ...Array(4).fill('tick'), ...Array(4).fill('micro')]);
});

test('code after an await runs before the next task starts, and can cancel that task', async (t) => {
  const s = open(t);
  const seen = [];
  s.execute(async () => { await null; seen.push(second.cancel()); });
  const second = s.execute(() => seen.push('ran'));
  await until(() => seen.length === 1);
  await sleep(2);
  assert.deepEqual(seen, ['cancelled']);
});

test('without process._tickCallback, order and budget are the same', async () => {
  await says(`
    const assert = require('node:assert');
    const s = new uvsched.Scheduler({ budget: '1ms' });
    const seen = [];
    let turns = 0;
    let going = true;
    (function count() { turns++; if (going) setImmediate(count); })();
    for (let i = 0; i < 3; i++) {
      s.execute(() => {
        seen.push('fn');
        process.nextTick(() => seen.push('tick'));
        Promise.resolve().then(() => seen.push('micro'));
      });
    }
    s.schedule(5, () => {
      assert.deepEqual(seen, ['fn', 'tick', 'micro', 'fn', 'tick', 'micro', 'fn', 'tick', 'micro']);
      const before = turns;
      for (let i = 0; i < 20; i++) s.execute(() => { for (const t = Date.now() + 2; Date.now() < t;); });
      s.execute(() => {
        going = false;
        console.log(turns - before >= 10 ? 'ok' : 'only ' + (turns - before) + ' turns');
        s.close();
      });
    });`, 'ok', { args: ['-r', require('node:path').join(__dirname, 'lib', 'no-tick.js')] });
});

test('a loop pass ends at the budget, however many tasks are due', async (t) => {
  for (const fails of [false, true]) {
    const seen = uncaught(t);
    const s = open(t, { budget: '1ms' });
    const N = 20000;
    let ran = 0;
    let before = 0;
    for (let i = 0; i < N; i++) {
      s.execute(() => {
        if (++ran % 100 !== 0) return;
        hold(0.1);
        if (fails) throw new Error('and the budget is not a new one');
      });
    }
    hold(2);
    while (ran < N) {
      await turn();
      assert.ok(ran - before <= 1200, `${ran - before} in one turn, 1000 of which take 1 ms`);
      before = ran;
    }
    assert.equal(seen.exceptions.length, fails ? N / 100 : 0);
  }
});
