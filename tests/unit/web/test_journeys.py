"""What people do on the page, from the first click to the last, in a real browser."""

from __future__ import annotations

import datetime as dt
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from playwright.sync_api import Browser, Page, expect

from mail_server import Post, serving
from real_browser import PASSWORD, Served, chromium, closed, served, sign_in
from weft.api.weft import Weft

expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def running() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def _one_home(running: Browser, filled_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    home = tmp_path_factory.mktemp("journeys") / "home"
    shutil.copytree(filled_home, home)
    with Weft.open(home) as weft, served(weft, running) as site:
        site.add("ada", "admin")
        yield site


@pytest.fixture
def site(_one_home: Served) -> Iterator[Served]:
    """A home with users, which all journeys share: each has tables, queries and users of its own."""
    yield _one_home
    closed(_one_home.browser)


def table(site: Served, name: str, rows: int = 3, first: int = 1) -> None:
    """Make a table with some rows, or add rows to it."""
    if name not in {each.name for each in site.weft.tables()}:
        site.weft.make_table(name, "id INT, who STRING, total DOUBLE", keys=["id"])
    add_rows(site, name, range(first, first + rows))


def add_rows(site: Served, name: str, ids: range) -> None:
    at = now(site) + dt.timedelta(hours=1)
    site.weft.append(name, [{"id": n, "who": f"person {n}", "total": n * 1.5, "ts": at} for n in ids], ts_from="ts")


def now(site: Served) -> dt.datetime:
    return dt.datetime.fromtimestamp(site.weft.clock() / 1e6, dt.timezone.utc)


def tick(site: Served) -> None:
    """Let a day pass."""
    site.weft.tick(now=now(site) + dt.timedelta(days=1))


def asked(site: Served, name: str, owner: str) -> int:
    """Install a query over a table of the same name, and tick.  Return the ID of the query."""
    table(site, name)
    sql = f"SELECT t.id, t.who FROM {name} t"
    site.weft.accounts.grant(owner, "read", name)
    query_id = site.weft.install(name, sql, user=owner, keep="synopsis").query_id
    tick(site)
    return query_id


def button(page: Page, words: str) -> None:
    page.get_by_role("button", name=words, exact=True).first.click()


def notice(page: Page, words: str) -> None:
    expect(page.get_by_role("status")).to_contain_text(words)


def test_from_the_first_visit_to_the_first_query(running: Browser, tmp_path: Path) -> None:
    with Weft.open(tmp_path / "home", create=True, clock="replay") as weft, served(weft, running) as site:
        weft.tick(now="2026-03-01")
        page = site.window()
        page.goto("/")
        expect(page.get_by_role("heading", name="Nothing is asked yet")).to_be_visible()
        page.get_by_role("link", name="Users").click()
        page.locator("#user").fill("ada")
        button(page, "Add")
        page.goto(page.get_by_role("status").locator("pre").inner_text())
        page.get_by_label("New password").fill(PASSWORD)
        page.get_by_label("The same again").fill(PASSWORD)
        button(page, "Set the password")
        notice(page, "ada, your password is set")
        sign_in(page, "ada")
        page.get_by_role("link", name="Load a file").click()
        upload(page, "orders", b"id,total\n1,10\n2,200\n")
        button(page, "Store the rows")
        notice(page, "2 stored")
        page.get_by_role("link", name="Ask", exact=True).click()
        page.locator(".cm-content").fill("SELECT o.id, o.total FROM orders o WHERE o.totl > 100")
        button(page, "Explain")
        expect(page.get_by_role("alert")).to_contain_text("Did you mean total?")
        page.locator(".cm-content").fill("SELECT o.id, o.total FROM orders o WHERE o.total > 100")
        button(page, "Explain")
        expect(page.get_by_text("An answer appears when a row of orders (as o) arrives")).to_be_visible()
        page.get_by_label("Name", exact=True).fill("large")
        button(page, "Install")
        notice(page, "large is installed")
        assert [(each.name, each.user) for each in weft.queries()] == [("large", "ada")]
    closed(running)


def upload(page: Page, name: str, content: bytes) -> None:
    """Choose a file for a table, and go on to the types that it would have."""
    page.get_by_label("File", exact=True).set_input_files(
        [{"name": f"{name}.csv", "mimeType": "text/csv", "buffer": content}]
    )
    page.get_by_label("Table", exact=True).fill(name)
    button(page, "Show the types")
    expect(page.get_by_role("heading", name=f"{name}.csv as rows of {name}")).to_be_visible()


def test_answers_are_new_until_they_are_read(site: Served) -> None:
    key = asked(site, "inboxed", site.add("ina", "author"))
    page = site.signed_in("ina")
    card = page.get_by_role("region", name="inboxed")
    expect(card.get_by_text("3 new")).to_be_visible()
    page.goto(f"/queries/{key}/answers/2")
    expect(page.get_by_text("person 2")).to_be_visible()
    page.goto("/?show=unread")
    expect(card.get_by_text("2 new")).to_be_visible()
    button(page, "Mark as read")
    notice(page, "The answers of inboxed are read")
    page.get_by_role("link", name="Unread").click()
    expect(page.get_by_role("heading", name="Nothing unread")).to_be_visible()
    site.weft.index_answers()
    page.get_by_role("searchbox").fill("person 3")
    button(page, "Search")
    page.get_by_role("link", name="inboxed 3").click()
    expect(page.get_by_role("heading", name="Answer 3")).to_be_visible()


def test_a_shared_link_is_for_reading_only(site: Served) -> None:
    key = asked(site, "shared_one", site.add("sue", "author"))
    owner, stranger = site.signed_in("sue"), site.window()
    owner.goto(f"/queries/{key}/share")
    owner.get_by_label("For whom").fill("the board")
    button(owner, "Make a link")
    link = owner.get_by_role("status").locator("pre").inner_text()
    stranger.goto(link)
    expect(stranger.get_by_role("cell", name="person 1")).to_be_visible()
    assert stranger.get_by_role("button").count() == 0
    stranger.goto(f"/queries/{key}")
    expect(stranger.get_by_role("heading", name="Sign in")).to_be_visible()
    site.add("noah", "reader")
    sign_in(stranger, "noah")
    expect(stranger.get_by_role("alert")).to_contain_text("no query")
    assert "shared_one" not in stranger.content()
    button(owner, "Withdraw")
    notice(owner, "The link is withdrawn")
    stranger.goto(link)
    expect(stranger.get_by_role("alert")).to_contain_text("not valid any more")


def test_a_right_that_is_granted_opens_a_table(site: Served) -> None:
    table(site, "granted_one")
    reader, admin = site.signed_in(site.add("gil", "reader")), site.signed_in("ada")
    reader.goto("/tables/granted_one")
    expect(reader.get_by_role("alert")).to_be_visible()
    assert "person 1" not in reader.content()
    admin.goto("/users")
    admin.get_by_label("User or group").fill("gil")
    admin.get_by_label("Table, query or channels", exact=True).fill("granted_one")
    admin.locator("section[aria-labelledby=grants] form").last.get_by_role("button").click()
    notice(admin, "gil may read granted_one")
    reader.reload()
    expect(reader.get_by_role("cell", name="person 1")).to_be_visible()
    admin.locator("li", has_text="gil may").get_by_role("button", name="Take back").click()
    notice(admin, "gil may no longer read granted_one")
    reader.reload()
    expect(reader.get_by_role("alert")).to_be_visible()


def test_a_bad_row_waits_in_quarantine(site: Served) -> None:
    table(site, "uploaded", 1)
    page = site.signed_in("ada")
    page.goto("/tables/-/upload?table=uploaded")
    upload(page, "uploaded", b"id,who,total\n7,zo\xc3\xab,1.5\nseven,ben,2\n")
    expect(page.get_by_text("Some records cannot be read")).to_be_visible()
    button(page, "Store the rows")
    notice(page, "1 stored")
    expect(page.get_by_role("cell", name="zoë")).to_be_visible()
    page.get_by_role("link", name="All, and read them again").click()
    expect(page.get_by_role("rowheader", name="not of the column's type: id")).to_be_visible()
    expect(page.get_by_role("cell", name="line 3")).to_be_visible()
    button(page, "Read again")
    notice(page, "1 still in quarantine")


def test_a_query_is_paused_and_resumed(site: Served) -> None:
    key = asked(site, "paused_one", site.add("pam", "author"))
    page = site.signed_in("pam")
    page.goto(f"/queries/{key}")
    button(page, "Pause")
    notice(page, "paused_one is paused")
    add_rows(site, "paused_one", range(4, 6))
    tick(site)
    page.get_by_role("link", name=re.compile("Answers")).click()
    expect(page.get_by_role("cell", name="person 3")).to_be_visible()
    assert page.get_by_role("cell", name="person 4").count() == 0
    button(page, "Resume")
    notice(page, "paused_one is active again")
    tick(site)
    page.goto(f"/queries/{key}/answers")
    expect(page.get_by_role("cell", name="person 4")).to_be_visible()


def test_a_channel_is_added_muted_and_ended(site: Served) -> None:
    key = asked(site, "channelled", "ada")
    page = site.signed_in("ada")
    page.goto(f"/queries/{key}")
    page.get_by_text("Add a channel").click()
    page.get_by_label("Channel", exact=True).fill("pigeon:home")
    button(page, "Add")
    expect(page.get_by_role("alert")).to_contain_text("is not a channel")
    page.goto(f"/queries/{key}")
    page.get_by_text("Add a channel").click()
    page.get_by_label("Channel", exact=True).fill("file:channelled.jsonl")
    page.get_by_label("Also send the 3 answers so far").check()
    button(page, "Add")
    notice(page, "New answers of channelled go to file:channelled.jsonl")
    tick(site)
    assert len((site.weft.home / "files" / "channelled.jsonl").read_text().splitlines()) == 3
    page.reload()
    expect(page.get_by_text("3 of 3 delivered")).to_be_visible()
    button(page, "Mute")
    notice(page, "Muted: file:channelled.jsonl")
    button(page, "Unmute")
    button(page, "End")
    notice(page, "no longer go to file:channelled.jsonl")


@pytest.mark.filterwarnings("ignore:Requiring AUTH")
def test_letters_end_by_one_click(site: Served) -> None:
    asked(site, "lettered", "ada")
    post, settings = Post(), site.weft.home / "weft.toml"
    before = settings.read_text() if settings.exists() else ""
    with serving(post) as port:
        smtp = f'[smtp]\nhost = "127.0.0.1"\nport = {port}\ntls = "none"\nfrom = "weft@example.com"\n'
        settings.write_text(f'{before}\n{smtp}[web]\nurl = "{site.url}"\n')
        site.weft.subscribe("lettered", "email:ann@example.com", from_start=True)
        tick(site)
        [letter] = post.letters
        link = letter.message["List-Unsubscribe"].partition(">")[0].removeprefix("<")
        page = site.window()
        page.goto(link)
        assert len(site.weft.show("lettered").subscriptions) == 1  # whoever looks ends nothing
        button(page, "End the letters")
        expect(page.get_by_role("heading", name="No more letters")).to_be_visible()
        assert site.weft.show("lettered").subscriptions == ()
        add_rows(site, "lettered", range(4, 6))
        tick(site)
        assert len(post.letters) == 1
    settings.write_text(before)


def test_two_people_change_one_query(site: Served) -> None:
    key = asked(site, "both", site.add("bob", "author"))
    bob, ada = site.signed_in("bob"), site.signed_in("ada")
    for page in (bob, ada):
        page.goto(f"/queries/{key}")
    button(bob, "Pause")
    notice(bob, "both is paused")
    button(ada, "Pause")  # her page still shows the state of before
    expect(ada.get_by_role("alert")).to_contain_text("both is already paused")
    ada.goto(f"/queries/{key}")
    ada.get_by_text("Remove this query").click()
    button(ada, "Remove both")
    notice(ada, "both is removed")
    button(bob, "Resume")
    expect(bob.get_by_role("alert")).to_contain_text("no query")


def test_a_job_that_waits_is_cancelled(site: Served) -> None:
    table(site, "awaited", 1)
    page = site.signed_in("ada")
    page.goto("/tables/-/upload")
    upload(page, "awaited", b"id,who,total\n8,late,1\n")
    with site.weft.opened.catalog.writing("a long tick", site.weft.clock):
        button(page, "Store the rows")
        expect(page.get_by_role("heading", name="Load awaited.csv")).to_be_visible()
        expect(page.get_by_text("running")).to_be_visible()
        button(page, "Cancel")
        notice(page, "Cancelled: load awaited.csv")
    assert site.weft.table("awaited").rows == 1


def test_a_reader_fills_in_a_form(site: Served) -> None:
    table(site, "formed", 5)
    author, reader = site.signed_in(site.add("fay", "author")), site.signed_in(site.add("ron", "reader"))
    for name in ("fay", "ron"):
        site.weft.accounts.grant(name, "read", "formed")
    author.goto("/ask")
    author.locator(".cm-content").fill("SELECT f.id, f.who FROM formed f WHERE f.total > {{least}}")
    button(author, "Explain")
    author.get_by_label("least", exact=True).select_option("decimal")
    author.get_by_label("Name", exact=True).fill("above")
    button(author, "Save as a form")
    notice(author, "above is saved")
    author.get_by_label("User or group").fill("ron")
    button(author, "Share")
    notice(author, "ron may fill in above")
    reader.get_by_role("link", name="Saved queries").first.click()
    reader.get_by_role("link", name="above").click()
    reader.get_by_label("least", exact=True).fill("many")
    reader.get_by_label("Name", exact=True).fill("mine")
    button(reader, "Install")
    expect(reader.get_by_role("alert")).to_contain_text("'many' is not a decimal")
    reader.get_by_label("least", exact=True).fill("5")
    button(reader, "Install")
    notice(reader, "mine is installed")
    expect(reader.get_by_text("if at that instant f.total > 5")).to_be_visible()
    site.weft.remove("mine")  # the ticks of other journeys need no Spark


def test_a_text_of_another_dialect_is_installed(site: Served) -> None:
    table(site, "foreign_one")
    page = site.signed_in("ada")
    page.goto("/ask")
    page.get_by_label("Dialect").select_option("postgres")
    page.locator(".cm-content").fill("SELECT f.id FROM foreign_one f WHERE to_char(f.ts, 'YYYY') = '2026'")
    page.get_by_label("Name", exact=True).fill("translated")
    button(page, "Install")
    expect(page.get_by_role("alert")).to_contain_text("TO_CHAR is not translated")
    page.locator(".cm-content").fill("SELECT f.id FROM foreign_one f WHERE f.ts < now() - interval '1 hour'")
    button(page, "Install")
    notice(page, "translated is installed")
    expect(page.get_by_text("An answer appears when more than 1 hour has passed since f.ts")).to_be_visible()
    site.weft.remove("translated")  # the ticks of other journeys need no Spark


def test_the_slider_shows_the_rows_of_an_instant(running: Browser, tmp_path: Path) -> None:
    rooms = tmp_path / "rooms.csv"
    with Weft.open(tmp_path / "home", create=True, clock="replay") as weft, served(weft, running) as site:
        rooms.write_text("name,room\nanna,1\nben,2\n")
        weft.add_source("rooms", "csv", rooms, "name")
        weft.poll_source("rooms", now="2026-03-01 10:00:00.5")
        rooms.write_text("name,room\nanna,1\n")
        weft.poll_source("rooms", now="2026-03-05")
        page = site.window()
        page.goto("/views/rooms")
        expect(page.get_by_text("1 row held at")).to_be_visible()
        page.get_by_role("slider").focus()
        page.keyboard.press("Home")
        expect(page.get_by_text("2 rows held at")).to_be_visible()
        expect(page.get_by_role("cell", name="ben")).to_be_visible()
        expect(page).to_have_url(re.compile(r"[?&]at=\d+"))
        page.go_back()
        expect(page.get_by_text("1 row held at")).to_be_visible()
        expect(page.get_by_role("heading", name="Periods")).to_be_visible()
        expect(page.get_by_role("navigation", name="Areas")).to_be_visible()
    closed(running)


def test_a_token_is_shown_once_and_opens_the_api(site: Served) -> None:
    asked(site, "by_token", site.add("tim", "author"))
    page = site.signed_in("tim")
    page.goto("/account")
    page.get_by_text("New token").click()
    page.get_by_label("What it is for").fill("a robot")
    button(page, "Create")
    token = page.get_by_role("status").locator("pre").inner_text()
    page.goto("/account")
    expect(page.get_by_text("a robot")).to_be_visible()
    assert token not in page.content()
    assert [each["name"] for each in api(site, token, "/api/v1/queries")["items"]] == ["by_token"]
    button(page, "Withdraw")
    notice(page, "The token is withdrawn")
    with pytest.raises(OSError, match="401"):
        api(site, token, "/api/v1/queries")


def api(site: Served, token: str, path: str) -> dict[str, list[dict[str, str]]]:
    with urlopen(Request(site.url + path, headers={"Authorization": f"Bearer {token}"}), timeout=30) as answer:
        found: dict[str, list[dict[str, str]]] = json.load(answer)
        return found


def test_signing_out_ends_the_session(site: Served) -> None:
    site.add("sam", "reader")
    page = site.signed_in("sam")
    cookies = page.context.cookies()
    button(page, "Sign out")
    notice(page, "You are signed out")
    page.go_back()
    page.context.add_cookies(cookies)
    page.goto("/queries")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


def test_guessing_a_password_is_limited(site: Served) -> None:
    site.add("gus", "reader")
    page = site.window()
    for _ in range(10):
        sign_in(page, "gus", "wrong")
        expect(page.get_by_role("alert")).to_contain_text("the name or the password is wrong")
    sign_in(page, "gus")
    expect(page.get_by_role("alert")).to_contain_text("too many attempts")


def test_reading_pausing_and_loading_work_without_javascript(site: Served) -> None:
    key = asked(site, "scriptless", site.add("nora", "author"))
    page = site.signed_in("nora", java_script_enabled=False)
    expect(page.get_by_text("3 new")).to_be_visible()
    button(page, "Mark as read")
    notice(page, "The answers of scriptless are read")
    page.goto(f"/queries/{key}")
    button(page, "Pause")
    notice(page, "scriptless is paused")
    admin = site.signed_in("ada", java_script_enabled=False)
    admin.goto("/tables/-/upload")
    upload(admin, "scriptless", b"id,who,total\n8,late,1\n")
    button(admin, "Store the rows")
    notice(admin, "1 stored")


def test_back_and_reload_show_a_result_again_with_its_text(site: Served) -> None:
    table(site, "looked_up")
    tick(site)
    page = site.signed_in("ada")
    page.goto("/ask")
    page.locator(".cm-content").fill("SELECT t.id FROM looked_up t")
    button(page, "Explain")
    result = page.get_by_text("An answer appears when a row of looked_up (as t) arrives")
    expect(result).to_be_visible()
    expect(page.get_by_role("link", name="Ask", exact=True)).to_have_attribute("aria-current", "page")
    page.goto("/tables/looked_up")
    page.go_back()
    expect(result).to_be_visible()
    expect(page.locator(".cm-content")).to_have_text("SELECT t.id FROM looked_up t")
    page.reload()
    expect(result).to_be_visible()
    button(page, "Try")
    expect(page.locator("#outcome tbody tr")).to_have_count(3)
    page.go_back()
    expect(result).to_be_visible()


def test_a_long_try_is_cancelled(site: Served) -> None:
    table(site, "endless", 3_000)
    tick(site)
    squares = "a.id * a.id + b.id * b.id + c.id * c.id"  # of three squares, no sum is 7 modulo 8
    sql = f"SELECT a.id FROM endless a, endless b, endless c WHERE {squares} = 8000007"
    page = site.signed_in("ada")
    page.goto("/ask")
    page.locator(".cm-content").fill(sql)
    button(page, "Try")
    expect(page.get_by_role("heading", name="Try a query")).to_be_visible()
    expect(page.get_by_text("running", exact=True)).to_be_visible()
    button(page, "Cancel")
    notice(page, "Cancelled: try a query")
    expect(page.locator(".cm-content")).to_have_text(sql)
    page.locator(".cm-content").fill("SELECT a.id FROM endless a WHERE a.id = 7")
    button(page, "Try")
    expect(page.get_by_role("heading", name="1 row as of")).to_be_visible(timeout=60_000)


def test_an_answer_says_why_it_appeared(site: Served) -> None:
    key = asked(site, "explained", site.add("eve", "author"))
    page = site.signed_in("eve")
    page.goto(f"/queries/{key}/answers/2")
    button(page, "Find why")
    why = page.get_by_role("region", name="Why it appeared")
    expect(why.get_by_text(re.compile("Because")).first).to_be_visible(timeout=120_000)
    expect(why.get_by_text("person 2").first).to_be_visible()
    page.get_by_role("link", name="3 →").click()
    expect(page.get_by_role("heading", name="Answer 3")).to_be_visible()


def test_a_text_is_replaced_after_a_dry_run(site: Served) -> None:
    table(site, "replaced")
    sql = "SELECT t.id, t.who FROM replaced t WHERE t.total > {}"
    key = site.weft.install("replaced", sql.format(2), user="ada").query_id
    tick(site)
    assert site.weft.query(key).rows == 2
    page = site.signed_in("ada")
    page.goto(f"/queries/{key}/change")
    page.get_by_label("Text", exact=True).fill(sql.format(1))
    button(page, "See what changes")
    expect(page.get_by_role("status")).to_contain_text("1 answer would be new", timeout=120_000)
    assert site.weft.query(key).sql == sql.format(2)
    button(page, "Replace the text")
    expect(page.get_by_role("status")).to_contain_text("The query has its new text", timeout=120_000)
    tick(site)
    assert site.weft.query(key).rows == 3
