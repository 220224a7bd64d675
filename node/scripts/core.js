// SPDX-License-Identifier: MIT
'use strict';

// What binding.gyp asks about the core's sources.
//
//   core.js                where they are: core (in the package) or .. (in a checkout)
//   core.js sources OS     the list of them, for a system as gyp calls it
//   core.js version FILE   write version.h
//   core.js copy           into core/, before `npm pack`, and the licence with them
//   core.js clean          and away again

const fs = require('node:fs');
const path = require('node:path');

const here = path.join(__dirname, '..');
const root = fs.existsSync(path.join(here, 'core', 'src')) ? 'core' : '..';
// The libraries beside the core need more than libuv, and are left out.
const isBeside = (name) => /^(jobs|amqp|console)/.test(path.basename(name));

function sources(os) {
  const left = os === 'linux' ? 'other.c' : 'linux.c'; // a platform difference is another file, see port/platform.h
  const src = path.join(here, root, 'src');
  return fs.readdirSync(src, { withFileTypes: true }).filter((folder) => folder.isDirectory() && !isBeside(folder.name))
    .flatMap((folder) => fs.readdirSync(path.join(src, folder.name))
      .filter((name) => name.endsWith('.c') && name !== left)
      .map((name) => `${root}/src/${folder.name}/${name}`));
}

function version(file) {
  const whole = require('../package.json').version;
  const [major, minor, patch] = whole.split('-')[0].split('.');
  const text = fs.readFileSync(path.join(here, root, 'include/uvsched/version.h.in'), 'utf8')
    .replace('@major@', major).replace('@minor@', minor).replace('@patch@', patch)
    .replace('@version@', whole);
  fs.mkdirSync(path.dirname(file), { recursive: true });
  fs.writeFileSync(file, text);
}

function clean() {
  for (const name of ['core', 'LICENSE']) fs.rmSync(path.join(here, name), { recursive: true, force: true });
}

function copy() {
  clean();
  fs.copyFileSync(path.join(here, '../LICENSE'), path.join(here, 'LICENSE'));
  for (const part of ['src', 'include']) {
    fs.cpSync(path.join(here, '..', part), path.join(here, 'core', part),
      { recursive: true, filter: (name) => path.basename(name) !== 'meson.build' && !isBeside(name) });
  }
  version(path.join(here, 'core/include/uvsched/version.h')); // for other addons, see include/
}

switch (process.argv[2]) {
  case undefined: console.log(root); break;
  case 'sources': console.log(sources(process.argv[3]).join('\n')); break;
  case 'version': version(process.argv[3]); break;
  case 'copy': copy(); break;
  case 'clean': clean(); break;
  default: throw new Error(`core.js: unknown word '${process.argv[2]}'`);
}
