"""The command ``serve``."""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from weft.cli import INTERRUPTED
from weft.cli.frame import HomeOption, JsonOption, example, home_folder, opened
from weft.cli.printing import echo, print_json
from weft.cli.ticks import PollOption, keep_ticking, print_maintenance, print_retry
from weft.cli.troubles import run
from weft.errors import Refused
from weft.instants import parse_interval

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from weft.api.weft import Weft
    from weft.cli.server.server import LocalServer
    from weft.schedule.runner import Stop
    from weft.web.serving import Address

ColdOption = Annotated[
    bool,
    typer.Option(
        "--no-rehearsal",
        help="Do not rehearse after the start. A rehearsal ticks a small temporary home some twenty times while no "
        "command runs, so that Java compiles frequent code and later commands are fast.",
    ),
]

ReloadOption = Annotated[
    bool,
    typer.Option(
        "--reload",
        help="Make the running server finish its work and restart with this terminal's settings.",
    ),
]

HttpOption = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="[HOST:]PORT",
        help="Also serve a page for browsers, such as --http 8765 for http://127.0.0.1:8765/.",
    ),
]
CertificateOption = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="Serve the page over TLS with this certificate.")
]
KeyOption = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="The key of the certificate, in PEM format.")
]

_WARM = "Warm: commands no longer wait for Java's compilers."


def add_to(app: typer.Typer) -> None:
    """Register the command with ``app``.  The server runs its commands with the same application."""

    @app.command(epilog=example("weft serve --http 8765", "weft serve --home mine --poll 1m"))
    def serve(
        home: HomeOption = None,
        json: JsonOption = False,
        poll: PollOption = "10s",
        no_rehearsal: ColdOption = False,
        reload: ReloadOption = False,
        http: HttpOption = None,
        tls_cert: CertificateOption = None,
        tls_key: KeyOption = None,
    ) -> None:
        """Tick like `run`, and run the commands typed in other terminals for this home, with one warm Spark session.

        Ctrl-C or SIGTERM stops the server after the current tick and the running commands, which have 20 s to end; a
        second Ctrl-C stops it at once.

        With --http, the server also has a page for browsers, on this machine only.
        """
        if reload:
            _reload(home, json)
            return
        pace = parse_interval(poll)
        try:
            page = _page_address(http, tls_cert, tls_key)
            variables = _open(home, json, pace, lambda arguments: run(app, arguments), not no_rehearsal, page)
            if variables is not None:
                _restart(variables)
        except KeyboardInterrupt:
            # Exit immediately, because Python would wait for the running commands.  The next writer settles the
            # interrupted work.
            sys.stdout.flush()
            os._exit(INTERRUPTED)
        if not json:
            echo("Stopped without loss. Commands now run without the server.")


def _reload(home: Path | None, json: bool) -> None:
    from weft.cli.server import address
    from weft.cli.server.client import reload_server
    from weft.configuration import configuration

    folder = home_folder(home)
    variables = address.settings(os.environ)
    named = configuration(folder).smtp_password_env
    if named and os.environ.get(named):
        variables[named] = os.environ[named]
    process = reload_server(folder, variables)
    if json:
        print_json({"process": process, "variables": sorted(variables)})
    else:
        names = ", ".join(sorted(variables)) or "none but WEFT_HOME"
        echo(f"Process {process} serves {folder}, restarted with the variables of this terminal: {names}.")


def _restart(variables: Mapping[str, str]) -> NoReturn:
    from weft.cli.server import address
    from weft.runtime.session import stop_session

    stop_session()  # the JVM is a child of this process and would survive
    others = {name: value for name, value in os.environ.items() if name not in address.settings(os.environ)}
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**others, **variables})


def _page_address(http: str | None, certificate: Path | None, key: Path | None) -> Address | None:
    if http is None:
        if certificate or key:
            raise Refused("--tls-cert and --tls-key apply to the page", hint="Add --http [HOST:]PORT.")
        return None
    from weft.web.serving import read_address

    return read_address(http, certificate, key)


def _open(
    home: Path | None,
    json: bool,
    pace_us: int,
    line: Callable[[Sequence[str]], int],
    rehearse: bool,
    page: Address | None,
) -> Mapping[str, str] | None:
    """Return the environment variables for a restart, or None."""
    from weft.cli.server.listen import listening
    from weft.cli.server.server import LocalServer, serving
    from weft.demo import rehearsal
    from weft.schedule.runner import stopped_by_signals

    with opened(home) as weft, stopped_by_signals() as stop, listening(weft.home) as listener:
        server = LocalServer(weft, line, stop.ask)
        with serving(server, listener), _page(weft, page, json, server):
            server.warm(rehearsal.days if rehearse else None, lambda: None if json else echo(_WARM))
            _serve(weft, stop, pace_us, json)
    return server.reload


@contextmanager
def _page(weft: Weft, address: Address | None, json: bool, server: LocalServer) -> Iterator[None]:
    if address is None:
        yield
        return
    from weft.catalog.layout import page_key_file
    from weft.cli.server.door import command_route
    from weft.web.serving import page_served

    with page_served(weft, address, lambda site: [command_route(server, site)]) as served:
        if not json:
            echo(f"The page is at {served.opening}")
            if served.page_key is not None:
                echo(
                    "The home has no users: everybody with this address may do everything, so keep it secret. "
                    f"Programs send the key in {page_key_file(weft.home)}. `weft user add` adds people."
                )
        yield


def _serve(weft: Weft, stop: Stop, pace_us: int, json: bool) -> None:
    """With the replay clock, only maintain the home."""
    from weft.schedule.runner import Idle

    if not json:
        echo(f"Serving {weft.home} for commands from any terminal. Ctrl-C stops the server.")
    if weft.catalog.home().clock == "wall":
        keep_ticking(weft, stop, pace_us, json)
        return
    if not json:
        echo("The home has the replay clock: only `weft tick --now T` ticks it.")
    idle = Idle(weft.opened, partial(print_maintenance, weft, json), partial(print_retry, weft, json))
    while not stop.wished:
        if not idle.step(stop.cancel_token):
            stop.wait(pace_us)
