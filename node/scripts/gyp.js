// SPDX-License-Identifier: MIT
'use strict';

// Builds the addon with what is on this machine: a node-gyp, and node's headers. Nothing is
// downloaded.
//
//   gyp.js           build what has changed
//   gyp.js rebuild   build all
//   gyp.js look      say what would be used, or what is missing

const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const here = path.join(__dirname, '..');
const isFile = (file) => fs.statSync(file, { throwIfNoEntry: false })?.isFile() ?? false;

function onPath(name) {
  const found = (process.env.PATH ?? '').split(path.delimiter).map((dir) => path.join(dir, name)).find(isFile);
  return found === undefined ? undefined : fs.realpathSync(found);
}

// npm tells its scripts where its own node-gyp is. Else: below npm, beside it (Debian), or by itself.
function findNodeGyp() {
  const npms = [process.env.npm_execpath, onPath('npm'), path.join(process.execPath, '../../lib/node_modules/npm/bin/npm')]
    .filter((npm) => npm !== undefined).map((npm) => path.join(npm, '../..'));
  return [
    process.env.npm_config_node_gyp,
    ...npms.flatMap((npm) => [path.join(npm, 'node_modules/node-gyp'), path.join(npm, '../node-gyp')])
      .map((dir) => path.join(dir, 'bin/node-gyp.js')),
    onPath('node-gyp'),
  ].find((file) => file && isFile(file));
}

// A folder that has the headers in include/node: the one that is asked for, the running node's own,
// or Debian's. Node-API is the same in all of them, so another version's will do. Debian keeps uv.h
// where the compiler looks anyway.
function findHeaders() {
  const asked = process.env.npm_config_nodedir || process.env.npm_package_config_node_gyp_nodedir;
  const folders = asked ? [path.resolve(process.env.INIT_CWD ?? '', asked)]
    : [path.join(process.execPath, '../..'), path.join(fs.realpathSync(process.execPath), '../..'), '/usr'];
  const found = folders.find((dir) => isFile(path.join(dir, 'include/node/node_api.h')));
  if (found === undefined) {
    throw new Error(`node's headers are not in ${[...new Set(folders)].map((dir) => `${dir}/include/node`).join(' or ')}.\n` +
      "Debian has them in the package libnode-dev; node's own archives carry them.\n" +
      'If they are elsewhere: npm install --nodedir=<the folder that has include/node>');
  }
  if (![path.join(found, 'include/node'), '/usr/include', '/usr/local/include'].some((dir) => isFile(path.join(dir, 'uv.h')))) {
    throw new Error(`uv.h is not in ${found}/include/node. Debian has it in the package libuv1-dev.`);
  }
  return found;
}

function look() {
  const nodeGyp = findNodeGyp();
  if (nodeGyp === undefined) {
    throw new Error('there is no node-gyp: not in npm, and not in the PATH.\n' +
      'It comes with npm; Debian has it in the package node-gyp.');
  }
  return { nodeGyp, headers: findHeaders() };
}

// `env`: e.g. CFLAGS. What is built is told only when it fails.
function build(words, env = {}, dir = here) {
  const { nodeGyp, headers } = look();
  const environment = { ...process.env, ...env };
  // binding.gyp calls `node`.
  environment.PATH = `${path.dirname(process.execPath)}${path.delimiter}${process.env.PATH ?? ''}`;
  delete environment.npm_config_nodedir; // it would win over the folder that was found
  const args = [...words, `--nodedir=${headers}`, '--jobs=max'];
  const [file, ...first] = nodeGyp.endsWith('.js') ? [process.execPath, nodeGyp] : [nodeGyp];
  const { status, error, stdout, stderr } =
    spawnSync(file, [...first, ...args], { cwd: dir, env: environment, maxBuffer: Infinity });
  if (status === 0) return;
  process.stderr.write(stdout ?? '');
  process.stderr.write(stderr ?? '');
  throw new Error(`node-gyp ${args.join(' ')} failed${error ? `: ${error.message}` : ', see above'}`);
}

// Runs what a script does; what goes wrong is for people to read, without a stack.
function main(work) {
  try {
    work();
  } catch (error) {
    console.error(`uvsched: ${error.message}`);
    process.exitCode = 1;
  }
}

module.exports = { build, look, main };

if (require.main === module) {
  main(() => {
    switch (process.argv[2]) {
      case undefined: return build(['configure', 'build']);
      case 'rebuild': return build(['rebuild']);
      case 'look': return console.log(look());
      default: throw new Error(`gyp.js: unknown word '${process.argv[2]}'`);
    }
  });
}
