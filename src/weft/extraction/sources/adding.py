"""Add and remove sources.

To add a source, Weft inspects its columns and creates the tracked table; a source of mail gets a mail table (``mail``).
The first poll records the first rows. If a source is removed, its table stays.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, get_args

from weft.algebra.schema import DataType
from weft.catalog import Writer
from weft.catalog.records import ATTACHED, TableRecord
from weft.catalog.sources import SourceKind, SourceRecord, Stamps
from weft.configuration.postgres_uri import SCHEMES
from weft.errors import NotFound, Refused, WeftError
from weft.execution.current_rows_cache import current_rows
from weft.execution.home import OpenHome
from weft.extraction.ingest import mail_table
from weft.extraction.mail.message import MAIL_COLUMNS, MAIL_KEY
from weft.extraction.sources.delta import columns_of_delta
from weft.extraction.sources.feed import columns_of_feed
from weft.extraction.sources.mail import MAIL_KINDS, add_mail_source, mail_source_place
from weft.extraction.sources.poll_feed import same_feed
from weft.extraction.sources.postgres import check_uri, columns_of_postgres
from weft.extraction.sources.snapshot import FORMATS, Chosen, Renamed, columns_of_file, file_path
from weft.extraction.sources.source_lease import source_schema
from weft.extraction.sources.sqlite import columns_of_sqlite
from weft.extraction.sources.subscribing import SLOT, columns_of_server, give_up, slot_options, subscribe, unsubscribe
from weft.extraction.sources.topic import SCHEME, columns_of_topic
from weft.storage.change_data import is_delta
from weft.store import LocalStore

SHORTEST_US: Final = 1_000_000
_DECLARED: Final = ("parquet", "postgres")


@dataclass(frozen=True)
class NewSource:
    """A source to add for the table ``name``.  A source of mail has no ``keys``, and none of the options below.

    - ``chosen`` are the columns to read, each with its type. If ``chosen`` is None, all columns are read. If a type is
      None, it is inferred.
    - ``rename`` maps column names in a file to names in the table.
    - ``table_of`` selects a table in a source with several tables.
    - ``slot`` and ``publication`` name an existing replication slot and publication on a PostgreSQL server. If ``slot``
      or ``publication`` is None, Weft creates one.
    """

    name: str
    kind: SourceKind
    location: str
    keys: Sequence[str]
    every_us: int
    stamps: Stamps | None = None
    chosen: Chosen = None
    rename: Renamed = ()
    table_of: str | None = None
    slot: str | None = None
    publication: str | None = None


@dataclass(frozen=True)
class CheckedSource:
    """What Weft found at the location of a new source: its place, its columns and its read options.

    ``left`` is the table that a removed source left, or None.
    """

    table_of: str | None
    place: str
    columns: Sequence[tuple[str, DataType]]
    stamps: Stamps
    options: Mapping[str, Any]
    left: TableRecord | None


def add_source(home: OpenHome, source: NewSource) -> SourceRecord:
    """Add a source. Create its table unless a removed source left one with this name. Raise as ``check_source``."""
    if source.kind in MAIL_KINDS:
        _check_mail(source)
        kind, every, stamps = source.kind, source.every_us, source.stamps
        return add_mail_source(home, source.name, kind, source.location, every_us=every, stamps=stamps)
    found = check_source(home, source)
    table, place, keys, options = found.left, found.place, source.keys, found.options
    with home.writing(f"add the source {source.name}") as writer:
        there = 0 if table is None else current_rows(writer, table).num_rows
        with _subscribed(writer, place, found.table_of, keys, options, source.name):
            if table is None:
                table = writer.tables.create(source.name, found.columns, keys, tracked=True)
            kind, every = source.kind, source.every_us
            writer.sources.add(table.table_id, kind, place, options, found.stamps, every, home.clock(), there)
    return home.catalog.sources.named(source.name)


def check_source(home: OpenHome, source: NewSource, *, replaces: bool = False) -> CheckedSource:
    """Read the columns at the location of a source, and check the source. Change nothing.

    With ``replaces``, the source replaces the present source of its table.

    Raises NotFound if the source does not exist, ExtractionError if it cannot be read, Refused if it is invalid, or
    Conflict if the name is taken.
    """
    kind, location, keys = source.kind, source.location, source.keys
    if kind in MAIL_KINDS:
        _check_mail(source)
        left, place = mail_table(home.catalog, source.name), mail_source_place(kind, location)
        return CheckedSource(None, place, MAIL_COLUMNS, source.stamps or "clock", {}, left)
    _check(kind, keys, source.every_us, source.stamps)
    server = kind == "changes" and location.startswith(SCHEMES)
    _check_slot(server, source.slot, source.publication)
    _check_rename(kind, source.rename)
    table_of, place, columns = _inspect(kind, location, source.table_of, source.chosen, source.rename)
    _check_keys(keys, [column for column, _ in columns], place)
    options = _options(table_of, source.chosen, source.rename)
    if kind == "changes" and not server:
        options |= _form(place)
    if server:
        options |= slot_options(home.catalog.home().home_id, place, source.slot, source.publication)
    left = _left_alone(home, source.name, replaces)
    if left is not None:
        _refuse_other(left, columns, keys, typed=server or kind in _DECLARED or "delta" in options)
    stamps: Stamps = source.stamps or ("source" if kind == "changes" else "clock")
    return CheckedSource(table_of, place, columns, stamps, options, left)


def _options(table_of: str | None, chosen: Chosen, rename: Renamed) -> dict[str, Any]:
    options: dict[str, Any] = {} if table_of is None else {"table": table_of}
    if chosen is not None:
        options["columns"] = [[each, None if type_ is None else type_.declared] for each, type_ in chosen]
    if rename:
        options["rename"] = [list(pair) for pair in rename]
    return options


@contextmanager
def _subscribed(
    writer: Writer, place: str, table_of: str | None, keys: Sequence[str], options: Mapping[str, Any], name: str
) -> Iterator[None]:
    """Create the publication and the slot for a PostgreSQL source.

    If the ``with`` block fails, drop the publication and the slot unless another source uses them.
    """
    if SLOT not in options or table_of is None:
        yield
        return
    try:
        subscribe(place, table_of, keys, options, name)
        yield
    except WeftError:
        if not [each for each in writer.sources.all() if each.options.get(SLOT) == options[SLOT]]:
            give_up(place, options)
        raise


def _inspect(
    kind: SourceKind, location: str, table_of: str | None, chosen: Chosen, rename: Renamed
) -> tuple[str | None, str, Sequence[tuple[str, DataType]]]:
    """Return the table name (None in a source with only one table), the source's location, and its columns."""
    if kind == "postgres":
        return table_of, check_uri(location), columns_of_postgres(location, table_of, chosen)
    if kind == "changes" and location.startswith(SCHEMES):
        return table_of, check_uri(location), columns_of_server(location, table_of, chosen)
    if kind == "changes" and location.startswith(SCHEME):
        return table_of, location, columns_of_topic(location, table_of, chosen)
    path = file_path(location)
    if kind == "sqlite":
        name, columns = columns_of_sqlite(path, table_of, chosen)
        return name, str(path), columns
    if kind == "changes" and is_delta(LocalStore(str(path))):
        return None, str(path), columns_of_delta(LocalStore(str(path)), chosen)
    if kind == "changes":
        return table_of, str(path), columns_of_feed(path, table_of, chosen)
    return None, str(path), columns_of_file(path, kind, chosen, rename)


def _form(place: str) -> dict[str, Any]:
    if place.startswith(SCHEME):
        return {"topic": True}
    return {"delta": True} if is_delta(LocalStore(place)) else {}


def _check(kind: SourceKind, keys: Sequence[str], every_us: int, stamps: Stamps | None) -> None:
    kinds = [each for each in get_args(SourceKind) if each != ATTACHED]  # `weft table attach` adds those
    if kind not in kinds:
        raise Refused(f"{kind!r} is not a kind of source", hint=f"Use one of {', '.join(kinds)}.")
    if not keys:
        raise Refused("a source needs a key: the columns that identify a row", hint="Name the key columns with --key.")
    if stamps is not None and stamps not in get_args(Stamps):
        raise Refused(f"{stamps!r} is not a valid value of --ts", hint=f"Use one of {', '.join(get_args(Stamps))}.")
    if stamps == "file" and kind == "postgres":
        raise Refused(
            "--ts file requires a source in a file, but this source is a PostgreSQL database", hint="Use --ts clock."
        )
    if stamps == "source" and kind != "changes":
        raise Refused(
            f"a source of kind {kind} does not record when each row changed", hint="Use --ts file or --ts clock."
        )
    _check_interval(every_us)


def _check_interval(every_us: int) -> None:
    if every_us < SHORTEST_US:
        raise Refused("a source cannot be polled more often than once a second", hint="Use an interval such as 10m.")


def _check_mail(source: NewSource) -> None:
    kind, every_us = source.kind, source.every_us
    others = [*source.keys, *source.rename, *(source.chosen or ()), source.table_of, source.slot, source.publication]
    if any(each is not None for each in others):
        raise Refused(
            f"the columns and the key of a source of kind {kind} are those of a mail table: {', '.join(MAIL_KEY)}",
            hint="Omit --key, --columns, --rename, --table, --slot and --publication.",
        )
    _check_interval(every_us)


def _check_slot(server: bool, slot: str | None, publication: str | None) -> None:
    if not server and (slot or publication):
        raise Refused(
            "only a PostgreSQL change feed has a slot and a publication", hint="Omit --slot and --publication."
        )


def _check_rename(kind: SourceKind, rename: Renamed) -> None:
    if rename and kind not in FORMATS:
        raise Refused(
            f"--rename is only for files ({', '.join(FORMATS)}), but the source is of kind {kind}",
            hint="Rename the columns in the source, for example with a view, or choose columns with --columns.",
        )


def _check_keys(keys: Sequence[str], columns: Sequence[str], place: str) -> None:
    own, listed = {column.lower() for column in columns}, ", ".join(columns)
    wrong = [key for key in keys if key.lower() not in own]
    if wrong:
        raise Refused(
            f"the source has no column {wrong[0]!r} for the key", where=place, hint=f"The columns are: {listed}."
        )
    if len({key.lower() for key in keys}) < len(keys):
        raise Refused(f"the key names a column twice: {', '.join(keys)}", where=place, hint="Name each column once.")


def _left_alone(home: OpenHome, name: str, replaces: bool) -> TableRecord | None:
    try:
        table = home.catalog.tables.named(name)
    except NotFound:
        return None
    sources = () if replaces else {source.table_id for source in home.catalog.sources.all()}
    return table if table.tracked and table.keys and table.table_id not in sources else None


def _refuse_other(
    table: TableRecord, columns: Sequence[tuple[str, DataType]], keys: Sequence[str], *, typed: bool
) -> None:
    """Raise Refused if the columns or the key of the new source differ from those of the table.

    If ``typed`` is True, the source defines the column types, which must equal the types in the table.
    """
    types = {column.name.lower(): column.type for column in source_schema(table).columns}
    has = set(types)
    wanted = {name.lower() for name, _ in columns}
    if has != wanted or [key.lower() for key in keys] != [key.lower() for key in table.keys]:
        raise Refused(
            f"{table.name} has a history with other columns or another key",
            hint=(
                f"Add the source with the columns {', '.join(sorted(has))} and the key {', '.join(table.keys)}, "
                "or choose another name."
            ),
        )
    for name, type_ in columns:
        own = types[name.lower()]
        if typed and type_ != own:
            all_ = ", ".join(f"{each} {types[each.lower()].declared}" for each, _ in columns)
            raise Refused(
                f"{name} is {type_.declared} at the source, but {own.declared} in the history of {table.name}",
                hint=f'Choose another name, or keep the earlier types: --columns "{all_}".',
            )


def remove_source(home: OpenHome, name: str) -> tuple[SourceRecord, str | None]:
    """Remove the source. On a PostgreSQL server, also drop the slot and the publication unless another source uses
    them.

    Return the source, and a message if a drop failed. Raises NotFound or LeaseBusy.
    """
    with home.writing(f"remove the source {name}") as writer:
        source = writer.sources.named(name)
        if source.kind == ATTACHED:
            raise Refused(
                f"{source.name} is an attached table, which has no rows without its source",
                hint=f"Detach the table: `weft table drop {source.name}`.",
            )
        problem = None
        if SLOT in source.options:
            all_others = [each for each in writer.sources.all() if each.table_id != source.table_id]
            problem = unsubscribe(source, [each for each in all_others if same_feed(each, source)])
        writer.sources.remove(source.table_id)
        return source, problem
