"""What all requests of one page share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Final

from weft.api.weft import Weft
from weft.web.jobs import Jobs

AREAS: Final = (("/queries", "Queries"), ("/tables", "Tables"))
"""The addresses and names of the areas in the order of the page's menu."""


@dataclass
class Site:
    """The page of one open home.

    ``hosts`` are the names under which browsers may reach the page (empty: any).  With ``tls``, cookies travel over
    TLS only.  ``secret`` signs what the page gives out.
    """

    weft: Weft
    hosts: frozenset[str] = frozenset()
    tls: bool = False
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    jobs: Jobs = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.weft.clock, self.weft.home / "logs")

    @property
    def areas(self) -> tuple[tuple[str, str], ...]:
        """The menu."""
        return AREAS
