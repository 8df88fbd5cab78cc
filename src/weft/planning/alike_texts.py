"""Compile texts that differ only in constants once.

Many installed texts come from one template, and differ in the constant of a condition such as ``sender = 'anna'``.
The compiler treats the constant of an equality with a column as opaque: only whether two constants are equal can
matter (``derivation.canonical``), and the constant becomes a parameter (``derivation.lift``). ``AlikeTexts`` therefore
compiles the first text of a template, finds the constants that are only such parameters, and replaces their values for
the others. A text for which this is not certain is compiled by itself.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from weft.algebra.scalar import Call, ColumnRef, Literal, Param
from weft.algebra.schema import DataType, TableSchema
from weft.algebra.traverse import scans, walk
from weft.planning.form import StoredForm, stored_form
from weft.planning.plan import Plan, columns_of, standing_plan
from weft.sql.lower.query import bind

_TOKEN: Final = re.compile(r"""'(?:[^']|'')*'|"(?:[^"]|"")*"|`[^`]*`|[^\W\d]\w*|\d[\w.]*|\s+|.""", re.DOTALL)
_NAME_OR_NUMBER: Final = re.compile(r"\w[\w.]*")
_STRANGE: Final = frozenset("\\#$@{}")
"""Characters of escapes, comments and placeholders."""
_STRING: Final = re.compile(r"'[ -&(-\[\]-~]{1,200}'")
_INTEGER: Final = re.compile(r"[1-9]\d{0,8}")
_MOST: Final = 10_000
"""A longer text is compiled by itself."""


@dataclass(frozen=True)
class Compiled:
    """What an installation keeps of a compiled text. ``needs`` are the IDs of the tables and views in the text."""

    form: StoredForm
    columns: tuple[tuple[str, DataType], ...]
    tables: tuple[TableSchema, ...]
    reads: tuple[int, ...]
    needs: tuple[int, ...]
    definitions: tuple[int, ...]


@dataclass(frozen=True)
class _Template:
    """``places`` maps the positions of constants in the text to the positions of the parameters that they become."""

    compiled: Compiled
    places: Mapping[int, int]


class AlikeTexts:
    """A compiler of standing queries over the tables ``schemas``. It remembers the templates of the texts."""

    def __init__(self, schemas: Mapping[str, TableSchema]) -> None:
        self._schemas = schemas
        self._free: dict[tuple[object, ...], Mapping[int, int]] = {}
        self._templates: dict[tuple[object, ...], _Template] = {}

    def compiled(self, text: str, *, from_now: bool) -> Compiled:
        """Return the compiled text, as ``standing_plan`` compiles it. Raise SqlError."""
        cut = _cut(text)
        if cut is None:
            return self._compiled(text, from_now=from_now)[0]
        frame, constants = cut
        free = self._free.get((frame, from_now))
        if free is not None and (known := self._templates.get(_key(frame, constants, free, from_now=from_now))):
            return _filled(known, constants)
        compiled, plan = self._compiled(text, from_now=from_now)
        places = _places(plan, constants)
        if self._free.setdefault((frame, from_now), places) == places:
            key = _key(frame, constants, places, from_now=from_now)
            self._templates[key] = _Template(compiled, places)
        return compiled

    def _compiled(self, text: str, *, from_now: bool) -> tuple[Compiled, Plan]:
        plan = standing_plan(text, self._schemas, from_now=from_now)
        read = plan.tables
        if plan.definitions:
            read = tuple(scan.table for scan in scans(bind(text, self._schemas)))
        needs = tuple(sorted({table.id for table in read if table.source == "table"}))
        definitions = tuple(view.id for view in plan.definitions)
        return Compiled(stored_form(plan), columns_of(plan.query), plan.tables, plan.reads, needs, definitions), plan


def _cut(text: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Split a text into its frame and its simple constants. The frame has the mark of a kind in place of a constant.

    Return None if only the parser can divide the text (comments, escapes, strings with a prefix), or if two of the
    constants are equal.

    >>> _cut("SELECT a FROM t1 WHERE b = 'x' AND c = 12")[1]
    ("'x'", '12')
    """
    if len(text) > _MOST or "\\" in text:
        return None
    frame, constants, before = list[str](), list[str](), ""
    for token in _TOKEN.findall(text):
        comment = before + token in ("--", "/*")
        prefixed = token[0] in "'\"" and _NAME_OR_NUMBER.fullmatch(before)
        if token in _STRANGE or comment or prefixed:
            return None
        before = token
        kind = "'" if _STRING.fullmatch(token) else "1" if _INTEGER.fullmatch(token) else None
        frame.append(kind or token)
        if kind is not None:
            constants.append(token)
    return (tuple(frame), tuple(constants)) if len(set(constants)) == len(constants) else None


def _key(
    frame: tuple[str, ...], constants: Sequence[str], free: Mapping[int, int], *, from_now: bool
) -> tuple[object, ...]:
    return frame, from_now, tuple(each for place, each in enumerate(constants) if place not in free)


def _places(plan: Plan, constants: Sequence[str]) -> Mapping[int, int]:
    """Return the positions of the constants that occur nowhere but in an equality with a column of their type."""
    if plan.definitions:
        return {}
    equated, seen, kept = set(), list[str](), set[object]()
    for part in walk(plan.lifted):
        if isinstance(part, Param):
            seen.append(part.name)
        elif isinstance(part, Literal):
            kept.add(part.value)
        elif isinstance(part, Call) and part.name == "=" and (name := _equated(part)) is not None:
            equated.add(name)
    names = {output.name for output in plan.lifted.outputs}
    places = {}
    for place, token in enumerate(constants):
        value = token[1:-1] if token[0] == "'" else int(token)
        at = [n for n, each in enumerate(plan.values) if type(each.value) is type(value) and each.value == value]
        if len(at) != 1 or value in kept or any(str(value) in name for name in names):
            continue
        parameter = f"p{at[0] + 1}"
        if parameter in equated and seen.count(parameter) == 1:
            places[place] = at[0]
    return places


def _equated(equality: Call) -> str | None:
    """Return the name of the parameter that is compared with a column, if both are texts or both are integers."""
    column = next((each for each in equality.args if isinstance(each, ColumnRef)), None)
    constant = next((each for each in equality.args if isinstance(each, Param)), None)
    if column is None or constant is None:
        return None
    types = {column.type.name, constant.type.name}
    return constant.name if types == {"STRING"} or types <= {"INT", "BIGINT"} else None


def _filled(template: _Template, constants: Sequence[str]) -> Compiled:
    form = template.compiled.form
    parameters = list(form.parameters)
    for place, parameter in template.places.items():
        token = constants[place]
        parameters[parameter] = (parameters[parameter][0], token[1:-1] if token[0] == "'" else int(token))
    return replace(template.compiled, form=replace(form, parameters=tuple(parameters)))
