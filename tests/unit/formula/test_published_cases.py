"""Every published case of MonPoly and DejaVu comes out as its authors say."""

import json
from collections import Counter
from pathlib import Path

import pytest

from weft.api.monitoring import judge_cases

EVENTS = 1_000
"""A longer log of DejaVu is slow: eleven of them take most of the time."""


@pytest.mark.data
@pytest.mark.parametrize(
    ("tool", "events", "same", "refused"),
    [
        ("monpoly", None, 160, 185),
        ("dejavu", EVENTS, 103, 0),
        pytest.param("dejavu", None, 114, 0, marks=pytest.mark.slow),
    ],
)
def test_each_case_has_its_verdicts(
    monitor: Path, tmp_path: Path, tool: str, events: int | None, same: int, refused: int
) -> None:
    cases = [json.loads(line) for line in (monitor / tool / "cases.jsonl").read_text().splitlines()]
    chosen = []
    for case in cases:
        if events is not None and case["events"] > events:
            continue
        paths = {name: str(monitor / case[name]) for name in ("sig", "log", "spec") if name in case}
        chosen.append(json.dumps({**case, **paths}))
    (tmp_path / "cases.jsonl").write_text("\n".join(chosen))
    outcomes: Counter[str] = Counter()
    others = {}
    for judgement in judge_cases(tmp_path / "cases.jsonl"):
        outcomes[judgement.outcome] += 1
        if judgement.outcome == "other":
            others[judgement.id] = judgement.difference
    assert not others
    assert (outcomes["same"], outcomes["refused"]) == (same, refused)
