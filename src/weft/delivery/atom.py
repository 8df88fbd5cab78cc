"""Answers as an Atom feed (RFC 4287).  The page makes one on demand, and the channel ``feed:NAME`` keeps one as a file.

The id of an entry never changes: it consists of the home, the query and the ordinal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from weft.delivery.rendering import field_names, json_values
from weft.instants import format_rfc3339
from weft.printable import one_line, visible
from weft.storage.ledger import Answers, ResultRow

_NAMESPACE: Final = "http://www.w3.org/2005/Atom"
_TITLE: Final = 120
_SUBTITLE: Final = 1_000


@dataclass(frozen=True)
class FeedHead:
    """What a feed says about its query.

    ``updated`` is the first instant of the newest answer, or else the time of the installation (microseconds UTC).
    ``base`` is the address of the server without a slash, or None if no server is known.  ``address`` is the address of
    the feed itself, or None.
    """

    answers: Answers
    sql: str
    user: str
    updated: int
    base: str | None
    address: str | None = None

    @property
    def page(self) -> str | None:
        """The address of the query's page."""
        return None if self.base is None else f"{self.base}/queries/{self.answers.query_id}"


def feed_urn(answers: Answers) -> str:
    """Return the id of the feed of a query."""
    return f"urn:weft:{answers.home_id}:{answers.query_id}"


def feed(head: FeedHead, entries: Iterable[Element]) -> bytes:
    """Return a feed of the entries, in their order."""
    ElementTree.register_namespace("", _NAMESPACE)
    made = Element(f"{{{_NAMESPACE}}}feed")
    _add(made, "id", feed_urn(head.answers))
    _add(made, "title", head.answers.name)
    _add(made, "subtitle", one_line(head.sql, _SUBTITLE))
    _add(made, "updated", format_rfc3339(head.updated))
    if head.address is not None:
        _add(made, "link", rel="self", href=head.address, type="application/atom+xml")
    if head.page is not None:
        _add(made, "link", rel="alternate", href=head.page, type="text/html")
    _add(_add(made, "author"), "name", head.user)
    made.extend(entries)
    text: bytes = ElementTree.tostring(made, encoding="utf-8", xml_declaration=True)
    return text


def entry_of(head: FeedHead, row: ResultRow) -> Element:
    """Return the entry of an answer."""
    columns = head.answers.columns
    names, values = field_names([name for name, _ in columns])[3:], json_values(row, columns)[3:]
    shown = [f"{name}: {'NULL' if value is None else value}" for name, value in zip(names, values, strict=True)]
    entry = Element(f"{{{_NAMESPACE}}}entry")
    _add(entry, "id", f"{feed_urn(head.answers)}:{row.ordinal}")
    _add(entry, "title", one_line(", ".join(shown), _TITLE) or f"answer {row.ordinal}")
    _add(entry, "updated", format_rfc3339(row.first_at))
    _add(entry, "published", format_rfc3339(row.first_at))
    if head.page is not None:
        _add(entry, "link", rel="alternate", href=f"{head.page}/answers/{row.ordinal}", type="text/html")
    _add(entry, "content", "\n".join(shown), type="text")
    return entry


def _add(parent: Element, name: str, text: str = "", **attributes: str) -> Element:
    """Add an element.  Characters that XML does not have are escaped."""
    made = ElementTree.SubElement(parent, f"{{{_NAMESPACE}}}{name}", attributes)
    made.text = visible(text, allowed="\n\t") or None
    return made


def read_feed(content: bytes) -> tuple[str, dict[int, Element]]:
    """Return the id of a feed, and its entries by their ordinals.  Raise ValueError for a text that is not a feed that
    ``feed`` made.
    """
    if b"<!DOCTYPE" in content:
        raise ValueError("the feed has a document type")
    try:
        root = ElementTree.fromstring(content)  # without a document type it has no entities
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None
    urn = root.findtext(f"{{{_NAMESPACE}}}id")
    if root.tag != f"{{{_NAMESPACE}}}feed" or urn is None:
        raise ValueError("this is not an Atom feed")
    entries = root.findall(f"{{{_NAMESPACE}}}entry")
    return urn, {int((each.findtext(f"{{{_NAMESPACE}}}id") or "").rpartition(":")[2]): each for each in entries}
