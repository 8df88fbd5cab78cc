"""The formulas on the page about synopses parse, have synopses, and give the answers on the page."""

from __future__ import annotations

import re

import pytest

from docs.pages import ROOT, blocks
from oracle.past_logic import Log, evaluated
from weft.derivation.synopsis.construct import synopsis
from weft.derivation.synopsis.verdict import size_verdict
from weft.formula.parse_formula import ParsedFormula, counted_reading, reading
from weft.formula.signature import signature

PAGE = (ROOT / "docs" / "synopses.md").read_text()
KNOWN = signature(
    "publish(r:string) approve(f:string) open(f:string) access(u:string, r:string) grant(u:string) revoke(u:string) "
    "s(x:string) p() q()"
)
TEXTS = [(block.language, block.text) for block in blocks(PAGE) if block.language in ("mfotl", "mutl")]
MINUTE = 60_000_000


def read(language: str, text: str) -> ParsedFormula:
    return reading(text, KNOWN) if language == "mfotl" else counted_reading(text, KNOWN)


@pytest.mark.parametrize(("language", "text"), TEXTS)
def test_formulas_are_read(language: str, text: str) -> None:
    assert read(language, text).formula is not None


def test_the_example_answers_what_the_table_says() -> None:
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if re.match(r"\| \d \|", line)
    ]
    (text,) = re.findall(r"answer of `([^`]+)`", PAGE)
    states, at, wanted = [], [], []
    for _, minute, given, answer in rows:
        at.append(int(minute) * MINUTE)
        found = re.findall(r"(\w+)\((\w+)\)", given)
        states.append({name: [(value,)] for name, value in found})
        wanted.append({(answer,): 1} if answer else {})
    assert len(rows) == 4
    assert evaluated(reading(text, KNOWN).formula, Log(tuple(at), tuple(states)), "set") == wanted


ROWS = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.splitlines() if line.startswith("| `")]
VERDICTS = ("bounded", "log-bounded", "unbounded")
JUDGED = [(row[0].split("`")[1], each) for row in ROWS for each in row if each in VERDICTS]


@pytest.mark.parametrize(("text", "kind"), JUDGED)
def test_verdicts_are_those_of_the_tables(text: str, kind: str) -> None:
    counted = re.search(r"MU|ONCE1|SINCE1", text) is not None
    found = read("mutl" if counted else "mfotl", text).formula
    assert size_verdict(synopsis(found, "bag" if counted else "set")).kind == kind


def test_the_verdicts_are_all_there() -> None:
    assert len(JUDGED) == 14
    assert {kind for _, kind in JUDGED} == set(VERDICTS)


def test_the_mistake_of_example_47() -> None:
    q: dict[str, list[tuple[str, ...]]] = {"q": [()]}
    assert counts("(NOT q()) SINCE2 q()", {}, q, {}, q, {}) == [0] * 5


def counts(text: str, *states: dict[str, list[tuple[str, ...]]]) -> list[int]:
    log = Log(tuple(range(len(states))), tuple(states))
    return [rows[()] for rows in evaluated(counted_reading(text, KNOWN).formula, log, "bag")]


def of_mutl(word: str) -> str:
    (found,) = (text for language, text in TEXTS if language == "mutl" and word in text)
    return found


def test_the_examples_of_the_paper_count_as_the_page_says() -> None:
    q: dict[str, list[tuple[str, ...]]] = {"q": [()]}
    assert counts(of_mutl("MU"), q, {}, {}, q, q, q)[5] == 39
    assert counts(of_mutl("ONCE1"), {"s": [("a",)] * 3}, {"s": [("b",)]}, {"s": [("b",), ("b",)]}) == [3, 2, 0]
