// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { Engine, NO_FRONT } = require('../lib/engine.js');
const IO = require('../lib/io.js');
const { schedulerOptions } = require('../lib/options.js');
const { open, sleep, turn, hold, until, balanced, counts, random } = require('./lib/helper.js');

const nothing = () => {};

test('stats() counts each task in exactly one state at any moment', async (t) => {
  const s = open(t);
  s.on('error', nothing);
  counts(s, {});
  const tasks = [
    s.schedule('1h', nothing), s.schedule('1h', nothing, { name: 'x' }), s.every('1h', nothing),
    s.schedule(Infinity, nothing),
  ];
  counts(s, { waiting: 4 });
  await turn();
  counts(s, { waiting: 4 });
  let inside;
  s.execute(() => { inside = balanced(s); });
  await until(() => inside !== undefined);
  assert.equal(inside.running, 1);
  assert.equal(inside.completed, 0);
  counts(s, { waiting: 4, completed: 1 });
  let optioned;
  await s.execute(() => { optioned = balanced(s); }, { name: 'x' }).promise;
  assert.equal(optioned.running, 1);
  let finish;
  for (const options of [undefined, { name: 'x' }]) {
    const task = s.execute(() => new Promise((resolve) => { finish = resolve; }), options);
    task.promise; // eslint-disable-line no-unused-expressions
    await until(() => finish !== undefined);
    assert.equal(balanced(s).running, 1);
    finish();
    finish = undefined;
    await task.promise;
    await until(() => balanced(s).running === 0);
  }
  s.execute(() => { throw new Error('x'); });
  s.execute(async () => { throw new Error('x'); });
  await until(() => s.stats().failed === 2);
  tasks.forEach((task) => task.cancel());
  const last = counts(s, { completed: 4, failed: 2, cancelled: 4 });
  assert.equal(last.submitted, 10);
  assert.equal(last.failedRuns, 2);
});

test('stats() inside a run counts the other due tasks as ready', async (t) => {
  const s = open(t, { budget: '1s' });
  const seen = [];
  const look = () => {
    const { ready, running, completed } = balanced(s);
    seen.push([completed, running, ready]);
  };
  for (let i = 0; i < 5; i++) s.schedule(1, look);
  hold(4);
  await until(() => seen.length === 5);
  assert.deepEqual(seen, [[0, 1, 4], [1, 1, 3], [2, 1, 2], [3, 1, 1], [4, 1, 0]]);
});

test('stats().late tells how late runs started', async (t) => {
  const s = open(t);
  assert.deepEqual(s.stats().late, { count: 0, p50: 0, p99: 0, max: 0 });
  s.schedule(1, nothing);
  s.schedule(1, nothing, { name: 'x' });
  hold(12);
  await until(() => s.stats().completed === 2);
  const { late } = s.stats();
  assert.equal(late.count, 2);
  assert.ok(late.max >= 10, `${late.max}`);
  assert.ok(late.p50 >= 10 && late.p50 <= late.p99 && late.p99 <= late.max);
});

test('p50 and p99 of stats().late are at most a quarter too high', async (t) => {
  for (const ns of [1024, 1279, 1280, 2047, 2048, 1e5, 1e6, 17e6, 2 ** 31, 2 ** 40 - 1]) {
    const io = new Float64Array(IO.SIZE);
    const engine = new Engine(NO_FRONT, io, schedulerOptions(undefined, io));
    t.after(() => engine.close());
    for (let i = 0; i < 199; i++) engine.countLate(ns);
    engine.countLate(2 ** 50); // so that max does not hide the end of the bucket
    const { count, p50, p99, max } = engine.lateness();
    assert.equal(count, 200);
    assert.equal(max, 2 ** 50 / 1e6);
    assert.equal(p50, p99);
    assert.ok(p50 * 1e6 > ns && p50 * 1e6 <= ns * 1.25, `${ns} ns became ${p50} ms`);
  }
  const io = new Float64Array(IO.SIZE);
  const engine = new Engine(NO_FRONT, io, schedulerOptions(undefined, io));
  t.after(() => engine.close());
  for (const ns of [-5, 0, 1, 1023]) engine.countLate(ns);
  assert.deepEqual(engine.lateness(), { count: 4, p50: 1023 / 1e6, p99: 1023 / 1e6, max: 1023 / 1e6 });
});

test('tasks() lists exactly the tasks that have not ended', async (t) => {
  const s = open(t);
  assert.deepEqual(s.tasks(), []);
  const waiting = [
    s.schedule('1h', nothing), s.schedule('1h', nothing, { name: 'b' }), s.every('1h', nothing),
  ];
  assert.deepEqual(new Set(s.tasks()), new Set(waiting));
  let inside;
  const task = s.execute(() => { inside = s.tasks(); });
  await task.promise;
  assert.ok(inside.includes(task));
  assert.equal(inside.length, 4);
  assert.equal(s.tasks().length, 3);
  waiting[0].cancel();
  assert.equal(s.tasks().length, 2);
  waiting[1].cancel();
  assert.deepEqual(s.tasks(), [waiting[2]]);
  assert.deepEqual(s.tasks().map((each) => each.state), ['waiting']);
  let finish;
  const running = s.execute(() => new Promise((resolve) => { finish = resolve; }), { name: 'running' });
  await until(() => finish !== undefined);
  running.cancel();
  assert.ok(s.tasks().includes(running));
  finish();
  await until(() => s.tasks().length === 1);
  s.tasks().pop(); // changes only the caller's copy
  assert.equal(s.tasks().length, 1);
});

test('task.name is the given name, of any length and content', (t) => {
  const s = open(t);
  const names = ['short', 'x'.repeat(1000), 'ünïcödé ✓, more than 23 bytes', '', 'nul \0 inside', '\ud800'];
  for (const name of names) {
    assert.equal(s.schedule('1h', nothing, { name }).name, name);
  }
});

// The budget is tiny, some functions are slow, and some cancel later tasks.
test('a loop pass that ends at its budget neither loses, repeats nor reorders runs', async (t) => {
  for (const batch of [false, true]) {
    const s = open(t, { budget: '1us', batch });
    const seen = [];
    const ends = [];
    const tasks = [];
    const N = 400;
    for (let i = 0; i < N; i++) {
      const options = i % 4 === 1 ? { name: 'x' } : undefined;
      const task = s.schedule(1 + i / 1000, () => {
        seen.push(i);
        if (i % 10 === 0) hold(0.3);
        if (i % 7 === 0 && i + 3 < N) tasks[i + 3].cancel();
        if (i % 50 === 0) s.execute(() => seen.push('nested'));
        balanced(s);
      }, options);
      tasks.push(task);
      task.promise.then(() => ends.push(i), () => ends.push(-i));
    }
    await until(() => ends.length === N && s.tasks().length === 0);
    await sleep(3);
    assert.equal(ends.length, N);
    const mine = seen.filter((each) => each !== 'nested');
    const cancelled = new Set(ends.filter((i) => i < 0).map((i) => -i));
    // Also with batch, a function can cancel the task three places after it.
    assert.deepEqual(mine, Array.from({ length: N }, (_, i) => i).filter((i) => !cancelled.has(i)));
    for (const i of cancelled) assert.equal((i - 3) % 7, 0);
    assert.equal(seen.length - mine.length, mine.filter((i) => i % 50 === 0).length);
    counts(s, { completed: seen.length, cancelled: cancelled.size });
  }
});

// Compares each task with a simple model: one end per task, as the answers of cancel() promise.
test('10^4 tasks under random operations each end once, and the counts are right', async (t) => {
  const seed = Number(process.env.SEED ?? Date.now() % 1e6);
  t.diagnostic(`seed ${seed}`);
  const r = random(seed);
  const pick = (list) => list[Math.floor(r() * list.length)];
  const s = open(t, { budget: pick(['1us', '100us', '1ms']), batch: r() < 0.3 });
  s.on('error', (e, m) => { const model = models.get(m); model.errors++; });
  const models = new Map();
  const list = [];
  const N = 10_000;
  let made = 0;

  const fn = (model) => (run) => {
    model.runs++;
    assert.equal(model.cancelled, false, 'no run begins after a cancel');
    assert.equal(model.inside, 0, 'no overlap');
    assert.equal(run.run, model.runs);
    assert.ok(run.late >= 0);
    if (r() < 0.2) operate();
    if (model.how === 'throw') throw new Error('as planned');
    if (model.how === 'reject') return Promise.reject(new Error('as planned'));
    if (model.how === 'async') {
      model.inside++;
      return (r() < 0.5 ? turn() : sleep(r() * 3)).then(() => { model.inside--; if (r() < 0.1) operate(); });
    }
    return model.runs;
  };

  const add = () => {
    made++;
    const model = {
      runs: 0, inside: 0, cancelled: false, ends: 0, errors: 0,
      how: pick(['value', 'value', 'value', 'throw', 'reject', 'async']), asked: r() < 0.5,
    };
    const delay = r() < 0.3 ? 0 : r() < 0.1 ? '1h' : r() * 20;
    const kind = r();
    model.kind = kind < 0.6 ? 'plain' : kind < 0.8 ? 'options' : 'every';
    const task = model.kind === 'plain' ? s.schedule(delay, fn(model))
      : model.kind === 'options' ? s.schedule(delay, fn(model), { name: 'x' })
        : s.every(1 + r() * 5, fn(model), {
          delay,
          maxRuns: 1 + Math.floor(r() * 3),
          mode: pick(['rate', 'delay']),
          failure: pick(['stop', 'continue']),
        });
    model.task = task;
    models.set(task, model);
    list.push(model);
    if (model.asked) ask(model);
  };

  const ask = (model) => {
    model.asked = true;
    model.task.promise.then(
      () => { model.ends++; model.end = 'value'; },
      (e) => { model.ends++; model.end = e.name === 'AbortError' ? 'cancelled' : 'failed'; });
  };

  const operate = () => {
    const model = pick(list);
    const what = r();
    if (what < 0.4) {
      const state = model.task.state;
      const receipt = model.task.cancel('by chance');
      if (receipt === 'cancelled') assert.ok(!model.cancelled && (state === 'waiting' || state === 'ready'));
      if (receipt === 'running') assert.ok(!model.cancelled && state === 'running');
      if (receipt === 'already') assert.ok(model.cancelled && state === 'running');
      if (receipt !== 'ended') model.cancelled = true;
    } else if (what < 0.6) {
      const { state } = model.task;
      const moved = model.task.reschedule(r() * 10);
      assert.equal(moved, state === 'waiting');
    } else if (what < 0.7) {
      model.task.unref().ref();
    } else if (what < 0.8) {
      if (!model.asked && model.task.state !== 'ended') ask(model);
    } else if (what < 0.82) {
      balanced(s);
    } else if (made < N) {
      add();
    }
  };

  while (made < N) {
    const n = 1 + Math.floor(r() * 40);
    for (let i = 0; i < n && made < N; i++) add();
    for (let i = 0; i < n; i++) operate();
    if (r() < 0.1) await turn();
    if (r() < 0.01) await sleep(1);
  }
  for (const model of list) if (model.task.remaining > 1000) model.cancelled = model.task.cancel() !== 'ended';
  await until(() => s.tasks().length === 0);
  await turn();
  await turn();
  for (const model of list) if (!model.asked) ask(model);
  await until(() => list.every((model) => model.ends > 0));
  await sleep(2);
  const ends = { value: 0, failed: 0, cancelled: 0 };
  for (const model of list) {
    assert.equal(model.ends, 1);
    assert.equal(model.task.state, 'ended');
    assert.equal(model.task.runs, model.runs);
    assert.equal(model.task.cancel(), 'ended');
    if (model.cancelled) assert.equal(model.end, 'cancelled');
    else assert.equal(model.end, ['throw', 'reject'].includes(model.how) ? 'failed' : 'value');
    if (!model.cancelled && model.kind !== 'every') assert.equal(model.runs, 1);
    ends[model.end]++;
  }
  counts(s, { completed: ends.value, failed: ends.failed, cancelled: ends.cancelled });
  assert.equal(s.stats().submitted, N);
});
