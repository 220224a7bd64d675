// SPDX-License-Identifier: MIT
import timers from './timers.js';

export const {
  setTimeout, clearTimeout, setInterval, clearInterval, setImmediate, clearImmediate, promises,
} = timers;
export default timers;
