"""The channel feed:NAME keeps the newest answers in a file that feed readers understand; repetitions change nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from weft.algebra.schema import BIGINT, STRING
from weft.delivery import feed as feeds
from weft.delivery.feed import FeedChannel
from weft.errors import Conflict, Refused
from weft.storage.ledger import Answers

ATOM = "{http://www.w3.org/2005/Atom}"
LATER = 3_600 * 1_000_000


def ordinals(file: Path) -> list[int]:
    root = ElementTree.fromstring(file.read_bytes())
    ids = [each.findtext(f"{ATOM}id") or "" for each in root.findall(f"{ATOM}entry")]
    assert all(re.fullmatch(r"urn:weft:[\w-]+:\d+:\d+", each) for each in ids)
    return [int(each.rpartition(":")[2]) for each in ids]


def test_the_newest_answers_come_first(site: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "KEPT", 5)
    query = site.install("q", "feed:orders.new")
    file = site.file("orders.new.atom")
    for rows in (2, 2, 3):
        site.tick(query, rows)
        assert [each.error for each in site.deliver()] == [None]
    assert ordinals(file) == [7, 6, 5, 4, 3]
    root = ElementTree.fromstring(file.read_bytes())
    assert root.findtext(f"{ATOM}title") == "q"
    assert root.find(f"{ATOM}entry/{ATOM}content").text.endswith("s: text 7")  # type: ignore[union-attr]
    assert root.find(f"{ATOM}link") is None  # no server is known
    (subscription,) = site.catalog.subscriptions.all()
    site.sender.subscriptions.go_to(subscription.sub_id, 1)  # answers are sent again: they keep their places
    site.deliver()
    assert ordinals(file) == [7, 6, 5, 4, 3]
    assert sorted(each.name for each in file.parent.iterdir()) == ["orders.new.atom"]


def test_entries_lead_to_the_page_of_the_settings(site: Any) -> None:
    (site.home / "weft.toml").write_text("[web]\nurl = 'https://weft.example.com'\n")
    query = site.install("q", "feed:f")
    site.tick(query, 1)
    site.deliver()
    root = ElementTree.fromstring(site.file("f.atom").read_bytes())
    links = [each.attrib["href"] for each in root.iter(f"{ATOM}link")]
    page = f"https://weft.example.com/queries/{query}"
    assert links == ["https://weft.example.com/feeds/f.atom", page, f"{page}/answers/1"]


@pytest.mark.parametrize("point", ["feed.written", "feed.renamed", "delivery.opened", "delivery.written"])
def test_a_kill_loses_and_doubles_nothing(point: str, site: Any) -> None:
    query = site.install("q", "feed:f")
    site.tick(query, 3)
    site.deliver()
    site.tick(query, 2)
    assert site.killed(point)
    site.deliver(LATER)
    assert ordinals(site.file("f.atom")) == [5, 4, 3, 2, 1]
    assert site.catalog.outbox.unsent() == ()


@pytest.mark.parametrize("name", ["", "a/b", "../a", ".hidden", "a b", "x" * 101])
def test_the_name_of_a_feed_is_a_word(name: str, site: Any) -> None:
    with pytest.raises(Refused, match="not the name of a feed"):
        FeedChannel(name, site.home, site.home / "files")


def test_a_feed_belongs_to_one_query(site: Any) -> None:
    first = site.install("q", "feed:f")
    with pytest.raises(Conflict, match="'q' already writes to feed:f"):
        site.install("r", "feed:f")
    site.tick(first, 1)
    site.deliver()
    channel = FeedChannel("f", site.home, site.home / "files")
    columns = (("n", BIGINT), ("s", STRING))
    home_id = site.catalog.home().home_id
    channel.require(Answers(home_id, first, "q", columns))
    for other in (Answers(home_id, None, "new", columns), Answers("another", first, "q", columns)):
        with pytest.raises(Conflict, match="the feed of another query"):
            channel.require(other)


@pytest.mark.parametrize("content", ["", "<a/>", "no feed", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>'])
def test_another_file_is_not_overwritten(content: str, site: Any) -> None:
    query = site.install("q", "feed:f")
    site.tick(query, 1)
    file = site.file("f.atom")
    file.parent.mkdir(exist_ok=True)
    file.write_text(content)
    (result,) = site.deliver()
    assert "is not a feed of Weft" in (result.error or "")
    assert file.read_text() == content
    file.unlink()
    (result,) = site.deliver(LATER)
    assert (result.rows, result.error) == (1, None)
