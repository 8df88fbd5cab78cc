"""New mail and news, once: from a maildir, from Dovecot and from INN, also if a poll is killed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

import forked
from imap_server import PASSWORD, ImapServer, imap_server
from mail_server import trusted
from news_server import GROUP, NewsServer, news_server
from weft.api import Weft
from weft.errors import Conflict, ExtractionError, NotFound, Refused
from weft.extraction.sources import maildir, new_messages
from weft.mail_servers.imap import folder_name
from weft.storage.columns import stored_schema
from weft.storage.table import Table

HOUR = "2026-03-01T08:00:00Z"
POINTS = ("source.read", "ingest.reserved", "ingest.written", "ingest.committed")
"""Where a poll is killed: after it read, and before, in and after the commit of the rows."""


@pytest.fixture(scope="module")
def dovecot() -> Iterator[ImapServer]:
    with imap_server() as server:
        yield server


@pytest.fixture(scope="module")
def inn() -> Iterator[NewsServer]:
    with news_server() as server:
        yield server


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANA_PASSWORD", PASSWORD)


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="wall", create=True) as opened:
        yield opened


def letter(number: int | str, *, group: str | None = None, dated: bool = True, body: str = "Hello") -> bytes:
    message = Message()
    message["Path"] = "x.example!not-for-mail"
    message["From"] = "bob@x.example"
    message["Subject"] = f"Letter {number}"
    if dated:
        message["Date"] = "Sun, 01 Mar 2026 07:00:00 +0000"
    message["Message-ID"] = f"<{number}@x.example>"
    if group is not None:
        message["Newsgroups"] = group
    message.set_payload(f"{body}\n.a line with a dot\n")
    return message.as_bytes()


def put(folder: Path, number: int | str, raw: bytes | None = None) -> Path:
    """Deliver a letter to a maildir as a mail server does: by a rename into ``new``."""
    for each in ("tmp", "new", "cur"):
        (folder / each).mkdir(parents=True, exist_ok=True)
    name = f"17723{number:0>5}.M1P1.host"
    (folder / "tmp" / name).write_bytes(letter(number) if raw is None else raw)
    return (folder / "tmp" / name).rename(folder / "new" / name)


def rows(weft: Weft) -> list[dict[str, Any]]:
    """Return the rows of the table ``lists``, the latest arrivals last."""
    record = weft.catalog.tables.named("lists")
    place = Table(weft.catalog.data / record.path)
    if not place.exists():
        return []
    found = [row for batch in place.scan(stored_schema(record.schema)) for row in batch.to_pylist()]
    return sorted(found, key=lambda row: row["ts"])


def stored(weft: Weft) -> list[str]:
    """Return the ids of the stored messages in the order of their arrival."""
    return [row["msgid"].partition("@")[0] for row in rows(weft)]


def killed(weft: Weft, point: str, table: str = "lists") -> None:
    """Poll in another process, which is killed at the failpoint."""
    command = [sys.executable, "-m", "weft", "source", "poll", table, "--home", str(weft.home)]
    done = forked.run(command, point, text=True)
    assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr


def test_a_maildir_is_followed_while_its_messages_move(weft: Weft, tmp_path: Path) -> None:
    box = tmp_path / "Lists"
    first = put(box, 1)
    weft.add_source("lists", "maildir", box)
    assert weft.poll_source("lists").began == 1
    first.rename(box / "cur" / f"{first.name}:2,S")
    put(box, 2)
    done = weft.poll_source("lists")
    assert (done.began, done.open_rows, done.appends) == (1, 2, True)
    (box / "cur" / f"{first.name}:2,S").rename(box / "cur" / f"{first.name}:2,FS")
    assert weft.poll_source("lists").at is None
    row = rows(weft)[0]
    assert (row["newsgroup"], row["subject"], row["body"]) == ("Lists", "Letter 1", "Hello\n.a line with a dot\n")


def test_a_message_whose_id_is_known_is_not_stored_twice(weft: Weft, tmp_path: Path) -> None:
    put(tmp_path / "old", 1)
    weft.ingest_mail(tmp_path / "old", table="lists", newsgroup="Lists")
    put(tmp_path / "Lists", 1)
    put(tmp_path / "Lists", 2)
    weft.add_source("lists", "maildir", tmp_path / "Lists")
    assert weft.poll_source("lists").began == 1
    assert stored(weft) == ["1", "2"]


def test_unreadable_messages_are_in_quarantine_once(weft: Weft, tmp_path: Path) -> None:
    box = tmp_path / "Lists"
    put(box, 1, b"no header at all")
    put(box, 2)
    weft.add_source("lists", "maildir", box)
    killed(weft, "ingest.reserved")
    assert weft.poll_source("lists").quarantined == 0  # the killed poll put it there
    assert weft.poll_source("lists").quarantined == 0
    (kept,) = weft.quarantined()
    assert (kept.position, stored(weft)) == ("1772300001.M1P1.host", ["2"])


def test_a_large_maildir_comes_in_parts_and_each_part_stays(
    weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maildir, "MOST_MESSAGES", 2)
    box = tmp_path / "Lists"
    for number in range(5):
        put(box, number)
    weft.add_source("lists", "maildir", box)
    readers: list[Any] = []
    monkeypatch.setattr(maildir, "_read", _failing_at(4, maildir._read, readers))
    with pytest.raises(ExtractionError, match="torn"):
        weft.poll_source("lists")
    assert stored(weft) == ["0", "1"]
    monkeypatch.setattr(maildir, "_read", readers[0])
    assert weft.poll_source("lists").began == 3
    assert stored(weft) == ["0", "1", "2", "3", "4"]


def _failing_at(count: int, real: Any, kept: list[Any]) -> Any:
    calls = iter(range(1, 100))
    kept.append(real)

    def read(*given: Any) -> Any:
        if next(calls) == count:
            raise ExtractionError("the cable is torn")
        return real(*given)

    return read


def test_a_date_may_be_the_time_of_a_row(tmp_path: Path) -> None:
    put(tmp_path / "Lists", 1)
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.add_source("lists", "maildir", tmp_path / "Lists", ts="source")
        weft.add_source("now", "maildir", tmp_path / "Lists")
        at = {name: weft.poll_source(name, now=HOUR).at for name in ("lists", "now")}
    assert at == {"lists": 1_772_348_400_000_000, "now": 1_772_352_000_000_000}


def test_other_folders_options_and_tables_are_refused(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    put(tmp_path / "Lists", 1)
    with pytest.raises(Refused, match="not a maildir"):
        weft.add_source("lists", "maildir", tmp_path / "plain")
    with pytest.raises(NotFound):
        weft.add_source("lists", "maildir", tmp_path / "missing")
    for more in ({"key": "msgid"}, {"table": "t"}, {"columns": [("msgid", None)]}, {"rename": "a=b"}):
        with pytest.raises(Refused, match="those of a mail table"):
            weft.add_source("lists", "maildir", tmp_path / "Lists", **more)
    (tmp_path / "other.csv").write_text("id\n1\n")
    weft.ingest_file(tmp_path / "other.csv", "other")
    with pytest.raises(Refused, match="not a mail table"):
        weft.add_source("other", "maildir", tmp_path / "Lists")
    weft.add_source("lists", "maildir", tmp_path / "Lists")
    with pytest.raises(Conflict, match="already has a source"):
        weft.add_source("lists", "maildir", tmp_path / "Lists")
    with pytest.raises(Refused, match="no history of states"):
        weft.load_past("lists", tmp_path / "x.csv", "ts")


def test_an_imap_folder_is_followed_by_uid(weft: Weft, dovecot: ImapServer) -> None:
    dovecot.append(letter(1), letter(2), letter("x", dated=False))
    weft.add_source("lists", "imap", dovecot.uri())
    first = weft.poll_source("lists")
    assert (first.began, first.quarantined) == (2, 1)
    assert weft.poll_source("lists").at is None
    dovecot.append(letter(3), letter(4))
    with dovecot.session() as client:
        client.select("INBOX")
        assert client.search(None, "SEEN")[1] == [b""], "a poll marks nothing as seen"
        client.store("4", "+FLAGS", "\\Deleted")
        client.expunge()
    assert weft.poll_source("lists").began == 1
    assert stored(weft) == ["1", "2", "4"]
    (kept,) = weft.quarantined()
    assert kept.position.endswith("UID 3")


def test_a_folder_that_was_made_again_is_read_again(
    weft: Weft, dovecot: ImapServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
    name = "Listen & Läden"
    with dovecot.session() as client:
        client.create(folder_name(name))
    dovecot.append(letter(1), letter(2), letter(3), name=folder_name(name))
    weft.add_source("lists", "imap", dovecot.uri("Listen%20%26%20L%C3%A4den", tls=True))
    assert weft.poll_source("lists").began == 3
    before = weft.catalog.sources.named("lists").seen
    with dovecot.session() as client:
        client.delete(folder_name(name))
        client.create(folder_name(name))
    dovecot.append(letter(2), letter(4), name=folder_name(name))
    assert weft.poll_source("lists").began == 1
    assert stored(weft) == ["1", "2", "3", "4"]
    after = weft.catalog.sources.named("lists").seen
    assert after["uidvalidity"] != before["uidvalidity"] and after["uid"] == 2


def test_problems_of_an_imap_server_are_named(weft: Weft, dovecot: ImapServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotFound, match="does not open the folder 'Nowhere'"):
        weft.add_source("lists", "imap", dovecot.uri("Nowhere"))
    with pytest.raises(ExtractionError, match="certificate"):
        weft.add_source("lists", "imap", dovecot.uri(tls=True))
    with pytest.raises(ExtractionError, match="certificate"):
        weft.add_source("lists", "imap", dovecot.uri().replace("&tls=off", ""))  # STARTTLS
    monkeypatch.setenv("ANA_PASSWORD", "wrong")
    with pytest.raises(ExtractionError, match=r"cannot be read.*(?i:authenticat)"):
        weft.add_source("lists", "imap", dovecot.uri())
    monkeypatch.delenv("ANA_PASSWORD")
    with pytest.raises(Refused, match="ANA_PASSWORD"):
        weft.add_source("lists", "imap", dovecot.uri())


def test_a_group_is_followed_by_article_number(weft: Weft, inn: NewsServer) -> None:
    inn.offer("<1@x.example>", letter(1, group=GROUP))
    inn.offer("<2@x.example>", letter(2, group=GROUP, body="x" * 9_000))
    weft.add_source("lists", "nntp", inn.uri())
    assert weft.poll_source("lists").began == 2
    inn.offer("<3@x.example>", letter(3, group=GROUP))
    assert weft.poll_source("lists").began == 1
    assert weft.poll_source("lists").at is None
    assert stored(weft) == ["1", "2", "3"]
    assert rows(weft)[1]["body"] == "x" * 9_000 + "\n.a line with a dot\n"
    assert rows(weft)[0]["newsgroup"] == GROUP
    with pytest.raises(NotFound, match="no group"):
        weft.add_source("other", "nntp", inn.uri("comp.lang.none"))


def test_a_server_that_is_away_leaves_its_position(weft: Weft, inn: NewsServer) -> None:
    inn.offer("<a@x.example>", letter("a", group=GROUP))
    weft.add_source("lists", "nntp", inn.uri())
    inn.stop()
    with pytest.raises(ExtractionError, match="news server cannot be read"):
        weft.poll_source("lists")
    assert "cannot be read" in (weft.catalog.sources.named("lists").trouble or "")
    inn.start()
    weft.poll_source("lists")
    assert stored(weft)[-1] == "a" and weft.catalog.sources.named("lists").trouble is None


def test_news_come_over_a_session_that_is_encrypted_by_starttls(
    weft: Weft, inn: NewsServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """INN knows STARTTLS only after MODE READER."""
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted(tmp_path)))
    inn.offer("<tls@x.example>", letter("tls", group=GROUP))
    weft.add_source("lists", "nntp", inn.uri().removesuffix("?tls=off"))
    assert weft.poll_source("lists").began > 0
    assert stored(weft)[-1] == "tls"
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(ExtractionError, match="certificate"):
        weft.poll_source("lists")


@pytest.mark.parametrize("kind", ["maildir", "imap", "nntp"])
def test_a_killed_poll_loses_and_repeats_nothing(
    kind: Any, weft: Weft, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if kind == "maildir":
        put(tmp_path / "Lists", 0)
        at, send = str(tmp_path / "Lists"), lambda key: put(tmp_path / "Lists", key)
    elif kind == "imap":
        dovecot: ImapServer = request.getfixturevalue("dovecot")
        with dovecot.session() as client:
            client.create("Killed")
        at, send = dovecot.uri("Killed"), lambda key: dovecot.append(letter(key), name="Killed")
    else:
        inn: NewsServer = request.getfixturevalue("inn")
        at, send = inn.uri(), lambda key: inn.offer(f"<{key}@x.example>", letter(key, group=GROUP))
    weft.add_source("lists", kind, at)
    weft.poll_source("lists")
    before = stored(weft)
    for number, point in enumerate(POINTS):
        send(f"9{number}1")
        send(f"9{number}2")
        killed(weft, point)
    weft.poll_source("lists")
    assert stored(weft)[len(before) :] == [f"9{number}{each}" for number in range(len(POINTS)) for each in (1, 2)]
    assert weft.poll_source("lists").at is None


def test_parts_are_limited_by_messages_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(new_messages, "MOST_MESSAGES", 2)
    assert list(new_messages.parts([1, 2, 3], dict.fromkeys([1, 2, 3], 1))) == [[1, 2], [3]]
