// SPDX-License-Identifier: MIT
import promises from './promises.js';

export const { setTimeout, setImmediate, setInterval, scheduler } = promises;
export default promises;
