-- SPDX-License-Identifier: MIT
--
-- A store of version 1, for test_sqlite_schema.c. Files like this exist: never change this text.
PRAGMA journal_mode = WAL;
BEGIN;
CREATE TABLE uvs_meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO uvs_meta VALUES ('version', 1), ('fence', 0), ('owner', 0);
CREATE TABLE uvs_queues(
  queue INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  is_set INTEGER NOT NULL DEFAULT 0,
  paused INTEGER NOT NULL DEFAULT 0,
  concurrency INTEGER NOT NULL DEFAULT 0,
  rate INTEGER NOT NULL DEFAULT 0,
  rate_ns INTEGER NOT NULL DEFAULT 1000000000,
  catch_up_rate INTEGER NOT NULL DEFAULT 0,
  rate_start_us INTEGER NOT NULL DEFAULT 0,
  rate_used INTEGER NOT NULL DEFAULT 0,
  catch_up_start_us INTEGER NOT NULL DEFAULT 0,
  catch_up_used INTEGER NOT NULL DEFAULT 0);
CREATE TABLE uvs_jobs(
  seq INTEGER PRIMARY KEY,
  queue INTEGER NOT NULL,
  class INTEGER NOT NULL,
  visible_us INTEGER NOT NULL,
  due_us INTEGER NOT NULL,
  put_us INTEGER NOT NULL,
  keep_us INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  fence INTEGER NOT NULL DEFAULT 0,
  owner INTEGER NOT NULL DEFAULT 0,
  failures INTEGER NOT NULL DEFAULT 0,
  crashes INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  big INTEGER NOT NULL DEFAULT 0,
  state INTEGER NOT NULL DEFAULT 0,
  ended_us INTEGER NOT NULL DEFAULT 0,
  rest TEXT NOT NULL,
  name TEXT,
  key TEXT,
  error TEXT,
  progress BLOB,
  result BLOB,
  meta BLOB,
  payload BLOB);
CREATE UNIQUE INDEX uvs_ids ON uvs_jobs(queue, rest);
CREATE INDEX uvs_due ON uvs_jobs(queue, class, visible_us) WHERE class < 5;
CREATE UNIQUE INDEX uvs_keys ON uvs_jobs(queue, key) WHERE key IS NOT NULL AND class < 4;
CREATE UNIQUE INDEX uvs_held ON uvs_jobs(queue, key) WHERE class = 4;
CREATE INDEX uvs_ended ON uvs_jobs(class, visible_us) WHERE class >= 5;
CREATE INDEX uvs_kept ON uvs_jobs(ended_us) WHERE class = 6;
CREATE TABLE uvs_payloads(seq INTEGER PRIMARY KEY, payload BLOB NOT NULL);
CREATE TABLE uvs_crons(
  name TEXT PRIMARY KEY,
  revision INTEGER NOT NULL,
  expression TEXT NOT NULL,
  zone TEXT,
  misfire INTEGER NOT NULL,
  overlap INTEGER NOT NULL,
  max_missed INTEGER NOT NULL,
  last_us INTEGER NOT NULL,
  queue TEXT NOT NULL,
  job TEXT NOT NULL,
  priority INTEGER NOT NULL,
  keep_us INTEGER NOT NULL,
  payload BLOB,
  meta BLOB);
CREATE TABLE uvs_events(
  number INTEGER PRIMARY KEY,
  what INTEGER NOT NULL,
  id TEXT,
  text TEXT NOT NULL);
CREATE TABLE uvs_owners(owner INTEGER PRIMARY KEY);
UPDATE uvs_meta SET value = 7 WHERE name = 'fence';
UPDATE uvs_meta SET value = 4 WHERE name = 'owner';
INSERT INTO uvs_owners VALUES (4);
INSERT INTO uvs_queues(queue, name, is_set, concurrency) VALUES (1, 'mail', 1, 5);
INSERT INTO uvs_queues(queue, name) VALUES (2, 'uvs.cron');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, fence, owner, rest, key, payload)
  VALUES (1, 1, 3, 1700000030000000, 1699999995000000, 1699999994000000, 0, 0, 7, 4, 'now', NULL, x'616263');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, rest, key)
  VALUES (2, 1, 4, 9007199254740992, 1700000000000000, 1699999996000000, 0, 1, 'held', 'k');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, big, rest)
  VALUES (3, 1, 1, 1700000060000000, 1700000060000000, 1699999997000000, 0, 0, 1, 'large');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, rest, name, meta)
  VALUES (4, 1, 2, 1700000050000000, 1700000050000000, 1699999998000000, 0, -1, 'later', 'welcome', x'00ff');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, failures, state, ended_us, rest, error, payload)
  VALUES (5, 1, 5, 1699999999000000, 1699999998000000, 1699999997000000, 0, 0, 20, 5, 1699999999000000, 'dead', 'broken', x'616263');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, failures, state, ended_us, rest, result)
  VALUES (6, 1, 6, 1700086400000000, 1699999998000000, 1699999997000000, 86400000000, 0, 1, 4, 1699999999000000, 'done', x'6f6b');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, rest)
  VALUES (7, 2, 1, 1700000007000000, 1700000007000000, 1699999997000000, 0, 0, 'nightly');
INSERT INTO uvs_jobs(seq, queue, class, visible_us, due_us, put_us, keep_us, priority, fence, owner, rest, key)
  VALUES (8, 1, 3, 1700000030000000, 1699999995000000, 1699999994000000, 0, 0, 7, 4, 'holder', 'k');
INSERT INTO uvs_payloads VALUES (3, zeroblob(5000));
INSERT INTO uvs_crons
  VALUES ('nightly', 3, '0 3 * * *', 'Europe/Berlin', 2, 1, 7, 1699913600000000, 'reports', 'report', 1, 5000000, x'706179', NULL);
INSERT INTO uvs_events VALUES (1, 1, 'mail/dead', 'broken'), (2, 13, 'mail', '');
COMMIT;
