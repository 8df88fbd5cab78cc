"""Check the URLs of PostgreSQL databases. Weft stores and shows these URLs, so they must not contain a password."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qs, urlsplit

SCHEMES: Final = ("postgresql://", "postgres://")
PASSWORD_PLACES: Final = "~/.pgpass or the environment variable PGPASSWORD"
"""The places where PostgreSQL's client library looks for a password."""

DEFAULT_SCHEMA: Final = "weft"
_SCHEMA: Final = re.compile(r"(?!pg_)[a-z_][a-z0-9_]{0,62}")
_IN_QUERY: Final = re.compile(r"(?<=[?&]password=)[^&#]*")


def has_password(uri: str) -> bool:
    """Return whether a URL contains a password.

    >>> has_password("postgresql://anna:secret@db.example/shop"), has_password("postgresql://anna@db.example/shop")
    (True, False)
    """
    parts = urlsplit(uri)
    return parts.password is not None or "password" in parse_qs(parts.query)


def schema_of(uri: str) -> str:
    """Return the schema that a catalog's URL names with ``schema``.

    >>> schema_of("postgresql://anna@db.example/shop"), schema_of("postgresql://db.example/shop?schema=orders")
    ('weft', 'orders')
    """
    return parse_qs(urlsplit(uri).query).get("schema", [DEFAULT_SCHEMA])[-1]


def why_no_catalog(uri: str) -> str | None:
    """Return the reason why a URL cannot name the catalog of a home, or None.

    >>> why_no_catalog("postgresql://anna@db.example/shop?schema=Orders")
    "its schema is 'Orders': it should be small letters, digits and _, and not begin with a digit or pg_"
    """
    if not uri.startswith(SCHEMES):
        return "it should be a URL such as postgresql://anna@db.example/weft"
    try:
        schema, secret = schema_of(uri), has_password(uri)
    except ValueError as error:
        return f"it is not a URL: {error}"
    if secret:
        return f"it contains a password: put the password into {PASSWORD_PLACES}"
    if _SCHEMA.fullmatch(schema) is None:
        return f"its schema is {schema!r}: it should be small letters, digits and _, and not begin with a digit or pg_"
    return None


def without_password(text: str) -> str:
    """Return a text with every password of a URL in it replaced by dots.

    >>> without_password("postgresql://anna:secret@db.example/shop?password=secret&schema=a")
    'postgresql://anna:…@db.example/shop?password=…&schema=a'
    """
    return _IN_QUERY.sub("…", re.sub(r"(://[^:/?#@\s]*):[^/?#@\s]*@", r"\1:…@", text))
