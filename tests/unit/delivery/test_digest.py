"""When digests go, across real changes of the clocks, and that each goes once, as one message."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from answered import answered
from definitions import definition
from mail_server import Post, serving
from unit.delivery.test_mail import ANN, settings
from weft.algebra.schema import BIGINT, STRING
from weft.api import Weft
from weft.delivery.digest import next_digest, parse_digest
from weft.errors import Refused
from weft.instants import FIRST_INSTANT, LAST_INSTANT, parse_instant, to_datetime

BERLIN, NEW_YORK, LORD_HOWE = "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"
SECOND = 1_000_000
HOUR = 3_600 * SECOND


def _series(digest: str, zone: str, begin: str, count: int) -> list[int]:
    """The instants of so many digests in a row."""
    found, at = [], parse_instant(begin)
    for _ in range(count):
        at = next_digest(parse_digest(digest), zone, at)
        found.append(at)
    return found


def _utc(instants: list[int]) -> list[str]:
    return [to_datetime(each).strftime("%m-%d %H:%M") for each in instants]


@pytest.mark.parametrize(
    ("digest", "zone", "begin", "due"),
    [
        # Clocks go from 02:00 to 03:00 on 29 March 2026 in Berlin, and back from 03:00 to 02:00 on 25 October.
        ("daily@08:00", BERLIN, "2026-03-27T08:00Z", ["03-28 07:00", "03-29 06:00", "03-30 06:00"]),
        ("daily@02:30", BERLIN, "2026-03-27T08:00Z", ["03-28 01:30", "03-29 01:30", "03-30 00:30"]),
        ("daily@02:30", BERLIN, "2026-10-24T08:00Z", ["10-25 00:30", "10-26 01:30", "10-27 01:30"]),
        ("hourly", BERLIN, "2026-10-25T00:10Z", ["10-25 01:00", "10-25 02:00", "10-25 03:00"]),
        ("weekly@sun-02:30", BERLIN, "2026-03-20T00:00Z", ["03-22 01:30", "03-29 01:30", "04-05 00:30"]),
        # In New York on 8 March and 1 November.
        ("daily@02:30", NEW_YORK, "2026-03-07T08:00Z", ["03-08 07:30", "03-09 06:30", "03-10 06:30"]),
        ("daily@01:30", NEW_YORK, "2026-10-31T08:00Z", ["11-01 05:30", "11-02 06:30", "11-03 06:30"]),
        # On Lord Howe by half an hour: back from 02:00 to 01:30 on 5 April, forward from 02:00 on 4 October.
        ("daily@01:45", LORD_HOWE, "2026-04-03T20:00Z", ["04-04 14:45", "04-05 15:15", "04-06 15:15"]),
        ("daily@02:15", LORD_HOWE, "2026-10-02T20:00Z", ["10-03 15:45", "10-04 15:15", "10-05 15:15"]),
        ("hourly", LORD_HOWE, "2026-10-03T14:00Z", ["10-03 14:30", "10-03 16:00", "10-03 17:00"]),
        # Samoa left out 30 December 2011.
        ("daily@08:00", "Pacific/Apia", "2011-12-28T20:00Z", ["12-29 18:00", "12-30 18:00", "12-31 18:00"]),
    ],
)
def test_a_digest_keeps_to_the_clock_on_the_wall(digest: str, zone: str, begin: str, due: list[str]) -> None:
    assert _utc(_series(digest, zone, begin, len(due))) == due


@pytest.mark.parametrize("zone", [BERLIN, NEW_YORK, LORD_HOWE])
@pytest.mark.parametrize("time", ["00:00", "01:45", "02:15", "02:30", "23:59"])
def test_each_day_has_one_digest_in_every_year(zone: str, time: str) -> None:
    found = _series(f"daily@{time}", zone, "2024-12-31T12:00Z", 800)
    days = [to_datetime(each).astimezone(ZoneInfo(zone)).date() for each in found]
    assert [day - days[0] for day in days] == [dt.timedelta(days=n) for n in range(800)]
    assert all(0 < after - before <= 25 * HOUR for before, after in itertools.pairwise(found))


def test_valid_texts_are_read_and_others_are_refused() -> None:
    for text, same in (
        ("Hourly", "hourly"),
        ("daily@8:05", "daily@08:05"),
        ("weekly@Monday-08:00", "weekly@mon-08:00"),
    ):
        assert str(parse_digest(text)) == same
    for text, reason in (
        ("dayly@08:00", "did you mean daily@08:00?"),
        ("daily", "did you mean daily@08:00?"),
        ("weekly", "did you mean weekly@mon-08:00?"),
        ("daily@24:00", "24:00 is not a time of day"),
        ("weekly@08:00", "is not a digest"),
        ("daily@mon-08:00", "is not a digest"),
        ("weekly@moo-08:00", "'moo' is not a day"),
    ):
        with pytest.raises(Refused) as found:
            parse_digest(text)
        assert reason in found.value.message


@pytest.fixture
def clock() -> list[int]:
    """The wall's time, which tests set."""
    return [parse_instant("2026-03-28T00:00Z")]


@pytest.fixture
def weft(tmp_path: Path, clock: list[int]) -> Iterator[Weft]:
    """A home with the query q and a server for mail."""
    with Weft.open(tmp_path / "home", wall=lambda: clock[0], create=True) as opened:
        with opened.catalog.writing("install", opened.clock) as writer:
            writer.queries.install(definition("q", columns=(("n", BIGINT), ("s", STRING))), 0)
        yield opened


def test_one_letter_a_day_in_the_persons_zone(weft: Weft, clock: list[int]) -> None:
    post = Post()
    reason = []
    with serving(post) as port:
        settings(weft.home, port)
        with (weft.home / "weft.toml").open("a") as file:
            file.write(f'[users.ann]\nemail = "{ANN}"\nzone = "{BERLIN}"\n')
        weft.subscribe("q", "email:ann", digest="daily@08:00")
        for hour in range(80):
            clock[0] = parse_instant("2026-03-28T00:00Z") + hour * HOUR
            if hour in (1, 3, 9, 26, 27, 60):
                answered(weft, "q", 1)
            reason += [(_utc(clock)[0], done.rows) for done in weft.deliver()]
            assert weft.catalog.subscriptions.next_due(clock[0]) is not None
    assert reason == [("03-28 07:00", 2), ("03-29 06:00", 3), ("03-31 06:00", 1)]
    assert [each.text.splitlines()[0].partition(",")[0] for each in post.letters] == [
        "q: 2 new answers",
        "q: 3 new answers",
        "q: 1 new answer",
    ]


def test_a_digest_that_did_not_go_goes_alone_and_what_came_since_waits(weft: Weft, clock: list[int]) -> None:
    settings(weft.home, 1)
    weft.subscribe("q", f"email:{ANN}", digest="daily@08:00", zone="UTC")
    weft.deliver()
    answered(weft, "q", 2)
    clock[0] += 8 * HOUR
    (failed,) = weft.deliver()
    assert failed.error is not None
    answered(weft, "q", 3)
    post = Post()
    with serving(post) as port:
        settings(weft.home, port)
        clock[0] += HOUR
        assert [done.rows for done in weft.deliver()] == [2]
        assert weft.deliver() == []
        clock[0] += 23 * HOUR
        assert [done.rows for done in weft.deliver()] == [3]


def test_a_replay_homes_digests_are_due_by_its_own_clock(tmp_path: Path) -> None:
    wall = [parse_instant("2026-03-28T00:00Z")]
    with Weft.open(tmp_path / "home", clock="replay", wall=lambda: wall[0], create=True) as weft:
        with weft.catalog.writing("install", weft.clock) as writer:
            writer.queries.install(definition("q", columns=(("n", BIGINT), ("s", STRING))), 0)
        weft.subscribe("q", "file:a.jsonl", digest="daily@08:00", zone=NEW_YORK)
        assert weft.deliver() == []  # its clock is not set yet
        went = []
        for hours in range(0, 96, 6):
            at = parse_instant("1993-04-02T00:00Z") + hours * HOUR
            answered(weft, "q", 1, at)
            went += [(_utc([at])[0], done.rows) for done in weft.deliver()]
            wall[0] += SECOND
        # From 4 April on summer time holds in New York: 08:00 is 13:00 UTC, then 12:00 UTC.
        assert went == [("04-02 18:00", 4), ("04-03 18:00", 4), ("04-04 12:00", 3), ("04-05 12:00", 4)]
        wall[0] += 48 * HOUR
        assert weft.deliver() == []
        assert weft.health().due == 0


def test_a_digest_at_the_ends_of_the_calendar_is_no_error() -> None:
    for after in (-(2**62), FIRST_INSTANT, LAST_INSTANT, 2**62):
        for digest in ("hourly", "daily@08:00", "weekly@mon-08:00"):
            for zone in (BERLIN, "Pacific/Apia", NEW_YORK):
                assert next_digest(parse_digest(digest), zone, after) > after


def test_answers_of_a_muted_channel_wait_for_the_next_digest(weft: Weft, clock: list[int]) -> None:
    weft.subscribe("q", "file:a.jsonl", digest="daily@08:00", zone="UTC")
    answered(weft, "q", 1)
    weft.mute("q")
    clock[0] += 9 * HOUR
    assert weft.deliver() == []
    clock[0] += HOUR
    weft.unmute("q")
    assert weft.deliver() == []
    clock[0] += 22 * HOUR
    assert [done.rows for done in weft.deliver()] == [1]


def test_digests_that_cannot_be_are_refused(weft: Weft) -> None:
    for given, reason in (
        ({"digest": "dayly"}, "did you mean daily"),
        ({"digest": "hourly", "zone": "Europe/Berlim"}, "did you mean Europe/Berlin"),
        ({"zone": "UTC"}, "--zone applies to digests only"),
    ):
        with pytest.raises(Refused, match=reason):
            weft.subscribe("q", "file:a.jsonl", **given)
    weft.catalog.tables.create("t", [("n", BIGINT)])
    with pytest.raises(Refused, match="a digest needs a channel"):
        weft.install("p", "SELECT n FROM t", digest="hourly")
    weft.install("p", "SELECT n FROM t", digest="Daily@8:00", to=["file:p.csv"], zone="UTC")
    ((found, _),) = weft.catalog.subscriptions.of_live_queries(weft.catalog.queries.named("p").query_id)
    assert (found.digest, found.zone, found.digest_at) == ("daily@08:00", "UTC", None)


@pytest.mark.parametrize("point", ["digest.noted", "delivery.written", "delivery.marked"])
def test_a_kill_at_any_step_of_a_digest_sends_it_once(site: Any, point: str) -> None:
    query = site.install("q")
    subscription = site.writer.subscriptions.add(query, "file:a.jsonl", 0, digest="daily@08:00", zone="UTC")
    due = parse_instant("2026-03-28T08:00Z")
    if point == "digest.noted":
        site.killed(point, due - HOUR)
        assert site.catalog.subscriptions.by_id(subscription.sub_id).digest_at == due
    site.deliver(due - HOUR)
    site.tick(query, 3)
    assert site.deliver(due - 1) == []
    if point != "digest.noted":
        site.killed(point, due)
    else:
        site.deliver(due)
    site.tick(query, 2)
    site.deliver(due + HOUR)
    once = [1, 2, 3] if point != "delivery.written" else [1, 2, 3, 4, 5]  # nothing of it was there for good
    assert site.ordinals("a.jsonl") == once
    site.deliver(due + 24 * HOUR)
    assert site.ordinals("a.jsonl") == [1, 2, 3, 4, 5]
