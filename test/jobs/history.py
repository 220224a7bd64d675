# SPDX-License-Identifier: MIT
"""history: what happened to jobs, one line an event, and what must hold.

Processes (kill_node.c) and their driver (kill.py, ../redis/faults.py) write into one pipe, so the
order of the lines is the order of the events. A file of these lines can be checked again. The lines
of a process are described in kill_node.c. The driver writes:

  - settings JSON              places, lease (s), timeout (s), window (s)
  - begin N WHAT PROCS QUOTA   a fault begins. PROCS: the processes that it concerns, with commas;
                               or *. QUOTA: so many second runs it may explain; or *.
  - over N                     it is over
  - killed PID QUOTA           a process was killed, some time after its last line
  - clock LOW HIGH             the store's clock is so many us ahead of the machine's
  - flushed                    the store has lost its data; puts before this line may be gone

What must hold:

  - Each job whose put was acknowledged has run to its end, or is pending, or its cancel was asked
    for, or the store was flushed after its put. A store that may lose its last writes when it is
    killed (window > 0) may lose puts of that time.
  - No job runs or is pending whose cancel was acknowledged.
  - No claim runs twice, and no process runs a job that it is running.
  - No job runs before its time, by the store's clock.
  - The result that the store has accepted is that of the last claim that ran.
  - No job is dead.
  - A job runs a second time only if, after the first run has begun, its process was killed; or was
    stopped, or cut off from the store, for so long that the lease may have ended; or the store has
    lost its data or a step of its clock has ended the leases. The machine itself may be too slow,
    too: then the process writes that it was slow, or that the store was down.

Messages through bridges to RabbitMQ (../amqp/traffic.mjs): `sent ID US DELAY`, `confirmed ID` (by the
broker, to the publisher), `came ID JOB US REDELIVERED`, `drained`. What must hold:

  - Each message that was confirmed has come, and none came before its time.
  - All copies of a message have the same x-uvsched-id.
  - A message comes again only if the broker says that it delivers it again, or if a bridge, the broker
    or the server was failing between the two: a fault of MESSAGE_FAULTS, or of the server.
"""
import fcntl
import json
import os
import threading
import time

INFINITY = float("inf")
FORGETS = ("flush", "step")  # faults that end leases at once
MESSAGE_FAULTS = ("bridge", "stopped-bridge", "broker", "server", "pause")
COPY_MARGIN = 1.0  # s from the publish of a bridge until the message comes


class Fault:
    def __init__(self, what, processes, quota, begin):
        self.what, self.begin, self.over = what, begin, INFINITY
        self.processes = None if processes == "*" else set(processes.split(","))
        self.quota = INFINITY if quota == "*" else int(quota)
        self.explained = 0


class History:
    def __init__(self):
        self.settings = {"places": 4, "lease": 2.0, "timeout": 0.0, "window": 0.0}
        self.errors = []
        self.lines, self.now = 0, 0.0  # of the last line
        self.asked = {}  # id: [earliest time in us, how far the store's clock was ahead, line]
        self.unanswered = set()  # ids of puts
        self.acknowledged = {}  # id: when, in s
        self.cancelled, self.gone, self.left, self.ended = set(), set(), set(), set()
        self.flushed = 0  # line
        self.runs = {}  # id: [(fence, process, s)]
        self.late_us = []  # of each run, unless an earlier lease of the job had to end
        self.results = {}  # id: fence
        self.running = {}  # process: ids whose handler has not returned
        self.last = {}  # process: line and s of its last line
        self.kills = {}  # process: Fault
        self.faults = {}  # number: Fault
        self.down = {}  # process: [[from, to]]
        self.slow = []  # (process, from, to)
        self.held = []  # (process, ms)
        self.clock, self.ahead = (0, 0), 0
        self.before_step = {}  # process: runs since the last step that look early
        self.count = {}  # verb: how many lines
        self.ready, self.unsafe = set(), set()  # processes
        self.puts, self.ends_of = {}, {}  # process: how many
        self.ticks = 0  # runs of the cron
        self.resets = {}  # process: how many
        self.explained = {}  # what: how many second runs
        self.lost = []  # (id, when put)
        self.sent, self.confirmed = {}, set()  # messages: when due, in us
        self.came = {}  # message: [(s, x-uvsched-id, redelivered)]
        self.drained = set()  # processes
        self.copies = {}  # why: how many messages came again

    def error(self, text):
        self.errors.append(text)

    def feed(self, line, now):
        words = line.rstrip("\n").split(" ")
        self.lines += 1
        self.now = now
        self.count[words[1]] = self.count.get(words[1], 0) + 1
        getattr(self, "on_" + words[1])(words[0], *words[2:])
        if words[0] != "-":
            self.last[words[0]] = self.lines, now

    # ------------------------------------------------------- the driver's lines

    def on_settings(self, _, *words):
        self.settings.update(json.loads(" ".join(words)))

    def on_begin(self, _, number, what, processes, quota):
        self.faults[number] = Fault(what, processes, quota, self.now)

    def on_over(self, _, number):
        self.faults[number].over = self.now

    def on_killed(self, _, process, quota):
        fault = Fault("killed", process, quota, self.now)
        fault.line = self.lines
        self.kills[process] = fault
        self.running.pop(process, None)

    def on_clock(self, _, low, high):
        self.ahead = self.clock[1] - int(high)
        self.before_step = {}
        self.clock = int(low), int(high)
        for job in self.unanswered:  # The store may carry them out only now.
            self.asked[job][1] = min(self.asked[job][1], int(low))

    def on_flushed(self, _):
        self.flushed = self.lines

    def on_note(self, *_):
        pass

    # ---------------------------------------------------- the processes' lines

    def on_ready(self, process):
        self.ready.add(process)

    def on_ask(self, _, job, us, delay):
        self.asked[job] = [int(us) + int(delay), self.clock[0], self.lines]
        self.unanswered.add(job)

    def on_put(self, process, job):
        self.acknowledged[job] = self.now
        self.unanswered.discard(job)
        self.puts[process] = self.puts.get(process, 0) + 1

    def on_full(self, *_):
        pass

    def on_failed(self, _, job, *__):
        self.unanswered.discard(job)

    def on_cancel(self, _, job):
        self.cancelled.add(job)

    def on_gone(self, _, job):
        self.gone.add(job)
        if job in self.runs:
            self.error(f"cancelled, but had run: {job}")

    def on_left(self, _, job):
        self.left.add(job)
        if job in self.gone:
            self.error(f"pending, although it was cancelled: {job}")

    def on_error(self, process, *text):
        self.error(f"process {process}: {' '.join(text)}")

    def on_run(self, process, job, fence, us, crashes):
        if job in self.gone:  # It was not due for a long time, either.
            self.error(f"runs, although it was cancelled: {job}")
        runs = self.runs.setdefault(job, [])
        if any(fence == other for other, _, _ in runs):
            self.error(f"a claim runs twice: {job} {fence}")
        runs.append((fence, process, self.now))
        self.ticks += job.startswith("tick/")
        running = self.running.setdefault(process, set())
        if job in running:
            self.error(f"runs twice at once in process {process}: {job}")
        running.add(job)
        if job in self.asked:
            at, ahead, _ = self.asked[job]
            late = int(us) + self.clock[1] - at - ahead
            if late < 0 and not self.claimed_before_step(process, late):
                self.error(f"runs {-late} us early: {job}")
            if crashes == "0":
                self.late_us.append(late)

    def claimed_before_step(self, process, late):
        """The clock was set back between the claim and the run: once for each place."""
        self.before_step[process] = self.before_step.get(process, 0) + 1
        return late + self.ahead >= 0 and self.before_step[process] <= self.settings["places"]

    def on_end(self, process, job, _):
        self.ended.add(job)
        self.ends_of[process] = self.ends_of.get(process, 0) + 1
        self.running.get(process, set()).discard(job)

    def on_done(self, _, job, fence):
        self.results[job] = fence

    def on_lost(self, *_):
        pass

    def on_dead(self, _, job):
        self.error(f"dead: {job}")

    def on_down(self, process, *_):
        self.down.setdefault(process, []).append([self.now, INFINITY])

    def on_up(self, process):
        self.down[process][-1][1] = self.now

    def on_unsafe(self, process, *_):
        self.unsafe.add(process)

    def on_reset(self, process):
        self.resets[process] = self.resets.get(process, 0) + 1

    def on_slow(self, process, ms):
        """The machine was too slow for the leases; or it is what the driver has stopped."""
        self.slow.append((process, self.now - int(ms) / 1000, self.now))

    def on_held(self, process, ms):
        self.held.append((process, int(ms)))

    # ---------------------------------------------------------------- messages

    def on_sent(self, _, message, us, delay):
        self.sent.setdefault(message, int(us) + int(delay))

    def on_confirmed(self, _, message):
        self.confirmed.add(message)

    def on_came(self, _, message, job, us, redelivered):
        self.came.setdefault(message, []).append((self.now, job, redelivered == "1"))
        if int(us) < self.sent[message]:
            self.error(f"message comes {self.sent[message] - int(us)} us early: {message}")

    def on_drained(self, process):
        self.drained.add(process)

    def explain_copy(self, message, first, again):
        if again[1] != first[1]:
            self.error(f"copies differ: {message} as {first[1]} and {again[1]}")
        reasons = [f for f in self.faults.values() if f.what in MESSAGE_FAULTS and
                   f.begin < again[0] and f.over + COPY_MARGIN > first[0]]
        if again[2]:
            why = "redelivered"
        elif reasons:
            why = min(reasons, key=lambda f: abs(f.begin - first[0])).what
        else:
            why = None
            self.error(f"message comes again without a reason: {message} at {first[0]:.3f} and "
                       f"{again[0]:.3f}")
        if why:
            self.copies[why] = self.copies.get(why, 0) + 1

    def finish_messages(self):
        for message, times in self.came.items():
            for again in times[1:]:
                self.explain_copy(message, times[0], again)
        for message in sorted(self.confirmed - self.came.keys()):
            self.error(f"message is lost: {message}")

    # --------------------------------------------------------------- at the end

    def ends(self, fault, process):
        """When does the process work with the store again?"""
        end = fault.over
        for since, until in self.down.get(process, []):
            if since < fault.over + self.settings["timeout"] + 1 and until > fault.begin:
                end = max(end, until)
        return end + self.settings["timeout"]

    def may_explain(self, fault, process, first, again):
        if fault.processes is not None and process not in fault.processes:
            return False
        begin, end = fault.begin, self.ends(fault, process)
        if fault.what == "server" and self.settings["window"] > 0:
            begin -= self.settings["window"]  # the end of the first run may be forgotten
        elif fault.what not in FORGETS and end - begin < self.settings["lease"] * 2 / 3:
            return False
        return begin < again and end > first

    def is_slow(self, process, begin, end):
        stops = [f for f in self.faults.values()
                 if f.what == "stop" and (f.processes is None or process in f.processes)]
        return not any(begin < f.over + 1 and end > f.begin for f in stops)

    def was_down(self, process, first, again):
        """The machine was too slow for the connections. A store is told to be down only when a
        second request has failed."""
        margin = 2 * self.settings["timeout"]
        return any(since - margin < again and until > first and
                   until - since + margin >= self.settings["lease"] * 2 / 3
                   for since, until in self.down.get(process, []))

    def explain(self, job, before, after):
        """Why does this job run again?"""
        _, process, first = before
        again = after[2]
        first = min(first, again)  # A stopped process tells its run late.
        kill = self.kills.get(process)
        reasons = [kill] if kill and self.last[process][1] <= again and kill.begin >= first else []
        reasons += [f for f in self.faults.values() if self.may_explain(f, process, first, again)]
        for fault in reasons:
            if fault.explained < fault.quota:
                fault.explained += 1
                self.explained[fault.what] = self.explained.get(fault.what, 0) + 1
                return
        if any(begin < again and end > first for _, begin, end in self.slow):
            self.explained["slow"] = self.explained.get("slow", 0) + 1
            return
        if self.was_down(process, first, again):
            self.explained["down"] = self.explained.get("down", 0) + 1
            return
        why = f"after {reasons[0].what}, but that explains {reasons[0].quota}" if reasons \
            else "without a reason"
        self.error(f"runs again {why}: {job}, fence {before[0]} in {process} at {before[2]:.3f}"
                   f" and {after[0]} in {after[1]} at {again:.3f}")

    def may_lose(self, job):
        put = self.acknowledged[job]
        if self.asked[job][2] < self.flushed:
            return True
        return any(f.what == "server" and f.begin - self.settings["window"] < put <= f.over
                   for f in self.faults.values()) and self.settings["window"] > 0

    def finish(self):
        self.slow = [s for s in self.slow if self.is_slow(*s)]
        pairs = []
        for job, runs in self.runs.items():
            runs.sort(key=lambda run: int(run[0]))
            pairs += [(job, before, after) for before, after in zip(runs, runs[1:])]
        for pair in sorted(pairs, key=lambda pair: pair[2][2]):
            self.explain(*pair)
        for job, fence in self.results.items():
            last = self.runs.get(job, [("none",)])[-1][0]
            if fence != last:
                self.error(f"stale: {job} has the result of claim {fence}, and {last} ran last")
        for job in self.acknowledged.keys() - self.ended - self.cancelled - self.left:
            self.lost.append((job, self.acknowledged[job]))
            if not self.may_lose(job):
                self.error(f"lost: {job}, put at {self.acknowledged[job]:.3f}")

        self.finish_messages()

    def second_runs(self):
        return sum(len(runs) - 1 for runs in self.runs.values())

    def late_ms(self, percent):
        late = sorted(self.late_us)
        return late[min(len(late) - 1, len(late) * percent // 100)] / 1000 if late else 0.0


class Log:
    """Reads the pipe into a history. The driver may wait for what it reads."""

    def __init__(self, keep=None):
        self.history = History()
        self.read_end, self.write_end = os.pipe()
        if hasattr(fcntl, "F_SETPIPE_SZ"):  # Processes do not wait for the reader.
            fcntl.fcntl(self.write_end, fcntl.F_SETPIPE_SZ, 1 << 20)
        self.keep = keep  # a file for all lines, or None
        self.faults = 0
        self.changed = threading.Condition()
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def say(self, text):
        """A line of the driver's own."""
        os.write(self.write_end, f"- {text}\n".encode())

    def begin(self, what, processes="*", quota="*"):
        """A fault begins; returns its number."""
        self.faults += 1
        self.say(f"begin {self.faults} {what} {processes} {quota}")
        return self.faults

    def over(self, fault):
        self.say(f"over {fault}")

    def read(self):
        with os.fdopen(self.read_end, errors="replace") as lines:
            for line in lines:
                if line == "- close\n":
                    return
                now = time.monotonic()
                if self.keep:
                    self.keep.write(f"{now:.6f} {line}")
                with self.changed:
                    try:
                        self.history.feed(line, now)
                    except (AttributeError, IndexError, KeyError, TypeError, ValueError) as e:
                        self.history.error(f"cannot read '{line.strip()}': {e!r}")
                    self.changed.notify_all()

    def wait(self, condition, seconds, what):
        """Until condition(history); False, and an error, if that takes too long."""
        with self.changed:
            if self.changed.wait_for(lambda: condition(self.history), seconds):
                return True
            self.history.error(f"after {seconds} s there is no {what}")
            return False

    def close(self):
        self.say("close")
        self.reader.join()
        os.close(self.write_end)
        if self.keep:
            self.keep.close()
        self.history.finish()


def read_file(file):
    """The history in a file that a Log has kept."""
    history = History()
    with open(file, errors="replace") as lines:
        for line in lines:
            now, text = line.split(" ", 1)
            history.feed(text, float(now))
    history.finish()
    return history
