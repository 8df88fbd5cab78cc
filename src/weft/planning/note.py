"""Define messages about a query before its installation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Note:
    """A message about a query before its installation.

    The level ``warning`` means that the query is probably wrong or expensive.  ``line`` is a short form for brief
    output.  If ``line`` is None, brief output omits the message.
    """

    level: Literal["warning", "note"]
    text: str
    line: str | None = None
