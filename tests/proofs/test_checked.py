"""``coqc`` accepts every proof, and no proof assumes anything (``make proofs``)."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from proofs.conftest import Checked, make

pytestmark = pytest.mark.timeout(1800)  # 20 s of CPU time, and the machine may be busy


@pytest.fixture
def copied(checked: Checked, tmp_path: Path) -> Path:
    """A copy of the checked proofs, to change."""
    return Path(shutil.copytree(checked.folder, tmp_path / "proofs"))


def test_every_proof_is_accepted(checked: Checked) -> None:
    assert checked.made.returncode == 0, checked.made.stdout + checked.made.stderr


@pytest.mark.slow
def test_a_wrong_rule_is_not_accepted(copied: Path) -> None:
    """With at(A, s) in place of at(A, s⁻), the delta of a join counts two rows that begin together twice."""
    right, wrong = "(list_prod (at_instant A (s - 1)) (e s))", "(list_prod (at_instant A s) (e s))"
    text = (copied / "Deltas.v").read_text()
    assert right in text
    (copied / "Deltas.v").write_text(text.replace(right, wrong))
    done = make(copied, "Deltas.vo")
    place = re.search(r'File "\./Deltas\.v", line (\d+)', done.stderr)
    assert done.returncode != 0 and place is not None, done.stderr
    before = "\n".join(text.splitlines()[: int(place[1])])
    assert re.findall(r"Theorem (\w+)", before)[-1] == "join_delta"


def test_a_proof_with_a_gap_is_not_accepted(copied: Path) -> None:
    """An admitted theorem is an assumption: it is not in the golden file."""
    with (copied / "Relation.v").open("a") as file:
        file.write("Theorem gap : 0 = 1. Proof. Admitted.\n")
    done = make(copied, "FILES=Multisets Relation")
    assert done.returncode != 0
    assert "Relation.v: gap\nAxioms:\nRelation.gap :" in (copied / "assumptions.out").read_text()
