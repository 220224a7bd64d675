#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""brute ASK [--cases N] [--seed N]: calendars compared with brute force.

Each case is a random expression, zone and start near a transition of the zone. Python's zoneinfo
gives the local time of every minute of a window around the start (of every second, if the
expression has six fields). `occurs` is the whole rule. ASK is the program ask-calendar, whose
answers must lie in the window and be the same.

Prints the seed, and each difference. Exit status 1 if there is one.
"""
import argparse
import calendar
import collections
import datetime
import os
import random
import subprocess
import sys
import zoneinfo

MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
WEEKDAYS = "SUN MON TUE WED THU FRI SAT".split()
UTC = datetime.timezone.utc
AUTO, EITHER, BOTH = range(3)

# ---------------------------------------------------------------- expressions ---

RANGES = {"second": (0, 59), "minute": (0, 59), "hour": (0, 23), "day": (1, 31), "month": (1, 12),
          "weekday": (0, 6)}


def value(text, name):
    """A number, or a name of a month or weekday."""
    text = text.upper()
    if name == "month" and text in MONTHS:
        return MONTHS.index(text) + 1
    if name == "weekday" and text in WEEKDAYS:
        return WEEKDAYS.index(text)
    return int(text)


def plain(item, name):
    """The numbers that one item of a list stands for."""
    low, high = RANGES[name]
    item, _, step = item.partition("/")
    if item in ("*", "?"):
        first, last = low, high
    else:
        a, dash, b = item.partition("-")
        first = value(a, name)
        last = value(b, name) if dash else high if step else first
        if name == "weekday" and dash and last == 0 and first > 0:
            last = 7
    return {n % 7 if name == "weekday" else n for n in range(first, last + 1, int(step or 1))}


def day_matches(field, d):
    """Day of month. d is a date."""
    last = calendar.monthrange(d.year, d.month)[1]

    def workdays():
        return [n for n in range(1, last + 1) if datetime.date(d.year, d.month, n).weekday() < 5]

    for item in field.upper().split(","):
        if item == "L":
            hit = d.day == last
        elif item == "LW":
            hit = d.day == workdays()[-1]
        elif item.endswith("W"):
            n = int(item[:-1])
            hit = n <= last and d.day == min(workdays(), key=lambda w: abs(w - n))
        else:
            hit = d.day in plain(item, "day")
        if hit:
            return True
    return False


def weekday_matches(field, d):
    """Day of week."""
    today = d.isoweekday() % 7
    last = calendar.monthrange(d.year, d.month)[1]
    for item in field.upper().split(","):
        if "#" in item:
            w, _, k = item.partition("#")
            hit = value(w, "weekday") % 7 == today and (d.day - 1) // 7 + 1 == int(k)
        elif item.endswith("L"):
            hit = value(item[:-1], "weekday") % 7 == today and d.day + 7 > last
        else:
            hit = today in plain(item, "weekday")
        if hit:
            return True
    return False


class Expression:
    def __init__(self, text, days):
        fields = text.split()
        if len(fields) == 5:
            fields.insert(0, "0")
        self.fields = fields
        self.real_time = fields[1][0] in "*?" or fields[2][0] in "*?"
        self.sets = [set().union(*(plain(i, name) for i in fields[n].split(",")))
                     for n, name in ((0, "second"), (1, "minute"), (2, "hour"), (4, "month"))]
        star = fields[3][0] in "*?" or fields[5][0] in "*?"
        bare = fields[3] in "*?" or fields[5] in "*?"
        self.both = {AUTO: star, EITHER: bare, BOTH: True}[days]
        self.dates = {}

    def date_matches(self, d):
        if d not in self.dates:
            how = all if self.both else any
            self.dates[d] = d.month in self.sets[3] and how(
                (day_matches(self.fields[3], d), weekday_matches(self.fields[5], d)))
        return self.dates[d]

    def matches(self, t):
        """Does the expression contain the local time t?"""
        return (t.minute in self.sets[1] and t.hour in self.sets[2] and t.second in self.sets[0]
                and self.date_matches(t.date()))


# ----------------------------------------------------------------- the rule ---


def local_of(zone, at):
    return datetime.datetime.fromtimestamp(at, UTC).astimezone(zone)


def walk(zone, first, last, step):
    """Every step from first to last: (instant, local time, fold, seconds that the clock was set
    forward since the step before)."""
    steps = []
    before = local_of(zone, first - step).utcoffset()
    for at in range(first, last + 1, step):
        t = local_of(zone, at)
        gap = int((t.utcoffset() - before).total_seconds())
        steps.append((at, t.replace(tzinfo=None), t.fold, gap))
        before = t.utcoffset()
    return steps


def occurs(e, local, fold, gap, step, skip_gap, both_passes):
    """The rule."""
    if e.matches(local):
        if e.real_time or both_passes or fold == 0:
            return True
    if e.real_time or skip_gap or gap <= 0:
        return False
    return any(e.matches(local - datetime.timedelta(seconds=s)) for s in range(step, gap + 1, step))


# -------------------------------------------------------------------- cases ---

ZONES = """America/New_York Europe/Berlin Europe/London Australia/Lord_Howe America/Santiago
Asia/Tehran Africa/Casablanca Pacific/Apia Asia/Gaza Asia/Kolkata America/St_Johns UTC Europe/Dublin
Antarctica/Troll Pacific/Chatham Asia/Beirut America/Havana America/Asuncion Africa/Cairo
America/Sao_Paulo America/Caracas Asia/Pyongyang Pacific/Kwajalein Antarctica/Casey Asia/Amman
America/Nuuk Pacific/Fakaofo Europe/Lisbon Antarctica/Vostok America/Godthab""".split()
SEARCH_FROM, SEARCH_TO = 1973, 2060  # before, some offsets have seconds


def transitions(zone):
    """The instants at which the offset changes, found by halving."""
    at = [int(datetime.datetime(y, m, 1, tzinfo=UTC).timestamp())
          for y in range(SEARCH_FROM, SEARCH_TO) for m in range(1, 13)]
    found = []
    for a, b in zip(at, at[1:]):
        for c in range(a, b, 86400 * 3):
            low, high = c, min(c + 86400 * 3, b)
            start = local_of(zone, low).utcoffset()
            if start == local_of(zone, high).utcoffset():
                continue
            while high - low > 1:
                middle = (low + high) // 2
                if local_of(zone, middle).utcoffset() == start:
                    low = middle
                else:
                    high = middle
            found.append(high)
    return found or [at[len(at) // 2]]


def random_item(r, name, near):
    low, high = RANGES[name]
    names = {"month": MONTHS, "weekday": WEEKDAYS}.get(name)

    def one(n):
        if names and r.random() < 0.3:
            text = names[n - low]
            return r.choice([text, text.lower(), text.title()])
        return r.choice([str(n), str(n).zfill(2)])

    n = near if r.random() < 0.6 else r.randint(low, high)
    kind = r.random()
    if name == "day" and kind < 0.15:
        return r.choice(["L", "LW", f"{n}W", "l", f"{n}w"])
    if name == "weekday" and kind < 0.2:
        return r.choice([f"{one(n)}L", f"{one(n)}#{r.randint(1, 5)}"])
    if kind < 0.5:
        return "7" if name == "weekday" and n == 0 and r.random() < 0.5 else one(n)
    if kind < 0.65:
        return f"{one(n)}/{r.randint(1, high + 5)}"
    if kind < 0.75:
        return r.choice("*?") + (f"/{r.randint(1, high + 5)}" if r.random() < 0.7 else "")
    m = r.randint(n, high)
    text = f"{one(n)}-{'SUN' if name == 'weekday' and m == 6 and r.random() < 0.3 else one(m)}"
    return text + (f"/{r.randint(1, 9)}" if r.random() < 0.4 else "")


def random_field(r, name, near, star):
    if r.random() < star:
        return r.choice(["*", "*", "*", "?", "*/2", "*/15", "?/7"])
    return ",".join(random_item(r, name, near) for _ in range(r.choice([1, 1, 1, 2, 3])))


def random_place(r, table):
    """A zone, a window around one of its transitions, and the steps in it."""
    name = r.choice(ZONES)
    zone, near = table[name]
    around = r.choice(near)
    step, window = r.choice([(60, 86400)] * 40 + [(60, 86400 * 40)] + [(1, 1800)] * 10)
    first = (around - window) // step * step
    return name, zone, around, step, first, first + 2 * window


def random_case(r, place):
    name, zone, around, step, first, last = place
    # The fields prefer the local times around the transition, also those in a gap.
    t = local_of(zone, around - 1).replace(tzinfo=None)
    t += datetime.timedelta(seconds=r.randint(-4000, 8000))
    fields = [random_field(r, "minute", t.minute, 0.15), random_field(r, "hour", t.hour, 0.2),
              random_field(r, "day", t.day, 0.6), random_field(r, "month", t.month, 0.7),
              random_field(r, "weekday", t.isoweekday() % 7, 0.6)]
    if step == 1:
        fields.insert(0, random_field(r, "second", 0, 0.2))
    options = (0, 0, 0) if r.random() < 0.7 else (r.randint(0, 2), r.randint(0, 1), r.randint(0, 1))
    return r.choice([" ", " ", "  "]).join(fields), options, around + r.randint(-1, 1) * r.randint(0, 5000 if step > 1 else 1500)


# --------------------------------------------------------------------- main ---


def never_comes(e):
    day = datetime.date(2000, 1, 1)
    return not any(e.date_matches(day + datetime.timedelta(n)) for n in range(365 * 28 + 8))


def differs(case, place, steps, answer, seen):
    """A text if the answer is wrong. Occurrences outside the window are not known here."""
    text, (days, gap, overlap), start = case
    _, _, _, step, first, last = place
    e = Expression(text, days)
    if answer.startswith("error"):
        seen["never comes"] += 1
        return None if "never" in answer and never_comes(e) else f"refused: {answer}"
    expected = [at for at, local, fold, ahead in steps
                if occurs(e, local, fold, ahead, step, gap == 1, overlap == 1)]
    after = [n for n in expected if n > start][:COUNT]
    before = [n for n in expected if n < start][::-1][:COUNT]
    got = [int(n) for n in answer.split()]
    got_after = [n for n in got if start < n <= last]
    got_before = [n for n in got if first <= n < start]
    if after != got_after or before != got_before:
        return f"after: got {got_after}, expected {after}; before: got {got_before}, expected {before}"
    seen["occurrences"] += len(after) + len(before)
    return None


COUNT = 12
CASES_PER_PLACE = 40


def compare(ask, seed, cases):
    r = random.Random(seed)
    table = {name: (zoneinfo.ZoneInfo(name), transitions(zoneinfo.ZoneInfo(name))) for name in ZONES}
    seen = collections.Counter()
    wrong = 0
    while seen["cases"] < cases:
        place = random_place(r, table)
        name, zone, _, step, first, last = place
        made = [random_case(r, place) for _ in range(CASES_PER_PLACE)]
        lines = "".join(f"{text}\t{name}\t{o[0]}\t{o[1]}\t{o[2]}\t{start}\t{COUNT}\n" for text, o, start in made)
        answers = subprocess.run([ask], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
        assert len(answers) == len(made)
        steps = walk(zone, first, last, step)
        for case, answer in zip(made, answers):
            said = differs(case, place, steps, answer, seen)
            seen["cases"] += 1
            if said:
                wrong += 1
                if wrong <= 20:
                    print(f"DIFFERENT: {case} in {place}: {said}", flush=True)
    return wrong, seen


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("ask")
    p.add_argument("--cases", type=lambda n: int(float(n)), default=2000)
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "0"), 0) or random.SystemRandom().getrandbits(32))
    a = p.parse_args()
    print(f"SEED={a.seed}", flush=True)
    wrong, seen = compare(a.ask, a.seed, a.cases)
    print(f"{seen['cases']} cases, {seen['occurrences']} occurrences, {seen['never comes']} that never come: "
          f"{wrong} differences")
    return 1 if wrong or seen["occurrences"] == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
