"""GROUP BY, HAVING and aggregates as relations: what the names and the numbers in them mean, and their types."""

from __future__ import annotations

import pytest

from netnews import table
from weft.algebra.relation import (
    Distinct,
    Exists,
    Grouped,
    Join,
    NotExists,
    NowFrom,
    Plain,
    Project,
    Query,
    Select,
    Union,
    condition,
    sources,
)
from weft.algebra.scalar import Case, ColumnRef, Literal
from weft.algebra.schema import BOOLEAN, DOUBLE, INT, STRING, TIMESTAMP, DataType
from weft.algebra.traverse import free_columns, walk
from weft.errors import SqlError
from weft.sql.lower.query import bind
from weft.sql.rendering.render import measure_text, rows, scalar

MONEY = DataType("DECIMAL", 10, 2)
TABLES = {
    each.name: each
    for each in (
        table(1, "t", {"g": STRING, "b": STRING, "x": INT, "d": DOUBLE, "p": MONEY, "f": BOOLEAN, "at": TIMESTAMP}),
        table(2, "u", {"k": STRING, "w": INT}),
    )
}


def grouped(text: str) -> Grouped:
    """The only aggregation of a query."""
    (found,) = (part for part in walk(bind(text, TABLES)) if isinstance(part, Grouped))
    return found


def groups(text: str) -> list[str]:
    return [scalar(output.value).replace("`", "") for output in grouped(text).groups]


def columns(query: Query) -> list[str]:
    return [f"{output.name} {output.value.type}" for output in query.outputs]


@pytest.mark.parametrize(
    ("text", "by"),
    [
        ("SELECT UPPER(g) AS h, COUNT(*) FROM t GROUP BY UPPER(g)", ["UPPER(t.g)"]),
        ("SELECT UPPER(g) AS h, COUNT(*) FROM t GROUP BY h", ["UPPER(t.g)"]),
        ("SELECT UPPER(g) AS h, COUNT(*) FROM t GROUP BY h || b, h", ["UPPER(t.g) || t.b", "UPPER(t.g)"]),
        ("SELECT COUNT(*), UPPER(g) AS h, b FROM t GROUP BY 2, 3", ["UPPER(t.g)", "t.b"]),
        ("SELECT UPPER(g) AS h, COUNT(*) AS n, b FROM t GROUP BY ALL", ["UPPER(t.g)", "t.b"]),
        ("SELECT x + 1 AS y, COUNT(*) AS n FROM t GROUP BY (b, x)", ["t.b", "t.x"]),
        ("SELECT COUNT(*) AS n, -x AS x FROM t GROUP BY x", ["t.x"]),  # a column of FROM comes first
    ],
)
def test_items_of_group_by(text: str, by: list[str]) -> None:
    assert groups(text) == by


@pytest.mark.parametrize("word", ["UNION", "UNION ALL", "EXCEPT", "INTERSECT"])
def test_a_set_operation_with_parentheses_ends_group_by_all(word: str) -> None:
    plain = f"SELECT g, COUNT(*) AS n FROM t GROUP BY ALL {word} SELECT k, w FROM u"
    assert bind(plain.replace("SELECT k, w FROM u", "(SELECT k, w FROM u)"), TABLES) == bind(plain, TABLES)


def test_a_column_of_from_hides_the_name_of_an_item_in_group_by() -> None:
    with pytest.raises(SqlError, match=r"t\.b is not allowed: it is neither"):
        bind("SELECT b AS g, COUNT(*) AS n FROM t GROUP BY g", TABLES)


@pytest.mark.parametrize(
    ("text", "demanded"),
    [
        ("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING n > 5", "grouped.n > 5"),
        ("SELECT g AS b, COUNT(*) AS n FROM t GROUP BY g HAVING b = 'a'", "grouped.b = 'a'"),  # an item comes first,
        ("SELECT -x AS x FROM t GROUP BY x HAVING x < 0", "grouped.group_1 < 0"),  # unless the column is a group
        ("SELECT x, SUM(x) AS g FROM t GROUP BY x HAVING SUM(x) > 1 AND g > 2", "grouped.g > 1 AND grouped.g > 2"),
        ("SELECT COUNT(*) AS n FROM t HAVING MAX(x) IS NULL OR NOT BOOL_OR(f)", "grouped.measure_2 IS NULL"),
    ],
)
def test_names_in_having(text: str, demanded: str) -> None:
    query = bind(text, TABLES)
    written = rows(Project(query.input, "answer", query.outputs), {}).replace("`", "")
    assert "WHERE" in written
    assert all(part in written for part in demanded.split(" AND ")), written


def test_having_may_compare_now_and_ask_for_rows() -> None:
    query = bind(
        "SELECT g FROM t GROUP BY g HAVING MAX(at) < NOW() - INTERVAL 1 DAY "
        "AND EXISTS (SELECT 1 FROM u WHERE u.k = t.g) AND MIN(x) NOT IN (SELECT w FROM u)",
        TABLES,
    )
    demanded = condition(query.input)
    assert {type(part) for part in walk(demanded)} >= {NowFrom, Exists, NotExists}
    assert {ref.scan for ref in free_columns(demanded)} == {"grouped"}


@pytest.mark.parametrize(
    ("call", "measure", "type"),
    [
        ("COUNT(*)", "COUNT(*)", "BIGINT"),
        ("COUNT(1)", "COUNT(*)", "BIGINT"),
        ("COUNT(x, g)", "COUNT_IF((t.x IS NOT NULL) AND (t.g IS NOT NULL))", "BIGINT"),
        ("COUNT(DISTINCT x)", "COUNT(DISTINCT t.x)", "BIGINT"),
        ("COUNT_IF(f)", "COUNT_IF(t.f)", "BIGINT"),
        ("COUNT(*) FILTER (WHERE x > 1)", "COUNT_IF(t.x > 1)", "BIGINT"),
        ("SUM(x) FILTER (WHERE f)", "SUM(t.x) FILTER (WHERE t.f)", "BIGINT"),
        ("SUM(DISTINCT p)", "SUM(DISTINCT t.p)", "DECIMAL(20,2)"),
        ("SUM(d)", "SUM(t.d)", "DOUBLE"),
        ("MEAN(p)", "AVG(t.p)", "DOUBLE"),
        ("AVG(DISTINCT x)", "AVG(DISTINCT t.x)", "DOUBLE"),
        ("MIN(DISTINCT g)", "MIN(t.g)", "STRING"),
        ("MEDIAN(x)", "MEDIAN(t.x)", "DOUBLE"),
        ("EVERY(f)", "BOOL_AND(t.f)", "BOOLEAN"),
        ("ANY(x > 1)", "BOOL_OR(t.x > 1)", "BOOLEAN"),
        ("SOME(f) FILTER (WHERE x > 1)", "BOOL_OR(t.f) FILTER (WHERE t.x > 1)", "BOOLEAN"),
        ("MIN_BY(g, at)", "MIN_BY(t.g, t.at)", "STRING"),
        (
            "MAX_BY(p, x) FILTER (WHERE f)",
            "MAX_BY(t.p, t.x) FILTER (WHERE t.f)",
            "DECIMAL(10,2)",
        ),
        ("STD(x)", "STDDEV_SAMP(t.x)", "DOUBLE"),
        ("STDDEV_POP(DISTINCT d)", "STDDEV_POP(DISTINCT t.d)", "DOUBLE"),
        ("VARIANCE(p)", "VAR_SAMP(t.p)", "DOUBLE"),
        ("COLLECT_LIST(g)", "ARRAY_AGG(t.g)", "STRING"),
        ("ARRAY_AGG(DISTINCT g)", "COLLECT_SET(t.g)", "STRING"),
    ],
)
def test_aggregates_and_their_types(call: str, measure: str, type: str) -> None:
    text = f"SELECT {call} AS m FROM t"
    (found,) = grouped(text).measures
    assert measure_text(found).replace("`", "") == measure and columns(bind(text, TABLES)) == [f"m {type}"]


def test_a_count_of_several_columns_counts_their_structs() -> None:
    (found,) = grouped("SELECT COUNT(DISTINCT x, g) AS n FROM t").measures
    assert found.distinct and isinstance(found.argument, Case)
    assert measure_text(found).replace("`", "") == "COUNT(DISTINCT t.x, t.g)"
    assert str(found.argument.type) == "STRUCT<f1: INT, f2: STRING>"


def test_an_array_is_opened_where_its_parts_are_read() -> None:
    query = bind("SELECT SIZE(ARRAY_AGG(x)) AS n, ARRAY_JOIN(COLLECT_SET(g), ',') AS all FROM t", TABLES)
    assert columns(query) == ["n INT", "all STRING"]


def test_equal_aggregates_are_one() -> None:
    assert len(grouped("SELECT g, COUNT(*) AS n FROM t GROUP BY g HAVING COUNT(*) > 1 AND COUNT(1) < 9").measures) == 1


def test_the_columns_of_groups_have_the_names_of_the_items() -> None:
    found = grouped("SELECT g, COUNT(*) AS n FROM t GROUP BY g, b HAVING MAX(x) > 1")
    assert [output.name for output in found.groups] == ["g", "group_2"]
    assert [each.output.column for each in found.measures] == ["n", "measure_2"]


def test_group_by_without_aggregates_is_distinct() -> None:
    query = bind("SELECT UPPER(g) AS h FROM t GROUP BY h HAVING h > 'A'", TABLES)
    assert isinstance(query.input, Select) and isinstance(query.input.input, Distinct)


def test_a_constant_group_stays_a_constant() -> None:
    query = bind("SELECT 'all' AS k, COUNT(*) AS n FROM t GROUP BY k", TABLES)
    assert isinstance(query.outputs[0].value, Literal) and len(grouped_of(query)[0].groups) == 1


def grouped_of(query: Query) -> list[Grouped]:
    return [part for part in walk(query) if isinstance(part, Grouped)]


@pytest.mark.parametrize(
    ("by", "sets"),
    [
        ("ROLLUP (g, b)", ["g b", "g", "any_row"]),
        ("g, b WITH ROLLUP", ["g b", "g", "any_row"]),
        ("CUBE (g, b)", ["g b", "g", "b", "any_row"]),
        ("g, b WITH CUBE", ["g b", "g", "b", "any_row"]),
        ("GROUPING SETS ((g, b), b)", ["g b", "b"]),
        ("g, b GROUPING SETS ((g), (g, b))", ["g", "g b"]),
        ("g, ROLLUP (b)", ["g b", "g"]),
        ("ROLLUP (1, 2)", ["g b", "g", "any_row"]),
        ("ROLLUP ((g, b))", ["g b", "any_row"]),
        ("GROUPING SETS (ROLLUP (g), (b))", ["g", "any_row", "b"]),
        ("ROLLUP (g), ROLLUP (b)", ["g b", "g", "b", "any_row"]),
    ],
)
def test_grouping_sets(by: str, sets: list[str]) -> None:
    query = bind(f"SELECT g, b, COUNT(*) AS n FROM t GROUP BY {by}", TABLES)
    found = [" ".join(output.name for output in each.groups) for each in grouped_of(query)]
    assert found == sets
    assert isinstance(query.input, Union) and len({part.alias for part in grouped_of(query)}) == len(sets)


def test_marks_number_the_missing_groups() -> None:
    query = bind(
        "SELECT g, b, COUNT(*) AS n, GROUPING(b) AS m, GROUPING_ID(g, b) AS i, GROUPING_ID() AS j FROM t "
        "GROUP BY CUBE (g, b)",
        TABLES,
    )
    assert columns(query)[3:] == ["m TINYINT", "i BIGINT", "j BIGINT"]
    assert isinstance(query.input, Union)
    marks = []
    for part in query.input.inputs:
        assert isinstance(part, Project)
        marks.append([out.value.value for out in part.outputs[3:] if isinstance(out.value, Literal)])
    assert marks == [[0, 0], [1, 1], [0, 2], [1, 3]]  # the two spellings of all groups are one column


def test_one_grouping_set_is_no_union() -> None:
    query = bind("SELECT g, COUNT(*) AS n FROM t GROUP BY GROUPING SETS ((g, b)) HAVING GROUPING(g) = 0", TABLES)
    assert isinstance(query.input, Select) and isinstance(query.input.input, Project)


def test_an_aggregated_subquery_compares_its_groups_with_the_outer_row() -> None:
    query = bind(
        "SELECT x FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.g GROUP BY w HAVING COUNT(*) > 1)", TABLES
    )
    (body,) = (part.body for part in walk(query) if isinstance(part, Exists))
    (found,) = (part for part in walk(body) if isinstance(part, Grouped))
    assert [output.name for output in found.groups] == ["group_1", "key_1"] and not free_columns(found)
    assert free_columns(body) == {ColumnRef("t", "g", STRING)}


def test_an_aggregated_subquery_without_groups_has_a_row_without_partners() -> None:
    query = bind("SELECT x FROM t WHERE x IN (SELECT COUNT(*) FROM u WHERE u.k = t.g)", TABLES)
    (union,) = (part for part in walk(query) if isinstance(part, Union))
    some, none = union.inputs
    assert isinstance(some, Project) and isinstance(none, Project)
    assert [out.value for out in none.outputs] == [Literal(0, none.outputs[0].value.type, fixed=True)]
    assert isinstance(condition(none.input), NotExists) and isinstance(condition(some.input), Plain)
    aliases = [source.alias for part in walk(query) if isinstance(part, (Grouped, Union)) for source in (part,)]
    assert len(aliases) == len(set(aliases))


def test_aggregates_stand_in_derived_tables_joins_and_set_operations() -> None:
    query = bind(
        "WITH c AS (SELECT g, COUNT(*) AS n FROM t GROUP BY g) SELECT c.n, MAX(d.n) AS m FROM c "
        "JOIN (SELECT w, COUNT(*) AS n FROM u GROUP BY w UNION ALL SELECT x, 1 FROM t) AS d ON d.n = c.n GROUP BY c.n",
        TABLES,
    )
    assert len(grouped_of(query)) == 3
    (outer, *_) = grouped_of(query)
    assert isinstance(outer.input, Select) and isinstance(outer.input.input, Join) and len(sources(outer.input)) == 2
