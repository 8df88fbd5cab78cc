"""The text of a standing query is replaced by another under its name: only what it had not delivered is delivered."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace as changed
from typing import TYPE_CHECKING

from weft.algebra.schema import DataType
from weft.api.standing import NewQuery, defined
from weft.catalog import CatalogParts
from weft.catalog.naming import folded
from weft.catalog.records import QueryDefinition, QueryRecord
from weft.errors import Conflict, Refused, SynopsisError
from weft.execution.home import OpenHome
from weft.execution.tabular import columns_text
from weft.failpoint import failpoint
from weft.instants import parse_interval
from weft.planning.plan import standing_plan
from weft.planning.synopsis_plan import is_synopsis

if TYPE_CHECKING:
    from weft.execution.replacement_preview import Replacement


def replace(home: OpenHome, query: NewQuery) -> QueryRecord:
    """See ``Weft.install`` with ``replace``."""
    _refuse_unfit(query)
    with home.writing(f"replace {query.name}") as writer:
        old = writer.queries.named(query.name)
        given = _definition(home, writer, query, old)
        _refuse_same(writer, old, given)
        failpoint("replace.checked")
        # From now on an answer begins after all that was gone through.
        found = writer.replacements.replace(given, home.clock(), past=query.start != "now")
        failpoint("replace.stored")
        return found


def replacement(home: OpenHome, query: NewQuery, current: Callable[[], int]) -> Replacement:
    """See ``Weft.replacement``; ``current`` maintains the views that the text names, and tells the home's clock."""
    from weft.execution.relations import relations
    from weft.execution.replacement_preview import Replacement, preview_replacement

    _refuse_unfit(query)
    catalog = home.catalog
    old = catalog.queries.named(query.name)
    given = _definition(home, catalog, query, old)
    _refuse_same(catalog, old, given)
    catalog.replacements.require_no_circle(given)
    until = current()
    if given.from_instant is not None and given.from_instant >= until:
        return Replacement(old, 0, 0, given.from_instant, until)
    plan = standing_plan(query.sql, home.schemas(query.sql), from_now=given.from_instant is not None)
    known = relations(catalog, plan.reads)
    return preview_replacement(home.session(), catalog.data, known, old, plan, given, until, catalog.home().t0)


def _definition(home: OpenHome, catalog: CatalogParts, query: NewQuery, old: QueryRecord) -> QueryDefinition:
    """What the catalog is to keep; raises Conflict, SynopsisError where the text cannot take the place of the old one.

    What is not given stays as it is: the owner, the timeliness, the instant from which the query stands.
    """
    if is_synopsis(catalog.queries.plan(old.plan_id).body):
        raise SynopsisError(
            f"{old.name} is kept as a synopsis: what it has stored of the past is of its own text",
            hint=f"Remove it and install the new one: weft remove {old.name}",
        )
    every = old.every_us if query.every is None else query.every
    keeps = query.start is None and old.from_instant is not None
    whole = changed(
        query,
        user=query.user or old.user,
        every=parse_interval(every) if isinstance(every, str) else every,
        start="now" if keeps else query.start or "start",
    )
    found = defined(home, whole, home.schemas(query.sql))
    _refuse_columns(old, found)
    return changed(found, name=old.name, from_instant=old.from_instant) if keeps else changed(found, name=old.name)


def _refuse_unfit(query: NewQuery) -> None:
    if query.is_synopsis or query.allow_unbounded or query.discard_history or query.duplicates:
        raise Refused(
            "what replaces a query is SQL that is answered from its tables' history",
            hint="What is kept as a synopsis, a formula among it, is installed under a name of its own.",
        )
    if query.to or query.digest is not None or query.zone is not None:
        raise Refused(
            "the query's channels go on as they are",
            hint=f"Change them on their own: weft subscribe {query.name} --to CHANNEL, weft unsubscribe {query.name}.",
        )


def _continues(was: DataType, kind: DataType) -> bool:
    """Whether values of the one type are read as the other alike: of nested ones fields may have been added since."""
    if was.shape is None or kind.shape is None:
        return was == kind and was.shape == kind.shape
    return was.shape.extended(kind.shape) == kind.shape


def _refuse_columns(old: QueryRecord, given: QueryDefinition) -> None:
    """Rows are compared as they are delivered, and files and tables have been begun with the columns that there are."""
    pairs = zip(old.columns, given.columns, strict=False)
    alike = all(folded(one) == folded(other) and _continues(was, kind) for (one, was), (other, kind) in pairs)
    if alike and len(old.columns) == len(given.columns):
        return
    told = [columns_text(each.columns) for each in (given, old)]
    raise Conflict(
        f"the new text gives ({told[0]}), and the answers of {old.name} are ({told[1]}): they cannot be compared",
        hint="Select the same columns under the same names, with AS and CAST, or TO_JSON and FROM_JSON of nested ones; "
        "or remove the query and install the new one, whose answers begin anew.",
    )


def _refuse_same(catalog: CatalogParts, old: QueryRecord, given: QueryDefinition) -> None:
    """Raises Conflict where nothing would change."""
    signature = catalog.queries.plan(old.plan_id).signature
    was = (old.sql, signature, old.parameters, old.user, old.every_us, old.from_instant)
    if was == (given.sql, given.signature, given.parameters, given.user, given.every_us, given.from_instant):
        raise Conflict(f"{old.name} stands with this text already", hint=f"`weft show {old.name}` shows it.")
