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
    told = json.loads(done.stdout)
    assert told["stored"] == 1
    assert told["notes"] == ["stdin is not UTF-8; it was read as utf-16 (to change this, use --encoding)"]
    shown = process("describe", "t", PYTHONIOENCODING="ascii")
    assert (shown.returncode, b"caf\\u00e9 \\ud83d\\ude00" in shown.stdout) == (0, True), shown.stderr
    exact = process("describe", "t", "--json", PYTHONIOENCODING="ascii")
    assert json.loads(exact.stdout)["samples"][0]["name"] == "café 😀"


def test_a_refused_load_makes_no_home(weft: Weft, home: Path, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"id": 1}\n')
    told = weft("ingest", "mail", "x.jsonl")
    assert (told.code, home.exists()) == (2, False)
    assert "no message could be read: no Message-ID" in told.err
    assert "weft ingest file" in " ".join(told.err.split())
    assert weft("ingest", "file", "none.csv", "--table", "t").code == 2
    assert not home.exists()
    (home / "kept").mkdir(parents=True)
    (home / "kept" / "file").write_text("a person's")
    assert weft("ingest", "file", "none.csv", "--table", "t").code == 2
    assert (home / "kept" / "file").exists()


def test_known_rows_with_other_values_are_told_in_words_and_json(weft: Weft, home: Path, tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_text("id,n\n1,1\n2,2\n3,3\n")
    (tmp_path / "2.csv").write_text("id,n\n1,1\n2,5\n3,6\n")
    weft("ingest", "file", "1.csv", "--table", "t", "--key", "id")
    told = weft("ingest", "file", "2.csv", "--table", "t").out
    assert "3 known, 2 of them differ from the stored row: use a tracked table to store versions." in told
    (tmp_path / "3.csv").write_text("id,n\n1,9\n")
    assert weft("ingest", "file", "3.csv", "--table", "t", "--json").json["differ"] == 1


def test_columns_types_and_times_are_taken_as_they_are_named(weft: Weft, home: Path, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("Order ID,price,placed\n1,2.50,31.12.2024 23:59\n")
    (tmp_path / "b.csv").write_text("Order ID,price,placed\n2,3,30.12.2024 12:00\n")
    how = ("--types", "price DECIMAL(12,2)", "--rename", "Order ID=id", "--ts-format", "%d.%m.%Y %H:%M")
    told = weft("ingest", "file", "[ab].csv", "--table", "t", "--ts-from", "placed", *how, "--json").json
    assert (told["stored"], told["notes"]) == (2, [])
    assert (told["first_ts"], told["last_ts"]) == ("2024-12-30T12:00:00Z", "2024-12-31T23:59:00Z")
    columns = weft("describe", "t", "--json").json["columns"]
    assert [(each["name"], each["type"]) for each in columns[:2]] == [("id", "BIGINT"), ("price", "DECIMAL(12,2)")]
    for wrong, words in (("--types", "'price' has no type"), ("--rename", "'price' is not OLD=NEW")):
        refused = weft("ingest", "file", "a.csv", "--table", "u", wrong, "price")
        assert (refused.code, words in refused.err) == (2, True)


def test_a_full_disk_is_told_as_such(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
