"""Name the controls of the page in hints, which name commands and options of the command line."""

from __future__ import annotations

import re
from typing import Final

_WORDS: Final = {
    "backtest": "the button “Backtest”",
    "deliveries": "the page “Deliveries”",
    "doctor": "the button “Examine” of the page “System”",
    "explain": "the button “Explain”",
    "grants": "the page “Users”",
    "ingest file": "the page “Load a file”",
    "install": "the button “Install”",
    "loads": "the loads on the page of the table",
    "queries": "the page “Queries”",
    "quarantine list": "the quarantine of the table",
    "remove": "the button “Remove” of its page",
    "results": "the list of its answers",
    "resume": "the button “Resume” of its page",
    "show": "its page",
    "source poll": "the button “Poll now” of the table",
    "token create": "the page of your account",
    "try": "the button “Try”",
    "user add": "the form “Add a user”",
}
"""Commands, and what the page has instead."""
_OPTIONS: Final = {
    "--digest": "the field “Collect answers until”",
    "--evolve": "the choice “Add new columns of the file to the table”",
    "--inherit (in Python: inherit=True)": "the choice “Becomes the owner of the queries …”",
    "--to": "the field “Send answers to”",
    "--ts-from": "the field “Column with the time of each row”",
}
"""Options, and the fields that the page has instead."""
_COMMAND: Final = re.compile(f"`weft ({'|'.join(_WORDS)})(?: [^`-][^`]*)?`")
_OPTION: Final = re.compile(f"(?:{'|'.join(map(re.escape, _OPTIONS))})(?![\\w-]| [A-Z]{{2}}| date)")
"""An option without a value."""
_FOR_A_TERMINAL: Final = re.compile(r"\bweft |--from\b")
"""A command outside quotes, and an option beside which --to is the end of a period."""


def named_controls(hint: str) -> str:
    """Return a hint that names the controls of the page instead of commands and options.

    Commands and options for which the page has no control stay unchanged.

    >>> named_controls("Resume the query with `weft resume late`.")
    'Resume the query with the button “Resume” of its page.'
    >>> named_controls("`weft source poll t --evolve` adds these columns.")
    '`weft source poll t --evolve` adds these columns.'
    >>> named_controls("Name a channel with --to, or omit --digest.")
    'Name a channel with the field “Send answers to”, or omit the field “Collect answers until”.'
    >>> named_controls("Choose --from before --to.")
    'Choose --from before --to.'
    >>> named_controls("Name the column with the time of each row: --ts-from COL.")
    'Name the column with the time of each row: --ts-from COL.'
    """
    parts = re.split("(`[^`]*`)", hint)
    if any(_FOR_A_TERMINAL.search(each) for each in parts[::2]):
        return hint
    words = [_OPTION.sub(lambda found: _OPTIONS[found[0]], each) if each[:1] != "`" else _named(each) for each in parts]
    text = "".join(words)
    return text if text == hint else text[:1].upper() + text[1:]


def _named(command: str) -> str:
    found = None if " --" in command else _COMMAND.fullmatch(command)
    return command if found is None else _WORDS[found[1]]
