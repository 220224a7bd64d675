#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""zones.py OFFSETS [--random N]: compare our zone reader with Python's zoneinfo.

OFFSETS is the test program offsets.c. For every zone of the system it is asked, from 1900 to 2100,
for the offset at each transition, one second before and one after, and at N random instants (SEED
chooses them). A transition is an instant that the file lists, or that OFFSETS names, or that a
search of zoneinfo finds: steps of 30 days, then bisection.

Exit status 1 on any difference; 77, skipped, without zoneinfo or tzdata.
"""
import argparse
import os
import random
import struct
import subprocess
import sys
from datetime import datetime, timedelta, timezone

try:
    import zoneinfo
except ImportError:
    print("skipped: this Python has no zoneinfo")
    sys.exit(77)

EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
BEGIN = int((datetime(1900, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds())
END = int((datetime(2100, 1, 1, tzinfo=timezone.utc) - EPOCH).total_seconds())
STEP = 30 * 86400


def offset(zone, at):
    return round(datetime.fromtimestamp(at, zone).utcoffset().total_seconds())


def listed(image):
    """The instants in the 64-bit block of a TZif file."""
    def counts(at):
        return struct.unpack(">6l", image[at + 20:at + 44])

    ut, std, leap, times, types, chars = counts(0)
    at = 44 + times * 5 + types * 6 + chars + leap * 8 + std + ut
    times = counts(at)[3]
    return struct.unpack(f">{times}q", image[at + 44:at + 44 + 8 * times])


def searched(zone):
    """The transitions that a search finds."""
    found = []
    before = offset(zone, BEGIN)
    for at in range(BEGIN + STEP, END, STEP):
        after = offset(zone, at)
        if after != before:
            low, high = at - STEP, at
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (low, middle) if offset(zone, middle) != before else (middle, high)
            found.append(high)
        before = after
    return found


def ask(program, names, instants):
    """{name: a list of (offset, start, end, before)}"""
    lines = []
    for name in names:
        lines.append(f"zone {name}")
        lines += map(str, instants[name])
    run = subprocess.run([program], input="\n".join(lines) + "\n", text=True, capture_output=True)
    said = run.stdout.splitlines()
    if run.returncode != 0 or len(said) > len(lines):
        sys.exit(f"zones: {program} failed: {said[-1:]} {run.stderr}")
    answers, at = {}, 0
    for name in names:
        first, at = said[at], at + 1
        if first != "ok":
            sys.exit(f"zones: {name}: {first}")
        n = len(instants[name])
        answers[name] = [tuple(map(int, line.split())) for line in said[at:at + n]]
        at += n
    return answers


def check_leap_seconds(program, folder):
    """Zones that count leap seconds are refused, with a reason."""
    if not os.path.exists(os.path.join(folder, "right/Europe/Berlin")):
        return
    said = subprocess.run([program], input="zone right/Europe/Berlin\n", text=True, capture_output=True).stdout
    if not said.startswith("refused ") or "leap seconds" not in said:
        sys.exit(f"zones: right/Europe/Berlin: {said}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--random", type=int, default=100)
    args = parser.parse_args()
    seed = int(os.environ.get("SEED") or random.randrange(1 << 32))
    chance = random.Random(seed)
    print(f"SEED={seed}")

    # Where zoneinfo looks is where our reader must look.
    folder = next((p for p in zoneinfo.TZPATH if os.path.exists(os.path.join(p, "Europe/Berlin"))), None)
    if folder is None:
        print("skipped: tzdata is not installed")
        return 77
    os.environ["TZDIR"] = folder
    names = sorted(n for n in zoneinfo.available_timezones() if os.path.exists(os.path.join(folder, n)))
    if len(names) < 300:
        sys.exit(f"zones: only {len(names)} zones in {folder}")

    check_leap_seconds(args.program, folder)
    images = {}
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            images[name] = file.read()
    # Our own transitions: the starts of the spans that contain the steps of a search.
    steps = {name: range(BEGIN, END, STEP) for name in {images[n]: n for n in names}.values()}
    ours = {images[name]: {start for _, start, _, _ in spans if BEGIN < start < END}
            for name, spans in ask(args.program, list(steps), steps).items()}

    known = {}  # image: (instants, offsets); many zones are links
    instants, wrong, count = {}, 0, 0
    for name in names:
        image = images[name]
        zone = zoneinfo.ZoneInfo(name)
        if image not in known:
            marks = ours[image] | {at for at in listed(image) if BEGIN < at < END} | set(searched(zone))
            points = {at + d for at in marks for d in (-1, 0, 1)}
            points |= {chance.randrange(BEGIN, END) for _ in range(args.random)}
            points = sorted(points)
            known[image] = points, [offset(zone, at) for at in points]
        instants[name] = known[image][0]
    answers = ask(args.program, names, instants)
    for name in names:
        for at, expected, got in zip(instants[name], known[images[name]][1], answers[name]):
            count += 1
            if got[0] != expected:
                wrong += 1
                if wrong <= 20:
                    print(f"{name} at {at} ({EPOCH + timedelta(seconds=at)}): {got[0]}, zoneinfo says {expected}")
    print(f"{len(names)} zones, {len(known)} different, {count} instants, {wrong} differences")
    return 1 if wrong or count < 1000 * 100 else 0


if __name__ == "__main__":
    sys.exit(main())
