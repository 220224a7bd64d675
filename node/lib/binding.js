// SPDX-License-Identifier: MIT
'use strict';

// The native part: the prebuilt file for this system, or what was built here by node-gyp.
const path = require('node:path');

module.exports = require('node-gyp-build')(path.join(__dirname, '..'));
