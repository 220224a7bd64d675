// SPDX-License-Identifier: MIT
'use strict';

// These tests wait for a few ms of real time. They assert only that nothing comes early.

const assert = require('node:assert');
const { AsyncLocalStorage, createHook } = require('node:async_hooks');
const { spawnSync } = require('node:child_process');
const path = require('node:path');
const test = require('node:test');
const nodeTimers = require('node:timers');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');
const timers = require('../timers.js');

const { setTimeout, setInterval, clearTimeout, clearInterval } = timers;

const passed = (ms) => new Promise((resolve) => nodeTimers.setTimeout(resolve, ms));
const fired = (ms, ...args) => new Promise((resolve) => setTimeout((...a) => resolve(a), ms, ...args));

function hold(ms) {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

// Runs a program in a process of its own. Returns its status and the lines that it prints.
function run(body, ...flags) {
  const text = `const t = require('./timers.js'); const p = require('./timers/promises.js'); ${body}`;
  const child = spawnSync(process.execPath, [...flags, '-e', text], {
    cwd: path.join(__dirname, '..'), encoding: 'utf8', timeout: 20000,
  });
  assert.strictEqual(child.signal, null, 'the program was killed');
  return { ...child, lines: child.stdout.trim().split('\n') };
}

test('every name of node:timers is exported', async () => {
  for (const name of Object.keys(nodeTimers)) assert.ok(name in timers, name);
  assert.strictEqual(timers.setImmediate, nodeTimers.setImmediate);
  assert.strictEqual(timers.clearImmediate, nodeTimers.clearImmediate);
  assert.strictEqual(timers.promises, require('../timers/promises.js'));
  const esm = await import('../timers.mjs');
  assert.strictEqual(esm.default, timers);
  for (const name of ['setTimeout', 'setInterval', 'clearTimeout', 'clearInterval', 'promises']) {
    assert.strictEqual(esm[name], timers[name]);
  }
});

test('setTimeout calls once, with its arguments, and `this` is the Timeout', async () => {
  let calls = 0;
  const [self, args, timeout] = await new Promise((resolve) => {
    const timeout = setTimeout(function (...args) {
      calls++;
      resolve([this, args, timeout]);
    }, 1, 1, 'two', undefined, null, 5);
  });
  assert.strictEqual(self, timeout);
  assert.strictEqual(timeout.constructor.name, 'Timeout');
  assert.deepStrictEqual(args, [1, 'two', undefined, null, 5]);
  assert.deepStrictEqual(await fired(2), []);
  assert.strictEqual(calls, 1);
});

test('setInterval calls repeatedly, with its arguments, and `this` is the Timeout', async () => {
  const seen = await new Promise((resolve) => {
    const seen = [];
    const interval = setInterval(function (...args) {
      seen.push([this === interval, ...args]);
      if (seen.length === 3) {
        clearInterval(this);
        resolve(seen);
      }
    }, 1, 'a', 'b');
  });
  await fired(5);
  assert.deepStrictEqual(seen, Array(3).fill([true, 'a', 'b']));
});

test('no timeout fires early', async () => {
  await Promise.all([0, 1, 2, 3.7, 5, 8, 13].map(async (ms) => {
    const start = performance.now();
    await fired(ms);
    const took = performance.now() - start;
    assert.ok(took >= Math.max(1, Math.trunc(ms)), `${ms}: ${took}`);
  }));
});

test('the delay is truncated to whole ms, is at least 1, and has no upper limit', async () => {
  const warned = [];
  const onWarning = (warning) => warned.push(warning);
  process.on('warning', onWarning);
  const made = (delay) => [setTimeout, setInterval].map((set) => {
    const timeout = set(() => assert.fail('not so soon'), delay);
    const ms = timeout._idleTimeout;
    clearTimeout(timeout);
    return ms;
  });
  for (const delay of [undefined, null, '', 'x', NaN, -1, -Infinity, 0, 0.9, 1, 1.9, {}, true]) {
    assert.deepStrictEqual(made(delay), [1, 1], String(delay));
  }
  assert.deepStrictEqual(made('25'), [25, 25]);
  assert.deepStrictEqual(made(25.9), [25, 25]);
  for (const delay of [2 ** 31 - 1, 2 ** 31, 2 ** 32, 2 ** 32 + 1, 1e13, 1e300, Infinity]) {
    assert.deepStrictEqual(made(delay), [delay, delay]);
    const far = [setTimeout, setInterval].map((set) => set(() => assert.fail('not so soon'), delay));
    await fired(4);
    far.forEach(clearTimeout);
  }
  for (const delay of [1n, Symbol('ms')]) {
    assert.throws(() => setTimeout(() => {}, delay), TypeError);
    assert.throws(() => setInterval(() => {}, delay), TypeError);
  }
  process.off('warning', onWarning);
  assert.deepStrictEqual(warned, []);
});

test('a non-function is refused', () => {
  for (const callback of [undefined, null, 'code', 1, {}, Symbol('f')]) {
    for (const set of [setTimeout, setInterval]) {
      assert.throws(() => set(callback, 1), { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE' });
    }
  }
});

test('timers fire in the order of their deadlines, and equal delays in the order of calls', async () => {
  const from = performance.now();
  const seen = [];
  const all = [];
  for (let i = 0; i < 20; i++) {
    all.push(new Promise((resolve) => setTimeout(() => resolve(seen.push(`late ${i}`)), 30)));
  }
  all.push(new Promise((resolve) => {
    const interval = setInterval(() => {
      clearInterval(interval);
      resolve(seen.push('late interval'));
    }, 30);
  }));
  for (let i = 0; i < 20; i++) {
    all.push(new Promise((resolve) => setTimeout(() => resolve(seen.push(`soon ${i}`)), 2)));
  }
  const interleaved = performance.now() - from > 28; // on a busy machine the deadlines may overlap
  hold(35); // all are due in one loop pass
  await Promise.all(all);
  const names = (name) => Array.from({ length: 20 }, (_, i) => `${name} ${i}`);
  const late = [...names('late'), 'late interval'];
  if (!interleaved) assert.deepStrictEqual(seen, [...names('soon'), ...late]);
  assert.deepStrictEqual(seen.filter((name) => late.includes(name)), late);
  assert.deepStrictEqual(seen.filter((name) => !late.includes(name)), names('soon'));
});

test('nextTick callbacks and microtasks run between two timers', async () => {
  const seen = [];
  const one = (name) => new Promise((resolve) => setTimeout(() => {
    seen.push(name);
    process.nextTick(() => seen.push(`${name} tick`));
    Promise.resolve().then(() => resolve(seen.push(`${name} micro`)));
  }, 1));
  const all = [one('a'), one('b')];
  hold(3);
  await Promise.all(all);
  assert.deepStrictEqual(seen, ['a', 'a tick', 'a micro', 'b', 'b tick', 'b micro']);
});

test('a cleared timer never fires', async () => {
  const never = () => assert.fail('cleared');
  clearTimeout(setTimeout(never, 1));
  clearInterval(setTimeout(never, 1));
  clearTimeout(setInterval(never, 1));
  clearInterval(setInterval(never, 1));
  const others = [];
  const first = setTimeout(() => others.forEach(clearTimeout), 1);
  others.push(setTimeout(never, 1), setInterval(never, 1), setTimeout(never, 2));
  hold(4);
  let calls = 0;
  const self = setInterval(() => {
    calls++;
    clearInterval(self);
    clearInterval(self);
  }, 1);
  await fired(5);
  assert.strictEqual(calls, 1);
  assert.strictEqual(first._destroyed, true);
});

test('clearTimeout accepts the number of a timer, also as a text', async () => {
  const never = () => assert.fail('cleared');
  for (const set of [setTimeout, setInterval]) {
    const a = set(never, 2);
    const b = set(never, 2);
    assert.strictEqual(typeof +a, 'number');
    assert.strictEqual(+a, +a);
    assert.notStrictEqual(+a, +b);
    clearTimeout(+a);
    clearInterval(`${b}`);
  }
  const fires = fired(3);
  clearTimeout(123456789);
  await fires;
});

test('clearTimeout ignores values that are not timers', () => {
  for (const thing of [undefined, null, '', 'x', NaN, 0, -1, true, {}, [], () => {}, new Date(), 1n]) {
    clearTimeout(thing);
    clearInterval(thing);
  }
});

test("our clear functions clear node's timers, and node's clear ours", async () => {
  const never = () => assert.fail('cleared');
  clearTimeout(nodeTimers.setTimeout(never, 1));
  clearInterval(nodeTimers.setInterval(never, 1));
  clearTimeout(+nodeTimers.setTimeout(never, 1));
  nodeTimers.clearTimeout(setTimeout(never, 1));
  nodeTimers.clearInterval(setInterval(never, 1));
  await fired(4);
});

test('close and Symbol.dispose clear a timer', async () => {
  const never = () => assert.fail('cleared');
  const timeout = setTimeout(never, 1);
  assert.strictEqual(timeout.close(), timeout);
  setInterval(never, 1).close();
  if (Symbol.dispose !== undefined) {
    setTimeout(never, 1)[Symbol.dispose]();
    setInterval(never, 1)[Symbol.dispose]();
  }
  await fired(4);
});

test('refresh restarts a timer that waits, is due, is in its callback, or has fired', async () => {
  let start = performance.now();
  let calls = 0;
  const early = () => {
    const took = performance.now() - start;
    assert.ok(took >= 20, `early: ${took}`);
    calls++;
  };
  let timeout;
  do { // again if the machine was so busy that it fired already
    clearTimeout(timeout);
    calls = 0;
    start = performance.now();
    timeout = setTimeout(early, 20);
    await passed(8);
  } while (calls > 0);
  start = performance.now();
  assert.strictEqual(timeout.refresh(), timeout); // waiting
  while (calls === 0) await passed(2);
  assert.strictEqual(timeout._destroyed, true);

  start = performance.now();
  timeout.refresh(); // fired
  assert.strictEqual(timeout._destroyed, false);
  while (calls === 1) await passed(2);

  // Due, in the same loop pass as a timer that refreshes it.
  setTimeout(() => {
    start = performance.now();
    timeout.refresh();
  }, 1);
  timeout.refresh();
  start = Infinity;
  hold(25);
  while (calls === 2) await passed(2);
  assert.strictEqual(calls, 3);

  let again = 0;
  const inside = setTimeout(() => {
    assert.ok(performance.now() - start >= 3);
    start = performance.now();
    if (++again < 4) inside.refresh();
  }, 3);
  start = performance.now();
  while (again < 4) await passed(1);
  await fired(6);
  assert.strictEqual(again, 4);
  assert.strictEqual(calls, 3);
});

test('refresh does not revive a cleared timer', async () => {
  const never = () => assert.fail('cleared');
  const cleared = [setTimeout(never, 1), setInterval(never, 1)];
  cleared.forEach(clearTimeout);
  cleared.forEach((timeout) => timeout.refresh());
  let calls = 0;
  const timeout = setTimeout(() => { calls++; }, 1);
  while (calls === 0) await fired(1);
  clearTimeout(timeout);
  timeout.refresh();
  const inside = setTimeout(() => {
    calls++;
    inside.refresh();
    clearTimeout(inside);
    inside.refresh();
  }, 1);
  await fired(6);
  assert.strictEqual(calls, 2);
});

test('a timeout that was refreshed after it fired can be cleared, also by its number', async () => {
  const fn = test.mock.fn();
  const timeout = setTimeout(fn, 1);
  const id = +timeout;
  while (fn.mock.callCount() === 0) await fired(1);
  clearTimeout(id); // the number is no longer known
  timeout.refresh();
  clearTimeout(id);
  const other = setTimeout(fn, 1);
  while (fn.mock.callCount() === 1) await fired(1);
  clearTimeout(other.refresh());
  await fired(4);
  assert.strictEqual(fn.mock.callCount(), 2);
});

test('refresh moves the grid of an interval', async () => {
  let start = performance.now();
  let due = 20;
  let calls = 0;
  const interval = setInterval(() => {
    const took = performance.now() - start;
    assert.ok(took >= due, `early: ${took}`);
    calls++;
    due += 20;
    if (calls === 2) { // in its function
      start = performance.now();
      due = 20;
      interval.refresh();
    }
  }, 20);
  await passed(10);
  start = performance.now();
  due = 20;
  calls = 0; // on a busy machine it has fired already
  interval.refresh();
  while (calls < 3) await passed(2);
  // Due, in the same loop pass as a timer that refreshes it.
  await new Promise((resolve) => setTimeout(() => {
    start = performance.now();
    due = 20;
    interval.refresh();
    resolve();
  }, 1) && hold(45));
  while (calls < 5) await passed(2);
  clearInterval(interval);
});

test('an interval stays on its grid, and one run makes up for missed points', async () => {
  const period = 20;
  const times = [];
  const before = performance.now(); // no later than the grid's origin
  await new Promise((resolve) => {
    let start; // no earlier than the grid's origin
    const interval = setInterval(() => {
      times.push(performance.now());
      if (times.length === 1) {
        hold(start + 3.5 * period - performance.now());
      } else if (times.length === 6) {
        clearInterval(interval);
        resolve();
      }
    }, period);
    start = performance.now();
  });
  // The first run is held past the points 2 and 3. The second run makes up for both, so the third
  // run is the one of point 4 or later, and the others follow it on the grid. Each point is a lower
  // bound: a run for each missed point, or runs off the grid, would come earlier.
  for (let run = 2; run < times.length; run++) {
    assert.ok(times[run] - before >= (run + 2) * period, `run ${run + 1} came early`);
  }
});

test('an interval does not wait for a promise', async () => {
  let calls = 0;
  const interval = setInterval(() => {
    calls++;
    return new Promise(() => {});
  }, 1);
  while (calls < 3) await fired(1);
  clearInterval(interval);
});

test('ref and unref return the timer and decide whether it keeps the process alive', async () => {
  for (const set of [setTimeout, setInterval]) {
    const timeout = set(() => {}, 1);
    assert.strictEqual(timeout.hasRef(), true);
    assert.strictEqual(timeout.unref(), timeout);
    assert.strictEqual(timeout.unref().hasRef(), false);
    assert.strictEqual(timeout.ref(), timeout);
    assert.strictEqual(timeout.ref().hasRef(), true);
    clearTimeout(timeout);
    const foreign = {};
    assert.strictEqual(timeout.unref.call(foreign), foreign);
  }
  const { status, lines } = run(`
    const never = () => console.log('never');
    t.setTimeout(never, 1e7).unref();
    t.setInterval(never, 1e7).unref();
    t.setTimeout(never, Infinity).ref().unref();
    let n = 0;
    const holder = t.setTimeout(() => console.log('held'), 9000).unref().ref();
    const again = t.setTimeout(() => {
      if (++n === 2) t.setTimeout(() => console.log('held'), 1).unref().ref() && t.clearTimeout(holder);
      else t.setTimeout(() => console.log(again.refresh().hasRef()), 1);
    }, 5).unref();`);
  assert.strictEqual(status, 0);
  assert.deepStrictEqual(lines, ['false', 'held']);
});

test("unref'd timers do not cause another loop iteration", () => {
  const { lines } = run(`
    let n = 0;
    process.on('beforeExit', () => {
      if (++n === 5) process.exit();
      t.setTimeout(() => {}, 1000 + n).unref();
      t.setTimeout(() => {}, 2000 + n).unref().ref().unref().refresh();
      t.clearTimeout(t.setTimeout(() => {}, 3000 + n));
      t.setInterval(() => {}, 4000 + n).unref();
    });
    process.on('exit', () => console.log(n));
    t.setTimeout(() => {}, 1);`);
  assert.deepStrictEqual(lines, ['1']);
});

test("an error is an 'uncaughtException' in its timer's async context, and other timers still fire", () => {
  const { status, lines } = run(`
    const { AsyncLocalStorage } = require('async_hooks');
    const store = new AsyncLocalStorage();
    process.on('uncaughtException', (e) => console.log(e, store.getStore()));
    const hold = Date.now() + 5;
    store.run('s1', () => t.setTimeout(() => { throw 'one'; }, 1));
    t.setTimeout(() => console.log('two'), 1);
    store.run('s2', () => t.setTimeout(() => { throw undefined; }, 1));
    store.run('s3', () => {
      let n = 0;
      const i = t.setInterval(() => {
        if (++n === 3) t.clearInterval(i), r = t.setTimeout(again, 1);
        throw 'run ' + n;
      }, 2);
      let r, m = 0;
      const again = () => { if (++m === 1) r.refresh(); throw 'refreshed ' + m; };
    });
    while (Date.now() < hold);`);
  assert.strictEqual(status, 0);
  assert.deepStrictEqual(lines, [
    'one s1', 'two', 'undefined s2', 'run 1 s3', 'run 2 s3', 'run 3 s3', 'refreshed 1 s3', 'refreshed 2 s3',
  ]);
});

test('an unhandled error ends the process before anything else runs', () => {
  const { status, lines, stderr } = run(`
    t.setTimeout(() => { Promise.resolve().then(() => console.log('never')); throw new Error('boo'); }, 1);
    t.setTimeout(() => console.log('never'), 1);`);
  assert.strictEqual(status, 1);
  assert.deepStrictEqual(lines, ['']);
  assert.match(stderr, /Error: boo/);
});

test('the rejection of an async function is an unhandled rejection', () => {
  const { status, lines } = run(`
    process.on('unhandledRejection', (e) => console.log(e));
    t.setTimeout(async () => { throw 'one'; }, 1);
    let n = 0;
    const i = t.setInterval(async () => { if (++n === 2) t.clearInterval(i); throw 'run ' + n; }, 2);`);
  assert.strictEqual(status, 0);
  assert.deepStrictEqual(lines, ['one', 'run 1', 'run 2']);
});

test('timers that have fired or were cleared are garbage-collected', () => {
  const { status, lines } = run(`
    const left = [];
    const make = (set, end) => {
      const big = { big: true };
      const timeout = set(() => end(timeout), 1, big);
      +timeout;
      left.push(new WeakRef(timeout), new WeakRef(big));
    };
    make(t.setTimeout, () => {});
    make(t.setTimeout, t.clearTimeout);
    make(t.setInterval, t.clearInterval);
    (() => { t.clearTimeout(+t.setTimeout(() => {}, 1e7)); })();
    (() => { const x = t.setInterval(() => {}, 1e7); left.push(new WeakRef(x)); t.clearInterval(+x); })();
    (() => {
      let n = 0;
      const x = t.setTimeout(() => { if (++n < 3) x.refresh(); }, 1);
      left.push(new WeakRef(x));
    })();
    (() => {
      const x = t.setTimeout(() => setImmediate(() => +x), 1); // reads its number after it fired
      left.push(new WeakRef(x));
    })();
    const look = (tries) => setTimeout(() => {
      gc();
      const there = left.filter((r) => r.deref()).length;
      if (there > 0 && tries > 0) look(tries - 1);
      else console.log(left.length, there);
    }, 50);
    look(20);`,
  '--expose-gc');
  assert.strictEqual(status, 0);
  assert.deepStrictEqual(lines, ['9 0']);
});

test('async_hooks sees each Timeout, and its destroy once', async () => {
  const seen = [];
  const ids = [];
  const note = (what) => (id) => { if (ids.includes(id)) seen.push(`${what} ${ids.indexOf(id)}`); };
  const hook = createHook({
    init(id, type) { if (type === 'Timeout') seen.push(`init ${ids.push(id) - 1}`); },
    before: note('before'),
    after: note('after'),
    destroy: note('destroy'),
  }).enable();
  let calls = 0;
  const timeout = setTimeout(() => { if (++calls === 1) timeout.refresh(); }, 1);
  while (calls < 2) await new Promise(setImmediate);
  await new Promise(setImmediate);
  const once = ['init 0', 'before 0', 'after 0', 'before 0', 'after 0', 'destroy 0'];
  assert.deepStrictEqual(seen, once);
  timeout.refresh();
  while (calls < 3) await new Promise(setImmediate);
  await new Promise(setImmediate);
  hook.disable();
  assert.deepStrictEqual(seen, [...once, 'init 1', 'before 1', 'after 1', 'destroy 1']);
});

test('a callback sees the store of setTimeout; if refreshed after it fired, that of refresh', async () => {
  const store = new AsyncLocalStorage();
  const seen = [];
  const record = () => seen.push(store.getStore());
  const timeout = store.run('set', () => setTimeout(record, 1));
  store.run('no', () => timeout.refresh());
  while (seen.length < 1) await fired(1);
  store.run('refreshed', () => timeout.refresh());
  while (seen.length < 2) await fired(1);
  const interval = store.run('interval', () => setInterval(record, 1));
  while (seen.length < 4) await fired(1);
  clearInterval(interval);
  assert.deepStrictEqual(seen.slice(0, 4), ['set', 'refreshed', 'interval', 'interval']);
});

test('util.promisify(setTimeout) is setTimeout of timers/promises', async () => {
  assert.strictEqual(promisify(setTimeout), require('../timers/promises.js').setTimeout);
  assert.strictEqual(await promisify(setTimeout)(1, 'value'), 'value');
});

test('timers work after the default scheduler is closed', () => {
  const { status, lines } = run(`
    require('./index.js').defaultScheduler().close()
      .then(() => t.setTimeout(() => console.log('fired'), 1));`);
  assert.strictEqual(status, 0);
  assert.deepStrictEqual(lines, ['fired']);
});

test('a worker has its own timers, and can be terminated while they wait', async () => {
  const worker = new Worker(`
    const { parentPort } = require('worker_threads');
    const t = require(${JSON.stringify(require.resolve('../timers.js'))});
    t.setTimeout(() => parentPort.postMessage('fired'), 1);
    t.setInterval(() => {}, 1);
    t.setTimeout(() => {}, 2 ** 40);`, { eval: true });
  assert.strictEqual(await new Promise((resolve) => worker.once('message', resolve)), 'fired');
  await worker.terminate();
});
