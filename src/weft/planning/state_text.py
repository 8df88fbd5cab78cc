"""Print how a tick computes the states that its branches read: the SQL of each step, in the order of evaluation.

``:tau`` and ``:t`` remain unbound.  The name of a state depends on its window, so that the names in a tick differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, Literal

from weft.algebra.access import Access, FullScan, Lookup
from weft.algebra.relation import Grouped, Recursive, StateSchema
from weft.derivation.access_paths import in_reading_order
from weft.derivation.recursion import ROUND
from weft.derivation.stateful import key_columns, states
from weft.period_sql.notation import DUCKDB, SPARK, VALID_TIME, Dialect
from weft.planning.last_rows import new_rows_sql
from weft.planning.plan import Branch, columns_read
from weft.planning.recursion_plan import ContinuedRecursion, Derived, continued_recursion, recursion_plan, tables_read
from weft.planning.state_engine import MOST_INPUTS, MOST_LARGE, same_in_duckdb
from weft.planning.state_plan import (
    Keys,
    StateDeltas,
    asked,
    base_scans,
    changed_sql,
    continued_deltas,
    keys_sql,
    keys_view,
    state_rows,
    suffix,
    touched_keys,
)
from weft.planning.state_sql import continued_sql
from weft.planning.view_text import ViewText, view_texts
from weft.planning.words import state_words
from weft.sql.rendering import render
from weft.sql.rendering.layout import laid_out

_STORED: Final = "before_"
_DELTAS: Final = "deltas_"
_THEN: Final = (
    "and then the new rows of the last round; the step below gives the rows of the next round, until a round has no "
    "new rows"
)


@dataclass(frozen=True)
class StateText:
    """The computation of a state: its name, its rows in words, the method, and the views of each step in order.

    ``views`` are the names by which branches read the rows, which the last step gives.
    ``reads_whole`` are the tables that the steps read in full, and ``tables`` all tables below the state.  A recursion
    is ``derived again`` or ``continued``.
    """

    name: str
    views: tuple[str, ...]
    rows: str
    how: str
    steps: tuple[ViewText, ...]
    reads_whole: tuple[str, ...]
    recursion: Literal["derived again", "continued"] | None = None
    tables: tuple[str, ...] = ()


def sized(text: StateText, rows: Mapping[str, int]) -> StateText:
    """Choose the engine of each step from the known sizes of the tables, as far as they decide it."""
    most = MOST_INPUTS if text.recursion else MOST_LARGE
    if any(rows.get(table, 0) > most for table in text.reads_whole):
        steps = (ViewText(each.name, each.in_spark, "Spark") if each.in_spark else each for each in text.steps)
    elif all(rows.get(table, MOST_INPUTS + 1) <= MOST_INPUTS for table in text.tables):
        steps = (replace(each, in_spark=None) for each in text.steps)
    else:
        return text
    return replace(text, steps=tuple(steps))


def _step(state: StateSchema, name: str, sql: Callable[[Dialect], str]) -> ViewText:
    in_spark = laid_out(sql(SPARK))
    # DuckDB does not read the results of queries in the rounds of a recursion.
    rounds = isinstance(state.operator, Recursive)
    if not same_in_duckdb(state) or (rounds and any(each.table.source == "results" for each in base_scans(state))):
        return ViewText(name, in_spark, "Spark")
    return ViewText(name, laid_out(sql(DUCKDB)), "DuckDB", in_spark)


def state_texts(branches: Sequence[Branch], *, whole: bool = False, stored: bool = True) -> tuple[StateText, ...]:
    """Return the states that branches read, each after the states that it reads.

    ``whole`` means that the window has no start.  With ``stored``, running totals are stored from tick to tick.
    """
    texts = _Texts(whole, stored)
    read = (state for branch in branches for state in states(branch.event.relation))
    texts.add(read, [path for branch in branches for path in branch.paths.values()])
    return tuple(texts.found.values())


def _look_ups(paths: Iterable[Access]) -> list[Lookup]:
    return [path for path in paths if isinstance(path, Lookup)]


@dataclass
class _Texts:
    whole: bool
    stored: bool
    found: dict[tuple[str, str], StateText] = field(default_factory=dict)
    reads_whole: dict[str, None] = field(default_factory=dict)

    def add(self, read: Iterable[StateSchema], paths: Sequence[Access]) -> None:
        by_name = {state.name: state for state in read}
        for same in in_reading_order(paths):
            if (state := by_name.get(same[0].table)) is None:
                continue
            groups = "whole" if self.whole else asked(state, same)
            deltas, self.reads_whole = continued_deltas(state, groups) if self.stored else None, {}
            vias = ",".join(path.via.view for path in _look_ups(same))
            key = (state.name, "totals" if deltas is not None else f"{groups}{vias if isinstance(groups, int) else ''}")
            views = tuple(dict.fromkeys(path.view for path in same))
            if (known := self.found.get(key)) is not None:
                self.found[key] = replace(known, views=tuple(dict.fromkeys((*known.views, *views))))
                continue
            recursion: Literal["derived again", "continued"] | None = None
            if isinstance(state.operator, Recursive):
                recursion = "continued" if self._continues(state) else "derived again"
                how, steps = self._recursion(state)
            elif deltas is not None:
                how, steps = self._totals(state, deltas)
            elif groups == "whole":
                how, steps = "all groups, from the tables", self._rows(state, None)
            elif groups == "news":
                how, steps = "the groups that change in the window", self._news(state)
            else:
                how, steps = self._looked_up(state, groups, _look_ups(same))
            tables = tuple(dict.fromkeys(scan.table.name for scan in base_scans(state)))
            self.found[key] = StateText(
                state.name, views, state_words(state), how, steps, tuple(self.reads_whole), recursion, tables
            )

    def _totals(self, state: StateSchema, deltas: StateDeltas) -> tuple[str, tuple[ViewText, ...]]:
        """The rows continue the stored totals.  Without stored totals, they come from the whole tables."""
        if self.whole:
            plan = state_rows(state, None)

            def whole(dialect: Dialect) -> str:
                given = f"(SELECT *, 1 AS sign FROM ({plan.lives(dialect)}) AS given)"
                return continued_sql(state, given, "", dialect)

            views = self._views(plan.reads, plan.paths.values(), plan.columns, state)
            return "all groups, from the tables", (*views, _step(state, state.name, whole))
        views = self._views(deltas.reads, deltas.paths, deltas.columns, state)
        if isinstance(state.operator, Grouped):
            text = continued_sql(state, _DELTAS, _STORED, DUCKDB)
            how = (
                f"running totals: {_STORED} has the groups and totals that the last tick stored; without stored "
                "totals, all groups come from the tables"
            )
        else:
            text = new_rows_sql(state, _DELTAS, _STORED)
            how = (
                f"new rows: {_STORED} has the last rows of each partition, which the last tick stored; without stored "
                "rows, they come from the tables"
            )
        return how, (*views, ViewText(_DELTAS, laid_out(deltas.sql)), ViewText(state.name, laid_out(text), "DuckDB"))

    def _news(self, state: StateSchema) -> tuple[ViewText, ...]:
        branches, kinds = touched_keys(state), tuple(kind for _, kind in key_columns(state))
        if not branches:
            return ()
        read = [each for branch in branches for each in states(branch.event.relation)]
        paths = [path for branch in branches for path in branch.paths.values()]
        views = self._views(read, paths, columns_read(branches), state)
        keys = ViewText(keys_view(state) + suffix(state), laid_out(keys_sql(branches, len(kinds))))
        places = tuple(range(len(kinds)))
        if not kinds:
            return (*views, keys, *self._rows(state, None))
        return (*views, keys, *self._rows(state, Keys(places, kinds, (False,) * len(kinds)), changed=True))

    def _looked_up(self, state: StateSchema, place: int, paths: Sequence[Lookup]) -> tuple[str, tuple[ViewText, ...]]:
        keys = Keys((place,), (key_columns(state)[place][1],), (False,))
        (name,) = keys.columns
        parts = dict.fromkeys(
            f"SELECT {render.key(path.via_key)} AS {name} FROM {render.quoted(path.via.view)}" for path in paths
        )
        view = ViewText(keys_view(state) + suffix(state), "\nUNION ".join(parts))
        how = f"the groups whose {paths[0].key.name} occurs in {' or '.join(dict.fromkeys(p.via.view for p in paths))}"
        return how, (view, *self._rows(state, keys))

    def _continues(self, state: StateSchema) -> ContinuedRecursion | None:
        return continued_recursion(state) if self.stored and not self.whole else None

    def _recursion(self, state: StateSchema) -> tuple[str, tuple[ViewText, ...]]:
        if (continued := self._continues(state)) is not None:
            return self._continued(state, continued)
        plan = recursion_plan(state)
        views = self._views(plan.reads, tables_read((*plan.first, *plan.steps)), plan.columns, state)
        how = f"round by round, from the tables: {plan.last_round} has the first rows, {_THEN}"
        return how, (*views, _step(state, plan.last_round, plan.first_sql), _step(state, state.name, plan.next_sql))

    def _continued(self, state: StateSchema, plan: ContinuedRecursion) -> tuple[str, tuple[ViewText, ...]]:
        again: tuple[Derived, ...] = ()
        texts = [(plan.last_round, plan.first_sql(DUCKDB)), (state.name, plan.next_sql(DUCKDB))]
        how = (
            f"continued: {plan.stored} has the rows that the last tick stored, and {plan.last_round} the rows that "
            f"follow from new rows of tables, {_THEN}; without stored rows, all rows come from the tables"
        )
        if plan.touching:
            kinds = tuple(column.type for column in state.columns[: plan.width])
            keys = Keys(tuple(range(plan.width)), kinds, (False,) * plan.width)
            named = ", ".join(f"c{place} AS {name}" for place, name in enumerate(keys.columns, 1))
            again = plan.again(keys)
            texts = [
                (plan.touched, plan.touching_sql(DUCKDB)),
                (keys_view(state) + suffix(state), f"SELECT DISTINCT {named} FROM {plan.touched}"),
                (plan.last_round, "\nUNION ALL ".join(filter(None, (texts[0][1], plan.again_sql(keys, DUCKDB))))),
                texts[1],
            ]
            how = (
                f"continued: {plan.stored} has the rows that the last tick stored, {plan.touched} those with a "
                f"derivation that ends, with the rows that follow from them, and {plan.kept} the others; "
                f"{plan.last_round} has the touched rows that still follow from kept rows, and the rows that follow "
                f"from new rows of tables, {_THEN}; without stored rows, all rows come from the tables"
            )
        read = tables_read((*plan.touching, *again, *plan.first, *plan.steps))
        columns = {**plan.columns, ROUND: set(VALID_TIME.columns(plan.width))}
        views = self._views(plan.reads, read, columns, state)
        views = tuple(replace(view, sql=view.sql.replace(f"FROM {ROUND}\n", f"FROM {plan.stored}\n")) for view in views)
        return how, (*views, *(ViewText(name, laid_out(text), "DuckDB") for name, text in texts if text))

    def _rows(self, state: StateSchema, keys: Keys | None, *, changed: bool = False) -> tuple[ViewText, ...]:
        plan = state_rows(state, keys)
        views = self._views(plan.reads, plan.paths.values(), plan.columns, state)
        return (*views, _step(state, state.name, partial(changed_sql, plan) if changed else plan.sql))

    def _views(
        self, read: Iterable[StateSchema], paths: Iterable[Access], columns: Mapping[str, set[str]], state: StateSchema
    ) -> tuple[ViewText, ...]:
        read, paths, before = tuple(read), tuple(paths), self.reads_whole
        self.add(read, paths)
        names = {each.name for each in read}
        full = (path.table for path in paths if isinstance(path, FullScan) and path.table not in names)
        self.reads_whole = {**before, **dict.fromkeys(full)}
        return view_texts(paths, columns, names, suffix(state))
