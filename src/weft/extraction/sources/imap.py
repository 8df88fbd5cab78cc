"""Read the new messages of a folder on an IMAP server (RFC 3501). The UID of a message identifies it.

UIDs rise while the UIDVALIDITY of the folder stays the same. If it changes, the folder is read again from its first
message. The folder is opened for reading only, and no message is marked as seen.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from imaplib import IMAP4
from typing import Any, Final

from weft.errors import ExtractionError, NotFound
from weft.extraction.batches import MAX_RECORD, RawRecord
from weft.extraction.sources.new_messages import NewMessages, parts, whole
from weft.interruption import stop_here
from weft.mail_servers.address import MailPlace
from weft.mail_servers.imap import (
    FAILURES,
    Refusal,
    folder_name,
    imap_session,
    reason,
    require,
    sizes_by_uid,
    texts_by_uid,
)

_AT_ONCE: Final = 8 << 20
"""The maximum size of the messages in one reply, in bytes, unless one message is larger."""


def check_imap(place: MailPlace) -> None:
    """Raise NotFound for a missing folder, or ExtractionError if the server does not answer."""
    with _folder(place):
        pass


def read_imap(place: MailPlace, seen: Mapping[str, Any]) -> Generator[NewMessages, None, None]:
    """Yield the messages after the position ``seen``. Raise NotFound, ExtractionError or Refused."""
    with _folder(place) as (client, validity):
        last = int(seen["uid"]) if seen.get("uidvalidity") == validity else 0
        # The range N:* always contains the last message.
        listed = sizes_by_uid(_fetched(client, f"{last + 1}:*", "(UID RFC822.SIZE)"))
        sizes = {uid: min(size, MAX_RECORD) for uid, size in listed.items() if uid > last}
        for uids in parts(sorted(sizes), sizes):
            records = _records(client, uids, listed, validity)
            yield NewMessages(records, {"uidvalidity": validity, "uid": uids[-1]}, place.name)
            last = uids[-1]
        yield NewMessages([], {"uidvalidity": validity, "uid": last}, place.name)


def _records(client: IMAP4, uids: list[int], sizes: Mapping[int, int], validity: int) -> list[RawRecord]:
    """Return the messages with the UIDs. A message that was deleted in the meantime is left out."""
    records: list[RawRecord] = []
    for at_once in parts(uids, sizes, _AT_ONCE):
        stop_here()
        whole_of = len(at_once) > 1 or sizes[at_once[0]] <= MAX_RECORD
        what = "(UID BODY.PEEK[])" if whole_of else f"(UID BODY.PEEK[]<0.{MAX_RECORD}>)"
        texts = texts_by_uid(_fetched(client, f"{at_once[0]}:{at_once[-1]}", what))
        for uid in at_once:
            if uid in texts:
                records += whole(texts[uid], f"UIDVALIDITY {validity}, UID {uid}")
    return records


def _fetched(client: IMAP4, uids: str, what: str) -> list[Any]:
    return list(require(client.uid("FETCH", uids, what)))


@contextmanager
def _folder(place: MailPlace) -> Iterator[tuple[IMAP4, int]]:
    """Open the folder, and yield the session and the folder's UIDVALIDITY."""
    try:
        with imap_session(place) as client:
            try:
                require(client.select(folder_name(place.name), readonly=True))
            except Refusal as error:
                raise NotFound(
                    f"the server does not open the folder {place.name!r}: {reason(error)}",
                    where=place.server,
                    hint="Check the name of the folder and the rights of the user.",
                ) from None
            validity = client.response("UIDVALIDITY")[1][0]
            if validity is None:
                raise ExtractionError("the server gives the folder no UIDVALIDITY", where=place.text)
            yield client, int(validity)
    except FAILURES as error:
        raise ExtractionError(
            f"the IMAP server cannot be read: {reason(error)}",
            where=place.server,
            hint="Nothing was lost: the next poll continues after the messages that are stored.",
        ) from None
