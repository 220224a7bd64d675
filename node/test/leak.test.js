// SPDX-License-Identifier: MIT
'use strict';

const test = require('node:test');
const assert = require('node:assert/strict');
const { program } = require('./lib/helper.js');

// Runs `round` repeatedly in a process of its own. In the first half of the rounds memory may grow (V8's
// compilers alone need 25 MB on node 26). In the second half it must not.
async function flat(setup, round, rounds) {
  const end = await program(`
    const { Scheduler } = uvsched;
    const nothing = () => {};
    const turn = () => new Promise((resolve) => setImmediate(resolve));
    const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
    async function measure() {
      for (let i = 0; i < 4; i++) { await turn(); gc(); }
      const { heapUsed, rss, external } = process.memoryUsage();
      // Timers are not counted: on node 24, V8's own delayed tasks use some. A scheduler that was left open
      // shows by its other handles.
      const handles = process.report.getReport().libuv.filter((h) => h.type !== 'loop' && h.type !== 'timer').length;
      return { heapUsed, rss, external, handles };
    }
    (async () => {
      ${setup}
      const round = async (i) => { ${round} };
      let before;
      for (let i = 0; i < ${rounds}; i++) {
        if (i === ${rounds / 2}) before = await measure();
        await round(i);
      }
      const after = await measure();
      console.log(JSON.stringify({ before, after }));
      process.exit(0);
    })();`, { args: ['--expose-gc', '--max-semi-space-size=2'] }); // else V8 lets the young generation grow
  assert.equal(end.code, 0, end.stderr);
  const { before, after } = JSON.parse(end.stdout);
  const grown = (name) => (after[name] - before[name]) / 2 ** 20;
  const all = JSON.stringify({ before, after });
  assert.ok(grown('heapUsed') < 2, `the heap grew: ${all}`);
  assert.ok(grown('external') < 2, `memory outside the heap grew: ${all}`);
  assert.ok(grown('rss') < 32, `the process grew: ${all}`);
  assert.equal(after.handles, before.handles, `handles: ${all}`);
}

test('memory stays flat: 10^6 plain tasks, half of them cancelled', async () => {
  await flat('const s = new Scheduler({ budget: "10ms" });', `
    const tasks = [];
    for (let k = 0; k < 20000; k++) tasks.push(s.schedule(k % 3, nothing));
    for (let k = 0; k < 20000; k += 2) tasks[k].cancel();
    while (s.stats().waiting + s.stats().ready > 0) await turn();`, 50);
});

test('memory stays flat: 10^5 tasks with promise, signal, limit and name', async () => {
  await flat('const s = new Scheduler({ budget: "10ms" }); const { signal } = new AbortController();', `
    require('node:events').setMaxListeners(0, signal);
    const tasks = [];
    for (let k = 0; k < 2500; k++) {
      tasks.push(s.execute(nothing).promise,
        s.execute(async (run) => { run.signal; }, { signal, limit: '1h', name: 'x' }).promise);
    }
    await Promise.all(tasks);
    if (require('node:events').getEventListeners(signal, 'abort').length > 5) throw new Error('listeners');`,
  40);
});

test('memory stays flat: periodic tasks, iterators, retries and failures', async () => {
  await flat('const s = new Scheduler({ budget: "10ms" }); s.on("error", nothing);', `
    const ends = [];
    for (let k = 0; k < 300; k++) {
      const task = s.every(1, nothing);
      ends.push((async () => { for await (const run of task) if (run.run >= 2) break; task.cancel(); })());
      ends.push(s.every(1, (run) => { if (run.run < 3) throw new Error('x'); },
        { failure: 'continue', maxRuns: 3 }).promise);
      ends.push(s.schedule(0, () => { throw new Error('x'); },
        { failure: 'retry', maxFailures: 2, retry: { wait: 1 } }).promise.catch(nothing));
      s.execute(() => { throw new Error('x'); });
    }
    await Promise.all(ends);`, 32);
});

test('memory stays flat: many iterators of one task', async () => {
  await flat('const s = new Scheduler(); const task = s.every(1, nothing);', `
    for (let k = 0; k < 5000; k++) {
      const iterator = task[Symbol.asyncIterator]();
      if (k % 2 === 0) iterator.next();
      iterator.return();
    }
    await sleep(1);`, 40);
});

test('memory stays flat: disposed lanes', async () => {
  await flat('const s = new Scheduler({ budget: "10ms" });', `
    const quiet = [];
    for (let k = 0; k < 1000; k++) {
      const lane = s.lane();
      lane.execute(nothing);
      lane.schedule('1h', nothing);
      quiet.push(lane.dispose());
    }
    await Promise.all(quiet);`, 40);
});

test('memory stays flat: closed schedulers, which also leave no handle', async () => {
  await flat('', `
    const closed = [];
    for (let k = 0; k < 20; k++) {
      const s = new Scheduler();
      s.schedule('1h', nothing);
      s.every('1h', nothing);
      s.lane().schedule('1h', nothing);
      const limited = s.execute(() => sleep(1), { limit: '1h' });
      if (k % 2 === 0) while (limited.runs === 0) await turn();
      closed.push(s.close());
    }
    await Promise.all(closed);`, 24);
});

test('memory stays flat: far time-outs that are moved and cancelled', async () => {
  await flat('const s = new Scheduler();', `
    for (let k = 0; k < 20000; k++) s.schedule(30000 + k % 1000, nothing).cancel();
    const tasks = Array.from({ length: 2000 }, (_, k) => s.schedule(60000 + k, nothing));
    await turn();
    for (const task of tasks) task.reschedule(90000);
    await turn();
    for (const task of tasks) task.cancel();
    await turn();`, 30);
});
