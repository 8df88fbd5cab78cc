"""Replace commands and options of the command line in messages by operations and parameters of the HTTP API."""

from __future__ import annotations

import re
from typing import Final

OPERATIONS: Final = {
    "audit": "GET /audit",
    "backtest": "POST /backtest",
    "config": "GET /settings",
    "deliveries": "GET /deliveries?query={query}",
    "doctor": "GET /doctor",
    "explain": "POST /explain",
    "grants": "GET /grants?name={name}",
    "history": "GET /tables/{table}/history",
    "install": "POST /queries",
    "loads": "GET /loads?table={table}",
    "loads undo": "DELETE /loads/{load}",
    "maintain": "POST /maintain",
    "quarantine list": "GET /quarantine?table={table}",
    "queries": "GET /queries",
    "remove": "DELETE /queries/{query}",
    "results": "GET /queries/{query}/answers",
    "resume": "POST /queries/{query}/resume",
    "show": "GET /queries/{query}",
    "source add": "POST /sources",
    "source poll": "POST /sources/{source}/poll",
    "source remove": "DELETE /sources/{source}",
    "subscribe": "POST /queries/{query}/channels",
    "table drop": "DELETE /tables/{table}",
    "tick": "POST /tick",
    "token create": "POST /tokens",
    "try": "POST /try",
    "unmute": "POST /queries/{query}/unmute",
    "unsubscribe": "DELETE /queries/{query}/channels",
    "user add": "POST /users",
    "user change": "PUT /users/{user}",
    "view add": "POST /views",
    "view refresh": "POST /views/{view}/refresh",
    "view remove": "DELETE /views/{view}",
    "view show": "GET /views/{view}",
}
"""Commands, and the operations that do the same.  A part in braces is the first argument of the command.

The part after a question mark is left out for commands without an argument.
"""
PARAMETERS: Final = frozenset(
    (
        *("allow_empty", "allow_unbounded", "at", "columns", "dialect", "digest", "discard_history", "duplicates"),
        *("every", "evolve", "inherit", "keep", "key", "kind", "known", "language", "late", "now", "publication"),
        *("purge", "rename", "skip", "slot", "start", "since", "table", "to", "ts", "ts_from", "until", "zone"),
    )
)
"""The parameters that have the same names as options, and the values of ``_OTHERS``."""
_OTHERS: Final = {"from": "start"}
_OF_A_PERIOD: Final = {"from": "since", "to": "until"}
"""The parameters of options with other names.  ``_OF_A_PERIOD`` applies to texts about a period (--from, --to)."""
_REPLACE: Final = "PUT /queries/{query}"
_FOR_PYTHON: Final = re.compile(r" \(in Python: [^)]*\)")
_VALUES: Final = (
    "now|synopsis|history|2fol|monpoly|mutl(?:-minmax)?|stamp|quarantine|clock|file|source|ts|date|daily@[\\d:]+"
)
"""The values of options in sentences.  Other words after an option belong to the sentence."""
_OPTION: Final = re.compile(rf"(?<![\w-])--([a-z][a-z-]*[a-z])(?:[ =](\w+=\w+|[A-Z]+|{_VALUES})(?![\w=-]))?")
_COMMAND: Final = re.compile(
    rf"`weft ([^`]*)`|\bweft ((?:{'|'.join(OPERATIONS)})(?: \w(?:[\w.-]*\w)?)?(?: --[a-z-]+(?: [\w:=/-]+)?)*)"
)
"""A command in quotes, or at the end of a sentence."""


def named_operations(text: str) -> str:
    """Return a message that names operations and parameters of the API instead of commands and options.

    Commands and options without an operation or a parameter stay unchanged.

    >>> named_operations("Resume the query with `weft resume late`.")
    'Resume the query with `POST /api/v1/queries/late/resume`.'
    >>> named_operations("See `weft deliveries late`. All of them: `weft deliveries`.")
    'See `GET /api/v1/deliveries?query=late`. All of them: `GET /api/v1/deliveries`.'
    >>> named_operations("Name a channel with --to, or omit --digest.")
    'Name a channel with `to`, or omit `digest`.'
    >>> named_operations("a synopsis starts with the whole history: --from now cannot omit earlier answers")
    'a synopsis starts with the whole history: `start=now` cannot omit earlier answers'
    >>> named_operations("Choose --from before --to.")
    'Choose `since` before `until`.'
    >>> named_operations("Make it: weft subscribe QUERY --to feed:sales")
    'Make it: `POST /api/v1/queries/QUERY/channels` with `to=feed:sales`'
    >>> named_operations("`weft source poll t --evolve` adds these columns.")
    '`POST /api/v1/sources/t/poll` with `evolve=true` adds these columns.'
    >>> named_operations("Run the same `weft copy` again: it continues.")
    'Run the same `weft copy` again: it continues.'
    """
    period = re.search(r"--from(?! now)\b", text) is not None
    text = _FOR_PYTHON.sub("", text)
    parts, at = [], 0
    for found in _COMMAND.finditer(text):
        operation = _operation(found[1] or found[2])
        parts += [_parameters(text[at : found.start()], period), operation or found[0]]
        at = found.end()
    return "".join([*parts, _parameters(text[at:], period)])


def _parameters(text: str, period: bool) -> str:
    def named(found: re.Match[str]) -> str:
        name = _parameter(found[1], period)
        if name is None:
            return found[0]
        return f"`{name}`" if found[2] is None else f"`{name}={found[2]}`"

    return _OPTION.sub(named, text)


def _parameter(option: str, period: bool = False) -> str | None:
    name = (_OF_A_PERIOD if period else _OTHERS).get(option, option.replace("-", "_"))
    return name if name in PARAMETERS else None


def _operation(command: str) -> str | None:
    """Return the operation for a command, or None if the API has none for it with its options."""
    head, *options = re.split(r"(?:^| )--", command)
    words = head.split()
    name = next((each for each in (" ".join(words[:2]), " ".join(words[:1])) if each in OPERATIONS), None)
    if name is None:
        return None
    replaces = name == "install" and "replace" in options
    path, given = _REPLACE if replaces else OPERATIONS[name], []
    for each in options:
        option, _, value = each.partition(" ")
        parameter = _parameter(option)
        if parameter is not None:
            given.append(f"`{parameter}={value or 'true'}`")
        elif not (replaces and option == "replace"):
            return None
    arguments = words[len(name.split()) :]
    if arguments and re.fullmatch(r"\w[\w.-]*", arguments[0]):
        path = re.sub(r"{\w+}", arguments[0], path, count=1)
    path = re.sub(r"\?\w+={\w+}", "", path)
    method, place = path.split(" ")
    return f"`{method} /api/v1{place}`" + (f" with {' and '.join(given)}" if given else "")
