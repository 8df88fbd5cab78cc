"""Why a JVM ended, by its log; no JVM is started for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from weft.runtime.session import Jvm
from weft.runtime.watchdog import _sign

MEMORY, STACK = "OutOfMemoryError", "StackOverflowError"


@pytest.mark.parametrize(
    ("line", "sign"),
    [
        ("java.lang.OutOfMemoryError: Java heap space", MEMORY),
        ("Caused by: java.lang.OutOfMemoryError: GC overhead limit exceeded", MEMORY),
        ("Terminating due to java.lang.OutOfMemoryError: Java heap space", MEMORY),
        ('Exception in thread "Executor task" java.lang.StackOverflowError', STACK),
        ("\tSuppressed: java.lang.StackOverflowError", STACK),
        ("26/01/01 00:00:00 ERROR Parser: SELECT 'OutOfMemoryError' FROM t", None),
        ("26/01/01 00:00:00 ERROR Parser: SELECT 'java.lang.OutOfMemoryError' FROM t", None),
        ("java.lang.OutOfMemoryErrors", None),
    ],
)
def test_an_error_counts_only_where_java_reports_it(tmp_path: Path, line: str, sign: str | None) -> None:
    log = tmp_path / "spark.log"
    log.write_text(f"java.lang.OutOfMemoryError: of an earlier query\n{line}\n")
    absent: Any = None
    assert _sign(Jvm(absent, log, absent, "1g"), len(log.read_text().splitlines()[0]) + 1) == sign
