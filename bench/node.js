// SPDX-License-Identifier: MIT
'use strict';

// The Node package beside node's own timers, in one run: make bench-node, or
//
//   node --expose-gc bench/node.js [--quick]
//
// Each figure is the median of the repetitions, which take turns; every repetition starts with a
// collected heap. CPU time is what the process used, all threads, garbage collection included; wall
// time is what the program waited. What is to be reached stands beside it. Memory and drift get
// processes of their own.

const { execFileSync } = require('node:child_process');
const path = require('node:path');
const { Scheduler } = require('../node');

const quick = process.argv.includes('--quick');
const N = quick ? 2e4 : 1e5;
const PENDING = quick ? 1e5 : 1e6;
const REPS = quick ? 5 : 15;
const DRIFT_S = quick ? 1 : 10;

let count = 0;
const nop = () => { count++; };
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1];

// The same delays for everybody.
function random(seed) {
  let x = seed >>> 0 || 1;
  return (n) => {
    x ^= x << 13; x >>>= 0; x ^= x >>> 17; x ^= x << 5; x >>>= 0;
    return x % n;
  };
}

const cpuNs = () => { const { user, system } = process.cpuUsage(); return (user + system) * 1e3; };
const wallNs = () => Number(process.hrtime.bigint());

// One way to have timers: arm(fn, ms) and drop(handle).
const ways = () => {
  const plain = new Scheduler();
  const batch = new Scheduler({ batch: true });
  const dropIn = require('../node/timers.js');
  return {
    node: { arm: (fn, ms) => setTimeout(fn, ms), drop: clearTimeout },
    uvsched: { arm: (fn, ms) => plain.schedule(ms, fn), drop: (task) => task.cancel() },
    batch: { arm: (fn, ms) => batch.schedule(ms, fn), drop: (task) => task.cancel() },
    timers: { arm: (fn, ms) => dropIn.setTimeout(fn, ms), drop: dropIn.clearTimeout },
    end: () => Promise.all([plain.close(), batch.close()]),
  };
};

// From the first call to the last callback, all with 1 ms: what is waited for is work.
const fireSame = ({ arm }) => new Promise((resolve) => {
  const start = wallNs();
  for (let i = 1; i < N; i++) arm(nop, 1);
  arm(() => resolve((wallNs() - start) / N), 1);
});

// Delays of 1 .. 200 ms: CPU time, because here one waits for the delays.
const fireRandom = ({ arm }) => new Promise((resolve) => {
  const rnd = random(7);
  const start = cpuNs();
  let left = N;
  const last = () => { if (--left === 0) resolve((cpuNs() - start) / N); };
  for (let i = 0; i < N; i++) arm(last, 1 + rnd(200));
});

const armDrop = async ({ arm, drop }) => {
  const start = wallNs();
  for (let i = 0; i < N; i++) drop(arm(nop, 5000));
  return (wallNs() - start) / N;
};

// The time-outs of a server: so many are armed, and each request clears one and arms another.
const armDropAmong = (pending) => async ({ arm, drop }) => {
  const handles = Array.from({ length: pending }, () => arm(nop, 60000));
  await sleep(5);
  const start = wallNs();
  for (let i = 0; i < N; i++) {
    const k = i % pending;
    drop(handles[k]);
    handles[k] = arm(nop, 60000);
  }
  const ns = (wallNs() - start) / N;
  handles.forEach(drop);
  return ns;
};

async function compare(title, names, measure, goals) {
  const w = ways();
  const seen = Object.fromEntries(names.map((name) => [name, []]));
  await sleep(20);
  for (let k = 0; k < REPS + 2; k++) {
    for (const name of names) {
      await sleep(5);
      global.gc();
      const ns = await measure(w[name]);
      if (k >= 2) seen[name].push(ns); // the first two are for the compiler
    }
  }
  await w.end();
  const base = median(seen.node);
  for (const name of names) {
    const ns = median(seen[name]);
    row(`${title}, ${name}`, `${ns.toFixed(0)} ns`, name === 'node' ? 1 : ns / base, goals[name]);
  }
}

const table = [];
function row(what, figure, ratio, goal) {
  const reached = goal === undefined ? '' : `${goal} x: ${ratio <= goal ? 'reached' : 'not reached'}`;
  table.push(`| ${what} | ${figure} | ${ratio.toFixed(2)} | ${reached} |`);
}

// ---- memory: a process for each ----

async function pending(way, spread) {
  const { arm } = ways()[way];
  const rnd = random(3);
  await sleep(20);
  global.gc();
  const before = process.memoryUsage();
  for (let i = 0; i < PENDING; i++) arm(nop, spread ? 20000 + rnd(59001) : 60000);
  await sleep(100);
  global.gc();
  const after = process.memoryUsage();
  console.log(JSON.stringify({
    heap: (after.heapUsed - before.heapUsed) / PENDING, rss: (after.rss - before.rss) / PENDING,
  }));
  process.exit();
}

// ---- drift: how far the runs of an interval have moved from the grid that the first began ----

// A run may be late; what counts is the least late one of the last tenth. A point that was missed
// (the runs are counted by the grid) is not drift. The grid is that of the first run, so a first one
// that is late makes it look less.
async function drift(way) {
  const period = 10;
  const last = (DRIFT_S * 1000) / period;
  let first;
  let least = Infinity;
  let n = 0;
  await new Promise((resolve) => {
    const beat = (points, stop) => {
      const now = performance.now();
      first ??= now;
      n += points;
      if (n > last * 0.9) least = Math.min(least, now - first - (n - 1) * period);
      if (n < last) return;
      console.log(JSON.stringify({ off: least }));
      stop();
      resolve();
    };
    if (way === 'node') {
      const t = setInterval(() => beat(1, () => clearInterval(t)), period);
    } else {
      const s = new Scheduler();
      const t = s.every(period, (run) => beat(1 + run.missed, () => { t.cancel(); s.close(); }));
    }
  });
}

// A function that runs: how much CPU time an interval costs per run.
async function beats(way) {
  const K = quick ? 1000 : 10000;
  const s = new Scheduler();
  let n = 0;
  const beat = () => { n++; };
  const handles = Array.from({ length: K }, () => (way === 'node' ? setInterval(beat, 20) : s.every(20, beat)));
  await sleep(200);
  n = 0;
  const start = cpuNs();
  await sleep(1000);
  console.log(JSON.stringify({ ns: (cpuNs() - start) / n, runs: n }));
  if (way === 'node') handles.forEach(clearInterval);
  process.exit();
}

function child(...args) {
  const out = execFileSync(process.execPath,
    ['--expose-gc', __filename, ...(quick ? ['--quick'] : []), ...args], { encoding: 'utf8' });
  return JSON.parse(out);
}

async function main() {
  const all = ['node', 'uvsched', 'batch', 'timers'];
  await compare(`${N} one-shots of 1 ms, schedule and fire`, all, fireSame, { uvsched: 0.7, batch: 0.4 });
  await compare(`${N} one-shots of 1 .. 200 ms, CPU`, all, fireRandom, { uvsched: 0.7, batch: 0.4 });
  const two = ['node', 'uvsched', 'timers'];
  await compare('time-out armed and cleared', two, armDrop, { uvsched: 0.7 });
  await compare('the same among 1000 pending', two, armDropAmong(1000), { uvsched: 0.7 });
  await compare('the same among 100000 pending', two, armDropAmong(1e5), { uvsched: 0.7 });
  for (const spread of ['', 'spread']) {
    const base = child('pending', 'node', spread);
    for (const way of two) {
      const m = child('pending', way, spread);
      const title = `${PENDING} pending${spread ? ', delays spread over 60 s' : ''}, ${way}`;
      row(`${title}: RSS`, `${m.rss.toFixed(0)} bytes`, m.rss / base.rss, way === 'uvsched' ? 0.8 : undefined);
      row(`${title}: JavaScript heap`, `${m.heap.toFixed(0)} bytes`, m.heap / base.heap);
    }
  }
  const perRun = { node: child('beats', 'node'), uvsched: child('beats', 'uvsched') };
  for (const way of ['node', 'uvsched']) {
    row(`intervals of 20 ms, CPU per run, ${way}`, `${perRun[way].ns.toFixed(0)} ns`, perRun[way].ns / perRun.node.ns);
  }
  const off = { node: child('drift', 'node').off, uvsched: child('drift', 'uvsched').off };
  console.log(`node ${process.version}, ${REPS} repetitions\n`);
  console.log('| what | median | x node | to reach |\n|---|---|---|---|');
  console.log(table.join('\n'));
  console.log(`\nAn interval of 10 ms has drifted in ${DRIFT_S} s by: node ${off.node.toFixed(1)} ms, ` +
    `uvsched ${off.uvsched.toFixed(1)} ms.`);
}

const [what, way, spread] = process.argv.slice(2).filter((word) => word !== '--quick');
({ pending, drift, beats }[what] ?? main)(way, spread);
