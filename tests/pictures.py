"""Make the pictures of the page that the documentation shows (``make pictures``), with Spark and chromium."""

from __future__ import annotations

import datetime as dt
import os
from pathlib import Path
from tempfile import TemporaryDirectory

from real_browser import Served, chromium, served
from weft.api.weft import Weft

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "images"
WINDOW = {"width": 1180, "height": 700}
TELEPHONE = {"width": 380, "height": 700}
CUSTOMERS = ("Ahlberg", "Brandt", "Costa", "Duarte", "Eriksen", "Fischer")
UNPAID = """SELECT o.id, o.customer, o.total FROM orders o
WHERE o.ts < NOW() - INTERVAL 7 DAYS
  AND NOT EXISTS (SELECT * FROM payments p WHERE p.order_id = o.id)"""
LARGE = "SELECT o.id, o.customer, o.total FROM orders o WHERE o.total > 800"
TWICE = """SELECT a.id, b.id AS again, a.customer FROM orders a, orders b
WHERE a.customer = b.customer AND a.total = b.total AND a.id < b.id"""


def fill(weft: Weft) -> None:
    """Make a home in which orders arrive for three weeks.  Some are paid, some twice."""
    weft.make_table("orders", "id INT, customer STRING, total DOUBLE", keys=["id"])
    weft.make_table("payments", "order_id INT, amount DOUBLE")
    begin = dt.datetime(2026, 3, 2, 9, tzinfo=dt.timezone.utc)
    orders = [
        {
            "id": 1000 + n,
            "customer": CUSTOMERS[n * 5 % 6],
            "total": float(120 + n * 37 % 900) if n % 9 else 240.0,
            "ts": begin + dt.timedelta(hours=11 * n),
        }
        for n in range(44)
    ]
    paid = [
        {"order_id": each["id"], "amount": each["total"], "ts": each["ts"] + dt.timedelta(days=2)}  # type: ignore[operator]
        for each in orders
        if int(str(each["id"])) % 5
    ]
    weft.append("orders", orders, ts_from="ts")
    weft.append("payments", paid, ts_from="ts")
    for name in ("orders", "payments"):
        weft.accounts.grant("anna", "read", name)
    for name, sql in (("unpaid", UNPAID), ("large-orders", LARGE), ("ordered-twice", TWICE)):
        weft.install(name, sql, user="anna")
    for day in range(3, 24):
        weft.tick(now=f"2026-03-{day:02}")


def take(site: Served) -> None:
    """Take the pictures as an author sees the pages."""
    key = site.weft.show("unpaid").query.query_id
    page = site.signed_in("anna", viewport=WINDOW, color_scheme="light")
    page.goto(f"/queries/{key}/answers/2")
    page.get_by_role("button", name="Find why").click()
    page.get_by_text("Because").first.wait_for(timeout=120_000)
    page.screenshot(path=PICTURES / "answer.png")
    page.goto("/")
    page.screenshot(path=PICTURES / "inbox.png")
    telephone = site.signed_in("anna", viewport=TELEPHONE, color_scheme="dark")
    telephone.goto(f"/queries/{key}")
    telephone.screenshot(path=PICTURES / "telephone.png")


def main() -> None:
    """Write the pictures to the folder of the documentation."""
    os.environ["LOGNAME"] = "anna"  # who writes the rows
    with (
        TemporaryDirectory() as folder,
        chromium() as browser,
        Weft.open(Path(folder, "home"), create=True, clock="replay") as weft,
        served(weft, browser) as site,
    ):
        site.add("anna", "author")
        fill(weft)
        take(site)


if __name__ == "__main__":
    main()
