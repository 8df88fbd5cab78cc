"""Forgetting a source; its table stays."""

from __future__ import annotations

from weft.catalog.sources import SourceRecord
from weft.execution.home import OpenHome
from weft.extraction.sources.poll_feed import same_feed
from weft.extraction.sources.subscribing import SLOT, unsubscribe


def remove_source(home: OpenHome, name: str) -> tuple[SourceRecord, str | None]:
    """Forgets the source, once a server that keeps changes for it was told not to; what it was not told, if anything.

    Raises NotFound, LeaseBusy.
    """
    with home.writing(f"remove the source {name}") as writer:
        found = writer.sources.named(name)
        left = None
        if SLOT in found.options:
            all_others = [each for each in writer.sources.all() if each.table_id != found.table_id]
            left = unsubscribe(found, [each for each in all_others if same_feed(each, found)])
        writer.sources.remove(found.table_id)
        return found, left
