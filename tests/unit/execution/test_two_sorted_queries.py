"""Formulas of two sorts as standing queries: some have a synopsis, the others are asked of the kept history; no Spark.

Figure 1 of the paper, evaluated literally over the states so far, gives the expected answers.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.past_logic import Log
from oracle.two_sorted_logic import by_figure_1
from unit.execution.test_formula_queries import KNOWN, SECOND, _text, load
from weft.api import Weft
from weft.errors import Conflict, Refused, SynopsisError
from weft.formula.twofol.resolve import two_sorted

FIRST = "EXISTS TIME t. p(x, y) AT NOW AND q(x) AT t AND t < NOW AND NOW - t <= 5s"
"""A conjunctive query."""
ALWAYS = "p(x, y) AT NOW AND FORALL TIME t. q(x) AT t IMPLIES EXISTS z. p(x, z) AT t"
OFTEN = "n <- CNT t; x q(x) AT t"
MORE = "(EXISTS TIME t. p(x, 'u') AT t) AND NOT EXISTS TIME t. p(x, 'v') AT t"
COUNTED = (FIRST, MORE)


def drawn(seed: int, states: int = 16) -> Log:
    """States with rows that come twice."""
    pick, at, given, ats = random.Random(seed), 0, [], []
    for _ in range(states):
        at += pick.choice((0, 0, 1, 2)) * SECOND
        ats.append(at)
        p = [(pick.randrange(3), pick.choice("uuv")) for _ in range(pick.randrange(3))]
        given.append({"p": p * pick.choice((1, 1, 2)), "q": [(pick.randrange(3),)] * pick.randrange(2)})
    return Log(tuple(ats), tuple(given))


def expected_answers(text: str, log: Log, *, duplicates: bool) -> set[tuple[object, ...]]:
    found = two_sorted(text, KNOWN)
    answers = set()
    for tp in range(len(log)):
        semantics = "bag" if duplicates else "set"
        for row, count in by_figure_1(found.formula, found.columns, log.until(tp + 1), semantics).items():
            answers.add((tp, *row, count) if duplicates else (tp, *row))
    return answers


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_they_answer_at_each_state_for_any_ticks(seed: int, weft: Weft, tmp_path: Path) -> None:
    log, pick = drawn(seed), random.Random(seed)
    first = next(n for n in range(1, len(log.at)) if all(any(s.get(p) for s in log.states[:n]) for p in "pq"))
    load(weft, tmp_path, log, 0, first)
    queries = [(text, False) for text in (FIRST, ALWAYS, OFTEN, MORE)] + [(text, True) for text in COUNTED]
    for number, (text, duplicates) in enumerate(queries):
        weft.install(f"f{number}", text, language="2fol", duplicates=duplicates, allow_unbounded=duplicates)
    cuts = sorted({first, *pick.sample(range(first, len(log.at)), 3), len(log.at)})
    loaded = first
    for later, cut in enumerate(cuts, 1):
        load(weft, tmp_path, log, loaded, cut)
        loaded = cut
        weft.tick(now=_text(log.at[cut - 1] + later))
        for number, (text, duplicates) in enumerate(queries):
            rows = [row.values for row in weft.results(f"f{number}")]
            assert len(rows) == len(set(rows))
            assert set(rows) == expected_answers(text, log.until(cut), duplicates=duplicates), text
    assert [bool(weft.show(f"f{number}").stored) for number in range(6)] == [True, *[False] * 3, True, False]
    assert [weft.show(f"f{number}").asks_history for number in range(6)] == [False, *[True] * 3, False, True]


def test_ordinary_tables_have_a_state_for_each_instant_at_which_rows_came(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "r.csv").write_text(f"a,ts\n1,{_text(0)}\n1,{_text(0)}\n2,{_text(3)}\n")
    weft.ingest_file(tmp_path / "r.csv", "r", ts_from="ts")
    weft.install("never", "r(x) AT NOW AND NOT EXISTS TIME t. r(x) AT t AND t < NOW", language="2fol")
    weft.tick(now=_text(4))
    assert [row.values for row in weft.results("never")] == [(0, 1), (1, 2)]
    (tmp_path / "r.csv").write_text(f"a,ts\n1,{_text(5)}\n3,{_text(6)}\n")
    weft.ingest_file(tmp_path / "r.csv", "r", ts_from="ts")
    weft.tick(now=_text(7))
    assert [row.values for row in weft.results("never")] == [(0, 1), (1, 2), (3, 3)]


@pytest.fixture
def loaded(weft: Weft, tmp_path: Path) -> Weft:
    log = Log((0, SECOND), ({"p": [(1, "u")], "q": [(1,)]}, {"p": [(1, "v")]}))
    load(weft, tmp_path, log, 0, 2)
    return weft


def test_an_unbounded_formula_is_refused_with_the_theorem(loaded: Weft) -> None:
    with pytest.raises(SynopsisError, match=r"no bound guaranteed \(Theorem 3\.2\)") as refused:
        loaded.install("more", MORE, language="2fol", duplicates=True)
    assert "bounded by Proposition 2.4, not constructed here" in str(refused.value.hint)
    with pytest.raises(SynopsisError, match=r"bounded by Proposition 2\.4, not constructed here"):
        loaded.install("always", ALWAYS, language="2fol", keep="synopsis")
    loaded.install("first", FIRST, language="2fol", keep="synopsis")


def test_a_history_that_is_asked_is_not_discarded(loaded: Weft) -> None:
    with pytest.raises(Refused, match="evaluates the formula over the stored history"):
        loaded.install("always", ALWAYS, language="2fol", discard_history=True)
    loaded.install("always", ALWAYS, language="2fol")
    with pytest.raises(Conflict, match="always reads the history"):
        loaded.install("first", FIRST, language="2fol", discard_history=True)
    loaded.remove("always")
    loaded.install("first", FIRST, language="2fol", discard_history=True)
    with pytest.raises(Refused, match="stores no history"):
        loaded.install("always", ALWAYS, language="2fol")


@pytest.mark.parametrize("language", ["sql", "mutl", "monpoly"])
def test_duplicates_are_an_option_of_2fol(loaded: Weft, language: str) -> None:
    with pytest.raises(Refused, match="--duplicates applies to 2fol formulas"):
        loaded.install("x", "SELECT a FROM q", language=language, duplicates=True)  # type: ignore[arg-type]
