"""Webhooks, posted to a server of this machine: what it gets, and what becomes of a message that it does not take."""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from mail_server import free_port, server_context, took, trusted
from unit.delivery.test_mail import message
from web_server import DRIP, DROP_AFTER, DROP_BEFORE, HANG, Web, web
from weft.configuration import Configuration
from weft.delivery.channel import JITTER
from weft.delivery.registry import canonical, send_test
from weft.delivery.webhook import conversation
from weft.delivery.webhook.channel import STANDARD, text_json
from weft.delivery.webhook.destination import is_public, parse_destination
from weft.errors import Refused

SECOND = 1_000_000
SECRET = "whsec_c2VjcmV0IG9mIHRoZSB0ZXN0cywgbG9uZyBlbm91Z2g="
LATER = 10**15


def settings(home: Path, **more: object) -> None:
    chosen = {"secret": SECRET, "private": True, "timeout": 5, **more}
    lines = [f"{key} = {json.dumps(str(value) if isinstance(value, Path) else value)}" for key, value in chosen.items()]
    (home / "weft.toml").write_text("\n".join(["[webhook]", *lines]) + "\n")


@pytest.fixture
def waiting(site: Any) -> Any:
    """A home with three answers to post, and the settings for it."""
    settings(site.home)
    return site


def _subscribe(site: Any, port: int, *, scheme: str = "http", form: str = "", host: str = "127.0.0.1") -> None:
    query = site.install("q", canonical(f"webhook:{scheme}://{host}:{port}/in?x=1{form}", site.home))
    site.tick(query, 3)


def test_a_posted_message_is_signed_and_has_every_row(waiting: Any) -> None:
    server = Web()
    at = int(time.time()) * SECOND
    with web(server) as port:
        _subscribe(waiting, port)
        (done,) = waiting.deliver(at)
    assert (done.rows, done.error) == (3, None)
    (request,) = server.requests
    assert request.target == "/in?x=1"
    found = Webhook(SECRET).verify(request.body, request.headers)
    home_id = waiting.catalog.home().home_id
    assert request.headers["webhook-id"] == f"{home_id}.1-1-3"
    assert found["type"] == "weft.answers"
    data = found["data"]
    assert (data["query"], data["first"], data["last"], data["total"]) == ("q", 1, 3, 3)
    assert [(row["_ordinal"], row["n"], row["s"]) for row in data["rows"]] == [(n, n, f"text {n}") for n in (1, 2, 3)]
    (entry,) = waiting.catalog.outbox.latest([1], 20)
    assert (entry.state, entry.reply) == ("sent", "200 OK taken")


NOT_TAKEN = [
    ("500 Oops", "failed", "the server responded 500 Oops taken"),
    ("404 Not Found", "failed", "404 Not Found"),
    (
        "302 Found\nLocation: http://127.0.0.1/other",
        "failed",
        "a redirect to http://127.0.0.1/other, and Weft follows no redirects",
    ),
    (DROP_BEFORE, "", ""),
    (DROP_AFTER, "unknown", "the server closed the connection"),
    (HANG, "unknown", "the server did not respond in time"),
    (DRIP, "unknown", ""),
]


@pytest.mark.parametrize(("says", "state", "reason"), NOT_TAKEN, ids=lambda each: str(each)[:12])
def test_a_rejected_message_is_sent_again_with_the_same_id(waiting: Any, says: str, state: str, reason: str) -> None:
    server = Web([says, "204 No Content"])
    settings(waiting.home, timeout=0.4)
    with web(server) as port:
        _subscribe(waiting, port)
        failures: list[Any] = []
        assert took(lambda: failures.extend(waiting.deliver())) < 15
        (failed,) = failures
        assert (failed.rows, failed.parked) == (0, False)
        assert reason in (failed.error or "")
        (entry,) = waiting.catalog.outbox.unsent()
        # Of a request that breaks off in the middle nobody knows how much of it was read.
        assert entry.state in ((state,) if state else ("failed", "unknown"))
        (done,) = waiting.deliver(LATER)
    assert (done.rows, done.error) == (3, None)
    assert {each.headers["webhook-id"].partition(".")[2] for each in server.requests} == {"1-1-3"}
    assert server.conversations == 2


def test_one_that_is_gone_is_parked_and_one_that_asks_for_time_gets_it(waiting: Any) -> None:
    server = Web(["429 Too Many\nRetry-After: 900", "503 Busy\nRetry-After: Thu, 01 Jan 1970 01:00:00 GMT", "410 Gone"])
    with web(server) as port:
        _subscribe(waiting, port)
        for at, least in ((0, 900), (1_200 * SECOND, 2_400)):
            waiting.deliver(at)
            (found,) = waiting.catalog.subscriptions.all()
            assert least * SECOND <= found.next_attempt_at - at <= least * (1 + JITTER) * SECOND
        (gone,) = waiting.deliver(LATER)
    assert (gone.parked, "410 Gone" in (gone.error or "")) == (True, True)


def test_no_server_is_tried_as_the_standard_says_and_then_parked(waiting: Any) -> None:
    _subscribe(waiting, free_port())
    at = 0
    for attempt in range(STANDARD.attempts):
        (failed,) = waiting.deliver(at)
        assert "cannot be reached: Connection refused" in (failed.error or "")
        (found,) = waiting.catalog.subscriptions.all()
        assert failed.parked == (attempt == STANDARD.attempts - 1)
        if found.next_attempt_at is not None:
            assert found.next_attempt_at - at >= STANDARD.pauses[attempt]
            at = found.next_attempt_at
    assert at >= 75 * 3_600 * SECOND


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[64:ff9b::7f00:1]", "10.1.2.3", "169.254.169.254", "0.0.0.0"]
)
def test_addresses_that_are_not_public_are_refused_before_they_are_connected_to(site: Any, host: str) -> None:
    settings(site.home, private=False)
    server = Web()
    with web(server) as port:
        _subscribe(site, port, scheme="https", host=host)
        (failed,) = site.deliver()
    assert "is not public" in (failed.error or "")
    assert failed.parked
    assert server.conversations == 0


PUBLIC = (
    *("93.184.215.14", "2606:2800:220:1::1", "::ffff:93.184.215.14", "64:ff9b::5db8:d70e", "2002:5db8:d70e::1"),
    *("2606:2800::5efe:5db8:d70e",),
)
NOT_PUBLIC = (
    *("10.0.0.1", "100.64.0.1", "169.254.169.254", "224.0.0.1", "240.0.0.1", "0.0.0.0", "198.18.0.1", "192.0.0.8"),
    *("::", "::1", "fe80::1%eth0", "fc00::1", "fec0::1", "ff02::1", "ff0e::1", "100::1", "2001:db8::1", "3fff::1"),
    *("::127.0.0.1", "::93.184.215.14", "::ffff:127.0.0.1", "::ffff:0:10.0.0.1", "::ffff:169.254.169.254"),
    *("64:ff9b::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "64:ff9b:1::5db8:d70e", "64:ff9b:1:1::a00:1"),
    *("64:ff9b:2::1", "2002:a00:1::1", "2002:7f00:1::", "2002:a9fe:a9fe::1", "4000::1"),
    # Teredo (RFC 4380): the server's address stands in bits 32 to 63, the client's inverted in bits 96 to 127.
    *("2001:0:5db8:d70e:0:0:f5ff:fffe", "2001:0:a00:1:0:0:a247:28f1"),
    *("2606:2800::5efe:10.0.0.1", "2606:2800::200:5efe:7f00:1"),
)


@pytest.mark.parametrize(("addresses", "public"), [(PUBLIC, True), (NOT_PUBLIC, False)], ids=["public", "not"])
def test_an_address_is_public_where_each_that_is_embedded_in_it_is(addresses: tuple[str, ...], public: bool) -> None:
    assert [each for each in addresses if is_public(each) != public] == []


def test_a_name_that_changes_its_meaning_is_judged_where_it_is_connected_to(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings(site.home, private=False)
    server, asked = Web(), []

    def rebinding(host: str, port: int, **_: object) -> list[Any]:
        asked.append(host)
        address = "93.184.215.14" if len(asked) > 1 else "127.0.0.1"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(conversation.socket, "getaddrinfo", rebinding)
    with web(server) as port:
        _subscribe(site, port, scheme="https", host="rebound.example.com")
        (failed,) = site.deliver()
    assert "has the address 127.0.0.1, which is not public" in (failed.error or "")
    assert (server.conversations, asked) == (0, ["rebound.example.com"])


def test_certificates_are_looked_at(waiting: Any, tmp_path: Path) -> None:
    server = Web()
    with web(server, server_context("other.example.com")) as port:
        _subscribe(waiting, port, scheme="https")
        for more in ({}, {"ca_file": trusted(tmp_path)}):
            settings(waiting.home, **more)
            (failed,) = waiting.deliver(0 if not more else LATER)
            assert "certificate is not trusted" in (failed.error or "")
    assert server.requests == []
    waiting.writer.queries.remove("q", 0)
    with web(Web(), server_context("127.0.0.1")) as port:
        _subscribe(waiting, port, scheme="https")
        assert [done.error for done in waiting.deliver(2 * LATER)] == [None]


@pytest.mark.parametrize("point", ["delivery.opened", "webhook.begun", "webhook.sent", "webhook.answered"])
def test_a_kill_at_any_step_loses_nothing_and_keeps_the_id(waiting: Any, point: str) -> None:
    server = Web()
    with web(server) as port:
        _subscribe(waiting, port)
        waiting.killed(point)
        waiting.deliver(0)
        waiting.deliver(LATER)
    assert {each.headers["webhook-id"].partition(".")[2] for each in server.requests if each.body} == {"1-1-3"}
    assert waiting.catalog.outbox.unsent() == ()
    assert waiting.catalog.subscriptions.all()[0].delivered == 3


def test_slack_and_teams_get_a_text_that_mentions_nobody(waiting: Any) -> None:
    server = Web()
    with web(server) as port:
        settings(waiting.home, secret=SECRET)
        _subscribe(waiting, port, form="#as=slack")
        waiting.deliver()
    lines = json.loads(server.requests[0].body)["text"].splitlines()
    assert lines[0] == "q: 3 new answers, 3 in all"
    assert lines[1].endswith("n: 1 · s: text 1")
    assert "webhook-signature" not in server.requests[0].headers
    hostile = json.loads(text_json(message(("<!channel> `x` \x1b",), count=9)))["text"]
    assert "&lt;!channel&gt; 'x' \\x1b" in hostile
    assert "… and 8 more: weft results q --after 5" in hostile


def test_a_test_message_says_that_it_is_one(waiting: Any) -> None:
    server = Web()
    with web(server) as port:
        channel, reason = send_test(f"webhook:http://127.0.0.1:{port}", waiting.home, "5f0c", "ann", 0)
    assert (channel, reason) == (f"webhook:http://127.0.0.1:{port}/", f"127.0.0.1:{port} responded 200 OK taken")
    assert json.loads(server.requests[0].body)["type"] == "weft.test"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ftp://example.com", "is not an http or https URL"),
        ("https://", "is not an http or https URL"),
        ("https://example.com:x/", "is not a URL"),
        ("https://ann:secret@example.com/", "must not contain a user or password"),
        ("https://example.com/\r\nX: y", "printable ASCII"),
        ("https://example.com/#as=irc", "not an option of a webhook"),
        ("http://example.com/", "is not encrypted"),
    ],
)
def test_an_invalid_destination_is_refused(text: str, reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        parse_destination(text, Configuration())


def test_a_destination_has_one_name() -> None:
    for text in ("https://Example.com", "HTTPS://example.com:443/"):
        assert parse_destination(text, Configuration()).text == "webhook:https://example.com/"
    found = parse_destination("https://[2001:db8::1]:8443/a?b=c#as=teams", Configuration())
    assert (found.text, found.host) == ("webhook:https://[2001:db8::1]:8443/a?b=c#as=teams", "2001:db8::1")


def test_no_secret_is_shown_and_an_invalid_one_is_refused(site: Any) -> None:
    with pytest.raises(Refused, match=r"webhook.secret is not set"):
        canonical("webhook:https://example.com/", site.home)
    assert canonical("webhook:https://example.com/#as=slack", site.home) == "webhook:https://example.com/#as=slack"
    (site.home / "weft.toml").write_text('[webhook]\nsecret = "whsec_"\n')
    with pytest.raises(Refused, match=r"webhook.secret"):
        canonical("webhook:https://example.com/", site.home)
