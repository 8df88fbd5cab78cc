"""Tables that people append to, on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from weft.api.weft import Weft

Command = Callable[..., Any]


def test_rows_are_appended_or_the_line_is_refused(home: Path, weft: Command) -> None:
    assert weft("table", "create", "votes", "msgid STRING, score INT", "--key", "msgid").code == 0
    assert "1 stored" in weft("append", "votes", "msgid=a=b", "score=1", "--user", "ann").out
    for words, told in (
        (("votes",), "no rows to append"),
        (("votes", "score"), "not COL=VALUE"),
        (("votes", "score=1", "score=2"), "given twice"),
        (("votes", "-f", "missing.jsonl"), "cannot be read"),
        (("votes", "score=1", "-f", "x"), "twice"),
    ):
        refused = weft("append", *words)
        assert (refused.code, told in refused.err) == (2, True), words
    with Weft.open(home) as opened:
        table = opened.catalog.tables.named("votes")
    rows = DeltaTable(str(home / table.path)).to_pyarrow_table().select(["msgid", "score", "_by"]).to_pylist()
    assert rows == [{"msgid": "a=b", "score": 1, "_by": "ann"}]
