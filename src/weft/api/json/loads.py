"""Loads, their summaries and the quarantine as values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from weft.api.json.values import Fields, iso

if TYPE_CHECKING:
    from weft.catalog.loads import LoadSummary
    from weft.catalog.records import QuarantineRecord
    from weft.execution.undoing import Undone
    from weft.extraction.retrying import Retried
    from weft.extraction.storing import Summary


def load_json(record: LoadSummary) -> Fields:
    """Return a load of the history of loads."""
    load = record.load
    return {
        "id": load.load_id,
        "table": record.table,
        "kind": load.kind,
        "source": load.source,
        "started_at": iso(load.started_at),
        "finished_at": iso(load.finished_at),
        "rows": record.rows,
        "known": load.known,
        "quarantined": load.quarantined,
        "late": load.late,
        "first_ts": iso(record.first_ts),
        "last_ts": iso(record.last_ts),
        "state": record.state,
    }


def undone_json(undone: Undone) -> Fields:
    """Return a load that was undone, and the ids of the loads to repeat."""
    again = [each.load.load_id for each in undone.again]
    return {**load_json(undone.load), "state": "undone", "load_again": again}


def summary_json(load: Summary) -> Fields:
    """Return the summary of a load that has just ended."""
    return {
        "table": load.table,
        "stored": load.stored,
        "known": load.known,
        "quarantined": load.quarantined,
        "late": load.late,
        "first_ts": iso(load.first_ts),
        "last_ts": iso(load.last_ts),
        "differ": load.differ,
        "already_loaded": load.already_loaded,
        "notes": load.notes,
    }


def log_json(summaries: Iterable[Summary]) -> Fields:
    """Return the summary of a log of temporal logic, which fills several tables."""
    listed = list(summaries)
    counts = [{"table": each.table, "stored": each.stored, "late": each.late} for each in listed]
    return {"tables": counts, "already_loaded": any(each.already_loaded for each in listed)}


def quarantined_json(record: QuarantineRecord, tables: Mapping[int, str]) -> Fields:
    """Return a record in quarantine.  ``tables`` has the names of the tables by their ids."""
    return {
        "id": record.quarantine_id,
        "table": tables.get(record.table_id),
        "source": record.source,
        "position": record.position,
        "reason": record.reason,
        "bytes": record.size,
        "at": iso(record.at),
        "file": f"quarantine/{record.sha256}",
    }


def retried_json(retried: Retried) -> Fields:
    """Return the numbers of records that were read again, and of their rows."""
    return {
        "read": retried.read,
        "kept": retried.kept,
        "stored": retried.stored,
        "known": retried.known,
        "late": retried.late,
    }
