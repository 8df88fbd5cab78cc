"""``weft bench`` refuses files and folders that it cannot use before the measurement."""

from __future__ import annotations

import errno
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from unit.cli.conftest import Output
from weft.bench import paper, times
from weft.bench.times import folder_for_tables, write_figures
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


def test_figures_of_the_paper_are_written_after_each_measurement(
    weft: Callable[..., Output], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sizes(*_: object) -> Iterator[paper.Cost]:
        for query in ("Q1", "Q2"):
            yield paper.Cost("8", query, paper.WEFT, 38_000, seconds=[1.0], processor=[0.5])
        raise KeyboardInterrupt

    monkeypatch.setattr(paper, "_sizes", sizes)
    out = tmp_path / "figures.json"
    output = weft("bench", "paper", "--messages", "38000", "--changed", "0", "--out", str(out))
    assert output.code == 130, output.err
    assert [(each["query"], each["processor"]) for each in json.loads(out.read_text())] == [
        ("Q1", [0.5]),
        ("Q2", [0.5]),
    ]
    assert list(tmp_path.iterdir()) == [out]


def test_figures_of_the_paper_are_written_before_they_are_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_reader(_: str) -> None:
        raise BrokenPipeError

    cost = paper.Cost("8", "Q1", paper.WEFT, 38_000, seconds=[1.0], processor=[0.5])
    monkeypatch.setattr(paper, "_sizes", lambda *_: iter([cost]))
    out = tmp_path / "figures.json"
    with pytest.raises(BrokenPipeError):
        paper.compare([38_000], 0, 1, None, None, out, None, no_reader)
    assert [each["query"] for each in json.loads(out.read_text())] == ["Q1"]


def test_figures_replace_those_of_a_linked_file(tmp_path: Path) -> None:
    out, link = tmp_path / "figures.json", tmp_path / "latest.json"
    out.write_text("[1, 2]")
    link.symlink_to(out)
    write_figures(link, "[]", print)
    assert (out.read_text(), link.is_symlink()) == ("[]", True)
    assert sorted(tmp_path.iterdir()) == [out, link]


def test_figures_on_standard_output_keep_the_lines_before_them(tmp_path: Path) -> None:
    out = tmp_path / "printed"
    script = (
        "from pathlib import Path\n"
        "from weft.bench.times import write_figures\n"
        "print('a tick 0.2 s')\n"
        "write_figures(Path('/dev/stdout'), '[]', print)\n"
    )
    with out.open("w") as file:
        subprocess.run([sys.executable, "-c", script], stdout=file, check=True)
    assert out.read_text().split() == ["a", "tick", "0.2", "s", "[]"]


def test_figures_keep_the_permissions_of_the_file(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    out.write_text("[1, 2]")
    out.chmod(0o640)
    write_figures(out, "[]", print)
    assert (out.read_text(), stat.S_IMODE(out.stat().st_mode)) == ("[]", 0o640)


def test_figures_are_written_into_a_file_whose_folder_is_not_writable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "figures.json"
    out.write_text("[1, 2]")
    number = out.stat().st_ino
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write to each folder
    write_figures(out, "[]", print)
    assert (out.read_text(), out.stat().st_ino) == ("[]", number)


def test_figures_that_cannot_replace_a_file_leave_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(*_: object) -> None:
        raise OSError(errno.EBUSY, "Device or resource busy")

    out = tmp_path / "figures.json"
    out.write_text("[1, 2]")
    monkeypatch.setattr(Path, "replace", busy)
    with pytest.raises(ExecutionError, match="Device or resource busy"):
        write_figures(out, "[]", print)
    assert (list(tmp_path.iterdir()), out.read_text()) == ([out], "[1, 2]")


def test_spark_ends_before_an_interruption_removes_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left: list[Path] = []
    monkeypatch.setattr(times, "stop_session", lambda: left.extend(place.iterdir()))
    with pytest.raises(KeyboardInterrupt), folder_for_tables(tmp_path) as place:
        (place / "table").mkdir()
        raise KeyboardInterrupt
    assert left == [place / "table"]
    assert list(tmp_path.iterdir()) == []


_STOPPED = """
import os, sys, time
from weft.api import Weft
from weft.bench import engines
from weft.cli import main

def history(home, size, progress):
    Weft.open(home, clock="replay", create=True).close()

def views(weft, engine):
    print(os.getpid(), flush=True)
    time.sleep(120)
    yield

if __name__ == "__main__":
    engines._history, engines._views = history, views
    sys.argv = ["weft", "bench", "engines", "--periods", "300000", "--events", "0", "--folder", sys.argv[1]]
    main()
"""


def test_sigterm_ends_the_processes_of_a_benchmark_and_removes_its_folder(tmp_path: Path) -> None:
    script, folder = tmp_path / "stopped.py", tmp_path / "folder"
    script.write_text(_STOPPED)
    folder.mkdir()
    with subprocess.Popen([sys.executable, script, folder], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as bench:
        assert bench.stdout is not None
        child = int(bench.stdout.readline())
        bench.send_signal(signal.SIGTERM)
        assert bench.wait(60) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(child, 0)
    assert list(folder.iterdir()) == []
