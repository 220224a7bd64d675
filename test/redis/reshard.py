#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""reshard.py SCENARIO --cli UVSCHED --kill RESHARD_KILL [--node KILL_NODE]
           [--keys RESHARD_KEYS] [--seed N]

Moves of jobs between servers (`uvsched jobs reshard`), on redis-servers of their own.

  rules   what the scripts answer about jobs in an outbox, and to puts "only if there"
  kills   the move is killed at each of its steps, and at random times; nothing is lost or doubled
  errors  what the command refuses, and what it prints
  keys    processes put and run jobs with few unique keys; at random times all processes are stopped:
          at most one job of each key is not held
  load    nodes (../jobs/kill_node.c) put, cancel and run jobs and a cron while the servers change,
          and the command is killed; history.py checks what must hold
  faults  the same as load, but nodes and servers are killed too
"""
import argparse
import datetime
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from cluster import PATIENCE, REQUEST, Clock, Cluster
from faults import report
from scripts import GLOBAL_KEYS, QUEUE_KEYS, texts
from server import Client, Server

SKIPPED = 77  # meson's
EXPORTED, IMPORTED, MOVED = 3, 4, 5  # UVS_RESHARD_...
NEW, EXISTS, IN_USE, ELSEWHERE, IN_TRANSIT = b"0", b"1", b"2", b"3", b"4"
ONLY_IF_THERE = 4
KEEP, REPLACE, ERROR = 0, 1, 2
CRON = "uvs.cron"


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Shard:
    """A server, and calls of the scripts on it. The epoch is that of the data."""

    def __init__(self, folder, env=None):
        os.mkdir(folder)
        self.server = Server(folder, env)
        self.server.start()
        self.url = f"redis://127.0.0.1:{self.server.port}/0"
        self.client = Client(self.server.port)
        self.texts = texts()

    def raw(self, *words):
        return self.client.call(*words)

    def key(self, name):
        return "{uvsched}:" + name

    def meta(self, field):
        value = self.raw("HGET", self.key("meta"), field)
        return value.decode() if value is not None else ""

    def call(self, script, queues, *arguments, epoch=None, outbox=True):
        keys = [self.key(k) for k in GLOBAL_KEYS]
        keys += [self.key(k % q) for q in queues for k in QUEUE_KEYS.split()]
        keys += [self.key("outbox")] if outbox else []
        epoch = self.meta("epoch") if epoch is None else epoch
        answer = self.raw("EVAL", self.texts[script], len(keys), *keys, epoch, 0, 0, 0, 20,
                          len(queues), *queues, *arguments)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def init(self):
        self.raw("EVAL", self.texts["init"], 2, self.key("meta"), self.key("put:1"), "1",
                 "%032x" % random.getrandbits(128), "run", self.texts["put"])

    def put(self, queue, rest, key="", policy=KEEP, due="+3600000000", keep=0, payload="x"):
        """The answer's digit, and the id of the other job."""
        answer = self.call("put", [queue], 1, rest, "", key, policy, 1, due, keep, "", payload)
        return answer[3], (answer[4].decode() if len(answer) > 4 else None)

    def claim(self, queue, n=1, lease=60000000):
        """The fence, and the ids."""
        answer = self.call("claim", [queue], n, n, 0, lease, "")
        return answer[4], [rest.decode() for rest in answer[5::4 if queue == CRON else 3]]

    def settle(self, queue, rest, fence, op, when="+0", text=""):
        return self.call("settle", [queue], 1, rest, fence, op, when, text, 0, 0)[3]

    def ack(self, queue, rest, fence):
        return self.settle(queue, rest, fence, 1)

    def queues(self):
        return [q.decode() for q in self.raw("ZRANGE", self.key("queues"), 0, -1)]

    def ids(self):
        """All ids by place: jobs, letters, ends, crons, and what is in the outbox."""
        hashes = {"job": [], "dead": [], "end": [], "cron": [], "outbox": []}
        for queue in self.queues():
            hashes["job"] += [f"{queue}/{rest.decode()}"
                              for rest in self.raw("HKEYS", self.key("job:" + queue))]
        for name, key in (("dead", "dead"), ("end", "end"), ("cron", "crons"),
                          ("outbox", "outbox")):
            hashes[name] = [field.decode() for field in self.raw("HKEYS", self.key(key))]
        return hashes

    def keys_held(self):
        return {(queue, key.decode()): rest.decode() for queue in self.queues()
                for key, rest in pairs(self.raw("HGETALL", self.key("key:" + queue)))}

    def check_sets(self):
        """Each job is in one place, and each place has its job."""
        for queue in self.queues():
            jobs = {rest for rest in self.raw("HKEYS", self.key("job:" + queue))}
            members = []
            for place in (f"due:{queue}:0", f"due:{queue}:1", f"due:{queue}:2", "lease:" + queue,
                          "again:" + queue):
                members += [m[4:] for m in self.raw("ZRANGE", self.key(place), 0, -1)]
            check(len(members) == len(set(members)), f"{queue}: a job has two places")
            check(set(members) == jobs, f"{queue}: {len(members)} places, {len(jobs)} jobs")
        letters = self.raw("HLEN", self.key("dead"))
        counted = sum(int(n) for _, n in pairs(self.raw("HGETALL", self.key("dead_n"))))
        check(letters == self.raw("ZCARD", self.key("dead_no")) == counted
              == self.raw("ZCARD", self.key("dead_at")), "the index of dead letters is wrong")
        ends = self.raw("HLEN", self.key("end"))
        check(ends == self.raw("ZCARD", self.key("until")) + self.raw("ZCARD", self.key("kept")),
              "the index of ends is wrong")


def pairs(flat):
    return list(zip(flat[::2], flat[1::2]))


class Scene:
    def __init__(self, options, n):
        self.options = options
        self.seed = options.seed or random.getrandbits(32)
        print(f"SEED={self.seed}", flush=True)
        self.choose = random.Random(self.seed)
        random.seed(self.seed)
        self.folder = tempfile.TemporaryDirectory(prefix="uvsched-reshard-")
        self.shards = []
        for i in range(n):
            self.shards.append(Shard(f"{self.folder.name}/{i}"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for shard in self.shards:
            shard.server.stop()
        self.folder.cleanup()

    def urls(self, *which):
        return ",".join(self.shards[i].url for i in which)

    def reshard(self, store, to, *more):
        return subprocess.run([self.options.cli, "jobs", "reshard", "--store", store, "--to", to,
                               *more], capture_output=True, text=True, timeout=120)

    def must(self, store, to, *more):
        result = self.reshard(store, to, *more)
        check(result.returncode == 0, f"reshard fails: {result.stdout}{result.stderr}")
        return result.stdout

    def killed(self, store, to, step, n):
        """True if the move was killed at its n-th `step`; False if it has ended before."""
        result = subprocess.run([self.options.kill, store, to, str(step), str(n)],
                                capture_output=True, text=True, timeout=120)
        check(result.returncode in (0, -9), f"reshard_kill fails: {result.stdout}")
        return result.returncode == -9


# ------------------------------------------------------------------------ rules

def set_cron(shard, name, revision=1, what="set"):
    more = b"\0\0\0\1" + b"\0" * 12 + b"\1q" + b"\1q" + b"\0\0"
    return shard.call("cron", [CRON], what, name, revision.to_bytes(8, "big"), "0 3 1 1 *", "",
                      more)[3]


def slot(queue, rest, key=""):
    crc = 0
    for byte in f"{queue}/{key or rest}".encode():
        crc ^= byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x1021 if crc & 0x8000 else crc << 1) & 0xffff
    return crc % 1024


def names_of(wanted, queue="q", prefix="id"):
    """Names whose slots `wanted` selects."""
    return [n for n in (f"{prefix}{i}" for i in range(100000)) if wanted(slot(queue, n))]


def moves(a_slot):
    """From one server to two, the upper half moves."""
    return a_slot >= 512


def rules(options):
    with Scene(options, 2) as scene:
        a, b = scene.shards
        a.init()
        names = names_of(moves)[:6]
        keys = names_of(moves, prefix="key")[:4]
        plain, keyed, holder, dead, ended = names[:5]
        staying = names_of(lambda s: not moves(s))[0]
        cron = names_of(moves, CRON, "cron")[0]
        # There are a dead letter and an end, too; the job that holds the key is running.
        check(a.put("q", holder, keys[1], due="+0")[0] == NEW, "put")
        check(a.claim("q", 9)[1] == [holder], "claim of the holder")
        for rest in (dead, ended):
            check(a.put("q", rest, "" if rest == ended else keys[2], due="+0", keep=10**10)[0] == NEW,
                  "put")
            fence, _ = a.claim("q")
            check(a.settle("q", rest, fence, 1 if rest == ended else 5, text="why") == b"0", "settle")
        check(set_cron(a, cron) == 0, "cron")
        # The move is killed when the first batch is in the outbox: the cron, or the jobs of q.
        for rest, key in ((plain, ""), (keyed, keys[0]), (staying, "")):
            check(a.put("q", rest, key)[0] == NEW, "put")
        check(scene.killed(a.url, scene.urls(0, 1), EXPORTED, 1), "not killed")
        check(a.meta("moving") == "1" == b.meta("moving"), "the state is not moving")
        check(sorted(a.ids()["outbox"]) == sorted([f"q/{plain}", f"q/{keyed}"]), "outbox")

        # A job in the outbox counts as existing.
        flag = ONLY_IF_THERE
        check(a.put("q", plain, policy=flag) == (EXISTS, plain), "put of an id in the outbox")
        check(a.put("q", plain) == (EXISTS, plain), "put of an id in the outbox, without the flag")
        check(a.put("q", "x", keys[0], KEEP + flag) == (EXISTS, keyed), "KEEP, in the outbox")
        check(a.put("q", "x", keys[0], ERROR + flag) == (IN_USE, keyed), "ERROR, in the outbox")
        check(a.put("q", "x", keys[0], REPLACE + flag) == (IN_TRANSIT, None), "REPLACE, in the outbox")
        check(a.call("alter", ["q"], "cancel", plain, "+0")[3] == 3, "cancel in the outbox")
        check(a.call("get", ["q"], plain)[3] == 4, "get in the outbox")
        check(a.call("alter", ["q"], "cancel", "no", "+0")[3] == 2, "cancel of nothing")
        check(a.call("get", ["q"], "no")[3] == 0, "get of nothing")
        # A job that is not there belongs to the other server.
        check(a.put("q", names[5], policy=flag) == (ELSEWHERE, None), "a new id")
        check(a.put("q", names[5], keys[3], flag) == (ELSEWHERE, None), "a new key")
        check(a.put("q", dead, policy=flag) == (EXISTS, dead), "the id of a letter")
        check(a.put("q", ended, policy=flag) == (EXISTS, ended), "the id of an end")
        strays = a.meta("strays") or "0"
        check(a.put("q", "new", keys[1], REPLACE + flag) == (NEW, None), "REPLACE of a running job")
        check(int(a.meta("strays")) == int(strays) + 1, "a put that wrote is not counted")
        check(a.put("q", "x", keys[1], KEEP + flag)[0] == EXISTS, "KEEP of a running job")
        # Crons.
        check(set_cron(a, cron, 2, "set_there") == 0, "a cron that is there")
        check(set_cron(a, "none", 1, "set_there") == 3, "a cron that is not there")
        # A letter with a key cannot be put back now.
        check(a.call("bulk", ["q"], "redrive", 1, dead)[3] == b"1", "redrive while jobs move")
        # A program that does not know the map is refused.
        check(a.call("put", ["q"], 1, "f", "", "", 0, 1, "+0", 0, "", "", epoch="",
                     outbox=False)[0] == 1, "a put without epoch")

        # A batch is taken over once. Only the batch that is there is dropped.
        batch = a.call("export", ["q"], "run", b.url, "job", "id")
        number, kind, source, fence, items = batch[4], batch[6], batch[7], batch[8], batch[9:]
        check(batch[3] == 0, "an export although there is a batch")
        check(b.call("import", ["q"], source, number, kind, fence, *items)[3] == 2, "import")
        check(b.call("import", ["q"], source, number, kind, fence, *items)[3] == -1, "import again")
        check(int(b.meta("fence")) == int(a.meta("fence")) == fence > 0, "fences fall")
        check(len(b.ids()["job"]) == 2, "imported twice")
        b.check_sets()
        a.call("drop", ["q"], number + 1, kind)
        check(len(a.ids()["outbox"]) == 2, "the wrong batch was dropped")
        check(("q", keys[0]) in a.keys_held(), "the key was dropped before its job")
        a.call("drop", ["q"], number, kind)
        check(a.ids()["outbox"] == [] and ("q", keys[0]) not in a.keys_held(), "drop")
        check(a.put("q", plain, policy=flag) == (ELSEWHERE, None), "an id that has moved")
        check(b.put("q", plain) == (EXISTS, plain), "the same on the other server")
        check(b.put("q", "x", keys[0]) == (EXISTS, keyed), "its key on the other server")

        # The running job and its successor must move before the end.
        waiting = subprocess.Popen([options.cli, "jobs", "reshard", "--store", a.url, "--to",
                                    scene.urls(0, 1), "--json"], stdout=subprocess.PIPE, text=True)
        for line in waiting.stdout:
            if json.loads(line)["step"] == "waiting" and json.loads(line)["running"] == 2:
                break
        else:
            check(False, "it does not wait for the running job")
        fence = int.from_bytes(a.raw("HGET", a.key("run:q"), holder)[2:9], "big")
        check(a.ack("q", holder, fence) == b"0", "ack of the running job")
        check(waiting.wait(60) == 0, "the move has failed")
        waiting.stdout.close()
        check(sorted(a.ids()["job"]) == [f"q/{staying}"], f"left: {a.ids()}")
        check(b.keys_held()[("q", keys[1])] == "new", "the successor has not its key")
        check(b.ids()["cron"] == [cron] and f"{CRON}/{cron}" in b.ids()["job"], "the cron")
        check(b.put("q", dead)[0] == EXISTS and b.put("q", ended)[0] == EXISTS, "letters and ends")
        check(b.put("q", holder)[0] == EXISTS, "the end of a job that was waited for")
        # A server that has lost its last batch uses the number for another one.
        a.raw("HINCRBY", a.key("meta"), "batch", -1)
        number = int(a.meta("batch")) + 1
        answer = a.call("export", ["q"], "another run", b.url, "job", staying)
        check(answer[4] == number and answer[7] != source, "a number is used again")
        check(b.call("import", ["q"], answer[7], number, "job", answer[8], *answer[9:])[3] == 1,
              "a batch of another run is not taken over")
        a.call("drop", ["q"], number, "job")
        check(b.put("q", staying)[0] == EXISTS, "a job is lost")
        check(b.call("bulk", ["q"], "redrive", 1, dead)[3] == b"0", "redrive after the move")
        for shard in (a, b):
            shard.check_sets()
            check(shard.meta("moving") == "0" and shard.meta("servers") == "2", "the last map")
            check(shard.meta("version") == "2", "programs without maps are not kept out")
        # A batch that comes back, because a server has lost its last write, is finished later.
        check(a.put("q", "back") == (NEW, None), "put")
        a.call("export", ["q"], "run", b.url, "job", "back")
        check(a.ids()["outbox"] == ["q/back"], "export")
        scene.must(a.url, scene.urls(0, 1))
        check(a.ids()["outbox"] == [] and "q/back" in b.ids()["job"], "a batch stays for ever")


# ------------------------------------------------------------------------ kills

def fill(scene, shard):
    """Puts jobs of all kinds. Returns what a move must keep: ids by kind, and keys."""
    shard.init()
    want = {"job": set(), "dead": set(), "end": set(), "cron": set()}
    keys = {}
    for i in range(120):
        queue, rest = f"q{i % 3}", f"job{i}"
        key = f"k{i}" if i % 4 == 0 else ""
        check(shard.put(queue, rest, key, due="+3600000000", keep=10**11,
                        payload="p" * (i * 7))[0] == NEW, "put")
        want["job"].add(f"{queue}/{rest}")
        if key:
            keys[queue, key] = rest
    for i in range(60):  # Some have failed or crashed, are dead letters, or have ended.
        rest, what = f"run{i}", i % 4
        check(shard.put("runs", rest, f"k{i}" if i % 3 == 0 else "", due="+0", keep=10**11)[0] == NEW,
              "put")
        fence, claimed = shard.claim("runs", lease=1 if what == 2 else 60000000)
        check(claimed == [rest], "claim")
        if what == 0:
            check(shard.ack("runs", rest, fence) == b"0", "ack")
            want["end"].add(f"runs/{rest}")
            continue
        if what == 1:
            check(shard.settle("runs", rest, fence, 5, text="no " * 50) == b"0", "dead")
            want["dead"].add(f"runs/{rest}")
            continue
        if what == 2:  # The lease has ended, and the next run fails: a crash and a failure.
            time.sleep(0.001)
            fence, claimed = shard.claim("runs")
            check(claimed == [rest], "claim of an expired lease")
        check(shard.settle("runs", rest, fence, 2, "+3600000000", "failed") == b"0", "retry")
        want["job"].add(f"runs/{rest}")
        if i % 3 == 0:
            keys["runs", f"k{i}"] = rest
    for i in range(6):
        check(set_cron(shard, f"cron{i}") == 0, "cron")
        want["cron"].add(f"cron{i}")
        want["job"].add(f"{CRON}/cron{i}")
    check(shard.call("alter", [CRON], "cancel", "cron5", "+0")[3] == 0, "cancel of a tick")
    want["job"].remove(f"{CRON}/cron5")
    return want, keys


def describe(shard, queue, rest):
    """The parts of a record that a move must not change. Its number may change."""
    record = shard.raw("HGET", shard.key("job:" + queue), rest)
    run = shard.raw("HGET", shard.key("run:" + queue), rest)
    places = []
    for place in ("due:%s:0", "due:%s:1", "due:%s:2", "again:%s"):
        for member, score in pairs(shard.raw("ZRANGE", shard.key(place % queue), 0, -1,
                                             "WITHSCORES")):
            if member[4:] == rest.encode():
                places.append((place, score))
    head = run.rindex(record[9:16]) if run else 0  # the time of put
    return record[:2] + record[9:], run and run[:head - 9], places


def check_all(scene, want, keys, state=""):
    """Every item is there once; an item in an outbox may also be on the new server."""
    found = [shard.ids() for shard in scene.shards]
    waiting = {one for ids in found for one in ids["outbox"]}
    for kind, ids in want.items():
        places = [one for all_of_them in found for one in all_of_them[kind]]
        twice = {one for one in places if places.count(one) > 1}
        check(not twice, f"{state}: {kind} twice: {sorted(twice)[:5]}")
        lost = ids - set(places) - waiting
        if kind == "cron":
            lost = {name for name in lost if f"{CRON}/{name}" not in waiting}
        check(not lost, f"{state}: {kind} lost: {sorted(lost)[:5]}")
    for shard in scene.shards:
        shard.check_sets()
    if not waiting:
        held = {}
        for shard in scene.shards:
            both = held.keys() & shard.keys_held().keys()
            check(not both, f"{state}: keys held twice: {both}")
            held.update(shard.keys_held())
        check(held == keys, f"{state}: keys are wrong")
    return waiting


def look_at_jobs(scene):
    return {one: describe(shard, *one.split("/", 1)) for shard in scene.shards
            for one in shard.ids()["job"]}


def check_slots(scene, servers):
    """Each item is on the server that the map names."""
    for i, shard in enumerate(scene.shards):
        if i not in servers:
            ids = shard.ids()
            check(not any(ids[kind] for kind in ("job", "dead", "cron", "outbox")),
                  f"server {i} is not empty: {ids}")
            continue
        owned = set()
        for line in shard.raw("GET", shard.key("map")).decode().splitlines():
            if line.startswith(f"server {shard.url} "):
                for part in line.split(" ")[2].split(","):
                    low, _, high = part.partition("-")
                    owned.update(range(int(low), int(high or low) + 1))
        held = {(queue, rest): key for (queue, key), rest in shard.keys_held().items()}
        for one in shard.ids()["job"]:
            queue, rest = one.split("/", 1)
            check(slot(queue, rest, held.get((queue, rest), "")) in owned,
                  f"server {i} has {one}, which belongs to another server")


def rivals(scene, want, keys):
    """Two commands want different servers at once: one succeeds, the other changes nothing."""
    scene.must(scene.urls(0, 1, 2), scene.urls(0))
    for i in range(8):
        both = [subprocess.Popen([scene.options.cli, "jobs", "reshard", "--store", scene.urls(0),
                                  "--to", to], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 text=True)
                for to in (scene.urls(0, 1), scene.urls(0, 2))]
        errors = [process.communicate(timeout=60)[1] for process in both]
        codes = [process.returncode for process in both]
        check(0 in codes, f"both have failed: {errors}")
        if codes == [0, 0]:  # One after the other.
            continue
        check("another `reshard`" in "".join(errors) or "under way" in "".join(errors), f"{errors}")
        winner = (0, 1) if codes[0] == 0 else (0, 2)
        check(check_all(scene, want, keys, "rivals") == set(), "an outbox is not empty")
        check_slots(scene, winner)
        scene.must(scene.urls(0), scene.urls(0))


def kills(options):
    rounds = [((0,), (0, 1)), ((0, 1), (0, 1, 2)), ((0, 1, 2), (1, 2)), ((1, 2), (2,)),
              ((2,), (0, 1)), ((0, 1), (0,))]
    with Scene(options, 3) as scene:
        want, keys = fill(scene, scene.shards[0])
        before = look_at_jobs(scene)
        stops = 0
        for old, new in rounds:
            store, to = scene.urls(*old), scene.urls(*new)
            n = 1
            while scene.killed(store, to, 0, n):  # Each call gets at least one step further, if it can.
                check_all(scene, want, keys, f"{old} to {new}, killed at step {n}")
                stops += 1
                n += 1
            check(check_all(scene, want, keys, f"{old} to {new}") == set(), "an outbox is not empty")
            check_slots(scene, new)
            check(look_at_jobs(scene) == before, f"{old} to {new}: a job has changed")
        # At random times, with two of them at once.
        for i in range(options.cycles or 8):
            old, new = rounds[i % len(rounds)]
            command = [options.cli, "jobs", "reshard", "--store", scene.urls(*old), "--to",
                       scene.urls(*new)]
            for _ in range(3):
                both = [subprocess.Popen(command, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.DEVNULL) for _ in range(2)]
                time.sleep(scene.choose.uniform(0.005, 0.06))
                for process in both:
                    process.kill()
                    process.wait()
                check_all(scene, want, keys, f"{old} to {new}, killed at random")
            both = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                    for _ in range(2)]
            for process in both:
                process.wait(60)
            scene.must(scene.urls(*old), scene.urls(*new))
            check(check_all(scene, want, keys, f"{old} to {new}") == set(), "an outbox is not empty")
            check_slots(scene, new)
        check(look_at_jobs(scene) == before, "a job has changed")
        rivals(scene, want, keys)
        print(f"{stops} kills at named steps; {len(want['job'])} jobs, {len(want['dead'])} dead "
              f"letters, {len(want['end'])} ends")


# ----------------------------------------------------------------------- errors

def errors(options):
    with Scene(options, 4) as scene:
        a, b, c, d = scene.shards
        a.init()
        for name in names_of(lambda s: True)[:40]:
            a.put("q", name)
        d.init()
        d.put("q", "another")
        gone = "redis://127.0.0.1:1"

        def refused(status, text, *arguments):
            result = subprocess.run([options.cli, "jobs", "reshard", *arguments],
                                    capture_output=True, text=True, timeout=60)
            check(result.returncode == status and text in result.stderr,
                  f"{arguments}: {result.returncode} {result.stderr}")

        refused(2, "only jobs in Redis can move", "--store", "sqlite:x", "--to", a.url)
        refused(2, "--to is missing", "--store", a.url)
        refused(2, "--to does not begin with redis://", "--store", a.url, "--to", "b")
        refused(2, "the store is missing", "--to", a.url)
        refused(1, "has no store in this namespace", "--store", b.url, "--to", a.url)
        refused(1, "the namespaces of `store` and `to` differ", "--store", a.url, "--to",
                b.url + "?ns=other")
        refused(1, "are the same", "--store", a.url, "--to", f"{b.url},{b.url}")
        refused(1, "is not in the map, but has jobs", "--store", a.url, "--to", scene.urls(0, 3))
        refused(1, "are not one store", "--store", scene.urls(0, 3), "--to", a.url)
        refused(1, "127.0.0.1:1", "--store", a.url, "--to", f"{a.url},{gone}")
        refused(1, "127.0.0.1:1", "--store", gone, "--to", a.url)
        check(a.meta("epoch").count(".") == 0 and b.meta("epoch") == "", "an error has changed something")
        c.raw("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
        refused(1, "noeviction", "--store", a.url, "--to", scene.urls(0, 2))
        c.raw("CONFIG", "SET", "maxmemory-policy", "noeviction")
        # Nothing to do.
        check("done: moved 0 jobs" in scene.must(a.url, a.url), "a move to itself")
        check(a.meta("epoch").count(".") == 0, "a move to itself has made a map")
        # The new server is full: no batch is made for it. Later the same command goes on.
        b.raw("CONFIG", "SET", "maxmemory", "1")
        refused(1, "OOM", "--store", a.url, "--to", scene.urls(0, 1))
        check(a.ids()["outbox"] == [] and len(a.ids()["job"]) == 40, "a batch for a full server")
        refused(1, "a move to other servers is under way", "--store", a.url, "--to", scene.urls(0, 2))
        b.raw("CONFIG", "SET", "maxmemory", "0")
        lines = [json.loads(line) for line in
                 scene.must(b.url, scene.urls(1, 0), "--json").splitlines()]
        check(lines[0]["step"] == "check" and lines[-1]["step"] == "done" and
              lines[-1]["jobs"] == len(b.ids()["job"]) > 0 and lines[-1]["slots"] == 512 and
              lines[-1]["generation"] == 2, f"--json: {lines}")
        check("done: moved 0 jobs" in scene.must(a.url, scene.urls(0, 1)), "a move that is done")
        # One server under two names; clocks that differ.
        refused(1, "are the same server", "--store", b.url, "--to",
                f"{b.url},redis://localhost:{b.server.port}")
        if options.shim:
            clock = Clock(options.shim, 60)
            late = Shard(f"{scene.folder.name}/late", clock.env)
            scene.shards.append(late)
            refused(1, "differ by 60 s", "--store", b.url, "--to", f"{b.url},{late.url}")
        # The dead letter of a queue that the new server does not know can be put back and moved.
        a.put("letters", "one", due="+0")
        fence, claimed = a.claim("letters")
        where = a if claimed else b
        if not claimed:
            check(b.put("letters", "one", due="+0")[0] == NEW, "put")
            fence, claimed = b.claim("letters")
        check(where.settle("letters", "one", fence, 5, text="no") == b"0", "dead")
        scene.must(b.url, c.url)
        check(c.call("bulk", ["letters"], "redrive", 1, "one")[3] == b"0", "redrive")
        scene.must(c.url, scene.urls(0, 1))
        check("letters/one" in a.ids()["job"] + b.ids()["job"], "a job that was put back is lost")
        # A server that was removed has got a job since.
        scene.must(a.url, b.url)
        a.put("q", "stray")
        refused(1, "is not in the map, but has jobs", "--store", b.url, "--to", scene.urls(0, 1))


# ------------------------------------------------------------------------- load

class Many(Cluster):
    """A cluster whose store is on several servers."""

    def __init__(self, options, n, **settings):
        super().__init__(options, **settings)
        self.now_on = [0]
        self.servers = [self.server]
        for i in range(1, n):
            os.mkdir(f"{self.folder.name}/{i}")
            self.servers.append(Server(f"{self.folder.name}/{i}"))
            self.others.append(self.servers[i])

    def __enter__(self):
        for server in self.servers:
            server.start()
        return self

    def store(self, port=None):
        return self.on(self.now_on)

    def on(self, which):
        return ",".join(f"redis://127.0.0.1:{self.servers[i].port}" for i in which) + \
            f"?ns=faults&timeout={int(REQUEST * 1000)}ms"

    def begin_move(self, to):
        return subprocess.Popen([self.options.cli, "jobs", "reshard", "--store", self.store(), "--to",
                                 self.on(to)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                text=True)

    def crash(self):
        """Kills a server, and starts it again."""
        server = self.choose.choice(self.servers)
        fault = self.log.begin("server", "*", self.quota())
        server.kill()
        time.sleep(self.choose.uniform(0, 0.5))
        server.start()
        self.log.over(fault)

    def move(self, to, kills, faults):
        """The command is killed `kills` times. `faults`: nodes and servers, too. Returns what the last
        command has printed."""
        for _ in range(kills):
            mover = self.begin_move(to)
            time.sleep(self.choose.uniform(0.01, 0.3))
            mover.kill()
            mover.communicate()
            if faults and self.choose.random() < 0.3:
                self.kill(self.choose.choice(self.nodes))
                self.start()
        mover = self.begin_move(to)
        if faults:
            time.sleep(self.choose.uniform(0, 0.2))
            self.crash()
        out = self.end_move(mover)
        if mover.returncode != 0 and faults:  # A server was down when it began.
            mover = self.begin_move(to)
            out = self.end_move(mover)
        if mover.returncode != 0:
            self.error(f"the move to {to} fails: {out}")
        self.now_on = to
        return out

    def end_move(self, mover):
        try:
            return mover.communicate(timeout=2 * PATIENCE)[0]
        except subprocess.TimeoutExpired:
            mover.kill()
            return mover.communicate()[0]


def check_ticks(c, cron):
    """Each second between the first and the last one has one job."""
    seconds = sorted(datetime.datetime.fromisoformat(job.split("@")[1].replace("Z", "+00:00"))
                     for job in c.log.history.runs if job.startswith(cron + "@"))
    if len(seconds) < 5:
        c.error(f"only {len(seconds)} ticks of {cron}")
    for one, other in zip(seconds, seconds[1:]):
        if (other - one).total_seconds() != 1:
            c.error(f"no tick of {cron} between {one} and {other}")


def load(options, faults=False):
    rounds = [[0, 1], [0, 1, 2], [1, 2], [2], [0, 1]]
    with Many(options, 3, rate=200, delay=3000, waiting=1000, cron=0 if faults else 1) as c:
        if faults:
            c.now_on = [0, 1]  # The nodes make the first map.
        for _ in range(4):
            c.start()
        if not faults:  # With a unique key: a time is skipped if the job before has not ended.
            subprocess.run([options.cli, "jobs", "cron", "add", "tock", "* * * * * *", "--name", "work",
                            "--overlap", "skip", "--store", c.store()], check=True,
                           stdout=subprocess.DEVNULL)
        for to in rounds * (options.cycles or 1):
            time.sleep(c.choose.uniform(0.3, 1))
            out = c.move(to, c.choose.randrange(6), faults)
            c.resumed(f"the move to {to}")
            c.report.append(f"to {to}: {out.strip().splitlines()[-1] if out else ''}")
            if c.choose.random() < 0.5:  # A node that knows the new list from its start.
                node = c.nodes.pop(0)
                node.terminate()
                node.wait(PATIENCE)
                c.start()
        c.finish()
        for i, server in enumerate(c.servers):
            left = server.call("HLEN", "{faults}:job:work")
            if left and i not in c.now_on:
                c.error(f"{left} jobs are left on server {i}")
    if not faults:
        check_ticks(c, "tick/tick")
        check_ticks(c, "work/tock")
    return c


def load_and_faults(options):
    return load(options, faults=True)


# ------------------------------------------------------------------------- keys

def keys_of_jobs(shard):
    """Of each job on the server, also in the outbox: its key, and whether it is held."""
    found = {}
    for queue in shard.queues():
        runs = dict(pairs(shard.raw("HGETALL", shard.key("run:" + queue))))
        for rest, record in pairs(shard.raw("HGETALL", shard.key("job:" + queue))):
            run = runs.get(rest)
            found[f"{queue}/{rest.decode()}"] = key_of(record), bool(run and run[1] & 2)
    if shard.meta("batch_kind") == "job":
        for field, text in pairs(shard.raw("HGETALL", shard.key("outbox"))):
            at = 16  # due, failures, crashes; then error, progress, definition of a cron
            for size in (2, 2, 4):
                at += size + int.from_bytes(text[at:at + size], "big")
            found[field.decode()] = key_of(text[at:]), False
    return found


def key_of(record):
    flags, at = record[1], 16
    at += 7 if flags & 16 else 0
    at += 1 + record[at] if flags & 4 else 0
    return record[at + 1:at + 1 + record[at]].decode() if flags & 8 else ""


def check_keys(scene):
    """At most one job of each key is not held. All processes must be stopped."""
    jobs = {}
    for shard in scene.shards:
        jobs.update(keys_of_jobs(shard))  # A job in an outbox may also be on the new server.
    keys = [key for key, held in jobs.values() if not held]
    check(len(keys) == len(set(keys)), f"several jobs of one key: {sorted(jobs.items())}")
    return len(keys)


def check_lines(scene, lines):
    """Two jobs of one key never run at once; no job runs twice; each job that was put has ended."""
    put, ran, running = set(), set(), {}
    for line in lines:
        verb, *words = line.split()
        check(verb != "error", line)
        if verb == "put":
            put.add(words[0])
        elif verb == "run":
            check(words[0] not in running, f"{running.get(words[0])} runs, and so does {words}")
            check(words[1] not in ran, f"{words} runs twice")
            running[words[0]] = words[1]
            ran.add(words[1])
        elif verb == "end":
            check(running.pop(words[0]) == words[1], line)
    known = {one for shard in scene.shards for kind in ("job", "end", "outbox")
             for one in shard.ids()[kind]}
    check(put <= known, f"lost: {sorted(put - known)[:5]}")
    check(ran - put <= known, "a job ran that nobody knows")
    return len(put), len(ran)


def keys(options):
    rounds = [(0, 1), (0, 1, 2), (1, 2), (2,), (0, 1), (0,)]
    with Scene(options, 3) as scene:
        read_end, write_end = os.pipe()
        now_on, counts, lines = (0,), [], []

        def read():
            with os.fdopen(read_end) as pipe:
                lines.extend(pipe)

        reader = threading.Thread(target=read)
        reader.start()
        nodes = [subprocess.Popen([options.keys, scene.urls(0), str(scene.choose.getrandbits(60))],
                                  stdout=write_end) for _ in range(4)]
        os.close(write_end)
        try:
            time.sleep(0.5)
            for to in rounds * (options.cycles or 2):
                command = [options.cli, "jobs", "reshard", "--store", scene.urls(*now_on), "--to",
                           scene.urls(*to)]
                for _ in range(3):
                    mover = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                    time.sleep(scene.choose.uniform(0.01, 0.15))
                    for process in [*nodes, mover]:
                        process.send_signal(signal.SIGSTOP)
                    time.sleep(0.02)  # The servers carry out what they have.
                    counts.append(check_keys(scene))
                    mover.kill()
                    mover.wait()
                    for node in nodes:
                        node.send_signal(signal.SIGCONT)
                scene.must(scene.urls(*now_on), scene.urls(*to))
                now_on = to
        finally:
            for node in nodes:
                node.send_signal(signal.SIGCONT)
                node.terminate()
            codes = [node.wait(60) for node in nodes]
            reader.join()
        check(codes == [0] * len(nodes), f"the processes exit with {codes}: {lines[-3:]}")
        check_all(scene, {}, {k: v for s in scene.shards for k, v in s.keys_held().items()})
        check_slots(scene, now_on)
        print("%d jobs put, %d ran" % check_lines(scene, lines),
              f"keys in use when all was stopped: {counts}")


SCENARIOS = {"keys": keys, "rules": rules, "kills": kills, "errors": errors, "load": load,
             "faults": load_and_faults}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--cli", required=True)
    parser.add_argument("--kill")
    parser.add_argument("--node")
    parser.add_argument("--keys")
    parser.add_argument("--shim", help="the library of clock_shim.c")
    parser.add_argument("--cycles", type=int, default=0)
    parser.add_argument("--log", help="keep all lines in this file")
    parser.add_argument("--break", dest="broken", choices=("twice", "early"))
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 0)))
    options = parser.parse_args()
    if not shutil.which("redis-server"):
        print("skipped: redis-server is not installed")
        return SKIPPED
    cluster = SCENARIOS[options.scenario](options)
    return report(cluster.log.history, cluster.report) if cluster else 0


if __name__ == "__main__":
    sys.exit(main())
