"""Passwords, sessions, tokens, the header of a proxy, and links in letters."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from weft import Weft
from weft.errors import NotAllowed, NotFound, Refused
from weft.rights.principal import Principal
from weft.rights.secrets import signed

DAY = 86_400_000_000
GOOD, BETTER = "a good password", "a better password"


class Clock:
    """A wall clock that the test moves."""

    def __init__(self) -> None:
        self.at = 1_790_000_000_000_000

    def __call__(self) -> int:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def home(tmp_path: Path, clock: Clock) -> Iterator[Weft]:
    with Weft.open(tmp_path / "home", create=True, wall=clock) as made:
        made.accounts.add_user("anna", "author")
        made.accounts.add_user("bo")
        yield made


def acting(home: Weft, name: str) -> Weft:
    return home.acting_as(Principal(name, home.accounts.user(name).user_id))


def test_a_link_sets_the_password_once(home: Weft) -> None:
    link = home.accounts.password_link("anna")
    with pytest.raises(Refused, match="at least 10"):
        home.accounts.set_password(link.secret, "short")
    home.accounts.set_password(link.secret, GOOD)
    with pytest.raises(NotAllowed, match="not valid any more"):
        home.accounts.set_password(link.secret, BETTER)
    session = home.accounts.sign_in("ANNA", GOOD)
    principal = home.accounts.of_session(session.secret, address="192.0.2.1")
    assert principal == Principal("anna", 1, door="page", address="192.0.2.1")


def test_a_link_works_once_at_the_same_time_too(home: Weft) -> None:
    link, done = home.accounts.password_link("anna").secret, []

    def use(password: str) -> None:
        try:
            home.accounts.set_password(link, password, address="192.0.2.3")
        except NotAllowed:
            return
        done.append(password)

    threads = [threading.Thread(target=use, args=(f"a password of {number}",)) for number in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(done) == 1
    home.accounts.sign_in("anna", done[0])
    logged = [
        (each.user, each.address, each.outcome) for each in home.accounts.audit() if each.action == "set_password"
    ]
    assert [each for each in logged if each[2] == "done"] == [("anna", "192.0.2.3", "done")]


def test_a_link_expires(home: Weft, clock: Clock) -> None:
    link = home.accounts.password_link("anna")
    clock.at += 7 * DAY
    with pytest.raises(NotAllowed):
        home.accounts.set_password(link.secret, GOOD)


@pytest.mark.parametrize(
    ("name", "password"), [("anna", BETTER), ("anna", ""), ("bo", GOOD), ("nobody", GOOD), ("", "")]
)
def test_the_error_of_a_sign_in_does_not_name_the_wrong_part(home: Weft, name: str, password: str) -> None:
    home.accounts.set_password(home.accounts.password_link("anna").secret, GOOD)
    with pytest.raises(NotAllowed) as refused:
        home.accounts.sign_in(name, password, address="192.0.2.9")
    assert refused.value.message == "the name or the password is wrong"
    tried = home.accounts.audit(1)[0]
    assert (tried.user, tried.action, tried.address, tried.outcome) == (name, "sign_in", "192.0.2.9", "refused")


def test_all_sessions_end_with_the_password(home: Weft) -> None:
    home.accounts.set_password(home.accounts.password_link("anna").secret, GOOD)
    sessions = [home.accounts.sign_in("anna", GOOD).secret for _ in range(2)]
    later_link = home.accounts.password_link("anna")
    with pytest.raises(NotAllowed, match="present password is wrong"):
        acting(home, "anna").accounts.change_password(BETTER, GOOD)
    assert all(home.accounts.of_session(each) for each in sessions)
    acting(home, "anna").accounts.change_password(GOOD, BETTER)
    assert not any(home.accounts.of_session(each) for each in sessions)
    with pytest.raises(NotAllowed):
        home.accounts.set_password(later_link.secret, GOOD)
    with pytest.raises(NotAllowed):
        home.accounts.sign_in("anna", GOOD)
    home.accounts.sign_in("anna", BETTER)


def test_a_session_ends_by_itself_by_signing_out_and_with_its_user(home: Weft, clock: Clock) -> None:
    home.accounts.set_password(home.accounts.password_link("anna").secret, GOOD)
    session = home.accounts.sign_in("anna", GOOD).secret
    assert home.accounts.of_token(session) is None
    home.accounts.sign_out(session)
    home.accounts.sign_out(session)
    assert home.accounts.of_session(session) is None
    session = home.accounts.sign_in("anna", GOOD).secret
    clock.at += 30 * DAY
    assert home.accounts.of_session(session) is None
    session = home.accounts.sign_in("anna", GOOD).secret
    home.accounts.remove_user("anna")
    assert home.accounts.of_session(session) is None
    with pytest.raises(NotAllowed):
        home.accounts.sign_in("anna", GOOD)


def test_a_token_works_until_it_expires_or_is_withdrawn(home: Weft, clock: Clock) -> None:
    token = home.accounts.create_token("anna", scopes=["read", "install"], expires="2d", label="a program")
    assert token.secret.startswith("weft_")
    assert token.secret not in repr(token)
    found = home.accounts.of_token(token.secret)
    assert found is not None and (found.name, found.scopes) == ("anna", {"read", "install"})
    assert home.accounts.of_token(token.secret + "x") is None
    assert [each.label for each in home.accounts.tokens()] == ["a program"]
    clock.at += 2 * DAY
    assert home.accounts.of_token(token.secret) is None
    lasting = home.accounts.create_token("anna", expires=None)
    clock.at += 2_000 * DAY
    assert home.accounts.of_token(lasting.secret) is not None
    home.accounts.withdraw_token(lasting.record.secret_id)
    assert home.accounts.of_token(lasting.secret) is None
    for scopes in ([], ["write"]):
        with pytest.raises(Refused):
            home.accounts.create_token("anna", scopes=scopes)  # type: ignore[arg-type]


def test_everybody_has_her_own_tokens(home: Weft) -> None:
    anna, bo = acting(home, "anna"), acting(home, "bo")
    own = anna.accounts.create_token(scopes=["read"])
    with pytest.raises(NotAllowed):
        bo.accounts.create_token("anna")
    with pytest.raises(NotAllowed):
        bo.accounts.tokens("anna")
    with pytest.raises(NotFound):
        bo.accounts.withdraw_token(own.record.secret_id)
    assert bo.accounts.tokens() == ()
    assert [each.secret_id for each in anna.accounts.tokens()] == [own.record.secret_id]
    anna.accounts.withdraw_token(own.record.secret_id)


def test_only_the_proxy_of_the_settings_names_the_user(home: Weft) -> None:
    assert home.accounts.of_proxy("anna", "127.0.0.1") is None
    (home.home / "weft.toml").write_text('[web]\nproxy = ["127.0.0.1"]\n')
    found = home.accounts.of_proxy("anna", "127.0.0.1")
    assert found is not None and (found.name, found.door, found.address) == ("anna", "proxy", "127.0.0.1")
    behind = home.accounts.of_proxy("anna", "127.0.0.1", address="192.0.2.8")
    assert behind is not None and behind.address == "192.0.2.8"
    for name, peer in (("anna", "192.0.2.1"), ("nobody", "127.0.0.1"), ("", "127.0.0.1")):
        assert home.accounts.of_proxy(name, peer) is None


def test_the_catalog_has_no_secret(home: Weft) -> None:
    home.make_table("t", "a INT")
    home.install("q", "SELECT a FROM t")
    link = home.accounts.password_link("anna")
    home.accounts.set_password(home.accounts.password_link("bo").secret, GOOD)
    secrets = [
        GOOD,
        link.secret,
        home.accounts.sign_in("bo", GOOD).secret,
        home.accounts.create_token("anna").secret,
        home.accounts.share_link("q").secret,
    ]
    home.close()
    stored = b"".join(each.read_bytes() for each in home.home.glob("catalog.sqlite*"))
    assert not [each for each in secrets if each.encode() in stored]


def test_a_signed_link_ends_one_subscription_for_a_time(home: Weft, clock: Clock) -> None:
    home.make_table("t", "a INT")
    home.install("q", "SELECT a FROM t", to=["file:a.csv", "file:b.csv"])
    first, second = home.show("q").subscriptions
    key = home.catalog.link_key()
    assert home.catalog.link_key() == key
    until = clock.at + DAY
    name = f"{first.sub_id}-{until}"
    for wrong in (name, signed("another", name), signed(key, str(first.sub_id)), signed(key, "x"), ""):
        with pytest.raises(NotAllowed):
            home.accounts.unsubscribe_by(wrong)
    ended = home.accounts.unsubscribe_by(signed(key, name), address="192.0.2.4")
    assert ended.state == "ended"
    assert home.show("q").subscriptions == (second,)
    assert home.accounts.audit(1)[0].address == "192.0.2.4"
    clock.at = until
    with pytest.raises(NotAllowed, match="has expired"):
        home.accounts.unsubscribe_by(signed(key, f"{second.sub_id}-{until}"))
    assert home.show("q").subscriptions == (second,)


def test_the_log_forgets_in_time(home: Weft, clock: Clock) -> None:
    clock.at += 300 * DAY
    home.accounts.add_group("late")
    assert list(home.maintain()) == []
    clock.at += 100 * DAY
    [planned] = home.maintain(dry_run=True)
    assert "add_user" in {each.action for each in home.accounts.audit()}
    assert (planned.name, planned.action, planned.what) == ("audit", "delete", "1 action more than 365d ago")  # type: ignore[union-attr]
    assert list(home.maintain()) == [planned]
    assert {each.action for each in home.accounts.audit()} == {"add_group", "maintain"}


def test_preferences_are_ones_own(home: Weft) -> None:
    home.make_table("t", "a INT")
    home.accounts.grant("anna", "read", "t")
    home.accounts.grant("anna", "channel", "email")
    (home.home / "weft.toml").write_text('[smtp]\nhost = "127.0.0.1"\nfrom = "weft@example.com"\ntls = "none"\n')
    anna = acting(home, "anna")
    assert anna.accounts.prefer(digest="daily@08:00", zone="Europe/Paris").zone == "Europe/Paris"
    anna.install("q", "SELECT a FROM t", to="email:anna@example.com")
    anna.subscribe("q", "email:two@example.com", digest="hourly")
    assert [each.digest for each in anna.show("q").subscriptions] == ["daily@08:00", "hourly"]
    for wrong in ({"digest": "sometimes"}, {"zone": "Nowhere"}):
        with pytest.raises(Refused):
            anna.accounts.prefer(**wrong)
    with pytest.raises(Refused, match="no account"):
        home.accounts.prefer()


def test_read_marks_are_those_of_readable_queries(home: Weft) -> None:
    home.make_table("t", "a INT")
    query = home.install("q", "SELECT a FROM t")
    bo = acting(home, "bo")
    assert bo.accounts.unread([query.query_id]) == {}
    with pytest.raises(NotFound):
        bo.accounts.mark_read(query.query_id)
    home.accounts.grant("bo", "read", "results.q")
    assert bo.accounts.unread([query.query_id, 99]) == {query.query_id: 0}
    bo.accounts.mark_read(query.query_id)
    assert bo.accounts.read_ordinals({query.query_id: (1, 3), 99: (1, 1)}) == {query.query_id: frozenset()}
