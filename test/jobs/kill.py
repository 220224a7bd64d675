#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""kill.py NODE [--cycles N] [--seed N] [--log FILE] [--break early|twice|damage|soon|stale]

F1: several processes (kill_node.c) share one SQLite file. Again and again one of them is killed with
SIGKILL, at a random moment or in the middle of an operation on the disk, and started again; or it
is stopped for longer than its lease. At the end one process runs the jobs that are left. history.py
says what must hold; besides, SQLite finds no error in the file. A stopped process may hold SQLite's
lock, so that others cannot store their results before their leases end. So a kill explains no more
second runs than the process had places, a stop no more than all processes had.

Lines that were in the pipe before a kill count. --break makes something wrong on purpose; then the
exit status is 0 if exactly that was noticed.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time

import history

NODES = 3
PLACES = 4  # as in kill_node.c
LEASE = 2.0  # as in kill_node.c; long, so that a slow machine ends no lease


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
        process = subprocess.Popen([self.node, "sqlite:" + self.file, seed, *more, "keep=1"],
                                   stdout=self.log.write_end, env=env)
        self.processes.append(process)
        return process

    def reap(self, process):
        """It ends now, by a signal."""
        if process.wait() != -signal.SIGKILL:
            self.log.history.error(f"process {process.pid} exits with {process.returncode}")
        self.processes.remove(process)
        self.log.say(f"killed {process.pid} {PLACES}")

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
        self.fault = self.log.begin("stop", "*", NODES * PLACES)
        process.send_signal(signal.SIGSTOP)
        self.stopped, self.until = process, time.monotonic() + self.choose.uniform(1, 1.5) * LEASE

    def go_on(self):
        self.stopped.send_signal(signal.SIGCONT)
        self.log.over(self.fault)
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
                self.log.history.error(f"the last process exits with {drain.returncode}")
        except subprocess.TimeoutExpired:
            self.log.history.error("the last process does not finish")
            drain.kill()
            drain.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("node")
    parser.add_argument("--cycles", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 0)))
    parser.add_argument("--log", help="keep all lines in this file")
    parser.add_argument("--break", dest="broken", choices=["early", "twice", "damage", "soon", "stale"])
    options = parser.parse_args()
    seed = options.seed or random.getrandbits(32)
    print(f"SEED={seed}", flush=True)

    log = history.Log(options.log and open(options.log, "w"))
    log.say("settings " + json.dumps({"places": PLACES, "lease": LEASE}))
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
    found = log.history
    print(f"{options.cycles} cycles: {len(found.acknowledged)} jobs acknowledged, {len(found.runs)}"
          f" ran, {found.second_runs()} second runs {found.explained}, {len(found.gone)} cancelled,"
          f" {log.faults} stops")
    if check.stdout != "ok\n":
        found.error(f"integrity_check: {check.stdout}{check.stderr}")
    if len(found.runs) < options.cycles * 2:
        found.error("hardly anything ran")
    for text in found.errors[:20]:
        print(text)
    wanted = {"early": "lost", "twice": "a claim runs twice", "damage": "integrity_check",
              "soon": "runs 3", "stale": "stale"}
    if options.broken:
        noticed = any(text.startswith(wanted[options.broken]) for text in found.errors)
        print("noticed" if noticed else "NOT NOTICED")
        return 0 if noticed else 1
    return 1 if found.errors else 0


if __name__ == "__main__":
    sys.exit(main())
