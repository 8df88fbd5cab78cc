"""The laws. Each is a function of a trial that returns None, or raises an AssertionError with the counterexample."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from oracle.derived import (
    EXTRA,
    START,
    Delivered,
    Pair,
    Standing,
    StateTables,
    earliest,
    in_table,
    rows_of,
    run,
    schemas,
    united,
)  # fmt: skip
from oracle.engines import GRID, DuckDb, Engine, Row
from oracle.expressions import LAST
from oracle.histories import Case
from oracle.reference import Reference, answer, reference
from weft.algebra.access import Access
from weft.algebra.relation import And, Query
from weft.algebra.scalar import Call, Literal, Scalar
from weft.algebra.schema import DataType
from weft.algebra.traverse import Node, transform
from weft.derivation.canonical import canonical
from weft.derivation.lift import lift
from weft.derivation.normalize import normalize
from weft.derivation.size import size
from weft.errors import SqlError
from weft.execution.groups import instant
from weft.planning.form import stored_form
from weft.planning.plan import Branch, Plan, at_instant, bound, for_one
from weft.planning.state_causes import all_states
from weft.sql.lower.query import bind
from weft.sql.rendering.render import branch_sql

END = LAST + 1


@dataclass
class Trial:
    """One case on one engine, the reference and the plan worked out once."""

    case: Case
    engine: Engine
    gave: set[int] = field(default_factory=set)
    """The numbers of the branches that gave a row."""
    paths: set[Access] = field(default_factory=set)
    """How the branches of later ticks read tables."""
    read_by: Counter[str] = field(default_factory=Counter)
    """How often states were read, by the way of reading."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.case.salt)

    @cached_property
    def bound(self) -> Query:
        """The query's algebra."""
        return bind(self.case.text.spark, schemas(self.case.history))

    @property
    def sources(self) -> int:
        """The number of tables in its branches, computed without deriving them."""
        return size(self.bound).sources

    @cached_property
    def standing(self) -> Standing:
        return Standing.of(self.case.text.spark, schemas(self.case.history))

    @cached_property
    def reference(self) -> Reference:
        return reference(self.engine, self.case.text.plain)

    def answer(self, instant: int) -> frozenset[Row]:
        """Return the reference's answer at an instant. If there is no reference yet, only this answer is computed."""
        if "reference" in vars(self):
            return self.reference.answers[instant]
        return answer(self.engine, self.case.text.plain, instant)

    @cached_property
    def from_now(self) -> Standing | None:
        """The same query, installed ``--from now``; None where that is beyond the limits on size."""
        try:
            return Standing.of(self.case.text.spark, schemas(self.case.history), from_now=True)
        except SqlError as refused:
            if "Split the query" in str(refused):
                return None
            raise

    @property
    def extra(self) -> str:
        return self.random.choice(EXTRA)

    def states(self, extra: str | None, stored: dict[str, tuple[int, str]] | None = None) -> StateTables | None:
        """The states of one tick; DuckDB alone can compute them.  ``stored`` has the rows that the last tick stored."""
        if not isinstance(self.engine, DuckDb):
            return None
        return StateTables(self.engine, extra or "FALSE", {}, self.read_by, stored)

    def filled(self, branches: Sequence[Branch]) -> Sequence[Branch]:
        """The branches over whole tables, after the states that they read were computed."""
        states = self.states(None)
        if states is not None:
            states.fill(branches)
        return branches

    def windows(self, start: int = 0) -> list[tuple[int, int]]:
        """The partition's ticks from ``start`` on; some may be empty."""
        edges = [start, *(cut for cut in self.case.cuts if cut > start), END]
        return list(pairwise(edges))

    def quiet(self, tau: int, t: int) -> bool:
        """Whether no row begins or ends in the window, nor time itself."""
        lives = (instant for rows in self.case.history.rows.values() for row in rows for instant in row[5:])
        return tau > 0 and not any(s is not None and tau <= s < t for s in lives)


def union_of_starts(trial: Trial) -> None:
    """Law 1 over all time at once, whole tables: rows and first instants are the reference's, and no branch gives a
    row that does not hold at its instant."""
    standing, window = trial.standing, {"tau": instant(GRID), "t": instant(GRID + END), "t0": instant(START)}
    names = standing.form.names or None
    branches = [for_one(event, standing.values, window, True, names) for event in standing.shape.branches]
    texts = [branch.sql for branch in trial.filled(branches)]
    pairs = run(trial.engine, united(texts, len(standing.shape.query.outputs)))
    trial.gave |= {number for _, _, number in pairs}
    sound(trial, pairs, 0, END)
    same("starts over all time", earliest(pairs), trial.reference.first())


def sound(trial: Trial, pairs: Sequence[Pair], tau: int, t: int) -> None:
    """Every pair of ``starts`` holds: the row is in Q(s), and s in the window."""
    wrong = [(row, s) for row, s, _ in pairs if row not in trial.reference.answers.get(s, ()) or not tau <= s < t]
    assert not wrong, f"delivered in [{tau}, {t}), but not in the answer at that instant: {wrong[:5]}"


def any_partition(trial: Trial) -> None:
    """Laws 1 and 2: any partition into ticks delivers the reference's rows with their first instants.

    The first tick has a window without a start, and uses the closed form if there is one.  The other ticks read through
    access paths.  If no row begins or ends in a tick, only the branches that time drives run.  A recursion continues
    the rows that the last tick stored, unless these are lost.
    """
    delivered: Delivered = {}
    extra = trial.random.choice([None, *EXTRA])
    stored: dict[str, tuple[int, str]] = {}
    for tau, t in trial.windows():
        if tau > 0 and trial.random.random() < 0.2:
            stored.clear()
        member = trial.standing.member(1, None if tau == 0 else tau)
        only_time = trial.quiet(tau, t) and trial.random.random() < 0.7
        group = trial.standing.group([member], t, time_driven_only=only_time)
        branches = group.branches()
        if tau > 0:
            trial.paths.update(path for branch in branches for path in branch.paths.values())
        pairs = run(trial.engine, rows_of(group, extra, branches, trial.states(extra, stored)))
        sound(trial, pairs, 0 if tau == 0 else tau, t)
        for row, s in earliest(pairs).items():
            delivered.setdefault(row, s)
        same(f"ticks {trial.windows()} up to {t}", delivered, trial.reference.first(t))


def later_tick(trial: Trial) -> None:
    """One tick over [tau, t) through access paths gives what its branches give over the whole tables."""
    tau = trial.random.randint(0, LAST)
    t = trial.random.randint(tau, END)
    group = trial.standing.group([trial.standing.member(1, tau)], t)
    extra = trial.extra
    found = {(row, s) for row, s, _ in run(trial.engine, rows_of(group, extra, None, trial.states(extra)))}
    window = {"tau": instant(GRID + tau), "t": instant(GRID + t), "t0": instant(START)}
    whole = {(row, s) for row, s, _ in run(trial.engine, _whole(trial.filled(group.branches()), window))}
    assert found == whole, f"[{tau}, {t}): through paths {found - whole} extra, {whole - found} missing"
    sound(trial, [(row, s, 0) for row, s in found], tau, t)


def exact_deltas(trial: Trial) -> None:
    """The rows of a state's input just before a window, and the exact deltas up to an instant of the window, are the
    rows at this instant."""
    tau = trial.random.randint(1, LAST)
    group = trial.standing.group([trial.standing.member(1, tau)], END)
    tables = trial.states(trial.extra)
    for state in {each for branch in group.branches() for each in all_states(branch.event.relation)}:
        off = None if tables is None else tables.off(state, range(tau, END))
        assert not off, f"the deltas from {tau} on do not add up: {off[:5]}"


def _whole(branches: Sequence[Branch], window: Mapping[str, Scalar]) -> str:
    texts = [branch_sql(bound(each.event, window), {}, each.leading) for each in branches]
    return united(texts, len(branches[0].outputs) if branches else 1)


def from_now(trial: Trial) -> None:
    """``--from now`` at i: rows in Q(s) but not in Q(s⁻) for some s >= i, once each, in any partition."""
    standing, since, extra = trial.from_now, trial.random.randint(0, LAST), trial.extra
    if standing is None:
        return
    delivered: Delivered = {}
    for tau, t in trial.windows(since):
        group = standing.group([standing.member(1, tau)], t)
        for row, s in earliest(run(trial.engine, rows_of(group, extra, None, trial.states(extra)))).items():
            delivered.setdefault(row, s)
    same(f"from now at {since}", delivered, trial.reference.entering(since))


def one_instant(trial: Trial) -> None:
    """``at_instant`` is the query run ad hoc at s."""
    s = trial.random.randint(0, LAST)
    found = trial.filled(at_instant(trial.standing.compiled.query, instant(GRID + s)))
    rows = frozenset(row[:-1] for branch in found for row in trial.engine.run(branch.sql))
    wanted = trial.answer(s)
    assert rows == wanted, f"at {s}: {rows ^ wanted}"


def many_queries(trial: Trial) -> None:
    """A plan for several queries with other constants and τ gives each query the rows of a tick of its own."""
    standing, t = trial.standing, trial.random.randint(1, END)
    if standing.shape.has_own_states:  # these run alone: states depend on the constants of a query
        return
    members = [standing.member(7, 0)]
    for query_id in (8, 9):
        values = [_other(value, trial.random) for value in standing.values]
        members.append(standing.member(query_id, trial.random.randint(0, t), values))
    alone: dict[int, set[tuple[Row, int]]] = {}
    for member in members:
        pairs = run(trial.engine, rows_of(standing.group([member], t), None))
        alone[member.query.query_id] = {(row, s) for row, s, _ in pairs}
    in_table(trial.engine, standing, members)
    together: dict[int, set[tuple[Row, int]]] = {query_id: set() for query_id in alone}
    for row, s, _ in run(trial.engine, rows_of(standing.group(members, t), trial.extra)):
        together[row[0]].add((row[1:], s))
    assert together == alone, f"together {together}, alone {alone}, with {[member.values for member in members]}"


def _other(value: Literal, chance: random.Random) -> Literal:
    """Another constant of the same type; of an interval the sign stays, since the plan depends on it."""
    match value.value, value.type.name:
        case tuple(items), "ARRAY":
            element = value.type.element or DataType("INT")
            other = {_other(Literal(item, element), chance).value for item in items}
            return Literal(tuple(sorted(other)), value.type)  # type: ignore[arg-type,type-var]
        case int(number), "INTERVAL":
            return Literal(0 if number == 0 else chance.randint(1, 4) * (1 if number > 0 else -1), value.type)
        case int(), "TIMESTAMP":
            return Literal(GRID + chance.randint(0, LAST), value.type)
        case str(), _:
            return Literal(chance.choice(["a", "b", "ab", ""]), value.type)
        case int(), _:
            return Literal(chance.randint(0, 3), value.type)
    return value


def stored_as_it_is(trial: Trial) -> None:
    """The stored form of a plan is read back as the same plan with the same constants and branches."""
    standing = trial.standing
    assert standing.shape.lifted == standing.compiled.shape.lifted
    assert standing.values == standing.compiled.values
    assert stored_form(Plan(standing.shape.lifted, standing.compiled.values)).signature == standing.form.signature


def order_is_no_matter(trial: Trial) -> None:
    """Conditions in another order, and lists of constants in another, are the same plan."""
    given = lift(canonical(normalize(_shuffled(trial.bound, trial.random))))
    assert stored_form(Plan(given.query, given.values)).signature == trial.standing.form.signature


def _shuffled(query: Query, chance: random.Random) -> Query:
    def change(node: Node) -> Node:
        match node:
            case And(items=items):
                return And(tuple(chance.sample(items, len(items))))
            case Call(name="in", args=(value, *items)) if all(
                isinstance(item, Literal) and item.value is not None for item in items
            ):
                return Call("in", (value, *chance.sample(items, len(items))), node.type)
            case _:
                return node

    return transform(query, change)


def same(what: str, found: Delivered, wanted: Delivered) -> None:
    """Fail with the rows that are missing, superfluous, or have another first instant."""
    if found != wanted:
        missing = {row: s for row, s in wanted.items() if row not in found}
        extra = {row: s for row, s in found.items() if row not in wanted}
        other = {row: (found[row], wanted[row]) for row in found.keys() & wanted.keys() if found[row] != wanted[row]}
        raise AssertionError(f"{what}: missing {missing}, extra {extra}, first instants (found, wanted) {other}")


Law = Callable[[Trial], None]
ALWAYS: tuple[Law, ...] = (stored_as_it_is, union_of_starts, any_partition, one_instant, order_is_no_matter)
COSTLY: tuple[Law, ...] = (later_tick, many_queries, from_now)
"""Each case tries the next of these laws, because they cost the most. ``make test-long`` tries all in each case."""
LAWS: tuple[Law, ...] = (*ALWAYS, *COSTLY)
