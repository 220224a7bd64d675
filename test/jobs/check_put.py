#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_put.py UVSCHED PAGE: the program in PAGE (docs/jobs-redis.md), which uses no file of ours, puts
jobs into a Redis server, and `uvsched jobs` reads and runs them.
"""
import importlib.util
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

SYSTEM = "/usr/bin/python3"
UVSCHED, PAGE = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])


def skip(why):
    print("SKIP: " + why)
    sys.exit(77)


def python():
    """A Python that has redis-py: this one, or the system's, for which Debian packages it."""
    if importlib.util.find_spec("redis") is not None:
        return sys.executable
    if os.path.exists(SYSTEM) and subprocess.run([SYSTEM, "-c", "import redis"], capture_output=True).returncode == 0:
        return SYSTEM
    return skip("redis-py is not installed")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(folder):
    """A server that ends with this program."""
    while True:
        port = free_port()
        server = subprocess.Popen(
            ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "yes",
             "--appendfsync", "always", "--dir", folder], stdout=subprocess.DEVNULL)
        while server.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return server, port
            except OSError:
                time.sleep(0.01)


def check(claim, actual, expected):
    if actual != expected:
        sys.exit(f"FAIL {claim}\n--- expected\n{expected}\n--- actual\n{actual}")


def main():
    program = re.search(r"```python\n(.*?)```", open(PAGE).read(), re.S).group(1)
    if shutil.which("redis-server") is None:
        skip("redis-server is not installed")
    interpreter = python()
    folder = tempfile.mkdtemp(prefix="uvsched-put-")
    server, port = start(folder)
    url = f"redis://127.0.0.1:{port}"
    store = ["--store", url + "?ns=shop"]

    def jobs(*args):
        p = subprocess.run([UVSCHED, "jobs", args[0], *store, *args[1:]], capture_output=True, text=True, timeout=60)
        return p.returncode, p.stdout, p.stderr

    def put(*args):
        p = subprocess.run([interpreter, "-c", program, url, "shop", *args], capture_output=True, text=True, timeout=60,
                           cwd=folder)
        return p.stdout + p.stderr

    try:
        check("a put into an empty database", put("mail", "1", "0", "x"), "no process has opened this namespace\n")
        check("a command that only looks makes no store", jobs("stats")[0], 1)
        check("still none", put("mail", "1", "0", "x"), "no process has opened this namespace\n")
        check("a runner makes it", jobs("run", "--name", "mail", "--until-empty", "--exec", "cat")[0], 0)
        check("a new job", put("mail", "1", "0", "hello"), "put\n")
        check("the same again", put("mail", "1", "0", "hello"), "exists: 1\n")
        check("a later job", put("mail", "2", "3600", "later"), "put\n")
        large = program.replace('"", payload]', '"", "p" * 1114112]')
        subprocess.run([interpreter, "-c", large, url, "shop", "large", "1", "0", "x"], check=True,
                       capture_output=True, timeout=60, cwd=folder)
        status, out, err = jobs("run", "--name", "large", "--until-empty", "--quiet", "--exec", "wc -c")
        check("the largest payload", (status, out.strip(), err), (0, "1114112", ""))
        for old, new in (('0, "", payload]', '-1, "", payload]'), ('"", "", 0, 1,', '"", "", 0, 3,'),
                         ('f"+{int', 'f"soon{int'), ('"", payload]', '"m" * 4097, payload]'),
                         ('"", payload]', '"", "p" * 1114113]'), ('"", "", 0, 1,', '"a b", "", 0, 1,')):
            wrong = subprocess.run([interpreter, "-c", program.replace(old, new), url, "shop", "mail", "3", "0", "x"],
                                   capture_output=True, text=True, timeout=60, cwd=folder)
            check(f"{new} is refused", (program.count(old), "job 1: " in wrong.stderr), (1, True))
        listed = jobs("ls", "--json")[1]
        check("both are listed", sorted(re.findall(r'"id": ?"([^"]*)"', listed)), ["mail/1", "mail/2"])
        status, out, err = jobs("run", "--name", "mail", "--until-empty", "--quiet", "--exec", "cat")
        check("the run of the due job", (status, out, err), (0, "hello", ""))
        check("it is done", '"done"' in jobs("show", "mail/1", "--json")[1], True)
        check("the other one waits", '"pending"' in jobs("show", "mail/2", "--json")[1], True)
    finally:
        server.kill()
        server.wait()
        shutil.rmtree(folder)
    print("a program of 20 lines puts jobs")


main()
