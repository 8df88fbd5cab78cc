"""Regular expressions are read as Java reads them, without a JVM."""

from __future__ import annotations

import pytest
from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.patterns import check_pattern, check_replacement

NODE = exp.Literal.string("")
TAKEN = {
    "": 0,
    "a|b": 0,
    "(a)(?:b)(?<c>d)": 2,
    r"\d+\.\d{2,}?": 0,
    r"[^\]a-z\-]*+": 0,
    r"(?i)(?<=ab{2,3})c(?!d)": 0,
    r"(a)\1": 1,
    r"\p{Lu}\x41\u0041": 0,
    "(?im:a)": 0,
}
REFUSED = {
    "(": "not closed",
    ")": "closes nothing",
    "[": "not closed",
    "[]": "needs a",
    "*a": "nothing precedes",
    "a**": "repetition is repeated",
    "a{2": "needs a number",
    "a{3,1}": "is not a repetition",
    "a{5000}": "exceeds 1000",
    "(?P<n>a)": "not a kind of group",
    "(?<n>a)(?<n>b)": "two groups are named n",
    r"\q": "not an escape",
    "a\\": "ends in",
    r"\2(a)": "no group 2",
    r"\p{Nothing}": "does not exist",
    "[z-a]": "runs backwards",
    "[a&&b]": "needs a",
    "(?<=a*)b": "bounded length",
    "(" * 60: "nested groups",
}


@pytest.mark.parametrize("text", TAKEN)
def test_a_pattern_and_its_groups(text: str) -> None:
    assert check_pattern(text, NODE) == TAKEN[text]


@pytest.mark.parametrize("text", REFUSED)
def test_what_java_would_not_compile(text: str) -> None:
    with pytest.raises(SqlError, match=REFUSED[text]):
        check_pattern(text, NODE)


@pytest.mark.parametrize("text", ["", "x", "$0", "$1$2", "$12", r"\$", r"\\", r"a\$5"])
def test_replacements_that_are_accepted(text: str) -> None:
    check_replacement(text, 2, NODE)


@pytest.mark.parametrize("text", ["$3", "$", "a$", "\\", "a\\\\\\", "${n}", "$x"])
def test_replacements_that_are_refused(text: str) -> None:
    with pytest.raises(SqlError, match="not a valid replacement"):
        check_replacement(text, 2, NODE)
