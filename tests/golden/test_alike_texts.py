"""A text that is compiled by its template equals the same text compiled by itself."""

from __future__ import annotations

import re
from random import Random

import pytest

import weft.planning.alike_texts as module
from golden.texts import FILES, queries
from netnews import TABLES
from weft.errors import SqlError
from weft.planning.alike_texts import AlikeTexts, Compiled
from weft.planning.form import stored_form
from weft.planning.plan import columns_of, standing_plan

AUTHOR = "SELECT msgid FROM msgs WHERE sender = '{}' AND newsgroup = '{}'"


def alone(text: str) -> Compiled | str:
    """Compile a text without a template, by the stages themselves."""
    try:
        plan = standing_plan(text, TABLES)
    except SqlError as error:
        return error.message
    needs = tuple(sorted({table.id for table in plan.tables if table.source == "table"}))
    return Compiled(stored_form(plan), columns_of(plan.query), plan.tables, plan.reads, needs, ())


def together(texts: AlikeTexts, text: str) -> Compiled | str:
    try:
        return texts.compiled(text, from_now=False)
    except SqlError as error:
        return error.message


@pytest.fixture
def compiled_alone(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts that no template gave."""
    seen: list[str] = []

    def counted(text: str, *args: object, **options: bool) -> object:
        seen.append(text)
        return standing_plan(text, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "standing_plan", counted)
    return seen


def test_every_query_with_other_constants(compiled_alone: list[str]) -> None:
    chance, count = Random(7), 0
    for path in FILES:
        for _, text in queries(path):
            texts = AlikeTexts(TABLES)
            together(texts, text)
            for _ in range(3):
                other = changed(text, chance)
                assert together(texts, other) == alone(other), other
                count += 1
    assert count > 300
    templates = count + count // 3 - len(compiled_alone)
    assert templates > 40, "templates give many of the texts"


def changed(text: str, chance: Random) -> str:
    """Replace each constant at random by one that occurs in the text, by a usual one, or by a strange one."""
    constants = re.findall(r"'[^']*'|\b\d+\b", text)

    def other(match: re.Match[str]) -> str:
        old = match.group()
        if old[0] == "'":
            same = [each for each in constants if each[0] == "'"]
            strange = ["'%a'", "''", "'1993-04-05'", "'4'", "'it''s'", "'é'", "'null'"]
            return chance.choice([old, "'other'", "'b c'", chance.choice(same), chance.choice(strange)])
        return chance.choice([old, "3", "17", "0", "3000000000", chance.choice([c for c in constants if c[0] != "'"])])

    return re.sub(r"'[^']*'|\b\d+\b", other, text)


def test_a_template_is_compiled_once(compiled_alone: list[str]) -> None:
    texts = AlikeTexts(TABLES)
    for number in range(20):
        text = AUTHOR.format(f"user{number}", f"group {number % 3}")
        assert together(texts, text) == alone(text)
    assert compiled_alone == [AUTHOR.format("user0", "group 0")]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (AUTHOR.format("a", "b"), AUTHOR.format("a", "a")),
        (AUTHOR.format("a", "b"), AUTHOR.format("a", "it''s")),
        ("SELECT name FROM users WHERE age = 7", "SELECT name FROM users WHERE age = 3000000000"),
        ("SELECT name FROM users WHERE born = '1990-01-01'", "SELECT name FROM users WHERE born = '1991-01-01'"),
        ("SELECT name, 'x' AS k FROM users WHERE name = 'y'", "SELECT name, 'z' AS k FROM users WHERE name = 'y'"),
        ("SELECT name FROM users WHERE name LIKE 'a%'", "SELECT name FROM users WHERE name LIKE '%a'"),
        ("SELECT name FROM users WHERE name = 'a' -- 'b'", "SELECT name FROM users WHERE name = 'c' -- 'd'"),
        ("SELECT name = 'a' FROM users", "SELECT name = 'b' FROM users"),
        ("SELECT 1 FROM users WHERE name = 'a' OR name = 'b'", "SELECT 1 FROM users WHERE name = 'b' OR name = 'a'"),
        ("SELECT name FROM users WHERE name = 'a' 'b'", "SELECT name FROM users WHERE name = 'c' 'd'"),
    ],
)  # fmt: skip
def test_a_pair(first: str, second: str) -> None:
    texts = AlikeTexts(TABLES)
    assert together(texts, first) == alone(first)
    assert together(texts, second) == alone(second)


def test_from_now_is_another_plan() -> None:
    texts = AlikeTexts(TABLES)
    text = AUTHOR.format("a", "b")
    whole, now = (texts.compiled(text, from_now=each) for each in (False, True))
    assert whole.form.signature != now.form.signature
    assert texts.compiled(AUTHOR.format("c", "d"), from_now=True).form.signature == now.form.signature
