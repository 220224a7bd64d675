// SPDX-License-Identifier: MIT
'use strict';

// Simulates a future node without process._tickCallback, which lib/engine.js uses.
process._tickCallback = undefined;
