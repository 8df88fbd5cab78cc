"""Each equation of the paper by its number, both sides evaluated on random relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest

from shown_temporal import PAIRED, R, S
from temporal_drawn import Drawn, span
from temporal_evaluator import Database, Rows, later, less, shared, union
from weft.algebra.relation import Grouped, Join, Measure, Output, Project, Select, Union
from weft.algebra.scalar import REFRESHED, Call, ColumnRef, Literal, Now, PeriodOf, call
from weft.algebra.schema import BIGINT, INT, INTERVAL, TIMESTAMP
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Temporal,
)
from weft.derivation.temporal.aggregation import c17, c18, c19, c20, r9
from weft.derivation.temporal.delta import Delta, applied, followed_by, pure
from weft.derivation.temporal.difference import c1, c2, c3, c4
from weft.derivation.temporal.extension import expired, extension_deleted, extension_inserted
from weft.derivation.temporal.join import c11, c12
from weft.derivation.temporal.judging import not_true, state_at_refresh
from weft.derivation.temporal.measures import maintainable_form
from weft.derivation.temporal.projection import c7, c8
from weft.derivation.temporal.rules import DerivationTrace, refresh, with_operand
from weft.derivation.temporal.union import c5, c6

TRIES: Final = 120
K, V = ColumnRef("r", "k", INT), ColumnRef("r", "v", INT)
STEADY = call("<>", K, Literal(1, INT))
TIMELY = call(">=", Call("period_end", (PeriodOf("r"),), TIMESTAMP), Call("-", (Now(), span(3)), TIMESTAMP))
LONG = call(">", Call("period_length", (PeriodOf("r"),), INTERVAL), span(3))
MET = call("and", PAIRED, call("period_overlaps", PeriodOf("r"), PeriodOf("s")), TIMELY)
DIFFERENCE, UNION = Difference(R, S), Union("", (R, S))
PROJECTION = Project(R, "d", (Output("k", K),))
LONGER = Extension(R, span(2))


def counted(inner: Temporal, *, grouped: bool, functions: tuple[str, ...]) -> Grouped:
    measures = tuple(
        Measure(name, V, ColumnRef("a", f"{name}{n}", BIGINT))  # type: ignore[arg-type]
        for n, name in enumerate(functions)
    )
    made = maintainable_form(Grouped(inner, "a", (Output("k", K),) if grouped else (), measures))
    found = made.input if isinstance(made, Project) else made
    assert isinstance(found, Grouped)
    return found


SUMS: Final = ("sum", "count", "avg")
AGGREGATES: Final = {
    "sums": counted(R, grouped=True, functions=SUMS),
    "sums of all": counted(R, grouped=False, functions=SUMS),
    "least": counted(R, grouped=True, functions=("min", "max")),
    "least of all": counted(R, grouped=False, functions=("min",)),
    "medians": counted(R, grouped=True, functions=("median", "count")),
    "medians of all": counted(R, grouped=False, functions=("median",)),
}
WINDOWS: Final = {name: replace(node, input=replace(LONGER, input=R)) for name, node in AGGREGATES.items()}

Given = Callable[[Temporal], Delta]
"""What a rule makes of ∇R or ΔR (∇S or ΔS for the right input)."""
DELETED: Final[dict[str, tuple[Temporal, int, Given]]] = {
    "c.1": (DIFFERENCE, 0, lambda part: c1(DIFFERENCE, part)),
    "c.3": (DIFFERENCE, 1, lambda part: c3(DIFFERENCE, part)),
    "c.5": (UNION, 0, lambda part: c5(UNION, 0, part)),
    "c.5 right": (UNION, 1, lambda part: c5(UNION, 1, part)),
    "c.7": (PROJECTION, 0, lambda part: c7(PROJECTION, part)),
    "c.9": (Select(R, STEADY), 0, lambda part: c11(Select(R, STEADY), 0, part)),
    "c.11": (Select(Join((R, S)), PAIRED), 1, lambda part: c11(Select(Join((R, S)), PAIRED), 1, part)),
    "EX": (LONGER, 0, lambda part: extension_deleted(LONGER, part)),
    **{f"c.17 {n}": (node, 0, lambda part, node=node: c17(node, part, node)) for n, node in AGGREGATES.items()},
    **{f"c.19 {n}": (node, 0, lambda part, node=node: c19(node, part, node)) for n, node in WINDOWS.items()},
}
INSERTED: Final[dict[str, tuple[Temporal, int, Given]]] = {
    "c.2": (DIFFERENCE, 0, lambda part: c2(DIFFERENCE, part)),
    "c.4": (DIFFERENCE, 1, lambda part: c4(DIFFERENCE, part)),
    "c.6": (UNION, 0, lambda part: c6(UNION, 0, part)),
    "c.6 right": (UNION, 1, lambda part: c6(UNION, 1, part)),
    "c.8": (PROJECTION, 0, lambda part: c8(PROJECTION, part)),
    "c.10": (Select(R, STEADY), 0, lambda part: c12(Select(R, STEADY), 0, part)),
    "c.12": (Select(Join((R, S)), PAIRED), 1, lambda part: c12(Select(Join((R, S)), PAIRED), 1, part)),
    "EX": (LONGER, 0, lambda part: extension_inserted(LONGER, part)),
    **{f"c.18 {n}": (node, 0, lambda part, node=node: c18(node, part, node)) for n, node in AGGREGATES.items()},
    **{f"c.20 {n}": (node, 0, lambda part, node=node: c20(node, part, node)) for n, node in WINDOWS.items()},
}
TIMELY_OPERATORS: Final = {"σ": Select(R, call("and", TIMELY, LONG)), "⋈": Select(Join((R, S)), MET)}


def drawn_database(seed: int, now: int = 6) -> Database:
    drawn = Drawn(seed)
    tables = {name: drawn.rows(now) for name in "RS"}
    deltas = {name: drawn.change(rows, now, 0) for name, rows in tables.items()}
    return Database(now, tables, {n: d[0] for n, d in deltas.items()}, {n: d[1] for n, d in deltas.items()})


def net(data: Database, old: Temporal, delta: Delta) -> Rows:
    return union(less(data.value(old), data.value(delta.deleted)), data.value(delta.inserted))


@pytest.mark.parametrize("number", DELETED)
def test_deletions_of_each_rule(number: str) -> None:
    operator, position, rule = DELETED[number]
    base = (R, S)[position]
    changes = 0
    for seed in range(TRIES):
        data = drawn_database(seed)
        new = with_operand(operator, position, Difference(base, Deleted(base)))
        assert data.value(new) == net(data, operator, rule(Deleted(base)))
        changes += data.value(new) != data.value(operator)
    assert changes >= 5


@pytest.mark.parametrize("number", INSERTED)
def test_insertions_of_each_rule(number: str) -> None:
    operator, position, rule = INSERTED[number]
    base = (R, S)[position]
    changes = 0
    for seed in range(TRIES):
        data = drawn_database(seed)
        new = with_operand(operator, position, Union("", (base, Inserted(base))))
        assert data.value(new) == net(data, operator, rule(Inserted(base)))
        changes += data.value(new) != data.value(operator)
    assert changes >= 5


def test_pure_deltas() -> None:
    """Theorem 4.3, (i) to (iii)."""
    one = Delta(Deleted(R), Inserted(R))
    two = pure(R, one)
    for seed in range(TRIES):
        data = drawn_database(seed)
        old, gone, came = data.value(R), data.value(two.deleted), data.value(two.inserted)
        left = less(old, gone)
        assert net(data, R, one) == net(data, R, two)
        assert left.items() == old.items() - gone.items()
        assert union(left, came).items() == left.items() | came.items()


@pytest.mark.parametrize("name", TIMELY_OPERATORS)
def test_pure_deltas_through_what_speaks_of_time(name: str) -> None:
    """(c.13) to (c.16), each step by itself."""
    operator = TIMELY_OPERATORS[name]
    two = pure(R, Delta(Deleted(R), Inserted(R)))
    assert two.deleted is not None and two.inserted is not None
    rest = Difference(R, two.deleted)
    changes = 0
    for seed in range(TRIES):
        data = drawn_database(seed)
        before, between = data.value(operator), data.value(with_operand(operator, 0, rest))
        after = data.value(with_operand(operator, 0, Union("", (rest, two.inserted))))
        assert between == less(before, data.value(with_operand(operator, 0, two.deleted)))
        assert after == union(between, data.value(with_operand(operator, 0, two.inserted)))
        changes += after != before
    assert changes >= 5


def test_without_purity_they_do_not_hold() -> None:
    operator = TIMELY_OPERATORS["σ"]
    differ = 0
    for seed in range(TRIES):
        data = drawn_database(seed)
        new = with_operand(operator, 0, Difference(R, Deleted(R)))
        differ += data.value(new) != less(data.value(operator), data.value(with_operand(operator, 0, Deleted(R))))
    assert differ > 0


def test_one_delta_after_another() -> None:
    """The net effect of section 4.3, and that it keeps the two conditions."""
    first = Delta(Deleted(R), Inserted(R))
    then = Delta(Select(applied(R, first), STEADY), None)
    both = followed_by(first, then)
    for seed in range(TRIES):
        data = drawn_database(seed)
        assert net(data, R, both) == data.value(applied(applied(R, first), then))
        gone, came = data.value(both.deleted), data.value(both.inserted)
        assert not less(gone, data.value(R)) and not shared(came, less(data.value(R), gone))


STEADY_OPERATORS: Final = {
    "r.1": DIFFERENCE,
    "r.2": UNION,
    "r.3": PROJECTION,
    "r.4": Select(R, STEADY),
    "r.5": Select(Join((R, S)), PAIRED),
    "r.8": AGGREGATES["sums"],
}
PASSING: Final = {
    "r.6": TIMELY_OPERATORS["σ"],
    "r.7": TIMELY_OPERATORS["⋈"],
    "r.EX": LONGER,
    "r.9": WINDOWS["sums"],
    "r.9 of all": WINDOWS["sums of all"],
    "r.9 again": WINDOWS["least"],
}


def two_instants(seed: int) -> tuple[Database, Database, int, int]:
    drawn = Drawn(seed)
    then = drawn.chance.randint(1, 6)
    now = then + drawn.chance.randint(1, 6)
    tables = {name: drawn.rows(then) for name in "RS"}
    aged = {name: later(rows, then, now) for name, rows in tables.items()}
    return Database(then, tables), Database(now, aged, params={"refreshed": then}), then, now


@pytest.mark.parametrize("number", (*STEADY_OPERATORS, *PASSING))
def test_passing_of_time(number: str) -> None:
    operator = (STEADY_OPERATORS | PASSING)[number]
    log = DerivationTrace()
    delta = refresh(operator, log)
    assert [step.rule for step in log.steps] == [number.split(" ")[0]]
    changes = 0
    for seed in range(TRIES):
        before, after, then, now = two_instants(seed)
        old = later(before.value(operator), then, now)
        assert after.value(state_at_refresh(operator)) == old
        assert after.value(operator) == union(less(old, after.value(delta.deleted)), after.value(delta.inserted))
        changes += after.value(operator) != old
    assert (changes > TRIES // 20) == (number in PASSING)


def test_what_the_paper_takes_out_and_puts_in() -> None:
    """(r.6) as it is printed: with ¬p at t_now over what held p at t, and the other way round."""
    operator = TIMELY_OPERATORS["σ"]
    assert isinstance(operator, Select)
    opposite = replace(operator, predicate=not_true(operator.predicate))
    for seed in range(TRIES):
        before, after, then, now = two_instants(seed)
        held, did_not = (later(before.value(each), then, now) for each in (operator, opposite))
        gone = Database(now, {"R": held}).value(opposite)
        came = Database(now, {"R": did_not}).value(operator)
        assert after.value(operator) == union(less(held, gone), came)


@pytest.mark.parametrize("name", WINDOWS)
def test_the_papers_refresh_of_a_window_and_the_smaller_one(name: str) -> None:
    """(r.9) as it is printed gives what (c.17) gives with what expired, which never touches more."""
    operator = WINDOWS[name]
    first = Call("+", (REFRESHED, Literal(1, INTERVAL)), TIMESTAMP)
    recent = Fragment(R, Call("-", (first, span(2)), TIMESTAMP))
    new = Fragment(replace(operator, input=replace(LONGER, input=recent)), first)
    old = state_at_refresh(operator)
    ended = Fragment(
        Select(old, call(">=", Call("period_end", (PeriodOf(operator.alias),), TIMESTAMP), Now())), first
    )  # NOW ∈ T
    ours = r9(operator)
    for seed in range(TRIES):
        _, data, _, _ = two_instants(seed)
        assert net(data, old, Delta(ended, new)) == net(data, old, ours) == data.value(operator)
        assert not less(data.value(ours.deleted), data.value(ended))
        assert not less(data.value(expired(LONGER)), data.value(state_at_refresh(LONGER)))


def test_the_papers_counts() -> None:
    """Section 5's example, figures 5 and 7: the counts of R with windows of 0 and 2, and after b is inserted at 97."""
    at = {("a",): frozenset((90, 95, 96)), ("b",): frozenset((94, 95))}
    data = Database(97, {"R": {(row[0], None): held for row, held in at.items()}})
    measure = Measure("count", None, ColumnRef("a", "n", BIGINT))
    count = Grouped(R, "a", (), (measure,))
    assert data.value(count) == {
        (0,): frozenset((*range(90), 91, 92, 93, 97)), (1,): frozenset((90, 94, 96)), (2,): frozenset((95,)),
    }  # fmt: skip
    window = Grouped(LONGER, "a", (), (measure,))
    assert data.value(window) == {
        (0,): frozenset((*range(90), 93)), (1,): frozenset((90, 91, 92, 94)), (2,): frozenset((95, 96, 97)),
    }  # fmt: skip
    came = Database(97, data.tables, inserted={"R": {("b", None): frozenset((97,))}})
    delta = c18(count, Inserted(R), count)
    assert came.value(delta.deleted) == {(0,): frozenset((97,))} and came.value(delta.inserted) == {
        (1,): frozenset((97,))
    }
    unchanged = c20(window, Inserted(R), window)
    assert came.value(unchanged.deleted) == {} == came.value(unchanged.inserted)
