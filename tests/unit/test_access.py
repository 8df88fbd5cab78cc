"""Files of a home have the permissions of its folder, whatever the umask is; what channels write has the umask's."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft.access import follow_folder, make_file, make_folder
from weft.api import Weft
from weft.cli import troubles
from weft.cli.app import run
from weft.cli.server.listen import listening
from weft.cli.server.server import _log_to
from weft.runtime.doctor import Check, examine
from weft.schedule.runner import ticking_alone
from weft.storage import table as table_module
from weft.store import store_of

OWNER, GROUP = (0o700, 0o600), (0o2770, 0o660)


@pytest.fixture(params=[0o000, 0o077], ids=["umask 000", "umask 077"])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(table_module.PROPERTIES, "delta.checkpointInterval", "2")


def modes(folder: Path, *left: Path) -> dict[str, str]:
    """The permissions of the folder and of all in it, by path."""
    found = [folder, *(path for path in folder.rglob("*") if not any(path.is_relative_to(each) for each in left))]
    return {str(path.relative_to(folder)): f"{stat.S_IMODE(path.lstat().st_mode):04o}" for path in found}


def wrong(folder: Path, expected: tuple[int, int], *left: Path) -> dict[str, str]:
    """Those that are other than expected of folders and of files."""
    wanted = {True: f"{expected[0]:04o}", False: f"{expected[1]:04o}"}
    return {name: mode for name, mode in modes(folder, *left).items() if mode != wanted[(folder / name).is_dir()]}


def session(folder: Path, rows: int = 100) -> None:
    """Loads with a quarantined record and a look-up by keys, a tracked table, a view, view_plan, logs and locks."""
    source = folder.parent / f"{folder.name}.csv"
    with Weft.open(folder, create=True) as weft:
        weft.make_table("t", {"id": "BIGINT", "at": "TIMESTAMP"}, keys=["id"])
        source.write_text("id,at\n1,2024-01-01\nbad,2024-01-02\n")
        weft.ingest_file(source, "t", keys=["id"])
        weft.append("t", [{"id": number} for number in range(100, max(rows, 200))])
        weft.append("t", [{"id": number} for number in range(5)])
        source.write_text("id\n1\n")
        weft.add_source("s", "csv", source, ["id"])
        weft.poll_source("s")
        weft.add_view("v", "SELECT id FROM s")
        source.write_text("id\n" + "".join(f"{number}\n" for number in range(rows)))
        weft.poll_source("s")
        weft.undo_load(3)
        list(weft.maintain(retain=0))
        with ticking_alone(folder):
            pass
    _log_to(str(folder / "logs"))
    logging.getLogger("uvicorn").error("a record")


def test_all_of_a_home_is_its_owners(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "home"
    session(home, rows=21_000)
    assert wrong(home, OWNER, home / "files") == {}
    made = modes(home)
    assert {"catalog.sqlite", "logs/serve.log", "runner", "holders", "tables", "present", "arrangements"} <= made.keys()
    assert any(name.endswith("_last_checkpoint") for name in made)
    assert any(name.startswith("quarantine/") for name in made)
    assert Path(home, "files").stat().st_mode & 0o777 == 0o777 & ~umask


def test_a_group_may_share_a_home(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_HOME_ACCESS", "group")
    home = tmp_path / "home"
    session(home)
    assert wrong(home, GROUP, home / "files") == {}


def test_a_home_may_be_left_to_the_umask(tmp_path: Path, umask: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_HOME_ACCESS", "umask")
    home = tmp_path / "home"
    session(home)
    assert wrong(home, (0o777 & ~umask, 0o666 & ~umask)) == {}


def test_the_log_and_journal_of_the_catalog_are_its_owners(tmp_path: Path, umask: int) -> None:
    with Weft.open(tmp_path / "home", create=True) as weft, weft.catalog.writing("a test", lambda: 1):
        found = {path.name for path in weft.home.glob("catalog.sqlite*")}
        assert found == {"catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"}
        assert wrong(weft.home, OWNER, weft.home / "files") == {}


def test_no_thread_sees_another_umask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "umask", lambda _: pytest.fail("the umask belongs to the whole process"))
    session(tmp_path / "home")


def test_a_folder_that_others_may_enter_decides_nothing(tmp_path: Path, umask: int) -> None:
    folder = tmp_path / "open"
    folder.mkdir()
    folder.chmod(0o755)
    make_folder(folder / "a" / "b")
    make_file(folder / "f")
    follow_folder(folder / "f")
    assert modes(folder)["f"] == f"{0o666 & ~umask:04o}"
    assert modes(folder)["a"] == f"{0o777 & ~umask:04o}"


def test_files_outside_a_home_keep_the_permissions_of_the_umask(tmp_path: Path, umask: int) -> None:
    (tmp_path / "shared").mkdir(mode=0o700)
    place = store_of(tmp_path / "shared") / "a/b"
    place.put(b"x")
    assert Path(place.path).stat().st_mode & 0o777 == 0o666 & ~umask


def test_a_file_that_is_there_keeps_its_own(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    file.chmod(0o640)
    make_file(file)
    assert (file.read_text(), modes(tmp_path)["f"]) == ("x", "0640")


def access(home: Path) -> Check:
    return next(check for check in examine(home, 0) if check.name == "access")


def test_the_doctor_finds_a_home_that_others_may_enter_and_says_how_to_mend_it(tmp_path: Path) -> None:
    home = tmp_path / "a home"
    session(home)
    Path(home, "files", "x.csv").write_text("for others")
    Path(home, "weft.toml").write_text("[spark]\n")
    assert access(home).ok
    home.chmod(0o755)
    Path(home, "catalog.sqlite").chmod(0o644)
    found = access(home)
    assert not found.ok
    assert found.seen.startswith(f"1 file or folder of {home} (mode 0755), catalog.sqlite (mode 0644) first, are open")
    assert found.fix is not None
    command = found.fix.split("`")[1]
    assert command == f"chmod -R go-rwx '{home}'"
    subprocess.run(command, shell=True, check=True)
    assert access(home).ok
    Path(home, "weft.toml").write_text('[home]\naccess = "group"\n')
    found = access(home)
    assert not found.ok
    subprocess.run(str(found.fix).split("`")[1], shell=True, check=True)
    assert access(home).ok
    assert wrong(home, GROUP, home / "files", home / "weft.toml") == {}


def test_the_log_of_a_defect_is_its_owners(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "home"
    assert run(["init", "--home", str(home)]) == 0
    troubles._context.set(troubles._Context(home=home))
    assert troubles._write_log(ValueError("a defect")) == home / "logs" / "weft.log"
    assert wrong(home, OWNER, home / "files") == {}


def test_the_door_is_its_owners(tmp_path: Path, umask: int) -> None:
    home = tmp_path / "home"
    assert run(["init", "--home", str(home)]) == 0
    with listening(home) as listener:
        socket = Path(listener.getsockname())
        assert stat.S_IMODE(socket.stat().st_mode) == 0o600
        assert wrong(home, OWNER, home / "files") == {}


def test_a_folder_of_a_private_home_is_never_open_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process may make a file in it before it has the permissions of the folder that it is in."""
    tmp_path.chmod(0o700)
    before = os.umask(0)
    monkeypatch.setattr("weft.access.follow_folder", lambda path: seen.append(stat.S_IMODE(Path(path).stat().st_mode)))
    seen: list[int] = []
    try:
        make_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert seen == [0o700, 0o700]
