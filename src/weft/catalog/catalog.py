"""The catalog as one object: everything a home knows about itself, without Spark."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from weft.catalog.definitions import Definitions
from weft.catalog.home import Homes, open_database
from weft.catalog.loads import Loads
from weft.catalog.queries import Queries
from weft.catalog.records import Clock
from weft.catalog.subscriptions import Subscriptions
from weft.catalog.ticks import Ticks
from weft.catalog.writing import Writing


class Catalog(Homes, Definitions, Loads, Writing, Queries, Ticks, Subscriptions):
    """A home's catalog: tables, loads, the lease, plans and queries, ticks, subscriptions; see each part's module.

    A method that takes a ``token`` first writes on behalf of a lease and raises LeaseLost once that is another's.
    """

    def __enter__(self) -> Catalog:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_catalog(home: Path, *, create: bool = False, clock: Clock = "wall", at: int) -> Catalog:
    """Opens the catalog of the folder ``home``; ``create`` makes the home where there is none.

    ``clock`` counts only then; ``at`` is the wall's time in microseconds UTC.  Raises CatalogError for what is not a
    home, is damaged, or was written by a newer Weft.
    """
    folder = Path(home)
    return Catalog(folder, open_database(folder, create=create, clock=clock, at=at))
