# SPDX-License-Identifier: MIT
"""What the checks of the program `uvsched` share: run it, and compare what it prints and returns.

sys.argv[1] is the program.
"""
import os
import pty
import re
import shlex
import subprocess
import sys

UVSCHED = os.path.abspath(sys.argv[1])
ENV = {k: v for k, v in os.environ.items() if k not in ("TZ", "TZDIR", "NO_COLOR", "LC_ALL", "LANG")}
# A sanitizer must not end the program with a status of its commands.
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
    ENV[name] = ":".join(filter(None, [ENV.get(name), "exitcode=99", "halt_on_error=1"]))
failures = []
passed = 0


def run(*args, env=None, **how):
    """(status, stdout, stderr) of the program, the outputs as bytes."""
    if "input" not in how:
        how["stdin"] = subprocess.DEVNULL
    p = subprocess.run([UVSCHED, *args], capture_output=True, timeout=120, env={**ENV, **(env or {})}, **how)
    return p.returncode, p.stdout, p.stderr


def check(claim, actual, expected=True):
    global passed
    if actual == expected:
        passed += 1
    else:
        failures.append(claim)
        print(f"FAIL {claim}\n--- expected\n{expected}\n--- actual\n{actual}", flush=True)


def prints(claim, args, expected, env=None, **how):
    """The program prints exactly this, and exits with 0."""
    status, out, err = run(*args, env=env, **how)
    check(claim, (status, out.decode(), err.decode()), (0, expected.lstrip("\n"), ""))


def refuses(claim, status, args, expected, env=None, **how):
    """The program prints nothing to stdout, this to stderr, and exits with this status."""
    got, out, err = run(*args, env=env, **how)
    check(claim, (got, out.decode(), err.decode()), (status, "", expected.lstrip("\n")))


def on_terminal(claim, args, env, **how):
    """What the program prints if stdout is a terminal."""
    main, side = pty.openpty()
    p = subprocess.Popen([UVSCHED, *args], stdout=side, env={**ENV, **env}, **how)
    os.close(side)
    out = b""
    try:
        while True:
            part = os.read(main, 4096)
            if not part:
                break
            out += part
    except OSError:  # Linux says EIO at the end
        pass
    os.close(main)
    check(f"on a terminal: status of {claim}", p.wait(), 0)
    return out.replace(b"\r\n", b"\n")


def write_errors(*commands, **how):
    """Each command fails if its output cannot be written."""
    env = ENV
    for args in commands:
        if os.path.exists("/dev/full"):
            with open("/dev/full", "wb") as full:
                p = subprocess.run([UVSCHED, *args], stdout=full, stderr=subprocess.PIPE, env=env, **how)
            check(f"{args} to a full disk", (p.returncode, p.stderr),
                  (1, b"uvsched: the output could not be written: no space left on device\n"))
        read, write = os.pipe()
        os.close(read)
        p = subprocess.run([UVSCHED, *args], stdout=write, stderr=subprocess.PIPE, env=env, **how)
        os.close(write)
        check(f"{args} to a closed pipe", (p.returncode, p.stderr), (1, b""))
        p = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", UVSCHED, *args], stderr=subprocess.PIPE, env=env, **how)
        check(f"{args} without stdout", (p.returncode, p.stderr),
              (1, b"uvsched: the output could not be written: bad file descriptor\n"))


def page(path, command, at_least, alike=lambda text: text, **how):
    """The blocks of the page that run this command show what the program prints. `alike` removes what differs."""
    with open(path, encoding="utf-8") as f:
        blocks = re.findall(rf"^```text\n(\$ uvsched {command} .*?)^```$", f.read(), re.M | re.S)
    check(f"the page has blocks of {command}", len(blocks) >= at_least)
    for block in blocks:
        for line, shown in re.findall(r"^\$ uvsched (.*)\n((?:(?!\$ ).*\n)*)", block, re.M):
            p = subprocess.run([UVSCHED, *shlex.split(line)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=ENV, timeout=120, **how)
            check(f"docs: uvsched {line}", alike(p.stdout.decode()), alike(shown))


def finish():
    print(f"{passed} checks passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)
