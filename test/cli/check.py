#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check.py UVSCHED PAGE: run the program `uvsched`, and compare what it prints and returns.

PAGE is docs/cli.md: each block of it that begins with "$ uvsched cron" is run too, and must print what
the page shows. Exit status 1 if a check failed; 77, skipped, without tzdata.
"""
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from datetime import datetime, timedelta, timezone

import program
from program import ENV, UVSCHED, check, on_terminal, prints, refuses, run

PAGE = sys.argv[2]


def rows_of(*args, env=None):
    """The objects of --json."""
    status, out, err = run("cron", "--json", *args, env=env)
    check(f"--json {args}: status and stderr", (status, err), (0, b""))
    return json.loads(out)


def members(rows, *names):
    return [tuple(row[name] for name in names) for row in rows]


def hard_cases():
    prints("New York, gap: a fixed time moves to the end of the gap",
           ["cron", "30 2 * * *", "America/New_York", "--from", "2025-03-08T00:00:00Z", "-n", "3"], """
30 2 * * * in America/New_York, after 2025-03-08T00:00:00Z
local                    offset  UTC
Sat 2025-03-08 02:30:00  -05:00  2025-03-08T07:30:00Z
Sun 2025-03-09 03:00:00  -04:00  2025-03-09T07:00:00Z  moved from 02:30
Mon 2025-03-10 02:30:00  -04:00  2025-03-10T06:30:00Z
""")
    skip = ["cron", "0,15,45 2 * * *", "America/New_York", "--from=2025-03-08T20:00:00Z", "-n1", "--gap", "skip"]
    prints("New York, gap: --gap skip leaves the day out", skip, """
0,15,45 2 * * * in America/New_York, after 2025-03-08T20:00:00Z
local                    offset  UTC
Mon 2025-03-10 02:00:00  -04:00  2025-03-10T06:00:00Z
""")
    prints("New York, gap: --all shows what was dropped", skip + ["--all"], """
0,15,45 2 * * * in America/New_York, after 2025-03-08T20:00:00Z
local                    offset  UTC
Sun 2025-03-09 03:00:00  -04:00  2025-03-09T07:00:00Z  dropped: the clock skips 02:00, 2 more in the gap
""")
    prints("New York, gap: skipped times that join an occurrence are counted",
           ["cron", "0,30 2,3 * * *", "America/New_York", "--from=2025-03-08T20:00:00Z", "-n1"], """
0,30 2,3 * * * in America/New_York, after 2025-03-08T20:00:00Z
local                    offset  UTC
Sun 2025-03-09 03:00:00  -04:00  2025-03-09T07:00:00Z  2 times in the gap
""")
    real_time = ["cron", "*/30 2 * * *", "America/New_York", "--from=2025-03-08T20:00:00Z", "-n1"]
    prints("New York, gap: times that follow real time do not occur", real_time, """
*/30 2 * * * in America/New_York, after 2025-03-08T20:00:00Z
local                    offset  UTC
Mon 2025-03-10 02:00:00  -04:00  2025-03-10T06:00:00Z
""")
    prints("New York, gap: --all shows dropped times that follow real time", real_time + ["--all"], """
*/30 2 * * * in America/New_York, after 2025-03-08T20:00:00Z
local                    offset  UTC
Sun 2025-03-09 03:00:00  -04:00  2025-03-09T07:00:00Z  dropped: the clock skips 02:00, 1 more in the gap
""")
    prints("New York, gap: dropped times before an occurrence right after the gap",
           ["cron", "*/30 * * * *", "America/New_York", "--from=2025-03-09T06:00:00Z", "-n2"], """
*/30 * * * * in America/New_York, after 2025-03-09T06:00:00Z
local                    offset  UTC
Sun 2025-03-09 01:30:00  -05:00  2025-03-09T06:30:00Z
Sun 2025-03-09 03:00:00  -04:00  2025-03-09T07:00:00Z  2 times in the gap do not occur
""")
    overlap = ["cron", "30 1 * * *", "America/New_York", "--from", "2025-11-01T12:00:00Z", "-n2"]
    prints("New York, overlap: a fixed time occurs in the first pass", overlap, """
30 1 * * * in America/New_York, after 2025-11-01T12:00:00Z
local                    offset  UTC
Sun 2025-11-02 01:30:00  -04:00  2025-11-02T05:30:00Z  first pass
Mon 2025-11-03 01:30:00  -05:00  2025-11-03T06:30:00Z
""")
    prints("New York, overlap: --all shows the second pass", overlap + ["--all"], """
30 1 * * * in America/New_York, after 2025-11-01T12:00:00Z
local                    offset  UTC
Sun 2025-11-02 01:30:00  -04:00  2025-11-02T05:30:00Z  first pass
Sun 2025-11-02 01:30:00  -05:00  2025-11-02T06:30:00Z  dropped: second pass
""")
    prints("New York, overlap: --overlap both", overlap + ["--overlap", "both"], """
30 1 * * * in America/New_York, after 2025-11-01T12:00:00Z
local                    offset  UTC
Sun 2025-11-02 01:30:00  -04:00  2025-11-02T05:30:00Z  first pass
Sun 2025-11-02 01:30:00  -05:00  2025-11-02T06:30:00Z  second pass
""")
    prints("Apia: a gap of a whole day",
           ["cron", "0 12 * * *", "Pacific/Apia", "--from", "2011-12-29T00:00:00Z", "-n", "3"], """
0 12 * * * in Pacific/Apia, after 2011-12-29T00:00:00Z
local                    offset  UTC
Thu 2011-12-29 12:00:00  -10:00  2011-12-29T22:00:00Z
Sat 2011-12-31 00:00:00  +14:00  2011-12-30T10:00:00Z  moved from 2011-12-30 12:00
Sat 2011-12-31 12:00:00  +14:00  2011-12-30T22:00:00Z
""")
    prints("Lord Howe: a gap of 30 minutes, and a second in what was planned",
           ["cron", "7 0 2 * * *", "Australia/Lord_Howe", "--from", "2025-10-03T20:00:00Z", "-n", "2"], """
7 0 2 * * * in Australia/Lord_Howe, after 2025-10-03T20:00:00Z
local                    offset  UTC
Sun 2025-10-05 02:30:00  +11:00  2025-10-04T15:30:00Z  moved from 02:00:07
Mon 2025-10-06 02:00:07  +11:00  2025-10-05T15:00:07Z
""")
    prints("Lord Howe: an overlap of 30 minutes, for an interval",
           ["cron", "@every 30m", "Australia/Lord_Howe", "--from", "2025-04-05T14:00:00Z", "-n", "3"], """
@every 30m in Australia/Lord_Howe, after 2025-04-05T14:00:00Z
local                    offset  UTC
Sun 2025-04-06 01:30:00  +11:00  2025-04-05T14:30:00Z  first pass
Sun 2025-04-06 01:30:00  +10:30  2025-04-05T15:00:00Z  second pass
Sun 2025-04-06 02:00:00  +10:30  2025-04-05T15:30:00Z
""")
    prints("offsets with seconds keep the columns aligned",
           ["cron", "@yearly", "America/New_York", "--from", "1883-01-01T00:00:00Z", "-n", "2"], """
@yearly in America/New_York, after 1883-01-01T00:00:00Z
local                    offset     UTC
Mon 1883-01-01 00:00:00  -04:56:02  1883-01-01T04:56:02Z
Tue 1884-01-01 00:00:00  -05:00     1884-01-01T05:00:00Z
""")
    prints("intervals below a second show their fractions",
           ["cron", "@every 250ms", "UTC", "--from", "1969-12-31T23:59:59.5Z", "-n", "3"], """
@every 250ms in UTC, after 1969-12-31T23:59:59.500Z
local                        offset  UTC
Wed 1969-12-31 23:59:59.750  +00:00  1969-12-31T23:59:59.750Z
Thu 1970-01-01 00:00:00.000  +00:00  1970-01-01T00:00:00.000Z
Thu 1970-01-01 00:00:00.250  +00:00  1970-01-01T00:00:00.250Z
""")
    for rule, expected in {"auto": "2025-06-06", "either": "2025-06-06", "both": "2025-06-13"}.items():
        rows = rows_of("0 0 13 * 5", "UTC", "--from", "2025-06-01T00:00Z", "-n1", "--days", rule)
        check(f"--days {rule}", members(rows, "utc"), [(f"{expected}T00:00:00Z",)])
    rows = rows_of("0 0 */2 * 5", "UTC", "--from", "2025-06-01T00:00Z", "-n1", "--days", "either")
    check("--days either counts */2", members(rows, "utc"), [("2025-06-03T00:00:00Z",)])


def json_rows():
    rows = rows_of("30 2 * * *", "America/New_York", "--from", "2025-03-08T12:00:00Z", "-n", "1")
    check("all members of an object", rows, [{
        "utc": "2025-03-09T07:00:00Z", "local": "2025-03-09T03:00:00", "offset": "-04:00", "flag": "moved",
        "occurs": True, "planned": "2025-03-09T02:30:00", "skipped": 1, "rule": "fixed-time",
        "zone": "America/New_York"}])
    _, out, _ = run("cron", "*/30 * * * *", "America/New_York", "--from", "2025-11-02T04:00:00Z", "--json")
    tool = subprocess.run([sys.executable, "-m", "json.tool"], input=out, capture_output=True)
    check("python3 -m json.tool reads it", (tool.returncode, tool.stderr), (0, b""))
    rows = rows_of("30 1,2 * * *", "America/New_York", "--from", "2025-11-01T12:00:00Z", "-n", "4", "--all")
    check("flags of an overlap", members(rows, "utc", "flag", "occurs", "offset"), [
        ("2025-11-02T05:30:00Z", "first", True, "-04:00"), ("2025-11-02T06:30:00Z", "dropped", False, "-05:00"),
        ("2025-11-02T07:30:00Z", "plain", True, "-05:00"), ("2025-11-03T06:30:00Z", "plain", True, "-05:00")])
    rows = rows_of("*/30 * * * *", "America/New_York", "--from", "2025-11-02T05:00:00Z", "-n", "3")
    check("flags of an expression that follows real time", members(rows, "utc", "flag", "rule"), [
        ("2025-11-02T05:30:00Z", "first", "real-time"), ("2025-11-02T06:00:00Z", "second", "real-time"),
        ("2025-11-02T06:30:00Z", "second", "real-time")])
    rows = rows_of("30 2 * * *", "America/New_York", "--from", "2025-03-08T12:00:00Z", "-n", "1", "--all",
                   "--gap", "skip")
    check("a time that a gap dropped", members(rows, "flag", "occurs", "planned", "rule"),
          [("dropped", False, "2025-03-09T02:30:00", "gap-skip")])
    rows = rows_of("*/30 2 * * *", "America/New_York", "--from", "2025-03-08T12:00:00Z", "-n", "1", "--all")
    check("a time that follows real time and that a gap dropped",
          members(rows, "utc", "flag", "occurs", "planned", "skipped", "rule"),
          [("2025-03-09T07:00:00Z", "dropped", False, "2025-03-09T02:00:00", 2, "real-time")])
    rows = rows_of("@every 1us", "UTC", "--from", "@0", "-n", "2")
    check("an interval", members(rows, "utc", "local", "rule"), [
        ("1970-01-01T00:00:00.000001Z", "1970-01-01T00:00:00.000001", "interval"),
        ("1970-01-01T00:00:00.000002Z", "1970-01-01T00:00:00.000002", "interval")])
    with tempfile.TemporaryDirectory() as folder:
        names = {b'quote" back\\slash': 'quote" back\\slash', "Zürich".encode(): "Zürich", b"bad\xff\xc3": "bad��"}
        for name, shown in names.items():
            first = b"TZif2" + bytes(15) + bytes(16) + b"\0\0\0\1\0\0\0\4" + b"\0\0\x0e\x10\0\0ABC\0"
            with open(os.path.join(os.fsencode(folder), name), "wb") as f:
                f.write(first + first + b"\nABC-1\n")
            rows = rows_of("0 0 * * *", name, "--from=@0", "-n1", env={"TZDIR": folder})
            check(f"zone {name}", members(rows, "zone", "utc"), [(shown, "1970-01-01T23:00:00Z")])


def calendar_dates():
    """Every date from 1678 to 2261, in UTC, as Python writes it; in parts of as many rows as are allowed."""
    at, end, n = datetime(1678, 1, 1, 12, tzinfo=timezone.utc), datetime(2262, 1, 1, tzinfo=timezone.utc), 0
    while at < end:
        rows = rows_of("0 12 * * *", "UTC", "--from", (at - timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ"),
                       "-n", "100000")
        wrong = [row["utc"] for i, row in enumerate(rows)
                 if row["utc"] != (at + timedelta(days=i)).strftime("%Y-%m-%dT%H:%M:%SZ")]
        check(f"dates after {at}", (bool(rows), wrong), (True, []))
        if not rows:
            return
        at += timedelta(days=len(rows))
        n += len(rows)
    check("all days of 584 years", n, (end - datetime(1678, 1, 1, tzinfo=timezone.utc)).days)


def how_many():
    head = "* * * * * in UTC, after 1970-01-01T00:00:00Z\nlocal                    offset  UTC\n"
    prints("-n 0", ["cron", "* * * * *", "UTC", "--from", "@0", "-n", "0"], head)
    prints("-n 0 --json", ["cron", "* * * * *", "UTC", "--from", "@0", "-n", "0", "--json"], "[]\n")
    check("the default is ten rows", len(rows_of("* * * * *", "UTC", "--from", "@0")), 10)
    check("the greatest number of rows", len(rows_of("* * * * *", "UTC", "--from", "@0", "-n100000")), 100000)
    for n in ("100001", "99999999999999999999999999", "-1", "+1", "", "1e3", "0x10", " 1", "1 ", "ten"):
        refuses(f"-n '{n}'", 2, ["cron", "* * * * *", "-n", n],
                f"uvsched: -n is '{n}': write a number from 0 to 100000\nTry: uvsched cron --help\n")
    last = ["cron", "0 0 * * *", "UTC", "--from"]
    prints("fewer rows than asked for", last + ["2261-12-30T00:00:00Z"], """
0 0 * * * in UTC, after 2261-12-30T00:00:00Z
local                    offset  UTC
Tue 2261-12-31 00:00:00  +00:00  2261-12-31T00:00:00Z
no more before 2262
""")
    prints("no rows", last + ["2261-12-31T00:00:00Z"], """
0 0 * * * in UTC, after 2261-12-31T00:00:00Z
local                    offset  UTC
none before 2262
""")
    check("no rows, JSON", rows_of(*last[1:], "2261-12-31T00:00:00Z"), [])
    rows = rows_of("@every 12h", "UTC", "--from", "2261-12-31T00:00:00Z")
    check("an interval ends with 2261", members(rows, "utc"), [("2261-12-31T12:00:00Z",)])
    check("an interval of 200 years", len(rows_of("@every 10000w", "UTC", "--from", "1700-01-01T00:00Z")), 2)


def from_forms():
    def first(text):
        return members(rows_of("* * * * * *", "UTC", "-n1", "--from", text), "utc")[0][0]

    for text, expected in {
            "2025-03-09T07:00:00Z": "2025-03-09T07:00:01Z",  # strictly after
            "2025-03-09t07:00:00z": "2025-03-09T07:00:01Z",
            "2025-03-09 07:00Z": "2025-03-09T07:00:01Z",
            "2025-03-09T06:59:59.999999999Z": "2025-03-09T07:00:00Z",
            "2025-03-09T08:00:00+01:00": "2025-03-09T07:00:01Z",
            "2025-03-09T01:30:00-05:30": "2025-03-09T07:00:01Z",
            "2024-12-31T23:59:00-00:01": "2025-01-01T00:00:01Z",
            "2024-02-29T00:00:00Z": "2024-02-29T00:00:01Z",
            "@1741503600": "2025-03-09T07:00:01Z",
            "@0": "1970-01-01T00:00:01Z",
            "@-1": "1970-01-01T00:00:00Z",
            "1969-12-31T23:59:58.5Z": "1969-12-31T23:59:59Z",
            "1678-01-01T00:00:00Z": "1678-01-01T00:00:01Z",
            "2261-12-31T23:59:58Z": "2261-12-31T23:59:59Z",
            "@-9214560000": "1678-01-01T00:00:01Z",
            "@9214646398": "2261-12-31T23:59:59Z",
    }.items():
        check(f"--from {text}", first(text), expected)

    form = "write it as 2025-03-09T07:00:00Z, 2025-03-09T08:00:00+01:00, @SECONDS since 1970, or now"
    years = "write an instant in the years 1678 to 2261 (UTC)"
    date = "there is no such date"
    hour = "there is no such time: hours are 00-23, minutes and seconds are 00-59"
    seconds = "write seconds since 1970 after the @, such as @1741503600"
    offset = "this time has no offset to UTC: add Z for UTC, or an offset such as +01:00"
    for text, why in {
            "2025-03-09T07:00:00": offset, "2025-03-09 07:00": offset, "": form, "yesterday": form, "Now": form,
            "2025-03-09": form, "2025-3-9T07:00:00Z": form, "2025-03-09T07Z": form, "2025-03-09T07:00:00 Z": form,
            "2025-03-09T07:00:00ZZ": form, "2025-03-09T07:00:00.Z": form, "2025-03-09T07:00:00.1234567890Z": form,
            "2025-03-09T07:00:00+1": form, "2025-03-09T07:00:00+0100": form, "2025-03-09T07:00:00+26:00": form,
            "2025-03-09T07:00:00+01:60": form, "+2025-03-09T07:00:00Z": form, "12025-03-09T07:00:00Z": form,
            "2025-02-29T00:00:00Z": date, "2025-13-01T00:00:00Z": date, "2025-00-01T00:00:00Z": date,
            "2025-04-31T00:00:00Z": date, "2025-04-00T00:00:00Z": date, "1900-02-29T00:00:00Z": date,
            "2025-03-09T24:00:00Z": hour, "2025-03-09T23:60:00Z": hour, "2016-12-31T23:59:60Z": hour,
            "1677-12-31T23:59:59Z": years, "2262-01-01T00:00:00Z": years, "0000-01-01T00:00:00Z": years,
            "2261-12-31T23:59:59-00:01": years, "9999-12-31T23:59:59Z": years, "@9214646400": years,
            "@-9214560001": years, "@99999999999999999999999999999": years, "@-99999999999999999999999": years,
            "@": seconds, "@-": seconds, "@1.5": seconds, "@+1": seconds, "@1x": seconds,
    }.items():
        refuses(f"--from '{text}'", 2, ["cron", "* * * * *", "--from", text],
                f"uvsched: --from is '{text}': {why}\nTry: uvsched cron --help\n")
    before = datetime.now(timezone.utc).replace(microsecond=0)
    at = datetime.strptime(first("now"), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
    check("--from now is not before the test began", at > before)


def local_zone():
    head = "local                    offset  UTC\n"
    prints("the default zone is that of TZ", ["cron", "0 9 * * *", "--from", "2025-07-01T00:00Z", "-n1"],
           "0 9 * * * in Local (TZ=Europe/Berlin), after 2025-07-01T00:00:00Z\n" + head +
           "Tue 2025-07-01 09:00:00  +02:00  2025-07-01T07:00:00Z\n", env={"TZ": "Europe/Berlin"})
    prints("a rule in TZ", ["cron", "@daily", "Local", "--from", "@0", "-n1"],
           "@daily in Local (TZ=ABC-1), after 1970-01-01T00:00:00Z\n" + head +
           "Fri 1970-01-02 00:00:00  +01:00  1970-01-01T23:00:00Z\n", env={"TZ": "ABC-1"})
    status, out, _ = run("cron", "@daily", "--from", "@0", "-n0")
    check("without TZ", (status, out.split(b"\n")[0]),
          (0, b"@daily in Local (/etc/localtime), after 1970-01-01T00:00:00Z"))
    check("the zone of JSON", members(rows_of("@daily", "--from=@0", "-n1", env={"TZ": "UTC"}), "zone"), [("Local",)])


def refused():
    refuses("the caret is under the column", 1, ["cron", "0 9 * * FRI-MON"], """
uvsched: FRI-MON wraps round: write FRI,SAT,SUN,MON
  0 9 * * FRI-MON
          ^
""")
    refuses("an error in the first column, and --json", 1, ["cron", "60 * * * *", "UTC", "--json"], """
uvsched: minute 60 is out of range 0-59
  60 * * * *
  ^
""")
    status, out, err = run("cron", "0\t9 * é\x1b[31m *")
    lines = err.decode("ascii").splitlines()
    check("tabs, control characters and non-ASCII do not move the caret",
          (status, out, lines[1:]), (1, b"", ["  0?9 * ???[31m *", "        ^"]))
    refuses("no such zone", 1, ["cron", "0 9 * * *", "Europe/Atlantis"],
            'uvsched: there is no zone "Europe/Atlantis" (is tzdata installed?)\n')
    refuses("a zone that is not allowed", 1, ["cron", "0 9 * * *", "../etc/passwd"],
            "uvsched: a part of the zone's name is empty or begins with a dot\n")
    refuses("an empty zone", 1, ["cron", "0 9 * * *", ""], "uvsched: the name of the zone is empty\n")

    more = "\nTry: uvsched cron --help\n"
    for args, why in {
            (): "an expression is missing, such as \"0 9 * * 1-5\"",
            ("--json",): "an expression is missing, such as \"0 9 * * 1-5\"",
            ("0", "9", "*", "*", "1-5"): "5 arguments are too many: put the expression into quotes, as in uvsched "
                                         "cron \"0 9 * * 1-5\" Europe/Berlin",
            ("--form", "now", "* * * * *"): "there is no option '--form'; if it is not an option, write -- before it",
            ("--fromage=now",): "there is no option '--fromage=now'; if it is not an option, write -- before it",
            ("-x",): "there is no option '-x'; if it is not an option, write -- before it",
            ("* * * * *", "--from"): "--from needs a value after it",
            ("* * * * *", "-n"): "-n needs a value after it",
            ("* * * * *", "--json=1"): "--json takes no value: write only --json",
            ("* * * * *", "--days", "all"): "--days is 'all': write one of these: auto either both",
            ("* * * * *", "--days", ""): "--days is '': write one of these: auto either both",
            ("* * * * *", "--gap", "before"): "--gap is 'before': write one of these: after skip",
            ("* * * * *", "--overlap=second"): "--overlap is 'second': write one of these: first both",
    }.items():
        refuses(f"cron {args}", 2, ["cron", *args], f"uvsched: {why}{more}")
    refuses("a bad expression that begins with a minus", 1, ["cron", "-5 * * * *", "UTC"], """
uvsched: '-5' is not a minute: write a number from 0 to 59
  -5 * * * *
  ^
""")
    status, _, err = run("cron", "--", "-n * * * *")
    check("-- ends the options", (status, err.splitlines()[1:]), (1, [b"  -n * * * *", b"  ^"]))
    refuses("no such command", 2, ["corn"], "uvsched: there is no command 'corn'\nTry: uvsched --help\n")
    refuses("no such command, hostile", 2, [b"\x1b[2J\xff"], "uvsched: there is no command '?[2J?'\nTry: uvsched --help\n")
    refuses("no such option", 2, ["--verbose"], "uvsched: there is no option '--verbose'\nTry: uvsched --help\n")


def help_and_version():
    status, text, err = run("--help")
    check("--help", (status, err, b"  cron " in text), (0, b"", True))
    check("-h is --help", run("-h"), (0, text, b""))
    check("without a command: the help, on stderr", run(), (2, b"", text))
    status, out, err = run("--version")
    check("--version", (status, bool(re.fullmatch(rb"uvsched \d+\.\d+\.\d+\n", out)), err), (0, True, b""))
    status, text, err = run("cron", "--help")
    options = set(re.findall(r"^  (-[-\w]+)", text.decode(), re.M))
    check("cron --help names every option", (status, options, err),
          (0, {"-n", "--from", "--json", "--all", "--days", "--gap", "--overlap", "--help"}, b""))
    check("the help fits a terminal", max(map(len, text.splitlines())) <= 100)
    check("--help anywhere", run("cron", "* * * * *", "-h"), (0, text, b""))


def write_errors():
    program.write_errors(["cron", "* * * * *", "UTC", "-n100000"], ["cron", "* * * * *", "UTC", "-n3", "--json"],
                         ["--help"], ["--version"])
    with subprocess.Popen([UVSCHED, "cron", "* * * * *", "UTC", "-n100000"], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, env=ENV) as p:
        p.stdout.readline()
        p.stdout.close()
        check("a reader that stops early", (p.wait(), p.stderr.read()), (1, b""))


def colours():
    args = ["cron", "30 2 * * *", "America/New_York", "--from", "2025-03-08T12:00:00Z", "-n1"]

    _, plain, _ = run(*args)
    coloured = on_terminal("colours", args, {"TERM": "xterm", "NO_COLOR": ""})
    check("colours on a terminal", b"\033[33mmoved from 02:30\033[0m" in coloured)
    check("colours change nothing else", re.sub(rb"\033\[\d+m", b"", coloured), plain)
    check("NO_COLOR", on_terminal("NO_COLOR", args, {"TERM": "xterm", "NO_COLOR": "1"}), plain)
    check("TERM=dumb", on_terminal("dumb", args, {"TERM": "dumb"}), plain)
    check("no colours in JSON", b"\033" in on_terminal("JSON", [*args, "--json"], {"TERM": "xterm"}), False)
    check("no colours in a pipe", b"\033" in plain, False)


def locales():
    args = ["cron", "30 2 * * *", "UTC", "--from=@0", "-n2"]
    check("the locale does not matter", run(*args, env={"LC_ALL": "de_DE.UTF-8", "LANGUAGE": "de"}), run(*args))


def hostile():
    """Odd arguments: the program ends with 0, 1 or 2, and what it prints cannot harm a terminal."""
    chosen = random.Random(17)
    long = "9" * 5000
    odd = [b"", b"-", b"--", b"---", b"=", b"--=", b"-n", b"--from", b"%s%n%s%n", b"%1000000d", b"\xff\xfe", b"\x1b]0;x\x07",
           b"\x7f", "é∞".encode(), b"* * * * *", b"*/0 * * * *", b"@every 1ns", b"@every 999999w", b"@every", b"@",
           b"0 0 31 2 *", b"0 0 29 2 1", b"0 0 L * *", b"0 0 LW * 5#5", long.encode(), b"* " * 3000, b"*," * 3000,
           b"1-" * 2000, b"UTC", b"Local", b"Europe/Berlin", b"/etc/passwd", b"../../etc/passwd", b"a/" * 300, b".",
           b"America", b"zone.tab", b"--json", b"--all", b"--gap=skip", b"--overlap=both", b"--days=both", b"-n3", b"-n0",
           b"-n100000000000000000000", b"--from=@-9214560000", b"--from=@9214646399", b"--from=now", b"--from=",
           b"--from=2025-03-09T07:00:00" + b"9" * 3000, b"--from=" + b"@" * 3000, b"\n", b"\t \t", b"0 9 * * MON\n",
           b"? ? ? ? ?", b"60 60 60 60 60", b"0-59/1 * * * * *", b"--help", b"--version", b"cron", b"-h", b"--json=",
           b"-nn", b"--days", b"18446744073709551616 * * * *", b"-1 * * * *"]
    ends = set()
    for i in range(200):
        args = [b"cron"] if chosen.random() < 0.95 else []
        if chosen.random() < 0.6:
            args += [b"--from=@0", b"-n5"]
        args += [chosen.choice(odd) for _ in range(chosen.randrange(1, 4))]
        env = {"TZ": chosen.choice(["", ":", ":" * 300, "%s", "\x1b[2J", "/dev/zero", "EST5EDT", "A" * 3000])} \
            if chosen.random() < 0.3 else {}
        status, out, err = run(*args, env=env)
        ends.add(status)
        good = status in (0, 1, 2) and re.fullmatch(rb"[\n\x20-\x7e]*", err) and re.fullmatch(rb"[\n\x20-\x7e]*", out) \
            and (status == 0) == (err == b"") and (status == 0) == (out != b"")
        check(f"hostile {i}: {[a[:60] for a in args]} {env}: {status} {out[:200]} {err[:2000]}", bool(good))
        if good and status == 0 and b"--json" in args and not {b"--help", b"-h"} & set(args):
            check(f"hostile {i}: JSON", isinstance(json.loads(out), list))
    check("hostile arguments reach all exit statuses", ends, {0, 1, 2})


def page():
    program.page(PAGE, "cron", 4)


if run("cron", "@daily", "America/New_York", "-n0")[0] != 0:
    print("skipped: this system has no tzdata")
    sys.exit(77)
for part in (hard_cases, json_rows, calendar_dates, how_many, from_forms, local_zone, refused, help_and_version,
             write_errors, colours, locales, hostile, page):
    part()
program.finish()
