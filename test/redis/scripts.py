# SPDX-License-Identifier: MIT
"""scripts: the scripts of the store in Redis, on a redis-server of their own, for tests that call
them without the library.

The server listens on a unix socket in a temporary folder and writes nothing to the disk. Commands
and messages share one connection (RESP3). A PING follows each command: the messages that come before
its answer were published by that command.
"""
import re
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "src" / "jobs" / "redis"
EPOCH = b"simulated"
GLOBAL_KEYS = ("meta queues events crons dead dead_no dead_at dead_n end until kept kept_at "
               "lead").split()
QUEUE_KEYS = "due:%s:0 due:%s:1 due:%s:2 lease:%s again:%s job:%s run:%s key:%s set:%s idle:%s"
PING = b"*1\r\n$4\r\nPING\r\n"


def texts(folder=SOURCES):
    """The scripts by name, as meson.build puts them together."""
    lists = re.findall(r"'(\w+)': \['(#!lua[^']*)', ([^\]]*)\]", (SOURCES / "meson.build").read_text())
    return {name: flag + "\n" + "".join((Path(folder) / (part + ".lua")).read_text()
                                        for part in re.findall(r"\w+", parts))
            for name, flag, parts in lists}


def words(*all_of_them):
    """The words of a command, without their number."""
    return b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in
                    (w if isinstance(w, bytes) else str(w).encode() for w in all_of_them))


def command(*all_of_them):
    return b"*%d\r\n" % len(all_of_them) + words(*all_of_them)


class Server:
    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="uvs-redis-")
        path = self.folder + "/socket"
        self.process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--appendonly", "no",
             "--dir", self.folder, "--client-output-buffer-limit", "pubsub 0 0 0"],
            stdout=subprocess.DEVNULL)
        try:
            self.connect(path)
        except BaseException:
            self.stop()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.folder)

    def connect(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        for _ in range(1000):
            try:
                self.socket.connect(path)
                break
            except OSError:
                if self.process.poll() is not None:
                    raise RuntimeError("redis-server has ended") from None
                time.sleep(0.01)
        self.file = self.socket.makefile("rb", 1 << 20)
        self.call("HELLO", 3)

    def read(self):
        """The next answer, or (message,). Errors are raised."""
        line = self.file.readline()
        kind = line[0]
        if kind == 58:  # :
            return int(line[1:])
        if kind == 36:  # $
            size = int(line[1:])
            return self.file.read(size + 2)[:-2] if size >= 0 else None
        if kind == 42:  # *
            return [self.read() for _ in range(int(line[1:]))]
        if kind == 62:  # >
            return ([self.read() for _ in range(int(line[1:]))],)
        if kind == 43:  # +
            return line[1:-2]
        if kind == 61:  # =, with three letters and a colon before the text
            return self.file.read(int(line[1:]) + 2)[4:-2]
        if kind == 95:  # _
            return None
        if kind == 37:  # %
            return {self.read(): self.read() for _ in range(int(line[1:]))}
        raise RuntimeError(line.decode())

    def pipeline(self, commands):
        """Of each command: its answer, and the channels and texts of the messages that it has
        published to this connection."""
        self.socket.sendall(b"".join(c + PING for c in commands))
        answers = []
        for _ in commands:
            answer, messages = None, []
            while True:
                got = self.read()
                if got == b"PONG":
                    break
                if not isinstance(got, tuple):
                    answer = got
                elif got[0][0] == b"message":
                    messages.append(got[0][1:])
            answers.append((answer, messages))
        return answers

    def call(self, *all_of_them):
        return self.pipeline([command(*all_of_them)])[0][0]

    def info(self, section, field):
        """The number that follows these characters."""
        text = self.call("INFO", section).decode()
        return int(re.search(r"^%s(\d+)" % field, text, re.M)[1])


class Namespace:
    """A shard: a namespace with one queue. Its methods make commands; they send nothing."""

    def __init__(self, server, loaded, name, queue="q"):
        self.name, self.queue, self.prefixes = name, queue, {}
        keys = ["{%s}:%s" % (name, k) for k in GLOBAL_KEYS]
        keys += ["{%s}:%s" % (name, k % queue) for k in QUEUE_KEYS.split()]
        for script, sha in loaded.items():
            self.prefixes[script] = words("EVALSHA", sha, len(keys), *keys, EPOCH)
        self.n_prefix = 4 + len(keys)
        server.call("EVALSHA", loaded["init"], 2, keys[0], "{%s}:put:1" % name, "1", EPOCH,
                    "a server", "")

    def command(self, script, now_us, node, *arguments):
        all_of_them = (now_us, now_us, node, 20, 1, self.queue) + arguments
        return b"*%d\r\n" % (self.n_prefix + len(all_of_them)) + self.prefixes[script] + \
            words(*all_of_them)

    def put(self, now_us, *jobs):
        """jobs: (id, due_us, payload)"""
        return self.command("put", now_us, 0, *(
            word for job, due_us, payload in jobs
            for word in (1, job, "", "", 0, 1, due_us, 0, "", payload)))

    def claim(self, now_us, node, most, lease_us, *leadership):
        return self.command("claim", now_us, node, most, 1, 0, lease_us, *leadership)

    def ack(self, now_us, node, job, fence):
        return self.command("settle", now_us, node, 1, job, fence, 1, 0, "", 0, 0)

    def channel(self, node):
        return "{%s}:wake:%d" % (self.name, node)


def load(server, folder=SOURCES):
    return {name: server.call("SCRIPT", "LOAD", text).decode()
            for name, text in texts(folder).items()}
