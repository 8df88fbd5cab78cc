"""install --replace on the command line; what it would come to needs Spark: tests/spark/test_replacing.py."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Command = Callable[..., Any]


def test_a_text_is_replaced_and_told_of(home: Path, weft: Command) -> None:
    assert weft("table", "create", "t", "n INT, s STRING").code == 0
    assert weft("install", "q", "SELECT n FROM t WHERE n > 1", "--to", "file:q.jsonl", "--user", "ann").code == 0
    assert "replaced" not in weft("queries").out
    told = weft("install", "q", "SELECT n FROM t WHERE n > 2", "--replace")
    assert told.code == 0
    assert "Updated q for ann." in told.out
    assert "It has no answers yet; its channels are unchanged." in told.out
    assert "The old text was never run in full: answers of the old text alone are not delivered." in told.out
    assert "active, replaced " in weft("queries").out
    shown = weft("show", "q")
    assert "SELECT n FROM t WHERE n > 1" in next(each for each in shown.out.splitlines() if each.startswith("before "))
    (text,) = weft("show", "q", "--json").json["replaced"]
    assert (text["sql"], text["rows"], text["ticked_to"]) == ("SELECT n FROM t WHERE n > 1", 0, None)
    assert weft("queries", "--json").json[0]["replaced_at"] == text["until"]
    same = weft("install", "q", "SELECT n FROM t WHERE n > 2", "--replace", "--every", "1h").out
    assert "it continues where it was, every 1h" in same and "text before" not in same
    assert len(weft("show", "q", "--json").json["replaced"]) == 1
    weft("pause", "q")
    assert "The query stays paused" in weft("install", "q", "SELECT n FROM t", "--replace", "--from", "now").out


def test_what_is_refused_says_what_to_do(home: Path, weft: Command) -> None:
    weft("table", "create", "t", "n INT, s STRING")
    weft("install", "q", "SELECT n FROM t")
    for words, told in (
        (("q", "SELECT s FROM t", "--replace"), "Select the same columns"),
        (("q", "SELECT s FROM t", "--replace", "--dry-run"), "Select the same columns"),
        (("q", "SELECT n FROM t", "--dry-run"), "weft backtest"),
        (("q", "SELECT n FROM t WHERE n > 1", "--replace", "--to", "file:x.csv"), "weft subscribe q"),
        (("q", "SELECT n FROM t WHERE n > 1", "--replace", "--dry-run", "--to", "file:x.csv"), "weft subscribe q"),
        (("q", "SELECT n FROM t", "--replace", "--dry-run"), "already has this text"),
        (("q", "SELECT n FROM t WHERE n > 1", "--replace", "--dry-run", "--every", "soon"), "soon"),
        (("q", "SELECT n FROM t WHERE n > 1", "--replace", "--dry-run", "--digest", "hourly"), "weft subscribe q"),
        (("p", "SELECT n FROM t", "--replace"), "there is no query 'p'"),
    ):
        refused = weft("install", *words)
        assert (refused.code, told in refused.err) == (2, True), refused
