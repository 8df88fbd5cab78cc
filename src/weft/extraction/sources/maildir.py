"""Read the new messages of a maildir. The name of a file identifies its message.

A mail program moves a message from ``new`` to ``cur``, and changes the flags after ``:`` in its name. The part of the
name before ``:`` stays the same. A message that moves while it is read waits for the next poll.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, Final

from weft.errors import ExtractionError, NotFound, Refused
from weft.extraction.batches import RawRecord, printable
from weft.extraction.byte_streams import DAMAGE, plain, whole_record
from weft.extraction.paths import opened
from weft.extraction.sources.new_messages import MOST_BYTES, MOST_MESSAGES, NewMessages

_FOLDERS: Final = ("new", "cur")
"""The order matters: a message that moves to ``cur`` between the two listings is in both."""
_SECONDS: Final = re.compile(r"\d{1,18}")


def check_maildir(path: Path) -> None:
    """Raise NotFound for a missing folder, or Refused for a folder that is not a maildir."""
    if not path.exists():
        raise NotFound(f"no such folder: {printable(str(path))}", hint="Check the path of the maildir.")
    if not all((path / each).is_dir() for each in _FOLDERS):
        raise Refused(
            "this is not a maildir: it lacks the folders new and cur",
            where=printable(str(path)),
            hint="Name the folder that contains new and cur. `weft ingest mail` loads mbox files and other folders.",
        )


def read_maildir(path: Path, seen: Mapping[str, Any]) -> Generator[NewMessages, None, None]:
    """Yield the messages whose names are not in ``seen``. Raise NotFound, Refused or ExtractionError."""
    check_maildir(path)
    there = _messages(path)
    known = {name for name in seen.get("names", ()) if name in there}
    taken: dict[str, list[RawRecord]] = {}
    size = 0

    def part() -> NewMessages:
        known.update(taken)
        records = [record for each in taken.values() for record in each]
        return NewMessages(records, {"names": sorted(known)}, printable(path.name))

    for name in sorted(there.keys() - known, key=_arrival):
        records = _read(there[name], name)
        if records is None:
            continue
        taken[name] = records
        size += sum(len(each.raw) for each in records)
        if len(taken) >= MOST_MESSAGES or size >= MOST_BYTES:
            yield part()
            taken, size = {}, 0
    yield part()


def _messages(path: Path) -> dict[str, Path]:
    """Return the path of each message under the part of its name that stays the same."""
    found: dict[str, Path] = {}
    try:
        for folder in _FOLDERS:
            for entry in os.scandir(path / folder):
                if not entry.name.startswith(".") and entry.is_file():
                    found[entry.name.partition(":")[0]] = Path(entry.path)
    except OSError as error:
        raise ExtractionError(f"the maildir cannot be read: {error.strerror}", where=printable(str(path))) from None
    return found


def _arrival(name: str) -> tuple[int, str]:
    """Return the sort key of a name. A name begins with the time of arrival in seconds."""
    seconds = _SECONDS.match(name)
    return int(seconds[0]) if seconds else 0, name


def _read(path: Path, name: str) -> list[RawRecord] | None:
    """Return a message as records, or None if the file has moved. A file that cannot be read has a ``problem``."""
    position = printable(name)
    try:
        with opened(path) as raw:
            return list(whole_record(plain(raw), position))
    except FileNotFoundError:
        return None
    except DAMAGE as error:
        return [RawRecord(position, b"", f"cannot be opened: {error}")]
