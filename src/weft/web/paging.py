"""Cut lists into pages.  A page ends with the address of the next one, which names the last item that was shown."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from weft.web.visits import Visit

T = TypeVar("T")


def page_of(
    visit: Visit, found: Sequence[T], limit: int, key: Callable[[T], object], parameter: str = "after"
) -> tuple[Sequence[T], str | None]:
    """Return the first ``limit`` items of ``found``, and the address of the next page, or None at the end.

    ``found`` has more than ``limit`` items if another page follows.  The next page gets the key of the last item as
    ``parameter``.
    """
    if len(found) <= limit:
        return found, None
    return found[:limit], visit.here(**{parameter: key(found[limit - 1])})
