"""The common options of commands, and functions that read the query and open the home.

Every argument of a command must be valid UTF-8, except the paths of files to read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli import terminal
from weft.cli.troubles import remember
from weft.configuration import configuration
from weft.errors import Refused
from weft.printable import require_text
from weft.store import local_store

if TYPE_CHECKING:
    from weft.api.weft import Weft

HOME_VARIABLE = "WEFT_HOME"

HomeOption = Annotated[
    Path | None,
    typer.Option("--home", metavar="DIR", help="The home folder (default: $WEFT_HOME, else ./weft-home)."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SqlArgument = Annotated[str | None, typer.Argument(metavar="SQL", help="The query (else --file, else stdin).")]
FileOption = Annotated[
    Path | None, typer.Option("--file", "-f", metavar="FILE", help="Read the query from a file (-: stdin).")
]


def example(*lines: str) -> str:
    """Return examples for the end of a command's help."""
    return "Example:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def home_folder(home: Path | None) -> Path:
    """Return the home folder of a command.  Raise Refused for a URI that does not name a local folder.

    Raises RunLocally if this process serves another home.
    """
    chosen = configuration()  # check all settings, even those not needed
    remote = terminal.remote()
    if remote is not None and remote.elsewhere:
        if home is not None:
            raise Refused("--home names a folder, but WEFT_URL names a server", hint="Omit --home, or unset WEFT_URL.")
        remember(home=remote.weft.home)
        return remote.weft.home
    folder = home or (chosen.home if remote is None else remote.named_home)
    if str(folder).startswith("file:/"):
        folder = Path(local_store(folder).path)
    folder = terminal.path(folder)
    local_store(folder)
    if remote is not None and not (folder.exists() and os.path.samefile(remote.weft.home, folder)):
        raise terminal.RunLocally
    configuration(folder)  # check its settings file, too
    remember(home=folder)
    return folder


@contextmanager
def opened(home: Path | None, *, create: bool = False) -> Iterator[Weft]:
    """Open the home for a ``with`` block.  With ``create``, create a missing home with the wall clock.

    If the command fails, the function deletes the home that it created, unless the home already contains data.
    """
    from weft.api.weft import Weft
    from weft.catalog.home_record import deleted_on_error

    remote = terminal.remote()
    if remote is not None:
        home_folder(home)
        yield remote.weft
        return
    folder = home_folder(home)
    with deleted_on_error(folder) if create else nullcontext(), Weft.open(folder, create=create) as weft:
        yield weft


def query_text(sql: str | None, file: Path | None) -> str:
    """Return the text of the query from the argument, a file or stdin.  Raise Refused if the text is missing or given
    twice.
    """
    if sql is not None and file is not None:
        raise Refused("the query is given twice: as an argument and as a file", hint="Omit one of them.")
    if sql is None and (file is None or str(file) == "-"):
        if file is None and terminal.stdin_is_terminal():
            raise Refused(
                "no query is given",
                hint='Write the query as an argument ("SELECT …"), into a file (-f FILE), or to stdin.',
            )
        text = terminal.read_stdin()
    elif sql is not None:
        text = sql
    else:
        text = _read(file)
    if not text.strip():
        raise Refused(
            "the query is empty",
            hint='Write the query as an argument ("SELECT …"), into a file (-f FILE), or to stdin.',
        )
    remember(sql=text)
    return text


def _read(file: Path | None) -> str:
    from weft.extraction.paths import opened as opened_path

    assert file is not None
    try:
        with opened_path(terminal.path(file), streams=True) as stream:
            return stream.readall().decode("utf-8")
    except OSError as error:
        raise Refused(f"the query's file cannot be read: {error.strerror}", where=str(file)) from None
    except UnicodeDecodeError:
        raise Refused("the query's file is not UTF-8 text", where=str(file)) from None


def check_arguments(app: typer.Typer) -> None:
    """Make all commands of the application raise Refused for arguments that are not valid UTF-8."""
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _checking(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            check_arguments(group.typer_instance)


def _checking(callback: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(callback)
    def checked(**arguments: Any) -> Any:
        for value in arguments.values():
            for each in value if isinstance(value, list | tuple) else [value]:
                if isinstance(each, str):
                    require_text(each, "an argument")
        return callback(**arguments)

    return checked
