"""Hostile texts on the command line with a running Spark. Weft refuses each text, and the canaries do not change."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hostile_texts import HOSTILE, planted
from replayed import AT, START, commits, load, replay_home, stored_rows
from weft.algebra.schema import INT, STRING, TIMESTAMP
from weft.cli.app import run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REFUSED = 2
COLUMNS = (("k", INT), ("x", STRING), ("date", TIMESTAMP))
COMMANDS = (
    ["try"],
    ["explain"],
    ["install", "hostile"],
    ["install", "later", "--from", "now", "--to", "file:f.csv"],
)
ROWS = [(1, "a", START), (2, "b", START + 1)]


@pytest.fixture(scope="module")
def home(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with the table in the texts, so that a missing table is not the reason for a refusal."""
    with replay_home(tmp_path_factory.mktemp("hostile") / "home") as weft:
        load(weft, spark, "msgs", ROWS, COLUMNS)
    return weft.home


@pytest.fixture(scope="module")
def read(home: Path) -> Path:
    """A file that no text may read."""
    path = home.parent / "secret.txt"
    path.write_text(os.environ["WEFT_CANARY"] + "\n")
    return path


def test_the_canaries_would_show_an_escape(spark: SparkSession, read: Path, home: Path) -> None:
    """Spark itself executes such texts, but a session of Weft does not read files as tables."""
    canary = os.environ["WEFT_CANARY"]
    asked = spark.sql("SELECT reflect('java.lang.System', 'getenv', 'WEFT_CANARY') AS e").collect()
    assert [tuple(row) for row in asked] == [(canary,)]
    assert [row.value for row in spark.read.text(str(read)).collect()] == [canary]
    written = home.parent / "touched"
    spark.sql(f"SELECT TRANSFORM(k) USING 'touch {written}' AS (k STRING) FROM VALUES (1) AS t(k)").collect()
    assert written.exists()
    with pytest.raises(Exception, match=r"(?i)not be found|not supported|UNSUPPORTED"):
        spark.sql(f"SELECT * FROM text.`{read}`").collect()


# Each command refuses every text. `make test` gives each text to `try`, and to one of the other commands in turn.
CASES = (
    *((name, (COMMANDS[0], COMMANDS[1 + number % 3])) for number, name in enumerate(HOSTILE)),
    *(pytest.param(name, COMMANDS, marks=pytest.mark.slow) for name in HOSTILE),
)


@pytest.mark.parametrize(("name", "commands"), CASES)
def test_a_hostile_text_is_refused_and_touches_nothing(
    name: str, commands: Sequence[list[str]], home: Path, read: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "written"
    text = tmp_path / "text.sql"
    text.write_text(planted(HOSTILE[name], str(read), str(written)))
    for command in commands:
        capfd.readouterr()
        code = run([*command, "-f", str(text), "--home", str(home)])
        shown = "".join(capfd.readouterr())
        assert code == REFUSED, (command, shown)
        assert "refused" in shown and "Traceback" not in shown and "Exception" not in shown
        assert os.environ["WEFT_CANARY"] not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.sql"]
    _require_untouched(home, read)


def _require_untouched(home: Path, read: Path) -> None:
    with replay_home(home) as weft:
        assert weft.queries() == ()
        [table] = weft.tables()
        assert [row[:2] for row in stored_rows(weft, "msgs")] == [row[:2] for row in ROWS]
        assert commits(home / table.path) == 2
    assert read.read_text().strip() == os.environ["WEFT_CANARY"]
    assert list((home / "files").iterdir()) == []


def test_a_query_still_runs_afterwards(spark: SparkSession, home: Path) -> None:
    with replay_home(home) as weft:
        assert weft.try_query("SELECT k FROM msgs WHERE x = 'a'", now=AT).rows == ((1,),)
