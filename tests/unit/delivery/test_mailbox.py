"""Answers in a folder of Dovecot: each message once, also if Weft is killed or loses the server."""

from __future__ import annotations

import email
import email.message
import email.policy
import re
from collections.abc import Iterator
from typing import Any

import pytest

from imap_server import PASSWORD, ImapServer, imap_server
from mail_server import trusted
from weft.delivery.registry import canonical, send_test
from weft.errors import DeliveryError, Refused
from weft.mail_servers.imap import folder_name

LATER = 3_600 * 1_000_000


@pytest.fixture(scope="module")
def dovecot() -> Iterator[ImapServer]:
    with imap_server() as server:
        yield server


@pytest.fixture(autouse=True)
def password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANA_PASSWORD", PASSWORD)


def made(server: ImapServer, name: str) -> str:
    """Create an empty folder and return its URI."""
    with server.session() as client:
        assert client.create(folder_name(name))[0] == "OK"
    return server.uri(name)


def letters(server: ImapServer, name: str) -> list[email.message.EmailMessage]:
    with server.session() as client:
        count = client.select(folder_name(name), readonly=True)[1][0]
        data: Any = client.fetch("1:*", "(FLAGS BODY.PEEK[])")[1] if count != b"0" else []
    contents = [each[1] for each in data if isinstance(each, tuple)]
    return [email.message_from_bytes(each, policy=email.policy.default) for each in contents]  # type: ignore[misc]


def texts(server: ImapServer, name: str) -> list[str]:
    bodies = (each.get_body(("plain",)) for each in letters(server, name))
    lines = [line for body in bodies if body is not None for line in body.get_content().splitlines()]
    return [found[0] for line in lines if (found := re.search(r"text \d+$", line))]


def test_each_message_is_a_letter(dovecot: ImapServer, site: Any) -> None:
    query = site.install("q", made(dovecot, "Entwürfe"))
    for rows in (3, 1):
        site.tick(query, rows)
        assert [each.error for each in site.deliver()] == [None]
    first, second = letters(dovecot, "Entwürfe")
    assert texts(dovecot, "Entwürfe") == ["text 1", "text 2", "text 3", "text 4"]
    assert first["Subject"] == "[weft] q" and second["In-Reply-To"] == first["Message-ID"]
    assert first["From"].addresses[0].addr_spec == "weft@localhost"
    (sent, _) = site.catalog.outbox.latest(None, 2)
    assert re.search("append", sent.reply or "", re.I)


@pytest.mark.parametrize("point", ["imap.searched", "imap.appended", "delivery.opened", "delivery.written"])
def test_a_kill_loses_and_doubles_nothing(point: str, dovecot: ImapServer, site: Any) -> None:
    name = f"kill-{point}".replace(".", "-")
    query = site.install("q", made(dovecot, name))
    site.tick(query, 2)
    assert site.killed(point)
    there = texts(dovecot, name)
    assert there == (["text 1", "text 2"] if point in ("imap.appended", "delivery.written") else [])
    site.deliver(LATER)
    assert texts(dovecot, name) == ["text 1", "text 2"]
    assert site.catalog.outbox.unsent() == ()


def test_a_missing_folder_is_an_error_of_the_channel(dovecot: ImapServer, site: Any) -> None:
    query = site.install("q", dovecot.uri("missing"))
    site.tick(query, 1)
    (result,) = site.deliver()
    assert result.rows == 0 and "the IMAP server refused: " in (result.error or "")
    made(dovecot, "missing")
    (result,) = site.deliver(LATER)
    assert (result.rows, result.error) == (1, None)


def test_a_server_that_is_down_is_tried_again(dovecot: ImapServer, site: Any) -> None:
    query = site.install("q", made(dovecot, "down"))
    site.tick(query, 1)
    dovecot.stop()
    (result,) = site.deliver()
    assert "Connection refused" in (result.error or "")
    dovecot.start()
    (result,) = site.deliver(LATER)
    assert (result.rows, texts(dovecot, "down")) == (1, ["text 1"])


def test_a_test_message_over_tls(dovecot: ImapServer, site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made(dovecot, "tls")
    uri, home_id = dovecot.uri("tls", tls=True), site.catalog.home().home_id
    with pytest.raises(DeliveryError, match="certificate"):
        send_test(uri, site.home, home_id, "ann", 0)
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted(site.home)))
    assert send_test(uri, site.home, home_id, "ann", 0)[0] == uri
    (letter,) = letters(dovecot, "tls")
    assert "belongs to no query" in letter.get_body(("plain",)).get_content()  # type: ignore[union-attr]
    monkeypatch.delenv("ANA_PASSWORD")
    with pytest.raises(Refused, match="ANA_PASSWORD"):
        send_test(dovecot.uri("tls"), site.home, home_id, "ann", 0)


def test_the_uri_is_checked_when_the_channel_is_added(site: Any) -> None:
    assert canonical("IMAPS://ann@h/x?password_env=PW", site.home) == "imaps://ann@h:993/x?password_env=PW"
    with pytest.raises(Refused, match="must not contain a password"):
        canonical("imap://ann:pw@h/x", site.home)
