"""Names in the text that Spark gets: whatever is no plain word stands in back quotes."""

from __future__ import annotations

import pytest

from weft.sql.rendering.render import quoted


@pytest.mark.parametrize("word", ["msgs", "t1", "_first_at", "Msgs", "ts"])
def test_a_plain_word_stands_as_it_is(word: str) -> None:
    assert quoted(word) == word


@pytest.mark.parametrize("word", ["except", "MINUS", "Intersect", "x", "temp", "regexp", "1st", "x y", "é", "", "a\n"])
def test_every_other_name_is_quoted(word: str) -> None:
    assert quoted(word) == f"`{word}`"


def test_a_back_quote_is_doubled() -> None:
    assert quoted("a`b") == "`a``b`"
