// SPDX-License-Identifier: MIT
'use strict';

// The native addon: the prebuilt file for this system, or the one that node-gyp has built here.
const path = require('node:path');

module.exports = require('node-gyp-build')(path.join(__dirname, '..'));
