"""What the doctor says, of a machine that is well and of one that is not; no Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.catalog import open_catalog
from weft.errors import ExecutionError
from weft.runtime import doctor
from weft.runtime.doctor import Check, examine

AT = 1_700_000_000_000_000


def _by_name(home: Path | None) -> dict[str, Check]:
    return {check.name: check for check in examine(home, AT)}


def test_a_machine_that_is_well(tmp_path: Path) -> None:
    checks = _by_name(tmp_path / "home")
    assert list(checks) == ["python", "settings", "java", "spark", "class archive", "disk", "home"]
    assert all(check.ok for check in checks.values()), checks
    assert "does not exist yet" in checks["home"].seen
    open_catalog(tmp_path / "home", create=True, at=AT).close()
    assert "all intact" in _by_name(tmp_path / "home")["home"].seen
    assert "\n" not in "".join(str(check) for check in checks.values())


def test_each_fault_comes_with_its_fix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise ExecutionError("the wrong Spark", hint="install the right one")

    monkeypatch.setattr(doctor, "check_spark_version", refuse)
    assert str(_by_name(None)["spark"]) == "BAD  spark: the wrong Spark - install the right one"


def test_a_folder_that_is_no_home_is_said_to_be_none(tmp_path: Path) -> None:
    (tmp_path / "tables" / "1-msgs").mkdir(parents=True)
    check = _by_name(tmp_path)["home"]
    assert not check.ok
    assert check.fix


def test_a_table_that_is_gone_is_reported(tmp_path: Path) -> None:
    with open_catalog(tmp_path / "home", create=True, at=AT) as catalog:
        writer = catalog.writer("test", "me", AT)
        writer.tables.record_versions([("ledger", 3, 10)])
    check = _by_name(tmp_path / "home")["home"]
    assert not check.ok
    assert "10 rows were recorded" in check.seen


def test_a_check_reports_its_result_in_one_line() -> None:
    assert repr(Check("java", False, "none", "install one")) == "<BAD java: none - install one>"
