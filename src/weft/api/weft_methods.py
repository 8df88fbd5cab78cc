"""Provide the base class of the groups of methods that make up ``Weft``."""

from __future__ import annotations

from weft.catalog.database import home_closed
from weft.execution.home import OpenHome


class WeftMethods:
    """An object with an open home; any use of the home after ``close`` raises HomeClosed."""

    def __init__(self, opened: OpenHome) -> None:
        self._home = opened
        self._closed = False

    @property
    def opened(self) -> OpenHome:
        """The open home; access raises HomeClosed if the home is closed."""
        if self._closed:
            raise home_closed(self._home.folder)
        return self._home

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self._closed

    def close(self) -> None:
        """Close the catalog and the home's Spark session; the JVM continues, because other homes may share the JVM.

        A second call has no effect.
        """
        if not self._closed:
            self._closed = True
            self._home.close()
