"""Messages for the tests of mail."""

from __future__ import annotations

from pathlib import Path

from weft.extraction.batches import RawRecord
from weft.extraction.mail.message import MailOptions, read_message

AT = 1_700_000_000_000_000
"""2023-11-14 22:13:20 UTC: the time of the load in the tests."""

OPTIONS = MailOptions(None, AT)
APRIL_5 = 733_968_000_000_000
"""1993-04-05 00:00:00 UTC."""


def letter(body: str | bytes = "Hello\n", **headers: str | None) -> bytes:
    """Return a valid article. ``headers`` replaces headers (``Message_ID=…``), or removes them if the value is None."""
    fields: dict[str, str | None] = {
        "Message_ID": "<1@x>",
        "From": "a@b (A B)",
        "Subject": "s",
        "Date": "Mon, 5 Apr 1993 00:00:00 GMT",
        "Newsgroups": "sci.space",
    } | headers
    lines = [f"{name.replace('_', '-')}: {value}\n" for name, value in fields.items() if value is not None]
    head = "".join(lines).encode("utf-8", "surrogateescape")
    return head + b"\n" + (body.encode() if isinstance(body, str) else body)


def read(raw: bytes, options: MailOptions = OPTIONS) -> list[dict[str, object]] | str:
    return read_message(RawRecord("here", raw), "stem", options)


def row(raw: bytes, options: MailOptions = OPTIONS) -> dict[str, object]:
    """Return the single row that the message yields."""
    rows = read(raw, options)
    assert isinstance(rows, list), rows
    [only] = rows
    return only


def spool(folder: Path, articles: dict[str, bytes]) -> Path:
    """Create a directory with these files."""
    for name, raw in articles.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(raw)
    return folder
