"""Say where the parts of a home are.

The catalog is in a SQLite file of the home, or in a schema of a PostgreSQL database.  The data is in the home's folder,
or on S3.
"""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from weft.catalog import layout
from weft.configuration import FILE, configuration
from weft.configuration.postgres_uri import schema_of, why_no_catalog, without_password
from weft.configuration.toml_file import add_key
from weft.errors import Conflict, Refused
from weft.store import S3Store, Store


def require_url(url: str) -> None:
    """Raise Refused if the catalog of a home cannot be at the URL, for example because it contains a password."""
    wrong = why_no_catalog(url)
    if wrong is not None:
        raise Refused(f"the catalog cannot be {without_password(repr(url))}: {wrong}")


@dataclass(frozen=True)
class CatalogAddress:
    """The place of a home's catalog.  ``url`` is None for a SQLite file.  The text of an address has no password.

    ``data`` is the location of the home's data.
    """

    home: Path
    url: str | None
    data: Store

    @classmethod
    def of(cls, home: Path, url: str | None = None, store: str | None = None) -> CatalogAddress:
        """Return the address that the settings of the home name.

        ``url`` and ``store`` are the places of the catalog and the data of a new home.  Raise Refused for an invalid
        place.  Raise Conflict if the home has another catalog, or its data elsewhere.
        """
        if url is not None:
            require_url(url)
        named = configuration(home).catalog_url
        if url is not None and named not in (None, url):
            raise Conflict(
                f"the settings of the home name the catalog {named}, and the command names {url}",
                where=str(home / FILE),
                hint="Omit the catalog in the command, or choose another folder.",
            )
        address = cls(home, url or named, layout.data(home, store))
        if store is not None:
            address._require_store()
        if address.url is not None and layout.catalog_file(home).exists():
            raise Conflict(
                f"{home} already has a catalog, the file catalog.sqlite, so {address} cannot be its catalog",
                hint="Choose another folder for a home with this catalog.",
            )
        return address

    def __str__(self) -> str:
        return str(layout.catalog_file(self.home)) if self.url is None else self.url

    @property
    def schema(self) -> str | None:
        """The schema of a PostgreSQL database, or None."""
        return None if self.url is None else schema_of(self.url)

    def _require_store(self) -> None:
        """Raise Refused if the data is not on S3.  Raise Conflict if the home exists, with its data elsewhere."""
        if not isinstance(self.data, S3Store):
            raise Refused(
                f"{self.data} is not an object store", hint="Name a place such as s3://bucket/home, or omit the store."
            )
        now = layout.data(self.home)
        if (now != self.data and isinstance(now, S3Store)) or (now != self.data and self.is_noted):
            raise Conflict(
                f"the data of the home is in {now}, and the command names {self.data}",
                where=str(self.home),
                hint="Omit the store in the command, or choose another folder.",
            )

    @property
    def on_s3(self) -> bool:
        """Whether the data is on S3."""
        return isinstance(self.data, S3Store)

    @property
    def one_machine(self) -> bool:
        """Whether several machines could use the data, but not the catalog."""
        return self.on_s3 and self.url is None

    @property
    def place(self) -> str | None:
        """The place of the data, by which the catalog knows its home.  None if the catalog is beside the data."""
        if isinstance(self.data, S3Store):
            return self.data.uri
        return None if self.url is None else os.path.realpath(self.home)

    @property
    def is_noted(self) -> bool:
        """Whether the folder says that it is a home: by a SQLite file, or by a URL in its settings."""
        if self.url is None:
            return layout.catalog_file(self.home).exists()
        return configuration(self.home).catalog_url == self.url

    def mark(self, home_id: str) -> None:
        """Mark data on S3 as that of the home with this ID, and with this catalog.

        Raise Conflict if the place has the mark of a home with another catalog, or if such a home is being made there.
        An object of its own announces the mark.  Of two homes, the one that lists the objects later sees the other.
        Raise StorageError.
        """
        if not self.on_s3:
            return
        text = f"{home_id}\n{self}\n".encode()
        announcement = self.data / f"{layout.OF_HOME}.{uuid.uuid4()}"
        announcement.put(text)
        try:
            marks = [name for name in self.data.names() if _is_mark(name)]
            for name in marks:
                if not self._is_own(name):
                    raise Conflict(
                        f"{self.data} has the mark of another home, or another home is being made there",
                        where=str(self.data / name),
                        hint="Choose another place. If the creation of that home was interrupted, remove this object.",
                    )
            self.data.remove_all([name for name in marks if name != announcement.name])
            (self.data / layout.OF_HOME).put(text)
        finally:
            announcement.remove()

    def _is_own(self, mark: str) -> bool:
        """Return whether a mark on S3 names this catalog.  A mark that vanishes meanwhile may be another home's."""
        try:
            return str(self) in (self.data / mark).read().decode().splitlines()
        except FileNotFoundError:
            return False

    def unmark(self) -> None:
        """Remove the mark of data on S3.  Raise StorageError."""
        if self.on_s3:
            with suppress(FileNotFoundError):
                (self.data / layout.OF_HOME).remove()

    @property
    def is_only_marked(self) -> bool:
        """Whether the data on S3 is only the mark of a home with this catalog, whose creation was stopped."""
        return self.on_s3 and all(_is_mark(name) and self._is_own(name) for name in self.data.names())

    def note(self) -> None:
        """Write the places into the settings of the home.  Raise Refused if the settings cannot be written."""
        if isinstance(self.data, S3Store) and configuration(self.home).store_url is None:
            add_key(self.home / FILE, "store.url", self.data.uri)
        if self.url is not None and not self.is_noted:
            add_key(self.home / FILE, "catalog.url", self.url)


def _is_mark(name: str) -> bool:
    return name == layout.OF_HOME or name.startswith(f"{layout.OF_HOME}.")
