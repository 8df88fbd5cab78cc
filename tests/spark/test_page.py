"""What the page does with Spark: the causes of an answer, and what another text would deliver."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession
from starlette.testclient import TestClient

from shown_pages import MARKUP, assert_safe, field, sent
from weft.api.weft import Weft
from weft.web.app import application
from weft.web.site import Site


def test_causes_and_another_text(spark: SparkSession, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, clock="replay") as weft, TestClient(application(Site(weft))) as page:
        page.get(f"/open/{page.app.state.site.key}")  # type: ignore[attr-defined]
        weft.make_table("orders", "id INT, customer STRING")
        weft.tick(now="2026-03-01")
        weft.append("orders", [{"id": 1, "customer": MARKUP}, {"id": 2, "customer": "ben"}])
        weft.install("late", "SELECT o.id, o.customer FROM orders o WHERE o.id < 2 AND o.ts < NOW() - INTERVAL 1 DAY")
        weft.tick(now="2026-03-05")
        answer = page.get("/queries/1/answers/1").text
        assert_safe(answer)
        why = sent(page, "/queries/1/answers/1", answer)
        assert "Because " in why
        assert '</b> <a href="/tables/orders">orders</a>' in why
        change = page.get("/queries/1/change").text
        later = "SELECT o.id, o.customer FROM orders o WHERE o.ts < NOW() - INTERVAL 1 DAY"
        preview = sent(page, "/queries/1/change", change, do="preview", sql=later)
        assert "<b>1 answer</b> would be new" in preview
        assert weft.show("late").replaced == ()
        refused = sent(page, "/queries/1/change", change, do="preview", sql="SELECT o.nothing FROM orders o")
        assert "o.nothing" in refused
        since = field(preview, "text_since")
        replaced = sent(page, "/queries/1/change", preview, do="replace", sql=later, text_since=since)
        assert "The query has its new text" in replaced
        assert len(weft.show("late").replaced) == 1
        plan = page.get("/queries/1/plan").text
        assert_safe(plan)
        assert "rows of the table" in plan
        assert "Time alone can make answers appear." in plan
        assert_safe(page.get("/queries/1").text)
