"""A writer that was stopped, lost its lease meanwhile, and goes on: the store is not to blame.  No Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from overtaken import end_leases, overtaken
from weft.api import Weft
from weft.errors import LeaseLost, StorageError
from weft.storage.table import Table
from weft.storage.verify import verify
from weft.writing.staging import stage, staged, unstage_all

LOAD = 'weft.ingest_file(Path(sys.argv[1]).parent / "b.csv", "t", ts_from="at", keys=["id"])'


@pytest.fixture
def weft(tmp_path: Path) -> Iterator[Weft]:
    for name, ids in {"a": "12", "b": "34", "c": "56"}.items():
        rows = "".join(f"{n},2024-01-0{n}\n" for n in ids)
        (tmp_path / f"{name}.csv").write_text("id,at\n" + rows)
    with Weft.open(tmp_path / "home", clock="replay", create=True) as weft:
        weft.ingest_file(tmp_path / "a.csv", "t", ts_from="at", keys=["id"])
        yield weft


def told_after(weft: Weft, place: tuple[str, str], command: str, act: Callable[[], object]) -> str:
    """Return what a process says that is stopped as it calls the function, and goes on once the home was another's."""

    def taken_over() -> None:
        end_leases(weft.catalog)
        act()

    return overtaken(weft.home, place, command, taken_over)


def load_more(weft: Weft) -> None:
    weft.ingest_file(weft.home.parent / "c.csv", "t", ts_from="at", keys=["id"])


IN_THE_MIDDLE = {
    LOAD: ("weft.storage.verify", "_verify_one"),
    "weft.tick()": ("weft.storage.verify", "_verify_one"),
    "weft.undo_load(1)": ("weft.writing.removals", "remove_commits"),
}


@pytest.mark.parametrize("command", IN_THE_MIDDLE)
def test_rows_that_another_writer_has_added_are_no_damage(weft: Weft, command: str) -> None:
    result = told_after(weft, IN_THE_MIDDLE[command], command, lambda: load_more(weft))
    assert result.startswith("LeaseLost another writer took this home over"), result
    assert "damaged" not in result
    assert verify(weft.catalog) == []


def test_a_table_that_another_writer_has_dropped_is_no_damage(weft: Weft) -> None:
    place = ("weft.execution.append_rows", "without_stored_keys")
    result = told_after(weft, place, LOAD, lambda: weft.drop_table("t"))
    assert result.startswith("LeaseLost another writer took this home over"), result
    assert verify(weft.catalog) == []


def test_real_damage_is_still_reported(weft: Weft) -> None:
    file = Table(weft.catalog.data / weft.catalog.tables.named("t").path).snapshot().files[0]
    Path(file.location.path).write_bytes(b"PAR1")
    with pytest.raises(StorageError, match="the store is damaged"):
        load_more(weft)


def test_a_stale_writer_leaves_what_a_later_one_has_staged_and_written(weft: Weft) -> None:
    stale = weft.catalog.writer("poll", "one", 0, 1)
    later = weft.catalog.writer("poll", "another", 2, 10**18)
    stage(later.data, 7, pa.table({"a": [1]}))
    with pytest.raises(LeaseLost):
        unstage_all(stale)
    assert staged(later.data, 7) is not None
    unstage_all(later)
    assert staged(later.data, 7) is None
    later.release()
