"""``Weft``: one open home."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from weft.api.loading import Loading
from weft.api.standing import Standing
from weft.api.ticking import Ticking
from weft.catalog import layout, open_catalog
from weft.catalog.records import Clock
from weft.errors import Conflict, NotFound
from weft.schedule.clock import now_us


class Weft(Loading, Standing, Ticking):
    """A home and everything that can be done with it; close it, or use it as a context manager.

    Spark starts with the first operation that computes (a load, ``try_query``, a tick with something to do); the JVM is
    this process's one, the session (temporary views, settings) this home's.
    """

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] = "weft-home",
        *,
        clock: Clock | None = None,
        create: bool = True,
        wall: Callable[[], int] = now_us,
    ) -> Weft:
        """Opens the home in the folder ``home``, made where there is none unless ``create`` is false.

        ``clock`` is that of a new home (None: wall); of one that exists it must be the same, else Conflict.  ``wall``
        tells the time in microseconds UTC.  Raises NotFound where there is none and none is to be made, CatalogError
        for one that is damaged or of a newer Weft.
        """
        # Spark's JVM stays in the folder in which it was started.
        folder = Path(home).absolute()
        existed = layout.catalog_file(folder).exists()
        if not (existed or create or layout.tables_folder(folder).exists()):
            raise NotFound(
                f"{folder} is not a Weft home", hint="Make one with `weft init`, or name another with --home."
            )
        catalog = open_catalog(folder, create=create, clock=clock or "wall", at=wall())
        found = catalog.home().clock
        if existed and clock is not None and found != clock:
            catalog.close()
            raise Conflict(
                f"{folder} is a home already, and its clock is {found}",
                hint="A home's clock is fixed; choose another folder.",
            )
        return cls(folder, catalog, wall)

    def close(self) -> None:
        """Lets go of the catalog and of the home's Spark session; the JVM, which other homes may share, stays."""
        from weft.runtime.session import release_session

        release_session(self.home)
        self.catalog.close()

    def __enter__(self) -> Weft:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
