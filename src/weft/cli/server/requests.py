"""Validate requests to the server: one that does not have the form of ``client``'s is refused with the reason."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

_LARGEST: Final = 256 * 1024 * 1024
"""The largest request in bytes; it contains the command's stdin."""
_LONGEST: Final = 1_000_000
"""The most columns or lines of a terminal, since rich pads lines to its width."""

Check = Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    """Return whether the value is text that the operating system accepts as an argument or a path."""
    return isinstance(value, str) and "\0" not in value


def _is_size(value: Any) -> bool:
    """Return whether the value is a number of columns or lines of a terminal."""
    return isinstance(value, int) and not isinstance(value, bool) and 0 < value <= _LONGEST


def _is_encoding(value: Any) -> bool:
    """Return whether the value is the name of a text encoding; other codecs, such as ``hex``, are not."""
    if not isinstance(value, str):
        return False
    try:
        "".encode(value)
    except (LookupError, ValueError):
        return False
    return True


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_text, value))


def _variables(value: Any) -> bool:
    """Return whether the value is a dict of environment variables."""
    if not isinstance(value, dict):
        return False
    names = all(_is_text(name) and name and "=" not in name for name in value)
    return names and all(map(_is_text, value.values()))


def _each(check: Check, count: int) -> Check:
    return lambda value: isinstance(value, list) and len(value) == count and all(map(check, value))


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _or_none(check: Check) -> Check:
    return lambda value: value is None or check(value)


GREETING: Final[Mapping[str, Check]] = {"settings": _variables}
INTERRUPT: Final[Mapping[str, Check]] = {"key": _is_text}
RELOAD: Final[Mapping[str, Check]] = {"variables": _variables}
COMMAND: Final[Mapping[str, Check]] = {
    "key": _is_text,
    "arguments": _texts,
    "home": _is_text,
    "folder": _is_text,
    "user": _or_none(_is_text),
    "width": _is_size,
    "height": _is_size,
    "variables": _variables,
    "terminals": _each(_is_flag, 3),
    "encodings": _each(_is_encoding, 2),
    "stdin": _or_none(lambda value: isinstance(value, str)),
}


async def body_of(request: Request, fields: Mapping[str, Check]) -> dict[str, Any]:
    """Return the request's body, a JSON object with these fields; raise HTTPException (400) with the problem."""
    raw = bytearray()
    try:
        async for part in request.stream():
            raw += part
            if len(raw) > _LARGEST:
                raise HTTPException(413, f"the request has more than {_LARGEST:,} bytes")
        body = json.loads(raw)
    except ClientDisconnect:
        raise HTTPException(400, "the request ended before its body did") from None
    except (ValueError, RecursionError):
        raise HTTPException(400, "the body is not JSON in UTF-8") from None
    if not isinstance(body, dict):
        raise HTTPException(400, "the body is not an object")
    wrong = [name for name, check in fields.items() if name not in body or not check(body[name])]
    if wrong:
        raise HTTPException(400, f"missing or invalid: {', '.join(wrong)}")
    return body
