// SPDX-License-Identifier: MIT
'use strict';

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { describe, it, after } = require('node:test');
const { Worker } = require('node:worker_threads');
const { hashFile, watch } = require('./index.js');

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'hasher-'));
after(() => fs.rmSync(dir, { recursive: true }));

function file(name, text) {
  const whole = path.join(dir, name);
  fs.writeFileSync(whole, text);
  return whole;
}

// Watches a file, and returns its reports one by one.
function reports(name, period) {
  const queue = [];
  let wake;
  const watching = watch(name, period, (...args) => {
    queue.push(args);
    wake?.();
  });
  return {
    ...watching,
    queue,
    async next() {
      while (queue.length === 0) await new Promise((resolve) => { wake = resolve; });
      return queue.shift();
    },
  };
}

describe('hashFile', () => {
  it('resolves to the FNV-1a digest', async () => {
    assert.equal(await hashFile(file('empty', '')), 'cbf29ce484222325');
    assert.equal(await hashFile(file('a', 'a')), 'af63dc4c8601ec8c');
    assert.equal(await hashFile(file('foobar', 'foobar')), '85944171f73967e8');
  });

  it('hashes a 3 MB file fifty times at once', async () => {
    const big = file('big', Buffer.alloc(3 << 20, 'uvsched'));
    const all = await Promise.all(Array.from({ length: 50 }, () => hashFile(big)));
    assert.equal(new Set(all).size, 1);
  });

  it('rejects with the code of the error', async () => {
    await assert.rejects(hashFile(path.join(dir, 'none')), { code: 'ENOENT', errno: -os.constants.errno.ENOENT });
    await assert.rejects(hashFile(dir), { code: 'EISDIR' });
    assert.throws(() => hashFile(7), TypeError);
  });
});

describe('watch', () => {
  it('reports the first digest and each change', async () => {
    const name = file('watched', 'one');
    const w = reports(name, 2);
    assert.deepEqual(await w.next(), [name, await hashFile(name)]);
    fs.writeFileSync(name, 'two');
    let got;
    do got = await w.next(); while (got[1] !== await hashFile(name)); // the first report may be of a half-written file
    fs.rmSync(name);
    const [, digest, error] = await w.next();
    assert.equal(digest, null);
    assert.equal(error.code, 'ENOENT');
    fs.writeFileSync(name, 'three');
    do got = await w.next(); while (got[1] !== await hashFile(name));
    assert.equal(w.stop(), true);
    while (w.stop()) await new Promise(setImmediate); // true while the last run is in progress
  });

  it('reports nothing while the file stays the same, and nothing after stop', async () => {
    const name = file('still', 'still');
    const w = reports(name, 1);
    await w.next();
    await new Promise((resolve) => { setTimeout(resolve, 30); });
    assert.deepEqual(w.queue, []);
    w.stop();
    fs.writeFileSync(name, 'changed');
    await new Promise((resolve) => { setTimeout(resolve, 20); });
    assert.deepEqual(w.queue, []);
  });

  it('calls back in the async context of the caller of watch', async () => {
    const storage = new AsyncLocalStorage();
    const store = await storage.run('mine', () => new Promise((resolve) => {
      const w = watch(file('context', ''), 1, () => {
        w.stop();
        resolve(storage.getStore());
      });
    }));
    assert.equal(store, 'mine');
  });

  it('throws a TypeError for invalid arguments', () => {
    for (const args of [[1, 1, () => {}], ['x', 0, () => {}], ['x', NaN, () => {}], ['x', 1, 'no']]) {
      assert.throws(() => watch(...args), TypeError);
    }
  });
});

describe('a worker', () => {
  it('can be terminated while it hashes and watches', async () => {
    const name = file('worker', Buffer.alloc(1 << 20, 'x'));
    const worker = new Worker(`
      const { hashFile, watch } = require(${JSON.stringify(path.join(__dirname, 'index.js'))});
      const { parentPort, workerData } = require('node:worker_threads');
      watch(workerData, 1, () => parentPort.postMessage('reported'));
      for (let i = 0; i < 100; i++) hashFile(workerData);
    `, { eval: true, workerData: name });
    await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
    assert.equal(await worker.terminate(), 1);
  });
});
