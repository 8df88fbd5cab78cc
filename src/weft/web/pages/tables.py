"""The list of tables."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from weft.web.visits import Visit, page


def listed(visit: Visit) -> Response:
    """Show the tables with their sizes."""
    text = visit.asked("q").casefold()
    views = {view.table_id for view in visit.weft.views()}
    tables = [table for table in visit.weft.tables() if text in table.name.casefold()]
    return visit.show("tables.html", tables=tables, views=views, text=visit.asked("q"))


ROUTES: Final = (Route("/tables", page(listed)),)
