"""Whatever happens to the files of an arrangement, a caller who follows the protocol gets the rows of the table."""

from __future__ import annotations

import json
import random
import shutil
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from arranged import KINDS, Files, Row, by_protocol, looked_up, matching
from weft.arrangement import Arrangement, ArrangementDamaged, hashing
from weft.arrangement.manifest import MANIFEST

NAMES = ("STRING", "BIGINT", "DOUBLE", "BINARY", "BOOLEAN", "DECIMAL(10,2)", "TIMESTAMP", "ARRAY<STRING>", "INT")
SCHEMA = pa.schema([(f"column {at}", KINDS[name][0]) for at, name in enumerate(NAMES)])
KEY = ("column 0", "column 1")


@dataclass(frozen=True)
class Built:
    folder: Path
    table: Files
    keys: list[Row]
    right: Counter[str]
    """Every row: all keys are asked for, NULL too."""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    chance, table = random.Random(7), Files(SCHEMA)
    folder = tmp_path_factory.mktemp("built") / "state"
    arrangement = Arrangement.open(folder, KEY, SCHEMA)
    for name, count in (("one", 30), ("two", 7), ("three", 1)):
        rows = [tuple(chance.choice((*KINDS[kind][1], None)) for kind in NAMES) for _ in range(count)]
        table.add(name, rows)
        arrangement.catch_up(table.files, table.read)
    assert arrangement.runs == 3
    keys = [row[:2] for row in table.rows]
    right = matching(table.rows, (0, 1), keys, null_safe=True)
    assert sum(right.values()) == 38
    return Built(folder, table, keys, right)


def copy_of(built: Built, folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(built.folder, folder)
    return folder


def require_right(built: Built, folder: Path) -> None:
    assert by_protocol(folder, KEY, built.table, built.keys) == built.right
    after = Arrangement.open(folder, KEY, SCHEMA)
    assert after.why_rebuilt is None
    assert looked_up(after, built.keys, null_safe=True) == built.right


def overwritten(path: Path, change: Callable[[bytearray], Any]) -> None:
    raw = bytearray(path.read_bytes())
    change(raw)
    path.write_bytes(raw)


WHOLE_FILE: dict[str, Callable[[Path], Any]] = {
    "cut to half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "cut by a byte": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "a byte longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "empty": lambda path: path.write_bytes(b""),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "zeros in the middle": lambda path: overwritten(
        path, lambda raw: raw.__setitem__(slice(len(raw) // 4, len(raw) // 2), bytes(len(raw) // 2 - len(raw) // 4))
    ),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("damage", WHOLE_FILE)
def test_a_file_that_is_cut_zeroed_or_gone(built: Built, tmp_path: Path, damage: str) -> None:
    for name in sorted(path.name for path in built.folder.iterdir()):
        folder = copy_of(built, tmp_path / "state")
        WHOLE_FILE[damage](folder / name)
        require_right(built, folder)


def test_two_runs_changed_places(built: Built, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "state")
    one, other, _ = sorted(folder.glob("*.arrow"))
    one.rename(tmp_path / "held")
    other.rename(one)
    (tmp_path / "held").rename(other)
    require_right(built, folder)


@pytest.mark.parametrize("seed", range(3))
def test_a_byte_of_a_run_is_another(built: Built, tmp_path: Path, seed: int) -> None:
    chance, noticed = random.Random(seed), Counter[bool]()
    for _ in range(30):
        folder = copy_of(built, tmp_path / "state")
        path = chance.choice(sorted(folder.glob("*.arrow")))
        flip(path, chance)
        arrangement = Arrangement.open(folder, KEY, SCHEMA)
        noticed[arrangement.why_rebuilt is not None] += 1
        assert by_protocol(folder, KEY, built.table, built.keys) == built.right
    assert noticed[True]


def flip(path: Path, chance: random.Random) -> None:
    raw = bytearray(path.read_bytes())
    raw[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
    path.write_bytes(raw)


def test_a_byte_of_the_manifest_is_another(built: Built, tmp_path: Path) -> None:
    whole = (built.folder / MANIFEST).read_bytes()
    folder = copy_of(built, tmp_path / "state")
    for at in range(0, len(whole), 5):
        (folder / MANIFEST).write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        assert Arrangement.open(folder, KEY, SCHEMA).why_rebuilt == "the manifest is damaged"
    require_right(built, folder)


def test_a_value_that_changed_is_noticed_by_who_gets_it(built: Built, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "state")
    path = max(folder.glob("*.arrow"), key=lambda each: each.stat().st_size)
    at = path.read_bytes().index(b"more than twelve bytes of it")
    overwritten(path, lambda raw: raw.__setitem__(at, ord("M")))
    arrangement = Arrangement.open(folder, KEY, SCHEMA)
    assert arrangement.why_rebuilt is None
    with pytest.raises(ArrangementDamaged, match="rows differ from what was written"):
        looked_up(arrangement, built.keys, null_safe=True)
    assert arrangement.why_rebuilt == "rows differ from what was written"
    assert arrangement.behind(built.table.files) == 38
    arrangement.catch_up(built.table.files, built.table.read)
    assert looked_up(arrangement, built.keys, null_safe=True) == built.right
    require_right(built, folder)


def test_a_file_that_is_cut_while_it_is_mapped(built: Built, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "state")
    arrangement = Arrangement.open(folder, KEY, SCHEMA)
    path = max(folder.glob("*.arrow"), key=lambda each: each.stat().st_size)
    with open(path, "r+b") as stream:
        stream.truncate(100)
    with pytest.raises(ArrangementDamaged, match="the size of a run differs"):
        looked_up(arrangement, built.keys, null_safe=True)
    require_right(built, folder)


def test_state_of_another_format(built: Built, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "state")
    body = json.loads((folder / MANIFEST).read_bytes().splitlines()[0])
    raw = json.dumps({**body, "format": 2, "runs": "of another form"}).encode()
    (folder / MANIFEST).write_bytes(raw + b"\n%08x" % zlib.crc32(raw))
    assert (
        Arrangement.open(folder, KEY, SCHEMA).why_rebuilt
        == "the manifest has format 2, but this version of Weft writes 1"
    )
    require_right(built, folder)


def test_state_that_another_hash_sorted(built: Built, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = copy_of(built, tmp_path / "state")
    with monkeypatch.context() as patch:
        patch.setattr("weft.arrangement.arrangement.hash_version", lambda: "of an older DuckDB")
        other = Arrangement.open(folder, KEY, SCHEMA)
        assert other.why_rebuilt is not None and "hash" in other.why_rebuilt
        other.catch_up(built.table.files, built.table.read)
    assert Arrangement.open(folder, KEY, SCHEMA).why_rebuilt == other.why_rebuilt
    require_right(built, folder)


def test_a_hash_that_differs_in_one_type_has_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    before = hashing.hash_version()
    for at in range(len(hashing._SAMPLES)):
        changed = list(hashing._SAMPLES)
        changed[at] += " + 1"
        monkeypatch.setattr(hashing, "_SAMPLES", tuple(changed))
        assert hashing.hash_version.__wrapped__() != before
        monkeypatch.undo()


def test_state_of_other_columns_and_another_key(built: Built, tmp_path: Path) -> None:
    folder = copy_of(built, tmp_path / "state")
    other_type = SCHEMA.set(1, pa.field("column 1", pa.int32()))
    assert Arrangement.open(folder, KEY, other_type).why_rebuilt == "the arrangement has other columns"
    assert Arrangement.open(folder, KEY, SCHEMA.remove(8)).why_rebuilt == "the arrangement has other columns"
    assert Arrangement.open(folder, KEY[::-1], SCHEMA).why_rebuilt == "the key is column 0, column 1"
    assert by_protocol(folder, KEY[:1], built.table, [(None,)]) == matching(built.table.rows, [0], [(None,)], True)
    require_right(built, folder)


def test_a_file_in_the_folders_place(built: Built, tmp_path: Path) -> None:
    (tmp_path / "state").write_text("no folder")
    arrangement = Arrangement.open(tmp_path / "state", KEY, SCHEMA)
    with pytest.raises(Exception, match="an arrangement cannot be written"):
        arrangement.catch_up(built.table.files, built.table.read)
