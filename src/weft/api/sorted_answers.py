"""Sort any number of answers by ORDER BY: sort runs into temporary files and merge them."""

from __future__ import annotations

import heapq
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cmp_to_key
from itertools import islice
from typing import IO, Any, Final

from weft.algebra.relation import Key, compared
from weft.storage.ledger import ResultRow

_RUN: Final = 50_000
"""The number of answers held in memory at once."""


def sorted_answers(rows: Iterable[ResultRow], keys: Sequence[Key], limit: int | None) -> Iterator[ResultRow]:
    """Yield the first ``limit`` answers (None: all) in the order of the keys, then of their ordinals."""
    by: Callable[[ResultRow], Any] = cmp_to_key(lambda one, other: _compared(keys, one, other))
    if limit is not None and limit <= _RUN:
        yield from heapq.nsmallest(limit, rows, key=by)
        return
    remaining, runs = iter(rows), list[Iterable[ResultRow]]()
    while run := sorted(islice(remaining, _RUN), key=by):
        runs.append(run if len(run) < _RUN and not runs else _spill(run))
    yield from islice(heapq.merge(*runs, key=by), limit)


def _compared(keys: Sequence[Key], one: ResultRow, other: ResultRow) -> int:
    return compared(keys, one.values, other.values) or one.ordinal - other.ordinal


def _spill(rows: Sequence[ResultRow]) -> Iterator[ResultRow]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - _read closes it
    for row in rows:
        pickle.dump(row, file)
    file.seek(0)
    return _read(file, len(rows))


def _read(file: IO[bytes], count: int) -> Iterator[ResultRow]:
    with file:
        for _ in range(count):
            yield pickle.load(file)
