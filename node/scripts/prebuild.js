// SPDX-License-Identifier: MIT
'use strict';

// Builds the addon for this platform and puts it where node-gyp-build looks in an installed package.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { build, main } = require('./gyp.js');

const here = path.join(__dirname, '..');

main(() => {
  const linux = process.platform === 'linux';
  const libc = fs.existsSync('/etc/alpine-release') ? 'musl' : 'glibc'; // as node-gyp-build asks
  const symbols = path.join(__dirname, 'old_glibc.h');
  build(['rebuild'], linux && libc === 'glibc' ? { CFLAGS: `-include ${symbols} ${process.env.CFLAGS ?? ''}` } : {});
  // No part of the name may begin with "uv" but the tag: node-gyp-build would read it as a version.
  const name = ['node.napi.uv1', ...(linux ? [libc] : []), 'node'].join('.');
  const file = path.join(here, 'prebuilds', `${process.platform}-${process.arch}`, name);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.copyFileSync(path.join(here, 'build/Release/node.napi.node'), file);
  execFileSync('strip', [linux ? '--strip-unneeded' : '-x', file]);
  console.log(path.relative(here, file));
});
