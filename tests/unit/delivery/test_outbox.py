from __future__ import annotations

import shutil
from typing import Any

import pytest

from weft.catalog import open_catalog
from weft.delivery import outbox
from weft.delivery.channel import DOUBLING, Message
from weft.delivery.file import FileChannel
from weft.delivery.outbox import _Run, deliver, settle
from weft.errors import DeliveryError, LeaseBusy, LeaseLost

SECOND = 1_000_000
POINTS = ("delivery.opened", "delivery.torn", "delivery.written", "delivery.marked")


def test_each_answer_goes_to_each_channel_once(site: Any) -> None:
    query = site.install("q", "file:a.jsonl", "file:b.csv", "cursor")
    site.tick(query, 3)
    first = deliver(site.catalog, site.home, 0, sender=site.sender)
    assert [(each.channel, each.rows, each.last_ordinal) for each in first] == [
        ("file:a.jsonl", 3, 3),
        ("file:b.csv", 3, 3),
    ]
    assert deliver(site.catalog, site.home, 0, sender=site.sender) == []
    site.tick(query, 2)
    deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("a.jsonl") == [1, 2, 3, 4, 5]
    assert len(site.file("b.csv").read_text().splitlines()) == 6


def test_many_answers_go_in_several_messages(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "MESSAGE_ROWS", 4)
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 10)
    (done,) = deliver(site.catalog, site.home, 0, sender=site.sender)
    assert done.rows == 10
    assert site.ordinals("a.jsonl") == list(range(1, 11))
    entries = site.catalog.outbox.latest([1], 20)
    assert [(each.first_ordinal, each.last_ordinal) for each in entries] == [(9, 10), (5, 8), (1, 4)]


def test_large_answers_go_in_smaller_messages(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox, "_MESSAGE_CHARACTERS", 10)
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 5)
    deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("a.jsonl") == [1, 2, 3, 4, 5]
    assert len(site.catalog.outbox.latest([1], 20)) == 3


KILLS = [("jsonl", f"{point}:{nth}") for point in POINTS for nth in (1, 2)] + [
    ("csv", "delivery.opened"),
    ("csv", "delivery.torn"),
]


@pytest.mark.parametrize(("suffix", "point"), KILLS)
def test_a_kill_at_any_step_loses_nothing_and_doubles_nothing(site: Any, suffix: str, point: str) -> None:
    query = site.install("q", f"file:a.{suffix}")
    site.tick(query, 10)
    site.killed(point)
    site.tick(query, 3)
    deliver(site.catalog, site.home, 0, sender=site.sender)
    lines = site.file(f"a.{suffix}").read_text().splitlines()
    if suffix == "csv":
        assert [line.split(",")[0] for line in lines] == ["_ordinal", *(str(n) for n in range(1, 14))]
    else:
        assert site.ordinals("a.jsonl") == list(range(1, 14))
    assert site.catalog.outbox.unsent() == ()


def test_a_kill_while_recovering_is_recovered(site: Any) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 6)
    site.killed("delivery.torn:2")
    site.killed("delivery.recovered")
    site.killed("delivery.torn")
    deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("a.jsonl") == [1, 2, 3, 4, 5, 6]


def test_what_a_removed_query_left_is_undone_once_and_never_later(site: Any) -> None:
    first = site.install("a", "file:x.jsonl")
    site.tick(first, 6)
    site.killed("delivery.torn:2")
    site.writer.queries.remove("a", 0)
    second = site.install("b", "file:x.jsonl")
    site.tick(second, 2)
    for _ in range(3):
        deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("x.jsonl") == [1, 2, 3, 4, 1, 2]


def test_a_file_that_went_away_in_the_middle_is_unknown_until_resumed(site: Any) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 3)
    site.killed("delivery.written")
    site.file("a.jsonl").rename(site.file("taken.jsonl"))
    assert deliver(site.catalog, site.home, 0, sender=site.sender) == []
    (parked,) = site.catalog.subscriptions.all()
    assert parked.state == "parked"
    assert "may have been sent" in (parked.last_error or "")
    assert [each.state for each in site.catalog.outbox.unsent()] == ["unknown"]
    assert deliver(site.catalog, site.home, 10**12, sender=site.sender) == []
    site.writer.subscriptions.resume(parked.sub_id)
    deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("a.jsonl") == [1, 2, 3]


def test_a_failing_channel_is_tried_again_later_then_parked(site: Any) -> None:
    query = site.install("q", "file:folder/a.jsonl", "file:good.jsonl")
    site.tick(query, 2)
    site.file("folder").write_text("in the way")
    first, good = deliver(site.catalog, site.home, 0, sender=site.sender)
    assert (good.rows, good.error) == (2, None)
    assert (first.rows, first.parked) == (0, False)
    assert "a file in place of a folder" in (first.error or "")
    assert deliver(site.catalog, site.home, 10 * SECOND - 1, sender=site.sender) == []
    at = 0
    for attempt in range(2, DOUBLING.attempts + 1):
        (waiting,) = (each for each in site.catalog.subscriptions.all() if each.next_attempt_at is not None)
        assert waiting.next_attempt_at > at
        at = waiting.next_attempt_at
        (again,) = deliver(site.catalog, site.home, at, sender=site.sender)
        assert again.parked == (attempt == DOUBLING.attempts)
    assert deliver(site.catalog, site.home, 10**15, sender=site.sender) == []
    site.file("folder").unlink()
    site.writer.subscriptions.resume(1)
    (done,) = deliver(site.catalog, site.home, at, sender=site.sender)
    assert (done.rows, done.error) == (2, None)
    assert site.ordinals("folder/a.jsonl") == [1, 2]


def test_a_disk_that_fills_up_in_the_middle_leaves_no_half_message(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 2)
    deliver(site.catalog, site.home, 0, sender=site.sender)
    site.tick(query, 2)

    def half(_channel: FileChannel, _message: object, _position: str | None) -> None:
        with site.file("a.jsonl").open("a") as stream:
            stream.write('{"_ordinal": 3')
        raise DeliveryError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(FileChannel, "send", half)
        (failed,) = deliver(site.catalog, site.home, 0, sender=site.sender)
    assert failed.error == "the disk is full"
    assert site.ordinals("a.jsonl") == [1, 2]
    assert [(each.state, each.attempts) for each in site.catalog.outbox.unsent()] == [("failed", 1)]
    site.tick(query, 2)  # the message that failed keeps its range
    deliver(site.catalog, site.home, 3600 * SECOND, sender=site.sender)
    assert site.ordinals("a.jsonl") == [1, 2, 3, 4, 5, 6]
    assert [(each.first_ordinal, each.last_ordinal) for each in site.catalog.outbox.latest([1], 20)] == [
        (5, 6),
        (3, 4),
        (1, 2),
    ]


def test_nothing_goes_where_an_interrupted_message_cannot_be_undone(site: Any) -> None:
    query = site.install("q", "file:folder/a.jsonl")
    site.tick(query, 2)
    site.killed("delivery.torn")
    shutil.move(site.file("folder"), site.file("real"))
    site.file("folder").symlink_to(site.file("real"))
    before = site.file("real/a.jsonl").read_bytes()
    assert deliver(site.catalog, site.home, 0, sender=site.sender) == []
    assert site.file("real/a.jsonl").read_bytes() == before
    (waiting,) = site.catalog.subscriptions.all()
    assert "symbolic link" in (waiting.last_error or "")
    site.file("folder").unlink()
    shutil.move(site.file("real"), site.file("folder"))
    deliver(site.catalog, site.home, 10**12, sender=site.sender)
    assert site.ordinals("folder/a.jsonl") == [1, 2]


def test_only_the_wanted_queries(site: Any) -> None:
    first, second = site.install("a", "file:a.jsonl"), site.install("b", "file:b.jsonl")
    site.tick(first, 1)
    site.tick(second, 1)
    assert [each.query_name for each in deliver(site.catalog, site.home, 0, sender=site.sender, queries=[second])] == [
        "b"
    ]
    assert not site.file("a.jsonl").exists()


def test_a_paused_querys_answers_still_go(site: Any) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 1)
    site.writer.queries.set_state("q", "paused")
    assert [each.rows for each in deliver(site.catalog, site.home, 0, sender=site.sender)] == [1]


def test_delivery_takes_the_lease_and_gives_it_back(site: Any) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 1)
    with pytest.raises(LeaseBusy):
        deliver(site.catalog, site.home, 0)
    site.sender.release()
    (done,) = deliver(site.catalog, site.home, 0, clock=lambda: 5)
    assert done.rows == 1
    assert site.catalog.lease("deliver") is None


def test_a_writer_that_was_superseded_marks_nothing(site: Any) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 1)
    with open_catalog(site.home, at=0) as other:
        other.sender("other", 10**15)
    with pytest.raises(LeaseLost):
        deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.catalog.subscriptions.all()[0].delivered == 0


def test_a_machine_that_was_stopped_before_it_sends_writes_nothing_after_another_took_over(
    site: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 2)
    message = _Run._message

    def suspended(run: _Run, *given: Any) -> Message:
        with open_catalog(site.home, at=0) as other:
            settle(other.sender("other", 10**15), site.home, 0)
        return message(run, *given)

    monkeypatch.setattr(_Run, "_message", suspended)
    with pytest.raises(LeaseLost):
        deliver(site.catalog, site.home, 0, sender=site.sender)
    assert site.ordinals("a.jsonl") == []


def test_what_a_program_has_written_to_the_file_stays(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    query = site.install("q", "file:a.jsonl")
    site.tick(query, 2)
    message = _Run._message

    def interrupted(run: _Run, *given: Any) -> Message:
        site.file("a.jsonl").write_text('{"_ordinal": 7}\n')
        return message(run, *given)

    monkeypatch.setattr(_Run, "_message", interrupted)
    (failed,) = deliver(site.catalog, site.home, 0, sender=site.sender)
    assert failed.parked and "another process has written to the file" in (failed.error or "")
    assert [each.state for each in site.catalog.outbox.unsent()] == ["unknown"]
    deliver(site.catalog, site.home, 10**12, sender=site.sender)
    assert site.ordinals("a.jsonl") == [7]
