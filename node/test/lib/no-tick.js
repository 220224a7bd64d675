// SPDX-License-Identifier: MIT
'use strict';

// As a node would be that has lost what lib/engine.js likes to use.
process._tickCallback = undefined;
