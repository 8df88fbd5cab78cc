"""The buttons of a query do what the commands do, and only from forms of the page."""

from __future__ import annotations

import re
import threading
from html import unescape

import pytest
from starlette.testclient import TestClient

from shown_pages import assert_safe, field, sent
from weft.api.arguments import own_user
from weft.api.weft import Weft
from weft.errors import CatalogError, Conflict, NotFound
from weft.interruption import report_progress, stop_here
from weft.web import jobs as jobs_module
from weft.web.jobs import Go, Job, Jobs, Outcome, Value


def press(browser: TestClient, path: str, **fields: str) -> str:
    """Send a form of the page ``path``, and return the page that follows."""
    return sent(browser, path, browser.get(path).text, **fields)


def test_a_query_is_paused_and_resumed(browser: TestClient, filled: Weft) -> None:
    assert "all-orders is paused" in press(browser, "/queries/1", do="pause")
    assert filled.query(1).state == "paused"
    assert "ticks omit it" not in browser.get("/queries/1").text  # the notice is shown once
    press(browser, "/queries/1", do="resume")
    assert filled.query(1).state == "active"


def test_channels_are_added_muted_and_ended(browser: TestClient, filled: Weft) -> None:
    press(browser, "/queries/1", do="subscribe", channel="file:new.jsonl")
    assert [each.channel for each in filled.show("all-orders").subscriptions] == ["file:new.jsonl"]
    press(browser, "/queries/1", do="mute", channel="file:new.jsonl")
    assert filled.show("all-orders").subscriptions[0].muted
    press(browser, "/queries/1", do="unmute", channel="file:new.jsonl")
    assert not filled.show("all-orders").subscriptions[0].muted
    press(browser, "/queries/1", do="unsubscribe", channel="file:new.jsonl")
    assert filled.show("all-orders").subscriptions == ()


def test_a_refusal_has_a_hint(browser: TestClient, filled: Weft) -> None:
    assert "is not a channel" in press(browser, "/queries/1", do="subscribe", channel="carrier-pigeon:home")
    assert "has no such button" in press(browser, "/queries/1", do="explode")
    since = field(browser.get("/queries/1/change").text, "text_since")
    change = {"do": "replace", "text_since": since, "sql": "SELECT 1 AS a"}
    assert "maintained as a synopsis" in press(browser, "/queries/1/change", **change)


def test_a_text_that_somebody_else_has_installed_is_not_overwritten(browser: TestClient, filled: Weft) -> None:
    filled.install("late", "SELECT o.id FROM orders o WHERE o.id > 1", user="ben")
    shown = browser.get("/queries/3/change").text
    change = {
        "do": "replace",
        "text_since": field(shown, "text_since"),
        "sql": "SELECT o.id FROM orders o WHERE o.id > 2",
    }
    filled.install("late", "SELECT o.id FROM orders o WHERE o.id > 3", replace=True)
    refused = sent(browser, "/queries/3/change", shown, **change)
    assert "was replaced in the meantime" in refused
    [again] = re.findall(r'<a href="([^"]+)">Open the form again', refused)
    form = browser.get(unescape(again)).text
    assert "Somebody has replaced the text" in form and field(form, "text_since") == change["text_since"]
    assert filled.query(3).sql.endswith("3")
    assert "is not a number" in sent(browser, "/queries/3/change", shown, do="replace", sql=change["sql"])
    assert "has its new text" in press(
        browser,
        "/queries/3/change",
        **{**change, "text_since": field(browser.get("/queries/3/change").text, "text_since")},
    )
    assert filled.query(3).sql.endswith("2")


def test_a_hint_names_the_controls_of_the_page(browser: TestClient, filled: Weft) -> None:
    filled.subscribe("all-orders", "file:new.jsonl")
    filled.mute("all-orders")
    shown = press(browser, "/queries/1", do="mute", channel="file:new.jsonl")
    assert "is already muted" in shown and "See the page “Deliveries”." in shown
    shown = press(browser, "/queries/1", do="resume")
    assert "is already active" in shown and "See its page." in shown
    assert "`weft" not in shown


def test_a_removed_query_is_gone(browser: TestClient, filled: Weft) -> None:
    assert "all-orders is removed" in press(browser, "/queries/1", do="remove")
    assert browser.get("/queries/1").status_code == 404
    assert browser.get("/queries/1/answers").status_code == 404


def test_brief_jobs_do_not_wait_for_long_ones(weft: Weft) -> None:
    jobs, over = Jobs(weft.clock, weft.home / "logs"), threading.Event()

    def long(job: Job) -> Outcome:
        over.wait(20)
        return Go("/")

    for person in ("a", "b"):
        for _ in range(4):
            jobs.start("long", person, "/", long)
        with pytest.raises(Conflict, match="4 of your jobs"):
            jobs.start("long", person, "/", long)
    waits = jobs.start("long", "c", "/", long)
    assert jobs.start("brief", "a", "/", lambda _: Go("/"), brief=True).wait(20)
    assert not waits.is_over
    over.set()
    jobs.close()
    assert waits.state == "done"


def test_a_job_ends_although_the_clock_fails(weft: Weft) -> None:
    """The clock of a catalog on a server fails with it."""
    times = iter([1_000_000])

    def clock() -> int:
        for each in times:
            return each
        raise CatalogError("the catalog is gone")

    jobs = Jobs(clock, weft.home / "logs")
    job = jobs.start("a job", "a", "/", lambda _: Go("/"))
    assert job.wait(10) and job.state == "done"
    assert job.ended is not None and 1_000_000 <= job.ended < 11_000_000
    jobs.close()


def test_a_form_from_elsewhere_changes_nothing(browser: TestClient, filled: Weft) -> None:
    form = browser.get("/queries/1")
    token = field(form.text)
    foreign = (
        browser.post("/queries/1", data={"do": "pause"}),
        browser.post("/queries/1", data={"do": "pause", "csrf": "0" * 64}),
        browser.post("/queries/1", data={"do": "pause", "csrf": "ä"}),
        browser.post("/queries/1", data={"do": "pause", "csrf": token}, headers={"origin": "http://evil.example"}),
        browser.post("/queries/1", data={"do": "pause", "csrf": token}, headers={"origin": "null"}),
        browser.post("/queries/1", data={"do": "pause", "csrf": token}, headers={"origin": "http://["}),
    )
    assert [each.status_code for each in foreign] == [400] * 6
    del browser.cookies["weft_visitor"]
    assert browser.post("/queries/1", data={"do": "pause", "csrf": token}).status_code == 400
    assert filled.query(1).state == "active"


@pytest.fixture
def jobs(weft: Weft) -> Jobs:
    return Jobs(weft.clock, weft.home / "logs")


def test_a_long_job_has_a_page_and_is_cancelled(browser: TestClient, filled: Weft, jobs: Jobs) -> None:
    begun = threading.Event()

    def work(job: Job) -> Outcome:
        job.say("half way")
        begun.set()
        while not job.wait(0.01):
            stop_here()
        return Go("/queries")

    site = browser.app.state.site  # type: ignore[attr-defined]
    job = site.jobs.start("count sheep", own_user(), "/tables", work)
    assert begun.wait(10)
    shown = browser.get(f"/jobs/{job.job_id}").text
    assert "half way" in shown
    assert_safe(shown)
    ended = sent(browser, f"/jobs/{job.job_id}/cancel", shown)
    assert "Cancelled: count sheep." in ended
    assert job.state == "cancelled"


def test_a_job_shows_the_progress_of_its_work(jobs: Jobs) -> None:
    """The work of an operation of the HTTP API does not know its job."""

    def work(job: Job) -> Outcome:
        report_progress("batch 2 of 5")
        return Go("/")

    job = jobs.start("tick", "anna", "/", work)
    assert job.wait(10)
    assert job.said == "batch 2 of 5"


def test_a_job_belongs_to_its_person(jobs: Jobs) -> None:
    job = jobs.start("read", "anna", "/", lambda job: Go("/"))
    assert job.wait(10)
    assert jobs.find(job.job_id, "anna") is job
    assert jobs.find(job.job_id, None) is job
    with pytest.raises(NotFound):
        jobs.find(job.job_id, "ben")
    assert jobs.listed("ben") == ()


def test_the_jobs_of_a_person_are_forgotten_in_the_order_of_their_end(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "_KEPT", 2)
    over = threading.Event()

    def long(job: Job) -> Outcome:
        over.wait(20)
        return Go("/")

    first = jobs.start("long", "anna", "/", long)
    kept = [jobs.start("read", "ben", "/", lambda _: Go("/")), jobs.start("call", "anna", "/", _value, of_api=True)]
    brief = []
    for number in range(4):
        brief.append(jobs.start(f"{number}", "anna", "/", lambda _: Go("/"), brief=True))
        assert brief[-1].wait(10)
    over.set()
    assert first.wait(10)
    assert jobs.start("last", "anna", "/", lambda _: Go("/")).wait(10)
    for job in (first, brief[3], *kept):
        assert jobs.find(job.job_id, job.by) is job
    for job in brief[:3]:
        with pytest.raises(NotFound) as refused:
            jobs.find(job.job_id, "anna")
        assert "Send the form again" in (refused.value.hint or "")
    monkeypatch.setattr(jobs_module, "_KEPT_IN_ALL", 1)
    assert jobs.start("another", "cleo", "/", lambda _: Go("/")).wait(10)
    assert len([job for job in jobs.listed(None) if job.person[0] != "cleo"]) == 1
    jobs.close()


def _value(_: Job) -> Outcome:
    return Value(1)


def test_the_defect_of_a_job_is_logged(jobs: Jobs, weft: Weft) -> None:
    def work(job: Job) -> Outcome:
        raise ZeroDivisionError("secret place")

    job = jobs.start("divide", "anna", "/", work)
    assert job.wait(10)
    assert job.error is not None
    assert "defect" in job.error.message
    assert "secret place" in (weft.home / "logs" / "weft.log").read_text()


def test_one_person_has_few_jobs(jobs: Jobs) -> None:
    over = threading.Event()

    def work(job: Job) -> Outcome:
        over.wait(20)
        return Go("/")

    for _ in range(4):
        jobs.start("wait", "anna", "/", work)
    with pytest.raises(Conflict, match="still run"):
        jobs.start("wait", "anna", "/", work)
    jobs.start("wait", "ben", "/", work)
    over.set()
    jobs.close()
    assert {job.state for job in jobs.listed(None)} == {"done"}
