"""A regular expression that Weft accepts is valid in Java and has the same number of groups."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from sqlglot import exp

from weft.errors import SqlError
from weft.sql.lower.patterns import check_pattern, check_replacement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PIECES = [
    *"ab0-]}|.^$*+?{,(&[)=!<>: #é",
    *("(", ")", ")", "(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?<n>", "(?<m>", "(?i)", "(?im:", "(?x)", "(?P<n>"),
    *(
        "[a-z]",
        "[^a]",
        "[\\w-]",
        "[a-",
        "[z-a]",
        "[]a]",
        "[a&&b]",
        "[[a]]",
        "[a\\]]",
        "[-a]",
        "[a-]",
        "[\\d-z]",
        "[ -~]",
    ),
    *("{2}", "{2,}", "{1,3}", "{3,1}", "{,3}", "{x}", "{2000}", "*?", "++", "?+", "**"),
    *("\\d", "\\D", "\\b", "\\A", "\\z", "\\Z", "\\h", "\\R", "\\x41", "\\u0041", "\\x4", "\\p{L}", "\\pL", "\\p{Q}"),
    *("\\1", "\\2", "\\Q", "\\E", "\\k<n>", "\\0", "\\q", "\\.", "\\\\", "\\-", "\\", "\\t", "\\_", "\\ "),
]
PUT_IN = [*"ab$\\", "$0", "$1", "$2", "$9", "$12", "${n}", "\\$", "\\\\", "\\a"]
WRITTEN = ["\\d+", "^[^@]+@[^@]+$", "(?i)re: ?(.*)", "(a|b)*c", "[\\w.]+", "", "|", "()", "(?<y>[0-9]{4})-(\\d\\d)"]


def test_every_pattern_that_is_taken_compiles(spark: SparkSession) -> None:
    java, chance, node = spark.sparkContext._jvm.java.util.regex, random.Random(1), exp.Literal.string("")  # type: ignore[union-attr]
    taken = refused = replaced = 0
    for number in range(4_000):
        drawn = number >= len(WRITTEN)
        text = "".join(chance.choices(PIECES, k=chance.randint(1, 6))) if drawn else WRITTEN[number]
        try:
            groups = check_pattern(text, node)
        except SqlError:
            assert drawn, text
            refused += 1
            continue
        taken += 1
        matcher = java.Pattern.compile(text).matcher("")  # raises if the pattern is invalid
        assert matcher.groupCount() == groups, text
        put_in = "".join(chance.choices(PUT_IN, k=chance.randint(1, 3)))
        try:
            check_replacement(put_in, groups, node)
        except SqlError:
            continue
        replaced += 1
        java.Pattern.compile("()" * groups).matcher("x").replaceAll(put_in)
    assert taken > 700
    assert refused > 700
    assert replaced > 200
