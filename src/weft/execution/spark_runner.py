"""Run the computations of a tick within a time limit. If the JVM ends, repeat the computation in a new JVM.

Sessions, views and relations belong to one JVM. A computation is therefore a function of a reader, and may be called
again with a reader of another JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

from weft.arrangement.state_store import StateStore
from weft.catalog import CatalogParts
from weft.configuration import configuration
from weft.errors import JvmEnded, LimitExceeded, QueryFault, StorageError
from weft.execution.engines.spark import SparkEngine
from weft.execution.guarded import gave_too_many
from weft.execution.look_ups import LookUps
from weft.execution.new_answers import new_answers
from weft.execution.reader import Reader, SparkNeeded, removals_reported
from weft.execution.relations import Relation
from weft.faults import memory_errors, query_faults
from weft.printable import counted
from weft.runtime.session import (
    disk_is_full,
    interrupted,
    plain_errors,
    root_cause,
    rows_were_lost,
    session_started,
    spark_errors,
)
from weft.runtime.settings import plan_for, small, use_cluster_cores
from weft.runtime.turn import turn
from weft.runtime.watchdog import limited
from weft.storage.time_limit import time_limit
from weft.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


Prepared = TypeVar("Prepared")
Result = TypeVar("Result")

_WARM_SECONDS: Final = 3_600.0
_FEWER: Final = "Restrict the query to fewer rows, or raise WEFT_QUERY_ROWS."
_FEWER_OF_OWNER: Final = "Restrict the query to fewer rows, or raise the limit: weft user change NAME --rows N."


@dataclass(frozen=True)
class Limits:
    """The limits of one query in one tick: a time in seconds, a number of new rows, and the steps of a recursion."""

    seconds: float
    rows: int
    depth: int = 100


def limits(catalog: CatalogParts) -> Limits:
    """Read the limits from the settings of a home. Raise Refused for invalid settings."""
    chosen = configuration(catalog.path)
    return Limits(chosen.query_seconds, chosen.query_rows, chosen.query_depth)


def too_many(rows: int, most: int, *, of_owner: bool = False) -> LimitExceeded:
    """Return the error for a query that has ``rows`` new rows but may add only ``most``, as a limit of its owner."""
    limit, hint = ("the limit of its owner", _FEWER_OF_OWNER) if of_owner else ("the limit", _FEWER)
    return LimitExceeded(f"the query found {counted(rows, 'new row')} in one tick, but {limit} is {most:,}", hint=hint)


@contextmanager
def few_enough(most: int) -> Iterator[None]:
    """Turn the error of a ``guarded`` branch with too many rows into LimitExceeded."""
    try:
        yield
    except spark_errors() as error:
        if not gave_too_many(error):
            raise
        raise LimitExceeded(
            f"the query found many times more rows in one tick than the limit of {most:,}", hint=_FEWER
        ) from None


def ad_hoc(
    session: Callable[[], SparkSession],
    catalog: CatalogParts,
    tables: Mapping[str, Relation],
    compute: Callable[[Reader, Limits], Result],
    allowed: Limits | None = None,
) -> Result:
    """Return the result of ``compute`` for a query outside of ticks.

    ``compute`` gets a reader, whose cache is released afterwards, and the limits. The default of ``allowed`` is the
    limits of a query in a tick. ``compute`` is called without a session first, so that it does not wait for the turn to
    use Spark. If it needs Spark, it is called again with a session, and has the rest of the time limit.

    Raise ExecutionError if the query cannot run. Raise LimitExceeded if the query exceeds the limits of a tick.
    """
    allowed = allowed or limits(catalog)
    reader = Reader(None, catalog.data, tables, deepest=allowed.depth)
    removals = removals_reported(catalog.data, reader.snapshots)
    begun, timed = monotonic(), time_limit(allowed.seconds, cancellable=True)
    with suppress(SparkNeeded), removals, memory_errors(), timed, _released(reader):
        return compute(reader, allowed)
    spent = monotonic() - begun
    spark = session()
    reader = Reader(spark, catalog.data, tables, deepest=allowed.depth)
    use_cluster_cores(spark)
    with (
        removals_reported(catalog.data, reader.snapshots),
        plain_errors("asking the query"),
        memory_errors(),
        limited(allowed.seconds, spent=spent),
        time_limit(allowed.seconds, spent=spent, cancellable=True),
        few_enough(allowed.rows),
        _released(reader),
    ):
        return compute(reader, allowed)


@contextmanager
def _released(reader: Reader) -> Iterator[None]:
    try:
        yield
    finally:
        reader.release()


@contextmanager
def spark_faults() -> Iterator[None]:
    """Turn Spark's errors in the block into QueryFault.

    A full disk is an error of the home and becomes StorageError. An interrupt becomes KeyboardInterrupt.
    """
    try:
        yield
    except spark_errors() as error:
        if interrupted(error):
            raise KeyboardInterrupt from None
        if disk_is_full(error):
            raise StorageError(
                "the disk to which Spark writes is full", hint="Free some space and run the command again."
            ) from error
        if rows_were_lost(error):
            raise JvmEnded(
                "executors of the Spark cluster ended and took rows of the query with them",
                hint="Look for the cause in the logs of Spark's workers.",
            ) from error
        raise QueryFault(root_cause(error)) from error


def repeated(
    ready: Callable[[], Prepared], compute: Callable[[Prepared], Result], seconds: float, *, spent: float = 0.0
) -> Result:
    """Return the result of ``compute`` for the result of ``ready``. The time limit of ``compute`` is ``seconds``.

    An earlier computation of the same query took ``spent`` of the seconds.

    If the JVM ended for an unknown reason, try a second time, because another process may have killed the JVM. The same
    holds for executors that ended with rows that cannot be computed again (``cut_off``). Convert
    each other error of ``compute`` to one of FAULTS. Errors of the home pass through unchanged. If the session does not
    start in ``ready``, the error belongs to the home.
    """
    for last in (False, True):
        try:
            with turn():  # no other thread ends this JVM before the computation begins
                prepared = ready()
                with query_faults(), spark_faults(), limited(seconds, spent=spent), time_limit(seconds, spent=spent):
                    return compute(prepared)
        except JvmEnded as error:
            if last or error.known:
                raise
    raise AssertionError("one of the two has returned or raised")


def on_spark(
    session: Callable[[], SparkSession],
    compute: Callable[[SparkEngine], Result],
    *,
    rows: float,
    probing: bool,
    strict: bool = False,
    seconds: float = float("inf"),
) -> Result:
    """Return the result of ``compute`` on a Spark engine.

    ``rows`` is the number of input rows. With ``strict``, an overflow
    raises an error. ``compute`` may be called twice, because another process may end the JVM. The errors are those of
    ``repeated``.
    """

    def computed(spark: SparkSession) -> Result:
        own = spark.newSession()  # the names of tables may be in use in the home's session
        plan_for(own, rows, strict=strict)
        return compute(SparkEngine(own, probing))

    return repeated(session, computed, seconds)


@dataclass
class SparkRunner:
    """A runner for the computations of a tick, with the home's session and a reader over the tick's tables.

    ``ahead`` has the columns, by table, that this tick and those after it read whole (``WholeTables``).
    """

    session: Callable[[], SparkSession]
    data: Store
    limits: Limits
    look_ups: LookUps | None = None
    state_store: StateStore | None = None
    ahead: Mapping[str, Collection[str]] = field(default_factory=dict)
    _reader: Reader | None = field(default=None, init=False)
    _small: bool = field(default=False, init=False)

    def begin(self, tables: Mapping[str, Relation], *, small: bool) -> None:
        """Set the tables for the next computations. ``small`` selects Spark's settings for small plans."""
        if self._reader is None:
            self._reader = Reader(
                self.session() if session_started() else None,
                self.data,
                tables,
                look_ups=self.look_ups,
                state_store=self.state_store,
                deepest=self.limits.depth,
                ahead=self.ahead,
            )
        else:
            self._reader = self._reader.advanced(tables)
        self._small = small

    def run(self, compute: Callable[[Reader], Result], seconds: float) -> Result:
        """Return the result of ``compute``. The time limit is ``seconds``, and the number of new rows is limited.

        Spark starts if ``compute`` needs it: ``compute`` is then called again. The errors are those of ``repeated``.
        """
        assert self._reader is not None, "begin comes first"
        begun = monotonic()
        if self._reader.session is None:
            with query_faults(), time_limit(seconds), suppress(SparkNeeded):
                return compute(self._reader)
        spent = monotonic() - begun

        def computed(reader: Reader) -> Result:
            with small(reader.spark, when=self._small), few_enough(self.limits.rows):
                return compute(reader)

        return repeated(self._ready, computed, seconds, spent=spent)

    @contextmanager
    def planned(self) -> Iterator[Reader]:
        """Provide a reader of the live JVM, with the Spark settings that ``begin`` selected.

        No other thread uses Spark while the block runs.
        """
        with turn():
            reader = self._ready()
            with small(reader.spark, when=self._small):
                yield reader

    def _ready(self) -> Reader:
        assert self._reader is not None, "begin comes first"
        spark = self.session()
        if self._reader.session is None:
            self._reader = self._reader.again(spark)
        elif self._reader.spark is not spark:
            self._reader = self._reader.again(spark)
            with limited(_WARM_SECONDS):
                _warm(self._reader)
        use_cluster_cores(spark)
        return self._reader

    def release(self) -> None:
        """Release the cached relations."""
        if self._reader is not None:
            self._reader.release()


def _warm(reader: Reader) -> None:
    """Run a trivial query. The first jobs of a JVM are very slow and must not count against a query."""
    new_answers(reader, most=1)
    stored = next((name for name in reader.tables if reader.files(name)), None)
    if stored is not None:
        reader.whole(stored, ()).limit(1).collect()
    reader.release()
