// SPDX-License-Identifier: MIT
'use strict';

// Builds a copy of an addon's folder. The copy sees this package in its node_modules.

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { build, look } = require('../../scripts/gyp.js');

const root = path.join(__dirname, '../..');

// Says what is missing to build an addon; undefined: nothing.
function missing() {
  if (spawnSync(process.env.CC ?? 'cc', ['--version']).status !== 0) return 'no C compiler';
  try {
    look();
  } catch (error) {
    return error.message.split('\n')[0];
  }
  return undefined;
}

// Copies a folder. The copy is removed when the process exits.
function copyOf(folder) {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'uvsched-addon-'));
  process.on('exit', () => fs.rmSync(dir, { recursive: true, force: true }));
  fs.cpSync(folder, dir, { recursive: true, filter: (name) => !/\/(build|node_modules)$/.test(name) });
  fs.mkdirSync(path.join(dir, 'node_modules'));
  fs.symlinkSync(root, path.join(dir, 'node_modules/uvsched'));
  return dir;
}

function buildCopy(folder) {
  const dir = copyOf(folder);
  build(['rebuild'], {}, dir);
  return dir;
}

module.exports = { missing, copyOf, buildCopy };
