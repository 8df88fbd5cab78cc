"""Errors that a test has a function raise while it works for one query."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def failing(
    patch: pytest.MonkeyPatch, owner: Any, name: str, concerned: Callable[..., bool], error: BaseException
) -> None:
    """Have ``owner``'s function raise the error where ``concerned`` is true of what it is given."""
    usual = getattr(owner, name)

    def raising(*given: Any, **options: Any) -> Any:
        if concerned(*given):
            raise error
        return usual(*given, **options)

    patch.setattr(owner, name, raising)
