# SPDX-License-Identifier: MIT
"""A TCP proxy in front of the broker. It reads the AMQP frames that pass, and can hold and cut.

A connection is of the bridge's thread for publishing or for the intake: what it sends says which.
"""
import socket
import struct
import threading

PUBLISH, RETURN, ACK, CONSUME = (60, 40), (60, 50), (60, 80), (60, 20)


class Connection:
    def __init__(self, proxy, client):
        self.proxy = proxy
        self.client = client
        self.server = socket.create_connection(("127.0.0.1", proxy.port_of_broker), 10)
        self.publishes = 0      # sent by the client
        self.confirmed = 0      # the highest tag that the broker has confirmed
        self.most_unconfirmed = 0
        self.acks = []          # of the client: (tag, multiple)
        self.consumes = 0
        self.gate = threading.Event()  # closed: nothing passes from the broker
        self.gate.set()
        for source, target, look in ((client, self.server, self.from_client), (self.server, client, self.from_server)):
            threading.Thread(target=self.pump, args=(source, target, look), daemon=True).start()

    def from_client(self, method, channel, args):
        if method == PUBLISH:
            self.publishes += 1
            self.most_unconfirmed = max(self.most_unconfirmed, self.publishes - self.confirmed)
        elif method == ACK:
            tag, multiple = struct.unpack(">QB", args[:9])
            self.acks.append((tag, bool(multiple & 1)))
        elif method == CONSUME:
            self.consumes += 1

    def from_server(self, method, channel, args):
        if method == ACK:
            self.confirmed = max(self.confirmed, struct.unpack(">Q", args[:8])[0])

    def pump(self, source, target, look):
        buffered = b""
        begun = source is not self.client  # the client begins with 8 bytes that are no frame
        try:
            while data := source.recv(65536):
                if source is self.server:
                    self.gate.wait()
                buffered += data
                if not begun:
                    begun, buffered = True, buffered[8:]
                while len(buffered) >= 7 and len(buffered) >= (end := 8 + struct.unpack(">I", buffered[3:7])[0]):
                    if buffered[0] == 1:
                        method = struct.unpack(">HH", buffered[7:11])
                        look(method, struct.unpack(">H", buffered[1:3])[0], buffered[11:end - 1])
                    buffered = buffered[end:]
                target.sendall(data)
        except OSError:
            pass
        self.cut()

    def cut(self):
        for s in (self.client, self.server):
            try:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
                s.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            s.close()
        self.gate.set()
        with self.proxy.lock:
            if self in self.proxy.connections:
                self.proxy.connections.remove(self)


class Proxy:
    def __init__(self, port_of_broker):
        self.port_of_broker = port_of_broker
        self.lock = threading.Lock()
        self.connections = []
        self.all = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            try:
                c = Connection(self, client)
            except OSError:  # the broker is down
                client.close()
                continue
            with self.lock:
                self.connections.append(c)
                self.all.append(c)

    def publishing(self):
        with self.lock:
            return next((c for c in self.connections if c.publishes > 0), None)

    def cut(self):
        with self.lock:
            connections = list(self.connections)
        for c in connections:
            c.cut()
        return len(connections)
