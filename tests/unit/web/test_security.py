"""The page refuses foreign names, foreign forms and foreign machines, and keeps to its headers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.testclient import TestClient

from shown_pages import field, sent
from weft.api.weft import Weft
from weft.errors import Refused
from weft.web.app import application
from weft.web.callers import address_of
from weft.web.security import LOOPBACK
from weft.web.serving import Address, page_served, read_address
from weft.web.site import Site


def test_each_response_has_the_headers(browser: TestClient) -> None:
    for path in ("/queries", "/no-such-page", "/static/weft.css"):
        headers = browser.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_foreign_name_of_the_host_is_refused(browser: TestClient) -> None:
    assert browser.get("/queries", headers={"host": "evil.example"}).status_code == 421


def test_the_cookie_is_not_for_scripts(browser: TestClient) -> None:
    browser.cookies.clear()
    cookie = browser.get("/sign-in").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "set-cookie" not in browser.get("/sign-in").headers


def test_only_the_key_opens_a_home_without_users(browser: TestClient) -> None:
    """Other users of the machine reach the page, too."""
    key = browser.app.state.site.key  # type: ignore[attr-defined]
    kept = browser.cookies["weft_key_default"]
    assert (kept, browser.get("/queries").status_code) == (key, 200)
    browser.cookies.clear()
    for wrong in ({}, {"authorization": "Bearer x"}, {"authorization": f"Bearer {key[:-1]}"}, {"authorization": ""}):
        assert browser.get("/queries", headers=wrong, follow_redirects=False).status_code == 303
        refused = browser.get("/api/v1/queries", headers=wrong)
        assert (refused.status_code, "page.key" in refused.json()["hint"]) == (401, True)
        assert browser.get("/metrics", headers=wrong).status_code == 401
    assert browser.get("/api/v1/queries", headers={"authorization": f"Bearer {key}"}).status_code == 200
    assert browser.get(f"/open/{key[:-1]}", follow_redirects=False).headers["location"] == "/sign-in"
    assert "page.key" in browser.get("/sign-in").text
    assert browser.get("/queries", follow_redirects=False).status_code == 303
    assert "Inbox" in browser.get(f"/open/{key}").text


def test_the_key_is_kept_where_only_the_owner_reads_it(weft: Weft) -> None:
    keys = []
    for _ in range(2):
        with page_served(weft, Address(port=0)) as address:
            keys.append(address.page_key)
    file = weft.home / "page.key"
    assert keys == [file.read_text()] * 2
    assert file.stat().st_mode & 0o077 == 0
    assert not list(weft.home.glob(".page.key*"))
    for damaged in (b"", keys[0][:9].encode(), bytes(range(128, 171))):
        file.write_bytes(damaged)
        with pytest.raises(Refused, match="key of the page is damaged"), page_served(weft, Address(port=0)):
            pass


def test_a_key_that_is_half_written_is_no_key(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(descriptor: int) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(os, "fsync", crash)
        with page_served(weft, Address(port=0)):
            pass
    assert not list(weft.home.glob("*page.key*"))
    with page_served(weft, Address(port=0)) as address:
        assert address.page_key == (weft.home / "page.key").read_text()


def test_processes_that_start_at_once_have_one_key(weft: Weft, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = "k" * 43
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", lambda _: (weft.home / "page.key").write_text(theirs))
        with page_served(weft, Address(port=0)) as address:
            assert address.page_key == theirs
    assert [each.name for each in weft.home.glob("*page.key*")] == ["page.key"]


def _request(weft: Weft, peer: str, *forwarded: str) -> Request:
    headers = [(b"x-forwarded-for", each.encode()) for each in forwarded]
    return Request({"type": "http", "client": (peer, 1), "headers": headers})


@pytest.mark.parametrize(
    ("peer", "forwarded", "found"),
    [
        ("127.0.0.1", ("192.0.2.7:51234",), "192.0.2.7"),
        ("127.0.0.1", ("[2001:db8::1]:443, 10.0.0.2:80",), "2001:db8::1"),
        ("192.0.2.1", ("198.51.100.7",), "192.0.2.1"),
        ("127.0.0.1", (), "127.0.0.1"),
        ("127.0.0.1", ("198.51.100.7",), "198.51.100.7"),
        ("127.0.0.1", ("203.0.113.1, 198.51.100.7",), "198.51.100.7"),
        ("127.0.0.1", ("203.0.113.1", "198.51.100.7, 10.0.0.2"), "198.51.100.7"),
        ("127.0.0.1", ("x",), "127.0.0.1"),
        ("127.0.0.1", ("x, 10.0.0.2",), "10.0.0.2"),
        ("127.0.0.1", ("[2001:db8::7]",), "2001:db8::7"),
        ("::ffff:127.0.0.1", ("::ffff:198.51.100.7",), "198.51.100.7"),
    ],
)
def test_only_a_proxy_of_the_settings_names_the_machine(
    weft: Weft, peer: str, forwarded: tuple[str, ...], found: str
) -> None:
    (weft.home / "weft.toml").write_text('[web]\nforwarded_by = ["127.0.0.1", "10.0.0.2"]\n')
    assert address_of(Site(weft), _request(weft, peer, *forwarded)) == found


def test_links_begin_with_an_address_that_nobody_else_chose(weft: Weft) -> None:
    scope = {"type": "http", "scheme": "http", "path": "/", "server": ("192.0.2.5", 8765)}
    evil, own = (Request({**scope, "headers": [(b"host", name)]}) for name in (b"evil.example:8765", b"localhost:8765"))
    everywhere, here = Site(weft), Site(weft, hosts=LOOPBACK)
    assert here.base(own) == "http://localhost:8765"
    assert {everywhere.base(own), everywhere.base(evil), here.base(evil)} == {"http://192.0.2.5:8765"}
    (weft.home / "weft.toml").write_text('[web]\nurl = "https://weft.example.com/"\n')
    assert {each.base(request) for each in (everywhere, here) for request in (own, evil)} == {
        "https://weft.example.com"
    }


def test_over_tls_cookies_belong_to_this_host(weft: Weft) -> None:
    site = Site(weft, tls=True)
    with TestClient(application(site), base_url="https://testserver") as client:
        client.get(f"/open/{site.key}")
        sent(client, "/users", client.get("/users").text, do="add-group", name="team")
        assert {each.name for each in client.cookies.jar} == {"__Host-weft_visitor", "__Host-weft_key_default"}
    assert [each.name for each in weft.accounts.groups()] == ["team"]


def test_a_missing_page_is_a_page(browser: TestClient) -> None:
    shown = browser.get("/queries/x/y/z")
    assert shown.status_code == 404
    assert "<h1>" in shown.text
    assert browser.get("/static/../app.py").status_code == 404
    assert browser.get("/static/%2e%2e/app.py").status_code == 404


LONG = "9" * 5_000
"""More digits than Python reads as a number."""


@pytest.mark.parametrize(
    "path",
    [
        "/queries/{}",
        "/queries/{}.json",
        "/queries/1/answers/{}",
        "/queries/{}/answers.csv",
        "/saved/{}",
        "/queries/{}/plan",
    ],
)
def test_a_long_number_is_no_page(browser: TestClient, path: str) -> None:
    assert browser.get(path.format(LONG)).status_code == 404


def test_long_numbers_in_texts_are_refused(browser: TestClient, filled: Weft) -> None:
    for text in (
        f"SELECT {LONG} AS x FROM orders o",
        f"SELECT o.id FROM orders o ORDER BY o.id LIMIT {LONG}",
        f"SELECT o.id FROM orders o GROUP BY {LONG}",
        f"SELECT o.id FROM orders o WHERE o.ts < NOW() - INTERVAL {LONG} DAYS",
    ):
        assert browser.post("/api/v1/explain", json={"sql": text}).status_code == 422
    given = {"name": "q", "sql": "SELECT o.id FROM orders o", "every": "9" * 59 + "s"}
    assert browser.post("/api/v1/queries", json=given).status_code == 422
    with pytest.raises(Refused, match="not a length of time"):
        filled.install("q", given["sql"], every=f"{LONG}s")


def test_no_text_has_the_character_nul(browser: TestClient) -> None:
    """PostgreSQL does not store it."""
    form = {"csrf": field(browser.get("/tables/-/upload").text), "name": "a\0b", "password": "x"}
    for path in ("/tables/a%00b", "/queries?q=%00", "/shared/%00"):
        assert browser.get(path).status_code == 400
    assert browser.post("/sign-in", data=form).status_code == 400


def test_a_slash_at_the_end_leads_to_this_host_only(browser: TestClient) -> None:
    for path in ("//evil.example/", "/%5Cevil.example/", "/queries/"):
        there = browser.get(path, follow_redirects=False).headers.get("location", "/")
        assert "evil" not in there


def test_other_machines_need_users(weft: Weft) -> None:
    with pytest.raises(Refused, match="has no users"), page_served(weft, Address("0.0.0.0", 0)):
        pass


def test_the_page_is_served(weft: Weft) -> None:
    import httpx2

    with page_served(weft, Address(port=0)) as address:
        assert httpx2.get(f"{address.url}queries").status_code == 303
        with httpx2.Client(follow_redirects=True) as client:
            assert "Inbox" in client.get(address.opening).text
            assert client.get(f"{address.url}queries").status_code == 200


def test_the_page_is_served_over_tls(weft: Weft, tmp_path: Path) -> None:
    import ssl

    import httpx2
    import trustme

    authority = trustme.CA()
    issued = authority.issue_cert("localhost")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    issued.private_key_pem.write_to_path(str(key))
    for number, blob in enumerate(issued.cert_chain_pems):
        blob.write_to_path(str(certificate), append=number > 0)
    context = ssl.create_default_context()
    authority.configure_trust(context)
    with page_served(weft, read_address("localhost:0", certificate, key)) as address:
        shown = httpx2.get(f"https://localhost:{address.port}/sign-in", verify=context)
    assert shown.status_code == 200
    assert "strict-transport-security" in shown.headers
    assert "; secure" in shown.headers["set-cookie"].lower()
    assert shown.headers["set-cookie"].startswith("__Host-weft_visitor=")


def test_files_that_cannot_be_used_for_tls_are_refused(tmp_path: Path) -> None:
    """The server must not ask for the password of a key on the terminal."""
    import trustme
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    one, two = (trustme.CA().issue_cert("localhost") for _ in range(2))
    certificate, key, other = (tmp_path / f"{name}.pem" for name in ("certificate", "key", "other"))
    one.cert_chain_pems[0].write_to_path(str(certificate))
    one.private_key_pem.write_to_path(str(key))
    assert read_address("8765", certificate, key).tls
    two.private_key_pem.write_to_path(str(other))
    with pytest.raises(Refused, match="the key belongs to another certificate"):
        read_address("8765", certificate, other)
    secret = load_pem_private_key(key.read_bytes(), None)
    encrypted = secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"a password"))
    for wrong in (b"no key", b"", certificate.read_bytes(), encrypted):
        other.write_bytes(wrong)
        with pytest.raises(Refused, match="not in PEM format, or the key is encrypted"):
            read_address("8765", certificate, other)


def test_tls_needs_both_files(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="certificate and its key"):
        read_address("8765", tmp_path / "cert.pem")
    with pytest.raises(Refused, match="there is no file"):
        read_address("8765", tmp_path / "cert.pem", tmp_path / "key.pem")


@pytest.mark.parametrize("text", ["", "x", "1:2:x", "host:70000", "-1", "٣"])
def test_an_invalid_address_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="not an address"):
        read_address(text)
