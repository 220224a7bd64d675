#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""bridges.py NODE UVSCHED PEERS [--seconds S] [--seed N] [--long] [--log FILE] [--break lose]
bridges.py --check FILE

Several bridges (`uvsched amqp`) share one store in Redis. Messages go through them, while bridges,
the broker, the redis-server and other nodes of the same server are killed and stopped at random, all
at once. NODE is ../jobs/kill_node, PEERS a folder with amqplib. ../jobs/history.py says what must
hold. With --break lose the server keeps nothing when it is killed, which must be noticed.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, f"{HERE}/../redis")
from broker import Broker, why_not  # noqa: E402
from cluster import PATIENCE, Cluster  # noqa: E402
from faults import report  # noqa: E402
from history import read_file  # noqa: E402

SKIPPED = 77  # meson's
BRIDGES, MESSAGES_PER_S, MAX_DELAY_MS = 3, 100, 3000
IN_FLIGHT = 1000  # messages of a bridge


class Bridges:
    """The broker, the bridges, and the program that publishes and consumes."""

    def __init__(self, cluster, options):
        self.c, self.options = cluster, options
        self.broker = Broker(f"{cluster.folder.name}/broker")
        self.log_file = open(f"{cluster.folder.name}/bridges.log", "ab")
        self.running, self.stopped, self.broker_down = [], {}, None
        self.log_size = {}  # of the log when the bridge was started

    def __enter__(self):
        self.broker.start()
        for _ in range(BRIDGES):
            self.start()
        self.declare()
        self.traffic = subprocess.Popen(
            ["node", f"{HERE}/traffic.mjs", self.options.peers, self.broker.url(), "delay.orders", "q",
             "m-", str(MESSAGES_PER_S), str(MAX_DELAY_MS)], stdout=self.c.log.write_end)
        return self

    def __exit__(self, *_):
        for process in [*self.running, self.traffic]:
            process.kill()
            process.wait()
        self.broker.stop()
        self.log_file.close()

    def declare(self):
        """The target, and its queue. The bridges declare the intake."""
        script = ("const a = require(process.argv[1] + '/node_modules/amqplib');"
                  "(async () => { const c = await a.connect(process.argv[2]); const h = await c.createChannel();"
                  "await h.assertExchange('orders', 'topic'); await h.assertQueue('q');"
                  "await h.bindQueue('q', 'orders', '#');"
                  "await h.assertExchange('delay.orders', 'topic'); await c.close(); })()")
        subprocess.run(["node", "-e", script, self.options.peers, self.broker.url()], check=True, timeout=60)
        queues = ""
        end = time.monotonic() + PATIENCE
        while "uvsched.delay.orders\n" not in queues and time.monotonic() < end:
            queues = self.broker.ctl("list_queues", "--no-table-headers", "name")

    def start(self):
        bridge = subprocess.Popen(
            [self.options.uvsched, "amqp", "--store", f"redis://127.0.0.1:{self.c.server.port}?ns=bridges",
             "--broker", self.broker.url(), "--map", "delay.orders=orders"],
            stdin=subprocess.DEVNULL, stdout=self.log_file, stderr=self.log_file)
        self.running.append(bridge)
        self.log_size[bridge] = os.path.getsize(self.log_file.name)

    def start_again(self):
        """A bridge that is started while the server is down exits with 1. systemd starts it again."""
        for bridge in self.running[:]:
            if bridge.poll() is not None:
                with open(self.log_file.name, errors="replace") as f:
                    f.seek(self.log_size[bridge])
                    if bridge.returncode != 1 or "the store cannot be opened" not in f.read():
                        self.c.error(f"a bridge exits with {bridge.returncode}")
                self.running.remove(bridge)
                self.start()

    # ------------------------------------------------------------------ faults

    def kill(self):
        bridge = self.c.choose.choice(self.running)
        if bridge in self.stopped or bridge.poll() is not None:
            return
        fault = self.c.log.begin("bridge", bridge.pid, IN_FLIGHT)
        bridge.kill()
        bridge.wait()
        self.c.log.over(fault)
        self.running.remove(bridge)
        self.start()

    def stop(self, seconds):
        bridge = self.c.choose.choice(self.running)
        if bridge not in self.stopped and bridge.poll() is None:
            fault = self.c.log.begin("stopped-bridge", bridge.pid, IN_FLIGHT)
            bridge.send_signal(signal.SIGSTOP)
            self.stopped[bridge] = time.monotonic() + seconds, fault

    def kill_broker(self, seconds):
        if self.broker_down is None:
            self.broker_down = time.monotonic() + seconds, self.c.log.begin("broker", "broker", "*")
            self.broker.kill()

    def heal(self, now):
        for bridge, (end, fault) in list(self.stopped.items()):
            if now > end:
                bridge.send_signal(signal.SIGCONT)
                self.c.log.over(fault)
                del self.stopped[bridge]
        if self.broker_down and now > self.broker_down[0]:
            self.broker.start()
            self.c.log.over(self.broker_down[1])
            self.broker_down = None

    # --------------------------------------------------------------------- end

    def finish(self):
        """All that was confirmed comes, and then all end in an orderly way."""
        self.start_again()
        pid = str(self.traffic.pid)
        self.traffic.send_signal(signal.SIGTERM)
        self.c.log.wait(lambda h: pid in h.drained, PATIENCE, "confirm of all messages")
        if not self.options.broken:  # Jobs of a bridge that was killed wait for the end of their lease.
            self.c.log.wait(lambda h: h.confirmed <= h.came.keys(), 2 * PATIENCE, "delivery of all messages")
        else:
            time.sleep(5)
        self.start_again()
        for bridge in self.running:
            bridge.terminate()
        for bridge in self.running:
            if bridge.wait(PATIENCE) != 0:
                self.c.error(f"a bridge exits with {bridge.returncode} after SIGTERM")
        self.traffic.send_signal(signal.SIGINT)
        self.traffic.wait(PATIENCE)


def everything(options):
    seconds = options.seconds or (600 if options.long else 20)
    server = {"appendonly": "no"} if options.broken else {}
    counts, paused = {}, None
    with Cluster(options, rate=50, server=server) as c, Bridges(c, options) as b:
        nodes = [c.start() for _ in range(2)]
        c.log.wait(lambda h: len(h.came) > 0, PATIENCE, "first message")
        until = time.monotonic() + seconds
        actions = ["bridge", "bridge", "stop", "node", "server", "pause", "broker"]
        first = c.choose.sample(["bridge", "server", "broker"], 3)  # in a short run, too
        while time.monotonic() < until:
            time.sleep(c.choose.uniform(0.2, 1))
            now = time.monotonic()
            b.heal(now)
            b.start_again()
            if paused and now > paused[0]:
                c.server.resume()
                c.log.over(paused[1])
                paused = None
            what = first.pop() if first else c.choose.choice(actions)
            if what == "bridge":
                b.kill()
            elif what == "stop":
                b.stop(c.choose.uniform(0.2, 5))
            elif what == "broker" and c.choose.random() < (1 if seconds < 60 else 0.3):
                b.kill_broker(c.choose.uniform(0, 2))
            elif what == "node":
                node = nodes.pop(0)
                c.kill(node)
                nodes.append(c.start(wait=False))
            elif what == "server" and not paused:
                c.crash_server(c.choose.choice((0, 0.3, 3)))
            elif what == "pause" and not paused:
                paused = now + c.choose.uniform(0.1, 4), c.log.begin("pause", "*", c.quota())
                c.server.pause()
            else:
                continue
            counts[what] = counts.get(what, 0) + 1
        if paused:
            c.server.resume()
            c.log.over(paused[1])
        b.heal(float("inf"))
        b.finish()
        c.finish()
    c.report.append(f"{seconds} s: {counts}")
    return c


def tell(history, lines=()):
    came = sum(len(times) for times in history.came.values())
    print(f"  {len(history.confirmed)} messages confirmed, {came} deliveries,"
          f" {came - len(history.came)} copies {history.copies}")
    return report(history, lines)


def main():
    parser = argparse.ArgumentParser()
    for name in ("node", "uvsched", "peers"):
        parser.add_argument(name, nargs="?", type=os.path.abspath)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", 0)))
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--log", help="keep all lines in this file")
    parser.add_argument("--break", dest="broken", choices=["lose"])
    parser.add_argument("--check", metavar="FILE", help="check the lines of an earlier run")
    options = parser.parse_args()
    if options.check:
        return tell(read_file(options.check))
    if not options.peers:
        parser.error("NODE, UVSCHED and PEERS are missing")
    why = why_not() or next((f"{p} is not installed" for p in ("redis-server", "node") if not shutil.which(p)), None)
    if not why and not os.path.isdir(f"{options.peers}/node_modules/amqplib"):
        why = "amqplib is not installed: .ci/servers installs it"
    if why:
        print(f"skipped: {why}")
        return SKIPPED
    cluster = everything(options)
    failed = tell(cluster.log.history, cluster.report)
    if not options.broken:
        return failed
    noticed = any(text.startswith("message is lost") for text in cluster.log.history.errors)
    print("noticed" if noticed else "NOT NOTICED")
    return 0 if noticed else 1


if __name__ == "__main__":
    sys.exit(main())
