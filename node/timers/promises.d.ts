// SPDX-License-Identifier: MIT

/// <reference types="node" />

import { TimerOptions } from 'node:timers';

export { setImmediate } from 'node:timers/promises';

/** Resolves to `value` after `delay` ms. Rejects with an AbortError when the signal is aborted. */
export function setTimeout<T = void>(delay?: number, value?: T, options?: TimerOptions): Promise<T>;

/** Gives `value` every `delay` ms, from the first next() until the loop is left or the signal is aborted. */
export function setInterval<T = void>(
  delay?: number, value?: T, options?: TimerOptions): NodeJS.AsyncIterator<T>;

export interface Scheduler {
  /** Like setTimeout, without a value. */
  wait(delay: number, options?: TimerOptions): Promise<void>;
  /** Lets the event loop go on. This is node's own function. */
  yield(): Promise<void>;
}

export const scheduler: Scheduler;
