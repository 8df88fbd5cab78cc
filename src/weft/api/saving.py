"""Save texts with parameters, fill them in, and install the results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal

from weft.algebra.form_parameter import FormParameter
from weft.algebra.schema import TableSchema
from weft.api import standing
from weft.api.acting import acting_user
from weft.api.arguments import own_user, texts
from weft.api.requirements import requires
from weft.api.standing import Keep, NewQuery
from weft.api.weft_methods import WeftMethods
from weft.catalog.records import FromMode, QueryRecord
from weft.catalog.saved_queries import SavedQuery
from weft.catalog.seen import not_allowed
from weft.configuration import configuration
from weft.errors import Refused
from weft.execution.home import OpenHome
from weft.printable import require_text
from weft.rights.principal import Right

FormValue = str | int | float | bool | Decimal | date | datetime
"""The value of a parameter.  A text is read as a value of the parameter's type."""
_LONGEST_DESCRIPTION = 2_000


def form_parameter(text: str) -> FormParameter:
    """Return the parameter that ``NAME:TYPE`` or ``NAME:TYPE=DEFAULT`` means.  Raise Refused for another text.

    >>> form_parameter("days:int=7")
    FormParameter(name='days', type='int', default='7')
    """
    head, equals, default = text.partition("=")
    name, colon, type_ = head.partition(":")
    if not colon:
        raise Refused(f"{text!r} declares no parameter", hint="Write NAME:TYPE or NAME:TYPE=DEFAULT, as days:int=7.")
    return FormParameter(name.strip(), type_.strip(), default if equals else None)  # type: ignore[arg-type]


def ordered_parameters(sql: str, parameters: tuple[FormParameter, ...], description: str) -> tuple[FormParameter, ...]:
    """Return the parameters of a text in the order of the text.

    Raise Refused if they are not those of the text, if a default is no value of its type, or for a long description.
    """
    from weft.sql.lower.placeholders import declared

    if len(require_text(description, "the description")) > _LONGEST_DESCRIPTION:
        raise Refused(f"the description has more than {_LONGEST_DESCRIPTION:,} characters", hint="Shorten it.")
    return declared(require_text(sql, "the text"), parameters)


def require_compiles(
    sql: str, parameters: tuple[FormParameter, ...], schemas: Callable[[str], Mapping[str, TableSchema]]
) -> None:
    """Raise SqlError if Weft does not support the text with its defaults over the tables that ``schemas`` returns."""
    from weft.planning.plan import standing_plan
    from weft.sql.lower.placeholders import filled

    sample = filled(sql, parameters, {each.name: each.sample for each in parameters})
    standing_plan(sample, schemas(sample))


def usual_owner(home: OpenHome) -> str:
    """Return the owner of a new saved query: the principal if she is a user, or else the user of new queries."""
    return acting_user(home, None) or configuration(home.folder).install_user or own_user()


class Saving(WeftMethods):
    """The methods of ``Weft`` for saved queries."""

    @requires(Right.INSTALL)
    def save_query(
        self,
        name: str,
        sql: str,
        parameters: Iterable[FormParameter | str],
        *,
        description: str = "",
        replace: bool = False,
    ) -> SavedQuery:
        """Save a text with ``{{parameters}}``, which others fill in and install.

        Each parameter has a name, a type (string, int, decimal, double, boolean, date, timestamp or interval), and
        perhaps a default.  ``"days:int=7"`` is short for one.  With ``replace``, the text replaces the one of this
        name.  The rights to it stay, and so do the queries that were installed from it.

        Raises Refused if the parameters are not those of the text, or if a default is no value of its type.  Raises
        SqlError if Weft does not support the text with its defaults.  Raises Conflict if the name is taken.
        """
        home = self.opened
        given = tuple(form_parameter(each) if isinstance(each, str) else each for each in parameters)
        known = ordered_parameters(sql, given, description)
        require_compiles(sql, known, home.schemas)
        there = replace and home.catalog.saved.find(name) is not None
        owner = home.seen().saved(name, Right.OWN).owner if there else usual_owner(home)
        words, at = description.strip(), home.clock()
        return home.catalog.saved.save(name, sql.strip(), known, owner, words, at, replace=replace)

    @requires(Right.READ)
    def saved_queries(
        self, *, text: str | None = None, after: str | None = None, limit: int | None = None
    ) -> tuple[SavedQuery, ...]:
        """Return at most ``limit`` saved queries that may be filled in, ordered by name.

        Their names come after ``after``.  Their names or descriptions contain ``text`` in any case.
        """
        return self.opened.seen().saved_queries(text=text, after=after, limit=limit)

    @requires(Right.READ)
    def saved_by_id(self, saved_id: int) -> SavedQuery:
        """Return the saved query with this ID.  Raise NotFound."""
        return self.opened.seen().saved_by_id(saved_id)

    @requires(Right.READ, saved="name")
    def saved_query(self, name: str) -> SavedQuery:
        """Return a saved query.  Raise NotFound."""
        return self.opened.seen().saved(name)

    @requires(Right.OWN, saved="name")
    def remove_saved(self, name: str) -> SavedQuery:
        """Remove a saved query with the rights to it.  Raise NotFound.

        Queries that were installed from it stay.  The next tick pauses those of readers, who install nothing else.
        """
        return self.opened.catalog.saved.remove(name)

    @requires(Right.READ, saved="name")
    def fill_query(self, name: str, values: Mapping[str, FormValue] | None = None) -> str:
        """Return the text of a saved query with a constant in place of each parameter.

        A parameter without a value has its default.  Raise NotFound.  Raise Refused if a value is missing, unknown, or
        no value of its parameter's type.
        """
        return _filled(self.opened.seen().saved(name), values or {})

    @requires(Right.READ, saved="name", logged=True, logging=("new_name",))
    def install_saved(
        self,
        name: str,
        new_name: str,
        values: Mapping[str, FormValue] | None = None,
        *,
        every: str | int | None = None,
        start: FromMode | None = None,
        to: str | Sequence[str] = (),
        keep: Keep = "history",
        digest: str | None = None,
        zone: str | None = None,
    ) -> QueryRecord:
        """Fill in a saved query, and install it as the standing query ``new_name`` of the person who fills it in.

        Everybody who may read the saved query may do so, also a reader.  The standing query has the rights of its
        owner: who may not read a table cannot install a query over it.  The other arguments are those of ``install``.

        Raises the errors of ``fill_query`` and ``install``.
        """
        seen = self.opened.seen()
        if not self.opened.principal.in_scope(Right.INSTALL):
            raise not_allowed(seen.rights, Right.INSTALL)
        saved = seen.saved(name)
        sql = _filled(saved, values or {})
        query = NewQuery(
            new_name, sql, None, every, start, texts(to), keep, digest=digest, zone=zone, saved_id=saved.saved_id
        )
        return standing.install(self.opened, query)


def _filled(saved: SavedQuery, values: Mapping[str, FormValue]) -> str:
    from weft.sql.lower.placeholders import filled

    return filled(saved.sql, saved.parameters, {name: _text(value) for name, value in values.items()})


def _text(value: FormValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.isoformat() if isinstance(value, date) else str(value)
