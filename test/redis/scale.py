#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""scale.py [--large] [--shards N] [--nodes N] [--each N] [--places N] [--rate N] [--seconds N]
[--burst N] [--seed N] [--after-run] [--silent] [--scripts FOLDER]
scale.py --leader [--nodes N] [--seed N] [--scripts FOLDER]
scale.py --server

Leaders, deputies and claims with many nodes and many shards: simulation.py runs the real scripts on a
virtual clock. Prints a table and checks:

  - Each job runs, and none before it is due.
  - As long as no node dies, each job runs once, 99 of 100 begin at most 20 ms late, and under load
    there are at most 1.5 claims that find nothing for each job.
  - When a tenth of the nodes dies, the jobs that these ran may run twice, no others. All have begun
    again at most a second after the last lease of the dead nodes has ended.

The small form, for tests, has 8 shards and 50 nodes; the large one, 64 shards and 1000 nodes.
docs/scale.md has the figures. The same seed, from --seed or SEED, gives the same run.

--each: how many shards a node claims from; default: all. --after-run: a node claims after each job.
--silent: a node that has no place left claims nothing. --scripts: other scripts. --leader: only the
death of the leader of an idle shard. --server measures the memory, time and traffic that jobs take on
one server; there is no simulation.
"""
import argparse
import os
import random
import shutil
import signal
import sys
import time

import scripts
from simulation import LEASE_US, START_US, Simulation

MOST_EMPTY = 1.5       # claims that find nothing, for each job
MOST_LATE_US = 20_000  # p99 as long as no node dies


def quantile(values, q):
    values = sorted(values)
    return values[min(len(values) - 1, int(q * len(values)))] if values else 0


def check(holds, what):
    if not holds:
        sys.exit("scale.py: does not hold: " + what)


class Phase:
    """What the simulation has counted since the phase began."""
    FIELDS = "claims empty claimed woken commands".split()

    def __init__(self, sim):
        self.sim, self.began, self.first_job = sim, sim.now, len(sim.jobs)
        self.reasons = sim.empty_after.copy()
        self.before = {f: getattr(sim, f) for f in self.FIELDS}

    def __getattr__(self, field):
        return getattr(self.sim, field) - self.before[field]

    def seconds(self):
        return (self.sim.now - self.began) / 1e6

    def empty_after(self):
        return ", ".join("%s %d" % (why, n - self.reasons[why]) for why, n in
                         self.sim.empty_after.most_common() if n > self.reasons[why])

    def jobs(self):
        return self.sim.jobs[self.first_job:]


def row(what, value):
    print("  %-66s %s" % (what, value), flush=True)


def print_lateness(jobs, what="lateness p50 / p99 / greatest, ms", bound=None):
    late = [j.starts[0] - j.due for j in jobs if j.starts]
    p99 = quantile(late, 0.99)
    row(what, "%.1f / %.1f / %.1f" % (quantile(late, 0.5) / 1e3, p99 / 1e3, max(late, default=0) / 1e3))
    check(bound is None or p99 <= bound, "%s: p99 is at most %s ms" % (what, (bound or 0) / 1e3))


def check_jobs(jobs):
    check(all(j.starts for j in jobs), "each job runs: %d of %d did not" %
          (sum(not j.starts for j in jobs), len(jobs)))
    check(all(s >= j.due for j in jobs for s in j.starts), "no job runs early")


def boot(sim, seconds):
    for node in sim.nodes:
        sim.at(sim.now + sim.random.randrange(int(seconds * 1e6)), sim.boot, node)
    sim.run(sim.now + int(seconds * 1e6))


def run_idle(sim):
    """The first job of each shard is due in an hour."""
    for s in range(len(sim.shards)):
        sim.put(s, 3_600_000_000, 1000)
    sim.run(sim.now + 1_000_000)
    phase = Phase(sim)
    sim.run(sim.now + 60_000_000)
    a_second = phase.claims / phase.seconds()
    pairs = len(sim.nodes) * len(sim.nodes[0].shards)
    print("idle, the first job far away")
    row("claims a second and shard", "%.1f" % (a_second / len(sim.shards)))
    row("claims a second and node", "%.3f" % (a_second / len(sim.nodes)))
    row("claims a second, node and shard", "%.4f" % (a_second / pairs))
    # A node with one queue claims from two, because of the crons. It also sends a TRIM each minute, and
    # a PING every two minutes.
    check(2 * a_second / pairs + 1 / 60 + 1 / 120 <= 0.1, "an idle node sends at most 0.1 commands a second to a shard")
    phase = Phase(sim)
    for s in range(len(sim.shards)):
        sim.put(s, sim.now + 100_000, 1000)
    sim.run(sim.now + 60_000_000)
    check_jobs(phase.jobs())
    print_lateness(phase.jobs(), "a job that is put then: lateness p50 / p99 / greatest, ms",
                   MOST_LATE_US)


def run_load(sim, a_second, seconds):
    phase = Phase(sim)
    sim.put_steadily(a_second, seconds)
    sim.run(sim.now + seconds * 1_000_000 * 3 // 2 + 1_000_000)
    jobs = phase.jobs()
    check_jobs(jobs)
    print("load: %d jobs a second for %d s" % (a_second, seconds))
    row("claims, of these empty", "%d, %d" % (phase.claims, phase.empty))
    row("empty claims a job", "%.2f" % (phase.empty / len(jobs)))
    row("why these were sent", phase.empty_after())
    row("commands a job, with its put and ack", "%.2f" % (phase.commands / len(jobs)))
    row("messages a job", "%.2f" % (phase.woken / len(jobs)))
    print_lateness(jobs, bound=MOST_LATE_US)
    check(all(len(j.starts) == 1 and j.ends for j in jobs), "each job runs once")
    check(phase.empty / len(jobs) <= MOST_EMPTY,
          "at most %.1f empty claims a job: %.2f" % (MOST_EMPTY, phase.empty / len(jobs)))


def run_deaths(sim, a_second, seconds):
    """A tenth of the nodes dies under load: half of these are the busiest ones, so leaders."""
    phase = Phase(sim)
    sim.put_steadily(a_second, seconds)
    sim.run(sim.now + seconds * 1_000_000 // 3)
    died = sim.now
    alive = [n for n in sim.nodes if n.alive]
    busiest = sorted(alive, key=lambda n: -n.running)[:(len(alive) + 10) // 20]
    others = [n for n in alive if n not in busiest]
    dead = set(busiest + sim.random.sample(others, len(alive) // 10 - len(busiest)))
    for node in sorted(dead, key=lambda n: n.number):
        sim.kill(node)
    sim.run(sim.now + seconds * 1_000_000 * 3 // 2 + LEASE_US + 2_000_000)
    jobs = phase.jobs()
    check_jobs(jobs)
    held = [j for j in jobs if any(n in dead for n, _ in j.holders)
            and not (j.ends and j.ends[0] <= died + 2_000)]
    held_until = max((t + LEASE_US for j in held for n, t in j.holders if n in dead), default=died)
    others = [j for j in jobs if j not in held]
    meanwhile = [j for j in others if died <= j.due < died + 1_000_000]
    twice = [j for j in jobs if len(j.starts) > 1]
    last = max(j.starts[-1] for j in held) if held else died
    print("%d of %d nodes die, at %d jobs a second" % (len(dead), len(alive), a_second))
    row("jobs that the dead nodes held", len(held))
    row("the last lease of these ends, s after the deaths", "%.2f" % ((held_until - died) / 1e6))
    row("the last of these has begun again, s after the deaths", "%.2f" % ((last - died) / 1e6))
    row("jobs that ran twice; results that were refused",
        "%d; %d" % (len(twice), sum(j.lost for j in jobs)))
    print_lateness(meanwhile, "others, due in the next second: lateness p50 / p99 / greatest, ms")
    begun = [j.starts[0] for j in meanwhile]
    row("the last of those has begun, s after the deaths",
        "%.2f" % ((max(begun, default=died) - died) / 1e6))
    check(held, "the dead nodes held jobs")
    check(set(twice) <= set(held), "only jobs of dead nodes run twice")
    check(all(len(j.starts) <= 2 for j in jobs), "no job runs three times")
    check(sim.are_all_done(jobs), "each job is done")
    check(last <= held_until + 1_000_000, "jobs of dead nodes run a second after their leases")


def run_burst(sim, a_shard):
    """Many jobs are due at one instant in each shard."""
    phase = Phase(sim)
    due = sim.now + 5_000_000
    for s in range(len(sim.shards)):
        for _ in range(a_shard):
            sim.put(s, due, 100_000)
    sim.run(due + 60_000_000)
    jobs = phase.jobs()
    check_jobs(jobs)
    places = sum(n.free for n in sim.nodes if n.alive)
    print("burst: %d jobs in each shard due at once, 0.1 s each, %d places" % (a_shard, places))
    row("the last one has begun, s after they were due",
        "%.2f" % ((max(j.starts[0] for j in jobs) - due) / 1e6))
    row("at best, s", "%.2f" % (0.1 * ((len(jobs) - 1) // places) + 0.003))
    row("claims that found nothing, for each job", "%.2f" % (phase.empty / len(jobs)))
    check(all(len(j.starts) == 1 and j.ends for j in jobs), "each job of a burst runs once")


def run_leader(server, nodes, seed, folder):
    """A shard has been idle. A job is put that is due in 0.1 s, and the leader dies before that."""
    sim = Simulation(server, 1, nodes, seed=seed, folder=folder)
    boot(sim, 1)
    sim.put(0, 3_600_000_000, 1000)
    late = []
    for _ in range(20):
        sim.run(sim.now + 60_000_000 + sim.random.randrange(30_000_000))
        sim.put(0, sim.now + 100_000, 1000)
        sim.run(sim.now + 50_000)
        number = int.from_bytes(server.call("HGET", "{s0}:lead", "q")[:6], "big")
        sim.kill(sim.nodes[number - 1])
        sim.boot(sim.add_node(sim.nodes[0].shards))
        sim.run(sim.now + 60_000_000)
        late.append(sim.jobs[-1].starts[0] - sim.jobs[-1].due)
    print("%d nodes on an idle shard, the leader dies before the job is due" % nodes)
    row("lateness p50 / greatest, s", "%.2f / %.2f" % (quantile(late, 0.5) / 1e6, max(late) / 1e6))
    check(max(late) <= 300_000, "the deputy is at most 0.3 s late")


class Meter:
    """The processor time of a server, in microseconds."""

    def __init__(self, server):
        self.server, self.before = server, 0

    def spent(self):
        return sum(1e6 * self.server.info("cpu", "used_cpu_%s_main_thread:" % kind)
                   for kind in ("user", "sys"))

    def begin(self):
        self.before = self.spent()

    def for_each(self, n):
        us = (self.spent() - self.before) / n
        self.begin()
        return us


def measure_server(jobs, at_once):
    """Without a simulation: jobs with a payload of 128 bytes are put, claimed and acknowledged, so many
    at once."""
    with scripts.Server() as server:
        shard = scripts.Namespace(server, scripts.load(server), "measured")
        r, meter, now = random.Random(1), Meter(server), START_US + 10**9
        claimed, batches = [], range(0, jobs, at_once)
        memory = [server.info("memory", "used_memory:")]
        traffic = server.info("stats", "total_net_input_bytes:"), \
            server.info("stats", "total_net_output_bytes:")
        meter.begin()
        for first in batches:
            server.pipeline([shard.put(START_US, *(
                (b"%010d%016x" % (i, r.getrandbits(64)), START_US + r.randrange(10**9), b"x" * 128)
                for i in range(first, first + at_once)))])
        put_us = meter.for_each(jobs)
        memory.append(server.info("memory", "used_memory:"))
        for _ in batches:
            answer = server.pipeline([shard.claim(now, 1, at_once, LEASE_US, "")])[0][0]
            check(len(answer) == 5 + 3 * at_once, "%d jobs are claimed at once" % at_once)
            claimed.append((answer[4], answer[5::3]))
        claim_us = meter.for_each(jobs)
        memory.append(server.info("memory", "used_memory:"))
        for fence, names in claimed:
            answer = server.pipeline([shard.command("settle", now, 1, *(
                word for name in names for word in (1, name, fence, 1, 0, "", 0, 0)))])[0][0]
            check(answer[3] == b"0" * at_once, "%d jobs are acknowledged at once" % at_once)
        ack_us = meter.for_each(jobs)
        print("%d jobs of 128 bytes on one server, %d at once" % (jobs, at_once))
        row("bytes of memory for a pending job; for a claimed one",
            "%.0f; %.0f" % tuple((m - memory[0]) / jobs for m in memory[1:]))
        row("microseconds of the server for a job: put, claim, ack; sum",
            "%.1f, %.1f, %.1f; %.1f" % (put_us, claim_us, ack_us, put_us + claim_us + ack_us))
        if at_once > 1:  # the commands that measure count, too
            row("bytes on the network for a job: to the server, from it", "%.0f, %.0f" % (
                (server.info("stats", "total_net_input_bytes:") - traffic[0]) / jobs,
                (server.info("stats", "total_net_output_bytes:") - traffic[1]) / jobs))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--large", action="store_true")
    p.add_argument("--server", action="store_true")
    p.add_argument("--leader", action="store_true")
    p.add_argument("--after-run", action="store_true")
    p.add_argument("--silent", action="store_true")
    for name in "shards nodes each rate seconds burst seed".split():
        p.add_argument("--" + name, type=int)
    p.add_argument("--places", type=int, default=16)
    p.add_argument("--scripts", default=scripts.SOURCES)
    a = p.parse_args()
    if shutil.which("redis-server") is None:
        print("skipped: redis-server is not installed")
        sys.exit(77)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the server is stopped, too
    if a.server:
        measure_server(10**4, 1)
        measure_server(10**5, 500)
        measure_server(10**6, 500)
        return
    shards = a.shards or (64 if a.large else 8)
    nodes = a.nodes or (1000 if a.large else 50)
    rate = a.rate or (3200 if a.large else 80)
    seconds = a.seconds or (30 if a.large else 15)
    seed = a.seed if a.seed is not None else int(os.environ.get("SEED") or time.time_ns() % 10**6)
    each = a.each or (8 if a.large else shards)  # docs/scale.md says why
    if a.leader:
        with scripts.Server() as server:
            run_leader(server, nodes, seed, a.scripts)
        return
    print("%d shards, %d nodes with %d places, each claims from %d shards; seed %d" %
          (shards, nodes, a.places, each, seed))
    began = time.monotonic()
    with scripts.Server() as server:
        sim = Simulation(server, shards, nodes, a.places, each, seed, a.after_run, not a.silent,
                         a.scripts)
        boot(sim, 10)
        run_idle(sim)
        run_load(sim, rate, seconds)
        run_deaths(sim, rate, seconds)
        run_burst(sim, a.burst or nodes * a.places * 2 // shards)
        print("%d commands in %.0f s; %.0f microseconds of the server each" % (
            sim.commands, time.monotonic() - began, Meter(server).spent() / sim.commands))


main()
