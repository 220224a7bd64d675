// SPDX-License-Identifier: MIT
'use strict';

// The places of the numbers that JavaScript and C share; src/host.h has the same.
module.exports = {
  RC: 0, NOW: 1, NEXT: 2, OVER: 3, PLAIN_DUE: 4,
  SLOT: 5, DELAY: 6, FLAGS: 7,
  KIND: 8, FROM: 9, PERIOD: 10, MISSED: 11, MAX_BURST: 12, MAX_RUNS: 13, UNTIL: 14, JITTER: 15,
  FAILURE: 16, MAX_FAILURES: 17, RETRY: 18, RETRY_MAX: 19, RETRY_JITTER: 20, LANE: 21, PRIORITY: 22,
  WALL_NS: 23,
  EVENTS: 32, EVENT_WIDTH: 6, EVENT_ROOM: 256, SIZE: 32 + 6 * 256,

  // What C tells of.
  RUN: 1, DONE: 2, MISSED_POINTS: 3, NEVER_RAN: 4, QUIET: 5, TERMINATED: 6, CLOSED: 7,

  // A number from such an array that most often is a small integer: as that, a property of an object
  // needs no box for it.
  small(number) {
    return number === (number | 0) ? number | 0 : number;
  },
};
