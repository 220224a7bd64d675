#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""check_security STAGE [sanitized]: what a stranger, a hostile web page and a hostile task name can do: nothing.

Starts `stage` with several options, and sends it requests that a browser or an attacker would send.
"""
import http.client
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import time

STAGE = sys.argv[1]
TOKEN = "correct-horse-battery"
BEARER = {"Authorization": f"Bearer {TOKEN}"}
MEMORY_KB = 200000 if "sanitized" in sys.argv else 20000
failures = []
passed = 0


def check(claim, actual, expected=True):
    global passed
    if actual == expected:
        passed += 1
    else:
        failures.append(claim)
        print(f"FAIL {claim}\n--- expected\n{expected}\n--- actual\n{actual}", flush=True)


class Stage:
    def __init__(self, *args):
        self.p = subprocess.Popen([STAGE, *args], stdout=subprocess.PIPE, text=True)
        url = self.p.stdout.readline().strip()
        if not url:
            sys.exit("the stage has ended")
        self.host, self.port = url[len("http://"):].rstrip("/").rsplit(":", 1)
        self.port = int(self.port)
        self.connect_to = "127.0.0.1" if self.host == "0.0.0.0" else self.host.strip("[]")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.p.send_signal(signal.SIGTERM)
        check("the program ends without a leak or a crash", self.p.wait(60), 0)

    def connect(self):
        return socket.create_connection((self.connect_to, self.port), timeout=30)

    def get(self, path, headers=None, method="GET", body=None):
        """(status, headers, body)"""
        c = http.client.HTTPConnection(self.connect_to, self.port, timeout=30)
        try:
            c.request(method, path, body=body, headers=headers or {})
            answer = c.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            c.close()

    def status(self, path, headers=None, method="GET", body=None):
        return self.get(path, headers, method, body)[0]

    def raw(self, data):
        """The first line of the answer to these bytes; '' if the connection was closed."""
        with self.connect() as s:
            try:
                s.sendall(data)
                return s.makefile("rb").readline().decode("latin-1").strip()
            except (ConnectionError, socket.timeout):
                return ""

    def alive(self):
        return self.status("/stats.json") == 200

    def memory_kb(self):
        with open(f"/proc/{self.p.pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith("VmRSS")).split()[1])


# ---- what is sent along with every answer

def headers_protect(s):
    for path in ["/", "/stats.json", "/tasks.json", "/metrics", "/timeline.json", "/trace.json", "/nothing"]:
        status, headers, body = s.get(path)
        check(f"{path}: status", status, 404 if path == "/nothing" else 200)
        check(f"{path}: nosniff", headers.get("X-Content-Type-Options"), "nosniff")
        check(f"{path}: no frames", headers.get("X-Frame-Options"), "DENY")
        check(f"{path}: no referrer", headers.get("Referrer-Policy"), "no-referrer")
        check(f"{path}: not cached", headers.get("Cache-Control"), "no-store")
        check(f"{path}: only for its own origin", headers.get("Cross-Origin-Resource-Policy"), "same-origin")
        check(f"{path}: no CORS", [h for h in headers if h.lower().startswith("access-control")], [])
        policy = headers.get("Content-Security-Policy", "")
        check(f"{path}: policy", "default-src 'none'" in policy and "frame-ancestors 'none'" in policy)
        check(f"{path}: no unsafe policy", "unsafe" in policy, False)
        if path.endswith(".json"):
            json.loads(body)
            check(f"{path}: type", headers["Content-Type"], "application/json")


def head_is_answered(s):
    for path in ["/", "/stats.json", "/tasks.json", "/events", "/trace.json"]:
        check(f"HEAD {path}", s.get(path, method="HEAD")[::2], (200, b""))


    with s.connect() as c:
        c.sendall(f"HEAD /events HTTP/1.1\r\nHost: {s.host}:{s.port}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data:
            data += c.recv(4096)
        c.sendall(f"GET /nothing HTTP/1.1\r\nHost: {s.host}:{s.port}\r\n\r\n".encode())
        data = data.partition(b"\r\n\r\n")[2] + c.recv(4096)
        check("HEAD /events has no body", data[:12], b"HTTP/1.1 404")


# ---- a hostile page in the operator's browser

def rebinding_fails(s):
    own = f"{s.host}:{s.port}"
    for host in ["evil.example", f"evil.example:{s.port}", "127.0.0.1.evil.example", "localhost.evil.example",
                 "127.0.0.2", "0.0.0.0", "[::2]", "localhost:80:80", "a" * 5000, "2130706433"]:
        for path in ["/", "/stats.json", "/events"]:
            check(f"Host {host[:40]}: {path}", s.status(path, {"Host": host}), 403)
        check(f"Host {host[:40]}: an action", s.status("/pause", {"Host": host, **BEARER}, "POST"), 403)
    for host in [own, f"localhost:{s.port}", "localhost", "127.0.0.1", "[::1]:99"]:
        check(f"Host {host}", s.status("/stats.json", {"Host": host}), 200)
    check("no Host", "400" in s.raw(b"GET /stats.json HTTP/1.1\r\n\r\n"))
    check("no Host, HTTP/1.0", "400" in s.raw(b"GET /stats.json HTTP/1.0\r\n\r\n"))
    check("two Hosts", "400" in s.raw(
        b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"))
    for name, value in [("Origin", f"http://{own}"), ("Sec-Fetch-Site", "same-origin"), ("Authorization", "x")]:
        check(f"two headers {name}", "400" in s.raw(
            f"GET /stats.json HTTP/1.1\r\nHost: {own}\r\n{name}: http://evil.example\r\n{name}: {value}\r\n\r\n"
            .encode()))
    check("an empty Host", "40" in s.raw(b"GET /stats.json HTTP/1.1\r\nHost:\r\n\r\n"))
    check("an absolute target", s.raw(
        f"GET http://evil.example/stats.json HTTP/1.1\r\nHost: {own}\r\n\r\n".encode()).split(" ")[1], "404")


def foreign_pages_can_do_nothing(s):
    own = f"http://{s.host}:{s.port}"
    for origin in ["http://evil.example", "null", "", own + ".evil.example", f"http://{s.host}:1", "file://"]:
        for path, method in [("/stats.json", "GET"), ("/events", "GET"), ("/pause", "POST"), ("/", "GET")]:
            check(f"Origin {origin!r}: {method} {path}",
                  s.status(path, {"Origin": origin, **BEARER}, method), 403)
    for site in ["cross-site", "same-site"]:
        check(f"Sec-Fetch-Site {site}: data", s.status("/stats.json", {"Sec-Fetch-Site": site}), 403)
        check(f"Sec-Fetch-Site {site}: an action",
              s.status("/pause", {"Sec-Fetch-Site": site, **BEARER}, "POST"), 403)
        check(f"Sec-Fetch-Site {site}: a link to data",
              s.status("/stats.json", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}), 403)
        check(f"Sec-Fetch-Site {site}: a link to the page",
              s.status("/", {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": "navigate"}), 200)
    check("its own page", s.status("/stats.json", {"Origin": own, "Sec-Fetch-Site": "same-origin"}), 200)
    check("a preflight", s.status("/pause", {"Origin": "http://evil.example",
                                             "Access-Control-Request-Method": "POST"}, "OPTIONS"), 403)
    check("a form", s.status("/pause", {"Content-Type": "application/x-www-form-urlencoded"}, "POST", "a=b"), 413)
    check("the scheduler is not paused", json.loads(s.get("/stats.json")[2])["paused"], False)


# ---- actions

def actions_need_the_token(s):
    for path in ["/tasks/cancel?id=1", "/tasks/run?id=1", "/tasks/pause?id=1", "/tasks/resume?id=1", "/pause",
                 "/resume", "/jobs/redrive?id=a/b", "/jobs/cancel?id=a/b"]:
        check(f"{path}: no token", s.status(path, {}, "POST"), 401)
        for wrong in ["", "Bearer", "Bearer ", f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", f"Basic {TOKEN}", TOKEN,
                      f"Bearer {TOKEN[:-1]}\xff", "Bearer " + "x" * 4000]:
            check(f"{path}: {wrong[:30]!r}", s.status(path, {"Authorization": wrong}, "POST"), 401)
        check(f"{path}: the token in the query", s.status(path + f"&token={TOKEN}", {}, "POST"), 401)
        check(f"{path}: as GET", s.status(path, BEARER), 405)
    for method in ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "FOO"]:
        check(f"method {method}", s.status("/pause", BEARER, method), 405)
    check("paused", s.status("/pause", BEARER, "POST"), 200)
    check("shown as paused", json.loads(s.get("/stats.json")[2])["paused"], True)
    check("paused before", s.status("/pause", BEARER, "POST"), 409)
    check("resumed", s.status("/resume", BEARER, "POST"), 200)
    tasks = json.loads(s.get("/tasks.json?name=img")[2])["tasks"]
    check("the hostile task is there once", len(tasks), 1)
    task = tasks[0]["id"]
    check("pause", s.status(f"/tasks/pause?id={task}", BEARER, "POST"), 200)
    check("shown", json.loads(s.get("/tasks.json?name=img")[2])["tasks"][0]["paused"], True)
    check("resume", s.status(f"/tasks/resume?id={task}", BEARER, "POST"), 200)
    check("run now", s.status(f"/tasks/run?id={task}", BEARER, "POST"), 200)
    check("cancel", s.status(f"/tasks/cancel?id={task}", BEARER, "POST"), 200)
    check("it is gone", s.status(f"/tasks/cancel?id={task}", BEARER, "POST"), 404)
    for wrong in ["", "?id=", "?id=x", "?id=0", "?id=-1", "?id=99999999999999999999", "?ID=5"]:
        check(f"cancel{wrong}", s.status("/tasks/cancel" + wrong, BEARER, "POST"), 404)
    check("unknown action", s.status("/tasks/explode?id=1", BEARER, "POST"), 404)


def without_a_token_it_only_shows():
    with Stage() as s:
        for headers in [{}, BEARER, {"Authorization": "Bearer "}, {"Authorization": ""}]:
            check(f"read-only {headers}", s.status("/pause", headers, "POST"), 403)
        check("says so", json.loads(s.get("/stats.json")[2])["actions"], False)


def a_private_console_shows_nothing_without_the_token():
    with Stage(f"token={TOKEN}", "read=1", "hosts=box.example") as s:
        check("the empty page", s.status("/"), 200)
        for path in ["/stats.json", "/tasks.json", "/events", "/metrics", "/timeline.json", "/trace.json",
                     "/jobs.json", "/nothing"]:
            check(f"{path}: no token", s.status(path), 401)
        check("with the token", s.status("/stats.json", BEARER), 200)
        check("another name of the host", s.status("/stats.json", {"Host": "box.example", **BEARER}), 200)
    with Stage(f"token={TOKEN}", "address=0.0.0.0") as s:
        check("not the loopback: private", s.status("/stats.json"), 401)
        check("a numeric host", s.status("/stats.json", {"Host": f"192.0.2.1:{s.port}", **BEARER}), 200)
        check("a name", s.status("/stats.json", {"Host": "evil.example", **BEARER}), 403)


# ---- hostile names

def names_stay_text(s):
    body = s.get("/tasks.json?sort=name&limit=1000")[2]
    check("no markup in JSON", [c for c in b"<>&'" if c in body], [])
    body.decode("utf-8")  # or it raises
    names = [t["name"] for t in json.loads(body)["tasks"]]
    check("the name as it is", "<img src=x onerror=x()>" in names)
    check("line breaks and controls", "\"';-->\n\r\t\x1b[31m" in names)
    check("bytes that are not UTF-8", any(n.startswith("\ufffd(\ufffd\ufffd") for n in names))
    metrics = s.get("/metrics")[2].decode("utf-8")
    check("metrics stay lines", all(l.startswith(("#", "uvsched_")) for l in metrics.split("\n") if l))
    trace = json.loads(s.get("/trace.json")[2])
    check("the trace is JSON", isinstance(trace, (list, dict)))
    check("no header comes from the query",
          "X-Evil" in s.get("/tasks.json?name=a%0d%0aX-Evil:%201")[1], False)


# ---- bounds

def requests_are_bounded_in_size(s):
    h = f"Host: {s.host}:{s.port}\r\n".encode()
    check("a long target", s.status("/tasks.json?name=" + "x" * 2000), 414)
    for claim, data in [
            ("a huge header", b"GET / HTTP/1.1\r\n" + h + b"X: " + b"x" * 100000 + b"\r\n\r\n"),
            ("many headers", b"GET / HTTP/1.1\r\n" + h + b"".join(b"X-%d: y\r\n" % i for i in range(5000)) + b"\r\n"),
            ("a huge request line", b"GET /" + b"x" * 100000 + b" HTTP/1.1\r\n" + h + b"\r\n")]:
        line = s.raw(data)
        check(claim, line == "" or line.split(" ")[1] in ("400", "413", "414", "431"))
    for claim, data in [
            ("a body", b"POST /pause HTTP/1.1\r\n" + h + b"Content-Length: 5\r\n\r\nhello"),
            ("a body of GET", b"GET /stats.json HTTP/1.1\r\n" + h + b"Content-Length: 5\r\n\r\nhello"),
            ("a body that is announced", b"POST /pause HTTP/1.1\r\n" + h + b"Content-Length: 99999999999\r\n\r\n"),
            ("a chunked body", b"POST /pause HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"),
            ("two lengths", b"POST /pause HTTP/1.1\r\n" + h + b"Content-Length: 0\r\nContent-Length: 5\r\n\r\nhello")]:
        line = s.raw(data)
        check(claim, line == "" or line.split(" ")[1] in ("400", "413"))
    for claim, data in [("nonsense", b"\x00\xff\x16\x03\x01" * 100 + b"\r\n\r\n"), ("TLS", bytes.fromhex("160301020001")),
                        ("SMTP", b"HELO x\r\n\r\n"), ("HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
                        ("a lone line end", b"\n" * 10000)]:
        with s.connect() as c:
            c.sendall(data)
    # An endless body: the connection is closed soon, and the memory does not grow.
    before = s.memory_kb()
    with s.connect() as c:
        c.settimeout(5)
        sent = 0
        try:
            c.sendall(b"POST /pause HTTP/1.1\r\n" + h + b"Transfer-Encoding: chunked\r\n\r\n")
            while sent < 200_000_000:
                sent += c.send(b"10000\r\n" + b"x" * 65536 + b"\r\n")
        except OSError:
            pass
    check("an endless body is cut off", sent < 200_000_000)
    check("memory", s.memory_kb() < before + MEMORY_KB)
    check("still alive", s.alive())


def connections_are_bounded_in_number_and_time():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with Stage("connections=32") as s:
        before = s.memory_kb()
        many = []
        for _ in range(1000):
            try:
                c = socket.socket()
                c.setblocking(False)
                c.connect_ex((s.connect_to, s.port))
                many.append(c)
            except OSError:
                break
        time.sleep(1)
        check("memory with 1000 connections", s.memory_kb() < before + MEMORY_KB)
        fds = len(os.listdir(f"/proc/{s.p.pid}/fd"))
        check("descriptors with 1000 connections", fds < 32 + 40)
        for c in many:
            c.close()
        check("alive after 1000 connections", s.alive())
        # Slow requests: a byte each second. Each is closed after 10 s, whatever it sends.
        slow = [s.connect() for _ in range(8)]
        idle = s.connect()
        reader = s.connect()  # asks for the page again and again, and reads nothing
        reader.setblocking(False)
        began = time.monotonic()
        closed_at = {}
        text = f"GET / HTTP/1.1\r\nHost: {s.host}:{s.port}\r\n".encode()
        while time.monotonic() - began < 16 and len(closed_at) < 9:
            for i, c in enumerate(slow + [idle]):
                if i in closed_at:
                    continue
                try:
                    if c is not idle:
                        at = int(time.monotonic() - began)
                        c.send(text[at:at + 1] or b"X")
                    c.settimeout(0.01)
                    if c.recv(1000) == b"":
                        closed_at[i] = time.monotonic() - began
                except socket.timeout:
                    pass
                except OSError:
                    closed_at[i] = time.monotonic() - began
            check("other requests are answered meanwhile", s.alive())
            time.sleep(1)
        check("slow and idle connections are closed", len(closed_at), 9)
        check("not before their time", all(t > 5 for t in closed_at.values()))
        try:
            for _ in range(200):
                reader.send(text + b"\r\n")
        except OSError:
            pass
        check("alive beside a client that does not read", s.alive())
        check("memory beside it", s.memory_kb() < before + MEMORY_KB)
        reader.close()


def live_updates_are_bounded():
    with Stage("connections=32") as s:
        streams = [s.connect() for _ in range(20)]
        for c in streams:
            c.sendall(f"GET /events HTTP/1.1\r\nHost: {s.host}:{s.port}\r\n\r\n".encode())
        answers = [c.recv(12) for c in streams]
        check("live updates take half of the connections at most",
              (answers.count(b"HTTP/1.1 200"), answers.count(b"HTTP/1.1 503")), (16, 4))
        streams = [c for c, answer in zip(streams, answers) if answer.endswith(b"200")]
        time.sleep(1)
        before = s.memory_kb()
        data = b""
        streams[0].settimeout(0.2)
        end = time.monotonic() + 4
        while time.monotonic() < end:
            try:
                data += streams[0].recv(65536)
            except socket.timeout:
                pass
        n = data.count(b"event: stats")
        check("updates come, and not more than two a second", 3 <= n <= 12)
        check("clients that do not read cost no memory", s.memory_kb() < before + MEMORY_KB)
        check("alive beside the streams", s.alive())
        for c in streams[1:]:
            c.close()
        check("alive after they left", s.alive())


def unknown_parameters_are_no_new_work():
    with Stage("quiet=1") as s:
        for path in ["/stats.json?@", "/timeline.json?x=@", "/timeline.json?last_ms=5000&x=@"]:
            bodies = [s.get(path.replace("@", str(i)))[2] for i in range(30)]
            check(f"{path}: rendered less often than asked for", len(set(bodies)) < 30)
        check("a wrong parameter is still refused", s.status("/timeline.json?last_ms=x&y=1"), 400)
        check("zero, too", s.status("/timeline.json?last_ms=0"), 400)


# ---- no descriptors

def without_descriptors_the_loop_does_not_spin():
    with Stage("quiet=1", "full=1") as s:
        def cpu_s():
            with open(f"/proc/{s.p.pid}/stat", encoding="ascii") as f:
                fields = f.read().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        waiting = s.connect()
        before = cpu_s()
        time.sleep(4)
        check("a client that cannot be accepted costs no CPU time", cpu_s() - before < 1)
        waiting.close()


# ---- fork

def a_forked_child_takes_no_request():
    with Stage("quiet=1", "fork=1") as s:
        kept = http.client.HTTPConnection(s.connect_to, s.port, timeout=30)
        for i in range(30):
            check("a request beside a forked child", s.status("/stats.json"), 200)
            kept.request("GET", f"/tasks.json?limit={i + 1}")
            check("a kept connection beside it", kept.getresponse().read() != b"")
        kept.close()


def floods_leave_time_for_the_loop():
    with Stage("quiet=1", "tasks=20000") as s:
        streams = []
        for _ in range(40):
            c = s.connect()
            c.setblocking(False)
            streams.append(c)
        request = f"GET /stats.json HTTP/1.1\r\nHost: {s.host}:{s.port}\r\n\r\n".encode()
        end = time.monotonic() + 2
        while time.monotonic() < end:
            for c in streams:
                try:
                    c.send(request * 10)
                    c.recv(65536)
                except OSError:
                    pass
        task = json.loads(s.get("/tasks.json?name=heartbeat")[2])["tasks"][0]
        check("the heartbeat went on", task["runs"] > 20)
        for c in streams:
            c.close()


def main():
    with Stage(f"token={TOKEN}") as s:
        headers_protect(s)
        head_is_answered(s)
        rebinding_fails(s)
        foreign_pages_can_do_nothing(s)
        names_stay_text(s)
        actions_need_the_token(s)
        requests_are_bounded_in_size(s)
    without_a_token_it_only_shows()
    a_private_console_shows_nothing_without_the_token()
    live_updates_are_bounded()
    a_forked_child_takes_no_request()
    without_descriptors_the_loop_does_not_spin()
    unknown_parameters_are_no_new_work()
    floods_leave_time_for_the_loop()
    connections_are_bounded_in_number_and_time()
    print(f"{passed} checks passed, {len(failures)} failed")
    sys.exit(1 if failures else 0)


main()
