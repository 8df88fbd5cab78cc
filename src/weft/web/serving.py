"""Listen for browsers in a thread, beside the work of ``weft serve``."""

from __future__ import annotations

import ipaddress
import os
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from anyio.to_thread import current_default_thread_limiter
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn import Config, Server

from weft.access import follow_folder
from weft.api.weft import Weft
from weft.catalog.layout import page_key_file
from weft.configuration import configuration
from weft.errors import ExecutionError, Refused, WeftError
from weft.rights.secrets import new_secret
from weft.web.app import application
from weft.web.security import LOOPBACK
from weft.web.site import Site

PORT: Final = 8765
HOST: Final = "127.0.0.1"
THREADS: Final = 16
"""The number of pages that are made at once.  Further requests wait."""
_START_SECONDS: Final = 20.0
_INDEX_SECONDS: Final = 2.0
"""How often new answers are indexed.  A search waits for those that are not in the index."""
_END_SECONDS: Final = 5.0
_SWITCH_SECONDS: Final = 0.0005
"""How long a thread may run while another waits for the interpreter.

A page gives the interpreter up for each row that it reads.  While a tick computes, it waits each time for so long.
Python's default is 0.005 s.
"""
_SHORTEST_KEY: Final = 32
"""The least number of characters of the key of a page."""


@dataclass(frozen=True)
class Address:
    """Where the page listens.  ``host`` is a name or an IP address.  ``certificate`` and ``key`` are files for TLS.

    ``page_key`` opens the page of a home without users.
    """

    host: str = HOST
    port: int = PORT
    certificate: Path | None = None
    key: Path | None = None
    page_key: str | None = field(default=None, repr=False)

    @property
    def tls(self) -> bool:
        """Whether the page speaks TLS."""
        return self.certificate is not None

    @property
    def is_local(self) -> bool:
        """Whether only this machine reaches the page."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def url(self) -> str:
        """The address for a browser on this machine."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls else 'http'}://{host}:{self.port}/"

    @property
    def opening(self) -> str:
        """The address that opens the page without further steps, if the home has no users."""
        return self.url if self.page_key is None else f"{self.url}open/{self.page_key}"


def read_address(text: str, certificate: Path | None = None, key: Path | None = None) -> Address:
    """Return the address of ``[HOST:]PORT``.

    Raise Refused for another text, a key without a certificate, or files that cannot be used for TLS.

    >>> read_address("8080").url, read_address("[::1]:80").url, read_address("box:0").host
    ('http://127.0.0.1:8080/', 'http://[::1]:80/', 'box')
    """
    host, _, port = text.strip().rpartition(":")
    if not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise Refused(
            f"{text!r} is not an address for the page", hint="Write a port, or a host and a port: --http 127.0.0.1:8765"
        )
    if (certificate is None) != (key is None):
        raise Refused("TLS needs a certificate and its key", hint="Name both files: --tls-cert FILE --tls-key FILE")
    for file in (certificate, key):
        if file is not None and not file.is_file():
            raise Refused(f"there is no file {file}", hint="Name a file in PEM format.")
    if certificate is not None and key is not None:
        _require_pair(certificate, key)
    return Address(host.strip("[]") or HOST, int(port), certificate, key)


def _require_pair(certificate: Path, key: Path) -> None:
    try:
        # Without a password here, OpenSSL asks for that of an encrypted key on the terminal.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, password="")
    except OSError as error:
        reason = error.strerror or "unreadable"
        if isinstance(error, ssl.SSLError):
            reason = "one of the files is not in PEM format, or the key is encrypted"
            if error.reason == "KEY_VALUES_MISMATCH":
                reason = "the key belongs to another certificate"
        raise Refused(
            f"the certificate {certificate} and the key {key} cannot be used for TLS: {reason}",
            hint="Name a certificate in PEM format, and its key without encryption.",
        ) from None


@contextmanager
def page_served(
    weft: Weft, address: Address, more: Callable[[Site], Sequence[Route]] = lambda _: ()
) -> Iterator[Address]:
    """Serve the page of the home during the ``with`` block, with ``more`` routes.  Yield the address with its port.

    Raises Refused if others than this machine could reach the page.  Raises ExecutionError if the address is in use.
    """
    chosen = configuration(weft.home)
    is_local = address.is_local and not chosen.web_proxy and chosen.web_url is None
    if not is_local and not weft.accounts.in_use():
        raise Refused(
            f"{address.host} can be reached from other machines, but this home has no users: everybody would be "
            "its owner",
            hint="Add the first user with `weft user add NAME --role admin`, or leave out the host and [web] in the "
            "settings, so that only this machine reaches the page.",
        )
    listener = _bound(address)
    key = None if weft.accounts.in_use() else _page_key(weft.home)
    actual = replace(address, port=listener.getsockname()[1], page_key=key)
    tls = address.tls or _is_https(chosen.web_url)
    site = Site(weft, _hosts(address, chosen.web_url), tls, is_local, key or new_secret())
    server = _PageServer(_config(address, application(site, more(site))))
    thread = threading.Thread(target=server.run, args=([listener],), name="weft-page", daemon=True)
    thread.start()
    until = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise ExecutionError("the page did not start", where=actual.url, hint="Check the files for TLS.")
        time.sleep(0.02)
    over = threading.Event()
    threading.Thread(target=_keep_index, args=(weft, over), name="weft-index", daemon=True).start()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    try:
        yield actual
    finally:
        sys.setswitchinterval(interval)
        over.set()
        site.close()
        server.should_exit = True
        thread.join(_END_SECONDS)
        listener.close()


def _page_key(home: Path) -> str:
    """Return the key in the home's file, which stays the same over a restart.

    Only accounts that may enter the home can read the file.  It appears whole, also if the machine stops meanwhile, and
    once, also if several processes start.
    """
    file = page_key_file(home)
    if not file.exists():
        draft = file.with_name(f".{file.name}.{new_secret()[:8]}")
        try:
            with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
                made.write(new_secret())
                made.flush()
                os.fsync(made.fileno())
            follow_folder(draft)
            with suppress(FileExistsError):
                file.hardlink_to(draft)
        finally:
            draft.unlink()
    key = file.read_text(errors="replace").strip()
    if len(key) < _SHORTEST_KEY or not key.isascii():
        raise Refused("the key of the page is damaged", where=str(file), hint="Delete the file, and start again.")
    return key


class _PageServer(Server):
    """A server whose pages run in a limited number of threads.  Each of them may need a connection to the catalog."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Limit the threads of this event loop, then listen."""
        current_default_thread_limiter().total_tokens = THREADS
        await super().startup(sockets)


def _config(address: Address, served: ASGIApp) -> Config:
    return Config(
        served,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the proxy of the settings is known by its address
        ssl_certfile=address.certificate,
        ssl_keyfile=address.key,
        timeout_graceful_shutdown=int(_END_SECONDS),
    )


def _keep_index(weft: Weft, over: threading.Event) -> None:
    """Index new answers before somebody searches for them."""
    while not over.wait(_INDEX_SECONDS):
        with suppress(WeftError):  # a search reports it
            weft.index_answers()


def _hosts(address: Address, public: str | None) -> frozenset[str]:
    """A page for other machines, whose users sign in, may have any name: cookies belong to one name."""
    if not address.is_local:
        return frozenset()
    named = {urlsplit(public).hostname or ""} if public else set()
    return LOOPBACK | {address.host.lower(), *named}


def _is_https(public: str | None) -> bool:
    return public is not None and public.startswith("https:")


def _bound(address: Address) -> socket.socket:
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(found[0], socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
    except OSError as error:
        raise ExecutionError(
            f"the page cannot listen: {error.strerror}",
            where=f"{address.host}:{address.port}",
            hint="Name another port with --http.",
        ) from None
    return listener
