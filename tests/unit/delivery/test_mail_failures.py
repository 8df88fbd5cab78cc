"""Servers that refuse, stall and go, in real conversations: nothing is lost, and what may have gone has the same id."""

from __future__ import annotations

import random
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mail_server import DRIP, DROP, HANG, HANG_SECONDS, TORN, Letter, Post, Script, scripted, serving, took, trusted
from unit.delivery.test_mail import ANN, BO, settings
from weft.catalog.subscriptions import Subscription

pytestmark = pytest.mark.filterwarnings("ignore:Requiring AUTH")
SECOND = 1_000_000
LATER = 3_600 * SECOND


@pytest.fixture
def waiting(site: Any) -> Any:
    """A home with three answers to send."""
    settings(site.home, 1)
    site.tick(site.install("q", f"email:{ANN}"), 3)
    return site


def subscribed(site: Any) -> Subscription:
    (found,) = site.catalog.subscriptions.all()
    return found


def taken_later(site: Any, at: int = LATER) -> Post:
    """An honest server, to which everything goes in the end."""
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        (done,) = site.deliver(at)
    assert (done.rows, done.error) == (3, None)
    assert site.catalog.outbox.unsent() == ()
    return post


NOT_YET = [
    ({"greeting": "421 too busy"}, "421 too busy"),
    ({"greeting": DROP}, "the server closed the connection"),
    ({"greeting": "554 go away"}, "554 go away"),
    ({"EHLO": "421 closing", "HELO": "421 closing"}, "421 closing"),
    ({"EHLO": DROP}, "the server closed the connection"),
    ({"MAIL": "451 later"}, "refused the sender weft@example.com: 451 later"),
    ({"MAIL": DROP}, "the server closed the connection"),
    ({"RCPT": "450 greylisted"}, f"refused {ANN}: 450 greylisted"),
    ({"RCPT": DROP}, "the server closed the connection"),
    ({"DATA": "451 disk full"}, "refused the text: 451 disk full"),
    ({"DATA": DROP}, "the server closed the connection"),
    ({"text": DROP}, ""),
    ({".": "452 no room"}, "refused the text: 452 no room"),
]


@pytest.mark.parametrize(("says", "result"), NOT_YET, ids=lambda each: str(each)[:40])
def test_what_did_not_go_is_tried_again_later(waiting: Any, says: dict[str, str], result: str) -> None:
    script = Script(says)
    with scripted(script) as port:
        settings(waiting.home, port)
        (failed,) = waiting.deliver()
    assert result in (failed.error or "")
    assert (failed.rows, failed.parked) == (0, False)
    (entry,) = waiting.catalog.outbox.unsent()
    # The text of one that goes in the middle may be whole on its way: then nobody knows.
    assert entry.state in (("failed", "unknown") if "text" in says else ("failed",))
    assert 0 < (subscribed(waiting).next_attempt_at or 0) <= 12.5 * SECOND
    post = taken_later(waiting)
    assert len(post.letters) == 1
    assert post.letters[0].message["Message-ID"].startswith("<1-1-3@")


FOR_GOOD = [
    ({"MAIL": "550 not from you"}, "refused the sender weft@example.com: 550 not from you"),
    ({"RCPT": "550 5.1.1 no such user"}, f"refused {ANN}: 550 5.1.1 no such user"),
    ({"DATA": "554 no valid recipients"}, "refused the text: 554"),
    ({".": "554 looks like spam"}, "refused the text: 554 looks like spam"),
]


@pytest.mark.parametrize(("says", "result"), FOR_GOOD, ids=lambda each: str(each)[:40])
def test_a_permanent_rejection_parks_the_channel_until_it_is_resumed(
    waiting: Any, says: dict[str, str], result: str
) -> None:
    with scripted(Script(says)) as port:
        settings(waiting.home, port)
        (failed,) = waiting.deliver()
        assert result in (failed.error or "")
        assert failed.parked
        assert waiting.deliver(LATER) == []
    waiting.writer.subscriptions.resume(1)
    assert len(taken_later(waiting).letters) == 1


@pytest.mark.parametrize("lost", [DROP, HANG, TORN])
def test_an_answer_that_is_lost_after_the_text_is_unknown_and_goes_again_with_the_same_id(
    waiting: Any, lost: str
) -> None:
    script = Script({".": lost})
    with scripted(script) as port:
        settings(waiting.home, port, timeout=0.3)
        (failed,) = waiting.deliver()
        script.over.set()
    assert "no reply after the end of the text" in (failed.error or "")
    assert [each.state for each in waiting.catalog.outbox.unsent()] == ["unknown"]
    held = subscribed(waiting)
    assert (held.state, held.delivered) == ("active", 0)
    assert "the answers 1 to 3 may have been sent" in (held.last_error or "")
    assert "sends the answers again under the same id" in (held.last_error or "")
    assert waiting.deliver(held.next_attempt_at - 1) == []  # type: ignore[operator]
    again = taken_later(waiting).letters
    (first,) = script.letters
    assert again[0].message["Message-ID"].encode() in first


def test_an_answer_that_is_lost_is_held_where_the_subscription_says_so(site: Any) -> None:
    site.tick(site.install("q", f"email:{ANN}?unknown=hold"), 3)
    with scripted(Script({".": DROP})) as port:
        settings(site.home, port)
        (failed,) = site.deliver()
    assert failed.parked
    assert "`weft resume` sends the answers again" in (subscribed(site).last_error or "")
    assert site.deliver(LATER) == []
    site.writer.subscriptions.resume(1)
    assert len(taken_later(site).letters) == 1


@pytest.mark.parametrize("word", ["greeting", "EHLO", "MAIL", "RCPT", "DATA", "text"])
@pytest.mark.parametrize("how", [HANG, DRIP])
def test_a_server_that_stalls_is_left_soon(waiting: Any, word: str, how: str) -> None:
    script = Script({word: how})
    with scripted(script) as port:
        settings(waiting.home, port, timeout=0.3)
        assert took(waiting.deliver) < HANG_SECONDS / 2
        script.over.set()
    assert subscribed(waiting).next_attempt_at is not None
    assert len(taken_later(waiting).letters) == 1


def test_nobody_gets_a_letter_of_which_one_is_refused(site: Any) -> None:
    site.tick(site.install("q", f"email:{ANN},{BO}"), 3)
    post = Post(refuses={BO: "450 try later"})
    with serving(post) as port:
        settings(site.home, port)
        (failed,) = site.deliver()
        assert f"refused {BO}: 450 try later" in (failed.error or "")
        assert post.letters == []
        post.refuses.clear()
        site.deliver(LATER)
    assert [each.recipients for each in post.letters] == [[ANN, BO]]


@pytest.fixture
def authority(tmp_path: Path) -> Path:
    return trusted(tmp_path)


def _failed(site: Any, port: int, **more: object) -> str:
    settings(site.home, port, **more)
    (failed,) = site.deliver()
    assert not failed.parked
    assert [each.state for each in site.catalog.outbox.unsent()] == ["failed"]
    return failed.error or ""


@pytest.mark.parametrize("tls", ["implicit", "starttls"])
def test_a_certificate_of_another_name_or_authority_is_refused(waiting: Any, authority: Path, tls: str) -> None:
    post = Post()
    with serving(post, **{tls: "mail.example.com"}) as port:  # type: ignore[arg-type]
        result = _failed(waiting, port, tls=tls, ca_file=authority)
        assert "certificate is not trusted" in result and "smtp.ca_file" in result
    waiting.writer.subscriptions.resume(1)
    with serving(post, **{tls: "127.0.0.1"}) as port:  # type: ignore[arg-type]
        assert "certificate is not trusted" in _failed(waiting, port, tls=tls)
    assert post.letters == []
    assert len(taken_later(waiting).letters) == 1


def test_a_server_without_starttls_gets_nothing(waiting: Any) -> None:
    script = Script({})
    with scripted(script) as port:
        assert "STARTTLS" in _failed(waiting, port, tls="starttls")
    assert not any(each.startswith(("MAIL", "AUTH")) for each in script.heard)


def test_a_server_that_refuses_starttls_gets_nothing(waiting: Any) -> None:
    script = Script({"EHLO": "250-here\r\n250 STARTTLS", "STARTTLS": "454 not now"})
    with scripted(script) as port:
        assert "454 not now" in _failed(waiting, port, tls="starttls")
    assert not any(each.startswith(("MAIL", "AUTH")) for each in script.heard)


def test_a_server_without_tls_is_reported_as_such(waiting: Any) -> None:
    with scripted(Script({})) as port:
        assert "the TLS handshake failed" in _failed(waiting, port, tls="implicit")


def test_a_server_that_stalls_in_the_beginning_of_tls_is_left_soon(waiting: Any) -> None:
    script = Script({"greeting": HANG})
    with scripted(script) as port:
        assert took(lambda: _failed(waiting, port, tls="implicit", timeout=0.3)) < HANG_SECONDS / 2
        script.over.set()


def test_refused_credentials_are_reported_without_the_password(waiting: Any) -> None:
    with serving(Post(), login=True) as port:
        result = _failed(waiting, port, user="weft", password="close barley")
    assert "refused the login: 535" in result
    assert "barley" not in result


def test_a_server_that_asks_for_credentials_that_it_does_not_get(waiting: Any) -> None:
    with serving(Post(), login=True) as port:
        settings(waiting.home, port)
        (failed,) = waiting.deliver()
    assert "530" in (failed.error or "")


def test_what_a_server_says_does_nothing_to_a_terminal(waiting: Any) -> None:
    with scripted(Script({"RCPT": "450 \x1b[2Jgone " + "x" * 1_000})) as port:
        settings(waiting.home, port)
        (failed,) = waiting.deliver()
    assert "\x1b" not in (failed.error or "")
    assert len(failed.error or "") < 500


def test_no_server_at_all(waiting: Any) -> None:
    assert "cannot be reached" in _failed(waiting, 1)
    waiting.writer.subscriptions.resume(1)
    settings(waiting.home, 1, host="no-such-host.invalid")
    (failed,) = waiting.deliver()
    assert "cannot be reached" in (failed.error or "")


@pytest.mark.parametrize("word", ["greeting", "RCPT", "DATA", "."])
def test_one_that_stalls_is_waited_for_once_and_keeps_no_file_waiting(site: Any, word: str) -> None:
    for number in range(5):
        site.tick(site.install(f"q{number}", f"email:{ANN}"), 1)
    site.tick(site.install("file", "file:a.jsonl"), 1)
    script = Script({word: HANG})
    with scripted(script) as port:
        settings(site.home, port, timeout=0.4)
        done: list[Any] = []
        done.extend(site.deliver())
        script.over.set()
    assert site.ordinals("a.jsonl") == [1]
    assert [each.query_name for each in done if each.error] == ["q0"]
    assert script.conversations == 1
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        site.deliver(LATER)
    assert len(post.letters) == 5


def test_a_tick_and_a_load_do_not_wait_for_a_server_that_stalls(waiting: Any) -> None:
    script = Script({"DATA": HANG})
    with scripted(script) as port:
        settings(waiting.home, port, timeout=15)
        carrier = threading.Thread(target=waiting.deliver)
        carrier.start()
        while not any(each.startswith("DATA") for each in script.heard):
            assert carrier.is_alive()
        waiting.tick(1, 2)
        assert carrier.is_alive()
        script.over.set()
        carrier.join()
    post = Post()
    with serving(post) as port:
        settings(waiting.home, port)
        waiting.deliver(LATER)
    assert [each.message["Message-ID"].split("@")[0] for each in post.letters] == ["<1-1-3", "<1-4-5"]


def test_settings_that_disappear_are_reported_and_nothing_is_lost(waiting: Any) -> None:
    (waiting.home / "weft.toml").unlink()
    (failed,) = waiting.deliver()
    assert "smtp.host is not set" in (failed.error or "")
    assert len(taken_later(waiting).letters) == 1


MAIL_POINTS = (
    *("delivery.opened", "mail.accepted", "mail.data", "mail.ended"),
    *("delivery.written", "delivery.marked"),
)


@pytest.fixture
def honest(waiting: Any) -> Iterator[Post]:
    post = Post()
    with serving(post) as port:
        settings(waiting.home, port)
        yield post


@pytest.mark.parametrize("point", MAIL_POINTS)
def test_a_kill_at_any_step_loses_nothing_and_repeats_with_the_same_id_only(
    waiting: Any, honest: Post, point: str
) -> None:
    waiting.killed(point)
    waiting.deliver(SECOND)
    waiting.deliver(LATER)
    assert waiting.catalog.outbox.unsent() == ()
    assert subscribed(waiting).delivered == 3
    ids = {each.message["Message-ID"] for each in honest.letters}
    assert len(ids) == 1
    assert len(honest.letters) <= 2


def test_a_kill_again_and_again_keeps_the_id(waiting: Any, honest: Post) -> None:
    at = 0
    for point in ("mail.ended", "delivery.recovered", "delivery.written", "mail.data"):
        waiting.killed(point, at)
        if point != "mail.ended":  # it is killed once more as it is settled
            waiting.deliver(at)
            at += LATER
    waiting.deliver(at)
    waiting.tick(1, 2)
    waiting.deliver(at + 1)
    ids = [each.message["Message-ID"] for each in honest.letters]
    assert [each.split("@")[0] for each in dict.fromkeys(ids)] == ["<1-1-3", "<1-4-5"]
    assert subscribed(waiting).delivered == 5


FLAKY = ({}, {}, {".": DROP}, {".": TORN}, {"RCPT": "450 later"}, {"DATA": DROP}, {"greeting": DROP}, {".": "452 full"})


def _of_a_chance(site: Any, seed: int, rounds: int) -> list[Letter]:
    """Ticks, letters and kills at random points, at servers that often do not do their part; what they took."""
    chance, at, taken = random.Random(seed), 0, list[Letter]()
    for _ in range(rounds):
        at += LATER
        if chance.random() < 0.6:
            site.tick(1, chance.randint(1, 3))
        script = Script(chance.choice(FLAKY))
        with scripted(script) as port:
            settings(site.home, port)
            if chance.random() < 0.5 and subscribed(site).delivered < site.catalog.queries.by_id(1).rows:
                site.killed(chance.choice(MAIL_POINTS), at, certainly=False)
            else:
                site.deliver(at)
        _resume(site)
        taken += [Letter("", [], content) for content in script.letters]
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        for _ in range(3):  # it settles what was under way, sends that, sends the rest
            at += LATER
            site.deliver(at)
            _resume(site)
    return [*taken, *post.letters]


def _resume(site: Any) -> None:
    """What a person does who sees that a channel is parked."""
    if subscribed(site).state == "parked":
        site.writer.subscriptions.resume(1)


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(3, 60))])
def test_kills_at_random_lose_nothing_and_a_letter_says_the_same_each_time(waiting: Any, seed: int) -> None:
    letters = _of_a_chance(waiting, seed, 10)
    rows = waiting.catalog.queries.by_id(1).rows
    assert subscribed(waiting).delivered == rows
    said: dict[str, list[str]] = {}
    for each in letters:
        shown = re.findall(r"text \d+$", each.text, re.MULTILINE)
        assert said.setdefault(each.message["Message-ID"], shown) == shown
    assert sorted(row for shown in said.values() for row in shown) == sorted(f"text {n + 1}" for n in range(rows))


def test_a_letter_that_may_have_gone_waits_for_a_person_after_a_kill_too(site: Any) -> None:
    post = Post()
    with serving(post) as port:
        settings(site.home, port)
        site.tick(site.install("q", f"email:{ANN}?unknown=hold"), 3)
        site.killed("mail.ended")
        assert site.deliver(LATER) == []
        assert subscribed(site).state == "parked"


def test_sending_ends_no_thread_and_leaves_none(waiting: Any, honest: Post) -> None:
    before = threading.active_count()
    waiting.deliver()
    until = time.monotonic() + 30
    while threading.active_count() > before and time.monotonic() < until:
        time.sleep(0.01)  # the thread that would have ended the conversation has its message, and ends
    assert threading.active_count() <= before
