"""Write the outputs of a tick. Each output is a separate transaction on a Delta table of the home.

An *output* has a name, a path and the rows that this tick adds. The commit of an output carries ``txnAppId`` weft-NAME
and the tick's ID as ``txnVersion``, by which a repeated commit is found (design section 6). The catalog records
an output before and after the commit. If a dead tick runs again, the tick computes only the outputs that Delta lacks.

Outputs are the answers of each stratum, the answers of synopses, and the states of synopses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from weft.catalog import Writer, layout
from weft.failpoint import failpoint
from weft.storage.data_files import FileForm, NewFile
from weft.storage.ledger import require_ledger
from weft.storage.table import Commit, Fence, Table
from weft.writing.reserved import spend

_AT_ONCE: Final = 4


@dataclass(frozen=True)
class TickOutput:
    """Rows that a tick adds to the Delta table at ``path`` (relative to the home's data).

    ``name`` is unique among the outputs of a tick, and stays the same if the tick runs again. ``rows`` is an Arrow
    table with its columns in any order, or a function that writes data files of the table. If
    ``replaced_at`` (the wall clock time, µs UTC) is given, the rows replace all rows of the table.
    """

    name: str
    path: str
    rows: pa.Table | Callable[[FileForm], Sequence[NewFile]]
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
        commit = Table(self.writer.data / path).find(output_app_id(name), self.tick_id)
        if commit is None:
            return None
        self.writer.ticks.open_outputs(self.tick_id, [(name, path)])
        self._record([(name, path, commit)])
        return commit.version

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
        commits = self._committed(outputs)
        self._record([(each.name, each.path, commit) for each, commit in zip(outputs, commits, strict=True)])
        for _ in outputs:
            failpoint("tick.recorded")
        return [each.version for each in commits]

    def _committed(self, outputs: Sequence[TickOutput]) -> list[Commit]:
        if len(outputs) == 1:
            failpoint("tick.computed")
            commits = [self._commit(outputs[0])]
            failpoint("tick.written")
            return commits
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            going = []
            for each in outputs:
                failpoint("tick.computed")
                going.append(pool.submit(self._commit, each))
            for done in as_completed(going):
                done.exception()
                failpoint("tick.written")
        return [each.result() for each in going]

    def _commit(self, output: TickOutput) -> Commit:
        table, fence = Table(self.writer.data / output.path), Fence(output_app_id(output.name), self.tick_id)
        rows = output.rows if isinstance(output.rows, pa.Table) else output.rows(table.form())
        return table.append(rows, fence, output.replaced_at)

    def give_up(self, name: str, path: str) -> None:
        """If the tick runs again, ensure that an earlier process can no longer commit this output."""
        if not self.again:
            return
        if path == layout.LEDGER:  # a late process must not create the ledger
            require_ledger(self.writer.data)
        spend(self.writer, path, Fence(output_app_id(name), self.tick_id))

    def _record(self, written: Sequence[tuple[str, str, Commit]]) -> None:
        records = []
        for name, path, commit in written:
            now = Table(self.writer.data / path).snapshot()
            self.stored[path] = path, now.version, now.rows or 0
            records.append((name, commit.rows, self.stored[path]))
        self.writer.ticks.outputs_written(self.tick_id, records)


def output_app_id(name: str) -> str:
    """Return the ``txnAppId`` for the commit of an output."""
    return f"weft-{name}"


def answers_name(stratum: int) -> str:
    """Return the name of the output for a stratum's answers."""
    return layout.LEDGER if not stratum else f"{layout.LEDGER}-{stratum}"
