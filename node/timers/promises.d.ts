// SPDX-License-Identifier: MIT

/// <reference types="node" />

import { TimerOptions } from 'node:timers';

export { setImmediate } from 'node:timers/promises';

/** Fulfilled with `value` after `delay` ms; rejected with an AbortError when the signal is raised. */
export function setTimeout<T = void>(delay?: number, value?: T, options?: TimerOptions): Promise<T>;

/** `value` every `delay` ms, from the first next() until it is left or the signal is raised. */
export function setInterval<T = void>(
  delay?: number, value?: T, options?: TimerOptions): NodeJS.AsyncIterator<T>;

export interface Scheduler {
  /** As setTimeout, without a value. */
  wait(delay: number, options?: TimerOptions): Promise<void>;
  /** Gives way to the loop: node's own. */
  yield(): Promise<void>;
}

export const scheduler: Scheduler;
