"""Every subquery mentions only its own sources and those of the SELECT directly around it: all that Spark resolves."""

from __future__ import annotations

import pytest

from netnews import TABLES
from oracle.derived import schemas
from oracle.histories import distinct_cases
from weft.algebra.relation import (
    And,
    Distinct,
    Exists,
    NotExists,
    Or,
    Plain,
    Predicate,
    Project,
    Source,
    attributes,
    condition,
    conjuncts,
    sources,
)
from weft.algebra.traverse import mentioned
from weft.derivation.localize import localize
from weft.errors import SqlError
from weft.planning.plan import plan


def local(predicate: Predicate, around: set[str], own: set[str]) -> None:
    """Fails where a name is resolved further out than one SELECT."""
    match predicate:
        case And(items=items) | Or(items=items):
            for item in items:
                local(item, around, own)
        case Exists(body=body) | NotExists(body=body):
            block(sources(body), condition(body), own)
        case Plain(condition=test):
            seen = {ref.scan for ref in mentioned(test)}
            assert seen <= own | around, f"{seen - own - around} is named from too far in {test}"


def block(found: tuple[Source, ...], demanded: Predicate, around: set[str]) -> None:
    """A SELECT and the derived tables of its FROM, which see nothing around them."""
    own = {attributes(source)[0].scan for source in found}
    assert len(own) == len(found), "two sources of one SELECT have one name"
    for source in found:
        if isinstance(source, Distinct):
            assert isinstance(source.input, Project)
            inner = sources(source.input.input)
            used = {ref.scan for output in source.input.outputs for ref in mentioned(output.value)}
            assert used <= {attributes(part)[0].scan for part in inner}
            block(inner, condition(source.input.input), set())
    local(demanded, around, own)
    for item in conjuncts(demanded) if around else ():
        if isinstance(item, Or) and subqueries(item):
            seen = named(item) & around
            assert not seen, f"{seen} of outside is beside a subquery under OR (SPARK-59351)"


def named(predicate: Predicate) -> set[str]:
    """The range variables named in it and in its subqueries; what derived tables name within is their own."""
    match predicate:
        case And(items=items) | Or(items=items):
            return {name for item in items for name in named(item)}
        case Exists(body=body) | NotExists(body=body):
            return named(condition(body)) - {attributes(source)[0].scan for source in sources(body)}
    return {ref.scan for ref in mentioned(predicate)}


def subqueries(predicate: Predicate) -> bool:
    match predicate:
        case And(items=items) | Or(items=items):
            return any(map(subqueries, items))
    return isinstance(predicate, (Exists, NotExists))


def check(text: str, tables: dict, *, from_now: bool) -> None:  # type: ignore[type-arg]
    for event in plan(text, tables, from_now=from_now).branches:
        found = localize(event)
        block(sources(found.block), condition(found.block), set())


SKIPPING = (
    "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid AND EXISTS "
    "(SELECT 1 FROM users u WHERE u.name = m.sender AND NOT EXISTS (SELECT 1 FROM staff s WHERE s.name = m.subject "
    "AND s.room = r.newsgroup AND NOW() > m.date)))"
)


@pytest.mark.parametrize("from_now", [False, True])
def test_a_name_from_far_out_comes_through_a_domain(from_now: bool) -> None:
    check(SKIPPING, TABLES, from_now=from_now)
    found = [localize(event) for event in plan(SKIPPING, TABLES).branches]
    assert any("Distinct" in repr(event) for event in found)


def test_a_local_relation_does_not_change() -> None:
    text = "SELECT m.msgid FROM msgs m WHERE NOT EXISTS (SELECT 1 FROM msgs r WHERE r.inreplyto = m.msgid)"
    for event in plan(text, TABLES).branches:
        assert localize(event) == event


def test_random_queries_are_local() -> None:
    checked = 0
    for case in distinct_cases(50_000, 100):
        try:
            check(case.text.spark, schemas(case.history), from_now=case.salt % 2 == 0)
        except SqlError as refused:
            assert "Split the query" in str(refused)
        else:
            checked += 1
    assert checked > 80


def test_a_domain_reads_only_relations_that_its_values_need() -> None:
    """A product with a table that nothing ties would be too large; a tie may go through a third table."""
    text = (
        "SELECT m.msgid FROM msgs m, users u, reminders r, (VALUES (1), (2)) AS v(k) WHERE u.name = m.sender "
        "AND r.text = u.name AND NOT EXISTS (SELECT 1 FROM msgs x WHERE x.inreplyto = m.msgid AND NOT EXISTS "
        "(SELECT 1 FROM staff s WHERE s.name = m.subject AND s.room = x.newsgroup))"
    )
    event = plan(text, TABLES).branches[0]
    domains = [
        source.input
        for item in conjuncts(condition(localize(event).block))
        if isinstance(item, NotExists)
        for source in sources(item.body)
        if isinstance(source, Distinct) and isinstance(source.input, Project)
    ]
    assert [sorted(attributes(part)[0].scan for part in sources(found.input)) for found in domains] == [["m", "r", "u"]]
