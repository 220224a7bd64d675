// SPDX-License-Identifier: MIT
import uvsched from './index.js';

export const {
  Scheduler, Lane, Task, AbortError, TimeoutError, schedule, every, at, execute, defaultScheduler,
} = uvsched;
export default uvsched;
