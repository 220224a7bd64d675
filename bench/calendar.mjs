// SPDX-License-Identifier: MIT
//
// calendar PROGRAM FOLDER: uvs_calendar_next beside croner's nextRun, the same rows in one run.
// PROGRAM is bench-calendar; croner is installed in FOLDER/node_modules.
import { execFileSync } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

const [program, folder] = process.argv.slice(2);
const { Cron } = createRequire(path.join(path.resolve(folder), 'x.js'))('croner');
const START = new Date(20500 * 86400e3), AFTER_2072 = new Date(37315 * 86400e3);

// The best of some rounds, in ns.
function cronerNs(kind, zone, text) {
  const cron = new Cron(text, { timezone: zone, paused: true, domAndDow: kind === 'worst' });
  const chain = kind === 'worst' ? 3 : 100;
  let best = Infinity;
  for (let round = 0; round < 10; round++) {
    const from = process.hrtime.bigint();
    let at = START;
    for (let i = 0; i < chain; i++) at = cron.nextRun(kind === 'worst' ? AFTER_2072 : at) ?? START;
    best = Math.min(best, Number(process.hrtime.bigint() - from) / chain);
  }
  return best;
}

const rows = execFileSync(program, { encoding: 'utf8' }).trim().split('\n').map((line) => line.split('\t'));
console.log('          zone              expression      parse      next    croner    ratio');
for (const [kind, zone, text, ns, parse] of rows) {
  const theirs = cronerNs(kind, zone, text);
  console.log(`${kind.padEnd(9)} ${zone.padEnd(17)} ${text.padEnd(14)} ${`${parse} ns`.padStart(9)} ${`${ns} ns`.padStart(9)} ` +
    `${`${Math.round(theirs)} ns`.padStart(12)} ${(theirs / Number(ns)).toFixed(0).padStart(6)} x`);
}
