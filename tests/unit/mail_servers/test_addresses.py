"""The URIs of folders and newsgroups: what they mean, what is refused, and that no message shows a password."""

from __future__ import annotations

import pytest

from weft.errors import Refused
from weft.mail_servers.address import mail_place
from weft.mail_servers.imap import folder_name, texts_by_uid


@pytest.mark.parametrize(
    ("uri", "port", "tls"),
    [
        ("imaps://ana@mail.example/INBOX", 993, "implicit"),
        ("imap://ana@mail.example/INBOX", 143, "starttls"),
        ("imap://ana@localhost:1143/INBOX?tls=off", 1143, "off"),
        ("imap://mail.example/INBOX?tls=off", 143, "off"),
        ("imaps://ana@[2001:db8::1]/INBOX", 993, "implicit"),
    ],
)
def test_a_session_is_encrypted_unless_the_uri_says_otherwise(uri: str, port: int, tls: str) -> None:
    place = mail_place(uri, "imap")
    assert (place.port, place.tls) == (port, tls)
    assert mail_place(place.text, "imap") == place


@pytest.mark.parametrize(
    ("uri", "why"),
    [
        ("imaps://ana:se%63ret@mail.example/INBOX", "must not contain a password"),
        ("imaps://ana:secret@mail.example/INBOX?password_env=A", "must not contain a password"),
        ("imap://ana:secret@mail.example:x/INBOX", "not the URI"),
        ("nntp://mail.example/INBOX", "needs a scheme"),
        ("imaps://mail.example/", "needs a scheme"),
        ("imaps:///INBOX", "needs a scheme"),
        ("imaps://mail.example/INBOX#x", "needs a scheme"),
        ("imaps://mail.example/INBOX?tls=off", "tls may only be off"),
        ("imap://mail.example/INBOX?tls=on", "tls may only be off"),
        ("imap://mail.example/INBOX?password=secret", "parameters are"),
        ("imap://mail.example/INBOX?tls=off&tls=off", "parameters are"),
        ("imap://mail.example/INBOX?password_env=A-B", "not the name of an environment variable"),
        ("imap://mail.example/IN%0D%0ABOX", "control characters"),
        ("imap://a%0D%0Ab@mail.example/INBOX", "control characters"),
        ("imap://ana@mail.example/INBOX?tls=off", "unencrypted"),
    ],
)
def test_other_uris_are_refused_without_a_password_in_the_message(uri: str, why: str) -> None:
    with pytest.raises(Refused, match=why) as refused:
        mail_place(uri, "imap")
    assert "secret" not in str(refused.value) and "se%63ret" not in str(refused.value)


def test_a_folder_name_is_quoted_in_modified_utf_7() -> None:
    assert folder_name("台北") == '"&U,BTFw-"'  # RFC 3501, section 5.1.3
    assert folder_name('a "b" \\ c') == '"a \\"b\\" \\\\ c"'


def test_a_uid_may_follow_the_text() -> None:
    data = [(b"1 (UID 7 BODY[] {3}", b"one"), b")", (b"2 (BODY[] {3}", b"two"), b" UID 9)", b"3 (UID 8 FLAGS ())"]
    assert texts_by_uid(data) == {7: b"one", 9: b"two"}
