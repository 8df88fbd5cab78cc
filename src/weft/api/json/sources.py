"""Sources and their polls as values for JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.api.json.values import Fields, columns_json, iso
from weft.instants import format_interval

if TYPE_CHECKING:
    from weft.catalog.records import TableRecord
    from weft.catalog.sources import SourceRecord
    from weft.errors import WeftError
    from weft.extraction.sources.correcting import Corrected
    from weft.extraction.sources.history import PastLoaded
    from weft.extraction.sources.source_lease import Polled

PERIOD = ("valid_from", "valid_to")
"""The columns that Weft adds to a tracked table."""


def source_json(source: SourceRecord) -> Fields:
    """Return a source."""
    return {
        "name": source.name,
        "kind": source.kind,
        "at": source.location,
        "every": format_interval(source.every_us),
        "ts": source.stamps,
        "rows": source.open_rows,
        "last_poll": iso(source.polled_at),
        "last_change": iso(source.changed_at),
        "trouble": source.trouble,
    }


def shown_source_json(source: SourceRecord, record: TableRecord) -> Fields:
    """Return a source with the key and the columns of its table."""
    columns = columns_json((each.name, each.type) for each in record.schema.columns if each.name not in PERIOD)
    return {**source_json(source), "key": record.keys, "columns": columns, "changes": record.rows}


def attached_json(source: SourceRecord, record: TableRecord) -> Fields:
    """Return a Delta table that was attached as a table."""
    return {"name": record.name, "at": source.location, "version": source.seen["version"], "rows": record.rows}


def polled_json(name: str, outcome: Polled | WeftError) -> Fields:
    """Return the outcome of a poll of the source ``name``."""
    if isinstance(outcome, Exception):
        return {"name": name, "trouble": outcome.message, "hint": outcome.hint}
    return {
        "name": name,
        "began": outcome.began,
        "ended": outcome.ended,
        "rows": outcome.open_rows,
        "at": iso(outcome.at),
        "late": outcome.late,
        "quarantined": outcome.quarantined,
        "trouble": None,
    }


def past_json(load: PastLoaded) -> Fields:
    """Return the summary of a loaded past."""
    return {
        "name": load.name,
        "began": load.began,
        "ended": load.ended,
        "already_loaded": load.already,
        "first_ts": iso(load.first),
        "last_ts": iso(load.last),
    }


def corrected_json(corrected: Corrected) -> Fields:
    """Return the effects of a correction."""
    return {
        "name": corrected.name,
        "changed": corrected.changed,
        "gone": corrected.gone,
        "at": iso(corrected.at),
    }
