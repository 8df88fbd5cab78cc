"""A data source for Spark: ``spark.read.format("weft")`` reads tables, views and answers of a home as of an instant.

Spark plans a read in a Python process beside the driver, and reads in Python processes of the executors.  All of them
import this module.  Only the first opens the home; the others read the files that it found, and do not import the rest
of Weft, which takes a second.
"""

from __future__ import annotations

import datetime as dt
import os
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from weft.errors import Refused, WeftError
from weft.instants import format_instant, from_datetime
from weft.storage.as_of import GREATEST, LEAST, AnswersAsOf, AsOf, Bounds, PeriodsAsOf, RowsAsOf
from weft.storage.typed_answers import typed_schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

    from weft.api.weft import Weft

NAME: Final = "weft"
_KINDS: Final = ("table", "view", "query")
_OPTIONS: Final = ("home", *_KINDS, "at")
_USAGE: Final = 'Write spark.read.format("weft").option("home", FOLDER).option("table", NAME).load().'


_HIDE: Final = "SPARK_HIDE_TRACEBACK"
"""The variable that Spark's Python process reads when it reports an error."""


@contextmanager
def _shown_without_traceback() -> Iterator[None]:
    """Let Spark show an error of Weft as a message.  It shows other errors with their traceback.

    The variable is set until Spark has reported the error, since the process may later serve other programs.
    """
    try:
        yield
    except WeftError as error:
        if _HIDE not in os.environ:
            os.environ[_HIDE] = "1"
            weakref.finalize(error, os.environ.pop, _HIDE, None)
        raise


def register(spark: SparkSession) -> None:
    """Let ``spark.read.format("weft")`` read homes in this session, and let Spark push filters to such sources."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(WeftSource)


class WeftSource(DataSource):
    """The options ``home`` (a folder), one of ``table``, ``view`` and ``query`` (a name), and ``at`` (an instant)."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return NAME

    def schema(self) -> StructType:
        """Return the columns.  Raise Refused or NotFound."""
        with _shown_without_traceback():
            return from_arrow_schema(typed_schema(_relation(self.options).columns))

    def reader(self, schema: StructType) -> _Reader:
        """Return a reader of the columns of ``schema``, which may be some of the relation's."""
        with _shown_without_traceback():
            relation = _relation(self.options)
            unknown = [each for each in schema.names if each not in dict(relation.columns)]
            if unknown:
                raise Refused(f"there is no column {unknown[0]!r}", hint="Leave out .schema(…), or name columns of it.")
            return _Reader(relation, schema.names)


class _Part(InputPartition):
    """Some files of the relation."""


class _Reader(DataSourceReader):
    def __init__(self, relation: AsOf, names: Sequence[str]) -> None:
        self._relation = relation
        self._names = list(names)
        self._bounds: dict[str, tuple[int, int]] = {}

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Leave out files by their statistics.  Spark evaluates all filters for the other files."""
        for each in filters:
            found = _limits(each)
            if found is not None:
                name, low, high = found
                known = self._bounds.get(name, (LEAST, GREATEST))
                self._bounds[name] = (max(low, known[0]), min(high, known[1]))
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        """Return a partition for each file that can be read apart."""
        bounds: Bounds = self._bounds
        with _shown_without_traceback():
            return [_Part(files) for files in self._relation.parts(bounds)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a partition."""
        with _shown_without_traceback():
            for rows in self._relation.read(partition.value):
                yield from rows.select(self._names).to_batches()


def _limits(given: Filter) -> tuple[str, int, int] | None:
    """Return the column and the least and greatest value that satisfy the filter, or None for other filters.

    >>> _limits(GreaterThan(("id",), 3)) == ("id", 4, GREATEST), _limits(EqualTo(("name",), "x"))
    (True, None)
    """
    if not isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual | LessThan | LessThanOrEqual):
        return None
    number = _number(given.value)
    if len(given.attribute) != 1 or number is None:
        return None
    low, high = LEAST, GREATEST
    if isinstance(given, EqualTo | GreaterThan | GreaterThanOrEqual):
        low = number + isinstance(given, GreaterThan)
    if isinstance(given, EqualTo | LessThan | LessThanOrEqual):
        high = number - isinstance(given, LessThan)
    return given.attribute[0], low, high


def _number(value: Any) -> int | None:
    if isinstance(value, dt.datetime):
        return from_datetime(value) if value.tzinfo is not None else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _relation(options: Any) -> AsOf:
    """Return the relation that the options name.  Raise Refused or NotFound."""
    from weft.api.arguments import micros
    from weft.api.weft import Weft
    from weft.catalog.naming import folded

    unknown = [each for each in options if each.lower() not in _OPTIONS]
    if unknown:
        raise Refused(f"{unknown[0]!r} is not an option of the format weft", hint=f"{_USAGE}")
    given = [kind for kind in _KINDS if options.get(kind)]
    if len(given) != 1:
        raise Refused(f"name one of {', '.join(_KINDS)}, not {len(given)} of them", hint=_USAGE)
    kind, name = given[0], str(options[given[0]])
    at = None if options.get("at") is None else micros(str(options["at"]))
    with Weft.open(options.get("home")) as home:
        if kind == "query":
            return _answers(home, name, at)
        if kind == "view":
            _require_refreshed(home, name, at)
        elif folded(name) in {folded(each.name) for each in home.views()}:
            raise Refused(f"{name} is a view", hint=f'Write .option("view", "{name}").')
        return _rows(home, name, at)


def _answers(home: Weft, name: str, at: int | None) -> AsOf:
    from weft.storage.ledger import answer_files

    query = home.opened.seen().query(name)
    return AnswersAsOf(query, tuple(answer_files(home.opened.catalog.data, query)), at)


def _rows(home: Weft, name: str, at: int | None) -> AsOf:
    from weft.catalog.discarded import discarded_tables, refuse_discarded
    from weft.storage.table import Table

    record = home.table(name)
    refuse_discarded(discarded_tables(home.opened.catalog), [record.schema])
    files = () if record.version < 0 else Table(home.opened.catalog.data / record.path).files()
    if record.log is not None:
        return PeriodsAsOf(record.schema, files, at, record.log)
    return RowsAsOf(record.schema, files, at)


def _require_refreshed(home: Weft, name: str, at: int | None) -> None:
    view = home.show_view(name).view
    if view.tau is None or (at is not None and at > view.tau):
        when = "never" if view.tau is None else f"at {format_instant(view.tau)}"
        raise Refused(
            f"the view {view.name} was last refreshed {when}",
            hint=f"Refresh it (weft view refresh {view.name}), or choose an earlier instant.",
        )
