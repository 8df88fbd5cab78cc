"""The golden queries in ``queries/*.sql`` and their plans in ``expected/*.txt``. ``make bless`` rewrites the plans."""

from __future__ import annotations

from pathlib import Path

import pytest

from golden.texts import FILES, HERE, queries
from netnews import TABLES
from outline import driver, outline
from weft.algebra.scalar import Literal
from weft.algebra.schema import TIMESTAMP
from weft.errors import SqlError
from weft.planning.plan import Plan, bound, for_one, plan, ready


def shown(title: str, text: str) -> str:
    """Return the expected text for a query."""
    head = f"==== {title}\n\n{text}\n\n"
    try:
        found = plan(text, TABLES)
    except SqlError as error:
        return f"{head}---- refused\n{error}\n"
    closed = "closed form" if found.verdict.closed else "the branches of Q^I with the window open"
    parts = [
        f"---- algebra\n{outline(found.query)}\n",
        f"---- parameters\n{parameters(found)}\n",
        f"---- Q^M: {closed}, since {found.verdict.reason}\n",
        *(branches(found, whole=True) if found.verdict.closed else ()),
        f"---- Q^I: rows {'can' if found.time_driven else 'cannot'} appear with no new data\n",
        *branches(found, whole=False),
    ]
    return head + "\n".join(parts)


def parameters(found: Plan) -> str:
    """Return the constants that the plan replaces by parameters."""
    pairs = zip(found.parameters, found.values, strict=True)
    return "\n".join(f"{p.name} {p.type} = {value.value!r}" for p, value in pairs) or "none"


def branches(found: Plan, *, whole: bool) -> list[str]:
    """Return the SQL of the branches of Q^M or Q^I, each with its driver and its access paths."""
    texts = []
    for event in found.first if whole else found.branches:
        branch = for_one(event, found.values, {}, whole)
        paths = (
            "" if whole else f"-- reads {', '.join(f'{alias}: {path.view}' for alias, path in branch.paths.items())}\n"
        )
        texts.append(f"-- when {driver(event.driver)}\n{paths}{branch.sql}\n")
    return texts or ["-- never\n"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_weft_makes_of_a_query(path: Path, bless: bool) -> None:
    found = "\n".join(shown(title, text) for title, text in queries(path))
    expected = HERE / "expected" / f"{path.stem}.txt"
    if bless:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text(found)
    assert found == expected.read_text(), "run `make bless`, and read the difference"


def test_there_are_enough_queries() -> None:
    assert sum(len(queries(path)) for path in FILES) >= 40


def test_refusals_are_refused_and_the_others_are_not() -> None:
    for path in FILES:
        for title, text in queries(path):
            assert ("---- refused" in shown(title, text)) == (path.stem == "refused"), title


WINDOW = {name: Literal(at, TIMESTAMP, fixed=True) for at, name in enumerate(("t0", "tau", "t"), 1)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_window_written_into_a_branch_gives_the_branch_of_the_window(path: Path) -> None:
    for _, text in queries(path):
        try:
            found = plan(text, TABLES)
        except SqlError:
            continue
        known = {f"p{number}": value for number, value in enumerate(found.values, 1)}
        for whole in (True, False):
            for event in found.first if whole else found.branches:
                expected, branch = (
                    ready(bound(event, known | WINDOW), whole),
                    for_one(event, found.values, WINDOW, whole),
                )
                assert (branch.sql, branch.paths) == (expected.sql, expected.paths)
                assert branch.outputs == expected.outputs
