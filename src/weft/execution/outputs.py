"""Write the outputs of a tick. Each output is a separate transaction on a Delta table of the home.

An *output* has a name, a path and the rows that this tick adds. The commit of an output carries ``txnAppId`` weft-NAME
and the tick's ID as ``txnVersion``. Delta refuses a repeated or fenced commit (design section 6). The catalog records
an output before and after the commit. If a dead tick runs again, the tick computes only the outputs that Delta lacks.

Outputs are the answers of each stratum, the answers of synopses, and the states of synopses.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.execution.engines.engine import Rows, WrittenFiles
from weft.execution.phases import COMMITTING, phase
from weft.failpoint import failpoint
from weft.location import Location
from weft.storage.commit import append_files, append_rows, replace_rows
from weft.storage.delta_log import added_files, delta_snapshot
from weft.storage.fence import find_version, make_durable, spend
from weft.storage.ledger import require_ledger

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_AT_ONCE: Final = 4


@dataclass(frozen=True)
class TickOutput:
    """Rows that a tick adds to the Delta table at ``path`` (relative to the home's data).

    ``name`` is unique among the outputs of a tick, and stays the same if the tick runs again. ``rows`` is a Spark
    DataFrame, a small Arrow table, or files that Spark has written. The columns of an Arrow table may be in any order.
    Only the commit of a DataFrame needs a Spark job. If ``replaced_at`` (the wall clock time, µs UTC) is given, the
    rows replace all rows of the table. A DataFrame cannot replace rows.
    """

    name: str
    path: str
    rows: DataFrame | Rows
    replaced_at: int | None = None


@dataclass
class Outputs:
    """The outputs of one tick. ``again`` is true if the tick was interrupted and runs again.

    ``stored`` maps the path of each written table to the table's path, Delta version and row count.
    """

    writer: Writer
    tick_id: int
    again: bool
    stored: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def find(self, name: str, path: str) -> int | None:
        """Return the version in which the table at ``path`` received this output, or None if the output is missing."""
        if not self.again:
            return None
        version = find_version(self.writer.data / path, output_app_id(name), self.tick_id)
        if version is not None:
            self.writer.ticks.open_outputs(self.tick_id, [(name, path)])
            make_durable(self.writer.data / path, version)
            self._record([(name, *self._stored(path, version))])
        return version

    def write(self, output: TickOutput) -> int:
        """Commit an output and return the table's new version. Raise LeaseLost if another writer has taken over."""
        return self.write_all([output])[0]

    def write_all(self, outputs: Sequence[TickOutput]) -> list[int]:
        """Commit outputs to different tables in parallel, and return the versions of the tables.

        The catalog records all outputs before the first write and again after the last commit. Raise LeaseLost as
        ``write`` does. Other errors are raised after all writes have ended. A repeated tick finds the committed
        outputs.
        """
        self.writer.ticks.open_outputs(self.tick_id, [(each.name, each.path) for each in outputs])
        if any(each.path == layout.LEDGER for each in outputs):
            require_ledger(self.writer.data)
        with phase(COMMITTING):
            versions = self._committed(outputs)
            stored = [(each.name, *self._stored(each.path, v)) for each, v in zip(outputs, versions, strict=True)]
            self._record(stored)
        for _ in outputs:
            failpoint("tick.recorded")
        return versions

    def _committed(self, outputs: Sequence[TickOutput]) -> list[int]:
        if len(outputs) == 1:
            failpoint("tick.computed")
            versions = [self._durable(outputs[0])]
            failpoint("tick.written")
            return versions
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            going = []
            for each in outputs:
                failpoint("tick.computed")
                going.append(pool.submit(self._durable, each))
            for done in as_completed(going):
                done.exception()
                failpoint("tick.written")
        return [each.result() for each in going]

    def _durable(self, output: TickOutput) -> int:
        table = self.writer.data / output.path
        version = self._commit(output, table)
        make_durable(table, version)
        return version

    def _commit(self, output: TickOutput, table: Location) -> int:
        app = output_app_id(output.name)
        if isinstance(output.rows, WrittenFiles):
            return append_files(table, output.rows.folder, app, self.tick_id, replaced_at=output.replaced_at)
        if isinstance(output.rows, pa.Table) and output.replaced_at is not None:
            return replace_rows(table, output.rows, app, self.tick_id, output.replaced_at)
        if isinstance(output.rows, pa.Table):
            return append_rows(table, output.rows, app, self.tick_id)
        # Spark writes the files, and this process makes the commit. Delta's own commit through Spark takes several jobs
        # and ignores a repeated transaction silently.
        with writing_folder(self.writer) as folder:
            files = folder / "rows"
            output.rows.write.parquet(files.spark, compression="zstd")
            return append_files(table, files, app, self.tick_id)

    def give_up(self, name: str, path: str) -> None:
        """If the tick runs again, ensure that an earlier process can no longer commit this output."""
        if not self.again:
            return
        if path == layout.LEDGER:  # a late process must not create the ledger
            require_ledger(self.writer.data)
        spend(self.writer.data / path, output_app_id(name), self.tick_id)

    def _stored(self, path: str, version: int) -> tuple[int, tuple[str, int, int]]:
        """Return the number of rows that a commit added, and the path, version and row count of the whole table."""
        table = self.writer.data / path
        added = sum(file.rows or 0 for file in added_files(table, version))
        now = delta_snapshot(table, check_files=False)
        return added, (path, now.version, now.rows or 0)

    def _record(self, written: Sequence[tuple[str, int, tuple[str, int, int]]]) -> None:
        self.stored.update({table[0]: table for _, _, table in written})
        self.writer.ticks.outputs_written(self.tick_id, written)


@contextmanager
def writing_folder(writer: Writer) -> Iterator[Location]:
    """Provide the folder into which Spark writes files before their commit. Remove the folder at the end.

    The folder belongs to the lease, because a writer that lost the lease may still write files and clear its folder.
    """
    parent = writer.data / layout.WRITING
    folder = parent / str(writer.lease.token)
    try:
        _clear_earlier(parent, writer.lease.token)
        parent.make()
        yield folder
    finally:
        folder.clear()


def _clear_earlier(parent: Location, token: int) -> None:
    """The folder of a later writer stays, because the current writer may have lost the lease."""
    for name in parent.names():
        if name.isdigit() and int(name) <= token:
            with suppress(OSError):  # the earlier writer may still write there
                (parent / name).clear()


def output_app_id(name: str) -> str:
    """Return the ``txnAppId`` for the commit of an output."""
    return f"weft-{name}"


def answers_name(stratum: int) -> str:
    """Return the name of the output for a stratum's answers."""
    return layout.LEDGER if not stratum else f"{layout.LEDGER}-{stratum}"
