"""Options for reading files, which override what is inferred from the file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from weft.algebra.schema import DataType
from weft.errors import Refused
from weft.extraction.files.columns import MAX_COLUMNS, may_name_column
from weft.extraction.files.encoding import UTF_8, codec_name
from weft.extraction.files.own_times import check_form


@dataclass(frozen=True)
class FileOptions:
    """Options for reading files. Column names are compared without regard to case.

    ``types`` sets the types of columns that are not to be inferred. ``rename`` maps column names in the file to new
    names. ``encoding`` is the text encoding; None detects it. ``ts_format`` is the format of the column that ts is
    taken from: ``s``, ``ms``, ``us``, ``ns`` since 1970, or a strptime format (None: ISO 8601, and numbers in a unit
    that can be recognised). ``mends_names`` gives a valid name to a column whose name is invalid. Raises Refused for an
    invalid encoding or format.
    """

    types: tuple[tuple[str, DataType], ...] = ()
    rename: tuple[tuple[str, str], ...] = ()
    encoding: str | None = UTF_8
    ts_format: str | None = None
    mends_names: bool = False

    def __post_init__(self) -> None:
        if self.encoding is not None:
            codec_name(self.encoding)
        if self.ts_format is not None:
            check_form(self.ts_format)

    def names(self, written: Sequence[str], where: str) -> tuple[str, ...]:
        """Return the names of the columns after renaming. Raise Refused if the file lacks a column to rename."""
        there = {name.lower() for name in written}
        for name, _ in self.rename:
            if name.lower() not in there:
                hint = f"The columns are: {', '.join(written[:MAX_COLUMNS])}."
                raise Refused(f"the file has no column {name!r} to rename", hint=hint, where=where)
        chosen = {name.lower(): new for name, new in self.rename}
        names = [chosen.get(name.lower(), name) for name in written]
        return _mended(names) if self.mends_names else tuple(names)


AS_WRITTEN: Final = FileOptions()
"""Detect nothing and keep all names."""


DEFAULT_OPTIONS: Final = FileOptions(encoding=None, mends_names=True)
"""Detect the encoding, and give every column a valid name."""


def _mended(names: Sequence[str]) -> tuple[str, ...]:
    """Replace each name that no column can have with a similar, unique one.

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
