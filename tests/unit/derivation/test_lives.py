"""The alternatives of a condition exclude each other, so that the lives of a relation have its multiplicities."""

from __future__ import annotations

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from weft.algebra.relation import And, NowBefore, NowFrom, Or, Output, Plain, Predicate, Scan, Select
from weft.algebra.scalar import Call, Cast, ColumnRef, Literal, Scalar
from weft.algebra.schema import BOOLEAN, TIMESTAMP, Column, TableSchema
from weft.derivation.lives import Lives, lives
from weft.errors import DerivationError

COLUMNS = (
    Column(1, "x", TIMESTAMP),
    Column(2, "y", TIMESTAMP),
    Column(3, "b", BOOLEAN),
    Column(4, "ts", TIMESTAMP, False),
)
T = Scan(TableSchema(1, "t", COLUMNS), "t")
X, Y, B, TS = (ColumnRef("t", column.name, column.type) for column in COLUMNS)
INSTANTS = range(5)
ROWS = [{X: x, Y: y, B: b, TS: 0} for x, y, b in product((None, 1, 3), (None, 1, 2), (None, False, True))]

simple = st.one_of(
    st.sampled_from([X, Y, TS]).map(NowFrom),
    st.sampled_from([X, Y]).map(NowBefore),
    st.just(Plain(B)),
)
predicates = st.recursive(
    simple,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(And),
        st.lists(inner, min_size=2, max_size=3).map(tuple).map(Or),
    ),
    max_leaves=6,
)


def holds(predicate: Predicate, row: dict[ColumnRef, object], now: int) -> bool:
    match predicate:
        case And(items=items):
            return all(holds(item, row, now) for item in items)
        case Or(items=items):
            return any(holds(item, row, now) for item in items)
        case Plain():
            return row[B] is True
        case NowFrom(threshold=threshold):
            return (at := value(threshold, row)) is not None and now >= at
        case NowBefore(threshold=threshold):
            return (at := value(threshold, row)) is not None and now < at
        case _:
            raise AssertionError(predicate)


def value(scalar: Scalar, row: dict[ColumnRef, object]) -> object:
    """Evaluate the scalars that lives contain."""
    match scalar:
        case ColumnRef():
            return row[scalar]
        case Literal(value=constant) | Cast(arg=Literal(value=constant)):
            return constant
        case Call(name="coalesce", args=args):
            return next((each for each in (value(arg, row) for arg in args) if each is not None), None)
        case Call(name="is not null", args=(arg,)):
            return value(arg, row) is not None
        case Call(name="not", args=(arg,)):
            return None if (inner := value(arg, row)) is None else not inner
        case Call(name="and", args=args):
            values = [value(arg, row) for arg in args]
            return False if False in values else None if None in values else True
        case Call(name="or", args=args):
            values = [value(arg, row) for arg in args]
            return True if True in values else None if None in values else False
        case _:
            raise AssertionError(scalar)


def alive(life: Lives, row: dict[ColumnRef, object], now: int) -> bool:
    if not all(value(each, row) is True for each in life.conditions):
        return False
    starts, ends = ([value(each, row) for each in bounds] for bounds in (life.starts, life.ends))
    assert None not in starts, "a start is never NULL where the conditions are true"
    return max(starts) <= now and all(end is None or now < end for end in ends)


@given(predicates)
def test_exactly_one_life_is_alive_while_the_condition_holds(predicate: Predicate) -> None:
    try:
        found = lives(Select(T, predicate), (Output("x", X),))
    except DerivationError as error:
        assert "alternatives" in str(error)
        return
    for row, now in product(ROWS, INSTANTS):
        expected = int(holds(predicate, row, now))
        assert sum(alive(life, row, now) for life in found) == expected, (row, now)


def test_an_or_of_thresholds_has_an_alternative_for_each() -> None:
    either = Or((NowBefore(X), NowFrom(Y)))
    assert len(lives(Select(T, either), (Output("x", X),))) == 2
    assert len(lives(Select(T, And((either, Or((NowFrom(Y), NowBefore(X)))))), (Output("x", X),))) == 4
