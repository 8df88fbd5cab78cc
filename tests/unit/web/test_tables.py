"""Files are loaded after a look at their types, and loads, quarantine and sources have their buttons."""

from __future__ import annotations

import io

import pytest
from starlette.testclient import TestClient

from shown_pages import MARKUP, assert_safe, field, sent
from weft.api.weft import Weft
from weft.errors import NotFound
from weft.web.uploads import Uploads


@pytest.fixture(autouse=True)
def _clock(weft: Weft) -> None:
    """Set the replay clock, because rows without a time of their own take its instant."""
    weft.tick(now="2026-03-01")


CSV = b"id,who,at\n1,zo\xc3\xab,2026-03-01\nx,ben,2026-03-02\n"


def _send(browser: TestClient, name: str, content: bytes, **fields: str) -> str:
    form = browser.get("/tables/-/upload").text
    return sent(browser, "/tables/-/upload", form, files={"file": (name, content)}, **fields)


def _store(browser: TestClient, shown: str, **fields: str) -> str:
    return sent(browser, "/tables/-/store", shown, upload=field(shown, "upload"), **fields)


def test_one_person_keeps_few_large_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("weft.web.uploads._BYTES_OF_ONE", 10)
    uploads = Uploads(lambda: 0)
    kept = [uploads.keep(by, "x.csv", io.BytesIO(b"12345678")) for by in ("a", "b", "a")]
    assert uploads.find(kept[1].token, "b").path.exists()
    assert uploads.find(kept[2].token, "a").path.read_bytes() == b"12345678"
    with pytest.raises(NotFound):
        uploads.find(kept[0].token, "a")
    assert len(list(kept[2].path.parent.iterdir())) == 2
    uploads.close()


def test_a_file_that_is_received_is_not_replaced_meanwhile() -> None:
    uploads = Uploads(lambda: 0)

    class Slow(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            part = super().read(size)
            if not part:
                for _ in range(4):
                    uploads.keep("a", "y.csv", io.BytesIO(b"1"))
            return part

    kept = uploads.keep("a", "x.csv", Slow(b"12345678"))
    assert uploads.find(kept.token, "a").path.read_bytes() == b"12345678"
    assert len(list(kept.path.parent.iterdir())) == 4
    uploads.close()


def test_types_are_shown_before_a_file_is_stored(browser: TestClient, weft: Weft) -> None:
    shown = _send(browser, MARKUP, b'{"id": 1, "who": "zo\xc3\xab"}\n{"id": 2, "who": "ben"}\n', table="people")
    assert "INT" in shown
    assert "STRING" in shown
    assert "zoë" in shown
    assert weft.tables() == ()
    stored = _store(browser, shown, table="people")
    assert "2 stored" in stored
    assert weft.table("people").rows == 2
    [load] = weft.loads("people")
    assert load.load.source == MARKUP.rpartition("/")[2].replace('"', "%22")


def test_other_choices_keep_the_file(browser: TestClient, weft: Weft) -> None:
    refused = _send(browser, "people.csv", CSV, table="no table")
    assert "is not a valid name" in refused
    again = sent(browser, "/tables/-/upload", refused, upload=field(refused, "upload"), table="people", ts_from="at")
    assert "zoë" in again
    assert weft.tables() == ()


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.parquet", b"PAR1 not the rest of a file", "cannot be read: rows.parquet"),
        ("rows.parquet", b"id,who\n1,zoe\n", "cannot be read: rows.parquet"),
        ("rows.json", b'[{"id": 1}, {"id": 2}]', "the file is a JSON array"),
        ("rows.json", b'\xef\xbb\xbf[\n  {"id": 1},\n  {"id": 2}\n]\n', "the file is a JSON array"),
        ("rows.csv", b'[{"id": 1}, {"id": 2}]', "the file is a JSON array"),
        ("rows.txt", b'[\n  {"id": "a"}\n]\n', "the file is a JSON array"),
        ("rows", '[\n  {"id": 1},\n  {"id": 2}\n]\n'.encode("utf-16"), "the file is a JSON array"),
        ("rows.jsonl", b"id,who\n1,zoe\n", "the file has no columns"),
        ("rows.csv", b"", "the file has no header line"),
    ],
)
def test_a_file_that_cannot_be_read_stays_in_the_form(
    browser: TestClient, weft: Weft, name: str, content: bytes, words: str
) -> None:
    form = {"csrf": field(browser.get("/tables/-/upload").text), "table": "people"}
    response = browser.post("/tables/-/upload", data=form, files={"file": (name, content)})
    assert response.status_code == 200
    assert words in response.text
    assert f"{name} is here" in response.text
    assert weft.tables() == ()


def test_a_first_field_may_begin_as_an_array_does(browser: TestClient, weft: Weft) -> None:
    for content in (b'[{"a": 1}],b\n1,2\n', b"[{id,who\n1,zoe\n"):
        assert "JSON array" not in _send(browser, "rows.csv", content, table="people", names="fit")


def test_each_name_of_a_table_has_a_page(browser: TestClient, weft: Weft) -> None:
    for name in ("upload", "store", "new", "poll"):
        weft.make_table(name, "id INT")
        assert f"<h1>{name}</h1>" in browser.get(f"/tables/{name}").text


def test_notes_keep_the_name_of_the_file_and_name_no_options_of_commands(browser: TestClient, weft: Weft) -> None:
    shown = _send(browser, "leute.csv", "id,nächste Nummer\n1,zoë\n".encode("cp1252"), table="people")
    assert '<p class="soft">leute.csv is not UTF-8; it was read as cp1252</p>' in shown
    assert "columns got valid SQL names" in shown
    assert "to change this" not in shown


def test_notes_and_hints_name_the_fields_of_the_form(browser: TestClient, weft: Weft) -> None:
    _send(browser, "one.jsonl", b'{"id":1,"who":{"name":"a"}}\n', table="t", do="store")
    shown = _send(browser, "one.jsonl", b'{"id":1,"who":{"name":"a"}}\n', table="t")
    _store(browser, shown, table="t")
    shown = _send(browser, "two.jsonl", b'{"id":2,"who":{"name":"b","age":3}}\n', table="t")
    assert "(to change this, choose “Add new columns of the file to the table”)" in shown
    shown = _send(browser, "three.jsonl", b'{"id":2,"more":1}\n', table="t")
    assert "Add the choice “Add new columns of the file to the table”" in shown
    assert "--evolve" not in shown


def test_a_record_that_cannot_be_read_is_shown_and_goes_to_quarantine(browser: TestClient, weft: Weft) -> None:
    weft.make_table("people", "id INT, who STRING, at DATE")
    shown = _send(browser, "people.csv", CSV, table="people")
    assert "Some records cannot be read" in shown
    _store(browser, shown, table="people")
    assert weft.table("people").rows == 1
    listed = browser.get("/tables/people/quarantine").text
    assert_safe(listed)
    assert "people.csv" in listed
    assert "x,ben,2026-03-02" in listed, "the content is shown"
    done = sent(browser, "/tables/people/quarantine", listed, do="retry")
    assert "1 still in quarantine" in done


def test_the_content_of_a_record_is_shown(browser: TestClient, weft: Weft) -> None:
    """The list shows its beginning, its page shows it whole, and a file has its bytes."""
    weft.make_table("people", "id INT, note STRING")
    bad = f"x,{MARKUP.replace(',', ' ')} \u202e{'y' * 3_000} end".encode() + b"\xff"
    weft.ingest_file(io.BytesIO(b"id,note\n1,good\n" + bad + b"\n"), "people")
    (record,) = weft.quarantined()
    whole = weft.quarantined_bytes(record.quarantine_id)
    listed = browser.get("/tables/people/quarantine").text
    assert_safe(listed)
    assert "x,&lt;" in listed and "yyy" in listed and " end" not in listed
    path = f"/tables/people/quarantine/{record.quarantine_id}"
    assert f'href="{path}"' in listed
    shown = browser.get(path).text
    assert_safe(shown)
    assert " end" in shown and "\u202e" not in shown
    saved = browser.get(path, params={"file": 1})
    assert saved.content == whole and saved.headers["content-disposition"].startswith("attachment")
    assert saved.headers["content-type"] == "application/octet-stream"
    for other in ("/tables/people/quarantine/99", f"/tables/none/quarantine/{record.quarantine_id}"):
        assert browser.get(other).status_code == 404


def test_the_list_does_not_read_large_records(browser: TestClient, weft: Weft) -> None:
    weft.make_table("people", "id INT")
    weft.ingest_file(io.BytesIO(b"id\n" + b"x" * (1 << 20) + b"\n"), "people")
    (record,) = weft.quarantined()
    assert record.size > 1 << 20
    listed = browser.get("/tables/people/quarantine").text
    assert "too large for this list" in listed and "xxxx" not in listed
    shown = browser.get(f"/tables/people/quarantine/{record.quarantine_id}").text
    assert "xxxx" in shown and "The beginning. The file has the rest." in shown


def test_a_character_at_the_end_of_an_excerpt_is_whole(browser: TestClient, weft: Weft) -> None:
    weft.make_table("people", "id INT")
    weft.ingest_file(io.BytesIO(b"id\n" + "\u20ac".encode() * 150 + b"\n"), "people")  # 3 bytes each
    listed = browser.get("/tables/people/quarantine").text
    assert "\u20ac" * 133 in listed and "\\xe2" not in listed


def test_a_damaged_record_of_the_quarantine_is_named(browser: TestClient, weft: Weft) -> None:
    weft.make_table("people", "id INT")
    weft.ingest_file(io.BytesIO(b"id\nno number\n"), "people")
    (record,) = weft.quarantined()
    (weft.home / "quarantine" / record.sha256).write_bytes(b"other")
    assert "The content is damaged" in browser.get("/tables/people/quarantine").text
    shown = browser.get(f"/tables/people/quarantine/{record.quarantine_id}").text
    assert "missing or damaged" in shown and "other" not in shown


def test_a_load_is_undone(browser: TestClient, weft: Weft) -> None:
    shown = _send(browser, "people.csv", CSV, table="people")
    stored = _store(browser, shown, table="people")
    undone = sent(browser, "/tables/people/loads/1/undo", stored)
    assert "is undone" in undone
    assert weft.table("people").rows == 0
    assert "undone" in browser.get("/tables/people").text


def test_a_file_is_stored_once_and_by_its_sender_only(browser: TestClient, weft: Weft) -> None:
    shown = _send(browser, "people.csv", CSV, table="people")
    _store(browser, shown, table="people")
    assert "no longer here" in _store(browser, shown, table="people")
    assert "no file was chosen" in sent(browser, "/tables/-/upload", shown, table="people")


def test_a_large_form_is_refused(browser: TestClient) -> None:
    large = {"csrf": field(browser.get("/tables/-/upload").text), "channel": "x" * (5 << 20)}
    assert browser.post("/queries/1", data=large).status_code in (400, 413)
