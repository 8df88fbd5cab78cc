"""``weft bench`` refuses files and folders that it cannot use before the measurement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from unit.cli.conftest import Output
from weft.bench.times import write_figures
from weft.errors import ExecutionError

BENCHMARKS = (
    "tapestry", "paper", "many", "web", "commands", "load", "views", "engines", "synopses", "aggregates", "tpch",
    "nexmark",
)  # fmt: skip


@pytest.mark.parametrize("name", BENCHMARKS)
def test_figures_that_cannot_be_written_are_refused_first(
    name: str, weft: Callable[..., Output], tmp_path: Path
) -> None:
    output = weft("bench", name, "--out", str(tmp_path / "missing" / "figures.json"))
    assert output.code == 2
    assert f"{tmp_path}/missing/figures.json cannot be written: No such file or directory" in output.err
    assert output.out == ""
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [each for each in BENCHMARKS if each != "synopses"])
def test_a_folder_that_does_not_exist_is_refused(name: str, weft: Callable[..., Output], tmp_path: Path) -> None:
    output = weft("bench", name, "--folder", str(tmp_path / "missing"))
    assert output.code == 2
    assert "Invalid value for '--folder'" in output.err


@pytest.mark.parametrize("name", ["views", "engines"])
def test_too_few_periods_are_refused(name: str, weft: Callable[..., Output]) -> None:
    output = weft("bench", name, "--periods", "20000")
    assert output.code == 2
    assert "20,000 periods are too few" in output.err
    assert "Use 211,100 periods or more." in output.err


def test_charts_need_a_folder(weft: Callable[..., Output], tmp_path: Path) -> None:
    (tmp_path / "charts").touch()
    output = weft("bench", "paper", "--charts", str(tmp_path / "charts"))
    assert output.code == 2
    assert "Invalid value for '--charts'" in output.err


def test_the_check_of_a_file_leaves_it_as_it_is(weft: Callable[..., Output], tmp_path: Path) -> None:
    old, new = tmp_path / "old.json", tmp_path / "new.json"
    old.write_text("[]")
    for out in (old, new):
        assert weft("bench", "load", "--format", "xml", "--out", str(out)).code == 2
    assert old.read_text() == "[]"
    assert not new.exists()


def test_a_full_disk_at_the_end_is_an_error_with_a_reason() -> None:
    with pytest.raises(ExecutionError, match="could not be written to /dev/full: No space left on device"):
        write_figures(Path("/dev/full"), "[]", print)
