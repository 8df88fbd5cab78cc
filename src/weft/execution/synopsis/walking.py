"""Evaluate formulas with fixpoints at each time point of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

import pyarrow as pa

from weft.algebra.formula import Formula, free_variables
from weft.derivation.synopsis.construct import COUNT, INSTANT, LAST, Stored, Synopsis
from weft.execution.synopsis.batch import EngineState, stored_schema
from weft.execution.synopsis.changing_rows import Row
from weft.execution.synopsis.stepping import Changes, Stepper
from weft.execution.synopsis.stepping_past import Anchors, CurrentPoint, one_nan
from weft.execution.synopsis.valuing import BatchValues
from weft.period_sql.notation import listed
from weft.period_sql.past import TIME_POINTS
from weft.period_sql.steps import PERIOD
from weft.storage.time_limit import require_time


@dataclass
class Walk:
    """Evaluates formulas at the time points of a batch. ``values`` evaluates the subformulas without fixpoints."""

    synopsis: Synopsis
    state: EngineState
    values: BatchValues
    stored: dict[Stored, Anchors] = field(default_factory=dict)

    def answers(self, formula: Formula, schema: pa.Schema) -> str:
        """Return a query for the answers of one formula at each time point, with the columns of ``schema``.

        Raise LimitExceeded if the time limit of the query has expired.
        """
        relations = ((stored, name) for stored, name in self.state.relations.items() if stored.stepped)
        before = {stored: _anchors(stored, self._rows(f"SELECT * FROM {name}")) for stored, name in relations}
        stepping = Stepper(formula, self.synopsis.semantics, self._leaf, before)
        places = self._places(formula)
        answers_so_far: list[tuple[object, ...]] = []
        earlier = self.state.at
        points = self._rows(f"SELECT tp, instant FROM {TIME_POINTS} ORDER BY tp")
        for tp, at in zip(*(column.to_pylist() for column in points.columns), strict=True):
            require_time()
            rows = stepping.at(CurrentPoint(tp, at, earlier))
            count = "n" in schema.names
            answers_so_far += sorted(
                (tp, *(row[place] for place in places), *([_decimal(number)] if count else []))
                for row, number in rows.items()
            )
            earlier = at
        self.stored |= stepping.stored()
        return self._given(_table(answers_so_far, schema))

    def _rows(self, query: str) -> pa.Table:
        return self.values.operations.engine.rows(query)

    def _given(self, rows: pa.Table) -> str:
        """Give the rows to the engine, and return a query for them."""
        operations = self.values.operations
        name = f"walked_{next(operations.numbers)}"
        operations.engine.given(name, rows)
        return f"SELECT * FROM {name}"

    def _places(self, formula: Formula) -> list[int]:
        number = self.synopsis.formulas.index(formula)
        variables = free_variables(formula)
        return [variables.index(each) for each in self.synopsis.answers[number]]

    def rows_to_store(self, stored: Stored) -> str:
        """Return a query for the rows to store in a relation after the batch."""
        schema = stored_schema(stored)
        rows = []
        for (row, at), count in self.stored[stored].items():
            instants = [] if at is None else list(at) if stored.runs else [at[0]]
            values = [*row, *instants, *([format(count, "x")] if stored.counted else [])]
            rows.append(values or [True])
        return self._given(_table(rows, schema))

    def _leaf(self, formula: Formula) -> Changes:
        value, variables = self.values.value(formula), free_variables(formula)
        if value is None:
            return {}
        heads = [f"{value.column(each)} AS c{number}" for number, each in enumerate(variables, 1)]
        query = f"SELECT {listed(heads, f'{value.count()} AS n', PERIOD)} FROM {value.source} AS rows_of"
        rows = self._rows(query)
        changes: dict[int, list[tuple[Row, int]]] = {}
        for *row, count, first, end in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            values = tuple(map(one_nan, row))
            changes.setdefault(first, []).append((values, count))
            changes.setdefault(end, []).append((values, -count))
        return changes


def _table(rows: Sequence[Sequence[object]], schema: pa.Schema) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, type) for column, type in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _decimal(count: int) -> str:
    """Python's own conversion stops at 4,300 digits."""
    return str(Decimal(count))


def _anchors(stored: Stored, rows: pa.Table) -> Anchors:
    anchors: Anchors = {}
    width = len(stored.variables)
    for row in rows.to_pylist():
        values: Row = tuple(one_nan(row[f"v{number}"]) for number in range(1, width + 1))
        run = (row[INSTANT], row[LAST if stored.runs else INSTANT]) if stored.timed else None
        anchors[values, run] = int(row[COUNT], 16) if stored.counted else 1
    return anchors
