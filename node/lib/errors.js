// SPDX-License-Identifier: MIT
'use strict';

// The error classes of this package, and the error codes of libuv that the other files name.

const { constants: { errno } } = require('node:os');
const { getSystemErrorName } = require('node:util');

class AbortError extends Error {
  constructor(reason) {
    super('The task was cancelled', reason === undefined ? undefined : { cause: reason });
    this.code = 'ABORT_ERR';
  }
}
AbortError.prototype.name = 'AbortError';

class TimeoutError extends Error {
  constructor(message) {
    super(message);
    this.code = 'ETIMEDOUT';
  }
}
TimeoutError.prototype.name = 'TimeoutError';

const UV_UNKNOWN = -4094;
const UV_EAGAIN = -errno.EAGAIN;
const UV_EBUSY = -errno.EBUSY;
const UV_ECANCELED = -errno.ECANCELED;
const UV_ESHUTDOWN = -(errno.ESHUTDOWN ?? 108);
const UV_ETIMEDOUT = -errno.ETIMEDOUT;

const WORDS = new Map([
  [UV_ESHUTDOWN, 'the scheduler is shut down'],
  [UV_EAGAIN, 'maxPending tasks are waiting already'],
  [UV_ECANCELED, 'the lane is disposed'],
  [-errno.ENOMEM, 'out of memory'],
  [-errno.EINVAL, 'an option has a value that the scheduler does not accept'],
  [-errno.ENOTSUP, 'not supported on this system'],
]);

// Makes the Error for an error code of the native scheduler. `text`: what is wrong, if it is known.
function refused(rc, text) {
  const code = getSystemErrorName(rc);
  return Object.assign(new Error(`uvsched: ${text ?? WORDS.get(rc) ?? code}`), { code, errno: rc });
}

module.exports = {
  AbortError, TimeoutError, refused, UV_UNKNOWN, UV_EBUSY, UV_ECANCELED, UV_ETIMEDOUT,
};
