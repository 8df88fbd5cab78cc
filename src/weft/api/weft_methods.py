"""What every method of a home begins with: that it is open."""

from __future__ import annotations

from weft.catalog.database import home_closed
from weft.execution.home import OpenHome


class WeftMethods:
    """An object over an open home; once it is closed, whatever needs the home raises HomeClosed."""

    def __init__(self, opened: OpenHome) -> None:
        self._home = opened
        self._closed = False

    @property
    def opened(self) -> OpenHome:
        """What operations work with; raises HomeClosed."""
        if self._closed:
            raise home_closed(self._home.folder)
        return self._home

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def close(self) -> None:
        """Lets go of the catalog and of the home's Spark session; the JVM, which other homes may share, stays.

        Whatever is asked of the home afterwards raises HomeClosed.  Closing twice is fine.
        """
        if not self._closed:
            self._closed = True
            self._home.close()
