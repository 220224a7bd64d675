// SPDX-License-Identifier: MIT

/// <reference types="node" />

import * as promises from './timers/promises';

export { setImmediate, clearImmediate } from 'node:timers';
export { promises };

/** What setTimeout and setInterval return. It can be used wherever a Timeout of node is expected. */
export interface Timeout extends NodeJS.Timeout {
  /** Clears the timer. */
  close(): this;
  hasRef(): boolean;
  ref(): this;
  /** Starts the delay again, also after the timer fired, but not after it was cleared. */
  refresh(): this;
  unref(): this;
  /** A number that clearTimeout and clearInterval accept instead of the object. */
  [Symbol.toPrimitive](): number;
}

/**
 * Calls `callback` once, after `delay` ms (a whole number, at least 1). Delays above 2^31-1 ms are
 * waited for. Infinity means never.
 */
export function setTimeout<A extends any[]>(
  callback: (this: Timeout, ...args: A) => void, delay?: number, ...args: A): Timeout;

export namespace setTimeout {
  const __promisify__: typeof promises.setTimeout;
}

/** Calls `callback` every `delay` ms, without drift: call n is due n * `delay` ms after this call. */
export function setInterval<A extends any[]>(
  callback: (this: Timeout, ...args: A) => void, delay?: number, ...args: A): Timeout;

/** Clears a Timeout, or the Timeout with this number, also one of node. Ignores anything else. */
export function clearTimeout(timeout?: NodeJS.Timeout | string | number | null): void;

/** The same as clearTimeout. */
export function clearInterval(timeout?: NodeJS.Timeout | string | number | null): void;
