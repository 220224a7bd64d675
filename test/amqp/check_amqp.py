#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_amqp.py UVSCHED PUT PEERS [PART...]: `uvsched amqp` with a real broker.

PUT is the program of put.c. PEERS is a folder whose node_modules has amqplib. Without PARTs, all
parts run. The broker is started three times: at first, after it was killed, and with TLS only for
the certificates. Times are only ever lower bounds: nothing comes early, and what is waited for has a
minute to come.
"""
import atexit
import datetime
import hashlib
import json
import os
import re
import select
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../redis"))
from broker import Broker, why_not  # noqa: E402
from proxy import Proxy  # noqa: E402
from server import Server  # noqa: E402

UVSCHED, PUT, PEERS = (os.path.abspath(a) for a in sys.argv[1:4])
HERE = os.path.dirname(os.path.abspath(__file__))
ENV = {k: v for k, v in os.environ.items() if k != "UVSCHED_BROKER"}
for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS"):
    ENV[name] = ":".join(filter(None, [ENV.get(name), "exitcode=99", "halt_on_error=1"]))
failures = []
passed = 0


def check(claim, actual, expected=True):
    global passed
    if actual == expected:
        passed += 1
    else:
        failures.append(claim)
        print(f"FAIL {claim}\n--- expected\n{expected}\n--- actual\n{actual}", flush=True)


def until(claim, condition, seconds=60):
    """Waits until the condition holds; it fails if it does not hold within the time."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > end:
            check(claim, value)
            raise RuntimeError(f"waited in vain: {claim}")
        time.sleep(0.05)
    check(claim, True)
    return value


class Peer:
    """peer.mjs: peer("publish", messages=[...]) sends a command and returns its answer."""

    def __init__(self, url):
        self.process = subprocess.Popen(["node", f"{HERE}/peer.mjs", PEERS], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)
        self("open", url=url)

    def __call__(self, op, **args):
        self.process.stdin.write(json.dumps({"op": op, **args}) + "\n")
        self.process.stdin.flush()
        if not select.select([self.process.stdout], [], [], 120)[0]:
            raise RuntimeError(f"no answer to {op} {args}")
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(f"{op} {args}: {answer['error']}")
        return answer["value"]

    def end(self):
        self.process.stdin.close()
        self.process.wait(60)


class Bridge:
    def __init__(self, folder, url, *maps, options=(), store=None):
        self.store = store or f"sqlite:{folder}/store.db"
        self.args = [UVSCHED, "amqp", "--store", self.store, *options]
        for m in maps:
            self.args += ["--map", m]
        self.env = {**ENV, "UVSCHED_BROKER": url}
        self.log_name = f"{folder}/log"
        self.maps = len(maps)
        self.process = None
        atexit.register(self.kill)

    def start(self, wait=True):
        with open(self.log_name, "ab") as log:
            at = log.tell()
            self.process = subprocess.Popen(self.args, env=self.env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        if wait:
            until("the bridge takes messages", lambda: self.log(at).count("intake: taking") == self.maps
                  and "publishing: connected" in self.log(at))
        return self

    def log(self, at=0):
        with open(self.log_name, errors="replace") as f:
            f.seek(at)
            return f.read()

    def stop(self, claim="SIGTERM ends the bridge with 0"):
        self.process.send_signal(signal.SIGTERM)
        check(claim, self.process.wait(90), 0)
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def run(self, command, *args):
        p = subprocess.run([UVSCHED, "jobs", command, "--store", self.store, *args], env=ENV, timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if p.returncode != 0:
            raise RuntimeError(p.stderr)
        return p.stdout

    def jobs(self, command, *args):
        return json.loads(self.run(command, "--json", *args))

    def dead(self):
        return self.jobs("dead")


def delayed(key, delay=None, body="", exchange="delay.orders", headers=None, **options):
    headers = dict(headers or {})
    if delay is not None:
        headers["x-delay"] = delay
    return {"exchange": exchange, "key": key, "body": body, "options": {"headers": headers, **options}}


def by_key(list):
    return {m["key"]: m for m in list}


# ------------------------------------------------------------------ the parts ---

def part_topology(broker, peer, bridge):
    """The intake is a topic exchange, bound # to a durable queue; two connections, prefetch 1000."""
    exchanges = broker.ctl("list_exchanges", "--no-table-headers", "name", "type", "durable")
    check("the intake is a durable topic exchange", "delay.orders\ttopic\ttrue" in exchanges)
    queues = broker.ctl("list_queues", "--no-table-headers", "name", "durable")
    for q in ("uvsched.delay.orders", "uvsched.delay.orders.expired", "uvsched.parked"):
        check(f"{q} is a durable queue", f"{q}\ttrue" in queues)
    bindings = broker.ctl("list_bindings", "--no-table-headers", "source_name", "destination_name", "routing_key")
    check("the intake is bound with #", "delay.orders\tuvsched.delay.orders\t#" in bindings)
    peer("publish", messages=[delayed("warm"), delayed("warm", exchange="delay.mail")])
    check("both targets get theirs", len(peer("taken", name="q", n=2, clear=True)), 2)
    channels = broker.ctl("list_channels", "--no-table-headers", "connection", "confirm", "prefetch_count",
                          "consumer_count", "user").strip().split("\n")
    rows = [c.split("\t") for c in channels]
    consuming = [r for r in rows if r[1] == "false" and r[3] == "2"]
    confirming = [r for r in rows if r[1] == "true" and r[3] == "0"]
    check("each intake has a channel of its own", len(consuming), bridge.maps)
    check("publishing and consuming have separate connections",
          {r[0] for r in consuming} & {r[0] for r in confirming}, set())
    publishing = [r for r in confirming if sum(x[0] == r[0] for x in confirming) == 2]
    check("each target has a channel of its own", len(publishing), 2)
    consumers = broker.ctl("list_consumers", "--no-table-headers", "queue_name", "ack_required", "prefetch_count")
    check("the prefetch is 1000", "uvsched.delay.orders\ttrue\t1000" in consumers, True)


def part_delays(broker, peer, bridge):
    """x-delay in every type that amqplib can write; properties, headers and body as they were."""
    properties = {"contentType": "text/x-test", "contentEncoding": "identity", "priority": 3, "correlationId": "corr",
                  "replyTo": "answers", "type": "kind", "appId": "app", "timestamp": 1700000000, "persistent": True}
    other = {"text": "täxt", "number": 12345, "large": {"!": "int64", "value": 2**40}, "yes": True, "list": [1, "two"],
             "table": {"in": {"side": 1.5}}}
    cases = {  # key: (x-delay, milliseconds, x-delay on delivery)
        "none": (None, 0, None),
        "int8": ({"!": "int8", "value": 100}, 100, -100),
        "int16": ({"!": "int16", "value": 1000}, 1000, -1000),
        "int32": ({"!": "int32", "value": 1200}, 1200, -1200),
        "int64": ({"!": "int64", "value": 900}, 900, -900),
        "float": ({"!": "float", "value": 700.5}, 700.5, -700.5),
        "double": ({"!": "double", "value": 800.25}, 800.25, -800.25),
        "decimal": ({"!": "decimal", "value": {"places": 1, "digits": 6005}}, 600.5, -600.5),
        "text": ("1100", 1100, -1100),
        "zero": (0, 0, 0),
        "negative": (-5000, 0, -5000),
        "unreadable": ("soon", 0, "soon"),
        "boolean": (True, 0, True),
        "list": ([1000], 0, [1000]),
    }
    messages = [delayed(k, c[0], f"body of {k}", headers=other, **properties) for k, c in cases.items()]
    times = dict(zip(cases, peer("publish", messages=messages)))
    got = peer("taken", name="q", n=len(cases), clear=True)
    check("each message comes once", sorted(m["key"] for m in got), sorted(cases))
    got = by_key(got)
    for k, (_, ms, after) in cases.items():
        m = got[k]
        headers = m["properties"].pop("headers")
        check(f"{k}: not early", m["at"] - times[k] >= ms)
        check(f"{k}: x-delay is negated", headers.pop("x-delay", None), after)
        check(f"{k}: there is an x-uvsched-id", headers.pop("x-uvsched-id", "").startswith("amqp/"))
        check(f"{k}: the headers", headers, {**other, "large": 2**40})
        check(f"{k}: the body", m["body"], f"body of {k}")
        check(f"{k}: the exchange", m["exchange"], "orders")
        check(f"{k}: the properties", m["properties"], {
            "contentType": "text/x-test", "contentEncoding": "identity", "priority": 3, "correlationId": "corr",
            "replyTo": "answers", "type": "kind", "appId": "app", "timestamp": 1700000000, "deliveryMode": 2})


def part_instants(broker, peer, bridge):
    """x-deliver-at as milliseconds, timestamp and text."""
    now = time.time()
    text = datetime.datetime.fromtimestamp(now + 1.5, datetime.timezone.utc).isoformat()
    cases = {"ms": ({"!": "int64", "value": int((now + 1) * 1000)}, int((now + 1) * 1000)),
             "timestamp": ({"!": "timestamp", "value": int(now) + 2}, (int(now) + 2) * 1000),
             "text": (text, int((now + 1.5) * 1000)),
             "past": ("2001-01-01T00:00:00Z", 0), "unreadable": ("tomorrow", 0)}
    peer("publish", messages=[delayed(k, headers={"x-deliver-at": c[0]}) for k, c in cases.items()])
    got = by_key(peer("taken", name="q", n=len(cases), clear=True))
    for k, (_, at) in cases.items():
        check(f"x-deliver-at as {k}: comes, and not early", k in got and got[k]["at"] >= at)


def part_identity(broker, peer, bridge):
    """A message-id makes one job of two copies, also after the delivery; without it there are two."""
    peer("publish", messages=[delayed("twice", 300, "same", messageId="m-1"),
                              delayed("twice", 300, "same", messageId="m-1"),
                              delayed("twice", 300, "other", messageId="m-1"),
                              delayed("random", 300, "same"), delayed("random", 300, "same")])
    got = peer("taken", name="q", n=4, clear=True)
    check("two copies with a message-id are one, another body is another message",
          sorted((m["key"], m["body"]) for m in got),
          [("random", "same"), ("random", "same"), ("twice", "other"), ("twice", "same")])
    check("x-uvsched-id differs between different messages",
          len({m["properties"]["headers"]["x-uvsched-id"] for m in got}), 4)
    # Again, after the delivery: known for 24 h. A last message shows that nothing else was there.
    peer("publish", messages=[delayed("twice", 0, "same", messageId="m-1"), delayed("last", 200)])
    got = peer("taken", name="q", n=1, clear=True)
    check("a copy after the delivery is known", [m["key"] for m in got], ["last"])
    id = hashlib.sha256()
    for part in (b"uvsched.delay.orders", b"m-1", b"same"):
        id.update(len(part).to_bytes(8, "big") + part)
    job = bridge.jobs("show", f"amqp/{id.hexdigest()[:40]}")
    check("the id is the hash of queue, message-id and body; the job is done", job["state"], "done")
    with sqlite3.connect(bridge.store.removeprefix("sqlite:")) as store:
        kept = store.execute("SELECT keep_us FROM uvs_jobs WHERE rest = ?", [id.hexdigest()[:40]]).fetchall()
    store.close()
    check("the id is remembered for 24 h", kept, [(24 * 3600 * 1000000,)])


def part_absurd(broker, peer, bridge):
    """A hundred years are kept; more than the store can keep, and too large a message, are parked."""
    year = 365 * 86400 * 1000
    peer("publish", messages=[
        delayed("century", {"!": "int64", "value": 100 * year}, messageId="century"),
        delayed("centuries", {"!": "int64", "value": 200 * year}, "far", expiration="100"),
        delayed("infinite", {"!": "double", "value": 1e300}, "far"),
        delayed("far-text", "99999999999999999999", "far"),
        delayed("year-3000", headers={"x-deliver-at": "3000-01-01T00:00:00Z"}, body="far"),
        delayed("large", 50, {"size": 1048577, "fill": 7}), delayed("larger", 50, {"size": 3000000, "fill": 8}),
        delayed("minus-century", {"!": "int64", "value": -100 * year})])
    check("minus a hundred years: at once", [m["key"] for m in peer("taken", name="q", n=1, clear=True)],
          ["minus-century"])
    until("the century is in the store", lambda: len(bridge.jobs("ls")) == 1)
    due = datetime.datetime.fromisoformat(bridge.jobs("ls")[0]["due"].replace("Z", "+00:00"))
    now = datetime.datetime.now(datetime.timezone.utc)
    check("a hundred years from now", abs((due - now).days - 36500) <= 1)
    until("six messages are parked", lambda: bridge.log().count("parked: ") == 6 and peer("count", name="uvsched.parked") == 6)
    parked = {}
    for _ in range(6):
        m = peer("get", name="uvsched.parked")
        parked[m["properties"]["headers"]["x-uvsched-routing-key"]] = m
    check("these are parked", sorted(parked), ["centuries", "far-text", "infinite", "large", "larger", "year-3000"])
    for key, m in parked.items():
        check(f"{key}: the intake is noted", m["properties"]["headers"]["x-uvsched-intake"], "delay.orders")
        check(f"{key}: the reason is noted", "142 years" in m["properties"]["headers"]["x-uvsched-refused"]
              or "2255" in m["properties"]["headers"]["x-uvsched-refused"]
              or "more than 1048576" in m["properties"]["headers"]["x-uvsched-refused"])
    check("a parked message keeps its delay", parked["far-text"]["properties"]["headers"]["x-delay"],
          "99999999999999999999")
    check("a parked message does not expire", "expiration" in parked["centuries"]["properties"], False)
    check("its expiration is noted", parked["centuries"]["properties"]["headers"]["x-uvsched-expiration"], "100")
    for key, size, fill in (("large", 1048577, b"\x07"), ("larger", 3000000, b"\x08")):
        check(f"{key}: the body is whole", (parked[key]["size"], parked[key]["body"]),
              (size, hashlib.sha256(fill * size).hexdigest()))
    until("they are acknowledged", lambda: "\t0\n" in broker.ctl(
        "list_queues", "--no-table-headers", "name", "messages").replace("uvsched.delay.orders\t", "\t", 1))


def part_large(broker, peer, bridge):
    """A body of 1 MiB is delayed, with all properties. A body with one byte more is parked."""
    properties = {"contentType": "text/x-test", "contentEncoding": "identity", "priority": 3, "correlationId": "corr",
                  "replyTo": "answers", "expiration": "3600000", "messageId": "large", "type": "kind", "appId": "app",
                  "timestamp": 1700000000}
    text = "t" * 3000
    sent = peer("publish", messages=[
        delayed("mebibyte", 500, {"size": 2**20, "fill": 5}, headers={"text": text}, persistent=True, **properties),
        delayed("larger", 500, {"size": 2**20 + 1, "fill": 6}, messageId="larger")])
    m = peer("taken", name="q", n=1, clear=True)[0]
    check("a body of 1 MiB is delivered, and not early", (m["key"], m["at"] - sent[0] >= 500), ("mebibyte", True))
    check("the body", (m["size"], m["body"]), (2**20, hashlib.sha256(b"\x05" * 2**20).hexdigest()))
    headers = m["properties"].pop("headers")
    check("the headers", (headers["text"], headers["x-delay"], sorted(headers)),
          (text, -500, ["text", "x-delay", "x-uvsched-id"]))
    check("the properties", m["properties"], {**properties, "deliveryMode": 2})
    until("the other one is parked", lambda: peer("count", name="uvsched.parked") == 1)
    m = peer("get", name="uvsched.parked")
    check("with the size and the limit", m["properties"]["headers"]["x-uvsched-refused"],
          "the body has 1048577 bytes, more than 1048576")
    check("its body is whole", (m["size"], m["body"]), (2**20 + 1, hashlib.sha256(b"\x06" * (2**20 + 1)).hexdigest()))
    peer("publish", messages=[delayed(f"m{i}", 300, {"size": 2**20 - i, "fill": i}) for i in range(40)])
    got = peer("taken", name="q", n=40, clear=True)
    check("forty of 1 MiB come", sorted((m["key"], m["body"]) for m in got), sorted(
        (f"m{i}", hashlib.sha256(bytes([i]) * (2**20 - i)).hexdigest()) for i in range(40)))


def part_parking_lost(broker, peer, bridge):
    """The parking queue was deleted: it is declared again, and nothing is lost."""
    peer("deleteQueue", name="uvsched.parked")
    peer("publish", messages=[delayed("large", 0, {"size": 1048577}), delayed("small")])
    check("messages behind a parked one go on", [m["key"] for m in peer("taken", name="q", n=1, clear=True)], ["small"])

    def parked():
        try:
            return peer("count", name="uvsched.parked") == 1
        except RuntimeError:  # amqplib closes the channel if there is no such queue
            peer("open", url=broker.url())
            return False
    until("the parking queue is declared again, and has the message", parked)
    peer("get", name="uvsched.parked")


def part_refused(broker, peer, bridge):
    """Unroutable: dead letter. Missing exchange: that one is retried, others go on."""
    peer("exchange", name="empty")
    peer("publish", messages=[delayed("nobody", exchange="delay.empty", messageId="nobody")])
    dead = until("an unroutable message is a dead letter", bridge.dead)
    check("with the reason", "unroutable: 312 NO_ROUTE" in dead[0]["error"])
    until("and the log says so", lambda: "is a dead letter now: unroutable" in bridge.log())
    peer("publish", messages=[delayed(f"m{i}", exchange="delay.missing") for i in range(20)]
         + [delayed(f"o{i}") for i in range(20)])
    check("other targets go on", len(peer("taken", name="q", n=20, clear=True)), 20)
    until("the jobs are retried, with the reason", lambda: [
        "404 NOT_FOUND" in (bridge.jobs("show", j["id"])["error"] or "") and j["attempts"] >= 1
        for j in bridge.jobs("ls") if j["state"] == "pending" and "T" in (j["due"] or "") and j["attempts"] > 0
    ].count(True) == 20)
    bridge.run("pause", "amqp")  # between the next two calls, a message would be unroutable
    until("no job is running", lambda: bridge.jobs("stats")["running"] == 0)
    peer("exchange", name="missing")
    peer("queue", name="qm", exchange="missing")
    bridge.run("resume", "amqp")
    peer("consume", name="qm")
    got = peer("taken", name="qm", n=20)
    check("when the exchange is there, they come", sorted({m["key"] for m in got}), sorted(f"m{i}" for i in range(20)))
    check("none of them is dead", len(bridge.dead()), 1)


def part_user(broker, peer, bridge):
    """A user-id that is not the bridge's own moves to a header."""
    broker.ctl("add_user", "alice", "secret")
    broker.ctl("set_permissions", "alice", ".*", ".*", ".*")
    alice = Peer(broker.url().replace("guest:guest", "alice:secret"))
    alice("publish", messages=[delayed("foreign", 50, userId="alice")])
    alice.end()
    peer("publish", messages=[delayed("own", 50, userId="guest")])
    got = by_key(peer("taken", name="q", n=2, clear=True))
    check("the foreign user-id is in a header", (got["foreign"]["properties"].get("userId"),
          got["foreign"]["properties"]["headers"].get("x-uvsched-user-id")), (None, "alice"))
    check("the own user-id stays", (got["own"]["properties"].get("userId"),
          got["own"]["properties"]["headers"].get("x-uvsched-user-id")), ("guest", None))


def part_cancel(broker, peer, bridge):
    """The broker ends the subscription (basic.cancel): subscribe again."""
    for queue in ("uvsched.delay.orders", "uvsched.delay.orders.expired"):
        at = len(bridge.log())
        peer("deleteQueue", name=queue)
        until(f"{queue} was deleted: it is declared and consumed again", lambda: "taking messages of delay.orders" in bridge.log(at))
    peer("publish", messages=[delayed("after", 20)])
    check("then messages come as before", [m["key"] for m in peer("taken", name="q", n=1, clear=True)], ["after"])


def part_expiration(broker, peer, bridge):
    """The expiration counts after the delivery. What expires in the intake comes back."""
    bridge.stop()
    peer("queue", name="qe", exchange="slow")
    peer("publish", messages=[delayed("old", 700, "was", exchange="delay.slow", expiration="300",
                                      headers={"mine": 1}, messageId="old")])
    until("it has expired in the intake", lambda: peer("count", name="uvsched.delay.slow.expired") == 1)
    at = time.time() * 1000
    bridge.start()
    peer("publish", messages=[delayed("new", 700, exchange="delay.slow", expiration="60000")])
    until("both are delivered", lambda: peer("count", name="qe") >= 1)
    got = {}
    for _ in range(200):
        m = peer("get", name="qe")
        if m:
            got[m["key"]] = m
        if len(got) == 2:
            break
        time.sleep(0.02)
    check("the message that had expired is delivered", sorted(got), ["new", "old"])
    old = got.get("old")
    if old:
        check("with its expiration", old["properties"].get("expiration"), "300")
        check("as it was", (old["body"], old["properties"]["messageId"]), ("was", "old"))
        check("without a trace of the intake", sorted(old["properties"]["headers"]), ["mine", "x-delay", "x-uvsched-id"])
        check("the delay counts from its arrival at the bridge", old["at"] >= at + 700)
    check("a longer expiration is kept", got["new"]["properties"]["expiration"], "60000")


def part_durable_first(broker, peer, bridge):
    """No acknowledgement before the message is in the store; `multiple`; at most 500 unconfirmed."""
    proxy = Proxy(broker.port)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        b = Bridge(folder, broker.url(proxy.port), "delay.proxied=orders").start()
        intake = next(c for c in proxy.all if c.consumes > 0)
        lock = sqlite3.connect(f"{folder}/store.db", isolation_level=None)
        lock.execute("BEGIN IMMEDIATE")
        peer("publish", messages=[delayed(f"k{i}", 0, exchange="delay.proxied", messageId=f"d{i}") for i in range(1500)])
        until("the store says that it does not work", lambda: "the store does not work" in b.log())
        check("nothing is acknowledged while the store is locked", intake.acks, [])
        lock.execute("ROLLBACK")
        lock.close()
        got = peer("taken", name="q", n=1500, clear=True)
        check("all come when the store works again", len({m["key"] for m in got}), 1500)
        until("all are acknowledged", lambda: intake.acks and max(t for t, _ in intake.acks) >= 1500)
        check("several at a time", any(m for _, m in intake.acks) and len(intake.acks) < 150)
        publishing = proxy.publishing()
        check("at most 500 are not confirmed", 1 <= publishing.most_unconfirmed <= 500)
        publishing.gate.clear()  # now the broker's confirms do not arrive
        peer("publish", messages=[delayed(f"w{i}", 0, exchange="delay.proxied", messageId=f"w{i}") for i in range(900)])
        until("the window fills", lambda: publishing.most_unconfirmed == 500)
        time.sleep(0.5)
        check("and 500 it stays", publishing.most_unconfirmed, 500)
        publishing.gate.set()
        keys = set()
        until("then the others come, too", lambda: keys.update(
            m["key"] for m in peer("taken", name="q", n=1, ms=1000, clear=True)) or len(keys) == 900)
        b.stop()


def part_many(broker, peer, bridge):
    """Many messages with different delays: none early, none missing, none twice."""
    peer("produce", exchange="delay.orders", prefix="many-", n=3000, maxDelay=2000, perSecond=4000)
    sent = peer("produced")["sent"]
    got = peer("taken", name="q", n=3000, clear=True)
    check("none is missing", {m["properties"]["messageId"] for m in got}, set(sent))
    check("none comes twice", len(got), 3000)
    early = [m for m in got if m["at"] - sent[m["properties"]["messageId"]]["at"] < sent[m["properties"]["messageId"]]["delay"]]
    check("none is early", early, [])


def part_redis(broker, peer, bridge):
    """Two bridges share a store in Redis; they report that its settings are unsafe, and a FLUSHALL."""
    if not shutil.which("redis-server"):
        print("SKIP a store in Redis: redis-server is not installed")
        return
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        server = Server(folder, appendfsync="everysec")
        server.start()
        bridges = []
        for name in ("a", "b"):
            os.mkdir(f"{folder}/{name}")
            bridges.append(Bridge(f"{folder}/{name}", broker.url(), "delay.shared=orders",
                                  store=f"redis://127.0.0.1:{server.port}").start())
        for b in bridges:
            until("it warns of unsafe settings", lambda: "the store can lose jobs: " in b.log())
        peer("produce", exchange="delay.shared", prefix="shared-", n=500, maxDelay=500, perSecond=2000)
        all_came("two bridges", peer, peer("produced")["sent"])
        at = [len(b.log()) for b in bridges]
        server.call("FLUSHALL")
        for b, end in zip(bridges, at):
            until("it reports that the data is lost", lambda: "the store has lost its data" in b.log(end))
        peer("produce", exchange="delay.shared", prefix="after-", n=100, maxDelay=100, perSecond=2000)
        all_came("after FLUSHALL", peer, peer("produced")["sent"])
        peer("taken", name="q", clear=True)
        peer("publish", messages=[delayed(f"r{i}", 100, {"size": 2**20, "fill": i}, "delay.shared") for i in range(20)])
        check("twenty of 1 MiB come", sorted(m["body"] for m in peer("taken", name="q", n=20, clear=True)),
              sorted(hashlib.sha256(bytes([i]) * 2**20).hexdigest() for i in range(20)))
        for b in bridges:
            b.stop()
        ends = [re.search(r"stopped: (\d+) messages taken, (\d+) delivered", b.log()) for b in bridges]
        check("together they have taken and delivered each message once",
              [sum(int(end[i]) for end in ends) for i in (1, 2)], [620, 620])
        check("both have taken messages", all(int(end[1]) > 0 for end in ends))
        server.stop()


def part_default_exchange(broker, peer, bridge):
    """An empty target is the default exchange: the routing key names a queue."""
    peer("publish", messages=[delayed("q", 20, "to the queue", exchange="delay.default")])
    got = peer("taken", name="q", n=1, clear=True)
    check("it comes by the default exchange", (got[0]["exchange"], got[0]["body"]), ("", "to the queue"))


def part_c_program(broker, peer, bridge):
    """The handler for C programs: put.c."""
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        p = subprocess.run([PUT, broker.url(), f"sqlite:{folder}/api.db", "orders"], env=ENV, timeout=120,
                           capture_output=True, text=True, stdin=subprocess.DEVNULL)
    check("it closes everything in order", (p.returncode, p.stderr), (0, ""))
    ends = {line.split(" ", 1)[0]: line.split(" ", 3)[1:] for line in p.stdout.splitlines()}
    check("the good ones are done", [ends.get(f"api/good-{i}", [None])[0] for i in range(20)], ["done"] * 20)
    check("without a failed attempt, although one of them made the broker close the channel",
          {ends[f"api/good-{i}"][1] for i in range(20)}, {"1"})
    check("the one that the broker does not accept is dead, with the reason",
          (ends["api/poison"][0], "406 PRECONDITION_FAILED" in ends["api/poison"][2]), ("dead", True))
    check("the unroutable one is dead", (ends["api/nobody"][0], "312 NO_ROUTE" in ends["api/nobody"][2]), ("dead", True))
    check("what is no message is dead", ends["api/garbage"][0], "dead")
    got = peer("taken", name="q", n=20, clear=True)
    check("all good messages have come", {m["body"] for m in got}, {f"good-{i}" for i in range(20)})
    check("they are persistent, with their properties",
          {(m["properties"]["deliveryMode"], m["properties"]["contentType"]) for m in got}, {(2, "text/plain")})
    check("x-uvsched-id is the id of the job", {m["properties"]["headers"]["x-uvsched-id"] for m in got},
          {f"api/good-{i}" for i in range(20)})


# ------------------------------------------------------------ F14: faults ---

def all_came(claim, peer, sent, seconds=90):
    """All were delivered; copies have the same x-uvsched-id. Returns how many copies there were."""
    ids, came = {}, 0
    end = time.monotonic() + seconds
    early = 0
    while set(ids) != set(sent) and time.monotonic() < end:
        for m in peer("taken", name="q", n=1, ms=500, clear=True):
            id = m["properties"]["messageId"]
            if id not in sent:  # a copy of the part before
                continue
            ids.setdefault(id, set()).add(m["properties"]["headers"]["x-uvsched-id"])
            came += 1
            early += m["at"] - sent[id]["at"] < sent[id]["delay"]
    check(f"{claim}: 0 of {len(sent)} are lost", sorted(set(sent) - set(ids)), [])
    check(f"{claim}: none is early", early, 0)
    check(f"{claim}: copies have the same x-uvsched-id", [i for i, s in ids.items() if len(s) != 1], [])
    print(f"     {claim}: {len(sent)} messages, {came - len(ids)} copies", flush=True)


def part_f14_cut(broker, peer, bridge):
    """F14: the connection is cut between publish and confirm, and anywhere else."""
    bridge.stop()
    proxy = Proxy(broker.port)
    with tempfile.TemporaryDirectory(dir=WORK) as folder:
        b = Bridge(folder, broker.url(proxy.port), "delay.proxied=orders").start()
        peer("produce", exchange="delay.proxied", prefix="cut-", n=2000, maxDelay=3000, perSecond=500)
        cuts = 0
        for _ in range(6):
            publishing = until("the bridge publishes", proxy.publishing, 20)
            publishing.gate.clear()  # it publishes, and gets no confirm
            before = publishing.publishes
            until("messages are published without a confirm", lambda: publishing.publishes > before or not proxy.publishing(), 20)
            cuts += proxy.cut()
            time.sleep(0.3)
        check("connections were cut", cuts >= 6)
        all_came("connections cut", peer, peer("produced")["sent"])
        b.stop()
    bridge.start()


def part_f14_bridge(broker, peer, bridge):
    """F14: the bridge is killed, again and again."""
    peer("produce", exchange="delay.orders", prefix="kill-", n=2000, maxDelay=3000, perSecond=500)
    for i in range(5):
        time.sleep(0.4 + 0.17 * i)
        bridge.kill()
        bridge.start()
    all_came("bridge killed", peer, peer("produced")["sent"])


def part_f14_alarm(broker, peer, bridge):
    """F14: a memory alarm. Due jobs are given back, uncounted; nothing is lost; the bridge can stop."""
    bridge.run("pause", "amqp")  # until the alarm, however long that takes
    before = len(bridge.jobs("ls", "--all"))
    peer("produce", exchange="delay.orders", prefix="alarm-", n=600, maxDelay=2500, perSecond=6000)
    sent = peer("produced")["sent"]
    until("all messages are in the store", lambda: len(bridge.jobs("ls", "--all")) >= before + 600)
    at = len(bridge.log())
    broker.ctl("set_vm_memory_high_watermark", "0.00001")
    until("the broker has an alarm", lambda: "memory" in broker.ctl("eval", "rabbit_alarm:get_alarms()."))
    bridge.run("resume", "amqp")
    until("the bridge is told", lambda: "the broker is blocked" in bridge.log(at))
    until("all jobs are due", lambda: all(j["attempts"] == 0 for j in bridge.jobs("ls", "--all", "--overdue"))
          and time.time() * 1000 > max(s["at"] + s["delay"] for s in sent.values()) + 1000)
    waiting = [j for j in bridge.jobs("ls", "--all") if j["state"] in ("pending", "running")]
    check("jobs wait in the store, and none of them counts an attempt",
          len(waiting) > 100 and {j["attempts"] for j in waiting}, {0})
    bridge.stop("SIGTERM ends the bridge during the alarm")
    bridge.start(wait=False)
    broker.ctl("set_vm_memory_high_watermark", "0.8")
    all_came("memory alarm", peer, sent)
    check("none is dead", [j for j in bridge.dead() if "NO_ROUTE" not in j["error"]], [])


def part_f14_broker(broker, peer, bridge):
    """F14: the broker is killed and restarted."""
    peer("produce", exchange="delay.orders", prefix="broker-", n=1500, maxDelay=4000, perSecond=500)
    time.sleep(1.5)
    broker.kill()
    until("the bridge notices", lambda: "publishing: not connected" in bridge.log())
    time.sleep(1)
    broker.start()
    all_came("broker killed", peer, peer("produced")["sent"])
    lines = bridge.log().count("not connected")
    check("the log has a line for each change of state, not for each attempt", lines < 25)
    bridge.stop()


def part_tls(folder):
    """amqps://, with certificates made here: the right authority, and another one."""
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder)
    for name in ("ca", "other"):
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2",
                "-subj", f"/CN=uvsched test {name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=localhost",
            "-keyout", "key.pem", "-out", "cert.csr")
    with open(f"{folder}/extensions", "w") as f:
        f.write("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "cert.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
            "-extfile", "extensions", "-out", "cert.pem")
    broker = Broker(f"{folder}/broker", tls=folder)
    broker.start()
    try:
        peer = Peer(broker.url())
        peer("exchange", name="orders")
        peer("queue", name="q", exchange="orders")
        url = f"amqps://guest:guest@localhost:{broker.tls_port}"
        os.mkdir(f"{folder}/good")
        b = Bridge(f"{folder}/good", url, "delay.orders=orders", options=["--ca", f"{folder}/ca.pem"]).start()
        peer("publish", messages=[delayed(f"t{i}", 50, {"size": 60000}) for i in range(50)])
        until("messages come over TLS", lambda: peer("count", name="q") == 50)
        b.stop()
        for claim, ca, host in (("another authority", "other.pem", "localhost"), ("another host name", "ca.pem", "127.0.0.1")):
            where = f"{folder}/{ca}-bad"
            os.mkdir(where)
            b = Bridge(where, url.replace("localhost", host), "delay.orders=orders", options=["--ca", f"{folder}/{ca}"])
            b.start(wait=False)
            until(f"{claim} is refused", lambda: "publishing: not connected" in b.log() and "intake: not taking" in b.log())
            check(f"{claim}: never connected", "connected to" in b.log(), False)
            b.stop(f"{claim}: SIGTERM ends the bridge")
        peer.end()
    finally:
        broker.stop()


PARTS = [part_topology, part_delays, part_instants, part_identity, part_absurd, part_large, part_parking_lost, part_default_exchange,
         part_redis, part_c_program, part_refused, part_user, part_cancel, part_many, part_durable_first,
         part_expiration, part_f14_cut, part_f14_bridge, part_f14_alarm, part_f14_broker]


def run_parts(wanted):
    broker = Broker(f"{WORK}/broker")
    broker.start()
    peer = Peer(broker.url())
    for name in ("orders", "slow"):
        peer("exchange", name=name)
    peer("queue", name="q", exchange="orders")
    peer("consume", name="q")
    bridge = Bridge(WORK, broker.url(), "delay.orders=orders", "delay.mail=orders2", "delay.empty=empty",
                    "delay.missing=missing", "delay.slow=slow", "delay.default=", options=["--grace", "3s"])
    peer("exchange", name="orders2")
    peer("queue", name="q", exchange="orders2")
    bridge.start()
    for part in PARTS:
        name = part.__name__[5:]
        if wanted and name not in wanted:
            continue
        began = time.monotonic()
        try:
            part(broker, peer, bridge)
        except Exception:
            failures.append(name)
            traceback.print_exc()
            print(bridge.log()[-3000:])
            if bridge.process is None:
                bridge.start()
        print(f"{time.monotonic() - began:6.1f} s  {part.__doc__.splitlines()[0]}", flush=True)
    bridge.kill()
    peer.end()
    broker.stop()


def main():
    global WORK
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that everything is stopped
    why = why_not() or (None if shutil.which("node") else "node is not installed") or (
        None if os.path.isdir(f"{PEERS}/node_modules/amqplib") else "amqplib is not installed: .ci/servers installs it")
    if why:
        print(f"SKIP the bridge to RabbitMQ: {why}")
        sys.exit(77)
    with tempfile.TemporaryDirectory(prefix="uvsched-amqp-") as WORK:
        wanted = sys.argv[4:]
        if not wanted or set(wanted) - {"tls"}:
            run_parts(wanted)
        if not wanted or "tls" in wanted:
            began = time.monotonic()
            os.mkdir(f"{WORK}/tls")
            try:
                part_tls(f"{WORK}/tls")
            except Exception:
                failures.append("tls")
                traceback.print_exc()
            print(f"{time.monotonic() - began:6.1f} s  {part_tls.__doc__}", flush=True)
    print(f"{passed} checks passed, {len(failures)} failed")
    for claim in failures:
        print(f"failed: {claim}")
    sys.exit(1 if failures else 0)


main()
