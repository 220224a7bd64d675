// SPDX-License-Identifier: MIT
import test from 'node:test';
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import uvsched, * as all from '../index.mjs';
import * as self from 'uvsched';
import helper from './lib/helper.js';

const front = JSON.stringify(new URL('../index.mjs', import.meta.url).href);
const cjs = createRequire(import.meta.url)('..');

test('the ES module exports the same objects as the CommonJS module', () => {
  assert.equal(uvsched, cjs);
  assert.deepEqual(Object.keys(all).sort(), ['default', ...Object.keys(cjs)].sort());
  for (const name of Object.keys(cjs)) assert.equal(all[name], cjs[name]);
});

test('the package resolves its own name to itself', () => {
  assert.equal(self.Scheduler, cjs.Scheduler);
  assert.equal(self.default, cjs);
});

test('ES module and CommonJS module share the default scheduler', async () => {
  const seen = [];
  const a = all.schedule(2, () => seen.push('esm'));
  const b = cjs.schedule(2, () => seen.push('cjs'));
  assert.deepEqual(new Set(all.defaultScheduler().tasks()), new Set([a, b]));
  await Promise.all([a.promise, b.promise]);
  assert.deepEqual(seen, ['esm', 'cjs']);
  for await (const run of all.every(1, () => {}, { maxRuns: 2 })) assert.ok(run.run <= 2);
});

test("top-level await on a task's promise continues", async () => {
  await helper.says(`
    import { schedule, every, Scheduler } from ${front};
    console.log(await schedule(5, () => 'task').promise);
    let n = 0;
    for await (const run of every(1, () => {})) if (++n === 3) { run.task.cancel(); }
    const s = new Scheduler();
    s.execute(() => console.log('over', n));
    await s.shutdown();
    await s.close();`, 'task\nover 3', { esm: true });
});
