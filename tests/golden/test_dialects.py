"""Texts of other dialects in ``queries/dialects``: their translation, or why they are refused.  See ``expected``."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from golden.texts import HERE, queries
from hostile_texts import HOSTILE
from weft.algebra.schema import STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.api.dialects import in_dialect
from weft.errors import Refused, SqlError
from weft.planning.plan import plan
from weft.sql.lower.foreign.functions import FUNCTIONS
from weft.sql.lower.foreign.translate import DIALECTS, translated

TYPES = {
    "id": "INT", "name": "STRING", "price": "DECIMAL(8,2)", "rate": "DOUBLE", "day": "DATE", "ts": "TIMESTAMP",
    "doc": "STRING", "tags": "ARRAY<STRING>",
}  # fmt: skip
TABLE = TableSchema(
    1, "t", tuple(Column(n, name, DataType.of_column(kind), True) for n, (name, kind) in enumerate(TYPES.items(), 1))
)
FILES = sorted((HERE / "queries" / "dialects").glob("*.sql"))


def shown(dialect: str, title: str, text: str) -> str:
    head = f"==== {title}\n\n{text}\n\n"
    try:
        with in_dialect(text, dialect, lambda _: {"t": TABLE}, stored=True) as made:
            plan(made, {"t": TABLE})
    except SqlError as error:
        return f"{head}---- refused\n{error}\n"
    return f"{head}---- for Spark\n{made}\n"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_what_weft_makes_of_another_dialect(path: Path, bless: bool) -> None:
    texts = [shown(path.stem, *each) for each in queries(path)]
    for (title, _), made in zip(queries(path), texts, strict=True):
        assert ("---- refused" in made) == title.startswith("refused"), made
    expected = HERE / "expected" / "dialects" / f"{path.stem}.txt"
    if bless:
        expected.parent.mkdir(exist_ok=True)
        expected.write_text("\n".join(texts))
    assert "\n".join(texts) == expected.read_text(), "run `make bless`, and read the difference"


def test_every_dialect_has_queries_and_functions() -> None:
    assert sorted(DIALECTS) == sorted(path.stem for path in FILES) == sorted(FUNCTIONS)


def test_an_unknown_dialect_is_refused() -> None:
    with pytest.raises(Refused, match="'oracle' is not a dialect"):
        translated("SELECT 1 AS a", "oracle", [])
    with pytest.raises(Refused, match="applies to SQL"), in_dialect("x", "duckdb", lambda _: {}, language="mutl"):
        pass


def test_a_text_with_the_marks_of_places_is_refused() -> None:
    with pytest.raises(SqlError, match="private use"):
        translated("SELECT '\ue0007\ue001' AS a FROM t", "duckdb", [TABLE])


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE t", "SELECT 1 AS a; SELECT 2 AS b", "", "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT id FROM t, LATERAL (SELECT 1) x", "WITH x AS (DELETE FROM t) SELECT 1 AS a", "COPY t TO 'x'",
        "SELECT reflect('java.lang.System', 'exit', 1) AS x FROM t", "SELECT @@version AS v", "SELECT $1 AS v FROM t",
        "SELECT id FROM t TABLESAMPLE (1 PERCENT)", "SELECT id INTO u FROM t", "(" * 2_000 + "SELECT 1" + ")" * 2_000,
    ],
)  # fmt: skip
def test_other_texts_are_refused(dialect: str, text: str) -> None:
    with pytest.raises(Refused), in_dialect(text, dialect, lambda _: {"t": TABLE}) as made:
        plan(made, {"t": TABLE})


@pytest.mark.parametrize("dialect", DIALECTS)
def test_hostile_texts_are_refused(dialect: str) -> None:
    columns = (Column(1, "k", STRING, True), Column(2, "x", STRING, True), Column(3, "ts", TIMESTAMP, False))
    tables = {"msgs": TableSchema(1, "msgs", columns)}
    accepted = set()
    for text in HOSTILE.values():
        with suppress(Refused), in_dialect(text, dialect, lambda _: tables) as made:
            plan(made, tables)
            accepted.add(made)
    # TABLE msgs is a query in some dialects, and a hint is a comment in others.
    assert accepted <= {"SELECT * FROM msgs", "SELECT k FROM msgs"}
