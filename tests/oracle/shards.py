"""The shares of an oracle's cases: `make test` tries the first half of them, `make test-long` all."""

from __future__ import annotations

from typing import Any

import pytest


def shards(count: int) -> list[Any]:
    """Return the numbers of the shares as parameters; those of the second half are slow."""
    return [pytest.param(each, marks=pytest.mark.slow) if each >= count // 2 else each for each in range(count)]
