"""Render algebra as SQL text in Spark's dialect.

The generated text names only temporary views, never a path (design section 7).  The text of a user never reaches Spark,
because the generated text contains only elements of the algebra (section 8).

Names have backquotes if they are words of Spark's grammar or are not plain words.  Spark accepts some words of the
grammar as names, but only in some positions (``SELECT a except FROM t``) or with some settings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Final

from weft.algebra import relation as relational
from weft.algebra.access import Key
from weft.algebra.calendar import within_calendar
from weft.algebra.event import Event
from weft.algebra.scalar import (
    FIELD,
    MICROSECONDS,
    OF_MICROSECONDS,
    Call,
    Case,
    Cast,
    ColumnRef,
    Element,
    Literal,
    Now,
    Param,
    PeriodOf,
    Scalar,
    is_constant,
)
from weft.algebra.schema import BOOLEAN, DATE, INTERVAL, STRING, TIMESTAMP, Column, DataType, TableSchema
from weft.algebra.traverse import N, Node, free_columns, transform, walk
from weft.errors import DerivationError
from weft.instants import format_full, to_date
from weft.sql.rendering.join_order import join_order

ROUNDED: Final = "rounded"
"""A DOUBLE rounded to a BIGINT."""
_EPOCH: Final = "TIMESTAMP '1970-01-01 00:00:00+00:00'"
_FORMS: Final = {
    "try_cast": "TRY_CAST({} AS {})",
    OF_MICROSECONDS: f"(TIMESTAMP_MICROS({{}}) - {_EPOCH})",
    MICROSECONDS: f"UNIX_MICROS(TRY_ADD({_EPOCH}, {{}}))",
    ROUNDED: "CAST(ROUND({}) AS BIGINT)",
}
_INFIX: Final = frozenset(
    (
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "<=>",
        "+",
        "-",
        "*",
        "/",
        "%",
        "like",
        "ilike",
        "and",
        "or",
    )
)
ESCAPED_LIKE: Final = "like escape"
"""The name of a LIKE with an explicit escape character.

The backslash is Spark's default escape character.  Other engines have no default escape character.
"""
PART_OF: Final = "split at"
"""The name of the function that splits a text and returns the part with a given number (from 0), or NULL.  The
arguments are the text, the number, the pattern and the limit.
"""
ITEM: Final = "item of"
"""The name of the function that returns an element of an ARRAY by index (from 0), or a value of a MAP by key.

The result is NULL if the element or the key does not exist.
"""
STRUCT: Final = "named_struct"
"""The function that returns a STRUCT.  The arguments are a name and a value for each field."""
OF_ELEMENTS: Final = ("exists", "forall")
"""The functions with three arguments: an ARRAY, its ``Element``, and a condition on the element."""
_OF_PARTS: Final = (PART_OF, FIELD, ITEM, *OF_ELEMENTS)
_TRIED: Final = {"+": "TRY_ADD", "-": "TRY_SUBTRACT", "*": "TRY_MULTIPLY"}
_UNITS: Final = (
    (86_400_000_000, "DAY"),
    (3_600_000_000, "HOUR"),
    (60_000_000, "MINUTE"),
    (1_000_000, "SECOND"),
    (1, "MICROSECOND"),
)

_OF_CONDITIONS: Final[Mapping[str, str]] = {"min": "bool_and", "max": "bool_or"}
Views = Mapping[str, str]
"""A mapping from each range variable to the view that it reads."""


def literal(value: Literal) -> str:
    """Return the SQL of a constant.

    Characters in strings are escaped if Spark would otherwise read them as an escape sequence.
    """
    raw, type = value.value, value.type.name
    if raw is None:
        return "NULL"
    if isinstance(raw, str):
        escaped = raw.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"
    if isinstance(raw, bool):
        return "TRUE" if raw else "FALSE"
    if isinstance(raw, tuple):
        return ", ".join(literal(Literal(each, value.type.element or value.type)) for each in raw)
    if isinstance(raw, bytes):
        return f"X'{raw.hex()}'"
    if isinstance(raw, Decimal):
        return f"CAST('{raw}' AS {value.type})"
    if isinstance(raw, float):
        return f"CAST('{raw!r}' AS {value.type})"
    if type == "TIMESTAMP":
        return timestamp(raw)
    if type == "DATE":
        return f"DATE '{to_date(raw).isoformat()}'"
    if type == "INTERVAL":
        return interval(raw)
    if type == "MONTHS":
        return f"INTERVAL '{raw}' MONTH"
    return str(raw) if raw >= 0 else f"({raw})"


def timestamp(micros: int) -> str:
    """Return TIMESTAMP '…' in UTC with microseconds.

    An instant outside the years 1 to 9999 becomes the first or the last instant of these years.
    """
    return f"TIMESTAMP '{format_full(micros)}+00:00'"


def interval(micros: int, step: int | None = None) -> str:
    """Return an INTERVAL constant in the largest unit that divides ``step``, such as INTERVAL '28' DAY.

    ``step`` divides the length. By default it is the length.
    """
    for length, unit in _UNITS:
        if (micros if step is None else step) % length == 0:
            return f"INTERVAL '{micros // length}' {unit}"
    raise DerivationError(f"not a number of microseconds: {micros}")


def scalar(value: Scalar) -> str:
    """Return the SQL of a scalar expression."""
    match value:
        case ColumnRef(scan=scan, column=column):
            return f"{quoted(scan)}.{quoted(column)}"
        case Literal():
            return literal(value)
        case Param(name=label):
            return f":{label}"
        case Now():
            return "NOW()"
        case PeriodOf(scan=scan):
            return quoted(scan)
        case Element(name=label):
            return quoted(label)
        case Cast(arg=arg, type=type) if arg.type == DATE and type == TIMESTAMP and not within_calendar(arg):
            days = f"TRY_MULTIPLY(INTERVAL '1' DAY, UNIX_DATE({scalar(arg)}))"
            return f"TRY_ADD({_EPOCH}, {days})"
        case Cast(arg=arg, type=type):
            return f"CAST({scalar(arg)} AS {spelled(type)})"
        case Case(branches=branches, default=default):
            whens = " ".join(f"WHEN {scalar(test)} THEN {scalar(then)}" for test, then in branches)
            return f"CASE {whens}{f' ELSE {scalar(default)}' if default is not None else ''} END"
        case Call():
            return _call(value)


def key(value: Key, relation: str = "") -> str:
    """Return the SQL of the key of a look-up.  If ``relation`` is given, its name qualifies the column."""
    text = f"{quoted(relation)}.{quoted(value.column)}" if relation else quoted(value.column)
    if value.shape is None:
        return text
    of = f"FROM_JSON({text}, {literal(Literal(str(value.shape), STRING))})"
    return ".".join((of, *map(quoted, value.fields)))


def spelled(type: DataType) -> str:
    """Return Spark's name for a type."""
    return "INTERVAL DAY TO SECOND" if type.name == "INTERVAL" else str(type)


def _call(value: Call) -> str:
    args = value.args
    if _tried(value):
        return f"{_TRIED[value.name]}({', '.join(scalar(arg) for arg in args)})"
    if (operator := _operator(value)) is not None:
        return f" {operator} ".join(_operand(arg) for arg in args)
    if value.name in ("is null", "is not null"):
        return f"{_operand(args[0])} {value.name.upper()}"
    if value.name == "not":
        return f"NOT {_operand(args[0])}"
    if value.name == "negative":  # - before a number would make another constant, of another type
        return f"-({scalar(args[0])})" if isinstance(args[0], Literal) else f"-{_operand(args[0])}"
    if value.name == ESCAPED_LIKE:
        return f"{_operand(args[0])} LIKE {_operand(args[1])} ESCAPE '\\\\'"
    if value.name in _FORMS:
        return _FORMS[value.name].format(scalar(args[0]), spelled(value.type))
    if value.name == "timestampdiff":  # its unit is a keyword
        return f"TIMESTAMPDIFF({', '.join((str(_constant(args[0])), *map(scalar, args[1:])))})"
    if value.name in _OF_PARTS:
        return _of_parts(value.name, args)
    if value.name == "in" and args[1].type.name == "ARRAY" and not isinstance(args[1], Literal):
        return f"ARRAY_CONTAINS({scalar(args[1])}, {scalar(args[0])})"
    if value.name == "in":
        return f"{_operand(args[0])} IN ({', '.join(scalar(arg) for arg in args[1:])})"
    return f"{value.name.upper()}({', '.join(scalar(arg) for arg in args)})"


def _operator(value: Call) -> str | None:
    """Return the operator of a call.  CONCAT of DuckDB skips NULLs, and ``||`` of texts is NULL in both engines."""
    if value.name == "concat" and all(arg.type == STRING for arg in value.args):
        return "||"
    return value.name.upper() if value.name in _INFIX else None


def _of_parts(function: str, args: tuple[Scalar, ...]) -> str:
    of, *others = args
    if function == PART_OF:
        place, *how = others
        return f"SPLIT({', '.join(map(scalar, (of, *how)))})[{scalar(place)}]"
    if function == FIELD:
        return f"{_operand(of)}.{quoted(str(_constant(others[0])))}"
    if function == ITEM:
        return f"{_operand(of)}[{scalar(others[0])}]"
    element, test = others
    return f"{function.upper()}({scalar(of)}, {scalar(element)} -> {scalar(test)})"


def _constant(value: Scalar) -> object:
    assert isinstance(value, Literal)
    return value.value


def _tried(value: Call) -> bool:
    """Return whether time arithmetic can overflow for some row.  The overflow must then give NULL, not an error."""
    if value.name == "*":
        return value.type == INTERVAL and not is_constant(value)
    timely = value.name in _TRIED and any(arg.type in (INTERVAL, TIMESTAMP) for arg in value.args)
    return timely and not is_constant(value) and not all(within_calendar(arg) for arg in value.args)


def _operand(value: Scalar) -> str:
    text = scalar(value)
    compound = (
        isinstance(value, Call)
        and not _tried(value)
        and (
            _operator(value) is not None
            or value.name in ("not", "in", "is null", "is not null", "negative", ESCAPED_LIKE)  # -- is a comment
        )
    )
    return f"({text})" if compound or isinstance(value, Case) else text


def predicate(value: relational.Predicate, views: Views, depth: int = 1) -> str:
    """Return the SQL of a predicate.  A threshold of NOW becomes a comparison."""
    match value:
        case relational.Plain(condition=test):
            return scalar(test)
        case relational.NowFrom(threshold=threshold):
            return f"NOW() >= {_operand(threshold)}"
        case relational.NowBefore(threshold=threshold):
            return f"NOW() < {_operand(threshold)}"
        case relational.Turns(comparison=comparison):
            return scalar(comparison)
        case relational.And(items=items):
            return " AND ".join(_nested(item, views, depth) for item in items) if value != relational.TRUE else "TRUE"
        case relational.Or(items=items):
            return " OR ".join(_nested(item, views, depth) for item in items) if value != relational.FALSE else "FALSE"
        case relational.Exists(body=body):
            return f"EXISTS ({select('1', body, views, depth + 1)})"
        case relational.NotExists(body=body):
            return f"NOT EXISTS ({select('1', body, views, depth + 1)})"


def _nested(item: relational.Predicate, views: Views, depth: int) -> str:
    text = predicate(item, views, depth)
    compound = isinstance(item, (relational.And, relational.Or)) or (
        isinstance(item, relational.Plain) and _loose(item.condition)
    )
    return f"({text})" if compound else text


def _loose(test: Scalar) -> bool:
    return isinstance(test, Call) and test.name in ("or", "and", "not")


def select(items: str, body: relational.Relation, views: Views, depth: int = 1) -> str:
    """Return SELECT items FROM … WHERE …, with one clause per line."""
    indent = "\n" + "  " * depth
    demanded = relational.condition(body)
    ordered = join_order(relational.sources(body), demanded)
    arrays_last = sorted(ordered, key=lambda source: isinstance(source, relational.Unnest))
    tables = ", ".join(_beside(source, arrays_last, views, depth) for source in arrays_last)
    text = f"SELECT {items}{indent}FROM {tables}"
    if demanded != relational.TRUE:
        parts = relational.conjuncts(demanded)
        text += f"{indent}WHERE " + f"{indent}  AND ".join(_nested(item, views, depth + 1) for item in parts)
    return text


def _beside(source: relational.Source, others: Sequence[relational.Source], views: Views, depth: int) -> str:
    """Return a source of FROM, after LATERAL if it is a derived table that refers to the other sources."""
    text = _source(source, views, depth)
    if isinstance(source, (relational.Scan, relational.Values, relational.Unnest)) or len(others) == 1:
        return text
    known = {relational.attributes(other)[0].scan for other in others if other is not source}
    return f"LATERAL {text}" if any(ref.scan in known for ref in free_columns(source)) else text


def rows(relation: relational.Relation, views: Views, depth: int = 1) -> str:
    """Return the SQL of a relation: one SELECT, or several SELECTs combined by UNION ALL."""
    match relation:
        case relational.Project(input=inner, outputs=outputs):
            return select(", ".join(map(item, outputs)), inner, views, depth)
        case relational.Distinct(input=relational.Project(input=inner, outputs=outputs)):
            return select(f"DISTINCT {', '.join(map(item, outputs))}", inner, views, depth)
        case relational.Values(columns=columns, rows=value_rows):
            # The first row names the columns.  A SELECT for each row would nest as deep as the number of rows.
            first = ", ".join(
                item(relational.Output(head.name, value)) for head, value in zip(columns, value_rows[0], strict=True)
            )
            others = ", ".join(f"({', '.join(map(scalar, row))})" for row in value_rows[1:])
            return f"SELECT {first}" + (f" UNION ALL VALUES {others}" if others else "")
        case relational.Union(inputs=inputs):
            return _united("UNION ALL", inputs, views, depth)
        case relational.Distinct(input=relational.Union(inputs=inputs)):
            return _united("UNION", inputs, views, depth)
        case relational.Distinct(input=inner):
            return select("DISTINCT *", inner, views, depth)
        case relational.Grouped() | relational.Recursive():
            return (
                _grouped(relation, views, depth)
                if isinstance(relation, relational.Grouped)
                else _recursive(relation, views, depth)
            )
        case relational.Windowed(input=inner, outputs=outputs):
            heads = (*map(item, outputs), *(_window_item(each, relation) for each in relation.functions))
            return select(", ".join(heads), inner, views, depth)
        case relational.Materialized(input=inner):
            return rows(inner, views, depth)
        case relational.Unnest():
            raise DerivationError("an array is read only beside other tables")
        case relational.Scan() | relational.Join() | relational.Select() | relational.Recurrence():
            return select(", ".join(scalar(ref) for ref in relational.attributes(relation)), relation, views, depth)


def _recursive(relation: relational.Recursive, views: Views, depth: int) -> str:
    name, indent = quoted(relation.name), "\n" + "  " * depth
    heads = ", ".join(quoted(ref.column) for ref in relational.attributes(relation))
    word = "UNION ALL" if relation.duplicates else "UNION"
    parts = _united(word, (relation.seed, relation.step), views, depth + 1)
    return f"WITH RECURSIVE {name}({heads}) AS ({indent}{parts}){indent}SELECT * FROM {name}"


def _grouped(relation: relational.Grouped, views: Views, depth: int) -> str:
    measures = (f"{measure_text(each)} AS {quoted(each.output.column)}" for each in relation.measures)
    by = [scalar(output.value) for output in relation.groups if not isinstance(output.value, Literal)]
    if relation.window is not None:
        by.append(f"MOVING_WINDOW({scalar(relation.window)})")
    text = select(", ".join((*map(item, relation.groups), *measures)), relation.input, views, depth)
    indent = "\n" + "  " * depth
    if by:
        return f"{text}{indent}GROUP BY {', '.join(by)}"
    return f"{text}{indent}HAVING COUNT(*) > 0" if relation.groups else text  # a number would be a place in the list


def measure_text(measure: relational.Measure, shown: Callable[[Scalar], str] = scalar) -> str:
    """Return an aggregate as a text spells it, such as ``COUNT(*)``, ``BOOL_OR(f)`` or ``SUM(x) FILTER (WHERE f)``.

    ``shown`` returns the text of a scalar.
    """
    argument, by, conditions = measure.argument, measure.by, list[Scalar]()
    while isinstance(argument, Case) and len(argument.branches) == 1 and argument.default is None:
        ((condition, argument),) = argument.branches
        by = by.branches[0][1] if isinstance(by, Case) else by
        if not _is_struct(argument):
            conditions.append(condition)
    counted = measure.function == "count" and isinstance(argument, Literal) and argument.fixed
    if counted and len(conditions) == 1:
        return f"COUNT_IF({shown(conditions[0])})"
    name: str = measure.function
    if argument is not None and argument.type == BOOLEAN and name in _OF_CONDITIONS:
        name = _OF_CONDITIONS[name]
    parts = argument.args[1::2] if isinstance(argument, Call) and _is_struct(argument) else (argument, by)
    listed = ", ".join(shown(part) for part in parts if part is not None) or "*"
    where = f" FILTER (WHERE {' AND '.join(map(shown, conditions))})" if conditions else ""
    return f"{name.upper()}({'DISTINCT ' if measure.distinct else ''}{listed}){where}"


def _is_struct(value: Scalar) -> bool:
    return isinstance(value, Call) and value.name == "named_struct"


def _window_item(function: relational.WindowFunction, windowed: relational.Windowed) -> str:
    counted = function.function == "count" and not function.args
    called = f"{function.function.upper()}({'*' if counted else ', '.join(map(scalar, function.args))})"
    over = []
    if windowed.partition:
        over.append(f"PARTITION BY {', '.join(map(scalar, windowed.partition))}")
    if function.order:
        over.append(f"ORDER BY {', '.join(map(_sorted, function.order))}")
    if function.frame is not None:
        over.append(frame_text(function))
    return f"{called} OVER ({' '.join(over)}) AS {quoted(function.output.column)}"


def _sorted(key: relational.SortKey) -> str:
    direction = " DESC" if key.descending else ""
    usual = key.nulls_first != key.descending
    return f"{scalar(key.value)}{direction}{'' if usual else ' NULLS FIRST' if key.nulls_first else ' NULLS LAST'}"


def frame_text(function: relational.WindowFunction) -> str:
    """Return the SQL of a function's frame, such as ``ROWS BETWEEN 2 PRECEDING AND CURRENT ROW``."""
    frame = function.frame
    assert frame is not None
    timely = frame.unit == "range" and bool(function.order) and function.order[0].value.type == TIMESTAMP
    # Spark requires that both bounds have one unit.
    step = math.gcd(frame.start or 0, frame.end or 0) if timely else None
    bounds = (_bound(frame.start, "PRECEDING", step), _bound(frame.end, "FOLLOWING", step))
    return f"{frame.unit.upper()} BETWEEN {bounds[0]} AND {bounds[1]}"


def _bound(offset: int | None, unbounded: str, step: int | None) -> str:
    if offset is None:
        return f"UNBOUNDED {unbounded}"
    if offset == 0:
        return "CURRENT ROW"
    size = str(abs(offset)) if step is None else interval(abs(offset), step)
    return f"{size} {'PRECEDING' if offset < 0 else 'FOLLOWING'}"


def _united(operator: str, parts: tuple[relational.Relation, ...], views: Views, depth: int) -> str:
    """A nested set operation becomes a derived table, so that the precedence of the operators does not matter."""
    several = (relational.Union, relational.Values)
    texts = []
    for part in parts:
        inner = part.input if isinstance(part, relational.Distinct) else part
        texts.append(select("*", part, views, depth) if isinstance(inner, several) else rows(part, views, depth))
    return f"\n{'  ' * (depth - 1)}{operator} ".join(texts)


def item(output: relational.Output) -> str:
    """Return the SQL of an output column.  AS is omitted if the output is a column with the same name."""
    value = output.value
    named = isinstance(value, ColumnRef) and value.column == output.name
    return scalar(value) if named else f"{scalar(value)} AS {quoted(output.name)}"


def _source(source: relational.Source, views: Views, depth: int) -> str:
    match source:
        case relational.Scan(table=table, alias=alias):
            view = quoted(views.get(alias, table.name))
            if source.whole and alias not in views:
                return f"{view} FOR SYSTEM_TIME ALL AS {quoted(alias)}"
            return view if view == quoted(alias) else f"{view} AS {quoted(alias)}"
        case relational.Recurrence(name=name, alias=alias):
            return quoted(name) if name == alias else f"{quoted(name)} AS {quoted(alias)}"
        case relational.Unnest():
            return _unnested(source)
        case _:
            alias = relational.attributes(source)[0].scan
            return f"({rows(source, views, depth + 1)}) AS {quoted(alias)}"


def _unnested(source: relational.Unnest) -> str:
    function = ("POSEXPLODE" if source.positions else "EXPLODE") + ("_OUTER" if source.outer else "")
    names = ", ".join(quoted(column.name) for column in source.columns)
    if source.value.type.name == "ARRAY" and len(source.columns) == 2 and not source.positions:
        function = "INLINE"  # the columns are the fields of the elements
    return f"LATERAL {function}({scalar(source.value)}) AS {quoted(source.alias)}({names})"


def branch_sql(event: Event, views: Mapping[str, str], leading: tuple[relational.Output, ...] = ()) -> str:
    """Return the SQL of a branch.  The SQL selects ``leading``, the outputs, and the instant (as ``_first_at``).

    ``views`` maps each range variable to the view that it reads.
    """
    items = [item(output) for output in (*leading, *event.outputs)]
    items.append(f"{scalar(event.instant)} AS _first_at")
    return select(", ".join(items), event.block, views)


def query_sql(query: relational.Query) -> str:
    """Return the SQL of the normalized query, including NOW().

    The relations that a tick computes once are named in a WITH clause: their copies would double the text each time.
    """
    once: dict[relational.Project, None] = {}
    _add_materialized(query, once)
    if not once:
        return _query_sql(query)
    named = (f"{quoted(each.alias)} AS (\n  {rows(_by_name(each), {})}\n)" for each in once)
    return f"WITH {', '.join(named)}\n{_query_sql(_by_name(query))}"


def _add_materialized(node: Node, found: dict[relational.Project, None]) -> None:
    """Add the relations that a tick computes once, each after those that it reads."""
    for part in walk(node):
        if isinstance(part, relational.Materialized) and part.input not in found:
            _add_materialized(part.input, found)
            found[part.input] = None


def _by_name(node: N) -> N:
    """Replace each relation that a tick computes once by its name in WITH."""

    def change(part: Node) -> Node:
        if not isinstance(part, relational.Materialized):
            return part
        columns = (Column(n, ref.column, ref.type) for n, ref in enumerate(relational.attributes(part), 1))
        return relational.Scan(TableSchema(0, part.input.alias, tuple(columns)), part.alias)

    return transform(node, change)


def _query_sql(query: relational.Query) -> str:
    plain = tuple(relational.Output(ref.column, ref) for ref in relational.attributes(query.input))
    if query.outputs == plain and not isinstance(query.input, (relational.Scan, relational.Join, relational.Select)):
        return rows(query.input, {})
    return select(f"DISTINCT {', '.join(item(output) for output in query.outputs)}", query.input, {})


_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)


def quoted(name: str) -> str:
    """Return an identifier as it must appear in a query, in backquotes if necessary.

    >>> quoted("msgs"), quoted("except"), quoted("x y")
    ('msgs', '`except`', '`x y`')
    """
    if _PLAIN.fullmatch(name) and name.upper() not in KEYWORDS:
        return name
    return "`" + name.replace("`", "``") + "`"


_WORDS: Final = """
    ADD AFTER AGGREGATE ALL ALTER ALWAYS ANALYZE AND ANTI ANY ANY_VALUE ARCHIVE ARRAY AS ASC AT ATOMIC
    AUTHORIZATION BEGIN BETWEEN BIGINT BINARY BINDING BOOLEAN BOTH BUCKET BUCKETS BY BYTE CACHE CALL CALLED
    CASCADE CASE CAST CATALOG CATALOGS CHANGE CHAR CHARACTER CHECK CLEAR CLUSTER CLUSTERED CODEGEN COLLATE
    COLLATION COLLECTION COLUMN COLUMNS COMMENT COMMIT COMPACT COMPACTIONS COMPENSATION COMPUTE CONCATENATE
    CONDITION CONSTRAINT CONTAINS CONTINUE COST CREATE CROSS CUBE CURRENT CURRENT_DATE CURRENT_TIME
    CURRENT_TIMESTAMP CURRENT_USER DATA DATABASE DATABASES DATE DATEADD DATEDIFF DATE_ADD DATE_DIFF DAY DAYOFYEAR
    DAYS DBPROPERTIES DEC DECIMAL DECLARE DEFAULT DEFINED DEFINER DELAY DELETE DELIMITED DESC DESCRIBE
    DETERMINISTIC DFS DIRECTORIES DIRECTORY DISTINCT DISTRIBUTE DIV DO DOUBLE DROP ELSE ELSEIF END ENFORCED ESCAPE
    ESCAPED EVOLUTION EXCEPT EXCHANGE EXCLUDE EXECUTE EXISTS EXIT EXPLAIN EXPORT EXTEND EXTENDED EXTERNAL EXTRACT
    FALSE FETCH FIELDS FILEFORMAT FILTER FIRST FLOAT FLOW FOLLOWING FOR FOREIGN FORMAT FORMATTED FOUND FROM FULL
    FUNCTION FUNCTIONS GENERATED GEOGRAPHY GEOMETRY GLOBAL GRANT GROUP GROUPING HANDLER HAVING HOUR HOURS
    IDENTIFIER IDENTITY IF IGNORE ILIKE IMMEDIATE IMPORT IN INCLUDE INCREMENT INDEX INDEXES INNER INPATH INPUT
    INPUTFORMAT INSERT INT INTEGER INTERSECT INTERVAL INTO INVOKER IS ITEMS ITERATE JOIN JSON KEY KEYS LANGUAGE
    LAST LATERAL LAZY LEADING LEAVE LEFT LEVEL LIKE LIMIT LINES LIST LOAD LOCAL LOCATION LOCK LOCKS LOGICAL LONG
    LOOP MACRO MAP MATCHED MATERIALIZED MAX MERGE MICROSECOND MICROSECONDS MILLISECOND MILLISECONDS MINUS MINUTE
    MINUTES MODIFIES MONTH MONTHS MSCK NAME NAMESPACE NAMESPACES NANOSECOND NANOSECONDS NATURAL NO NONE NORELY NOT
    NULL NULLS NUMERIC OF OFFSET ON ONLY OPTION OPTIONS OR ORDER OUT OUTER OUTPUTFORMAT OVER OVERLAPS OVERLAY
    OVERWRITE PARTITION PARTITIONED PARTITIONS PERCENT PIVOT PLACING POSITION PRECEDING PRIMARY PRINCIPALS
    PROCEDURE PROCEDURES PROPERTIES PURGE QUARTER QUERY RANGE READS REAL RECORDREADER RECORDWRITER RECOVER
    RECURSION RECURSIVE REDUCE REFERENCES REFRESH REGEXP RELY RENAME REPAIR REPEAT REPEATABLE REPLACE RESET
    RESPECT RESTRICT RETURN RETURNS REVOKE RIGHT RLIKE ROLE ROLES ROLLBACK ROLLUP ROW ROWS SCHEMA SCHEMAS SECOND
    SECONDS SECURITY SELECT SEMI SEPARATED SERDE SERDEPROPERTIES SESSION_USER SET SETS SHORT SHOW SINGLE SKEWED
    SMALLINT SOME SORT SORTED SOURCE SPECIFIC SQL SQLEXCEPTION SQLSTATE START STATISTICS STORED STRATIFY STREAM
    STREAMING STRING STRUCT SUBSTR SUBSTRING SYNC SYSTEM_TIME SYSTEM_VERSION TABLE TABLES TABLESAMPLE TARGET
    TBLPROPERTIES TEMP TEMPORARY TERMINATED THEN TIME TIMEDIFF TIMESTAMP TIMESTAMPADD TIMESTAMPDIFF TIMESTAMP_LTZ
    TIMESTAMP_NTZ TINYINT TO TOUCH TRAILING TRANSACTION TRANSACTIONS TRANSFORM TRIM TRUE TRUNCATE TRY_CAST TYPE
    UNARCHIVE UNBOUNDED UNCACHE UNION UNIQUE UNKNOWN UNLOCK UNPIVOT UNSET UNTIL UPDATE USE USER USING VALUE VALUES
    VAR VARCHAR VARIABLE VARIANT VERSION VIEW VIEWS VOID WATERMARK WEEK WEEKS WHEN WHERE WHILE WINDOW WITH WITHIN
    WITHOUT X YEAR YEARS ZONE
"""
KEYWORDS: Final = frozenset(_WORDS.split())
"""The words of Spark 4.1's grammar.  The set contains ``sql_keywords()`` and four words with two spellings (RLIKE and
REGEXP, TEMPORARY and TEMP).
"""
