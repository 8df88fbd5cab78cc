"""Remove a source; its table stays."""

from __future__ import annotations

from weft.catalog.sources import SourceRecord
from weft.execution.home import Home
from weft.extraction.sources.poll_feed import same_feed
from weft.extraction.sources.subscribing import SLOT, unsubscribe


def remove_source(home: Home, name: str) -> tuple[SourceRecord, str | None]:
    """Remove the source and, on a PostgreSQL server, its slot and publication if no other source uses them.

    Return the source and a message about what could not be dropped, if anything. Raises NotFound and LeaseBusy.
    """
    with home.writing(f"remove the source {name}") as writer:
        found = writer.sources.named(name)
        left = None
        if SLOT in found.options:
            all_others = [each for each in writer.sources.all() if each.table_id != found.table_id]
            left = unsubscribe(found, [each for each in all_others if same_feed(each, found)])
        writer.sources.remove(found.table_id)
        return found, left
