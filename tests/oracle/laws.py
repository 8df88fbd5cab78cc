"""The laws, each a function from a case to nothing, or an AssertionError that tells the counterexample."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from oracle.derived import EXTRA, Delivered, earliest, instant, run, schemas, union, union_many
from oracle.engines import GRID, Engine, Row
from oracle.grammar import LAST, Case
from oracle.reference import Reference, reference
from weft.algebra.scalar import Literal
from weft.planning.plan import Plan, at_instant, parameter_table, plan

END = LAST + 1


@dataclass
class Trial:
    """One case on one engine, the reference and the plan worked out once."""

    case: Case
    engine: Engine

    def __post_init__(self) -> None:
        self.engine.load(self.case.history.rows)
        self.random = random.Random(self.case.salt)

    @cached_property
    def plan(self) -> Plan:
        return plan(self.case.text, schemas(self.case.history))

    @cached_property
    def reference(self) -> Reference:
        return reference(self.engine, self.case.text)

    @cached_property
    def branches(self) -> str:
        return union(self.plan, self.plan.branches)

    @property
    def extra(self) -> str:
        return self.random.choice(EXTRA)

    def windows(self, start: int = 0) -> list[tuple[int, int]]:
        """The partition's ticks from ``start`` on; some may be empty."""
        edges = [start, *(cut for cut in self.case.cuts if cut > start), END]
        return list(pairwise(edges))


def union_of_starts(trial: Trial) -> None:
    """Law 1 with one tick: rows and first instants are the reference's, and no branch gives a row that does not
    hold."""
    pairs = run(trial.engine, trial.branches, 0, END)
    sound(trial, pairs)
    same("starts over all time", earliest(pairs), trial.reference.first())


def sound(trial: Trial, pairs: list[tuple[Row, int]]) -> None:
    """Every pair of ``starts`` holds: the row is in Q(s)."""
    wrong = [(row, s) for row, s in pairs if row not in trial.reference.answers.get(s, ())]
    assert not wrong, f"delivered but not in the answer at that instant: {wrong[:5]}"


def any_partition(trial: Trial) -> None:
    """Laws 1 and 2: any partition into ticks delivers the reference's rows, once, with its first instants; read whole
    or through access paths; and no branch gives a row that does not hold at its instant."""
    extra = trial.random.choice([None, *EXTRA])
    safely = trial.random.random() < 0.3
    branches = trial.plan.branches
    text = trial.branches if extra is None else union(trial.plan, branches, extra=extra, null_safe=safely)
    delivered: Delivered = {}
    for tau, t in trial.windows():
        pairs = run(trial.engine, text, tau, t)
        outside = [(row, s) for row, s in pairs if not tau <= s < t]
        assert not outside, f"outside of [{tau}, {t}): {outside[:5]}"
        sound(trial, pairs)
        for row, s in earliest(pairs).items():
            delivered.setdefault(row, s)
        same(f"ticks {trial.windows()} up to {t}", delivered, trial.reference.first(t))


def access_paths(trial: Trial) -> None:
    """A branch gives the same rows through its access paths as over the whole tables, window by window."""
    paths = union(trial.plan, trial.plan.branches, extra=trial.extra)
    for tau, t in trial.windows():
        through, whole = (set(run(trial.engine, text, tau, t)) for text in (paths, trial.branches))
        assert through == whole, f"[{tau}, {t}): through paths {through - whole} extra, {whole - through} missing"


def closed_form(trial: Trial) -> None:
    """Q^M(t), closed form or not, is Q^I with the window open: the reference's first instants before t."""
    text = union(trial.plan, trial.plan.first)
    for t in sorted({END, trial.random.randint(0, END)}):
        pairs = run(trial.engine, text, 0, t)
        sound(trial, pairs)
        same(f"Q^M({t}), closed form: {trial.plan.verdict.closed}", earliest(pairs), trial.reference.first(t))


def from_now(trial: Trial) -> None:
    """``--from now`` at i: rows in Q(s) but not in Q(s⁻) for some s >= i, once each, in any partition."""
    found = plan(trial.case.text, schemas(trial.case.history), from_now=True)
    extra = trial.random.choice([None, *EXTRA])
    text = union(found, found.branches, extra=extra, null_safe=extra is not None and trial.random.random() < 0.5)
    since = trial.random.randint(0, LAST)
    delivered: Delivered = {}
    for tau, t in trial.windows(since):
        for row, s in earliest(run(trial.engine, text, tau, t)).items():
            delivered.setdefault(row, s)
    same(f"from_now from {since}", delivered, trial.reference.entering(since))


def one_instant(trial: Trial) -> None:
    """``at_instant`` is the query run ad hoc at s."""
    s = trial.random.randint(0, LAST)
    found = at_instant(trial.plan.query, instant(s))
    rows = frozenset(row[:-1] for branch in found for row in trial.engine.run(branch.sql))
    assert rows == trial.reference.answers[s], f"at {s}: {rows ^ trial.reference.answers[s]}"


def many_queries(trial: Trial) -> None:
    """One plan for several queries (other constants, other τ) gives each what it gives alone."""
    found = trial.plan
    rows, alone = [], {}
    t = trial.random.randint(1, END)
    for query_id in (7, 8, 9):
        values = tuple(_other(v, trial.random) if query_id > 7 else v for v in found.values)
        tau = 0 if query_id == 7 else trial.random.randint(0, t)
        shown = tuple(_stored(value) for value in values[: len(found.parameters)])
        rows.append((query_id, tau, *shown))
        bound = Plan(found.lifted, values)
        alone[query_id] = set(run(trial.engine, union(bound, bound.branches), tau, t))
    table = parameter_table(1, found)
    trial.engine.parameters(table.name, {c.name: str(c.type) for c in table.columns}, rows)
    text = union_many(found, found.branches, extra=trial.random.choice([None, *EXTRA]))
    together: dict[int, set[tuple[Row, int]]] = {query_id: set() for query_id in alone}
    for row, s in run(trial.engine, text, 0, t):
        together[row[0]].add((row[1:], s))
    assert together == alone, f"together {together}, alone {alone}, parameters {rows}"


def _other(value: Literal, chance: random.Random) -> Literal:
    """Another constant of the same type; of an interval the sign stays, since the plan depends on it."""
    match value.value, value.type.name:
        case int(number), "INTERVAL":
            return Literal(0 if number == 0 else chance.randint(1, 4) * (1 if number > 0 else -1), value.type)
        case int(number), "TIMESTAMP":
            return Literal(GRID + chance.randint(0, LAST), value.type)
        case str(), _:
            return Literal(chance.choice(["a", "b", "ab", ""]), value.type)
        case int(), _:
            return Literal(chance.randint(0, 3), value.type)
    return value


def _stored(value: Literal) -> object:
    if value.type.name == "TIMESTAMP" and isinstance(value.value, int):
        return value.value - GRID
    return value.value


def same(what: str, found: Delivered, wanted: Delivered) -> None:
    """Fails with what is missing, too much, or has another first instant."""
    if found != wanted:
        missing = {row: s for row, s in wanted.items() if row not in found}
        extra = {row: s for row, s in found.items() if row not in wanted}
        other = {row: (found[row], wanted[row]) for row in found.keys() & wanted.keys() if found[row] != wanted[row]}
        raise AssertionError(f"{what}: missing {missing}, extra {extra}, first instants (found, wanted) {other}")


Law = Callable[[Trial], None]
LAWS: tuple[Law, ...] = (
    union_of_starts,
    any_partition,
    access_paths,
    closed_form,
    from_now,
    one_instant,
    many_queries,
)
