"""The tables: their columns and samples, their loads and quarantine, their sources, and the upload of files."""

from __future__ import annotations

from codecs import getincrementaldecoder
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from starlette.datastructures import UploadFile
from starlette.responses import Response
from starlette.routing import Route

from weft.api.weft import Weft
from weft.catalog.records import TableRecord
from weft.catalog.sources import SourceRecord
from weft.errors import ExtractionError, NotAllowed, NotFound, Refused, StorageError, WeftError
from weft.extraction.files.given_files import Uploaded
from weft.printable import counted
from weft.sql.rendering.render import quoted
from weft.web.jobs import Go, Job, Outcome, Shown
from weft.web.paging import page_of
from weft.web.uploads import Upload
from weft.web.visits import Visit, page

_SAMPLES: Final = 5
_TABLES: Final = 50
_LISTED: Final = 20
_EXCERPT: Final = 400
"""How many bytes of a record the list of the quarantine shows."""
_BRIEF: Final = 1 << 20
"""The size of the largest record whose content the list shows.  A record is read whole, to check its SHA-256."""
_WHOLE: Final = 200_000
"""How many bytes of a record its own page shows."""
_OPTIONS: Final = ("table", "ts_from", "keys", "evolve")
"""The fields of the form for a file."""


def listed(visit: Visit) -> Response:
    """Show the tables with their sizes, and what is in quarantine."""
    text, after = visit.asked("q"), visit.asked("after") or None
    found = visit.weft.table_page(text=text or None, after=after, limit=_TABLES + 1)
    tables, more = page_of(visit, found, _TABLES, lambda last: last.name)
    return visit.show(
        "tables.html",
        tables=tables,
        more=more,
        text=text,
        may_load=_loads_somewhere(visit),
        quarantined=visit.weft.quarantine_counts([each.table_id for each in tables]),
        sources=_sources(visit, tables),
    )


def _question(table: TableRecord) -> str:
    """Return a first query over a table, with all columns except Weft's own."""
    names = [each.name for each in table.schema.columns if not each.name.startswith("_")]
    return f"SELECT {', '.join(f't.{quoted(each)}' for each in names)} FROM {quoted(table.name)} t"


def show(visit: Visit) -> Response:
    """Show a table: its columns, some rows, its source, its loads and its quarantine."""
    weft = visit.weft
    table = weft.table(visit.part("name"))
    if table.is_view:
        return visit.go(f"/views/{table.name}")
    samples, trouble = _samples(weft, table.name)
    found = weft.loads(table.name, _LISTED + 1, before=visit.number("before"))
    loads, older = page_of(visit, found, _LISTED, lambda last: last.load.load_id, "before")
    return visit.show(
        "table.html",
        question=_question(table),
        table=table,
        samples=samples,
        trouble=trouble,
        source=_sources(visit, [table]).get(table.table_id),
        loads=loads,
        older=older,
        **_quarantined(visit, table),
    )


def _quarantined(visit: Visit, table: TableRecord) -> dict[str, object]:
    """Who may not load rows does not see the records that could not be read."""
    try:
        rejected = visit.weft.quarantine_page(table.name, limit=_SAMPLES)
    except NotAllowed:
        return {"rejected": (), "quarantined": 0, "may_load": False}
    count = visit.weft.quarantine_counts([table.table_id]).get(table.table_id, 0)
    return {"rejected": rejected, "quarantined": count, "may_load": True}


def _sources(visit: Visit, tables: Iterable[TableRecord]) -> Mapping[int, SourceRecord]:
    """Sources are for administrators."""
    return visit.weft.sources_of([each.table_id for each in tables]) if visit.is_admin else {}


def _samples(weft: Weft, name: str) -> tuple[Sequence[object], WeftError | None]:
    """A table whose files are damaged has a page, too."""
    try:
        return weft.describe(name, _SAMPLES).samples, None
    except WeftError as error:
        return (), error


def act(visit: Visit) -> Response:
    """Poll the source of a table."""
    table, weft = visit.weft.table(visit.part("name")), visit.weft

    def work(job: Job) -> Outcome:
        polled = weft.poll_feed(table.name, progress=job.counted("records"))
        weft.keep_views()
        return Go(f"/tables/{table.name}", "Polled: " + "; ".join(each._brief() for each in polled))

    return visit.work(f"poll the source of {table.name}", work)


def undo(visit: Visit) -> Response:
    """Undo a load."""
    load_id, table, weft = visit.key("load_id"), visit.weft.table(visit.part("name")), visit.weft

    def work(job: Job) -> Outcome:
        done = weft.undo_load(load_id)
        return Go(f"/tables/{table.name}", f"Load {load_id} is undone: {counted(done.load.rows, 'row')} are gone.")

    return visit.work(f"undo load {load_id} of {table.name}", work, back=f"/tables/{table.name}")


def quarantine(visit: Visit) -> Response:
    """Show the records of a table that could not be read, with the reasons."""
    table = visit.weft.table(visit.part("name"))
    found = visit.weft.quarantine_page(table.name, after=visit.number("after") or 0, limit=_LISTED + 1)
    records, more = page_of(visit, found, _LISTED, lambda last: last.quarantine_id)
    shown = [(each, _content(visit, each.quarantine_id, _EXCERPT) if each.size <= _BRIEF else "") for each in records]
    return visit.show("quarantine.html", table=table, records=shown, more=more, brief=_BRIEF)


def _content(visit: Visit, record: int, longest: int) -> str | None:
    """Return the beginning of a record as text, or None if its bytes are damaged."""
    try:
        raw = visit.weft.quarantined_bytes(record, longest)
    except StorageError:
        return None
    # A character that the end cuts is left out.
    return getincrementaldecoder("utf-8")("backslashreplace").decode(raw, final=len(raw) < longest)


def record(visit: Visit) -> Response:
    """Show a record of the quarantine whole, or a file with its bytes."""
    table, key = visit.weft.table(visit.part("name")), visit.key("record")
    found = next(iter(visit.weft.quarantine_page(table.name, after=key - 1, limit=1)), None)
    if found is None or found.quarantine_id != key:
        raise NotFound(f"the quarantine of {table.name} has no record {key}", hint="It may have been read again.")
    if visit.asked("file"):
        # Nothing in the record makes a browser run it.
        headers = {"content-disposition": f'attachment; filename="record-{key}"', "x-content-type-options": "nosniff"}
        return Response(visit.weft.quarantined_bytes(key), 200, headers, "application/octet-stream")
    content = _content(visit, key, _WHOLE)
    return visit.show("quarantine_record.html", table=table, record=found, content=content, whole=found.size <= _WHOLE)


def retry(visit: Visit) -> Response:
    """Read records of the quarantine again: one, or all of the table."""
    table, weft = visit.weft.table(visit.part("name")), visit.weft
    one = visit.whole("record") if visit.given("record") else None

    def work(job: Job) -> Outcome:
        every = weft.quarantine_page(table.name, limit=1_000_000) if one is None else ()
        ids = [each.quarantine_id for each in every] if one is None else [one]
        return Go(f"/tables/{table.name}/quarantine", f"Read again: {weft.retry_quarantine(ids)._brief()}.")

    return visit.work(f"read records of {table.name} again", work, back=f"/tables/{table.name}/quarantine")


def upload(visit: Visit) -> Response:
    """Show the form for a file."""
    given = {**dict.fromkeys(_OPTIONS, ""), "table": visit.asked("table")}
    return visit.show("upload.html", preview=None, error=None, upload=None, given=given)


def _may_load(visit: Visit) -> None:
    visit.weft.require_load()


def _loads_somewhere(visit: Visit) -> bool:
    try:
        _may_load(visit)
    except NotAllowed:
        return False
    return True


def preview(visit: Visit) -> Response:
    """Take a file, or the file taken before with other options, and show the types that it would have."""
    sent, by, site = visit.form.get("file"), visit.person, visit.site
    if isinstance(sent, UploadFile) and sent.filename:
        kept = site.uploads.keep(by, sent.filename, sent.file)
    elif visit.given("upload"):
        kept = site.uploads.find(visit.given("upload"), by)
    else:
        raise Refused("no file was chosen", hint="Choose a CSV file, or a file with one JSON object a line.")
    given = {name: visit.given(name) for name in _OPTIONS}
    return visit.work(f"read {kept.name}", lambda job: _previewed(visit, kept, given), back="/tables/-/upload")


def _previewed(visit: Visit, upload: Upload, given: Mapping[str, str]) -> Outcome:
    """A file that is refused stays, so that other options may be tried."""
    found, error = None, None
    try:
        if not given["table"]:
            raise Refused("the table has no name", hint="Write the name of a new table, or of one that is there.")
        with Uploaded(upload.path, upload.name) as stream:
            found = visit.weft.preview_file(
                stream, given["table"], evolve=given["evolve"] == "on", ts_from=given["ts_from"] or None
            )
    except (Refused, ExtractionError) as refused:
        error = refused
    return Shown("upload.html", {"preview": found, "error": error, "upload": upload, "given": given})


def store(visit: Visit) -> Response:
    """Load the file whose types were shown."""
    kept, weft, site = visit.site.uploads.find(visit.given("upload"), visit.person), visit.weft, visit.site
    given = {name: visit.given(name) for name in _OPTIONS}

    def work(job: Job) -> Outcome:
        keys = [each.strip() for each in given["keys"].split(",") if each.strip()]
        how: dict[str, Any] = {"evolve": given["evolve"] == "on", "ts_from": given["ts_from"] or None}
        with Uploaded(kept.path, kept.name) as stream:
            done = weft.ingest_file(stream, given["table"], keys=keys or None, progress=job.counted("records"), **how)
        site.uploads.drop(kept)
        return Go(f"/tables/{done.table}", f"Loaded {kept.name}: {done._brief()}.")

    return visit.work(f"load {kept.name}", work, back="/tables/-/upload")


ROUTES: Final = (
    Route("/tables", page(listed)),
    Route("/tables/-/upload", page(upload, first=_may_load)),
    Route("/tables/-/upload", page(preview, first=_may_load), methods=["POST"]),
    Route("/tables/-/store", page(store), methods=["POST"]),
    Route("/tables/{name}", page(show)),
    Route("/tables/{name}/poll", page(act), methods=["POST"]),
    Route("/tables/{name}/loads/{load_id:key}/undo", page(undo), methods=["POST"]),
    Route("/tables/{name}/quarantine", page(quarantine)),
    Route("/tables/{name}/quarantine", page(retry), methods=["POST"]),
    Route("/tables/{name}/quarantine/{record:key}", page(record)),
)
