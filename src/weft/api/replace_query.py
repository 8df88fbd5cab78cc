"""Replace the text of a standing query.  Weft then delivers only answers that it has not delivered before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from typing import TYPE_CHECKING

from weft.algebra.schema import DataType, TableSchema
from weft.api.acting import acting_user, own_limits, require_owner_rights, require_room
from weft.api.standing import NewQuery, defined
from weft.catalog import CatalogParts
from weft.catalog.naming import folded
from weft.catalog.records import QueryDefinition, QueryRecord
from weft.errors import Conflict, Refused, SynopsisError
from weft.execution.home import OpenHome
from weft.failpoint import failpoint
from weft.instants import parse_interval
from weft.planning.stored_synopsis import is_synopsis
from weft.rights.principal import Right

if TYPE_CHECKING:
    from weft.execution.replacement_preview import Replacement


def replace(home: OpenHome, query: NewQuery) -> QueryRecord:
    """Implement ``Weft.install`` with ``replace``."""
    _refuse_unfit(query)
    with home.writing(f"replace {query.name}") as writer:
        old = home.seen().query(query.name, Right.OWN)
        if query.text_since not in (None, old.text_since):
            raise Conflict(
                f"the text of {old.name} was replaced in the meantime",
                hint="Read the present text, and replace it then.",
            )
        definition = _definition(home, writer, query, old, home.schemas(query.sql))
        _refuse_same(writer, old, definition)
        if definition.user != old.user:
            require_room(home, [definition.user])
        require_owner_rights(home, [definition], (each.channel for each in writer.subscriptions.all(old.query_id)))
        failpoint("replace.checked")
        # With the start ``now``, all new answers start after the processed time.
        replaced = writer.replacements.replace(definition, home.clock(), past=query.start != "now")
        failpoint("replace.stored")
        return replaced


def replacement(home: OpenHome, query: NewQuery, current: Callable[[], int]) -> Replacement:
    """Implement ``Weft.replacement``.  The function ``current`` refreshes the query's views and returns the home's
    time.
    """
    from weft.execution.relations import relations
    from weft.execution.replacement_preview import Replacement, preview_replacement
    from weft.planning.plan import standing_plan
    from weft.runtime.cancelling import cancellable

    _refuse_unfit(query)
    catalog = home.catalog
    old = catalog.queries.named(query.name)
    definition = _definition(home, catalog, query, old, home.schemas(query.sql))
    _refuse_same(catalog, old, definition)
    catalog.replacements.require_no_circle(definition)
    with cancellable(home.session) as session:
        until = current()
        if definition.from_instant is not None and definition.from_instant >= until:
            return Replacement(old, 0, 0, definition.from_instant, until)
        plan = standing_plan(query.sql, home.schemas(query.sql), from_now=definition.from_instant is not None)
        known, t0, allowed = relations(catalog, plan.reads), catalog.home().t0, own_limits(home)
        return preview_replacement(session, catalog, known, old, plan, definition, until, t0, allowed=allowed)


def require_replaceable(
    home: OpenHome, query: NewQuery, old: QueryRecord, schemas: Mapping[str, TableSchema]
) -> QueryDefinition:
    """Return the definition by which ``query`` replaces ``old`` over ``schemas``.  Raise the errors of ``replace``."""
    _refuse_unfit(query)
    return _definition(home, home.catalog, query, old, schemas)


def _definition(
    home: OpenHome, catalog: CatalogParts, query: NewQuery, old: QueryRecord, schemas: Mapping[str, TableSchema]
) -> QueryDefinition:
    """The owner, the timeliness and the start change only if ``query`` sets them.  The origin belongs to the text."""
    if is_synopsis(catalog.queries.plan(old.plan_id).body):
        raise SynopsisError(
            f"{old.name} is maintained as a synopsis, which depends on the text of the query",
            hint=f"Remove the query, and install the new text as a new query: weft remove {old.name}",
        )
    every = old.every_us if query.every is None else query.every
    keeps = query.start is None and old.from_instant is not None
    completed = changed(
        query,
        user=acting_user(home, query.user) if query.user else old.user,
        every=parse_interval(every) if isinstance(every, str) else every,
        start="now" if keeps else query.start or "start",
    )
    definition = defined(home, completed, schemas)
    _refuse_columns(old, definition)
    return changed(
        definition,
        name=old.name,
        from_instant=old.from_instant if keeps else definition.from_instant,
        saved_id=query.saved_id or (old.saved_id if definition.sql == old.sql else None),
    )


def _refuse_unfit(query: NewQuery) -> None:
    if query.is_synopsis or query.allow_unbounded or query.discard_history or query.duplicates:
        raise Refused(
            "only an SQL query that is answered from the history of its tables can replace a query",
            hint="Install a synopsis or a formula under a new name.",
        )
    if query.to or query.digest is not None or query.zone is not None:
        raise Refused(
            "replacing a query does not change its channels",
            hint=(
                f"Change the channels separately: weft subscribe {query.name} --to CHANNEL, weft unsubscribe "
                f"{query.name}."
            ),
        )


def _continues(was: DataType, kind: DataType) -> bool:
    if was.shape is None or kind.shape is None:
        return was == kind and was.shape == kind.shape
    return was.shape.extended(kind.shape) == kind.shape


def _refuse_columns(old: QueryRecord, new: QueryDefinition) -> None:
    """The columns must not change.  The ledger compares whole rows, and channels write fixed columns."""
    pairs = zip(old.columns, new.columns, strict=False)
    alike = all(folded(one) == folded(other) and _continues(was, kind) for (one, was), (other, kind) in pairs)
    if alike and len(old.columns) == len(new.columns):
        return
    from weft.execution.tabular import columns_text

    columns = [columns_text(each.columns) for each in (new, old)]
    raise Conflict(
        f"the new text returns ({columns[0]}), but {old.name} has answers ({columns[1]})",
        hint=(
            "Select the same columns under the same names, with AS and CAST (for nested columns with TO_JSON and "
            "FROM_JSON). Or remove the query and install the new text as a new query; the numbers of its answers "
            "start at 1."
        ),
    )


def _refuse_same(catalog: CatalogParts, old: QueryRecord, new: QueryDefinition) -> None:
    signature = catalog.queries.plan(old.plan_id).signature
    was = (old.sql, signature, old.parameters, old.user, old.every_us, old.from_instant, old.saved_id)
    if was == (new.sql, new.signature, new.parameters, new.user, new.every_us, new.from_instant, new.saved_id):
        raise Conflict(f"{old.name} already has this text", hint=f"See `weft show {old.name}`.")
