"""The plans of installed queries, compiled once a process and grouped for one tick.

Queries of one plan whose windows are of like length go together: one that is new or was long paused never widens
another's window (design section 5).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from weft.algebra.relation import Output
from weft.algebra.scalar import Literal, Scalar
from weft.algebra.schema import TIMESTAMP, TableSchema
from weft.catalog.records import PlanRecord, QueryRecord
from weft.planning.plan import BEGINNING, Branch, Plan, for_many, for_one, parameter_table, plan, restored_parameter

_compiled: dict[tuple[int, str, tuple[TableSchema, ...]], Plan] = {}


def body_of(shape: Plan, text: str) -> str:
    """A plan as the catalog stores it: the text of its first query, whose constants do not matter."""
    return json.dumps({"sql": text, "from_now": shape.from_now})


def compiled(record: PlanRecord, tables: Mapping[str, TableSchema]) -> Plan:
    """The plan of a record over the tables as they are now; raises SqlError where they no longer fit."""
    key = (record.plan_id, record.body, tuple(tables.values()))
    if key not in _compiled:
        body = json.loads(record.body)
        _compiled[key] = plan(body["sql"], tables, from_now=body["from_now"])
    return _compiled[key]


def tau_of(query: QueryRecord, tau: int | None) -> int | None:
    """Where a query's window begins: its last t, or the instant from which it was installed."""
    return query.from_instant if tau is None and query.from_mode == "now" else tau


@dataclass(frozen=True)
class Member:
    """A query in a tick: its id, where its window begins, its constants."""

    query: QueryRecord
    tau: int | None

    @property
    def values(self) -> tuple[Literal, ...]:
        """Its constants, by number of the parameter."""
        return tuple(restored_parameter(kind, raw) for kind, raw in self.query.parameters)


@dataclass(frozen=True)
class Group:
    """Queries of one plan that run together; ``first`` where their windows are open at the beginning;
    ``time_driven_only`` keeps the branches that time drives."""

    plan_id: int
    shape: Plan
    members: tuple[Member, ...]
    t: int
    time_driven_only: bool = False

    @property
    def first(self) -> bool:
        """Whether this is the first delivery (Q^M)."""
        return self.members[0].tau is None

    def branches(self) -> tuple[Branch, ...]:
        """What to run: constants written in for one query, a parameter table for several."""
        events = self.shape.first if self.first else self.shape.branches
        if self.time_driven_only:
            events = tuple(event for event in events if event.driver.kind in ("now_from", "now_before"))
        window: dict[str, Scalar] = {"t": instant(self.t)}
        if self.first:
            window["tau"] = BEGINNING
        if len(self.members) == 1:
            member = self.members[0]
            if member.tau is not None:
                window["tau"] = instant(member.tau)
            one = [for_one(event, self.outputs, member.values, window, self.first) for event in events]
            return tuple(one)
        table = parameter_table(self.plan_id, self.shape)
        return tuple(for_many(event, self.outputs, table, window, self.first) for event in events)

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The plan's columns under names that no user chose."""
        return tuple(replace(output, name=f"c{n}") for n, output in enumerate(self.shape.lifted.outputs, 1))


def instant(micros: int) -> Literal:
    """An instant as a constant of the rewriting."""
    return Literal(micros, TIMESTAMP, fixed=True)


def grouped(
    members: Iterable[Member], plans: Mapping[int, Plan], t: int
) -> tuple[tuple[int | None, tuple[Group, ...]], ...]:
    """The groups of a tick by the length of their windows: (class of length, groups); None: open windows."""
    sorted_in: dict[int | None, dict[int, list[Member]]] = {}
    for member in members:
        length = None if member.tau is None else max(0, t - member.tau).bit_length()
        sorted_in.setdefault(length, {}).setdefault(member.query.plan_id, []).append(member)
    order = sorted(sorted_in, key=lambda length: (length is None, length or 0))
    return tuple(
        (length, tuple(Group(key, plans[key], tuple(found), t) for key, found in sorted_in[length].items()))
        for length in order
    )
