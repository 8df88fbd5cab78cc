"""How files are read, where a person says more of them than their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.files.columns import MAX_COLUMNS, may_name_column
from weft.extraction.files.encoding import UTF_8, known
from weft.extraction.files.own_times import check_form


@dataclass(frozen=True)
class FileOptions:
    """``types`` are those of columns that are not to be inferred; ``rename`` gives columns, as the file writes them,
    other names; both in any case.

    ``encoding`` is that of text, None: it is guessed.  ``ts_format`` is the form of the column that ts is taken from:
    ``s``, ``ms``, ``us``, ``ns`` since 1970, or signs as strptime has them (None: ISO 8601, and numbers of a unit that
    can be recognised).  With ``mends_names`` a column whose name no column can have gets one.  Raises Refused for what
    is no encoding and no form.
    """

    types: tuple[tuple[str, DataType], ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    encoding: str | None = UTF_8
    ts_format: str | None = None
    mends_names: bool = False

    def __post_init__(self) -> None:
        if self.encoding is not None:
            known(self.encoding)
        if self.ts_format is not None:
            check_form(self.ts_format)

    def names(self, written: Sequence[str], where: str) -> tuple[str, ...]:
        """The names that the columns get; raises Refused for a column to rename that is not there."""
        there = {name.lower() for name in written}
        for name, _ in self.rename:
            if name.lower() not in there:
                hint = f"It has: {', '.join(written[:MAX_COLUMNS])}."
                raise Refused(f"there is no column {name!r} to rename", hint=hint, where=where)
        chosen = {name.lower(): new for name, new in self.rename}
        names = [chosen.get(name.lower(), name) for name in written]
        return _mended(names) if self.mends_names else tuple(names)


AS_WRITTEN: Final = FileOptions()
"""Nothing is guessed, no column gets another name."""


DEFAULT_OPTIONS: Final = FileOptions(encoding=None, mends_names=True)
"""The encoding is guessed, and every column gets a name that a table can have."""


def _mended(names: Sequence[str]) -> tuple[str, ...]:
    """The names; in the place of one that no column can have one like it that no other column has.

    >>> _mended(["id", "Order ID", "order_id", "_id", "", "2024"])
    ('id', 'Order_ID_2', 'order_id', 'id_2', 'column_5', 'column_2024')
    """
    taken = {name.lower() for name in names if may_name_column(name)}
    mended = []
    for number, name in enumerate(names, 1):
        if may_name_column(name):
            mended.append(name)
            continue
        bare = re.sub(r"\W+", "_", name).strip("_")[:100]
        own = bare if may_name_column(bare) else f"column_{bare or number}"
        other, count = own, 1
        while other.lower() in taken:
            count += 1
            other = f"{own}_{count}"
        taken.add(other.lower())
        mended.append(other)
    return tuple(mended)
