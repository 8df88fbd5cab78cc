"""Plans of maintenance: look-ups instead of whole tables, auxiliary views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from shown_temporal import tracked, words
from temporal_drawn import TABLES, Drawn
from temporal_evaluator import Database, Rows, later, less, union
from weft.algebra.relation import Grouped, Join, Measure, Output, Project, Scan, Select
from weft.algebra.scalar import MICROSECOND, Call, ColumnRef, Literal, Now, PeriodOf, Scalar, call, minus
from weft.algebra.schema import BIGINT, INT, INTERVAL, TIMESTAMP, Column, TableSchema
from weft.algebra.temporal import (
    Deleted,
    Difference,
    Extension,
    Fragment,
    Inserted,
    Semijoin,
    Temporal,
    attributes,
    each,
    inputs,
    over,
)
from weft.derivation.temporal.auxiliary import Auxiliary, Keys, auxiliary_views, needed_auxiliaries
from weft.derivation.temporal.maintenance_plan import maintenance
from weft.derivation.temporal.refresh_terms import Within, windows
from weft.derivation.temporal.timeslice_pushdown import push_timeslices
from weft.errors import DerivationError

EMPLOYEES = tracked(11, "employees", "id", "dept", "office", "phone")
ASSIGNMENTS = tracked(12, "assignments", "id", "project", "hours")
E, S = Scan(EMPLOYEES, "e"), Scan(ASSIGNMENTS, "s")


def ref(scan: str, column: str) -> ColumnRef:
    return ColumnRef(scan, column, INT)


DEVELOPERS = Project(Select(E, call("=", ref("e", "dept"), Literal(1, INT))), "d", (Output("id", ref("e", "id")),))
JOINED = Select(Join((DEVELOPERS, S)), call("=", ref("d", "id"), ref("s", "id")))
PROJECTS = Project(JOINED, "v", (Output("project", ref("s", "project")),))
ROWS = Measure("count", None, ColumnRef("a", "n", BIGINT))
HOURS = Measure("sum", ref("s", "hours"), ColumnRef("a", "hours", BIGINT))
BY_PROJECT = Grouped(S, "a", (Output("project", ref("s", "project")),), (ROWS, HOURS))


def stored(relation: Temporal, id: int) -> Scan:
    """A table that holds an expression."""
    names = attributes(relation)
    given = (*((name.column, name.type) for name in names), ("valid_from", TIMESTAMP), ("valid_to", TIMESTAMP))
    columns = tuple(Column(place + 1, *each) for place, each in enumerate(given))
    return Scan(TableSchema(id, f"kept{id}", columns, start="valid_from", end="valid_to"), names[0].scan)


def test_a_change_looks_up_what_it_meets() -> None:
    derived = maintenance(PROJECTS).change([EMPLOYEES])
    assert derived.reads_whole == ()
    assert set(derived.reads) == {E, S}
    assert words(derived.literal.inserted or E) != words(derived.inserted or E)


def test_without_an_equality_a_join_reads_whole_tables() -> None:
    apart = Select(Join((E, S)), call("<", ref("e", "id"), ref("s", "id")))
    assert maintenance(apart).change([EMPLOYEES]).reads_whole == (S,)


def test_a_moving_window_is_refreshed_by_who_expired() -> None:
    plan = maintenance(replace(BY_PROJECT, input=Extension(S, WEEK)))
    assert plan.refresh.reads_whole == ()
    assert plan.change([ASSIGNMENTS]).reads_whole == ()


def test_a_refresh_without_a_bounded_rule_reads_whole_tables() -> None:
    changing = call("<", Call("period_start", (PeriodOf("e"),), TIMESTAMP), ref("e", "office"))
    either = call("or", changing, call(">", ref("e", "id"), Now()))
    assert maintenance(Select(E, either)).refresh.reads_whole == (E,)


def test_a_refresh_by_a_columns_threshold_looks_up_the_rest_of_a_join() -> None:
    due = call("<", Call("+", (ColumnRef("s", "hours", INT), WEEK), TIMESTAMP), Now())
    plan = maintenance(Select(Join((E, S)), call("and", call("=", ref("e", "id"), ref("s", "id")), due)))
    assert plan.refresh.deleted is None
    assert plan.refresh.reads_whole == (S,)


def test_an_operator_without_a_rule_is_refused() -> None:
    with pytest.raises(DerivationError, match="Semijoin"):
        maintenance(Semijoin(E, S, ((ref("e", "id"), ref("s", "id")),))).change([EMPLOYEES])


def test_which_views_time_changes() -> None:
    ended = call("<", Call("period_end", (PeriodOf("e"),), TIMESTAMP), Now())
    assert maintenance(PROJECTS).refresh.empty
    assert maintenance(BY_PROJECT).refresh.empty
    assert maintenance(Select(E, ended)).refresh.empty  # an open period stays open: what ended has ended
    young = call(">=", Call("period_start", (PeriodOf("e"),), TIMESTAMP), Call("-", (Now(), WEEK), TIMESTAMP))
    assert not maintenance(Select(E, young)).refresh.empty
    assert not maintenance(replace(BY_PROJECT, input=Extension(S, WEEK))).refresh.empty


WEEK = Literal(7 * 86_400_000_000, INTERVAL)
KEYS = {11: ("id", "office"), 12: ("id",)}


def test_auxiliary_views_are_the_least_that_serves() -> None:
    employees, assignments = sorted(auxiliary_views(PROJECTS, KEYS), key=lambda view: view.table.id)
    assert words(employees.definition) == "π_{id, dept, office}(σ_{employees.dept = 1}(employees))"
    assert words(assignments.definition) == "π_{id, project}(assignments)"
    assert auxiliary_views(Select(E, call("=", ref("e", "dept"), Literal(1, INT))), KEYS) == ()


def test_below_a_count_or_a_period_predicate_every_column_stays() -> None:
    (counted,) = auxiliary_views(BY_PROJECT, KEYS)
    assert counted.columns == ("id", "project", "hours")
    long = call(">", Call("period_length", (PeriodOf("s"),), INTERVAL), WEEK)
    judged = replace(JOINED, predicate=call("and", JOINED.predicate, long))
    views = auxiliary_views(replace(PROJECTS, input=judged), KEYS)
    assert {view.table.name: view.columns for view in views}["assignments"] == ("id", "project", "hours")


def without_contained(views: Iterable[Auxiliary]) -> tuple[Auxiliary, ...]:
    """The auxiliary views without those that another one contains."""
    kept: list[Auxiliary] = []
    for view in sorted(set(views), key=lambda view: (len(view.conditions), -len(view.columns), repr(view))):
        if not any(other.contains(view) for other in kept):
            kept.append(view)
    return tuple(kept)


def over_auxiliaries(expression: Temporal, keys: Keys, stored: Mapping[Auxiliary, TableSchema]) -> Temporal:
    """The view over the tables that store its auxiliary views; it is equal to the view over the base relations."""
    chosen: dict[TableSchema, TableSchema] = {}
    for base, wanted in needed_auxiliaries(expression, keys).items():
        found = next((table for view, table in stored.items() if view.contains(wanted)), None)
        if found is not None:
            chosen[base] = wanted.part_of(found)
    return replaced(expression, chosen)


def replaced(relation: Temporal, chosen: Mapping[TableSchema, TableSchema]) -> Temporal:
    if isinstance(relation, Scan):
        return replace(relation, table=chosen.get(relation.table, relation.table))
    return over(relation, tuple(replaced(part, chosen) for part in inputs(relation)))


def test_one_that_is_contained_in_another_is_not_kept() -> None:
    some = replace(PROJECTS, input=Select(JOINED, call("=", ref("s", "project"), Literal(3, INT))))
    one, two = auxiliary_views(PROJECTS, KEYS), auxiliary_views(some, KEYS)
    assert without_contained([*one, *two]) == without_contained(one)


def test_random_views_over_auxiliary_views_are_the_same() -> None:
    smaller = 0
    for seed in range(200):
        drawn = Drawn(seed)
        view, now = drawn.view(drawn.chance.choice((2, 3))), 6
        keys = {table.id: ("k",) for table in TABLES}
        tables: dict[str, Rows] = {table.name: drawn.rows(now) for table in TABLES}
        views = auxiliary_views(view, keys)
        places = {each: stored(each.definition, 100 + n).table for n, each in enumerate(views)}
        data = Database(now, tables)
        base = tables | {table.name: data.value(each.definition) for each, table in places.items()}
        smaller += sum(bool(each.conditions) or len(each.columns) < 2 for each in views)
        assert Database(now, base).value(over_auxiliaries(view, keys, places)) == data.value(view)
    assert smaller > 30


def test_auxiliary_views_are_kept_by_the_changes_of_their_table_alone() -> None:
    chosen = Select(S, call(">", ref("s", "project"), Literal(0, INT)))
    view = Project(
        Select(Join((E, chosen)), call("=", ref("e", "id"), ref("s", "id"))), "v", (Output("p", ref("s", "project")),)
    )
    (kept,) = (each for each in auxiliary_views(view, {12: ("id",)}) if each.table == ASSIGNMENTS)
    assert kept.columns == ("id", "project") and kept.conditions
    base = Scan(ASSIGNMENTS, "assignments")
    old = {(1, 1, 7): frozenset((1, 2, 3)), (2, 1, 7): frozenset((3,))}
    gone, came = {(1, 1, 7): frozenset((3,))}, {(1, 1, 8): frozenset((3,)), (3, 0, 1): frozenset((3,))}
    data = Database(3, {"assignments": old}, {"assignments": gone}, {"assignments": came})
    deleted, inserted = data.value(kept.of(Deleted(base))), data.value(kept.of(Inserted(base)))
    new = Database(3, {"assignments": union(less(old, gone), came)}).value(kept.definition)
    assert union(less(data.value(kept.definition), deleted), inserted) == new
    assert new == {(1, 1): frozenset((1, 2, 3)), (2, 1): frozenset((3,))}


def test_random_views_are_maintained_by_what_a_plan_reads() -> None:
    grouped = 0
    for seed in range(100):
        drawn = Drawn(10_000 + seed)
        view, then, now = drawn.view(2), 5, 8
        plan = maintenance(view)
        old: dict[str, Rows] = {table.name: drawn.rows(then) for table in TABLES}
        before = Database(then, old)
        tables = {name: later(rows, then, now) for name, rows in old.items()}
        data = Database(now, tables, params={"refreshed": then})
        refreshed = less(later(before.value(plan.view), then, now), data.value(plan.refresh.deleted))
        current = union(refreshed, data.value(plan.refresh.inserted))
        assert current == data.value(plan.view)
        deltas = {table.name: drawn.change(tables[table.name], now, now) for table in TABLES}
        gone, came = ({name: pair[side] for name, pair in deltas.items()} for side in (0, 1))
        change, data = plan.change(TABLES), Database(now, tables, gone, came, {"changed_from": now})
        new = {name: union(less(tables[name], gone[name]), came[name]) for name in deltas}
        changed = union(less(current, data.value(change.deleted)), data.value(change.inserted))
        assert changed == Database(now, new).value(plan.view)
        grouped += any(isinstance(part, Grouped) for part in each(plan.view))
    assert grouped > 15


def test_a_difference_is_looked_up_on_both_sides() -> None:
    same = Difference(E, replace(E, alias="f"))
    assert maintenance(same).change([EMPLOYEES]).reads_whole == ()


def bounded(name: str, op: str, value: Scalar) -> Scalar:
    return call(op, Call(name, (PeriodOf("e"),), TIMESTAMP), value)


def test_a_window_of_first_or_last_instants_is_recognized_if_each_tuple_has_one() -> None:
    low, high = Literal(3, TIMESTAMP), Literal(9, TIMESTAMP)
    started = call("and", bounded("period_start", ">=", low), bounded("period_start", "<=", high))
    ended = call("and", bounded("period_end", ">=", low), bounded("period_end", "<", Now()))
    assert windows(started) == (Within("valid_from", (low,), (high,)),)
    assert windows(ended) == (Within("valid_to", (low,), (minus(Now(), MICROSECOND),)),)
    assert windows(call("or", started, ended)) == windows(started) + windows(ended)  # type: ignore[operator]
    assert windows(call("or", started, bounded("period_end", ">=", low))) is None
    assert windows(call("and", started, call("=", ref("e", "dept"), Literal(1, INT)))) is None


def test_keys_are_of_what_holds_since_the_change() -> None:
    """Else a look-up by what many have had, one after the other, would find all of them."""
    three = Select(
        Join((Scan(EMPLOYEES, "d"), E, S)),
        call("and", call("=", ref("d", "dept"), ref("e", "dept")), call("=", ref("e", "id"), ref("s", "id"))),
    )
    change = maintenance(three).change([EMPLOYEES], ["deletions"])
    found = [part for part in each(change.deleted) if isinstance(part, Semijoin) and part.left == S]
    assert found and all(isinstance(part.right, (Fragment, Deleted)) for part in found), words(change.deleted)


def test_what_begins_at_an_instant_is_not_cut_there_again() -> None:
    cut = Fragment(Project(Fragment(E, Now()), "p", (Output("id", ref("e", "id")),)), Now())
    assert push_timeslices(cut) == cut.input
    assert push_timeslices(Fragment(E, Now())) == Fragment(E, Now())
