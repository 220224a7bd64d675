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
        self.mode, self.pairs = "pass", set()
        self.loop = asyncio.new_event_loop()
        self.listener = self.listen(0)
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        self.open_gate = asyncio.Event()
        self.open_gate.set()
        self.acceptor = self.loop.create_task(self.accept(self.listener))
        self.loop.run_forever()

    def listen(self, port):
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
            self.acceptor = self.loop.create_task(self.accept(self.listener))
        self.mode = mode
        if mode == "hole":
            self.open_gate.clear()
        else:
            self.open_gate.set()
        if mode == "refuse":
            self.acceptor.cancel()
            self.listener.close()
        if mode in ("refuse", "reset"):
            for pair in list(self.pairs):
                self.end(pair)
        if mode == "half":
            for pair in list(self.pairs):
                pair[1].shutdown(socket.SHUT_RDWR)

    def end(self, pair):
        if pair in self.pairs:
            self.pairs.discard(pair)
            for sock in pair:
                reset(sock)

    async def accept(self, listener):
        while True:
            client, _ = await self.loop.sock_accept(listener)
            self.loop.create_task(self.serve(client))

    async def serve(self, client):
        if self.mode == "reset":
            reset(client)
            return
        server = socket.socket()
        server.setblocking(False)
        pair = client, server
        self.pairs.add(pair)
        for sock in pair:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            if self.mode == "half":
                await self.sink(client)
                return
            await self.open_gate.wait()
            await self.loop.sock_connect(server, ("127.0.0.1", self.target))
            pumps = [self.loop.create_task(self.pump(client, server, False)),
                     self.loop.create_task(self.pump(server, client, True))]
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            if self.mode == "half":
                await self.sink(client)
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            pass
        finally:
            self.end(pair)

    async def sink(self, client):
        """Nobody hears the client, until it closes, or this mode is over."""
        while self.mode == "half":
            try:
                if not await asyncio.wait_for(self.loop.sock_recv(client, 65536), 0.05):
                    return
            except asyncio.TimeoutError:
                pass

    async def pump(self, source, sink, answers):
        """Forwards until the connection ends."""
        half = b""
        try:
            while True:
                data = await self.loop.sock_recv(source, 65536)
                await self.open_gate.wait()
                if not data:
                    return
                if self.mode == "half":
                    continue
                if answers and self.mode == "delay":
                    await asyncio.sleep(DELAY)
                if answers and self.mode == "cut" and self.choose.random() < CUT:
                    return
                if answers and (self.mode == "mute" or half):
                    data, half = without_messages(half + data)
                if self.mode != "bytes":
                    await self.loop.sock_sendall(sink, data)
                    continue
                for i in range(len(data)):
                    await self.loop.sock_sendall(sink, data[i:i + 1])
                    if i % 16 == 0:
                        await asyncio.sleep(0)
        except OSError:
            pass

    def close(self):
        async def end_all():
            for pair in list(self.pairs):
                self.end(pair)
            for task in asyncio.all_tasks():
                if task is not asyncio.current_task():
                    task.cancel()
            self.listener.close()
        asyncio.run_coroutine_threadsafe(end_all(), self.loop).result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()
