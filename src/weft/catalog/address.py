"""Say where the catalog of a home is: in a SQLite file of the home, or in a schema of a PostgreSQL database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from weft.catalog import layout
from weft.configuration import FILE, configuration
from weft.configuration.postgres_uri import schema_of, why_no_catalog, without_password
from weft.configuration.toml_file import add_key
from weft.errors import Conflict, Refused


@dataclass(frozen=True)
class CatalogAddress:
    """The place of a home's catalog.  ``url`` is None for a SQLite file.  The text of an address has no password."""

    home: Path
    url: str | None = None

    @classmethod
    def of(cls, home: Path, url: str | None = None) -> CatalogAddress:
        """Return the address that the settings of the home name.  ``url`` is the address for a new home.

        Raise Refused for an invalid URL.  Raise Conflict if the home has another catalog.
        """
        wrong = None if url is None else why_no_catalog(url)
        if wrong is not None:
            raise Refused(f"the catalog cannot be {without_password(repr(url))}: {wrong}")
        named = configuration(home).catalog_url
        if url is not None and named not in (None, url):
            raise Conflict(
                f"the settings of the home name the catalog {named}, and the command names {url}",
                where=str(home / FILE),
                hint="Omit the catalog in the command, or choose another folder.",
            )
        address = cls(home, url or named)
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

    @property
    def is_noted(self) -> bool:
        """Whether the folder says that it is a home: by a SQLite file, or by a URL in its settings."""
        if self.url is None:
            return layout.catalog_file(self.home).exists()
        return configuration(self.home).catalog_url == self.url

    def note(self) -> None:
        """Write the URL into the settings of the home.  Raise Refused if the settings cannot be written."""
        if self.url is not None and not self.is_noted:
            add_key(self.home / FILE, "catalog.url", self.url)
