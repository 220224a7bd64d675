// SPDX-License-Identifier: MIT
'use strict';

// Each CommonJS entry, its ES module and its types have the same names.

const assert = require('node:assert');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { exports: entries } = require('../package.json');

const sorted = (names) => [...names].sort();

// Deprecated names, which newer versions of node no longer have. They are exported by CommonJS only, and have
// no types.
const DEPRECATED = new Set(['_unrefActive', 'active', 'enroll', 'unenroll']);
const exported = (name) => sorted(Object.keys(require(name)).filter((key) => !DEPRECATED.has(key)));

for (const [entry, files] of Object.entries(entries)) {
  if (typeof files === 'string') continue; // package.json, and the folders with the headers
  const name = path.posix.join('uvsched', entry);

  test(`${name}: import and require give the same objects`, async () => {
    const required = require(name);
    const { default: whole, ...imported } = await import(name);
    assert.equal(whole, required);
    assert.deepEqual(sorted(Object.keys(imported)), exported(name));
    for (const key of Object.keys(imported)) assert.equal(imported[key], required[key], key);
  });

  test(`${name}: the types declare exactly the exports`, () => {
    const text = fs.readFileSync(path.join(__dirname, '..', files.types), 'utf8');
    const declared = new Set([...text.matchAll(/^export (?:declare )?(?:abstract )?(?:class|function|const|let) (\w+)/gm)]
      .map((found) => found[1]));
    for (const [, list] of text.matchAll(/^export \{([^}]*)\}/gm)) {
      for (const word of list.split(',')) if (word.trim()) declared.add(word.trim().split(/\s+/).pop());
    }
    assert.deepEqual(sorted(declared), exported(name));
  });
}

test('the types of the classes declare exactly their members', () => {
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

test("the type MissedCause lists the causes of the core, and 'unknown'", () => {
  const text = fs.readFileSync(path.join(__dirname, '../index.d.ts'), 'utf8');
  const [, union] = /^export type MissedCause =([^;]*);/m.exec(text);
  const { lateNames } = require('../lib/binding.js');
  assert.deepEqual([...union.matchAll(/'(\w+)'/g)].map((found) => found[1]), [...lateNames, 'unknown']);
});
