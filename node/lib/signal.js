// SPDX-License-Identifier: MIT
'use strict';

// AbortSignals of users, and the followers (tasks) that each of them cancels.
//
// A signal gets only one listener, however many followers it has: node walks through all listeners to
// add or remove one, so with a listener for each task, n tasks would cost n * n steps.

const followers = new WeakMap(); // by signal: a Set with everything that it cancels, and the listener

// Calls follower.cancel(signal.reason) when the signal is aborted.
function follow(signal, follower) {
  let group = followers.get(signal);
  if (group === undefined) {
    group = { all: new Set(), listener: () => cancelAll(signal) };
    followers.set(signal, group);
    signal.addEventListener('abort', group.listener, { once: true });
  }
  group.all.add(follower);
}

function unfollow(signal, follower) {
  const group = followers.get(signal);
  if (group === undefined || !group.all.delete(follower) || group.all.size > 0) return;
  followers.delete(signal);
  signal.removeEventListener('abort', group.listener);
}

// The group is removed before the first cancel. So if a cancel ends another follower, unfollow returns
// at once, and a task that has already ended ignores its cancel.
function cancelAll(signal) {
  const { all } = followers.get(signal);
  followers.delete(signal);
  for (const follower of all) follower.cancel(signal.reason);
}

module.exports = { follow, unfollow };
