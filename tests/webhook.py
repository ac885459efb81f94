"""A real web server on loopback that takes what is sent to a webhook, and answers as it is told."""

from __future__ import annotations

import json
import select
import socket
import socketserver
import ssl
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Receiver:
    """What has come, and what is answered: a code each, 200 when these are used up."""

    def __init__(self, answers=()):
        self.answers = list(answers)
        self.got = []
        self.answers_now = threading.Event()  # clear: nothing is answered until it is set
        self.answers_now.set()
        self.closed = False
        self.url = ""

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.got.append((handler.path, dict(handler.headers), json.loads(body or b"null")))
        self.answers_now.wait()
        return self.answers.pop(0) if self.answers else 200


@contextmanager
def receiver(*answers, certificate=None):
    """Give a server that listens, and its address."""
    here = Receiver(answers)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            code = here.take(self)
            if here.closed:
                return
            self.send_response(code)
            if 300 <= code < 400:
                self.send_header("Location", f"{here.url}/elsewhere")
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        do_GET = do_POST  # noqa: N815 - as http.server calls it

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    here.url = f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_port}"
    try:
        yield here
    finally:
        here.closed = True
        here.answers_now.set()
        server.shutdown()
        thread.join()
        server.server_close()


class Proxy:
    """A proxy that connects to whom it is asked for; what it was asked."""

    def __init__(self):
        self.asked = []
        self.refuses = False
        self.port = 0


@contextmanager
def connect_proxy():
    """Give a proxy on loopback that understands CONNECT."""
    here = Proxy()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            lines = []
            while line := self.rfile.readline().decode().strip():
                lines.append(line)
            here.asked.append("\n".join(lines))
            if here.refuses:
                self.wfile.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
                return
            host, _, port = lines[0].split()[1].rpartition(":")
            with socket.create_connection((host, int(port))) as there:
                self.wfile.write(b"HTTP/1.1 200 Connected\r\n\r\n")
                ends = {self.connection: there, there: self.connection}
                while True:
                    for one in select.select(list(ends), [], [])[0]:
                        if not (data := one.recv(65536)):
                            return
                        ends[one].sendall(data)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        server.block_on_close = False
        here.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield here
        finally:
            server.shutdown()
            thread.join()
