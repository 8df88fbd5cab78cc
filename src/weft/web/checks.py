"""Check texts while people type: briefly, and one text of a person at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextvars import copy_context
from typing import Final, Generic, TypeVar

T = TypeVar("T")

_AT_ONCE: Final = 2
_PATIENCE_SECONDS: Final = 2.0
"""How long a request waits.  A text whose check takes longer is not checked while somebody types."""


class Checks(Generic[T]):
    """The checks of one page.  They take no thread of a request or of a job."""

    def __init__(self, patience: float = _PATIENCE_SECONDS) -> None:
        self._patience = patience
        self._running: set[str] = set()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(_AT_ONCE, "weft-check")

    def run(self, by: str, check: Callable[[], T]) -> T | None:
        """Return what ``check`` returns, or None if it takes too long or a check of the person ``by`` still runs."""
        with self._lock:
            if by in self._running:
                return None
            self._running.add(by)

        def checked() -> T:
            try:
                return check()
            finally:
                with self._lock:
                    self._running.discard(by)

        try:
            return self._threads.submit(copy_context().run, checked).result(self._patience)
        except TimeoutError:
            return None

    def close(self) -> None:
        """Begin no further check."""
        self._threads.shutdown(wait=False, cancel_futures=True)
