// SPDX-License-Identifier: MIT

// This file is not run. tsc must accept it, and must refuse each line after a @ts-expect-error.

import uvsched, {
  AbortError, Lane, Scheduler, Task, TimeoutError, at, defaultScheduler, every, execute, schedule,
} from 'uvsched';
import type {
  Duration, MissedCause, PeriodicOptions, Run, SchedulerOptions, Stats, TaskOptions,
} from 'uvsched';

// Is A exactly the type B?
type Same<A, B> = (<X>() => X extends A ? 1 : 2) extends (<X>() => X extends B ? 1 : 2) ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

// ---- the type of a task's value ----

const number = schedule(100, () => 1);
same<typeof number, Task<number>>(true);
const text = schedule('1h 30m', async (run) => `${run.run}`);
same<typeof text, Task<string>>(true);
const nothing = every(1000n, (run) => { run.signal.throwIfAborted(); });
same<typeof nothing, Task<void>>(true);
const dated = at(new Date(2030, 0), () => Promise.resolve([true]));
same<typeof dated, Task<boolean[]>>(true);
const soon = execute(() => null);
same<typeof soon, Task<null>>(true);
same<typeof number.promise, Promise<number>>(true);
at(Date.now() + 5, () => {});
at(1_900_000_000_000_000_000n, () => {});
const any: Task = number;

async function waits(): Promise<string> {
  const value: number = await number.promise;
  // @ts-expect-error: the value is a number
  const wrong: string = await number.promise;
  for await (const run of text) {
    same<typeof run, Run>(true);
    const sum: number = run.ideal + run.late + run.run + run.missed;
    const signal: AbortSignal = run.signal;
    run.task.cancel(signal.reason);
    // @ts-expect-error: a run is read-only
    run.late = sum;
    if (sum > 3) break;
  }
  return `${value} ${wrong}`;
}

const outcome = number.cancel('reason');
same<typeof outcome, 'cancelled' | 'running' | 'already' | 'ended'>(true);
// @ts-expect-error: there is no such outcome
if (outcome === 'never') waits();
const moved: boolean = number.reschedule('5m');
same<ReturnType<typeof number.unref>, Task<number>>(true);
const referenced: boolean = number.unref().ref().hasRef();
same<typeof number.state, 'waiting' | 'ready' | 'running' | 'ended'>(true);
same<typeof number.remaining, number | undefined>(true);
const counts: number = number.runs + number.failures + number.asyncId();
const name: string = number.name;
// @ts-expect-error: it may be undefined
const left: number = number.remaining;
// @ts-expect-error: read-only
number.name = 'other';
// @ts-expect-error: tasks are made by a scheduler
new Task();

// ---- arguments ----

const long: Duration = '15d';
schedule(long, (run: Run) => run.late);
// @ts-expect-error: a Date is for at()
schedule(new Date(), () => {});
// @ts-expect-error: no function
schedule(100);
// @ts-expect-error: text is for durations
at('15d', () => {});
// @ts-expect-error: a run is not a number
schedule(100, (run: number) => run);

const once: TaskOptions = {
  name: 'n', ref: false, signal: new AbortController().signal, limit: '5s', failure: 'retry',
  retry: { wait: 100, max: '1m', jitter: 50 }, maxFailures: 3, priority: 'high', jitter: 10,
};
schedule(1, () => {}, once);
schedule(1, () => {}, { name: undefined });
const periodic: PeriodicOptions = {
  failure: 'continue', mode: 'rate', delay: 0, missed: 'catch-up', maxBurst: 3, maxRuns: 10, until: new Date(),
};
every('1s', () => {}, periodic);
every('1s', () => {}, { mode: 'delay', until: '1h' });
// @ts-expect-error: only periodic tasks go on
schedule(1, () => {}, { failure: 'continue' });
// @ts-expect-error: only periodic tasks have a mode
schedule(1, () => {}, { mode: 'delay' });
// @ts-expect-error: no such policy
every(1, () => {}, { missed: 'never' });
// @ts-expect-error: no such option
every(1, () => {}, { nmae: 'typo' });
// @ts-expect-error: no such option of retry
every(1, () => {}, { failure: 'retry', retry: { factor: 2 } });

// ---- schedulers ----

const options: SchedulerOptions = {
  batch: true, budget: '2ms', keepAlive: 'never', maxPending: 100, precise: true, concurrency: 2, threads: 4,
};
const s = new Scheduler(options);
new Scheduler({ precise: '50us' });
// @ts-expect-error: no such word
new Scheduler({ keepAlive: 'sometimes' });
same<ReturnType<typeof s.schedule<number>>, Task<number>>(true);
const common: Scheduler = defaultScheduler();
const native: unknown = common.native;

s.on('error', (error, task) => { console.error(error, task.name); });
s.once('error', (error: Error) => { console.error(error.message); });
s.on('missed', (task, points, cause) => {
  same<typeof task, Task>(true);
  same<typeof points, number>(true);
  same<typeof cause, MissedCause>(true);
}).off('missed', () => {});
// @ts-expect-error: points are a number
s.on('missed', (task: Task, points: string) => {});
// @ts-expect-error: no such event
s.on('late', () => {});
const listeners: number = s.listenerCount('error');

async function ends(): Promise<void> {
  const nothing: void = await s.shutdown({ delayed: false, periodic: true });
  const never: Task[] = await s.shutdownNow();
  await s.close();
  // @ts-expect-error: no such option
  await s.shutdown({ now: true });
  console.log(nothing, never);
}

const stats: Stats = s.stats();
const sum: number = stats.submitted + stats.timedOut + stats.late.p99;
const tasks: Task[] = s.tasks();

// ---- lanes ----

const lane: Lane = s.lane({ width: 2 });
const inLane = lane.schedule(1, () => 'x');
same<typeof inLane, Task<string>>(true);
lane.every(1, () => {}, { missed: 'skip' });
lane.at(new Date(), () => {});
lane.execute(async () => {});
const disposed: Promise<void> = lane.dispose('reason');
const isDisposed: boolean = lane.disposed;
// @ts-expect-error: no such option
s.lane({ wide: 2 });
// @ts-expect-error: lanes are made by a scheduler
new Lane(s);

// ---- errors ----

try {
  ends();
} catch (error) {
  if (error instanceof AbortError) same<typeof error.code, 'ABORT_ERR'>(true);
  if (error instanceof TimeoutError) same<typeof error.code, 'ETIMEDOUT'>(true);
}
const cause: unknown = new AbortError('why').cause;

// ---- both ways of the package as a whole ----

uvsched.every('1s', () => {});
new uvsched.Scheduler();
import required = require('uvsched');
same<typeof required.Scheduler, typeof Scheduler>(true);

export { any, moved, referenced, counts, name, left, native, listeners, sum, tasks, disposed, isDisposed, cause };
