"""init, config, prepare, doctor."""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.frame import HOME_VARIABLE, HomeOption, JsonOption, example, home_folder
from weft.cli.printing import plain, say, say_json, screen, table, working
from weft.errors import Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from weft.configuration.merge_settings import Setting


class ClockName(str, Enum):
    """A home's clock."""

    wall = "wall"
    replay = "replay"


def add_to(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command(epilog=example("weft init", "weft init history --clock replay"))(init)
    app.command(epilog=example("weft config", "weft config --json"))(config)
    app.command(epilog=example("weft prepare"))(prepare)
    app.command(epilog=example("weft doctor"))(doctor)


def init(
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="The home folder (default: $WEFT_HOME, else ./weft-home).")
    ] = None,
    clock: Annotated[
        ClockName | None,
        typer.Option(
            help="wall: time is now (the default); replay: time moves by `weft tick --now`, to replay a history."
        ),
    ] = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> None:
    """Make a home: the folder with tables, queries and answers."""
    from weft.api.weft import Weft

    made = home_folder(_named(folder, home))
    before = _mode(made)
    with Weft.open(made, clock=None if clock is None else clock.value, create=True) as weft:
        record = weft.catalog.home()
        if json:
            say_json({"home": str(made), "clock": record.clock, "id": record.home_id})
            return
        say(f"{made} is a home with the {record.clock} clock.")
        after = _mode(made)
        if before is not None and after != before:
            say(f"The permissions of the folder were {before:03o} and are now {after:03o} (setting home.access).")
        others = os.environ.get(HOME_VARIABLE)
        if others and os.path.realpath(others) != os.path.realpath(made):
            say(f"{HOME_VARIABLE} is {others}: other commands use that home unless they have --home {made}.")


def _mode(folder: Path) -> int | None:
    """The permissions of a folder; None: it does not exist."""
    return stat.S_IMODE(folder.stat().st_mode) if folder.exists() else None


def _named(folder: str | None, home: Path | None) -> Path | None:
    """The home that ``init`` names, by FOLDER or by --home; raises Refused where the two are different folders."""
    if folder == "":
        raise Refused("FOLDER is empty", hint="Name the home's folder: weft init mine")
    if folder is None or home is None or os.path.abspath(folder) == os.path.abspath(home):
        return home if folder is None else Path(folder)
    raise Refused(
        f"two homes are named: FOLDER is {folder!r}, --home is {str(home)!r}",
        hint=f"Name one of them: weft init {shlex.quote(folder)}",
    )


def config(home: HomeOption = None, json: JsonOption = False) -> None:
    """Show every setting: what holds, and where it was set: by a variable, in the home's weft.toml, or nowhere."""
    from weft.configuration import FILE, settings_of
    from weft.delivery.registry import default_channels

    folder = home_folder(home)
    default_channels(folder)
    found = _in_effect(folder, settings_of(folder))
    if json:
        say_json(
            [
                {"setting": each.key, "value": as_json(each.value), "from": each.origin, "variable": each.variable}
                for each in found
            ]
        )
        return
    rows = [
        (each.key, as_text(each.value), plain(each.origin.removeprefix(f"{folder}/")), each.variable or "")
        for each in found
    ]
    table(("setting", "value", "from", "variable"), rows)
    file = folder / FILE
    say(f"Settings of this home go into {file}" + ("." if file.exists() else ", which is not there yet."))


def _in_effect(home: Path, found: Sequence[Setting]) -> list[Setting]:
    """The settings with the values that are computed where none is set; their origin says so."""
    from weft.configuration import configuration
    from weft.delivery.registry import delta_root, files_root
    from weft.runtime.java import cache_folder
    from weft.runtime.settings import jvm_memory, local_master

    chosen = configuration(home)
    computed = {
        "cache": cache_folder(),
        "files.root": files_root(home),
        "delta.root": delta_root(home),
        "spark.master": local_master(),
        "spark.memory": jvm_memory(chosen),
        "smtp.port": chosen.mail_port,
    }
    return [
        replace(each, value=computed[each.key], origin="default, computed")
        if each.value is None and each.key in computed
        else each
        for each in found
    ]


def as_json(value: object) -> object:
    """A setting's value as JSON has it."""
    return str(value) if isinstance(value, Path) else value


def as_text(value: object) -> str:
    """A setting's value in a table."""
    if value is None or value == ():
        return "-"
    return plain(
        ", ".join(value) if isinstance(value, tuple) else f"{value:g}" if isinstance(value, float) else str(value)
    )


def prepare(json: JsonOption = False) -> None:
    """Make what commands start Spark from, once after an install: Delta's jars, and an archive of Java's classes."""
    from weft.demo.rehearsal import rehearse
    from weft.runtime.archiving import make_archive, wanted_archive

    with working("making the class-data archive (a minute or two; commands work meanwhile)"):
        outcome = make_archive(rehearse)
    archive = wanted_archive()
    file = None if archive is None else str(archive.file)
    if json:
        say_json({"outcome": outcome, "archive": file})
        return
    told = {
        "made": f"Made {file}.",
        "there": f"{file} is there already.",
        "elsewhere": "Another process is making it.",
        "cluster": "Spark runs on a cluster here: there is nothing to make.",
    }
    say(told[outcome])


def doctor(home: HomeOption = None, json: JsonOption = False) -> None:
    """Look whether Weft can run here: Python, Java, Spark, Delta, the home; with the fix where something is wrong."""
    from weft.cli.server.client import state
    from weft.delivery.registry import default_channels
    from weft.runtime.doctor import Check, examine
    from weft.schedule.clock import now_us

    well = True
    found = []
    folder = home_folder(home)
    for check in (*examine(folder, now_us(), default_channels), Check("server", *state(folder))):
        well = well and check.ok
        found.append({"name": check.name, "ok": check.ok, "seen": check.seen, "fix": check.fix})
        if not json:
            screen().print("ok  " if check.ok else "BAD ", style="green" if check.ok else "bold red", end="")
            fix = f" - {check.fix}" if check.fix and not check.ok else ""
            say(f"{check.name}: {check.seen}{fix}")
    if json:
        say_json(found)
    if not well:
        raise typer.Exit(1)
