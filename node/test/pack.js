// SPDX-License-Identifier: MIT
'use strict';

// The package as users get it: what is in it, and that it works in an empty folder, from its
// prebuilt file and built from source. Needs npm and a compiler, but no network: not part of
// `npm test`, but `npm run test:pack`.

const assert = require('node:assert');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { before, after, test } = require('node:test');

const node = path.join(__dirname, '..');
const root = path.join(node, '..');
const tmp = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'uvsched-pack-')));
const copy = path.join(tmp, 'repository/node'); // so that the checkout stays unchanged

const libc = fs.existsSync('/etc/alpine-release') ? 'musl' : 'glibc';
const prebuilt = `prebuilds/${process.platform}-${process.arch}/node.napi.uv1.${process.platform === 'linux' ? `${libc}.` : ''}node`;

// The environment of the child processes: without the settings of an outer npm, and without the nodedir of a
// .npmrc. A download of headers fails.
const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !/^npm_|^NODE_TEST_CONTEXT$/i.test(key)));
Object.assign(env, {
  npm_config_nodedir: '', npm_config_disturl: 'http://127.0.0.1:1/', npm_config_devdir: path.join(tmp, 'devdir'),
  npm_config_audit: 'false', npm_config_fund: 'false', npm_config_offline: 'true',
});

function run(cwd, file, args, more) {
  const done = spawnSync(file, args, { cwd, env: { ...env, ...more }, encoding: 'utf8' });
  return { status: done.status, out: done.stdout, all: `${done.error ?? ''}${done.stdout}${done.stderr}` };
}

function must(cwd, file, args, more) {
  const done = run(cwd, file, args, more);
  assert.equal(done.status, 0, `${file} ${args.join(' ')}: ${done.all}`);
  return done.out;
}

// Copies the needed parts of the repository, and the committed files of the package.
function copyRepository() {
  const left = new Set(['node_modules', 'build', 'core', 'prebuilds', 'LICENSE']);
  for (const part of ['src', 'include', 'LICENSE']) {
    fs.cpSync(path.join(root, part), path.join(tmp, 'repository', part), { recursive: true });
  }
  for (const part of fs.readdirSync(node)) {
    if (!left.has(part) && !part.endsWith('.tgz')) {
      fs.cpSync(path.join(node, part), path.join(copy, part), { recursive: true });
    }
  }
}

function pack(dir, to, ...args) {
  fs.mkdirSync(path.join(tmp, to));
  must(dir, 'npm', ['pack', '--loglevel=error', ...args, `--pack-destination=${path.join(tmp, to)}`]);
  const [name] = fs.readdirSync(path.join(tmp, to));
  return path.join(tmp, to, name);
}

// Installs into an empty folder.
function install(name, tarball, ...args) {
  const dir = path.join(tmp, name);
  fs.mkdirSync(dir);
  fs.writeFileSync(path.join(dir, 'package.json'), '{ "private": true }\n');
  must(dir, 'npm', ['install', '--foreground-scripts', ...args, tarball, buildTarball]);
  return dir;
}

let tarball; // of the package
let sourceTarball; // the same without a prebuilt file
let buildTarball; // of node-gyp-build, the one dependency, so that npm needs no registry

before(() => {
  copyRepository();
  tarball = pack(copy, 'with');
  fs.rmSync(path.join(copy, 'build'), { recursive: true });
  fs.renameSync(path.join(copy, 'prebuilds'), path.join(tmp, 'prebuilds'));
  must(copy, process.execPath, ['scripts/core.js', 'copy']);
  sourceTarball = pack(copy, 'without', '--ignore-scripts');
  must(copy, process.execPath, ['scripts/core.js', 'clean']);
  buildTarball = pack(path.dirname(require.resolve('node-gyp-build/package.json')), 'dependency');
});

after(() => fs.rmSync(tmp, { recursive: true, force: true }));

// ---- contents ----

// The files of a folder whose names match. The package must have no other files of that folder.
function files(dir, prefix, kinds) {
  return fs.readdirSync(dir, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
    .map((entry) => path.relative(dir, path.join(entry.parentPath ?? entry.path, entry.name)))
    .filter((name) => kinds.test(name)).map((name) => `${prefix}${name}`);
}

function expected() {
  return [
    'LICENSE', 'README.md', 'binding.gyp', 'package.json',
    'index.js', 'index.mjs', 'index.d.ts',
    'timers.js', 'timers.mjs', 'timers.d.ts',
    'timers/promises.js', 'timers/promises.mjs', 'timers/promises.d.ts',
    'scripts/core.js', 'scripts/gyp.js', 'scripts/install.js',
    ...files(path.join(node, 'lib'), 'lib/', /\.js$/),
    ...files(path.join(node, 'src'), 'src/', /\.[ch]$/),
    'include/index.js', 'include/uvsched_node.h',
    ...files(path.join(root, 'src'), 'core/src/', /\.[ch]$/),
    ...files(path.join(root, 'include'), 'core/include/', /\.h(\.in)?$/), 'core/include/uvsched/version.h',
  ].filter((name) => !/\/(jobs|amqp|console)/.test(name)); // libraries that need more than libuv are left out
}

function contents(file) {
  return must(tmp, 'tar', ['-tzf', file]).trim().split('\n').map((name) => name.replace(/^package\//, ''));
}

function same(found, wanted) {
  assert.deepEqual({
    missing: wanted.filter((name) => !found.includes(name)), unneeded: found.filter((name) => !wanted.includes(name)),
  }, { missing: [], unneeded: [] });
}

test('the package contains exactly the expected files', () => {
  same(contents(tarball), [...expected(), prebuilt]);
  same(contents(sourceTarball), expected());
});

test('packing leaves no copies in the source folder', () => {
  assert.equal(fs.existsSync(path.join(copy, 'core')), false);
  assert.equal(fs.existsSync(path.join(copy, 'LICENSE')), false);
});

test('the prebuilt file needs at most glibc 2.17',
  { skip: process.platform !== 'linux' || libc !== 'glibc' ? 'no glibc' : false }, () => {
    const text = must(tmp, 'objdump', ['-T', path.join(tmp, prebuilt)]);
    const newest = Math.max(...[...text.matchAll(/GLIBC_2\.(\d+)/g)].map((found) => Number(found[1])));
    assert.ok(newest >= 2 && newest <= 17, `GLIBC_2.${newest}`);
  });

// ---- installation ----

// The README's first program.
function firstProgram() {
  const text = fs.readFileSync(path.join(node, 'README.md'), 'utf8');
  const found = /^```js\n([^]*?)^```$/m.exec(text);
  assert.ok(found, 'README.md has a program');
  return found[1];
}

const asCommonJs = (program) => program.replace(/^import (.*?) from ('.*?');$/gm, 'const $1 = require($2);');
const asModule = (program) => program.replace(/^const (.*?) = require\(('.*?')\);$/gm, 'import $1 from $2;');

function programRuns(dir, wanted) {
  const program = firstProgram();
  fs.writeFileSync(path.join(dir, 'first.cjs'), asCommonJs(program));
  fs.writeFileSync(path.join(dir, 'first.mjs'), asModule(program));
  assert.match(fs.readFileSync(path.join(dir, 'first.cjs'), 'utf8'), /require\('uvsched/);
  assert.match(fs.readFileSync(path.join(dir, 'first.mjs'), 'utf8'), /^import .* from 'uvsched/m);
  for (const file of ['first.cjs', 'first.mjs']) {
    assert.match(must(dir, process.execPath, [file]), /\S/, `${file} prints something`);
  }
  const loaded = must(dir, process.execPath, ['-p', `
    require('uvsched'); Object.keys(require.cache).filter((name) => name.endsWith('.node')).join()`]).trim();
  assert.equal(loaded, path.join(dir, 'node_modules/uvsched', wanted));
}

test('an installation with --ignore-scripts uses the prebuilt file', () => {
  programRuns(install('ignore-scripts', tarball, '--ignore-scripts'), prebuilt);
});

test('an installation with scripts builds nothing if there is a prebuilt file', () => {
  const dir = install('prebuilt', tarball);
  assert.equal(fs.existsSync(path.join(dir, 'node_modules/uvsched/build')), false);
  programRuns(dir, prebuilt);
});

test('an installation without a prebuilt file builds from source, with the installed headers', () => {
  const dir = install('source', sourceTarball);
  programRuns(dir, 'build/Release/node.napi.node');
  assert.equal(fs.existsSync(env.npm_config_devdir), false, 'headers were fetched');
});

test('--nodedir sets the folder of the headers', () => {
  const { headers } = require('../scripts/gyp.js').look();
  const nodedir = path.join(tmp, 'headers');
  fs.mkdirSync(path.join(nodedir, 'include'), { recursive: true });
  fs.symlinkSync(path.join(headers, 'include/node'), path.join(nodedir, 'include/node'));
  const dir = install('nodedir', sourceTarball, `--nodedir=${nodedir}`);
  programRuns(dir, 'build/Release/node.napi.node');
  const makefile = fs.readFileSync(path.join(dir, 'node_modules/uvsched/build/node.target.mk'), 'utf8');
  assert.ok(makefile.includes(`-I${nodedir}/include/node`));
});

test('without headers the installation fails, and says what to install', () => {
  const dir = path.join(tmp, 'no-headers');
  fs.mkdirSync(dir);
  must(dir, 'tar', ['-xzf', sourceTarball]);
  const done = run(path.join(dir, 'package'), process.execPath, ['scripts/install.js'], { npm_config_nodedir: tmp });
  assert.equal(done.status, 1, done.all);
  assert.match(done.all, /^uvsched: node's headers are not in .*libnode-dev.*--nodedir/s);
  assert.equal(fs.existsSync(env.npm_config_devdir), false, 'headers were fetched');
});
