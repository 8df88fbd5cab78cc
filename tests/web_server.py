"""A web server on this machine. It accepts posts, or follows a script of responses and failures."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from loopback import talking

HANG_SECONDS = 20.0
DROP_BEFORE, DROP_AFTER, HANG, DRIP = "drop before", "drop after", "hang", "drip"


@dataclass
class Request:
    """A request that the server received."""

    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Web:
    """A server with one response per request in ``says``. It repeats the last response.

    A response is a status with its reason and headers, or a failure.
    """

    says: list[str] = field(default_factory=lambda: ["200 OK"])
    requests: list[Request] = field(default_factory=list)
    conversations: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    def talk(self, line: socket.socket) -> None:
        says = self.says[min(self.conversations, len(self.says) - 1)]
        self.conversations += 1
        with line, contextlib.suppress(OSError), line.makefile("rb") as stream:
            if says == DROP_BEFORE:
                return
            target = stream.readline().decode().split()[1]
            headers = {}
            while (text := stream.readline().decode("latin-1").strip()) != "":
                name, _, value = text.partition(":")
                headers[name.lower()] = value.strip()
            self.requests.append(Request(target, headers, stream.read(int(headers["content-length"]))))
            if says == DROP_AFTER:
                return
            if says == HANG:
                self.over.wait(HANG_SECONDS)
                return
            if says == DRIP:
                while not self.over.wait(0.02):
                    line.sendall(b"X")
                return
            status, *more = says.split("\n")
            answer = "\r\n".join([f"HTTP/1.1 {status}", "Content-Length: 5", "Connection: close", *more, "", "taken"])
            line.sendall(answer.encode())


@contextlib.contextmanager
def web(server: Web, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """Run the server, and yield its port. With ``context``, the server uses TLS."""

    def talk(line: socket.socket) -> None:
        with contextlib.suppress(OSError):
            server.talk(line if context is None else context.wrap_socket(line, server_side=True))

    with talking(talk, server.over, HANG_SECONDS) as port:
        yield port
