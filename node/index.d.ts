// SPDX-License-Identifier: MIT

/// <reference types="node" />

import { AsyncResource } from 'node:async_hooks';
import { EventEmitter } from 'node:events';

/**
 * How long: a number of milliseconds (fractions count), a BigInt of nanoseconds, or a text such as
 * `'250ms'`, `'1h 30m'`, `'15d'`; units are ns, us, ms, s, m, h, d and w. Below zero is zero;
 * `Infinity` is never.
 */
export type Duration = number | bigint | string;

/** When: a Date, or since 1970 a number of milliseconds or a BigInt of nanoseconds. */
export type Instant = Date | number | bigint;

/** What a task calls. What it returns, or what its promise gives, is the value of the run. */
export type TaskFunction<T> = (run: Run) => T | PromiseLike<T>;

/** One run of a task, as its function gets it. Times are milliseconds. */
export interface Run {
  readonly task: Task<unknown>;
  /**
   * When it should have started, jitter not counted: on the scale of `performance.now()`; for tasks
   * made with `at`, on that of `Date.now()`.
   */
  readonly ideal: number;
  /** How much later than due it started; never below zero. */
  readonly late: number;
  /** Which run of the task this is, from 1 on. */
  readonly run: number;
  /** How many points of the grid before this run had none; see `missed` of the options. */
  readonly missed: number;
  /**
   * Raised when the task is cancelled, when the run passes its `limit`, and by `shutdownNow` and
   * `close`. Made when it is first asked for.
   */
  readonly signal: AbortSignal;
}

/** What a failed run, with `failure: 'retry'`, is followed by. */
export interface RetryOptions {
  /** The first wait, from the end of the run that failed; doubles with each failure in a row. Default 1 s. */
  wait?: Duration | undefined;
  /** The longest wait. Default: no bound. */
  max?: Duration | undefined;
  /** Percent of each wait, 0 to 100, that chance may take off. Default 0. */
  jitter?: number | undefined;
}

/** What all tasks can be told. */
export interface CommonOptions {
  /** For people, and for `task.name`. */
  name?: string | undefined;
  /** false: while it waits, this task does not keep the process alive. Default true. */
  ref?: boolean | undefined;
  /** Cancels the task when it is raised; its reason is the cause of the AbortError. */
  signal?: AbortSignal | undefined;
  /** A run that takes longer fails with a TimeoutError, and its signal is raised. Default: none. */
  limit?: Duration | undefined;
  /** With `failure: 'retry'` only. */
  retry?: RetryOptions | undefined;
  /** So many failures in a row end the task, if `failure` is not `'stop'`. Default: it never gives up. */
  maxFailures?: number | undefined;
  /** Which of the tasks that are due starts first: they take turns, 8 : 4 : 1. Default `'normal'`. */
  priority?: 'low' | 'normal' | 'high' | undefined;
  /** Each run is due up to so much after its ideal time. It never adds up. Default 0. */
  jitter?: Duration | undefined;
}

/** For tasks that run once. */
export interface TaskOptions extends CommonOptions {
  /** What a failed run means: `'stop'` (default) ends the task, `'retry'` tries again. */
  failure?: 'stop' | 'retry' | undefined;
}

/** For tasks that run again and again. */
export interface PeriodicOptions extends CommonOptions {
  /**
   * What a failed run means: `'stop'` (default) ends the task, after `'continue'` the next run comes
   * as ever, `'retry'` tries again.
   */
  failure?: 'stop' | 'continue' | 'retry' | undefined;
  /** `'rate'` (default): on a grid, without drift. `'delay'`: the period lies between runs. */
  mode?: 'rate' | 'delay' | undefined;
  /** To the first run. Default: one period. */
  delay?: Duration | undefined;
  /**
   * At a fixed rate, about points that passed while it could not run: `'once'` (default) has one run
   * for all of them, `'skip'` none, `'catch-up'` all of them, back to back.
   */
  missed?: 'once' | 'skip' | 'catch-up' | undefined;
  /** With `missed: 'catch-up'`, only the newest so many. Default: no bound. */
  maxBurst?: number | undefined;
  /** After so many runs the task is over. Default: no bound. */
  maxRuns?: number | undefined;
  /** No run whose ideal time is later: a Date, or so long from now. Default: no end. */
  until?: Date | Duration | undefined;
}

/**
 * A task that was submitted. Its functions run in the async context of the submission: they see its
 * AsyncLocalStorage stores.
 */
export class Task<T = unknown> extends AsyncResource {
  protected constructor(...internal: never);

  /**
   * Cancels it.
   *
   * - `'never-ran'`: no run is in progress, and none will start.
   * - `'running'`: the run in progress goes on, with its signal raised, and none follows.
   * - `'over'`: it was over, or cancelled, before.
   *
   * `promise` rejects with an AbortError whose cause is the reason.
   */
  cancel(reason?: unknown): 'never-ran' | 'running' | 'over';

  /** Moves the next run to so long from now. False, and nothing happens, if it is due, running or over. */
  reschedule(delay: Duration): boolean;

  /** While it waits, the process stays alive. */
  ref(): this;
  /** While it waits, the process may end. */
  unref(): this;
  hasRef(): boolean;

  /**
   * Of the end: the value of the last run that ended well, or why there is none. Who asks for it is
   * told of a failure; of one that nobody asked for, the scheduler's `'error'` is, or the process.
   */
  readonly promise: Promise<T>;

  /** As given in the options, or ''. */
  readonly name: string;
  /** `'ready'`: due, and not yet begun. */
  readonly state: 'waiting' | 'ready' | 'running' | 'over';
  /** How often its function was called. */
  readonly runs: number;
  /** Milliseconds until the next run: below zero when overdue, Infinity for never, undefined if none follows. */
  readonly remaining: number | undefined;
  /** Failures in a row, up to now. */
  readonly failures: number;

  /**
   * The runs that end well from now on. The loop ends with the task; of a failure it is told by an
   * exception. Who leaves the loop does not cancel the task.
   */
  [Symbol.asyncIterator](): AsyncIterableIterator<Run>;

  /** Cancels it, at the end of a `using` block. Where node knows Symbol.dispose. */
  [Symbol.dispose](): void;
}

/** What schedulers and lanes take tasks by. */
interface Submit {
  /** Once, after `delay`. */
  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  /** Again and again, until it is cancelled or its options end it. Runs never overlap. */
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  /** Once, at an instant of the wall clock; follows when that is set. The past means now. */
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  /** Once, as soon as the loop comes to it. */
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
}

export interface LaneOptions {
  /** How many of its tasks may run at once. Default 1; 0: no bound. */
  width?: number | undefined;
}

/** Tasks that keep their order, do not overlap, and end together. Made by `scheduler.lane()`. */
export class Lane implements Submit {
  protected constructor(...internal: never);

  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;

  readonly disposed: boolean;
  /** Cancels all its tasks, and takes no more. Resolved when the last of them is over. */
  dispose(reason?: unknown): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;
}

export interface SchedulerOptions {
  /** true: microtasks run once after all that was due, and not after each function. Default false. */
  batch?: boolean | undefined;
  /** After so long the rest of what is due waits for the loop's next turn, 1 us to 1 s. Default 1 ms. */
  budget?: Duration | undefined;
  /** Whether it keeps the process alive: `'auto'` (default) while tasks wait. */
  keepAlive?: 'auto' | 'always' | 'never' | undefined;
  /** Most tasks that are not over; one more is refused with code EAGAIN. Default: no bound. */
  maxPending?: number | undefined;
  /**
   * A timer that counts in nanoseconds instead of whole milliseconds, Linux only. A duration, up to
   * 1 ms, is by how much deadlines are gathered; true is 50 us. Default false.
   */
  precise?: boolean | Duration | undefined;
  /** Of tasks of other addons: how many at once on libuv's pool, 0 to 1024. Default: one less than it has threads. */
  concurrency?: number | undefined;
  /** Of tasks of other addons: so many own threads, 1 to 1024, instead of libuv's pool. */
  threads?: number | undefined;
}

export interface ShutdownOptions {
  /** Do tasks that run once, and are not yet due, still run? Default true. */
  delayed?: boolean | undefined;
  /** Do periodic tasks go on? Default false. */
  periodic?: boolean | undefined;
}

/** Why points of a grid passed without a run. */
export type MissedCause =
  'timer' | 'loop' | 'budget' | 'runners' | 'overlap' | 'clock' | 'submit' | 'retry' | 'unknown';

/** The events of a scheduler, and what their listeners get. */
export interface SchedulerEvents {
  /** A failure after which the task goes on, or whose promise nobody has asked for. */
  error: [error: any, task: Task];
  /** So many points of a task's grid passed without a run. */
  missed: [task: Task, points: number, cause: MissedCause];
}

/**
 * At every instant `submitted` is the sum of `completed`, `failed`, `cancelled`, `timedOut`,
 * `dropped`, `waiting`, `ready` and `running`.
 */
export interface Stats {
  submitted: number;
  completed: number;
  failed: number;
  cancelled: number;
  /** The last run passed its limit. */
  timedOut: number;
  dropped: number;
  waiting: number;
  /** Due, and not yet begun. */
  ready: number;
  running: number;
  /** Submissions that were refused. */
  rejected: number;
  runs: number;
  /** Points of grids without a run. */
  missed: number;
  /** Now, and the most ever at once, on pool threads. */
  runners: number;
  peakRunners: number;
  /** Room made so far, in tasks. */
  slots: number;
  /** Also of tasks that went on. */
  failedRuns: number;
  /** Turns of the loop that the scheduler asked for. */
  wakeups: number;
  /** How late runs started, in milliseconds; p50 and p99 up to twice too much. */
  late: { count: number; p50: number; p99: number; max: number };
}

/** A scheduler on node's own loop. */
export class Scheduler extends EventEmitter implements Submit {
  constructor(options?: SchedulerOptions);

  schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
  at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
  execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;

  lane(options?: LaneOptions): Lane;

  /** Takes nothing new; what it has goes on as told. Resolved when the last task is over. */
  shutdown(options?: ShutdownOptions): Promise<void>;
  /** Cancels what does not run, asks what does to stop. Resolves to the tasks that never ran. */
  shutdownNow(): Promise<Task[]>;
  /** As `shutdownNow`, and lets go of everything. Resolved when no function runs any more. */
  close(): Promise<void>;
  [Symbol.asyncDispose](): Promise<void>;

  stats(): Stats;
  /** The tasks that are not over. */
  tasks(): Task[];
  /** For other addons: see include/uvsched_node.h. */
  readonly native: unknown;

  on<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  once<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  off<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  addListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  removeListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  prependListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
  prependOnceListener<E extends keyof SchedulerEvents>(event: E, listener: (...args: SchedulerEvents[E]) => void): this;
}

/** A task was cancelled; `cause` is the reason, if there was one. */
export class AbortError extends Error {
  constructor(reason?: unknown);
  readonly code: 'ABORT_ERR';
  readonly cause?: unknown;
}

/** A run took longer than its limit. */
export class TimeoutError extends Error {
  constructor(message?: string);
  readonly code: 'ETIMEDOUT';
}

/** The scheduler of this thread that the functions below use. */
export function defaultScheduler(): Scheduler;

/** Once, after `delay`, on the default scheduler. */
export function schedule<T>(delay: Duration, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
/** Again and again, on the default scheduler. */
export function every<T>(period: Duration, fn: TaskFunction<T>, options?: PeriodicOptions): Task<T>;
/** Once, at an instant of the wall clock, on the default scheduler. */
export function at<T>(date: Instant, fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
/** Once, as soon as the loop comes to it, on the default scheduler. */
export function execute<T>(fn: TaskFunction<T>, options?: TaskOptions): Task<T>;
