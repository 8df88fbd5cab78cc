"""What a message says is fixed when it is created: its attempts differ in their signature alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from standardwebhooks import Webhook

from mail_server import DROP, Letter, Post, Script, scripted, serving
from unit.delivery import test_mail, test_webhook
from unit.delivery.test_mail import ANN
from unit.delivery.test_webhook import SECRET
from web_server import DROP_AFTER, Web, web
from weft.catalog import ddl
from weft.delivery.channel import JITTER
from weft.delivery.outbox import deliver
from weft.delivery.registry import canonical

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")
SECOND = 1_000_000
LATER = 3_600 * SECOND


def _go_on(site: Any) -> None:
    """More answers arrive, the query gets another text and owner, and its owner another time zone."""
    site.tick(1, 4)
    with site.writer._database.changing_under_lease() as connection:
        connection.execute(update(ddl.queries).values(sql="SELECT n, s FROM other", user="bo"))
    with (site.home / "weft.toml").open("a") as file:
        file.write(f'[users.ann]\nemail = "{ANN}"\nzone = "Asia/Tokyo"\n')


@pytest.mark.parametrize("says", ["500 Oops", DROP_AFTER])
@pytest.mark.parametrize("form", ["", "#as=slack", "#as=teams"])
def test_a_webhook_that_is_tried_again_says_the_same(site: Any, form: str, says: str) -> None:
    server = Web([says, "200 OK"])
    test_webhook.settings(site.home, timeout=2)
    with web(server) as port:
        site.tick(site.install("q", canonical(f"webhook:http://127.0.0.1:{port}/{form}", site.home)), 3)
        site.deliver()
        _go_on(site)
        site.deliver(LATER)
    first, again, new = server.requests
    assert first.body == again.body
    assert new.body != again.body
    if form == "":
        assert [json.loads(each.body)["data"]["total"] for each in server.requests] == [3, 3, 7]
        assert [each.headers["webhook-id"].partition(".")[2] for each in server.requests] == ["1-1-3", "1-1-3", "1-4-7"]
    else:
        assert json.loads(again.body)["text"].startswith("q: 3 new answers, 3 in all")


@pytest.mark.parametrize("says", ["452 no room", DROP])
def test_a_letter_that_is_tried_again_is_the_same_byte_by_byte(site: Any, says: str) -> None:
    script, post = Script({".": says}), Post()
    site.tick(site.install("q", f"email:{ANN}"), 3)
    with scripted(script) as port:
        test_mail.settings(site.home, port)
        site.deliver()
    with serving(post) as port:
        test_mail.settings(site.home, port)
        _go_on(site)
        site.deliver(LATER)
    (first,) = script.letters
    again, new = post.letters
    assert first == again.content
    assert "q: 3 new answers, 3 in all. Instants are in UTC." in again.text
    assert "q: 4 new answers, 7 in all. Instants are in Asia/Tokyo." in new.text


@pytest.mark.parametrize("point", ["delivery.opened", "mail.ended", "delivery.written"])
def test_a_letter_of_a_process_that_was_killed_is_the_same(site: Any, point: str) -> None:
    post = Post()
    site.tick(site.install("q", f"email:{ANN}"), 3)
    with serving(post) as port:
        test_mail.settings(site.home, port)
        site.killed(point)
        _go_on(site)
        for at in (SECOND, LATER):
            site.deliver(at)
    *tries, new = post.letters
    assert {each.text.splitlines()[0] for each in tries} == {"q: 3 new answers, 3 in all. Instants are in UTC."}
    assert len({each.content for each in tries}) == 1
    assert "4 new answers, 7 in all" in new.text


def test_a_muted_channel_and_a_digest_keep_what_a_message_says(site: Any) -> None:
    script, post = Script({".": "452 no room"}), Post()
    query = site.install("q")
    subscription = site.writer.subscriptions.add(query, f"email:{ANN}", 0, digest="hourly", zone="UTC")
    with scripted(script) as port:
        test_mail.settings(site.home, port)
        site.deliver(0)
        site.tick(query, 3)
        site.deliver(LATER)
    site.writer.subscriptions.set_muted(subscription.sub_id, True)
    _go_on(site)
    assert site.deliver(2 * LATER) == []
    site.writer.subscriptions.set_muted(subscription.sub_id, False)
    with serving(post) as port:
        test_mail.settings(site.home, port)
        for hour in (3, 4, 5):
            site.deliver(hour * LATER)
    again, new = post.letters
    assert script.letters == [again.content]
    assert "4 new answers, 7 in all" in new.text


def test_a_redelivery_is_a_new_message_with_the_present_content(site: Any) -> None:
    script, post = Script({".": DROP}), Post()
    site.tick(site.install("q", f"email:{ANN}"), 3)
    with scripted(script) as port:
        test_mail.settings(site.home, port)
        site.deliver()
    _go_on(site)
    site.sender.subscriptions.go_to(1, 0)
    with serving(post) as port:
        test_mail.settings(site.home, port)
        site.deliver(LATER)
    first = Letter("", [], script.letters[0])
    (again,) = post.letters
    assert again.message["Message-ID"] != first.message["Message-ID"]
    assert "q: 7 new answers, 7 in all" in again.text


def test_a_command_that_is_tried_again_gets_the_same(site: Any, tmp_path: Path) -> None:
    script, seen = tmp_path / "take.py", tmp_path / "seen.jsonl"
    script.write_text(
        "import json, os, sys\n"
        f"with open({str(seen)!r}, 'a') as file:\n"
        "    got = [os.environ['WEFT_QUERY'], os.environ['WEFT_MESSAGE_ID'], sys.stdin.read()]\n"
        "    file.write(json.dumps(got) + '\\n')\n"
        f"sys.exit(len(open({str(seen)!r}).readlines()) == 1)\n"
    )
    command = f"{sys.executable} {script}"
    (site.home / "weft.toml").write_text(f"[exec]\ncommands = [{json.dumps(command)}]\n")
    site.tick(site.install("q", canonical(f"exec:{command}", site.home)), 3)
    site.deliver()
    _go_on(site)
    site.deliver(LATER)
    first, again, new = (json.loads(line) for line in seen.read_text().splitlines())
    assert first == again
    assert new[1] != again[1]


class _Clock:
    """A wall's clock that goes on by ten minutes whenever it is read."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> int:
        self.at += 600 * SECOND
        return self.at


def test_a_long_run_signs_each_attempt_and_counts_its_pauses_from_then(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("weft.delivery.outbox.MESSAGE_ROWS", 1)
    server, clock = Web(["200 OK", "200 OK", "500 Oops"]), _Clock(1_700_000_000 * SECOND)
    test_webhook.settings(site.home)
    begun = clock.at
    with web(server) as port:
        site.tick(site.install("q", canonical(f"webhook:http://127.0.0.1:{port}/", site.home)), 3)
        deliver(site.catalog, site.home, begun, sender=site.sender, clock=clock)
    stamps = [int(each.headers["webhook-timestamp"]) * SECOND for each in server.requests]
    assert all(later - earlier >= 600 * SECOND for earlier, later in zip([begun, *stamps], stamps, strict=False))
    (found,) = site.catalog.subscriptions.all()
    assert found.delivered == 2
    pause = found.next_attempt_at - stamps[-1]
    assert 5 * SECOND <= pause - 600 * SECOND <= 5 * (1 + JITTER) * SECOND
    sent = [each.sent_at for each in site.catalog.outbox.latest([1], 20) if each.state == "sent"]
    assert min(sent) > begun


def test_the_signature_is_that_of_the_attempt_and_the_text_that_of_the_message(site: Any) -> None:
    import time

    now = int(time.time()) * SECOND
    server = Web(["500 Oops", "200 OK"])
    test_webhook.settings(site.home)
    with web(server) as port:
        site.tick(site.install("q", canonical(f"webhook:http://127.0.0.1:{port}/", site.home)), 3)
        site.deliver(now - LATER)
        site.deliver(now)
    first, again = server.requests
    assert Webhook(SECRET).verify(again.body, again.headers)
    assert first.body == again.body
    assert first.headers["webhook-signature"] != again.headers["webhook-signature"]
