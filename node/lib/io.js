// SPDX-License-Identifier: MIT
'use strict';

// JavaScript and C exchange numbers in a Float64Array. These are the indices; src/host.h has the same.
module.exports = {
  RC: 0, NOW: 1, NEXT: 2, OVER: 3, PLAIN_DUE: 4,
  SLOT: 5, DELAY: 6, FLAGS: 7,
  KIND: 8, FROM: 9, PERIOD: 10, MISSED: 11, MAX_BURST: 12, MAX_RUNS: 13, UNTIL: 14, JITTER: 15,
  FAILURE: 16, MAX_FAILURES: 17, RETRY: 18, RETRY_MAX: 19, RETRY_JITTER: 20, LANE: 21, PRIORITY: 22,
  WALL_NS: 23,
  EVENTS: 32, EVENT_WIDTH: 6, EVENT_ROOM: 256, SIZE: 32 + 6 * 256,

  // The kinds of events.
  RUN: 1, DONE: 2, MISSED_POINTS: 3, NEVER_RAN: 4, QUIET: 5, TERMINATED: 6, CLOSED: 7,

  // Converts a number from such an array to a small integer where possible. V8 stores a small integer
  // in the object itself, and any other number in a separate allocation.
  small(number) {
    return number === (number | 0) ? number | 0 : number;
  },
};
