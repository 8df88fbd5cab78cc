"""The shards of an oracle's cases: `make test` runs the first of them, `make test-long` all."""

from __future__ import annotations

from typing import Any

import pytest


def shards(count: int, first: int | None = None) -> list[Any]:
    """Return the numbers of the shares as parameters; all but the ``first`` (default: half of them) are slow."""
    quick = count // 2 if first is None else first
    return [pytest.param(each, marks=pytest.mark.slow) if each >= quick else each for each in range(count)]
