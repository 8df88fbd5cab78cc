"""Secrets, signatures and passwords."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import pytest

from weft.errors import Refused
from weft.rights import secrets
from weft.rights.secrets import digest_of, fits, new_secret, password_hash, signed, verified

REAL_HASHER = secrets._hasher
"""The hasher before the tests replace it by a quick one (conftest.py)."""


@pytest.fixture
def _real_hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(secrets, "_hasher", REAL_HASHER)
    secrets._nobody.cache_clear()
    yield
    secrets._nobody.cache_clear()


def test_secrets_differ_and_fit_into_an_address() -> None:
    made = {new_secret() for _ in range(100)}
    assert len(made) == 100
    assert all(re.fullmatch(r"[\w-]{43}", each) for each in made)
    assert len({digest_of(each) for each in made}) == 100
    assert not made & {digest_of(each) for each in made}


def test_a_signature_is_bound_to_its_key_and_its_text() -> None:
    token = signed("key", "17")
    assert verified("key", token) == "17"
    assert verified("other", token) is None
    for changed in (token.replace("17.", "18."), token[:-1], token + "0", "", "17", "17.", ".", "\ud800.x", "17.é"):
        assert verified("key", changed) is None


def test_a_password_fits_its_own_hash_only() -> None:
    stored = password_hash("correct horse battery")
    assert "correct" not in stored
    assert fits("correct horse battery", stored)
    for wrong in ("", "correct horse", "correct horse battery ", "\ud800", "x" * 100_000):
        assert not fits(wrong, stored)
    assert not fits("correct horse battery", None)
    assert not fits("correct horse battery", "no hash")
    assert password_hash("correct horse battery") != stored


@pytest.mark.parametrize("password", ["", "short", "x" * 1_001])
def test_a_password_has_a_fair_length(password: str) -> None:
    with pytest.raises(Refused):
        password_hash(password)


@pytest.mark.usefixtures("_real_hashes")
def test_a_hash_is_costly_to_guess() -> None:
    """The parameters are those of RFC 9106 for machines with little memory: Argon2id, 64 MiB, three passes."""
    stored = password_hash("correct horse battery")
    assert stored.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    assert fits("correct horse battery", stored)


@pytest.mark.usefixtures("_real_hashes")
def test_an_unknown_name_takes_as_long_as_a_wrong_password() -> None:
    """The least time of several is the time without other processes."""
    stored = password_hash("correct horse battery")

    def least(hashed: str | None) -> float:
        def once() -> float:
            begin = time.process_time()
            fits("a wrong password", hashed)
            return time.process_time() - begin

        return min(once() for _ in range(5))

    least(None)
    known, unknown = least(stored), least(None)
    assert 0.5 < unknown / known < 2
