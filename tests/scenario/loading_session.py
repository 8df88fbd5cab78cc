"""Load files from S3 into a new home, by the executors of the cluster that the environment names, if it names one.

    python loading_session.py HOME URI

The process prints one line of JSON: the counts, who read the files, the rows, and the rejected records.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

from weft.api import Weft
from weft.execution.engines import choosing
from weft.extraction.files import cutting
from weft.runtime.session import stop_session
from weft.storage.columns import stored_schema
from weft.storage.table import Table


def main(home: Path, uri: str) -> None:
    """Load, and print what is there."""
    choosing.BOUNDS = replace(choosing.BOUNDS, loaded=0)  # type: ignore[misc]
    cutting.BLOCK = 4_000  # type: ignore[misc]
    with Weft.open(home, create=True) as weft:
        done = weft.ingest_file(uri, "t", ts_from="at")
        table = weft.catalog.tables.named("t")
        schema = stored_schema(table.schema)
        stored = Table(weft.catalog.data / table.path).scan(schema)
        rows = sorted(str(row) for batch in stored for row in batch.to_pylist())
        kept = sorted((one.source, one.position, one.reason) for one in weft.catalog.quarantine.all())
        by = [note for note in done.notes if note.startswith("This load ran on Spark")]
        counts = [done.stored, done.quarantined, done.late]
        print(json.dumps({"by": len(by), "counts": counts, "rows": rows, "quarantine": kept}), flush=True)
    stop_session()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
