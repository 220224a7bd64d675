// SPDX-License-Identifier: MIT

/// <reference types="node" />

import * as promises from './timers/promises';

export { setImmediate, clearImmediate } from 'node:timers';
export { promises };

/** What setTimeout and setInterval return; the methods of node's, and good where node's is asked for. */
export interface Timeout extends NodeJS.Timeout {
  /** Clears it. */
  close(): this;
  hasRef(): boolean;
  ref(): this;
  /** Starts anew, also after it fired; not after it was cleared. */
  refresh(): this;
  unref(): this;
  /** The number by which clearTimeout and clearInterval know it. */
  [Symbol.toPrimitive](): number;
}

/**
 * Calls once, after `delay` whole ms, at least 1. Above 2^31-1 it is as long as it says; Infinity is
 * never.
 */
export function setTimeout<A extends any[]>(
  callback: (this: Timeout, ...args: A) => void, delay?: number, ...args: A): Timeout;

export namespace setTimeout {
  const __promisify__: typeof promises.setTimeout;
}

/** Calls every `delay` ms, on the grid that begins with the call. */
export function setInterval<A extends any[]>(
  callback: (this: Timeout, ...args: A) => void, delay?: number, ...args: A): Timeout;

/** Clears a Timeout, or the one with this number; node's own as well. Other things do no harm. */
export function clearTimeout(timeout?: NodeJS.Timeout | string | number | null): void;

/** The same as clearTimeout. */
export function clearInterval(timeout?: NodeJS.Timeout | string | number | null): void;
