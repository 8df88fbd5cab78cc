"""EXPLODE and LATERAL: the bound query has the rows of the same query in DuckDB's words."""

from __future__ import annotations

import re

import duckdb
import pytest

from netnews import table
from weft.algebra.schema import INT, STRING, DataType
from weft.errors import SqlError
from weft.planning.plan import plan
from weft.sql.lower.query import bind
from weft.sql.rendering.render import query_sql

POSTS = table(1, "posts", {"id": INT, "author": STRING, "words": STRING, "tags": DataType.of_column("ARRAY<INT>")})
USERS = table(2, "users", {"name": STRING, "age": INT})
TABLES = {each.name: each for each in (POSTS, USERS)}
ROWS = """
CREATE TABLE posts (id INT, author VARCHAR, words VARCHAR, tags INT[], ts INT);
CREATE TABLE users (name VARCHAR, age INT, ts INT);
INSERT INTO posts VALUES (1, 'ann', 'a b', [1, 2], 1), (2, 'ann', '', [], 2), (3, 'bob', NULL, NULL, 3),
  (4, 'bob', 'b b', [2, NULL], 4), (5, 'cid', 'c', [7], 5);
INSERT INTO users VALUES ('ann', 30, 1), ('bob', NULL, 2), ('eve', 20, 3);
"""
EXPLODED = re.compile(r"LATERAL (POS)?EXPLODE(_OUTER)?\((.*?\)?)\) AS (\w+)\((\w+)(?:, (\w+))?\)")
TEXTS = {
    "SELECT p.id, t.w FROM posts p, LATERAL EXPLODE(SPLIT(p.words, ' ')) AS t(w)": (
        "SELECT id, UNNEST(STRING_SPLIT(words, ' ')) FROM posts"
    ),
    "SELECT id, EXPLODE(SPLIT(words, ' ')) AS w FROM posts WHERE id > 1": (
        "SELECT id, UNNEST(STRING_SPLIT(words, ' ')) FROM posts WHERE id > 1"
    ),
    "SELECT id, w FROM posts LATERAL VIEW EXPLODE(SPLIT(words, ' ')) t AS w WHERE w = 'b'": (
        "SELECT id, w FROM (SELECT id, UNNEST(STRING_SPLIT(words, ' ')) AS w FROM posts) WHERE w = 'b'"
    ),
    "SELECT w, COUNT(*) AS n FROM posts LATERAL VIEW EXPLODE(SPLIT(words, ' ')) t AS w GROUP BY w": (
        "SELECT w, COUNT(*) FROM (SELECT UNNEST(STRING_SPLIT(words, ' ')) AS w FROM posts) GROUP BY w"
    ),
    "SELECT id, age, w FROM posts p JOIN users u ON u.name = author LATERAL VIEW EXPLODE(SPLIT(words, ' ')) t AS w": (
        "SELECT p.id, u.age, UNNEST(STRING_SPLIT(words, ' ')) FROM posts p JOIN users u ON u.name = p.author"
    ),
    "SELECT id FROM posts p WHERE EXISTS (SELECT 1 FROM posts q LATERAL VIEW EXPLODE(SPLIT(q.words, ' ')) t AS w WHERE "
    "q.author = p.author AND w = 'a')": "SELECT id FROM posts WHERE author = 'ann'",
    "SELECT u.name, l.id FROM users u, LATERAL (SELECT p.id FROM posts p WHERE p.author = u.name) l": (
        "SELECT u.name, p.id FROM users u JOIN posts p ON p.author = u.name"
    ),
    "SELECT u.name, l.id FROM users u, LATERAL (SELECT p.id FROM posts p WHERE p.author = u.name ORDER BY ts DESC "
    "LIMIT 1) l": "SELECT author, MAX(id) FROM posts WHERE author IN (SELECT name FROM users) GROUP BY author",
    "SELECT u.name, l.n FROM users u, LATERAL (SELECT COUNT(*) AS n FROM posts p WHERE p.author = u.name) l": (
        "SELECT name, (SELECT COUNT(*) FROM posts WHERE author = name) FROM users"
    ),
    "SELECT u.name, l.n FROM users u LEFT JOIN LATERAL (SELECT COUNT(*) AS n FROM posts p WHERE p.author = u.name) l "
    "ON l.n > 1 AND u.age > 0": (
        "SELECT name, CASE WHEN age > 0 THEN (SELECT COUNT(*) FROM posts WHERE author = name HAVING COUNT(*) > 1) END "
        "FROM users"
    ),
}


def _in_duckdb(text: str) -> str:
    def one(found: re.Match[str]) -> str:
        return f"LATERAL (SELECT UNNEST({found[3]}) AS {found[5]}) AS {found[4]}"

    return EXPLODED.sub(one, text).replace("`", '"').replace("SPLIT(", "STRING_SPLIT(")


@pytest.mark.parametrize("text", TEXTS)
def test_the_bound_query_has_the_rows_of_its_text(text: str) -> None:
    rows = duckdb.connect()
    rows.execute(ROWS)
    bound = _in_duckdb(query_sql(bind(text, TABLES)))
    found, wanted = (set(rows.execute(each).fetchall()) for each in (bound, TEXTS[text]))
    assert found == wanted


FORMS = {
    "SELECT id, t.* FROM posts LATERAL VIEW OUTER POSEXPLODE(tags) t AS p, x": "LATERAL POSEXPLODE_OUTER(",
    "SELECT id, x FROM posts LEFT JOIN LATERAL EXPLODE(tags) AS t(x) ON TRUE": "LATERAL EXPLODE_OUTER(",
    "SELECT id, POSEXPLODE(tags) FROM posts": "AS exploded(pos, col)",
    "SELECT id, POSEXPLODE(tags) AS (a, b) FROM posts": "AS exploded(a, b)",
    "SELECT id, EXPLODE(FROM_JSON(words, 'MAP<STRING, INT>')) FROM posts": "AS exploded(`key`, `value`)",
    "SELECT d.c.a AS a FROM posts, LATERAL EXPLODE(FROM_JSON(words, 'ARRAY<STRUCT<a: INT>>')) AS d(c)": "d.c.a",
    "SELECT s.y FROM posts, LATERAL EXPLODE(FROM_JSON(words, 'ARRAY<STRUCT<a: ARRAY<INT>>>')) AS d(c), LATERAL "
    "EXPLODE(d.c.a) AS s(y)": "LATERAL EXPLODE(d.c.a) AS s(y)",
}


@pytest.mark.parametrize("text", FORMS)
def test_arrays_stand_behind_the_tables_that_they_name(text: str) -> None:
    assert FORMS[text] in query_sql(bind(text, TABLES))
    for branch in plan(text, TABLES).branches:
        assert branch.driver.kind == "arrival"


REFUSED = {
    "SELECT EXPLODE(words) AS w FROM posts": "FROM_JSON",
    "SELECT EXPLODE(tags) + 1 AS w FROM posts": "EXPLODE",
    "SELECT EXPLODE(tags) AS a, EXPLODE(tags) AS b FROM posts": "LATERAL VIEW",
    "SELECT EXPLODE(SPLIT('a b', ' ')) AS w FROM posts": "VALUES",
    "SELECT id, POSEXPLODE(tags) AS x FROM posts": "2 columns",
    "SELECT id FROM posts p WHERE EXISTS (SELECT 1 FROM users LATERAL VIEW EXPLODE(p.tags) t AS x WHERE x = age)": (
        "a column of p"
    ),
    "SELECT id FROM posts LEFT JOIN LATERAL EXPLODE(tags) AS t(x) ON x > 1": "ON TRUE",
    "SELECT id FROM posts RIGHT JOIN LATERAL (SELECT 1 AS x FROM users) AS t ON TRUE": "LEFT JOIN LATERAL",
    "SELECT id, l.n FROM posts p, LATERAL (SELECT COUNT(*) AS n FROM users WHERE age > p.id) l": "only by =",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_have_a_reason(text: str) -> None:
    with pytest.raises(SqlError) as caught:
        bind(text, TABLES)
    assert REFUSED[text] in f"{caught.value} {caught.value.hint}"
