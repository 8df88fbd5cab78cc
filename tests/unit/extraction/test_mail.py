"""One message: what is read from it, and why it is refused."""

from __future__ import annotations

import base64

import pytest

from letters import APRIL_5, AT, letter, read, row
from weft.extraction.batches import MAX_LINE, RawRecord
from weft.extraction.mail.message import MailOptions

DAY = 86_400_000_000


def multipart(*parts: str, boundary: str = "b", end: str = "--b--\n", declared: str = '; boundary="b"') -> bytes:
    body = "".join(f"--{boundary}\n{part}\n" for part in parts) + end
    return letter(body, MIME_Version="1.0", Content_Type=f"multipart/mixed{declared}")


def test_a_plain_article_becomes_a_row_of_text_and_one_instant() -> None:
    assert row(letter()) == {
        "msgid": "1@x",
        "sender": "a@b (A B)",
        "subject": "s",
        "date": APRIL_5,
        "newsgroup": "sci.space",
        "inreplyto": None,
        "body": "Hello\n",
    }


def test_a_cross_post_is_a_row_a_group_each_once_in_order() -> None:
    rows = read(letter(Newsgroups="sci.space, sci.crypt,,sci.space,\n\talt.x"))
    assert [each["newsgroup"] for each in rows if isinstance(each, dict)] == ["sci.space", "sci.crypt", "alt.x"]


@pytest.mark.parametrize(
    ("headers", "option", "group"),
    [
        ({"Newsgroups": "a.b", "List_Id": "<l.x>"}, "given", "a.b"),
        ({"Newsgroups": None, "List_Id": "<l.x>"}, "given", "given"),
        ({"Newsgroups": None, "List_Id": "R devel <r-devel.r-project.org>"}, None, "r-devel.r-project.org"),
        ({"Newsgroups": None, "List_Id": "bare.list.id"}, None, "bare.list.id"),
        ({"Newsgroups": " , ", "List_Id": None}, None, "stem"),
    ],
)
def test_the_group_of_a_message(headers: dict[str, str | None], option: str | None, group: str) -> None:
    assert row(letter(**headers), MailOptions(option, AT))["newsgroup"] == group


@pytest.mark.parametrize(
    ("headers", "parent"),
    [
        ({"References": "<a@x> <b@x>\n\t<c@x>"}, "c@x"),
        ({"References": "<a@x><b@x>", "In_Reply_To": "<z@x>"}, "b@x"),
        ({"References": "none", "In_Reply_To": "<z@x>"}, "z@x"),
        ({"In_Reply_To": '<z@x> from "John Doe" at Apr 5, 93 12:00 pm'}, "z@x"),
        ({"In_reply_to": "mangoe@cs.umd.edu's message of 4 Apr 93 10:56:03 GMT"}, None),
        ({"In_Reply_To": "John Doe <jd@x.com>'s message of Mon, 5 Apr 93"}, None),
        ({"In_Reply_To": "John Doe <jd@x.com>'s message of Mon, 5 Apr 93 <z@x>"}, "z@x"),
        ({"In_Reply_To": 'Your message of "Mon, 05 Apr 93." <z@x>'}, "z@x"),
        ({}, None),
    ],
)
def test_the_message_that_it_replies_to(headers: dict[str, str], parent: str | None) -> None:
    assert row(letter(**headers))["inreplyto"] == parent


@pytest.mark.parametrize("written", ["<1@x>", " <1@x> ", "1@x", "<1@x> (added by postmaster)", "< 1@x >"])
def test_ids_have_no_brackets_and_no_blanks(written: str) -> None:
    assert row(letter(Message_ID=written))["msgid"] == "1@x"


@pytest.mark.parametrize(
    ("written", "instant"),
    [
        ("5 Apr 93 00:00:00 GMT", APRIL_5),
        ("Mon, 5 Apr 1993 02:00:00 +0200", APRIL_5),
        ("Sun, 4 Apr 1993 19:00:00 EST", APRIL_5),
        ("Mon Apr  5 00:00:00 1993", APRIL_5),
        ("Mon, 5 Apr 1993 00:00", APRIL_5),
        ("Mon, 5 Apr 1993 14:00:00 +1400", APRIL_5),
        ("Thu, 1 Jan 1970 00:00:00 GMT", 0),
        ("Wed, 15 Nov 2023 22:13:20 GMT", AT + DAY),
    ],
)
def test_dates_as_they_are_written(written: str, instant: int) -> None:
    assert row(letter(Date=written))["date"] == instant


@pytest.mark.parametrize(
    "written",
    [
        "19 Apr 93 16:15:19 +3000",
        "17 Apr 93 22:09:04 +1700",
        "31 Feb 93 00:00:00 GMT",
        "5 Apr 93 25:00:00 GMT",
        "yesterday",
        "",
        "Wed, 31 Dec 1969 23:59:59 GMT",
        "Wed, 15 Nov 2023 22:13:21 GMT",
        "5 Apr 99999 00:00:00 GMT",
        " ; ",
        "\udcff\udcfe",
    ],
)
def test_impossible_dates(written: str) -> None:
    reason = read(letter(Date=written))
    assert isinstance(reason, str)
    assert "ate" in reason


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "empty"),
        (b"\n\n", "empty"),
        (letter("a\0b"), "NUL"),
        (letter(Subject="a\0b"), "NUL"),
        (letter(Message_ID=None), "no Message-ID"),
        (letter(Message_ID="<>"), "no Message-ID"),
        (letter(Date=None), "no Date"),
        (b"\x89PNG\r\n\x1a\nrubbish", "no header"),
        (b"just some text\nof two lines\n", "no header"),
        (letter(Newsgroups=",".join(f"g{n}" for n in range(1001))), "cross-posted"),
        (letter(b"\xff\xfe", Content_Type="text/plain; charset=utf-8"), "broken encoding"),
        (letter(b"\xff\xfe", Content_Type="text/plain; charset=no-such-charset"), "broken encoding"),
        (letter("+2AA-", Content_Type="text/plain; charset=utf-7"), "broken encoding"),
        (letter("%%% no base64 %%%", Content_Transfer_Encoding="base64"), "invalid MIME structure"),
        (letter(base64.b64encode(b"a\0b"), Content_Transfer_Encoding="base64"), "NUL"),
        (multipart("\ntext", declared=""), "invalid MIME structure"),
        (multipart("\ntext", declared="; boundary=other"), "invalid MIME structure"),
    ],
)
def test_unreadable_records_have_a_reason(raw: bytes, reason: str) -> None:
    found = read(raw)
    assert isinstance(found, str)
    assert reason in found


def test_a_problem_of_the_source_is_the_reason() -> None:
    from weft.extraction.mail.message import read_message

    assert read_message(RawRecord("p", letter(), "cut short"), "s", MailOptions(None, AT)) == "cut short"


def test_a_body_with_no_line_too_long_is_read() -> None:
    assert len(str(row(letter("x" * (MAX_LINE - 1)))["body"])) == MAX_LINE - 1


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("=?utf-8?q?caf=C3=A9?=", "café"),
        ("=?iso-8859-1?q?a?=\n =?iso-8859-1?q?b?= c", "ab c"),
        ("[Rd] NAV\n =?iso-8859-1?q?viola=E7=E3o?=", "[Rd] NAV violação"),
        ("=?utf-8?q?x=0D=0ABcc:_evil@x=00y?=", "x Bcc: evil@x y"),
        ("=?utf-8?b?dGVzdA0KWC1FdmlsOiAx?=", "test X-Evil: 1"),
        ("=?utf-8?q?bad=FF?=", "=?utf-8?q?bad=FF?="),
        ("=?no-such?q?x?=", "=?no-such?q?x?="),
        ("=?utf-8?b?%?=", "=?utf-8?b?%?="),
        ("a\tb \n\tc", "a b c"),
        ("caf\udce9", "café"),
        ("café", "café"),
    ],
)
def test_header_text_is_decoded_and_then_cleaned(written: str, text: str) -> None:
    values = row(letter(Subject=written, From=written))
    assert values["subject"] == text
    assert values["sender"] == text


def test_missing_headers_are_null() -> None:
    values = row(letter(From=None, Subject=None))
    assert values["sender"] is None
    assert values["subject"] is None


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (letter(b"caf\xe9"), "café"),
        (letter("café"), "café"),
        (letter(b"caf\xe9", Content_Type="text/plain; charset=us-ascii"), "café"),
        (letter(b"caf\xe9", Content_Type="text/plain; charset=ISO-8859-1"), "café"),
        (letter("café", Content_Type="text/plain; charset=no-such-charset"), "café"),
        (letter("xn--", Content_Type="text/plain; charset=idna"), "xn--"),
        (letter("a\r\nb"), "a\nb"),
        (
            letter(
                "caf=C3=A9=\n!", Content_Transfer_Encoding="quoted-printable", Content_Type="text/plain; charset=utf-8"
            ),
            "café!",
        ),
        (letter(base64.b64encode(b"hello"), Content_Transfer_Encoding="base64"), "hello"),
        (letter("x", Content_Type="text"), "x"),
        (multipart("Content-Type: text/html\n\n<p>", "Content-Type: text/plain\n\nplain"), "plain"),
        (multipart("Content-Type: text/html\n\n<p>"), "<p>"),
        (multipart("\nno last boundary", end=""), "no last boundary"),
        (multipart("Content-Type: text/plain\nContent-Disposition: attachment\n\nno", "\nyes"), "yes"),
        (multipart("Content-Type: image/png\n\nx"), None),
    ],
)
def test_bodies(raw: bytes, text: str | None) -> None:
    assert row(raw)["body"] == text


def test_odd_shapes_that_are_read() -> None:
    assert row(b"\xef\xbb\xbf\r\n" + letter())["msgid"] == "1@x"
    assert row(b"From a@b Mon Apr  5 00:00:00 1993\n" + letter())["msgid"] == "1@x"
    assert row(letter().replace(b"\n", b"\r\n"))["body"] == "Hello\n"
    assert row(letter().rstrip(b"Hello\n"))["body"] == ""
    assert row(letter().replace(b"Message-ID", b"MESSAGE-id"))["msgid"] == "1@x"


def test_parts_nested_beyond_reason_raise_nothing() -> None:
    depth = 3_000
    body = "".join(f"--b{n}\nContent-Type: multipart/mixed; boundary=b{n + 1}\n\n" for n in range(depth))
    assert isinstance(read(letter(body, Content_Type="multipart/mixed; boundary=b0")), str | list)
