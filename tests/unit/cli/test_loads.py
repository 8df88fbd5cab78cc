"""What a person sees of a load: stdin, what was guessed, what is refused, a full disk, a terminal without letters."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, text

from weft.catalog import open_catalog
from weft.errors import CatalogError
from weft.runtime import doctor

Weft = Callable[..., Any]


def process(*arguments: str, given: bytes = b"", **variables: str) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **variables}
    command = [sys.executable, "-m", "weft", *arguments]
    return subprocess.run(command, input=given, capture_output=True, env=environment, timeout=120)


def test_stdin_is_loaded_and_letters_that_the_terminal_lacks_are_escaped(home: Path) -> None:
    line = json.dumps({"name": "café 😀"}, ensure_ascii=False)
    done = process("ingest", "file", "-", "--table", "t", "--json", given=line.encode("utf-16"))
    assert done.returncode == 0, done.stderr
    output = json.loads(done.stdout)
    assert output["stored"] == 1
    assert output["notes"] == ["stdin is not UTF-8; it was read as utf-16 (to change this, use --encoding)"]
    shown = process("describe", "t", PYTHONIOENCODING="ascii")
    assert (shown.returncode, b"caf\\u00e9 \\ud83d\\ude00" in shown.stdout) == (0, True), shown.stderr
    exact = process("describe", "t", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(exact.stdout)["samples"][0]["name"] == "café 😀"


def test_a_full_disk_is_reported_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_catalog(tmp_path / "home", create=True, at=0) as catalog:
        engine = catalog._database._engine
        with engine.connect() as connection:
            used = connection.execute(text("PRAGMA page_count")).scalar_one()
        engine.dispose()
        event.listen(engine, "connect", lambda own, _: own.execute(f"PRAGMA max_page_count = {used}"))
        with pytest.raises(CatalogError, match=r"the disk of the catalog is full, with [0-9,]+ bytes free") as failed:
            for number in range(1_000):
                catalog.tables.create(f"t{number}", [])
    assert "Free some space" in (failed.value.hint or "")
    [disk] = [check for check in doctor.examine(tmp_path / "home", 0) if check.name == "disk"]
    assert disk.ok == (os.statvfs(tmp_path).f_bavail * os.statvfs(tmp_path).f_frsize >= doctor.LEAST_FREE)
    assert re.search(r"[1-9].* [GM]B are free", disk.seen)
    monkeypatch.setattr(doctor, "LEAST_FREE", 1 << 60)
    [disk] = [check for check in doctor.examine(tmp_path / "home", 0) if check.name == "disk"]
    assert not disk.ok


def below(folder: Path) -> dict[str, tuple[int, bytes | None]]:
    """Each path below the folder, and itself, with its mode and its bytes."""
    paths = [folder, *folder.rglob("*")]
    return {str(path): (path.stat().st_mode, path.read_bytes() if path.is_file() else None) for path in paths}


@pytest.mark.parametrize("output", ["no such file", "cannot be read"])
def test_a_first_load_that_fails_leaves_a_folder_as_it_was(weft: Weft, home: Path, output: str) -> None:
    missing = output == "no such file"
    (home.parent / "none.parquet").write_bytes(b"PAR1") if not missing else None
    home.mkdir(0o750)
    for name in ("notes.txt", "logs/mine.log", "files/answers/a.csv"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("mine")
    (home / "holders").mkdir()
    before = below(home.parent)
    for folder in (home, home.parent / "new", home.parent):
        done = weft("ingest", "file", "none.parquet", "--table", "t", "--home", str(folder))
        assert (done.code != 0, output in done.err) == (True, True), done
        assert below(home.parent) == before


def test_a_load_that_fails_leaves_an_existing_home_as_it_was(weft: Weft, home: Path) -> None:
    (home.parent / "x.csv").write_text("a\n1\n2\n")
    assert weft("ingest", "file", "x.csv", "--table", "t").code == 0
    assert weft("ingest", "file", "none.csv", "--table", "t").code == 2
    assert weft("tables", "--json").json[0]["rows"] == 2


def test_samples_come_from_as_many_files_as_are_needed(weft: Weft, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "110")
    weft("table", "create", "t", "id INT, note STRING")
    for number in range(5):
        assert weft("append", "t", f"id={number}", f"note={'long ' * 30}").code == 0
    described = weft("describe", "t", "--samples", "4")
    assert [f"sample {n}" in described.out for n in range(1, 6)] == [True] * 4 + [False]
    samples = weft("describe", "t", "--samples", "4", "--json").json["samples"]
    assert [each["id"] for each in samples] == [4, 3, 2, 1]
    assert len(weft("describe", "t", "--samples", "9", "--json").json["samples"]) == 5
    assert weft("describe", "t", "--samples", "0", "--json").json["samples"] == []


def test_samples_of_a_tracked_table_are_its_latest_periods(weft: Weft, home: Path) -> None:
    source = home.parent / "x.csv"
    source.write_text("id,v\n1,a\n")
    weft("init")
    added = weft("source", "add", "t", "--kind", "csv", "--at", str(source), "--key", "id")
    assert added.code == 0, added.err
    for number in range(2, 6):
        source.write_text("id,v\n" + "".join(f"{each},{number}\n" for each in range(1, number + 1)))
        assert weft("source", "poll", "t").code == 0
    samples = weft("describe", "t", "--samples", "8", "--json").json["samples"]
    now = [each for each in samples if each["valid_to"] is None]
    assert sorted((each["id"], each["v"]) for each in now) == [(each, "5") for each in range(1, 6)]
    assert len(samples) == 8
