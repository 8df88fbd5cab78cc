"""The page docs/reference/rights.md: who may do what, through which door.  Each cell is what the program did.

``make bless`` writes the page. ``test_rights_page.py`` tries each cell and checks the page.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from starlette.testclient import TestClient

from shown_pages import field
from web_server import Web, web
from weft.algebra.form_parameter import FormParameter
from weft.api.weft import Weft
from weft.cli.app import run
from weft.cli.server.door import command_route
from weft.cli.server.server import LocalServer
from weft.rights.principal import SCOPES, Principal, Role
from weft.web.app import application
from weft.web.callers import session_cookie
from weft.web.site import Site

HEAD: Final = """\
# Who may do what

The tests write this page: each cell is what the server answered. [Users and rights](../how-to/users-and-rights.md)
says what roles and rights are.

- **yes**: it is done. **refused**: the person may know that it exists. **hidden**: it is refused like what does not
  exist. **sign in**: the server asks who it is. **–**: there is nothing to try.
- *Granted*: the person has the right by a grant, or owns the query. A token has all scopes. *Nobody* sends no name,
  and at the channel was a user and is none any more. *A guest* has the link of the shared query, and sends its secret
  as a token, too.
- *Command* is the command line over HTTPS. At the *channel*, the right of the owner of the query is meant.
"""
SECRET: Final = f"whsec_{base64.b64encode(bytes(24)).decode()}"
PASSWORD: Final = "a long enough password"
DOORS: Final = ("page", "API", "command", "feed", "shared link", "channel")


@dataclass(frozen=True)
class Person:
    """A column of the page."""

    title: str
    name: str | None
    role: Role | None
    granted: bool = False


PEOPLE: Final = (
    Person("admin", "ada", "admin"),
    Person("author", "ann", "author"),
    Person("author, granted", "abe", "author", granted=True),
    Person("reader", "rea", "reader"),
    Person("reader, granted", "rob", "reader", granted=True),
    Person("nobody", None, None),
    Person("a guest", None, "reader"),
)
REMOVED: Final = "gone"
"""The user who owned a query and was removed."""


@dataclass
class Visitor:
    """A person at the doors of a home: with a session at the page, and with a token at the other doors."""

    person: Person
    client: TestClient
    token: str | None
    own: int
    number: int
    file: str

    @property
    def _headers(self) -> dict[str, str]:
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def page(self, path: str, **fields: str) -> str:
        """Open a page, or send its form."""
        if not fields:
            return _outcome(self.client.get(path))
        form = self.client.get("/sign-in" if self.person.name is None else "/saved/1").text
        answer = self.client.post(path, data={"csrf": field(form), **fields})
        # A refusal stays in the form: at the address of the form, or as the result of its job.
        stays = answer.url.path == path or answer.url.path.startswith("/jobs/")
        refused = stays and answer.status_code == 200 and fields["do"] in ("install", "save")
        return _refusal(answer.text) if refused else _outcome(answer)

    def api(self, path: str, method: str | None = None, /, **body: Any) -> str:
        """Call an operation: by default GET without a body, and POST with one."""
        return _outcome(self._asked(f"/api/v1{path}", method, **({"json": body} if body else {})))

    def _asked(self, path: str, method: str | None = None, **how: Any) -> Any:
        self.client.cookies.clear()
        return self.client.request(method or ("POST" if how else "GET"), path, headers=self._headers, **how)

    def rows(self, path: str, line: str) -> str:
        """Send rows."""
        self.client.cookies.clear()
        headers = {**self._headers, "content-type": "application/x-ndjson"}
        return _outcome(self.client.post(f"/api/v1{path}", content=line, headers=headers))

    def feed(self, path: str) -> str:
        """Read a format."""
        self.client.cookies.clear()
        return _outcome(self.client.get(path, headers=self._headers))

    def command(self, *words: str) -> str:
        """Type a command on another machine."""
        size = {"width": 80, "height": 25, "terminals": [False] * 3, "encodings": ["utf-8"] * 2}
        typed = {**size, "arguments": list(words), "variables": {}, "stdin": None}
        answer = self._asked("/api/v1/commands", json=typed)
        if answer.status_code != 200:
            return _outcome(answer)
        said = [json.loads(each) for each in answer.text.splitlines()]
        if said[-1]["end"] == 0:
            return "yes"
        return _refusal("".join(each.get("err", "") for each in said))


def _outcome(answer: Any) -> str:
    if answer.status_code == 401 or answer.url.path == "/sign-in":
        return "sign in"
    match answer.status_code:
        case 200 | 201 | 202:
            return "yes"
        case 404:
            return "hidden"
        case 403:
            return "sign in" if "not signed in" in answer.text else "refused"
    return _refusal(answer.text)


def _refusal(text: str) -> str:
    missing = ("there is no", "unknown table", "Unknown table", "is not a table")
    return "hidden" if any(each in text for each in missing) else "refused"


SAVED: Final = {"sql": "SELECT o.id FROM open o WHERE o.id > {{least}}"}
OTHER: Final = "SELECT o.id FROM open o WHERE o.id < {{least}}"
Try = Callable[[Visitor], str]
ANSWERS: Final = "read the answers of a query"
FEED: Final = "read the feed of a query (`feed:`)"
LINKED: Final = {ANSWERS: "", FEED: "/feeds/shown.atom"}
"""What a shared link shows, below its address."""
TYPED: Final = {"type_least": "int"}
FIRST_OF_PEOPLE: Final = 4
"""The ID of the first saved query that a person may change at the page."""
RIGHTS: Final[Mapping[str, Mapping[str, Try]]] = {
    ANSWERS: {
        "page": lambda v: v.page("/queries/1"),
        "API": lambda v: v.api("/queries/shown/answers"),
        "command": lambda v: v.command("results", "shown"),
        "feed": lambda v: v.feed("/queries/1/answers.csv"),
    },
    FEED: {"feed": lambda v: v.feed("/feeds/shown.atom")},
    "read a table": {
        "page": lambda v: v.page("/tables/orders"),
        "API": lambda v: v.api("/tables/orders"),
        "command": lambda v: v.command("describe", "orders"),
    },
    "read a view": {
        "page": lambda v: v.page("/views/rooms"),
        "API": lambda v: v.api("/tables/rooms/history?known=2026-03-01"),
        "command": lambda v: v.command("history", "rooms", "--known", "2026-03-01"),
    },
    "see the records of a table that could not be read": {
        "page": lambda v: v.page("/tables/orders/quarantine"),
        "API": lambda v: v.api("/quarantine?table=orders"),
    },
    "load rows into a table": {
        "page": lambda v: _upload(v),
        "API": lambda v: v.rows("/tables/orders/rows", '{"id": 5}\n'),
        "command": lambda v: v.command("append", "orders", "id=6"),
    },
    "add a channel (`email:`)": {
        "page": lambda v: v.page(f"/queries/{v.own}", do="subscribe", channel="email:page@example.com"),
        "API": lambda v: v.api(f"/queries/id:{v.own}/channels", to="email:api@example.com"),
        "command": lambda v: v.command("subscribe", f"own-{v.number}", "--to", "email:command@example.com"),
    },
    "add a channel (`feed:`)": {
        "page": lambda v: v.page(f"/queries/{v.own}", do="subscribe", channel=f"feed:page-{v.number}"),
        "API": lambda v: v.api(f"/queries/id:{v.own}/channels", to=f"feed:api-{v.number}"),
        "command": lambda v: v.command("subscribe", f"own-{v.number}", "--to", f"feed:command-{v.number}"),
    },
    "add a channel (`imaps:`)": {
        "page": lambda v: v.page(f"/queries/{v.own}", do="subscribe", channel=_mailbox("page")),
        "API": lambda v: v.api(f"/queries/id:{v.own}/channels", to=_mailbox("api")),
        "command": lambda v: v.command("subscribe", f"own-{v.number}", "--to", _mailbox("command")),
    },
    "add a channel (`file:`)": {
        "page": lambda v: v.page(f"/queries/{v.own}", do="subscribe", channel=f"file:page-{v.number}.jsonl"),
        "API": lambda v: v.api(f"/queries/id:{v.own}/channels", to=f"file:api-{v.number}.jsonl"),
        "command": lambda v: v.command("subscribe", f"own-{v.number}", "--to", f"file:command-{v.number}.jsonl"),
    },
    "install a query of one's own text": {
        "page": lambda v: v.page("/ask", do="install", name=f"page-{v.number}", sql="SELECT o.id FROM open o"),
        "API": lambda v: v.api("/queries", name=f"api-{v.number}", sql="SELECT o.id FROM open o"),
        "command": lambda v: v.command("install", f"command-{v.number}", "SELECT o.id FROM open o"),
    },
    "fill in a saved query": {
        "page": lambda v: v.page("/saved/3"),
        "API": lambda v: v.api("/saved/form-shared/text", values={"least": 1}),
        "command": lambda v: v.command("saved", "show", "form-shared", "--set", "least=1"),
    },
    "install a query from a saved one": {
        "page": lambda v: v.page("/saved/3", do="install", name=f"form-page-{v.number}", value_least="1"),
        "API": lambda v: v.api("/saved/form-shared/install", name=f"form-api-{v.number}"),
        "command": lambda v: v.command("saved", "install", "form-shared", f"form-command-{v.number}"),
    },
    "save a query": {
        "page": lambda v: v.page("/ask", do="save", name=f"page-{v.number}", type_least="int", **SAVED),
        "API": lambda v: v.api("/saved", name=f"api-{v.number}", sql=SAVED["sql"], parameters=["least:int"]),
        "command": lambda v: v.command("saved", "add", f"command-{v.number}", SAVED["sql"], "-p", "least:int"),
    },
    "change a saved query (*granted*: it is hers)": {
        "page": lambda v: v.page("/ask", do="save", name=f"page-of-{v.number}", sql=OTHER, replace="on", **TYPED),
        "API": lambda v: v.api(f"/saved/api-of-{v.number}", "PUT", sql=OTHER, parameters=["least:int"]),
        "command": lambda v: v.command("saved", "add", f"command-of-{v.number}", OTHER, "-p", "least:int", "--replace"),
    },
    "remove a saved query (*granted*: it is hers)": {
        "page": lambda v: v.page(f"/saved/{FIRST_OF_PEOPLE + v.number}", do="remove"),
        "API": lambda v: v.api(f"/saved/api-of-{v.number}", "DELETE"),
        "command": lambda v: v.command("saved", "remove", f"command-of-{v.number}"),
    },
    "change a query (*granted*: it is hers)": {
        "page": lambda v: v.page(f"/queries/{_target(v)}", do="pause"),
        "API": lambda v: v.api(f"/queries/id:{_target(v)}/resume", skip=False),
        "command": lambda v: v.command("pause", f"own-{v.number}" if v.person.granted else "shown"),
    },
    "change one's own account": {
        "page": lambda v: v.page("/account", do="prefer", zone="Europe/Berlin"),
        "command": lambda v: v.command("token", "list"),
    },
    "add a source": {
        "API": lambda v: v.api("/sources", name=f"from_{v.number}", kind="csv", at=v.file, key=["id"], every="1h"),
    },
    "administer the home": {
        "page": lambda v: v.page("/users"),
        "API": lambda v: v.api("/users"),
        "command": lambda v: v.command("user", "list"),
    },
}
"""What is tried at the doors that take requests.  The shared link and the channel are tried by themselves."""


def _mailbox(folder: str) -> str:
    """Name a channel whose password is in a variable that each machine has."""
    return f"imaps://ana@127.0.0.1/{folder}?password_env=PATH"


def _target(visitor: Visitor) -> int:
    return visitor.own if visitor.person.granted else 1


def _upload(visitor: Visitor) -> str:
    form = visitor.client.get("/sign-in" if visitor.person.name is None else "/saved/1").text
    files = {"file": ("rows.csv", b"id\n7\n")}
    return _outcome(visitor.client.post("/tables/-/upload", data={"csrf": field(form), "table": "orders"}, files=files))


def made(folder: Path, port: int) -> Weft:
    """Make a home with queries for each person and a shared query, without Spark.  Their channels are at ``port``."""
    weft = Weft.open(folder, create=True, clock="replay")
    mail = '[smtp]\nhost = "127.0.0.1"\nfrom = "weft@example.com"\ntls = "none"\n'
    (folder / "weft.toml").write_text(f"{mail}[webhook]\nprivate = true\nsecret = {SECRET!r}\n")
    (folder.parent / "rows.csv").write_text("id\n1\n")
    weft.make_table("orders", "id INT")
    weft.make_table("open", "id INT")
    (folder.parent / "staff.csv").write_text("id,room\n1,7\n")
    weft.add_source("staff", "csv", folder.parent / "staff.csv", "id")
    weft.poll_source("staff", now="2026-02-27")
    weft.add_view("rooms", "SELECT s.id, s.room FROM staff s")
    weft.refresh_views("rooms", now="2026-02-28")
    weft.tick(now="2026-03-01")
    weft.append("orders", [{"id": 1}])
    for name, role in [(each.name, each.role) for each in PEOPLE if each.name] + [(REMOVED, "author")]:
        weft.accounts.add_user(name, role)  # type: ignore[arg-type]
        weft.accounts.set_password(weft.accounts.password_link(name).secret, PASSWORD)
    weft.install("shown", "SELECT o.id FROM orders o", user="ada", keep="synopsis")
    for table in ("open", "orders"):
        weft.save_query(f"form-{table}", f"SELECT o.id FROM {table} o WHERE o.id > {{{{least}}}}", ["least:int=0"])
        weft.accounts.grant("everyone", "read", f"saved.form-{table}")
        weft.accounts.grant("everyone", "read", table)
    weft.save_query("form-shared", SAVED["sql"], ["least:int=0"])
    for door in ("page", "api", "command"):
        for number, each in enumerate(PEOPLE):
            owner, name = each.name if each.granted and each.name else "ada", f"{door}-of-{number}"
            weft.catalog.saved.save(
                name, SAVED["sql"], [FormParameter("least", "int", None)], owner, "", 0, replace=False
            )
    weft.subscribe("shown", "feed:shown", from_start=True)
    weft.accounts.grant("everyone", "channel", "webhook")
    for number, name in enumerate(_owners()):
        acting = weft.acting_as(Principal(name, weft.accounts.user(name).user_id))
        acting.install_saved("form-open", f"own-{number}", {"least": number}, keep="synopsis")
        acting.install_saved("form-orders", f"sent-{number}", {"least": 0}, keep="synopsis")
        weft.subscribe(f"sent-{number}", f"webhook:http://127.0.0.1:{port}/{number}")
    weft.accounts.revoke("everyone", "read", "orders")
    for each in PEOPLE:
        if each.name is not None and each.granted:
            for right, about in (
                ("read", "orders"),
                ("read", "rooms"),
                ("load", "orders"),
                ("read", "results.shown"),
                ("read", "saved.form-shared"),
                ("channel", "email"),
                ("channel", "feed"),
            ):
                weft.accounts.grant(each.name, right, about)
    weft.accounts.remove_user(REMOVED)
    weft.tick(now="2026-03-02")
    return weft


def _owners() -> list[str]:
    return [*(each.name for each in PEOPLE if each.name), REMOVED]


@cache
def _session(weft: Weft, name: str) -> str:
    return weft.accounts.sign_in(name, PASSWORD).secret


def _visitor(weft: Weft, site: Site, client: TestClient, number: int, link: str, door: str) -> Visitor:
    client.cookies.clear()
    person = PEOPLE[number]
    file = str(weft.home.parent / "rows.csv")
    if person.name is None:
        return Visitor(person, client, link if person.role else None, 1, number, file)
    if door == "page":
        client.cookies.set(session_cookie(site), _session(weft, person.name))
    token = weft.accounts.create_token(person.name, scopes=SCOPES).secret
    own = next(each.query_id for each in weft.queries() if each.name == f"own-{number}")
    return Visitor(person, client, token, own, number, file)


def _cells(
    weft: Weft, site: Site, client: TestClient, right: str, received: frozenset[str]
) -> Iterator[tuple[str, list[str]]]:
    """Yield (door, outcomes) for a right."""
    link = weft.accounts.share_link("shown").secret
    for door in DOORS:
        tried = RIGHTS[right].get(door)
        if tried is not None:
            visitors = (_visitor(weft, site, client, number, link, door) for number in range(len(PEOPLE)))
            yield door, [tried(each) for each in visitors]
        elif door == "shared link" and right in LINKED:
            links = (link if each.title == "a guest" else "guessed" for each in PEOPLE)
            yield door, [_outcome(client.get(f"/shared/{each}{LINKED[right]}")) for each in links]
        elif door == "channel" and right == ANSWERS:
            yield door, [_sent(received, number, each) for number, each in enumerate(PEOPLE)]


def _sent(received: frozenset[str], number: int, person: Person) -> str:
    """Whether the channel of a query of this owner got its answers."""
    if person.name is None and person.role is not None:
        return "–"
    return "yes" if f"/{number if person.name else len(_owners()) - 1}" in received else "refused"


def page(folder: Path) -> str:
    """Try each cell, and return the page."""
    receiver = Web()
    with web(receiver) as port, made(folder, port) as weft:
        weft.deliver()
        received = frozenset(each.target for each in receiver.requests)
        server, site = LocalServer(weft, run), Site(weft)
        with TestClient(application(site, [command_route(server, site)])) as client:
            parts = [HEAD]
            for right in RIGHTS:
                parts.append(f"\n## To {right}\n\n| | {' | '.join(each.title for each in PEOPLE)} |\n")
                parts.append(f"| --- |{' --- |' * len(PEOPLE)}\n")
                cells = _cells(weft, site, client, right, received)
                parts += [f"| {door} | {' | '.join(row)} |\n" for door, row in cells]
        server.close()
        site.close()
    return "".join(parts)
