"""The page refuses foreign names, foreign forms and foreign machines, and keeps to its headers."""

from __future__ import annotations

from pathlib import Path

import pytest
from starlette.testclient import TestClient

from shown_pages import field
from weft.api.weft import Weft
from weft.errors import Refused
from weft.web.serving import Address, page_served, read_address


def test_each_response_has_the_headers(browser: TestClient) -> None:
    for path in ("/queries", "/no-such-page", "/static/weft.css"):
        headers = browser.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_a_foreign_name_of_the_host_is_refused(browser: TestClient) -> None:
    assert browser.get("/queries", headers={"host": "evil.example"}).status_code == 421


def test_the_cookie_is_not_for_scripts(browser: TestClient) -> None:
    cookie = browser.get("/queries").headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "set-cookie" not in browser.get("/queries").headers


def test_a_missing_page_is_a_page(browser: TestClient) -> None:
    shown = browser.get("/queries/x/y/z")
    assert shown.status_code == 404
    assert "<h1>" in shown.text
    assert browser.get("/static/../app.py").status_code == 404
    assert browser.get("/static/%2e%2e/app.py").status_code == 404


def test_no_text_has_the_character_nul(browser: TestClient) -> None:
    """PostgreSQL does not store it."""
    form = {"csrf": field(browser.get("/tables/upload").text), "name": "a\0b", "password": "x"}
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
        assert httpx2.get(f"{address.url}queries").status_code == 200


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
        shown = httpx2.get(f"https://localhost:{address.port}/queries", verify=context)
    assert shown.status_code == 200
    assert "strict-transport-security" in shown.headers
    assert "; secure" in shown.headers["set-cookie"].lower()


def test_tls_needs_both_files(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="certificate and its key"):
        read_address("8765", tmp_path / "cert.pem")
    with pytest.raises(Refused, match="there is no file"):
        read_address("8765", tmp_path / "cert.pem", tmp_path / "key.pem")


@pytest.mark.parametrize("text", ["", "x", "1:2:x", "host:70000", "-1", "٣"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(Refused, match="not an address"):
        read_address(text)
