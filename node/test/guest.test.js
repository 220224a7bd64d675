// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { Worker } = require('node:worker_threads');
const { Scheduler } = require('..');
const { root, program, says, sleep, counts } = require('./lib/helper.js');

const HEAD = `const uvsched = require(${JSON.stringify(root)});
  const { parentPort } = require('node:worker_threads');`;
const worker = (source, options) => new Worker(HEAD + source, { eval: true, ...options });
const event = (emitter, name) => new Promise((resolve, reject) => {
  emitter.once(name, resolve);
  emitter.once('error', reject);
});

// Makes tasks of all kinds, in all states. They would keep the process alive for ever.
const WORK = `
  const s = new uvsched.Scheduler();
  for (const sch of [uvsched.defaultScheduler(), s]) {
    for (let i = 0; i < 100; i++) sch.schedule(i / 10, () => {});
    for (let i = 0; i < 50; i++) sch.schedule('1h', () => {}, { name: 'x' });
    for (let i = 0; i < 20; i++) sch.every(1, () => {});
    sch.every(1, () => new Promise(() => {}));
    sch.execute(() => new Promise(() => {}));
    sch.execute(() => new Promise(() => {}), { limit: '1h' });
    sch.lane().execute(() => new Promise(() => {}));
    const again = () => sch.execute(again);
    again();
  }`;

test('40 workers with pending tasks are terminated one after the other', async () => {
  for (let i = 0; i < 40; i++) {
    const w = worker(`${WORK} uvsched.schedule(${i % 4}, () => parentPort.postMessage('up'));`);
    if (i % 8 !== 7) await event(w, 'message');
    assert.ok([0, 1].includes(await w.terminate())); // 0: the worker had not started yet
  }
});

test('several workers each have a default scheduler of their own', async () => {
  const all = Array.from({ length: 4 }, (_, i) => worker(`
    let n = 0;
    const task = uvsched.every(1, () => {
      if (++n < 10) return;
      task.cancel();
      parentPort.postMessage(${i});
    });`));
  const ended = all.map((w) => event(w, 'exit'));
  const seen = await Promise.all(all.map((w) => event(w, 'message')));
  assert.deepEqual(seen, [0, 1, 2, 3]);
  assert.deepEqual(await Promise.all(ended), [0, 0, 0, 0]);
});

test("a worker exits when its ref'd tasks have ended, and not before", async () => {
  const w = worker(`
    uvsched.schedule('1h', () => {}).unref();
    uvsched.schedule(30, () => parentPort.postMessage('ran'));`);
  const ended = event(w, 'exit');
  assert.equal(await event(w, 'message'), 'ran');
  assert.equal(await ended, 0);
});

test('process.exit ends a worker, inside a run and outside', async () => {
  for (const source of [
    `${WORK} uvsched.schedule(2, () => process.exit(7));`,
    `${WORK} process.exit(7);`,
    `${WORK} s.close(); uvsched.defaultScheduler().shutdown(); process.exit(7);`,
    `${WORK} s.execute(() => { s.close(); process.exit(7); });`,
    `${WORK} process.on('exit', () => { s.execute(() => {}); s.close(); uvsched.schedule(1, () => {}); });
      setImmediate(() => process.exit(7));`,
  ]) assert.equal(await event(worker(source), 'exit'), 7);
});

test("an uncaught error in a worker emits 'error' on that worker", async () => {
  const w = worker(`${WORK} s.schedule(1, () => { throw new Error('in the worker'); });`);
  const error = await new Promise((resolve) => { w.once('error', resolve); });
  assert.equal(error.message, 'in the worker');
});

test('terminating a worker inside a run does not end the process', async () => {
  for (let i = 0; i < 5; i++) {
    const w = worker(`
      ${i % 2 === 0 ? '' : WORK}
      uvsched.execute(() => { parentPort.postMessage('in'); for (;;); });`);
    await event(w, 'message');
    await w.terminate();
  }
});

test('process.exit() with 10^5 ready tasks does not hang', async () => {
  for (const options of ['', ', { name: "x" }']) {
    await says(`
      for (let i = 0; i < 1e5; i++) uvsched.execute(() => { if (i === 10) process.exit(0); }${options});
      process.on('exit', () => console.log('exit'));`, 'exit');
  }
  await says(`
    for (let i = 0; i < 1e5; i++) uvsched.execute(() => console.log('no'));
    console.log('exit');
    process.exit(0);`, 'exit');
});

test('after process.exit in a run, no other run starts', async () => {
  await says(`
    uvsched.schedule(1, () => { console.log('one'); process.exit(0); });
    uvsched.schedule(1, () => console.log('two'));
    uvsched.schedule(1, () => console.log('three'), { name: 'x' });
    for (const t = performance.now() + 5; performance.now() < t;);`, 'one');
});

test("node exits when only unref'd tasks remain", async () => {
  for (const source of [
    'uvsched.schedule("1h", () => console.log("no")).unref();',
    'uvsched.schedule("1h", () => console.log("no"), { ref: false });',
    'uvsched.every("1h", () => console.log("no")).unref();',
    'uvsched.every(1, () => {}).unref();',
    'uvsched.at(Date.now() + 1e7, () => {}).unref();',
    'uvsched.execute(() => {}); uvsched.schedule("1h", () => {}).unref();',
    'const t = uvsched.schedule("1h", () => {}); setTimeout(() => t.unref(), 5);',
    'uvsched.schedule("1h", () => {}).unref().ref().unref();',
    'for (let i = 0; i < 1000; i++) uvsched.schedule("1h", () => {}).unref();',
    'const t = uvsched.schedule("1h", () => {}); t.cancel();',
    'const t = uvsched.schedule("1h", () => {}, { name: "x" }); setTimeout(() => t.cancel(), 5);',
    'uvsched.schedule(1, () => {}, { limit: "1h" });',
    'new uvsched.Scheduler(); new uvsched.Scheduler().lane();',
    'uvsched.schedule(1, () => new Promise(() => {}));',
    'new uvsched.Scheduler({ keepAlive: "never" }).schedule("1h", () => {});',
    'const s = new uvsched.Scheduler(); s.schedule("1h", () => {}); s.close();',
    'const s = new uvsched.Scheduler({ keepAlive: "always" }); s.shutdown();',
  ]) await says(`${source} process.on('exit', () => console.log('exit'));`, 'exit');
});

test("node stays alive while there are ref'd tasks", async () => {
  for (const source of [
    'uvsched.schedule(40, () => console.log("ran"));',
    'uvsched.schedule(40, () => console.log("ran"), { name: "x" });',
    'uvsched.schedule(40, () => console.log("ran")).unref().ref();',
    'uvsched.schedule(40, () => console.log("ran"), { ref: false }).ref();',
    'const t = uvsched.schedule(40, () => console.log("ran")).unref(); setTimeout(() => t.ref(), 5);',
    'const t = uvsched.schedule("1h", () => console.log("ran")); t.reschedule(40);',
    'const t = uvsched.schedule("1h", () => console.log("ran")); setTimeout(() => t.reschedule(40), 5);',
    'uvsched.every(20, () => console.log("ran"), { maxRuns: 1 });',
    'uvsched.at(Date.now() + 40, () => console.log("ran"));',
    'uvsched.schedule(40, () => {}).unref(); uvsched.schedule(41, () => console.log("ran"));',
    'let n = 9; (function f() { if (--n > 0) uvsched.schedule(1, f); else console.log("ran"); })();',
  ]) await says(source, 'ran');
  // 100 tasks of the same millisecond, one of them ref'd.
  await says(`
    const tasks = Array.from({ length: 100 }, () => uvsched.schedule(40, () => {}).unref());
    tasks[50].ref();
    tasks[51].ref().unref();
    process.on('exit', () => console.log(tasks.every((t) => t.state === 'ended')));`, 'true');
});

test("an empty scheduler lets 'beforeExit' fire, and a task submitted there runs", async () => {
  await says(`
    let n = 0;
    process.on('beforeExit', () => { if (n++ < 2) uvsched.schedule(2, () => console.log('again', n)); });
    uvsched.schedule(1, () => console.log('first'));`, 'first\nagain 1\nagain 2');
});

test('an uncaught error ends the process with code 1, whatever is pending', async () => {
  const end = await program(`${WORK} s.schedule(3, () => { throw new Error('the end'); });`);
  assert.equal(end.code, 1);
  assert.equal(end.signal, null);
  assert.match(end.stderr, /the end/);
});

test('a worker does not share the default scheduler of the main thread', async () => {
  const uvsched = require('..');
  const w = worker(`
    const tasks = uvsched.defaultScheduler().tasks().length;
    const { submitted } = uvsched.defaultScheduler().stats();
    parentPort.postMessage([tasks, submitted]);`);
  const task = uvsched.schedule('1h', () => {});
  assert.deepEqual(await event(w, 'message'), [0, 0]);
  task.cancel();
  await sleep(1);
});

// All schedulers share the same native functions.
test('schedulers that use each other inside runs do not mix up their tasks', async () => {
  for (let round = 0; round < 5; round++) {
    const all = Array.from({ length: 20 }, () => new Scheduler());
    const ran = all.map(() => 0);
    const ends = all.map((s, i) => s.execute(() => {
      const other = all[(i + 1) % all.length];
      const dropped = other.schedule('1h', assert.fail);
      const mine = s.schedule('1h', assert.fail, { name: 'mine' });
      assert.ok(dropped.reschedule('2h'));
      assert.ok(mine.remaining <= 3600e3 && mine.remaining > 3500e3);
      assert.ok(dropped.remaining > 3600e3);
      assert.equal(dropped.cancel(), 'cancelled');
      assert.equal(mine.cancel(), 'cancelled');
      ran[i]++;
      return i;
    }, i % 2 ? { limit: '1h' } : undefined).promise);
    assert.deepEqual(await Promise.all(ends), all.map((_, i) => i));
    await Promise.all(all.map(async (s, i) => {
      await s.shutdown();
      counts(s, { completed: 1, cancelled: 2 });
      assert.equal(ran[i], 1);
      if (i % 3 > 0) await s.close(); // the others are never closed
      counts(s, { completed: 1, cancelled: 2 });
    }));
  }
});
