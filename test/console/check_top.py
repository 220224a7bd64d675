#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_top UVSCHED STAGE PAGE: `uvsched top`, as a user runs it, beside a program with known late tasks."""
import http.server
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import threading
import time

UVSCHED, STAGE, PAGE = sys.argv[1:4]
TOKEN = "correct-horse-battery"
failures = []
passed = 0


def check(claim, actual, expected=True):
    global passed
    if actual == expected:
        passed += 1
    else:
        failures.append(claim)
        print(f"FAIL {claim}\n--- expected\n{expected}\n--- actual\n{actual}", flush=True)


def top(*args, env=None):
    p = subprocess.run([UVSCHED, "top", *args], capture_output=True, text=True, timeout=60,
                       stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    return p.returncode, p.stdout, p.stderr


def names(out):
    lines = out.splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("NAME"))
    return [line[:23].rstrip() for line in lines[head + 1:] if not line.startswith("(")]


def once(url):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        status, out, err = top(url, "--once", "-n", "200")
        rows = {n: line for n, line in zip(names(out), out.splitlines()[7:])}
        if "runners" in rows.get("victim", "") and "loop" in rows.get("tick", ""):
            break
        time.sleep(0.3)
    check("status", (status, err), (0, ""))
    check("the late tasks have their culprits", ("runners" in rows["victim"], "loop" in rows["tick"]), (True, True))
    check("80 columns", max(map(len, out.splitlines())) <= 80)
    check("plain ASCII, without controls", all(32 <= ord(c) < 127 or c == "\n" for c in out))
    check("hostile names are there", '"\';-->????[31m' in names(out))
    check("the scheduler's name", out.startswith("uvsched stage at 127.0.0.1:"))
    by_name = names(top(url, "--sort", "name", "-n", "200")[1])
    check("sorted by name", [n for n in by_name if n.isalpha()], sorted(n for n in by_name if n.isalpha()))
    check("rows", len(names(top(url, "-n", "3")[1])), 3)


def refusals(url):
    check("no URL", top()[0], 2)
    for wrong in ["https://127.0.0.1/", "127.0.0.1:1", "http://", "http://x:y", "http://x:123456", "http://a@b/",
                  "http://127.0.0.1/path", "http://[::1", "http://a b/"]:
        check(wrong, top(wrong, "--once")[0], 2)
    check("wrong key", top(url, "--sort", "x")[0], 2)
    check("wrong rows", top(url, "-n", "0x")[0], 2)
    check("nobody there", top("http://127.0.0.1:1", "--once")[0], 1)
    status, out, _ = top("--help")
    check("help", status, 0)
    options = set(re.findall(r"^  (-[-a-z]+)", out, re.M)) - {"--help"}
    with open(PAGE, encoding="utf-8") as f:
        section = f.read().split("\n## uvsched top\n")[1].split("\n## ")[0]
    check("the page has the options that --help has", set(re.findall(r"^\| `(-[-a-z]+)", section, re.M)), options)


def wants_the_token(url):
    status, out, err = top(url, "--once")
    check("no token", (status, out, "UVSCHED_TOKEN" in err), (1, "", True))
    check("the token", top(url, "--once", env={"UVSCHED_TOKEN": TOKEN})[0], 0)
    check("a token with a line break", top(url, "--once", env={"UVSCHED_TOKEN": "a\r\nX: y"})[0], 2)


# A server that is no console, or a hostile one.
ANSWERS = [b"", b"{", b"[]", b"nul", b"[" * 100000, b'{"counts":"x","culprits":{},"late":3,"name":{}}', b'{"a":"\\',
           b'{"tasks":[1,"x",{"name":"\\u00', b'"' + b"\xff" * 1000, b"-", b"{}x", b'{"x":1e}', b"\x00{}",
           b'{"tasks":[{"name":"' + b"\\u001b[31m" * 1000 + b'"}],"matched":1e300}']


HUGE = (b'{"counts":{' + b",".join(b'"%s":1e308' % k for k in [b"waiting", b"ready", b"running", b"runs", b"failed_runs",
                                                                b"missed", b"runners"])
        + b'},"concurrency":1e999,"oldest_ready_ns":-1e308,"late":{"p50_ns":1e308,"p99_ns":-1e308,"max_ns":1e999},'
        b'"held_up":{"max_ns":1e308},"culprits":[{"name":"loop","sum_ns":1e308}],"matched":1e308,'
        b'"tasks":[{"name":"n","due_in_ns":-1e308,"runs":1e308,"failures":-1e308,"late_ns":1e308,"p99_late_ns":1e308}]}')
# The last of the culprits that are looked at is the worst, and is as large as an answer may be.
MANY = (b'{"tasks":[],"culprits":[' + b'{"sum_ns":1},' * 63 + b'{"p":[' + b"1," * 3000000 + b'1],"name":"last","sum_ns":9e9}'
        + b',{"name":"behind","sum_ns":1e10}' + b',{"sum_ns":1}' * 500000 + b"]}")


def hostile_servers():
    class Handler(http.server.BaseHTTPRequestHandler):
        answer = b""
        drips = False

        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            try:
                while Handler.drips:
                    self.wfile.write(b" ")
                    time.sleep(0.5)
                self.wfile.write(Handler.answer)
            except OSError:
                pass  # the client has gone

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for answer in ANSWERS:
        Handler.answer = answer
        status, out, _ = top(url, "--once")
        check(f"{answer[:30]!r}: it ends in order", status in (0, 1))
        check(f"{answer[:30]!r}: no control reaches the terminal", "\x1b" in out, False)
    Handler.answer = b'{"tasks":[{"name":"\\u000\\\\","state":"behind"}]}'
    check("nothing behind a broken escape is shown", names(top(url, "--once")[1]), ["?\\"])
    Handler.answer = HUGE
    out = top(url, "--once")[1]
    check("huge numbers stay in 80 columns", ("1e+18" in out, max(map(len, out.splitlines())) <= 80), (True, True))
    Handler.answer = MANY
    status, out, _ = top(url, "--once")
    check("many culprits", (status, "late because of: last 9.00s, " in out), (0, True))
    Handler.drips = True
    check("an answer without end is given up", top(url, "--once")[0], 1)
    Handler.drips = False
    server.shutdown()


def in_a_terminal(url):
    main, side = pty.openpty()
    before = termios.tcgetattr(side)
    p = subprocess.Popen([UVSCHED, "top", url], stdin=side, stdout=side, env={**os.environ, "TERM": "xterm"})
    shown = b""

    def until(what, key=b""):
        nonlocal shown
        os.write(main, key)
        shown = b""
        end = time.monotonic() + 30
        while what not in shown and time.monotonic() < end:
            if select.select([main], [], [], 0.2)[0]:
                shown += os.read(main, 65536)
        check(f"key {key!r} leads to {what!r}", what in shown)

    until(b"sort: late")
    for key, sort in [(b"n", b"sort: name"), (b"d", b"sort: due"), (b"r", b"sort: runs"), (b"f", b"sort: failures"),
                      (b"o", b"other way round"), (b"l", b"sort: late ")]:
        until(sort, key)
    until(b"\x1b[?1049l", b"q")
    check("q ends it", p.wait(30), 0)
    check("the terminal is as before", termios.tcgetattr(side)[3], before[3])
    p = subprocess.Popen([UVSCHED, "top", url], stdin=side, stdout=side, env={**os.environ, "TERM": "xterm"})
    until(b"sort: late")
    p.send_signal(signal.SIGINT)
    check("so does Ctrl-C", p.wait(30), 0)
    check("and leaves the terminal as before", termios.tcgetattr(side)[3], before[3])


def with_stage(each, *args):
    p = subprocess.Popen([STAGE, *args], stdout=subprocess.PIPE, text=True)
    try:
        each(p.stdout.readline().strip())
    finally:
        p.send_signal(signal.SIGTERM)
        check("the stage ends", p.wait(60), 0)


def all_with(url):
    once(url)
    refusals(url)
    in_a_terminal(url)


with_stage(all_with)
with_stage(wants_the_token, "quiet=1", "read=1", f"token={TOKEN}")
hostile_servers()
print(f"{passed} checks passed, {len(failures)} failed")
sys.exit(1 if failures else 0)
