"""``weft bench synopses``: events a second that synopses take in, beside the same answers from the kept history.

    weft bench synopses --events 1000000 --batch 1000 --batch 100000

A generated log of documents that managers approve and users publish, are given, lose, and open: one time point an
event, five a second, users and documents being as many at its end as at its beginning.  Three formulas (once, since, an
aggregation) take it in, in batches of each size; at three places in the log one batch is answered from all that came
before, too.  Then they stand in a home, which is loaded and ticked (``bench.synopsis_ticks``).
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.bench.synopsis_ticks import KEPT, ticked
from weft.derivation.synopsis.construct import Synopsis, synopsis
from weft.errors import ExecutionError
from weft.execution.synopsis.batch import EMPTY, Batch
from weft.execution.synopsis.evaluating import evaluate
from weft.formula.parse_formula import reading
from weft.formula.signature import signature

SIGNATURE: Final = (
    "approve(m:int, d:int) publish(u:int, d:int) grant(u:int, d:int) revoke(u:int, d:int) access(u:int, d:int)"
)
FORMULAS: Final = {
    "once": "publish(u, d) AND NOT ONCE[0,7d] EXISTS m. approve(m, d)",
    "since": "access(u, d) AND NOT (NOT revoke(u, d) SINCE grant(u, d))",
    "aggregation": "access(u, d) AND EXISTS c. ((c <- CNT x; u ONCE[0,1h] access(u, x)) AND 10 < c)",
}
"""Published without approval in seven days; opened without a grant; more than ten documents opened within an hour."""
_USERS: Final = 100
_DOCUMENTS: Final = 500
_A_SECOND: Final = 5
_NAMES: Final = ("approve", "publish", "grant", "revoke", "access")
_SHARES: Final = (1, 1, 3, 2, 3)
"""How many of ten events are of each predicate."""
_AIM: Final = 50_000
_PLACES: Final = 3


@dataclass
class Course:
    """A formula over the whole log in batches of one size: seconds, answers and tuples stored, a batch each."""

    formula: str
    batch: int
    seconds: list[float] = field(default_factory=list)
    answers: int = 0
    tuples: list[int] = field(default_factory=list)
    bytes: int = 0
    """Of what is stored at the end."""

    @property
    def rate(self) -> float:
        """Events a second over the whole log."""
        return self.batch * len(self.seconds) / sum(self.seconds)

    @property
    def growth(self) -> float:
        """The median of the last fifth of the batches beside that of the second fifth: the first one warms up."""
        fifth = max(len(self.seconds) // 5, 1)
        return statistics.median(self.seconds[-fifth:]) / statistics.median(
            self.seconds[fifth : 2 * fifth] or self.seconds
        )


@dataclass
class FromHistory:
    """One batch answered from all events up to it: how many there were, and the seconds it took."""

    formula: str
    batch: int
    events: int
    seconds: float


def compare(
    events: int, batches: Sequence[int], out: Path | None, say: Callable[[str], None], *, ticks: bool = True
) -> None:
    """Measures each formula with each size of batch, says what it finds, writes the figures to ``out`` as JSON lines.

    With ``ticks`` also the ticks of a home in which they stand, beside queries over the kept history.  Raises
    ExecutionError where the answers from the history are others.
    """
    log = Log.generated(events)
    courses, anew = [], []
    for name, text in FORMULAS.items():
        made = synopsis(reading(text, signature(SIGNATURE)).formula, "set")
        for batch in batches:
            course, compared = _course(name, made, log, batch, largest=batch == max(batches))
            courses.append(course)
            anew += compared
            say(_line(course))
            for each in compared:
                say(f"  answered from the history of {each.events:,} events: {each.seconds:.2f} s a batch")
    homes = list(_ticked(log, batches, say)) if ticks else []
    if out is not None:
        lines = [json.dumps(each) for each in (*map(_json, courses), *map(asdict, anew), *homes)]
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
        say(f"written to {out}")


def _ticked(log: Log, sizes: Sequence[int], say: Callable[[str], None]) -> Iterator[dict[str, object]]:
    """The ticks of homes: synopses in ticks of each size, the kept history in the largest."""
    tables = [(name, ("m" if name == "approve" else "u", "d")) for name in _NAMES]
    answers: dict[str, int] = {}
    for found in ticked(log.rows, tables, FORMULAS, sizes, "synopsis"):
        say(found.told())
        yield found.as_json()
        if found.size == max(sizes):
            answers = found.answers
    for name, text in KEPT.items():
        for found in ticked(log.rows, tables, {name: text}, [max(sizes)], "history"):
            say(found.told())
            yield found.as_json()
            if found.answers[name] != answers[name]:
                raise ExecutionError(
                    f"{name}: {answers[name]} answers from the synopsis, {found.answers[name]} from the kept history"
                )


def _course(name: str, made: Synopsis, log: Log, size: int, *, largest: bool) -> tuple[Course, list[FromHistory]]:
    """A formula over the log; with the ``largest`` batches some are answered from the history, too."""
    course, compared, state = Course(name, size), [], EMPTY
    number = log.events // size
    places = {(number * place) // _PLACES - 1 for place in range(1, _PLACES + 1)} if largest else set()
    for place, batch in enumerate(log.batches(size)):
        before = time.perf_counter()
        state, answers = evaluate(made, state, batch)
        course.seconds.append(time.perf_counter() - before)
        course.answers += answers.num_rows
        course.tuples.append(state.tuples)
        if place in places:
            compared.append(_from_history(name, made, log, (place * size, (place + 1) * size), answers))
    course.bytes = sum(table.nbytes for table in state.relations.values())
    return course, compared


def _from_history(name: str, made: Synopsis, log: Log, window: tuple[int, int], expected: pa.Table) -> FromHistory:
    """Answers the events of a window from all up to its end."""
    first, end = window
    before = time.perf_counter()
    _, answers = evaluate(made, EMPTY, log.batch(0, end))
    found = answers.filter(pc.greater_equal(answers.column("tp"), first))
    seconds = time.perf_counter() - before
    if not found.equals(expected):
        raise ExecutionError(f"{name}: {expected.num_rows} answers, from the history {found.num_rows}")
    return FromHistory(name, end - first, end, seconds)


@dataclass(frozen=True)
class Log:
    """``tp, kind, c1, c2``: an event a time point."""

    rows: pa.Table

    @property
    def events(self) -> int:
        """How many there are."""
        return int(self.rows.num_rows)

    @classmethod
    def generated(cls, events: int) -> Log:
        """The same log for the same number."""
        from weft.storage.local_sql import connect

        kinds = [kind for kind, share in enumerate(_SHARES) for _ in range(share)]
        drawn = "(hash(i * 8 + {place}) % {most})::BIGINT"
        columns = (
            f"{kinds}[{drawn.format(place=1, most=len(kinds))} + 1]::TINYINT AS kind, "
            f"{drawn.format(place=2, most=_USERS)} AS c1, {drawn.format(place=3, most=_DOCUMENTS)} AS c2"
        )
        with connect() as connection:
            text = f"SELECT i AS tp, {columns} FROM range({events}) AS numbers(i) ORDER BY i"
            return cls(connection.sql(text).to_arrow_table())

    def batches(self, size: int) -> Iterator[Batch]:
        """The log in batches of one size; what is left at the end is left out."""
        return (self.batch(first, first + size) for first in range(0, self.events - size + 1, size))

    def batch(self, first: int, end: int) -> Batch:
        """The events from one time point up to another."""
        rows = self.rows.slice(first, end - first)
        seconds = pc.divide(rows.column("tp"), _A_SECOND)
        points = pa.table({"tp": rows.column("tp"), "at": pc.multiply(seconds, 1_000_000)})
        kinds = rows.column("kind")
        events = {
            name: rows.filter(pc.equal(kinds, pa.scalar(number, pa.int8()))).select(["tp", "c1", "c2"])
            for number, name in enumerate(_NAMES)
        }
        return Batch(points, events)


def _line(course: Course) -> str:
    """What a course came to.

    >>> _line(Course("once", 1000, [0.1] * 5, 3, [7] * 5, 2048))[:62]
    'once, batches of 1,000: 10,000 events a second (aim 50,000); l'
    """
    return (
        f"{course.formula}, batches of {course.batch:,}: {course.rate:,.0f} events a second (aim {_AIM:,}); "
        f"last batches {course.growth:.2f} times the first; {course.answers:,} answers; "
        f"stored: {course.tuples[-1]:,} tuples, {course.bytes // 1024:,} kB"
    )


def _json(course: Course) -> dict[str, object]:
    """A course without what each of its batches was like."""
    told = {"rate": round(course.rate), "growth": round(course.growth, 2), "batches": len(course.seconds)}
    median = {"seconds": round(statistics.median(course.seconds), 4), "tuples": course.tuples[-1]}
    return {
        "formula": course.formula,
        "batch": course.batch,
        **told,
        **median,
        "answers": course.answers,
        "bytes": course.bytes,
    }
