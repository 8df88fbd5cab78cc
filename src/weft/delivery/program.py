"""Deliver to a local program: ``exec:COMMAND`` receives answers as JSON lines on stdin.

The settings must allow the command.  The exit code of the program determines whether the program accepted the answers.
If the program or Weft was killed, the outcome is unknown.  The program then receives the answers again with the same
ID.  No shell interprets the command.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final

from weft.configuration import PLACES, Configuration
from weft.delivery.channel import DOUBLING, Message, Recovery
from weft.delivery.rendering import field_names, json_line
from weft.errors import DeliveryError, Refused
from weft.failpoint import failpoint
from weft.storage.ledger import Answers

_TAIL_BYTES: Final = 4_096
_TAIL_LINES: Final = 5


class ProgramChannel:
    """A channel that runs one command.  Raises Refused if the settings do not list exactly this command."""

    shown_rows: Final = None
    server: Final = None
    person: Final = None
    schedule: Final = DOUBLING

    def __init__(self, command: str, home: Path, chosen: Configuration) -> None:
        self._words = _split(command)
        self._home = home
        self._timeout = chosen.exec_timeout
        self._secrets = {chosen.smtp_password_env, *(place.variable for place in PLACES.values() if place.secret)}
        if self._words not in [_split(each) for each in chosen.exec_commands]:
            written = shlex.join(self._words)
            raise Refused(
                f"the settings do not allow the command {written!r}",
                hint=(
                    "To allow the command, write it into weft.toml in the home: below [exec], commands = "
                    f"[{_toml(written)}]."
                ),
            )
        self._may_have_gone = True
        """The value is initially True, because an earlier process may have died while running the command."""

    @property
    def address(self) -> str:
        """The canonical name of the channel."""
        return f"exec:{shlex.join(self._words)}"

    def require(self, answers: Answers) -> None:
        """Accept all columns, because JSON lines can represent every column."""

    def prepare(self) -> None:
        """Return no position, because the program recognizes a message by its ID."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Run the command with the rows of the message.  Return the last lines that the command wrote to stderr."""
        self._may_have_gone = False
        names = field_names(name for name, _ in message.columns)
        rows = "".join(json_line(names, row, message.columns) for row in message.rows).encode(
            "utf-8", errors="surrogatepass"
        )
        with tempfile.TemporaryFile() as stderr:
            code = self._run(message, rows, stderr)
            failpoint("exec.ended")
            output = _last_lines(stderr)
        if code == 0:
            return output or "exit code 0"
        self._may_have_gone = False
        how = f"failed with exit code {code}" if code > 0 else f"was killed by signal {-code}"
        raise DeliveryError(f"the command {how}" + (f": {output}" if output else ""), where=self.address)

    def test(self, message: Message) -> str:
        """Run the command with one row, which says that the message is a test."""
        return f"the command accepted a test message: {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Return ``again`` if the outcome of the command is unknown, otherwise ``undone``."""
        return "again" if self._may_have_gone else "undone"

    def _run(self, message: Message, rows: bytes, stderr: IO[bytes]) -> int:
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=self._home,
                env=self._environment(message),
                start_new_session=True,
            )
        except OSError as error:
            raise DeliveryError(f"the command did not start: {error.strerror}", where=self.address) from None
        self._may_have_gone = True
        failpoint("exec.started")
        try:
            process.communicate(rows, timeout=self._timeout)
        except subprocess.TimeoutExpired:
            raise DeliveryError(
                f"the command took longer than {self._timeout:g} s, and Weft stopped it",
                where=self.address,
                hint="Raise the time limit, exec.timeout in weft.toml, or make the command faster.",
            ) from None
        finally:
            _end(process)
        return process.returncode

    def _environment(self, message: Message) -> dict[str, str]:
        environment = {name: value for name, value in os.environ.items() if name not in self._secrets}
        key = f"{message.about.home_id}.{message.key}"
        return {**environment, "WEFT_QUERY": message.query_name, "WEFT_MESSAGE_ID": key}


def _split(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"{command!r} is not a command: {error}", hint="Quote the command as for a shell.") from None
    if not words or "\0" in command:
        raise Refused(f"{command!r} is not a command", hint='Write exec:"notify --room ops".')
    return words


def _toml(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the process group of the command.  The group includes the programs that the command started."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _last_lines(stderr: IO[bytes]) -> str:
    size = stderr.seek(0, os.SEEK_END)
    stderr.seek(max(size - _TAIL_BYTES, 0))
    lines: Sequence[str] = stderr.read().decode("utf-8", "replace").splitlines()
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines[-_TAIL_LINES:]).strip()
