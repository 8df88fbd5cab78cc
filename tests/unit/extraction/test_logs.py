"""Logs of temporal logic loaded into tables: answers are those of the log, however it is cut, killed and ticked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import forked
from weft.api import Weft
from weft.api.monitoring import Options, verdicts
from weft.errors import Conflict, FormulaError, Refused

SIGNATURE = "approve(m: int, r: string)\npublish(string, tp: int)\nquiet()\n"
FORMULA = "(EXISTS n. publish(r, n)) AND NOT ONCE[0,10] EXISTS m. approve(m, r)"
FIRST = '@10 approve (1, a) (2, "b c")\n@12 publish (a, 7)\n@12\n@12 publish ("b c", 7) (d, 8)\n'
SECOND = "@12 approve (3, d) publish (d, 9)\n@23 publish (a, 7)(d, 7)\n"


@pytest.fixture
def files(tmp_path: Path) -> Path:
    for name, text in {"s.sig": SIGNATURE, "f.mfotl": FORMULA, "1.log": FIRST, "2.log": SECOND}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "whole.log").write_text(FIRST + SECOND)
    return tmp_path


def _opened(files: Path) -> Weft:
    return Weft.open(files / "home", clock="replay", create=True)


def _load(weft: Weft, files: Path, log: str) -> dict[str, int]:
    done = weft.ingest_log(files / log, files / "s.sig")
    return {each.table: each.stored for each in done}


def _answers(weft: Weft) -> set[tuple[int, str]]:
    return {(row.values[0], row.values[1]) for row in weft.results("unapproved")}


def _expected(files: Path, log: str) -> list[str]:
    return list(verdicts(files / "s.sig", files / "f.mfotl", files / log, Options()))


def test_a_log_in_two_parts_is_answered_as_the_whole_one(files: Path) -> None:
    with _opened(files) as weft:
        assert _load(weft, files, "1.log") == {"approve": 2, "publish": 3, "time_points": 4}
        weft.install("unapproved", FORMULA, language="monpoly")
        weft.tick(now="1970-01-01T00:00:12.000001Z")
        assert _answers(weft) == {(3, "d")}
        assert _load(weft, files, "2.log") == {"approve": 1, "publish": 3, "time_points": 2}
        weft.tick(now="1970-01-02")
        assert _answers(weft) == {(3, "d"), (5, "a"), (5, "d")}
        assert [column.name for column in weft.describe("publish").table.schema.columns] == ["c1", "x2", "tp", "ts"]
    assert _expected(files, "whole.log") == ['@12 (time point 3): ("d")', '@23 (time point 5): ("a") ("d")']


def test_a_log_is_loaded_once(files: Path) -> None:
    with _opened(files) as weft:
        _load(weft, files, "1.log")
        (again,) = weft.ingest_log(files / "1.log", files / "s.sig")
        assert (again.already_loaded, again.known, again.stored) == (True, 4, 0)


def test_a_log_is_read_once_in_pieces(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.extraction import logs

    opened, opening = [], logs.opened_text
    monkeypatch.setattr(logs, "opened_text", lambda path: opened.append(path) or opening(path))
    monkeypatch.setattr(logs, "MAX_ROWS", 2)
    (files / "9.log").write_text("".join(f"@{10 + at} approve ({at}, a) publish (b, {at})\n" for at in range(5)))
    with _opened(files) as weft:
        _load(weft, files, "1.log")
        assert _load(weft, files, "9.log") == {"approve": 5, "publish": 5, "time_points": 5}
        weft.install("ids", "SELECT c1, x2, tp FROM publish WHERE tp > 3", keep="synopsis")
        weft.tick(now="1970-01-02")
        assert {row.values for row in weft.results("ids")} == {("b", at, 4 + at) for at in range(5)}
    assert [path.name for path in opened if path.suffix == ".log"] == ["1.log", "9.log"]


@pytest.mark.parametrize("passed", [1, 3])
@pytest.mark.parametrize("point", ["ingest.reserved", "ingest.written", "ingest.committed"])
def test_a_load_that_died_goes_on_where_it_was(files: Path, point: str, passed: int) -> None:
    with _opened(files) as weft:
        _load(weft, files, "1.log")
    command = [sys.executable, "-m", "weft", "ingest", "monpoly", str(files / "2.log"), "--sig", str(files / "s.sig")]
    died = forked.run([*command, "--home", str(files / "home")], f"{point}:{passed}")
    assert died.returncode == -9
    with _opened(files) as weft:
        (files / "3.log").write_text("@30 publish (e, 1)\n")
        with pytest.raises(Conflict, match=r"another log, .*2\.log, is partly loaded"):
            _load(weft, files, "3.log")
        _load(weft, files, "2.log")
        weft.install("unapproved", FORMULA, language="monpoly")
        weft.tick(now="1970-01-02")
        assert _answers(weft) == {(3, "d"), (5, "a"), (5, "d")}
        assert {table.name: table.rows for table in weft.tables() if table.rows} == {
            "approve": 3,
            "publish": 6,
            "time_points": 6,
        }


def test_an_invalid_table_changes_nothing(files: Path) -> None:
    (files / "s.sig").write_text("P(int) p(int)")
    (files / "1.log").write_text("@1 P (1)")
    with _opened(files) as weft:
        with pytest.raises(Refused, match="p and P would be the same table"):
            _load(weft, files, "1.log")
        (files / "s.sig").write_text("P(int)")
        (files / "1.log").write_text("@1 P (1)\n@2 P (x)")
        with pytest.raises(FormulaError, match=r"1\.log: \(x\) is not a row of P"):
            _load(weft, files, "1.log")
        (files / "1.log").write_text("@999999999999 P (1)")
        with pytest.raises(Refused, match="not within the years 1 to 9999"):
            _load(weft, files, "1.log")
        assert weft.tables() == ()
        (files / "1.log").write_text("@1 P (1)")
        _load(weft, files, "1.log")
        (files / "s.sig").write_text("P(string)")
        (files / "2.log").write_text("@2 P (1)")
        with pytest.raises(Refused, match="the table P has the columns c1 BIGINT, tp BIGINT"):
            _load(weft, files, "2.log")
        assert [table.rows for table in weft.tables()] == [1, 1]


def test_a_wall_home_takes_no_times_to_come(files: Path) -> None:
    (files / "1.log").write_text("@9999999999 publish (a, 1)")
    with (
        Weft.open(files / "home", create=True) as weft,
        pytest.raises(Refused, match="more than 1d ahead of the clock"),
    ):
        _load(weft, files, "1.log")
