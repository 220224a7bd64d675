// SPDX-License-Identifier: MIT
'use strict';

// Runs the Node program in the repository's README.md. It must print what its comments say.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { says } = require('./lib/helper.js');

const readme = path.join(__dirname, '../../README.md');

test('the program in the README runs', { skip: fs.existsSync(readme) ? false : 'the package has no such page' }, async () => {
  const blocks = [...fs.readFileSync(readme, 'utf8').matchAll(/^```js\n(.*?)^```$/gms)];
  assert.equal(blocks.length, 1);
  await says(blocks[0][1], 'fetched by attempt 3\npolled 3 times\nreminder: cancelled', { esm: true });
});
