"""Loads of files in batches of a few rows, so that a small file makes several commits."""

from __future__ import annotations

import pytest

from weft.extraction.files import bulk, csv_pieces, rows


def small_batches(patch: pytest.MonkeyPatch, most: int) -> None:
    """From now on a batch has ``most`` rows. The records of a CSV are read one by one, as the smallest chunks."""
    patch.setattr(rows, "MAX_ROWS", most)
    patch.setattr(bulk, "ROWS", most)
    patch.setattr(csv_pieces, "CHUNK", 1)
    patch.setattr(csv_pieces, "SMALLEST", 1)
