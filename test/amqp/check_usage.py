#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_usage.py UVSCHED PAGE: the command line of `uvsched amqp`, without a broker."""
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli"))
import program  # noqa: E402
from program import ENV, UVSCHED, check, refuses, run  # noqa: E402

TRY = "Try: uvsched amqp --help\n"
GOOD = ["amqp", "--store", "sqlite:a.db", "--broker", "amqp://127.0.0.1:1", "--map", "a=b"]


def without(option):
    at = GOOD.index(option)
    return GOOD[:at] + GOOD[at + 2:]


def usage():
    refuses("no store", 2, without("--store"), f"uvsched: the store is missing: write --store sqlite:FILE, or --store "
            f"redis://HOST\n{TRY}")
    refuses("no broker", 2, without("--broker"),
            f"uvsched: the broker is missing: write --broker amqp://HOST, or set UVSCHED_BROKER\n{TRY}",
            env={"UVSCHED_BROKER": ""})
    refuses("no map", 2, without("--map"), f"uvsched: no map is given: write --map INTAKE=TARGET\n{TRY}")
    for wrong in ("a", "=b", ""):
        refuses(f"--map '{wrong}'", 2, [*GOOD, "--map", wrong],
                f"uvsched: --map is '{wrong}': write INTAKE=TARGET, two names of exchanges\n{TRY}")
    refuses("--map without a value", 2, [*GOOD, "--map"],
            f"uvsched: --map is '': write INTAKE=TARGET, two names of exchanges\n{TRY}")
    refuses("a name that is none", 2, [*GOOD, "--name", "no name"],
            f"uvsched: --name has a character that is not one of A-Z a-z 0-9 _ . : -\n{TRY}")
    refuses("an unknown option", 2, [*GOOD, "--prefetch", "5"],
            f"uvsched: there is no option '--prefetch'; if it is not an option, write -- before it\n{TRY}")
    refuses("a word", 2, [*GOOD, "word"],
            f"uvsched: 'word' is not an option: this command takes only options\n{TRY}")
    with tempfile.TemporaryDirectory() as folder:
        for claim, args, text in (
                ("another protocol", ["--broker", "http://localhost"],
                 "the broker's URL does not begin with amqp:// or amqps://"),
                ("no URL", ["--broker", "amqp://a:b:c"],
                 "the broker's URL cannot be read: write amqp://USER:PASSWORD@HOST:PORT/VHOST"),
                ("TLS without certificates", ["--broker", "amqps://localhost"],
                 "amqps:// needs a file with the certificates to trust"),
                ("certificates without TLS", ["--ca", "ca.pem"],
                 "a file with certificates is given, but the URL is not amqps://"),
                ("an intake that is its own target", ["--map", "round=round"],
                 "an intake is its own target: messages would go round for ever"),
                ("an intake with two targets", ["--map", "a=c"], "an intake has two targets"),
                ("a name that is too long", ["--map", "x" * 201 + "=c"], "a name is longer than 200 bytes"),
                ("no name of the parking queue", ["--parking="], "the parking queue needs a name of 1 to 200 bytes")):
            refuses(claim, 2, [*GOOD, *args], f"uvsched: {text}\n{TRY}", cwd=folder)
        refuses("a store that is none", 1, [*GOOD[:2], "sqlite:/nowhere/a.db", *GOOD[3:]],
                "uvsched: the store cannot be opened: /nowhere: the folder cannot be used: no such file or directory\n", cwd=folder)


def help_and_page():
    status, out, err = run("amqp", "--help")
    check("--help", (status, err), (0, b""))
    options = set(re.findall(r"^  (--[a-z-]+)", out.decode(), re.M)) - {"--help"}
    with open(sys.argv[2], encoding="utf-8") as f:
        section = f.read().split("\n## uvsched amqp\n")[1].split("\n## ")[0]
    check("the page has the options that --help has", set(re.findall(r"^\| `(--[a-z-]+)", section, re.M)), options)


def without_broker():
    """It waits for the broker, keeps the password to itself, and stops."""
    with tempfile.TemporaryDirectory() as folder:
        p = subprocess.Popen([UVSCHED, *GOOD[:4], "amqp://user:secret@127.0.0.1:1", *GOOD[5:]], cwd=folder, env=ENV,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        lines = sorted(p.stderr.readline().decode() for _ in range(2))
        check("it says what is wrong, once for each connection", lines, [
            "uvsched: intake: not taking messages: cannot connect: a socket error occurred\n",
            "uvsched: publishing: not connected: cannot connect: a socket error occurred\n"])
        time.sleep(0.5)
        p.send_signal(signal.SIGTERM)
        out, err = p.communicate(timeout=60)
        check("it stops with 0", (p.returncode, out), (0, b""))
        check("and says no more than that", err.decode().splitlines(), [
            "uvsched: stopping: waiting for the store and the broker",
            "uvsched: stopped: 0 messages taken, 0 delivered, 0 parked"])
        check("the password is not printed", b"secret" in err, False)


usage()
help_and_page()
without_broker()
program.finish()
