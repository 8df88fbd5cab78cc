"""An SMTP server on this machine. It uses aiosmtpd, or follows a script of replies and failures."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from email.message import EmailMessage
from functools import cache
from pathlib import Path
from typing import Any

import trustme
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult, Envelope

from loopback import talking

HANG_SECONDS = 20.0


@cache
def authority() -> trustme.CA:
    return trustme.CA()


@cache
def server_context(name: str = "127.0.0.1") -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority().issue_cert(name).configure_cert(context)
    return context


def trusted(folder: Path) -> Path:
    """Return a file with the certificate of the authority."""
    file = folder / "authority.pem"
    file.write_bytes(authority().cert_pem.bytes())
    return file


@dataclass
class Letter:
    """A letter that the server accepted."""

    sender: str
    recipients: list[str]
    content: bytes

    @property
    def message(self) -> EmailMessage:
        found = message_from_bytes(self.content, policy=policy.default)
        assert isinstance(found, EmailMessage)
        return found

    @property
    def text(self) -> str:
        body = self.message.get_body(("plain",))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")

    @property
    def html(self) -> str:
        body = self.message.get_body(("html",))
        assert body is not None
        return str(body.get_content()).replace("\r\n", "\n")


@dataclass
class Post:
    """The handler of a correct server. ``refuses`` maps refused recipients to replies."""

    letters: list[Letter] = field(default_factory=list)
    refuses: dict[str, str] = field(default_factory=dict)

    async def handle_RCPT(
        self, _server: Any, _session: Any, envelope: Envelope, address: str, _options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.letters.append(Letter(str(envelope.mail_from), list(envelope.rcpt_tos), envelope.content))
        return "250 taken"


def _authenticator(_server: Any, _session: Any, _envelope: Any, _mechanism: str, given: Any) -> AuthResult:
    return AuthResult(success=(given.login, given.password) == (b"weft", b"open sesame"), handled=False)


@contextlib.contextmanager
def serving(
    post: Post, *, implicit: str | None = None, starttls: str | None = None, login: bool = False
) -> Iterator[int]:
    """Run a correct server, and yield its port. ``implicit`` and ``starttls`` are the names in its certificate."""
    controller = Controller(
        post,
        hostname="127.0.0.1",
        port=free_port(),
        ssl_context=None if implicit is None else server_context(implicit),
        tls_context=None if starttls is None else server_context(starttls),
        require_starttls=starttls is not None,
        authenticator=_authenticator if login else None,
        auth_required=login,
        auth_require_tls=False,
    )
    controller.start()
    try:
        yield controller.port
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


HANG, DROP, DRIP, TORN = "hang", "drop", "drip", "torn"


@dataclass
class Script:
    """The replies of a server by command. Other keys are ``greeting``, ``text`` (during the text) and ``.`` (at its
    end).

    A reply is a line, or ``hang``, ``drop``, ``drip`` (slow single characters) or ``torn`` (half a line).
    """

    says: dict[str, str]
    heard: list[str] = field(default_factory=list)
    letters: list[bytes] = field(default_factory=list)
    over: threading.Event = field(default_factory=threading.Event)
    conversations: int = 0

    def _line(self, word: str) -> str:
        usual = {"greeting": "220 here", "EHLO": "250 here", "DATA": "354 go on", "QUIT": "221 bye"}
        return self.says.get(word, usual.get(word, "250 OK"))

    def talk(self, line: socket.socket) -> None:
        self.conversations += 1
        with line, contextlib.suppress(OSError), line.makefile("rb") as stream:
            if not self._answer(line, "greeting"):
                return
            for command in stream:
                word = command.decode("latin-1").split()[0].upper().rstrip(":")
                self.heard.append(command.decode("latin-1").strip())
                if not self._answer(line, word):
                    return
                if word == "DATA" and self._line(word).startswith("354") and not self._text(line, stream):
                    return
                if word == "QUIT":
                    return

    def _text(self, line: socket.socket, stream: Any) -> bool:
        if "text" in self.says:
            stream.readline()
            return self._answer(line, "text")
        lines = []
        for text in stream:
            if text == b".\r\n":
                self.letters.append(b"".join(lines))
                return self._answer(line, ".")
            lines.append(text)
        return False

    def _answer(self, line: socket.socket, word: str) -> bool:
        answer = self._line(word)
        if answer == DROP:
            return False
        if answer == TORN:
            line.sendall(b"250")
            return False
        if answer == HANG:
            self.over.wait(HANG_SECONDS)
            return False
        if answer == DRIP:
            for _ in range(int(HANG_SECONDS / 0.02)):
                line.sendall(b"2")
                if self.over.wait(0.02):
                    break
            return False
        line.sendall(answer.encode() + b"\r\n")
        return True


@contextlib.contextmanager
def scripted(script: Script) -> Iterator[int]:
    """Run a server that follows a script, and yield its port."""
    with talking(script.talk, script.over, HANG_SECONDS) as port:
        yield port


def took(action: Callable[[], object]) -> float:
    """Return the seconds that ``action`` takes."""
    begun = time.monotonic()
    action()
    return time.monotonic() - begun
