// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { constants: { errno } } = require('node:os');
const vm = require('node:vm');
const { Scheduler, schedule, every, at, execute } = require('..');
const { duration, period, instant } = require('../lib/duration.js');
const { Engine, NO_FRONT } = require('../lib/engine.js');
const IO = require('../lib/io.js');
const { schedulerOptions, taskOptions } = require('../lib/options.js');
const { open, sleep, counts } = require('./lib/helper.js');

const nothing = () => {};

test('a duration is a number of ms, a BigInt of ns, or a text', () => {
  const ns = (value) => duration(value, 'delay');
  assert.equal(ns(250), 250e6);
  assert.equal(ns(0.5), 500e3);
  assert.equal(ns(1.000001), 1000001);
  assert.equal(ns(250n), 250);
  assert.equal(ns('250ms'), 250e6);
  assert.equal(ns('15d'), 15 * 86400e9);
  assert.equal(ns('48h'), 48 * 3600e9);
  assert.equal(ns('1h 30m'), 5400e9);
  assert.equal(ns('1h30m'), 5400e9);
  assert.equal(ns(' 1.5 s '), 1500e6);
  assert.equal(ns('2w'), 14 * 86400e9);
  assert.equal(ns('7us'), 7000);
  assert.equal(ns('7µs'), 7000);
  assert.equal(ns('9ns'), 9);
});

test('zero and negative durations mean now, and Infinity means never', () => {
  for (const now of [0, -0, -1, -Infinity, -1e300, 0n, -5n, '0ms', 1e-7]) assert.equal(duration(now, 'x'), 0);
  for (const never of [Infinity, 1.7e308, 10n ** 400n]) assert.equal(duration(never, 'x'), Infinity);
});

test('durations around 2^31 ms do not overflow', () => {
  for (const ms of [2 ** 31 - 1, 2 ** 31, 2 ** 31 + 1, 2 ** 32 + 7, 2 ** 40]) {
    assert.equal(duration(ms, 'x'), ms * 1e6);
  }
});

test('every call refuses an invalid delay, names its value, and submits nothing', (t) => {
  const s = open(t);
  const bad = [
    [NaN, RangeError, /NaN/],
    ['', RangeError, /''/],
    [' ', RangeError, /' '/],
    ['5 parsecs', RangeError, /'5 parsecs'/],
    ['-5ms', RangeError, /'-5ms'/],
    ['5', RangeError, /'5'/],
    ['ms', RangeError, /'ms'/],
    ['5ms!', RangeError, /'5ms!'/],
    ['1e3s', RangeError, /'1e3s'/],
    [{}, TypeError, /\{\}/],
    [[], TypeError, /\[\]/],
    [null, TypeError, /null/],
    [undefined, TypeError, /undefined/],
    [true, TypeError, /true/],
    [Symbol('x'), TypeError, /Symbol\(x\)/],
    [nothing, TypeError, /nothing/],
    [new Date(0), TypeError, /1970/],
    [{ valueOf: () => 5 }, TypeError, /valueOf/],
    [Object(5), TypeError, /Number: 5/],
  ];
  for (const [value, type, message] of bad) {
    const check = (e) => {
      assert.ok(e instanceof type, `${e}`);
      assert.match(e.message, message);
      return true;
    };
    assert.throws(() => s.schedule(value, nothing), check);
    assert.throws(() => s.every(value, nothing), check);
    assert.throws(() => schedule(value, nothing), check);
    assert.throws(() => every(value, nothing), check);
    assert.throws(() => s.lane().schedule(value, nothing), check);
    if (value !== undefined) assert.throws(() => s.every(5, nothing, { delay: value }), check);
    if (value !== undefined) assert.throws(() => s.every(5, nothing, { jitter: value }), check);
    if (value !== undefined) assert.throws(() => s.schedule(5, nothing, { limit: value }), check);
  }
  assert.equal(s.tasks().length, 0);
  assert.equal(counts(s, {}).submitted, 0);
});

test('a period of zero is refused', (t) => {
  const s = open(t);
  for (const value of [0, -1, 0n, -1n, '0s', 1e-9, -Infinity]) {
    assert.throws(() => s.every(value, nothing), RangeError);
    assert.throws(() => period(value, 'period'), /period must be greater than zero/);
  }
  assert.equal(period(1n, 'period'), 1);
});

test('an instant is a Date, ms or ns since 1970', () => {
  assert.deepEqual(instant(new Date(1234567890123), 'date'), [1234567890123, 0]);
  assert.deepEqual(instant(1234567890123.25, 'date'), [1234567890123, 250000]);
  assert.deepEqual(instant(1234567890123000456n, 'date'), [1234567890123, 456]);
  assert.deepEqual(instant(-1, 'date'), [0, 0]);
  assert.deepEqual(instant(-1n, 'date'), [0, 0]);
  assert.deepEqual(instant(Infinity, 'date'), [Infinity, 0]);
  const foreign = vm.runInNewContext('new Date(5)');
  assert.ok(!(foreign instanceof Date));
  assert.deepEqual(instant(foreign, 'date'), [5, 0]);
});

test('an invalid instant is refused, and the error names its value', () => {
  for (const [value, type, message] of [
    [new Date(NaN), RangeError, /Invalid Date/],
    [NaN, RangeError, /NaN/],
    ['2030-01-01', TypeError, /'2030-01-01'/],
    [{}, TypeError, /\{\}/],
    [undefined, TypeError, /undefined/],
    [Symbol('when'), TypeError, /Symbol\(when\)/],
  ]) {
    assert.throws(() => at(value, nothing), (e) => e instanceof type && message.test(e.message));
  }
});

test('a non-function is refused', (t) => {
  const s = open(t);
  for (const fn of [undefined, null, 'code', {}, Symbol('f'), Promise.resolve()]) {
    for (const call of [
      () => s.schedule(1, fn), () => s.every(1, fn), () => s.at(1, fn),
      () => s.execute(fn), () => execute(fn),
    ]) assert.throws(call, (e) => e instanceof TypeError && /fn must be a function, not /.test(e.message));
  }
  assert.equal(s.tasks().length, 0);
});

test('delays beyond 2^31 ms do not fire early', async (t) => {
  const s = open(t);
  let ran = 0;
  const far = ['25d', 2 ** 31, 2 ** 31 + 1, '3650d', 1e300, Infinity, 10n ** 30n, Number.MAX_VALUE, 2n ** 63n]
    .map((delay) => s.schedule(delay, () => { ran++; }));
  far.push(s.every('30d', () => { ran++; }), s.every(Infinity, () => { ran++; }));
  far.push(s.at(new Date(8.64e15), () => { ran++; }), s.at(Infinity, () => { ran++; }));
  far.push(s.schedule('300d', () => { ran++; }, { name: 'with options' }));
  await s.schedule(20, nothing).promise; // a delay truncated to 32 bits would have fired by now
  assert.equal(ran, 0);
  assert.ok(far[0].remaining > 24.9 * 86400e3 && far[0].remaining <= 25 * 86400e3);
  assert.ok(far[2].remaining > 2 ** 31 - 60e3);
  assert.equal(far[4].remaining, Infinity);
  assert.equal(far[5].remaining, Infinity);
  for (const task of far) {
    assert.equal(task.state, 'waiting');
    assert.equal(task.cancel(), 'cancelled');
  }
  await sleep(5);
  counts(s, { completed: 1, cancelled: far.length });
});

test('unknown and invalid options are refused, and the error names them', (t) => {
  const s = open(t);
  const refuses = (options, message, call = (o) => s.every(5, nothing, o)) => {
    assert.throws(() => call(options), (e) => {
      assert.ok(e instanceof TypeError || e instanceof RangeError, `${e}`);
      assert.match(e.message, message);
      return true;
    });
  };
  const once = (o) => s.schedule(5, nothing, o);
  refuses({ perid: 5 }, /^unknown option 'perid'; known are .*maxRuns/);
  refuses({ mode: 'rat' }, /mode must be one of rate, delay, not 'rat'/);
  refuses({ mode: 'toString' }, /mode/);
  refuses({ mode: 1 }, /mode must be a string, not 1/);
  refuses({ missed: 'all' }, /missed.*'all'/);
  refuses({ mode: 'delay', missed: 'skip' }, /missed/);
  refuses({ maxBurst: 3 }, /maxBurst needs/);
  refuses({ failure: 'ignore' }, /failure.*'ignore'/);
  refuses({ maxFailures: 3 }, /maxFailures needs/);
  refuses({ retry: { wait: 5 } }, /retry needs/);
  refuses({ failure: 'retry', retry: { wiat: 5 } }, /^unknown option 'retry.wiat'/);
  refuses({ failure: 'retry', retry: { wait: 'soon' } }, /retry.wait.*'soon'/);
  refuses({ failure: 'retry', retry: { wait: 0 } }, /retry.wait must be greater than zero, not 0/);
  refuses({ failure: 'retry', retry: { wait: 5, max: 4 } }, /retry.max.*not 4/);
  refuses({ failure: 'retry', retry: { jitter: 101 } }, /retry.jitter.*101/);
  refuses({ failure: 'retry', retry: 5 }, /retry must be an object, not 5/);
  refuses({ maxRuns: 0 }, /maxRuns.*not 0/);
  refuses({ maxRuns: 1.5 }, /maxRuns.*1\.5/);
  refuses({ maxRuns: '3' }, /maxRuns.*'3'/);
  refuses({ jitter: 5 }, /jitter must be less/);
  refuses({ jitter: 1e13 }, /jitter must be less/, (o) => s.every(1e14, nothing, o)); // both are "never"
  refuses({ jitter: 1e13 }, /jitter must be less/, (o) => s.every(Infinity, nothing, o));
  refuses({ until: 'tomorrow' }, /until.*'tomorrow'/);
  refuses({ until: new Date(NaN) }, /until.*Invalid Date/);
  refuses({ ref: 'no' }, /ref.*'no'/);
  refuses({ name: 5 }, /name.*5/);
  refuses({ priority: 'urgent' }, /priority.*'urgent'/);
  refuses({ signal: 'abort' }, /signal must be an AbortSignal, not 'abort'/);
  refuses({ signal: null }, /signal.*null/);
  refuses({ signal: {} }, /signal/);
  refuses({ limit: 0 }, /limit/);
  refuses({ period: 5 }, /'period'/, once);
  refuses({ maxRuns: 5 }, /'maxRuns'/, once);
  refuses({ failure: 'continue' }, /continue/, once);
  refuses(null, /options must be an object, not null/, once);
  refuses(5, /options must be an object, not 5/, once);
  refuses('x', /options must be an object, not 'x'/, once);
  refuses({ bugdet: 1 }, /'bugdet'/, (o) => new Scheduler(o));
  refuses({ budget: 0 }, /budget/, (o) => new Scheduler(o));
  refuses({ budget: '2s' }, /budget.*'2s'/, (o) => new Scheduler(o));
  refuses({ batch: 1 }, /batch.*1/, (o) => new Scheduler(o));
  refuses({ maxPending: -1 }, /maxPending.*-1/, (o) => new Scheduler(o));
  refuses({ keepAlive: 'yes' }, /keepAlive.*'yes'/, (o) => new Scheduler(o));
  refuses({ threads: 2, concurrency: 0 }, /threads needs a concurrency above 0/, (o) => new Scheduler(o));
  refuses({ width: -1 }, /width.*-1/, (o) => s.lane(o));
  refuses({ wdith: 1 }, /unknown option 'wdith'/, (o) => s.lane(o));
  assert.throws(() => s.shutdown({ delayd: true }), /'delayd'/);
  assert.throws(() => s.shutdown({ delayed: 'yes' }), /delayed.*'yes'/);
  s.schedule(0, nothing).cancel(); // the scheduler is still open
  counts(s, { cancelled: 1 });
});

test('if the core refuses a spec, the error has the text of uvs_check', async (t) => {
  const io = new Float64Array(IO.SIZE);
  const engine = new Engine(NO_FRONT, io, schedulerOptions(undefined, io));
  t.after(() => engine.close());
  const read = taskOptions({ maxRuns: 1 }, { periodic: true, periodNs: 1e6 });
  const refusesAt = (index, value, message) => {
    const core = Object.assign([...read.core], { [index]: value });
    assert.throws(() => engine.submit(nothing, 0, { ...read, core }, undefined),
      { code: 'EINVAL', errno: -errno.EINVAL, message });
  };
  refusesAt(IO.MAX_BURST - IO.KIND, 3, 'uvsched: max_burst is only for UVS_MISSED_CATCH_UP');
  refusesAt(IO.KIND - IO.KIND, 9, /^uvsched: kind /);
  await engine.submit(nothing, 0, read, undefined).promise; // the refusals left no trace
});

test('options are read once, and may be frozen, proxied or without prototype', async (t) => {
  const s = open(t);
  const bare = Object.assign(Object.create(null), { name: 'bare' });
  const reads = [];
  const proxied = new Proxy({ name: 'proxied', maxRuns: 1 }, {
    get(target, key) {
      reads.push(key);
      return target[key];
    },
  });
  const changed = { name: 'before', maxRuns: 1 };
  const tasks = [
    s.every(1, nothing, Object.freeze({ name: 'frozen', maxRuns: 1 })),
    s.schedule(1, nothing, bare),
    s.every(1, nothing, proxied),
    s.every(1, nothing, changed),
  ];
  changed.name = 'after';
  changed.maxRuns = 5;
  await Promise.all(tasks.map((task) => task.promise));
  assert.deepEqual(tasks.map((task) => task.name), ['frozen', 'bare', 'proxied', 'before']);
  assert.deepEqual(tasks.map((task) => task.runs), [1, 1, 1, 1]);
  assert.ok(reads.includes('maxRuns'));
  const trap = new Proxy({}, { ownKeys() { throw new Error('trap'); } });
  assert.throws(() => s.schedule(1, nothing, trap), /trap/);
  assert.equal(s.tasks().length, 0);
});
