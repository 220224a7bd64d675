// SPDX-License-Identifier: MIT
//
// Peer: Node.js timers (loop only; no other thread may submit, so no W4).
'use strict';
const hr = () => Number(process.hrtime.bigint());
const emit = (k, v) => console.log(k + ' ' + v.toFixed(4));
const die = (s) => { console.log('FAIL ' + s); process.exit(1); };
// xorshift32: splitmix64 needs BigInt, which would be what is measured
function Rng(seed) {
  let x = seed >>> 0 || 1;
  return (n) => {
    x ^= x << 13; x >>>= 0; x ^= x >>> 17; x ^= x << 5; x >>>= 0;
    return Math.floor((x / 4294967296) * n);
  };
}
let count = 0;
let base = 1000; // 20000 for N >= 10^6: nothing may fall due while W1/W2 run
const nop = () => { count++; };

function delays(n) {
  const r = Rng(1), d = new Uint32Array(n);
  if (n >= 1e6) base = 20000;
  for (let i = 0; i < n; i++) d[i] = base + r(59001);
  return d;
}
function armAll(T, d) {
  const n = d.length, t0 = hr();
  for (let i = 0; i < n; i++) T[i] = setTimeout(nop, d[i]);
  return (hr() - t0) / n;
}
function freeAll(T) { for (let i = 0; i < T.length; i++) clearTimeout(T[i]); }
const turn = () => new Promise((r) => setImmediate(r));

function mem(n) {
  const d = delays(n), T = new Array(n).fill(0);
  gc(); gc();
  const m0 = process.memoryUsage();
  const cold = armAll(T, d);
  const r1 = process.memoryUsage().rss;
  gc(); gc();
  const m1 = process.memoryUsage();
  emit('bytes', (r1 - m0.rss) / n);
  emit('live_bytes', (m1.heapUsed - m0.heapUsed) / n);
  emit('arm_cold_ns', cold);
  process.exit(0);
}

async function w12(n, secs) {
  const d = delays(n), T = new Array(n).fill(0);
  const rounds = n <= 10000 ? 20 : n <= 100000 ? 4 : 1;
  for (let r = 0; r < rounds; r++) { armAll(T, d); freeAll(T); await turn(); }
  let sum = 0;
  const m = Math.ceil(rounds / 2);
  for (let r = 0; r < m; r++) {
    if (r) { freeAll(T); await turn(); }
    sum += armAll(T, d);
  }
  emit('arm_ns', sum / m);
  const r = Rng(99);
  let pairs = 0, t0 = 0, c0;
  for (let pass = 0; pass < 2; pass++) {
    const lim = pass ? secs * 1e9 : secs * 1e9 / 4;
    pairs = 0; c0 = process.cpuUsage(); t0 = hr();
    do {
      for (let k = 0; k < 256; k++) {
        const i = r(n);
        clearTimeout(T[i]);
        T[i] = setTimeout(nop, base + r(59001));
      }
      pairs += 256;
      await turn();
    } while (hr() - t0 < lim);
  }
  const ns = hr() - t0, c = process.cpuUsage(c0);
  emit('churn_ns', ns / pairs);
  emit('churn_cpu_ns', (c.user + c.system) * 1e3 / pairs);
  emit('churn_pairs', pairs);
  emit('churn_fired', count);
  process.exit(0);
}

function w3(n) {
  const f = () => {
    if (++count === n) {
      const end = hr();
      emit('fire_ns', (end - Math.max(due, armed)) / n);
      emit('armed_late', armed > due ? 1 : 0);
      process.exit(0);
    }
  };
  // one delay for all: node files equal delays in one list, its best case
  const D = 30 + Math.ceil(n * 700 / 1e6);
  const due = hr() + D * 1e6;
  for (let i = 0; i < n; i++) setTimeout(f, D);
  const armed = hr();
}

function periodic(k, periodMs, secs, record) {
  const t0 = hr() + 20e6 + k * 400, stop = t0 + secs * 1e9, win = secs * 1e9 / 5;
  const P = [], late = [[], [], [], [], [], []], r = Rng(77);
  let execs = 0, over = false;
  const c0 = process.cpuUsage();
  function run(p) {
    if (over) return;
    const n = hr();
    p.last = n - p.ideal;
    execs++;
    if (record) late[Math.max(0, Math.min(5, Math.floor((n - t0) / win)))].push(p.last / 1e3);
    if (n >= stop) { over = true; return finish(); }
    p.ideal += p.period;
    // setTimeout has whole milliseconds; round up so as not to be early
    setTimeout(run, Math.max(1, Math.ceil((p.ideal - n) / 1e6)), p);
  }
  function finish() {
    const c = process.cpuUsage(c0), cpu = (c.user + c.system) * 1e3;
    if (record) {
      emit('cpu_ms', cpu / 1e6);
      emit('execs', execs);
      for (let w = 0; w < 5; w++) {
        const v = Float64Array.from(late[w]).sort(), m = v.length;
        console.log(`win p50 ${v[m >> 1].toFixed(1)} p99 ${v[Math.floor(m * 0.99)].toFixed(1)} p999 ${v[Math.floor(m * 0.999)].toFixed(1)} max ${v[m - 1].toFixed(1)} n ${m}`);
      }
      const l = P.map((p) => p.last / 1e3).sort((a, b) => a - b);
      emit('drift_us', l[k >> 1]);
    } else {
      emit('keepup', execs / ((hr() - t0) / 1e6 / periodMs * k));
      emit('cpu_s_per_M', cpu / 1e9 / execs * 1e6);
    }
    process.exit(0);
  }
  for (let i = 0; i < k; i++) {
    const ms = periodMs || 10 + i % 91;
    const p = { ideal: t0 + r(ms * 1000) * 1000, period: ms * 1e6, last: 0 };
    P.push(p);
    setTimeout(run, Math.max(1, Math.ceil((p.ideal - hr()) / 1e6)), p);
  }
}

function check() {
  const n = 20000, r = Rng(5), T = [], fired = new Int32Array(n), want = new Int32Array(n);
  const due = new Float64Array(n);
  let early = 0, cancelled = 0;
  const f = (i) => { early = Math.max(early, due[i] - hr()); fired[i]++; };
  const arm = (i) => {
    const ms = 20 + r(200);
    due[i] = hr() + ms * 1e6;
    T[i] = setTimeout(f, ms, i);
    want[i]++;
  };
  const stop = (i) => { if (fired[i] !== want[i]) { want[i]--; cancelled++; } clearTimeout(T[i]); };
  for (let i = 0; i < n; i++) arm(i);
  for (let k = 0; k < 20000; k++) { const i = r(n); stop(i); arm(i); }
  for (let i = 0; i < n; i += 2) stop(i);
  setTimeout(() => {
    let tot = 0;
    for (let i = 0; i < n; i++) {
      if (fired[i] !== want[i]) die('check: a task fired a wrong number of times');
      tot += fired[i];
    }
    // node counts from the loop's cached clock: the arming burst itself is "early"
    emit('check_early_us', Math.max(0, early) / 1e3);
    emit('check_fired', tot);
    emit('check_cancelled', cancelled);
    process.exit(0);
  }, 500);
}

const a = process.argv.slice(2);
if (a[0] === 'check') check();
else if (a[0] === 'mem') mem(+a[1]);
else if (a[0] === 'w12') w12(+a[1], +a[2]);
else if (a[0] === 'w3' && a[1] === 'loop') w3(+a[2]);
else if (a[0] === 'w5' && a[1] === 'loop') periodic(1000, 0, +a[2], true);
else if (a[0] === 'w6' && a[1] === 'loop') periodic(+a[2], +a[3], +a[4], false);
else process.exit(2);
