"""What all requests of one page share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from weft.api.weft import Weft
from weft.web.attempts import Attempts
from weft.web.jobs import Jobs
from weft.web.uploads import Uploads


@dataclass
class Site:
    """The page of one open home.

    ``hosts`` are the names under which browsers may reach the page (empty: any).  With ``tls``, cookies travel over
    TLS only.  If ``is_local`` is true, only this machine reaches the page.  ``secret`` signs what the page gives out.
    """

    weft: Weft
    hosts: frozenset[str] = frozenset()
    tls: bool = False
    is_local: bool = True
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    jobs: Jobs = field(init=False)
    uploads: Uploads = field(init=False)
    attempts: Attempts = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.weft.clock, self.weft.home / "logs")
        self.uploads = Uploads(self.weft.clock)
        self.attempts = Attempts(self.weft.clock)

    def close(self) -> None:
        """End the jobs, and delete the files that wait."""
        self.jobs.close()
        self.uploads.close()
