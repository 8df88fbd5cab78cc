"""The output of ``weft explain --language 2fol`` for the paper's formulas, with sets and with duplicates.

``make bless`` rewrites the expected output.
"""

from __future__ import annotations

from golden.texts import HERE
from weft.algebra.schema import BIGINT, STRING, TIMESTAMP, Column, TableSchema
from weft.cli.synopses import as_text
from weft.planning.formula_plan import formula_synopsis
from weft.planning.synopsis_words import explain_synopsis

TABLES = {
    name: TableSchema(number, name, (Column(1, "ts", TIMESTAMP, False), Column(2, "x", type)), "ts")
    for number, (name, type) in enumerate((("s", STRING), ("p", BIGINT), ("q", BIGINT)), 1)
}
FORMULAS = {
    "how often each has been": "EXISTS TIME t. p(x) AT t",
    "one after another, within a week": "EXISTS TIME t. p(x) AT t AND q(x) AT NOW AND t < NOW AND NOW - t <= 7d",
    "more a's than b's (section 3.1)": '(EXISTS TIME t. s("a") AT t) AND NOT EXISTS TIME t. s("b") AT t',
    "two states of one size (Theorem 3.2)": (
        "DISTINCT EXISTS TIME t, u. t < u AND NOT ((EXISTS x. s(x) AT t) AND NOT EXISTS x. s(x) AT u) "
        "AND NOT ((EXISTS x. s(x) AT u) AND NOT EXISTS x. s(x) AT t)"
    ),
    "at how many time points": "n <- CNT t; x p(x) AT t",
}


def test_what_explain_says(bless: bool) -> None:
    shown = []
    for title, text in FORMULAS.items():
        for duplicates in (False, True):
            found = explain_synopsis(formula_synopsis(text, "2fol", TABLES, duplicates=duplicates))
            kind = "duplicates" if duplicates else "sets"
            shown.append("\n".join([f"==== {title}, {kind}", "", text, "", *as_text(found), ""]))
    text = "\n".join(shown)
    expected = HERE / "expected" / "two_sorted.txt"
    if bless:
        expected.write_text(text)
    assert text == expected.read_text(), "run `make bless`, and read the difference"
