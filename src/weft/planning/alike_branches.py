"""Write one SELECT for many branches that differ only in their columns and in conditions over single relations.

DuckDB takes about a millisecond to plan a branch, often more than to compute it.  Branches are *alike* if they have the
same window, read the same views, and have the same joins and subqueries.  Their SELECT joins each view once.  In the
views to which their conditions apply, it pairs each row with the numbers of the branches whose conditions are true:

    SELECT CAST([7, 8, …][_s1._branch] AS BIGINT), _s1.msgid, _s1.ts
    FROM (
      SELECT *, UNNEST([CASE WHEN _s1.size < 5 THEN 1 END, CASE WHEN _s1.size > 90 THEN 2 END, …]) AS _branch
      FROM msgs__news AS _s1
    ) AS _s1
    WHERE _s1._branch IS NOT NULL

Law: the SELECT returns the rows of the UNION ALL of the branches.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from weft.algebra.event import Event
from weft.algebra.relation import Predicate, Scan, condition, conjuncts, sources
from weft.algebra.schema import remembered
from weft.algebra.traverse import mentioned, range_variables, rename, scalars, scans
from weft.planning.plan import Branch, in_window
from weft.sql.rendering import render
from weft.sql.rendering.null_on_overflow import all_within_range

FEWEST: Final = 4
"""The fewest queries that share a SELECT.  A tick of a query alone runs the SQL that ``weft explain`` prints."""
_MOST: Final = 500
"""The most branches of a SELECT.  DuckDB holds a number for each pair of a row of a chunk and a branch."""
PAIRS: Final = 4_000_000
"""The most pairs of a row of a view and a branch in a statement.  DuckDB may hold them all in memory for its joins."""
_NUMBER: Final = "_branch"

OfQuery: TypeAlias = "tuple[Branch, int]"
"""A branch of a single query, and the ID of the query."""
WithPairs: TypeAlias = tuple[str, int]
"""A SELECT of several branches, and the most pairs of a row of a view and a branch that it has."""


@dataclass(frozen=True)
class _Parts:
    """The SQL of a branch: the views that it reads as _s1, _s2 …, and its conditions and columns over these names.

    ``own`` has the conditions over each view alone, and ``joint`` the other conditions.  A condition of ``own`` that
    can overflow repeats those that cannot, because DuckDB must not compute it for rows that they exclude.  The last of
    ``columns`` is the instant.  The texts have the names of the instants of the window.
    """

    views: tuple[str, ...]
    own: tuple[tuple[str, ...], ...]
    joint: tuple[str, ...]
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Member:
    """A branch of a SELECT.  ``rest`` has the conditions over each view that some alike branches do not have."""

    query_id: int
    columns: tuple[str, ...]
    rest: tuple[tuple[str, ...], ...]


def alike_selects(branches: Sequence[OfQuery], rows: Mapping[str, int]) -> tuple[list[WithPairs], list[OfQuery]]:
    """Return SELECTs for the branches that are alike in at least ``FEWEST`` queries, and the other branches.

    The branches have columns of the same types.  ``rows`` has the number of rows of each view.  The columns of a SELECT
    are the ID of the query, those of the branch, and the instant.
    """
    alike: dict[object, list[tuple[OfQuery, _Parts]]] = {}
    selects, others = list[WithPairs](), list[OfQuery]()
    for each in branches:
        branch = each[0]
        parts = _parts(branch.event, tuple((alias, path.view) for alias, path in branch.paths.items()))
        if parts is None:
            others.append(each)
        else:
            alike.setdefault((parts.views, parts.joint, branch.window), []).append((each, parts))
    for some in alike.values():
        if len({query_id for (_, query_id), _ in some}) < FEWEST:
            others += [each for each, _ in some]
        else:
            window = dict(some[0][0][0].window)
            selects += [(in_window(text, window), pairs) for text, pairs in _selects(some, rows)]
    return selects, others


@remembered
def _parts(event: Event, read: tuple[tuple[str, str], ...]) -> _Parts | None:
    """``read`` has the view of each range variable.  Return None if a relation of the branch is no view."""
    views, tables = dict(read), sources(event.block)
    if not tables or not all(isinstance(each, Scan) for each in tables):
        return None
    own = sorted((each.alias for each in tables if isinstance(each, Scan)), key=lambda alias: views[alias])
    every = dict.fromkeys((*own, *range_variables(event.relation)))
    names = {alias: _name(place) for place, alias in enumerate(every)}
    renamed = {names[alias]: view for alias, view in views.items()}
    alone: dict[str, list[Predicate]] = {names[alias]: [] for alias in own}
    joint: list[str] = []
    for each in conjuncts(condition(rename(event.block, names))):
        used = {ref.scan for ref in mentioned(each)}
        if len(used) == 1 and not any(scans(each)):
            alone[used.pop()].append(each)
        else:
            joint.append(_text(each, renamed))
    values = (*(output.value for output in event.outputs), event.instant)
    columns = tuple(render.scalar(rename(value, names)) for value in values)
    read_views = tuple(renamed[name] for name in alone)
    return _Parts(read_views, tuple(_own(each, renamed) for each in alone.values()), tuple(sorted(joint)), columns)


def _own(conditions: Sequence[Predicate], views: Mapping[str, str]) -> tuple[str, ...]:
    safe = [_text(each, views) for each in conditions if not _can_overflow(each)]
    others = [_text(each, views) for each in conditions if _can_overflow(each)]
    return (*safe, f"({' AND '.join((*safe, *others))})") if others else tuple(safe)


def _can_overflow(predicate: Predicate) -> bool:
    return any(all_within_range(each) != each for each in scalars(predicate))


def _text(predicate: Predicate, views: Mapping[str, str]) -> str:
    return f"({render.predicate(predicate, views)})"


def _selects(alike: Sequence[tuple[OfQuery, _Parts]], rows: Mapping[str, int]) -> Iterator[WithPairs]:
    """Yield a SELECT for the branches with conditions of their own over the same views."""
    _, first = alike[0]
    own = zip(*(parts.own for _, parts in alike), strict=True)
    common = [frozenset(of_view[0]).intersection(*of_view) for of_view in own]
    by_views: dict[tuple[bool, ...], list[_Member]] = {}
    for (_, query_id), parts in alike:
        pairs = zip(parts.own, common, strict=True)
        rest = tuple(tuple(each for each in texts if each not in every) for texts, every in pairs)
        by_views.setdefault(tuple(map(bool, rest)), []).append(_Member(query_id, parts.columns, rest))
    for has_conditions, members in by_views.items():
        paired = [place for place, has in enumerate(has_conditions) if has] or [0]
        longest = max(1, *(rows[first.views[place]] for place in paired))
        most = min(_MOST, max(1, PAIRS // longest))
        for begin in range(0, len(members), most):
            chosen = members[begin : begin + most]
            yield _select(first, common, paired, chosen), longest * len(chosen)


def _select(parts: _Parts, common: Sequence[frozenset[str]], paired: Sequence[int], members: Sequence[_Member]) -> str:
    """``common`` has the conditions of all members.  ``paired`` are the places of the views with further conditions."""
    tables = []
    for place, view in enumerate(parts.views):
        name, items = _name(place), "*"
        if place in paired:
            numbers = (_number(number, each.rest[place]) for number, each in enumerate(members, 1))
            items = f"*, UNNEST([{', '.join(numbers)}]) AS {_NUMBER}"
        where = f" WHERE {' AND '.join(sorted(common[place]))}" if common[place] else ""
        tables.append(f"(SELECT {items} FROM {render.quoted(view)} AS {name}{where}) AS {name}")
    number, *others = (f"{_name(place)}.{_NUMBER}" for place in paired)
    conditions = [f"{number} IS NOT NULL", *(f"{number} = {other}" for other in others), *parts.joint]
    query_ids = ", ".join(str(each.query_id) for each in members)
    columns = (_chosen(number, texts) for texts in zip(*(each.columns for each in members), strict=True))
    items = ", ".join((f"CAST([{query_ids}][{number}] AS BIGINT)", *columns))
    return f"SELECT {items} FROM {', '.join(tables)} WHERE {' AND '.join(conditions)}"


def _name(place: int) -> str:
    return f"_s{place + 1}"


def _number(number: int, conditions: Sequence[str]) -> str:
    return f"CASE WHEN {' AND '.join(conditions)} THEN {number} END" if conditions else str(number)


def _chosen(number: str, texts: Sequence[str]) -> str:
    """Return SQL for a column.  ``texts`` has its SQL for each member, and ``number`` is SQL for a member's number."""
    members: dict[str, list[str]] = {}
    for member, text in enumerate(texts, 1):
        members.setdefault(text, []).append(str(member))
    if len(members) == 1:
        return texts[0]
    cases = (f"WHEN {number} IN ({', '.join(some)}) THEN {text}" for text, some in members.items())
    return f"CASE {' '.join(cases)} END"
