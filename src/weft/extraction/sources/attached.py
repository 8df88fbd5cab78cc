"""Take the new versions of attached tables into their home (``storage.attached``).

Versions are taken in order. Versions that add rows are a load: their instants are reserved, one commit to the table's
own log names their files, and the catalog records it (``writing.reserved``). A version that rewrites files is a commit
that moves rows, as a compaction is. Each of these commits has the version as a transaction number, so that every
version is taken once. A version whose new files are gone is taken together with the later one that rewrites them. A
version that Weft cannot follow stops the table, and the source records the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from weft.catalog import Writer
from weft.catalog.records import ATTACHED, TS, Reservation, TableRecord
from weft.catalog.sources import SourceRecord
from weft.errors import AttachedFileGone, CatalogError, LeaseBusy, LeaseLost, Refused, WeftError
from weft.execution.home import OpenHome
from weft.extraction.batches import RejectedRecord, Timing, batches_of
from weft.extraction.files.rows import rows_as_json
from weft.extraction.quarantine import FEED, quarantine
from weft.extraction.sources.source_lease import Polled
from weft.failpoint import failpoint
from weft.instants import format_instant
from weft.printable import counted
from weft.storage.attached_dating import (
    Dated,
    UnlikeRows,
    at_instant,
    by_column,
    by_values,
    by_versions,
    column_times,
    own_times,
    picked_rows,
    row_by_row,
    row_count,
)
from weft.storage.attached_log import (
    Change,
    OtherFile,
    OtherTable,
    arrow_columns,
    changes_after,
    column_of_instants,
    digest_of,
    head_of,
    is_missing,
    joined,
    removed_after,
)
from weft.storage.columns import stored_schema
from weft.storage.delta_log import DataFile, bounds_of, commit_file, log_exists
from weft.storage.local_sql import connect
from weft.storage.table import Table, removal
from weft.storage.verify import require_undamaged
from weft.store import elsewhere
from weft.writing.reserved import ensure_attached, reserved_fence

APP: Final = "weft-attached"
"""The ``txnAppId`` whose number is the last version that the own log has taken."""

_MOST_FILES: Final = 10_000
"""The number of files after which a commit to the own log ends."""
_DAY_US: Final = 24 * 60 * 60 * 1_000_000
_HOUR_US: Final = 60 * 60 * 1_000_000
_DETACH: Final = "Detach the table with `weft table drop {name}`, and attach it again as a new table."


def take_versions(home: OpenHome, source: SourceRecord) -> Polled:
    """Take all new versions of an attached table. Return the number of new rows as ``began``.

    Raise Refused with the version for one that cannot be followed; the versions before it are taken. Raise NotFound,
    StorageError, LeaseBusy or LeaseLost.
    """
    with home.writing(f"take the new versions of {source.name}") as writer:
        require_undamaged(writer)
        source = writer.sources.named(source.name)
        table = writer.tables.by_id(source.table_id)
        timing = Timing(**{"ts_from": table.ts_from, **source.options})  # an older home has it in the table alone
        taking = _Taking(home, writer, source, table, timing)
        try:
            taking.all_versions()
        except (CatalogError, OSError):
            raise
        except WeftError:
            taking.record()
            raise
        taking.record()
        return taking.polled()


def take_new_versions(home: OpenHome) -> list[WeftError]:
    """Take the new versions of all attached tables, before a tick. Return the errors of tables that stop now.

    A table without a new version costs one request to its store, and no lease.
    """
    troubles: list[WeftError] = []
    for source in home.catalog.sources.all():
        if source.kind != ATTACHED:
            continue
        try:
            if _may_have_news(home, source):
                take_versions(home, source)
        except (LeaseBusy, LeaseLost):
            raise
        except WeftError as error:
            home.catalog.sources.troubled(source.table_id, home.clock(), error.message)
            if error.message != source.trouble:
                troubles.append(error)
    return troubles


def _may_have_news(home: OpenHome, source: SourceRecord) -> bool:
    reached = source.seen.get("version")
    if reached is None or source.polled_at is None or source.polled_at < home.clock() - _HOUR_US:
        return True
    return commit_file(elsewhere(home.catalog.data, source.location), reached + 1).mark() is not None


@dataclass
class _Taking:
    """One poll of an attached table. ``seen`` is the state that the source records.

    ``taken`` is the last version that the own log has. ``postponed`` are the versions after it whose files are gone,
    because later versions have rewritten them again (``_postpone``).
    """

    home: OpenHome
    writer: Writer
    source: SourceRecord
    table: TableRecord
    timing: Timing
    seen: dict[str, Any] = field(default_factory=dict)
    stored: int = 0
    late: int = 0
    quarantined: int = 0
    last: int | None = None
    taken: int = -1
    postponed: Change | None = None

    def __post_init__(self) -> None:
        self.place = elsewhere(self.writer.data, self.source.location)
        self.own = Table(self.writer.data / self.table.path)

    def record(self) -> None:
        """Record in the catalog how far the table is taken."""
        rows = self.writer.tables.by_id(self.table.table_id).rows
        self.writer.sources.polled(self.table.table_id, self.home.clock(), rows, {**self.source.seen, **self.seen})

    def polled(self) -> Polled:
        """Return the result of the poll."""
        rows = self.writer.tables.by_id(self.table.table_id).rows
        return Polled(self.table.name, self.stored, 0, rows, self.last, self.late, self.quarantined, appends=True)

    def all_versions(self) -> None:
        """Take all versions that the own log does not have."""
        reached = self.own.number(APP)
        if reached is None:
            head = head_of(self.place)
            self._refuse_other(head.table)
            digest = digest_of(self.place, head.version)
            self.seen = {"id": head.table.table_id, "from": head.version, "digest": digest}
            self.record()  # for the next process, if this one dies after the commit of the own log
            self._append([Change(head.version, head.at, "appended", head.files)])
            self._began(head.version)
            return
        self._refuse_replaced(reached)
        if "from_ts" not in self.source.seen:
            self._began(reached)
        elif self.source.seen["version"] != reached:  # the process died after the commit of the own log
            self._reached(reached)
        self.taken = reached
        self._all_after(reached)

    def _began(self, version: int) -> None:
        self.seen["from_ts"] = bounds_of(self.own.files())[1]
        self._reached(version)
        self.record()

    def _all_after(self, reached: int) -> None:
        listed = {str(file.location) for file in self.own.files()}
        waiting: list[Change] = []
        try:
            for found in changes_after(self.place, reached):
                if found.table is not None:
                    self._refuse_other(found.table)
                change = _of_new_files(found, listed)
                if change.kind == "appended" and change.table is None:
                    waiting.append(change)
                    if sum(len(each.added) for each in waiting) >= _MOST_FILES:
                        self._flush(waiting)
                    continue
                self._flush(waiting)
                self._take(change)
        finally:
            self._flush(waiting)

    def _take(self, change: Change) -> None:
        if change.table is not None:
            self._evolve(change.table)
        if change.kind == "appended":
            self._append([change])
        else:
            self._move(change)
        self._reached(change.version)

    def _flush(self, waiting: list[Change]) -> None:
        if waiting:
            taken = list(waiting)
            waiting.clear()
            self._append(taken)
            self._reached(taken[-1].version)

    def _reached(self, version: int) -> None:
        if self.postponed is not None:
            return
        self.taken = version
        self.seen |= {"version": version, "digest": digest_of(self.place, version)}

    def _refuse_replaced(self, reached: int) -> None:
        """Raise Refused if the table is not the one that was attached, or if a commit that Weft needs is gone."""
        seen = self.source.seen
        version = seen.get("version", seen.get("from"))
        digest = None if version is None else digest_of(self.place, version)
        stale = self.source.polled_at is None or self.source.polled_at < self.home.clock() - _DAY_US
        if digest is not None and digest != seen["digest"]:
            raise self._refused("the Delta table was replaced by another one")
        if digest is None and not log_exists(self.place):
            raise self._refused("there is no Delta table any more")
        if (digest is None or stale) and is_missing(self.place, reached + 1):
            raise self._refused(f"the log no longer has version {reached + 1}, which this home has not taken")

    def _refuse_other(self, table: OtherTable) -> None:
        own = {column.name: column.type for column in self.table.schema.columns}
        there = dict(table.columns)
        seen = {**self.source.seen, **self.seen}
        changed = [name for name, kind in there.items() if name in own and own[name] != kind and name != TS]
        missing = [name for name in own if name not in there and name != TS]
        if seen.get("id", table.table_id) != table.table_id or changed or missing:
            what = f"the column {(changed or missing)[0]} has changed" if changed or missing else "its id has changed"
            raise self._refused(f"the Delta table is another one than the attached one: {what}")
        column_of_instants(table, self.timing.ts_from)

    def _evolve(self, table: OtherTable) -> None:
        own = {column.name for column in self.table.schema.columns}
        added = [(name, kind) for name, kind in table.columns if name not in own and name.lower() != TS]
        if added:
            self.table = self.writer.tables.evolve(self.table.name, added)

    def _append(self, changes: Sequence[Change]) -> None:
        at, writer = self.home.clock(), self.writer
        wall = self.home.catalog.home().clock == "wall"
        load_id = writer.loads.begin(self.table.table_id, str(self.place), ATTACHED, None, at)
        ensure_attached(writer, self.table)
        stamping = _by_version if self.timing.ts_from is None else partial(_by_own_time, timing=self.timing)
        latest = at + self.timing.future_us if wall else None
        least, dates = stamping(changes, at if wall else None, latest=latest)
        reservation = writer.reservations.reserve(self.table.table_id, load_id, least)
        failpoint("attached.reserved")
        try:
            stamped = dates(self.own.place, reservation.floor)
            if stamped.late and self.timing.late == "refuse":
                raise Refused(
                    f"version {changes[0].version} or a later one has {counted(stamped.late, 'row')} before "
                    f"{format_instant(reservation.floor)}, up to which this home has ticked, and --late is refuse",
                    where=str(self.place),
                    hint="Attach the table again with --late stamp or --late quarantine.",
                )
            aside = self._quarantine(load_id, stamped.rejected, at)
        except WeftError:
            writer.reservations.abandon(reservation.reservation_id)
            raise
        version = changes[-1].version if self.postponed is None else self.taken
        self._commit(reservation, stamped.files, version)
        writer.loads.finish(load_id, sum(each.rows for each in stamped.files), 0, aside, stamped.late, at)
        self.late, self.quarantined = self.late + stamped.late, self.quarantined + aside

    def _commit(self, reservation: Reservation, files: Sequence[Dated], version: int) -> None:
        self.writer.check()
        new, also = [each.new for each in files], {APP: version}
        committed = self.own.commit(reserved_fence(reservation), new, also=also)
        failpoint("attached.written")
        rows, (first, last) = sum(each.rows for each in files), bounds_of([each.stored for each in files])
        self.writer.reservations.commit(reservation.reservation_id, committed.version, rows, first, last)
        failpoint("attached.committed")
        self.stored += rows
        self.last = max((each for each in (self.last, last) if each is not None), default=None)

    def _quarantine(self, load_id: int, rejected: Sequence[_Rejected], at: int) -> int:
        """Store the rejected rows in batches, because there may be as many as the table has rows."""
        records = (
            each for part in rejected for each in _records(part, str(self.place), self.table, self.timing.ts_from)
        )
        options, table_id = {"kind": FEED, **self.timing.options()}, self.table.table_id
        return sum(
            quarantine(self.home.catalog, load_id, table_id, batch.rejected, lambda _: options, at)
            for batch in batches_of(records, ())
        )

    def _move(self, change: Change) -> None:
        """Move the rows of rewritten files. The commit also says that a version without rows is taken."""
        if self.postponed is not None:
            change = joined(self.postponed, change)
        known = {str(file.location): file for file in self.own.files()}
        unknown = [place for place in change.removed if place not in known]
        if unknown:
            raise self._refused(f"version {change.version} removes a file that Weft does not know: {unknown[0]}")
        gone = [known[place] for place in change.removed]
        try:
            moved = self._moved(change, gone) if gone else []
        except UnlikeRows:
            raise self._unlike(change) from None
        except AttachedFileGone as error:
            self._postpone(change, error)
            return
        self.postponed = None
        token, at = self.writer.lease.token, self.home.clock()
        self.writer.check()
        self.own.commit(
            removal(token), [each.new for each in moved], gone, also={APP: change.version}, at=at, news=False
        )
        failpoint("attached.moved")
        now = self.own.snapshot()
        self.writer.tables.record_versions([(self.table.path, now.version, now.rows or 0)])

    def _moved(self, change: Change, gone: Sequence[DataFile]) -> list[Dated]:
        own, version = self.own.place, change.version
        attached = [file.attached for file in gone if file.attached is not None]
        column, at = attached[0].column, attached[0].at
        if column is not None and all(each.column == column for each in attached):
            return self._whole(change, gone, lambda file: by_column(own, file, version, column, bounds_of(gone)))
        if at is not None and all(each.at == at for each in attached):
            seen_in = {each.version for each in attached}  # by which row tracking finds the instant later
            first = seen_in.pop() if len(seen_in) == 1 else version
            return self._whole(change, gone, lambda file: at_instant(own, file, first, at))
        return self._row_by_row(change, gone)

    def _postpone(self, change: Change, error: AttachedFileGone) -> None:
        """Take this version together with the later one that has rewritten its deleted files. Else raise Refused.

        Until that version is reached, the own log says that this one is not yet taken. It may already have the files of
        versions in between that only add rows. If the process dies, the next one leaves these files out.
        """
        deleted = {str(file.location) for file in change.added if not file.location.exists()}
        if deleted and deleted <= removed_after(self.place, change.version):
            self.postponed = change
            return
        raise self._refused(
            f"VACUUM has deleted files that version {change.version} rewrites or adds, so the instants of their rows "
            "are unknown",
            " Row tracking (delta.enableRowTracking) of that table prevents this.",
        ) from error

    def _row_by_row(self, change: Change, gone: Sequence[DataFile]) -> list[Dated]:
        own, added, version = self.own.place, change.added, change.version
        head = head_of(self.place).table
        seen = {**self.source.seen, **self.seen}
        if self.timing.ts_from is None and head.row_versions is not None and "from" in seen:
            begin = (seen["from"], seen["from_ts"])
            dated = by_versions(own, gone, added, version, head.row_versions, begin)
            if dated is not None:
                return dated
        return by_values(own, gone, added, version, arrow_columns(head))

    def _whole(self, change: Change, gone: Sequence[DataFile], dated: Callable[[OtherFile], Dated]) -> list[Dated]:
        moved = [dated(file) for file in change.added]
        if sum(each.rows for each in moved) != sum(file.rows or 0 for file in gone):
            raise UnlikeRows
        return moved

    def _unlike(self, change: Change) -> Refused:
        return self._refused(f"version {change.version} only rewrites files, but their rows differ from those before")

    def _refused(self, message: str, more: str = "") -> Refused:
        return Refused(message, where=str(self.place), hint=_DETACH.format(name=self.table.name) + more)


def _of_new_files(change: Change, listed: set[str]) -> Change:
    """Leave out the files that the table already has: Delta replaces their entry. Note the files after the commit."""
    added = tuple(
        file for file in change.added if str(file.location) not in listed or str(file.location) in change.removed
    )
    listed.difference_update(change.removed)
    listed.update(str(file.location) for file in added)
    return replace(change, added=added, kind=change.kind if added or change.removed else "other")


@dataclass(frozen=True)
class _Rejected:
    """Rows of a file that go to quarantine. ``mask`` is true at these rows."""

    file: OtherFile
    version: int
    mask: pa.Array
    reason: str


@dataclass
class _Stamped:
    """The files of some versions with the instants of their rows."""

    files: list[Dated] = field(default_factory=list)
    late: int = 0
    rejected: list[_Rejected] = field(default_factory=list)


_Stamping = tuple[int, Callable[[Any, int], _Stamped]]
"""The least instant of the rows, and a function from the own log's folder and the floor to the files."""


def _by_version(changes: Sequence[Change], now: int | None, *, latest: int | None) -> _Stamping:
    """Give the rows of a version the time of the version, which does not lie ahead of a wall clock."""
    times: list[tuple[Change, int]] = []
    for change in changes:
        at = change.at if now is None else min(change.at, now)
        times.append((change, max([at, *(before for _, before in times[-1:])])))

    def dates(own: Any, floor: int) -> _Stamped:
        files = [at_instant(own, file, each.version, max(at, floor)) for each, at in times for file in each.added]
        return _Stamped(files)

    return times[0][1], dates


def _by_own_time(changes: Sequence[Change], now: int | None, *, latest: int | None, timing: Timing) -> _Stamping:
    """Give each row the time in its column, by the rules of loads."""
    column = timing.ts_from
    assert column is not None
    found = [(change, file, own_times(file, column)) for change in changes for file in change.added]
    bound = min((each.least for _, _, each in found if each.least is not None), default=now)

    def dates(own: Any, floor: int) -> _Stamped:
        stamped = _Stamped()
        for change, file, times in found:
            clean = not times.nulls and (latest is None or (times.greatest or 0) <= latest)
            if clean and times.least is not None and times.least >= floor:
                bounds = (times.least, times.greatest)
                stamped.files.append(by_column(own, file, change.version, column, bounds))
            elif clean and times.greatest is not None and times.greatest < floor and timing.late == "stamp":
                stamped.files.append(at_instant(own, file, change.version, floor))
                stamped.late += row_count(file)
            else:
                _row_by_row(stamped, own, change.version, file, floor, latest, timing)
        return stamped

    return bound if bound is not None else 0, dates


def _row_by_row(
    stamped: _Stamped, own: Any, version: int, file: OtherFile, floor: int, latest: int | None, timing: Timing
) -> None:
    times = column_times(file, timing.ts_from or "")
    late = pc.fill_null(pc.less(times, floor), False)
    ahead = pc.fill_null(pc.greater(times, latest), False) if latest is not None else pa.repeat(False, len(times))
    masks = [(pc.is_null(times), f"{timing.ts_from} is empty"), (ahead, f"{timing.ts_from} is {timing.too_far}")]
    if timing.late == "quarantine":
        masks.append((late, f"late: {timing.ts_from} is before {format_instant(floor)}"))
    else:
        stamped.late += pc.sum(late).as_py() or 0
    instants = pc.max_element_wise(times, pa.scalar(floor, pa.int64()), skip_nulls=False)
    for mask, reason in masks:
        if pc.any(mask).as_py():
            stamped.rejected.append(_Rejected(file, version, mask, reason))
            instants = pc.if_else(mask, pa.scalar(None, pa.int64()), instants)
    stamped.files.append(row_by_row(own, file, version, instants))


def _records(part: _Rejected, place: str, table: TableRecord, ts_from: str | None) -> Iterator[RejectedRecord]:
    names = [each.name for each in table.schema.columns if each.name != TS or table.ts_from == TS]
    schema = stored_schema(table.schema, names)
    if table.ts_from == TS and ts_from is not None:  # the other table may spell it differently
        schema = pa.schema([each.with_name(ts_from) if each.name == TS else each for each in schema])
    with connect() as connection:
        for numbers, rows in picked_rows(part.file, schema, part.mask):
            for number, raw in zip(numbers, rows_as_json(rows, range(rows.num_rows), connection), strict=True):
                position = f"version {part.version}, {part.file.location.name}, row {number + 1}"
                yield RejectedRecord(place, position, part.reason, raw)
