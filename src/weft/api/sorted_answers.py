"""Answers in the order of ORDER BY, however many there are: sorted in runs, which temporary files hold, and merged."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from itertools import islice
from typing import IO, Any, Final

from weft.algebra.ordering import Key, compared
from weft.storage.ledger import ResultRow

_RUN: Final = 50_000
"""Answers that are held in memory at once."""


def sorted_answers(rows: Iterable[ResultRow], keys: Sequence[Key], limit: int | None) -> Iterator[ResultRow]:
    """The first ``limit`` answers (None: all) in the order of the keys, equal ones by their ordinals."""
    by: Callable[[ResultRow], Any] = cmp_to_key(lambda one, other: _compared(keys, one, other))
    if limit is not None and limit <= _RUN:
        yield from heapq.nsmallest(limit, rows, key=by)
        return
    left, runs = iter(rows), list[Iterable[ResultRow]]()
    while some := sorted(islice(left, _RUN), key=by):
        runs.append(some if len(some) < _RUN and not runs else _spilled(some))
    yield from islice(heapq.merge(*runs, key=by), limit)


def _compared(keys: Sequence[Key], one: ResultRow, other: ResultRow) -> int:
    return compared(keys, one.values, other.values) or one.ordinal - other.ordinal


def _spilled(rows: Sequence[ResultRow]) -> Iterator[ResultRow]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - it is closed where its rows were read
    for row in rows:
        pickle.dump(row, file)
    file.seek(0)
    return _read(file, len(rows))


def _read(file: IO[bytes], count: int) -> Iterator[ResultRow]:
    with file:
        for _ in range(count):
            yield pickle.load(file)
