"""Delete the stored relations of synopses that no live query needs."""

from __future__ import annotations

from weft.catalog import Writer, layout
from weft.execution.synopsis.standing import STATES_NAME
from weft.planning.synopsis_plan import SynopsisPlan, relations_of
from weft.storage.delta_log import forget_log


def drop_unneeded(writer: Writer) -> None:
    """Delete the stored relations that no live query needs, and finish deletions that were interrupted.

    No tick may be planned. The catalog forgets the relations first, so that remaining files do not count as damage.
    """
    folder = writer.data / layout.SYNOPSES
    there = set(folder.names())
    bodies = [plan.body for _, plan in writer.queries.with_plans_like(SynopsisPlan.MARK)]
    needed = {name for body in bodies for name in relations_of(body)} | ({STATES_NAME} if bodies else set())
    going = sorted(there - needed)
    if going:
        writer.tables.forget_versions([f"{layout.SYNOPSES}/{name}" for name in going])
    for name in going:
        writer.check()
        (folder / name).clear()
        forget_log(folder / name)
