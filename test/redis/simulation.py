# SPDX-License-Identifier: MIT
"""simulation: many nodes that claim jobs from many shards, on a virtual clock. The shards are the real
scripts on a real redis-server; the nodes are simulated.

A node does what worker.c and due.c do. For each shard, it sleeps until the next time that its last
claim has answered, but for at most 30 s, or until a message comes on its channel; then it claims as
many jobs as it has free places. It runs each job for a given time and acknowledges it.

TIME. All times are virtual microseconds. A command reaches its shard DELAY_US after it was sent, and
the answer, or a message, comes DELAY_US later. So whatever happens within DELAY_US at one place
cannot change what happens in that time at another: all commands of such a window are sent to the
server together, in the order of their times.
"""
import heapq
import random
from collections import Counter

import scripts

START_US = 1_700_000_000_000_000
DELAY_US = 1_000
LONGEST_SLEEP_US = 30_000_000
LEASE_US = 30_000_000
DEPUTY_DELAY_US = 80_000  # DELAY_US of redis_claim.c


class Job:
    __slots__ = ("shard", "due", "length", "starts", "ends", "lost", "holders")

    def __init__(self, shard, due, length):
        self.shard, self.due, self.length = shard, due, length
        self.starts, self.ends, self.holders, self.lost = [], [], [], 0


class Node:
    __slots__ = ("number", "shards", "free", "running", "waiting", "asking", "again", "timer", "alive")

    def __init__(self, number, shards, places):
        self.number, self.shards, self.free, self.running = number, shards, places, 0
        self.waiting = {}  # shards that will be claimed from when a place is free, and why
        self.asking, self.again, self.timer = set(), set(), {}
        self.alive = True


class Simulation:
    """each: how many shards a node claims from. claim_after_run: a node claims when a job has ended,
    as worker.c does, and not only if it had no place left before. full_claims: a node that has no place
    left, and that should look at a shard, tells the shard so: it claims 0 jobs. The shard then wakes
    another node."""

    def __init__(self, server, shards, nodes, places=4, each=None, seed=1, claim_after_run=False,
                 full_claims=True, folder=scripts.SOURCES):
        self.server, self.random, self.claim_after_run = server, random.Random(seed), claim_after_run
        self.places, self.full_claims = places, full_claims
        server.call("FLUSHALL")
        loaded = scripts.load(server, folder)
        self.shards = [scripts.Namespace(server, loaded, "s%d" % i) for i in range(shards)]
        self.now, self.events, self.count, self.jobs = 0, [], 0, []
        self.names = {}  # the job of each id
        self.claims = self.empty = self.claimed = self.woken = self.commands = 0
        self.empty_after = Counter()  # why nodes have claimed when there was nothing
        self.nodes, self.of_channel = [], {}
        each = each or shards
        for i in range(nodes):
            self.add_node(sorted((i * each + k) % shards for k in range(each)))

    def add_node(self, shards):
        node = Node(len(self.nodes) + 1, shards, self.places)
        self.nodes.append(node)
        for s in shards:
            self.of_channel[self.shards[s].channel(node.number).encode()] = node, s
        return node

    # --- events ---

    def at(self, time, what, *arguments):
        self.count += 1
        heapq.heappush(self.events, (time, self.count, what, arguments))

    def send(self, command, answered=None, *arguments):
        """A command, which must have been made for the time now + DELAY_US."""
        self.at(self.now + DELAY_US, None, command, answered, arguments)

    def wall(self):
        """The time at which a command that is sent now is carried out."""
        return START_US + self.now + DELAY_US

    def run(self, until):
        events = self.events
        while events and events[0][0] < until:
            end, calls = min(events[0][0] + DELAY_US, until), []
            while events and events[0][0] < end:
                self.now, _, what, arguments = heapq.heappop(events)
                if what is None:
                    calls.append((self.now, arguments))
                else:
                    what(*arguments)
            if calls:
                self.carry_out(calls)
        self.now = until

    def carry_out(self, calls):
        self.commands += len(calls)
        answers = self.server.pipeline([c[0] for _, c in calls])
        for (time, (_, answered, arguments)), (answer, messages) in zip(calls, answers):
            if answered:
                self.at(time + DELAY_US, answered, answer, *arguments)
            for channel, text in messages:
                self.woken += 1
                due = int(text.split()[1]) - START_US
                self.at(time + DELAY_US, self.wake, *self.of_channel[channel], due)

    # --- nodes ---

    def boot(self, node):
        channels = [self.shards[s].channel(node.number) for s in node.shards]
        self.send(scripts.command("SUBSCRIBE", *channels))
        for s in node.shards:
            self.want(node, s, "start")

    def kill(self, node):
        node.alive = False
        channels = [self.shards[s].channel(node.number) for s in node.shards]
        self.send(scripts.command("UNSUBSCRIBE", *channels))

    def wake(self, node, s, due):
        if not node.alive:
            return
        if due <= self.now or s in node.asking:
            self.want(node, s, "message")
        elif node.timer.get(s) is None or due < node.timer[s]:
            node.timer[s] = due
            self.at(due, self.on_timer, node, s, due)

    def on_timer(self, node, s, time):
        if node.alive and node.timer.get(s) == time:
            self.want(node, s, "timer")

    def want(self, node, s, why):
        if s in node.asking:
            node.again.add(s)
        elif node.free > 0:
            self.claim(node, s, why)
        else:
            node.waiting.setdefault(s, why)
            if node.running == self.places and self.full_claims:
                self.claim(node, s, "no place")

    def claim(self, node, s, why):
        n = (node.free + 1) // 2  # so that other shards need not wait for the answer
        node.free -= n
        node.asking.add(s)
        node.waiting.pop(s, None)
        node.timer[s] = None
        self.claims += 1
        command = self.shards[s].claim(self.wall(), node.number, n, LEASE_US,
                                       self.random.randrange(DEPUTY_DELAY_US))
        self.send(command, self.on_claimed, node, s, n, why)

    def claim_waiting(self, node):
        while node.free > 0 and node.waiting:
            s, why = next(iter(node.waiting.items()))
            self.claim(node, s, why)

    def on_claimed(self, answer, node, s, n, why):
        assert answer[0] == 0, answer
        now_us, next_us, fence, got = answer[1], answer[3], answer[4], answer[5:]
        k = len(got) // 3
        self.claimed += k
        if k == 0:
            self.empty += 1
            self.empty_after[why] += 1
        for i in range(0, len(got), 3):
            job = self.names[got[i]]
            job.holders.append((node, now_us - START_US))
            if node.alive:
                node.running += 1
                job.starts.append(self.now)
                self.at(self.now + job.length, self.on_end, node, job, got[i], fence)
        if not node.alive:
            return
        node.asking.discard(s)
        node.free += n - k
        if n == 0 or next_us <= now_us:
            node.waiting[s] = "place"
        else:
            time = self.now + min(next_us - now_us, LONGEST_SLEEP_US)
            node.timer[s] = time
            self.at(time, self.on_timer, node, s, time)
        if s in node.again:
            node.again.discard(s)
            node.waiting.setdefault(s, "message")
        self.claim_waiting(node)

    def on_end(self, node, job, name, fence):
        if not node.alive:
            return
        self.send(self.shards[job.shard].ack(self.wall(), node.number, name, fence), self.on_acked, job)
        node.free += 1
        node.running -= 1
        if self.claim_after_run:
            self.want(node, job.shard, "run")
        self.claim_waiting(node)

    def on_acked(self, answer, job):
        assert answer[0] == 0, answer
        if answer[3] == b"0":
            job.ends.append(self.now)
        else:
            job.lost += 1

    # --- work ---

    def put(self, s, due, length):
        """A job that is due then, or at once if that is over."""
        job = Job(s, max(due, self.now + DELAY_US), length)
        name = b"%020d" % len(self.jobs)
        self.jobs.append(job)
        self.names[name] = job
        self.send(self.shards[s].put(self.wall(), (name, START_US + due, "x")))

    def put_steadily(self, a_second, seconds):
        """Jobs at random times, with random delays: half of them at most 0.2 s, the others up to half
        of the time."""
        t = end = self.now
        end += seconds * 1_000_000
        r = self.random
        while True:
            t += r.expovariate(a_second / 1e6)
            if t >= end:
                return
            longest = 200_000 if r.random() < 0.5 else seconds * 500_000
            self.at(int(t), self.put, r.randrange(len(self.shards)), int(t) + r.randrange(longest),
                    r.randrange(20_000, 400_000))

    def are_all_done(self, jobs):
        return all(job.ends for job in jobs)
