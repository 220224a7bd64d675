// SPDX-License-Identifier: MIT
//
// bullmq FOLDER WORKLOAD SOCKET ...: one node of bench/jobs-beside with BullMQ, which is installed
// in FOLDER. The workloads are those of bench/jobs_redis.c; SOCKET is the server's. Jobs are removed
// when they have completed, which is what costs BullMQ the least.
import { createRequire } from 'node:module';
import path from 'node:path';

const [folder, workload, socket, ...rest] = process.argv.slice(2);
const { Queue, Worker } = createRequire(path.join(path.resolve(folder), 'x.js'))('bullmq');
const connection = { path: socket, maxRetriesPerRequest: null };
const QUEUE = 'order', DAY = 86400e3;
const data = 'x'.repeat(126); // 128 bytes of JSON
const wall = () => performance.timeOrigin + performance.now(); // ms, with fractions

const options = (due) => ({
  removeOnComplete: true, removeOnFail: true,
  ...(due === 'now' ? {} : { delay: DAY + Math.floor(Math.random() * 14 * DAY) }),
});

async function put(n, atOnce, waiting, due) {
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  await queue.add(QUEUE, data, options(due));
  let left = n - 1;
  const producer = async () => {
    while (left > 0) {
      const count = Math.min(left, atOnce);
      left -= count;
      if (atOnce === 1) await queue.add(QUEUE, data, options(due));
      else await queue.addBulk(Array.from({ length: count }, () => ({ name: QUEUE, data, opts: options(due) })));
    }
  };
  const start = performance.now(), cpu = process.cpuUsage();
  await Promise.all(Array.from({ length: waiting }, producer));
  console.log(((n - 1) / (performance.now() - start) * 1e3).toFixed(1));
  const used = process.cpuUsage(cpu);
  console.log((used.user + used.system) / 1e6);
  await queue.close();
}

async function space(n, gap) {
  const queue = new Queue(QUEUE, { connection });
  await queue.waitUntilReady();
  await Promise.all(Array.from({ length: n }, (_, i) =>
    queue.add(QUEUE, data, { ...options('now'), delay: Math.round(1000 + gap * i + 1.37 * (i % 7)) })));
  await queue.close();
}

async function work(places, note) {
  const worker = new Worker(QUEUE, async (job) => note?.(job), { connection, concurrency: places, autorun: false });
  worker.on('error', (e) => { console.error(e); process.exit(1); });
  await worker.waitUntilReady();
  console.log('ready');
  await new Promise((resolve) => { process.stdin.once('data', resolve); });
  const ended = new Promise((resolve) => { process.stdin.once('end', resolve); });
  worker.run();
  await ended;
  await worker.close();
}

const numbers = rest.map(Number);
if (workload === 'put') {
  await put(numbers[0], numbers[1], numbers[2], rest[3]);
} else if (workload === 'space') {
  await space(...numbers);
} else if (workload === 'work') {
  await work(numbers[0]);
} else if (workload === 'late') {
  const late = [];
  await work(numbers[0], (job) => { late.push(wall() - job.timestamp - job.opts.delay); });
  for (const ms of late) console.log(Math.round(ms * 1e3));
} else {
  process.exit(2);
}
process.exit(0);
