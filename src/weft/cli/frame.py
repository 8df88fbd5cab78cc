"""What the commands share: their options, the query's text, the open home."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli import terminal
from weft.cli.troubles import remember
from weft.configuration import configuration
from weft.errors import Refused
from weft.location import Location

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
    """The end of a command's help: what to type."""
    return "Example:\n\n" + "\n\n".join(f"  {line}" for line in lines)


def home_folder(home: Path | None) -> Path:
    """The home that a command is about; raises Refused for a URI that is none of a local folder.

    Raises Elsewhere for a home that is not the one that this process was asked to serve.
    """
    chosen = configuration()  # what is set wrong is refused, needed or not
    remote = terminal.remote()
    folder = home or (chosen.home if remote is None else remote.named_home)
    if str(folder).startswith("file:/"):
        folder = Path(Location.of(folder).path)
    folder = terminal.path(folder)
    Location.of(folder)
    if remote is not None and not (folder.exists() and os.path.samefile(remote.weft.home, folder)):
        raise terminal.Elsewhere
    configuration(folder)  # its file, too
    remember(home=folder)
    return folder


@contextmanager
def opened(home: Path | None, *, create: bool = False) -> Iterator[Weft]:
    """The home, open for the block; made with the wall's clock where ``create`` allows it.

    One that was made for a command which is refused is taken away again.
    """
    from weft.api.weft import Weft

    remote = terminal.remote()
    if remote is not None:
        home_folder(home)
        yield remote.weft
        return
    folder = home_folder(home)
    existed = folder.exists()
    try:
        with Weft.open(folder, create=create) as weft:
            yield weft
    except Refused:
        if create and not existed:
            from weft.catalog.home_record import delete_new_home

            delete_new_home(folder)
        raise


def query_text(sql: str | None, file: Path | None) -> str:
    """The query's text from the argument, a file or stdin; raises Refused where there is none, or two."""
    if sql is not None and file is not None:
        raise Refused("the query is there twice, as an argument and as a file", hint="Leave one of them out.")
    if sql is None and (file is None or str(file) == "-"):
        if file is None and terminal.stdin_is_terminal():
            raise Refused("there is no query", hint='Write it as an argument ("SELECT …"), with -f FILE, or to stdin.')
        text = terminal.read_stdin()
    elif sql is not None:
        text = sql
    else:
        text = _read(file)
    if not text.strip():
        raise Refused("the query is empty", hint='Write it as an argument ("SELECT …"), with -f FILE, or to stdin.')
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
