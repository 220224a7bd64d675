// SPDX-License-Identifier: MIT
'use strict';

// What `npm install` runs. Where a prebuilt file loads, that is all; else the addon is built.

const { build, main } = require('./gyp.js');

function loads() {
  try {
    require('../lib/binding.js');
    return true;
  } catch {
    return false;
  }
}

main(() => {
  if (process.env.npm_config_build_from_source === 'true' || !loads()) build(['rebuild']);
});
