"""Remove a source; its table stays."""

from __future__ import annotations

from weft.catalog.sources import SourceRecord
from weft.execution.home import OpenHome
from weft.extraction.sources.poll_feed import same_feed
from weft.extraction.sources.subscribing import SLOT, unsubscribe


def remove_source(home: OpenHome, name: str) -> tuple[SourceRecord, str | None]:
    """Remove the source and, on a PostgreSQL server, its slot and publication if no other source uses them.

    Return the source and a message about what could not be dropped, if anything. Raises NotFound and LeaseBusy.
    """
    with home.writing(f"remove the source {name}") as writer:
        source = writer.sources.named(name)
        problem = None
        if SLOT in source.options:
            all_others = [each for each in writer.sources.all() if each.table_id != source.table_id]
            problem = unsubscribe(source, [each for each in all_others if same_feed(each, source)])
        writer.sources.remove(source.table_id)
        return source, problem
