// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { Scheduler, AbortError } = require('..');
const { open, sleep, turn, hold, gate, until, balanced, counts, uncaught } = require('./lib/helper.js');

const nothing = () => {};
const KINDS = [undefined, { name: 'with options' }];
const end = (task) => task.promise.then((value) => value, (e) => e.name);

test('shutdown runs delayed tasks and ends periodic tasks', async (t) => {
  const s = open(t);
  const ends = [
    end(s.schedule(15, () => 'plain')), end(s.schedule(15, () => 'options', { name: 'x' })),
    end(s.at(Date.now() + 15, () => 'at')), end(s.every(1, nothing)), end(s.execute(() => 'now')),
  ];
  const over = s.shutdown();
  assert.ok(over instanceof Promise);
  assert.throws(() => s.schedule(1, nothing), (e) => e.code === 'ESHUTDOWN' && /shut down/.test(e.message));
  assert.throws(() => s.every(1, nothing), { code: 'ESHUTDOWN' });
  assert.throws(() => s.lane(), { code: 'ESHUTDOWN' });
  assert.equal(await over, undefined);
  assert.deepEqual(await Promise.all(ends), ['plain', 'options', 'at', 'AbortError', 'now']);
  counts(s, { completed: 4, cancelled: 1 });
  assert.deepEqual(s.tasks(), []);
});

test('shutdown({ delayed: false }) cancels tasks that are not due', async (t) => {
  const s = open(t);
  const ends = [
    end(s.schedule('1h', nothing)), end(s.schedule('1h', nothing, { name: 'x' })),
    end(s.at(Date.now() + 1e6, nothing)), end(s.schedule(Infinity, nothing)), end(s.every('1h', nothing)),
  ];
  await s.shutdown({ delayed: false });
  assert.deepEqual(await Promise.all(ends), Array(5).fill('AbortError'));
  counts(s, { cancelled: 5 });
});

test('shutdown({ delayed: false }) still runs tasks that are due', async (t) => {
  for (const options of KINDS) {
    const s = open(t);
    let ran = 0;
    let over;
    s.execute(() => { over = s.shutdown({ delayed: false }); }, options);
    for (let i = 0; i < 5; i++) s.execute(() => { ran++; }, options);
    await until(() => over !== undefined);
    await over;
    assert.equal(ran, 5);
    counts(s, { completed: 6 });
  }
});

test('shutdown({ periodic: true }) waits until the last periodic task ends', async (t) => {
  const s = open(t);
  let runs = 0;
  const task = s.every(2, () => ++runs, { maxRuns: 4 });
  const cancelled = s.every(1, nothing);
  const over = s.shutdown({ periodic: true });
  cancelled.cancel();
  await over;
  assert.equal(runs, 4);
  assert.equal(await task.promise, 4);
});

test('shutdown, shutdownNow and close may be called repeatedly and with other options', async (t) => {
  const s = open(t);
  const task = s.schedule('1h', nothing);
  const seen = end(task);
  const first = s.shutdown();
  await sleep(2);
  assert.equal(task.state, 'waiting');
  const second = s.shutdown({ delayed: false });
  await Promise.all([first, second, s.shutdown(), s.shutdownNow(), s.close(), s.close()]);
  assert.equal(await seen, 'AbortError');
  await s.shutdown();
  await s.close();
  assert.equal((await s.shutdownNow())[0], task); // the first shutdownNow found it
});

test('shutdown waits for async functions, and their runs keep their outcome', async (t) => {
  for (const options of KINDS) {
    const s = open(t);
    let done = false;
    const { promise, open: proceed } = gate();
    const task = s.execute(async (run) => {
      await promise;
      await sleep(5);
      assert.equal(run.signal.aborted, false);
      done = true;
      return 'value';
    }, options);
    await until(() => task.state === 'running');
    const over = s.shutdown();
    proceed();
    await over;
    assert.ok(done);
    assert.equal(await task.promise, 'value');
  }
});

test('shutdownNow cancels waiting tasks, and resolves to those that never ran', async (t) => {
  const s = open(t);
  const ran = s.every(1, nothing);
  await until(() => ran.runs > 0);
  const tasks = [
    s.schedule('3h', nothing), s.schedule('1h', nothing, { name: 'x' }), s.every('2h', nothing),
    s.schedule('4h', nothing),
  ];
  const ends = [ran, ...tasks].map(end);
  const neverRan = await s.shutdownNow();
  assert.deepEqual(new Set(neverRan), new Set(tasks));
  assert.equal(neverRan.length, 4);
  assert.deepEqual(await Promise.all(ends), Array(5).fill('AbortError'));
  counts(s, { cancelled: 5 });
  assert.throws(() => s.execute(nothing), { code: 'ESHUTDOWN' });
});

test('shutdownNow inside a run: tasks due in the same loop pass do not start, and are returned', async (t) => {
  for (const name of ['shutdownNow', 'close']) {
    for (const budget of ['1us', '1s']) {
      const s = open(t, { budget });
      let over;
      let ran = 0;
      const first = s.execute(() => { over = s[name](); balanced(s); return 'first'; });
      const firstEnd = end(first);
      const rest = Array.from({ length: 20 }, (_, i) => s.execute(() => { ran++; }, KINDS[i % 2]));
      const ends = rest.map(end);
      await until(() => over !== undefined);
      const back = await over;
      assert.equal(ran, 0);
      assert.equal(await firstEnd, 'first');
      assert.deepEqual(await Promise.all(ends), Array(20).fill('AbortError'));
      assert.ok([first, ...rest].every((task) => task.state === 'ended'));
      if (name === 'shutdownNow') {
        assert.deepEqual(new Set(back), new Set(rest));
        assert.equal(back.length, 20);
        counts(s, { completed: 1, cancelled: 20 });
      }
    }
  }
});

test('close cancels waiting tasks, waits for running functions, and starts no run', async (t) => {
  const s = new Scheduler();
  let ended = 0;
  let begun = 0;
  const running = KINDS.map((options) => s.execute(async (run) => {
    begun++;
    await new Promise((resolve) => { run.signal.addEventListener('abort', () => setTimeout(resolve, 3)); });
    ended++;
    return 'own';
  }, options));
  running.push(s.every(1, async () => { begun++; await sleep(4); ended++; return 'own'; }));
  const waiting = [s.schedule('1h', nothing), s.every('1h', nothing), s.lane().schedule('1h', nothing)];
  const ends = [...running, ...waiting].map(end);
  await until(() => begun === 3);
  const closed = s.close();
  assert.equal(s.close(), closed);
  assert.throws(() => s.execute(nothing), { code: 'ESHUTDOWN' });
  assert.equal(await closed, undefined);
  assert.equal(ended, 3);
  assert.deepEqual((await Promise.all(ends)).slice(0, 2), ['own', 'own']);
  assert.deepEqual((await Promise.all(ends)).slice(3), Array(3).fill('AbortError'));
  assert.throws(() => s.execute(nothing), { code: 'ESHUTDOWN' });
  assert.throws(() => s.lane(), { code: 'ESHUTDOWN' });
  assert.deepEqual(s.tasks(), []);
  assert.ok([...running, ...waiting].every((task) => task.state === 'ended' && task.cancel() === 'ended'));
  assert.ok([...running, ...waiting].every((task) => task.reschedule(1) === false && !task.hasRef()));
  balanced(s);
});

test('stats() of a closed scheduler has the final counts', async () => {
  const s = new Scheduler();
  s.on('error', nothing);
  await s.execute(nothing).promise;
  await s.execute(nothing, { name: 'x' }).promise;
  s.execute(() => { throw new Error('x'); });
  s.execute(() => { throw new Error('x'); }, { name: 'x' });
  s.schedule('1h', nothing).cancel();
  await until(() => s.stats().failed === 2);
  s.schedule('1h', nothing);
  s.schedule('1h', nothing, { name: 'x' });
  await s.close();
  counts(s, { completed: 2, failed: 2, cancelled: 3 });
  assert.equal(s.stats().submitted, 7);
});

test('close does not time out runs that end within their limit', async () => {
  const s = new Scheduler();
  let finish;
  const task = s.execute(() => new Promise((resolve) => { finish = resolve; }), { limit: '1h' });
  await until(() => finish !== undefined);
  const closed = s.close();
  await sleep(5);
  finish('in time');
  assert.equal(await task.promise, 'in time');
  await closed;
});

test('time limits also apply during a shutdown', async (t) => {
  const s = open(t);
  let finish;
  const task = s.schedule(1, () => new Promise((resolve) => { finish = resolve; }), { limit: 5 });
  const seen = end(task);
  const over = s.shutdown();
  assert.equal(await seen, 'TimeoutError');
  finish();
  await over;
});

test('shutdown, shutdownNow and close may be called inside functions, listeners and promise callbacks', async (t) => {
  uncaught(t);
  for (const name of ['shutdown', 'shutdownNow', 'close']) {
    for (const options of KINDS) {
      const places = [
        (s, call) => { s.execute(call, options); },
        (s, call) => { s.execute(async () => { await sleep(1); call(); }, options); },
        (s, call) => { s.on('error', call); s.execute(() => { throw new Error('x'); }, options); },
        (s, call) => { s.on('error', call); s.execute(async () => { throw new Error('x'); }, options); },
        (s, call) => { s.execute(nothing, options).promise.then(call); },
        (s, call) => {
          const task = s.execute((run) => new Promise((resolve) => {
            run.signal.addEventListener('abort', () => { call(); resolve(); });
          }), options);
          s.schedule(2, () => task.cancel());
        },
        (s, call) => { s.every(1, (run) => { if (run.run === 2) call(); }); },
        (s, call) => { s.on('missed', call); s.every(1, () => hold(5)); },
        (s, call) => { s.execute(() => sleep(6), { limit: 1 }).promise.catch(call); },
        (s, call) => { s.lane().dispose().then(call); },
      ];
      for (const place of places) {
        const s = open(t);
        let over;
        place(s, () => { over ??= s[name](); });
        const other = s.schedule(name === 'shutdown' ? 3 : '1h', nothing, options);
        other.promise.catch(nothing);
        await until(() => over !== undefined, `${name} by ${place}`);
        await over;
        assert.equal(other.state, 'ended');
        balanced(s);
        await s.close();
        balanced(s);
      }
    }
  }
});

test('after a shutdown, cancel, reschedule and ref of a task have no effect', async (t) => {
  for (const name of ['shutdown', 'shutdownNow', 'close']) {
    const s = open(t);
    const tasks = KINDS.map((options) => s.schedule(1, nothing, options));
    tasks.forEach((task) => task.promise.catch(nothing));
    await s[name]();
    for (const task of tasks) {
      assert.equal(task.cancel(), 'ended');
      assert.equal(task.reschedule(5), false);
      assert.equal(task.ref(), task);
      assert.equal(task.unref(), task);
      assert.equal(task.remaining, undefined);
      assert.equal(task.hasRef(), false);
    }
  }
});

test('during a shutdown, a waiting task can be cancelled, and a task with options can be moved', async (t) => {
  for (const options of KINDS) {
    const s = open(t);
    const [a, b] = [s.schedule('1h', nothing, options), s.schedule('1h', nothing, options)];
    a.promise.catch(nothing);
    const over = s.shutdown();
    await turn();
    assert.equal(a.cancel(), 'cancelled');
    assert.equal(b.reschedule(1), options !== undefined);
    assert.equal(b.state, 'waiting');
    if (options === undefined) b.cancel();
    await over;
    counts(s, options === undefined ? { cancelled: 2 } : { cancelled: 1, completed: 1 });
  }
});

test('an empty scheduler shuts down, and 50 schedulers close at once', async () => {
  for (const name of ['shutdown', 'shutdownNow', 'close']) {
    const s = new Scheduler();
    await s[name]();
    await s.close();
  }
  await Promise.all(Array.from({ length: 50 }, () => {
    const s = new Scheduler();
    s.schedule('1h', nothing);
    s.every('1h', nothing).promise.catch((e) => assert.ok(e instanceof AbortError));
    return s.close();
  }));
});
