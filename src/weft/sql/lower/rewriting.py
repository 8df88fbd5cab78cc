"""Write the commands and replacements that hints contain."""

from __future__ import annotations

import shlex
from typing import Final

from sqlglot import exp

NOT_TODAY: Final = "This is not supported today."


def installed(text: str, *, language: str = "sql", name: str = "NAME") -> str:
    r"""Return the command that installs the query ``text``.

    >>> installed("SELECT a FROM t"), installed('p("x")', language="monpoly")
    ('weft install NAME "SELECT a FROM t"', 'weft install NAME --language monpoly \'p("x")\'')
    """
    option = "" if language == "sql" else f" --language {language}"
    return f"weft install {name}{option} {_argument(text)}"


def viewed(text: str) -> str:
    """Return the command that creates a view with the definition ``text``."""
    return f"weft view add NAME {_argument(text)}"


def as_number(node: exp.Expr) -> str:
    """Return a hint for converting an interval to a number."""
    difference = node.find(exp.Sub)
    start, end = "start", "end"
    if difference is not None and not difference.find(exp.Interval):
        start, end = difference.expression.sql("spark"), difference.this.sql("spark")
    return f"Write TIMESTAMPDIFF(SECOND, {start}, {end}) for whole seconds, or use another unit."


def _argument(text: str) -> str:
    line = " ".join(text.split()) if "--" not in text and "/*" not in text else text
    return shlex.quote(line) if set(line) & set('"$`\\!') else f'"{line}"'
