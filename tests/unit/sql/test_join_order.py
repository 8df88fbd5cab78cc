"""Each table of a branch is joined by an equality with those before it in FROM."""

from __future__ import annotations

import pytest

from suite_texts import TPCH, schemas
from weft.algebra.relation import Plain, Predicate, Scan, condition, conjuncts, sources
from weft.algebra.scalar import Call
from weft.algebra.traverse import mentioned
from weft.bench.tpch_texts import queries
from weft.planning.plan import standing_plan
from weft.sql.rendering.join_order import join_order

CHAIN = "SELECT n_name FROM supplier, part, lineitem, partsupp, orders, nation WHERE {}"
TIES = (
    "s_nationkey = n_nationkey",
    "s_suppkey = l_suppkey",
    "o_orderkey = l_orderkey",
    "ps_partkey = l_partkey",
    "p_partkey = l_partkey",
)


def compared(predicate: Predicate, names: tuple[str, ...]) -> list[set[str]]:
    """The range variables of each condition of two tables with one of these operators."""
    found = (
        {ref.scan for ref in mentioned(each)}
        for each in conjuncts(predicate)
        if isinstance(each, Plain) and isinstance(each.condition, Call) and each.condition.name in names
    )
    return [aliases for aliases in found if len(aliases) == 2]


def joined(names: list[str], pairs: list[set[str]]) -> list[str]:
    """The order in which Spark joins: the next table is the first that any condition connects."""
    done, rest = names[:1], names[1:]
    while rest:
        found = next((name for name in rest if any({name, each} in pairs for each in done)), rest[0])
        done.append(found)
        rest.remove(found)
    return done


@pytest.mark.parametrize("turn", range(len(TIES)))
def test_no_table_is_joined_by_its_ts_alone(turn: int) -> None:
    text = CHAIN.format(" AND ".join((*TIES[turn:], *TIES[:turn])))
    changed = 0
    for branch in standing_plan(text, schemas(TPCH)).branches:
        own, predicate = sources(branch.block), condition(branch.block)
        given = [source.alias for source in own if isinstance(source, Scan)]
        ordered = [source.alias for source in join_order(own, predicate) if isinstance(source, Scan)]
        assert sorted(ordered) == sorted(given)
        equal = compared(predicate, ("=",))
        names = joined(ordered, compared(predicate, ("=", "<", "<=")))
        for place, name in enumerate(names[1:], 1):
            assert any({name, each} in equal for each in names[:place]), names
        changed += ordered != given
    assert changed


def test_an_order_without_such_a_join_stays() -> None:
    (branch, *_) = standing_plan(queries(1)["q13"], schemas(TPCH)).branches
    own = sources(branch.block)
    assert join_order(own, condition(branch.block)) == own
