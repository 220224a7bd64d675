// SPDX-License-Identifier: MIT
//
// others ASK FOLDER [CASES]: calendars compared with croner and cron-parser, which are installed in
// FOLDER/node_modules. ASK is the program ask-calendar.
//
// Random expressions and starts, half of them near a change of the clock. Where another library
// answers differently, one of the reasons below must apply to that expression, and it must explain
// the difference: each reason says what the answers have in common in spite of it. A difference
// without a reason is an error. SEED=n in the environment repeats a run.
import { spawnSync } from 'node:child_process';
import { createRequire } from 'node:module';
import path from 'node:path';

const [ask, folder, count = '3000'] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), 'x.js'));
const { Cron } = require('croner');
const { CronExpressionParser } = require('cron-parser');

const ZONES = ['America/New_York', 'Europe/Berlin', 'Australia/Lord_Howe', 'America/Santiago', 'Europe/London',
  'Pacific/Apia', 'Asia/Kolkata', 'UTC', 'Australia/Sydney'];
const DAY = 86400;
const RUNS = 8;
const FROM = Date.UTC(2011, 10, 1) / 1000, TO = Date.UTC(2030, 0, 1) / 1000;

// ------------------------------------------------------------------- cases ---

const seed = Number(process.env.SEED ?? 0) || Math.floor(Math.random() * 2 ** 31) + 1;
let state = seed >>> 0;
function below(n) { // mulberry32
  state = (state + 0x6d2b79f5) >>> 0;
  let t = state;
  t = Math.imul(t ^ (t >>> 15), t | 1);
  t ^= t + Math.imul(t ^ (t >>> 7), t | 61);
  return ((t ^ (t >>> 14)) >>> 0) % n;
}
const pick = (...list) => list[below(list.length)];
const between = (a, b) => a + below(b - a + 1);

const formats = new Map();
function offsetOf(zone, at) { // seconds
  if (!formats.has(zone)) formats.set(zone, new Intl.DateTimeFormat('en', { timeZone: zone, timeZoneName: 'longOffset' }));
  const text = formats.get(zone).format(at * 1000);
  const m = /GMT(?:([+-])(\d+):(\d+))?/.exec(text);
  return m[1] ? (m[1] === '-' ? -1 : 1) * (m[2] * 3600 + m[3] * 60) : 0;
}

function changesOf(zone) {
  const found = [];
  for (let a = FROM; a < TO; a += 7 * DAY) {
    let low = a, high = a + 7 * DAY;
    if (offsetOf(zone, low) === offsetOf(zone, high)) continue;
    while (high - low > 1) {
      const middle = Math.floor((low + high) / 2);
      if (offsetOf(zone, middle) === offsetOf(zone, low)) low = middle;
      else high = middle;
    }
    found.push(high);
  }
  return found;
}
const changes = Object.fromEntries(ZONES.map((z) => [z, changesOf(z)]));
const nearChange = (zone, at) => changes[zone].some((c) => Math.abs(c - at) <= 1.2 * DAY);

function item(min, max) {
  const a = between(min, max), b = between(a, max);
  return pick(`${a}`, `${a}`, `${a}-${b}`, `${a}-${b}/${between(1, 5)}`, `*/${between(1, max)}`);
}
const field = (min, max) => (below(4) === 0 ? `${item(min, max)},${between(min, max)}` : item(min, max));
const dayField = () => pick('*', '*', '*', field(1, 31), 'L', 'LW', `${between(1, 31)}W`, `L,${between(1, 28)}`);
const weekdayField = () => pick('*', '*', '*', field(0, 6), `${between(0, 6)}L`, `${between(0, 6)}#${between(1, 4)}`,
  'MON-FRI', 'sat,SUN', '5-7');

function randomCase() {
  const zone = ZONES[below(ZONES.length)];
  const near = changes[zone].length > 0 && below(2) === 0;
  const start = near ? changes[zone][below(changes[zone].length)] - between(0, 2 * DAY) : between(FROM, TO);
  const hour = pick('*', `${between(0, 4)}`, `${between(0, 4)}`, `${between(0, 4)}`, field(0, 23));
  return { zone, start, text: [pick('0', '30', field(0, 59)), hour, dayField(), pick('*', '*', field(1, 12)), weekdayField()].join(' ') };
}

// ----------------------------------------------------------------- answers ---

function oursOf(cases, days) {
  const lines = cases.map((c) => `${c.text}\t${c.zone}\t${days}\t0\t0\t${c.start}\t${RUNS}\n`).join('');
  const run = spawnSync(ask, { input: lines, encoding: 'utf8', maxBuffer: 1 << 28 });
  if (run.status !== 0) throw new Error(`${ask} failed: ${run.stderr}`);
  return run.stdout.trimEnd().split('\n').map((line, i) =>
    (line.startsWith('error') ? line : line.trim().split(' ').map(Number).filter((n) => n > cases[i].start && n < 2 ** 40)));
}

function cronerOf({ text, zone, start }) {
  const runs = [];
  try {
    const cron = new Cron(text, { timezone: zone, paused: true });
    let at = new Date(start * 1000);
    while (runs.length < RUNS && (at = cron.nextRun(at)) !== null) runs.push(at.getTime() / 1000);
  } catch (e) { return `error ${e.message}`; }
  return runs;
}

function cronParserOf({ text, zone, start }) {
  const runs = [];
  try {
    const it = CronExpressionParser.parse(text, { currentDate: new Date(start * 1000), tz: zone });
    while (runs.length < RUNS) runs.push(it.next().getTime() / 1000);
  } catch (e) { return `error ${e.message}`; }
  return runs;
}

// ----------------------------------------------------------------- reasons ---

const isList = (a) => Array.isArray(a);
// Both are refused; or the same instants as far as both lists reach.
const same = (a, b) => (isList(a) && isList(b) ? sameBut(a, b, () => false) : isList(a) === isList(b));
// The same instants up to where both lists reach, without those that `leave` leaves out.
function sameBut(a, b, leave) {
  if (!isList(a) || !isList(b)) return false;
  const end = Math.min(...[a, b].map((list) => (list.length < RUNS ? Infinity : list.at(-1))));
  const rest = (list) => String(list.filter((at) => at <= end && !leave(at)));
  return rest(a) === rest(b);
}
const split = (c) => {
  const [minute, hour, day, month, weekday] = c.text.split(' ');
  return { minute, hour, day, month, weekday };
};
const isStepped = (f) => f.startsWith('*') && f !== '*';
const localDay = (zone, at) => new Date((at + offsetOf(zone, at)) * 1000).getUTCDate();
const isFixed = ({ minute, hour }) => !minute.startsWith('*') && !hour.startsWith('*');
const isSingle = ({ minute, hour }) => /^\d+$/.test(minute) && /^\d+$/.test(hour);

// A gap whose first local time and last local time are on another day than the time after it.
const endsOnAnotherDay = (zone) => changes[zone].filter((c) => {
  const gap = offsetOf(zone, c) - offsetOf(zone, c - 1);
  return gap > 0 && new Date((c + offsetOf(zone, c - 1)) * 1000).getUTCDate() !== localDay(zone, c);
});

// applies: could the reason be one for this expression? either: compare with UVS_DAYS_EITHER.
// leave: instants that may differ. refused: which refusals it explains, by us or by the other.
const star = {
  text: 'only a bare * leaves a day field open: */2 and a weekday are either, not both',
  applies: (f) => f.day !== '*' && f.weekday !== '*' && (isStepped(f.day) || isStepped(f.weekday)),
  either: true,
};
const REASONS = {
  croner: [
    star,
    { text: 'a date that never comes is not refused, but has no run', applies: () => true,
      refused: (o, t) => !isList(o) && o.includes('never') && isList(t) && t.length === 0 },
    { text: 'only a single minute and hour are a fixed time', applies: (f) => isFixed(f) && !isSingle(f),
      leave: (c, at) => nearChange(c.zone, at) },
    { text: 'a time in a gap that ends on another day is dropped', applies: (f) => isFixed(f),
      leave: (c, at) => endsOnAnotherDay(c.zone).some((g) => Math.abs(g - at) <= 1.2 * DAY) },
    { text: 'the 1st is skipped if the month before is too short for another day of the list',
      applies: (f) => /29|3[01]|-|\/|W/.test(f.day), leave: (c, at) => localDay(c.zone, at) === 1 },
  ],
  'cron-parser': [
    star,
    { text: 'W is not known', applies: (f) => /W/.test(f.day), refused: (o, t) => !isList(t) && t.includes('Invalid characters') },
    { text: 'a value that is listed twice is refused', applies: (f) => Object.values(f).some((v) => v.includes(',')),
      refused: (o, t) => !isList(t) && t.includes('duplicate values') },
    { text: 'the search gives up where the clock changes by half an hour', applies: (f, c) => c.zone === 'Australia/Lord_Howe',
      refused: (o, t) => !isList(t) && t.includes('loop limit') },
    { text: 'it is compared only outside changes of the clock', applies: () => true, leave: (c, at) => nearChange(c.zone, at) },
  ],
};

// The fewest reasons that together explain the difference; null.
function explain(reasons, c, ours, either, theirs) {
  const may = reasons.filter((r) => r.applies(split(c), c));
  const sets = Array.from({ length: 1 << may.length }, (_, bits) => may.filter((_, i) => (bits >> i) & 1));
  return sets.sort((a, b) => a.length - b.length).find((set) => {
    const mine = set.some((r) => r.either) ? either : ours;
    return same(mine, theirs) || set.some((r) => r.refused?.(mine, theirs)) ||
      sameBut(mine, theirs, (at) => set.some((r) => r.leave?.(c, at)));
  }) ?? null;
}

// -------------------------------------------------------------------- main ---

console.log(`SEED=${seed}`);
const cases = Array.from({ length: Number(count) }, randomCase);
const ours = oursOf(cases, 0), either = oursOf(cases, 1);
let unexplained = 0;
for (const [name, of] of [['croner', cronerOf], ['cron-parser', cronParserOf]]) {
  const seen = new Map(REASONS[name].map((r) => [r, []]));
  let equal = 0;
  cases.forEach((c, i) => {
    const theirs = of(c);
    if (same(ours[i], theirs)) { equal++; return; }
    const why = explain(REASONS[name], c, ours[i], either[i], theirs);
    if (why !== null) { for (const r of why) seen.get(r).push(c); return; }
    unexplained++;
    console.log(`UNEXPLAINED: ${name}, ${JSON.stringify(c)}\n  ours   ${ours[i]}\n  theirs ${theirs}`);
  });
  console.log(`${name}: ${equal} of ${cases.length} equal`);
  for (const [r, list] of seen) {
    const example = list[0] ? `, as in ${list[0].text} (${list[0].zone}, from ${new Date(list[0].start * 1000).toISOString()})` : '';
    console.log(`  ${String(list.length).padStart(5)}  ${r.text}${example}`);
  }
}
console.log(`${unexplained} differences without a reason`);
process.exit(unexplained > 0 ? 1 : 0);
