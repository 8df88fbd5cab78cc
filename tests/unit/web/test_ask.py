"""A query is written, explained and installed in one flow; a saved query becomes a form."""

from __future__ import annotations

import re
import threading

import pytest
from starlette.testclient import TestClient

from shown_pages import MARKUP, assert_safe, field, sent
from weft.algebra.form_parameter import FormParameter
from weft.api.standing import NewQuery
from weft.api.weft import Weft
from weft.errors import NotFound, SqlError, WeftError
from weft.rights.principal import Principal
from weft.sql.lower.foreign import translate
from weft.web.checks import Checks
from weft.web.pages.ask import DIALECTS

SQL = "SELECT o.id, o.total FROM orders o WHERE o.total > 50"
FORM = "SELECT o.id FROM orders o WHERE o.total > {{least}} AND o.customer <> {{but}}"
PARAMETERS = ["least:decimal=10", "but:string=nobody"]


def ask(browser: TestClient, do: str, sql: str = SQL, **fields: str) -> str:
    return sent(browser, "/ask", browser.get("/ask").text, do=do, sql=sql, **fields)


def test_the_form_shows_a_text_and_names_for_the_editor(browser: TestClient, filled: Weft) -> None:
    shown = browser.get("/ask", params={"sql": MARKUP})
    assert_safe(shown.text)
    assert "&lt;script&gt;" in shown.text
    assert 'src="/static/editor.js?' in shown.text
    names = browser.get("/ask/names.json").json()
    assert names["tables"]["orders"][:3] == ["id", "customer", "total"]
    assert names["results"]["dear"] == ["id", "total"]
    assert browser.get("/static/editor.js").status_code == 200
    assert "Permission is hereby granted" in browser.get("/static/editor.LICENSE").text


def test_a_text_is_explained_and_kept(browser: TestClient, filled: Weft) -> None:
    shown = ask(browser, "explain", name="dear-ones", channels="email:a@example.com", every="1h")
    assert "An answer appears when a row of orders (as o) arrives" in shown
    for kept in (SQL.replace(">", "&gt;"), 'value="dear-ones"', "email:a@example.com", 'value="1h"'):
        assert kept in shown


def test_a_refusal_is_shown_at_its_place_with_all_reasons(browser: TestClient, filled: Weft) -> None:
    shown = ask(browser, "explain", "SELECT o.id,\r\n  o.totl\r\nFROM orders o\r\nWHERE o.custmer = 'x'")
    assert "2 reasons" in shown
    assert "(line 2, column 5)" in shown
    assert "  o.totl\n    ^" in shown
    assert "alert" not in shown.partition('name="sql"')[2]
    assert "WHERE o.custmer = &#39;x&#39;\n        ^" in shown
    assert "Did you mean total?" in shown
    assert "Did you mean customer?" in shown
    assert "\\r" not in shown


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"name": ""}, "the query has no name"),
        ({"name": "x", "channels": "pigeon:home"}, "is not a channel"),
        ({"name": "x", "every": "often"}, "often"),
        ({"name": "dear"}, "dear"),
    ],
)
def test_a_refused_field_of_the_installation_is_refused_beside_it(
    browser: TestClient, filled: Weft, fields: dict[str, str], reason: str
) -> None:
    text, install = ask(browser, "install", **fields).split("Install it")
    assert 'role="alert"' not in text
    assert reason in install.partition('role="alert" id="outcome"')[2].partition("</ul>")[0]


@pytest.mark.parametrize("do", ["explain", "install"])
@pytest.mark.parametrize(
    "sql", ["", MARKUP, "SELECT '", "DROP TABLE orders", "SELECT {{", "SELECT 1; SELECT 2", "\x00"]
)
def test_a_hostile_text_is_refused_and_kept(browser: TestClient, filled: Weft, do: str, sql: str) -> None:
    shown = ask(browser, do, sql, name="x")
    assert 'role="alert"' in shown
    assert len(filled.queries()) == 2


def test_the_editor_asks_for_refusals(browser: TestClient, filled: Weft) -> None:
    token = field(browser.get("/ask").text)
    answer = browser.post("/ask/check", data={"csrf": token, "sql": "SELECT o.totl FROM orders o"}).json()
    assert [(each["line"], each["column"], each["hint"]) for each in answer["problems"]] == [
        (1, 10, "Did you mean total?")
    ]
    assert browser.post("/ask/check", data={"csrf": token, "sql": SQL}).json() == {"problems": []}
    assert browser.post("/ask/check", data={"csrf": token, "sql": FORM}).json() == {"problems": []}
    assert browser.post("/ask/check", data={"sql": SQL}).status_code == 400


def test_a_query_is_installed(browser: TestClient, filled: Weft) -> None:
    assert "the query has no name" in ask(browser, "install")
    shown = ask(browser, "install", name="large", every="1h", start="now", channels="cursor")
    assert "large is installed" in shown
    query = filled.show("large").query
    assert (query.sql, query.every_us, query.from_mode) == (SQL, 3_600_000_000, "now")
    assert "already a query" in ask(browser, "install", name="large")


def test_a_text_in_another_dialect(browser: TestClient, filled: Weft) -> None:
    assert tuple(DIALECTS) == translate.DIALECTS
    text = 'SELECT "o"."id" FROM orders o WHERE o.total > 50'
    assert "This does not work" in ask(browser, "explain", text)
    shown = ask(browser, "explain", text, dialect="duckdb")
    assert "An answer appears" in shown and '<option value="duckdb" selected>' in shown
    token = field(browser.get("/ask").text)
    wrong = {"csrf": token, "sql": text.replace("o.total", "o.totl"), "dialect": "duckdb"}
    [problem] = browser.post("/ask/check", data=wrong).json()["problems"]
    assert (problem["line"], problem["column"]) == (1, text.index("total") + 1)
    assert "must be in Spark" in ask(browser, "save", FORM, name="f", type_least="int", type_but="int", dialect="tsql")
    assert "is not a dialect" in ask(browser, "explain", text, dialect="x")
    assert "is installed" in ask(browser, "install", text, name="cast", dialect="duckdb")
    assert text in filled.show("cast").query.sql
    queries = [NewQuery("a", SQL), NewQuery("b", text, dialect="duckdb"), NewQuery("c", SQL)]
    assert [each.sql for each in filled.install_all(queries)] == [SQL, filled.show("cast").query.sql, SQL]
    with pytest.raises(SqlError, match="totl") as caught:
        filled.install_all([NewQuery("d", wrong["sql"], dialect="duckdb")])
    assert caught.value.where == f"the query d, line 1, column {text.index('total') + 1}"


def test_a_text_in_another_dialect_reads_results_with_any_name(filled: Weft) -> None:
    filled.install("dear-orders", SQL)
    text = 'SELECT r.id FROM results."dear-orders" r WHERE r.id > 1'
    assert "results.`dear-orders`" in filled.install("a", text, dialect="postgres").sql
    [made] = filled.install_all([NewQuery("b", text, dialect="duckdb")])
    assert made.reads == filled.show("a").query.reads
    assert "id > 2" in filled.install("a", text.replace("> 1", "> 2"), dialect="postgres", replace=True).sql


def test_a_form_is_not_filled_in_another_dialect(browser: TestClient, filled: Weft) -> None:
    """A backslash in a constant would mean itself there, and the quote after it would end the constant."""
    text = "SELECT o.id FROM orders o WHERE o.customer <> {{but}}"
    hostile = {"type_but": "string", "value_but": "\\' OR 1=1 --"}
    for do in ("explain", "try", "backtest", "install"):
        assert "must be in Spark" in ask(browser, do, text, name="f", dialect="postgres", **hostile)
    filled.save_query("form", text, (FormParameter("but", "string"),))
    form = browser.get("/saved/1").text
    values = {"value_but": hostile["value_but"], "dialect": "postgres"}
    assert "mine is installed" in sent(browser, "/saved/1", form, do="install", name="mine", **values)
    assert filled.show("mine").query.sql.endswith("<> '\\\\\\' OR 1=1 --'")


def test_parameters_get_types_and_values_and_the_text_is_saved(browser: TestClient, filled: Weft) -> None:
    shown = ask(browser, "explain", FORM)
    assert "Choose their types" in shown
    assert re.findall(r'name="(type_\w+)"', shown) == ["type_least", "type_but"]
    given = {"type_least": "decimal", "type_but": "string", "value_least": "10", "value_but": "it's"}
    assert "An answer appears" in ask(browser, "explain", FORM, **given)
    assert "is not a decimal" in ask(browser, "explain", FORM, **{**given, "value_least": "ten"})
    assert "is saved" in ask(browser, "save", FORM, name="form", description=MARKUP, **given)
    [saved] = filled.saved_queries()
    assert (saved.sql, [str(each) for each in saved.parameters]) == (FORM, ["least:decimal=10", "but:string=it's"])
    assert_safe(browser.get("/saved").text)
    assert "already a saved query" in ask(browser, "save", FORM, name="form", **given)
    assert "is saved" in ask(browser, "save", FORM, name="form", replace="on", **given)
    bare = {name: value for name, value in given.items() if name.startswith("type_")}
    assert "is saved" in ask(browser, "save", FORM, name="bare", **bare)
    assert filled.saved_query("bare").parameters[0].default is None


def test_a_form_is_filled_in_and_installed(browser: TestClient, filled: Weft) -> None:
    filled.save_query("form", FORM, PARAMETERS, description="large orders")
    form = browser.get("/saved/1").text
    assert_safe(form)
    assert 'name="value_least" type="text" inputmode="decimal" value="10"' in form
    hostile = "x' OR '1'='1"
    shown = sent(browser, "/saved/1", form, do="fill", value_least="20", value_but=hostile)
    assert "o.customer &lt;&gt; &#39;x\\&#39; OR \\&#39;1\\&#39;=\\&#39;1&#39;" in shown
    refused = sent(browser, "/saved/1", form, do="install", name="mine", value_least="20 OR 1=1", value_but=hostile)
    assert 'aria-invalid="true"' in refused
    assert 'value="20 OR 1=1"' in refused
    assert "mine is installed" in sent(
        browser, "/saved/1", form, do="install", name="mine", value_least="20", value_but=""
    )
    assert filled.show("mine").query.sql.endswith("o.total > CAST('20' AS DECIMAL(2,0)) AND o.customer <> ''")
    assert "is removed" in sent(browser, "/saved/1", form, do="remove")
    assert browser.get("/saved/1").status_code == 404
    assert browser.get("/saved/9").status_code == 404


def acting(weft: Weft, name: str) -> Weft:
    return weft.acting_as(Principal(name, weft.accounts.user(name).user_id))


def test_a_reader_fills_in_granted_saved_queries_over_readable_tables(filled: Weft) -> None:
    filled.save_query("form", FORM, PARAMETERS)
    filled.accounts.add_user("rea", "reader")
    rea = acting(filled, "rea")
    with pytest.raises(NotFound):
        rea.install_saved("form", "mine")
    filled.accounts.grant("rea", "read", "saved.form")
    with pytest.raises(WeftError, match="there is no table"):
        rea.install_saved("form", "mine")
    filled.accounts.grant("rea", "read", "orders")
    with pytest.raises(WeftError, match="only authors and administrators"):
        rea.install("mine", SQL)
    token = Principal("rea", filled.accounts.user("rea").user_id, scopes=frozenset({"read"}))
    with pytest.raises(WeftError, match="the token does not include the right to install"):
        filled.acting_as(token).install_saved("form", "mine")
    assert rea.install_saved("form", "mine", {"least": 5, "but": "x"}).user == "rea"
    with pytest.raises(WeftError, match="only authors and administrators"):
        rea.install("mine", SQL, replace=True)
    with pytest.raises(WeftError, match="only authors and administrators"):
        rea.replacement("mine", SQL)
    rea.pause("mine")
    rea.resume("mine")
    filled.accounts.revoke("rea", "read", "saved.form")
    with filled.writing("check the rights") as writer:
        writer.rechecks.run()
    assert filled.show("mine").query.reason == "its owner rea is a reader, and readers install no queries"


def test_a_reader_has_forms_but_does_not_write_queries(browser: TestClient, filled: Weft) -> None:
    filled.save_query("form", FORM, PARAMETERS)
    filled.save_query("hidden", FORM, PARAMETERS)
    filled.accounts.add_user("rea", "reader")
    filled.accounts.set_password(filled.accounts.password_link("rea").secret, "a long enough password")
    for about in ("saved.form", "orders"):
        filled.accounts.grant("rea", "read", about)
    sent(browser, "/sign-in", browser.get("/sign-in").text, name="rea", password="a long enough password", next="/")
    assert browser.get("/ask").status_code == 403
    listed = browser.get("/saved").text
    assert_safe(listed)
    assert re.findall(r'href="(/saved/\d+)"', listed) == ["/saved/1"]
    assert browser.get("/saved/2").status_code == 404
    form = browser.get("/saved/1").text
    assert 'value="try"' not in form
    assert 'value="grant"' not in form
    shown = sent(browser, "/saved/1", form, do="install", name="mine", value_least="1", value_but="")
    assert "mine is installed" in shown
    assert 'value="pause"' in shown
    sent(browser, "/saved/1", form, do="grant", subject="everyone")
    assert [each.subject for each in filled.accounts.grants(about="saved.form")] == ["rea"]


def test_a_check_takes_no_longer_than_a_request_waits() -> None:
    checks, over = Checks[int](patience=0.05), threading.Event()

    def slow() -> int:
        over.wait(20)
        return 1

    assert checks.run("ann", slow) is None
    assert checks.run("ann", lambda: 2) is None  # the first one still runs
    assert checks.run("bo", lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        checks.run("bo", lambda: 1 // 0)
    over.set()
    while checks.run("ann", lambda: 4) is None:
        pass
    checks.close()
