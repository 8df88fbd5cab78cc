"""Formulas of temporal logic as standing queries, over the tables of a log and over ordinary ones; no Spark.

The literal interpreter of the oracle computes the expected answers over all states.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from oracle.past_logic import Log, evaluated
from weft.algebra.formula import free_variables
from weft.algebra.schema import BIGINT, STRING
from weft.api import Weft
from weft.errors import Refused, SynopsisError
from weft.formula.parse_formula import reading
from weft.formula.signature import Predicate
from weft.instants import to_datetime

SECOND = 1_000_000
KNOWN = {"p": Predicate("p", (BIGINT, STRING), ("a", "b")), "q": Predicate("q", (BIGINT,), ("a",))}
FORMULAS = (
    "p(x, y) AND ONCE[2s,5s] q(x)",
    "q(x) AND NOT PREVIOUS q(x)",
    "(NOT q(x)) SINCE[0,4s] p(x, y)",
    "n <- CNT x; y ONCE[0,3s] p(x, y)",
    "EXISTS x. p(x, y) AND PREVIOUS[0,1s] (EXISTS y. p(x, y))",
)


def drawn(seed: int, states: int = 24) -> Log:
    pick, at, given = random.Random(seed), 0, []
    ats = []
    for _ in range(states):
        at += pick.choice((0, 0, 1, 2)) * SECOND
        ats.append(at)
        p = {(pick.randrange(3), pick.choice("uv")) for _ in range(pick.randrange(3))}
        q = {(pick.randrange(3),) for _ in range(pick.randrange(2))}
        given.append({"p": sorted(p), "q": sorted(q)})
    return Log(tuple(ats), tuple(given))


def _text(micros: int) -> str:
    return to_datetime(micros).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def load(weft: Weft, folder: Path, log: Log, first: int, last: int) -> None:
    """The states [first, last): the events of predicates, then the states themselves."""
    for name, head in (("p", "a, b, tp, ts"), ("q", "a, tp, ts")):
        rows = [
            ",".join(map(str, (*row, tp, _text(log.at[tp]))))
            for tp in range(first, last)
            for row in log.states[tp].get(name, ())
        ]
        _ingest(weft, folder, name, head, rows, first)
    points = [f"{tp},{_text(log.at[tp])},{_text(log.at[tp])}" for tp in range(first, last)]
    _ingest(weft, folder, "time_points", "tp, at, ts", points, first)


def _ingest(weft: Weft, folder: Path, name: str, head: str, rows: list[str], number: int) -> None:
    if rows:
        file = folder / f"{name}-{number}.csv"
        file.write_text("\n".join([head, *rows]) + "\n")
        weft.ingest_file(file, name, ts_from="ts")


def expected_answers(text: str, log: Log) -> set[tuple[object, ...]]:
    found = reading(text, KNOWN)
    places = [free_variables(found.formula).index(each) for each in found.columns]
    answers = evaluated(found.formula, log, "set")
    return {(tp, *(row[place] for place in places)) for tp, rows in enumerate(answers) for row in rows}


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", clock="replay", create=True) as opened:
        yield opened


@pytest.mark.parametrize("seed", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in (1, 2))])
def test_formulas_over_a_log_answer_at_each_of_its_states_whatever_the_ticks(
    seed: int, weft: Weft, tmp_path: Path
) -> None:
    log, pick = drawn(seed), random.Random(seed)
    # All tables have their columns before formulas speak of them.
    first = next(n for n in range(1, len(log.at)) if all(any(s.get(p) for s in log.states[:n]) for p in "pq"))
    load(weft, tmp_path, log, 0, first)
    for number, text in enumerate(FORMULAS):
        weft.install(f"f{number}", text, language="monpoly")
    cuts = sorted({first, *pick.sample(range(first, len(log.at)), 3), len(log.at)})
    loaded = first
    for later, cut in enumerate(cuts, 1):
        load(weft, tmp_path, log, loaded, cut)
        loaded = cut
        # The next states may have the same time: they are late then, and come after this tick.
        weft.tick(now=_text(log.at[cut - 1] + later))
        sofar = Log(log.at[:cut], log.states[:cut])
        for number, text in enumerate(FORMULAS):
            rows = [row.values for row in weft.results(f"f{number}")]
            assert len(rows) == len(set(rows))
            assert set(rows) == expected_answers(text, sofar), text


def test_formulas_over_ordinary_tables_have_a_state_for_each_instant_at_which_rows_came(
    weft: Weft, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text(f"a,b,ts\n1,u,{_text(0)}\n2,v,{_text(0)}\n1,w,{_text(3)}\n,x,{_text(4)}\n")
    (tmp_path / "q.csv").write_text(f"a,ts\n1,{_text(2)}\n2,{_text(9)}\n")
    for name in "pq":
        weft.ingest_file(tmp_path / f"{name}.csv", name, ts_from="ts")
    weft.install("before", "q(x) AND ONCE p(x, y)", language="monpoly")
    weft.install("last", "PREVIOUS p(x, y)", language="monpoly")
    for now in (3, 5, 20):
        weft.tick(now=_text(now))
    rows = [(row.first_at, *row.values) for row in weft.results("before")]
    assert rows == [(2, 1, 1, "u"), (9, 4, 2, "v")]
    # The states of `last` are those of p alone: 0, 3 and 4.
    assert {row.values for row in weft.results("last")} == {(1, 1, "u"), (1, 2, "v"), (2, 1, "w")}


@pytest.mark.parametrize(
    ("text", "language", "answers"),
    [
        ("s(x, _, z, _)", "monpoly", {(0, 1, "u"), (1, 2, "v")}),
        ("x <- CNT z; a ONCE s(a, _, z, _)", "monpoly", {(0, 1, 1), (1, 1, 1), (1, 1, 2)}),
        ("s(x, _, z, _)", "mutl", {(0, 1, "u", 2), (1, 2, "v", 1)}),
        ("s(x, _, z, _)", "mutl-minmax", {(0, 1, "u", 1), (1, 2, "v", 1)}),
        ("s(x, _, z, _) AT NOW", "2fol", {(0, 1, "u"), (1, 2, "v")}),
        ("s(x, t, z, _)", "monpoly", r"cannot use the column at of s: it is TIMESTAMP.*Write _ instead of at"),
        ("EXISTS t. s(x, t, z, _)", "monpoly", "--ts-from at"),
        ("s(x, _t, z, _t)", "monpoly", "cannot use the column at"),
        ("s(x, y, z, _) AT NOW", "2fol", "cannot use the column at"),
    ],
)
def test_columns_that_a_formula_cannot_use_are_left_unnamed(
    text: str, language: str, answers: object, weft: Weft, tmp_path: Path
) -> None:
    """The file has two rows of the first state that differ in the TIMESTAMP only, and one without it."""
    rows = (f"1,{_text(5)},u,true,{_text(0)}", f"1,{_text(6)},u,true,{_text(0)}", f"2,{_text(5)},v,false,{_text(1)}")
    (tmp_path / "s.csv").write_text("\n".join(["a, at, b, c, ts", *rows, f"3,,v,true,{_text(1)}"]) + "\n")
    weft.ingest_file(tmp_path / "s.csv", "s", ts_from="ts")
    if isinstance(answers, str):
        with pytest.raises(Refused) as refused:
            weft.install("f", text, language=language)  # type: ignore[arg-type]
        assert re.search(answers, f"{refused.value.message} {refused.value.hint}")
        return
    weft.install("f", text, language=language)  # type: ignore[arg-type]
    weft.tick(now=_text(9))
    assert {row.values for row in weft.results("f")} == answers


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("EVENTUALLY q(x)", "EVENTUALLY"),
        ("NOT q(x)", "x"),
        ("q(x) AND r(x)", "r"),
        ("time_points(x, y)", "time_points"),
        ("q(x) AND odd(x)", "column c of odd: it is DATE.*Write _ instead of c"),
        ("q(x) AND plain(x)", "belongs to the log"),
        ("q(x) AND p(y, z) AND v = y / x", r"x may be 0 in y / x.*AND NOT \(x = 0\)"),
    ],
)
def test_what_a_formula_cannot_be_is_refused_with_the_reason(text: str, why: str, weft: Weft, tmp_path: Path) -> None:
    log = Log((0,), ({"p": [(1, "u")], "q": [(1,)]},))
    load(weft, tmp_path, log, 0, 1)
    _ingest(weft, tmp_path, "odd", "c, ts", [f"2020-01-01,{_text(0)}"], 0)
    _ingest(weft, tmp_path, "plain", "c, ts", [f"7,{_text(0)}"], 0)
    with pytest.raises(Refused, match=f"(?s){why}"):
        weft.install("f", text, language="monpoly")


def test_a_standing_query_divides_only_by_values_that_are_never_0(weft: Weft, tmp_path: Path) -> None:
    states = ({"p": [(6, "u"), (5, "v")], "q": [(0,), (3,)]}, {"p": [(8, "u")], "q": [(0,)]})
    load(weft, tmp_path, Log((0, SECOND), states), 0, 2)
    weft.install("f", "q(x) AND p(y, z) AND v = y / x AND NOT (x = 0)", language="monpoly")
    weft.tick(now=_text(2 * SECOND))
    assert {row.values for row in weft.results("f")} == {(0, 3, 6, "u", 2), (0, 3, 5, "v", 1)}


@pytest.mark.parametrize(
    "text",
    [
        "s <- SUM x p(x, y)",
        "p(x, y) AND z = x * 3",
        "MU X(x). (EXISTS y. p(x, y)) OR EXISTS y. (PREVIOUS X(y)) AND x = y + y",
    ],
)
def test_a_number_beyond_64_bits_sets_its_query_aside_alone(text: str, weft: Weft, tmp_path: Path) -> None:
    large = 2**62
    states = ({"p": [(large, "u")]}, {"p": [(large, "u"), (large + 1, "v")]}, {"p": [(1, "w")]})
    load(weft, tmp_path, Log((0, SECOND, 2 * SECOND), states), 0, 3)
    weft.install("faulty", text, language="mutl", allow_unbounded=True)
    weft.install("other", "n <- CNT x ONCE p(x, y)", language="monpoly")
    (report,) = weft.tick(now=_text(3 * SECOND)).reports
    outcomes = {each.query.name: each for each in report.outcomes}
    assert outcomes["faulty"].query.state == "failed"
    assert "exceeds BIGINT" in str(outcomes["faulty"].reason)
    assert {row.values for row in weft.results("other")} == {(0, 1), (1, 2), (2, 3)}


def test_a_log_that_continues_with_another_state_is_reported(weft: Weft, tmp_path: Path) -> None:
    log = drawn(1)
    load(weft, tmp_path, log, 0, 8)
    weft.install("f", FORMULAS[0], language="monpoly")
    weft.tick(now=_text(log.at[7] + 1))
    load(weft, tmp_path, log, 9, 12)
    (report,) = weft.tick(now=_text(log.at[12] + 10 * SECOND)).reports
    assert report.outcomes[0].query.state == "failed"
    assert "continues with time point 9, but the last time point was 7" in str(report.outcomes[0].reason)


def test_a_formula_always_is_a_synopsis(weft: Weft, tmp_path: Path) -> None:
    load(weft, tmp_path, drawn(1), 0, 8)
    with pytest.raises(SynopsisError, match="starts with the whole history"):
        weft.install("f", FORMULAS[0], language="monpoly", start="now")


TWICE = "MU X. (q(x) OR (PREVIOUS X) OR (PREVIOUS X))"


def test_an_unbounded_formula_is_refused_unless_it_is_allowed(weft: Weft, tmp_path: Path) -> None:
    log = Log((0, SECOND, 2 * SECOND), ({"q": [(1,)], "p": [(1, "u")]}, {}, {"q": [(1,), (2,)]}))
    load(weft, tmp_path, log, 0, 3)
    with pytest.raises(SynopsisError, match=r"has no bound.*Theorem 3\.4") as refused:
        weft.install("twice", TWICE, language="mutl")
    assert "--language mutl-minmax bounds the relation" in str(refused.value.hint)
    weft.install("greatest", TWICE, language="mutl-minmax")
    weft.install("twice", TWICE, language="mutl", allow_unbounded=True)
    weft.install("once", "ONCE1 q(x)", language="mutl")
    for now in (SECOND, 3 * SECOND):
        weft.tick(now=_text(now))
    assert {row.values for row in weft.results("twice")} == {(0, 1, "1"), (1, 1, "2"), (2, 1, "5"), (2, 2, "1")}
    assert {row.values for row in weft.results("once")} == {(0, 1, 1), (1, 1, 1), (2, 1, 2), (2, 2, 1)}
    assert {row.values for row in weft.results("greatest")} == {(0, 1, "1"), (1, 1, "1"), (2, 1, "1"), (2, 2, "1")}
