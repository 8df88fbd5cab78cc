"""Recognize the kind of a stored plan without the compiler, which most commands do not need."""

from __future__ import annotations

import json
import re
from typing import Final, Literal

Language = Literal["sql", "monpoly", "mutl", "mutl-minmax", "2fol"]
"""The languages of a synopsis.

``mutl-minmax`` is a variant of µTL.  In this variant, AND has the smaller count of its sides, and OR and EXISTS have
the largest count (Toman 2007, section 5).
"""
MARK: Final = '{"synopsis":'
"""The first characters of every stored synopsis."""
_TABLE: Final = re.compile(r'\["table",(\d+)\]')


def is_synopsis(body: str) -> bool:
    """Return whether the stored plan ``body`` is a synopsis."""
    return body.startswith(MARK)


def relations_of(body: str) -> tuple[str, ...]:
    """Return the names of the relations that the stored plan ``body`` keeps between ticks."""
    return tuple(json.loads(body)["relations"])


def discards(body: str) -> bool:
    """Return whether the stored plan ``body`` deletes rows that a tick has processed."""
    return bool(json.loads(body).get("discard"))


def asks_history(body: str) -> bool:
    """Return whether the stored plan ``body`` reads the stored history."""
    return bool(json.loads(body).get("history"))


def tables_of(body: str) -> tuple[int, ...]:
    """Return the IDs of the tables that the stored plan ``body`` reads."""
    return tuple(sorted({int(table_id) for table_id in _TABLE.findall(body)}))
