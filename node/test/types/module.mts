// SPDX-License-Identifier: MIT

// As main.ts, from an ES module.

import uvsched, { Scheduler, every } from 'uvsched';
import * as all from 'uvsched';

const task = every('1s', async (run) => run.late);
const late: number = await task.promise;
new uvsched.Scheduler().on('missed', (_task, points) => points.toFixed());
const same: typeof Scheduler = all.Scheduler;
// @ts-expect-error: nothing of that name
all.setTimeout(() => {}, late);

export { same };
