#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_jobs.py UVSCHED PAGE: run `uvsched jobs`, and compare what it prints, returns and runs.

PAGE is docs/cli.md: each block of it that begins with "$ uvsched jobs" is run too. Every part has a
folder of its own. Nothing waits for a fixed time: conditions are looked at until they hold, or until
they have not held for a minute.
"""
import base64
import contextlib
import io
import json
import multiprocessing
import os
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback
from datetime import datetime, timedelta, timezone

import program
from program import ENV, UVSCHED, check, on_terminal, prints, refuses, run

PAGE = os.path.abspath(sys.argv[2])
STORE = ["--store", "sqlite:jobs.db"]
COMMANDS = {
    "put": {"--store", "--name", "--in", "--at", "--payload", "--payload-file", "--id", "--key", "--on-clash", "--queue",
            "--priority", "--keep", "--help"},
    "run": {"--store", "--name", "--exec", "--queue", "--concurrency", "--until-empty", "--lease", "--limit",
            "--max-attempts", "--max-crashes", "--grace", "--quiet", "--help"},
    "ls": {"--store", "--queue", "--name", "--state", "--overdue", "--limit", "--all", "--cursor", "--json", "--help"},
    "show": {"--store", "--json", "--help"},
    "cancel": {"--store", "--help"},
    "move": {"--store", "--in", "--at", "--help"},
    "dead": {"--store", "--queue", "--name", "--limit", "--all", "--cursor", "--json", "--help"},
    "redrive": {"--store", "--queue", "--name", "--all", "--help"},
    "purge": {"--store", "--queue", "--name", "--all", "--ended", "--help"},
    "pause": {"--store", "--help"},
    "resume": {"--store", "--help"},
    "queue": {"--store", "--concurrency", "--rate", "--catch-up", "--help"},
    "stats": {"--store", "--json", "--prometheus", "--help"},
    "cron": {"--store", "--json", "--help", "--name", "--queue", "--payload", "--zone", "--revision", "--misfire",
             "--max-missed", "--overlap"},
}


# ---------------------------------------------------------------- helpers ---

def jobs(command, *args, **how):
    """(status, stdout, stderr) of a sub-command on the store of the folder."""
    return run("jobs", command, *args, *STORE, **how)


def must(command, *args, **how):
    """The output of a sub-command that succeeds without a word on stderr."""
    status, out, err = jobs(command, *args, **how)
    check(f"{command} {args}: status and stderr", (status, err), (0, b""))
    return out.decode()


def put(name, *args, **how):
    """Puts a job, and returns its id."""
    out = must("put", "--name", name, *args, **how)
    check(f"put {name} {args}: the id alone on a line", bool(re.fullmatch(rf"[^/\n]+/[!-~]+\n", out)))
    return out.rstrip("\n")


def show(id):
    return json.loads(must("show", id, "--json"))


def rows(command, *args):
    return json.loads(must(command, "--json", *args))


def ids(*args, command="ls"):
    return [row["id"] for row in rows(command, *args)]


def instant(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def until(what, condition, seconds=60):
    """Waits until the condition holds, and returns what it returned."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            check(f"within {seconds} s: {what}", False)
            raise TimeoutError(what)
        time.sleep(0.02)


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return ""


def lines(path):
    return read(path).splitlines()


def is_alive(pid):
    """Does the process run? A zombie does not."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Runner:
    """`uvsched jobs run` in the background. Its outputs are in files, so that nothing blocks."""

    def __init__(self, name, command, *args):
        self.out = tempfile.TemporaryFile()
        self.err = tempfile.TemporaryFile()
        self.p = subprocess.Popen([UVSCHED, "jobs", "run", *STORE, "--name", name, "--exec", command, *args],
                                  stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.err, env=ENV)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.p.poll() is None:
            self.p.kill()
            self.p.wait()

    def text(self):
        self.err.seek(0)
        return self.err.read().decode()

    def guardian(self):
        """The pid of the guardian, the only child with its title."""
        with open(f"/proc/{self.p.pid}/task/{self.p.pid}/children", encoding="ascii") as f:
            for pid in f.read().split():
                with open(f"/proc/{pid}/cmdline", "rb") as line:
                    if line.read().startswith(b"jobs-guardian"):
                        return int(pid)
        return None

    def ends(self, what, status, seconds=60):
        try:
            self.p.wait(seconds)
        except subprocess.TimeoutExpired:
            pass
        check(f"{what}: exit status ({self.text()})", self.p.poll(), status)


def run_all(name, command, *args, status=0):
    """Runs the jobs that are due now. Returns stdout and stderr."""
    got, out, err = jobs("run", "--name", name, "--exec", command, "--until-empty", *args)
    check(f"run {name}: exit status ({err.decode()})", got, status)
    return out.decode(), err.decode()


# ------------------------------------------------------------------- help ---

def help_pages():
    status, text, err = run("jobs", "--help")
    check("jobs --help names every command", (status, set(re.findall(r"^  (\w+)  +\w", text.decode(), re.M)), err),
          (0, set(COMMANDS), b""))
    check("jobs without a command: the help, on stderr", run("jobs"), (2, b"", text))
    check("uvsched --help names jobs", b"\n  jobs " in run("--help")[1])
    for command, options in COMMANDS.items():
        status, text, err = run("jobs", command, "--help")
        text = text.decode()
        check(f"{command} --help names every option",
              (status, set(re.findall(r"^  (--[-\w]+)", text, re.M)), err), (0, options, b""))
        check(f"{command} --help fits a terminal", max(map(len, text.splitlines())) <= 100)
        check(f"{command} --help tells the exit status and the usage",
              "exit status: 0" in text and text.startswith(f"usage: uvsched jobs {command} "))
        check(f"{command} -h", run("jobs", command, "-h"), (0, text.encode(), b""))


def usage():
    def wrong(args, why):
        refuses(f"jobs {args}", 2, ["jobs", *args],
                f"uvsched: {why}\nTry: uvsched jobs {' '.join(args[:2 if args[0] == 'cron' and len(args) > 1 and args[1] in ('ls', 'add', 'rm') else 1])} --help\n")

    duration = "write numbers with units, larger units first, such as 48h, 15d or 1h30m, up to 142 years"
    letters = "A-Z a-z 0-9 _ . : -"
    for args, why in {
            ("put",): "--name is missing",
            ("put", "x"): "'x' is not an option: this command takes only options",
            ("put", "--nmae", "x"): "there is no option '--nmae'; if it is not an option, write -- before it",
            ("put", "--name", "a/b"): f"--name has a character that is not one of {letters}",
            ("put", "--name", "uvs.x"): "--name begins with uvs., which is reserved",
            ("put", "--name", "a" * 65): "--name is longer than 64 bytes",
            ("put", "--name", "a", "--queue", "ä"): f"--queue has a character that is not one of {letters}",
            ("put", "--name", "a", "--id", "a b"): "--id must have 1 to 96 printable ASCII characters without blanks",
            ("put", "--name", "a", "--key", ""): "--key must have 1 to 96 printable ASCII characters without blanks",
            ("put", "--name", "a", "--in", "3x"): f"--in is '3x': {duration}",
            ("put", "--name", "a", "--in", "-3s"): f"--in is '-3s': {duration}",
            ("put", "--name", "a", "--in", "143y"): f"--in is '143y': {duration}",
            ("put", "--name", "a", "--in", "20000w"): f"--in is '20000w': {duration}",
            ("put", "--name", "a", "--in", "52195d"): "--in is '52195d': the longest is 142 years",
            ("put", "--name", "a", "--at", "2030-01-01"): "--at is '2030-01-01': write it as 2025-03-09T07:00:00Z, "
            "2025-03-09T08:00:00+01:00, @SECONDS since 1970, or now",
            ("put", "--name", "a", "--at", "2030-01-01T00:00"): "--at is '2030-01-01T00:00': this time has no offset to "
            "UTC: add Z for UTC, or an offset such as +01:00",
            ("put", "--name", "a", "--at", "2256-01-01T00:00Z"): "--at is '2256-01-01T00:00Z': the last possible time is "
            "2255-06-05T23:47:34Z",
            ("put", "--name", "a", "--at", "2300-01-01T00:00Z"): "--at is '2300-01-01T00:00Z': write a time in the years 1678 "
            "to 2255; the last possible time is 2255-06-05T23:47:34Z",
            ("put", "--name", "a", "--in", "1s", "--at", "now"): "--in and --at are both given: write only one of them",
            ("put", "--name", "a", "--on-clash", "keep"): "--on-clash is about a key: write --key KEY too",
            ("put", "--name", "a", "--key", "k", "--on-clash", "no"): "--on-clash is 'no': write one of these: keep "
            "replace error",
            ("put", "--name", "a", "--priority", "1"): "--priority is '1': write one of these: low normal high",
            ("put", "--name", "a", "--keep", "1"): f"--keep is '1': {duration}",
            ("put", "--name", "a"): "the store is missing: write --store sqlite:FILE, or --store redis://HOST",
            ("put", "--name", "a", "--store", "x.db"): "--store is 'x.db': write sqlite: and the name of a file, such as "
            "sqlite:jobs.db, or redis:// and the name of a host",
            ("put", "--name", "a", "--store", "Redis://u:secret@h"): "--store is 'Redis://***@h': write sqlite: and the "
            "name of a file, such as sqlite:jobs.db, or redis:// and the name of a host",
            ("put", "--name", "a", "--store", "memory:"): "--store is 'memory:': write sqlite: and the name of a file, "
            "such as sqlite:jobs.db, or redis:// and the name of a host",
            ("put", "--name", "a", "--store", "sqlite:"): "--store has no file: write it after sqlite:, such as "
            "sqlite:jobs.db",
            ("put", "--name", "a", *STORE, "--payload", "x", "--payload-file", "y"): "--payload and --payload-file are "
            "both given: write only one of them",
            ("run",): "--name is missing",
            ("run", "--name", "a"): "the command is missing: write --exec 'COMMAND'",
            ("run", "--name", "a", "--exec", ""): "the command is missing: write --exec 'COMMAND'",
            ("run", "--name", "a", "--exec", "x", "--lease", "99ms"): "--lease is shorter than 100ms: write 100ms or more",
            ("run", "--name", "a", "--exec", "x", "--lease", "5"): f"--lease is '5': {duration}",
            ("run", "--name", "a", "--exec", "x", "--limit", "5"): f"--limit is '5': {duration}",
            ("run", "--name", "a", "--exec", "x", "--grace", "5"): f"--grace is '5': {duration}",
            ("run", "--name", "a", "--exec", "x", "--concurrency", "0"): "--concurrency is 0: write 1 or more",
            ("run", "--name", "a", "--exec", "x", "--max-attempts", "x"): "--max-attempts is 'x': write a number from 0 "
            "to 1000000000",
            ("run", "--name", "a", "--exec", "x"): "the store is missing: write --store sqlite:FILE, or --store redis://HOST",
            ("ls",): "the store is missing: write --store sqlite:FILE, or --store redis://HOST",
            ("ls", "--state", "x"): "--state is 'x': write one of these: pending running held done cancelled replaced dead",
            ("ls", "--limit", "0"): "--limit is 0: write 1 or more, or --all instead",
            ("ls", "--limit", "5", "--all"): "--limit and --all are both given: write only one of them",
            ("ls", "--cursor", "x"): "--cursor is 'x': write the number that the previous list has printed",
            ("ls", "--overdue", "--state", "dead"): "--overdue is about pending jobs: leave --state out",
            ("dead", "--overdue"): "there is no option '--overdue'; if it is not an option, write -- before it",
            ("show",): "this command needs an ID",
            ("show", "a/b", "c/d"): "'c/d' is one argument too many: this command takes only an ID, and options",
            ("show", "4711"): "'4711' is not an id: an id has the form QUEUE/REST, as `uvsched jobs put` and `uvsched jobs ls` "
            "print it",
            ("cancel",): "this command needs an ID",
            ("cancel", "uvs.cron/x"): "'uvs.cron/x' is not an id: an id has the form QUEUE/REST, as `uvsched jobs put` and "
            "`uvsched jobs ls` print it",
            ("cancel", "a/b"): "the store is missing: write --store sqlite:FILE, or --store redis://HOST",
            ("move", "a/b"): "the new time is missing: write --in DURATION or --at TIME",
            ("redrive",): "nothing is selected: write an ID, or --queue QUEUE, or --name NAME, or --all",
            ("purge", "a/b", "--all"): "more than one selection: write only an ID, or only --all, or only --queue and --name",
            ("redrive", "--ended", "--all"): "there is no option '--ended'; if it is not an option, write -- before it",
            ("pause",): "this command needs the name of a queue",
            ("queue", "q"): "there is nothing to change: write --concurrency, --rate or --catch-up; `uvsched jobs "
            "stats` shows the limits",
            ("queue", "q", "--rate", "5"): "--rate is '5': write a number and a duration, such as 100/1m or 5/1s, or 0 for "
            "no bound",
            ("queue", "q", "--rate", "x/1s"): "the number in --rate is 'x': write a number from 0 to 1000000000",
            ("stats", "--json", "--prometheus"): "--json and --prometheus are both given: write only one",
            ("cron",): "write ls, add or rm after cron",
            ("cron", "rm"): "this command needs the name of a cron",
            ("cron", "add", "x"): "this command needs a name and an expression in quotes",
            ("cron", "add", "x", "* * * * *", "--max-missed", "3"): "--max-missed needs --misfire all: write both",
    }.items():
        wrong(args, why)
    refuses("no such command", 2, ["jobs", "lst"], "uvsched: there is no command 'jobs lst'\nTry: uvsched jobs --help\n")
    refuses("options before the command", 2, ["jobs", *STORE, "ls"],
            "uvsched: the command comes first, then its options: uvsched jobs put --store ...\nTry: uvsched jobs --help\n")
    check("wrong command lines make no store", os.listdir("."), [])


# -------------------------------------------------------------------- put ---

def no_store():
    for command in (["ls"], ["show", "a/b"], ["cancel", "a/b"], ["move", "a/b", "--in", "1s"], ["dead"],
                    ["redrive", "--all"], ["purge", "--all"], ["pause", "a"], ["stats"], ["cron", "ls"]):
        refuses(f"{command} without a file", 1, ["jobs", *command, *STORE],
                "uvsched: there is no store sqlite:jobs.db: `uvsched jobs put` makes one\n")
    check("no file was made", os.listdir("."), [])
    refuses("a folder that is not there", 1, ["jobs", "put", "--name", "a", "--store", "sqlite:no/such/folder/jobs.db"],
            "uvsched: the store cannot be opened: ./no/such/folder: the folder cannot be used: no such file or directory\n")
    with open("text.db", "w", encoding="ascii") as f:
        f.write("no database\n" * 1000)
    before = read("text.db")
    refuses("a file that is no database", 1, ["jobs", "put", "--name", "a", "--store", "sqlite:text.db"],
            "uvsched: the store cannot be opened: ./text.db is not a SQLite database\n")
    check("the file is unchanged", (read("text.db"), os.listdir(".")), (before, ["text.db"]))


def no_store_yet():
    """A command that only looks, or changes what is there, leaves the database of another program as it is."""
    db = sqlite3.connect("other.db")
    db.execute("CREATE TABLE orders(id)")
    db.close()
    with open("empty.db", "wb"):
        pass
    for file in "other.db", "empty.db":
        with open(file, "rb") as f:
            before = f.read()
        for command in (["ls"], ["show", "a/b"], ["cancel", "a/b"], ["move", "a/b", "--in", "1s"], ["dead"],
                        ["redrive", "--all"], ["purge", "--all"], ["pause", "a"], ["stats"], ["cron", "ls"], ["cron", "rm", "a"]):
            refuses(f"{command} on {file}", 1, ["jobs", *command, "--store", f"sqlite:{file}"],
                    f"uvsched: there is no store in sqlite:{file}: if this is the right file, `uvsched jobs put` adds one\n")
        with open(file, "rb") as f:
            check(f"{file} is unchanged", f.read() == before)
        check("put adds a store", run("jobs", "put", "--name", "a", "--id", "b", "--store", f"sqlite:{file}"), (0, b"a/b\n", b""))
        check("now it can be listed", run("jobs", "ls", "--store", f"sqlite:{file}")[0], 0)
    check("no other files", sorted(os.listdir(".")), ["empty.db", "empty.db-owners", "other.db", "other.db-owners"])


def put_times():
    id = put("rate-ride", "--in", "48h", "--payload", '{"ride": 4711}')
    info = show(id)
    put_at = instant(info["put"])
    check("--in 48h", timedelta(hours=48) <= instant(info["due"]) - put_at < timedelta(hours=48, seconds=30))
    check("put is now", abs(datetime.now(timezone.utc) - put_at) < timedelta(minutes=2))
    check("members of show", {k: info[k] for k in info if k not in ("id", "put", "due")}, {
        "name": "rate-ride", "queue": "rate-ride", "state": "pending", "key": None, "priority": "normal",
        "lease_ends": None, "ended": None, "attempts": 0, "crashes": 0, "cancelling": False, "error": None,
        "payload": '{"ride": 4711}', "meta": "", "progress": "", "result": ""})
    check("the id begins with the queue", id.startswith("rate-ride/"))
    for text, due in {"2030-01-02T03:04:05Z": "2030-01-02T03:04:05Z", "2030-01-02T03:04+01:30": "2030-01-02T01:34:00Z",
                      "2030-01-02T03:04:05.25Z": "2030-01-02T03:04:05.250Z", "@1893456000": "2030-01-01T00:00:00Z",
                      "2255-06-05T23:47:34Z": "2255-06-05T23:47:34Z"}.items():
        check(f"--at {text}", show(put("at", "--at", text))["due"], due)
    for args in ([], ["--in", "0s"], ["--at", "now"], ["--at", "@0"], ["--at", "1950-01-01T00:00Z"]):
        put("now", *args)
    check("due now", len(ids("--queue", "now", "--overdue")), 5)
    check("due later", ids("--queue", "at", "--overdue"), [])


def put_ids_and_keys():
    check("--id", put("a", "--id", "order-17", "--in", "1h"), "a/order-17")
    again = "uvsched: a/order-17 exists already, so nothing was put\n"
    check("a repeated --id changes nothing, and prints the id", jobs("put", "--name", "a", "--id", "order-17", "--in", "2h"),
          (0, b"a/order-17\n", again.encode()))
    put("done", "--id", "1", "--keep", "1h")
    must("run", "--name", "done", "--exec", "true", "--until-empty", "--quiet")
    check("an id is known after the end of its job", jobs("put", "--name", "done", "--id", "1")[1], b"done/1\n")
    check("and the job does not run again", (ids("--queue", "done"), show("done/1")["state"]), ([], "done"))
    check("--queue", put("a", "--queue", "q", "--id", "1", "--in", "1h"), "q/1")
    check("--key", put("a", "--key", "k", "--id", "k1", "--in", "1h"), "a/k1")
    for args in ([], ["--on-clash", "keep"]):
        check(f"keep {args}", jobs("put", "--name", "a", "--key", "k", "--id", "k2", "--in", "1h", *args),
              (0, b"a/k1\n", b"uvsched: a/k1 exists already, so nothing was put\n"))
    refuses("error", 1, ["jobs", "put", "--name", "a", "--key", "k", "--on-clash", "error", *STORE],
            "uvsched: the key k is in use by a/k1, so nothing was put\n")
    check("replace", put("a", "--key", "k", "--id", "k3", "--in", "1h", "--on-clash", "replace"), "a/k3")
    check("the job that was replaced", show("a/k1")["state"], "replaced")
    check("keys belong to a queue", put("a", "--queue", "q", "--key", "k", "--id", "k1", "--in", "1h"), "q/k1")
    check("jobs", ids(), ["a/order-17", "q/1", "a/k3", "q/k1"])
    id = put("a", "--priority", "high", "--keep", "1h", "--in", "1h")
    check("--priority", show(id)["priority"], "high")
    check("--priority low", show(put("a", "--priority", "low", "--in", "1h"))["priority"], "low")
    check("two puts without --id", put("a", "--in", "1h") != put("a", "--in", "1h"))


def payloads():
    for claim, data in {"0 bytes": b"", "64 KiB": b"x" * 65536, "the limit": b"x" * 1114112, "UTF-8": "Zürich ∞\n\0é".encode(),
                        "no UTF-8": b"\xff\xc3\x28\0", "all bytes": bytes(range(256)), "cut UTF-8": "é".encode()[:1],
                        "1 byte": b"\xfe", "2 bytes": b"\xfe\xfd"}.items():
        with open("payload", "wb") as f:
            f.write(data)
        for how in ({"args": ["--payload-file", "payload"]}, {"args": ["--payload-file", "-"], "input": data}):
            info = show(put("p", *how.pop("args"), "--in", "1h", **how))
            got = base64.b64decode(info["payload_base64"]) if "payload_base64" in info else info["payload"].encode()
            check(f"payload of {claim}", got, data)
            try:
                data.decode()
                is_text = True
            except UnicodeDecodeError:
                is_text = False
            check(f"payload of {claim}: member", ("payload" in info, "payload_base64" in info), (is_text, not is_text))
    check("--payload", show(put("p", "--payload", "é\n", "--in", "1h"))["payload"], "é\n")
    check("without a payload", show(put("p", "--in", "1h"))["payload"], "")
    count = len(ids("--all"))
    too_long = ("uvsched: the payload is longer than 1114112 bytes: store the data elsewhere, and put its location "
                "into the payload\n")
    refuses("one byte more, stdin", 1, ["jobs", "put", "--name", "p", "--payload-file", "-", *STORE], too_long,
            input=b"x" * 1114113)
    refuses("a file that is not there", 1, ["jobs", "put", "--name", "p", "--payload-file", "none", *STORE],
            "uvsched: --payload-file none cannot be read: no such file or directory\n")
    refuses("a folder as payload", 1, ["jobs", "put", "--name", "p", "--payload-file", ".", *STORE],
            "uvsched: --payload-file . cannot be read: illegal operation on a directory\n")
    check("nothing was put", len(ids("--all")), count)
    text = must("show", put("p", "--payload", "one\ntwo\x1b[31m\x9b31m ©", "--in", "1h"))
    check("show indents text, and prints no control characters", "payload   20 bytes\n  one\n  two?[31m?31m ©\n" in text)
    text = must("show", put("p", "--payload-file", "payload", "--in", "1h"))
    check("show of bytes", "payload   2 bytes, not text: --json shows them in base64\n" in text)


def locked():
    """Another program keeps the file locked."""
    id = put("a", "--in", "1h")
    db = sqlite3.connect("jobs.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    refuses("put", 1, ["jobs", "put", "--name", "a", "--id", "1", *STORE],
            "uvsched: the store cannot be opened: ./jobs.db: another program has locked the database\n")
    with open("out", "wb") as out:
        p = subprocess.Popen([UVSCHED, "jobs", "put", "--name", "a", "--id", "2", "--in", "1h", *STORE], stdout=out, env=ENV)
    time.sleep(0.1)
    db.execute("ROLLBACK")
    check("put waits a moment for others", (p.wait(), read("out")), (0, "a/2\n"))
    check("what was put", ids(), [id, "a/2"])


def lost_output():
    """The id cannot be printed: the job is there, and a user must not put it again."""
    with open("/dev/full", "wb") as full:
        p = subprocess.run([UVSCHED, "jobs", "put", "--name", "a", "--id", "1", *STORE], stdout=full,
                           stderr=subprocess.PIPE, env=ENV, check=False)
    check("an id that cannot be printed", (p.returncode, p.stderr), (1, b"uvsched: a/1 is in the store, but its id could "
          b"not be printed: no space left on device\nuvsched: the output could not be written\n"))
    check("the job", ids(), ["a/1"])


def hostile():
    """Odd arguments: the program ends with 0, 1 or 2, and what it prints cannot harm a terminal."""
    chosen = random.Random(18)
    odd = [b"", b"-", b"--", b"%s%n", b"\xff\xfe", b"\x1b]0;x\x07", "é".encode(), b"a/b", b"/", b"a/", b"a" * 5000, b"--all",
           b"--json", b"--name", b"--queue=\x1b[2J", b"--limit=-1", b"--limit=99999999999999999999", b"--cursor=1",
           b"--cursor=99999999999999999999", b"--at=@99999999999999", b"--in=9999999999999w", b"--state=dead", b"--rate=1/1ns",
           b"--rate=99999999999999999999999999999/1s", b"--name=x", b"--in=1h", b"--payload=\x1b[2J\xff", b"--priority=\n",
           b"--payload-file=/dev/null", b"--key=\t", b"--id=" + b"x" * 97, b"--store=", b"--exec=true", b"--until-empty",
           b"--revision=0", b"--zone=../../etc/passwd", b"add", b"rm", b"ls", b"--max-missed=0", b"--concurrency=1000000000", *[b"a/b"] * 9]
    ends = set()
    put("x")
    for i in range(150):
        command = chosen.choice(list(COMMANDS))
        args = [b"jobs", command.encode(), *(a.encode() for a in STORE)]
        args += [chosen.choice(odd) for _ in range(chosen.randrange(4))]
        if command == "run":
            args.append(b"--until-empty")
        status, out, err = run(*args)
        ends.add(status)
        check(f"hostile {i}: {[a[:60] for a in args]}: {status} {out[:200]} {err[:500]}",
              status in (0, 1, 2) and bool(re.fullmatch(rb"[\n\x20-\x7e]*", err + out)))
    check("hostile arguments reach all exit statuses", ends, {0, 1, 2})


# ------------------------------------------------------------------- list ---

def listing():
    for i in range(7):
        put("a", "--id", str(i), "--at", f"2030-01-0{i + 1}T00:00Z")
    put("b", "--id", "due", "--key", "k")
    put("b", "--queue", "a", "--id", "b", "--in", "47h30m", "--priority", "high")
    check("all, by time of put", ids(), [f"a/{i}" for i in range(7)] + ["b/due", "a/b"])
    check("--queue", ids("--queue", "a"), [f"a/{i}" for i in range(7)] + ["a/b"])
    check("--name", ids("--name", "b"), ["b/due", "a/b"])
    check("--queue and --name", ids("--queue", "a", "--name", "b"), ["a/b"])
    check("--overdue", ids("--overdue"), ["b/due"])
    check("--state pending", len(ids("--state", "pending")), 9)
    for state in ("running", "held", "done", "cancelled", "replaced", "dead"):
        check(f"--state {state}", ids("--state", state), [])
    status, out, err = jobs("ls", "--queue", "nope")
    check("nothing", (status, out, err), (0, b"", b"uvsched: there are no such jobs\n"))
    check("ls has no payload", "payload" in rows("ls")[0], False)

    got, cursor = [], []
    for _ in range(10):
        status, out, err = jobs("ls", "--json", "--limit", "2", *cursor)
        got += [row["id"] for row in json.loads(out)]
        more = re.fullmatch(r"uvsched: there may be more: add --cursor (\d+), or --all\n", err.decode())
        if not more:
            check("the last page says nothing", (status, err), (0, b""))
            break
        cursor = ["--cursor", more[1]]
    check("pages of 2", got, [f"a/{i}" for i in range(7)] + ["b/due", "a/b"])

    text = must("ls").splitlines()
    check("the table", text[:2], ["id                state      attempts  when",
                                  "a/0               pending           0  due 2030-01-01T00:00:00Z" +
                                  re.search(r"( \(in \d+\w\))?$", text[1])[0]])
    check("the notes", (text[8].split("), ")[1], re.search(r"\((.*)$", text[9])[1]),
          ("key k", "in 47h), name b, high priority"))
    put("c" * 64, "--id", "x" * 96, "--in", "1h")
    check("long ids stay in one column", "c" * 64 + "/" + "x" * 96 + "  pending " in must("ls"))

    coloured = on_terminal("ls", ["jobs", "ls", *STORE], {"TERM": "xterm"}).decode()
    check("colours on a terminal", ("\033[1mid " in coloured, "\033[33mpending  \033[0m" in coloured), (True, True))
    check("NO_COLOR", b"\033" in on_terminal("ls", ["jobs", "ls", *STORE], {"TERM": "xterm", "NO_COLOR": "1"}), False)
    check("no colours in a pipe", "\033" in must("ls"), False)


# ----------------------------------------------------------------- change ---

def change():
    put("a", "--id", "1", "--in", "1h", "--keep", "1h")
    put("a", "--id", "2", "--in", "1h")
    prints("cancel", ["jobs", "cancel", "a/1", *STORE], "a/1 is cancelled\n")
    check("what was cancelled", (ids(), show("a/1")["state"]), (["a/2"], "cancelled"))
    check("--state cancelled", ids("--state", "cancelled"), ["a/1"])
    check("--state replaced", ids("--state", "replaced"), [])
    for id in ("a/1", "a/none"):
        refuses(f"cancel {id}", 1, ["jobs", "cancel", id, *STORE],
                f"uvsched: there is no job {id} that has not ended\n")
        refuses(f"move {id}", 1, ["jobs", "move", id, "--in", "1h", *STORE],
                f"uvsched: there is no job {id} that has not ended\n")
    refuses("show", 1, ["jobs", "show", "a/none", *STORE],
            "uvsched: there is no job a/none, or it has ended and is not kept any more\n")
    prints("move --at", ["jobs", "move", "a/2", "--at", "2031-01-01T00:00Z", *STORE],
           "a/2 is due at 2031-01-01T00:00Z\n")
    check("moved", show("a/2")["due"], "2031-01-01T00:00:00Z")
    prints("move --in", ["jobs", "move", "a/2", "--in", "2h", *STORE], "a/2 is due in 2h\n")
    due = instant(show("a/2")["due"]) - datetime.now(timezone.utc)
    check("moved --in", timedelta(hours=1, minutes=58) < due < timedelta(hours=2, seconds=1))
    prints("move --in 0s", ["jobs", "move", "a/2", "--in", "0s", *STORE], "a/2 is due in 0s\n")
    check("moved to now", ids("--overdue"), ["a/2"])


def queues():
    put("a", "--id", "1")
    put("a", "--id", "2", "--in", "1h")
    prints("pause", ["jobs", "pause", "a", *STORE], "a is paused\n")
    prints("queue", ["jobs", "queue", "a", "--concurrency", "3", "--rate", "100/1m", "--catch-up", "7", *STORE],
           "a is changed\n")
    stats = json.loads(must("stats", "--json"))
    oldest = stats.pop("oldest_overdue_s")
    queue = stats.pop("queues")
    check("stats --json", stats, {"pending": 2, "overdue": 1, "running": 0, "dead": 0, "kept": 0})
    check("the oldest", (0 < oldest < 120, abs(queue[0].pop("oldest_overdue_s") - oldest) < 1), (True, True))
    check("the queue", queue, [{"queue": "a", "paused": True, "pending": 2, "overdue": 1, "running": 0, "dead": 0,
                                "concurrency": 3, "rate": 100, "rate_s": 60, "catch_up": 7}])
    text = re.sub(r"1( \(\d+s\))?  ", lambda m: f"{'1':>{len(m[0]) - 2}}  ", must("stats"))
    check("stats", text, """
queue          pending   overdue (for)   running      dead  settings
a                    2               1         0         0  paused  concurrency 3  rate 100/60s  catch-up 7/1s
all queues           2               1         0         0
""".lstrip("\n"))
    prints("queue, one setting", ["jobs", "queue", "a", "--rate", "0", *STORE], "a is changed\n")
    prints("resume", ["jobs", "resume", "a", *STORE], "a is not paused\n")
    check("others stay", {k: v for k, v in json.loads(must("stats", "--json"))["queues"][0].items()
                          if k in ("paused", "concurrency", "rate", "catch_up")},
          {"paused": False, "concurrency": 3, "rate": 0, "catch_up": 7})
    text = must("stats", "--prometheus")
    check("--prometheus", bool(re.search(r"^# TYPE uvsched_jobs_", text, re.M)))
    refuses("a bad name", 2, ["jobs", "pause", "a/b", *STORE], "uvsched: 'a/b' is not the name of a queue: write 1 to 64 "
            "characters of A-Z a-z 0-9 _ . : -, not beginning with uvs.\nTry: uvsched jobs pause --help\n")


def crons():
    prints("add", ["jobs", "cron", "add", "nightly", "0 3 * * *", "--zone", "Europe/Berlin", "--name", "report",
                   "--payload", "all", "--misfire", "all", "--max-missed", "3", "--overlap", "skip", *STORE],
           "nightly is defined\n")
    prints("add, defaults", ["jobs", "cron", "add", "hourly", "@hourly", *STORE], "hourly is defined\n")
    got = json.loads(must("cron", "ls", "--json"))
    for row in got:
        check("next is later", instant(row.pop("next")) > datetime.now(timezone.utc) - timedelta(minutes=1))
        row.pop("last")
    check("cron ls --json", got, [
        {"cron": "hourly", "expression": "@hourly", "zone": "UTC", "name": "hourly", "queue": "hourly", "revision": 1,
         "misfire": "once", "max_missed": got[0]["max_missed"], "overlap": "queue"},
        {"cron": "nightly", "expression": "0 3 * * *", "zone": "Europe/Berlin", "name": "report", "queue": "report",
         "revision": 1, "misfire": "all", "max_missed": 3, "overlap": "skip"}])
    text = must("cron", "ls").splitlines()
    check("cron ls", (text[0], bool(re.fullmatch(r'nightly         1  report at "0 3 \* \* \*" Europe/Berlin, next '
                                                 r"\d{4}-\d\d-\d\dT0[12]:00:00Z \(in \d+[hms]\)", text[2]))),
          ("cron     revision  puts jobs", True))
    status, out, err = jobs("cron", "add", "nightly", "0 4 * * *")
    check("the same revision changes nothing", (status, out, err), (0, b"", b"uvsched: the store has nightly with this "
          b"revision or a higher one, so nothing was changed: to change the cron, write a higher --revision than `uvsched "
          b"jobs cron ls` shows\n"))
    prints("a higher revision", ["jobs", "cron", "add", "nightly", "0 4 * * *", "--revision", "2", *STORE],
           "nightly is defined\n")
    check("the new definition", [(r["expression"], r["revision"]) for r in json.loads(must("cron", "ls", "--json"))],
          [("@hourly", 1), ("0 4 * * *", 2)])
    status, out, err = jobs("cron", "add", "x", "61 * * * *")
    check(f"a bad expression ({err})", (status, out, b"61" in err, err.endswith(b"\nTry: uvsched jobs cron add --help\n")),
          (2, b"", True, True))
    refuses("a zone that does not exist", 2, ["jobs", "cron", "add", "x", "@daily", "--zone", "No/Where", *STORE],
            'uvsched: zone: there is no zone "No/Where" (is tzdata installed?)\nTry: uvsched jobs cron add --help\n')
    prints("rm", ["jobs", "cron", "rm", "hourly", *STORE], "hourly is removed\n")
    refuses("rm again", 1, ["jobs", "cron", "rm", "hourly", *STORE], "uvsched: there is no cron 'hourly'\n")
    must("cron", "rm", "nightly")
    check("none", jobs("cron", "ls"), (0, b"", b"uvsched: there are no crons\n"))
    check("none, JSON", must("cron", "ls", "--json"), "[]\n")
    must("cron", "add", "often", "* * * * * *", "--name", "tick")
    check("a cron is not in the list of jobs", ids(), [])
    with Runner("tick", 'echo "$UVS_JOB_ID" >> ticks') as r:
        until("a cron puts jobs", lambda: len(lines("ticks")) >= 2)
        r.p.terminate()
        r.ends("a runner with a cron", 0)
    ticks = lines("ticks")
    check("occurrences are different jobs", (len(set(ticks)), all(t.startswith("tick/often@") for t in ticks)),
          (len(ticks), True))


# -------------------------------------------------------------------- run ---

def run_jobs():
    id = put("greet", "--id", "1", "--key", "key", "--payload", "hello\n", "--at", "2020-02-03T04:05:06Z", "--keep", "1h")
    out, err = run_all("greet", "env | grep ^UVS_JOB_ | sort; cat; echo bad >&2")
    fence = re.search(r"UVS_JOB_FENCE=(\d+)\n", out)[1]
    check("environment and payload", out, f"""
UVS_JOB_ATTEMPT=1
UVS_JOB_DUE=2020-02-03T04:05:06Z
UVS_JOB_FENCE={fence}
UVS_JOB_ID=greet/1
UVS_JOB_KEY=key
UVS_JOB_NAME=greet
hello
""".lstrip("\n"))
    check("stderr: one line a job", re.sub(r"\d+\.\d s", "0.0 s", err),
          "uvsched: running jobs of greet from sqlite:jobs.db\nbad\nuvsched: greet/1: done, attempt 1, 0.0 s\n")
    check("the end", (show(id)["state"], ids()), ("done", []))
    check("a put that is repeated after the end", jobs("put", "--name", "greet", "--id", "1")[:2], (0, b"greet/1\n"))
    check("does not run again", run_all("greet", "echo again", "--quiet"), ("", ""))
    put("greet")
    check("--quiet; without a key", run_all("greet", 'echo "<$UVS_JOB_KEY>"', "--quiet"), ("<>\n", ""))

    put("greet", "--queue", "q", "--id", "1")
    put("other", "--queue", "q", "--id", "2")
    out, err = run_all("greet", "echo $UVS_JOB_ID", "--queue", "q")
    check("--queue; a job of another name stays", (out, ids()), ("q/1\n", ["q/2"]))
    check("a job of another name is reported", "uvsched: q/2 has another name, and was given back" in err)

    put("later", "--id", "now")
    put("later", "--id", "then", "--in", "1h")
    check("jobs due later do not keep --until-empty", run_all("later", "echo $UVS_JOB_ID", "--quiet")[0], "later/now\n")
    check("an empty queue", run_all("empty", "echo x", "--quiet"), ("", ""))

    for data in (b"", b"x" * 1114112, bytes(range(256)) * 100):
        put("pay", "--payload-file", "-", input=data)
        run_all("pay", "cat > got; cp /dev/stdin again; wc -c < got", "--quiet")
        with open("got", "rb") as f:
            check(f"payload of {len(data)} bytes", f.read(), data)
    put("pay", "--payload-file", "-", input=b"x" * 65536)
    check("a command that reads nothing", run_all("pay", "exec true", "--quiet"), ("", ""))
    put("pay", "--payload-file", "-", input=b"x" * 65536)
    check("a command that closes its input", run_all("pay", "exec <&-; echo ok", "--quiet"), ("ok\n", ""))
    check("/dev/stdin can be opened", (put("pay", "--payload", "text") != "", run_all("pay", "cat /dev/stdin", "--quiet")),
          (True, ("text", "")))

    put("quote")
    check("the command is one argument of sh -c", run_all("quote", """printf '%s|' "$0" 'a b' "c'd" '*'; :""", "--quiet"),
          ("sh|a b|c'd|*|", ""))
    put("quote")
    check("a command that begins with a dash", run_all("quote", "-x; true", "--quiet")[0], "")
    os.environ["UVS_JOB_ID"] = "outer"
    put("quote", "--id", "inner")
    check("variables of an outer job are replaced",
          run("jobs", "run", *STORE, "--name", "quote", "--exec", "echo $UVS_JOB_ID; env | grep -c ^UVS_JOB_ID=",
              "--until-empty", "--quiet", env={"UVS_JOB_ID": "outer", "UVS_JOB_X": "y"})[1], b"quote/inner\n1\n")
    del os.environ["UVS_JOB_ID"]


def run_failures():
    for command, why in {"exit 3": "exit status 3", "kill -9 $$": "killed by signal 9", "none-such 2>&-": "exit status 127"
                         }.items():
        id = put("bad", "--payload", "p")
        _, err = run_all("bad", command, "--max-attempts", "1")
        check(f"{command}: stderr", f"uvsched: {id}: failed: {why}, attempt 1, " in err)
        check(f"{command}: a dead letter is reported", f"uvsched: {id} is a dead letter now: {why}\n" in err)
        info = show(id)
        check(f"{command}: the letter", (info["state"], info["error"], info["attempts"], info["payload"]),
              ("dead", why, 1, "p"))
    letters = rows("dead")
    check("dead --json", [(r["error"], r["state"], r["payload"]) for r in letters],
          [("exit status 3", "dead", "p"), ("killed by signal 9", "dead", "p"), ("exit status 127", "dead", "p")])
    check("dead --json --queue", rows("dead", "--queue", "other"), [])
    text = must("dead").splitlines()
    check("dead", (text[0].split(), bool(re.fullmatch(
        rf"{letters[0]['id']}         1        0  \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ \((now|\d+[sm] ago)\): exit status 3",
        text[1]))), (["id", "attempts", "crashes", "died,", "and", "why"], True))
    prints("redrive ID", ["jobs", "redrive", letters[0]["id"], *STORE], "1 dead letter put back\n")
    info = show(letters[0]["id"])
    check("a letter that was put back", (info["state"], info["attempts"], info["payload"]), ("pending", 0, "p"))
    refuses("redrive again", 1, ["jobs", "redrive", letters[0]["id"], *STORE],
            f"uvsched: there is no dead letter {letters[0]['id']}\n")
    prints("redrive --queue", ["jobs", "redrive", "--queue", "other", *STORE], "0 dead letters put back\n")
    prints("purge ID", ["jobs", "purge", letters[1]["id"], *STORE], "1 dead letter removed\n")
    refuses("purge again", 1, ["jobs", "purge", letters[1]["id"], *STORE],
            f"uvsched: there is no dead letter {letters[1]['id']}\n")
    check("it runs again", run_all("bad", "cat", "--quiet"), ("p", ""))
    prints("redrive --all", ["jobs", "redrive", "--all", *STORE], "1 dead letter put back\n")
    check("that one too", run_all("bad", "cat", "--quiet"), ("p", ""))
    check("no letters", jobs("dead"), (0, b"", b"uvsched: there are no such dead letters\n"))
    check("--state done", len(ids("--state", "done")), 2)
    prints("purge --ended: what was put a moment ago stays", ["jobs", "purge", "--ended", "--queue", "bad", *STORE],
           "0 ended jobs removed\n")

    put("key", "--key", "k", "--id", "1")
    run_all("key", "exit 1", "--max-attempts", "1")
    put("key", "--key", "k", "--id", "2", "--in", "1h")
    refuses("redrive with a key in use", 1, ["jobs", "redrive", "key/1", *STORE],
            "uvsched: the key of key/1 is in use by another job, so it stays a dead letter: try again when that job has "
            "ended, or cancel it\n")

    id = put("retry", "--payload", "p")
    with Runner("retry", 'cat >> tries; echo " $UVS_JOB_ATTEMPT" >> tries; [ "$UVS_JOB_ATTEMPT" = 2 ]') as r:
        until("a failed job is tried again", lambda: len(lines("tries")) == 2)
        until("and is done", lambda: ids("--queue", "retry") == [])
        r.p.terminate()
        r.ends("the runner", 0)
    check("the payload comes with each attempt", lines("tries"), ["p 1", "p 2"])
    id = put("retry")
    _, err = run_all("retry", "exit 1")
    check("a job that waits for its retry does not keep --until-empty", show(id)["state"], "pending")
    check("it waits for its retry", (show(id)["attempts"], show(id)["error"]), (1, "exit status 1"))


def run_limits():
    for i in range(6):
        put("par", "--id", str(i))
    # Each command waits until it sees three others, or until it has waited for long.
    command = 'echo >> here; i=0; while [ $(wc -l < here) -lt 3 ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done; echo $i'
    out, _ = run_all("par", command, "--concurrency", "3", "--quiet")
    check("--concurrency 3", (len(out.split()), all(int(i) < 600 for i in out.split())), (6, True))
    put("limit")
    began = time.monotonic()
    _, err = run_all("limit", "sleep 300 & echo $! > pid; wait", "--limit", "200ms", "--max-attempts", "1")
    check("--limit ends the command", ("ended: it took longer than --limit, attempt 1" in err, time.monotonic() - began < 60),
          (True, True))
    until("the group is ended", lambda: not is_alive(int(read("pid"))))
    check("the reason", [r["error"] for r in rows("dead")], ["it took longer than --limit"])

    id = put("limit")
    run_all("limit", "trap 'exit 0' TERM; sleep 300 & wait", "--limit", "100ms", "--max-attempts", "1", "--quiet")
    check("a command that is ended at its limit has failed, whatever it says", show(id)["state"], "dead")

    put("behind")
    run_all("behind", "sleep 300 & echo $! > behind", "--quiet")
    check("what a command leaves behind is ended", is_alive(int(read("behind"))), False)
    put("deaf")
    began = time.monotonic()
    run_all("deaf", "trap '' TERM; sh -c 'trap \"\" TERM; echo $$ > deaf; while :; do sleep 1; done' & "
            "while [ ! -s deaf ]; do sleep 0.02; done", "--quiet")
    check("what ignores SIGTERM gets SIGKILL after 5 s", (is_alive(int(read("deaf"))), time.monotonic() - began > 4.9),
          (False, True))


def run_cancel():
    id = put("c", "--keep", "1h")
    with Runner("c", "sleep 300 & echo $! > pid; wait", "--lease", "300ms") as r:
        pid = int(until("the command runs", lambda: read("pid").strip()))
        info = show(id)
        check("a running job", (info["state"], info["due"], instant(info["lease_ends"]) > instant(info["put"])),
              ("running", None, True))
        check("ls --state running", ids("--state", "running"), [id])
        check("ls of a running job", "running           0  lease ends " in must("ls"))
        refuses("move", 1, ["jobs", "move", id, "--in", "1h", *STORE], f"uvsched: {id} is running, so it was not moved\n")
        prints("cancel", ["jobs", "cancel", id, *STORE], f"{id} is running: it is asked to stop\n")
        until("the group of a cancelled job is ended", lambda: not is_alive(pid))
        until("the job is cancelled", lambda: show(id)["state"] == "cancelled")
        check("the runner goes on", r.p.poll(), None)
        os.remove("pid")
        put("c")
        until("the next job runs", lambda: read("pid").strip())


def run_stop():
    for claim, number in {"SIGTERM": signal.SIGTERM, "SIGINT": signal.SIGINT}.items():
        put("s", "--id", claim)
        put("s", "--id", claim + "-next")
        with Runner("s", "echo $$ > pid; while [ ! -e go ]; do sleep 0.05; done; echo $UVS_JOB_ID >> done") as r:
            until("the command runs", lambda: read("pid").strip())
            r.p.send_signal(number)
            until("the runner says so", lambda: "stopping" in r.text())
            check(f"{claim}: the runner waits for its command", r.p.poll(), None)
            open("go", "w").close()
            r.ends(claim, 0)
        check(f"{claim}: the command has finished, and no other was started", (lines("done"), ids()),
              ([f"s/{claim}"], [f"s/{claim}-next"]))
        must("cancel", f"s/{claim}-next")
        for name in ("pid", "go", "done"):
            os.remove(name)

    id = put("s")
    with Runner("s", "sleep 300 & echo $! > pid; wait", "--grace", "100ms") as r:
        pid = int(until("the command runs", lambda: read("pid").strip()))
        r.p.terminate()
        r.ends("--grace", 0)
    check("--grace has passed: the group is ended", is_alive(pid), False)
    info = show(id)
    check("its job is given back, and this does not count", (info["state"], info["attempts"], info["crashes"]),
          ("pending", 0, 0))
    check("the runner says so", f"uvsched: {id}: given back: the runner stops, attempt 1, " in r.text())
    os.remove("pid")
    with Runner("s", "trap '' TERM INT; echo $$ > pid; while :; do sleep 0.1; done", "--grace", "1h") as r:
        pid = int(until("the command runs", lambda: read("pid").strip()))
        r.p.send_signal(signal.SIGINT)
        until("the runner says so", lambda: "a second signal kills them" in r.text())
        r.p.send_signal(signal.SIGINT)
        r.ends("a second signal", 0)
    check("a second signal kills the group", is_alive(pid), False)
    info = show(id)
    check("and gives the job back", (info["state"], info["attempts"], info["crashes"]), ("pending", 0, 0))
    with Runner("idle", "true") as r:
        until("the runner is ready", lambda: "running jobs" in r.text())
        r.p.terminate()
        r.ends("SIGTERM of an idle runner", 0)
        check("it says nothing more", r.text(), "uvsched: running jobs of idle from sqlite:jobs.db\n")


def run_killed():
    """kill -9 of the runner, again and again: the group ends, and another runner runs the job."""
    for i in range(8):
        id = put("k", "--id", str(i))
        command = "echo $$ >> pids; sleep 300 & echo $! >> pids; sleep 300 | sleep 300 & wait"
        # In every other round, the runner is killed as soon as the command has begun, or before.
        with Runner("k", command) as r:
            if i % 2 == 0:
                until("the command runs", lambda: len(lines("pids")) == 2)
            else:
                until("the job is claimed", lambda: ids("--state", "running") == [id])
            guardian = until("the guardian", lambda: r.guardian() or not is_alive(r.p.pid))
            r.p.kill()
            r.p.wait()
        until("the guardian ends", lambda: not is_alive(guardian))
        until("no process of the command is left", lambda: not any(is_alive(int(pid)) for pid in lines("pids")))
        check("the first commands did not finish", ids(), [id])
        out, err = run_all("k", "echo $UVS_JOB_ID $UVS_JOB_ATTEMPT")
        check("another runner runs the job", out, f"k/{i} 1\n")
        if os.path.exists("pids"):
            os.remove("pids")
    check("nothing is left", ids(), [])


def run_many_killed():
    """All jobs of a runner that was killed run again without a wait, one after the other."""
    for i in range(6):
        put("k", "--id", str(i))
    with Runner("k", "echo $$ >> pids; sleep 300", "--concurrency", "6") as r:
        until("all commands run", lambda: len(lines("pids")) == 6)
        r.p.kill()
        r.p.wait()
    out, _ = run_all("k", "echo $UVS_JOB_ID", "--concurrency", "3", "--quiet")
    check("all run again", sorted(out.split()), [f"k/{i}" for i in range(6)])
    with Runner("k", "echo $$ >> again; sleep 300") as r:
        put("k", "--id", "poison")
        until("the command runs", lambda: read("again"))
        r.p.kill()
        r.p.wait()
    _, err = run_all("k", "true", "--max-crashes", "1")
    check("--max-crashes", "uvsched: k/poison is a dead letter now: crashed too often: its leases ended without a result\n"
          in err)
    check("its reason", [(r["id"], r["crashes"]) for r in rows("dead")], [("k/poison", 1)])


def run_lost():
    """A runner that is stopped for longer than the lease: another runs the job, and the first ends its command."""
    id = put("l", "--keep", "1h")
    with Runner("l", "echo $$ $UVS_JOB_FENCE >> pids; while [ ! -e go ]; do sleep 0.05; done", "--lease", "200ms") as r:
        pid, fence = until("the command runs", lambda: read("pids")).split()
        r.p.send_signal(signal.SIGSTOP)
        with Runner("l", "echo $$ $UVS_JOB_FENCE >> second; while [ ! -e go ]; do sleep 0.05; done") as other:
            second = until("another runs the job", lambda: read("second")).split()
            check("with a larger fence", int(second[1]) > int(fence))
            check("the first command still runs", is_alive(int(pid)))
            r.p.send_signal(signal.SIGCONT)
            until("the command that lost its lease is ended", lambda: not is_alive(int(pid)))
            until("the runner says so", lambda: f"{id}: ended: the lease is lost" in r.text())
            check("the other goes on", is_alive(int(second[0])))
            open("go", "w").close()
            until("the job is done", lambda: show(id)["state"] == "done")
            check("the crash is counted and reported", (show(id)["crashes"], "was claimed again"
                                                        in other.text()), (1, True))


def run_guardian():
    with Runner("g", "sleep 300 & echo $! > pid; wait") as r:
        guardian = until("the guardian", lambda: r.guardian() if "running jobs" in r.text() else None)
        with open(f"/proc/{guardian}/cmdline", "rb") as f:
            title = f.read().rstrip(b"\0")
        check("ps shows what it is", title, b"jobs-guardian of process %d" % r.p.pid)
        check("`pkill uvsched` does not find it", "uvsched" in read(f"/proc/{guardian}/comm"), False)
        os.kill(guardian, signal.SIGTERM)
        check("SIGTERM does not end it", is_alive(guardian))
        check("it is in another session", os.getsid(guardian) != os.getsid(r.p.pid))
        os.kill(guardian, signal.SIGKILL)
        id = put("g")
        r.ends("without a guardian the runner stops", 1)
        check("and says why", f"uvsched: the guardian (process {guardian}) was killed, so commands cannot be run safely: "
              "start the runner again\n" in r.text())
    info = show(id)
    check("the job is given back", (info["state"], info["attempts"], info["crashes"]), ("pending", 0, 0))


def run_shared():
    """Two runners share a store: each job runs once."""
    n = 40
    for i in range(n):
        put("share", "--id", str(i))
    command = "echo $UVS_JOB_ID >> share"
    with Runner("share", command, "--until-empty", "--concurrency", "2") as a, \
            Runner("share", command, "--until-empty", "--concurrency", "2") as b:
        a.ends("the first", 0)
        b.ends("the second", 0)
    check("each job ran once", sorted(lines("share")), sorted(f"share/{i}" for i in range(n)))


def run_elsewhere():
    """A job that runs in another process keeps --until-empty."""
    put("e", "--id", "1")
    with Runner("e", "echo >> here; sleep 300") as first:
        until("the job runs in the one", lambda: read("here"))
        with Runner("e", "echo $UVS_JOB_ID", "--until-empty") as second:
            until("the other is ready", lambda: "running jobs" in second.text())
            time.sleep(0.1)  # it looks at the queue after 50 ms
            first.p.kill()
            second.ends("the other", 0)
    check("the other has run the job", (ids(), "uvsched: e/1: done, " in second.text()), ([], True))


def run_paused():
    put("p")
    must("pause", "p")
    with Runner("p", "echo ran", "--until-empty") as r:
        until("--until-empty waits for a paused queue, and says so",
              lambda: "uvsched: the queue p is paused: waiting for `uvsched jobs resume`\n" in r.text())
        must("resume", "p")
        r.ends("after resume", 0)
    check("the job ran", ids(), [])


def run_without_descriptors():
    put("d")
    p = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", UVSCHED, "jobs", "run", *STORE, "--name", "d", "--exec",
                        "echo $UVS_JOB_ID > ran", "--until-empty"], env=ENV)
    check("without any descriptor", (p.returncode, len(lines("ran")), ids()), (0, 1, []))
    with sqlite3.connect("jobs.db") as db:
        check("the store is sound", db.execute("PRAGMA integrity_check").fetchone(), ("ok",))


def run_short_of_descriptors():
    """A runner that has no descriptor left to start a command: that is no failure of the job."""
    id = put("short", "--keep", "1h")
    must("pause", "short")
    with Runner("short", "echo $UVS_JOB_ATTEMPT >> ran", "--max-attempts", "1", "--until-empty") as r:
        until("the runner waits", lambda: "is paused" in r.text())
        few = resource.prlimit(r.p.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(r.p.pid, resource.RLIMIT_NOFILE, (3, few[1]))
        must("resume", "short")
        until("the runner says so", lambda: f"uvsched: {id}: the command cannot be started, and is tried again in 1 s: "
              "too many open files\n" in r.text())
        resource.prlimit(r.p.pid, resource.RLIMIT_NOFILE, few)
        r.ends("until empty, the runner waits for the job", 0)
    check("the job has run, as its first attempt", (show(id)["state"], lines("ran")), ("done", ["1"]))


def writing():
    put("w", "--in", "1h", "--id", "1")
    program.write_errors(["jobs", "ls", *STORE], ["jobs", "ls", "--json", *STORE], ["jobs", "stats", "--json", *STORE],
                         ["jobs", "show", "w/1", *STORE], ["jobs", "put", "--help"])
    check("the locale does not matter", run("jobs", "ls", "--json", *STORE, env={"LC_ALL": "de_DE.UTF-8"}),
          run("jobs", "ls", "--json", *STORE))


def alike(text):
    """Times that differ from run to run."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z( \((in )?\w+( ago)?\))?", "TIME", text)
    return re.sub(r"\d+\.\d s", "0.0 s", re.sub(r" *\d+ \(\d+s\)", " N", text))


def page():
    program.page(PAGE, "jobs", 5, alike)


if run("jobs", "--help")[0] != 0:
    print("skipped: this program has no jobs")
    sys.exit(77)
parts = (help_pages, usage, no_store, no_store_yet, put_times, put_ids_and_keys, payloads, locked, lost_output, hostile, listing, change, queues, crons, run_jobs,
         run_failures, run_limits, run_cancel, run_stop, run_killed, run_many_killed, run_lost, run_guardian, run_shared, run_elsewhere, run_paused,
         run_without_descriptors, run_short_of_descriptors, writing, page)


def run_part(part):
    """(what the part printed, how many checks passed, which failed), in a folder of its own."""
    program.passed, program.failures[:] = 0, []
    printed = io.StringIO()
    folder = tempfile.mkdtemp()
    os.chdir(folder)
    began = time.monotonic()
    with contextlib.redirect_stdout(printed):
        try:
            part()
        except Exception:  # the other parts are still worth a look
            check(f"{part.__name__}: {traceback.format_exc()}", False)
        print(f"{part.__name__}: {time.monotonic() - began:.1f} s")
    os.chdir("/")
    shutil.rmtree(folder)
    return printed.getvalue(), program.passed, program.failures


# Each part in a process of its own: most parts wait longer than they work.
chosen = [part for part in parts if len(sys.argv) <= 3 or part.__name__ in sys.argv[3:]]
with multiprocessing.get_context("fork").Pool(4, maxtasksperchild=1) as pool:
    for printed, passed, failures in pool.imap(run_part, chosen, chunksize=1):
        print(printed, end="", flush=True)
        program.passed += passed
        program.failures += failures
program.finish()
