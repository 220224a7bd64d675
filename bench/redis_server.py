# SPDX-License-Identifier: MIT
"""A Redis server of a benchmark: in a folder of its own, on a unix socket, gone with its `stop`."""
import ctypes
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


class Client:
    """One connection, blocking."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.file = self.socket.makefile("rb")

    def send(self, *words):
        words = [str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))

    def read(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, text = line[:1], line[1:-2].decode()
        if kind == b"-":
            raise RuntimeError(text)
        if kind == b"$":
            return None if text == "-1" else self.file.read(int(text) + 2)[:-2]
        if kind == b"*":
            return [self.read() for _ in range(int(text))]
        return int(text) if kind == b":" else text

    def ask(self, *words):
        self.send(*words)
        return self.read()

    def close(self):
        self.file.close()
        self.socket.close()


class Server:
    def __init__(self, fsync, hz):
        self.folder = tempfile.mkdtemp(prefix="bench-redis-")
        self.path = self.folder + "/s"
        self.store = "redis+unix://" + self.path
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--dir", self.folder, "--save", "", "--hz", str(hz),
             "--appendonly", "yes", "--appendfsync", fsync, "--auto-aof-rewrite-percentage", "0", "--loglevel", "warning"],
            preexec_fn=die_with_parent, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 20
        while True:
            try:
                self.client = Client(self.path)
                if self.client.ask("PING") == "PONG":
                    return
            except (OSError, RuntimeError):
                if time.monotonic() > until or self.process.poll() is not None:
                    self.stop()
                    raise
            time.sleep(0.02)

    def ask(self, *words):
        return self.client.ask(*words)

    def memory(self):
        """Bytes in use, without the buffers of clients and of the log."""
        info = dict(l.split(":", 1) for l in self.ask("INFO", "memory").decode().split("\r\n") if ":" in l)
        return int(info["used_memory"]) - int(info["mem_clients_normal"]) - int(info["mem_aof_buffer"])

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)
