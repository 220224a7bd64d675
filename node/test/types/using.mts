// SPDX-License-Identifier: MIT

// Explicit resource management.

import { Scheduler } from 'uvsched';

{
  await using scheduler = new Scheduler();
  await using lane = scheduler.lane();
  using task = lane.schedule(1, () => 1);
  task.promise.catch(() => {});
  // @ts-expect-error: it ends by a promise
  using wrong = new Scheduler();
  wrong.close();
}
