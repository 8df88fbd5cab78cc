"""The base class of the parts of ``Weft``."""

from __future__ import annotations

from weft.catalog.database import home_closed
from weft.execution.home import OpenHome


class WeftMethods:
    """An object with an open home.  After ``close``, any use of the home raises HomeClosed."""

    def __init__(self, opened: OpenHome) -> None:
        self._home = opened
        self._closed = False

    @property
    def opened(self) -> OpenHome:
        """The open home.  Raises HomeClosed after ``close``."""
        if self._closed:
            raise home_closed(self._home.folder)
        return self._home

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Close the catalog and the Spark session of the home.  The JVM continues.  A second call has no effect."""
        if not self._closed:
            self._closed = True
            self._home.close()
