"""Texts with ``{{parameters}}``.  A value becomes one constant of the parameter's type, never a part of the text.

A text is split into tokens first, so a placeholder never stands in a string, a name in quotes or a comment.  The filled
text is split again: it must have the tokens of the text, with those of one constant for each placeholder.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from weft.algebra.form_parameter import EXAMPLES, PARAMETER_TYPES, FormParameter, ParameterType
from weft.algebra.scalar import Literal as Constant
from weft.algebra.schema import BIGINT, BOOLEAN, DATE, DOUBLE, INT, INTERVAL, STRING, TIMESTAMP, DataType
from weft.errors import Reasons, Refused, SqlError, TooLarge
from weft.instants import parse_interval, read_day, read_instant
from weft.printable import one_line, require_text
from weft.sql.lower.literals import LONGEST
from weft.sql.lower.parse import MAX_TEXT, QueryText
from weft.sql.rendering.render import literal

MOST: Final = 50
"""The maximum number of parameters of a text."""
_PLACEHOLDER: Final = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_]{0,59})\s*\}\}")
_DECIMAL: Final = re.compile(r"[+-]?(\d{1,38}(\.\d{0,38})?|\.\d{1,38})", re.ASCII)
_INT: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_DOUBLE: Final = re.compile(r"[+-]?(\d{1,40}(\.\d{0,40})?|\.\d{1,40})([eE][+-]?\d{1,3})?", re.ASCII)
_WORDS: Final = {"true": True, "yes": True, "false": False, "no": False}
_APART: Final = frozenset("(),=<> \t\r\n")
"""The characters that keep a constant apart from its neighbours."""


@dataclass(frozen=True)
class Placeholder:
    """A placeholder in a text, from the character ``start`` up to, and without, the character ``end``."""

    name: str
    start: int
    end: int


def placeholders(text: str) -> tuple[Placeholder, ...]:
    """Return the placeholders of a text in their order.

    Raise SqlError for braces that are no placeholder, and for a placeholder in a string or a name.

    >>> [each.name for each in placeholders("SELECT a FROM t WHERE a > {{ least }} AND b = {{who}} -- {{no}}")]
    ['least', 'who']
    """
    found, behind = list[Placeholder](), 0
    for token in _tokens(text):
        if token.start < behind:
            continue
        if token.token_type is TokenType.L_BRACE:
            match = _PLACEHOLDER.match(text, token.start)
            if match is None:
                raise SqlError(
                    "this is not a placeholder",
                    where=_place(text, token.start),
                    hint="Write {{name}}, with a name of letters, digits and underscores.",
                )
            found.append(Placeholder(match[1], match.start(), match.end()))
            behind = match.end()
        elif (quoted := _PLACEHOLDER.search(text, token.start, token.end + 1)) is not None:
            raise SqlError(
                f"the placeholder {quoted[0]} stands in quotes",
                where=_place(text, quoted.start()),
                hint=f"Write {quoted[0]} without quotes: its value is a constant of its type already.",
            )
    return tuple(found)


def parameter_names(text: str) -> tuple[str, ...]:
    """Return the names of the placeholders of a text, each once, in the order of the text.  Raise SqlError."""
    return tuple(dict.fromkeys(each.name for each in placeholders(text)))


def declared(text: str, parameters: tuple[FormParameter, ...]) -> tuple[FormParameter, ...]:
    """Return the parameters of a text in the order of the text, with their defaults checked.

    Raise Refused if they are not exactly those of the text, or if a type is unknown or a default does not fit.
    """
    names, known = parameter_names(text), {each.name: each for each in parameters}
    reasons = Reasons()
    if not names:
        reasons.add(Refused("the text has no parameters", hint="Write {{name}} where a value is filled in."))
    if len(names) > MOST:
        reasons.add(Refused(f"the text has {len(names)} parameters, more than {MOST}", hint="Use fewer parameters."))
    if len(known) < len(parameters):
        reasons.add(Refused("a parameter is declared twice", hint="Give each parameter one type."))
    for name in names:
        if name not in known:
            hint = f"Choose one of {', '.join(PARAMETER_TYPES)}."
            reasons.add(Refused(f"the parameter {name} has no type", hint=hint))
    for parameter in parameters:
        with reasons.part():
            if parameter.name not in names:
                raise Refused(f"the text has no {{{{{one_line(parameter.name, 60)}}}}}", hint="Omit this parameter.")
            constant(parameter, parameter.sample)
    reasons.check()
    return tuple(known[name] for name in names)


def filled(text: str, parameters: tuple[FormParameter, ...], values: Mapping[str, str]) -> str:
    """Return the text with a constant in place of each placeholder.

    ``values`` are texts that ``constant`` reads.  A parameter without a value has its default.  Raise Refused for
    missing, unknown and unsuitable values, all in one error.
    """
    constants = _constants(parameters, values)
    pieces, behind = list[str](), 0
    for each in placeholders(text):
        if each.name not in constants:
            raise Refused(f"the parameter {each.name} has no type", hint="Save the text again.")
        pieces += [text[behind : each.start], _apart(text, each, constants[each.name])]
        behind = each.end
    whole = "".join([*pieces, text[behind:]])
    if len(whole) > MAX_TEXT:
        raise TooLarge(
            f"the filled text has {len(whole):,} characters, more than {MAX_TEXT:,}", hint="Shorten a value."
        )
    if [(each.token_type, each.text) for each in _tokens(whole)] != _expected(text, constants):
        raise SqlError("the values do not fit into the text", hint="Put spaces around each {{parameter}}.")
    return whole


def _constants(parameters: tuple[FormParameter, ...], values: Mapping[str, str]) -> dict[str, str]:
    reasons, constants = Reasons(), dict[str, str]()
    for name in values.keys() - {each.name for each in parameters}:
        known = ", ".join(each.name for each in parameters)
        reasons.add(Refused(f"there is no parameter {one_line(name, 60)!r}", hint=f"The parameters are {known}."))
    for parameter in parameters:
        with reasons.part():
            value = values.get(parameter.name, parameter.default)
            if value is None:
                raise Refused(f"{parameter.name} has no value", hint=_like(parameter.type))
            constants[parameter.name] = literal(constant(parameter, value))
    reasons.check()
    return constants


def _apart(text: str, placeholder: Placeholder, sql: str) -> str:
    before, after = text[: placeholder.start][-1:], text[placeholder.end :][:1]
    left = "" if not before or before in _APART else " "
    right = "" if not after or after in _APART else " "
    return f"{left}{sql}{right}"


def _expected(text: str, constants: Mapping[str, str]) -> list[tuple[Any, str]]:
    """Return the tokens of the text, with those of the constants in place of the placeholders."""
    tokens, places, behind = list[tuple[Any, str]](), {each.start: each for each in placeholders(text)}, 0
    for token in _tokens(text):
        if token.start in places:
            inside = places[token.start]
            behind = inside.end
            tokens += [(each.token_type, each.text) for each in _tokens(constants[inside.name])]
        elif token.start >= behind:
            tokens.append((token.token_type, token.text))
    return tokens


def _tokens(text: str) -> list[Any]:
    if len(text) > MAX_TEXT:
        raise TooLarge(f"the query has {len(text):,} characters, more than {MAX_TEXT:,}", hint="Shorten the query.")
    try:
        return QueryText().tokenize(text)
    except SqlglotError:
        raise SqlError(
            "this is not valid SQL: a quote, a comment or a quoted name is not closed", hint="Close the quote."
        ) from None


def _place(text: str, position: int) -> str:
    line, column = text.count("\n", 0, position) + 1, position - text.rfind("\n", 0, position)
    return f"line {line}, column {column}"


def constant(parameter: FormParameter, value: str) -> Constant:
    """Return the constant that a text means for a parameter.  Raise Refused if it is not a value of its type."""
    type_, text = parameter.type, value if parameter.type == "string" else value.strip()
    if type_ not in PARAMETER_TYPES:
        raise Refused(
            f"{one_line(str(type_), 60)!r} is not a type of a parameter", hint=f"Choose {', '.join(PARAMETER_TYPES)}."
        )
    found = _READERS[type_](text)
    if found is None:
        article = "an" if type_ in ("int", "interval") else "a"
        raise Refused(f"{parameter.name}: {one_line(value, 80)!r} is not {article} {type_}", hint=_like(type_))
    return found


def _like(type_: ParameterType) -> str:
    return f"Write, for example, {EXAMPLES[type_]}."


def _string(text: str) -> Constant:
    return Constant(require_text(text, "the value"), STRING)


def _int(text: str) -> Constant | None:
    number = int(text) if _INT.fullmatch(text) else 2**63
    if not -(2**63) < number < 2**63:
        return None
    return Constant(number, INT if -(2**31) <= number < 2**31 else BIGINT)


def _decimal(text: str) -> Constant | None:
    if not _DECIMAL.fullmatch(text):
        return None
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    digits = number.as_tuple()
    scale = max(0, -int(digits.exponent))
    precision = max(len(digits.digits), scale, 1)
    return Constant(number, DataType("DECIMAL", precision, scale)) if precision <= 38 else None


def _double(text: str) -> Constant | None:
    number = float(text) if _DOUBLE.fullmatch(text) else float("inf")
    return Constant(number, DOUBLE) if abs(number) != float("inf") else None


def _boolean(text: str) -> Constant | None:
    word = _WORDS.get(text.lower())
    return None if word is None else Constant(word, BOOLEAN)


def _date(text: str) -> Constant | None:
    days = read_day(text)
    return None if days is None else Constant(days, DATE)


def _timestamp(text: str) -> Constant | None:
    instant = read_instant(text.upper())
    return None if instant is None else Constant(instant, TIMESTAMP)


def _interval(text: str) -> Constant | None:
    try:
        length = parse_interval(text)
    except Refused:
        return None
    return Constant(length, INTERVAL) if length <= LONGEST else None


_READERS: Final[Mapping[ParameterType, Callable[[str], Constant | None]]] = {
    "string": _string,
    "int": _int,
    "decimal": _decimal,
    "double": _double,
    "boolean": _boolean,
    "date": _date,
    "timestamp": _timestamp,
    "interval": _interval,
}
