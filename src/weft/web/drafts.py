"""What the forms for a new query hold, from one step to the next: its text, its parameters, and how to install it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from weft.algebra.form_parameter import PARAMETER_TYPES, FormParameter
from weft.configuration import configuration
from weft.errors import Refused, WeftError
from weft.sql.lower.placeholders import constant, filled, parameter_names

if TYPE_CHECKING:
    from weft.web.visits import Visit

_FIELDS: Final = ("name", "channels", "digest", "every", "start", "now", "since", "until", "description")
_WIDTH: Final = 110
"""The maximum number of characters of a line with a problem."""
_PLACE: Final = re.compile(r"line (\d+), column (\d+)$")


@dataclass(frozen=True)
class Problem:
    """A reason why a text is refused.  ``line`` and ``column`` count from 1, or are None if the reason has no place.

    ``shown`` is the line of the text, with a mark below the column.
    """

    message: str
    where: str | None
    hint: str | None
    line: int | None = None
    column: int | None = None
    shown: str = ""


@dataclass(frozen=True)
class Draft:
    """A query that is being written.  ``values`` maps the parameters that have a value to it."""

    sql: str
    fields: Mapping[str, str]
    parameters: tuple[FormParameter, ...] = ()
    values: Mapping[str, str] | None = None
    untyped: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> str:
        return self.fields[name]

    @property
    def text(self) -> str:
        """The text with a constant for each parameter.  Raise Refused, also for parameters in another dialect."""
        if not self.parameters:
            return self.sql
        self.require_form()
        return filled(self.sql, self.parameters, self.values or {})

    @property
    def described(self) -> tuple[FormParameter, ...]:
        """The parameters with their present values as defaults."""
        known = self.values or {}
        return tuple(FormParameter(each.name, each.type, known.get(each.name)) for each in self.parameters)

    @property
    def channels(self) -> list[str]:
        """The channels, one a line."""
        return [each.strip() for each in self["channels"].splitlines() if each.strip()]

    @property
    def dialect(self) -> dict[str, Any]:
        """The argument of ``Weft`` for the dialect of the text.  It is missing for Spark's."""
        named = self.fields.get("dialect")
        return {"dialect": named} if named else {}

    def require_form(self) -> None:
        """Raise Refused for another dialect than Spark's, which would read the constants of a form in another way."""
        if self.dialect:
            raise Refused(
                "a text with {{parameters}} must be in Spark's dialect",
                hint="Choose Spark's dialect, and write the text in it.",
            )

    def installation(self) -> dict[str, Any]:
        """Return the arguments of ``Weft.install`` but for the name and the text."""
        return {
            "to": self.channels,
            "digest": self["digest"] or None,
            "every": self["every"] or None,
            "start": self["start"] if self["start"] in ("start", "now") else None,
            **self.dialect,
        }


def draft_of(visit: Visit) -> Draft:
    """Return the content of the form of a request.  A parameter without a type is ``untyped``.  Raise SqlError."""
    sql, parameters, untyped = _sql_of(visit), list[FormParameter](), list[str]()
    names = parameter_names(sql) if "{{" in sql else ()
    for name in names:
        type_ = visit.given(f"type_{name}")
        if type_ in PARAMETER_TYPES:
            parameters.append(FormParameter(name, type_))
        else:
            untyped.append(name)
    return Draft(sql, _fields_of(visit), tuple(parameters), values_of(visit, parameters), tuple(untyped))


def bare_draft(visit: Visit) -> Draft:
    """Return the content of the form without parsing its text, which may be refused."""
    return Draft(_sql_of(visit), _fields_of(visit))


def _fields_of(visit: Visit) -> dict[str, str]:
    """Also return the dialect, which the form of a saved query does not have."""
    return {**fields_of(visit), "dialect": visit.given("dialect")}


def _sql_of(visit: Visit) -> str:
    """Browsers end the lines of a form with two characters."""
    return visit.given("sql").replace("\r\n", "\n")


def fields_of(visit: Visit) -> dict[str, str]:
    """Return the fields of a form that say how to run and to install a query."""
    return {name: visit.given(name) for name in _FIELDS}


def values_of(visit: Visit, parameters: list[FormParameter] | tuple[FormParameter, ...]) -> dict[str, str]:
    """Return the values of parameters in a form.  An empty field is a value only of a text."""
    values = {}
    for each in parameters:
        given = visit.form.get(f"value_{each.name}")
        if isinstance(given, str) and (given.strip() or each.type == "string"):
            values[each.name] = given
    return values


def empty_draft(sql: str = "", dialect: str = "") -> Draft:
    """Return the draft of an empty form."""
    return Draft(sql, {**dict.fromkeys(_FIELDS, ""), "dialect": dialect})


def first_answers(visit: Visit) -> str:
    """Return from when a new query delivers answers by the settings of the home: ``start`` or ``now``."""
    return configuration(visit.site.weft.home).install_from


def unsuitable(draft: Draft) -> dict[str, str]:
    """Map the parameters without a value of their types to the reasons."""
    troubles = {}
    for each in draft.parameters:
        given = (draft.values or {}).get(each.name, each.default)
        if given is None:
            troubles[each.name] = "Write a value."
            continue
        try:
            constant(each, given)
        except WeftError as error:
            troubles[each.name] = error.message
    return troubles


def refusal(error: WeftError, text: str, installs: bool) -> dict[str, Any]:
    """Return the values with which a form shows a refusal.

    A reason without a place in the text is shown beside the fields of the installation if the form ``installs``.
    """
    found = problems(error, text)
    return {"error": error, "problems": found, "at_install": installs and all(each.line is None for each in found)}


def problems(error: WeftError, text: str) -> tuple[Problem, ...]:
    """Return the reasons of a refusal, each with its line of the text."""
    lines = text.split("\n")
    return tuple(_problem(each, lines) for each in error.reasons or (error,))


def _problem(error: WeftError, lines: list[str]) -> Problem:
    place = _PLACE.search(error.where or "")
    if place is None or not 1 <= int(place[1]) <= len(lines):
        return Problem(error.message, error.where, error.hint)
    line, column = int(place[1]), int(place[2])
    text = lines[line - 1].replace("\t", " ")
    first = max(0, column - _WIDTH // 2) if len(text) > _WIDTH else 0
    shown = text[first : first + _WIDTH] + "\n" + " " * (max(column, 1) - 1 - first) + "^"
    return Problem(error.message, error.where, error.hint, line, column, shown)
