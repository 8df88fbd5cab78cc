"""Read the golden queries."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
FILES = sorted((HERE / "queries").glob("*.sql"))


def queries(path: Path) -> list[tuple[str, str]]:
    """Return pairs (title, text) of the queries in a file. A title is a comment after an empty line."""
    found = []
    for part in re.split(r"\n\n(?=-- )", path.read_text().strip()):
        title, _, text = part.partition("\n")
        found.append((title.removeprefix("-- "), text.strip()))
    return found
