# SPDX-License-Identifier: MIT
"""cluster: a redis-server, processes that put and run jobs on it (../jobs/kill_node.c), and their
history (../jobs/history.py)."""
import json
import os
import random
import signal
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "jobs"))
from history import Log  # noqa: E402
from proxy import Proxy  # noqa: E402
from server import Server  # noqa: E402

PATIENCE = 60  # s; only a bound for tests that hang
REQUEST = 0.5  # s; the time-out of each request, in the store's name


class Clock:
    """A clock of its own for programs (clock_shim.c)."""

    def __init__(self, shim, ahead_s=0):
        self.file = tempfile.NamedTemporaryFile(prefix="uvsched-clock-", buffering=0)
        self.env = {"LD_PRELOAD": shim, "CLOCK_SHIM": self.file.name}
        self.set(ahead_s)

    def set(self, ahead_s):
        self.file.seek(0)
        self.file.write(struct.pack("q", ahead_s * 1000000))


class Cluster:
    """The settings are those of kill_node.c; others: `window`, s of puts that the server may lose."""

    def __init__(self, options, server_env=None, server=None, window=0, **settings):
        self.options = options
        self.seed = options.seed or random.getrandbits(32)
        print(f"SEED={self.seed}", flush=True)
        self.choose = random.Random(self.seed)
        self.settings = {"lease": 3000, "places": 4, "puts": 0, "waiting": 50, "delay": 60,
                         "rate": 300, "keep": 1, "repeat": 15, "timeout": 2000, "crashes": 0}
        self.settings.update(settings)
        self.lease = self.settings["lease"] / 1000
        self.log = Log(options.log and open(options.log, "w"))
        self.log.say("settings " + json.dumps({
            "places": self.settings["places"], "lease": self.lease, "timeout": REQUEST,
            "window": window}))
        self.folder = tempfile.TemporaryDirectory(prefix="uvsched-faults-")
        os.mkdir(self.folder.name + "/redis")
        self.server = Server(self.folder.name + "/redis", server_env, **(server or {}))
        self.nodes, self.stopped, self.proxies = [], {}, []
        self.report = []

    def __enter__(self):
        self.server.start()
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
            node.wait()
        for proxy in self.proxies:
            proxy.close()
        self.server.stop()
        if self.log.reader.is_alive():
            self.log.close()
        self.folder.cleanup()

    def error(self, text):
        self.log.history.error(text)

    # ------------------------------------------------------------------- nodes

    def store(self, port):
        return f"redis://127.0.0.1:{port}?ns=faults&timeout={int(REQUEST * 1000)}ms"

    def start(self, mode=None, port=None, env=None, wait=True, **more):
        settings = dict(self.settings, **more)
        environment = dict(os.environ, **(env or {}))
        if self.options.broken:
            environment["BREAK"] = self.options.broken
        command = [self.options.node, self.store(port or self.server.port),
                   str(self.choose.getrandbits(60)), *([mode] if mode else []),
                   *(f"{name}={value}" for name, value in settings.items())]
        node = subprocess.Popen(command, stdout=self.log.write_end, env=environment)
        self.nodes.append(node)
        if wait and not mode:
            self.log.wait(lambda h: str(node.pid) in h.ready, PATIENCE, f"'ready' of {node.pid}")
        return node

    def proxy(self):
        proxy = Proxy(self.server.port, self.choose.getrandbits(32))
        self.proxies.append(proxy)
        return proxy

    def kill(self, node):
        self.go_on(node)
        node.kill()
        if node.wait() != -signal.SIGKILL:
            self.error(f"process {node.pid} exits with {node.returncode}")
        self.nodes.remove(node)
        self.log.say(f"killed {node.pid} {self.settings['places']}")

    def stop(self, node):
        self.stopped[node] = self.log.begin("stop", node.pid, self.settings["places"])
        node.send_signal(signal.SIGSTOP)

    def go_on(self, node):
        if node in self.stopped:
            node.send_signal(signal.SIGCONT)
            self.log.over(self.stopped.pop(node))

    def quota(self, nodes=None):
        return len(nodes or self.nodes) * self.settings["places"]

    # ------------------------------------------------------------------ server

    def crash_server(self, down, window=False):
        """Kills the server with SIGKILL, and starts it again."""
        fault = self.log.begin("server", "*", "*" if window else self.quota())
        self.server.kill()
        time.sleep(down)
        self.server.start()
        self.log.over(fault)

    # ----------------------------------------------------------------- waiting

    def resumed(self, what, nodes=None, runs=True):
        """All these nodes put and run jobs again. Returns after how many s the last one does."""
        nodes = [str(node.pid) for node in nodes or self.nodes]
        began = time.monotonic()
        with self.log.changed:
            h = self.log.history
            puts = {node: h.puts.get(node, 0) for node in nodes}
            ends = {node: h.ends_of.get(node, 0) for node in nodes}
        for node in nodes:
            # The second put was certainly asked for after this call began, if not the first.
            self.log.wait(lambda h: h.puts.get(node, 0) > puts[node] + 1 and
                          (not runs or h.ends_of.get(node, 0) > ends[node] + 1), PATIENCE,
                          f"put and run of process {node} after {what}")
        return time.monotonic() - began

    # --------------------------------------------------------------------- end

    def finish(self, **more):
        """All nodes end in an orderly way, one process runs what is left."""
        for node in list(self.stopped):
            self.go_on(node)
        for node in self.nodes:
            node.terminate()
        for node in self.nodes:
            try:
                if node.wait(PATIENCE) != 0:
                    self.error(f"process {node.pid} exits with {node.returncode} after SIGTERM")
            except subprocess.TimeoutExpired:
                self.error(f"process {node.pid} does not end after SIGTERM")
                node.kill()
                node.wait()
        self.nodes = []
        drain = self.start("drain", **more)
        try:
            if drain.wait(3 * PATIENCE) != 0:
                self.error(f"the last process exits with {drain.returncode}")
        except subprocess.TimeoutExpired:
            self.error("the last process does not finish")
            drain.kill()
            drain.wait()
        self.nodes.remove(drain)
        self.log.close()
