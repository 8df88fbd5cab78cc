"""Read the log of a Delta table that another program writes and a home reads in place (``storage.attached``).

Weft reads the table at its head once, when it is attached, and then one commit after the other. A table or a commit
that Weft cannot read exactly is refused with all reasons.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import unquote

from weft.algebra.schema import TIMESTAMP, DataType
from weft.catalog.records import TS
from weft.errors import NotFound, Reasons, Refused, StorageError
from weft.storage import delta_log
from weft.storage.columns import arrow_type
from weft.storage.delta_log import LogEntry, commit_file, last_commit
from weft.storage.table import delta_errors, first_line
from weft.storage.type_table import TYPES
from weft.store import Store

if TYPE_CHECKING:
    import pyarrow as pa

_READABLE: Final = {"deletionVectors", "columnMapping", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of a table that change nothing in what Weft reads, or that Weft refuses where they are used."""
_MAPPING: Final = "delta.columnMapping.mode"
_VERSIONS: Final = "delta.rowTracking.materializedRowCommitVersionColumnName"
_RETENTION: Final = "delta.deletedFileRetentionDuration"
_PARTITIONING: Final = ("STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "DECIMAL")
_MISREAD: Final = re.compile(r"[\[\]{}*?\\\x00-\x1f]")
"""The characters of a path that Spark interprets as a pattern."""
_AGAIN: Final = "Correct the table, or copy its rows into a table of the home: `weft ingest file`."


@dataclass(frozen=True)
class OtherFile:
    """A data file of the other table in the folder ``place``. ``path`` is its path in the folder.

    ``rows`` is None if its log has no row count. ``row_version`` is the version that added the rows of the file, if the
    table tracks rows and the file does not say it for each row. ``statistics`` are those of the log (JSON), or None.
    """

    place: Store
    path: str
    size: int
    rows: int | None
    values: Mapping[str, str | None]
    modified_ms: int
    row_version: int | None = None
    statistics: str | None = None

    @property
    def location(self) -> Store:
        """The place of the file."""
        return self.place / self.path


@dataclass(frozen=True)
class OtherTable:
    """The definition of the other table. ``table_id`` identifies it. ``columns`` are all its columns."""

    place: Store
    table_id: str
    columns: tuple[tuple[str, DataType], ...]
    partitions: tuple[str, ...]
    properties: Mapping[str, str]

    @property
    def row_versions(self) -> str | None:
        """The column of a rewritten file with the version that added each row, or None without row tracking."""
        tracked = self.properties.get("delta.enableRowTracking", "").lower() == "true"
        return self.properties.get(_VERSIONS) if tracked else None

    @property
    def retention_us(self) -> int:
        """How long VACUUM keeps a file that is no longer part of the table, in microseconds."""
        return interval_us(self.properties.get(_RETENTION, "interval 1 week"))


@dataclass(frozen=True)
class Head:
    """The other table at its last version. ``at`` is the time of the last commit (µs UTC)."""

    table: OtherTable
    version: int
    at: int
    files: tuple[OtherFile, ...]


@dataclass(frozen=True)
class Change:
    """A commit of the other table at the time ``at`` (µs UTC).

    ``appended`` adds rows. ``rewritten`` moves the rows of the files in ``removed`` to the files in ``added``.
    ``other`` changes no rows. ``table`` is the new definition, or None if the commit does not change it. ``removed``
    maps the location of each removed file to the time of its removal (µs UTC).
    """

    version: int
    at: int
    kind: Literal["appended", "rewritten", "other"]
    added: tuple[OtherFile, ...] = ()
    removed: Mapping[str, int] = dataclasses.field(default_factory=dict)
    table: OtherTable | None = None


def head_of(place: Store) -> Head:
    """Return the other table. Raise NotFound if there is none, and Refused with all reasons against reading it."""
    if not delta_log.log_exists(place):
        raise NotFound(f"there is no Delta table in {place}", hint="Check the path of the table.")
    try:
        handle = _opened(place)
        metadata, version = handle.metadata(), handle.version()
        columns, protocol = _schema(handle.schema()), handle.protocol()
        vectors = _files_with_vectors(handle)
        files = [_file_of(place, action) for action in _actions(handle)] if not vectors else []
    except delta_errors() as error:
        raise StorageError(f"the Delta table cannot be read: {first_line(error)}", where=str(place)) from error
    reasons = Reasons()
    with reasons.part():
        _refuse_features(place, protocol.reader_features or (), metadata.configuration)
    with reasons.part():
        if vectors:
            raise Refused(
                f"{vectors:,} of its files have deletion vectors, which Weft does not read",
                where=str(place),
                hint="Rewrite these files: REORG TABLE … APPLY (PURGE).",
            )
    table = _table(place, str(metadata.id), columns, metadata.partition_columns, metadata.configuration, reasons)
    reasons.check()
    return Head(table, version, _committed_at(place, delta_log.read_entry(place, version)), tuple(files))


def changes_after(place: Store, version: int) -> Iterator[Change]:
    """Yield the commits after ``version``, the oldest first.

    Raise Refused with the version for a commit that Weft cannot follow, and StorageError for a damaged one.
    """
    while commit_file(place, version + 1).mark() is not None:
        version += 1
        yield _change(place, delta_log.read_entry(place, version))


def joined(before: Change, after: Change) -> Change:
    """Return two commits that add no rows as one. Files that the first adds and the second removes are left out."""
    between = {str(file.location) for file in before.added}
    added = tuple(file for file in before.added if str(file.location) not in after.removed)
    still = {place: at for place, at in after.removed.items() if place not in between}
    return dataclasses.replace(after, kind="rewritten", added=added + after.added, removed={**before.removed, **still})


def removed_after(place: Store, version: int) -> set[str]:
    """Return the locations of the files that the commits after ``version`` remove."""
    found: set[str] = set()
    while commit_file(place, version + 1).mark() is not None:
        version += 1
        actions = delta_log.read_entry(place, version).actions
        found |= {str(place / _path(place, each["remove"]["path"])) for each in actions if "remove" in each}
    return found


def first_removal(place: Store, version: int) -> tuple[int, int] | None:
    """Return when a commit after ``version`` first removed a file (µs UTC), and the version that needs the file.

    VACUUM deletes a removed file after the retention of the table. Return None if no file was removed.
    """
    added: dict[str, int] = {}
    found: list[tuple[int, int]] = []
    while commit_file(place, version + 1).mark() is not None:
        version += 1
        for action in delta_log.read_entry(place, version).actions:
            if "add" in action:
                added[action["add"]["path"]] = version
            elif "remove" in action:
                removed_us = int(action["remove"].get("deletionTimestamp") or 0) * 1_000
                found.append((removed_us, added.get(action["remove"]["path"], version)))
    return min(found, default=None)


def is_missing(place: Store, version: int) -> bool:
    """Return whether the log has commits from ``version`` on, but not this one. This lists the log."""
    return last_commit(place) >= version and commit_file(place, version).mark() is None


def digest_of(place: Store, version: int) -> str | None:
    """Return a digest of a commit, by which a replaced table is recognised. Return None if the commit is gone."""
    try:
        return hashlib.sha256(commit_file(place, version).read()).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageError(f"the Delta table cannot be read: {error}", where=str(place)) from error


def commit_time(entry: LogEntry) -> int | None:
    """Return the time of a commit (µs UTC), or None if it does not record a time."""
    info: Mapping[str, Any] = next((each["commitInfo"] for each in entry.actions if "commitInfo" in each), {})
    millis = info.get("inCommitTimestamp") or info.get("timestamp")
    return None if millis is None else int(millis) * 1_000


def _committed_at(place: Store, entry: LogEntry) -> int:
    """Return the time of a commit (µs UTC): the recorded one, or that of its file."""
    return commit_time(entry) or commit_file(place, entry.version).modified_ms() * 1_000


def interval_us(text: str) -> int:
    """Return the length of an interval of a table property, in microseconds.

    >>> interval_us("interval 1 week") // 1_000_000, interval_us("interval 36 hours") // 1_000_000
    (604800, 129600)
    """
    seconds = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}
    words = text.lower().removeprefix("interval").split()
    total = sum(float(n) * seconds.get(unit.rstrip("s"), 0) for n, unit in zip(words[::2], words[1::2], strict=False))
    return int(total * 1_000_000)


def _change(place: Store, entry: LogEntry) -> Change:
    added = [action["add"] for action in entry.actions if "add" in action]
    removed = [action["remove"] for action in entry.actions if "remove" in action]
    reasons = Reasons()
    if any(each.get("dataChange", True) for each in removed) or any(each.get("deletionVector") for each in added):
        reasons.add(
            Refused(
                f"version {entry.version} deletes or changes rows, but Weft reads a table in place only while its rows "
                "stay",
                where=str(place),
                hint="Follow the table with its changes as a tracked table: `weft source add NAME --kind changes --at "
                "PLACE --key COLS`. Rows up to the version before stay readable.",
            )
        )
    elif removed and any(each.get("dataChange", True) for each in added):
        reasons.add(Refused(f"version {entry.version} both adds and rewrites rows", where=str(place), hint=_AGAIN))
    table = _definition(place, entry, reasons)
    files = []
    for fields in added:
        with reasons.part():
            files.append(_file(place, fields))
    reasons.check()
    at = _committed_at(place, entry)
    gone = {
        str(place / _path(place, each["path"])): int(each.get("deletionTimestamp") or at // 1_000) * 1_000
        for each in removed
    }
    new = any(each.get("dataChange", True) for each in added)
    kind: Literal["appended", "rewritten", "other"] = "appended" if new else "rewritten" if removed else "other"
    return Change(entry.version, at, kind, tuple(files) if kind != "other" else (), gone, table)


def _definition(place: Store, entry: LogEntry, reasons: Reasons) -> OtherTable | None:
    metadata = next((each["metaData"] for each in entry.actions if "metaData" in each), None)
    protocol: Mapping[str, Any] = next((each["protocol"] for each in entry.actions if "protocol" in each), {})
    with reasons.part():
        _refuse_features(place, protocol.get("readerFeatures") or (), {} if metadata is None else _properties(metadata))
    if metadata is None:
        return None
    from deltalake import Schema

    columns = _schema(Schema.from_json(metadata["schemaString"]))
    partitions = metadata.get("partitionColumns") or ()
    return _table(place, metadata["id"], columns, partitions, _properties(metadata), reasons)


def _properties(metadata: Mapping[str, Any]) -> Mapping[str, str]:
    return metadata.get("configuration") or {}


def _refuse_features(place: Store, features: Sequence[str], properties: Mapping[str, str]) -> None:
    others = sorted(set(map(str, features)) - _READABLE)
    if others:
        raise Refused(f"it uses {', '.join(others)}, which Weft does not read", where=str(place), hint=_AGAIN)
    if properties.get(_MAPPING, "none").lower() != "none":
        raise Refused(
            f"it maps its columns to other names (column mapping by {properties[_MAPPING]}), which Weft does not read",
            where=str(place),
            hint=_AGAIN,
        )


def _table(
    place: Store,
    table_id: str,
    columns: pa.Schema,
    partitions: Sequence[str],
    properties: Mapping[str, str],
    reasons: Reasons,
) -> OtherTable:
    typed = []
    for field in columns:
        kind = _weft_type(field.type)
        if kind is None:
            message = f"Weft does not read the type {field.type} of its column {field.name}"
            reasons.add(Refused(message, where=str(place), hint=_AGAIN))
        elif field.name in partitions and kind.name not in _PARTITIONING:
            message = f"it is partitioned by {field.name}, a column of type {kind.declared}, which Weft does not read"
            reasons.add(Refused(message, where=str(place), hint=_AGAIN))
        else:
            typed.append((field.name, kind))
    return OtherTable(place, table_id, tuple(typed), tuple(partitions), dict(properties))


def _weft_type(kind: pa.DataType) -> DataType | None:
    import pyarrow as pa

    if pa.types.is_decimal(kind):
        return DataType("DECIMAL", kind.precision, kind.scale)
    return next((DataType(name) for name, row in TYPES.items() if row.arrow == kind), None)


def column_of_instants(table: OtherTable, ts_from: str | None) -> str | None:
    """Return the name of the column ``ts_from`` as the other table spells it, or None without ``ts_from``.

    Raise Refused if the column cannot give the instants of rows, or if the table has its own ``ts``.
    """
    names = {name.lower(): (name, kind) for name, kind in table.columns}
    if ts_from is None:
        if TS in names:
            raise Refused(
                "its column ts has the name of the column with the instant of a row",
                where=str(table.place),
                hint="Take the instants from it: --ts-from ts. It must be a TIMESTAMP.",
            )
        return None
    name, kind = names.get(ts_from.lower(), (None, None))
    if name is None:
        raise Refused(
            f"it has no column {ts_from}",
            where=str(table.place),
            hint=f"Its columns are: {', '.join(n for n, _ in table.columns)}.",
        )
    if kind != TIMESTAMP or name in table.partitions or (TS in names and name.lower() != TS):
        raise Refused(
            f"the column {name} cannot date its rows: only a TIMESTAMP that is no partition column can, and only ts if "
            "it has that column",
            where=str(table.place),
            hint="Name another column with --ts-from, or omit the option.",
        )
    return name


def _path(place: Store, path: str) -> str:
    """Return the path of a file, which its log has in percent codes."""
    decoded = unquote(path)
    if "://" in decoded or decoded.startswith("/"):
        raise Refused(
            f"its file {decoded} lies outside its folder, as in a shallow clone, which Weft does not read",
            where=str(place),
            hint=_AGAIN,
        )
    if _MISREAD.search(decoded):
        raise Refused(f"its file {decoded} has a name that Spark would misread", where=str(place), hint=_AGAIN)
    return decoded


def _file(place: Store, fields: Mapping[str, Any]) -> OtherFile:
    rows = json.loads(fields.get("stats") or "{}").get("numRecords")
    version = fields.get("defaultRowCommitVersion")
    return OtherFile(
        place,
        _path(place, fields["path"]),
        fields["size"],
        rows,
        dict(fields.get("partitionValues") or {}),
        int(fields.get("modificationTime") or 0),
        None if version is None else int(version),
        fields.get("stats"),
    )


def _file_of(place: Store, action: Mapping[str, Any]) -> OtherFile:
    values = {name.partition(".")[2]: value for name, value in action.items() if name.startswith("partition.")}
    return OtherFile(
        place,
        _path(place, action["path"]),
        action["size_bytes"],
        action.get("num_records"),
        values,
        int(action.get("modification_time") or 0),
    )


def _actions(handle: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the files of the table. The partition values are texts, as in the log."""
    import pyarrow as pa

    actions = pa.table(handle.get_add_actions(flatten=True))
    for number, field in enumerate(actions.schema):
        if field.name.startswith("partition."):
            actions = actions.set_column(number, field.name, actions.column(number).cast(pa.string()))
    wanted = [n for n in actions.column_names if n.startswith("partition.") or "." not in n]
    yield from actions.select(wanted).to_pylist()


def _files_with_vectors(handle: Any) -> int:
    import pyarrow as pa

    return int(pa.table(handle.deletion_vectors()).num_rows)


def _schema(schema: Any) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(schema.to_arrow())


def _opened(place: Store) -> Any:
    from deltalake import DeltaTable

    return DeltaTable(place.uri, storage_options=place.options)


def arrow_columns(table: OtherTable) -> pa.Schema:
    """Return the Arrow schema of all columns of the other table."""
    import pyarrow as pa

    return pa.schema([(name, arrow_type(kind)) for name, kind in table.columns])
