// SPDX-License-Identifier: MIT

/// <reference types="node" />

import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';

/**
 * A length of time: a number of milliseconds (fractions count), a BigInt of nanoseconds, or a text such
 * as `'250ms'`, `'1h 30m'`, `'15d'`. The units are ns, us, ms, s, m, h, d and w. A negative number counts
 * as zero. `Infinity` means never.
 */
export type Duration = number | bigint | string;

/** An instant: a Date, a number of milliseconds since 1970, or a BigInt of nanoseconds since 1970. */
export type Instant = Date | number | bigint;

/** The function of a task. Its return value, or the value of its promise, is the value of the run. */
export type TaskFunction<T> = (run: Run) => T | PromiseLike<T>;

/** One run of a task. The function gets it as its argument. Times are in milliseconds. */
export interface Run {
  readonly task: Task<unknown>;
  /**
   * When the run should have started, without jitter. It compares with `performance.now()`; for tasks
   * made with `at`, with `Date.now()`.
   */
  readonly ideal: number;
  /** How much later than due the run started; never negative. */
  readonly late: number;
  /** The number of the run; the first is 1. */
  readonly run: number;
  /** How many periods passed without a run since the previous run; see the option `missed`. */
  readonly missed: number;
  /**
   * Aborted when the task is cancelled, when the run exceeds its `limit`, and by `shutdownNow` and
   * `close`. Created when it is first read.
   */
  readonly signal: AbortSignal;
}

/** How a task with `failure: 'retry'` waits after a failed run. */
export interface RetryOptions {
  /** The first wait, from the end of the failed run. It doubles with each consecutive failure. Default 1 s. */
  wait?: Duration | undefined;
  /** The longest wait. Default: no limit. */
  max?: Duration | undefined;
  /** Each wait is shortened at random by up to this many percent, 0 to 100. Default 0. */
  jitter?: number | undefined;
}

/** Options of all tasks. */
export interface CommonOptions {
  /** A text for listings; `task.name`. */
  name?: string | undefined;
  /** Whether the task keeps the process alive while it waits. Default true. */
  ref?: boolean | undefined;
  /** Cancels the task when it is aborted. Its reason becomes the cause of the AbortError. */
  signal?: AbortSignal | undefined;
  /**
   * A run that takes longer than this from its start fails with a TimeoutError, and its signal is aborted.
   * Waiting for a lane does not count. Default: no limit.
   */
  limit?: Duration | undefined;
  /** Only with `failure: 'retry'`. */
  retry?: RetryOptions | undefined;
  /** The task gives up after this many consecutive failures. Not with `failure: 'stop'`. Default: never. */
  maxFailures?: number | undefined;
  /** Of due tasks, 8 of high priority start for 4 of normal and 1 of low priority. Default `'normal'`. */
  priority?: 'low' | 'normal' | 'high' | undefined;
  /** Delays each run by a random time of up to this length. The delays do not add up. Default 0. */
  jitter?: Duration | undefined;
}

/** Options of tasks that run once. */
export interface TaskOptions extends CommonOptions {
  /** What happens after a failed run. `'stop'` (default): the task ends. `'retry'`: it tries again. */
  failure?: 'stop' | 'retry' | undefined;
}

/** Options of periodic tasks. */
export interface PeriodicOptions extends CommonOptions {
  /**
   * What happens after a failed run. `'stop'` (default): the task ends. `'continue'`: the next run comes
   * as usual. `'retry'`: the task tries again, after a wait.
   */
  failure?: 'stop' | 'continue' | 'retry' | undefined;
  /** `'rate'` (default): without drift. `'delay'`: the period counts from the end of a run. */
  mode?: 'rate' | 'delay' | undefined;
  /** Time until the first run. Default: one period. */
  delay?: Duration | undefined;
  /**
   * With mode `'rate'`: what happens to periods that passed while the task could not run. `'once'`
   * (default): one run makes up for all of them. `'skip'`: they are left out. `'catch-up'`: each gets
   * its run, back to back.
   */
  missed?: 'once' | 'skip' | 'catch-up' | undefined;
  /** With `missed: 'catch-up'`: only this many of the newest missed periods get a run. Default: all. */
  maxBurst?: number | undefined;
  /** The task ends after this many runs. Default: no limit. */
  maxRuns?: number | undefined;
  /** The task ends at this Date, or after this duration from now. Default: never. */
  until?: Date | Duration | undefined;
}

/**
 * A task. Its function runs in the async context of the call that made the task, and sees the
 * AsyncLocalStorage stores of that call.
 */
export class Task<T = unknown> extends AsyncResource {
  protected constructor(...internal: never);

  /**
   * Cancels the task, and returns what that did:
   *
   * - `'cancelled'`: no run is in progress, and none will start.
   * - `'running'`: the current run goes on with its signal aborted, and no other run follows.
   * - `'already'`: an earlier call cancelled the task, and its run still goes on.
   * - `'ended'`: the task had already ended, or an earlier call cancelled it with no run in progress.
   *
   * `promise` rejects with an AbortError whose cause is the reason.
   */
  cancel(reason?: unknown): 'cancelled' | 'running' | 'already' | 'ended';

  /**
   * Moves the next run to `delay` from now and returns true. If the task is due, running or has
   * ended, does nothing and returns false.
   */
  reschedule(delay: Duration): boolean;

  /** The task keeps the process alive while it waits. */
  ref(): this;
  /** The process may end while the task waits. */
  unref(): this;
  hasRef(): boolean;

  /**
   * Settles when the task ends: with the value of the last successful run, or with the error. If you
   * never read it, failures go to the scheduler's `'error'` event, or else to the process.
   */
  readonly promise: Promise<T>;

  /** The option `name`, or ''. */
  readonly name: string;
  /** `'ready'` means due, but not yet started. */
  readonly state: 'waiting' | 'ready' | 'running' | 'ended';
  /** How many runs have started. */
  readonly runs: number;
  /** Milliseconds until the next run: negative if overdue, Infinity for never, undefined if none follows. */
  readonly remaining: number | undefined;
  /** The number of consecutive failures. */
  readonly failures: number;

  /**
   * Gives each run that succeeds from now on. The loop ends with the task, and throws if the task fails.
   * Leaving the loop does not cancel the task.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Run>;

  /** Cancels the task at the end of a `using` block. Only where node has Symbol.dispose. */
  [Symbol.dispose](): void;
}

/** The methods of schedulers and lanes that make tasks. */
interface Submit {
  /** Runs `fn` once, after `delay`. */
  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  /** Runs `fn` again and again, until the task is cancelled or its options end it. Runs never overlap. */
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  /** Runs `fn` once, at an instant of the wall clock, also if that clock is set. The past means now. */
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  /** Runs `fn` once, as soon as possible, but not before this call returns. */
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
}

export interface LaneOptions {
  /** How many of the lane's tasks may run at once. Default 1. 0 means no limit. */
  width?: number | undefined;
}

/**
 * A group of tasks that run in order, at most `width` at once, and can be cancelled together. Made by
 * `scheduler.lane()`.
 */
export class Lane implements Submit {
  protected constructor(...internal: never);

  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;

  readonly disposed: boolean;
  /** Cancels all tasks of the lane and accepts no more. Resolves when the last of them has ended. */
  dispose(reason?: unknown): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface SchedulerOptions {
  /** Runs microtasks once after all due functions, and not after each function. Default false. */
  batch?: boolean | undefined;
  /** After this time, 1 us to 1 s, other due tasks wait for the next pass of the loop. Default 1 ms. */
  budget?: Duration | undefined;
  /** What keeps the process alive: `'auto'` (default): ref'd tasks; `'always'`: the scheduler; `'never'`: nothing. */
  keepAlive?: 'auto' | 'always' | 'never' | undefined;
  /** The largest number of tasks that have not ended. One more throws with code EAGAIN. Default: no limit. */
  maxPending?: number | undefined;
  /**
   * Uses a timer with nanosecond resolution instead of whole milliseconds (Linux only). A duration of up
   * to 1 ms says how late it may wake up, so that near deadlines share one wake-up. true means 50 us.
   * Default false.
   */
  precise?: boolean | Duration | undefined;
  /**
   * For tasks of native addons: how many run at once on libuv's thread pool, 0 to 1024. Default: one less
   * than the pool has threads.
   */
  concurrency?: number | undefined;
  /** For tasks of native addons: this many own threads, 1 to 1024, instead of libuv's thread pool. */
  threads?: number | undefined;
}

export interface ShutdownOptions {
  /** Whether one-shot tasks that are not yet due still run. Default true. */
  delayed?: boolean | undefined;
  /** Whether periodic tasks go on. Default false. */
  periodic?: boolean | undefined;
}

/** Why periods passed without a run. */
export type MissedCause =
  'timer' | 'loop' | 'budget' | 'runners' | 'overlap' | 'clock' | 'submit' | 'paused' | 'retry' | 'unknown';

/** The events of a scheduler, with the arguments of their listeners. */
export interface SchedulerEvents {
  /** A run failed, and the task goes on or nobody has read its promise. */
  error: [error: any, task: Task];
  /** This many periods of the task passed without a run. */
  missed: [task: Task, count: number, cause: MissedCause];
}

/**
 * Counters. At every moment `submitted` is the sum of `completed`, `failed`, `cancelled`, `timedOut`,
 * `dropped`, `waiting`, `ready` and `running`.
 */
export interface Stats {
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** Tasks that ended because a run exceeded its limit. */
  timedOut: number;
  dropped: number;
  waiting: number;
  /** Due, but not yet started. */
  ready: number;
  running: number;
  /** Tasks that were refused, for example because of `maxPending`. */
  rejected: number;
  runs: number;
  /** Periods that passed without a run. */
  missed: number;
  /** Pool threads in use now. */
  runners: number;
  /** The most pool threads that were in use at once. */
  peakRunners: number;
  /** For how many tasks memory is allocated. */
  slots: number;
  /** Failed runs, also those after which the task went on. */
  failedRuns: number;
  /** How often the scheduler has woken up the loop. */
  wakeups: number;
  /** How late runs started, in milliseconds. From 1 us on, p50 and p99 are at most 25 % too high. */
  late: { count: number; p50: number; p99: number; max: number };
}

/** A scheduler on the event loop of this thread. */
export class Scheduler extends EventEmitter implements Submit {
  constructor(options?: SchedulerOptions);

  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;

  lane(options?: LaneOptions): Lane;

  /** Accepts no new tasks. Resolves when the last task has ended. */
  shutdown(options?: ShutdownOptions): Promise<void>;
  /** Starts no more runs, and aborts the signals of the current ones. Resolves to the tasks that never ran. */
  shutdownNow(): Promise<Task[]>;
  /** Like `shutdownNow`, and frees everything. Resolves when no function is running any more. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;

  stats(): Stats;
  /** The tasks that have not ended. */
  tasks(): Task[];
  /** A table of functions for native addons; see include/uvsched_node.h. */
  readonly native: unknown;

  on<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  once<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  off<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  addListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  removeListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  prependListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  prependOnceListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
}

/** The task was cancelled. `cause` is the reason, if one was given. */
export class AbortError extends Error {
  constructor(reason?: unknown);
  readonly code: 'ABORT_ERR';
  readonly cause?: unknown;
}

/** A run exceeded its limit. */
export class TimeoutError extends Error {
  constructor(message?: string);
  readonly code: 'ETIMEDOUT';
}

/** The default scheduler of this thread, which the functions below use. */
export function defaultScheduler(): Scheduler;

/** Runs `fn` once, after `delay`, on the default scheduler. */
export function schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
/** Runs `fn` again and again, on the default scheduler. */
export function every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
/** Runs `fn` once, at an instant of the wall clock, on the default scheduler. */
export function at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
/** Runs `fn` once, as soon as possible, on the default scheduler. */
export function execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
