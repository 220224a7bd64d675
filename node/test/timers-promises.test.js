// SPDX-License-Identifier: MIT
'use strict';

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const { getEventListeners } = require('node:events');
const path = require('node:path');
const test = require('node:test');
const nodePromises = require('node:timers/promises');
const { setTimeout, setInterval, setImmediate, scheduler } = require('../timers/promises.js');

const listeners = (signal) => getEventListeners(signal, 'abort').length;

async function take(count, iterator) {
  const values = [];
  for await (const value of iterator) {
    values.push(value);
    if (values.length === count) break;
  }
  return values;
}

// Runs a program in a process of its own. Returns the lines that it prints.
function run(body) {
  const child = spawnSync(process.execPath, ['-e', `const p = require('./timers/promises.js'); ${body}`], {
    cwd: path.join(__dirname, '..'), encoding: 'utf8', timeout: 20000,
  });
  assert.strictEqual(child.signal, null, 'the program was killed');
  assert.strictEqual(child.stderr, '');
  return child.stdout.trim().split('\n');
}

test('exactly the names of node:timers/promises are exported', async () => {
  const promises = require('../timers/promises.js');
  assert.deepStrictEqual(Object.keys(promises).sort(), Object.keys(nodePromises).sort());
  assert.strictEqual(setImmediate, nodePromises.setImmediate);
  const esm = await import('../timers/promises.mjs');
  assert.strictEqual(esm.default, promises);
  for (const name of Object.keys(promises)) assert.strictEqual(esm[name], promises[name]);
});

test('setTimeout resolves to its value, and never early', async () => {
  const start = performance.now();
  assert.strictEqual(await setTimeout(7, 'value'), 'value');
  assert.ok(performance.now() - start >= 7);
  assert.strictEqual(await setTimeout(), undefined);
  const value = Promise.resolve('by a promise');
  assert.strictEqual(await setTimeout(1, value), 'by a promise');
});

test('an aborted signal rejects the wait, with its reason as the cause', async () => {
  const abort = new AbortController();
  const { signal } = abort;
  const waits = [setTimeout(2 ** 40, 1, { signal }), setTimeout(Infinity, 1, { signal }),
    scheduler.wait(2 ** 31, { signal })];
  await setTimeout(4); // node would fire long delays at once
  assert.strictEqual(listeners(signal), 1); // one listener for all waits
  abort.abort('why');
  for (const wait of [...waits, setTimeout(1, 1, { signal }), scheduler.wait(1, { signal })]) {
    await assert.rejects(wait, { name: 'AbortError', code: 'ABORT_ERR', cause: 'why' });
  }
  assert.strictEqual(listeners(signal), 0);
});

test('a finished wait leaves no abort listener', async () => {
  const abort = new AbortController();
  const { signal } = abort;
  assert.strictEqual(await setTimeout(1, 'value', { signal }), 'value');
  assert.deepStrictEqual(await take(2, setInterval(1, 'tick', { signal })), ['tick', 'tick']);
  assert.strictEqual(listeners(signal), 0);
  abort.abort();
});

test('invalid arguments reject', async () => {
  const ends = (promise) => promise.then(() => 'well', (e) => `${e.name} ${e.code}`);
  const wrong = [
    ...[null, 'text', 1, () => {}].map((options) => [1, 1, options]),
    ...['text', 1, {}, null, true].map((signal) => [1, 1, { signal }]),
    ...['text', 1, {}, null].map((ref) => [1, 1, { ref }]),
  ];
  for (const args of wrong) {
    assert.strictEqual(await ends(setTimeout(...args)), 'TypeError ERR_INVALID_ARG_TYPE');
    assert.strictEqual(await ends(setInterval(...args).next()), 'TypeError ERR_INVALID_ARG_TYPE');
    const waited = await ends(scheduler.wait(1, args[2])); // node 18 accepts some of these
    if (waited !== 'TypeError ERR_INVALID_ARG_TYPE') {
      assert.strictEqual(waited, await ends(nodePromises.scheduler.wait(1, args[2])));
    }
  }
  // An array as options, and a delay that is not a number: as this version of node does.
  for (const args of [[1, 1, []], ['1'], [null], [{}]]) {
    assert.strictEqual(await ends(setTimeout(...args)), await ends(nodePromises.setTimeout(...args)));
  }
});

test('setInterval yields its value repeatedly', async () => {
  const start = performance.now();
  assert.deepStrictEqual(await take(3, setInterval(5, 'tick')), ['tick', 'tick', 'tick']);
  assert.ok(performance.now() - start >= 15);
  assert.deepStrictEqual(await take(1, setInterval()), [undefined]);
});

test('a slow reader receives every tick', async () => {
  let seen = 0;
  let turned = false;
  for await (const _ of setInterval(4)) {
    if (++seen === 3) break;
    if (seen > 1) continue;
    for (let i = 0; i < 4; i++) await setTimeout(10); // at least one tick comes in each of them
    nodePromises.setImmediate().then(() => { turned = true; });
  }
  assert.strictEqual(turned, false); // the ticks that came meanwhile are yielded without a wait
});

test('an aborted signal ends the iteration with an AbortError', async () => {
  for (const when of ['before', 'waiting', 'inside']) {
    const abort = new AbortController();
    const { signal } = abort;
    if (when === 'before') abort.abort('why');
    const iterator = setInterval(when === 'waiting' ? 2 ** 40 : 1, 'tick', { signal });
    if (when === 'waiting') setTimeout(2).then(() => abort.abort('why'));
    await assert.rejects(async () => {
      for await (const value of iterator) {
        assert.strictEqual(value, 'tick');
        abort.abort('why');
      }
    }, { name: 'AbortError', code: 'ABORT_ERR', cause: 'why' }, when);
    assert.deepStrictEqual(await iterator.next(), { value: undefined, done: true });
    assert.strictEqual(listeners(signal), 0);
  }
});

test('ref: false does not keep the process alive, and leaving the loop ends the interval', () => {
  assert.deepStrictEqual(run(`
    const never = () => console.log('never');
    p.setTimeout(1e7, 1, { ref: false }).then(never);
    p.scheduler.wait(1e7, { ref: false }).then(never);
    p.setInterval(1e7, 1, { ref: false }).next().then(never);
    const abort = new AbortController();
    p.setInterval(1, 1, { signal: abort.signal }).next().then(() => abort.abort()); // and the iterator is abandoned
    p.setInterval(1e7); // next() is never called
    p.setTimeout(5, 'held').then(console.log);`), ['held']);
  assert.deepStrictEqual(run(`(async () => {
    for await (const x of p.setInterval(1, 'break')) { console.log(x); break; }
    const i = p.setInterval(1, 'return');
    console.log((await i.next()).value, (await i.return('r')).value);
    const j = p.setInterval(1, 'throw');
    console.log((await j.next()).value, await j.throw('t').catch((e) => e));
  })()`), ['break', 'return r', 'throw t']);
});

test("scheduler.wait and scheduler.yield work as node's", async () => {
  const start = performance.now();
  assert.strictEqual(await scheduler.wait(5), undefined);
  assert.ok(performance.now() - start >= 5);
  assert.strictEqual(await scheduler.yield(), undefined);
  assert.throws(() => new scheduler.constructor(), { code: 'ERR_ILLEGAL_CONSTRUCTOR' });
  for (const name of ['wait', 'yield']) {
    assert.throws(() => scheduler[name].call({}, 1), { code: 'ERR_INVALID_THIS' });
  }
});
