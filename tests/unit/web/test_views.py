"""The periods of a tracked table are drawn, and its rows are shown as of an instant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from shown_pages import MARKUP, assert_safe, sent
from weft.api.arguments import micros
from weft.api.weft import Weft
from weft.instants import LAST_INSTANT
from weft.storage import periods as periods_module


@pytest.fixture
def tracked(weft: Weft, tmp_path: Path) -> Weft:
    """A home with a tracked table of two rows, one of which has ended, and a view over it."""
    staff = tmp_path / "staff.csv"
    staff.write_text('name,room\nanna,1\n"' + MARKUP.replace('"', '""') + '",2\n')
    weft.add_source("staff", "csv", staff, "name")
    weft.poll_source("staff", now="2026-03-01")
    staff.write_text("name,room\nanna,1\n")
    weft.poll_source("staff", now="2026-03-05")
    weft.add_view("rooms", "SELECT s.room FROM staff s")
    weft.refresh_views("rooms", now="2026-03-06")
    return weft


def test_rows_are_shown_as_of_an_instant(browser: TestClient, tracked: Weft) -> None:
    for instant, held in (("2026-03-02", 2), ("2026-03-05", 1), ("2026-02-01", 0)):
        shown = browser.get("/views/staff", params={"t": instant})
        assert shown.status_code == 200
        assert_safe(shown.text)
        assert f"<b>{held} row" in shown.text


@pytest.mark.parametrize(("instant", "place"), [("1990-01-01", "2026-03-01"), ("2030-01-01", "2026-03-05")])
def test_the_slider_stays_in_its_range(browser: TestClient, tracked: Weft, instant: str, place: str) -> None:
    shown = browser.get("/views/staff", params={"at": str(micros(instant) // 1_000_000)}).text
    (value,) = re.findall(r'type="range".* value="(\d+)"', shown)
    assert abs(int(value) - micros(place) // 1_000_000) <= 86_400
    assert f'held at <time datetime="{instant}T00:00:00Z">' in shown


def test_the_slider_reaches_its_last_place(browser: TestClient, weft: Weft, tmp_path: Path) -> None:
    """Its steps do not divide the seconds between the first and the last instant."""
    rows = tmp_path / "rooms.csv"
    rows.write_text("id\n1\n")
    weft.add_source("rooms", "csv", rows, "id")
    weft.poll_source("rooms", now="2026-03-01")
    rows.write_text("id\n1\n2\n")
    weft.poll_source("rooms", now="2026-03-01 00:10:13")
    shown = browser.get("/views/rooms").text
    (slider,) = re.findall(r'<input type="range"[^>]*>', shown)
    first, end, step, at = (int(re.findall(rf'{name}="(\d+)"', slider)[0]) for name in ("min", "max", "step", "value"))
    (to,) = map(int, re.findall(r'name="to" value="(\d+)"', shown))
    assert (end - first) % step == 0 and at == end and end - step < to < end, "the last place is one of the places"
    at_end = browser.get("/views/rooms", params={"at": end, "to": to}).text
    assert 'held at <time datetime="2026-03-01T00:10:13Z">' in at_end and "<b>2 rows</b>" in at_end
    assert f'value="{end}"' in at_end


def test_a_view_has_its_page_and_is_refreshed(browser: TestClient, tracked: Weft) -> None:
    listed = browser.get("/views").text
    assert_safe(listed)
    assert "/views/rooms" in listed
    assert "/views/staff" in listed
    shown = browser.get("/tables/rooms").text  # leads to the view
    assert_safe(shown)
    assert "<svg" in shown
    assert "Refresh now" in shown
    assert "rooms was refreshed at this instant already." in sent(browser, "/views/rooms", shown)
    tracked.tick(now="2026-03-10")
    assert re.search(
        r">Refreshed: view rooms at .* UTC: 0 periods changed, 0 gone.<", sent(browser, "/views/rooms", shown)
    )


def test_a_source_that_is_gone_is_shown(browser: TestClient, tracked: Weft, tmp_path: Path) -> None:
    (tmp_path / "staff.csv").unlink()
    shown = browser.get("/tables/staff").text
    assert_safe(shown)
    polled = sent(browser, "/tables/staff/poll", shown)
    assert "staff.csv" in polled
    assert "The last poll failed" in browser.get("/tables/staff").text


def test_many_periods_are_counted_but_not_read(browser: TestClient, weft: Weft, tmp_path: Path) -> None:
    """The slider spans all periods, although only the first are drawn."""
    rows = tmp_path / "many.csv"
    rows.write_text("id\n" + "".join(f"{n:03}\n" for n in range(200)))
    weft.add_source("many", "csv", rows, "id")
    weft.poll_source("many", now="2026-03-01")
    rows.write_text("id\n" + "".join(f"{n:03}\n" for n in range(150)))
    weft.poll_source("many", now="2026-03-05")
    for instant, held, shown in (("2026-03-02", 200, 60), ("2026-03-05", 150, 60)):
        page = browser.get("/views/many", params={"t": instant}).text
        assert f"<b>{held} rows</b>" in page and f"the first {shown} of them" in page
        assert "The first 60 of 200 periods" in page and page.count("<rect") == 60
        assert 'datetime="2026-03-01T00:00:00Z"' in page
        part = browser.get("/views/many", params={"t": instant}, headers={"HX-Request": "true"}).text
        assert f"<b>{held} rows</b>" in part and "<svg" not in part and part.startswith('<div id="held">')
        back = {"HX-Request": "true", "HX-History-Restore-Request": "true"}
        assert browser.get("/views/many", params={"t": instant}, headers=back).text == page
    bounds = weft.history("many", limit=1).bounds
    assert bounds is not None and bounds[1] is None and len(weft.history("many", limit=3).stretches) == 3


def test_an_instant_reads_only_its_rows(weft: Weft, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The periods of an instant are those of the whole history that contain it, from rows that begin up to it."""
    rows, read = tmp_path / "grown.csv", list[int]()
    for day in range(1, 9):
        rows.write_text("id,day\n" + "".join(f"{n},{day // (n + 1)}\n" for n in range(day)))
        if day == 1:
            weft.add_source("grown", "csv", rows, "id")
        weft.poll_source("grown", now=f"2026-03-0{day}")
    whole = weft.history("grown")
    real = periods_module.read_data_files
    monkeypatch.setattr(
        periods_module, "read_data_files", lambda *given: (found := real(*given), read.append(found.num_rows))[0]
    )
    for day in range(1, 10):
        instant = f"2026-03-0{day} 12:00"
        held = weft.history("grown", known=LAST_INSTANT, held_at=instant)
        at = micros(instant)
        expected = {each for each in whole.stretches if each.begin <= at and (each.end is None or each.end > at)}
        assert set(held.stretches) == expected
    assert read == sorted(read) and read[0] < read[-1]
