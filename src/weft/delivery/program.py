"""``exec:COMMAND``: a program of this machine gets answers as JSON lines on its stdin, where the settings allow it.

Its exit code says whether it has taken them.  Of a program that was ended, or whose Weft was, nobody knows what it has
done: it gets them again under the same id.  No shell reads the command.
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
from weft.delivery.channel import Message, Recovery
from weft.delivery.rendering import field_names, json_line
from weft.delivery.retrying import DOUBLING
from weft.errors import DeliveryError, Refused
from weft.failpoint import failpoint
from weft.storage.ledger import Answers

_TAIL_BYTES: Final = 4_096
_TAIL_LINES: Final = 5


class ProgramChannel:
    """One command; raises Refused for one that the settings do not allow word for word."""

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
                f"the command {written!r} is not among those that the settings allow",
                hint="Whoever may write the home's weft.toml allows it there, word for word: below [exec], "
                f"commands = [{_toml(written)}].",
            )
        self._may_have_gone = True
        """Of a process that died nobody knows how far it came."""

    @property
    def address(self) -> str:
        """The channel's one name."""
        return f"exec:{shlex.join(self._words)}"

    def require(self, answers: Answers) -> None:
        """Any answers can be written as JSON lines."""

    def prepare(self) -> None:
        """Nothing has to be noted: a message is known by its id."""
        return

    def send(self, message: Message, position: str | None) -> str:
        """Runs the command with the message's rows; the last lines that it wrote to stderr."""
        self._may_have_gone = False
        names = field_names(name for name, _ in message.columns)
        rows = "".join(json_line(names, row, message.columns) for row in message.rows).encode(
            "utf-8", errors="surrogatepass"
        )
        with tempfile.TemporaryFile() as said:
            code = self._run(message, rows, said)
            failpoint("exec.ended")
            told = _last_lines(said)
        if code == 0:
            return told or "exit code 0"
        self._may_have_gone = False
        how = f"ended with exit code {code}" if code > 0 else f"was ended by signal {-code}"
        raise DeliveryError(f"the command {how}" + (f": {told}" if told else ""), where=self.address)

    def test(self, message: Message) -> str:
        """Runs the command with one row, whose text says that it is a test."""
        return f"it took a test message: {self.send(message, None)}"

    def recover(self, position: str | None) -> Recovery:
        """Whether the message was taken is known only where the command has said so by its exit code."""
        return "again" if self._may_have_gone else "undone"

    def _run(self, message: Message, rows: bytes, said: IO[bytes]) -> int:
        """The command's exit code; raises DeliveryError where it does not begin, or not end in time."""
        try:
            process = subprocess.Popen(
                self._words,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=said,
                cwd=self._home,
                env=self._environment(message),
                start_new_session=True,
            )
        except OSError as error:
            raise DeliveryError(f"the command does not start: {error.strerror}", where=self.address) from None
        self._may_have_gone = True
        failpoint("exec.started")
        try:
            process.communicate(rows, timeout=self._timeout)
        except subprocess.TimeoutExpired:
            raise DeliveryError(
                f"the command was ended: it took longer than {self._timeout:g} s",
                where=self.address,
                hint="exec.timeout in weft.toml is how long it may take.",
            ) from None
        finally:
            _end(process)
        return process.returncode

    def _environment(self, message: Message) -> dict[str, str]:
        """This process's environment without secrets of Weft, and which message of what it is."""
        kept = {name: value for name, value in os.environ.items() if name not in self._secrets}
        key = f"{message.about.home_id}.{message.key}"
        return {**kept, "WEFT_QUERY": message.query_name, "WEFT_MESSAGE_ID": key}


def _split(command: str) -> list[str]:
    """The words of a command; raises Refused where quotes are left open, or there is none."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise Refused(f"{command!r} is no command: {error}", hint="Quote it as for a shell.") from None
    if not words or "\0" in command:
        raise Refused(f"{command!r} is no command", hint='Write exec:"notify --room ops".')
    return words


def _toml(text: str) -> str:
    return f"'{text}'" if "'" not in text else '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends what is left of the command, the programs that it started among it."""
    if process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        with suppress(OSError):
            process.stdin.close()


def _last_lines(said: IO[bytes]) -> str:
    size = said.seek(0, os.SEEK_END)
    said.seek(max(size - _TAIL_BYTES, 0))
    lines: Sequence[str] = said.read().decode("utf-8", "replace").splitlines()
    return "\n".join("".join(c if c.isprintable() else " " for c in line) for line in lines[-_TAIL_LINES:]).strip()
