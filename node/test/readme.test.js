// SPDX-License-Identifier: MIT
'use strict';

// Runs every snippet of README.md as a program. Each must exit by itself.

const test = require('node:test');
const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { root } = require('./lib/helper.js');

const text = fs.readFileSync(path.join(root, 'README.md'), 'utf8');
const snippets = [...text.matchAll(/^```js\n([^]*?)^```$/gm)].map((found) => found[1]);

// What each snippet prints, in the order of the file.
const PRINTS = [
  /^(?=[^]*beat 4, )(?=[^]*^checked$)[^]*reminder: cancelled\ncheck: (running|cancelled)/m,
  /^saved\n$/,
  /^(?=[^]*^still runs$)[^]*^first$[^]*^second$/m,
  /^(?=[^]*^tick$)[^]*^once$/m,
];

test('README.md has as many snippets as this test knows', () => assert.equal(snippets.length, PRINTS.length));

snippets.forEach((snippet, i) => {
  test(`snippet ${i + 1} of README.md runs and prints what it says`, () => {
    const end = spawnSync(process.execPath, ['-e', snippet], { cwd: root, encoding: 'utf8', timeout: 30e3 });
    assert.equal(end.signal, null, 'the program was killed');
    assert.equal(end.stderr, '');
    assert.equal(end.status, 0);
    assert.match(end.stdout, PRINTS[i]);
  });
});

test('README.md names everything that the package exports', () => {
  for (const name of Object.keys(require('..'))) assert.match(text, new RegExp(`\\b${name}\\b`), name);
});
