"""Every real archive of the corpora, against the counts that their README gives and the index beside them."""

from __future__ import annotations

import csv
import gzip
from datetime import datetime, timezone
from pathlib import Path

import pytest

from letters import AT
from weft.extraction.batches import RejectedRecord, Row, Timing
from weft.extraction.mail.arrival_order import read_mail

pytestmark = pytest.mark.data

Items = list[Row | RejectedRecord]


def _rows(items: Items) -> list[Row]:
    return [item for item in items if isinstance(item, Row)]


@pytest.fixture(scope="module")
def news(data: Path) -> Items:
    paths = sorted((data / "netnews" / "20news").glob("*.tar.gz"))
    assert len(paths) == 15
    return list(read_mail(paths, newsgroup=None, timing=Timing("date", "arrival"), at=AT))


@pytest.fixture(scope="module")
def index(data: Path) -> list[dict[str, str]]:
    with gzip.open(data / "netnews" / "20news" / "index.csv.gz", "rt", encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def _unbracketed(written: str) -> str:
    return written.strip().strip("<>")


def test_every_article_is_a_row_a_group_or_has_an_impossible_date(news: Items, index: list[dict[str, str]]) -> None:
    rejected = [item for item in news if isinstance(item, RejectedRecord)]
    assert sorted(item.position for item in rejected) == ["sci.crypt/16027", "sci.electronics/53718"]
    assert all("+1700': an offset beyond 14 hours" in item.reason for item in rejected)
    lost = {"<1993Apr25.154207.2359@lub001.lamar.edu>", "<1993Apr17.220904.2330@lub001.lamar.edu>"}
    expected = [
        (_unbracketed(entry["msgid"]), group)
        for entry in index
        if entry["msgid"] not in lost
        for group in dict.fromkeys(name.strip() for name in entry["newsgroups"].split(",") if name.strip())
    ]
    found = [(str(row.values["msgid"]), str(row.values["newsgroup"])) for row in _rows(news)]
    assert sorted(found) == sorted(expected)
    assert len({msgid for msgid, _ in found}) == 14_534 - len(lost)


def test_dates_and_parents_are_those_of_the_index(news: Items, index: list[dict[str, str]]) -> None:
    entries = {_unbracketed(entry["msgid"]): entry for entry in index}
    for row in _rows(news):
        entry = entries[str(row.values["msgid"])]
        date = row.values["date"]
        assert isinstance(date, int)
        written = datetime.fromtimestamp(date // 1_000_000, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        assert written == entry["date_utc"]
        if entry["refs"]:
            assert row.values["inreplyto"] == _unbracketed(entry["refs"].split()[-1])


def test_replies_find_their_parents_as_often_as_the_readme_says(news: Items, index: list[dict[str, str]]) -> None:
    there = {row.values["msgid"] for row in _rows(news)}
    by_id = {row.values["msgid"]: row.values["inreplyto"] for row in _rows(news)}
    replies = [by_id.get(_unbracketed(entry["msgid"])) for entry in index if entry["refs"]]
    assert len(replies) == 9_182
    assert sum(parent in there for parent in replies) == 6_118


def test_the_merged_own_time_never_goes_back(news: Items) -> None:
    times = [row.own_time or 0 for row in _rows(news)]
    assert times == sorted(times)
    assert all(isinstance(row.values["date"], int) and row.values["date"] <= (row.own_time or 0) for row in _rows(news))


def test_the_mailing_lists_read_whole(data: Path) -> None:
    items = list(read_mail([data / "netnews" / "r-lists"], newsgroup=None, timing=Timing("date", "arrival"), at=AT))
    rows = _rows(items)
    assert len(rows) == len(items) == 10_645
    there = {row.values["msgid"] for row in rows}
    assert len(there) == 10_634
    parents = [row.values["inreplyto"] for row in rows if row.values["inreplyto"]]
    assert len(parents) == 6_739
    # The README counts 6,364 by the first id of In-Reply-To; one message names another parent in its References.
    assert sum(parent in there for parent in parents) == 6_363
    assert {"2004-April", "2021q1", "2009-October"} <= {row.values["newsgroup"] for row in rows}
    assert not any("\ufffd" in str(row.values["sender"]) for row in rows)
