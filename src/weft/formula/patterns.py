r"""Translate regular expressions of OCaml's library Str, which MonPoly uses, to RE2.

In Str, ``\( \)`` are groups and ``\|`` is a choice.  Parentheses and ``|`` without a backslash are literal.  ``^`` and
``$`` match at the ends of lines.  A character set has no escapes.  RE2 has no back references (``\1``).
"""

from __future__ import annotations

from typing import Final

_LITERAL: Final = "(){}|"
_GROUPING: Final = "()|"


def translated(pattern: str) -> str:
    """Translate an expression to RE2.  Raise ValueError if the expression is invalid or has no translation."""
    written: list[str] = []
    at = 0
    lines = False
    while at < len(pattern):
        sign = pattern[at]
        if sign == "\\":
            written.append(_escaped(pattern, at))
            at += 2
        elif sign == "[":
            end = _set_end(pattern, at)
            written.append(_set(pattern[at + 1 : end]))
            at = end + 1
        else:
            lines = lines or sign in "^$"
            written.append("\\" + sign if sign in _LITERAL else sign)
            at += 1
    return ("(?m)" if lines else "") + "".join(written)


def groups_in(pattern: str) -> int:
    """Return the number of capturing groups of an RE2 expression from ``translated``."""
    count, at = 0, 0
    while at < len(pattern):
        if pattern[at] == "\\":
            at += 1
        elif pattern[at] == "[":
            at = _re2_set_end(pattern, at)
        elif pattern[at] == "(" and not pattern.startswith("(?", at):
            count += 1
        at += 1
    return count


def _escaped(pattern: str, at: int) -> str:
    if at + 1 == len(pattern):
        raise ValueError("the expression ends with a lone backslash")
    sign = pattern[at + 1]
    if sign in _GROUPING:
        return sign
    if sign.isdigit():
        raise ValueError(f"Weft's regular expressions do not support back references (\\{sign})")
    return "\\b" if sign == "b" else "\\" + sign if not sign.isalnum() else sign


def _set_end(pattern: str, at: int) -> int:
    """A ``]`` at the start of a character set, or after an initial ``^``, does not end the set."""
    first = at + 2 if pattern.startswith("[^", at) else at + 1
    end = pattern.find("]", first + 1)
    if end < 0:
        raise ValueError("a set '[' has no ']'")
    return end


def _set(inner: str) -> str:
    negated = inner.startswith("^")
    signs = inner[1:] if negated else inner
    quoted = "".join("\\" + sign if sign in "\\[]^&~" else sign for sign in signs)
    return f"[{'^' if negated else ''}{quoted}]"


def _re2_set_end(pattern: str, at: int) -> int:
    at += 1
    while pattern[at] != "]":
        at += 2 if pattern[at] == "\\" else 1
    return at
