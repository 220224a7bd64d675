# SPDX-License-Identifier: MIT
"""A RabbitMQ broker for tests: free ports of the loopback, and everything else in one folder.

It works as root and without a system service. stop() ends the broker and its epmd, and is called at
the end of the program in any case.
"""
import atexit
import os
import shutil
import signal
import socket
import subprocess
import time

BIN = "/usr/lib/rabbitmq/bin"


def why_not():
    """Why there can be no broker here; None: there can."""
    if not os.path.exists(f"{BIN}/rabbitmq-server"):
        return "rabbitmq-server is not installed"
    if shutil.which("epmd") is None:
        return "epmd is not installed"
    return None


def free_ports(n):
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Broker:
    def __init__(self, folder, tls=None):
        """tls: a folder with ca.pem, cert.pem and key.pem."""
        self.folder = os.path.abspath(folder)
        os.makedirs(f"{self.folder}/mnesia", exist_ok=True)
        self.port, self.tls_port, dist, epmd = free_ports(4)
        with open(f"{self.folder}/plugins", "w") as f:
            f.write("[].\n")
        with open(f"{self.folder}/rabbitmq.conf", "w") as f:
            f.write("loopback_users = none\nlog.file.level = warning\n")
            if tls:
                f.write(f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}\n"
                        f"ssl_options.cacertfile = {tls}/ca.pem\nssl_options.certfile = {tls}/cert.pem\n"
                        f"ssl_options.keyfile = {tls}/key.pem\n")
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("RABBITMQ_", "ERL_"))}
        self.env.update({
            "HOME": self.folder, "ERL_EPMD_PORT": str(epmd), "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "uvs@localhost", "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port), "RABBITMQ_DIST_PORT": str(dist),
            "RABBITMQ_MNESIA_BASE": f"{self.folder}/mnesia", "RABBITMQ_LOG_BASE": f"{self.folder}/log",
            "RABBITMQ_PID_FILE": f"{self.folder}/pid", "RABBITMQ_ENABLED_PLUGINS_FILE": f"{self.folder}/plugins",
            "RABBITMQ_CONFIG_FILE": f"{self.folder}/rabbitmq.conf",
            "RABBITMQ_GENERATED_CONFIG_DIR": f"{self.folder}/generated",
            "RABBITMQ_SCHEMA_DIR": f"{self.folder}/schema", "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        })
        self.process = None
        self.starts = 0
        atexit.register(self.stop)

    def start(self):
        self.starts += 1
        with open(f"{self.folder}/output", "ab") as out:
            self.process = subprocess.Popen([f"{BIN}/rabbitmq-server"], env=self.env, stdin=subprocess.DEVNULL,
                                            stdout=out, stderr=out, start_new_session=True, cwd=self.folder)
        end = time.monotonic() + 120
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > end:
                with open(f"{self.folder}/output", errors="replace") as f:
                    raise RuntimeError(f"the broker does not start:\n{f.read()[-3000:]}")
            time.sleep(0.1)

    def answers(self):
        """Does it speak AMQP? It opens the port when it is ready."""
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as s:
                s.settimeout(5)
                s.sendall(b"AMQP\0\0\x09\x01")
                return s.recv(1) == b"\x01"
        except OSError:
            return False

    def kill(self):
        """As by a power failure of its machine, but its disk keeps what was written."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None

    def stop(self):
        self.kill()
        end = time.monotonic() + 20
        while self.starts > 0:  # epmd refuses while it has not noticed that the broker is gone
            subprocess.run(["epmd", "-kill"], env=self.env, stdin=subprocess.DEVNULL, capture_output=True)
            names = subprocess.run(["epmd", "-names"], env=self.env, stdin=subprocess.DEVNULL, capture_output=True)
            if names.returncode != 0 or time.monotonic() > end:
                self.starts = 0
            else:
                time.sleep(0.1)

    def ctl(self, *args):
        p = subprocess.run([f"{BIN}/rabbitmqctl", "-q", "-n", "uvs@localhost", *args], env=self.env, timeout=60,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if p.returncode != 0:
            raise RuntimeError(f"rabbitmqctl {args}: {p.stdout}{p.stderr}")
        return p.stdout

    def url(self, port=None):
        return f"amqp://guest:guest@127.0.0.1:{port or self.port}"
