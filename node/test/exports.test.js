// SPDX-License-Identifier: MIT
'use strict';

// The CommonJS entries, their ES module fronts and their types name the same things.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { exports: entries } = require('../package.json');

const sorted = (names) => [...names].sort();

// What node has deprecated, and newer ones have removed: by require only, and without types.
const DEPRECATED = new Set(['_unrefActive', 'active', 'enroll', 'unenroll']);
const exported = (name) => sorted(Object.keys(require(name)).filter((key) => !DEPRECATED.has(key)));

for (const [entry, files] of Object.entries(entries)) {
  if (typeof files === 'string') continue; // package.json, and the folders of the headers
  const name = path.posix.join('uvsched', entry);

  test(`${name}: imported and required are the same`, async () => {
    const required = require(name);
    const { default: whole, ...imported } = await import(name);
    assert.equal(whole, required);
    assert.deepEqual(sorted(Object.keys(imported)), exported(name));
    for (const key of Object.keys(imported)) assert.equal(imported[key], required[key], key);
  });

  test(`${name}: the types name what is exported`, () => {
    const text = fs.readFileSync(path.join(__dirname, '..', files.types), 'utf8');
    const declared = new Set([...text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|function|const|let) (\w+)/gm)]
      .map((found) => found[1]));
    for (const [, list] of text.matchAll(/^export \{([^}]*)\}/gm)) {
      for (const word of list.split(',')) if (word.trim()) declared.add(word.trim().split(/\s+/).pop());
    }
    assert.deepEqual(sorted(declared), exported(name));
  });
}

test('the types of the classes have what the classes have', () => {
  const text = fs.readFileSync(path.join(__dirname, '../index.d.ts'), 'utf8');
  const uvsched = require('uvsched');
  for (const name of ['Task', 'Lane', 'Scheduler']) {
    const [, body] = new RegExp(`^export class ${name}\\b.*\\{\\n([^]*?)^\\}`, 'm').exec(text);
    const typed = new Set([...body.matchAll(/^  (?:readonly |protected )?([a-z]\w*)[(<:]/gim)].map((found) => found[1]));
    const events = ['on', 'once', 'off', 'addListener', 'removeListener', 'prependListener', 'prependOnceListener'];
    for (const event of events) typed.delete(event); // inherited
    assert.deepEqual(sorted(typed), sorted(Object.getOwnPropertyNames(uvsched[name].prototype)), name);
  }
});
