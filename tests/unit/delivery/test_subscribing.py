"""Who gets answers: several on one query, muted ones, those that start from the present; and how the home does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from answered import answered
from definitions import definition
from mail_server import HANG, Post, Script, scripted, serving
from unit.delivery.test_mail import ANN, settings
from weft.algebra.schema import BIGINT, STRING
from weft.api import Weft
from weft.api import health as health_module
from weft.delivery.channel import DOUBLING, JITTER
from weft.delivery.file import FileChannel
from weft.delivery.outbox import deliver
from weft.errors import Conflict, DeliveryError, NotFound, Refused

SECOND = 1_000_000
LATER = 10**15


@pytest.fixture
def clock() -> list[int]:
    """The wall's time, which tests set."""
    return [0]


@pytest.fixture
def weft(tmp_path: Path, clock: list[int]) -> Iterator[Weft]:
    """A home with the query q, which has three answers and goes nowhere yet."""
    with Weft.open(tmp_path / "home", clock="replay", wall=lambda: clock[0], create=True) as opened:
        _install(opened, "q")
        answered(opened, "q", 3)
        yield opened


def _install(weft: Weft, name: str, *channels: str) -> None:
    with weft.catalog.writing("install", weft.clock) as writer:
        columns = (("n", BIGINT), ("s", STRING))
        writer.queries.install(definition(name, columns=columns, channels=channels), 0)


def _ordinals(weft: Weft, name: str) -> list[int]:
    file = weft.home / "files" / name
    return [json.loads(line)["_ordinal"] for line in file.read_text().splitlines()] if file.exists() else []


def test_each_subscriber_begins_now_or_at_the_start_and_goes_on_alone(weft: Weft) -> None:
    weft.subscribe("q", "file:new.jsonl")
    weft.subscribe("q", "file:all.jsonl", from_start=True)
    weft.deliver()
    assert (_ordinals(weft, "new.jsonl"), _ordinals(weft, "all.jsonl")) == ([], [1, 2, 3])
    answered(weft, "q", 2)
    weft.deliver()
    assert (_ordinals(weft, "new.jsonl"), _ordinals(weft, "all.jsonl")) == ([4, 5], [1, 2, 3, 4, 5])
    weft.unsubscribe("Q", "file:./all.jsonl")
    answered(weft, "q", 1)
    weft.deliver()
    assert (_ordinals(weft, "new.jsonl"), _ordinals(weft, "all.jsonl")) == ([4, 5, 6], [1, 2, 3, 4, 5])
    assert [each.subscription.channel for each in weft.deliveries("q")] == ["file:new.jsonl"]


def test_channels_are_listed_page_by_page(weft: Weft) -> None:
    ids = [weft.subscribe("q", f"file:{name}.jsonl", from_start=True).sub_id for name in "abc"]
    weft.deliver()
    first = weft.deliveries(limit=1, channels=2)
    assert [each.subscription.sub_id for each in first] == ids[:2]
    assert sum(len(each.messages) for each in first) == 1
    assert [each.subscription.sub_id for each in weft.deliveries(after=ids[1], channels=2)] == ids[2:]


def test_health_counts_channels_and_names_few(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.api.health._PARKED", 1)
    made = [weft.subscribe("q", f"file:{name}.jsonl", from_start=True) for name in "abcde"]
    weft.mute("q", made[2].channel)
    with weft.catalog.delivering(weft.clock, wait_us=0) as sender:
        for each, again in zip(made[:2] + made[3:4], (None, None, 10**18), strict=True):
            sender.subscriptions.note_failure(each.sub_id, "no disk", again)
    found = weft.health()
    assert (found.parked, found.failed, found.muted, found.due) == (2, 1, 1, 1)
    assert found.problems[-2:] == (
        "file:a.jsonl of q is parked: no disk",
        "1 more channel is parked: see `weft deliveries`",
    )


def test_one_who_comes_back_begins_as_a_new_one_does(weft: Weft) -> None:
    first = weft.subscribe("q", "file:a.jsonl", from_start=True)
    weft.deliver()
    weft.unsubscribe("q", "file:a.jsonl")
    answered(weft, "q", 1)
    again = weft.subscribe("q", "file:a.jsonl")
    assert (again.sub_id, again.delivered) == (first.sub_id, 4)
    weft.unsubscribe("q", "file:a.jsonl")
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    weft.deliver()
    assert _ordinals(weft, "a.jsonl") == [1, 2, 3, 1, 2, 3, 4]
    ids = [message.idempotency_key for message in weft.deliveries("q")[0].messages]
    assert ids == [f"{first.sub_id}-1-4-2", f"{first.sub_id}-1-3"]


def test_an_invalid_subscription_is_refused(weft: Weft) -> None:
    _install(weft, "other", "file:taken.jsonl")
    weft.subscribe("q", "file:a.jsonl")
    for name, to, error, reason in (
        ("q", "file:a.jsonl", Conflict, "file:a.jsonl is already a channel of the query"),
        ("q", "file:taken.jsonl", Conflict, "'other' already writes to file:taken.jsonl"),
        ("q", "cursor", Refused, "every query has a cursor"),
        ("q", "fil:a.jsonl", Refused, "did you mean file"),
        ("p", "file:b.jsonl", NotFound, "p"),
    ):
        with pytest.raises(error, match=reason):
            weft.subscribe(name, to)
    weft.unsubscribe("other", "file:taken.jsonl")
    weft.subscribe("q", "file:taken.jsonl")
    with pytest.raises(NotFound, match="do not go to file:b") as found:
        weft.unsubscribe("q", "file:b.jsonl")
    assert found.value.hint == "The answers go to file:a.jsonl, file:taken.jsonl."


def test_a_muted_channel_gets_nothing_and_then_what_waited(weft: Weft) -> None:
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    weft.subscribe("q", "file:b.jsonl", from_start=True)
    weft.mute("q", "file:a.jsonl")
    weft.deliver()
    assert (_ordinals(weft, "a.jsonl"), _ordinals(weft, "b.jsonl")) == ([], [1, 2, 3])
    with pytest.raises(Conflict, match="already muted"):
        weft.mute("q", "file:a.jsonl")
    with pytest.raises(Conflict, match="is muted"):
        weft.redeliver("q", "file:a.jsonl")
    weft.unmute("q")
    weft.deliver()
    assert _ordinals(weft, "a.jsonl") == [1, 2, 3]
    weft.mute("q")
    answered(weft, "q", 2)
    weft.unmute("q", "file:a.jsonl", skip=True)
    answered(weft, "q", 1)
    weft.unmute("q")
    weft.deliver()
    assert (_ordinals(weft, "a.jsonl"), _ordinals(weft, "b.jsonl")) == ([1, 2, 3, 6], [1, 2, 3, 4, 5, 6])
    with pytest.raises(Conflict, match="is not muted"):
        weft.unmute("q", skip=True)


def test_answers_go_again_from_an_ordinal_on_under_new_ids(weft: Weft) -> None:
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    weft.subscribe("q", "file:b.jsonl", from_start=True)
    weft.deliver()
    (again,) = weft.redeliver("q", "file:a.jsonl", from_ordinal=2)
    assert again.waiting == 2
    weft.deliver()
    assert (_ordinals(weft, "a.jsonl"), _ordinals(weft, "b.jsonl")) == ([1, 2, 3, 2, 3], [1, 2, 3])
    for wrong in (0, 4):
        with pytest.raises(Refused, match=f"has no answer number {wrong}") as found:
            weft.redeliver("q", from_ordinal=wrong)
        assert found.value.hint == "Choose a number from 1 to 3."
    assert len(weft.redeliver("q")) == 2
    weft.deliver()
    assert _ordinals(weft, "b.jsonl") == [1, 2, 3, 1, 2, 3]
    keys = [message.idempotency_key for each in weft.deliveries("q") for message in each.messages]
    assert len(keys) == len(set(keys)) == 5


def test_a_table_takes_what_it_does_not_have_only(weft: Weft) -> None:
    weft.subscribe("q", "delta:mine", from_start=True)
    weft.deliver()
    weft.redeliver("q", "delta:mine")
    answered(weft, "q", 1)
    weft.deliver()
    table = DeltaTable(str(weft.home / "delta" / "mine")).to_pyarrow_table()
    assert sorted(table.column("_ordinal").to_pylist()) == [1, 2, 3, 4]
    assert weft.test_channel("delta:mine")[1].endswith("no test row was added, because the table contains answers only")
    with pytest.raises(Refused, match="mine"):
        _install(weft, "other")
        weft.subscribe("other", "delta:mine")


def test_what_did_not_go_is_withdrawn_where_a_person_has_it_go_elsewhere(weft: Weft, clock: list[int]) -> None:
    settings(weft.home, 1)
    weft.subscribe("q", f"email:{ANN}", from_start=True)
    (failed,) = weft.deliver()
    assert "cannot be reached" in (failed.error or "")
    clock[0] = LATER
    post = Post()
    with serving(post) as port:
        settings(weft.home, port)
        weft.redeliver("q", f"email:{ANN}", from_ordinal=3)
        weft.deliver()
    assert [each.message["Message-ID"].partition("@")[0] for each in post.letters] == ["<1-3-3-1"]
    (found,) = weft.deliveries("q")
    assert [(each.idempotency_key, each.state, each.attempts, each.reply) for each in found.messages] == [
        ("1-3-3-1", "sent", 1, "250 taken"),
        ("1-1-3", "withdrawn", 1, None),
    ]


def test_what_a_person_changes_while_a_message_goes_holds_from_the_next_one_on(
    weft: Weft, monkeypatch: pytest.MonkeyPatch
) -> None:
    from weft.delivery import outbox

    monkeypatch.setattr(outbox, "MESSAGE_ROWS", 1)
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    send = FileChannel.send

    def muting(channel: FileChannel, message: Any, position: str | None) -> None:
        send(channel, message, position)
        weft.mute("q")

    with monkeypatch.context() as patched:
        patched.setattr(FileChannel, "send", muting)
        (done,) = weft.deliver()
    assert (done.rows, done.error) == (1, None)
    weft.unmute("q")

    def ending(channel: FileChannel, message: Any, position: str | None) -> None:
        send(channel, message, position)
        weft.unsubscribe("q", "file:a.jsonl")
        with pytest.raises(Conflict, match="is still being delivered"):
            weft.subscribe("q", "file:a.jsonl")

    with monkeypatch.context() as patched:
        patched.setattr(FileChannel, "send", ending)
        weft.deliver()
    assert _ordinals(weft, "a.jsonl") == [1, 2]
    assert weft.catalog.outbox.unsent() == ()


@pytest.mark.parametrize("point", ["delivery.torn", "delivery.marked"])
def test_a_kill_before_a_person_begins_anew_doubles_nothing(site: Any, point: str) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 3)
    site.killed(point)
    site.writer.release()
    site.sender.release()
    with Weft.open(site.home, wall=lambda: 10, create=True) as weft:
        weft.redeliver("q", from_ordinal=3)
        sent = [1, 2, 3] if point == "delivery.marked" else []
        assert _ordinals(weft, "a.jsonl") == sent
        weft.deliver()
        assert _ordinals(weft, "a.jsonl") == [*sent, 3]


def test_pauses_grow_and_are_drawn_out_by_chance() -> None:
    plain = [DOUBLING.next_attempt(failures, 0, drawn=lambda: 0.0) for failures in range(DOUBLING.attempts)]
    assert plain == [*(10 * 2**failures * SECOND for failures in range(7)), None]
    drawn = {DOUBLING.next_attempt(3, 0) for _ in range(50)}
    assert len(drawn) > 40
    assert all(80 * SECOND <= each <= 80 * (1 + JITTER) * SECOND for each in drawn if each is not None)
    assert DOUBLING.next_attempt(0, 5, asked=60 * SECOND, drawn=lambda: 0.0) == 5 + 60 * SECOND


def test_a_test_message_says_that_it_is_one(weft: Weft) -> None:
    post = Post()
    with serving(post) as port:
        settings(weft.home, port)
        assert weft.test_channel(f"email:{ANN}") == (
            f"email:{ANN}",
            f"127.0.0.1:{port} accepted a message to {ANN}: 250 taken",
        )
    (found,) = post.letters
    assert found.message["Subject"] == "[weft] test message"
    assert "This is a test message" in found.text and "This is a test message" in found.html
    assert "unsubscribe" not in found.text + found.html
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    channel, reason = weft.test_channel("file:a.jsonl")
    assert (channel, "no test row was added" in reason, _ordinals(weft, "a.jsonl")) == ("file:a.jsonl", True, [])
    with pytest.raises(Refused, match="the cursor receives no messages"):
        weft.test_channel("Cursor")
    with scripted(Script({"RCPT": "550 no such user"})) as port, pytest.raises(DeliveryError, match="no such user"):
        settings(weft.home, port)
        weft.test_channel(f"email:{ANN}")


def test_a_home_reports_its_health(weft: Weft, clock: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert weft.health().problems == ()
    settings(weft.home, 1)
    weft.subscribe("q", "file:a.jsonl", from_start=True)
    weft.subscribe("q", f"email:{ANN}", from_start=True)
    weft.mute("q", f"email:{ANN}")
    found = weft.health()
    assert (found.due, found.failed, found.parked, found.muted, found.lag_us) == (1, 0, 0, 1, None)
    weft.deliver()
    weft.unmute("q")
    (weft.home / "weft.toml").unlink()
    weft.deliver()
    clock[0] = 1
    assert (weft.health().failed, weft.health().problems) == (1, ())
    for _ in range(DOUBLING.attempts):
        clock[0] += LATER
        weft.deliver()
    found = weft.health()
    assert (found.failed, found.parked) == (0, 1)
    assert found.problems[0].startswith(f"email:{ANN} of q is parked: smtp.host is not set")
    checks = [check for check in weft.doctor() if check.name == "deliveries"]
    assert [(check.ok, check.fix) for check in checks] == [(False, "Correct the cause, then run `weft resume q`")]
    monkeypatch.setattr(health_module, "free_bytes", lambda _: (5 << 20, 1 << 30))
    assert "has only 5 MiB free" in weft.health().problems[-1]


def test_new_rows_that_no_tick_reads_are_reported(tmp_path: Path) -> None:
    now = [1_000 * SECOND]
    source = tmp_path / "a.csv"
    source.write_text("a\n1\n")
    with Weft.open(tmp_path / "home", wall=lambda: now[0], create=True) as weft:
        weft.ingest_file(source, "t")
        weft.install("q", "SELECT a FROM t")
        assert weft.health().lag_us == 0
        now[0] += 600 * SECOND
        assert (weft.health().lag_us, weft.health().problems) == (600 * SECOND, ())
        (problem,) = weft.health(max_lag_us=300 * SECOND).problems
        assert problem == "new rows have waited 10m for a tick: is `weft run` running?"


def test_a_stalled_server_keeps_nobody_from_unsubscribing(weft: Weft) -> None:
    script = Script({"DATA": HANG})
    with scripted(script) as port:
        settings(weft.home, port, timeout=0.4)
        weft.subscribe("q", f"email:{ANN}", from_start=True)
        with weft.catalog.delivering(weft.clock) as sender:
            weft.unsubscribe("q", f"email:{ANN}")
            assert deliver(weft.catalog, weft.home, 0, sender=sender) == []
    assert script.conversations == 0
