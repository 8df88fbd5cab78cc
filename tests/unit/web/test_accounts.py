"""Users sign in, see what they may see, and manage their accounts; administrators manage users."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape
from urllib.request import urlopen

import pytest
from anyio.to_thread import current_default_thread_limiter
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from shown_pages import assert_safe, field, sent
from weft.algebra.schema import BIGINT
from weft.api.weft import Weft
from weft.catalog.dialects import POOL
from weft.cli.server import server
from weft.errors import NotAllowed, NotFound, Refused
from weft.execution.why import Combination, Why, Witness
from weft.rights.principal import Principal
from weft.web import checks
from weft.web.app import application
from weft.web.attempts import Attempts, TooManyAttempts
from weft.web.jobs import _AT_ONCE as jobs_at_once
from weft.web.jobs import Go, Job, Value
from weft.web.serving import THREADS, Address, page_served
from weft.web.site import Site

PASSWORD = "a long enough password"
FOR_ADMINS = ("/users", "/audit", "/system")


@pytest.fixture
def peopled(filled: Weft) -> Weft:
    """A home with an administrator, an author and a reader, who may read the answers of one query."""
    for name, role in (("ada", "admin"), ("ben", "author"), ("rea", "reader")):
        filled.accounts.add_user(name, role, inherit=name == "ben")  # type: ignore[arg-type]
        filled.accounts.set_password(filled.accounts.password_link(name).secret, PASSWORD)
    filled.accounts.grant("rea", "read", "results.dear")
    return filled


def signed_in(browser: TestClient, name: str, password: str = PASSWORD, following: str = "/") -> str:
    form = browser.get("/sign-in")
    assert_safe(form.text)
    return sent(browser, "/sign-in", form.text, name=name, password=password, next=following)


@pytest.fixture
def second(peopled: Weft) -> Iterator[TestClient]:
    """Another browser of the same home."""
    with TestClient(application(Site(peopled))) as client:
        yield client


def test_a_home_with_users_asks_to_sign_in(browser: TestClient, peopled: Weft) -> None:
    for path in ("/", "/queries", "/queries/1", "/tables/orders", *FOR_ADMINS, "/jobs/x", "/tables/-/upload"):
        for method in ("GET", "HEAD"):
            asked = browser.request(method, path, follow_redirects=False)
            assert asked.status_code == 303
            assert asked.headers["location"].startswith("/sign-in?next=%2F")
    assert browser.get("/api/v1/queries").status_code in (401, 403)
    form = browser.get("/sign-in").text
    assert browser.post("/queries/1", data={"csrf": field(form), "do": "pause"}).status_code == 403
    assert peopled.query(1).state == "active"


@pytest.mark.parametrize(
    ("peer", "named", "status"),
    [
        ("192.0.2.1", ["ada"], 200),
        ("192.0.2.1", ["rea"], 403),
        ("192.0.2.1", ["ADA"], 303),
        ("192.0.2.1", ["nobody"], 303),
        ("192.0.2.1", ["ada", "rea"], 303),  # one of them is from the browser
        ("192.0.2.1", [], 303),
        ("192.0.2.2", ["ada"], 303),  # not the proxy
    ],
)
def test_only_the_proxy_of_the_settings_signs_people_in(
    peopled: Weft, peer: str, named: list[str], status: int
) -> None:
    (peopled.home / "weft.toml").write_text('[web]\nproxy = ["192.0.2.1"]\n')
    headers = [("x-forwarded-user", name) for name in named] + [("x-forwarded-for", "192.0.2.1")]
    with TestClient(application(Site(peopled)), client=(peer, 4321)) as client:
        shown = client.get("/users", headers=headers, follow_redirects=False)
    assert shown.status_code == status


def test_a_proxy_names_users_in_utf_8(peopled: Weft) -> None:
    (peopled.home / "weft.toml").write_text('[web]\nproxy = ["192.0.2.1"]\n')
    peopled.accounts.add_user("zoë")
    with TestClient(application(Site(peopled)), client=("192.0.2.1", 4321)) as client:
        shown = client.get("/account", headers=[(b"x-forwarded-user", "zoë".encode())], follow_redirects=False)
    assert shown.status_code == 200 and "zoë" in shown.text


def _sent_without_body(weft: Weft, path: str, *headers: tuple[bytes, bytes]) -> int:
    """The status of the response to a request whose body nobody reads."""
    statuses = []

    async def receive() -> Message:
        raise AssertionError("the server reads the file")

    async def send(message: Message) -> None:
        statuses.append(message.get("status"))

    given = [(b"host", b"testserver"), *headers]
    scope = {"type": "http", "method": "POST", "path": path, "headers": given, "query_string": b"", "scheme": "http"}
    asyncio.run(application(Site(weft))({**scope, "server": ("testserver", 80)}, receive, send))
    return int(statuses[0] or 0)


def test_a_file_is_read_only_from_those_who_may_load_it(peopled: Weft) -> None:
    form, rows = (b"content-type", b"multipart/form-data; boundary=x"), (b"content-type", b"application/x-ndjson")
    peopled.accounts.grant("ben", "load", "empty")
    tokens = {
        name: (b"authorization", f"Bearer {peopled.accounts.create_token(name, scopes=['load']).secret}".encode())
        for name in ("rea", "ben")
    }
    assert _sent_without_body(peopled, "/tables/-/upload", form) == 403
    assert _sent_without_body(peopled, "/tables/-/upload", form, tokens["rea"]) == 403
    assert _sent_without_body(peopled, "/api/v1/tables/orders/rows", rows, tokens["rea"]) == 404
    assert _sent_without_body(peopled, "/api/v1/tables/orders/rows", rows, tokens["ben"]) == 404
    with pytest.raises(AssertionError, match="reads the file"):
        _sent_without_body(peopled, "/tables/-/upload", form, tokens["ben"])


@pytest.mark.parametrize("size", [(b"content-length", b"5242880"), (b"transfer-encoding", b"chunked")])
@pytest.mark.parametrize(("path", "status"), [("/tables/-/upload", 403), ("/ask", 403), ("/sign-in", 413)])
def test_a_large_form_is_read_only_from_those_who_have_signed_in(
    peopled: Weft, path: str, status: int, size: tuple[bytes, bytes]
) -> None:
    kind = (b"content-type", b"application/x-www-form-urlencoded")
    assert _sent_without_body(peopled, path, kind, size) == status


def test_only_a_form_with_files_is_very_large(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "ada")
    refused = browser.post("/tables/-/upload", data={"csrf": "x" * (5 << 20)})
    assert refused.status_code == 413


def test_a_token_has_no_more_rights_on_pages_than_its_scopes(browser: TestClient, peopled: Weft) -> None:
    site: Site = browser.app.state.site  # type: ignore[attr-defined]
    job = site.jobs.start("something of ben", "ben", "/", lambda _: Go("/"))
    for scopes, status in ((("read",), 404), (("read", "admin"), 200)):
        token = peopled.accounts.create_token("ada", scopes=scopes).secret  # type: ignore[arg-type]
        headers = {"authorization": f"Bearer {token}"}
        assert browser.get("/tables", headers=headers).status_code == 200
        assert browser.get(f"/jobs/{job.job_id}", headers=headers).status_code == status
        assert ('href="/users"' in browser.get("/queries", headers=headers).text) == (status == 200)


def test_a_result_is_not_shown_after_a_change_of_rights(browser: TestClient, peopled: Weft) -> None:
    peopled.accounts.grant("ben", "read", "orders")
    signed_in(browser, "ben")
    fields = {"name": "", "sql": "SELECT o.id, o.customer FROM orders o", "do": "try"}
    shown = browser.post("/ask", data={"csrf": field(browser.get("/ask").text), **fields})
    assert shown.url.path.startswith("/jobs/") and "customer 3" in shown.text
    job = shown.url.path.removeprefix("/jobs/")
    token = peopled.accounts.create_token("ben", scopes=["read", "install"]).secret
    peopled.accounts.revoke("ben", "read", "orders")
    again = browser.get(shown.url.path)
    assert again.status_code == 409 and "Run it again." in again.text
    assert "rights have changed since" in again.text and "customer 3" not in again.text
    api = browser.get(f"/api/v1/jobs/{job}", headers={"authorization": f"Bearer {token}"})
    assert api.status_code in (404, 409) and "customer 3" not in api.text
    peopled.accounts.remove_user("ben")
    peopled.accounts.add_user("ben", "author", inherit=True)
    peopled.accounts.set_password(peopled.accounts.password_link("ben").secret, PASSWORD)
    browser.cookies.clear()
    signed_in(browser, "ben")
    assert browser.get(shown.url.path).status_code == 409


def test_a_result_is_shown_until_the_rights_of_its_person_change(browser: TestClient, peopled: Weft) -> None:
    accounts = peopled.accounts
    accounts.add_group("few")
    accounts.grant("ben", "read", "orders")
    accounts.add_user("new", "author")
    signed_in(browser, "ben")
    fields = {"name": "", "sql": "SELECT r.id, r.total FROM results.dear r", "do": "try"}
    shown = browser.post("/ask", data={"csrf": field(browser.get("/ask").text), **fields})
    for change in (
        lambda: accounts.grant("rea", "read", "orders"),
        lambda: accounts.revoke("rea", "read", "results.dear"),
        lambda: accounts.change_user("rea", role="author"),
        lambda: accounts.add_member("few", "rea"),
        lambda: accounts.remove_user("new"),
    ):
        change()
        assert browser.get(shown.url.path).text == shown.text
    accounts.grant("everyone", "read", "orders")
    assert browser.get(shown.url.path).text == shown.text
    accounts.grant("few", "load", "orders")
    accounts.add_member("few", "ben")
    peopled.install("another", "SELECT o.id FROM orders o", user="ben")
    assert browser.get(shown.url.path).text == shown.text
    accounts.revoke("ben", "read", "orders")
    accounts.revoke("everyone", "read", "orders")
    assert browser.get(shown.url.path).status_code == 409
    accounts.grant("ben", "read", "orders")
    assert browser.get(shown.url.path).text == shown.text


def test_a_result_is_not_shown_after_its_person_lost_her_query(browser: TestClient, peopled: Weft) -> None:
    text = "SELECT r.id FROM results.dear r"
    peopled.install("own", text, user="ben")
    saved = peopled.opened.catalog.saved
    saved.save("form", text, (), "ben", "", 0, replace=False)
    signed_in(browser, "ben")
    fields = {"name": "", "sql": "SELECT r.id, r.total FROM results.dear r", "do": "try"}
    for lose in (
        lambda: peopled.install("own", text, user="ada", replace=True),
        lambda: saved.save("form", text, (), "ada", "", 0, replace=True),
    ):
        shown = browser.post("/ask", data={"csrf": field(browser.get("/ask").text), **fields})
        assert browser.get(shown.url.path).status_code == 200
        lose()
        assert browser.get(shown.url.path).status_code == 409


def test_another_owner_of_a_query_counts_as_a_change_of_rights(peopled: Weft) -> None:
    """The next tick pauses the queries of the earlier owner that read the query."""
    peopled.accounts.grant("ben", "read", "orders")
    text = "SELECT o.id FROM orders o"
    peopled.install("own", text, user="ben")
    peopled.install("above", "SELECT r.id FROM results.own r", user="ben")
    peopled.tick()
    assert not peopled.show("above").query.is_barred
    peopled.install("own", text, user="ada", replace=True)
    peopled.tick()
    assert peopled.show("above").query.is_barred


def test_a_result_of_a_right_for_a_moment_is_not_shown(peopled: Weft) -> None:
    user_id = peopled.accounts.user("ben").user_id
    reach = peopled.acting_as(Principal("ben", user_id)).accounts.reach

    def work(_: Job) -> Value:
        peopled.accounts.grant("ben", "read", "orders")
        peopled.accounts.revoke("ben", "read", "orders")
        return Value(1)

    jobs = Site(peopled).jobs
    for brief in (False, True):  # a brief job reads no rows
        job = jobs.start("read", "ben", "/", work, user_id=user_id, reach=reach, brief=brief)
        assert job.wait(20)
        assert job.is_stale(reach()) == (not brief)
    jobs.close()


def test_a_result_is_not_shown_after_the_owner_of_its_query_lost_a_right(browser: TestClient, peopled: Weft) -> None:
    peopled.accounts.grant("ben", "read", "orders")
    peopled.install("of-ben", "SELECT o.id, o.customer FROM orders o", user="ben")
    peopled.tick()
    peopled.accounts.add_user("cleo", "author")
    peopled.accounts.set_password(peopled.accounts.password_link("cleo").secret, PASSWORD)
    peopled.accounts.grant("cleo", "read", "results.of-ben")
    signed_in(browser, "cleo")
    fields = {"name": "", "sql": "SELECT r.id, r.customer FROM `results`.`of-ben` r", "do": "try"}
    shown = browser.post("/ask", data={"csrf": field(browser.get("/ask").text), **fields})
    assert "customer 3" in shown.text
    peopled.accounts.revoke("ben", "read", "orders")
    peopled.tick()
    assert browser.get(shown.url.path).status_code == 409
    browser.cookies.clear()
    signed_in(browser, "ada")
    assert "because the owner has lost a right: see the page “Queries”" in browser.get("/system").text
    browser.cookies.clear()
    signed_in(browser, "ben")
    [card] = re.findall(r"<h2[^>]*><a[^>]*>of-ben</a>.*?</section>", browser.get("/").text, re.DOTALL)
    assert "its owner ben may not read orders" in card and "<table" not in card and ">All " not in card


def test_a_job_belongs_to_the_id_of_its_person(peopled: Weft) -> None:
    """The owner of the folder may have the name of a user."""
    jobs = Site(peopled).jobs
    job = jobs.start("read", "ben", "/", lambda _: Go("/"))
    assert jobs.find(job.job_id, "ben") is job
    with pytest.raises(NotFound):
        jobs.find(job.job_id, "ben", user_id=peopled.accounts.user("ben").user_id)
    jobs.close()


def test_only_administrators_are_offered_actions_of_administrators(browser: TestClient, peopled: Weft) -> None:
    peopled.accounts.grant("ben", "read", "orders")
    for name, offered in (("ada", True), ("ben", False)):
        signed_in(browser, name)
        for path in ("/queries/2", "/ask"):
            shown = browser.get(path).text
            assert "feed:" in shown
            assert ("file:" in shown) == offered, path
        browser.cookies.clear()


def test_a_reader_of_no_table_does_not_read_that_none_exists(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    shown = browser.get("/tables").text
    assert "No tables that you may read" in shown
    assert "No tables yet" not in shown
    assert "No views that you may read" in browser.get("/views").text
    hint = "There is no table yet, or none that you may see."
    assert browser.get("/api/v1/tables/orders").json()["hint"] == hint
    browser.cookies.clear()
    signed_in(browser, "ben")
    tried = browser.post("/api/v1/explain", json={"sql": "SELECT o.id FROM orders o"}).text
    assert "There is no table yet, or none that you may read." in tried


def test_no_job_keeps_the_secret_of_a_token(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    assert browser.post("/api/v1/tokens", json={"user": "rea"}).status_code == 403
    assert peopled.accounts.tokens("rea") == ()
    browser.cookies.clear()
    signed_in(browser, "ada")
    assert browser.post("/api/v1/tokens", json={"user": "ada", "scopes": ["admin"]}).status_code == 201
    assert browser.get("/api/v1/jobs").json()["items"] == []


def test_a_reader_sees_only_granted_objects(browser: TestClient, peopled: Weft) -> None:
    assert "Inbox" in signed_in(browser, "rea")
    listed = browser.get("/queries").text
    assert_safe(listed)
    assert "/queries/2" in listed
    assert "/queries/1" not in listed
    assert browser.get("/queries/2").status_code == 200
    assert browser.get("/queries/2/answers/1").status_code == 200
    missing, hidden = (browser.get(f"/queries/{key}") for key in (99, 1))
    assert missing.status_code == hidden.status_code == 404
    assert missing.text.replace("#99", "#1") == hidden.text
    assert browser.get("/tables/orders").status_code == 404
    assert "/queries/1/" not in browser.get("/", params={"q": "customer"}).text
    for path in FOR_ADMINS:
        assert browser.get(path).status_code == 403


def test_only_the_owner_sees_why_a_channel_fails(browser: TestClient, peopled: Weft) -> None:
    peopled.accounts.grant("rea", "read", "results.all-orders")
    channel = peopled.subscribe("all-orders", "file:orders.jsonl")
    with peopled.catalog.delivering(peopled.clock, wait_us=0) as sender:
        sender.subscriptions.note_failure(channel.sub_id, "boss@example.com is unknown", None)
    for name, words in (("rea", "a channel fails"), ("ada", "boss@example.com is unknown")):
        browser.cookies.clear()
        signed_in(browser, name)
        for path in ("/queries", "/queries.json", "/api/v1/queries"):
            listed = browser.get(path).text
            assert words in listed
            assert ("boss@" in listed) == (name == "ada")


def test_a_page_says_which_rows_it_hides(browser: TestClient, peopled: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    row = Witness("driver", "orders", "o", (("id", BIGINT),), (7,))
    causes = (Combination("a new row of orders arrives", (row.hidden,), ()),)
    answer = ("dear", 1, 0, 1, (("id", BIGINT),), (7,))
    monkeypatch.setattr(Weft, "why", lambda *_: Why(*answer, causes, hides=True))
    signed_in(browser, "rea")
    path = "/queries/2/answers/1"
    shown = sent(browser, path, browser.get(path).text, do="why")
    assert '<span class="null">hidden</span>' in shown
    assert "You may not read all tables of this query" in shown
    monkeypatch.setattr(Weft, "why", lambda *_: Why(*answer, (Combination("x", (row,), ()),)))
    assert ">hidden<" not in sent(browser, path, shown, do="why")


def test_the_owner_sees_why_her_query_is_paused_and_resumes_it(
    browser: TestClient, second: TestClient, peopled: Weft
) -> None:
    def recheck() -> None:
        with peopled.writing("test") as writer:
            writer.rechecks.run()

    for table in ("empty", "orders"):
        peopled.accounts.grant("ben", "read", table)
    recheck()
    assert peopled.query(2).state == "active"
    peopled.accounts.revoke("ben", "read", "orders")
    recheck()
    signed_in(browser, "ben")
    signed_in(second, "rea")
    why = "its owner ben may not read orders"
    assert why in browser.get("/queries").text
    assert "its owner has lost a right" in (hers := second.get("/queries").text)
    assert why not in hers
    shown = browser.get("/queries/2").text
    assert why in shown
    assert "Ask an administrator for the right" in shown
    assert second.get("/queries/2").status_code == 403
    assert why in sent(browser, "/queries/2", shown, do="resume")
    peopled.accounts.grant("ben", "read", "orders")
    assert "dear is active again" in sent(browser, "/queries/2", browser.get("/queries/2").text, do="resume")


def test_readers_see_the_texts_of_a_query_and_no_form_for_another(browser: TestClient, peopled: Weft) -> None:
    for name, forms in (("rea", False), ("ben", True)):
        signed_in(browser, name)
        shown = browser.get("/queries/2/change").text
        assert "Texts so far" in shown
        assert ("Replace the text" in shown) == forms
        assert ('<h2 id="new">' in shown) == forms
        sent(browser, "/sign-out", shown)


def test_a_reader_changes_nothing(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    shown = browser.get("/queries/2").text
    assert 'value="pause"' not in shown
    for do in ("pause", "remove", "subscribe"):
        sent(browser, "/queries/2", shown, do=do, channel="email:rea@example.com")
    assert peopled.query(2).state == "active"
    sent(browser, "/users", shown, do="change", name="rea", role="admin")
    assert peopled.accounts.user("rea").role == "reader"


def test_an_author_changes_her_own_queries(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "ben")
    assert "dear is paused" in sent(browser, "/queries/2", browser.get("/queries/2").text, do="pause")
    assert [(each.user, each.action) for each in peopled.accounts.audit(limit=1)] == [("ben", "pause")]


def test_a_session_begins_and_ends(browser: TestClient, peopled: Weft) -> None:
    before = browser.get("/sign-in")
    visitor = browser.cookies["weft_visitor"]
    answer = browser.post(
        "/sign-in", data={"csrf": field(before.text), "name": "rea", "password": PASSWORD}, follow_redirects=False
    )
    cookies = [each.lower() for each in answer.headers.get_list("set-cookie")]
    [session] = [each for each in cookies if each.startswith("weft_session=")]
    assert "httponly" in session
    assert "samesite=lax" in session
    assert browser.cookies["weft_visitor"] != visitor
    old = {"csrf": field(before.text), "do": "pause"}
    assert browser.post("/queries/2", data=old).status_code == 400  # a form of before the sign-in
    secret = browser.cookies["weft_session"]
    sent(browser, "/sign-out", browser.get("/queries").text)
    assert browser.get("/queries", follow_redirects=False).status_code == 303
    browser.cookies.set("weft_session", secret)
    assert browser.get("/queries", follow_redirects=False).status_code == 303  # the session has ended, too


@pytest.mark.parametrize(
    "path", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:x", "/\n/x"]
)
def test_nobody_is_sent_elsewhere(browser: TestClient, peopled: Weft, path: str) -> None:
    form = browser.get("/sign-in", params={"next": path}).text
    assert 'name="next" value="/"' in form
    given = {"csrf": field(form), "name": "rea", "password": PASSWORD, "next": path}
    assert browser.post("/sign-in", data=given, follow_redirects=False).headers["location"] == "/"


def test_a_wrong_password_is_refused_and_many_are_stopped(browser: TestClient, peopled: Weft) -> None:
    wrong, unknown = signed_in(browser, "rea", "wrong"), signed_in(browser, "xxx", "wrong")
    assert "the name or the password is wrong" in wrong
    assert wrong.replace('value="rea"', "") == unknown.replace('value="xxx"', "")
    for _ in range(9):
        signed_in(browser, "rea", "wrong")
    assert "too many attempts" in signed_in(browser, "rea")
    assert "Inbox" in signed_in(browser, "ben")


def _try(attempts: Attempts, name: str, address: str, *, right: bool) -> str:
    """The outcome of one attempt."""
    try:
        with attempts.trying(name, address):
            if not right:
                raise NotAllowed("wrong")
    except TooManyAttempts:
        return "too many"
    except NotAllowed:
        return "wrong"
    return "right"


def test_attempts_are_forgotten_in_time() -> None:
    now = 0
    attempts = Attempts(lambda: now)
    assert [_try(attempts, f"name {number}", "1.2.3.4", right=False) for number in range(31)][-2:] == [
        "wrong",
        "too many",
    ]
    assert _try(attempts, "another", "1.2.3.4", right=True) == "too many"
    assert _try(attempts, "another", "5.6.7.8", right=True) == "right"
    now = 5 * 60 * 1_000_000
    assert _try(attempts, "another", "1.2.3.4", right=True) == "right"


def test_nobody_locks_somebody_out() -> None:
    attempts = Attempts(lambda: 0)
    assert [_try(attempts, "anna", "2001:db8::1", right=False) for _ in range(11)][-1] == "too many"
    assert _try(attempts, "anna", "2001:db8::2", right=True) == "too many"  # the same network
    assert _try(attempts, "anna", "192.0.2.1", right=True) == "right"
    assert _try(attempts, "bo", "2001:db8::1", right=True) == "right"
    for _ in range(40):
        assert _try(attempts, "bo", "192.0.2.1", right=True) == "right"


def test_attempts_at_the_same_time_count() -> None:
    attempts, running = Attempts(lambda: 0), ExitStack()
    with running:
        for _ in range(10):
            running.enter_context(attempts.trying("anna", "192.0.2.1"))
        assert _try(attempts, "anna", "192.0.2.1", right=True) == "too many"
    assert _try(attempts, "anna", "192.0.2.1", right=True) == "right"


def test_the_present_password_is_not_guessed(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    shown = browser.get("/account").text
    for _ in range(10):
        assert "present password is wrong" in sent(browser, "/account", shown, do="password", old="x", new="y" * 10)
    form = {"csrf": field(shown), "do": "password", "old": PASSWORD, "new": "y" * 10}
    assert browser.post("/account", data=form).status_code == 429


def test_tokens_end_with_the_password_if_one_wishes(browser: TestClient, peopled: Weft) -> None:
    for wish, kept in (({}, 1), ({"tokens": "on"}, 0)):
        peopled.accounts.create_token("rea")
        link = f"/password/{peopled.accounts.password_link('rea').secret}"
        sent(browser, link, browser.get(link).text, password=PASSWORD, again=PASSWORD, **wish)
        assert len(peopled.accounts.tokens("rea")) == kept
        peopled.accounts.create_token("rea")
        signed_in(browser, "rea")
        sent(browser, "/account", browser.get("/account").text, do="password", old=PASSWORD, new=PASSWORD, **wish)
        assert len(peopled.accounts.tokens("rea")) == 2 * kept


def test_a_form_of_another_session_is_refused(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "ben")
    shown = browser.get("/queries/2").text
    del browser.cookies["weft_session"]
    browser.cookies.set("weft_session", peopled.accounts.sign_in("ben", PASSWORD).secret)
    assert browser.post("/queries/2", data={"csrf": field(shown), "do": "pause"}).status_code == 400
    assert peopled.query(2).state == "active"


@pytest.mark.parametrize("path", ["/ask", "/queries/2/change"])
@pytest.mark.parametrize("signs_in_elsewhere", [False, True])
def test_a_text_survives_the_end_of_the_session(
    browser: TestClient, peopled: Weft, path: str, signs_in_elsewhere: bool
) -> None:
    signed_in(browser, "ben")
    token = field(browser.get(path).text)
    peopled.accounts.sign_out(browser.cookies["weft_session"])
    if signs_in_elsewhere:
        signed_in(browser, "ben")
    text = "SELECT o.id FROM orders o\r\nWHERE o.customer = 'a&b+ü'"
    refused = browser.post(path, data={"csrf": token, "do": "preview", "sql": text, "text_since": "1"})
    assert refused.status_code == (400 if signs_in_elsewhere else 403)
    assert_safe(refused.text)
    [again] = re.findall(r'<a href="([^"]+)">Open the form again', refused.text)
    form = browser.get(unescape(again))
    if not signs_in_elsewhere:
        assert form.url.path == "/sign-in"
        given = {"csrf": field(form.text), "name": "ben", "password": PASSWORD, "next": form.url.params["next"]}
        form = browser.post("/sign-in", data=given)
    assert form.url.path == path
    [kept] = re.findall(r">([^<>]*)</textarea>", form.text)[:1]
    assert unescape(kept) == text.replace("\r\n", "\n")
    long = browser.post(path, data={"csrf": "x", "do": "preview", "sql": "SELECT " + "o.id, " * 2_000})
    assert "Open the form again" not in long.text  # an address of this length would be refused


@pytest.mark.parametrize(
    ("path", "origin"), [("/queries/2", None), ("/ask/check", None), ("/ask", "https://other.example")]
)
def test_only_a_form_with_a_text_of_this_server_is_opened_again(
    browser: TestClient, path: str, origin: str | None
) -> None:
    headers = {} if origin is None else {"origin": origin}
    refused = browser.post(path, data={"csrf": "x", "sql": "SELECT 1"}, headers=headers)
    assert refused.status_code == 400 and "Open the form again" not in refused.text


def test_a_password_is_set_by_a_link_once(browser: TestClient, peopled: Weft) -> None:
    link = f"/password/{peopled.accounts.password_link('rea').secret}"
    form = browser.get(link).text
    assert_safe(form)
    assert "differ" in sent(browser, link, form, password="one password here", again="another password")
    assert "is set" in sent(browser, link, form, password="a second password", again="a second password")
    assert "not valid any more" in sent(browser, link, form, password="a third password", again="a third password")
    assert "Inbox" in signed_in(browser, "rea", "a second password")


def test_a_changed_password_ends_all_sessions(browser: TestClient, second: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    signed_in(second, "rea")
    sent(browser, "/account", browser.get("/account").text, do="password", old=PASSWORD, new="another long password")
    for client in (browser, second):
        assert client.get("/queries", follow_redirects=False).status_code == 303


def test_an_account_has_preferences_and_tokens(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    shown = browser.get("/account").text
    assert_safe(shown)
    sent(browser, "/account", shown, do="prefer", zone="Europe/Berlin")
    assert "CET)" in browser.get("/queries/2/answers/1").text
    issued = sent(browser, "/account", shown, do="token", scope="read", label="robot", expires="1d")
    assert "weft_" in issued
    assert "weft_" not in browser.get("/account").text.replace("weft_visitor", "")
    sent(browser, "/account", shown, do="withdraw", token=field(issued, "token"))
    assert "robot" not in browser.get("/account").text


def test_an_administrator_manages_users(browser: TestClient, peopled: Weft) -> None:
    signed_in(browser, "ada")
    shown = browser.get("/users").text
    assert_safe(shown)
    assert "/password/" in sent(browser, "/users", shown, do="add", name="new", role="reader")
    assert "/password/" in sent(browser, "/users", shown, do="link", name="new")
    sent(browser, "/users", shown, do="add-group", name="team")
    sent(browser, "/users", shown, do="join", name="team", user="new")
    sent(browser, "/users", shown, do="grant", name="team", right="read", about="orders")
    assert peopled.accounts.user("new").groups == ("team",)
    assert "team may" in browser.get("/users").text.replace("<b>", "").replace("</b>", "")
    sent(browser, "/users", shown, do="revoke", name="team", right="read", about="orders")
    sent(browser, "/users", shown, do="remove", name="new")
    log = browser.get("/audit").text
    assert_safe(log)
    assert "remove user" in log
    assert browser.get("/audit", params={"user": "nobody"}).status_code == 200


def test_a_shared_link_shows_one_query(browser: TestClient, peopled: Weft) -> None:
    issued = peopled.accounts.share_link("dear")
    shown = browser.get(f"/shared/{issued.secret}")
    assert shown.status_code == 200
    assert_safe(shown.text)
    assert "Shared by ben" in shown.text
    assert browser.get("/queries/2", follow_redirects=False).status_code == 303
    peopled.accounts.withdraw_link("dear", issued.record.secret_id)
    assert browser.get(f"/shared/{issued.secret}").status_code == 404


def test_the_owner_shares_a_query(browser: TestClient, second: TestClient, peopled: Weft) -> None:
    signed_in(browser, "ben")
    shown = browser.get("/queries/2/share").text
    assert_safe(shown)
    linked = sent(browser, "/queries/2/share", shown, do="link", label="for the board")
    link = "/shared/" + linked.partition("/shared/")[2].partition("<")[0]
    assert second.get(link).status_code == 200
    sent(browser, "/queries/2/share", linked, do="withdraw", link=field(linked, "link"))
    assert second.get(link).status_code == 404
    sent(browser, "/queries/2/share", shown, do="revoke", name="rea")
    signed_in(second, "rea")
    assert second.get("/queries/2").status_code == 404
    sent(browser, "/queries/2/share", shown, do="grant", name="rea")
    assert second.get("/queries/2").status_code == 200
    assert second.get("/queries/2/share").status_code == 403


def test_a_wrong_link_ends_no_letters(browser: TestClient, peopled: Weft) -> None:
    assert_safe(browser.get("/unsubscribe/1.x").text)
    answer = browser.post("/unsubscribe/1.x", data={"List-Unsubscribe": "One-Click"})
    assert answer.status_code == 403
    assert_safe(answer.text)


def test_other_machines_may_come_when_there_are_users(peopled: Weft) -> None:
    with page_served(peopled, Address("0.0.0.0", 0)) as address:
        assert address.port


def test_each_thread_of_the_server_can_have_a_connection(peopled: Weft) -> None:
    async def threads(_: Request) -> PlainTextResponse:
        return PlainTextResponse(str(current_default_thread_limiter().total_tokens))

    with page_served(peopled, Address(port=0), lambda _: [Route("/threads", threads)]) as address:
        assert int(urlopen(f"{address.url}threads").read()) == THREADS
    others = 6  # they tick, deliver, renew two leases, poll, and index answers
    jobs, commands = 2 * jobs_at_once, server._COMMANDS
    assert sum(POOL.values()) == THREADS + jobs + commands + checks._AT_ONCE + others


def test_a_home_without_users_is_for_this_machine(weft: Weft) -> None:
    with pytest.raises(Refused, match="has no users"), page_served(weft, Address("0.0.0.0", 0)):
        pass
    with TestClient(application(Site(weft, is_local=False))) as client:
        assert client.get("/queries", follow_redirects=False).status_code == 303
        assert "has no users" in client.get("/sign-in").text


def test_the_first_user_by_the_page_or_the_api_is_an_administrator(browser: TestClient, filled: Weft) -> None:
    """Otherwise nobody could add further users there."""
    form = {"csrf": field(browser.get("/users").text), "do": "add", "name": "ada", "role": "reader"}
    refused = browser.post("/users", data=form)
    assert refused.status_code == 400
    assert "the first user must be an administrator" in refused.text
    key = {"authorization": f"Bearer {browser.app.state.site.key}"}  # type: ignore[attr-defined]
    refused = browser.post("/api/v1/users", json={"name": "ada"}, headers=key)
    assert refused.status_code == 422
    assert "the first user must be an administrator" in refused.text
    assert not filled.accounts.in_use()
    filled.accounts.add_user("rea")  # the owner of the folder may
    assert browser.app.state.site.weft.accounts.in_use()  # type: ignore[attr-defined]


def test_a_user_has_marks_of_her_own(browser: TestClient, second: TestClient, peopled: Weft) -> None:
    signed_in(browser, "rea")
    signed_in(second, "ben")
    assert "3 new" in browser.get("/").text
    browser.get("/queries/2/answers/3")
    assert "2 new" in browser.get("/").text
    assert browser.get("/queries/2/answers").text.count('class="unread"') == 2
    read = sent(browser, "/", browser.get("/").text, query="2")
    assert_safe(read)
    assert " new</span>" not in read
    assert "3 new" in second.get("/").text


def test_the_first_user_gets_a_link(browser: TestClient, filled: Weft) -> None:
    shown = sent(browser, "/users", browser.get("/users").text, do="add", name="ada", role="admin")
    link = "/password/" + shown.partition("/password/")[2].partition("<")[0]
    assert browser.get("/users", follow_redirects=False).status_code == 303
    sent(browser, link, browser.get(link).text, password=PASSWORD, again=PASSWORD)
    assert "Inbox" in signed_in(browser, "ada")
    assert browser.get("/users").status_code == 200
