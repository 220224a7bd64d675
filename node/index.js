// SPDX-License-Identifier: MIT
'use strict';

const { AbortError, TimeoutError } = require('./lib/errors.js');
const { Scheduler, Lane, defaultScheduler } = require('./lib/scheduler.js');
const { Task } = require('./lib/task.js');

module.exports = {
  Scheduler,
  Lane,
  Task,
  AbortError,
  TimeoutError,
  schedule: (delay, fn, options) => defaultScheduler().schedule(delay, fn, options),
  every: (period, fn, options) => defaultScheduler().every(period, fn, options),
  at: (date, fn, options) => defaultScheduler().at(date, fn, options),
  execute: (fn, options) => defaultScheduler().execute(fn, options),
  defaultScheduler,
};
