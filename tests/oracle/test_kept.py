"""Cases that failed before, found by review and by random texts: all laws, on SQLite."""

from __future__ import annotations

import pytest

from oracle.derived import schemas
from oracle.engines import Row, Sqlite
from oracle.histories import Case, History
from oracle.laws import LAWS, Trial
from oracle.spelling import Text
from weft.planning.plan import plan

# k, n, x, d, f, ts, te
ROWS: dict[str, tuple[Row, ...]] = {
    "m": ((1, 1, "a", 3, True, 0, None), (0, 2, "b", None, False, 2, None), (1, 0, "a", 7, None, 4, None)),
    "r": ((1, 1, "a", 5, True, 1, None), (5, 2, None, 2, None, 0, None), (0, 1, "b", 8, False, 5, None)),
    "u": ((1, 0, "a", 4, True, 5, None), (1, 2, "c", None, False, 0, None), (9, 5, "b", 9, False, 0, None)),
}
THREE_UNIONS = (
    "SELECT z.k AS c FROM u z WHERE z.f AND NOT EXISTS (SELECT 1 FROM "
    "(SELECT k, n FROM m UNION ALL SELECT k, n FROM r) AS d0, (SELECT k, n FROM r UNION ALL SELECT k, n FROM u) AS d1, "
    "(SELECT k, n FROM u UNION ALL SELECT k, n FROM m) AS d2 WHERE d1.k = z.k AND d0.n = d1.n AND d2.n = d0.k)"
)
KEPT = {
    "a derived column in a subquery's list": "SELECT d.k AS c FROM (SELECT n AS k FROM m) AS d "
    "WHERE d.k IN (SELECT d.k FROM r)",
    "negated, with time": "SELECT d.k AS c FROM (SELECT n AS k FROM m) AS d "
    "WHERE d.k NOT IN (SELECT d.k FROM r WHERE NOW() < r.d)",
    "one level down": "SELECT m.k AS c FROM m WHERE m.k IN (SELECT d.k FROM (SELECT n AS k FROM r) AS d "
    "WHERE d.k IN (SELECT d.k + 0 FROM u))",
    "three unions under NOT EXISTS": THREE_UNIONS,
    "constants from now": "WITH v(a) AS (VALUES (1), (2)) SELECT a AS c FROM v",
    "constants and rows from now": "WITH v(a) AS (VALUES (1), (0)) SELECT v.a AS c FROM v JOIN m ON m.k = v.a",
}


@pytest.mark.parametrize("salt", range(6))
@pytest.mark.parametrize("name", KEPT)
def test_cases_that_failed_before(name: str, salt: int) -> None:
    engine = Sqlite()
    engine.load(ROWS)
    trial = Trial(Case(Text(KEPT[name], KEPT[name]), History(ROWS, ()), (3, 6), salt), engine)
    for law in LAWS:
        trial.random.seed(salt)
        law(trial)
    assert trial.reference.first() or name == "three unions under NOT EXISTS"


def test_columns_keep_their_names() -> None:
    """A sum whose last column had the name of the sum lost it."""
    found = plan("SELECT m.n + m.k AS k, -m.k AS n, m.x AS y, NOT m.f AS f FROM m", schemas(History(ROWS, ())))
    assert "m.n + m.k AS k, -m.k AS n, m.`x` AS y, NOT m.f AS f" in found.text
