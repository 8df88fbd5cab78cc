"""Translate access to fields, elements and map entries, and the functions of arrays, maps and JSON text.

    GET_JSON_OBJECT(doc, '$.a[0]')             a part of a JSON text, as text
    FROM_JSON(doc, 'a INT, b ARRAY<STRING>')   a JSON text as a STRUCT, ARRAY or MAP of that type
    EXISTS(tags, t -> t = 'x')                 whether an element satisfies a condition

Paths and types must be valid constants, because Spark would otherwise return NULL or fail at run time.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from sqlglot import exp

from weft.algebra.scalar import FIELD, Call, Cast, Element, Literal, Scalar
from weft.algebra.schema import BOOLEAN, INTEGRAL, NULL, STRING, DataType
from weft.errors import SqlError
from weft.sql.functions import FUNCTIONS, wider
from weft.sql.lower.calls import apply, part_of_split
from weft.sql.lower.conversion import opened
from weft.sql.lower.intervals import as_stored
from weft.sql.lower.patterns import check_pattern
from weft.sql.lower.refusal import only, place, refuse
from weft.sql.lower.scope import TIME_WINDOW, Scope, suggestion
from weft.sql.rendering.render import ITEM, STRUCT

Lower: TypeAlias = "Callable[[exp.Expr, Scope], Scalar]"
"""A function that translates a part of an expression."""

_AS_TEXT: Final = (
    "For a part of JSON text write GET_JSON_OBJECT(doc, '$.a[0]'); for a typed part, FROM_JSON(doc, 'a INT').a."
)
_PATH: Final = re.compile(r"\$(?:\.\*|\['\*'\]|\[\*\]|\[\d{1,9}\]|\.[^.\[\s*][^.\[]*|\['[^'?]+'\])*")
_EACH: Final = "_each_"
"""The prefix of the names of array elements in the generated SQL.  A number follows the prefix."""
_MOST_PLACES: Final = 2**31 - 1
_STEPS: Final = "a path is $ followed by .name, ['a name'], [0], [*] or .*"

_TO_THE_MICROSECOND: Final = Call(
    "map",
    tuple(Literal(each, STRING, fixed=True) for each in ("timestampFormat", "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX")),
    DataType("MAP", key=STRING, element=STRING),
)
"""The options of TO_JSON for a precision of microseconds.  By default, TO_JSON truncates a time to milliseconds."""


def lower_field(node: exp.Dot, scope: Scope, lower: Lower) -> Scalar:
    """Translate ``value.name``, a field of a STRUCT or of all STRUCTs in an ARRAY."""
    if not isinstance(node.expression, exp.Identifier):
        raise refuse(node.sql("spark"), node, "the name of a field must follow the dot")
    return field_of(lower(node.this, scope), node.expression.name, node)


def field_of(value: Scalar, name: str, node: exp.Expr) -> Scalar:
    """Return the field ``name`` of a value.  Raise SqlError if the value has no such field."""
    value = opened(value)
    listed = value.type.name == "ARRAY"
    holder = value.type.element if listed else value.type
    if holder is None or holder.name != "STRUCT":
        hint = f"Write …['{name}']." if value.type.name == "MAP" else _AS_TEXT
        raise SqlError(f"{value.type} has no fields, so it has no {name!r}", where=place(node), hint=hint)
    field = holder.field_type(name)
    if field is None:
        hint = suggestion(name, [each for each, _ in holder.fields], "fields")
        raise SqlError(f"{holder} has no field {name!r}", where=place(node), hint=hint)
    own, kind = field
    if isinstance(value, Call) and value.name == STRUCT:
        return value.args[1 + 2 * holder.fields.index(field)]
    type = DataType("ARRAY", element=kind) if listed else kind
    return Call(FIELD, (value, Literal(own, STRING, fixed=True)), type)


def field_name(value: Scalar) -> str | None:
    """Return the name of the field that ``value`` selects, or None if it does not select a field.

    An output column without an alias gets the name of the field.
    """
    match value:
        case Call(name="field of", args=(_, Literal(value=str(name)))) if not name.startswith("_"):
            return name
        case Call(name="named_struct"):
            return TIME_WINDOW
        case _:
            return None


def as_column(value: Scalar) -> Scalar:
    """Convert a nested value to JSON text, and an interval to microseconds, as a column stores them."""
    if not value.type.nested:
        return as_stored(value)
    return Call("to_json", (value, _TO_THE_MICROSECOND), DataType.of_json(value.type))


def lower_item(node: exp.Bracket, scope: Scope, lower: Lower) -> Scalar:
    """Translate ``array[n]`` (from 0), ``map[key]``, ``struct['field']`` or SPLIT(text, pattern)[n]."""
    if len(node.expressions) != 1 or isinstance(node.expressions[0], exp.Slice):
        raise refuse(node.sql("spark"), node, "brackets take one index or key")
    of, wanted = node.this, lower(node.expressions[0], scope)
    if isinstance(of, exp.Anonymous) and str(of.this).lower() == "split":
        return part_of_split([lower(part, scope) for part in of.expressions], wanted, node)
    value = opened(lower(of, scope))
    match value.type:
        case DataType(name="ARRAY", element=DataType() as element):
            if wanted.type.name not in INTEGRAL:
                raise SqlError(f"an ARRAY index is a whole number, not {wanted.type}", where=place(node))
            return Call(ITEM, (value, wanted), element)
        case DataType(name="MAP", element=DataType() as element):
            return Call(ITEM, (value, _key(value.type, wanted, node)), element)
        case DataType(name="STRUCT") if isinstance(wanted, Literal) and isinstance(wanted.value, str):
            return field_of(value, wanted.value, node)
        case _:
            raise refuse("[…]", node, f"{value.type} has no such part", _AS_TEXT)


def _key(map: DataType, wanted: Scalar, node: exp.Expr) -> Scalar:
    key = map.key
    if key is not None and wanted.type == key:
        return wanted
    if key is not None and wanted.type.name in INTEGRAL and key.name in INTEGRAL and wider(wanted.type, key) == key:
        return Cast(wanted, key)
    raise SqlError(
        f"a key of {map} has the type {key}, not {wanted.type}", where=place(node), hint="Convert the key with CAST."
    )


def lower_element(node: exp.Identifier, scope: Scope) -> Scalar:
    """Return the array element called ``node``.  Raise SqlError if no ``->`` declares this name."""
    element = scope.element(node.name)
    if element is None:
        raise SqlError(f"{node.name!r} is not a column", where=place(node))
    return element


def lower_nested_form(name: str, node: exp.Anonymous, scope: Scope, lower: Lower) -> Scalar:
    """Translate a call of a function of ``NESTED_FORMS``.

    Raise SqlError if Spark would refuse the arguments, or fail at some row.
    """
    if name in ("exists", "forall"):
        return _of_elements(name, node, scope, lower)
    args = [lower(part, scope) for part in node.expressions]
    call = apply(name, args, node)
    assert isinstance(call, Call)
    return _FORMS[name](call, node)


def _of_elements(name: str, node: exp.Anonymous, scope: Scope, lower: Lower) -> Scalar:
    shown = f"{name.upper()}(array, x -> condition)"
    arguments = node.expressions
    if len(arguments) != 2 or not isinstance(arguments[1], exp.Lambda) or len(arguments[1].expressions) != 1:
        raise SqlError(
            f"{name.upper()} takes an array and a condition on its element", where=place(node), hint=f"Write {shown}."
        )
    items, condition = opened(lower(arguments[0], scope)), arguments[1]
    only(condition, "this", "expressions")
    if items.type.name != "ARRAY" or items.type.element is None:
        raise SqlError(f"{name.upper()} takes an ARRAY, not {items.type}", where=place(node), hint=f"Write {shown}.")
    # Range variables never start with an underscore, so the names cannot clash.  Inner elements have higher numbers.
    # The count of names cannot serve as the number, because an inner name may shadow an outer one.
    outer = max((int(each.name.removeprefix(_EACH)) for each in scope.elements.values()), default=0)
    element = Element(f"{_EACH}{outer + 1}", items.type.element)
    inner = replace(scope, elements={**scope.elements, condition.expressions[0].name.lower(): element})
    test = lower(condition.this, inner)
    if test.type not in (BOOLEAN, NULL):
        raise SqlError(f"-> takes a condition, not {test.type}", where=place(node), hint=f"Write {shown}.")
    return Call(name, (items, element, Cast(test, BOOLEAN) if test.type == NULL else test), BOOLEAN)


def _json_part(call: Call, node: exp.Expr) -> Call:
    text, path = call.args
    assert isinstance(path, Literal)
    if not _PATH.fullmatch(str(path.value)):
        hint = "Write, for example, GET_JSON_OBJECT(doc, '$.customer.tags[0]')."
        raise SqlError(f"{path.value!r} is not a path into JSON: {_STEPS}", where=place(node), hint=hint)
    return replace(call, args=(text, replace(path, fixed=True)))


def _read_json(call: Call, node: exp.Expr) -> Call:
    text, literal = call.args
    assert isinstance(literal, Literal)
    written = str(literal.value)
    outer = re.match(r"\s*(ARRAY|MAP|STRUCT)\s*<", written, re.IGNORECASE)
    try:
        type = DataType.parse_nested(written if outer else f"STRUCT<{written}>")
    except ValueError as error:
        hint = "Write, for example, FROM_JSON(doc, 'a INT, tags ARRAY<STRING>') or FROM_JSON(doc, 'ARRAY<STRING>')."
        raise SqlError(f"FROM_JSON cannot read this type: {error}", where=place(node), hint=hint) from None
    if (problem := type.beyond_json()) is not None:
        raise refuse(f"{problem[0]} in FROM_JSON", node, problem[1])
    return Call(call.name, (text, Literal(str(type), STRING, fixed=True)), type)


def _split(call: Call, node: exp.Expr) -> Call:
    text, pattern, *limit = call.args
    if any(not isinstance(each, Literal) or not isinstance(each.value, int) for each in limit):
        raise SqlError("SPLIT takes a constant limit", where=place(node), hint="Write, for example, SPLIT(a, ',', 2).")
    assert isinstance(pattern, Literal)
    check_pattern(str(pattern.value), node)
    return replace(
        call, args=(text, *(replace(each, fixed=True) for each in (pattern, *limit) if isinstance(each, Literal)))
    )


def _element_at(call: Call, node: exp.Expr) -> Call:
    holder, wanted = call.args
    if holder.type.name == "MAP":
        return replace(call, args=(holder, _key(holder.type, wanted, node)))
    if not isinstance(wanted, Literal) or not isinstance(wanted.value, int) or not wanted.value:
        hint = "For an index from a row write array[n], which counts from 0."
        reason = "with the index 0, the query would fail"
        raise SqlError(f"ELEMENT_AT of an ARRAY takes a constant other than 0: {reason}", where=place(node), hint=hint)
    if abs(wanted.value) > _MOST_PLACES:
        message = f"ELEMENT_AT of an ARRAY takes an index up to {_MOST_PLACES}, not {wanted.value}"
        raise SqlError(message, where=place(node), hint="Write a smaller index; no ARRAY is longer than that.")
    return replace(call, args=(holder, replace(wanted, fixed=True)))


def _contains(call: Call, node: exp.Expr) -> Call:
    items, wanted = call.args
    if items.type.element is None or wanted.type != items.type.element:
        kind = items.type.element
        try:
            if kind is None or wider(kind, wanted.type) != kind:
                raise TypeError
        except TypeError:
            message = f"ARRAY_CONTAINS looks for {kind} in {items.type}, not for {wanted.type}"
            raise SqlError(message, where=place(node), hint="Convert the value with CAST(… AS …).") from None
        wanted = Cast(wanted, kind)
    _comparable_parts(wanted.type, node)
    return replace(call, args=(items, wanted))


def _contains_key(call: Call, node: exp.Expr) -> Call:
    return replace(call, args=(call.args[0], _key(call.args[0].type, call.args[1], node)))


def _ordered(call: Call, node: exp.Expr) -> Call:
    _comparable_parts(call.type, node)
    return call


def _comparable_parts(type: DataType, node: exp.Expr) -> None:
    if type.name == "MAP":
        raise refuse("a comparison of MAPs", node, "Spark does not compare MAPs")
    for part in (type.element, *(kind for _, kind in type.fields)):
        if part is not None:
            _comparable_parts(part, node)


_FORMS: Final[dict[str, Callable[[Call, exp.Expr], Call]]] = {
    "get_json_object": _json_part,
    "from_json": _read_json,
    "split": _split,
    "element_at": _element_at,
    "array_contains": _contains,
    "array_max": _ordered,
    "array_min": _ordered,
    "map_contains_key": _contains_key,
}
NESTED_FORMS: Final = frozenset((*_FORMS, "exists", "forall"))
assert FUNCTIONS.keys() >= NESTED_FORMS
