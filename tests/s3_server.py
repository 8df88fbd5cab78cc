"""An S3 server for a test, which keeps its buckets in memory."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow.fs

KEY, SECRET = "weft-test-key", "weft-test-secret"
_PROGRAM = "import sys; from moto.server import main; main(sys.argv[1:])"
_PATIENCE_SECONDS = 60.0


@contextmanager
def s3_server(bucket: str) -> Iterator[int]:
    """Start a server with a bucket, and yield the port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    command = [sys.executable, "-c", _PROGRAM, "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _await(port, server)
        store = pyarrow.fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )
        store.create_dir(bucket)
        yield port
    finally:
        server.kill()
        server.wait()


def _await(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < until:
        assert server.poll() is None, "the S3 server has ended"
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise AssertionError("the S3 server does not answer")
