"""An S3 server for a test, which keeps its buckets in memory."""

from __future__ import annotations

import http.client
import http.server
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

import pyarrow.fs

from weft.store import S3Access, S3Store

KEY, SECRET = "weft-test-key", "weft-test-secret"
_PROGRAM = """
import sys, threading
from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

application = DomainDispatcherApplication(create_backend_app)
lock = threading.Lock()

def one_conditional_put_at_a_time(environ, start):
    if "HTTP_IF_NONE_MATCH" not in environ:
        return application(environ, start)
    with lock:
        return application(environ, start)

handler = MotoRequestHandler
run_simple("127.0.0.1", int(sys.argv[1]), one_conditional_put_at_a_time, threaded=True, request_handler=handler)
"""
"""moto tests a condition and stores the object in two steps, so that two writers can both succeed. The lock makes the
two steps one (test_conditional_put.py).
"""
_PATIENCE_SECONDS = 60.0


@contextmanager
def s3_server(bucket: str) -> Iterator[int]:
    """Start a server with a bucket, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-c", _PROGRAM, str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port, server)
        _client(f"127.0.0.1:{port}").create_dir(bucket)
        yield port
    finally:
        server.kill()
        server.wait()


def _client(server: str) -> pyarrow.fs.S3FileSystem:
    return pyarrow.fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        endpoint_override=server,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, "the S3 server has ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the S3 server does not answer")


def access_to(port: int) -> S3Access:
    """Return the access to the server on this port."""
    return S3Access(f"http://127.0.0.1:{port}", key=KEY, secret=SECRET)


def new_bucket(access: S3Access) -> S3Store:
    """Make an empty bucket."""
    name = f"weft-{uuid.uuid4()}"
    _client(urlsplit(access.endpoint or "").netloc).create_dir(name)
    return S3Store(name, access)


def environment(access: S3Access) -> dict[str, str]:
    """Return the variables that give this access to another process."""
    assert access.endpoint and access.key and access.secret
    keys = {"AWS_ACCESS_KEY_ID": access.key, "AWS_SECRET_ACCESS_KEY": access.secret}
    return {"AWS_ENDPOINT_URL": access.endpoint, "AWS_REGION": access.region, **keys}


class _Proxy(http.server.BaseHTTPRequestHandler):
    server_of: str
    lose: Callable[[str, str], str | None]
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _pass_on(self) -> None:
        raw = self._body()
        lost = type(self).lose(self.command, self.path)
        if lost is not None and lost.isdigit():
            if lost == "412":
                self._forwarded(raw)
            self.send_response(int(lost))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        if lost != "request":
            status, headers, body = self._forwarded(raw)
        if lost is not None:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return
        self.send_response(status)
        for name, value in headers:
            if name.lower() not in ("transfer-encoding", "connection", "date", "server"):
                self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        pieces = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(pieces)

    def _forwarded(self, raw: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection(self.server_of, timeout=60)
        own = ("expect", "transfer-encoding", "content-length", "connection")
        headers = {name: value for name, value in self.headers.items() if name.lower() not in own}
        connection.request(self.command, self.path, raw, headers)
        reply = connection.getresponse()
        found = reply.status, reply.getheaders(), reply.read()
        connection.close()
        return found

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _pass_on


class _ProxyServer(http.server.ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that ends before it has its reply."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


@contextmanager
def lossy(store: S3Store, loses: Callable[[str, str], str | None]) -> Iterator[S3Store]:
    """Put a proxy before the server of the store, and give the store behind the proxy.

    ``loses`` receives the method and the path of a request. It returns "reply" to drop the connection after the server
    has served the request, "request" to drop it before, the code of an error to answer instead, or None. With "412"
    the server has served the request: a store answers so to the repetition of a request whose reply was lost.
    """

    class Proxy(_Proxy):
        server_of = urlsplit(store.access.endpoint or "").netloc
        lose = staticmethod(loses)

    with _ProxyServer(("127.0.0.1", 0), Proxy) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        access = replace(store.access, endpoint=f"http://127.0.0.1:{server.server_port}")
        try:
            yield replace(store, access=access)
        finally:
            server.shutdown()
