// SPDX-License-Identifier: MIT
'use strict';

// Digests of files, made on the pool.

const fs = require('node:fs');
const path = require('node:path');
const { defaultScheduler } = require('uvsched');

// Where node-gyp and where meson put it.
const built = ['build/Release/hasher.node', 'build/hasher.node'].map((name) => path.join(__dirname, name));
const native = require(built.find((name) => fs.existsSync(name)) ?? built[0]);

// The environment's scheduler; a `new Scheduler()` of your own will do as well. From here on the
// addon has what it needs of it.
native.init(defaultScheduler().native);

/** A promise of the digest, 16 hex digits. Rejected with an Error that has a code: 'ENOENT' ... */
function hashFile(file) {
  return native.hashFile(path.resolve(file));
}

/**
 * Hashes the file every periodMs. onChange(file, digest), or onChange(file, null, error), is called
 * the first time, and when it is another than before. Keeps the process alive until stop().
 */
function watch(file, periodMs, onChange) {
  const number = native.watch(path.resolve(file), periodMs, onChange);
  return { stop: () => native.stop(number) };
}

module.exports = { hashFile, watch };
