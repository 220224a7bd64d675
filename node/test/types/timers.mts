// SPDX-License-Identifier: MIT

// Our timers fit wherever node's types are expected.

import * as nodeTimers from 'node:timers';
import * as nodePromises from 'node:timers/promises';
import { promisify } from 'node:util';
import timers, { clearTimeout, setImmediate, setInterval, setTimeout } from 'uvsched/timers';
import { setInterval as ticks, setTimeout as sleep } from 'uvsched/timers/promises';

const t = setTimeout((a: number, b: string) => `${a} ${b}`, 10, 1, 'x');
t.unref().ref().refresh().close();
const asNode: NodeJS.Timeout = t;
clearTimeout(asNode);
clearTimeout(t[Symbol.toPrimitive]());
clearTimeout();
clearTimeout(nodeTimers.setTimeout(() => {}, 1));
const i: timers.Timeout = setInterval(() => {});
setImmediate((x: number) => x, 1);
i.close();
// @ts-expect-error: the callback wants a number
setTimeout((a: number) => a, 10, 'x');
// @ts-expect-error: ms, not text: that is for schedule()
setTimeout(() => {}, '1s');
// @ts-expect-error: no callback
setInterval(100);

const value: string = await sleep(10, 'x', { ref: false, signal: new AbortController().signal });
await sleep();
for await (const each of ticks(10, 1)) {
  const number: number = each;
  if (number > 1) break;
}
// @ts-expect-error: an AbortSignal
await sleep(10, undefined, { signal: 'x' });
const slept: Promise<void> = promisify(setTimeout)(10);

const fits: Pick<typeof nodePromises, 'setTimeout' | 'setInterval' | 'setImmediate' | 'scheduler'> = timers.promises;

export { value, slept, fits };
