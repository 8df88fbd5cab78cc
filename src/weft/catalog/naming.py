"""Check, compare and suggest the names of tables and queries."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable

from weft.errors import NotFound, Refused

_TABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_WORDS = re.compile(r"`((?:[^`]|``)+)`|(\w+)")
_QUERY_NAME = re.compile(r"\w[\w.\-]{0,99}")
_QUOTED = re.compile(r"""(?=["\[`](?:results\.)?(\w[\w.\-]{0,99})["\]`])""", re.IGNORECASE)
"""A name of a query in the quotes of any dialect.  In BigQuery, the quotes enclose the name of the schema, too."""


def folded(name: str) -> str:
    """Return the form of ``name`` for comparisons that ignore case."""
    return name.casefold()


def table_name(name: str) -> str:
    """Return ``name``.  Raise Refused if ``name`` cannot be an SQL name or a folder name."""
    if _TABLE_NAME.fullmatch(name) is None or "__" in name:  # msgs__news is the view of the new rows of msgs
        raise Refused(
            f"{name!r} is not a valid name of a table",
            hint=(
                "Use at most 100 letters, digits and underscores. Do not begin with a digit, and do not write "
                "two underscores in a row."
            ),
        )
    return name


def query_name(name: str) -> str:
    """Return ``name``.  Raise Refused if ``name`` cannot be used on a command line or in a file name."""
    if (
        _QUERY_NAME.fullmatch(name) is None or "__" in name
    ):  # results.late__news is the view of the new rows of results.late
        raise Refused(
            f"{name!r} is not a valid name of a query",
            hint=(
                "Use at most 100 letters, digits, underscores, hyphens and dots. Begin with a letter, a digit or "
                "an underscore, and do not write two underscores in a row."
            ),
        )
    return name


def distinct(names: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """Return the names in the given order.  Append a number to each duplicate.

    A name is a duplicate if it equals an earlier name or a name in ``taken``.  The comparison ignores case.

    >>> distinct(["a", "b", "A", "_first_at"], ["_first_at"])
    ['a', 'b', 'A_2', '_first_at_2']
    """
    used = {each.lower() for each in taken}
    labels = []
    for name in names:
        label, number = name, 1
        while label.lower() in used:
            number += 1
            label = f"{name}_{number}"
        used.add(label.lower())
        labels.append(label)
    return labels


def queries_mentioned(text: str) -> frozenset[str]:
    """Return those words of an SQL text that may be names of queries.

    If the text does not contain the word ``results``, the set is empty.

    >>> sorted(queries_mentioned("SELECT a FROM results.late"))
    ['FROM', 'SELECT', 'a', 'late', 'results']
    >>> "late-orders" in queries_mentioned('SELECT a FROM results."late-orders"')
    True
    >>> queries_mentioned("SELECT a FROM t")
    frozenset()
    """
    if "results" not in text.lower():
        return frozenset()
    return _words(text) | frozenset(_QUOTED.findall(text))


def words(text: str) -> frozenset[str]:
    """Return the words of an SQL text in the form for comparisons that ignore case.

    >>> sorted(words("SELECT a FROM `T`"))
    ['a', 'from', 'select', 't']
    """
    return frozenset(map(folded, _words(text)))


def _words(text: str) -> frozenset[str]:
    return frozenset(quoted.replace("``", "`") or word for quoted, word in _WORDS.findall(text))


def not_found(kind: str, name: str, known: Iterable[str]) -> NotFound:
    """Return the error for an unknown name, with the most similar known name as a hint."""
    names = sorted(known)
    by_folded = {folded(each): each for each in names}
    near = difflib.get_close_matches(folded(name), list(by_folded), n=1, cutoff=0.6)
    if near:
        hint = f"Did you mean {by_folded[near[0]]}?"
    elif names:
        shown = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
        hint = f"Known names: {shown}."
    else:
        hint = f"There is no {kind} yet, or none that you may see."
    return NotFound(f"there is no {kind} {name!r}", hint=hint)
