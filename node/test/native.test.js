// SPDX-License-Identifier: MIT
'use strict';

// Tests the table for other addons (include/uvsched_node.h) with the addon in test/addons/native.

const assert = require('node:assert/strict');
const { AsyncLocalStorage } = require('node:async_hooks');
const { spawnSync } = require('node:child_process');
const { constants: { errno } } = require('node:os');
const path = require('node:path');
const { describe, it, before } = require('node:test');
const v8 = require('node:v8');
const vm = require('node:vm');
const { Worker } = require('node:worker_threads');
const { missing, buildCopy } = require('./addons/build.js');

const HOUR = 3600e9;
const MS = 1e6;
const PENDING = 2; // UVS_PENDING
const WAITING = 1; // UVS_WAITING
const THREW = 1; // UVSCHED_NODE_THREW
const TOKEN = 1; // UVS_CANCEL_TOKEN
const [EBUSY, ECANCELED, EINVAL, ENOENT, ESHUTDOWN] =
  ['EBUSY', 'ECANCELED', 'EINVAL', 'ENOENT', 'ESHUTDOWN'].map((name) => -(errno[name] ?? 108));

// native.c has the same order.
const COUNTERS = ['bodies', 'bodiesOver', 'asked', 'results', 'resultsEnd', 'dones', 'donesLate', 'finalized',
  'tableAnswer', 'hookEarly', 'hookLate', 'helperAnswer', 'alive'];
const counters = () => new Int32Array(new SharedArrayBuffer(4 * COUNTERS.length));
const read = (counts) => Object.fromEntries(COUNTERS.map((name, i) => [name, Atomics.load(counts, i)]));
const until = async (ready) => {
  while (!ready()) await new Promise((resolve) => { setTimeout(resolve, 1); });
};

const skip = missing();

describe('the table for other addons', { skip }, () => {
  let addon;
  let native;
  let Scheduler;

  before(() => {
    addon = path.join(buildCopy(path.join(__dirname, 'addons/native')), 'build/Release/native.node');
    native = require(addon);
    ({ Scheduler } = require('..'));
  });

  // Opens a scheduler and gives its table to the addon. Returns it with the addon's counters.
  function open(options) {
    const scheduler = new Scheduler(options);
    const counts = counters();
    native.get(scheduler.native, 0, counts);
    return { scheduler, counts };
  }

  describe('uvsched_node_get', () => {
    it('throws a TypeError for anything but scheduler.native', () => {
      for (const wrong of [undefined, 1, {}, native.foreign()]) {
        assert.throws(() => native.get(wrong), { name: 'TypeError', code: 'ERR_INVALID_ARG_TYPE', message: /`native`/ });
      }
    });

    it('throws ERR_UVSCHED_VERSION for another version or a shorter table', async () => {
      const scheduler = new Scheduler();
      assert.throws(() => native.get(scheduler.native, 7),
        { code: 'ERR_UVSCHED_VERSION', message: /needs version 7 .* has version 1 / });
      assert.throws(() => native.get(native.old()), { code: 'ERR_UVSCHED_VERSION', message: /has version 1 \(8 bytes\)/ });
      assert.equal(native.get(scheduler.native), scheduler.native);
      await scheduler.close();
    });

    it('finds no table in a closed scheduler', async () => {
      const scheduler = new Scheduler();
      await scheduler.close();
      assert.throws(() => scheduler.native, { code: 'ESHUTDOWN' });
    });
  });

  describe('promise', () => {
    it('resolves to the value that the body computed on the pool', async () => {
      const { scheduler, counts } = open();
      assert.equal(await native.promise({ number: 41 }), 42);
      assert.equal(await native.promise({ number: 31, after: 1 }), 42);
      assert.equal(await native.promise({ number: 32, loop: 1 }), 42);
      assert.equal(await native.promise({ number: 0, period: MS, runs: 3 }), 3);
      assert.equal(await native.promise({ bare: 1 }), undefined);
      const { results, dones, resultsEnd, alive } = read(counts);
      assert.deepEqual({ results, dones, resultsEnd, alive }, { results: 4, dones: 5, resultsEnd: 0, alive: 2 });
      await scheduler.close();
    });

    it('rejects with an Error that has the code of the failure', async () => {
      const { scheduler } = open();
      await assert.rejects(native.promise({ answer: ENOENT }),
        { name: 'Error', code: 'ENOENT', errno: ENOENT, message: /^ENOENT: no such file/ });
      await assert.rejects(native.promise({ answer: ENOENT, bare: 1 }), { code: 'ENOENT' });
      await assert.rejects(native.promise({ throws: 1 }), { code: 'ETEST', message: 'thrown by result' });
      await assert.rejects(native.promise({ throws: 1, answer: EINVAL }), { code: 'ETEST' });
      await scheduler.close();
    });

    it('settles after u->cancel and after u->finish', async () => {
      const { scheduler, counts } = open();
      const waits = { delay: HOUR };
      const cancelled = native.promise(waits);
      assert.equal(native.act('arg', waits.id), 0);
      assert.equal(native.act('cancel', waits.id, 0), 0);
      await assert.rejects(cancelled, { code: 'ECANCELED' });
      const pending = { answer: PENDING };
      const finished = native.promise(pending);
      await until(() => read(counts).bodiesOver === 1);
      assert.equal(native.act('finish', pending.id, 0), 0);
      assert.equal(await finished, 1);
      assert.equal(native.act('finish', pending.id, 0), ENOENT);
      await scheduler.close();
    });

    it('u->cancel answers as task.cancel() does', async () => {
      const { scheduler, counts } = open();
      const NUMBERS = { cancelled: 0, running: 1, already: 2, ended: ENOENT }; // UVS_CANCELLED ...
      const both = (id, task) => [native.act('cancel', id, 0), NUMBERS[task.cancel()]];
      const waits = { delay: HOUR };
      const waiting = [native.promise(waits), scheduler.every('1h', () => {})];
      assert.deepEqual(both(waits.id, waiting[1]), [0, 0]);
      assert.deepEqual(both(waits.id, waiting[1]), [ENOENT, ENOENT]);
      await assert.rejects(waiting[0], { code: 'ECANCELED' });
      const runs = { answer: PENDING };
      let finish;
      const running = [native.promise(runs), scheduler.every(1, () => new Promise((resolve) => { finish = resolve; }))];
      await until(() => read(counts).bodiesOver === 1 && finish !== undefined);
      assert.deepEqual(both(runs.id, running[1]), [1, 1]);
      assert.deepEqual(both(runs.id, running[1]), [2, 2]);
      assert.equal(native.act('finish', runs.id, 0), 0);
      finish();
      await assert.rejects(running[0], { code: 'ECANCELED' });
      await until(() => running[1].state === 'ended');
      assert.deepEqual(both(runs.id, running[1]), [ENOENT, ENOENT]);
      const ran = scheduler.every(1, () => {});
      await until(() => ran.runs >= 3);
      assert.equal(ran.cancel(), 'cancelled');
      await scheduler.close();
    });

    it('leaves no promise and no callback if the task is refused', async () => {
      const unhandled = [];
      const listen = (reason) => unhandled.push(reason);
      process.on('unhandledRejection', listen);
      const { scheduler, counts } = open();
      assert.equal(native.promise({ size: 16 }), EINVAL);
      assert.equal(native.promise({ size: 1 << 20 }), EINVAL);
      assert.equal(native.promise({ period: 1, delay: 10, lane: 12345 }), ENOENT);
      // No exception is left in the napi_env of the addon, or in that of uvsched.
      assert.equal(await native.promise({ number: 1 }), 2);
      assert.equal(await new Promise((resolve) => { scheduler.execute(() => resolve(3)); }), 3);
      await scheduler.shutdown();
      assert.equal(native.promise({}), ESHUTDOWN);
      await scheduler.close();
      assert.equal(native.promise({}), ESHUTDOWN);
      await new Promise(setImmediate);
      process.off('unhandledRejection', listen);
      assert.deepEqual(unhandled, []);
      assert.equal(read(counts).dones, 1);
    });

    it('is refused with EAGAIN above maxPending', async () => {
      const { scheduler } = open({ maxPending: 1 });
      const waits = { delay: HOUR };
      const first = native.promise(waits);
      assert.equal(native.promise({}), -errno.EAGAIN);
      native.act('cancel', waits.id, 0);
      await assert.rejects(first, { code: 'ECANCELED' });
      await scheduler.close();
    });

    it('leaks no memory in 100,000 calls', () => {
      // In a process of its own, so that the memory of the test runner is not counted.
      const { status, stdout, stderr } = spawnSync(process.execPath, ['--expose-gc', '-e', `
        const { Scheduler } = require(${JSON.stringify(path.join(__dirname, '..'))});
        const native = require(${JSON.stringify(addon)});
        const counts = new Int32Array(new SharedArrayBuffer(64));
        const scheduler = new Scheduler();
        native.get(scheduler.native, 0, counts);
        (async () => {
          const inUse = [];
          for (let round = 0; round < 5; round++) {
            const all = [];
            for (let i = 0; i < 20000; i++) all.push(native.promise({ number: i }));
            const wrong = (await Promise.all(all)).findIndex((value, i) => value !== i + 1);
            if (wrong !== -1) throw new Error(wrong + ' is wrong');
            for (let i = 0; i < 3; i++) {
              gc();
              await new Promise(setImmediate);
            }
            inUse.push([native.heap(), require('node:v8').getHeapStatistics().used_global_handles_size]);
          }
          await scheduler.close();
          console.log(JSON.stringify({ counts: [...counts], inUse }));
        })();
      `], { encoding: 'utf8' });
      assert.equal(stderr, '');
      assert.equal(status, 0);
      const { counts, inUse } = JSON.parse(stdout);
      const { results, dones } = Object.fromEntries(COUNTERS.map((name, i) => [name, counts[i]]));
      assert.deepEqual({ results, dones }, { results: 100000, dones: 100000 });
      // 60,000 leaked records would be 4 MB, and 60,000 leaked promises 2 MB. Takes the lower of two readings,
      // because node itself allocates memory for short times.
      const more = [0, 1].map((k) => Math.min(inUse[3][k], inUse[4][k]) - Math.min(inUse[0][k], inUse[1][k]));
      assert.ok(more[0] < 1e6, `malloc: ${more[0]} more`);
      assert.ok(more[1] < 1e5, `handles: ${more[1]} more`);
    });
  });

  describe('the functions of the core', () => {
    it('work through the table', async () => {
      const { scheduler, counts } = open();
      const id = native.submit({ delay: HOUR }, 1);
      assert.ok(id > 0);
      assert.equal(native.act('state', id), WAITING);
      assert.equal(native.act('arg', id), 1);
      assert.equal(native.act('ref', id, 0), 0);
      assert.equal(native.act('ref', id, 1), 0);
      const [from, to] = [native.act('now'), native.act('now')];
      assert.ok(from > 0 && to >= from);
      assert.equal(native.act('reschedule', id, 0), 0);
      await until(() => read(counts).dones === 1);
      assert.equal(native.act('state', id), ENOENT);
      assert.equal(native.act('cancel', id, 0), ENOENT);

      const lane = native.act('lane');
      assert.ok(lane > 0);
      const refused = native.promise({ lane, delay: HOUR });
      assert.equal(native.act('dispose', lane, 0), 0);
      await assert.rejects(refused, { code: 'ECANCELED' });
      assert.equal(native.submit({ lane }, 1), ECANCELED);

      const slow = native.submit({ ms: 10000 }, 1);
      await until(() => read(counts).bodies === 2);
      assert.equal(native.act('cancel', slow, TOKEN), 1);
      await until(() => read(counts).dones === 3);
      assert.equal(read(counts).asked, 1);
      await scheduler.close();
    });

    it("do not appear among JavaScript's tasks in shutdownNow", async () => {
      const { scheduler, counts } = open();
      native.submit({ delay: HOUR }, 3);
      const mine = scheduler.schedule('1h', () => {});
      const never = await scheduler.shutdownNow();
      assert.equal(never.length, 1);
      assert.equal(never[0], mine);
      assert.equal(read(counts).dones, 3);
      await scheduler.close();
    });

    it('answer UV_ESHUTDOWN after close, also after the scheduler was collected', async () => {
      v8.setFlagsFromString('--expose-gc');
      const gc = vm.runInNewContext('gc');
      await (async () => {
        const { scheduler } = open();
        await scheduler.close();
      })();
      for (let i = 0; i < 5; i++) {
        gc();
        await new Promise(setImmediate);
      }
      assert.equal(native.submit({}, 1), ESHUTDOWN);
      assert.equal(native.act('cancel', 1, 0), ESHUTDOWN);
      assert.equal(native.act('lane'), ESHUTDOWN);
      assert.equal(native.promise({}), ESHUTDOWN);
      assert.equal(native.act('alive'), 1);
    });
  });

  describe('the helpers', () => {
    it('call: nextTick callbacks and microtasks run before the next call', async () => {
      const { scheduler } = open({ concurrency: 1 });
      const log = [];
      const step = (name) => native.calls(() => {
        log.push(name);
        process.nextTick(() => log.push(`${name} tick`));
        Promise.resolve().then(() => log.push(`${name} micro`));
        return name;
      });
      assert.deepEqual(await Promise.all(['a', 'b', 'c'].map(step)), ['a', 'b', 'c']);
      assert.deepEqual(log, ['a', 'a tick', 'a micro', 'b', 'b tick', 'b micro', 'c', 'c tick', 'c micro']);
      await scheduler.close();
    });

    it('call: the function runs in the given async context', async () => {
      const { scheduler } = open();
      const storage = new AsyncLocalStorage();
      const got = await storage.run('mine', () => native.calls(() => storage.getStore()));
      assert.equal(got, 'mine');
      await scheduler.close();
    });

    it("call: an error is reported once as 'uncaughtException', and later calls work", () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', `
        const { Scheduler } = require(${JSON.stringify(path.join(__dirname, '..'))});
        const native = require(${JSON.stringify(addon)});
        const scheduler = new Scheduler();
        native.get(scheduler.native);
        process.on('uncaughtException', (error, origin) => {
          console.log('caught', error.message, origin);
          process.nextTick(() => console.log('tick'));
        });
        native.calls(() => { throw new Error('one'); }).then(async (rc) => {
          console.log('answer', rc);
          console.log('report', ...native.report(new Error('two')), ...native.report());
          console.log(await native.calls(() => 'still here'));
        });
      `], { encoding: 'utf8' });
      assert.equal(stderr, '');
      assert.equal(status, 0);
      assert.deepEqual(stdout.trim().split('\n'), ['caught one uncaughtException', 'tick', `answer ${THREW}`,
        'caught two uncaughtException', `report ${EBUSY} 0 0 ${ENOENT}`, 'tick', 'still here']);
    });

    it('call: an unhandled error ends the process with code 1', () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', `
        const { Scheduler } = require(${JSON.stringify(path.join(__dirname, '..'))});
        const native = require(${JSON.stringify(addon)});
        const scheduler = new Scheduler();
        native.get(scheduler.native);
        native.calls(() => { throw new Error('nobody listens'); }).then(() => console.log('no'));
      `], { encoding: 'utf8' });
      assert.equal(status, 1);
      assert.equal(stdout, '');
      assert.match(stderr, /Error: nobody listens/);
    });

    it('error: makes an Error with code and errno', async () => {
      const { scheduler } = open();
      const error = native.error(-errno.EPERM);
      assert.ok(error instanceof Error);
      assert.deepEqual([error.code, error.errno], ['EPERM', -errno.EPERM]);
      assert.match(error.message, /^EPERM: /);
      assert.equal(native.error(-3900).code, 'EDEADLK');
      assert.equal(native.error(0), EINVAL);
      await scheduler.close();
    });
  });

  describe('the end of an environment', () => {
    // The order of loading decides in which order node calls clean-up hooks and finalizers.
    const orders = {
      'the addon loaded first': 'const native = require(addon); const { Scheduler } = require(uvsched);',
      'uvsched loaded first': 'const { Scheduler } = require(uvsched); const native = require(addon);',
    };

    function start(order, code, counts) {
      return new Worker(`
        const { workerData: { uvsched, addon, counts }, parentPort } = require('node:worker_threads');
        ${orders[order]}
        const scheduler = new Scheduler();
        native.get(scheduler.native, 0, counts);
        ${code}
        parentPort.postMessage('ready');
      `, { eval: true, workerData: { uvsched: path.join(__dirname, '..'), addon, counts } });
    }

    async function startAndEnd(order, code, ready = () => true) {
      const counts = counters();
      const worker = start(order, code, counts);
      await new Promise((resolve, reject) => worker.once('message', resolve).once('error', reject));
      await until(() => ready(read(counts)));
      await worker.terminate();
      return read(counts);
    }

    // What must hold after every end.
    function inOrder(c, tasks, exited = false) {
      assert.equal(c.dones, tasks, 'one `done` for each task');
      assert.equal(c.donesLate, 0, 'no `done` after the finalizers');
      assert.equal(c.bodies, c.bodiesOver);
      assert.equal(c.finalized, 1);
      assert.equal(c.tableAnswer, -ESHUTDOWN, 'the table answers in a finalizer');
      assert.equal(c.helperAnswer, -ESHUTDOWN);
      // A hook that was added after the table is called before the teardown starts, unless the worker exits by itself.
      assert.equal(c.hookLate, 1 - (exited ? ESHUTDOWN : 0));
      assert.equal(c.hookEarly, -ESHUTDOWN, 'a hook that was added before is called after it');
    }

    for (const order of Object.keys(orders)) {
      it(`${order}: running bodies are asked to stop, and node waits for them`, async () => {
        const c = await startAndEnd(order, 'native.submit({ ms: 60000 }, 2);', ({ bodies }) => bodies === 2);
        inOrder(c, 2);
        assert.equal(c.asked, 2);
      });

      it(`${order}: pending runs do not delay the end`, async () => {
        const c = await startAndEnd(order, 'native.submit({ answer: 2 }, 8);', ({ bodiesOver }) => bodiesOver === 8);
        inOrder(c, 8);
      });

      it(`${order}: runs that become pending during the end do not delay it`, async () => {
        inOrder(await startAndEnd(order, 'native.submit({ answer: 2 }, 2000);'), 2000);
        inOrder(await startAndEnd(order, 'native.submit({ answer: 2, ms: 20 }, 20);', ({ bodies }) => bodies > 0), 20);
      });

      it(`${order}: promises stay unsettled, and their memory is freed`, async () => {
        const c = await startAndEnd(order, `
          for (const o of [{ delay: 3600e9 }, { answer: 2 }, { ms: 60000 }, { period: 1e6 }]) native.promise({ ...o }).then(
            () => { throw new Error('settled'); }, () => { throw new Error('settled'); });
        `, ({ bodies }) => bodies >= 2);
        inOrder(c, 4);
        assert.equal(c.results, 0);
        assert.equal(c.resultsEnd, 4);
        assert.equal(c.alive, 1, 'the env could no longer be used');
      });

      it(`${order}: a closed scheduler does not disturb the end`, async () => {
        const c = await startAndEnd(order, 'scheduler.close();');
        assert.equal(c.finalized, 1);
        assert.equal(c.tableAnswer, -ESHUTDOWN);
      });

      it(`${order}: every task gets its done when a worker exits or calls process.exit()`, async () => {
        for (const end of ['', 'native.submit({ ms: 60000 }, 2); native.promise({ delay: 3600e9 }); process.exit(0);']) {
          const counts = counters();
          const worker = start(order, end, counts);
          assert.equal(await new Promise((resolve) => { worker.on('exit', resolve); }), 0);
          inOrder(read(counts), end === '' ? 0 : 3, true);
        }
      });
    }

    it('40 workers terminated amid running bodies leave no body and no late done', async () => {
      let bodies = 0;
      for (let i = 0; i < 40; i++) {
        const c = await startAndEnd(Object.keys(orders)[i % 2], `
          native.submit({ ms: ${i % 7} }, 20);
          native.submit({ answer: 2, ms: ${i % 3} }, 20);
          native.submit({ period: 1e6 }, 5);
          for (let k = 0; k < 50; k++) native.promise({ ms: k % 3, delay: k % 2 * 1e6 });
          native.promise({ delay: 3600e9 });
          scheduler.every('1ms', async () => { await native.promise({}); });
        `);
        assert.equal(c.donesLate, 0);
        assert.equal(c.bodies, c.bodiesOver);
        assert.equal(c.finalized, 1);
        assert.ok(c.dones >= 20 + 20 + 5 + 51, `${c.dones} had ended`);
        bodies += c.bodies;
      }
      assert.ok(bodies > 40);
    });

    // Bodies that start between two steps of the teardown are rare, hence the repetition.
    it('20 workers terminated while thousands of runs become pending get every done', async () => {
      for (let i = 0; i < (process.env.UVS_STRESS === 'long' ? 400 : 20); i++) {
        inOrder(await startAndEnd(Object.keys(orders)[i % 2], 'native.submit({ answer: 2 }, 20000);'), 20000);
      }
    });

    it('process.exit() keeps exit code and output', () => {
      const { status, stdout, stderr } = spawnSync(process.execPath, ['-e', `
        const native = require(${JSON.stringify(addon)});
        const { Scheduler } = require(${JSON.stringify(path.join(__dirname, '..'))});
        const scheduler = new Scheduler();
        native.get(scheduler.native);
        native.submit({ ms: 60000 }, 2);
        native.submit({ answer: 2 }, 2);
        native.promise({ delay: 3600e9 });
        native.calls(() => { console.log('out'); process.exit(7); });
      `], { encoding: 'utf8' });
      assert.deepEqual({ status, stdout, stderr }, { status: 7, stdout: 'out\n', stderr: '' });
    });
  });
});
