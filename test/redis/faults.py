#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""faults.py NODE SCENARIO [--cycles N] [--seconds S] [--seed N] [--long] [--log FILE]
                        [--break HOW]
faults.py --check FILE

Several processes (NODE is ../jobs/kill_node) put and run jobs on one redis-server, and something
breaks: the server, its data, the network (proxy.py), the processes or their clocks. The scenarios
are F4 to F11 of the list in docs/testing.md. Each writes down what happened, with --log into
a file; history.py says what must hold, and --check reads such a file again.

Without --long a scenario asserts no upper bound of time. --break makes something wrong on purpose;
then the exit status is 0 if exactly that was noticed.
"""
import argparse
import os
import shutil
import subprocess
import sys
import time

from cluster import PATIENCE, Clock, Cluster
from history import read_file
from proxy import FAULTS
from server import Client

RESUME = 6.0  # s after the end of a fault
SKIPPED = 77  # meson's


# ---------------------------------------------------------------- F4: the server is killed

def crash(options):
    """F4. The server is killed with SIGKILL at full load, also while it rewrites its file."""
    cycles = options.cycles or (100 if options.long else 10)
    server = {"appendonly": "no"} if options.broken == "lose" else {}
    with Cluster(options, rate=1000 if options.long else 500, server=server) as c:
        nodes = [c.start() for _ in range(3)]
        slowest = 0.0
        for _ in range(cycles):
            time.sleep(c.choose.uniform(0.2, 0.8))
            if c.choose.random() < 0.5:
                c.server.call("BGREWRITEAOF")
                time.sleep(c.choose.uniform(0, 0.05))
            c.crash_server(c.choose.uniform(0, 0.3))
            slowest = max(slowest, c.resumed("a crash of the server", nodes))
        c.report.append(f"{cycles} crashes of the server, the nodes go on after {slowest:.2f} s")
        if options.long and slowest > RESUME:
            c.error(f"a node needs {slowest:.1f} s after a crash of the server")
        c.finish()
    if c.log.history.unsafe and not options.broken:
        c.error("the settings are safe, but there was an event 'store unsafe'")
    return c


def crash_everysec(options):
    """F4. With `appendfsync everysec` a kill may lose the last writes: how many seconds of them?"""
    cycles = options.cycles or 12
    with Cluster(options, rate=1000, window=2.0, server={"appendfsync": "everysec"}) as c:
        nodes = [c.start() for _ in range(3)]
        for pid in [str(node.pid) for node in nodes]:
            c.log.wait(lambda h: pid in h.unsafe, PATIENCE, f"event 'store unsafe' in {pid}")
        kills = []
        for _ in range(cycles):
            time.sleep(c.choose.uniform(1, 2))
            kills.append(time.monotonic())
            c.crash_server(c.choose.uniform(0, 0.3), window=True)
            c.resumed("a crash of the server", nodes)
        c.finish()
    h = c.log.history
    ages = [min(kill - put for kill in kills if kill > put - 0.1) for _, put in h.lost]
    c.report.append(f"everysec: {len(ages)} of {len(h.acknowledged)} acknowledged puts were lost, "
                    f"at most {max(ages, default=0):.2f} s old")
    return c


# ------------------------------------------------------------- F5: commands and replies

def flush_scripts(c):
    for _ in range(10):
        c.server.call("SCRIPT", "FLUSH")
        time.sleep(0.05)
    c.resumed("SCRIPT FLUSH")


def kill_clients(c):
    for kind in ("normal", "pubsub", "normal"):
        killed = c.server.call("CLIENT", "KILL", "TYPE", kind)
        if not killed:
            c.error(f"there was no client of type {kind}")
        time.sleep(0.2)
    c.resumed("CLIENT KILL")


def load_slowly(c):
    """While the server loads its data, it answers LOADING."""
    fault = c.log.begin("loading", "*", c.quota())
    c.server.kill()
    c.server.options["key-load-delay"] = 30
    c.server.start(wait=False)
    seen, until = 0, time.monotonic() + PATIENCE
    while time.monotonic() < until:
        try:
            answer = c.server.call("PING")
        except OSError:
            answer = None
        if answer == "PONG":
            break
        seen += str(answer).startswith("LOADING")
        time.sleep(0.01)
    c.log.over(fault)
    del c.server.options["key-load-delay"]
    c.server.call("CONFIG", "SET", "key-load-delay", 0)
    if not seen:
        c.error("the server never said LOADING")
    c.resumed("LOADING")


def read_only(c):
    """The server is a replica for a while: READONLY."""
    fault = c.log.begin("readonly", "*", c.quota())
    refused = int(c.server.info("total_error_replies"))
    c.server.call("REPLICAOF", "127.0.0.1", 1)
    time.sleep(0.7)
    c.server.call("REPLICAOF", "NO", "ONE")
    c.log.over(fault)
    if int(c.server.info("total_error_replies")) == refused:
        c.error("nothing was refused by a read-only server")
    c.resumed("READONLY")


def fill(c):
    """A full server refuses puts, and its jobs are run all the same."""
    full = c.log.history.count.get("full", 0)
    used = int(c.server.info("used_memory"))
    c.server.call("CONFIG", "SET", "maxmemory", used // 2)
    c.log.wait(lambda h: h.count.get("full", 0) > full + 10, PATIENCE, "put that is refused")
    # What is due now is run.
    with c.log.changed:
        waiting = c.log.history.acknowledged.keys() - c.log.history.cancelled
    c.log.wait(lambda h: waiting <= h.ended, PATIENCE, "end of all jobs while the server is full")
    c.server.call("CONFIG", "SET", "maxmemory", 0)
    c.resumed("OOM")


def flush_all(c):
    """The server loses all data."""
    with c.log.changed:
        ticks = c.log.history.ticks
        resets = dict(c.log.history.resets)
    if ticks == 0:
        c.error("the cron has never run")
    fault = c.log.begin("flush", "*", "*")
    c.server.call("FLUSHALL")
    c.log.say("flushed")
    c.log.over(fault)
    for node in c.nodes:
        pid = str(node.pid)
        c.log.wait(lambda h: h.resets.get(pid, 0) > resets.get(pid, 0), PATIENCE,
                   f"event 'store reset' in {pid}")
    c.log.wait(lambda h: h.ticks > ticks + 1, PATIENCE, "run of the cron after FLUSHALL")
    c.resumed("FLUSHALL")


def commands(options):
    """F5. SCRIPT FLUSH, CLIENT KILL, LOADING, READONLY, a full server, FLUSHALL."""
    with Cluster(options, cron=1) as c:
        for _ in range(2):
            c.start()
        c.log.wait(lambda h: h.ticks > 0, PATIENCE, "run of the cron")
        for _ in range(options.cycles or (5 if options.long else 1)):
            for step in (flush_scripts, kill_clients, load_slowly, read_only, fill, flush_all):
                c.log.say(f"note {step.__name__}")
                began = time.monotonic()
                step(c)
                c.report.append(f"{step.__name__}: {time.monotonic() - began:.1f} s")
                time.sleep(0.2)
        c.finish()
    return c


# ----------------------------------------------------------- F6: a process is stopped

def stopped(options):
    """F6. A node is stopped in a handler for three leases. Another runs the job, and the stopped
    node's result is not accepted."""
    with Cluster(options, lease=1000, rate=20, sleep=300) as c:
        for _ in range(options.cycles or (20 if options.long else 1)):
            first = c.start()
            c.log.wait(lambda h: h.running.get(str(first.pid)), PATIENCE, "job that runs")
            second = c.start()
            c.log.wait(lambda h: h.running.get(str(first.pid)), PATIENCE, "job that runs")
            c.stop(first)
            with c.log.changed:
                jobs = set(c.log.history.running[str(first.pid)])
                lost = c.log.history.count.get("lost", 0)
            time.sleep(3 * c.lease)
            c.log.wait(lambda h: all(h.runs[job][-1][1] == str(second.pid) for job in jobs),
                       PATIENCE, "run of the jobs of a node that is stopped")
            c.log.wait(lambda h: jobs <= h.ended, PATIENCE, "end of these jobs")
            time.sleep(0.3)  # The other node's results arrive.
            c.go_on(first)
            if jobs:
                c.log.wait(lambda h: h.count.get("lost", 0) > lost, PATIENCE, "event 'lost'")
            else:
                c.error("the node was not running anything")
            c.kill(first)
            c.kill(second)
        c.finish()
    return c


# ------------------------------------------------------------------ F7: the network

def network(options):
    """F7. A proxy between the nodes and the server fails in each of its ways."""
    slowest, rounds = 0.0, options.cycles or (10 if options.long else 1)
    with Cluster(options, crashes=5) as c:
        proxy = c.proxy()
        for _ in range(2):
            c.start(port=proxy.port)
        for _ in range(rounds):
            for how in c.choose.sample(FAULTS, len(FAULTS)):
                seconds = c.choose.uniform(0.5, 6) if options.long else c.choose.uniform(0.7, 1.3)
                c.log.say(f"note {how} {seconds:.2f} s")
                fault = c.log.begin(how, "*", c.quota())
                proxy.set(how)
                time.sleep(seconds)
                proxy.set("pass")
                c.log.over(fault)
                took = c.resumed(f"'{how}' for {seconds:.1f} s")
                slowest = max(slowest, took)
                c.report.append(f"{how} for {seconds:.1f} s: all go on after {took:.2f} s")
                if options.long and took > RESUME:
                    c.error(f"after '{how}' a node needs {took:.1f} s")
                time.sleep(0.5)
        c.finish()
    held = max((ms for _, ms in c.log.history.held), default=0)
    c.report.append(f"the loop was held for at most {held} ms (only what is above 20 counts)")
    if options.long and held > 20:
        c.error(f"the loop was held for {held} ms")
    return c


# ------------------------------------------------------- F8: no messages of PUBLISH

def mute(options):
    """F8. Messages never arrive. So a node sleeps beyond a nearer job, but not for longer than
    30 s."""
    with Cluster(options, waiting=0, rate=1) as c:
        proxies = [c.proxy() for _ in range(4)]
        for proxy in proxies:
            proxy.set("mute")
        for proxy in proxies[1:]:
            c.start(port=proxy.port)
        time.sleep(1)
        jobs = 0
        for _ in range(options.cycles or 6):
            # This process puts, and dies before it can run them: the others sleep.
            due = int(time.time() * 1000000) + c.choose.randrange(2000000, 5000000)
            putter = c.start(port=proxies[0].port, bulk=20, at=due)
            jobs += 20
            c.log.wait(lambda h: h.count.get("put", 0) >= jobs, PATIENCE, "answer of the puts")
            c.kill(putter)
            c.log.wait(lambda h: h.acknowledged.keys() <= h.ended, PATIENCE, "end of the jobs")
            time.sleep(c.choose.uniform(0, 3))
        c.finish()
    late = c.log.history.late_ms(100)
    c.report.append(f"without messages jobs are at most {late:.0f} ms late")
    if late > 31000:
        c.error(f"a job runs {late:.0f} ms late")
    return c


# ------------------------------------------------------------------------ F9: clocks

def node_clocks(options):
    """F9. Nodes whose clocks are an hour off. Only the server's clock counts."""
    clocks = {hours: Clock(options.shim, hours * 3600) for hours in (1, -1)}
    with Cluster(options, crashes=5) as c:
        c.start()
        for hours, clock in clocks.items():
            c.start(env=clock.env, clock=hours * 3600)
        time.sleep(options.seconds or (30 if options.long else 4))
        c.resumed("clocks that are wrong")
        c.finish()
    if c.log.history.second_runs():
        c.error("jobs run twice although only clocks of nodes are wrong")
    return c


def set_clock(c, clock, old, new):
    """Sets the server's clock from `old` to `new` seconds before or after the real time."""
    low, high = sorted((old * 1000000, new * 1000000))
    fault = c.log.begin("step", "*", c.quota())
    c.log.say(f"clock {low} {high}")
    clock.set(new)
    if abs(int(c.server.call("TIME")[0]) - time.time() - new) > 10:
        c.error("the server's clock was not set")
    c.log.say(f"clock {new * 1000000} {new * 1000000}")
    c.log.over(fault)


def server_clock(options):
    """F9. The server's clock is set forward and back by five minutes."""
    clock, now = Clock(options.shim), 0
    with Cluster(options, crashes=5, server_env=clock.env) as c:
        for _ in range(2):
            c.start()
        for _ in range(options.cycles or (10 if options.long else 1)):
            for new in (300, 0, -300, 0):
                c.resumed(f"a step to {now:+d} s", runs=new >= now)
                time.sleep(c.choose.uniform(0.3, 1))
                set_clock(c, clock, now, new)
                now = new
        c.resumed("the last step", runs=False)
        set_clock(c, clock, now, 900)  # What was put while the clock was ahead is due now.
        c.resumed("a step forward")
        c.finish()
    return c


END_LEASES = """for _, m in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  redis.call('ZADD', KEYS[1], 1, m)
end"""


def end_leases(c):
    """--break lease: the store ends leases too early."""
    for _ in range(100):
        c.server.call("EVAL", END_LEASES, 1, "{faults}:lease:work")
        time.sleep(0.02)


def outage(options):
    """F9. The server is away for longer than a lease."""
    more = {"sleep": 100, "crashes": 0, "rate": 20} if options.broken == "lease" else {"crashes": 5}
    with Cluster(options, lease=1000, **more) as c:
        nodes = [c.start() for _ in range(3)]
        if options.broken == "lease":
            end_leases(c)
        for _ in range(options.cycles or (10 if options.long else 2)):
            time.sleep(c.choose.uniform(0.5, 1))
            c.crash_server(c.choose.uniform(1.5, 2.5) * c.lease)
            took = c.resumed("an outage", nodes)
            c.report.append(f"an outage: all go on after {took:.2f} s")
            if options.long and took > RESUME:
                c.error(f"after an outage a node needs {took:.1f} s")
        c.finish()
    return c


# ------------------------------------------------------------------- F10: a burst

def ping(port):
    """Another client of the server: prints the 99th percentile of its PINGs, in ms. A process of its
    own, because a busy driver would measure itself."""
    client, took = Client(port), []
    print("ready", flush=True)
    os.set_blocking(0, False)
    while sys.stdin.buffer.read(1) is None:
        began = time.monotonic()
        client.call("PING")
        took.append(time.monotonic() - began)
        time.sleep(0.005)
    took.sort()
    print(f"{took[len(took) * 99 // 100] * 1000:.1f} {took[-1] * 1000:.1f} {len(took)}")


def burst(options):
    """F10. 100 000 jobs are due in one ms, and 8 nodes run them. One of these is killed."""
    jobs = 100000 if options.long else 10000
    with Cluster(options, rate=1, waiting=0, keep=0, places=32, lease=10000) as c:
        due = int(time.time() * 1000000) + (30000000 if options.long else 5000000)
        nodes = [c.start() for _ in range(7)]
        nodes.append(c.start(bulk=jobs, at=due))
        c.log.wait(lambda h: len(h.acknowledged) == jobs, PATIENCE, "answer of all puts")
        before = time.time() * 1000000 < due
        time.sleep(max(0, due / 1000000 - time.time()) + 0.3)
        pinger = subprocess.Popen([sys.executable, __file__, "--ping", str(c.server.port)],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        pinger.stdout.readline()
        c.kill(c.choose.choice(nodes[:7]))
        c.log.wait(lambda h: len(h.ended) >= jobs, 5 * PATIENCE, "end of all jobs")
        took = time.time() - due / 1000000
        p99, worst, pings = pinger.communicate("x")[0].split()
        c.finish()
    c.report.append(f"{jobs} jobs in {took:.1f} s; PING p99 {p99} ms, worst {worst} ms of {pings}")
    if not before:
        c.error("the jobs were due before all were put")
    if options.long and float(p99) > 20:
        c.error(f"a foreign PING takes {p99} ms")
    return c


# ------------------------------------------------------ F11: the leader is killed

def leader(options):
    """F11. The leader is killed every 200 ms."""
    seconds = options.seconds or (60 if options.long else 5)
    with Cluster(options, rate=50, keep=0) as c:
        client = Client(c.server.port)
        owners = {}

        def start():
            """One at a time, so that a new channel is that of the new node."""
            known = set(client.call("PUBSUB", "CHANNELS", "{faults}:wake:*"))
            node = c.start()
            until = time.monotonic() + PATIENCE
            while time.monotonic() < until:
                new = set(client.call("PUBSUB", "CHANNELS", "{faults}:wake:*")) - known
                if new:
                    owners[int(new.pop().decode().rpartition(":")[2])] = node
                    return
                time.sleep(0.002)
            c.error("a new node does not subscribe")

        for _ in range(4):
            start()
        kills, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            began = time.monotonic()
            lead = client.call("HGET", "{faults}:lead", "work")  # begins with the node's number
            node = lead and owners.get(int.from_bytes(lead[:6], "big"))
            if node in c.nodes:
                c.kill(node)
                start()
                kills += 1
            time.sleep(max(0, 0.2 - (time.monotonic() - began)))
        client.close()
        c.finish()
    p99 = c.log.history.late_ms(99)
    c.report.append(f"{kills} leaders were killed in {seconds} s; p99 of the lateness {p99:.0f} ms")
    if kills < seconds / 2:
        c.error(f"only {kills} leaders were found and killed")
    if options.long and p99 > 150:
        c.error(f"the 99th percentile of the lateness is {p99:.0f} ms")
    return c


# ----------------------------------------------------------------- all at once

def everything(options):
    """Nodes are killed, stopped and cut off, and the server is killed, stopped and told to forget
    its scripts and clients, all at random."""
    seconds = options.seconds or (600 if options.long else 20)
    with Cluster(options, rate=100) as c:
        proxies = [c.proxy() for _ in range(4)]
        places = {c.start(port=proxy.port): proxy for proxy in proxies}
        cuts, stops, paused = {}, {}, None  # until when
        counts = {}
        until = time.monotonic() + seconds

        def heal(now):
            nonlocal paused
            for node, (end, fault) in list(cuts.items()):
                if now > end:
                    places[node].set("pass")
                    c.log.over(fault)
                    del cuts[node]
            for node, end in list(stops.items()):
                if now > end:
                    c.go_on(node)
                    del stops[node]
            if paused and now > paused[0]:
                c.server.resume()
                c.log.over(paused[1])
                paused = None

        while time.monotonic() < until:
            time.sleep(c.choose.uniform(0.05, 0.5))
            now = time.monotonic()
            heal(now)
            what = c.choose.choices(
                ("kill", "stop", "cut", "server", "pause", "scripts", "clients", "nothing"),
                (3, 2, 3, 1, 1, 1, 1, 4))[0]
            node = c.choose.choice(list(places))
            if what == "kill" and node not in stops:
                c.kill(node)
                proxy = places.pop(node)
                if node in cuts:
                    proxy.set("pass")
                    c.log.over(cuts.pop(node)[1])
                places[c.start(port=proxy.port, wait=False)] = proxy
            elif what == "stop" and node not in stops:
                c.stop(node)
                stops[node] = now + c.choose.uniform(0.1, 2) * c.lease
            elif what == "cut" and node not in cuts:
                how = c.choose.choice(FAULTS)
                cuts[node] = (now + c.choose.uniform(0.1, 2) * c.lease,
                              c.log.begin(how, node.pid, c.settings["places"]))
                places[node].set(how)
            elif what == "server" and not paused:
                c.crash_server(c.choose.choice((0, 0.3, 1.5 * c.lease)))
            elif what == "pause" and not paused:
                paused = now + c.choose.uniform(0.1, 1.5) * c.lease, \
                    c.log.begin("pause", "*", c.quota())
                c.server.pause()
            elif what == "scripts" and not paused:
                c.server.call("SCRIPT", "FLUSH")
            elif what == "clients" and not paused:
                c.server.call("CLIENT", "KILL", "TYPE", c.choose.choice(("normal", "pubsub")))
            else:
                continue
            counts[what] = counts.get(what, 0) + 1
        heal(float("inf"))
        took = c.resumed("all faults", c.nodes)
        c.report.append(f"{seconds} s: {counts}; all go on after {took:.2f} s")
        if options.long and took > RESUME:
            c.error(f"after all faults a node needs {took:.1f} s")
        c.finish()
    return c


def all_of_them(options):
    """Each scenario but `cluster`, in a process of its own."""
    failed = []
    for name in SCENARIOS:
        if name in ("all", "cluster"):
            continue
        print(f"--- {name}", flush=True)
        more = ["--long"] if options.long else []
        rc = subprocess.run([sys.executable, __file__, options.node, name, "--shim", options.shim,
                             *more]).returncode
        if rc != 0:
            failed.append(name)
    print("failed: " + ", ".join(failed) if failed else "all scenarios hold")
    return 1 if failed else 0


SCENARIOS = {"F4": crash, "F4-everysec": crash_everysec, "F5": commands, "F6": stopped,
             "F7": network, "F8": mute, "F9-nodes": node_clocks, "F9-server": server_clock,
             "F9-outage": outage, "F10": burst, "F11": leader, "cluster": everything, "all": all_of_them}
NOTICED = {"early": "lost", "twice": "a claim runs twice", "soon": "runs 3", "stale": "stale",
           "lose": "lost", "lease": "runs again without"}


def report(history, lines=()):
    for line in lines:
        print("  " + line)
    print(f"{len(history.acknowledged)} jobs acknowledged, {len(history.runs)} ran,"
          f" {history.second_runs()} second runs {history.explained}, {len(history.gone)} cancelled,"
          f" {history.count.get('failed', 0)} puts failed, {history.count.get('lost', 0)} results"
          f" lost, {len(history.slow)} times slow; late p50 {history.late_ms(50):.1f} ms,"
          f" p99 {history.late_ms(99):.1f} ms")
    for text in history.errors[:20]:
        print(text)
    return 1 if history.errors else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node", nargs="?")
    parser.add_argument("scenario", nargs="?", choices=SCENARIOS)
    parser.add_argument("--cycles", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 0)))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--log", help="keep all lines in this file")
    parser.add_argument("--break", dest="broken", choices=NOTICED)
    parser.add_argument("--check", metavar="FILE", help="check the lines of an earlier run")
    parser.add_argument("--shim", help="the library of clock_shim.c")
    parser.add_argument("--ping", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.ping:
        return ping(options.ping)
    if options.check:
        return report(read_file(options.check))
    if not options.scenario:
        parser.error("NODE and SCENARIO are missing")
    if not options.shim:
        folder = os.path.dirname(os.path.dirname(os.path.abspath(options.node)))
        options.shim = os.path.join(folder, "redis", "libclock_shim.so")
    options.shim = os.path.abspath(options.shim)
    if not shutil.which("redis-server"):
        print("skipped: redis-server is not installed")
        return SKIPPED
    if options.scenario == "all":
        return all_of_them(options)
    cluster = SCENARIOS[options.scenario](options)
    failed = report(cluster.log.history, cluster.report)
    if not options.broken:
        return failed
    wanted = NOTICED[options.broken]
    noticed = any(text.startswith(wanted) for text in cluster.log.history.errors)
    print("noticed" if noticed else "NOT NOTICED")
    return 0 if noticed else 1


if __name__ == "__main__":
    sys.exit(main())
