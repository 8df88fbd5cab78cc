"""Computations of a tick, each within its time; what the JVM took with it is begun again in a new one.

A session, its views and its relations belong to one JVM.  So a computation is a function of a reader: it is handed one
of the JVM that lives, and may be called again with another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeVar

from weft.catalog import layout
from weft.configuration import configuration
from weft.errors import JvmEnded, LimitExceeded, QueryFault, StorageError
from weft.execution.answers import gave_too_many
from weft.execution.look_ups import LookUps
from weft.execution.new_answers import new_answers
from weft.execution.reader import Reader, held
from weft.execution.relations import Relation
from weft.faults import query_faults
from weft.location import Location
from weft.printable import counted
from weft.runtime.session import disk_is_full, interrupted, plain_errors, root_cause, spark_errors
from weft.runtime.settings import small
from weft.runtime.turn import turn
from weft.runtime.watchdog import limited

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

_WARM_SECONDS: Final = 3_600.0
_FEWER: Final = "Narrow it, or raise WEFT_QUERY_ROWS."


@dataclass(frozen=True)
class Limits:
    """What one query may take in one tick: seconds, and rows that it adds."""

    seconds: float
    rows: int


def limits(data: Location) -> Limits:
    """The limits as the settings of the home with that data have them; raises Refused for settings that cannot be."""
    chosen = configuration(layout.home_of(data))
    return Limits(chosen.query_seconds, chosen.query_rows)


def too_many(rows: int, most: int) -> LimitExceeded:
    """The error for a query that has found more new rows than it may."""
    return LimitExceeded(f"the query found {counted(rows, 'row')}, and may add {most:,} in a tick", hint=_FEWER)


@contextmanager
def few_enough(most: int) -> Iterator[None]:
    """Raises LimitExceeded where a branch was stopped within the block because of its many rows (``guarded``)."""
    try:
        yield
    except spark_errors() as error:
        if not gave_too_many(error):
            raise
        raise LimitExceeded(
            f"the query gave many times the {most:,} rows that it may add in a tick", hint=_FEWER
        ) from None


@contextmanager
def one_question(
    spark: SparkSession, data: Location, tables: Mapping[str, Relation]
) -> Iterator[tuple[Reader, Limits]]:
    """A reader over the tables for a question outside of ticks, within a query's limits; its memory is given back.

    Raises ExecutionError where Spark cannot answer it, LimitExceeded where it takes more than a query may in a tick.
    """
    reader, allowed = Reader(spark, data, tables), limits(data)
    with (
        held(data, [table.path for table in tables.values()]),
        plain_errors("asking the query"),
        limited(allowed.seconds),
        few_enough(allowed.rows),
    ):
        try:
            yield reader, allowed
        finally:
            reader.release()


@contextmanager
def spark_faults() -> Iterator[None]:
    """Raises what Spark raises within the block as QueryFault.

    A full disk is the home's matter (StorageError), and an interrupt stays one.
    """
    try:
        yield
    except spark_errors() as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        if disk_is_full(error):
            raise StorageError(
                "the disk is full where Spark writes", hint="Make room and run the command again."
            ) from error
        raise QueryFault(root_cause(error)) from error


@dataclass
class Attempts:
    """What a tick computes with: the home's session, and a reader over the tick's tables."""

    session: Callable[[], SparkSession]
    data: Location
    limits: Limits
    look_ups: LookUps | None = None
    _reader: Reader | None = field(default=None, init=False)
    _small: bool = field(default=False, init=False)

    def begin(self, tables: Mapping[str, Relation], *, small: bool) -> None:
        """What is computed from now on is over these tables; ``small`` says how Spark plans for it."""
        if self._reader is None:
            self._reader = Reader(self.session(), self.data, tables, look_ups=self.look_ups)
        else:
            self._reader = self._reader.advanced(tables)
        self._small = small

    def run(self, compute: Callable[[Reader], Result], seconds: float) -> Result:
        """What ``compute`` gives, once it is given within ``seconds``.

        Tried twice where the JVM ended and nobody knows why: it may have been killed.  Raises what ``compute`` raises
        as one of FAULTS, and what belongs to the home as it is; a session that does not start is the home's matter.
        """
        for last in (False, True):
            try:
                with turn():  # nobody else ends this JVM between being ready and beginning
                    reader = self._ready()
                    with (
                        query_faults(),
                        spark_faults(),
                        limited(seconds),
                        small(reader.spark, when=self._small),
                        few_enough(self.limits.rows),
                    ):
                        return compute(reader)
            except JvmEnded as error:
                if last or error.known:
                    raise
        raise AssertionError("one of the two has returned or raised")

    @contextmanager
    def planned(self) -> Iterator[Reader]:
        """A reader of the JVM that lives now; within the block, this thread's turn, Spark plans as it was told to."""
        with turn():
            reader = self._ready()
            with small(reader.spark, when=self._small):
                yield reader

    def _ready(self) -> Reader:
        assert self._reader is not None, "begin comes first"
        spark = self.session()
        if self._reader.spark is not spark:
            self._reader = self._reader.again(spark)
            with limited(_WARM_SECONDS):
                _warm(self._reader)
        return self._reader

    def release(self) -> None:
        """Gives the memory back."""
        if self._reader is not None:
            self._reader.release()


def _warm(reader: Reader) -> None:
    """Runs next to nothing: a JVM's first jobs take many times as long as later ones, which is not a query's doing."""
    new_answers(reader, most=1)
    stored = next((name for name in reader.tables if reader.files(name)), None)
    if stored is not None:
        reader.whole(stored, ()).limit(1).collect()
    reader.release()
