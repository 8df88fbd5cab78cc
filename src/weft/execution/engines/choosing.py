"""Choose the engine that computes a view or a synopsis, and who reads the files of a load.

DuckDB in this process needs no job and no exchange of rows. ``weft bench engines`` measured that Spark needs 3 to 12
times its processor time, with one to ten million periods and events. The driver's memory and processors limit
the size of its input. Spark therefore computes everything beyond the bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weft.execution.driver_reader import count_text, rows_of
from weft.instants import LAST_INSTANT
from weft.storage.data_files import count_rows
from weft.storage.delta_log import DataFile
from weft.storage.slices import Slice


@dataclass(frozen=True)
class EngineBounds:
    """The limits for computing views and synopses, and for reading files, in this process.

    They keep the process below about 4 GB, as ``weft bench engines`` measured (docs/benchmarks.md, "The two engines")
    at up to 10 million periods.

    - ``history``: rows in the logs of a view's inputs, at the first refresh of the view
    - ``changes``: rows that the logs of a view's inputs recorded since the last refresh
    - ``again``: new log rows with which a later refresh always maintains the view; with more it may recompute the view
    - ``share``: the view is then recomputed if more than one in ``share`` of all log rows is new
    - ``steps``: rows of all intermediate results of a refresh
    - ``events``: new rows of the tables that synopses read in one tick
    - ``stored``: rows in the tables of the stored relations
    - ``loaded``: bytes of the files of a load
    - ``touched``: touched rows of a recursion with which a tick always continues the stored rows
    - ``kept``: with more, all rows are derived again if more than one in ``kept`` stored rows is touched
    """

    history: int = 10_000_000
    changes: int = 500_000
    steps: int = 25_000_000
    events: int = 10_000_000
    stored: int = 5_000_000
    loaded: int = 1 << 30
    again: int = 20_000
    share: int = 8
    touched: int = 1_000
    kept: int = 4


BOUNDS: Final = EngineBounds()
NOTHING: Final = EngineBounds(-1, -1, -1, -1, -1, -1)
"""Limits that are so low that Spark computes everything."""


@dataclass(frozen=True)
class Choice:
    """The engine for one computation. ``why`` is a clause with the reason.

    If ``from_scratch`` is true, a view is computed from the whole logs of its inputs.
    """

    by: Literal["driver", "Spark"]
    why: str
    from_scratch: bool = False

    def sentence(self, subject: str, runs: str = "runs") -> str:
        """Return a sentence about the choice.

        >>> Choice("driver", "staff has 7 log rows, at most 100").sentence("The next refresh")
        'The next refresh runs on the driver: staff has 7 log rows, at most 100.'
        """
        return f"{subject} {runs} on {'Spark' if self.by == 'Spark' else 'the driver'}: {self.why}."


def bounded(parts: Sequence[tuple[str, float]], most: int, what: str) -> Choice:
    """Choose by the number of rows. ``parts`` has the name and the number of rows of each input.

    >>> bounded([("staff", 12_400_000)], 2_000_000, "log row").why
    'staff has 12,400,000 log rows, more than 2,000,000'
    >>> bounded([("staff", 1_000), ("rooms", 7)], 2_000_000, "log row").why
    'staff and rooms have 1,007 log rows, at most 2,000,000'
    """
    total = sum(rows for _, rows in parts)
    names = [name for name, _ in parts]
    listed = f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names) or "nothing"
    has = "have" if len(names) > 1 else "has"
    beyond = total > most
    limit = f"{'more than' if beyond else 'at most'} {max(most, 0):,}"
    return Choice("Spark" if beyond else "driver", f"{listed} {has} {count_text(total, what)}, {limit}")


def rows_after(files: Iterable[DataFile], column: str, after: int | None, most: float) -> float:
    """Return the number of rows whose instant in ``column`` is later than ``after`` (µs UTC). None: all rows.

    The statistics of the files give an upper limit. Only if the limit exceeds ``most``, the column is read.
    """
    some = [file for file in files if after is None or file.greatest.get(column, after + 1) > after]
    limit = rows_of(some)
    if after is None or limit <= most:
        return limit
    return sum(count_rows(file, Slice(column, after + 1, LAST_INSTANT)) for file in some)
