"""What a tick writes: its outputs, each a Delta table of the home with a transaction of its own.

An *output* has a name, a place and the rows that this tick adds.  Its commit carries ``txnAppId`` weft-NAME and the
tick's id as ``txnVersion``: one that is repeated or fenced is refused (design section 6).  The catalog notes an output
before it is written and once it is; a tick that died is gone through output by output: what is in Delta already is
taken from there, the rest is computed again.

Outputs are the answers, one for each stratum, those of synopses and what these store.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from weft.catalog import Writer, layout
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
"""Outputs that are written side by side."""


@dataclass(frozen=True)
class Output:
    """Rows that a tick adds to the Delta table at ``path`` (relative to the home's data).

    ``name`` is unique among the outputs of a tick, and the same each time the tick is run.  ``rows`` are Spark's, or,
    where they are few, Arrow's (the table's columns in any order): those are committed without a job of Spark's.
    ``anew`` (µs UTC, the wall's instant): the table has these rows of Arrow's from then on, and no others.
    """

    name: str
    path: str
    rows: DataFrame | pa.Table
    anew: int | None = None


@dataclass
class Outputs:
    """The outputs of one tick; ``again`` where the tick had died and is run once more.

    ``stored`` is what was written, by path: (path, Delta version, rows of the whole table).
    """

    writer: Writer
    tick_id: int
    again: bool
    stored: dict[str, tuple[str, int, int]] = field(default_factory=dict)

    def found(self, name: str, path: str) -> int | None:
        """The version of the table at ``path`` that has this output already, or None."""
        if not self.again:
            return None
        version = find_version(self.writer.data / path, application(name), self.tick_id)
        if version is not None:
            self.writer.ticks.open_outputs(self.tick_id, [(name, path)])
            make_durable(self.writer.data / path, version)
            self._record([(name, *self._stored(path, version))])
        return version

    def write(self, output: Output) -> int:
        """Commits an output; the version of its table.

        Raises LeaseLost where the commit is not in the log afterwards: another writer was quicker.
        """
        return self.write_all([output])[0]

    def write_all(self, outputs: Sequence[Output]) -> list[int]:
        """Commits outputs of different tables side by side, in any order; the versions of their tables.

        All are noted before the first is written, and again once all are in Delta.  Raises LeaseLost as ``write``, and
        what writing raises, when none of them is being written any more; those that are in Delta then are found there.
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

    def _committed(self, outputs: Sequence[Output]) -> list[int]:
        """Commits them; what waits for the disk of one lets another one go on."""
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

    def _durable(self, output: Output) -> int:
        table = self.writer.data / output.path
        version = self._commit(output, table)
        make_durable(table, version)
        return version

    def _commit(self, output: Output, table: Location) -> int:
        app = application(output.name)
        if isinstance(output.rows, pa.Table) and output.anew is not None:
            return replace_rows(table, output.rows, app, self.tick_id, output.anew)
        if isinstance(output.rows, pa.Table):
            return append_rows(table, output.rows, app, self.tick_id)
        # Spark writes files, and this process commits them: Delta's own way through Spark takes several jobs, and drops
        # a repeated transaction without a word.
        left = self.writer.data / layout.WRITING
        # A folder of its own: a writer that was thought dead may wake up, write files and clear what it wrote.
        folder = left / str(self.writer.lease.token)
        try:
            _clear_earlier(left, self.writer.lease.token)
            left.make()
            output.rows.write.parquet(folder.spark, compression="zstd")
            return append_files(table, folder, app, self.tick_id)
        finally:
            folder.clear()

    def give_up(self, name: str, path: str) -> None:
        """Where the tick had died: sees to it that whoever still computes this output can no longer commit it."""
        if not self.again:
            return
        if path == layout.LEDGER:  # whoever is late must not be the first to write to it
            require_ledger(self.writer.data)
        spend(self.writer.data / path, application(name), self.tick_id)

    def _stored(self, path: str, version: int) -> tuple[int, tuple[str, int, int]]:
        """How many rows a commit has added, and (path, version, rows) of the whole table."""
        table = self.writer.data / path
        added = sum(file.rows or 0 for file in added_files(table, version))
        now = delta_snapshot(table, check_files=False)
        return added, (path, now.version, now.rows or 0)

    def _record(self, written: Sequence[tuple[str, int, tuple[str, int, int]]]) -> None:
        self.stored.update({whole[0]: whole for _, _, whole in written})
        self.writer.ticks.outputs_written(self.tick_id, written)


def _clear_earlier(left: Location, token: int) -> None:
    """Removes what earlier writers have left: one that is alive can no longer commit it.

    A later writer's folder stays: this writer may be one whose lease was taken over.
    """
    for name in left.names():
        if name.isdigit() and int(name) <= token:
            with suppress(OSError):  # it may write there still
                (left / name).clear()


def application(name: str) -> str:
    """The ``txnAppId`` of an output."""
    return f"weft-{name}"


def answers_name(stratum: int) -> str:
    """The name of the output with a stratum's answers."""
    return layout.LEDGER if not stratum else f"{layout.LEDGER}-{stratum}"
