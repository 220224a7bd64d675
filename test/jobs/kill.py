#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill.py NODE [--cycles N] [--seed N] [--log FILE] [--break early|twice|damage]

F1: several processes (kill_node.c) share one SQLite file. Again and again one of them is killed with
SIGKILL, at a random moment or in the middle of an operation on the disk, and started again; or it
is stopped for longer than its lease. At the end one process runs the jobs that are left. What must
hold:

  - Each job whose put was acknowledged has run, or is pending, or its cancel was asked for.
  - No job runs or is pending whose cancel was acknowledged.
  - A job runs a second time only if, after the first run has begun, its process was killed, or some
    process was stopped: a stopped process may hold SQLite's lock, so that others cannot store their
    results before their leases end. A kill explains no more second runs than the process had
    places, a stop no more than all processes had. The machine itself may stop a process, too: then
    the process writes that it was slow.
  - No claim runs twice, and no process runs a job that it is running.
  - SQLite finds no error in the file.

All processes write into one pipe, so the order of the lines is the order of the events. Lines that
were in the pipe before a kill count. --break makes something wrong on purpose; then the exit status
is 0 if exactly that was noticed.
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time

NODES = 3
PLACES = 4  # as in kill_node.c
LEASE = 2.0  # as in kill_node.c; long, so that a slow machine ends no lease


class Log:
    """Reads the pipe, and checks each line against those before it."""

    def __init__(self, keep):
        self.read_end, self.write_end = os.pipe()
        self.keep = keep  # a file for all lines, or None
        self.errors = []
        self.acknowledged, self.cancelled, self.gone, self.left = set(), set(), set(), set()
        self.runs = {}  # id: (process, number of the line) of its last run
        self.count = {}  # id: how many runs
        self.claims = set()  # (id, fence) that ran
        self.running = {}  # process: ids whose handler has not returned
        self.last = {}  # process: the number of its last line
        self.kills = {}  # process: the number of the line
        self.stops = []  # [first line, last line or infinity]
        self.late = {}  # process that was stopped: how many runs may have been claimed before that
        self.unexplained = []  # second runs: (process of the first, its line, line, job)
        self.repeats = {}  # process that was killed, or first line of a stop: second runs after it
        self.slow = 0  # the last line that says so
        self.told = set()  # processes that were stopped, and have said that they were slow
        self.lines = 0
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def say(self, text):
        """A line of kill.py's own."""
        os.write(self.write_end, (text + "\n").encode())

    def read(self):
        with os.fdopen(self.read_end) as lines:
            for line in lines:
                self.lines += 1
                if self.keep:
                    self.keep.write(f"{self.lines} {time.monotonic():.4f} {line}")
                words = line.rstrip("\n").split(" ", 3)
                if words == ["close"]:
                    return
                getattr(self, "on_" + words[1])(words[0], *words[2:])
                if words[1] not in ("killed", "stopped", "continued"):
                    self.last[words[0]] = self.lines

    def error(self, text):
        self.errors.append(text)

    def on_put(self, _, job):
        self.acknowledged.add(job)

    def on_cancel(self, _, job):
        self.cancelled.add(job)

    def on_gone(self, _, job):
        self.gone.add(job)
        if job in self.runs:
            self.error(f"cancelled, but had run: {job}")

    def on_left(self, _, job):
        self.left.add(job)
        if job in self.gone:
            self.error(f"pending, although it was cancelled: {job}")

    def on_error(self, process, *text):
        self.error(f"process {process}: {' '.join(text)}")

    def on_run(self, process, job, fence):
        if job in self.gone:  # It was not due for a long time, either.
            self.error(f"runs, although it was cancelled: {job}")
        if (job, fence) in self.claims:
            self.error(f"a claim runs twice: {job} {fence}")
        self.claims.add((job, fence))
        if job in self.running.setdefault(process, set()):
            self.error(f"runs twice at once in process {process}: {job}")
        if job in self.runs:
            self.explain(*self.runs[job], self.lines, job)
        self.running[process].add(job)
        self.runs[job] = process, self.lines
        if self.late.get(process, 0) > 0:
            self.late[process] -= 1
            self.runs[job] = process, self.stops[-1][0]
        self.count[job] = self.count.get(job, 0) + 1

    def on_end(self, process, job, _):
        self.running[process].discard(job)

    def on_stopped(self, _):
        self.stops.append([self.lines, float("inf")])

    def on_continued(self, process):
        self.stops[-1][1] = self.lines
        self.late[process] = PLACES
        self.told.discard(process)

    def on_slow(self, process):
        """The machine was too slow for the leases; or it is what kill.py has stopped."""
        if process in self.late and process not in self.told:
            self.told.add(process)
            return
        self.slow = self.lines
        self.unexplained = []

    def on_killed(self, process):
        """Others may have run its jobs before kill.py knew that it was killed."""
        self.kills[process] = self.lines
        unexplained, self.unexplained = self.unexplained, []
        for first, line, again, job in unexplained:
            if first == process and self.last[process] < again:
                self.repeat(process, PLACES)
            else:
                self.unexplained.append((first, line, again, job))

    def explain(self, process, line, again, job):
        """Why does this job run again?"""
        if self.kills.get(process, 0) > line and self.repeats.get(process, 0) < PLACES:
            self.repeat(process, PLACES)
            return
        for first, last in self.stops:
            if last > line:
                self.repeat(first, NODES * PLACES)
                return
        if self.slow < line:
            self.unexplained.append((process, line, again, job))

    def repeat(self, why, most):
        self.repeats[why] = self.repeats.get(why, 0) + 1
        if self.repeats[why] == most + 1:
            self.error(f"more than {most} jobs run again after the stop or kill {why}")

    def close(self):
        self.say("close")
        self.reader.join()
        os.close(self.write_end)
        for process, _, _, job in self.unexplained:
            self.error(f"runs again without a reason: {job}, first in process {process}")
        for job in self.acknowledged - self.runs.keys() - self.cancelled - self.left:
            self.error(f"lost: {job}")


class Nodes:
    def __init__(self, log, node, file, broken, choose):
        self.log, self.node, self.file, self.choose = log, node, file, choose
        self.env = dict(os.environ)
        self.env.pop("KILL_AT", None)
        if broken:
            self.env["BREAK"] = broken
        self.processes = []
        self.stopped = None

    def start(self, *more):
        env = dict(self.env)
        if not more and self.choose.random() < 0.5:
            env["KILL_AT"] = str(int(10 ** self.choose.uniform(0, 3.3)))
        seed = str(self.choose.getrandbits(60))
        process = subprocess.Popen([self.node, self.file, seed, *more], stdout=self.log.write_end,
                                   env=env)
        self.processes.append(process)
        return process

    def reap(self, process):
        """It ends now, by a signal."""
        if process.wait() != -signal.SIGKILL:
            self.log.error(f"process {process.pid} exits with {process.returncode}")
        self.processes.remove(process)
        self.log.say(f"{process.pid} killed")

    def cycle(self):
        """Until the next kill or stop."""
        while len(self.processes) < NODES:
            self.start()
        time.sleep(self.choose.uniform(0.01, 0.12))
        for process in self.processes[:]:
            if process.poll() is not None:  # it has killed itself
                self.reap(process)
        if self.stopped and time.monotonic() > self.until:
            self.go_on()
        running = [process for process in self.processes if process != self.stopped]
        if not running:
            return
        victim = self.choose.choice(running)
        if not self.stopped and self.choose.random() < 0.1:
            self.stop(victim)
        else:
            victim.kill()
            self.reap(victim)

    def stop(self, process):
        """The others go on, and may run its jobs when their leases have ended."""
        self.log.say(f"{process.pid} stopped")
        process.send_signal(signal.SIGSTOP)
        self.stopped, self.until = process, time.monotonic() + self.choose.uniform(1, 1.5) * LEASE

    def go_on(self):
        self.log.say(f"{self.stopped.pid} continued")
        self.stopped.send_signal(signal.SIGCONT)
        self.stopped = None

    def finish(self):
        if self.stopped:
            time.sleep(max(0, self.until - time.monotonic()))
            self.go_on()
            time.sleep(0.1)  # It tells its late results.
        for process in self.processes[:]:
            process.kill()
            self.reap(process)
        drain = self.start("drain")
        try:
            if drain.wait(timeout=120) != 0:
                self.log.error(f"the last process exits with {drain.returncode}")
        except subprocess.TimeoutExpired:
            self.log.error("the last process does not finish")
            drain.kill()
            drain.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 0)))
    parser.add_argument("--log", help="keep all lines in this file")
    parser.add_argument("--break", dest="broken", choices=["early", "twice", "damage"])
    options = parser.parse_args()
    seed = options.seed or random.getrandbits(32)
    print(f"SEED={seed}", flush=True)

    log = Log(options.log and open(options.log, "w"))
    with tempfile.TemporaryDirectory(prefix="uvsched-kill-") as folder:
        file = os.path.join(folder, "jobs.db")
        nodes = Nodes(log, options.node, file, options.broken, random.Random(seed))
        for _ in range(options.cycles):
            nodes.cycle()
        nodes.finish()
        log.close()
        if options.broken == "damage":
            with open(file, "r+b") as damaged:
                damaged.seek(4096)
                damaged.write(b"x" * 4096)
        check = subprocess.run([options.node, file, "0", "check"], capture_output=True, text=True)
    repeated = sum(n - 1 for n in log.count.values())
    print(f"{options.cycles} cycles: {len(log.acknowledged)} jobs acknowledged, {len(log.runs)} ran,"
          f" {repeated} second runs, {len(log.gone)} cancelled, {len(log.stops)} stops")
    if check.stdout != "ok\n":
        log.error(f"integrity_check: {check.stdout}{check.stderr}")
    if len(log.runs) < options.cycles * 2:
        log.error("hardly anything ran")
    for text in log.errors[:20]:
        print(text)
    wanted = {"early": "lost", "twice": "a claim runs twice", "damage": "integrity_check"}
    if options.broken:
        found = any(text.startswith(wanted[options.broken]) for text in log.errors)
        print("noticed" if found else "NOT NOTICED")
        return 0 if found else 1
    return 1 if log.errors else 0


if __name__ == "__main__":
    sys.exit(main())
