"""The door: HTTP with JSON over a Unix domain socket that only its owner may open.

======================  ======================================================================================
``POST /greeting``      ``{settings}``: what the server is, and which settings of the one who asks differ
``POST /command``       one command (``client``): lines of JSON as it prints, the last one its exit code
``POST /interrupt``     ``{key}``: Ctrl-C for the command that was sent with that key
``POST /reload``        ``{variables}``: the server ends what is under way and begins anew with these variables
======================  ======================================================================================

A request that is not of this form is answered with 400 and the reason (``requests``).
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import threading
import time
from asyncio import transports
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.access import make_file, make_folder
from weft.cli.server import address, requests
from weft.cli.server.client import peer_user
from weft.cli.server.run_command import HERE, Command, Outlet
from weft.configuration import configuration
from weft.errors import ExecutionError, WeftError

if TYPE_CHECKING:
    from weft.api.weft import Weft

_COMMANDS: Final = 16
"""How many commands are under way at once; others wait."""
_INSIST_SECONDS: Final = 0.3
_PATIENCE_SECONDS: Final = 1.5
"""A command that was asked to stop and is still at work then says so."""
GRACE_SECONDS: Final = 20.0
"""How long the commands under way have to end by themselves once the server is stopped; then they are asked to."""
_START_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.1
"""How often a rehearsal looks whether the commands under way have ended."""
_FIRST_QUESTION: Final = "SELECT v.a FROM (VALUES (1), (2)) AS v(a) WHERE v.a > 1"


class _OwnerOnly(H11Protocol):
    """Hangs up on other users, should the socket's mode not have kept them out."""

    def connection_made(self, transport: transports.Transport) -> None:  # type: ignore[override]
        """Looks who is there."""
        if peer_user(transport.get_extra_info("socket")) not in (None, os.getuid()):
            transport.abort()
            return
        super().connection_made(transport)


class _Answer:
    """The answer to one command, as an ASGI application: it follows the command until its end, or the reader's."""

    def __init__(self, door: Door, typed: Mapping[str, Any]) -> None:
        self._door, self._typed = door, typed

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Runs the command and sends what it prints."""
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        outlet = Outlet(asyncio.get_running_loop())
        command = Command(self._typed, self._door.weft, outlet, self._door.line)
        end = asyncio.ensure_future(self._door.perform(command))
        end.add_done_callback(lambda _: outlet.close())
        leaving = asyncio.ensure_future(_left(receive))
        leaving.add_done_callback(lambda done: None if done.cancelled() else self._door.deserted(command))
        try:
            async for kind, text in outlet.texts():
                await _line(send, {kind: text})
            await _line(send, dict(await end))
        finally:
            leaving.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _line(send: Send, value: Mapping[str, object]) -> None:
    await send({"type": "http.response.body", "body": json.dumps(value).encode() + b"\n", "more_body": True})


class Door:
    """The commands under way in one server of one home; ``line`` runs a command line and gives its exit code."""

    def __init__(
        self, weft: Weft, line: Callable[[Sequence[str]], int], stop: Callable[[], None] = lambda: None
    ) -> None:
        self.weft, self.line, self._stop_serving = weft, line, stop
        self.reload: Mapping[str, str] | None = None
        """The variables with which the process begins anew once it has stopped; None: it ends."""
        self._instance = os.urandom(8).hex()
        self._code = address.fingerprint()
        self._settings = address.settings(os.environ)
        self._under_way: dict[int, Command] = {}
        self._threads = ThreadPoolExecutor(_COMMANDS, "weft-command")
        self._closing = False
        self.application = Starlette(
            routes=[
                Route("/greeting", self._greet, methods=["POST"]),
                Route("/command", self._command, methods=["POST"]),
                Route("/interrupt", self._interrupt, methods=["POST"]),
                Route("/reload", self._reload, methods=["POST"]),
            ]
        )

    async def perform(self, command: Command) -> Mapping[str, object]:
        """Runs the command in a thread; what ends its stream."""
        if self._closing:
            return HERE
        self._under_way[id(command)] = command
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, command.run)
        finally:
            del self._under_way[id(command)]

    def deserted(self, command: Command) -> None:
        """The reader is gone: the command is stopped, where it can be."""
        command.outlet.desert()
        self._stop(command)

    def close(self) -> None:
        """Takes no more commands, and waits for those under way; not called in the loop.

        They have ``GRACE_SECONDS`` to end by themselves.  Those left are asked to stop where nothing is half done.
        """
        self._closing = True
        until = time.monotonic() + GRACE_SECONDS
        while self._under_way and time.monotonic() < until:
            time.sleep(_PAUSE_SECONDS)
        while under_way := list(self._under_way.values()):
            for command in under_way:
                command.cut_short = True
                command.cancel_token.cancel()
            time.sleep(_INSIST_SECONDS)
        self._threads.shutdown()

    def warm(
        self, rehearsal: Callable[[Path], Generator[None]] | None = None, warm: Callable[[], None] = lambda: None
    ) -> None:
        """Starts Spark in a thread of its own, where it does not run, and asks a first question.

        The next command then waits for neither.  ``rehearsal`` is what is done after that, in a folder that is
        thrown away, in steps between which commands go first; ``warm`` is called at its end.
        """
        self._threads.submit(self._warm, rehearsal, warm)

    def _warm(self, rehearsal: Callable[[Path], Generator[None]] | None, warm: Callable[[], None]) -> None:
        with suppress(WeftError):  # the command that needs it says why
            self.weft.try_query(_FIRST_QUESTION, now=0)
            if rehearsal is not None:
                self._rehearse(rehearsal)
                warm()

    def _rehearse(self, rehearsal: Callable[[Path], Generator[None]]) -> None:
        with TemporaryDirectory(prefix="weft-rehearsal-") as folder, closing(rehearsal(Path(folder))) as steps:
            for _ in steps:
                while self._under_way and not self._closing:
                    time.sleep(_PAUSE_SECONDS)
                if self._closing:
                    return

    async def _greet(self, request: Request) -> JSONResponse:
        theirs, ours = (await requests.body_of(request, requests.GREETING))["settings"], self._settings
        differing = {name: name in ours for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)}
        return JSONResponse(
            {
                "pid": os.getpid(),
                "home": str(self.weft.home),
                "code": self._code,
                "instance": self._instance,
                "differing": differing,
                "secrets": {name: address.mark(self._instance, os.environ.get(name)) for name in self._named()},
                "commands": len(self._under_way),
            }
        )

    def _named(self) -> list[str]:
        """The variables that the settings name: the one with the password for mail."""
        try:
            name = configuration(self.weft.home).smtp_password_env
        except WeftError:  # each command says so itself
            return []
        return [name] if name else []

    async def _command(self, request: Request) -> Any:
        return _Answer(self, await requests.body_of(request, requests.COMMAND))

    async def _reload(self, request: Request) -> JSONResponse:
        self.reload = (await requests.body_of(request, requests.RELOAD))["variables"]
        self._stop_serving()
        return JSONResponse({"pid": os.getpid(), "instance": self._instance})

    async def _interrupt(self, request: Request) -> JSONResponse:
        key = (await requests.body_of(request, requests.INTERRUPT))["key"]
        found = [command for command in self._under_way.values() if command.typed["key"] == key]
        for command in found:
            self._stop(command)
        return JSONResponse({"stopping": bool(found)})

    def _stop(self, command: Command) -> None:
        if not command.cancel_token.cancelled:
            command.cancel_token.cancelled = True
            threading.Thread(target=self._insist, args=(command,), name="weft-stop", daemon=True).start()

    def _insist(self, command: Command) -> None:
        """Asks until the command has ended: a job that begins after a cancellation wants another one."""
        began, told = time.monotonic(), False
        while command in self._under_way.values():
            command.cancel_token.cancel()
            if not told and time.monotonic() - began > _PATIENCE_SECONDS:
                told = True
                words = "note: what is under way is brought to its end first; Ctrl-C again leaves it to the server.\n"
                command.tell(words)
            time.sleep(_INSIST_SECONDS)
        if command.lost_spark and not self._closing:
            self.warm()


@contextmanager
def answering(door: Door, listening: socket.socket) -> Iterator[None]:
    """Serves the door in a thread while the block runs; then waits for the commands under way.

    Raises ExecutionError where the server does not start.
    """
    _log_to(os.path.join(door.weft.home, "logs"))
    config = Config(
        door.application, http=_OwnerOnly, loop="asyncio", lifespan="off", log_config=None, access_log=False
    )
    server = Server(config)
    thread = threading.Thread(target=server.run, args=([listening],), name="weft-door", daemon=True)
    thread.start()
    until = time.monotonic() + _START_SECONDS
    while not server.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise ExecutionError("the local door could not be opened", where=str(listening.getsockname()))
        time.sleep(0.02)
    at_once = False
    try:
        yield
    except KeyboardInterrupt:
        at_once = True
        raise
    finally:
        if not at_once:
            door.close()
            server.should_exit = True
            thread.join(_START_SECONDS)


class _Log(logging.FileHandler):
    """A log that gets the permissions of its folder when it is made: with the first record."""

    def _open(self) -> TextIOWrapper:
        make_file(self.baseFilename)
        return super()._open()


def _log_to(folder: str) -> None:
    """Sends what the server would print to the home's log."""
    make_folder(folder)
    handler = _Log(os.path.join(folder, "serve.log"), encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)
