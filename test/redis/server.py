# SPDX-License-Identifier: MIT
"""server: a redis-server of a test, on a free port of the loopback device and in a folder of its own,
and a client that speaks to it."""
import os
import shutil
import signal
import socket
import subprocess
import time


class Client:
    """One connection. Errors of the server are returned, as Exception objects."""

    def __init__(self, port, timeout=10.0):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def call(self, *words):
        words = [w if isinstance(w, bytes) else str(w).encode() for w in words]
        self.socket.sendall(b"*%d\r\n" % len(words) +
                            b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"-":
            return Exception(rest.decode())
        if kind == b"+":
            return rest.decode()
        if kind == b":":
            return int(rest)
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        return None if rest == b"-1" else [self.reply() for _ in range(int(rest))]

    def close(self):
        self.file.close()
        self.socket.close()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Server:
    """The options are redis-server's, without "--"."""

    def __init__(self, folder, env=None, **options):
        self.folder, self.process = folder, None
        self.env = dict(os.environ, **(env or {}))
        self.options = {"appendonly": "yes", "appendfsync": "always", "save": "",
                        "bind": "127.0.0.1", "dir": folder, "port": free_port(),
                        "logfile": os.path.join(folder, "redis.log")}
        for name, value in options.items():
            self.options[name.replace("_", "-")] = value
        self.port = self.options["port"]

    def start(self, wait=True):
        command = ["redis-server"]
        for name, value in self.options.items():
            command += ["--" + name, str(value)]
        if shutil.which("setpriv"):  # Then the server ends with this process, however that ends.
            command = ["setpriv", "--pdeathsig", "KILL", *command]
        self.process = subprocess.Popen(command, env=self.env, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL)
        if wait:
            self.wait()

    def wait(self, seconds=30):
        """Until it answers, and has loaded its data."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process.poll() is not None:
                raise RuntimeError(f"redis-server exits with {self.process.returncode}")
            try:
                if self.call("PING") == "PONG":
                    return
            except OSError:
                pass
            time.sleep(0.01)
        raise RuntimeError("redis-server does not answer")

    def call(self, *words):
        client = Client(self.port)
        try:
            return client.call(*words)
        finally:
            client.close()

    def info(self, name):
        for line in self.call("INFO", "everything").decode().splitlines():
            if line.startswith(name + ":"):
                return line[len(name) + 1:]
        raise KeyError(name)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def pause(self):
        self.process.send_signal(signal.SIGSTOP)

    def resume(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        if self.process and self.process.poll() is None:
            self.kill()
