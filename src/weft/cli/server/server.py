"""The local server: HTTP with JSON over a Unix domain socket that only its owner can open.

======================  ======================================================================================
``POST /greeting``      ``{settings}``: the server's process and code, and the settings that differ
``POST /command``       the request of ``client``: lines of JSON with the output, then the exit code
``POST /interrupt``     ``{key}``: cancel the command with this key (Ctrl-C)
``POST /reload``        ``{variables}``: finish the running work, then restart with these variables
======================  ======================================================================================

The reply to an invalid request has the status 400 and the reason.
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
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn import Config, Server
from uvicorn.protocols.http.h11_impl import H11Protocol

from weft.access import make_file, make_folder
from weft.cli.server import address, server
from weft.cli.server.client import peer_user
from weft.cli.server.run_command import RUN_LOCALLY, Command, OutputStream
from weft.configuration import configuration
from weft.errors import ExecutionError, WeftError

if TYPE_CHECKING:
    from weft.api.weft import Weft

_COMMANDS: Final = 16
"""The maximum number of commands that run at the same time.  Further commands wait."""
_INSIST_SECONDS: Final = 0.3
_PATIENCE_SECONDS: Final = 1.5
"""The time for which a canceled command may run before it prints a note."""
GRACE_SECONDS: Final = 20.0
"""The time between the stop of the server and the cancellation of its running commands."""
_START_SECONDS: Final = 20.0
_PAUSE_SECONDS: Final = 0.1


class _OwnerOnly(H11Protocol):
    """An HTTP protocol that rejects other users, even if the mode of the socket lets them connect."""

    def connection_made(self, transport: transports.Transport) -> None:  # type: ignore[override]
        if peer_user(transport.get_extra_info("socket")) not in (None, os.getuid()):
            transport.abort()
            return
        super().connection_made(transport)


class CommandResponse:
    """The output of a command, a line of JSON for each piece.  The command sees the home ``weft``."""

    def __init__(self, server: LocalServer, typed: Mapping[str, Any], weft: Weft, *, elsewhere: bool = False) -> None:
        self._server, self._typed, self._weft, self._elsewhere = server, typed, weft, elsewhere

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the command, and send its output."""
        headers = [(b"content-type", b"application/x-ndjson")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        outlet = OutputStream(asyncio.get_running_loop())
        command = Command(self._typed, self._weft, outlet, self._server.line, elsewhere=self._elsewhere)
        end = asyncio.ensure_future(self._server.run(command))
        end.add_done_callback(lambda _: outlet.close())
        leaving = asyncio.ensure_future(_disconnected(receive))
        leaving.add_done_callback(lambda done: None if done.cancelled() else self._server.abandon(command))
        try:
            async for kind, text in outlet.texts():
                await _send_line(send, {kind: text})
            await _send_line(send, dict(await end))
        finally:
            leaving.cancel()
        await send({"type": "http.response.body", "body": b""})


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _send_line(send: Send, value: Mapping[str, object]) -> None:
    await send({"type": "http.response.body", "body": json.dumps(value).encode() + b"\n", "more_body": True})


class LocalServer:
    """The server of one home, with its running commands.  The function ``line`` runs a command line and returns its
    exit code.
    """

    def __init__(
        self, weft: Weft, line: Callable[[Sequence[str]], int], stop: Callable[[], None] = lambda: None
    ) -> None:
        self.weft, self.line, self._stop_serving = weft, line, stop
        self.reload: Mapping[str, str] | None = None
        """The environment variables for the restart of the process.  If the value is None, the process ends without a
        restart.
        """
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

    async def run(self, command: Command) -> Mapping[str, object]:
        """Run the command in a thread.  Return the last line for the client."""
        if self._closing:
            return RUN_LOCALLY
        self._under_way[id(command)] = command
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, command.run)
        finally:
            del self._under_way[id(command)]

    def abandon(self, command: Command) -> None:
        """Cancel a command whose client has disconnected."""
        command.outlet.abandon()
        self._stop(command)

    def close(self) -> None:
        """Accept no more commands, and wait for the running ones.  Do not call this method in the event loop.

        After ``GRACE_SECONDS``, the server cancels the running commands at points that leave no work incomplete.
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
        """Start Spark in a separate thread and run a first query, so that later commands are faster.

        Then run the steps of ``rehearsal`` in a temporary folder.  Between two steps, the rehearsal waits for running
        commands.  After the rehearsal, call ``warm``.
        """
        self._threads.submit(self._warm, rehearsal, warm)

    def _warm(self, rehearsal: Callable[[Path], Generator[None]] | None, warm: Callable[[], None]) -> None:
        with suppress(WeftError):  # the command that needs Spark reports the error
            self.weft.session().sql("SELECT 1").collect()
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
        theirs, ours = (await server.body_of(request, server.GREETING))["settings"], self._settings
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
        """Return the names of the environment variables in the settings, such as the variable of the mail password."""
        try:
            name = configuration(self.weft.home).smtp_password_env
        except WeftError:  # each command reports the error itself
            return []
        return [name] if name else []

    async def _command(self, request: Request) -> Any:
        return CommandResponse(self, await server.body_of(request, server.COMMAND), self.weft)

    async def _reload(self, request: Request) -> JSONResponse:
        self.reload = (await server.body_of(request, server.RELOAD))["variables"]
        self._stop_serving()
        return JSONResponse({"pid": os.getpid(), "instance": self._instance})

    async def _interrupt(self, request: Request) -> JSONResponse:
        key = (await server.body_of(request, server.INTERRUPT))["key"]
        cancelled = [command for command in self._under_way.values() if command.typed["key"] == key]
        for command in cancelled:
            self._stop(command)
        return JSONResponse({"stopping": bool(cancelled)})

    def _stop(self, command: Command) -> None:
        if not command.cancel_token.cancelled:
            command.cancel_token.cancelled = True
            threading.Thread(target=self._insist, args=(command,), name="weft-stop", daemon=True).start()

    def _insist(self, command: Command) -> None:
        """Cancel the command repeatedly until it ends, because a cancellation does not affect jobs that start later."""
        began, noted = time.monotonic(), False
        while command in self._under_way.values():
            command.cancel_token.cancel()
            if not noted and time.monotonic() - began > _PATIENCE_SECONDS:
                noted = True
                words = (
                    "note: the command first finishes its running step. After a second Ctrl-C, the server "
                    "finishes the step alone.\n"
                )
                command.print_note(words)
            time.sleep(_INSIST_SECONDS)
        if command.lost_spark and not self._closing:
            self.warm()


@contextmanager
def serving(server: LocalServer, listening: socket.socket) -> Iterator[None]:
    """Run the server in a thread during a ``with`` block.  Raise ExecutionError if the server does not start.

    At the end of the block, wait for the running commands.
    """
    _log_to(os.path.join(server.weft.home, "logs"))
    config = Config(
        server.application, http=_OwnerOnly, loop="asyncio", lifespan="off", log_config=None, access_log=False
    )
    http = Server(config)
    thread = threading.Thread(target=http.run, args=([listening],), name="weft-server", daemon=True)
    thread.start()
    until = time.monotonic() + _START_SECONDS
    while not http.started:
        if not thread.is_alive() or time.monotonic() > until:
            raise ExecutionError("the local server did not start", where=str(listening.getsockname()))
        time.sleep(0.02)
    at_once = False
    try:
        yield
    except KeyboardInterrupt:
        at_once = True
        raise
    finally:
        if not at_once:
            server.close()
            http.should_exit = True
            thread.join(_START_SECONDS)


class _LogFile(logging.FileHandler):
    def _open(self) -> TextIOWrapper:
        make_file(self.baseFilename)
        return super()._open()


def _log_to(folder: str) -> None:
    make_folder(folder)
    handler = _LogFile(os.path.join(folder, "serve.log"), encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    for name in ("uvicorn", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(logging.WARNING)


_LARGEST: Final = 256 * 1024 * 1024
"""The maximum size of a request in bytes, including the stdin of the command."""
_LONGEST: Final = 1_000_000
"""The maximum number of columns or lines of a terminal.  The limit protects memory, because rich pads lines to the
width.
"""

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST


def _is_encoding(value: Any) -> bool:
    """Return whether the value names a text encoding.  Return False for other codecs, such as ``hex``."""
    if not isinstance(value, str):
        return False
    try:
        "".encode(value)
    except (LookupError, ValueError):
        return False
    return True


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _variables(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    names = all(_is_text(name) and name and "=" not in name for name in value)
    return names and all(map(_is_text, value.values()))


def _each(check: Check, count: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) == count and all(map(check, value))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


GREETING: Final[Mapping[str, Check]] = {"settings": _variables}
INTERRUPT: Final[Mapping[str, Check]] = {"key": _is_text}
RELOAD: Final[Mapping[str, Check]] = {"variables": _variables}
COMMAND: Final[Mapping[str, Check]] = {
    "key": _is_text,
    "arguments": _texts,
    "home": _is_text,
    "folder": _is_text,
    "user": _or_none(_is_text),
    "width": _is_size,
    "height": _is_size,
    "variables": _variables,
    "terminals": _each(_is_flag, 3),
    "encodings": _each(_is_encoding, 2),
    "stdin": _or_none(lambda value: isinstance(value, str)),
}


async def body_of(request: Request, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Return the body of the request, a JSON object with these fields.  Raise HTTPException (400) for an invalid
    body.
    """
    raw = bytearray()
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > _LARGEST:
                raise HTTPException(413, f"the request has more than {_LARGEST:,} bytes")
        body = json.loads(raw)
    except ClientDisconnect:
        raise HTTPException(400, "the request ended in the middle of its body") from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body is not an object")
    wrong = [name for name, check in fields.items() if name not in body or not check(body[name])]
    if wrong:
        raise HTTPException(400, f"missing or invalid: {', '.join(wrong)}")
    return body
