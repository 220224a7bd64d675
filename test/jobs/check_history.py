#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_history.py: does history.py notice each thing that must not happen, and nothing else?

A case is a list of lines, each with a time in s, and the beginning of the error that must be found;
None: there must be none."""
import sys
import tempfile

import history

SETTINGS = '0 - settings {"places": 1, "lease": 3.0, "timeout": 0.5}'
PUT = ["1 A ask q/1 1000 500", "1 A put q/1"]
RUN = ["2 A run q/1 5 1600 0", "2 A end q/1 5"]
AGAIN = ["8 B run q/1 6 8000 1", "8 B end q/1 6"]
WITHOUT = "runs again without a reason"

CASES = {
    "a job that runs is fine": (PUT + RUN, None),
    "a job that is left is fine": (PUT + ["3 D left q/1"], None),
    "a job that never runs is lost": (PUT, "lost: q/1"),
    "a run that does not end is lost": (PUT + RUN[:1], "lost: q/1"),
    "a put without an answer may be lost": (PUT[:1], None),
    "a job whose cancel was asked for may be gone": (PUT + ["2 A cancel q/1"], None),
    "a cancelled job must not run": (PUT + ["2 A gone q/1"] + RUN, "runs, although it was cancel"),
    "a job that ran was not cancelled": (PUT + RUN + ["3 A gone q/1"], "cancelled, but had run"),
    "a cancelled job must not be left": (["2 A gone q/1", "3 D left q/1"], "pending, although"),
    "a run may come at its time": (PUT + ["2 A run q/1 5 1500 0", "2 A end q/1 5"], None),
    "a run must not come before its time":
        (PUT + ["2 A run q/1 5 1499 0", "2 A end q/1 5"], "runs 1 us early"),
    "the store's clock counts": (["0 - clock 100 100"] + PUT + ["1 - clock 0 0"] + RUN, None),
    "a clock that was set back makes later runs early":
        (["0 - clock 1000 1000"] + PUT + ["1 - clock 0 0", "1 A run q/2 1 9 0", "1 A end q/2 1",
         "1 A ask q/3 1000 500", "1 A run q/3 1 900 0", "1 A end q/3 1"] + RUN, "runs 900 us early"),
    "a put may be carried out after the clock was set back":
        (["0 - clock 9000 9000", PUT[0], "1 - clock 0 0", PUT[1], "1 - clock 1 1", "1 - clock 1 1"]
         + RUN, None),
    "one run in each place may have been claimed before the step":
        (["0 - clock 1000 1000"] + PUT + ["1 - clock 0 0"] + RUN, None),
    "a claim must not run twice": (PUT + RUN + RUN, "a claim runs twice"),
    "a process must not run a job that it runs":
        (PUT + RUN[:1] + ["3 A run q/1 6 1700 1", "3 A end q/1 6"], "runs twice at once"),
    "a second run needs a reason": (PUT + RUN + AGAIN, WITHOUT),
    "a kill is a reason": (PUT + RUN + ["3 - killed A 1"] + AGAIN, None),
    "a kill that is noticed late is a reason": (PUT + RUN + AGAIN + ["9 - killed A 1"], None),
    "a kill of another process is none": (PUT + RUN + ["3 - killed B 1"] + AGAIN, WITHOUT),
    "a kill before the first run is none": (["0 - killed A 1"] + PUT + RUN + AGAIN, WITHOUT),
    "a process that still writes was not killed":
        (PUT + RUN + AGAIN + ["8.5 A put q/7", "8.5 A left q/7", "9 - killed A 1"], WITHOUT),
    "a kill explains no more runs than there were places":
        (PUT + RUN + ["2 A run q/2 5 9 0", "2 A end q/2 5", "3 - killed A 1"] + AGAIN +
         ["8 B run q/2 6 9 1", "8 B end q/2 6"], "runs again after killed, but that explains 1"),
    "a long stop is a reason":
        (PUT + RUN + ["3 - begin 1 stop A 1", "6 - over 1"] + AGAIN, None),
    "a short stop is none":
        (PUT + RUN + ["3 - begin 1 stop A 1", "4 - over 1"] + AGAIN, WITHOUT),
    "a stop after the second run is none":
        (PUT + RUN + AGAIN + ["9 - begin 1 stop A 1", "15 - over 1"], WITHOUT),
    "a stop before the first run is none":
        (["0 - begin 1 stop A 1", "0.5 - over 1"] + PUT + RUN + AGAIN, WITHOUT),
    "a stopped process tells its run late":
        (PUT + ["1.5 - begin 1 stop A 1"] + AGAIN + ["9 - over 1"] +
         ["9 A run q/1 5 9000 0", "9 A end q/1 5"], None),
    "a short fault is a reason if the connection comes back late":
        (PUT + RUN + ["3 - begin 1 cut * 2", "3.2 A down", "4 - over 1", "5.5 A up"] + AGAIN, None),
    "a short fault is none":
        (PUT + RUN + ["3 - begin 1 cut * 2", "3.2 A down", "4 - over 1", "4.1 A up"] + AGAIN,
         WITHOUT),
    "a flush is a reason, and may lose puts before it":
        (PUT + RUN + ["3 A ask q/2 1 1", "3 A put q/2", "3 - begin 1 flush * *", "3 - flushed",
         "3 - over 1"] + AGAIN, None),
    "a flush loses no later puts":
        (["0 - begin 1 flush * *", "0 - flushed", "0 - over 1"] + PUT, "lost: q/1"),
    "a machine that was slow is a reason": (PUT + RUN + ["4 B slow 1500"] + AGAIN, None),
    "a machine that was slow at another time is none":
        (PUT + RUN + AGAIN + ["20 B slow 1500"], WITHOUT),
    "being slow because of a short stop is none":
        (PUT + RUN + ["3 - begin 1 stop A 1", "4 - over 1", "4 A slow 1000"] + AGAIN, WITHOUT),
    "a crash of the server may lose nothing":
        (PUT + ["1.5 - begin 1 server * 1", "9 - over 1"], "lost: q/1"),
    "a crash may lose the last puts where that was said":
        (['0 - settings {"window": 2.0}'] + PUT + ["1.5 - begin 1 server * 1", "9 - over 1"], None),
    "but no older ones":
        (['0 - settings {"window": 2.0}'] + PUT + ["3.5 - begin 1 server * 1", "9 - over 1"],
         "lost: q/1"),
    "the result of the last claim is fine":
        (PUT + RUN + ["3 - killed A 1"] + AGAIN + ["9 D done q/1 6"], None),
    "the result of an earlier claim is stale":
        (PUT + RUN + ["3 - killed A 1"] + AGAIN + ["9 D done q/1 5"], "stale: q/1"),
    "no job is dead": (PUT + RUN + ["3 A dead q/1"], "dead: q/1"),
    "an error of a process is one": (["1 A error no memory"], "process A: no memory"),
}


def check(lines):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join([SETTINGS, *lines]) + "\n")
        file.flush()
        return history.read_file(file.name).errors


def main():
    failed = 0
    print(f"1..{len(CASES)}")
    for number, (name, (lines, wanted)) in enumerate(CASES.items(), 1):
        errors = check(lines)
        good = any(e.startswith(wanted) for e in errors) if wanted else not errors
        print(f"{'ok' if good else 'not ok'} {number} - {name}{'' if good else f': {errors}'}")
        failed += not good
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
