// SPDX-License-Identifier: MIT
'use strict';

// Reads the durations and instants that users give. Internally a duration is a number of nanoseconds,
// and Infinity means never. A number is exact to 1 ns up to 104 days, and to 2 us for a century.

const { inspect, types: { isDate } } = require('node:util');

const UNITS = { ns: 1, us: 1e3, µs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9, d: 86400e9, w: 604800e9 };
const PART = /(\d+(?:\.\d+)?)\s*(ns|us|µs|ms|s|m|h|d|w)\s*/y;

function parse(text) {
  let ns = 0;
  let parts = 0;
  PART.lastIndex = 0;
  const trimmed = text.trim();
  while (PART.lastIndex < trimmed.length) {
    const found = PART.exec(trimmed);
    if (found === null) return NaN;
    ns += Number(found[1]) * UNITS[found[2]];
    parts++;
  }
  return parts > 0 ? Math.round(ns) : NaN;
}

// Converts a number of ms, a BigInt of ns, or a text ('15d', '1h 30m', '250ms') to ns. A negative value
// becomes 0.
function duration(value, name) {
  switch (typeof value) {
    case 'number': {
      if (Number.isNaN(value)) throw new RangeError(`${name} must not be NaN`);
      const ns = Math.round(value * 1e6);
      return ns > 0 ? ns : 0;
    }
    case 'bigint':
      return value > 0n ? Number(value) : 0;
    case 'string': {
      const ns = parse(value);
      if (Number.isNaN(ns)) {
        throw new RangeError(`${name} must look like '15d', '1h 30m' or '250ms', not ${inspect(value)}`);
      }
      return ns;
    }
    default:
      throw new TypeError(
        `${name} must be a number of ms, a BigInt of ns, or a text such as '15d', not ${inspect(value)}`);
  }
}

// Like duration, but zero is refused.
function period(value, name) {
  const ns = duration(value, name);
  if (ns < 1) throw new RangeError(`${name} must be greater than zero, not ${inspect(value)}`);
  return ns;
}

// Converts a Date, a number of ms or a BigInt of ns since 1970 to [whole ms, ns]. Instants before 1970
// become [0, 0]: they are in the past anyway.
function instant(value, name) {
  if (isDate(value) || typeof value === 'number') {
    const ms = Number(value);
    if (Number.isNaN(ms)) throw new RangeError(`${name} must not be ${inspect(value)}`);
    if (ms <= 0) return [0, 0];
    const whole = Math.floor(ms);
    return [whole, whole === ms ? 0 : Math.round((ms - whole) * 1e6)];
  }
  if (typeof value === 'bigint') {
    return value <= 0n ? [0, 0] : [Number(value / 1000000n), Number(value % 1000000n)];
  }
  throw new TypeError(
    `${name} must be a Date, or ms or (BigInt) ns since 1970, not ${inspect(value)}`);
}

module.exports = { duration, period, instant };
