"""What is read under a path: regular files; no pipe is waited for, no link leads out of a folder, no device is read."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from weft import Weft
from weft.errors import ExtractionError, NotFound, Refused, WeftError

CSV = "id,x\n1,2\n"
LETTER = "From: a@b.c\nMessage-ID: <1@b.c>\nDate: Mon, 1 Jan 2024 00:00:00 +0000\n\ntext\n"
LOADS: dict[str, tuple[str, str, Callable[[Weft, Any], Any]]] = {
    "file": ("x.csv", CSV, lambda weft, path: weft.ingest_file(path, "t")),
    "mail": ("1", LETTER, lambda weft, path: weft.ingest_mail(path)),
}


@pytest.fixture
def weft(tmp_path: Path) -> Any:
    with Weft.open(tmp_path / "home", create=True) as weft:
        yield weft


def _special(folder: Path, kind: str) -> Path:
    path = folder / f"{kind}.csv"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        here = Path.cwd()
        os.chdir(folder)  # the path of a socket is short
        socket.socket(socket.AF_UNIX).bind(path.name)
        os.chdir(here)
    else:
        path.symlink_to("/dev/zero" if kind == "device" else folder / "nothing")
    return path


@pytest.mark.timeout(60)
@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("kind", ["pipe", "socket", "device", "dangling"])
def test_objects_other_than_files_are_refused_without_waiting(weft: Weft, tmp_path: Path, kind: str, load: str) -> None:
    path = _special(tmp_path, kind)
    with pytest.raises(NotFound if kind == "dangling" else ExtractionError) as refused:
        LOADS[load][2](weft, path)
    assert kind == "dangling" or f"it is a {kind}, not a regular file" in refused.value.message
    assert weft.tables() == ()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("load", LOADS)
def test_other_objects_in_a_folder_are_reported_and_not_read(weft: Weft, tmp_path: Path, load: str) -> None:
    name, text, ingest = LOADS[load]
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    for each in (folder, outside):
        each.mkdir()
        (each / name).write_text(text.replace("1", "7") if each == outside else text)
    for kind in ("pipe", "socket", "device", "dangling"):
        _special(folder, kind)
    (folder / "link.csv").symlink_to(outside / name)
    (folder / "below").symlink_to(outside)
    done = ingest(weft, folder)
    assert done.stored == 1
    if load == "file":
        assert done.notes[0].startswith("skipped, because Weft does not follow links and devices in a folder: ")
        assert f"{folder}/below" in done.notes[0] and "and 1 more. To load them, name them" in done.notes[0]
    else:
        result = {each.position for each in weft.quarantined()}
        assert result == {"below", "link.csv", "pipe.csv", "socket.csv", "device.csv", "dangling.csv"}


@pytest.mark.parametrize("load", LOADS)
def test_a_link_that_is_named_is_followed(weft: Weft, tmp_path: Path, load: str) -> None:
    name, text, ingest = LOADS[load]
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / name).write_text(text)
    (tmp_path / "folder.csv").symlink_to(tmp_path / "real")
    assert ingest(weft, tmp_path / "folder.csv").stored == 1


def test_a_pattern_follows_no_link_that_it_finds(weft: Weft, tmp_path: Path) -> None:
    (tmp_path / "in" / "sub").mkdir(parents=True)
    (tmp_path / "out").mkdir()
    (tmp_path / "in" / "a.csv").write_text(CSV)
    (tmp_path / "in" / "sub" / "b.csv").write_text("id,x\n2,3\n")
    (tmp_path / "out" / "c.csv").write_text("id,x\n3,3\n")
    (tmp_path / "in" / "link.csv").symlink_to(tmp_path / "out" / "c.csv")
    (tmp_path / "in" / "far").symlink_to(tmp_path / "out")
    (tmp_path / "here").symlink_to(tmp_path / "in")
    done = weft.ingest_file(str(tmp_path / "here" / "**" / "*.csv"), "t")
    assert done.stored == 2 and "link.csv" in done.notes[0] and "far" in done.notes[0]
    with pytest.raises(NotFound, match="1 link or device is not followed"):
        weft.ingest_file(str(tmp_path / "here" / "l*.csv"), "t")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "sqlite", "changes"])
def test_a_source_that_is_a_pipe_is_refused_without_waiting(weft: Weft, tmp_path: Path, kind: Any) -> None:
    with pytest.raises(ExtractionError, match="it is a pipe"):
        weft.add_source("s", kind, _special(tmp_path, "pipe"), "id")


@pytest.mark.timeout(60)
def test_a_source_that_becomes_a_pipe_fails_its_poll(weft: Weft, tmp_path: Path) -> None:
    path = tmp_path / "pipe.csv"
    path.write_text(CSV)
    weft.add_source("s", "csv", path, "id")
    path.unlink()
    _special(tmp_path, "pipe")
    with pytest.raises(ExtractionError, match="it is a pipe"):
        weft.poll_source("s")


@pytest.mark.timeout(60)
def test_other_files_that_a_person_names_are_not_waited_for_either(weft: Weft, tmp_path: Path) -> None:
    from weft.cli.app import run

    pipe, home = str(_special(tmp_path, "pipe")), str(tmp_path / "home")
    weft.make_table("votes", "a INT")
    for line in (
        ["explain", "-f", pipe],
        ["append", "votes", "-f", pipe],
        ["ingest", "monpoly", pipe, "--sig", pipe],
        ["history", "votes", "-f", pipe],
    ):
        assert run([*line, "--home", home]) in (1, 2)
    for change in (lambda: weft.load_past("votes", pipe, "at"), lambda: weft.ingest_log(pipe, pipe)):
        with pytest.raises(WeftError):
            change()


def _shell(command: str, home: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", command.replace("weft", f"{sys.executable} -m weft", 1)],
        env={**os.environ, "WEFT_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    "command",
    [
        "weft ingest file <(printf 'id,x\\n1,2\\n') --table t",
        "weft ingest file /dev/stdin --table t < <(printf 'id,x\\n1,2\\n')",
        "weft ingest file /dev/stdin --table t <<< $'id,x\\n1,2'",
        f"weft ingest mail <(printf '{LETTER}')",
        "weft append votes -f <(echo '{\"a\": 1}')",
    ],
)
def test_a_stream_that_is_named_by_its_descriptor_is_read(tmp_path: Path, command: str) -> None:
    with Weft.open(tmp_path / "home", create=True) as weft:
        weft.make_table("votes", "a INT")
    done = _shell(command, tmp_path / "home")
    assert done.returncode == 0, done.stderr
    assert "1 stored, 0 known" in done.stdout


def test_a_descriptor_that_is_not_open_is_refused(tmp_path: Path) -> None:
    Weft.open(tmp_path / "home", create=True).close()
    assert _shell("weft ingest file /dev/fd/77 --table u", tmp_path / "home").returncode == 2


def test_refusals_name_the_file(weft: Weft, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"nothing\.csv"):
        weft.ingest_file(tmp_path / "nothing.csv", "t")
