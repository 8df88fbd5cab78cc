"""What all requests of one page share."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field

from starlette.requests import Request

from weft.api.weft import Weft
from weft.configuration import configuration
from weft.rights.secrets import new_secret
from weft.web.attempts import Attempts
from weft.web.checks import Checks
from weft.web.jobs import Jobs
from weft.web.uploads import Uploads


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, without the port.

    >>> host_name("LocalHost:8765"), host_name("[::1]:80")
    ('localhost', '[::1]')
    """
    name, colon, port = host.rpartition(":")
    return (name if colon and port.isdigit() else host).lower()


@dataclass
class Site:
    """The page of one open home.

    ``hosts`` are the names under which browsers may reach the page (empty: any).  With ``tls``, cookies travel over
    TLS only.  If ``is_local`` is true, only this machine reaches the page.  ``key`` opens the page of a home without
    users.  ``secret`` signs the tokens that the page issues.
    """

    weft: Weft
    hosts: frozenset[str] = frozenset()
    tls: bool = False
    is_local: bool = True
    key: str = field(default_factory=new_secret, repr=False)
    secret: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    jobs: Jobs = field(init=False)
    uploads: Uploads = field(init=False)
    attempts: Attempts = field(init=False)
    checks: Checks[tuple[object, ...]] = field(init=False)

    def __post_init__(self) -> None:
        self.jobs = Jobs(self.weft.clock, self.weft.home / "logs")
        self.uploads = Uploads(self.weft.clock)
        self.attempts = Attempts(self.weft.clock)
        self.checks = Checks()

    def is_key(self, given: str) -> bool:
        """Return whether a text is the key of the page."""
        return secrets.compare_digest(given.encode(errors="replace"), self.key.encode())

    def base(self, request: Request) -> str:
        """Return the beginning of links to the page, without a slash at the end.

        It is the public address of the settings.  Without one, it has the name of the host in the request only if the
        page is bound to this name, and otherwise the address at which the request arrived: anybody can send any name.
        """
        public = configuration(self.weft.home).web_url
        if public is not None:
            return public
        url = request.url
        if host_name(url.netloc) in self.hosts:
            return f"{url.scheme}://{url.netloc}"
        host, port = request.scope.get("server") or ("localhost", None)
        return f"{url.scheme}://{f'[{host}]' if ':' in host else host}{f':{port}' if port else ''}"

    def close(self) -> None:
        """End the jobs, and delete the files that wait."""
        self.jobs.close()
        self.uploads.close()
        self.checks.close()
