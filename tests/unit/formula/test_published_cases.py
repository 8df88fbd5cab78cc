"""Every published case of MonPoly and DejaVu comes out as its authors say."""

from collections import Counter
from pathlib import Path

import pytest

from weft.api.monitored_cases import judged

OTHERWISE = {"test18.10"}
"""Divides by zero, where MonPoly ends; the page on temporal logic tells it."""


@pytest.mark.data
@pytest.mark.parametrize(("tool", "same", "refused"), [("monpoly", 159, 185), ("dejavu", 114, 0)])
def test_each_case_has_its_verdicts(monitor: Path, tool: str, same: int, refused: int) -> None:
    outcomes: Counter[str] = Counter()
    others = {}
    for case in judged(monitor / tool / "cases.jsonl"):
        outcomes[case.outcome] += 1
        if case.outcome == "other":
            others[case.id] = case.told
    assert set(others) <= OTHERWISE, others
    assert (outcomes["same"], outcomes["refused"]) == (same, refused)
