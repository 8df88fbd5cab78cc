"""Print tables, JSON, values and the progress of slow operations."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from weft.cli import terminal
from weft.instants import format_instant, value_text
from weft.interruption import progress_reported_to, stop_here
from weft.printable import counted as counted
from weft.printable import one_line, visible
from weft.printable import size as size

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid
    from rich.text import Text

    from weft.algebra.schema import DataType

_LONGEST = 300
"""The maximum length (characters) of a value in a table.  With --json, values have their full length."""
_WIDEST = 100_000
"""The maximum line length (characters) of answers in a pipe."""
LIST_WIDTH = 200
"""The maximum line length (characters) of lists in a pipe.  With --json, lines have their full length."""
_GAP = 3
"""The number of characters between two columns."""


def screen(*, err: bool = False) -> Console:
    """Return the console for stdout or stderr."""
    remote = terminal.remote()
    return _console(err) if remote is None else remote.console(err=err)


@cache
def _console(err: bool) -> Console:
    from rich.console import Console

    return Console(stderr=err, highlight=False, emoji=False, markup=False)


def echo(text: str, style: str | None = None, *, err: bool = False) -> None:
    """Print a line of text.  Escape control characters."""
    screen(err=err).print(lines(text), style=style, soft_wrap=True)


def print_json(value: object, *, lines: bool = False) -> None:
    """Print a value as JSON.  With ``lines``, print the value on one line."""
    out = terminal.out()
    out.write(json_text(value, indent=None if lines else 2) + "\n")
    out.flush()


def print_result(json: bool, value: object, text: str) -> None:
    """Print a value as JSON if ``json`` is true, and otherwise a line of text."""
    if json:
        print_json(value)
    else:
        echo(text)


def print_list(
    json: bool,
    values: Iterable[object],
    none: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
) -> None:
    """Print ``values`` as JSON if ``json`` is true.  Otherwise print ``rows`` as a table, or ``none`` for no rows.

    The function reads only one of ``values`` and ``rows``.
    """
    if json:
        print_json(list(values))
    elif listed := list(rows):
        table(columns, listed, right=right)
    else:
        echo(none)


def json_text(value: object, indent: int | None = None) -> str:
    r"""Return a value as JSON.  Escape the characters that could control a terminal.

    >>> print(json_text("\x9b31m"))
    "\u009b31m"
    """
    return escaped_json(json.dumps(value, ensure_ascii=False, indent=indent))


def escaped_json(written: str) -> str:
    """Escape the characters in JSON text that could control a terminal."""
    if written.replace("\n", "").isprintable():
        return written
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in written)


def instant(micros: int | None, none: str = "-") -> str:
    """Format an instant (microseconds UTC), or return ``none`` for None."""
    return none if micros is None else format_instant(micros)


def moment(micros: int | None, none: str = "-") -> str:
    """Format an instant of the wall clock with a resolution of one second, or return ``none`` for None."""
    return none if micros is None else format_instant(micros // 1_000_000 * 1_000_000)


def shown(value: object) -> str:
    """Format a value for a table on one line.  Escape control characters."""
    return plain(value_text(value))


def plain(text: str) -> str:
    r"""Format text from data as one short line.  Escape control characters.

    >>> plain("a\nb\x1b[31m")
    'a b\\x1b[31m'
    """
    return one_line(text, _LONGEST)


def typed(columns: Iterable[tuple[str, DataType]]) -> str:
    """Format columns and their types on one line.  Escape control characters, because names may come from a file."""
    from weft.execution.tabular import columns_text

    return visible(columns_text(columns))


def lines(text: str) -> str:
    r"""Escape the control characters in text, except line ends and tabs.

    >>> lines("SELECT a\n\tFROM b -- \x1b[31m")
    'SELECT a\n\tFROM b -- \\x1b[31m'
    """
    return visible(text, allowed="\n\t")


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    title: str | None = None,
    right: Sequence[int] = (),
    answers: bool = False,
) -> None:
    """Print rows under column headings.  ``right`` contains the indexes of right-aligned columns.

    In a terminal, long values continue on the next line.  In a pipe or a file, each row is one line without trailing
    spaces.  In a pipe or a file, the function also cuts the widest columns of a list to fit ``LIST_WIDTH`` characters.
    If ``answers`` is true, the function never cuts columns.  If the variable COLUMNS is set, the output has the layout
    of a terminal with that width.  The function escapes control characters.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    if title is not None:
        echo(title, style="bold")  # a table's own title would be folded at the table's width
    console, remote = screen(), terminal.remote()
    on_lines = not console.is_terminal and "COLUMNS" not in (os.environ if remote is None else remote.variables)
    texts = [[Text(lines(cell)) for cell in row] for row in (columns, *rows)]
    if on_lines and not answers:
        _shorten(texts)
    grid = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for number, column in enumerate(texts[0]):
        grid.add_column(column, justify="right" if number in right else "left", overflow="fold")
    for row in texts[1:]:
        grid.add_row(*row)
    if on_lines:
        _print_on_lines(grid, console)
    else:
        console.print(grid)


def _shorten(rows: Sequence[Sequence[Text]]) -> None:
    """Cut the widest columns to the same width, so that a line has at most ``LIST_WIDTH`` characters."""
    widths = [max(text.cell_len for text in column) for column in zip(*rows, strict=True)]
    room = LIST_WIDTH - _GAP * len(widths)
    narrow, wide = 0, len(widths)
    for width in sorted(widths):  # columns no wider than an equal share of the remaining room are not cut
        if width > (room - narrow) // wide:
            break
        narrow, wide = narrow + width, wide - 1
    if wide:
        most = max((room - narrow) // wide, 1)
        for row in rows:
            for text in row:
                text.truncate(most, overflow="ellipsis")


def _print_on_lines(grid: Grid, console: Console) -> None:
    from rich.console import Console

    needed = console.measure(grid, options=console.options.update(width=_WIDEST)).maximum
    wide = Console(file=console.file, width=max(needed, 1), highlight=False, emoji=False, markup=False)
    with wide.capture() as captured:
        wide.print(grid)
    console.file.write("\n".join(line.rstrip() for line in captured.get().split("\n")))


@contextmanager
def working(text: str) -> Iterator[Callable[[str], None]]:
    """During a ``with`` block, show a spinner in a terminal.  Yield a function that changes the text of the spinner."""
    err = screen(err=True)
    if not err.is_terminal:
        yield lambda text: None
        return
    with err.status(lines(text)) as status:

        def update(news: str) -> None:
            status.update(lines(news))

        with progress_reported_to(update):
            yield update


def working_on_spark(text: str) -> AbstractContextManager[Callable[[str], None]]:
    """Show a spinner as ``working`` does.  If Spark is not running, mention how long a start takes."""
    from weft.runtime.session import session_started

    return working(text if session_started() else f"{text} (a start of Spark, if needed, takes 5 to 15 s)")


@contextmanager
def counting(text: str) -> Iterator[Any]:
    """Show a progress bar during a ``with`` block.  Yield a function that takes the number of records so far.

    The user can cancel the load at each call of the function.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    err = screen(err=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,} records"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as progress:
        task = progress.add_task(lines(text), total=None)

        def update(count: int) -> None:
            progress.update(task, completed=count)
            stop_here()

        yield update
