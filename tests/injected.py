"""Make a function raise an error while it works for one query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def failing(
    patch: pytest.MonkeyPatch, owner: Any, name: str, concerned: Callable[..., bool], error: BaseException
) -> None:
    """Make ``owner``'s function ``name`` raise ``error`` if ``concerned`` is true for its arguments."""
    usual = getattr(owner, name)

    def raising(*given: Any, **options: Any) -> Any:
        if concerned(*given):
            raise error
        return usual(*given, **options)

    patch.setattr(owner, name, raising)
