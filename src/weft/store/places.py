"""Make a store from a path or a URI."""

from __future__ import annotations

import os
import re
from typing import Final
from urllib.parse import unquote, urlsplit

from weft.errors import Refused
from weft.printable import require_text
from weft.store.local import LocalStore
from weft.store.s3 import S3Store
from weft.store.s3_access import S3Access
from weft.store.store import Store

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://?")
_LOST_SLASH: Final = re.compile(r"^([^:/]+:/)(?!/)")  # Path collapses two slashes into one
_MISREAD: Final = re.compile(r"[\[\]{}*?\\\x00-\x1f]|%[0-9A-Fa-f]{2}")
"""The parts of a path that other programs misread. Spark interprets brackets, * and ? as parts of a pattern. The
library delta-rs decodes %20 and converts backslashes to slashes.
"""
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")


def store_of(place: str | os.PathLike[str], access: S3Access | None = None) -> Store:
    """Return the store at a local path, a ``file:///`` URI or an ``s3://BUCKET/PREFIX`` URI.

    ``access`` says how an object store is reached; by default as AWS, with the role of
    this machine. Raise Refused for another scheme or host, and for a path that Spark or delta-rs would misread.
    """
    text = os.fspath(place)
    if not _SCHEME.match(text):
        return LocalStore(_plain(_absolute(text)))
    named = _LOST_SLASH.sub(r"\1/", text)
    parts = urlsplit(text if text.startswith("file:") else named)
    if parts.scheme == "s3" and _BUCKET.fullmatch(parts.netloc) and not parts.query and not parts.fragment:
        path = _plain(f"{parts.netloc}/{parts.path.strip('/')}".rstrip("/"))
        return S3Store(path, access or S3Access())
    if parts.scheme != "file" or parts.netloc not in ("", "localhost") or parts.query or parts.fragment:
        raise Refused(
            f"{named} cannot hold the data of a home: Weft needs a local folder or an S3 bucket",
            hint="Give a local path, a file:/// URI or s3://BUCKET/PREFIX.",
        )
    return LocalStore(_plain(_absolute(unquote(parts.path))))


def elsewhere(data: Store, place: str) -> Store:
    """Return the store at a place that a home names, reached as the settings of the home say. ``data`` is its data."""
    return store_of(place, data.access)


def uri_of(place: str | os.PathLike[str]) -> str | None:
    """Return the place as a URI if it is one. Return None for a local path.

    >>> uri_of("s3:/orders/2026"), uri_of("orders/2026")
    ('s3://orders/2026', None)
    """
    text = os.fspath(place)
    return _LOST_SLASH.sub(r"\1/", text) if _SCHEME.match(text) else None


def local_store(place: str | os.PathLike[str]) -> LocalStore:
    """Return the store at a local path or a ``file:///`` URI. Raise Refused for anything else."""
    store = store_of(place)
    if not isinstance(store, LocalStore):
        raise Refused(f"{store} is not a local folder", hint="Give a local path or a file:/// URI.")
    return store


def _absolute(path: str) -> str:
    return os.path.realpath(path) if ".." in path.split("/") else os.path.abspath(path)


def _plain(path: str) -> str:
    require_text(path, "the path of a home's data")
    misread = _MISREAD.search(path)
    if misread:
        raise Refused(
            f"{path!r} cannot be the path of a home's data: Spark or delta-rs would misread {misread[0]!r} in it",
            hint="Choose a path without brackets, *, ?, backslashes and percent codes.",
        )
    return path
