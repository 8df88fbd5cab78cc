"""The settings of the environment: defaults, what is refused and how, names that are misspelt."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from weft.cli import main
from weft.configuration import configuration, misspelt
from weft.errors import Refused
from weft.runtime.doctor import examine


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("WEFT_")]:
        monkeypatch.delenv(name)


def test_what_is_not_set_or_empty_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECONDS", "")
    found = configuration()
    assert (found.home, found.files_root, found.spark_memory) == (Path("weft-home"), None, None)
    assert (found.query_seconds, found.query_rows) == (600, 10_000_000)


def test_what_is_set_is_read_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECONDS", "2.5")
    monkeypatch.setenv("WEFT_QUERY_ROWS", "100")
    monkeypatch.setenv("WEFT_SPARK_MEMORY", "512m")
    found = configuration()
    assert (found.query_seconds, found.query_rows, found.spark_memory) == (2.5, 100, "512m")


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("WEFT_QUERY_SECONDS", "5 minutes", "number"),
        ("WEFT_QUERY_SECONDS", "0", "greater"),
        ("WEFT_QUERY_SECONDS", "nan", "number"),
        ("WEFT_QUERY_SECONDS", "inf", "finite"),
        ("WEFT_QUERY_ROWS", "1e6", "integer"),
        ("WEFT_QUERY_ROWS", "-1", "greater"),
        ("WEFT_SPARK_MEMORY", "much", "match"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, reason: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Refused) as refused:
        configuration()
    assert refused.value.message.startswith(f"{name} is {value!r}: ")
    assert reason in refused.value.message
    assert "unset it" in (refused.value.hint or "")


@pytest.mark.parametrize("options", [[], ["--home", "somewhere"]])
def test_a_command_says_which_variable_is_wrong(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], options: list[str]
) -> None:
    monkeypatch.setenv("WEFT_QUERY_ROWS", "many")
    monkeypatch.setattr("sys.argv", ["weft", "queries", *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert "refused: WEFT_QUERY_ROWS is 'many'" in capsys.readouterr().err


def test_the_doctor_sees_a_name_that_is_misspelt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_QUERY_SECOND", "5")
    monkeypatch.setenv("WEFT_SOMETHING_ELSE", "5")
    assert misspelt() == {"WEFT_QUERY_SECOND": "WEFT_QUERY_SECONDS"}
    check = next(each for each in examine(None, 0) if each.name == "settings")
    assert not check.ok
    assert "WEFT_QUERY_SECOND is no setting - did you mean WEFT_QUERY_SECONDS?" in str(check)
