"""Letters: what they say, and honest servers that take them, over TLS too."""

from __future__ import annotations

import datetime as dt
import re
import shlex
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

from mail_server import Post, serving, trusted
from weft.algebra.schema import STRING
from weft.configuration import Configuration, User, configuration
from weft.delivery.channel import About, Message
from weft.delivery.mail.addresses import parse_recipients
from weft.delivery.mail.channel import server_of
from weft.delivery.mail.letter import SHOWN_ROWS, letter
from weft.delivery.registry import canonical
from weft.errors import Refused
from weft.rights.secrets import verified
from weft.storage.ledger import ResultRow

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")
ANN, BO = "ann@example.com", "bo@example.com"
SECOND = 1_000_000
DAY = 86_400 * SECOND


def settings(home: Path, port: int, **more: object) -> None:
    """The home's settings for a server on this machine."""
    chosen = {"host": "127.0.0.1", "port": port, "tls": "none", "from": "weft@example.com", "timeout": 5, **more}
    lines = [
        f"{key} = {value if isinstance(value, int | float) else repr(str(value))}" for key, value in chosen.items()
    ]
    (home / "weft.toml").write_text("\n".join(["[smtp]", *lines]) + "\n")


def message(*rows: tuple[Any, ...], count: int | None = None, **about: Any) -> Message:
    columns = tuple((f"c{n}", STRING) for n, _ in enumerate(rows[0], 1))
    found = tuple(ResultRow(5 + n, DAY, 1, row) for n, row in enumerate(rows))
    given = {"sql": "SELECT 1", "user": "ann", "total": 9, "home": Path("/srv/home"), "home_id": "5f0c"}
    given |= {"at": DAY, "query_id": 3, "zone": "UTC"}
    return Message("3-5-7", "q", columns, found, count or len(found), About(**{**given, **about}), attempt_at=DAY)


def written(what: Message) -> Any:
    from mail_server import Letter

    return Letter("", [], letter(what, "email:ann@example.com", "weft@example.com", [ANN]))


def test_a_letter_has_the_new_answers_as_text_and_as_html() -> None:
    found = written(message(("one", 1), ("<b>&two</b>", None), sql="SELECT a\nFROM t"))
    head = found.text.splitlines()
    assert head[0] == "q: 2 new answers, 9 in all. Instants are in UTC."
    assert head[2:6] == [
        "answer since               c1           c2",
        "-------------------------  -----------  ----",
        "1970-01-02 00:00:00+00:00  one          1",
        "1970-01-02 00:00:00+00:00  <b>&two</b>  NULL",
    ]
    assert "    SELECT a\n    FROM t\n" in found.text
    assert "because the query q of ann delivers to email:ann@example.com" in found.text
    assert "To unsubscribe:          weft unsubscribe q --to email:ann@example.com --home /srv/home" in found.text
    assert "weft mute q --to email:ann@example.com --home /srv/home" in found.text
    assert "<code>weft unsubscribe q --to email:ann@example.com --home /srv/home</code>" in found.html
    assert "&lt;b&gt;&amp;two&lt;/b&gt;" in found.html
    assert "<b>" not in found.html
    assert "more:" not in found.text


def test_what_a_letter_does_not_show_it_counts() -> None:
    found = written(message(("one",), ("two",), count=1_202))
    assert "q: 1,202 new answers" in found.text
    assert "… and 1,200 more: weft results q --after 6 --home /srv/home" in found.text
    assert "1,200 more: <code>weft results q --after 6" in found.html


def test_headers_name_the_message_and_its_thread() -> None:
    first = written(message(("a",))).message
    assert first["Message-ID"] == "<3-5-7@5f0c.weft>"
    assert first["In-Reply-To"] is None
    assert (first["Subject"], first["From"], first["To"]) == ("[weft] q", "Weft <weft@example.com>", ANN)
    assert first["List-Id"] == "<q.5f0c.weft>"
    assert first["List-Unsubscribe"] == (
        "<mailto:weft@example.com?subject=weft%20unsubscribe%20q%20--to%20email%3Aann%40example.com>"
    )
    assert first["Date"] == "Fri, 02 Jan 1970 00:00:00 +0000"
    later = written(message(("a",), before=("3-1-2", "3-3-4"))).message
    assert later["In-Reply-To"] == "<3-3-4@5f0c.weft>"
    assert later["References"] == "<3-1-2@5f0c.weft> <3-3-4@5f0c.weft>"


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_letter_with_a_link_is_unsubscribed_by_one_click(scheme: str) -> None:
    link = f"{scheme}://weft.example.com/unsubscribe/17.{'a' * 64}"
    found = written(message(("a",), unsubscribe=link))
    addresses = found.message["List-Unsubscribe"].split(", ")
    assert addresses[0] == f"<{link}>"
    assert addresses[1].startswith("<mailto:weft@example.com?subject=")
    one_click = "List-Unsubscribe=One-Click" if scheme == "https" else None
    assert found.message["List-Unsubscribe-Post"] == one_click
    assert f"To unsubscribe:          {link}" in found.text
    assert f'<a href="{link}">' in found.html


def test_a_letter_leads_to_the_page_of_its_query() -> None:
    page = "https://weft.example.com/queries/3"
    found = written(message(("a",), count=7, page=page))
    assert f"To pause these messages: {page}\n" in found.text
    assert f"and 6 more: {page}\n" in found.text
    assert f"To unsubscribe:          {page}\n" in found.text
    assert found.html.count(f'<a href="{page}">') == 3
    assert "/srv/home" not in found.text and "/srv/home" not in found.html


@pytest.mark.parametrize(
    ("name", "sender"),
    [
        ("unanswered", "weft@example.com"),
        ("n" * 200, f"{'s' * 64}@{'d' * 60}.{'e' * 60}.example.com"),
        ("Größe 😀" * 20, "a&b?c%d+e@example.com"),
        ("x" * 60, "wéft@exämple.com"),
    ],
)
def test_headers_that_programs_read_are_in_the_clear_as_they_are_sent(name: str, sender: str) -> None:
    keys = [f"1234567-12345678901{n}-12345678999{n}" for n in range(12)]
    home = "01234567-89ab-cdef-0123-456789abcdef"
    what = message(("x",), before=keys, home_id=home)
    ids = [f"<{key}@{home}.weft>" for key in keys]
    to = [f"{'b' * 64}{n}@{'c' * 60}.example.com" for n in range(4)]
    given = letter(replace(what, key=keys[0], query_name=name), "email:ann", sender, to)
    head = given.partition(b"\r\n\r\n")[0].decode("ascii")
    assert max(map(len, head.split("\r\n"))) <= 998
    sent = dict(line.split(": ", 1) for line in re.sub(r"\r\n(?=[ \t])", "", head).split("\r\n"))
    assert sent["To"] == ", ".join(to)
    assert (sent["Message-ID"], sent["In-Reply-To"]) == (ids[0], ids[-1])
    assert sent["References"] == " ".join(ids)
    label = "".join(c if c.isascii() and c.isalnum() else "-" for c in name.lower())[:60]
    assert sent["List-Id"] == f"<{label}.{home}.weft>"
    uri = urlsplit(sent["List-Unsubscribe"].removeprefix("<").removesuffix(">"))
    assert (uri.scheme, unquote(uri.path), uri.fragment) == ("mailto", sender, "")
    assert re.fullmatch(r"subject=[!-;=?-~]+", uri.query)
    command = unquote(uri.query.removeprefix("subject="), errors="strict")
    assert f"weft unsubscribe {shlex.quote(name)} --to email:ann".startswith(command)
    assert len(command) >= 60 or command.endswith("email:ann")
    if sender.isascii():
        assert sent["From"] == f"Weft <{sender}>"


@pytest.mark.parametrize("name", ["a\r\nBcc: eve@example.com", "a\nb\u2028c", "=?utf-8?q?a=0d=0aBcc:_eve?=", "é" * 300])
def test_headers_of_data_add_no_header(name: str) -> None:
    what = message(("x",))
    given = letter(replace(what, query_name=name), "email:a", "w@x", [ANN])
    head, _, _ = given.partition(b"\r\n\r\n")
    assert not re.search(rb"(?mi)^bcc", head)
    assert max(map(len, given.split(b"\r\n"))) <= 998
    assert given.isascii()
    assert b"\n" not in given.replace(b"\r\n", b"")


def test_data_says_nothing_to_the_terminal_and_is_cut() -> None:
    hostile = "a\x1b[31m\x00b\u202ec\ud800d\r\n.\r\nQUIT"
    found = written(message((hostile, "x" * 5_000, b"\x01\xff", Decimal("1.50"))))
    assert "\x1b" not in found.text + found.html
    assert "a\\x1b[31m\\x00b\\u202ec\\ud800d . QUIT" in found.text
    assert "x" * 499 + "…" in found.text
    assert "01ff" in found.text and "1.50" in found.text
    wide = written(message(("v" * 60, "w" * 60), ("y", "z"))).text
    assert f"c1            {'v' * 60}\nc2            {'w' * 60}\n\nanswer since" in wide


def test_instants_are_those_of_the_persons_zone() -> None:
    found = written(message((dt.datetime(2026, 7, 1, 10, tzinfo=dt.timezone.utc),), zone="Europe/Paris"))
    assert "2026-07-01 12:00:00+02:00" in found.text
    assert "1970-01-02 01:00:00+01:00" in found.text
    assert "Instants are in Europe/Paris." in found.text


def test_an_honest_server_takes_one_letter_for_all_that_is_new(site: Any) -> None:
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        query = site.install("q", canonical("email:Ann@Example.COM", site.home))
        site.tick(query, SHOWN_ROWS + 50)
        (done,) = site.deliver()
        assert (done.rows, done.error) == (SHOWN_ROWS + 50, None)
        site.tick(query, 2)
        site.deliver(SECOND)
        site.tick(query, 1)
        site.deliver(2 * SECOND)
    first, second, third = post.letters
    assert (first.sender, first.recipients) == ("weft@example.com", ["Ann@example.com"])
    assert "text 100\n" in first.text and "text 101" not in first.text
    assert "… and 50 more: weft results q --after 100" in first.text
    assert "q: 2 new answers, 152 in all" in second.text
    assert second.message["In-Reply-To"] == first.message["Message-ID"]
    assert third.message["In-Reply-To"] == second.message["Message-ID"]
    assert third.message["References"].split() == [first.message["Message-ID"], second.message["Message-ID"]]
    assert site.catalog.outbox.unsent() == ()


def test_a_letter_to_one_person_has_a_link_that_names_its_subscription_for_a_year(site: Any) -> None:
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        with (site.home / "weft.toml").open("a") as file:
            file.write('[web]\nurl = "https://weft.example.com/"\n')
        query = site.install("q", f"email:{ANN}", f"email:{ANN},{BO}")
        site.tick(query, 1)
        site.deliver()
    links = {len(each.recipients): each.message["List-Unsubscribe"].split(">")[0] for each in post.letters}
    assert links[2].startswith("<mailto:")
    assert all(
        f"To pause these messages: https://weft.example.com/queries/{query}\n" in each.text for each in post.letters
    )
    place, token = links[1].rsplit("/", 1)
    assert place == "<https://weft.example.com/unsubscribe"
    (own,) = (each for each in site.catalog.subscriptions.all(query) if each.channel == f"email:{ANN}")
    year = 365 * 86_400_000_000
    assert verified(site.catalog.link_key(), token) == f"{own.sub_id}-{year}"  # the clock of the site stands at 0


@pytest.mark.parametrize("tls", ["implicit", "starttls"])
def test_letters_go_over_tls_with_credentials(
    site: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tls: str
) -> None:
    post = Post()
    monkeypatch.setenv("THE_PASSWORD", "open sesame")
    with serving(post, **{tls: "127.0.0.1"}, login=True) as port:  # type: ignore[arg-type]
        settings(site.home, port, tls=tls, user="weft", password_env="THE_PASSWORD", ca_file=trusted(tmp_path))
        query = site.install("q", f"email:{ANN}")
        site.tick(query, 1)
        (done,) = site.deliver()
    assert (done.rows, done.error) == (1, None)
    assert len(post.letters) == 1


def test_several_people_get_one_letter(site: Any) -> None:
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        query = site.install("q", f"email:{ANN},{BO}")
        site.tick(query, 1)
        site.deliver()
    assert [each.recipients for each in post.letters] == [[ANN, BO]]


def test_a_name_stands_for_the_address_and_zone_of_a_person(site: Any) -> None:
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        with (site.home / "weft.toml").open("a") as file:
            file.write(f"[users.bo]\nemail = '{BO}'\nzone = 'Asia/Tokyo'\n")
        query = site.install("q", canonical("email:bo", site.home))
        site.tick(query, 1)
        site.deliver()
    assert [each.recipients for each in post.letters] == [[BO]]
    assert "Instants are in Asia/Tokyo." in post.letters[0].text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("ann@", "is not an email address"),
        ("", "is not an email address"),
        ("ann@example.com\r\nBcc: eve@example.com", "is not an email address"),
        ("ann@example.com>", "is not an email address"),
        ("änn@example.com", "in ASCII"),
        ("ann@example.com,", "is not an email address"),
        ("ann@example.com?unknown=forget", "not an option of an email channel"),
        ("bob", "Did you mean email:bo?"),
        ("carla", r"set email in \[users.carla\]"),
    ],
)
def test_an_invalid_address_is_refused(text: str, said: str) -> None:
    with pytest.raises(Refused, match=said):
        parse_recipients(text, Configuration(users={"bo": User(email=BO)}))


def test_the_policy_is_the_subscriptions_then_that_of_the_settings() -> None:
    held = Configuration(smtp_unknown="hold")
    assert [parse_recipients(text, held).policy for text in (ANN, f"{ANN}?unknown=again")] == ["hold", "again"]
    assert parse_recipients(f"{ANN}?unknown=again", held).text == f"email:{ANN}?unknown=again"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "smtp.host is not set"),
        ({"host": "h"}, "smtp.from is not set"),
        ({"host": "h", "from": ANN, "user": "w"}, "but no password"),
        (
            {"host": "h", "from": ANN, "user": "w", "password_env": "NOT_THERE"},
            "the variable NOT_THERE, but this variable is not set",
        ),
        ({"host": "h", "from": ANN, "user": "w", "password_file": "none"}, "password_file cannot be read"),
        (
            {"host": "h", "from": ANN, "user": "w", "password": "x", "tls": "none"},
            "would cross the network unencrypted",
        ),
    ],
)
def test_settings_that_do_not_say_enough_are_refused(given: dict[str, str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        server_of(Configuration(**{f"smtp_{key}": value for key, value in given.items()}))


def test_a_password_may_be_in_a_file_beside_the_settings(tmp_path: Path) -> None:
    (tmp_path / "weft.toml").write_text("[smtp]\nhost='h'\nfrom='a@b'\nuser='w'\npassword_file='secret'\n")
    (tmp_path / "secret").write_text("open sesame\n")
    found = server_of(configuration(tmp_path))
    assert (found.password, found.port) == ("open sesame", 587)
