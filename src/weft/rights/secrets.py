"""Secrets that are shown once and stored as digests, and passwords."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from weft.errors import Refused

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST: Final = 10
"""The least number of characters of a password."""
_LONGEST: Final = 1_000
_AT_ONCE: Final = threading.BoundedSemaphore(4)
"""The passwords that are hashed at the same time.  Each takes 64 MiB."""


def new_secret() -> str:
    """Return a random secret of 256 bits, which fits into an address."""
    return secrets.token_urlsafe(32)


def digest_of(secret: str) -> str:
    """Return the form in which a random secret is stored.  It needs no salt, because nobody can guess the secret."""
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def signed(key: str, text: str) -> str:
    """Return ``text`` with a signature, in a form that fits into an address.

    >>> verified("k", signed("k", "17"))
    '17'
    >>> verified("another", signed("k", "17")) is None
    True
    """
    return f"{text}.{_signature(key, text)}"


def verified(key: str, token: str) -> str | None:
    """Return the text of a signed token, or None if the signature is wrong."""
    text, _, signature = token.rpartition(".")
    expected = _signature(key, text)
    return text if hmac.compare_digest(signature.encode(errors="replace"), expected.encode()) else None


def _signature(key: str, text: str) -> str:
    return hmac.new(key.encode(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()


def password_hash(password: str) -> str:
    """Return the hash of a new password.  Raise Refused if the password is too short or too long."""
    if len(password) < SHORTEST:
        raise Refused(
            f"the password has {len(password)} characters, but needs at least {SHORTEST}", hint="Choose a longer one."
        )
    if len(password) > _LONGEST:
        raise Refused(f"the password has more than {_LONGEST:,} characters", hint="Choose a shorter one.")
    with _AT_ONCE:
        return _hasher().hash(_bytes(password))


def fits(password: str, stored: str | None) -> bool:
    """Return whether the password has the stored hash.  Without a hash, take the same time and return False."""
    from argon2.exceptions import InvalidHashError, VerificationError

    nobody = _nobody()
    try:
        with _AT_ONCE:
            _hasher().verify(nobody if stored is None else stored, _bytes(password[: _LONGEST + 1]))
    except (VerificationError, InvalidHashError):
        return False
    return stored is not None


def _bytes(password: str) -> bytes:
    return password.encode(errors="surrogatepass")


@cache
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher

    return PasswordHasher()


@cache
def _nobody() -> str:
    return _hasher().hash(new_secret())
