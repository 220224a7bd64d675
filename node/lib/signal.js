// SPDX-License-Identifier: MIT
'use strict';

// AbortSignals of users, and what each of them cancels.
//
// A signal gets one listener from us, however many tasks it has: node walks through all listeners to
// add or remove one, so a listener per task would make n tasks cost n * n steps.

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

// The group is gone before the first cancel: a follower that ends another one costs no look at the
// listeners. The Set stays, so that the other one is not cancelled a second time.
function cancelAll(signal) {
  const { all } = followers.get(signal);
  followers.delete(signal);
  for (const follower of all) follower.cancel(signal.reason);
}

module.exports = { follow, unfollow };
