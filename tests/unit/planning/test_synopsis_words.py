"""What ``explain`` tells of a synopsis."""

from __future__ import annotations

from weft.algebra.schema import BIGINT, TIMESTAMP, Column, TableSchema
from weft.cli.synopses import as_text
from weft.planning.formula_plan import formula_synopsis
from weft.planning.synopsis_words import SynopsisExplanation, explain_synopsis


def table(number: int, name: str) -> TableSchema:
    return TableSchema(number, name, (Column(1, "ts", TIMESTAMP), Column(2, "doc", BIGINT)))


TABLES = {name: table(number, name) for number, name in enumerate(("approve", "publish", "revoke"), 1)}


def explained(text: str) -> SynopsisExplanation:
    return explain_synopsis(formula_synopsis(text, "monpoly", TABLES))


def test_the_triple_covers_the_relations_that_are_shown() -> None:
    found = explained("publish(d) AND NOT (ONCE[0,7d] approve(d)) AND NOT (PREVIOUS[0,5] revoke(d))")
    assert found.gamma == ("(publish(d) AND (NOT R1_now(d))) AND (NOT R2(d))",)
    assert found.delta == (
        "R1_now(x1) is approve(x1) OR R1(x1), seen up to 7d later",
        "R2_now(x1) is revoke(x1), seen up to 5s later",
    )


def test_the_text_has_all_three() -> None:
    text = "\n".join(as_text(explained("publish(d) AND (NOT revoke(d) SINCE[1h,*] approve(d))")))
    assert "∅: every relation starts empty" in text
    assert "R1_now(x1) is approve(x1) OR (R1(x1) AND (NOT revoke(x1))), seen from 1h later" in text
    assert "Γ: the answers at a state\n  publish(d) AND R1_now(d)" in text


def test_without_a_past_nothing_is_stored_and_no_triple_is_shown() -> None:
    text = "\n".join(as_text(explained("publish(d)")))
    assert "Nothing is stored between ticks." in text
    assert "Γ" not in text
