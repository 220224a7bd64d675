// SPDX-License-Identifier: MIT
'use strict';

// For the builds of other addons: the folders with uvsched_node.h and uvsched.h.
//
//   binding.gyp   'include_dirs': ['<!@(node -p "require(\'uvsched/include\').gyp")']
//   meson.build   run_command('node', '-p', 'require("uvsched/include").dirs.join("\n")')

const fs = require('node:fs');
const path = require('node:path');

const here = path.join(__dirname, '..');

// In the package the core's headers are complete. In a checkout the build of the addon has written
// version.h.
function find() {
  const packed = path.join(here, 'core/include');
  if (fs.existsSync(path.join(packed, 'uvsched/version.h'))) return [__dirname, packed];
  const made = ['Release', 'Debug'].map((kind) => path.join(here, 'build', kind, 'obj/gen'))
    .find((dir) => fs.existsSync(path.join(dir, 'uvsched/version.h')));
  if (made === undefined) {
    throw new Error(`uvsched: ${here} has not been built, so there is no version.h: npm run build`);
  }
  return [__dirname, path.join(here, '../include'), made];
}

const dirs = find();

module.exports = { dirs, gyp: dirs.map((dir) => `"${dir}"`).join(' ') };
