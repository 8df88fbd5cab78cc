"""Errors as problem documents (RFC 9457), and their statuses, which pages share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from starlette.responses import JSONResponse

from weft.errors import (
    CatalogUnreachable,
    Conflict,
    HomeClosed,
    LeaseBusy,
    LimitExceeded,
    NotAllowed,
    NotFound,
    Refused,
    WeftError,
)

MEDIA_TYPE: Final = "application/problem+json"
_KINDS: Final[tuple[tuple[type[WeftError], int, str], ...]] = (
    (NotFound, 404, "not found"),
    (NotAllowed, 403, "not allowed"),
    (Conflict, 409, "conflict"),
    (HomeClosed, 503, "unavailable"),
    (LeaseBusy, 503, "unavailable"),
    (CatalogUnreachable, 503, "unavailable"),
    (NotAllowed, 403, "not allowed"),
    (LimitExceeded, 422, "limit exceeded"),
    (Refused, 422, "refused"),
)
_RETRY_SECONDS: Final = "10"


def status_of(error: WeftError) -> int:
    """Return the status of the response for an error."""
    return next((status for kind, status, _ in _KINDS if isinstance(error, kind)), 500)


def problem_of(error: WeftError, named: Callable[[str], str] = str) -> dict[str, Any]:
    """Return the problem document of an error: its message, place, excerpt, hint and reasons.

    ``named`` changes the words of messages and hints, which name commands and options of the command line.
    """
    title = next((title for kind, _, title in _KINDS if isinstance(error, kind)), "failed")
    document = problem(status_of(error), title, named(error.message))
    reasons = [_parts(each, named) for each in error.reasons]
    return {**document, **_parts(error, named), **({"reasons": reasons} if reasons else {})}


def _parts(error: WeftError, named: Callable[[str], str]) -> dict[str, str]:
    parts = {
        "detail": named(error.message),
        "where": error.where,
        "excerpt": error.excerpt,
        "hint": error.hint and named(error.hint),
    }
    return {name: text for name, text in parts.items() if text}


def problem(status: int, title: str, detail: str, **more: object) -> dict[str, Any]:
    """Return a problem document."""
    kind = f"urn:weft:problem:{title.replace(' ', '-')}"
    return {"type": kind, "title": title, "status": status, "detail": detail, **more}


def problem_response(document: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """Return the response with a problem document."""
    status = int(document["status"])
    waiting = {"Retry-After": _RETRY_SECONDS} if status == 503 else {}
    return JSONResponse(dict(document), status, {**waiting, **(headers or {})}, MEDIA_TYPE)
