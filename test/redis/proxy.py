# SPDX-License-Identifier: MIT
"""proxy: a TCP proxy in front of a Redis server, which breaks connections in these ways:

  pass      forwards everything
  refuse    new connections are refused, others are reset
  reset     all connections are reset, new ones as soon as they are accepted
  hole      nothing arrives any more, in either direction, until this is over; then it does
  half      the server's end of each connection is gone, and the client is not told; the same for
            new connections
  delay     each piece of an answer arrives 200 ms late
  bytes     everything is sent byte by byte
  cut       a request is forwarded; when its answer comes, the connection is reset instead
  mute      messages of PUBLISH are swallowed
"""
import asyncio
import random
import socket
import struct
import threading

FAULTS = ("refuse", "reset", "hole", "half", "delay", "bytes", "cut")
DELAY = 0.2
CUT = 0.1  # of all answers: less would let a reconnect never succeed
MESSAGE = b"*3\r\n$7\r\nmessage\r\n"


def reset(sock):
    """Closes a connection so that the peer gets a RST."""
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    except OSError:
        pass
    sock.close()


def without_messages(data):
    """Splits what a subscriber gets: (what is not a message, the beginning of an incomplete one)."""
    kept = b""
    while True:
        at = data.find(MESSAGE)
        if at < 0:
            return kept + data, b""
        kept, rest = kept + data[:at], data[at + len(MESSAGE):]
        for _ in range(2):  # channel and text
            head, mark, tail = rest.partition(b"\r\n")
            size = int(head[1:]) + 2 if mark else 0
            if not mark or len(tail) < size:
                return kept, data[at:]
            rest = tail[size:]
        data = rest


class Proxy:
    def __init__(self, target, seed=0):
        self.target, self.choose = target, random.Random(seed)
        self.mode, self.tasks = "pass", {}  # task of a connection: its sockets
        self.loop = asyncio.new_event_loop()
        self.listener = self.listen(0)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.acceptor = self.loop.create_task(self.accept())
        self.loop.run_forever()

    @staticmethod
    def listen(port):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(100)
        listener.setblocking(False)
        return listener

    def set(self, mode):
        """From any thread; returns when the mode is in force."""
        asyncio.run_coroutine_threadsafe(self.change(mode), self.loop).result()

    async def change(self, mode):
        if self.mode == "refuse":
            self.listener = self.listen(self.port)
            self.acceptor = self.loop.create_task(self.accept())
        self.mode = mode
        if mode == "hole":
            self.open_gate.clear()
        else:
            self.open_gate.set()
        if mode == "refuse":
            await self.refuse()
        if mode in ("refuse", "reset"):
            await self.end_all()
        if mode == "half":
            for _, server in self.tasks.values():
                try:
                    server.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    async def refuse(self):
        """A socket is closed only when no task waits for it: the loop knows it by its number."""
        self.acceptor.cancel()
        await asyncio.gather(self.acceptor, return_exceptions=True)
        self.listener.close()

    async def end_all(self):
        tasks = list(self.tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def accept(self):
        while True:
            client, _ = await self.loop.sock_accept(self.listener)
            server = socket.socket()
            for sock in (client, server):
                sock.setblocking(False)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = self.loop.create_task(self.serve(client, server))
            self.tasks[task] = client, server
            task.add_done_callback(self.forget)

    def forget(self, task):
        for sock in self.tasks.pop(task):
            reset(sock)

    async def serve(self, client, server):
        pumps = []
        try:
            if self.mode == "reset":
                return
            if self.mode != "half":
                await self.open_gate.wait()
                await self.loop.sock_connect(server, ("127.0.0.1", self.target))
                pumps = [self.loop.create_task(self.pump(client, server, False)),
                         self.loop.create_task(self.pump(server, client, True))]
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        except OSError:
            pass
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        await self.sink(client)

    async def sink(self, client):
        """Nobody hears the client, until it closes, or this mode is over."""
        while self.mode == "half":
            try:
                if not await asyncio.wait_for(self.loop.sock_recv(client, 65536), 0.05):
                    return
            except asyncio.TimeoutError:
                pass
            except OSError:
                return

    async def pump(self, source, sink, answers):
        """Forwards until the connection ends."""
        rest = b""
        try:
            while True:
                data = await self.loop.sock_recv(source, 65536)
                await self.open_gate.wait()
                if not data or (answers and self.mode == "cut" and self.choose.random() < CUT):
                    return
                if self.mode == "half":
                    continue
                if answers and self.mode == "delay":
                    await asyncio.sleep(DELAY)
                if answers and (self.mode == "mute" or rest):
                    data, rest = without_messages(rest + data)
                size = 1 if self.mode == "bytes" else len(data)
                for at in range(0, len(data), max(size, 1)):
                    await self.loop.sock_sendall(sink, data[at:at + size])
                    await asyncio.sleep(0)
        except OSError:
            pass

    def close(self):
        async def close_all():
            if self.mode != "refuse":
                await self.refuse()
            self.open_gate.set()
            await self.end_all()
        asyncio.run_coroutine_threadsafe(close_all(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
