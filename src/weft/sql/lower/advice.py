"""List Weft's replacements for constructs and functions of other databases.

``refusal.refuse`` looks up the name of a construct if the caller passes no hint.  ``calls`` looks up functions.
The names of functions are in lower case.  Constructs have the same names as in error messages.
"""

from __future__ import annotations

import re
from typing import Final

TIMES: Final = frozenset(
    ("sysdate", "sysdatetime", "sysutcdatetime", "getutcdate", "utc_timestamp", "systimestamp", "clock_timestamp",
     "current_datetime", "statement_timestamp", "transaction_timestamp", "sysdatetimeoffset"),
)  # fmt: skip
"""The names that other databases use for NOW().  Some of these databases write the name without parentheses."""
_MINUS: Final = "Write NOW() - INTERVAL 1 DAY."
_DIFFERENCE: Final = "Write DATEDIFF(HOUR, start, end), or compare intervals: NOW() - ts > INTERVAL 24 HOURS."
_SECONDS: Final = (
    "Write NOW() - ts > INTERVAL 3600 SECONDS. For the seconds of a row's instant write UNIX_TIMESTAMP(ts)."
)
_FORMAT: Final = "Write DATE_FORMAT(ts, 'yyyy-MM-dd')."
_PLACE: Final = "Write INSTR(text, part)."
_CAST: Final = "Write CAST(value AS STRING), or TRY_CAST."
_JSON: Final = "Write GET_JSON_OBJECT(doc, '$.a[0]'); for a number, CAST(GET_JSON_OBJECT(doc, '$.a[0]') AS INT)."
_ELEMENTS: Final = (
    "Write ARRAY_CONTAINS(tags, 'x') or EXISTS(tags, t -> t = 'x'). Parse JSON text with FROM_JSON(doc, "
    "'ARRAY<STRING>')."
)
_PAIRS: Final = "Write FROM_JSON(doc, 'MAP<STRING, STRING>'), FROM_JSON(doc, 'a INT').a or SPLIT(text, ',')."
_CHOICE: Final = "Write CASE WHEN status = 'a' THEN 1 ELSE 0 END."
_EITHER: Final = "Write IF(condition, a, b)."
_MATCH: Final = "Write text RLIKE 'pattern'; begin the pattern with (?i) to ignore case."
_OWN_KEY: Final = "Use a key column of the rows. For a sample write HASH(id) % 10 = 0."
_COUNTED: Final = "Put a condition on an aggregate in HAVING; WHERE and ON apply to single rows."
_OVER: Final = "Write f(x) OVER (PARTITION BY customer ORDER BY ts)."
_NEWEST: Final = (
    "For the newest row of each group write SELECT … QUALIFY ROW_NUMBER() OVER (PARTITION BY customer ORDER BY ts "
    "DESC) = 1."
)
_LEAVE_OUT: Final = "Remove it."

ADVICE: Final[dict[str, str]] = {
    **dict.fromkeys(TIMES, "Write NOW(), which is in UTC."),
    **dict.fromkeys(("utc_date", "today", "current_day"), "Write CURRENT_DATE, the day of NOW() in UTC."),
    **dict.fromkeys(
        ("timestamp_sub", "timestamp_add", "datetime_sub", "datetime_add", "adddate", "subdate", "addtime", "subtime",
         "make_interval", "datetime", "make_dt_interval"),
        _MINUS,
    ),
    **dict.fromkeys(("timestamp_diff", "datetime_diff", "age", "timediff", "julianday"), _DIFFERENCE),
    **dict.fromkeys(("unixepoch", "to_unix_timestamp", "unix_seconds_now"), _SECONDS),
    **dict.fromkeys(("from_unixtime", "to_timestamp_ntz", "timestamp_seconds"), "Write CAST(seconds AS TIMESTAMP)."),
    **dict.fromkeys(("timestamp_millis", "timestamp_ms"), "Write TIMESTAMP_MICROS(millis * 1000)."),
    **dict.fromkeys(("to_char", "format", "strftime", "format_date", "format_timestamp", "time_format"), _FORMAT),
    **dict.fromkeys(("strptime", "parse_date", "str_to_date"), "Write TO_DATE(text, 'yyyy-MM-dd')."),
    **dict.fromkeys(("parse_timestamp", "try_to_timestamp"), "Write TO_TIMESTAMP(text, 'yyyy-MM-dd HH:mm:ss')."),
    **dict.fromkeys(
        ("trunc", "timestamp_trunc", "datetime_trunc", "time_bucket", "time_slice", "date_bin", "toStartOfDay".lower()),
        "Write DATE_TRUNC('DAY', ts), or CAST(ts AS DATE) for the day.",
    ),
    **dict.fromkeys(("dayname", "monthname"), "Write DATE_FORMAT(ts, 'EEEE') or DATE_FORMAT(ts, 'MMMM')."),
    **dict.fromkeys(("isodow", "day_of_week"), "Write WEEKDAY(ts) + 1; EXTRACT(DOW FROM ts) is 1 on Sunday."),
    "bround": "Write ROUND(value, digits), which rounds halves away from zero.",
    "format_number": "Write CAST(ROUND(value, digits) AS STRING).",
    **dict.fromkeys(("date_part", "datepart", "datename"), "Write EXTRACT(HOUR FROM ts), or HOUR(ts)."),
    "eomonth": "Write LAST_DAY(ts).",
    **dict.fromkeys(("charindex", "strpos", "position", "patindex"), _PLACE),
    **dict.fromkeys(("len", "datalength", "octet_length", "character_length"), "Write LENGTH(text)."),
    **dict.fromkeys(("mid",), "Write SUBSTRING(text, begin, length)."),
    **dict.fromkeys(("replicate",), "Write REPEAT(text, n)."),
    **dict.fromkeys(("stuff", "overlay"), "Write CONCAT of LEFT and SUBSTRING."),
    **dict.fromkeys(("iif", "iff"), _EITHER),
    **dict.fromkeys(("decode", "choose"), _CHOICE),
    **dict.fromkeys(("convert", "to_varchar", "to_number", "to_numeric", "str"), _CAST),
    **dict.fromkeys(("safe_cast", "try_convert", "try_parse"), "Write TRY_CAST(value AS INT)."),
    **dict.fromkeys(("safe_divide", "div0", "safediv"), "Write TRY_DIVIDE(a, b)."),
    **dict.fromkeys(("zeroifnull",), "Write COALESCE(value, 0)."),
    **dict.fromkeys(("nullifzero",), "Write NULLIF(value, 0)."),
    **dict.fromkeys(("regexp_matches", "regexp_contains", "regexp", "rlike"), _MATCH),
    **dict.fromkeys(("regexp_substr",), "Write REGEXP_EXTRACT(text, 'pattern', 0)."),
    **dict.fromkeys(
        ("json_extract", "json_value", "json_query", "json_extract_scalar", "json_extract_path_text", "parse_json"),
        _JSON,
    ),
    **dict.fromkeys(("json_contains", "array_has", "list_contains", "arrays_overlap", "filter", "transform"),
                    _ELEMENTS),
    **dict.fromkeys(("array_length", "list_length", "len_array"), "Write SIZE(array)."),
    **dict.fromkeys(("array", "map", "struct", "named_struct", "str_to_map", "string_to_array", "json_tuple"), _PAIRS),
    "array_to_string": "Write ARRAY_JOIN(array, ',').",
    "to_jsonb": "Write TO_JSON(value).",
    **dict.fromkeys(("unnest", "explode", "flatten", "posexplode", "string_split"),
                    "Write FROM t, LATERAL EXPLODE(t.tags) AS e(tag)."),
    "generate_series": "Load one row for each value into a table, and join with that table.",
    **dict.fromkeys(("row_number", "rank", "dense_rank", "first_value", "last_value", "nth_value", "lag", "lead"),
                    _OVER),
    **dict.fromkeys(("count", "sum", "avg", "mean", "min", "max", "array_agg", "collect_list", "collect_set"),
                    _COUNTED),
    **dict.fromkeys(("sort_array", "array_sort"),
                    "The elements of ARRAY_AGG(x) and COLLECT_SET(x) are in ascending order."),
    **dict.fromkeys(
        ("rand", "random", "randn", "uuid", "newid", "gen_random_uuid", "generate_uuid", "shuffle",
         "monotonically_increasing_id", "spark_partition_id", "input_file_name"),
        _OWN_KEY,
    ),
    **dict.fromkeys(
        ("user", "current_user", "session_user", "current_database", "current_schema", "current_catalog", "version"),
        "Write its value as a constant, such as 'anna'.",
    ),
    "date_add": "Write t + INTERVAL 1 DAY.",
    "date": "Write DATE(ts) for the day of an instant, CURRENT_DATE - INTERVAL 7 DAYS for a day before today.",
    "date_sub": "Write t - INTERVAL 1 DAY.",
    "unix_timestamp": _SECONDS,
    "session_window": (
        "For the last row of each session, require that no row follows in the gap: WHERE c.ts + INTERVAL 30 MINUTES "
        "<= NOW() AND NOT EXISTS (SELECT 1 FROM clicks n WHERE n.user = c.user AND n.ts > c.ts AND n.ts < c.ts + "
        "INTERVAL 30 MINUTES)."
    ),
    "isnull": "Write COALESCE(value, other), or ISNULL(value) to test for NULL.",
    "TOP": "Write ORDER BY … LIMIT 10 at the end of the query.",
    "ORDER BY": (
        "Remove this ORDER BY. ORDER BY at the end of a standing query sorts what `weft try` and `weft results` "
        "show."
    ),
    "DISTINCT ON": _NEWEST,
    "FILTER (WHERE …)": "Write one query per condition, with the condition in WHERE.",
    "OUTER JOIN": "Write LEFT, RIGHT or FULL JOIN.",
    "NOT IN with several columns": "Write NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y = a.y).",
    "WITHIN GROUP": "For the middle write MEDIAN(x), for a list of texts ARRAY_JOIN(ARRAY_AGG(x), ',').",
    "LATERAL": "Write FROM a, LATERAL (SELECT … WHERE b.k = a.k) AS d.",
    "IN without parentheses": _ELEMENTS,
    "EXCEPT in a list": "List the columns.",
    "->>": _JSON,
    "->": _JSON,
    "~": _MATCH,
    "~*": _MATCH,
    "SIMILAR TO": _MATCH,
    "[…]": "Quote a special name with backquotes: `order date`. For a part of a text write SPLIT(a, ',')[0]; "
    "for JSON text FROM_JSON(doc, 'ARRAY<INT>')[0].",
    "a parameter": "Write the value itself.",
    "a hint of a table": _LEAVE_OUT,
    "FOR UPDATE": _LEAVE_OUT,
    "TABLESAMPLE": "Select by a column of the rows, for example HASH(id) % 10 = 0.",
    "INTO": "Use `weft install NAME \"SELECT …\" --to file:PATH` to write the answers to a file.",
    "EXTRACT(EPOCH …)": _SECONDS,
    "INTERVAL as a type": "Write INTERVAL '1 day', or INTERVAL 1 DAY.",
    "a number of days beside a time": "Write ts - INTERVAL 1 DAY, or DATE_SUB(ts, 1) for the day.",
    "a text beside a time": "Write an interval, such as ts - INTERVAL 30 DAYS.",
    "+ of texts": "Write a || b, or CONCAT(a, b).",
    "SUBSTRING FROM": "Write SUBSTRING(text, begin, length).",
    "OVERLAY PLACING": "Write CONCAT of LEFT and SUBSTRING.",
    "a column after a colon": _JSON,
    "a type of another database": "Use STRING, INT, BIGINT, DOUBLE, DECIMAL(p, s), BOOLEAN, DATE or TIMESTAMP.",
}  # fmt: skip
"""The replacement for each construct or function, by name."""

_UNREADABLE: Final = (
    (r"\bSELECT\s+(?:DISTINCT\s+)?TOP\b", "TOP"),
    (r"\s~\*", "~*"),
    (r"\s!?~\s", "~"),
    (r"\bSUBSTRING\s*\([^()]*\bFROM\b", "SUBSTRING FROM"),
    (r"\bOVERLAY\s*\([^()]*\bPLACING\b", "OVERLAY PLACING"),
    (r"\b\w+:\w+\b(?!:)", "a column after a colon"),
    (r"\bAS\s+(?:UNSIGNED|SIGNED|MONEY|BIT|NVARCHAR|NUMBER|VARIANT|JSONB?)\b", "a type of another database"),
    (r"\bOUTER\s+APPLY\b|\bCROSS\s+APPLY\b", "LATERAL"),
)
"""Pairs (pattern, name in ``ADVICE``) for constructs that the parser rejects.  The patterns are applied to a text whose
string constants are empty.
"""
_STRING: Final = re.compile(r"'(?:[^'\\]|\\.|'')*'", re.DOTALL)


def advice(name: str) -> str | None:
    """Return Weft's replacement for the function or construct ``name``, or None if ``ADVICE`` has no entry."""
    return ADVICE.get(name) or ADVICE.get(name.lower())


def unreadable(text: str) -> tuple[str, str] | None:
    """Find a construct of another database in a text that the parser rejected.

    Return the name and the replacement of the construct, or None.

    >>> unreadable("SELECT TOP 3 x FROM t")[0]
    'TOP'
    """
    bare = _STRING.sub("''", text)
    for pattern, name in _UNREADABLE:
        if re.search(pattern, bare, re.IGNORECASE):
            return name, ADVICE[name]
    return None
