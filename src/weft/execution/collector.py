"""Python's collector of circular garbage, while very many objects are made that live on."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_OBJECTS: Final = 200_000


@contextmanager
def collecting_seldom() -> Iterator[None]:
    """Within the block the collector looks once in 200,000 new objects.

    A tick makes some objects for each of its queries.  With Python's own pace (700) they were gone through again and
    again, which took half of the time in which they are made.
    """
    before = gc.get_threshold()
    gc.set_threshold(max(_OBJECTS, before[0]), *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
