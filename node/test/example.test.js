// SPDX-License-Identifier: MIT
'use strict';

// Builds examples/node-addon with node-gyp and with meson, and runs its tests.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { describe, it } = require('node:test');
const { build, look } = require('../scripts/gyp.js');
const { missing, copyOf } = require('./addons/build.js');

const example = path.join(__dirname, '../../examples/node-addon');

function tools(...names) {
  const none = names.find((name) => spawnSync(name, ['--version']).status !== 0);
  return none === undefined ? missing() : `no ${none}`;
}

function run(dir, file, args) {
  const env = { ...process.env };
  delete env.NODE_TEST_CONTEXT; // so that the child starts a test runner of its own
  env.PATH = `${path.dirname(process.execPath)}${path.delimiter}${env.PATH ?? ''}`;
  const { status, error, stdout, stderr } = spawnSync(file, args, { cwd: dir, env, encoding: 'utf8' });
  assert.equal(status, 0, `${file} ${args.join(' ')}: ${error ?? ''}\n${stdout}\n${stderr}`);
  return stdout;
}

function passes(dir, file) {
  assert.ok(fs.existsSync(path.join(dir, file)));
  const out = run(dir, process.execPath, ['--test', '--test-reporter=tap', 'test.js']);
  assert.match(out, /^# fail 0$/m);
  assert.match(out, /hashFile[^]*watch[^]*a worker/);
}

describe('the example addon', { skip: fs.existsSync(example) ? false : 'the package has no examples' }, () => {
  it('works when built with node-gyp', { skip: missing() }, () => {
    const dir = copyOf(example);
    build(['rebuild'], {}, dir);
    passes(dir, 'build/Release/hasher.node');
  });

  it('works when built with meson', { skip: tools('meson', 'ninja') }, () => {
    const dir = copyOf(example);
    run(dir, 'meson', ['setup', 'build', '--werror', `-Dnode_headers=${path.join(look().headers, 'include/node')}`]);
    run(dir, 'ninja', ['-C', 'build']);
    passes(dir, 'build/hasher.node');
  });
});
