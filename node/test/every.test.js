// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { AbortError } = require('..');
const { open, sleep, turn, hold, until, balanced, counts } = require('./lib/helper.js');

const nothing = () => {};
const EARLY = 0.1;

test('fixed rate: the first run comes after one period, later runs stay on the grid, none is early', async (t) => {
  const s = open(t);
  const runs = [];
  const from = performance.now();
  const task = s.every(7, (run) => runs.push({ now: performance.now(), ...run }), { maxRuns: 6 });
  await task.promise;
  const first = runs[0].ideal;
  assert.ok(first >= from + 7 - EARLY);
  runs.forEach((r, i) => {
    assert.equal(r.run, i + 1);
    assert.ok(r.now >= r.ideal - EARLY);
    assert.ok(i === 0 || r.ideal > runs[i - 1].ideal + 6.9);
    const offGrid = (r.ideal - first) / 7 - Math.round((r.ideal - first) / 7);
    assert.ok(Math.abs(offGrid) < 0.001, `off the grid by ${offGrid}`);
  });
  assert.equal(task.runs, 6);
  counts(s, { completed: 1 });
  assert.equal(s.stats().runs, 6);
});

test('the option delay sets the first run, also to 0', async (t) => {
  const s = open(t);
  const seen = [];
  const from = performance.now();
  const a = s.every('1h', () => seen.push('now'), { delay: 0, maxRuns: 1 });
  const b = s.every(5, () => seen.push(performance.now()), { delay: '20ms', maxRuns: 2 });
  await Promise.all([a.promise, b.promise]);
  assert.equal(seen[0], 'now');
  assert.ok(seen[1] >= from + 20 - EARLY);
  assert.ok(seen[2] >= from + 25 - EARLY);
});

test('fixed delay counts from the end of the previous run', async (t) => {
  const s = open(t);
  const gaps = [];
  let ended;
  const task = s.every(6, () => {
    if (ended !== undefined) gaps.push(performance.now() - ended);
    hold(4);
    ended = performance.now();
  }, { mode: 'delay', maxRuns: 5 });
  await task.promise;
  assert.equal(gaps.length, 4);
  for (const gap of gaps) assert.ok(gap >= 6 - EARLY, `${gap}`);
});

test("missed: 'once' counts the missed periods in run.missed and in the event", async (t) => {
  const s = open(t);
  const events = [];
  const missed = [];
  s.on('missed', (task, count, reason) => events.push({ task, count, reason }));
  let free;
  const task = s.every(4, (run) => {
    missed.push(run.missed);
    if (run.run === 2) assert.ok(run.ideal <= free + EARLY, 'the run is for a period that has passed');
    if (run.run === 1) hold(30);
    free = performance.now();
  }, { maxRuns: 3 });
  await task.promise;
  assert.ok(missed[1] >= 5, `${missed}`);
  assert.ok(events.length >= 1);
  assert.equal(events[0].task, task);
  assert.equal(events.reduce((sum, e) => sum + e.count, 0), missed.reduce((a, b) => a + b));
  assert.ok(events.some((e) => e.reason === 'overlap'));
  assert.equal(s.stats().missed, missed[0] + missed[1] + missed[2]);
});

test("missed: 'catch-up' runs every missed period in order, at most maxBurst of them", async (t) => {
  const s = open(t);
  const ideals = [];
  const all = s.every(4, (run) => {
    ideals.push(run.ideal);
    assert.equal(run.missed, 0);
    if (run.run === 1) hold(22);
  }, { missed: 'catch-up', maxRuns: 7 });
  await all.promise;
  for (let i = 1; i < ideals.length; i++) assert.ok(Math.abs(ideals[i] - ideals[i - 1] - 4) < 0.01);
  let most = 0;
  const burst = s.every(4, (run) => {
    most = Math.max(most, run.missed);
    if (run.run === 1) hold(30);
  }, { missed: 'catch-up', maxBurst: 2, maxRuns: 4 });
  await burst.promise;
  assert.ok(most >= 3, `${most}`);
});

test("missed: 'skip' leaves out missed periods and stays on the grid", async (t) => {
  const s = open(t);
  const runs = [];
  await s.every(5, (run) => {
    runs.push({ now: performance.now(), ...run });
    if (run.run === 1) hold(17);
  }, { missed: 'skip', maxRuns: 3 }).promise;
  const held = (runs[1].ideal - runs[0].ideal) / 5;
  assert.ok(Math.abs(held - Math.round(held)) < 0.001);
  assert.ok(runs[1].ideal >= runs[0].now + 17 - EARLY, 'the run is for a period that had not passed');
});

test('until ends the task successfully, after a duration or at a Date', async (t) => {
  const s = open(t);
  for (const end of [() => 42, () => new Date(Date.now() + 42)]) {
    let runs = 0;
    const from = performance.now();
    const task = s.every(5, () => ++runs, { until: end() });
    const value = await task.promise;
    assert.equal(value, runs);
    assert.ok(runs > 0 && runs <= 8, `${runs}`);
    assert.ok(performance.now() - from >= 5 - EARLY);
  }
  for (const until of [new Date(0), 4, 0, -1]) {
    assert.throws(() => s.every(5, nothing, { until }), /RangeError: until must not be before the first run/);
  }
  counts(s, { completed: 2 });
});

test('maxRuns ends the task after exactly that many runs, with the value of the last', async (t) => {
  const s = open(t);
  for (const mode of ['rate', 'delay']) {
    let n = 0;
    const task = s.every(1, () => ++n, { maxRuns: 3, mode });
    assert.equal(await task.promise, 3);
    await sleep(5);
    assert.equal(n, 3);
    assert.equal(task.runs, 3);
  }
});

test('jitter only delays runs, and does not add up', async (t) => {
  const s = open(t);
  const runs = [];
  await s.every(5, (run) => runs.push({ now: performance.now(), ...run }), { jitter: 3, maxRuns: 8 }).promise;
  for (const r of runs) {
    assert.ok(r.now >= r.ideal - EARLY);
    const points = (r.ideal - runs[0].ideal) / 5;
    assert.ok(Math.abs(points - Math.round(points)) < 0.001);
  }
});

test('a periodic task stops after cancel inside a run, cancel outside, and reschedule(Infinity)', async (t) => {
  const s = open(t);
  let inside = 0;
  const a = s.every(1, (run) => { if (++inside === 3) assert.equal(run.task.cancel('three'), 'running'); });
  await assert.rejects(a.promise, (e) => e instanceof AbortError && e.cause === 'three');
  await sleep(6);
  assert.equal(inside, 3);
  let outside = 0;
  const b = s.every(1, () => { outside++; });
  await until(() => outside >= 2);
  const seen = outside;
  assert.equal(b.cancel(), 'cancelled');
  await sleep(6);
  assert.equal(outside, seen);
  assert.equal(b.cancel(), 'ended');
  const c = s.every(1, nothing);
  await until(() => c.runs >= 1 && c.reschedule(Infinity)); // false while it is due
  const runs = c.runs;
  await sleep(6);
  assert.equal(c.runs, runs);
  assert.equal(c.reschedule(0), true);
  await until(() => c.runs > runs + 1);
  c.cancel();
  await turn();
  counts(s, { cancelled: 3 });
});

test('reschedule moves the grid of a periodic task', async (t) => {
  const s = open(t);
  const ideals = [];
  const task = s.every('1h', (run) => ideals.push(run.ideal), { maxRuns: 2, delay: '1h' });
  const from = performance.now();
  task.reschedule(5);
  await until(() => ideals.length === 1);
  assert.ok(ideals[0] >= from + 5 - EARLY);
  assert.ok(task.remaining > 3500e3);
  assert.equal(task.state, 'waiting');
  task.cancel();
});

test('cancel of a periodic task does not abort the signals of ended runs', async (t) => {
  const s = open(t);
  const signals = [];
  const task = s.every(2, (run) => { signals.push(run.signal); });
  await until(() => signals.length === 2);
  task.cancel();
  assert.deepEqual(signals.map((signal) => signal.aborted), [false, false]);
});

test('for await yields the runs of a periodic task, and ends with the task', async (t) => {
  const s = open(t);
  const seen = [];
  for await (const run of s.every(2, nothing, { maxRuns: 4 })) seen.push(run.run);
  assert.deepEqual(seen, [1, 2, 3, 4]);
});

test('for await: a slow reader loses no run while at most 1024 are queued', async (t) => {
  const s = open(t);
  const task = s.every(1, nothing, { maxRuns: 20, missed: 'catch-up' });
  const seen = [];
  for await (const run of task) {
    seen.push(run.run);
    if (seen.length === 1) await sleep(40);
  }
  assert.deepEqual(seen, Array.from({ length: 20 }, (_, i) => i + 1));
});

test('for await: a reader that is too slow gets the newest 1024 runs', async (t) => {
  const s = open(t);
  const task = s.every(1000n, nothing, { maxRuns: 1500, missed: 'catch-up' });
  const iterator = task[Symbol.asyncIterator]();
  await task.promise;
  const first = (await iterator.next()).value;
  assert.equal(first.run, 1500 - 1024 + 1);
  let last;
  for await (const run of iterator) last = run;
  assert.equal(last.run, 1500);
});

test('for await ends without an error when the task is cancelled', async (t) => {
  const s = open(t);
  const task = s.every(2, nothing);
  let n = 0;
  for await (const run of task) {
    assert.equal(run.task, task);
    if (++n === 2) task.cancel();
  }
  assert.equal(n, 2);
  for await (const run of task) assert.fail(`a run of an ended task: ${run}`);
});

test('breaking out of for await does not cancel the task', async (t) => {
  const s = open(t);
  const task = s.every(2, nothing);
  for await (const run of task) {
    assert.equal(run.run, 1);
    break;
  }
  const runs = task.runs;
  await until(() => task.runs > runs + 1);
  assert.equal(task.cancel(), 'cancelled');
});

test('several iterators each get every run, and next() may be called ahead', async (t) => {
  const s = open(t);
  const task = s.every(2, nothing, { maxRuns: 3 });
  const [a, b] = [task[Symbol.asyncIterator](), task[Symbol.asyncIterator]()];
  const ahead = await Promise.all([a.next(), a.next(), a.next(), a.next(), a.next()]);
  assert.deepEqual(ahead.map((r) => r.value?.run), [1, 2, 3, undefined, undefined]);
  assert.deepEqual(ahead.map((r) => r.done), [false, false, false, true, true]);
  const seen = [];
  for await (const run of b) seen.push(run.run);
  assert.deepEqual(seen, [1, 2, 3]);
  assert.deepEqual(await b.return('x'), { value: 'x', done: true });
});

test('for await throws the error of the failed task once', async (t) => {
  const s = open(t);
  const error = new Error('third');
  const task = s.every(2, (run) => { if (run.run === 3) throw error; });
  const iterator = task[Symbol.asyncIterator]();
  const seen = [];
  await assert.rejects(async () => {
    for await (const run of { [Symbol.asyncIterator]: () => iterator }) seen.push(run.run);
  }, (e) => e === error);
  assert.deepEqual(seen, [1, 2]);
  assert.deepEqual(await iterator.next(), { value: undefined, done: true });
  await assert.rejects(task[Symbol.asyncIterator]().next(), (e) => e === error);
  await turn();
  counts(s, { failed: 1 });
});

test('for await works for one-shot tasks', async (t) => {
  const s = open(t);
  for (const options of [undefined, { name: 'x' }]) {
    const seen = [];
    for await (const run of s.schedule(2, nothing, options)) seen.push(run.run);
    assert.deepEqual(seen, [1]);
  }
});

test('a hundred periodic tasks run exactly maxRuns times', async (t) => {
  const s = open(t);
  const runs = new Array(100).fill(0);
  const tasks = runs.map((_, i) => s.every(1 + i % 5, () => { runs[i]++; balanced(s); }, { maxRuns: 5 }));
  await Promise.all(tasks.map((task) => task.promise));
  assert.deepEqual(runs, new Array(100).fill(5));
  counts(s, { completed: 100 });
  assert.equal(s.stats().runs, 500);
});
